/*  raw_pool -- which compressed samples of a pack are in memory, and which are read next: the raw tier's
 *  decisions.
 *
 *  A sample is *resident* from the moment its read is scheduled until a draw takes it, as if reading took no
 *  time; so nothing here depends on a completion.  Bytes and their memory are raw_store.h's.
 *
 *  Policies:
 *    stream   Passes.  A pass cuts the pack into pieces of `piece` neighbours, at other places each time, and
 *             reads each once in random order, without samples that no job needs, whenever one fits below the
 *             limit; the next pass begins as this one's samples drain (raw_stream.c).  Draws should prefer
 *             resident samples, uniformly, then samples that this pass has passed (so that those still to
 *             come are not read twice).
 *    redox    As published (Redox, sections 3.2 to 3.4): virtual chunks of slots, each shared by a set of
 *             physical chunks; a request is redirected to its slot's sample, an empty slot is refilled from
 *             the chunk that fills the most slots (raw_redox.c).
 *    direct   Nothing is resident; every take is a single read.
 *
 *  It knows no policy and no sampler: what a policy does comes through `ops`, what jobs need through `need`,
 *  what a draw may choose through `accepts`.
 *
 *  Invariants, checked by raw_pool_check ():
 *    W1  the sizes of the resident samples sum up to resident_bytes <= limit_bytes.
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

//  What a policy does (raw_policy.h): one of these.
typedef struct raw_policy_ops raw_policy_ops_t;
extern const raw_policy_ops_t raw_stream_ops, raw_redox_ops, raw_direct_ops;

typedef enum {
    RAW_UNNEEDED,
    RAW_NEEDED,                 //  by some job, in its present epoch
    RAW_NEEDED_NEXT,            //  by no job now, but by one in its next epoch, which is near enough to read
                                //  for
    RAW_NEEDED_BOTH             //  by some job in its present epoch, and by one in such a next epoch
} raw_need_t;

typedef struct {
    const raw_policy_ops_t *ops;
    uint32_t samples;           //  > 0
    const uint32_t *order;      //  the id at each position; lent
    const uint32_t *positions;  //  the position of each id; lent; NULL: made here
    //  Positions that a piece must not cross (a volume's first sample), ascending, the first is 0; lent.
    const uint32_t *breaks;
    size_t break_count;
    size_t (*sample_bytes) (void *context, uint32_t id);    //  the bytes that it counts
    raw_need_t (*need) (void *context, uint32_t id);
    void *context;
    uint64_t (*random_below) (void *random, uint64_t bound);
    void *random;
    size_t limit_bytes;         //  at least RAW_PIECE_MAX of the largest samples
    uint32_t piece;             //  stream: 1 .. RAW_PIECE_MAX samples
    uint32_t chunk;             //  redox: samples of a physical chunk, up to RAW_PIECE_MAX; breaks are
                                //  multiples of it
    uint32_t virtual_chunks;    //  redox: how many, at most the number of chunks; 0: as many as fit below the
                                //  limit
} raw_pool_options_t;

//  A read: positions first .. first + count - 1.  Those in `keep` (bit i: position first + i) have just
//  become resident; the others are of no use, or resident already.
typedef struct {
    uint32_t first, count;
    uint64_t keep;
} raw_read_t;

raw_pool_t *raw_pool_new (const raw_pool_options_t *options);
//  The most that a pool with so many residents holds beside their bytes; positions are lent.  chunk: of
//  redox.
size_t raw_pool_bytes (const raw_policy_ops_t *ops, uint32_t samples, uint32_t chunk, uint64_t residents);
void raw_pool_destroy (raw_pool_t **self_p);

//  Residents, in an order that any call below may change, 0 .. count-1: for a choice at random.  O(1).
uint32_t raw_pool_resident_count (const raw_pool_t *self);
uint32_t raw_pool_resident_at (const raw_pool_t *self, uint32_t index);
bool raw_pool_is_resident (const raw_pool_t *self, uint32_t id);
//  Whether the sample is not resident and this pass will not read it any more, so that a single read of it is
//  not wasted.  Other policies than stream: whether it is not resident.
bool raw_pool_was_passed (const raw_pool_t *self, uint32_t id);

//  redox: the sample that a draw of id gets instead, if accepts allows it; otherwise id, as under other
//  policies.  May schedule a read: call raw_pool_next before the next redirect.
uint32_t raw_pool_redirect (raw_pool_t *self, uint32_t id, bool (*accepts) (void *context, uint32_t id),
    void *context);
//  id is drawn and about to be prepared (call it once a draw, for all its versions; the draw is committed).
//  True: it was resident, its bytes are there or on their way.  It leaves, unless a next epoch needs it too,
//  or all samples fit below the limit: ask raw_pool_is_resident.  After that it may be scheduled again at any
//  time.  False: the caller reads it by itself.
bool raw_pool_take (raw_pool_t *self, uint32_t id);
//  id is drawn, and a version served it: it leaves if no job needs it.  The draw has been committed.
void raw_pool_drawn (raw_pool_t *self, uint32_t id);
//  id is out of the data for ever.  Call it after raw_pool_new for all such samples; for one that is dropped
//  later after raw_pool_drawn.
void raw_pool_dropped (raw_pool_t *self, uint32_t id);
//  A read that is due now, to be carried out in this order; false: none.  Call it until false after every
//  draw, and after each of the calls below.
bool raw_pool_next (raw_pool_t *self, raw_read_t *read);

//  Needs have grown: a job has joined, begun an epoch, or come near enough to its end that the next epoch
//  counts.  A draw's own effect on its sample needs no call.  O(1).
void raw_pool_needs_grew (raw_pool_t *self);
//  Needs have shrunk (a job has left): samples that no job needs leave.  But if all samples fit below the
//  limit none leaves while any is needed.  O(residents).  For a single dropped sample raw_pool_drawn is
//  enough.
void raw_pool_sweep (raw_pool_t *self);
//  Changes the limit.  Excess samples leave: first those that no job needs, then any at random.  stream reads
//  pieces, and redox fills slots, only while one of the largest samples fits.  redox changes to as many
//  virtual chunks as a new pool would have, once these are fewer, or twice as many, or all: then everything
//  leaves.
void raw_pool_limit (raw_pool_t *self, size_t limit_bytes);
//  stream: samples of a piece from now on.  If the number changes, a new pass begins with the next read, of
//  samples that are needed and not resident.
void raw_pool_piece (raw_pool_t *self, uint32_t piece);
//  Everything leaves, and a new pass begins: earlier decisions have no effect on later ones.
void raw_pool_restart (raw_pool_t *self);
//  left (context, id) is called when a sample has left without a take: its bytes will not be asked for.
void raw_pool_on_leave (raw_pool_t *self, void (*left) (void *context, uint32_t id), void *context);

//  Calls visit for each resident sample; it must not change the pool.
void raw_pool_each (const raw_pool_t *self, void (*visit) (void *context, uint32_t id), void *context);

typedef struct {
    uint64_t passes;            //  begun
    uint64_t reads;             //  pieces or chunks scheduled
    uint64_t hits, misses;      //  takes of resident samples, and of others
    uint64_t discarded;         //  samples that left without a take
    uint64_t resident, resident_bytes, limit_bytes;
    uint32_t piece;             //  most samples of one read
    uint32_t virtual_chunks;    //  redox; otherwise 0
    uint64_t resident_max;      //  stream: samples that may be resident, more than there are if all fit;
                                //  otherwise 0
} raw_pool_figures_t;

raw_pool_figures_t raw_pool_figures (const raw_pool_t *self);
void raw_pool_check (const raw_pool_t *self);


//  ---- for policies

//  The present need of jobs for a sample.
raw_need_t raw_pool_need (const raw_pool_t *self, uint32_t id);
//  How many samples, chosen regardless of size, fit into so many bytes almost surely.  So decisions count
//  samples, and sizes matter only for the hard limit, which is then hardly ever reached.
uint64_t raw_pool_capacity (const raw_pool_t *self, size_t bytes);
uint64_t raw_pool_random (const raw_pool_t *self, uint64_t bound);
//  The sample becomes resident; the policy has made sure that there is room.
void raw_pool_enter (raw_pool_t *self, uint32_t id);
//  The resident sample leaves without a take.
void raw_pool_discard (raw_pool_t *self, uint32_t id);

#endif
