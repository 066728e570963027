//  What `status` adds to what the broker knows: figures of the whole server, each in its place, and which
//  users see them.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "service_play.h"
#include "tenant.h"

typedef struct {
    const char *key, *expected;         //  in JSON; "": any
} told_t;

static void
s_assert_told (const json_t *object, const char *key, const char *expected)
{
    char *told = json_dumps (json_object_get (object, key), JSON_COMPACT | JSON_ENCODE_ANY);
    if (!told || (*expected && strcmp (told, expected) != 0))
        fail_msg ("%s is %s, not %s", key, told? told: "not there", expected);
    free (told);
}

//  What this user is told beyond what the broker tells is this, and no more.
static void
s_assert_added (play_t *play, uint32_t user, const char *tenant, const told_t *told, size_t count)
{
    broker_t *broker = play_broker (play);
    json_t *status = play_status (play, user),
        *of_broker = broker_status (broker, tenant? tenant_named (broker, tenant): NULL, play_now_ms (play));
    for (size_t index = 0; index < count; index++) {
        assert_null (json_object_get (of_broker, told [index].key));
        s_assert_told (status, told [index].key, told [index].expected);
    }
    assert_int_equal (json_object_size (status), json_object_size (of_broker) + count);
    json_decref (status);
    json_decref (of_broker);
}

//  Must hold: each figure of the server stands in its own place, and operators alone see it.
static void
figures_of_the_server (void **state)
{
    (void) state;
    static const told_t all [] = { { "reading", "\"play\"" }, { "draining", "false" }, { "gathering", "[]" },
        { "long_tasks", "[{\"asked_for\":\"all\"}]" }, { "version", "" }, { "devices", "[]" },
        { "remote_workers", "[{\"name\":\"box\"}]" }, { "remote_workers_lost", "6" },
        { "operations", "[]" }, { "reads_max", "9" },
        { "memory", "{\"bytes\":1000,\"mixing_bytes\":300,\"prepared_bytes\":200,\"pins_bytes\":350,"
            "\"pinned_bytes\":82,\"pictures_bytes\":50,\"decoded_bytes\":0}" },
        { "block_cache", "{\"folder\":\"/cache\",\"bytes\":21,\"bytes_max\":22,\"damaged\":23,"
            "\"aside\":true,\"failure\":\"No space left on device\"}" },
        { "cluster", "null" }, { "cpu_seconds", "" }, { "until_idle", "null" }, { "restarts", "3" },
        { "refusals", "{}" }, { "unanswered", "0" }, { "ignored", "0" }, { "strangers", "0" },
        { "waiting_requests", "0" }, { "waiting_request_bytes", "0" }, { "unread_bytes", "0" },
        { "shortages", "5" }, { "log_lines_lost", "0" }, { "descriptors", "{\"open\":31,\"max\":32}" } },
        own [] = { { "reading", "\"play\"" }, { "draining", "false" }, { "gathering", "[]" },
        { "long_tasks", "[{\"asked_for\":\"a\"}]" }, { "version", "" } };
    play_t *play = play_new (true);
    s_assert_added (play, PLAY_ROOT, NULL, all, sizeof all / sizeof *all);
    s_assert_added (play, PLAY_A1, "a", own, sizeof own / sizeof *own);
    broker_drain (play_broker (play));
    json_t *status = play_status (play, PLAY_A1);
    s_assert_told (status, "draining", "true");
    json_decref (status);
    play_destroy (&play);
}

//  Must hold: requests that wait are told to each tenant as its own, and together; when they are answered,
//  none waits.
static void
requests_that_wait (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    for (int is_served = 0; is_served < 2; is_served++) {
        for (uint32_t count = 0; !is_served && count < 5; count++)
            play_say_text (play, 1 + count, count < 3? PLAY_A1: PLAY_B, WIRE_STATUS, 0, 1, "{}");
        if (is_served)
            play_turn (play, 0);
        json_t *status = play_status (play, PLAY_ROOT), *tenants = json_object_get (status, "tenants"),
            *own = play_status (play, PLAY_B);
        s_assert_told (status, "waiting_requests", is_served? "0": "5");
        json_int_t bytes = json_integer_value (json_object_get (status, "waiting_request_bytes"));
        assert_true (is_served? bytes == 0: bytes >= 10 && bytes % 5 == 0);
        static const char *const waiting [] = { "0", "3", "2" };
        for (size_t tenant = 0; tenant < 3; tenant++)
            s_assert_told (json_array_get (tenants, tenant), "waiting_requests",
                is_served? "0": waiting [tenant]);
        s_assert_told (json_object_get (own, "tenant"), "waiting_requests", is_served? "0": "2");
        json_decref (own);
        json_decref (status);
    }
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (figures_of_the_server),
        cmocka_unit_test (requests_that_wait) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
