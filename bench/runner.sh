#  What demo.sh, soak.sh, hostile.sh and freshness.sh share; they read it with `.` after `set -eu`, and set
#  keep and data from their arguments.  makes_data: the Python program makes its own data.

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH
program=${0##*/}
data= keep= made= makes_data=

#  The comment at the script's head.
usage () {
    sed -n '2,/^set/s/^#  \{0,1\}//p' "$0"
}

wrong () {
    echo "$program: $1" >&2
    exit 2
}

#  Packages, the server, and data if none were given; in the repository from then on.
prepare () {
    case $data in
    "" | s3://*) ;;                     #  the server finds out what is there
    *)  [ -d "$data" ] || wrong "no folder '$data'"
        data=$(CDPATH= cd -- "$data" && pwd -P) ;;
    esac
    cd "$root"
    sh scripts/install-packages.sh build test demo
    sh scripts/build.sh release tureen
    if [ -z "$data$makes_data" ]; then
        data=$root/build/demo-data
        /usr/bin/python3 bench/demo/make_photographs.py --out "$data"
        made=yes
    fi
}

directory= python=
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

#  run FOLDER NAME [OPTION...]: bench/FOLDER/NAME.py on the data, in a folder that goes afterwards.  Sets
#  status.
run () {
    #  A socket's path has at most 107 bytes.
    base=${TMPDIR:-/tmp}
    [ ${#base} -le 60 ] || base=/tmp
    directory=$(mktemp -d "$base/tureen-$2.XXXXXX")
    trap clean_up EXIT
    trap 'stop 130' INT
    trap 'stop 143' TERM
    trap 'stop 129' HUP
    program_folder=$1 name=$2
    shift 2
    PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "bench/$program_folder/$name.py" ${data:+--data "$data"} \
        --binary build/release/bin/tureen \
        --directory "$directory" "$@" &
    python=$!
    status=0
    wait "$python" || status=$?
}
