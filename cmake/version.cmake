#  Before project (): TUREEN_VERSION, what every program says, and TUREEN_VERSION_NUMBER, its three numbers.
set (TUREEN_VERSION_FIXED "" CACHE STRING "the version; empty: what scripts/version.sh says")
mark_as_advanced (TUREEN_VERSION_FIXED)
set (TUREEN_VERSION ${TUREEN_VERSION_FIXED})
if (NOT TUREEN_VERSION)
    execute_process (COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/scripts/version.sh
        OUTPUT_VARIABLE TUREEN_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif ()
string (REGEX MATCH "^[0-9]+\\.[0-9]+\\.[0-9]+" TUREEN_VERSION_NUMBER "${TUREEN_VERSION}")
if (NOT TUREEN_VERSION_NUMBER)
    message (FATAL_ERROR "'${TUREEN_VERSION}' is no version: it begins with X.Y.Z (scripts/version.sh)")
endif ()
