/*  prepared -- the prepared cache: the versions that exist, the order of eviction, and their memory.
 *
 *  A version is one result of a shared stage: (class, sample id, draw number).  The *index* is all that
 *  decisions see: a version is in it from the moment it is scheduled, as if preparing took no time, until it
 *  is evicted.  A version gets *memory* when a worker gets it, and loses it when it is out of the index and
 *  unpinned.  So no eviction depends on the moment at which a worker finishes, and a pending version can be
 *  evicted: its pins still get it.
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
 *  on other accounts; other accounts may take the versions that it does not use.  With one account this is
 *  plain RefCnt.
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

//  Read-only for the caller but for the last group, which the cache does not look at.
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
    uint32_t account;           //  as long as it is indexed
    uint64_t sharers;           //  a bit for each account that it is of use to
    uint32_t place;             //  in its bucket
    bool indexed;
    struct version *chain;      //  same hash
    //  the caller's
    version_state_t state;
    bool is_fetched;                            //  WORKING, of plain files: they have been read
    bool is_shared;                             //  more than one job has used it, and that was told
    uint64_t maker;                             //  the job that it was scheduled for; 0: nobody has got it
                                                //  yet
    uint32_t jobs;                              //  that used it, each once
    uint64_t served, told;                      //  a bit for each tenant whose jobs used it; of which more
                                                //  than one did, and that was told
    uint32_t record;                            //  what places remember of it
                                                //  (server/broker/model/sharing.h), if its birth is
    uint64_t record_birth;                      //  this
    uint64_t seen [PREPARED_JOBS_MAX / 64];     //  jobs that used it
    void *waiting;                              //  who waits for it
    uint64_t payers;                            //  tenants that a worker's time for it is charged to; 0: none
                                                //  has it
    uint32_t charged_us;                        //  what it was thought to take
    uint32_t holder;                            //  who has hold of its memory
                                                //  (server/broker/dispatch/dispatch.c): number + 1; 0: nobody
    uint64_t ticket;                            //  names it on a reusable set; 0: it is on none
    void *raw;                                  //  its sample's compressed bytes
    struct version *next_raw, *previous_raw;    //  that wait for the same
    void *resting;                              //  of plain files: they wait to be read again
                                                //  (server/broker/draw/patience.h)
    int64_t failed_ms;                          //  when reading them failed first,
    uint32_t failures;                          //  and how often since
} version_t;

typedef struct {
    size_t budget_bytes;        //  never exceeded, index and pins together
    size_t limit_bytes;         //  what the index may hold at first; see prepared_limit
    uint64_t (*random_below) (void *random, uint64_t bound);    //  for ties
    void *random;
} prepared_options_t;

prepared_t *prepared_new (const prepared_options_t *options);
//  Frees every version.  Nothing may be pinned: a pin left is our bug.
void prepared_destroy (prepared_t **self_p);

//  Changes what the index may hold (<= budget_bytes), evicting what is too much.
void prepared_limit (prepared_t *self, size_t limit_bytes);

//  An account's weight (1 .. PREPARED_WEIGHT_MAX; 1 at first) and the most that it may have (SIZE_MAX at
//  first: as much as there is), evicting what is too much.  Not of PREPARED_NOBODY.
void prepared_account (prepared_t *self, uint32_t account, uint32_t weight, size_t bytes_max);
//  Bytes that the account has the use of outside of the index: they count where accounts are compared, and
//  nowhere else.
void prepared_account_outside (prepared_t *self, uint32_t account, size_t outside_bytes);
size_t prepared_account_bytes (const prepared_t *self, uint32_t account);
size_t prepared_account_outside_bytes (const prepared_t *self, uint32_t account);
//  Whether so many bytes more stay below the account's bytes_max.
bool prepared_account_fits (const prepared_t *self, uint32_t account, size_t bytes);

//  The indexed versions of a sample, one after the other, in no particular order; NULL: no more.
version_t *prepared_find (prepared_t *self, uint32_t class, uint32_t id);
version_t *prepared_find_next (version_t *version);
//  Enters a version with this count on this account, of use to it, pinned once for the caller, then evicts
//  what is too much: maybe itself.  bytes <= limit_bytes.
version_t *prepared_insert (prepared_t *self, uint32_t account, uint32_t class, uint32_t id, uint32_t draw,
    size_t bytes, uint32_t count);
//  Whether a version of so many bytes would be entered on this account without anything being evicted.
bool prepared_has_room (const prepared_t *self, uint32_t account, size_t bytes);
//  Takes it out of the index at once, without counting an eviction.  Frees it if it is not pinned.
void prepared_remove (prepared_t *self, version_t *version);
//  Changes an indexed version's count by +1 or -1.
void prepared_count (prepared_t *self, version_t *version, int change);

//  Says whom an indexed version is of use to, and puts it on this account, which it must fit on if it is
//  another.
void prepared_share (prepared_t *self, version_t *version, uint64_t sharers, uint32_t account);

void prepared_pin (version_t *version);
//  One pin less.  The version is gone after the last one if it is not indexed.
void prepared_unpin (prepared_t *self, version_t *version);
//  Memory for the version, if the budget has room now (or it has it already).
bool prepared_reserve (prepared_t *self, version_t *version);
//  Gives that memory back: nothing came of it.
void prepared_release (prepared_t *self, version_t *version);

//  All indexed versions, in no particular order: calls visit for each.  visit may change counts and
//  accounts, not the index.
void prepared_each (prepared_t *self, void (*visit) (void *context, version_t *version), void *context);

size_t prepared_memory_bytes (const prepared_t *self);
size_t prepared_versions (const prepared_t *self);      //  indexed
uint64_t prepared_evictions (const prepared_t *self);
//  Of these, of versions that were on this account.
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
