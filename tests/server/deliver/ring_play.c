#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ring_play.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

int
ring_play_begin (void **state)
{
    ring_play_t *self = calloc (1, sizeof *self);
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

int
ring_play_end (void **state)
{
    ring_play_t *self = *state;
    ring_server_destroy (&self->ring_server);
    close (self->descriptor);
    bool clean = scratch_entries (self->scratch.path) == 1;
    clean &= scratch_end (&self->scratch);
    free (self);
    return clean? 0: -1;
}

int
ring_play_knock (const ring_play_t *self)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, self->path);
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true (fd >= 0);
    assert_int_equal (connect (fd, (struct sockaddr *) &address, sizeof address), 0);
    return fd;
}

void
ring_play_say (int fd, const char *text, size_t size)
{
    assert_int_equal (send (fd, text, size, MSG_NOSIGNAL), size);
}

int
ring_play_knock_with (const ring_play_t *self, const char *token)
{
    int fd = ring_play_knock (self);
    ring_play_say (fd, token, RING_SERVER_TOKEN_BYTES);
    return fd;
}

int
ring_play_hear (int fd)
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

void
ring_play_assert_handed (const ring_play_t *self, int fd)
{
    struct stat ours, theirs;
    int descriptor = ring_play_hear (fd);
    assert_true (descriptor >= 0);
    assert_int_equal (fstat (self->descriptor, &ours), 0);
    assert_int_equal (fstat (descriptor, &theirs), 0);
    assert_int_equal (ours.st_ino, theirs.st_ino);
    close (descriptor);
    assert_int_equal (ring_play_hear (fd), -2);
}

void
ring_play_assert_event (ring_play_t *self, int64_t now_ms, ring_server_event_kind_t kind, uint64_t job)
{
    ring_server_event_t event;
    struct pollfd ready = { .fd = ring_server_descriptor (self->ring_server), .events = POLLIN };
    assert_int_equal (poll (&ready, 1, 0), 1);
    assert_true (ring_server_next (self->ring_server, now_ms, &event));
    assert_int_equal (event.kind, kind);
    assert_int_equal (event.key, job);
}

void
ring_play_assert_quiet (ring_play_t *self, int64_t now_ms)
{
    ring_server_event_t event;
    assert_false (ring_server_next (self->ring_server, now_ms, &event));
    struct pollfd ready = { .fd = ring_server_descriptor (self->ring_server), .events = POLLIN };
    assert_int_equal (poll (&ready, 1, 0), 0);
}

void
ring_play_expect (ring_play_t *self, uint64_t job, char token [RING_SERVER_TOKEN_BYTES + 1])
{
    assert_int_equal (ring_server_expect (self->ring_server, job, getuid (), self->descriptor, NOW, token),
        0);
    assert_int_equal (strspn (token, "0123456789abcdef"), RING_SERVER_TOKEN_BYTES);
    assert_int_equal (strlen (token), RING_SERVER_TOKEN_BYTES);
}

int
ring_play_attach (ring_play_t *self, uint64_t job)
{
    char token [RING_SERVER_TOKEN_BYTES + 1];
    ring_play_expect (self, job, token);
    int fd = ring_play_knock_with (self, token);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, job);
    ring_play_assert_handed (self, fd);
    return fd;
}

void
ring_play_assert_shut_out (ring_play_t *self, int fd, int64_t now_ms)
{
    ring_play_assert_quiet (self, now_ms);
    assert_int_equal (ring_play_hear (fd), -1);
    close (fd);
    ring_play_assert_quiet (self, now_ms);
}
