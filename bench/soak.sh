#!/bin/sh
#  Many clients of every kind on one server, for a long time: killed, stopped, restarted, joining and leaving
#  at random.
#
#      sh bench/soak.sh [--minutes M] [--clients N] [--seed S] [--data DIR] [--tenants N] [--aborts SECONDS]
#                       [--keep]
#
#      --minutes M        how long (30)
#      --clients N        at once (32)
#      --seed S           of all that is random (drawn, and printed)
#      --data DIR         your own ImageFolder of JPEGs; otherwise 3,000 are made in build/demo-data (and stay
#                         there)
#      --tenants N        divide the clients among N users, each a tenant (as root only; 1)
#      --aborts SECONDS   the server runs supervised, and is aborted every so often (never)
#      --keep             keep logs and the delivered ids, and say where they are
#
#  Exit status 0: every survivor had every sample exactly once an epoch, the server's memory and descriptors
#  stayed flat, and nothing was left behind.  1: not so; the table says what.
set -eu

. "$(dirname -- "$0")/runner.sh"

options=
while [ $# -gt 0 ]; do
    case $1 in
    --minutes | --clients | --seed | --tenants | --aborts)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        case $2 in '' | *[!0-9.]*) wrong "$1 takes a number, not '$2'" ;; esac
        options="$options $1 $2"
        shift 2 ;;
    --data)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        data=$2
        shift 2 ;;
    --keep) keep=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "soak.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    esac
done

prepare
#  Options are single words.
# shellcheck disable=SC2086
run soak soak $options
exit "$status"
