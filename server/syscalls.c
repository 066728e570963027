/*  syscalls -- accept4, recv and close as ZeroMQ calls them, in front of the C library's.
 *
 *  libzmq 4.3.4 aborts the process when a connection on an ipc socket cannot be accepted because the process has no descriptor
 *  left (ipc_listener.cpp: EMFILE is not among the errors that it foresees), so that whoever may connect could end the server by
 *  connecting often enough.  Here that becomes an error that it foresees, "the peer has gone meanwhile".  The peer waits on; the
 *  crowd (crowd.h) sees to it that there are descriptors again.
 *
 *  What it accepts, receives and closes is written down, and bounded, by the ledger (ledger.h).
 *
 *  The executable's symbols are found before the C library's because libzmq looks them up by name; the door, which can wait by itself,
 *  accepts by asking the kernel directly, so its connections are none of the ledger's.  recv and close go on to who would have been
 *  called without this file, which may be a sanitizer.
 *  Threads: any; no state.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "ledger.h"

enum { PAUSE_MS = 1 };              //  the listening socket stays readable: without a pause ZeroMQ's thread would spin

typedef ssize_t (recv_fn) (int fd, void *buffer, size_t size, int flags);
typedef int (close_fn) (int fd);

//  As it stands in the manual page of dlsym: C has no other way from a pointer to a function.
static recv_fn *
s_recv (void)
{
    recv_fn *next;
    *(void **) &next = dlsym (RTLD_NEXT, "recv");
    return next;
}

static close_fn *
s_close (void)
{
    close_fn *next;
    *(void **) &next = dlsym (RTLD_NEXT, "close");
    return next;
}

static uint64_t
s_user_of (int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    int domain = 0;
    socklen_t domain_size = sizeof domain;
    if (getsockopt (fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) == 0 && domain == AF_UNIX
    &&  getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
        return peer.uid;
    return LEDGER_REMOTE;
}

int
accept4 (int fd, __SOCKADDR_ARG address, socklen_t *restrict size, int flags)
{
    int rc = (int) syscall (SYS_accept4, fd, address.__sockaddr__, size, flags);
    if (rc >= 0)
        ledger_accepted (rc, s_user_of (rc));
    else
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        poll (NULL, 0, PAUSE_MS);
        errno = ECONNABORTED;
    }
    return rc;
}

ssize_t
recv (int fd, void *buffer, size_t size, int flags)
{
    static recv_fn *next;
    recv_fn *call = __atomic_load_n (&next, __ATOMIC_ACQUIRE);
    if (!call) {
        call = s_recv ();
        __atomic_store_n (&next, call, __ATOMIC_RELEASE);
    }
    if (!ledger_may_receive (fd)) {
        errno = ECONNRESET;
        return -1;
    }
    ssize_t received = call (fd, buffer, size, flags);
    if (received > 0 && !(flags & MSG_PEEK))
        ledger_received (fd, buffer, (size_t) received);
    return received;
}

int
close (int fd)
{
    static close_fn *next;
    close_fn *call = __atomic_load_n (&next, __ATOMIC_ACQUIRE);
    if (!call) {
        call = s_close ();
        __atomic_store_n (&next, call, __ATOMIC_RELEASE);
    }
    ledger_closed (fd);
    return call (fd);
}
