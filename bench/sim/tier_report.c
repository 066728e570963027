#include "tier_report.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

//  ---- figures

static const char *
s_policy_name (raw_policy_t policy)
{
    return policy == RAW_STREAM? "stream": policy == RAW_REDOX? "redox": "direct";
}

static const char *
s_sampler_name (const tier_plan_t *plan)
{
    return plan->published_rng? "published": plan->sampler == TIER_DSA? "dsa":
        plan->sampler == TIER_FOLLOW? "follow": "private";
}

static double
s_amplification (const tier_plan_t *plan, const tier_result_t *result)
{
    return (double) result->read_bytes / ((double) result->handed * (double) plan->sample_bytes);
}

static double
s_per_data_epoch (const tier_result_t *result)
{
    return (double) result->read_bytes / result->data_epochs;
}

//  As a share of the bytes of all samples.
static double
s_of_all (const tier_plan_t *plan, uint64_t bytes)
{
    return (double) bytes / ((double) plan->samples * (double) plan->sample_bytes);
}

//  redox: slots that a load fills; the others: how full the memory is.
static double
s_fill_rate (const tier_plan_t *plan, const tier_result_t *result)
{
    if (plan->policy != RAW_REDOX)
        return mean_of (&result->resident);
    return result->reads? (double) result->filled / (double) result->reads: NAN;
}

//  All jobs' epochs together.
static tier_mixing_t
s_mixing (const tier_result_t *result)
{
    tier_mixing_t mixing = { .chunk_distance = { 0 } };
    for (size_t job = 0; job < result->job_count; job++)
        tier_mixing_merge (&mixing, &result->jobs [job].mixing);
    return mixing;
}

//  The worst job's; NAN: no job had two epochs.
static double
s_pair_repeat (const tier_result_t *result)
{
    double worst = NAN;
    for (size_t job = 0; job < result->job_count; job++)
        worst = fmax (worst, mean_of (&result->jobs [job].orders.pair_repeat));
    return worst;
}

//  ---- for people

static void
s_row (const char *name, int decimals, double value)
{
    if (isnan (value))
        printf ("%-28s -\n", name);
    else
        printf ("%-28s %.*f\n", name, decimals, value);
}

static void
s_print_counts (const char *name, const uint64_t *counts, size_t count)
{
    printf ("%-28s", name);
    for (size_t epoch = 0; epoch < count; epoch++)
        printf (" %" PRIu64, counts [epoch]);
    printf ("\n");
}

//  The names of tier_single_t, here and in JSON.
static const char *const s_reasons [TIER_SINGLE_REASONS] = {
    "unneeded", "elsewhere", "refused", "passed_by"
};

static void
s_print_singles (const tier_result_t *result)
{
    s_print_counts ("single by tenth of an epoch", result->singles_by_tenth, TIER_TENTHS);
    printf ("%-28s", "why, of every 16th");
    for (size_t reason = 0; reason < TIER_SINGLE_REASONS; reason++)
        printf (" %s %" PRIu64, s_reasons [reason], result->reasons [reason]);
    printf ("\n");
}

static void
s_print_mixing (const tier_mixing_t *mixing)
{
    s_row ("chunk mean distance", 4, mean_of (&mixing->chunk_distance));
    s_row ("piece mean distance", 4, mean_of (&mixing->piece_distance));
    s_row ("batch distinct chunks", 1, mean_of (&mixing->batch_distinct_chunks));
    s_row ("batch most of one chunk", 2, mean_of (&mixing->batch_most_of_one_chunk));
    s_row ("piece same batch, x chance", 2, mean_of (&mixing->piece_same_batch));
}

static void
s_print_jobs (const tier_plan_t *plan, const tier_result_t *result)
{
    printf ("\njob  speed  start epochs  from    to  once    phi2   lag 2   lag 3   lag 4   lag 5   lag 6  "
        "t5h5  pairs\n");
    for (size_t job = 0; job < result->job_count; job++) {
        const tier_plan_job_t *of = &plan->jobs [job];
        const orders_figures_t *figures = &result->jobs [job].orders;
        printf ("%3zu %6.3f %6.2f %6u %5.2f %5.2f  %-4s", job, of->speed, of->start, figures->epochs,
            of->from, of->to, figures->exactly_once? "yes": "NO");
        for (size_t lag = 0; lag < ORDERS_LAGS; lag++)
            printf (" %7.3f", mean_of (&figures->phi2 [lag]));
        printf (" %5.2f %6.3f\n", mean_of (&figures->tail_to_head), mean_of (&figures->pair_repeat));
    }
}

void
tier_report_table (const tier_plan_t *plan, uint64_t seed, const tier_result_t *result)
{
    printf ("%s under %s: %u samples of %zu bytes, chunks of %u, pieces of %u, batches of %u; seed "
        "%" PRIu64 "\n",
        s_policy_name (plan->policy), s_sampler_name (plan), plan->samples, plan->sample_bytes, plan->chunk,
        plan->piece, plan->batch, seed);
    printf ("%-28s %" PRIu64 " of %" PRIu64 " bytes at most\n", "memory", result->most_bytes,
        result->limit_bytes);
    s_print_counts ("reads an epoch", result->loads, result->load_count);
    if (result->singles_by_epoch)
        s_print_counts ("of which single", result->singles_by_epoch, result->load_count);
    if (result->singles_by_epoch)
        s_print_singles (result);
    printf ("%-28s %" PRIu64 " pieces or chunks, %" PRIu64 " single; %" PRIu64 " samples read in vain\n",
        "reads", result->reads, result->singles, result->discarded);
    if (plan->policy == RAW_STREAM)
        s_row ("samples a piece that is read", 2, (double) result->filled / (double) result->reads);
    s_row ("samples handed a delivery", 3, (double) result->handed / (double) result->deliveries);
    s_row ("read amplification", 4, s_amplification (plan, result));
    s_row ("bytes read a data epoch", 4, s_per_data_epoch (result));
    if (plan->pins > 0) {
        s_row ("pinned", 4, result->pinned);
        printf ("%-28s", "bytes read an epoch, of all");
        for (size_t epoch = 0; epoch < result->load_count; epoch++)
            printf (" %.4f", s_of_all (plan, result->bytes_by_epoch [epoch]));
        printf ("\n");
    }
    s_row (plan->policy == RAW_REDOX? "slots filled a load": "memory filled", 3, s_fill_rate (plan, result));
    tier_mixing_t mixing = s_mixing (result);
    s_print_mixing (&mixing);
    s_row ("pair repeat", 4, s_pair_repeat (result));
    s_print_jobs (plan, result);
}

//  ---- JSON

//  What cannot be said is null.
static json_t *
s_number (double value)
{
    return isfinite (value)? json_real (value): json_null ();
}

static void
s_set (json_t *object, const char *key, json_t *value)
{
    int rc = json_object_set_new (object, key, value);
    assert (rc == 0);
}

static void
s_set_count (json_t *object, const char *key, uint64_t count)
{
    s_set (object, key, json_integer ((json_int_t) count));
}

static void
s_set_hash (json_t *object, uint64_t hash)
{
    char text [17];
    snprintf (text, sizeof text, "%016" PRIx64, hash);
    s_set (object, "order_hash", json_string (text));
}

static void
s_set_mixing (json_t *object, const tier_mixing_t *mixing)
{
    s_set (object, "chunk_mean_distance", s_number (mean_of (&mixing->chunk_distance)));
    s_set (object, "batch_distinct_chunks", s_number (mean_of (&mixing->batch_distinct_chunks)));
    s_set (object, "batch_most_of_one_chunk", s_number (mean_of (&mixing->batch_most_of_one_chunk)));
    s_set (object, "piece_mean_distance", s_number (mean_of (&mixing->piece_distance)));
    s_set (object, "piece_same_batch_ratio", s_number (mean_of (&mixing->piece_same_batch)));
}

static json_t *
s_json_counts (const uint64_t *counts, size_t count)
{
    json_t *list = json_array ();
    for (size_t epoch = 0; epoch < count; epoch++)
        json_array_append_new (list, json_integer ((json_int_t) counts [epoch]));
    return list;
}

static json_t *
s_json_reasons (const tier_result_t *result)
{
    json_t *object = json_object ();
    for (size_t reason = 0; reason < TIER_SINGLE_REASONS; reason++)
        s_set_count (object, s_reasons [reason], result->reasons [reason]);
    return object;
}

static void
s_set_singles (json_t *object, const tier_result_t *result)
{
    s_set (object, "singles", s_json_counts (result->singles_by_epoch, result->load_count));
    s_set (object, "singles_by_tenth", s_json_counts (result->singles_by_tenth, TIER_TENTHS));
    s_set (object, "single_reasons", s_json_reasons (result));
}

static json_t *
s_json_job (const tier_job_result_t *job)
{
    json_t *object = json_object ();
    s_set (object, "exactly_once", json_boolean (job->orders.exactly_once));
    s_set_count (object, "epochs", job->orders.epochs);
    for (size_t lag = 0; lag < ORDERS_LAGS; lag++) {
        char key [16];
        snprintf (key, sizeof key, lag? "phi2_lag%zu": "phi2", lag + 1);
        s_set (object, key, s_number (mean_of (&job->orders.phi2 [lag])));
    }
    s_set (object, "tail_to_head", s_number (mean_of (&job->orders.tail_to_head)));
    s_set_mixing (object, &job->mixing);
    s_set (object, "pair_repeat", s_number (mean_of (&job->orders.pair_repeat)));
    s_set_hash (object, job->order_hash);
    return object;
}

void
tier_report_json (const tier_plan_t *plan, uint64_t seed, const tier_result_t *result)
{
    json_t *object = json_object (), *jobs = json_array ();
    tier_mixing_t mixing = s_mixing (result);
    for (size_t job = 0; job < result->job_count; job++)
        json_array_append_new (jobs, s_json_job (&result->jobs [job]));
    s_set (object, "policy", json_string (s_policy_name (plan->policy)));
    s_set (object, "sampler", json_string (s_sampler_name (plan)));
    s_set_count (object, "seed", seed);
    s_set (object, "loads", s_json_counts (result->loads, result->load_count));
    if (result->singles_by_epoch)
        s_set_singles (object, result);
    s_set (object, "read_amplification", s_number (s_amplification (plan, result)));
    s_set (object, "bytes_per_data_epoch", s_number (s_per_data_epoch (result)));
    if (plan->pins > 0) {
        json_t *bytes = json_array ();
        for (size_t epoch = 0; epoch < result->load_count; epoch++)
            json_array_append_new (bytes, s_number (s_of_all (plan, result->bytes_by_epoch [epoch])));
        s_set (object, "pinned", s_number (result->pinned));
        s_set (object, "bytes_by_epoch", bytes);
    }
    s_set (object, "fill_rate", s_number (s_fill_rate (plan, result)));
    s_set_mixing (object, &mixing);
    s_set (object, "pair_repeat", s_number (s_pair_repeat (result)));
    s_set_hash (object, result->order_hash);
    s_set_count (object, "read_bytes", result->read_bytes);
    s_set_count (object, "single_reads", result->singles);
    s_set_count (object, "piece_reads", result->reads);
    s_set_count (object, "piece_samples", result->filled);
    s_set_count (object, "single_read_bytes", result->single_bytes);
    s_set_count (object, "samples_read_in_vain", result->discarded);
    s_set_count (object, "samples_handed", result->handed);
    s_set_count (object, "deliveries", result->deliveries);
    s_set_count (object, "memory_limit_bytes", result->limit_bytes);
    s_set_count (object, "memory_most_bytes", result->most_bytes);
    s_set (object, "jobs", jobs);
    char *text = json_dumps (object, JSON_INDENT (2) | JSON_REAL_PRECISION (8));
    assert (text);
    printf ("%s\n", text);
    free (text);
    json_decref (object);
}
