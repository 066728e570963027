//  What `tureen status` prints for people of an answer.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "fake_server.h"
#include "reading.h"

#define TASK(STAGE, OPERATION, DATASET, SAMPLE, JOB, TENANT, SECONDS) \
    "{\"stage\":\"" STAGE "\",\"operation\":" OPERATION ",\"dataset\":" DATASET ",\"sample\":" SAMPLE \
    ",\"job\":" JOB ",\"tenant\":" TENANT ",\"seconds\":" SECONDS "}"

static void
s_show (const char *status)
{
    static const char *const none [] = { NULL };
    fake_plan_t plan = { .status = status };
    fake_server_t *fake = fake_new (&plan);
    int code = reading_finish (reading_start_program ("tureen", "status", fake, none));
    if (code)
        fail_msg ("status %d, \"%s\"", code, reading_err);
    fake_destroy (&fake);
}

//  A line each, with what is known.
static void
test_long_tasks (void **state)
{
    (void) state;
    s_show ("{\"version\":\"0.1.0\",\"uptime_seconds\":90.0,\"jobs\":[],\"long_tasks\":["
        TASK ("private", "null", "\"train\"", "17", "5", "\"a\"", "23.4") ","
        TASK ("shared", "\"slow\"", "\"train\"", "0", "null", "null", "11.6") ","
        TASK ("beside", "null", "null", "null", "null", "null", "3600.0") "]}");
    static const char *const lines [] = {
        "\na thread is in one task for 23 s: private stage of sample 17 of data set 'train', for job 5, of "
            "tenant 'a'\n",
        "\na thread is in one task for 12 s: shared stage of sample 0 of data set 'train', with operation "
            "'slow'\n",
        "\na thread is in one task for 3600 s: an explanation, or the ids of a join\n"
    };
    for (size_t index = 0; index < sizeof lines / sizeof *lines; index++)
        if (!strstr (reading_out, lines [index]))
            fail_msg ("no \"%s\" in: %s", lines [index], reading_out);
    s_show ("{\"version\":\"0.1.0\",\"uptime_seconds\":90.0,\"jobs\":[],\"long_tasks\":[]}");
    assert_null (strstr (reading_out, "a thread"));
    s_show ("{\"version\":\"0.0.9\",\"uptime_seconds\":90.0,\"jobs\":[]}");        //  of an older server
    assert_null (strstr (reading_out, "a thread"));
}

#define LEAF(JOB, SIZE, REMAINING) "{\"job\":" JOB ",\"size\":" SIZE ",\"remaining\":" REMAINING "}"

//  Ten jobs, one of them beside the path: a line each, but for those that are too many.
static void
test_trees (void **state)
{
    (void) state;
    static const char rest [] = ",{\"size\":0,\"parent\":1,\"jobs\":5,\"leaf\":" LEAF ("9", "1", "61") "}";
    char status [2000] = "{\"version\":\"0.1.0\",\"uptime_seconds\":90.0,"
        "\"jobs\":[{\"job\":3,\"name\":\"job 9\"}],"
        "\"datasets\":[{\"name\":\"t\",\"samples\":99,\"sharing_trees\":[{\"kept\":false,\"ids\":99,"
        "\"looked_at\":64,\"vertices\":[{\"size\":20,\"parent\":null,\"jobs\":9,"
        "\"leaf\":" LEAF ("3", "7", "27") "},{\"size\":40,\"parent\":0,\"jobs\":8,"
        "\"leaf\":" LEAF ("4", "0", "60") "}";
    for (int job = 0; job < 7; job++)
        strcat (status, rest);
    strcat (status, "],\"off_path\":[{\"job\":5,\"remaining\":2}],"
        "\"pairs\":{\"jobs\":[3,4],\"common\":[[],[19]]}}]}]}");
    s_show (status);
    static const char *const lines [] = {
        "\n  who shares what: samples that 10 jobs still have to draw (no tree is kept; made for this "
            "answer; estimated from 64)\n"
            "    about 20 by all 9 jobs\n"
            "    - job 3 (job 9): 27 to draw, about 7 in its leaf; most with job 4: about 19\n"
            "      about 40 more by all 8 jobs below\n"
            "      - job 4: 60 to draw, about 0 in its leaf; most with job 3: about 19\n"
            "      - job 9: 61 to draw, about 1 in its leaf\n",
        "\n    and 1 more: `tureen status --json`, or the page (serve --http)\n"
            "    beside the tree now, drawing alone: job 5\n"
    };
    for (size_t index = 0; index < sizeof lines / sizeof *lines; index++)
        if (!strstr (reading_out, lines [index]))
            fail_msg ("no \"%s\" in: %s", lines [index], reading_out);
}

//  Of a kept tree only pairs are estimates.  The last vertex is told with its job's leaf, and what is not
//  known is said to be so.
static void
test_two_jobs (void **state)
{
    (void) state;
    static const char status [] = "{\"version\":\"0.1.0\",\"uptime_seconds\":90.0,\"jobs\":[],\"datasets\":["
        "{\"name\":\"t\",\"samples\":99,\"sharing_trees\":[{\"kept\":true,\"ids\":99,\"looked_at\":64,"
        "\"vertices\":[{\"size\":20,\"parent\":null,\"jobs\":2,\"leaf\":" LEAF ("3", "7", "27") "},"
        "{\"size\":40,\"parent\":0,\"jobs\":1,\"leaf\":" LEAF ("4", "1", "61") "}],\"off_path\":[],"
        "\"pairs\":{\"jobs\":[3,4],\"common\":[[],[19]]}},"
        "{\"kept\":false,\"ids\":99,\"looked_at\":64,"
        "\"vertices\":[{\"size\":null,\"parent\":null,\"jobs\":2,\"leaf\":" LEAF ("3", "null", "27") "},"
        "{\"size\":null,\"parent\":0,\"jobs\":1,\"leaf\":" LEAF ("4", "1", "61") "}],\"off_path\":[],"
        "\"pairs\":{\"jobs\":[3,4],\"common\":[[],[null]]}}]}]}";
    s_show (status);
    static const char *const lines [] = {
        " (the tree that draws are made from; pairs estimated from 64)\n"
            "    20 by both jobs\n"
            "    - job 3: 27 to draw, 7 in its leaf; most with job 4: about 19\n"
            "    - job 4: 61 to draw, 41 in its leaf; most with job 3: about 19\n",
        "    not known how many by both jobs\n"
            "    - job 3: 27 to draw, not known how many in its leaf\n"
            "    - job 4: 61 to draw, not known how many in its leaf\n"
    };
    for (size_t index = 0; index < sizeof lines / sizeof *lines; index++)
        if (!strstr (reading_out, lines [index]))
            fail_msg ("no \"%s\" in: %s", lines [index], reading_out);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_long_tasks), cmocka_unit_test (test_trees), cmocka_unit_test (test_two_jobs)
    };
    return cmocka_run_group_tests (tests, reading_set_up, reading_tear_down);
}
