#!/bin/sh
#  threads.txt names the C test programs that start threads: only these are built under the thread sanitizer.
#  Fails if a program in TUREEN_BIN starts threads and is not named, or is named and starts none.
set -eu
export LC_ALL=C

found=$TUREEN_BUILD/threads.found
cd "$TUREEN_BIN"
nm -A -u test_* fuzz_* | sed -n 's/:.* pthread_create\(@.*\)\{0,1\}$//p' | sort -u >"$found"
differences=$(sort "$TUREEN_SOURCE/tests/threads.txt" | diff - "$found") || true
[ -n "$differences" ] || exit 0
echo "$differences" | sed -n 's/^> \(.*\)/\1 starts threads: add it to tests\/threads.txt/p
    s/^< \(.*\)/\1 starts no thread: remove it from tests\/threads.txt/p'
exit 1
