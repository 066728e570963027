#include "trust.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime_folder.h"

enum {
    TRUST_LINKS_MAX = 40,               //  as the kernel's
    TRUST_NUMBERLESS = 65534            //  all users that have no number in our user namespace
};

//  The way from the root to the socket.
typedef struct {
    const char *path;                   //  as it was given
    char here [PATH_MAX];               //  the folder that was reached; "": the root
    char rest [2 * PATH_MAX];           //  behind it
    struct stat folder;                 //  of here
    struct stat entry;                  //  of the socket, at the end
    int links;
    bool is_there;                      //  the socket exists
    bool is_loose;                      //  other users can exchange a folder on the way
    bool is_closed;                     //  the folder exists, and no other users may write to it, or exchange
                                        //  it
} way_t;

bool
trust_is_ours (uid_t user)
{
    return user == geteuid () || user == 0;
}

static bool
s_refuse_entry (const way_t *way, const char *entry, message_error_t *error)
{
    return message_fail (error, "no server at %.110s is trusted: '%.110s' belongs to user %u, and every user "
        "that may write to '%.60s' could have made it. Remove it (as root), or let server and clients use a "
        "folder that only user %u or root can make (--listen, TUREEN_ENDPOINT)", way->path, entry,
        (unsigned) way->entry.st_uid, *way->here? way->here: "/", (unsigned) geteuid ());
}

static bool
s_refuse_folder (const way_t *way, message_error_t *error)
{
    return message_fail (error, "no server at %.150s is trusted: users other than its owner, user %u, may "
        "write to the folder '%.150s' and replace the socket: chmod go-w it, or use another folder",
        way->path, (unsigned) way->folder.st_uid, way->here);
}

//  Removes the first name of the path's rest, and gives it.  False: the rest has no name.
static bool
s_take_name (way_t *way, char name [NAME_MAX + 1])
{
    size_t blank = strspn (way->rest, "/"), length = strcspn (way->rest + blank, "/");
    bool fine = length > 0 && length <= NAME_MAX;
    if (fine)
        memcpy (name, way->rest + blank, length);
    name [fine? length: 0] = 0;
    memmove (way->rest, way->rest + blank + length, strlen (way->rest + blank + length) + 1);
    return fine;
}

//  Puts a link's target before the rest.  False: it leads nowhere.
static bool
s_follow (way_t *way, const char *link)
{
    char target [PATH_MAX], rest [sizeof way->rest];
    ssize_t length = readlink (link, target, sizeof target - 1);
    if (length <= 0 || ++way->links > TRUST_LINKS_MAX)
        return false;
    target [length] = 0;
    if (snprintf (rest, sizeof rest, "%s/%s", target, way->rest) >= (int) sizeof rest)
        return false;
    strcpy (way->rest, rest);
    if (*target == '/')
        *way->here = 0;
    return *target != '/' || !stat ("/", &way->folder);
}

//  Goes one step.  False: refused, and error is filled; *over_p: there is nothing further to look at.
static bool
s_step (way_t *way, const char *name, bool *over_p, message_error_t *error)
{
    char entry [PATH_MAX];
    *over_p = true;
    if (snprintf (entry, sizeof entry, "%s/%s", way->here, name) >= (int) sizeof entry
    ||  lstat (entry, &way->entry))
        return true;
    uid_t user = way->entry.st_uid;
    bool is_owner = user == way->folder.st_uid && user != TRUST_NUMBERLESS;
    if ((way->folder.st_mode & 022) && !trust_is_ours (user) && !is_owner
    &&  !runtime_folder_is_in_tmp (entry, user))
        return s_refuse_entry (way, entry, error);
    way->is_loose |= runtime_folder_lets_replace (&way->folder, false);
    if (S_ISLNK (way->entry.st_mode)) {
        *over_p = !s_follow (way, entry);
        return true;
    }
    way->is_there = !way->rest [strspn (way->rest, "/")];
    *over_p = way->is_there;
    if (!way->is_there) {
        way->folder = way->entry;
        strcpy (way->here, entry);
    }
    return true;
}

//  ".." of what was reached through no link: the folders above have been looked at.
static bool
s_go_up (way_t *way)
{
    char *slash = strrchr (way->here, '/');
    if (slash)
        *slash = 0;
    return !stat (*way->here? way->here: "/", &way->folder);
}

static bool
s_walk (way_t *way, const char *path, message_error_t *error)
{
    char name [NAME_MAX + 1];
    bool over = false, fine = true;
    *way = (way_t) { .path = path };
    if (*path == '/')
        snprintf (way->rest, sizeof way->rest, "%s", path);
    else if (getcwd (way->here, sizeof way->here))
        snprintf (way->rest, sizeof way->rest, "%s/%s", way->here, path);
    *way->here = 0;
    over = stat ("/", &way->folder) != 0;
    while (fine && !over && s_take_name (way, name))
        if (!strcmp (name, ".."))
            over = !s_go_up (way);
        else if (strcmp (name, "."))
            fine = s_step (way, name, &over, error);
    bool is_folder = !way->rest [strspn (way->rest, "/")];
    way->is_closed = is_folder && !way->is_loose && !(way->folder.st_mode & 022);
    if (fine && is_folder && runtime_folder_lets_replace (&way->folder, runtime_folder_is (way->here)))
        return s_refuse_folder (way, error);
    return fine;
}

bool
trust_path (const char *path, bool *closed_p, message_error_t *error)
{
    assert (path && closed_p && error);
    way_t way = { .path = path };
    runtime_folder_hold (path);
    bool fine = *path == '@' || s_walk (&way, path, error);
    *closed_p = way.is_closed;
    return fine;
}

uid_t
trust_peer (int descriptor)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt (descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size)? TRUST_NOBODY: peer.uid;
}

bool
trust_listener (const char *path, uid_t peer, message_error_t *error)
{
    assert (path && error);
    way_t way = { .path = path };
    bool has_file = *path != '@';       //  else a socket without a file, of any user
    if (has_file && !s_walk (&way, path, error))
        return false;
    if (trust_is_ours (peer) || (has_file && (peer == way.folder.st_uid
        || (way.is_there && peer == way.entry.st_uid))))
        return true;
    return message_fail (error, "the server at %.150s is not trusted: user %u runs it, and is neither user "
        "%u nor root nor the owner of its folder: find that process, or use another folder (--listen, "
        "TUREEN_ENDPOINT)", path, (unsigned) peer, (unsigned) geteuid ());
}

int
trust_open (const char *path)
{
    struct stat file, folder = { .st_uid = 0 };
    char above [PATH_MAX];
    int descriptor = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    if (descriptor < 0)
        return -errno;
    const char *slash = strrchr (path, '/');
    snprintf (above, sizeof above, "%.*s", slash && slash != path? (int) (slash - path): 1, slash? path: ".");
    bool fine = !fstat (descriptor, &file) && !stat (above, &folder) && S_ISREG (file.st_mode)
        && (trust_is_ours (file.st_uid) || file.st_uid == folder.st_uid);
    if (fine)
        return descriptor;
    close (descriptor);
    return -EPERM;
}
