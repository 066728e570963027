#  Run by `cmake --install`; cmake/installed.cmake says what for.  CMAKE_INSTALL_PREFIX is that of this
#  installation.  Files are written below DESTDIR, and never name it.
get_filename_component (prefix "${CMAKE_INSTALL_PREFIX}" ABSOLUTE)
get_filename_component (folder "${destination}" ABSOLUTE BASE_DIR "${prefix}")
get_filename_component (command "${CMAKE_INSTALL_BINDIR}/tureen" ABSOLUTE BASE_DIR "${prefix}")

#  systemd takes % for a specifier, and a space for the end of the path.
string (REPLACE "%" "%%" INSTALLED_COMMAND "${command}")
if (INSTALLED_COMMAND MATCHES "[ \t]")
    set (INSTALLED_COMMAND "\"${INSTALLED_COMMAND}\"")
endif ()

#  Relative, so that the folder can also be moved; unless somewhere else was asked for.
foreach (which LIBDIR INCLUDEDIR)
    if (IS_ABSOLUTE "${CMAKE_INSTALL_${which}}")
        set (INSTALLED_${which} "${CMAKE_INSTALL_${which}}")
    else ()
        set (INSTALLED_${which} "\${prefix}/${CMAKE_INSTALL_${which}}")
    endif ()
endforeach ()
if (IS_ABSOLUTE "${destination}")
    set (INSTALLED_TO_PREFIX "${prefix}")
else ()
    file (RELATIVE_PATH INSTALLED_TO_PREFIX "${folder}" "${prefix}")
    set (INSTALLED_TO_PREFIX "\${pcfiledir}/${INSTALLED_TO_PREFIX}")
    string (REGEX REPLACE "/$" "" INSTALLED_TO_PREFIX "${INSTALLED_TO_PREFIX}")
endif ()

set (installed "$ENV{DESTDIR}${folder}/${name}")
message (STATUS "Installing: ${installed}")
configure_file ("${file}" "${installed}" @ONLY FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
list (APPEND CMAKE_INSTALL_MANIFEST_FILES "${folder}/${name}")
