/*  Side jobs between the broker, which counts them, and the workers: each tenant's in their order, each paid
 *  for by its own, and none lost at the end.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "side_jobs.h"
#include "tenant.h"

enum { TENANTS = 3, JOBS_MAX = 12 };

//  ---- the broker and the workers

//  Stand for tenants.
static char s_tenants [TENANTS];

static struct {
    int waits [TENANTS];                //  as the broker counts them
    uint64_t paid_us [TENANTS], paid_ns [TENANTS];
    side_task_t *running [JOBS_MAX];
    size_t running_count;
    side_task_t *done;
} s_made_up;

static tenant_t *
s_tenant (int number)
{
    return (tenant_t *) (void *) &s_tenants [number];
}

static size_t
s_number (const tenant_t *tenant)
{
    return (size_t) ((const char *) (const void *) tenant - s_tenants);
}

void
tenant_side_task_waits (broker_t *self, tenant_t *tenant)
{
    assert_null (self);
    s_made_up.waits [s_number (tenant)]++;
}

void
tenant_side_task_took (broker_t *self, const tenant_t *tenant, uint32_t charged_us, uint64_t worker_ns)
{
    assert_null (self);
    s_made_up.paid_us [s_number (tenant)] += charged_us;
    s_made_up.paid_ns [s_number (tenant)] += worker_ns;
}

void
tenant_side_task_gives_up (broker_t *self, tenant_t *tenant)
{
    assert_null (self);
    s_made_up.waits [s_number (tenant)]--;
}

void
tasks_run (tasks_t *self, side_task_t *side_task)
{
    assert_null (self);
    s_made_up.running [s_made_up.running_count++] = side_task;
}

side_task_t *
tasks_side_task_done (tasks_t *self)
{
    assert_null (self);
    side_task_t *side_task = s_made_up.done;
    if (side_task)
        s_made_up.done = side_task->next;
    return side_task;
}

//  ---- jobs

typedef struct {
    side_job_t side_job;
    int answers;                        //  how often it was told its end
    bool was_done;
} asked_t;

static void
s_done (side_job_t *side_job, bool was_done)
{
    asked_t *one = (asked_t *) side_job;
    one->answers++;
    one->was_done = was_done;
}

static void
s_add (side_jobs_t *jobs, asked_t *one, int tenant)
{
    *one = (asked_t) { .side_job = { .done = s_done } };
    side_jobs_add (jobs, s_tenant (tenant), &one->side_job);
}

//  The broker lets the tenant's oldest begin: this one.
static void
s_assert_starts (side_jobs_t *jobs, int tenant, asked_t *one, uint32_t charged_us)
{
    s_made_up.waits [tenant]--;
    side_jobs_start (jobs, s_tenant (tenant), charged_us);
    assert_ptr_equal (s_made_up.running [s_made_up.running_count - 1], &one->side_job.side_task);
}

//  Workers have finished what runs, or have been stopped before.
static void
s_finish (bool was_done)
{
    while (s_made_up.running_count > 0) {
        side_task_t *side_task = s_made_up.running [--s_made_up.running_count];
        side_task->was_done = was_done;
        side_task->worker_ns = 1000;
        side_task->next = s_made_up.done;
        s_made_up.done = side_task;
    }
}

static side_jobs_t *
s_begin (void)
{
    s_made_up.running_count = 0;
    s_made_up.done = NULL;
    for (int tenant = 0; tenant < TENANTS; tenant++)
        s_made_up.paid_us [tenant] = s_made_up.paid_ns [tenant] = 0;
    side_jobs_t *jobs = side_jobs_new (NULL, NULL);
    assert_non_null (jobs);
    return jobs;
}

//  Must hold: whichever tenant's turn it is, its oldest begins; first, last and in between.
static void
each_tenants_come_in_order (void **state)
{
    (void) state;
    side_jobs_t *jobs = s_begin ();
    asked_t asked [7];
    static const int tenants [7] = { 0, 1, 0, 2, 1, 0, 2 };
    for (int index = 0; index < 6; index++)
        s_add (jobs, &asked [index], tenants [index]);
    s_assert_starts (jobs, 1, &asked [1], 10);
    s_assert_starts (jobs, 0, &asked [0], 20);
    s_assert_starts (jobs, 0, &asked [2], 30);
    s_assert_starts (jobs, 0, &asked [5], 40);            //  the last of all
    s_add (jobs, &asked [6], tenants [6]);
    s_assert_starts (jobs, 2, &asked [3], 50);
    s_assert_starts (jobs, 2, &asked [6], 60);
    s_assert_starts (jobs, 1, &asked [4], 70);            //  the only one
    s_finish (true);
    side_jobs_collect (jobs, false);
    for (int index = 0; index < 7; index++)
        assert_true (asked [index].answers == 1 && asked [index].was_done);
    //  Each pays for its own.
    static const uint64_t paid_us [TENANTS] = { 90, 80, 110 }, paid_ns [TENANTS] = { 3000, 2000, 2000 };
    for (int tenant = 0; tenant < TENANTS; tenant++) {
        assert_int_equal (s_made_up.paid_us [tenant], paid_us [tenant]);
        assert_int_equal (s_made_up.paid_ns [tenant], paid_ns [tenant]);
        assert_int_equal (s_made_up.waits [tenant], 0);
    }
    side_jobs_destroy (&jobs);
    assert_null (jobs);
}

//  Must hold: at the end each is told once whether it was done; what waits is taken from the broker's count.
static void
the_end_answers_all (void **state)
{
    (void) state;
    side_jobs_t *jobs = s_begin ();
    asked_t asked [4];
    for (int index = 0; index < 4; index++)
        s_add (jobs, &asked [index], index % 2);
    s_assert_starts (jobs, 0, &asked [0], 10);
    s_finish (true);
    s_assert_starts (jobs, 1, &asked [1], 10);
    s_finish (false);
    side_jobs_collect (jobs, true);
    for (int index = 0; index < 4; index++) {
        assert_int_equal (asked [index].answers, 1);
        assert_int_equal (asked [index].was_done, index == 0);
    }
    assert_int_equal (s_made_up.waits [0], 0);
    assert_int_equal (s_made_up.waits [1], 0);
    side_jobs_destroy (&jobs);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (each_tenants_come_in_order),
        cmocka_unit_test (the_end_answers_all),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
