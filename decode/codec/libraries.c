#include "libraries.h"
#include <stdio.h>
#include <jpeglib.h>
#ifdef TUREEN_PNG
#include <png.h>
#endif
#ifdef TUREEN_SNDFILE
#include <sndfile.h>
#endif
#ifdef TUREEN_SOXR
#include <soxr.h>
#endif
#ifdef TUREEN_TIFF
#include <tiffio.h>
#endif
#ifdef TUREEN_WEBP
#include <webp/decode.h>
#endif
#include "build_version.h"

enum { WEBP_BYTES = 32, TIFF_BYTES = 32 };

#define TEXT_OF(macro) #macro
#define TEXT(macro) TEXT_OF (macro)

void
libraries_write (char text [LIBRARIES_BYTES])
{
    const char *png = "no libpng", *audio = "no libsndfile", *soxr = "no libsoxr";
    char webp [WEBP_BYTES] = "no libwebp", tiff [TIFF_BYTES] = "no libtiff";
#ifdef TUREEN_PNG
    png = "libpng " PNG_LIBPNG_VER_STRING;
#endif
#ifdef TUREEN_WEBP
    int version = WebPGetDecoderVersion ();
    snprintf (webp, sizeof webp, "libwebp %d.%d.%d", version >> 16 & 255, version >> 8 & 255, version & 255);
#endif
#ifdef TUREEN_TIFF
    char number [TIFF_BYTES / 2] = "";       //  of "LIBTIFF, Version 4.5.0" and a copyright
    sscanf (TIFFGetVersion (), "%*s %*s %15s", number);
    snprintf (tiff, sizeof tiff, "libtiff %s", number);
#endif
#ifdef TUREEN_SNDFILE
    audio = sf_version_string ();
#endif
#ifdef TUREEN_SOXR
    soxr = soxr_version ();
#endif
    snprintf (text, LIBRARIES_BYTES, "tureen %s, libjpeg-turbo %s, %s, %s, %s, %s, %s", build_version (),
        TEXT (LIBJPEG_TURBO_VERSION), png, webp, tiff,
        audio, soxr);
}
