#include "bucket_published.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bucket_cache.h"
#include "bucket_deli.h"
#include "bucket_frequency.h"
#include "bucket_nopfs.h"
#include "figure_table.h"

static const figure_table_t s_table = { .is_within = true };

static void
s_head (const char *title)
{
    figure_table_head (&s_table, title);
}

static void
s_row (const char *name, figure_origin_t origin, const char *from, int decimals, double figure, double ours)
{
    figure_table_t table = s_table;
    figure_table_row (&table, name, &(figure_t) {
        .origin = origin, .from = from, .value = figure, .decimals = decimals
    }, ours);
}

static void
s_said (const char *name, const char *ours)
{
    figure_table_said (&s_table, name, "text on figure 8", "yes", ours);
}

//  ---- NoPFS: frequencies

typedef struct {
    uint32_t workers, epochs, samples;
    double excess;
    double paper, paper_counted;
    const char *name, *from, *from_counted;
} frequent_t;

static void
s_print_frequencies (uint64_t seed)
{
    static const frequent_t rows [] = {
        { 16, 90, 1281167, 0.8, 31635, 31635, "N = 16, E = 90, F = 1,281,167, d = .8",
            "text on access frequencies", "text on access frequencies" },
        { 4, 1000, 10000, 0.1, 323, 329, "N = 4, E = 1000, F = 10,000, d = .1",
            "text on access frequencies: about", "text on access frequencies: its count" }
    };
    s_head ("NoPFS: samples that a worker uses more than (1 + d) E/N times");
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++) {
        const frequent_t *row = &rows [at];
        char name [200];
        snprintf (name, sizeof name, "%s, formula", row->name);
        s_row (name, FIGURE_PAPER, row->from, 0, row->paper,
            bucket_frequency_expected (row->workers, row->epochs, row->samples, row->excess));
        snprintf (name, sizeof name, "%s, counted", row->name);
        s_row (name, FIGURE_PAPER, row->from_counted, 0, row->paper_counted,
            bucket_frequency_counted (row->workers, row->epochs, row->samples, row->excess, seed));
    }
    s_head ("NoPFS: local hits of a cache of half the data, filled by frequency (N = 16, E = 90)");
    s_row ("counted, F = 100,000", FIGURE_OWN, "c (1 + k sqrt ((N - 1)/E)), k = phi (z_c)/c", 3,
        bucket_frequency_hits (16, 90, 0.5), bucket_frequency_hits_counted (16, 90, 100000, 0.5, seed));
}

//  ---- NoPFS: policies

enum { EPOCHS = 5, DATA_SETS = 6, COARSER = 4, FASTER = 10 };

typedef struct {
    bucket_nopfs_data_t data;
    double scale;
} scaled_t;

static const scaled_t s_data [DATA_SETS] = {
    { { "MNIST", 0.00076, 0, 50000, 4, 32 }, 1 },
    { { "ImageNet-1k", 0.1077, 0.1, 1281167, 4, 32 }, 16 },
    { { "OpenImages", 0.2937, 0.2, 1743042, 4, 32 }, 16 },
    { { "ImageNet-22k", 0.1077, 0.2, 14197122, 4, 32 }, 128 },
    { { "CosmoFlow", 17, 0, 262144, 4, 16 }, 4 },
    { { "CosmoFlow 512^3", 1000, 0, 10000, 8, 1 }, 1 }
};

//  As the formulas have it; and with threads that share a worker's part of the file system, while computing
//  and preprocessing are faster, so that reading counts.
typedef enum { FORMULAS_ONLY, READING_COUNTS, VIEWS } view_t;

typedef struct {
    bucket_nopfs_result_t results [VIEWS] [BUCKET_POLICIES];
    double ratios [VIEWS] [BUCKET_POLICIES];            //  of seconds, to Perfect's; 0: not possible
    double drift;                   //  of the ratios at a coarser scale, at most
} table_t;

static void
s_play_policies (const scaled_t *scaled, double scale, view_t view, uint64_t seed,
    bucket_nopfs_result_t results [BUCKET_POLICIES], double ratios [BUCKET_POLICIES])
{
    bucket_nopfs_plan_t plan = {
        .data = scaled->data, .machine = bucket_nopfs_machine (), .epochs = EPOCHS, .scale = scale
    };
    if (view == READING_COUNTS) {
        plan.machine.is_shared = true;
        plan.machine.compute *= FASTER;
        plan.machine.preprocess *= FASTER;
    }
    for (plan.policy = BUCKET_PERFECT; plan.policy < BUCKET_POLICIES; plan.policy++) {
        results [plan.policy] = bucket_nopfs_run (&plan, seed);
        ratios [plan.policy] = results [plan.policy].seconds / results [BUCKET_PERFECT].seconds;
    }
}

static table_t
s_play_data (const scaled_t *scaled, uint64_t seed)
{
    table_t table = { .drift = 0 };
    for (view_t view = FORMULAS_ONLY; view < VIEWS; view++) {
        bucket_nopfs_result_t coarse [BUCKET_POLICIES];
        double coarse_ratios [BUCKET_POLICIES];
        s_play_policies (scaled, scaled->scale, view, seed, table.results [view], table.ratios [view]);
        //  What is played at full size needs no other one to show that its size does no harm.
        if (scaled->scale == 1)
            continue;
        s_play_policies (scaled, scaled->scale * COARSER, view, seed + 1, coarse, coarse_ratios);
        for (int policy = 0; policy < BUCKET_POLICIES; policy++) {
            double ratio = table.ratios [view] [policy];
            if (ratio > 0)
                table.drift = fmax (table.drift, fabs (coarse_ratios [policy] / ratio - 1));
        }
    }
    return table;
}

static void
s_print_policies (const scaled_t *scaled, const table_t *table)
{
    printf ("\n%s, %d epochs, ", scaled->data.name, EPOCHS);
    if (scaled->scale > 1)
        printf ("1/%g of the samples and of all capacities; at 1/%g ratios differ by at most %.1f %%\n\n",
            scaled->scale, scaled->scale * COARSER, 100 * table->drift);
    else
        printf ("not scaled\n\n");
    printf ("| | time / Perfect | the same, reading counts | read from the file system, of all | data seen "
        "| by a worker |\n| --- | --- | --- | --- | --- | --- |\n");
    for (int policy = 0; policy < BUCKET_POLICIES; policy++) {
        const bucket_nopfs_result_t *result = &table->results [READING_COUNTS] [policy];
        double bytes = result->shared_bytes + result->peer_bytes + result->own_bytes;
        const double by_formulas = table->ratios [FORMULAS_ONLY] [policy];
        const double counting = table->ratios [READING_COUNTS] [policy];
        const char *name = bucket_nopfs_name ((bucket_policy_t) policy);
        if (!result->is_possible) {
            printf ("| %s | cannot hold the data | | | | |\n", name);
            continue;
        }
        printf ("| %s | %.3f | %.3f | ", name, by_formulas, counting);
        if (bytes > 0)
            printf ("%.2f ", result->shared_bytes / bytes);
        printf ("| %.2f | %.2f |\n", result->seen, result->seen_by_worker);
    }
}

//  1: no policy that sees all data is quicker by more than a hundredth, Perfect aside.
static int
s_rank (const table_t *table, view_t view, int of)
{
    int rank = 1;
    for (int policy = BUCKET_NAIVE; policy < BUCKET_POLICIES; policy++)
        rank += policy != of && table->results [view] [policy].is_possible
            && table->results [view] [policy].seen > 0.99
            && table->ratios [view] [policy] < table->ratios [view] [of] * 0.99;
    return rank;
}

static const char *
s_yes (bool is_so)
{
    return is_so? "yes": "no";
}

//  What the paper's text says of its figure 8.
static void
s_print_statements (const table_t tables [DATA_SETS])
{
    const table_t *mnist = &tables [0], *large = &tables [3];
    s_head ("NoPFS: what the paper says of its policies");
    s_row ("MNIST: Naive / the best policy", FIGURE_PAPER, "text on figure 8", 2, 1.7,
        mnist->ratios [FORMULAS_ONLY] [BUCKET_NAIVE]);
    double worst = 0;
    char text [100];
    for (int policy = BUCKET_STAGING; policy < BUCKET_POLICIES; policy++)
        worst = fmax (worst, mnist->ratios [FORMULAS_ONLY] [policy]);
    snprintf (text, sizeof text, "%.2f at most", worst);
    s_said ("MNIST: the other policies are close to the bound", text);
    for (int at = 1; at < DATA_SETS; at++) {
        char name [100];
        snprintf (name, sizeof name, "%s: NoPFS is first among those that see all data",
            s_data [at].data.name);
        snprintf (text, sizeof text, "rank %d; %d where reading counts",
            s_rank (&tables [at], FORMULAS_ONLY, BUCKET_FREQUENCY),
            s_rank (&tables [at], READING_COUNTS, BUCKET_FREQUENCY));
        s_said (name, text);
    }
    s_said ("ImageNet-22k: LBANN cannot hold the data",
        s_yes (!large->results [READING_COUNTS] [BUCKET_LBANN_DYNAMIC].is_possible));
    snprintf (text, sizeof text, "%s where reading counts",
        s_yes (large->ratios [READING_COUNTS] [BUCKET_DEEPIO_ORDERED]
            > 1.01 * large->ratios [READING_COUNTS] [BUCKET_FREQUENCY]));
    s_said ("ImageNet-22k: DeepIO, ordered, is slower than NoPFS", text);
    s_said ("ImageNet-22k: DeepIO, opportunistic, leaves data out",
        s_yes (large->results [READING_COUNTS] [BUCKET_DEEPIO_OPPORTUNISTIC].seen < 0.99));
    s_said ("ImageNet-22k: under ParallelStaging a worker sees a part of the data only",
        s_yes (large->results [READING_COUNTS] [BUCKET_PARALLEL].seen_by_worker < 0.5));
    snprintf (text, sizeof text, "%.2f x", large->results [READING_COUNTS] [BUCKET_FREQUENCY].shared_bytes
        / large->results [READING_COUNTS] [BUCKET_STAGING].shared_bytes);
    s_said ("ImageNet-22k: NoPFS reads less of the file system than StagingBuffer", text);
}

//  ---- DELI

enum { NODES = 3, FULL = 2048, HALF = 1024, BATCH = 512, RUN_EPOCHS = 2 };

//  Seconds are from the public measurements: what is not loading, over a node's samples; a hit in the local
//  cache.
typedef struct {
    const char *name;
    uint32_t slice;                 //  samples of a node
    double compute_seconds;
    double half_misses [RUN_EPOCHS], full_misses [RUN_EPOCHS], reduction;
    double disk_seconds;            //  two epochs from the local disk, measured
    double disk, bucket, fetch_half, fetch_full, half;          //  Table II
} workload_t;

static const workload_t s_workloads [] = {
    { "CIFAR-10", 11667, 145.0 / 11667, { .021, .031 }, { .121, .134 }, .935, 609, .28, .72, .25, .23, .17 },
    { "MNIST", 14000, 14.0 / 14000, { .136, .150 }, { .140, .148 }, .856, 224, .10, .72, .16, .12, .11 }
};
enum { WORKLOADS = sizeof s_workloads / sizeof *s_workloads };

#define GET_SECONDS .055
#define SPEED_UP 5.66                           //  of 16 threads
#define FITTED_RATE 130                         //  GETs a second, that full fetch of MNIST took
#define MACHINE_HOUR .545                       //  from Table II; the text has requests' prices alone
#define PICTURES "Figs 6 to 8"

//  Means over as many runs as the paper has, three nodes' in three trials.
enum { RUNS = 9 };
typedef struct {
    double missed [RUN_EPOCHS];     //  shares
    double gets, loading, seconds;  //  of all epochs
} deli_t;

static deli_t
s_play_deli (const workload_t *workload, uint32_t fetch, uint32_t threshold, double rate, uint64_t seed)
{
    bucket_deli_plan_t plan = {
        .samples = workload->slice * NODES, .workers = NODES, .fetch = fetch, .threshold = threshold,
        .cache = fetch? FULL: 0, .batch = BATCH, .get_seconds = GET_SECONDS, .gets_per_second = rate,
        .hit_seconds = .002, .compute_seconds = workload->compute_seconds, .epochs = RUN_EPOCHS
    };
    deli_t mean = { .gets = 0 };
    for (uint64_t run = 0; run < RUNS; run++) {
        bucket_deli_epoch_t epochs [RUN_EPOCHS];
        bucket_deli_run (&plan, seed + run, epochs);
        for (int epoch = 0; epoch < RUN_EPOCHS; epoch++) {
            mean.missed [epoch] += (double) epochs [epoch].misses / workload->slice / RUNS;
            mean.gets += (double) epochs [epoch].gets / RUNS;
            mean.loading += epochs [epoch].loading / RUNS;
            mean.seconds += epochs [epoch].seconds / RUNS;
        }
    }
    return mean;
}

static void
s_print_bounded (uint64_t seed)
{
    static const double partitions [] = { 0.25, 0.5, 0.75, 2 };
    enum { SLICE = 14000, SIZES = sizeof partitions / sizeof *partitions };
    s_head ("DELI: misses in the second epoch, cache of c slices, no prefetching, N = 3");
    for (int at = 0; at < SIZES; at++) {
        bucket_cache_plan_t plan = {
            .rule = BUCKET_FIFO, .units = SLICE * NODES, .workers = NODES, .epochs = RUN_EPOCHS,
            .capacity = (uint32_t) (partitions [at] * SLICE)
        };
        uint32_t misses [RUN_EPOCHS];
        bucket_cache_run (&plan, seed, misses);
        double counted = misses [1] / (double) SLICE;
        if (at == SIZES - 1) {
            s_row ("unlimited, counted", FIGURE_DERIVED, "(N - 1)/N: from N = 3 alone", 3,
                (NODES - 1.0) / NODES, counted);
            s_row ("unlimited, counted, beside the paper", FIGURE_PAPER, "text: about 66 %", 2, .66, counted);
            break;
        }
        char name [100];
        snprintf (name, sizeof name, "c = %.2f, counted", partitions [at]);
        s_row (name, FIGURE_OWN, "1 + c - N ln (N/(N - c))", 3,
            bucket_cache_second_misses (NODES, partitions [at]), counted);
    }
    printf ("\nOf bounded caches the paper says: about 90 %%.\n");
}

static void
s_print_prefetching (uint64_t seed)
{
    char name [200];
    printf ("\nDELI's parameters: a GET takes 55 ms (the paper: 772 s for 14,000, one after another);\n"
        "16 threads make %.0f GETs a second (derived: 5.66 / .055 s); the cache holds 2,048 samples.\n",
        SPEED_UP / GET_SECONDS);
    s_head ("DELI: shares of samples that are missed, cache of 2,048 samples, and time saved");
    for (int at = 0; at < WORKLOADS; at++) {
        const workload_t *workload = &s_workloads [at];
        double rate = SPEED_UP / GET_SECONDS;
        deli_t half = s_play_deli (workload, HALF, HALF, rate, seed);
        deli_t full = s_play_deli (workload, FULL, 0, rate, seed);
        deli_t fitted = s_play_deli (workload, FULL, 0, FITTED_RATE, seed);
        deli_t none = s_play_deli (workload, 0, 0, rate, seed);
        for (int epoch = 0; epoch < RUN_EPOCHS; epoch++) {
            snprintf (name, sizeof name, "%s, 50/50, epoch %d", workload->name, epoch + 1);
            s_row (name, FIGURE_PAPER, PICTURES, 3, workload->half_misses [epoch], half.missed [epoch]);
        }
        for (int epoch = 0; epoch < RUN_EPOCHS; epoch++) {
            snprintf (name, sizeof name, "%s, full fetch, epoch %d", workload->name, epoch + 1);
            s_row (name, FIGURE_PAPER, PICTURES, 3, workload->full_misses [epoch], full.missed [epoch]);
            snprintf (name, sizeof name, "%s, full fetch, epoch %d, with %d GETs a second (fitted to MNIST)",
                workload->name, epoch + 1, FITTED_RATE);
            s_row (name, FIGURE_PAPER, PICTURES, 3, workload->full_misses [epoch], fitted.missed [epoch]);
        }
        snprintf (name, sizeof name, "%s, loading time that 50/50 saves", workload->name);
        s_row (name, FIGURE_PAPER, "abstract", 3, workload->reduction, 1 - half.loading / none.loading);
        snprintf (name, sizeof name, "%s, GETs of two epochs, 50/50", workload->name);
        s_row (name, FIGURE_DERIVED, "cost model: one a sample", 0, RUN_EPOCHS * workload->slice, half.gets);
    }
}

static void
s_print_cost_row (const workload_t *workload, const char *what, double paper, double seconds)
{
    char name [200];
    bucket_deli_cost_t cost = {
        .machines = NODES, .machine_hour = MACHINE_HOUR, .seconds = seconds, .page = 1, .group = 1
    };
    snprintf (name, sizeof name, "%s, %s", workload->name, what);
    s_row (name, FIGURE_PAPER, "Table II", 2, paper, bucket_deli_bucket_cost (&cost));
}

static void
s_print_costs (uint64_t seed)
{
    double rate = SPEED_UP / GET_SECONDS;
    printf (
        "\nThe price of a machine, $.545 an hour, is derived from Table II and measured times: one price\n"
        "for ten cells.  The text gives the prices of requests, which are not in these cells.\n");
    s_head ("DELI: Table II, computing and loading, two epochs on three machines");
    for (int at = 0; at < WORKLOADS; at++) {
        const workload_t *workload = &s_workloads [at];
        s_print_cost_row (workload, "disk (its measured seconds, cost formula)", workload->disk,
            workload->disk_seconds);
        s_print_cost_row (workload, "bucket", workload->bucket,
            s_play_deli (workload, 0, 0, rate, seed).seconds);
        s_print_cost_row (workload, "fetch 1,024", workload->fetch_half,
            s_play_deli (workload, HALF, 0, rate, seed).seconds);
        s_print_cost_row (workload, "fetch 2,048", workload->fetch_full,
            s_play_deli (workload, FULL, 0, rate, seed).seconds);
        s_print_cost_row (workload, "fetch 2,048 with 130 GETs a second (fitted)", workload->fetch_full,
            s_play_deli (workload, FULL, 0, FITTED_RATE, seed).seconds);
        s_print_cost_row (workload, "50/50", workload->half,
            s_play_deli (workload, HALF, HALF, rate, seed).seconds);
    }
}

//  ---- ours

static void
s_print_caches (uint64_t seed)
{
    static const double shares [] = { 0.25, 0.5, 0.75 };
    enum { UNITS = 100000, CACHE_EPOCHS = 3 };
    s_head ("Caches under fresh shuffles, N = 1: bytes of an epoch from the store, of the data, counted");
    for (int at = 0; at < 3; at++)
        for (int is_pinned = 1; is_pinned >= 0; is_pinned--) {
            bucket_cache_plan_t plan = {
                .rule = is_pinned? BUCKET_PINNED: BUCKET_LRU, .units = UNITS, .workers = 1,
                .epochs = CACHE_EPOCHS, .capacity = (uint32_t) (shares [at] * UNITS)
            };
            uint32_t misses [CACHE_EPOCHS];
            bucket_cache_run (&plan, seed, misses);
            char name [100];
            snprintf (name, sizeof name, "c = %.2f, %s", shares [at], is_pinned? "pinned": "LRU");
            s_row (name, FIGURE_OWN, is_pinned? "1 - c": "(1 - c)(1 - ln (1 - c))", 3,
                is_pinned? 1 - shares [at]: bucket_cache_lru_misses (shares [at]),
                misses [CACHE_EPOCHS - 1] / (double) UNITS);
        }
}

void
bucket_published_print (uint64_t seed)
{
    printf (
        "Figures of NoPFS and DELI beside those of these models (seed %" PRIu64 "); ratio: ours over\n"
        "the figure.  The column of a figure is its origin.  Paper: the text, a table or a picture has it.\n"
        "Derived: it follows from the paper's figures.  Own reference: a formula of ours.\n", seed);
    s_print_frequencies (seed);
    table_t tables [DATA_SETS];
    printf (
        "\nNoPFS: policies on the machine of the paper's SC'21 version.  %d epochs are our own choice.  So\n"
        "is \"reading counts\": computing and preprocessing are %d x as fast, and a worker's threads\n"
        "share its part of the file system.\n", EPOCHS, FASTER);
    for (int at = 0; at < DATA_SETS; at++) {
        tables [at] = s_play_data (&s_data [at], seed);
        s_print_policies (&s_data [at], &tables [at]);
    }
    s_print_statements (tables);
    s_print_bounded (seed);
    s_print_prefetching (seed);
    s_print_costs (seed);
    s_print_caches (seed);
    printf ("\nNot derivable from the papers:\n"
        "  - the bars of NoPFS's figure 8, and 1.06 and 1.64 hours in its section 6.2: the number of epochs\n"
        "    is not given, and under the formulas alone reading delays no policy that prefetches;\n"
        "  - DELI's times from a local disk, and 8 to 16 x of it: a page cache is part of them;\n"
        "  - in which order DELI's measured service finished posts that overlap (second epoch of 50/50),\n"
        "    and why it made more than 103 GETs a second with 2,048 samples (see the fitted rows);\n"
        "  - what DELI's machines cost an hour: the text gives the prices of requests.\n");
}
