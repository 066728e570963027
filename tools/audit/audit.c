#include "audit.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "audit_groups.h"
#include "audit_tests.h"

//  How improbable it must be that drop_last has hidden an id from all finished epochs so far, for us to call
//  it foreign in the unfinished one.
#define AUDIT_HIDDEN_P 1e-9

enum { AUDIT_MAGIC = 0x61756469, NAME_BYTES = 4096 };

struct audit {
    uint32_t magic;
    bool has_run;
    uint64_t samples;
    record_t record;
    uint64_t *keys, *spare_keys;        //  scratch, as that of the record
};

static void
s_check_magic (const audit_t *self)
{
    assert (self);
    assert (self->magic == AUDIT_MAGIC);
}

//  --------------------------------------------------------------------------
//  Birth and death

audit_t *
audit_new (uint64_t samples)
{
    assert (samples <= (uint64_t) AUDIT_ID_MAX + 1);
    audit_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = AUDIT_MAGIC;
    self->samples = samples;
    return self;
}

static void
s_clear_job (job_t *job)
{
    for (size_t index = 0; index < job->count; index++) {
        free (job->epochs [index].ids);
        free (job->epochs [index].parts);
        free (job->epochs [index].sketch);
        free (job->epochs [index].sketch_by_id);
    }
    for (size_t index = 0; job->parts && job->parts->part && index < job->parts->count; index++)
        free ((char *) job->parts->part [index].name);
    if (job->parts)
        free (job->parts->part);
    free (job->parts);
    free (job->epochs);
    free (job->universe);
    free (job->base);
    free (job->name);
}

void
audit_destroy (audit_t **self_p)
{
    assert (self_p);
    audit_t *self = *self_p;
    if (!self)
        return;
    s_check_magic (self);
    for (size_t index = 0; index < self->record.job_count; index++)
        s_clear_job (&self->record.jobs [index]);
    for (size_t index = 0; index < self->record.finding_count; index++) {
        free ((char *) self->record.findings [index].text);
        free ((uint64_t *) self->record.findings [index].epochs);
    }
    free (self->record.jobs);
    free (self->record.members);
    free (self->record.trials);
    free (self->record.findings);
    free (self->keys);
    free (self->spare_keys);
    free (self->record.place);
    free (self->record.mark);
    free (self->record.relative);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  --------------------------------------------------------------------------
//  What is added

int
audit_add_job (audit_t *self, const char *name)
{
    s_check_magic (self);
    assert (name);
    assert (!self->has_run);
    record_t *record = &self->record;
    if (!record_grow (record, &record->jobs, record->job_count, &record->job_room, sizeof *record->jobs))
        return -ENOMEM;
    job_t job = { .name = strdup (name), .foreign_p = NAN };
    if (!job.name)
        return -ENOMEM;
    record->jobs [record->job_count++] = job;
    return 0;
}

int
audit_add_epoch (audit_t *self, uint64_t number, uint32_t **ids_p, size_t count, bool finished)
{
    s_check_magic (self);
    assert (ids_p);
    assert (*ids_p || count == 0);
    assert (!self->has_run);
    assert (self->record.job_count > 0);
    job_t *job = &self->record.jobs [self->record.job_count - 1];
    assert (job->count == 0 || job->epochs [job->count - 1].number < number);
    epoch_t epoch = { .number = number, .ids = *ids_p, .count = count, .finished = finished,
        .same = AUDIT_KINDS, .absent_from = AUDIT_NO_PART, .unfinished_in = AUDIT_NO_PART };
    *ids_p = NULL;
    if (!record_grow (&self->record, &job->epochs, job->count, &job->room, sizeof *job->epochs)) {
        free (epoch.ids);
        return -ENOMEM;
    }
    job->epochs [job->count++] = epoch;
    return 0;
}

void
audit_set_groups (audit_t *self, audit_member_t **members_p, size_t count, const char *const *names,
    size_t group_count)
{
    s_check_magic (self);
    assert (!self->has_run && !self->record.members);
    assert (*members_p && count > 0);
    for (size_t index = 0; index < count; index++) {
        assert ((*members_p) [index].group < group_count);
        assert (index == 0 || (*members_p) [index - 1].id < (*members_p) [index].id);
    }
    self->record.members = *members_p;
    self->record.member_count = count;
    self->record.group_names = names;
    self->record.group_count = group_count;
    *members_p = NULL;
}

void
audit_test_held (audit_t *self)
{
    s_check_magic (self);
    assert (!self->has_run);
    self->record.tests_held = true;
}

//  --------------------------------------------------------------------------
//  Joining

//  Notes how many samples the part has of the epoch; or that it has not finished or (from: NULL) lacks it.
static void
s_join_part (audit_part_t *part, uint16_t index, const epoch_t *from, epoch_t *to)
{
    uint16_t *missed = from? &to->unfinished_in: &to->absent_from;
    if (from && from->finished) {
        if (from->count < part->samples_least || part->samples_most == 0)
            part->samples_least = from->count;
        if (from->count > part->samples_most)
            part->samples_most = from->count;
        return;
    }
    *missed = *missed == AUDIT_NO_PART? index: *missed;
    to->finished = false;
}

//  Adds an epoch of one sample of each part's in turn (from: NULL if the part lacks it).  So the samples of a
//  step over all ranks stand together, whatever the size of a batch is: recordings do not tell it.
static int
s_join_epoch (audit_t *self, audit_parts_t *parts, const epoch_t *const *from, uint64_t number)
{
    size_t count = 0, used = 0;
    for (size_t index = 0; index < parts->count; index++)
        count += from [index]? from [index]->count: 0;
    uint32_t *ids = calloc (count? count: 1, sizeof *ids);
    uint16_t *turns = calloc (count? count: 1, sizeof *turns);
    for (size_t turn = 0; ids && turns && used < count; turn++)
        for (size_t index = 0; index < parts->count; index++)
            if (from [index] && turn < from [index]->count) {
                turns [used] = (uint16_t) index;
                ids [used++] = from [index]->ids [turn];
            }
    if (!ids || !turns || audit_add_epoch (self, number, &ids, count, true)) {
        free (ids);
        free (turns);
        return -ENOMEM;
    }
    job_t *whole = &self->record.jobs [parts->count];
    epoch_t *joined = &whole->epochs [whole->count - 1];
    bool is_whole = false;              //  some rank finished it
    joined->parts = turns;
    for (size_t index = 0; index < parts->count; index++) {
        s_join_part (&parts->part [index], (uint16_t) index, from [index], joined);
        is_whole |= from [index] && from [index]->finished;
    }
    //  What no rank has finished is no more than begun, on the ranks that have nothing of it too.
    if (!is_whole)
        joined->absent_from = AUDIT_NO_PART;
    return 0;
}

//  Joins the epochs of all jobs but the last into this one.
static int
s_join_epochs (audit_t *self, audit_parts_t *parts)
{
    size_t *next = calloc (parts->count, sizeof *next);
    const epoch_t **from = calloc (parts->count, sizeof *from);
    int rc = next && from? 0: -ENOMEM;
    while (rc == 0) {
        uint64_t number = UINT64_MAX;
        for (size_t index = 0; index < parts->count; index++) {
            const job_t *job = &self->record.jobs [index];
            from [index] = next [index] < job->count? &job->epochs [next [index]]: NULL;
            if (from [index] && from [index]->number < number)
                number = from [index]->number;
        }
        if (number == UINT64_MAX)
            break;
        for (size_t index = 0; index < parts->count; index++)
            if (from [index] && from [index]->number == number)
                next [index]++;
            else
                from [index] = NULL;
        rc = s_join_epoch (self, parts, from, number);
    }
    free (next);
    free (from);
    return rc;
}

int
audit_join (audit_t *self)
{
    s_check_magic (self);
    assert (!self->has_run);
    assert (self->record.job_count > 0 && self->record.job_count <= UINT16_MAX);
    char name [NAME_BYTES];
    size_t count = self->record.job_count;
    snprintf (name, sizeof name, "%.*s and %zu more", NAME_BYTES - 64, self->record.jobs [0].name, count - 1);
    if (audit_add_job (self, name))
        return -ENOMEM;
    job_t *whole = &self->record.jobs [count];
    audit_parts_t *parts = calloc (1, sizeof *parts);
    whole->parts = parts;
    if (!parts)
        return -ENOMEM;
    parts->count = count;
    parts->part = calloc (count, sizeof *parts->part);
    if (!parts->part || s_join_epochs (self, parts))
        return -ENOMEM;
    for (size_t index = 0; index < count; index++) {
        job_t *job = &self->record.jobs [index];
        parts->part [index].name = job->name;
        job->name = NULL;
        s_clear_job (job);
    }
    self->record.jobs [0] = self->record.jobs [count];
    self->record.jobs [0].shown.parts = parts;
    self->record.job_count = 1;
    return 0;
}

//  --------------------------------------------------------------------------
//  Sorting

//  Scratch for epochs and universes of so many ids.
static bool
s_reserve (audit_t *self, size_t count)
{
    count = count? count: 1;
    void **items [] = { (void **) &self->keys, (void **) &self->spare_keys, (void **) &self->record.place,
        (void **) &self->record.mark, (void **) &self->record.relative };
    for (size_t index = 0; index < sizeof items / sizeof *items; index++) {
        free (*items [index]);
        *items [index] = calloc (count, index < 2? sizeof (uint64_t): sizeof (uint32_t));
        if (!*items [index])
            return false;
    }
    return true;
}

//  Sorts the epoch's ids with their places: keys [i] is id << 32 | place, ascending.
static void
s_sort_ids (audit_t *self, const epoch_t *epoch)
{
    for (size_t place = 0; place < epoch->count; place++)
        self->keys [place] = (uint64_t) epoch->ids [place] << 32 | place;
    //  By the ids' bytes, from the last to the first that any of them has: stable.
    uint32_t any = 0;
    for (size_t place = 0; place < epoch->count; place++)
        any |= epoch->ids [place];
    for (unsigned shift = 32; shift < 64 && any >> (shift - 32); shift += 8) {
        size_t begins [257] = { 0 };
        for (size_t index = 0; index < epoch->count; index++)
            begins [(self->keys [index] >> shift & 255) + 1]++;
        for (size_t value = 1; value < 257; value++)
            begins [value] += begins [value - 1];
        for (size_t index = 0; index < epoch->count; index++)
            self->spare_keys [begins [self->keys [index] >> shift & 255]++] = self->keys [index];
        uint64_t *sorted = self->spare_keys;
        self->spare_keys = self->keys;
        self->keys = sorted;
    }
}

//  --------------------------------------------------------------------------
//  Exactly once

static void
s_note_odd (odd_ids_t *odd, uint64_t id)
{
    if (odd->count < AUDIT_NAMED)
        odd->first [odd->count] = (uint32_t) id;
    odd->count++;
}

//  Of an id that stands in the places of keys [0] and keys [1], at least.
static void
s_note_doubled (epoch_t *epoch, const uint64_t keys [2])
{
    odd_ids_t *odd = &epoch->doubled;
    for (size_t which = 0; epoch->parts && odd->count < AUDIT_NAMED && which < 2; which++)
        epoch->doubled_parts [odd->count] [which] = epoch->parts [(uint32_t) keys [which]];
    s_note_odd (odd, keys [0] >> 32);
}

//  Counts doubled and foreign ids and takes them out; leaves the epoch's ids, ascending, in record.mark.
static void
s_clean_epoch (audit_t *self, epoch_t *epoch)
{
    s_sort_ids (self, epoch);
    size_t kept = 0;
    for (size_t index = 0, next; index < epoch->count; index = next) {
        uint32_t id = (uint32_t) (self->keys [index] >> 32);
        bool foreign = self->samples && id >= self->samples;
        for (next = index; next < epoch->count && self->keys [next] >> 32 == id; next++)
            if (foreign || next > index)
                epoch->ids [(uint32_t) self->keys [next]] = AUDIT_NONE;
        if (next - index > 1)
            s_note_doubled (epoch, &self->keys [index]);
        if (foreign)
            s_note_odd (&epoch->foreign, id);
        else
            self->record.mark [kept++] = id;
    }
    size_t count = 0;
    for (size_t place = 0; place < epoch->count; place++) {
        if (epoch->ids [place] == AUDIT_NONE)
            continue;
        if (epoch->parts)
            epoch->parts [count] = epoch->parts [place];
        epoch->ids [count++] = epoch->ids [place];
    }
    assert (count == kept);
    epoch->count = count;
}

//  Adds the ascending ids to the ascending *set_p.
static bool
s_unite (audit_t *self, uint32_t **set_p, size_t *count_p, const uint32_t *ids, size_t count)
{
    const uint32_t *set = *set_p;
    size_t fresh = 0, place = 0;
    for (size_t index = 0; index < count; index++) {
        while (place < *count_p && set [place] < ids [index])
            place++;
        fresh += place == *count_p || set [place] != ids [index];
    }
    if (fresh == 0)
        return true;
    uint32_t *both = reallocarray (NULL, *count_p + fresh, sizeof *both);
    if (!both) {
        self->record.out_of_memory = true;
        return false;
    }
    size_t used = 0;
    place = 0;
    for (size_t index = 0; index < count || place < *count_p;) {
        if (index < count && place < *count_p && set [place] == ids [index])
            place++;
        bool from_set = place < *count_p && (index == count || set [place] < ids [index]);
        both [used++] = from_set? set [place++]: ids [index++];
    }
    assert (used == *count_p + fresh);
    free (*set_p);
    *set_p = both;
    *count_p = used;
    return true;
}

//  Cleans all epochs; the finished ones make up the base, all together the universe.
static bool
s_clean_job (audit_t *self, job_t *job)
{
    for (size_t index = 0; index < job->count; index++) {
        epoch_t *epoch = &job->epochs [index];
        s_clean_epoch (self, epoch);
        if (!s_unite (self, &job->universe, &job->universe_count, self->record.mark, epoch->count)
        ||  (epoch->finished
        &&   !s_unite (self, &job->base, &job->base_count, self->record.mark, epoch->count)))
            return false;
    }
    return true;
}

//  From here on ids are ranks in the universe.
static void
s_rank_ids (audit_t *self, const job_t *job)
{
    for (size_t index = 0; index < job->count; index++) {
        const epoch_t *epoch = &job->epochs [index];
        s_sort_ids (self, epoch);
        uint32_t rank = 0;
        for (size_t next = 0; next < epoch->count; next++) {
            while (job->universe [rank] != self->keys [next] >> 32)
                rank++;
            epoch->ids [(uint32_t) self->keys [next]] = rank;
        }
    }
}

//  The finished epochs' common length; 0: there are none, or they differ, or one is empty or has odd ids.
static size_t
s_common_length (const job_t *job)
{
    size_t length = 0;
    for (size_t index = 0; index < job->count; index++) {
        const epoch_t *epoch = &job->epochs [index];
        if (!epoch->finished)
            continue;
        if (epoch->doubled.count || epoch->foreign.count || epoch->count == 0
        ||  (length && epoch->count != length))
            return 0;
        length = epoch->count;
    }
    return length;
}

//  Without a number of samples given: do all finished epochs lack equally many, fewer than they have, as with
//  drop_last?  Then an unfinished one may show ids that none of them had, unless that is past belief:
//  of count ids about count (lacking / count)^epochs are left out every time.
static void
s_see_drop_last (const audit_t *self, job_t *job)
{
    size_t length = s_common_length (job);
    if (self->samples || length == 0)
        return;
    size_t hidden = job->universe_count - job->base_count;
    if (hidden) {
        double count = (double) job->universe_count, lacking = count - (double) length;
        double p = count * pow (lacking / count, (double) job->shown.epochs);
        if (p >= AUDIT_HIDDEN_P && job->universe_count - length < length)
            job->base_count = 0;        //  the universe is
        else
            job->foreign_p = p < 1? p: 1;
    }
    size_t whole = job->base_count? job->base_count: job->universe_count;
    if (whole - length < length)
        job->dropped = whole - length;
}

//  Ids of which a finished epoch has too few, an unfinished one too many.
static void
s_count_missing (audit_t *self, job_t *job, epoch_t *epoch)
{
    memset (self->record.mark, 0, job->universe_count * sizeof *self->record.mark);
    for (size_t place = 0; place < epoch->count; place++)
        self->record.mark [epoch->ids [place]] = 1;
    size_t base = 0;
    uint64_t due = 0;                   //  with a number of samples: the next id that must come
    for (size_t rank = 0; rank < job->universe_count; rank++) {
        uint32_t id = job->universe [rank];
        bool known = job->base_count == 0;
        if (base < job->base_count && job->base [base] == id) {
            known = true;
            base++;
        }
        if (self->samples && self->record.mark [rank]) {
            for (; epoch->finished && due < id && epoch->missing.count < AUDIT_NAMED; due++)
                s_note_odd (&epoch->missing, due);
            due = (uint64_t) id + 1;
        }
        else
        if (!self->samples && epoch->finished && known && !self->record.mark [rank])
            s_note_odd (&epoch->missing, id);
        else
        if (!self->samples && !epoch->finished && !known && self->record.mark [rank])
            s_note_odd (&epoch->foreign, id);
    }
    if (self->samples && epoch->finished) {
        for (; due < self->samples && epoch->missing.count < AUDIT_NAMED; due++)
            s_note_odd (&epoch->missing, due);
        epoch->missing.count = self->samples - epoch->count;
    }
}

static void
s_judge_once (audit_t *self, job_t *job)
{
    job->shown.name = job->name;
    for (size_t index = 0; index < job->count; index++)
        job->shown.epochs += job->epochs [index].finished;
    job->shown.unfinished = job->count - job->shown.epochs;
    s_see_drop_last (self, job);
    job->shown.samples = self->samples? self->samples: job->base_count? job->base_count: job->universe_count;
    bool odd = false;
    for (size_t index = 0; index < job->count; index++) {
        epoch_t *epoch = &job->epochs [index];
        s_count_missing (self, job, epoch);
        odd |= epoch->doubled.count || epoch->foreign.count || (epoch->missing.count && !job->dropped);
    }
    job->shown.once = odd? AUDIT_NOT_ONCE: job->dropped? AUDIT_AT_MOST_ONCE: AUDIT_ONCE;
}

//  --------------------------------------------------------------------------
//  The run

static bool
s_run_job (audit_t *self, size_t index)
{
    job_t *job = &self->record.jobs [index];
    size_t longest = 0;
    for (size_t epoch = 0; epoch < job->count; epoch++)
        longest = job->epochs [epoch].count > longest? job->epochs [epoch].count: longest;
    if (!s_reserve (self, longest) || !s_clean_job (self, job))
        return false;
    longest = job->universe_count > longest? job->universe_count: longest;
    if (!s_reserve (self, longest))
        return false;
    s_rank_ids (self, job);
    s_judge_once (self, job);
    audit_tests_job (&self->record, index);
    audit_groups_job (&self->record, index);
    return true;
}

int
audit_run (audit_t *self)
{
    s_check_magic (self);
    assert (!self->has_run);
    self->has_run = true;
    for (size_t job = 0; job < self->record.job_count; job++)
        if (!s_run_job (self, job))
            return -ENOMEM;
    if (self->record.job_count > 1)
        audit_tests_jobs (&self->record);
    for (size_t job = 0; self->record.tests_held && job < self->record.job_count; job++)
        audit_groups_held (&self->record, job);
    if (!self->record.out_of_memory)
        audit_tests_explain (&self->record, audit_bound (self));
    return self->record.out_of_memory? -ENOMEM: 0;
}

//  --------------------------------------------------------------------------
//  What came out

size_t
audit_job_count (const audit_t *self)
{
    s_check_magic (self);
    return self->record.job_count;
}

const audit_job_t *
audit_job (const audit_t *self, size_t index)
{
    s_check_magic (self);
    assert (index < self->record.job_count);
    return &self->record.jobs [index].shown;
}

size_t
audit_finding_count (const audit_t *self)
{
    s_check_magic (self);
    return self->record.finding_count;
}

const audit_finding_t *
audit_finding (const audit_t *self, size_t index)
{
    s_check_magic (self);
    assert (index < self->record.finding_count);
    return &self->record.findings [index];
}

size_t
audit_fault_count (const audit_t *self)
{
    s_check_magic (self);
    size_t count = 0;
    while (count < self->record.finding_count && self->record.findings [count].kind < AUDIT_FAULTS)
        count++;
    return count;
}

size_t
audit_test_count (const audit_t *self)
{
    s_check_magic (self);
    return self->record.trial_count;
}

const audit_test_t *
audit_test (const audit_t *self, size_t index)
{
    s_check_magic (self);
    assert (index < self->record.trial_count);
    return &self->record.trials [index].made;
}

double
audit_bound (const audit_t *self)
{
    s_check_magic (self);
    return AUDIT_FALSE_ALARM / (double) (self->record.trial_count? self->record.trial_count: 1);
}

const char *
audit_kind_name (audit_kind_t kind)
{
    static const char *const names [AUDIT_KINDS] = { "missing", "doubled", "foreign", "sorted", "repeated",
        "rotated", "reversed", "buffered", "unshuffled", "stale", "tail_to_head", "pairs", "group",
        "absent", "staying", "own_stale", "uneven", "drop_last", "unfinished", "gap", "trace", "same_order",
        "related_order", "fixed", "untested" };
    assert (kind < AUDIT_KINDS);
    return names [kind];
}
