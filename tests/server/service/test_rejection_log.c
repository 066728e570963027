/*  What the log says of refusals: the first at once, those after it once a second, none of them lost.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "rejection_log.h"
#include "tenant.h"

enum { NOW_MS = 1000000, A = 1, B = 2 };

typedef struct {
    log_t log;
    char text [8192];
    rejection_log_t *rejections;
} scene_t;

static int
s_setup (void **state)
{
    static scene_t scene;
    scene.log = (log_t) { .descriptor = open ("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) };
    scene.rejections = rejection_log_new (&scene.log);
    *state = &scene;
    return scene.log.descriptor >= 0 && scene.rejections? 0: -1;
}

static int
s_teardown (void **state)
{
    scene_t *scene = *state;
    rejection_log_destroy (&scene->rejections);
    close (scene->log.descriptor);
    return scene->rejections? -1: 0;
}

static void
s_add (scene_t *scene, uint32_t tenant, const char *code, const char *message, int64_t now_ms)
{
    rejection_log_one_t one = { .tenant = tenant, .name = tenant == A? "a": "b", .user = 40 + tenant,
        .code = code, .message = message };
    rejection_log_add (scene->rejections, &one, now_ms);
}

//  How many lines there are, and that the last one ends so.
static size_t
s_lines (scene_t *scene, const char *end)
{
    size_t lines = 0;
    ssize_t size = pread (scene->log.descriptor, scene->text, sizeof scene->text - 1, 0);
    scene->text [size > 0? size: 0] = 0;
    for (const char *at = scene->text; (at = strchr (at, '\n')); at++)
        lines++;
    size_t length = strlen (end);
    if ((size_t) size < length || strcmp (scene->text + size - length, end) != 0)
        fail_msg ("the log ends so: '%s', not '%s'", scene->text, end);
    return lines;
}

//  Must hold: those within a second of a line are told together when it is over, with their number and the
//  last one's user and message, and then no more.
static void
a_line_a_second (void **state)
{
    scene_t *scene = *state;
    static const char first [] = " notice refused tenant=a code=busy user=41 times=1: one\n",
        others [] = " notice refused tenant=a code=busy user=41 times=2: three\n",
        last [] = " notice refused tenant=a code=busy user=41 times=1: four\n";
    s_add (scene, A, "busy", "one", NOW_MS);
    assert_int_equal (s_lines (scene, first), 1);
    s_add (scene, A, "busy", "two", NOW_MS + 1);
    s_add (scene, A, "busy", "three", NOW_MS + 500);
    rejection_log_beat (scene->rejections, NOW_MS + REJECTION_LOG_TELL_MS - 1);
    assert_int_equal (s_lines (scene, first), 1);
    rejection_log_beat (scene->rejections, NOW_MS + REJECTION_LOG_TELL_MS);
    assert_int_equal (s_lines (scene, others), 2);
    rejection_log_beat (scene->rejections, NOW_MS + 10 * REJECTION_LOG_TELL_MS);
    assert_int_equal (s_lines (scene, others), 2);
    s_add (scene, A, "busy", "four", NOW_MS + 20 * REJECTION_LOG_TELL_MS);
    assert_int_equal (s_lines (scene, last), 3);
    rejection_log_beat (scene->rejections, NOW_MS + 30 * REJECTION_LOG_TELL_MS);
    assert_int_equal (s_lines (scene, last), 3);
}

//  Must hold: the line that tells several begins a second, too.
static void
a_line_of_several_counts (void **state)
{
    scene_t *scene = *state;
    s_add (scene, A, "busy", "one", NOW_MS);
    s_add (scene, A, "busy", "two", NOW_MS + 1);
    rejection_log_beat (scene->rejections, NOW_MS + REJECTION_LOG_TELL_MS);
    s_add (scene, A, "busy", "three", NOW_MS + REJECTION_LOG_TELL_MS + 1);
    rejection_log_beat (scene->rejections, NOW_MS + 2 * REJECTION_LOG_TELL_MS - 1);
    assert_int_equal (s_lines (scene, " times=1: two\n"), 2);
    rejection_log_beat (scene->rejections, NOW_MS + 2 * REJECTION_LOG_TELL_MS);
    assert_int_equal (s_lines (scene, " times=1: three\n"), 3);
}

//  Must hold: one that comes late, behind others that are not told yet, is told with them and not before.
static void
their_order_is_kept (void **state)
{
    scene_t *scene = *state;
    s_add (scene, A, "busy", "one", NOW_MS);
    s_add (scene, A, "busy", "two", NOW_MS + 10);
    s_add (scene, A, "busy", "three", NOW_MS + 5000);
    assert_int_equal (s_lines (scene, " times=1: one\n"), 1);
    rejection_log_beat (scene->rejections, NOW_MS + 5000);
    assert_int_equal (s_lines (scene, " times=2: three\n"), 2);
}

static void
s_assert_count (const scene_t *scene, uint32_t tenant, const char *code, json_int_t count)
{
    json_t *status = rejection_log_status (scene->rejections, tenant);
    assert_int_equal (json_integer_value (json_object_get (status, code)), count);
    assert_int_equal (json_object_get (status, code) != NULL, count > 0);
    json_decref (status);
}

//  Must hold: a flood of one code, or of one tenant, hides no other; each is counted for itself.
static void
codes_and_tenants_are_apart (void **state)
{
    scene_t *scene = *state;
    for (int count = 0; count < 100; count++)
        s_add (scene, A, "busy", "flood", NOW_MS);
    s_add (scene, A, "budget", "dear", NOW_MS + 1);
    assert_int_equal (s_lines (scene, " tenant=a code=budget user=41 times=1: dear\n"), 2);
    s_add (scene, B, "busy", "too many", NOW_MS + 2);
    assert_int_equal (s_lines (scene, " tenant=b code=busy user=42 times=1: too many\n"), 3);
    rejection_log_one_t stranger = { .tenant = REJECTION_LOG_NOBODY, .user = BROKER_USER_UNKNOWN,
        .code = "revoked", .message = "no more" };
    rejection_log_add (scene->rejections, &stranger, NOW_MS + 3);
    assert_int_equal (s_lines (scene, " notice refused code=revoked times=1: no more\n"), 4);
    rejection_log_beat (scene->rejections, NOW_MS + 5000);
    assert_int_equal (s_lines (scene, " tenant=a code=busy user=41 times=99: flood\n"), 5);
    s_assert_count (scene, A, "busy", 100);
    s_assert_count (scene, A, "budget", 1);
    s_assert_count (scene, A, "revoked", 0);
    s_assert_count (scene, B, "busy", 1);
    s_assert_count (scene, REJECTION_LOG_NOBODY, "revoked", 1);
    s_assert_count (scene, REJECTION_LOG_LINES_MAX, "busy", 101);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (a_line_a_second, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown (a_line_of_several_counts, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown (their_order_is_kept, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown (codes_and_tenants_are_apart, s_setup, s_teardown),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
