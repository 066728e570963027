#!/bin/sh
#  Pixels, boxes, damaged files and translated transforms beside the torchvision and the Pillow of any Python,
#  such as PyPI's newest; CI compares with Debian's.  All of it takes some ten minutes.
#
#      sh tests/parity.sh PYTHON [all | short]
#
#      PYTHON    has torch, torchvision, Pillow, NumPy and pyzmq; nothing is installed into it
#      short     fewer photographs, sizes and draws
#
#  The server is that of build/release, or the one in TUREEN_BIN.
set -eu

case ${1:---help} in
--help | -h) sed -n '2,/^set/s/^#  \{0,1\}//p' "$0"; exit 0 ;;
esac
python=$1
extent=${2:-all}
TUREEN_SOURCE=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
TUREEN_BIN=${TUREEN_BIN:-$TUREEN_SOURCE/build/release/bin}
export TUREEN_SOURCE TUREEN_BIN
cd "$TUREEN_SOURCE"

"$python" -c 'import PIL, numpy, torch, torchvision, zmq
print("torch", torch.__version__, "torchvision", torchvision.__version__, "Pillow", PIL.__version__)'
failed=
run () {
    echo "==== $*"
    "$python" -W ignore -B "$@" || failed="$failed $1"
}
run tests/decode/test_parity.py "$TUREEN_BIN/tureen" "$extent"
run tests/decode/test_parity_files.py "$TUREEN_BIN/tureen"
run tests/decode/test_augment.py "$TUREEN_BIN/tureen" "$extent"
run tests/clients/test_python_transforms.py
run tests/clients/test_python_conversion.py
run tests/clients/test_torch_scripts.py
run tests/system/test_system_boxes.py
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
