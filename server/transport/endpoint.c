/*  endpoint.c -- see endpoint.h.
 *
 *  happy path:  parse -> check that the access is possible -> check the directory (make it if it is ours to
 *               make) -> lock -> remove a dead server's files -> give the directory to the group -> write our
 *               process id to the lock file.
 *  failure:     each step writes its sentence and endpoint_claim undoes the earlier steps; it removes only
 *               our own files.
 *  on close:    sockets, then the lock file while we still hold it, then the directory if it is empty.
 *
 *  A lock can be lost in two ways.  A server that ends removes the lock file between our open and our flock:
 *  our lock would be on a deleted file, so the locked file is compared with the one at the path.  And a
 *  cleaner of /tmp removes the lock file of a live server: so a socket counts as dead only if no process
 *  answers at it.
 */
#include "endpoint.h"
#include "machine.h"
#include "runtime_folder.h"

#include <arpa/inet.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    ENDPOINT_MAGIC = 0x0e4d9014,
    SOCKET_PATH_MAX = sizeof ((struct sockaddr_un *) 0)->sun_path - 1,
    IPC_PATH_MAX = SOCKET_PATH_MAX - 5,     //  PATH.ring is a socket too
    HOST_MAX = 255,
    LOCK_TRIES_MAX = 100,                   //  each failure means that another server has just ended
    GROUPS_MAX = 65536                      //  that a process can be in
};

struct endpoint {
    uint32_t magic;
    bool is_remote;                         //  tcp, and perhaps reachable from other hosts
    bool is_ipc;
    bool in_runtime;                        //  the directory is ours to make
    bool claimed;                           //  sockets at our paths are ours
    bool has_group;
    gid_t group;
    int lock_fd;                            //  -1: not locked
    dev_t lock_device;
    ino_t lock_inode;
    char *text;
    char *directory;
    char *socket_path;                      //  ipc: the socket; tcp: NULL
    char *ring_path;
    char *lock_path;
    char *error;                            //  the caller's, during endpoint_claim
    size_t error_bytes;
};


//  -- words and paths

__attribute__ ((format (printf, 3, 4)))
static int
s_fail (const endpoint_t *self, int rc, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (self->error, self->error_bytes, format, arguments);
    va_end (arguments);
    return rc;
}

//  NULL: no memory.
__attribute__ ((format (printf, 1, 2)))
static char *
s_format (const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start (arguments, format);
    if (vasprintf (&text, format, arguments) < 0)
        text = NULL;
    va_end (arguments);
    return text;
}

int
endpoint_default (char *buffer, size_t size)
{
    assert (buffer); assert (size > 0);
    char directory [PATH_MAX];
    int length = runtime_folder_default (directory, sizeof directory);
    if (length >= 0 && (size_t) length < sizeof directory)
        length = snprintf (buffer, size, "ipc://%s/server.sock", directory);
    else
        length = INT_MAX;
    if (length >= 0 && (size_t) length < size)
        return 0;
    buffer [0] = 0;
    return -ENAMETOOLONG;
}


//  -- parsing

static int
s_parse_ipc (endpoint_t *self, const char *path)
{
    if (path [0] == '@')
        return s_fail (self, -EINVAL, "'%s' is an abstract socket, which no file permission guards: use "
            "ipc:///PATH", self->text);
    if (path [0] != '/')
        return s_fail (self, -EINVAL, "'%s' is no absolute path, and clients run in other folders: use "
            "ipc:///PATH", self->text);
    size_t length = strlen (path);
    if (path [length - 1] == '/')
        return s_fail (self, -EINVAL, "'%s' names a folder: add a file name, e.g. ipc://%sserver.sock",
            self->text, path);
    if (length > IPC_PATH_MAX)
        return s_fail (self, -ENAMETOOLONG, "the path of '%s' has %zu bytes and may have %d (a socket's path "
            "has at most %d, and '.ring' is added): use a shorter one, e.g. "
            "ipc:///tmp/tureen-%u/server.sock", self->text, length, IPC_PATH_MAX, SOCKET_PATH_MAX,
            (unsigned int) geteuid ());
    if (strstr (path, "://"))
        return s_fail (self, -EINVAL, "'%s' looks like two endpoints: write ipc:///PATH,tcp://HOST:PORT, "
            "without a blank", self->text);
    self->is_ipc = true;
    self->socket_path = strdup (path);
    self->ring_path = s_format ("%s.ring", path);
    self->lock_path = s_format ("%s.lock", path);
    const char *slash = strrchr (path, '/');
    self->directory = slash == path? strdup ("/"): strndup (path, (size_t) (slash - path));
    self->in_runtime = self->directory && runtime_folder_is (self->directory);
    return 0;
}

//  1 to 65535 in plain digits, or 0.
static unsigned int
s_parse_port (const char *text)
{
    unsigned int port = 0;
    for (size_t index = 0; text [index]; index++) {
        if (text [index] < '0' || text [index] > '9' || index == 5)
            return 0;
        port = port * 10 + (unsigned int) (text [index] - '0');
    }
    return port <= 65535? port: 0;
}

//  True unless the address certainly belongs to this host alone.
static bool
s_host_is_remote (const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    char plain [HOST_MAX + 1];
    if (strcasecmp (host, "localhost") == 0)
        return false;
    if (inet_pton (AF_INET, host, &four) == 1)
        return ntohl (four.s_addr) >> 24 != 127;
    size_t length = strlen (host);
    if (length < 2 || host [0] != '[' || host [length - 1] != ']')
        return true;
    memcpy (plain, host + 1, length - 2);
    plain [length - 2] = 0;
    return inet_pton (AF_INET6, plain, &six) != 1 || !IN6_IS_ADDR_LOOPBACK (&six);
}

static int
s_tcp_paths (endpoint_t *self, unsigned int port)
{
    char directory [PATH_MAX];
    int length = runtime_folder_default (directory, sizeof directory);
    if (length < 0 || (size_t) length >= sizeof directory
    ||  (size_t) length + sizeof "/tcp-65535.ring" - 1 > SOCKET_PATH_MAX)
        return s_fail (self, -ENAMETOOLONG, "XDG_RUNTIME_DIR is too long for a socket's path (%d bytes): "
            "unset it, and /tmp/tureen-%u is used", SOCKET_PATH_MAX, (unsigned int) geteuid ());
    self->in_runtime = true;
    self->directory = strdup (directory);
    self->ring_path = s_format ("%s/tcp-%u.ring", directory, port);
    self->lock_path = s_format ("%s/tcp-%u.lock", directory, port);
    return 0;
}

static int
s_parse_tcp (endpoint_t *self, const char *address)
{
    const char *colon = strrchr (address, ':');
    size_t host_length = colon? (size_t) (colon - address): 0;
    char host [HOST_MAX + 1] = "";
    if (host_length > 0 && host_length <= HOST_MAX)
        memcpy (host, address, host_length);
    if (!host [0] || strchr (host, ';') || (strchr (host, ':') && host [0] != '['))
        return s_fail (self, -EINVAL, "'%s' is not tcp://HOST:PORT (an IPv6 address stands in brackets), "
            "e.g. tcp://127.0.0.1:5555", self->text);
    unsigned int port = s_parse_port (colon + 1);
    if (port == 0)
        return s_fail (self, -EINVAL, "'%s' has no port from 1 to 65535, and clients could not know another: "
            "e.g. tcp://%s:5555", self->text, host);
    self->is_remote = s_host_is_remote (host);
    //  ZeroMQ resolves names when it connects, but not when it binds.
    if (strcasecmp (host, "localhost") == 0) {
        free (self->text);
        self->text = s_format ("tcp://127.0.0.1:%u", port);
    }
    return s_tcp_paths (self, port);
}

static int
s_parse (endpoint_t *self)
{
    int rc;
    if (strncmp (self->text, "ipc://", 6) == 0)
        rc = s_parse_ipc (self, self->text + 6);
    else
    if (strncmp (self->text, "tcp://", 6) == 0)
        rc = s_parse_tcp (self, self->text + 6);
    else
        rc = s_fail (self, -EPROTONOSUPPORT, "'%s' is neither ipc:///PATH nor tcp://HOST:PORT", self->text);
    if (rc == 0 && !(self->text && self->directory && self->ring_path && self->lock_path
    &&  (self->socket_path || !self->is_ipc)))
        rc = s_fail (self, -ENOMEM, "not enough memory to listen: free some");
    return rc;
}


//  -- access

static int
s_check_tcp (const endpoint_t *self, const endpoint_access_t *access)
{
    if (access->group && !access->is_one_of_two)
        return s_fail (self, -EACCES,
            "group '%s' is for sockets with a path, and '%s' has none: listen on ipc as well (--listen "
            "ipc:///PATH,%s), or let keys in (--keys DIR) in place of the group", access->group, self->text,
            self->text);
    if (access->users && !access->is_one_of_two)
        return s_fail (self, -EACCES,
            "tenants have users of this machine, but the user of a client at '%s' is not known: listen on "
            "ipc as well (--listen ipc:///PATH,%s), or give them - in place of users (--tenant NAME=-), and "
            "keys (tureen key allow)", self->text, self->text);
    if (access->keys)
        return 0;
    if (!access->open)
        return s_fail (self, -EACCES,
            "every program that reaches '%s' could read the data sets: admit only clients with a key "
            "(--keys DIR, see tureen key --help)%s", self->text,
            self->is_remote? "": ", or say that every user and program of this machine "
            "may (--open)");
    if (self->is_remote)
        return s_fail (self, -EACCES,
            "'%s' can be reached from other machines, and open is for this machine alone: admit only "
            "clients with a key (--keys DIR in place of --open), or listen at tcp://127.0.0.1:PORT",
            self->text);
    return 0;
}

//  A process can give files to groups that it is in; root to any.
static bool
s_is_in_group (gid_t group)
{
    if (geteuid () == 0 || getegid () == group)
        return true;
    gid_t *groups = malloc (GROUPS_MAX * sizeof *groups);
    int count = groups? getgroups (GROUPS_MAX, groups): 0;
    bool found = false;
    for (int index = 0; index < count && !found; index++)
        found = groups [index] == group;
    free (groups);
    return found;
}

//  Members of the group cannot reach our folder through a folder that only its owner may enter: returns such
//  a folder on the path; "": none.
static void
s_closed_folder (const char *path, char closed [PATH_MAX])
{
    struct stat status;
    snprintf (closed, PATH_MAX, "%s", path);
    for (char *slash = strrchr (closed, '/'); slash; slash = strrchr (closed, '/')) {
        *slash = 0;
        if (*closed && stat (closed, &status) == 0 && (status.st_mode & 011) == 0)
            return;
    }
    *closed = 0;
}

static int
s_check_ipc (const endpoint_t *self, const endpoint_access_t *access)
{
    char closed [PATH_MAX];
    if (access->keys && !access->is_one_of_two)
        return s_fail (self, -EACCES,
            "keys are for tcp, and at '%s' users are told apart by the system: take --keys out, or "
            "listen on tcp as well (--listen %s,tcp://HOST:PORT)", self->text, self->text);
    if (access->users && !access->group)
        return s_fail (self, -EACCES,
            "tenants have other users than the server's own, and those could not reach '%s': name a "
            "group that all of them are in (--group NAME)", self->text);
    if (!access->group)
        return 0;
    if (!s_is_in_group (access->group_id))
        return s_fail (self, -EACCES,
            "the server's user, %u, is not in group '%s', and could not give it the sockets: make "
            "it a member (usermod -a -G, then log in anew), or name another group", (unsigned int) geteuid (),
            access->group);
    s_closed_folder (self->directory, closed);
    if (*closed)
        return s_fail (self, -EACCES,
            "group '%s' could not reach '%s', because the folder '%s' is its owner's alone: listen in "
            "another, e.g. --listen ipc:///run/tureen/server.sock", access->group, self->text, closed);
    return 0;
}


//  -- the directory

//  Whether only the owner (and root) can replace our files: other users may not write there, or it is sticky.
static int
s_check_owner (const endpoint_t *self, const struct stat *status)
{
    const char *path = self->directory;
    if (!S_ISDIR (status->st_mode))
        return s_fail (self, -ENOTDIR, "'%s' is not a folder%s: remove it or listen elsewhere", path,
            S_ISLNK (status->st_mode)? " but a link": "");
    if (status->st_uid != geteuid () && (status->st_uid != 0 || self->in_runtime))
        return s_fail (self, -EPERM, "the folder '%s' belongs to user %u: listen in one of your own", path,
            (unsigned int) status->st_uid);
    if (runtime_folder_lets_replace (status, self->in_runtime))
        return s_fail (self, -EPERM, "others may write to the folder '%s': chmod go-w '%s', or listen in "
            "another", path, path);
    return 0;
}

//  The group may enter; other users have no access.
static bool
s_is_for_group (const endpoint_t *self, const struct stat *status)
{
    return status->st_gid == self->group && (status->st_mode & 027) == 0 && (status->st_mode & 010);
}

static int
s_check_group (const endpoint_t *self, const struct stat *status)
{
    const char *path = self->directory;
    if (s_is_for_group (self, status))
        return 0;
    return s_fail (self, -EPERM,
        "only the group may be allowed to enter the folder '%s' (now: group %u, mode %04o): "
        "chgrp %u '%s' && chmod 0750 '%s', or listen in another", path, (unsigned int) status->st_gid,
        (unsigned int) status->st_mode & 07777, (unsigned int) self->group, path, path);
}

//  -EAGAIN: it disappeared between two calls.
static int
s_prepare_directory (endpoint_t *self)
{
    if (self->in_runtime && mkdir (self->directory, 0700) != 0 && errno != EEXIST)
        return s_fail (self, -errno, "cannot make the folder '%s' (%s): listen elsewhere with --listen",
            self->directory, strerror (errno));
    struct stat status;
    int rc = self->in_runtime? lstat (self->directory, &status): stat (self->directory, &status);
    if (rc == 0) {
        rc = s_check_owner (self, &status);
        return rc == 0 && self->has_group && !self->in_runtime? s_check_group (self, &status): rc;
    }
    if (errno == ENOENT && self->in_runtime)
        return -EAGAIN;
    if (errno == ENOENT)
        return s_fail (self, -ENOENT, "there is no folder '%s': make it, or listen elsewhere",
            self->directory);
    return s_fail (self, -errno, "cannot look at the folder '%s' (%s): listen elsewhere", self->directory,
        strerror (errno));
}


//  -- the lock

static int
s_fail_live (const endpoint_t *self, long process)
{
    char holder [40] = "";
    if (process > 0)
        snprintf (holder, sizeof holder, " (process %ld)", process);
    return s_fail (self, -EADDRINUSE, "a live server%s listens at '%s': stop it, or listen elsewhere", holder,
        self->text);
}

//  The process id in the lock file; 0: none.
static long
s_lock_holder (int fd)
{
    char text [24];
    ssize_t size = pread (fd, text, sizeof text - 1, 0);
    text [size > 0? size: 0] = 0;
    long process = strtol (text, NULL, 10);
    return process > 0? process: 0;
}

//  There is no lock file, and none can be made.
static int
s_fail_to_make (const endpoint_t *self, int rc)
{
    char remedy [64] = "";
    if (rc == -EACCES || rc == -EPERM)
        snprintf (remedy, sizeof remedy, "let user %u write there, or ", (unsigned int) geteuid ());
    else
    if (rc == -ENOSPC || rc == -EDQUOT)
        snprintf (remedy, sizeof remedy, "free some space there, or ");
    return s_fail (self, rc, "cannot make a file in the folder '%s' (%s): %slisten in another one, with "
        "--listen ipc:///FOLDER/server.sock", self->directory, strerror (-rc), remedy);
}

//  A descriptor; or -EAGAIN: the file, or the runtime directory, disappeared between two calls.
static int
s_lock_open (const endpoint_t *self, bool *created_p)
{
    //  NONBLOCK and NOFOLLOW: in a sticky directory other users may have put a fifo or a link there.
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open (self->lock_path, flags | O_CREAT | O_EXCL, 0600);
    *created_p = fd >= 0;
    if (fd < 0 && errno == ENOENT && self->in_runtime)
        return -EAGAIN;
    if (fd < 0 && errno == EEXIST) {
        fd = open (self->lock_path, flags, 0);
        if (fd < 0 && errno == ENOENT)
            return -EAGAIN;
    }
    if (fd >= 0)
        return fd;
    int rc = -errno;
    if (faccessat (AT_FDCWD, self->lock_path, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return s_fail_to_make (self, rc);
    return s_fail (self, rc, "cannot open the lock file '%s' (%s): remove it if it is not yours, or "
        "listen elsewhere", self->lock_path, strerror (-rc));
}

//  Locks fd and checks that it is still the file at the path.  -EAGAIN: it is not.
static int
s_lock_take (endpoint_t *self, int fd)
{
    struct stat ours, found;
    //  A second name: another user has linked a file of ours here for us to overwrite.
    if (fstat (fd, &ours) != 0 || !S_ISREG (ours.st_mode) || ours.st_uid != geteuid () || ours.st_nlink > 1)
        return s_fail (self, -EPERM, "the lock file '%s' is not a file of yours: remove it, or listen "
            "elsewhere", self->lock_path);
    if (flock (fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return s_fail_live (self, s_lock_holder (fd));
        if (errno == EINTR)
            return -EAGAIN;
        return s_fail (self, -errno, "cannot lock '%s' (%s): listen on a local file system", self->lock_path,
            strerror (errno));
    }
    if (lstat (self->lock_path, &found) != 0 || found.st_dev != ours.st_dev || found.st_ino != ours.st_ino)
        return -EAGAIN;
    self->lock_device = ours.st_dev;
    self->lock_inode = ours.st_ino;
    return 0;
}

//  Makes the directory and takes the lock; retries while a server that ends removes them.
static int
s_lock (endpoint_t *self)
{
    for (int tries = 0; tries < LOCK_TRIES_MAX; tries++) {
        bool created = false;
        int rc = s_prepare_directory (self);
        int fd = rc? rc: s_lock_open (self, &created);
        rc = fd < 0? fd: s_lock_take (self, fd);
        if (rc == 0) {
            self->lock_fd = fd;
            return 0;
        }
        //  Removes our useless file, unless another server has locked it first.
        if (created && rc != -EAGAIN && rc != -EADDRINUSE)
            unlink (self->lock_path);
        if (fd >= 0)
            close (fd);
        if (rc != -EAGAIN)
            return rc;
    }
    return s_fail (self, -EAGAIN, "the lock file '%s' keeps changing: find the program that removes it",
        self->lock_path);
}

static int
s_sign (const endpoint_t *self)
{
    char text [48];
    int length = snprintf (text, sizeof text, "%ld %ld\n", (long) getpid (), (long) getppid ());
    if (ftruncate (self->lock_fd, 0) == 0 && pwrite (self->lock_fd, text, (size_t) length, 0) == length)
        return 0;
    return s_fail (self, -EIO, "cannot write to the lock file '%s'%s", self->lock_path,
        machine_file_bytes () < (uint64_t) length? machine_remedy (EFBIG):
        ": free space, or listen elsewhere");
}


//  -- files of dead servers

//  Asks whether a process listens at a socket.  0: none; or its id, -1 if it is unknown.
static long
s_listener (const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    assert (strlen (path) < sizeof address.sun_path);
    strcpy (address.sun_path, path);
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    long process = 0;
    if (connect (fd, (struct sockaddr *) &address, sizeof address) == 0) {
        struct ucred peer;
        socklen_t peer_size = sizeof peer;
        int rc = getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size);
        process = rc == 0 && peer.pid > 0? peer.pid: -1;
    }
    else
    if (errno != ECONNREFUSED && errno != ENOENT)
        process = -1;
    close (fd);
    return process;
}

//  Removes a socket without a listener; any other file at path is left alone and is an error.
static int
s_clear_socket (const endpoint_t *self, const char *path)
{
    struct stat status;
    if (lstat (path, &status) != 0)
        return errno == ENOENT? 0: s_fail (self, -errno, "cannot look at '%s' (%s): listen elsewhere", path,
            strerror (errno));
    if (!S_ISSOCK (status.st_mode))
        return s_fail (self, -EEXIST, "'%s' exists and is no socket: remove it, or listen elsewhere", path);
    if (status.st_uid != geteuid ())
        return s_fail (self, -EPERM, "the socket '%s' belongs to user %u: listen elsewhere", path,
            (unsigned int) status.st_uid);
    long process = s_listener (path);
    if (process)
        return s_fail_live (self, process);
    if (unlink (path) != 0 && errno != ENOENT)
        return s_fail (self, -errno,
            "cannot remove the stale socket '%s' (%s): remove it, or listen elsewhere", path,
            strerror (errno));
    return 0;
}

//  Whether a server listens in the directory, at another endpoint than ours.
static bool
s_has_neighbours (const endpoint_t *self)
{
    char path [PATH_MAX];
    struct stat status;
    bool found = false;
    DIR *directory = opendir (self->directory);
    for (struct dirent *entry; directory && !found && (entry = readdir (directory));) {
        int length = snprintf (path, sizeof path, "%s/%s", self->directory, entry->d_name);
        found = length > 0 && length <= (int) SOCKET_PATH_MAX && lstat (path, &status) == 0
            && S_ISSOCK (status.st_mode)
            && s_listener (path) != 0;
    }
    if (directory)
        closedir (directory);
    return found;
}

//  A directory that is ours to make becomes the group's, but not while another group's members need it to
//  reach a live server.
static int
s_give_directory (const endpoint_t *self)
{
    const char *path = self->directory;
    struct stat status;
    if (!self->has_group || !self->in_runtime)
        return 0;
    if (lstat (path, &status) != 0)
        return s_fail (self, -errno, "cannot look at the folder '%s' (%s): listen in another", path,
            strerror (errno));
    if (s_is_for_group (self, &status))
        return 0;
    if ((status.st_mode & 010) && s_has_neighbours (self))
        return s_fail (self, -EPERM,
            "the folder '%s' is for group %u, and a live server listens in it: take the same group, or "
            "listen in another folder", path, (unsigned int) status.st_gid);
    if (chmod (path, 0700) == 0 && lchown (path, (uid_t) -1, self->group) == 0 && chmod (path, 0750) == 0)
        return 0;
    return s_fail (self, -errno, "cannot give the folder '%s' to group %u (%s): listen in another", path,
        (unsigned int) self->group, strerror (errno));
}


//  -- claim and release

static bool
s_has_files (const endpoint_t *self, const endpoint_access_t *access)
{
    return self->is_ipc || !access->is_one_of_two;
}

static int
s_claim_files (endpoint_t *self)
{
    int rc = s_lock (self);
    if (rc == 0 && self->is_ipc)
        rc = s_clear_socket (self, self->socket_path);
    if (rc == 0)
        rc = s_clear_socket (self, self->ring_path);
    if (rc == 0)
        rc = s_give_directory (self);
    if (rc == 0)
        rc = s_sign (self);
    self->claimed = rc == 0;
    return rc;
}

int
endpoint_claim (endpoint_t **self_p, const char *text, const endpoint_access_t *access, char *error,
    size_t error_bytes)
{
    assert (self_p); assert (error); assert (error_bytes > 0);
    static const endpoint_access_t alone = { .open = false };
    access = access? access: &alone;
    *self_p = NULL;
    error [0] = 0;
    endpoint_t *self = calloc (1, sizeof *self);
    if (!self) {
        snprintf (error, error_bytes, "not enough memory to listen: free some");
        return -ENOMEM;
    }
    *self = (endpoint_t) { .magic = ENDPOINT_MAGIC, .lock_fd = -1, .error = error,
        .error_bytes = error_bytes, .has_group = access->group, .group = access->group_id };
    char standard [PATH_MAX + 32];
    int rc = text? 0: endpoint_default (standard, sizeof standard);
    if (rc)
        s_fail (self, rc, "XDG_RUNTIME_DIR is too long: unset it, or listen elsewhere");
    self->text = rc? NULL: strdup (text? text: standard);
    if (rc == 0)
        rc = self->text? s_parse (self): s_fail (self, -ENOMEM, "not enough memory to listen: free some");
    if (rc == 0)
        rc = self->is_ipc? s_check_ipc (self, access): s_check_tcp (self, access);
    self->in_runtime = self->in_runtime && s_has_files (self, access);
    if (rc == 0 && s_has_files (self, access))
        rc = s_claim_files (self);
    if (rc == 0) {
        self->error = NULL;
        *self_p = self;
        self = NULL;
    }
    endpoint_destroy (&self);
    return rc;
}

int
endpoint_share (const endpoint_t *self, char *error, size_t error_bytes)
{
    assert (self && self->magic == ENDPOINT_MAGIC);
    const char *paths [] = { self->socket_path, self->ring_path };
    //  No other user can change the folder's files.  The sockets are ours alone until the last call.
    for (size_t index = 0; index < 2 && self->has_group; index++)
        if (chmod (paths [index], 0600) != 0 || lchown (paths [index], (uid_t) -1, self->group) != 0
        ||  chmod (paths [index], 0660) != 0) {
            int rc = -errno;
            snprintf (error, error_bytes,
                "cannot give the socket '%s' to group %u (%s): listen in another folder", paths [index],
                (unsigned int) self->group, strerror (-rc));
            return rc;
        }
    return 0;
}

//  When path was claimed it had at most a socket, so any other file there now is not ours.
static void
s_remove_socket (const char *path)
{
    struct stat status;
    if (path && lstat (path, &status) == 0 && S_ISSOCK (status.st_mode))
        unlink (path);
}

static void
s_release (endpoint_t *self)
{
    struct stat status;
    //  If the lock file is another server's by now, the sockets may be, too.
    if (lstat (self->lock_path, &status) == 0
    &&  status.st_dev == self->lock_device && status.st_ino == self->lock_inode) {
        if (self->claimed) {
            s_remove_socket (self->socket_path);
            s_remove_socket (self->ring_path);
        }
        unlink (self->lock_path);
    }
    close (self->lock_fd);
}

void
endpoint_destroy (endpoint_t **self_p)
{
    assert (self_p);
    endpoint_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == ENDPOINT_MAGIC);
    if (self->lock_fd >= 0)
        s_release (self);
    //  In /tmp another user could make it while clients wait for the next server.
    if (self->in_runtime && self->directory && !runtime_folder_is_in_tmp (self->directory, geteuid ()))
        rmdir (self->directory);            //  fails if another server uses it, as it should
    free (self->text);
    free (self->directory);
    free (self->socket_path);
    free (self->ring_path);
    free (self->lock_path);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

const char *
endpoint_text (const endpoint_t *self)
{
    assert (self && self->magic == ENDPOINT_MAGIC);
    return self->text;
}

const char *
endpoint_ring_path (const endpoint_t *self)
{
    assert (self && self->magic == ENDPOINT_MAGIC);
    return self->ring_path;
}
