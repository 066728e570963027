/*  audio_layout -- which format a file of sound has by its first bytes, and whether all of it is there,
 *  before libsndfile sees it: libsndfile takes what is there for all of it.
 *
 *  Untrusted bytes.  Any thread; nothing is allocated.
 */
#ifndef AUDIO_LAYOUT_H
#define AUDIO_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

//  The formats that audio_layout_read knows; static.
#define AUDIO_LAYOUT_FORMATS "WAV, RF64, W64, AIFF, AU, CAF, SPHERE, FLAC, Ogg Vorbis, Ogg Opus, MP3"

typedef struct {
    const uint8_t *bytes;               //  of the sound, lent: behind ID3 tags
    size_t size;                        //  without what stands behind the last page of an Ogg file or
                                        //  the last frame of an MP3
    const char *format;                 //  what people call it; static
    uint64_t frames_min;                //  what a header of SPHERE tells; else 0
    bool has_frame_count;               //  of MP3: its first frame tells how many there are
} audio_layout_t;

//  0; or -EBADMSG, and error (always ended) says what the file is not, or what is missing.
int audio_layout_read (audio_layout_t *self, const uint8_t *bytes, size_t size, char *error,
    size_t error_bytes) __attribute__ ((warn_unused_result));

#endif
