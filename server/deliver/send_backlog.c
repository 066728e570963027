#include "send_backlog.h"
#include <stdlib.h>
#include <string.h>

//  An account is free for another connection when it is empty.
typedef struct {
    atomic_size_t bytes;
    uint32_t tenant;
    peer_t peer;
} account_t;

struct send_backlog {
    account_t accounts [SEND_BACKLOG_ACCOUNTS_MAX];
};

send_backlog_t *
send_backlog_new (void)
{
    send_backlog_t *self = calloc (1, sizeof *self);
    for (size_t index = 0; self && index < SEND_BACKLOG_ACCOUNTS_MAX; index++)
        atomic_init (&self->accounts [index].bytes, 0);
    return self;
}

void
send_backlog_destroy (send_backlog_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

atomic_size_t *
send_backlog_account (send_backlog_t *self, const peer_t *peer, uint32_t tenant, size_t share)
{
    account_t *own = NULL, *room = NULL;
    size_t of_tenant = 0, connections = 0;
    for (size_t index = 0; index < SEND_BACKLOG_ACCOUNTS_MAX; index++) {
        account_t *account = &self->accounts [index];
        size_t bytes = atomic_load (&account->bytes);
        if (bytes == 0)
            room = room? room: account;
        else {
            of_tenant += account->tenant == tenant? bytes: 0;
            connections += account->tenant == tenant;
            if (peer_is (&account->peer, peer))
                own = account;
        }
    }
    if (of_tenant >= SEND_BACKLOG_OF_TENANT_MAX)
        return NULL;
    if (own)
        return atomic_load (&own->bytes) < SEND_BACKLOG_OF_ONE_MAX? &own->bytes: NULL;
    if (!room || connections >= share)
        return NULL;
    room->tenant = tenant;
    room->peer = *peer;
    return &room->bytes;
}

size_t
send_backlog_bytes (const send_backlog_t *self)
{
    size_t bytes = 0;
    for (size_t index = 0; index < SEND_BACKLOG_ACCOUNTS_MAX; index++)
        bytes += atomic_load (&self->accounts [index].bytes);
    return bytes;
}
