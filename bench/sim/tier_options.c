#include "tier_options.h"
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "simulated_memory.h"

enum {
    SAMPLES_MAX = 1000000000, BATCH_MAX = 1000000, VIRTUAL_MAX = 1000000000,
    CHUNK_DEFAULT = 64, PIECE_DEFAULT = 8, BATCH_DEFAULT = 256, EPOCHS_DEFAULT = 3
};
static const uint64_t BYTES_MAX = UINT64_C (1) << 40;

typedef struct {
    tier_options_t *options;
    size_t job_count;
    uint32_t epochs;                    //  0: not given
    bool policy_given, sampler_given, memory_given, cache_given, piece_given, samples_given;
} parser_t;

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

//  ---- numbers

static bool
s_number (const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *number_p)
{
    char *stop = NULL;
    errno = 0;
    unsigned long long number = *text >= '0' && *text <= '9'? strtoull (text, &stop, 10): 0;
    if (stop && !errno && *stop == '\0' && number >= least && number <= most) {
        *number_p = number;
        return true;
    }
    return s_complain ("--%s '%s': expected a whole number from %" PRIu64 " to %" PRIu64, option, text, least,
        most);
}

static bool
s_small (const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *number_p)
{
    uint64_t number = 0;
    if (!s_number (option, text, least, most, &number))
        return false;
    *number_p = (uint32_t) number;
    return true;
}

static bool
s_size (const char *option, const char *text, size_t *bytes_p)
{
    uint64_t number = 0;
    if (!s_number (option, text, 1, BYTES_MAX, &number))
        return false;
    *bytes_p = (size_t) number;
    return true;
}

//  A decimal number up to `end`, which must follow; *next_p: after it.
static bool
s_real (const char *text, char end, double *number_p, const char **next_p)
{
    size_t length = strspn (text, "0123456789.eE+-");
    char *stop;
    *number_p = strtod (text, &stop);
    if (length == 0 || stop != text + length || *stop != end || !isfinite (*number_p))
        return false;
    *next_p = stop + 1;
    return true;
}

static bool
s_share (const char *option, const char *text, double *share_p)
{
    const char *next;
    if (s_real (text, '\0', share_p, &next) && *share_p > 0 && *share_p <= 1)
        return true;
    return s_complain ("--%s '%s': expected a share of the samples, above 0 and up to 1, as in 0.02", option,
        text);
}

static bool
s_until (const char *text, double *epochs_p)
{
    const char *next;
    if (s_real (text, '\0', epochs_p, &next) && *epochs_p > 0 && *epochs_p <= TIER_PLAN_EPOCHS_MAX)
        return true;
    return s_complain ("--until '%s': expected epochs, above 0 and up to %d, as in 10", text,
        TIER_PLAN_EPOCHS_MAX);
}

//  ---- options with parts

static bool
s_job (parser_t *self, const char *text)
{
    if (self->job_count == TIER_PLAN_JOBS_MAX)
        return s_complain ("--job '%s': there are %d jobs already, and that is the most", text,
            TIER_PLAN_JOBS_MAX);
    tier_plan_job_t *job = &self->options->jobs [self->job_count];
    const char *at = text;
    double epochs;
    if (!s_real (at, ':', &job->speed, &at) || !s_real (at, ':', &job->start, &at)
        || !s_real (at, ':', &epochs, &at)
            || !s_real (at, ':', &job->from, &at) || !s_real (at, '\0', &job->to, &at))
        return s_complain ("--job '%s': expected SPEED:START:EPOCHS:FROM:TO, as in 1:0.5:12:0:1", text);
    if (job->speed < 1e-6 || job->speed > 1)
        return s_complain ("--job '%s': expected a SPEED from 0.000001 to 1, the fastest job's", text);
    if (job->start < 0 || job->start > 1e6)
        return s_complain ("--job '%s': expected a START from 0 to 1000000 epochs", text);
    if (!(epochs >= 1 && epochs <= TIER_PLAN_EPOCHS_MAX) || floor (epochs) < epochs)
        return s_complain ("--job '%s': expected EPOCHS from 1 to %d", text, TIER_PLAN_EPOCHS_MAX);
    if (!(0 <= job->from && job->from < job->to && job->to <= 1))
        return s_complain ("--job '%s': expected 0 <= FROM < TO <= 1, shares of the samples", text);
    job->epochs = (uint32_t) epochs;
    self->job_count++;
    return true;
}

static bool
s_policy (parser_t *self, const char *text)
{
    tier_plan_t *plan = &self->options->plan;
    self->policy_given = true;
    if (strcmp (text, "stream") == 0)
        plan->policy = RAW_STREAM;
    else
    if (strcmp (text, "redox") == 0)
        plan->policy = RAW_REDOX;
    else
    if (strcmp (text, "direct") == 0)
        plan->policy = RAW_DIRECT;
    else
        return s_complain ("--policy '%s': expected stream, redox or direct", text);
    return true;
}

static bool
s_sampler (parser_t *self, const char *text)
{
    tier_plan_t *plan = &self->options->plan;
    self->sampler_given = true;
    if (strcmp (text, "dsa") == 0)
        plan->sampler = TIER_DSA;
    else
    if (strcmp (text, "follow") == 0)
        plan->sampler = TIER_FOLLOW;
    else
    if (strcmp (text, "private") == 0)
        plan->sampler = TIER_PRIVATE;
    else
        return s_complain ("--sampler '%s': expected follow, dsa or private", text);
    return true;
}

//  ---- what fits together

static bool
s_check_published (const parser_t *self)
{
    const tier_plan_t *plan = &self->options->plan;
    if (!plan->published_rng)
        return true;
    if (plan->policy != RAW_REDOX)
        return s_complain ("--published-rng: goes with --policy redox");
    if (self->job_count || self->sampler_given || self->cache_given || plan->until > 0)
        return s_complain ("--published-rng: has one job of its own, neither --job, --sampler, --cache nor "
            "--until");
    return true;
}

static bool
s_check_memory (const parser_t *self)
{
    const tier_plan_t *plan = &self->options->plan;
    if (plan->virtual_chunks && plan->policy != RAW_REDOX)
        return s_complain ("--virtual-chunks: goes with --policy redox");
    if (plan->virtual_chunks && self->memory_given)
        return s_complain ("--virtual-chunks and --memory: expected one of them");
    uint32_t chunks = (plan->samples + plan->chunk - 1) / plan->chunk;
    if (plan->virtual_chunks > chunks)
        return s_complain ("--virtual-chunks %u: there are %u chunks, and that is the most",
            plan->virtual_chunks, chunks);
    if (plan->policy == RAW_DIRECT || plan->virtual_chunks)
        return true;
    if (!self->memory_given)
        return s_complain ("--memory is missing: the share of the samples that are in memory, as in 0.02");
    uint32_t least = plan->policy == RAW_STREAM? plan->piece: plan->chunk;
    if (plan->memory * plan->samples < least)
        return s_complain ("--memory %g: holds %.1f of %u samples; expected at least %u, a %s", plan->memory,
            plan->memory * plan->samples, plan->samples, least, plan->policy == RAW_STREAM? "piece": "chunk");
    return true;
}

static bool
s_check_jobs (const parser_t *self)
{
    const tier_options_t *options = self->options;
    for (size_t job = 0; job < self->job_count; job++) {
        uint32_t from, to;
        tier_plan_data (&options->plan, job, &from, &to);
        if (from == to)
            return s_complain ("--job: job %zu has none of the %u samples; expected a wider FROM:TO", job,
                options->plan.samples);
    }
    return true;
}

static bool
s_finish (parser_t *self)
{
    tier_options_t *options = self->options;
    if (!self->policy_given)
        return s_complain ("--policy is missing: stream, redox or direct");
    if (!self->samples_given)
        return s_complain ("--samples is missing: how many there are");
    if (self->job_count && self->epochs)
        return s_complain ("--epochs and --job: expected one of them; a --job says how many epochs it has");
    if (!s_check_published (self) || !s_check_memory (self))
        return false;
    if (self->job_count == 0)
        options->jobs [self->job_count++] = (tier_plan_job_t) {
            .speed = 1, .epochs = self->epochs? self->epochs: EPOCHS_DEFAULT, .to = 1
        };
    options->plan.jobs = options->jobs;
    options->plan.job_count = self->job_count;
    return s_check_jobs (self);
}

//  ---- the line

enum {
    OPTION_POLICY = 256, OPTION_SAMPLER, OPTION_SAMPLES, OPTION_CHUNK, OPTION_PIECE, OPTION_MEMORY,
        OPTION_VIRTUAL,
    OPTION_CACHE, OPTION_EPOCHS, OPTION_JOB, OPTION_BATCH, OPTION_SAMPLE_BYTES, OPTION_ALIGN, OPTION_SEED,
    OPTION_PUBLISHED, OPTION_UNTIL, OPTION_JSON, OPTION_HELP
};

static const struct option s_options [] = {
    { "policy", required_argument, NULL, OPTION_POLICY },
    { "sampler", required_argument, NULL, OPTION_SAMPLER },
    { "samples", required_argument, NULL, OPTION_SAMPLES },
    { "chunk", required_argument, NULL, OPTION_CHUNK },
    { "piece", required_argument, NULL, OPTION_PIECE },
    { "memory", required_argument, NULL, OPTION_MEMORY },
    { "virtual-chunks", required_argument, NULL, OPTION_VIRTUAL },
    { "cache", required_argument, NULL, OPTION_CACHE },
    { "epochs", required_argument, NULL, OPTION_EPOCHS },
    { "job", required_argument, NULL, OPTION_JOB },
    { "batch", required_argument, NULL, OPTION_BATCH },
    { "sample-bytes", required_argument, NULL, OPTION_SAMPLE_BYTES },
    { "align", required_argument, NULL, OPTION_ALIGN },
    { "seed", required_argument, NULL, OPTION_SEED },
    { "published-rng", no_argument, NULL, OPTION_PUBLISHED },
    { "until", required_argument, NULL, OPTION_UNTIL },
    { "json", no_argument, NULL, OPTION_JSON },
    { "help", no_argument, NULL, OPTION_HELP },
    { NULL, 0, NULL, 0 }
};

static bool
s_option (parser_t *self, int option, const char *text)
{
    tier_options_t *options = self->options;
    tier_plan_t *plan = &options->plan;
    switch (option) {
    case OPTION_POLICY:
        return s_policy (self, text);
    case OPTION_SAMPLER:
        return s_sampler (self, text);
    case OPTION_SAMPLES:
        self->samples_given = true;
        return s_small ("samples", text, 1, SAMPLES_MAX, &plan->samples);
    case OPTION_CHUNK:
        return s_small ("chunk", text, 1, RAW_PIECE_MAX, &plan->chunk);
    case OPTION_PIECE:
        return s_small ("piece", text, 1, RAW_PIECE_MAX, &plan->piece);
    case OPTION_MEMORY:
        self->memory_given = true;
        return s_share ("memory", text, &plan->memory);
    case OPTION_VIRTUAL:
        return s_small ("virtual-chunks", text, 1, VIRTUAL_MAX, &plan->virtual_chunks);
    case OPTION_CACHE:
        self->cache_given = true;
        return s_share ("cache", text, &plan->cache);
    case OPTION_EPOCHS:
        return s_small ("epochs", text, 1, TIER_PLAN_EPOCHS_MAX, &self->epochs);
    case OPTION_JOB:
        return s_job (self, text);
    case OPTION_BATCH:
        return s_small ("batch", text, 1, BATCH_MAX, &plan->batch);
    case OPTION_SAMPLE_BYTES:
        return s_size ("sample-bytes", text, &plan->sample_bytes);
    case OPTION_ALIGN:
        return s_size ("align", text, &plan->align);
    case OPTION_SEED:
        return s_number ("seed", text, 0, UINT64_MAX, &options->seed);
    case OPTION_PUBLISHED:
        return plan->published_rng = true;
    case OPTION_UNTIL:
        return s_until (text, &plan->until);
    case OPTION_JSON:
        return options->json = true;
    case OPTION_HELP:
        return options->help = true;
    default:
        return s_complain ("tier_sim --help says what there is");
    }
}

bool
tier_options_parse (tier_options_t *self, int argc, char **argv)
{
    *self = (tier_options_t) {
        .plan = {
            .sampler = TIER_FOLLOW, .chunk = CHUNK_DEFAULT, .piece = PIECE_DEFAULT, .cache = 0.02,
            .batch = BATCH_DEFAULT, .sample_bytes = 1, .align = 1
        },
        .jobs = simulated_alloc (TIER_PLAN_JOBS_MAX, sizeof *self->jobs), .seed = 1
    };
    parser_t parser = { .options = self };
    int option;
    while ((option = getopt_long (argc, argv, "", s_options, NULL)) != -1)
        if (!s_option (&parser, option, optarg))
            return false;
    if (self->help)
        return true;
    if (optind < argc)
        return s_complain ("'%s': expected options only", argv [optind]);
    return s_finish (&parser);
}

void
tier_options_clear (tier_options_t *self)
{
    free (self->jobs);
    self->jobs = NULL;
}
