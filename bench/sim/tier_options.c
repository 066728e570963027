#include "tier_options.h"
#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "option.h"
#include "simulated_memory.h"
#include "simulated_options.h"

enum {
    SAMPLES_MAX = 1000000000, BATCH_MAX = 1000000, VIRTUAL_MAX = 1000000000,
    CHUNK_DEFAULT = 64, PIECE_DEFAULT = 8, BATCH_DEFAULT = 256, EPOCHS_DEFAULT = 3
};
#define BYTES_MAX (UINT64_C (1) << 40)

static bool
s_complain (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    fputs ("tier_sim: ", stderr);
    vfprintf (stderr, format, arguments);
    fputs ("\n", stderr);
    va_end (arguments);
    return false;
}

static bool
s_job (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    tier_options_t *self = target;
    simulated_job_t job;
    if (self->job_count == TIER_PLAN_JOBS_MAX)
        return option_fail (error, "there are %d jobs already, and that is the most", TIER_PLAN_JOBS_MAX);
    if (!simulated_options_job (text, TIER_PLAN_EPOCHS_MAX, &job, error))
        return false;
    self->jobs [self->job_count++] = (tier_plan_job_t) {
        .speed = job.speed, .start = job.start, .epochs = job.epochs, .from = job.from, .to = job.to
    };
    return true;
}

#define AT(member) OPTION_AT (tier_options_t, member)
#define SHARE .low = DBL_MIN, .high = 1, \
    .expected = "a share of the samples, above 0 and up to 1, as in 0.02"

static const option_row_t s_rows [] = {
    { "policy", "P", AT (plan.policy),
        "stream: shuffled pieces, each once a pass; redox: as published; direct: single reads",
        .choices = OPTION_CHOICES ("stream", "redox", "direct") },
    { "sampler", "S", AT (plan.sampler),
        "follow (default), dsa: the sampler's policy; private: every job by itself, with a raw pool\n"
        "of its own", .choices = OPTION_CHOICES ("dsa", "follow", "private") },
    { "samples", "N", AT (plan.samples), "how many there are", 1, SAMPLES_MAX },
    { "chunk", "K", AT (plan.chunk), "samples of a chunk, up to 64 (default: 64)", 1, RAW_PIECE_MAX },
    { "piece", "K", AT (plan.piece), "stream: samples of a piece, up to 64 (default: 8)", 1, RAW_PIECE_MAX },
    { "memory", "FRACTION", AT (plan.memory),
        "of the raw pool, as a share of the samples; private: of each job's", SHARE },
    { "pins", "FRACTION", AT (plan.pins),
        "samples that stay in memory beside that, in blocks that are filled until full, as a share\n"
        "of all (default: none)", SHARE },
    { "virtual-chunks", "M", AT (plan.virtual_chunks),
        "redox, in place of --memory: how many; memory is what they take", 1, VIRTUAL_MAX },
    { "cache", "FRACTION", AT (plan.cache),
        "of the prepared cache, as a share of the samples (default: 0.02)", SHARE },
    { "deterministic", NULL, AT (plan.is_deterministic),
        "the shared stage has no random operations: a version serves a job in every epoch, not once" },
    { "tenants", "N", AT (plan.tenants), "of equal weight; jobs are theirs in turn (default: 1)",
        1, TIER_PLAN_TENANTS_MAX },
    { "epochs", "E", AT (epochs), "of one job with all the samples (default: 3), or",
        1, TIER_PLAN_EPOCHS_MAX },
    { "job", "SPEED:START:EPOCHS:FROM:TO", OPTION_CALL (s_job),
        "a job, again for each: speed (the fastest job's is 1), when it joins (in epochs of N\n"
        "samples at speed 1), how many epochs, and its data, FROM*N to TO*N" },
    { "batch", "B", AT (plan.batch), "samples of a batch (default: 256)", 1, BATCH_MAX },
    { "sample-bytes", "N", AT (plan.sample_bytes), "of each sample (default: 1)", 1, BYTES_MAX },
    { "align", "BYTES", AT (plan.align),
        "reads begin and end at multiples of this, and chunks are padded to it (default: 1)", 1, BYTES_MAX },
    { "seed", "S", AT (seed), "of the pack's order and of all choices (default: 1)" },
    { "until", "EPOCHS", AT (plan.until),
        "ends then, in epochs of N samples at speed 1, even if jobs are left: to see jobs beside\n"
        "one that hardly draws", .low = DBL_MIN, .high = TIER_PLAN_EPOCHS_MAX,
        .expected = "epochs, above 0 and up to 100000, as in 10" },
    { "published-rng", NULL, AT (plan.published_rng),
        "redox without a sampler, on one splitmix64, unshuffled pack: to compare load by load" },
    { "table", NULL, AT (table),
        "what an epoch reads with `tureen serve --memory` for a quarter to nine tenths of the\n"
        "data, by one job and by four: of 1 GB of photographs in a pack, of --samples of\n"
        "--sample-bytes, or of --data.  Takes seconds; at most 20,000 samples are simulated" },
    { "data", "PATH", AT (data), "with --table: a folder or a pack, as of `tureen serve`" },
    { "json", NULL, AT (json), "the figures as JSON" }
};
_Static_assert (RAW_REDOX == 1 && RAW_DIRECT == 2 && TIER_FOLLOW == 1 && TIER_PRIVATE == 2,
    "the choices' places");
_Static_assert (TIER_PLAN_EPOCHS_MAX == 100000, "what --until says");

static const option_table_t s_table = { "tier_sim", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: tier_sim --policy P --samples N --memory FRACTION [options]\n"
    "       tier_sim --table [--data PATH] [--json]\n"
    "\n"
    "Drives the raw tier, the sampler and the prepared cache with simulated jobs on a virtual clock,\n"
    "without reading or decoding, and says what is read and how well orders mix what lies together in the\n"
    "pack.\n"
    "\n", .after =
    "\n"
    "loads: reads in each epoch of the fastest job.  singles: those of one sample.  singles_by_tenth: by\n"
    "tenth of the drawing job's epoch.  single_reasons, of every 16th single read: what is resident and\n"
    "needed by the job is nothing (unneeded), is of other strata or has a version (elsewhere), is refused\n"
    "by the quotas of follow (refused), or is of other jobs' supplies, was not found or not looked for\n"
    "(passed_by).\n"
    "read_amplification: bytes read, over bytes of the samples handed to workers.  bytes_per_data_epoch:\n"
    "bytes read, over the bytes of all jobs' data times the fastest job's epochs.  pinned, with --pins: the\n"
    "share of the samples that is in the end; and bytes_by_epoch: bytes read in each epoch of the fastest\n"
    "job, over the bytes of all samples, which is 1 - pinned from the second epoch on where each sample is\n"
    "read once.\n"
    "fill_rate: mean share of the memory that is filled; redox: slots that a load fills.  order_hash:\n"
    "FNV-1a of all ids, in the order in which they were drawn.  Means over all jobs' epochs (shuffle:\n"
    "what a plain shuffle gives):\n"
    "  chunk_mean_distance       of two samples of one chunk in the order, as a share of it (shuffle: "
    "0.333)\n"
    "  piece_mean_distance       the same of two samples of one piece, pieces counted from the pack's begin\n"
    "  piece_same_batch_ratio    how often these two share a batch, over chance (shuffle: 1)\n"
    "  batch_distinct_chunks     chunks that a full batch has samples of\n"
    "  batch_most_of_one_chunk   samples that it has of the chunk of which it has most\n"
    "pair_repeat: how often two samples that shared a batch share one in the next epoch, over chance\n"
    "(shuffle: 1), of the worst job.\n"
    "\n"
    "Exit status: 0 done, 1 something could not be written, 2 unusable arguments.\n" };

//  ---- what fits together

static bool
s_check_published (const tier_options_t *self, const option_result_t *result)
{
    const tier_plan_t *plan = &self->plan;
    if (!plan->published_rng)
        return true;
    if (plan->policy != RAW_REDOX)
        return s_complain ("--published-rng: goes with --policy redox");
    if (plan->pins > 0)
        return s_complain ("--pins: does not go with --published-rng");
    if (self->job_count || option_given (&s_table, result, "sampler")
        || option_given (&s_table, result, "cache") || plan->is_deterministic || plan->tenants > 0
        || plan->until > 0)
        return s_complain ("--published-rng: has one job of its own, neither --job, --sampler, --cache, "
            "--deterministic, --tenants nor --until");
    return true;
}

static bool
s_check_memory (const tier_options_t *self, const option_result_t *result)
{
    const tier_plan_t *plan = &self->plan;
    if (plan->virtual_chunks && plan->policy != RAW_REDOX)
        return s_complain ("--virtual-chunks: goes with --policy redox");
    if (plan->virtual_chunks && option_given (&s_table, result, "memory"))
        return s_complain ("--virtual-chunks and --memory: expected one of them");
    uint32_t chunks = (plan->samples + plan->chunk - 1) / plan->chunk;
    if (plan->virtual_chunks > chunks)
        return s_complain ("--virtual-chunks %u: there are %u chunks, and that is the most",
            plan->virtual_chunks, chunks);
    if (plan->policy == RAW_DIRECT || plan->virtual_chunks)
        return true;
    if (!option_given (&s_table, result, "memory"))
        return s_complain ("--memory is missing: the share of the samples that are in memory, as in 0.02");
    uint32_t least = plan->policy == RAW_STREAM? plan->piece: plan->chunk;
    if (plan->memory * plan->samples < least)
        return s_complain ("--memory %g: holds %.1f of %u samples; expected at least %u, a %s", plan->memory,
            plan->memory * plan->samples, plan->samples, least, plan->policy == RAW_STREAM? "piece": "chunk");
    return true;
}

static bool
s_check_jobs (const tier_options_t *self)
{
    for (size_t job = 0; job < self->job_count; job++) {
        uint32_t from, to;
        tier_plan_data (&self->plan, job, &from, &to);
        if (from == to)
            return s_complain ("--job: job %zu has none of the %u samples; expected a wider FROM:TO", job,
                self->plan.samples);
    }
    return true;
}

//  Memory, policy and jobs are those of the table.
static bool
s_check_table (const tier_options_t *self, const option_result_t *result)
{
    static const char *const others [] = { "policy", "sampler", "chunk", "piece", "memory", "pins",
        "virtual-chunks", "cache", "deterministic", "tenants", "epochs", "job", "batch", "align", "until",
        "published-rng" };
    for (size_t index = 0; index < sizeof others / sizeof *others; index++)
        if (option_given (&s_table, result, others [index]))
            return s_complain ("--%s: does not go with --table, which has its own", others [index]);
    if (self->data && (option_given (&s_table, result, "samples")
        || option_given (&s_table, result, "sample-bytes")))
        return s_complain ("--data: has samples of its own, neither --samples nor --sample-bytes");
    return true;
}

static bool
s_finish (tier_options_t *self, const option_result_t *result)
{
    if (self->table)
        return s_check_table (self, result);
    if (self->data)
        return s_complain ("--data: goes with --table");
    if (!option_given (&s_table, result, "policy"))
        return s_complain ("--policy is missing: stream, redox or direct");
    if (!option_given (&s_table, result, "samples"))
        return s_complain ("--samples is missing: how many there are");
    if (self->job_count && self->epochs)
        return s_complain ("--epochs and --job: expected one of them; a --job says how many epochs it has");
    if (!s_check_published (self, result) || !s_check_memory (self, result))
        return false;
    if (self->job_count == 0)
        self->jobs [self->job_count++] = (tier_plan_job_t) {
            .speed = 1, .epochs = self->epochs? self->epochs: EPOCHS_DEFAULT, .to = 1
        };
    self->plan.jobs = self->jobs;
    self->plan.job_count = self->job_count;
    return s_check_jobs (self);
}

int
tier_options_parse (tier_options_t *self, int argc, char **argv)
{
    *self = (tier_options_t) {
        .plan = {
            .sampler = TIER_FOLLOW, .chunk = CHUNK_DEFAULT, .piece = PIECE_DEFAULT, .cache = 0.02,
            .batch = BATCH_DEFAULT, .sample_bytes = 1, .align = 1
        },
        .jobs = simulated_alloc (TIER_PLAN_JOBS_MAX, sizeof *self->jobs), .seed = 1
    };
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    return status >= 0? status: s_finish (self, &result)? -1: 2;
}

void
tier_options_clear (tier_options_t *self)
{
    free (self->jobs);
    self->jobs = NULL;
}
