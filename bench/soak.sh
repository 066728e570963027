#!/bin/sh
#  Many clients of every kind on one server, for a long time: killed, stopped, restarted, joining and leaving at random.
#
#      sh bench/soak.sh [--minutes M] [--clients N] [--seed S] [--data DIR] [--tenants N] [--aborts SECONDS] [--keep]
#
#      --minutes M        how long (30)
#      --clients N        at once (32)
#      --seed S           of all that is random (drawn, and printed)
#      --data DIR         your own ImageFolder of JPEGs; otherwise 3,000 are made in build/demo-data (and stay there)
#      --tenants N        divide the clients among N users, each a tenant (as root only; 1)
#      --aborts SECONDS   the server runs supervised, and is aborted every so often (never)
#      --keep             keep logs and the delivered ids, and say where they are
#
#  Exit status 0: every survivor had every sample exactly once an epoch, the server's memory and descriptors stayed flat,
#  and nothing was left behind.  1: not so; the table says what.
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH

usage () {
    sed -n '2,/^set/s/^#  \{0,1\}//p' "$0"
}

data= keep= options=
while [ $# -gt 0 ]; do
    case $1 in
    --minutes | --clients | --seed | --tenants | --aborts)
        [ $# -ge 2 ] || { echo "soak.sh: $1 needs a value" >&2; exit 2; }
        case $2 in '' | *[!0-9.]*) echo "soak.sh: $1 takes a number, not '$2'" >&2; exit 2 ;; esac
        options="$options $1 $2"
        shift 2 ;;
    --data)
        [ $# -ge 2 ] || { echo "soak.sh: $1 needs a value" >&2; exit 2; }
        data=$2
        shift 2 ;;
    --keep) keep=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "soak.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    esac
done
if [ -n "$data" ]; then
    [ -d "$data" ] || { echo "soak.sh: no folder '$data'" >&2; exit 2; }
    data=$(CDPATH= cd -- "$data" && pwd -P)
fi

cd "$root"
sh scripts/install-packages.sh build test demo
sh scripts/build.sh release tureen
if [ -z "$data" ]; then
    data=$root/build/demo-data
    /usr/bin/python3 bench/make_photographs.py --out "$data"
fi

#  A socket's path has at most 107 bytes.
base=${TMPDIR:-/tmp}
[ ${#base} -le 60 ] || base=/tmp
directory=$(mktemp -d "$base/tureen-soak.XXXXXX")
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

#  Its options are single words of digits.
# shellcheck disable=SC2086
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/soak.py --data "$data" --binary build/release/bin/tureen \
    --directory "$directory" $options &
python=$!
status=0
wait "$python" || status=$?
exit "$status"
