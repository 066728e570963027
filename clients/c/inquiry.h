/*  inquiry -- questions of the user's threads, which the courier sends and brings the answers of: EXPLAIN and
 *  STATUS.
 *
 *  One at a time; who asks waits.  A question that was not sent when the job is lost waits until it is joined
 *  again, one that was sent fails.
 */
#ifndef INQUIRY_H
#define INQUIRY_H
#include <stdbool.h>
#include <stdint.h>
#include "message.h"
#include "wire.h"

typedef struct inquiry inquiry_t;

enum { INQUIRY_TEXT_BYTES = 128, INQUIRY_TAG_FIRST = 1 << 20 };

inquiry_t *inquiry_new (void);
void inquiry_destroy (inquiry_t **self_p);

//  --- For the user's threads.  Both; the courier must be woken between them.

//  Waits for its turn, and leaves the question.
void inquiry_post (inquiry_t *self, wire_kind_t kind, const char *text);
//  Waits for the answer to what this thread has posted: 0 and *json_p malloc'ed, or -errno and error:
//  -ETIMEDOUT, -ENOENT (the server knows no such sample), -ECONNREFUSED (it refuses), -ECONNRESET (it is
//  gone), -EPROTO.
int inquiry_wait (inquiry_t *self, int timeout_ms, char **json_p, message_error_t *error) TUREEN_CHECKED;

//  --- For the courier.

typedef struct {
    wire_kind_t kind;
    uint64_t tag;
    char text [INQUIRY_TEXT_BYTES];
} inquiry_question_t;
//  Is there one that is not sent?
bool inquiry_look (inquiry_t *self, inquiry_question_t *question);
//  The one with this tag, which may have been given up meanwhile.
void inquiry_sent (inquiry_t *self, uint64_t tag);
//  Is the message with this tag an answer?  If it is, takes it; an answer that nobody waits for any more is
//  dropped.
bool inquiry_take (inquiry_t *self, const wire_head_t *head, const message_frame_t *frames, size_t count);
//  What was sent will not be answered.
void inquiry_lose (inquiry_t *self);
//  Nothing will be answered any more.
void inquiry_close (inquiry_t *self, const char *why);

#endif
