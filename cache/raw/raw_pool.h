/*  raw_pool -- which compressed samples of a pack are in memory, and which are read next: the raw tier's
 *  decisions.
 *
 *  A sample is *resident* from the moment its read is scheduled until a draw takes it, as if reading took no
 *  time; so nothing here depends on a completion.  Bytes and their memory are raw_store.h's.
 *
 *  Policies:
 *    stream   Passes.  A pass cuts the pack into pieces of `piece` neighbours, at other places each time, and
 *             reads them once each in random order, leaving out what nobody needs, whenever one fits below
 *             the limit; the next pass begins as this one's samples drain (raw_stream.h).  Draws should
 *             prefer what is resident, uniformly, then what this pass has been past (so that what is still to
 *             come is not read twice).
 *    redox    As published (Redox, sections 3.2 to 3.4): virtual chunks of slots, each shared by a set of
 *             physical chunks; a request is redirected to its slot's sample, an empty slot refilled from the
 *             chunk that fills most (raw_redox.h).
 *    direct   Nothing is resident; every take is a single read.
 *
 *  It knows no sampler: what jobs need comes through `need`, what a draw may choose through `accepts`.
 *
 *  Invariants, checked by raw_pool_check ():
 *    W1  the sizes of what is resident sum up to resident_bytes <= limit_bytes.
 *    W2  stream: every sample is resident, was passed, or is in a piece still to come, or no pass has begun.
 *    W3  redox: a slot holds a sample of its virtual chunk and offset; each is resident.
 *  Owner: the broker's thread.  Bookkeeping allocations abort when there is no memory.
 */
#ifndef RAW_POOL_H
#define RAW_POOL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct raw_pool raw_pool_t;

enum { RAW_PIECE_MAX = 64 };

typedef enum { RAW_STREAM, RAW_REDOX, RAW_DIRECT } raw_policy_t;

typedef enum {
    RAW_UNNEEDED,
    RAW_NEEDED,                 //  by some job, in its present epoch
    RAW_NEEDED_NEXT,            //  by none now, but by one in its next epoch, which is near enough to read
                                //  for
    RAW_NEEDED_BOTH             //  by some job in its present epoch, and by one in such a next epoch
} raw_need_t;

typedef struct {
    raw_policy_t policy;
    uint32_t samples;           //  > 0
    const uint32_t *order;      //  the id at each position; lent
    const uint32_t *positions;  //  the position of each id; lent; NULL: made here
    //  Positions at which a piece must not go on (a volume's first sample), ascending, the first is 0; lent.
    const uint32_t *breaks;
    size_t break_count;
    size_t (*sample_bytes) (void *context, uint32_t id);    //  what it takes of the limit
    raw_need_t (*need) (void *context, uint32_t id);
    void *context;
    uint64_t (*random_below) (void *random, uint64_t bound);
    void *random;
    size_t limit_bytes;         //  at least RAW_PIECE_MAX of the largest samples
    uint32_t piece;             //  stream: 1 .. RAW_PIECE_MAX samples
    uint32_t chunk;             //  redox: samples of a physical chunk, up to RAW_PIECE_MAX; breaks are
                                //  multiples of it
    uint32_t virtual_chunks;    //  redox: how many, at most the chunks there are; 0: as many as fit below the
                                //  limit
} raw_pool_options_t;

//  What is to be read: positions first .. first + count - 1, of which those in `keep` (bit i: position first
//  + i) have just become resident; the others are of no use, or resident already.
typedef struct {
    uint32_t first, count;
    uint64_t keep;
} raw_read_t;

raw_pool_t *raw_pool_new (const raw_pool_options_t *options);
void raw_pool_destroy (raw_pool_t **self_p);

//  Residents, in an order that any call below may change, 0 .. count-1: for a choice at random.  O(1).
uint32_t raw_pool_resident_count (const raw_pool_t *self);
uint32_t raw_pool_resident_at (const raw_pool_t *self, uint32_t index);
bool raw_pool_is_resident (const raw_pool_t *self, uint32_t id);
//  Whether it is not resident and this pass does not come to it any more: a single read of it is not one too
//  many.  Not under stream: whether it is not resident.
bool raw_pool_was_passed (const raw_pool_t *self, uint32_t id);

//  redox: a draw has come to id; the sample that it gets instead, which accepts allows; id, where the slot's
//  sample is not allowed, and under other policies.  May schedule a read: raw_pool_next is to be called
//  before the next redirect.
uint32_t raw_pool_redirect (raw_pool_t *self, uint32_t id, bool (*accepts) (void *context, uint32_t id),
    void *context);
//  id is drawn and about to be prepared (once a draw, however many versions come of it; committed).  True: it
//  was resident, its bytes are there or on their way; it leaves, unless a next epoch needs it too, or all
//  samples fit below the limit: raw_pool_is_resident says.  What has left may be scheduled again at any time.
//  False: the caller reads it by itself.
bool raw_pool_take (raw_pool_t *self, uint32_t id);
//  id is drawn, and a version served it: it leaves if nobody needs it.  The draw has been committed.
void raw_pool_drawn (raw_pool_t *self, uint32_t id);
//  id is out of the data for good.  To be called after raw_pool_new for all that are so then; for one that is
//  dropped later after raw_pool_drawn.
void raw_pool_dropped (raw_pool_t *self, uint32_t id);
//  A read that is due now, to be carried out in this order; false: none.  To be called until then after every
//  draw, and after each of the calls below.
bool raw_pool_next (raw_pool_t *self, raw_read_t *read);

//  Needs have become more: a job has joined, begun an epoch, or come near enough to its end that its next
//  counts.  A draw's own effect on its sample needs no call.  O(1).
void raw_pool_needs_grew (raw_pool_t *self);
//  Needs have become less (a job has left): what nobody needs leaves; but where all samples fit below the
//  limit nothing does while anything is needed.  O(residents).  A single dropped sample: raw_pool_drawn does.
void raw_pool_sweep (raw_pool_t *self);
//  Changes the limit; what is too much leaves: what nobody needs, then any at random.  stream reads pieces
//  only while one of the largest samples fits, redox fills slots while one such sample does.  redox has as
//  many virtual chunks as a new pool would have, once these are fewer, or twice as many, or all: then
//  everything leaves.
void raw_pool_limit (raw_pool_t *self, size_t limit_bytes);
//  stream: samples of a piece from now on.  If they are others than before, a new pass begins with the next
//  read, of what is needed and not resident.
void raw_pool_piece (raw_pool_t *self, uint32_t piece);
//  Everything leaves, and a new pass begins: nothing that was decided before has any effect on what is
//  decided later.
void raw_pool_restart (raw_pool_t *self);
//  left (context, id) is called when a sample has left, but not by a take: its bytes will not be asked for.
void raw_pool_on_leave (raw_pool_t *self, void (*left) (void *context, uint32_t id), void *context);

//  Calls visit for each resident sample; it must not change the pool.
void raw_pool_each (const raw_pool_t *self, void (*visit) (void *context, uint32_t id), void *context);

typedef struct {
    uint64_t passes;            //  begun
    uint64_t reads;             //  pieces or chunks scheduled
    uint64_t hits, misses;      //  takes of what was resident, and of what was not
    uint64_t discarded;         //  left, but not by a take
    uint64_t resident, resident_bytes, limit_bytes;
    uint32_t piece;             //  samples that are read together at most
    uint32_t virtual_chunks;    //  redox; else 0
    uint64_t resident_max;      //  stream: samples that may be resident, more than there are if all fit; else
                                //  0
} raw_pool_figures_t;

raw_pool_figures_t raw_pool_figures (const raw_pool_t *self);
void raw_pool_check (const raw_pool_t *self);

#endif
