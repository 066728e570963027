//  Exchange and pool: what goes in comes out, once, and ends cleanly.  Threads only do work; assertions are
//  made here.

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "exchange.h"
#include "pool.h"

typedef struct {
    int number;
    int result;
} task_t;

static bool
s_readable (int descriptor, int timeout_ms)
{
    struct pollfd item = { .fd = descriptor, .events = POLLIN };
    return poll (&item, 1, timeout_ms) == 1;
}

//  Guards: first in first out, full is told, the descriptor is readable exactly while something is there.
static void
s_check_exchange (bool is_polled)
{
    int objects [4];
    exchange_t *exchange = exchange_new (3, is_polled);
    assert_non_null (exchange);
    assert_true (!is_polled || !s_readable (exchange_descriptor (exchange), 0));
    for (int round = 0; round < 5; round++) {
        for (int index = 0; index < 3; index++)
            assert_true (exchange_put (exchange, &objects [index]));
        assert_false (exchange_put (exchange, &objects [3]));
        for (int index = 0; index < 3; index++) {
            assert_true (!is_polled || s_readable (exchange_descriptor (exchange), 0));
            assert_ptr_equal (exchange_try (exchange), &objects [index]);
        }
        assert_true (!is_polled || !s_readable (exchange_descriptor (exchange), 0));
        assert_null (exchange_try (exchange));
    }
    exchange_close (exchange);
    assert_null (exchange_take (exchange));
    exchange_destroy (&exchange);
}

static void
test_exchange_is_a_bounded_queue (void **state)
{
    (void) state;
    s_check_exchange (false);
    s_check_exchange (true);
}

//  Guards: what was put quietly is there, and does not show at the descriptor before it is announced.
static void
test_exchange_announces (void **state)
{
    (void) state;
    int objects [3];
    exchange_t *exchange = exchange_new (3, true);
    assert_non_null (exchange);
    exchange_announce (exchange);
    for (int round = 0; round < 3; round++) {
        assert_false (s_readable (exchange_descriptor (exchange), 0));
        for (size_t index = 0; index < 2; index++)
            assert_true (exchange_put_quietly (exchange, &objects [index]));
        assert_int_equal (exchange_count (exchange), 2);
        assert_false (s_readable (exchange_descriptor (exchange), 0));
        if (round == 0)
            exchange_announce (exchange);
        if (round == 1)
            assert_true (exchange_put (exchange, &objects [2]));
        assert_ptr_equal (exchange_try (exchange), &objects [0]);
        assert_int_equal (s_readable (exchange_descriptor (exchange), 0), round < 2);
        while (exchange_try (exchange));
        assert_int_equal (exchange_count (exchange), 0);
    }
    exchange_destroy (&exchange);
}

static void
s_square (void *context, void *argument)
{
    task_t *task = argument;
    int *runs = context;
    ++*runs;
    task->result = task->number * task->number;
}

static atomic_int s_contexts;

static void *
s_context_new (void)
{
    atomic_fetch_add (&s_contexts, 1);
    return calloc (1, sizeof (int));
}

static void
s_context_destroy (void *context)
{
    atomic_fetch_sub (&s_contexts, 1);
    free (context);
}

enum { TASKS = 1000, TASKS_MAX = 64 };

//  Guards: every task comes back once, done, with at most tasks_max out; contexts are one a thread.
static void
test_every_task_comes_back_done (void **state)
{
    (void) state;
    static task_t tasks [TASKS];
    pool_options_t options = { .name = "test", .threads = 4, .tasks_max = TASKS_MAX, .work = s_square,
        .context_new = s_context_new, .context_destroy = s_context_destroy };
    pool_t *pool = pool_new (&options);
    assert_non_null (pool);
    assert_int_equal (atomic_load (&s_contexts), 4);
    int submitted = 0, back = 0;
    while (back < TASKS) {
        while (submitted < TASKS && submitted - back < TASKS_MAX) {
            tasks [submitted] = (task_t) { .number = submitted, .result = -1 };
            pool_submit (pool, &tasks [submitted++]);
        }
        assert_true (s_readable (pool_descriptor (pool), 10000));
        for (task_t *task; (task = pool_done (pool)); back++) {
            assert_int_equal (task->result, task->number * task->number);
            task->result = -2;                  //  coming back twice would show
        }
    }
    pool_destroy (&pool);
    assert_null (pool);
    assert_int_equal (atomic_load (&s_contexts), 0);
}

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool begun, may_end;
} gate_t;

static void
s_wait_at_gate (void *context, void *argument)
{
    (void) context;
    gate_t *gate = argument;
    pthread_mutex_lock (&gate->lock);
    gate->begun = true;
    pthread_cond_broadcast (&gate->changed);
    while (!gate->may_end)
        pthread_cond_wait (&gate->changed, &gate->lock);
    pthread_mutex_unlock (&gate->lock);
}

static void
s_open_gate (gate_t *gate)
{
    pthread_mutex_lock (&gate->lock);
    gate->may_end = true;
    pthread_cond_broadcast (&gate->changed);
    pthread_mutex_unlock (&gate->lock);
}

//  Until a thread stands at it.
static void
s_await_gate (gate_t *gate)
{
    pthread_mutex_lock (&gate->lock);
    while (!gate->begun)
        pthread_cond_wait (&gate->changed, &gate->lock);
    pthread_mutex_unlock (&gate->lock);
}

static gate_t *s_gate_of_join;          //  opens when a thread is joined; NULL: none does

int __real_pthread_join (pthread_t thread, void **result_p);
int __wrap_pthread_join (pthread_t thread, void **result_p);

int
__wrap_pthread_join (pthread_t thread, void **result_p)
{
    if (s_gate_of_join)
        s_open_gate (s_gate_of_join);
    return __real_pthread_join (thread, result_p);
}

//  Guards: done tasks are announced together: when four are done, or when no more than one waits for the one
//  thread.
static void
test_done_tasks_are_announced_together (void **state)
{
    (void) state;
    enum { GATES = 8 };
    gate_t gates [GATES];
    for (int index = 0; index < GATES; index++)
        gates [index] = (gate_t) { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    pool_options_t options = { .name = "test", .threads = 1, .tasks_max = GATES, .work = s_wait_at_gate };
    pool_t *pool = pool_new (&options);
    assert_non_null (pool);
    for (int index = 0; index < GATES; index++)
        pool_submit (pool, &gates [index]);
    int taken = 0;
    for (int index = 0; index < GATES; index++) {
        s_open_gate (&gates [index]);
        if (index + 1 < GATES)
            s_await_gate (&gates [index + 1]);      //  this one is done then
        //  Behind the fourth; then behind those that leave one or none.
        bool expected = index == 3 || index >= GATES - 2;
        assert_int_equal (s_readable (pool_descriptor (pool), index + 1 < GATES? 0: 10000), expected);
        assert_true (expected || pool_is_quiet (pool));
        while (expected && pool_done (pool))
            taken++;
    }
    assert_int_equal (taken, GATES);
    assert_false (pool_is_quiet (pool));
    pool_destroy (&pool);
}

//  Guards: stopping finishes what was begun and gives the rest back undone; nothing is lost.
static void
test_stop_gives_back_what_was_not_begun (void **state)
{
    (void) state;
    gate_t gates [3];
    for (int index = 0; index < 3; index++)
        gates [index] = (gate_t) { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    pool_options_t options = { .name = "test", .threads = 1, .tasks_max = 8, .work = s_wait_at_gate };
    pool_t *pool = pool_new (&options);
    assert_non_null (pool);
    for (int index = 0; index < 3; index++)
        pool_submit (pool, &gates [index]);
    s_await_gate (&gates [0]);
    //  A stop joins the threads when it has told them to end; what was begun ends only then.
    s_gate_of_join = &gates [0];
    pool_stop (pool);
    s_gate_of_join = NULL;
    assert_ptr_equal (pool_done (pool), &gates [0]);
    assert_null (pool_done (pool));
    assert_non_null (pool_drain (pool));
    assert_non_null (pool_drain (pool));
    assert_null (pool_drain (pool));
    assert_false (gates [1].begun || gates [2].begun);
    pool_destroy (&pool);
}

//  The signals that can come to this thread, of those that a program may wait for.
static int
s_signals (void)
{
    static const int signals [] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR1, SIGALRM };
    sigset_t blocked;
    pthread_sigmask (SIG_SETMASK, NULL, &blocked);
    int count = 0;
    for (size_t index = 0; index < sizeof signals / sizeof *signals; index++)
        count += !sigismember (&blocked, signals [index]);
    return count;
}

static void
s_note_signals (void *context, void *task)
{
    (void) context;
    ((task_t *) task)->result = s_signals ();
}

//  Guards: signals stay with the thread that made the pool, which gets them as before.
static void
test_signals_stay_with_the_maker (void **state)
{
    (void) state;
    int before = s_signals ();
    assert_int_not_equal (before, 0);
    pool_t *pool = pool_new (&(pool_options_t) { .name = "signals", .threads = 1, .tasks_max = 1,
        .work = s_note_signals });
    assert_non_null (pool);
    assert_int_equal (s_signals (), before);
    task_t task = { .result = -1 };
    pool_submit (pool, &task);
    assert_true (s_readable (pool_descriptor (pool), -1));
    assert_ptr_equal (pool_done (pool), &task);
    assert_int_equal (task.result, 0);
    pool_destroy (&pool);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_exchange_is_a_bounded_queue),
        cmocka_unit_test (test_signals_stay_with_the_maker),
        cmocka_unit_test (test_exchange_announces),
        cmocka_unit_test (test_every_task_comes_back_done),
        cmocka_unit_test (test_done_tasks_are_announced_together),
        cmocka_unit_test (test_stop_gives_back_what_was_not_begun)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
