/*  raw_pool -- which compressed samples of a pack are in memory, and which are read next: the raw tier's
 *  decisions.
 *
 *  A sample is *resident* from the moment its read is scheduled until a draw takes it, as if reading took no
 *  time; so nothing here depends on a completion.  Bytes and their memory are raw_store.h's.
 *
 *  Policies:
 *    stream   Pieces of neighbours, each read once an epoch for all jobs that have little to draw from, in
 *             random order (raw_stream.c).  Each job has a *supply*: the resident samples that were read for
 *             it.  Draws should prefer the supplies of their jobs, uniformly, then any resident samples.
 *    redox    As published (Redox, sections 3.2 to 3.4): virtual chunks of slots, each shared by a set of
 *             physical chunks; a request is redirected to its slot's sample, an empty slot is refilled from
 *             the chunk that fills the most slots (raw_redox.c).
 *    direct   Nothing is resident; every take is a single read.
 *
 *  It knows no policy and no sampler: what a policy does comes through `ops`, what jobs need through `need`
 *  and `unopened`, what a draw may choose through `accepts`.
 *
 *  Invariants, checked by raw_pool_check ():
 *    W1  the sizes of the resident samples sum up to resident_bytes <= limit_bytes.
 *    W2  stream: supplies hold resident samples; the count of supplies that hold a sample is right; a job's
 *        pieces still to come, and those that have come, are all its pieces.
 *    W3  redox: a slot holds a sample of its virtual chunk and offset; each is resident.
 *  Owner: the broker's thread.  Bookkeeping allocations abort when there is no memory.
 */
#ifndef RAW_POOL_H
#define RAW_POOL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct raw_pool raw_pool_t;

enum { RAW_PIECE_MAX = 64, RAW_JOBS_MAX = 256 };

//  In place of a job's number.
enum { RAW_ANY_JOB = 0xffffffff };

typedef enum { RAW_STREAM, RAW_REDOX, RAW_DIRECT } raw_policy_t;

//  What a policy does (raw_policy.h): one of these.
typedef struct raw_policy_ops raw_policy_ops_t;
extern const raw_policy_ops_t raw_stream_ops, raw_redox_ops, raw_direct_ops;

//  What a job needs of a sample: a bit for each.
typedef enum {
    RAW_UNNEEDED = 0,
    RAW_NEEDED = 1,             //  in its present epoch
    RAW_SERVED = 2,             //  in its present epoch, but a version is there, and would serve it once the
                                //  sample is open to it: it need not be read
    RAW_NEEDED_NEXT = 4         //  in its next epoch, if it goes on
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
    //  RAW_ANY_JOB: what some job needs.
    raw_need_t (*need) (void *context, uint32_t job, uint32_t id);
    //  stream: samples are *open* to a job once they have been read for it: it may draw them, and use their
    //  versions.  Opens the sample (or closes it, if it has left): idempotent.
    void (*open) (void *context, uint32_t job, uint32_t id, bool open);
    //  stream: how many samples that the job needs in its present epoch are not open to it; and whether it
    //  begins another epoch.
    uint64_t (*unopened) (void *context, uint32_t job);
    bool (*goes_on) (void *context, uint32_t job);
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
//  The same for each job.
size_t raw_pool_job_bytes (const raw_policy_ops_t *ops, uint32_t samples, uint64_t residents);
void raw_pool_destroy (raw_pool_t **self_p);

//  Residents, in an order that any call below may change, 0 .. count-1: for a choice at random.  O(1).
uint32_t raw_pool_resident_count (const raw_pool_t *self);
uint32_t raw_pool_resident_at (const raw_pool_t *self, uint32_t index);
bool raw_pool_is_resident (const raw_pool_t *self, uint32_t id);

//  ---- jobs: stream has a supply for each; other policies none

//  The job, a number below RAW_JOBS_MAX, is there from now on: its needs have grown.
void raw_pool_join (raw_pool_t *self, uint32_t job);
//  It is there no more: call raw_pool_sweep after that.
void raw_pool_leave (raw_pool_t *self, uint32_t job);
//  Its next epoch has begun; nothing is open to it.
void raw_pool_epoch_begin (raw_pool_t *self, uint32_t job);
//  How fast it draws, in samples for each one of the fastest job: 0 .. 1.  At first 1.
void raw_pool_pace (raw_pool_t *self, uint32_t job, double speed);
//  The sample leaves the job's supply, though the job may need it: a later pass brings it back.  It stays
//  resident until it is drawn.
void raw_pool_give_back (raw_pool_t *self, uint32_t job, uint32_t id);
//  A job with far more than its part gives some back, which may leave.  Call it after each draw.
void raw_pool_share_out (raw_pool_t *self);
//  The job's supply, in an order that any call may change.  O(1).
uint32_t raw_pool_supply_count (const raw_pool_t *self, uint32_t job);
uint32_t raw_pool_supply_at (const raw_pool_t *self, uint32_t job, uint32_t index);
bool raw_pool_is_in_supply (const raw_pool_t *self, uint32_t job, uint32_t id);

//  ---- draws

//  redox: the sample that a draw of id gets instead, if accepts allows it; otherwise id, as under other
//  policies.  May schedule a read: call raw_pool_next before the next redirect.
uint32_t raw_pool_redirect (raw_pool_t *self, uint32_t id, bool (*accepts) (void *context, uint32_t id),
    void *context);
//  id is drawn and about to be prepared (call it once a draw, for all its versions; the draw is committed).
//  True: it was resident, its bytes are there or on their way.  It leaves, unless a supply still needs it, or
//  all samples fit below the limit: ask raw_pool_is_resident.  After that it may be scheduled again at any
//  time.  False: the caller reads it by itself.
bool raw_pool_take (raw_pool_t *self, uint32_t id);
//  id is drawn, and a version served it: it leaves if no job wants it.  The draw has been committed.
void raw_pool_drawn (raw_pool_t *self, uint32_t id);
//  id is out of the data for ever.  Call it after raw_pool_new for all such samples; for one that is dropped
//  later after raw_pool_drawn.
void raw_pool_dropped (raw_pool_t *self, uint32_t id);
//  A read that is due now, to be carried out in this order; false: none.  Call it until false after every
//  draw, and after each of the calls below.
bool raw_pool_next (raw_pool_t *self, raw_read_t *read);

//  Needs have grown: a job has joined or begun an epoch.  A draw's own effect on its sample needs no call.
//  O(1).
void raw_pool_needs_grew (raw_pool_t *self);
//  Needs have shrunk (a job has left): samples that no job wants leave.  But if all samples fit below the
//  limit none leaves while any is wanted.  O(residents x jobs), and of
//  stream, unless all fit, O(next supplies of jobs that begin no further epoch).  For a single dropped sample
//  raw_pool_drawn is enough.
void raw_pool_sweep (raw_pool_t *self);
//  Changes the limit.  Excess samples leave: first those that no job needs, then any at random.  stream reads
//  pieces, and redox fills slots, only while one of the largest samples fits.  redox changes to as many
//  virtual chunks as a new pool would have, once these are fewer, or twice as many, or all: then everything
//  leaves.
void raw_pool_limit (raw_pool_t *self, size_t limit_bytes);
//  stream: samples of a piece from now on.  If the number changes, each job's pieces are cut again.
void raw_pool_piece (raw_pool_t *self, uint32_t piece);
//  Everything leaves, and all pieces are cut again: earlier decisions have no effect on later ones.
void raw_pool_restart (raw_pool_t *self);
//  left (context, id) is called when a sample has left without a take: its bytes will not be asked for.
void raw_pool_on_leave (raw_pool_t *self, void (*left) (void *context, uint32_t id), void *context);

//  Calls visit for each resident sample; it must not change the pool.
void raw_pool_each (const raw_pool_t *self, void (*visit) (void *context, uint32_t id), void *context);

typedef struct {
    uint64_t passes;            //  begun, of all jobs together
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

//  A job's present need of a sample, or RAW_ANY_JOB's.
raw_need_t raw_pool_need (const raw_pool_t *self, uint32_t job, uint32_t id);
//  How many samples, chosen regardless of size, fit into so many bytes almost surely.  So decisions count
//  samples, and sizes matter only for the hard limit, which is then hardly ever reached.
uint64_t raw_pool_capacity (const raw_pool_t *self, size_t bytes);
uint64_t raw_pool_random (const raw_pool_t *self, uint64_t bound);
//  The sample becomes resident; the policy has made sure that there is room.
void raw_pool_enter (raw_pool_t *self, uint32_t id);
//  The resident sample leaves without a take.
void raw_pool_discard (raw_pool_t *self, uint32_t id);

#endif
