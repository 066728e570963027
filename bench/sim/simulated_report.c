#include "simulated_report.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>

double
simulated_per_delivery (const simulated_result_t *result)
{
    return mean_of (&result->preparations) / mean_of (&result->deliveries);
}

double
simulated_lower_bound (const simulated_result_t *result)
{
    return mean_of (&result->needed) / mean_of (&result->deliveries);
}

//  NAN: there was no such time.
static double
s_settled (const simulated_result_t *result)
{
    double deliveries = mean_of (&result->settled_deliveries);
    return deliveries > 0? mean_of (&result->settled_preparations) / deliveries: NAN;
}

//  ---- for people

//  "-" where there is nothing.
static void
s_column (int width, int decimals, double value)
{
    if (isnan (value))
        printf (" %*s", width, "-");
    else
        printf (" %*.*f", width, decimals, value);
}

static void
s_print_job (const simulated_trial_t *trial, size_t job)
{
    const simulated_job_t *plan = &trial->plan.jobs [job];
    const orders_figures_t *figures = &trial->result.jobs [job];
    printf ("%3zu %6.3f %6.2f %6u %5.2f %5.2f  %-4s", job, plan->speed, plan->start, figures->epochs,
        plan->from, plan->to, figures->exactly_once? "yes": "NO");
    for (size_t lag = 0; lag < ORDERS_LAGS; lag++)
        s_column (7, 3, mean_of (&figures->phi2 [lag]));
    s_column (5, 2, mean_of (&figures->tail_to_head));
    s_column (6, 2, mean_of (&figures->pair_repeat));
    printf (" ");
    for (size_t number = 0; number < figures->stratum_count; number++)
        if (figures->strata [number].count)
            printf (" %.3f", mean_of (&figures->strata [number]));
    printf ("\n");
}

//  For many jobs: the worst of each lag.
static void
s_print_worst (const simulated_trial_t *trial)
{
    printf ("\nworst job's phi2 at lags 1 to %d:", ORDERS_LAGS);
    for (size_t lag = 0; lag < ORDERS_LAGS; lag++) {
        double worst = NAN;
        for (size_t job = 0; job < trial->plan.job_count; job++)
            worst = fmax (worst, mean_of (&trial->result.jobs [job].phi2 [lag]));
        s_column (0, 3, worst);
    }
    printf ("\n");
}

static void
s_print_groups (const simulated_groups_t *groups)
{
    if (groups->tests == 0) {
        printf ("groups of samples: nothing was tested\n");
        return;
    }
    printf ("groups of samples: %zu tests, largest |z| %.1f (job %zu, epoch %u, ", groups->tests,
        fabs (groups->z), groups->job, groups->epoch);
    if (groups->group < SIMULATED_JOBS_MAX)
        printf ("held by job %zu", groups->group);
    else
        printf (groups->group == SIMULATED_MANY_HOLDERS? "many holders": "fast holders");
    printf ("); %s: up to %.1f is chance\n", fabs (groups->z) <= groups->bound? "uniform": "NOT UNIFORM",
        groups->bound);
}

static void
s_print_slow (const simulated_trial_t *trial)
{
    for (size_t job = 0; job < trial->plan.job_count; job++) {
        const orders_figures_t *figures = &trial->result.jobs [job];
        printf ("job %zu: slow samples' mean position", job);
        s_column (0, 3, mean_of (&figures->marked_position));
        printf (", in first batches, times what chance gives");
        s_column (0, 2, mean_of (&figures->marked_first));
        printf ("\n");
    }
}

static void
s_print_positions (const simulated_trial_t *trial)
{
    for (size_t job = 0; job < trial->plan.job_count; job++) {
        printf ("job %zu: z of sample x position, by epoch:", job);
        for (uint32_t epoch = 0; epoch < trial->plan.jobs [job].epochs; epoch++)
            s_column (0, 1, trial->position_z [job] [epoch]);
        printf ("\n");
    }
}

void
simulated_report_table (const simulated_trial_t *trial)
{
    const simulated_plan_t *plan = &trial->plan;
    const simulated_result_t *result = &trial->result;
    printf ("%s: %u samples, cache %u, window %u, batch %u; %u run%s from seed %llu\n",
        simulated_policy_name (plan->policy), plan->samples, plan->cache, plan->window, plan->batch,
        trial->seeds, trial->seeds == 1? "": "s", (unsigned long long) trial->seed);
    if (plan->is_deterministic)
        printf ("shared stage without random operations\n");
    printf ("%.0f preparations", mean_of (&result->preparations));
    if (trial->seeds > 1)
        printf (" (+-%.0f)", mean_standard_error (&result->preparations));
    printf (" for %.0f deliveries: %.3f a delivery; full sharing: %.3f\n", mean_of (&result->deliveries),
        simulated_per_delivery (result), simulated_lower_bound (result));
    if (!isnan (s_settled (result)))
        printf ("%.3f a delivery from when every job had a second epoch until the first job had drawn all\n",
            s_settled (result));
    printf ("\njob  speed  start epochs  from    to  once    phi2   lag 2   lag 3   lag 4   lag 5   lag 6  "
        "t5h5  pairs  strata's mean position\n");
    for (size_t job = 0; job < plan->job_count; job++)
        s_print_job (trial, job);
    if (plan->slow_factor > 0)
        s_print_slow (trial);
    if (plan->jobs [0].ids)
        s_print_worst (trial);
    if (trial->position_z) {
        s_print_positions (trial);
        s_print_groups (&trial->groups);
    }
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
s_append (json_t *list, json_t *value)
{
    int rc = json_array_append_new (list, value);
    assert (rc == 0);
}

//  phi2, phi2_lag2 ...
static void
s_set_phi2 (json_t *object, const orders_figures_t *figures)
{
    for (size_t lag = 0; lag < ORDERS_LAGS; lag++) {
        char key [16];
        snprintf (key, sizeof key, lag? "phi2_lag%zu": "phi2", lag + 1);
        s_set (object, key, s_number (mean_of (&figures->phi2 [lag])));
    }
}

static json_t *
s_json_job (const simulated_trial_t *trial, size_t job)
{
    const orders_figures_t *figures = &trial->result.jobs [job];
    json_t *object = json_object (), *correlations = json_array (), *strata = json_array ();
    s_set (object, "exactly_once", json_boolean (figures->exactly_once));
    s_set (object, "epochs", json_integer (figures->epochs));
    s_set (object, "pairs", json_integer ((json_int_t) figures->phi2 [0].count));
    s_set_phi2 (object, figures);
    s_set (object, "tail_to_head", s_number (mean_of (&figures->tail_to_head)));
    s_set (object, "pair_repeat", s_number (mean_of (&figures->pair_repeat)));
    for (size_t pair = 0; pair < figures->correlation_count; pair++)
        s_append (correlations, s_number (mean_of (&figures->correlations [pair])));
    s_set (object, "epoch_correlation", correlations);
    for (size_t number = 0; number < figures->stratum_count; number++)
        if (figures->strata [number].count)
            s_append (strata, s_number (mean_of (&figures->strata [number])));
    s_set (object, "strata_mean_position", strata);
    if (trial->plan.slow_factor > 0) {
        s_set (object, "slow_mean_position", s_number (mean_of (&figures->marked_position)));
        s_set (object, "slow_in_first_batch", s_number (mean_of (&figures->marked_first)));
    }
    if (trial->position_z) {
        json_t *positions = json_array ();
        for (uint32_t epoch = 0; epoch < trial->plan.jobs [job].epochs; epoch++)
            s_append (positions, s_number (trial->position_z [job] [epoch]));
        s_set (object, "position_chi2_z", positions);
    }
    return object;
}

void
simulated_report_json (const simulated_trial_t *trial)
{
    const simulated_result_t *result = &trial->result;
    json_t *object = json_object (), *jobs = json_array ();
    s_set (object, "policy", json_string (simulated_policy_name (trial->plan.policy)));
    s_set (object, "seeds", json_integer (trial->seeds));
    if (trial->seeds == 1) {
        s_set (object, "preparations", json_integer ((json_int_t) result->preparations.sum));
        s_set (object, "deliveries", json_integer ((json_int_t) result->deliveries.sum));
    }
    else {
        s_set (object, "preparations", s_number (mean_of (&result->preparations)));
        s_set (object, "preparations_standard_error", s_number (mean_standard_error (&result->preparations)));
        s_set (object, "deliveries", s_number (mean_of (&result->deliveries)));
    }
    s_set (object, "preparations_per_delivery", s_number (simulated_per_delivery (result)));
    s_set (object, "lower_bound", s_number (simulated_lower_bound (result)));
    s_set (object, "settled_preparations_per_delivery", s_number (s_settled (result)));
    if (trial->groups.tests > 0) {
        s_set (object, "group_tests", json_integer ((json_int_t) trial->groups.tests));
        s_set (object, "group_z", s_number (trial->groups.z));
        s_set (object, "group_z_bound", s_number (trial->groups.bound));
    }
    for (size_t job = 0; job < trial->plan.job_count; job++)
        s_append (jobs, s_json_job (trial, job));
    s_set (object, "jobs", jobs);
    char *text = json_dumps (object, JSON_INDENT (2) | JSON_REAL_PRECISION (6));
    assert (text);
    printf ("%s\n", text);
    free (text);
    json_decref (object);
}
