/*  The door: one token lets one client in, once, in time; its end is told once; nobody else gets a word.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ring_server.h"
#include "scratch.h"
#include "seed.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

enum { NOW = 1000000, MODEL_JOBS = 6, MODEL_ROUNDS = 30, MODEL_STEPS = 300 };

//  -- calls that fail when told to

FAULT_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT_CALL (void *, NULL, malloc, (size_t size), (size))
FAULT_CALL (int, -1, fchmod, (int fd, mode_t mode), (fd, mode))
FAULT_CALL (int, -1, bind, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
FAULT_CALL (int, -1, listen, (int fd, int backlog), (fd, backlog))
FAULT_CALL (int, -1, epoll_create1, (int flags), (flags))
FAULT_CALL (int, -1, getsockopt, (int fd, int level, int name, void *value, socklen_t *size),
    (fd, level, name, value, size))
FAULT_CALL (ssize_t, -1, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))

//  Only adding fails: taking a descriptor out needs nothing.
int __real_epoll_ctl (int epoll_fd, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl (int epoll_fd, int operation, int fd, struct epoll_event *event);
int
__wrap_epoll_ctl (int epoll_fd, int operation, int fd, struct epoll_event *event)
{
    return operation == EPOLL_CTL_ADD && fault_strikes ()? -1: __real_epoll_ctl (epoll_fd, operation, fd,
        event);
}


//  -- what every case begins and ends with

typedef struct {
    scratch_t scratch;
    char path [100];
    ring_server_t *ring_server;
    int descriptor;                 //  what is handed out: a file
} fixture_t;

static int
begin (void **state)
{
    fixture_t *self = calloc (1, sizeof *self);
    *state = self;
    if (!self || !scratch_begin (&self->scratch))
        return -1;
    snprintf (self->path, sizeof self->path, "%s/ring", self->scratch.path);
    char file [100];
    snprintf (file, sizeof file, "%s/file", self->scratch.path);
    self->descriptor = open (file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    alarm (300);
    return self->descriptor >= 0 && ring_server_new (&self->ring_server, self->path) == 0? 0: -1;
}

//  The socket file is gone and nothing is left open.
static int
end (void **state)
{
    fixture_t *self = *state;
    fault_disarm ();
    ring_server_destroy (&self->ring_server);
    close (self->descriptor);
    bool clean = scratch_entries (self->scratch.path) == 1;
    clean &= scratch_end (&self->scratch);
    free (self);
    return clean? 0: -1;
}

static int
knock (const fixture_t *self)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, self->path);
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true (fd >= 0);
    assert_int_equal (connect (fd, (struct sockaddr *) &address, sizeof address), 0);
    return fd;
}

static void
say (int fd, const char *text, size_t size)
{
    assert_int_equal (send (fd, text, size, MSG_NOSIGNAL), size);
}

//  Connects and sends a token.
static int
knock_with (const fixture_t *self, const char *token)
{
    int fd = knock (self);
    say (fd, token, RING_SERVER_TOKEN_BYTES);
    return fd;
}

//  What the client has been sent: its descriptor; -1: closed; -2: nothing.
static int
hear (int fd)
{
    char bytes [8];
    struct iovec part = { .iov_base = bytes, .iov_len = sizeof bytes };
    union { struct cmsghdr head; char room [CMSG_SPACE (4 * sizeof (int))]; } control;
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1,
        .msg_control = &control, .msg_controllen = sizeof control };
    ssize_t size = recvmsg (fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN)
        return -2;
    if (size <= 0)
        return -1;
    assert_int_equal (size, 1);
    assert_int_equal (bytes [0], 'R');
    struct cmsghdr *head = CMSG_FIRSTHDR (&message);
    assert_non_null (head);
    assert_int_equal (head->cmsg_type, SCM_RIGHTS);
    assert_int_equal (head->cmsg_len, CMSG_LEN (sizeof (int)));
    assert_null (CMSG_NXTHDR (&message, head));
    int descriptor;
    memcpy (&descriptor, CMSG_DATA (head), sizeof descriptor);
    return descriptor;
}

//  The client got the descriptor and nothing else.
static void
assert_handed (const fixture_t *self, int fd)
{
    struct stat ours, theirs;
    int descriptor = hear (fd);
    assert_true (descriptor >= 0);
    assert_int_equal (fstat (self->descriptor, &ours), 0);
    assert_int_equal (fstat (descriptor, &theirs), 0);
    assert_int_equal (ours.st_ino, theirs.st_ino);
    close (descriptor);
    assert_int_equal (hear (fd), -2);
}

static void
assert_event (fixture_t *self, int64_t now_ms, ring_server_event_kind_t kind, uint64_t job)
{
    ring_server_event_t event;
    struct pollfd ready = { .fd = ring_server_descriptor (self->ring_server), .events = POLLIN };
    assert_int_equal (poll (&ready, 1, 0), 1);
    assert_true (ring_server_next (self->ring_server, now_ms, &event));
    assert_int_equal (event.kind, kind);
    assert_int_equal (event.key, job);
}

//  Nothing to tell, and nothing that would wake the caller.
static void
assert_quiet (fixture_t *self, int64_t now_ms)
{
    ring_server_event_t event;
    assert_false (ring_server_next (self->ring_server, now_ms, &event));
    struct pollfd ready = { .fd = ring_server_descriptor (self->ring_server), .events = POLLIN };
    assert_int_equal (poll (&ready, 1, 0), 0);
}

static void
expect (fixture_t *self, uint64_t job, char token [RING_SERVER_TOKEN_BYTES + 1])
{
    assert_int_equal (ring_server_expect (self->ring_server, job, getuid (), self->descriptor, NOW, token),
        0);
    assert_int_equal (strspn (token, "0123456789abcdef"), RING_SERVER_TOKEN_BYTES);
    assert_int_equal (strlen (token), RING_SERVER_TOKEN_BYTES);
}

//  A client that is in.
static int
attach (fixture_t *self, uint64_t job)
{
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect (self, job, token);
    int fd = knock_with (self, token);
    assert_event (self, NOW, RING_SERVER_ATTACHED, job);
    assert_handed (self, fd);
    return fd;
}

//  Nobody is let in with this, nothing is told, and the client finds itself closed.
static void
assert_shut_out (fixture_t *self, int fd, int64_t now_ms)
{
    assert_quiet (self, now_ms);
    assert_int_equal (hear (fd), -1);
    close (fd);
    assert_quiet (self, now_ms);
}


//  -- attaching

static void
test_token_hands_out_the_descriptor (void **state)
{
    fixture_t *self = *state;
    int fd = attach (self, 7);
    assert_quiet (self, NOW);
    close (fd);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    assert_quiet (self, NOW);
}

//  As it may come over a slow line: byte by byte.
static void
test_token_in_pieces (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect (self, 7, token);
    int fd = knock (self);
    for (int at = 0; at < RING_SERVER_TOKEN_BYTES; at++) {
        assert_quiet (self, NOW);
        assert_int_equal (hear (fd), -2);
        say (fd, token + at, 1);
    }
    assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    assert_handed (self, fd);
    close (fd);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

static void
test_token_works_once (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect (self, 7, token);
    int first = knock_with (self, token), second = knock_with (self, token);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    assert_shut_out (self, second, NOW);
    assert_handed (self, first);
    close (first);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    assert_shut_out (self, knock_with (self, token), NOW);
}

//  One bit off, whichever; and the right one still works afterwards.
static void
test_wrong_token (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect (self, 7, token);
    for (int at = 0; at < RING_SERVER_TOKEN_BYTES; at++) {
        char wrong [RING_SERVER_TOKEN_BYTES];
        memcpy (wrong, token, sizeof wrong);
        wrong [at] ^= 1;
        assert_shut_out (self, knock_with (self, wrong), NOW);
    }
    int fd = knock_with (self, token);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    close (fd);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

static void
test_tokens_differ (void **state)
{
    fixture_t *self = *state;
    char tokens [20][RING_SERVER_TOKEN_BYTES + 1];
    for (uint64_t job = 0; job < 20; job++) {
        expect (self, job, tokens [job]);
        for (uint64_t other = 0; other < job; other++)
            assert_string_not_equal (tokens [job], tokens [other]);
    }
}

//  Late by a millisecond, whether or not the tick has come; just in time works.
static void
test_late_token (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect (self, 7, token);
    assert_shut_out (self, knock_with (self, token), NOW + RING_SERVER_PATIENCE_MS);
    ring_server_tick (self->ring_server, NOW + RING_SERVER_PATIENCE_MS);
    assert_shut_out (self, knock_with (self, token), NOW);
    expect (self, 7, token);
    ring_server_tick (self->ring_server, NOW + RING_SERVER_PATIENCE_MS - 1);
    int fd = knock_with (self, token);
    assert_event (self, NOW + RING_SERVER_PATIENCE_MS - 1, RING_SERVER_ATTACHED, 7);
    close (fd);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

static void
test_more_than_the_token (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect (self, 7, token);
    int fd = knock (self);
    say (fd, token, RING_SERVER_TOKEN_BYTES + 1);
    assert_quiet (self, NOW);
    assert_int_equal (hear (fd), -1);
    close (fd);
    assert_quiet (self, NOW);
}

//  Another user's process gets nothing even with the right token; the token stays good for its owner.
static void
test_wrong_user (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect (self, 7, token);
    assert_int_equal (chmod (self->path, 0666), 0);
    assert_int_equal (chmod (self->scratch.path, 0755), 0);
    int pipes [2];
    assert_int_equal (pipe2 (pipes, O_CLOEXEC), 0);
    pid_t child = fork ();
    if (child == 0) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        strcpy (address.sun_path, self->path);
        int fd = socket (AF_UNIX, SOCK_STREAM, 0);
        char byte = '?';
        bool sent = setuid (65534) == 0 && connect (fd, (struct sockaddr *) &address, sizeof address) == 0
            && send (fd, token, RING_SERVER_TOKEN_BYTES, MSG_NOSIGNAL) == RING_SERVER_TOKEN_BYTES
            && write (pipes [1], &byte, 1) == 1;
        _exit (sent && recv (fd, &byte, 1, 0) <= 0? 0: 1);
    }
    close (pipes [1]);
    char byte;
    assert_int_equal (read (pipes [0], &byte, 1), 1);
    close (pipes [0]);
    assert_quiet (self, NOW);
    int status;
    waitpid (child, &status, 0);
    assert_int_equal (status, 0);
    int fd = knock_with (self, token);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    close (fd);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

//  The server's own user may attach for another (as root may, whom this is when it runs as root).
static void
test_own_user_for_another (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    assert_int_equal (ring_server_expect (self->ring_server, 7, getuid () + 1, self->descriptor, NOW, token),
        0);
    int fd = knock_with (self, token);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    close (fd);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}


//  -- closing

//  The kernel closes for a process that is killed.
static void
test_killed_client (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect (self, 7, token);
    pid_t child = fork ();
    if (child == 0) {
        knock_with (self, token);
        pause ();
    }
    struct pollfd ready = { .fd = ring_server_descriptor (self->ring_server), .events = POLLIN };
    ring_server_event_t event;
    while (!ring_server_next (self->ring_server, NOW, &event))
        poll (&ready, 1, 1000);
    assert_int_equal (event.kind, RING_SERVER_ATTACHED);
    assert_quiet (self, NOW);
    kill (child, SIGKILL);
    waitpid (child, NULL, 0);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    assert_quiet (self, NOW);
}

//  A child of the client holds the socket and lives on; the client's end is told all the same, and once.
static void
test_killed_client_with_a_child (void **state)
{
    fixture_t *self = *state;
    if (syscall (SYS_pidfd_open, getpid (), 1 << 30) < 0 && errno == ENOSYS)
        skip ();                    //  then the socket alone decides
    char token [RING_SERVER_TOKEN_BYTES + 1];
    int pipes [2];
    pid_t child = -1;
    assert_int_equal (pipe2 (pipes, O_CLOEXEC), 0);
    expect (self, 7, token);
    pid_t client = fork ();
    if (client == 0) {
        knock_with (self, token);
        child = fork ();
        if (child > 0 && write (pipes [1], &child, sizeof child) != sizeof child)
            _exit (1);
        sleep (60);
        _exit (0);
    }
    assert_int_equal (read (pipes [0], &child, sizeof child), sizeof child);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    assert_quiet (self, NOW);
    kill (client, SIGKILL);
    waitpid (client, NULL, 0);
    assert_int_equal (kill (child, 0), 0);
    ring_server_event_t event;
    bool told = ring_server_next (self->ring_server, NOW, &event);
    kill (child, SIGKILL);
    assert_true (told);
    assert_int_equal (event.kind, RING_SERVER_CLOSED);
    assert_int_equal (event.key, 7);
    assert_quiet (self, NOW);
    close (pipes [0]);
    close (pipes [1]);
}

//  The socket carries nothing else: a byte more and the client is taken for dead.
static void
test_byte_after_attaching (void **state)
{
    fixture_t *self = *state;
    int fd = attach (self, 7);
    say (fd, "x", 1);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    assert_quiet (self, NOW);
    assert_int_equal (hear (fd), -1);
    close (fd);
}

static void
test_half_closed_client (void **state)
{
    fixture_t *self = *state;
    int fd = attach (self, 7);
    shutdown (fd, SHUT_WR);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    close (fd);
    assert_quiet (self, NOW);
}

//  Gone before it has read its ring: attached, then closed; no SIGPIPE.
static void
test_client_gone_before_the_ring (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect (self, 7, token);
    close (knock_with (self, token));
    ring_server_event_t event;
    unsigned int kinds = 0;
    while (ring_server_next (self->ring_server, NOW, &event))
        kinds = kinds * 10 + event.kind + 1;
    assert_true (kinds == 0 || kinds == (RING_SERVER_ATTACHED + 1) * 10 + RING_SERVER_CLOSED + 1);
    assert_quiet (self, NOW);
}

static void
test_forget_closes_without_an_event (void **state)
{
    fixture_t *self = *state;
    int first = attach (self, 7), second = attach (self, 8);
    ring_server_forget (self->ring_server, 7);
    assert_int_equal (hear (first), -1);
    assert_int_equal (hear (second), -2);
    assert_quiet (self, NOW);
    close (first);
    assert_quiet (self, NOW);
    close (second);
    assert_event (self, NOW, RING_SERVER_CLOSED, 8);
    ring_server_forget (self->ring_server, 8);
    ring_server_forget (self->ring_server, 99);
}

//  Both have happened: the client closed and the server forgets before it looks.
static void
test_forget_after_the_client_closed (void **state)
{
    fixture_t *self = *state;
    close (attach (self, 7));
    ring_server_forget (self->ring_server, 7);
    assert_quiet (self, NOW);
}

static void
test_forget_voids_the_token (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect (self, 7, token);
    int fd = knock_with (self, token);
    ring_server_forget (self->ring_server, 7);
    assert_shut_out (self, fd, NOW);
}

//  The client sees an end, and its own is told when it comes; a token is void.
static void
test_part_waits_for_the_client (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    int fd = attach (self, 7);
    assert_true (ring_server_part (self->ring_server, 7));
    assert_int_equal (hear (fd), -1);
    assert_quiet (self, NOW);
    close (fd);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    assert_false (ring_server_part (self->ring_server, 7));
    close (attach (self, 8));
    assert_true (ring_server_part (self->ring_server, 8));        //  the client closed, and nobody has looked
    assert_event (self, NOW, RING_SERVER_CLOSED, 8);
    expect (self, 9, token);
    fd = knock_with (self, token);
    assert_false (ring_server_part (self->ring_server, 9));
    assert_shut_out (self, fd, NOW);
}

static void
test_destroy_closes_everyone (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    int first = attach (self, 7), stranger = knock (self);
    expect (self, 8, token);
    assert_quiet (self, NOW);
    ring_server_destroy (&self->ring_server);
    assert_null (self->ring_server);
    assert_int_equal (hear (first), -1);
    assert_int_equal (hear (stranger), -1);
    close (first);
    close (stranger);
}


//  -- strangers

//  Ten bytes and silence, or silence from the start: over when the patience is.
static void
test_half_token_hangs (void **state)
{
    fixture_t *self = *state;
    int silent = knock (self), half = knock (self);
    say (half, "0123456789", 10);
    assert_quiet (self, NOW);
    ring_server_tick (self->ring_server, NOW + RING_SERVER_PATIENCE_MS - 1);
    assert_int_equal (hear (silent), -2);
    assert_int_equal (hear (half), -2);
    ring_server_tick (self->ring_server, NOW + RING_SERVER_PATIENCE_MS);
    assert_int_equal (hear (silent), -1);
    assert_int_equal (hear (half), -1);
    close (silent);
    close (half);
    assert_quiet (self, NOW);
}

//  Patience is for strangers: an attached client may be silent for ever.
static void
test_attached_client_stays (void **state)
{
    fixture_t *self = *state;
    int fd = attach (self, 7);
    ring_server_tick (self->ring_server, NOW + 1000 * (int64_t) RING_SERVER_PATIENCE_MS);
    assert_int_equal (hear (fd), -2);
    assert_quiet (self, NOW + 1000 * (int64_t) RING_SERVER_PATIENCE_MS);
    close (fd);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

//  A crowd of idle connections costs a bounded number of descriptors and does not keep a client out.
static void
test_connection_limit_of_strangers (void **state)
{
    fixture_t *self = *state;
    enum { CONNECTION_LIMIT = 100 };
    int connection_limit [CONNECTION_LIMIT];
    int attached = attach (self, 7);
    size_t before = scratch_descriptors ();
    for (int index = 0; index < CONNECTION_LIMIT; index++) {
        connection_limit [index] = knock (self);
        assert_quiet (self, NOW);
    }
    assert_int_equal (scratch_descriptors () - before, CONNECTION_LIMIT + RING_SERVER_STRANGERS_MAX);
    int fd = attach (self, 8);
    assert_int_equal (hear (attached), -2);
    for (int index = 0; index < CONNECTION_LIMIT; index++) {
        assert_int_equal (hear (connection_limit [index]),
            index <= CONNECTION_LIMIT - RING_SERVER_STRANGERS_MAX? -1: -2);
        close (connection_limit [index]);
    }
    assert_quiet (self, NOW);
    close (attached);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    close (fd);
    assert_event (self, NOW, RING_SERVER_CLOSED, 8);
}

//  As another user: effective, which is what the kernel tells of who connects.
static int
knock_as (const fixture_t *self, uid_t uid)
{
    assert_int_equal (seteuid (uid), 0);
    int fd = knock (self);
    assert_int_equal (seteuid (0), 0);
    return fd;
}

//  Everybody may come to the socket.
static void
open_the_way (const fixture_t *self)
{
    assert_int_equal (chmod (self->path, 0666), 0);
    assert_int_equal (chmod (self->scratch.path, 0711), 0);
}

enum { ALICE = 65001, BOB = 65002, CAROL = 65003 };

static void
expect_of (const fixture_t *self, uint64_t key, uid_t uid, char token [RING_SERVER_TOKEN_BYTES + 1])
{
    assert_int_equal (ring_server_expect (self->ring_server, key, uid, self->descriptor, NOW, token), 0);
}

//  Whom nobody expects is sent away at once, and holds no place at the door.
static void
test_user_who_is_not_expected (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    open_the_way (self);
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect_of (self, 7, ALICE, token);
    int bob = knock_as (self, BOB), alice = knock_as (self, ALICE);
    assert_quiet (self, NOW);
    assert_int_equal (hear (bob), -1);
    assert_int_equal (hear (alice), -2);
    say (alice, token, RING_SERVER_TOKEN_BYTES);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    //  Her token is used: the next time there is nothing for her to fetch.
    int again = knock_as (self, ALICE);
    assert_quiet (self, NOW);
    assert_int_equal (hear (again), -1);
    close (again);
    close (bob);
    close (alice);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

//  A user who comes again and again pushes out nobody but himself, however fast he is.
static void
test_connection_limit_of_one_user (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    enum { CONNECTION_LIMIT = 200 };
    open_the_way (self);
    char tokens [3] [RING_SERVER_TOKEN_BYTES + 1];
    static const uid_t users [] = { ALICE, BOB, CAROL };
    for (uint64_t key = 0; key < 3; key++)
        expect_of (self, key, users [key], tokens [key]);
    //  Bob and Carol stand there with half a token each, Alice comes; and some of her early ones are before
    //  them.
    int early = knock_as (self, ALICE), bob = knock_as (self, BOB), connection_limit [CONNECTION_LIMIT];
    say (bob, tokens [1], 10);
    for (int index = 0; index < CONNECTION_LIMIT / 2; index++) {
        connection_limit [index] = knock_as (self, ALICE);
        assert_quiet (self, NOW);
    }
    int carol = knock_as (self, CAROL);
    say (carol, tokens [2], 10);
    for (int index = CONNECTION_LIMIT / 2; index < CONNECTION_LIMIT; index++) {
        connection_limit [index] = knock_as (self, ALICE);
        assert_quiet (self, NOW);
    }
    assert_int_equal (hear (early), -1);
    for (int index = 0; index < CONNECTION_LIMIT; index++)
        assert_int_equal (hear (connection_limit [index]),
            index < CONNECTION_LIMIT - RING_SERVER_STRANGERS_MAX + 2? -1: -2);
    say (bob, tokens [1] + 10, RING_SERVER_TOKEN_BYTES - 10);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 1);
    say (carol, tokens [2] + 10, RING_SERVER_TOKEN_BYTES - 10);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 2);
    //  Hers is good still.
    say (connection_limit [CONNECTION_LIMIT - 1], tokens [0], RING_SERVER_TOKEN_BYTES);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 0);
    for (int index = 0; index < CONNECTION_LIMIT; index++)
        close (connection_limit [index]);
    close (early);
    close (bob);
    close (carol);
    ring_server_forget (self->ring_server, 0);
    ring_server_forget (self->ring_server, 1);
    ring_server_forget (self->ring_server, 2);
    assert_quiet (self, NOW);
}

//  Two who share the door as equals: neither has more than half of it when both want it.
static void
test_connection_limit_of_two_users (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    enum { CONNECTION_LIMIT = 100 };
    open_the_way (self);
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect_of (self, 1, ALICE, token);
    expect_of (self, 2, BOB, token);
    int fds [2] [CONNECTION_LIMIT], held [2] = { 0 };
    for (int index = 0; index < CONNECTION_LIMIT; index++)
        for (int which = 0; which < 2; which++) {
            fds [which] [index] = knock_as (self, which? BOB: ALICE);
            assert_quiet (self, NOW);
        }
    for (int index = 0; index < CONNECTION_LIMIT; index++)
        for (int which = 0; which < 2; which++) {
            held [which] += hear (fds [which] [index]) == -2;
            close (fds [which] [index]);
        }
    assert_int_equal (held [0], RING_SERVER_STRANGERS_MAX / 2);
    assert_int_equal (held [1], RING_SERVER_STRANGERS_MAX / 2);
    assert_quiet (self, NOW);
}

//  The newcomer counts: at half each, a further one costs its own user a place, though the other's are older.
static void
test_connection_limit_at_the_balance (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    enum { HALF = RING_SERVER_STRANGERS_MAX / 2 };
    open_the_way (self);
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect_of (self, 1, ALICE, token);
    expect_of (self, 2, BOB, token);
    int fds [RING_SERVER_STRANGERS_MAX + 1];
    for (int index = 0; index <= RING_SERVER_STRANGERS_MAX; index++) {
        fds [index] = knock_as (self, index < HALF? BOB: ALICE);
        assert_quiet (self, NOW);
    }
    for (int index = 0; index <= RING_SERVER_STRANGERS_MAX; index++) {
        assert_int_equal (hear (fds [index]), index == HALF? -1: -2);
        close (fds [index]);
    }
    assert_quiet (self, NOW);
}

//  A token is its user's, whoever has come by it; and the thief does not use it up.
static void
test_stolen_token (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    open_the_way (self);
    char alices [RING_SERVER_TOKEN_BYTES + 1], bobs [RING_SERVER_TOKEN_BYTES + 1];
    expect_of (self, 7, ALICE, alices);
    expect_of (self, 8, BOB, bobs);
    for (int times = 0; times < 3; times++) {
        int thief = knock_as (self, BOB);       //  who is expected, with his own
        say (thief, alices, RING_SERVER_TOKEN_BYTES);
        assert_quiet (self, NOW);
        assert_int_equal (hear (thief), -1);
        close (thief);
    }
    int alice = knock_as (self, ALICE), bob = knock_as (self, BOB);
    say (alice, alices, RING_SERVER_TOKEN_BYTES);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    assert_handed (self, alice);
    say (bob, bobs, RING_SERVER_TOKEN_BYTES);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 8);
    ring_server_forget (self->ring_server, 7);
    ring_server_forget (self->ring_server, 8);
    close (alice);
    close (bob);
}

//  No descriptor for a newcomer: the door rests instead of spinning, and opens again with the tick.
static void
test_out_of_descriptors (void **state)
{
    fixture_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    struct rlimit limit, none;
    int attached = attach (self, 7);
    expect (self, 8, token);
    int fd = knock_with (self, token);
    assert_int_equal (getrlimit (RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t) fd + 1;
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &none), 0);
    for (int round = 0; round < 3; round++) {
        assert_quiet (self, NOW);
        ring_server_tick (self->ring_server, NOW);
    }
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
    assert_event (self, NOW, RING_SERVER_ATTACHED, 8);
    assert_handed (self, fd);
    //  Those within go on being heard while the door rests.
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &none), 0);
    close (attached);
    assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
    close (fd);
    assert_event (self, NOW, RING_SERVER_CLOSED, 8);
}


//  -- the socket's file

static void
test_socket_is_for_its_owner (void **state)
{
    fixture_t *self = *state;
    struct stat status;
    assert_int_equal (lstat (self->path, &status), 0);
    assert_true (S_ISSOCK (status.st_mode));
    assert_int_equal (status.st_mode & 0777, 0600);
    assert_int_equal (fcntl (ring_server_descriptor (self->ring_server), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

//  A socket that a dead server left is replaced; a file is not touched.
static void
test_what_is_at_the_path (void **state)
{
    fixture_t *self = *state;
    ring_server_t *ring_server = NULL;
    char path [120];
    snprintf (path, sizeof path, "%s.stale", self->path);
    int fd = socket (AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, path);
    assert_int_equal (bind (fd, (struct sockaddr *) &address, sizeof address), 0);
    close (fd);
    assert_int_equal (ring_server_new (&ring_server, path), 0);
    //  Somebody has replaced the socket: what is there now is not ours to remove.
    assert_int_equal (unlink (path), 0);
    fd = open (path, O_WRONLY | O_CREAT, 0600);
    close (fd);
    ring_server_destroy (&ring_server);
    assert_int_equal (access (path, F_OK), 0);
    assert_int_equal (ring_server_new (&ring_server, path), -EADDRINUSE);
    assert_null (ring_server);
    assert_int_equal (unlink (path), 0);
}

static void
test_path_too_long (void **state)
{
    (void) state;
    char path [200];
    memset (path, 'x', sizeof path);
    path [108] = 0;
    ring_server_t *ring_server = (ring_server_t *) 1;
    assert_int_equal (ring_server_new (&ring_server, path), -ENAMETOOLONG);
    assert_null (ring_server);
    assert_int_equal (ring_server_new (&ring_server, "/nowhere/at/all"), -ENOENT);
    assert_null (ring_server);
}


//  -- faults

static void
test_new_with_faults (void **state)
{
    fixture_t *self = *state;
    char path [120];
    snprintf (path, sizeof path, "%s.other", self->path);
    unsigned int nth = 0;
    bool struck = true;
    while (struck) {
        ring_server_t *ring_server = (ring_server_t *) 1;
        fault_arm (++nth, EMFILE, false);
        int rc = ring_server_new (&ring_server, path);
        struck = fault_disarm ();
        assert_int_equal (rc, !struck? 0: nth == 1? -ENOMEM: -EMFILE);
        assert_int_equal (ring_server == NULL, struck);
        ring_server_destroy (&ring_server);
        assert_int_equal (access (path, F_OK), -1);
    }
    assert_int_equal (nth, 7);          //  calloc, fchmod, bind, listen, epoll_create1, epoll_ctl were hit
}

//  Each call fails in turn while a client attaches: it is in or it is out, and the door works for the next
//  one.
static void
test_attach_with_faults (void **state)
{
    fixture_t *self = *state;
    unsigned int nth = 0;
    bool struck = true;
    while (struck) {
        char token [RING_SERVER_TOKEN_BYTES + 1];
        expect (self, 7, token);
        int fd = knock_with (self, token);
        ring_server_event_t event;
        fault_arm (++nth, ENOBUFS, false);
        bool told = ring_server_next (self->ring_server, NOW, &event);
        struck = fault_disarm ();
        //  The fifth only keeps us from watching the client's process.
        assert_int_equal (told, !struck || nth == 5);
        //  The fourth is the sending of the ring: the token is used up, though the client has no ring.
        if (nth == 4)
            assert_shut_out (self, knock_with (self, token), NOW);
        ring_server_forget (self->ring_server, 7);
        int descriptor = hear (fd);
        assert_int_equal (descriptor >= 0, told);
        if (told) {
            close (descriptor);
            descriptor = hear (fd);
        }
        assert_int_equal (descriptor, -1);
        close (fd);
        assert_quiet (self, NOW);
    }
    assert_int_equal (nth, 6);          //  calloc, getsockopt, epoll_ctl, sendmsg, epoll_ctl were hit
    char token [RING_SERVER_TOKEN_BYTES + 1];
    fault_arm (1, ENOMEM, false);
    assert_int_equal (ring_server_expect (self->ring_server, 7, getuid (), self->descriptor, NOW, token),
        -ENOMEM);
    assert_true (fault_disarm ());
    assert_string_equal (token, "");
}


//  -- property

typedef struct {
    bool expected, attached;
    int64_t deadline_ms;
    int client;                     //  -1: none
    char token [RING_SERVER_TOKEN_BYTES + 1];
} model_job_t;

//  One random thing happens; what must be told is 0, or kind + 1.
static unsigned int
model_step (fixture_t *self, model_job_t *job, uint64_t id, uint64_t *random, int64_t now_ms)
{
    switch (test_below (random, 6)) {
    case 0:
        if (!job->expected && !job->attached) {
            assert_int_equal (ring_server_expect (self->ring_server, id, getuid (), self->descriptor, now_ms,
                job->token), 0);
            job->expected = true;
            job->deadline_ms = now_ms + RING_SERVER_PATIENCE_MS;
        }
        return 0;
    case 1:
        ring_server_forget (self->ring_server, id);
        if (job->client >= 0)
            close (job->client);
        job->expected = job->attached = false;
        job->client = -1;
        return 0;
    case 2:
        if (!job->attached)
            return 0;
        if (test_below (random, 2))
            say (job->client, "x", 1);
        else
            shutdown (job->client, SHUT_WR);
        close (job->client);
        job->client = -1;
        job->attached = false;
        return RING_SERVER_CLOSED + 1;
    default: {
        int fd = knock (self);
        bool right = test_below (random, 4) > 0 && job->token [0];
        char token [RING_SERVER_TOKEN_BYTES] = "wrong";
        if (right)
            memcpy (token, job->token, sizeof token);
        say (fd, token, sizeof token);
        if (right && job->expected && now_ms < job->deadline_ms) {
            job->expected = false;
            job->attached = true;
            job->client = fd;
            return RING_SERVER_ATTACHED + 1;
        }
        close (fd);
        return 0;
    }
    }
}

//  Property: whatever order things happen in, the door tells what a table of jobs says it must, and no more.
static void
test_events_are_the_models (void **state)
{
    fixture_t *self = *state;
    for (uint64_t seed = test_seed (), round = 0; round < MODEL_ROUNDS; round++, seed++) {
        uint64_t random = seed;
        int64_t now_ms = NOW;
        model_job_t jobs [MODEL_JOBS] = { 0 };
        for (int id = 0; id < MODEL_JOBS; id++)
            jobs [id].client = -1;
        for (int step = 0; step < MODEL_STEPS; step++) {
            uint64_t id = test_below (&random, MODEL_JOBS);
            unsigned int due = model_step (self, &jobs [id], id, &random, now_ms);
            ring_server_event_t event;
            bool told = ring_server_next (self->ring_server, now_ms, &event);
            if (told != (due > 0) || (told && (event.key != id || event.kind + 1 != due)))
                fail_msg ("seed %" PRIu64 " step %d: told %d, due %u", seed, step, told, due);
            assert_quiet (self, now_ms);
            now_ms += (int64_t) test_below (&random, RING_SERVER_PATIENCE_MS / 2);
            if (test_below (&random, 4) == 0)
                ring_server_tick (self->ring_server, now_ms);
            for (id = 0; id < MODEL_JOBS; id++)
                if (jobs [id].expected && now_ms >= jobs [id].deadline_ms) {
                    ring_server_tick (self->ring_server, now_ms);
                    jobs [id].expected = false;
                }
        }
        for (uint64_t id = 0; id < MODEL_JOBS; id++) {
            ring_server_forget (self->ring_server, id);
            if (jobs [id].client >= 0)
                close (jobs [id].client);
        }
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_token_hands_out_the_descriptor, begin, end),
        cmocka_unit_test_setup_teardown (test_token_in_pieces, begin, end),
        cmocka_unit_test_setup_teardown (test_token_works_once, begin, end),
        cmocka_unit_test_setup_teardown (test_wrong_token, begin, end),
        cmocka_unit_test_setup_teardown (test_tokens_differ, begin, end),
        cmocka_unit_test_setup_teardown (test_late_token, begin, end),
        cmocka_unit_test_setup_teardown (test_more_than_the_token, begin, end),
        cmocka_unit_test_setup_teardown (test_wrong_user, begin, end),
        cmocka_unit_test_setup_teardown (test_own_user_for_another, begin, end),
        cmocka_unit_test_setup_teardown (test_killed_client, begin, end),
        cmocka_unit_test_setup_teardown (test_killed_client_with_a_child, begin, end),
        cmocka_unit_test_setup_teardown (test_byte_after_attaching, begin, end),
        cmocka_unit_test_setup_teardown (test_half_closed_client, begin, end),
        cmocka_unit_test_setup_teardown (test_client_gone_before_the_ring, begin, end),
        cmocka_unit_test_setup_teardown (test_forget_closes_without_an_event, begin, end),
        cmocka_unit_test_setup_teardown (test_forget_after_the_client_closed, begin, end),
        cmocka_unit_test_setup_teardown (test_forget_voids_the_token, begin, end),
        cmocka_unit_test_setup_teardown (test_part_waits_for_the_client, begin, end),
        cmocka_unit_test_setup_teardown (test_destroy_closes_everyone, begin, end),
        cmocka_unit_test_setup_teardown (test_half_token_hangs, begin, end),
        cmocka_unit_test_setup_teardown (test_attached_client_stays, begin, end),
        cmocka_unit_test_setup_teardown (test_connection_limit_of_strangers, begin, end),
        cmocka_unit_test_setup_teardown (test_user_who_is_not_expected, begin, end),
        cmocka_unit_test_setup_teardown (test_connection_limit_of_one_user, begin, end),
        cmocka_unit_test_setup_teardown (test_connection_limit_of_two_users, begin, end),
        cmocka_unit_test_setup_teardown (test_connection_limit_at_the_balance, begin, end),
        cmocka_unit_test_setup_teardown (test_stolen_token, begin, end),
        cmocka_unit_test_setup_teardown (test_out_of_descriptors, begin, end),
        cmocka_unit_test_setup_teardown (test_socket_is_for_its_owner, begin, end),
        cmocka_unit_test_setup_teardown (test_what_is_at_the_path, begin, end),
        cmocka_unit_test_setup_teardown (test_path_too_long, begin, end),
        cmocka_unit_test_setup_teardown (test_new_with_faults, begin, end),
        cmocka_unit_test_setup_teardown (test_attach_with_faults, begin, end),
        cmocka_unit_test_setup_teardown (test_events_are_the_models, begin, end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
