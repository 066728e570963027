#!/bin/sh
#  Shows one training job over three nodes, and a fourth machine that lends them its processors and dies in
#  the middle.  Each machine is a network namespace (which needs root, and a kernel that allows it), each node
#  has a server of its own.  Prints whether each sample came once, the steps, what was read, and what the
#  lending machine did.
#
#      sh bench/demo/cluster.sh [--data DIR] [--keep]
#
#      --data DIR   your own ImageFolder of JPEGs; otherwise 3,000 are made in build/demo-data (and stay
#                   there)
#      --keep       keep logs and the delivered ids, and say where they are
set -eu

. "$(dirname -- "$0")/../runner.sh"
root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd -P)

while [ $# -gt 0 ]; do
    case $1 in
    --data)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        data=$2
        shift 2 ;;
    --keep) keep=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "cluster.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    esac
done

prepare
run demo cluster
exit "$status"
