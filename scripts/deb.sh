#!/bin/sh
#  Builds the Debian packages of this commit into a folder, with a list of what is in them (SBOM, CycloneDX).
#
#      sh scripts/deb.sh [--out DIR] [--suffix TEXT]
#
#  DIR         build/deb; packages of other builds that lie there are removed
#  TEXT        is added to the version: a rebuild, which dpkg takes for newer
#
#  Files that git does not track take no part; changed ones do, and the version says .dirty.  Two builds of
#  one commit with the same packages of Debian are the same bytes.  Needs the packages of
#  `sh scripts/install-packages.sh build packaging`.
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
out=$root/build/deb suffix=
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH LC_ALL=C.UTF-8 TZ=UTC
export PATH LC_ALL TZ
umask 022

fail () {
    echo "deb.sh: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --out) out=${2:?"deb.sh: --out needs a folder"}; shift 2 ;;
    --suffix) suffix=${2:?"deb.sh: --suffix needs a text"}; shift 2 ;;
    *) fail "there is no '$1'; usage: sh scripts/deb.sh [--out DIR] [--suffix TEXT]" ;;
    esac
done
case $suffix in *[!0-9A-Za-z.]*) fail "--suffix '$suffix': expected letters, digits and dots" ;; esac
command -v dpkg-buildpackage >/dev/null && command -v dh >/dev/null &&
    dpkg-checkbuilddeps "$root/debian/control" ||
    fail "packages to build with are missing: sh scripts/install-packages.sh build packaging"
mkdir -p "$out"
out=$(CDPATH= cd -- "$out" && pwd -P)

scratch=$(mktemp -d "${TMPDIR:-/tmp}/tureen-deb.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$scratch"
tree=$scratch/tureen
mkdir "$tree"

#  The tree as git tracks it, with what has changed; or, where it was exported, as it is.
git="git -c safe.directory=$root -C $root"
if [ "$($git rev-parse --show-toplevel 2>/dev/null)" = "$root" ]; then
    changed=$($git -c user.name=deb.sh -c user.email=deb.sh@localhost stash create)
    $git archive "${changed:-HEAD}" | tar -x -C "$tree"
else
    tar -c -C "$root" --exclude=./build --exclude=./dist . | tar -x -C "$tree"
fi
version=$(sh "$root/scripts/version.sh" --exact) commit=$(sh "$root/scripts/version.sh" commit)
SOURCE_DATE_EPOCH=$(sh "$root/scripts/version.sh" time)
export SOURCE_DATE_EPOCH
if [ -n "$suffix" ]; then
    case $version in *+*) version=$version.$suffix ;; *) version=$version+$suffix ;; esac
fi
printf 'commit %s\ntime %s\nversion %s\n' "$commit" "$SOURCE_DATE_EPOCH" "$version" \
    >"$tree/scripts/exported_version"
debian=$(sh "$tree/scripts/version.sh" debian)
maintainer=$(sed -n 's/^Maintainer: //p' "$tree/debian/control")
printf 'tureen (%s) bookworm; urgency=medium\n\n  * Commit %s.\n\n -- %s  %s\n' "$debian" \
    "${commit:-unknown}" "$maintainer" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" >"$tree/debian/changelog"

log=$scratch/log
echo "deb.sh: building version $debian; this takes minutes" >&2
if ! (cd "$tree" && dpkg-buildpackage --build=binary --no-sign --jobs="$(nproc)") >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    fail "dpkg-buildpackage failed; its last lines stand above"
fi
rm -f "$out"/*.deb "$out"/tureen_*.buildinfo "$out"/tureen_*.changes "$out"/tureen_*.cdx.json
mv "$scratch"/*.deb "$scratch"/*.buildinfo "$scratch"/*.changes "$out/"
architecture=$(dpkg-architecture -qDEB_HOST_ARCH)
/usr/bin/python3 -B "$tree/scripts/debian/sbom.py" packages "$debian" \
    $(ls "$out"/*.deb | grep -v -- -dbgsym_) >"$out/tureen_${debian}_$architecture.cdx.json"
ls "$out"/*.deb "$out"/*.cdx.json
