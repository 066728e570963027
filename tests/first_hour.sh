#!/bin/sh
#  A stranger's first hour: what people train with, as they install it, on the server of build/release.  The
#  packages are installed first.  Then each step's time is told, and how many ids came and how many had to.
#  It exits 0 if every step passes and leaves no server.
#
#      sh tests/first_hour.sh [FOLDER] [--only STEP]...
#
#      FOLDER    of the environment with the packages, which a later run finds again: /tmp/first_hour
#      STEP      tutorial lightning accelerate trainer asha pbt optuna notebook keras jax
#
#  It wants a built release (sh scripts/build.sh release) and python3-venv; PYTHON names another Python than
#  Debian's.  pip asks as it is set up: PIP_EXTRA_INDEX_URL may name an index that has PyTorch for the CPU
#  alone, which is much smaller.
set -eu

case ${1:-} in
--help | -h) sed -n '2,/^set/s/^#  \{0,1\}//p' "$0"; exit 0 ;;
esac
folder=/tmp/first_hour
case ${1:---} in
-*) ;;
*) folder=$1; shift ;;
esac
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
[ -x "$folder/bin/python" ] || "${PYTHON:-/usr/bin/python3}" -m venv "$folder"
#  A shell without job control ignores SIGINT for what it starts with &; a notebook is interrupted by it.
exec env --default-signal=HUP,INT,QUIT "$folder/bin/python" -B "$root/tests/first_hour/hour.py" "$@"
