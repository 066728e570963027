/*  audit_findings.c -- what an audit found, in words (audit_tests.h).  */
#include "audit_tests.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "words.h"

enum { FINDING_TEXT_BYTES = 960, PLACED = 2 };

//  A finding in the making.
typedef struct {
    audit_finding_t finding;
    uint64_t *epochs;
    size_t room;
    char text [FINDING_TEXT_BYTES];
} draft_t;

static draft_t
s_draft (audit_kind_t kind, size_t job)
{
    return (draft_t) { .finding = { .kind = kind, .job = job, .other = job, .p = NAN } };
}

static void __attribute__ ((format (printf, 2, 3)))
s_say (draft_t *self, const char *format, ...)
{
    size_t used = strlen (self->text);
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (self->text + used, sizeof self->text - used, format, arguments);
    va_end (arguments);
}

static void
s_note_epoch (record_t *record, draft_t *self, uint64_t number)
{
    size_t *count = &self->finding.epoch_count;
    if (*count && self->epochs [*count - 1] == number)
        return;
    if (record_grow (record, &self->epochs, *count, &self->room, sizeof *self->epochs))
        self->epochs [(*count)++] = number;
}

static int
s_compare_numbers (const void *one, const void *two)
{
    const uint64_t *first = one, *second = two;
    return *first < *second? -1: *first > *second;
}

//  Sorts the epochs and leaves each once.
static void
s_tidy_epochs (draft_t *self)
{
    size_t count = 0;
    if (self->epochs)
        qsort (self->epochs, self->finding.epoch_count, sizeof *self->epochs, s_compare_numbers);
    for (size_t index = 0; index < self->finding.epoch_count; index++)
        if (count == 0 || self->epochs [count - 1] != self->epochs [index])
            self->epochs [count++] = self->epochs [index];
    self->finding.epoch_count = count;
}

//  Hands the draft over to the audit.
static void
s_keep (record_t *record, draft_t *self)
{
    self->finding.epochs = self->epochs;
    self->finding.text = strdup (self->text);
    record->out_of_memory |= !self->finding.text;
    if (self->finding.text
    &&  record_grow (record, &record->findings, record->finding_count, &record->finding_room,
            sizeof *record->findings)) {
        record->findings [record->finding_count++] = self->finding;
        return;
    }
    free ((char *) self->finding.text);
    free (self->epochs);
}

//  "; 3 more epochs do so"
static void
s_say_others (draft_t *self, const char *one_does, const char *many_do)
{
    size_t others = self->finding.epoch_count > 1? self->finding.epoch_count - 1: 0;
    if (others)
        s_say (self, "; %zu more epoch%s %s", others, plural (others), others == 1? one_does: many_do);
}

//  --------------------------------------------------------------------------
//  Exactly once

static int
s_compare_ids (const void *one, const void *two)
{
    const uint32_t *first = one, *second = two;
    return *first < *second? -1: *first > *second;
}

//  " (in epoch 4 in a.ids)": where a missing sample came in another epoch, the one before if there is one.
static void
s_say_last_part (draft_t *self, const job_t *job, const epoch_t *epoch, uint32_t id)
{
    const uint32_t *found = job->universe_count?
        bsearch (&id, job->universe, job->universe_count, sizeof id, s_compare_ids): NULL;
    const epoch_t *last = NULL;
    for (size_t index = 0; found && index < job->count; index++) {
        const epoch_t *other = &job->epochs [index];
        if (other->parts [found - job->universe] != AUDIT_NO_PART && (!last || other->number < epoch->number))
            last = other;
    }
    if (last)
        s_say (self, " (in epoch %" PRIu64 " in %.100s)", last->number,
            job->parts->part [last->parts [found - job->universe]].name);
}

//  Of joined jobs, in which files the id came.
static void
s_say_parts (draft_t *self, const job_t *job, const epoch_t *epoch, size_t index)
{
    if (self->finding.kind == AUDIT_MISSING)
        s_say_last_part (self, job, epoch, epoch->missing.first [index]);
    if (self->finding.kind != AUDIT_DOUBLED)
        return;
    const uint16_t *parts = epoch->doubled_parts [index];
    if (parts [0] == parts [1])
        s_say (self, " (twice in %.100s)", job->parts->part [parts [0]].name);
    else
        s_say (self, " (in %.100s and %.100s)", job->parts->part [parts [0]].name,
            job->parts->part [parts [1]].name);
}

static void
s_say_ids (draft_t *self, const job_t *job, const epoch_t *epoch, const odd_ids_t *ids)
{
    size_t named = ids->count < AUDIT_NAMED? (size_t) ids->count: AUDIT_NAMED;
    for (size_t index = 0; index < named; index++) {
        s_say (self, "%s%" PRIu32, index? ", ": " ", ids->first [index]);
        if (job->parts && index < PLACED)
            s_say_parts (self, job, epoch, index);
    }
    s_say (self, "%s", ids->count > named? " ...": "");
}

//  An epoch that some ranks finished, and others have nothing of.
static void
s_judge_absent (record_t *record, size_t job_index)
{
    const job_t *job = &record->jobs [job_index];
    const epoch_t *first = NULL;
    draft_t draft = s_draft (AUDIT_ABSENT, job_index);
    for (size_t index = 0; index < job->count; index++)
        if (job->epochs [index].absent_from != AUDIT_NO_PART) {
            first = first? first: &job->epochs [index];
            s_note_epoch (record, &draft, job->epochs [index].number);
        }
    if (!first)
        return;
    draft.finding.worst = first->number;
    s_say (&draft, "epoch %" PRIu64 " is not in %.200s, and others finished it: give all that this rank"
        " recorded, or leave the epoch's line out of all files", first->number,
        job->parts->part [first->absent_from].name);
    s_say_others (&draft, "is not in all files", "are not in all files");
    s_keep (record, &draft);
}

static const odd_ids_t *
s_odd_ids (const epoch_t *epoch, audit_kind_t kind)
{
    return kind == AUDIT_MISSING? &epoch->missing: kind == AUDIT_DOUBLED? &epoch->doubled: &epoch->foreign;
}

static void
s_say_odd (draft_t *self, const job_t *job, const epoch_t *epoch)
{
    const odd_ids_t *ids = s_odd_ids (epoch, self->finding.kind);
    s_say (self, "epoch %" PRIu64, epoch->number);
    if (self->finding.kind == AUDIT_MISSING)
        s_say (self, " lacks %" PRIu64 " of %" PRIu64 " samples:", ids->count, job->shown.samples);
    if (self->finding.kind == AUDIT_DOUBLED)
        s_say (self, " has %" PRIu64 " sample%s more than once:", ids->count, plural (ids->count));
    if (self->finding.kind == AUDIT_FOREIGN)
        s_say (self, " has %" PRIu64 " id%s that %s not of its data:", ids->count, plural (ids->count),
            ids->count == 1? "is": "are");
    s_say_ids (self, job, epoch, ids);
}

static void
s_judge_ids (record_t *record, size_t job_index, audit_kind_t kind)
{
    const job_t *job = &record->jobs [job_index];
    const epoch_t *first = NULL;
    draft_t draft = s_draft (kind, job_index);
    for (size_t index = 0; index < job->count; index++) {
        const epoch_t *epoch = &job->epochs [index];
        if (s_odd_ids (epoch, kind)->count == 0 || (kind == AUDIT_MISSING && job->dropped))
            continue;
        first = first? first: epoch;
        s_note_epoch (record, &draft, epoch->number);
    }
    if (!first)
        return;
    draft.finding.worst = first->number;
    draft.finding.p = kind == AUDIT_FOREIGN? job->foreign_p: NAN;
    s_say_odd (&draft, job, first);
    s_say_others (&draft, kind == AUDIT_MISSING? "lacks some": "has some", kind == AUDIT_MISSING? "lack some":
        "have some");
    s_keep (record, &draft);
}

//  --------------------------------------------------------------------------
//  Orders found again

static void
s_say_same (draft_t *self, const epoch_t *epoch)
{
    s_say (self, "epoch %" PRIu64, epoch->number);
    switch (self->finding.kind) {
        case AUDIT_SORTED:
            s_say (self, " counts its ids in order (%s), without any shuffle: right for validation, "
                "wrong for training", epoch->sorted_how);
            break;
        case AUDIT_REPEATED:
            s_say (self, " has the order of epoch %" PRIu64 " again", epoch->same_as);
            break;
        case AUDIT_ROTATED:
            s_say (self, " has the order of epoch %" PRIu64 ", begun in another place", epoch->same_as);
            break;
        default:
            assert (self->finding.kind == AUDIT_REVERSED);
            s_say (self, " has the order of epoch %" PRIu64 " backwards", epoch->same_as);
    }
}

static void
s_judge_same (record_t *record, size_t job_index, audit_kind_t kind, const trial_t *trial)
{
    const job_t *job = &record->jobs [job_index];
    const epoch_t *first = NULL;
    draft_t draft = s_draft (kind, job_index);
    for (size_t index = 0; index < job->count; index++)
        if (job->epochs [index].same == kind) {
            first = first? first: &job->epochs [index];
            s_note_epoch (record, &draft, job->epochs [index].number);
        }
    if (!first)
        return;
    draft.finding.worst = first->number;
    draft.finding.p = trial->made.p;
    s_say_same (&draft, first);
    s_say_others (&draft, kind == AUDIT_SORTED? "does so": "repeats an earlier one",
        kind == AUDIT_SORTED? "do so": "repeat an earlier one");
    s_keep (record, &draft);
}

//  --------------------------------------------------------------------------
//  Tests that failed

static void
s_say_p (draft_t *self, double p)
{
    if (p < 1e-290)
        s_say (self, ", p < 1e-290");
    else
        s_say (self, ", p = %.1g", p);
}

static void
s_say_figure (draft_t *self, const char *name, const trial_t *trial)
{
    s_say (self, " (%s %.3g, where shuffles have %.2g +- %.1g", name, trial->value,
        fabs (trial->expected) < trial->spread / 10? 0: trial->expected, trial->spread);
    s_say_p (self, trial->made.p);
    s_say (self, ")");
}

static void
s_say_ids_test (draft_t *self, const trial_t *trial)
{
    static const char *const names [] = { [LOOK_ID_TENTHS] = "phi2 of place and id",
        [LOOK_ID_RANK] = "rank correlation of place and id", [LOOK_ID_NEARNESS] = "steps between ids",
        [LOOK_ID_PAIRS] = "neighbouring ids in one batch, against chance" };
    if (trial->made.pooled)
        s_say (self, "the epochs, taken together,");
    else
        s_say (self, "epoch %" PRIu64, trial->epoch);
    if (self->finding.kind == AUDIT_BUFFERED && !trial->made.pooled)
        s_say (self, " is mixed over a short way only: its ids come in their order, none more than %.0f"
            " places before its turn, as from a shuffle buffer of about that size over sorted data",
            trial->reach);
    else
    if (trial->look == LOOK_ID_PAIRS || trial->look == LOOK_ID_NEARNESS)
        s_say (self, " keep%s ids together that follow each other, as if whole blocks were shuffled instead"
            " of samples", trial->made.pooled? "": "s");
    else
        s_say (self, " depend%s on the ids: whether one comes early or late is no mere chance",
            trial->made.pooled? "": "s");
    s_say_figure (self, names [trial->look], trial);
}

//  AUDIT_STALE, AUDIT_TRACE.
static void
s_say_phi2 (draft_t *self, const trial_t *trial)
{
    if (trial->made.pooled && trial->epoch == 1)
        s_say (self, "the epochs, taken together, still know the order of the one before");
    else
    if (trial->made.pooled)
        s_say (self, "the epochs, taken together, still know the order of the one %" PRIu64 " before",
            trial->epoch);
    else
        s_say (self, "epoch %" PRIu64 " still knows the order of epoch %" PRIu64, trial->epoch,
            trial->before);
    s_say_figure (self, "phi2", trial);
}

//  AUDIT_OWN_STALE.
static void
s_say_own (draft_t *self, const record_t *record, const trial_t *trial)
{
    if (trial->part == AUDIT_NONE)
        s_say (self, "in the ranks' own orders, ");
    else
        s_say (self, "in the order of %.200s alone, ",
            record->jobs [trial->made.job].parts->part [trial->part].name);
    s_say_phi2 (self, trial);
}

static void
s_say_staying (draft_t *self, const trial_t *trial)
{
    if (trial->made.pooled)
        s_say (self, "over all epochs that are %" PRIu64 " apart", trial->epoch);
    else
        s_say (self, "from epoch %" PRIu64 " to epoch %" PRIu64, trial->before, trial->epoch);
    s_say (self, ", too many samples stay with their rank");
    s_say_figure (self, "against chance", trial);
}

static void
s_say_between (draft_t *self, const trial_t *trial, const char *what, const char *figure)
{
    if (trial->made.pooled)
        s_say (self, "in all epochs together, %s", what);
    else
        s_say (self, "from epoch %" PRIu64 " to epoch %" PRIu64 ", %s", trial->before, trial->epoch, what);
    s_say_figure (self, figure, trial);
}

static void
s_say_jobs (draft_t *self, const record_t *record, const trial_t *trial)
{
    const char *other = record->jobs [trial->other].name;
    if (self->finding.kind == AUDIT_RELATED_ORDER)
        s_say (self, "epoch %" PRIu64 " resembles that in %.200s", trial->epoch, other);
    else
        s_say (self, "epoch %" PRIu64 " has %s order as in %.200s", trial->epoch,
            trial->identical? "the same": "nearly the same", other);
    if (self->finding.epoch_count > 1)
        s_say (self, ", and %zu more epoch%s", self->finding.epoch_count - 1,
            self->finding.epoch_count == 2? " does": "s do");
    s_say (self, ": the two are not independent runs");
}

static void
s_say_group (draft_t *self, const record_t *record, const trial_t *trial)
{
    size_t held = trial->group - record->group_count;
    s_say (self, "the samples ");
    if (trial->group < record->group_count)
        s_say (self, "of group '%.100s'", record->group_names [trial->group]);
    else
    if (held < record->job_count)
        s_say (self, "that %.100s holds too", record->jobs [held].shown.name);
    else
        s_say (self, "that %s jobs hold too", held == record->job_count? "many": "fast");
    s_say (self, " come %s than others, over %zu epochs together",
        trial->value < trial->expected? "earlier": "later", trial->epochs);
    s_say_figure (self, "mean place in an epoch", trial);
}

static void
s_say_trial (draft_t *self, const record_t *record, const trial_t *trial)
{
    switch (trial->look) {
        case LOOK_PHI2:
            s_say_phi2 (self, trial);
            break;
        case LOOK_TAIL_TO_HEAD:
            s_say_between (self, trial, "samples of the last 5 % come too often in the next first 5 %",
                "t5h5");
            break;
        case LOOK_PAIRS:
            s_say_between (self, trial, "samples that shared a batch of 64 share one again too often",
                "pair-repeat");
            break;
        case LOOK_DROPPED:
            s_say (self, "each epoch lacks %" PRIu64 " of its samples, as with --drop-last, but too often the"
                " same",
                record->jobs [trial->made.job].dropped);
            s_say_p (self, trial->made.p);
            break;
        case LOOK_GROUP:
            s_say_group (self, record, trial);
            return;
        case LOOK_STAYING:
            s_say_staying (self, trial);
            break;
        case LOOK_OWN:
            s_say_own (self, record, trial);
            break;
        case LOOK_UNEVEN:
            s_say (self, "over %zu epochs together, samples come to some ranks more often than to others",
                trial->epochs);
            s_say_figure (self, "how uneven, against chance", trial);
            return;
        case LOOK_FILES:
            s_say_jobs (self, record, trial);
            return;
        default:
            s_say_ids_test (self, trial);
    }
    if (self->finding.kind == AUDIT_TRACE)
        s_say (self, ", so little that it is called fresh all the same");
    s_say_others (self, "does so", "do so");
}

static audit_kind_t
s_kind (const trial_t *trial)
{
    return trial->fresh? AUDIT_TRACE: trial->made.kind;
}

static bool
s_is_of (const trial_t *trial, const trial_t *other)
{
    return s_kind (trial) == s_kind (other) && trial->made.job == other->made.job
        && trial->other == other->other;
}

//  The finding of the failed trials [begin, end), which are of one kind and the same jobs.
static void
s_judge_trials (record_t *record, const trial_t *const *failed, size_t count)
{
    const trial_t *worst = failed [0];
    draft_t draft = s_draft (s_kind (worst), worst->made.job);
    for (size_t index = 0; index < count; index++) {
        const trial_t *trial = failed [index];
        if (!trial->made.pooled)
            s_note_epoch (record, &draft, trial->epoch);
        //  One epoch says more than all together.
        bool better = worst->made.pooled != trial->made.pooled? worst->made.pooled:
            trial->made.p < worst->made.p;
        worst = better? trial: worst;
    }
    s_tidy_epochs (&draft);
    draft.finding.other = worst->other;
    draft.finding.worst = worst->made.pooled? 0: worst->epoch;
    draft.finding.p = worst->made.p;
    s_say_trial (&draft, record, worst);
    if (worst->look == LOOK_GROUP && count > 1)
        s_say (&draft, "; %zu more group%s come%s out of turn", count - 1, plural (count - 1),
            count == 2? "s": "");
    s_keep (record, &draft);
}

static int
s_compare_trials (const void *one, const void *two)
{
    const trial_t *first = *(const trial_t *const *) one, *second = *(const trial_t *const *) two;
    if (s_kind (first) != s_kind (second))
        return s_kind (first) < s_kind (second)? -1: 1;
    if (first->made.job != second->made.job)
        return first->made.job < second->made.job? -1: 1;
    if (first->other != second->other)
        return first->other < second->other? -1: 1;
    return first < second? -1: first > second;
}

static bool
s_has_failed (const trial_t *const *failed, size_t count, audit_kind_t kind, size_t job)
{
    for (size_t index = 0; index < count; index++)
        if (s_kind (failed [index]) == kind && failed [index]->made.job == job)
            return true;
    return false;
}

//  Is what the trials from first to last say no news?  A trace where an epoch is stale.  And where epochs
//  resemble each other their dependence on the ids does not add up to more than that of one.
static bool
s_is_moot (const trial_t *const *failed, size_t count, size_t first, size_t last)
{
    const trial_t *trial = failed [first];
    bool of_ids = s_kind (trial) == AUDIT_BUFFERED || s_kind (trial) == AUDIT_UNSHUFFLED;
    for (size_t index = first; index <= last; index++)
        if (s_kind (trial) != AUDIT_TRACE && (!of_ids || !failed [index]->made.pooled))
            return false;
    return s_has_failed (failed, count, AUDIT_STALE, trial->made.job);
}

//  All tests below the bound, in groups.
static void
s_judge_tests (record_t *record, double bound)
{
    const trial_t **failed = calloc (record->trial_count? record->trial_count: 1, sizeof *failed);
    size_t count = 0;
    record->out_of_memory |= !failed;
    for (size_t index = 0; failed && index < record->trial_count; index++)
        if (record->trials [index].made.p < bound)
            failed [count++] = &record->trials [index];
    if (failed)
        qsort (failed, count, sizeof *failed, s_compare_trials);
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && s_is_of (failed [begin], failed [end]);)
            end++;
        if (s_is_moot (failed, count, begin, end - 1))
            continue;
        if (failed [begin]->look != LOOK_SAME) {
            s_judge_trials (record, failed + begin, end - begin);
            continue;
        }
        for (audit_kind_t kind = AUDIT_SORTED; kind <= AUDIT_REVERSED; kind++)
            s_judge_same (record, failed [begin]->made.job, kind, failed [begin]);
    }
    free (failed);
}

//  --------------------------------------------------------------------------
//  Notes

static void
s_note_drop_last (record_t *record, size_t job_index)
{
    job_t *job = &record->jobs [job_index];
    if (!job->dropped)
        return;
    //  Only a test can have said so: drop_last is no explanation.
    for (size_t index = 0; index < record->finding_count; index++)
        if (record->findings [index].kind == AUDIT_MISSING && record->findings [index].job == job_index) {
            job->shown.once = AUDIT_NOT_ONCE;
            return;
        }
    draft_t draft = s_draft (AUDIT_DROP_LAST, job_index);
    s_say (&draft, "each finished epoch lacks %" PRIu64 " of %" PRIu64 " samples, not the same ones: so does"
        " --drop-last; if the job did not ask for it, samples are being lost", job->dropped,
        job->shown.samples);
    s_keep (record, &draft);
}

static void
s_note_unfinished (record_t *record, size_t job_index)
{
    const job_t *job = &record->jobs [job_index];
    for (size_t index = 0; index < job->count; index++) {
        const epoch_t *epoch = &job->epochs [index];
        if (epoch->finished || epoch->absent_from != AUDIT_NO_PART)
            continue;
        draft_t draft = s_draft (AUDIT_UNFINISHED, job_index);
        s_note_epoch (record, &draft, epoch->number);
        draft.finding.worst = epoch->number;
        s_say (&draft, "epoch %" PRIu64 " is unfinished", epoch->number);
        if (epoch->unfinished_in != AUDIT_NO_PART)
            s_say (&draft, " in %.200s", job->parts->part [epoch->unfinished_in].name);
        s_say (&draft, ": %zu sample%s so far", epoch->count, plural (epoch->count));
        s_keep (record, &draft);
    }
}

static void
s_note_gap (record_t *record, size_t job_index)
{
    const job_t *job = &record->jobs [job_index];
    for (size_t index = 1; index < job->count; index++) {
        uint64_t before = job->epochs [index - 1].number, number = job->epochs [index].number;
        if (number == before + 1)
            continue;
        draft_t draft = s_draft (AUDIT_GAP, job_index);
        s_note_epoch (record, &draft, number);
        draft.finding.worst = number;
        s_say (&draft, "epoch %" PRIu64 " comes after epoch %" PRIu64 ": what is between them was not"
            " recorded", number, before);
        s_keep (record, &draft);
        return;
    }
}

static void
s_note_fixed (record_t *record, size_t job_index)
{
    const job_t *job = &record->jobs [job_index];
    if (!job->parts || job->parts->groups < 2)
        return;
    draft_t draft = s_draft (AUDIT_FIXED, job_index);
    if (job->parts->groups < job->parts->count)
        s_say (&draft, "the ranks are %zu groups between which no sample changes", job->parts->groups);
    else
        s_say (&draft, "no sample changes its rank");
    s_say (&draft, " in %zu epochs, as with fixed parts: each mixes its own samples only", job->shown.epochs);
    s_keep (record, &draft);
}

//  Of ranks, what there was too little of; few: how many tests were named before.
static size_t
s_say_untested_ranks (draft_t *self, const audit_parts_t *parts, size_t few)
{
    if (parts->groups <= 1 && parts->uneven.count == 0 && parts->stay [0].count == 0)
        s_say (self, "%swhether samples stay with their rank: that needs %d epochs of %d samples (10 on each"
            " rank) that all ranks finished", few++? "; and ": "not tested: ", AUDIT_DEALS_LEAST,
            AUDIT_DEALT_LEAST);
    if (parts->own_phi2 [0].count == 0)
        s_say (self, "%sa rank's own order: that needs %d samples that it has in two epochs in a row",
            few++? "; and ": "not tested: ", AUDIT_TENTHS_LEAST);
    return few;
}

//  What there was too little of to test.
static void
s_note_untested (record_t *record, size_t job_index)
{
    static const struct { size_t least; const char *what; } limits [] = {
        { AUDIT_SAME_LEAST, "repeated orders" }, { AUDIT_TAIL_LEAST, "t5h5" },
        { AUDIT_RANK_LEAST, "order by id" }, { AUDIT_TENTHS_LEAST, "phi2" },
        { AUDIT_PAIRS_LEAST, "pair-repeat" }
    };
    const audit_job_t *shown = &record->jobs [job_index].shown;
    size_t count = record->jobs [job_index].universe_count, few = 0;
    draft_t draft = s_draft (AUDIT_UNTESTED, job_index);
    for (size_t index = 0; index < sizeof limits / sizeof *limits; index++)
        if (count < limits [index].least)
            s_say (&draft, "%s%s (needs %zu)", few++? ", ": "too few samples to test: ", limits [index].what,
                limits [index].least);
    if (record->members && !record->jobs [job_index].is_grouped) {
        s_say (&draft, "%swhere groups come: that needs two finished epochs of different order, of %d "
            "samples or more, some of them in a group and some not", few? "; and ": "not tested: ",
            AUDIT_GROUPS_LEAST);
        few++;
    }
    if (record->tests_held && !record->jobs [job_index].is_held) {
        s_say (&draft, "%swhere samples come that other jobs hold: that needs another file, two finished "
            "epochs of different order, of %d samples or more, and data that are not all held alike",
            few? "; and ": "not tested: ", AUDIT_GROUPS_LEAST);
        few++;
    }
    if (shown->parts)
        few = s_say_untested_ranks (&draft, shown->parts, few);
    if (shown->epochs < 2)
        s_say (&draft, "%swhether one epoch tells of the next: that needs two that are finished",
            few? "; and ": "not tested: ");
    if (few || shown->epochs < 2)
        s_keep (record, &draft);
}

//  --------------------------------------------------------------------------

//  Faults first; of one kind of rank, by job, kind, the other job and epoch.
static int
s_compare_findings (const void *one, const void *two)
{
    const audit_finding_t *first = one, *second = two;
    if ((first->kind < AUDIT_FAULTS) != (second->kind < AUDIT_FAULTS))
        return first->kind < AUDIT_FAULTS? -1: 1;
    if (first->job != second->job)
        return first->job < second->job? -1: 1;
    if (first->kind != second->kind)
        return first->kind < second->kind? -1: 1;
    if (first->other != second->other)
        return first->other < second->other? -1: 1;
    return first->worst < second->worst? -1: first->worst > second->worst;
}

void
audit_tests_explain (record_t *record, double bound)
{
    s_judge_tests (record, bound);
    for (size_t job = 0; job < record->job_count; job++) {
        s_judge_ids (record, job, AUDIT_MISSING);
        s_judge_ids (record, job, AUDIT_DOUBLED);
        s_judge_ids (record, job, AUDIT_FOREIGN);
        s_judge_absent (record, job);
        s_note_drop_last (record, job);
        s_note_fixed (record, job);
        s_note_unfinished (record, job);
        s_note_gap (record, job);
        s_note_untested (record, job);
    }
    if (record->findings)
        qsort (record->findings, record->finding_count, sizeof *record->findings, s_compare_findings);
}
