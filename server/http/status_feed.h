/*  status_feed -- from the broker's thread to the thread of the HTTP server: what the server says of itself.
 *
 *  Each *viewer* sees something else: number 0 is the operators' view, the others are tenants'.
 *
 *  happy path:     status_feed_ask (viewer) .. the broker's thread: status_feed_asked is readable,
 *                  status_feed_next .. status_feed_answer .. status_feed_answered is readable,
 *                  status_feed_take
 *  failure modes:  none: a question for which there is no answer yet is not asked twice.
 *
 *  An answer goes over as the tree that it is: as text it would be written in one thread, and parsed in the
 *  other.  Neither side ever waits for the other: both hold a mutex for the time of a copied pointer.
 *  Threads: ask, answered and take are the HTTP server's, the others the broker's.
 */
#ifndef STATUS_FEED_H
#define STATUS_FEED_H
#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

typedef struct status_feed status_feed_t;

//  viewers > 0.  0; or -errno and *self_p NULL.
int status_feed_new (status_feed_t **self_p, size_t viewers);
void status_feed_destroy (status_feed_t **self_p);

//  Descriptors that are readable where there is something to do.
int status_feed_asked (const status_feed_t *self);
int status_feed_answered (const status_feed_t *self);

void status_feed_ask (status_feed_t *self, size_t viewer);
//  The next viewer that is to be answered; false: none.
bool status_feed_next (status_feed_t *self, size_t *viewer_p);
//  status: the only reference to all of it, taken over.
void status_feed_answer (status_feed_t *self, size_t viewer, json_t *status);
//  Before all viewers' answers are taken: those that come later make the descriptor readable again.
void status_feed_look (status_feed_t *self);
//  The newest answer that was not taken yet, and the reference to it; NULL: none.
json_t *status_feed_take (status_feed_t *self, size_t viewer);

#endif
