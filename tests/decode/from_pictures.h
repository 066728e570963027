/*  from_pictures -- what comes of a sample's bytes comes, bit for bit, of its pictures, and of its bytes
 *  while pictures are kept of them.
 */
#ifndef FROM_PICTURES_H
#define FROM_PICTURES_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "decoder.h"

typedef struct {
    decoder_picture_t pictures [PIPELINE_FIELDS_MAX];
    uint8_t *rooms [PIPELINE_FIELDS_MAX];
    bool gives;                     //  room
} from_pictures_t;

//  Of its exact size and slack, so that the address sanitizer sees what lies beyond.
static inline uint8_t *
from_pictures_room (void *context, size_t file, const decoder_picture_t *picture)
{
    from_pictures_t *self = context;
    size_t bytes = (size_t) picture->height * picture->width * picture->channels;
    assert_null (self->rooms [file]);
    if (!self->gives)
        return NULL;
    self->rooms [file] = aligned_alloc (64, (bytes + DECODER_PICTURE_SLACK + 63) / 64 * 64);
    memset (self->rooms [file], 0xa5, bytes);
    self->pictures [file] = *picture;
    self->pictures [file].pixels = self->rooms [file];
    return self->rooms [file];
}

//  Of a sample that went well.  Returns how many files came as pictures.
static inline size_t
from_pictures_compare (decoder_t *decoder, const pipeline_t *pipeline, const pipeline_key_t *key,
    const decoder_sample_t *sample)
{
    size_t bytes = (pipeline_version_bytes (pipeline) + 63) / 64 * 64, found = 0;
    size_t files = pipeline_files (pipeline);
    uint8_t *expected = aligned_alloc (64, bytes), *version = aligned_alloc (64, bytes);
    from_pictures_t self = { .gives = true };
    decoder_file_t from [PIPELINE_FIELDS_MAX];
    decoder_sample_t keeping = *sample, kept = { .files = from, .warnings_max = sample->warnings_max,
        .room = from_pictures_room, .context = &self };
    char error [800];
    keeping.room = from_pictures_room;
    keeping.context = &self;
    memset (expected, 0, bytes);
    assert_int_equal (decoder_shared (decoder, pipeline, key, sample, expected, NULL, error, sizeof error),
        DECODER_OK);
    bool is_clipped = decoder_clipped (decoder);
    memset (version, 0, bytes);
    assert_int_equal (decoder_shared (decoder, pipeline, key, &keeping, version, NULL, error, sizeof error),
        DECODER_OK);
    assert_memory_equal (version, expected, bytes);
    self.gives = false;
    for (size_t file = 0; file < files; file++) {
        bool is_picture = decoder_picture_kind (pipeline, file) != DECODER_NO_PICTURE;
        assert_int_equal (is_picture, self.rooms [file] != NULL);
        from [file] = is_picture? (decoder_file_t) { .picture = &self.pictures [file] }: sample->files [file];
        found += is_picture;
    }
    memset (version, 0, bytes);
    assert_int_equal (decoder_shared (decoder, pipeline, key, &kept, version, NULL, error, sizeof error),
        DECODER_OK);
    assert_memory_equal (version, expected, bytes);
    assert_int_equal (decoder_clipped (decoder), is_clipped);
    for (size_t file = 0; file < files; file++)
        free (self.rooms [file]);
    free (expected);
    free (version);
    return found;
}

#endif
