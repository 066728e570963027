#!/bin/sh
#  Where this machine takes Debian's packages from, for another root file system: lines of a sources.list,
#  with the archive, its updates and its security updates as apt is configured here, and no other origins.
#
#      sh scripts/debian/sources.sh
set -eu
. /etc/os-release
codename=${VERSION_CODENAME:-}
lines=$(apt-get indextargets --format '$(REPO_URI) $(SUITE) $(CODENAME) $(COMPONENT) $(LABEL) $(ORIGIN)' \
    'Identifier: Packages' 2>/dev/null | awk -v codename="$codename" '
    $4 == "main" && $NF == "Debian" && ($3 == codename || $3 ~ "^" codename "-(updates|security)$") {
        sub ("/$", "", $1); print "deb " $1 " " $3 " main"
    }' | sort -u)
if ! printf '%s\n' "$lines" | grep -q " $codename main\$"; then
    echo "sources.sh: apt knows no archive of Debian $codename here: add one to its sources," \
        "and run apt-get update" >&2
    exit 1
fi
printf '%s\n' "$lines"
