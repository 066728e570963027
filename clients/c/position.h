/*  position -- where a job stands: its epoch, and which samples of that epoch it has had.
 *
 *  A job has two: one of the samples that the loader's thread received (with which it joins again), one of
 *  those given to the user (the state).  For a job with a list the position is a place in the list; for any
 *  other job a bitmap of ids.
 *
 *  An unreadable sample never comes: in a list, the next place is the nearest one with the received id, and
 *  the places between are skipped.  Owner: one thread at a time.
 */
#ifndef POSITION_H
#define POSITION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct position position_t;

//  The part of an epoch that a job has had.
typedef struct {
    bool list;                          //  count is of a list's places; false: of samples, which words name
    uint64_t count;
    uint64_t *words;                    //  malloc'ed; NULL: none.  Bit i of word w is id 64 w + i
    size_t word_count;                  //  the last one is not 0
} position_taken_t;

void position_taken_clear (position_taken_t *taken);

//  Where an epoch's parts were made, in a job over several nodes; all zero: where it begins.
typedef struct {
    uint64_t batches;
    position_taken_t taken;
} position_cut_t;

//  True, and *copy for position_taken_clear; false: no memory.
bool position_cut_copy (position_cut_t *copy, const position_cut_t *cut);

//  A position at the beginning of epoch 0.  list: lent, NULL: the job has none; samples: of the data set.
//  NULL: no memory, or more samples than there are ids (2^32).
position_t *position_new (const uint64_t *list, size_t list_count, uint64_t samples);
void position_destroy (position_t **self_p);

//  Before position_resume: the position is that of one of several nodes (nodes is 1: it is not), in an epoch
//  with this cut.  Of a list the node has every nodes-th place, and the position counts places as if all
//  nodes had been given as many.  False: no memory.
bool position_set_node (position_t *self, uint32_t nodes, uint32_t node, const position_cut_t *cut);
//  The cut of the open epoch, a copy for position_taken_clear.  False: no memory.
bool position_cut (const position_t *self, position_cut_t *cut);

//  Continues from taken.  False, and nothing is changed: only one of taken and job has a list, or taken is
//  beyond the end of the list or the data.
bool position_resume (position_t *self, uint64_t epoch, uint64_t batches, const position_taken_t *taken);
//  From here on another job continues this one.
void position_next_job (position_t *self);
//  Takes the samples of a batch.  False: an id is not in the data set, was taken already, or is not in the
//  rest of the list; the other ids are taken all the same.
bool position_take (position_t *self, const uint64_t *ids, size_t count);
void position_end_batch (position_t *self);
//  The epoch is over.
void position_end_epoch (position_t *self);

uint64_t position_epoch (const position_t *self);
//  Batches of the epoch, those of earlier jobs included.
uint64_t position_batches (const position_t *self);
//  Likewise samples; false: unknown, because the epoch was resumed (places of a list may be unreadable), or
//  another job went on with the list: one of several ranks may be in front of the epoch that the job resumed.
bool position_samples (const position_t *self, uint64_t *samples_p);
//  A copy, for position_taken_clear.  False: no memory.
bool position_taken (const position_t *self, position_taken_t *taken);

#endif
