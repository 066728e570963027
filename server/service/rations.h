/*  rations -- how many ERROR replies a user gets: RATIONS_A_SECOND for long, RATIONS_BURST at once.
 *
 *  Who sends nonsense as fast as it can costs the server the reading of it, and no more.  At most RATIONS_USERS_MAX are told
 *  apart; of more, the one that was refused nothing for longest makes room.  Owner: the broker's thread.
 */
#ifndef RATIONS_H
#define RATIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RATIONS_USERS_MAX = 256, RATIONS_A_SECOND = 50, RATIONS_BURST = 500 };

typedef struct {
    uint32_t tenant;
    uint64_t user;
    int64_t at_ms;              //  when left was so; 0: nobody's
    uint64_t left;              //  thousandths of a reply
} ration_t;

//  All zero: nobody has asked.
typedef struct {
    ration_t users [RATIONS_USERS_MAX];
} rations_t;

//  One more reply to this user of the tenant; now_ms above 0.  False: none, until some time has passed.
bool rations_take (rations_t *self, uint32_t tenant, uint64_t user, int64_t now_ms);

#endif
