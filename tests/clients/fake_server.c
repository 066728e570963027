#include "fake_server.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <jansson.h>
#include <zmq.h>

enum { PART_MAX = 160, ROUTE_BYTES = 16, POLL_MS = 5 };

//  Holds in a test program, NDEBUG or not.
#define MUST(condition) \
    do { \
        if (!(condition)) { \
            fprintf (stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror (errno)); \
            abort (); \
        } \
    } while (0)

struct fake_server {
    fake_plan_t plan;
    char directory [64];
    char endpoint [128];
    char ring_path [128];
    pthread_t thread;
    pthread_mutex_t mutex;
    //  Under the mutex.
    bool stop;
    fake_deed_t wish;
    fake_seen_t seen;
    //  The thread's own.
    void *context;
    void *router;
    int listener;
    int client;                         //  the ring's connection
    int memory;
    uint8_t *ring;
    size_t slot_bytes;
    uint8_t route [ROUTE_BYTES];
    size_t route_bytes;
    bool joined;
    bool running;
    bool inlined;
    bool silent;
    bool done;                          //  the deed
    bool dead;
    uint32_t batch_size;
    uint32_t slots;
    uint64_t slot_sequence [WIRE_SLOTS_MAX];
    bool slot_busy [WIRE_SLOTS_MAX];
    uint64_t sequence;
    uint64_t epoch;
    uint64_t index;
    uint64_t position;                  //  samples of the epoch so far
    uint64_t epochs_sent;
    int64_t beat_ms;
};

uint8_t
fake_pixel (uint64_t id)
{
    return (uint8_t) (1 + id * 37 % 200);
}

static int64_t
s_now_ms (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (int64_t) time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

//  --------------------------------------------------------------------------
//  Sending

typedef struct {
    const void *data;
    size_t size;
} part_t;

static void
s_send (fake_server_t *self, wire_kind_t kind, uint64_t job, uint64_t tag, const part_t *parts, size_t count)
{
    wire_head_t head = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .kind = (uint8_t) kind, .job = job,
        .tag = tag };
    zmq_send (self->router, self->route, self->route_bytes, ZMQ_SNDMORE);
    zmq_send (self->router, &head, sizeof head, count? ZMQ_SNDMORE: 0);
    for (size_t index = 0; index < count; index++)
        zmq_send (self->router, parts [index].data, parts [index].size, index + 1 < count? ZMQ_SNDMORE: 0);
}

static void
s_send_text (fake_server_t *self, wire_kind_t kind, uint64_t job, uint64_t tag, const char *text)
{
    part_t part = { text, strlen (text) };
    s_send (self, kind, job, tag, &part, 1);
}

//  --------------------------------------------------------------------------
//  Batches

static void
s_fill (fake_server_t *self, uint8_t *slot, const uint64_t *ids, uint32_t count)
{
    for (uint32_t index = 0; index < count; index++) {
        memset (slot + (size_t) index * FAKE_PIXELS, fake_pixel (ids [index]), FAKE_PIXELS);
        int64_t label = (int64_t) ids [index];
        memcpy (slot + (size_t) self->batch_size * FAKE_PIXELS + index * sizeof label, &label, sizeof label);
    }
}

//  Sends a batch, as it is said; the bytes are those of its ids.
static void
s_send_batch (fake_server_t *self, const wire_batch_t *batch)
{
    uint64_t *ids = calloc (self->batch_size, sizeof *ids);
    uint8_t *bytes = self->inlined? calloc (1, self->slot_bytes): self->ring + batch->slot * self->slot_bytes;
    MUST (ids && bytes);
    uint32_t count = batch->count < self->batch_size? batch->count: self->batch_size;
    for (uint32_t index = 0; index < count; index++)
        ids [index] = self->position + index;
    if (self->inlined || !self->slot_busy [batch->slot])
        s_fill (self, bytes, ids, count);
    part_t parts [3] = { { batch, sizeof *batch }, { ids, count * sizeof *ids },
        { bytes, self->slot_bytes } };
    s_send (self, WIRE_BATCH, FAKE_JOB, 0, parts, self->inlined? 3: 2);
    free (ids);
    if (self->inlined)
        free (bytes);
}

static wire_batch_t
s_next_batch (fake_server_t *self, uint32_t slot)
{
    uint64_t left = self->plan.samples - self->position;
    return (wire_batch_t) { .sequence = self->sequence, .epoch = self->epoch, .index = self->index,
        .slot = slot,
        .count = left < self->batch_size? (uint32_t) left: self->batch_size,
        .flags = self->inlined? WIRE_BATCH_INLINE: 0 };
}

//  The slot to fill next, or slots: none.  The last free one only once the others' batches are consumed.
static uint32_t
s_next_slot (const fake_server_t *self)
{
    uint32_t slot = self->slots, free_slots = 0;
    for (uint32_t other = self->slots; other-- > 0;)
        if (!self->slot_busy [other]) {
            slot = other;
            free_slots++;
        }
    return free_slots == 1 && self->seen.progress.consumed < self->sequence? self->slots: slot;
}

static bool
s_send_next (fake_server_t *self)
{
    if (!self->running || (self->plan.epochs && self->epochs_sent == self->plan.epochs))
        return false;
    uint32_t slot = s_next_slot (self);
    if (slot == self->slots)
        return false;
    wire_batch_t batch = s_next_batch (self, slot);
    s_send_batch (self, &batch);
    self->slot_busy [slot] = true;
    self->slot_sequence [slot] = self->sequence++;
    self->index++;
    self->position += batch.count;
    if (self->position == self->plan.samples) {
        wire_epoch_end_t end = { .epoch = self->epoch++, .samples = self->position, .batches = self->index };
        self->position = self->index = 0;
        end.flags = ++self->epochs_sent == self->plan.epochs? WIRE_EPOCH_LAST: 0;
        part_t part = { &end, sizeof end };
        s_send (self, WIRE_EPOCH_END, FAKE_JOB, 0, &part, 1);
    }
    pthread_mutex_lock (&self->mutex);
    self->seen.sent = self->sequence;
    pthread_mutex_unlock (&self->mutex);
    return true;
}

static void
s_free_slots (fake_server_t *self, const wire_progress_t *progress)
{
    for (uint32_t slot = 0; slot < self->slots; slot++) {
        if (!self->slot_busy [slot] || self->slot_sequence [slot] >= progress->released
        ||  (progress->kept >> slot & 1))
            continue;
        self->slot_busy [slot] = false;
        if (!self->inlined)
            memset (self->ring + slot * self->slot_bytes, FAKE_POISON, self->slot_bytes);
    }
}

//  --------------------------------------------------------------------------
//  Deeds

static void
s_close_ring (fake_server_t *self)
{
    if (self->client >= 0)
        close (self->client);
    self->client = -1;
}

static void
s_die (fake_server_t *self)
{
    s_close_ring (self);
    if (self->listener >= 0)
        close (self->listener);
    self->listener = -1;
    if (self->router) {
        zmq_close (self->router);
        zmq_ctx_term (self->context);
    }
    self->router = NULL;
    unlink (self->ring_path);
    self->dead = true;
}

static void
s_send_wrong (fake_server_t *self, fake_deed_t deed)
{
    wire_batch_t batch = s_next_batch (self, self->slots - 1);
    part_t many [5] = { { "a", 1 }, { "b", 1 }, { "c", 1 }, { "d", 1 }, { "e", 1 } };
    if (deed == FAKE_SEND_HELD_SLOT)
        for (batch.slot = 0; !self->slot_busy [batch.slot]; batch.slot++)
            MUST (batch.slot < self->slots);
    if (deed == FAKE_SEND_BAD_SEQUENCE)
        batch.sequence += 3;
    if (deed == FAKE_SEND_LONG_COUNT)
        batch.count = self->batch_size + 1;
    if (deed == FAKE_SEND_HELD_SLOT || deed == FAKE_SEND_BAD_SEQUENCE || deed == FAKE_SEND_LONG_COUNT)
        s_send_batch (self, &batch);
    else if (deed == FAKE_SEND_BAD_JSON)
        s_send_text (self, WIRE_ENDED, FAKE_JOB, 0, "{\"reason\": 1, \"reason\": 2}");
    else if (deed == FAKE_SEND_ERROR)
        s_send_text (self, WIRE_ERROR, FAKE_JOB, 0,
        "{\"error\":\"unknown_job\",\"message\":\"no such job\"}");
    else if (deed == FAKE_SEND_MANY_FRAMES)
        s_send (self, WIRE_BATCH, FAKE_JOB, 0, many, 5);
    else if (deed == FAKE_SEND_UNKNOWN) {
        s_send (self, (wire_kind_t) 200, FAKE_JOB, 0, many, 5);
        s_send_text (self, WIRE_ERROR, FAKE_JOB + 1, 9, "{\"error\":\"unknown_job\",\"message\":\"late\"}");
    }
    else if (deed == FAKE_SEND_NONSENSE) {
        zmq_send (self->router, self->route, self->route_bytes, ZMQ_SNDMORE);
        zmq_send (self->router, "HTTP/1.1 200 OK", 15, 0);
    }
}

static void
s_do (fake_server_t *self, fake_deed_t deed)
{
    if (deed == FAKE_DIE)
        s_die (self);
    else if (deed == FAKE_DIE_RING)
        s_close_ring (self);
    else if (deed == FAKE_SILENT)
        self->silent = true;
    else if (deed == FAKE_STOP) {
        //  The ring first: the message that explains it is late.
        s_close_ring (self);
        usleep (50000);
        s_send_text (self, WIRE_ENDED, FAKE_JOB, 0,
            "{\"reason\":\"stopping\",\"message\":\"the server ends\"}");
        usleep (50000);
        s_die (self);
    }
    else
        s_send_wrong (self, deed);
}

//  --------------------------------------------------------------------------
//  Requests

static const char s_token [] = "0123456789abcdef0123456789abcdef";

static void
s_make_ring (fake_server_t *self)
{
    size_t bytes = self->slots * self->slot_bytes;
    self->memory = memfd_create ("fake", MFD_CLOEXEC);
    MUST (self->memory >= 0);
    MUST (ftruncate (self->memory, (off_t) (self->plan.ring == FAKE_RING_SHORT? bytes - 1: bytes)) == 0);
    self->ring = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->memory, 0);
    MUST (self->ring != MAP_FAILED);
}

static void
s_send_joined (fake_server_t *self, uint64_t tag)
{
    char ring [512] = "null", text [2048];
    if (self->plan.ring != FAKE_NO_RING)
        snprintf (ring, sizeof ring, "{\"path\":\"%s%s\",\"token\":\"%s\",\"bytes\":\"%zu\"}",
        self->ring_path,
            self->plan.ring == FAKE_RING_WRONG_PATH? ".not": "", s_token, self->slots * self->slot_bytes);
    snprintf (text, sizeof text, "{\"job\":\"%d\",\"samples\":\"%" PRIu64 "\","
        "\"dataset_samples\":\"%" PRIu64 "\","
        "\"classes\":[\"cat\",\"dog\"],\"batch_size\":%" PRIu32 ",\"slots\":%" PRIu32 ","
        "\"slot_bytes\":\"%zu\",\"fields\":[{\"name\":\"image\",\"dtype\":\"uint8\","
        "\"shape\":[4,4,3],\"offset\":\"0\",\"sample_bytes\":\"48\"},"
        "{\"name\":\"label\",\"dtype\":\"int64\",\"shape\":[],\"offset\":\"%zu\",\"sample_bytes\":\"8\"}],"
        "\"ring\":%s,\"seed\":\"7\",\"fingerprint\":\"abcd\",\"pipeline\":[],\"heartbeat_ms\":%" PRIu32 ","
        "\"lease_ms\":90000,\"future\":1}", FAKE_JOB, self->plan.samples, self->plan.samples,
        self->batch_size,
        self->slots, self->slot_bytes, (size_t) self->batch_size * FAKE_PIXELS, ring,
        self->plan.heartbeat_ms? self->plan.heartbeat_ms: 1000);
    s_send_text (self, WIRE_JOINED, FAKE_JOB, tag, self->plan.joined? self->plan.joined: text);
}

//  Forgets the job before, and makes ready for one as the JSON says.
static void
s_take_join (fake_server_t *self, const char *text, uint64_t tag)
{
    if (self->plan.refuse) {
        json_t *error = json_pack ("{s:s, s:s}", "error", "unknown_dataset", "message", self->plan.refuse);
        char *body = json_dumps (error, JSON_COMPACT);
        s_send_text (self, WIRE_ERROR, 0, tag, body);
        free (body);
        json_decref (error);
        return;
    }
    json_t *root = json_loads (text, 0, NULL);
    MUST (root);
    json_t *slots = json_object_get (root, "slots");
    const char *transport = json_string_value (json_object_get (root, "transport"));
    self->batch_size = (uint32_t) json_integer_value (json_object_get (root, "batch_size"));
    self->slots = self->plan.slots? self->plan.slots: slots? (uint32_t) json_integer_value (slots): 4;
    self->slot_bytes = ((size_t) self->batch_size * (FAKE_PIXELS + 8) + 4095) / 4096 * 4096;
    if (transport && !strcmp (transport, "inline"))
        self->plan.ring = FAKE_NO_RING;
    json_decref (root);
    if (!self->ring)
        s_make_ring (self);
    self->joined = true;
    s_send_joined (self, tag);
}

static void
s_take_leave (fake_server_t *self, uint64_t tag)
{
    self->running = self->joined = false;
    s_close_ring (self);
    if (!self->inlined && self->ring)
        memset (self->ring, FAKE_POISON, self->slots * self->slot_bytes);
    if (!self->silent)
        s_send_text (self, WIRE_ENDED, FAKE_JOB, tag,
        "{\"reason\":\"left\",\"message\":\"the client left\"}");
}

//  Is it a step forward from the last one, and of batches that were sent?
static bool
s_progress_is_sane (const fake_server_t *self, const wire_progress_t *progress)
{
    return progress->consumed >= self->seen.progress.consumed && progress->consumed <= self->sequence
        && progress->released >= self->seen.progress.released && progress->released <= progress->consumed;
}

//  Counts what came.
static void
s_see (fake_server_t *self, const wire_head_t *head, const part_t *parts, size_t count)
{
    fake_seen_t *seen = &self->seen;
    pthread_mutex_lock (&self->mutex);
    if (head->kind == WIRE_JOIN) {
        seen->joins++;
        seen->join_frames = count;
        snprintf (seen->join, sizeof seen->join, "%.*s", (int) parts [1].size, (const char *) parts [1].data);
        for (size_t index = 2; index < count; index++)
            seen->id_bytes += parts [index].size;
    }
    else if (head->kind == WIRE_PROGRESS) {
        wire_progress_t progress;
        memcpy (&progress, parts [1].data, sizeof progress);
        seen->progresses++;
        if (count != 2 || parts [1].size != sizeof progress || !s_progress_is_sane (self, &progress))
            seen->wrong++;
        seen->progress = progress;
    }
    else if (head->kind == WIRE_INLINE)
        seen->inlines++;
    else if (head->kind == WIRE_LEAVE)
        seen->leaves++;
    else if (head->kind == WIRE_HEARTBEAT)
        seen->heartbeats++;
    else if (head->kind == WIRE_STATUS)
        seen->statuses++;
    if (head->kind != WIRE_JOIN && head->kind != WIRE_STATUS && head->job != FAKE_JOB)
        seen->wrong++;
    pthread_mutex_unlock (&self->mutex);
}

static void
s_answer (fake_server_t *self, const wire_head_t *head, const part_t *parts)
{
    if (head->kind == WIRE_JOIN) {
        char *text = strndup (parts [1].data, parts [1].size);
        s_take_join (self, text, head->tag);
        free (text);
    }
    else if (head->kind == WIRE_INLINE)
        self->inlined = self->running = true;
    else if (head->kind == WIRE_PROGRESS && self->joined)
        s_free_slots (self, &self->seen.progress);
    else if (head->kind == WIRE_LEAVE)
        s_take_leave (self, head->tag);
    else if (head->kind == WIRE_STATUS)
        s_send_text (self, WIRE_STATUS_REPLY, 0, head->tag, "{\"version\":\"0.1.0\",\"jobs\":[]}");
}

static bool
s_receive (fake_server_t *self)
{
    zmq_msg_t messages [PART_MAX];
    part_t parts [PART_MAX];
    size_t count = 0;
    for (bool more = true; more; count++) {
        MUST (count < PART_MAX);
        zmq_msg_init (&messages [count]);
        if (zmq_msg_recv (&messages [count], self->router, ZMQ_DONTWAIT) < 0)
            break;
        parts [count] = (part_t) { zmq_msg_data (&messages [count]), zmq_msg_size (&messages [count]) };
        more = zmq_msg_more (&messages [count]);
    }
    if (count > 1 && !self->plan.deaf) {
        wire_head_t head;
        MUST (parts [0].size <= ROUTE_BYTES && parts [1].size == sizeof head);
        memcpy (self->route, parts [0].data, parts [0].size);
        self->route_bytes = parts [0].size;
        memcpy (&head, parts [1].data, sizeof head);
        s_see (self, &head, parts + 1, count - 1);
        s_answer (self, &head, parts + 1);
    }
    for (size_t index = 0; index < count; index++)
        zmq_msg_close (&messages [index]);
    return count > 0;
}

//  --------------------------------------------------------------------------
//  The ring's socket

static void
s_send_descriptor (fake_server_t *self)
{
    char answer = 'R';
    struct iovec part = { &answer, 1 };
    union {
        struct cmsghdr header;
        char bytes [CMSG_SPACE (sizeof (int))];
    } control = { .bytes = "" };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (self->plan.ring != FAKE_RING_NO_DESCRIPTOR) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR (&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN (sizeof (int));
        memcpy (CMSG_DATA (header), &self->memory, sizeof (int));
    }
    sendmsg (self->client, &message, MSG_NOSIGNAL);
    if (self->plan.ring == FAKE_RING)
        self->running = true;
}

static void
s_accept (fake_server_t *self)
{
    int client = accept4 (self->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    if (self->plan.ring == FAKE_RING_REFUSES) {
        close (client);
        return;
    }
    s_close_ring (self);
    self->client = client;
    char token [WIRE_TOKEN_BYTES];
    MUST (recv (client, token, sizeof token, MSG_WAITALL) == sizeof token
        && !memcmp (token, s_token, sizeof token));
    s_send_descriptor (self);
}

static void
s_watch_ring (fake_server_t *self)
{
    char waste;
    if (recv (self->client, &waste, 1, MSG_DONTWAIT) != 0)
        return;
    s_close_ring (self);
    if (!self->inlined)
        self->running = false;
    pthread_mutex_lock (&self->mutex);
    self->seen.ring_closed++;
    pthread_mutex_unlock (&self->mutex);
}

//  --------------------------------------------------------------------------
//  The thread

static void
s_step (fake_server_t *self, fake_deed_t wish)
{
    zmq_pollitem_t items [3] = { { .socket = self->router, .events = ZMQ_POLLIN },
        { .fd = self->listener, .events = ZMQ_POLLIN }, { .fd = self->client, .events = ZMQ_POLLIN } };
    zmq_poll (items, self->client >= 0? 3: 2, POLL_MS);
    while (s_receive (self))
        continue;
    if (items [1].revents)
        s_accept (self);
    if (self->client >= 0)
        s_watch_ring (self);
    if (self->silent)
        return;
    int64_t now_ms = s_now_ms ();
    if (self->inlined && self->running && now_ms - self->beat_ms > self->plan.heartbeat_ms / 2) {
        s_send (self, WIRE_HEARTBEAT, FAKE_JOB, 0, NULL, 0);
        self->beat_ms = now_ms;
    }
    for (bool sent = true; sent && !(self->plan.deed && !self->done
        && self->sequence >= self->plan.deed_batches);)
        sent = s_send_next (self);
    if (self->plan.deed && !self->done && self->running && self->sequence >= self->plan.deed_batches) {
        self->done = true;
        s_do (self, self->plan.deed);
    }
    else if (wish)
        s_do (self, wish);
}

static void *
s_run (void *argument)
{
    fake_server_t *self = argument;
    for (bool stop = false; !stop;) {
        pthread_mutex_lock (&self->mutex);
        stop = self->stop;
        fake_deed_t wish = self->wish;
        self->wish = FAKE_NOTHING;
        pthread_mutex_unlock (&self->mutex);
        if (self->dead)
            usleep (POLL_MS * 1000);
        else
            s_step (self, wish);
    }
    if (!self->dead)
        s_die (self);
    return NULL;
}

static int
s_listen (const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    MUST (strlen (path) < sizeof address.sun_path);
    strcpy (address.sun_path, path);
    int listener = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST (listener >= 0);
    MUST (bind (listener, (struct sockaddr *) &address, sizeof address) == 0);
    MUST (listen (listener, 4) == 0);
    return listener;
}

fake_server_t *
fake_new (const fake_plan_t *plan)
{
    fake_server_t *self = calloc (1, sizeof *self);
    MUST (self);
    self->plan = *plan;
    self->client = self->memory = -1;
    strcpy (self->directory, "/tmp/tureen-fake-XXXXXX");
    MUST (mkdtemp (self->directory));
    snprintf (self->endpoint, sizeof self->endpoint, "ipc://%s/server.sock", self->directory);
    snprintf (self->ring_path, sizeof self->ring_path, "%s/server.sock.ring", self->directory);
    self->listener = s_listen (self->ring_path);
    self->context = zmq_ctx_new ();
    self->router = zmq_socket (self->context, ZMQ_ROUTER);
    int linger_ms = 500;
    zmq_setsockopt (self->router, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    MUST (zmq_bind (self->router, self->endpoint) == 0);
    pthread_mutex_init (&self->mutex, NULL);
    MUST (pthread_create (&self->thread, NULL, s_run, self) == 0);
    return self;
}

void
fake_destroy (fake_server_t **self_p)
{
    fake_server_t *self = *self_p;
    if (!self)
        return;
    pthread_mutex_lock (&self->mutex);
    self->stop = true;
    pthread_mutex_unlock (&self->mutex);
    pthread_join (self->thread, NULL);
    pthread_mutex_destroy (&self->mutex);
    if (self->ring)
        munmap (self->ring, self->slots * self->slot_bytes);
    if (self->memory >= 0)
        close (self->memory);
    unlink (self->endpoint + strlen ("ipc://"));
    rmdir (self->directory);
    free (self);
    *self_p = NULL;
}

const char *
fake_endpoint (const fake_server_t *self)
{
    return self->endpoint;
}

fake_seen_t
fake_seen (fake_server_t *self)
{
    pthread_mutex_lock (&self->mutex);
    fake_seen_t seen = self->seen;
    pthread_mutex_unlock (&self->mutex);
    return seen;
}

void
fake_do (fake_server_t *self, fake_deed_t deed)
{
    pthread_mutex_lock (&self->mutex);
    self->wish = deed;
    pthread_mutex_unlock (&self->mutex);
}
