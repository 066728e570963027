/*  Guards: sampler_sim as a command: what it refuses and how, what its JSON holds, what a sweep leaves behind
 *  with gnuplot and without.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>

#include "scratch.h"

enum { OUTPUT_MAX = 200000 };

typedef struct {
    int status;                         //  of the command; -1: it was killed
    char text [OUTPUT_MAX];             //  both streams, or standard output alone
} outcome_t;

//  Runs sampler_sim with these arguments, as the shell takes them.
static void
s_run (outcome_t *self, const char *before, const char *arguments)
{
    const char *folder = getenv ("TUREEN_BIN");
    assert_non_null (folder);
    char command [2000];
    int length = snprintf (command, sizeof command, "%s %s/sampler_sim %s", before, folder, arguments);
    assert_true (length > 0 && length < (int) sizeof command);
    FILE *pipe = popen (command, "r");
    assert_non_null (pipe);
    size_t size = fread (self->text, 1, sizeof self->text - 1, pipe);
    self->text [size] = '\0';
    int status = pclose (pipe);
    self->status = WIFEXITED (status)? WEXITSTATUS (status): -1;
}

#define FINE "--policy follow --samples 100 --job 1:0:2:0:1 "

//  Each is refused with status 2, one line that begins with our name, names the option and says what was
//  expected.
static void
test_bad_arguments (void **state)
{
    (void) state;
    const char *const cases [] [2] = {
        { "--samples 100 --job 1:0:2:0:1", "--policy: expected" },
        { "--policy follow --job 1:0:2:0:1", "--samples: expected" },
        { "--policy follow --samples 100", "--job: expected" },
        { "--policy best", "--policy 'best': expected dsa, follow" },
        { "--samples 0", "--samples '0': expected a number from 1" },
        { "--samples -5", "--samples '-5': expected" },
        { "--samples 10x", "--samples '10x': expected" },
        { "--samples 99999999999999999999", "expected a number" },
        { "--cache 0", "--cache '0': expected" },
        { "--batch 0", "--batch '0': expected" },
        { "--window 0", "--window '0': expected" },
        { FINE "--window 63", "--window '63': expected 1, or at least the batch of 64" },
        { "--seeds 0", "--seeds '0': expected" },
        { "--seed 18446744073709551616", "--seed '18446744073709551616': expected" },
        { "--job 1:0:2:0", "--job '1:0:2:0': expected SPEED:START:EPOCHS:FROM:TO" },
        { "--job 1:0:2:0:1:3", "expected SPEED:START:EPOCHS:FROM:TO" },
        { "--job 1:0:2.5:0:1", "expected SPEED:START:EPOCHS:FROM:TO" },
        { "--job nan:0:2:0:1", "expected SPEED:START:EPOCHS:FROM:TO" },
        { "--job 1.5:0:2:0:1", "expected a SPEED" },
        { "--job 0:0:2:0:1", "expected a SPEED" },
        { "--job 1:-1:2:0:1", "expected a START" },
        { "--job 1:0:0:0:1", "expected EPOCHS" },
        { "--job 1:0:2:.5:.5", "FROM < TO" },
        { "--job 1:0:2:0:1.1", "FROM < TO" },
        { "--policy dsa --samples 10 --job 1:0:2:0:.01", "--job: job 0 has no sample" },
        { FINE "--phase 1:5", "--phase '1:5': expected JOB:SAMPLES, a job from 0 to 0" },
        { FINE "--phase 0", "--phase '0': expected JOB:SAMPLES" },
        { FINE "--leave 1:5", "--leave '1:5': expected JOB:AT" },
        { FINE "--leave 0:-5", "--leave '0:-5': expected JOB:AT" },
        { FINE "--leave 0:inf", "--leave '0:inf': expected JOB:AT" },
        { "--jitter 1", "--jitter '1': expected" },
        { "--jitter -0.1", "--jitter '-0.1': expected" },
        { "--slow 0.1", "--slow '0.1': expected FRACTION:FACTOR" },
        { "--slow 1.1:2", "--slow '1.1:2': expected FRACTION:FACTOR" },
        { "--slow 0.1:0.5", "--slow '0.1:0.5': expected FRACTION:FACTOR" },
        { "--policy lockstep --samples 9 --job 1:0:2:0:1 --slow 0.1:2",
            "--slow: expected with other policies" },
        { "--policy lockstep --samples 9 --job 1:0:2:0:1 --jitter 0.1",
            "--jitter: expected with other policies" },
        { "--policy lockstep --samples 9 --job 1:0:2:0:1 --phase 0:2",
            "--phase: expected with other policies" },
        { "--sweep /tmp --policy dsa", "--policy: expected without --sweep" },
        { "--sweep /tmp --job 1:0:2:0:1", "--job: expected without --sweep" },
        { "--sweep /tmp --json", "--json: expected without --sweep" },
        { FINE "more", "'more'" },
        { "--job", "--job" },
        { "--what", "--what" },
    };
    static outcome_t outcome;
    for (size_t each = 0; each < sizeof cases / sizeof *cases; each++) {
        char arguments [300];
        snprintf (arguments, sizeof arguments, "%s 2>&1 >/dev/null", cases [each] [0]);
        s_run (&outcome, "", arguments);
        if (outcome.status != 2 || !strstr (outcome.text, cases [each] [1])
                || !strstr (outcome.text, "sampler_sim: "))
            fail_msg ("%s: status %d, said: %s", cases [each] [0], outcome.status, outcome.text);
    }
}

static void
test_help (void **state)
{
    (void) state;
    static outcome_t outcome;
    s_run (&outcome, "", "--help 2>&1");
    assert_int_equal (outcome.status, 0);
    const char *const options [] = { "--policy", "--samples", "--cache", "--job", "--window", "--batch",
        "--phase", "--leave", "--jitter", "--slow", "--seed ", "--seeds", "--json", "--sweep", "--help" };
    for (size_t option = 0; option < sizeof options / sizeof *options; option++)
        if (!strstr (outcome.text, options [option]))
            fail_msg ("help does not tell of %s", options [option]);
}

//  Output that is not written is not success.
static void
test_full_output (void **state)
{
    (void) state;
    static outcome_t outcome;
    s_run (&outcome, "", FINE "2>&1 >/dev/full");
    assert_int_equal (outcome.status, 1);
    assert_non_null (strstr (outcome.text, "standard output"));
}

static json_t *
s_json (const char *arguments)
{
    static outcome_t outcome;
    s_run (&outcome, "", arguments);
    assert_int_equal (outcome.status, 0);
    json_t *object = json_loads (outcome.text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null (object);
    return object;
}

static void
test_json (void **state)
{
    (void) state;
    json_t *object = s_json ("--policy dsa --samples 200 --cache 4 --job 1:0:4:0:.5 --job 1:.5:3:0:1 --batch "
        "8 --json");
    assert_string_equal (json_string_value (json_object_get (object, "policy")), "dsa");
    assert_int_equal (json_integer_value (json_object_get (object, "deliveries")), 1000);
    json_int_t preparations = json_integer_value (json_object_get (object, "preparations"));
    assert_true (preparations > 600 && preparations <= 1000);
    double share = json_real_value (json_object_get (object, "preparations_per_delivery"));
    assert_true (share > (double) preparations / 1000 - 1e-5 && share < (double) preparations / 1000 + 1e-5);
    double bound = json_real_value (json_object_get (object, "lower_bound"));
    assert_true (bound > 0.5 && bound < share);
    json_t *jobs = json_object_get (object, "jobs"), *job = json_array_get (jobs, 0);
    assert_int_equal (json_array_size (jobs), 2);
    assert_true (json_is_true (json_object_get (job, "exactly_once")));
    assert_int_equal (json_integer_value (json_object_get (job, "pairs")), 3);
    const char *const reals [] = { "phi2", "phi2_lag2", "phi2_lag3", "tail_to_head", "pair_repeat" };
    for (size_t key = 0; key < sizeof reals / sizeof *reals; key++)
        assert_true (json_is_real (json_object_get (job, reals [key])));
    assert_int_equal (json_array_size (json_object_get (job, "epoch_correlation")), 3);
    assert_int_equal (json_array_size (json_object_get (job, "strata_mean_position")), 1);
    assert_null (json_object_get (job, "position_chi2_z"));
    job = json_array_get (jobs, 1);
    assert_int_equal (json_array_size (json_object_get (job, "strata_mean_position")), 2);
    assert_true (json_is_null (json_object_get (job, "phi2_lag3")));        //  3 epochs have no such pair
    json_decref (object);
}

static void
test_json_of_several_seeds (void **state)
{
    (void) state;
    json_t *object = s_json ("--policy follow --samples 100 --job 1:0:2:0:1 --job 1:.5:2:0:1 --seeds 20 "
        "--json");
    assert_int_equal (json_integer_value (json_object_get (object, "seeds")), 20);
    assert_true (json_real_value (json_object_get (object, "preparations_standard_error")) > 0);
    json_t *job = json_array_get (json_object_get (object, "jobs"), 1);
    assert_int_equal (json_array_size (json_object_get (job, "position_chi2_z")), 2);
    json_decref (object);
    //  More samples than positions are counted for: said, and the figures are there all the same.
    static outcome_t outcome;
    s_run (&outcome, "", "--policy dsa --samples 1001 --job 1:0:2:0:1 --seeds 2 --json 2>&1 >/dev/null");
    assert_int_equal (outcome.status, 0);
    assert_non_null (strstr (outcome.text,
        "--samples 1001: positions are not tested; expected at most 1000"));
}

static bool
s_exists (const char *folder, const char *name)
{
    char path [300];
    snprintf (path, sizeof path, "%s/%s", folder, name);
    struct stat status;
    return stat (path, &status) == 0 && status.st_size > 0;
}

//  A folder with this program as gnuplot; or with none, if it is NULL.
static void
s_fake_gnuplot (const char *folder, const char *script)
{
    char path [300];
    assert_int_equal (mkdir (folder, 0700), 0);
    if (!script)
        return;
    snprintf (path, sizeof path, "%s/gnuplot", folder);
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fprintf (file, "#!/bin/sh\n%s\n", script);
    assert_int_equal (fclose (file), 0);
    assert_int_equal (chmod (path, 0700), 0);
}

//  One sweep with what stands for gnuplot.
static void
s_sweep (outcome_t *outcome, const scratch_folder_t *scratch, const char *name, const char *script)
{
    char tools [200], before [300], arguments [300];
    snprintf (tools, sizeof tools, "%s/%s-tools", scratch->path, name);
    s_fake_gnuplot (tools, script);
    snprintf (before, sizeof before, "PATH=\"%s\"", tools);
    snprintf (arguments, sizeof arguments, "--sweep \"%s/%s\" --samples 40 --batch 8 2>&1", scratch->path,
        name);
    s_run (outcome, before, arguments);
}

static void
test_sweep (void **state)
{
    (void) state;
    static outcome_t outcome;
    char folder [200];
    scratch_folder_t scratch;
    assert_true (scratch_begin (&scratch));
    //  A gnuplot that takes its script for the picture; a folder that needs quoting.
    s_sweep (&outcome, &scratch, "it's here", "exec /bin/cat");
    snprintf (folder, sizeof folder, "%s/it's here", scratch.path);
    if (outcome.status != 0)
        fail_msg ("with gnuplot: status %d, said: %s", outcome.status, outcome.text);
    assert_true (s_exists (folder, "sweep.md"));
    assert_true (s_exists (folder, "offsets.dat"));
    assert_true (s_exists (folder, "ratios.dat"));
    assert_true (s_exists (folder, "sweep.svg"));
    s_sweep (&outcome, &scratch, "without", NULL);
    snprintf (folder, sizeof folder, "%s/without", scratch.path);
    assert_int_equal (outcome.status, 1);
    assert_non_null (strstr (outcome.text, "apt-get install gnuplot-nox"));
    assert_true (s_exists (folder, "sweep.md"));
    assert_true (s_exists (folder, "offsets.dat"));
    assert_true (s_exists (folder, "ratios.dat"));
    s_sweep (&outcome, &scratch, "failing", "echo half a picture; exit 3");
    snprintf (folder, sizeof folder, "%s/failing", scratch.path);
    assert_int_equal (outcome.status, 1);
    assert_non_null (strstr (outcome.text, "gnuplot failed"));
    assert_true (s_exists (folder, "sweep.md"));
    assert_false (s_exists (folder, "sweep.svg"));
    s_run (&outcome, "", "--sweep /dev/null/there --samples 40 2>&1");
    assert_int_equal (outcome.status, 1);
    assert_non_null (strstr (outcome.text, "--sweep '/dev/null/there': "));
    assert_true (scratch_end (&scratch));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_bad_arguments),
        cmocka_unit_test (test_help),
        cmocka_unit_test (test_full_output),
        cmocka_unit_test (test_json),
        cmocka_unit_test (test_json_of_several_seeds),
        cmocka_unit_test (test_sweep),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
