#include "rejection_log.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tenant.h"

//  ---- how many of them are answered

enum { WHOLE = 1000 };          //  one reply

static error_rate_t *
s_find (error_rate_limit_t *self, uint32_t tenant, uint64_t user)
{
    error_rate_t *oldest = &self->users [0];
    for (size_t index = 0; index < REJECTION_LOG_ANSWER_USERS_MAX; index++) {
        error_rate_t *error_rate = &self->users [index];
        if (error_rate->at_ms && error_rate->tenant == tenant && error_rate->user == user)
            return error_rate;
        oldest = error_rate->at_ms < oldest->at_ms? error_rate: oldest;
    }
    *oldest = (error_rate_t) { .tenant = tenant, .user = user, .left = REJECTION_LOG_ANSWER_BURST * WHOLE };
    return oldest;
}

bool
rejection_log_take_answer (error_rate_limit_t *self, uint32_t tenant, uint64_t user, int64_t now_ms)
{
    assert (now_ms > 0);
    error_rate_t *error_rate = s_find (self, tenant, user);
    if (error_rate->at_ms && now_ms > error_rate->at_ms) {
        uint64_t passed_ms = (uint64_t) (now_ms - error_rate->at_ms),
            room = REJECTION_LOG_ANSWER_BURST * WHOLE - error_rate->left;
        //  A second adds REJECTION_LOG_ANSWER_A_SECOND replies, so a millisecond adds as many thousandths.
        error_rate->left += passed_ms < room / REJECTION_LOG_ANSWER_A_SECOND + 1?
            passed_ms * REJECTION_LOG_ANSWER_A_SECOND: room;
        error_rate->left = error_rate->left < REJECTION_LOG_ANSWER_BURST * WHOLE? error_rate->left:
            REJECTION_LOG_ANSWER_BURST * WHOLE;
    }
    error_rate->at_ms = now_ms;
    bool good = error_rate->left >= WHOLE;
    error_rate->left -= good? WHOLE: 0;
    return good;
}


//  ---- how many there were

//  One code of one tenant.
typedef struct {
    uint64_t count, untold;
    int64_t told_ms;
    uint64_t user;
    char message [160];         //  of the last refusal that was not logged
} tally_t;

typedef struct {
    const char *name;
    tally_t *tallies;           //  by code; allocated at the first refusal
    bool has_untold;
} tenant_tallies_t;

struct rejection_log {
    log_t *log;
    const char *codes [REJECTION_LOG_CODES_MAX];
    size_t code_count;
    tenant_tallies_t tenants [REJECTION_LOG_LINES_MAX];
};

rejection_log_t *
rejection_log_new (log_t *log)
{
    rejection_log_t *self = calloc (1, sizeof *self);
    if (self)
        self->log = log;
    return self;
}

void
rejection_log_destroy (rejection_log_t **self_p)
{
    rejection_log_t *self = *self_p;
    if (!self)
        return;
    for (size_t tenant = 0; tenant < REJECTION_LOG_LINES_MAX; tenant++)
        free (self->tenants [tenant].tallies);
    free (self);
    *self_p = NULL;
}

static size_t
s_code (rejection_log_t *self, const char *code)
{
    for (size_t index = 0; index < self->code_count; index++)
        if (strcmp (self->codes [index], code) == 0)
            return index;
    assert (self->code_count < REJECTION_LOG_CODES_MAX);        //  all codes are the server's own
    self->codes [self->code_count] = code;
    return self->code_count++;
}

static void
s_tell (rejection_log_t *self, const rejection_log_one_t *one, uint64_t repeated)
{
    log_event (self->log, LOG_LEVEL_NOTICE, "refused",
        LOG_FIELDS (LOG_TEXT ("tenant", one->name), LOG_TEXT ("code", one->code),
        LOG_NUMBER_IF (one->user != BROKER_USER_UNKNOWN, "user", one->user), LOG_NUMBER ("times", repeated)),
        "%s", one->message);
}

static tally_t *
s_tally (rejection_log_t *self, const rejection_log_one_t *one)
{
    size_t code = s_code (self, one->code);
    tenant_tallies_t *tenant = &self->tenants [one->tenant];
    if (!tenant->tallies)
        tenant->tallies = calloc (REJECTION_LOG_CODES_MAX, sizeof *tenant->tallies);
    tenant->name = one->name;
    return tenant->tallies? &tenant->tallies [code]: NULL;
}

void
rejection_log_add (rejection_log_t *self, const rejection_log_one_t *one, int64_t now_ms)
{
    assert (one->tenant < REJECTION_LOG_LINES_MAX);
    tally_t *tally = s_tally (self, one);
    if (!tally)
        return;                 //  no memory to count; the client is answered all the same
    bool is_due = tally->count == 0 || now_ms >= tally->told_ms + REJECTION_LOG_TELL_MS;
    tally->count++;
    if (is_due && tally->untold == 0) {
        tally->told_ms = now_ms;
        s_tell (self, one, 1);
        return;
    }
    tally->untold++;
    tally->user = one->user;
    snprintf (tally->message, sizeof tally->message, "%s", one->message);
    self->tenants [one->tenant].has_untold = true;
}

static void
s_beat (rejection_log_t *self, uint32_t number, int64_t now_ms)
{
    tenant_tallies_t *tenant = &self->tenants [number];
    tenant->has_untold = false;
    for (size_t code = 0; code < self->code_count; code++) {
        tally_t *tally = &tenant->tallies [code];
        if (tally->untold > 0 && now_ms < tally->told_ms + REJECTION_LOG_TELL_MS)
            tenant->has_untold = true;
        else
        if (tally->untold > 0) {
            rejection_log_one_t one = { .name = tenant->name, .user = tally->user, .code = self->codes [code],
                .message = tally->message };
            s_tell (self, &one, tally->untold);
            tally->untold = 0;
            tally->told_ms = now_ms;
        }
    }
}

void
rejection_log_beat (rejection_log_t *self, int64_t now_ms)
{
    for (uint32_t number = 0; number < REJECTION_LOG_LINES_MAX; number++)
        if (self->tenants [number].has_untold)
            s_beat (self, number, now_ms);
}

json_t *
rejection_log_status (const rejection_log_t *self, uint32_t tenant)
{
    json_t *object = json_object ();
    for (size_t code = 0; code < self->code_count; code++) {
        uint64_t count = 0;
        for (uint32_t number = 0; number < REJECTION_LOG_LINES_MAX; number++)
            if ((tenant == number || tenant == REJECTION_LOG_LINES_MAX) && self->tenants [number].tallies)
                count += self->tenants [number].tallies [code].count;
        if (count > 0)
            json_object_set_new (object, self->codes [code], json_integer ((json_int_t) count));
    }
    return object;
}
