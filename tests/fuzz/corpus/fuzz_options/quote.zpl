listen = "x
