#  TUREEN_SANITIZE: a list for -fsanitize, e.g. "address,undefined" or "thread".
set (TUREEN_SANITIZE "" CACHE STRING "sanitizers for every target, as for -fsanitize")
#  Fuzz targets link libFuzzer, which only clang brings; elsewhere they replay their corpus.
option (TUREEN_FUZZ "build the fuzz targets with libFuzzer (clang only)" OFF)
#  `sh tests/run.sh --all` sets it.
option (TUREEN_ALL_TESTS "all rounds of long tests, and under a sanitizer all tests" OFF)
#  Whether this build leaves out the programs in which its sanitizer finds nothing (tests/CMakeLists.txt names
#  them).
set (TUREEN_LEAVES_OUT FALSE)
if (TUREEN_SANITIZE AND NOT TUREEN_ALL_TESTS)
    set (TUREEN_LEAVES_OUT TRUE)
endif ()

if (TUREEN_SANITIZE)
    add_compile_options (-fsanitize=${TUREEN_SANITIZE} -fno-omit-frame-pointer -g
        -fno-sanitize-recover=all)
    add_link_options (-fsanitize=${TUREEN_SANITIZE})
endif ()
if (TUREEN_FUZZ)
    add_compile_options (-fsanitize=fuzzer-no-link)
endif ()
