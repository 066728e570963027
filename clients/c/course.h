/*  course -- how far a job has come: which samples of the open epoch were had.
 *
 *  There are two of each job: what the courier received (with which it joins again), and what the user was
 *  given (which is the state).  Of a job that gave a list, how far is a place in the list; of every other job
 *  it is a bitmap of ids.
 *
 *  An unreadable sample is never had: in a list, the next place is the nearest one with the id that came, and
 *  those between are behind us.
 *  Owner: one thread at a time.
 */
#ifndef COURSE_H
#define COURSE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct course course_t;

//  What of an epoch is behind a job.
typedef struct {
    bool list;                          //  count is of a list's places; else of samples, and words say which
    uint64_t count;
    uint64_t *words;                    //  malloc'ed; NULL: none.  Bit i of word w is id 64 w + i
    size_t word_count;                  //  the last one is not 0
} course_taken_t;

void course_taken_clear (course_taken_t *taken);

//  At the beginning of epoch 0.  list: lent, NULL for a job that gave none; samples: of the data set.  NULL:
//  no memory, or more samples than ids have numbers (2^32).
course_t *course_new (const uint64_t *list, size_t list_count, uint64_t samples);
void course_destroy (course_t **self_p);

//  Goes on where taken says.  False, and nothing is changed: it is of a list and the job has none or the
//  other way round, or it is beyond the list's or the data's end.
bool course_resume (course_t *self, uint64_t epoch, uint64_t batches, const course_taken_t *taken);
//  From here on another job goes on where this one was.
void course_go_on (course_t *self);
//  Samples of a batch were had.  False: an id that is not in the data set, is had already, or is not in what
//  is left of the list; the others are taken all the same.
bool course_take (course_t *self, const uint64_t *ids, size_t count);
void course_end_batch (course_t *self);
//  The epoch is over.
void course_end_epoch (course_t *self);

uint64_t course_epoch (const course_t *self);
//  Batches that were had of the epoch, by the jobs before this one too.
uint64_t course_batches (const course_t *self);
//  Likewise samples; false: not known for sure, because the epoch was gone on with (places of a list may be
//  unreadable).
bool course_samples (const course_t *self, uint64_t *samples_p);
//  A copy, for course_taken_clear.  False: no memory.
bool course_taken (const course_t *self, course_taken_t *taken);

#endif
