/*  rejection_log -- every request that was refused, counted by tenant and code; and told in the log, at most
 *  once a second for each.  Also how many refusals a caller is answered.
 *
 *  A line reports the number of refusals since the last line, and the last message.  Tenants have the
 *  broker's numbers; one more, REJECTION_LOG_NOBODY, is for callers without a tenant.  Owner: the broker's
 *  thread.
 */
#ifndef REJECTION_LOG_H
#define REJECTION_LOG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "broker.h"
#include "dataset.h"
#include "log.h"

typedef struct rejection_log rejection_log_t;

enum { REJECTION_LOG_NOBODY = BROKER_TENANTS_MAX, REJECTION_LOG_LINES_MAX, REJECTION_LOG_CODES_MAX = 48,
    REJECTION_LOG_TELL_MS = 1000 };

//  log is lent.  NULL: no memory.
rejection_log_t *rejection_log_new (log_t *log);
void rejection_log_destroy (rejection_log_t **self_p);

typedef struct {
    uint32_t tenant;
    const char *name;           //  the tenant's name in the log, lent for ever; NULL: it is not named
    uint64_t user;              //  BROKER_USER_UNKNOWN: not known
    const char *code;           //  static
    const char *message;
} rejection_log_one_t;

void rejection_log_add (rejection_log_t *self, const rejection_log_one_t *one, int64_t now_ms);
//  Call it about twice a second.
void rejection_log_beat (rejection_log_t *self, int64_t now_ms);

//  {"busy": 3}: refusals of one tenant, or of all (REJECTION_LOG_LINES_MAX); unused codes are left out.  A
//  new reference.
json_t *rejection_log_status (const rejection_log_t *self, uint32_t tenant);


//  ---- how many of them are answered

//  How many ERROR replies a user gets: REJECTION_LOG_ANSWER_A_SECOND for long,
//  REJECTION_LOG_ANSWER_BURST at once.
//
//  A client that floods the server with invalid messages costs it only the reading.  At most
//  REJECTION_LOG_ANSWER_USERS_MAX users have an entry.  If one more is needed, the user with the oldest last
//  error loses its entry.  Owner: the broker's thread.

enum {
    REJECTION_LOG_ANSWER_USERS_MAX = 256, REJECTION_LOG_ANSWER_A_SECOND = 50,
    REJECTION_LOG_ANSWER_BURST = 500
};

typedef struct {
    uint32_t tenant;
    uint64_t user;
    int64_t at_ms;              //  when left had this value; 0: the entry is free
    uint64_t left;              //  thousandths of a reply
} error_rate_t;

//  All zero at first.
typedef struct {
    error_rate_t users [REJECTION_LOG_ANSWER_USERS_MAX];
} error_rate_limit_t;

//  Whether this user of the tenant gets one more reply; now_ms above 0.  False: not until some time has
//  passed.
bool rejection_log_take_answer (error_rate_limit_t *self, uint32_t tenant, uint64_t user, int64_t now_ms);

#endif
