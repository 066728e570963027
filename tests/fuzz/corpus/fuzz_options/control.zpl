listen = "x
