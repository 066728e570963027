//  A section for each family of tests: a job's orders against each other and against the ids, an order that
//  is found again, where groups come, jobs against each other, how a job is dealt to its ranks.

#include "audit_tests.h"
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "chance.h"

//  An order that correlates that much with the ids, and in which none comes further before its turn than this
//  part of the epoch, is called buffered.
#define BUFFERED_RANK 0.5
#define BUFFERED_REACH 0.8
//  Two orders are called the same if their positions correlate that much.
#define SAME_CORRELATION 0.9

enum { SKETCH_IDS = 1024 };

//  Whether what the trial found, be it significant or not, is little enough to be called fresh.
static bool
s_is_fresh (const trial_t *trial)
{
    switch (trial->made.kind) {
        case AUDIT_STALE:
        case AUDIT_OWN_STALE: return trial->value <= AUDIT_PHI2_FRESH;
        case AUDIT_STAYING: return trial->value <= AUDIT_STAY_FRESH;
        //  Tenths that follow each other so much bring as many pairs with them.
        case AUDIT_PAIRS: return trial->value <= AUDIT_PAIRS_FRESH;
        case AUDIT_TAIL_TO_HEAD: return trial->value <= AUDIT_HEADS_FRESH;
        default: return false;
    }
}

void
audit_tests_push (record_t *self, const trial_t *trial)
{
    if (!record_grow (self, &self->trials, self->trial_count, &self->trial_room, sizeof *self->trials))
        return;
    trial_t *kept = &self->trials [self->trial_count++];
    *kept = *trial;
    kept->fresh = s_is_fresh (trial);
}

//  --------------------------------------------------------------------------
//  Figures over epochs

//  A sum of figures: of all that were measured, and of those that are tested.
typedef struct { chance_figure_t all, tested; size_t all_count, tested_count; } series_t;

static void
s_series_add (series_t *self, const chance_figure_t *relation, bool tested)
{
    chance_add (&self->all, relation);
    self->all_count++;
    if (tested) {
        chance_add (&self->tested, relation);
        self->tested_count++;
    }
}

static audit_figure_t
s_figure (const chance_figure_t *sum, size_t count)
{
    double n = count? (double) count: 1;
    return (audit_figure_t) { .count = count, .value = sum->value / n, .expected = sum->mean / n,
        .spread = sqrt (sum->variance) / n };
}

static trial_t
s_trial (size_t job, audit_kind_t kind, look_t look, const epoch_t *before, const epoch_t *epoch)
{
    return (trial_t) { .made = { .kind = kind, .job = job }, .look = look, .other = job,
        .epoch = epoch? epoch->number: 0, .before = before? before->number: 0, .part = AUDIT_NONE };
}

//  Adds a test of the sum to those made; kind, job, look, epoch and before are the caller's.
static void
s_try (record_t *self, trial_t trial, const chance_figure_t *sum, size_t count)
{
    audit_figure_t figure = s_figure (sum, count);
    trial.value = figure.value;
    trial.expected = figure.expected;
    trial.spread = figure.spread;
    trial.made.p = chance_tail (sum);
    audit_tests_push (self, &trial);
}

//  Adds a figure to the series and, if it is tested, a test of it to those made.
static void
s_see (record_t *self, trial_t trial, series_t *series, const chance_figure_t *relation, bool tested)
{
    s_series_add (series, relation, tested);
    if (tested)
        s_try (self, trial, relation, 1);
}

//  The figure, and the test of all together.  One that was tested already is not again.
static audit_figure_t
s_series_end (record_t *self, trial_t trial, const series_t *series)
{
    trial.made.pooled = true;
    if (series->tested_count > 1)
        s_try (self, trial, &series->tested, series->tested_count);
    return s_figure (&series->all, series->all_count);
}

//  phi2 of a permutation: as design and simulator define it, the chi-square less the 81 of an endless table.
static chance_figure_t
s_phi2 (const uint32_t *relative, size_t count)
{
    double degrees = (CHANCE_TENTHS - 1) * (CHANCE_TENTHS - 1);
    chance_figure_t tenths = chance_tenths (relative, count);
    tenths.value -= degrees;
    tenths.mean -= degrees;
    return chance_scaled (tenths, 1 / (double) count);
}

//  --------------------------------------------------------------------------
//  What one order says about another

//  Positions among the common ids, which mark tells: given which these are, all their orders are equally
//  likely.
static void
s_renumber (uint32_t *relative, size_t common, uint32_t *mark, size_t count)
{
    for (size_t place = 0, below = 0; place < count; place++) {
        size_t counts = mark [place];
        mark [place] = (uint32_t) below;
        below += counts;
    }
    for (size_t index = 0; index < common; index++)
        relative [index] = mark [relative [index]];
}

//  Sets self->relative for the ids that both have; returns their number.  A NULL second: the ids ascending.
static size_t
s_relate (record_t *self, const job_t *job, const epoch_t *first, const epoch_t *second)
{
    size_t second_count = second? second->count: job->universe_count, common = 0;
    for (size_t rank = 0; rank < job->universe_count; rank++)
        self->place [rank] = second? AUDIT_NONE: (uint32_t) rank;
    for (size_t place = 0; place < second_count; place++) {
        self->mark [place] = 0;
        if (second)
            self->place [second->ids [place]] = (uint32_t) place;
    }
    for (size_t place = 0; place < first->count; place++) {
        uint32_t found = self->place [first->ids [place]];
        if (found != AUDIT_NONE) {
            self->mark [found] = 1;
            self->relative [common++] = found;
        }
    }
    if (common < second_count)
        s_renumber (self->relative, common, self->mark, second_count);
    return common;
}

//  The finished epoch that comes so many after that one; NULL: not recorded, or one of them is unfinished.
static const epoch_t *
s_later (const job_t *job, size_t index, uint64_t lag)
{
    const epoch_t *epoch = &job->epochs [index];
    for (size_t next = index + 1; next < job->count && job->epochs [next].number - epoch->number <= lag;
        next++)
        if (job->epochs [next].number - epoch->number == lag)
            return epoch->finished && job->epochs [next].finished? &job->epochs [next]: NULL;
    return NULL;
}

//  --------------------------------------------------------------------------
//  Each epoch and a later one

//  The last twentieth in the first: hits, and how many there might have been; laws are exact.
typedef struct {
    uint64_t hits, tested_hits, tested_drawn;
    double mean, variance, tested_mean;
    size_t count, tested_count;
} heads_t;

typedef struct {
    record_t *record;
    size_t job;
    series_t phi2 [AUDIT_LAGS], pairs;
    heads_t heads;
    uint64_t shared_drops;      //  ids that two epochs after each other both lack
    double shared_drops_mean;
    size_t drop_pairs;
} sequence_t;

static void
s_see_heads (sequence_t *self, const epoch_t *before, const epoch_t *epoch, size_t count, bool tested)
{
    heads_t *heads = &self->heads;
    size_t part = chance_twentieth (count), hits = chance_tail_to_head (self->record->relative, count);
    double n = (double) count, share = (double) part / n, mean = (double) part * share;
    double variance = mean * (1 - share) * (n - (double) part) / (n - 1);
    heads->hits += hits;
    heads->mean += mean;
    heads->variance += variance;
    heads->count++;
    if (!tested)
        return;
    heads->tested_hits += hits;
    heads->tested_drawn += part;
    heads->tested_mean += mean;
    heads->tested_count++;
    trial_t trial = s_trial (self->job, AUDIT_TAIL_TO_HEAD, LOOK_TAIL_TO_HEAD, before, epoch);
    trial.value = (double) hits / mean;
    trial.expected = 1;
    trial.spread = sqrt (variance) / mean;
    trial.made.p = chance_hypergeometric (count, part, part, hits);
    audit_tests_push (self->record, &trial);
}

//  Have both epochs an order of their own?  One that is found again as a whole has a finding of its own,
//  which says more; and what it has to do with others has been tested with the one that it repeats.
static bool
s_is_tested (const epoch_t *before, const epoch_t *epoch)
{
    return before->same == AUDIT_KINDS && epoch->same == AUDIT_KINDS;
}

static void
s_see_epochs (sequence_t *self, const job_t *job, size_t index, uint64_t lag)
{
    const epoch_t *before = &job->epochs [index], *epoch = s_later (job, index, lag);
    if (!epoch)
        return;
    record_t *record = self->record;
    bool tested = s_is_tested (before, epoch);
    size_t count = s_relate (record, job, before, epoch);
    if (count >= AUDIT_TENTHS_LEAST) {
        chance_figure_t phi2 = s_phi2 (record->relative, count);
        trial_t trial = s_trial (self->job, AUDIT_STALE, LOOK_PHI2, before, epoch);
        s_see (record, trial, &self->phi2 [lag - 1], &phi2, tested);
    }
    if (lag > 1)
        return;
    if (count >= AUDIT_PAIRS_LEAST) {
        chance_figure_t pairs = chance_pairs (record->relative, count);
        pairs = chance_scaled (pairs, 1 / pairs.mean);
        trial_t trial = s_trial (self->job, AUDIT_PAIRS, LOOK_PAIRS, before, epoch);
        s_see (record, trial, &self->pairs, &pairs, tested);
    }
    if (count >= AUDIT_TAIL_LEAST)
        s_see_heads (self, before, epoch, count, tested);
    if (job->dropped) {
        double dropped = (double) job->dropped;
        self->shared_drops += count + 2 * job->dropped - (size_t) job->shown.samples;
        self->shared_drops_mean += dropped * dropped / (double) job->shown.samples;
        self->drop_pairs++;
    }
}

//  A sum of hypergeometric counts is a sum of independent yes-or-noes; above its mean such a sum's tail is at
//  most the binomial one's (Hoeffding 1956).
static void
s_end_heads (sequence_t *self, audit_figure_t *figure)
{
    const heads_t *heads = &self->heads;
    figure->count = heads->count;
    if (heads->count == 0)
        return;
    figure->value = (double) heads->hits / heads->mean;
    figure->expected = 1;
    figure->spread = sqrt (heads->variance) / heads->mean;
    if (heads->tested_count < 2)
        return;
    trial_t trial = s_trial (self->job, AUDIT_TAIL_TO_HEAD, LOOK_TAIL_TO_HEAD, NULL, NULL);
    trial.made.pooled = true;
    trial.value = (double) heads->tested_hits / heads->tested_mean;
    trial.expected = 1;
    trial.spread = figure->spread;
    //  The bound holds from one above the mean on.
    trial.made.p = (double) heads->tested_hits < heads->tested_mean + 1? 1:
        chance_binomial (heads->tested_drawn, heads->tested_mean / (double) heads->tested_drawn,
            heads->tested_hits);
    audit_tests_push (self->record, &trial);
}

//  Does drop_last leave out the same samples again and again?
static void
s_end_drops (sequence_t *self, const job_t *job)
{
    if (self->drop_pairs == 0)
        return;
    uint64_t chances = self->drop_pairs * job->dropped;
    trial_t trial = s_trial (self->job, AUDIT_MISSING, LOOK_DROPPED, NULL, NULL);
    trial.made.pooled = true;
    trial.value = (double) self->shared_drops;
    trial.expected = self->shared_drops_mean;
    trial.made.p = (double) self->shared_drops < self->shared_drops_mean + 1? 1:
        chance_binomial (chances, self->shared_drops_mean / (double) chances, self->shared_drops);
    audit_tests_push (self->record, &trial);
}

static void
s_compare_epochs (record_t *self, size_t job_index)
{
    job_t *job = &self->jobs [job_index];
    sequence_t sequence = { .record = self, .job = job_index };
    for (uint64_t lag = 1; lag <= AUDIT_LAGS; lag++) {
        for (size_t index = 0; index < job->count; index++)
            s_see_epochs (&sequence, job, index, lag);
        trial_t trial = s_trial (sequence.job, AUDIT_STALE, LOOK_PHI2, NULL, NULL);
        trial.epoch = lag;              //  pooled: the distance
        job->shown.phi2 [lag - 1] = s_series_end (self, trial, &sequence.phi2 [lag - 1]);
    }
    job->shown.pair_repeat = s_series_end (self, s_trial (sequence.job, AUDIT_PAIRS, LOOK_PAIRS, NULL, NULL),
        &sequence.pairs);
    s_end_heads (&sequence, &job->shown.t5h5);
    s_end_drops (&sequence, job);
}

//  --------------------------------------------------------------------------
//  Each epoch and the ids

typedef struct { series_t tenths, rank, nearness, pairs; } ids_series_t;

//  How many places before its turn an id comes at most; of a buffer over sorted data this is the buffer.
static double
s_reach (const uint32_t *relative, size_t count, bool descending)
{
    double reach = 0;
    for (size_t place = 0; place < count; place++) {
        double turn = descending? (double) (count - 1 - relative [place]): (double) relative [place];
        reach = fmax (reach, turn - (double) place);
    }
    return reach;
}

//  Both signs are faults: the p is of either.
static void
s_try_rank (record_t *self, trial_t trial, const chance_figure_t *sum, size_t count)
{
    audit_figure_t figure = s_figure (sum, count);
    trial.look = LOOK_ID_RANK;
    trial.value = figure.value;
    trial.spread = figure.spread;
    trial.made.p = 2 * chance_normal (fabs (sum->value) / sqrt (sum->variance));
    audit_tests_push (self, &trial);
}

//  Returns whether it looks buffered.
static bool
s_see_ids (record_t *self, const job_t *job, const epoch_t *epoch, trial_t trial, ids_series_t *series)
{
    size_t count = s_relate (self, job, epoch, NULL);
    const uint32_t *relative = self->relative;
    bool tested = epoch->same == AUDIT_KINDS;
    if (count < AUDIT_RANK_LEAST)
        return false;
    chance_figure_t rank = chance_rank (relative, count), nearness = chance_nearness (relative, count);
    trial.reach = s_reach (relative, count, rank.value < 0);
    bool buffered = fabs (rank.value) >= BUFFERED_RANK
        && trial.reach <= BUFFERED_REACH * (double) count;
    if (buffered)
        trial.made.kind = AUDIT_BUFFERED;
    s_series_add (&series->rank, &rank, tested);
    if (tested)
        s_try_rank (self, trial, &rank, 1);
    //  In a joined order neighbours are of different ranks, but perhaps of one node, which has few samples.
    trial.look = LOOK_ID_NEARNESS;
    if (!job->parts)
        s_see (self, trial, &series->nearness, &nearness, tested);
    if (count >= AUDIT_TENTHS_LEAST) {
        chance_figure_t phi2 = s_phi2 (relative, count);
        trial.look = LOOK_ID_TENTHS;
        s_see (self, trial, &series->tenths, &phi2, tested);
    }
    if (count >= AUDIT_PAIRS_LEAST) {
        chance_figure_t pairs = chance_pairs (relative, count);
        pairs = chance_scaled (pairs, 1 / pairs.mean);
        trial.look = LOOK_ID_PAIRS;
        s_see (self, trial, &series->pairs, &pairs, tested);
    }
    return buffered;
}

static void
s_compare_ids (record_t *self, size_t job_index)
{
    job_t *job = &self->jobs [job_index];
    ids_series_t series = { 0 };
    trial_t trial = { .made = { .kind = AUDIT_UNSHUFFLED, .job = job_index }, .other = job_index };
    bool buffered = true;
    for (size_t index = 0; index < job->count; index++) {
        trial.epoch = job->epochs [index].number;
        buffered &= s_see_ids (self, job, &job->epochs [index], trial, &series);
    }
    trial.made.pooled = true;
    if (buffered)
        trial.made.kind = AUDIT_BUFFERED;
    if (series.rank.tested_count > 1)
        s_try_rank (self, trial, &series.rank.tested, series.rank.tested_count);
    job->shown.id_correlation = s_figure (&series.rank.all, series.rank.all_count);
    trial.look = LOOK_ID_NEARNESS;
    s_series_end (self, trial, &series.nearness);
    trial.look = LOOK_ID_TENTHS;
    job->shown.id_phi2 = s_series_end (self, trial, &series.tenths);
    trial.look = LOOK_ID_PAIRS;
    s_series_end (self, trial, &series.pairs);
}

//  --------------------------------------------------------------------------
//  One order as a whole, found again

//  Scatters 64 bits: splitmix64's last steps.
static uint64_t
s_mix (uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static size_t
s_smallest (const epoch_t *epoch)
{
    size_t smallest = 0;
    for (size_t place = 1; place < epoch->count; place++)
        if (epoch->ids [place] < epoch->ids [smallest])
            smallest = place;
    return smallest;
}

//  Hashes of the order as a ring, forwards and backwards from the smallest id.
static void
s_hash_epoch (const job_t *job, epoch_t *epoch)
{
    size_t smallest = epoch->count? s_smallest (epoch): 0, count = epoch->count;
    for (size_t step = 0; step < count; step++) {
        uint32_t ahead = epoch->ids [(smallest + step) % count];
        uint32_t back = epoch->ids [(smallest + count - step) % count];
        epoch->hash = s_mix (epoch->hash + job->universe [ahead] + 1);
        epoch->hash_back = s_mix (epoch->hash_back + job->universe [back] + 1);
    }
}

//  Is one order the other's, begun elsewhere, and perhaps backwards?
static bool
s_is_turned (const epoch_t *epoch, const epoch_t *earlier, bool back)
{
    size_t count = epoch->count, place = s_smallest (epoch), other = s_smallest (earlier);
    if (earlier->count != count)
        return false;
    for (size_t step = 0; step < count; step++) {
        size_t there = back? other + count - step: other + step;
        if (epoch->ids [(place + step) % count] != earlier->ids [there % count])
            return false;
    }
    return true;
}

//  AUDIT_KINDS: it is another order.
static audit_kind_t
s_likeness (const epoch_t *epoch, const epoch_t *earlier)
{
    if (s_is_turned (epoch, earlier, false))
        return epoch->ids [0] == earlier->ids [0]? AUDIT_REPEATED: AUDIT_ROTATED;
    return s_is_turned (epoch, earlier, true)? AUDIT_REVERSED: AUDIT_KINDS;
}

//  Ascending or descending, begun anywhere: in a ring there is one step the other way.
static const char *
s_sorted_how (const epoch_t *epoch)
{
    size_t down = 0, count = epoch->count;
    for (size_t place = 0; place < count; place++)
        down += epoch->ids [(place + 1) % count] < epoch->ids [place];
    if (down == 1)
        return epoch->ids [0] < epoch->ids [count - 1]? "ascending": "ascending, begun in the middle";
    if (down == count - 1)
        return epoch->ids [0] > epoch->ids [count - 1]? "descending": "descending, begun in the middle";
    return NULL;
}

typedef struct { uint64_t key; size_t index; } keyed_t;

static int
s_compare_keyed (const void *one, const void *two)
{
    const keyed_t *first = one, *second = two;
    if (first->key != second->key)
        return first->key < second->key? -1: 1;
    return first->index < second->index? -1: first->index > second->index;
}

//  Marks the epochs that repeat an earlier one.  Epochs with equal hashes are compared as a whole.
static void
s_find_repeats (record_t *self, job_t *job)
{
    keyed_t *keyed = calloc (job->count? job->count: 1, sizeof *keyed);
    size_t count = 0;
    for (size_t index = 0; keyed && index < job->count; index++) {
        const epoch_t *epoch = &job->epochs [index];
        if (epoch->finished && epoch->count >= AUDIT_SAME_LEAST)
            keyed [count++] = (keyed_t) { epoch->hash < epoch->hash_back? epoch->hash: epoch->hash_back,
                index };
    }
    if (keyed)
        qsort (keyed, count, sizeof *keyed, s_compare_keyed);
    self->out_of_memory |= !keyed;
    for (size_t index = 0, first = 0; index < count; index++) {
        first = keyed [index].key == keyed [first].key? first: index;
        epoch_t *epoch = &job->epochs [keyed [index].index];
        const epoch_t *earlier = &job->epochs [keyed [first].index];
        audit_kind_t kind = first == index? AUDIT_KINDS: s_likeness (epoch, earlier);
        if (kind == AUDIT_KINDS)
            continue;
        epoch->same_as = earlier->number;
        if (epoch->same != AUDIT_SORTED)
            epoch->same = kind;
    }
    free (keyed);
}

//  The p of all these findings of a job: true shuffles of count samples, two of which, or one and the
//  ascending one, are the same ring, forwards or backwards.
static double
s_same_p (size_t epochs, size_t count)
{
    double n = (double) count, pairs = (double) epochs * (double) (epochs + 1) / 2;
    return fmin (1, exp (log (2 * n * pairs) - lgamma (n + 1)));
}

static void
s_find_same (record_t *self, size_t job_index)
{
    job_t *job = &self->jobs [job_index];
    size_t least = SIZE_MAX, count = 0;
    for (size_t index = 0; index < job->count; index++) {
        epoch_t *epoch = &job->epochs [index];
        s_hash_epoch (job, epoch);
        if (epoch->count < AUDIT_SAME_LEAST)
            continue;
        least = epoch->count < least? epoch->count: least;
        count++;
        epoch->sorted_how = s_sorted_how (epoch);
        epoch->same = epoch->sorted_how? AUDIT_SORTED: AUDIT_KINDS;
    }
    s_find_repeats (self, job);
    if (count == 0)
        return;
    trial_t trial = s_trial (job_index, AUDIT_REPEATED, LOOK_SAME, NULL, NULL);
    trial.made.pooled = true;
    trial.made.p = 1;
    for (size_t index = 0; index < job->count; index++)
        if (job->epochs [index].same != AUDIT_KINDS)
            trial.made.p = s_same_p (count, least);
    audit_tests_push (self, &trial);
}

//  --------------------------------------------------------------------------
//  Jobs against each other: are they independent replicates?
//
//  Each two jobs are compared in each epoch of the same number, on about SKETCH_IDS ids, the same for all:
//  the ids with a small hash.  So the work for two jobs does not grow with their data.  Jobs that have too
//  few of these ids in common are never reported as "same order".

//  The hash below which an id is in the sample.
static uint64_t
s_threshold (const record_t *self)
{
    size_t largest = 0;
    for (size_t index = 0; index < self->job_count; index++)
        if (self->jobs [index].universe_count > largest)
            largest = self->jobs [index].universe_count;
    return largest <= SKETCH_IDS? UINT64_MAX: UINT64_MAX / largest * SKETCH_IDS;
}

static int
s_compare_placed (const void *one, const void *two)
{
    const placed_t *first = one, *second = two;
    return first->id < second->id? -1: first->id > second->id;
}

//  Fills in the epoch's sketch; false: no memory.
static bool
s_sketch_epoch (const job_t *job, epoch_t *epoch, uint64_t threshold)
{
    size_t count = 0;
    for (size_t place = 0; place < epoch->count; place++)
        count += s_mix (job->universe [epoch->ids [place]]) <= threshold;
    epoch->sketch = calloc (count + 1, sizeof *epoch->sketch);
    epoch->sketch_by_id = calloc (count + 1, sizeof *epoch->sketch_by_id);
    if (!epoch->sketch || !epoch->sketch_by_id)
        return false;
    for (size_t place = 0; place < epoch->count; place++) {
        uint32_t id = job->universe [epoch->ids [place]], next = (uint32_t) epoch->sketch_count;
        if (s_mix (id) > threshold)
            continue;
        epoch->sketch_by_id [next] = (placed_t) { id, next };
        epoch->sketch [next] = id;
        epoch->sketch_count++;
    }
    qsort (epoch->sketch_by_id, count, sizeof *epoch->sketch_by_id, s_compare_placed);
    return true;
}

//  The place of an id in the sketch; AUDIT_NONE: it is not in it.
static uint32_t
s_find_id (const epoch_t *epoch, uint32_t id)
{
    placed_t wanted = { .id = id };
    const placed_t *found = bsearch (&wanted, epoch->sketch_by_id, epoch->sketch_count, sizeof wanted,
        s_compare_placed);
    return found? found->place: AUDIT_NONE;
}

//  Sets relative for the sampled ids that both have; returns their number.  mark has room for the second's.
static size_t
s_relate_sketches (const epoch_t *first, const epoch_t *second, uint32_t *relative, uint32_t *mark)
{
    size_t common = 0;
    for (size_t place = 0; place < second->sketch_count; place++)
        mark [place] = 0;
    for (size_t place = 0; place < first->sketch_count; place++) {
        uint32_t found = s_find_id (second, first->sketch [place]);
        if (found != AUDIT_NONE) {
            mark [found] = 1;
            relative [common++] = found;
        }
    }
    s_renumber (relative, common, mark, second->sketch_count);
    return common;
}

static bool
s_is_identical (const record_t *self, size_t job, size_t other, const epoch_t *first, const epoch_t *second)
{
    return first->count > 0 && first->count == second->count && first->hash == second->hash
        && self->jobs [job].universe [first->ids [0]] == self->jobs [other].universe [second->ids [0]];
}

//  Too few ids for the table: only the same order as a whole is seen.
static void
s_compare_small (record_t *self, size_t job, size_t other, const epoch_t *first, const epoch_t *second)
{
    trial_t trial = { .made = { .kind = AUDIT_SAME_ORDER, .job = job, .p = 1 }, .look = LOOK_FILES,
        .other = other, .epoch = first->number };
    trial.identical = s_is_identical (self, job, other, first, second);
    if (trial.identical)
        trial.made.p = exp (-lgamma ((double) first->count + 1));
    audit_tests_push (self, &trial);
}

static void
s_compare_sketches (record_t *self, size_t job, size_t other, const epoch_t *first, const epoch_t *second,
uint32_t *scratch [2])
{
    size_t count = s_relate_sketches (first, second, scratch [0], scratch [1]);
    //  Ids in ascending or descending order in both show nothing of a common source.
    if (count < AUDIT_SAME_LEAST || (first->same == AUDIT_SORTED && second->same == AUDIT_SORTED))
        return;
    if (count < AUDIT_TENTHS_LEAST) {
        s_compare_small (self, job, other, first, second);
        return;
    }
    chance_figure_t tenths = chance_tenths (scratch [0], count), rank = chance_rank (scratch [0], count);
    double degrees = (CHANCE_TENTHS - 1) * (CHANCE_TENTHS - 1);
    trial_t trial = { .made = { .kind = AUDIT_RELATED_ORDER, .job = job, .p = chance_tail (&tenths) },
        .look = LOOK_FILES, .other = other, .epoch = first->number,
        .value = (tenths.value - degrees) / (double) count,
        .spread = sqrt (tenths.variance) / (double) count };
    if (rank.value >= SAME_CORRELATION)
        trial.made.kind = AUDIT_SAME_ORDER;
    trial.identical = s_is_identical (self, job, other, first, second);
    audit_tests_push (self, &trial);
}

static void
s_compare_jobs (record_t *self, size_t job, size_t other, uint32_t *scratch [2])
{
    const job_t *one = &self->jobs [job], *two = &self->jobs [other];
    for (size_t index = 0, next = 0; index < one->count; index++) {
        while (next < two->count && two->epochs [next].number < one->epochs [index].number)
            next++;
        if (next < two->count && two->epochs [next].number == one->epochs [index].number)
            s_compare_sketches (self, job, other, &one->epochs [index], &two->epochs [next], scratch);
    }
}

//  --------------------------------------------------------------------------
//  How a job is dealt to its ranks (or nodes): each rank recorded its part of every epoch.
//
//  Samples *stay* that have the same rank in two epochs.  Their expected number is exact for any independent
//  deals of which one is uniform.  Its variance is not: a job over nodes is dealt in units of 64 neighbours
//  (sampler/parts.h), of which all stay or none.  But pairs of epochs are uncorrelated and have one variance,
//  so that the other pairs show it: the *dispersion* is how much more these vary than samples that are dealt
//  one by one.  A test takes the larger one of both variances, and Student's law.
//
//  A rank's own order needs no such care: given which samples it has in two epochs, all orders of these are
//  equally likely.

//  Two epochs: how many samples stay.
typedef struct { const epoch_t *before, *epoch; uint64_t lag; chance_figure_t stay; } pair_t;

typedef struct {
    record_t *record;
    size_t job_index;
    const job_t *job;
    audit_parts_t *parts;
    pair_t *pairs;              //  each two finished epochs of an order of their own
    size_t pair_count, epoch_count;
    double least;               //  samples that both epochs of a pair have
    size_t *rows, *columns;     //  by part: samples in the one epoch of two, and in the other
    size_t *common, *used;      //  by part: samples that it has in both
    series_t all, *own;         //  of one lag
} dealing_t;

//  From here on epoch->parts is by the ids' ranks in the universe.
static bool
s_index_parts (const job_t *job)
{
    for (size_t index = 0; index < job->count; index++) {
        epoch_t *epoch = &job->epochs [index];
        uint16_t *parts = calloc (job->universe_count? job->universe_count: 1, sizeof *parts);
        if (!parts)
            return false;
        memset (parts, 0xff, job->universe_count * sizeof *parts);
        for (size_t place = 0; place < epoch->count; place++)
            parts [epoch->ids [place]] = epoch->parts [place];
        free (epoch->parts);
        epoch->parts = parts;
    }
    return true;
}

static size_t
s_root (size_t *parents, size_t part)
{
    while (parents [part] != part)
        part = parents [part] = parents [parents [part]];
    return part;
}

//  Counts the groups of ranks between which no sample changes; a rank that never has one is in none.
static void
s_count_groups (dealing_t *self)
{
    const job_t *job = self->job;
    size_t *parents = self->used;       //  of each part, one of its group
    for (size_t part = 0; part < self->parts->count; part++) {
        parents [part] = part;
        self->common [part] = 0;
    }
    for (size_t sample = 0; sample < job->universe_count; sample++) {
        size_t first = AUDIT_NO_PART;
        for (size_t index = 0; index < job->count; index++) {
            size_t part = job->epochs [index].parts [sample];
            if (!job->epochs [index].finished || part == AUDIT_NO_PART)
                continue;
            first = first == AUDIT_NO_PART? part: first;
            parents [s_root (parents, part)] = s_root (parents, first);
            self->common [part] = 1;
        }
    }
    for (size_t part = 0; job->shown.epochs > 1 && part < self->parts->count; part++)
        self->parts->groups += self->common [part] && parents [part] == part;
}

//  --------------------------------------------------------------------------
//  Own orders

//  For each rank, sets record->relative of the samples that it has in both epochs, which common counts; the
//  ranks' samples follow each other, and used says where a rank's end.
static void
s_relate_ranks (dealing_t *self, const epoch_t *before, const epoch_t *epoch)
{
    size_t begin = 0;
    memset (self->common, 0, self->parts->count * sizeof *self->common);
    for (size_t place = 0; place < epoch->count; place++) {
        uint32_t sample = epoch->ids [place];
        if (before->parts [sample] == epoch->parts [sample])
            self->record->mark [sample] = (uint32_t) self->common [epoch->parts [sample]]++;
    }
    for (size_t part = 0; part < self->parts->count; begin += self->common [part++])
        self->used [part] = begin;
    for (size_t place = 0; place < before->count; place++) {
        uint32_t sample = before->ids [place];
        if (epoch->parts [sample] == before->parts [sample])
            self->record->relative [self->used [epoch->parts [sample]]++] = self->record->mark [sample];
    }
}

static void
s_see_own (dealing_t *self, const epoch_t *before, const epoch_t *epoch)
{
    bool tested = s_is_tested (before, epoch);
    trial_t trial = s_trial (self->job_index, AUDIT_OWN_STALE, LOOK_OWN, before, epoch);
    s_relate_ranks (self, before, epoch);
    for (trial.part = 0; trial.part < self->parts->count; trial.part++) {
        size_t count = self->common [trial.part];
        if (count < AUDIT_TENTHS_LEAST)
            continue;
        chance_figure_t phi2 = s_phi2 (self->record->relative + self->used [trial.part] - count, count);
        s_see (self->record, trial, &self->own [trial.part], &phi2, tested);
        s_series_add (&self->all, &phi2, tested);
    }
}

//  Does a rank's own order depend on the one before?
static void
s_compare_own (dealing_t *self, uint64_t lag)
{
    audit_parts_t *parts = self->parts;
    memset (self->own, 0, parts->count * sizeof *self->own);
    self->all = (series_t) { .all_count = 0 };
    for (size_t index = 0; index < self->job->count; index++) {
        const epoch_t *epoch = s_later (self->job, index, lag);
        if (epoch)
            s_see_own (self, &self->job->epochs [index], epoch);
    }
    trial_t trial = s_trial (self->job_index, AUDIT_OWN_STALE, LOOK_OWN, NULL, NULL);
    trial.epoch = lag;                  //  pooled: the distance
    parts->own_phi2 [lag - 1] = s_series_end (self->record, trial, &self->all);
    for (trial.part = 0; trial.part < parts->count; trial.part++)
        parts->part [trial.part].own_phi2 [lag - 1] = s_series_end (self->record, trial,
            &self->own [trial.part]);
}

//  --------------------------------------------------------------------------
//  Staying

//  Mean and variance are those of permutations of which the sizes of the parts are given; the third moment is
//  that of as many samples, each for itself.
static void
s_count_stay (dealing_t *self, pair_t *pair)
{
    double n = 0, stay = 0, both = 0, cubes = 0;
    memset (self->rows, 0, self->parts->count * sizeof *self->rows);
    memset (self->columns, 0, self->parts->count * sizeof *self->columns);
    for (size_t sample = 0; sample < self->job->universe_count; sample++) {
        size_t row = pair->before->parts [sample], column = pair->epoch->parts [sample];
        if (row == AUDIT_NO_PART || column == AUDIT_NO_PART)
            continue;
        self->rows [row]++;
        self->columns [column]++;
        stay += row == column;
    }
    for (size_t part = 0; part < self->parts->count; part++) {
        double row = (double) self->rows [part], column = (double) self->columns [part];
        n += row;
        both += row * column;
        cubes += row * column * (row + column);
    }
    double p = n > 0? both / (n * n): 0;
    pair->stay = (chance_figure_t) { .value = stay, .mean = n * p, .third = n * p * (1 - p) * (1 - 2 * p) };
    if (n > 1)
        pair->stay.variance = (both - cubes / n + n * n * p * p) / (n - 1);
    self->least = fmin (self->least, n);
}

//  How much more the pairs of other lags vary than samples that are dealt one by one; lag 0: all pairs.
//  degrees_p: of freedom.
static double
s_dispersion (const dealing_t *self, uint64_t lag, double *degrees_p)
{
    double count = 0, sum = 0, squares = 0;
    for (size_t index = 0; index < self->pair_count; index++) {
        const chance_figure_t *stay = &self->pairs [index].stay;
        double z = (stay->value - stay->mean) / sqrt (stay->variance);
        if (self->pairs [index].lag == lag)
            continue;
        count++;
        sum += z;
        squares += z * z;
    }
    *degrees_p = count - 1;
    return (squares - sum * sum / count) / (count - 1);
}

//  Tests a sum over pairs; returns it by what is expected.
static audit_figure_t
s_try_stay (dealing_t *self, trial_t trial, chance_figure_t sum, uint64_t lag, size_t count)
{
    double degrees, dispersion = s_dispersion (self, lag, &degrees), off = sum.value - sum.mean;
    double factor = fmax (1, dispersion);
    //  The normal figure that is as improbable as Student's (Wallace 1959).
    double t2 = dispersion > 0? off * off / (sum.variance * dispersion): HUGE_VAL;
    double z = (8 * degrees + 1) / (8 * degrees + 3) * sqrt (degrees * log1p (t2 / degrees));
    trial.value = sum.value / sum.mean;
    trial.expected = 1;
    trial.spread = sqrt (sum.variance * factor) / sum.mean;
    sum.variance = fmax (sum.variance, off * off / (z * z));
    sum.third *= factor * factor;
    trial.made.p = off > 0? chance_tail (&sum): 1;
    audit_tests_push (self->record, &trial);
    return (audit_figure_t) { .count = count, .value = trial.value, .expected = 1, .spread = trial.spread };
}

//  Do samples stay with the rank that they had, so many epochs later?
static void
s_compare_stay (dealing_t *self, uint64_t lag)
{
    chance_figure_t sum = { .value = 0 };
    size_t count = 0;
    for (size_t index = 0; index < self->pair_count; index++) {
        const pair_t *pair = &self->pairs [index];
        if (pair->lag != lag)
            continue;
        chance_add (&sum, &pair->stay);
        count++;
        s_try_stay (self, s_trial (self->job_index, AUDIT_STAYING, LOOK_STAYING, pair->before, pair->epoch),
            pair->stay, lag, 1);
    }
    trial_t trial = s_trial (self->job_index, AUDIT_STAYING, LOOK_STAYING, NULL, NULL);
    trial.made.pooled = true;
    trial.epoch = lag;
    if (count > 1)
        self->parts->stay [lag - 1] = s_try_stay (self, trial, sum, lag, count);
}

//  Are samples with some ranks more often than with others?  With W equal parts, n samples and E epochs the
//  chi-square of "sample" x "rank" is n (W - 1) + 2 W / E (how many more stay than is expected, over all
//  pairs of epochs).  Its third moment has those of the pairs, and those of each three epochs.
static void
s_compare_all (dealing_t *self)
{
    chance_figure_t sum = { .value = 0 };
    double epochs = (double) self->epoch_count;
    for (size_t index = 0; index < self->pair_count; index++)
        chance_add (&sum, &self->pairs [index].stay);
    double pairs = (double) self->pair_count, p = sum.mean / (pairs * self->least);
    sum.third += self->least * epochs * (epochs - 1) * (epochs - 2) * p * p * (1 - p);
    double scale = 2 / (epochs * self->least * (1 - p));
    sum = chance_scaled (sum, scale);
    //  By n (W - 1) the chi-square has a mean of 1.
    sum.value += 1 - sum.mean;
    sum.mean = 1;
    trial_t trial = s_trial (self->job_index, AUDIT_UNEVEN, LOOK_UNEVEN, NULL, NULL);
    trial.made.pooled = true;
    trial.epochs = self->epoch_count;
    self->parts->uneven = s_try_stay (self, trial, sum, 0, self->epoch_count);
}

//  Lists the pairs of epochs; false: there is no memory.
static bool
s_pair_epochs (dealing_t *self)
{
    const job_t *job = self->job;
    const epoch_t **epochs = calloc (job->count? job->count: 1, sizeof *epochs);
    size_t count = 0;
    for (size_t index = 0; epochs && index < job->count; index++)
        if (job->epochs [index].finished && job->epochs [index].same == AUDIT_KINDS)
            epochs [count++] = &job->epochs [index];
    self->epoch_count = count;
    self->pairs = calloc (count * count + 1, sizeof *self->pairs);
    for (size_t after = 0; epochs && self->pairs && after < count; after++)
        for (size_t before = 0; before < after; before++) {
            pair_t *pair = &self->pairs [self->pair_count++];
            pair->before = epochs [before];
            pair->epoch = epochs [after];
            pair->lag = pair->epoch->number - pair->before->number;
            s_count_stay (self, pair);
        }
    bool fine = epochs && self->pairs;
    free (epochs);
    return fine;
}

//  Are there enough epochs and samples, and is there chance in all?
static bool
s_can_compare (const dealing_t *self)
{
    bool can = self->epoch_count >= AUDIT_DEALS_LEAST
        && self->least >= fmax (AUDIT_DEALT_LEAST, 10 * (double) self->parts->count);
    for (size_t index = 0; index < self->pair_count; index++)
        can &= self->pairs [index].stay.variance > 0;
    return can;
}

//  Room for all; false: there is none.
static bool
s_begin_dealing (dealing_t *self)
{
    size_t count = self->parts->count;
    self->rows = calloc (count, sizeof *self->rows);
    self->columns = calloc (count, sizeof *self->columns);
    self->common = calloc (count, sizeof *self->common);
    self->used = calloc (count, sizeof *self->used);
    self->own = calloc (count, sizeof *self->own);
    if (!self->rows || !self->columns || !self->common || !self->used || !self->own)
        return false;
    return s_index_parts (self->job);
}

static void
s_compare_ranks (record_t *self, size_t job_index)
{
    job_t *job = &self->jobs [job_index];
    dealing_t dealing = { .record = self, .job_index = job_index, .job = job, .parts = job->parts,
        .least = HUGE_VAL };
    bool fine = s_begin_dealing (&dealing);
    for (uint64_t lag = 1; fine && lag <= AUDIT_LAGS; lag++)
        s_compare_own (&dealing, lag);
    if (fine)
        s_count_groups (&dealing);
    //  Where some samples cannot meet others, that they stay is no more than this.
    if (fine && job->parts->groups == 1) {
        fine = s_pair_epochs (&dealing);
        bool comparable = fine && s_can_compare (&dealing);
        for (uint64_t lag = 1; comparable && lag <= AUDIT_LAGS; lag++)
            s_compare_stay (&dealing, lag);
        if (comparable)
            s_compare_all (&dealing);
    }
    self->out_of_memory |= !fine;
    free (dealing.rows);
    free (dealing.columns);
    free (dealing.common);
    free (dealing.used);
    free (dealing.own);
    free (dealing.pairs);
}

//  --------------------------------------------------------------------------

void
audit_tests_job (record_t *self, size_t index)
{
    s_find_same (self, index);
    s_compare_epochs (self, index);
    s_compare_ids (self, index);
    if (self->jobs [index].parts)
        s_compare_ranks (self, index);
}

void
audit_tests_jobs (record_t *self)
{
    uint64_t threshold = s_threshold (self);
    size_t longest = 1;
    for (size_t job = 0; job < self->job_count; job++)
        for (size_t index = 0; index < self->jobs [job].count; index++) {
            epoch_t *epoch = &self->jobs [job].epochs [index];
            if (!s_sketch_epoch (&self->jobs [job], epoch, threshold)) {
                self->out_of_memory = true;
                return;
            }
            longest = epoch->sketch_count > longest? epoch->sketch_count: longest;
        }
    uint32_t *scratch [2] = { calloc (longest, sizeof (uint32_t)), calloc (longest, sizeof (uint32_t)) };
    self->out_of_memory |= !scratch [0] || !scratch [1];
    for (size_t job = 0; !self->out_of_memory && job < self->job_count; job++)
        for (size_t other = job + 1; other < self->job_count; other++)
            s_compare_jobs (self, job, other, scratch);
    free (scratch [0]);
    free (scratch [1]);
}
