#include "cluster_blocks.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "homes.h"
#include "simulated_memory.h"

//  Blocks that were strays when they were added.
typedef struct {
    uint32_t *blocks;
    size_t count, room;
} strays_t;

typedef struct {
    bool is_present;
    uint32_t capacity, held, homed;
    uint32_t strayed;               //  of held
    strays_t strays;
} member_t;

//  Of node and block, without peers: open addressing, at most half full.
typedef struct {
    uint64_t *keys;                 //  of the pair, plus 1; 0: empty
    size_t count, room;             //  a power of two
} pairs_t;

struct cluster_blocks {
    const cluster_plan_t *plan;
    uint32_t blocks, member_count;
    member_t *members;
    uint32_t *homes;                //  by block
    uint32_t *holders;              //  by block
    pairs_t pairs;
};

//  ---- pairs

static uint64_t
s_pair (uint32_t node, uint32_t block)
{
    return ((uint64_t) node << 32 | block) + 1;
}

//  Where the pair is, or where it would be.
static uint64_t *
s_find (const pairs_t *self, uint64_t pair)
{
    size_t at = (size_t) ((pair * 0x9e3779b97f4a7c15u) >> 20) & (self->room - 1);
    while (self->keys [at] && self->keys [at] != pair)
        at = (at + 1) & (self->room - 1);
    return &self->keys [at];
}

static void
s_add (pairs_t *self, uint64_t pair)
{
    if (2 * (self->count + 1) > self->room) {
        pairs_t old = *self;
        self->room = old.room? 2 * old.room: 1024;
        self->keys = simulated_alloc (self->room, sizeof *self->keys);
        for (size_t at = 0; at < old.room; at++)
            if (old.keys [at])
                *s_find (self, old.keys [at]) = old.keys [at];
        free (old.keys);
    }
    *s_find (self, pair) = pair;
    self->count++;
}

//  ---- homes

static homes_t *
s_homes_new (const cluster_blocks_t *self, const uint32_t *nodes, uint32_t count)
{
    homes_member_t *members = simulated_alloc (count, sizeof *members);
    for (uint32_t at = 0; at < count; at++)
        members [at] = (homes_member_t) {
            .id = nodes [at], .weight = self->members [nodes [at]].capacity
        };
    homes_t *homes = homes_new (members, count);
    free (members);
    return homes;
}

static uint32_t
s_home_of (const homes_t *homes, const uint32_t *nodes, uint32_t block)
{
    size_t place = homes_of (homes, block);
    return place == HOMES_NONE? CLUSTER_NO_NODE: nodes [place];
}

static uint32_t *
s_present (const cluster_blocks_t *self, uint32_t *count_p)
{
    uint32_t *nodes = simulated_alloc (self->member_count, sizeof *nodes);
    *count_p = 0;
    for (uint32_t node = 0; node < self->member_count; node++)
        if (self->members [node].is_present)
            nodes [(*count_p)++] = node;
    return nodes;
}

static void
s_stray (member_t *member, uint32_t block)
{
    strays_t *strays = &member->strays;
    if (strays->count == strays->room) {
        strays->room = strays->room? 2 * strays->room: 64;
        strays->blocks = realloc (strays->blocks, strays->room * sizeof *strays->blocks);
        assert (strays->blocks);
    }
    strays->blocks [strays->count++] = block;
    member->strayed++;
}

static void
s_move_home (cluster_blocks_t *self, uint32_t block, uint32_t to)
{
    uint32_t from = self->homes [block], holder = self->holders [block];
    if (from != CLUSTER_NO_NODE)
        self->members [from].homed--;
    if (to != CLUSTER_NO_NODE)
        self->members [to].homed++;
    self->homes [block] = to;
    if (holder == CLUSTER_NO_NODE)
        return;
    if (holder == from)
        s_stray (&self->members [holder], block);
    else
    if (holder == to)
        self->members [holder].strayed--;
}

//  Each block asks the newcomers alone: the others keep their order (homes.h).
void
cluster_blocks_join (cluster_blocks_t *self, uint32_t first, uint32_t count)
{
    uint32_t *nodes = simulated_alloc (count, sizeof *nodes);
    for (uint32_t at = 0; at < count; at++) {
        nodes [at] = first + at;
        assert (!self->members [first + at].is_present);
        self->members [first + at].is_present = true;
    }
    homes_t *homes = self->homes? s_homes_new (self, nodes, count): NULL;
    for (uint32_t block = 0; homes && block < self->blocks; block++) {
        uint32_t to = s_home_of (homes, nodes, block), now = self->homes [block];
        if (to == CLUSTER_NO_NODE)
            break;                  //  no newcomer has a cache
        homes_member_t newcomer = { .id = to, .weight = self->members [to].capacity };
        homes_member_t present = { .id = now };
        if (now != CLUSTER_NO_NODE)
            present.weight = self->members [now].capacity;
        if (now == CLUSTER_NO_NODE || homes_prefers (&newcomer, &present, block))
            s_move_home (self, block, to);
    }
    homes_destroy (&homes);
    free (nodes);
}

void
cluster_blocks_leave (cluster_blocks_t *self, uint32_t first, uint32_t count)
{
    for (uint32_t node = first; node < first + count; node++) {
        assert (self->members [node].is_present);
        self->members [node].is_present = false;
    }
    if (!self->homes)
        return;
    uint32_t present, *nodes = s_present (self, &present);
    homes_t *homes = s_homes_new (self, nodes, present);
    for (uint32_t block = 0; block < self->blocks; block++)
        if (self->homes [block] >= first && self->homes [block] - first < count)
            s_move_home (self, block, s_home_of (homes, nodes, block));
    homes_destroy (&homes);
    free (nodes);
}

uint32_t
cluster_blocks_home (const cluster_blocks_t *self, uint32_t node, uint32_t block)
{
    return self->homes? self->homes [block]: self->members [node].capacity? node: CLUSTER_NO_NODE;
}

//  ---- what is held

uint32_t
cluster_blocks_holder (const cluster_blocks_t *self, uint32_t block)
{
    assert (self->holders);
    return self->holders [block];
}

bool
cluster_blocks_holds (const cluster_blocks_t *self, uint32_t node, uint32_t block)
{
    if (self->holders)
        return self->holders [block] == node;
    return self->pairs.room > 0 && *s_find (&self->pairs, s_pair (node, block));
}

bool
cluster_blocks_has_room (const cluster_blocks_t *self, uint32_t node)
{
    const member_t *member = &self->members [node];
    return member->held < member->capacity || member->strayed > 0;
}

static void
s_drop (cluster_blocks_t *self, uint32_t block)
{
    uint32_t holder = self->holders [block];
    self->members [holder].held--;
    self->members [holder].strayed -= self->homes [block] != holder;
    self->holders [block] = CLUSTER_NO_NODE;
}

static void
s_evict_stray (cluster_blocks_t *self, uint32_t node)
{
    member_t *member = &self->members [node];
    for (;;) {
        assert (member->strays.count > 0);
        uint32_t block = member->strays.blocks [--member->strays.count];
        if (self->holders [block] == node && self->homes [block] != node) {
            s_drop (self, block);
            return;
        }
    }
}

void
cluster_blocks_keep (cluster_blocks_t *self, uint32_t node, uint32_t block)
{
    member_t *member = &self->members [node];
    if (cluster_blocks_holds (self, node, block) || !cluster_blocks_has_room (self, node))
        return;
    if (member->held == member->capacity)
        s_evict_stray (self, node);
    if (!self->holders)
        s_add (&self->pairs, s_pair (node, block));
    else {
        if (self->holders [block] != CLUSTER_NO_NODE)
            s_drop (self, block);
        self->holders [block] = node;
        assert (self->homes [block] == node);
    }
    member->held++;
}

//  ---- figures

uint32_t
cluster_blocks_homed (const cluster_blocks_t *self, uint32_t node)
{
    return self->members [node].homed;
}

uint32_t
cluster_blocks_held (const cluster_blocks_t *self, uint32_t node)
{
    return self->members [node].held;
}

uint32_t
cluster_blocks_capacity (const cluster_blocks_t *self, uint32_t node)
{
    return self->members [node].capacity;
}

bool
cluster_blocks_is_present (const cluster_blocks_t *self, uint32_t node)
{
    return self->members [node].is_present;
}

void
cluster_blocks_check (const cluster_blocks_t *self)
{
    uint32_t *held = simulated_alloc (self->member_count, sizeof *held), present;
    for (uint32_t node = 0; node < self->member_count; node++)
        assert (self->members [node].held <= self->members [node].capacity);            //  B2
    uint32_t *nodes = s_present (self, &present);
    homes_t *homes = s_homes_new (self, nodes, present);
    for (uint32_t block = 0; self->homes && block < self->blocks; block++) {
        assert (self->homes [block] == s_home_of (homes, nodes, block));                //  B3
        if (self->holders [block] != CLUSTER_NO_NODE)
            held [self->holders [block]]++;
    }
    for (uint32_t node = 0; self->homes && node < self->member_count; node++)
        assert (held [node] == self->members [node].held);                              //  B1
    homes_destroy (&homes);
    free (nodes);
    free (held);
}

cluster_blocks_t *
cluster_blocks_new (const cluster_plan_t *plan)
{
    cluster_blocks_t *self = simulated_alloc (1, sizeof *self);
    self->plan = plan;
    self->blocks = cluster_plan_blocks (plan);
    self->member_count = cluster_plan_nodes_max (plan);
    self->members = simulated_alloc (self->member_count, sizeof *self->members);
    for (uint32_t node = 0; node < self->member_count; node++)
        self->members [node].capacity = cluster_plan_capacity (plan, node);
    if (plan->peers == CLUSTER_HOMES) {
        self->homes = simulated_alloc (self->blocks, sizeof *self->homes);
        self->holders = simulated_alloc (self->blocks, sizeof *self->holders);
        memset (self->homes, 0xff, self->blocks * sizeof *self->homes);
        memset (self->holders, 0xff, self->blocks * sizeof *self->holders);
    }
    return self;
}

void
cluster_blocks_destroy (cluster_blocks_t **self_p)
{
    assert (self_p);
    cluster_blocks_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t node = 0; node < self->member_count; node++)
        free (self->members [node].strays.blocks);
    free (self->members);
    free (self->homes);
    free (self->holders);
    free (self->pairs.keys);
    free (self);
    *self_p = NULL;
}
