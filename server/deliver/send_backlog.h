/*  send_backlog -- answers that were sent and that ZeroMQ still has, by connection: a client that does not
 *  read them gets no more.
 *
 *  ZeroMQ keeps up to a thousand messages for a connection, whatever their size.  So each large answer is
 *  counted from its sending until its bytes have left.  A connection with SEND_BACKLOG_OF_ONE_MAX such
 *  answers, or a tenant with SEND_BACKLOG_OF_TENANT_MAX, gets no further one.  If a tenant has unread answers
 *  on its share of connections, it gets none on a further connection.  An answer is never refused because of
 *  its own size, only because of earlier answers.
 *
 *  Owner: the broker's thread; ZeroMQ's threads only count down.  It must outlive the ROUTER's context.
 */
#ifndef SEND_BACKLOG_H
#define SEND_BACKLOG_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "outbox.h"

typedef struct send_backlog send_backlog_t;

enum {
    SEND_BACKLOG_ACCOUNTS_MAX = 1024,
    SEND_BACKLOG_OF_ONE_MAX = 1 << 20,
    SEND_BACKLOG_OF_TENANT_MAX = 64 << 20
};

//  NULL: no memory.
send_backlog_t *send_backlog_new (void);
void send_backlog_destroy (send_backlog_t **self_p);

//  The counter of the next answer to this connection of the tenant (a number), for outbox_send_counted.
//  share: the tenant's share of SEND_BACKLOG_ACCOUNTS_MAX.  NULL: the client must first read its earlier
//  answers.
atomic_size_t *send_backlog_account (send_backlog_t *self, const peer_t *peer, uint32_t tenant, size_t share);
//  The bytes of all connections.
size_t send_backlog_bytes (const send_backlog_t *self);

#endif
