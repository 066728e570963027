#!/bin/sh
#  Compares Tureen with other loaders on the same photographs, with 1, 4 and 8 jobs.
#
#      sh bench/peers/run.sh [--data DIR] [OPTION...]
#
#      --data DIR    an ImageFolder of JPEGs; otherwise 3,000 are made in build/demo-data (and stay there)
#      others        see bench/peers/peers.py --help
#
#  The other loaders are installed from PyPI into a virtual environment in build/peers (some 3 GB with PyTorch
#  and TensorFlow); FFCV is compiled from its source there.  What cannot be installed is named and left out.
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd -P)
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH
data=
case ${1:-} in
--help | -h) sed -n '2,/^set/s/^#  \{0,1\}//p' "$0"; exit 0 ;;
--data)
    [ $# -ge 2 ] && [ -d "$2" ] || { echo "run.sh: --data needs a folder" >&2; exit 2; }
    data=$(CDPATH= cd -- "$2" && pwd -P)
    shift 2 ;;
esac

sh "$root/scripts/install-packages.sh" build demo peers
sh "$root/scripts/build.sh" release tureen
if [ -z "$data" ]; then
    data=$root/build/demo-data
    /usr/bin/python3 "$root/bench/demo/make_photographs.py" --out "$data"
fi

environment=$root/build/peers
if [ ! -e "$environment/complete" ]; then
    /usr/bin/python3 -m venv --clear "$environment"
    #  Each line by itself, so that one that cannot be installed leaves the others.
    while read -r packages; do
        case $packages in '' | '#'*) continue ;; esac
        echo "installing $packages"
        "$environment/bin/pip" install --quiet --disable-pip-version-check $packages ||
            echo "could not be installed: $packages" >&2
    done <"$root/bench/peers/packages.txt"
    touch "$environment/complete"
fi
#  A peer's processes outlive an interrupt, which ends this shell; Python clears them away.
exec "$environment/bin/python" "$root/bench/peers/peers.py" --data "$data" "$@"
