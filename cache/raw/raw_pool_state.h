/*  raw_pool_state -- what raw_pool.c and the policies (raw_stream.c, raw_redox.c) share: the pool's
 *  structure, and the table of what a policy does.  Nobody else includes it.
 *
 *  raw_pool.c owns who is resident and what that takes; a policy owns what is read when, and calls
 *  raw_pool_enter and raw_pool_leave.
 *  Owner: the broker's thread.
 */
#ifndef RAW_POOL_STATE_H
#define RAW_POOL_STATE_H
#include "raw_pool.h"

//  Any but make and destroy may be NULL: nothing to do, or no, or none; wants: if nothing is ever resident.
typedef struct {
    void *(*make) (raw_pool_t *pool);
    void (*destroy) (void *policy);
    uint32_t (*redirect) (void *policy, uint32_t id, bool (*accepts) (void *context, uint32_t id),
        void *context);
    bool (*next) (void *policy, raw_read_t *read);
    //  Whether this pass does not come to the sample any more; NULL: there are no passes.
    bool (*is_behind) (const void *policy, uint32_t id);
    //  A resident sample is taken: whether it stays all the same.  need, here and below: after the draw.
    bool (*stays) (void *policy, uint32_t id, raw_need_t need);
    //  A sample was drawn, and whether it leaves has been settled.
    void (*was_drawn) (void *policy, uint32_t id, raw_need_t need);
    //  A resident sample has left, for whatever reason.
    void (*has_left) (void *policy, uint32_t id);
    //  A sample is out of the data for good.
    void (*dropped) (void *policy, uint32_t id);
    //  Whether what such a need is for will come to the sample as it is here.
    bool (*wants) (const void *policy, raw_need_t need);
    //  Whether what nobody needs stays, as long as something is needed.
    bool (*holds) (const void *policy);
    void (*needs_grew) (void *policy);
    void (*needs_shrank) (void *policy);
    void (*restart) (void *policy);     //  nothing is resident any more
    void (*limit_changed) (void *policy);
    void (*piece_changed) (void *policy, uint32_t piece);
    void (*check) (const void *policy);
} raw_policy_ops_t;

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
    const raw_policy_ops_t *ops;
    void *policy;
    void (*left) (void *context, uint32_t id);
    void *left_context;
    //  owner only
    uint32_t *residents;                //  ids, dense
    uint32_t resident_room;
    uint32_t *places;                   //  by id: where in residents; RAW_POOL_NOWHERE
    raw_pool_figures_t figures;         //  resident, resident_bytes and limit_bytes are kept here
};

extern const raw_policy_ops_t raw_stream_ops, raw_redox_ops;

size_t raw_pool_bytes (const raw_pool_t *self, uint32_t id);
//  What a job needs of it, as things stand.
raw_need_t raw_pool_need (const raw_pool_t *self, uint32_t id);
//  How many samples, chosen blindly, fit into so many bytes, all but surely: so that what is decided can go
//  by their number, and their sizes play a part only in the hard limit, which then is hardly ever met.
uint64_t raw_pool_capacity (const raw_pool_t *self, size_t bytes);
uint64_t raw_pool_random (const raw_pool_t *self, uint64_t bound);
//  The sample, which is not resident, becomes so; the policy has made sure that there is room.
void raw_pool_enter (raw_pool_t *self, uint32_t id);
//  The resident sample leaves without having been taken.
void raw_pool_discard (raw_pool_t *self, uint32_t id);

#endif
