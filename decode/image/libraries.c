#include "libraries.h"
#include <stdio.h>
#include <jpeglib.h>
#ifdef TUREEN_PNG
#include <png.h>
#endif
#ifdef TUREEN_SNDFILE
#include <sndfile.h>
#endif
#include "build_version.h"

#define TEXT_OF(macro) #macro
#define TEXT(macro) TEXT_OF (macro)

void
libraries_write (char text [LIBRARIES_BYTES])
{
    const char *png = "no libpng", *audio = "no libsndfile";
#ifdef TUREEN_PNG
    png = "libpng " PNG_LIBPNG_VER_STRING;
#endif
#ifdef TUREEN_SNDFILE
    audio = sf_version_string ();
#endif
    snprintf (text, LIBRARIES_BYTES, "tureen %s, libjpeg-turbo %s, %s, %s", build_version (),
        TEXT (LIBJPEG_TURBO_VERSION), png, audio);
}
