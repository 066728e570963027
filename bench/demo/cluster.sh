#!/bin/sh
#  Shows one training job over three nodes, and a fourth machine that lends them its processors and dies in
#  the middle.  Each machine is a network namespace (which needs root, and a kernel that allows it), each node
#  has a server of its own.  Prints whether each sample came once, the steps, what was read, and what the
#  lending machine did.
#
#      sh bench/demo/cluster.sh [--peers] [--data DIR] [--keep]
#
#      --peers      the data lie in an object store on a machine of its own, and the nodes keep its blocks for
#                   each other on their local disks, .5 of them each: prints what the store sent in each epoch
#      --data DIR   your own ImageFolder of JPEGs; otherwise 3,000 are made in build/demo-data (and stay
#                   there)
#      --keep       keep logs and the delivered ids, and say where they are
set -eu

. "$(dirname -- "$0")/../runner.sh"
root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd -P)

peers=
while [ $# -gt 0 ]; do
    case $1 in
    --data)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        data=$2
        shift 2 ;;
    --keep) keep=yes; shift ;;
    --peers) peers=--peers; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "cluster.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    esac
done

prepare
run demo cluster $peers
exit "$status"
