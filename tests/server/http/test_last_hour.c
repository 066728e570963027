//  The last hour: rates from totals, jobs that come and go, what a tenant sees, and that it stays bounded.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <string.h>
#include "last_hour.h"

//  A status with jobs first .. first+count-1; each has consumed so much, and waited half a second of each
//  second for its disk.
static void
s_add (last_hour_t *hour, int64_t second, uint64_t first, size_t count)
{
    json_t *jobs = json_array ();
    for (uint64_t job = first; job < first + count; job++)
        json_array_append_new (jobs, json_pack ("{s:I, s:s, s:s, s:s, s:I, s:{s:f, s:f, s:f, s:f}}", "job",
            (json_int_t) job, "name", "n", "dataset", "train", "tenant", job % 2? "odd": "even",
            "consumed_samples", (json_int_t) (second * 100), "waits", "read", (double) second / 2, "decode",
            0.0, "copy", 0.0, "client", (double) second / 2));
    json_t *status = json_pack ("{s:I, s:I, s:o}", "delivered", (json_int_t) (second * 300), "prepared",
        (json_int_t) (second * 200), "jobs", jobs);
    last_hour_add (hour, status, second * 1000, second * 1000);
    json_decref (status);
}

static double
s_at (const json_t *object, const char *key, size_t index)
{
    const json_t *value = json_array_get (json_object_get (object, key), index);
    return json_is_null (value)? -1: json_number_value (value);
}

static size_t
s_size (const json_t *object, const char *key)
{
    return json_array_size (json_object_get (object, key));
}

static void
rates_and_waits (void **state)
{
    (void) state;
    last_hour_t *hour = last_hour_new ();
    s_add (hour, 5, 1, 2);
    s_add (hour, 10, 1, 2);
    s_add (hour, 20, 2, 2);                     //  1 has gone, and 3 is new
    json_t *all = last_hour_of_all (hour, NULL), *two = last_hour_of_job (hour, NULL, 2),
        *three = last_hour_of_job (hour, NULL, 3);
    assert_int_equal (s_size (all, "times"), 3);
    assert_float_equal (s_at (all, "times", 2), 20, 0);
    assert_float_equal (s_at (all, "delivered", 0), -1, 0);
    assert_float_equal (s_at (all, "delivered", 2), 300, 0.1);
    assert_float_equal (s_at (all, "prepared", 1), 200, 0.1);
    assert_int_equal (s_size (all, "jobs"), 3);
    size_t index;
    json_t *job;
    json_array_foreach (json_object_get (all, "jobs"), index, job)
        assert_int_equal (json_is_true (json_object_get (job, "gone")),
            json_integer_value (json_object_get (job, "job")) == 1);
    assert_float_equal (s_at (two, "consumed", 2), 100, 0.1);
    assert_float_equal (s_at (two, "read", 1), 0.5, 0.001);
    assert_float_equal (s_at (three, "consumed", 0), -1, 0);
    assert_float_equal (s_at (three, "consumed", 2), -1, 0);        //  since when it has these is not known
    assert_null (last_hour_of_job (hour, NULL, 4));
    json_decref (all);
    json_decref (two);
    json_decref (three);
    last_hour_destroy (&hour);
}

//  Must hold: each figure of a job is what its own total grew by, a second, and stands under its own name;
//  the server's are the server's.
static void
each_figure_has_its_name (void **state)
{
    (void) state;
    static const char *const names [] = { "consumed", "draw", "read", "memory", "decode", "copy", "client" };
    last_hour_t *hour = last_hour_new ();
    for (int point = 1; point <= 3; point++) {
        double grown = point * point;           //  a second of the last five: 1, 3/5, 5/5
        json_t *jobs = json_array ();
        for (int job = 1; job <= 2; job++)
            json_array_append_new (jobs, json_pack ("{s:i, s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f}}", "job",
                job, "consumed_samples", 100.0 * job * grown, "waits", "draw", 1.0 * job * grown, "read",
                2.0 * job * grown, "memory", 3.0 * job * grown, "decode", 4.0 * job * grown, "copy",
                5.0 * job * grown, "client", 6.0 * job * grown));
        json_t *status = json_pack ("{s:f, s:f, s:o}", "delivered", 700.0 * grown, "prepared", 900.0 * grown,
            "jobs", jobs);
        last_hour_add (hour, status, 5000 * point, 1000000 + 5000 * point);
        json_decref (status);
    }
    for (int job = 1; job <= 2; job++) {
        json_t *told = last_hour_of_job (hour, NULL, (uint64_t) job);
        for (size_t figure = 0; figure < sizeof names / sizeof *names; figure++) {
            double each = (figure? (double) figure: 100) * job;
            assert_int_equal (s_size (told, names [figure]), 3);
            assert_float_equal (s_at (told, names [figure], 0), -1, 0);
            assert_float_equal (s_at (told, names [figure], 1), each * 3 / 5, 0.001);
            assert_float_equal (s_at (told, names [figure], 2), each, 0.001);
        }
        assert_float_equal (s_at (told, "times", 1), 1010, 0);
        assert_int_equal (json_object_size (told), sizeof names / sizeof *names + 1);
        json_decref (told);
    }
    json_t *all = last_hour_of_all (hour, NULL);
    assert_float_equal (s_at (all, "delivered", 1), 420, 0.1);
    assert_float_equal (s_at (all, "prepared", 2), 900, 0.1);
    json_decref (all);
    last_hour_destroy (&hour);
}

//  Nothing of another tenant, its sums included.
static void
a_tenant_sees_its_own (void **state)
{
    (void) state;
    last_hour_t *hour = last_hour_new ();
    for (int64_t second = 5; second <= 15; second += 5)
        s_add (hour, second, 1, 3);
    json_t *odd = last_hour_of_all (hour, "odd");
    assert_float_equal (s_at (odd, "delivered", 2), 200, 0.1);
    assert_null (json_object_get (odd, "prepared"));
    assert_int_equal (s_size (odd, "jobs"), 2);
    assert_null (last_hour_of_job (hour, "odd", 2));
    json_t *one = last_hour_of_job (hour, "odd", 1);
    assert_non_null (one);
    json_decref (one);
    json_decref (odd);
    json_t *none = last_hour_of_all (hour, "");
    assert_int_equal (s_size (none, "jobs"), 0);
    json_decref (none);
    last_hour_destroy (&hour);
}

//  An hour, and so many jobs: the oldest of those that have gone make room, those that are there do not.
static void
it_is_bounded (void **state)
{
    (void) state;
    last_hour_t *hour = last_hour_new ();
    for (int64_t point = 1; point <= LAST_HOUR_POINTS + 10; point++)
        s_add (hour, 5 * point, (uint64_t) point, 2);
    json_t *all = last_hour_of_all (hour, NULL);
    assert_int_equal (s_size (all, "times"), LAST_HOUR_POINTS);
    assert_float_equal (s_at (all, "times", 0), 55, 0);
    assert_int_equal (s_size (all, "jobs"), LAST_HOUR_JOBS);
    json_decref (all);
    uint64_t newest = LAST_HOUR_POINTS + 11;
    json_t *job = last_hour_of_job (hour, NULL, newest - LAST_HOUR_JOBS + 1);
    assert_non_null (job);
    json_decref (job);
    assert_null (last_hour_of_job (hour, NULL, newest - LAST_HOUR_JOBS));
    s_add (hour, 5 * (int64_t) newest, 1, LAST_HOUR_JOBS + 5);
    all = last_hour_of_all (hour, NULL);
    assert_int_equal (s_size (all, "jobs"), LAST_HOUR_JOBS);
    json_decref (all);
    last_hour_destroy (&hour);
}

//  A long name is cut where a letter ends: half a letter would be no JSON.
static void
names_are_cut_between_letters (void **state)
{
    (void) state;
    last_hour_t *hour = last_hour_new ();
    char long_name [160], whole [127];
    memset (long_name, 'n', sizeof long_name);
    memcpy (long_name + 126, "\xc3\xa9", 2);    //  127 bytes are kept
    long_name [sizeof long_name - 1] = 0;
    memset (whole, 'n', 126);
    whole [126] = 0;
    json_t *status = json_pack ("{s:[{s:i, s:s, s:s, s:s}]}", "jobs", "job", 1, "name", "caf\xc3\xa9",
        "dataset", long_name, "tenant", "t");
    last_hour_add (hour, status, 1000, 1000);
    json_decref (status);
    json_t *all = last_hour_of_all (hour, NULL);
    const json_t *job = json_array_get (json_object_get (all, "jobs"), 0);
    assert_non_null (job);
    assert_string_equal (json_string_value (json_object_get (job, "name")), "caf\xc3\xa9");
    assert_string_equal (json_string_value (json_object_get (job, "dataset")), whole);
    json_decref (all);
    last_hour_destroy (&hour);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (rates_and_waits), cmocka_unit_test (each_figure_has_its_name),
        cmocka_unit_test (a_tenant_sees_its_own), cmocka_unit_test (it_is_bounded),
        cmocka_unit_test (names_are_cut_between_letters)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
