//  The life of a job: which one a join goes on with or replaces, what it must have to be taken, joining, the
//  end of service, and its end, up to the reclaim of its memory.

#include "job.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bad.h"
#include "client_life.h"
#include "dispatch.h"
#include "history.h"
#include "machine.h"
#include "raw_prefetch.h"
#include "steps.h"
#include "tenant.h"
#include "xalloc.h"

//  ---- identity (docs/protocol.md): which job a join goes on with, and what becomes of it if it is there
//
//      a job of the run that the join names is there:
//          none                                        the new job has the run
//          of the same user and the same instance      it is the ghost of a client that lost its connection
//          of the same user, both of one job name      it is the ghost of a client that was restarted
//          otherwise                                   the run goes on elsewhere: the new job is a fork, with
//                                                      a run of its own
//      a job of the join's job name is there:
//          of the run that the join names, same user   it is the ghost above
//          of the same user and the same instance, and the join names no run
//                                                      it is the ghost of a join that got no answer
//          otherwise                                   the name is taken
//
//  A job that is over does not count, reclaimed or not; nor does another tenant's job.  So a tenant's job
//  names, and another tenant's state that it has obtained, neither affect nor reveal the other's jobs.  The
//  instances of a job, or of a join, are those of all its ranks: one in common is enough.

typedef struct {
    job_t *ghost;               //  the job that ends if the join is accepted; NULL: none
    const char *run;            //  of the new job; lent by the join
    bool is_forked;
} identity_t;

static bool
s_is_there (const job_t *job)
{
    return job->state != JOB_OVER;
}

//  Whether the join says the text, and it is the job's or the rank's.
static bool
s_matches (const char *said, const char *of_job)
{
    return said && *said && strcmp (said, of_job) == 0;
}

//  Among the tenant's jobs.
static job_t *
s_with_run (const broker_t *self, const tenant_t *tenant, const char *run)
{
    job_t *job = self->jobs;
    while (job && !(s_is_there (job) && job->tenant == tenant && s_matches (run, job->asked.run)))
        job = job->next;
    return job;
}

job_t *
job_named (const broker_t *self, const tenant_t *tenant, const char *name)
{
    job_t *job = self->jobs;
    tenant = tenant? tenant: self->tenants [0];
    while (job && !(s_is_there (job) && job->tenant == tenant && s_matches (name, job->asked.job_name)))
        job = job->next;
    return job;
}

//  Whether any of the job's clients is one of the join's.
static bool
s_shares_instance (const job_t *job, const broker_terms_t *join)
{
    for (uint32_t one = 0; one < join->world_size; one++)
        for (uint32_t other = 0; other < job->asked.world_size; other++)
            if (s_matches (join->instances [one], job->ranks [other].instance))
                return true;
    return false;
}

//  When any of its clients was last heard from.
static int64_t
s_alive_ms (const job_t *job)
{
    int64_t alive_ms = job->life.joined_ms;
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        if (job->ranks [number].alive_ms > alive_ms)
            alive_ms = job->ranks [number].alive_ms;
    return alive_ms;
}

//  Nothing is told of what another user's job does.
static bool
s_refuse_name (const job_t *job, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal)
{
    if (job->asked.user != join->user)
        return refuse (refusal, "job_taken", "the job name '%s' is another user's at present: take another",
            join->job_name);
    return refuse (refusal, "job_taken",
        "the job name '%s' is that of job %llu on data set '%s', which joined %lld seconds "
        "ago and was last heard of %lld seconds ago: wait until it has ended, go on with its state, or take "
        "another name", join->job_name, (unsigned long long) job->id, job->dataset->name,
        (long long) (now_ms - job->life.joined_ms) / 1000, (long long) (now_ms - s_alive_ms (job)) / 1000);
}

//  False: another job has its name.
static bool
s_identity_of (const broker_t *self, const broker_terms_t *join, int64_t now_ms, identity_t *identity,
    refusal_t *refusal)
{
    bool has_run = join->run && *join->run;
    const tenant_t *tenant = tenant_joining (self, join);
    job_t *other = s_with_run (self, tenant, join->run), *named = job_named (self, tenant, join->job_name);
    if (other && (other->asked.user != join->user
    ||  !(s_shares_instance (other, join) || s_matches (join->job_name, other->asked.job_name))))
        other = NULL;                   //  it does not end, whether or not the join is accepted
    if (named && named != other) {
        if (has_run || named->asked.user != join->user || !s_shares_instance (named, join))
            return s_refuse_name (named, join, now_ms, refusal);
        other = named;
    }
    bool is_forked = has_run && !other && s_with_run (self, tenant, join->run);
    *identity = (identity_t) { .ghost = other, .run = has_run && !is_forked? join->run: join->fresh_run,
        .is_forked = is_forked };
    return true;
}

static void
s_fence (job_t *ghost, const job_t *job, const broker_terms_t *join)
{
    if (s_shares_instance (ghost, join))
        job_end (ghost, "fenced",
            "its client has joined anew, as job %llu, because it had lost this connection",
            (unsigned long long) job->id);
    else
        job_end (ghost, "fenced",
            "the job '%s' was started anew, and goes on as job %llu; if this process still "
            "trains, stop one of the two", ghost->asked.job_name, (unsigned long long) job->id);
}

//  Gives the new job this identity, and marks the ghost to be swept.  The job has its id and is not yet in
//  the list.
static void
s_take_identity (job_t *job, const broker_terms_t *join, const identity_t *identity)
{
    assert (identity->run && *identity->run);
    snprintf (job->asked.run, sizeof job->asked.run, "%s", identity->run);
    snprintf (job->asked.job_name, sizeof job->asked.job_name, "%s", join->job_name? join->job_name: "");
    job->asked.user = join->user;
    job->asked.is_forked = identity->is_forked;
    if (identity->ghost)
        s_fence (identity->ghost, job, join);
}

//  ---- whether ranks ask for the same

static const char *
s_text (const char *said)
{
    return said? said: "";
}

//  The requests of two ranks.
typedef struct {
    const broker_terms_t *one, *other;
    uint32_t rank, other_rank;
} pair_t;

static bool
s_same_texts (const pair_t *pair, const char *what, const char *one, const char *other, refusal_t *refusal)
{
    return strcmp (one, other) == 0
        || refuse (refusal, "ranks_differ", "the ranks of job '%s' do not ask for the same: "
        "rank %u has %s %s, rank %u %s %s: give all ranks the same", s_text (pair->one->job_name), pair->rank,
        what, one, pair->other_rank, what, other);
}

static bool
s_same_numbers (const pair_t *pair, const char *what, uint64_t one, uint64_t other, refusal_t *refusal)
{
    char texts [2] [24];
    snprintf (texts [0], sizeof texts [0], "%llu", (unsigned long long) one);
    snprintf (texts [1], sizeof texts [1], "%llu", (unsigned long long) other);
    return s_same_texts (pair, what, texts [0], texts [1], refusal);
}

static uint32_t
s_nodes (const broker_terms_t *join)
{
    return join->parts.nodes > 1? join->parts.nodes: 1;
}

//  For values that are too long, or meaningless to people.
static bool
s_same_unsaid (const pair_t *pair, const char *what, const char *one, const char *other, refusal_t *refusal)
{
    return strcmp (one, other) == 0
        || refuse (refusal, "ranks_differ", "the ranks of job '%s' do not ask for the same: "
        "rank %u has another %s than rank %u: give all ranks the same", s_text (pair->one->job_name),
        pair->rank, what, pair->other_rank);
}

static bool
s_has_run (const broker_terms_t *join)
{
    return *s_text (join->run);
}

//  A job without an end has no epochs here, as in its request.
static bool
s_same_epochs (const pair_t *pair, refusal_t *refusal)
{
    char texts [2] [24] = { "null", "null" };
    if (pair->one->epochs)
        snprintf (texts [0], sizeof texts [0], "%llu", (unsigned long long) pair->one->epochs);
    if (pair->other->epochs)
        snprintf (texts [1], sizeof texts [1], "%llu", (unsigned long long) pair->other->epochs);
    return s_same_texts (pair, "epochs", texts [0], texts [1], refusal);
}

//  Compares what determines the steps' shape.
static bool
s_agree_on_steps (const pair_t *pair, refusal_t *refusal)
{
    const broker_terms_t *one = pair->one, *other = pair->other;
    return s_same_texts (pair, "dataset", one->dataset->name, other->dataset->name, refusal)
        && s_same_numbers (pair, "world_size", one->world_size, other->world_size, refusal)
        && s_same_numbers (pair, "batch_size", one->batch_size, other->batch_size, refusal)
        && s_same_numbers (pair, "slots", one->slots, other->slots, refusal)
        && s_same_epochs (pair, refusal)
        && s_same_texts (pair, "drop_last", one->drop_last? "true": "false",
            other->drop_last? "true": "false", refusal)
        && s_same_texts (pair, "on_bad", bad_policy (one)? "fail": "drop", bad_policy (other)? "fail": "drop",
            refusal);
}

//  Compares what determines their content.
static bool
s_agree_on_samples (const pair_t *pair, refusal_t *refusal)
{
    static const char *const orders [] = { "shared", "private", "list", "seeded" };
    const broker_terms_t *one = pair->one, *other = pair->other;
    return s_same_unsaid (pair, "pipeline", pipeline_text (one->pipeline), pipeline_text (other->pipeline),
        refusal)
        && s_same_texts (pair, "order", orders [one->order], orders [other->order], refusal)
        && s_same_numbers (pair, "pool", one->pool, other->pool, refusal)
        && s_same_numbers (pair, "nodes", s_nodes (one), s_nodes (other), refusal)
        && s_same_numbers (pair, "node", one->parts.node, other->parts.node, refusal)
        && s_same_texts (pair, "parts", one->parts.is_fixed? "fixed": "fresh",
            other->parts.is_fixed? "fixed": "fresh", refusal)
        && s_same_unsaid (pair, "data (subset or list)", s_text (one->data), s_text (other->data), refusal);
}

//  Up to a step all ranks got the same samples.  Two states of one run may differ if the run was resumed
//  twice from an earlier state.
static bool
s_agree_on_taken (const pair_t *pair, refusal_t *refusal)
{
    const broker_terms_t *one = pair->one, *other = pair->other;
    if (one->epoch != other->epoch || one->epoch_batches != other->epoch_batches)
        return true;
    uint64_t counts [2] = { one->taken? roaring_bitmap_get_cardinality (one->taken): 0,
        other->taken? roaring_bitmap_get_cardinality (other->taken): 0 };
    bool is_same = one->taken_places == other->taken_places && counts [0] == counts [1]
        && (counts [0] == 0 || roaring_bitmap_equals (one->taken, other->taken));
    return s_same_unsaid (pair, "state (samples of its epoch that were taken)", "", is_same? "": "other",
        refusal);
}

bool
broker_agree (const broker_terms_t *one, uint32_t rank, const broker_terms_t *other, uint32_t other_rank,
    refusal_t *refusal)
{
    pair_t pair = { one, other, rank, other_rank };
    if (!s_agree_on_steps (&pair, refusal) || !s_agree_on_samples (&pair, refusal)
        || !s_agree_on_taken (&pair, refusal))
        return false;
    if (s_has_run (one) && s_has_run (other) && !s_same_texts (&pair, "run", one->run, other->run, refusal))
        return false;
    return !one->seed_given || !other->seed_given
        || s_same_numbers (&pair, "seed", one->seed, other->seed, refusal);
}

//  ---- ranks that come back to a job that is there (docs/protocol.md, Losing a rank)

//  The job's request, as far as ranks must agree on it.
static broker_terms_t
s_view (const job_t *job)
{
    return (broker_terms_t) {
        .dataset = job->dataset, .pipeline = job->asked.pipeline, .world_size = job->asked.world_size,
        .batch_size = job->asked.rank_batch, .slots = job->asked.slots, .epochs = job->asked.epochs,
        .drop_last = job->asked.drop_last, .on_bad_given = true, .on_bad = job->asked.on_bad,
        .order = job->asked.order, .seed = job->asked.seed, .seed_given = job->asked.seed_given,
        .pool = job->asked.pool, .data = job->asked.data, .parts = job->asked.parts
    };
}

static bool
s_agrees (const job_t *job, const broker_terms_t *join, uint32_t number, refusal_t *refusal)
{
    broker_terms_t view = s_view (job);
    //  steps_replay_find judges the rank's position.
    view.epoch = join->epoch;
    view.epoch_batches = join->epoch_batches;
    view.taken = join->taken;
    view.taken_places = join->taken_places;
    return broker_agree (join, number, &view, number == 0? 1: 0, refusal);
}

//  An unknown client without a run may belong to another run with the same name.
static broker_return_t
s_refuse_unknown (const rank_t *rank, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal)
{
    const job_t *job = rank->job;
    if (s_has_run (join))
        s_refuse_name (job, join, now_ms, refusal);
    else
    if (rank_is_there (rank))
        refuse (refusal, "job_taken",
            "rank %u of job '%s' is there already (joined %lld seconds ago): another run uses this "
            "name: take another name (job=), or wait until it has ended", rank->number, job->asked.job_name,
            (long long) (now_ms - rank->joined_ms) / 1000);
    else
        refuse (refusal, "job_taken",
            "job '%s' is there, and waits for its rank %u, which was another client: to go on for "
            "that one load a state of this run; else take another name (job=), or wait until it has ended",
            job->asked.job_name, rank->number);
    return BROKER_RETURN_REFUSED;
}

//  The join's rank in a job of the same world size.  The client is known by the run, or as the job's own.
static broker_return_t
s_returns (const rank_t *rank, const broker_terms_t *join, bool is_own, refusal_t *refusal)
{
    uint64_t number;
    if ((rank_is_there (rank) && !is_own) || rank->left_itself)
        return BROKER_RETURN_NONE;
    if (!s_agrees (rank->job, join, rank->number, refusal))
        return BROKER_RETURN_REFUSED;
    return steps_replay_find (rank->job, join->epoch, join->epoch_batches, &number)? BROKER_RETURN_READY:
        BROKER_RETURN_NONE;
}

broker_return_t
broker_returns (broker_t *self, const broker_terms_t *join, uint32_t number, int64_t now_ms, job_t **job_p,
    refusal_t *refusal)
{
    assert (self->magic == BROKER_MAGIC);
    assert (join->world_size > 1 && number < join->world_size);
    *job_p = NULL;
    job_t *job = job_named (self, join->tenant, join->job_name);
    if (!job)
        return BROKER_RETURN_NONE;
    bool is_of_run = s_matches (join->run, job->asked.run);
    if (job->asked.user != join->user) {
        s_refuse_name (job, join, now_ms, refusal);
        return BROKER_RETURN_REFUSED;
    }
    if (job->asked.world_size != join->world_size) {
        if (is_of_run || (!s_has_run (join) && s_shares_instance (job, join)))
            return BROKER_RETURN_NONE;
        s_refuse_name (job, join, now_ms, refusal);
        return BROKER_RETURN_REFUSED;
    }
    rank_t *rank = &job->ranks [number];
    bool is_own = s_matches (join->instances [number], rank->instance);
    if (!is_of_run && !is_own)
        return s_refuse_unknown (rank, join, now_ms, refusal);
    broker_return_t answer = s_returns (rank, join, is_own, refusal);
    if (answer == BROKER_RETURN_READY)
        *job_p = job;
    return answer;
}

//  ---- joining

//  A table of records doubles, one that is by sample grows by an eighth; a pipeline's texts exist for the
//  job, for its class, and in compiled form.
enum { RECORD_PARTS = 2, TABLE_PARTS = 8, JOB_TEXTS = 4, LIST_COPIES = 2, PARTS_SETS = 4 };

//  A count for each id; the list, and while it is made also the list without unreadable ids.
static size_t
s_list_bytes (const broker_terms_t *join)
{
    uint32_t samples = join->dataset->samples;
    return samples * sizeof (uint32_t) + LIST_COPIES * sampler_list_bytes (join->list_count, samples,
        join->parts.nodes > 1);
}

//  A set of ids: two bytes for each, or a bit for each sample of a range of 65536.
static size_t
s_set_bytes (uint32_t samples)
{
    enum { RANGE = 1 << 16, RANGE_BYTES = RANGE / 8, ID_BYTES = 2 };
    size_t rest = samples % RANGE * ID_BYTES;
    return samples / RANGE * RANGE_BYTES + (rest < RANGE_BYTES? rest: RANGE_BYTES);
}

//  What it costs for each sample of its data set, whatever its own data are.  A history under `follow`;
//  otherwise the data and what remains, under `dsa` also a vertex and a leaf of the tree (tree.h), and of a
//  subset by seed also all that was asked for.  With parts: what was asked for, the next epoch's part, what
//  others have in this one, and one of these while it is made.
static size_t
s_samples_bytes (const broker_t *self, const broker_terms_t *join)
{
    uint32_t samples = join->dataset->samples;
    bool shares = join->order == SAMPLER_ORDER_SHARED,
        remembers = shares && self->options.policy != SAMPLER_POLICY_DSA;
    size_t sets = remembers? 0: shares? 4: join->order == SAMPLER_ORDER_SEEDED && join->subset? 3: 2;
    sets += join->taken? 1: 0;
    sets += join->parts.nodes > 1? PARTS_SETS: 0;
    size_t lost = (self->tenant_count > 1? 2: 1) * (samples / 8);
    size_t draws = pipeline_shared_is_random (join->pipeline)? samples * sizeof (uint32_t): 0;
    return (remembers? history_bytes (samples): 0) + sets * s_set_bytes (samples)
        + (lost + draws) / TABLE_PARTS * (TABLE_PARTS + 1) + (join->list? s_list_bytes (join): 0);
}

//  With several ranks also the replayed batches, and ids on their way outside the rings.
static size_t
s_ranks_bytes (const broker_terms_t *join)
{
    if (join->world_size == 1)
        return sizeof (rank_t);
    size_t again = join->batch_size * (sizeof (batch_row_t) + sizeof (version_t) + 2 * sizeof (uint32_t))
        + join->slot_bytes;
    //  Each rank is told the ids of all ranks, and they pile up for a peer that does not read.
    size_t told = (size_t) join->slots * join->world_size * join->batch_size * sizeof (uint64_t);
    return join->world_size * (sizeof (rank_t) + again + told) + steps_replay_bytes (join);
}

//  What a job costs beside its slots: rows, the versions they may wait for, records, ids, reads, pipeline.
static size_t
s_bookkeeping_bytes (const broker_t *self, const broker_terms_t *join)
{
    size_t window = (size_t) join->world_size * join->batch_size * join->slots;
    size_t texts = JOB_TEXTS * (strlen (pipeline_text (join->pipeline))
        + strlen (pipeline_shared_text (join->pipeline)));
    return sizeof (job_t) + window * (sizeof (batch_row_t) + sizeof (version_t)
        + RECORD_PARTS * sizeof (sharing_record_t)) + s_samples_bytes (self, join)
        + raw_prefetch_bookkeeping (self, join) + texts + s_ranks_bytes (join);
}

static size_t
s_ring_bytes (const broker_terms_t *join)
{
    return join->world_size * join->slots * join->slot_bytes;
}

static bool
s_join_fits (const broker_t *self, const broker_terms_t *join, const job_t *ghost, refusal_t *refusal)
{
    uint64_t window = (uint64_t) join->world_size * join->batch_size * join->slots;
    if (window > BROKER_WINDOW_MAX)
        return refuse (refusal, "bad_request",
            "batch_size x slots%s is %llu samples; at most %d: take smaller "
            "batches or fewer slots", join->world_size > 1? " x world_size": "", (unsigned long long) window,
            BROKER_WINDOW_MAX);
    return tenant_allows_job (self, join, ghost, s_ring_bytes (join) + s_bookkeeping_bytes (self, join),
        refusal);
}

//  The readable samples of one whole epoch of the job, as far as known.  A list has millions of places, so
//  only its unreadable ids are looked up: their counts were made with the list.
static uint64_t
s_readable_samples (const broker_terms_t *join)
{
    const sampler_t *sampler = join->dataset->sampler;
    if (join->subset)
        return roaring_bitmap_andnot_cardinality (join->subset, sampler_dropped (sampler));
    if (!join->list)
        return join->dataset->samples - sampler_dropped_count (sampler);
    uint64_t count = join->list_count;
    roaring_uint32_iterator_t ids;
    for (roaring_init_iterator (sampler_dropped (sampler), &ids); ids.has_value;
        roaring_advance_uint32_iterator (&ids))
        count -= join->list_made->times [ids.current_value];
    return count;
}

//  Counts whole epochs, not the rest that an earlier job has left.
static bool
s_join_has_data (const broker_terms_t *join, refusal_t *refusal)
{
    uint64_t step = (uint64_t) join->world_size * join->batch_size, needed = join->drop_last? step: 1;
    uint64_t samples = s_readable_samples (join);
    if (samples == 0)
        return refuse (refusal, "bad_request",
            "none of the job's samples can be read; `tureen status` names them");
    if (join->parts.nodes > 1)
        return parts_batches (join->parts.nodes, join->parts.whole, step, join->drop_last) > 0
            || refuse (refusal, "bad_request",
            "drop_last with %llu samples over %u nodes leaves no %s of %llu: take a smaller batch_size",
            (unsigned long long) join->parts.whole, join->parts.nodes,
            join->world_size > 1? "step (world_size x batch_size)": "batch", (unsigned long long) step);
    if (samples < needed)
        return refuse (refusal, "bad_request",
            "drop_last with %llu samples leaves no %s of %llu: take a smaller "
            "batch_size", (unsigned long long) samples,
            join->world_size > 1? "step (world_size x batch_size)": "batch", (unsigned long long) step);
    return true;
}

//  Whether the job has nothing left to draw, and exists only for ranks that lack steps.
static bool
s_join_is_drawn (const broker_terms_t *join)
{
    return join->epochs && join->epoch >= join->epochs;
}

//  NULL: not a part.  Its order is the pack's.
static const parts_t *
s_parts (const broker_terms_t *join, parts_t *parts)
{
    if (join->parts.nodes <= 1)
        return NULL;
    *parts = (parts_t) { .nodes = join->parts.nodes, .node = join->parts.node,
        .is_fixed = join->parts.is_fixed, .key = join->parts.key,
        .pack_order = raw_prefetch_order (join->dataset) };
    return parts;
}

//  The caller's to free.
static roaring_bitmap_t *
s_all_samples (const dataset_t *dataset)
{
    roaring_bitmap_t *all = xalloc_memory (roaring_bitmap_from_range (0, dataset->samples, 1));
    roaring_bitmap_remove_run_compression (all);
    return all;
}

//  Whether what this node has taken is of its part: else another node's samples would come twice.
static bool
s_join_keeps_part (const broker_terms_t *join, refusal_t *refusal)
{
    parts_t parts;
    uint32_t samples = join->dataset->samples;
    roaring_bitmap_t *remaining = join->subset? xalloc_memory (roaring_bitmap_copy (join->subset)):
        s_all_samples (join->dataset);
    if (join->parts.cut)
        roaring_bitmap_andnot_inplace (remaining, join->parts.cut);
    roaring_bitmap_t *part = parts_of (s_parts (join, &parts), join->epoch, samples, remaining);
    roaring_bitmap_and_inplace (remaining, join->taken);
    uint64_t foreign = roaring_bitmap_andnot_cardinality (remaining, part);
    roaring_bitmap_free (remaining);
    roaring_bitmap_free (part);
    return foreign == 0 || refuse (refusal, "bad_state",
        "the state says that %llu samples were taken that are not in the part of node %u of %u: it is of "
        "another node or of another number of nodes; load the merged states of all nodes",
        (unsigned long long) foreign, join->parts.node, join->parts.nodes);
}

//  Whether the job's data and epochs are those of the job that it continues.
static bool
s_join_goes_on (const broker_terms_t *join, bool is_whole, refusal_t *refusal)
{
    bool is_wanted = join->world_size > 1 && join->epoch == join->epochs
        && (steps_replay_is_wanted (join) || (!is_whole && !join->positions));
    if (s_join_is_drawn (join) && !is_wanted)
        return refuse (refusal, "bad_state",
            "the state is at epoch %llu (from 0), and the job asks for %llu epochs, so nothing "
            "is left: ask for more epochs, or begin anew without the state", (unsigned long long) join->epoch,
            (unsigned long long) join->epochs);
    if (join->taken_places > join->list_count)
        return refuse (refusal, "bad_state",
            "the state is at place %zu of a list, this one has %zu: it is of another list; "
            "begin anew without the state", join->taken_places, join->list_count);
    if (join->parts.cut && (!join->taken || !roaring_bitmap_is_subset (join->parts.cut, join->taken)))
        return refuse (refusal, "bad_state",
            "the state's cut has samples that were not taken: it is damaged; load another one");
    if (!join->taken)
        return true;
    uint64_t foreign = join->subset? roaring_bitmap_andnot_cardinality (join->taken, join->subset)
        : roaring_bitmap_get_cardinality (join->taken) - roaring_bitmap_rank (join->taken,
            join->dataset->samples - 1);
    if (foreign > 0)
        return refuse (refusal, "bad_state",
            "the state says that %llu samples were taken that are not in the job's "
            "data: it is of another subset; begin anew without the state", (unsigned long long) foreign);
    return join->parts.nodes <= 1 || s_join_keeps_part (join, refusal);
}

//  All reasons to refuse, as if the ghost had left already.  is_whole: the join is for all ranks of the job.
static bool
s_allows (const broker_t *self, const broker_terms_t *join, const job_t *ghost, bool is_whole,
    refusal_t *refusal)
{
    assert (join->world_size > 0 && join->world_size <= WIRE_RANKS_MAX);
    if (join->dataset->is_removed)
        return refuse (refusal, "removed", "data set '%s' was removed from the server", join->dataset->name);
    return s_join_goes_on (join, is_whole, refusal)
        && (!join->positions || steps_replay_allows (join, refusal))
        && s_join_fits (self, join, ghost, refusal) && bad_allows (join, refusal)
        && raw_prefetch_allows (self, join, ghost, refusal) && s_join_has_data (join, refusal)
        && dispatch_allows (self, join, refusal);
}

//  Makes a list from plain ids here; for a JOIN a worker has done it.  s_end_made ends either.
static broker_terms_t
s_begin_made (const broker_terms_t *join)
{
    broker_terms_t made = *join;
    if (join->list && join->list_made)
        sampler_list_hold (join->list_made);
    else
    if (join->list) {
        made.list_made = xalloc_memory (sampler_list_copy (join->list, join->list_count,
            join->dataset->samples));
        made.list = made.list_made->ids;
    }
    return made;
}

static void
s_end_made (broker_terms_t *made)
{
    sampler_list_destroy (&made->list_made);
}

bool
broker_allows (broker_t *self, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal)
{
    assert (self->magic == BROKER_MAGIC);
    broker_terms_t made = s_begin_made (join);
    identity_t identity;
    bool allows = s_identity_of (self, &made, now_ms, &identity, refusal)
        && s_allows (self, &made, identity.ghost, false, refusal);
    s_end_made (&made);
    return allows;
}

static void
s_join_sampler (job_t *job, const broker_terms_t *join)
{
    dataset_t *dataset = join->dataset;
    roaring_bitmap_t *everything = NULL;
    sampler_join_t entry = { .order = join->order, .data = join->subset,
        .list = join->list, .list_count = join->list_count, .made = join->list_made, .seed = join->seed,
        .pool = join->pool, .pack_order = join->pool? raw_prefetch_order (dataset): NULL,
        .epoch = join->epoch, .taken = join->taken, .taken_places = join->taken_places };
    parts_t parts;
    if (!join->list && s_parts (join, &parts)) {
        entry.parts = &parts;
        entry.cut = join->parts.cut;
    }
    if (!entry.data && !entry.list)
        entry.data = everything = s_all_samples (dataset);
    if (s_join_is_drawn (join)) {       //  it needs no samples, though its epoch has no end yet
        entry.taken = entry.data;
        entry.taken_places = entry.list_count;
    }
    job->consumer.sampler_job = sampler_join (dataset->sampler, &entry);
    assert (job->consumer.sampler_job != SAMPLER_JOB_NONE);
    if (everything)
        roaring_bitmap_free (everything);
}

static bool
s_again_new (rank_t *rank)
{
    again_t *again = &rank->again;
    uint32_t count = rank->job->asked.rank_batch;
    again->rows = calloc (count, sizeof *again->rows);
    again->sent_rows = calloc (count, sizeof *again->sent_rows);
    again->ids = calloc (count, sizeof *again->ids);
    if (!again->rows || !again->sent_rows || !again->ids)
        return false;
    for (uint32_t row = 0; row < count; row++)
        again->rows [row] = (batch_row_t) { .job = rank->job, .slot = WIRE_SLOT_NONE, .index = row,
            .rank = rank->number,
            .rank_row = row };
    return true;
}

//  False: no memory; s_free_ranks frees those that exist.
static bool
s_make_ranks (job_t *job, const broker_terms_t *join, int64_t now_ms)
{
    job->ranks = calloc (job->asked.world_size, sizeof *job->ranks);
    if (!job->ranks)
        return false;
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        rank_t *rank = &job->ranks [number];
        rank->job = job;
        rank->number = number;
        rank->joined_ms = rank->alive_ms = now_ms;
        rank->padding = (batch_row_t) { .job = job, .rank = number };
        snprintf (rank->instance, sizeof rank->instance, "%s",
            join->instances [number]? join->instances [number]: "");
        if (job->asked.world_size > 1 && !s_again_new (rank))
            return false;
    }
    job->delivery.held_up = job->asked.world_size > 1;
    job->life.rank_wait_seconds = join->rank_wait_seconds;
    return job->asked.world_size == 1 || steps_replay_new (job, join);
}

//  False: no memory; what exists so far is freed with the job.
static bool
s_join_memory (job_t *job, const broker_terms_t *join, int64_t now_ms)
{
    size_t window = (size_t) job->asked.batch_size * join->slots;
    job->draw.batches = calloc (join->slots, sizeof *job->draw.batches);
    job->draw.row_memory = calloc (window, sizeof *job->draw.row_memory);
    if (!job->draw.batches || !job->draw.row_memory)
        return false;
    for (uint32_t slot = 0; slot < join->slots; slot++) {
        job->draw.batches [slot].rows = job->draw.row_memory + (size_t) slot * job->asked.batch_size;
        for (uint32_t index = 0; index < job->asked.batch_size; index++)
            job->draw.batches [slot].rows [index] = (batch_row_t) { .job = job, .slot = slot,
                .index = index };
    }
    return s_make_ranks (job, join, now_ms) && machine_leave_headroom ();
}

static void
s_set_parts (job_t *job, const broker_terms_t *join)
{
    uint64_t left = join->parts.whole - join->parts.cut_samples;
    job->asked.parts = join->parts;
    job->asked.parts.cut = NULL;
    job->asked.first_epoch = join->epoch;
    job->asked.first_batches = join->parts.cut_batches
        + parts_batches (join->parts.nodes, left, job->asked.batch_size, job->asked.drop_last);
    job->asked.later_batches = parts_batches (join->parts.nodes, join->parts.whole, job->asked.batch_size,
        job->asked.drop_last);
}

//  Behind so many places of a list; unreadable samples are not of the epoch.
static void
s_go_on_listed (job_t *job, const broker_terms_t *join)
{
    const sampler_t *sampler = join->dataset->sampler;
    uint32_t number = job->consumer.sampler_job;
    job->delivery.epoch_samples = sampler_epoch_samples (sampler, number)
        - sampler_remaining (sampler, number);
    job->counts.consumed_epoch_samples = job->delivery.epoch_samples;
}

//  The epoch in which the job resumes: delivered samples count as taken.
static void
s_go_on (job_t *job, const broker_terms_t *join)
{
    job->draw.epoch = join->epoch;
    job->delivery.epoch_index = job->draw.opened = join->epoch_batches;
    if (join->parts.nodes > 1)
        s_set_parts (job, join);
    job->delivery.epoch_samples = join->taken? roaring_bitmap_get_cardinality (join->taken): 0;
    job->asked.is_resumed = join->epoch || join->epoch_batches || join->taken || join->taken_places;
    job->counts.consumed_epoch = job->draw.epoch;
    job->counts.consumed_epoch_samples = job->delivery.epoch_samples;
}

static void
s_free_ranks (job_t *job)
{
    for (uint32_t number = 0; job->ranks && number < job->asked.world_size; number++) {
        free (job->ranks [number].again.rows);
        free (job->ranks [number].again.sent_rows);
        free (job->ranks [number].again.ids);
        free (job->ranks [number].notice);
    }
    steps_replay_free (job);
    free (job->ranks);
}

static void
s_job_free (job_t *job)
{
    pipeline_destroy (&job->asked.pipeline);
    s_free_ranks (job);
    free (job->draw.batches);
    free (job->draw.row_memory);
    free (job->life.end_message);
    free (job->told.little_shared);
    if (job->told.unreadable)
        roaring_bitmap_free (job->told.unreadable);
    job->magic = 0;
    free (job);
}

//  A job with its memory and nothing else; NULL: there is none.
static job_t *
s_job_new (broker_t *self, const broker_terms_t *join, int64_t now_ms)
{
    job_t *job = xalloc_memory (calloc (1, sizeof *job));
    *job = (job_t) {
        .magic = JOB_MAGIC, .broker = self, .tenant = tenant_joining (self, join), .dataset = join->dataset,
        .asked = { .pipeline = pipeline_hold (join->pipeline), .order = join->order,
            .order_is_of_seed = join->order_is_of_seed, .seed = join->seed, .seed_given = join->seed_given,
            .pool = join->pool, .world_size = join->world_size, .rank_batch = join->batch_size,
            .batch_size = join->world_size * join->batch_size, .slots = join->slots, .epochs = join->epochs,
            .drop_last = join->drop_last, .on_bad = bad_policy (join) },
        .life = { .joined_ms = now_ms, .ring_bytes = s_ring_bytes (join),
            .memory_bytes = s_ring_bytes (join) + s_bookkeeping_bytes (self, join) },
        .draw.filling = join->slots, .delivery.free_places = join->slots
    };
    snprintf (job->asked.name, sizeof job->asked.name, "%s", join->name? join->name: "");
    snprintf (job->asked.data, sizeof job->asked.data, "%s", join->data? join->data: "");
    if (!s_join_memory (job, join, now_ms)) {
        s_job_free (job);
        return NULL;
    }
    s_go_on (job, join);
    return job;
}

static job_t *
s_join_made (broker_t *self, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal)
{
    identity_t identity;
    if (!s_identity_of (self, join, now_ms, &identity, refusal)
        || !s_allows (self, join, identity.ghost, true, refusal))
        return NULL;
    job_t *job = s_job_new (self, join, now_ms);
    if (!job) {
        refuse (refusal, "budget",
            "the system has no memory for the job's bookkeeping: take smaller batches, or join again when "
            "another job has left");
        return NULL;
    }
    //  Nothing is refused from here on, so the ghost may end.
    job->id = tenant_new_job (self, job->tenant);
    s_take_identity (job, join, &identity);
    if (identity.ghost)
        job_life_sweep (self);
    s_join_sampler (job, join);
    if (join->list && !s_join_is_drawn (join))
        s_go_on_listed (job, join);
    bad_join (job, join);
    dispatch_join (self, job);
    job->next = self->jobs;
    self->jobs = job;
    self->jobs_total++;
    self->rings_bytes += job->life.ring_bytes;
    self->jobs_bytes += job->life.memory_bytes;
    tenant_job_enters (job);
    job->dataset->jobs [job->consumer.sampler_job] = job;
    raw_prefetch_join (self, job, join);
    sharing_join (job);
    return job;
}

job_t *
broker_join (broker_t *self, const broker_terms_t *join, int64_t now_ms, refusal_t *refusal)
{
    assert (self->magic == BROKER_MAGIC);
    broker_terms_t made = s_begin_made (join);
    job_t *job = s_join_made (self, &made, now_ms, refusal);
    s_end_made (&made);
    return job;
}

//  ---- no further epochs
//
//  After broker_drain no job begins another epoch, and a client with a whole epoch is told to look for
//  another server.
//
//  happy path:     broker_drain -> a job between two epochs ends; any other job draws its epoch to the end ->
//                  the epoch's end is sent -> a turn later, when the driver has carried that out, the job
//                  ends
//  failure modes:  a rank is missing: its job pauses as usual, and ends when the wait is over.  A client that
//                  takes nothing keeps its epoch open, and the server running: the operator may stop it.
//  on close:       the last job has ended; the driver sees that there is none.
//
//  The running epoch is the one with batches sent.  The window reaches into the next epoch; a client that has
//  received none of that epoch can get all of it from another server.

void
broker_drain (broker_t *self)
{
    assert (self->magic == BROKER_MAGIC);
    if (self->draining)
        return;
    self->draining = true;
    //  A job that has begun to draw the next epoch may stop there.
    for (job_t *job = self->jobs; job; job = job->next)
        if (job->state == JOB_RUNNING && job_sending_epoch (job) != job->draw.epoch)
            job_move (job, JOB_DRAWN);
}

bool
broker_is_draining (const broker_t *self)
{
    return self->draining;
}

//  A client has not taken everything, or may come back for it.  While the job is held up, a rank lacks steps
//  that it has not been sent yet.
static bool
s_is_wanted (const job_t *job)
{
    if (job->delivery.held_up)
        return true;
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        bool is_reading = rank->state == RANK_HERE && rank_batches_done (&rank->progress) < rank->sent;
        if (rank->is_awaited || is_reading)
            return true;
    }
    return false;
}

static bool
s_is_due (const job_t *job)
{
    if (job->state == JOB_OVER || !job_is_between_epochs (job))
        return false;
    bool has_all = job->asked.epochs && job->draw.epoch + 1 >= job->asked.epochs && job->state == JOB_DRAWN
        && job->draw.order_count == 0;      //  all of the last epoch is sent
    return !has_all || !s_is_wanted (job);
}

void
job_life_mark_drained (broker_t *self)
{
    for (job_t *job = self->jobs; job; job = job->next)
        if (s_is_due (job)) {
            job->life.is_drained = true;
            broker_wake (self, 0);
        }
}

void
job_life_end_drained (broker_t *self)
{
    for (job_t *job = self->jobs; job; job = job->next)
        if (job->life.is_drained && s_is_due (job))
            job_end (job, "stopping", "the server takes no new epochs: it is to be stopped, or replaced by "
                "another");
}

//  ---- ending

void
job_life_reclaim_when_still (broker_t *self, job_t *job)
{
    if (job->state == JOB_OVER && job->dispatch.copying == 0 && !job->life.reclaimed) {
        job->life.reclaimed = true;
        broker_add_action (self, ACTION_RECLAIM, job);
    }
}

static void
s_sweep (broker_t *self, job_t *job)
{
    assert (job->magic == JOB_MAGIC);
    if (job->life.end_reason) {
        tenant_count_end (job->tenant->ends, job->life.end_reason);
        job_tell_ranks (job, ACTION_SEND_ENDED, job->life.end_reason, job->life.end_message);
    }
    raw_prefetch_leave (self, job);
    version_index_leave (self->version_index, &job->consumer);
    sampler_leave (job->dataset->sampler, job->consumer.sampler_job);
    job->dataset->jobs [job->consumer.sampler_job] = NULL;
    job->consumer.sampler_job = SAMPLER_JOB_NONE;
    job_move (job, JOB_OVER);
    size_t window = (size_t) job->asked.batch_size * job->asked.slots;
    for (size_t index = 0; index < window; index++) {
        dispatch_cancel (self, &job->draw.row_memory [index]);
        sharing_forget (self, &job->draw.row_memory [index]);
    }
    client_life_cancel (self, job);
    self->rings_bytes -= job->life.ring_bytes;
    self->jobs_bytes -= job->life.memory_bytes;
    tenant_job_leaves (job);
    dispatch_leave (self, job);
    job_life_reclaim_when_still (self, job);
}

void
job_life_sweep (broker_t *self)
{
    for (job_t *job; (job = self->ending);) {
        self->ending = job->next_ending;
        if (!self->ending)
            self->last_ending = NULL;
        s_sweep (self, job);
    }
}

void
job_life_settle (broker_t *self)
{
    while (self->ending || self->deliveries) {
        job_life_sweep (self);
        steps_send_marked (self);
    }
}

void
broker_reclaim (broker_t *self, job_t *job)
{
    assert (job->life.reclaimed && job->dispatch.copying == 0);
    assert (!job->delivery.is_marked);  //  job_life_settle has delivered
    job_t **link = &self->jobs;
    while (*link != job)
        link = &(*link)->next;
    *link = job->next;
    tenant_job_reclaimed (job);
    dispatch_reclaim (job);
    s_job_free (job);
}

//  ---- checks

void
job_life_check (const broker_t *self)
{
    for (const job_t *job = self->jobs; job; job = job->next) {
        if (!s_is_there (job))
            continue;
        assert (*job->asked.run);
        for (const job_t *other = job->next; other; other = other->next)
            if (s_is_there (other) && other->tenant == job->tenant) {
                assert (!s_matches (job->asked.run, other->asked.run));                           //  B7
                assert (!s_matches (job->asked.job_name, other->asked.job_name));                 //  B7
            }
    }
}
