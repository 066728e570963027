dataset
    a = /x
chace = 1M
