/*  The threads between the broker and the files where descriptors or memory are short: that is waited for,
 *  costs no sample, and does not hold up an end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <limits.h>
#include <stdatomic.h>
#include <cmocka.h>
#include "tasks_scene.h"

//  Neither descriptors nor memory that are short for a while cost a sample.
static void
test_shortages_are_waited_out (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    atomic_store (&tasks_scene_plan.shortages, 9);
    atomic_store (&tasks_scene_plan.poor_preparing, 9);
    atomic_store (&tasks_scene_plan.poor_copies, 9);
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    assert_int_equal (atomic_load (&tasks_scene_plan.shortages)
        + atomic_load (&tasks_scene_plan.poor_preparing) + atomic_load (&tasks_scene_plan.poor_copies), 0);
    tasks_scene_end (&scene);
}

//  However long they last: for seconds, of one sample, over plain files and over a pack.
static void
test_shortages_that_last (void **state)
{
    (void) state;
    for (int packed = 0; packed < 2; packed++) {
        tasks_scene_t scene;
        tasks_scene_begin_over (&scene, packed);
        atomic_store (packed? &tasks_scene_plan.poor_ranges: &tasks_scene_plan.long_shortage, 130);
        atomic_store (&tasks_scene_plan.poor_preparing, 130);
        tasks_scene_run (&scene);
        assert_int_equal (scene.delivered, SAMPLES);
        assert_int_equal (atomic_load (&tasks_scene_plan.long_shortage)
            + atomic_load (&tasks_scene_plan.poor_preparing) + atomic_load (&tasks_scene_plan.poor_ranges),
            0);
        assert_true (tasks_shortages (scene.tasks) > 150);
        tasks_scene_end (&scene);
    }
}

//  A shortage without an end does not delay a caller that wants to end.
static void
test_an_end_in_a_shortage (void **state)
{
    (void) state;
    for (int packed = 0; packed < 2; packed++) {
        tasks_scene_t scene;
        tasks_scene_begin_over (&scene, packed);
        atomic_store (packed? &tasks_scene_plan.poor_ranges: &tasks_scene_plan.shortages, INT_MAX);
        while (tasks_shortages (scene.tasks) < 10)
            tasks_scene_turn_for (&scene, 10);
        assert_int_equal (scene.delivered, 0);
        tasks_scene_end (&scene);
        atomic_store (packed? &tasks_scene_plan.poor_ranges: &tasks_scene_plan.shortages, 0);
    }
}

//  A copy that finds no memory for ever does not hold up the end.
static void
test_an_end_does_not_wait_for_memory (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    atomic_store (&tasks_scene_plan.stalls, -1);
    while (!atomic_load (&tasks_scene_plan.stalled))
        tasks_scene_turn_for (&scene, 10);
    assert_int_equal (scene.delivered, 0);
    tasks_scene_end (&scene);
}

#define CASE(function) cmocka_unit_test_teardown (function, tasks_scene_forget)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        CASE (test_shortages_are_waited_out),
        CASE (test_shortages_that_last),
        CASE (test_an_end_in_a_shortage),
        CASE (test_an_end_does_not_wait_for_memory)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
