//  Workers on other machines: the callers that may be one, and their messages on the way to remote_workers.h.

#include "service_state.h"
#include "remote_workers.h"

bool
service_is_of_worker (const inbound_message_t *inbound)
{
    return inbound->head.kind >= WIRE_WORK_HELLO && inbound->head.kind <= WIRE_WORK_GOODBYE;
}

static bool
s_may_send (const inbound_message_t *inbound, refusal_t *refusal)
{
    const caller_t *caller = &inbound->caller;
    if (service_is_of_worker (inbound) && !caller->may_work)
        return refuse (refusal, "forbidden", caller->uid == (uid_t) -1?
            "this is no worker's key: have the server's operator allow one (tureen key allow DIR FILE "
            "--worker)":
            "only the server's own user and root may be workers here: run `tureen work` as that user, or "
            "over tcp with a worker's key");
    if (!service_is_of_worker (inbound) && caller->only_works)
        return refuse (refusal, "forbidden", "this is a worker's key, for `tureen work` alone: have the "
            "server's operator allow another one (tureen key allow DIR FILE --tenant NAME)");
    return true;
}

bool
service_check_role (service_t *self, const inbound_message_t *inbound)
{
    refusal_t refusal;
    if (s_may_send (inbound, &refusal))
        return true;
    service_refuse (self, inbound, &refusal);
    return false;
}

void
service_take_work (service_t *self, const inbound_message_t *inbound, const char *label)
{
    refusal_t refusal;
    remote_message_t message = { .peer = &inbound->peer, .user = inbound->caller.user, .label = label,
        .head = &inbound->head, .frames = inbound->frames, .count = inbound->count };
    if (!remote_workers_take (tasks_remote_workers (self->options.tasks), &message, self->now_ms, &refusal))
        service_refuse (self, inbound, &refusal);
}

typedef struct {
    bool (*is_gone) (void *context, const caller_t *caller);
    void *context;
} revoking_t;

static bool
s_is_gone (void *context, uint64_t user)
{
    const revoking_t *revoking = context;
    //  A worker without a key has the number of its uid.
    caller_t caller = { .user = user, .uid = user < KEYS_USER_FIRST? (uid_t) user: (uid_t) -1 };
    return user != BROKER_USER_UNKNOWN && revoking->is_gone (revoking->context, &caller);
}

void
service_revoke_workers (service_t *self, bool (*is_gone) (void *context, const caller_t *caller),
    void *context)
{
    revoking_t revoking = { is_gone, context };
    remote_workers_revoke (tasks_remote_workers (self->options.tasks), s_is_gone, &revoking, self->now_ms);
}
