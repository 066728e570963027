/*  test_loops -- the level of the inner loops.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "loops.h"

//  The level that is chosen is one that the machine has.
static void
test_level_is_there (void **state)
{
    (void) state;
    assert_true (loops_has (LOOPS_PORTABLE));
    unsetenv ("TUREEN_SIMD");
    assert_true (loops_has (loops_level ()));
    //  What the processor can do was built, too.
#ifdef __x86_64__
    assert_int_equal (loops_has (LOOPS_AVX2), __builtin_cpu_supports ("avx2")
        && __builtin_cpu_supports ("fma") && __builtin_cpu_supports ("bmi2"));
#endif
    for (loops_level_t level = LOOPS_PORTABLE; level < LOOPS_LEVELS; level++)
        assert_true (!loops_has (level) || level <= loops_level ());
}

//  What the machine can do is used; the environment can keep to portable loops, and is looked at each time.
static void
test_environment_keeps_to_portable (void **state)
{
    (void) state;
    unsetenv ("TUREEN_SIMD");
    loops_level_t best = loops_level ();
    assert_true ((loops_chosen () == &loops_portable) == (best == LOOPS_PORTABLE));
    setenv ("TUREEN_SIMD", "portable", 1);
    assert_int_equal (loops_level (), LOOPS_PORTABLE);
    assert_ptr_equal (loops_chosen (), &loops_portable);
    setenv ("TUREEN_SIMD", "", 1);
    assert_int_equal (loops_level (), best);
    unsetenv ("TUREEN_SIMD");
    assert_int_equal (loops_level (), best);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_level_is_there),
        cmocka_unit_test (test_environment_keeps_to_portable),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
