#include "cluster.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <semaphore.h>
#include <zmq.h>
#include "clock.h"
#include "instrument.h"

enum { CLUSTER_MAGIC = 0x0c1057e6 };

typedef struct {
    cluster_data_t shown;
    exchange_t *fetches;            //  to the reader of its store; NULL: none reads it
    atomic_bool has_foreign;        //  cluster_has_foreign
} cluster_entry_t;

struct cluster {
    uint32_t magic;
    //  set before the first reader
    members_t *members;
    char name [MEMBERS_NAME_BYTES];
    char public_key [CLUSTER_KEY_CHARS + 1], secret_key [CLUSTER_KEY_CHARS + 1];        //  "": none
    cluster_entry_t *data;
    size_t data_count;
    //  set before the start
    cluster_reader_t *readers;
    size_t reader_count;
    exchange_t *fetched;            //  from readers, cluster_fetch_t
    struct peer_server *server;     //  NULL: not started
};

//  ---- messages between servers

_Static_assert (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are read as they are");

bool
cluster_read_question (const void *frame, size_t size, peer_question_frame_t *question)
{
    if (size != sizeof *question)
        return false;
    memcpy (question, frame, sizeof *question);
    if (question->magic != PEER_WIRE_MAGIC || question->version != PEER_WIRE_VERSION)
        return false;
    if (question->kind == PEER_PING)
        return true;
    return (question->kind == PEER_GET || question->kind == PEER_RENEW) && question->bytes > 0
        && question->bytes <= PEER_BLOCK_BYTES && question->offset <= UINT64_MAX - PEER_BLOCK_BYTES;
}

bool
cluster_read_answer (const void *frame, size_t size, peer_answer_frame_t *answer)
{
    if (size != sizeof *answer)
        return false;
    memcpy (answer, frame, sizeof *answer);
    return answer->magic == PEER_WIRE_MAGIC && answer->version == PEER_WIRE_VERSION
        && answer->kind >= PEER_BYTES && answer->kind <= PEER_PONG && answer->reason < PEER_REASONS
        && answer->zero == 0;
}


//  ---- the peer server

//  Gives other members the blocks of which this server is the home.
//
//  A thread with a ROUTER of its own.  It reads what is in the cache on the local disk; the rest it has the
//  store's reader fetch (cluster_fetch_t), which keeps it and reads each block once, however many members
//  ask.
//
//  Bounds:         GIVEN_MAX answers of up to 4 MiB at once, of one member at most MEMBER_GIVEN_MAX while
//                  others wait; QUESTIONS_MAX questions wait, of one member MEMBER_QUESTIONS_MAX; beyond
//                  that the answer is PEER_REASON_BUSY.  The thread, and ZeroMQ's that sends, give way to all
//                  others of this machine (nice + NICER), so that the server's own jobs lose little.
//  Keys:           with keys, CURVE admits those that have the server's own key pair: the members have one
//                  and no client has it.
//  failure modes:  a question that makes no sense gets PEER_REASON_INVALID; what is no question, nothing.

typedef struct peer_server peer_server_t;

typedef struct {
    uint64_t blocks, bytes;             //  given
    uint64_t fetched;                   //  of the blocks, those that had to be read of the store first
    uint64_t refused [PEER_REASONS];
    uint64_t rejected;                  //  connections without the right key
    size_t waiting;                     //  questions
} peer_server_figures_t;

enum {
    SERVER_MAGIC = 0x6178e201,
    NICER = 15,                         //  two threads that are always busy: 7 % of a processor
    GIVEN_MAX = CLUSTER_FETCHES_MAX,    //  answers that are prepared or sent
    QUESTIONS_MAX = 1024, MEMBER_QUESTIONS_MAX = 128, MEMBER_GIVEN_MAX = 6,
    ROUTING_BYTES_MAX = 32,             //  ZeroMQ makes 5
    FRAME_BYTES_MAX = 4096,             //  a question, and what CURVE sends to agree on keys
    QUEUE_MAX = 1000,
    HEARTBEAT_MS = 2000, HEARTBEAT_LOST_MS = 10000,     //  so that a member that has gone keeps no answers
    KEY_BYTES = 32, ERROR_BYTES = 512
};

typedef struct {
    size_t size;
    uint8_t bytes [ROUTING_BYTES_MAX];
} routing_t;

typedef struct {
    routing_t from;
    peer_question_frame_t frame;
} question_t;

//  An answer: its question, and the memory of its bytes.
typedef struct {
    bool is_busy;
    question_t question;
    uint64_t place;                     //  of its bytes in the address space
    uint8_t *memory;                    //  PEER_BLOCK_BYTES, kept for the next
    uint32_t sums [PEER_BLOCK_BYTES / BLOCK_DATA_UNIT_BYTES];
    cluster_fetch_t fetch;
    peer_server_t *server;
} gift_t;

struct peer_server {
    uint32_t magic;
    cluster_t *cluster;
    pthread_t thread;
    bool is_running;
    int stop;                           //  an eventfd
    sem_t is_open;                      //  posted when `opened` and `error` are set
    int opened;                         //  0 or -errno
    char error [ERROR_BYTES];
    uint8_t key [KEY_BYTES];
    exchange_t *sent;                   //  gift_t, from ZeroMQ's thread
    //  the thread's
    void *context, *router, *questions_of_keys;
    gift_t gifts [GIVEN_MAX];
    question_t *waiting;                //  QUESTIONS_MAX, in order
    size_t waiting_count;
    //  written by the thread, under the lock
    pthread_mutex_t lock;
    peer_server_figures_t figures;
};


//  -- answers

static bool
s_is_same (const routing_t *one, const routing_t *other)
{
    return one->size == other->size && memcmp (one->bytes, other->bytes, one->size) == 0;
}

//  What cannot be sent is dropped: the member asks the store when nothing comes.
static bool
s_send_head (peer_server_t *self, const routing_t *to, const peer_answer_frame_t *answer, bool more)
{
    return zmq_send (self->router, to->bytes, to->size, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0
        && zmq_send (self->router, answer, sizeof *answer, (more? ZMQ_SNDMORE: 0) | ZMQ_DONTWAIT) >= 0;
}

static peer_answer_frame_t
s_answer (const question_t *question, peer_answer_kind_t kind, peer_reason_t reason)
{
    return (peer_answer_frame_t) { .magic = PEER_WIRE_MAGIC, .version = PEER_WIRE_VERSION,
        .kind = (uint16_t) kind, .number = question->frame.number, .reason = reason };
}

static void
s_refuse (peer_server_t *self, const question_t *question, peer_reason_t reason)
{
    peer_answer_frame_t answer = s_answer (question, PEER_NO, reason);
    s_send_head (self, &question->from, &answer, false);
    pthread_mutex_lock (&self->lock);
    self->figures.refused [reason]++;
    pthread_mutex_unlock (&self->lock);
}

//  Runs in ZeroMQ's thread when the bytes have left.
static void
s_on_sent (void *memory, void *context)
{
    gift_t *gift = context;
    instrument_take (memory);
    bool put = exchange_put (gift->server->sent, gift);
    assert (put);
}

//  The gift is free when ZeroMQ has sent it.
static void
s_give (peer_server_t *self, gift_t *gift)
{
    peer_answer_frame_t answer = s_answer (&gift->question, PEER_BYTES, PEER_REASON_NONE);
    size_t bytes = gift->question.frame.bytes;
    zmq_msg_t message;
    instrument_give (gift->memory);
    if (zmq_msg_init_data (&message, gift->memory, bytes, s_on_sent, gift) != 0) {
        gift->is_busy = false;
        return;
    }
    bool is_sent = s_send_head (self, &gift->question.from, &answer, true)
        && zmq_send (self->router, gift->sums, block_data_units (bytes) * sizeof *gift->sums,
            ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0
        && zmq_msg_send (&message, self->router, ZMQ_DONTWAIT) >= 0;
    if (!is_sent) {
        zmq_msg_close (&message);       //  calls s_on_sent
        return;
    }
    pthread_mutex_lock (&self->lock);
    self->figures.blocks++;
    self->figures.bytes += bytes;
    pthread_mutex_unlock (&self->lock);
}


//  -- questions

static const cluster_entry_t *
s_entry (const peer_server_t *self, const question_t *question)
{
    size_t place = cluster_find (self->cluster, question->frame.key);
    return place == SIZE_MAX? NULL: &self->cluster->data [place];
}

//  Where the range begins in the address space; false: it is not within one block of an object, from a unit
//  on to the end of a unit, or of the object.
static bool
s_place (const cluster_data_t *data, const peer_question_frame_t *frame, uint64_t *place_p)
{
    uint64_t begin, size;
    if (frame->object >= data->objects)
        return false;
    data->find (data->context, frame->object, &begin, &size);
    if (frame->bytes > size || frame->offset > size - frame->bytes)
        return false;
    uint64_t end = frame->offset + frame->bytes;
    *place_p = begin + frame->offset;
    return frame->offset % BLOCK_DATA_UNIT_BYTES == 0 && (end % BLOCK_DATA_UNIT_BYTES == 0 || end == size)
        && *place_p / PEER_BLOCK_BYTES == (*place_p + frame->bytes - 1) / PEER_BLOCK_BYTES;
}

//  From pins at its beginning and end, and for the rest from the cache on the local disk.  False: not all of
//  it is here.
static bool
s_take (const cluster_data_t *data, gift_t *gift)
{
    const peer_question_frame_t *frame = &gift->question.frame;
    size_t bytes = frame->bytes;
    pins_gap_t gap = { .begin = 0, .end = bytes };
    if (data->pins) {
        uint64_t begin, size;
        data->find (data->context, frame->object, &begin, &size);
        gap = pins_lend (&(pins_file_t) { .data = data->pins, .number = data->first_pinned + frame->object,
            .bytes = size }, frame->offset, bytes, gift->memory);
    }
    if (gap.begin < gap.end && !block_data_lend ((block_data_t *) data->blocks, gift->place + gap.begin,
        gap.end - gap.begin, gift->memory + gap.begin, gift->sums + gap.begin / BLOCK_DATA_UNIT_BYTES))
        return false;
    if (gap.begin > 0)
        block_data_sums (gift->place, gap.begin, gift->memory, gift->sums);
    if (gap.begin < gap.end && gap.end < bytes)
        block_data_sums (gift->place + gap.end, bytes - gap.end, gift->memory + gap.end,
            gift->sums + gap.end / BLOCK_DATA_UNIT_BYTES);
    return true;
}

//  From memory and the local disk, or by the reader.  A block that is not here, while there is no room, is
//  not read for others only to be thrown away.
static void
s_prepare (peer_server_t *self, gift_t *gift)
{
    const question_t *question = &gift->question;
    const cluster_entry_t *entry = s_entry (self, question);
    block_data_t *blocks = (block_data_t *) entry->shown.blocks;
    bool is_placed = s_place (&entry->shown, &question->frame, &gift->place);
    assert (is_placed);
    size_t bytes = question->frame.bytes;
    if (s_take (&entry->shown, gift)) {
        s_give (self, gift);
        return;
    }
    gift->fetch = (cluster_fetch_t) { .data = &entry->shown, .object = question->frame.object,
        .offset = question->frame.offset, .bytes = bytes, .memory = gift->memory, .user = gift };
    bool is_full = block_data_is_aside (blocks)
        || (block_data_is_full (blocks) && !atomic_load (&entry->has_foreign));
    if (!is_full && entry->fetches && exchange_put (entry->fetches, &gift->fetch))
        return;
    s_refuse (self, question, is_full? PEER_REASON_FULL: PEER_REASON_BUSY);
    gift->is_busy = false;
}

//  A gift that is free for this member; NULL: not now.
static gift_t *
s_free_gift (peer_server_t *self, const routing_t *from)
{
    gift_t *found = NULL;
    size_t of_member = 0, limit = self->waiting_count > 1? MEMBER_GIVEN_MAX: GIVEN_MAX;
    for (size_t at = 0; at < GIVEN_MAX; at++) {
        gift_t *gift = &self->gifts [at];
        if (!gift->is_busy)
            found = gift;
        else
            of_member += s_is_same (&gift->question.from, from);
    }
    if (!found || of_member >= limit)
        return NULL;
    if (!found->memory)
        found->memory = aligned_alloc (BLOCK_DATA_UNIT_BYTES, PEER_BLOCK_BYTES);
    return found->memory? found: NULL;
}

//  In order of arrival, but for members that have their part already.
static void
s_serve (peer_server_t *self)
{
    size_t kept = 0, count = self->waiting_count;
    for (size_t at = 0; at < count; at++) {
        question_t *question = &self->waiting [at];
        gift_t *gift = s_free_gift (self, &question->from);
        if (gift) {
            gift->is_busy = true;
            gift->question = *question;
            gift->server = self;
            s_prepare (self, gift);
        }
        else
            self->waiting [kept++] = *question;
    }
    self->waiting_count = kept;
    pthread_mutex_lock (&self->lock);
    self->figures.waiting = kept;
    pthread_mutex_unlock (&self->lock);
}

static void
s_renew (peer_server_t *self, const question_t *question)
{
    const cluster_entry_t *entry = s_entry (self, question);
    uint64_t place;
    if (entry && s_place (&entry->shown, &question->frame, &place))
        block_data_drop ((block_data_t *) entry->shown.blocks, place, question->frame.bytes);
}

static void
s_queue (peer_server_t *self, const question_t *question)
{
    const cluster_entry_t *entry = s_entry (self, question);
    uint64_t place;
    size_t of_member = 0;
    for (size_t at = 0; at < self->waiting_count; at++)
        of_member += s_is_same (&self->waiting [at].from, &question->from);
    if (!entry)
        s_refuse (self, question, PEER_REASON_UNKNOWN_DATA);
    else
    if (!s_place (&entry->shown, &question->frame, &place))
        s_refuse (self, question, PEER_REASON_INVALID);
    else
    if (self->waiting_count == QUESTIONS_MAX || of_member >= MEMBER_QUESTIONS_MAX)
        s_refuse (self, question, PEER_REASON_BUSY);
    else
        self->waiting [self->waiting_count++] = *question;
}

static void
s_on_question (peer_server_t *self, const question_t *question)
{
    peer_answer_frame_t pong = s_answer (question, PEER_PONG, PEER_REASON_NONE);
    switch (question->frame.kind) {
    case PEER_PING:
        s_send_head (self, &question->from, &pong, false);
        break;
    case PEER_RENEW:
        s_renew (self, question);
        break;
    default:
        s_queue (self, question);
    }
}

//  Copies what fits; *size_p may be more.  False: there is no frame.
static bool
s_receive_frame (void *socket, void *room, size_t bytes, size_t *size_p, bool *more_p)
{
    zmq_msg_t part;
    zmq_msg_init (&part);
    bool is_there = zmq_msg_recv (&part, socket, ZMQ_DONTWAIT) >= 0;
    if (is_there) {
        *size_p = zmq_msg_size (&part);
        *more_p = zmq_msg_more (&part);
        memcpy (room, zmq_msg_data (&part), *size_p < bytes? *size_p: bytes);
    }
    zmq_msg_close (&part);
    return is_there;
}

//  One message; false: there is none.
static bool
s_receive (peer_server_t *self)
{
    question_t question = { .from = { .size = 0 } };
    uint8_t frame [sizeof (peer_question_frame_t) + 1], spare [1];
    size_t size = 0, frames = 1, spare_size;
    bool more = false;
    if (!s_receive_frame (self->router, question.from.bytes, ROUTING_BYTES_MAX, &question.from.size, &more))
        return false;
    if (more && s_receive_frame (self->router, frame, sizeof frame, &size, &more))
        frames++;
    while (more && s_receive_frame (self->router, spare, sizeof spare, &spare_size, &more))
        frames++;
    if (frames == 2 && question.from.size <= ROUTING_BYTES_MAX
    &&  cluster_read_question (frame, size, &question.frame))
        s_on_question (self, &question);
    return true;
}


//  -- keys

//  One question of ZeroMQ's about a key (RFC 27): version, request id, domain, address, routing id,
//  mechanism, key.
static void
s_judge_key (peer_server_t *self)
{
    enum { FRAMES = 7, ROOM = 255, ID = 1, MECHANISM = 5, CREDENTIAL = 6 };
    uint8_t frames [FRAMES][ROOM];
    size_t sizes [FRAMES] = { 0 }, count = 0;
    bool more = true;
    while (more) {
        uint8_t spare [ROOM];
        size_t size = 0;
        if (!s_receive_frame (self->questions_of_keys, count < FRAMES? frames [count]: spare, ROOM, &size,
            &more))
            break;
        if (count < FRAMES)
            sizes [count] = size;
        count++;
    }
    if (count == 0)
        return;
    bool is_good = count == FRAMES && sizes [ID] <= ROOM && sizes [MECHANISM] == 5
        && memcmp (frames [MECHANISM], "CURVE", 5) == 0 && sizes [CREDENTIAL] == KEY_BYTES
        && memcmp (frames [CREDENTIAL], self->key, KEY_BYTES) == 0;
    size_t id = sizes [ID] <= ROOM? sizes [ID]: 0;
    const char *code = is_good? "200": "400";
    void *socket = self->questions_of_keys;
    zmq_send (socket, "1.0", 3, ZMQ_SNDMORE);
    zmq_send (socket, frames [ID], id, ZMQ_SNDMORE);
    zmq_send (socket, code, 3, ZMQ_SNDMORE);
    zmq_send (socket, "", 0, ZMQ_SNDMORE);
    zmq_send (socket, is_good? "member": "", is_good? 6: 0, ZMQ_SNDMORE);
    zmq_send (socket, "", 0, 0);
    if (!is_good) {
        pthread_mutex_lock (&self->lock);
        self->figures.rejected++;
        pthread_mutex_unlock (&self->lock);
    }
}


//  -- the thread

static void
s_take_back (peer_server_t *self)
{
    for (gift_t *gift; (gift = exchange_try (self->sent));)
        gift->is_busy = false;
    for (cluster_fetch_t *fetch; (fetch = exchange_try (self->cluster->fetched));) {
        gift_t *gift = fetch->user;
        if (fetch->reason == PEER_REASON_NONE) {
            pthread_mutex_lock (&self->lock);
            self->figures.fetched++;
            pthread_mutex_unlock (&self->lock);
            block_data_sums (gift->place, fetch->bytes, fetch->memory, gift->sums);
            s_give (self, gift);
        }
        else {
            s_refuse (self, &gift->question, fetch->reason);
            gift->is_busy = false;
        }
    }
}

static void
s_run_until_stopped (peer_server_t *self)
{
    enum { STOP, ROUTER, SENT, FETCHED, KEYS, ITEMS };
    zmq_pollitem_t items [ITEMS] = {
        [STOP] = { .fd = self->stop, .events = ZMQ_POLLIN },
        [ROUTER] = { .socket = self->router, .events = ZMQ_POLLIN },
        [SENT] = { .fd = exchange_descriptor (self->sent), .events = ZMQ_POLLIN },
        [FETCHED] = { .fd = exchange_descriptor (self->cluster->fetched), .events = ZMQ_POLLIN },
        [KEYS] = { .socket = self->questions_of_keys, .events = ZMQ_POLLIN }
    };
    int count = self->questions_of_keys? ITEMS: KEYS;
    while (zmq_poll (items, count, -1) >= 0 || errno == EINTR) {
        if (items [STOP].revents)
            return;
        if (self->questions_of_keys && items [KEYS].revents)
            s_judge_key (self);
        s_take_back (self);
        for (size_t taken = 0; taken < QUESTIONS_MAX && s_receive (self); taken++)
            ;
        s_serve (self);
    }
}


//  -- life

static int
s_set (void *socket, int option, int value)
{
    return zmq_setsockopt (socket, option, &value, sizeof value);
}

static int
s_set_options (peer_server_t *self)
{
    void *router = self->router;
    int64_t frame = FRAME_BYTES_MAX;
    return s_set (router, ZMQ_LINGER, 0) || s_set (router, ZMQ_SNDHWM, QUEUE_MAX)
        || s_set (router, ZMQ_RCVHWM, QUEUE_MAX) || s_set (router, ZMQ_IPV6, 1)
        || s_set (router, ZMQ_ROUTER_MANDATORY, 1) || s_set (router, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS)
        || s_set (router, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_LOST_MS)
        || zmq_setsockopt (router, ZMQ_MAXMSGSIZE, &frame, sizeof frame);
}

//  If no socket answers at this name, ZeroMQ admits every key (client_socket.c).
static int
s_guard (peer_server_t *self)
{
    const cluster_t *cluster = self->cluster;
    if (!*cluster->public_key)
        return 0;
    zmq_z85_decode (self->key, cluster->public_key);
    self->questions_of_keys = zmq_socket (self->context, ZMQ_REP);
    if (!self->questions_of_keys || s_set (self->questions_of_keys, ZMQ_LINGER, 0)
        || zmq_bind (self->questions_of_keys, "inproc://zeromq.zap.01"))
        return -1;
    return s_set (self->router, ZMQ_CURVE_SERVER, 1)
        || zmq_setsockopt (self->router, ZMQ_CURVE_SECRETKEY, cluster->secret_key, CLUSTER_KEY_CHARS + 1)
        || zmq_setsockopt (self->router, ZMQ_ZAP_DOMAIN, "tureen", strlen ("tureen"));
}

//  Without keys only this machine's own.
static int
s_bind (const peer_server_t *self)
{
    char address [64];
    const char *port = strrchr (self->cluster->name, ':');
    snprintf (address, sizeof address, "tcp://%s%s", *self->cluster->public_key? "*": "127.0.0.1", port);
    return zmq_bind (self->router, address);
}

static int
s_open (peer_server_t *self)
{
    self->context = zmq_ctx_new ();
    self->router = self->context? zmq_socket (self->context, ZMQ_ROUTER): NULL;
    int rc = !self->router || s_set_options (self) || s_guard (self)? -zmq_errno (): 0;
    if (rc) {
        snprintf (self->error, sizeof self->error, "no ZeroMQ socket for other members: %s",
            zmq_strerror (-rc));
        return rc;
    }
    rc = s_bind (self)? -zmq_errno (): 0;
    if (rc)
        snprintf (self->error, sizeof self->error, "cannot listen at the port of member '%s' (%s): give "
            "this server another port", self->cluster->name, zmq_strerror (-rc));
    return rc;
}

static void
s_close (peer_server_t *self)
{
    if (self->router)
        zmq_close (self->router);
    if (self->questions_of_keys)
        zmq_close (self->questions_of_keys);
    if (self->context)
        zmq_ctx_term (self->context);
}

//  ZeroMQ's thread begins with the first socket, and inherits that this one gives way.  What is on its way at
//  the end is given up: the members that asked read the store.
static void *
s_run (void *argument)
{
    peer_server_t *self = argument;
    id_t thread = (id_t) syscall (SYS_gettid);
    setpriority (PRIO_PROCESS, thread, getpriority (PRIO_PROCESS, thread) + NICER);
    int rc = self->opened = s_open (self);
    sem_post (&self->is_open);
    if (rc == 0)
        s_run_until_stopped (self);
    s_close (self);
    return NULL;
}

//  A thread with every signal blocked: signals are the broker thread's alone.
static int
s_start (peer_server_t *self)
{
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    int rc = pthread_create (&self->thread, NULL, s_run, self);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    if (rc)
        return -rc;
    pthread_setname_np (self->thread, "peer server");
    self->is_running = true;
    while (sem_wait (&self->is_open) != 0)
        ;                               //  a signal
    return self->opened;
}

//  Ends the thread; fetches that readers still have are theirs until they come back through the cluster.
static void
s_server_stop (peer_server_t *self)
{
    assert (self && self->magic == SERVER_MAGIC);
    if (!self->is_running)
        return;
    eventfd_write (self->stop, 1);
    pthread_join (self->thread, NULL);
    self->is_running = false;
}

//  After all readers have ended.
static void
s_server_destroy (peer_server_t **self_p)
{
    assert (self_p);
    peer_server_t *self = *self_p;
    if (!self)
        return;
    s_server_stop (self);
    while (self->sent && exchange_try (self->sent))
        ;
    for (size_t at = 0; at < GIVEN_MAX; at++)
        free (self->gifts [at].memory);
    if (self->stop >= 0)
        close (self->stop);
    exchange_destroy (&self->sent);
    pthread_mutex_destroy (&self->lock);
    sem_destroy (&self->is_open);
    explicit_bzero (self->key, sizeof self->key);
    free (self->waiting);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  Binds to the port of the cluster's name and starts the thread.  0; or -errno, *self_p NULL and in error
//  what is wrong and how to mend it.
static int
s_server_new (peer_server_t **self_p, cluster_t *cluster, char *error, size_t error_bytes)
{
    assert (self_p); assert (cluster && cluster->magic == CLUSTER_MAGIC);
    *self_p = NULL;
    peer_server_t *self = calloc (1, sizeof *self);
    int rc = self? 0: -ENOMEM;
    if (self) {
        *self = (peer_server_t) { .magic = SERVER_MAGIC, .cluster = cluster, .stop = eventfd (0, EFD_CLOEXEC),
            .sent = exchange_new (GIVEN_MAX, true),
            .waiting = calloc (QUESTIONS_MAX, sizeof *self->waiting) };
        pthread_mutex_init (&self->lock, NULL);
        sem_init (&self->is_open, 0, 0);
        rc = self->stop >= 0 && self->sent && self->waiting? 0: -ENOMEM;
    }
    rc = rc? rc: s_start (self);
    if (rc && self && *self->error)
        snprintf (error, error_bytes, "%s", self->error);
    else
    if (rc)
        snprintf (error, error_bytes, "the thread for other members cannot start: %s", strerror (-rc));
    if (rc)
        s_server_destroy (&self);
    *self_p = self;
    return rc;
}

//  Any thread.
static peer_server_figures_t
s_server_figures (peer_server_t *self)
{
    pthread_mutex_lock (&self->lock);
    peer_server_figures_t figures = self->figures;
    pthread_mutex_unlock (&self->lock);
    return figures;
}


//  ---- the cluster

cluster_t *
cluster_new (const cluster_options_t *options)
{
    assert (options && options->members && options->name);
    assert (!options->public_key == !options->secret_key);
    cluster_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = (cluster_t) { .magic = CLUSTER_MAGIC, .members = options->members,
        .fetched = exchange_new (CLUSTER_FETCHES_MAX, true) };
    snprintf (self->name, sizeof self->name, "%s", options->name);
    if (options->public_key) {
        snprintf (self->public_key, sizeof self->public_key, "%s", options->public_key);
        snprintf (self->secret_key, sizeof self->secret_key, "%s", options->secret_key);
    }
    if (!self->fetched)
        cluster_destroy (&self);
    return self;
}

void
cluster_destroy (cluster_t **self_p)
{
    assert (self_p);
    cluster_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == CLUSTER_MAGIC);
    cluster_stop (self);
    while (self->fetched && exchange_try (self->fetched))
        ;                               //  the peer server's, which frees them all
    s_server_destroy (&self->server);
    exchange_destroy (&self->fetched);
    explicit_bzero (self->secret_key, sizeof self->secret_key);
    free (self->data);
    free (self->readers);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

bool
cluster_add (cluster_t *self, const cluster_data_t *data)
{
    assert (self && self->magic == CLUSTER_MAGIC); assert (data && data->blocks && data->find);
    assert (!self->server && self->reader_count == 0);
    //  Two names of the same data are one here.
    if (cluster_find (self, block_data_key (data->blocks)->words) != SIZE_MAX)
        return true;
    cluster_entry_t *all = realloc (self->data, (self->data_count + 1) * sizeof *all);
    if (!all)
        return false;
    self->data = all;
    all [self->data_count] = (cluster_entry_t) { .shown = *data };
    atomic_init (&all [self->data_count++].has_foreign, true);
    return true;
}

int
cluster_start (cluster_t *self, char *error, size_t error_bytes)
{
    assert (self && self->magic == CLUSTER_MAGIC); assert (!self->server);
    return s_server_new (&self->server, self, error, error_bytes);
}

void
cluster_stop (cluster_t *self)
{
    assert (self && self->magic == CLUSTER_MAGIC);
    if (self->server)
        s_server_stop (self->server);
}


//  -- for readers

bool
cluster_join (cluster_t *self, const char *store, const cluster_reader_t *reader)
{
    assert (self && self->magic == CLUSTER_MAGIC); assert (store); assert (reader && reader->look);
    assert (!self->server);
    cluster_reader_t *readers = realloc (self->readers, (self->reader_count + 1) * sizeof *readers);
    if (!readers)
        return false;
    self->readers = readers;
    readers [self->reader_count++] = *reader;
    for (size_t at = 0; at < self->data_count; at++)
        if (strcmp (self->data [at].shown.store, store) == 0)
            self->data [at].fetches = reader->fetches;
    return true;
}

void
cluster_fetched (cluster_t *self, cluster_fetch_t *fetch)
{
    bool put = exchange_put (self->fetched, fetch);
    assert (put);                       //  it has room for all that there can be
}

members_t *
cluster_members (const cluster_t *self)
{
    return self->members;
}

const char *
cluster_public_key (const cluster_t *self)
{
    return self->public_key;
}

const char *
cluster_secret_key (const cluster_t *self)
{
    return self->secret_key;
}

size_t
cluster_data_count (const cluster_t *self)
{
    assert (self && self->magic == CLUSTER_MAGIC);
    return self->data_count;
}

const cluster_data_t *
cluster_data (const cluster_t *self, size_t place)
{
    return &self->data [place].shown;
}

size_t
cluster_find (const cluster_t *self, const uint64_t key [2])
{
    for (size_t at = 0; at < self->data_count; at++) {
        const uint64_t *words = block_data_key (self->data [at].shown.blocks)->words;
        if (words [0] == key [0] && words [1] == key [1])
            return at;
    }
    return SIZE_MAX;
}

bool
cluster_has_foreign (const cluster_t *self, size_t place)
{
    return atomic_load (&self->data [place].has_foreign);
}

void
cluster_set_foreign (cluster_t *self, size_t place, bool has_foreign)
{
    atomic_store (&self->data [place].has_foreign, has_foreign);
}


//  -- status

static json_t *
s_refusals (const uint64_t refused [PEER_REASONS])
{
    static const char *const words [PEER_REASONS] = {
        [PEER_REASON_NONE] = "none", [PEER_REASON_BUSY] = "busy", [PEER_REASON_FULL] = "full",
        [PEER_REASON_NOT_HOME] = "not_home", [PEER_REASON_UNKNOWN_DATA] = "unknown_data",
        [PEER_REASON_FAILED] = "failed", [PEER_REASON_INVALID] = "invalid"
    };
    json_t *all = json_object ();
    for (peer_reason_t reason = PEER_REASON_NONE + 1; reason < PEER_REASONS; reason++)
        json_object_set_new (all, words [reason], json_integer ((json_int_t) refused [reason]));
    return all;
}

static void
s_add_figures (peer_figures_t *sum, const peer_figures_t *more)
{
    sum->blocks += more->blocks;
    sum->bytes += more->bytes;
    sum->nanoseconds += more->nanoseconds;
    for (size_t reason = 0; reason < PEER_REASONS; reason++)
        sum->refused [reason] += more->refused [reason];
    sum->late += more->late;
    sum->damaged += more->damaged;
    sum->slower += more->slower;
}

//  A member as all readers of this server know it; it is away if one of them finds it so.
static json_t *
s_member (const cluster_t *self, const member_t *member, double share, bool is_own, int64_t now_ms)
{
    peer_figures_t sum = { .blocks = 0 };
    peer_state_t state = PEER_UNKNOWN;
    for (size_t at = 0; at < self->reader_count; at++) {
        peer_figures_t figures;
        peer_state_t seen;
        const cluster_reader_t *reader = &self->readers [at];
        if (!reader->look (reader->context, member->name, &seen, &figures))
            continue;
        s_add_figures (&sum, &figures);
        state = seen > state? seen: state;
    }
    const char *shown = is_own? "this": state == PEER_HERE? "here": state == PEER_AWAY? "away": "unknown";
    return json_pack ("{s:s, s:s, s:b, s:I, s:f, s:f, s:I, s:I, s:f, s:I, s:I, s:I, s:o}", "member",
        member->name, "state", shown, "is_away", state == PEER_AWAY, "cache_bytes",
        (json_int_t) member->bytes, "homes", share, "age_seconds", (double) (now_ms - member->since_ms) / 1e3,
        "blocks", (json_int_t) sum.blocks, "bytes",
        (json_int_t) sum.bytes, "seconds", (double) sum.nanoseconds / 1e9, "late", (json_int_t) sum.late,
        "damaged", (json_int_t) sum.damaged, "store_quicker", (json_int_t) sum.slower, "refused",
        s_refusals (sum.refused));
}

json_t *
cluster_status (cluster_t *self)
{
    assert (self && self->magic == CLUSTER_MAGIC);
    members_look_t look;
    members_look (self->members, &look);
    const member_list_t *list = members_take (self->members);
    double weights = 0;
    for (size_t at = 0; at < list->count; at++)
        weights += (double) list->member [at].bytes;
    json_t *members = json_array ();
    int64_t now_ms = clock_now_ms ();
    for (size_t at = 0; at < list->count; at++) {
        const member_t *member = &list->member [at];
        json_array_append_new (members, s_member (self, member, weights > 0?
            (double) member->bytes / weights: 0, at == list->own, now_ms));
    }
    members_give_back (self->members, list);
    peer_server_figures_t given = { .blocks = 0 };
    if (self->server)
        given = s_server_figures (self->server);
    return json_pack ("{s:s, s:s, s:s, s:b, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:o}}", "member", self->name,
        "members_from", look.source, "trouble", look.trouble, "registered", look.is_registered,
        "members", members, "given", "blocks",
        (json_int_t) given.blocks, "bytes", (json_int_t) given.bytes, "fetched", (json_int_t) given.fetched,
        "rejected", (json_int_t) given.rejected, "waiting", (json_int_t) given.waiting, "refused",
        s_refusals (given.refused));
}
