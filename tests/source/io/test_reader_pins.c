//  The reader over pins: the right bytes, only the gap is read, and what was read is pinned; in every mode
//  that the machine offers, whatever the disk does.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "effort.h"
#include "reader_play.h"
#include "seed.h"

enum { UNIT = PINS_UNIT_BYTES, UNITS = (PLAY_FILE_BYTES + UNIT - 1) / UNIT, RANGES_MAX = 32 };

typedef struct {
    pins_t *pins;
    pins_data_t *data;
} pinned_t;

static pinned_t
s_begin (void)
{
    enum { ENOUGH = 64 * 1024 * 1024 };
    pinned_t self = { .pins = pins_new (ENOUGH) };
    self.data = pins_data_new (self.pins, ENOUGH, ENOUGH);
    assert_non_null (self.data);
    return self;
}

static void
s_end (pinned_t *self)
{
    pins_data_destroy (&self->data);
    pins_destroy (&self->pins);
}

static pins_file_t
s_file (const pinned_t *self, uint32_t file)
{
    return (pins_file_t) { .data = self->data, .number = file, .bytes = PLAY_FILE_BYTES };
}

static void
s_pinned_range (play_item_t *item, const pinned_t *self, uint32_t file, uint64_t offset, size_t bytes)
{
    play_range (item, file, offset, bytes);
    item->request.pins = s_file (self, file);
}

static void
s_pinned_sample (play_item_t *item, const pinned_t *self, const catalogue_t *catalogue, uint32_t id)
{
    play_sample (item, catalogue, id);
    item->request.pins = (pins_file_t) { .data = self->data, .number = 100 + id,
        .bytes = play_sample_bytes (id) };
}

//  Pins units of a file: what it has there, or what the other file has.
static void
s_pin (const pinned_t *self, uint32_t file, size_t first, size_t count, bool is_wrong)
{
    static uint8_t bytes [UNITS * UNIT];
    pins_file_t pins = s_file (self, file);
    size_t begin = first * UNIT, end = (first + count) * UNIT;
    end = end < PLAY_FILE_BYTES? end: PLAY_FILE_BYTES;
    for (size_t at = begin; at < end; at++)
        bytes [at - begin] = pattern_byte (is_wrong? 1 - file: file, at);
    pins_keep (&pins, begin, end - begin, bytes);
}

//  Reads it now.
static void
s_read (reader_t *reader, play_item_t *item)
{
    play_submit (reader, item);
    while (!play_take (reader))
        reader_wait (reader, -1);
    if (item->request.rc == 0)
        play_check_bytes (item);
}

//  Guards: of a range only the gap is read, whole units of it, whatever units are pinned; then all of it is
//  pinned, and the next read takes nothing from the disk.
static void
test_only_the_gap_is_read (void **state)
{
    uint64_t seed = test_seed ();
    print_message ("seed %" PRIu64 "\n", seed);
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (*state, &PLAY_MODES [mode], 4);
        uint64_t random = seed + mode;
        for (int round = 0; reader && round < EFFORT (100); round++) {
            pinned_t pinned = s_begin ();
            for (uint64_t runs = test_below (&random, 6); runs > 0; runs--)
                s_pin (&pinned, 1, (size_t) test_below (&random, UNITS),
                    (size_t) test_below (&random, 20) + 1, false);
            uint64_t offset = test_below (&random, PLAY_FILE_BYTES), bytes = 1 + test_below (&random, 150000);
            bytes = bytes < PLAY_FILE_BYTES - offset? bytes: PLAY_FILE_BYTES - offset;
            //  What is there, said by the pins themselves.
            static uint8_t memory [UNITS * UNIT];
            pins_file_t file = s_file (&pinned, 1);
            uint64_t place = offset / UNIT * UNIT;
            size_t span = reader_span (offset, bytes);
            span = span < PLAY_FILE_BYTES - place? span: PLAY_FILE_BYTES - place;
            pins_gap_t gap = pins_read (&file, place, span, memory);
            play_item_t item = { 0 };
            for (int again = 0; again < 2; again++) {
                s_pinned_range (&item, &pinned, 1, offset, bytes);
                s_read (reader, &item);
                assert_int_equal (item.request.rc, 0);
                assert_int_equal (item.request.read_bytes, again? 0: gap.end - gap.begin);
                assert_int_equal (item.request.pinned_bytes, again? span: span - (gap.end - gap.begin));
                play_free (&item);
            }
            s_end (&pinned);
        }
        reader_destroy (&reader);
    }
}

//  Guards: where no unit is kept, none is read to be completed: with pins that are full, and beside one that
//  was pinned.
static void
test_nothing_is_read_for_nothing (void **state)
{
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (*state, &PLAY_MODES [mode], 4);
        if (!reader)
            continue;
        for (int is_half = 0; is_half < 2; is_half++) {
            pinned_t pinned = s_begin ();
            if (is_half)
                s_pin (&pinned, 1, 4, 1, false);
            else
                pins_set_limit (pinned.pins, 0);
            play_item_t item = { 0 };
            //  The whole file is a block: with one of its units all are kept.
            s_pinned_range (&item, &pinned, 1, 5 * UNIT - 1000, 3 * UNIT);
            s_read (reader, &item);
            assert_int_equal (item.request.rc, 0);
            assert_int_equal (item.request.pinned_bytes, is_half? UNIT: 0);
            assert_int_equal (item.request.read_bytes, is_half? 3 * UNIT:
                play_read_bytes (reader, 1, 5 * UNIT - 1000, 3 * UNIT));
            assert_int_equal (pins_figures (pinned.data).bytes, is_half? 4 * UNIT: 0);
            play_free (&item);
            s_end (&pinned);
        }
        reader_destroy (&reader);
    }
}

//  Guards: so it is with many at once, which pin what others read.
static void
test_many_at_once (void **state)
{
    uint64_t seed = test_seed ();
    print_message ("seed %" PRIu64 "\n", seed);
    play_world_t *world = *state;
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (world, &PLAY_MODES [mode], 4);
        uint64_t random = seed + mode;
        static play_item_t items [RANGES_MAX];
        for (int round = 0; reader && round < EFFORT (40); round++) {
            pinned_t pinned = s_begin ();
            reader_set_depth (reader, (uint32_t) (1 + test_below (&random, 20)));
            for (int again = 0; again < 3; again++) {
                for (size_t index = 0; index < RANGES_MAX; index++) {
                    uint64_t offset = test_below (&random, PLAY_FILE_BYTES),
                        bytes = 1 + test_below (&random, 50000);
                    bytes = bytes < PLAY_FILE_BYTES - offset? bytes: PLAY_FILE_BYTES - offset;
                    if (test_below (&random, 4) == 0)
                        s_pinned_sample (&items [index], &pinned, world->catalogue,
                            (uint32_t) test_below (&random, PLAY_SAMPLES));
                    else
                        s_pinned_range (&items [index], &pinned, (uint32_t) test_below (&random, PLAY_FILES),
                            offset, bytes);
                    play_submit (reader, &items [index]);
                }
                assert_int_equal (play_finish (reader), 0);
                for (size_t index = 0; index < RANGES_MAX; index++) {
                    assert_false (items [index].out);
                    play_free (&items [index]);
                }
            }
            s_end (&pinned);
        }
        reader_destroy (&reader);
    }
}

//  Guards: what was pinned wrongly is wrong until it is read afresh; that replaces it.
static void
test_afresh_replaces_pins (void **state)
{
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (*state, &PLAY_MODES [mode], 4);
        if (!reader)
            continue;
        pinned_t pinned = s_begin ();
        s_pin (&pinned, 0, 0, UNITS, true);
        for (int turn = 0; turn < 3; turn++) {
            play_item_t item = { 0 };
            s_pinned_range (&item, &pinned, 0, 50000, 12345);
            item.request.is_afresh = turn == 1;
            item.out = true;
            reader_submit (reader, &item.request);
            while (!play_take (reader))
                reader_wait (reader, -1);
            assert_int_equal (item.request.rc, 0);
            assert_int_equal (item.request.pinned_bytes > 0, turn != 1);
            assert_int_equal (item.request.read_bytes > 0, turn == 1);
            assert_int_equal (item.memory [item.request.skip], pattern_byte (turn == 0, 50000));
            assert_int_equal (item.memory [item.request.skip + 12344], pattern_byte (turn == 0, 62344));
            play_free (&item);
        }
        s_end (&pinned);
        reader_destroy (&reader);
    }
}

//  Guards: pins of a file of another size are not used; of a file that shrinks, what is pinned is still
//  there, and what is not is told as such.
static void
test_changed_file (void **state)
{
    play_world_t *world = *state;
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        pattern_write (world->paths [1], 1, PLAY_FILE_BYTES);
        reader_t *reader = play_reader (world, &PLAY_MODES [mode], 4);
        if (!reader)
            continue;
        pinned_t pinned = s_begin ();
        play_item_t item = { 0 };
        for (int turn = 0; turn < 4; turn++) {
            s_pinned_range (&item, &pinned, 1, turn == 3? 100000: 20000, 30000);
            if (turn == 0)
                item.request.pins.bytes--;
            if (turn == 2)
                assert_int_equal (truncate (world->paths [1], 30001), 0);
            s_read (reader, &item);
            assert_int_equal (item.request.rc, turn == 3? -CATALOGUE_CHANGED: 0);
            assert_int_equal (item.request.pinned_bytes > 0, turn == 2);
            play_free (&item);
        }
        s_end (&pinned);
        reader_destroy (&reader);
    }
}

//  Guards: a sample's file is read once, and then neither opened nor read; an empty one is none's.  Afresh it
//  is read again.
static void
test_files (void **state)
{
    play_world_t *world = *state;
    for (int no_ring = 0; no_ring < 2; no_ring++) {
        play_mode_t mode = { .name = "files", .no_ring = no_ring, .no_direct = true };
        reader_t *reader = play_reader (world, &mode, 4);
        if (!reader)
            continue;
        pinned_t pinned = s_begin ();
        char path [PATH_MAX];
        for (int turn = 0; turn < 4; turn++) {
            if (turn == 2)
                unlink (play_sample_path (world, 3, path));
            for (uint32_t id = 0; id < PLAY_SAMPLES; id++) {
                size_t bytes = play_sample_bytes (id);
                play_item_t item = { 0 };
                s_pinned_sample (&item, &pinned, world->catalogue, id);
                item.request.is_afresh = turn == 3;
                s_read (reader, &item);
                bool is_read = turn == 0 || turn == 3;
                assert_int_equal (item.request.rc, turn == 3 && id == 3? -ENOENT: 0);
                if (item.request.rc == 0) {
                    assert_int_equal (item.request.read_bytes, is_read? bytes: 0);
                    assert_int_equal (item.request.pinned_bytes, is_read? 0: bytes);
                }
                play_free (&item);
            }
        }
        pattern_write (play_sample_path (world, 3, path), 103, play_sample_bytes (3));
        s_end (&pinned);
        reader_destroy (&reader);
    }
}

//  Guards: whatever the n-th result is, a request has the right bytes or an error, and nothing that is pinned
//  is wrong.
static void
test_faults (void **state)
{
    play_world_t *world = *state;
    static const int results [] = { PLAY_HALF, PLAY_NOTHING, -EIO, -EINTR, -EINVAL, -ENOMEM, -ESTALE };
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++)
        for (size_t result = 0; result < sizeof results / sizeof *results; result++)
            for (unsigned int nth = 1, struck = 1; struck; nth++) {
                reader_t *reader = play_reader (world, &PLAY_MODES [mode], 3);
                if (!reader)
                    break;
                pinned_t pinned = s_begin ();
                s_pin (&pinned, 0, 5, 3, false);
                s_pin (&pinned, 1, 0, 2, false);
                play_twist.countdown = nth;
                play_twist.result = results [result];
                for (int again = 0; again < 2; again++) {
                    play_item_t items [4] = { 0 };
                    s_pinned_range (&items [0], &pinned, 0, 3 * UNIT + 7, 4 * UNIT);
                    s_pinned_range (&items [1], &pinned, 1, 100, 7 * UNIT);
                    s_pinned_range (&items [2], &pinned, 1, PLAY_FILE_BYTES - 6000, 6000);
                    s_pinned_sample (&items [3], &pinned, world->catalogue, 3);
                    for (size_t index = 0; index < 4; index++)
                        play_submit (reader, &items [index]);
                    size_t bad = play_finish (reader);
                    assert_true (bad <= (again? 0: 1));
                    for (size_t index = 0; index < 4; index++)
                        play_free (&items [index]);
                    struck = again? struck: play_twist.struck;
                    memset (&play_twist, 0, sizeof play_twist);
                }
                s_end (&pinned);
                reader_destroy (&reader);
            }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_only_the_gap_is_read, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_nothing_is_read_for_nothing, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_many_at_once, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_afresh_replaces_pins, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_changed_file, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_files, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_faults, play_begin, play_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
