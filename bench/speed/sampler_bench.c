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

enum { JOBS_MAX = 128, VERSIONS_SHARE = 50 };

static void *
s_need (void *memory)
{
    if (!memory) {
        fprintf (stderr, "sampler_bench: no memory\n");
        exit (1);
    }
    return memory;
}

//  A random set of count ids below universe.
static roaring_bitmap_t *
s_random_set (random_t *random, uint32_t universe, uint32_t count)
{
    uint32_t *ids = s_need (malloc (universe * sizeof *ids));
    for (uint32_t id = 0; id < universe; id++)
        ids [id] = id;
    for (uint32_t place = 0; place < count; place++) {
        uint32_t other = place + (uint32_t) random_below (random, universe - place), id = ids [other];
        ids [other] = ids [place];
        ids [place] = id;
    }
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

static void
s_measure_inserts (json_t *out, uint32_t samples)
{
    enum { SETS = 128, ANDS = 20 };
    random_t random = random_from_seed (2);
    roaring_bitmap_t *sets [SETS];
    for (int set = 0; set < SETS; set++)
        sets [set] = s_random_set (&random, samples,
            samples / 2 + (uint32_t) random_below (&random, samples / 2));
    double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
    for (int turn = 0; turn < ANDS; turn++)
        roaring_bitmap_free (roaring_bitmap_and (sets [turn], sets [turn + 1]));
    double and_seconds = (clock_seconds (CLOCK_PROCESS_CPUTIME_ID) - begin) / ANDS;
    json_object_set_new (out, "samples", json_integer (samples));
    json_object_set_new (out, "sets", json_integer (SETS));
    json_object_set_new (out, "and_ms", json_real (and_seconds * 1e3));
    static const struct { const char *name; sampler_policy_t policy; } policies [] = {
        { "dsa", SAMPLER_POLICY_DSA }, { "follow", SAMPLER_POLICY_FOLLOW } };
    for (int index = 0; index < 2; index++) {
        sampler_t *sampler = sampler_new (samples, policies [index].policy, 3);
        double total = 0, worst = 0, seconds = 0;
        for (int set = 0; set < SETS; set++) {
            begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
            sampler_join (sampler, &(sampler_join_t) { .data = sets [set] });
            //  What the first draws of all these jobs need belongs to the insertion, whenever it is done.
            for (size_t group = 0; group < sampler_group_count (sampler); group++)
                s_draw_all (sampler, group);
            seconds = clock_seconds (CLOCK_PROCESS_CPUTIME_ID) - begin;
            total += seconds;
            worst = seconds > worst? seconds: worst;
        }
        uint32_t followers = 0;
        for (uint32_t job = 0; job < SETS; job++)
            followers += sampler_follows (sampler, job);
        json_t *one = json_pack ("{s:f, s:f, s:f, s:f, s:i}", "mean_ms", total / SETS * 1e3, "worst_ms",
            worst * 1e3,
            "last_ms", seconds * 1e3, "mean_in_ands", total / SETS / and_seconds, "follow", (int) followers);
        json_object_set_new (out, policies [index].name, one);
        sampler_destroy (&sampler);
    }
    for (int set = 0; set < SETS; set++)
        roaring_bitmap_free (sets [set]);
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
    double epochs;                  //  of draws that are timed
} play_t;

static void
s_round (store_t *store, const uint32_t *jobs, uint32_t count, uint32_t all)
{
    bool follow = sampler_follows (store->sampler, jobs [0]);
    sampler_offer_t offer;
    sampler_round_begin (store->sampler, jobs, count);
    while (sampler_offer (store->sampler, &offer)) {
        uint32_t job = offer.jobs [0], id = sampler_pick (store->sampler);
        sampler_commit (store->sampler, id);
        if (follow)
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

//  Nanoseconds a job-draw.
static double
s_decide (const play_t *play, uint64_t *prepared_p)
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
    for (uint64_t round = 0; round < rounds; round++)
        draws += s_rounds (&store, play, &random, numbers);
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
    double ns = s_decide (play, &prepared);
    return json_pack ("{s:s, s:i, s:i, s:b, s:b, s:b, s:f, s:f, s:f}", "policy",
        play->policy == SAMPLER_POLICY_DSA? "dsa": "follow", "samples", (int) play->samples, "jobs",
        (int) play->jobs,
        "overlap", play->overlap, "staggered", play->staggered, "speeds", play->speeds, "ns_a_draw", ns,
        "draws_a_second", 1e9 / ns,
        "to_select_and_remove", 1e9 / ns / bare_rate);
}

//  only: NULL, or the name of a policy.
static json_t *
s_measure_all_decisions (uint32_t samples, double bare_rate, const char *only)
{
    static const struct { uint32_t jobs; bool overlap, staggered, speeds; } plays [] = {
        { .jobs = 1 }, { .jobs = 4 }, { .jobs = 16 }, { .jobs = 64 }, { .jobs = 128 },
        { .jobs = 16, .staggered = true }, { .jobs = 16, .overlap = true },
        { .jobs = 16, .overlap = true, .staggered = true }, { .jobs = 128, .staggered = true },
        { .jobs = 8, .speeds = true }, { .jobs = 32, .speeds = true }, { .jobs = 128, .speeds = true },
        { .jobs = 128, .staggered = true, .speeds = true },
        { .jobs = 128, .overlap = true, .speeds = true } };
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
                .speeds = plays [index].speeds, .epochs = 1.2 };
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

//  Bytes a sample, all structures together, in the second epoch with a full reusable set.
static json_t *
s_measure_memory (sampler_policy_t policy, uint32_t samples, uint32_t jobs, bool scattered)
{
    random_t random = random_from_seed (7);
    roaring_bitmap_t *half = s_random_set (&random, samples, samples / 2);
    roaring_bitmap_t *all = roaring_bitmap_from_range (0, samples, 1);
    size_t before = s_memory ();
    sampler_t *sampler = sampler_new (samples, policy, 5);
    for (uint32_t job = 0; job < jobs; job++)
        sampler_join (sampler, &(sampler_join_t) { .data = scattered? half: all });
    for (uint32_t job = 0; job < jobs; job++)
        sampler_epoch_begin (sampler, job);
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
    printf ("Inserting 128 random data sets of 1 to 2 million of 2 million, each beside those before it, "
        "with a draw of each job;\nan `and` of two takes %.3f ms\n",
        s_real (inserts, "and_ms"));
    for (int policy = 0; policy < 2; policy++) {
        const json_t *one = json_object_get (inserts, policy? "follow": "dsa");
        printf ("  %-7s %8.2f ms on average (%.0f times the `and`), %8.2f ms at worst, %8.2f ms for the last "
            "one\n",
            policy? "follow": "dsa", s_real (one, "mean_ms"), s_real (one, "mean_in_ands"),
            s_real (one, "worst_ms"), s_real (one, "last_ms"));
    }
}

static void
s_print_decisions (const json_t *decisions)
{
    const json_t *each;
    size_t index;
    printf ("\n%-8s %5s %-38s %12s %14s %22s\n", "policy", "jobs", "data", "ns a draw", "million a s",
        "to select and remove");
    json_array_foreach (decisions, index, each) {
        char data [60];
        bool staggered = json_is_true (json_object_get (each, "staggered"));
        snprintf (data, sizeof data, "%s%s",
            json_is_true (json_object_get (each, "overlap"))? "overlapping": "equal",
            !json_is_true (json_object_get (each, "speeds"))? staggered? ", out of step": ", in step":
            staggered? ", many speeds, out of step": ", many speeds");
        printf ("%-8s %5d %-38s %12.0f %14.2f %22.2f\n", json_string_value (json_object_get (each, "policy")),
            (int) s_real (each, "jobs"), data, s_real (each, "ns_a_draw"),
            s_real (each, "draws_a_second") / 1e6, s_real (each, "to_select_and_remove"));
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
    if ((part = json_object_get (report, "memory")))
        s_print_memory (part);
}

static json_t *
s_measure (uint32_t samples, const char *only)
{
    double bare = s_bare_rate (samples);
    json_t *report = json_pack ("{s:i, s:f}", "samples", (int) samples, "bare_a_second", bare);
    if (!only || strcmp (only, "inserts") == 0) {
        json_t *inserts = json_object ();
        s_measure_inserts (inserts, 2000000);
        json_object_set_new (report, "inserts", inserts);
    }
    if (!only || strcmp (only, "dsa") == 0 || strcmp (only, "follow") == 0)
        json_object_set_new (report, "decisions", s_measure_all_decisions (samples, bare, only));
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
        "inserts, dsa, follow (draws under that policy) or memory (default: all of these)",
        .choices = OPTION_CHOICES ("inserts", "dsa", "follow", "memory") },
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
