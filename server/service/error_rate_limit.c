#include "error_rate_limit.h"
#include <assert.h>

enum { WHOLE = 1000 };          //  one reply

static error_rate_t *
s_find (error_rate_limit_t *self, uint32_t tenant, uint64_t user)
{
    error_rate_t *oldest = &self->users [0];
    for (size_t index = 0; index < ERROR_RATE_LIMIT_USERS_MAX; index++) {
        error_rate_t *error_rate = &self->users [index];
        if (error_rate->at_ms && error_rate->tenant == tenant && error_rate->user == user)
            return error_rate;
        oldest = error_rate->at_ms < oldest->at_ms? error_rate: oldest;
    }
    *oldest = (error_rate_t) { .tenant = tenant, .user = user, .left = ERROR_RATE_LIMIT_BURST * WHOLE };
    return oldest;
}

bool
error_rate_limit_take (error_rate_limit_t *self, uint32_t tenant, uint64_t user, int64_t now_ms)
{
    assert (now_ms > 0);
    error_rate_t *error_rate = s_find (self, tenant, user);
    if (error_rate->at_ms && now_ms > error_rate->at_ms) {
        uint64_t passed_ms = (uint64_t) (now_ms - error_rate->at_ms),
            room = ERROR_RATE_LIMIT_BURST * WHOLE - error_rate->left;
        //  A second adds ERROR_RATE_LIMIT_A_SECOND replies, so a millisecond adds as many thousandths.
        error_rate->left += passed_ms < room / ERROR_RATE_LIMIT_A_SECOND + 1?
            passed_ms * ERROR_RATE_LIMIT_A_SECOND: room;
        error_rate->left = error_rate->left < ERROR_RATE_LIMIT_BURST * WHOLE? error_rate->left:
            ERROR_RATE_LIMIT_BURST * WHOLE;
    }
    error_rate->at_ms = now_ms;
    bool good = error_rate->left >= WHOLE;
    error_rate->left -= good? WHOLE: 0;
    return good;
}
