#include "mapped_ring.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define MAPPED_RING_MAGIC 0x4d524e47u

struct mapped_ring {
    uint32_t magic;
    int socket;
    uint8_t *data;                  //  bytes of address space: reserved, then the ring
    size_t bytes;
    bool mapped;
};

//  A socket that has a time limit is interrupted when the process is stopped and goes on, also where no
//  signal is handled (signal(7)).  Taken for a failure, the client would go inline while the server hands the
//  ring over.
static int
s_connect (mapped_ring_t *self, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t length = strlen (path);
    if (length >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    memcpy (address.sun_path, path, length + 1);
    self->socket = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (self->socket < 0)
        return -errno;
    struct timeval patience = { .tv_sec = MAPPED_RING_PATIENCE_MS / 1000 };
    if (setsockopt (self->socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience))
        return -errno;
    int rc;
    do
        rc = connect (self->socket, (struct sockaddr *) &address, sizeof address);
    while (rc && errno == EINTR);
    return rc? -errno: 0;
}

static int
s_send_token (mapped_ring_t *self, const char *token)
{
    ssize_t sent;
    do
        sent = send (self->socket, token, WIRE_TOKEN_BYTES, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return -errno;
    return sent == WIRE_TOKEN_BYTES? 0: -EPROTO;
}

//  The first descriptor of a message, or -EPROTO; others are closed.
static int
s_take_descriptor (struct msghdr *message)
{
    int descriptor = -EPROTO;
    for (struct cmsghdr *part = CMSG_FIRSTHDR (message); part; part = CMSG_NXTHDR (message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN (0)) / sizeof (int);
        for (size_t index = 0; index < count; index++) {
            int each;
            memcpy (&each, CMSG_DATA (part) + index * sizeof each, sizeof each);
            if (descriptor < 0)
                descriptor = each;
            else
                close (each);
        }
    }
    return descriptor;
}

//  Receives 'R' and the descriptor: the descriptor, or -errno; -ETIMEDOUT: nothing came.
static int
s_receive (mapped_ring_t *self, int answer_ms)
{
    char answer = 0;
    struct timeval patience = { .tv_sec = answer_ms / 1000, .tv_usec = answer_ms % 1000 * 1000 };
    if (setsockopt (self->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
        return -errno;
    struct iovec part = { .iov_base = &answer, .iov_len = 1 };
    union {
        struct cmsghdr align;
        char bytes [CMSG_SPACE (4 * sizeof (int))];
    } control;
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes };
    ssize_t got;
    do
        got = recvmsg (self->socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN? -ETIMEDOUT: -errno;
    int descriptor = s_take_descriptor (&message);
    if (descriptor >= 0 && (got != 1 || answer != 'R')) {
        close (descriptor);
        descriptor = -EPROTO;
    }
    return descriptor;
}

static int
s_reserve (mapped_ring_t *self, size_t bytes)
{
    void *data = mmap (NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return -errno;
    self->data = data;
    self->bytes = bytes;
    return 0;
}

static int
s_map (mapped_ring_t *self, int descriptor)
{
    //  A file that is shorter than the ring would be SIGBUS in the user's loop.
    struct stat status;
    if (fstat (descriptor, &status))
        return -errno;
    if (!S_ISREG (status.st_mode) || status.st_size < 0 || (size_t) status.st_size < self->bytes)
        return -EPROTO;
    void *data = mmap (self->data, self->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor,
        0);
    if (data == MAP_FAILED)
        return -errno;
    self->mapped = true;
    return 0;
}

int
mapped_ring_new (mapped_ring_t **self_p, const char *path, uid_t server, const char *token, size_t bytes,
    int answer_ms)
{
    assert (self_p && path && token && bytes && answer_ms > 0);
    *self_p = NULL;
    mapped_ring_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->magic = MAPPED_RING_MAGIC;
    self->socket = -1;
    int descriptor = -1;
    int rc = s_reserve (self, bytes);
    if (rc) goto exit;
    rc = s_connect (self, path);
    if (rc) goto exit;
    //  The path is the server's word, also of one on another machine: any user may have made it here.
    uid_t peer = trust_peer (self->socket);
    rc = peer != TRUST_NOBODY && (trust_is_ours (peer) || peer == server)? 0: -EPERM;
    if (rc) goto exit;
    rc = s_send_token (self, token);
    if (rc) goto exit;
    rc = descriptor = s_receive (self, answer_ms < MAPPED_RING_ANSWER_MS? answer_ms: MAPPED_RING_ANSWER_MS);
    if (rc < 0) goto exit;
    rc = s_map (self, descriptor);
    *self_p = self;                 //  also without a ring: the server counts on the socket now
    self = NULL;
exit:
    if (descriptor >= 0)
        close (descriptor);
    mapped_ring_destroy (&self);
    return rc;
}

void
mapped_ring_destroy (mapped_ring_t **self_p)
{
    mapped_ring_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAPPED_RING_MAGIC);
    mapped_ring_close_socket (self);
    if (self->data)
        munmap (self->data, self->bytes);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

uint8_t *
mapped_ring_data (const mapped_ring_t *self)
{
    assert (self && self->magic == MAPPED_RING_MAGIC);
    return self->mapped? self->data: NULL;
}

int
mapped_ring_socket (const mapped_ring_t *self)
{
    assert (self && self->magic == MAPPED_RING_MAGIC);
    return self->socket;
}

bool
mapped_ring_is_over (const mapped_ring_t *self)
{
    assert (self && self->magic == MAPPED_RING_MAGIC);
    char waste [64];
    ssize_t got = recv (self->socket, waste, sizeof waste, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

void
mapped_ring_close_socket (mapped_ring_t *self)
{
    assert (self && self->magic == MAPPED_RING_MAGIC);
    if (self->socket >= 0)
        close (self->socket);
    self->socket = -1;
}
