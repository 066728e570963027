dataset
  a = /x
