#!/bin/sh
#  Makes the keys of workers/kustomization.yaml in keys/ beside this script, once: of the servers (all have
#  the same) and of workers.  `tureen` must be on PATH.  Keep keys/ out of version control.
set -eu
umask 077

cd "$(dirname -- "$0")"
mkdir keys
for name in server worker; do
    tureen key new "keys/$name" >/dev/null
done
tureen key allow keys keys/worker --worker --name worker
