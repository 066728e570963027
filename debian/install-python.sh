#!/bin/sh
#  The Python client, as pip would install it, without what pip brings of the server:
#      sh debian/install-python.sh FOLDER VERSION
set -eu
folder=$1 version=$2
info=$folder/tureen-$version.dist-info
mkdir -p "$folder" "$info"
cp -R clients/python/tureen "$folder/"
find "$folder" -name __pycache__ -prune -exec rm -rf {} +
printf '%s\n' "$version" >"$folder/tureen/version.txt"
cat >"$info/METADATA" <<END
Metadata-Version: 2.1
Name: tureen
Version: $version
Summary: Batches from a Tureen server as NumPy arrays
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: pyzmq >=22
Requires-Dist: numpy >=1.21
END
printf 'Debian\n' >"$info/INSTALLER"
