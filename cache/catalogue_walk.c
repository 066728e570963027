/*  catalogue_walk.c -- how a folder becomes a catalogue.
 *
 *  happy path:  list the root's directories and sort them: the classes.  For each class visit its directories
 *               breadth first from a growing list (no recursion: a tree may be deeper than a stack is); each
 *               is read once and its image files are appended as they are found.  When the class is through,
 *               its directories are sorted by path and its files by (directory, name).  At the end give back
 *               spare memory.
 *  failure:     the text is written where it failed (s_fail), the code goes up, catalogue_open destroys what
 *               is there.
 */
#include "catalogue_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    EMPTY_SHOWN_MAX = 5,            //  class folders without samples that an error names; the rest is counted
    PATH_SHOWN_MAX = 160            //  bytes of a path below the root that an error shows
};

//  A directory on the way: what is forgotten once its class has been walked.
typedef struct {
    dev_t device;
    ino_t inode;
    uint64_t path;
    uint32_t parent;                //  a visit; its own index where the class folder itself is meant
    uint32_t rank;                  //  by path, among the class's directories
} visit_t;

typedef struct {
    catalogue_t *self;
    char *error;
    size_t error_bytes;
    dev_t root_device;
    ino_t root_inode;
    visit_t *visits;
    size_t visit_count;
    size_t visit_limit;
    size_t empty_count;             //  classes without a sample, the first few by label
    size_t empty [EMPTY_SHOWN_MAX];
} walk_t;

typedef struct {
    bool is_directory;
    bool is_image;                  //  by its name
    bool is_foreign;
    uint64_t bytes;
} entry_t;


//  -- errors and memory

//  Writes the sentence and returns rc.  Names come from a disk, so what a terminal might obey is blotted out.
__attribute__ ((format (printf, 3, 4)))
static int
s_fail (const walk_t *walk, int rc, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (walk->error, walk->error_bytes, format, arguments);
    va_end (arguments);
    for (char *at = walk->error; *at; at++)
        if ((unsigned char) *at < 0x20 || *at == 0x7f)
            *at = '?';
    return rc;
}

static int
s_fail_memory (const walk_t *walk)
{
    return s_fail (walk, -ENOMEM, "not enough memory for the catalogue of '%s' (%zu samples so far): "
        "free memory or raise the limit", walk->self->root? walk->self->root: "", walk->self->sample_count);
}

//  Room for needed items, at least doubling.  NULL: items is as it was.
static void *
s_grown (void *items, size_t *limit_p, size_t needed, size_t item_bytes)
{
    if (needed <= *limit_p)
        return items;
    size_t limit = *limit_p < 32? 64: *limit_p * 2;
    if (limit < needed)
        limit = needed;
    void *grown = reallocarray (items, limit, item_bytes);
    if (grown)
        *limit_p = limit;
    return grown;
}

//  Gives spare room back.  A realloc that fails to shrink leaves all as it was.
static void *
s_trimmed (void *items, size_t count, size_t item_bytes)
{
    void *trimmed = count? reallocarray (items, count, item_bytes): NULL;
    return trimmed? trimmed: items;
}

//  Appends "parent/name", or name alone where parent is NULL.  name is not in the arena, which may move.
static int
s_arena_add (catalogue_t *self, const uint64_t *parent, const char *name, uint64_t *offset_p)
{
    size_t parent_length = parent? strlen (self->arena + *parent) + 1: 0;
    size_t size = parent_length + strlen (name) + 1;
    char *arena = s_grown (self->arena, &self->arena_limit, self->arena_used + size, 1);
    if (!arena)
        return -ENOMEM;
    self->arena = arena;
    char *text = arena + self->arena_used;
    if (parent) {
        memcpy (text, arena + *parent, parent_length - 1);
        text [parent_length - 1] = '/';
    }
    memcpy (text + parent_length, name, size - parent_length);
    *offset_p = self->arena_used;
    self->arena_used += size;
    return 0;
}


//  -- names

//  The next code point as Python reads file names: a byte that is not part of UTF-8 becomes 0xdc00 + byte.
static uint32_t
s_code_point (const uint8_t **at_p)
{
    static const uint32_t least [] = { 0, 0x80, 0x800, 0x10000 };
    const uint8_t *at = *at_p;
    uint32_t lead = at [0];
    size_t more = lead < 0xc2? 0: lead < 0xe0? 1: lead < 0xf0? 2: lead < 0xf5? 3: 0;
    uint32_t code = more? lead & (0x3fu >> more): lead;
    bool valid = more || lead < 0x80;
    //  The zero at the end is no continuation byte, so this stays inside.
    for (size_t index = 1; valid && index <= more; index++) {
        valid = (at [index] & 0xc0) == 0x80;
        code = code << 6 | (at [index] & 0x3fu);
    }
    if (valid && more)
        valid = code >= least [more] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    *at_p = at + (valid? 1 + more: 1);
    return valid? code: 0xdc00 + lead;
}

//  Python's order of str, which torchvision sorts by.  For UTF-8 it is the order of the bytes; only where
//  names that are not UTF-8 meet others does it differ.
static int
s_compare (const char *left, const char *right)
{
    const uint8_t *a = (const uint8_t *) left, *b = (const uint8_t *) right;
    while (*a && *a == *b)
        a++, b++;
    //  Up to two ASCII bytes (or the end) that differ, both decode alike.
    if (*a < 0x80 && *b < 0x80)
        return *a - *b;
    a = (const uint8_t *) left;
    b = (const uint8_t *) right;
    for (;;) {
        uint32_t x = s_code_point (&a), y = s_code_point (&b);
        if (x != y || x == 0)
            return (x > y) - (x < y);
    }
}

//  Folds ASCII only: strcasecmp would ask the locale, and Turkish folds I otherwise.
static bool
s_same_extension (const char *text, const char *lower)
{
    while (*lower && (*text >= 'A' && *text <= 'Z'? *text + ('a' - 'A'): *text) == *lower)
        text++, lower++;
    return *text == *lower;
}

static bool
s_is_image (const char *name, bool *is_foreign_p)
{
    //  torchvision's IMG_EXTENSIONS; the first two are JPEG.
    static const char *const extensions [] = {
        ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"
    };
    const char *dot = strrchr (name, '.');
    if (!dot)
        return false;
    for (size_t index = 0; index < sizeof extensions / sizeof extensions [0]; index++)
        if (s_same_extension (dot, extensions [index])) {
            *is_foreign_p = index > 1;
            return true;
        }
    return false;
}

static int
s_compare_classes (const void *left, const void *right, void *arena)
{
    const uint64_t *a = left, *b = right;
    return s_compare ((char *) arena + *a, (char *) arena + *b);
}

static int
s_compare_visits (const void *left, const void *right, void *argument)
{
    const walk_t *walk = argument;
    const uint32_t *a = left, *b = right;
    const char *arena = walk->self->arena;
    return s_compare (arena + walk->visits [*a].path, arena + walk->visits [*b].path);
}

static int
s_compare_samples (const void *left, const void *right, void *arena)
{
    const sample_t *a = left, *b = right;
    if (a->directory != b->directory)
        return a->directory < b->directory? -1: 1;
    return s_compare ((char *) arena + a->name, (char *) arena + b->name);
}


//  -- one directory

static DIR *
s_directory_open (const catalogue_t *self, const char *path)
{
    int fd;
    do
        fd = openat (self->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    DIR *directory = fd < 0? NULL: fdopendir (fd);
    if (fd >= 0 && !directory) {
        int saved = errno;
        close (fd);
        errno = saved;
    }
    return directory;
}

//  1 and *item_p, 0 at the end, or -errno.
static int
s_directory_next (DIR *directory, struct dirent **item_p)
{
    do {
        errno = 0;
        *item_p = readdir (directory);
    } while (*item_p && (strcmp ((*item_p)->d_name, ".") == 0 || strcmp ((*item_p)->d_name, "..") == 0));
    return *item_p? 1: -errno;
}

//  What an entry is, links followed.  A link that leads nowhere is a file to torchvision and so keeps its id
//  here; whoever reads it gets the error.
static int
s_look (DIR *directory, const struct dirent *item, entry_t *entry)
{
    *entry = (entry_t) { .is_directory = item->d_type == DT_DIR };
    entry->is_image = s_is_image (item->d_name, &entry->is_foreign);
    if (entry->is_directory || (!entry->is_image && item->d_type != DT_LNK && item->d_type != DT_UNKNOWN))
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
s_fail_directory (const walk_t *walk, const char *path, int rc)
{
    const char *remedy =
        rc == -EACCES? "let this user read and enter it":
        rc == -ENAMETOOLONG? "move it up or shorten its folders' names":
        rc == -EMFILE || rc == -ENFILE? "raise the limit of open files":
        rc == -ENOENT || rc == -ENOTDIR? "it went away meanwhile: try again": "check the file system";
    //  The remedy comes last and must not be cut off by a path of 4,000 bytes.
    return s_fail (walk, rc, "cannot read the folder '%s/%.*s%s' (%s): %s", walk->self->root,
        PATH_SHOWN_MAX, path, strlen (path) > PATH_SHOWN_MAX? "...": "", strerror (-rc), remedy);
}


//  -- classes

static int
s_class_add (walk_t *walk, const char *name)
{
    catalogue_t *self = walk->self;
    uint64_t *classes = s_grown (self->classes, &self->class_limit, self->class_count + 1, sizeof *classes);
    if (!classes)
        return s_fail_memory (walk);
    self->classes = classes;
    if (s_arena_add (self, NULL, name, &classes [self->class_count]))
        return s_fail_memory (walk);
    self->class_count++;
    return 0;
}

static int
s_find_classes (walk_t *walk)
{
    catalogue_t *self = walk->self;
    DIR *directory = s_directory_open (self, ".");
    if (!directory)
        return s_fail_directory (walk, "", -errno);
    struct dirent *item;
    int rc;
    while ((rc = s_directory_next (directory, &item)) > 0) {
        entry_t entry;
        rc = s_look (directory, item, &entry);
        if (rc)
            break;
        if (entry.is_directory && (rc = s_class_add (walk, item->d_name)))
            break;
    }
    if (rc && !walk->error [0])
        s_fail_directory (walk, "", rc);
    closedir (directory);
    if (!rc && self->class_count == 0)
        rc = s_fail (walk, -ENODATA,
            "no class folders in '%s': put the images into one folder for each class", self->root);
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
        return s_fail (walk, -EOVERFLOW, "too many folders in '%s': serve it in parts", walk->self->root);
    visit_t *visits = s_grown (walk->visits, &walk->visit_limit, walk->visit_count + 1, sizeof *visits);
    if (!visits)
        return s_fail_memory (walk);
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
        return s_fail_directory (walk, path, -ENAMETOOLONG);
    if (self->sample_count == UINT32_MAX)
        //  UNTESTED: takes 2^32 files.
        return s_fail (walk, -EOVERFLOW, "more than %u samples in '%s': serve it in parts", UINT32_MAX,
            self->root);
    sample_t *samples = s_grown (self->samples, &self->sample_limit, self->sample_count + 1, sizeof *samples);
    if (!samples)
        return s_fail_memory (walk);
    self->samples = samples;
    sample_t *sample = &samples [self->sample_count];
    sample->directory = (uint32_t) visit;
    sample->bytes = entry->bytes;
    if (s_arena_add (self, NULL, name, &sample->name))
        return s_fail_memory (walk);
    self->sample_count++;
    self->bytes += entry->bytes;
    self->foreign += entry->is_foreign;
    return 0;
}

//  A directory that is its own ancestor has no end.  torchvision goes round until the path is too long.
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
    return s_fail (walk, -ELOOP, "the folder '%s/%s' leads back to '%s', which it is in: remove the link",
        walk->self->root, walk->self->arena + visit->path, ancestor);
}

static int
s_visit_entry (walk_t *walk, size_t index, DIR *directory, const struct dirent *item)
{
    entry_t entry;
    int rc = s_look (directory, item, &entry);
    if (rc == 0 && entry.is_directory) {
        uint64_t path;
        if (s_arena_add (walk->self, &walk->visits [index].path, item->d_name, &path))
            return s_fail_memory (walk);
        rc = s_visit_push (walk, path, index);
    }
    else
    if (rc == 0 && entry.is_image)
        rc = s_sample_add (walk, index, item->d_name, &entry);
    return rc;
}

static int
s_visit (walk_t *walk, size_t index)
{
    const catalogue_t *self = walk->self;
    DIR *directory = s_directory_open (self, self->arena + walk->visits [index].path);
    if (!directory)
        return s_fail_directory (walk, self->arena + walk->visits [index].path, -errno);
    int rc = s_check_cycle (walk, index, dirfd (directory));
    struct dirent *item;
    while (rc == 0 && (rc = s_directory_next (directory, &item)) > 0)
        rc = s_visit_entry (walk, index, directory, item);
    if (rc && !walk->error [0])
        s_fail_directory (walk, self->arena + walk->visits [index].path, rc);
    closedir (directory);
    return rc;
}

//  The class's directories move into the catalogue in sorted order; each visit learns its rank.
static int
s_rank_visits (walk_t *walk, uint32_t label)
{
    catalogue_t *self = walk->self;
    size_t count = walk->visit_count;
    directory_t *directories = s_grown (self->directories, &self->directory_limit,
        self->directory_count + count, sizeof *directories);
    if (!directories)
        return s_fail_memory (walk);
    self->directories = directories;
    uint32_t *order = reallocarray (NULL, count, sizeof *order);
    if (!order)
        return s_fail_memory (walk);
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
    if (walk->empty_count++ < EMPTY_SHOWN_MAX)
        walk->empty [walk->empty_count - 1] = label;
    return 0;
}

static int
s_fail_empty (const walk_t *walk)
{
    const catalogue_t *self = walk->self;
    char names [EMPTY_SHOWN_MAX * 90] = "";
    size_t used = 0;
    size_t shown = walk->empty_count < EMPTY_SHOWN_MAX? walk->empty_count: EMPTY_SHOWN_MAX;
    for (size_t index = 0; index < shown; index++)
        used += (size_t) snprintf (names + used, sizeof names - used, "%s'%.80s'", index? ", ": "",
            self->arena + self->classes [walk->empty [index]]);
    char more [40] = "";
    if (walk->empty_count > shown)
        snprintf (more, sizeof more, " and %zu more", walk->empty_count - shown);
    return s_fail (walk, -ENODATA, "no image in %zu of the %zu class folders in '%s': %s%s: remove the %s or "
        "add images (.jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp)", walk->empty_count, self->class_count,
        self->root, names, more, walk->empty_count == 1? "folder": "folders");
}

static int
s_walk_classes (walk_t *walk)
{
    for (size_t label = 0; label < walk->self->class_count; label++) {
        int rc = s_walk_class (walk, label);
        if (rc)
            return rc;
    }
    return walk->empty_count? s_fail_empty (walk): 0;
}


//  -- all of it

static int
s_open_root (walk_t *walk)
{
    catalogue_t *self = walk->self;
    self->root_fd = open (self->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->root_fd >= 0) {
        struct stat status;
        if (fstat (self->root_fd, &status) != 0)
            return s_fail_directory (walk, "", -errno);
        walk->root_device = status.st_dev;
        walk->root_inode = status.st_ino;
        return 0;
    }
    if (errno == ENOENT)
        return s_fail (walk, -ENOENT, "there is no folder '%s': check the path", self->root);
    if (errno == ENOTDIR)
        return s_fail (walk, -ENOTDIR, "'%s' is not a folder: give the folder that holds the class folders",
            self->root);
    return s_fail_directory (walk, "", -errno);
}

static void
s_trim (catalogue_t *self)
{
    self->arena = s_trimmed (self->arena, self->arena_used, 1);
    self->classes = s_trimmed (self->classes, self->class_count, sizeof *self->classes);
    self->directories = s_trimmed (self->directories, self->directory_count, sizeof *self->directories);
    self->samples = s_trimmed (self->samples, self->sample_count, sizeof *self->samples);
}

int
catalogue_walk (catalogue_t *self, char *error, size_t error_bytes)
{
    walk_t walk = { .self = self, .error = error, .error_bytes = error_bytes };
    int rc = s_open_root (&walk);
    if (rc == 0)
        rc = s_find_classes (&walk);
    if (rc == 0)
        rc = s_walk_classes (&walk);
    if (rc == 0)
        s_trim (self);
    free (walk.visits);
    return rc;
}
