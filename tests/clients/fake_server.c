#include "fake_state.h"
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

static int64_t
s_now_ms (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (int64_t) time.tv_sec * 1000 + time.tv_nsec / 1000000;
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
    fake_drop_keys (self);
    if (self->router) {
        zmq_close (self->router);
        zmq_ctx_term (self->context);
    }
    self->router = NULL;
    unlink (self->ring_path);
    self->dead = true;
    self->died_ms = s_now_ms ();
    self->running = self->joined = false;
    self->gather_left = 0;
    fake_free_ring (self);
    pthread_mutex_lock (&self->mutex);
    self->seen.deaths++;
    pthread_mutex_unlock (&self->mutex);
}

//  The job is over, and the server stays.
static void
s_end (fake_server_t *self, const char *reason)
{
    char text [128];
    snprintf (text, sizeof text, "{\"reason\":\"%s\",\"message\":\"the job is over\"}", reason);
    self->running = self->joined = false;
    fake_send_text (self, WIRE_ENDED, self->job, 0, text);
    if (self->client >= 0)
        shutdown (self->client, SHUT_WR);
}

//  With which the job ends, and the server stays; NULL: it is another deed.
static const char *
s_reason (fake_deed_t deed)
{
    return deed == FAKE_END_SILENT? "silent": deed == FAKE_END_FENCED? "fenced":
        deed == FAKE_END_RANK_LOST? "rank_lost":
        deed == FAKE_END_REVOKED? "revoked": deed == FAKE_END_REMOVED? "removed":
        deed == FAKE_DRAIN? "stopping": NULL;
}

static void
s_send_wrong (fake_server_t *self, fake_deed_t deed)
{
    wire_batch_t batch = fake_next_batch (self, self->slots - 1);
    part_t many [5] = { { "a", 1 }, { "b", 1 }, { "c", 1 }, { "d", 1 }, { "e", 1 } };
    if (deed == FAKE_SEND_HELD_SLOT)
        for (batch.slot = 0; !self->slot_busy [batch.slot]; batch.slot++)
            MUST (batch.slot < self->slots);
    if (deed == FAKE_SEND_BAD_SEQUENCE)
        batch.sequence += 3;
    if (deed == FAKE_SEND_LONG_COUNT)
        batch.count = self->batch_size + 1;
    if (deed == FAKE_SEND_OTHERS)
        self->rank = (self->rank + 1) % self->world_size;
    if (deed == FAKE_SEND_OTHERS || deed == FAKE_SEND_HELD_SLOT || deed == FAKE_SEND_BAD_SEQUENCE
        || deed == FAKE_SEND_LONG_COUNT)
        fake_send_batch (self, &batch);
    else if (deed == FAKE_SEND_BAD_JSON)
        fake_send_text (self, WIRE_ENDED, self->job, 0, "{\"reason\": 1, \"reason\": 2}");
    else if (deed == FAKE_SEND_ERROR) {
        self->running = false;
        fake_send_text (self, WIRE_ERROR, self->job, 0,
        "{\"error\":\"unknown_job\",\"message\":\"no such job\"}");
    }
    else if (deed == FAKE_SEND_REVOKED) {
        self->running = false;
        fake_send_text (self, WIRE_ERROR, 0, 0,
            "{\"error\":\"revoked\",\"message\":\"this key was revoked\"}");
    }
    else if (deed == FAKE_SEND_MANY_FRAMES)
        fake_send (self, WIRE_BATCH, self->job, 0, many, 5);
    else if (deed == FAKE_SEND_UNKNOWN) {
        fake_send (self, (wire_kind_t) 200, self->job, 0, many, 5);
        fake_send_text (self, WIRE_ERROR, self->job + 1, 9,
            "{\"error\":\"unknown_job\",\"message\":\"late\"}");
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
    else if (deed == FAKE_DIE_RING) {
        s_close_ring (self);
        self->running = false;
    }
    else if (deed == FAKE_SILENT)
        self->silent = true;
    else if (deed == FAKE_STOP) {
        //  The ring first: the message that explains it is late, by little of the 300 ms in which a client
        //  waits for it.
        s_close_ring (self);
        usleep (5000);
        fake_send_text (self, WIRE_ENDED, self->job, 0,
            "{\"reason\":\"stopping\",\"message\":\"the server ends\"}");
        usleep (50000);
        s_die (self);
    }
    else if (s_reason (deed))
        s_end (self, s_reason (deed));
    else if (deed == FAKE_NOTICE)
        fake_send_text (self, WIRE_NOTICE, self->job, 0,
            "{\"notice\":\"little_shared\",\"message\":\"little is shared\"}");
    else
        s_send_wrong (self, deed);
}

//  --------------------------------------------------------------------------
//  Requests

//  Is it the step at which it dies?
static bool
s_dies_at (fake_server_t *self, fake_step_t step)
{
    if (self->plan.die_at != step || self->step_deaths >= self->plan.die_times)
        return false;
    self->step_deaths++;
    self->dying = true;
    return true;
}

static void
s_take_leave (fake_server_t *self, uint64_t tag)
{
    self->running = self->joined = false;
    s_close_ring (self);
    if (!self->inlined && self->ring)
        memset (self->ring, FAKE_POISON, self->ring_bytes);
    if (!self->silent)
        fake_send_text (self, WIRE_ENDED, self->job, tag,
        "{\"reason\":\"left\",\"message\":\"the client left\"}");
}

//  Is it a step forward from the last one, and of batches that were sent?
static bool
s_progress_is_sane (const fake_server_t *self, const wire_progress_t *progress)
{
    return progress->consumed >= self->seen.progress.consumed && progress->consumed <= self->sequence
        && progress->released >= self->seen.progress.released && progress->released <= progress->consumed;
}

//  The identity in a JOIN.
static void
s_see_identity (fake_seen_t *seen)
{
    json_t *root = json_loads (seen->join, 0, NULL);
    const char *run = json_string_value (json_object_get (root, "run"));
    const char *instance = json_string_value (json_object_get (root, "instance"));
    seen->instances += !instance || strcmp (instance, seen->instance);
    snprintf (seen->run, sizeof seen->run, "%s", run? run: "");
    snprintf (seen->instance, sizeof seen->instance, "%s", instance? instance: "");
    json_decref (root);
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
        seen->id_bytes = 0;
        seen->progress = (wire_progress_t) { .consumed = 0 };
        snprintf (seen->join, sizeof seen->join, "%.*s", (int) parts [1].size, (const char *) parts [1].data);
        s_see_identity (seen);
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
    if (head->kind != WIRE_JOIN && head->kind != WIRE_STATUS && head->job != self->job)
        seen->wrong++;
    pthread_mutex_unlock (&self->mutex);
}

//  Of a sample from 100 on nothing is known; of one from 1000 on nothing is said, until another question
//  comes.
static void
s_take_explain (fake_server_t *self, const part_t *parts, uint64_t tag)
{
    json_t *root = json_loadb (parts [1].data, parts [1].size, 0, NULL);
    MUST (root);
    uint64_t id = fake_decimal (root, "id");
    char *text = json_dumps (root, JSON_COMPACT);
    if (self->late_tag)
        fake_send_text (self, WIRE_EXPLAIN_REPLY, self->job, self->late_tag, "{\"late\":true}");
    self->late_tag = id < 1000? 0: tag;
    if (id < 100)
        fake_send_text (self, WIRE_EXPLAIN_REPLY, self->job, tag, text);
    else if (id < 1000)
        fake_send_text (self, WIRE_ERROR, self->job, tag,
            "{\"error\":\"unknown_sample\",\"message\":\"no batch has it\"}");
    free (text);
    json_decref (root);
}

static void
s_take_status (fake_server_t *self, uint64_t tag)
{
    char text [256];
    snprintf (text, sizeof text,
        "{\"version\":\"0.1.0\",\"jobs\":[{\"job\":1},{\"job\":%" PRIu64 ",\"rate\":2.5}]}", self->job);
    fake_send_text (self, WIRE_STATUS_REPLY, 0, tag,
        self->plan.status? self->plan.status: self->joined? text: "{\"version\":\"0.1.0\",\"jobs\":[]}");
}

static void
s_answer (fake_server_t *self, const wire_head_t *head, const part_t *parts)
{
    if (head->kind == WIRE_JOIN) {
        char *text = strndup (parts [1].data, parts [1].size);
        if (!s_dies_at (self, FAKE_AT_JOIN)) {
            fake_take_join (self, text, parts, head->tag);
            s_dies_at (self, FAKE_AT_JOINED);
        }
        free (text);
    }
    else if (head->kind == WIRE_INLINE)
        self->inlined = self->running = true;
    else if (head->kind == WIRE_PROGRESS && self->joined)
        fake_free_slots (self, &self->seen.progress);
    else if (head->kind == WIRE_LEAVE)
        s_take_leave (self, head->tag);
    else if (head->kind == WIRE_EXPLAIN)
        s_take_explain (self, parts, head->tag);
    else if (head->kind == WIRE_STATUS)
        s_take_status (self, head->tag);
}

static bool
s_is_route (const fake_server_t *self, const part_t *part)
{
    return part->size == self->route_bytes && !memcmp (part->data, self->route, part->size);
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
        memcpy (&head, parts [1].data, sizeof head);
        //  What a client has said on a connection that it gave up may come after its new JOIN.
        if (head.kind == WIRE_JOIN || head.kind == WIRE_STATUS || s_is_route (self, &parts [0])) {
            memcpy (self->route, parts [0].data, parts [0].size);
            self->route_bytes = parts [0].size;
            s_see (self, &head, parts + 1, count - 1);
            s_answer (self, &head, parts + 1);
        }
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
        && !memcmp (token, FAKE_TOKEN, sizeof token));
    if (s_dies_at (self, FAKE_AT_TOKEN))
        return;
    if (self->muted_tokens < self->plan.mute_tokens)
        self->muted_tokens++;
    else
        s_send_descriptor (self);
}

static void
s_watch_ring (fake_server_t *self)
{
    char waste;
    if (recv (self->client, &waste, 1, MSG_DONTWAIT) != 0)
        return;
    s_close_ring (self);
    if (!self->inlined) {
        self->running = false;
        if (self->ring)
            memset (self->ring, FAKE_POISON, self->ring_bytes);
    }
    pthread_mutex_lock (&self->mutex);
    self->seen.ring_closed++;
    pthread_mutex_unlock (&self->mutex);
}

//  --------------------------------------------------------------------------
//  The thread

//  Waits for the other ranks, which are not there.
static void
s_gather (fake_server_t *self, int64_t now_ms)
{
    if (self->gather_left == 0 || now_ms - self->gather_ms < self->plan.gathering_ms)
        return;
    self->gather_ms = now_ms;
    fake_send_text (self, WIRE_NOTICE, 0, self->gather_tag,
        "{\"notice\":\"gathering\",\"message\":\"waiting for rank 9\"}");
    pthread_mutex_lock (&self->mutex);
    self->seen.gatherings++;
    pthread_mutex_unlock (&self->mutex);
    if (--self->gather_left == 0)
        fake_send_joined (self, self->gather_tag);
}

static void
s_step (fake_server_t *self, fake_deed_t wish)
{
    zmq_pollitem_t items [3] = { { .socket = self->router, .events = ZMQ_POLLIN },
        { .fd = self->listener, .events = ZMQ_POLLIN }, { .fd = self->client, .events = ZMQ_POLLIN } };
    zmq_poll (items, self->client >= 0? 3: 2, POLL_MS);
    fake_answer_zap (self);
    while (!self->dying && s_receive (self))
        continue;
    if (items [1].revents && !self->dying)
        s_accept (self);
    if (self->dying) {
        self->dying = false;
        s_die (self);
        return;
    }
    if (self->client >= 0)
        s_watch_ring (self);
    if (self->silent)
        return;
    int64_t now_ms = s_now_ms ();
    s_gather (self, now_ms);
    if (self->inlined && self->running && now_ms - self->beat_ms > self->plan.heartbeat_ms / 2) {
        fake_send (self, WIRE_HEARTBEAT, self->job, 0, NULL, 0);
        self->beat_ms = now_ms;
    }
    for (bool sent = true; sent && !(self->deed_due && self->sequence >= self->plan.deed_batches);)
        sent = fake_send_next (self);
    if (self->deed_due && self->running && self->sequence >= self->plan.deed_batches) {
        self->deed_due = false;
        self->done++;
        s_do (self, self->plan.deed);
    }
    else if (wish)
        s_do (self, wish);
}

static int
s_listen_ring (const char *path)
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

//  Opens what s_die closes.
static void
s_listen (fake_server_t *self)
{
    self->listener = s_listen_ring (self->ring_path);
    self->context = zmq_ctx_new ();
    self->router = zmq_socket (self->context, ZMQ_ROUTER);
    int linger_ms = 500;
    zmq_setsockopt (self->router, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    self->lives++;
    fake_use_keys (self);
    //  Of the life before a connection may still be closing.
    int left = BIND_TRIES, rc;
    while ((rc = zmq_bind (self->router, self->endpoint)) != 0 && errno == EADDRINUSE && left--)
        usleep (POLL_MS * 1000);
    MUST (rc == 0);
    size_t size = sizeof self->endpoint;
    MUST (zmq_getsockopt (self->router, ZMQ_LAST_ENDPOINT, self->endpoint, &size) == 0);
    self->dead = false;
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
        if (self->dead && self->plan.revive_ms && s_now_ms () - self->died_ms >= self->plan.revive_ms)
            s_listen (self);
        if (self->dead)
            usleep (POLL_MS * 1000);
        else
            s_step (self, wish);
    }
    if (!self->dead)
        s_die (self);
    return NULL;
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
    if (plan->tcp)
        strcpy (self->endpoint, "tcp://127.0.0.1:*");
    else
        snprintf (self->endpoint, sizeof self->endpoint, "ipc://%s/server.sock", self->directory);
    snprintf (self->ring_path, sizeof self->ring_path, "%s/server.sock.ring", self->directory);
    self->keeper = zmq_ctx_new ();
    if (plan->unborn) {
        self->dead = true;
        self->died_ms = s_now_ms ();
        self->listener = -1;
    }
    else
        s_listen (self);
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
    zmq_ctx_term (self->keeper);
    fake_free_ring (self);
    free (self->list);
    free (self->order);
    if (!self->plan.tcp)
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
