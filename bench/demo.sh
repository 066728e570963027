#!/bin/sh
#  Installs, builds, makes a data set and shows five training jobs on one server, and what sharing saves.
#
#      sh bench/demo.sh [--data DIR] [--rate R] [--keep]
#
#      --data DIR   your own ImageFolder of JPEGs; otherwise 3,000 are made in build/demo-data (and stay there)
#      --rate R     samples a second of a job at full speed; otherwise what suits this machine
#      --keep       keep logs and the delivered ids, and say where they are
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH

usage () {
    sed -n '2,/^set/s/^#  \{0,1\}//p' "$0"
}

data= rate= keep=
while [ $# -gt 0 ]; do
    case $1 in
    --data | --rate)
        [ $# -ge 2 ] || { echo "demo.sh: $1 needs a value" >&2; exit 2; }
        if [ "$1" = --data ]; then data=$2; else rate=$2; fi
        shift 2 ;;
    --keep) keep=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "demo.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    esac
done
if [ -n "$data" ]; then
    [ -d "$data" ] || { echo "demo.sh: no folder '$data'" >&2; exit 2; }
    data=$(CDPATH= cd -- "$data" && pwd -P)
fi

cd "$root"
sh scripts/install-packages.sh build test demo
sh scripts/build.sh release tureen
if [ -z "$data" ]; then
    data=$root/build/demo-data
    /usr/bin/python3 bench/make_photographs.py --out "$data"
    made=yes
else
    made=
fi

#  A socket's path has at most 107 bytes.
base=${TMPDIR:-/tmp}
[ ${#base} -le 60 ] || base=/tmp
directory=$(mktemp -d "$base/tureen-demo.XXXXXX")
python=
clean_up () {
    if [ -n "$keep" ]; then
        echo "kept: $directory"
    else
        rm -rf "$directory"
    fi
}
#  Python ends its children itself; the shell passes a signal on, waits for that, and removes the folder.
stop () {
    trap '' INT TERM HUP
    [ -z "$python" ] || { kill -TERM "$python" 2>/dev/null || true; wait "$python" || true; }
    exit "$1"
}
trap clean_up EXIT
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP

PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/demo.py --data "$data" \
    --binary build/release/bin/tureen --directory "$directory" ${rate:+--rate "$rate"} &
python=$!
status=0
wait "$python" || status=$?
[ -z "$made" ] || echo "the generated data set stays in build/demo-data"
exit "$status"
