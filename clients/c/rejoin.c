#include "rejoin.h"
#include <stdio.h>
#include <string.h>

void
rejoin_begin (rejoin_t *self, const char *how, bool gave, int64_t now_ms)
{
    snprintf (self->how, sizeof self->how, "%s", how);
    if (!gave && self->found_ms) {
        self->since_ms += now_ms - self->found_ms;
        rejoin_postpone (self, how, now_ms);
        return;
    }
    self->since_ms = self->next_ms = now_ms;
    self->pause_ms = REJOIN_PAUSE_MS;
    *self->last = 0;
}

void
rejoin_found (rejoin_t *self, int64_t now_ms)
{
    self->found_ms = now_ms;
}

void
rejoin_hear (rejoin_t *self, const char *text)
{
    snprintf (self->last, sizeof self->last, "%s", text);
}

void
rejoin_postpone (rejoin_t *self, const char *why, int64_t now_ms)
{
    snprintf (self->last, sizeof self->last, "%s", why? why: "");
    self->next_ms = now_ms + self->pause_ms;
    self->pause_ms = self->pause_ms * 2 < REJOIN_PAUSE_MS_MAX? self->pause_ms * 2: REJOIN_PAUSE_MS_MAX;
}

bool
rejoin_is_due (const rejoin_t *self, int64_t now_ms)
{
    return now_ms >= self->next_ms;
}

bool
rejoin_is_over (const rejoin_t *self, int64_t now_ms)
{
    return now_ms - self->since_ms >= self->limit_ms;
}

uint32_t
rejoin_left_seconds (const rejoin_t *self, int64_t now_ms)
{
    int64_t left = (self->since_ms + self->limit_ms - now_ms + 999) / 1000;
    return left < 1? 1: left > WIRE_RANK_SECONDS_MAX? WIRE_RANK_SECONDS_MAX: (uint32_t) left;
}

void
rejoin_explain (const rejoin_t *self, const char *address, int64_t now_ms, message_error_t *error)
{
    message_fail (error, "%s; looked for it again for %.3g seconds at %.120s: %s%.160s", self->how,
        (double) (now_ms - self->since_ms) / 1e3, address, *self->last? "": "no server answered", self->last);
}

static bool
s_is_one_of (const char *code, const char *const codes [])
{
    for (; *codes; codes++)
        if (!strcmp (code, *codes))
            return true;
    return false;
}

bool
rejoin_helps (const char *code)
{
    static const char *const codes [] = { "stopping", "silent", "unknown_job", NULL };
    return s_is_one_of (code, codes);
}

bool
rejoin_asks_again (const char *code)
{
    static const char *const codes [] = { "busy", "opening", NULL };
    return s_is_one_of (code, codes);
}

bool
rejoin_may_pass (const char *code, bool joined)
{
    static const char *const codes [] = { "stopping", NULL },
        *const of_joined [] = { "budget", "ranks_missing", NULL };
    return rejoin_asks_again (code) || s_is_one_of (code, codes) || (joined && s_is_one_of (code, of_joined));
}

bool
rejoin_is_same (const message_joined_t *before, const message_joined_t *after, message_error_t *error)
{
    const tureen_info_t *old = &before->info, *now = &after->info;
    //  Not how many can be read: a server that was started again does not know yet.
    bool same = old->dataset_samples == now->dataset_samples && old->field_count == now->field_count;
    for (size_t index = 0; same && index < old->field_count; index++) {
        const tureen_field_t *one = &old->fields [index], *other = &now->fields [index];
        same = !strcmp (one->name, other->name) && !strcmp (one->dtype, other->dtype)
            && !strcmp (one->lengths? one->lengths: "", other->lengths? other->lengths: "")
            && one->dimensions == other->dimensions
            && !memcmp (one->shape, other->shape, one->dimensions * sizeof *one->shape);
    }
    return same || message_fail (error,
        "the server came back with other samples or fields; begin a new loader with the "
        "state of this one");
}
