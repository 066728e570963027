#include "status_feed.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct {
    bool is_asked;
    json_t *status;                     //  an answer; NULL: none
} view_t;

struct status_feed {
    int asked, answered;
    size_t viewers;
    pthread_mutex_t mutex;              //  of what follows
    view_t views [];
};

int
status_feed_new (status_feed_t **self_p, size_t viewers)
{
    assert (self_p); assert (viewers > 0);
    status_feed_t *self = calloc (1, sizeof *self + viewers * sizeof *self->views);
    *self_p = NULL;
    if (!self)
        return -ENOMEM;
    self->viewers = viewers;
    self->asked = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
    self->answered = self->asked < 0? -1: eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->answered < 0) {
        int rc = -errno;
        if (self->asked >= 0)
            close (self->asked);
        free (self);
        return rc;
    }
    pthread_mutex_init (&self->mutex, NULL);
    *self_p = self;
    return 0;
}

void
status_feed_destroy (status_feed_t **self_p)
{
    status_feed_t *self = *self_p;
    if (!self)
        return;
    for (size_t viewer = 0; viewer < self->viewers; viewer++)
        json_decref (self->views [viewer].status);
    pthread_mutex_destroy (&self->mutex);
    close (self->asked);
    close (self->answered);
    free (self);
    *self_p = NULL;
}

int
status_feed_asked (const status_feed_t *self)
{
    return self->asked;
}

int
status_feed_answered (const status_feed_t *self)
{
    return self->answered;
}

//  The counter of an eventfd cannot overflow here, and a failed write leaves it readable.
static void
s_wake (int descriptor)
{
    ssize_t written = write (descriptor, &(uint64_t) { 1 }, sizeof (uint64_t));
    (void) written;
}

static void
s_calm (int descriptor)
{
    uint64_t count;
    ssize_t got = read (descriptor, &count, sizeof count);
    (void) got;
}

void
status_feed_ask (status_feed_t *self, size_t viewer)
{
    assert (viewer < self->viewers);
    pthread_mutex_lock (&self->mutex);
    self->views [viewer].is_asked = true;
    pthread_mutex_unlock (&self->mutex);
    s_wake (self->asked);
}

bool
status_feed_next (status_feed_t *self, size_t *viewer_p)
{
    s_calm (self->asked);
    pthread_mutex_lock (&self->mutex);
    size_t viewer = 0;
    while (viewer < self->viewers && !self->views [viewer].is_asked)
        viewer++;
    if (viewer < self->viewers)
        self->views [viewer].is_asked = false;
    pthread_mutex_unlock (&self->mutex);
    *viewer_p = viewer;
    return viewer < self->viewers;
}

void
status_feed_answer (status_feed_t *self, size_t viewer, json_t *status)
{
    assert (viewer < self->viewers);
    pthread_mutex_lock (&self->mutex);
    json_t *before = self->views [viewer].status;
    self->views [viewer].status = status;
    pthread_mutex_unlock (&self->mutex);
    json_decref (before);
    s_wake (self->answered);
}

json_t *
status_feed_take (status_feed_t *self, size_t viewer)
{
    assert (viewer < self->viewers);
    pthread_mutex_lock (&self->mutex);
    json_t *status = self->views [viewer].status;
    self->views [viewer].status = NULL;
    pthread_mutex_unlock (&self->mutex);
    return status;
}

void
status_feed_look (status_feed_t *self)
{
    s_calm (self->answered);
}
