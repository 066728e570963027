/*  refusals -- every request that was refused, counted by tenant and code; and told in the log, at most once a second for each.
 *
 *  What was refused meanwhile is told by its number, with the last message.  A tenant's number is the broker's; one more,
 *  REFUSALS_NOBODY, is for those who are nobody's.  Owner: the broker's thread.
 */
#ifndef REFUSALS_H
#define REFUSALS_H
#include <stdint.h>
#include <jansson.h>
#include "broker.h"
#include "log.h"

typedef struct refusals refusals_t;

enum { REFUSALS_NOBODY = BROKER_TENANTS_MAX, REFUSALS_LINES_MAX, REFUSALS_CODES_MAX = 48, REFUSALS_TELL_MS = 1000 };

//  log is lent.  NULL: no memory.
refusals_t *refusals_new (log_t *log);
void refusals_destroy (refusals_t **self_p);

typedef struct {
    uint32_t tenant;
    const char *name;           //  the tenant's in the log, lent for good; NULL: it is not named
    uint64_t user;              //  BROKER_USER_UNKNOWN: it is not known
    const char *code;           //  static
    const char *message;
} refusals_one_t;

void refusals_add (refusals_t *self, const refusals_one_t *one, int64_t now_ms);
//  About twice a second.
void refusals_beat (refusals_t *self, int64_t now_ms);

//  {"busy": 3}: those of one tenant, or of all where it is REFUSALS_LINES_MAX; codes that were never used are left out.  A new
//  reference.
json_t *refusals_status (const refusals_t *self, uint32_t tenant);

#endif
