#include "keyring.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sodium.h>
#include "clock.h"

enum {
    MAGIC = 0x6e7a11c9,
    PAUSE_MS = 1000, PAUSE_MS_MAX = 60 * 1000, PAUSE_MS_MIN = 500,
    REFUSED_MS = KEYRING_REFUSED_S * 1000, REFUSED_MS_MAX = 60 * 1000,
    LOOK_MS = 60 * 1000                 //  the time of day may be set: looked at so often
};

struct keyring {
    uint32_t magic;
    //  set at birth
    keyring_source_t source;
    bool has_thread;
    pthread_t thread;
    //  the thread's
    int64_t renew_ms;                   //  time of day; 0: never
    int64_t retry_ms;                   //  after a failure; of clock_now_ms; 0: none
    uint32_t failures;
    int64_t refused_pause_ms;
    //  shared
    pthread_mutex_t lock;               //  of all below
    pthread_cond_t changed;
    bool is_ending, is_asking;
    bool is_refused;                    //  since the source was asked
    bool was_fresh;                     //  asked within REFUSED_MS, when they were refused
    account_key_t *key;
    uint64_t number;                    //  of key; from 1
    int64_t asked_ms;                   //  when the source was asked last
    keyring_look_t look;
};


//  -- when

static int64_t
s_now_ms (void)
{
    return (int64_t) (clock_read_ns (CLOCK_REALTIME) / 1000000);
}

int64_t
keyring_renewal_ms (int64_t life_ms, uint32_t chance)
{
    int64_t margin_ms = life_ms / 2;
    margin_ms = margin_ms < KEYRING_MARGIN_S * 1000? margin_ms: KEYRING_MARGIN_S * 1000;
    int64_t pause_ms = life_ms - margin_ms - margin_ms / 10 * chance / 1000;
    return pause_ms < PAUSE_MS_MIN? PAUSE_MS_MIN: pause_ms;
}

//  Of keys that are new, or were given again.
static void
s_plan (keyring_t *self)
{
    int64_t now_ms = s_now_ms (), ends_ms = self->key->ends_s * 1000;
    self->renew_ms = ends_ms? now_ms + keyring_renewal_ms (ends_ms - now_ms, randombytes_uniform (1001)): 0;
}

//  Old keys that are still good are the haste.
static void
s_plan_retry (keyring_t *self)
{
    int64_t longest_ms = (int64_t) PAUSE_MS << (self->failures < 6? self->failures: 6);
    int64_t left_ms = self->key->ends_s * 1000 - s_now_ms ();
    longest_ms = longest_ms < PAUSE_MS_MAX? longest_ms: PAUSE_MS_MAX;
    if (left_ms > 0 && longest_ms > left_ms / 4)
        longest_ms = left_ms / 4 < PAUSE_MS_MIN? PAUSE_MS_MIN: left_ms / 4;
    self->failures++;
    self->retry_ms = clock_now_ms () + longest_ms / 2 + randombytes_uniform ((uint32_t) longest_ms / 2 + 1);
}

//  In ms from now; 0: now.
static int64_t
s_due_ms (const keyring_t *self)
{
    int64_t due_ms = LOOK_MS, now_ms = clock_now_ms ();
    if (self->failures > 0)
        due_ms = self->retry_ms - now_ms < due_ms? self->retry_ms - now_ms: due_ms;
    else
    if (self->renew_ms)
        due_ms = self->renew_ms - s_now_ms () < due_ms? self->renew_ms - s_now_ms (): due_ms;
    int64_t refused_ms = self->asked_ms + self->refused_pause_ms - now_ms;
    if (self->is_refused && refused_ms < due_ms)
        due_ms = refused_ms;
    return due_ms > 0? due_ms: 0;
}


//  -- the thread

//  Keys as before are a success of the source, and no new keys.
static void
s_use (keyring_t *self, account_key_t *key)
{
    self->look.renewals++;
    if (account_key_equals (key, self->key))
        account_key_release (&key);
    else {
        account_key_release (&self->key);
        self->key = key;
        self->number++;
        self->look.ends_s = key->ends_s;
    }
    bool has_ended = self->key->ends_s && self->key->ends_s * 1000 <= s_now_ms ();
    snprintf (self->look.trouble, sizeof self->look.trouble, "%s", has_ended? "the keys that came have ended "
        "by the clock of this machine: check the clock": "");
    if (has_ended)
        s_plan_retry (self);
    else {
        self->failures = 0;
        s_plan (self);
    }
}

//  A service that gives refused keys again and again is asked less and less often.
static void
s_plan_refused (keyring_t *self, bool was_refused)
{
    bool is_calm = clock_now_ms () - self->asked_ms > 2 * REFUSED_MS_MAX;
    if (!self->source.is_service || is_calm)
        self->refused_pause_ms = REFUSED_MS;
    else
    if (was_refused && self->refused_pause_ms < REFUSED_MS_MAX)
        self->refused_pause_ms *= 2;
    self->asked_ms = clock_now_ms ();
}

//  Locked, and unlocked while the source is asked.
static void
s_renew (keyring_t *self)
{
    account_key_t *key;
    char error [KEYRING_TROUBLE_BYTES];
    s_plan_refused (self, self->is_refused);
    self->is_asking = true;
    pthread_mutex_unlock (&self->lock);
    int rc = self->source.ask (self->source.context, &key, error, sizeof error);
    pthread_mutex_lock (&self->lock);
    self->is_asking = false;
    self->is_refused = false;
    if (rc == 0)
        s_use (self, key);
    else {
        snprintf (self->look.trouble, sizeof self->look.trouble, "%s", error);
        s_plan_retry (self);
    }
    pthread_cond_broadcast (&self->changed);
}

static void
s_wait (keyring_t *self, int64_t limit_ms)
{
    struct timespec until = clock_deadline (limit_ms);
    pthread_cond_timedwait (&self->changed, &self->lock, &until);
}

static void *
s_run (void *context)
{
    keyring_t *self = context;
    pthread_mutex_lock (&self->lock);
    while (!self->is_ending) {
        int64_t due_ms = s_due_ms (self);
        if (due_ms > 0)
            s_wait (self, due_ms);
        else
            s_renew (self);
    }
    pthread_mutex_unlock (&self->lock);
    return NULL;
}

//  With every signal blocked: signals are the program's main thread's.
static int
s_start (keyring_t *self)
{
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    int rc = pthread_create (&self->thread, NULL, s_run, self);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    self->has_thread = rc == 0;
    if (rc == 0)
        pthread_setname_np (self->thread, "keys");
    return -rc;
}


//  -- life

int
keyring_new (keyring_t **self_p, account_key_t **first_p, const keyring_source_t *source)
{
    assert (self_p); assert (first_p && *first_p); assert (!source || source->ask);
    *self_p = NULL;
    keyring_t *self = calloc (1, sizeof *self);
    if (!self) {
        account_key_release (first_p);
        return -ENOMEM;
    }
    *self = (keyring_t) { .magic = MAGIC, .key = *first_p, .number = 1, .refused_pause_ms = REFUSED_MS,
        .asked_ms = clock_now_ms (), .look.ends_s = (*first_p)->ends_s };
    *first_p = NULL;
    clock_condition_init (&self->changed);
    pthread_mutex_init (&self->lock, NULL);
    int rc = 0;
    if (source) {
        self->source = *source;
        s_plan (self);
        rc = s_start (self);
    }
    if (rc)
        keyring_destroy (&self);
    *self_p = self;
    return rc;
}

void
keyring_destroy (keyring_t **self_p)
{
    assert (self_p);
    keyring_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC);
    if (self->has_thread) {
        pthread_mutex_lock (&self->lock);
        self->is_ending = true;
        pthread_cond_broadcast (&self->changed);
        pthread_mutex_unlock (&self->lock);
        if (self->source.stop)
            self->source.stop (self->source.context);
        pthread_join (self->thread, NULL);
    }
    pthread_cond_destroy (&self->changed);
    pthread_mutex_destroy (&self->lock);
    account_key_release (&self->key);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}


//  -- questions

account_key_t *
keyring_take (keyring_t *self, uint64_t *number_p)
{
    assert (self && self->magic == MAGIC); assert (number_p);
    pthread_mutex_lock (&self->lock);
    account_key_t *key = account_key_hold (self->key);
    *number_p = self->number;
    pthread_mutex_unlock (&self->lock);
    return key;
}

void
keyring_refused (keyring_t *self, uint64_t number)
{
    assert (self && self->magic == MAGIC);
    pthread_mutex_lock (&self->lock);
    if (self->has_thread && number == self->number && !self->is_refused) {
        self->is_refused = true;
        self->was_fresh = !self->is_asking && clock_now_ms () - self->asked_ms < REFUSED_MS;
        pthread_cond_broadcast (&self->changed);
    }
    pthread_mutex_unlock (&self->lock);
}

bool
keyring_await (keyring_t *self, uint64_t number, uint32_t limit_ms)
{
    assert (self && self->magic == MAGIC);
    int64_t until_ms = clock_now_ms () + limit_ms, left_ms;
    pthread_mutex_lock (&self->lock);
    while (self->has_thread && self->number == number && (left_ms = until_ms - clock_now_ms ()) > 0
    &&  (self->is_asking || (self->is_refused && s_due_ms (self) <= left_ms)))
        s_wait (self, left_ms);
    bool is_other = self->number != number;
    pthread_mutex_unlock (&self->lock);
    return is_other;
}

bool
keyring_was_fresh (keyring_t *self, uint64_t number)
{
    assert (self && self->magic == MAGIC);
    pthread_mutex_lock (&self->lock);
    bool was_fresh = self->number == number && self->was_fresh;
    pthread_mutex_unlock (&self->lock);
    return was_fresh;
}

void
keyring_look (keyring_t *self, keyring_look_t *look)
{
    assert (self && self->magic == MAGIC); assert (look);
    pthread_mutex_lock (&self->lock);
    *look = self->look;
    pthread_mutex_unlock (&self->lock);
}
