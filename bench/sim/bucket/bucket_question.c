#include "bucket_question.h"
#include <math.h>
#include <stdlib.h>
#include "bucket_cache.h"
#include "bucket_deli.h"
#include "bucket_draws.h"
#include "bucket_frequency.h"
#include "simulated_memory.h"

enum { LISTED_AT_ONCE = 1000, BATCH = 256, HOURS_OF_MONTH = 730, UNITS_MAX = 1000000000 };

//  What the policies look at: objects, or pieces of a pack.
typedef struct {
    const bucket_question_t *question;
    double unit_bytes, unit_seconds;            //  the job's seconds for a unit, on one node
    uint32_t units, slice;                      //  of the data; of a node's epoch
    uint32_t capacity, ahead;                   //  units
    uint64_t seed;
} plan_t;

const char *
bucket_question_name (int policy)
{
    static const char *const names [BUCKET_QUESTION_POLICIES] = {
        "an object a sample, no cache", "the same, LRU cache", "DELI, 50/50", "NoPFS",
        "pinned cache, single objects", "pinned cache, pack"
    };
    return names [policy];
}

const char *
bucket_question_trouble (const bucket_question_t *self)
{
    if (self->samples / self->nodes == 0)
        return "--samples: expected at least one for each of --nodes";
    if (self->data / self->samples > self->memory)
        return "--memory: expected at least the bytes of a sample, --data over --samples";
    if (self->piece > self->memory || self->piece > self->data / self->nodes)
        return "--piece: expected at most --memory, and at most --data over --nodes";
    if (self->data / self->piece > UNITS_MAX)
        return "--piece: expected larger ones, at most 1,000,000,000 in --data";
    if ((double) self->samples * self->nodes > UNITS_MAX)
        return "--samples: expected at most 1,000,000,000 over --nodes";
    return NULL;
}

static plan_t
s_plan (const bucket_question_t *question, double unit_bytes, uint64_t seed)
{
    double units = fmax (round (question->data / unit_bytes), question->nodes);
    double bytes = question->data / units;
    return (plan_t) {
        .question = question, .unit_bytes = bytes, .units = (uint32_t) units, .seed = seed,
        .unit_seconds = question->samples / units * question->nodes / question->rate,
        .slice = (uint32_t) units / question->nodes,
        .capacity = (uint32_t) fmin (question->cache / bytes, units),
        .ahead = (uint32_t) fmax (fmin (question->memory / bytes, units), 1)
    };
}

//  ---- an epoch of one node, of which is_read [unit] says whether it comes from the store

typedef struct {
    uint32_t misses;
    double seconds;
} epoch_t;

typedef bool (is_read_fn) (void *context, uint32_t unit);

static epoch_t
s_play (const plan_t *plan, const uint32_t *order, is_read_fn *is_read, void *context)
{
    epoch_t epoch = { 0 };
    bucket_clock_t *clock = bucket_clock_new (&plan->question->store, plan->unit_bytes, plan->unit_seconds,
        plan->ahead);
    for (uint32_t at = 0; at < plan->slice; at++) {
        bool reads = is_read (context, order [at]);
        epoch.misses += reads;
        bucket_clock_step (clock, reads);
    }
    epoch.seconds = bucket_clock_seconds (clock);
    bucket_clock_destroy (&clock);
    return epoch;
}

static bool
s_read_uncached (void *context, uint32_t unit)
{
    if (bucket_cache_use (context, unit))
        return false;
    bucket_cache_insert (context, unit);
    return true;
}

static bool
s_read_unkept (void *context, uint32_t unit)
{
    return !((const bool *) context) [unit];
}

static bool
s_read_all (void *context, uint32_t unit)
{
    (void) context;
    (void) unit;
    return true;
}

//  An epoch of each of `nodes` nodes.
static void
s_put (bucket_answer_t *answer, const plan_t *plan, const epoch_t *epoch, uint32_t nodes, bool is_first)
{
    double gets = (double) epoch->misses * nodes;
    *(is_first? &answer->first_bytes: &answer->bytes) = gets * plan->unit_bytes;
    *(is_first? &answer->first_seconds: &answer->seconds) = epoch->seconds;
    if (!is_first)
        answer->gets = gets;
}

//  The misses of all nodes, and the seconds of the slowest, where no cache changes.
static epoch_t
s_play_nodes (const plan_t *plan, bucket_draws_t *draws, is_read_fn *is_read, void *context)
{
    uint32_t nodes = plan->question->nodes;
    const uint32_t *order = bucket_draws_epoch (draws, plan->slice * nodes);
    epoch_t all = { 0 };
    for (uint32_t node = 0; node < nodes; node++) {
        epoch_t one = s_play (plan, order + (size_t) node * plan->slice, is_read, context);
        all.misses += one.misses;
        all.seconds = fmax (all.seconds, one.seconds);
    }
    return all;
}

//  ---- the policies

static void
s_play_direct (const plan_t *plan, bucket_answer_t *answer)
{
    bucket_draws_t *draws = bucket_draws_new (plan->units, plan->seed);
    epoch_t epoch = s_play_nodes (plan, draws, s_read_all, NULL);
    s_put (answer, plan, &epoch, 1, true);
    s_put (answer, plan, &epoch, 1, false);
    bucket_draws_destroy (&draws);
}

static void
s_play_lru (const plan_t *plan, bucket_answer_t *answer)
{
    bucket_draws_t *draws = bucket_draws_new (plan->units, plan->seed);
    bucket_cache_t *cache = bucket_cache_new (BUCKET_LRU, plan->units, plan->capacity);
    for (uint32_t number = 0; number < plan->question->epochs; number++) {
        epoch_t epoch = s_play (plan, bucket_draws_epoch (draws, plan->slice), s_read_uncached, cache);
        if (number == 0)
            s_put (answer, plan, &epoch, plan->question->nodes, true);
        s_put (answer, plan, &epoch, plan->question->nodes, false);
    }
    bucket_cache_destroy (&cache);
    bucket_draws_destroy (&draws);
}

static void
s_play_deli (const plan_t *plan, bucket_answer_t *answer)
{
    const bucket_question_t *question = plan->question;
    uint32_t half = plan->capacity / 2, nodes = question->nodes;
    bucket_deli_plan_t deli = {
        .samples = plan->units, .workers = nodes, .fetch = half, .threshold = half,
        .cache = plan->capacity, .batch = BATCH, .epochs = question->epochs,
        .get_seconds = 1 / bucket_clock_store_rate (&question->store, plan->unit_bytes),
        .gets_per_second = bucket_clock_store_rate (&question->store, plan->unit_bytes), .is_shared = true,
        .compute_seconds = plan->unit_seconds
    };
    bucket_deli_epoch_t *epochs = simulated_alloc (question->epochs, sizeof *epochs);
    bucket_deli_run (&deli, plan->seed, epochs);
    const bucket_deli_epoch_t *last = &epochs [question->epochs - 1];
    answer->first_bytes = (double) epochs->gets * nodes * plan->unit_bytes;
    answer->first_seconds = epochs->seconds;
    answer->gets = (double) last->gets * nodes;
    answer->bytes = answer->gets * plan->unit_bytes;
    answer->seconds = last->seconds;
    //  A cache of less than two samples leaves nothing to post.
    if (half)
        answer->lists *= (double) last->posts * nodes;
    free (epochs);
}

//  What is kept somewhere: each node keeps what it uses most.
static bool *
s_keep_frequent (const plan_t *plan)
{
    uint32_t nodes = plan->question->nodes;
    uint16_t *uses = simulated_alloc ((size_t) nodes * plan->units, sizeof *uses);
    uint32_t *order = simulated_alloc (plan->units, sizeof *order);
    bool *is_kept = simulated_alloc (plan->units, sizeof *is_kept);
    bucket_frequency_uses (nodes, plan->question->epochs, plan->units, plan->seed, uses);
    for (uint32_t node = 0; node < nodes; node++) {
        uint32_t used = bucket_frequency_order (uses + (size_t) node * plan->units, plan->units, order);
        for (uint32_t at = 0; at < used && at < plan->capacity; at++)
            is_kept [order [at]] = true;
    }
    free (order);
    free (uses);
    return is_kept;
}

//  The caches divide the data.
static bool *
s_keep_parts (const plan_t *plan)
{
    bool *is_kept = simulated_alloc (plan->units, sizeof *is_kept);
    for (uint32_t unit = 0; unit < plan->units; unit++)
        is_kept [unit] = unit / plan->question->nodes < plan->capacity;
    return is_kept;
}

//  A first epoch that reads everything, and a later one that reads what is kept nowhere.
static void
s_play_kept (const plan_t *plan, bool *is_kept, bucket_answer_t *answer)
{
    bucket_draws_t *draws = bucket_draws_new (plan->units, ~plan->seed);
    epoch_t first = s_play_nodes (plan, draws, s_read_all, NULL);
    epoch_t later = s_play_nodes (plan, draws, s_read_unkept, is_kept);
    s_put (answer, plan, &first, 1, true);
    s_put (answer, plan, &later, 1, false);
    bucket_draws_destroy (&draws);
    free (is_kept);
}

static double
s_money (const plan_t *plan, const bucket_answer_t *answer, bool has_cache)
{
    const bucket_question_t *question = plan->question;
    const bucket_prices_t *prices = &question->prices;
    double hours = answer->seconds / 3600 * question->nodes;
    double disk = has_cache? fmin (question->cache, question->data) / 1e9 * prices->disk_per_gb_month: 0;
    return answer->gets / 1000 * prices->get_per_1000 + answer->lists / 1000 * prices->list_per_1000
        + answer->bytes / 1e9 * prices->transfer_per_gb
        + hours * (prices->machine_per_hour + disk / HOURS_OF_MONTH);
}

static void
s_answer (const plan_t *plan, int policy, bucket_answer_t *answer)
{
    *answer = (bucket_answer_t) { .lists = ceil (plan->units / (double) LISTED_AT_ONCE) };
    switch (policy) {
        case BUCKET_QUESTION_DIRECT: s_play_direct (plan, answer); break;
        case BUCKET_QUESTION_LRU: s_play_lru (plan, answer); break;
        case BUCKET_QUESTION_DELI: s_play_deli (plan, answer); break;
        case BUCKET_QUESTION_NOPFS: s_play_kept (plan, s_keep_frequent (plan), answer); break;
        default: s_play_kept (plan, s_keep_parts (plan), answer);
    }
    if (policy == BUCKET_QUESTION_PACK)
        answer->lists = 0;
    answer->money = s_money (plan, answer, policy != BUCKET_QUESTION_DIRECT);
}

void
bucket_question_answer (const bucket_question_t *self, uint64_t seed, bucket_answer_t *answers)
{
    plan_t objects = s_plan (self, self->data / self->samples, seed);
    plan_t pieces = s_plan (self, self->piece, seed);
    for (int policy = 0; policy < BUCKET_QUESTION_POLICIES; policy++)
        s_answer (policy == BUCKET_QUESTION_PACK? &pieces: &objects, policy, &answers [policy]);
}
