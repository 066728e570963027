dataset
    train = /data/train
field
    train.depth = mask:/data/depth
    train.tokens = file:/data/tokens
    train.other = image:/o
extensions
    train = .wav,.flac
