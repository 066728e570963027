#  Every dependency is a Debian package, found here and nowhere else; docs/dependencies.md says
#  what each is for.
find_package (PkgConfig REQUIRED)
find_package (Threads REQUIRED)

pkg_check_modules (ZEROMQ REQUIRED IMPORTED_TARGET libzmq>=4.3)
pkg_check_modules (CZMQ REQUIRED IMPORTED_TARGET libczmq>=4.2)
#  Their headers need none of the folders that pkg-config names for them.  One of these is an -isystem, which
#  CMake takes for a folder when it configures first and for an option later, and then all is compiled again.
foreach (name ZEROMQ CZMQ)
    set_target_properties (PkgConfig::${name} PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDEDIR}" INTERFACE_COMPILE_OPTIONS "")
endforeach ()
pkg_check_modules (JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules (JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules (SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules (XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules (URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules (ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
#  The shared libarchive needs libxml2 and ICU, 35 MB, for formats that Tureen does not read.  The static one
#  needs what the used formats need: for a wheel, which brings its libraries along.  Debian's package of the
#  shared one brings the filters' libraries; their headers are not needed.
option (TUREEN_STATIC_LIBARCHIVE "link the used parts of libarchive statically" OFF)
if (TUREEN_STATIC_LIBARCHIVE)
    find_library (ARCHIVE_STATIC libarchive.a REQUIRED)
    find_library (ARCHIVE_BZIP2 NAMES bz2 libbz2.so.1.0 REQUIRED)
    find_library (ARCHIVE_LZMA NAMES lzma liblzma.so.5 REQUIRED)
    find_library (ARCHIVE_ZSTD NAMES zstd libzstd.so.1 REQUIRED)
    set_target_properties (PkgConfig::ARCHIVE PROPERTIES INTERFACE_LINK_LIBRARIES
        "${ARCHIVE_STATIC};${ARCHIVE_BZIP2};${ARCHIVE_LZMA};${ARCHIVE_ZSTD};z")
endif ()
pkg_check_modules (CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules (MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.75)
pkg_check_modules (NCURSES REQUIRED IMPORTED_TARGET ncursesw)
pkg_check_modules (EXPAT REQUIRED IMPORTED_TARGET expat>=2.4)
pkg_check_modules (OPENSSL REQUIRED IMPORTED_TARGET libssl>=3.0)
pkg_check_modules (ZLIB REQUIRED IMPORTED_TARGET zlib)

#  Codecs beside JPEG: a build without them says so in `tureen serve --help`.
pkg_check_modules (PNG IMPORTED_TARGET libpng zlib)
pkg_check_modules (WEBP IMPORTED_TARGET libwebp libwebpdemux)
#  4.5 is the first with handlers for one file.  Off: libtiff comes with a library under the GPL, which is not
#  for what holds its libraries itself.
option (TUREEN_TIFF "TIFF, where libtiff is" ON)
if (TUREEN_TIFF)
    pkg_check_modules (TIFF IMPORTED_TARGET libtiff-4>=4.5 zlib)
endif ()
pkg_check_modules (SNDFILE IMPORTED_TARGET sndfile)
pkg_check_modules (SOXR IMPORTED_TARGET soxr)

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
