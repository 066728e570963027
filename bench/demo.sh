#!/bin/sh
#  Installs, builds, makes a data set and shows five training jobs on one server, and what sharing saves.
#
#      sh bench/demo.sh [--data DIR] [--rate R] [--keep]
#
#      --data DIR   your own ImageFolder of JPEGs, or s3://BUCKET/PREFIX (docs/stores.md); otherwise 3,000
#                   are made in build/demo-data (and stay there)
#      --rate R     samples a second of a job at full speed; otherwise what suits this machine
#      --keep       keep logs and the delivered ids, and say where they are
set -eu

. "$(dirname -- "$0")/runner.sh"

rate=
while [ $# -gt 0 ]; do
    case $1 in
    --data | --rate)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        if [ "$1" = --data ]; then data=$2; else rate=$2; fi
        shift 2 ;;
    --keep) keep=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "demo.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    esac
done

prepare
run demo demo ${rate:+--rate "$rate"}
[ -z "$made" ] || echo "the generated data set stays in build/demo-data"
exit "$status"
