/*  fuzz_peer_server -- any messages of strangers and of lying members to the server that gives blocks, in any
 *  order, while its reader fetches and ZeroMQ sends as slowly as they like.
 *
 *  The server in cluster.c as it is, over ZeroMQ's sockets that are made up: its thread takes one step of
 *  the input in each zmq_poll.  The first byte says whether there are keys, whether the cache is full, and
 *  whether all is answered before the end.  A step begins with a byte: its low three bits say what happens,
 *  the next two which member does it.
 *
 *  Whatever is asked: a question gets one answer at most, exactly one where all is answered before the end,
 *  and it goes to the member that asked.  Bytes that are given are those of the range, with their checksums,
 *  and do not change while ZeroMQ has them.  Only the right key is admitted.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include <zmq.h>
#include "block_cache.h"
#include "block_data.h"
#include "cluster.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES, FRAMES = 8, FRAME_BYTES = 300, MESSAGES = 300, QUESTIONS = 2048,
    MEMBERS = 4, ROUTING_BYTES = 5, ROUTING_BYTES_MAX = 32, WAITING_MAX = 1024, KEY_BYTES = 32,
    KEY_FRAMES = 7, KEY_ID = 1, KEY_MECHANISM = 5, KEY_CREDENTIAL = 6, OBJECTS = 3,
    HELD_UNITS = 8
};

typedef struct {
    size_t size;
    uint8_t bytes [FRAME_BYTES];
} frame_t;

typedef struct {
    size_t count;
    frame_t frames [FRAMES];
} message_t;

//  A socket: what has arrived and was not received.
typedef struct {
    message_t messages [MESSAGES];
    size_t first, count, frame;
    size_t sent;                        //  frames of the message that is being sent
    bool more;                          //  behind the part that was received last
} link_t;

//  A question that the server has to answer.
typedef struct {
    frame_t from;
    peer_question_frame_t frame;
    bool is_out;
} asked_t;

static struct {
    const uint8_t *at;
    size_t left;
    link_t router, keys;
    asked_t asked [QUESTIONS];          //  by number
    size_t asked_count, out;
    asked_t *answered;                  //  the question of the answer that is being sent
    frame_t to;                         //  and where it goes
    zmq_msg_t sending [CLUSTER_FETCHES_MAX];
    uint64_t places [CLUSTER_FETCHES_MAX];
    size_t sending_count;
    cluster_fetch_t *fetches [CLUSTER_FETCHES_MAX];
    size_t fetch_count;
    bool is_gone [MEMBERS], no_memory, answers_all, is_key_right;
    cluster_t *cluster;
    exchange_t *fetching;               //  to the reader; NULL: there is none
} s_world;

static const uint64_t s_begins [OBJECTS] = { 0, 3 * UNIT, PEER_BLOCK_BYTES + 4 * UNIT },
    s_sizes [OBJECTS] = { 3 * UNIT - 100, PEER_BLOCK_BYTES + 5, 9 * UNIT + 1 };
static const uint64_t s_whole = PEER_BLOCK_BYTES + 14 * UNIT;
static scratch_folder_t s_scratch;
static block_cache_t *s_cache;
static block_data_t *s_data;
static uint8_t s_key [KEY_BYTES];
static char s_public [CLUSTER_KEY_CHARS + 1];

static void
s_require (bool condition)
{
    if (!condition)
        abort ();
}

static uint8_t
s_byte (void)
{
    if (s_world.left == 0)
        return 0;
    s_world.left--;
    return *s_world.at++;
}


//  -- the data

static uint8_t
s_right (uint64_t place)
{
    return (uint8_t) (place / UNIT * 7 + 1);
}

static void
s_fill (uint8_t *memory, uint64_t place, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += UNIT)
        memset (memory + at, s_right (place + at), bytes - at < UNIT? bytes - at: UNIT);
}

static bool
s_is_right (const uint8_t *memory, uint64_t place, size_t bytes)
{
    bool is_right = true;
    for (size_t at = 0; at < bytes; at++)
        is_right &= memory [at] == s_right (place + at);
    return is_right;
}

static void
s_find (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes)
{
    (void) context;
    s_require (object < OBJECTS);
    *begin = s_begins [object];
    *bytes = s_sizes [object];
}

//  The first units of each object are here; what a lying member had dropped is here again.
static void
s_hold (void)
{
    static uint8_t memory [HELD_UNITS * UNIT];
    for (size_t object = 0; object < OBJECTS; object++) {
        size_t bytes = s_sizes [object] < sizeof memory? s_sizes [object]: sizeof memory;
        s_fill (memory, s_begins [object], bytes);
        block_data_store (s_data, s_begins [object], bytes, memory, false);
    }
}


//  -- what arrives

static message_t *
s_arrive (link_t *link)
{
    message_t *message = &link->messages [(link->first + link->count++) % MESSAGES];
    message->count = 0;
    return message;
}

static void
s_put (message_t *message, const void *bytes, size_t size)
{
    frame_t *frame = &message->frames [message->count++];
    frame->size = size;
    if (size > 0)
        memcpy (frame->bytes, bytes, size);
}

static void
s_put_routing (message_t *message, uint8_t member)
{
    uint8_t routing [ROUTING_BYTES] = { [ROUTING_BYTES - 1] = member };
    s_put (message, routing, sizeof routing);
}

//  What the server has to answer gets a number that none had before.
static void
s_expect (message_t *message)
{
    peer_question_frame_t question;
    frame_t *frame = &message->frames [1];
    if (message->count != 2 || message->frames [0].size > ROUTING_BYTES_MAX
    ||  !cluster_read_question (frame->bytes, frame->size, &question) || question.kind == PEER_RENEW)
        return;
    question.number = s_world.asked_count;
    memcpy (frame->bytes, &question, sizeof question);
    s_world.asked [s_world.asked_count++] = (asked_t) { .from = message->frames [0], .frame = question,
        .is_out = true };
    s_world.out++;
}

static bool
s_has_room (const link_t *link)
{
    return link->count < MESSAGES && s_world.asked_count < QUESTIONS;
}

//  Of some units of an object, at its begin, its end or in between; or nearly so.
static peer_question_frame_t
s_question (void)
{
    const uint64_t *words = block_data_key (s_data)->words;
    uint8_t how = s_byte (), from = s_byte (), length = s_byte ();
    peer_question_frame_t frame = { .magic = PEER_WIRE_MAGIC, .version = PEER_WIRE_VERSION,
        .kind = how >> 6 == 0? PEER_RENEW: how >> 6 == 1? PEER_PING: PEER_GET,
        .key = { words [0], words [1] }, .object = how & 3, .offset = (uint64_t) from % 16 * UNIT,
        .bytes = (uint64_t) (length % 16 + 1) * UNIT };
    if (how & 4)
        frame.offset += PEER_BLOCK_BYTES - 8 * UNIT;
    if (how & 8 && frame.object < OBJECTS && frame.offset < s_sizes [frame.object])
        frame.bytes = s_sizes [frame.object] - frame.offset;
    if (how & 16 && from >= 240)
        frame.key [from & 1]++;
    if (how & 32 && length >= 192)
        frame.bytes = length >= 240? PEER_BLOCK_BYTES: frame.bytes + length;
    return frame;
}

static void
s_ask (uint8_t member, size_t times)
{
    peer_question_frame_t frame = s_question ();
    while (times-- > 0 && s_has_room (&s_world.router)) {
        message_t *message = s_arrive (&s_world.router);
        s_put_routing (message, member);
        s_put (message, &frame, sizeof frame);
        s_expect (message);
    }
}

static void
s_put_raw (message_t *message)
{
    size_t length = s_byte ();
    length = length == UINT8_MAX? FRAME_BYTES: length;
    length = length < s_world.left? length: s_world.left;
    s_put (message, s_world.at, length);
    s_world.at += length;
    s_world.left -= length;
}

static void
s_ask_raw (uint8_t member)
{
    if (!s_has_room (&s_world.router))
        return;
    message_t *message = s_arrive (&s_world.router);
    uint8_t how = s_byte ();
    if (how & 16)
        s_put_raw (message);
    else
        s_put_routing (message, member);
    for (size_t frames = how % (FRAMES - 1); frames > 0; frames--)
        s_put_raw (message);
    s_expect (message);
}

//  As ZeroMQ asks, but for what the input changes.
static void
s_ask_key (void)
{
    static const char *const texts [KEY_CREDENTIAL] = { "1.0", "\1\2", "tureen", "10.0.0.1", "", "CURVE" };
    uint8_t how = s_byte (), key [KEY_BYTES];
    if (!s_has_room (&s_world.keys) || !*cluster_public_key (s_world.cluster))
        return;
    message_t *message = s_arrive (&s_world.keys);
    memcpy (key, s_key, sizeof key);
    key [how & 31] ^= how >> 7;
    size_t count = how & 32? 1 + s_byte () % FRAMES: KEY_FRAMES;
    for (size_t at = 0; at < count; at++)
        if (how & 64 && s_byte () & 1)
            s_put_raw (message);
        else
        if (at < KEY_CREDENTIAL)
            s_put (message, texts [at], strlen (texts [at]));
        else
            s_put (message, key, sizeof key);
}


//  -- what the server's reader and ZeroMQ do

static void
s_take_fetches (void)
{
    for (cluster_fetch_t *fetch; s_world.fetching && (fetch = exchange_try (s_world.fetching));) {
        s_require (s_world.fetch_count < CLUSTER_FETCHES_MAX);
        s_require (fetch->object < OBJECTS && fetch->bytes > 0 && fetch->bytes <= PEER_BLOCK_BYTES);
        s_require (fetch->offset + fetch->bytes <= s_sizes [fetch->object]);
        s_world.fetches [s_world.fetch_count++] = fetch;
    }
}

static void
s_fetched (uint8_t which, uint8_t reason)
{
    s_take_fetches ();
    if (s_world.fetch_count == 0)
        return;
    cluster_fetch_t **fetch_p = &s_world.fetches [which % s_world.fetch_count], *fetch = *fetch_p;
    *fetch_p = s_world.fetches [--s_world.fetch_count];
    fetch->reason = reason & 1? reason % PEER_REASONS: PEER_REASON_NONE;
    s_fill (fetch->memory, s_begins [fetch->object] + fetch->offset, fetch->bytes);
    cluster_fetched (s_world.cluster, fetch);
}

static void
s_sent (uint8_t which)
{
    if (s_world.sending_count == 0)
        return;
    size_t at = which % s_world.sending_count;
    zmq_msg_t *message = &s_world.sending [at];
    s_require (s_is_right (zmq_msg_data (message), s_world.places [at], zmq_msg_size (message)));
    s_require (zmq_msg_close (message) == 0);
    if (at != --s_world.sending_count) {
        zmq_msg_init (message);
        zmq_msg_move (message, &s_world.sending [s_world.sending_count]);
        zmq_msg_close (&s_world.sending [s_world.sending_count]);
        s_world.places [at] = s_world.places [s_world.sending_count];
    }
}


//  -- ZeroMQ's sockets

static void
s_step (void)
{
    uint8_t what = s_byte (), member = what >> 3 & (MEMBERS - 1);
    switch (what & 7) {
    case 0: s_ask (member, s_byte ()); break;
    case 1: s_ask_raw (member); break;
    case 2: s_ask_key (); break;
    case 3: s_fetched (s_byte (), s_byte ()); break;
    case 4: s_sent (s_byte ()); break;
    case 5: s_world.is_gone [member] = s_byte () & 1; break;
    case 6: s_world.no_memory = s_byte () & 1; break;
    default: s_ask (member, 1);
    }
}

//  False: nothing is left to be done.
static bool
s_finish (const zmq_pollitem_t *sent)
{
    s_take_fetches ();
    struct pollfd given_back = { .fd = sent->fd, .events = POLLIN };
    bool is_busy = poll (&given_back, 1, 0) > 0 || s_world.fetch_count > 0 || s_world.sending_count > 0
        || s_world.router.count > 0 || s_world.keys.count > 0;
    while (s_world.fetch_count > 0)
        s_fetched (0, 0);
    while (s_world.sending_count > 0)
        s_sent (0);
    return is_busy;
}

int __wrap_zmq_poll (zmq_pollitem_t *items, int count, long timeout);
int
__wrap_zmq_poll (zmq_pollitem_t *items, int count, long timeout)
{
    enum { STOP, SENT = 2, KEYS = 4 };
    (void) timeout;
    for (int at = 0; at < count; at++)
        items [at].revents = 0;
    if (s_world.left > 0)
        s_step ();
    else
    if (!s_world.answers_all || !s_finish (&items [SENT]))
        items [STOP].revents = ZMQ_POLLIN;
    if (count > KEYS && s_world.keys.count > 0)
        items [KEYS].revents = ZMQ_POLLIN;
    return 1;
}

static size_t
s_member (const frame_t *from)
{
    return from->size == ROUTING_BYTES? from->bytes [ROUTING_BYTES - 1] % MEMBERS: 0;
}

//  An answer's parts: where it goes, its head, and with bytes their checksums.
static int
s_send_answer (const void *bytes, size_t size, bool more)
{
    peer_answer_frame_t answer;
    switch (s_world.router.sent++) {
    case 0:
        s_require (more && size <= ROUTING_BYTES_MAX);
        s_world.to.size = size;
        memcpy (s_world.to.bytes, bytes, size);
        break;
    case 1:
        s_require (cluster_read_answer (bytes, size, &answer) && answer.number < s_world.asked_count);
        s_world.answered = &s_world.asked [answer.number];
        s_require (s_world.answered->is_out);
        s_world.answered->is_out = false;
        s_world.out--;
        const frame_t *from = &s_world.answered->from;
        s_require (from->size == s_world.to.size && memcmp (from->bytes, s_world.to.bytes, from->size) == 0);
        s_require ((answer.kind == PEER_PONG) == (s_world.answered->frame.kind == PEER_PING));
        s_require ((answer.kind == PEER_NO) == (answer.reason != PEER_REASON_NONE));
        s_require (more == (answer.kind == PEER_BYTES));
        break;
    default:
        s_require (more && s_world.router.sent == 3);
        static uint32_t sums [PEER_BLOCK_BYTES / UNIT];
        static uint8_t memory [PEER_BLOCK_BYTES];
        const peer_question_frame_t *asked = &s_world.answered->frame;
        uint64_t place = s_begins [asked->object] + asked->offset;
        s_fill (memory, place, asked->bytes);
        block_data_sums (place, asked->bytes, memory, sums);
        s_require (size == block_data_units (asked->bytes) * sizeof *sums);
        s_require (memcmp (bytes, sums, size) == 0);
    }
    if (!more)
        s_world.router.sent = 0;
    return (int) size;
}

//  The answer to a question about a key has six parts, the third of which is the verdict.
static int
s_send_verdict (const void *bytes, size_t size, bool more)
{
    size_t part = s_world.keys.sent++;
    if (part == 2)
        s_require (size == 3 && memcmp (bytes, s_world.is_key_right? "200": "400", size) == 0);
    s_require (more == (part < 5));
    if (!more)
        s_world.keys.sent = 0;
    return (int) size;
}

int __wrap_zmq_send (void *socket, const void *bytes, size_t size, int flags);
int
__wrap_zmq_send (void *socket, const void *bytes, size_t size, int flags)
{
    bool more = flags & ZMQ_SNDMORE;
    if (socket == &s_world.keys)
        return s_send_verdict (bytes, size, more);
    s_require (flags & ZMQ_DONTWAIT);
    frame_t to = { .size = size };
    if (s_world.router.sent == 0) {
        s_require (size <= sizeof to.bytes);
        memcpy (to.bytes, bytes, size);
        if (s_world.is_gone [s_member (&to)]) {
            s_world.out--;              //  of one of its questions
            errno = EHOSTUNREACH;
            return -1;
        }
    }
    return s_send_answer (bytes, size, more);
}

int __wrap_zmq_msg_send (zmq_msg_t *message, void *socket, int flags);
int
__wrap_zmq_msg_send (zmq_msg_t *message, void *socket, int flags)
{
    (void) flags;
    const peer_question_frame_t *asked = &s_world.answered->frame;
    uint64_t place = s_begins [asked->object] + asked->offset;
    size_t bytes = zmq_msg_size (message);
    s_require (socket == &s_world.router && s_world.router.sent == 3 && bytes == asked->bytes);
    s_require (s_is_right (zmq_msg_data (message), place, bytes));
    s_require (s_world.sending_count < CLUSTER_FETCHES_MAX);
    s_world.router.sent = 0;
    if (s_world.no_memory) {
        errno = ENOMEM;
        return -1;
    }
    s_world.places [s_world.sending_count] = place;
    zmq_msg_init (&s_world.sending [s_world.sending_count]);
    zmq_msg_move (&s_world.sending [s_world.sending_count++], message);
    return (int) bytes;
}

//  Whether the server is to admit the one that ZeroMQ asks about.
static bool
s_is_key_right (const message_t *message)
{
    const frame_t *frames = message->frames;
    return message->count == KEY_FRAMES && frames [KEY_MECHANISM].size == 5
        && memcmp (frames [KEY_MECHANISM].bytes, "CURVE", 5) == 0 && frames [KEY_CREDENTIAL].size == KEY_BYTES
        && memcmp (frames [KEY_CREDENTIAL].bytes, s_key, KEY_BYTES) == 0;
}

static link_t *s_received;              //  the socket of the last part

int __wrap_zmq_msg_recv (zmq_msg_t *message, void *socket, int flags);
int
__wrap_zmq_msg_recv (zmq_msg_t *message, void *socket, int flags)
{
    link_t *link = s_received = socket;
    s_require (flags & ZMQ_DONTWAIT);
    if (link->count == 0) {
        errno = EAGAIN;
        return -1;
    }
    const message_t *first = &link->messages [link->first];
    const frame_t *frame = &first->frames [link->frame];
    s_require (zmq_msg_init_size (message, frame->size) == 0);
    memcpy (zmq_msg_data (message), frame->bytes, frame->size);
    if (link == &s_world.keys && link->frame == 0)
        s_world.is_key_right = s_is_key_right (first);
    link->more = ++link->frame < first->count;
    if (!link->more) {
        link->first = (link->first + 1) % MESSAGES;
        link->count--;
        link->frame = 0;
    }
    return (int) frame->size;
}

int __wrap_zmq_msg_more (const zmq_msg_t *message);
int
__wrap_zmq_msg_more (const zmq_msg_t *message)
{
    (void) message;
    return s_received->more;
}

void *__wrap_zmq_socket (void *context, int type);
void *
__wrap_zmq_socket (void *context, int type)
{
    (void) context;
    return type == ZMQ_ROUTER? &s_world.router: &s_world.keys;
}

int __wrap_zmq_setsockopt (void *socket, int option, const void *value, size_t bytes);
int
__wrap_zmq_setsockopt (void *socket, int option, const void *value, size_t bytes)
{
    (void) socket; (void) option; (void) value; (void) bytes;
    return 0;
}

int __wrap_zmq_bind (void *socket, const char *address);
int
__wrap_zmq_bind (void *socket, const char *address)
{
    (void) socket; (void) address;
    return 0;
}

//  What was not sent is given back.
int __wrap_zmq_close (void *socket);
int
__wrap_zmq_close (void *socket)
{
    while (socket == &s_world.router && s_world.sending_count > 0)
        s_sent (0);
    return 0;
}


//  -- life

static void
s_end (void)
{
    block_data_close (&s_data);
    block_cache_close (&s_cache);
    scratch_end (&s_scratch);
}

static void
s_begin (void)
{
    char folder [sizeof s_scratch.path + 8], error [600];
    block_data_key_t key = { { 0, 0 } };
    memset (s_key, 7, sizeof s_key);
    s_require (zmq_z85_encode (s_public, s_key, sizeof s_key) != NULL);
    s_require (scratch_begin (&s_scratch));
    snprintf (folder, sizeof folder, "%s/cache", s_scratch.path);
    s_require (block_cache_open (&s_cache, folder, 1 << 30, error, sizeof error) == 0);
    block_data_key_add (&key, "https://host/a", "\"1\"", s_whole);
    s_require (block_data_open (&s_data, s_cache, &key, s_whole) == 0);
    atexit (s_end);
}

//  The reader has asked no member.
static bool
s_look (void *context, const char *name, peer_state_t *state, peer_figures_t *figures)
{
    (void) context; (void) name; (void) state; (void) figures;
    return false;
}

static cluster_t *
s_cluster (members_t *members, uint8_t how)
{
    const char *key = how & 1? s_public: NULL;
    cluster_t *cluster = cluster_new (&(cluster_options_t) { .members = members, .name = "node:1000",
        .public_key = key, .secret_key = key });
    s_require (cluster && cluster_add (cluster, &(cluster_data_t) { .blocks = s_data, .store = "store",
        .objects = OBJECTS, .find = s_find }));
    s_world.fetching = how & 8? NULL: exchange_new (CLUSTER_FETCHES_MAX, true);
    s_require (!s_world.fetching || cluster_join (cluster, "store", &(cluster_reader_t) {
        .fetches = s_world.fetching, .look = s_look }));
    cluster_set_foreign (cluster, 0, !(how & 4));
    return cluster;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    char error [300];
    if (!s_data)
        s_begin ();
    memset (&s_world, 0, sizeof s_world);
    s_world.at = data;
    s_world.left = size;
    uint8_t how = s_byte ();
    s_world.answers_all = how & 2;
    block_cache_set_full (s_cache, false);
    s_hold ();
    block_cache_set_full (s_cache, how & 4);
    members_t *members;
    s_require (members_open (&members, "node:1000", "node:1000", 1 << 30, error, sizeof error) == 0);
    cluster_t *cluster = s_world.cluster = s_cluster (members, how);
    s_require (cluster_start (cluster, error, sizeof error) == 0);
    cluster_stop (cluster);             //  when the input has ended
    json_t *status = cluster_status (cluster);
    s_require (json_integer_value (json_object_get (json_object_get (status, "given"), "waiting"))
        <= WAITING_MAX);
    json_decref (status);
    s_require (!s_world.answers_all || s_world.out == 0);
    while (s_world.fetching && exchange_try (s_world.fetching))
        ;
    cluster_destroy (&cluster);
    exchange_destroy (&s_world.fetching);
    members_close (&members);
    return 0;
}
