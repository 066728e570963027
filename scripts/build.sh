#!/bin/sh
#  Configures and builds one preset of CMakePresets.json into build/PRESET.
#
#      sh scripts/build.sh PRESET [TARGET...]
#
#  ALL_TESTS=ON in the environment: long tests run all their rounds.
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"
preset=${1:?"usage: sh scripts/build.sh PRESET [TARGET...]"}
shift
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH

for tool in cmake ninja cc pkg-config; do
    command -v $tool >/dev/null || {
        echo "build.sh: there is no $tool: sh scripts/install-packages.sh build" >&2
        exit 1
    }
done

#  A folder that was configured before keeps its generator; asking for another one is an error.
generator="-G Ninja"
[ ! -f "build/$preset/CMakeCache.txt" ] || generator=
cmake --preset "$preset" $generator -DTUREEN_ALL_TESTS="${ALL_TESTS:-OFF}"
for target in "$@"; do
    set -- "$@" --target "$target"
    shift
done
exec cmake --build "build/$preset" --parallel "$(nproc)" "$@"
