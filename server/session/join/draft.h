/*  draft -- what a JOIN asks for: parsed, checked against its data set, and held until its job can be made.
 *
 *  It outlives the message, because a rank waits for others (gathering.h).  Owner: the broker's thread.
 */
#ifndef DRAFT_H
#define DRAFT_H
#include <stdint.h>
#include <sys/types.h>
#include "broker.h"
#include "caller.h"
#include "data_digest.h"
#include "layout.h"
#include "outbox.h"

//  The first three are there from draft_new on, the others from draft_place, draft_read and draft_complete on.
typedef struct {
    request_join_t request;
    peer_t peer;
    uint64_t tag;
    caller_t caller;
    dataset_t *dataset;
    const pipeline_t *pipeline;         //  one reference
    layout_t layout;
    roaring_bitmap_t *subset, *taken;   //  NULL: all, none
    const uint32_t *list;
    size_t list_count;
    sampler_list_t *list_made;          //  what list lies in; one reference
    broker_record_t *recent;            //  one block
    size_t recent_count;
    data_digest_t digest;
    uint64_t seed;
    char fresh_run [WIRE_RUN_BYTES + 1];
    broker_join_t join;                 //  the same in the broker's terms; all lent by the draft
} draft_t;

//  One that the caller may use; NULL: there is none, which is told in the same way.
dataset_t *draft_find_dataset (broker_t *broker, const caller_t *caller, const char *name, refusal_t *refusal);

//  frames are a JOIN of this peer.  NULL: refused.
draft_t *draft_new (const frame_t *frames, size_t count, const peer_t *peer, uint64_t tag, refusal_t *refusal);
//  Its data set, and its pipeline on that.  caller: whose it is; kept.  like: where the pipeline has no mark, it gets that of this
//  one; NULL: of the jobs that are there.
bool draft_place (draft_t *self, broker_t *broker, const caller_t *caller, const pipeline_t *like, refusal_t *refusal);
//  Its ids, of which there may be millions.  Any thread, while no other has the draft.
bool draft_read (draft_t *self, const frame_t *frames, refusal_t *refusal);
//  Whether that takes so long that the broker's thread should not.
bool draft_is_long (const draft_t *self, const frame_t *frames);
//  The rest of what can be told without the jobs that are there: join is filled.
bool draft_complete (draft_t *self, refusal_t *refusal);
void draft_destroy (draft_t **self_p);

//  What it holds.
size_t draft_bytes (const draft_t *self);
//  Of two that ask for the same data, one need have them: self's go to the other, if that has none; else they are let go.
void draft_yield_data (draft_t *self, draft_t *other);

#endif
