#include "dsa.h"
#include "need.h"

#include <assert.h>
#include <stdlib.h>

enum { DSA_MAGIC = 0x5d5a11e3 };

//  What an offer will have changed once it is committed.
typedef struct {
    size_t end;                     //  the first job that still lacks a sample then
    uint64_t out_size;              //  the size of E then
    bool shares;                    //  the id drawn is from S_m, hence in E
} pending_t;

struct dsa {
    uint32_t magic;
    //  Set at birth.
    uint32_t sample_count;
    demand_t **demands;
    chains_t *chains;
    //  Of the round.
    const chain_t *chain;
    size_t count;
    const roaring_bitmap_t *sets [SAMPLER_JOBS_MAX];    //  R_m, in the chain's order
    uint64_t left [SAMPLER_JOBS_MAX];                   //  |R_m| as the round began
    size_t begin;                   //  the first job that lacks a sample
    size_t out_begin;               //  E is what all the jobs from here on had in common ...
    uint64_t out_size;              //  ... or nothing, if this is 0
    uint32_t barred;                //  the id of E that was drawn, so that some sets lack it now
    //  Of the offer.
    pending_t pending;
};

dsa_t *
dsa_new (uint32_t sample_count, demand_t **demands)
{
    dsa_t *self = sampler_need (calloc (1, sizeof *self));
    self->magic = DSA_MAGIC;
    self->sample_count = sample_count;
    self->demands = demands;
    self->chains = chains_new ();
    return self;
}

void
dsa_destroy (dsa_t **self_p)
{
    assert (self_p);
    dsa_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == DSA_MAGIC);
    chains_destroy (&self->chains);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
dsa_begin (dsa_t *self, const uint32_t *jobs, size_t count)
{
    assert (self->magic == DSA_MAGIC);
    self->chain = chains_get (self->chains, self->demands, jobs, count);
    self->count = count;
    for (size_t place = 0; place < count; place++) {
        const demand_t *demand = self->demands [self->chain->jobs [place]];
        self->sets [place] = demand_remaining (demand);
        self->left [place] = demand_remaining_count (demand);
        assert (self->left [place] > 0);
    }
    self->begin = self->out_begin = 0;
    self->out_size = 0;
    self->barred = CHOICE_NO_ID;
}

//  The class S_m - E, and as many jobs as follow.  S_m is met by membership in R_m .. R_n; an id of S_m is
//  in E if it is also in the sets of the jobs before m that E was made from.
static void
s_offer_common (dsa_t *self, random_t *random, choice_t *choice)
{
    size_t m = self->begin;
    size_t end = m + 1;
    while (end < self->count && random_ratio (random, self->left [end - 1] - self->out_size,
            self->left [end] - self->out_size))
        end++;
    *choice = (choice_t) {
        .in = self->sets + m, .in_count = self->count - m,
        .out = self->sets + self->out_begin, .out_count = self->out_size? m - self->out_begin: 0,
        .barred = self->barred,
        .size = self->chain->sizes [m] - self->out_size,
    };
    self->pending = (pending_t) { .end = end, .out_size = self->chain->sizes [m], .shares = true };
}

//  The class R_m - S_m, for job m alone.
static void
s_offer_alone (dsa_t *self, choice_t *choice)
{
    size_t m = self->begin;
    *choice = (choice_t) {
        .in = self->sets + m, .in_count = 1,
        .out = self->sets + m + 1, .out_count = self->count - m - 1,
        .barred = CHOICE_NO_ID,
        .size = self->left [m] - self->chain->sizes [m],
    };
    self->pending = (pending_t) { .end = m + 1, .out_size = self->chain->sizes [m], .shares = false };
}

bool
dsa_offer (dsa_t *self, random_t *random, choice_t *choice, const uint32_t **jobs_p, size_t *count_p)
{
    assert (self->magic == DSA_MAGIC);
    size_t m = self->begin;
    if (m == self->count)
        return false;
    //  This round's draws touched only jobs before m: left [m] and sizes [m] are as it began.
    if (random_ratio (random, self->chain->sizes [m] - self->out_size, self->left [m] - self->out_size))
        s_offer_common (self, random, choice);
    else
        s_offer_alone (self, choice);
    choice->universe = self->sample_count;
    choice->bound = self->left [m];
    *jobs_p = self->chain->jobs + m;
    *count_p = self->pending.end - m;
    return true;
}

void
dsa_commit (dsa_t *self, uint32_t id, const uint32_t *group, size_t group_count)
{
    assert (self->magic == DSA_MAGIC);
    assert (self->pending.end > self->begin);
    jobset_t needed = { { 0 } };
    jobset_t taken = { { 0 } };
    for (size_t job = 0; job < group_count; job++)
        if (roaring_bitmap_contains (demand_remaining (self->demands [group [job]]), id))
            jobset_add (&needed, group [job]);
    for (size_t place = self->begin; place < self->pending.end; place++) {
        jobset_add (&taken, self->chain->jobs [place]);
        demand_draw (self->demands [self->chain->jobs [place]], id);
    }
    chains_take (self->chains, &needed, &taken);
    self->out_begin = self->begin;
    self->out_size = self->pending.out_size;
    self->barred = self->pending.shares? id: CHOICE_NO_ID;
    self->begin = self->pending.end;
}

void
dsa_drop (dsa_t *self, uint32_t id)
{
    assert (self->magic == DSA_MAGIC);
    jobset_t needed = { { 0 } };
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        if (self->demands [job] && roaring_bitmap_contains (demand_remaining (self->demands [job]), id))
            jobset_add (&needed, job);
    chains_take (self->chains, &needed, &needed);
}

void
dsa_forget (dsa_t *self, uint32_t job)
{
    assert (self->magic == DSA_MAGIC);
    chains_forget (self->chains, job);
}

void
dsa_check (const dsa_t *self)
{
    assert (self->magic == DSA_MAGIC);
    chains_check (self->chains, self->demands);
}
