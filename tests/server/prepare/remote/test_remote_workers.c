//  Workers on other machines: the handshake, credit, late and lost tasks, workers that lie.  What is sent is
//  kept by a made-up outbox, and time is the test's.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pack_index.h"
#include "remote_worker.h"
#include "remote_workers.h"

enum { TASKS = 64, PEERS = REMOTE_WORKERS_MAX + 3, FILE_BYTES = 10, VERSION_BYTES = 2 * 3 * 3, MS = 1000000 };

//  ---- catalogue and outbox

//  Of a data set with a mask, or without.
static bool s_has_mask;

size_t
catalogue_fields (const catalogue_t *self)
{
    (void) self;
    return s_has_mask? 2: 1;
}

uint64_t
pack_index_checksum (const void *bytes, size_t size)
{
    (void) bytes;
    return size;
}

const char *
catalogue_field_name (const catalogue_t *self, size_t field)
{
    (void) self;
    return field == 1? "mask": "image";
}

bool
catalogue_field_is_mask (const catalogue_t *self, size_t field)
{
    (void) self;
    return field == 1;
}

typedef struct {
    wire_kind_t kind;
    uint8_t peer;
    uint64_t tag;
    char text [900];
} sent_t;

static sent_t s_sent [400];
static size_t s_sent_count;
static bool s_is_gone [PEERS];
static size_t s_sent_bytes;         //  that a task is expected to have
static wire_work_task_t s_sent_task;                    //  the last one
static char s_sent_files [64];
static const char *s_fingerprint;   //  of the data set, which workers say that they have; NULL: they do not

static outbox_status_t
s_keep (const peer_t *peer, wire_kind_t kind, uint64_t tag, const char *text)
{
    assert_true (s_sent_count < 400);
    if (s_is_gone [peer->bytes [0]])
        return OUTBOX_GONE;
    sent_t *sent = &s_sent [s_sent_count++];
    *sent = (sent_t) { .kind = kind, .peer = peer->bytes [0], .tag = tag };
    snprintf (sent->text, sizeof sent->text, "%s", text);
    return OUTBOX_SENT;
}

outbox_status_t
outbox_send (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag,
    const void *body, size_t size)
{
    (void) router, (void) job, (void) body, (void) size;
    return s_keep (peer, kind, tag, "");
}

outbox_status_t
outbox_send_text (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag, char *text)
{
    (void) router, (void) job;
    outbox_status_t status = s_keep (peer, kind, tag, text);
    free (text);
    return status;
}

outbox_status_t
outbox_send_message (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag, const void *body,
    size_t size, zmq_msg_t *last)
{
    (void) router;
    assert_int_equal (size, sizeof s_sent_task);
    memcpy (&s_sent_task, body, sizeof s_sent_task);
    assert_int_equal (zmq_msg_size (last), s_sent_bytes);
    assert_int_equal (s_sent_task.sizes [0], FILE_BYTES);
    assert_true (s_sent_bytes < sizeof s_sent_files);
    snprintf (s_sent_files, sizeof s_sent_files, "%.*s", (int) s_sent_bytes, (char *) zmq_msg_data (last));
    zmq_msg_close (last);
    return s_keep (peer, kind, tag, "");
}

//  The last message of the kind to the peer; NULL: none.
static const sent_t *
s_last (uint8_t peer, wire_kind_t kind)
{
    for (size_t index = s_sent_count; index-- > 0; )
        if (s_sent [index].peer == peer && s_sent [index].kind == kind)
            return &s_sent [index];
    return NULL;
}

static size_t
s_count (uint8_t peer, wire_kind_t kind)
{
    size_t count = 0;
    for (size_t index = 0; index < s_sent_count; index++)
        count += s_sent [index].peer == peer && s_sent [index].kind == kind;
    return count;
}

//  ---- a server

static struct {
    remote_workers_t *workers;
    const pipeline_t *pipeline;
    log_t log;
    int64_t now_ms;
    uint32_t lent;
    uint64_t nonce;
    size_t checks;
    bool is_starved, is_clipped;                //  the last result
    outcome_t outcome;
    size_t version_frames, rows_bytes, file;
    uint64_t worker_ns, worker;
    char what [WORK_TEXT_BYTES];
    size_t done [TASKS], undone [TASKS];        //  of each task, how often
    uint64_t digests [BUILD_CHECK_SAMPLES];
} s_server;

static int64_t
s_nanoseconds (void)
{
    return s_server.now_ms * MS;
}

static void
s_done (void *context, void *task, const remote_result_t *result)
{
    (void) context;
    size_t number = (size_t) ((size_t *) task - s_server.done);
    (result? s_server.done: s_server.undone) [number]++;
    s_server.is_starved = result && result->is_starved;
    if (!result)
        return;
    s_server.is_clipped = result->is_clipped;
    s_server.outcome = result->outcome;
    s_server.version_frames = result->count;
    s_server.rows_bytes = result->rows.size;
    s_server.worker_ns = result->worker_ns;
    s_server.worker = result->worker;
    s_server.file = result->file;
    snprintf (s_server.what, sizeof s_server.what, "%s", result->what);
}

static void
s_lends (void *context, uint32_t processors)
{
    (void) context;
    s_server.lent = processors;
}

static void
s_check (void *context, uint64_t nonce)
{
    (void) context;
    s_server.nonce = nonce;
    s_server.checks++;
}

static int
s_begin (void **state)
{
    (void) state;
    memset (&s_server, 0, sizeof s_server);
    memset (s_is_gone, 0, sizeof s_is_gone);
    s_sent_count = 0;
    s_sent_bytes = FILE_BYTES;
    s_fingerprint = NULL;
    s_has_mask = false;
    s_server.log.descriptor = STDERR_FILENO;
    s_server.now_ms = 1000;
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++)
        s_server.digests [index] = 1000 + index;
    char error [256];
    json_t *list = json_loads ("[{\"op\":\"resize\",\"size\":[2,3]},{\"share\":true},{\"op\":\"flip\"}]", 0,
        NULL);
    assert_int_equal (pipeline_new (&s_server.pipeline, list, NULL, NULL, 0, error, sizeof error), 0);
    json_decref (list);
    remote_workers_options_t options = { .log = &s_server.log, .done = s_done, .lends = s_lends,
        .check = s_check, .nanoseconds = s_nanoseconds };
    s_server.workers = remote_workers_new (&options);
    return s_server.workers? 0: -1;
}

static int
s_end (void **state)
{
    (void) state;
    remote_workers_check (s_server.workers);
    remote_workers_stop (s_server.workers);
    remote_workers_check (s_server.workers);
    remote_workers_destroy (&s_server.workers);
    pipeline_destroy (&s_server.pipeline);
    return 0;
}

static bool
s_say (uint8_t peer, wire_kind_t kind, uint64_t tag, const frame_t *body, size_t count, refusal_t *refusal)
{
    wire_head_t head = { .kind = (uint8_t) kind, .tag = tag };
    frame_t frames [4] = { { (const uint8_t *) &head, sizeof head } };
    peer_t from = { .bytes = { peer }, .size = 1 };
    for (size_t index = 0; index < count; index++)
        frames [index + 1] = body [index];
    remote_message_t message = { .peer = &from, .user = 7, .head = &head, .frames = frames,
        .count = count + 1 };
    bool good = remote_workers_take (s_server.workers, &message, s_server.now_ms, refusal);
    remote_workers_check (s_server.workers);
    return good;
}

static void
s_say_text (uint8_t peer, wire_kind_t kind, char *text)
{
    refusal_t refusal = { 0 };
    frame_t frame = { (const uint8_t *) text, strlen (text) };
    if (!s_say (peer, kind, 0, &frame, 1, &refusal))
        fail_msg ("%s", refusal.message);
    free (text);
}

static void
s_answer_challenge (uint8_t peer, const uint64_t *digests)
{
    const char *names [BUILD_CHECK_SAMPLES];
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++)
        names [index] = build_check_name (index);
    assert_non_null (s_last (peer, WIRE_WORK_CHALLENGE));
    s_say_text (peer, WIRE_WORK_ANSWER, work_message_write_answer (names, BUILD_CHECK_SAMPLES, digests));
}

static void
s_hello (uint8_t peer, uint32_t processors)
{
    work_hello_t hello = { .processors = processors, .name = "box", .libraries = "tureen 0",
        .datasets = s_fingerprint != NULL };
    snprintf (hello.fingerprints [0], sizeof hello.fingerprints [0], "%s", s_fingerprint? s_fingerprint: "");
    s_say_text (peer, WIRE_WORK_HELLO, work_message_write_hello (&hello));
}

static void
s_let_in (uint8_t peer, uint32_t processors)
{
    s_hello (peer, processors);
    s_answer_challenge (peer, s_server.digests);
    remote_workers_checked (s_server.workers, s_server.digests, s_server.now_ms);
    assert_non_null (s_last (peer, WIRE_WORK_WELCOME));
}

static bool
s_give (size_t number)
{
    static const uint8_t bytes [FILE_BYTES];
    decoder_file_t file = { .bytes = bytes, .size = FILE_BYTES };
    remote_task_t task = { .task = &s_server.done [number], .pipeline = s_server.pipeline, .files = 1,
        .fingerprint = s_fingerprint,
        .sample = { .files = &file } };
    bool good = remote_workers_give (s_server.workers, &task, s_server.now_ms);
    remote_workers_check (s_server.workers);
    return good;
}

static void
s_result (uint8_t peer, uint64_t number, size_t version_bytes, uint64_t held_ms, uint64_t worker_ms)
{
    static const uint8_t version [VERSION_BYTES + 1];
    wire_work_result_t result = { .worker_ns = worker_ms * MS, .held_ns = held_ms * MS };
    frame_t frames [] = { { (const uint8_t *) &result, sizeof result }, { version, version_bytes } };
    refusal_t refusal;
    assert_true (s_say (peer, WIRE_WORK_RESULT, number, frames, 2, &refusal));
}

static void
s_beat (uint8_t peer)
{
    refusal_t refusal;
    assert_true (s_say (peer, WIRE_WORK_HEARTBEAT, 0, NULL, 0, &refusal));
}

//  Time goes on; workers that live say so.
static void
s_pass (int64_t ms, uint8_t living)
{
    for (int64_t until_ms = s_server.now_ms + ms; s_server.now_ms < until_ms; ) {
        s_server.now_ms += 100;
        for (uint8_t peer = 0; peer < living; peer++)
            s_beat (peer);
        remote_workers_look (s_server.workers, s_server.now_ms);
        remote_workers_check (s_server.workers);
    }
}

//  ---- tests

static void
a_task_goes_out_and_comes_back (void **state)
{
    (void) state;
    assert_false (s_give (0));
    s_let_in (0, 2);
    assert_int_equal (s_server.lent, 2);
    assert_true (s_give (0) && s_give (1) && s_give (2));
    assert_false (s_give (3));                      //  two processors, and one to come
    const sent_t *pipeline = s_last (0, WIRE_WORK_PIPELINE);
    assert_int_equal (s_count (0, WIRE_WORK_PIPELINE), 1);
    assert_non_null (strstr (pipeline->text, "\"resize\""));
    assert_null (strstr (pipeline->text, "flip"));  //  a private stage is not for its eyes
    s_server.now_ms += 20;
    s_result (0, s_last (0, WIRE_WORK_TASK)->tag, VERSION_BYTES, 10, 10);
    assert_int_equal (s_server.done [2], 1);
    //  As long on the way as at work: twice the processors, and one.
    for (size_t number = 3; number < 6; number++)
        assert_true (s_give (number));
    assert_false (s_give (6));
}

//  Must hold: a task has the key, the files and the rows that it was given.  A worker that reads the files by
//  itself gets the rows alone, and a sum that tells it when its files are others, or stand in another order.
static void
a_task_has_all_that_was_given (void **state)
{
    (void) state;
    const decoder_file_t files [] = {
        { .bytes = (const uint8_t *) "0123456789", .size = FILE_BYTES, .rows = (const uint8_t *) "rows",
            .rows_bytes = 4 },
        { .bytes = (const uint8_t *) "abcdefg", .size = 7 } };
    remote_task_t task = { .task = &s_server.done [0], .pipeline = s_server.pipeline, .files = 2,
        .key = { .seed = 11, .round = 12, .id = 13, .occurrence = 14 }, .learns = true,
        .sample = { .files = files, .warnings_max = 15 } };
    s_fingerprint = "0123456789abcdef0123456789abcdef";
    s_let_in (0, 2);
    wire_work_task_t expected = { .seed = 11, .round = 12, .id = 13, .occurrence = 14, .pipeline = 1,
        .files = 2, .warnings_max = 15, .flags = WIRE_WORK_LEARN, .rows_bytes = 4,
        .sizes = { FILE_BYTES, 7 } };
    s_sent_bytes = FILE_BYTES + 7 + 4;
    assert_true (remote_workers_give (s_server.workers, &task, s_server.now_ms));
    assert_memory_equal (&s_sent_task, &expected, sizeof expected);
    assert_string_equal (s_sent_files, "0123456789abcdefgrows");
    task.fingerprint = s_fingerprint;
    task.learns = false;
    expected.flags = WIRE_WORK_READ;
    expected.checksum = FILE_BYTES + 2 * 7;         //  of the sums that are sizes here
    s_sent_bytes = 4;
    assert_true (remote_workers_give (s_server.workers, &task, s_server.now_ms));
    assert_memory_equal (&s_sent_task, &expected, sizeof expected);
    assert_string_equal (s_sent_files, "rows");
}

static void
another_build_is_refused (void **state)
{
    (void) state;
    uint64_t digests [BUILD_CHECK_SAMPLES];
    memcpy (digests, s_server.digests, sizeof digests);
    digests [1] ^= 1;
    s_hello (0, 2);
    s_answer_challenge (0, digests);
    assert_int_equal (s_server.checks, 1);
    remote_workers_checked (s_server.workers, s_server.digests, s_server.now_ms);
    assert_null (s_last (0, WIRE_WORK_WELCOME));
    const char *reason = s_last (0, WIRE_WORK_REFUSED)->text;
    assert_non_null (strstr (reason, build_check_name (1)));
    assert_null (strstr (reason, build_check_name (0)));
    assert_non_null (strstr (reason, "the worker has tureen 0, the server tureen"));
    assert_false (s_give (0));
    assert_int_equal (s_server.lent, 0);
}

//  No worker is let in by another one's golden samples: they are checked one after the other.
static void
checks_do_not_overlap (void **state)
{
    (void) state;
    s_hello (0, 1);
    s_hello (1, 1);
    s_answer_challenge (0, s_server.digests);
    s_answer_challenge (1, s_server.digests);
    assert_int_equal (s_server.checks, 1);
    uint64_t first = s_server.nonce;
    s_is_gone [0] = true;
    s_pass (600, 0);                                //  it goes while the samples are made
    remote_workers_checked (s_server.workers, s_server.digests, s_server.now_ms);
    assert_int_equal (s_server.lent, 0);
    assert_int_equal (s_server.checks, 2);
    assert_true (s_server.nonce != first);
    remote_workers_checked (s_server.workers, s_server.digests, s_server.now_ms);
    assert_int_equal (s_server.lent, 1);
}

static void
late_tasks_go_back_and_late_answers_are_dropped (void **state)
{
    (void) state;
    s_let_in (0, 1);
    assert_true (s_give (0));
    uint64_t number = s_last (0, WIRE_WORK_TASK)->tag;
    s_pass (1000, 1);
    assert_int_equal (s_server.undone [0], 0);
    s_pass (200, 1);
    assert_int_equal (s_server.undone [0], 1);
    assert_false (s_give (1));                      //  stalled: heartbeats are no answers
    s_result (0, number, VERSION_BYTES, 1200, 1200);
    assert_int_equal (s_server.done [0], 0);
    assert_true (s_give (1));
    //  It took longer than a second once, so the next one is waited for longer.
    s_pass (5000, 1);
    assert_int_equal (s_server.undone [1], 0);
    s_result (0, s_last (0, WIRE_WORK_TASK)->tag, VERSION_BYTES, 5000, 5000);
    assert_int_equal (s_server.done [1], 1);
}

static void
the_tasks_of_a_silent_worker_go_back (void **state)
{
    (void) state;
    s_let_in (0, 2);
    s_let_in (1, 2);
    for (size_t number = 0; number < 6; number++)
        assert_true (s_give (number));
    assert_int_equal (s_count (0, WIRE_WORK_TASK), 3);
    assert_int_equal (s_server.lent, 4);
    s_pass (REMOTE_WORKERS_SILENT_MS + 200, 1);
    assert_int_equal (s_server.lent, 2);
    size_t undone = 0;
    for (size_t number = 0; number < 6; number++)
        undone += s_server.undone [number];
    assert_int_equal (undone, 6);                   //  the other one's were late
    refusal_t refusal;
    assert_false (s_say (1, WIRE_WORK_HEARTBEAT, 0, NULL, 0, &refusal));
    assert_string_equal (refusal.code, "unknown_worker");
}

//  Guards: what workers said while the server stood still waits in its socket, so none of them was silent.
static void
a_server_that_stood_still_loses_no_worker (void **state)
{
    (void) state;
    s_let_in (0, 2);
    s_pass (200, 1);
    s_server.now_ms += 3 * REMOTE_WORKERS_SILENT_MS;
    remote_workers_look (s_server.workers, s_server.now_ms);
    assert_int_equal (s_server.lent, 2);
    s_pass (REMOTE_WORKERS_SILENT_MS + 200, 0);
    assert_int_equal (s_server.lent, 0);
}

static void
a_worker_that_cannot_be_sent_to_is_lost_at_once (void **state)
{
    (void) state;
    s_let_in (0, 1);
    assert_true (s_give (0));
    s_is_gone [0] = true;
    assert_false (s_give (1));
    assert_int_equal (s_server.undone [0], 1);
    assert_int_equal (s_server.undone [1], 0);      //  it was never out
    assert_int_equal (s_server.lent, 0);
}

static void
goodbye_gives_tasks_back (void **state)
{
    (void) state;
    s_let_in (0, 1);
    assert_true (s_give (0));
    refusal_t refusal;
    assert_true (s_say (0, WIRE_WORK_GOODBYE, 0, NULL, 0, &refusal));
    assert_non_null (s_last (0, WIRE_WORK_GOODBYE));
    assert_int_equal (s_server.undone [0], 1);
}

//  Must hold: an answer is handed on whole: the version without the rows, and these; of a bad sample why.  A
//  worker that blames a file behind the sample's last one is cut off.
static void
an_answer_is_handed_on_whole (void **state)
{
    (void) state;
    static const uint8_t version [VERSION_BYTES];
    refusal_t refusal;
    s_let_in (0, 2);
    wire_work_result_t result = { .outcome = WIRE_WORK_READY, .worker_ns = 17, .rows_bytes = 4,
        .flags = WIRE_WORK_CLIPPED };
    frame_t frames [] = { { (const uint8_t *) &result, sizeof result }, { version, VERSION_BYTES },
        { (const uint8_t *) "rows", 4 } };
    assert_true (s_give (0));
    assert_true (s_say (0, WIRE_WORK_RESULT, s_last (0, WIRE_WORK_TASK)->tag, frames, 3, &refusal));
    assert_int_equal (s_server.done [0], 1);
    assert_int_equal (s_server.outcome, OUTCOME_READY);
    assert_int_equal (s_server.version_frames, 1);
    assert_int_equal (s_server.rows_bytes, 4);
    assert_int_equal (s_server.worker_ns, 17);
    assert_true (s_server.is_clipped && !s_server.is_starved);
    result = (wire_work_result_t) { .outcome = WIRE_WORK_BAD };
    frames [1] = (frame_t) { (const uint8_t *) "no image", strlen ("no image") };
    assert_true (s_give (1));
    assert_true (s_say (0, WIRE_WORK_RESULT, s_last (0, WIRE_WORK_TASK)->tag, frames, 2, &refusal));
    assert_int_equal (s_server.outcome, OUTCOME_BAD);
    assert_string_equal (s_server.what, "no image");
    assert_int_equal (s_server.rows_bytes, 0);
    assert_false (s_server.is_clipped || s_server.is_starved);
    result.file = 1;
    assert_true (s_give (2));
    assert_true (s_say (0, WIRE_WORK_RESULT, s_last (0, WIRE_WORK_TASK)->tag, frames, 2, &refusal));
    assert_non_null (strstr (s_last (0, WIRE_WORK_REFUSED)->text, "blamed a file"));
    assert_int_equal (s_server.undone [2], 1);
}

static bool
s_is_seven (void *context, uint64_t user)
{
    (void) context;
    return user == 7;
}

//  Must hold: a pipeline is told with its fields and the size of its versions, once to each worker, and again
//  when another one has taken its place; a task names its own.
static void
pipelines_are_told_once (void **state)
{
    (void) state;
    static const uint8_t bytes [FILE_BYTES];
    static char catalogues [WIRE_WORK_PIPELINES_MAX + 1];       //  data sets: a pipeline each
    decoder_file_t file = { .bytes = bytes, .size = FILE_BYTES };
    s_has_mask = true;
    s_let_in (0, 1);
    for (uint32_t turn = 0; turn < 2 * WIRE_WORK_PIPELINES_MAX + 4; turn++) {
        //  Each twice, and behind the last one the first again.
        uint32_t number = turn / 2 + 1;
        remote_task_t task = { .task = &s_server.done [0], .pipeline = s_server.pipeline, .files = 1,
            .catalogue = (const catalogue_t *) &catalogues [turn / 2 % (WIRE_WORK_PIPELINES_MAX + 1)],
            .sample = { .files = &file } };
        assert_true (remote_workers_give (s_server.workers, &task, s_server.now_ms));
        assert_int_equal (s_sent_task.pipeline, number);
        assert_int_equal (s_count (0, WIRE_WORK_PIPELINE), turn % 2 == 0);
        if (turn % 2 == 0) {
            char expected [200];
            snprintf (expected, sizeof expected, "{\"number\":%u,\"version_bytes\":\"%d\",", number,
                VERSION_BYTES);
            const char *text = s_last (0, WIRE_WORK_PIPELINE)->text;
            if (strncmp (text, expected, strlen (expected)) != 0)
                fail_msg ("%s", text);
            assert_non_null (strstr (text, "\"fields\":[[\"image\",false],[\"mask\",true]]"));
        }
        uint64_t tag = s_last (0, WIRE_WORK_TASK)->tag;
        s_sent_count = 0;
        s_result (0, tag, VERSION_BYTES, 1, 1);
    }
    //  Another worker knows none of them.
    s_let_in (1, 1);
    for (size_t number = 1; number <= 4; number++)
        assert_true (s_give (number));
    for (uint8_t peer = 0; peer < 2; peer++) {
        assert_int_equal (s_count (peer, WIRE_WORK_TASK), 2);
        assert_int_equal (s_count (peer, WIRE_WORK_PIPELINE), 1);
    }
}

//  Must hold: a worker reads each data set that it has, by the place that it gave it, and is sent the bytes
//  of the one that it cannot read, and of no other.
static void
each_data_set_by_its_place (void **state)
{
    (void) state;
    static const uint8_t bytes [FILE_BYTES];
    static const char *const fingerprints [] = { "00000000000000000000000000000000",
        "11111111111111111111111111111111", "22222222222222222222222222222222" };
    decoder_file_t file = { .bytes = bytes, .size = FILE_BYTES };
    work_hello_t hello = { .processors = 2, .name = "box", .libraries = "tureen 0", .datasets = 3 };
    for (size_t index = 0; index < 3; index++)
        strcpy (hello.fingerprints [index], fingerprints [index]);
    s_say_text (0, WIRE_WORK_HELLO, work_message_write_hello (&hello));
    s_answer_challenge (0, s_server.digests);
    remote_workers_checked (s_server.workers, s_server.digests, s_server.now_ms);
    for (size_t turn = 0; turn < 6; turn++) {
        bool is_sent = turn == 4;               //  the second one's turn, and it could not be read
        remote_task_t task = { .task = &s_server.done [turn], .pipeline = s_server.pipeline, .files = 1,
            .fingerprint = fingerprints [turn % 3], .sample = { .files = &file } };
        s_sent_bytes = is_sent? FILE_BYTES: 0;
        assert_true (remote_workers_give (s_server.workers, &task, s_server.now_ms));
        assert_int_equal (s_sent_task.flags, is_sent? 0: WIRE_WORK_READ);
        assert_int_equal (s_sent_task.dataset, is_sent? 0: turn % 3);
        wire_work_result_t unread = { .outcome = WIRE_WORK_UNREAD };
        frame_t frames [] = { { (const uint8_t *) &unread, sizeof unread }, { (const uint8_t *) "", 0 } };
        refusal_t refusal;
        if (turn == 1)
            assert_true (s_say (0, WIRE_WORK_RESULT, s_last (0, WIRE_WORK_TASK)->tag, frames, 2, &refusal));
        else
            s_result (0, s_last (0, WIRE_WORK_TASK)->tag, VERSION_BYTES, 1, 1);
    }
}

//  Must hold: each outcome is told as what it is, with the file at fault and the worker that says so; an
//  answer without a result is no work that was done, and tells nothing of how fast the worker is.
static void
each_outcome_is_what_it_is (void **state)
{
    static const struct {
        wire_work_outcome_t outcome;
        outcome_t told;
        bool is_starved, has_text;
    } cases [] = {
        { WIRE_WORK_READY, OUTCOME_READY, false, false }, { WIRE_WORK_BAD, OUTCOME_BAD, false, true },
        { WIRE_WORK_UNSUITABLE, OUTCOME_UNSUITABLE, false, true },
        { WIRE_WORK_NO_MEMORY, OUTCOME_READY, true, false },
        { WIRE_WORK_UNREAD, OUTCOME_READY, true, false } };
    static const uint8_t bytes [FILE_BYTES], version [VERSION_BYTES];
    const decoder_file_t files [] = { { .bytes = bytes, .size = FILE_BYTES },
        { .bytes = bytes, .size = FILE_BYTES } };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        wire_work_result_t result = { .outcome = (uint16_t) cases [index].outcome, .worker_ns = 70 + index,
            .file = cases [index].has_text };
        frame_t frames [] = { { (const uint8_t *) &result, sizeof result }, { version, 0 } };
        if (cases [index].outcome == WIRE_WORK_READY)
            frames [1].size = VERSION_BYTES;
        if (cases [index].has_text)
            frames [1] = (frame_t) { (const uint8_t *) "why", 3 };
        refusal_t refusal;
        s_hello (0, 1);                         //  it never ends its handshake
        s_let_in (1, 2);
        remote_task_t task = { .task = &s_server.done [0], .pipeline = s_server.pipeline, .files = 2,
            .sample = { .files = files } };
        s_sent_bytes = 2 * FILE_BYTES;
        assert_true (remote_workers_give (s_server.workers, &task, s_server.now_ms));
        assert_true (s_say (1, WIRE_WORK_RESULT, s_last (1, WIRE_WORK_TASK)->tag, frames, 2, &refusal));
        assert_int_equal (s_server.done [0], 1);
        assert_int_equal (s_server.outcome, cases [index].told);
        assert_int_equal (s_server.is_starved, cases [index].is_starved);
        assert_int_equal (s_server.file, cases [index].has_text);
        assert_string_equal (s_server.what, cases [index].has_text? "why": "");
        assert_int_equal (s_server.worker, 2);
        assert_int_equal (s_server.worker_ns, 70 + index);
        uint64_t lost;
        json_t *list = remote_workers_status (s_server.workers, &lost);
        assert_int_equal (json_integer_value (json_object_get (json_array_get (list, 1), "done")),
            !cases [index].is_starved);
        json_decref (list);
        s_end (state);
        s_begin (state);
    }
}

//  Must hold: a worker is shown by its key's label, or else by its own name, with its processors, what it is
//  doing, and why it is refused; what another user sends by its connection is not its own.
static void
a_worker_is_shown_as_it_is (void **state)
{
    (void) state;
    static const char *const states [] = { "challenged", "checked", "working", "stalled", "refused" };
    wire_head_t head = { .kind = WIRE_WORK_HELLO };
    work_hello_t hello = { .processors = 3, .name = "box", .libraries = "tureen 0" };
    char *text = work_message_write_hello (&hello);
    frame_t frames [] = { { (const uint8_t *) &head, sizeof head },
        { (const uint8_t *) text, strlen (text) } };
    peer_t peer = { .bytes = { 0 }, .size = 1 };
    remote_message_t message = { .peer = &peer, .user = 7, .label = "farm", .head = &head, .frames = frames,
        .count = 2 };
    refusal_t refusal;
    assert_true (remote_workers_take (s_server.workers, &message, s_server.now_ms, &refusal));
    free (text);
    for (size_t index = 0; index < sizeof states / sizeof *states; index++) {
        if (index == 1)
            s_answer_challenge (0, s_server.digests);
        if (index == 2)
            remote_workers_checked (s_server.workers, s_server.digests, s_server.now_ms);
        if (index == 3) {
            assert_true (s_give (0));
            s_pass (1200, 1);
        }
        if (index == 4)
            remote_workers_revoke (s_server.workers, s_is_seven, NULL, s_server.now_ms);
        head.kind = WIRE_WORK_GOODBYE;
        message.user = 8;
        message.count = 1;
        assert_true (remote_workers_take (s_server.workers, &message, s_server.now_ms, &refusal));
        uint64_t lost;
        json_t *list = remote_workers_status (s_server.workers, &lost);
        const json_t *worker = json_array_get (list, 0);
        assert_int_equal (json_array_size (list), 1);
        assert_string_equal (json_string_value (json_object_get (worker, "name")), "farm");
        assert_string_equal (json_string_value (json_object_get (worker, "state")), states [index]);
        assert_int_equal (json_integer_value (json_object_get (worker, "processors")), 3);
        assert_int_equal (json_integer_value (json_object_get (worker, "credit")), index == 2? 4: 0);
        const char *reason = json_string_value (json_object_get (worker, "reason"));
        assert_int_equal (reason != NULL, index == 4);
        assert_true (!reason || strstr (reason, "revoked"));
        json_decref (list);
    }
}

//  Of the first worker, and how many were lost.
static void
s_assert_counted (const char *const *keys, const json_int_t *expected, size_t count, uint64_t lost_workers)
{
    uint64_t lost;
    json_t *list = remote_workers_status (s_server.workers, &lost);
    for (size_t index = 0; index < count; index++) {
        json_int_t value = json_integer_value (json_object_get (json_array_get (list, 0), keys [index]));
        if (value != expected [index])
            fail_msg ("%s is %lld, not %lld", keys [index], (long long) value,
                (long long) expected [index]);
    }
    json_decref (list);
    assert_int_equal (lost, lost_workers);
}

//  Must hold: what status tells of a worker is what was done with it; one that says goodbye is not lost.
static void
what_a_worker_did_is_counted (void **state)
{
    (void) state;
    enum {
        TASK_BYTES = sizeof (wire_work_task_t), ANSWER_BYTES = VERSION_BYTES + sizeof (wire_work_result_t)
    };
    static const char *const keys [] = { "out", "done", "read", "late", "lost", "taken_back", "wrong",
        "bytes_sent", "bytes_received" };
    s_fingerprint = "0123456789abcdef0123456789abcdef";
    s_let_in (0, 2);
    s_sent_bytes = 0;
    assert_true (s_give (0));                       //  it reads the file by itself
    s_result (0, s_last (0, WIRE_WORK_TASK)->tag, VERSION_BYTES, 1, 1);
    wire_work_result_t unread = { .outcome = WIRE_WORK_UNREAD };
    frame_t frames [] = { { (const uint8_t *) &unread, sizeof unread }, { (const uint8_t *) "", 0 } };
    refusal_t refusal;
    assert_true (s_give (5));                       //  it cannot
    assert_true (s_say (0, WIRE_WORK_RESULT, s_last (0, WIRE_WORK_TASK)->tag, frames, 2, &refusal));
    s_fingerprint = NULL;
    s_sent_bytes = FILE_BYTES;
    assert_true (s_give (1));
    s_result (0, s_last (0, WIRE_WORK_TASK)->tag, VERSION_BYTES, 1, 1);
    assert_true (s_give (2));
    s_server.now_ms += 1000;
    assert_true (remote_workers_take_back (s_server.workers, false, 1));
    s_result (0, s_last (0, WIRE_WORK_TASK)->tag, VERSION_BYTES, 1, 1);
    assert_true (s_give (3));
    s_pass (100000, 1);                             //  it lives, and is late
    s_result (0, s_last (0, WIRE_WORK_TASK)->tag, VERSION_BYTES, 1, 1);
    assert_true (s_give (4));
    const json_int_t expected [] = { 1, 2, 1, 2, 1, 1, 0, 6 * TASK_BYTES + 4 * FILE_BYTES,
        4 * ANSWER_BYTES + sizeof unread };
    s_assert_counted (keys, expected, sizeof keys / sizeof *keys, 0);
    s_let_in (1, 1);
    s_pass (2 * REMOTE_WORKERS_SILENT_MS, 1);       //  this one is silent
    s_assert_counted (NULL, NULL, 0, 1);
    assert_true (s_say (0, WIRE_WORK_GOODBYE, 0, NULL, 0, &refusal));
    s_assert_counted (NULL, NULL, 0, 1);
}

//  Each is cut off, and what it had goes back.
static void
workers_that_lie_are_cut_off (void **state)
{
    static const struct { size_t bytes; int64_t number; const char *reason; } cases [] = {
        { VERSION_BYTES - 1, 0, "wrong size" }, { VERSION_BYTES + 1, 0, "wrong size" },
        { VERSION_BYTES, 1, "was not asked" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        s_let_in (0, 1);
        assert_true (s_give (0));
        s_result (0, s_last (0, WIRE_WORK_TASK)->tag + (uint64_t) cases [index].number, cases [index].bytes,
            1, 1);
        assert_non_null (strstr (s_last (0, WIRE_WORK_REFUSED)->text, cases [index].reason));
        assert_int_equal (s_server.done [0], 0);
        assert_int_equal (s_server.undone [0], 1);
        assert_false (s_give (1));
        s_end (state);
        s_begin (state);
    }
}

static void
a_worker_cannot_answer_for_another (void **state)
{
    (void) state;
    s_let_in (0, 1);
    s_let_in (1, 1);
    assert_true (s_give (0));
    uint8_t has = s_last (0, WIRE_WORK_TASK)? 0: 1;
    uint64_t number = s_last (has, WIRE_WORK_TASK)->tag;
    s_result (1 - has, number, VERSION_BYTES, 1, 1);
    assert_int_equal (s_server.done [0] + s_server.undone [0], 0);
    s_result (has, number, VERSION_BYTES, 1, 1);
    assert_int_equal (s_server.done [0], 1);
    s_result (has, number, VERSION_BYTES, 1, 1);            //  twice is once
    assert_int_equal (s_server.done [0], 1);
}

//  Numbers that share a place of the table: the older one's answer is late.
static void
an_old_number_is_not_the_new_one (void **state)
{
    (void) state;
    s_let_in (0, 1);
    for (size_t task = 0; task < REMOTE_WORKERS_TASKS_MAX; task++) {
        assert_true (s_give (0));
        s_result (0, s_last (0, WIRE_WORK_TASK)->tag, VERSION_BYTES, 1, 1);
        s_sent_count = 0;
    }
    assert_true (s_give (1));
    uint64_t number = s_last (0, WIRE_WORK_TASK)->tag;
    s_result (0, number - REMOTE_WORKERS_TASKS_MAX, VERSION_BYTES, 1, 1);
    assert_int_equal (s_server.done [1], 0);
    s_result (0, number, VERSION_BYTES, 1, 1);
    assert_int_equal (s_server.done [1], 1);
}

//  A thread that has nothing to do takes back what is out for longest; the worker still has it, and what it
//  answers is dropped.
static void
an_idle_thread_takes_tasks_back (void **state)
{
    (void) state;
    assert_false (remote_workers_take_back (s_server.workers, false, 0));
    s_let_in (0, 2);
    assert_true (s_give (0));
    uint64_t first = s_last (0, WIRE_WORK_TASK)->tag;
    s_server.now_ms += 3;
    assert_true (s_give (1) && s_give (2));
    uint64_t last = s_last (0, WIRE_WORK_TASK)->tag;
    s_server.now_ms += 2;
    assert_true (remote_workers_have_tasks (s_server.workers, false));
    assert_false (remote_workers_take_back (s_server.workers, false, 6 * MS));
    assert_true (remote_workers_take_back (s_server.workers, false, 5 * MS));
    assert_int_equal (s_server.undone [0], 1);
    assert_false (remote_workers_take_back (s_server.workers, false, 5 * MS));
    assert_int_equal (s_server.undone [1] + s_server.undone [2], 0);
    assert_false (s_give (3));                      //  it has three tasks yet
    s_result (0, first, VERSION_BYTES, 5, 5);
    assert_int_equal (s_server.done [0], 0);
    s_server.now_ms += 3;
    assert_true (remote_workers_take_back (s_server.workers, false, 5 * MS));
    assert_true (remote_workers_take_back (s_server.workers, false, 5 * MS));
    assert_false (remote_workers_have_tasks (s_server.workers, false));
    assert_int_equal (s_server.undone [1] + s_server.undone [2], 2);
    //  It goes: what was taken back is not given back once more.
    s_result (0, last, VERSION_BYTES, 5, 5);
    refusal_t refusal;
    assert_true (s_say (0, WIRE_WORK_GOODBYE, 0, NULL, 0, &refusal));
    for (size_t number = 0; number < 3; number++)
        assert_int_equal (s_server.done [number] * 10 + s_server.undone [number], 1);
}

//  A worker that cannot read what it said to have is sent the bytes.
static void
files_that_are_others_are_sent (void **state)
{
    (void) state;
    s_fingerprint = "0123456789abcdef0123456789abcdef";
    s_let_in (0, 1);
    s_sent_bytes = 0;                               //  no rows are known, and the files are its own
    assert_true (s_give (0));
    wire_work_result_t result = { .outcome = WIRE_WORK_UNREAD };
    frame_t frames [] = { { (const uint8_t *) &result, sizeof result }, { NULL, 0 } };
    refusal_t refusal;
    assert_true (s_say (0, WIRE_WORK_RESULT, s_last (0, WIRE_WORK_TASK)->tag, frames, 2, &refusal));
    assert_int_equal (s_server.done [0], 1);        //  with is_starved: ready_tasks.c hands it out again
    assert_true (s_server.is_starved);
    s_sent_bytes = FILE_BYTES;
    assert_true (s_give (1));
}

//  Each such answer in a row is followed by a longer rest, so that the task is not sent back and forth.
static void
a_worker_without_memory_rests (void **state)
{
    (void) state;
    s_let_in (0, 1);
    wire_work_result_t result = { .outcome = WIRE_WORK_NO_MEMORY };
    frame_t frames [] = { { (const uint8_t *) &result, sizeof result }, { NULL, 0 } };
    refusal_t refusal;
    for (int64_t rest_ms = 100; rest_ms <= 400; rest_ms *= 2) {
        assert_true (s_give (0));
        assert_true (s_say (0, WIRE_WORK_RESULT, s_last (0, WIRE_WORK_TASK)->tag, frames, 2, &refusal));
        s_server.now_ms += rest_ms - 1;
        assert_false (s_give (0));
        s_server.now_ms++;
    }
    assert_true (s_give (0));
    s_result (0, s_last (0, WIRE_WORK_TASK)->tag, VERSION_BYTES, 1, 1);
    assert_true (s_give (0));
}

static void
s_assert_dismissed (size_t count)
{
    uint64_t lost;
    json_t *list = remote_workers_status (s_server.workers, &lost), *worker;
    size_t index, dismissed = 0;
    json_array_foreach (list, index, worker) {
        bool is = strcmp (json_string_value (json_object_get (worker, "state")), "dismissed") == 0;
        dismissed += is;
        assert_int_equal (json_integer_value (json_object_get (worker, "wrong")),
            is? REMOTE_WORKER_WRONG_MAX: 0);
    }
    assert_int_equal (dismissed, count);
    json_decref (list);
}

//  It stays in the status, where a person sees it; of the same worker once.
static void
a_worker_that_is_wrong_three_times_is_dismissed (void **state)
{
    (void) state;
    for (uint8_t peer = 0; peer < 2; peer++) {
        s_let_in (peer, 1);
        assert_true (s_give (peer));
        s_assert_dismissed (peer);
        for (int wrong = 0; wrong < REMOTE_WORKER_WRONG_MAX; wrong++) {
            assert_int_equal (s_server.undone [peer], 0);
            remote_workers_was_wrong (s_server.workers, peer + 1u, "it lied", s_server.now_ms);
        }
        assert_int_equal (s_server.undone [peer], 1);
        assert_non_null (strstr (s_last (peer, WIRE_WORK_REFUSED)->text, "The last one: it lied"));
        assert_false (s_give (2));
        s_pass (120000, 0);
        s_assert_dismissed (1);
    }
    remote_workers_was_wrong (s_server.workers, 2, "it is gone", s_server.now_ms);
    s_assert_dismissed (1);
}

//  One worker is dismissed, one before and one after it are refused, the others say hello: three more come.
static void
in_a_full_table_the_dismissed_leave_last (void **state)
{
    (void) state;
    const uint64_t others [BUILD_CHECK_SAMPLES] = { 0 };
    for (uint8_t peer = 0; peer < REMOTE_WORKERS_MAX; peer++) {
        s_hello (peer, 1);
        if (peer >= 3)
            continue;
        s_answer_challenge (peer, peer == 1? s_server.digests: others);
        remote_workers_checked (s_server.workers, s_server.digests, s_server.now_ms);
    }
    for (int wrong = 0; wrong < REMOTE_WORKER_WRONG_MAX; wrong++)
        remote_workers_was_wrong (s_server.workers, 2, "it lied", s_server.now_ms);
    for (uint8_t peer = REMOTE_WORKERS_MAX; peer < PEERS; peer++) {
        s_assert_dismissed (1);
        s_hello (peer, 1);
    }
    s_assert_dismissed (0);
}

//  One more than there are places for is refused in words, until one of the others goes.
static void
the_last_place_is_given_and_no_more (void **state)
{
    (void) state;
    refusal_t refusal = { 0 };
    work_hello_t hello = { .processors = 1, .name = "box", .libraries = "tureen 0" };
    char *text = work_message_write_hello (&hello);
    frame_t frame = { (const uint8_t *) text, strlen (text) };
    for (uint8_t peer = 0; peer < REMOTE_WORKERS_MAX; peer++)
        if (!s_say (peer, WIRE_WORK_HELLO, 0, &frame, 1, &refusal))
            fail_msg ("worker %u of %d is refused: %s", peer + 1u, REMOTE_WORKERS_MAX, refusal.message);
    assert_false (s_say (REMOTE_WORKERS_MAX, WIRE_WORK_HELLO, 0, &frame, 1, &refusal));
    assert_string_equal (refusal.code, "busy");
    assert_string_equal (refusal.message, "this server has 64 workers, which is the most");
    assert_null (s_last (REMOTE_WORKERS_MAX, WIRE_WORK_CHALLENGE));
    assert_true (s_say (5, WIRE_WORK_GOODBYE, 0, NULL, 0, &refusal));
    assert_true (s_say (REMOTE_WORKERS_MAX, WIRE_WORK_HELLO, 0, &frame, 1, &refusal));
    assert_non_null (s_last (REMOTE_WORKERS_MAX, WIRE_WORK_CHALLENGE));
    assert_false (s_say (5, WIRE_WORK_HELLO, 0, &frame, 1, &refusal));
    free (text);
}

//  What is wrong may be its own copy of the data: it is sent the bytes, and only then does it count.
static void
a_worker_with_files_of_its_own_is_wrong_once_more (void **state)
{
    (void) state;
    s_fingerprint = "0123456789abcdef0123456789abcdef";
    s_let_in (0, 2);
    s_sent_bytes = 0;
    assert_true (s_give (0));
    remote_workers_was_wrong (s_server.workers, 1, "it lied", s_server.now_ms);
    s_sent_bytes = FILE_BYTES;
    assert_true (s_give (1));
    for (int wrong = 0; wrong < REMOTE_WORKER_WRONG_MAX; wrong++) {
        assert_int_equal (s_server.undone [0], 0);
        remote_workers_was_wrong (s_server.workers, 1, "it lied", s_server.now_ms);
    }
    assert_int_equal (s_server.undone [0], 1);
    s_assert_dismissed (1);
}

static void
no_more_is_lent_than_may_be (void **state)
{
    (void) state;
    s_let_in (0, WIRE_WORK_PROCESSORS_MAX - 1);
    s_let_in (1, 5);
    s_let_in (2, 5);
    assert_int_equal (s_server.lent, WIRE_WORK_PROCESSORS_MAX);
    refusal_t refusal;
    assert_true (s_say (0, WIRE_WORK_GOODBYE, 0, NULL, 0, &refusal));
    assert_int_equal (s_server.lent, 10);
}

static void
a_revoked_key_ends_its_worker (void **state)
{
    (void) state;
    s_let_in (0, 1);
    assert_true (s_give (0));
    remote_workers_revoke (s_server.workers, s_is_seven, NULL, s_server.now_ms);
    assert_int_equal (s_server.undone [0], 1);
    assert_non_null (strstr (s_last (0, WIRE_WORK_REFUSED)->text, "revoked"));
}

//  Credit covers the way, and a link that fills up gets no more than its bound.
static void
credit_grows_with_the_way_up_to_its_bound (void **state)
{
    (void) state;
    remote_worker_t worker = { .state = REMOTE_WORKER_WORKING, .processors = 4, .granted = 4 };
    assert_int_equal (remote_worker_credit (&worker), 5);
    for (int task = 0; task < 200; task++)
        remote_worker_learn (&worker, 11e6, 10e6, 10e6);
    assert_int_equal (remote_worker_credit (&worker), 5);
    for (int task = 0; task < 200; task++)
        remote_worker_learn (&worker, 30e6, 10e6, 10e6);
    assert_in_range (remote_worker_credit (&worker), 12, 13);
    for (int task = 0; task < 200; task++)
        remote_worker_learn (&worker, 1000e6, 10e6, 10e6);
    assert_int_equal (remote_worker_credit (&worker), 32);
}

//  The first answer is the mean, and each later one moves it by a sixteenth.  It tells when a task is late,
//  and how long one more would take.
static void
answers_tell_how_fast_a_worker_is (void **state)
{
    (void) state;
    remote_worker_t worker = { .state = REMOTE_WORKER_WORKING, .granted = 2, .out = 3 };
    assert_int_equal (remote_worker_late_ms (&worker), 1000);
    remote_worker_learn (&worker, 600e6, 500e6, 40e6);
    assert_int_equal (remote_worker_late_ms (&worker), 8 * 600);
    assert_true (remote_worker_wait_ns (&worker) == 4 * 40e6 / 2 + 100e6);
    remote_worker_learn (&worker, 1400e6, 1140e6, 200e6);
    assert_int_equal (remote_worker_late_ms (&worker), 8 * 650);
    assert_true (remote_worker_wait_ns (&worker) == 4 * 50e6 / 2 + 110e6);
    remote_worker_learn_late (&worker, 100e6);
    assert_int_equal (remote_worker_late_ms (&worker), 8 * 650);
    remote_worker_learn_late (&worker, 2000e6);
    assert_int_equal (remote_worker_late_ms (&worker), 8 * 2000);
    worker.done = 50;
    remote_worker_rate (&worker, 999);
    assert_true (worker.rate == 0);
    remote_worker_rate (&worker, 2000);
    assert_true (worker.rate == 25);
    worker.done = 80;
    remote_worker_rate (&worker, 3000);
    assert_true (worker.rate == 30);
}

//  The credit is halved once for all that was out, and grows back by one for a credit of answers in time.
static void
a_worker_that_is_waited_for_gets_less (void **state)
{
    (void) state;
    remote_worker_t worker = { .state = REMOTE_WORKER_WORKING, .processors = 4, .granted = 4 };
    for (int task = 0; task < 200; task++)
        remote_worker_learn (&worker, 1000e6, 10e6, 10e6);
    assert_int_equal (remote_worker_credit (&worker), 32);
    for (uint64_t number = 1; number <= 32; number++)
        remote_worker_learn_taken_back (&worker, number, 32);
    assert_int_equal (remote_worker_credit (&worker), 16);
    assert_int_equal (worker.taken_back, 32);
    for (uint64_t number = 33; number < 40; number++)
        remote_worker_learn_taken_back (&worker, number, number);
    assert_int_equal (remote_worker_credit (&worker), 1);
    for (int task = 0; task < 1 + 2 + 3; task++)
        remote_worker_learn (&worker, 1000e6, 10e6, 10e6);
    assert_in_range (remote_worker_credit (&worker), 3, 4);
    for (int task = 0; task < 32 * 32; task++)
        remote_worker_learn (&worker, 1000e6, 10e6, 10e6);
    assert_int_equal (remote_worker_credit (&worker), 32);
}

#define CASE(name) cmocka_unit_test_setup_teardown (name, s_begin, s_end)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        CASE (a_task_goes_out_and_comes_back), CASE (a_task_has_all_that_was_given),
        CASE (another_build_is_refused), CASE (checks_do_not_overlap),
        CASE (late_tasks_go_back_and_late_answers_are_dropped), CASE (the_tasks_of_a_silent_worker_go_back),
        CASE (a_server_that_stood_still_loses_no_worker),
        CASE (a_worker_that_cannot_be_sent_to_is_lost_at_once), CASE (goodbye_gives_tasks_back),
        CASE (an_answer_is_handed_on_whole), CASE (what_a_worker_did_is_counted),
        CASE (pipelines_are_told_once), CASE (each_data_set_by_its_place), CASE (each_outcome_is_what_it_is),
        CASE (a_worker_is_shown_as_it_is), CASE (workers_that_lie_are_cut_off),
        CASE (no_more_is_lent_than_may_be),
        CASE (a_worker_cannot_answer_for_another), CASE (files_that_are_others_are_sent),
        CASE (an_old_number_is_not_the_new_one), CASE (an_idle_thread_takes_tasks_back),
        CASE (a_worker_that_is_waited_for_gets_less), CASE (answers_tell_how_fast_a_worker_is),
        CASE (a_worker_without_memory_rests), CASE (a_worker_that_is_wrong_three_times_is_dismissed),
        CASE (a_worker_with_files_of_its_own_is_wrong_once_more),
        CASE (in_a_full_table_the_dismissed_leave_last), CASE (the_last_place_is_given_and_no_more),
        CASE (a_revoked_key_ends_its_worker), CASE (credit_grows_with_the_way_up_to_its_bound)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
