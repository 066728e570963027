//  The raw pool's policy `stream`: pieces of the pack in random order, each read for all jobs that have
//  little to draw from.
//
//  The rule.  Each job has a *supply*: the resident samples that were read for it and that it still needs. It
//  draws from there, and uses versions only of what was read for it.  Whenever there is room, the job with
//  the least supply for its speed *leads*: one of the pieces still to come of its own pass, each as likely,
//  is read.  What the leader needs of the piece goes into its supply.  Every other job that has hardly more
//  than the leader *joins*: all that it needs of the piece goes into its supply, too.  A job that has more
//  takes nothing of the piece.  So what remains to a job stays in whole pieces until it takes part in their
//  read, and a job that is slow, or late in its epoch, reads pieces by itself in place of many single
//  samples.  A sample stays until it is in no supply, or until a new version of it serves all that have it
//  there.
//
//  A *pass* of a job takes the positions as a ring, cuts it at a random place and from there on every `piece`
//  samples, and comes to each piece once, in uniformly random order, drawn one by one.  So no sample is
//  nearer to an edge than others.  When all that remains to the job has been read for it, it *goes ahead*:
//  its next pass begins, for its next epoch.  What that brings is its *next* supply, which becomes its supply
//  when the epoch begins.  A sample can be in both; it is not read again then.
//
//  The least for its speed: the samples of both supplies, divided by a weight, which is the speed and a
//  little more, so that slow jobs mix well too.  Others join that have up to JOIN times as much and a piece.
//  A job that has slowed down gives back: as long as it has more than GIVE times what the next leader has,
//  random samples leave its supplies, and a later pass reads them again.  So a stopped job keeps a small part
//  of the pool.  It gives nothing back while a piece fits: then the leader lacks samples, not memory.  When
//  the leader's looks (see Cost) are in vain, the job with the next least supply looks, and so on, as long as
//  two pieces fit.  All this looks at jobs and numbers only, never at which sample it is.
//
//  Small pools.  Jobs out of step divide the pool: a supply holds fewer pieces, and samples of one piece
//  would come nearer to each other in the order.  So pieces are smaller then: at least PIECES_LEAST of them
//  fill a part, but none has fewer than PIECE_LEAST samples (four speeds, 128,000 samples, memory for 2 %:
//  the same pairs come near each other again in the next epoch 1.25 times as often as by chance with pieces
//  of 8, 1.05 times with pieces of 3).
//
//  Room is counted in samples, not in bytes: otherwise a large sample in memory would leave room for fewer
//  others and be drawn sooner.  The count is such that the samples stay below the limit almost surely
//  (raw_pool_capacity), beside a piece of the largest ones.  If they do not, a piece waits for room in bytes:
//  memory never exceeds the limit.
//
//  Ramp.  The limit is not used at once: otherwise a job's first batch, drawn uniformly from its supply,
//  would wait until gigabytes are read.  At first there is room for RAMP_PIECES pieces, and for one sample
//  more with each draw, so that two are read for one drawn, until memory is full.  The ramp starts again when
//  no sample is resident and none to be read, and continues when the limit is raised.  A job that joins later
//  gets all residents that it needs as its first supply.
//
//  Hold.  If all samples fit below the limit, none leaves when it is taken, nor by a sweep while any is
//  needed: data that fit in memory are read once.  Then the ramp grows by two samples a draw, because takes
//  make no room; and every job joins every read.  A job that joins or begins an epoch has no supply at first:
//  residents come into it as its pass comes to them, some with each draw.  All at once would take a fifth of
//  a second for a million samples.
//
//  Cost.  Coming to a piece asks `need` of its samples for each job that takes part.  A call of raw_pool_next
//  looks at no more than LOOKS pieces in vain (LOOKS_FEW while the leader's supply is less than RAMP_PIECES
//  pieces, LOOKS_STARVING while it has none), and then at LOOKS of each job that looks in its place,
//  LOOKS_FEW of all these.  So a draw costs some hundreds of look-ups if jobs need hardly any samples, at
//  most some thousands, and otherwise those of one piece.  So memory is filled for jobs that need 1 % of a
//  pack or more; from 0.1 % on there are some RAMP_PIECES pieces to draw from, below that often only the last
//  one found.  A draw asks the jobs, one after the other, whether the sample is in their supplies.  Memory:
//  two bytes a sample; of each job 4 bytes a piece, and its supplies.
//
//  Owner: the broker's thread.

#include "raw_policy.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

enum {
    RAMP_PIECES = 16,
    PIECES_LEAST = 192, PIECE_LEAST = 3,
    GIVERS = 2,                         //  random residents that a draw looks at
    LOOKS = 16, LOOKS_FEW = 128, LOOKS_STARVING = 1024  //  8 samples a piece: 6 us .. 0.4 ms, at 50 ns for a
                                                        //  look-up
};

#define JOIN 1.2
#define GIVE 3.0
#define GIVE_LEAST 64.0                 //  samples of a job of weight 1
#define WEIGHT_MORE 0.2                 //  beside the speed, but at most WEIGHT_TIMES the speed
#define WEIGHT_TIMES 3.0
#define WEIGHT_LEAST 0.02
#define WEIGHT_SLOW 0.1                 //  a job of less hardly draws

typedef struct {
    uint32_t number;
    double weight;
    supply_t now, next;
    //  Its pass.
    uint32_t piece, piece_count, shift;
    uint32_t *pieces;                   //  numbers of pieces: first those still to come, in no order
    uint32_t to_come;
    bool ahead;                         //  for its next epoch
    bool vain;                          //  it has looked in vain, in this call
} job_t;

typedef struct {
    raw_pool_t *pool;
    //  set at birth
    uint32_t samples;
    //  owner only
    uint32_t piece;
    size_t piece_bytes_max;
    bool hold;
    uint64_t capacity;                  //  samples that may be resident
    uint64_t ramp;                      //  samples that the ramp allows now; <= capacity
    job_t *jobs [RAW_JOBS_MAX];         //  those that are there, in no order
    uint32_t job_count;
    job_t *by_number [RAW_JOBS_MAX];
    uint16_t *supplies;                   //  by id: how many supplies hold it
    uint32_t cut_first;                 //  the piece being read: its first position ..
    uint64_t cut_keep;                  //  .. and its new residents that raw_pool_next has not returned yet
} stream_t;

static uint64_t
s_least (uint64_t a, uint64_t b)
{
    return a < b? a: b;
}

static void
s_ramp_begin (stream_t *self)
{
    self->ramp = s_least ((uint64_t) RAMP_PIECES * self->piece, self->capacity);
}

//  If all samples fit, the last piece need not leave room for one of the largest.
static void
s_measure (stream_t *self)
{
    size_t limit_bytes = self->pool->figures.limit_bytes;
    self->hold = self->pool->all_bytes <= limit_bytes;
    if (self->hold)
        self->capacity = (uint64_t) self->samples + self->piece;
    else if (self->piece_bytes_max > limit_bytes)
        self->capacity = 0;
    else
        self->capacity = self->piece + raw_pool_capacity (self->pool, limit_bytes - self->piece_bytes_max);
    self->pool->figures.resident_max = self->capacity;
}

static void
s_set_piece (stream_t *self, uint32_t piece)
{
    self->piece = piece;
    self->piece_bytes_max = piece * self->pool->sample_bytes_max;
    self->pool->figures.piece = piece;
}

static void *
s_make (raw_pool_t *pool)
{
    const raw_pool_options_t *options = &pool->options;
    assert (options->piece >= 1 && options->piece <= RAW_PIECE_MAX);
    assert (options->open && options->unopened && options->goes_on);
    stream_t *self = xalloc_memory (calloc (1, sizeof *self));
    self->pool = pool;
    self->samples = options->samples;
    self->supplies = xalloc_memory (calloc (self->samples, sizeof *self->supplies));
    s_set_piece (self, options->piece);
    s_measure (self);
    s_ramp_begin (self);
    return self;
}

static size_t
s_bytes (uint32_t samples, uint32_t chunk)
{
    (void) chunk;
    return sizeof (stream_t) + samples * sizeof (uint16_t);
}

//  Pieces may be of one sample.
static size_t
s_job_bytes (uint32_t samples, uint64_t residents)
{
    return sizeof (job_t) + samples * sizeof (uint32_t) + 2 * supply_bytes (residents);
}

static void
s_job_destroy (job_t *job)
{
    supply_clear (&job->now);
    supply_clear (&job->next);
    free (job->pieces);
    free (job);
}

static void
s_destroy (void *policy)
{
    stream_t *self = policy;
    for (uint32_t index = 0; index < self->job_count; index++)
        s_job_destroy (self->jobs [index]);
    free (self->supplies);
    free (self);
}

//  ---- supplies

static void
s_add (stream_t *self, supply_t *supply, uint32_t id)
{
    supply_add (supply, id);
    self->supplies [id]++;
}

static bool
s_remove (stream_t *self, supply_t *supply, uint32_t id)
{
    bool was_there = supply_remove (supply, id);
    self->supplies [id] -= was_there;
    return was_there;
}

static void
s_open (const stream_t *self, const job_t *job, uint32_t id, bool open)
{
    self->pool->options.open (self->pool->options.context, job->number, id, open);
}

//  The sample is, or is about to be, resident for the job.  False: nothing of it goes into a supply.
static bool
s_take_in (stream_t *self, job_t *job, uint32_t id)
{
    raw_need_t need = raw_pool_need (self->pool, job->number, id);
    bool is_read = need & RAW_NEEDED || (self->hold && need & RAW_SERVED), added = false;
    if (need & (RAW_NEEDED | RAW_SERVED))
        s_open (self, job, id, true);
    if (is_read && !supply_has (&job->now, id)) {
        s_add (self, &job->now, id);
        added = true;
    }
    if (job->ahead && need & RAW_NEEDED_NEXT && !supply_has (&job->next, id)) {
        s_add (self, &job->next, id);
        added = true;
    }
    return added;
}

static void
s_take_in_residents (stream_t *self, job_t *job)
{
    for (uint32_t index = 0; index < raw_pool_resident_count (self->pool); index++)
        s_take_in (self, job, raw_pool_resident_at (self->pool, index));
}

//  The sample leaves the job's supplies if the job does not need it any more.  Whether it is in one that no
//  version serves.
static bool
s_tidy (stream_t *self, job_t *job, uint32_t id)
{
    raw_need_t need = raw_pool_need (self->pool, job->number, id);
    if (!(need & (RAW_NEEDED | RAW_SERVED)))
        s_remove (self, &job->now, id);
    //  The job's next epoch may just have become its present one (s_epoch_begin follows).
    if (!need)
        s_remove (self, &job->next, id);
    return supply_has (&job->next, id) || (need & RAW_NEEDED && supply_has (&job->now, id));
}

//  The same for all jobs.
static bool
s_tidy_all (stream_t *self, uint32_t id)
{
    bool unserved = false;
    for (uint32_t index = 0; index < self->job_count && self->supplies [id]; index++) {
        job_t *job = self->jobs [index];
        if (supply_has (&job->now, id) || supply_has (&job->next, id))
            unserved = s_tidy (self, job, id) || unserved;
    }
    return unserved;
}

//  The sample leaves the job's supplies though it is needed: a later pass brings it back.
static void
s_give_back (stream_t *self, job_t *job, uint32_t id)
{
    if (s_remove (self, &job->now, id))
        s_open (self, job, id, false);
    s_remove (self, &job->next, id);
}

//  How long the supplies last, as if jobs drew as fast as they weigh.
static double
s_lasts (const job_t *job)
{
    return ((double) job->now.count + (double) job->next.count) / job->weight;
}

//  ---- passes

//  How many parts of the pool jobs have as their supplies: 1 if they are in step; of a job that draws, the
//  smallest counts.
static uint64_t
s_parts (const stream_t *self)
{
    uint64_t parts = 1;
    for (uint32_t index = 0; index < self->job_count; index++) {
        const job_t *job = self->jobs [index];
        uint64_t own = (uint64_t) job->now.count + job->next.count;
        uint64_t times = own > 0? (self->pool->figures.resident + own / 3) / own: 1;
        if (job->weight > WEIGHT_SLOW && times > parts)
            parts = times;
    }
    return s_least (parts, self->job_count);
}

//  At least PIECES_LEAST pieces fill a part of the pool, unless they would be too small to be worth a read.
static uint32_t
s_piece_of (const stream_t *self)
{
    uint64_t parts = s_parts (self), piece = parts > 1? self->capacity / (PIECES_LEAST * parts): self->piece;
    return (uint32_t) s_least (piece > PIECE_LEAST? piece: PIECE_LEAST, self->piece);
}

static void
s_pass_begin (stream_t *self, job_t *job)
{
    uint32_t piece = s_piece_of (self);
    if (piece != job->piece) {
        job->piece = piece;
        job->piece_count = (self->samples - 1) / piece + 1;
        job->pieces = xalloc_memory (realloc (job->pieces, job->piece_count * sizeof *job->pieces));
        for (uint32_t number = 0; number < job->piece_count; number++)
            job->pieces [number] = number;
    }
    job->shift = (uint32_t) raw_pool_random (self->pool, self->samples);
    job->to_come = job->piece_count;
    self->pool->figures.passes++;
}

static uint64_t
s_unopened (const stream_t *self, const job_t *job)
{
    return self->pool->options.unopened (self->pool->options.context, job->number);
}

//  Whether there are pieces that the job has a use for.
static bool
s_may_lead (const stream_t *self, const job_t *job)
{
    //  A job that goes ahead may have given some back.
    if (s_unopened (self, job) > 0)
        return true;
    if (!job->ahead)
        return !self->hold && self->pool->options.goes_on (self->pool->options.context, job->number);
    return job->to_come > 0;
}

//  NULL: there is none.
static job_t *
s_leader (const stream_t *self)
{
    job_t *leader = NULL;
    for (uint32_t index = 0; index < self->job_count; index++) {
        job_t *job = self->jobs [index];
        if (!job->vain && s_may_lead (self, job) && (!leader || s_lasts (job) < s_lasts (leader)))
            leader = job;
    }
    return leader;
}

//  Jobs for which all that remains to them has been read go ahead to their next epoch.  The leader has a
//  piece to come after this.
static void
s_lead (stream_t *self, job_t *leader)
{
    for (uint32_t index = 0; index < self->job_count; index++) {
        job_t *job = self->jobs [index];
        if (job->ahead || !s_may_lead (self, job) || s_unopened (self, job) > 0)
            continue;
        job->ahead = true;
        s_pass_begin (self, job);
    }
    if (leader->to_come == 0)
        s_pass_begin (self, leader);
}

//  ---- pieces

static uint32_t
s_position (const stream_t *self, uint32_t first, uint32_t index)
{
    return (uint32_t) (((uint64_t) first + index) % self->samples);
}

//  One of the pieces still to come, each as likely: an incremental Fisher-Yates shuffle.
static uint32_t
s_piece_draw (const stream_t *self, job_t *job)
{
    uint32_t index = (uint32_t) raw_pool_random (self->pool, job->to_come), number = job->pieces [index];
    job->pieces [index] = job->pieces [--job->to_come];
    job->pieces [job->to_come] = number;
    return number;
}

//  The samples from this position on are read for the job.  False: it has no use for them.
static bool
s_take_in_piece (stream_t *self, job_t *job, uint32_t first, uint32_t count)
{
    bool any = false;
    for (uint32_t index = 0; index < count; index++) {
        uint32_t id = self->pool->options.order [s_position (self, first, index)];
        if (!s_take_in (self, job, id))
            continue;
        any = true;
        if (!raw_pool_is_resident (self->pool, id)) {
            raw_pool_enter (self->pool, id);
            self->cut_keep |= UINT64_C (1) << index;
        }
    }
    return any;
}

//  The next piece of the leader's pass, for it and all jobs that join.
static void
s_piece_look (stream_t *self, job_t *leader)
{
    double most = JOIN * s_lasts (leader);
    uint64_t at = (uint64_t) s_piece_draw (self, leader) * leader->piece;
    uint32_t first = (uint32_t) ((leader->shift + at) % self->samples);
    uint32_t count = (uint32_t) s_least (leader->piece, self->samples - at);
    self->cut_first = first;
    if (!s_take_in_piece (self, leader, first, count))
        return;
    for (uint32_t index = 0; index < self->job_count; index++) {
        job_t *job = self->jobs [index];
        if (job != leader && (self->hold || s_lasts (job) <= most + leader->piece / job->weight))
            s_take_in_piece (self, job, first, count);
    }
}

//  The first break behind the position, or the end.
static uint32_t
s_stop (const stream_t *self, uint32_t position)
{
    const raw_pool_options_t *options = &self->pool->options;
    size_t low = 0, high = options->break_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (options->breaks [middle] <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < options->break_count? options->breaks [low]: self->samples;
}

//  The next read of the piece: from its first new resident to its last, or to the next break.
static raw_read_t
s_cut (stream_t *self)
{
    uint32_t index = (uint32_t) __builtin_ctzll (self->cut_keep),
        first = s_position (self, self->cut_first, index);
    uint64_t keep = self->cut_keep >> index;
    uint32_t most = s_stop (self, first) - first;
    keep &= most < 64? (UINT64_C (1) << most) - 1: ~UINT64_C (0);
    self->cut_keep &= ~(keep << index);
    return (raw_read_t) { .first = first, .count = 64 - (uint32_t) __builtin_clzll (keep), .keep = keep };
}

//  ---- room

//  Whether so many pieces fit.
static bool
s_has_room (const stream_t *self, uint32_t pieces)
{
    const raw_pool_figures_t *figures = &self->pool->figures;
    return figures->resident + pieces * self->piece <= self->ramp
        && (self->hold || figures->resident_bytes + self->piece_bytes_max <= figures->limit_bytes);
}

//  ---- the policy's functions

//  Pieces that may be looked at in vain: the smaller the leader's supply, the more pieces.
static int
s_looks (const stream_t *self, const job_t *leader)
{
    uint64_t count = (uint64_t) leader->now.count + leader->next.count;
    if (count == 0)
        return LOOKS_STARVING;
    return count < (uint64_t) RAMP_PIECES * self->piece? LOOKS_FEW: LOOKS;
}

//  The leader's pieces, until one brings samples to read.  False: its looks were in vain.
static bool
s_look (stream_t *self, job_t *leader, int looks)
{
    for (; looks > 0 && !self->cut_keep && s_may_lead (self, leader); looks--) {
        s_lead (self, leader);
        s_piece_look (self, leader);
    }
    return self->cut_keep;
}

//  Jobs look for a piece, those with the least supply first.  Others than the leader leave room for one of
//  its pieces, which it may find at the next draw: a job with few samples neither keeps memory empty nor
//  starves.
static void
s_look_all (stream_t *self)
{
    job_t *leader = s_leader (self);
    int looks = leader? s_looks (self, leader): 0, others = LOOKS_FEW;
    while (leader && !s_look (self, leader, looks) && others > 0 && s_has_room (self, 2)) {
        leader->vain = true;
        leader = s_leader (self);
        looks = LOOKS;
        others -= LOOKS;
    }
    for (uint32_t index = 0; index < self->job_count; index++)
        self->jobs [index]->vain = false;
}

static bool
s_next (void *policy, raw_read_t *read)
{
    stream_t *self = policy;
    if (!self->cut_keep && s_has_room (self, 1))
        s_look_all (self);
    if (!self->cut_keep) {
        if (self->pool->figures.resident == 0 && !s_leader (self))
            s_ramp_begin (self);
        return false;
    }
    *read = s_cut (self);
    return true;
}

static void
s_join (void *policy, uint32_t number)
{
    stream_t *self = policy;
    assert (!self->by_number [number]);
    job_t *job = xalloc_memory (calloc (1, sizeof *job));
    job->number = number;
    job->weight = 1 + WEIGHT_MORE;
    self->by_number [number] = self->jobs [self->job_count++] = job;
    if (!self->hold)
        s_take_in_residents (self, job);
    s_pass_begin (self, job);
}

//  The supply ends, and what is in no other leaves.
static void
s_supply_end (stream_t *self, supply_t *supply)
{
    while (supply->count > 0) {
        uint32_t id = supply->ids [supply->count - 1];
        s_remove (self, supply, id);
        if (!self->supplies [id] && !self->hold)
            raw_pool_discard (self->pool, id);
    }
}

static void
s_leave (void *policy, uint32_t number)
{
    stream_t *self = policy;
    job_t *job = self->by_number [number];
    uint32_t index = 0;
    while (self->jobs [index] != job)
        index++;
    self->jobs [index] = self->jobs [--self->job_count];
    self->by_number [number] = NULL;
    s_supply_end (self, &job->now);
    s_supply_end (self, &job->next);
    s_job_destroy (job);
}

//  Samples that the job left out of its last epoch may leave.
static void
s_epoch_begin (void *policy, uint32_t number)
{
    stream_t *self = policy;
    job_t *job = self->by_number [number];
    supply_t left = job->now;
    job->now = job->next;
    job->next = (supply_t) { .count = 0 };
    if (!job->ahead)
        job->to_come = 0;
    job->ahead = false;
    s_supply_end (self, &left);
    supply_clear (&left);
    for (uint32_t index = job->now.count; index-- > 0;) {
        uint32_t id = job->now.ids [index];
        s_tidy (self, job, id);
        if (supply_has (&job->now, id))
            s_open (self, job, id, true);
        else if (!self->supplies [id] && !self->hold)
            raw_pool_discard (self->pool, id);
    }
}

static void
s_pace (void *policy, uint32_t number, double speed)
{
    stream_t *self = policy;
    double more = speed + WEIGHT_MORE, weight = more < WEIGHT_TIMES * speed? more: WEIGHT_TIMES * speed;
    self->by_number [number]->weight = weight > WEIGHT_LEAST? weight: WEIGHT_LEAST;
}

//  A job that has far more than the next leader gives back what is of it among a few random residents.  While
//  there is room the leader would have no use for more.
static void
s_share_out (void *policy)
{
    stream_t *self = policy;
    bool shares = self->job_count > 1 && !self->hold && !s_has_room (self, 1);
    const job_t *leader = shares? s_leader (self): NULL;
    double most = leader? GIVE * s_lasts (leader) + GIVE_LEAST: 0;
    for (int tries = 0; leader && tries < GIVERS && raw_pool_resident_count (self->pool) > 0; tries++) {
        uint32_t id = raw_pool_resident_at (self->pool,
            (uint32_t) raw_pool_random (self->pool, raw_pool_resident_count (self->pool)));
        for (uint32_t index = 0; index < self->job_count; index++)
            if (s_lasts (self->jobs [index]) > most)
                s_give_back (self, self->jobs [index], id);
        if (!self->supplies [id])
            raw_pool_discard (self->pool, id);
    }
}

static void
s_give_back_taken (void *policy, uint32_t number, uint32_t id)
{
    stream_t *self = policy;
    if (!self->hold && self->supplies [id])
        s_give_back (self, self->by_number [number], id);
}

static const supply_t *
s_supply (const void *policy, uint32_t number)
{
    const stream_t *self = policy;
    return &self->by_number [number]->now;
}

static bool
s_stays (void *policy, uint32_t id)
{
    stream_t *self = policy;
    if (s_tidy_all (self, id) || self->hold)
        return true;
    //  A version was just made of it, which serves all jobs that have it in their supplies.
    for (uint32_t index = 0; index < self->job_count && self->supplies [id]; index++)
        s_remove (self, &self->jobs [index]->now, id);
    return false;
}

static bool
s_holds (const void *policy)
{
    const stream_t *self = policy;
    return self->hold;
}

//  What the job does not need of its next supply, since it begins no further epoch, leaves.
static void
s_sweep_next (stream_t *self, job_t *job)
{
    for (uint32_t index = job->next.count; index-- > 0;) {
        uint32_t id = job->next.ids [index];
        s_tidy (self, job, id);
        if (!self->supplies [id])
            raw_pool_discard (self->pool, id);
    }
}

//  What only jobs that have left had is gone.
static bool
s_sweep (void *policy)
{
    stream_t *self = policy;
    for (uint32_t index = 0; !self->hold && index < self->job_count; index++) {
        job_t *job = self->jobs [index];
        if (!self->pool->options.goes_on (self->pool->options.context, job->number))
            s_sweep_next (self, job);
    }
    return !self->hold;
}

static bool
s_wants (void *policy, uint32_t id)
{
    stream_t *self = policy;
    s_tidy_all (self, id);
    bool wants = self->supplies [id];
    for (uint32_t index = 0; self->hold && !wants && index < self->job_count; index++)
        wants = raw_pool_need (self->pool, self->jobs [index]->number, id);
    return wants;
}

static void
s_was_drawn (void *policy, uint32_t id)
{
    (void) id;
    stream_t *self = policy;
    assert (self->cut_keep == 0);       //  raw_pool_next was called until it returned false
    self->ramp = s_least (self->ramp + (self->hold? 2: 1), self->capacity);
}

static void
s_has_left (void *policy, uint32_t id)
{
    stream_t *self = policy;
    for (uint32_t index = 0; index < self->job_count && self->supplies [id]; index++)
        s_give_back (self, self->jobs [index], id);
}

static void
s_restart (void *policy)
{
    stream_t *self = policy;
    self->cut_keep = 0;
    for (uint32_t index = 0; index < self->job_count; index++) {
        self->jobs [index]->to_come = 0;
        self->jobs [index]->ahead = false;
    }
    s_ramp_begin (self);
}

static void
s_limit_changed (void *policy)
{
    stream_t *self = policy;
    bool held = self->hold;
    s_measure (self);
    self->ramp = s_least (self->ramp, self->capacity);
    for (uint32_t index = 0; self->hold && !held && index < self->job_count; index++)
        s_take_in_residents (self, self->jobs [index]);
}

//  The passes that are under way end: their pieces would be of the old size.
static void
s_piece_changed (void *policy, uint32_t piece)
{
    stream_t *self = policy;
    if (piece == self->piece)
        return;
    assert (self->cut_keep == 0);
    s_set_piece (self, piece);
    s_limit_changed (self);
    for (uint32_t index = 0; index < self->job_count; index++)
        s_pass_begin (self, self->jobs [index]);
}

static void
s_check_job (const stream_t *self, const job_t *job, uint16_t *supplies)
{
    supply_check (&job->now);
    supply_check (&job->next);
    for (uint32_t index = 0; index < job->now.count; index++)
        supplies [job->now.ids [index]]++;
    for (uint32_t index = 0; index < job->next.count; index++)
        supplies [job->next.ids [index]]++;
    bool *seen = xalloc_memory (calloc (job->piece_count + 1, sizeof *seen));
    for (uint32_t place = 0; place < job->piece_count; place++) {
        assert (job->pieces [place] < job->piece_count && !seen [job->pieces [place]]);
        seen [job->pieces [place]] = true;
    }
    free (seen);
    assert (job->to_come <= job->piece_count);
    assert (self->by_number [job->number] == job);
}

//  W2
static void
s_check (const void *policy)
{
    const stream_t *self = policy;
    uint16_t *supplies = xalloc_memory (calloc (self->samples, sizeof *supplies));
    for (uint32_t index = 0; index < self->job_count; index++)
        s_check_job (self, self->jobs [index], supplies);
    for (uint32_t id = 0; id < self->samples; id++) {
        assert (supplies [id] == self->supplies [id]);
        assert (!supplies [id] || raw_pool_is_resident (self->pool, id));
    }
    free (supplies);
    assert (self->ramp <= self->capacity);
}

const raw_policy_ops_t raw_stream_ops = {
    .make = s_make,
    .destroy = s_destroy,
    .bytes = s_bytes,
    .job_bytes = s_job_bytes,
    .join = s_join,
    .leave = s_leave,
    .epoch_begin = s_epoch_begin,
    .pace = s_pace,
    .share_out = s_share_out,
    .give_back = s_give_back_taken,
    .supply = s_supply,
    .next = s_next,
    .stays = s_stays,
    .was_drawn = s_was_drawn,
    .has_left = s_has_left,
    .sweep = s_sweep,
    .wants = s_wants,
    .holds = s_holds,
    .restart = s_restart,
    .limit_changed = s_limit_changed,
    .piece_changed = s_piece_changed,
    .check = s_check,
};
