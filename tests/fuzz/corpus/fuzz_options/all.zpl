# all
listen = "ipc:///run/tureen/server.sock"  # here
cache = 4G
workers = 8
policy = dsa
dataset
    train = /data/train
    val = '/data/#val'
