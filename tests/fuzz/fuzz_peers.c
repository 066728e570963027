/*  fuzz_peers -- any answers of two other members, in any order and at any time, to questions for blocks.
 *
 *  peers.c as it is, over a clock and a network that are made up.  The input is a sequence of steps of two to
 *  four bytes: what happens, and to which member or question.
 *
 *  Whatever is answered: a question that is said to be answered has the right bytes, each comes back exactly
 *  once, and none is waited for longer than ten seconds and a look.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "block_cache.h"
#include "block_data.h"
#include "cluster.h"
#include "members.h"
#include "peers.h"
#include "peers_wrapped.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

enum {
    MEMBERS = 3, QUESTIONS = 16, FRAMES = 5, FRAME_BYTES = 2 * BLOCK_DATA_UNIT_BYTES, MESSAGES = 8,
    BLOCKS = 64, MS = 1000000, LONGEST_MS = 10000 + 500
};

typedef struct {
    size_t count, sizes [FRAMES];
    uint8_t bytes [FRAMES][FRAME_BYTES];
} message_t;

//  What has arrived from a member, and the numbers of what it was asked.
typedef struct {
    message_t messages [MESSAGES];
    size_t count, frame;
    uint64_t asked [256], offsets [256];
    uint8_t asked_count;
} link_t;

static struct {
    link_t links [MEMBERS];
} s_world;

static struct {
    peer_question_t question;
    int64_t asked_ns;
    bool is_out;
    uint8_t memory [BLOCK_DATA_UNIT_BYTES];
} s_slots [QUESTIONS];

static scratch_folder_t s_scratch;
static block_cache_t *s_cache;
static block_data_t *s_data;

static void
s_require (bool condition)
{
    if (!condition)
        abort ();
}


//  -- what the system and ZeroMQ are here

static void
wrapped_on_connect (size_t member)
{
    s_world.links [member].count = s_world.links [member].frame = 0;
}

static void
wrapped_on_close (size_t member)
{
    (void) member;
}

static bool
wrapped_has_arrived (size_t member)
{
    return s_world.links [member].count > 0;
}

int __wrap_zmq_send (void *socket, const void *bytes, size_t size, int flags);
int
__wrap_zmq_send (void *socket, const void *bytes, size_t size, int flags)
{
    link_t *link = &s_world.links [wrapped_member (socket)];
    peer_question_frame_t question;
    (void) flags;
    s_require (cluster_read_question (bytes, size, &question));
    link->asked [link->asked_count] = question.number;
    link->offsets [link->asked_count++] = question.offset;
    return (int) size;
}

int __wrap_zmq_msg_recv (zmq_msg_t *message, void *socket, int flags);
int
__wrap_zmq_msg_recv (zmq_msg_t *message, void *socket, int flags)
{
    link_t *link = &s_world.links [wrapped_member (socket)];
    (void) flags;
    if (link->count == 0)
        return -1;
    const message_t *first = &link->messages [0];
    size_t size = first->sizes [link->frame];
    s_require (zmq_msg_init_size (message, size) == 0);
    memcpy (zmq_msg_data (message), first->bytes [link->frame], size);
    wrapped.more = ++link->frame < first->count;
    if (!wrapped.more) {
        memmove (link->messages, link->messages + 1, --link->count * sizeof *first);
        link->frame = 0;
    }
    return (int) size;
}


//  -- what happens

typedef struct {
    const uint8_t *at;
    size_t left;
} input_t;

static uint8_t
s_byte (input_t *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

//  The byte that every place of the address space has.
static uint8_t
s_right (uint64_t offset)
{
    return (uint8_t) (offset / PEER_BLOCK_BYTES * 7 + 1);
}

static void
s_put (message_t *message, const void *bytes, size_t size)
{
    message->sizes [message->count] = size;
    memcpy (message->bytes [message->count++], bytes, size);
}

//  An answer to one of the last questions, right but for what the input changes: its number, its kind and
//  reason, its sums, its bytes, or their length.
static void
s_answer (input_t *input, size_t member, uint8_t change)
{
    link_t *link = &s_world.links [member];
    if (link->count == MESSAGES)
        return;
    message_t *message = &link->messages [link->count++];
    message->count = 0;
    uint8_t which = (uint8_t) (link->asked_count - 1 - s_byte (input) % QUESTIONS), memory [FRAME_BYTES];
    uint32_t sum;
    memset (memory, s_right (link->offsets [which]), sizeof memory);
    block_data_sums (link->offsets [which], BLOCK_DATA_UNIT_BYTES, memory, &sum);
    peer_answer_frame_t head = { .magic = PEER_WIRE_MAGIC, .version = PEER_WIRE_VERSION, .kind = PEER_BYTES,
        .number = link->asked [which] };
    size_t bytes = BLOCK_DATA_UNIT_BYTES;
    switch (change) {
    case 1: head.kind = PEER_NO; head.reason = s_byte (input) % PEER_REASONS; break;
    case 2: head.kind = PEER_PONG; break;
    case 3: head.number += s_byte (input); break;
    case 4: sum ^= s_byte (input); break;
    case 5: memory [s_byte (input)] ^= s_byte (input); break;
    case 6: bytes += s_byte (input); break;
    default: break;
    }
    s_put (message, &head, sizeof head);
    if (head.kind == PEER_BYTES) {
        s_put (message, &sum, sizeof sum);
        s_put (message, memory, bytes);
    }
}

static void
s_raw (input_t *input, size_t member)
{
    link_t *link = &s_world.links [member];
    if (link->count == MESSAGES)
        return;
    message_t *message = &link->messages [link->count++];
    message->count = 0;
    for (size_t frames = 1 + s_byte (input) % FRAMES; frames > 0; frames--) {
        size_t length = s_byte (input);
        length = length < input->left? length: input->left;
        s_put (message, input->at, length);
        input->at += length;
        input->left -= length;
    }
}

static void
s_ask (peers_t *peers, uint64_t block)
{
    size_t at = 0;
    while (at < QUESTIONS && s_slots [at].is_out)
        at++;
    if (at == QUESTIONS)
        return;
    s_slots [at].question = (peer_question_t) { .data = 0, .object = 0, .offset = block * PEER_BLOCK_BYTES,
        .bytes = BLOCK_DATA_UNIT_BYTES, .memory = s_slots [at].memory, .user = &s_slots [at].is_out };
    peers_way_t way = peers_choose (peers, 0, block, BLOCK_DATA_UNIT_BYTES, &s_slots [at].question);
    if (way == PEERS_PEER || way == PEERS_BEFORE)
        s_slots [at].is_out = peers_ask (peers, &s_slots [at].question);
    s_slots [at].asked_ns = wrapped.now_ns;
}

static void
s_take (peers_t *peers)
{
    for (peer_question_t *question; (question = peers_take (peers));) {
        bool *is_out = question->user;
        s_require (*is_out);
        *is_out = false;
        for (size_t at = 0; question->is_answered && at < question->bytes; at++)
            s_require (question->memory [at] == s_right (question->offset));
    }
    peers_patience_ms (peers);
}

//  In looks that are as far from each other as the reader's.
static void
s_wait (peers_t *peers, uint64_t ms)
{
    for (uint64_t passed = 0; passed < ms; passed += 100) {
        wrapped.now_ns += 100 * MS;
        s_take (peers);
        for (size_t at = 0; at < QUESTIONS; at++)
            s_require (!s_slots [at].is_out
                || wrapped.now_ns - s_slots [at].asked_ns <= (int64_t) LONGEST_MS * MS);
    }
}

static void
s_step (peers_t *peers, input_t *input)
{
    uint8_t what = s_byte (input);
    size_t member = 1 + (what >> 4) % (MEMBERS - 1);
    switch (what & 7) {
    case 0: s_ask (peers, s_byte (input) % BLOCKS); break;
    case 1: s_wait (peers, (uint64_t) 20 * s_byte (input)); break;
    case 2: s_raw (input, member); break;
    case 3: s_answer (input, member, s_byte (input) % 7); break;
    case 4: peers_renew (peers, 0, 0, (uint64_t) (s_byte (input) % BLOCKS) * PEER_BLOCK_BYTES,
            BLOCK_DATA_UNIT_BYTES); break;
    case 5: {
        size_t at = s_byte (input) % QUESTIONS;
        if (s_slots [at].is_out)
            peers_drop (peers, &s_slots [at].question);
        s_slots [at].is_out = false;
        break;
    }
    case 6: peers_make_room (peers, 0); break;
    default: s_answer (input, member, 0); break;
    }
    s_take (peers);
}


//  -- life

static void
s_find (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes)
{
    (void) context; (void) object;
    *begin = 0;
    *bytes = (uint64_t) BLOCKS * PEER_BLOCK_BYTES;
}

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
    s_require (scratch_begin (&s_scratch));
    snprintf (folder, sizeof folder, "%s/cache", s_scratch.path);
    s_require (block_cache_open (&s_cache, folder, 1 << 30, error, sizeof error) == 0);
    block_data_key_add (&key, "https://host/a", "\"1\"", 1);
    s_require (block_data_open (&s_data, s_cache, &key, (uint64_t) BLOCKS * PEER_BLOCK_BYTES) == 0);
    atexit (s_end);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    char error [300];
    if (!s_data)
        s_begin ();
    memset (&s_world, 0, sizeof s_world);
    memset (s_slots, 0, sizeof s_slots);
    wrapped.now_ns = (int64_t) 1000000 * MS;
    wrapped.more = false;
    members_t *members;
    s_require (members_open (&members, "node:1000,node:1001,node:1002", "node:1000", 1 << 30, error,
        sizeof error) == 0);
    cluster_t *cluster = cluster_new (&(cluster_options_t) { .members = members, .name = "node:1000" });
    s_require (cluster && cluster_add (cluster, &(cluster_data_t) { .blocks = s_data, .store = "store",
        .objects = 1, .find = s_find }));
    peers_t *peers = peers_new (cluster, "store");
    s_require (peers);
    input_t input = { .at = data, .left = size };
    while (input.left > 0)
        s_step (peers, &input);
    s_wait (peers, LONGEST_MS);
    for (size_t at = 0; at < QUESTIONS; at++)
        s_require (!s_slots [at].is_out);
    peers_destroy (&peers);
    cluster_destroy (&cluster);
    members_close (&members);
    return 0;
}
