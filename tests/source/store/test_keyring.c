//  Keys that end and are renewed: when, what becomes of failures, and what requests that hold old ones see.
//  The clock is the test's: it goes on only while the test waits.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"
#include "keyring.h"

//  With what must come.  A test that waits for what does not come is ended by ctest.
enum { FOREVER_MS = 3600 * 1000, TICK_MS = 100, TURNS_MAX = 20000 };


//  -- the clock

static atomic_int_fast64_t s_clock_ms = INT64_C (1800000000) * 1000;
static atomic_uint s_looks;             //  of the ring's thread at the clock

int __real_clock_gettime (clockid_t clock, struct timespec *now);
int __wrap_clock_gettime (clockid_t clock, struct timespec *now);
int
__wrap_clock_gettime (clockid_t clock, struct timespec *now)
{
    (void) clock;
    int64_t ms = atomic_load (&s_clock_ms);
    *now = (struct timespec) { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    return 0;
}

static void
s_sleep_ms (long ms)
{
    nanosleep (&(struct timespec) { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

//  The ring's thread looks at the clock after a moment; the test, in keyring_await, lets a tick pass.
int __real_pthread_cond_timedwait (pthread_cond_t *changed, pthread_mutex_t *lock,
    const struct timespec *until);
int __wrap_pthread_cond_timedwait (pthread_cond_t *changed, pthread_mutex_t *lock,
    const struct timespec *until);
int
__wrap_pthread_cond_timedwait (pthread_cond_t *changed, pthread_mutex_t *lock, const struct timespec *until)
{
    (void) until;
    if (gettid () == getpid ())
        atomic_fetch_add (&s_clock_ms, TICK_MS);
    else
        atomic_fetch_add (&s_looks, 1);
    struct timespec soon;
    __real_clock_gettime (CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += 1000000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    return __real_pthread_cond_timedwait (changed, lock, &soon);
}

//  Lets so much time pass at once.  Then the ring's thread has looked at the clock, unless its source hangs
//  or the machine is too busy: a look that is missed here comes with the next time that passes.
static void
s_leap_ms (int64_t ms)
{
    unsigned looks = atomic_load (&s_looks);
    atomic_fetch_add (&s_clock_ms, ms);
    for (int turn = 0; turn < 10 && atomic_load (&s_looks) - looks < 2; turn++)
        s_sleep_ms (1);
}

static void
s_pass_ms (int64_t ms)
{
    for (; ms > 0; ms -= TICK_MS)
        s_leap_ms (TICK_MS);
}


//  -- the source

//  A source as the test wants it: answer N is keys called "keyN".
typedef struct {
    pthread_mutex_t lock;
    int64_t life_s;                     //  of the keys that it gives; 0: they do not end
    bool is_failing, is_hanging, is_stopped, is_asked;
    bool takes_signals;                 //  in the thread that asks
    unsigned asked, given;
} source_t;

static int64_t
s_now_s (void)
{
    return (int64_t) clock_seconds (CLOCK_REALTIME);
}

static account_key_t *
s_key (unsigned number, int64_t life_s)
{
    account_key_t *key;
    char name [20];
    snprintf (name, sizeof name, "key%u", number);
    assert_int_equal (account_key_new (&key, name, "secret", "token", life_s? s_now_s () + life_s: 0), 0);
    return key;
}

static bool
s_get (source_t *self, const bool *flag)
{
    pthread_mutex_lock (&self->lock);
    bool value = *flag;
    pthread_mutex_unlock (&self->lock);
    return value;
}

static void
s_set (source_t *self, bool *flag, bool value)
{
    pthread_mutex_lock (&self->lock);
    *flag = value;
    pthread_mutex_unlock (&self->lock);
}

//  Whether a signal that a program may wait for can come to this thread.
static bool
s_takes_signals (void)
{
    static const int signals [] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR1, SIGALRM };
    sigset_t blocked;
    assert_int_equal (pthread_sigmask (SIG_SETMASK, NULL, &blocked), 0);
    size_t count = 0;
    for (size_t index = 0; index < sizeof signals / sizeof *signals; index++)
        count += !sigismember (&blocked, signals [index]);
    return count > 0;
}

static int
s_ask (void *context, account_key_t **key_p, char *error, size_t error_bytes)
{
    source_t *self = context;
    *key_p = NULL;
    s_set (self, &self->is_asked, true);
    while (s_get (self, &self->is_hanging) && !s_get (self, &self->is_stopped))
        s_sleep_ms (5);
    pthread_mutex_lock (&self->lock);
    self->asked++;
    self->takes_signals = s_takes_signals ();
    bool is_failing = self->is_failing;
    if (!is_failing)
        *key_p = s_key (++self->given, self->life_s);
    pthread_mutex_unlock (&self->lock);
    snprintf (error, error_bytes, "%s", is_failing? "the service is away": "");
    return is_failing? -EBUSY: 0;
}

static void
s_stop (void *context)
{
    source_t *self = context;
    pthread_mutex_lock (&self->lock);
    self->is_stopped = true;
    pthread_mutex_unlock (&self->lock);
}

static unsigned
s_asked (source_t *self)
{
    pthread_mutex_lock (&self->lock);
    unsigned asked = self->asked;
    pthread_mutex_unlock (&self->lock);
    return asked;
}

static keyring_t *
s_ring (source_t *source, int64_t first_life_s, bool is_service)
{
    account_key_t *first = s_key (0, first_life_s);
    keyring_t *ring;
    assert_int_equal (keyring_new (&ring, &first, &(keyring_source_t) { .ask = s_ask, .stop = s_stop,
        .context = source, .is_service = is_service }), 0);
    assert_null (first);
    return ring;
}

static uint64_t
s_number (keyring_t *ring)
{
    uint64_t number;
    account_key_t *key = keyring_take (ring, &number);
    account_key_release (&key);
    return number;
}

//  Waits until other keys are there.
static void
s_wait_for (keyring_t *ring, uint64_t number)
{
    while (s_number (ring) < number)
        s_pass_ms (TICK_MS);
}

//  Guards: five minutes before the end; half of a short life; never after the end, and never in a haste.
static void
test_when (void **state)
{
    (void) state;
    assert_int_equal (keyring_renewal_ms (3600 * 1000, 0), 3300 * 1000);
    assert_int_equal (keyring_renewal_ms (3600 * 1000, 1000), 3270 * 1000);
    assert_int_equal (keyring_renewal_ms (900 * 1000, 0), 600 * 1000);
    assert_int_equal (keyring_renewal_ms (10 * 1000, 0), 5000);
    assert_int_equal (keyring_renewal_ms (10 * 1000, 1000), 4500);
    assert_int_equal (keyring_renewal_ms (100, 0), 500);
    assert_int_equal (keyring_renewal_ms (-5000, 500), 500);
}

//  Guards: keys are renewed again and again, at the times of test_when, and a request keeps those that it
//  holds.
static void
test_renewed (void **state)
{
    (void) state;
    source_t source = { .lock = PTHREAD_MUTEX_INITIALIZER, .life_s = 3 };
    keyring_t *ring = s_ring (&source, 3, true);
    uint64_t number;
    account_key_t *held = keyring_take (ring, &number);
    assert_int_equal (number, 1);
    for (uint64_t next = 2; next < 5; next++)
        s_wait_for (ring, next);
    assert_string_equal (held->name, "key0");
    assert_string_equal (held->secret, "AWS4secret");
    account_key_release (&held);
    keyring_look_t look;
    keyring_look (ring, &look);
    assert_true (look.renewals >= 3);
    assert_string_equal (look.trouble, "");
    keyring_destroy (&ring);
    assert_null (ring);
}

//  Guards: a source that is away costs nothing while it is away, and is asked again soon.
static void
test_failures (void **state)
{
    (void) state;
    source_t source = { .lock = PTHREAD_MUTEX_INITIALIZER, .life_s = 3600, .is_failing = true };
    keyring_t *ring = s_ring (&source, 3, true);
    keyring_look_t look = { .trouble = "" };
    while (s_asked (&source) < 3)
        s_pass_ms (TICK_MS);
    keyring_look (ring, &look);
    assert_string_equal (look.trouble, "the service is away");
    assert_int_equal (s_number (ring), 1);              //  the old ones stay, ended or not
    s_set (&source, &source.is_failing, false);
    s_wait_for (ring, 2);
    keyring_look (ring, &look);
    assert_string_equal (look.trouble, "");
    assert_true (look.ends_s > s_now_s () + 3000);
    unsigned asked = s_asked (&source);
    s_pass_ms (1200);
    assert_int_equal (s_asked (&source), asked);        //  an hour is long
    keyring_destroy (&ring);
}

//  Guards: refused keys are asked for anew, at most once in some seconds, and not for those of another
//  number.
static void
test_refused (void **state)
{
    (void) state;
    source_t source = { .lock = PTHREAD_MUTEX_INITIALIZER };
    int64_t came_ms = clock_now_ms ();
    keyring_t *ring = s_ring (&source, 0, false);
    keyring_refused (ring, 7);
    s_pass_ms (100);
    assert_int_equal (s_asked (&source), 0);
    for (int index = 0; index < 50; index++)
        keyring_refused (ring, 1);
    assert_true (keyring_was_fresh (ring, 1));
    assert_false (keyring_await (ring, 1, 100));
    assert_true (keyring_await (ring, 1, FOREVER_MS));
    assert_true (clock_now_ms () - came_ms >= KEYRING_REFUSED_S * 1000);
    assert_int_equal (s_asked (&source), 1);
    assert_true (keyring_await (ring, 1, FOREVER_MS));  //  at once
    keyring_refused (ring, 1);
    s_pass_ms (100);
    assert_int_equal (s_asked (&source), 1);            //  those were replaced already
    assert_int_equal (s_number (ring), 2);
    assert_false (keyring_was_fresh (ring, 1));         //  there are others
    keyring_destroy (&ring);
}

//  Guards: for keys that are refused some seconds after they came others are looked for, also where the ring
//  has begun to ask, or has found others, before a second refusal of the same keys comes.
static void
test_refused_by_several_requests (void **state)
{
    (void) state;
    source_t source = { .lock = PTHREAD_MUTEX_INITIALIZER };
    keyring_t *ring = s_ring (&source, 0, false);
    s_pass_ms (KEYRING_REFUSED_S * 1000 + 100);
    s_set (&source, &source.is_hanging, true);
    keyring_refused (ring, 1);
    while (!s_get (&source, &source.is_asked))
        s_pass_ms (TICK_MS);
    keyring_refused (ring, 1);
    assert_false (keyring_was_fresh (ring, 1));
    s_set (&source, &source.is_hanging, false);
    assert_true (keyring_await (ring, 1, FOREVER_MS));
    keyring_refused (ring, 1);
    assert_false (keyring_was_fresh (ring, 1));
    assert_int_equal (s_asked (&source), 1);
    keyring_destroy (&ring);
}

//  Guards: where the source has been asked in vain since the refusal, there is nothing to wait for, and what
//  is refused then is fresh.
static void
test_refused_in_vain (void **state)
{
    (void) state;
    source_t source = { .lock = PTHREAD_MUTEX_INITIALIZER, .life_s = 3600, .is_failing = true };
    keyring_t *ring = s_ring (&source, 3600, true);
    s_pass_ms (KEYRING_REFUSED_S * 1000 + 100);
    keyring_refused (ring, 1);
    while (s_asked (&source) < 1)
        s_pass_ms (TICK_MS);
    assert_false (keyring_await (ring, 1, FOREVER_MS));
    assert_false (keyring_was_fresh (ring, 1));
    keyring_refused (ring, 1);
    assert_true (keyring_was_fresh (ring, 1));
    keyring_destroy (&ring);
}

//  Refuses the keys, which have just come: others are asked for after so long, and not before.
static void
s_assert_pause (keyring_t *ring, source_t *source, int64_t pause_ms)
{
    uint64_t number = s_number (ring);
    unsigned asked = s_asked (source);
    keyring_refused (ring, number);
    s_leap_ms (pause_ms - TICK_MS);
    assert_int_equal (s_asked (source), asked);
    s_leap_ms (TICK_MS);
    //  The clock stands: they come now, however long the ring's thread waits for a processor.
    for (int turn = 0; turn < TURNS_MAX && s_number (ring) == number; turn++)
        s_sleep_ms (1);
    assert_int_equal (s_number (ring), number + 1);
}

//  Guards: a service that gives refused keys again and again is asked after pauses that double.  A calm time
//  ends that, and keys that are renewed because they end do not count.
static void
test_pauses_of_refused_keys (void **state)
{
    (void) state;
    enum { PAUSE_MS = KEYRING_REFUSED_S * 1000, CALM_MS = 200 * 1000, LIFE_S = 100 };
    source_t source = { .lock = PTHREAD_MUTEX_INITIALIZER };
    keyring_t *ring = s_ring (&source, 0, true);
    for (int times = 1; times <= 4; times *= 2)
        s_assert_pause (ring, &source, times * PAUSE_MS);
    s_leap_ms (CALM_MS);
    source.life_s = LIFE_S;
    keyring_refused (ring, 4);
    s_wait_for (ring, 5);
    for (uint64_t next = 6; next < 9; next++) {
        s_leap_ms (LIFE_S * 1000 / 2);
        s_wait_for (ring, next);
    }
    s_assert_pause (ring, &source, PAUSE_MS);
    keyring_destroy (&ring);
}

//  Guards: what refused keys were, fresh or not, says nothing of those that came behind them.
static void
test_fresh_keys_and_later_ones (void **state)
{
    (void) state;
    source_t source = { .lock = PTHREAD_MUTEX_INITIALIZER };
    keyring_t *ring = s_ring (&source, 0, false);
    keyring_refused (ring, 1);
    assert_true (keyring_was_fresh (ring, 1));
    s_wait_for (ring, 2);
    s_leap_ms (2 * KEYRING_REFUSED_S * 1000);
    keyring_refused (ring, 2);
    assert_false (keyring_was_fresh (ring, 2));
    keyring_destroy (&ring);
}

//  Guards: keys that stay have no thread, and waiting for others ends at once.
static void
test_keys_that_stay (void **state)
{
    (void) state;
    account_key_t *first = s_key (0, 1);
    keyring_t *ring;
    assert_int_equal (keyring_new (&ring, &first, NULL), 0);
    keyring_refused (ring, 1);
    assert_false (keyring_await (ring, 1, FOREVER_MS));
    keyring_destroy (&ring);
}

//  Guards: signals stay with the thread that made the ring, which gets them as before.
static void
test_signals (void **state)
{
    (void) state;
    source_t source = { .lock = PTHREAD_MUTEX_INITIALIZER, .life_s = 3600 };
    keyring_t *ring = s_ring (&source, 1, true);
    assert_true (s_takes_signals ());
    s_wait_for (ring, 2);
    keyring_destroy (&ring);
    assert_false (source.takes_signals);
    assert_true (s_takes_signals ());
}

//  Guards: the end does not wait for a source that hangs.
static void
test_the_end (void **state)
{
    (void) state;
    source_t source = { .lock = PTHREAD_MUTEX_INITIALIZER, .life_s = 1, .is_hanging = true };
    keyring_t *ring = s_ring (&source, 1, true);
    while (!s_get (&source, &source.is_asked))
        s_pass_ms (TICK_MS);
    keyring_destroy (&ring);
    assert_true (source.is_stopped);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_when),
        cmocka_unit_test (test_renewed),
        cmocka_unit_test (test_failures),
        cmocka_unit_test (test_refused),
        cmocka_unit_test (test_refused_by_several_requests),
        cmocka_unit_test (test_refused_in_vain),
        cmocka_unit_test (test_pauses_of_refused_keys),
        cmocka_unit_test (test_fresh_keys_and_later_ones),
        cmocka_unit_test (test_keys_that_stay),
        cmocka_unit_test (test_signals),
        cmocka_unit_test (test_the_end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
