/*  Guards: the exact law of rounds of `dsa`.  Each draw is uniform over what remains to the job given all
 *  that was before, for all sets of up to four jobs, in any order of the path, on stale sets, whichever jobs
 *  take part or are on the path, and with a join, a departure, an epoch's begin or a drop between two rounds.
 *  Where all jobs take part and sizes ascend along the path, the joint law is the published one
 *  (published.h).
 *
 *  Nothing is left to chance: dsa.c is compiled here with random numbers that are dictated.  A run notes each
 *  choice that it comes to, with its probability; the next run makes the last choice otherwise, until every
 *  sequence of choices has been made.  Of states that differ only in the names of ids one is played.
 *
 *  And a round changes the path by one insertion and one swap, where sets are large; an idle job leaves it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "published.h"
#include "random.h"
#include "tree.h"

//  ------------------------------------------------------------------------------------------------
//  Dictated choices

enum { CHOICES_MAX = 64 };

static struct {
    struct { uint64_t taken, count; double before; } choices [CHOICES_MAX];
    size_t depth, known;                //  choices of this run so far; those that are dictated
    double p;                           //  of all of them
    bool sorts;                         //  neighbours are swapped
    bool redirects;                     //  the caller picks by itself
} s_script;

//  Which of count ways to take, where all are equally likely unless the caller says more.
static uint64_t
s_dictated (uint64_t count)
{
    assert_true (s_script.depth < CHOICES_MAX);
    if (s_script.depth == s_script.known) {
        s_script.choices [s_script.known].taken = 0;
        s_script.choices [s_script.known++].count = count;
    }
    assert_int_equal (s_script.choices [s_script.depth].count, count);
    s_script.choices [s_script.depth].before = s_script.p;
    return s_script.choices [s_script.depth++].taken;
}

static void
s_run_begin (void)
{
    s_script.depth = 0;
    s_script.p = 1;
}

//  Dictates the next run.  Returns the number of choices that it has in common with this one, or SIZE_MAX:
//  there is no other.
static size_t
s_run_next (void)
{
    while (s_script.known > 0) {
        size_t last = s_script.known - 1;
        if (++s_script.choices [last].taken < s_script.choices [last].count)
            return last;
        s_script.known = last;
    }
    return SIZE_MAX;
}

static uint64_t
s_dictated_below (random_t *random, uint64_t bound)
{
    (void) random;
    s_script.p /= (double) bound;
    return bound > 1? s_dictated (bound): 0;
}

static bool
s_dictated_ratio (random_t *random, uint64_t numerator, uint64_t denominator)
{
    (void) random;
    assert_true (numerator <= denominator);
    if (numerator == 0 || numerator == denominator)
        return numerator > 0;
    double p = (double) numerator / (double) denominator;
    bool is_true = s_dictated (2) == 0;
    s_script.p *= is_true? p: 1 - p;
    return is_true;
}

static uint32_t
s_dictated_pick (random_t *random, const roaring_bitmap_t *set, uint64_t count, uint32_t universe)
{
    uint32_t id = universe;
    assert_int_equal (count, roaring_bitmap_get_cardinality (set));
    assert_true (roaring_bitmap_select (set, (uint32_t) s_dictated_below (random, count), &id));
    return id;
}

static void
s_dictated_swap (tree_t *tree, size_t place)
{
    if (s_script.sorts)
        tree_swap (tree, place);
}

#define random_below s_dictated_below
#define random_ratio s_dictated_ratio
#define random_pick s_dictated_pick
#define tree_swap s_dictated_swap
#include "dsa.c"
#undef tree_swap

//  ------------------------------------------------------------------------------------------------
//  States and rounds

enum { IDS = 4, JOBS = 5 };

//  Where states are many, one in so many is played.
enum { STRIDE = 4 / EFFORT (3) };

typedef struct {
    size_t count;                       //  of jobs
    uint8_t sets [JOBS];                //  by job, which stands at the place of its number
    uint8_t takes_part;                 //  bits of jobs
    uint8_t on_path;
    size_t gone_place;                  //  a job with this set was there and is not; no raise since then
    uint8_t gone_set;                   //  0: there was none
} scene_t;

typedef struct {
    demand_t *demands [SAMPLER_JOBS_MAX];
    roaring_bitmap_t *readable;
    dsa_t *dsa;
    uint8_t sets [JOBS];                //  what remains
} played_t;

static roaring_bitmap_t *
s_bitmap (uint8_t set)
{
    roaring_bitmap_t *bitmap = roaring_bitmap_create ();
    for (uint32_t id = 0; id < IDS; id++)
        if (set >> id & 1)
            roaring_bitmap_add (bitmap, id);
    return bitmap;
}

//  A job with these data joins.
static void
s_add_job (played_t *self, uint32_t job, uint8_t set)
{
    roaring_bitmap_t *data = s_bitmap (set);
    random_t random = random_from_seed (1);
    self->demands [job] = demand_new (&(sampler_join_t) { .data = data }, self->readable, IDS, false,
        &random);
    roaring_bitmap_free (data);
    dsa_join (self->dsa, job);
    self->sets [job] = set;
}

static void
s_regroup (played_t *self)
{
    static const size_t one_group [SAMPLER_JOBS_MAX];
    dsa_regroup (self->dsa, one_group);
}

//  What remains to the job that is next to a new one at this place.
static const roaring_bitmap_t *
s_neighbour (const played_t *self, const tree_t *tree, size_t place)
{
    size_t count = tree_count (tree), next = place < count? place: place - 1;
    return count == 0? NULL: demand_remaining (self->demands [tree_job (tree, next)]);
}

static void
s_set_up (played_t *self, const scene_t *scene)
{
    *self = (played_t) { .readable = s_bitmap ((1 << IDS) - 1) };
    self->dsa = dsa_new (IDS, self->demands, 7);
    for (uint32_t job = 0; job < scene->count; job++)
        s_add_job (self, job, scene->sets [job]);
    s_regroup (self);
    tree_t *tree = self->dsa->groups [0].tree = tree_new ();
    //  Those not on the path have not drawn for long.
    self->dsa->groups [0].rounds = 2 * IDLE_ROUNDS;
    for (uint32_t job = 0; job < scene->count; job++) {
        bool is_there = scene->on_path >> job & 1;
        if (is_there)
            tree_insert (tree, tree_count (tree), job, demand_remaining (self->demands [job]),
                s_neighbour (self, tree, tree_count (tree)));
        self->dsa->members [job].returns = false;
        self->dsa->members [job].round = is_there? 2 * IDLE_ROUNDS: 0;
    }
    if (scene->gone_set) {
        roaring_bitmap_t *gone = s_bitmap (scene->gone_set);
        size_t count = tree_count (tree);
        size_t place = scene->gone_place < count? scene->gone_place: count;
        tree_insert (tree, place, JOBS, gone, s_neighbour (self, tree, place));
        tree_remove (tree, JOBS);
        roaring_bitmap_free (gone);
    }
}

static void
s_tear_down (played_t *self)
{
    dsa_destroy (&self->dsa);
    for (uint32_t job = 0; job < JOBS; job++)
        demand_destroy (&self->demands [job]);
    roaring_bitmap_free (self->readable);
}

//  A uniform id of the class, as the sampler picks it, or of those that it accepts: these are as many.
static uint32_t
s_pick (dsa_t *dsa, random_t *random)
{
    uint32_t accepted [IDS], count = 0;
    for (uint32_t id = 0; id < IDS; id++)
        if (dsa_accepts (dsa, id))
            accepted [count++] = id;
    assert_int_equal (count, dsa->round.class_size);
    uint32_t id = s_script.redirects? accepted [s_dictated_below (random, count)]: dsa_pick (dsa, random);
    assert_true (dsa_accepts (dsa, id));
    return id;
}

//  A round.  Returns its outcome, an octal digit for each job that took part: the id.
static unsigned
s_round (played_t *self, uint8_t takes_part)
{
    uint32_t jobs [JOBS];
    size_t count = 0, offered, drawn = 0;
    for (uint32_t job = 0; job < JOBS; job++)
        if (takes_part >> job & 1 && self->sets [job])
            jobs [count++] = job;
    if (count == 0)
        return 0;
    unsigned outcome = 0;
    random_t random = random_from_seed (0);
    dsa_begin (self->dsa, jobs, count);
    for (const uint32_t *offer; dsa_offer (self->dsa, &random, &offer, &offered); drawn += offered) {
        uint32_t id = s_pick (self->dsa, &random);
        for (size_t index = 0; index < offered; index++) {
            assert_true (self->sets [offer [index]] >> id & 1);
            self->sets [offer [index]] &= (uint8_t) ~(1u << id);
            outcome += id << 3 * offer [index];
        }
        dsa_commit (self->dsa, id);
    }
    assert_int_equal (drawn, count);
    return outcome;
}

static void
s_check_tree (const played_t *self, bool is_fresh)
{
    const roaring_bitmap_t *remaining [SAMPLER_JOBS_MAX] = { NULL };
    for (uint32_t job = 0; job < JOBS; job++)
        if (self->demands [job])
            remaining [job] = demand_remaining (self->demands [job]);
    const tree_t *tree = self->dsa->groups [0].tree;
    tree_check (tree, remaining);
    assert_true (!is_fresh || tree_is_fresh (tree));
}

//  ------------------------------------------------------------------------------------------------
//  Laws

static double s_law [PUBLISHED_OUTCOMES], s_published [PUBLISHED_OUTCOMES];

static void
s_fail (const scene_t *scene, const char *what)
{
    fail_msg ("%s: %zu jobs with sets %x %x %x %x, %x take part, %x are on the path, gone %x at %zu", what,
        scene->count, scene->sets [0], scene->sets [1], scene->sets [2], scene->sets [3],
        scene->takes_part, scene->on_path, scene->gone_set, scene->gone_place);
}

//  Whether the law, which sums up to p, gives each job of the round each of its ids with equal probability.
static bool
s_is_uniform (const scene_t *scene, const uint8_t *sets, uint8_t takes_part, double p)
{
    double of [JOBS] [IDS] = { { 0 } };
    for (unsigned outcome = 0; outcome < PUBLISHED_OUTCOMES; outcome++)
        for (size_t job = 0; s_law [outcome] > 0 && job < scene->count && job < PUBLISHED_JOBS_MAX; job++)
            of [job] [outcome >> 3 * job & 7] += s_law [outcome];
    for (size_t job = 0; job < scene->count && job < PUBLISHED_JOBS_MAX; job++)
        for (unsigned id = 0; takes_part >> job & 1 && sets [job] && id < IDS; id++)
            if (fabs (of [job] [id] - (sets [job] >> id & 1? p / published_size (sets [job]): 0)) > 1e-9)
                return false;
    return true;
}

//  The scene's players in the order of the path, each where its last job stands, if sizes ascend there.
static bool
s_find_published (const scene_t *scene)
{
    published_players_t players = { .count = 0 };
    for (unsigned job = (unsigned) scene->count; job-- > 0; ) {
        if (job > 0 && published_size (scene->sets [job]) < published_size (scene->sets [job - 1]))
            return false;
        published_add (&players, 0, scene->sets [job], job);
    }
    memset (s_published, 0, sizeof s_published);
    published_law (&players, 1, 0, s_published);
    return true;
}

static void
s_play_round (const scene_t *scene)
{
    memset (s_law, 0, sizeof s_law);
    do {
        played_t played;
        s_run_begin ();
        s_set_up (&played, scene);
        unsigned outcome = s_round (&played, scene->takes_part);
        s_law [outcome] += s_script.p;
        s_check_tree (&played, !scene->gone_set);
        s_tear_down (&played);
    }
    while (s_run_next () != SIZE_MAX);
    if (!s_is_uniform (scene, scene->sets, scene->takes_part, 1))
        s_fail (scene, "a draw is not uniform");
    uint8_t all = (uint8_t) ((1 << scene->count) - 1);
    if (scene->gone_set || scene->takes_part != all || scene->on_path != all || !s_find_published (scene))
        return;
    for (unsigned outcome = 0; outcome < PUBLISHED_OUTCOMES; outcome++)
        if (fabs (s_law [outcome] - s_published [outcome]) > 1e-9)
            s_fail (scene, "the joint law is not the published one");
}

//  Whether no other names of the ids make the sets smaller, compared one after the other.
static bool
s_is_first_of_its_kind (const scene_t *scene, unsigned ids)
{
    for (unsigned names = 0; names < 256; names++) {
        unsigned of [4] = { names & 3, names >> 2 & 3, names >> 4 & 3, names >> 6 & 3 };
        unsigned used = 0;
        for (unsigned id = 0; id < ids; id++)
            used |= 1u << of [id];
        if (used != (1u << ids) - 1 || names >> 2 * ids)
            continue;
        int sign = 0;
        for (size_t job = 0; job <= scene->count && sign == 0; job++) {
            uint8_t set = job < scene->count? scene->sets [job]: scene->gone_set, named = 0;
            for (unsigned id = 0; id < ids; id++)
                named |= (uint8_t) ((set >> id & 1) << of [id]);
            sign = (named > set) - (named < set);
        }
        if (sign < 0)
            return false;
    }
    return true;
}

//  The sets of the scene's jobs from a number: false where another number has the same with other names.
static bool
s_number (scene_t *scene, unsigned number, unsigned ids)
{
    for (size_t job = 0; job < scene->count; job++) {
        scene->sets [job] = (uint8_t) (1 + number % ((1u << ids) - 1));
        number /= (1u << ids) - 1;
    }
    return number == 0 && s_is_first_of_its_kind (scene, ids);
}

static unsigned
s_numbers (size_t jobs, unsigned ids)
{
    unsigned numbers = 1;
    for (size_t job = 0; job < jobs; job++)
        numbers *= (1u << ids) - 1;
    return numbers;
}

//  ------------------------------------------------------------------------------------------------
//  Tests

//  15 sets, 225 pairs, 3,375 triples and 50,625 quadruples, each in the order that it is in, sorted or not.
static void
test_all_take_part (void **state)
{
    (void) state;
    s_script.sorts = s_script.redirects = false;
    for (size_t count = 1; count <= 4; count++)
        for (unsigned number = 0; number < s_numbers (count, IDS); number += count < 4? 1: STRIDE) {
            uint8_t all = (uint8_t) ((1 << count) - 1);
            scene_t scene = { .count = count, .takes_part = all, .on_path = all };
            if (s_number (&scene, number, IDS))
                s_play_round (&scene);
        }
}

//  Unsorted paths are sorted as the round begins: then sizes ascend, and the law is the published one.
static void
test_a_path_is_sorted (void **state)
{
    (void) state;
    s_script.sorts = true;
    for (unsigned number = 0; number < s_numbers (3, IDS); number++) {
        scene_t scene = { .count = 3, .takes_part = 7, .on_path = 7 };
        if (!s_number (&scene, number, IDS))
            continue;
        bool differ = true;
        for (size_t job = 0; job < 3; job++)
            differ &= published_size (scene.sets [job]) != published_size (scene.sets [(job + 1) % 3]);
        if (!differ)
            continue;
        s_play_round (&scene);
        scene_t sorted = scene;
        memset (s_published, 0, sizeof s_published);
        published_players_t players = { .count = 0 };
        for (int size = 1; size <= IDS; size++)
            for (unsigned job = 0; job < 3; job++)
                if (published_size (sorted.sets [job]) == size)
                    published_add (&players, players.count, sorted.sets [job], job);
        published_law (&players, 1, 0, s_published);
        for (unsigned outcome = 0; outcome < PUBLISHED_OUTCOMES; outcome++)
            if (fabs (s_law [outcome] - s_published [outcome]) > 1e-9)
                s_fail (&scene, "sorted, the joint law is not the published one");
    }
}

//  Some are not in the round, some not on the path, in all combinations.
static void
test_some_take_part (void **state)
{
    (void) state;
    s_script.sorts = s_script.redirects = false;
    for (unsigned number = 0; number < s_numbers (3, IDS); number++)
        for (uint8_t takes_part = 1; takes_part < 8; takes_part++)
            for (uint8_t on_path = 0; on_path < 8; on_path++) {
                scene_t scene = { .count = 3, .takes_part = takes_part, .on_path = on_path };
                if (s_number (&scene, number, IDS) && (number + takes_part + on_path) % STRIDE == 0)
                    s_play_round (&scene);
            }
}

//  A fourth job has left, and nothing was raised since.
static void
test_stale_sets (void **state)
{
    (void) state;
    s_script.sorts = s_script.redirects = false;
    for (unsigned number = 0; number < s_numbers (3, 3); number++)
        for (uint8_t set = 1; set < 8; set++)
            for (size_t place = 0; place < 4; place++)
                for (uint8_t takes_part = 1; takes_part < 8; takes_part++) {
                    scene_t scene = { .count = 3, .takes_part = takes_part, .on_path = 7, .gone_set = set,
                        .gone_place = place };
                    if (s_number (&scene, number, 3))
                        s_play_round (&scene);
                }
}

//  ---- two rounds

typedef enum { NOTHING, DROPS, LEAVES, BEGINS, JOINS, EVENTS } event_t;

static void
s_let_happen (played_t *self, event_t event)
{
    switch (event) {
    case DROPS:
        dsa_drop (self->dsa, 1);
        for (uint32_t job = 0; job < JOBS; job++)
            if (self->demands [job]) {
                demand_drop (self->demands [job], 1);
                self->sets [job] &= (uint8_t) ~2u;
            }
        break;
    case LEAVES:
        dsa_leave (self->dsa, 1);
        demand_destroy (&self->demands [1]);
        self->sets [1] = 0;
        s_regroup (self);
        break;
    case BEGINS:
        demand_epoch_begin (self->demands [1]);
        self->sets [1] = 0;
        for (uint32_t id = 0; id < IDS; id++)
            self->sets [1] |= (uint8_t) (demand_needs (self->demands [1], id) << id);
        dsa_epoch_begin (self->dsa, 1);
        break;
    case JOINS:
        s_add_job (self, 3, 6);
        s_regroup (self);
        break;
    case NOTHING: case EVENTS:
        break;
    }
    dsa_check (self->dsa);
}

//  Two rounds: each sequence of choices in the first makes a past, and the second is judged given it.
static void
s_play_two_rounds (const scene_t *scene, event_t event)
{
    memset (s_law, 0, sizeof s_law);
    scene_t after = *scene;
    after.count = 4;
    for (bool more = true; more; ) {
        played_t played;
        s_run_begin ();
        s_set_up (&played, scene);
        s_round (&played, scene->takes_part);
        size_t past = s_script.depth;
        double past_p = s_script.p;
        s_let_happen (&played, event);
        memcpy (after.sets, played.sets, sizeof after.sets);
        unsigned outcome = s_round (&played, 0xf);
        s_law [outcome] += s_script.p;
        dsa_check (played.dsa);
        s_tear_down (&played);
        size_t common = s_run_next ();
        more = common != SIZE_MAX;
        if (more && common >= past)
            continue;
        if (!s_is_uniform (&after, after.sets, 0xf, past_p))
            s_fail (scene, "given the past, a draw is not uniform");
        memset (s_law, 0, sizeof s_law);
    }
}

static void
test_what_is_between_two_rounds (void **state)
{
    (void) state;
    s_script.sorts = true;
    for (unsigned number = 0; number < s_numbers (3, 3); number++)
        for (event_t event = NOTHING; event < EVENTS; event++)
            for (uint8_t takes_part = 1; takes_part < 8; takes_part++) {
                scene_t scene = { .count = 3, .takes_part = takes_part, .on_path = 7 };
                //  Ids are not alike: one is dropped, and a set joins.
                s_number (&scene, number, 3);
                s_script.redirects = number % 2;
                if ((number + takes_part) % STRIDE == 0)
                    s_play_two_rounds (&scene, event);
            }
}

//  ------------------------------------------------------------------------------------------------
//  The path changes little by little.  Chance is not judged here: the first of all choices is made.

//  A scene where each round has work for one insertion and one swap.
static void
s_set_up_slow (played_t *self, const scene_t *scene)
{
    s_script.sorts = true;
    s_script.redirects = false;
    s_script.known = 0;
    s_run_begin ();
    s_set_up (self, scene);
    self->dsa->containers = INSERT_WORK + SWAP_WORK;
}

//  Choices are forgotten, so that rounds are not limited in number.
static void
s_slow_round (played_t *self, uint8_t takes_part)
{
    s_round (self, takes_part);
    s_script.known = 0;
    s_run_begin ();
    dsa_check (self->dsa);
}

static void
test_a_round_inserts_one_job (void **state)
{
    (void) state;
    scene_t scene = { .count = 4, .sets = { 15, 15, 15, 15 }, .takes_part = 15 };
    played_t played;
    s_set_up_slow (&played, &scene);
    for (uint32_t job = 0; job < 4; job++)
        played.dsa->members [job].returns = true;
    for (size_t round = 1; round < 4; round++) {
        s_slow_round (&played, 15);
        assert_int_equal (tree_count (played.dsa->groups [0].tree), round);
    }
    s_slow_round (&played, 15);         //  nothing is left to any of them
    assert_int_equal (tree_count (played.dsa->groups [0].tree), 0);
    s_tear_down (&played);
}

static void
test_a_round_swaps_one_pair (void **state)
{
    (void) state;
    scene_t scene = { .count = 4, .sets = { 15, 7, 3, 1 }, .takes_part = 1, .on_path = 15 };
    played_t played;
    s_set_up_slow (&played, &scene);
    for (size_t out_of_order = 6; out_of_order > 3; out_of_order--) {
        const tree_t *tree = played.dsa->groups [0].tree;
        size_t found = 0;
        for (size_t back = 0; back < 4; back++)
            for (size_t front = 0; front < back; front++)
                found += tree_job (tree, front) < tree_job (tree, back);
        assert_int_equal (found, out_of_order);
        dsa_begin (played.dsa, &(uint32_t) { 0 }, 1);
    }
    s_tear_down (&played);
}

//  A job that sits out IDLE_ROUNDS rounds leaves; it comes back when it draws twice.
static void
test_an_idle_job_leaves_the_path (void **state)
{
    (void) state;
    scene_t scene = { .count = 3, .sets = { 15, 15, 6 }, .takes_part = 7, .on_path = 7 };
    played_t played;
    s_set_up_slow (&played, &scene);
    for (int round = 0; round <= IDLE_ROUNDS; round++) {
        assert_int_not_equal (tree_place (played.dsa->groups [0].tree, 2), TREE_NOWHERE);
        if (!played.sets [0])
            for (uint32_t job = 0; job < 2; job++) {
                demand_epoch_begin (played.demands [job]);
                dsa_epoch_begin (played.dsa, job);
                played.sets [job] = 15;
            }
        s_slow_round (&played, 3);
    }
    assert_int_equal (tree_place (played.dsa->groups [0].tree, 2), TREE_NOWHERE);
    s_slow_round (&played, 4);
    assert_int_equal (tree_place (played.dsa->groups [0].tree, 2), TREE_NOWHERE);
    dsa_begin (played.dsa, &(uint32_t) { 2 }, 1);
    assert_int_not_equal (tree_place (played.dsa->groups [0].tree, 2), TREE_NOWHERE);
    s_tear_down (&played);
}

//  The broker draws in bursts: a job that took part in a row of rounds may sit out 64 times as many, and at
//  most a sixteenth of the samples.
static void
test_a_burst_is_waited_for (void **state)
{
    (void) state;
    scene_t scene = { .count = 2, .sets = { 15, 15 }, .takes_part = 3, .on_path = 3 };
    played_t played;
    s_set_up_slow (&played, &scene);
    static const struct { uint8_t takes_part; uint64_t run; } rounds [] = { { 3, 1 }, { 3, 2 }, { 1, 2 },
        { 2, 1 } };
    played.dsa->groups [0].rounds++;                //  a gap
    for (size_t round = 0; round < 4; round++) {
        s_slow_round (&played, rounds [round].takes_part);
        assert_int_equal (played.dsa->members [1].run, rounds [round].run);
    }
    s_tear_down (&played);
    static const struct { uint32_t samples; uint64_t run, waits; } rows [] = { { 1280000, 0, 64 },
        { 1280000, 1, 64 }, { 1280000, 256, 16384 }, { 1280000, 100000, 80000 }, { 100, 100000, 64 } };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        dsa_t dsa = { .sample_count = rows [row].samples,
            .members = { { .round = 7, .run = rows [row].run } } };
        assert_false (s_is_idle (&dsa, &(group_t) { .rounds = 7 + rows [row].waits }, 0));
        assert_true (s_is_idle (&dsa, &(group_t) { .rounds = 8 + rows [row].waits }, 0));
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_all_take_part),
        cmocka_unit_test (test_a_path_is_sorted),
        cmocka_unit_test (test_some_take_part),
        cmocka_unit_test (test_stale_sets),
        cmocka_unit_test (test_what_is_between_two_rounds),
        cmocka_unit_test (test_a_round_inserts_one_job),
        cmocka_unit_test (test_a_round_swaps_one_pair),
        cmocka_unit_test (test_an_idle_job_leaves_the_path),
        cmocka_unit_test (test_a_burst_is_waited_for),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
