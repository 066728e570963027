dataset
    train = /data/train
tenant
    a = nobody-has-this-name,,
tenant-datasets
    a = train,what
    c = *
