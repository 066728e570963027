/*  inquiry -- questions of the user's threads, EXPLAIN and STATUS: the loader's thread sends them and brings
 *  the answers.
 *
 *  One question at a time; the asking thread waits.  When the job is lost, an unsent question waits for the
 *  next joining, and a sent one fails.
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

//  --- For the user's threads.  Both; the loader's thread must be woken between them.

//  Waits for its turn, and posts the question.
void inquiry_post (inquiry_t *self, wire_kind_t kind, const char *text);
//  Waits for the answer to what this thread has posted: 0 and *json_p malloc'ed, or -errno and error:
//  -ETIMEDOUT, -ENOENT (the server knows no such sample), -ECONNREFUSED (it refuses), -ECONNRESET (it is
//  gone), -EPROTO.
int inquiry_wait (inquiry_t *self, int timeout_ms, char **json_p, message_error_t *error) TUREEN_CHECKED;

//  --- For the loader's thread.

typedef struct {
    wire_kind_t kind;
    uint64_t tag;
    char text [INQUIRY_TEXT_BYTES];
} inquiry_question_t;
//  Whether there is an unsent question.
bool inquiry_look (inquiry_t *self, inquiry_question_t *question);
//  The question with this tag was sent; it may have been given up meanwhile.
void inquiry_sent (inquiry_t *self, uint64_t tag);
//  Whether the message with this tag is an answer.  Takes it if it is; drops it if no thread waits for it any
//  more.
bool inquiry_take (inquiry_t *self, const wire_head_t *head, const message_frame_t *frames, size_t count);
//  The sent question will get no answer.
void inquiry_lose (inquiry_t *self);
//  No question will get an answer any more.
void inquiry_close (inquiry_t *self, const char *why);

#endif
