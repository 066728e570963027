#include "connection_limit.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "receive_quota.h"

enum { CONNECTION_LIMIT_MAGIC = 0x0c40d5e7, ROOM_LEAST = 64 };

typedef struct {
    ino_t inode;                    //  distinguishes it from a later connection with the same descriptor
    int fd;
    uid_t uid;
    uint64_t arrival;               //  by the receive quota
    bool shut;                      //  by this module: ZeroMQ takes a moment to close it
    const void *group;              //  NULL: the uid counts alone
    size_t most;                    //  that the group may have
} visitor_t;

struct connection_limit {
    uint32_t magic;
    char path [sizeof ((struct sockaddr_un *) 0)->sun_path];    //  "": none
    connection_limit_rule_t *rule;
    void *context;
    DIR *descriptors;               //  /proc/self/fd
    int nothing, own;               //  /dev/null; and a copy of a descriptor of ZeroMQ's, otherwise also
                                    //  /dev/null
    visitor_t *visitors;
    size_t count, room;
    visitor_t *before;              //  of the previous look
    size_t before_count, before_room;
    int64_t due_ms;
    size_t open, open_max;
    size_t fresh;                   //  visitors that the previous look has not seen
    uint64_t turned_away;
    uid_t last;
};

static void
s_check (const connection_limit_t *self)
{
    assert (self);
    assert (self->magic == CONNECTION_LIMIT_MAGIC);
}

int
connection_limit_new (connection_limit_t **self_p, const char *path, connection_limit_rule_t *rule,
    void *context)
{
    assert (self_p); assert (!path || rule);
    *self_p = NULL;
    connection_limit_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    *self = (connection_limit_t) { .magic = CONNECTION_LIMIT_MAGIC, .rule = rule, .context = context,
        .nothing = -1, .own = -1, .due_ms = INT64_MIN };
    int rc = 0;
    if (path && strlen (path) >= sizeof self->path)
        rc = -ENAMETOOLONG;
    else
    if (path)
        strcpy (self->path, path);
    if (rc == 0 && !(self->descriptors = opendir ("/proc/self/fd")))
        rc = -errno;
    if (rc == 0 && (self->nothing = open ("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
        rc = -errno;
    if (rc == 0 && (self->own = fcntl (self->nothing, F_DUPFD_CLOEXEC, 0)) < 0)
        rc = -errno;
    if (rc == 0) {
        *self_p = self;
        self = NULL;
    }
    connection_limit_destroy (&self);
    return rc;
}

void
connection_limit_destroy (connection_limit_t **self_p)
{
    assert (self_p);
    connection_limit_t *self = *self_p;
    if (!self)
        return;
    s_check (self);
    if (self->descriptors)
        closedir (self->descriptors);
    if (self->nothing >= 0)
        close (self->nothing);
    if (self->own >= 0)
        close (self->own);
    free (self->visitors);
    free (self->before);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  ---- looking

//  Whether fd is now a connection that was accepted at the path, and its user.  If another thread closes and
//  reopens the descriptor meanwhile, the answer may mix two connections, which is good enough for counting.
static bool
s_recognize (const connection_limit_t *self, int fd, visitor_t *visitor)
{
    struct sockaddr_un name = { .sun_family = AF_UNSPEC };
    socklen_t size = sizeof name, flag_size = sizeof (int), peer_size = sizeof (struct ucred);
    struct ucred peer;
    struct stat status;
    int listens = 0;
    if (getsockname (fd, (struct sockaddr *) &name, &size) != 0 || name.sun_family != AF_UNIX
    ||  size <= offsetof (struct sockaddr_un, sun_path)
    || strncmp (name.sun_path, self->path, sizeof self->path) != 0)
        return false;
    //  The listening socket has the same name.
    if (getsockopt (fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_size) != 0 || listens
    ||  getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0 || fstat (fd, &status) != 0)
        return false;
    *visitor = (visitor_t) { .inode = status.st_ino, .fd = fd, .uid = peer.uid };
    return true;
}

static bool
s_make_room (connection_limit_t *self)
{
    if (self->count < self->room)
        return true;
    size_t room = self->room? 2 * self->room: ROOM_LEAST;
    visitor_t *visitors = realloc (self->visitors, room * sizeof *visitors);
    if (!visitors)
        return false;
    self->visitors = visitors;
    self->room = room;
    return true;
}

static int
s_by_inode (const void *left, const void *right)
{
    ino_t one = ((const visitor_t *) left)->inode, other = ((const visitor_t *) right)->inode;
    return one < other? -1: one > other;
}

//  Most are the same as at the previous look, which saves most calls; the others are new.
static bool
s_meet (connection_limit_t *self, int fd, visitor_t *visitor)
{
    struct stat status;
    int type;
    socklen_t size = sizeof type;
    //  fstat of a file asks its file system, and with one that stands still (NFS) the whole server would.
    if (getsockopt (fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || fstat (fd, &status) != 0)
        return false;
    visitor_t wanted = { .inode = status.st_ino };
    const visitor_t *known = self->before_count == 0? NULL:
        bsearch (&wanted, self->before, self->before_count, sizeof *self->before, s_by_inode);
    if (known) {
        *visitor = *known;
        visitor->fd = fd;
        return true;
    }
    bool recognized = s_recognize (self, fd, visitor);
    self->fresh += recognized;
    return recognized;
}

//  Lists all connections, in no order.
static void
s_count (connection_limit_t *self)
{
    struct dirent *entry;
    self->count = self->open = self->fresh = 0;
    rewinddir (self->descriptors);
    while ((entry = readdir (self->descriptors))) {
        if (entry->d_name [0] < '0' || entry->d_name [0] > '9')
            continue;
        self->open++;
        int fd = (int) strtol (entry->d_name, NULL, 10);
        if (*self->path && s_make_room (self) && s_meet (self, fd, &self->visitors [self->count]))
            self->visitors [self->count++].arrival = receive_quota_arrival (fd);
    }
    struct rlimit limit = { .rlim_cur = 0 };
    getrlimit (RLIMIT_NOFILE, &limit);
    self->open_max = limit.rlim_cur > self->open? limit.rlim_cur: self->open;
}

//  ---- closing excess connections

//  Connections that count together are adjacent, the oldest first.
static int
s_by_group (const void *left, const void *right)
{
    const visitor_t *one = left, *other = right;
    if (one->group != other->group)
        return (uintptr_t) one->group < (uintptr_t) other->group? -1: 1;
    if (!one->group && one->uid != other->uid)
        return one->uid < other->uid? -1: 1;
    if (one->arrival != other->arrival)
        return one->arrival < other->arrival? -1: 1;
    return s_by_inode (left, right);
}

static bool
s_together (const visitor_t *one, const visitor_t *other)
{
    return one->group == other->group && (one->group || one->uid == other->uid);
}

//  ZeroMQ's threads may have closed fd, and opened another file under its number: a descriptor of our own
//  cannot change.
static bool
s_shut (connection_limit_t *self, visitor_t *visitor)
{
    visitor_t now;
    visitor->shut = dup3 (visitor->fd, self->own, O_CLOEXEC) == self->own
        && s_recognize (self, self->own, &now)
        && now.inode == visitor->inode && now.uid == visitor->uid && shutdown (self->own, SHUT_RDWR) == 0;
    //  Otherwise our copy would keep open what ZeroMQ closes.
    dup3 (self->nothing, self->own, O_CLOEXEC);
    if (visitor->shut)
        self->last = visitor->uid;
    return visitor->shut;
}

static size_t
s_turn_away (connection_limit_t *self)
{
    size_t turned_away = 0, place = 0;
    for (size_t index = 0; index < self->count; index++) {
        visitor_t *visitor = &self->visitors [index];
        visitor->most = self->rule (self->context, visitor->uid, &visitor->group);
    }
    if (self->count > 0)
        qsort (self->visitors, self->count, sizeof *self->visitors, s_by_group);
    for (size_t index = 0; index < self->count; index++) {
        visitor_t *visitor = &self->visitors [index];
        place = index > 0 && s_together (visitor, visitor - 1)? place + 1: 0;
        if (place >= visitor->most && !visitor->shut)
            turned_away += s_shut (self, visitor);
    }
    return turned_away;
}

//  This look's result becomes the previous one.
static void
s_swap (connection_limit_t *self)
{
    if (self->count > 0)
        qsort (self->visitors, self->count, sizeof *self->visitors, s_by_inode);
    visitor_t *visitors = self->before;
    size_t room = self->before_room;
    self->before = self->visitors;
    self->before_count = self->count;
    self->before_room = self->room;
    self->visitors = visitors;
    self->room = room;
}

size_t
connection_limit_look (connection_limit_t *self, int64_t now_ms)
{
    s_check (self);
    if (now_ms < self->due_ms)
        return 0;
    s_count (self);
    size_t turned_away = s_turn_away (self);
    s_swap (self);
    self->turned_away += turned_away;
    bool soon = turned_away || self->fresh >= CONNECTION_LIMIT_MANY
        || self->open_max - self->open < self->open_max / CONNECTION_LIMIT_LEFT_PART;
    int64_t least_ms = (int64_t) (self->open / CONNECTION_LIMIT_DESCRIPTORS_A_MS),
        wanted_ms = soon? CONNECTION_LIMIT_SOON_MS: CONNECTION_LIMIT_LOOK_MS;
    self->due_ms = now_ms + (wanted_ms > least_ms? wanted_ms: least_ms);
    return turned_away;
}

//  ---- figures

int64_t
connection_limit_due_ms (const connection_limit_t *self)
{
    s_check (self);
    return self->due_ms;
}

size_t
connection_limit_descriptors (const connection_limit_t *self)
{
    s_check (self);
    return self->open;
}

size_t
connection_limit_descriptors_max (const connection_limit_t *self)
{
    s_check (self);
    return self->open_max;
}

size_t
connection_limit_connections (const connection_limit_t *self)
{
    s_check (self);
    return self->before_count;
}

uint64_t
connection_limit_turned_away (const connection_limit_t *self)
{
    s_check (self);
    return self->turned_away;
}

uid_t
connection_limit_last (const connection_limit_t *self)
{
    s_check (self);
    return self->last;
}
