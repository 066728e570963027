#include "cluster_redox.h"
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "published_random.h"
#include "simulated_memory.h"

enum { NONE = UINT32_MAX, WORD_BITS = 64 };

//  Q (r, h), and what the home knows of the requester.
typedef struct {
    uint32_t *slots;                //  by place: that of the file
    uint32_t count;
    uint32_t at;                    //  the place of the next request
    uint32_t last;                  //  the place of the last one that was sent to the home; NONE: none yet
    uint32_t *sent;                 //  [place mod P]: the slot that was sent for this place; NONE
} queue_t;

typedef struct {
    uint32_t *held;                 //  by slot: the file that came for it; NONE
    uint64_t *sent;                 //  slots, as their home remembers
    uint32_t held_count;
    uint32_t first, end;            //  its slice
    queue_t *queues;                //  by home
} node_t;

typedef struct {
    const cluster_redox_plan_t *plan;
    random_t random;
    uint32_t chunks;                //  C
    uint32_t words;                 //  of a set of offsets
    uint32_t slot_count;            //  words * WORD_BITS a virtual chunk, so that a slot is a bit of filled
    uint64_t *wanted;               //  [chunk] [word]: offsets that are not consumed
    uint64_t *filled;               //  [virtual chunk] [word]: offsets that are in slots
    uint32_t *slots;                //  [slot]: the file
    uint8_t *given;                 //  by file
    uint32_t *order;
    node_t *nodes;
    cluster_redox_epoch_t *result;
} redox_t;

//  ---- where files are

uint32_t
cluster_redox_chunks (const cluster_redox_plan_t *plan)
{
    return (plan->files - 1) / plan->chunk + 1;
}

static uint32_t
s_virtual_chunk (const redox_t *self, uint32_t file)
{
    return (uint32_t) ((uint64_t) (file / self->plan->chunk) * self->plan->virtual_chunks / self->chunks);
}

static uint32_t
s_first_chunk (const redox_t *self, uint32_t virtual_chunk)
{
    uint32_t all = self->plan->virtual_chunks;
    return (uint32_t) (((uint64_t) virtual_chunk * self->chunks + all - 1) / all);
}

static uint32_t
s_home (const redox_t *self, uint32_t file)
{
    return s_virtual_chunk (self, file) / (self->plan->virtual_chunks / self->plan->nodes);
}

static uint32_t
s_slot (const redox_t *self, uint32_t file)
{
    return s_virtual_chunk (self, file) * self->words * WORD_BITS + file % self->plan->chunk;
}

static bool
s_has (const uint64_t *set, uint32_t place)
{
    return set [place / WORD_BITS] >> place % WORD_BITS & 1;
}

static void
s_add (uint64_t *set, uint32_t place)
{
    set [place / WORD_BITS] |= UINT64_C (1) << place % WORD_BITS;
}

static void
s_remove (uint64_t *set, uint32_t place)
{
    set [place / WORD_BITS] &= ~(UINT64_C (1) << place % WORD_BITS);
}

//  ---- a home: loading

//  Slots that the chunk would fill.
static uint32_t
s_score (const redox_t *self, uint32_t virtual_chunk, uint32_t chunk)
{
    const uint64_t *wanted = self->wanted + (size_t) chunk * self->words;
    const uint64_t *filled = self->filled + (size_t) virtual_chunk * self->words;
    int score = 0;
    for (uint32_t word = 0; word < self->words; word++)
        score += __builtin_popcountll (wanted [word] & ~filled [word]);
    return (uint32_t) score;
}

static uint32_t
s_choose (redox_t *self, uint32_t virtual_chunk, uint32_t offset)
{
    uint32_t end = s_first_chunk (self, virtual_chunk + 1), best = NONE, best_score = 0, equals = 0;
    for (uint32_t chunk = s_first_chunk (self, virtual_chunk); chunk < end; chunk++) {
        bool is_whole = (uint64_t) chunk * self->plan->chunk + offset < self->plan->files;
        if (!is_whole || !s_has (self->wanted + (size_t) chunk * self->words, offset))
            continue;
        uint32_t score = self->plan->random_selection? 0: s_score (self, virtual_chunk, chunk);
        if (best != NONE && score < best_score)
            continue;
        if (best == NONE || score > best_score)
            equals = 1;
        else
        if (published_random_below (&self->random, ++equals) != 0)
            continue;
        best = chunk;
        best_score = score;
    }
    assert (best != NONE);          //  a slot has as many requests as files
    return best;
}

static void
s_load (redox_t *self, uint32_t virtual_chunk, uint32_t offset)
{
    uint32_t chunk = s_choose (self, virtual_chunk, offset), first = chunk * self->plan->chunk;
    uint32_t left = self->plan->files - first, count = left < self->plan->chunk? left: self->plan->chunk;
    uint64_t *wanted = self->wanted + (size_t) chunk * self->words;
    uint64_t *filled = self->filled + (size_t) virtual_chunk * self->words;
    self->result->loads++;
    for (uint32_t at = 0; at < count; at++) {
        uint64_t bit = UINT64_C (1) << at % WORD_BITS;
        if (!(wanted [at / WORD_BITS] & ~filled [at / WORD_BITS] & bit))
            continue;
        self->slots [virtual_chunk * self->words * WORD_BITS + at] = first + at;
        filled [at / WORD_BITS] |= bit;
        wanted [at / WORD_BITS] &= ~bit;
    }
}

//  Empties the slot.
static uint32_t
s_take (redox_t *self, uint32_t slot)
{
    assert (s_has (self->filled, slot));
    s_remove (self->filled, slot);
    return self->slots [slot];
}

static uint32_t
s_read_local (redox_t *self, uint32_t slot)
{
    uint32_t stride = self->words * WORD_BITS;
    if (!s_has (self->filled, slot))
        s_load (self, slot / stride, slot % stride);
    return s_take (self, slot);
}

//  ---- a request and its answer

//  What was sent for places that the requester has passed may be sent again.
static void
s_shift (const redox_t *self, node_t *node, queue_t *queue)
{
    uint32_t ahead = self->plan->ahead, passed = queue->last == NONE? 0: queue->at - queue->last;
    for (uint32_t at = 0; at < ahead && at < passed; at++) {
        uint32_t *sent = &queue->sent [(queue->last + at) % ahead];
        if (*sent != NONE)
            s_remove (node->sent, *sent);
        *sent = NONE;
    }
}

static void
s_send_ahead (redox_t *self, node_t *node, queue_t *queue)
{
    uint32_t room = self->plan->held_max - node->held_count;
    for (uint32_t at = 1; at < self->plan->ahead && queue->at + at < queue->count && room > 0; at++) {
        uint32_t place = queue->at + at, slot = queue->slots [place];
        //  One branch: nothing here can be foretold, and this is where a run's time goes.
        uint32_t word = slot / WORD_BITS;
        if (!(self->filled [word] & ~node->sent [word] & UINT64_C (1) << slot % WORD_BITS))
            continue;
        assert (node->held [slot] == NONE);
        node->held [slot] = s_take (self, slot);
        s_add (node->sent, slot);
        queue->sent [place % self->plan->ahead] = slot;
        node->held_count++;
        self->result->prefetched++;
        room--;
    }
    if (node->held_count > self->result->held_most)
        self->result->held_most = node->held_count;
}

static uint32_t
s_request (redox_t *self, node_t *node, queue_t *queue, uint32_t slot)
{
    self->result->remote++;
    uint32_t file = s_read_local (self, slot);
    if (self->plan->ahead == 0)
        return file;
    s_shift (self, node, queue);
    queue->last = queue->at;
    queue->sent [queue->at % self->plan->ahead] = slot;
    s_add (node->sent, slot);
    s_send_ahead (self, node, queue);
    return file;
}

//  The file that the node gets for the next one of its slice.
static uint32_t
s_next (redox_t *self, uint32_t number)
{
    node_t *node = &self->nodes [number];
    uint32_t wanted = self->order [node->first++], slot = s_slot (self, wanted);
    uint32_t home = s_home (self, wanted);
    if (home == number)
        return s_read_local (self, slot);
    queue_t *queue = &node->queues [home];
    assert (queue->slots [queue->at] == slot);
    uint32_t file = node->held [slot];
    if (file == NONE)
        file = s_request (self, node, queue, slot);
    else {
        node->held [slot] = NONE;
        node->held_count--;
    }
    queue->at++;
    return file;
}

//  ---- epochs

static void
s_deal (redox_t *self)
{
    const cluster_redox_plan_t *plan = self->plan;
    published_random_shuffle (&self->random, self->order, plan->files);
    for (uint32_t number = 0; number < plan->nodes; number++) {
        node_t *node = &self->nodes [number];
        node->first = (uint32_t) (((uint64_t) number * plan->files + plan->nodes - 1) / plan->nodes);
        node->end = (uint32_t) (((uint64_t) (number + 1) * plan->files + plan->nodes - 1) / plan->nodes);
        for (uint32_t home = 0; home < plan->nodes; home++) {
            queue_t *queue = &node->queues [home];
            queue->count = queue->at = 0;
            queue->last = NONE;
            for (uint32_t at = 0; at < plan->ahead; at++)
                queue->sent [at] = NONE;
        }
        memset (node->sent, 0, self->slot_count / CHAR_BIT);
        for (uint32_t place = node->first; place < node->end; place++) {
            queue_t *queue = &node->queues [s_home (self, self->order [place])];
            queue->slots [queue->count++] = s_slot (self, self->order [place]);
        }
    }
}

static void
s_play_epoch (redox_t *self)
{
    uint32_t given = 0;
    memset (self->wanted, 0xff, (size_t) self->chunks * self->words * sizeof *self->wanted);
    memset (self->given, 0, self->plan->files);
    s_deal (self);
    while (given < self->plan->files)
        for (uint32_t number = 0; number < self->plan->nodes; number++)
            if (self->nodes [number].first < self->nodes [number].end) {
                uint32_t file = s_next (self, number);
                assert (!self->given [file]);
                self->given [file] = 1;
                given++;
            }
    for (size_t word = 0; word < (size_t) self->plan->virtual_chunks * self->words; word++)
        assert (self->filled [word] == 0);
    for (uint32_t number = 0; number < self->plan->nodes; number++)
        assert (self->nodes [number].held_count == 0);
}

static void
s_set_up_node (redox_t *self, node_t *node)
{
    const cluster_redox_plan_t *plan = self->plan;
    node->held = simulated_alloc (self->slot_count, sizeof *node->held);
    memset (node->held, 0xff, self->slot_count * sizeof *node->held);
    node->sent = simulated_alloc (self->slot_count / WORD_BITS, sizeof *node->sent);
    node->queues = simulated_alloc (plan->nodes, sizeof *node->queues);
    for (uint32_t home = 0; home < plan->nodes; home++) {
        node->queues [home].slots = simulated_alloc (plan->files / plan->nodes + 1, sizeof (uint32_t));
        node->queues [home].sent = simulated_alloc (plan->ahead, sizeof (uint32_t));
    }
}

static void
s_set_up (redox_t *self, uint64_t seed)
{
    const cluster_redox_plan_t *plan = self->plan;
    assert (plan->files > 0 && plan->chunk > 0 && plan->nodes > 0);
    self->random = published_random_new (seed);
    self->chunks = cluster_redox_chunks (plan);
    assert (plan->virtual_chunks <= self->chunks && plan->virtual_chunks % plan->nodes == 0);
    self->words = (plan->chunk - 1) / WORD_BITS + 1;
    self->slot_count = plan->virtual_chunks * self->words * WORD_BITS;
    self->wanted = simulated_alloc ((size_t) self->chunks * self->words, sizeof *self->wanted);
    self->filled = simulated_alloc ((size_t) plan->virtual_chunks * self->words, sizeof *self->filled);
    self->slots = simulated_alloc (self->slot_count, sizeof *self->slots);
    self->given = simulated_alloc (plan->files, 1);
    self->order = simulated_alloc (plan->files, sizeof *self->order);
    self->nodes = simulated_alloc (plan->nodes, sizeof *self->nodes);
    for (uint32_t number = 0; number < plan->nodes; number++)
        s_set_up_node (self, &self->nodes [number]);
}

static void
s_tear_down (redox_t *self)
{
    for (uint32_t number = 0; number < self->plan->nodes; number++) {
        node_t *node = &self->nodes [number];
        for (uint32_t home = 0; home < self->plan->nodes; home++) {
            free (node->queues [home].slots);
            free (node->queues [home].sent);
        }
        free (node->queues);
        free (node->held);
        free (node->sent);
    }
    free (self->nodes);
    free (self->order);
    free (self->given);
    free (self->slots);
    free (self->filled);
    free (self->wanted);
}

void
cluster_redox_run (const cluster_redox_plan_t *plan, uint64_t seed, uint32_t epochs,
    cluster_redox_epoch_t *results)
{
    redox_t self = { .plan = plan };
    s_set_up (&self, seed);
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        results [epoch] = (cluster_redox_epoch_t) { .loads = 0 };
        self.result = &results [epoch];
        s_play_epoch (&self);
    }
    s_tear_down (&self);
}
