/*  reader_looks -- what a reader looks for on the local disk (block_data.h), as many at once as that disk can
 *  use.
 *
 *  The local disk has a cost model of its own (cost.h), of the looks that its threads carry out: the depth of
 *  the source tells nothing of it.  What lies in the page cache is answered at once, and counts nowhere.
 *
 *  failure modes:  none: what cannot be looked for beside others is waited for, as block_data.h says.
 *  Owner: one thread.
 */
#ifndef READER_LOOKS_H
#define READER_LOOKS_H
#include "block_data.h"

typedef struct reader_looks reader_looks_t;

typedef struct {
    block_data_range_t range;
    void *user;                         //  the caller's
    uint64_t nanoseconds;               //  how long it took
    //  the looks'
    uint64_t began_ns;
    uint32_t in_flight;                 //  looks, when it began, itself included
} reader_look_t;

//  NULL: no memory.
reader_looks_t *reader_looks_new (void);
//  Waits for those that were dropped, as long as callers wait for the local disk.
void reader_looks_destroy (reader_looks_t **self_p);
//  True: it is under way, and lent until it is taken or dropped.  False: it has its answer.
bool reader_looks_begin (reader_looks_t *self, reader_look_t *look);
//  The same, and waits for the answer.
void reader_looks_wait (reader_look_t *look);
//  One that has its answer; NULL: none.  Never waits.
reader_look_t *reader_looks_take (reader_looks_t *self);
//  It is no longer under way, and will not be taken.
void reader_looks_drop (reader_looks_t *self, reader_look_t *look);
uint32_t reader_looks_under_way (const reader_looks_t *self);
//  Whether fewer are under way than the local disk can use.
bool reader_looks_have_room (const reader_looks_t *self);
//  How many that are; 0: none was under way so far.  Any thread.
uint32_t reader_looks_depth (const reader_looks_t *self);
//  Readable when there may be one to take, while one is under way.
int reader_looks_descriptor (const reader_looks_t *self);

#endif
