dataset
    train = /data/train
open = 1
keys = /etc/tureen/keys
