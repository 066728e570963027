#include "batch_queue.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

//  --------------------------------------------------------------------------
//  Batches and windows

#define BATCH_MAGIC 0x42544348u         //  while GIVEN
#define BATCH_MAGIC_IDLE 0x62746368u    //  while FREE or QUEUED: the user must not use it

typedef enum { BATCH_FREE, BATCH_QUEUED, BATCH_GIVEN } batch_state_t;

struct tureen_batch {
    uint32_t magic;
    batch_state_t state;                //  under the queue's mutex
    //  Set when the job is joined.
    batch_queue_t *queue;
    window_t *window;                   //  the window that it belongs to
    const tureen_info_t *info;
    uint64_t *ids;                      //  room for batch_size
    uint64_t *step;                     //  room for the ids of all ranks; with one rank: ids
    uint8_t *ring;                      //  this slot's; NULL: inline, or in no slot
    size_t slot_bytes;
    //  Set by s_fill_batch.
    wire_batch_t head;                  //  its sequence is the window's
    size_t step_count;
    uint64_t sequence;                  //  the loader's
    uint8_t *data;
    uint8_t *copy;                      //  inline, if the message is not aligned
    zmq_msg_t message;                  //  inline; else empty
};

#define WINDOW_MAGIC 0x57494e44u

//  What one joining gave: the ring, and as many batches as it has slots.  A rank may get some more, in no
//  slot: the steps that it lacks from before its coming.
//
//  A loader that joins again gets a new one; the old one stays until the last of its batches, received
//  before, is released.
//  The ring's socket stays open with it: a living server would take its end for the client's, and empty the
//  ring.
//
//  Invariants, under the mutex:
//    W1  used counts the batches that are QUEUED or GIVEN.
//    W2  released <= consumed, in the numbers of this joining; neither goes back.
//    W3  a window that is retired and not used is destroyed.
struct window {
    uint32_t magic;
    //  Set at birth.
    message_joined_t *joined;
    bool lends_joined;                  //  the queue keeps it
    mapped_ring_t *ring;                //  NULL: inline
    uint64_t sequence_base;             //  how many of the loader's batches came before this window's first
    uint32_t slots;
    uint64_t *ids;                      //  of all batches
    tureen_batch_t batches [WIRE_SLOTS_MAX];
    //  Of the loader's thread.
    tureen_batch_t *loose [WINDOW_LOOSE_MAX];   //  each with its ids behind it
    size_t loose_count;
    //  Shared, under the queue's mutex.
    bool retired;
    uint32_t used;
    uint64_t consumed;                  //  as PROGRESS has it
    uint64_t looked;                    //  `consumed` as the loader's thread last saw it
    uint64_t released;
    window_t *next;                     //  among the retired
};

//  No element of an array is longer than 8 bytes, and ZeroMQ puts the bytes of a large message at a multiple
//  of 8 that is none of 16.
enum { BATCH_ALIGNMENT = 64, BATCH_ALIGNMENT_LEAST = 8 };

//  How many ids a batch needs room for.
static size_t
s_room (const tureen_info_t *info)
{
    return info->world_size == 1? info->batch_size: ((size_t) info->world_size + 1) * info->batch_size;
}

//  Makes a FREE batch of zeroed memory; ring and ids (s_room of them) are lent.
static void
s_init_batch (tureen_batch_t *self, batch_queue_t *queue, window_t *window, const message_joined_t *joined,
    uint64_t *ids, uint8_t *ring)
{
    assert (self && self->magic == 0);
    self->magic = BATCH_MAGIC_IDLE;
    self->queue = queue;
    self->window = window;
    self->info = &joined->info;
    self->ids = ids;
    self->step = self->info->world_size == 1? ids: ids + self->info->batch_size;
    self->ring = ring;
    self->slot_bytes = joined->slot_bytes;
    zmq_msg_init (&self->message);
}

//  ZeroMQ may hand out a message in the middle of its receive buffer, at any address; arrays need a better
//  one.
static bool
s_take_payload (tureen_batch_t *self, zmq_msg_t *payload)
{
    uint8_t *data = zmq_msg_data (payload);
    if ((uintptr_t) data % BATCH_ALIGNMENT_LEAST == 0) {
        zmq_msg_move (&self->message, payload);
        self->data = zmq_msg_data (&self->message);
        return true;
    }
    void *copy;
    if (posix_memalign (&copy, BATCH_ALIGNMENT, self->slot_bytes))
        return false;
    memcpy (copy, data, self->slot_bytes);
    self->copy = self->data = copy;
    return true;
}

//  Fills a FREE batch; payload (NULL for the ring) is moved from.  False: no memory for a copy, and nothing
//  is changed.
static bool
s_fill_batch (tureen_batch_t *self, const message_batch_t *from, zmq_msg_t *payload)
{
    assert (self->magic == BATCH_MAGIC_IDLE && !self->copy);
    self->data = self->ring;
    if (payload && !s_take_payload (self, payload))
        return false;
    assert (self->data);
    self->head = from->head;
    self->sequence = self->window->sequence_base + from->head.sequence;
    memcpy (self->ids, from->ids, from->head.count * sizeof *self->ids);
    self->step_count = from->step_count;
    if (self->step != self->ids)
        memcpy (self->step, from->step, from->step_count * sizeof *self->step);
    return true;
}

//  Drops what the batch owns of its message.
static void
s_clear_batch (tureen_batch_t *self)
{
    zmq_msg_close (&self->message);
    zmq_msg_init (&self->message);
    free (self->copy);
    self->copy = self->data = NULL;
}

window_t *
batch_queue_window_new (batch_queue_t *queue, message_joined_t **joined_p, mapped_ring_t **ring_p,
    uint8_t *base, uint64_t sequence_base)
{
    assert (joined_p && *joined_p && ring_p);
    const tureen_info_t *info = &(*joined_p)->info;
    window_t *self = calloc (1, sizeof *self);
    uint64_t *ids = calloc (info->slots * s_room (info), sizeof *ids);
    if (!self || !ids) {
        free (self);
        free (ids);
        return NULL;
    }
    self->magic = WINDOW_MAGIC;
    self->slots = info->slots;
    self->ids = ids;
    self->sequence_base = sequence_base;
    for (uint32_t slot = 0; slot < info->slots; slot++)
        s_init_batch (&self->batches [slot], queue, self, *joined_p, ids + slot * s_room (info),
            base? base + slot * (*joined_p)->slot_bytes: NULL);
    self->joined = *joined_p;
    self->ring = *ring_p;
    *joined_p = NULL;
    *ring_p = NULL;
    return self;
}

static void
s_window_destroy (window_t **self_p)
{
    window_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == WINDOW_MAGIC);
    for (uint32_t slot = 0; slot < self->slots; slot++)
        s_clear_batch (&self->batches [slot]);
    for (size_t index = 0; index < self->loose_count; index++) {
        s_clear_batch (self->loose [index]);
        free (self->loose [index]);
    }
    mapped_ring_destroy (&self->ring);
    if (!self->lends_joined)
        message_joined_destroy (&self->joined);
    free (self->ids);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

static tureen_batch_t *
s_free_loose (window_t *self)
{
    for (size_t index = 0; index < self->loose_count; index++)
        if (self->loose [index]->state == BATCH_FREE)
            return self->loose [index];
    if (self->loose_count == WINDOW_LOOSE_MAX)
        return NULL;
    size_t room = s_room (&self->joined->info);
    tureen_batch_t *batch = calloc (1, sizeof *batch + room * sizeof *batch->ids);
    if (batch) {
        s_init_batch (batch, self->batches [0].queue, self, self->joined, (uint64_t *) (batch + 1), NULL);
        self->loose [self->loose_count++] = batch;
    }
    return batch;
}

//  The bits of batches in slots that the user still has although a later one was released.
static uint64_t
s_kept (const window_t *self)
{
    uint64_t kept = 0;
    for (uint32_t slot = 0; slot < self->slots; slot++) {
        const tureen_batch_t *batch = &self->batches [slot];
        if (batch->state == BATCH_GIVEN && batch->head.sequence < self->released)
            kept |= (uint64_t) 1 << slot;
    }
    return kept;
}

//  --------------------------------------------------------------------------
//  The queue

#define BATCH_QUEUE_MAGIC 0x42515545u

enum { BATCH_QUEUE_NOTICES_MAX = 8 };

typedef struct {
    tureen_batch_t *batch;              //  NULL: an epoch's end
    wire_epoch_end_t epoch_end;
} entry_t;

struct batch_queue {
    uint32_t magic;
    //  Set at birth.
    int wakeup;                         //  eventfd
    void (*tell) (void *context, const char *text);     //  NULL: notices are kept
    void *tell_context;
    //  Set by the first batch_queue_open, before the mutex first tells the user of it.
    message_joined_t *joined;           //  the first window's, lent to the user
    //  Shared.
    pthread_mutex_t mutex;
    pthread_cond_t news;                //  opened, an entry, or a failure
    window_t *window;                   //  the present one; NULL: not joined, or lost
    window_t *retired;
    position_t *position;
    char run [WIRE_RUN_BYTES + 1];
    entry_t entries [BATCH_QUEUE_MAX];
    size_t first_entry;
    size_t entry_count;
    uint32_t given;                     //  batches that the user has
    char *notices [BATCH_QUEUE_NOTICES_MAX];
    size_t notice_count;
    const char *unreadable_notice;      //  among them; NULL: none
    char *unreadable;                   //  JSON; NULL: nothing was told
    uint64_t unreadable_told;           //  the greatest number in a notice
    batch_queue_figures_t figures;
    bool reported;
    int report_rc;
    bool over;                          //  the last epoch's end was taken
    bool stopped;
    bool failed;
    message_error_t error;
    tureen_epoch_t epoch;
};

batch_queue_t *
batch_queue_new (void)
{
    batch_queue_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = BATCH_QUEUE_MAGIC;
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
        batch_queue_destroy (&self);
    return self;
}

void
batch_queue_destroy (batch_queue_t **self_p)
{
    batch_queue_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == BATCH_QUEUE_MAGIC);
    assert (self->given == 0);
    int saved = errno;
    while (self->retired) {
        window_t *window = self->retired;
        self->retired = window->next;
        s_window_destroy (&window);
    }
    s_window_destroy (&self->window);
    message_joined_destroy (&self->joined);
    position_destroy (&self->position);
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
s_lock (batch_queue_t *self)
{
    assert (self && self->magic == BATCH_QUEUE_MAGIC);
    int rc = pthread_mutex_lock (&self->mutex);
    assert (rc == 0);
}

static void
s_unlock (batch_queue_t *self)
{
    int rc = pthread_mutex_unlock (&self->mutex);
    assert (rc == 0);
}

void
batch_queue_set_tell (batch_queue_t *self, void (*tell) (void *context, const char *text), void *context)
{
    assert (self && self->magic == BATCH_QUEUE_MAGIC);
    self->tell = tell;
    self->tell_context = context;
}

//  Under the mutex, except the user's function.  No other thread takes notices yet.
static void
s_tell_notice (batch_queue_t *self)
{
    s_unlock (self);
    char *text = batch_queue_take_notice (self);
    if (text)
        self->tell (self->tell_context, text);
    free (text);
    s_lock (self);
}

//  The counter of an eventfd does not fill up in a lifetime.
void
batch_queue_wake (batch_queue_t *self)
{
    uint64_t one = 1;
    ssize_t written = write (self->wakeup, &one, sizeof one);
    assert (written == sizeof one || errno == EAGAIN);
}

//  --------------------------------------------------------------------------
//  For the loader's thread

void
batch_queue_open (batch_queue_t *self, window_t **window_p, position_t **position_p)
{
    s_lock (self);
    assert (!self->window && (self->joined != NULL) == (position_p == NULL));
    self->window = *window_p;
    *window_p = NULL;
    const tureen_info_t *info = &self->window->joined->info;
    if (position_p) {
        self->joined = self->window->joined;
        self->window->lends_joined = true;
        self->position = *position_p;
        *position_p = NULL;
    }
    snprintf (self->run, sizeof self->run, "%s", info->run);
    self->figures.job = info->job;
    self->figures.joins++;
    s_unlock (self);
}

//  Takes an unused retired window off the list, which the caller destroys without the lock; NULL: none.
static window_t *
s_forget (batch_queue_t *self, window_t *window)
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
batch_queue_retire (batch_queue_t *self)
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
    s_window_destroy (&window);
}

void
batch_queue_finish (batch_queue_t *self)
{
    assert (self && self->magic == BATCH_QUEUE_MAGIC && !self->joined);
    self->over = true;
}

void
batch_queue_report (batch_queue_t *self, int rc, const message_error_t *why)
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

//  Appends an entry; the loader's thread has checked for room.
static void
s_append (batch_queue_t *self, const entry_t *entry)
{
    assert (self->entry_count < BATCH_QUEUE_MAX);
    self->entries [(self->first_entry + self->entry_count++) % BATCH_QUEUE_MAX] = *entry;
    pthread_cond_signal (&self->news);
}

bool
batch_queue_put_batch (batch_queue_t *self, const message_batch_t *from, zmq_msg_t *payload)
{
    //  The present window changes on our thread only.
    window_t *window = self->window;
    uint32_t slot = from->head.slot;
    assert (window && window->magic == WINDOW_MAGIC && (slot == WIRE_SLOT_NONE || slot < window->slots));
    s_lock (self);
    tureen_batch_t *batch = slot == WIRE_SLOT_NONE? s_free_loose (window): &window->batches [slot];
    bool is_free = batch && batch->state == BATCH_FREE;
    s_unlock (self);
    //  No other thread touches a FREE batch: it is filled without the lock.
    if (!is_free || !s_fill_batch (batch, from, payload))
        return false;
    s_lock (self);
    if (!self->failed && !self->stopped) {
        batch->state = BATCH_QUEUED;
        window->used++;
        s_append (self, &(entry_t) { .batch = batch });
    }
    else
        s_clear_batch (batch);
    s_unlock (self);
    return true;
}

void
batch_queue_put_epoch_end (batch_queue_t *self, const wire_epoch_end_t *epoch_end)
{
    s_lock (self);
    if (!self->failed && !self->stopped)
        s_append (self, &(entry_t) { .epoch_end = *epoch_end });
    s_unlock (self);
}

void
batch_queue_fail (batch_queue_t *self, const message_error_t *why)
{
    s_lock (self);
    if (!self->failed) {
        self->failed = true;
        self->error = *why;
        pthread_cond_broadcast (&self->news);
    }
    s_unlock (self);
}

//  Under the mutex; takes the text over.  The oldest notice makes room, but not that of unreadable samples,
//  which does not come again.
static void
s_add_notice (batch_queue_t *self, char *copy)
{
    if (self->notice_count == BATCH_QUEUE_NOTICES_MAX) {
        size_t out = self->notices [0] == self->unreadable_notice;
        free (self->notices [out]);
        memmove (self->notices + out, self->notices + out + 1,
            (--self->notice_count - out) * sizeof *self->notices);
    }
    if (copy)
        self->notices [self->notice_count++] = copy;
    if (!self->reported)
        pthread_cond_broadcast (&self->news);
}

void
batch_queue_put_notice (batch_queue_t *self, const char *text)
{
    char *copy = strdup (text);
    s_lock (self);
    s_add_notice (self, copy);
    s_unlock (self);
}

void
batch_queue_put_unreadable (batch_queue_t *self, uint64_t count, char *json, const char *text)
{
    char *copy = strdup (text);
    s_lock (self);
    free (self->unreadable);
    self->unreadable = json;
    if (count > self->unreadable_told) {
        self->unreadable_told = count;
        self->unreadable_notice = copy;
        s_add_notice (self, copy);
        copy = NULL;
    }
    s_unlock (self);
    free (copy);
}

batch_queue_view_t
batch_queue_look (batch_queue_t *self)
{
    uint64_t waste;
    ssize_t got = read (self->wakeup, &waste, sizeof waste);
    (void) got;                         //  an empty counter is fine, too
    batch_queue_view_t view = { 0 };
    s_lock (self);
    window_t *window = self->window;
    if (window) {
        view.progress.consumed = window->looked = window->consumed;
        view.progress.released = window->released;
        view.progress.kept = s_kept (window);
    }
    view.queued = self->entry_count;
    view.full = self->entry_count == BATCH_QUEUE_MAX;
    view.stop = self->stopped;
    view.leave = self->stopped || (self->over && self->given == 0);
    s_unlock (self);
    return view;
}

int
batch_queue_descriptor (const batch_queue_t *self)
{
    assert (self && self->magic == BATCH_QUEUE_MAGIC);
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
batch_queue_wait_report (batch_queue_t *self, int timeout_ms)
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
batch_queue_wait_open (batch_queue_t *self, message_error_t *why)
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
s_wait (batch_queue_t *self, int timeout_ms)
{
    if (self->entry_count || self->over || self->failed)
        return true;
    //  The server may be waiting for this `consumed` before it fills the last slot, and no release is near.
    if (self->window && self->window->looked != self->window->consumed)
        batch_queue_wake (self);
    struct timespec deadline = timeout_ms < 0? (struct timespec) { 0 }: s_deadline (timeout_ms);
    int rc = 0;
    while (!self->entry_count && !self->over && !self->failed && rc != ETIMEDOUT)
        if (timeout_ms < 0)
            pthread_cond_wait (&self->news, &self->mutex);
        else
            rc = pthread_cond_timedwait (&self->news, &self->mutex, &deadline);
    return self->entry_count || self->over || self->failed;
}

//  Takes the first entry off the queue, which has one.
static tureen_event_t
s_take (batch_queue_t *self, tureen_batch_t **batch_p)
{
    bool was_full = self->entry_count == BATCH_QUEUE_MAX;
    entry_t entry = self->entries [self->first_entry];
    self->first_entry = (self->first_entry + 1) % BATCH_QUEUE_MAX;
    self->entry_count--;
    if (entry.batch) {
        tureen_batch_t *batch = *batch_p = entry.batch;
        batch->state = BATCH_GIVEN;
        batch->magic = BATCH_MAGIC;
        batch->window->consumed = batch->head.sequence + 1;
        self->given++;
        self->figures.batches++;
        self->figures.samples += batch->head.flags & WIRE_BATCH_PADDING? 0: batch->head.count;
        //  The loader's thread has checked that this batch is due.
        position_take (self->position, batch->step, batch->step_count);
        position_end_batch (self->position);
    }
    else {
        position_end_epoch (self->position);
        self->epoch = (tureen_epoch_t) { .epoch = entry.epoch_end.epoch, .samples = entry.epoch_end.samples,
            .batches = entry.epoch_end.batches };
        self->over = entry.epoch_end.flags & WIRE_EPOCH_LAST;
    }
    //  `consumed` alone does not wake the loader's thread: it goes with the next release, or when a user's
    //  thread waits.
    if (was_full || self->over)
        batch_queue_wake (self);
    return entry.batch? TUREEN_BATCH: TUREEN_EPOCH_END;
}

tureen_event_t
batch_queue_take (batch_queue_t *self, tureen_batch_t **batch_p, int timeout_ms)
{
    *batch_p = NULL;
    double begin = s_seconds ();
    s_lock (self);
    tureen_event_t event = TUREEN_TIMEOUT;
    bool ready = s_wait (self, timeout_ms);
    self->figures.waited_seconds += s_seconds () - begin;
    if (ready) {
        if (self->entry_count && !self->over)
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

static void
s_release (batch_queue_t *self, tureen_batch_t *batch)
{
    batch->magic = BATCH_MAGIC_IDLE;
    s_clear_batch (batch);
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
    s_window_destroy (&window);
    batch_queue_wake (self);
}

void
batch_queue_stop (batch_queue_t *self)
{
    s_lock (self);
    assert (self->given == 0);          //  the caller's mistake: a batch was not released
    self->stopped = true;
    while (self->entry_count) {
        entry_t *entry = &self->entries [self->first_entry];
        if (entry->batch) {
            s_clear_batch (entry->batch);
            entry->batch->state = BATCH_FREE;
            entry->batch->window->used--;
        }
        self->first_entry = (self->first_entry + 1) % BATCH_QUEUE_MAX;
        self->entry_count--;
    }
    s_unlock (self);
    batch_queue_wake (self);
}

tureen_epoch_t
batch_queue_epoch (batch_queue_t *self)
{
    s_lock (self);
    tureen_epoch_t epoch = self->epoch;
    s_unlock (self);
    return epoch;
}

const char *
batch_queue_error (batch_queue_t *self)
{
    s_lock (self);
    //  Written once, before `failed`, so it can be lent.
    const char *text = self->failed && !self->over? self->error.text: "";
    s_unlock (self);
    return text;
}

const message_joined_t *
batch_queue_joined (const batch_queue_t *self)
{
    assert (self && self->magic == BATCH_QUEUE_MAGIC);
    return self->joined;
}

char *
batch_queue_unreadable (batch_queue_t *self)
{
    s_lock (self);
    char *copy = strdup (self->unreadable? self->unreadable: "{\"count\":0,\"samples\":[]}");
    s_unlock (self);
    return copy;
}

char *
batch_queue_take_notice (batch_queue_t *self)
{
    s_lock (self);
    char *text = self->notice_count? self->notices [0]: NULL;
    if (text)
        memmove (self->notices, self->notices + 1, --self->notice_count * sizeof *self->notices);
    if (text == self->unreadable_notice)
        self->unreadable_notice = NULL;
    s_unlock (self);
    return text;
}

bool
batch_queue_given (batch_queue_t *self, batch_queue_given_t *given)
{
    s_lock (self);
    *given = (batch_queue_given_t) { .epoch = position_epoch (self->position),
        .batches = position_batches (self->position) };
    memcpy (given->run, self->run, sizeof given->run);
    bool fine = position_taken (self->position, &given->taken) && position_cut (self->position, &given->cut);
    s_unlock (self);
    if (!fine)
        position_taken_clear (&given->taken);
    return fine;
}

batch_queue_figures_t
batch_queue_figures (batch_queue_t *self)
{
    s_lock (self);
    batch_queue_figures_t figures = self->figures;
    s_unlock (self);
    return figures;
}

//  --------------------------------------------------------------------------
//  The user's view

uint64_t
tureen_batch_epoch (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->head.epoch;
}

uint64_t
tureen_batch_index (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->head.index;
}

uint64_t
tureen_batch_sequence (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->sequence;
}

size_t
tureen_batch_count (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->head.count;
}

const uint64_t *
tureen_batch_ids (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->ids;
}

bool
tureen_batch_padding (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->head.flags & WIRE_BATCH_PADDING;
}

static const tureen_field_t *
s_find_field (const tureen_batch_t *self, const char *name)
{
    for (size_t index = 0; index < self->info->field_count; index++)
        if (!strcmp (self->info->fields [index].name, name))
            return &self->info->fields [index];
    return NULL;
}

bool
tureen_batch_array (const tureen_batch_t *self, const char *name, tureen_array_t *array)
{
    assert (self && self->magic == BATCH_MAGIC && name && array);
    memset (array, 0, sizeof *array);
    const tureen_field_t *field = s_find_field (self, name);
    if (!field)
        return false;
    array->data = self->data + field->offset;
    array->dtype = field->dtype;
    array->dimensions = field->dimensions + 1;
    array->shape [0] = self->head.count;
    memcpy (array->shape + 1, field->shape, field->dimensions * sizeof *field->shape);
    array->bytes = self->head.count * field->sample_bytes;
    return true;
}

bool
tureen_batch_ragged (const tureen_batch_t *self, const char *name, void *values, int64_t *offsets)
{
    assert (self && self->magic == BATCH_MAGIC && name && offsets);
    const tureen_field_t *field = s_find_field (self, name);
    if (!field || !field->lengths)
        return false;
    const int64_t *lengths = (const int64_t *) (const void *) (self->data
        + s_find_field (self, field->lengths)->offset);
    size_t row_bytes = field->sample_bytes / field->shape [0];
    offsets [0] = 0;
    for (size_t sample = 0; sample < self->head.count; sample++) {
        //  The user may have written there, and a server is not believed.
        int64_t most = (int64_t) field->shape [0], length = lengths [sample];
        length = length < 0? 0: length > most? most: length;
        offsets [sample + 1] = offsets [sample] + length;
        if (values && length)
            memcpy ((uint8_t *) values + (size_t) offsets [sample] * row_bytes,
                self->data + field->offset + sample * field->sample_bytes, (size_t) length * row_bytes);
    }
    return true;
}

void
tureen_batch_release (tureen_batch_t **self_p)
{
    tureen_batch_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == BATCH_MAGIC);
    *self_p = NULL;
    s_release (self->queue, self);
}
