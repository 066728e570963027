//  A server's threads beside a worker that is silent, lies, is slow, or comes and goes: ready_tasks.c and
//  remote_workers.c on a virtual clock.  Every sample is prepared, no good one is left out, and an epoch is
//  not slower than three times the same epoch without the worker.  The seed of each run is printed, and
//  TEST_SEED plays all runs again.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>
#include "ready_tasks.h"
#include "task.h"
#include "tenant.h"

enum { TASKS_MAX = 1024, SAMPLES_MAX = 24000, THREADS_MAX = 4, PROCESSORS_MAX = 64, OUT_MAX = 1024,
    BAD_EVERY = 50, VERSION_BYTES = 2 * 3 * 3 };
static const int64_t MS = 1000000;
static const double SLOWER_MOST = 3;
//  What the server's thread takes to send a task, and what the task and its answer take on their way.
static const int64_t SEND_NS = 50000, TRIP_NS = 1000000;

typedef enum { SOUND, SILENT, MUTE, ALL_BAD, THIRD_BAD, UNSUITABLE, NO_MEMORY, SLOW, COMES_AND_GOES } kind_t;
static const char *const s_kind_names [] = { "sound", "silent", "answers heartbeats alone", "calls all bad",
    "calls a third bad", "calls all unsuitable", "has no memory", "slow by 100", "comes and goes" };

typedef struct {
    kind_t kind;
    uint32_t processors;                //  the worker's; 0: there is none
    uint32_t threads;                   //  the server's
    int64_t task_ns;
    uint32_t samples;
    bool is_slow;                       //  the tasks are for the threads apart
    bool has_bad;                       //  each BAD_EVERYth sample is
    bool has_other;                     //  another job keeps all threads busy
    int64_t other_ns;                   //  its tasks
} scene_t;

//  A task that the worker has.
typedef struct {
    uint64_t number;
    uint64_t id;                        //  of the sample
    int64_t due_ns;                     //  when the server has the answer; INT64_MAX: never
    int64_t held_ns;                    //  how long the worker has it
} held_t;

static struct {
    scene_t scene;
    uint64_t random;
    int64_t now_ns;
    ready_tasks_t ready;
    const pipeline_t *pipeline;
    dataset_source_t source;
    log_t log;
    task_t *tasks;                      //  of samples under way, each in the place id % TASKS_MAX
    bool is_done [SAMPLES_MAX];
    uint32_t first, next, bad;          //  the first sample that is not done; the next one to begin; bad ones
    task_t *others;                     //  the other job's
    uint32_t other_count;
    uint32_t lent;
    size_t local_decodes [SAMPLES_MAX];
    //  a pool
    task_t *queue [SAMPLES_MAX * 2];
    size_t queue_first, queue_last;
    struct { task_t *task; int64_t due_ns; } threads [THREADS_MAX];
    //  the worker
    uint8_t peer;                       //  0: it is not there; each time it comes, another one
    bool is_welcome, is_refused;
    int64_t turn_ns, beat_ns;           //  when it comes or goes next; its next heartbeat
    int64_t free_ns [PROCESSORS_MAX];   //  when each of its processors is free
    held_t held [OUT_MAX];              //  in the order of their answers
    size_t held_count;
    size_t sent;
} s;

static uint64_t
s_draw (uint64_t below)
{
    s.random ^= s.random << 13;
    s.random ^= s.random >> 7;
    s.random ^= s.random << 17;
    return s.random % below;
}

//  ---- what the server calls

int __wrap_clock_gettime (clockid_t clock, struct timespec *time);
int
__wrap_clock_gettime (clockid_t clock, struct timespec *time)
{
    (void) clock;
    *time = (struct timespec) { .tv_sec = s.now_ns / 1000000000, .tv_nsec = s.now_ns % 1000000000 };
    return 0;
}

void __wrap_pool_submit (pool_t *pool, void *task);
void
__wrap_pool_submit (pool_t *pool, void *task)
{
    (void) pool;
    s.queue [s.queue_last++ % (SAMPLES_MAX * 2)] = task;
}

void __wrap_budget_lend (broker_t *broker, uint32_t processors);
void
__wrap_budget_lend (broker_t *broker, uint32_t processors)
{
    (void) broker;
    s.lent = processors;
}

const char *__wrap_catalogue_files_fingerprint (const catalogue_t *catalogue);
const char *
__wrap_catalogue_files_fingerprint (const catalogue_t *catalogue)
{
    (void) catalogue;
    return NULL;
}

size_t __wrap_catalogue_path (const catalogue_t *catalogue, uint32_t id, size_t field, char *path,
    size_t size);
size_t
__wrap_catalogue_path (const catalogue_t *catalogue, uint32_t id, size_t field, char *path, size_t size)
{
    (void) catalogue, (void) field;
    return (size_t) snprintf (path, size, "i/%u", id);
}

size_t __wrap_catalogue_fields (const catalogue_t *catalogue);
size_t
__wrap_catalogue_fields (const catalogue_t *catalogue)
{
    (void) catalogue;
    return 0;
}

outbox_status_t __wrap_outbox_send (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job,
    uint64_t tag, const void *body, size_t size);
outbox_status_t
__wrap_outbox_send (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag,
    const void *body, size_t size)
{
    (void) router, (void) job, (void) tag, (void) body, (void) size;
    s.is_welcome |= kind == WIRE_WORK_WELCOME && peer->bytes [0] == s.peer;
    return OUTBOX_SENT;
}

outbox_status_t __wrap_outbox_send_text (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job,
    uint64_t tag, char *text);
outbox_status_t
__wrap_outbox_send_text (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag,
    char *text)
{
    (void) router, (void) job, (void) tag;
    s.is_refused |= kind == WIRE_WORK_REFUSED && peer->bytes [0] == s.peer;
    free (text);
    return OUTBOX_SENT;
}

//  What a thread of either side needs for this sample.
static int64_t
s_needs_ns (uint64_t id)
{
    return id >= SAMPLES_MAX? s.scene.other_ns: s.scene.task_ns;
}

static int64_t
s_turn_ns (uint64_t id)
{
    int64_t task_ns = s_needs_ns (id);
    switch (s.scene.kind) {
    case SILENT:
    case MUTE:
        return INT64_MAX;
    case ALL_BAD:
    case UNSUITABLE:
    case NO_MEMORY:
        return 200000;
    case SLOW:
        return 100 * task_ns;
    default:
        return task_ns;
    }
}

//  The worker puts a task behind those that it has, and the processor that is free first does it.
static void
s_hold (uint64_t number, uint64_t id)
{
    int64_t turn_ns = s_turn_ns (id), came_ns = s.now_ns + TRIP_NS / 2, *free_ns = s.free_ns;
    held_t held = { .number = number, .id = id, .due_ns = INT64_MAX };
    if (turn_ns < INT64_MAX) {
        for (uint32_t processor = 1; processor < s.scene.processors; processor++)
            if (s.free_ns [processor] < *free_ns)
                free_ns = &s.free_ns [processor];
        *free_ns = (*free_ns > came_ns? *free_ns: came_ns) + turn_ns;
        held.held_ns = *free_ns - came_ns;
        held.due_ns = *free_ns + TRIP_NS / 2;
    }
    assert_true (s.held_count < OUT_MAX);
    size_t place = s.held_count++;
    for (; place > 0 && s.held [place - 1].due_ns > held.due_ns; place--)
        s.held [place] = s.held [place - 1];
    s.held [place] = held;
}

outbox_status_t __wrap_outbox_send_message (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag,
    const void *body, size_t size, zmq_msg_t *last);
outbox_status_t
__wrap_outbox_send_message (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag,
    const void *body, size_t size, zmq_msg_t *last)
{
    (void) router, (void) kind, (void) size;
    wire_work_task_t wire;
    memcpy (&wire, body, sizeof wire);
    zmq_msg_close (last);
    s.sent++;
    //  The thread that sends and the first of the others share a processor, half and half.
    s.now_ns += SEND_NS;
    if (s.threads [0].task)
        s.threads [0].due_ns += SEND_NS / 2;
    if (peer->bytes [0] == s.peer)      //  otherwise it has gone, and the server does not know yet
        s_hold (tag, wire.id);
    return OUTBOX_SENT;
}

static void
s_begin_sample (task_t *task, uint32_t id)
{
    static uint8_t version [VERSION_BYTES], file [10];
    memset (task, 0, sizeof *task);
    task->kind = TASK_PREPARE;
    task->pipeline = s.pipeline;
    task->source = &s.source;
    task->key.id = id;
    task->is_slow = s.scene.is_slow;
    task->memory = version;
    task->buffers [0] = (catalogue_buffer_t) { .bytes = file, .size = sizeof file };
    ready_tasks_add (&s.ready, task);
}

static void
s_finish (void *context, task_t *task)
{
    (void) context;
    uint32_t id = task_id (task);
    if (id >= SAMPLES_MAX) {
        s.other_count--;
        s.others [id - SAMPLES_MAX].pipeline = NULL;
        return;
    }
    bool is_bad = s.scene.has_bad && id % BAD_EVERY == 0;
    assert_false (s.is_done [id]);
    assert_int_equal (task->outcome, is_bad? OUTCOME_BAD: OUTCOME_READY);
    if (is_bad)
        assert_string_equal (task->reason + strlen (task->reason) - 7, "spoiled");
    s.is_done [id] = true;
    s.bad += is_bad;
}

//  ---- the server's threads

static void
s_thread_done (task_t *task)
{
    if (task->kind == TASK_PREPARE) {
        if (task_id (task) < SAMPLES_MAX)
            s.local_decodes [task_id (task)]++;
        task->worker_ns += (uint64_t) s_needs_ns (task_id (task));
        atomic_store (&task->began_ms, s.now_ns / MS);
        if (s.scene.has_bad && task_id (task) % BAD_EVERY == 0)
            task_blame (task, OUTCOME_BAD, 0, "spoiled");
    }
    else
        s.ready.build_check.is_made = true;
    if (ready_tasks_done (&s.ready, task))
        return;
    s_finish (NULL, task);
}

static void
s_turn_threads (void)
{
    for (uint32_t thread = 0; thread < s.scene.threads; thread++)
        if (s.threads [thread].task && s.threads [thread].due_ns <= s.now_ns) {
            task_t *task = s.threads [thread].task;
            s.threads [thread].task = NULL;
            s_thread_done (task);
        }
    for (uint32_t thread = 0; thread < s.scene.threads; thread++)
        if (!s.threads [thread].task && s.queue_first < s.queue_last) {
            s.threads [thread].task = s.queue [s.queue_first++ % (SAMPLES_MAX * 2)];
            const task_t *task = s.threads [thread].task;
            s.threads [thread].due_ns = s.now_ns
                + (task->kind == TASK_PREPARE? s_needs_ns (task_id (task)): MS);
        }
}

//  ---- the worker

static void
s_say (wire_kind_t kind, uint64_t tag, const frame_t *body, size_t count)
{
    wire_head_t head = { .kind = (uint8_t) kind, .tag = tag };
    frame_t frames [4] = { { (const uint8_t *) &head, sizeof head } };
    peer_t from = { .bytes = { s.peer }, .size = 1 };
    refusal_t refusal;
    for (size_t index = 0; index < count; index++)
        frames [index + 1] = body [index];
    remote_message_t message = { .peer = &from, .user = 7, .head = &head, .frames = frames,
        .count = count + 1 };
    remote_workers_take (s.ready.remote, &message, s.now_ns / MS, &refusal);
}

static void
s_say_text (wire_kind_t kind, char *text)
{
    frame_t frame = { (const uint8_t *) text, strlen (text) };
    s_say (kind, 0, &frame, 1);
    free (text);
}

static void
s_come (void)
{
    const char *names [BUILD_CHECK_SAMPLES];
    uint64_t digests [BUILD_CHECK_SAMPLES] = { 0 };
    static uint8_t last;
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++)
        names [index] = build_check_name (index);
    last = last < 255? last + 1: 1;
    s.peer = last;
    s.is_welcome = s.is_refused = false;
    s.held_count = 0;
    memset (s.free_ns, 0, sizeof s.free_ns);
    s.beat_ns = s.now_ns;
    work_hello_t hello = { .processors = s.scene.processors, .name = "box", .libraries = "tureen 0" };
    s_say_text (WIRE_WORK_HELLO, work_message_write_hello (&hello));
    s_say_text (WIRE_WORK_ANSWER, work_message_write_answer (names, BUILD_CHECK_SAMPLES, digests));
}

static void
s_answer (const held_t *held)
{
    static const uint8_t version [VERSION_BYTES];
    static const uint8_t words [] = { 'l', 'i', 'e' };
    kind_t kind = s.scene.kind;
    bool is_truly_bad = s.scene.has_bad && held->id % BAD_EVERY == 0;
    wire_work_result_t result = { .worker_ns = (uint64_t) s_turn_ns (held->id),
        .held_ns = (uint64_t) held->held_ns };
    result.outcome = kind == UNSUITABLE? WIRE_WORK_UNSUITABLE: kind == NO_MEMORY? WIRE_WORK_NO_MEMORY:
        kind == ALL_BAD || is_truly_bad || (kind == THIRD_BAD && s_draw (3) == 0)? WIRE_WORK_BAD:
        WIRE_WORK_READY;
    frame_t frames [] = { { (const uint8_t *) &result, sizeof result },
        { result.outcome == WIRE_WORK_READY? version: words, result.outcome == WIRE_WORK_READY? VERSION_BYTES:
            result.outcome == WIRE_WORK_NO_MEMORY? 0: sizeof words } };
    s_say (WIRE_WORK_RESULT, held->number, frames, 2);
}

static void
s_turn_worker (void)
{
    if (s.scene.processors == 0)
        return;
    if (s.now_ns >= s.turn_ns) {
        if (s.peer)
            s.peer = 0;
        else
            s_come ();
        bool changes = s.scene.kind == COMES_AND_GOES;
        s.turn_ns = changes? s.now_ns + (int64_t) (50 + s_draw (3000)) * MS: INT64_MAX;
        if (!changes && s.peer == 0)
            s.turn_ns = INT64_MAX;
    }
    if (!s.peer)
        return;
    //  A supervisor starts it again a second after it was dismissed.
    if (s.is_refused) {
        s.peer = 0;
        s.turn_ns = s.now_ns + 1000 * MS;
        return;
    }
    if (s.now_ns >= s.beat_ns && !(s.scene.kind == SILENT && s.is_welcome)) {
        s.beat_ns = s.now_ns + 500 * MS;
        s_say (WIRE_WORK_HEARTBEAT, 0, NULL, 0);
    }
    while (s.held_count > 0 && s.held [0].due_ns <= s.now_ns && !s.is_refused) {
        held_t held = s.held [0];
        memmove (s.held, s.held + 1, --s.held_count * sizeof *s.held);
        s_answer (&held);
    }
}

//  ---- an epoch

static int64_t
s_next_ns (void)
{
    int64_t wakeup_ms = ready_tasks_wakeup (&s.ready);
    int64_t next_ns = wakeup_ms == INT64_MAX? INT64_MAX: wakeup_ms * MS;
    for (uint32_t thread = 0; thread < s.scene.threads; thread++)
        if (s.threads [thread].task && s.threads [thread].due_ns < next_ns)
            next_ns = s.threads [thread].due_ns;
    if (s.scene.processors > 0 && s.turn_ns < next_ns)
        next_ns = s.turn_ns;
    if (s.peer && !(s.scene.kind == SILENT && s.is_welcome) && s.beat_ns < next_ns)
        next_ns = s.beat_ns;
    if (s.peer && s.held_count > 0 && s.held [0].due_ns < next_ns)
        next_ns = s.held [0].due_ns;
    return next_ns > s.now_ns? next_ns: s.now_ns + 1000;
}

//  As the broker hands out: so many versions are under way, and a batch needs all of its samples.
static void
s_begin_samples (void)
{
    while (s.first < s.scene.samples && s.is_done [s.first])
        s.first++;
    uint32_t window = 8 * s.scene.threads + 24 + 4 * s.lent;
    while (s.next < s.scene.samples && s.next < s.first + window) {
        uint32_t id = s.next++;
        s_begin_sample (&s.tasks [id % TASKS_MAX], id);
    }
    for (uint32_t number = 0; s.scene.has_other && s.other_count < window && number < window; number++)
        if (!s.others [number].pipeline) {
            s.other_count++;
            s_begin_sample (&s.others [number], SAMPLES_MAX + number);
        }
}

//  How long the epoch takes, in seconds.
static double
s_epoch (const scene_t *scene, uint64_t seed)
{
    const pipeline_t *pipeline = s.pipeline;
    memset (&s, 0, sizeof s);
    s.pipeline = pipeline;
    s.scene = *scene;
    s.random = seed | 1;
    s.now_ns = 1000 * MS;
    s.log.descriptor = open ("/dev/null", O_WRONLY | O_CLOEXEC);
    s.tasks = calloc (TASKS_MAX, sizeof *s.tasks);
    s.others = calloc (TASKS_MAX, sizeof *s.others);
    assert_non_null (s.tasks);
    assert_non_null (s.others);
    s.ready = (ready_tasks_t) { .threads = scene->threads, .finish = s_finish };
    assert_int_equal (ready_tasks_lend (&s.ready, NULL, &s.log), 0);
    for (;;) {
        s_turn_threads ();
        s_turn_worker ();
        ready_tasks_hand_out (&s.ready, s.now_ns / MS);
        s_begin_samples ();
        s_turn_threads ();
        if (s.first == scene->samples)
            break;
        s.now_ns = s_next_ns ();
        assert_true (s.now_ns < 4000 * 1000 * MS);
    }
    for (uint32_t id = 0; scene->has_bad && id < scene->samples; id += BAD_EVERY)
        assert_int_equal (s.local_decodes [id], 1);
    assert_int_equal (s.bad, scene->has_bad? (scene->samples + BAD_EVERY - 1) / BAD_EVERY: 0);
    remote_workers_check (s.ready.remote);
    while (ready_tasks_drain (&s.ready))
        ;
    ready_tasks_destroy (&s.ready);
    close (s.log.descriptor);
    free (s.tasks);
    free (s.others);
    return (double) (s.now_ns - 1000 * MS) / 1e9;
}

static void
s_judge (scene_t scene, uint64_t seed)
{
    double alone = (double) (scene.samples / scene.threads * scene.task_ns) / 1e9 * (scene.has_other? 2: 1);
    double beside = s_epoch (&scene, seed);
    printf ("seed %llu: %-24s %2u processors, %u threads, tasks of %3lld ms%s: %6.1f s alone, "
        "%6.1f s, %.2f; %zu sent\n",
        (unsigned long long) seed, s_kind_names [scene.kind], scene.processors, scene.threads,
        (long long) (scene.task_ns / MS), scene.has_other? ", beside another job": "",
        alone, beside, beside / alone, s.sent);
    assert_true (beside <= SLOWER_MOST * alone);
    if (scene.kind == NO_MEMORY)
        assert_true (s.sent < 3000);
    if (scene.kind == SOUND)
        assert_true (beside < alone);
}

static uint64_t
s_seed (void)
{
    const char *text = getenv ("TEST_SEED");
    return text? strtoull (text, NULL, 10): 20261129;
}

static void
s_judge_all (kind_t kind)
{
    for (uint32_t threads = 1; threads <= THREADS_MAX; threads += 3)
        for (uint32_t processors = 1; processors <= 64; processors *= 64)
            for (int is_slow = 0; is_slow < 2; is_slow++)
                for (int has_other = 0; has_other < 2; has_other++)
                    s_judge ((scene_t) { .kind = kind, .processors = processors, .threads = threads,
                        .is_slow = is_slow, .task_ns = is_slow? 120 * MS: 10 * MS,
                        .samples = (is_slow? 500: 6000) * threads, .has_other = has_other,
                        .other_ns = is_slow? 120 * MS: 10 * MS,
                        .has_bad = kind == SOUND || kind == THIRD_BAD },
                        s_seed () + threads * 100 + processors);
}

//  Quick tasks of one job are no measure for the other's.  32 processors do more of them than the server's
//  thread can send.
static void
a_sound_worker_helps_beside_quicker_tasks (void **state)
{
    (void) state;
    for (uint32_t processors = 16; processors <= 32; processors *= 2) {
        scene_t scene = { .kind = SOUND, .processors = processors, .threads = 2, .task_ns = 80 * MS,
            .other_ns = MS, .samples = 2000, .has_other = true };
        double mixed = s_epoch (&scene, s_seed ()), alone = 80e-3 * 2000 / 2;
        printf ("a sound worker with %u processors beside quicker tasks: %.1f s, %.1f s alone\n", processors,
            mixed, alone);
        assert_true (mixed < alone / 4);
    }
}

#define CASE(name, kind) \
    static void name (void **state) { (void) state; s_judge_all (kind); }
CASE (a_sound_worker_helps, SOUND)
CASE (a_silent_worker, SILENT)
CASE (a_worker_that_answers_heartbeats_alone, MUTE)
CASE (a_worker_that_calls_every_sample_bad, ALL_BAD)
CASE (a_worker_that_calls_a_third_bad, THIRD_BAD)
CASE (a_worker_that_calls_every_sample_unsuitable, UNSUITABLE)
CASE (a_worker_without_memory, NO_MEMORY)
CASE (a_worker_slower_by_100, SLOW)
CASE (a_worker_that_comes_and_goes, COMES_AND_GOES)

static int
s_begin (void **state)
{
    (void) state;
    char error [256];
    json_t *list = json_loads ("[{\"op\":\"resize\",\"size\":[2,3]},{\"share\":true},{\"op\":\"flip\"}]", 0,
        NULL);
    int rc = pipeline_new (&s.pipeline, list, NULL, NULL, 0, error, sizeof error);
    json_decref (list);
    return rc;
}

static int
s_end (void **state)
{
    (void) state;
    pipeline_destroy (&s.pipeline);
    return 0;
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (a_sound_worker_helps_beside_quicker_tasks),
        cmocka_unit_test (a_sound_worker_helps), cmocka_unit_test (a_silent_worker),
        cmocka_unit_test (a_worker_that_answers_heartbeats_alone),
        cmocka_unit_test (a_worker_that_calls_every_sample_bad),
        cmocka_unit_test (a_worker_that_calls_a_third_bad),
        cmocka_unit_test (a_worker_that_calls_every_sample_unsuitable),
        cmocka_unit_test (a_worker_without_memory), cmocka_unit_test (a_worker_slower_by_100),
        cmocka_unit_test (a_worker_that_comes_and_goes)
    };
    return cmocka_run_group_tests (tests, s_begin, s_end);
}
