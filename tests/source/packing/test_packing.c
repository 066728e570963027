/*  Packing: the pack holds what the source holds whatever memory and buckets were, and whatever fails or
 *  kills it on the way, --resume ends with the same bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "packing_play.h"
#include "effort.h"
#include "scratch.h"
#include "seed.h"

static int
find_nothing (void *finder, const uint8_t *bytes, size_t size, const uint8_t **rows_p, size_t *rows_bytes_p)
{
    (void) finder; (void) bytes; (void) size;
    *rows_p = NULL;
    *rows_bytes_p = 0;
    return 0;
}

static const packing_rows_t no_rows = { .finder_new = play_finder_new, .finder_destroy = free,
    .find = find_nothing };

//  In up to four threads, or in the caller's.
static packing_rows_t
rows_in_threads (uint64_t *random)
{
    packing_rows_t rows = play_rows;
    rows.threads = (uint32_t) test_below (random, 5);
    return rows;
}

//  ---- whole packs

//  Property: whatever memory, buckets, threads and the lengths of writes, the pack is the same, and it is the
//  source.
static void
test_pack_is_the_source (void **state)
{
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (10); round++, seed++) {
        print_message ("TEST_SEED=%" PRIu64 "\n", seed);
        uint64_t random = seed;
        play_source_t source = { 1 + (uint32_t) test_below (&random, 700), 200000, test_below (&random, 2) };
        play_make_source (*state, &source, random);
        play_job_t job;
        play_prepare (*state, &job, &source, play_in (*state, "one"));
        job.options.seed = seed;
        job.options.chunk_samples = 64 * (1 + (uint32_t) test_below (&random, 3));
        play_run_well (&job);
        assert_int_equal (job.result.seed, seed);
        play_assert_holds (&job);
        for (int other = 0; other < 3; other++) {
            play_job_t again;
            play_prepare (*state, &again, &source, play_in (*state, "two"));
            again.options.seed = seed;
            again.options.chunk_samples = job.options.chunk_samples;
            again.options.buckets = 1 + (uint32_t) test_below (&random, 50);
            again.options.memory_bytes += test_below (&random, 4 << 20);
            packing_rows_t rows = rows_in_threads (&random);
            again.options.rows = &rows;
            play_write_limit = other == 2? 1 + test_below (&random, 5000): 0;
            play_run_well (&again);
            play_write_limit = 0;
            play_assert_same (play_in (*state, "one"), play_in (*state, "two"));
            power_remove (play_in (*state, "two"));
        }
        power_remove (play_in (*state, "one"));
        power_remove (play_in (*state, "data"));
        power_remove (play_in (*state, "masks"));
    }
}

//  All samples in one bucket that is many times the memory: it is taken in runs.
static void
test_bucket_beyond_memory (void **state)
{
    play_source_t source = { 300, 500000, true };
    play_make_source (*state, &source, test_seed ());
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "one"));
    play_run_well (&job);
    play_assert_holds (&job);
    assert_true (job.result.bytes > 3 * (uint64_t) PACKING_MEMORY_BYTES_MIN);
    play_prepare (*state, &job, &source, play_in (*state, "two"));
    job.options.buckets = 1;
    play_run_well (&job);
    play_assert_same (play_in (*state, "one"), play_in (*state, "two"));
}

//  A drawn seed is told, and gives the same pack again.
static void
test_seed_is_drawn (void **state)
{
    play_source_t source = { 200, 3000, false };
    play_make_source (*state, &source, 3);
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "one"));
    job.options.has_seed = false;
    play_run_well (&job);
    uint64_t seed = job.result.seed;
    play_prepare (*state, &job, &source, play_in (*state, "two"));
    job.options.has_seed = false;
    play_run_well (&job);
    assert_true (job.result.seed != seed);
    power_remove (play_in (*state, "two"));
    play_prepare (*state, &job, &source, play_in (*state, "two"));
    job.options.seed = seed;
    play_run_well (&job);
    play_assert_same (play_in (*state, "one"), play_in (*state, "two"));
}

//  Where nothing is known of any file, the pack is the one that is made without asking.  Where it is, each
//  sample has it, and a packing that was begun with it goes on with it.
static void
test_rows (void **state)
{
    play_source_t source = { 300, 3000, true };
    play_make_source (*state, &source, 3);
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "without"));
    job.options.rows = NULL;
    play_run_well (&job);
    assert_int_equal (job.result.with_rows, 0);
    play_assert_holds (&job);
    play_prepare (*state, &job, &source, play_in (*state, "unknown"));
    job.options.rows = &no_rows;
    play_run_well (&job);
    job.options.rows = NULL;
    play_assert_holds (&job);
    play_assert_same (play_in (*state, "without"), play_in (*state, "unknown"));
    play_prepare (*state, &job, &source, play_in (*state, "with"));
    play_run_until (&job, 50);
    job.options.resume = true;
    job.options.rows = NULL;
    play_assert_refused (&job, -EINVAL, "begun without --no-jpeg-rows", "leave that out");
    job.options.rows = &play_rows;
    play_run_well (&job);
    play_assert_holds (&job);
    assert_true (job.result.with_rows > 100 && job.result.with_rows < 300);
}

//  A pack has eight files of a sample at most: with eight fields there is no room for the rows.
static void
test_no_room_for_rows (void **state)
{
    play_source_t source = { 20, 3000, false };
    play_make_source (*state, &source, 3);
    play_job_t job;
    catalogue_field_t fields [CATALOGUE_FIELDS_MAX - 1];
    static const char *const names [] = { "a", "b", "c", "d", "e", "f", "g" };
    for (int count = CATALOGUE_FIELDS_MAX - 2; count < CATALOGUE_FIELDS_MAX; count++) {
        play_prepare (*state, &job, &source, play_in (*state, count % 2? "full": "room"));
        for (int field = 0; field < count; field++)
            fields [field] = (catalogue_field_t) { names [field], false, play_in (*state, "data") };
        job.options.source.fields = fields;
        job.options.source.field_count = (size_t) count;
        play_run_well (&job);
        assert_int_equal (job.result.with_rows > 0, count < CATALOGUE_FIELDS_MAX - 1);
        job.options.rows = job.result.with_rows? &play_rows: NULL;
        play_assert_holds (&job);
    }
}


//  ---- going on

//  Property: stopped wherever, any number of times, with any memory, it ends with the same bytes.
static void
test_stopped_and_resumed (void **state)
{
    uint64_t random = test_seed ();
    play_source_t source = { 400, 60000, true };
    play_make_source (*state, &source, random);
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "one"));
    play_run_well (&job);
    for (int round = 0; round < EFFORT (20); round++) {
        unsigned int stops = 0;
        int rc;
        uint32_t buckets = 1 + (uint32_t) test_below (&random, 20);
        packing_rows_t rows = rows_in_threads (&random);
        do {
            play_stop_t stop = { 1 + (unsigned int) test_below (&random, 500) };
            play_job_t again;
            play_prepare (*state, &again, &source, play_in (*state, "two"));
            again.options.resume = true;
            again.options.rows = &rows;
            again.options.has_seed = stops == 0 || test_below (&random, 2);
            again.options.buckets = buckets;
            again.options.memory_bytes += test_below (&random, 1 << 20);
            again.options.volume_bytes = stops? 0: again.options.volume_bytes;
            again.options.stopped = play_stop_after;
            again.options.context = &stop;
            rc = play_run (&again);
            if (rc && rc != -ECANCELED)
                fail_msg ("%s", again.error);
            if (rc) {
                assert_non_null (strstr (again.error, "--resume"));
                assert_int_not_equal (access (play_in (*state, "two/index.tureen"), F_OK), 0);
                stops++;
            }
            else
                assert_int_equal (again.result.resumed, stops > 0);
        } while (rc);
        play_assert_same (play_in (*state, "one"), play_in (*state, "two"));
        power_remove (play_in (*state, "two"));
    }
}

typedef struct {
    const char *from, *to;              //  a file that goes away before the sixth sample
    uint64_t first, calls;
} missing_t;

static bool
move_file (void *context)
{
    missing_t *self = context;
    if (++self->calls == 6)
        assert_int_equal (rename (self->from, self->to), 0);
    return false;
}

static void
keep_first (void *context, const packing_progress_t *progress)
{
    missing_t *self = context;
    if (self->first == 0)
        self->first = progress->samples;
}

//  A file that can't be read ends it with all samples before that packed, however far threads are ahead.
static void
test_a_file_that_is_missing (void **state)
{
    play_source_t source = { 300, 3000, false };
    play_make_source (*state, &source, 5);
    for (uint32_t threads = 0; threads < 4; threads++) {
        packing_rows_t rows = play_rows;
        rows.threads = threads;
        missing_t missing = { play_in (*state, "data/c000/00090.jpg"), play_in (*state, "away.jpg"), 0, 0 };
        play_job_t job;
        play_prepare (*state, &job, &source, play_in (*state, "two"));
        job.options.rows = &rows;
        job.options.stopped = move_file;
        job.options.context = &missing;
        play_assert_refused (&job, -ENOENT, "00090.jpg", "");
        assert_int_equal (rename (missing.to, missing.from), 0);
        job.options.resume = true;
        job.options.stopped = NULL;
        job.options.progress = keep_first;
        play_run_well (&job);
        assert_int_equal (missing.first, 91);
        play_assert_holds (&job);
        power_remove (play_in (*state, "two"));
    }
}

//  What was written behind the journal's word, as far as it came.
static void
add_garbage (void *state, uint64_t *random)
{
    static const char *const names [] = { "two/packing/bucket-00000", "two/packing/bucket-00001",
        "two/packing/table", "two/packing/journal.new", "two/index.tureen.partial" };
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        if (test_below (random, 2) || access (play_in (state, names [index]), F_OK) != 0)
            continue;
        FILE *file = fopen (play_in (state, names [index]), "ab");
        assert_non_null (file);
        for (uint64_t count = test_below (random, 5000); count; count--)
            putc ((int) test_below (random, 256), file);
        fclose (file);
    }
}

//  Killed at every call there is, with that call done by half: it is no pack then, and going on makes the
//  same one.
static void
test_killed_at_every_call (void **state)
{
    uint64_t random = test_seed ();
    play_source_t source = { 24, 60000, false };
    play_make_source (*state, &source, random);
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "one"));
    job.options.buckets = 2;
    play_calls = 0;
    play_run_well (&job);
    unsigned int all = play_calls;
    assert_true (all > 100);
    for (unsigned int nth = 1; nth <= all; nth += PLAY_SWEEP_STEP) {
        play_job_t again;
        play_prepare (*state, &again, &source, play_in (*state, "two"));
        again.options.buckets = 2;
        play_run_and_kill (&again, nth);
        if (access (play_in (*state, "two/index.tureen"), F_OK) == 0)
            play_assert_same_file (play_in (*state, "one/index.tureen"),
                play_in (*state, "two/index.tureen"));
        add_garbage (*state, &random);
        again.options.resume = true;
        play_run_well (&again);
        play_assert_same (play_in (*state, "one"), play_in (*state, "two"));
        power_remove (play_in (*state, "two"));
    }
    print_message ("%u calls\n", all);
}

static bool
die_at_ninth (void *context)
{
    unsigned int *calls = context;
    if (++*calls == 9)
        _exit (PLAY_KILLED);
    return false;
}

//  The packing saves its journal whenever it has read twice its memory, here four samples.  One that is
//  killed at the ninth sample need not read the first four again.
static void
test_a_kill_costs_little_of_the_first_pass (void **state)
{
    play_source_t source = { 10, 1000, false };
    play_make_source (*state, &source, test_seed ());
    for (uint32_t id = 0; id < source.samples; id++) {
        char name [40];
        snprintf (name, sizeof name, "data/c000/%05u.jpg", id);
        play_make_file (play_in (*state, name), PACKING_MEMORY_BYTES_MIN / 2 - 100, id);
    }
    play_job_t job;
    unsigned int calls = 0;
    missing_t first = { .first = 0 };
    play_prepare (*state, &job, &source, play_in (*state, "one"));
    job.options.stopped = die_at_ninth;
    job.options.context = &calls;
    pid_t child = fork ();
    if (child == 0)
        _exit (play_run (&job) == 0? 0: 1);
    int status = -1;
    waitpid (child, &status, 0);
    assert_int_equal (WEXITSTATUS (status), PLAY_KILLED);
    job.options.resume = true;
    job.options.stopped = NULL;
    job.options.progress = keep_first;
    job.options.context = &first;
    play_run_well (&job);
    assert_in_range (first.first, 5, 9);                //  the number of the first sample that it reads
    play_assert_holds (&job);
}

//  Every call fails once, and for ever: refused in words, nothing leaks, and going on makes the same pack.
static void
test_every_call_fails (void **state)
{
    static const int errors [] = { ENOSPC, EIO, EMFILE };
    play_source_t source = { 24, 60000, false };
    play_make_source (*state, &source, test_seed ());
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "one"));
    job.options.buckets = 2;
    play_run_well (&job);
    size_t descriptors = scratch_descriptors ();
    for (int forever = 0; forever < 2; forever++)
        for (unsigned int nth = 1, reached = 1; reached;
                nth += forever? 3 * PLAY_SWEEP_STEP: PLAY_SWEEP_STEP) {
            play_job_t again;
            play_prepare (*state, &again, &source, play_in (*state, "two"));
            again.options.buckets = 2;
            fault_arm (nth, errors [nth % 3], forever);
            int rc = play_run (&again);
            reached = fault_disarm ();
            if ((rc == 0) != (strlen (again.error) == 0) || (reached && rc == 0 && forever)
                || !fault_has_words (again.error))
                fail_msg ("call %u: %d '%s'", nth, rc, again.error);
            if (rc && access (play_in (*state, "two/index.tureen"), F_OK) == 0)
                play_assert_same_file (play_in (*state, "one/index.tureen"),
                    play_in (*state, "two/index.tureen"));
            if (scratch_descriptors () != descriptors)
                fail_msg ("call %u: a descriptor is left open after '%s'", nth, again.error);
            again.options.resume = true;
            play_run_well (&again);
            play_assert_same (play_in (*state, "one"), play_in (*state, "two"));
            power_remove (play_in (*state, "two"));
        }
}

//  How many calls there were before the first sample of the second pass was told, and before the last one.
typedef struct { unsigned int first, last; } second_pass_t;

static void
note_second_pass (void *context, const packing_progress_t *progress)
{
    second_pass_t *self = context;
    if (progress->pass == 2)
        self->last = play_calls;
    if (progress->pass == 2 && self->first == 0)
        self->first = play_calls;
}

//  The other sweeps have one volume.  While volumes end and others begin, no call that fails goes unnoticed.
static void
test_no_fault_between_volumes_is_overlooked (void **state)
{
    play_source_t source = { 140, 1000, false };
    play_make_source (*state, &source, test_seed ());
    play_job_t job;
    second_pass_t calls = { 0, 0 };
    play_prepare (*state, &job, &source, play_in (*state, "one"));
    job.options.volume_bytes = PACK_BLOCK_BYTES;        //  a volume for each chunk of 64
    job.options.buckets = 1;
    job.options.progress = note_second_pass;
    job.options.context = &calls;
    play_calls = 0;
    play_run_well (&job);
    assert_int_equal (job.result.volumes, 3);
    assert_true (calls.first > 0 && calls.last > calls.first);
    for (unsigned int nth = calls.first + 1; nth <= calls.last; nth++) {
        play_job_t again;
        play_prepare (*state, &again, &source, play_in (*state, "two"));
        again.options.volume_bytes = PACK_BLOCK_BYTES;
        again.options.buckets = 1;
        fault_arm (nth, EIO, false);
        int rc = play_run (&again);
        assert_true (fault_disarm ());
        if (rc != -EIO)
            fail_msg ("call %u: %d '%s'", nth, rc, again.error);
        again.options.resume = true;
        play_run_well (&again);
        play_assert_same (play_in (*state, "one"), play_in (*state, "two"));
        power_remove (play_in (*state, "two"));
    }
    print_message ("%u calls\n", calls.last - calls.first);
}

//  A file system that syncs no folders, and a mount point in one that cannot be written.
static void
test_folders_that_cannot_be_synced (void **state)
{
    play_source_t source = { 140, 1000, false };
    play_make_source (*state, &source, test_seed ());
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "one"));
    play_refuses_folders = true;
    int rc = play_run (&job);
    play_refuses_folders = false;
    if (rc)
        fail_msg ("%s", job.error);
    assert_int_equal (stat (((scratch_folder_t *) *state)->path, &play_mounted_in), 0);
    play_prepare (*state, &job, &source, play_in (*state, "two"));
    rc = play_run (&job);
    play_mounted_in.st_ino = 0;
    if (rc)
        fail_msg ("%s", job.error);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_pack_is_the_source, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_bucket_beyond_memory, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_seed_is_drawn, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_rows, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_no_room_for_rows, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_stopped_and_resumed, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_a_file_that_is_missing, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_killed_at_every_call, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_a_kill_costs_little_of_the_first_pass, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_every_call_fails, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_no_fault_between_volumes_is_overlooked, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_folders_that_cannot_be_synced, play_begin, play_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
