//  Reads many at once, in every mode that the machine offers: the right bytes or an error, whatever the disk,
//  the ring or a system call does.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "reader.h"
#include "reader_play.h"
#include "scratch.h"

enum { MIX_RANGES = 5, MIX = MIX_RANGES + PLAY_SAMPLES };

//  Ranges and files, some results twisted.  Every request has the right bytes or an error of those allowed.
static void
s_run_mix (play_world_t *world, reader_t *reader, int allowed, bool all_good)
{
    static const struct { uint64_t offset; size_t bytes; } ranges [MIX_RANGES] = {
        { 0, 1 }, { 4096, 8192 }, { 100, 20000 }, { PLAY_FILE_BYTES - 6000, 6000 }, { 8190, 100001 }
    };
    play_item_t items [MIX] = { 0 };
    for (uint32_t index = 0; index < MIX; index++) {
        if (index < MIX_RANGES)
            play_range (&items [index], index % PLAY_FILES, ranges [index].offset, ranges [index].bytes);
        else
            play_sample (&items [index], world->catalogue, index - MIX_RANGES);
        play_submit (reader, &items [index]);
    }
    play_finish (reader);
    for (uint32_t index = 0; index < MIX; index++) {
        int rc = items [index].request.rc;
        assert_false (items [index].out);
        if (rc && ((rc != allowed && rc != -ENOMEM) || all_good))
            fail_msg ("request %u: rc %d, only %d may be", index, rc, all_good? 0: allowed);
        play_free (&items [index]);
    }
}

//  The n-th result is twisted, n = 1, 2 .. until there are no more.
static void
s_sweep_results (play_world_t *world, const play_mode_t *mode, int result, bool forever)
{
    bool passes = result == -EIO || result == -ENOMEM || result == -EINTR || result == -EAGAIN
        || result == -ECANCELED
        || result == PLAY_HALF;
    int allowed = result == PLAY_HALF || result == PLAY_NOTHING? -CATALOGUE_CHANGED: result;
    for (unsigned int nth = 1; ; nth++) {
        reader_t *reader = play_reader (world, mode, 3);
        if (!reader)
            return;
        memset (&play_twist, 0, sizeof play_twist);
        play_twist.countdown = nth;
        play_twist.result = result;
        play_twist.forever = forever;
        s_run_mix (world, reader, allowed, passes && !forever);
        bool struck = play_twist.struck;
        memset (&play_twist, 0, sizeof play_twist);
        s_run_mix (world, reader, 0, true);             //  no harm has stayed
        for (uint32_t file = 0; file < PLAY_FILES && result != -EINVAL; file++)
            assert_true (reader_is_direct (reader, file) == !mode->no_direct);
        reader_destroy (&reader);
        if (!struck)
            break;
        assert_true (nth < 500);
    }
}

//  Guards: whatever an operation's result, once or for ever: the right bytes or an error, nothing lost, no
//  wait without end.
static void
test_results_sweep (void **state)
{
    static const int results [] = { -EIO, -EINTR, -EAGAIN, -ECANCELED, -ENOMEM, -EINVAL, PLAY_HALF,
        PLAY_NOTHING };
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++)
        for (size_t index = 0; index < sizeof results / sizeof results [0]; index++)
            for (int forever = 0; forever < 2; forever++)
                s_sweep_results (*state, &PLAY_MODES [mode], results [index], forever);
}

//  Guards: interruptions are put up with as long as bytes come between them: 75 here, and 64 in a row are too
//  many.
static void
test_interruptions_between_bytes (void **state)
{
    play_world_t *world = *state;
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (world, &PLAY_MODES [mode], 1);
        if (!reader)
            continue;
        play_item_t item = { 0 };
        play_range (&item, 0, 0, 75 * PLAY_HALT_BYTES);
        memset (&play_twist, 0, sizeof play_twist);
        play_twist.halting = true;
        play_submit (reader, &item);
        play_finish (reader);
        assert_int_equal (item.request.rc, 0);
        assert_int_equal (play_twist.reads, 2 * 75);
        memset (&play_twist, 0, sizeof play_twist);
        play_free (&item);
        reader_destroy (&reader);
    }
}

//  A reader's whole life while the n-th call fails.  True: it was reached.
static bool
s_live_through (play_world_t *world, bool no_ring, unsigned int nth, int error, bool forever)
{
    reader_t *reader;
    fault_arm (nth, error, forever);
    int rc = reader_new (&reader, &(reader_options_t) { .depth = 3, .no_ring = no_ring });
    assert_true ((rc == 0) == (reader != NULL));
    for (uint32_t file = 0; rc == 0 && file < PLAY_FILES; file++) {
        uint32_t number;
        rc = reader_add (reader, world->paths [file], &number);
    }
    if (rc == 0)
        s_run_mix (world, reader, -error, false);
    else
        assert_true (rc == -error || rc == -ENOMEM);    //  memory knows no other
    bool struck = fault_disarm ();
    if (rc == 0)
        s_run_mix (world, reader, 0, true);
    reader_destroy (&reader);
    return struck;
}

//  Guards: calls that fail, once or for ever, the ring's too: an error, or system calls go on where the ring
//  ends.
static void
test_calls_sweep (void **state)
{
    static const int errors [] = { ENOMEM, EPERM, ENOSYS };
    for (int no_ring = 0; no_ring < 2; no_ring++)
        for (size_t index = 0; index < sizeof errors / sizeof errors [0]; index++)
            for (int forever = 0; forever < 2; forever++)
                for (unsigned int nth = 1; s_live_through (*state, no_ring, nth, errors [index], forever);
                    nth++)
                    assert_true (nth < 500);
    for (unsigned int nth = 1; s_live_through (*state, false, nth, EINTR, false); nth++)
        assert_true (nth < 500);
    for (unsigned int nth = 1; s_live_through (*state, false, nth, EAGAIN, false); nth++)
        assert_true (nth < 500);
    for (unsigned int nth = 7; nth < 13; nth++)         //  each takes as long as a kernel without memory is
                                                        //  borne with
        s_live_through (*state, false, nth, EAGAIN, true);
}

//  Guards: a ring that fails in the middle is named as such, and reading goes on.
static void
test_ring_that_breaks (void **state)
{
    reader_t *reader = play_reader (*state, &PLAY_MODES [0], 4);
    if (!reader)
        return;
    assert_string_equal (reader_mode (reader), "io_uring");
    assert_int_equal (play_read_one (reader, 0, 3, 50000), 0);
    fault_arm (1, EPERM, false);
    assert_int_equal (play_read_one (reader, 0, 3, 50000), 0);
    assert_true (fault_disarm ());
    assert_false (reader_is_concurrent (reader));
    assert_string_equal (reader_mode (reader), "preadv (io_uring: Operation not permitted)");
    assert_int_equal (play_read_one (reader, 0, 3, 50000), 0);
    reader_destroy (&reader);
}

//  Guards: a kernel that refuses the ring is told with its reason.
static void
test_ring_refused (void **state)
{
    play_world_t *world = *state;
    reader_t *reader;
    fault_arm (3, EPERM, false);                        //  after the reader's own memory
    assert_int_equal (reader_new (&reader, &(reader_options_t) { .depth = 1 }), 0);
    assert_true (fault_disarm ());
    assert_string_equal (reader_mode (reader), "preadv (io_uring: Operation not permitted)");
    uint32_t file;
    assert_int_equal (reader_add (reader, world->paths [0], &file), 0);
    assert_int_equal (play_read_one (reader, 0, 3, 50000), 0);
    reader_destroy (&reader);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_interruptions_between_bytes, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_results_sweep, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_calls_sweep, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_ring_that_breaks, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_ring_refused, play_begin, play_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
