#  Settings of the server that tureen.service starts: systemctl enable --now tureen.
#  `tureen serve --help` explains each by the same name, docs/operations.md in detail.  A line that begins
#  with # is a comment.  The server needs at least one data set, which the user tureen may read.

#  Clients set TUREEN_ENDPOINT=ipc:///run/tureen/server.sock.
listen = "ipc:///run/tureen/server.sock"

#  Members of this group reach the socket: usermod -a -G tureen anna.
group = tureen

#  Memory, which the server divides: what mixing and prepared samples do not need keeps the data's bytes, so that an
#  epoch reads only what does not fit.  Batches of jobs come beside it.
#memory = 48G

#  Or memory for prepared samples alone; without either a quarter of what the server may use.
#cache = 24G

#  What is read of object stores and network file systems is kept in this folder of the local disk, which never takes
#  more than so many bytes.  The user tureen owns it; the unit makes /var/cache/tureen.
#disk = "/var/cache/tureen=200G"

#dataset
#    train = /data/imagenet/train
#    val = /data/imagenet/val

#  The users of each tenant share what the server has; a user in no tenant is not served.
#tenant
#    vision = anna
#tenant-datasets
#    vision = *
