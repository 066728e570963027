/*  fuzz_workers -- what workers on other machines send, in any order and at any time, while the server hands
 *  tasks to them.
 *
 *  remote_workers.c as it is, over made-up sending and a clock of the input's.  The input is a sequence of
 *  steps.  A step begins with a byte: its low three bits say what happens, the next two which of four workers
 *  does it.
 *
 *  Whatever is sent: a task that was given comes back exactly once, ready only with as many bytes as its
 *  version has, and otherwise with a printable reason and a file that it has.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pack_index.h"
#include "remote_workers.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

enum { TASKS = 32, PEERS = 4, FILES = 2, FILE_BYTES = 10, VERSION_BYTES = 2 * 3 * 3, FRAMES = 5, LAST = 8 };
#define FINGERPRINT "0123456789abcdef0123456789abcdef"

typedef struct {
    const uint8_t *at;
    size_t left;
} input_t;

static struct {
    remote_workers_t *workers;
    int64_t now_ms;
    bool is_out [TASKS], is_checking;
    uint64_t last [LAST], digests [BUILD_CHECK_SAMPLES];     //  the last tasks that were sent; what is right
    size_t sent, to_last;
} s_server;

static const pipeline_t *s_pipeline;
static log_t s_log;

static void
s_require (bool condition)
{
    if (!condition)
        abort ();
}

static uint8_t
s_byte (input_t *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

//  ---- what the server calls

size_t
catalogue_fields (const catalogue_t *self)
{
    (void) self;
    return FILES;
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
    return field? "mask": "image";
}

bool
catalogue_field_is_mask (const catalogue_t *self, size_t field)
{
    (void) self;
    return field > 0;
}

//  Of a worker that has gone, the server learns when it sends; that is peer 3, each fifth time.
static outbox_status_t
s_send_to (const peer_t *peer)
{
    return peer->bytes [0] == 3 && ++s_server.to_last % 5 == 0? OUTBOX_GONE: OUTBOX_SENT;
}

outbox_status_t
outbox_send (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag, const void *body,
    size_t size)
{
    (void) router, (void) kind, (void) job, (void) tag, (void) body, (void) size;
    return s_send_to (peer);
}

outbox_status_t
outbox_send_text (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag, char *text)
{
    (void) router, (void) peer, (void) kind, (void) job, (void) tag;
    free (text);
    return OUTBOX_SENT;
}

outbox_status_t
outbox_send_message (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag, const void *body,
    size_t size, zmq_msg_t *last)
{
    (void) router, (void) kind, (void) body, (void) size;
    zmq_msg_close (last);
    s_server.last [s_server.sent++ % LAST] = tag;
    return s_send_to (peer);
}

static void
s_done (void *context, void *task, const remote_result_t *result)
{
    (void) context;
    bool *is_out = task;
    size_t bytes = 0;
    s_require (*is_out);
    *is_out = false;
    if (!result)
        return;
    s_require (result->file < FILES);
    for (size_t frame = 0; frame < result->count; frame++)
        bytes += result->frames [frame].size;
    if (result->is_starved)
        return;
    s_require (result->outcome != OUTCOME_READY || bytes == VERSION_BYTES);
    s_require (memchr (result->what, 0, sizeof result->what));
    for (const char *at = result->what; *at; at++)
        s_require ((unsigned char) *at >= ' ' && *at != 127);
}

static void
s_lends (void *context, uint32_t processors)
{
    (void) context;
    s_require (processors <= WIRE_WORK_PROCESSORS_MAX);
}

static void
s_check (void *context, uint64_t nonce)
{
    (void) context, (void) nonce;
    s_require (!s_server.is_checking);
    s_server.is_checking = true;
}

static int64_t
s_nanoseconds (void)
{
    return s_server.now_ms * 1000000;
}

//  ---- steps

//  Frames in memory of their own, so that a read beyond one is seen.
static void
s_say (uint8_t peer, uint8_t kind, uint64_t tag, const frame_t *body, size_t count)
{
    wire_head_t head, sent = { .magic = { 'T', 'U', 'R', 'N' }, .version = WIRE_VERSION, .kind = kind,
        .tag = tag };
    frame_t frames [FRAMES + 1] = { { (const uint8_t *) &sent, sizeof sent } };
    refusal_t refusal = { 0 };
    for (size_t index = 0; index < count; index++) {
        uint8_t *copy = malloc (body [index].size? body [index].size: 1);
        s_require (copy);
        if (body [index].size)
            memcpy (copy, body [index].data, body [index].size);
        frames [index + 1] = (frame_t) { copy, body [index].size };
    }
    peer_t from = { .bytes = { peer }, .size = 1 };
    remote_message_t message = { .peer = &from, .user = peer < 2? 7: 8, .head = &head, .frames = frames,
        .count = count + 1 };
    if (kind >= WIRE_WORK_HELLO && request_head (frames, count + 1, &head, &refusal) == REQUEST_OK
    &&  !remote_workers_take (s_server.workers, &message, s_server.now_ms, &refusal))
        s_require (refusal.code && *refusal.message);
    for (size_t index = 0; index < count; index++)
        free ((void *) (uintptr_t) frames [index + 1].data);
}

static void
s_say_text (uint8_t peer, uint8_t kind, char *text)
{
    frame_t frame = { (const uint8_t *) text, strlen (text) };
    s_say (peer, kind, 0, &frame, 1);
    free (text);
}

static void
s_hello (uint8_t peer, uint8_t how)
{
    work_hello_t hello = { .processors = how % WIRE_WORK_PROCESSORS_MAX + 1u, .name = "box",
        .libraries = "tureen", .datasets = how >> 7, .fingerprints = { FINGERPRINT } };
    s_say_text (peer, WIRE_WORK_HELLO, work_message_write_hello (&hello));
}

static void
s_answer (uint8_t peer, uint8_t how)
{
    const char *names [BUILD_CHECK_SAMPLES];
    uint64_t digests [BUILD_CHECK_SAMPLES];
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++) {
        names [index] = build_check_name (index);
        digests [index] = s_server.digests [index] + (how == 255);
    }
    s_say_text (peer, WIRE_WORK_ANSWER, work_message_write_answer (names, BUILD_CHECK_SAMPLES, digests));
}

static void
s_checked (uint8_t how)
{
    if (!s_server.is_checking)
        return;
    s_server.is_checking = false;
    remote_workers_checked (s_server.workers, how == 255? NULL: s_server.digests, s_server.now_ms);
}

//  So many tasks.
static void
s_give (uint8_t count)
{
    static const uint8_t bytes [FILE_BYTES];
    decoder_file_t files [FILES] = { { .bytes = bytes, .size = FILE_BYTES }, { .bytes = bytes, .size = 3 } };
    for (size_t number = 0; number < TASKS && count % TASKS > 0; number++) {
        if (s_server.is_out [number])
            continue;
        files [0].rows = bytes;
        files [0].rows_bytes = number % 4;
        remote_task_t task = { .task = &s_server.is_out [number], .pipeline = s_pipeline, .files = FILES,
            .fingerprint = number % 2? FINGERPRINT: NULL, .is_slow = number % 3 == 0, .learns = true,
            .sample = { .files = files } };
        if (!remote_workers_give (s_server.workers, &task, s_server.now_ms))
            return;
        s_server.is_out [number] = true;
        count--;
    }
}

//  To one of the last tasks, or to what was never asked; the bytes are in up to three frames.
static void
s_result (input_t *input, uint8_t peer)
{
    static const uint8_t bytes [UINT8_MAX];
    uint8_t which = s_byte (input), how = s_byte (input), outcome = s_byte (input);
    wire_work_result_t result = { .worker_ns = (uint64_t) s_byte (input) << 20,
        .held_ns = (uint64_t) s_byte (input) << 20, .outcome = outcome % (WIRE_WORK_OUTCOMES + 1),
        .flags = outcome >> 4, .file = how >> 6, .rows_bytes = how >> 4 & 3 };
    frame_t frames [FRAMES] = { { (const uint8_t *) &result, sizeof result } };
    size_t count = 1 + (how & 3);
    for (size_t index = 1; index < count; index++)
        frames [index] = (frame_t) { bytes, how & 4? s_byte (input): VERSION_BYTES / (count - 1) };
    if (result.rows_bytes > 0 && !(how & 8))
        frames [count++] = (frame_t) { bytes, result.rows_bytes };
    s_say (peer, WIRE_WORK_RESULT, s_server.last [which % LAST] + (which >> 6) * (which >> 6), frames, count);
}

static void
s_raw (input_t *input, uint8_t peer)
{
    frame_t frames [FRAMES];
    uint8_t kind = s_byte (input), tag = s_byte (input);
    size_t count = s_byte (input) % (FRAMES + 1);
    for (size_t index = 0; index < count; index++) {
        size_t length = s_byte (input);
        length = length < input->left? length: input->left;
        frames [index] = (frame_t) { input->at, length };
        input->at += length;
        input->left -= length;
    }
    s_say (peer, kind, s_server.last [tag % LAST], frames, count);
}

static bool
s_is_gone (void *context, uint64_t user)
{
    (void) context;
    return user == 8;
}

//  What the server does by itself, and what a worker says without a word more.
static void
s_other (uint8_t peer, uint8_t how)
{
    switch (how & 7) {
    case 0: s_say (peer, WIRE_WORK_HEARTBEAT, 0, NULL, 0); break;
    case 1: s_say (peer, WIRE_WORK_GOODBYE, 0, NULL, 0); break;
    case 2: remote_workers_take_back (s_server.workers, how & 8, (int64_t) (how >> 4) * 10000000); break;
    case 3: remote_workers_was_wrong (s_server.workers, how >> 4, "it lied", s_server.now_ms); break;
    case 4: remote_workers_revoke (s_server.workers, s_is_gone, NULL, s_server.now_ms); break;
    default:
        remote_workers_have_credit (s_server.workers, VERSION_BYTES, s_server.now_ms);
        s_require (remote_workers_wakeup (s_server.workers) > 0);
    }
}

static void
s_step (input_t *input)
{
    uint8_t what = s_byte (input), peer = what >> 3 & (PEERS - 1);
    switch (what & 7) {
    case 0: s_hello (peer, s_byte (input)); break;
    case 1: s_answer (peer, s_byte (input)); break;
    case 2: s_checked (s_byte (input)); break;
    case 3: s_give (s_byte (input)); break;
    case 4: s_result (input, peer); break;
    case 5:
        s_server.now_ms += 20 * s_byte (input);
        remote_workers_look (s_server.workers, s_server.now_ms);
        break;
    case 6: s_other (peer, s_byte (input)); break;
    default: s_raw (input, peer);
    }
    remote_workers_check (s_server.workers);
}

//  ---- life

static void
s_forget (void)
{
    pipeline_destroy (&s_pipeline);
    close (s_log.descriptor);
}

static void
s_begin (void)
{
    char error [256];
    json_t *list = json_loads ("[{\"op\":\"resize\",\"size\":[2,3]},{\"share\":true},{\"op\":\"flip\"}]", 0,
        NULL);
    s_require (pipeline_new (&s_pipeline, list, NULL, NULL, 0, error, sizeof error) == 0);
    json_decref (list);
    s_log.descriptor = open ("/dev/null", O_WRONLY | O_CLOEXEC);
    s_require (s_log.descriptor >= 0);
    atexit (s_forget);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (!s_pipeline)
        s_begin ();
    memset (&s_server, 0, sizeof s_server);
    s_server.now_ms = 1000;
    remote_workers_options_t options = { .log = &s_log, .done = s_done, .lends = s_lends, .check = s_check,
        .nanoseconds = s_nanoseconds };
    s_server.workers = remote_workers_new (&options);
    s_require (s_server.workers);
    input_t input = { .at = data, .left = size };
    while (input.left > 0)
        s_step (&input);
    uint64_t lost;
    json_decref (remote_workers_status (s_server.workers, &lost));
    remote_workers_stop (s_server.workers);
    remote_workers_check (s_server.workers);
    for (size_t number = 0; number < TASKS; number++)
        s_require (!s_server.is_out [number]);
    remote_workers_destroy (&s_server.workers);
    return 0;
}
