//  Records and counts of what is shared; and, from the state, whether a job shares little, and the reason.

#include "sharing.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"
#include "tenant.h"
#include "xalloc.h"

enum { RECORDS_MIN = 256 };

//  ---- records

static sharing_record_t *
s_record (const broker_t *self, uint32_t number)
{
    assert (number > 0 && number <= self->records.count);
    return &self->records.all [number - 1];
}

static uint32_t
s_new_record (sharing_records_t *records)
{
    uint32_t number = records->first_free;
    if (number)
        records->first_free = (uint32_t) records->all [number - 1].birth;
    else {
        if (records->count == records->room) {
            records->room = records->room? records->room * 2: RECORDS_MIN;
            records->all = xalloc_memory (realloc (records->all, records->room * sizeof *records->all));
        }
        number = ++records->count;
    }
    records->all [number - 1] = (sharing_record_t) { .birth = ++records->births };
    records->held++;
    return number;
}

//  The version's record, a new one where the last row that remembered the old one has gone.
static uint32_t
s_record_of (broker_t *self, version_t *version)
{
    if (version->record == 0 || version->record > self->records.count
        || s_record (self, version->record)->holders == 0
    ||  s_record (self, version->record)->birth != version->record_birth) {
        version->record = s_new_record (&self->records);
        version->record_birth = s_record (self, version->record)->birth;
    }
    return version->record;
}

void
sharing_forget (broker_t *self, batch_row_t *row)
{
    if (row->record == 0)
        return;
    sharing_record_t *record = s_record (self, row->record);
    assert (record->holders > 0);
    if (--record->holders == 0) {
        record->birth = self->records.first_free;
        self->records.first_free = row->record;
        self->records.held--;
    }
    row->record = 0;
    if (self->records.held == 0) {
        free (self->records.all);           //  the table may have grown large
        self->records = (sharing_records_t) { .births = self->records.births };
    }
}

uint32_t
sharing_jobs (const broker_t *self, const batch_row_t *row)
{
    if (row->tenant_jobs > 0)
        return row->tenant_jobs;
    return row->record? s_record (self, row->record)->jobs: 0;
}

//  ---- counting

//  The version no longer serves only the job that it was made for.
static void
s_credit_maker (broker_t *self, version_t *version)
{
    version->is_shared = true;
    job_t *maker = job_of_id (self, version->maker);
    if (maker) {
        maker->sharing.alone--;
        maker->sharing.shared++;
    }
}

//  Other jobs of its tenant that have used the version, and are still there.  *due_p: the one of them that
//  has just drawn it and is not yet counted.
static size_t
s_others_of_tenant (const job_t *job, const version_t *version, const job_t **first_p, size_t *due_p)
{
    size_t count = 0;
    for (size_t word = 0; word < PREPARED_JOBS_MAX / 64; word++)
        for (uint64_t bits = version->seen [word]; bits; bits &= bits - 1) {
            job_t *other = job->dataset->jobs [64 * word + (size_t) __builtin_ctzll (bits)];
            if (!other || other == job || other->tenant != job->tenant)
                continue;
            count++;
            *due_p += other->sharing.is_due;
            *first_p = other->sharing.is_due? *first_p: other;
        }
    return count;
}

//  As sharing_served, as if there were one tenant.  Until a second job of it draws the version only the first
//  one is counted; then, if the first is still there, it is credited.
static void
s_served_of_tenant (batch_row_t *row, version_t *version)
{
    job_t *job = row->job;
    const job_t *counted = NULL;
    size_t due = 0, others = s_others_of_tenant (job, version, &counted, &due);
    uint64_t bit = UINT64_C (1) << job->tenant->number;
    row->is_reused = (version->served & bit) != 0;
    row->tenant_jobs = (uint16_t) (1 + others - due);
    version->served |= bit;
    if (!row->is_reused) {
        job->sharing.alone++;
        return;
    }
    bool is_others = others > due || version_set_is_random (job->consumer.kind);
    if (!is_others)
        return;
    if (!(version->told & bit) && others - due == 1 && counted->sharing.alone > 0) {
        job_t *first = job->dataset->jobs [counted->consumer.sampler_job];
        first->sharing.alone--;
        first->sharing.shared++;
    }
    version->told |= bit;
    job->sharing.shared++;
}

void
sharing_served (broker_t *self, batch_row_t *row, version_t *version)
{
    row->job->sharing.is_due = false;
    row->tenant_jobs = 0;
    job_t *job = row->job;
    sharing_t *sharing = &job->sharing;
    sharing_forget (self, row);
    row->draw = version->draw;
    row->is_reused = version->maker != 0;
    row->record = s_record_of (self, version);
    sharing_record_t *record = s_record (self, row->record);
    record->holders++;
    record->jobs = version->jobs;
    sharing->places++;
    if (tenant_limits_apply (self)) {
        s_served_of_tenant (row, version);
        return;
    }
    if (!row->is_reused) {
        version->maker = job->id;
        sharing->alone++;
    }
    else
    if (version->jobs > 1) {
        if (!version->is_shared)
            s_credit_maker (self, version);
        sharing->shared++;
    }
}

json_t *
sharing_status (const job_t *job)
{
    const sharing_t *sharing = &job->sharing;
    return json_pack ("{s:I,s:I,s:I}", "places", (json_int_t) sharing->places, "alone",
        (json_int_t) sharing->alone, "shared", (json_int_t) sharing->shared);
}

void
sharing_check (const broker_t *self)
{
    const sharing_records_t *records = &self->records;
    uint64_t holders = 0, held = 0;
    uint32_t used = 0;
    for (uint32_t number = 1; number <= records->count; number++) {
        holders += s_record (self, number)->holders;
        used += s_record (self, number)->holders > 0;
    }
    assert (used == records->held);
    for (const job_t *job = self->jobs; job; job = job->next) {
        assert (!job->sharing.is_due);
        assert (job->sharing.alone + job->sharing.shared <= job->sharing.places);
        for (size_t index = 0; index < (size_t) job->asked.batch_size * job->asked.slots; index++)
            held += job->draw.row_memory [index].record > 0;
    }
    assert (holders == held);
}

void
sharing_join (job_t *job)
{
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++) {
        job_t *other = job->dataset->jobs [number];
        job->sharing.since [number] = sharing_mark_of (&job->sharing);
        if (other && other != job)
            other->sharing.since [job->consumer.sampler_job] = sharing_mark_of (&other->sharing);
    }
}

//  ---- why little is shared

enum {
    JUDGE_MS = 1000,
    SAMPLES_LEAST = 256,            //  that both have drawn since both joined, and
    EPOCH_PART = 4,                 //  one part in so many of an epoch
    LITTLE_PERCENT = 20,            //  of its samples shared; below this it is little
    STEP_PERCENT = 40,              //  the same for jobs out of step under dsa.  Their sharing changes over
                                    //  an epoch, so it is judged after a whole one
    STEP_APART_PERCENT = 5,         //  of an epoch; less is in step
    OVERLAP_PERCENT = 20,           //  of its samples in others' data; below, little can be shared
    PROBES = 1024, PROBES_LEAST = 64,
    AGAIN_PART = 4,                 //  a job is looked at again when it has drawn one part in so many more
    SHOWN_BYTES = 160, SHOWN_DIGITS = 6, NAME_BYTES = REQUEST_NAME_BYTES_MAX + 32, MESSAGE_BYTES = 1024
};

//  What keeps two jobs from sharing.
typedef enum { BETWEEN_NOTHING, BETWEEN_STAGES, BETWEEN_APART } between_t;

//  What is found about a job.
typedef struct {
    broker_t *broker;
    const job_t *job;
    const job_t *near;              //  the newest job that could share with it; NULL: none
    uint64_t near_places;           //  what all jobs that could share have drawn since it joined
    const job_t *far;               //  the first job that cannot share with it
    between_t between;              //  what
    char *message;
} finding_t;

static bool
s_tell (finding_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

static bool
s_tell (finding_t *self, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (self->message, MESSAGE_BYTES, format, arguments);
    va_end (arguments);
    return true;
}

//  "job 3 ('trial-1')"
static const char *
s_name (const job_t *job, char name [NAME_BYTES])
{
    snprintf (name, NAME_BYTES, job->asked.name [0]? "job %llu ('%s')": "job %llu",
        (unsigned long long) job->id, job->asked.name);
    return name;
}

//  ---- what two jobs have had since both were there

//  What the job has drawn since the later of both joined.
static sharing_mark_t
s_since (const job_t *job, const job_t *other)
{
    sharing_mark_t now = sharing_mark_of (&job->sharing),
        then = job->sharing.since [other->consumer.sampler_job];
    return (sharing_mark_t) { now.places - then.places, now.shared - then.shared };
}

static bool
s_has_drawn (const job_t *job, const job_t *other, uint64_t epoch_part)
{
    uint64_t part = job_epoch_samples (job) / epoch_part, drawn = s_since (job, other).places;
    return drawn >= SAMPLES_LEAST && drawn >= part;
}

//  A job can share no more than the other jobs have drawn: a slow neighbour is no mistake.
static bool
s_is_little (const job_t *job, const job_t *other, uint64_t others_places, uint64_t percent)
{
    sharing_mark_t since = s_since (job, other);
    uint64_t possible = since.places < others_places? since.places: others_places;
    return since.shared * 100 < possible * percent;
}

//  ---- data that they have in common

//  How many percent of the job's samples are in any other job's data, estimated from some thousand samples;
//  100 if too few of these are the job's.
static uint32_t
s_overlap (const finding_t *self, const job_t *const *others, size_t count)
{
    const job_t *job = self->job;
    const sampler_t *sampler = job->dataset->sampler;
    random_t random = random_from_seed (job->id);
    uint32_t own = 0, common = 0;
    for (int probe = 0; probe < PROBES; probe++) {
        uint32_t id = (uint32_t) random_below (&random, job->dataset->samples);
        if (!sampler_has (sampler, job->consumer.sampler_job, id))
            continue;
        own++;
        size_t index = 0;
        while (index < count && !sampler_has (sampler, others [index]->consumer.sampler_job, id))
            index++;
        common += index < count;
    }
    return own < PROBES_LEAST? 100: common * 100 / own;
}

//  ---- what keeps two jobs from sharing

static bool
s_is_apart (const job_t *job)
{
    return job->broker->options.policy != SAMPLER_POLICY_DSA && !job->consumer.follows
        && !job->consumer.has_passes;
}

//  An operation as text, cut to what is shown.
static void
s_show (const json_t *operation, char shown [SHOWN_BYTES])
{
    char *text = json_dumps (operation, JSON_COMPACT | JSON_REAL_PRECISION (SHOWN_DIGITS));
    size_t length = strlen (xalloc_memory (text));
    snprintf (shown, SHOWN_BYTES, "%s", text);
    if (length >= SHOWN_BYTES)
        memcpy (shown + SHOWN_BYTES - 4, "...", 4);
    free (text);
}

//  Skips what is equal in two operations of the same kind.
static json_t *
s_difference (json_t *operation, json_t *other)
{
    json_t *difference = json_object ();
    const char *key;
    json_t *value;
    bool is_same_kind = json_equal (json_object_get (operation, "op"), json_object_get (other, "op"));
    json_object_foreach (operation, key, value)
        if (!is_same_kind || strcmp (key, "op") == 0 || !json_equal (value, json_object_get (other, key)))
            json_object_set (difference, key, value);
    return difference;
}

//  The operation at the index, cut; empty: the list ends before.
static void
s_show_at (const json_t *list, const json_t *others, size_t index, char shown [SHOWN_BYTES])
{
    shown [0] = 0;
    if (index >= json_array_size (list))
        return;
    json_t *difference = s_difference (json_array_get (list, index), json_array_get (others, index));
    s_show (difference, shown);
    json_decref (difference);
}

//  In the first operation in which they differ.
static bool
s_tell_stages (finding_t *self)
{
    json_t *here = json_loads (pipeline_shared_text (self->job->asked.pipeline), 0, NULL);
    json_t *there = json_loads (pipeline_shared_text (self->far->asked.pipeline), 0, NULL);
    xalloc_memory (here);
    xalloc_memory (there);
    size_t index = 0;
    while (index < json_array_size (here)
        && json_equal (json_array_get (here, index), json_array_get (there, index)))
        index++;
    char name [NAME_BYTES], mine [SHOWN_BYTES], theirs [SHOWN_BYTES];
    s_show_at (here, there, index, mine);
    s_show_at (there, here, index, theirs);
    s_name (self->far, name);
    if (mine [0] && theirs [0])
        s_tell (self, "nothing is prepared for both this job and %s: before the share point this job has %s "
            "where the other has %s; with the same list up to {\"share\": true} each sample would be "
            "prepared once for both", name, mine, theirs);
    else
        s_tell (self, "nothing is prepared for both this job and %s: %s share point stands before %s, %s "
            "behind it; put {\"share\": true} in the same place of both lists", name,
            mine [0]? "that one's": "this one's", mine [0]? mine: theirs,
            mine [0]? "this one's": "that one's");
    json_decref (here);
    json_decref (there);
    return true;
}

static bool
s_tell_between (finding_t *self)
{
    char name [NAME_BYTES];
    if (self->between == BETWEEN_STAGES)
        return s_tell_stages (self);
    return s_tell (self, "%s draws by itself, because its data, a subset, would split the data set into more "
        "parts than there is room for, and common passes are not for data that are read in pieces (what is "
        "served with --tier NAME=direct is not), nor for less than a 64th of the samples; give the jobs the "
        "same subset, or subsets that fewer jobs cut in different ways",
        s_is_apart (self->job)? "this job": s_name (self->far, name));
}

//  A job with a class of its own shares with no other job.
static bool
s_tell_seeded (finding_t *self)
{
    return s_tell (self, "a job with a seed and no order has order \"seeded\": samples that depend on chance "
        "are prepared for it alone; with order \"shared\" it would share them with the other jobs on its "
        "data, and the seed would only apply to what is random behind the share point");
}

//  ---- jobs that could share

//  The job's progress in its epoch, in percent.
static uint64_t
s_place_in_epoch (const job_t *job)
{
    uint64_t samples = job_epoch_samples (job);
    uint64_t left = sampler_remaining (job->dataset->sampler, job->consumer.sampler_job);
    return samples && left <= samples? (samples - left) * 100 / samples: 0;
}

static bool
s_tell_step (finding_t *self)
{
    const job_t *job = self->job, *near = self->near;
    if (!s_has_drawn (job, near, 1)
    ||  !s_is_little (job, near, self->near_places, STEP_PERCENT))
        return false;
    uint64_t here = s_place_in_epoch (job), there = s_place_in_epoch (near);
    uint64_t apart = here > there? here - there: there - here;
    apart = apart > 50? 100 - apart: apart;
    if (apart < STEP_APART_PERCENT)
        return false;
    char name [NAME_BYTES];
    return s_tell (self, "the server's policy is dsa, under which jobs share what they need at the same "
        "moment, and the jobs are out of step: this one has drawn %llu %% of its epoch, %s %llu %%; start "
        "them together, or the server with --policy follow",
        (unsigned long long) here, s_name (near, name), (unsigned long long) there);
}

static bool
s_tell_near (finding_t *self, const job_t *const *near, size_t count)
{
    for (size_t index = 0; index < count; index++)
        self->near_places += s_since (near [index], near [index] == self->near? self->job: self->near).places;
    bool is_little = s_is_little (self->job, self->near, self->near_places, LITTLE_PERCENT);
    uint32_t overlap = is_little? s_overlap (self, near, count): 100;
    if (overlap == 0)
        return false;                   //  different data are no mistake
    if (overlap < OVERLAP_PERCENT)
        return s_tell (self, "only %u %% of this job's samples are in the data of other jobs, and more "
            "cannot be shared; give the jobs the same data, or data that overlap more", overlap);
    return self->broker->options.policy == SAMPLER_POLICY_DSA && s_tell_step (self);
}

//  ---- the verdict

//  Both jobs have been there long enough, and their data overlap enough to report it.
static bool
s_is_company (const finding_t *self, const job_t *other)
{
    return other && other != self->job && other->tenant == self->job->tenant && other->state == JOB_RUNNING
        && other->asked.order == SAMPLER_ORDER_SHARED
        && s_has_drawn (self->job, other, EPOCH_PART) && s_has_drawn (other, self->job, EPOCH_PART);
}

static bool
s_find (finding_t *self)
{
    const job_t *near [SAMPLER_JOBS_MAX];
    size_t count = 0;
    uint64_t newest = UINT64_MAX;
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++) {
        const job_t *other = self->job->dataset->jobs [number];
        if (!s_is_company (self, other))
            continue;
        between_t between = self->job->consumer.kind != other->consumer.kind? BETWEEN_STAGES:
            s_is_apart (self->job) || s_is_apart (other)? BETWEEN_APART: BETWEEN_NOTHING;
        uint64_t drawn = s_since (self->job, other).places;
        if (between == BETWEEN_NOTHING) {
            near [count++] = other;
            self->near = drawn < newest? other: self->near;
            newest = drawn < newest? drawn: newest;
        }
        else
        if (!self->far || between < self->between) {
            self->far = other;
            self->between = between;
        }
    }
    if (count > 0)
        return !self->job->asked.order_is_of_seed && s_tell_near (self, near, count);
    if (!self->far || !s_is_little (self->job, self->far, UINT64_MAX, LITTLE_PERCENT)
    ||  s_overlap (self, &self->far, 1) < OVERLAP_PERCENT)
        return false;
    return self->job->asked.order_is_of_seed? s_tell_seeded (self): s_tell_between (self);
}

//  The first rank that can be told; NULL: none is present.
static rank_t *
s_listener (job_t *job)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        if (rank_is_there (&job->ranks [number]))
            return &job->ranks [number];
    return NULL;
}

static void
s_judge (broker_t *self, job_t *job)
{
    rank_t *listener = s_listener (job);
    if (!listener)
        return;
    char message [MESSAGE_BYTES];
    finding_t finding = { .broker = self, .job = job, .message = message };
    job->sharing.look_at = job->sharing.places + job->sharing.places / AGAIN_PART
        + SAMPLES_LEAST / AGAIN_PART;
    if (!s_find (&finding))
        return;
    job->sharing.is_told = true;
    job->told.little_shared = xalloc_memory (strdup (message));
    rank_tell (listener, ACTION_SEND_NOTICE, "little_shared", job->told.little_shared);
}

void
sharing_judge (broker_t *self, int64_t now_ms)
{
    if (now_ms < self->shared_ms)
        return;
    self->shared_ms = now_ms + JUDGE_MS;
    for (job_t *job = self->jobs; job; job = job->next)
        if (job->state == JOB_RUNNING && !job->sharing.is_told
            && (job->asked.order == SAMPLER_ORDER_SHARED || job->asked.order_is_of_seed)
            && job->sharing.places >= job->sharing.look_at)
            s_judge (self, job);
}
