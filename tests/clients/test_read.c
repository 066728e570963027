//  `tureen read` as a process, against a fake server: its arguments, what it prints, what it writes.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "fake_server.h"
#include "reading.h"

static void
test_help (void **state)
{
    (void) state;
    assert_int_equal (RUN (NULL, "--help"), 0);
    assert_non_null (strstr (reading_out, "Usage: tureen read --dataset NAME"));
    static const char *const options [] = { "--connect", "--dataset", "--batch", "--epochs", "--rate",
        "--subset",
        "--recipe", "--pipeline", "--order", "--list", "--slots", "--inline", "--drop-last", "--seed",
        "--pool", "--name",
        "--ids", "--json", "--timeout", "--state", "--state-every", "--job", "--rejoin", "--world-size",
        "--rank", "--gather", "--rank-wait", "--on-bad" };
    for (size_t index = 0; index < sizeof options / sizeof *options; index++)
        assert_non_null (strstr (reading_out, options [index]));
}

//  Each is refused with status 2 and a sentence that names it, before any server is asked.
static void
test_unusable_arguments (void **state)
{
    (void) state;
    static const char *const cases [] [4] = {
        { NULL, NULL, NULL, "--dataset NAME is required" }, { "--batch", "0", NULL, "--batch '0'" },
        { "--batch", "65537", NULL, "--batch" }, { "--batch", "1G", NULL, "--batch" },
        { "--batch", "-1", NULL, "--batch" },
        { "--batch", "64x", NULL, "--batch" }, { "--batch", "99999999999999999999", NULL, "--batch" },
        { "--epochs", "", NULL, "--epochs" }, { "--slots", "2", NULL, "3 to 64" },
        { "--rate", "0", NULL, "--rate" }, { "--rejoin", "-1", NULL, "--rejoin '-1'" },
        { "--rejoin", "nan", NULL, "--rejoin" },
        { "--state-every", "0", NULL, "--state-every '0'" },
        { "--dataset", "a", "--job=", "--job: expected 1 to 64" },
        { "--rate", "nan", NULL, "--rate" }, { "--timeout", "soon", NULL, "--timeout" },
        { "--subset", "5", NULL, "LO:HI" }, { "--subset", "5:5", NULL, "LO:HI" },
        { "--subset", "1:2,", NULL, "LO:HI" },
        { "--subset", "1:2;3:4", NULL, "LO:HI" }, { "--order", "random", NULL, "private, list or seeded" },
        { "--on-bad", "skip", NULL, "--on-bad 'skip': expected drop or fail" },
        { "--pool", "7", NULL, "--pool '7': expected a number from 8 to 16777216" },
        { "--dataset", "a", "--pool=64", "--pool needs --order seeded" },
        { "--list", "/nowhere/at/all", NULL, "--list /nowhere/at/all" }, { "--list", "-", NULL, "no ids" },
        { "--pipeline", "train", NULL, "JSON list" }, { "--frobnicate", NULL, NULL, "--frobnicate" },
        { "--batch", NULL, NULL, "needs a value" }, { "stray", NULL, NULL, "stray" },
        { "--json=3", NULL, NULL, "option '--json' takes no value" },
        { "--drop-last=no", NULL, NULL, "option '--drop-last' takes no value" },
        { "--s", "3", NULL, "option '--s' is ambiguous" },
        { "--dataste", "a", NULL, "unknown option '--dataste'; did you mean '--dataset'?" },
        { "-x", NULL, NULL, "unknown" },
        { "--dataset", "a", "--pipeline=[", "read: --pipeline: line 1" },
        { "--dataset", "a", "--recipe=\xff", "read: --recipe: not UTF-8" },
        { "--dataset", "a", "--name="
            "12345678901234567890123456789012345678901234567890123456789012345", "read: --name: longer" },
        { "--dataset", "a", "--connect=udp://x", "ipc://" },
        { "--dataset", "a", "--subset=4:6,0:5", "read: --subset: the ranges must be ascending" },
        { "--world-size", "65", NULL, "--world-size '65': expected a number from 1 to 64" },
        { "--dataset=a", "--rank=1", NULL, "--rank needs --world-size" },
        { "--dataset=a", "--gather=1", NULL, "--gather needs --world-size" },
        { "--dataset=a", "--world-size=2", NULL, "--world-size needs --rank" },
        { "--dataset=a", "--world-size=2", "--rank=1", "--world-size needs --job" },
        { "--dataset=a", "--world-size=1", "--rank=1", "read: --rank: 1; expected less than" },
        { "--gather", "0", NULL, "--gather '0'" }, { "--rank-wait", "86401", NULL, "--rank-wait '86401'" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        int status = RUN (NULL, cases [index] [0], cases [index] [1], cases [index] [2]);
        if (status != 2 || !strstr (reading_err, cases [index] [3]))
            fail_msg ("case %zu: status %d, \"%s\"", index, status, reading_err);
        assert_string_equal (reading_out, "");
    }
}

static void
test_no_server (void **state)
{
    (void) state;
    assert_int_equal (RUN (NULL, "--dataset=train", "--timeout=0.1", "--connect=ipc:///tmp/tureen-nowhere"),
        1);
    assert_non_null (strstr (reading_err, "tureen serve"));
}

static void
test_refused (void **state)
{
    (void) state;
    fake_plan_t plan = { .refuse = "this server has: train, val" };
    fake_server_t *fake = fake_new (&plan);
    assert_int_equal (RUN (fake, "--dataset=trian"), 1);
    assert_non_null (strstr (reading_err, "this server has: train, val"));
    fake_destroy (&fake);
}

static void
test_ids_and_result_of_whole_epochs (void **state)
{
    (void) state;
    fake_server_t *fake = reading_fake (7, 2);
    char ids [160];
    snprintf (ids, sizeof ids, "--ids=%s", reading_path ("ids"));
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=3", "--epochs=2", "--json", ids), 0);
    assert_string_equal (reading_ids, "0: 0 1 2 3 4 5 6\n1: 0 1 2 3 4 5 6\n");
    assert_true (reading_result ("job") == FAKE_JOB);
    assert_true (reading_result ("epochs") == 2);
    assert_true (reading_result ("samples") == 14);
    assert_true (reading_result ("batches") == 6);
    assert_true (reading_result ("bytes") == 14 * (FAKE_PIXELS + 8));
    assert_true (reading_result ("seconds") > 0 && reading_result ("samples_per_second") > 0
        && reading_result ("wait_seconds") >= 0);
    assert_int_equal (fake_seen (fake).leaves, 1);
    assert_int_equal (fake_seen (fake).wrong, 0);
    fake_destroy (&fake);
}

//  Guards: both times end with the last batch, however long more was waited for.
static void
test_the_wait_ends_with_the_last_batch (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 9, .epochs = 1, .deed = FAKE_DIE, .deed_batches = 2 };
    fake_server_t *fake = fake_new (&plan);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=3", "--epochs=1", "--json", "--rejoin=0.3"), 1);
    assert_true (reading_result ("batches") == 2);
    assert_true (reading_result ("wait_seconds") <= reading_result ("seconds"));
    fake_destroy (&fake);
}

//  Text for people, and that the ring and inline carry the same bytes.
static void
test_inline_has_the_same_checksum (void **state)
{
    (void) state;
    char checksums [2] [64];
    for (int round = 0; round < 2; round++) {
        fake_server_t *fake = reading_fake (64, 1);
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=8", "--json",
            round? "--inline": "--slots=3"), 0);
        json_t *root = json_loads (reading_out, 0, NULL);
        snprintf (checksums [round], sizeof *checksums, "%s",
            json_string_value (json_object_get (root, "checksum")));
        assert_true (json_is_true (json_object_get (root, "ring")) == !round);
        json_decref (root);
        assert_int_equal (fake_seen (fake).inlines, round);
        fake_destroy (&fake);
    }
    assert_string_equal (checksums [0], checksums [1]);
    fake_server_t *fake = reading_fake (64, 1);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=8"), 0);
    assert_non_null (strstr (reading_out, "job 7 (shared memory, seed 7): 1 epoch, 64 samples in 8 batches"));
    fake_destroy (&fake);
}

//  Every option reaches the server.
static void
test_options_reach_the_server (void **state)
{
    (void) state;
    fake_server_t *fake = reading_fake (8, 1);
    assert_int_equal (RUN (fake, "--dataset=val", "--batch=1K", "--epochs=0", "--drop-last",
        "--subset=0:1,2:1K",
        "--recipe=eval", "--order=private", "--slots=5", "--seed=18446744073709551615", "--name=me",
        "--on-bad=fail"), 0);
    static const char *const texts [] = { "\"dataset\":\"val\"", "\"batch_size\":1024", "\"epochs\":null",
        "\"drop_last\":true", "\"pipeline\":\"eval\"", "\"order\":\"private\"", "\"slots\":5",
        "\"seed\":\"18446744073709551615\"", "\"name\":\"me\"", "\"frames\":[\"subset\"]",
        "\"on_bad\":\"fail\"" };
    fake_seen_t seen = fake_seen (fake);
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++)
        if (!strstr (seen.join, texts [index]))
            fail_msg ("%s is not in %s", texts [index], seen.join);
    assert_int_equal (seen.id_bytes, 8 + 4 * 8);
    fake_destroy (&fake);
}

//  What was not said of the order is left to the server; the result says the seed that gives the run again.
static void
test_seed_and_order (void **state)
{
    (void) state;
    static const struct { const char *arguments [2], *order; bool seeded; } cases [] = {
        { { "--json", NULL }, NULL, false }, { { "--seed=9", NULL }, NULL, true },
        { { "--order=seeded", NULL }, "\"order\":\"seeded\"", false },
        { { "--seed=9", "--order=seeded" }, "\"order\":\"seeded\"", true },
        { { "--pool=1K", "--order=seeded" }, "\"order\":\"seeded\",\"transport\":\"auto\",\"pool\":1024",
            false },
        { { "--order=shared", "--seed=9" }, "\"order\":\"shared\"", true },
        { { "--seed=9", "--order=list" }, "\"order\":\"list\"", true }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        fake_server_t *fake = reading_fake (8, 1);
        assert_int_equal (RUN (fake, "--dataset=train", "--json", cases [index].arguments [0],
            cases [index].arguments [1]), 0);
        fake_seen_t seen = fake_seen (fake);
        if (cases [index].order? !strstr (seen.join, cases [index].order):
            strstr (seen.join, "order") != NULL)
            fail_msg ("case %zu: %s", index, seen.join);
        assert_int_equal (strstr (seen.join, "\"seed\":\"9\"") != NULL, cases [index].seeded);
        json_t *root = json_loads (reading_out, 0, NULL);
        assert_string_equal (json_string_value (json_object_get (root, "seed")), "7");
        json_decref (root);
        fake_destroy (&fake);
    }
}

static void
test_a_list_of_ids (void **state)
{
    (void) state;
    FILE *file = fopen (reading_path ("list"), "w");
    assert_non_null (file);
    fputs ("5\n3 \n5\n", file);
    fclose (file);
    char list [160];
    snprintf (list, sizeof list, "--list=%s", reading_path ("list"));
    fake_server_t *fake = reading_fake (3, 1);
    assert_int_equal (RUN (fake, "--dataset=train", list), 0);
    fake_seen_t seen = fake_seen (fake);
    assert_non_null (strstr (seen.join, "\"order\":\"list\""));
    assert_int_equal (seen.id_bytes, 8 + 3 * 8);
    assert_int_equal (RUN (NULL, "--dataset=train", list, "--order=shared"), 2);
    assert_int_equal (RUN (NULL, "--dataset=train", list, "--subset=0:1"), 2);
    file = fopen (reading_path ("list"), "w");
    assert_non_null (file);
    fputs ("5\nfive\n", file);
    fclose (file);
    assert_int_equal (RUN (NULL, "--dataset=train", list), 2);
    assert_non_null (strstr (reading_err, "line 2"));
    fake_destroy (&fake);
}

//  40 samples at 200 a second take 0.2 seconds, and the schedule does not add up delays.
static void
test_rate_paces (void **state)
{
    (void) state;
    fake_server_t *fake = reading_fake (44, 1);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=4", "--rate=200", "--json"), 0);
    //  The last batch's turn counts as well, with its samples.
    assert_true (reading_result ("seconds") >= 0.2199);
    //  Delays that add up would be the machine's: so only no hang.
    assert_true (reading_result ("seconds") < 30);
    fake_destroy (&fake);
    fake = reading_fake (64, 1);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=64", "--rate=320", "--json"), 0);
    assert_true (reading_result ("seconds") >= 0.1999);
    assert_true (reading_result ("samples_per_second") <= 320.1);
    fake_destroy (&fake);
}

//  What a rank is given, and no more: padding is a batch, and nothing else.
static void
test_a_rank_has_its_part (void **state)
{
    (void) state;
    static const char *const expected [] = { "0: 0 1 4\n1: 0 1 4\n", "0: 2 3\n1: 2 3\n" };
    for (int rank = 0; rank < 2; rank++) {
        fake_server_t *fake = reading_fake (5, 2);
        char ids [160], number [24];
        snprintf (ids, sizeof ids, "--ids=%s", reading_path ("ids"));
        snprintf (number, sizeof number, "--rank=%d", rank);
        assert_int_equal (RUN (fake, "--dataset=train", "--batch=2", "--epochs=2", "--json", ids,
            "--world-size=2", number, "--job=j", "--gather=7", "--rank-wait=0"), 0);
        assert_string_equal (reading_ids, expected [rank]);
        assert_true (reading_result ("rank") == rank && reading_result ("world_size") == 2);
        assert_true (reading_result ("batches") == 4);
        assert_true (reading_result ("padding") == (rank? 2: 0));
        assert_true (reading_result ("samples") == (rank? 4: 6));
        assert_true (reading_result ("bytes") == (rank? 4: 6) * (FAKE_PIXELS + 8));
        fake_seen_t seen = fake_seen (fake);
        snprintf (ids, sizeof ids, "\"world_size\":2,\"rank\":%d,\"gather\":7,\"rank_wait\":0}", rank);
        if (!strstr (seen.join, ids))
            fail_msg ("%s", seen.join);
        fake_destroy (&fake);
    }
    fake_server_t *fake = reading_fake (5, 1);
    assert_int_equal (RUN (fake, "--dataset=train", "--batch=2", "--world-size=2", "--rank=1", "--job=j"), 0);
    assert_non_null (strstr (reading_out,
        "job 7, rank 1 of 2 (shared memory, seed 7): 1 epoch, 2 samples in 2 batches"));
    fake_destroy (&fake);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_help),
        cmocka_unit_test (test_unusable_arguments),
        cmocka_unit_test (test_no_server),
        cmocka_unit_test (test_refused),
        cmocka_unit_test (test_ids_and_result_of_whole_epochs),
        cmocka_unit_test (test_the_wait_ends_with_the_last_batch),
        cmocka_unit_test (test_a_rank_has_its_part),
        cmocka_unit_test (test_inline_has_the_same_checksum),
        cmocka_unit_test (test_options_reach_the_server),
        cmocka_unit_test (test_seed_and_order),
        cmocka_unit_test (test_a_list_of_ids),
        cmocka_unit_test (test_rate_paces)
    };
    return cmocka_run_group_tests (tests, reading_set_up, reading_tear_down);
}
