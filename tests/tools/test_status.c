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

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_long_tasks) };
    return cmocka_run_group_tests (tests, reading_set_up, reading_tear_down);
}
