//  The memory that a large buffer leaves to what cannot be refused.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <cmocka.h>
#include "machine.h"

//  What machine_keep_headroom and machine_leave_headroom say under a limit.  Nothing else asks for memory
//  meanwhile.
typedef struct {
    void *kept;
    bool is_left;
} answer_t;

static answer_t
s_under (bool is_data, rlim_t bytes, void *memory)
{
    struct rlimit before, limit;
    assert_int_equal (is_data? getrlimit (RLIMIT_DATA, &before): getrlimit (RLIMIT_AS, &before), 0);
    limit = (struct rlimit) { bytes, before.rlim_max };
    assert_int_equal (is_data? setrlimit (RLIMIT_DATA, &limit): setrlimit (RLIMIT_AS, &limit), 0);
    answer_t answer = { machine_keep_headroom (memory), machine_leave_headroom () };
    assert_int_equal (is_data? setrlimit (RLIMIT_DATA, &before): setrlimit (RLIMIT_AS, &before), 0);
    return answer;
}

static void
test_without_a_limit (void **state)
{
    (void) state;
    void *memory = malloc (1000);
    answer_t answer = s_under (true, RLIM_INFINITY, memory);
    assert_ptr_equal (answer.kept, memory);
    assert_true (answer.is_left);
    free (memory);
    assert_null (machine_keep_headroom (NULL));
}

static void
test_below_a_limit (void **state)
{
    (void) state;
    for (int is_data = 0; is_data < 2; is_data++) {
        void *memory = malloc (1000);
        //  More than any sanitizer maps, and a limit all the same.
        answer_t answer = s_under (is_data, (rlim_t) 1 << 62, memory);
        assert_ptr_equal (answer.kept, memory);
        assert_true (answer.is_left);
        free (memory);
    }
}

static void
test_at_a_limit (void **state)
{
    (void) state;
    for (int is_data = 0; is_data < 2; is_data++) {
        answer_t answer = s_under (is_data, 4096, malloc (1000));     //  is freed
        assert_null (answer.kept);
        assert_false (answer.is_left);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_without_a_limit),
        cmocka_unit_test (test_below_a_limit),
        cmocka_unit_test (test_at_a_limit)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
