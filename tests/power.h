/*  power -- the loss of power, simulated: what a program writes to a folder is recorded, and states are made
 *  in which a disk may be found afterwards.
 *
 *  What a disk keeps, as POSIX and the file systems of Linux promise it:
 *      a file      all that was written before its last fsync or fdatasync; of what came later any writes,
 *                  each of them whole, in any of its sectors, or as zeros
 *      a folder    all changes of names before its last fsync; of those that came later all, none, a first
 *                  few, or any, each by itself.  A rename is one change.
 *
 *  A test program wraps the calls at link time, and each wrapper tells of a call that has succeeded.  Folders
 *  and files are told apart by the system's inodes.  One recording at a time, of one thread.
 */
#ifndef POWER_H
#define POWER_H
#include <ftw.h>
#include <limits.h>
#include "scratch.h"
#include "seed.h"

enum { POWER_NODES = 512, POWER_SECTOR_BYTES = 512 };

typedef enum {
    POWER_WRITE, POWER_LENGTH, POWER_SYNC,          //  of a file
    POWER_NAME, POWER_RENAME, POWER_REMOVE, POWER_SYNC_FOLDER
} power_kind_t;

typedef struct {
    power_kind_t kind;
    int node;                               //  the file's or folder's; of a name, the folder's that holds it
    int other;                              //  POWER_NAME, POWER_RENAME: what has the name now
    char name [64], second [64];            //  second: POWER_RENAME's old one
    uint64_t offset, size;
    uint8_t *bytes;                         //  NULL: zeros
} power_step_t;

typedef struct {
    ino_t inode;                            //  0: gone, its number may be given again
    bool is_folder;
} power_node_t;

typedef struct {
    bool is_recording;
    size_t node_count, step_count, step_room;
    power_node_t nodes [POWER_NODES];       //  the first is the folder that is recorded
    power_step_t *steps;
} power_recording_t;

static power_recording_t power;


//  -- recording

static inline int
power_node (const struct stat *status)
{
    for (size_t index = 0; index < power.node_count; index++)
        if (power.nodes [index].inode == status->st_ino)
            return (int) index;
    return -1;
}

static inline int
power_node_of (int fd)
{
    struct stat status;
    return power.is_recording && gettid () == getpid () && fstat (fd, &status) == 0? power_node (&status): -1;
}

static inline int
power_new_node (const struct stat *status)
{
    if (power.node_count == POWER_NODES)
        abort ();
    power.nodes [power.node_count] = (power_node_t) { status->st_ino, S_ISDIR (status->st_mode) };
    return (int) power.node_count++;
}

static inline power_step_t *
power_add (power_kind_t kind, int node)
{
    if (power.step_count == power.step_room) {
        power.step_room = power.step_room? 2 * power.step_room: 256;
        power.steps = reallocarray (power.steps, power.step_room, sizeof *power.steps);
        if (!power.steps)
            abort ();
    }
    power_step_t *step = power.steps + power.step_count++;
    *step = (power_step_t) { .kind = kind, .node = node };
    return step;
}

static inline void
power_written (int fd, const void *bytes, size_t size, uint64_t offset)
{
    int node = power_node_of (fd);
    if (node < 0 || size == 0)
        return;
    power_step_t *step = power_add (POWER_WRITE, node);
    step->offset = offset;
    step->size = size;
    if (bytes) {
        step->bytes = malloc (size);
        if (!step->bytes)
            abort ();
        memcpy (step->bytes, bytes, size);
    }
}

//  What stands behind the end that is recorded was written too.
static inline void
power_grown (int fd)
{
    static uint8_t bytes [1 << 16];
    char path [40];
    int node = power_node_of (fd);
    if (node < 0)
        return;
    uint64_t end = 0;
    for (size_t index = 0; index < power.step_count; index++) {
        const power_step_t *step = power.steps + index;
        if (step->node == node && step->kind == POWER_LENGTH)
            end = step->size;
        if (step->node == node && step->kind == POWER_WRITE && step->offset + step->size > end)
            end = step->offset + step->size;
    }
    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    int readable = open (path, O_RDONLY | O_CLOEXEC);
    for (ssize_t count; (count = pread (readable, bytes, sizeof bytes, (off_t) end)) > 0;
        end += (uint64_t) count)
        power_written (fd, bytes, (size_t) count, end);
    close (readable);
}

static inline void
power_cut (int fd, uint64_t size)
{
    int node = power_node_of (fd);
    if (node >= 0)
        power_add (POWER_LENGTH, node)->size = size;
}

static inline void
power_synced (int fd)
{
    int node = power_node_of (fd);
    if (node >= 0)
        power_add (power.nodes [node].is_folder? POWER_SYNC_FOLDER: POWER_SYNC, node);
}

static inline const char *
power_name (const char *path)
{
    const char *slash = strrchr (path, '/');
    return slash? slash + 1: path;
}

//  The folder that holds the last name of a path; -1: it is not recorded.
static inline int
power_folder_of (int folder_fd, const char *path, const char *name)
{
    char folder [PATH_MAX];
    struct stat status;
    if (!power.is_recording || gettid () != getpid ())
        return -1;
    snprintf (folder, sizeof folder, "%.*s", (int) (name - path), path);
    return fstatat (folder_fd, *folder? folder: ".", &status, 0) == 0? power_node (&status): -1;
}

static inline power_step_t *
power_add_name (power_kind_t kind, int folder, const char *path, int node)
{
    if (node < 0)
        abort ();
    power_step_t *step = power_add (kind, folder);
    step->other = node;
    snprintf (step->name, sizeof step->name, "%.63s", power_name (path));
    return step;
}

//  A folder was made, or a file opened that may be new.  Whether it was there.
static inline bool
power_named (int folder_fd, const char *path)
{
    struct stat status;
    int folder = power_folder_of (folder_fd, path, power_name (path));
    if (folder < 0 || fstatat (folder_fd, path, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (power_node (&status) >= 0)
        return true;
    power_add_name (POWER_NAME, folder, path, power_new_node (&status));
    return false;
}

//  A file got another name.
static inline void
power_linked (int folder_fd, const char *path)
{
    struct stat status;
    int folder = power_folder_of (folder_fd, path, power_name (path));
    if (folder >= 0 && fstatat (folder_fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
        power_add_name (POWER_NAME, folder, path, power_node (&status));
}

//  What has no name any more when this one is removed or replaced, to be asked before: the inode's number may
//  be given again.
static inline int
power_will_go (int folder_fd, const char *path)
{
    struct stat status;
    return power.is_recording && fstatat (folder_fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0
        && (S_ISDIR (status.st_mode) || status.st_nlink == 1)? power_node (&status): -1;
}

//  Within a folder.
static inline void
power_renamed (int folder_fd, const char *from, const char *to, int going)
{
    int folder = power_folder_of (folder_fd, to, power_name (to));
    struct stat status;
    if (folder < 0 || fstatat (folder_fd, to, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    power_step_t *step = power_add_name (POWER_RENAME, folder, to, power_node (&status));
    snprintf (step->second, sizeof step->second, "%.63s", power_name (from));
    if (going >= 0)
        power.nodes [going].inode = 0;
}

static inline void
power_removed (int folder_fd, const char *path, int going)
{
    int folder = power_folder_of (folder_fd, path, power_name (path));
    if (folder < 0)
        return;
    snprintf (power_add (POWER_REMOVE, folder)->name, 64, "%.63s", power_name (path));
    if (going >= 0)
        power.nodes [going].inode = 0;
}

static inline void
power_forget (void)
{
    for (size_t index = 0; index < power.step_count; index++)
        free (power.steps [index].bytes);
    free (power.steps);
    memset (&power, 0, sizeof power);
}

//  What is in the folder counts as durable.
static inline void
power_take (int folder_fd, int folder)
{
    int copy = openat (folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fdopendir (copy);
    for (const struct dirent *item; stream && (item = readdir (stream));) {
        if (strcmp (item->d_name, ".") == 0 || strcmp (item->d_name, "..") == 0)
            continue;
        power_named (folder_fd, item->d_name);
        int fd = openat (folder_fd, item->d_name, O_RDONLY | O_CLOEXEC), node = power_node_of (fd);
        if (power.nodes [node].is_folder)
            power_take (fd, node);
        else {
            static uint8_t bytes [1 << 16];
            uint64_t offset = 0;
            for (ssize_t count; (count = read (fd, bytes, sizeof bytes)) > 0; offset += (uint64_t) count)
                power_written (fd, bytes, (size_t) count, offset);
            power_synced (fd);
        }
        close (fd);
    }
    closedir (stream);
    power_add (POWER_SYNC_FOLDER, folder);
}

//  Records changes of the folder from now on, until power_stop.  Returns how many steps stand for what is
//  there.
static inline size_t
power_record (const char *path)
{
    power_forget ();
    struct stat status;
    int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat (fd, &status) != 0)
        abort ();
    power.is_recording = true;
    power_take (fd, power_new_node (&status));
    close (fd);
    return power.step_count;
}

//  For a recording within another.
static inline power_recording_t
power_put_away (void)
{
    power_recording_t kept = power;
    memset (&power, 0, sizeof power);
    return kept;
}

static inline void
power_take_back (power_recording_t *kept)
{
    power_forget ();
    power = *kept;
}

//  Returns the number of steps in all.
static inline size_t
power_stop (void)
{
    power.is_recording = false;
    return power.step_count;
}


//  -- what a disk may hold

typedef struct {
    int folder, node;                       //  folder -1: removed
    char name [64];
} power_name_t;

typedef enum { POWER_ALL_LOST, POWER_NONE_LOST, POWER_SOME_LOST } power_luck_t;

static inline size_t
power_last_sync (power_kind_t kind, int node, size_t steps)
{
    while (steps > 0 && !(power.steps [steps - 1].kind == kind && power.steps [steps - 1].node == node))
        steps--;
    return steps;
}

static inline bool
power_keeps (power_luck_t luck, uint64_t *random)
{
    return luck == POWER_NONE_LOST || (luck == POWER_SOME_LOST && test_below (random, 2));
}

//  The folder's name is from now on that of this node; -1: of none.
static inline size_t
power_set_name (power_name_t *names, size_t count, int folder, const char *name, int node)
{
    for (size_t index = 0; index < count; index++)
        if (names [index].folder == folder && strcmp (names [index].name, name) == 0)
            names [index].folder = -1;
    if (node < 0)
        return count;
    if (count == POWER_NODES)
        abort ();
    names [count] = (power_name_t) { .folder = folder, .node = node };
    snprintf (names [count].name, sizeof names->name, "%.63s", name);
    return count + 1;
}

//  Sets names to those that the disk has after the first so many steps.  Returns how many there are.
static inline size_t
power_names (size_t steps, power_luck_t luck, uint64_t *random, power_name_t *names)
{
    //  Of each folder: the changes that the disk has for sure, and whether of later ones it has any.
    static size_t until [POWER_NODES];
    static bool keeps_any [POWER_NODES];
    size_t count = 0;
    for (size_t node = 0; node < power.node_count; node++) {
        uint64_t fate = luck == POWER_ALL_LOST? 0: luck == POWER_NONE_LOST? 1: test_below (random, 4);
        until [node] = fate == 1? steps: power_last_sync (POWER_SYNC_FOLDER, (int) node, steps);
        if (fate == 2)
            until [node] += test_below (random, steps - until [node] + 1);
        keeps_any [node] = fate == 3;
    }
    for (size_t index = 0; index < steps; index++) {
        const power_step_t *step = power.steps + index;
        bool is_name = step->kind == POWER_NAME || step->kind == POWER_RENAME || step->kind == POWER_REMOVE;
        if (!is_name || (index >= until [step->node]
                && !(keeps_any [step->node] && test_below (random, 2))))
            continue;
        if (step->kind == POWER_RENAME)
            count = power_set_name (names, count, step->node, step->second, -1);
        count = power_set_name (names, count, step->node, step->name,
            step->kind == POWER_REMOVE? -1: step->other);
    }
    return count;
}

//  A write that is not durable: sectors of it are there, are zeros, or are as before.
static inline void
power_write_some (int fd, const power_step_t *step, power_luck_t luck, uint64_t *random)
{
    static const uint8_t zeros [POWER_SECTOR_BYTES];
    bool is_torn = luck == POWER_SOME_LOST && test_below (random, 4) == 0;
    if (!is_torn && !power_keeps (luck, random))
        return;
    for (uint64_t at = 0, now; at < step->size; at += now) {
        now = POWER_SECTOR_BYTES - (step->offset + at) % POWER_SECTOR_BYTES;
        now = now < step->size - at? now: step->size - at;
        uint64_t fate = is_torn? test_below (random, 3): 0;
        const uint8_t *from = fate == 1 || !step->bytes? zeros: step->bytes + at;
        if (fate < 2 && pwrite (fd, from, (size_t) now, (off_t) (step->offset + at)) != (ssize_t) now)
            abort ();
    }
}

static inline void
power_fill (int fd, int node, size_t steps, power_luck_t luck, uint64_t *random)
{
    size_t durable = power_last_sync (POWER_SYNC, node, steps);
    for (size_t index = 0; index < steps; index++) {
        const power_step_t *step = power.steps + index;
        power_luck_t now = index < durable? POWER_NONE_LOST: luck;
        if (step->node != node)
            continue;
        if (step->kind == POWER_WRITE)
            power_write_some (fd, step, now, random);
        if (step->kind == POWER_LENGTH && power_keeps (now, random)
        &&  ftruncate (fd, (off_t) step->size) != 0)
            abort ();
    }
}

static inline void
power_make (int folder_fd, int folder, size_t steps, power_luck_t luck, uint64_t *random,
    const power_name_t *names, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        const power_name_t *name = names + index;
        if (name->folder != folder)
            continue;
        bool is_folder = power.nodes [name->node].is_folder;
        if (is_folder && mkdirat (folder_fd, name->name, 0700) != 0)
            abort ();
        int fd = openat (folder_fd, name->name, is_folder? O_RDONLY | O_DIRECTORY: O_RDWR | O_CREAT | O_EXCL,
            0600);
        if (fd < 0)
            abort ();
        if (is_folder)
            power_make (fd, name->node, steps, luck, random, names, count);
        else
            power_fill (fd, name->node, steps, luck, random);
        close (fd);
    }
}

//  Makes the folder path: what the disk may hold if the power fails after the first so many steps.
static inline void
power_lose (const char *path, size_t steps, power_luck_t luck, uint64_t *random)
{
    static power_name_t names [POWER_NODES];
    size_t count = power_names (steps, luck, random, names);
    if (mkdir (path, 0700) != 0)
        abort ();
    int fd = open (path, O_RDONLY | O_DIRECTORY);
    power_make (fd, 0, steps, luck, random, names, count);
    close (fd);
}

static inline int
power_remove_one (const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void) status; (void) type; (void) place;
    return remove (path);
}

//  Such a folder, with all that is in it.
static inline void
power_remove (const char *path)
{
    if (nftw (path, power_remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        abort ();
}

#endif
