#include "address.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

//  --------------------------------------------------------------------------
//  A server that starts: its lock is there, its socket not yet.  The lock's file names its process, and the parent of that, which
//  is called like it where it is the supervisor.  Socket and file are only looked at: taking the lock, even for a moment, would
//  stand in the way of the server.

//  The beginning of a file, as text; "" where there is none.
static void
s_read (const char *path, char *text, size_t size)
{
    int file = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t got = file < 0? 0: read (file, text, size - 1);
    text [got > 0? got: 0] = 0;
    if (file >= 0)
        close (file);
}

//  A lock file may be a dead server's, or come from another container: the number may be any process's here.
static bool
s_is_server (long process)
{
    char path [64], text [128];
    snprintf (path, sizeof path, "/proc/%ld/stat", process);
    s_read (path, text, sizeof text);
    const char *end = strrchr (text, ')');
    return end && strstr (text, "(tureen") && strlen (end) > 2 && !strchr ("ZX", end [2]);
}

static bool
s_listens (const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t length = strlen (path);
    if (length >= sizeof address.sun_path)
        return false;
    memcpy (address.sun_path, path, length + 1);
    int probe = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    //  Any other error is of a socket at which a process listens: its queue is full, or we may not use it.
    bool found = probe >= 0 && (!connect (probe, (struct sockaddr *) &address, sizeof address)
        || (errno != ENOENT && errno != ECONNREFUSED));
    if (probe >= 0)
        close (probe);
    return found;
}

bool
address_is_starting (const char *address, message_error_t *what)
{
    assert (address && what);
    if (strncmp (address, "ipc://", 6) || s_listens (address + 6))
        return false;
    char path [ADDRESS_BYTES], text [48], *end;
    snprintf (path, sizeof path, "%s.lock", address + 6);
    s_read (path, text, sizeof text);
    long process = strtol (text, &end, 10), parent = strtol (end, NULL, 10);
    bool is_starting = process > 0 && s_is_server (process), is_supervised = parent > 0 && s_is_server (parent);
    if (is_starting)
        message_fail (what, "the server is starting: process %ld has locked the endpoint and does not listen yet", process);
    else if (is_supervised)
        message_fail (what, "the server has died, and process %ld starts it again", parent);
    return is_starting || is_supervised;
}

//  --------------------------------------------------------------------------
//  Where it is

//  A runtime directory that is set, there, and ours to write to.
static const char *
s_runtime_directory (void)
{
    const char *path = getenv ("XDG_RUNTIME_DIR");
    struct stat status;
    if (!path || *path != '/' || stat (path, &status) || !S_ISDIR (status.st_mode)
    ||  status.st_uid != geteuid () || faccessat (AT_FDCWD, path, W_OK | X_OK, AT_EACCESS))
        return NULL;
    return path;
}

//  The default address; the length that it would have, as snprintf.
static int
s_default (char address [ADDRESS_BYTES])
{
    const char *runtime = s_runtime_directory ();
    if (runtime)
        return snprintf (address, ADDRESS_BYTES, "ipc://%s/tureen/server.sock", runtime);
    return snprintf (address, ADDRESS_BYTES, "ipc:///tmp/tureen-%u/server.sock", (unsigned) geteuid ());
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

//  Needs no --listen to be served.
static bool
s_is_ordinary (const char *address)
{
    char usual [ADDRESS_BYTES];
    return s_default (usual) < ADDRESS_BYTES && !strcmp (address, usual);
}

bool
address_absent (const char *address, const char *how, message_error_t *error)
{
    bool ordinary = s_is_ordinary (address);
    return message_fail (error, "no server is at %.150s: %s; start one with: "
        "tureen serve --dataset NAME=DIRECTORY%s%.150s", address, how, ordinary? "": " --listen ", ordinary? "": address);
}

bool
address_fail (const char *address, int timeout_ms, message_error_t *error)
{
    bool ordinary = s_is_ordinary (address);
    //  A server says nothing to users that it does not serve, so that they learn nothing.
    char whom [64] = "";
    if (!strncmp (address, "ipc://", 6))
        snprintf (whom, sizeof whom, ", or it does not serve user %u", (unsigned) geteuid ());
    return message_fail (error, "no server answered at %.150s within %g seconds%s; start one with: "
        "tureen serve --dataset NAME=DIRECTORY%s%.150s", address, timeout_ms / 1e3, whom,
        ordinary? "": " --listen ", ordinary? "": address);
}
