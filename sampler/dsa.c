#include "dsa.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

enum { DSA_MAGIC = 0x5d5a11e3, BLOCK = 512 };
enum { NO_ID = 0xffffffff };            //  never a sample: ids are below a 32-bit count

//  A job that takes no part in so many rounds leaves the path.
enum { IDLE_ROUNDS = 64, IDLE_PART = 16 };

//  Neighbours are swapped where the front one has more than this part more.  Otherwise jobs that are nearly
//  in step would be swapped all the time, for no measurable sharing.
enum { SLACK = 256 };

//  What a round may spend on insertions and swaps after the first of each, in operations on containers: those
//  of 65,536 ids, of which sets consist.
enum { CONTAINER = 65536, INSERT_WORK = 256, SWAP_WORK = 64, SWAP_OPERATIONS = 4 };

//  Of SHARED jobs.
typedef struct {
    uint64_t data_hash, hash;           //  of data, and of what remains
    size_t group;
    uint64_t round;                     //  of the group, in which it last took part
    uint64_t run;                       //  of rounds without a gap, up to that one
    bool returns;                       //  it comes to the path at once when it draws
} member_t;

typedef struct {
    tree_t *tree;                       //  NULL: no job has come to it
    size_t count;                       //  of SHARED jobs
    uint64_t rounds;
    size_t cursor;                      //  the next pair of neighbours to be compared
} group_t;

typedef struct {
    uint64_t left, hash;
    uint32_t job;
} entry_t;

typedef struct {
    uint64_t left;                      //  |R_i| as the round began
    size_t first, count;                //  its jobs: entries [first .. first + count)
    size_t place;                       //  of the last of these on the path; TREE_NOWHERE: none is
    bool drew;
} player_t;

//  Drawn from a vertex in this round.
typedef struct {
    uint32_t id;
    size_t place;                       //  of the vertex
    size_t first, count;                //  its jobs: drawing [first .. first + count)
} drawn_t;

typedef enum {
    CLASS_VERTICES,                     //  A_m - E
    CLASS_LEAF,                         //  R_m - A_m
    CLASS_ALL                           //  R_m, of a player that is not on the path
} class_t;

typedef struct {
    group_t *group;
    size_t entry_count, count;          //  of players
    entry_t entries [SAMPLER_JOBS_MAX]; //  by what remains to them; those of a player side by side
    player_t players [SAMPLER_JOBS_MAX];    //  the same
    uint16_t order [SAMPLER_JOBS_MAX];  //  players, as they are visited
    size_t next;                        //  in order
    size_t head;                        //  no player before it lacks a sample
    size_t outside_end;                 //  E is what the vertices before this place hold
    uint64_t outside_size;
    uint32_t barred;                    //  the id of E that was drawn last, or NO_ID
    uint32_t drawing [SAMPLER_JOBS_MAX];    //  the jobs that have a sample, and those of the offer
    size_t drawing_count;
    drawn_t drawn [SAMPLER_JOBS_MAX];
    size_t drawn_count;
    //  Of the offer.
    class_t class;
    player_t *player;                   //  m
    uint64_t class_size;
    size_t first;                       //  its jobs: drawing [first .. drawing_count)
    bool lacks;                         //  after the offer m still lacks a sample, and draws from its leaf
    uint32_t picked;                    //  an id that was picked from the vertices ..
    size_t picked_place;                //  .. and from which
} round_t;

struct dsa {
    uint32_t magic;
    //  Set at birth.
    uint32_t sample_count;
    demand_t **demands;
    uint64_t key;
    size_t containers;                  //  of a set of all samples
    //  Changed by joins and leaves.
    member_t members [SAMPLER_JOBS_MAX];    //  by job number
    group_t groups [SAMPLER_JOBS_MAX];
    round_t round;
};

dsa_t *
dsa_new (uint32_t sample_count, demand_t **demands, uint64_t key)
{
    dsa_t *self = xalloc_jobs (calloc (1, sizeof *self));
    self->magic = DSA_MAGIC;
    self->sample_count = sample_count;
    self->demands = demands;
    self->key = key;
    self->containers = 1 + (sample_count - 1) / CONTAINER;
    return self;
}

void
dsa_destroy (dsa_t **self_p)
{
    dsa_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == DSA_MAGIC);
    for (size_t group = 0; group < SAMPLER_JOBS_MAX; group++)
        tree_destroy (&self->groups [group].tree);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  ------------------------------------------------------------------------------------------------
//  Hashes

//  The id's number in the hash of a set: splitmix64 at the id-th state from the key on.
static uint64_t
s_hash_of (const dsa_t *self, uint32_t id)
{
    return random_first (self->key + id * UINT64_C (0x9e3779b97f4a7c15));
}

static uint64_t
s_hash (const dsa_t *self, const roaring_bitmap_t *set)
{
    uint64_t hash = 0;
    roaring_uint32_iterator_t cursor;
    roaring_init_iterator (set, &cursor);
    uint32_t block [BLOCK], count;
    while ((count = roaring_read_uint32_iterator (&cursor, block, BLOCK)) > 0)
        for (uint32_t index = 0; index < count; index++)
            hash ^= s_hash_of (self, block [index]);
    return hash;
}

//  ------------------------------------------------------------------------------------------------
//  Jobs

static bool
s_is_shared (const dsa_t *self, uint32_t job)
{
    return self->demands [job] && demand_order (self->demands [job]) == SAMPLER_ORDER_SHARED;
}

static tree_t *
s_tree (const dsa_t *self, uint32_t job)
{
    return self->groups [self->members [job].group].tree;
}

//  Where the job is on its group's path, or TREE_NOWHERE.
static size_t
s_place (const dsa_t *self, uint32_t job)
{
    const tree_t *tree = s_tree (self, job);
    return tree? tree_place (tree, job): TREE_NOWHERE;
}

static void
s_leave_path (dsa_t *self, uint32_t job)
{
    size_t place = s_place (self, job);
    if (place == TREE_NOWHERE)
        return;
    tree_t *tree = s_tree (self, job);
    tree_remove (tree, job);
    if (tree_count (tree) > 0)
        tree_raise (tree, place < tree_count (tree)? place: place - 1);
}

void
dsa_join (dsa_t *self, uint32_t job)
{
    assert (self->magic == DSA_MAGIC);
    if (!s_is_shared (self, job))
        return;
    const demand_t *demand = self->demands [job];
    member_t *member = &self->members [job];
    *member = (member_t) { .returns = true };
    member->data_hash = member->hash = s_hash (self, demand_data (demand));
    if (demand_remaining_count (demand) < demand_epoch_count (demand))
        member->hash = s_hash (self, demand_remaining (demand));
}

void
dsa_epoch_begin (dsa_t *self, uint32_t job)
{
    assert (self->magic == DSA_MAGIC);
    if (!s_is_shared (self, job))
        return;
    const demand_t *demand = self->demands [job];
    member_t *member = &self->members [job];
    s_leave_path (self, job);
    member->returns = true;
    member->hash = demand_has_parts (demand)? s_hash (self, demand_remaining (demand)): member->data_hash;
}

void
dsa_leave (dsa_t *self, uint32_t job)
{
    assert (self->magic == DSA_MAGIC);
    if (s_is_shared (self, job))
        s_leave_path (self, job);
}

//  The group that all jobs of the tree are in; SAMPLER_JOBS_MAX: there is none.
static size_t
s_group_of_all (const tree_t *tree, const size_t *group_of)
{
    size_t count = tree_count (tree);
    for (size_t place = 1; place < count; place++)
        if (group_of [tree_job (tree, place)] != group_of [tree_job (tree, 0)])
            return SAMPLER_JOBS_MAX;
    return count > 0? group_of [tree_job (tree, 0)]: SAMPLER_JOBS_MAX;
}

//  Its jobs come back one by one, as they draw.
static void
s_give_up (dsa_t *self, tree_t *tree)
{
    for (size_t place = 0; place < tree_count (tree); place++)
        self->members [tree_job (tree, place)].returns = true;
    tree_destroy (&tree);
}

//  A group keeps the largest of the trees that have come to it whole.
void
dsa_regroup (dsa_t *self, const size_t *group_of)
{
    assert (self->magic == DSA_MAGIC);
    tree_t *kept [SAMPLER_JOBS_MAX] = { NULL };
    for (size_t old = 0; old < SAMPLER_JOBS_MAX; old++) {
        tree_t *tree = self->groups [old].tree;
        if (!tree)
            continue;
        size_t group = s_group_of_all (tree, group_of);
        if (group == SAMPLER_JOBS_MAX || (kept [group] && tree_count (kept [group]) >= tree_count (tree))) {
            s_give_up (self, tree);
            continue;
        }
        if (kept [group])
            s_give_up (self, kept [group]);
        kept [group] = tree;
    }
    for (size_t group = 0; group < SAMPLER_JOBS_MAX; group++)
        self->groups [group] = (group_t) { .tree = kept [group] };
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        if (s_is_shared (self, job)) {
            self->members [job].group = group_of [job];
            self->members [job].round = 0;
            self->groups [group_of [job]].count++;
        }
    for (size_t group = 0; group < SAMPLER_JOBS_MAX; group++)
        if (self->groups [group].tree && self->groups [group].count < 2) {
            s_give_up (self, self->groups [group].tree);
            self->groups [group].tree = NULL;
        }
}

void
dsa_drop (dsa_t *self, uint32_t id)
{
    assert (self->magic == DSA_MAGIC);
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        if (s_is_shared (self, job)) {
            member_t *member = &self->members [job];
            member->data_hash ^= demand_has (self->demands [job], id)? s_hash_of (self, id): 0;
            member->hash ^= demand_needs (self->demands [job], id)? s_hash_of (self, id): 0;
        }
    for (size_t group = 0; group < SAMPLER_JOBS_MAX; group++)
        if (self->groups [group].tree)
            tree_drop (self->groups [group].tree, id);
}

//  ------------------------------------------------------------------------------------------------
//  The path, as a round begins

static uint64_t
s_left (const dsa_t *self, const tree_t *tree, size_t place)
{
    return demand_remaining_count (self->demands [tree_job (tree, place)]);
}

//  Whether a job on the path has not drawn for long.  Jobs are drawn for in bursts, a batch or more, so a
//  slow one takes part in many rounds in a row and then in none for a while: how long its last row was says
//  how long that is.
static bool
s_is_idle (const dsa_t *self, const group_t *group, uint32_t job)
{
    const member_t *member = &self->members [job];
    uint64_t rounds = IDLE_ROUNDS * member->run, most = self->sample_count / IDLE_PART;
    rounds = rounds < most? rounds: most;
    return group->rounds - member->round > (rounds > IDLE_ROUNDS? rounds: IDLE_ROUNDS);
}

//  One job at most leaves: it has not drawn for long, or nothing remains to it.
static void
s_leave_idle (dsa_t *self, const group_t *group)
{
    for (size_t place = 0; place < tree_count (group->tree); place++) {
        uint32_t job = tree_job (group->tree, place);
        if (s_is_idle (self, group, job) || s_left (self, group->tree, place) == 0) {
            s_leave_path (self, job);
            return;
        }
    }
}

//  Compares neighbours, from the pair on where it ended the last time, and swaps those with more in front.
static void
s_sort_path (dsa_t *self, group_t *group)
{
    size_t pairs = tree_count (group->tree) - 1, in_order = 0, work = 0;
    while (in_order < pairs) {
        size_t place = group->cursor < pairs? group->cursor: 0;
        group->cursor = place;
        uint64_t front = s_left (self, group->tree, place), back = s_left (self, group->tree, place + 1);
        if (front - front / SLACK > back) {
            if (work > 0 && work + SWAP_OPERATIONS * self->containers > SWAP_WORK)
                return;
            work += SWAP_OPERATIONS * self->containers;
            tree_swap (group->tree, place);
            in_order = 0;
        }
        else
            in_order++;
        group->cursor++;
    }
}

static void
s_come_to_path (dsa_t *self, group_t *group, uint32_t job)
{
    const demand_t *demand = self->demands [job];
    size_t place = 0;
    while (place < tree_count (group->tree)
            && s_left (self, group->tree, place) <= demand_remaining_count (demand))
        place++;
    size_t next = place < tree_count (group->tree)? place: place - 1;
    const roaring_bitmap_t *neighbour = tree_count (group->tree) == 0? NULL:
        demand_remaining (self->demands [tree_job (group->tree, next)]);
    tree_insert (group->tree, place, job, demand_remaining (demand), neighbour);
    self->members [job].returns = false;
}

//  A job with data that overlap with no other's needs no tree.
static void
s_prepare_path (dsa_t *self, group_t *group, const uint32_t *jobs, size_t count)
{
    group->rounds++;
    if (!group->tree && group->count < 2)
        return;
    if (!group->tree)
        group->tree = tree_new ();
    size_t work = 0;
    uint32_t waiting [SAMPLER_JOBS_MAX];
    size_t waiting_count = 0;
    for (size_t index = 0; index < count; index++) {
        member_t *member = &self->members [jobs [index]];
        if (tree_place (group->tree, jobs [index]) == TREE_NOWHERE
                && (member->returns || group->rounds - member->round <= IDLE_ROUNDS))
            waiting [waiting_count++] = jobs [index];
        member->run = group->rounds - member->round == 1? member->run + 1: 1;
        member->round = group->rounds;
    }
    s_leave_idle (self, group);
    for (size_t index = 0; index < waiting_count; index++) {
        size_t cost = (tree_count (group->tree) + 1) * self->containers;
        if (work > 0 && work + cost > INSERT_WORK)
            break;
        work += cost;
        s_come_to_path (self, group, waiting [index]);
    }
    if (tree_count (group->tree) > 1)
        s_sort_path (self, group);
}

//  ------------------------------------------------------------------------------------------------
//  Players

static bool
s_precedes (const entry_t *one, const entry_t *other)
{
    return one->left != other->left? one->left < other->left: one->hash < other->hash;
}

//  Fills the entries, sorted: by what remains, equal sets side by side.
static void
s_sort_entries (const dsa_t *self, const uint32_t *jobs, size_t count, entry_t *entries)
{
    for (size_t next = 0; next < count; next++) {
        entry_t entry = {
            .left = demand_remaining_count (self->demands [jobs [next]]),
            .hash = self->members [jobs [next]].hash, .job = jobs [next]
        };
        assert (entry.left > 0);
        size_t index = next;
        for (; index > 0 && s_precedes (&entry, &entries [index - 1]); index--)
            entries [index] = entries [index - 1];
        entries [index] = entry;
    }
}

//  Fills jobs with those of the round: along the path, which is nearly sorted by what remains to them, and
//  then those that are not there.
static size_t
s_walk_path (const dsa_t *self, const group_t *group, const uint32_t *jobs, size_t count, uint32_t *walk)
{
    size_t walked = 0;
    for (size_t place = 0; group->tree && place < tree_count (group->tree); place++)
        if (self->members [tree_job (group->tree, place)].round == group->rounds)
            walk [walked++] = tree_job (group->tree, place);
    size_t on_path = walked;
    for (size_t index = 0; walked < count; index++)
        if (s_place (self, jobs [index]) == TREE_NOWHERE)
            walk [walked++] = jobs [index];
    return on_path;
}

//  Players that are not on the path are visited first, the others in its order: a player where its last job
//  stands.
static void
s_order_players (const dsa_t *self, round_t *round, const uint32_t *walk, size_t on_path)
{
    uint16_t player_of [SAMPLER_JOBS_MAX];
    for (size_t player = 0; player < round->count; player++)
        for (size_t index = 0; index < round->players [player].count; index++)
            player_of [round->entries [round->players [player].first + index].job] = (uint16_t) player;
    size_t free_from = round->count;
    while (on_path-- > 0) {
        uint16_t player = player_of [walk [on_path]];
        if (round->players [player].place != TREE_NOWHERE)
            continue;
        round->players [player].place = s_place (self, walk [on_path]);
        round->order [--free_from] = player;
    }
    for (size_t player = round->count; player-- > 0; )
        if (round->players [player].place == TREE_NOWHERE)
            round->order [--free_from] = (uint16_t) player;
    assert (free_from == 0);
}

void
dsa_begin (dsa_t *self, const uint32_t *jobs, size_t count)
{
    assert (self->magic == DSA_MAGIC);
    assert (count > 0 && count <= SAMPLER_JOBS_MAX);
    round_t *round = &self->round;
    round->group = &self->groups [self->members [jobs [0]].group];
    s_prepare_path (self, round->group, jobs, count);
    uint32_t walk [SAMPLER_JOBS_MAX];
    size_t on_path = s_walk_path (self, round->group, jobs, count, walk);
    s_sort_entries (self, walk, count, round->entries);
    round->count = 0;
    for (size_t index = 0; index < count; index++) {
        const entry_t *entry = &round->entries [index];
        if (index > 0 && entry->left == entry [-1].left && entry->hash == entry [-1].hash) {
            round->players [round->count - 1].count++;
            continue;
        }
        round->players [round->count++] = (player_t) {
            .left = entry->left, .first = index, .count = 1, .place = TREE_NOWHERE
        };
    }
    s_order_players (self, round, walk, on_path);
    round->next = round->head = 0;
    round->player = NULL;
    round->outside_end = 0;
    round->outside_size = 0;
    round->barred = NO_ID;
    round->drawing_count = round->drawn_count = 0;
    round->lacks = false;
}

//  ------------------------------------------------------------------------------------------------
//  Classes

//  The player is one of the offer's.
static void
s_add_player (round_t *round, player_t *player)
{
    player->drew = true;
    for (size_t index = 0; index < player->count; index++)
        round->drawing [round->drawing_count++] = round->entries [player->first + index].job;
}

//  One number decides for all players without a sample.  With less left a player takes part whenever one with
//  more does: the one with least does with its probability, and each follows the one before it.
static void
s_take_part (round_t *round, random_t *random)
{
    uint64_t size = round->class_size;
    for (size_t index = round->head; index < round->count && size > 0; index++) {
        player_t *player = &round->players [index];
        if (player->drew)
            continue;
        uint64_t outside_none = player->left - round->outside_size;
        if (!random_ratio (random, size, outside_none))
            return;
        size = outside_none;
        s_add_player (round, player);
    }
}

//  |A_m - E|
static uint64_t
s_class_size (const round_t *round)
{
    uint64_t size = 0;
    for (size_t place = round->outside_end; place <= round->player->place; place++)
        size += tree_vertex_size (round->group->tree, place);
    return size;
}

//  E := A_m, of which id was drawn, or NO_ID.
static void
s_set_aside (round_t *round, uint32_t id)
{
    round->outside_end = round->player->place + 1;
    round->outside_size += round->class_size;
    round->barred = id;
}

static void
s_draw_alone (round_t *round, class_t class, uint64_t size)
{
    round->class = class;
    round->class_size = size;
    round->lacks = false;
    s_add_player (round, round->player);
}

//  The round is over: what was drawn from vertices leaves them, and jobs that have nothing left the path.
static void
s_settle (dsa_t *self)
{
    round_t *round = &self->round;
    for (size_t index = 0; index < round->drawn_count; index++) {
        const drawn_t *drawn = &round->drawn [index];
        tree_draw (round->group->tree, drawn->place, drawn->id, round->drawing + drawn->first, drawn->count);
    }
    for (size_t index = 0; index < round->drawing_count; index++)
        if (demand_remaining_count (self->demands [round->drawing [index]]) == 0)
            s_leave_path (self, round->drawing [index]);
}

//  Finds the next class that some player draws from.  False: no player lacks a sample.
static bool
s_find_class (round_t *round, random_t *random)
{
    if (round->lacks) {
        s_draw_alone (round, CLASS_LEAF, round->player->left - round->outside_size);
        return true;
    }
    while (round->next < round->count && round->players [round->order [round->next]].drew)
        round->next++;
    if (round->next == round->count)
        return false;
    while (round->players [round->head].drew)
        round->head++;
    round->player = &round->players [round->order [round->next++]];
    if (round->player->place == TREE_NOWHERE) {
        s_draw_alone (round, CLASS_ALL, round->player->left);
        return true;
    }
    round->class = CLASS_VERTICES;
    round->class_size = s_class_size (round);
    round->picked = NO_ID;
    s_take_part (round, random);
    round->lacks = !round->player->drew;
    if (round->drawing_count == round->first) {
        s_set_aside (round, NO_ID);
        s_draw_alone (round, CLASS_LEAF, round->player->left - round->outside_size);
    }
    return true;
}

bool
dsa_offer (dsa_t *self, random_t *random, const uint32_t **jobs_p, size_t *count_p)
{
    assert (self->magic == DSA_MAGIC);
    round_t *round = &self->round;
    round->first = round->drawing_count;
    if (!s_find_class (round, random)) {
        s_settle (self);
        return false;
    }
    *jobs_p = round->drawing + round->first;
    *count_p = round->drawing_count - round->first;
    return true;
}

//  What remains to player m.
static const demand_t *
s_demand (const dsa_t *self)
{
    return self->demands [self->round.entries [self->round.player->first].job];
}

//  A vertex with the probability of its size, and a uniform id of it.
static uint32_t
s_pick_of_vertices (dsa_t *self, random_t *random)
{
    round_t *round = &self->round;
    const tree_t *tree = round->group->tree;
    uint64_t rank = random_below (random, round->class_size);
    size_t place = round->outside_end;
    for (; rank >= tree_vertex_size (tree, place); place++)
        rank -= tree_vertex_size (tree, place);
    round->picked_place = place;
    round->picked = random_pick (random, tree_vertex (tree, place), tree_vertex_size (tree, place),
        self->sample_count);
    return round->picked;
}

uint32_t
dsa_pick (dsa_t *self, random_t *random)
{
    assert (self->magic == DSA_MAGIC);
    const round_t *round = &self->round;
    switch (round->class) {
    case CLASS_VERTICES:
        return s_pick_of_vertices (self, random);
    case CLASS_LEAF:
        return random_pick (random, tree_leaf (round->group->tree, round->player->place), round->class_size,
            self->sample_count);
    case CLASS_ALL:
        break;
    }
    return random_pick (random, demand_remaining (s_demand (self)), round->class_size, self->sample_count);
}

//  Whether id is in E: the job at its end needed it as the round began, and does not have it in its leaf.  Of
//  E that job can have drawn only the id that was drawn last.
static bool
s_is_outside (const dsa_t *self, uint32_t id)
{
    const round_t *round = &self->round;
    if (round->outside_end == 0)
        return false;
    size_t place = round->outside_end - 1;
    const tree_t *tree = round->group->tree;
    return id == round->barred || (demand_needs (self->demands [tree_job (tree, place)], id)
        && !roaring_bitmap_contains (tree_leaf (tree, place), id));
}

bool
dsa_accepts (const dsa_t *self, uint32_t id)
{
    assert (self->magic == DSA_MAGIC);
    const round_t *round = &self->round;
    switch (round->class) {
    case CLASS_VERTICES:
        return demand_needs (self->demands [tree_job (round->group->tree, round->player->place)], id)
            && !roaring_bitmap_contains (tree_leaf (round->group->tree, round->player->place), id)
            && !s_is_outside (self, id);
    case CLASS_LEAF:
        return roaring_bitmap_contains (tree_leaf (round->group->tree, round->player->place), id);
    case CLASS_ALL:
        break;
    }
    return demand_needs (s_demand (self), id);
}

//  The vertex that id, which is in the class, is in.
static size_t
s_vertex_of (const round_t *round, uint32_t id)
{
    if (id == round->picked)
        return round->picked_place;
    size_t place = round->outside_end;
    while (!roaring_bitmap_contains (tree_vertex (round->group->tree, place), id))
        place++;
    assert (place <= round->player->place);
    return place;
}

void
dsa_commit (dsa_t *self, uint32_t id)
{
    assert (self->magic == DSA_MAGIC);
    round_t *round = &self->round;
    assert (round->drawing_count > round->first);
    tree_t *tree = round->group->tree;
    for (size_t index = round->first; index < round->drawing_count; index++) {
        uint32_t job = round->drawing [index];
        size_t place = s_place (self, job);
        if (round->class == CLASS_LEAF && place != TREE_NOWHERE)
            tree_draw_leaf (tree, place, id);
        self->members [job].hash ^= s_hash_of (self, id);
        demand_draw (self->demands [job], id);
    }
    if (round->class != CLASS_VERTICES)
        return;
    round->drawn [round->drawn_count++] = (drawn_t) { .id = id, .place = s_vertex_of (round, id),
        .first = round->first, .count = round->drawing_count - round->first };
    s_set_aside (round, id);
}

//  ------------------------------------------------------------------------------------------------
//  Seeing it, and invariants

const tree_t *
dsa_tree (const dsa_t *self, uint32_t job)
{
    assert (self->magic == DSA_MAGIC);
    assert (s_is_shared (self, job));
    return s_tree (self, job);
}

static void
s_check_trees (const dsa_t *self)
{
    const roaring_bitmap_t *remaining [SAMPLER_JOBS_MAX] = { NULL };
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        if (s_is_shared (self, job))
            remaining [job] = demand_remaining (self->demands [job]);
    for (size_t group = 0; group < SAMPLER_JOBS_MAX; group++) {
        const tree_t *tree = self->groups [group].tree;
        if (!tree)
            continue;
        for (size_t place = 0; place < tree_count (tree); place++) {
            assert (s_is_shared (self, tree_job (tree, place)));                //  A1
            assert (self->members [tree_job (tree, place)].group == group);     //  A1
        }
        tree_check (tree, remaining);                                           //  A1
        assert (tree_is_fresh (tree));                                          //  A3
    }
}

void
dsa_check (const dsa_t *self)
{
    assert (self->magic == DSA_MAGIC);
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++) {
        if (!s_is_shared (self, job))
            continue;
        const demand_t *demand = self->demands [job];
        const member_t *member = &self->members [job];
        assert (s_hash (self, demand_data (demand)) == member->data_hash);      //  A2
        assert (s_hash (self, demand_remaining (demand)) == member->hash);      //  A2
        for (uint32_t other = 0; other < job; other++)
            if (s_is_shared (self, other) && self->members [other].hash == member->hash)
                assert (roaring_bitmap_equals (demand_remaining (self->demands [other]),
                    demand_remaining (demand)));                                //  A2
    }
    s_check_trees (self);
}
