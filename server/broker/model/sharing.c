//  Counting and records; sharing_reason.c finds why little is shared.

#include "sharing.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"
#include "needed.h"
#include "tenant.h"

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
            records->all = needed_memory (realloc (records->all, records->room * sizeof *records->all));
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

//  No record is in use: frees the table, which may have grown large.
static void
s_let_go (sharing_records_t *records)
{
    free (records->all);
    records->all = NULL;
    records->count = records->room = records->first_free = 0;
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
    if (self->records.held == 0)
        s_let_go (&self->records);
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
sharing_drawn (job_t *const *jobs, size_t count)
{
    for (size_t index = 0; index < count; index++)
        jobs [index]->sharing.is_due = true;
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
        for (size_t index = 0; index < (size_t) job->batch_size * job->slots; index++)
            held += job->row_memory [index].record > 0;
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
