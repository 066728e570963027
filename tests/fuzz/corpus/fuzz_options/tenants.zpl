group = 1000
dataset
    train = /data/train
    val = /data/val
tenant
    vision = root, 1001,1002
    text = 4294967294
    keyed = -
tenant-datasets
    vision = train,val
    text = *
tenant-weight
    vision = 3
    operator = 2
tenant-jobs
    vision = 8
tenant-batches
    vision = 2G
tenant-cache
    vision = 4G
