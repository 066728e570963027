dataset
    train = /data/train
operation
    slow = /bin/a
    slow = /bin/b
