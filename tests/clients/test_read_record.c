//  What `tureen read` writes down, beside a disk that fails: in this process, against a fake server.

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include "fake_checks.h"
#include "fake_server.h"
#include "read_record.h"
#include "scratch.h"

enum { SAMPLES = 40, BATCH = 4, TEXT_BYTES = 8192 };

typedef struct {
    scratch_folder_t scratch;
    char ids [100], state [100], fresh [110], err [100];
} fixture_t;

//  -- calls of the system that fail

static unsigned s_sync_left;            //  calls of fsync up to the one that fails; 0: none does
static int s_sync_error;
static off_t s_ids_bytes;               //  of the file of ids when it was synced last
static bool s_is_state_synced;          //  it was, and the ids before it
static const fixture_t *s_files;

static bool
s_is_file (int fd, const char *path, off_t *size_p)
{
    struct stat one, other;
    bool is = fstat (fd, &one) == 0 && stat (path, &other) == 0 && one.st_ino == other.st_ino;
    *size_p = is? one.st_size: -1;
    return is;
}

int __wrap_fsync (int fd);
int
__wrap_fsync (int fd)
{
    off_t size;
    struct stat status;
    bool fails = s_sync_left && --s_sync_left == 0;
    if (!fails || s_sync_error == EINVAL) {
        if (s_is_file (fd, s_files->ids, &size))
            s_ids_bytes = size;
        if (s_is_file (fd, s_files->fresh, &size))
            s_is_state_synced = stat (s_files->ids, &status) == 0 && status.st_size == s_ids_bytes;
    }
    errno = s_sync_error;
    return fails? -1: 0;                //  no test needs to wait for the disk
}

static _Thread_local int s_close_error;  //  that the next close of this thread has; 0: none

int __real_close (int fd);
int __wrap_close (int fd);
int
__wrap_close (int fd)
{
    off_t size;
    bool fails = s_close_error && s_is_file (fd, s_files->fresh, &size);
    int rc = __real_close (fd);
    if (!fails)
        return rc;
    errno = s_close_error;
    s_close_error = 0;
    return -1;
}

//  -- a run

//  The file as a text; "": there is none.
static void
s_load (const char *path, char text [TEXT_BYTES])
{
    FILE *file = fopen (path, "r");
    size_t size = file? fread (text, 1, TEXT_BYTES - 1, file): 0;
    text [size] = 0;
    if (file)
        fclose (file);
}

static tureen_loader_t *
s_join (const fake_server_t *fake, const read_record_t *record)
{
    char error [TUREEN_ERROR_BYTES];
    tureen_options_t options = { .endpoint = fake_endpoint (fake), .dataset = "train", .batch_size = BATCH,
        .epochs = 1, .rejoin_ms = -1, .timeout_ms = PATIENCE_MS, .state = read_record_state (record) };
    tureen_loader_t *loader = tureen_loader_new (&options, error, sizeof error);
    if (!loader)
        fail_msg ("%s", error);
    return loader;
}

//  What fails when the batch of that number is written down: the so manieth fsync (1: of the ids, 2: of the
//  state), or the close of the state.
typedef struct {
    uint64_t batch;
    unsigned sync;
    int sync_error, close_error;
} failing_t;

//  Reads until the end (true), or until something cannot be written down.
static bool
s_read (const fixture_t *self, fake_server_t *fake, failing_t failing)
{
    const read_record_options_t options = { .ids_path = self->ids, .state_path = self->state,
        .state_every = 1 };
    read_record_t *record = read_record_new (&options);
    assert_non_null (record);
    tureen_loader_t *loader = s_join (fake, record);
    assert_true (read_record_begin (record, loader));
    bool fine = true;
    for (tureen_event_t event = TUREEN_BATCH; fine && event != TUREEN_END;) {
        tureen_batch_t *batch;
        event = tureen_loader_next_within (loader, &batch, PATIENCE_MS);
        if (event == TUREEN_BATCH) {
            bool fails = tureen_batch_index (batch) == failing.batch;
            s_sync_left = fails? failing.sync: 0;
            s_sync_error = failing.sync_error;
            s_close_error = fails? failing.close_error: 0;
            s_is_state_synced = false;
            fine = read_record_batch (record, loader, batch);
            assert_true (!fine || s_is_state_synced);
            tureen_batch_release (&batch);
        }
        else
        if (event == TUREEN_EPOCH_END)
            fine = read_record_epoch_end (record, loader);
        else
            assert_int_equal (event, TUREEN_END);
    }
    fine = fine && read_record_end (record, loader);
    assert_true (!fine || s_is_state_synced);
    read_record_destroy (&record);
    tureen_loader_destroy (&loader);
    return fine;
}

//  The record is one whole line with each sample once.
static void
s_check_once (const fixture_t *self)
{
    char text [TEXT_BYTES], *place = text;
    bool had [SAMPLES] = { false };
    size_t count = 0;
    s_load (self->ids, text);
    assert_int_equal (strncmp (text, "0:", 2), 0);
    for (place += 2; *place == ' '; count++) {
        uint64_t id = strtoull (place + 1, &place, 10);
        assert_true (id < SAMPLES && !had [id]);
        had [id] = true;
    }
    assert_string_equal (place, "\n");
    assert_int_equal (count, SAMPLES);
}

static int
s_begin (void **state)
{
    static fixture_t self;
    *state = &self;
    s_files = &self;
    if (!scratch_begin (&self.scratch))
        return -1;
    snprintf (self.ids, sizeof self.ids, "%s/ids", self.scratch.path);
    snprintf (self.state, sizeof self.state, "%s/state", self.scratch.path);
    snprintf (self.fresh, sizeof self.fresh, "%s.new", self.state);
    snprintf (self.err, sizeof self.err, "%s/err", self.scratch.path);
    return 0;
}

static int
s_end (void **state)
{
    s_sync_left = 0;
    s_close_error = 0;
    return scratch_end (&((fixture_t *) *state)->scratch)? 0: -1;
}

//  -- the tests

static void
s_assert_fails (const fixture_t *self, failing_t failing, const char *says)
{
    fake_plan_t plan = { .samples = SAMPLES, .epochs = 1, .shuffle = true };
    fake_server_t *fake = fake_new (&plan);
    char text [TEXT_BYTES];
    int kept = dup (STDERR_FILENO), err = open (self->err, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true (kept >= 0 && err >= 0 && dup2 (err, STDERR_FILENO) == STDERR_FILENO);
    bool fine = s_read (self, fake, failing);
    assert_true (dup2 (kept, STDERR_FILENO) == STDERR_FILENO);
    close (kept);
    close (err);
    assert_false (fine);
    s_load (self->err, text);
    if (!strstr (text, says))
        fail_msg ("'%s' does not say '%s'", text, says);
    s_load (self->state, text);
    assert_non_null (strstr (text, "\"batches\": \"6\""));      //  as it was before that batch
    s_load (self->fresh, text);
    assert_string_equal (text, "");
    fake_destroy (&fake);
    fake = fake_new (&plan);
    assert_true (s_read (self, fake, (failing_t) { 0 }));
    s_check_once (self);
    fake_destroy (&fake);
    unlink (self->state);
    unlink (self->ids);
}

//  Guards: a disk that does not take what was written ends the run with words, the state before it holds, and
//  the next run makes the record whole.
static void
test_a_disk_that_fails_loses_nothing (void **state)
{
    static const char words [] = "Input/output error; what it said before still holds";
    s_assert_fails (*state, (failing_t) { .batch = 6, .sync = 1, .sync_error = ENOSPC }, "No space left");
    s_assert_fails (*state, (failing_t) { .batch = 6, .sync = 2, .sync_error = EIO }, words);
    s_assert_fails (*state, (failing_t) { .batch = 6, .close_error = EIO }, words);
}

//  Guards: an interrupted call is made again, and a place without a disk has nothing to wait for.
static void
test_a_sync_that_is_interrupted (void **state)
{
    const fixture_t *self = *state;
    static const int errors [] = { EINTR, EINVAL };
    for (size_t index = 0; index < sizeof errors / sizeof *errors; index++)
        for (unsigned sync = 1; sync <= 2; sync++) {
            fake_plan_t plan = { .samples = SAMPLES, .epochs = 1, .shuffle = true };
            fake_server_t *fake = fake_new (&plan);
            assert_true (s_read (self, fake, (failing_t) { .batch = 6, .sync = sync,
                .sync_error = errors [index] }));
            assert_int_equal (s_sync_left, 0);
            s_check_once (self);
            fake_destroy (&fake);
            unlink (self->state);
            unlink (self->ids);
        }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_a_disk_that_fails_loses_nothing, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_sync_that_is_interrupted, s_begin, s_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
