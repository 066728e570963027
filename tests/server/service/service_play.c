#include "service_play.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "dataset_source.h"
#include "outbox.h"
#include "ring_server.h"
#include "reply.h"
#include "row.h"
#include "tasks.h"
#include "tenant.h"
#include "version.h"

enum { TASKS_MAX = 4096, GONE_MAX = 256, UNREAD_MAX = 4096, LOG_BYTES = 1 << 18, RINGS_MAX = 256,
    RING_EVENTS_MAX = 8 };

//  Stand for what the service is given: there is one play at a time.
struct tasks { version_t *prepare [TASKS_MAX]; size_t prepares; batch_row_t *copy [TASKS_MAX]; size_t copies;
    side_task_t *waiting [TASKS_SIDE_TASKS_MAX], *begun [TASKS_SIDE_TASKS_MAX]; size_t waits, begins;
        bool at_rest, stops_undone, is_stopped;
        decoder_t *decoder; broker_t *broker; data_warnings_t *news; };
struct ring_server { play_ring_t rings [RINGS_MAX]; size_t count, refused, allowed;
    ring_server_event_t events [RING_EVENTS_MAX]; size_t event_count; };
struct tenants { tenant_t *of [4]; bool has_key; };
struct additions { broker_t *broker; additions_state_t state; const char *text, *awaited;
    char words [PLAY_TEXT_BYTES]; };

struct play {
    struct tasks tasks;
    struct ring_server ring_server;
    struct tenants tenants;
    struct additions additions;
    broker_t *broker;
    service_options_t options;
    service_t *service;
    connection_limit_t *connection_limit;
    log_t log;
    char log_text [LOG_BYTES];
    dataset_source_t sources [2];
    int64_t now_ms;
    uint64_t clock_ns, cost_ns;
    play_sent_t sent [PLAY_SENT_MAX];
    size_t sent_count;
    peer_t gone [GONE_MAX];
    size_t gone_count;
    bool reads_nothing, has_no_memory, is_spoiled [PLAY_SAMPLES];
    bool is_worker;                     //  every caller has a worker's key
    size_t worker_messages;             //  that were let through
    struct { atomic_size_t *account; size_t size; } unread [UNREAD_MAX];
    size_t unread_count;
};

//  ---- the socket, as far as it sends

//  What is sent names the socket, not the play.
static play_t *s_play;

static bool
s_is_gone (const play_t *self, const peer_t *peer)
{
    for (size_t index = 0; index < self->gone_count; index++)
        if (self->gone [index].size == peer->size
            && memcmp (self->gone [index].bytes, peer->bytes, peer->size) == 0)
            return true;
    return false;
}

outbox_status_t __wrap_outbox_send (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job,
    uint64_t tag, const void *body, size_t size);
outbox_status_t
__wrap_outbox_send (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag,
    const void *body, size_t size)
{
    (void) router;
    play_t *self = s_play;
    if (s_is_gone (self, peer))
        return OUTBOX_GONE;
    if (self->sent_count == PLAY_SENT_MAX)      //  the first half is forgotten
        memmove (self->sent, &self->sent [PLAY_SENT_MAX / 2],
            (self->sent_count = PLAY_SENT_MAX / 2) * sizeof *self->sent);
    play_sent_t *sent = &self->sent [self->sent_count++];
    *sent = (play_sent_t) { .peer = *peer, .kind = kind, .job = job, .tag = tag, .size = size };
    if (body)
        memcpy (sent->text, body, size < PLAY_TEXT_BYTES? size: PLAY_TEXT_BYTES - 1);
    return OUTBOX_SENT;
}

outbox_status_t __wrap_outbox_send_text (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job,
    uint64_t tag, char *text);
outbox_status_t
__wrap_outbox_send_text (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag,
    char *text)
{
    outbox_status_t status = __wrap_outbox_send (router, peer, kind, job, tag, text, strlen (text));
    free (text);
    return status;
}

static outbox_status_t
s_count (play_t *self, outbox_status_t status, size_t size, atomic_size_t *account)
{
    if (status == OUTBOX_SENT && self->reads_nothing && self->unread_count < UNREAD_MAX) {
        atomic_fetch_add (account, size);
        self->unread [self->unread_count].account = account;
        self->unread [self->unread_count++].size = size;
    }
    return status;
}

outbox_status_t __wrap_outbox_send_counted (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job,
    uint64_t tag, char *text, atomic_size_t *account);
outbox_status_t
__wrap_outbox_send_counted (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag,
    char *text, atomic_size_t *account)
{
    size_t size = strlen (text);
    return s_count (s_play, __wrap_outbox_send_text (router, peer, kind, job, tag, text), size, account);
}

outbox_status_t __wrap_outbox_send_bytes (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag,
    char *text, uint8_t *bytes, size_t size, atomic_size_t *account);
outbox_status_t
__wrap_outbox_send_bytes (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag, char *text,
    uint8_t *bytes, size_t size, atomic_size_t *account)
{
    free (bytes);
    return s_count (s_play, __wrap_outbox_send_text (router, peer, kind, 0, tag, text), size, account);
}

//  Blocks are not used again here.
struct outbox_memory { size_t block_bytes; };

outbox_memory_t *__wrap_outbox_memory_new (size_t block_bytes, uint32_t blocks_max, atomic_size_t *outgoing);
outbox_memory_t *
__wrap_outbox_memory_new (size_t block_bytes, uint32_t blocks_max, atomic_size_t *outgoing)
{
    (void) blocks_max;
    (void) outgoing;
    outbox_memory_t *self = malloc (sizeof *self);
    if (self)
        *self = (outbox_memory_t) { block_bytes };
    return self;
}

void __wrap_outbox_memory_destroy (outbox_memory_t **self_p);
void
__wrap_outbox_memory_destroy (outbox_memory_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

uint8_t *__wrap_outbox_memory_take (outbox_memory_t *self);
uint8_t *
__wrap_outbox_memory_take (outbox_memory_t *self)
{
    return s_play->has_no_memory? NULL: calloc (1, self->block_bytes);
}

void __wrap_outbox_memory_give_back (outbox_memory_t *self, uint8_t *block);
void
__wrap_outbox_memory_give_back (outbox_memory_t *self, uint8_t *block)
{
    (void) self;
    free (block);
}

//  The text is the batch and its ids, as far as they fit.
outbox_status_t __wrap_outbox_send_batch (void *router, const peer_t *peer, uint64_t job,
    const outbox_batch_t *batch);
outbox_status_t
__wrap_outbox_send_batch (void *router, const peer_t *peer, uint64_t job, const outbox_batch_t *batch)
{
    uint8_t body [PLAY_TEXT_BYTES];
    size_t ids = batch->batch->count * sizeof *batch->ids, room = sizeof body - 1 - sizeof *batch->batch;
    ids = ids < room? ids: room;
    memcpy (body, batch->batch, sizeof *batch->batch);
    memcpy (body + sizeof *batch->batch, batch->ids, ids);
    outbox_status_t status = __wrap_outbox_send (router, peer, WIRE_BATCH, job, 0, body,
        sizeof *batch->batch + ids);
    if (status == OUTBOX_SENT)
        s_play->sent [s_play->sent_count - 1].has_bytes = batch->block != NULL;
    free (batch->block);
    return status;
}

//  ---- the ring server

static play_ring_t *
s_ring (ring_server_t *self, uint64_t key)
{
    for (size_t index = 0; index < self->count; index++)
        if (self->rings [index].key == key)
            return &self->rings [index];
    return NULL;
}

int
ring_server_expect (ring_server_t *self, uint64_t key, uid_t uid, int descriptor, int64_t now_ms,
    char token [RING_SERVER_TOKEN_BYTES + 1])
{
    (void) now_ms;
    assert (!s_ring (self, key));
    token [0] = 0;
    if (self->allowed == 0 || self->count == RINGS_MAX) {
        self->refused++;
        return -ENOMEM;
    }
    self->allowed--;
    self->rings [self->count++] = (play_ring_t) { .key = key, .uid = uid, .descriptor = descriptor };
    snprintf (token, RING_SERVER_TOKEN_BYTES + 1, "%032llx", (unsigned long long) key);
    return 0;
}

void
ring_server_forget (ring_server_t *self, uint64_t key)
{
    play_ring_t *ring = s_ring (self, key);
    if (ring)
        *ring = self->rings [--self->count];
}

bool
ring_server_part (ring_server_t *self, uint64_t key)
{
    play_ring_t *ring = s_ring (self, key);
    bool is_attached = ring && ring->is_attached;
    if (is_attached)
        ring->is_parted = true;
    else
        ring_server_forget (self, key);
    return is_attached;
}

bool
ring_server_next (ring_server_t *self, int64_t now_ms, ring_server_event_t *event)
{
    (void) now_ms;
    if (self->event_count == 0)
        return false;
    *event = self->events [0];
    memmove (self->events, &self->events [1], --self->event_count * sizeof *self->events);
    return true;
}

//  ---- the workers

void
tasks_read (tasks_t *self, raw_request_t *raw)
{
    (void) self;
    (void) raw;
    abort ();                   //  there are no packs
}

void
tasks_fetch_ahead (tasks_t *self, const action_t *action)
{
    (void) self;
    (void) action;
    abort ();                   //  nothing is kept
}

void
tasks_prepare (tasks_t *self, version_t *version)
{
    assert (self->prepares < TASKS_MAX);
    self->prepare [self->prepares++] = version;
}

void
tasks_copy (tasks_t *self, batch_row_t *row, const layout_t *layout, uint8_t *slot)
{
    //  The id stands in each field of the row, at both ends.
    uint8_t id = (uint8_t) row_key (row).id;
    for (size_t field = 0; field < layout->count; field++) {
        uint8_t *at = layout_row (layout, field, slot, row_index (row));
        at [0] = at [layout->fields [field].sample_bytes - 1] = id;
    }
    assert (self->copies < TASKS_MAX);
    self->copy [self->copies++] = row;
}

void
tasks_add_side_task (tasks_t *self, tenant_t *tenant, side_task_t *side_task)
{
    assert (self->waits < TASKS_SIDE_TASKS_MAX);
    side_task->tenant = tenant;
    side_task->was_done = false;
    self->waiting [self->waits++] = side_task;
    tenant_side_task_waits (self->broker, tenant);
}

void
tasks_start_side_task (tasks_t *self, const tenant_t *tenant, uint32_t charged_us)
{
    size_t oldest = 0;
    while (oldest < self->waits && self->waiting [oldest]->tenant != tenant)
        oldest++;
    assert (oldest < self->waits && self->begins < TASKS_SIDE_TASKS_MAX);
    self->waiting [oldest]->charged_us = charged_us;
    self->begun [self->begins++] = self->waiting [oldest];
    self->waits--;
    memmove (&self->waiting [oldest], &self->waiting [oldest + 1],
        (self->waits - oldest) * sizeof *self->waiting);
}

void
tasks_collect_side_tasks (tasks_t *self)
{
    while (!self->at_rest && self->begins > 0) {
        side_task_t *side_task = self->begun [--self->begins];
        side_task->was_done = !self->stops_undone;
        if (side_task->was_done)
            side_task->work (side_task, self->decoder);
        tenant_side_task_took (self->broker, side_task->tenant, side_task->charged_us, 0);
        side_task->done (side_task);
    }
    while (self->is_stopped && self->waits > 0) {
        side_task_t *side_task = self->waiting [--self->waits];
        tenant_side_task_gives_up (self->broker, side_task->tenant);
        side_task->done (side_task);
    }
}

void
tasks_collect (tasks_t *self, int64_t now_ms)
{
    (void) now_ms;
    if (self->at_rest)
        return;
    //  What comes of one may hand out others: only those that are there now.
    size_t prepares = self->prepares, copies = self->copies;
    version_t *prepare [TASKS_MAX];
    batch_row_t *copy [TASKS_MAX];
    memcpy (prepare, self->prepare, prepares * sizeof *prepare);
    memcpy (copy, self->copy, copies * sizeof *copy);
    self->prepares = self->copies = 0;
    for (size_t index = 0; index < copies; index++)
        broker_copied (self->broker, copy [index]);
    for (size_t index = 0; index < prepares; index++) {
        bool is_spoiled = s_play->is_spoiled [version_key (self->broker, prepare [index]).id];
        broker_fetched (self->broker, prepare [index]);
        broker_prepared (self->broker, prepare [index], is_spoiled? OUTCOME_BAD: OUTCOME_READY,
            is_spoiled? "spoiled": NULL);
    }
}

void
tasks_stop (tasks_t *self)
{
    self->is_stopped = true;
    self->stops_undone = self->at_rest;
    self->at_rest = false;
    tasks_collect (self, 0);
}

bool
tasks_next_key_trouble (tasks_t *self, int64_t now_ms, char name [DEVICE_NAME_BYTES], const char **trouble_p)
{
    (void) self, (void) now_ms, (void) name, (void) trouble_p;
    return false;
}

const data_warnings_t *
tasks_next_news (tasks_t *self)
{
    return data_warnings_take_news (&self->news);
}

//  ---- workers on other machines: what they send arrives here

int
tasks_lend (tasks_t *self, void *router, log_t *log)
{
    (void) self, (void) router, (void) log;
    return 0;
}

remote_workers_t *
tasks_remote_workers (const tasks_t *self)
{
    (void) self;
    return NULL;
}

bool
remote_workers_take (remote_workers_t *self, const remote_message_t *message, int64_t now_ms,
    refusal_t *refusal)
{
    (void) self, (void) message, (void) now_ms, (void) refusal;
    s_play->worker_messages++;
    return true;
}

void
remote_workers_revoke (remote_workers_t *self, bool (*is_gone) (void *context, uint64_t user), void *context,
    int64_t now_ms)
{
    (void) self, (void) now_ms, (void) is_gone, (void) context;
}

json_t *
remote_workers_status (const remote_workers_t *self, uint64_t *lost_p)
{
    (void) self;
    *lost_p = 6;
    return json_pack ("[{s:s}]", "name", "box");
}

//  No source has any.
const char *
device_name (const device_t *self, char name [DEVICE_NAME_BYTES])
{
    (void) self;
    return name;
}

//  ---- the users

bool
tenants_caller (const tenants_t *self, uid_t uid, const char *key, caller_t *caller)
{
    bool is_remote = uid == (uid_t) -1;
    if ((is_remote && (!key || !self->has_key)) || (!is_remote && uid > PLAY_B))
        return false;
    bool is_operator = uid == PLAY_ROOT;
    tenant_t *tenant = is_operator? self->of [0]: is_remote || uid <= PLAY_A2? self->of [1]: self->of [2];
    *caller = (caller_t) { .tenant = tenant, .is_operator = is_operator || !self->of [3],
        .may_add = is_operator, .uid = uid,
        .may_work = is_operator || s_play->is_worker, .only_works = s_play->is_worker,
        .user = is_remote? PLAY_KEY: uid };
    return true;
}

const char *
tenants_label (const tenants_t *self, const char *key)
{
    (void) self;
    return key? "label": NULL;
}

//  ---- data sets that are added and removed

additions_state_t
additions_add (additions_t *self, const char *const *words, size_t count, const char **text_p,
    refusal_t *refusal)
{
    size_t used = 0;
    for (size_t word = 0; word < count && used < sizeof self->words; word++)
        used += (size_t) snprintf (self->words + used, sizeof self->words - used, "%s%s", word? " ": "",
            words [word]);
    *text_p = self->text;
    if (self->state == ADDITIONS_REFUSED)
        refuse (refusal, "taken", "%s", self->text);
    return self->state;
}

//  As the real one decides.
bool
additions_remove (additions_t *self, const char *name, bool now, size_t waiting, refusal_t *refusal)
{
    dataset_t *dataset = dataset_named (self->broker, NULL, name);
    if (!dataset)
        return refuse (refusal, "unknown_dataset", "no data set '%s'", name);
    if (!now && dataset_jobs (dataset) + waiting > 0)
        return refuse (refusal, "in_use", "%zu jobs, %zu wait", dataset_jobs (dataset), waiting);
    dataset_remove (self->broker, dataset);
    return true;
}

bool
additions_allows (const additions_t *self, const tenant_t *tenant, const char *name, refusal_t *refusal)
{
    (void) tenant;
    return !self || !self->awaited || strcmp (name, self->awaited) != 0
        || refuse (refusal, "opening", "data set '%s' is being opened again", name);
}

bool
additions_is_busy (const additions_t *self)
{
    return self->awaited;
}

void
play_await (play_t *self, const char *name)
{
    self->additions.awaited = name;
}

void
play_add (play_t *self, additions_state_t state, const char *text)
{
    self->additions.state = state;
    self->additions.text = text;
}

const char *
play_added (const play_t *self)
{
    return self->additions.words;
}

void
play_fix_datasets (play_t *self)
{
    self->options.additions = NULL;
    service_destroy (&self->service);
    self->service = service_new (&self->options);
    assert (self->service);
}

//  ---- the play

void
play_be_worker (play_t *self)
{
    self->is_worker = true;
}

size_t
play_worker_messages (const play_t *self)
{
    return self->worker_messages;
}

//  The data sets' files, made by the first play, for all: a fuzzer plays thousands of times.
static char s_folder [64];

static void
s_make_files (const char *name)
{
    char path [120], file [200];
    snprintf (path, sizeof path, "%s/%s", s_folder, name);
    int rc = mkdir (path, 0700);
    snprintf (file, sizeof file, "%s/class", path);
    rc |= mkdir (file, 0700);
    for (int sample = 0; sample < PLAY_SAMPLES; sample++) {
        snprintf (file, sizeof file, "%s/class/%s-%03d.jpg", path, name, sample);
        int descriptor = open (file, O_WRONLY | O_CREAT, 0600);
        rc |= descriptor < 0 || write (descriptor, "none", 4) != 4;
        close (descriptor);
    }
    assert (rc == 0);
}

static void
s_remove_files (void)
{
    static const char *const names [] = { "train", "secret" };
    char path [200];
    for (int dataset = 0; dataset < 2; dataset++) {
        for (int sample = 0; sample < PLAY_SAMPLES; sample++) {
            snprintf (path, sizeof path, "%s/%s/class/%s-%03d.jpg", s_folder, names [dataset],
                names [dataset], sample);
            unlink (path);
        }
        snprintf (path, sizeof path, "%s/%s/class", s_folder, names [dataset]);
        rmdir (path);
        snprintf (path, sizeof path, "%s/%s", s_folder, names [dataset]);
        rmdir (path);
    }
    rmdir (s_folder);
}

static void
s_need_files (void)
{
    if (*s_folder)
        return;
    strcpy (s_folder, "/tmp/tureen-play-XXXXXX");
    char *folder = mkdtemp (s_folder);
    assert (folder);
    s_make_files ("train");
    s_make_files ("secret");
    atexit (s_remove_files);
}

static dataset_t *
s_add_dataset (play_t *self, int index, const char *name)
{
    char path [120], error [1024];
    snprintf (path, sizeof path, "%s/%s", s_folder, name);
    catalogue_options_t options = { .path = path };
    int rc = catalogue_open (&self->sources [index].catalogue, &options, error, sizeof error);
    assert (rc == 0);
    self->sources [index].jpeg_warnings_max = UINT32_MAX;
    self->sources [index].pins = (pins_data_t *) &self->sources [index];    //  __wrap_pins_figures
    return dataset_add (self->broker, name, PLAY_SAMPLES, BROKER_BAD_DROP, &self->sources [index]);
}

static void
s_add_tenants (play_t *self, bool with_tenants, const dataset_t *train, const dataset_t *secret)
{
    self->tenants.of [0] = self->tenants.of [1] = self->tenants.of [2] = tenant_named (self->broker, NULL);
    if (!with_tenants)
        return;
    self->tenants.of [1] = tenant_add (self->broker, &(broker_tenant_t) { .name = "a", .weight = 1 });
    self->tenants.of [2] = tenant_add (self->broker, &(broker_tenant_t) { .name = "b", .weight = 1 });
    self->tenants.of [3] = self->tenants.of [2];
    tenant_allow (self->broker, self->tenants.of [1], train);
    tenant_allow (self->broker, self->tenants.of [2], train);
    tenant_allow (self->broker, self->tenants.of [2], secret);
}

//  A request costs as much as play_cost says: the clock goes on each second time that it is looked at.
static uint64_t
s_clock (void *clock)
{
    play_t *self = clock;
    return self->clock_ns += self->cost_ns / 2;
}

play_t *
play_new (bool with_tenants)
{
    return play_new_at (with_tenants, NULL);
}

//  Figures of the whole server, for status: each is another one.
static const memory_parts_t s_memory = { .memory = 1000, .cache = 200, .raw = 300, .pins = 450,
    .pins_now = 400, .pictures = 50 };

play_t *
play_new_at (bool with_tenants, void *router)
{
    play_t *self = calloc (1, sizeof *self);
    assert (self);
    s_play = self;
    s_need_files ();
    self->log.descriptor = open ("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert (self->log.descriptor >= 0);
    broker_options_t options = { .cache_bytes = 64 << 20, .workers = 2, .jobs_bytes_max = (size_t) 2 << 30,
        .policy = SAMPLER_POLICY_FOLLOW, .seed = 1, .gather_ms = 0 };
    self->broker = broker_new (&options);
    dataset_t *train = s_add_dataset (self, 0, "train"), *secret = s_add_dataset (self, 1, "secret");
    s_add_tenants (self, with_tenants, train, secret);
    self->tenants.has_key = true;
    self->ring_server.allowed = SIZE_MAX;
    self->tasks.broker = self->broker;
    self->tasks.decoder = decoder_new ();
    assert (self->tasks.decoder);
    self->now_ms = 1000000;
    self->additions = (struct additions) { .broker = self->broker, .state = ADDITIONS_READY, .text = "" };
    self->options = (service_options_t) { .broker = self->broker, .tasks = &self->tasks,
        .additions = &self->additions,
        .ring_server = &self->ring_server, .router = router,
        .ring_path = "/play", .log = &self->log, .tenants = &self->tenants,
        .memory = &s_memory, .block_cache = (const block_cache_t *) &s_memory, .restarts = 3,
        .nanoseconds = s_clock,
        .clock = self };
    int rc = connection_limit_new (&self->connection_limit, NULL, NULL, NULL);
    assert (rc == 0);
    self->options.connection_limit = self->connection_limit;
    self->service = service_new (&self->options);
    assert (self->service);
    return self;
}

void
play_destroy (play_t **self_p)
{
    play_t *self = *self_p;
    service_stop (self->service, self->now_ms);
    play_read_all (self);
    service_destroy (&self->service);
    connection_limit_destroy (&self->connection_limit);
    broker_destroy (&self->broker);
    decoder_destroy (&self->tasks.decoder);
    for (int index = 0; index < 2; index++)
        catalogue_destroy (&self->sources [index].catalogue);
    close (self->log.descriptor);
    free (self);
    s_play = NULL;
    *self_p = NULL;
}

service_t *
play_service (play_t *self)
{
    return self->service;
}

broker_t *
play_broker (play_t *self)
{
    return self->broker;
}

int64_t
play_now_ms (const play_t *self)
{
    return self->now_ms;
}

peer_t
play_peer (uint32_t number)
{
    peer_t peer = { .size = 5 };
    memcpy (&peer.bytes [1], &number, sizeof number);
    return peer;
}

void
play_say_frames (play_t *self, uint32_t number, uint32_t user, const frame_t *frames, size_t count)
{
    peer_t peer = play_peer (number);
    receiver_message_t message = { .peer = &peer, .uid = user == PLAY_KEY? (uid_t) -1: user,
        .key = user == PLAY_KEY? "0123456789012345678901234567890123456789": NULL, .frames = frames,
        .count = count };
    service_take (self->service, &message, self->now_ms);
}

void
play_say (play_t *self, uint32_t peer, uint32_t user, wire_kind_t kind, uint64_t job, uint64_t tag,
    const void *body, size_t size)
{
    wire_head_t head = reply_head (kind, job, tag);
    frame_t frames [2] = { { (const uint8_t *) &head, sizeof head }, { body, size } };
    play_say_frames (self, peer, user, frames, body? 2: 1);
}

void
play_say_text (play_t *self, uint32_t peer, uint32_t user, wire_kind_t kind, uint64_t job, uint64_t tag,
    const char *text)
{
    play_say (self, peer, user, kind, job, tag, text, text? strlen (text): 0);
}

void
play_turn (play_t *self, int64_t milliseconds)
{
    for (int64_t passed = 0; passed <= milliseconds; passed += 5) {
        service_attend (self->service, self->now_ms);
        service_serve (self->service, self->now_ms);
        service_act (self->service, self->now_ms);
        if (passed % 500 == 0)
            service_beat (self->service, self->now_ms);
        self->now_ms += milliseconds > 0? 5: 0;
    }
    broker_check (self->broker);
    service_check (self->service);
}

void
play_cost (play_t *self, uint64_t nanoseconds)
{
    self->cost_ns = nanoseconds;
}

static bool
s_has_the_key (void *context, const caller_t *caller)
{
    (void) context;
    return caller->user == PLAY_KEY;
}

size_t
play_revoke (play_t *self)
{
    self->tenants.has_key = false;
    return service_revoke (self->service, s_has_the_key, NULL, self->now_ms);
}

void
play_rest (play_t *self, bool at_rest)
{
    self->tasks.at_rest = at_rest;
}

void
play_close (play_t *self, uint32_t peer)
{
    assert (self->gone_count < GONE_MAX);
    self->gone [self->gone_count++] = play_peer (peer);
}

const play_ring_t *
play_ring (play_t *self, uint64_t key)
{
    return s_ring (&self->ring_server, key);
}

size_t
play_rings (const play_t *self)
{
    return self->ring_server.count;
}

void
play_ring_event (play_t *self, ring_server_event_kind_t kind, uint64_t key)
{
    ring_server_t *server = &self->ring_server;
    play_ring_t *ring = s_ring (server, key);
    assert (ring && server->event_count < RING_EVENTS_MAX);
    server->events [server->event_count++] = (ring_server_event_t) { .kind = kind, .key = key };
    if (kind == RING_SERVER_ATTACHED)
        ring->is_attached = true;
    else
        ring_server_forget (server, key);
}

void
play_allow_rings (play_t *self, size_t count)
{
    self->ring_server.allowed = count;
}

size_t
play_refused_rings (const play_t *self)
{
    return self->ring_server.refused;
}

void
play_lack_memory (play_t *self, bool has_no_memory)
{
    self->has_no_memory = has_no_memory;
}

void
play_spoil (play_t *self, uint32_t id)
{
    assert (id < PLAY_SAMPLES);
    self->is_spoiled [id] = true;
}

void
play_stop_reading (play_t *self)
{
    self->reads_nothing = true;
}

void
play_read_all (play_t *self)
{
    for (size_t index = 0; index < self->unread_count; index++)
        atomic_fetch_sub (self->unread [index].account, self->unread [index].size);
    self->unread_count = 0;
}

static bool
s_matches (const play_sent_t *sent, uint32_t number, wire_kind_t kind)
{
    peer_t peer = play_peer (number);
    return (kind == 0 || sent->kind == kind) && sent->peer.size == peer.size
        && memcmp (sent->peer.bytes, peer.bytes, peer.size) == 0;
}

const play_sent_t *
play_last (const play_t *self, uint32_t peer, wire_kind_t kind)
{
    for (size_t index = self->sent_count; index-- > 0; )
        if (s_matches (&self->sent [index], peer, kind))
            return &self->sent [index];
    return NULL;
}

size_t
play_count (const play_t *self, uint32_t peer, wire_kind_t kind)
{
    size_t count = 0;
    for (size_t index = 0; index < self->sent_count; index++)
        count += s_matches (&self->sent [index], peer, kind);
    return count;
}

const play_sent_t *
play_sent_with (const play_t *self, uint64_t tag)
{
    for (size_t index = 0; index < self->sent_count; index++)
        if (self->sent [index].tag == tag)
            return &self->sent [index];
    return NULL;
}

void
play_forget_sent (play_t *self)
{
    self->sent_count = 0;
}

json_t *
play_status (play_t *self, uint32_t user)
{
    caller_t caller;
    bool known = tenants_caller (&self->tenants, user == PLAY_KEY? (uid_t) -1: user,
        user == PLAY_KEY? "": NULL, &caller);
    assert (known);
    return service_status (self->service, &caller, self->now_ms);
}

const char *
play_log (play_t *self)
{
    ssize_t size = pread (self->log.descriptor, self->log_text, LOG_BYTES - 1, 0);
    self->log_text [size > 0? size: 0] = 0;
    return self->log_text;
}
