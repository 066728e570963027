dataset
    train = /data/train
tenant
    a = 1,2
    b = 3,2
