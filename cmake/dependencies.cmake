#  Every dependency is a Debian package, found here and nowhere else; docs/dependencies.md says
#  what each is for.
find_package (PkgConfig REQUIRED)
find_package (Threads REQUIRED)

pkg_check_modules (ZEROMQ REQUIRED IMPORTED_TARGET libzmq>=4.3)
pkg_check_modules (CZMQ REQUIRED IMPORTED_TARGET libczmq>=4.2)
pkg_check_modules (JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules (JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules (SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules (XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules (URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules (ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules (CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules (MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.75)
pkg_check_modules (NCURSES REQUIRED IMPORTED_TARGET ncursesw)
pkg_check_modules (EXPAT REQUIRED IMPORTED_TARGET expat>=2.4)
pkg_check_modules (OPENSSL REQUIRED IMPORTED_TARGET libssl>=3.0)
pkg_check_modules (ZLIB REQUIRED IMPORTED_TARGET zlib)

#  Codecs beside JPEG: a build without them says so in `tureen serve --help`.
pkg_check_modules (PNG IMPORTED_TARGET libpng zlib)
pkg_check_modules (SNDFILE IMPORTED_TARGET sndfile)

#  CRoaring 0.2 ships a pkg-config file in some Debian releases only.
find_path (ROARING_INCLUDE_DIR roaring/roaring.h REQUIRED)
find_library (ROARING_LIBRARY roaring REQUIRED)
add_library (Roaring::roaring UNKNOWN IMPORTED)
set_target_properties (Roaring::roaring PROPERTIES
    IMPORTED_LOCATION ${ROARING_LIBRARY}
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${ROARING_INCLUDE_DIR})

if (BUILD_TESTING)
    pkg_check_modules (CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif ()
