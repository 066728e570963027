/*  raw_store -- compressed samples in memory, and the reads that bring them.
 *
 *  A sample is here while it is held: by a raw pool in which it is resident, or by a version that is to be
 *  prepared from it.  Several pools and versions share one copy.  The raw pool (raw_pool.h) decides as if
 *  reading took no time; the store does the part that takes time:
 *
 *      hold            queued            raw_store_next        raw_store_done
 *      new sample ---> AWAITED, in a request -----> AWAITED, memory -----> READY or BAD
 *                         ^-------------------- raw_store_again -------------'
 *
 *  A failed read that may succeed later can rest (raw_store_rest): its samples have no memory then, and no
 *  other read waits behind it.  raw_store_retry puts it back in line, before the others of its source.
 *
 *  Requests stand in *lanes*, one for each requester.  In a lane, requests of one source are handed out in
 *  the order in which they were made, each when the budget has memory for all its samples.  Lanes take turns,
 *  and so do the sources of a lane.  A lane may have a *part* of the budget; the unused rest of a part is
 *  kept for its lane.
 *    - A request that keeps its lane within its part, or a lane's first request, gets memory as soon as there
 *      is any.
 *    - Any other request gets memory only if the rests that are kept for lanes are still there then.  So a
 *      lane that is alone has everything.
 *  The memory of a sample counts on one lane: the one given to raw_store_count, else the one that brings it.
 *  A sample that several lanes wait for can stand in each of them (raw_store_also).  The lane that has the
 *  turn reads it: with the whole request of lane 0 if there is memory for that; else, if the lane has little
 *  in memory, alone; then it counts on this lane and keeps its place in the others.  So a lane with many
 *  requests never holds up a lane within its part, even if both want the same samples.
 *
 *  Lane 0 holds requests that no row waits for.  It has no part.  Beside other lanes it has no order and no
 *  claim to a turn, since an awaited sample also stands in the lane that waits.  Alone, it is a plain queue.
 *
 *  The caller keeps residents within a part of the budget.  Versions give back the memory beside that as they
 *  are prepared.
 *  A lane that has little and was passed over for long is waited for.  So the first request of each lane but
 *  lane 0 always gets its turn.
 *
 *  Invariants, checked by raw_store_check ():
 *    R1  memory_bytes is the sum over samples with memory, and <= budget_bytes unless a single request alone
 *        is larger.
 *    R2  a sample without holds exists only while a read that was handed out writes it.
 *    R3  an awaited sample is in just one request.
 *    R4  a lane's bytes are those of samples with memory that count on it; the queued requests are those in
 *        lanes.
 *    R5  all parts together are <= budget_bytes.
 *  Owner: the broker's thread.  While a request is handed out, its reader writes the memory of its samples,
 *  and nothing else.
 */
#ifndef RAW_STORE_H
#define RAW_STORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "raw_pool.h"

typedef struct raw_store raw_store_t;

enum { RAW_LANES_MAX = 65, RAW_SOURCES_MAX = 64 };

typedef enum { RAW_SAMPLE_AWAITED, RAW_SAMPLE_READY, RAW_SAMPLE_BAD } raw_sample_state_t;

//  Read-only for the caller, but for the last group.
typedef struct raw_sample {
    //  set at birth
    uint32_t source;                    //  the caller's number of the data set, < RAW_SOURCES_MAX
    uint32_t id;
    size_t bytes;
    //  the store's
    raw_sample_state_t state;
    int rc;                             //  BAD: -errno, or -EBADMSG: the checksum differs
    uint8_t *memory;                    //  `bytes` long; NULL until its read is handed out
    uint32_t home;                      //  the lane on which it counts, or will, + 1; 0: it is new
    uint32_t holds;
    uint64_t asked;                     //  AWAITED: a bit for each lane but the first that raw_store_also
                                        //  named
    uint64_t stands;                    //  a bit for each lane where it has a place in the queue, besides its
                                        //  request's
    bool was_damaged;                   //  its checksum was wrong once: it is read once more
    struct raw_request *request;        //  AWAITED: the request that brings it
    struct raw_sample *chain;
    //  the caller's
    void *waiting;                      //  the versions that wait for it
    float pinned_part, saved_seconds;   //  of its read: what pins gave, and the time that this saved
    bool is_uncounted;                  //  no job has been told of its read
} raw_sample_t;

//  One read: positions first .. first + count - 1 of the source's pack, for some of the samples there.
typedef struct raw_request {
    uint32_t source;
    uint32_t first, count;
    raw_sample_t *samples [RAW_PIECE_MAX];      //  those that are still wanted
    uint32_t sample_count;
    //  the reader's answer
    int rc;                             //  -errno: none of them was read
    uint64_t damaged;                   //  bit i: samples [i] does not have its checksum
    uint64_t read_bytes, read_ns;       //  what it cost, whole blocks, and how long that took
    uint64_t pinned_bytes, saved_ns;    //  what was pinned instead, whole units, and the time that this saved
    uint64_t cached_bytes, cached_ns;   //  what came from the local disk's cache of a store instead,
    uint64_t peer_bytes, peer_ns;       //  and from other members of the cluster
    uint32_t gets, slow_gets;           //  how often a store was asked; of these, given up as slow
    //  the caller's; a request that is split hands them on
    int64_t failed_ms;                  //  when it failed first,
    uint32_t failures;                  //  and how often since
    //  the store's
    bool is_afresh;                     //  it was damaged: do not read it from the page cache
    uint32_t lane;
    uint32_t also;                      //  only a place for a sample in another request: its id + 1; 0: a
                                        //  real request
    bool handed_out;                    //  or resting
    struct raw_request *next;
} raw_request_t;

//  Whether it is new: no request for it yet.
static inline bool
raw_sample_is_new (const raw_sample_t *sample)
{
    return sample->state == RAW_SAMPLE_AWAITED && !sample->request;
}

//  The lane on which it counts, or will once it has memory; not for a new sample.
static inline uint32_t
raw_sample_lane (const raw_sample_t *sample)
{
    return sample->home - 1;
}

raw_store_t *raw_store_new (size_t budget_bytes);
//  No sample may be held, and no request handed out.
void raw_store_destroy (raw_store_t **self_p);

//  Adds a hold on the sample, and returns it; a new one (AWAITED, no request yet) if it is missing: the
//  caller then makes the request.
raw_sample_t *raw_store_hold (raw_store_t *self, uint32_t source, uint32_t id, size_t bytes);
//  NULL: the store does not have it.
raw_sample_t *raw_store_find (const raw_store_t *self, uint32_t source, uint32_t id);
//  Removes a hold.  After the last one the sample is freed, with its memory and, unless handed out, its place
//  in a request.
void raw_store_drop (raw_store_t *self, raw_sample_t *sample);

//  Gives the lane, not lane 0, so much of the budget as its part (0 at first); all parts together <= the
//  budget.  While the lane has less than alone_bytes, it does not wait to read samples together.
void raw_store_part (raw_store_t *self, uint32_t lane, size_t bytes, size_t alone_bytes);
//  Whether the sample may keep its memory on its lane: the memory kept for other lanes is free, and the lane
//  does not wait for memory for earlier requests.
bool raw_store_has_room (const raw_store_t *self, const raw_sample_t *sample);
//  Queues one read for new samples, up to RAW_PIECE_MAX.  When it is handed out, its range spans the samples
//  that are still wanted.
void raw_store_request (raw_store_t *self, uint32_t lane, uint32_t source, raw_sample_t *const *samples,
    uint32_t count);
//  Gives an awaited sample a place in this lane's queue, too; if its request is handed out already, for the
//  case that it fails.  Idempotent.
void raw_store_also (raw_store_t *self, uint32_t lane, raw_sample_t *sample);
//  The sample's memory counts on this lane, whichever lane reads it.
void raw_store_count (raw_store_t *self, raw_sample_t *sample, uint32_t lane);
//  Frees the READY sample's bytes, though it is held: it is AWAITED again, alone, in the lane on which it
//  counts; in its old place in the queue, or first if that place was reached meanwhile.
void raw_store_again (raw_store_t *self, raw_sample_t *sample);
//  From now on no request of these sources (a bit for each) is handed out: enough of theirs are under way.
//  Other requests do not wait for them.
void raw_store_hold_back (raw_store_t *self, uint64_t sources);
//  The next request in turn, its samples with memory, to be carried out; NULL: none, or there is no memory
//  for it now.
raw_request_t *raw_store_next (raw_store_t *self);
//  Nothing is under way that would give memory back: each lane's next request may use memory kept for others.
void raw_store_hurry (raw_store_t *self);
//  The request was handed out, and is not carried out now: its samples give their memory back.  The caller
//  owns it until raw_store_retry.
void raw_store_rest (raw_store_t *self, raw_request_t *request);
//  Makes a resting request the first of its lane.  False: none of its samples is wanted any more, and it was
//  freed.
bool raw_store_retry (raw_store_t *self, raw_request_t *request);
//  The request has been carried out, with its answer filled in: samples become READY or BAD.  If several
//  could not be read together each is read again by itself, so that damage costs only the damaged ones; so is
//  a sample with a wrong checksum, once.  Calls arrived (context, sample) for each held sample that is READY
//  or BAD now; it must not drop the last hold of another sample of the request.  Frees the request.
void raw_store_done (raw_store_t *self, raw_request_t *request,
    void (*arrived) (void *context, raw_sample_t *sample), void *context);

//  position (context, source, id) of a sample in its source.
void raw_store_on_position (raw_store_t *self,
    uint32_t (*position) (void *context, uint32_t source, uint32_t id), void *context);

//  No sample of the source is here any more: forgets its emptied requests, so that another source may have
//  its number.
void raw_store_forget (raw_store_t *self, uint32_t source);
//  Whether anything of the source is here.
bool raw_store_has (const raw_store_t *self, uint32_t source);

size_t raw_store_bytes (const raw_store_t *self);
size_t raw_store_samples (const raw_store_t *self);
size_t raw_store_queued (const raw_store_t *self);      //  requests not handed out
void raw_store_check (const raw_store_t *self);

#endif
