#!/bin/sh
#  Builds the container image of this commit: a root file system of Debian's packages and of Tureen's, and
#  share/container/Containerfile upon it.  No registry and no builder take part.
#
#      sh scripts/image.sh [--out DIR] [--debs DIR]
#
#  --out DIR    build/image: rootfs.tar, the image (`podman load -i`, `docker load -i`) and a list of what
#               is in it (SBOM, CycloneDX)
#  --debs DIR   what scripts/deb.sh has built; without it, it is built
#
#  Two builds of one commit from the same packages are the same bytes.  Needs the packages of
#  `sh scripts/install-packages.sh build packaging`, and root or user namespaces.
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
out=$root/build/image debs=
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH LC_ALL=C.UTF-8 TZ=UTC
export PATH LC_ALL TZ
umask 022

fail () {
    echo "image.sh: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --out) out=${2:?"image.sh: --out needs a folder"}; shift 2 ;;
    --debs) debs=${2:?"image.sh: --debs needs a folder"}; shift 2 ;;
    *) fail "there is no '$1'; usage: sh scripts/image.sh [--out DIR] [--debs DIR]" ;;
    esac
done
for tool in mmdebstrap dpkg-scanpackages python3; do
    command -v $tool >/dev/null || fail "there is no $tool: sh scripts/install-packages.sh build packaging"
done
mkdir -p "$out"
out=$(CDPATH= cd -- "$out" && pwd -P)

scratch=$(mktemp -d "${TMPDIR:-/tmp}/tureen-image.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$scratch"
if [ -z "$debs" ]; then
    debs=$scratch/debs
    sh "$root/scripts/deb.sh" --out "$debs" >"$scratch/log" || fail "the packages could not be built"
fi
set -- "$debs"/tureen_*.deb
[ $# -eq 1 ] && [ -f "$1" ] || fail "$debs: expected one tureen_VERSION_ARCHITECTURE.deb (sh scripts/deb.sh)"
version=$(dpkg-deb --field "$1" Version) architecture=$(dpkg-deb --field "$1" Architecture)
SOURCE_DATE_EPOCH=$(sh "$root/scripts/version.sh" time)
export SOURCE_DATE_EPOCH

#  apt takes the package from a folder that looks like an archive, and Debian's from where this machine does.
mkdir "$scratch/archive"
cp "$1" "$scratch/archive/"
(cd "$scratch/archive" && dpkg-scanpackages . >Packages 2>"$scratch/log") || fail "$(cat "$scratch/log")"
sh "$root/scripts/debian/sources.sh" >"$scratch/sources.list"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")

echo "image.sh: a root file system for $1" >&2
#  What the server needs, and no more: no apt, no manuals.  Nothing in it has more rights than its user, nor
#  tells of the machine that has built it.
rm -f "$out/rootfs.tar"
if ! mmdebstrap --quiet --variant=essential --include=tureen,ca-certificates \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' --skip=output/dev \
    --customize-hook='rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*' \
    --customize-hook=': >"$1/etc/hostname"; : >"$1/etc/resolv.conf"' \
    --customize-hook='mkdir -p "$1/data"' \
    --customize-hook='find "$1" -xdev -type f -perm /6000 -exec chmod a-s {} +' \
    "$suite" "$out/rootfs.tar" "$scratch/sources.list" "deb [trusted=yes] copy:$scratch/archive ./" \
    >"$scratch/log" 2>&1; then
    tail -n 40 "$scratch/log" >&2
    fail "mmdebstrap failed; its last lines stand above"
fi
#  mmdebstrap leaves these out.  Runners mount something there, which a read-only root must have a place for.
mkdir -p "$scratch/more/dev" "$scratch/more/run/tureen"
chmod 700 "$scratch/more/run/tureen"
append () {
    tar --append --file "$out/rootfs.tar" --format=pax --pax-option=delete=atime,delete=ctime \
        --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner --no-recursion -C "$scratch/more" "$@"
}
append --owner=0 --group=0 ./dev
append --owner=1000 --group=1000 ./run/tureen
chmod 644 "$out/rootfs.tar"
rm -f "$out"/tureen-image_*
image=$out/tureen-image_${version}_$architecture
/usr/bin/python3 -B "$root/scripts/debian/image_archive.py" "$root/share/container/Containerfile" \
    "$out/rootfs.tar" "$version" "$image.tar"
/usr/bin/python3 -B "$root/scripts/debian/sbom.py" image "$version" "$out/rootfs.tar" >"$image.cdx.json"
ls "$out"/*
