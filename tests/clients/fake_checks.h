/*  fake_checks -- what tests of the loader ask of batches, and of what the fake server has seen.  After
 *  cmocka.h.
 */
#ifndef FAKE_CHECKS_H
#define FAKE_CHECKS_H
#include <unistd.h>
#include "fake_server.h"
#include "tureen.h"

enum { PATIENCE_MS = 60000 };           //  with anything that must happen at all

//  Every byte of a batch is what its ids say.
static inline void
fake_check_batch (const tureen_batch_t *batch)
{
    tureen_array_t image, label;
    assert_true (tureen_batch_array (batch, "image", &image));
    assert_true (tureen_batch_array (batch, "label", &label));
    size_t count = tureen_batch_count (batch);
    assert_int_equal (image.dimensions, 4);
    assert_int_equal (image.shape [0], count);
    assert_int_equal (image.shape [3], 3);
    assert_int_equal (image.bytes, count * FAKE_PIXELS);
    assert_int_equal (label.dimensions, 1);
    assert_string_equal (label.dtype, "int64");
    assert_int_equal ((uintptr_t) label.data % 8, 0);
    for (size_t index = 0; index < count; index++) {
        uint64_t id = tureen_batch_ids (batch) [index];
        assert_int_equal (((int64_t *) label.data) [index], id);
        for (size_t pixel = 0; pixel < FAKE_PIXELS; pixel++)
            assert_int_equal (((uint8_t *) image.data) [index * FAKE_PIXELS + pixel], fake_pixel (id));
    }
}

//  Waits until the fake has seen what is asked for; reads fields of `seen`.
#define WAIT_FOR(fake, seen, condition) \
    do { \
        fake_seen_t seen = fake_seen (fake); \
        for (int left = PATIENCE_MS; !(condition) && left > 0; left -= 5) { \
            usleep (5000); \
            seen = fake_seen (fake); \
        } \
        assert_true (condition); \
    } while (0)

#endif
