dataset
    train = /data/train
field
    val.x = mask:/d
