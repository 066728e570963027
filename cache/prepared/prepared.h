/*  prepared -- the prepared cache: the versions that exist, the order of eviction, and their memory.
 *
 *  A version (version_t) is one prepared form of a sample, the result of a shared stage: (class, sample id,
 *  draw number).  The *index* is all that decisions see: a version is in it from the moment it is scheduled,
 *  as if preparing took no time, until it is evicted.  A version gets *memory* when a worker gets it, and
 *  loses it when it is out of the index and unpinned.  So no eviction depends on the moment at which a worker
 *  finishes, and a pending version can be evicted: its pins still get it.
 *
 *  Eviction is JOADER's RefCnt (Xie et al., NeurIPS 2022, section 3.2): the lowest reference count first,
 *  ties at random, the new version among the candidates.  The caller keeps the counts: how many jobs may
 *  still use a version.
 *
 *  Every indexed version is on one *account*, and is of use to some accounts, its *sharers*.  An eviction
 *  hits the account that has most for its weight (ties at random; versions on no account first): first
 *  versions of no use to the account itself, then the rest, both by RefCnt.  A version that is of use to an
 *  account with less moves to that account instead.
 *  So an account with no more than its part by weight loses no version that is of use to it, whatever happens
 *  on other accounts; other accounts may take the space of versions that it does not use.  With one account
 *  this is plain RefCnt.
 *
 *  Invariants, checked by prepared_check ():
 *    P1  indexed bytes <= limit_bytes <= budget_bytes.
 *    P2  bytes of memory in use <= budget_bytes, fixed at birth.
 *    P3  a version is freed when it is neither indexed nor pinned, and not before.
 *    P4  a version is in the bucket of its count, on its account, among the versions of use to the account or
 *        among the rest.
 *    P5  an account's bytes are those of its versions, and no more than its bytes_max.
 *    P6  every eviction is counted on one account.
 *  Owner: the broker's thread.  Others touch only the memory of a version that is pinned for them.
 */
#ifndef PREPARED_H
#define PREPARED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct prepared prepared_t;

enum {
    PREPARED_JOBS_MAX = 256,
    PREPARED_NOBODY = 64,       //  versions on no account, evicted first; accounts are 0 ..
                                //  PREPARED_NOBODY - 1
    PREPARED_ACCOUNTS = PREPARED_NOBODY + 1,
    PREPARED_WEIGHT_MAX = 1000
};

typedef enum {
    VERSION_IDLE,               //  scheduled, and no row waits for it now
    VERSION_READING,            //  a row waits, and the sample's bytes are not there yet
    VERSION_QUEUED,             //  a row waits; to be handed to a worker
    VERSION_WORKING,            //  a worker writes its memory
    VERSION_READY,
    VERSION_BAD                 //  it could not be prepared; out of the index
} version_state_t;

//  One prepared form of a sample.  Read-only for the caller except the last group, which the cache ignores.
typedef struct version {
    //  set at birth
    uint32_t class;
    uint32_t id;
    uint32_t draw;
    size_t bytes;
    //  the cache's
    uint8_t *memory;            //  NULL until prepared_reserve; aligned to 64, in block
    void *block;
    uint32_t count;
    uint32_t pins;
    uint32_t account;           //  while it is indexed
    uint64_t sharers;           //  a bit for each account that it is of use to
    uint32_t place;             //  in its bucket
    bool indexed;
    struct version *chain;      //  same hash
    //  the caller's
    version_state_t state;
    bool is_fetched;                            //  WORKING, of plain files: they have been read
    bool is_shared;                             //  more than one job has used it, and that was counted
    uint64_t maker;                             //  the job that it was scheduled for; 0: no job has got it
                                                //  yet
    uint32_t jobs;                              //  that used it, each once
    uint32_t record;                            //  its record (server/broker/model/sharing.h), if the
                                                //  record's birth is record_birth
    uint64_t served, told;                      //  a bit for each tenant with a job that used it; and for
                                                //  each with several such jobs, already counted
    uint64_t record_birth;
    uint64_t seen [PREPARED_JOBS_MAX / 64];     //  jobs that used it
    void *waiting;                              //  the rows that wait for it
    uint64_t payers;                            //  tenants charged for the worker's time; 0: no worker has it
    uint32_t charged_us;                        //  the estimate of a worker's time
    uint32_t holder;                            //  tenant that holds its memory
                                                //  (server/broker/dispatch/dispatch.c): number + 1; 0: none
    uint64_t ticket;                            //  its number in the reusable versions; 0: not among them
    uint64_t drawn_at;                          //  its place in the passes (sampler/passes.h); 0: it has none
    void *raw;                                  //  its sample's compressed bytes
    struct version *next_raw, *previous_raw;    //  versions that wait for the same bytes
    void *resting;                              //  of plain files: they wait for a retry
                                                //  (server/broker/fetch/patience.h)
    int64_t failed_ms;                          //  when reading them first failed,
    uint32_t failures;                          //  and how often since
} version_t;

typedef struct {
    size_t budget_bytes;        //  never exceeded, index and pins together
    size_t limit_bytes;         //  what the index may hold at first; see prepared_limit
    uint64_t (*random_below) (void *random, uint64_t bound);    //  for ties
    void *random;
} prepared_options_t;

prepared_t *prepared_new (const prepared_options_t *options);
//  Frees every version.  No version may be pinned: a pin left is our bug.
void prepared_destroy (prepared_t **self_p);

//  Changes the index's limit (<= budget_bytes), and evicts down to it.
void prepared_limit (prepared_t *self, size_t limit_bytes);

//  Sets an account's weight (1 .. PREPARED_WEIGHT_MAX; 1 at first) and its limit (SIZE_MAX at first: none),
//  and evicts down to it.  Not for PREPARED_NOBODY.
void prepared_account (prepared_t *self, uint32_t account, uint32_t weight, size_t bytes_max);
//  Bytes that the account uses outside the index: they count only where accounts are compared.
void prepared_account_outside (prepared_t *self, uint32_t account, size_t outside_bytes);
size_t prepared_account_bytes (const prepared_t *self, uint32_t account);
size_t prepared_account_outside_bytes (const prepared_t *self, uint32_t account);
//  Whether so many bytes more stay below the account's bytes_max.
bool prepared_account_fits (const prepared_t *self, uint32_t account, size_t bytes);

//  The indexed versions of a sample, one after the other, in no particular order; NULL: no more.
version_t *prepared_find (prepared_t *self, uint32_t class, uint32_t id);
version_t *prepared_find_next (version_t *version);
//  Enters a version with this count on this account, of use to it, pinned once for the caller; then evicts
//  down to the limit, perhaps this version itself.  bytes <= limit_bytes.
version_t *prepared_insert (prepared_t *self, uint32_t account, uint32_t class, uint32_t id, uint32_t draw,
    size_t bytes, uint32_t count);
//  Whether a version of so many bytes could be entered on this account without an eviction.
bool prepared_has_room (const prepared_t *self, uint32_t account, size_t bytes);
//  Takes it out of the index at once, without counting an eviction.  Frees it if it is not pinned.
void prepared_remove (prepared_t *self, version_t *version);
//  Changes an indexed version's count by +1 or -1.
void prepared_count (prepared_t *self, version_t *version, int change);

//  Sets an indexed version's sharers, and moves it to this account, where it must fit if it is another one.
void prepared_share (prepared_t *self, version_t *version, uint64_t sharers, uint32_t account);

void prepared_pin (version_t *version);
//  Removes a pin.  After the last one a version that is not indexed is freed.
void prepared_unpin (prepared_t *self, version_t *version);
//  Memory for the version, if the budget has room now (or it has it already).
bool prepared_reserve (prepared_t *self, version_t *version);
//  Gives that memory back unused.
void prepared_release (prepared_t *self, version_t *version);

//  All indexed versions, in no particular order: calls visit for each.  visit may change counts and
//  accounts, not the index.
void prepared_each (prepared_t *self, void (*visit) (void *context, version_t *version), void *context);

size_t prepared_memory_bytes (const prepared_t *self);
size_t prepared_versions (const prepared_t *self);      //  indexed
uint64_t prepared_evictions (const prepared_t *self);
//  The evictions of versions on this account.
uint64_t prepared_account_evictions (const prepared_t *self, uint32_t account);
//  Called when a version has just left the index, evicted or removed, and is still there.  It may be one that
//  prepared_insert has not returned yet.  left must not change the index.
void prepared_on_leave (prepared_t *self, void (*left) (void *context, version_t *version, bool evicted),
    void *context);
//  Called when a version is freed, so that the caller can count those of a class.
void prepared_on_free (prepared_t *self, void (*freed) (void *context, const version_t *version),
    void *context);

//  Aborts naming the broken invariant; O(versions).
void prepared_check (const prepared_t *self);

#endif
