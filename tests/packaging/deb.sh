#!/bin/sh
#  Builds the Debian packages three times, and tests them in a clean Debian 12: they install with their
#  dependencies, serve and are read from, are upgraded under running jobs, and are purged without a trace.
#
#      sh tests/packaging/deb.sh
#
#  Needs root, the archive that apt uses here, and `sh scripts/install-packages.sh build test packaging`.
#  Ends with 77 where one of these is missing: then nothing was tested.  --built DIR NEWER takes packages that
#  were built before, and compares no builds.
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd -P)
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH

skip () {
    echo "SKIPPED, nothing was tested: $*"
    exit 77
}

[ "$(id -u)" -eq 0 ] || skip "a Debian in a folder needs root"
for tool in debootstrap unshare nsenter dpkg-buildpackage dh lintian cc; do
    command -v "$tool" >/dev/null || skip "no $tool: sh scripts/install-packages.sh build test packaging"
done
/usr/bin/python3 -c 'import PIL, numpy, zmq' 2>/dev/null || skip "no Pillow, NumPy or pyzmq: " \
    "sh scripts/install-packages.sh test"
sources=$(sh "$root/scripts/debian/sources.sh") || skip "no archive of Debian"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tu-packaging.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mirror=$(printf '%s\n' "$sources" | sed -n 's/^deb \([^ ]*\) [a-z]* main$/\1/p' | head -n 1)
suite=$(printf '%s\n' "$sources" | sed -n 's/^deb [^ ]* \([a-z]*\) main$/\1/p' | head -n 1)
if ! debootstrap --variant=minbase --print-debs "$suite" "$scratch/probe" "$mirror" >"$scratch/log" 2>&1; then
    tail -n 3 "$scratch/log"
    skip "debootstrap cannot reach $mirror"
fi

if [ "${1:-}" = --built ]; then
    older=$2 newer=$3
else
    older=$scratch/older newer=$scratch/newer
    #  Another folder, and another length of its path: neither is in the packages.
    mkdir -p "$scratch/a-longer-name-to-build-in"
    sh "$root/scripts/deb.sh" --out "$older"
    TMPDIR=$scratch/a-longer-name-to-build-in sh "$root/scripts/deb.sh" --out "$scratch/again" >/dev/null
    for file in "$older"/*.deb "$older"/*.cdx.json; do
        cmp "$file" "$scratch/again/$(basename "$file")"
    done
    echo "two builds of one commit are the same bytes"
    sh "$root/scripts/deb.sh" --suffix 1 --out "$newer" >/dev/null
fi
#  Fails on an error; warnings are shown.
lintian --allow-root --fail-on error "$older"/*.changes
echo "lintian has no error"
/usr/bin/python3 -B "$root/tests/packaging/debian_packages.py" "$older" "$newer" -v
