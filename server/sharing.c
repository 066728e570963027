//  Counting and records; why little is shared is sharing_reason.c's to find.

#include "broker_state.h"
#include <assert.h>
#include <stdlib.h>

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
            records->all = broker_need (realloc (records->all, records->room * sizeof *records->all));
        }
        number = ++records->count;
    }
    records->all [number - 1] = (sharing_record_t) { .birth = ++records->births };
    return number;
}

//  The version's record, a new one where the last place that remembered the old one has gone.
static uint32_t
s_record_of (broker_t *self, version_t *version)
{
    if (version->record == 0 || s_record (self, version->record)->holders == 0
    ||  s_record (self, version->record)->birth != version->record_birth) {
        version->record = s_new_record (&self->records);
        version->record_birth = s_record (self, version->record)->birth;
    }
    return version->record;
}

void
sharing_forget (broker_t *self, place_t *place)
{
    if (place->record == 0)
        return;
    sharing_record_t *record = s_record (self, place->record);
    assert (record->holders > 0);
    if (--record->holders == 0) {
        record->birth = self->records.first_free;
        self->records.first_free = place->record;
    }
    place->record = 0;
}

uint32_t
sharing_jobs (const broker_t *self, const place_t *place)
{
    return place->record? s_record (self, place->record)->jobs: 0;
}

//  ---- counting

//  It is no longer only the one's that it was made for.
static void
s_credit_maker (broker_t *self, version_t *version)
{
    version->is_shared = true;
    job_t *maker = broker_job (self, version->maker);
    if (maker) {
        maker->sharing.alone--;
        maker->sharing.shared++;
    }
}

void
sharing_served (broker_t *self, place_t *place, version_t *version)
{
    job_t *job = place->job;
    sharing_t *sharing = &job->sharing;
    sharing_forget (self, place);
    place->draw = version->draw;
    place->is_reused = version->maker != 0;
    place->record = s_record_of (self, version);
    sharing_record_t *record = s_record (self, place->record);
    record->holders++;
    record->jobs = version->jobs;
    sharing->places++;
    if (!place->is_reused) {
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
    return json_pack ("{s:I,s:I,s:I}", "places", (json_int_t) sharing->places, "alone", (json_int_t) sharing->alone,
        "shared", (json_int_t) sharing->shared);
}

void
sharing_check (const broker_t *self)
{
    const sharing_records_t *records = &self->records;
    uint64_t holders = 0, held = 0;
    for (uint32_t number = 1; number <= records->count; number++)
        holders += s_record (self, number)->holders;
    for (const job_t *job = self->jobs; job; job = job->next) {
        assert (job->sharing.alone + job->sharing.shared <= job->sharing.places);
        for (size_t index = 0; index < (size_t) job->batch_size * job->slots; index++)
            held += job->place_memory [index].record > 0;
    }
    assert (holders == held);
}
