#include "simulated_options.h"

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
    SAMPLES_MAX = 1000000000, BATCH_MAX = 1000000, SEEDS_MAX = 100000, BATCH_DEFAULT = 64,
    SWEEP_SAMPLES = 4000, CACHE_SHARE = 50      //  a cache of 2 %
};

//  While parsing: what speaks of jobs by number is kept until all jobs are known.
typedef struct {
    simulated_options_t *options;
    simulated_job_t *jobs;
    size_t job_count;
    const char **phases, **leaves;
    size_t phase_count, leave_count;
    bool policy_given, slow_given, jitter_given;
} parser_t;

bool
simulated_complain (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    fputs ("sampler_sim: ", stderr);
    vfprintf (stderr, format, arguments);
    fputs ("\n", stderr);
    va_end (arguments);
    return false;
}

//  ---- numbers

//  Digits up to `end`, which must follow; *next_p: after it.
static bool
s_digits (const char *text, char end, uint64_t most, uint64_t *number_p, const char **next_p)
{
    if (*text < '0' || *text > '9')
        return false;
    char *stop;
    errno = 0;
    unsigned long long number = strtoull (text, &stop, 10);
    if (errno || *stop != end || number > most)
        return false;
    *number_p = number;
    *next_p = stop + 1;
    return true;
}

//  A decimal number up to `end`, which must follow.
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
s_parse_number (const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *number_p)
{
    const char *next;
    if (s_digits (text, '\0', most, number_p, &next) && *number_p >= least)
        return true;
    return simulated_complain ("--%s '%s': expected a whole number from %" PRIu64 " to %" PRIu64, option,
        text, least, most);
}

static bool
s_parse_small (const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *number_p)
{
    uint64_t number;
    if (!s_parse_number (option, text, least, most, &number))
        return false;
    *number_p = (uint32_t) number;
    return true;
}

//  ---- options with parts

static bool
s_parse_job (parser_t *self, const char *text)
{
    if (self->job_count == SIMULATED_JOBS_MAX)
        return simulated_complain ("--job '%s': there are %d jobs already, and that is the most", text,
            SIMULATED_JOBS_MAX);
    simulated_job_t *job = &self->jobs [self->job_count];
    *job = (simulated_job_t) { .leave = INFINITY };
    const char *at = text;
    uint64_t epochs;
    if (!s_real (at, ':', &job->speed, &at) || !s_real (at, ':', &job->start, &at)
            || !s_digits (at, ':', SIMULATED_EPOCHS_MAX, &epochs, &at)
            || !s_real (at, ':', &job->from, &at) || !s_real (at, '\0', &job->to, &at))
        return simulated_complain ("--job '%s': expected SPEED:START:EPOCHS:FROM:TO, as in 1:0.5:12:0:1",
            text);
    if (job->speed < 1e-6 || job->speed > 1)
        return simulated_complain ("--job '%s': expected a SPEED from 0.000001 to 1, the fastest job's",
            text);
    if (job->start < 0 || job->start > 1e6)
        return simulated_complain ("--job '%s': expected a START from 0 to 1000000 epochs", text);
    if (epochs == 0)
        return simulated_complain ("--job '%s': expected EPOCHS from 1 to %d", text, SIMULATED_EPOCHS_MAX);
    if (!(0 <= job->from && job->from < job->to && job->to <= 1))
        return simulated_complain ("--job '%s': expected 0 <= FROM < TO <= 1, shares of the samples", text);
    job->epochs = (uint32_t) epochs;
    self->job_count++;
    return true;
}

static bool
s_parse_policy (parser_t *self, const char *text)
{
    self->options->plan.policy = simulated_policy_of (text);
    self->policy_given = true;
    if (self->options->plan.policy != SIMULATED_POLICIES)
        return true;
    return simulated_complain ("--policy '%s': expected dsa, follow, resident, independent, lockstep or "
        "seeded", text);
}

static bool
s_parse_jitter (parser_t *self, const char *text)
{
    const char *next;
    self->jitter_given = true;
    double *jitter = &self->options->plan.jitter;
    if (s_real (text, '\0', jitter, &next) && *jitter >= 0 && *jitter < 1)
        return true;
    return simulated_complain ("--jitter '%s': expected a share of the step's time from 0 to below 1", text);
}

static bool
s_parse_slow (parser_t *self, const char *text)
{
    simulated_plan_t *plan = &self->options->plan;
    const char *at = text;
    self->slow_given = true;
    if (s_real (at, ':', &plan->slow_fraction, &at) && s_real (at, '\0', &plan->slow_factor, &at)
            && plan->slow_fraction >= 0 && plan->slow_fraction <= 1
            && plan->slow_factor >= 1 && plan->slow_factor <= 1000)
        return true;
    return simulated_complain ("--slow '%s': expected FRACTION:FACTOR, a share of the samples from 0 to 1, "
        "and how many times as long they take, from 1 to 1000", text);
}

//  JOB:, the number of a job that there is.
static bool
s_job_number (const parser_t *self, const char *text, uint64_t *job_p, const char **next_p)
{
    return s_digits (text, ':', SIMULATED_JOBS_MAX, job_p, next_p) && *job_p < self->job_count;
}

static bool
s_apply_phase (parser_t *self, const char *text)
{
    uint64_t job, late;
    const char *at;
    if (!s_job_number (self, text, &job, &at) || !s_digits (at, '\0', SAMPLES_MAX, &late, &at))
        return simulated_complain ("--phase '%s': expected JOB:SAMPLES, a job from 0 to %zu and a whole "
            "number", text, self->job_count - 1);
    self->jobs [job].late = (uint32_t) late;
    return true;
}

static bool
s_apply_leave (parser_t *self, const char *text)
{
    uint64_t job;
    double leave;
    const char *at;
    if (!s_job_number (self, text, &job, &at) || !s_real (at, '\0', &leave, &at) || leave < 0)
        return simulated_complain ("--leave '%s': expected JOB:AT, a job from 0 to %zu and a time in epochs",
            text, self->job_count - 1);
    self->jobs [job].leave = leave;
    return true;
}

//  ---- all together

static bool
s_take (parser_t *self, int option, const char *text)
{
    simulated_options_t *options = self->options;
    simulated_plan_t *plan = &options->plan;
    switch (option) {
    case 'p': return s_parse_policy (self, text);
    case 'n': return s_parse_small ("samples", text, 1, SAMPLES_MAX, &plan->samples);
    case 'c': return s_parse_small ("cache", text, 1, UINT32_MAX, &plan->cache);
    case 'j': return s_parse_job (self, text);
    case 'w': return s_parse_small ("window", text, 1, SAMPLES_MAX, &plan->window);
    case 'b': return s_parse_small ("batch", text, 1, BATCH_MAX, &plan->batch);
    case 'l': self->phases [self->phase_count++] = text; return true;
    case 'e': self->leaves [self->leave_count++] = text; return true;
    case 'd': return plan->is_deterministic = true;
    case 'i': return s_parse_jitter (self, text);
    case 'o': return s_parse_slow (self, text);
    case 's': return s_parse_number ("seed", text, 0, UINT64_MAX, &options->seed);
    case 'k': return s_parse_small ("seeds", text, 1, SEEDS_MAX, &options->seeds);
    case 'J': options->json = true; return true;
    case 'f': options->sweep = text; return true;
    case 'h': options->help = true; return true;
    default: return simulated_complain ("see `sampler_sim --help`");
    }
}

static bool
s_read (parser_t *self, int argc, char **argv)
{
    static const struct option options [] = {
        { "policy", required_argument, NULL, 'p' }, { "samples", required_argument, NULL, 'n' },
        { "cache", required_argument, NULL, 'c' }, { "job", required_argument, NULL, 'j' },
        { "window", required_argument, NULL, 'w' }, { "batch", required_argument, NULL, 'b' },
        { "phase", required_argument, NULL, 'l' }, { "leave", required_argument, NULL, 'e' },
        { "deterministic", no_argument, NULL, 'd' }, { "jitter", required_argument, NULL, 'i' },
        { "slow", required_argument, NULL, 'o' },
        { "seed", required_argument, NULL, 's' }, { "seeds", required_argument, NULL, 'k' },
        { "json", no_argument, NULL, 'J' }, { "sweep", required_argument, NULL, 'f' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 }
    };
    optind = 1;
    for (int option; (option = getopt_long (argc, argv, "", options, NULL)) != -1;)
        if (!s_take (self, option, optarg))
            return false;
        else
        if (self->options->help)
            return true;
    return optind == argc || simulated_complain ("what is '%s'? See `sampler_sim --help`", argv [optind]);
}

//  A sweep has jobs and policies of its own.
static bool
s_check_sweep (const parser_t *self)
{
    const char *unwanted = self->policy_given? "policy": self->job_count? "job": self->phase_count? "phase":
        self->leave_count? "leave": self->options->json? "json": NULL;
    return !unwanted || simulated_complain ("--%s: expected without --sweep, which has jobs and policies of "
        "its own", unwanted);
}

static bool
s_check_plan (const parser_t *self)
{
    if (!self->policy_given)
        return simulated_complain ("--policy: expected one, as in --policy follow");
    if (self->options->plan.samples == 0)
        return simulated_complain ("--samples: expected a number, as in --samples 4000");
    if (self->job_count == 0)
        return simulated_complain ("--job: expected at least one, as in --job 1:0:12:0:1");
    const char *unwanted = self->slow_given? "slow": self->jitter_given? "jitter":
        self->phase_count? "phase": NULL;
    if (unwanted && self->options->plan.policy == SIMULATED_LOCKSTEP)
        return simulated_complain ("--%s: expected with other policies, lockstep's jobs all step together",
            unwanted);
    return true;
}

static bool
s_check_jobs (parser_t *self)
{
    for (size_t phase = 0; phase < self->phase_count; phase++)
        if (!s_apply_phase (self, self->phases [phase]))
            return false;
    for (size_t leave = 0; leave < self->leave_count; leave++)
        if (!s_apply_leave (self, self->leaves [leave]))
            return false;
    for (size_t job = 0; job < self->job_count; job++) {
        uint32_t from, to;
        simulated_data (&self->options->plan, job, &from, &to);
        if (from == to)
            return simulated_complain ("--job: job %zu has no sample; expected more --samples or a wider "
                "FROM:TO", job);
    }
    return true;
}

static bool
s_complete (parser_t *self)
{
    simulated_plan_t *plan = &self->options->plan;
    if (self->options->sweep? !s_check_sweep (self): !s_check_plan (self))
        return false;
    if (plan->samples == 0)
        plan->samples = SWEEP_SAMPLES;
    if (plan->cache == 0)
        plan->cache = plan->samples / CACHE_SHARE? plan->samples / CACHE_SHARE: 1;
    if (plan->window > 1 && plan->window < plan->batch)
        return simulated_complain ("--window '%" PRIu32 "': expected 1, or at least the batch of "
            "%" PRIu32 ", which would "
            "never be full", plan->window, plan->batch);
    plan->jobs = self->jobs;
    plan->job_count = self->job_count;
    return s_check_jobs (self);
}

bool
simulated_options_parse (simulated_options_t *self, int argc, char **argv)
{
    *self = (simulated_options_t) {
        .plan = { .window = 1, .batch = BATCH_DEFAULT }, .seed = 1, .seeds = 1
    };
    parser_t parser = { .options = self };
    parser.jobs = simulated_alloc (SIMULATED_JOBS_MAX, sizeof *parser.jobs);
    parser.phases = simulated_alloc ((size_t) argc, sizeof *parser.phases);
    parser.leaves = simulated_alloc ((size_t) argc, sizeof *parser.leaves);
    self->plan.jobs = parser.jobs;
    bool fine = s_read (&parser, argc, argv) && (self->help || s_complete (&parser));
    free (parser.phases);
    free (parser.leaves);
    return fine;
}

void
simulated_options_clear (simulated_options_t *self)
{
    free ((simulated_job_t *) self->plan.jobs);
    self->plan.jobs = NULL;
}
