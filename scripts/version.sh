#!/bin/sh
#  The one version: of git's tags, or in an exported tree of scripts/exported_version.
#
#      sh scripts/version.sh [--exact] [WHAT]
#
#  WHAT is one of
#      python      as pip compares it (PEP 440): 0.2.0, 0.2.0rc1, or 0.2.1.dev7+g0123abcd seven commits later.
#                  The default; `tureen --version`, pkg-config and tureen.__version__ say this one
#      debian      the same for dpkg: 0.2.0, 0.2.0~rc1, 0.2.1~dev7+g0123abcd
#      number      its three numbers: 0.2.1
#      commit      the commit; empty where there is none
#      time        the commit's time in seconds since 1970: SOURCE_DATE_EPOCH for a build
#  --exact         with ".dirty" at the end if tracked files differ from the commit: for packages
#
#  A release is a tag vX.Y.Z or vX.Y.ZrcN.  Before the first tag the version counts up to this one:
set -eu
first=0.1.0

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
exported=$root/scripts/exported_version

fail () {
    echo "version.sh: $*" >&2
    exit 1
}

#  The line of a key in scripts/exported_version; empty where git has not filled it in.
line_of () {
    sed -n "s/^$1 //p" "$exported" | grep -v '[$]Format' || true
}

in_git () {
    #  root builds in a user's tree too; the folder may also lie inside another repository.
    git -c safe.directory="$root" -C "$root" "$@" 2>/dev/null
}

#  Sets commit, time, tag and count: the commits behind the tag, or all without one.
look () {
    commit= time= tag= count= dirty= resolved=
    if [ -f "$exported" ] && [ -n "$(line_of commit)" ]; then
        commit=$(line_of commit) time=$(line_of time) resolved=$(line_of version)
        described=$(line_of describe)
        case $described in
        v*-*-g*) described=${described%-g*}; tag=${described%-*} count=${described##*-} ;;
        v*) tag=$described count=0 ;;
        *) count=0 ;;
        esac
    elif [ "$(in_git rev-parse --show-toplevel)" = "$root" ] && commit=$(in_git rev-parse HEAD); then
        time=$(in_git show -s --format=%ct HEAD)
        if described=$(in_git describe --tags --long --match 'v[0-9]*'); then
            described=${described%-g*}; tag=${described%-*} count=${described##*-}
        else
            count=$(in_git rev-list --count HEAD)
        fi
        [ -z "$exact" ] || in_git diff-index --quiet HEAD -- || dirty=.dirty
    fi
}

#  Sets number, candidate ("rc1" or nothing) and after (".dev7" or nothing) from tag and count.
compute () {
    candidate= after=
    number=$first
    if [ -n "$tag" ]; then
        printf '%s\n' "$tag" | grep -qE '^v[0-9]+\.[0-9]+\.[0-9]+(rc[0-9]+)?$' ||
            fail "the tag $tag is no version: tag releases vX.Y.Z or vX.Y.ZrcN"
        number=${tag#v}
        case $number in *rc*) candidate=rc${number##*rc}; number=${number%rc*} ;; esac
        [ "$count" -gt 0 ] || [ -n "$dirty" ] || return 0
        if [ -n "$candidate" ]; then
            candidate=rc$((${candidate#rc} + 1))
        else
            number=${number%.*}.$((${number##*.} + 1))
        fi
    fi
    after=.dev${count:-0}
}

exact=
if [ "${1:-}" = --exact ]; then exact=yes; shift; fi
what=${1:-python}
look
if [ -n "$resolved" ]; then
    python=$resolved
    number=$(printf '%s\n' "$python" | sed 's/^\([0-9]*\.[0-9]*\.[0-9]*\).*/\1/')
else
    compute
    python=$number$candidate$after
    #  A folder that is neither a checkout nor an export has no more to say.
    [ -z "$after" ] || python=$python+${commit:+g$(printf %.8s "$commit")}
    [ -n "$commit" ] || python=${python}unknown
    python=$python$dirty
fi
case $what in
python) echo "$python" ;;
debian) echo "$python" | sed -E 's/^([0-9.]*[0-9])(rc|\.dev)/\1~\2/; s/~\./~/' ;;
number) echo "$number" ;;
commit) echo "$commit" ;;
time) echo "${time:-0}" ;;
*) fail "there is no '$what'; there are python, debian, number, commit and time" ;;
esac
