//  What a thread of `tureen work` does with a task: the files come with it, or are the worker's own if these
//  are the server's; and what one large sample needed is given back.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "decoder.h"
#include "pack_index.h"
#include "scratch.h"
#include "work.h"

enum { FILE_BYTES = 4 };

typedef struct {
    scratch_folder_t scratch;
    const pipeline_t *pipeline;
    catalogue_t *catalogue;             //  one sample: an image that no task reads, "abcd" and "wxyz"
    decoder_worker_t *worker;
} play_t;

//  0: as it is.
static size_t s_kept_bytes;

size_t __real_decoder_kept_bytes (const decoder_t *self);
size_t __wrap_decoder_kept_bytes (const decoder_t *self);

size_t
__wrap_decoder_kept_bytes (const decoder_t *self)
{
    return s_kept_bytes? s_kept_bytes: __real_decoder_kept_bytes (self);
}

//  What the decoder is given, and tells; status < 0: the real one decodes.
static struct {
    int status;
    size_t file;
    bool is_clipped;
    const char *rows;
    pipeline_key_t key;
    uint32_t warnings_max;
    char given_rows [20];
} s_decoder = { .status = -1 };

decoder_status_t __real_decoder_shared (decoder_t *self, const pipeline_t *pipeline,
    const pipeline_key_t *key, const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char *what,
    size_t what_bytes);
decoder_status_t __wrap_decoder_shared (decoder_t *self, const pipeline_t *pipeline,
    const pipeline_key_t *key, const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char *what,
    size_t what_bytes);
bool __wrap_decoder_clipped (const decoder_t *self);
size_t __wrap_decoder_learned (const decoder_t *self, const uint8_t **bytes_p);

decoder_status_t
__wrap_decoder_shared (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char *what, size_t what_bytes)
{
    s_decoder.key = *key;
    s_decoder.warnings_max = sample->warnings_max;
    snprintf (s_decoder.given_rows, sizeof s_decoder.given_rows, "%.*s", (int) sample->files [0].rows_bytes,
        (const char *) sample->files [0].rows);
    if (s_decoder.status < 0)
        return __real_decoder_shared (self, pipeline, key, sample, version, file_p, what, what_bytes);
    *file_p = s_decoder.file;
    snprintf (what, what_bytes, "%s", s_decoder.status == DECODER_OK? "": "why");
    return (decoder_status_t) s_decoder.status;
}

bool
__wrap_decoder_clipped (const decoder_t *self)
{
    (void) self;
    return s_decoder.is_clipped;
}

size_t
__wrap_decoder_learned (const decoder_t *self, const uint8_t **bytes_p)
{
    (void) self;
    *bytes_p = (const uint8_t *) s_decoder.rows;
    return s_decoder.rows? strlen (s_decoder.rows): 0;
}

static void
s_make_file (const play_t *self, const char *folder, const char *name, const char *text)
{
    char path [200];
    snprintf (path, sizeof path, "%s/%s", self->scratch.path, folder);
    mkdir (path, 0700);
    snprintf (path, sizeof path, "%s/%s/class", self->scratch.path, folder);
    mkdir (path, 0700);
    snprintf (path, sizeof path, "%s/%s/class/%s", self->scratch.path, folder, name);
    FILE *file = fopen (path, "we");
    assert_non_null (file);
    fputs (text, file);
    assert_int_equal (fclose (file), 0);
}

static int
s_begin (void **state)
{
    play_t *self = calloc (1, sizeof *self);
    char error [1024], paths [3] [80];
    *state = self;
    assert_true (scratch_begin (&self->scratch));
    s_make_file (self, "data", "x.jpg", "no image");
    s_make_file (self, "one", "x.txt", "abcd");
    s_make_file (self, "other", "x.txt", "wxyz");
    static const char *const names [] = { "data", "one", "other" };
    for (size_t index = 0; index < 3; index++)
        snprintf (paths [index], sizeof paths [index], "%s/%s", self->scratch.path, names [index]);
    const catalogue_field_t fields [] = { { .name = "one", .path = paths [1] },
        { .name = "other", .path = paths [2] } };
    catalogue_options_t options = { .path = paths [0], .fields = fields, .field_count = 2 };
    if (catalogue_open (&self->catalogue, &options, error, sizeof error))
        fail_msg ("%s", error);
    pipeline_source_t source = { .fields = { { "image", false }, { "one", false }, { "other", false } },
        .count = 3 };
    json_t *list = json_loads ("[{\"op\":\"decode\",\"fields\":["
        "{\"field\":\"one\",\"as\":\"bytes\",\"length\":4},"
        "{\"field\":\"other\",\"as\":\"bytes\",\"length\":4}]},{\"share\":true}]", 0, NULL);
    if (pipeline_new (&self->pipeline, list, &source, NULL, 0, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (list);
    self->worker = decoder_worker_new ();
    return self->worker? 0: -1;
}

static int
s_end (void **state)
{
    play_t *self = *state;
    decoder_worker_destroy (self->worker);
    pipeline_destroy (&self->pipeline);
    catalogue_destroy (&self->catalogue);
    bool is_tidy = scratch_end (&self->scratch);
    free (self);
    return is_tidy? 0: -1;
}

//  A task with the bytes of its files.
static work_task_t *
s_task (const play_t *self, const char *bytes)
{
    work_task_t *task = work_task_new ();
    task->pipeline = pipeline_hold (self->pipeline);
    task->version_bytes = pipeline_version_bytes (self->pipeline);
    task->wire = (wire_work_task_t) { .files = 2,
        .sizes = { FILE_BYTES, strlen (bytes) - FILE_BYTES } };
    zmq_msg_close (&task->bytes);
    assert_int_equal (zmq_msg_init_size (&task->bytes, strlen (bytes)), 0);
    memcpy (zmq_msg_data (&task->bytes), bytes, strlen (bytes));
    return task;
}

//  A task of which the worker reads the files, which have these sums at the server.
static work_task_t *
s_task_to_read (const play_t *self, uint64_t id, const char *one, const char *other)
{
    work_task_t *task = s_task (self, "....");
    task->catalogue = self->catalogue;
    task->wire.id = id;
    task->wire.flags = WIRE_WORK_READ;
    task->wire.checksum = pack_index_checksum (one, FILE_BYTES)
        + 2 * pack_index_checksum (other, FILE_BYTES);
    return task;
}

//  Carries it out.  Ready: the version has both files, in their order.
static void
s_assert_outcome (const play_t *self, work_task_t *task, wire_work_outcome_t outcome, uint32_t file)
{
    work_task_carry_out (self->worker, task);
    assert_int_equal (task->result.outcome, outcome);
    assert_int_equal (task->result.file, file);
    if (outcome == WIRE_WORK_READY) {
        const uint8_t *one = memmem (task->version, task->version_bytes, "abcd", FILE_BYTES);
        assert_non_null (one);
        assert_non_null (memmem (one, task->version_bytes - (size_t) (one - task->version), "wxyz",
            FILE_BYTES));
    }
    work_task_destroy (&task);
}

//  Must hold: each file of a task is prepared as the one that it is; the file at fault is named.
static void
test_files_that_come_with_a_task (void **state)
{
    const play_t *self = *state;
    s_assert_outcome (self, s_task (self, "abcdwxyz"), WIRE_WORK_READY, 0);
    s_assert_outcome (self, s_task (self, "abcdwxy"), WIRE_WORK_UNSUITABLE, 1);
    s_assert_outcome (self, s_task (self, "abcdwxyz"), WIRE_WORK_READY, 0);
}

//  Must hold: files of the worker's own are taken only if they are the server's, each at its place; a sample
//  that it does not have is unread.
static void
test_files_of_the_workers_own (void **state)
{
    const play_t *self = *state;
    s_assert_outcome (self, s_task_to_read (self, 0, "abcd", "wxyz"), WIRE_WORK_READY, 0);
    s_assert_outcome (self, s_task_to_read (self, 0, "wxyz", "abcd"), WIRE_WORK_UNREAD, 0);
    s_assert_outcome (self, s_task_to_read (self, 0, "abcd", "wxyZ"), WIRE_WORK_UNREAD, 0);
    s_assert_outcome (self, s_task_to_read (self, 1, "abcd", "wxyz"), WIRE_WORK_UNREAD, 0);
    s_assert_outcome (self, s_task_to_read (self, 0, "abcd", "wxyz"), WIRE_WORK_READY, 0);
}

//  Must hold: the decoder is given all that the task says, and the answer says what the decoder tells: each
//  outcome, the file at fault, whether values were clipped, and what was learned if the server wants it.
static void
test_all_of_a_task_and_of_its_answer (void **state)
{
    const play_t *self = *state;
    static const struct { decoder_status_t status; wire_work_outcome_t outcome; } outcomes [] = {
        { DECODER_OK, WIRE_WORK_READY }, { DECODER_BAD, WIRE_WORK_BAD },
        { DECODER_UNSUITABLE, WIRE_WORK_UNSUITABLE }, { DECODER_NO_MEMORY, WIRE_WORK_NO_MEMORY } };
    for (size_t index = 0; index < sizeof outcomes / sizeof *outcomes; index++)
        for (int more = 0; more < 2; more++) {
            bool is_ready = outcomes [index].status == DECODER_OK;
            work_task_t *task = s_task (self, "abcdwxyzrows");
            task->wire = (wire_work_task_t) { .seed = 21, .round = 22, .id = 23, .occurrence = 24, .files = 2,
                .warnings_max = 25, .flags = more? WIRE_WORK_LEARN: 0, .rows_bytes = 4,
                .sizes = { FILE_BYTES, FILE_BYTES } };
            s_decoder.status = (int) outcomes [index].status;
            s_decoder.file = 1;
            s_decoder.is_clipped = more;
            s_decoder.rows = "learned";
            work_task_carry_out (self->worker, task);
            assert_int_equal (s_decoder.key.seed, 21);
            assert_int_equal (s_decoder.key.round, 22);
            assert_int_equal (s_decoder.key.id, 23);
            assert_int_equal (s_decoder.key.occurrence, 24);
            assert_int_equal (s_decoder.warnings_max, 25);
            assert_string_equal (s_decoder.given_rows, "rows");
            assert_int_equal (task->result.outcome, outcomes [index].outcome);
            assert_int_equal (task->result.file, is_ready? 0: 1);
            assert_int_equal (task->result.flags, is_ready && more? WIRE_WORK_CLIPPED: 0);
            assert_string_equal (task->what, is_ready? "": "why");
            assert_int_equal (task->result.rows_bytes, is_ready && more? strlen ("learned"): 0);
            assert_int_equal (task->rows != NULL, is_ready && more);
            if (task->rows)
                assert_memory_equal (task->rows, "learned", strlen ("learned"));
            work_task_destroy (&task);
        }
    s_decoder.status = -1;
    s_decoder.is_clipped = false;
    s_decoder.rows = NULL;
}

//  Must hold: a task that reuses the memory of an earlier one has nothing of it.
static void
test_nothing_of_an_earlier_task (void **state)
{
    const play_t *self = *state;
    work_task_t *task = s_task (self, "abcdwxyz");
    work_task_carry_out (self->worker, task);
    task->rows = (uint8_t *) strdup ("rows");
    work_task_clear (task);
    assert_null (task->pipeline);
    assert_null (task->rows);
    assert_int_equal (zmq_msg_size (&task->bytes), 0);
    memset (task->version, 0xff, task->room);
    task->pipeline = pipeline_hold (self->pipeline);
    strcpy (task->what, "why");
    s_decoder.status = DECODER_OK;
    work_task_carry_out (self->worker, task);
    for (size_t index = 0; index < task->room; index++)
        assert_int_equal (task->version [index], 0);
    assert_string_equal (task->what, "");
    s_decoder.status = -1;
    work_task_destroy (&task);
}

//  Must hold: a sample of a hundred million pixels does not cost each thread some hundred MB for as long as
//  the worker lives.
static void
test_a_large_sample_is_not_kept (void **state)
{
    const play_t *self = *state;
    work_task_t *task = work_task_new ();
    assert_non_null (task);
    task->is_build_check = true;
    for (int is_large = 0; is_large < 2; is_large++) {
        const decoder_t *before = self->worker->decoder;
        s_kept_bytes = is_large? SIZE_MAX: 1 << 20;
        task->is_made = false;
        work_task_carry_out (self->worker, task);
        assert_true (task->is_made);
        //  The next one is made before this one goes, so that it lies elsewhere.
        assert_int_equal (self->worker->decoder != before, is_large);
    }
    s_kept_bytes = 0;
    work_task_destroy (&task);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_files_that_come_with_a_task, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_files_of_the_workers_own, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_all_of_a_task_and_of_its_answer, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_nothing_of_an_earlier_task, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_large_sample_is_not_kept, s_begin, s_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
