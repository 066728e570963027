/*  Guards: store_sim as a command: what it refuses and how, prices that are wrong, its answers beside closed
 *  forms, and the figures of --published with their origins.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "figure_rows.h"
#include "scratch.h"
#include "simulator_run.h"

enum { OUTPUT_MAX = 200000, COMMAND_MAX = 3000 };

static char s_text [OUTPUT_MAX];

//  Runs store_sim; its exit status, or -1: it was killed.  s_text: both streams.
static int
s_run (const char *arguments)
{
    return simulator_run ("store_sim", arguments, s_text, sizeof s_text);
}

//  ---- what it refuses

#define LINK "--latency 55 --link 10G "
#define FINE "--data 1G --samples 10K --rate 4000 --cache 400M " LINK
#define PRICE "--price $TUREEN_SOURCE/bench/sim/bucket/aws.json "

//  Each is refused with status 2 and one line that names the option and says what was expected.
static void
test_bad_arguments (void **state)
{
    (void) state;
    const char *const cases [] [2] = {
        { "", "--data is missing" },
        { "--data 1G", "--samples is missing" },
        { "--data 1G --samples 10K", "--rate is missing" },
        { "--data 1G --samples 10K --rate 4000", "--latency is missing" },
        { "--data 1G --samples 10K --rate 4000 --latency 55", "--link is missing" },
        { "--data 1G --samples 10K --rate 4000 " LINK, "--cache is missing" },
        { FINE, "--price is missing" },
        { "--data 0", "--data '0': expected a number above 0" },
        { "--data 1.2X", "--data '1.2X': expected a number above 0" },
        { "--data ''", "--data '': expected a number above 0" },
        { "--data K", "--data 'K': expected a number above 0" },
        { "--data 1.2TB", "as in 1.2T" },
        { "--rate -4", "--rate '-4': expected a number above 0" },
        { "--link 10Gbit", "--link '10Gbit': expected" },
        { "--latency 0", "--latency '0': expected" },
        { "--samples 0.5", "--samples '0.5': expected 1 to" },
        { "--samples 2G", "expected 1 to 1,000,000,000" },
        { "--reads 0", "--reads '0': expected a number from 1" },
        { "--nodes 0", "--nodes '0': expected a number from 1" },
        { "--epochs 1", "--epochs '1': expected a number from 2" },
        { FINE PRICE "--samples 3 --nodes 4", "--samples: expected at least one for each" },
        { FINE PRICE "--memory 1K", "--memory: expected at least the bytes of a sample" },
        { FINE PRICE "--piece 3G", "--piece: expected at most --memory" },
        { FINE PRICE "--piece 0.5", "--piece: expected larger ones" },
        { FINE PRICE "--samples 2M --nodes 1000 --piece 1K",
            "--samples: expected at most 1,000,000,000 over --nodes" },
        { FINE PRICE "--published", "--published: goes with --seed only" },
        { FINE "--price /nowhere/prices.json", "/nowhere/prices.json" },
        { "more", "'more'" }
    };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        assert_int_equal (s_run (cases [at] [0]), 2);
        if (!strstr (s_text, cases [at] [1]) || strncmp (s_text, "store_sim: ", 11) != 0)
            fail_msg ("%s: %s", cases [at] [0], s_text);
        assert_string_equal (strchr (s_text, '\n'), "\n");
    }
}

//  ---- prices

static json_t *
s_prices (void)
{
    char path [COMMAND_MAX];
    snprintf (path, sizeof path, "%s/bench/sim/bucket/aws.json", getenv ("TUREEN_SOURCE"));
    json_t *prices = json_load_file (path, 0, NULL);
    assert_non_null (prices);
    return prices;
}

//  Runs the question with these prices, in a file of the scratch folder.
static int
s_run_prices (const json_t *prices, const char *more)
{
    char path [100], arguments [COMMAND_MAX];
    scratch_folder_t scratch;
    assert_true (scratch_begin (&scratch));
    snprintf (path, sizeof path, "%s/prices.json", scratch.path);
    assert_int_equal (json_dump_file (prices, path, 0), 0);
    snprintf (arguments, sizeof arguments, FINE "--price %s %s", path, more);
    int status = s_run (arguments);
    assert_true (scratch_end (&scratch));
    return status;
}

//  Each field is required, of its type, and the only one of its name.
static void
test_prices_name_their_fields (void **state)
{
    (void) state;
    json_t *good = s_prices ();
    const char *name;
    json_t *value;
    char expected [200];
    assert_int_equal (s_run_prices (good, ""), 0);
    json_object_foreach (good, name, value) {
        json_t *prices = json_deep_copy (good);
        json_object_del (prices, name);
        assert_int_equal (s_run_prices (prices, ""), 2);
        snprintf (expected, sizeof expected, "\"%s\" is missing", name);
        assert_non_null (strstr (s_text, expected));
        json_object_set_new (prices, name, json_is_string (value)? json_integer (1): json_integer (-1));
        assert_int_equal (s_run_prices (prices, ""), 2);
        snprintf (expected, sizeof expected, "\"%s\": expected a %s", name,
            json_is_string (value)? "text": "number");
        assert_non_null (strstr (s_text, expected));
        json_object_set_new (prices, name, json_true ());
        assert_int_equal (s_run_prices (prices, ""), 2);
        json_decref (prices);
    }
    json_object_set_new (good, "put_per_1000", json_integer (1));
    assert_int_equal (s_run_prices (good, ""), 2);
    assert_non_null (strstr (s_text, "\"put_per_1000\" is no price"));
    json_decref (good);
    json_t *list = json_array ();
    assert_int_equal (s_run_prices (list, ""), 2);
    assert_non_null (strstr (s_text, "expected an object of prices"));
    json_decref (list);
}

//  ---- answers

static double
s_real (const json_t *object, const char *key)
{
    const json_t *value = json_object_get (object, key);
    assert_true (json_is_number (value));
    return json_number_value (value);
}

//  s_text as JSON; the list of policies is lent from it.
static json_t *
s_parse (json_t **policies_p)
{
    json_t *object = json_loads (s_text, 0, NULL);
    assert_non_null (object);
    *policies_p = json_object_get (object, "policies");
    assert_int_equal (json_array_size (*policies_p), 6);
    return object;
}

static json_t *
s_ask (const char *arguments, json_t **policies_p)
{
    assert_int_equal (s_run (arguments), 0);
    return s_parse (policies_p);
}

//  In the order of the table.
enum { DIRECT, LRU, DELI, NOPFS, OBJECTS, PACK };

static double
s_of (const json_t *policies, size_t policy, const char *key)
{
    return s_real (json_array_get (policies, policy), key);
}

//  1 GB, disk for 0.4 of it: pinned caches and NoPFS read 0.6, LRU 0.6 (1 - ln 0.6) = 0.9065.
static void
test_bytes_are_those_of_the_closed_forms (void **state)
{
    (void) state;
    json_t *policies, *object = s_ask (FINE PRICE "--piece 1M --json", &policies);
    assert_true (s_of (policies, DIRECT, "bytes") == 1e9);
    assert_true (fabs (s_of (policies, LRU, "bytes") - 0.9065e9) < 0.02e9);
    for (size_t policy = NOPFS; policy <= PACK; policy++) {
        assert_true (fabs (s_of (policies, policy, "bytes") - 0.6e9) < 1);
        assert_true (s_of (policies, policy, "first_bytes") == 1e9);
    }
    assert_true (s_of (policies, OBJECTS, "gets") == 6000 && s_of (policies, PACK, "gets") == 600);
    assert_true (s_of (policies, DELI, "gets") >= s_of (policies, OBJECTS, "gets"));
    assert_true (s_of (policies, DIRECT, "lists") == 10 && s_of (policies, PACK, "lists") == 0);
    //  Nothing is quicker than the job, or than the link of 1.25 GB/s.
    for (size_t policy = 0; policy <= PACK; policy++) {
        assert_true (s_of (policies, policy, "seconds") > 2.5 - 1e-6);
        assert_true (s_of (policies, policy, "seconds") > s_of (policies, policy, "bytes") / 1.25e9 - 0.1);
    }
    json_decref (object);
}

//  Two nodes with disk for 0.4 each: 0.2 are left for divided caches, and more for NoPFS's, which overlap.
static void
test_nodes_share_the_data (void **state)
{
    (void) state;
    json_t *policies, *object = s_ask (FINE PRICE "--nodes 2 --piece 1M --json", &policies);
    assert_true (fabs (s_of (policies, OBJECTS, "bytes") - 0.2e9) < 1);
    assert_true (fabs (s_of (policies, PACK, "bytes") - 0.2e9) < 1);
    assert_true (s_of (policies, NOPFS, "bytes") > s_of (policies, OBJECTS, "bytes") - 1);
    assert_true (s_of (policies, LRU, "bytes") > s_of (policies, NOPFS, "bytes"));
    json_decref (object);
}

//  Money is the sum of its parts; with one part alone it is that part's.
static void
test_money_by_hand (void **state)
{
    (void) state;
    static const char *const names [] = {
        "get_per_1000", "list_per_1000", "transfer_per_gb", "disk_per_gb_month", "machine_per_hour"
    };
    json_t *prices = s_prices (), *policies;
    for (size_t part = 0; part < 5; part++) {
        for (size_t at = 0; at < 5; at++)
            json_object_set_new (prices, names [at], json_integer (at == part? 7: 0));
        assert_int_equal (s_run_prices (prices, "--json"), 0);
        json_t *object = s_parse (&policies);
        for (size_t policy = 0; policy <= PACK; policy++) {
            double hours = s_of (policies, policy, "seconds") / 3600;
            double units [] = {
                s_of (policies, policy, "gets") / 1000, s_of (policies, policy, "lists") / 1000,
                s_of (policies, policy, "bytes") / 1e9, policy == DIRECT? 0: hours * 0.4 / 730, hours
            };
            double expected = 7 * units [part];
            assert_true (fabs (s_of (policies, policy, "money") - expected) < 1e-6 * fmax (expected, 1e-3));
        }
        json_decref (object);
    }
    json_decref (prices);
}

static void
test_a_run_is_its_seeds (void **state)
{
    (void) state;
    char first [OUTPUT_MAX];
    assert_int_equal (s_run (FINE PRICE "--seed 5 --json"), 0);
    strcpy (first, s_text);
    assert_int_equal (s_run (FINE PRICE "--seed 5 --json"), 0);
    assert_string_equal (s_text, first);
    assert_int_equal (s_run (FINE PRICE "--seed 6 --json"), 0);
    assert_string_not_equal (s_text, first);
}

//  ---- figures of papers

//  The ratio in the row that begins so.
static double
s_ratio (const char *name)
{
    figure_row_t row = figure_rows_find (s_text, name);
    double figure = strtod (row.cells [1 + figure_rows_origin (&row)], NULL);
    double ours = strtod (row.cells [4], NULL), ratio = strtod (row.cells [5], NULL);
    assert_true (figure > 0 && fabs (ours / figure - ratio) < 0.03);
    return ratio;
}

static void
s_check_ratio (const char *row, double low, double high)
{
    double ratio = s_ratio (row);
    if (ratio < low || ratio > high)
        fail_msg ("%s: ratio %.3f, expected %.3f to %.3f", row, ratio, low, high);
}

//  Each row names the origin of its figure.
static void
s_check_origins (void)
{
    int counts [FIGURE_ROWS_ORIGINS];
    figure_rows_count (s_text, counts);
    assert_int_equal (counts [FIGURE_ROWS_PAPER], 4 + 12 + 1 + 14 + 12);
    assert_int_equal (counts [FIGURE_ROWS_DERIVED], 1 + 2);
    assert_int_equal (counts [FIGURE_ROWS_OWN], 1 + 3 + 6);
    figure_rows_expect (s_text, "N = 4, E = 1000, F = 10,000, d = .1, formula", FIGURE_ROWS_PAPER, "323 (");
    figure_rows_expect (s_text, "N = 4, E = 1000, F = 10,000, d = .1, counted", FIGURE_ROWS_PAPER, "329 (");
    figure_rows_expect (s_text, "counted, F = 100,000", FIGURE_ROWS_OWN, "0.663 (c (1 + k");
    figure_rows_expect (s_text, "c = 0.25, counted", FIGURE_ROWS_OWN, "0.989 (1 + c - N ln");
    figure_rows_expect (s_text, "unlimited, counted", FIGURE_ROWS_DERIVED, "0.667 ((N - 1)/N");
    figure_rows_expect (s_text, "MNIST, 50/50", FIGURE_ROWS_PAPER, "0.11 (Table II)");
    assert_non_null (strstr (s_text, "103 GETs"));
    assert_non_null (strstr (s_text, "(derived: 5.66 / .055 s)"));
    assert_non_null (strstr (s_text, "the machine of the paper's SC'21 version"));
}

static void
test_figures_name_their_origin_and_are_near (void **state)
{
    (void) state;
    assert_int_equal (s_run ("--published"), 0);
    s_check_origins ();
    s_check_ratio ("N = 16, E = 90, F = 1,281,167, d = .8, formula", .9999, 1.0001);
    s_check_ratio ("N = 16, E = 90, F = 1,281,167, d = .8, counted", .95, 1.05);
    s_check_ratio ("N = 4, E = 1000, F = 10,000, d = .1, formula", .998, 1.002);
    s_check_ratio ("MNIST: Naive / the best policy", .87, .88);
    static const char *const sizes [] = { "c = 0.25", "c = 0.50", "c = 0.75", "unlimited" };
    char row [100];
    for (int at = 0; at < 4; at++) {
        snprintf (row, sizeof row, "%s, counted", sizes [at]);
        s_check_ratio (row, .96, 1.04);
    }
    s_check_ratio ("CIFAR-10, loading time that 50/50 saves", .97, 1.03);
    s_check_ratio ("MNIST, loading time that 50/50 saves", .95, 1.05);
    s_check_ratio ("MNIST, 50/50, epoch 1", .9, 1.1);
    s_check_ratio ("CIFAR-10, bucket", .97, 1.03);
    s_check_ratio ("MNIST, bucket", .97, 1.03);
    s_check_ratio ("CIFAR-10, fetch 1,024", .95, 1.05);
    s_check_ratio ("MNIST, fetch 1,024", .95, 1.05);
    assert_non_null (strstr (s_text, "Not derivable from the papers"));
    figure_row_t row_22k = figure_rows_find (s_text, "ImageNet-22k: LBANN cannot hold the data");
    assert_string_equal (row_22k.cells [4], "yes");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_bad_arguments),
        cmocka_unit_test (test_prices_name_their_fields),
        cmocka_unit_test (test_bytes_are_those_of_the_closed_forms),
        cmocka_unit_test (test_nodes_share_the_data),
        cmocka_unit_test (test_money_by_hand),
        cmocka_unit_test (test_a_run_is_its_seeds),
        cmocka_unit_test (test_figures_name_their_origin_and_are_near)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
