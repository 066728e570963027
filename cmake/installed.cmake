#  tureen_install_configured (FILE DESTINATION NAME): installs FILE as DESTINATION/NAME, its @VARIABLES@
#  filled in when it is installed, and not when the build is configured: another prefix may be chosen
#  then (`cmake --install build --prefix ELSEWHERE`).  DESTINATION is below the prefix, or absolute.  FILE may
#  have
#      @INSTALLED_COMMAND@     the path of `tureen`, as systemd reads a path in ExecStart
#      @INSTALLED_LIBDIR@, @INSTALLED_INCLUDEDIR@, @INSTALLED_TO_PREFIX@
#                              for pkg-config: below its ${prefix}, or absolute; from the file to the prefix
function (tureen_install_configured file destination name)
    set (values)
    foreach (each IN ITEMS file destination name CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR
            CMAKE_INSTALL_INCLUDEDIR TUREEN_VERSION)
        string (APPEND values "set (${each} [==[${${each}}]==])\n")
    endforeach ()
    install (CODE "${values}include ([==[${PROJECT_SOURCE_DIR}/cmake/install_configured.cmake]==])")
endfunction ()
