#!/bin/sh
#  Installs, builds, makes a data set and shows five training jobs on one server, and what sharing saves.
#
#      sh bench/demo.sh [--data DIR] [--rate R] [--http [ADDRESS:]PORT] [--disk] [--keep]
#
#      --data DIR   your own ImageFolder of JPEGs, or s3://BUCKET/PREFIX (docs/stores.md); otherwise 3,000
#                   are made in build/demo-data (and stay there)
#      --rate R     samples a second of a job at full speed; otherwise what suits this machine
#      --http PORT  show at http://127.0.0.1:PORT/ what the server does, while the demo runs
#      --disk       the server keeps the data on the local disk, in a folder that goes afterwards; a second
#                   server runs the jobs once more from there
#      --keep       keep logs and the delivered ids, and say where they are
set -eu

. "$(dirname -- "$0")/runner.sh"

rate= http= disk=
while [ $# -gt 0 ]; do
    case $1 in
    --data | --rate | --http)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        case $1 in --data) data=$2 ;; --rate) rate=$2 ;; *) http=$2 ;; esac
        shift 2 ;;
    --disk) disk=yes; shift ;;
    --keep) keep=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "demo.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    esac
done

prepare
run demo demo ${rate:+--rate "$rate"} ${http:+--http "$http"} ${disk:+--disk}
[ -z "$made" ] || echo "the generated data set stays in build/demo-data"
exit "$status"
