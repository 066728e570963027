/*  Guards: tier_sim: what it refuses and how, what its JSON holds, that a run is its seed's, and its figures
 *  where they are known: Redox as published, load by load; a shuffle where all is in memory; one read of
 *  everything, or many.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tier_mixing.h"
#include "scratch.h"
#include "simulator_run.h"
#include "tier_run.h"

enum { OUTPUT_MAX = 200000 };

static char s_text [OUTPUT_MAX];

//  Runs tier_sim; its exit status, or -1: it was killed.  s_text: both streams.
static int
s_run (const char *arguments)
{
    return simulator_run ("tier_sim", arguments, s_text, sizeof s_text);
}

static json_t *
s_json (const char *arguments)
{
    char all [1500];
    snprintf (all, sizeof all, "%s --json", arguments);
    assert_int_equal (s_run (all), 0);
    json_t *object = json_loads (s_text, 0, NULL);
    assert_non_null (object);
    return object;
}

static double
s_real (const json_t *object, const char *key)
{
    const json_t *value = json_object_get (object, key);
    assert_true (json_is_number (value));
    return json_number_value (value);
}

#define FINE "--policy stream --samples 1000 --memory 0.1 "

//  Each is refused with status 2 and one line that names the option and says what was expected.
static void
test_bad_arguments (void **state)
{
    (void) state;
    const char *const cases [] [2] = {
        { "--samples 1000 --memory 0.1", "--policy is missing" },
        { "--policy stream --memory 0.1", "--samples is missing" },
        { "--policy stream --samples 1000", "--memory is missing" },
        { "--policy best", "--policy 'best': expected stream" },
        { FINE "--sampler best", "--sampler 'best': expected dsa" },
        { FINE "--memory 0", "--memory '0': expected a share" },
        { FINE "--memory 1.5", "--memory '1.5': expected a share" },
        { FINE "--memory 0.001", "expected at least 8, a piece" },
        { "--policy redox --samples 1000 --memory 0.01", "expected at least 64, a chunk" },
        { FINE "--chunk 65", "--chunk '65': expected a number from 1 to 64" },
        { FINE "--piece 0", "--piece '0': expected" },
        { FINE "--samples -5", "--samples '-5': expected" },
        { FINE "--align 0", "--align '0': expected" },
        { FINE "--virtual-chunks 3", "--virtual-chunks: goes with --policy redox" },
        { "--policy redox --samples 1000 --virtual-chunks 3 --memory 0.1", "expected one of them" },
        { "--policy redox --samples 1000 --virtual-chunks 17", "there are 16 chunks" },
        { FINE "--published-rng", "--published-rng: goes with --policy redox" },
        { "--policy redox --samples 1000 --memory 0.1 --published-rng --cache 0.1",
            "has one job of its own" },
        { FINE "--job 1:0:2:0", "expected SPEED:START:EPOCHS:FROM:TO" },
        { FINE "--job 2:0:2:0:1", "expected a SPEED" },
        { FINE "--job 1:0:1.5:0:1", "expected SPEED:START:EPOCHS" },
        { FINE "--job 1:0:0:0:1", "expected EPOCHS from 1" },
        { FINE "--job 1:0:2:0.5:0.5", "expected 0 <= FROM < TO" },
        { FINE "--job 1:0:2:0.5:0.5001", "has none of the 1000 samples" },
        { FINE "--job 1:0:2:0:1 --epochs 3", "expected one of them" },
        { FINE "--until 0", "--until '0': expected epochs" },
        { "--policy redox --samples 1000 --memory 0.1 --published-rng --until 2", "has one job of its own" },
        { FINE "--tenants 0", "--tenants '0': expected a number from 1 to 16" },
        { "--policy redox --samples 1000 --memory 0.1 --published-rng --deterministic",
            "has one job of its own" },
        { FINE "--pins 1.5", "--pins '1.5': expected a share" },
        { "--policy redox --samples 1000 --memory 0.1 --published-rng --pins 0.5", "--pins: does not go" },
        { FINE "--data /data", "--data: goes with --table" },
        { FINE "--table", "does not go with --table" },
        { "--table --job 1:0:2:0:1", "--job: does not go with --table" },
        { "--table --data /data --samples 100", "--data: has samples of its own" },
        { FINE "more", "'more'" }
    };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        assert_int_equal (s_run (cases [at] [0]), 2);
        if (!strstr (s_text, cases [at] [1]) || strncmp (s_text, "tier_sim: ", 10) != 0)
            fail_msg ("%s: %s", cases [at] [0], s_text);
        assert_string_equal (strchr (s_text, '\n'), "\n");
    }
}

//  With a part p pinned an epoch reads 1 - p of the data, of one job, of four in step, and of a private one;
//  and the orders are those without pins.
static void
test_pins (void **state)
{
    (void) state;
    static const char *const jobs [] = { "",
        "--job 1:0:6:0:1 --job 1:0:6:0:1 --job 1:0:6:0:1 --job 1:0:6:0:1", "--sampler private" };
    for (size_t at = 0; at < sizeof jobs / sizeof *jobs; at++)
        for (double pins = 0; pins < 1; pins += 0.3) {
            static json_int_t hash;
            char arguments [400];
            snprintf (arguments, sizeof arguments, "--policy stream --samples 20000 --memory 0.08 "
                "--sample-bytes 110000 --align 4096 %s %s", jobs [at], strstr (jobs [at], "--job")? "":
                "--epochs 6");
            if (pins > 0)
                snprintf (arguments + strlen (arguments), sizeof arguments - strlen (arguments),
                    " --pins %g", pins);
            json_t *object = s_json (arguments);
            json_int_t own = (json_int_t) strtoull (json_string_value (json_object_get (object,
                "order_hash")), NULL, 16);
            hash = pins > 0? hash: own;
            assert_int_equal (own, hash);
            if (pins > 0) {
                double pinned = s_real (object, "pinned"), read = 0;
                const json_t *bytes = json_object_get (object, "bytes_by_epoch");
                //  Without the last one, for which no epoch reads ahead.
                for (size_t epoch = 1; epoch < 5; epoch++)
                    read += json_number_value (json_array_get (bytes, epoch)) / 4;
                assert_true (pinned <= pins && pinned > pins - 0.01);
                assert_true (fabs (read - (1 - pinned)) < 0.01);
            }
            json_decref (object);
        }
}

static void
s_make_folder (const char *folder, size_t files, size_t bytes)
{
    char path [200];
    snprintf (path, sizeof path, "%s/class", folder);
    assert_int_equal (mkdir (path, 0700), 0);
    for (size_t file = 0; file < files; file++) {
        snprintf (path, sizeof path, "%s/class/%zu.jpg", folder, file);
        FILE *made = fopen (path, "w");
        assert_non_null (made);
        assert_int_equal (ftruncate (fileno (made), (off_t) bytes), 0);
        assert_int_equal (fclose (made), 0);
    }
}

//  The table: the part of the data that is pinned, what an epoch reads then, and of what data it is.
static void
test_table (void **state)
{
    (void) state;
    scratch_folder_t scratch;
    char of_folder [200];
    assert_true (scratch_begin (&scratch));
    s_make_folder (scratch.path, 600, 300000);
    snprintf (of_folder, sizeof of_folder, "--table --data %s", scratch.path);
    const struct { const char *arguments; json_int_t samples, bytes; bool is_pack; } cases [] = {
        { "--table --samples 2000 --sample-bytes 500000", 2000, 1000000000, true },
        { of_folder, 600, 180000000, false } };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        json_t *object = s_json (cases [at].arguments), *row;
        assert_int_equal (json_integer_value (json_object_get (object, "samples")), cases [at].samples);
        assert_int_equal (json_integer_value (json_object_get (object, "bytes")), cases [at].bytes);
        assert_int_equal (json_is_true (json_object_get (object, "is_pack")), cases [at].is_pack);
        size_t index;
        assert_int_equal (json_array_size (json_object_get (object, "rows")), 4);
        json_array_foreach (json_object_get (object, "rows"), index, row) {
            double pinned = s_real (row, "pinned"), memory = s_real (row, "memory");
            //  What else memory is for is at most a quarter of it, and less of much data.
            assert_true (pinned < memory && pinned > memory * 0.74 - 0.02);
            assert_true (cases [at].bytes < 1000000000 || pinned >= memory - 0.051);
            assert_true (fabs (s_real (row, "one_job") - (1 - pinned)) < 0.02);
            assert_true (s_real (row, "four_in_step") > s_real (row, "one_job") - 0.01);
            assert_true (s_real (row, "four_speeds") < 1.6 * (1 - pinned));
        }
        json_decref (object);
    }
    assert_int_equal (s_run (of_folder), 0);
    assert_non_null (strstr (s_text, "600 samples of 300 kB, single files: 180 MB\n"));
    assert_non_null (strstr (s_text, "\n| 45 MB | 0.25 | 0."));
    assert_int_equal (s_run ("--table --data /nowhere"), 1);
    assert_non_null (strstr (s_text, "tier_sim: --data: there is no folder '/nowhere'"));
    assert_true (scratch_end (&scratch));
}

//  Two independent programs agree on these.
static void
test_redox_as_published (void **state)
{
    (void) state;
    json_t *object = s_json ("--policy redox --published-rng --samples 6400 --virtual-chunks 10 --epochs 3 "
        "--seed 42");
    const json_t *loads = json_object_get (object, "loads");
    assert_int_equal (json_array_size (loads), 3);
    assert_int_equal (json_integer_value (json_array_get (loads, 0)), 909);
    assert_int_equal (json_integer_value (json_array_get (loads, 1)), 868);
    assert_int_equal (json_integer_value (json_array_get (loads, 2)), 885);
    assert_true (fabs (s_real (object, "read_amplification") - 2662.0 * 64 / 19200) < 1e-6);
    json_decref (object);
}

static void
test_json_is_whole_and_the_seeds (void **state)
{
    (void) state;
    const char *const keys [] = {
        "read_amplification", "bytes_per_data_epoch", "fill_rate", "chunk_mean_distance",
            "batch_distinct_chunks",
        "batch_most_of_one_chunk", "piece_mean_distance", "piece_same_batch_ratio", "pair_repeat"
    };
    const char *const line = FINE "--batch 50 --job 1:0:3:0:1 --job 0.5:0.2:2:0.3:0.9 --seed ";
    char arguments [500], hash [40];
    for (int run = 0; run < 3; run++) {
        snprintf (arguments, sizeof arguments, "%s%d", line, run == 2? 8: 7);
        json_t *object = s_json (arguments);
        for (size_t at = 0; at < sizeof keys / sizeof *keys; at++)
            assert_true (isfinite (s_real (object, keys [at])));
        assert_int_equal (json_array_size (json_object_get (object, "loads")), 3);
        assert_int_equal (json_array_size (json_object_get (object, "jobs")), 2);
        const char *now = json_string_value (json_object_get (object, "order_hash"));
        assert_int_equal (strlen (now), 16);
        if (run > 0)
            assert_int_equal (strcmp (now, hash) == 0, run == 1);
        snprintf (hash, sizeof hash, "%s", now);
        json_decref (object);
    }
}

static tier_result_t
s_simulate (raw_policy_t policy, double memory, uint32_t epochs)
{
    tier_plan_job_t job = { .speed = 1, .epochs = epochs, .to = 1 };
    tier_plan_t plan = {
        .policy = policy, .sampler = TIER_FOLLOW, .samples = 16000, .chunk = 64, .piece = 8, .memory = memory,
        .cache = 0.02, .batch = 256, .sample_bytes = 1000, .align = 1, .jobs = &job, .job_count = 1
    };
    return tier_run (&plan, 1, 2, NULL);
}

//  Single reads mix as a plain shuffle does: 1/3, and as many chunks in a batch as 256 draws without
//  replacement give.
static void
test_direct_is_a_shuffle (void **state)
{
    (void) state;
    tier_result_t result = s_simulate (RAW_DIRECT, 0.02, 3);
    const tier_mixing_t *mixing = &result.jobs->mixing;
    assert_int_equal (result.singles, 48000);
    for (int tenth = 0; tenth < TIER_TENTHS; tenth++)
        assert_int_equal (result.singles_by_tenth [tenth], 4800);
    assert_int_equal (result.reasons [TIER_SINGLE_UNNEEDED], 48000 / TIER_SINGLE_EVERY);
    assert_int_equal (result.read_bytes, 48000 * 1000);
    assert_true (fabs (mean_of (&mixing->chunk_distance) - 1.0 / 3) < 0.004);
    assert_true (fabs (mean_of (&mixing->piece_distance) - 1.0 / 3) < 0.01);
    assert_true (fabs (mean_of (&mixing->piece_same_batch) - 1) < 0.1);
    //  250 * (1 - (1 - 1/250)^256)
    assert_true (fabs (mean_of (&mixing->batch_distinct_chunks) - 161.0) < 1.5);
    tier_result_clear (&result);
}

//  Everything in memory: read in the first epoch, and never again.
static void
test_all_in_memory (void **state)
{
    (void) state;
    tier_result_t result = s_simulate (RAW_STREAM, 1, 4);
    assert_int_equal (result.singles, 0);
    assert_int_equal (result.read_bytes, 16000 * 1000);
    assert_int_equal (result.most_bytes, 16000 * 1000);
    tier_result_clear (&result);
}

//  Jobs of different speed: each single read has a tenth of an epoch, and every sixteenth a reason.
static void
test_says_when_reads_are_single (void **state)
{
    (void) state;
    const tier_plan_job_t jobs [] = { { 1, 0, 6, 0, 1 }, { .6, 0, 3, 0, 1 } };
    tier_plan_t plan = {
        .policy = RAW_STREAM, .sampler = TIER_FOLLOW, .samples = 16000, .chunk = 64, .piece = 8,
        .memory = 0.02, .cache = 0.02, .batch = 256, .sample_bytes = 1000, .align = 1, .jobs = jobs,
        .job_count = 2
    };
    tier_result_t result = tier_run (&plan, 1, 2, NULL);
    uint64_t singles = 0, reasons = 0;
    for (int tenth = 0; tenth < TIER_TENTHS; tenth++)
        singles += result.singles_by_tenth [tenth];
    for (int reason = 0; reason < TIER_SINGLE_REASONS; reason++)
        reasons += result.reasons [reason];
    assert_true (result.singles > 300);
    assert_int_equal (singles, result.singles);
    assert_int_equal (reasons, (singles + TIER_SINGLE_EVERY - 1) / TIER_SINGLE_EVERY);
    tier_result_clear (&result);
}

//  Guards: of a deterministic stage, a prepared cache of c versions saves c preparations in each epoch but
//  the first.
static void
test_deterministic_versions_stay (void **state)
{
    (void) state;
    const tier_plan_job_t job = { 1, 0, 4, 0, 1 };
    tier_plan_t plan = {
        .policy = RAW_STREAM, .sampler = TIER_FOLLOW, .samples = 16000, .chunk = 64, .piece = 8,
        .memory = 0.08, .cache = 0.25, .is_deterministic = true, .batch = 256, .sample_bytes = 1000,
        .align = 1, .jobs = &job, .job_count = 1
    };
    tier_result_t result = tier_run (&plan, 1, 2, NULL);
    assert_int_equal (result.handed, 4 * 16000 - 3 * 4000);
    tier_result_clear (&result);
}

static double
s_handed_by (uint32_t tenants, double speed)
{
    const tier_plan_job_t jobs [] = { { 1, 0, 4, 0, 1 }, { speed, 0, speed < 1? 2: 4, 0, 1 } };
    tier_plan_t plan = {
        .policy = RAW_STREAM, .sampler = TIER_FOLLOW, .samples = 16000, .chunk = 64, .piece = 8,
        .memory = 0.08, .cache = 0.02, .tenants = tenants, .batch = 256, .sample_bytes = 1000, .align = 1,
        .jobs = jobs, .job_count = 2
    };
    tier_result_t result = tier_run (&plan, 1, 2, NULL);
    double handed = (double) result.handed / (double) result.deliveries;
    tier_result_clear (&result);
    return handed;
}

//  Guards: jobs of two tenants share versions over a pack as jobs of one do: what serves another tenant's
//  job is not prepared for it again, in step (half of the deliveries) and out of step.
static void
test_tenants_share (void **state)
{
    (void) state;
    assert_true (s_handed_by (2, 1) < 0.51);
    assert_true (fabs (s_handed_by (2, 0.5) - s_handed_by (1, 0.5)) < 0.02);
}

//  Four samples, two chunks, known by hand.
static void
test_measures_by_hand (void **state)
{
    (void) state;
    const uint32_t positions [] = { 0, 1, 2, 3 }, order [] = { 0, 2, 1, 3 };
    tier_mixing_t mixing = { .chunk_distance = { 0 } };
    tier_mixing_add (&mixing, order, 4, positions, 4, 2, 2, 2);
    assert_true (fabs (mean_of (&mixing.chunk_distance) - 0.5) < 1e-12);        //  two apart, of four
    assert_true (fabs (mean_of (&mixing.piece_distance) - 0.5) < 1e-12);
    assert_true (fabs (mean_of (&mixing.piece_same_batch)) < 1e-12);
    assert_true (fabs (mean_of (&mixing.batch_distinct_chunks) - 2) < 1e-12);
    assert_true (fabs (mean_of (&mixing.batch_most_of_one_chunk) - 1) < 1e-12);
    const uint32_t together [] = { 1, 0, 2, 3 };
    tier_mixing_t other = { .chunk_distance = { 0 } };
    tier_mixing_add (&other, together, 4, positions, 4, 2, 2, 2);
    assert_true (fabs (mean_of (&other.piece_same_batch) - 3) < 1e-12);         //  chance: one pair in three
    assert_true (fabs (mean_of (&other.batch_most_of_one_chunk) - 2) < 1e-12);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_bad_arguments),
        cmocka_unit_test (test_pins),
        cmocka_unit_test (test_table),
        cmocka_unit_test (test_redox_as_published),
        cmocka_unit_test (test_json_is_whole_and_the_seeds),
        cmocka_unit_test (test_direct_is_a_shuffle),
        cmocka_unit_test (test_all_in_memory),
        cmocka_unit_test (test_says_when_reads_are_single),
        cmocka_unit_test (test_deterministic_versions_stay),
        cmocka_unit_test (test_tenants_share),
        cmocka_unit_test (test_measures_by_hand)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
