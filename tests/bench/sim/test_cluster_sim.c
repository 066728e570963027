/*  Guards: cluster_sim as a command: what it refuses and how, that its figures are the model's, and that a
 *  run is its seed's.
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

#include "simulator_run.h"

enum { OUTPUT_MAX = 200000 };

static char s_text [OUTPUT_MAX];

static int
s_run (const char *arguments)
{
    return simulator_run ("cluster_sim", arguments, s_text, sizeof s_text);
}

#define FINE "--data 4194304000 --nodes 4 --cache 1G "

//  Each is refused with status 2 and one line that names the option and says what was expected.
static void
test_bad_arguments (void **state)
{
    (void) state;
    const char *const cases [] [2] = {
        { "", "--data is missing" },
        { "--data 1G", "--nodes is missing" },
        { "--data 1G --nodes 2", "--cache is missing" },
        { "--data 0", "--data '0': expected a number above 0" },
        { "--data 1X", "--data '1X': expected a number above 0" },
        { "--data -1", "--data '-1': expected" },
        { "--cache -1", "--cache '-1': expected a number from 0" },
        { "--nodes 0", "--nodes '0': expected a number from 1" },
        { "--nodes 20001", "expected a number from 1 to 20000" },
        { "--link 0", "--link '0': expected a number above 0" },
        { "--store ''", "--store '': expected" },
        { "--peers all", "--peers 'all': expected homes or none" },
        { "--larger 2:2", "--larger '2:2': expected SHARE:FACTOR" },
        { "--larger .5", "--larger '.5': expected SHARE:FACTOR" },
        { "--slow 1:.5", "--slow '1:.5': expected COUNT:FACTOR" },
        { "--slow 0:2", "--slow '0:2': expected COUNT:FACTOR" },
        { "--change 1:2", "--change '1:2': expected EPOCHS:+COUNT" },
        { "--change 1:+0", "--change '1:+0': expected EPOCHS:+COUNT" },
        { "--change -1:+1", "--change '-1:+1': expected EPOCHS:+COUNT" },
        { "--change 2:+1 --change 1:+1", "--change '1:+1': expected them in order of time" },
        { FINE "--change 1:-4", "--change 1:-4: leaves 0 nodes; expected from 1" },
        { FINE "--jobs 2 --change 1:-3", "--change 1:-3: leaves 1 nodes; expected from 2" },
        { FINE "--change 1:+19997", "leaves 20001 nodes" },
        { FINE "--jobs 5", "--jobs 5: expected at most one for each of the 4 --nodes" },
        { FINE "--slow 5:2", "--slow: 5 nodes of 4" },
        { FINE "--block 1", "--data: is 4194304000 blocks; expected up to 4000000000" },
        { FINE "--published", "--published: goes with --seed only" },
        { "more", "'more'" }
    };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        assert_int_equal (s_run (cases [at] [0]), 2);
        if (!strstr (s_text, cases [at] [1]) || strncmp (s_text, "cluster_sim: ", 13) != 0)
            fail_msg ("%s: %s", cases [at] [0], s_text);
        assert_string_equal (strchr (s_text, '\n'), "\n");
    }
}

static double
s_of (const json_t *object, size_t epoch, const char *key)
{
    const json_t *value = json_object_get (json_array_get (json_object_get (object, "epochs"), epoch), key);
    assert_true (json_is_number (value));
    return json_number_value (value);
}

static json_t *
s_ask (const char *arguments)
{
    assert_int_equal (s_run (arguments), 0);
    json_t *object = json_loads (s_text, 0, NULL);
    assert_non_null (object);
    return object;
}

//  1,000 blocks of 4 MiB; four caches of 238 blocks.
static void
test_figures_add_up (void **state)
{
    (void) state;
    json_t *object = s_ask (FINE "--json");
    double data = 1000 * 4194304., least = 48 * 4194304.;
    assert_int_equal (json_integer_value (json_object_get (object, "blocks")), 1000);
    assert_int_equal (json_array_size (json_object_get (object, "epochs")), 3);
    for (size_t epoch = 0; epoch < 3; epoch++) {
        double parts = s_of (object, epoch, "local_bytes") + s_of (object, epoch, "peer_bytes")
            + s_of (object, epoch, "direct_bytes");
        assert_true (s_of (object, epoch, "read_bytes") == data && parts == data);
        assert_true (s_of (object, epoch, "nodes") == 4);
        assert_true (s_of (object, epoch, "store_bytes") >= (epoch? least: data));
        assert_true (s_of (object, epoch, "store_bytes") < (epoch? 1.5 * least: data + 1));
        assert_true (s_of (object, epoch, "least_bytes") == (epoch? least: data));
        assert_true (s_of (object, epoch, "alone_bytes") == (epoch? 762 * 4194304.: data));
        assert_true (s_of (object, epoch, "homes_max_over_mean") > 1);
        //  Nothing is quicker than a node's ways: 3.125 GB/s from others, 1.25 GB/s from the store.
        assert_true (s_of (object, epoch, "seconds") > s_of (object, epoch, "in_max_bytes") / 3.125e9);
        assert_true (s_of (object, epoch, "seconds") > s_of (object, epoch, "direct_bytes") / 4 / 1.25e9);
    }
    json_decref (object);
}

//  Rates are in the units that --help names: a cold epoch of one node is the store's time.
static void
test_units (void **state)
{
    (void) state;
    json_t *object = s_ask ("--data 8388608000 --nodes 1 --cache 0 --store-node 8388608000 --store 1T "
        "--store-delay 500 --ahead 60000 --epochs 1 --json");
    assert_true (fabs (s_of (object, 0, "seconds") - 8.5) < 1e-6);
    json_decref (object);
}

static void
test_a_run_is_its_seeds (void **state)
{
    (void) state;
    static char first [OUTPUT_MAX];
    assert_int_equal (s_run (FINE "--seed 5 --change 1.5:-1"), 0);
    strcpy (first, s_text);
    assert_int_equal (s_run (FINE "--seed 5 --change 1.5:-1"), 0);
    assert_string_equal (s_text, first);
    assert_int_equal (s_run (FINE "--seed 6 --change 1.5:-1"), 0);
    assert_string_not_equal (s_text, first);
    assert_non_null (strstr (first, "\n| 2 | 3 |"));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_bad_arguments),
        cmocka_unit_test (test_figures_add_up),
        cmocka_unit_test (test_units),
        cmocka_unit_test (test_a_run_is_its_seeds)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
