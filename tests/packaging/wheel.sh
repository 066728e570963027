#!/bin/sh
#  The wheel and the sdist as users get them: built twice in clones of this repository, installed into empty
#  virtual environments of each Python from 3.9 to 3.13 that is here, and used.
#
#      sh tests/packaging/wheel.sh [--keep DIR]      DIR: for the wheel, the sdist and the SBOM
#
#  It tests what is committed.  It takes some ten minutes, and a network for NumPy, pyzmq, Pillow and PyTorch;
#  what it has to leave out it says.  Times are printed and not judged.  TORCH=none: without PyTorch's
#  download; TORCH="torch==2.13.0": with this one.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd -P)
root=$(CDPATH= cd -- "$here/../.." && pwd -P)
keep=
case ${1:-} in
--keep) keep=${2:?"--keep needs a folder"} ;;
?*) echo "wheel.sh: unknown argument '$1'" >&2; exit 2 ;;
esac
pyenv_versions=${PYENV_ROOT:-$HOME/.pyenv}/versions
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH TUREEN_SERVER TUREEN_ENDPOINT SOURCE_DATE_EPOCH
scratch=$(mktemp -d /tmp/tu-packaging.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0
size_max=15000000
commit=$(git -C "$root" rev-parse HEAD)

#  check NAME COMMAND...: shows the last line of its output, and all of it if it fails.  Returns 0 either way,
#  so that the next check runs; $worked tells.
check () {
    checked=$1 worked=
    shift
    if "$@" >"$scratch/output" 2>"$scratch/errors" </dev/null; then
        worked=yes
        passed=$((passed + 1))
        echo "ok        $checked: $(tail -n 1 "$scratch/output")"
    else
        failed=$((failed + 1))
        echo "FAILED    $checked"
        tail -n 40 "$scratch/output" "$scratch/errors" | sed 's/^/          /'
    fi
}

left_out () {
    skipped=$((skipped + 1))
    echo "LEFT OUT  $*"
}

finish () {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}

now () { date +%s.%N; }
since () { awk -v begun="$1" -v now="$(now)" 'BEGIN { printf "%.1f s", now - begun }'; }

#  In another folder, time zone, language and umask each time.
build () {
    git clone -q --no-checkout "$root" "$scratch/$1" && git -C "$scratch/$1" checkout -q --detach "$commit" &&
        sh "$scratch/$1/scripts/wheel.sh" "$scratch/dist-$1"
}
build_again () (
    umask 077
    TZ=Asia/Tokyo LC_ALL=C build a-longer-name
)
same () {
    for file in "$scratch"/dist-one/*; do
        cmp "$file" "$scratch/dist-a-longer-name/$(basename "$file")" || return 1
        sha256sum "$file" | sed "s|$scratch/dist-one/||"
    done
}
size () {
    bytes=$(stat -c %s "$wheel")
    echo "$bytes bytes, at most $size_max"
    [ "$bytes" -le $size_max ]
}

#  find_python 3.9: its executable; nothing if there is none.
find_python () {
    for path in "/usr/bin/python$1" "/usr/local/bin/python$1" "$pyenv_versions/$1".*/bin/python; do
        if [ -x "$path" ] && "$path" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$path"
            return
        fi
    done
}

#  A process without anything of this environment: no PATH with a `tureen`, no compiler, no libraries.
bare () { env -i PATH=/usr/bin:/bin HOME="$scratch" TMPDIR="$scratch" "$@"; }

in_python () {
    "$1" -m venv "$scratch/venv-$2" && "$scratch/venv-$2/bin/pip" install -q "$wheel" &&
        "$scratch/venv-$2/bin/pip" list --format=freeze | grep -v '^pip=\|^setuptools=' | xargs
}
use_python () {
    bin=$scratch/venv-$1/bin
    bare "$bin/tureen" --version | grep -F "$version" &&
        bare "$bin/python" -c "import tureen; assert tureen.__version__ == '$version'" &&
        bare "$bin/python" -m tureen.demo --numpy
}

#  Libraries of the same names, as conda and others put them before the system's, here with nothing in them.
strange_libraries () {
    mkdir -p "$scratch/strange"
    for library in libzmq.so.5 libjpeg.so.62 libcrypto.so.3 libz.so.1; do
        echo 'int strange;' | cc -shared -o "$scratch/strange/$library" -x c - || return 1
    done
    bare LD_LIBRARY_PATH="$scratch/strange" "$1/lib/python"*/site-packages/tureen/native/bin/tureen --version
}

#  from_nothing PYTHON: the three commands, and their times.
from_nothing () {
    begun=$(now)
    "$1" -m venv "$scratch/minute" || return 1
    first=$(since "$begun") second_begun=$(now)
    "$scratch/minute/bin/pip" install -q "$wheel" || return 1
    second=$(since "$second_begun") third_begun=$(now)
    bare TUREEN_ENDPOINT="ipc://$scratch/minute.sock" "$scratch/minute/bin/python" -c "
import tureen
with tureen.serve(train='$scratch/own') as server:
    batch = next(iter(tureen.Loader(dataset='train', batch_size=64)))
    print(batch['image'].shape)
" || return 1
    echo "python -m venv $first, pip install $second, serve and the first batch $(since "$third_begun");" \
        "together $(since "$begun")"
}

#  The bundled server has a libarchive that is linked in another way than everywhere else.
packs () {
    for kind in gz bz2 xz; do
        (cd "$scratch/own" && "$1/python" -c "
import tarfile
with tarfile.open('$scratch/own.tar.$kind', 'w:$kind') as archive:
    archive.add('night')") && bare "$1/tureen" pack "$scratch/own.tar.$kind" "$scratch/pack.$kind" || return 1
    done
    command -v zstd >/dev/null || return 0
    gzip -dc "$scratch/own.tar.gz" | zstd -q -o "$scratch/own.tar.zst" &&
        bare "$1/tureen" pack "$scratch/own.tar.zst" "$scratch/pack.zst"
}

#   ---- the files

check "the wheel is built" build one
[ -n "$worked" ] || finish
wheel=$(echo "$scratch"/dist-one/*.whl)
sdist=$(echo "$scratch"/dist-one/*.tar.gz)
version=$(basename "$sdist" .tar.gz)
version=${version#tureen-}
[ -z "$keep" ] || { mkdir -p "$keep" && cp "$scratch"/dist-one/* "$keep"; }
check "the wheel is built again" build_again
check "both builds have the same bytes" same
check "the wheel's size" size
check "its contents" /usr/bin/python3 -B "$here/wheel_contents.py" "$wheel" "$scratch/dist-one"

#   ---- offline, with Debian's packages

if /usr/bin/python3 -c 'import ensurepip, venv, zmq, numpy' 2>/dev/null; then
    debian=$scratch/venv-debian
    /usr/bin/python3 -m venv --system-site-packages "$debian"
    offline="$debian/bin/pip install --no-index -q"
    check "the sdist is built offline" $offline --no-build-isolation "$sdist"
    check "what was built of it works" bare "$debian/bin/python" -m tureen.demo --numpy
    check "the wheel takes its place" $offline --no-deps --force-reinstall "$wheel"
    check "the wheel beside Debian's packages" bare "$debian/bin/python" -B "$here/beside.py"
    check "libraries of the same names before its own" strange_libraries "$debian"
else
    left_out "the sdist offline: apt install python3-venv python3-zmq python3-numpy"
fi

#   ---- with a network

if ! /usr/bin/python3 -m pip download -q --no-deps -d "$scratch/probe" pyzmq >/dev/null 2>&1; then
    left_out "Python 3.9 to 3.13 in empty environments, and the times: no network that pip reaches pyzmq by"
    finish
fi
newest=
for number in 3.9 3.10 3.11 3.12 3.13; do
    python=$(find_python "$number")
    if [ -z "$python" ]; then
        left_out "Python $number: there is none here"
        continue
    fi
    check "Python $number, install" in_python "$python" "$number"
    [ -n "$worked" ] || continue
    check "Python $number, use" use_python "$number"
    newest=$python of_newest=$scratch/venv-$number/bin/python
done
[ -n "$newest" ] || finish
"$of_newest" -c "from tureen.demo import make_pictures; make_pictures('$scratch/own', 500)"
check "its server packs compressed tar files" packs "${of_newest%/python}"
check "three commands from nothing to the first batch of 500 images" from_nothing "$newest"

#  With what pip brings: each of these has a libjpeg, a libzmq, an OpenMP ... of its own.  A new Python has to
#  wait for its PyTorch, so not the newest.
python=$(find_python 3.11)
torch=${TORCH:-torch}
[ "$torch" != none ] || torch=
bin=$scratch/beside/bin
"${python:-$newest}" -m venv "$scratch/beside"
"$bin/pip" install -q "$wheel" Pillow 2>/dev/null || left_out "pip's Pillow: it cannot be installed"
if [ -n "$torch" ] && ! "$bin/pip" install -q "$torch" 2>/dev/null; then
    left_out "pip's $torch: it cannot be installed"
    torch=
fi
check "the wheel beside pip's packages" bare "$bin/python" -B "$here/beside.py"
[ -z "$torch" ] || check "the demo in PyTorch" bare "$bin/python" -m tureen.demo
finish
