//  What a data set's tier holds and has read, and what a job's own tier holds, for `status`.

#include "raw_prefetch.h"

static json_t *
s_policy (const dataset_t *dataset)
{
    static const char *const policies [] = { "stream", "redox", "direct" };
    return json_string (policies [dataset->prefetch->given.policy]);
}

//  What is in memory now, and how it is read.
static json_t *
s_pool (raw_pool_figures_t figures)
{
    json_t *object = json_object ();
    json_object_set_new (object, "piece_samples", json_integer (figures.piece));
    json_object_set_new (object, "virtual_chunks",
        figures.virtual_chunks? json_integer (figures.virtual_chunks): json_null ());
    json_object_set_new (object, "resident_samples", json_integer ((json_int_t) figures.resident));
    json_object_set_new (object, "resident_bytes", json_integer ((json_int_t) figures.resident_bytes));
    json_object_set_new (object, "resident_bytes_max", json_integer ((json_int_t) figures.limit_bytes));
    return object;
}

//  Where bytes came from, and how long reads took: each its own time, though many are under way at once.
static void
s_put_levels (json_t *object, const raw_prefetch_t *prefetch)
{
    const struct { const char *key; uint64_t number; } counts [] = {
        { "memory_bytes", prefetch->memory_bytes }, { "source_bytes", prefetch->source_bytes },
        { "block_cache_bytes", prefetch->cached_bytes }, { "peer_bytes", prefetch->peer_bytes },
        { "gets", prefetch->gets }, { "slow_gets", prefetch->slow_gets } };
    for (size_t index = 0; index < sizeof counts / sizeof *counts; index++)
        json_object_set_new (object, counts [index].key, json_integer ((json_int_t) counts [index].number));
    json_object_set_new (object, "source_seconds", json_real ((double) prefetch->source_ns / 1e9));
    json_object_set_new (object, "block_cache_seconds", json_real ((double) prefetch->cached_ns / 1e9));
    json_object_set_new (object, "peer_seconds", json_real ((double) prefetch->peer_ns / 1e9));
}

json_t *
raw_prefetch_job_status (const job_t *job)
{
    return job->tier && job->tier_is_own? s_pool (raw_pool_figures (tier_pool (job->tier))): json_null ();
}

json_t *
raw_prefetch_status (const dataset_t *dataset, bool sees_all)
{
    if (!sees_all)
        return json_pack ("{s:o}", "policy", s_policy (dataset));
    const raw_prefetch_t *prefetch = dataset->prefetch;
    raw_pool_figures_t figures = { .piece = prefetch->last.piece,
        .virtual_chunks = prefetch->last.virtual_chunks };
    if (prefetch->tier)
        figures = raw_pool_figures (tier_pool (prefetch->tier));
    json_t *object = s_pool (figures);
    json_object_set_new (object, "policy", s_policy (dataset));
    json_object_set_new (object, "passes",
        json_integer ((json_int_t) (prefetch->past.passes + figures.passes)));
    json_object_set_new (object, "pieces",
        json_integer ((json_int_t) (prefetch->past.reads + figures.reads)));
    json_object_set_new (object, "hits", json_integer ((json_int_t) (prefetch->past.hits + figures.hits)));
    json_object_set_new (object, "misses",
        json_integer ((json_int_t) (prefetch->past.misses + figures.misses)));
    json_object_set_new (object, "discarded",
        json_integer ((json_int_t) (prefetch->past.discarded + figures.discarded)));
    json_object_set_new (object, "reads", json_integer ((json_int_t) prefetch->reads));
    json_object_set_new (object, "bytes_read", json_integer ((json_int_t) prefetch->bytes_read));
    s_put_levels (object, prefetch);
    json_object_set_new (object, "bytes_handed", json_integer ((json_int_t) prefetch->bytes_handed));
    json_object_set_new (object, "read_amplification",
        prefetch->bytes_handed? json_real ((double) prefetch->bytes_read / (double) prefetch->bytes_handed):
        json_null ());
    return object;
}
