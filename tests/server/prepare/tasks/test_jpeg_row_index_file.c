//  What is known of rows, written to a file and read again: the same; nothing of a file that is cut, changed,
//  of other data, or partly lost with the power.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "effort.h"
#include "jpeg_row_index.h"
#include "power_calls.h"
#include "seed.h"

enum { SAMPLES = 50, BYTES_MAX = 300, FILE_MAX = 32 * 1024 };

static const char FINGERPRINT [] = "0123456789abcdef0123456789abcdef", OTHER [] =
    "0123456789abcdef0123456789abcde0";

typedef struct {
    char folder [64], path [128];
    jpeg_row_index_budget_t budget;
    jpeg_row_index_t *rows;
} scene_t;

static int
s_set_up (void **state)
{
    scene_t *self = calloc (1, sizeof *self);
    assert_non_null (self);
    strcpy (self->folder, "/tmp/tureen-rows-XXXXXX");
    assert_non_null (mkdtemp (self->folder));
    assert_int_equal (jpeg_row_index_path (self->folder, FINGERPRINT, self->path, sizeof self->path), 0);
    self->budget.bytes_max = 1 << 20;
    self->rows = jpeg_row_index_new (SAMPLES, &self->budget);
    assert_non_null (self->rows);
    *state = self;
    return 0;
}

static int
s_tear_down (void **state)
{
    scene_t *self = *state;
    jpeg_row_index_destroy (&self->rows);
    unlink (self->path);
    assert_int_equal (rmdir (self->folder), 0);         //  nothing else is left
    free (self);
    return 0;
}

static uint64_t
s_checksum (uint32_t id)
{
    return id * UINT64_C (0x9e3779b97f4a7c15);
}

//  Entries of every third sample before this one, of any size.
static void
s_learn_until (scene_t *self, uint32_t end)
{
    uint64_t random = test_seed ();
    for (uint32_t id = 0; id < end; id += 3) {
        uint8_t bytes [BYTES_MAX];
        size_t size = 1 + test_below (&random, BYTES_MAX);
        memset (bytes, (int) id, size);
        jpeg_row_index_keep (self->rows, id, jpeg_row_index_entry (s_checksum (id), bytes, size));
    }
}

static void
s_learn (scene_t *self)
{
    s_learn_until (self, SAMPLES);
}

//  What is known is right.
static void
s_check (const scene_t *self)
{
    for (uint32_t id = 0; id < SAMPLES; id++) {
        jpeg_row_index_entry_t *entry = jpeg_row_index_lend (self->rows, id);
        assert_true (!entry || (id % 3 == 0 && entry->checksum == s_checksum (id)));
        for (uint32_t at = 0; entry && at < entry->size; at++)
            assert_int_equal (entry->bytes [at], id);
        jpeg_row_index_release (entry);
    }
}

//  Forgets all, in this place.
static void
s_forget (scene_t *self)
{
    jpeg_row_index_destroy (&self->rows);
    self->rows = jpeg_row_index_new (SAMPLES, &self->budget);
    assert_non_null (self->rows);
}

static size_t
s_read (const scene_t *self, uint8_t bytes [FILE_MAX])
{
    FILE *file = fopen (self->path, "re");
    assert_non_null (file);
    size_t size = fread (bytes, 1, FILE_MAX, file);
    assert_in_range (size, 1, FILE_MAX - 1);
    fclose (file);
    return size;
}

static void
s_write (const scene_t *self, const uint8_t *bytes, size_t size)
{
    FILE *file = fopen (self->path, "we");
    assert_non_null (file);
    assert_int_equal (fwrite (bytes, 1, size, file), size);
    assert_int_equal (fclose (file), 0);
}

//  Guards: everything comes back, and is not written again without news.
static void
what_is_written_is_read (void **state)
{
    scene_t *self = *state;
    assert_int_equal (jpeg_row_index_load (self->rows, self->path, FINGERPRINT), -ENOENT);
    assert_int_equal (jpeg_row_index_save (self->rows, self->path, FINGERPRINT), 0);
    assert_int_equal (access (self->path, F_OK), -1);           //  there was nothing to say
    s_learn (self);
    uint32_t known = jpeg_row_index_samples (self->rows);
    size_t bytes = self->budget.bytes;
    assert_int_equal (jpeg_row_index_save (self->rows, self->path, FINGERPRINT), 0);
    s_forget (self);
    assert_int_equal (jpeg_row_index_load (self->rows, self->path, FINGERPRINT), 0);
    assert_int_equal (jpeg_row_index_samples (self->rows), known);
    assert_int_equal (self->budget.bytes, bytes);
    s_check (self);
    assert_int_equal (unlink (self->path), 0);
    assert_int_equal (jpeg_row_index_save (self->rows, self->path, FINGERPRINT), 0);
    assert_int_equal (access (self->path, F_OK), -1);           //  and there is no news
}

//  Guards: a file that is not whole, byte by byte, adds nothing.
static void
damage_is_refused (void **state)
{
    scene_t *self = *state;
    static uint8_t bytes [FILE_MAX];
    s_learn (self);
    assert_int_equal (jpeg_row_index_save (self->rows, self->path, FINGERPRINT), 0);
    size_t size = s_read (self, bytes);
    s_forget (self);
    for (size_t cut = 0; cut < size; cut += cut < 200? 1: 37) {
        s_write (self, bytes, cut);
        assert_int_equal (jpeg_row_index_load (self->rows, self->path, FINGERPRINT), -EBADMSG);
    }
    for (size_t at = 0; at < size; at += at < 200? 1: 37) {
        bytes [at] ^= 1;
        s_write (self, bytes, size);
        assert_int_equal (jpeg_row_index_load (self->rows, self->path, FINGERPRINT), -EBADMSG);
        bytes [at] ^= 1;
    }
    assert_int_equal (jpeg_row_index_samples (self->rows), 0);
    s_write (self, bytes, size);
    assert_int_equal (jpeg_row_index_load (self->rows, self->path, OTHER), -EBADMSG);
    assert_int_equal (jpeg_row_index_load (self->rows, self->path, FINGERPRINT), 0);
}

//  Guards: with less room, what fits is taken; and a table that cannot be written is told.
static void
limits (void **state)
{
    scene_t *self = *state;
    s_learn (self);
    assert_int_equal (jpeg_row_index_save (self->rows, "/nowhere/rows", FINGERPRINT), -ENOENT);
    assert_int_equal (jpeg_row_index_save (self->rows, self->path, FINGERPRINT), 0);
    uint32_t known = jpeg_row_index_samples (self->rows);
    self->budget.bytes_max = self->budget.bytes / 2;
    s_forget (self);
    assert_int_equal (jpeg_row_index_load (self->rows, self->path, FINGERPRINT), 0);
    assert_in_range (jpeg_row_index_samples (self->rows), 1, known - 1);
    assert_true (self->budget.bytes <= self->budget.bytes_max);
    char path [40];
    assert_int_equal (jpeg_row_index_path ("/a/folder", FINGERPRINT, path, sizeof path), -ENAMETOOLONG);
}

//  Guards: a server that is killed while it saves leaves nothing that the next save does not replace.
static void
killed_while_it_saves (void **state)
{
    scene_t *self = *state;
    s_learn (self);
    pid_t child = fork ();
    if (child == 0) {
        struct rlimit none = { 0 }, little = { 100, 100 };
        setrlimit (RLIMIT_CORE, &none);
        setrlimit (RLIMIT_FSIZE, &little);
        _exit (jpeg_row_index_save (self->rows, self->path, FINGERPRINT) == 0? 0: 1);
    }
    int status;
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_true (WIFSIGNALED (status) && WTERMSIG (status) == SIGXFSZ);
    assert_int_equal (scratch_entries (self->folder), 1);
    assert_int_equal (jpeg_row_index_load (self->rows, self->path, FINGERPRINT), -ENOENT);
    assert_int_equal (jpeg_row_index_save (self->rows, self->path, FINGERPRINT), 0);
    assert_int_equal (scratch_entries (self->folder), 1);
}

//  Guards: whatever the disk has kept, what is read is all of one save or nothing, and the next save is read.
static void
power_is_lost (void **state)
{
    scene_t *self = *state;
    static const uint32_t ends [] = { 10, 30, SAMPLES };
    enum { SAVES = sizeof ends / sizeof *ends };
    uint32_t known [SAVES];
    uint64_t random = test_seed ();
    size_t whole = 0, damaged = 0, absent = 0;
    char lost [80], path [160];
    snprintf (lost, sizeof lost, "%s/lost", self->folder);
    assert_int_equal (jpeg_row_index_path (lost, FINGERPRINT, path, sizeof path), 0);
    power_record (self->folder);
    for (size_t save = 0; save < SAVES; save++) {
        s_learn_until (self, ends [save]);
        known [save] = jpeg_row_index_samples (self->rows);
        assert_int_equal (jpeg_row_index_save (self->rows, self->path, FINGERPRINT), 0);
    }
    size_t all = power_stop ();
    for (unsigned int turn = 0; turn < EFFORT (600); turn++) {
        power_lose (lost, test_below (&random, all + 1), turn % 8? POWER_SOME_LOST: POWER_NONE_LOST, &random);
        s_forget (self);
        int rc = jpeg_row_index_load (self->rows, path, FINGERPRINT);
        uint32_t samples = jpeg_row_index_samples (self->rows);
        bool is_a_save = samples == known [0] || samples == known [1] || samples == known [2];
        if (rc? (rc != -EBADMSG && rc != -ENOENT) || samples > 0: !is_a_save)
            fail_msg ("turn %u: %d, rows of %u samples", turn, rc, samples);
        s_check (self);
        *(rc == 0? &whole: rc == -EBADMSG? &damaged: &absent) += 1;
        s_learn (self);
        assert_int_equal (jpeg_row_index_save (self->rows, path, FINGERPRINT), 0);
        s_forget (self);
        assert_int_equal (jpeg_row_index_load (self->rows, path, FINGERPRINT), 0);
        assert_int_equal (jpeg_row_index_samples (self->rows), known [SAVES - 1]);
        power_remove (lost);
    }
    //  Of another seed, these need not all come.
    if (!getenv ("TEST_SEED"))
        assert_true (whole > 0 && damaged > 0 && absent > 0);
    power_forget ();
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (what_is_written_is_read, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (damage_is_refused, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (limits, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (killed_while_it_saves, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (power_is_lost, s_set_up, s_tear_down)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
