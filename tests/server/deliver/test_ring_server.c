/*  The ring server: one token admits one client, once, in time; its end is told once; other clients get no
 *  answer.  (How many connections may be pending: test_ring_server_pending.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ring_play.h"
#include "seed.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { MODEL_JOBS = 6, MODEL_ROUNDS = 30, MODEL_STEPS = 300 };

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

static int
end (void **state)
{
    fault_disarm ();
    return ring_play_end (state);
}


//  -- attaching

static void
test_token_hands_out_the_descriptor (void **state)
{
    ring_play_t *self = *state;
    int fd = ring_play_attach (self, 7);
    ring_play_assert_quiet (self, NOW);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    ring_play_assert_quiet (self, NOW);
}

//  A process that the server starts has copies of all descriptors for a moment: the end is told once.
static void
test_a_child_with_copies (void **state)
{
    ring_play_t *self = *state;
    int fd = ring_play_attach (self, 7);
    pid_t child = fork ();
    if (child == 0) {
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        close (fd);
        raise (SIGSTOP);
        _exit (0);
    }
    assert_int_equal (waitpid (child, NULL, WUNTRACED), child);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    ring_play_assert_quiet (self, NOW);
    kill (child, SIGKILL);
    assert_int_equal (waitpid (child, NULL, 0), child);
}

//  As it may come over a slow line: byte by byte.
static void
test_token_in_pieces (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    ring_play_expect (self, 7, token);
    int fd = ring_play_knock (self);
    for (int at = 0; at < RING_SERVER_TOKEN_BYTES; at++) {
        ring_play_assert_quiet (self, NOW);
        assert_int_equal (ring_play_hear (fd), -2);
        ring_play_say (fd, token + at, 1);
    }
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    ring_play_assert_handed (self, fd);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

static void
test_token_works_once (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    ring_play_expect (self, 7, token);
    int first = ring_play_knock_with (self, token), second = ring_play_knock_with (self, token);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    ring_play_assert_shut_out (self, second, NOW);
    ring_play_assert_handed (self, first);
    close (first);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    ring_play_assert_shut_out (self, ring_play_knock_with (self, token), NOW);
}

//  One bit off, whichever; and the right one still works afterwards.
static void
test_wrong_token (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    ring_play_expect (self, 7, token);
    for (int at = 0; at < RING_SERVER_TOKEN_BYTES; at++) {
        char wrong [RING_SERVER_TOKEN_BYTES];
        memcpy (wrong, token, sizeof wrong);
        wrong [at] ^= 1;
        ring_play_assert_shut_out (self, ring_play_knock_with (self, wrong), NOW);
    }
    int fd = ring_play_knock_with (self, token);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

static void
test_tokens_differ (void **state)
{
    ring_play_t *self = *state;
    char tokens [20][RING_SERVER_TOKEN_BYTES + 1];
    for (uint64_t job = 0; job < 20; job++) {
        ring_play_expect (self, job, tokens [job]);
        for (uint64_t other = 0; other < job; other++)
            assert_string_not_equal (tokens [job], tokens [other]);
    }
}

//  Late by a millisecond, whether or not the tick has come; just in time works.
static void
test_late_token (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    ring_play_expect (self, 7, token);
    ring_play_assert_shut_out (self, ring_play_knock_with (self, token), NOW + RING_SERVER_PATIENCE_MS);
    ring_server_tick (self->ring_server, NOW + RING_SERVER_PATIENCE_MS);
    ring_play_assert_shut_out (self, ring_play_knock_with (self, token), NOW);
    ring_play_expect (self, 7, token);
    ring_server_tick (self->ring_server, NOW + RING_SERVER_PATIENCE_MS - 1);
    int fd = ring_play_knock_with (self, token);
    ring_play_assert_event (self, NOW + RING_SERVER_PATIENCE_MS - 1, RING_SERVER_ATTACHED, 7);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

static void
test_more_than_the_token (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    ring_play_expect (self, 7, token);
    int fd = ring_play_knock (self);
    ring_play_say (fd, token, RING_SERVER_TOKEN_BYTES + 1);
    ring_play_assert_quiet (self, NOW);
    assert_int_equal (ring_play_hear (fd), -1);
    close (fd);
    ring_play_assert_quiet (self, NOW);
}

//  Another user's process gets nothing even with the right token; the token stays good for its owner.
static void
test_wrong_user (void **state)
{
    ring_play_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    char token [RING_SERVER_TOKEN_BYTES + 1];
    ring_play_expect (self, 7, token);
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
    ring_play_assert_quiet (self, NOW);
    int status;
    waitpid (child, &status, 0);
    assert_int_equal (status, 0);
    int fd = ring_play_knock_with (self, token);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

//  The server's own user may attach for another (root too, and this user is root when the test runs as root).
static void
test_own_user_for_another (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    assert_int_equal (ring_server_expect (self->ring_server, 7, getuid () + 1, self->descriptor, NOW, token),
        0);
    int fd = ring_play_knock_with (self, token);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}


//  -- closing

//  The kernel closes for a process that is killed.
static void
test_killed_client (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    ring_play_expect (self, 7, token);
    pid_t child = fork ();
    if (child == 0) {
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        ring_play_knock_with (self, token);
        pause ();
    }
    struct pollfd ready = { .fd = ring_server_descriptor (self->ring_server), .events = POLLIN };
    ring_server_event_t event;
    while (!ring_server_next (self->ring_server, NOW, &event))
        poll (&ready, 1, 1000);
    assert_int_equal (event.kind, RING_SERVER_ATTACHED);
    ring_play_assert_quiet (self, NOW);
    kill (child, SIGKILL);
    waitpid (child, NULL, 0);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    ring_play_assert_quiet (self, NOW);
}

//  A child of the client holds the socket and lives on; the client's end is told all the same, and once.
static void
test_killed_client_with_a_child (void **state)
{
    ring_play_t *self = *state;
    if (syscall (SYS_pidfd_open, getpid (), 1 << 30) < 0 && errno == ENOSYS)
        skip ();                    //  then the socket alone decides
    char token [RING_SERVER_TOKEN_BYTES + 1];
    int pipes [2];
    pid_t child = -1;
    assert_int_equal (pipe2 (pipes, O_CLOEXEC), 0);
    ring_play_expect (self, 7, token);
    pid_t client = fork ();
    if (client == 0) {
        ring_play_knock_with (self, token);
        child = fork ();
        if (child > 0 && write (pipes [1], &child, sizeof child) != sizeof child)
            _exit (1);
        sleep (60);
        _exit (0);
    }
    assert_int_equal (read (pipes [0], &child, sizeof child), sizeof child);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    ring_play_assert_quiet (self, NOW);
    kill (client, SIGKILL);
    waitpid (client, NULL, 0);
    assert_int_equal (kill (child, 0), 0);
    ring_server_event_t event;
    bool told = ring_server_next (self->ring_server, NOW, &event);
    kill (child, SIGKILL);
    assert_true (told);
    assert_int_equal (event.kind, RING_SERVER_CLOSED);
    assert_int_equal (event.key, 7);
    ring_play_assert_quiet (self, NOW);
    close (pipes [0]);
    close (pipes [1]);
}

//  The socket carries nothing else: a byte more and the client is taken for dead.
static void
test_byte_after_attaching (void **state)
{
    ring_play_t *self = *state;
    int fd = ring_play_attach (self, 7);
    ring_play_say (fd, "x", 1);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    ring_play_assert_quiet (self, NOW);
    assert_int_equal (ring_play_hear (fd), -1);
    close (fd);
}

static void
test_half_closed_client (void **state)
{
    ring_play_t *self = *state;
    int fd = ring_play_attach (self, 7);
    shutdown (fd, SHUT_WR);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    close (fd);
    ring_play_assert_quiet (self, NOW);
}

//  Gone before it has read its ring: attached, then closed; no SIGPIPE.
static void
test_client_gone_before_the_ring (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    ring_play_expect (self, 7, token);
    close (ring_play_knock_with (self, token));
    ring_server_event_t event;
    unsigned int kinds = 0;
    while (ring_server_next (self->ring_server, NOW, &event))
        kinds = kinds * 10 + event.kind + 1;
    assert_true (kinds == 0 || kinds == (RING_SERVER_ATTACHED + 1) * 10 + RING_SERVER_CLOSED + 1);
    ring_play_assert_quiet (self, NOW);
}

static void
test_forget_closes_without_an_event (void **state)
{
    ring_play_t *self = *state;
    int first = ring_play_attach (self, 7), second = ring_play_attach (self, 8);
    ring_server_forget (self->ring_server, 7);
    assert_int_equal (ring_play_hear (first), -1);
    assert_int_equal (ring_play_hear (second), -2);
    ring_play_assert_quiet (self, NOW);
    close (first);
    ring_play_assert_quiet (self, NOW);
    close (second);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 8);
    ring_server_forget (self->ring_server, 8);
    ring_server_forget (self->ring_server, 99);
}

//  Both have happened: the client closed and the server forgets before it looks.
static void
test_forget_after_the_client_closed (void **state)
{
    ring_play_t *self = *state;
    close (ring_play_attach (self, 7));
    ring_server_forget (self->ring_server, 7);
    ring_play_assert_quiet (self, NOW);
}

static void
test_forget_voids_the_token (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    ring_play_expect (self, 7, token);
    int fd = ring_play_knock_with (self, token);
    ring_server_forget (self->ring_server, 7);
    ring_play_assert_shut_out (self, fd, NOW);
}

//  The client sees an end, and its own is told when it comes; a token is void.
static void
test_part_waits_for_the_client (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    int fd = ring_play_attach (self, 7);
    assert_true (ring_server_part (self->ring_server, 7));
    assert_int_equal (ring_play_hear (fd), -1);
    ring_play_assert_quiet (self, NOW);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    assert_false (ring_server_part (self->ring_server, 7));
    close (ring_play_attach (self, 8));
    assert_true (ring_server_part (self->ring_server, 8));  //  the client closed, which is not seen yet
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 8);
    ring_play_expect (self, 9, token);
    fd = ring_play_knock_with (self, token);
    assert_false (ring_server_part (self->ring_server, 9));
    ring_play_assert_shut_out (self, fd, NOW);
}

static void
test_destroy_closes_everyone (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    int first = ring_play_attach (self, 7), pending = ring_play_knock (self);
    ring_play_expect (self, 8, token);
    ring_play_assert_quiet (self, NOW);
    ring_server_destroy (&self->ring_server);
    assert_null (self->ring_server);
    assert_int_equal (ring_play_hear (first), -1);
    assert_int_equal (ring_play_hear (pending), -1);
    close (first);
    close (pending);
}


//  -- the socket's file

static void
test_socket_is_for_its_owner (void **state)
{
    ring_play_t *self = *state;
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
    ring_play_t *self = *state;
    ring_server_t *ring_server = NULL;
    char path [120];
    snprintf (path, sizeof path, "%s.stale", self->path);
    int fd = socket (AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, path);
    assert_int_equal (bind (fd, (struct sockaddr *) &address, sizeof address), 0);
    close (fd);
    assert_int_equal (ring_server_new (&ring_server, path), 0);
    //  Another program has replaced the socket: what is there now is not ours to remove.
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
    ring_play_t *self = *state;
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

//  Each call fails in turn while a client attaches: it is attached or not, and the ring server works for the
//  next one.
static void
test_attach_with_faults (void **state)
{
    ring_play_t *self = *state;
    unsigned int nth = 0;
    bool struck = true;
    while (struck) {
        char token [RING_SERVER_TOKEN_BYTES + 1];
        ring_play_expect (self, 7, token);
        int fd = ring_play_knock_with (self, token);
        ring_server_event_t event;
        fault_arm (++nth, ENOBUFS, false);
        bool told = ring_server_next (self->ring_server, NOW, &event);
        struck = fault_disarm ();
        //  The fifth only keeps us from watching the client's process.
        assert_int_equal (told, !struck || nth == 5);
        //  The fourth is the sending of the ring: the token is used up, though the client has no ring.
        if (nth == 4)
            ring_play_assert_shut_out (self, ring_play_knock_with (self, token), NOW);
        ring_server_forget (self->ring_server, 7);
        int descriptor = ring_play_hear (fd);
        assert_int_equal (descriptor >= 0, told);
        if (told) {
            close (descriptor);
            descriptor = ring_play_hear (fd);
        }
        assert_int_equal (descriptor, -1);
        close (fd);
        ring_play_assert_quiet (self, NOW);
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
model_step (ring_play_t *self, model_job_t *job, uint64_t id, uint64_t *random, int64_t now_ms)
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
            ring_play_say (job->client, "x", 1);
        else
            shutdown (job->client, SHUT_WR);
        close (job->client);
        job->client = -1;
        job->attached = false;
        return RING_SERVER_CLOSED + 1;
    default: {
        int fd = ring_play_knock (self);
        bool right = test_below (random, 4) > 0 && job->token [0];
        char token [RING_SERVER_TOKEN_BYTES] = "wrong";
        if (right)
            memcpy (token, job->token, sizeof token);
        ring_play_say (fd, token, sizeof token);
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

//  Property: whatever order things happen in, the ring server tells what a table of jobs says it must, and no
//  more.
static void
test_events_are_the_models (void **state)
{
    ring_play_t *self = *state;
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
            ring_play_assert_quiet (self, now_ms);
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
        cmocka_unit_test_setup_teardown (test_token_hands_out_the_descriptor, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_a_child_with_copies, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_token_in_pieces, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_token_works_once, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_wrong_token, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_tokens_differ, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_late_token, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_more_than_the_token, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_wrong_user, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_own_user_for_another, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_killed_client, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_killed_client_with_a_child, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_byte_after_attaching, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_half_closed_client, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_client_gone_before_the_ring, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_forget_closes_without_an_event, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_forget_after_the_client_closed, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_forget_voids_the_token, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_part_waits_for_the_client, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_destroy_closes_everyone, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_socket_is_for_its_owner, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_what_is_at_the_path, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_path_too_long, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_new_with_faults, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_attach_with_faults, ring_play_begin, end),
        cmocka_unit_test_setup_teardown (test_events_are_the_models, ring_play_begin, end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
