/*  catalogue_labels.c -- a labels file becomes samples and columns.
 *
 *  happy path:  the whole file is read into memory; its reader (TSV or JSONL) adds a sample and a value of
 *               each column for every line; then every file is looked at, in the order of the lines.
 *  failure:     as in catalogue_classes.c.
 */
#include "catalogue_labels.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>
#include "catalogue_places.h"
#include "utf8.h"

//  -- errors and lines

int
catalogue_labels_fail (const labels_t *labels, int rc, uint64_t line, const char *format, ...)
{
    char sentence [1024];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (sentence, sizeof sentence, format, arguments);
    va_end (arguments);
    return catalogue_fail (labels->draft, rc, "%s:%llu: %s", labels->shown, (unsigned long long) line,
        sentence);
}

void
catalogue_labels_rewind (labels_t *labels)
{
    static const char mark [] = "\xef\xbb\xbf";         //  written by Windows' editors before UTF-8
    bool is_marked = labels->size >= 3 && memcmp (labels->text, mark, 3) == 0;
    labels->at = is_marked? 3: 0;
    labels->line = 0;
}

static bool
s_rest_is_empty (const labels_t *labels)
{
    return labels->at + strspn (labels->text + labels->at, "\r\n") == labels->size;
}

int
catalogue_labels_next (labels_t *labels, slice_t *line_p)
{
    if (labels->at == labels->size)
        return 0;
    labels->line++;
    const char *at = labels->text + labels->at;
    const char *end = memchr (at, '\n', labels->size - labels->at);
    size_t length = end? (size_t) (end - at): labels->size - labels->at;
    size_t bare = length > 0 && at [length - 1] == '\r'? length - 1: length;
    if (bare == 0 && s_rest_is_empty (labels))
        return 0;
    if (bare == 0)
        return catalogue_labels_fail (labels, -EINVAL, labels->line, "the line is empty: remove it");
    if (length > LABELS_LINE_BYTES_MAX)
        return catalogue_labels_fail (labels, -EINVAL, labels->line,
            "the line has %zu bytes: shorten it to at most %d", length, LABELS_LINE_BYTES_MAX);
    labels->at += length + (end? 1: 0);
    *line_p = (slice_t) { at, bare };
    return 1;
}


//  -- samples

typedef struct {
    const catalogue_t *catalogue;
    uint32_t directory;
    slice_t name;
} wanted_t;

static bool
s_is (const catalogue_t *self, uint64_t text, slice_t name)
{
    return strncmp (self->arena + text, name.at, name.length) == 0 && self->arena [text + name.length] == 0;
}

static bool
s_same_directory (const void *argument, uint32_t item)
{
    const wanted_t *wanted = argument;
    return s_is (wanted->catalogue, wanted->catalogue->directories [item].path, wanted->name);
}

static bool
s_same_sample (const void *argument, uint32_t item)
{
    const wanted_t *wanted = argument;
    const sample_t *sample = &wanted->catalogue->samples [item];
    return sample->directory == wanted->directory && s_is (wanted->catalogue, sample->name, wanted->name);
}

//  Requires one spelling of paths, so that duplicates are found, and paths inside the folder.
static const char *
s_path_fault (slice_t path)
{
    if (path.length == 0)
        return "there is no path: write the file's, from the folder on";
    if (path.at [0] == '/')
        return "the path is absolute: write it from the folder on, like 'a/b.jpg'";
    for (size_t at = 0; at <= path.length; at++) {
        size_t size = 0;
        while (at + size < path.length && path.at [at + size] != '/')
            size++;
        if (size == 2 && memcmp (path.at + at, "..", 2) == 0)
            return "the path has '..' in it: write it from the folder on, like 'a/b.jpg', and keep the files "
                "below it";
        if (size == 0 || (size == 1 && path.at [at] == '.'))
            return "the path has an empty part or '.' in it: write it plainly, like 'a/b.jpg'";
        at += size;
    }
    return NULL;
}

static int
s_add_directory (labels_t *labels, slice_t path, uint32_t *directory_p)
{
    catalogue_t *self = labels->self;
    wanted_t wanted = { .catalogue = self, .name = path };
    uint64_t hash = XXH3_64bits (path.at, path.length);
    int64_t found = catalogue_lookup_find (&labels->directories, hash, s_same_directory, &wanted);
    if (found != LOOKUP_NONE) {
        *directory_p = (uint32_t) found;
        return 0;
    }
    directory_t *directories = catalogue_grown (self->directories, &self->directory_limit,
        self->directory_count + 1, sizeof *directories);
    if (!directories)
        return catalogue_fail_memory (labels->draft);
    self->directories = directories;
    *directory_p = (uint32_t) self->directory_count;        //  fewer than the samples
    directory_t *directory = &directories [self->directory_count];
    *directory = (directory_t) { 0 };
    if (catalogue_add_text (self, NULL, path.at, path.length, &directory->path)
            || catalogue_lookup_add (&labels->directories, hash, *directory_p))
        return catalogue_fail_memory (labels->draft);
    self->directory_count++;
    return 0;
}

//  A list's paths are all relative or all absolute; absolute ones are relative to '/'.
static int
s_note_absolute (labels_t *labels, slice_t *path)
{
    bool is_absolute = path->length > 1 && path->at [0] == '/';
    if (labels->self->sample_count == 0)
        labels->is_absolute = is_absolute;
    if (labels->is_absolute != is_absolute)
        return catalogue_labels_fail (labels, -EINVAL, labels->line,
            "'%s' is %s, and the lines before have it the other "
            "way: write all paths in one way", catalogue_shown (path->at, path->length).text,
            is_absolute? "absolute": "relative");
    if (is_absolute)
        *path = (slice_t) { path->at + 1, path->length - 1 };
    return 0;
}

int
catalogue_labels_add_path (labels_t *labels, slice_t path)
{
    catalogue_t *self = labels->self;
    int rc = labels->is_list? s_note_absolute (labels, &path): 0;
    if (rc)
        return rc;
    const char *fault = s_path_fault (path);
    if (fault)
        return catalogue_labels_fail (labels, -EINVAL, labels->line, "'%s': %s",
            catalogue_shown (path.at, path.length).text, fault);
    if (path.length >= PATH_MAX)
        return catalogue_labels_fail (labels, -ENAMETOOLONG, labels->line, "the path has %zu bytes: "
            "move the file up or shorten its folders' names", path.length);
    if (self->sample_count == UINT32_MAX)
        //  UNTESTED: takes 2^32 lines.
        return catalogue_labels_fail (labels, -EOVERFLOW, labels->line,
            "more than %u samples: serve them in parts", UINT32_MAX);
    const char *slash = memrchr (path.at, '/', path.length);
    slice_t folder = { path.at, slash? (size_t) (slash - path.at): 0 };
    slice_t name = slash? (slice_t) { slash + 1, path.length - folder.length - 1 }: path;
    uint32_t directory = 0;
    rc = s_add_directory (labels, folder, &directory);
    if (rc)
        return rc;
    wanted_t wanted = { self, directory, name };
    uint64_t hash = XXH3_64bits_withSeed (name.at, name.length, directory);
    int64_t twin = catalogue_lookup_find (&labels->samples, hash, s_same_sample, &wanted);
    if (twin != LOOKUP_NONE)
        return catalogue_labels_fail (labels, -EINVAL, labels->line, "'%s' is named by line %llu already: "
            "remove one of the lines", catalogue_shown (path.at, path.length).text,
            (unsigned long long) twin + labels->lines_before + 1);
    if (catalogue_lookup_add (&labels->samples, hash, (uint32_t) self->sample_count)
            || catalogue_add_sample (self, directory, name.at, name.length, 0))
        return catalogue_fail_memory (labels->draft);
    return 0;
}


//  -- columns

int
catalogue_labels_add_column (labels_t *labels, slice_t name)
{
    catalogue_t *self = labels->self;
    shown_t shown = catalogue_shown (name.at, name.length);
    if (!catalogue_name_is_valid (name.at, name.length))
        return catalogue_labels_fail (labels, -EINVAL, labels->line, "a label cannot have the name '%s': "
            "use letters, digits and '_', at most %d", shown.text, CATALOGUE_NAME_BYTES_MAX - 1);
    if (strcmp (shown.text, "path") == 0 || catalogue_name_is_taken (self, shown.text))
        return catalogue_labels_fail (labels, -EINVAL, labels->line, "a label cannot have the name '%s', "
            "which another label, a field or the path has: choose another", shown.text);
    if (self->column_count == CATALOGUE_LABELS_MAX)
        return catalogue_labels_fail (labels, -EINVAL, labels->line, "more than %d labels: "
            "leave some out, or join numbers into a vector", CATALOGUE_LABELS_MAX);
    column_t *column = &self->columns [self->column_count++];
    *column = (column_t) { .kind = COLUMN_NEW, .length = 1 };
    memcpy (column->name, name.at, name.length);
    column->label.name = column->name;
    return 0;
}

int
catalogue_labels_shape (labels_t *labels, column_t *column, column_kind_t kind, bool is_vector, size_t length)
{
    if (kind != COLUMN_TEXT && length > CATALOGUE_LABEL_BYTES_MAX / sizeof (value_t))
        return catalogue_labels_fail (labels, -EINVAL, labels->line, "'%s' has %zu numbers: "
            "keep to at most %zu, or store them as a field of their own", column->name, length,
            CATALOGUE_LABEL_BYTES_MAX / sizeof (value_t));
    column->kind = kind;
    column->is_vector = is_vector;
    column->length = length;
    return 0;
}

int
catalogue_labels_real (const labels_t *labels, const column_t *column, int64_t whole, bool is_wide,
    slice_t text, double *real_p)
{
    *real_p = (double) whole;
    if (!is_wide && catalogue_is_exact (whole))
        return 0;
    return catalogue_labels_fail (labels, -EINVAL, labels->line, "'%s' has numbers that are not whole, and "
        "%s, which is beyond 2^53, where float64 has not all whole numbers: write all as whole numbers, or "
        "this one with a point, if it may be rounded", column->name,
        catalogue_shown (text.at, text.length).text);
}

int
catalogue_labels_put (labels_t *labels, column_t *column, value_t value)
{
    value_t *values = catalogue_grown (column->values, &column->value_limit, column->value_count + 1,
        sizeof *values);
    if (!values)
        return catalogue_fail_memory (labels->draft);
    column->values = values;
    values [column->value_count++] = value;
    return 0;
}

int
catalogue_labels_put_text (labels_t *labels, column_t *column, slice_t text)
{
    if (text.length > CATALOGUE_LABEL_BYTES_MAX)
        return catalogue_labels_fail (labels, -EINVAL, labels->line,
            "'%s' has %zu bytes: shorten it to at most %d",
            column->name, text.length, CATALOGUE_LABEL_BYTES_MAX);
    if (text.length > column->longest)
        column->longest = text.length;
    value_t value;
    if (catalogue_add_text (labels->self, NULL, text.at, text.length, &value.text))
        return catalogue_fail_memory (labels->draft);
    return catalogue_labels_put (labels, column, value);
}

//  The description of a column, now that all values are there.
static int
s_finish_column (const labels_t *labels, column_t *column)
{
    if (column->kind == COLUMN_TEXT && column->longest == 0)
        return catalogue_fail (labels->draft, -EINVAL, "%s: '%s' is empty in every line: remove it",
            labels->shown, column->name);
    catalogue_column_describe (column);
    assert (column->value_count == labels->self->sample_count * column->length);
    return 0;
}


//  -- the text

static int
s_check_zeros (const labels_t *labels)
{
    const char *zero = memchr (labels->text, 0, labels->size);
    if (!zero)
        return 0;
    uint64_t line = 1;
    for (const char *at = labels->text; (at = memchr (at, '\n', (size_t) (zero - at))); at++)
        line++;
    return catalogue_labels_fail (labels, -EINVAL, line, "there is a zero byte, so this is no text: "
        "save the file as UTF-8");
}

//  A path a line, and no labels.
static int
s_read_paths (labels_t *labels)
{
    slice_t line;
    int rc;
    while ((rc = catalogue_labels_next (labels, &line)) > 0)
        if ((rc = catalogue_labels_add_path (labels, line)))
            return rc;
    return rc;
}

static const labels_reader_t s_paths = { .ending = ".txt", .read = s_read_paths };

static int
s_parse (labels_t *labels, const labels_reader_t *reader)
{
    catalogue_t *self = labels->self;
    assert (labels->text [labels->size] == 0);
    labels->lines_before = reader->lines_before;
    int rc = s_check_zeros (labels);
    catalogue_labels_rewind (labels);
    if (rc == 0)
        rc = reader->read (labels);
    if (rc == 0 && self->sample_count == 0)
        rc = catalogue_fail (labels->draft, -ENODATA,
            "%s names no file: write a line for each sample, or remove it", labels->shown);
    for (size_t column = 0; rc == 0 && column < self->column_count; column++)
        rc = s_finish_column (labels, &self->columns [column]);
    free (labels->directories.slots);
    free (labels->samples.slots);
    return rc;
}

int
catalogue_labels_parse (draft_t *draft, const labels_reader_t *reader, const char *text, size_t size)
{
    labels_t labels = { .draft = draft, .self = draft->self, .shown = "labels", .text = text, .size = size };
    return s_parse (&labels, reader);
}


//  -- the files

static int
s_fail_no_file (const labels_t *labels, uint64_t line, const char *path)
{
    return catalogue_labels_fail (labels, -ENODATA, line, "there is no file '%s': correct the path or remove "
        "the line", catalogue_shown (path, strlen (path)).text);
}

//  There is one that is the same text in another Unicode form, which looks the same.
static int
s_fail_form (const labels_t *labels, uint64_t line, const char *path, const char *there)
{
    bool is_composed = strlen (path) < strlen (there);
    return catalogue_labels_fail (labels, -ENODATA, line, "there is no file '%s', but one with the same name "
        "in another Unicode form: there a letter and its accent are %s, here %s: write the path as it is "
        "there, or rename the file", catalogue_shown (path, strlen (path)).text,
        is_composed? "two characters (NFD)": "one character (NFC)", is_composed? "one (NFC)": "two (NFD)");
}

//  Whether the folder has such an entry; its name is appended to the folder's path.
static bool
s_find_entry (int root_fd, char folder [PATH_MAX], const char *name)
{
    DIR *directory = catalogue_folder_open (root_fd, folder);
    struct dirent *item;
    bool found = false;
    while (directory && !found && catalogue_folder_next (directory, &item) > 0) {
        size_t length = strlen (folder);
        found = utf8_is_other_form (name, item->d_name)
            && length + strlen (item->d_name) + 2 < PATH_MAX;
        if (found)
            snprintf (folder + length, PATH_MAX - length, "%s%s", length? "/": "", item->d_name);
    }
    if (directory)
        closedir (directory);
    return found;
}

//  The path with each name as the disk has it.
static bool
s_find_form (int root_fd, const char *path, char there [PATH_MAX])
{
    there [0] = 0;
    for (const char *at = path; *at; at += *at == '/') {
        size_t size = strcspn (at, "/"), length = strlen (there);
        char name [PATH_MAX];
        snprintf (name, sizeof name, "%.*s", (int) size, at);
        at += size;
        int added = snprintf (there + length, PATH_MAX - length, "%s%s", length? "/": "", name);
        if (added < 0 || (size_t) added >= PATH_MAX - length)
            return false;
        if (faccessat (root_fd, there, F_OK, 0) == 0)
            continue;
        there [length] = 0;
        if (!s_find_entry (root_fd, there, name))
            return false;
    }
    return true;
}

static void
s_set_bytes (const labels_t *labels, uint32_t id, uint64_t bytes)
{
    labels->self->samples [id].bytes = bytes;
    labels->self->bytes += bytes;
}

static int
s_check_object (const labels_t *labels, uint32_t id)
{
    char path [PATH_MAX];
    catalogue_path (labels->self, id, 0, path, sizeof path);
    const store_listing_t *listing = &labels->self->fields [0].listing;
    const store_object_t *object = store_listing_find (listing, path);
    uint64_t line = id + labels->lines_before + 1;
    for (size_t index = 0; !object && index < listing->count; index++)
        if (utf8_is_other_form (path, store_listing_name (listing, &listing->objects [index])))
            return s_fail_form (labels, line, path, store_listing_name (listing, &listing->objects [index]));
    if (!object)
        return s_fail_no_file (labels, line, path);
    s_set_bytes (labels, id, object->bytes);
    return 0;
}

//  Every file must exist now: a misspelt path is better reported at the start than as a bad sample at night.
static int
s_check_file (const labels_t *labels, uint32_t id)
{
    catalogue_t *self = labels->self;
    char path [PATH_MAX];
    size_t length = catalogue_path (self, id, 0, path, sizeof path);
    shown_t shown = catalogue_shown (path, length);
    uint64_t line = id + labels->lines_before + 1;
    struct stat status;
    if (fstatat (self->fields [0].root_fd, path, &status, 0) != 0) {
        int rc = -errno;
        char there [PATH_MAX];
        if (rc == -ENOENT && s_find_form (self->fields [0].root_fd, path, there))
            return s_fail_form (labels, line, path, there);
        if (rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP || rc == -ENAMETOOLONG)
            return s_fail_no_file (labels, line, path);
        return catalogue_labels_fail (labels, rc, line, "cannot look at '%s' (%s): %s", shown.text,
            strerror (-rc), rc == -EACCES? "let this user enter its folder": "check the file system");
    }
    if (!S_ISREG (status.st_mode))
        return catalogue_labels_fail (labels, -ENODATA, line, "'%s' is not a file: correct the path",
            shown.text);
    s_set_bytes (labels, id, (uint64_t) status.st_size);
    if (labels->draft->cache)
        self->samples [id].zero = catalogue_places_tag (&status);
    return 0;
}

static int
s_fail_file (const labels_t *labels, int rc)
{
    return catalogue_fail (labels->draft, rc, "cannot read '%s' (%s): %s", labels->shown, strerror (-rc),
        rc == -EACCES? "let this user read it":
        rc == -EMFILE || rc == -ENFILE? "raise the limit of open files":
        rc == -ENOENT || rc == -ESTALE? "it changed meanwhile: try again": "check the file system");
}

static int
s_fail_large (const labels_t *labels)
{
    return catalogue_fail (labels->draft, -EINVAL, "'%s' has more than %llu bytes: serve the data in parts",
        labels->shown, (unsigned long long) LABELS_FILE_BYTES_MAX);
}

//  labels->text is the caller's, malloc'ed; NULL after an early failure.
static int
s_read_text (labels_t *labels, int fd)
{
    struct stat status;
    if (fstat (fd, &status) != 0)
        return s_fail_file (labels, -errno);
    if (!S_ISREG (status.st_mode))
        return catalogue_fail (labels->draft, -EINVAL, "'%s' is not a file: remove it", labels->shown);
    if ((uint64_t) status.st_size > LABELS_FILE_BYTES_MAX)
        return s_fail_large (labels);
    labels->size = (size_t) status.st_size;
    char *text = malloc (labels->size + 1);
    labels->text = text;
    if (!text)
        return catalogue_fail_memory (labels->draft);
    text [labels->size] = 0;
    int rc = catalogue_read_at (fd, (uint8_t *) text, labels->size, CATALOGUE_HERE);
    return rc? s_fail_file (labels, rc): 0;
}

//  The paths are absolute: the root becomes '/'.
static int
s_reroot (labels_t *labels)
{
    field_t *field = &labels->self->fields [0];
    int fd = open ("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return catalogue_fail_folder (labels->draft, "", "", -errno);
    close (field->root_fd);
    field->root_fd = fd;
    field->root_inode = 0;              //  it cannot go away
    struct stat status;
    field->root_device = fstat (fd, &status) == 0? status.st_dev: 0;
    char *path = strdup ("/");
    if (!path)
        return catalogue_fail_memory (labels->draft);
    free (field->path);
    field->path = path;
    return 0;
}

//  path: from folder_fd on, or as the caller of the program wrote it.
static int
s_read_file (labels_t *labels, const labels_reader_t *reader, int folder_fd, const char *path)
{
    int fd;
    do                                  //  a fifo must not make us wait
        fd = openat (folder_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return s_fail_file (labels, -errno);
    int rc = s_read_text (labels, fd);
    close (fd);
    if (rc == 0)
        rc = s_parse (labels, reader);
    free ((char *) labels->text);
    if (rc == 0 && labels->is_absolute)
        rc = s_reroot (labels);
    progress_step (labels->draft->progress, &(progress_step_t) { .what = "looking at files", .unit = "files",
        .total = labels->self->sample_count }, 0);
    for (uint32_t id = 0; rc == 0 && id < labels->self->sample_count; id++) {
        rc = s_check_file (labels, id);
        progress_tell (labels->draft->progress, id + 1, 0);
    }
    return rc;
}

//  The same from an object of the samples' store.
static int
s_read_object (labels_t *labels, const labels_reader_t *reader, const char *name)
{
    const store_object_t *object = store_listing_find (&labels->self->fields [0].listing, name);
    char *text;
    if (object->bytes > LABELS_FILE_BYTES_MAX)
        return s_fail_large (labels);
    int rc = catalogue_listing_read (labels->draft, object, &text);
    if (rc)
        return rc;
    labels->text = text;
    labels->size = (size_t) object->bytes;
    rc = s_parse (labels, reader);
    free (text);
    for (uint32_t id = 0; rc == 0 && id < labels->self->sample_count; id++)
        rc = s_check_object (labels, id);
    return rc;
}

//  1 or 0; a dangling link exists, a folder of that name is a class.
static int
s_is_there (const draft_t *draft, const char *name)
{
    struct stat status;
    const field_t *field = &draft->self->fields [0];
    if (field->store)
        return store_listing_find (&field->listing, name) != NULL;
    if (fstatat (field->root_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return !S_ISDIR (status.st_mode);
    return errno == ENOENT? 0: catalogue_fail_folder (draft, field->path, "", -errno);
}

static bool
s_ends_in (const char *name, const char *ending)
{
    size_t length = strlen (name), size = strlen (ending);
    return length > size && strcmp (name + length - size, ending) == 0;
}

//  A list, by what its name ends in.
static int
s_read_list (draft_t *draft, const labels_reader_t *const *readers)
{
    const labels_reader_t *reader = s_ends_in (draft->labels, s_paths.ending)? &s_paths: NULL;
    for (; !reader && *readers; readers++)
        reader = s_ends_in (draft->labels, (*readers)->ending)? *readers: NULL;
    if (!reader)
        return catalogue_fail (draft, -EINVAL,
            "'%s' is no list: name it .tsv, .jsonl or .txt after what it holds", draft->labels);
    labels_t labels = { .draft = draft, .self = draft->self, .shown = draft->labels, .is_list = true };
    int rc = s_read_file (&labels, reader, AT_FDCWD, draft->labels);
    return rc? rc: 1;
}

int
catalogue_labels_read (draft_t *draft, const labels_reader_t *const *readers)
{
    if (draft->labels)
        return s_read_list (draft, readers);
    const labels_reader_t *found = NULL;
    char name [NAME_MAX + 1], found_name [NAME_MAX + 1], shown [PATH_MAX + 16];
    for (; *readers; readers++) {
        snprintf (name, sizeof name, "labels%s", (*readers)->ending);
        int is_there = s_is_there (draft, name);
        if (is_there < 0)
            return is_there;
        if (is_there && found)
            return catalogue_fail (draft, -EINVAL, "there are both %s and %s in '%s': remove one", found_name,
                name, catalogue_root (draft->self));
        if (is_there) {
            found = *readers;
            strcpy (found_name, name);
        }
    }
    if (!found)
        return 0;
    snprintf (shown, sizeof shown, "%s/%s", catalogue_root (draft->self), found_name);
    labels_t labels = { .draft = draft, .self = draft->self, .shown = shown };
    const field_t *field = &draft->self->fields [0];
    int rc = field->store? s_read_object (&labels, found, found_name):
        s_read_file (&labels, found, field->root_fd, found_name);
    return rc? rc: 1;
}
