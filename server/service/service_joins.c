//  JOIN: from the room to arrivals.h.
//
//  happy path:     what it asks for is looked at; its ids are read; a job.  Where there are many ids a worker reads them, as a chore
//                  of its tenant's: meanwhile the JOIN is held at the head of its tenant's line, so that no tenant has more than one
//                  in work, and nothing of it overtakes another.
//  failure modes:  refused at any of these.  Its key is revoked while it is read: refused when that is done.
//  on close:       what is being read is refused: `stopping`.

#include "service_state.h"
#include <assert.h>
#include <stdlib.h>

enum { AUTOMATIC_ID_BYTES = 5 };            //  of a routing id that ZeroMQ gave: a zero, and four more

//  One whose ids a worker reads.
typedef struct reading_join {
    chore_t chore;              //  first: the way back from it
    service_t *service;
    mail_t *mail;
    draft_t *draft;
    bool good, is_revoked;
    refusal_t refusal;          //  unless it is good
} reading_join_t;

//  In a worker.  The ids' bytes are given back there, too: that takes as long.
static void
s_read (errand_t *errand, decoder_t *decoder)
{
    (void) decoder;
    reading_join_t *self = (reading_join_t *) errand;
    self->good = draft_read (self->draft, self->mail->frames, &self->refusal);
    mail_drop_frames (self->mail);
}

//  The draft goes.
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
        return arrivals_join (service->arrivals, self->draft, service->now_ms, &self->refusal);
    draft_destroy (&self->draft);
    return false;
}

static void
s_done (chore_t *chore, bool was_read)
{
    reading_join_t *self = (reading_join_t *) chore;
    service_t *service = self->service;
    const tenant_t *tenant = self->mail->caller.tenant;
    uint64_t begin = service_unburied_ns (service);
    assert (service->reading [tenant_number (tenant)] == self);
    service->reading [tenant_number (tenant)] = NULL;
    waiting_room_release (service->room, &self->mail->waiting);
    if (!s_go_on (self, was_read))
        service_refuse (service, self->mail, &self->refusal);
    mail_destroy (&self->mail);
    free (self);
    service_charge (service, tenant, service_unburied_ns (service) - begin);
}

//  The draft is not the caller's any more.
static bool
s_let_read (service_t *self, mail_t *mail, draft_t *draft, refusal_t *refusal)
{
    tenant_t *tenant = draft->caller.tenant;
    reading_join_t *reading = calloc (1, sizeof *reading);
    if (!reading) {
        draft_destroy (&draft);
        return refuse (refusal, "budget", "no memory for the request");
    }
    *reading = (reading_join_t) { .chore = { .errand = { .work = s_read }, .done = s_done }, .service = self, .mail = mail,
        .draft = draft };
    assert (!self->reading [tenant_number (tenant)]);
    self->reading [tenant_number (tenant)] = reading;
    waiting_room_hold (self->room, &mail->waiting);
    chores_add (self->chores, tenant, &reading->chore);
    return true;
}

bool
service_join (service_t *self, mail_t *mail, refusal_t *refusal)
{
    if (self->stopping)
        return service_refuse_stopping (refusal);
    //  A routing id that the client chose may be one that another client had: what is still on its way to that one would
    //  reach this one.
    if (mail->peer.size != AUTOMATIC_ID_BYTES || mail->peer.bytes [0] != 0)
        return refuse (refusal, "bad_request", "leave the DEALER's routing id unset");
    if (!service_account (self, mail, refusal))
        return false;
    arrivals_message_t arrival = { .frames = mail->frames, .count = mail->count, .peer = &mail->peer,
        .caller = &mail->caller, .tag = mail->head.tag, .now_ms = self->now_ms };
    draft_t *draft = arrivals_begin (self->arrivals, &arrival, refusal);
    if (!draft)
        return false;
    if (draft_is_long (draft, mail->frames))
        return s_let_read (self, mail, draft, refusal);
    if (draft_read (draft, mail->frames, refusal))
        return arrivals_join (self->arrivals, draft, self->now_ms, refusal);
    draft_destroy (&draft);
    return false;
}

bool
service_is_reading (const service_t *self, const mail_t *mail)
{
    const reading_join_t *reading = self->reading [tenant_number (mail->caller.tenant)];
    return reading && reading->mail == mail;
}

void
service_revoke_reading (service_t *self, bool (*is_gone) (void *context, const caller_t *caller), void *context)
{
    for (size_t number = 0; number < BROKER_TENANTS_MAX; number++) {
        reading_join_t *reading = self->reading [number];
        if (reading && is_gone (context, &reading->mail->caller))
            reading->is_revoked = true;
    }
}
