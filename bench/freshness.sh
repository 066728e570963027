#!/bin/sh
#  Records the orders of many mixes of jobs on live servers, and judges each mix by `tureen audit`.
#
#      sh bench/freshness.sh [--mixes N | --subsets] [--samples N,N...] [--seed S] [--only TEXT]
#                            [--epoch SECONDS] [--keep]
#
#      --mixes N          how many mixes of jobs, cache, shared stage and source (100, which take about a
#                         quarter of an hour)
#      --subsets          the mixes of jobs on random halves of a folder instead, all 18, which draw along
#                         common passes; they are judged by `tureen audit --held` too
#      --samples N,N...   sizes of the data set, in turn (600,1000,4000; with --subsets 600,1000)
#      --seed S           which mixes are taken, of all there are (1)
#      --only TEXT        only mixes with TEXT in their name, as in "8 staggered" or "pack"
#      --epoch SECONDS    how long an epoch of the fastest job lasts, as far as the machine keeps up (0.5)
#      --keep             keep logs and the delivered ids, and say where they are
#
#  Prints a line a mix: preparations a delivery, the highest phi2 of each lag, the range of t5h5, pair-repeat.
#  Exit status 0: each epoch of each job had each sample once, and all orders were fresh at lags 1 to 6;
#  1: not so.
set -eu

. "$(dirname -- "$0")/runner.sh"
makes_data=yes

options=
only=
while [ $# -gt 0 ]; do
    case $1 in
    --mixes | --samples | --seed | --epoch)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        case $2 in '' | *[!0-9,.]*) wrong "$1 takes numbers, not '$2'" ;; esac
        options="$options $1 $2"
        shift 2 ;;
    --only)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        only=$2
        shift 2 ;;
    --subsets) options="$options --subsets"; shift ;;
    --keep) keep=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "freshness.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    esac
done

prepare
#  Options are single words.
# shellcheck disable=SC2086
run soak freshness $options --only "$only"
exit "$status"
