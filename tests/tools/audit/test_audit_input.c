//  Files of recorded ids: what is taken, what is refused and in which words, and memory that runs out.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "audit.h"
#include "scratch.h"

FAULT_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT_CALL (void *, NULL, reallocarray, (void *data, size_t count, size_t size), (data, count, size))
FAULT_CALL (char *, NULL, strdup, (const char *text), (text))

static bool
s_read (audit_t *audit, const char *text, size_t size, char error [256])
{
    *error = 0;
    FILE *file = fmemopen ((void *) text, size, "r");
    assert_non_null (file);
    bool fine = audit_input_ids (audit, "job.ids", file, error, 256);
    fclose (file);
    return fine;
}

//  --------------------------------------------------------------------------

//  What is in it: epochs, of them unfinished, samples.
static void
s_assert_taken (const char *text, size_t epochs, size_t unfinished, uint64_t samples)
{
    char error [256];
    audit_t *audit = audit_new (0);
    assert_non_null (audit);
    if (!s_read (audit, text, strlen (text), error))
        fail_msg ("'%s': %s", text, error);
    assert_int_equal (audit_run (audit), 0);
    assert_int_equal (audit_job (audit, 0)->epochs, epochs);
    assert_int_equal (audit_job (audit, 0)->unfinished, unfinished);
    assert_int_equal (audit_job (audit, 0)->samples, samples);
    audit_destroy (&audit);
}

static void
test_what_read_writes_is_taken (void **state)
{
    (void) state;
    s_assert_taken ("0: 5 17 3\n", 1, 0, 3);
    s_assert_taken ("0: 5 17 3\n1: 3 5 17\n", 2, 0, 3);
    s_assert_taken ("0: 5 17 3\n1: 3 ...\n", 1, 1, 3);
    s_assert_taken ("3:\n4: 1 2\n", 2, 0, 2);
    s_assert_taken ("0: 4294967294\n", 1, 0, 1);
}

static void
test_the_end_may_be_cut (void **state)
{
    (void) state;
    s_assert_taken ("0: 5 17 3\n1: 3 5", 1, 1, 3);
    //  The last number may be half of one: it is left out, so that 1 is no foreign id.
    s_assert_taken ("0: 5 17 3\n1: 3 1", 1, 1, 3);
    s_assert_taken ("0: 5 17 3\n1: 3 5 ", 1, 1, 3);
    s_assert_taken ("0: 5 17 3\n1: 3 5 .", 1, 1, 3);
    s_assert_taken ("0: 5 17 3\n1: 3 5 ...", 1, 1, 3);
    s_assert_taken ("0: 5 17 3\n1:", 1, 1, 3);
    s_assert_taken ("0: 5 17 3\n1", 1, 0, 3);
    s_assert_taken ("0: 5 17 3\n", 1, 0, 3);
}

static void
test_blanks_do_no_harm (void **state)
{
    (void) state;
    s_assert_taken ("\n\r\n 0 :5\t17  3 \r\n\n1: 3 5 17\r\n \n", 2, 0, 3);
}

//  --------------------------------------------------------------------------

static void
s_assert_refused (const char *text, size_t size, const char *says)
{
    char error [256];
    audit_t *audit = audit_new (0);
    assert_non_null (audit);
    assert_false (s_read (audit, text, size, error));
    if (!strstr (error, says))
        fail_msg ("'%s' does not say '%s'", error, says);
    audit_destroy (&audit);
}

#define REFUSED(text, says) s_assert_refused ("" text, sizeof text - 1, says)

//  File, line and remedy are named.
static void
test_what_is_refused_is_explained (void **state)
{
    (void) state;
    REFUSED ("\n\n", "job.ids: no epoch in it; record a job with `tureen read --ids FILE`");
    REFUSED ("123", "no epoch in it");
    REFUSED ("5 17 3\n", "job.ids:1: unexpected '1': expected `NUMBER: id id id`");
    REFUSED ("0: 5\n\n17\n", "job.ids:3: the line ends too early");
    REFUSED ("0: 5\n1: 5x 3\n", "job.ids:2: unexpected 'x'");
    REFUSED ("0: -5\n", "job.ids:1: unexpected '-'");
    REFUSED ("0: 1,2\n", "job.ids:1: unexpected ','");
    REFUSED ("0: 1 \0 2\n", "job.ids:1: unexpected byte 0x00");
    REFUSED ("0: 1 \x1b[2J\n", "job.ids:1: unexpected byte 0x1b");
    REFUSED ("0: 1 ... 2\n", "job.ids:1: unexpected '2'");
    REFUSED ("0: 1...\n", "job.ids:1: unexpected '.'");
    REFUSED ("0: 1 ..\n", "job.ids:1: the line ends too early");
    REFUSED ("0: 1\n0: 1\n", "job.ids:2: epoch 0 after epoch 0: a file holds one job");
    REFUSED ("3: 1\n1: 1\n", "job.ids:2: epoch 1 after epoch 3");
    REFUSED ("0: 4294967295\n", "job.ids:1: an id above 4294967294");
    REFUSED ("0: 99999999999999999999999999\n", "job.ids:1: an id above 4294967294");
    REFUSED ("9223372036854775808: 1\n", "job.ids:1: an epoch's number above 9223372036854775807");
}

static void
test_a_directory_is_refused (void **state)
{
    (void) state;
    char error [256] = "";
    audit_t *audit = audit_new (0);
    FILE *file = fopen ("/", "r");
    assert_non_null (audit);
    assert_non_null (file);
    assert_false (audit_input_ids (audit, "/", file, error, sizeof error));
    assert_string_equal (error, "/: a folder, not a file of ids");
    fclose (file);
    audit_destroy (&audit);
}

//  A message that does not fit is cut, not written past its end.
static void
test_a_long_name_is_cut (void **state)
{
    (void) state;
    char name [400], error [64];
    memset (name, 'n', sizeof name);
    name [sizeof name - 1] = 0;
    memset (error, 'x', sizeof error);
    audit_t *audit = audit_new (0);
    FILE *file = fmemopen ((void *) "x", 1, "r");
    assert_non_null (audit);
    assert_non_null (file);
    assert_false (audit_input_ids (audit, name, file, error, 32));
    assert_int_equal (strlen (error), 31);
    assert_int_equal (error [32], 'x');
    fclose (file);
    audit_destroy (&audit);
}

//  --------------------------------------------------------------------------
//  Groups

static bool
s_read_groups (audit_input_groups_t *grouping, const char *text, size_t size, char error [256])
{
    *error = 0;
    FILE *file = fmemopen ((void *) text, size, "r");
    assert_non_null (file);
    bool fine = audit_input_groups (grouping, "groups", file, error, 256);
    fclose (file);
    return fine;
}

static void
test_groups_are_read (void **state)
{
    (void) state;
    static const char text [] = "7 cats\n\n \t3\tdogs \r\n4294967294 cats\n0 fish";
    char error [256];
    audit_input_groups_t grouping;
    assert_true (s_read_groups (&grouping, text, sizeof text - 1, error));
    static const struct { uint32_t id; const char *group;
        } expected [] = { { 0, "fish" }, { 3, "dogs" }, { 7, "cats" },
        { 4294967294, "cats" } };
    assert_int_equal (grouping.count, 4);
    assert_int_equal (grouping.group_count, 3);
    for (size_t index = 0; index < 4; index++) {
        assert_int_equal (grouping.members [index].id, expected [index].id);
        assert_string_equal (grouping.names [grouping.members [index].group], expected [index].group);
    }
    audit_input_clear (&grouping);
    assert_null (grouping.members);
}

static void
s_assert_groups_refused (const char *text, size_t size, const char *says)
{
    char error [256];
    audit_input_groups_t grouping;
    assert_false (s_read_groups (&grouping, text, size, error));
    if (!strstr (error, says))
        fail_msg ("'%s' does not say '%s'", error, says);
    assert_null (grouping.members);
    assert_null (grouping.names);
}

#define GROUPS_REFUSED(text, says) s_assert_groups_refused ("" text, sizeof text - 1, says)

static void
test_groups_that_are_refused (void **state)
{
    (void) state;
    char wide [400];
    memset (wide, 'w', sizeof wide);
    wide [0] = '1';
    wide [1] = ' ';
    GROUPS_REFUSED ("\n \n", "groups: no sample in it; write a line for each, `ID GROUP`");
    GROUPS_REFUSED ("0 a\ncats 3\n",
        "groups:2: expected a sample's id, 0 to 4294967294, and the name of its group");
    GROUPS_REFUSED ("-1 a\n", "groups:1: expected a sample's id");
    GROUPS_REFUSED ("3x a\n", "groups:1: expected a sample's id");
    GROUPS_REFUSED ("4294967295 a\n", "groups:1: expected a sample's id");
    GROUPS_REFUSED ("99999999999999999999999 a\n", "groups:1: expected a sample's id");
    GROUPS_REFUSED ("0 a\n17\n", "groups:2: sample 17 has no group; write `17 NAME`, or leave its line out");
    GROUPS_REFUSED ("0 a b\n", "groups:1: expected an id and one word");
    GROUPS_REFUSED ("0 a\0b\n1 a\n", "groups:1: expected an id and one word");
    GROUPS_REFUSED ("5 a\n1 b\n5 b\n",
        "groups:3: sample 5 has a group already, in line 1: leave one of them out");
    s_assert_groups_refused (wide, sizeof wide, "groups:1: expected an id and one word");
    wide [300] = '\n';
    s_assert_groups_refused (wide, 301, "groups:1: a group's name has at most 255 bytes");
}

//  Neighbours in an order, the last few of which are fewer.
static void
test_an_order_is_cut (void **state)
{
    (void) state;
    static const uint32_t order [] = { 4, 2, 0, 1, 3 }, groups [] = { 1, 1, 0, 2, 0 };
    audit_input_groups_t grouping;
    assert_true (audit_input_chunks (&grouping, order, 5, 2));
    assert_int_equal (grouping.count, 5);
    assert_int_equal (grouping.group_count, 3);
    assert_string_equal (grouping.names [2], "chunk 2");
    for (uint32_t id = 0; id < 5; id++) {
        assert_int_equal (grouping.members [id].id, id);
        assert_int_equal (grouping.members [id].group, groups [id]);
    }
    audit_input_clear (&grouping);
}

//  --------------------------------------------------------------------------

//  Two jobs of three epochs of ascending ids: every kind of allocation there is.
static char *
s_two_hundred_ids (void)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream (&text, &size);
    assert_non_null (file);
    for (int epoch = 0; epoch < 3; epoch++) {
        fprintf (file, "%d:", epoch);
        for (int id = 0; id < 200; id++)
            fprintf (file, " %d", id * 3 + (id == epoch));
        fputs (epoch == 2? " ...\n": "\n", file);
    }
    fclose (file);
    return text;
}

//  With groups of two samples, two of all that there are.
static bool
s_add_groups (audit_t *audit, audit_input_groups_t *grouping, audit_input_groups_t *cut)
{
    char text [2000] = "", error [256];
    uint32_t *order = calloc (200, sizeof *order);
    for (uint32_t id = 0; id < 200; id++)
        sprintf (text + strlen (text), "%u g%u\n", id, id / 2);
    bool fine = order && s_read_groups (grouping, text, strlen (text), error)
        && audit_input_chunks (cut, order, 200, 64);
    free (order);
    if (fine)
        audit_set_groups (audit, &grouping->members, grouping->count, (const char *const *) grouping->names,
            grouping->group_count);
    return fine;
}

static bool
s_read_and_run (const char *text)
{
    char error [256];
    audit_input_groups_t grouping = { .count = 0 }, cut = { .count = 0 };
    audit_t *audit = audit_new (0);
    bool fine = audit && s_add_groups (audit, &grouping, &cut) && s_read (audit, text, strlen (text), error)
        && s_read (audit, text, strlen (text), error) && audit_run (audit) == 0;
    if (fine)
        assert_true (audit_fault_count (audit) > 0);
    audit_destroy (&audit);
    audit_input_clear (&grouping);
    audit_input_clear (&cut);
    return fine;
}

//  Fails every allocation in turn: a status comes back, nothing is lost (the sanitizers look).
static void
test_memory_may_run_out_anywhere (void **state)
{
    (void) state;
    char *text = s_two_hundred_ids ();
    for (int forever = 0; forever < 2; forever++) {
        unsigned nth = 0;
        bool struck = true;
        while (struck) {
            fault_arm (++nth, ENOMEM, forever);
            bool fine = s_read_and_run (text);
            struck = fault_disarm ();
            if (fine == struck)
                fail_msg ("allocation %u of all: %s", nth, fine? "its failure went unseen":
                    "failed by itself");
        }
        assert_true (nth > 30);
    }
    free (text);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_what_read_writes_is_taken), cmocka_unit_test (test_the_end_may_be_cut),
        cmocka_unit_test (test_blanks_do_no_harm), cmocka_unit_test (test_what_is_refused_is_explained),
        cmocka_unit_test (test_a_directory_is_refused), cmocka_unit_test (test_a_long_name_is_cut),
        cmocka_unit_test (test_groups_are_read), cmocka_unit_test (test_groups_that_are_refused),
        cmocka_unit_test (test_an_order_is_cut),
        cmocka_unit_test (test_memory_may_run_out_anywhere)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
