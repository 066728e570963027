/*  catalogue_walk.c -- how a folder becomes a catalogue.
 *
 *  happy path:  list the root's directories and sort them: the classes.  For each class visit its directories
 *               breadth first from a growing list (no recursion: a tree may be deeper than a stack is); each
 *               is read once and the files that count are appended as they are found.  When the class is
 *               through, its directories are sorted by path and its files by (directory, name).
 *  failure:     the sentence is written at the fault (catalogue_fail), the code is returned upwards,
 *               catalogue_open destroys the rest.
 */
#include "catalogue_state.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pack_format.h"

//  A directory during the walk of its class; freed afterwards.
typedef struct {
    dev_t device;
    ino_t inode;
    uint64_t path;
    uint32_t parent;                //  a visit; its own index for the class folder itself
    uint32_t rank;                  //  by path, among the class's directories
} visit_t;

typedef struct {
    draft_t *draft;
    catalogue_t *self;
    const char *extensions;         //  the extensions that count
    dev_t root_device;
    ino_t root_inode;
    visit_t *visits;
    size_t visit_count;
    size_t visit_limit;
    empty_classes_t empty;
} walk_t;

typedef struct {
    bool is_directory;
    bool is_wanted;                 //  by its name
    uint64_t bytes;
} entry_t;


//  -- order

static int
s_compare_classes (const void *left, const void *right, void *arena)
{
    const uint64_t *a = left, *b = right;
    return catalogue_compare ((char *) arena + *a, (char *) arena + *b);
}

static int
s_compare_visits (const void *left, const void *right, void *argument)
{
    const walk_t *walk = argument;
    const uint32_t *a = left, *b = right;
    const char *arena = walk->self->arena;
    return catalogue_compare (arena + walk->visits [*a].path, arena + walk->visits [*b].path);
}

static int
s_compare_samples (const void *left, const void *right, void *arena)
{
    const sample_t *a = left, *b = right;
    if (a->directory != b->directory)
        return a->directory < b->directory? -1: 1;
    return catalogue_compare ((char *) arena + a->name, (char *) arena + b->name);
}


//  -- one directory

//  The type of an entry, links followed.  torchvision takes a dangling link for a file, so it keeps its id
//  here; reading it fails.
static int
s_look (const walk_t *walk, DIR *directory, const struct dirent *item, entry_t *entry)
{
    *entry = (entry_t) { .is_directory = item->d_type == DT_DIR };
    entry->is_wanted = catalogue_is_wanted (item->d_name, walk->extensions);
    if (entry->is_directory || (!entry->is_wanted && item->d_type != DT_LNK && item->d_type != DT_UNKNOWN))
        return 0;
    struct stat status;
    if (fstatat (dirfd (directory), item->d_name, &status, 0) != 0)
        return errno == ENOENT || errno == ELOOP || errno == EACCES || errno == ENOTDIR
            || errno == ENAMETOOLONG? 0: -errno;
    entry->is_directory = S_ISDIR (status.st_mode);
    entry->bytes = S_ISREG (status.st_mode)? (uint64_t) status.st_size: 0;
    return 0;
}

static int
s_fail_folder (const walk_t *walk, const char *path, int rc)
{
    return catalogue_fail_folder (walk->draft, catalogue_root (walk->self), path, rc);
}


//  -- classes

static int
s_find_classes (walk_t *walk)
{
    catalogue_t *self = walk->self;
    DIR *directory = catalogue_folder_open (self->fields [0].root_fd, "");
    if (!directory)
        return s_fail_folder (walk, "", -errno);
    struct dirent *item;
    char beside [NAME_MAX + 1] = "";
    int rc;
    while ((rc = catalogue_folder_next (directory, &item)) > 0) {
        entry_t entry;
        rc = s_look (walk, directory, item, &entry);
        if (rc)
            break;
        if (entry.is_directory)
            rc = catalogue_add_class (walk->draft, item->d_name, strlen (item->d_name));
        else if (catalogue_tells_more (item->d_name, beside))
            snprintf (beside, sizeof beside, "%s", item->d_name);
        if (rc)
            break;
    }
    if (rc && !walk->draft->error [0])
        s_fail_folder (walk, "", rc);
    closedir (directory);
    if (!rc && self->class_count == 0)
        rc = catalogue_fail_no_classes (walk->draft, beside);
    if (!rc)
        qsort_r (self->classes, self->class_count, sizeof *self->classes, s_compare_classes, self->arena);
    return rc;
}


//  -- the walk through one class

//  Puts a directory on the list of those to visit.  The class folder is its own parent.
static int
s_visit_push (walk_t *walk, uint64_t path, size_t parent)
{
    if (walk->self->directory_count + walk->visit_count >= UINT32_MAX)
        //  UNTESTED: takes 2^32 directories.
        return catalogue_fail (walk->draft, -EOVERFLOW, "too many folders in '%s': serve it in parts",
            catalogue_root (walk->self));
    visit_t *visits = catalogue_grown (walk->visits, &walk->visit_limit, walk->visit_count + 1,
        sizeof *visits);
    if (!visits)
        return catalogue_fail_memory (walk->draft);
    walk->visits = visits;
    visits [walk->visit_count++] = (visit_t) { .path = path, .parent = (uint32_t) parent };
    return 0;
}

static int
s_sample_add (walk_t *walk, size_t visit, const char *name, const entry_t *entry)
{
    catalogue_t *self = walk->self;
    const char *path = self->arena + walk->visits [visit].path;
    if (strlen (path) + 1 + strlen (name) >= PATH_MAX)
        return s_fail_folder (walk, path, -ENAMETOOLONG);
    if (self->sample_count == UINT32_MAX)
        //  UNTESTED: takes 2^32 files.
        return catalogue_fail (walk->draft, -EOVERFLOW, "more than %u samples in '%s': serve it in parts",
            UINT32_MAX, catalogue_root (self));
    if (catalogue_add_sample (self, (uint32_t) visit, name, strlen (name), entry->bytes))
        return catalogue_fail_memory (walk->draft);
    progress_tell (walk->draft->progress, self->sample_count, 0);
    return 0;
}

//  A directory that is its own ancestor would never end.  torchvision loops until the path is too long.
static int
s_check_cycle (walk_t *walk, size_t index, int fd)
{
    struct stat status;
    if (fstat (fd, &status) != 0)
        return -errno;
    visit_t *visit = &walk->visits [index];
    visit->device = status.st_dev;
    visit->inode = status.st_ino;
    const char *ancestor = NULL;
    if (status.st_dev == walk->root_device && status.st_ino == walk->root_inode)
        ancestor = ".";
    while (!ancestor && index != walk->visits [index].parent) {
        index = walk->visits [index].parent;
        if (walk->visits [index].device == status.st_dev && walk->visits [index].inode == status.st_ino)
            ancestor = walk->self->arena + walk->visits [index].path;
    }
    if (!ancestor)
        return 0;
    return catalogue_fail (walk->draft, -ELOOP, "the folder '%s/%s' leads back to '%s', which it is in: "
        "remove the link", catalogue_root (walk->self), walk->self->arena + visit->path, ancestor);
}

static int
s_visit_entry (walk_t *walk, size_t index, DIR *directory, const struct dirent *item)
{
    entry_t entry;
    int rc = s_look (walk, directory, item, &entry);
    if (rc == 0 && entry.is_directory) {
        uint64_t path;
        const char *name = item->d_name;
        if (catalogue_add_text (walk->self, &walk->visits [index].path, name, strlen (name), &path))
            return catalogue_fail_memory (walk->draft);
        rc = s_visit_push (walk, path, index);
    }
    else
    if (rc == 0 && entry.is_wanted)
        rc = s_sample_add (walk, index, item->d_name, &entry);
    return rc;
}

static int
s_visit (walk_t *walk, size_t index)
{
    const catalogue_t *self = walk->self;
    DIR *directory = catalogue_folder_open (self->fields [0].root_fd,
        self->arena + walk->visits [index].path);
    if (!directory)
        return s_fail_folder (walk, self->arena + walk->visits [index].path, -errno);
    int rc = s_check_cycle (walk, index, dirfd (directory));
    struct dirent *item;
    while (rc == 0 && (rc = catalogue_folder_next (directory, &item)) > 0)
        rc = s_visit_entry (walk, index, directory, item);
    if (rc && !walk->draft->error [0])
        s_fail_folder (walk, self->arena + walk->visits [index].path, rc);
    closedir (directory);
    return rc;
}

//  The class's directories move into the catalogue in sorted order; each visit learns its rank.
static int
s_rank_visits (walk_t *walk, uint32_t label)
{
    catalogue_t *self = walk->self;
    size_t count = walk->visit_count;
    directory_t *directories = catalogue_grown (self->directories, &self->directory_limit,
        self->directory_count + count, sizeof *directories);
    if (!directories)
        return catalogue_fail_memory (walk->draft);
    self->directories = directories;
    uint32_t *order = reallocarray (NULL, count, sizeof *order);
    if (!order)
        return catalogue_fail_memory (walk->draft);
    for (size_t index = 0; index < count; index++)
        order [index] = (uint32_t) index;
    qsort_r (order, count, sizeof *order, s_compare_visits, walk);
    for (size_t rank = 0; rank < count; rank++) {
        visit_t *visit = &walk->visits [order [rank]];
        visit->rank = (uint32_t) rank;
        directories [self->directory_count + rank] = (directory_t) { .path = visit->path, .label = label };
    }
    free (order);
    return 0;
}

static int
s_walk_class (walk_t *walk, size_t label)
{
    catalogue_t *self = walk->self;
    size_t first = self->sample_count;
    walk->visit_count = 0;
    int rc = s_visit_push (walk, self->classes [label], 0);
    for (size_t index = 0; rc == 0 && index < walk->visit_count; index++)
        rc = s_visit (walk, index);
    if (rc == 0)
        rc = s_rank_visits (walk, (uint32_t) label);
    if (rc)
        return rc;
    for (size_t index = first; index < self->sample_count; index++) {
        sample_t *sample = &self->samples [index];
        sample->directory = (uint32_t) self->directory_count + walk->visits [sample->directory].rank;
    }
    self->directory_count += walk->visit_count;
    if (self->sample_count > first)
        qsort_r (self->samples + first, self->sample_count - first, sizeof *self->samples,
            s_compare_samples, self->arena);
    else
        catalogue_note_empty (&walk->empty, label);
    return 0;
}

static int
s_walk_classes (walk_t *walk)
{
    for (size_t label = 0; label < walk->self->class_count; label++) {
        int rc = s_walk_class (walk, label);
        if (rc)
            return rc;
    }
    return catalogue_judge_classes (walk->draft, &walk->empty);
}


//  -- all of it

int
catalogue_walk (draft_t *draft)
{
    walk_t walk = {
        .draft = draft, .self = draft->self,
        .extensions = draft->extensions? draft->extensions: catalogue_image_extensions
    };
    struct stat status;
    if (fstat (draft->self->fields [0].root_fd, &status) != 0)
        return s_fail_folder (&walk, "", -errno);
    walk.root_device = status.st_dev;
    walk.root_inode = status.st_ino;
    progress_step (draft->progress, &(progress_step_t) { .what = "finding files", .unit = "files" }, 0);
    int rc = s_find_classes (&walk);
    if (rc == 0)
        rc = s_walk_classes (&walk);
    free (walk.visits);
    return rc;
}
