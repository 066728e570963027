#include "ending.h"
#include <errno.h>
#include <unistd.h>
#include "condition.h"

static void *
s_watch (void *argument)
{
    ending_t *self = argument;
    struct timespec due = condition_until (ENDING_MS);
    pthread_mutex_lock (&self->mutex);
    while (!self->is_done && pthread_cond_timedwait (&self->changed, &self->mutex, &due) != ETIMEDOUT)
        ;
    self->is_late = !self->is_done;
    pthread_mutex_unlock (&self->mutex);
    if (!self->is_late)
        return NULL;
    log_event (self->log, LOG_LEVEL_WARNING, "ended_late", LOG_FIELDS (LOG_NUMBER ("ms", ENDING_MS)),
        "ended without waiting any longer for a thread that still works or reads");
    serve_endpoints_release (self->endpoints);
    _exit (self->status);
}

void
ending_begin (ending_t *self, log_t *log, serve_endpoints_t *endpoints, int status)
{
    *self = (ending_t) { .log = log, .endpoints = endpoints, .status = status };
    pthread_mutex_init (&self->mutex, NULL);
    condition_init (&self->changed);
    self->is_watched = pthread_create (&self->thread, NULL, s_watch, self) == 0;
}

void
ending_end (ending_t *self)
{
    if (!self->log)
        return;
    pthread_mutex_lock (&self->mutex);
    self->is_done = !self->is_late;
    pthread_cond_signal (&self->changed);
    pthread_mutex_unlock (&self->mutex);
    if (self->is_watched)
        pthread_join (self->thread, NULL);      //  if it is late, it ends the process
    pthread_cond_destroy (&self->changed);
    pthread_mutex_destroy (&self->mutex);
}
