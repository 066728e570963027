#include "question_queue.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUESTION_QUEUE_MAGIC 0x51555545u

//  IDLE --post--> POSTED --sent--> SENT --take, lose--> ANSWERED --wait--> IDLE; and from any of them, when
//  the time is up.
typedef enum { IDLE, POSTED, SENT, ANSWERED } phase_t;

struct question_queue {
    uint32_t magic;
    pthread_mutex_t mutex;
    pthread_cond_t news;
    //  Shared.
    phase_t phase;
    question_t question;
    int rc;
    char *json;
    message_error_t error;
    bool closed;
    char why [256];
};

question_queue_t *
question_queue_new (void)
{
    question_queue_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = QUESTION_QUEUE_MAGIC;
    self->question.tag = QUESTION_TAG_FIRST;
    pthread_condattr_t monotonic;
    pthread_condattr_init (&monotonic);
    pthread_condattr_setclock (&monotonic, CLOCK_MONOTONIC);
    int rc = pthread_mutex_init (&self->mutex, NULL);
    assert (rc == 0);
    rc = pthread_cond_init (&self->news, &monotonic);
    assert (rc == 0);
    pthread_condattr_destroy (&monotonic);
    return self;
}

void
question_queue_destroy (question_queue_t **self_p)
{
    question_queue_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == QUESTION_QUEUE_MAGIC);
    pthread_cond_destroy (&self->news);
    pthread_mutex_destroy (&self->mutex);
    free (self->json);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

static void
s_lock (question_queue_t *self)
{
    assert (self && self->magic == QUESTION_QUEUE_MAGIC);
    int rc = pthread_mutex_lock (&self->mutex);
    assert (rc == 0);
}

//  Wakes all threads: those that wait for an answer, and those that wait for a turn.
static void
s_move (question_queue_t *self, phase_t phase)
{
    self->phase = phase;
    pthread_cond_broadcast (&self->news);
}

//  --------------------------------------------------------------------------
//  For the user's threads

void
question_queue_post (question_queue_t *self, wire_kind_t kind, const char *text)
{
    s_lock (self);
    //  Each asking thread has a time limit, so a turn comes.
    while (self->phase != IDLE)
        pthread_cond_wait (&self->news, &self->mutex);
    self->question.kind = kind;
    self->question.tag++;
    snprintf (self->question.text, sizeof self->question.text, "%s", text);
    s_move (self, POSTED);
    pthread_mutex_unlock (&self->mutex);
}

int
question_queue_wait (question_queue_t *self, int timeout_ms, char **json_p, message_error_t *error)
{
    struct timespec deadline;
    clock_gettime (CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += timeout_ms % 1000 * 1000000L;
    deadline.tv_sec += deadline.tv_nsec / 1000000000L;
    deadline.tv_nsec %= 1000000000L;
    s_lock (self);
    int waited = 0, rc;
    while (self->phase != ANSWERED && !self->closed && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait (&self->news, &self->mutex, &deadline);
    *json_p = NULL;
    if (self->phase == ANSWERED) {
        rc = self->rc;
        *json_p = self->json;
        *error = self->error;
    }
    else if (self->closed) {
        rc = -ECONNRESET;
        message_fail (error, "%s", self->why);
    }
    else {
        rc = -ETIMEDOUT;
        message_fail (error, "the server has not answered within %g seconds", timeout_ms / 1e3);
    }
    self->json = NULL;
    s_move (self, IDLE);
    pthread_mutex_unlock (&self->mutex);
    return rc;
}

//  --------------------------------------------------------------------------
//  For the loader's thread

bool
question_queue_look (question_queue_t *self, question_t *question)
{
    s_lock (self);
    bool posted = self->phase == POSTED;
    if (posted)
        *question = self->question;
    pthread_mutex_unlock (&self->mutex);
    return posted;
}

void
question_queue_sent (question_queue_t *self, uint64_t tag)
{
    s_lock (self);
    if (self->phase == POSTED && self->question.tag == tag)
        s_move (self, SENT);
    pthread_mutex_unlock (&self->mutex);
}

static void
s_read (question_queue_t *self, const wire_head_t *head, const message_frame_t *frames, size_t count)
{
    message_note_t note;
    self->rc = -EPROTO;
    if (head->kind == WIRE_ERROR && message_read_note (frames, count, &note, &self->error)) {
        self->rc = strcmp (note.code, "unknown_sample")? -ECONNREFUSED: -ENOENT;
        message_fail (&self->error, "the server refused: %s (%s)", note.text, note.code);
    }
    else if (head->kind != WIRE_ERROR && message_read_object (frames, count, &self->json, &self->error))
        self->rc = 0;
}

bool
question_queue_take (question_queue_t *self, const wire_head_t *head, const message_frame_t *frames,
    size_t count)
{
    if (head->tag < QUESTION_TAG_FIRST)
        return false;
    s_lock (self);
    if (self->phase == SENT && head->tag == self->question.tag) {
        *self->error.text = 0;
        s_read (self, head, frames, count);
        s_move (self, ANSWERED);
    }
    pthread_mutex_unlock (&self->mutex);
    return true;
}

void
question_queue_lose (question_queue_t *self)
{
    s_lock (self);
    if (self->phase == SENT) {
        self->rc = -ECONNRESET;
        message_fail (&self->error, "the server went away before it answered; ask again");
        s_move (self, ANSWERED);
    }
    pthread_mutex_unlock (&self->mutex);
}

void
question_queue_close (question_queue_t *self, const char *why)
{
    s_lock (self);
    if (!self->closed) {
        self->closed = true;
        snprintf (self->why, sizeof self->why, "%s", why);
        pthread_cond_broadcast (&self->news);
    }
    pthread_mutex_unlock (&self->mutex);
}
