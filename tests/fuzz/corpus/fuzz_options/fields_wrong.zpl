dataset
    train = /data/train
field
    train.depth = mask:/d
    train.depth = file:/e
