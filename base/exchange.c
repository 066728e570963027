#include "exchange.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct exchange {
    //  set at birth
    size_t capacity;
    int descriptor;             //  -1: nothing polls it
    void **objects;
    //  shared, under lock
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    size_t first, count;
    bool is_announced;          //  the descriptor is readable
    bool closed;
};

exchange_t *
exchange_new (size_t capacity, bool is_polled)
{
    assert (capacity > 0);
    exchange_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->arrived, NULL);
    self->capacity = capacity;
    self->objects = calloc (capacity, sizeof *self->objects);
    self->descriptor = is_polled? eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK): -1;
    if (!self->objects || (is_polled && self->descriptor < 0)) {
        int error = errno;
        exchange_destroy (&self);
        errno = error;
    }
    return self;
}

void
exchange_destroy (exchange_t **self_p)
{
    exchange_t *self = *self_p;
    if (!self)
        return;
    assert (self->count == 0);
    pthread_cond_destroy (&self->arrived);
    pthread_mutex_destroy (&self->lock);
    if (self->descriptor >= 0)
        close (self->descriptor);
    free (self->objects);
    free (self);
    *self_p = NULL;
}

//  The eventfd is written when the first announced object comes, and drained with the last object.
static void
s_signal (exchange_t *self)
{
    if (self->descriptor < 0 || self->is_announced)
        return;
    uint64_t one = 1;
    ssize_t written = write (self->descriptor, &one, sizeof one);
    assert (written == sizeof one);
    self->is_announced = true;
}

static void
s_drain (exchange_t *self)
{
    if (!self->is_announced)
        return;
    uint64_t sum;
    ssize_t got = read (self->descriptor, &sum, sizeof sum);
    assert (got == sizeof sum);
    self->is_announced = false;
}

static bool
s_put (exchange_t *self, void *object, bool is_announced)
{
    assert (object);
    pthread_mutex_lock (&self->lock);
    bool room = self->count < self->capacity;
    if (room) {
        self->objects [(self->first + self->count++) % self->capacity] = object;
        if (is_announced)
            s_signal (self);
        pthread_cond_signal (&self->arrived);
    }
    pthread_mutex_unlock (&self->lock);
    return room;
}

bool
exchange_put (exchange_t *self, void *object)
{
    return s_put (self, object, true);
}

bool
exchange_put_quietly (exchange_t *self, void *object)
{
    return s_put (self, object, false);
}

void
exchange_announce (exchange_t *self)
{
    pthread_mutex_lock (&self->lock);
    if (self->count > 0)
        s_signal (self);
    pthread_mutex_unlock (&self->lock);
}

size_t
exchange_count (exchange_t *self)
{
    pthread_mutex_lock (&self->lock);
    size_t count = self->count;
    pthread_mutex_unlock (&self->lock);
    return count;
}

static void *
s_first (exchange_t *self)
{
    if (self->count == 0)
        return NULL;
    void *object = self->objects [self->first];
    self->first = (self->first + 1) % self->capacity;
    if (--self->count == 0)
        s_drain (self);
    return object;
}

void *
exchange_take (exchange_t *self)
{
    pthread_mutex_lock (&self->lock);
    while (self->count == 0 && !self->closed)
        pthread_cond_wait (&self->arrived, &self->lock);
    void *object = s_first (self);
    pthread_mutex_unlock (&self->lock);
    return object;
}

void *
exchange_try (exchange_t *self)
{
    pthread_mutex_lock (&self->lock);
    void *object = s_first (self);
    pthread_mutex_unlock (&self->lock);
    return object;
}

void
exchange_close (exchange_t *self)
{
    pthread_mutex_lock (&self->lock);
    self->closed = true;
    pthread_cond_broadcast (&self->arrived);
    pthread_mutex_unlock (&self->lock);
}

int
exchange_descriptor (const exchange_t *self)
{
    assert (self->descriptor >= 0);
    return self->descriptor;
}
