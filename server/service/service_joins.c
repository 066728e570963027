//  JOIN: from the request queue to arrivals.h.
//
//  happy path:     the request is checked; its ids are read; a job.  If there are many ids a worker reads
//                  them, as a side job of the tenant's.  Meanwhile the JOIN is held at the head of its
//                  tenant's line, so that a tenant has only one in work, and none of its requests overtakes
//                  another.
//  failure modes:  refused at any step.  Its key is revoked while the ids are read: refused afterwards.
//  on close:       a JOIN with ids that are being read is refused: `stopping`.

#include "service_state.h"
#include <assert.h>
#include <stdlib.h>

enum { AUTOMATIC_ID_BYTES = 5 };            //  of a routing id that ZeroMQ gave: a zero, and four more

//  A JOIN with ids that a worker reads.
typedef struct reading_join {
    side_job_t side_job;        //  first, so that it leads back here
    service_t *service;
    inbound_message_t *inbound;
    join_request_t *join_request;
    bool good, is_revoked;
    refusal_t refusal;          //  if the ids are refused
} reading_join_t;

//  In a worker, which also frees the ids' bytes: that takes as long as reading them.
static void
s_read (side_task_t *side_task, decoder_t *decoder)
{
    (void) decoder;
    reading_join_t *self = (reading_join_t *) side_task;
    self->good = join_request_read (self->join_request, self->inbound->frames, &self->refusal);
    inbound_message_drop_frames (self->inbound);
}

//  Frees the request.
static bool
s_go_on (reading_join_t *self, bool was_read)
{
    service_t *service = self->service;
    bool good = was_read? self->good: service_refuse_stopping (&self->refusal);
    if (good && service->stopping)
        good = service_refuse_stopping (&self->refusal);
    if (good && self->is_revoked)
        good = service_refuse_revoked (&self->refusal);
    if (good)
        return arrivals_join (service->arrivals, self->join_request, service->now_ms, &self->refusal);
    join_request_destroy (&self->join_request);
    return false;
}

static void
s_done (side_job_t *side_job, bool was_read)
{
    reading_join_t *self = (reading_join_t *) side_job;
    service_t *service = self->service;
    const tenant_t *tenant = self->inbound->caller.tenant;
    uint64_t begin = service_unreclaimed_ns (service);
    assert (service->reading [tenant_number (tenant)] == self);
    service->reading [tenant_number (tenant)] = NULL;
    request_queue_release (service->request_queue, &self->inbound->waiting);
    if (!s_go_on (self, was_read))
        service_refuse (service, self->inbound, &self->refusal);
    inbound_message_destroy (&self->inbound);
    free (self);
    service_charge (service, tenant, service_unreclaimed_ns (service) - begin);
}

//  Takes the request over.
static bool
s_let_read (service_t *self, inbound_message_t *inbound, join_request_t *join_request, refusal_t *refusal)
{
    tenant_t *tenant = join_request->caller.tenant;
    reading_join_t *reading = calloc (1, sizeof *reading);
    if (!reading) {
        join_request_destroy (&join_request);
        return refuse (refusal, "budget", "no memory for the request");
    }
    *reading = (reading_join_t) { .side_job = { .side_task = { .work = s_read }, .done = s_done },
        .service = self, .inbound = inbound,
        .join_request = join_request };
    assert (!self->reading [tenant_number (tenant)]);
    self->reading [tenant_number (tenant)] = reading;
    request_queue_hold (self->request_queue, &inbound->waiting);
    side_jobs_add (self->side_jobs, tenant, &reading->side_job);
    return true;
}

bool
service_join (service_t *self, inbound_message_t *inbound, refusal_t *refusal)
{
    if (self->stopping)
        return service_refuse_stopping (refusal);
    //  A routing id that the client chose may have been another client's: messages still on their way to that
    //  client would reach this one.
    if (inbound->peer.size != AUTOMATIC_ID_BYTES || inbound->peer.bytes [0] != 0)
        return refuse (refusal, "bad_request", "leave the DEALER's routing id unset");
    if (!service_account (self, inbound, refusal))
        return false;
    arrivals_message_t arrival = { .frames = inbound->frames, .count = inbound->count, .peer = &inbound->peer,
        .caller = &inbound->caller, .tag = inbound->head.tag, .now_ms = self->now_ms };
    join_request_t *join_request = arrivals_begin (self->arrivals, &arrival, refusal);
    if (!join_request)
        return false;
    if (join_request_is_long (join_request, inbound->frames))
        return s_let_read (self, inbound, join_request, refusal);
    if (join_request_read (join_request, inbound->frames, refusal))
        return arrivals_join (self->arrivals, join_request, self->now_ms, refusal);
    join_request_destroy (&join_request);
    return false;
}

bool
service_is_reading (const service_t *self, const inbound_message_t *inbound)
{
    const reading_join_t *reading = self->reading [tenant_number (inbound->caller.tenant)];
    return reading && reading->inbound == inbound;
}

void
service_revoke_reading (service_t *self, bool (*is_gone) (void *context, const caller_t *caller),
    void *context)
{
    for (size_t number = 0; number < BROKER_TENANTS_MAX; number++) {
        reading_join_t *reading = self->reading [number];
        if (reading && is_gone (context, &reading->inbound->caller))
            reading->is_revoked = true;
    }
}
