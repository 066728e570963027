//  What the audit must find of groups of samples that come late, and what it must leave alone.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "audit.h"
#include "findings.h"
#include "orders.h"
#include "planted.h"

static const char *const s_group_names [] = { "cats", "dogs", "last" };

//  Half and half by a mix of their ids, but for the last few.
static uint32_t
s_group_of (uint32_t id, size_t samples, size_t few)
{
    return id + few >= samples? 2: id * 2654435761u >> 31;
}

//  Its ids become multiples of step.
static audit_t *
s_audit_groups (planted_t *self, size_t few, uint32_t step)
{
    audit_t *audit = audit_new (0);
    audit_member_t *members = calloc (self->samples, sizeof *members);
    assert_non_null (audit);
    assert_non_null (members);
    for (uint32_t id = 0; id < self->samples; id++)
        members [id] = (audit_member_t) { step * id, s_group_of (id, self->samples, few) };
    planted_spread (self, 0, step);
    audit_set_groups (audit, &members, self->samples, s_group_names, 3);
    planted_add (audit, self, "planted");
    assert_int_equal (audit_run (audit), 0);
    return audit;
}

//  Each of the last few samples that is in the first half changes places with one in the second, in half of
//  all cases.
static void
s_delay (planted_t *job, size_t few)
{
    for (unsigned epoch = 0; epoch < job->epochs; epoch++)
        for (size_t place = 0; place < job->samples / 2; place++)
            if (job->ids [epoch] [place] + few >= job->samples && test_below (&job->random, 2))
                orders_swap (job->ids [epoch], place,
                    job->samples / 2 + test_below (&job->random, job->samples / 2));
}

//  One group of many, small, and its samples only a third as often early as late; and one that is always
//  late, at the least size.  Of the first 1 in 10 million is missed (Student's t is 23.5 on average, of
//  which 10 are needed), of the other none.  Its ids are neighbours, so the order depends on ids too, found
//  or not.
static void
test_a_group_that_comes_late (void **state)
{
    (void) state;
    for (uint32_t step = 1; step <= 7; step += 6) {
        planted_t job = planted_new (SAMPLES, EPOCHS);
        s_delay (&job, 200);
        audit_t *audit = s_audit_groups (&job, 200, step);
        planted_found (audit, AUDIT_GROUP, 0, 0,
            "the samples of group 'last' come later than others, over 12 epochs together (mean place in an "
            "epoch 0.6");
        audit_destroy (&audit);
    }
    planted_t job = planted_new (AUDIT_GROUPS_LEAST, EPOCHS);
    for (unsigned epoch = 0; epoch < EPOCHS; epoch++)
        orders_put_last (&job.random, job.ids [epoch], AUDIT_GROUPS_LEAST, 2);
    audit_t *audit = s_audit_groups (&job, 2, 1);
    assert_non_null (findings_find (audit, AUDIT_GROUP));
    audit_destroy (&audit);
}

//  Of two epochs p is known: Student's law with one degree.  The group of one sample is at places 19 and 15
//  of 20, and t is their sum's distance from the middle by their own: (9.5 + 5.5) / (19 - 15).
static void
test_the_p_of_a_group_in_two_epochs (void **state)
{
    (void) state;
    static const size_t places [] = { 19, 15 };
    planted_t job = planted_new (AUDIT_GROUPS_LEAST, 2);
    for (unsigned epoch = 0; epoch < 2; epoch++)
        for (size_t at = AUDIT_GROUPS_LEAST; at-- > 0;)
            if (job.ids [epoch] [at] == 0 && at != places [epoch])
                orders_swap (job.ids [epoch], at, places [epoch]);
    audit_t *audit = audit_new (0);
    audit_member_t *members = calloc (1, sizeof *members);
    assert_non_null (audit);
    assert_non_null (members);
    audit_set_groups (audit, &members, 1, s_group_names, 1);
    planted_add (audit, &job, "planted");
    assert_int_equal (audit_run (audit), 0);
    size_t found = 0;
    for (size_t index = 0; index < audit_test_count (audit); index++)
        if (audit_test (audit, index)->kind == AUDIT_GROUP) {
            assert_true (fabs (audit_test (audit, index)->p - (1 - 2 * atan (15.0 / 4) / M_PI)) < 1e-9);
            found++;
        }
    assert_int_equal (found, 1);
    audit_destroy (&audit);
}

//  Groups that are read together come together, now early and now late: that favours none.
static void
test_groups_that_keep_together_are_no_fault (void **state)
{
    (void) state;
    planted_t job = planted_new (1000, EPOCHS);
    for (unsigned epoch = 0; epoch < EPOCHS; epoch++) {
        uint32_t *mixed = orders_copy (job.ids [epoch], 1000);
        size_t count = 0;
        bool early = test_below (&job.random, 2);
        for (int half = 0; half < 2; half++)
            for (size_t place = 0; place < 1000; place++)
                if ((s_group_of (mixed [place], 1000, 40) == 0) == (early == (half == 0)))
                    job.ids [epoch] [count++] = mixed [place];
        assert_int_equal (count, 1000);
        free (mixed);
    }
    audit_t *audit = s_audit_groups (&job, 40, 1);
    findings_print (audit);
    assert_null (findings_find (audit, AUDIT_GROUP));
    audit_destroy (&audit);
}

//  Nothing of the data is in a group, or all of it in one; or there is one epoch only.
static void
test_groups_that_cannot_be_tested (void **state)
{
    (void) state;
    for (int what = 0; what < 3; what++) {
        planted_t job = planted_new (1000, what == 2? 1: 2);
        audit_t *audit = audit_new (0);
        audit_member_t *members = calloc (1000, sizeof *members);
        assert_non_null (audit);
        assert_non_null (members);
        for (uint32_t id = 0; id < 1000; id++)
            members [id] = (audit_member_t) { what == 0? id + 1000: id, what == 2? id % 2: 0 };
        audit_set_groups (audit, &members, 1000, s_group_names, 3);
        planted_add (audit, &job, "planted");
        assert_int_equal (audit_run (audit), 0);
        planted_only (audit, AUDIT_UNTESTED, 0, 0, "where groups come: that needs two finished epochs");
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_group_that_comes_late),
        cmocka_unit_test (test_the_p_of_a_group_in_two_epochs),
        cmocka_unit_test (test_groups_that_keep_together_are_no_fault),
        cmocka_unit_test (test_groups_that_cannot_be_tested)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
