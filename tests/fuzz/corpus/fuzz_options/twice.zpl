cache = 1M
cache = 1M
