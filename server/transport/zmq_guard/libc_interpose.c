/*  libc_interpose -- accept4, recv and close as ZeroMQ calls them, in front of the C library's.
 *
 *  libzmq 4.3.4 aborts the process when a connection on an ipc socket cannot be accepted because the process
 *  has no descriptor left (ipc_listener.cpp does not expect EMFILE), so any peer could end the server by
 *  connecting often enough.  Here that becomes an error that it expects, "the peer has gone meanwhile".  The
 *  peer keeps waiting; the connection limit (connection_limit.h) frees descriptors.
 *
 *  The receive quota (receive_quota.h) records and bounds what ZeroMQ accepts, receives and closes.
 *
 *  The executable's symbols are found before the C library's because libzmq looks them up by name.  The ring
 *  server handles EMFILE by itself and accepts by a direct system call, so its connections are outside the
 *  receive quota.  All these functions make direct system calls: a sanitizer exempts ZeroMQ by the caller's
 *  module, and here the caller would be the server.  Threads: any; no state.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "receive_quota.h"

enum { PAUSE_MS = 1 };              //  the listening socket stays readable: without a pause ZeroMQ's thread
                                    //  would spin

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
    return RECEIVE_QUOTA_REMOTE;
}

int
accept4 (int fd, __SOCKADDR_ARG address, socklen_t *restrict size, int flags)
{
    int rc = (int) syscall (SYS_accept4, fd, address.__sockaddr__, size, flags);
    if (rc >= 0)
        receive_quota_accepted (rc, s_user_of (rc));
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
    if (!receive_quota_may_receive (fd)) {
        errno = ECONNRESET;
        return -1;
    }
    ssize_t received = syscall (SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
    if (received > 0 && !(flags & MSG_PEEK))
        receive_quota_received (fd, buffer, (size_t) received);
    return received;
}

int
close (int fd)
{
    receive_quota_closed (fd);
    return (int) syscall (SYS_close, fd);
}
