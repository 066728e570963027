/*  error_rate_limit -- how many ERROR replies a user gets: ERROR_RATE_LIMIT_A_SECOND for long,
 *  ERROR_RATE_LIMIT_BURST at once.
 *
 *  Who sends nonsense as fast as it can costs the server the reading of it, and no more.  At most
 *  ERROR_RATE_LIMIT_USERS_MAX are told apart; of more, the one that was refused nothing for longest makes
 *  room.  Owner: the broker's thread.
 */
#ifndef ERROR_RATE_LIMIT_H
#define ERROR_RATE_LIMIT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ERROR_RATE_LIMIT_USERS_MAX = 256, ERROR_RATE_LIMIT_A_SECOND = 50, ERROR_RATE_LIMIT_BURST = 500 };

typedef struct {
    uint32_t tenant;
    uint64_t user;
    int64_t at_ms;              //  when left was so; 0: nobody's
    uint64_t left;              //  thousandths of a reply
} error_rate_t;

//  All zero: nobody has asked.
typedef struct {
    error_rate_t users [ERROR_RATE_LIMIT_USERS_MAX];
} error_rate_limit_t;

//  One more reply to this user of the tenant; now_ms above 0.  False: none, until some time has passed.
bool error_rate_limit_take (error_rate_limit_t *self, uint32_t tenant, uint64_t user, int64_t now_ms);

#endif
