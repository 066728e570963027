//  How class folders become a catalogue, by torchvision's ImageFolder rules: folders on a disk, or the first
//  parts of the names of a store's objects; which number a class has; and the list of a store's objects.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>
#include "catalogue_places.h"
#include "location.h"
#include "pack_format.h"
#include "utf8.h"

//  ---- classes

//  What makes an ImageFolder, by torchvision's rules, in a folder and in a list of a store's objects alike:
//  names, classes, classes without a sample.

enum { LIST_PATIENCE_MS = 15000 };      //  a user waits for the server to start
enum { EMPTY_SHOWN_MAX = 5 };           //  that an error names; the rest is counted
enum { EXTENSION_BYTES_MAX = 16 };

//  Classes without a sample.
typedef struct {
    size_t count;
    size_t labels [EMPTY_SHOWN_MAX];
    char other [EXTENSION_BYTES_MAX + 1];       //  the extension of a file that is no sample; "": of none
} empty_classes_t;

const char catalogue_image_extensions [] = ".jpg,.jpeg,.png,.ppm,.bmp,.pgm,.tif,.tiff,.webp";

//  -- names

//  Python's order of str, which torchvision sorts by.  For UTF-8 it is the order of the bytes; it differs
//  only between names that are not UTF-8 and others.
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
        uint32_t x = utf8_code_point (&a), y = utf8_code_point (&b);
        if (x != y || x == 0)
            return (x > y) - (x < y);
    }
}

//  Folds ASCII only: tolower would ask the locale, and Turkish folds I otherwise.
static char
s_lower (char letter)
{
    return letter >= 'A' && letter <= 'Z'? (char) (letter + ('a' - 'A')): letter;
}

static void
s_note_other (empty_classes_t *empty, const char *name)
{
    const char *dot = strrchr (name, '.');
    size_t size = dot && dot > name? strlen (dot): 0;
    if (*empty->other || size < 2 || size > EXTENSION_BYTES_MAX || strpbrk (dot, " ,"))
        return;
    for (size_t index = 0; index <= size; index++)
        empty->other [index] = s_lower (dot [index]);
}

//  Whether the name of a file in a class folder ends in one of the extensions (".wav,.flac"), in any case;
//  else notes its own.
static bool
s_is_wanted (const char *name, const char *extensions, empty_classes_t *empty)
{
    size_t length = strlen (name);
    for (const char *at = extensions; *at; at += *at == ',') {
        size_t size = strcspn (at, ","), same = 0;
        while (size <= length && same < size && s_lower (name [length - size + same]) == s_lower (at [same]))
            same++;
        if (same == size)
            return true;
        at += size;
    }
    s_note_other (empty, name);
    return false;
}


//  -- classes

static int
s_add_class (const draft_t *draft, const char *name, size_t length)
{
    catalogue_t *self = draft->self;
    uint64_t *classes = catalogue_grown (self->classes, &self->class_limit, self->class_count + 1,
        sizeof *classes);
    if (!classes)
        return catalogue_fail_memory (draft);
    self->classes = classes;
    if (catalogue_add_text (self, NULL, name, length, &classes [self->class_count]))
        return catalogue_fail_memory (draft);
    self->class_count++;
    return 0;
}

static int
s_tells (const char *file)
{
    return location_is_tar (file)? 3: location_packer (file)? 2: location_is_table (file);
}

//  Whether another file says more: tar files before Parquet and the like, which may be about them, and these
//  before a CSV.
static bool
s_tells_more (const char *file, const char *than)
{
    return s_tells (file) > s_tells (than);
}

//  file: one that is there in place of class folders, if possible of a kind of which packs are made; or "".
static int
s_fail_no_classes (const draft_t *draft, const char *file)
{
    const char *root = catalogue_root (draft->self);
    if (location_is_tar (file))
        return catalogue_fail (draft, -ENODATA, "no class folders in '%s', but tar files, as '%s': make a "
            "pack of all, `tureen pack %s/%s PACK`, and give that; tables and .json files beside them, as "
            "img2dataset writes, are not needed", root, catalogue_shown (file, strlen (file)).text, root,
            draft->self->fields [0].store? "{00000..00099}.tar": "*.tar");
    if (location_packer (file))
        return catalogue_fail (draft, -ENODATA, "no class folders in '%s', but '%s': make a pack, `%s %s "
            "PACK`, and give that", root, catalogue_shown (file, strlen (file)).text, location_packer (file),
            root);
    if (location_is_table (file) && !draft->self->fields [0].store)
        return catalogue_fail (draft, -ENODATA, "no class folders in '%s', but a table, '%s': make a labels "
            "file of it, `python3 -m tureen.labels %s/%s`", root, catalogue_shown (file, strlen (file)).text,
            root, catalogue_shown (file, strlen (file)).text);
    return catalogue_fail (draft, -ENODATA,
        "no class folders in '%s': put the images into one folder for each class, or name them in a "
        "labels.tsv or labels.jsonl there", catalogue_root (draft->self));
}

static void
s_note_empty (empty_classes_t *empty, size_t label)
{
    if (empty->count++ < EMPTY_SHOWN_MAX)
        empty->labels [empty->count - 1] = label;
}

static int
s_fail_empty (const draft_t *draft, const empty_classes_t *empty)
{
    const catalogue_t *self = draft->self;
    //  Packing was stopped before its first journal; pack.c handles folders with a journal.
    if (self->class_count == 1 && strcmp (self->arena + self->classes [0], PACKING_FOLDER) == 0)
        return catalogue_fail_unfinished (draft);
    char names [EMPTY_SHOWN_MAX * 90] = "";
    size_t used = 0;
    size_t shown = empty->count < EMPTY_SHOWN_MAX? empty->count: EMPTY_SHOWN_MAX;
    for (size_t index = 0; index < shown; index++)
        used += (size_t) snprintf (names + used, sizeof names - used, "%s'%.80s'", index? ", ": "",
            self->arena + self->classes [empty->labels [index]]);
    char more [40] = "";
    if (empty->count > shown)
        snprintf (more, sizeof more, " and %zu more", empty->count - shown);
    bool is_image = !draft->extensions, is_one = empty->count == 1;
    char others [320] = "";
    if (is_image && self->sample_count == 0 && *empty->other)
        snprintf (others, sizeof others,
            "; or say which other files are samples, as in --extensions NAME=%s",
            catalogue_shown (empty->other, strlen (empty->other)).text);
    return catalogue_fail (draft, -ENODATA,
        "no %s in %zu of the %zu class folders in '%s': %s%s: remove the %s or add %ss (%s)%s",
        is_image? "image": "file", empty->count, self->class_count, catalogue_root (self), names, more,
        is_one? "folder": "folders", is_image? "image": "file",
        is_image? catalogue_image_extensions: draft->extensions, self->sample_count == 0? others: is_one?
        "; or keep it as a class (--allow-empty), so that later classes keep their numbers":
        "; or keep them as classes (--allow-empty), so that later classes keep their numbers");
}

//  What is wrong with class folders, if anything: 0, or -errno.
static int
s_judge_classes (const draft_t *draft, const empty_classes_t *empty)
{
    bool may_be = draft->allow_empty && draft->self->sample_count > 0;
    int rc = catalogue_judge_splits (draft, CATALOGUE_SPLITS_OF_FOLDER);
    return rc? rc: empty->count && !may_be? s_fail_empty (draft, empty): 0;
}


//  -- numbers

static const char *
s_class (const catalogue_t *self, size_t class)
{
    return self->arena + self->classes [class];
}

static int
s_compare_classes (const void *left, const void *right, void *of)
{
    return strcmp (s_class (of, *(const uint32_t *) left), s_class (of, *(const uint32_t *) right));
}

//  The classes' numbers in the order of their names' bytes; the caller's.  NULL: no memory.
static uint32_t *
s_sorted (const catalogue_t *of)
{
    uint32_t *sorted = malloc (of->class_count * sizeof *sorted);
    for (uint32_t class = 0; sorted && class < of->class_count; class++)
        sorted [class] = class;
    if (sorted)
        qsort_r (sorted, of->class_count, sizeof *sorted, s_compare_classes, (void *) of);
    return sorted;
}

//  False: there is no class of this name.
static bool
s_find_number (const catalogue_t *of, const uint32_t *sorted, const char *name, uint32_t *number_p)
{
    size_t low = 0, high = of->class_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp (name, s_class (of, sorted [middle]));
        if (order == 0) {
            *number_p = sorted [middle];
            return true;
        }
        low = order > 0? middle + 1: low;
        high = order > 0? high: middle;
    }
    return false;
}

static int
s_take_numbers (const draft_t *draft, const catalogue_t *of)
{
    catalogue_t *self = draft->self;
    if (self->class_count == 0 || of->class_count == 0)
        return catalogue_fail (draft, -EINVAL, "'%s' has no class folders and no names of classes, by which "
            "labels could be numbered: leave out classes-from",
            catalogue_root (self->class_count == 0? self: of));
    uint32_t *sorted = s_sorted (of);
    self->numbers = malloc (self->class_count * sizeof *self->numbers);
    int rc = sorted && self->numbers? 0: catalogue_fail_memory (draft);
    for (size_t class = 0; rc == 0 && class < self->class_count; class++)
        if (!s_find_number (of, sorted, s_class (self, class), &self->numbers [class]))
            rc = catalogue_fail (draft, -EINVAL, "'%s' is no class of '%s', by whose classes labels are "
                "numbered: %s, or leave out classes-from",
                catalogue_shown (s_class (self, class), strlen (s_class (self, class))).text,
                catalogue_root (of), catalogue_class_is_folder (self)? "rename or remove its folder":
                "pack again with that name");
    self->classes_of = of;
    free (sorted);
    return rc;
}

//  Whether a class has no sample.  1, 0 or -ENOMEM.
static int
s_has_empty (const catalogue_t *self)
{
    bool *is_there = calloc (self->class_count + 1, sizeof *is_there);
    if (!is_there)
        return -ENOMEM;
    size_t found = 0;
    for (size_t id = 0; id < self->sample_count && found < self->class_count; id++) {
        uint32_t class = self->directories [self->samples [id].directory].label;
        found += !is_there [class];
        is_there [class] = true;
    }
    free (is_there);
    return found < self->class_count;
}

static int
s_hash_names (const draft_t *draft)
{
    catalogue_t *self = draft->self;
    XXH3_state_t *state = XXH3_createState ();
    if (!state)
        return catalogue_fail_memory (draft);
    XXH3_128bits_reset (state);
    XXH3_128bits_update (state, self->fingerprint, sizeof self->fingerprint);
    for (uint32_t class = 0; class < catalogue_classes (self); class++) {
        const char *name = catalogue_class_name (self, class);
        XXH3_128bits_update (state, name, strlen (name) + 1);
    }
    catalogue_fingerprint_end (state, self->numbered_fingerprint);
    return 0;
}

int
catalogue_number_classes (const draft_t *draft, const catalogue_t *of)
{
    assert (!of || !of->classes_of);
    if (of) {
        int rc = s_take_numbers (draft, of);
        return rc? rc: s_hash_names (draft);
    }
    const catalogue_t *self = draft->self;
    int is_apart = self->class_count == 0? 0: catalogue_class_is_folder (self)? s_has_empty (self): 1;
    return is_apart < 0? catalogue_fail_memory (draft): is_apart? s_hash_names (draft): 0;
}


//  ---- an ImageFolder on a disk

/*
 *  happy path:  list the root's directories and sort them: the classes.  For each class visit its directories
 *               breadth first from a growing list (no recursion: a tree may be deeper than a stack is); each
 *               is read once and the files that count are appended as they are found.  When the class is
 *               through, its directories are sorted by path and its files by (directory, name).
 *  failure:     the sentence is written at the fault (catalogue_fail), the code is returned upwards,
 *               catalogue_open destroys the rest.
 */

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
    uint32_t tag;                   //  catalogue_places_tag
} entry_t;


//  -- order

static int
s_compare_paths (const void *left, const void *right, void *arena)
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

//  The type of an entry, links followed.  torchvision takes a dangling link for a file, so it keeps its id
//  here; reading it fails.
static int
s_look (walk_t *walk, DIR *directory, const struct dirent *item, entry_t *entry)
{
    *entry = (entry_t) { .is_directory = item->d_type == DT_DIR };
    entry->is_wanted = !entry->is_directory
        && s_is_wanted (item->d_name, walk->extensions, &walk->empty);
    if (entry->is_directory || (!entry->is_wanted && item->d_type != DT_LNK && item->d_type != DT_UNKNOWN))
        return 0;
    struct stat status;
    if (fstatat (dirfd (directory), item->d_name, &status, 0) != 0)
        return errno == ENOENT || errno == ELOOP || errno == EACCES || errno == ENOTDIR
            || errno == ENAMETOOLONG? 0: -errno;
    entry->is_directory = S_ISDIR (status.st_mode);
    entry->bytes = S_ISREG (status.st_mode)? (uint64_t) status.st_size: 0;
    entry->tag = walk->draft->cache? catalogue_places_tag (&status): 0;
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
            rc = s_add_class (walk->draft, item->d_name, strlen (item->d_name));
        else if (s_tells_more (item->d_name, beside))
            snprintf (beside, sizeof beside, "%s", item->d_name);
        if (rc)
            break;
    }
    if (rc && !walk->draft->error [0])
        s_fail_folder (walk, "", rc);
    closedir (directory);
    if (!rc && self->class_count == 0)
        rc = s_fail_no_classes (walk->draft, beside);
    if (!rc && self->class_count == 1 && location_is_table (beside))
        snprintf (catalogue_warning_new (self), CATALOGUE_WARNING_BYTES,
            "all samples are of one class, '%.60s', "
            "and there is a table, '%.60s': if it has the labels, make a labels file of it, `python3 -m "
            "tureen.labels TABLE`", catalogue_shown (self->arena + self->classes [0],
            strlen (self->arena + self->classes [0])).text, catalogue_shown (beside, strlen (beside)).text);
    if (!rc)
        qsort_r (self->classes, self->class_count, sizeof *self->classes, s_compare_paths, self->arena);
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
    self->samples [self->sample_count - 1].zero = entry->tag;
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
        s_note_empty (&walk->empty, label);
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
    return s_judge_classes (walk->draft, &walk->empty);
}

static int
s_walk_folders (draft_t *draft)
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


//  ---- an ImageFolder in a store

//  The objects in the list are put into the order that a walk would find them in (class, directory, name);
//  one pass makes classes, directories and samples.

//  An object with a class: "class/directory/name".
typedef struct {
    const char *path;
    size_t class_length, directory_length;
    uint64_t bytes;
} listed_t;

typedef struct {
    draft_t *draft;
    catalogue_t *self;
    const char *extensions;
    listed_t *entries;
    size_t count;
    empty_classes_t empty;
} listing_walk_t;


//  -- order of objects

//  Texts of these lengths, in Python's order.
static int
s_compare_parts (const char *left, size_t left_length, const char *right, size_t right_length)
{
    char a [PATH_MAX], b [PATH_MAX];
    memcpy (a, left, left_length);
    memcpy (b, right, right_length);
    a [left_length] = b [right_length] = 0;
    return s_compare (a, b);
}

static int
s_compare_entries (const void *left, const void *right)
{
    const listed_t *a = left, *b = right;
    bool is_one_folder = a->directory_length == b->directory_length
        && memcmp (a->path, b->path, a->directory_length) == 0;
    if (is_one_folder)
        return s_compare (a->path + a->directory_length, b->path + b->directory_length);
    int order = s_compare_parts (a->path, a->class_length, b->path, b->class_length);
    return order? order: s_compare_parts (a->path, a->directory_length, b->path, b->directory_length);
}

//  A part of a key that no path can have, for people; NULL: none.  An empty one, "a//b", is served as a
//  folder of that name.
static const char *
s_wrong_part (const draft_t *draft, const char *key)
{
    for (const char *at = key; ; at++) {
        size_t size = strcspn (at, "/");
        if ((size == 1 && *at == '.') || (size == 2 && strncmp (at, "..", 2) == 0))
            return "'.' or '..' as a part";
        if (size == 0 && draft->is_to_pack)
            return "an empty part ('//')";
        at += size;
        if (!*at)
            return NULL;
    }
}


//  -- one pass

//  Objects beside the class folders are no samples, as files beside them are none.
static int
s_take_entries (listing_walk_t *walk)
{
    const store_listing_t *listing = &walk->self->fields [0].listing;
    walk->entries = reallocarray (NULL, listing->count + 1, sizeof *walk->entries);
    if (!walk->entries)
        return catalogue_fail_memory (walk->draft);
    const char *beside = "";
    for (size_t index = 0; index < listing->count; index++) {
        const char *path = store_listing_name (listing, &listing->objects [index]);
        const char *slash = strchr (path, '/');
        if (!slash && s_tells_more (path, beside))
            beside = path;
        if (!slash || slash == path)
            continue;
        if (strlen (path) >= PATH_MAX)
            return catalogue_fail_folder (walk->draft, catalogue_root (walk->self), path, -ENAMETOOLONG);
        const char *wrong = s_wrong_part (walk->draft, path);
        if (wrong)
            return catalogue_fail (walk->draft, -EINVAL, "the object '%s' below '%s' has %s of its key, "
                "which is no path of a file: rename it, or move it to another prefix",
                catalogue_shown (path, strlen (path)).text, catalogue_root (walk->self), wrong);
        walk->entries [walk->count++] = (listed_t) { .path = path, .class_length = (size_t) (slash - path),
            .directory_length = (size_t) (strrchr (path, '/') - path),
            .bytes = listing->objects [index].bytes };
    }
    if (walk->count == 0)
        return s_fail_no_classes (walk->draft, beside);
    qsort (walk->entries, walk->count, sizeof *walk->entries, s_compare_entries);
    return 0;
}

static int
s_add_directory (const listing_walk_t *walk, const listed_t *entry)
{
    catalogue_t *self = walk->self;
    directory_t *directories = catalogue_grown (self->directories, &self->directory_limit,
        self->directory_count + 1, sizeof *directories);
    if (!directories)
        return catalogue_fail_memory (walk->draft);
    self->directories = directories;
    directory_t *directory = &directories [self->directory_count];
    *directory = (directory_t) { .label = (uint32_t) self->class_count - 1 };
    if (catalogue_add_text (self, NULL, entry->path, entry->directory_length, &directory->path))
        return catalogue_fail_memory (walk->draft);
    self->directory_count++;
    return 0;
}

static bool
s_differ (const listed_t *before, const listed_t *entry, size_t length_before, size_t length)
{
    return !before || length_before != length || memcmp (before->path, entry->path, length) != 0;
}

//  before: the entry in front of it; NULL: it is the first.
static int
s_add_entry (listing_walk_t *walk, const listed_t *before, const listed_t *entry)
{
    catalogue_t *self = walk->self;
    int rc = 0;
    if (s_differ (before, entry, before? before->class_length: 0, entry->class_length))
        rc = s_add_class (walk->draft, entry->path, entry->class_length);
    if (rc == 0 && s_differ (before, entry, before? before->directory_length: 0, entry->directory_length))
        rc = s_add_directory (walk, entry);
    const char *name = entry->path + entry->directory_length + 1;
    if (rc || !s_is_wanted (name, walk->extensions, &walk->empty))
        return rc;
    if (self->sample_count == UINT32_MAX)
        //  UNTESTED: takes 2^32 objects.
        return catalogue_fail (walk->draft, -EOVERFLOW, "more than %u samples below '%s': serve them in "
            "parts", UINT32_MAX, catalogue_root (self));
    rc = catalogue_add_sample (self, (uint32_t) self->directory_count - 1, name, strlen (name), entry->bytes);
    return rc? catalogue_fail_memory (walk->draft): 0;
}

static int
s_pass (listing_walk_t *walk)
{
    const catalogue_t *self = walk->self;
    size_t first = 0;                   //  of the class's samples
    for (size_t index = 0; index < walk->count; index++) {
        size_t samples = self->sample_count, classes = self->class_count;
        int rc = s_add_entry (walk, index? &walk->entries [index - 1]: NULL, &walk->entries [index]);
        if (rc)
            return rc;
        if (self->class_count == classes)
            continue;
        if (classes > 0 && samples == first)
            s_note_empty (&walk->empty, classes - 1);
        first = samples;
    }
    if (self->sample_count == first)
        s_note_empty (&walk->empty, self->class_count - 1);
    return s_judge_classes (walk->draft, &walk->empty);
}

static int
s_walk_list (draft_t *draft)
{
    listing_walk_t walk = { .draft = draft, .self = draft->self,
        .extensions = draft->extensions? draft->extensions: catalogue_image_extensions };
    int rc = s_take_entries (&walk);
    if (rc == 0)
        rc = s_pass (&walk);
    free (walk.entries);
    return rc;
}

int
catalogue_walk (draft_t *draft)
{
    return draft->self->fields [0].store? s_walk_list (draft): s_walk_folders (draft);
}


//  ---- the list of a store's objects

//  -- kept on the local disk: a head, the objects, and their text, as they are in memory, with one checksum
//  over all.  It is written in units (block_data.h), so a server that is killed meanwhile may leave units of
//  two lists, which the checksum tells.

#define KEPT_MAGIC UINT64_C (0x313073746c656574)        //  "teelst01"
#define ROOM_BYTES (UINT64_C (1) << 30)                 //  some ten million objects

typedef struct {
    uint64_t magic, count, text_bytes;
    int64_t listed_s;
    uint64_t hash [2];                  //  of what is behind the head
    uint64_t zero [2];
} head_t;

_Static_assert (sizeof (store_object_t) == 24 && sizeof (head_t) == 64, "written as they are");

int
catalogue_listing_open (block_data_t **blocks_p, const store_t *store, block_cache_t *cache)
{
    block_data_key_t key = { { 0, 0 } };
    char *url = store_url (store, "");
    *blocks_p = NULL;
    if (!url)
        return -ENOMEM;
    block_data_key_add (&key, url, "a list of objects", ROOM_BYTES);
    free (url);
    return block_data_open (blocks_p, cache, &key, ROOM_BYTES);
}

static uint64_t
s_whole_units (uint64_t bytes)
{
    return block_data_next (0, bytes);
}

//  The sizes may be anything: what is on the disk is not trusted before its checksum.
static uint64_t
s_bytes (const head_t *head)
{
    if (head->magic != KEPT_MAGIC || head->count > ROOM_BYTES / sizeof (store_object_t)
    ||  head->text_bytes > ROOM_BYTES)
        return 0;
    uint64_t bytes = sizeof *head + head->count * sizeof (store_object_t) + head->text_bytes;
    return bytes <= ROOM_BYTES? bytes: 0;
}

static int
s_take (store_listing_t *self, const head_t *head, const uint8_t *objects)
{
    size_t object_bytes = head->count * sizeof *self->objects;
    self->objects = malloc (object_bytes + 1);
    self->text = malloc (head->text_bytes + 1);
    if (!self->objects || !self->text) {
        store_listing_clear (self);
        return -ENOMEM;
    }
    memcpy (self->objects, objects, object_bytes);
    memcpy (self->text, objects + object_bytes, head->text_bytes);
    self->count = self->limit = head->count;
    self->text_used = self->text_limit = head->text_bytes;
    return 0;
}

int
catalogue_listing_load (store_listing_t *self, block_data_t *blocks, int64_t *listed_s_p)
{
    assert (self && self->count == 0); assert (blocks); assert (listed_s_p);
    uint8_t first [BLOCK_DATA_UNIT_BYTES];
    block_data_gap_t gap = block_data_read (blocks, 0, sizeof first, first);
    head_t head;
    memcpy (&head, first, sizeof head);
    uint64_t bytes = gap.begin < gap.end? 0: s_bytes (&head);
    if (bytes == 0)
        return -ENODATA;
    uint8_t *memory = malloc (s_whole_units (bytes));
    if (!memory)
        return -ENOMEM;
    gap = block_data_read (blocks, 0, s_whole_units (bytes), memory);
    int rc = -ENODATA;
    if (gap.begin >= gap.end && memcmp (memory, &head, sizeof head) == 0) {
        XXH128_hash_t hash = XXH3_128bits (memory + sizeof head, bytes - sizeof head);
        if (hash.low64 == head.hash [0] && hash.high64 == head.hash [1])
            rc = s_take (self, &head, memory + sizeof head);
    }
    free (memory);
    *listed_s_p = head.listed_s;
    return rc;
}

void
catalogue_listing_keep (const store_listing_t *self, block_data_t *blocks, int64_t listed_s)
{
    assert (self); assert (blocks);
    head_t head = { .magic = KEPT_MAGIC, .count = self->count, .text_bytes = self->text_used,
        .listed_s = listed_s };
    uint64_t bytes = s_bytes (&head);
    uint8_t *memory = bytes? calloc (1, s_whole_units (bytes)): NULL;
    if (!memory)
        return;                         //  it is listed again next time
    uint8_t *end = memory + sizeof head;
    memcpy (end, self->objects, self->count * sizeof *self->objects);
    memcpy (end + self->count * sizeof *self->objects, self->text, self->text_used);
    XXH128_hash_t hash = XXH3_128bits (end, bytes - sizeof head);
    head.hash [0] = hash.low64;
    head.hash [1] = hash.high64;
    memcpy (memory, &head, sizeof head);
    block_data_store (blocks, 0, s_whole_units (bytes), memory, true);
    free (memory);
}

//  -- fetched

int
catalogue_listing_fetch (draft_t *draft, field_t *field)
{
    char what [500];
    int rc = 0;
    if (!store_lists (field->store))
        return catalogue_fail (draft, -ENOTSUP, "there is no pack at '%s', and a web server does not list "
            "its files: make a pack of them with `tureen pack`, and copy its folder there", field->path);
    if (draft->cache)
        (void) (catalogue_listing_open (&field->list_blocks, field->store, draft->cache) == 0);
    block_data_note (field->list_blocks, BLOCK_NOTE_OBJECT_LIST, field->path, 0, 0, NULL);
    field->list_was_aside = field->list_blocks && block_data_is_aside (field->list_blocks);
    bool is_kept = field->list_blocks && !draft->list_anew
        && catalogue_listing_load (&field->listing, field->list_blocks, &field->listed_s) == 0;
    if (!is_kept)
        rc = store_listing_fetch (&field->listing, field->store, LIST_PATIENCE_MS, draft->progress, what,
            sizeof what);
    if (rc)
        return catalogue_fail (draft, rc, "%s", what);
    field->listed_s = is_kept? field->listed_s: 0;
    draft->has_kept_list = draft->has_kept_list || is_kept;
    if (field->listing.count == 0)
        return catalogue_fail (draft, -ENODATA, "there is nothing at '%s', no pack and no objects: check "
            "the address", field->path);
    if (store_listing_find (&field->listing, "volume-00000.tureen"))
        return catalogue_fail (draft, -ENODATA, "'%s' has a pack's volumes, but not its %s: copy it from "
            "where it is whole, or pack again", field->path, PACK_INDEX_NAME);
    return 0;
}

int
catalogue_listing_read (const draft_t *draft, const store_object_t *object, char **text_p)
{
    field_t *field = &draft->self->fields [0];
    const char *name = store_listing_name (&field->listing, object);
    char *url = store_url (field->store, name), *text = malloc (object->bytes + 1);
    transfer_t transfer = { .url = url, .version = store_listing_version (&field->listing, object),
        .bytes = object->bytes, .expected_bytes = object->bytes, .memory = (uint8_t *) text };
    int rc = !url || !text? catalogue_fail_memory (draft): 0;
    if (rc == 0 && object->bytes > 0 && (rc = store_get (field->store, &transfer, 1, LIST_PATIENCE_MS))) {
        char what [500];
        store_explain (field->store, name, &transfer, what, sizeof what);
        catalogue_fail (draft, rc, "%s", what);
    }
    free (url);
    if (rc == 0)
        text [object->bytes] = 0;
    else {
        free (text);
        text = NULL;
    }
    *text_p = text;
    return rc;
}

static int
s_note_versions (draft_t *draft, size_t number)
{
    catalogue_t *self = draft->self;
    field_t *field = &self->fields [number];
    char path [PATH_MAX];
    field->versions = reallocarray (NULL, self->sample_count, sizeof *field->versions);
    if (!field->versions)
        return catalogue_fail_memory (draft);
    for (uint32_t id = 0; id < self->sample_count; id++) {
        catalogue_path (self, id, number, path, sizeof path);
        const store_object_t *object = store_listing_find (&field->listing, path);
        const char *version = store_listing_version (&field->listing, object);
        if (catalogue_add_text (self, NULL, version, strlen (version), &field->versions [id]))
            return catalogue_fail_memory (draft);
    }
    return 0;
}

//  One behind the other, in the order of the samples.
static int
s_place_objects (draft_t *draft, size_t number, block_data_key_t *key, uint64_t *bytes_p)
{
    catalogue_t *self = draft->self;
    field_t *field = &self->fields [number];
    field->places = reallocarray (NULL, self->sample_count, sizeof *field->places);
    if (!field->places)
        return catalogue_fail_memory (draft);
    for (uint32_t id = 0; id < self->sample_count; id++) {
        const char *version = catalogue_version (self, id, number);
        uint64_t bytes = catalogue_file_bytes (self, id, number);
        char *url = catalogue_url (self, id, number);
        if (!url)
            return catalogue_fail_memory (draft);
        block_data_key_add (key, url, version, bytes);
        free (url);
        field->places [id] = *bytes_p;
        //  One beyond the bound is never read.
        *bytes_p = block_data_next (*bytes_p, bytes <= CATALOGUE_SAMPLE_BYTES_MAX? bytes: 0);
        if (!*version)
            field->blocks_rc = -ENODATA;
    }
    return 0;
}

//  Where they cannot be kept, they are read from the store alone, and catalogue_blocks tells why.
static int
s_keep_objects (draft_t *draft, size_t number)
{
    field_t *field = &draft->self->fields [number];
    block_data_key_t key = { { 0, 0 } };
    uint64_t bytes = 0;
    int rc = s_place_objects (draft, number, &key, &bytes);
    if (rc == 0 && field->blocks_rc == 0 && bytes > 0)
        field->blocks_rc = block_data_open (&field->blocks, draft->cache, &key, bytes);
    block_data_note (field->blocks, BLOCK_NOTE_OBJECTS, field->path, draft->self->sample_count, bytes, NULL);
    return rc;
}

int
catalogue_listing_finish (draft_t *draft)
{
    int rc = 0;
    for (size_t number = 0; number < draft->self->field_count; number++) {
        field_t *field = &draft->self->fields [number];
        if (rc == 0 && field->store)
            rc = s_note_versions (draft, number);
        if (rc == 0 && field->store && draft->cache)
            rc = s_keep_objects (draft, number);
        //  Only a list that a catalogue could be made of.
        if (rc == 0 && field->list_blocks && !field->listed_s && !field->list_was_aside)
            catalogue_listing_keep (&field->listing, field->list_blocks, time (NULL));
        store_listing_clear (&field->listing);
        if (rc == 0 && !field->store && draft->cache)
            catalogue_places_find (draft, number);
    }
    return rc;
}
