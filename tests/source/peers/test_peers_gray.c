/*  Guards: one member that fails in part makes no epoch of a minute three times as long (design, gray
 *  failures).
 *
 *  A simulation on a virtual clock: peers.c as it is, over a network, members and a store that are made up.
 *  A reader needs blocks, a few at once, and a job takes one in so many milliseconds, whichever is there.
 *  Each seed draws the cluster, the network, the job and the member that fails; the same seed without the
 *  failure is what an epoch is measured by.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block_cache.h"
#include "block_data.h"
#include "cluster.h"
#include "effort.h"
#include "members.h"
#include "peers.h"
#include "peers_wrapped.h"
#include "scratch.h"
#include "seed.h"

#define MS INT64_C (1000000)

enum {
    EPOCH_MS = 60000, STEP_MS = 10, RARE_STEP_MS = 100,
    BLOCKS = EPOCH_MS / STEP_MS,
    COLD_MS = 15000, COLD_ANSWER_MS = 2500,
    DEAD_FROM_MS = 10000, DEAD_UNTIL_MS = 20000, BACK_MS = 4000, COMES_MS = 3000,
    ROUND_TRIPS = 5,                    //  of a connection with CURVE, before the first question
    PIECE_MS = 50, PIECES = 60,         //  of a turn in which the reader is busy
    BYTES = BLOCK_DATA_UNIT_BYTES,      //  that are asked for of each block
    MEMBERS = 8, SLOTS = 32, STORE_PARALLEL = 8, EVENTS = 4096,
    SLOWEST = 3, FEW = 6,               //  one block in so many
    SHORT = 12, REST_MS = 10000,        //  blocks that a job takes before it ends; the time after it
    RARELY = 40, LATE_MS = 1500         //  one question in so many, by so much
};

typedef enum {
    SOUND,
    STALLS,                             //  no member fails: the reader's thread stands still now and then
    ALL_COLD,                           //  every member takes longer for a while, as with empty caches
    ONE_FETCHES,                        //  one has nothing yet, and reads a store that is slow for all
    ONE_COLD,
    DIES_AND_RETURNS,
    RARELY_LATE,
    SILENT, SILENT_AMONG_SLOW, SILENT_AND_LEFT, PINGS_ONLY, SLOW, LOSES_HALF, HALF_OF_BLOCKS,
    COMES_AND_GOES, FAILS_LATE,
    DAMAGES, REFUSES,
    TROUBLES
} trouble_t;
//  What an epoch may be: so many times as long as without the trouble; so many questions given up; and of the
//  blocks one in FEW, at most, more from the store than without it, in all or in the second half.
typedef enum { ANY, IN_ALL, IN_SECOND_HALF } counted_t;
static const struct {
    const char *name;
    double times;                       //  0: the trouble takes time by itself
    uint64_t late;
    counted_t counted;
} s_troubles [TROUBLES] = {
    [SOUND] = { "sound", 1, 0, IN_ALL },
    [STALLS] = { "the asking thread stalls", 0, 0, IN_ALL },
    [ALL_COLD] = { "all are slow at first", SLOWEST, 3 * SLOTS, IN_SECOND_HALF },
    [ONE_FETCHES] = { "has nothing, and a slow store", 0, 2 * SLOTS, IN_ALL },
    [ONE_COLD] = { "slow at first", SLOWEST, BLOCKS, IN_SECOND_HALF },
    [DIES_AND_RETURNS] = { "dies and returns", SLOWEST, BLOCKS, IN_SECOND_HALF },
    [RARELY_LATE] = { "late now and then", SLOWEST, BLOCKS, ANY },
    [SILENT] = { "silent", SLOWEST, SLOTS + 4, ANY },
    [SILENT_AMONG_SLOW] = { "silent, and all others slow", SLOWEST, 4 * SLOTS, ANY },
    [SILENT_AND_LEFT] = { "silent, and soon not asked", SLOWEST, SLOTS, ANY },
    [PINGS_ONLY] = { "answers PING and no GET", SLOWEST, SLOTS + 4, ANY },
    [SLOW] = { "slow by a thousand", SLOWEST, BLOCKS, ANY },
    [LOSES_HALF] = { "loses every second answer", SLOWEST, BLOCKS, ANY },
    [HALF_OF_BLOCKS] = { "never gives half of its blocks", SLOWEST, BLOCKS, ANY },
    [COMES_AND_GOES] = { "comes and goes", SLOWEST, BLOCKS, ANY },
    [FAILS_LATE] = { "fails after five seconds", SLOWEST, BLOCKS, ANY },
    [DAMAGES] = { "gives damaged bytes", SLOWEST, 0, ANY },
    [REFUSES] = { "refuses at once", SLOWEST, 0, ANY }
};

//  An answer on its way.
typedef struct {
    int64_t at_ns;
    size_t member;
    unsigned int connection;
    peer_answer_frame_t head;
    uint64_t place;                     //  of the bytes
    bool is_damaged;
} event_t;

typedef struct {
    bool is_open;
    unsigned int connection;            //  counts
    event_t arrived [EVENTS];
    size_t arrived_count;
    size_t part;                        //  of arrived [0], to be received next
    int64_t free_ns;                    //  when the member has done what it was asked before
    int64_t ready_ns;                   //  when the connection is made
} peer_t;

static struct {
    int64_t begin_ns;
    uint64_t random;
    peer_t links [MEMBERS];
    size_t member_count, faulty;
    trouble_t trouble;
    event_t events [EVENTS];
    size_t event_count;
    double service_ms, latency_ms;      //  latency: there and back
    double store_ms;                    //  for one block, and STORE_PARALLEL at once
    int64_t stall_ns;                   //  the next
    bool is_machine;                    //  that stalls: what is under way to it comes later too
    bool is_mute;                       //  the faulty member answers no pings either when it answers nothing
    bool is_back;                       //  DIES_AND_RETURNS: it is asked again soon
    bool was_away, is_away;             //  the faulty member; is: when the epoch has ended
    bool is_missed;                     //  it did not answer a question
    uint64_t asked;                     //  RARELY_LATE: questions to it
    bool is_new;                        //  the reader's server: it is the home of blocks that it has not
} world;

//  Milliseconds since the epoch began.
static int64_t
s_epoch_ms (int64_t now_ns)
{
    return (now_ns - world.begin_ns) / MS;
}

static bool
s_is_down (size_t member, int64_t now_ns)
{
    int64_t now_ms = s_epoch_ms (now_ns);
    return member == world.faulty && (world.trouble == SILENT || world.trouble == SILENT_AMONG_SLOW
        || world.trouble == SILENT_AND_LEFT
        || (world.trouble == COMES_AND_GOES && world.is_mute && now_ms / COMES_MS % 2 == 0)
        || (world.trouble == DIES_AND_RETURNS && now_ms >= DEAD_FROM_MS && now_ms < DEAD_UNTIL_MS));
}


//  -- what the system and ZeroMQ are here

static void
wrapped_on_connect (size_t member)
{
    assert_true (member < world.member_count);
    peer_t *link = &world.links [member];
    link->is_open = true;
    link->connection++;
    link->ready_ns = wrapped.now_ns + (int64_t) (ROUND_TRIPS * world.latency_ms * (double) MS);
    link->arrived_count = link->part = 0;
}

static void
wrapped_on_close (size_t member)
{
    world.links [member].is_open = false;
}

static bool
wrapped_has_arrived (size_t member)
{
    return world.links [member].arrived_count > 0;
}

//  What the faulty member does with a GET: whether an answer comes.
static bool
s_fail (const peer_question_frame_t *question, int64_t now_ns, event_t *answer)
{
    uint64_t block = question->offset / PEER_BLOCK_BYTES;
    switch (world.trouble) {
    case RARELY_LATE:
        answer->at_ns += ++world.asked % RARELY == 0? LATE_MS * MS: 0;
        return true;
    case ONE_FETCHES:
        answer->at_ns += (int64_t) (1.5 * world.store_ms * (double) MS);
        return true;
    case ONE_COLD:
        answer->at_ns += s_epoch_ms (now_ns) < COLD_MS? COLD_ANSWER_MS * MS: 0;
        return true;
    case PINGS_ONLY:
        return false;
    case SLOW:
        answer->at_ns += (int64_t) (1000 * world.service_ms * (double) MS);
        return true;
    case LOSES_HALF:
        return test_below (&world.random, 2);
    case HALF_OF_BLOCKS:
        return block % 2;
    case COMES_AND_GOES:
        return s_epoch_ms (now_ns) / COMES_MS % 2;
    case FAILS_LATE:
        answer->at_ns += 5000 * MS;
        answer->head.kind = PEER_NO;
        answer->head.reason = PEER_REASON_FAILED;
        return true;
    case DAMAGES:
        answer->is_damaged = true;
        return true;
    case REFUSES:
        answer->head.kind = PEER_NO;
        answer->head.reason = PEER_REASON_BUSY;
        return true;
    default:
        return true;
    }
}

int __wrap_zmq_send (void *socket, const void *bytes, size_t size, int flags);
int
__wrap_zmq_send (void *socket, const void *bytes, size_t size, int flags)
{
    size_t member = wrapped_member (socket);
    peer_t *link = &world.links [member];
    peer_question_frame_t question;
    (void) flags;
    assert_true (cluster_read_question (bytes, size, &question));
    event_t answer = { .member = member, .connection = link->connection, .place = question.offset,
        .head = { .magic = PEER_WIRE_MAGIC, .version = PEER_WIRE_VERSION, .number = question.number,
        .kind = question.kind == PEER_PING? PEER_PONG: PEER_BYTES } };
    bool is_get = question.kind == PEER_GET, comes = question.kind != PEER_RENEW;
    int64_t service_ns = is_get? (int64_t) (world.service_ms * (double) MS): 0,
        begin_ns = link->ready_ns > wrapped.now_ns? link->ready_ns: wrapped.now_ns;
    begin_ns = is_get && link->free_ns > begin_ns? link->free_ns: begin_ns;
    answer.at_ns = begin_ns + service_ns + (int64_t) (world.latency_ms * (double) MS);
    bool is_cold = world.trouble == SILENT_AMONG_SLOW
        || (world.trouble == ALL_COLD && s_epoch_ms (wrapped.now_ns) < COLD_MS);
    if (is_cold && is_get)
        answer.at_ns += COLD_ANSWER_MS * MS;
    if (member == world.faulty && is_get)
        comes = s_fail (&question, wrapped.now_ns, &answer);
    if (s_is_down (member, wrapped.now_ns) || s_is_down (member, answer.at_ns))
        comes = false;
    if (comes && is_get)
        link->free_ns = begin_ns + service_ns;
    if (comes) {
        assert_true (world.event_count < EVENTS);
        world.events [world.event_count++] = answer;
    }
    return (int) size;
}

static void
s_fill (zmq_msg_t *message, const void *bytes, size_t size)
{
    assert_int_equal (zmq_msg_init_size (message, size), 0);
    memcpy (zmq_msg_data (message), bytes, size);
}

static uint8_t s_bytes [BYTES];

int __wrap_zmq_msg_recv (zmq_msg_t *message, void *socket, int flags);
int
__wrap_zmq_msg_recv (zmq_msg_t *message, void *socket, int flags)
{
    peer_t *link = &world.links [wrapped_member (socket)];
    (void) flags;
    if (link->arrived_count == 0)
        return -1;
    event_t *answer = &link->arrived [0];
    if (link->part == 0)
        s_fill (message, &answer->head, sizeof answer->head);
    if (link->part == 1) {
        uint32_t sum;
        block_data_sums (answer->place, BYTES, s_bytes, &sum);
        sum += answer->is_damaged;
        s_fill (message, &sum, sizeof sum);
    }
    if (link->part == 2)
        s_fill (message, s_bytes, BYTES);
    wrapped.more = answer->head.kind == PEER_BYTES && link->part < 2;
    link->part++;
    if (!wrapped.more) {
        memmove (link->arrived, link->arrived + 1, --link->arrived_count * sizeof *answer);
        link->part = 0;
    }
    return 1;
}


//  -- the reader, and the job

typedef enum { IDLE, ASKED, READS } doing_t;

typedef struct {
    doing_t doing;
    int64_t began_ns, until_ns;         //  READS
    peer_question_t question;
    uint64_t block;
    uint8_t memory [BYTES];
} slot_t;

static struct {
    slot_t slots [SLOTS];
    size_t slot_count, reads;
    uint64_t blocks, next, ready, taken;
    uint64_t from_store, late_from_store;   //  late: in the second half of the epoch
    uint64_t late;                          //  questions that were given up
    int64_t step_ns, take_ns;
} run;

static void
s_read_store (slot_t *slot, peers_t *peers)
{
    peers_store_begin (peers, BYTES);
    //  Those beyond what the store does at once wait for each other.
    double waits = (double) (run.reads + 1) / (double) STORE_PARALLEL, wait = waits > 1? waits: 1;
    slot->doing = READS;
    slot->began_ns = wrapped.now_ns;
    slot->until_ns = wrapped.now_ns + (int64_t) (world.store_ms * wait * (double) MS);
    run.reads++;
    run.from_store++;
    run.late_from_store += run.taken >= run.blocks / 2;
}

static void
s_begin_block (slot_t *slot, peers_t *peers)
{
    slot->block = run.next++;
    slot->question = (peer_question_t) { .data = 0, .object = 0, .offset = slot->block * PEER_BLOCK_BYTES,
        .bytes = BYTES, .memory = slot->memory, .user = slot };
    peers_way_t way = peers_choose (peers, 0, slot->block, BYTES, &slot->question);
    bool is_home = way == PEERS_HERE || way == PEERS_BEFORE;
    if (is_home && !world.is_new) {                         //  it is on the own disk
        slot->doing = IDLE;
        run.ready++;
    }
    else
    if ((way == PEERS_PEER || way == PEERS_BEFORE) && peers_ask (peers, &slot->question))
        slot->doing = ASKED;
    else
        s_read_store (slot, peers);
}

//  As reader_store.c's turn.
static void
s_step (peers_t *peers)
{
    for (size_t at = 0; at < run.slot_count; at++) {
        slot_t *slot = &run.slots [at];
        if (slot->doing == READS && slot->until_ns <= wrapped.now_ns) {
            peers_store_end (peers, BYTES, BYTES, (uint64_t) (wrapped.now_ns - slot->began_ns));
            run.reads--;
            slot->doing = IDLE;
            run.ready++;
        }
    }
    for (peer_question_t *question; (question = peers_take (peers));) {
        slot_t *slot = question->user;
        if (question->is_answered) {
            slot->doing = IDLE;
            run.ready++;
        }
        else
            s_read_store (slot, peers);
    }
    if (run.ready > 0 && wrapped.now_ns >= run.take_ns) {
        run.ready--;
        run.taken++;
        run.take_ns = wrapped.now_ns + run.step_ns;
    }
    for (size_t at = 0; at < run.slot_count; at++) {
        slot_t *slot = &run.slots [at];
        while (slot->doing == IDLE && run.next < run.blocks && run.ready < run.slot_count)
            s_begin_block (slot, peers);
    }
}

//  What has arrived by now.
static void
s_deliver (void)
{
    for (size_t at = 0; at < world.event_count;) {
        event_t *event = &world.events [at];
        if (event->at_ns > wrapped.now_ns) {
            at++;
            continue;
        }
        peer_t *link = &world.links [event->member];
        if (link->is_open && link->connection == event->connection)
            link->arrived [link->arrived_count++] = *event;
        world.events [at] = world.events [--world.event_count];
    }
}

//  A turn in which the reader writes what it has, and chooses, but takes no answer.
static void
s_be_busy (peers_t *peers)
{
    peer_question_t question = { .data = 0, .bytes = BYTES };
    for (size_t piece = test_below (&world.random, PIECES); piece > 0; piece--) {
        wrapped.now_ns += PIECE_MS * MS;
        s_deliver ();
        peers_choose (peers, 0, test_below (&world.random, BLOCKS), BYTES, &question);
    }
}

static void
s_stall (peers_t *peers)
{
    int64_t stall_ns = (300 + (int64_t) test_below (&world.random, 3000)) * MS;
    if (test_below (&world.random, 2))
        s_be_busy (peers);
    else {
        for (size_t at = 0; world.is_machine && at < world.event_count; at++)
            world.events [at].at_ns += stall_ns;
        wrapped.now_ns += stall_ns;
        s_deliver ();
    }
    world.stall_ns = wrapped.now_ns + (1000 + (int64_t) test_below (&world.random, 3000)) * MS;
}

//  To the next moment in which something happens.
static void
s_advance (peers_t *peers)
{
    int patience = peers_patience_ms (peers);
    int64_t next_ns = wrapped.now_ns
        + (patience < 0 || patience > 1000? 1000: patience > 0? patience: 1) * MS;
    if (run.ready > 0 && run.take_ns < next_ns)
        next_ns = run.take_ns;
    for (size_t at = 0; at < run.slot_count; at++)
        if (run.slots [at].doing == READS && run.slots [at].until_ns < next_ns)
            next_ns = run.slots [at].until_ns;
    for (size_t at = 0; at < world.event_count; at++)
        if (world.events [at].at_ns < next_ns)
            next_ns = world.events [at].at_ns;
    wrapped.now_ns = next_ns > wrapped.now_ns? next_ns: wrapped.now_ns + 1000;
    s_deliver ();
    if (world.trouble == STALLS && wrapped.now_ns >= world.stall_ns)
        s_stall (peers);
}


//  -- one epoch

typedef struct {
    scratch_folder_t scratch;
    block_cache_t *cache;
    block_data_t *data;
} state_t;

static void
s_find (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes)
{
    (void) context; (void) object;
    *begin = 0;
    *bytes = (uint64_t) BLOCKS * PEER_BLOCK_BYTES;
}

static void
s_draw (uint64_t seed, trouble_t trouble)
{
    memset (&world, 0, sizeof world);
    wrapped.more = false;
    memset (&run, 0, sizeof run);
    world.random = seed;
    wrapped.now_ns = world.begin_ns = 1000000 * MS;
    world.member_count = 2 + test_below (&world.random, MEMBERS - 2);
    world.faulty = 1 + test_below (&world.random, world.member_count - 1);
    world.trouble = trouble;
    world.service_ms = 1 + (double) test_below (&world.random, 3);
    bool is_far = test_below (&world.random, 6) == 0, is_rare = test_below (&world.random, 3) == 0;
    world.latency_ms = is_far? 30 + (double) test_below (&world.random, 70):
        .2 + (double) test_below (&world.random, 5);
    world.store_ms = (10 + (double) test_below (&world.random, 60)) * (is_rare? 2: 1);
    if (trouble == ONE_FETCHES)
        world.store_ms = 300 + (double) test_below (&world.random, 1200);
    world.is_machine = test_below (&world.random, 2);
    world.is_mute = test_below (&world.random, 2);
    world.is_new = test_below (&world.random, 3) == 0;
    run.step_ns = (is_rare? RARE_STEP_MS: STEP_MS) * MS;
    run.blocks = (uint64_t) (EPOCH_MS * MS / run.step_ns);
    if (trouble == SILENT_AND_LEFT)
        run.blocks = SHORT;
    run.slot_count = is_rare? 1 + test_below (&world.random, 4): 8 + test_below (&world.random, SLOTS - 8);
}

typedef struct {
    peer_state_t state;
    peer_figures_t figures;
} seen_t;

static seen_t
s_seen (peers_t *peers, size_t member)
{
    seen_t seen = { .state = PEER_UNKNOWN };
    char name [20];
    snprintf (name, sizeof name, "node:%zu", 1000 + member);
    peers_look (peers, name, &seen.state, &seen.figures);
    return seen;
}

//  Nothing is asked for a while.
static void
s_rest (peers_t *peers)
{
    for (int64_t end_ns = wrapped.now_ns + REST_MS * MS; wrapped.now_ns < end_ns; s_advance (peers))
        s_step (peers);
    seen_t seen = s_seen (peers, world.faulty);
    world.is_away = seen.state == PEER_AWAY;
    world.is_missed = seen.figures.late > 0;
}

//  Seconds of an epoch of this seed's cluster.
static double
s_epoch (const state_t *state, uint64_t seed, trouble_t trouble)
{
    char text [400] = "", error [300];
    s_draw (seed, trouble);
    for (size_t member = 0; member < world.member_count; member++)
        snprintf (text + strlen (text), sizeof text - strlen (text), "%snode:%zu", member? ",": "",
            1000 + member);
    members_t *members;
    assert_int_equal (members_open (&members, text, "node:1000", 1 << 30, error, sizeof error), 0);
    cluster_t *cluster = cluster_new (&(cluster_options_t) { .members = members, .name = "node:1000" });
    assert_true (cluster_add (cluster, &(cluster_data_t) { .blocks = state->data, .store = "store",
        .objects = 1, .find = s_find }));
    peers_t *peers = peers_new (cluster, "store");
    while (run.taken < run.blocks && s_epoch_ms (wrapped.now_ns) < 100 * EPOCH_MS) {
        s_step (peers);
        s_advance (peers);
        bool is_away = s_seen (peers, world.faulty).state == PEER_AWAY;
        world.was_away = world.was_away || is_away;
        if (s_epoch_ms (wrapped.now_ns) < DEAD_UNTIL_MS + BACK_MS)
            world.is_back = !is_away;
    }
    int64_t taken_ms = s_epoch_ms (wrapped.now_ns);
    if (trouble == SILENT_AND_LEFT)
        s_rest (peers);
    for (size_t at = 0; at < run.slot_count; at++)
        if (run.slots [at].doing == ASKED)
            peers_drop (peers, &run.slots [at].question);
    for (size_t member = 0; member < world.member_count; member++)
        run.late += s_seen (peers, member).figures.late;
    peers_destroy (&peers);
    cluster_destroy (&cluster);
    members_close (&members);
    return (double) taken_ms / 1e3;
}

static int
s_begin (void **state_p)
{
    static state_t state;
    char folder [100], error [600];
    block_data_key_t key = { { 0, 0 } };
    if (!scratch_begin (&state.scratch))
        return -1;
    snprintf (folder, sizeof folder, "%s/cache", state.scratch.path);
    if (block_cache_open (&state.cache, folder, 1 << 30, error, sizeof error))
        return -1;
    block_data_key_add (&key, "https://host/a", "\"1\"", 1);
    *state_p = &state;
    return block_data_open (&state.data, state.cache, &key, (uint64_t) BLOCKS * PEER_BLOCK_BYTES);
}

static int
s_end (void **state_p)
{
    state_t *state = *state_p;
    block_data_close (&state->data);
    block_cache_close (&state->cache);
    return scratch_end (&state->scratch)? 0: -1;
}

typedef struct {
    double times;
    uint64_t seed, late, from_store;
} worst_t;

//  One epoch; its figures are in run.
static void
s_judge (const state_t *state, uint64_t seed, trouble_t trouble, double sound, uint64_t sound_from_store,
    worst_t *worst)
{
    double times = s_epoch (state, seed, trouble) / sound;
    uint64_t counted = s_troubles [trouble].counted == IN_ALL? run.from_store:
        s_troubles [trouble].counted == IN_SECOND_HALF? run.late_from_store: 0;
    if (counted > sound_from_store + run.blocks / FEW)
        fail_msg ("seed %" PRIu64 ", %s: %" PRIu64 " of %" PRIu64 " blocks come from the store", seed,
            s_troubles [trouble].name, counted, run.blocks);
    if (run.late > s_troubles [trouble].late)
        fail_msg ("seed %" PRIu64 ", %s: %" PRIu64 " questions are given up", seed,
            s_troubles [trouble].name, run.late);
    if (trouble == DIES_AND_RETURNS && !world.is_back)
        fail_msg ("seed %" PRIu64 ": a member that returned is not asked after %d ms", seed, BACK_MS);
    if (trouble == RARELY_LATE && world.was_away)
        fail_msg ("seed %" PRIu64 ": a member that is late now and then was away", seed);
    if (world.is_missed && !world.is_away)
        fail_msg ("seed %" PRIu64 ": a member that never answered is not away after %d ms", seed, REST_MS);
    if (times > worst->times)
        *worst = (worst_t) { .times = times, .seed = seed, .late = worst->late,
            .from_store = worst->from_store };
    worst->late = run.late > worst->late? run.late: worst->late;
    worst->from_store = counted > worst->from_store? counted: worst->from_store;
}

static void
test_one_gray_member (void **state_p)
{
    const state_t *state = *state_p;
    worst_t worst [TROUBLES] = { { .times = 0 } };
    unsigned int seeds = EFFORT (60);
    for (unsigned int turn = 0; turn < seeds; turn++) {
        uint64_t seed = test_seed () + turn;
        double sound = s_epoch (state, seed, SOUND);
        uint64_t sound_from_store = run.from_store;     //  a member that is far looks slow at first
        assert_true (sound_from_store <= run.blocks / 8 && run.late == 0);
        for (trouble_t trouble = STALLS; trouble < TROUBLES; trouble++)
            s_judge (state, seed, trouble, sound, sound_from_store, &worst [trouble]);
    }
    bool is_good = true;
    for (trouble_t trouble = STALLS; trouble < TROUBLES; trouble++) {
        print_message ("%-32s %6.2f times, seed %" PRIu64 "; %" PRIu64 " questions given up, %" PRIu64
            " blocks from the store\n", s_troubles [trouble].name, worst [trouble].times,
            worst [trouble].seed, worst [trouble].late, worst [trouble].from_store);
        is_good = is_good && (s_troubles [trouble].times <= 0
            || worst [trouble].times <= s_troubles [trouble].times);
    }
    assert_true (is_good);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_one_gray_member, s_begin, s_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
