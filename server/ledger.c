#include "ledger.h"
#include <stdatomic.h>

enum { DESCRIPTORS_MAX = 1 << 20, USERS_MAX = 256, FRAME_SHORT_MAX = 255, FRAME_HEAD_SHORT = 2, FRAME_HEAD_LONG = 9,
    CURVE_MORE_BYTES = 33 };            //  8 of its name, 8 of the nonce, 16 of the seal, 1 of flags

//  All zero: pages that are never touched cost nothing.
typedef struct {
    atomic_int user;                    //  its place in s_users and 1; 0: not accepted
    atomic_size_t held;
} connection_t;

typedef struct {
    atomic_uint_fast64_t name;          //  and 1; 0: free
    atomic_size_t held;
} user_t;

static connection_t s_connections [DESCRIPTORS_MAX];
static user_t s_users [USERS_MAX];
static atomic_size_t s_connection_max = LEDGER_CONNECTION_MAX, s_user_max = LEDGER_USER_MAX;
static atomic_uint_fast64_t s_resets;

void
ledger_set_limits (size_t connection_max, size_t user_max)
{
    atomic_store (&s_connection_max, connection_max);
    atomic_store (&s_user_max, user_max);
}

static connection_t *
s_connection (int fd)
{
    if (fd < 0 || fd >= DESCRIPTORS_MAX || atomic_load (&s_connections [fd].user) == 0)
        return NULL;
    return &s_connections [fd];
}

static user_t *
s_user (const connection_t *connection)
{
    int user = atomic_load (&connection->user);
    return user > 0? &s_users [user - 1]: NULL;
}

//  Those beyond USERS_MAX are one.
static int
s_find_user (uint64_t name)
{
    uint64_t wanted = name + 1 > 0? name + 1: UINT64_MAX;
    for (int place = 0; place < USERS_MAX - 1; place++) {
        uint_fast64_t found = 0;
        if (atomic_compare_exchange_strong (&s_users [place].name, &found, wanted) || found == wanted)
            return place;
    }
    return USERS_MAX - 1;
}

//  Never below nothing: what an earlier connection of the same descriptor has sent may be taken later.
static size_t
s_take_off (atomic_size_t *held, size_t bytes)
{
    size_t before = atomic_load (held), off;
    do
        off = bytes < before? bytes: before;
    while (!atomic_compare_exchange_weak (held, &before, before - off));
    return off;
}

void
ledger_accepted (int fd, uint64_t user)
{
    if (fd < 0 || fd >= DESCRIPTORS_MAX)
        return;
    ledger_closed (fd);
    atomic_store (&s_connections [fd].user, s_find_user (user) + 1);
}

bool
ledger_may_receive (int fd)
{
    const connection_t *connection = s_connection (fd);
    const user_t *user = connection? s_user (connection): NULL;
    if (!user || (atomic_load (&connection->held) < atomic_load (&s_connection_max)
    &&  atomic_load (&user->held) < atomic_load (&s_user_max)))
        return true;
    //  One that has nothing much is not the one who is too much.
    if (atomic_load (&connection->held) < atomic_load (&s_connection_max) / 256)
        return true;
    atomic_fetch_add (&s_resets, 1);
    return false;
}

void
ledger_received (int fd, size_t bytes)
{
    connection_t *connection = s_connection (fd);
    user_t *user = connection? s_user (connection): NULL;
    if (!user)
        return;
    atomic_fetch_add (&user->held, bytes);
    atomic_fetch_add (&connection->held, bytes);
}

void
ledger_closed (int fd)
{
    connection_t *connection = s_connection (fd);
    user_t *user = connection? s_user (connection): NULL;
    if (!user)
        return;
    s_take_off (&user->held, atomic_exchange (&connection->held, 0));
    atomic_store (&connection->user, 0);
}

size_t
ledger_frame_bytes (size_t size, bool is_curve)
{
    size_t body = size + (is_curve? CURVE_MORE_BYTES: 0);
    return body + (body > FRAME_SHORT_MAX? FRAME_HEAD_LONG: FRAME_HEAD_SHORT);
}

void
ledger_taken (int fd, size_t bytes)
{
    connection_t *connection = s_connection (fd);
    user_t *user = connection? s_user (connection): NULL;
    if (user)
        s_take_off (&user->held, s_take_off (&connection->held, bytes));
}

size_t
ledger_bytes (void)
{
    size_t bytes = 0;
    for (int place = 0; place < USERS_MAX; place++)
        bytes += atomic_load (&s_users [place].held);
    return bytes;
}

uint64_t
ledger_resets (void)
{
    return atomic_load (&s_resets);
}
