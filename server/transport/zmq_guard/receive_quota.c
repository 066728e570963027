#include "receive_quota.h"
#include <stdatomic.h>

//  ---- the frames of a connection, as its bytes pass by: how many, how large, and where messages end
//
//  From the ZMTP 3.0 specification: a greeting of 64 bytes, then frames: a byte of flags, a size of one byte
//  or eight, the body.
//  Under CURVE the flag for more frames is encrypted: each frame counts as a message then.

enum {
    FLAG_MORE = 1, FLAG_LONG = 2, FLAG_COMMAND = 4,
    SIGNATURE_FIRST = 0xff, SIGNATURE_LAST = 0x7f, SIGNATURE_LAST_AT = 9, VERSION_AT = 10, VERSION = 3,
    MECHANISM_AT = 12, SHORT_HEAD_BYTES = 2,
    GREETING_BYTES = 64, HEAD_BYTES = 9
};

//  All zero at the beginning.
typedef struct {
    uint8_t greeted;            //  bytes of the greeting so far
    bool is_wrong;              //  not ZMTP 3: the parser counts nothing from here on
    bool is_encrypted;
    uint8_t head [HEAD_BYTES];
    uint8_t head_count;
    uint64_t body_left;
    uint32_t frames;            //  of the message that has not ended
} parser_t;

//  The frames in some bytes.  Frames with commands (handshake, heartbeats) are no part of messages, and not
//  counted.
typedef struct {
    uint64_t frames;
    uint64_t body_bytes;        //  of these frames, received already or not
    uint64_t open_frames;       //  those of them that belong to an unfinished message ..
    uint64_t open_bytes;
    bool has_ended;             //  .. which began in these bytes: the message that was open before has ended
} news_t;

//  One byte of the greeting: the first byte that differs reveals a peer with an older version.
static void
s_greet (parser_t *self, uint8_t byte)
{
    uint8_t at = self->greeted++;
    if ((at == 0 && byte != SIGNATURE_FIRST) || (at == SIGNATURE_LAST_AT && byte != SIGNATURE_LAST)
    ||  (at == VERSION_AT && byte < VERSION))
        self->is_wrong = true;
    if (at == MECHANISM_AT)
        self->is_encrypted = byte == 'C';
}

static uint64_t
s_size (const parser_t *self)
{
    if (!(self->head [0] & FLAG_LONG))
        return self->head [1];
    uint64_t size = 0;
    for (size_t index = 1; index < HEAD_BYTES; index++)
        size = size << 8 | self->head [index];
    return size;
}

//  A head is complete.
static void
s_begin_frame (parser_t *self, uint64_t body_max, news_t *news)
{
    uint64_t body = s_size (self) < body_max? s_size (self): body_max;
    self->head_count = 0;
    self->body_left = s_size (self);
    if (self->head [0] & FLAG_COMMAND)
        return;
    news->frames++;
    news->body_bytes += body;
    self->frames++;
    news->open_frames++;
    news->open_bytes += body;
    if (self->head [0] & FLAG_MORE)
        return;
    self->frames = 0;
    news->open_frames = news->open_bytes = 0;
    news->has_ended = true;
}

//  A body of more than body_max counts as body_max: ZeroMQ, which bounds sizes, will not take it.
static void
s_pass (parser_t *self, const uint8_t *bytes, size_t size, uint64_t body_max, news_t *news)
{
    *news = (news_t) { .frames = 0 };
    size_t at = 0;
    while (at < size && !self->is_wrong) {
        uint64_t rest = size - at, body = self->body_left < rest? self->body_left: rest;
        at += (size_t) body;
        self->body_left -= body;
        if (at == size)
            break;
        if (self->greeted < GREETING_BYTES)
            s_greet (self, bytes [at++]);
        else {
            self->head [self->head_count++] = bytes [at++];
            if (self->head_count == (self->head [0] & FLAG_LONG? HEAD_BYTES: SHORT_HEAD_BYTES))
                s_begin_frame (self, body_max, news);
        }
    }
}

//  ---- what connections and users hold

enum { DESCRIPTORS_MAX = 1 << 20, USERS_MAX = 256, SMALL_PART = 128 };

typedef struct {
    atomic_uint_fast64_t name;          //  and 1; 0: free
    atomic_size_t held;                 //  bytes held by its connections
    atomic_size_t left;                 //  bytes of whole messages of closed connections, which the server
                                        //  can still take
} user_t;

//  All zero: pages that are never touched cost nothing.
typedef struct {
    _Atomic (user_t *) user;            //  NULL: not accepted
    atomic_uint_fast64_t arrival;
    atomic_size_t held;
    atomic_bool is_encrypted;
    //  ZeroMQ's thread only
    parser_t parser;
    size_t open;                        //  bytes of the unfinished message
} connection_t;

static connection_t s_connections [DESCRIPTORS_MAX];
static user_t s_users [USERS_MAX];
static atomic_size_t s_connection_max = RECEIVE_QUOTA_CONNECTION_MAX, s_user_max = RECEIVE_QUOTA_USER_LEAST;
static atomic_uint_fast64_t s_arrivals, s_resets;

void
receive_quota_set_limits (size_t connection_max, size_t user_max)
{
    atomic_store (&s_connection_max, connection_max);
    atomic_store (&s_user_max, user_max);
}

//  The entry of a descriptor, with its user in *user_p; NULL: it was not accepted.
static connection_t *
s_connection (int fd, user_t **user_p)
{
    if (fd < 0 || fd >= DESCRIPTORS_MAX)
        return NULL;
    *user_p = atomic_load (&s_connections [fd].user);
    return *user_p? &s_connections [fd]: NULL;
}

//  Users beyond USERS_MAX count as one.
static user_t *
s_user (uint64_t name)
{
    uint64_t wanted = name + 1 > 0? name + 1: UINT64_MAX;
    for (int place = 0; place < USERS_MAX - 1; place++) {
        uint_fast64_t found = 0;
        if (atomic_compare_exchange_strong (&s_users [place].name, &found, wanted) || found == wanted)
            return &s_users [place];
    }
    return &s_users [USERS_MAX - 1];
}

//  Subtracts, but not below 0.  Returns how much.
static size_t
s_take_off (atomic_size_t *held, size_t bytes)
{
    size_t before = atomic_load (held), off;
    do
        off = bytes < before? bytes: before;
    while (!atomic_compare_exchange_weak (held, &before, before - off));
    return off;
}

static size_t
s_cost (uint64_t frames, uint64_t bytes)
{
    return (size_t) (frames * RECEIVE_QUOTA_FRAME_BYTES + bytes);
}

void
receive_quota_accepted (int fd, uint64_t user)
{
    if (fd < 0 || fd >= DESCRIPTORS_MAX)
        return;
    receive_quota_closed (fd);
    s_connections [fd].parser = (parser_t) { .greeted = 0 };
    s_connections [fd].open = 0;
    atomic_store (&s_connections [fd].arrival, atomic_fetch_add (&s_arrivals, 1) + 1);
    atomic_store (&s_connections [fd].user, s_user (user));
}

uint64_t
receive_quota_arrival (int fd)
{
    user_t *user;
    const connection_t *connection = s_connection (fd, &user);
    return connection? atomic_load (&connection->arrival): UINT64_MAX;
}

bool
receive_quota_may_receive (int fd)
{
    user_t *user;
    const connection_t *connection = s_connection (fd, &user);
    if (!connection)
        return true;
    size_t held = atomic_load (&connection->held), connection_max = atomic_load (&s_connection_max);
    bool user_is_full = atomic_load (&user->held) + atomic_load (&user->left) >= atomic_load (&s_user_max);
    //  When a user is over its limit, a connection that holds little may still receive.
    if (!connection->parser.is_wrong && connection->parser.frames < RECEIVE_QUOTA_FRAMES_MAX
        && held < connection_max
    &&  (!user_is_full || held < connection_max / SMALL_PART))
        return true;
    atomic_fetch_add (&s_resets, 1);
    return false;
}

void
receive_quota_received (int fd, const void *bytes, size_t size)
{
    user_t *user;
    connection_t *connection = s_connection (fd, &user);
    if (!connection)
        return;
    news_t news;
    s_pass (&connection->parser, bytes, size, RECEIVE_QUOTA_BODY_MAX, &news);
    atomic_store (&connection->is_encrypted, connection->parser.is_encrypted);
    size_t cost = s_cost (news.frames, news.body_bytes), open = s_cost (news.open_frames, news.open_bytes);
    connection->open = news.has_ended? open: connection->open + open;
    atomic_fetch_add (&user->held, cost);
    atomic_fetch_add (&connection->held, cost);
}

void
receive_quota_closed (int fd)
{
    user_t *user;
    connection_t *connection = s_connection (fd, &user);
    if (!connection)
        return;
    size_t held = atomic_exchange (&connection->held, 0), open = connection->open;
    bool is_encrypted = connection->parser.is_encrypted;
    //  Last of all: another thread of ZeroMQ's, of another context, may get this descriptor next.
    atomic_store (&connection->user, NULL);
    s_take_off (&user->held, held);
    if (!is_encrypted && held > open)
        atomic_fetch_add (&user->left, held - open);
}

void
receive_quota_taken (uint64_t name, int fd, size_t frames, size_t bytes)
{
    user_t *user = s_user (name), *owner;
    connection_t *connection = s_connection (fd, &owner);
    size_t cost = s_cost (frames, bytes);
    if (connection && owner == user) {
        size_t off = s_take_off (&connection->held, atomic_load (&connection->is_encrypted)? SIZE_MAX: cost);
        s_take_off (&user->held, off);
        cost -= off < cost? off: cost;
    }
    s_take_off (&user->left, cost);
}

void
receive_quota_settled (void)
{
    for (int place = 0; place < USERS_MAX && atomic_load (&s_users [place].name); place++)
        if (atomic_load (&s_users [place].left) > 0)
            atomic_store (&s_users [place].left, 0);
}

size_t
receive_quota_bytes (void)
{
    size_t bytes = 0;
    for (int place = 0; place < USERS_MAX; place++)
        bytes += atomic_load (&s_users [place].held) + atomic_load (&s_users [place].left);
    return bytes;
}

uint64_t
receive_quota_resets (void)
{
    return atomic_load (&s_resets);
}
