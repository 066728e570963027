//  Which name was probably meant.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "suggest.h"

static const char *const s_names [] = { "workers", "cache", "batch", "order", "on-bad", "until-idle",
    "tenant", "tenant-jobs", "rank", "field", "tile" };

static const char *
s_nearest (const char *name)
{
    return suggest_name (name, s_names, sizeof s_names / sizeof *s_names);
}

//  One or two typing errors, a name within a longer one, and a part of a name.
static void
test_what_was_meant (void **state)
{
    (void) state;
    static const char *const cases [] [2] = {
        { "worker", "workers" }, { "wrokers", "workers" }, { "chace", "cache" }, { "oder", "order" },
        { "tenat", "tenant" },
        { "batch-size", "batch" }, { "num-workers", "workers" }, { "tenant-jobs-max", "tenant-jobs" },
        { "until", "until-idle" },
        { "bad", "on-bad" }, { "jobs", "tenant-jobs" }, { "tiel", "tile" }, { "workers", "workers" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const char *nearest = s_nearest (cases [index] [0]);
        if (!nearest || strcmp (nearest, cases [index] [1]))
            fail_msg ("'%s' is taken for '%s', not '%s'", cases [index] [0], nearest? nearest: "(none)",
                cases [index] [1]);
    }
}

static void
test_nothing_is_near (void **state)
{
    (void) state;
    char large [SUGGEST_BYTES_MAX + 2];
    memset (large, 'x', sizeof large - 1);
    large [sizeof large - 1] = 0;
    assert_null (s_nearest (large));
    large [SUGGEST_BYTES_MAX] = 0;
    assert_null (s_nearest (large));
    static const char *const cases [] = { "", "x", "e", "frobnicate", "seed" };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        assert_null (s_nearest (cases [index]));
    assert_null (suggest_name ("x", NULL, 0));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_what_was_meant),
        cmocka_unit_test (test_nothing_is_near)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
