#include "simulated_sweep.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "simulated_memory.h"
#include "simulated_report.h"

enum { COMPANY_MAX = 8, POLICIES = 3, ROWS = 7, OFFSETS = 19, RATIOS = 17, LEAST_JOBS = 2, MOST_JOBS = 4 };
enum { SIZES = MOST_JOBS - LEAST_JOBS + 1, EPOCHS = 12 };

static const simulated_policy_t s_policies [POLICIES] = { SIMULATED_DSA, SIMULATED_FOLLOW,
    SIMULATED_RESIDENT };

typedef struct {
    simulated_job_t jobs [COMPANY_MAX];
    size_t count;
} company_t;

//  One company under each policy.
typedef struct {
    company_t company;
    simulated_trial_t trials [POLICIES];
} point_t;

typedef struct {
    const simulated_options_t *options;
    point_t rows [ROWS];
    point_t offsets [SIZES] [OFFSETS];
    point_t ratios [SIZES] [RATIOS];
} sweep_t;

//  ---- the companies

//  The design's table, with what it says of dsa, follow and resident: preparations, phi2.
typedef struct {
    const char *name;
    const char *figures [POLICIES];
    double speeds [COMPANY_MAX], starts [COMPANY_MAX];
    uint32_t epochs [COMPANY_MAX];
    double from [COMPANY_MAX], to [COMPANY_MAX];        //  to 0: all data
} row_t;

static const row_t s_rows [ROWS] = {
    { "4 equal, same start", { "0.250, 0", "0.250, 0", "0.250, 0" },
        { 1, 1, 1, 1 }, { 0 }, { 12, 12, 12, 12 }, { 0 }, { 0 } },
    { "2 equal, starts 0 and 0.5", { "0.839, 0", "0.635, 0.00", "0.521, 0.99" },
        { 1, 1 }, { 0, .5 }, { 12, 12 }, { 0 }, { 0 } },
    { "2 equal, starts 0 and 0.9", { "0.667, 0", "0.579, 0.00", "0.538, 0.99" },
        { 1, 1 }, { 0, .9 }, { 12, 12 }, { 0 }, { 0 } },
    { "4 equal, starts 0, 0.25, 0.5, 0.77", { "0.638, 0", "0.382, 0.09", "0.266, 2.3" },
        { 1, 1, 1, 1 }, { 0, .25, .5, .77 }, { 12, 12, 12, 12 }, { 0 }, { 0 } },
    { "8 equal, starts 0, .13, .25, .38, .5, .61, .77, .9", { "0.475, 0", "0.228, 0.17", "0.135, 4.7" },
        { 1, 1, 1, 1, 1, 1, 1, 1 }, { 0, .13, .25, .38, .5, .61, .77, .9 },
        { 12, 12, 12, 12, 12, 12, 12, 12 }, { 0 }, { 0 } },
    { "speeds 1, 0.73, 0.41, 0.23 (24, 17, 9, 5 epochs)", { "0.722, 0", "0.489, 0.01", "0.441, 0.18" },
        { 1, .73, .41, .23 }, { 0 }, { 24, 17, 9, 5 }, { 0 }, { 0 } },
    { "1:0:12:0:.75, 1:.3:12:.25:1, .6:0:6:0:1", { "0.796, 0", "0.600, 0.01", "0.537, 0.33" },
        { 1, 1, .6 }, { 0, .3, 0 }, { 12, 12, 6 }, { 0, .25, 0 }, { .75, 1, 1 } },
};

static void
s_company_of_row (company_t *self, const row_t *row)
{
    for (; self->count < COMPANY_MAX && row->speeds [self->count] > 0; self->count++) {
        size_t job = self->count;
        self->jobs [job] = (simulated_job_t) {
            .speed = row->speeds [job], .start = row->starts [job], .epochs = row->epochs [job],
            .from = row->from [job], .to = row->to [job] > 0? row->to [job]: 1, .leave = INFINITY
        };
    }
}

static double
s_offset (size_t at)
{
    return 0.05 * (double) (at + 1);
}

static double
s_ratio (size_t at)
{
    return 0.2 + 0.05 * (double) at;
}

//  Each job begins so much of an epoch after the one before, by the phase: whole epochs play no part.
static void
s_company_of_offset (company_t *self, size_t count, double offset)
{
    for (; self->count < count; self->count++) {
        double start = offset * (double) self->count;
        self->jobs [self->count] = (simulated_job_t) {
            .speed = 1, .start = start - floor (start + 1e-9), .epochs = EPOCHS, .to = 1, .leave = INFINITY
        };
    }
}

//  From speed 1 down to the ratio by equal factors; all are there for as long as the slowest needs.
static void
s_company_of_ratio (company_t *self, size_t count, double ratio)
{
    for (; self->count < count; self->count++) {
        double speed = pow (ratio, (double) self->count / (double) (count - 1));
        self->jobs [self->count] = (simulated_job_t) {
            .speed = speed, .epochs = (uint32_t) lround (EPOCHS * speed / ratio), .to = 1, .leave = INFINITY
        };
    }
}

//  ---- running

static simulated_trial_t
s_trial (const simulated_options_t *options, const company_t *company, simulated_policy_t policy)
{
    simulated_trial_t trial = { .plan = options->plan, .seed = options->seed, .seeds = options->seeds };
    trial.plan.policy = policy;
    trial.plan.jobs = company->jobs;
    trial.plan.job_count = company->count;
    return trial;
}

//  All trials together, so that no thread waits for the last run of a point.
static void
s_run (sweep_t *self)
{
    size_t count = ROWS + SIZES * (OFFSETS + RATIOS), at = 0;
    point_t **points = simulated_alloc (count, sizeof *points);
    simulated_trial_t *trials = simulated_alloc (count * POLICIES, sizeof *trials);
    for (size_t row = 0; row < ROWS; row++)
        s_company_of_row (&(points [at++] = &self->rows [row])->company, &s_rows [row]);
    for (size_t size = 0; size < SIZES; size++) {
        for (size_t offset = 0; offset < OFFSETS; offset++)
            s_company_of_offset (&(points [at++] = &self->offsets [size] [offset])->company,
                LEAST_JOBS + size, s_offset (offset));
        for (size_t ratio = 0; ratio < RATIOS; ratio++)
            s_company_of_ratio (&(points [at++] = &self->ratios [size] [ratio])->company, LEAST_JOBS + size,
                s_ratio (ratio));
    }
    assert (at == count);
    for (size_t trial = 0; trial < count * POLICIES; trial++)
        trials [trial] = s_trial (self->options, &points [trial / POLICIES]->company,
            s_policies [trial % POLICIES]);
    simulated_trials_run (trials, count * POLICIES);
    for (size_t trial = 0; trial < count * POLICIES; trial++)
        points [trial / POLICIES]->trials [trial % POLICIES] = trials [trial];
    free (points);
    free (trials);
}

static void
s_clear (point_t *points, size_t count)
{
    for (size_t point = 0; point < count; point++)
        for (size_t policy = 0; policy < POLICIES; policy++)
            simulated_trial_clear (&points [point].trials [policy]);
}

//  ---- the worst job

//  FIGURE_LATER: phi2 of the lag, from 2 on, at which it is highest.
typedef enum { FIGURE_PREPARATIONS, FIGURE_PHI2, FIGURE_LATER, FIGURE_TAIL_TO_HEAD, FIGURE_PAIR_REPEAT,
    FIGURES } figure_t;

static const char *const s_figure_names [FIGURES] = { "preparations", "phi2", "later lags", "t5h5",
    "pair-repeat" };
static const char *const s_formats [FIGURES] = { "%.3f", "%.3f", "%.3f", "%.2f", "%.2f" };

//  How bad a figure is: a ratio that should be 1 is bad either way.
static double
s_badness (figure_t figure, double value)
{
    return figure == FIGURE_TAIL_TO_HEAD || figure == FIGURE_PAIR_REPEAT? fabs (value - 1): value;
}

//  fmax passes over a lag that was not measured.
static double
s_later_lags (const orders_figures_t *job)
{
    double worst = NAN;
    for (size_t lag = 1; lag < ORDERS_LAGS; lag++)
        worst = fmax (worst, mean_of (&job->phi2 [lag]));
    return worst;
}

static double
s_figure_of_job (const orders_figures_t *job, figure_t figure)
{
    if (figure == FIGURE_LATER)
        return s_later_lags (job);
    return mean_of (figure == FIGURE_PHI2? &job->phi2 [0]:
        figure == FIGURE_TAIL_TO_HEAD? &job->tail_to_head: &job->pair_repeat);
}

//  Of the job for which it is worst.
static double
s_figure (const simulated_trial_t *trial, figure_t figure)
{
    if (figure == FIGURE_PREPARATIONS)
        return simulated_per_delivery (&trial->result);
    double worst = NAN;
    for (size_t job = 0; job < trial->result.job_count; job++) {
        double value = s_figure_of_job (&trial->result.jobs [job], figure);
        if (isnan (worst) || s_badness (figure, value) > s_badness (figure, worst))
            worst = value;
    }
    return worst;
}

//  ---- sweep.md

static void
s_write_rows (FILE *file, const point_t *rows)
{
    fprintf (file, "## The design's table\n\n"
        "Preparations for each delivery, then phi2 of the worst job; beside it what the design page says.\n\n"
        "| jobs | full sharing |");
    for (size_t policy = 0; policy < POLICIES; policy++)
        fprintf (file, " %s | design |", simulated_policy_name (s_policies [policy]));
    fprintf (file, "\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t row = 0; row < ROWS; row++) {
        fprintf (file, "| %s | %.3f |", s_rows [row].name,
            simulated_lower_bound (&rows [row].trials [0].result));
        for (size_t policy = 0; policy < POLICIES; policy++)
            fprintf (file, " %.3f, %.3f | %s |", s_figure (&rows [row].trials [policy], FIGURE_PREPARATIONS),
                s_figure (&rows [row].trials [policy], FIGURE_PHI2), s_rows [row].figures [policy]);
        fprintf (file, "\n");
    }
}

//  phi2 of the job for which it is highest, at each lag, under each policy.
static void
s_write_lags (FILE *file, const point_t *rows)
{
    fprintf (file, "\nphi2 of the worst job, by lag: of an epoch and the next, of an epoch and the one after "
        "that, and so on.\n\n"
        "| jobs | policy |");
    for (size_t lag = 1; lag <= ORDERS_LAGS; lag++)
        fprintf (file, " %zu |", lag);
    fprintf (file, "\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t row = 0; row < ROWS; row++)
        for (size_t policy = 0; policy < POLICIES; policy++) {
            const simulated_result_t *result = &rows [row].trials [policy].result;
            fprintf (file, "| %s | %s |", s_rows [row].name, simulated_policy_name (s_policies [policy]));
            for (size_t lag = 0; lag < ORDERS_LAGS; lag++) {
                double worst = NAN;
                for (size_t job = 0; job < result->job_count; job++)
                    worst = fmax (worst, mean_of (&result->jobs [job].phi2 [lag]));
                if (isnan (worst))
                    fprintf (file, " - |");
                else
                    fprintf (file, " %.3f |", worst);
            }
            fprintf (file, "\n");
        }
}

//  Two jobs, point by point.
static void
s_write_points (FILE *file, const char *name, const point_t *points, size_t count, double (*x_of) (size_t))
{
    fprintf (file, "| %s | full sharing |", name);
    for (size_t policy = 0; policy < POLICIES; policy++)
        for (size_t figure = 0; figure < FIGURES; figure++)
            fprintf (file, " %s %s |", simulated_policy_name (s_policies [policy]), s_figure_names [figure]);
    fprintf (file, "\n|");
    for (size_t column = 0; column < 2 + POLICIES * FIGURES; column++)
        fprintf (file, " --- |");
    for (size_t point = 0; point < count; point++) {
        fprintf (file, "\n| %.2f | %.3f |", x_of (point),
            simulated_lower_bound (&points [point].trials [0].result));
        for (size_t policy = 0; policy < POLICIES; policy++)
            for (figure_t figure = 0; figure < FIGURES; figure++) {
                fprintf (file, " ");
                fprintf (file, s_formats [figure], s_figure (&points [point].trials [policy], figure));
                fprintf (file, " |");
            }
    }
    fprintf (file, "\n");
}

//  The worst value of a figure over the points, and where it is.
static void
s_write_worst (FILE *file, const point_t *points, size_t count, double (*x_of) (size_t), size_t policy,
    figure_t figure)
{
    size_t worst = 0;
    for (size_t point = 1; point < count; point++)
        if (s_badness (figure, s_figure (&points [point].trials [policy], figure))
                > s_badness (figure, s_figure (&points [worst].trials [policy], figure)))
            worst = point;
    fprintf (file, " ");
    fprintf (file, s_formats [figure], s_figure (&points [worst].trials [policy], figure));
    fprintf (file, " at %.2f |", x_of (worst));
}

static void
s_write_sizes (FILE *file, point_t *const *sizes, size_t count, double (*x_of) (size_t))
{
    fprintf (file, "\nThe worst over the sweep, and where:\n\n| jobs | policy |");
    for (size_t figure = 0; figure < FIGURES; figure++)
        fprintf (file, " %s |", s_figure_names [figure]);
    fprintf (file, "\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t size = 0; size < SIZES; size++)
        for (size_t policy = 0; policy < POLICIES; policy++) {
            fprintf (file, "| %zu | %s |", LEAST_JOBS + size, simulated_policy_name (s_policies [policy]));
            for (figure_t figure = 0; figure < FIGURES; figure++)
                s_write_worst (file, sizes [size], count, x_of, policy, figure);
            fprintf (file, "\n");
        }
}

static void
s_write_page (FILE *file, const void *argument)
{
    const sweep_t *self = argument;
    const simulated_plan_t *plan = &self->options->plan;
    point_t *offsets [SIZES], *ratios [SIZES];
    for (size_t size = 0; size < SIZES; size++) {
        offsets [size] = (point_t *) self->offsets [size];
        ratios [size] = (point_t *) self->ratios [size];
    }
    fprintf (file, "# Sharing and freshness\n\n"
        "`sampler_sim --sweep`: %u samples, a cache of %u, window %u, batch %u, jitter %g, slow %g:%g, %u "
        "run%s from seed %llu.\n\n", plan->samples, plan->cache, plan->window, plan->batch, plan->jitter,
        plan->slow_fraction, plan->slow_factor, self->options->seeds, self->options->seeds == 1? "": "s",
        (unsigned long long) self->options->seed);
    s_write_rows (file, self->rows);
    s_write_lags (file, self->rows);
    fprintf (file, "\n## Equal jobs, by their offset\n\n"
        "%d epochs each; of two, the second begins so much of an epoch later; of more, each so much after\n"
        "the one\n"
        "before, by the phase.  The figures are the worst job's.\n\n", EPOCHS);
    s_write_points (file, "offset", offsets [0], OFFSETS, s_offset);
    s_write_sizes (file, offsets, OFFSETS, s_offset);
    fprintf (file, "\n## Jobs of different speed, by the slowest's\n\n"
        "They begin together and take as long as the slowest's %d epochs; speeds between it and the fastest\n"
        "differ by\n"
        "equal factors.\n\n", EPOCHS);
    s_write_points (file, "ratio", ratios [0], RATIOS, s_ratio);
    s_write_sizes (file, ratios, RATIOS, s_ratio);
}

//  ---- the plot

typedef struct {
    const point_t *points;
    size_t count;
    double (*x_of) (size_t);
} series_t;

//  A line for each point: x, full sharing, then the figures of each policy.
static void
s_write_series (FILE *file, const void *argument)
{
    const series_t *series = argument;
    fprintf (file, "# x sharing");
    for (size_t policy = 0; policy < POLICIES; policy++)
        for (size_t figure = 0; figure < FIGURES; figure++)
            fprintf (file, " %s:%s", simulated_policy_name (s_policies [policy]), s_figure_names [figure]);
    for (size_t point = 0; point < series->count; point++) {
        const simulated_trial_t *trials = series->points [point].trials;
        fprintf (file, "\n%.2f %.6f", series->x_of (point), simulated_lower_bound (&trials [0].result));
        for (size_t policy = 0; policy < POLICIES; policy++)
            for (figure_t figure = 0; figure < FIGURES; figure++)
                fprintf (file, " %.6f", s_figure (&trials [policy], figure));
    }
    fprintf (file, "\n");
}

//  phi2 on a logarithmic scale: what is below its least, 0 and chance's negative values too, is drawn there.
static void
s_write_panel (FILE *file, const char *data, figure_t figure, const char *x_label)
{
    const char *least = figure == FIGURE_PHI2? "0.001": "0";
    fprintf (file, "set xlabel '%s'\n", x_label);
    if (figure == FIGURE_PHI2)
        fprintf (file, "set ylabel 'phi2 of the worst job'\nset yrange [%s:100]\nset logscale y\n"
            "plot 0.02 title 'fresh' dashtype 2 lw 2 lc 'gray50'", least);
    else
        fprintf (file, "set ylabel 'preparations a delivery'\nset yrange [0.4:1]\nunset logscale\n"
            "plot %s using 1:2 with lines title 'full sharing' dashtype 2 lw 2 lc 'gray50'", data);
    for (size_t policy = 0; policy < POLICIES; policy++) {
        size_t column = 3 + policy * FIGURES + figure;
        fprintf (file, ", %s using 1:($%zu > %s? $%zu: %s) with linespoints title '%s' lc %zu pt %zu", data,
            column, least, column, least, simulated_policy_name (s_policies [policy]), policy + 1,
            policy + 5);
    }
    fprintf (file, "\n");
}

//  Everything in line, so that no path has to be quoted.
static void
s_write_script (FILE *file, const series_t *offsets, const series_t *ratios)
{
    fprintf (file, "$offsets << END\n");
    s_write_series (file, offsets);
    fprintf (file, "END\n$ratios << END\n");
    s_write_series (file, ratios);
    fprintf (file, "END\nset terminal svg size 1000,800 dynamic background rgb 'white'\nset grid\n"
        "set multiplot layout 2,2 title 'Two jobs: sharing and freshness'\n");
    s_write_panel (file, "$offsets", FIGURE_PREPARATIONS, "offset, in epochs");
    s_write_panel (file, "$ratios", FIGURE_PREPARATIONS, "speed of the slower job");
    s_write_panel (file, "$offsets", FIGURE_PHI2, "offset, in epochs");
    s_write_panel (file, "$ratios", FIGURE_PHI2, "speed of the slower job");
    fprintf (file, "unset multiplot\n");
}

//  ---- files

//  The caller's to free.
static char *
s_path (const sweep_t *self, const char *name)
{
    size_t size = strlen (self->options->sweep) + strlen (name) + 2;
    char *path = simulated_alloc (size, 1);
    snprintf (path, size, "%s/%s", self->options->sweep, name);
    return path;
}

static bool
s_write_file (const sweep_t *self, const char *name, void (*write) (FILE *file, const void *argument),
    const void *argument)
{
    char *path = s_path (self, name);
    FILE *file = fopen (path, "w");
    bool fine = file != NULL;
    if (file) {
        write (file, argument);
        fine = !ferror (file);
        fine = fclose (file) == 0 && fine;
    }
    if (!fine)
        simulated_complain ("%s: %s", path, strerror (errno));
    free (path);
    return fine;
}

//  gnuplot reads its script and writes the picture to its standard output, which the shell opens.
static bool
s_plot (const sweep_t *self, const series_t *offsets, const series_t *ratios)
{
    char *path = s_path (self, "sweep.svg");
    setenv ("SWEEP_PICTURE", path, 1);
    signal (SIGPIPE, SIG_IGN);          //  without gnuplot the script has no reader
    FILE *gnuplot = popen ("command -v gnuplot >/dev/null || exit 127; exec gnuplot >\"$SWEEP_PICTURE\"",
        "w");
    int status = -1;
    if (gnuplot) {
        s_write_script (gnuplot, offsets, ratios);
        status = pclose (gnuplot);
    }
    bool missing = status != -1 && WIFEXITED (status) && WEXITSTATUS (status) == 127;
    if (missing)
        simulated_complain ("gnuplot is not installed, so there is no picture: apt-get install gnuplot-nox "
            "(or scripts/install-packages.sh bench); %s has the figures", self->options->sweep);
    else
    if (status != 0) {
        simulated_complain ("gnuplot failed, so there is no %s", path);
        remove (path);
    }
    free (path);
    return status == 0;
}

static bool
s_write (const sweep_t *self)
{
    series_t offsets = { self->offsets [0], OFFSETS, s_offset };
    series_t ratios = { self->ratios [0], RATIOS, s_ratio };
    return s_write_file (self, "sweep.md", s_write_page, self)
        && s_write_file (self, "offsets.dat", s_write_series, &offsets)
        && s_write_file (self, "ratios.dat", s_write_series, &ratios)
        && s_plot (self, &offsets, &ratios);
}

int
simulated_sweep (const simulated_options_t *options)
{
    struct stat status;
    if (mkdir (options->sweep, 0777) && !(errno == EEXIST && stat (options->sweep, &status) == 0
            && S_ISDIR (status.st_mode))) {
        simulated_complain ("--sweep '%s': %s; expected a folder, or the name of one to make", options->sweep,
            strerror (errno));
        return 1;
    }
    sweep_t *self = simulated_alloc (1, sizeof *self);
    self->options = options;
    s_run (self);
    bool fine = s_write (self);
    s_clear (self->rows, ROWS);
    s_clear (self->offsets [0], SIZES * OFFSETS);
    s_clear (self->ratios [0], SIZES * RATIOS);
    free (self);
    return fine? 0: 1;
}
