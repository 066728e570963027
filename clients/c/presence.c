#include "presence.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "address.h"
#include "trust.h"

enum { PRESENCE_CONNECT_MS = 1000, PRESENCE_STAT_BYTES = 512 };

__attribute__ ((format (printf, 3, 4)))
static presence_t
s_say (presence_t presence, char text [PRESENCE_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (text, PRESENCE_BYTES, format, arguments);
    va_end (arguments);
    return presence;
}

//  The first bytes of a small file as text, and closes it; false: it cannot be read, or was not opened.
static bool
s_read (int file, char *text, size_t size)
{
    ssize_t got = file < 0? 0: read (file, text, size - 1);
    text [got > 0? got: 0] = 0;
    if (file >= 0)
        close (file);
    return got > 0;
}

//  A lock file may be a dead server's, or come from another container: then the number is another process's,
//  or no process's.
static bool
s_is_server (long process)
{
    char name [64], text [PRESENCE_STAT_BYTES];
    snprintf (name, sizeof name, "/proc/%ld/stat", process);
    if (process <= 0 || !s_read (open (name, O_RDONLY | O_CLOEXEC), text, sizeof text)
    ||  !strstr (text, "(tureen"))
        return false;
    const char *end = strrchr (text, ')');
    return end && !(end [1] && (end [2] == 'Z' || end [2] == 'X'));
}

//  A socket's lock file names its server's process, and the parent of that, which is called like it where it
//  is the supervisor.
//  True: one of the two lives; which, and what it does, is said.
static bool
s_is_locked (const char *path, const char *doing, char text [PRESENCE_BYTES])
{
    char name [ADDRESS_BYTES + 8], numbers [48], *end = numbers;
    snprintf (name, sizeof name, "%s.lock", path);
    if (!s_read (trust_open (name), numbers, sizeof numbers))
        return false;
    long process = strtol (numbers, &end, 10), parent = strtol (end, NULL, 10);
    if (s_is_server (process))
        s_say (PRESENCE_STARTING, text, "process %ld has locked it and does not listen yet: %s", process,
            doing);
    else if (s_is_server (parent))
        s_say (PRESENCE_STARTING, text, "its server has died, and process %ld starts it again", parent);
    else
        return false;
    return true;
}

static presence_t
s_look_without_socket (const char *path, char text [PRESENCE_BYTES])
{
    if (s_is_locked (path, "it is reading its data sets", text))
        return PRESENCE_STARTING;
    char folder [ADDRESS_BYTES];
    snprintf (folder, sizeof folder, "%s", path);
    char *slash = strrchr (folder, '/');
    if (slash)
        slash [slash == folder] = 0;
    struct stat status;
    if (slash && stat (folder, &status))
        return s_say (PRESENCE_NONE, text,
            "there is no folder %.120s: no server has been started there, or in a container it is "
            "not mounted", folder);
    return s_say (PRESENCE_NONE, text,
        "there is no such socket: no server is running, or it listens elsewhere (see its log, "
        "--listen, TUREEN_ENDPOINT)");
}

//  Connects at once or not at all: 0, or -errno.
static int
s_try_path (const char *path)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    if (strlen (path) >= sizeof name.sun_path)
        return -ENAMETOOLONG;
    memcpy (name.sun_path, path, strlen (path) + 1);
    int descriptor = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return -errno;
    int rc = connect (descriptor, (const struct sockaddr *) &name, sizeof name)? -errno: 0;
    close (descriptor);
    return rc;
}

static presence_t
s_look_at_path (const char *path, char text [PRESENCE_BYTES])
{
    struct stat status;
    if (stat (path, &status)) {
        if (errno == EACCES)
            return s_say (PRESENCE_NONE, text,
                "user %u may not look into its folder: a server is its user's alone, or its "
                "group's", (unsigned) geteuid ());
        return s_look_without_socket (path, text);
    }
    if (!S_ISSOCK (status.st_mode))
        return s_say (PRESENCE_NONE, text, "%.150s is there and is no socket", path);
    int rc = s_try_path (path);
    if (rc == -ECONNREFUSED && s_is_locked (path, "it is starting", text))
        return PRESENCE_STARTING;
    if (rc == -ECONNREFUSED)
        return s_say (PRESENCE_NONE, text,
            "the socket is there, and nothing listens at it: its server has died");
    if (rc == -EACCES)
        return s_say (PRESENCE_NONE, text,
            "the socket belongs to user %u, and user %u may not use it: a server is its user's "
            "alone, or its group's where it has one", (unsigned) status.st_uid, (unsigned) geteuid ());
    //  -EAGAIN: so many wait to be let in that there is no room for another.
    return s_say (PRESENCE_SOMETHING, text,
        "a server listens there, but it does not answer: it is stopped or very busy, or it "
        "does not serve user %u", (unsigned) geteuid ());
}

//  0, or -errno of a connection to one of a name's addresses, which takes PRESENCE_CONNECT_MS at most.
static int
s_try_address (const struct addrinfo *info)
{
    int descriptor = socket (info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return -errno;
    int rc = connect (descriptor, info->ai_addr, info->ai_addrlen)? -errno: 0;
    struct pollfd item = { .fd = descriptor, .events = POLLOUT };
    if (rc == -EINPROGRESS) {
        int error = ETIMEDOUT;
        socklen_t size = sizeof error;
        if (poll (&item, 1, PRESENCE_CONNECT_MS) > 0)
            getsockopt (descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
        rc = -error;
    }
    close (descriptor);
    return rc;
}

static presence_t
s_look_at_port (const char *address, char text [PRESENCE_BYTES])
{
    char host [ADDRESS_BYTES];
    snprintf (host, sizeof host, "%s", address);
    char *port = strrchr (host, ':');
    if (!port || !isdigit ((unsigned char) port [1]))
        return s_say (PRESENCE_NONE, text, "it has no port: give tcp://HOST:PORT");
    *port++ = 0;
    char *name = host + (*host == '[');
    if (*host == '[')
        name [strcspn (name, "]")] = 0;
    struct addrinfo *found = NULL, hints = { .ai_socktype = SOCK_STREAM };
    int rc = getaddrinfo (name, port, &hints, &found);
    if (rc)
        return s_say (PRESENCE_NONE, text, "that host cannot be found (%s): is the name right?",
            gai_strerror (rc));
    rc = s_try_address (found);
    for (const struct addrinfo *next = found->ai_next; rc == -ECONNREFUSED && next; next = next->ai_next)
        rc = s_try_address (next);
    freeaddrinfo (found);
    if (rc == -ECONNREFUSED)
        return s_say (PRESENCE_NONE, text,
            "that host refuses the connection, so nothing listens on the port");
    if (rc)
        return s_say (PRESENCE_NONE, text,
            "that host cannot be reached (%s): is the name right, does a firewall stand between?",
            strerror (-rc));
    return s_say (PRESENCE_SOMETHING, text,
        "something listens there, but it is no Tureen server, or it is too busy to answer");
}

presence_t
presence_look (const char *address, char text [PRESENCE_BYTES])
{
    assert (address && text);
    if (!strncmp (address, "tcp://", 6))
        return s_look_at_port (address + 6, text);
    assert (!strncmp (address, "ipc://", 6));
    return s_look_at_path (address + 6, text);
}

bool
presence_is_starting (const char *address, char text [PRESENCE_BYTES])
{
    return !strncmp (address, "ipc://", 6) && presence_look (address, text) == PRESENCE_STARTING;
}
