/*  libraries -- which libraries this build decodes with, for comparing two builds.
 *
 *  Threads: no state.
 */
#ifndef LIBRARIES_H
#define LIBRARIES_H
#include <stddef.h>

enum { LIBRARIES_BYTES = 176 };

//  "tureen 0.1.0, libjpeg-turbo 2.1.5, libpng 1.6.39, libwebp 1.2.4,
//  libtiff 4.5.0, libsndfile-1.2.0, libsoxr-0.1.3"; a codec that the build lacks is "no
//  libpng".  Always ended.
void libraries_write (char text [LIBRARIES_BYTES]);

#endif
