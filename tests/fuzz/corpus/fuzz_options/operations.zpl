dataset
    train = /data/train
operation
    slow = "/usr/bin/slow --fast"
    other = /bin/x
