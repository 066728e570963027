#include "cluster_published.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "bucket_frequency.h"
#include "cluster_redox.h"
#include "cluster_run.h"
#include "figure_table.h"
#include "simulated_memory.h"

//  ---- Redox

#define NO_LIMIT UINT32_MAX
#define SMALL .files = 6400, .chunk = 64, .virtual_chunks = 12, .nodes = 3, .held_max = NO_LIMIT
enum { SMALL_SEED = 42, SMALL_EPOCHS = 3 };

static cluster_redox_epoch_t
s_first_epoch (const cluster_redox_plan_t *plan, uint64_t seed)
{
    cluster_redox_epoch_t epoch;
    cluster_redox_run (plan, seed, 1, &epoch);
    return epoch;
}

//  A row of a figure that another program of ours gave.
static void
s_own_row (figure_table_t *self, const char *name, const char *what, int decimals, double figure,
    double ours, double tolerance)
{
    char text [200];
    snprintf (text, sizeof text, "%s: %s", name, what);
    figure_table_row (self, text, &(figure_t) {
        .origin = FIGURE_OWN, .from = "another program of ours", .value = figure, .decimals = decimals,
        .tolerance = tolerance
    }, ours);
}

static void
s_small_row (figure_table_t *self, const char *name, const cluster_redox_epoch_t *ours, uint64_t loads,
    uint64_t remote)
{
    s_own_row (self, name, "loads", 0, (double) loads, (double) ours->loads, 0);
    s_own_row (self, name, "remote requests", 0, (double) remote, (double) ours->remote, 0);
}

static void
s_print_small (figure_table_t *self)
{
    static const cluster_redox_plan_t none = { SMALL }, full = { SMALL, .ahead = 64 },
        random = { SMALL, .ahead = 64, .random_selection = true };
    cluster_redox_epoch_t epochs [SMALL_EPOCHS];
    figure_table_head (self, "Redox, F = 6,400, K = 64, M = 12, N = 3, seed 42");
    cluster_redox_run (&none, SMALL_SEED, 1, epochs);
    s_small_row (self, "no prefetching (P = 0)", &epochs [0], 861, 4252);
    cluster_redox_run (&full, SMALL_SEED, SMALL_EPOCHS, epochs);
    s_small_row (self, "P = 64, epoch 1", &epochs [0], 582, 310);
    s_small_row (self, "P = 64, epoch 2", &epochs [1], 570, 323);
    s_small_row (self, "P = 64, epoch 3", &epochs [2], 584, 310);
    cluster_redox_run (&random, SMALL_SEED, 1, epochs);
    s_small_row (self, "P = 64, random selection", &epochs [0], 626, 317);
}

//  Table 6 names them in this order.
enum { VARIANTS = 4 };
static const char *const s_variants [VARIANTS] = {
    "Redox", "random selection", "no prefetching", "neither"
};
//  Table 6: misses and remote requests, x 10^5.
static const double s_table_6 [VARIANTS] [2] = {
    { 1.26, .41 }, { 1.33, .46 }, { 1.78, 8.54 }, { 1.91, 8.54 }
};

//  The first one, the plan itself, is run unless its epoch is known.
static void
s_run_variants (cluster_redox_plan_t plan, uint64_t seed, const cluster_redox_epoch_t *first,
    cluster_redox_epoch_t epochs [VARIANTS])
{
    uint32_t ahead = plan.ahead;
    if (first)
        epochs [0] = *first;
    for (int at = first? 1: 0; at < VARIANTS; at++) {
        plan.random_selection = at == 1 || at == 3;
        plan.ahead = at < 2? ahead: 0;
        epochs [at] = s_first_epoch (&plan, seed);
    }
}

static void
s_print_middle (figure_table_t *self, uint64_t seed)
{
    static const double figures [VARIANTS] [2] = {
        { 6.27, .033 }, { 6.58, .036 }, { 8.94, .666 }, { 9.58, .666 }
    };
    cluster_redox_plan_t plan = {
        .files = 128000, .chunk = 64, .virtual_chunks = 201, .nodes = 3, .ahead = 640, .held_max = NO_LIMIT
    };
    cluster_redox_epoch_t epochs [VARIANTS];
    s_run_variants (plan, seed, NULL, epochs);
    figure_table_head (self, "Redox, F = 128,000, M = 201, P = 640, no limit");
    for (int at = 0; at < VARIANTS; at++) {
        s_own_row (self, s_variants [at], "loads/C", 2, figures [at] [0],
            (double) epochs [at].loads / cluster_redox_chunks (&plan), .02);
        s_own_row (self, s_variants [at], "remote/F", 4, figures [at] [1],
            (double) epochs [at].remote / plan.files, .06);
    }
}

//  virtual_chunks and held_max are fitted to Table 6.
static const cluster_redox_plan_t s_full = {
    .files = 1281167, .chunk = 64, .virtual_chunks = 2001, .nodes = 3, .ahead = 8192, .held_max = 9500
};
enum { QUARTER = 5004 };                                //  the text's M, at 25 % memory
//  Limits of section 5.4, in files: L as fitted, and the text's best, 1.5 GB, are among them.
enum { LIMITS = 4, FITTED_LIMIT = 2, BEST_LIMIT = 3 };
static const uint32_t s_limits [LIMITS] = { 475, 4750, 9500, 14250 };

//  The first `variants` of Table 6 as the paper has them.
static void
s_print_table_6 (figure_table_t *self, const char *title, int variants, const cluster_redox_epoch_t *epochs,
    double tolerance)
{
    figure_table_head (self, title);
    for (int at = 0; at < variants; at++)
        for (int is_remote = 0; is_remote < 2; is_remote++) {
            char text [100];
            snprintf (text, sizeof text, "%s: %s, x 10^5", s_variants [at],
                is_remote? "remote requests": "misses");
            uint64_t ours = is_remote? epochs [at].remote: epochs [at].loads;
            figure_table_row (self, text, &(figure_t) {
                .origin = FIGURE_PAPER, .from = "Table 6", .value = s_table_6 [at] [is_remote], .decimals = 2,
                .tolerance = tolerance
            }, (double) ours / 1e5);
        }
}

//  The same as shares, which other sizes of data can be compared with.
static void
s_print_table_6_shares (figure_table_t *self, const cluster_redox_epoch_t epochs [VARIANTS])
{
    uint32_t chunks = cluster_redox_chunks (&s_full);
    figure_table_head (self, "Redox, Table 6 with the fitted M and L, as shares of C = 20,019 and of F");
    for (int at = 0; at < VARIANTS; at++) {
        char text [100];
        snprintf (text, sizeof text, "%s: loads/C", s_variants [at]);
        figure_table_row (self, text, &(figure_t) {
            .origin = FIGURE_DERIVED, .from = "misses of Table 6 / C", .decimals = 2, .tolerance = .025,
            .value = s_table_6 [at] [0] * 1e5 / chunks
        }, (double) epochs [at].loads / chunks);
        snprintf (text, sizeof text, "%s: remote/F", s_variants [at]);
        bool has_prefetching = at < 2;
        figure_table_row (self, text, &(figure_t) {
            .origin = FIGURE_DERIVED, .decimals = 4, .tolerance = .025,
            .from = has_prefetching? "remote requests of Table 6 / F": "(N - 1)/N: from N = 3 alone",
            .value = has_prefetching? s_table_6 [at] [1] * 1e5 / s_full.files:
                (s_full.nodes - 1.0) / s_full.nodes
        }, (double) epochs [at].remote / s_full.files);
    }
}

//  Table 6 with the parameters that give its figures, and with those of the text.
static void
s_print_full_size (figure_table_t *self, uint64_t seed, const cluster_redox_epoch_t limits [LIMITS])
{
    cluster_redox_epoch_t epochs [VARIANTS];
    printf (
        "\nTable 6 does not say M, P and L.  M = 2001 (10 %% memory), P = 8192 and L = 9,500 files (1 GB)\n"
        "are fitted to it.  The text has 25 %% memory (M = %d), and finds 1.5 GB best (L = 14,250).\n"
        "With the text's parameters the model's figures are not those of Table 6, as the tables without\n"
        "tolerances show.\n",
        QUARTER);
    s_run_variants (s_full, seed, &limits [FITTED_LIMIT], epochs);
    s_print_table_6 (self, "Redox, Table 6: F = 1,281,167, N = 3; fitted: M = 2001 (10 % memory), P = 8192, "
        "L = 9,500 files (1 GB)", VARIANTS, epochs, .025);
    s_print_table_6_shares (self, epochs);
    cluster_redox_plan_t plan = s_full;
    plan.virtual_chunks = QUARTER;
    s_run_variants (plan, seed, NULL, epochs);
    s_print_table_6 (self, "Redox, Table 6 with the text's memory, 25 %: M = 5004; P and L as fitted",
        VARIANTS, epochs, FIGURE_DIFFERS);
    s_print_table_6 (self, "Redox, Table 6 with the text's best limit, 1.5 GB: L = 14,250 files; M and P as "
        "fitted", 1, &limits [BEST_LIMIT], FIGURE_DIFFERS);
}

static void
s_run_limits (uint64_t seed, cluster_redox_epoch_t epochs [LIMITS])
{
    for (int at = 0; at < LIMITS; at++) {
        cluster_redox_plan_t plan = s_full;
        plan.held_max = s_limits [at];
        epochs [at] = s_first_epoch (&plan, seed);
    }
}

static void
s_print_limits (figure_table_t *self, const cluster_redox_epoch_t epochs [LIMITS])
{
    static const double figures [LIMITS] [2] = {
        { 1.720e5, 1.117e5 }, { 1.409e5, .653e5 }, { 1.269e5, .415e5 }, { 1.208e5, .306e5 }
    };
    static const char *const bytes [LIMITS] = { "50 MB", ".5 GB", "1 GB", "1.5 GB" };
    printf (
        "\nSection 5.4 of the paper has hours: .77, .71, .65, .63, .66 and .68 with limits of 50 MB, .5,\n"
        "1, 1.5, 2 and 3 GB.  The model gives counts, and their references are our own.\n");
    figure_table_head (self, "Redox, the limits of section 5.4; M and P as fitted");
    for (int at = 0; at < LIMITS; at++) {
        char text [100];
        snprintf (text, sizeof text, "%s, %u files", bytes [at], s_limits [at]);
        s_own_row (self, text, "loads", 0, figures [at] [0], (double) epochs [at].loads, .02);
        s_own_row (self, text, "remote requests", 0, figures [at] [1], (double) epochs [at].remote, .025);
    }
}

//  The rule alone, on one node.
static void
s_print_chunks (figure_table_t *self, uint64_t seed)
{
    enum { SIZES = 8 };
    double loads [SIZES];
    for (int at = 0; at < SIZES; at++) {
        cluster_redox_plan_t plan = { .files = s_full.files, .chunk = 2u << at, .nodes = 1 };
        plan.virtual_chunks = cluster_redox_chunks (&plan) / 10;
        loads [at] = (double) s_first_epoch (&plan, seed).loads / cluster_redox_chunks (&plan);
    }
    figure_table_head (self, "Redox, memory for a tenth of the chunks; one node, no prefetching");
    s_own_row (self, "K = 2", "loads/C", 2, 1.35, loads [0], .01);
    s_own_row (self, "K = 256", "loads/C", 2, 18.67, loads [SIZES - 1], .01);
    printf ("\nLoads/C without a reference, K = 4, 8, .. 128:");
    for (int at = 1; at < SIZES - 1; at++)
        printf (" %.2f%s", loads [at], at < SIZES - 2? ",": ".\n");
}

//  ---- NoPFS

typedef struct { double local, remote, loads; } shares_t;

//  Where samples come from once each worker holds what it uses most: of all uses.
static shares_t
s_place (uint32_t workers, uint32_t epochs, uint32_t samples, double share, uint64_t seed)
{
    uint16_t *uses = simulated_alloc ((size_t) workers * samples, sizeof *uses);
    uint32_t *order = simulated_alloc (samples, sizeof *order);
    uint32_t *holders = simulated_alloc (samples, sizeof *holders);
    uint8_t *is_local = simulated_alloc ((size_t) workers * samples, 1);
    double all = 0, local = 0, remote = 0;
    bucket_frequency_uses (workers, epochs, samples, seed, uses);
    for (uint32_t worker = 0; worker < workers; worker++) {
        size_t row = (size_t) worker * samples;
        uint32_t used = bucket_frequency_order (uses + row, samples, order);
        for (uint32_t place = 0; place < used && place < (uint32_t) (share * samples); place++) {
            holders [order [place]]++;
            is_local [row + order [place]] = 1;
        }
    }
    for (size_t at = 0; at < (size_t) workers * samples; at++) {
        all += uses [at];
        local += is_local [at]? uses [at]: 0;
        remote += !is_local [at] && holders [at % samples]? uses [at]: 0;
    }
    free (is_local);
    free (holders);
    free (order);
    free (uses);
    return (shares_t) { .local = local / all, .remote = remote / all, .loads = (all - local - remote) / all };
}

//  An epoch with full caches, of all blocks: homes in the place of the other rules.
static shares_t
s_homes (uint32_t nodes, uint32_t blocks, double share, uint64_t seed)
{
    enum { HOME_EPOCHS = 2, BYTES = 1000 };
    cluster_plan_t plan = {
        .nodes = nodes, .ranks = 1, .jobs = 1, .epochs = HOME_EPOCHS, .block = BYTES,
        .data = (double) blocks * BYTES, .cache = share * blocks * BYTES, .larger_factor = 1, .link = 1e6,
        .store = 1e6, .store_node = 1e6, .ahead = 4, .credit = UINT32_MAX, .preference = INFINITY,
        .slow_factor = 1
    };
    cluster_epoch_t epochs [HOME_EPOCHS];
    cluster_run (&plan, seed, epochs, NULL, NULL);
    const cluster_epoch_t *last = &epochs [HOME_EPOCHS - 1];
    return (shares_t) {
        .local = (double) last->local / blocks, .remote = (double) (last->peers + last->absent) / blocks,
        .loads = (double) last->store / blocks
    };
}

static void
s_print_frequency (figure_table_t *self, uint64_t seed)
{
    enum { WORKERS = 16, EPOCHS = 90, SAMPLES = 100000 };
    static const double shares [] = { .05, .1, .25, .5 };
    shares_t half = s_place (WORKERS, EPOCHS, SAMPLES, .5, seed);
    figure_table_head (self, "NoPFS, placement by frequency, N = 16, E = 90, caches of half the data");
    figure_table_row (self, "local hits, counted, F = 100,000", &(figure_t) {
        .origin = FIGURE_OWN, .from = "c (1 + k sqrt ((N - 1)/E)), k = phi (z_c)/c", .decimals = 3,
        .value = bucket_frequency_hits (WORKERS, EPOCHS, .5), .tolerance = .01
    }, half.local);
    printf ("\nThe same with peers, each worker's cache a share of the data (F = 100,000); of all uses.\n"
        "Homes: blocks in the place of samples.\n\n"
        "| cache | local | asks a peer | from the store | homes: local | asks a peer | from the store |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (int at = 0; at < 4; at++) {
        shares_t counted = s_place (WORKERS, EPOCHS, SAMPLES, shares [at], seed);
        shares_t homes = s_homes (WORKERS, SAMPLES, shares [at], seed);
        printf ("| %.2f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f |\n", shares [at], counted.local,
            counted.remote, counted.loads, homes.local, homes.remote, homes.loads);
    }
}

//  ---- the rules beside each other

static void
s_print_same_memory (uint64_t seed, const cluster_redox_epoch_t *redox)
{
    enum { NODES = 3, EPOCHS = 90, SAMPLES = 100000, BLOCK_FILES = 38 };
    double share = .1 / NODES;
    shares_t placed = s_place (NODES, EPOCHS, SAMPLES, share, seed);
    shares_t homes = s_homes (NODES, s_full.files / BLOCK_FILES, share, seed);
    printf ("\n**The same memory: N = 3, a tenth of the data in all; an epoch**\n\n"
        "| | read from the store, of the data | requests between nodes, of F |\n| --- | --- | --- |\n");
    printf ("| Redox (M, P and L fitted to Table 6) | %.2f | %.3f |\n",
        (double) redox->loads * s_full.chunk / s_full.files, (double) redox->remote / s_full.files);
    printf ("| NoPFS, by frequency (E = 90), single files | %.2f | %.3f |\n", placed.loads, placed.remote);
    printf ("| homes, blocks of %d files | %.2f | %.3f |\n", BLOCK_FILES, homes.loads,
        homes.remote / BLOCK_FILES);
}

bool
cluster_published_print (uint64_t seed)
{
    figure_table_t table = { .has_tolerances = true, .is_within = true };
    printf (
        "Figures of Redox and NoPFS beside those of these models (seed %" PRIu64 "); ratio: ours over the\n"
        "figure.  The column of a figure is its origin.  Paper: the text or a table has it.  Derived:\n"
        "it follows from the paper's figures.  Own reference: a formula of ours, or another program of\n"
        "ours. C: chunks, F: files, K: files a chunk, L: files of other homes that a node may hold, M:\n"
        "virtual chunks, N: nodes, P: files ahead.\n", seed);
    s_print_small (&table);
    s_print_middle (&table, seed);
    cluster_redox_epoch_t limits [LIMITS];
    s_run_limits (seed, limits);
    s_print_full_size (&table, seed, limits);
    s_print_limits (&table, limits);
    s_print_chunks (&table, seed);
    s_print_frequency (&table, seed);
    s_print_same_memory (seed, &limits [FITTED_LIMIT]);
    printf ("\nNot derivable: hours, because the paper's times of a load and of a request are not given.\n");
    if (!table.is_within)
        printf ("\nA figure is OUT of its tolerance.\n");
    return table.is_within;
}
