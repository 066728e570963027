#include "tier_table.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>
#include "catalogue.h"
#include "memory_parts.h"
#include "pack.h"
#include "pins.h"
#include "tier_run.h"

enum {
    SAMPLES_DEFAULT = 9000, BYTES_DEFAULT = 110000,     //  1 GB of photographs
    VERSION_BYTES = 224 * 224 * 3,      //  of a prepared sample, for the cache
    ALIGN = 512, PIECE_MOST = 8, PIECES_OF_POOL = 32,
    SCENES = 3, PARTS = 4, JOBS = 4, ERROR_BYTES = 1024
};

typedef struct {
    uint32_t samples;
    uint64_t bytes;                     //  of all files
    bool is_pack;
} data_t;

typedef struct {
    double pinned;
    double read [SCENES];               //  in an epoch of the fastest job, of all bytes
} row_t;

static const double s_parts [PARTS] = { 0.25, 0.5, 0.75, 0.9 };
static const char *const s_scenes [SCENES] = { "one_job", "four_in_step", "four_speeds" };
static const double s_speeds [JOBS] = { 1, 0.73, 0.41, 0.23 };

static bool
s_open (const char *path, data_t *data)
{
    catalogue_t *catalogue;
    char error [ERROR_BYTES];
    if (catalogue_open (&catalogue, &(catalogue_options_t) { .path = path, .allow_empty = true }, error,
        sizeof error)) {
        fprintf (stderr, "tier_sim: --data: %s\n", error);
        return false;
    }
    const pack_t *pack = catalogue_pack (catalogue);
    *data = (data_t) { .samples = catalogue_samples (catalogue), .bytes = catalogue_bytes (catalogue),
        .is_pack = pack };
    if (pack)
        data->bytes = 0;
    for (uint32_t volume = 0; pack && volume < pack_volumes (pack); volume++)
        data->bytes += pack_volume_bytes (pack, volume);
    catalogue_destroy (&catalogue);
    return true;
}

static double
s_share (double part, double all)
{
    double share = all > 0? part / all: 1;
    return share > 1? 1: share;
}

//  One job; four of one speed; four of different speeds, which all last as long as the fastest.
static size_t
s_jobs (size_t scene, tier_plan_job_t jobs [JOBS])
{
    size_t count = scene == 0? 1: JOBS;
    for (size_t job = 0; job < count; job++) {
        double speed = scene == 2? s_speeds [job]: 1;
        jobs [job] = (tier_plan_job_t) { .speed = speed, .epochs = scene == 2? 2 + (uint32_t) (6 * speed): 6,
            .to = 1 };
    }
    return count;
}

static tier_plan_t
s_plan (const data_t *data, double part)
{
    uint64_t sample = data->bytes / data->samples? data->bytes / data->samples: 1;
    memory_parts_wanted_t wanted = { .memory = (uint64_t) (part * (double) data->bytes),
        .pack_bytes = data->is_pack? data->bytes: 0, .data_bytes = data->bytes,
        .pins_most = data->is_pack? pins_cost (data->bytes): pins_cost (sample) * data->samples };
    memory_parts_t parts = memory_parts_divide (&wanted);
    double pool = s_share ((double) parts.raw, (double) data->bytes);
    tier_plan_t plan = { .policy = data->is_pack? RAW_STREAM: RAW_DIRECT, .sampler = TIER_FOLLOW,
        .samples = data->samples < TIER_TABLE_SAMPLES_MAX? data->samples: TIER_TABLE_SAMPLES_MAX,
        .chunk = RAW_PIECE_MAX, .batch = 64, .sample_bytes = (size_t) sample, .memory = pool,
        .align = data->is_pack? ALIGN: 1, .pins = s_share ((double) parts.pins, (double) wanted.pins_most),
        .cache = s_share ((double) parts.cache, (double) data->samples * VERSION_BYTES) };
    double piece = pool * data->samples / PIECES_OF_POOL;
    plan.piece = piece < 1? 1: piece > PIECE_MOST? PIECE_MOST: (uint32_t) piece;
    if (plan.memory * plan.samples < plan.piece)
        plan.memory = s_share (plan.piece, plan.samples);
    return plan;
}

//  Without the first epoch, which fills, and the last one, for which no other reads ahead.
static double
s_mean (const tier_plan_t *plan, const tier_result_t *result)
{
    double sum = 0, all = (double) plan->samples * (double) plan->sample_bytes;
    size_t count = 0;
    for (size_t epoch = 1; epoch + 1 < result->load_count; epoch++, count++)
        sum += (double) result->bytes_by_epoch [epoch] / all;
    return count? sum / (double) count: 0;
}

static row_t
s_simulate (const data_t *data, double part, uint64_t seed)
{
    tier_plan_job_t jobs [JOBS];
    row_t row = { .pinned = 0 };
    tier_plan_t plan = s_plan (data, part);
    plan.jobs = jobs;
    for (size_t scene = 0; scene < SCENES; scene++) {
        plan.job_count = s_jobs (scene, jobs);
        tier_result_t result = tier_run (&plan, seed, ~seed, NULL);
        row.read [scene] = s_mean (&plan, &result);
        row.pinned = scene == 0? result.pinned: row.pinned;
        tier_result_clear (&result);
    }
    return row;
}

static const char *
s_size (double bytes, char text [32])
{
    static const char *const units [] = { "kB", "MB", "GB", "TB", "PB" };
    size_t unit = 0;
    for (bytes /= 1e3; bytes >= 999.5 && unit < 4; unit++)
        bytes /= 1e3;
    snprintf (text, 32, bytes < 9.95? "%.1f %s": "%.0f %s", bytes, units [unit]);
    return text;
}

static void
s_print_head (const data_t *data)
{
    char bytes [32], sample [32];
    printf ("%u samples of %s, %s: %s", data->samples, s_size ((double) data->bytes / data->samples, sample),
        data->is_pack? "a pack": "single files", s_size ((double) data->bytes, bytes));
    if (data->samples > TIER_TABLE_SAMPLES_MAX)
        printf (" (%d of them are simulated)", TIER_TABLE_SAMPLES_MAX);
    printf ("\n\nWhat an epoch reads, of the data, from the second one on:\n\n");
    printf ("| `--memory` | of the data | pinned | one job | four in step | four of speed 1, .73, .41, .23 "
        "|\n| --- | --- | --- | --- | --- | --- |\n");
}

bool
tier_table_print (const tier_options_t *options)
{
    data_t data = { .samples = options->plan.samples? options->plan.samples: SAMPLES_DEFAULT,
        .is_pack = true };
    data.bytes = data.samples * (options->plan.sample_bytes > 1? options->plan.sample_bytes: BYTES_DEFAULT);
    if (options->data && !s_open (options->data, &data))
        return false;
    json_t *rows = json_array ();
    if (!options->json)
        s_print_head (&data);
    for (size_t index = 0; index < PARTS; index++) {
        char memory [32];
        double part = s_parts [index];
        row_t row = s_simulate (&data, part, options->seed);
        if (!options->json)
            printf ("| %s | %g | %.3f | %.3f | %.3f | %.3f |\n", s_size (part * (double) data.bytes, memory),
                part, row.pinned, row.read [0], row.read [1], row.read [2]);
        json_t *object = json_pack ("{s:f, s:f}", "memory", part, "pinned", row.pinned);
        for (size_t scene = 0; scene < SCENES; scene++)
            json_object_set_new (object, s_scenes [scene], json_real (row.read [scene]));
        json_array_append_new (rows, object);
        fflush (stdout);
    }
    json_t *all = json_pack ("{s:I, s:I, s:b, s:o}", "samples", (json_int_t) data.samples, "bytes",
        (json_int_t) data.bytes, "is_pack", data.is_pack, "rows", rows);
    if (options->json)
        json_dumpf (all, stdout, JSON_INDENT (2) | JSON_REAL_PRECISION (8));
    printf (options->json? "\n": "");
    json_decref (all);
    return true;
}
