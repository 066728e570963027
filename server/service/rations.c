#include "rations.h"
#include <assert.h>

enum { WHOLE = 1000 };          //  one reply

static ration_t *
s_find (rations_t *self, uint32_t tenant, uint64_t user)
{
    ration_t *oldest = &self->users [0];
    for (size_t index = 0; index < RATIONS_USERS_MAX; index++) {
        ration_t *ration = &self->users [index];
        if (ration->at_ms && ration->tenant == tenant && ration->user == user)
            return ration;
        oldest = ration->at_ms < oldest->at_ms? ration: oldest;
    }
    *oldest = (ration_t) { .tenant = tenant, .user = user, .left = RATIONS_BURST * WHOLE };
    return oldest;
}

bool
rations_take (rations_t *self, uint32_t tenant, uint64_t user, int64_t now_ms)
{
    assert (now_ms > 0);
    ration_t *ration = s_find (self, tenant, user);
    if (ration->at_ms && now_ms > ration->at_ms) {
        uint64_t passed_ms = (uint64_t) (now_ms - ration->at_ms), room = RATIONS_BURST * WHOLE - ration->left;
        //  What a second gives is RATIONS_A_SECOND, so a millisecond gives as many thousandths.
        ration->left += passed_ms < room / RATIONS_A_SECOND + 1? passed_ms * RATIONS_A_SECOND: room;
        ration->left = ration->left < RATIONS_BURST * WHOLE? ration->left: RATIONS_BURST * WHOLE;
    }
    ration->at_ms = now_ms;
    bool good = ration->left >= WHOLE;
    ration->left -= good? WHOLE: 0;
    return good;
}
