datcais no ZPLis no ZPLce 1M
