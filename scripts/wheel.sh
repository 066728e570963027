#!/bin/sh
#  Builds what `pip install` takes into dist/: the sdist, the wheel with the server and its libraries, and the
#  list of what is in it (SBOM, CycloneDX).
#
#      sh scripts/wheel.sh [FOLDER]        FOLDER: instead of dist
#
#  On Debian 12 it installs the packages that are missing, as root or by sudo: those of
#  `sh scripts/install-packages.sh build`.
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
folder=${1:-$root/dist}
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH
sh "$root/scripts/install-packages.sh" build
mkdir -p "$folder"
PYTHONPATH=$root/scripts/wheel /usr/bin/python3 -B - "$folder" <<'PYTHON'
import sys, zipfile
import tureen_backend as backend

folder = sys.argv[1]
print("wheel.sh: the sdist", file=sys.stderr, flush=True)
print(f"{folder}/{backend.build_sdist(folder)}", flush=True)
print("wheel.sh: the server and the wheel; this takes minutes", file=sys.stderr, flush=True)
wheel = f"{folder}/{backend.build_wheel(folder, {'libraries': 'bundled'})}"
print(wheel)
with zipfile.ZipFile(wheel) as archive:
    [name] = [name for name in archive.namelist() if name.endswith("/sboms/tureen.cdx.json")]
    with open(f"{wheel[:-len('.whl')]}.cdx.json", "wb") as file:
        file.write(archive.read(name))
print(f"{wheel[:-len('.whl')]}.cdx.json")
PYTHON
