#include "handover.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "batch.h"
#include "window.h"

#define HANDOVER_MAGIC 0x484e4452u

enum { HANDOVER_NOTICES_MAX = 8 };

typedef struct {
    tureen_batch_t *batch;              //  NULL: an epoch's end
    wire_epoch_end_t epoch_end;
} entry_t;

struct handover {
    uint32_t magic;
    //  Set at birth.
    int wakeup;                         //  eventfd
    void (*tell) (void *context, const char *text);     //  NULL: notices are kept
    void *tell_context;
    //  Set by the first handover_open, before the mutex first tells the user of it.
    message_joined_t *joined;           //  the first window's, lent to the user
    //  Shared.
    pthread_mutex_t mutex;
    pthread_cond_t news;                //  opened, an entry, or a failure
    window_t *window;                   //  the present one; NULL: not joined, or lost
    window_t *retired;
    course_t *course;
    char run [WIRE_RUN_BYTES + 1];
    entry_t queue [HANDOVER_QUEUE_MAX];
    size_t queue_first;
    size_t queue_count;
    uint32_t given;                     //  batches that the user has
    char *notices [HANDOVER_NOTICES_MAX];
    size_t notice_count;
    char *unreadable;                   //  JSON; NULL: nothing was told
    uint64_t unreadable_told;           //  the greatest number in a notice
    handover_figures_t figures;
    bool reported;
    int report_rc;
    bool over;                          //  the last epoch's end was taken
    bool stopped;
    bool failed;
    message_error_t error;
    tureen_epoch_t epoch;
};

handover_t *
handover_new (void)
{
    handover_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = HANDOVER_MAGIC;
    pthread_condattr_t monotonic;
    pthread_condattr_init (&monotonic);
    pthread_condattr_setclock (&monotonic, CLOCK_MONOTONIC);
    int rc = pthread_mutex_init (&self->mutex, NULL);
    assert (rc == 0);                   //  Linux allocates nothing for either
    rc = pthread_cond_init (&self->news, &monotonic);
    assert (rc == 0);
    pthread_condattr_destroy (&monotonic);
    self->wakeup = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (self->wakeup < 0)
        handover_destroy (&self);
    return self;
}

void
handover_destroy (handover_t **self_p)
{
    assert (self_p);
    handover_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == HANDOVER_MAGIC);
    assert (self->given == 0);
    int saved = errno;
    while (self->retired) {
        window_t *window = self->retired;
        self->retired = window->next;
        window_destroy (&window);
    }
    window_destroy (&self->window);
    message_joined_destroy (&self->joined);
    course_destroy (&self->course);
    for (size_t index = 0; index < self->notice_count; index++)
        free (self->notices [index]);
    free (self->unreadable);
    if (self->wakeup >= 0)
        close (self->wakeup);
    pthread_cond_destroy (&self->news);
    pthread_mutex_destroy (&self->mutex);
    self->magic = 0;
    free (self);
    *self_p = NULL;
    errno = saved;
}

static void
s_lock (handover_t *self)
{
    assert (self && self->magic == HANDOVER_MAGIC);
    int rc = pthread_mutex_lock (&self->mutex);
    assert (rc == 0);
}

static void
s_unlock (handover_t *self)
{
    int rc = pthread_mutex_unlock (&self->mutex);
    assert (rc == 0);
}

void
handover_set_tell (handover_t *self, void (*tell) (void *context, const char *text), void *context)
{
    assert (self && self->magic == HANDOVER_MAGIC);
    self->tell = tell;
    self->tell_context = context;
}

//  Under the mutex, except the user's function.  No other thread takes notices yet.
static void
s_tell_notice (handover_t *self)
{
    s_unlock (self);
    char *text = handover_take_notice (self);
    if (text)
        self->tell (self->tell_context, text);
    free (text);
    s_lock (self);
}

//  The counter of an eventfd does not fill up in a lifetime.
void
handover_wake (handover_t *self)
{
    uint64_t one = 1;
    ssize_t written = write (self->wakeup, &one, sizeof one);
    assert (written == sizeof one || errno == EAGAIN);
}

//  --------------------------------------------------------------------------
//  For the courier

void
handover_open (handover_t *self, window_t **window_p, course_t **course_p)
{
    s_lock (self);
    assert (!self->window && (self->joined != NULL) == (course_p == NULL));
    self->window = *window_p;
    *window_p = NULL;
    const tureen_info_t *info = message_joined_info (self->window->joined);
    if (course_p) {
        self->joined = self->window->joined;
        self->window->lends_joined = true;
        self->course = *course_p;
        *course_p = NULL;
    }
    snprintf (self->run, sizeof self->run, "%s", info->run);
    self->figures.job = info->job;
    self->figures.joins++;
    s_unlock (self);
}

//  Takes an unused retired window off the list, which the caller destroys without the lock; NULL: none.
static window_t *
s_forget (handover_t *self, window_t *window)
{
    if (!window->retired || window->used)
        return NULL;
    window_t **place = &self->retired;
    while (*place != window)
        place = &(*place)->next;
    *place = window->next;
    return window;
}

void
handover_retire (handover_t *self)
{
    s_lock (self);
    window_t *window = self->window;
    assert (window);
    self->window = NULL;
    self->figures.job = 0;
    window->retired = true;
    window->next = self->retired;
    self->retired = window;
    window = s_forget (self, window);
    s_unlock (self);
    window_destroy (&window);
}

void
handover_finish (handover_t *self)
{
    assert (self && self->magic == HANDOVER_MAGIC && !self->joined);
    self->over = true;
}

void
handover_report (handover_t *self, int rc, const message_error_t *why)
{
    s_lock (self);
    assert (!self->reported && rc <= 0);
    self->reported = true;
    self->report_rc = rc;
    if (rc)
        self->error = *why;
    pthread_cond_broadcast (&self->news);
    s_unlock (self);
}

//  Appends an entry; the courier has checked for room.
static void
s_append (handover_t *self, const entry_t *entry)
{
    assert (self->queue_count < HANDOVER_QUEUE_MAX);
    self->queue [(self->queue_first + self->queue_count++) % HANDOVER_QUEUE_MAX] = *entry;
    pthread_cond_signal (&self->news);
}

bool
handover_put_batch (handover_t *self, const message_batch_t *from, zmq_msg_t *payload)
{
    //  The present window changes on our thread only.
    window_t *window = self->window;
    assert (window);
    s_lock (self);
    tureen_batch_t *batch = window_free (window, from->head.slot);
    s_unlock (self);
    //  A FREE batch is the courier's: it is filled without the lock.
    if (!batch || !batch_fill (batch, from, payload))
        return false;
    s_lock (self);
    if (!self->failed && !self->stopped) {
        batch->state = BATCH_QUEUED;
        window->used++;
        s_append (self, &(entry_t) { .batch = batch });
    }
    else
        batch_clear (batch);
    s_unlock (self);
    return true;
}

void
handover_put_epoch_end (handover_t *self, const wire_epoch_end_t *epoch_end)
{
    s_lock (self);
    if (!self->failed && !self->stopped)
        s_append (self, &(entry_t) { .epoch_end = *epoch_end });
    s_unlock (self);
}

void
handover_fail (handover_t *self, const message_error_t *why)
{
    s_lock (self);
    if (!self->failed) {
        self->failed = true;
        self->error = *why;
        pthread_cond_broadcast (&self->news);
    }
    s_unlock (self);
}

//  Under the mutex; takes the text over.
static void
s_add_notice (handover_t *self, char *copy)
{
    if (self->notice_count == HANDOVER_NOTICES_MAX) {
        free (self->notices [0]);
        memmove (self->notices, self->notices + 1, --self->notice_count * sizeof *self->notices);
    }
    if (copy)
        self->notices [self->notice_count++] = copy;
    if (!self->reported)
        pthread_cond_broadcast (&self->news);
}

void
handover_put_notice (handover_t *self, const char *text)
{
    char *copy = strdup (text);
    s_lock (self);
    s_add_notice (self, copy);
    s_unlock (self);
}

void
handover_put_unreadable (handover_t *self, uint64_t count, char *json, const char *text)
{
    char *copy = strdup (text);
    s_lock (self);
    free (self->unreadable);
    self->unreadable = json;
    if (count > self->unreadable_told) {
        self->unreadable_told = count;
        s_add_notice (self, copy);
        copy = NULL;
    }
    s_unlock (self);
    free (copy);
}

handover_view_t
handover_look (handover_t *self)
{
    uint64_t waste;
    ssize_t got = read (self->wakeup, &waste, sizeof waste);
    (void) got;                         //  an empty counter is fine, too
    handover_view_t view = { 0 };
    s_lock (self);
    window_t *window = self->window;
    if (window) {
        view.progress.consumed = window->looked = window->consumed;
        view.progress.released = window->released;
        view.progress.kept = window_kept (window);
    }
    view.queued = self->queue_count;
    view.full = self->queue_count == HANDOVER_QUEUE_MAX;
    view.stop = self->stopped;
    view.leave = self->stopped || (self->over && self->given == 0);
    s_unlock (self);
    return view;
}

int
handover_descriptor (const handover_t *self)
{
    assert (self && self->magic == HANDOVER_MAGIC);
    return self->wakeup;
}

//  --------------------------------------------------------------------------
//  For the user's threads

static struct timespec
s_deadline (int timeout_ms)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    time.tv_sec += timeout_ms / 1000;
    time.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (time.tv_nsec >= 1000000000L) {
        time.tv_nsec -= 1000000000L;
        time.tv_sec++;
    }
    return time;
}

bool
handover_wait_report (handover_t *self, int timeout_ms)
{
    s_lock (self);
    struct timespec deadline = s_deadline (timeout_ms);
    int rc = 0;
    while (!self->reported && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait (&self->news, &self->mutex, &deadline);
    bool reported = self->reported;
    s_unlock (self);
    return reported;
}

int
handover_wait_open (handover_t *self, message_error_t *why)
{
    s_lock (self);
    while (!self->reported || (self->tell && self->notice_count))
        if (self->tell && self->notice_count)
            s_tell_notice (self);
        else
            pthread_cond_wait (&self->news, &self->mutex);
    int rc = self->report_rc;
    if (rc)
        *why = self->error;
    s_unlock (self);
    return rc;
}

static double
s_seconds (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec * 1e-9;
}

//  Waits for something to take.  False: the time is over.
static bool
s_wait (handover_t *self, int timeout_ms)
{
    if (self->queue_count || self->over || self->failed)
        return true;
    //  The server may be waiting for this `consumed` before it fills the last slot, and no release is near.
    if (self->window && self->window->looked != self->window->consumed)
        handover_wake (self);
    struct timespec deadline = timeout_ms < 0? (struct timespec) { 0 }: s_deadline (timeout_ms);
    int rc = 0;
    while (!self->queue_count && !self->over && !self->failed && rc != ETIMEDOUT)
        if (timeout_ms < 0)
            pthread_cond_wait (&self->news, &self->mutex);
        else
            rc = pthread_cond_timedwait (&self->news, &self->mutex, &deadline);
    return self->queue_count || self->over || self->failed;
}

//  Takes the first entry off the queue, which has one.
static tureen_event_t
s_take (handover_t *self, tureen_batch_t **batch_p)
{
    bool was_full = self->queue_count == HANDOVER_QUEUE_MAX;
    entry_t entry = self->queue [self->queue_first];
    self->queue_first = (self->queue_first + 1) % HANDOVER_QUEUE_MAX;
    self->queue_count--;
    if (entry.batch) {
        tureen_batch_t *batch = *batch_p = entry.batch;
        batch->state = BATCH_GIVEN;
        batch->magic = BATCH_MAGIC;
        batch->window->consumed = batch->head.sequence + 1;
        self->given++;
        self->figures.batches++;
        self->figures.samples += batch->head.flags & WIRE_BATCH_PADDING? 0: batch->head.count;
        //  The courier has checked that it should come.
        course_take (self->course, batch->step, batch->step_count);
        course_end_batch (self->course);
    }
    else {
        course_end_epoch (self->course);
        self->epoch = (tureen_epoch_t) { .epoch = entry.epoch_end.epoch, .samples = entry.epoch_end.samples,
            .batches = entry.epoch_end.batches };
        self->over = entry.epoch_end.flags & WIRE_EPOCH_LAST;
    }
    //  `consumed` alone does not wake the courier: it goes with the next release, or when a thread waits.
    if (was_full || self->over)
        handover_wake (self);
    return entry.batch? TUREEN_BATCH: TUREEN_EPOCH_END;
}

tureen_event_t
handover_take (handover_t *self, tureen_batch_t **batch_p, int timeout_ms)
{
    *batch_p = NULL;
    double begin = s_seconds ();
    s_lock (self);
    tureen_event_t event = TUREEN_TIMEOUT;
    bool ready = s_wait (self, timeout_ms);
    self->figures.waited_seconds += s_seconds () - begin;
    if (ready) {
        if (self->queue_count && !self->over)
            event = s_take (self, batch_p);
        else
            event = self->over? TUREEN_END: TUREEN_ERROR;
        //  Several threads may wait, and an end is for all of them.
        if (self->over)
            pthread_cond_broadcast (&self->news);
    }
    s_unlock (self);
    return event;
}

void
handover_release (handover_t *self, tureen_batch_t *batch)
{
    batch->magic = BATCH_MAGIC_IDLE;
    batch_clear (batch);
    s_lock (self);
    assert (batch->state == BATCH_GIVEN);
    window_t *window = batch->window;
    batch->state = BATCH_FREE;
    self->given--;
    window->used--;
    if (window->released <= batch->head.sequence)
        window->released = batch->head.sequence + 1;
    window = s_forget (self, window);
    s_unlock (self);
    window_destroy (&window);
    handover_wake (self);
}

void
handover_stop (handover_t *self)
{
    s_lock (self);
    assert (self->given == 0);          //  the caller's mistake: a batch was not released
    self->stopped = true;
    while (self->queue_count) {
        entry_t *entry = &self->queue [self->queue_first];
        if (entry->batch) {
            batch_clear (entry->batch);
            entry->batch->state = BATCH_FREE;
            entry->batch->window->used--;
        }
        self->queue_first = (self->queue_first + 1) % HANDOVER_QUEUE_MAX;
        self->queue_count--;
    }
    s_unlock (self);
    handover_wake (self);
}

tureen_epoch_t
handover_epoch (handover_t *self)
{
    s_lock (self);
    tureen_epoch_t epoch = self->epoch;
    s_unlock (self);
    return epoch;
}

const char *
handover_error (handover_t *self)
{
    s_lock (self);
    //  Written once, before `failed`, so it can be lent.
    const char *text = self->failed? self->error.text: "";
    s_unlock (self);
    return text;
}

const message_joined_t *
handover_joined (const handover_t *self)
{
    assert (self && self->magic == HANDOVER_MAGIC);
    return self->joined;
}

char *
handover_unreadable (handover_t *self)
{
    s_lock (self);
    char *copy = strdup (self->unreadable? self->unreadable: "{\"count\":0,\"samples\":[]}");
    s_unlock (self);
    return copy;
}

char *
handover_take_notice (handover_t *self)
{
    s_lock (self);
    char *text = self->notice_count? self->notices [0]: NULL;
    if (text)
        memmove (self->notices, self->notices + 1, --self->notice_count * sizeof *self->notices);
    s_unlock (self);
    return text;
}

bool
handover_given (handover_t *self, handover_given_t *given)
{
    s_lock (self);
    *given = (handover_given_t) { .epoch = course_epoch (self->course),
        .batches = course_batches (self->course) };
    memcpy (given->run, self->run, sizeof given->run);
    bool fine = course_taken (self->course, &given->taken) && course_cut (self->course, &given->cut);
    s_unlock (self);
    if (!fine)
        course_taken_clear (&given->taken);
    return fine;
}

handover_figures_t
handover_figures (handover_t *self)
{
    s_lock (self);
    handover_figures_t figures = self->figures;
    s_unlock (self);
    return figures;
}
