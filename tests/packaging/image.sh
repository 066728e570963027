#!/bin/sh
#  Builds the container image twice, and tests it: a server and two clients run in three containers over one
#  folder, without root, with a read-only root.
#
#      sh tests/packaging/image.sh
#
#  Needs the archive that apt uses here, and `sh scripts/install-packages.sh build test packaging`.  Ends with
#  77 where one of these is missing, or no runner works: then nothing was tested.  RUNNER=podman or
#  RUNNER=bubblewrap chooses one.  --built DIR takes an image that was built before, and compares no builds.
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd -P)
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH

skip () {
    echo "SKIPPED, nothing was tested: $*"
    exit 77
}

for tool in mmdebstrap dpkg-buildpackage dh; do
    command -v "$tool" >/dev/null || skip "no $tool: sh scripts/install-packages.sh build test packaging"
done
/usr/bin/python3 -c 'import PIL, numpy, zmq' 2>/dev/null ||
    skip "no Pillow, NumPy or pyzmq: sh scripts/install-packages.sh test"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tu-packaging.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$scratch"

if [ "${1:-}" = --built ]; then
    image=$2
else
    sources=$(sh "$root/scripts/debian/sources.sh") || skip "no archive of Debian"
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    if ! printf '%s\n' "$sources" | mmdebstrap --quiet --simulate --variant=essential "$suite" \
        "$scratch/probe" - >"$scratch/log" 2>&1; then
        tail -n 3 "$scratch/log"
        skip "mmdebstrap cannot work here, or reaches no archive"
    fi
    image=$scratch/image
    sh "$root/scripts/deb.sh" --out "$scratch/debs" >/dev/null
    sh "$root/scripts/image.sh" --debs "$scratch/debs" --out "$image"
    sh "$root/scripts/image.sh" --debs "$scratch/debs" --out "$scratch/again" >/dev/null
    for file in "$image"/*; do
        cmp "$file" "$scratch/again/$(basename "$file")"
    done
    echo "two builds of one commit are the same bytes"
fi
/usr/bin/python3 -B "$root/tests/packaging/image_in_containers.py" "$image" -v
