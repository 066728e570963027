#include "address.h"
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
#include "runtime_folder.h"
#include "trust.h"

enum { ADDRESS_CONNECT_MS = 1000, ADDRESS_STAT_BYTES = 512 };

//  The default address; the length that it would have, as snprintf.
static int
s_default (char address [ADDRESS_BYTES])
{
    char folder [PATH_MAX];
    int length = runtime_folder_default (folder, sizeof folder);
    if (length < 0 || (size_t) length >= sizeof folder)
        return ADDRESS_BYTES;
    return snprintf (address, ADDRESS_BYTES, "ipc://%s/server.sock", folder);
}

bool
address_resolve (const char *given, char address [ADDRESS_BYTES], message_error_t *error)
{
    assert (address);
    if (!given || !*given)
        given = getenv ("TUREEN_ENDPOINT");
    int length = given && *given? snprintf (address, ADDRESS_BYTES, "%s", given): s_default (address);
    if (length < 0 || length >= ADDRESS_BYTES)
        return message_fail (error, "the endpoint is longer than %d bytes", ADDRESS_BYTES - 1);
    if (strncmp (address, "ipc://", 6) && strncmp (address, "tcp://", 6))
        return message_fail (error, "endpoint \"%.200s\": expected ipc://PATH or tcp://HOST:PORT", address);
    return true;
}

//  The command that starts a server there: what follows a data set.  The default address needs no --listen.
static void
s_listen (const char *address, char text [ADDRESS_BYTES])
{
    char usual [ADDRESS_BYTES];
    bool is_default = s_default (usual) < ADDRESS_BYTES && !strcmp (address, usual);
    bool is_tcp = !strncmp (address, "tcp://", 6);
    text [0] = 0;
    if (!is_default)
        snprintf (text, ADDRESS_BYTES, " --listen %.150s%s", address, is_tcp? " --keys DIR": "");
}

bool
address_absent (const char *address, const char *how, message_error_t *error)
{
    char listen [ADDRESS_BYTES];
    s_listen (address, listen);
    return message_fail (error, "no server is at %.150s: %s; start one with: "
        "tureen serve --dataset NAME=DIRECTORY%s", address, how, listen);
}

bool
address_fail (const char *address, int timeout_ms, message_error_t *error)
{
    char listen [ADDRESS_BYTES];
    s_listen (address, listen);
    //  A server does not answer users that it does not serve, so that they learn nothing.
    char user [64] = "";
    if (!strncmp (address, "ipc://", 6))
        snprintf (user, sizeof user, ", or it does not serve user %u", (unsigned) geteuid ());
    return message_fail (error, "no server answered at %.150s within %g seconds%s; start one with: "
        "tureen serve --dataset NAME=DIRECTORY%s", address, timeout_ms / 1e3, user, listen);
}


//  ---- what is there where no server has answered

__attribute__ ((format (printf, 3, 4)))
static address_use_t
s_say (address_use_t use, char text [ADDRESS_HOW_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (text, ADDRESS_HOW_BYTES, format, arguments);
    va_end (arguments);
    return use;
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
    char name [64], text [ADDRESS_STAT_BYTES];
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
s_is_locked (const char *path, const char *doing, char text [ADDRESS_HOW_BYTES])
{
    char name [ADDRESS_BYTES + 8], numbers [48], *end = numbers;
    snprintf (name, sizeof name, "%s.lock", path);
    if (!s_read (trust_open (name), numbers, sizeof numbers))
        return false;
    long process = strtol (numbers, &end, 10), parent = strtol (end, NULL, 10);
    if (s_is_server (process))
        s_say (ADDRESS_STARTING, text, "process %ld has locked it and does not listen yet: %s", process,
            doing);
    else if (s_is_server (parent))
        s_say (ADDRESS_STARTING, text, "its server has died, and process %ld starts it again", parent);
    else
        return false;
    return true;
}

static address_use_t
s_look_without_socket (const char *path, char text [ADDRESS_HOW_BYTES])
{
    if (s_is_locked (path, "it is reading its data sets", text))
        return ADDRESS_STARTING;
    char folder [ADDRESS_BYTES];
    snprintf (folder, sizeof folder, "%s", path);
    char *slash = strrchr (folder, '/');
    if (slash)
        slash [slash == folder] = 0;
    struct stat status;
    if (slash && stat (folder, &status))
        return s_say (ADDRESS_VACANT, text,
            "there is no folder %.120s: no server has been started there, or in a container it is "
            "not mounted", folder);
    return s_say (ADDRESS_VACANT, text,
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

static address_use_t
s_look_at_path (const char *path, char text [ADDRESS_HOW_BYTES])
{
    struct stat status;
    if (stat (path, &status)) {
        if (errno == EACCES)
            return s_say (ADDRESS_VACANT, text,
                "user %u may not look into its folder: a server is its user's alone, or its "
                "group's", (unsigned) geteuid ());
        return s_look_without_socket (path, text);
    }
    if (!S_ISSOCK (status.st_mode))
        return s_say (ADDRESS_VACANT, text, "%.150s is there and is no socket", path);
    int rc = s_try_path (path);
    if (rc == -ECONNREFUSED && s_is_locked (path, "it is starting", text))
        return ADDRESS_STARTING;
    if (rc == -ECONNREFUSED)
        return s_say (ADDRESS_VACANT, text,
            "the socket is there, and nothing listens at it: its server has died");
    if (rc == -EACCES)
        return s_say (ADDRESS_VACANT, text,
            "the socket belongs to user %u, and user %u may not use it: a server is its user's "
            "alone, or its group's where it has one", (unsigned) status.st_uid, (unsigned) geteuid ());
    //  -EAGAIN: so many wait to be let in that there is no room for another.
    return s_say (ADDRESS_IN_USE, text,
        "a server listens there, but it does not answer: it is stopped or very busy, or it "
        "does not serve user %u", (unsigned) geteuid ());
}

//  0, or -errno of a connection to one of a name's addresses, which takes ADDRESS_CONNECT_MS at most.
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
        if (poll (&item, 1, ADDRESS_CONNECT_MS) > 0)
            getsockopt (descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
        rc = -error;
    }
    close (descriptor);
    return rc;
}

static address_use_t
s_look_at_port (const char *address, char text [ADDRESS_HOW_BYTES])
{
    char host [ADDRESS_BYTES];
    snprintf (host, sizeof host, "%s", address);
    char *port = strrchr (host, ':');
    if (!port || !isdigit ((unsigned char) port [1]))
        return s_say (ADDRESS_VACANT, text, "it has no port: give tcp://HOST:PORT");
    *port++ = 0;
    char *name = host + (*host == '[');
    if (*host == '[')
        name [strcspn (name, "]")] = 0;
    struct addrinfo *found = NULL, hints = { .ai_socktype = SOCK_STREAM };
    int rc = getaddrinfo (name, port, &hints, &found);
    if (rc)
        return s_say (ADDRESS_VACANT, text, "that host cannot be found (%s): is the name right?",
            gai_strerror (rc));
    rc = s_try_address (found);
    for (const struct addrinfo *next = found->ai_next; rc == -ECONNREFUSED && next; next = next->ai_next)
        rc = s_try_address (next);
    freeaddrinfo (found);
    if (rc == -ECONNREFUSED)
        return s_say (ADDRESS_VACANT, text,
            "that host refuses the connection, so nothing listens on the port");
    if (rc)
        return s_say (ADDRESS_VACANT, text,
            "that host cannot be reached (%s): is the name right, does a firewall stand between?",
            strerror (-rc));
    return s_say (ADDRESS_IN_USE, text,
        "something listens there, but it is no Tureen server, or it is too busy to answer");
}

address_use_t
address_look (const char *address, char text [ADDRESS_HOW_BYTES])
{
    assert (address && text);
    if (!strncmp (address, "tcp://", 6))
        return s_look_at_port (address + 6, text);
    assert (!strncmp (address, "ipc://", 6));
    return s_look_at_path (address + 6, text);
}

bool
address_is_starting (const char *address, char text [ADDRESS_HOW_BYTES])
{
    return !strncmp (address, "ipc://", 6) && address_look (address, text) == ADDRESS_STARTING;
}
