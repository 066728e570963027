/*  caller -- the user at the other end of a connection, by the kernel (ipc) or by a key (tcp).
 *
 *  Found anew for every message (tenants.h).  A job belongs to the caller that made it, whatever its routing
 *  id.
 */
#ifndef CALLER_H
#define CALLER_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "broker.h"

//  In place of a key where clients come over ipc as well (gate.h).  Keys are longer.
#define CALLER_LOCAL "local"

typedef struct {
    tenant_t *tenant;           //  never NULL
    bool may_work;              //  may lend processors (docs/workers.md)
    bool only_works;            //  and do nothing else: a worker's key
    bool is_operator;           //  sees all jobs and figures, and may drain the server
    bool may_add;               //  may have the server open further data sets.  None of an open server: all
                                //  programs that reach it are its operators, and could read any file
    uid_t uid;                  //  of the process; (uid_t) -1: unknown (tcp)
    uint64_t user;              //  broker_terms_t
} caller_t;

static inline bool
caller_is (const caller_t *self, const caller_t *other)
{
    return self->tenant == other->tenant && self->user == other->user;
}

#endif
