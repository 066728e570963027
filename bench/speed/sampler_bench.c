/*  sampler_bench -- what the sampler's decisions cost in time and memory, beside what CRoaring costs for the
 *  same sets in the same run.  One thread; figures are of this machine at this moment, so compare the ratios.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "clock.h"
#include "option.h"
#include "random.h"
#include "sampler.h"
#include "sharing_tree.h"

enum { JOBS_MAX = 256, VERSIONS_SHARE = 50 };

static void *
s_need (void *memory)
{
    if (!memory) {
        fprintf (stderr, "sampler_bench: no memory\n");
        exit (1);
    }
    return memory;
}

//  A random set of count ids from `from` to before `to`.
static roaring_bitmap_t *
s_random_set (random_t *random, uint32_t from, uint32_t to, uint32_t count)
{
    uint32_t *ids = s_need (malloc (count * sizeof *ids)), found = 0;
    for (uint32_t id = from; id < to; id++)
        if (random_below (random, to - id) < count - found)
            ids [found++] = id;
    roaring_bitmap_t *set = s_need (roaring_bitmap_of_ptr (count, ids));
    free (ids);
    return set;
}

//  ---- the yardstick: CRoaring itself

//  Select at a random rank and remove, until the set is empty: removals a second.
static double
s_bare_rate (uint32_t samples)
{
    random_t random = random_from_seed (1);
    roaring_bitmap_t *set = roaring_bitmap_from_range (0, samples, 1);
    roaring_bitmap_remove_run_compression (set);
    double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
    for (uint32_t left = samples; left > 0; left--) {
        uint32_t id = 0;
        roaring_bitmap_select (set, (uint32_t) random_below (&random, left), &id);
        roaring_bitmap_remove (set, id);
    }
    double seconds = clock_seconds (CLOCK_PROCESS_CPUTIME_ID) - begin;
    roaring_bitmap_free (set);
    return samples / seconds;
}

//  ---- inserting data sets

//  One sample for each job of the group.
static void
s_draw_all (sampler_t *sampler, size_t group)
{
    size_t count;
    const uint32_t *jobs = sampler_group (sampler, group, &count);
    sampler_offer_t offer;
    sampler_round_begin (sampler, jobs, count);
    while (sampler_offer (sampler, &offer))
        sampler_commit (sampler, sampler_pick (sampler));
}

//  Of 128 random sets of least to twice as many samples, each beside those before it.
static json_t *
s_measure_inserts (sampler_policy_t policy, uint32_t samples, uint32_t least)
{
    enum { SETS = 128, ANDS = 20 };
    random_t random = random_from_seed (2);
    roaring_bitmap_t *sets [SETS];
    for (int set = 0; set < SETS; set++)
        sets [set] = s_random_set (&random, 0, samples, least + (uint32_t) random_below (&random, least));
    double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
    for (int turn = 0; turn < ANDS; turn++)
        roaring_bitmap_free (roaring_bitmap_and (sets [turn], sets [turn + 1]));
    double and_seconds = (clock_seconds (CLOCK_PROCESS_CPUTIME_ID) - begin) / ANDS;
    sampler_t *sampler = sampler_new (samples, policy, 3);
    double total = 0, worst = 0, seconds = 0;
    json_t *each = json_array ();
    for (int set = 0; set < SETS; set++) {
        begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
        sampler_join (sampler, &(sampler_join_t) { .data = sets [set] });
        //  What the first draws of all these jobs need belongs to the insertion, whenever it is done.
        for (size_t group = 0; group < sampler_group_count (sampler); group++)
            s_draw_all (sampler, group);
        seconds = clock_seconds (CLOCK_PROCESS_CPUTIME_ID) - begin;
        total += seconds;
        worst = seconds > worst? seconds: worst;
        json_array_append_new (each, json_real (seconds * 1e3));
    }
    uint32_t followers = 0;
    for (uint32_t job = 0; job < SETS; job++)
        followers += sampler_follows (sampler, job);
    json_t *out = json_pack ("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:i, s:o}", "policy",
        policy == SAMPLER_POLICY_DSA? "dsa": "follow", "samples", (int) samples, "sets", SETS, "least",
        (int) least, "and_ms", and_seconds * 1e3, "mean_ms", total / SETS * 1e3, "worst_ms", worst * 1e3,
        "last_ms", seconds * 1e3, "mean_in_ands", total / SETS / and_seconds, "follow", (int) followers,
        "each_ms", each);
    sampler_destroy (&sampler);
    for (int set = 0; set < SETS; set++)
        roaring_bitmap_free (sets [set]);
    return out;
}

static json_t *
s_measure_all_inserts (void)
{
    json_t *all = json_array ();
    json_array_append_new (all, s_measure_inserts (SAMPLER_POLICY_DSA, 10000000, 1000000));
    json_array_append_new (all, s_measure_inserts (SAMPLER_POLICY_DSA, 2000000, 1000000));
    json_array_append_new (all, s_measure_inserts (SAMPLER_POLICY_FOLLOW, 2000000, 1000000));
    return all;
}

//  ---- decisions

//  The newest versions, a ring; each serves a job once.  As lean as it can be: what is measured is the
//  sampler.
typedef struct {
    uint32_t id, older;             //  older: the next version of the same id, index + 1; 0: none
    uint64_t ticket;
    uint64_t seen [JOBS_MAX / 64];
} item_t;

typedef struct {
    sampler_t *sampler;
    item_t *items;
    uint32_t room, next;
    uint32_t *of;                   //  by id: its newest version, index + 1; 0: none
    uint64_t prepared;
} store_t;

static bool
s_seen (const item_t *item, uint32_t job)
{
    return item->seen [job / 64] >> job % 64 & 1;
}

static void
s_forget_oldest (store_t *self)
{
    item_t *item = &self->items [self->next];
    if (!item->ticket)
        return;
    sampler_lost (self->sampler);
    sampler_reusable_remove (self->sampler, item->ticket);
    uint32_t *link = &self->of [item->id];
    while (*link != self->next + 1)
        link = &self->items [*link - 1].older;
    *link = item->older;
    item->ticket = 0;
}

static void
s_schedule (store_t *self, uint32_t job, uint32_t id, uint32_t jobs)
{
    sampler_prefetch (self->sampler, id);
    s_forget_oldest (self);
    item_t *item = &self->items [self->next];
    *item = (item_t) { .id = id, .older = self->of [id], .ticket = sampler_reusable_add (self->sampler, id) };
    item->seen [job / 64] |= UINT64_C (1) << job % 64;
    self->of [id] = ++self->next;
    self->next %= self->room;
    self->prepared++;
    for (uint32_t other = 0; other < jobs; other++)
        if (other != job && sampler_follows (self->sampler, other)
        &&  sampler_needs (self->sampler, other, id))
            sampler_allow (self->sampler, item->ticket, other);
}

//  The job has drawn id: it takes the newest version it has not seen, or a new one; of the others it needs
//  none.
static void
s_serve (store_t *self, uint32_t job, uint32_t id, uint32_t jobs)
{
    bool served = false;
    for (uint32_t at = self->of [id]; at; at = self->items [at - 1].older) {
        item_t *item = &self->items [at - 1];
        if (s_seen (item, job))
            continue;
        sampler_forbid (self->sampler, item->ticket, job);
        if (!served)
            item->seen [job / 64] |= UINT64_C (1) << job % 64;
        served = true;
    }
    if (!served)
        s_schedule (self, job, id, jobs);
}

static void
s_begin_epoch (store_t *self, uint32_t job)
{
    sampler_epoch_begin (self->sampler, job);
    for (uint32_t index = 0; index < self->room && sampler_follows (self->sampler, job); index++) {
        const item_t *item = &self->items [index];
        if (item->ticket && !s_seen (item, job) && sampler_needs (self->sampler, job, item->id))
            sampler_allow (self->sampler, item->ticket, job);
    }
}

typedef struct {
    sampler_policy_t policy;
    uint32_t samples, jobs;
    bool overlap;                   //  job j has three quarters of the data, from j/jobs of a quarter on
    bool staggered;                 //  job j is j/jobs of an epoch ahead
    bool speeds;                    //  job j takes part in 1 - 3/4 j/jobs of the rounds: each round has other
                                    //  jobs
    bool bursts;                    //  as the broker draws: see s_burst; job j has speed 1 - 3/4 j/jobs
    double epochs;                  //  of draws that are timed
} play_t;

static void
s_round (store_t *store, const uint32_t *jobs, uint32_t count, uint32_t all)
{
    sampler_offer_t offer;
    sampler_round_begin (store->sampler, jobs, count);
    while (sampler_offer (store->sampler, &offer)) {
        uint32_t job = offer.jobs [0], id = sampler_pick (store->sampler);
        sampler_commit (store->sampler, id);
        //  Of a group some may follow while others draw along common passes.
        if (sampler_follows (store->sampler, job))
            s_serve (store, job, id, all);
    }
    for (uint32_t place = 0; place < count; place++)
        if (sampler_remaining (store->sampler, jobs [place]) == 0)
            s_begin_epoch (store, jobs [place]);
}

//  A round of each group, with the jobs that take part.  Returns the number of draws.
static uint32_t
s_rounds (store_t *store, const play_t *play, random_t *random, const uint32_t *numbers)
{
    bool takes_part [JOBS_MAX] = { false };
    for (uint32_t job = 0; job < play->jobs; job++)
        takes_part [numbers [job]] = !play->speeds
            || random_below (random, 4 * play->jobs) < 4 * play->jobs - 3 * job;
    uint32_t draws = 0;
    for (size_t group = 0; group < sampler_group_count (store->sampler); group++) {
        size_t members;
        const uint32_t *member = sampler_group (store->sampler, group, &members);
        uint32_t jobs [JOBS_MAX], count = 0;
        for (size_t place = 0; place < members; place++)
            if (takes_part [member [place]])
                jobs [count++] = member [place];
        if (count > 0)
            s_round (store, jobs, count, play->jobs);
        draws += count;
    }
    return draws;
}

//  By job, in samples: what it has drawn, and what its client has consumed.  Whole batches of the latter are
//  room again.
typedef struct {
    uint64_t drawn [JOBS_MAX];
    double consumed [JOBS_MAX];
    double worst;                   //  seconds of the longest round
} bursts_t;

enum { BURST_BATCH = 256, BURST_WINDOW = 3 * BURST_BATCH, BURST_TICK = 32 };

static uint64_t
s_unreleased (const bursts_t *bursts, uint32_t job)
{
    return bursts->drawn [job] - (uint64_t) bursts->consumed [job] / BURST_BATCH * BURST_BATCH;
}

//  One round of the group, if any job's window lacks a batch: all that have room take part.  Returns the
//  number of draws.
static uint32_t
s_burst_round (store_t *store, const play_t *play, bursts_t *bursts, size_t group)
{
    size_t members;
    const uint32_t *member = sampler_group (store->sampler, group, &members);
    uint32_t jobs [JOBS_MAX], count = 0;
    bool is_needed = false;
    for (size_t place = 0; place < members; place++) {
        uint64_t unreleased = s_unreleased (bursts, member [place]);
        if (unreleased < BURST_WINDOW)
            jobs [count++] = member [place];
        is_needed = is_needed || unreleased < BURST_WINDOW - BURST_BATCH;
    }
    if (!is_needed)
        return 0;
    double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
    s_round (store, jobs, count, play->jobs);
    double seconds = clock_seconds (CLOCK_PROCESS_CPUTIME_ID) - begin;
    bursts->worst = seconds > bursts->worst? seconds: bursts->worst;
    for (uint32_t place = 0; place < count; place++)
        bursts->drawn [jobs [place]]++;
    return count;
}

//  Clients consume for a while, and then the groups draw as the broker does.
static uint32_t
s_burst (store_t *store, const play_t *play, bursts_t *bursts)
{
    uint32_t draws = 0, drawn;
    for (uint32_t job = 0; job < play->jobs; job++) {
        double consumed = bursts->consumed [job] + BURST_TICK * (1 - 0.75 * job / play->jobs);
        bursts->consumed [job] = consumed < (double) bursts->drawn [job]? consumed:
            (double) bursts->drawn [job];
    }
    for (size_t group = 0; group < sampler_group_count (store->sampler); group++)
        while ((drawn = s_burst_round (store, play, bursts, group)) > 0)
            draws += drawn;
    return draws;
}

//  Nanoseconds a job-draw.
static double
s_decide (const play_t *play, bursts_t *bursts, uint64_t *prepared_p)
{
    store_t store = { .sampler = sampler_new (play->samples, play->policy, 5),
        .room = play->samples / VERSIONS_SHARE };
    store.items = s_need (calloc (store.room, sizeof *store.items));
    store.of = s_need (calloc (play->samples, sizeof *store.of));
    uint32_t numbers [JOBS_MAX];
    for (uint32_t job = 0; job < play->jobs; job++) {
        uint32_t quarter = play->samples / 4;
        uint32_t from = play->overlap? (uint32_t) ((uint64_t) quarter * job / play->jobs): 0;
        roaring_bitmap_t *data = roaring_bitmap_from_range (from,
            play->overlap? from + 3 * quarter: play->samples, 1);
        numbers [job] = sampler_join (store.sampler, &(sampler_join_t) { .data = data });
        assert (numbers [job] < JOBS_MAX);
        roaring_bitmap_free (data);
    }
    uint32_t size = play->overlap? play->samples / 4 * 3: play->samples;
    for (uint32_t job = 1; play->staggered && job < play->jobs; job++)
        for (uint32_t step = 0; step < (uint64_t) size * job / play->jobs; step++)
            s_round (&store, &numbers [job], 1, play->jobs);
    uint64_t rounds = (uint64_t) (play->epochs * size), draws = 0;
    random_t random = random_from_seed (6);
    store.prepared = 0;
    double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t round = 0; round < rounds && !play->bursts; round++)
        draws += s_rounds (&store, play, &random, numbers);
    while (play->bursts && bursts->drawn [0] < rounds)
        draws += s_burst (&store, play, bursts);
    double seconds = clock_seconds (CLOCK_PROCESS_CPUTIME_ID) - begin;
    *prepared_p = store.prepared;
    sampler_destroy (&store.sampler);
    free (store.items);
    free (store.of);
    return seconds * 1e9 / (double) draws;
}

static json_t *
s_measure_decisions (const play_t *play, double bare_rate)
{
    uint64_t prepared;
    bursts_t bursts = { .worst = 0 };
    double ns = s_decide (play, &bursts, &prepared);
    return json_pack ("{s:s, s:i, s:i, s:b, s:b, s:b, s:b, s:f, s:f, s:f, s:f}", "policy",
        play->policy == SAMPLER_POLICY_DSA? "dsa": "follow", "samples", (int) play->samples, "jobs",
        (int) play->jobs,
        "overlap", play->overlap, "staggered", play->staggered, "speeds", play->speeds,
        "bursts", play->bursts,
        "worst_round_us", bursts.worst * 1e6, "ns_a_draw", ns,
        "draws_a_second", 1e9 / ns,
        "to_select_and_remove", 1e9 / ns / bare_rate);
}

//  only: NULL, or the name of a policy.
static json_t *
s_measure_all_decisions (uint32_t samples, double bare_rate, const char *only)
{
    static const struct { uint32_t jobs; bool overlap, staggered, speeds, bursts; } plays [] = {
        { .jobs = 1 }, { .jobs = 4 }, { .jobs = 16 }, { .jobs = 64 }, { .jobs = 128 },
        { .jobs = 16, .staggered = true }, { .jobs = 16, .overlap = true },
        { .jobs = 16, .overlap = true, .staggered = true }, { .jobs = 128, .staggered = true },
        { .jobs = 8, .speeds = true }, { .jobs = 32, .speeds = true }, { .jobs = 128, .speeds = true },
        { .jobs = 128, .staggered = true, .speeds = true },
        { .jobs = 128, .overlap = true, .speeds = true }, { .jobs = 128, .bursts = true },
        { .jobs = 128, .bursts = true, .staggered = true } };
    json_t *all = json_array ();
    for (int policy = 0; policy < 2; policy++)
        for (size_t index = 0; index < sizeof plays / sizeof *plays; index++) {
            if (only && strcmp (only, policy? "follow": "dsa") != 0)
                continue;
            //  Some ten million draws each, but into the second epoch, where quotas come into play: so that
            //  many jobs have fewer samples.
            play_t play = { .policy = policy? SAMPLER_POLICY_FOLLOW: SAMPLER_POLICY_DSA,
                .samples = plays [index].jobs > 16? samples / 8: samples,
                .jobs = plays [index].jobs, .overlap = plays [index].overlap,
                .staggered = plays [index].staggered,
                .speeds = plays [index].speeds, .bursts = plays [index].bursts, .epochs = 1.2 };
            json_array_append_new (all, s_measure_decisions (&play, bare_rate));
        }
    return all;
}

//  ---- memory

static size_t
s_memory (void)
{
    struct mallinfo2 info = mallinfo2 ();
    return info.uordblks + info.hblkhd;
}

//  ---- changes, under `dsa`

typedef enum { DATA_EQUAL, DATA_OVERLAPPING, DATA_RANDOM, DATA_KINDS } data_kind_t;

static const char *const s_kind_names [DATA_KINDS] = { "equal", "overlapping", "random halves" };

typedef struct { double total, worst; uint64_t count; } times_t;

typedef struct {
    sampler_t *sampler;
    random_t random;
    uint32_t samples, jobs;
    uint64_t draws;
    times_t joins, begins, restarts, leaves, rounds;
} changes_t;

static void
s_note_time (times_t *times, double begin)
{
    double seconds = clock_seconds (CLOCK_PROCESS_CPUTIME_ID) - begin;
    times->total += seconds;
    times->worst = seconds > times->worst? seconds: times->worst;
    times->count++;
}

//  Job j takes part in 1 - 3/4 j/jobs of the rounds, and begins an epoch when nothing is left.  The job
//  `certain` takes part in any case, and only the caller begins its epochs.
static void
s_change_round (changes_t *self, uint32_t certain)
{
    for (size_t group = 0; group < sampler_group_count (self->sampler); group++) {
        size_t members;
        const uint32_t *member = sampler_group (self->sampler, group, &members);
        uint32_t jobs [JOBS_MAX], count = 0;
        for (size_t place = 0; place < members; place++)
            if (sampler_remaining (self->sampler, member [place]) > 0 && (member [place] == certain
                    || random_below (&self->random, 4 * self->jobs) < 4 * self->jobs - 3 * member [place]))
                jobs [count++] = member [place];
        if (count == 0)
            continue;
        sampler_offer_t offer;
        for (sampler_round_begin (self->sampler, jobs, count); sampler_offer (self->sampler, &offer); )
            sampler_commit (self->sampler, sampler_pick (self->sampler));
        self->draws += count;
        for (uint32_t place = 0; place < count; place++)
            if (jobs [place] != certain && sampler_remaining (self->sampler, jobs [place]) == 0)
                sampler_epoch_begin (self->sampler, jobs [place]);
    }
}

//  Where the job's data begin; they end at *to_p.
static uint32_t
s_change_range (const changes_t *self, data_kind_t kind, uint32_t job, uint32_t *to_p)
{
    uint32_t quarter = self->samples / 4;
    uint32_t from = kind != DATA_OVERLAPPING? 0:
        (uint32_t) ((uint64_t) quarter * (job * 7 % self->jobs) / self->jobs);
    *to_p = kind != DATA_OVERLAPPING? self->samples: from + 3 * quarter;
    return from;
}

//  A job joins, in an epoch that has one sample left, or of which it has taken job/jobs.
static void
s_change_join (changes_t *self, data_kind_t kind, uint32_t job, bool ends)
{
    uint32_t to, from = s_change_range (self, kind, job, &to);
    roaring_bitmap_t *data = kind == DATA_RANDOM? s_random_set (&self->random, 0, self->samples,
        self->samples / 2): roaring_bitmap_from_range (from, to, 1);
    roaring_bitmap_t *taken = s_random_set (&self->random, from, to,
        ends? to - from: (uint32_t) ((uint64_t) (to - from) * job / self->jobs));
    roaring_bitmap_and_inplace (taken, data);
    if (ends)
        roaring_bitmap_remove (taken, roaring_bitmap_minimum (taken));
    double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
    sampler_join (self->sampler, &(sampler_join_t) { .data = data, .taken = taken });
    s_change_round (self, job);         //  the insertion is part of the join
    if (!ends)
        s_note_time (&self->joins, begin);
    roaring_bitmap_free (data);
    roaring_bitmap_free (taken);
}

//  The job begins an epoch, and comes to the tree.
static void
s_change_begin (changes_t *self, times_t *times, uint32_t job)
{
    double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
    sampler_epoch_begin (self->sampler, job);
    s_change_round (self, job);
    s_note_time (times, begin);
}

static json_t *
s_times (const times_t *times, double unit)
{
    return json_pack ("{s:f, s:f}", "mean", times->total / (double) times->count * unit, "worst",
        times->worst * unit);
}

static json_t *
s_measure_changes (uint32_t samples, uint32_t jobs, data_kind_t kind)
{
    enum { EVENTS = 32, ROUNDS = 2000 };
    changes_t self = { .samples = samples, .jobs = jobs, .random = random_from_seed (8) };
    size_t before = s_memory ();
    self.sampler = sampler_new (samples, SAMPLER_POLICY_DSA, 9);
    for (uint32_t job = 0; job < jobs; job++)
        s_change_join (&self, kind, job, false);
    for (int round = 0; round < ROUNDS; round++)        //  until all is in its place
        s_change_round (&self, JOBS_MAX);
    self.draws = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
        s_change_round (&self, JOBS_MAX);
        s_note_time (&self.rounds, begin);
    }
    uint64_t draws = self.draws;
    size_t bytes = s_memory () - before;
    uint32_t events = jobs < EVENTS? jobs: EVENTS;
    for (uint32_t event = 0; event < events; event++)
        s_change_begin (&self, &self.restarts, event * jobs / events);
    for (uint32_t event = 0; event < events; event++) {
        uint32_t job = event * jobs / events;
        double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
        sampler_leave (self.sampler, job);
        s_note_time (&self.leaves, begin);
        s_change_join (&self, kind, job, true);         //  it gets the number that has become free
        s_change_begin (&self, &self.begins, job);
    }
    sampler_destroy (&self.sampler);
    return json_pack ("{s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:f}",
        "samples", (int) samples, "jobs", (int) jobs, "data", s_kind_names [kind],
        "join_ms", s_times (&self.joins, 1e3), "begin_ms", s_times (&self.begins, 1e3),
        "restart_ms", s_times (&self.restarts, 1e3), "leave_ms", s_times (&self.leaves, 1e3),
        "round_us", s_times (&self.rounds, 1e6),
        "draw_ns", self.rounds.total / (double) draws * 1e9, "bytes_a_sample", (double) bytes / samples);
}

static json_t *
s_measure_all_changes (uint32_t samples)
{
    static const uint32_t counts [] = { 2, 8, 32, 128, 256 };
    json_t *all = json_array ();
    for (int kind = 0; kind < DATA_KINDS; kind++)
        for (size_t index = 0; index < sizeof counts / sizeof *counts; index++)
            json_array_append_new (all, s_measure_changes (samples, counts [index], (data_kind_t) kind));
    return all;
}

//  ---- the tree as status shows it

//  How long the sampler's thread takes to make a picture of all jobs, anywhere in their epochs.
static json_t *
s_measure_view (sampler_policy_t policy, uint32_t samples, uint32_t jobs, data_kind_t kind)
{
    enum { TURNS = 20, ROUNDS = 200 };
    changes_t self = { .samples = samples, .jobs = jobs, .random = random_from_seed (10) };
    self.sampler = sampler_new (samples, policy, 11);
    for (uint32_t job = 0; job < jobs; job++)
        s_change_join (&self, kind, job, false);
    times_t times = { .total = 0 };
    uint32_t numbers [JOBS_MAX], looked_at = 0;
    for (uint32_t job = 0; job < jobs; job++)
        numbers [job] = job;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int round = 0; round < ROUNDS; round++)
            s_change_round (&self, JOBS_MAX);
        size_t members;
        sampler_group (self.sampler, 0, &members);
        double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
        sharing_tree_t *tree = sharing_tree_of (self.sampler, numbers, jobs, members == jobs,
            sharing_tree_ids (sharing_tree_weight (jobs)));
        s_note_time (&times, begin);
        looked_at = tree->looked_at;
        sharing_tree_destroy (&tree);
    }
    sampler_destroy (&self.sampler);
    return json_pack ("{s:s, s:i, s:i, s:s, s:i, s:o}", "policy",
        policy == SAMPLER_POLICY_DSA? "dsa": "follow", "samples", (int) samples, "jobs", (int) jobs,
        "data", s_kind_names [kind], "looked_at", (int) looked_at, "view_ms", s_times (&times, 1e3));
}

static json_t *
s_measure_all_views (uint32_t samples)
{
    static const uint32_t counts [] = { 1, 2, 5, 20, 128 };
    json_t *all = json_array ();
    for (int policy = 0; policy < 2; policy++)
        for (int kind = 0; kind < DATA_KINDS; kind++)
            for (size_t index = 0; index < sizeof counts / sizeof *counts; index++)
                if (!policy || kind == DATA_EQUAL)
                    json_array_append_new (all, s_measure_view (policy? SAMPLER_POLICY_FOLLOW:
                        SAMPLER_POLICY_DSA, samples, counts [index], (data_kind_t) kind));
    return all;
}

//  Bytes a sample, all structures together, in the second epoch with a full reusable set.
static json_t *
s_measure_memory (sampler_policy_t policy, uint32_t samples, uint32_t jobs, bool scattered)
{
    random_t random = random_from_seed (7);
    roaring_bitmap_t *half = s_random_set (&random, 0, samples, samples / 2);
    roaring_bitmap_t *all = roaring_bitmap_from_range (0, samples, 1);
    size_t before = s_memory ();
    sampler_t *sampler = sampler_new (samples, policy, 5);
    for (uint32_t job = 0; job < jobs; job++)
        sampler_join (sampler, &(sampler_join_t) { .data = scattered? half: all });
    for (uint32_t job = 0; job < jobs; job++)
        sampler_epoch_begin (sampler, job);
    for (uint32_t job = 0; policy == SAMPLER_POLICY_DSA && job < jobs; job++)
        s_draw_all (sampler, 0);        //  each round inserts a job into the tree, or more
    for (uint32_t id = 0; policy == SAMPLER_POLICY_FOLLOW && id < samples; id++) {
        uint64_t ticket = sampler_reusable_add (sampler, id);
        if (sampler_needs (sampler, 0, id))
            for (uint32_t job = 0; job < jobs; job++)
                sampler_allow (sampler, ticket, job);
    }
    size_t bytes = s_memory () - before;
    sampler_destroy (&sampler);
    roaring_bitmap_free (half);
    roaring_bitmap_free (all);
    return json_pack ("{s:s, s:i, s:i, s:b, s:f, s:f}", "policy",
        policy == SAMPLER_POLICY_DSA? "dsa": "follow",
        "samples", (int) samples, "jobs", (int) jobs, "scattered", scattered, "bytes_a_sample",
        (double) bytes / samples, "of_allowance", (double) bytes / samples / (jobs + 12.0));
}

static json_t *
s_measure_all_memory (void)
{
    json_t *all = json_array ();
    static const uint32_t sizes [] = { 100000, 1280000 }, counts [] = { 1, 16, 128 };
    for (int policy = 0; policy < 2; policy++)
        for (int size = 0; size < 2; size++)
            for (int count = 0; count < 3; count++)
                for (int scattered = 0; scattered < 2; scattered++)
                    json_array_append_new (all,
                        s_measure_memory (policy? SAMPLER_POLICY_FOLLOW: SAMPLER_POLICY_DSA,
                        sizes [size], counts [count], scattered));
    return all;
}

//  ---- saying it

static double
s_real (const json_t *object, const char *key)
{
    return json_number_value (json_object_get (object, key));
}

static void
s_print_inserts (const json_t *inserts)
{
    const json_t *one;
    size_t index;
    printf ("Inserting 128 random data sets, each beside those before it, with a draw of each job\n"
        "(JOADER's paper: 1 to 2 million of 10 million, 570 ms on average)\n"
        "%-8s %24s %14s %14s %10s %10s %10s\n", "policy", "samples", "`and` of 2, ms", "mean, in `and`s",
        "mean, ms", "worst, ms", "last, ms");
    json_array_foreach (inserts, index, one) {
        char samples [60];
        snprintf (samples, sizeof samples, "%g to %g of %g million", s_real (one, "least") / 1e6,
            s_real (one, "least") / 5e5, s_real (one, "samples") / 1e6);
        printf ("%-8s %24s %14.3f %14.0f %10.2f %10.2f %10.2f\n", json_string_value (json_object_get (one,
            "policy")), samples, s_real (one, "and_ms"), s_real (one, "mean_in_ands"),
            s_real (one, "mean_ms"), s_real (one, "worst_ms"), s_real (one, "last_ms"));
    }
}

static void
s_print_changes (const json_t *changes)
{
    const json_t *each;
    size_t index;
    static const char *const times [] = { "join_ms", "begin_ms", "restart_ms", "leave_ms", "round_us" };
    printf ("\nChanges under `dsa`, jobs of many speeds, out of step; mean and worst\n"
        "%-14s %5s %16s %16s %16s %16s %16s %10s %14s\n", "data", "jobs", "join, ms", "epoch begin, ms",
        "in mid-epoch, ms", "departure, ms", "round, us", "a draw, ns", "bytes a sample");
    json_array_foreach (changes, index, each) {
        printf ("%-14s %5d ", json_string_value (json_object_get (each, "data")),
            (int) s_real (each, "jobs"));
        for (size_t kind = 0; kind < sizeof times / sizeof *times; kind++) {
            const json_t *time = json_object_get (each, times [kind]);
            printf ("%8.2f %7.2f ", s_real (time, "mean"), s_real (time, "worst"));
        }
        printf ("%10.0f %14.1f\n", s_real (each, "draw_ns"), s_real (each, "bytes_a_sample"));
    }
}

static void
s_print_decisions (const json_t *decisions)
{
    const json_t *each;
    size_t index;
    printf ("\n%-8s %5s %-51s %12s %14s %22s\n", "policy", "jobs", "data", "ns a draw", "million a s",
        "to select and remove");
    json_array_foreach (decisions, index, each) {
        char data [60];
        bool staggered = json_is_true (json_object_get (each, "staggered"));
        if (json_is_true (json_object_get (each, "bursts")))
            snprintf (data, sizeof data, "equal, bursts%s, round %.0f us at most",
                staggered? ", out of step": "", s_real (each, "worst_round_us"));
        else
            snprintf (data, sizeof data, "%s%s",
                json_is_true (json_object_get (each, "overlap"))? "overlapping": "equal",
                !json_is_true (json_object_get (each, "speeds"))? staggered? ", out of step": ", in step":
                staggered? ", many speeds, out of step": ", many speeds");
        printf ("%-8s %5d %-51s %12.0f %14.2f %22.2f\n", json_string_value (json_object_get (each, "policy")),
            (int) s_real (each, "jobs"), data, s_real (each, "ns_a_draw"),
            s_real (each, "draws_a_second") / 1e6, s_real (each, "to_select_and_remove"));
    }
}

static void
s_print_views (const json_t *views)
{
    const json_t *each;
    size_t index;
    printf ("\nWho shares what, for status: jobs of many speeds, out of step\n"
        "%-8s %5s %-14s %12s %10s %10s\n", "policy", "jobs", "data", "ids seen", "mean, ms", "worst, ms");
    json_array_foreach (views, index, each) {
        const json_t *time = json_object_get (each, "view_ms");
        printf ("%-8s %5d %-14s %12d %10.2f %10.2f\n", json_string_value (json_object_get (each, "policy")),
            (int) s_real (each, "jobs"), json_string_value (json_object_get (each, "data")),
            (int) s_real (each, "looked_at"), s_real (time, "mean"), s_real (time, "worst"));
    }
}

static void
s_print_memory (const json_t *memory)
{
    const json_t *each;
    size_t index;
    printf ("\n%-8s %9s %5s %-10s %16s %22s\n", "policy", "samples", "jobs", "data", "bytes a sample",
        "of a byte a job + 12");
    json_array_foreach (memory, index, each)
        printf ("%-8s %9d %5d %-10s %16.2f %22.2f\n", json_string_value (json_object_get (each, "policy")),
            (int) s_real (each, "samples"), (int) s_real (each, "jobs"),
            json_is_true (json_object_get (each, "scattered"))? "scattered": "all",
            s_real (each, "bytes_a_sample"), s_real (each, "of_allowance"));
}

static void
s_print (const json_t *report)
{
    printf ("a bare select and remove on %lld samples: %.2f million a second\n\n",
        (long long) json_integer_value (json_object_get (report, "samples")),
        s_real (report, "bare_a_second") / 1e6);
    const json_t *part;
    if ((part = json_object_get (report, "inserts")))
        s_print_inserts (part);
    if ((part = json_object_get (report, "decisions")))
        s_print_decisions (part);
    if ((part = json_object_get (report, "changes")))
        s_print_changes (part);
    if ((part = json_object_get (report, "views")))
        s_print_views (part);
    if ((part = json_object_get (report, "memory")))
        s_print_memory (part);
}

static json_t *
s_measure (uint32_t samples, const char *only)
{
    double bare = s_bare_rate (samples);
    json_t *report = json_pack ("{s:i, s:f}", "samples", (int) samples, "bare_a_second", bare);
    if (!only || strcmp (only, "inserts") == 0)
        json_object_set_new (report, "inserts", s_measure_all_inserts ());
    if (!only || strcmp (only, "dsa") == 0 || strcmp (only, "follow") == 0)
        json_object_set_new (report, "decisions", s_measure_all_decisions (samples, bare, only));
    if (!only || strcmp (only, "changes") == 0)
        json_object_set_new (report, "changes", s_measure_all_changes (samples));
    if (!only || strcmp (only, "views") == 0)
        json_object_set_new (report, "views", s_measure_all_views (samples));
    if (!only || strcmp (only, "memory") == 0)
        json_object_set_new (report, "memory", s_measure_all_memory ());
    return report;
}

typedef struct {
    uint32_t samples;
    const char *only;
    bool json;
} options_t;

static const option_row_t s_rows [] = {
    { "samples", "N", OPTION_AT (options_t, samples),
        "of the data set that jobs draw from (default: 1280000; at least 1000)", 1000, 100000000 },
    { "only", "PART", OPTION_AT (options_t, only),
        "inserts, dsa, follow (draws under that policy), changes, views (what status costs) or memory\n"
        "(default: all of these)",
        .choices = OPTION_CHOICES ("inserts", "dsa", "follow", "changes", "views", "memory") },
    { "json", NULL, OPTION_AT (options_t, json), "one JSON object instead of tables" }
};

static const option_table_t s_table = { "sampler_bench", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: sampler_bench [--samples N] [--only PART] [--json]\n"
    "\n"
    "What the sampler's decisions cost, beside what CRoaring costs on the same sets in the same run.\n" };

int
main (int argc, char **argv)
{
    options_t options = { .samples = 1280000 };
    option_result_t result;
    int status = option_parse (&s_table, &options, argc, argv, &result);
    if (status >= 0)
        return status;
    json_t *report = s_measure (options.samples, options.only);
    if (options.json) {
        json_dumpf (report, stdout, JSON_INDENT (2) | JSON_REAL_PRECISION (6));
        putchar ('\n');
    }
    else
        s_print (report);
    json_decref (report);
    return 0;
}
