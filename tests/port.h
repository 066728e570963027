/*  port -- a port at which nothing listens, for a test that listens a little later.
 *
 *  It is below those that the system gives to connections and for port 0 (from 32768 on): one of these may be
 *  given to another test before this one listens.
 */
#ifndef PORT_H
#define PORT_H
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_FIRST = 20000, PORT_PROCESSES = 10000, PORT_TRIES = 100 };

//  0: none is free.  Processes begin at different ports.
static inline unsigned
port_find (void)
{
    unsigned first = PORT_FIRST + (unsigned) getpid () % PORT_PROCESSES;
    for (unsigned port = first; port < first + PORT_TRIES; port++) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons ((uint16_t) port),
            .sin_addr.s_addr = htonl (INADDR_ANY) };
        int probe = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int rc = bind (probe, (struct sockaddr *) &address, sizeof address);
        close (probe);
        if (rc == 0)
            return port;
    }
    return 0;
}

#endif
