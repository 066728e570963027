/*  exchange -- the one way in which threads hand objects to each other: a bounded queue of pointers.
 *
 *  A mutex and a condition, on purpose: the thread sanitizer sees every hand-over, and a few microseconds an
 *  object are nothing beside the milliseconds of a decode.  The thread that takes an object owns it.
 *  Threads: any number may put and take.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H
#include <stdbool.h>
#include <stddef.h>

typedef struct exchange exchange_t;

//  Room for capacity (> 0) objects.  is_polled: it has a descriptor, at the price of two system calls each
//  time it fills and empties.  NULL with errno.
exchange_t *exchange_new (size_t capacity, bool is_polled);
//  No thread may wait in it; objects left inside are not freed (they are the caller's bug, asserted).
void exchange_destroy (exchange_t **self_p);

//  Hands over object (not NULL).  False when it is full: the caller still owns it.  Never blocks.
bool exchange_put (exchange_t *self, void *object);
//  The same, and the descriptor does not become readable by it: exchange_announce has to follow, some time.
bool exchange_put_quietly (exchange_t *self, void *object);
//  Makes the descriptor readable, if there are objects.
void exchange_announce (exchange_t *self);
size_t exchange_count (exchange_t *self);
//  Waits for an object.  NULL when the exchange is closed and empty.
void *exchange_take (exchange_t *self);
//  An object if there is one, else NULL.  Never blocks.
void *exchange_try (exchange_t *self);
//  No more waiting: takers get what is left, then NULL.
void exchange_close (exchange_t *self);
//  For an exchange that is polled: an eventfd that is readable while there are announced objects.
int exchange_descriptor (const exchange_t *self);

#endif
