/*  accepting -- accept4 as ZeroMQ calls it, in front of the C library's.
 *
 *  libzmq 4.3.4 aborts the process when a connection on an ipc socket cannot be accepted because the process has no descriptor
 *  left (ipc_listener.cpp: EMFILE is not among the errors that it foresees), so that whoever may connect could end the server by
 *  connecting often enough.  Here that becomes an error that it foresees, "the peer has gone meanwhile".  The peer waits on; the
 *  crowd (crowd.h) sees to it that there are descriptors again.
 *
 *  The executable's symbol is found before the C library's because libzmq looks it up by name; the door, which can wait by itself,
 *  asks the kernel directly.
 *  Threads: any; no state.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAUSE_MS = 1 };              //  the listening socket stays readable: without a pause ZeroMQ's thread would spin

int
accept4 (int fd, __SOCKADDR_ARG address, socklen_t *restrict size, int flags)
{
    int rc = (int) syscall (SYS_accept4, fd, address.__sockaddr__, size, flags);
    if (rc < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        poll (NULL, 0, PAUSE_MS);
        errno = ECONNABORTED;
    }
    return rc;
}
