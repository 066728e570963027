//  tenants_sim: what one tenant loses of the prepared cache when another does its worst, with the real
//  sampler and the real prepared cache, on simulated jobs.
//
//  In each mix tenant A has some jobs, and tenant B others.  A tick is one draw of each job, of B's as many
//  as its pace says.
//  Four runs of it: A alone, A alone with its due (half the cache), A beside B as if both were one tenant,
//  and A beside B.

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option.h"
#include "sampler.h"
#include "simulated_mean.h"
#include "version_index.h"

enum { TENANTS = 2, JOBS_MAX = 160, KINDS_MAX = 32, PACES_MAX = 8, SAMPLES_MAX = 1000000, SEEDS_MAX = 1000 };

//  Jobs of one tenant that are alike but for when they start.
typedef struct {
    uint32_t tenant;
    uint32_t count;
    sampler_order_t order;
    bool is_random;
    double from, to;            //  their data, of all samples
    uint32_t dataset;
    uint32_t kinds;             //  they have so many between them, from first_kind on
    uint32_t first_kind;
    bool is_staggered;          //  they start evenly over an epoch; else all at once
    uint32_t pace;              //  draws a tick
    uint32_t stay;              //  draws after which each leaves and joins anew; 0: they stay
} crew_t;

typedef struct {
    const char *name, *text;
    crew_t crews [4];
} mix_t;

#define HALF 0.5
#define FITS 0                  //  `to` of data that fill four tenths of the cache

static const mix_t s_mixes [] = {
    { "kinds", "A: 4 shared jobs out of step; B: 64 private jobs with 16 pipelines of their own", {
        { 0, 4, SAMPLER_ORDER_SHARED, true, 0, 1, 0, 1, 0, true, 1, 0 },
        { 1, 64, SAMPLER_ORDER_PRIVATE, true, 0, 1, 1, 16, 1, true, 1, 0 } } },
    { "fits", "A: 2 private jobs without random operations, with data that fit in its due; B: as before", {
        { 0, 2, SAMPLER_ORDER_PRIVATE, false, 0, FITS, 0, 1, 0, true, 1, 0 },
        { 1, 64, SAMPLER_ORDER_PRIVATE, true, 0, 1, 1, 16, 1, true, 1, 0 } } },
    { "pace", "A: 4 shared jobs out of step; B: 8 private jobs with a pipeline, eight times as fast", {
        { 0, 4, SAMPLER_ORDER_SHARED, true, 0, 1, 0, 1, 0, true, 1, 0 },
        { 1, 8, SAMPLER_ORDER_PRIVATE, true, 0, 1, 1, 1, 1, true, 8, 0 } } },
    { "crowd", "A: 4 shared jobs out of step; B: 64 private jobs with A's pipeline, on the same data", {
        { 0, 4, SAMPLER_ORDER_SHARED, true, 0, 1, 0, 1, 0, true, 1, 0 },
        { 1, 64, SAMPLER_ORDER_PRIVATE, true, 0, 1, 0, 1, 0, true, 1, 0 } } },
    { "halves", "A: 4 shared jobs out of step, on the first half; B: 32 such on the second, with A's "
        "pipeline", {
        { 0, 4, SAMPLER_ORDER_SHARED, true, 0, HALF, 0, 1, 0, true, 1, 0 },
        { 1, 32, SAMPLER_ORDER_SHARED, true, HALF, 1, 0, 1, 0, true, 1, 0 } } },
    { "same", "A: 2 private jobs without random operations, with data that fit in its due; B: 16 such on all "
        "data, with A's pipeline", {
        { 0, 2, SAMPLER_ORDER_PRIVATE, false, 0, FITS, 0, 1, 0, true, 1, 0 },
        { 1, 16, SAMPLER_ORDER_PRIVATE, false, 0, 1, 0, 1, 0, true, 1, 0 } } },
    { "trains", "A: a private job, and one without random operations with data that fit; B: 32 private jobs "
        "with the first one's pipeline", {
        { 0, 1, SAMPLER_ORDER_PRIVATE, true, 0, 1, 0, 1, 0, true, 1, 0 },
        { 0, 1, SAMPLER_ORDER_PRIVATE, false, 0, FITS, 0, 1, 1, true, 1, 0 },
        { 1, 32, SAMPLER_ORDER_PRIVATE, true, 0, 1, 0, 1, 0, true, 1, 0 } } },
    { "joins", "A: 4 shared jobs out of step; B: 16 private jobs that leave after 100 draws and join anew", {
        { 0, 4, SAMPLER_ORDER_SHARED, true, 0, 1, 0, 1, 0, true, 1, 0 },
        { 1, 16, SAMPLER_ORDER_PRIVATE, true, 0, 1, 1, 4, 1, true, 1, 100 } } },
    { "friends", "A: 4 shared jobs out of step; B: 4 such, with A's data and pipeline", {
        { 0, 4, SAMPLER_ORDER_SHARED, true, 0, 1, 0, 1, 0, true, 1, 0 },
        { 1, 4, SAMPLER_ORDER_SHARED, true, 0, 1, 0, 1, 0, true, 1, 0 } } },
};

enum { MIXES = sizeof s_mixes / sizeof *s_mixes, CREWS_MAX = 4, DATASETS = 2, RUNS = 4 };

typedef struct {
    uint32_t samples, cache, epochs;
    uint64_t seeds;
} plan_t;

typedef struct {
    consumer_t consumer;
    const crew_t *crew;
    uint32_t from, to;          //  its data
    uint32_t kind;
    uint32_t start;             //  tick
    uint32_t drawn;             //  since it joined
    bool is_here;
} player_t;

typedef struct {
    const plan_t *plan;
    version_index_t *version_index;
    sampler_t *samplers [DATASETS];
    version_set_t *kinds [KINDS_MAX];
    player_t players [JOBS_MAX];
    size_t player_count;
    bool as_one;                //  both tenants are one
    bool counts;
    uint64_t scheduled [TENANTS], delivered [TENANTS];
} run_t;

//  ---- jobs

static void
s_kind_ended (void *context, void *user)
{
    (void) context;
    *(version_set_t **) user = NULL;
}

static void
s_join (run_t *self, player_t *player)
{
    const crew_t *crew = player->crew;
    sampler_t *sampler = self->samplers [crew->dataset];
    version_set_t **kind = &self->kinds [player->kind];
    if (!*kind)
        *kind = version_set_new (self->version_index, sampler, 1, crew->is_random, kind);
    roaring_bitmap_t *data = roaring_bitmap_from_range (player->from, player->to, 1);
    assert (data);
    sampler_join_t join = { .order = crew->order, .data = data };
    player->consumer = (consumer_t) {
        .kind = *kind, .tenant = self->as_one? 0: crew->tenant, .sampler_job = sampler_join (sampler, &join)
    };
    assert (player->consumer.sampler_job != SAMPLER_JOB_NONE);
    roaring_bitmap_free (data);
    version_index_join (self->version_index, &player->consumer);
    player->is_here = true;
    player->drawn = 0;
}

static void
s_leave (run_t *self, player_t *player)
{
    version_index_leave (self->version_index, &player->consumer);
    sampler_leave (self->samplers [player->crew->dataset], player->consumer.sampler_job);
    player->is_here = false;
}

static player_t *
s_player (run_t *self, uint32_t dataset, uint32_t number)
{
    for (size_t index = 0; index < self->player_count; index++) {
        player_t *player = &self->players [index];
        if (player->is_here && player->crew->dataset == dataset && player->consumer.sampler_job == number)
            return player;
    }
    abort ();
}

static void
s_add_crew (run_t *self, const crew_t *crew, bool is_alone)
{
    for (uint32_t index = 0; index < crew->count && !(is_alone && crew->tenant > 0); index++) {
        assert (self->player_count < JOBS_MAX);
        player_t *player = &self->players [self->player_count++];
        double samples = self->plan->samples, to = crew->to > 0? crew->to * samples: 0.4 * self->plan->cache;
        uint32_t from = (uint32_t) (crew->from * samples), length = (uint32_t) to - from;
        *player = (player_t) {
            .crew = crew, .from = from, .to = from + length, .kind = crew->first_kind + index % crew->kinds,
            .start = crew->is_staggered? (uint32_t) ((uint64_t) length * index / crew->count): 0
        };
    }
}

//  ---- draws

static void
s_draw (run_t *self, uint32_t dataset, const sampler_offer_t *offer)
{
    player_t *players [SAMPLER_JOBS_MAX];
    consumer_t *consumers [SAMPLER_JOBS_MAX];
    version_t *versions [SAMPLER_JOBS_MAX];
    uint64_t scheduled = 0;
    for (size_t index = 0; index < offer->job_count; index++) {
        players [index] = s_player (self, dataset, offer->jobs [index]);
        consumers [index] = &players [index]->consumer;
    }
    uint32_t id = sampler_pick (self->samplers [dataset]);
    version_index_draw (self->version_index, consumers, offer->job_count, id, versions, &scheduled);
    for (size_t index = 0; index < offer->job_count; index++) {
        prepared_unpin (version_index_prepared (self->version_index), versions [index]);
        self->delivered [players [index]->crew->tenant] += self->counts;
        players [index]->drawn++;
    }
    self->scheduled [players [0]->crew->tenant] += self->counts? scheduled: 0;
}

//  All jobs of the group that are due in this part of the tick.
static void
s_round (run_t *self, uint32_t dataset, size_t group, uint32_t part)
{
    sampler_t *sampler = self->samplers [dataset];
    uint32_t takers [SAMPLER_JOBS_MAX];
    size_t count, taker_count = 0;
    const uint32_t *members = sampler_group (sampler, group, &count);
    for (size_t index = 0; index < count; index++)
        if (part < s_player (self, dataset, members [index])->crew->pace)
            takers [taker_count++] = members [index];
    if (taker_count == 0)
        return;
    sampler_offer_t offer;
    sampler_round_begin (sampler, takers, taker_count);
    while (sampler_offer (sampler, &offer))
        s_draw (self, dataset, &offer);
    for (size_t index = 0; index < taker_count; index++)
        if (sampler_remaining (sampler, takers [index]) == 0)
            version_index_epoch_begin (self->version_index,
                &s_player (self, dataset, takers [index])->consumer);
}

static void
s_tick (run_t *self, uint32_t now)
{
    for (size_t index = 0; index < self->player_count; index++) {
        player_t *player = &self->players [index];
        if (player->is_here && player->crew->stay && player->drawn >= player->crew->stay)
            s_leave (self, player);
        if (!player->is_here && player->start <= now)
            s_join (self, player);
    }
    for (uint32_t part = 0; part < PACES_MAX; part++)
        for (uint32_t dataset = 0; dataset < DATASETS; dataset++)
            for (size_t group = 0; group < sampler_group_count (self->samplers [dataset]); group++)
                s_round (self, dataset, group, part);
}

//  ---- runs

typedef enum { ALONE, DUE, AS_ONE, TENANTS_APART } way_t;

//  preparations for each delivery of tenant A, and of tenant B where it is there.
static void
s_run (const plan_t *plan, const mix_t *mix, way_t way, uint64_t seed, mean_t means [TENANTS])
{
    static run_t run;
    run = (run_t) { .plan = plan, .as_one = way != TENANTS_APART };
    run.version_index = version_index_new (way == DUE? plan->cache / 2: plan->cache, seed);
    version_index_on_kind_end (run.version_index, s_kind_ended, NULL);
    if (way == TENANTS_APART)
        version_index_tenant (run.version_index, 1, 1, SIZE_MAX);
    for (uint32_t dataset = 0; dataset < DATASETS; dataset++)
        run.samplers [dataset] = sampler_new (plan->samples, SAMPLER_POLICY_FOLLOW,
            seed + 7919 * (dataset + 1));
    for (size_t crew = 0; crew < CREWS_MAX && mix->crews [crew].count; crew++)
        s_add_crew (&run, &mix->crews [crew], way == ALONE || way == DUE);
    for (uint32_t now = 0; now < (1 + plan->epochs) * plan->samples; now++) {
        run.counts = now >= plan->samples;
        s_tick (&run, now);
    }
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
        if (run.delivered [tenant])
            mean_add (&means [tenant], (double) run.scheduled [tenant] / (double) run.delivered [tenant]);
    for (size_t index = 0; index < run.player_count; index++)
        if (run.players [index].is_here)
            s_leave (&run, &run.players [index]);
    version_index_destroy (&run.version_index);
    for (uint32_t dataset = 0; dataset < DATASETS; dataset++)
        sampler_destroy (&run.samplers [dataset]);
}

static void
s_run_mix (const plan_t *plan, const mix_t *mix)
{
    mean_t means [RUNS] [TENANTS] = { 0 };
    for (way_t way = ALONE; way <= TENANTS_APART; way++)
        for (uint64_t seed = 1; seed <= plan->seeds; seed++)
            s_run (plan, mix, way, seed, means [way]);
    printf ("| %s | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f |\n", mix->name, mean_of (&means [ALONE] [0]),
        mean_of (&means [DUE] [0]), mean_of (&means [AS_ONE] [0]), mean_of (&means [TENANTS_APART] [0]),
        mean_of (&means [AS_ONE] [1]), mean_of (&means [TENANTS_APART] [1]));
    fflush (stdout);
}

//  ---- the command

#define AT(member) OPTION_AT (plan_t, member)
static const option_row_t s_rows [] = {
    { "samples", "N", AT (samples), "of each of two data sets (default: 4000)", 100, SAMPLES_MAX },
    { "cache", "C", AT (cache), "versions that the cache holds (default: 5 % of N)", 2, SAMPLES_MAX },
    { "epochs", "E", AT (epochs), "(default: 4)", 1, 1000 },
    { "seeds", "K", AT (seeds), "runs of each, from seed 1 on (default: 3)", 1, SEEDS_MAX }
};

static const option_table_t s_table = { "tenants_sim", s_rows, OPTION_ROWS (s_rows), SIZE_MAX, .before =
    "usage: tenants_sim [options] [MIX...]\n"
    "\n"
    "Preparations for each delivered sample of tenant A, with jobs that behave, and of tenant B, which\n"
    "does its worst: A alone, A alone with half the cache, which is its due, A and B as if they were one\n"
    "tenant, and as two of equal weight. The first epoch does not count.\n"
    "\n", .after =
    "\n"
    "Exit status: 0 done, 1 something could not be written, 2 unusable arguments.\n" };

static const mix_t *
s_mix (const char *name)
{
    for (size_t mix = 0; mix < MIXES; mix++)
        if (strcmp (s_mixes [mix].name, name) == 0)
            return &s_mixes [mix];
    fprintf (stderr, "tenants_sim: '%s': no such mix; --help names them\n", name);
    return NULL;
}

int
main (int argc, char **argv)
{
    plan_t plan = { .samples = 4000, .epochs = 4, .seeds = 3 };
    option_result_t result;
    int status = option_parse (&s_table, &plan, argc, argv, &result);
    if (status == 0) {
        fputs ("\nMixes (default: all):\n", stdout);
        for (size_t mix = 0; mix < MIXES; mix++)
            printf ("  %-8s  %s\n", s_mixes [mix].name, s_mixes [mix].text);
    }
    if (status >= 0)
        return status;
    plan.cache = plan.cache? plan.cache: plan.samples / 20;
    for (size_t word = 0; word < result.word_count; word++)
        if (!s_mix (result.words [word]))
            return 2;
    puts ("| mix | A alone | with its due | beside B, as one | beside B | B, as one | B |\n| --- | --- | "
        "--- | --- | --- | --- | --- |");
    for (size_t word = 0; word < result.word_count; word++)
        s_run_mix (&plan, s_mix (result.words [word]));
    for (size_t mix = 0; mix < MIXES && result.word_count == 0; mix++)
        s_run_mix (&plan, &s_mixes [mix]);
    return fflush (stdout) || ferror (stdout);
}
