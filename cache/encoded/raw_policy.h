/*  raw_policy -- inside the raw pool (raw_pool.h): the functions by which a policy (raw_stream.c,
 *  raw_redox.c) says what of a pack is read next and kept, and the pool as a policy sees it.
 *
 *  raw_pool.c owns the residents and their bytes; a policy owns the order of reads, and calls raw_pool_enter.
 *  Only these sources include it.  Owner: the broker's thread.
 */
#ifndef RAW_POLICY_H
#define RAW_POLICY_H
#include "raw_pool.h"
#include "supply.h"

//  Any but make and destroy may be NULL: nothing to do, no, or none; wants may be NULL if no sample is ever
//  resident.  All are called after the draw that they are about has been committed.
struct raw_policy_ops {
    void *(*make) (raw_pool_t *pool);
    void (*destroy) (void *policy);
    uint32_t (*redirect) (void *policy, uint32_t id, bool (*accepts) (void *context, uint32_t id),
        void *context);
    bool (*next) (void *policy, raw_read_t *read);
    //  A resident sample is taken: whether it stays anyway.
    bool (*stays) (void *policy, uint32_t id);
    //  A sample was drawn, and has left or stayed.
    void (*was_drawn) (void *policy, uint32_t id);
    //  A resident sample has left, for any reason.
    void (*has_left) (void *policy, uint32_t id);
    //  A sample is out of the data for ever.
    void (*dropped) (void *policy, uint32_t id);
    //  Needs have shrunk: samples that no job wants leave.  False: the pool asks of each resident.
    bool (*sweep) (void *policy);
    //  Whether the resident sample should stay for some job.
    bool (*wants) (void *policy, uint32_t id);
    //  Whether samples that no job needs stay, as long as any is needed.
    bool (*holds) (const void *policy);
    void (*needs_grew) (void *policy);
    void (*needs_shrank) (void *policy);
    void (*restart) (void *policy);     //  nothing is resident any more
    void (*limit_changed) (void *policy);
    void (*piece_changed) (void *policy, uint32_t piece);
    void (*check) (const void *policy);
    size_t (*bytes) (uint32_t samples, uint32_t chunk);     //  the most that it holds ..
    size_t (*job_bytes) (uint32_t samples, uint64_t residents);     //  .. and for each job
    //  What happens to jobs.  A policy without join has no supplies.
    void (*join) (void *policy, uint32_t job);
    void (*leave) (void *policy, uint32_t job);
    void (*epoch_begin) (void *policy, uint32_t job);
    void (*pace) (void *policy, uint32_t job, double speed);
    void (*share_out) (void *policy);
    void (*give_back) (void *policy, uint32_t job, uint32_t id);
    const supply_t *(*supply) (const void *policy, uint32_t job);
};

enum { RAW_POOL_NOWHERE = 0xffffffff };

struct raw_pool {
    uint32_t magic;
    //  set at birth
    raw_pool_options_t options;
    const uint32_t *positions;          //  the position of each id
    uint32_t *positions_made;           //  NULL: lent
    size_t sample_bytes_max;
    size_t all_bytes;                   //  of all samples together
    double sample_bytes_deviation;
    void *policy;
    void (*left) (void *context, uint32_t id);
    void *left_context;
    //  owner only
    uint32_t *residents;                //  ids, dense
    uint32_t resident_room;
    uint32_t *places;                   //  by id: where in residents; RAW_POOL_NOWHERE
    raw_pool_figures_t figures;         //  resident, resident_bytes and limit_bytes are kept here
};

#endif
