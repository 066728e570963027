#!/bin/sh
#  Installs what is missing, builds and runs every test, from any directory and from a clean clone.
#
#      sh tests/run.sh [--all] [PRESET [CTEST ARGUMENTS]]
#
#      --all     all rounds of long tests, and under a sanitizer all C tests; without it a third of them,
#                and the tests in which that sanitizer can find something
#      PRESET    release (default), debug, asan-ubsan, tsan, clang, fuzz
set -eu

ALL_TESTS=OFF
case ${1:-} in
--all) ALL_TESTS=ON; shift ;;
--help | -h) sed -n '2,/^set/s/^#  \{0,1\}//p' "$0"; exit 0 ;;
esac
export ALL_TESTS

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"
preset=${1:-release}
[ $# -eq 0 ] || shift
#  The distribution's cmake, ctest and python3, whatever else comes first on the caller's PATH.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH

groups="build test"
case $preset in clang | fuzz) groups="$groups ci" ;; esac
sh scripts/install-packages.sh $groups

sh tests/tidy

sh scripts/build.sh "$preset"

ctest_under=
case $preset in
asan-ubsan | fuzz)
    ASAN_OPTIONS=detect_leaks=1:${ASAN_OPTIONS:-}
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}
    export ASAN_OPTIONS UBSAN_OPTIONS ;;
tsan)
    suppressions=tests/tsan.supp
    [ ! -f "$suppressions" ] || TSAN_OPTIONS="suppressions=$root/$suppressions ${TSAN_OPTIONS:-}"
    TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 ${TSAN_OPTIONS:-}"
    export TSAN_OPTIONS
    #  gcc 12's thread sanitizer finds no place for its shadow memory where the kernel randomises 32 bits of
    #  addresses.
    ctest_under="setarch $(uname -m) -R"
    $ctest_under true 2>/dev/null || ctest_under= ;;
esac
#  Many tests wait for processes and timers more than they compute, so four times as many run at once as
#  there are processors; under a sanitizer, where they compute more, twice as many.
parallel=$((4 * $(nproc)))
case $preset in asan-ubsan | tsan | fuzz) parallel=$((parallel / 2)) ;; esac
#  A shell without job control ignores SIGINT for what it starts with &, and nohup SIGHUP.  Tests that send
#  these are to find them as a terminal leaves them.
exec env --default-signal=HUP,INT,QUIT $ctest_under ctest --test-dir "build/$preset" \
    --output-on-failure --no-tests=error --parallel "$parallel" "$@"
