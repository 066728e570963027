/*  ring_server.c -- see ring_server.h.
 *
 *  A pass, from ring_server_expect, allows one client to attach.  It ends when it is used, when its time is
 *  over, or by ring_server_forget.  A guest is a connection: pending while its token is incomplete, then a
 *  client's.
 *
 *          accept           whole token, good pass: 'R' + fd sent
 *      ----------> pending ----------------------------------> attached --+--> RING_SERVER_CLOSED, freed
 *                     |                                           |       any byte, end of stream, error,
 *                     |                                           |       the client's process has ended
 *                     +--> freed without a word                   +--> ring_server_forget: freed, no event
 *                                                                 ring_server_part: as before, and the client
 *                                                                 sees an end
 *
 *  ring_server_next asks epoll for one descriptor at a time.  This costs a call for each event, a few events
 *  a job; but there is no list of ready guests that could hold one that has been freed meanwhile.
 */
#include "ring_server.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <sodium.h>

enum {
    RING_SERVER_MAGIC = 0x00d00471,
    STEPS_MAX = 64,                 //  descriptors that one ring_server_next handles: a flood must not hold
                                    //  up the caller
    BACKLOG = 128
};

typedef struct pass {
    struct pass *next;
    uint64_t key;
    int64_t deadline_ms;
    uid_t uid;
    int descriptor;                 //  lent
    char token [RING_SERVER_TOKEN_BYTES];
} pass_t;

typedef struct guest {
    struct guest *next;
    int fd;
    int process;                    //  attached: a pidfd of the client; -1: the kernel gave none
    pid_t pid;
    bool attached;
    uint64_t key;                   //  attached: its client
    int64_t deadline_ms;            //  pending: until when
    uid_t uid;
    size_t received;                //  of the token; has room for one byte more, to notice a client that
                                    //  sends too much
    char token [RING_SERVER_TOKEN_BYTES + 1];
} guest_t;

struct ring_server {
    uint32_t magic;
    int listen_fd;
    int epoll_fd;
    bool listening;                 //  false: out of epoll until the next tick
    char path [sizeof ((struct sockaddr_un *) 0)->sun_path];
    bool bound;                     //  device and inode identify the file at path as ours
    dev_t device;
    ino_t inode;
    pass_t *passes;
    guest_t *guests;                //  the youngest first
    size_t pending;
};

static void
s_check (const ring_server_t *self)
{
    assert (self);
    assert (self->magic == RING_SERVER_MAGIC);
}


//  -- the listening socket

static int
s_listen (ring_server_t *self)
{
    struct stat status;
    if (lstat (self->path, &status) == 0 && S_ISSOCK (status.st_mode))
        unlink (self->path);
    self->listen_fd = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (self->listen_fd < 0)
        return -errno;
    //  bind makes the file with the socket's own mode, so it is never open to others, not even for a moment;
    //  and the umask, which all threads share, need not change.
    if (fchmod (self->listen_fd, 0600) != 0)
        return -errno;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy (address.sun_path, self->path, sizeof address.sun_path);
    if (bind (self->listen_fd, (struct sockaddr *) &address, sizeof address) != 0)
        return -errno;
    if (lstat (self->path, &status) != 0)
        return -errno;
    self->bound = true;
    self->device = status.st_dev;
    self->inode = status.st_ino;
    return listen (self->listen_fd, BACKLOG) == 0? 0: -errno;
}

//  guest NULL: the listening socket.
static int
s_watch (ring_server_t *self, int fd, guest_t *guest)
{
    struct epoll_event interest = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = guest };
    return epoll_ctl (self->epoll_fd, EPOLL_CTL_ADD, fd, &interest) == 0? 0: -errno;
}

int
ring_server_new (ring_server_t **self_p, const char *path)
{
    assert (self_p); assert (path);
    *self_p = NULL;
    ring_server_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->magic = RING_SERVER_MAGIC;
    self->listen_fd = self->epoll_fd = -1;
    int rc = 0;
    if (strlen (path) < sizeof self->path)
        strcpy (self->path, path);
    else
        rc = -ENAMETOOLONG;
    if (rc == 0)
        rc = s_listen (self);
    if (rc == 0 && (self->epoll_fd = epoll_create1 (EPOLL_CLOEXEC)) < 0)
        rc = -errno;
    if (rc == 0)
        rc = s_watch (self, self->listen_fd, NULL);
    if (rc == 0) {
        self->listening = true;
        *self_p = self;
        self = NULL;
    }
    ring_server_destroy (&self);
    return rc;
}


//  -- passes and guests

static void
s_pass_end (ring_server_t *self, pass_t *pass)
{
    pass_t **at = &self->passes;
    while (*at != pass)
        at = &(*at)->next;
    *at = pass->next;
    sodium_memzero (pass, sizeof *pass);
    free (pass);
}

//  Closing alone takes it out of epoll only if no copy is left, and a process that the server starts has
//  copies of all descriptors for a moment: an event would come for a guest that is gone.
static void
s_unwatch (const ring_server_t *self, int fd)
{
    if (fd < 0)
        return;
    epoll_ctl (self->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    close (fd);
}

static void
s_guest_end (ring_server_t *self, guest_t *guest)
{
    guest_t **at = &self->guests;
    while (*at != guest)
        at = &(*at)->next;
    *at = guest->next;
    self->pending -= !guest->attached;
    s_unwatch (self, guest->fd);
    s_unwatch (self, guest->process);
    free (guest);
}

static guest_t *
s_attached (ring_server_t *self, uint64_t key)
{
    guest_t *guest = self->guests;
    while (guest && !(guest->attached && guest->key == key))
        guest = guest->next;
    return guest;
}

static pass_t *
s_pass_of_key (ring_server_t *self, uint64_t key)
{
    pass_t *pass = self->passes;
    while (pass && pass->key != key)
        pass = pass->next;
    return pass;
}

//  Root and our own user may bring any user's token.
static bool
s_may_pass (uid_t guest, uid_t pass)
{
    return guest == pass || guest == 0 || guest == geteuid ();
}

//  The valid pass for this guest's token.  All passes are compared, each in constant time.
static pass_t *
s_pass_of_guest (ring_server_t *self, const guest_t *guest, int64_t now_ms)
{
    pass_t *found = NULL;
    for (pass_t *pass = self->passes; pass; pass = pass->next)
        if (sodium_memcmp (pass->token, guest->token, RING_SERVER_TOKEN_BYTES) == 0)
            found = pass;
    if (!found || now_ms >= found->deadline_ms)
        return NULL;
    return s_may_pass (guest->uid, found->uid)? found: NULL;
}

//  When no pending one more fits, closes the oldest of the user with the most.  (Refusing the newcomer
//  instead would let 64 idle connections keep every client out.  Closing the oldest of all would let the
//  fastest user keep all others out.  A client with a token sends it at once.)
static void
s_make_room (ring_server_t *self, uid_t newcomer)
{
    guest_t *pending [RING_SERVER_PENDING_MAX], *leaver = NULL;     //  the youngest first
    size_t count = 0, most = 0;
    if (self->pending < RING_SERVER_PENDING_MAX)
        return;
    for (guest_t *guest = self->guests; guest && count < RING_SERVER_PENDING_MAX; guest = guest->next)
        if (!guest->attached)
            pending [count++] = guest;
    for (size_t index = 0; index < count; index++) {
        size_t with = pending [index]->uid == newcomer;
        for (size_t other = 0; other < count; other++)
            with += pending [other]->uid == pending [index]->uid;
        if (with >= most) {
            most = with;
            leaver = pending [index];
        }
    }
    s_guest_end (self, leaver);
}

//  Another user without an expected client is disconnected at once.
static bool
s_is_expected (const ring_server_t *self, uid_t uid)
{
    bool found = uid == 0 || uid == geteuid ();
    for (const pass_t *pass = self->passes; pass && !found; pass = pass->next)
        found = s_may_pass (uid, pass->uid);
    return found;
}

//  The new guest, pending; NULL: it could not be kept.  Owns fd in both cases.
static guest_t *
s_guest_new (ring_server_t *self, int fd, int64_t now_ms)
{
    struct ucred peer;
    socklen_t peer_size = sizeof peer;
    guest_t *guest = calloc (1, sizeof *guest);
    if (!guest || getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0
    ||  !s_is_expected (self, peer.uid) || s_watch (self, fd, guest) != 0) {
        free (guest);
        close (fd);
        return NULL;
    }
    s_make_room (self, peer.uid);
    guest->fd = fd;
    guest->process = -1;
    guest->pid = peer.pid;
    guest->uid = peer.uid;
    guest->deadline_ms = now_ms + RING_SERVER_PATIENCE_MS;
    guest->next = self->guests;
    self->guests = guest;
    self->pending++;
    return guest;
}


//  -- events of descriptors

static void
s_accept (ring_server_t *self, int64_t now_ms)
{
    //  Not by the C library's name, which libc_interpose.c replaces for ZeroMQ: here the real error is
    //  needed.
    int fd = (int) syscall (SYS_accept4, self->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        s_guest_new (self, fd, now_ms);     //  its token makes it readable, and epoll reports it again
    else
    if (errno != EAGAIN && errno != EINTR) {
        //  In epoll it would stay readable and make the caller spin.
        int rc = epoll_ctl (self->epoll_fd, EPOLL_CTL_DEL, self->listen_fd, NULL);
        assert (rc == 0);
        self->listening = false;
    }
}

//  Sends 'R' together with the descriptor.  The socket is new and empty, so it either takes this or is dead.
static int
s_send_ring (int fd, int descriptor)
{
    char byte = 'R';
    struct iovec part = { .iov_base = &byte, .iov_len = 1 };
    union { struct cmsghdr head; char room [CMSG_SPACE (sizeof (int))]; } control;
    memset (&control, 0, sizeof control);
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1,
        .msg_control = &control, .msg_controllen = sizeof control };
    struct cmsghdr *head = CMSG_FIRSTHDR (&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN (sizeof descriptor);
    memcpy (CMSG_DATA (head), &descriptor, sizeof descriptor);
    ssize_t sent;
    do
        sent = sendmsg (fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == 1? 0: -EPIPE;
}

//  Watches the client's process from now on, if the kernel lets us.
static void
s_watch_process (ring_server_t *self, guest_t *guest)
{
    guest->process = (int) syscall (SYS_pidfd_open, guest->pid, 0);     //  a pidfd always closes on exec
    if (guest->process >= 0 && s_watch (self, guest->process, guest) != 0) {
        close (guest->process);
        guest->process = -1;
    }
}

//  The token is complete: attaches the client, or closes the connection without an answer.
static bool
s_admit (ring_server_t *self, guest_t *guest, int64_t now_ms, ring_server_event_t *event)
{
    pass_t *pass = s_pass_of_guest (self, guest, now_ms);
    if (!pass) {
        s_guest_end (self, guest);
        return false;
    }
    uint64_t key = pass->key;
    int rc = s_send_ring (guest->fd, pass->descriptor);
    s_pass_end (self, pass);                //  the pass is used, even if attaching failed
    if (rc) {
        s_guest_end (self, guest);
        return false;
    }
    s_watch_process (self, guest);
    guest->attached = true;
    guest->key = key;
    self->pending--;
    *event = (ring_server_event_t) { .kind = RING_SERVER_ATTACHED, .key = key };
    return true;
}

static bool
s_hear_pending (ring_server_t *self, guest_t *guest, int64_t now_ms, ring_server_event_t *event)
{
    ssize_t count = recv (guest->fd, guest->token + guest->received,
        sizeof guest->token - guest->received, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (count > 0)
        guest->received += (size_t) count;
    if (count <= 0 || guest->received > RING_SERVER_TOKEN_BYTES)
        s_guest_end (self, guest);
    else
    if (guest->received == RING_SERVER_TOKEN_BYTES)
        return s_admit (self, guest, now_ms, event);
    return false;
}

//  An attached client sends nothing more: the end of the stream, an error or a byte closes its connection; so
//  does the end of its process.
static bool
s_hear_attached (ring_server_t *self, guest_t *guest, ring_server_event_t *event)
{
    char byte;
    struct pollfd process = { .fd = guest->process, .events = POLLIN };     //  of -1 poll tells nothing
    if (recv (guest->fd, &byte, 1, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR)
    &&  poll (&process, 1, 0) != 1)
        return false;
    *event = (ring_server_event_t) { .kind = RING_SERVER_CLOSED, .key = guest->key };
    s_guest_end (self, guest);
    return true;
}


//  -- the caller's side

int
ring_server_expect (ring_server_t *self, uint64_t key, uid_t uid, int descriptor, int64_t now_ms,
    char token [RING_SERVER_TOKEN_BYTES + 1])
{
    s_check (self);
    assert (descriptor >= 0);
    assert (!s_attached (self, key)); assert (!s_pass_of_key (self, key));
    unsigned char random [RING_SERVER_TOKEN_BYTES / 2];
    token [0] = 0;
    pass_t *pass = malloc (sizeof *pass);
    if (!pass)
        return -ENOMEM;
    if (getrandom (random, sizeof random, 0) != (ssize_t) sizeof random) {
        free (pass);                        //  UNTESTED: a started kernel always gives 16 bytes
        return -EIO;
    }
    sodium_bin2hex (token, RING_SERVER_TOKEN_BYTES + 1, random, sizeof random);
    *pass = (pass_t) { .next = self->passes, .key = key, .uid = uid, .descriptor = descriptor,
        .deadline_ms = now_ms + RING_SERVER_PATIENCE_MS };
    memcpy (pass->token, token, RING_SERVER_TOKEN_BYTES);
    self->passes = pass;
    return 0;
}

void
ring_server_forget (ring_server_t *self, uint64_t key)
{
    s_check (self);
    pass_t *pass = s_pass_of_key (self, key);
    if (pass)
        s_pass_end (self, pass);
    guest_t *guest = s_attached (self, key);
    if (guest)
        s_guest_end (self, guest);
}

bool
ring_server_part (ring_server_t *self, uint64_t key)
{
    s_check (self);
    guest_t *guest = s_attached (self, key);
    if (guest)
        shutdown (guest->fd, SHUT_WR);      //  fails if the client has just closed it: that is reported next
    else
        ring_server_forget (self, key);
    return guest != NULL;
}

int
ring_server_descriptor (const ring_server_t *self)
{
    s_check (self);
    return self->epoll_fd;
}

bool
ring_server_next (ring_server_t *self, int64_t now_ms, ring_server_event_t *event)
{
    s_check (self);
    assert (event);
    for (int step = 0; step < STEPS_MAX; step++) {
        struct epoll_event ready;
        if (epoll_wait (self->epoll_fd, &ready, 1, 0) != 1)
            return false;
        guest_t *guest = ready.data.ptr;
        if (!guest)
            s_accept (self, now_ms);
        else
        if (guest->attached? s_hear_attached (self, guest, event)
                           : s_hear_pending (self, guest, now_ms, event))
            return true;
    }
    return false;                           //  if more are ready, the descriptor stays readable
}

void
ring_server_tick (ring_server_t *self, int64_t now_ms)
{
    s_check (self);
    for (pass_t *pass = self->passes, *next; pass; pass = next) {
        next = pass->next;
        if (now_ms >= pass->deadline_ms)
            s_pass_end (self, pass);
    }
    for (guest_t *guest = self->guests, *next; guest; guest = next) {
        next = guest->next;
        if (!guest->attached && now_ms >= guest->deadline_ms)
            s_guest_end (self, guest);
    }
    if (!self->listening)
        self->listening = s_watch (self, self->listen_fd, NULL) == 0;
}

void
ring_server_destroy (ring_server_t **self_p)
{
    assert (self_p);
    ring_server_t *self = *self_p;
    if (!self)
        return;
    s_check (self);
    while (self->passes)
        s_pass_end (self, self->passes);
    while (self->guests)
        s_guest_end (self, self->guests);
    if (self->epoll_fd >= 0)
        close (self->epoll_fd);
    struct stat status;
    if (self->bound && lstat (self->path, &status) == 0
    &&  status.st_dev == self->device && status.st_ino == self->inode)
        unlink (self->path);
    if (self->listen_fd >= 0)
        close (self->listen_fd);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}
