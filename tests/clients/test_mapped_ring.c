/*  test_mapped_ring -- taking a ring, by a process that is stopped and goes on in the middle of it.  */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mapped_ring.h"
#include "scratch.h"

enum { RING_BYTES = 8192, MOMENT_US = 100 * 1000 };

//  The server's ring socket, which takes its time, and what it answers: a letter, and so many descriptors.
typedef struct {
    int listener, ring;
    char token [WIRE_TOKEN_BYTES];
    useconds_t pause_us;
    char letter;
    size_t descriptors;
} ring_server_t;

enum { DESCRIPTORS_MAX = 4 };

static void
s_give (int socket, const ring_server_t *self)
{
    char letter = self->letter;
    size_t size = self->descriptors * sizeof (int);
    struct iovec part = { .iov_base = &letter, .iov_len = 1 };
    union {
        struct cmsghdr align;
        char bytes [CMSG_SPACE (DESCRIPTORS_MAX * sizeof (int))];
    } control;
    memset (&control, 0, sizeof control);
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (size > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE (size);
        struct cmsghdr *header = CMSG_FIRSTHDR (&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN (size);
        for (size_t index = 0; index < self->descriptors; index++)
            memcpy (CMSG_DATA (header) + index * sizeof (int), &self->ring, sizeof (int));
    }
    assert_int_equal (sendmsg (socket, &message, MSG_NOSIGNAL), 1);
}

static void *
s_serve (void *argument)
{
    ring_server_t *self = argument;
    int socket = accept (self->listener, NULL, NULL);
    assert_int_equal (recv (socket, self->token, sizeof self->token, MSG_WAITALL), sizeof self->token);
    usleep (self->pause_us);
    s_give (socket, self);
    //  Until the client closes.
    char waste;
    assert_int_equal (recv (socket, &waste, 1, 0), 0);
    close (socket);
    return NULL;
}

//  Stops this process and lets it go on, while it waits for the ring.
static pid_t
s_stop_later (void)
{
    pid_t parent = getpid (), child = fork ();
    assert_true (child >= 0);
    if (child > 0)
        return child;
    usleep (2 * MOMENT_US);
    kill (parent, SIGSTOP);
    usleep (MOMENT_US);
    kill (parent, SIGCONT);
    _exit (0);
}

static void
test_stopped_in_the_middle (void **state)
{
    scratch_folder_t *scratch = *state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf (address.sun_path, sizeof address.sun_path, "%s/s.ring", scratch->path);
    ring_server_t ring_server = { .listener = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
        .ring = memfd_create ("ring", MFD_CLOEXEC), .pause_us = 5 * MOMENT_US, .letter = 'R',
        .descriptors = 1 };
    assert_int_equal (ftruncate (ring_server.ring, RING_BYTES), 0);
    assert_int_equal (pwrite (ring_server.ring, "here", 4, 0), 4);
    assert_int_equal (bind (ring_server.listener, (struct sockaddr *) &address, sizeof address), 0);
    assert_int_equal (listen (ring_server.listener, 1), 0);
    pthread_t thread;
    char token [WIRE_TOKEN_BYTES];
    memset (token, 't', sizeof token);
    pid_t child = s_stop_later ();
    assert_int_equal (pthread_create (&thread, NULL, s_serve, &ring_server), 0);
    mapped_ring_t *ring;
    assert_int_equal (mapped_ring_new (&ring, address.sun_path, TRUST_NOBODY, token, RING_BYTES,
        MAPPED_RING_ANSWER_MS), 0);
    assert_memory_equal (mapped_ring_data (ring), "here", 4);
    assert_false (mapped_ring_is_over (ring));
    mapped_ring_destroy (&ring);
    pthread_join (thread, NULL);
    assert_memory_equal (ring_server.token, token, sizeof token);
    int status;
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_int_equal (status, 0);
    close (ring_server.listener);
    close (ring_server.ring);
    unlink (address.sun_path);
}

//  Guards: whatever a ring server answers, the client keeps none of its descriptors but the socket, and maps
//  nothing that is too short.
static void
test_strange_answers (void **state)
{
    static const struct { char letter; size_t descriptors; off_t bytes; int rc; } cases [] = {
        { 'R', 1, RING_BYTES, 0 }, { 'R', 3, RING_BYTES, 0 }, { 'R', DESCRIPTORS_MAX, RING_BYTES, 0 },
        { 'R', 0, RING_BYTES, -EPROTO }, { 'X', 0, RING_BYTES, -EPROTO }, { 'X', 1, RING_BYTES, -EPROTO },
        { 'X', 3, RING_BYTES, -EPROTO }, { 'R', 1, RING_BYTES - 1, -EPROTO }, { 'R', 2, 0, -EPROTO }
    };
    scratch_folder_t *scratch = *state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf (address.sun_path, sizeof address.sun_path, "%s/s.ring", scratch->path);
    int listener = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (bind (listener, (struct sockaddr *) &address, sizeof address), 0);
    assert_int_equal (listen (listener, 1), 0);
    char token [WIRE_TOKEN_BYTES];
    memset (token, 't', sizeof token);
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        pthread_t thread;
        mapped_ring_t *ring;
        ring_server_t ring_server = { .listener = listener, .ring = memfd_create ("ring", MFD_CLOEXEC),
            .letter = cases [index].letter, .descriptors = cases [index].descriptors };
        assert_int_equal (ftruncate (ring_server.ring, cases [index].bytes), 0);
        size_t before = scratch_descriptors ();
        assert_int_equal (pthread_create (&thread, NULL, s_serve, &ring_server), 0);
        assert_int_equal (mapped_ring_new (&ring, address.sun_path, TRUST_NOBODY, token, RING_BYTES,
            MAPPED_RING_ANSWER_MS), cases [index].rc);
        if (ring) {
            assert_true ((mapped_ring_data (ring) != NULL) == (cases [index].rc == 0));
            mapped_ring_destroy (&ring);
        }
        pthread_join (thread, NULL);
        assert_int_equal (scratch_descriptors (), before);
        close (ring_server.ring);
    }
    close (listener);
    unlink (address.sun_path);
}

//  The limits that the last socket was given.
static struct timeval s_send_limit, s_receive_limit;

int __real_setsockopt (int socket, int level, int option, const void *value, socklen_t size);
int __wrap_setsockopt (int socket, int level, int option, const void *value, socklen_t size);
int
__wrap_setsockopt (int socket, int level, int option, const void *value, socklen_t size)
{
    if (level == SOL_SOCKET && option == SO_SNDTIMEO)
        memcpy (&s_send_limit, value, sizeof s_send_limit);
    if (level == SOL_SOCKET && option == SO_RCVTIMEO)
        memcpy (&s_receive_limit, value, sizeof s_receive_limit);
    return __real_setsockopt (socket, level, option, value, size);
}

//  Guards: a server that takes the token and hands nothing over is waited for as long as it says, in
//  milliseconds.
static void
test_nothing_is_handed_over (void **state)
{
    scratch_folder_t *scratch = *state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf (address.sun_path, sizeof address.sun_path, "%s/s.ring", scratch->path);
    int listener = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (bind (listener, (struct sockaddr *) &address, sizeof address), 0);
    assert_int_equal (listen (listener, 1), 0);
    char token [WIRE_TOKEN_BYTES];
    memset (token, 't', sizeof token);
    mapped_ring_t *ring;
    assert_int_equal (mapped_ring_new (&ring, address.sun_path, TRUST_NOBODY, token, RING_BYTES, 20),
        -ETIMEDOUT);
    assert_null (ring);
    assert_true (s_send_limit.tv_sec == 3 && s_send_limit.tv_usec == 0);
    assert_true (s_receive_limit.tv_sec == 0 && s_receive_limit.tv_usec == 20000);
    close (listener);
}

static int
begin (void **state)
{
    static scratch_folder_t scratch;
    *state = &scratch;
    alarm (60);
    return scratch_begin (&scratch)? 0: -1;
}

static int
end (void **state)
{
    return scratch_end (*state)? 0: -1;
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_stopped_in_the_middle, begin, end),
        cmocka_unit_test_setup_teardown (test_strange_answers, begin, end),
        cmocka_unit_test_setup_teardown (test_nothing_is_handed_over, begin, end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
