/*  error_rate_limit -- how many ERROR replies a user gets: ERROR_RATE_LIMIT_A_SECOND for long,
 *  ERROR_RATE_LIMIT_BURST at once.
 *
 *  A client that floods the server with invalid messages costs it only the reading.  At most
 *  ERROR_RATE_LIMIT_USERS_MAX users have an entry.  If one more is needed, the user with the oldest last
 *  error loses its entry.  Owner: the broker's thread.
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
    int64_t at_ms;              //  when left had this value; 0: the entry is free
    uint64_t left;              //  thousandths of a reply
} error_rate_t;

//  All zero at first.
typedef struct {
    error_rate_t users [ERROR_RATE_LIMIT_USERS_MAX];
} error_rate_limit_t;

//  Whether this user of the tenant gets one more reply; now_ms above 0.  False: not until some time has
//  passed.
bool error_rate_limit_take (error_rate_limit_t *self, uint32_t tenant, uint64_t user, int64_t now_ms);

#endif
