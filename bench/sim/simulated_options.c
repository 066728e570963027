#include "simulated_options.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "simulated_memory.h"

enum {
    SAMPLES_MAX = 1000000000, BATCH_MAX = 1000000, SEEDS_MAX = 100000, BATCH_DEFAULT = 64,
    SUBSETS_SAMPLES = 4000, SUBSETS_EPOCHS = 12,
    SWEEP_SAMPLES = 4000, CACHE_SHARE = 50      //  a cache of 2 %
};

//  While parsing: what speaks of jobs by number is kept until all jobs are known.
typedef struct {
    simulated_options_t options;
    simulated_job_t *jobs;
    size_t job_count;
    const char **phases, **leaves;
    size_t phase_count, leave_count;
    double speeds [SIMULATED_JOBS_MAX];
    size_t speed_count;
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

//  ---- options with parts

bool
simulated_options_job (const char *text, uint32_t epochs_max, simulated_job_t *job,
    char error [OPTION_ERROR_BYTES])
{
    *job = (simulated_job_t) { .leave = INFINITY };
    const char *at = text;
    uint64_t epochs;
    if (!option_real (at, ':', &job->speed, &at) || !option_real (at, ':', &job->start, &at)
            || !option_digits (at, "", &epochs, &at) || *at++ != ':'
            || !option_real (at, ':', &job->from, &at) || !option_real (at, '\0', &job->to, &at))
        return option_fail (error, "expected SPEED:START:EPOCHS:FROM:TO, as in 1:0.5:12:0:1");
    if (job->speed < 1e-6 || job->speed > 1)
        return option_fail (error, "expected a SPEED from 0.000001 to 1, the fastest job's");
    if (job->start < 0 || job->start > 1e6)
        return option_fail (error, "expected a START from 0 to 1000000 epochs");
    if (epochs == 0 || epochs > epochs_max)
        return option_fail (error, "expected EPOCHS from 1 to %" PRIu32, epochs_max);
    if (!(0 <= job->from && job->from < job->to && job->to <= 1))
        return option_fail (error, "expected 0 <= FROM < TO <= 1, shares of the samples");
    job->epochs = (uint32_t) epochs;
    return true;
}

static bool
s_job (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    parser_t *self = target;
    if (self->job_count == SIMULATED_JOBS_MAX)
        return option_fail (error, "there are %d jobs already, and that is the most", SIMULATED_JOBS_MAX);
    return simulated_options_job (text, SIMULATED_EPOCHS_MAX, &self->jobs [self->job_count++], error);
}

static bool
s_speeds (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    parser_t *self = target;
    const char *at = text;
    for (self->speed_count = 0; self->speed_count < SIMULATED_JOBS_MAX; self->speed_count++) {
        double *speed = &self->speeds [self->speed_count];
        bool more = strchr (at, ',') != NULL;
        if (!option_real (at, more? ',': '\0', speed, &at) || *speed < 1e-6 || *speed > 1)
            break;
        if (!more) {
            self->speed_count++;
            return true;
        }
    }
    return option_fail (error, "expected speeds from 0.000001 to 1 with commas between, as in "
        "1,0.73,0.41,0.23");
}

static bool
s_slow (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    simulated_plan_t *plan = &((parser_t *) target)->options.plan;
    const char *at = text;
    if (option_real (at, ':', &plan->slow_fraction, &at) && option_real (at, '\0', &plan->slow_factor, &at)
            && plan->slow_fraction >= 0 && plan->slow_fraction <= 1
            && plan->slow_factor >= 1 && plan->slow_factor <= 1000)
        return true;
    return option_fail (error, "expected FRACTION:FACTOR, a share of the samples from 0 to 1, "
        "and how many times as long they take, from 1 to 1000");
}

static bool
s_phase (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    parser_t *self = target;
    (void) error;
    self->phases [self->phase_count++] = text;
    return true;
}

static bool
s_leave (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    parser_t *self = target;
    (void) error;
    self->leaves [self->leave_count++] = text;
    return true;
}

//  JOB:, the number of a job that there is.
static bool
s_job_number (const parser_t *self, const char *text, uint64_t *job_p, const char **next_p)
{
    return option_digits (text, "", job_p, next_p) && *(*next_p)++ == ':' && *job_p < self->job_count;
}

static bool
s_apply_phase (parser_t *self, const char *text)
{
    uint64_t job, late;
    const char *at;
    if (!s_job_number (self, text, &job, &at) || !option_digits (at, "", &late, &at) || *at
        || late > SAMPLES_MAX)
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
    if (!s_job_number (self, text, &job, &at) || !option_real (at, '\0', &leave, &at) || leave < 0)
        return simulated_complain ("--leave '%s': expected JOB:AT, a job from 0 to %zu and a time in epochs",
            text, self->job_count - 1);
    self->jobs [job].leave = leave;
    return true;
}

//  ---- all together

#define AT(member) OPTION_AT (parser_t, options.member)
static const option_row_t s_rows [] = {
    { "policy", "P", AT (plan.policy),
        "dsa, follow, resident: the sampler's; independent: every job draws alone; lockstep: one\n"
        "order for all, at the pace of the slowest, and no cache; seeded: nothing is shared",
        .choices = OPTION_CHOICES ("dsa", "follow", "resident", "independent", "lockstep", "seeded") },
    { "samples", "N", AT (plan.samples), "how many there are", 1, SAMPLES_MAX },
    { "cache", "C", AT (plan.cache), "how many versions the prepared cache holds (default: 2 % of N)", 1 },
    { "job", "SPEED:START:EPOCHS:FROM:TO", OPTION_CALL (s_job),
        "a job, again for each, counted from 0: speed (the fastest job's is 1), when it joins,\n"
        "how many epochs, and its data, FROM*N to TO*N" },
    { "subsets", "K", AT (subsets), "K jobs, each on a random half of the samples (default: of 4000)", 1,
        SIMULATED_JOBS_MAX },
    { "staggered", NULL, AT (staggered), "with --subsets: they join at random times of the first epoch" },
    { "speeds", "S,S...", OPTION_CALL (s_speeds), "with --subsets: their speeds, in turn (default: 1)" },
    { "epochs", "E", AT (subset_epochs),
        "with --subsets: how many epochs a job of speed 1 has; slower ones have as much time (default: 12)",
        1, SIMULATED_EPOCHS_MAX },
    { "window", "W", AT (plan.window),
        "samples that a job may have drawn and not released: 1 (default), or at least a batch",
        1, SAMPLES_MAX },
    { "batch", "B", AT (plan.batch),
        "samples that are released together, and that share a batch (default: 64)", 1, BATCH_MAX },
    { "phase", "JOB:SAMPLES", OPTION_CALL (s_phase), "the job is so many samples late in its first batch" },
    { "leave", "JOB:AT", OPTION_CALL (s_leave), "the job leaves at this time" },
    { "deterministic", NULL, AT (plan.is_deterministic),
        "the shared stage has no random operations: a version serves a job in every epoch,\n"
        "not once" },
    { "jitter", "FRACTION", AT (plan.jitter), "each step takes its time +- this share of it",
        .high = 1 - DBL_EPSILON / 2, .expected = "a share of the step's time from 0 to below 1" },
    { "slow", "FRACTION:FACTOR", OPTION_CALL (s_slow),
        "preparing takes time, on as many workers as just keep up, and this share of the samples\n"
        "takes FACTOR times as long" },
    { "seed", "S", AT (seed), "(default: 1)" },
    { "seeds", "K", AT (seeds),
        "K runs, from seed S on: figures are means, preparations get a standard error, and up to\n"
        "1000 samples every epoch is tested for uniform positions", 1, SEEDS_MAX },
    { "json", NULL, AT (json), "the figures as JSON" },
    { "sweep", "FOLDER", AT (sweep),
        "the design's table, then offsets and speed ratios of two to four jobs, for dsa, follow and\n"
        "resident: writes sweep.md, offsets.dat, ratios.dat and, with gnuplot, sweep.svg\n"
        "(default: 4000 samples)" }
};

static const option_table_t s_table = { "sampler_sim", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: sampler_sim --policy P --samples N [--cache C] --job JOB... [options]\n"
    "       sampler_sim --policy P --subsets K [--staggered] [--speeds S,S...] [--epochs E] [options]\n"
    "       sampler_sim --sweep FOLDER [options]\n"
    "\n"
    "Drives the sampler and the prepared cache with simulated jobs, on a virtual clock and without\n"
    "decoding, and says how much is shared and how fresh and uniform every job's orders are.  Time counts\n"
    "in epochs of N samples of a job of speed 1; only finished epochs are judged.\n"
    "\n", .after =
    "\n"
    "phi2: 0 for independent orders, at most 0.02 is fresh.  t5h5 and pairs: how often, over chance, a\n"
    "sample of the last 5 % comes in the next first 5 %, and two samples share a batch again.\n"
    "\n"
    "Exit status: 0 done, 1 something could not be written or plotted, 2 unusable arguments.\n" };

//  The first of these options that was given; NULL: none.  names: up to a NULL.
static const char *
s_first_given (const option_result_t *result, const char *const *names)
{
    while (*names && !option_given (&s_table, result, *names))
        names++;
    return *names;
}

//  A sweep has jobs and policies of its own.
static bool
s_check_sweep (const option_result_t *result)
{
    const char *unwanted = s_first_given (result,
        OPTION_CHOICES ("policy", "job", "subsets", "phase", "leave", "json"));
    return !unwanted || simulated_complain ("--%s: expected without --sweep, which has jobs and policies of "
        "its own", unwanted);
}

static bool
s_check_plan (const parser_t *self, const option_result_t *result)
{
    if (!option_given (&s_table, result, "policy"))
        return simulated_complain ("--policy: expected one, as in --policy follow");
    if (self->options.subsets > 0 && self->job_count > 0)
        return simulated_complain ("--job: expected without --subsets, which has jobs of its own");
    if (self->options.subsets > 0 && self->options.plan.policy == SIMULATED_LOCKSTEP)
        return simulated_complain ("--subsets: expected with other policies, lockstep has one order for all");
    const char *alone = s_first_given (result, OPTION_CHOICES ("staggered", "speeds", "epochs"));
    if (alone && self->options.subsets == 0)
        return simulated_complain ("--%s: expected with --subsets", alone);
    if (self->options.subsets > 0)
        return true;
    if (self->options.plan.samples == 0)
        return simulated_complain ("--samples: expected a number, as in --samples 4000");
    if (self->job_count == 0)
        return simulated_complain ("--job: expected at least one, as in --job 1:0:12:0:1");
    const char *unwanted = s_first_given (result, OPTION_CHOICES ("slow", "jitter", "phase"));
    if (unwanted && self->options.plan.policy == SIMULATED_LOCKSTEP)
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
        simulated_data (&self->options.plan, job, &from, &to);
        if (from == to)
            return simulated_complain ("--job: job %zu has no sample; expected more --samples or a wider "
                "FROM:TO", job);
    }
    return true;
}

//  Jobs of one speed that end at about the same time as the others.
static void
s_make_subsets (parser_t *self)
{
    simulated_options_t *options = &self->options;
    random_t random = random_from_seed (SUBSETS_SAMPLES);
    for (size_t job = 0; job < options->subsets; job++) {
        double speed = self->speed_count? self->speeds [job % self->speed_count]: 1;
        double epochs = round (options->subset_epochs * speed), start = 0.5 * random_real (&random);
        self->jobs [job] = (simulated_job_t) {
            .speed = speed, .start = options->staggered? start: 0, .epochs = epochs < 1? 1: (uint32_t) epochs,
            .to = 1, .leave = INFINITY
        };
    }
    self->job_count = options->subsets;
    options->subset_ids = simulated_subsets (self->jobs, self->job_count, options->plan.samples);
}

static bool
s_complete (parser_t *self, const option_result_t *result)
{
    simulated_plan_t *plan = &self->options.plan;
    if (self->options.sweep? !s_check_sweep (result): !s_check_plan (self, result))
        return false;
    if (plan->samples == 0)
        plan->samples = self->options.subsets? SUBSETS_SAMPLES: SWEEP_SAMPLES;
    if (self->options.subsets)
        s_make_subsets (self);
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

int
simulated_options_parse (simulated_options_t *self, int argc, char **argv)
{
    parser_t parser = {
        .options = { .plan = { .window = 1, .batch = BATCH_DEFAULT }, .seed = 1, .seeds = 1,
            .subset_epochs = SUBSETS_EPOCHS }
    };
    parser.jobs = simulated_alloc (SIMULATED_JOBS_MAX, sizeof *parser.jobs);
    parser.phases = simulated_alloc ((size_t) argc, sizeof *parser.phases);
    parser.leaves = simulated_alloc ((size_t) argc, sizeof *parser.leaves);
    parser.options.plan.jobs = parser.jobs;
    option_result_t result;
    int status = option_parse (&s_table, &parser, argc, argv, &result);
    if (status < 0 && !s_complete (&parser, &result))
        status = 2;
    *self = parser.options;
    free (parser.phases);
    free (parser.leaves);
    return status;
}

void
simulated_options_clear (simulated_options_t *self)
{
    free ((simulated_job_t *) self->plan.jobs);
    free (self->subset_ids);
    self->subset_ids = NULL;
    self->plan.jobs = NULL;
}
