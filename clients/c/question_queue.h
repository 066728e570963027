/*  question_queue -- questions of the user's threads, EXPLAIN and STATUS: the loader's thread sends them over
 *  the job's connection and brings the answers.
 *
 *  One question at a time; the asking thread waits.  When the job is lost, an unsent question waits for the
 *  next joining, and a sent one fails.
 */
#ifndef QUESTION_QUEUE_H
#define QUESTION_QUEUE_H
#include <stdbool.h>
#include <stdint.h>
#include "message.h"
#include "wire.h"

typedef struct question_queue question_queue_t;

enum { QUESTION_TEXT_BYTES = 128, QUESTION_TAG_FIRST = 1 << 20 };

question_queue_t *question_queue_new (void);
void question_queue_destroy (question_queue_t **self_p);

//  --- For the user's threads.  Both; the loader's thread must be woken between them.

//  Waits for its turn, and posts the question.
void question_queue_post (question_queue_t *self, wire_kind_t kind, const char *text);
//  Waits for the answer to what this thread has posted: 0 and *json_p malloc'ed, or -errno and error:
//  -ETIMEDOUT, -ENOENT (the server knows no such sample), -ECONNREFUSED (it refuses), -ECONNRESET (it is
//  gone), -EPROTO.
int question_queue_wait (question_queue_t *self, int timeout_ms, char **json_p,
    message_error_t *error) TUREEN_CHECKED;

//  --- For the loader's thread.

typedef struct {
    wire_kind_t kind;
    uint64_t tag;
    char text [QUESTION_TEXT_BYTES];
} question_t;
//  Whether there is an unsent question.
bool question_queue_look (question_queue_t *self, question_t *question);
//  The question with this tag was sent; it may have been given up meanwhile.
void question_queue_sent (question_queue_t *self, uint64_t tag);
//  Whether the message with this tag is an answer.  Takes it if it is; drops it if no thread waits for it any
//  more.
bool question_queue_take (question_queue_t *self, const wire_head_t *head, const message_frame_t *frames,
    size_t count);
//  The sent question will get no answer.
void question_queue_lose (question_queue_t *self);
//  No question will get an answer any more.
void question_queue_close (question_queue_t *self, const char *why);

#endif
