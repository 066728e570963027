//  `tureen unpack`: gives the files of a pack back, byte for byte, in their folders.

#include "command.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "complain.h"
#include "file.h"
#include "machine.h"
#include "option.h"
#include "pack.h"
#include "pack_report.h"
#include "pack_scan.h"
#include "transfers.h"
#include "unpack_labels.h"
#include "words.h"

enum { EXIT_SOME_LOST = 1, EXIT_UNUSABLE = 2 };

typedef struct {
    const char *path, *target;
    const char *classes;                //  a file for their names; NULL: none
    bool quiet;
    catalogue_t *catalogue;
    int folder;                         //  target; -1: not open
    bool by_field;                      //  each field has a folder of its own
    bool *is_back;                      //  by id
    uint64_t samples, bytes;            //  that are back
    int fatal;                          //  -errno: writing cannot go on
    pack_report_meter_t meter;
} unpack_t;

//  ---- arguments

static const option_row_t s_rows [] = {
    { "classes", "FILE", OPTION_AT (unpack_t, classes),
        "writes the names of the classes, that `tureen pack --classes` gave the pack, to a new file" },
    { "quiet", NULL, OPTION_AT (unpack_t, quiet), "no progress on standard error" }
};

static const option_table_t s_table = { "tureen unpack", s_rows, OPTION_ROWS (s_rows), 2,
    .word_hint = "give a pack and a folder to unpack it to", .before =
    "Usage: tureen unpack [--classes FILE] [--quiet] PACK FOLDER\n"
    "Gives the files of a pack back, byte for byte, in their folders.  FOLDER is made, or empty.\n"
    "\n"
    "  tureen unpack /packs/train /data/train-again\n"
    "\n", .after =
    "\n"
    "Files get the paths that they had below the data set's folder or in the tar.  Where a folder was\n"
    "packed with further fields, which lay in folders of their own, each field gets one here:\n"
    "FOLDER/image, FOLDER/mask.  Labels that came from a labels file, and lists, come back as labels.tsv\n"
    "or labels.jsonl, so that packing FOLDER again gives a pack of the same fingerprint.  Of a pack that\n"
    "was made with names of classes (--classes) these are written where --classes tells.\n"
    "\n"
    "Every file is held against its checksum before it is written.  A damaged sample is named and left out,\n"
    "all its files; if only where the rows of its JPEG begin is damaged, it is named and comes back.\n"
    "\n"
    "Exit status: 0 all are back, 1 some are not (standard error says which), 2 unusable arguments.\n" };

//  -1: go on; else the exit status.
static int
s_parse (unpack_t *self, int argc, char **argv)
{
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    if (status >= 0)
        return status;
    self->path = result.words [0];
    self->target = result.words [1];
    if (result.word_count == 2)
        return -1;
    complain ("unpack", "give a pack and a folder to unpack it to; try: tureen unpack --help");
    return EXIT_UNUSABLE;
}

//  ---- folders and files.  Nothing is followed, nothing is written over: all was made by this call.

static bool
s_is_empty (int folder)
{
    int fd = openat (folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0? NULL: fdopendir (fd);
    if (!directory && fd >= 0)
        close (fd);
    bool is_empty = directory;
    for (struct dirent *item; is_empty && (item = readdir (directory)); )
        is_empty = strcmp (item->d_name, ".") == 0 || strcmp (item->d_name, "..") == 0;
    if (directory)
        closedir (directory);
    return is_empty;
}

static bool
s_open_target (unpack_t *self)
{
    if (mkdir (self->target, 0777) != 0 && errno != EEXIST)
        return complain ("unpack", "cannot make the folder '%s': %s", self->target, strerror (errno));
    self->folder = open (self->target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->folder < 0)
        return complain ("unpack", "cannot open the folder '%s': %s", self->target, strerror (errno));
    if (file_is_foreign (self->target))
        return complain ("unpack", "'%s' " FILE_FOREIGN_WORDS, self->target);
    return s_is_empty (self->folder)
        || complain ("unpack", "'%s' is not empty: give a folder that is, or one that is not there",
            self->target);
}

//  The folder below, made where it is not there.  Takes `folder` and closes it, unless it is `root`.  A
//  descriptor or -errno.
static int
s_enter (int root, int folder, const char *name)
{
    int next = -1, rc = 0;
    if (mkdirat (folder, name, 0777) != 0 && errno != EEXIST)
        rc = -errno;
    if (rc == 0 && (next = openat (folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        rc = -errno;
    if (folder != root)
        close (folder);
    return rc? rc: next;
}

//  The folder of a path, which is cut into parts.  *name_p: its last part.  A descriptor, to be closed unless
//  it is root; or -errno.
static int
s_enter_all (int root, char *path, const char **name_p)
{
    int folder = root;
    char *slash;
    while (folder >= 0 && (slash = strchr (path, '/'))) {
        *slash = 0;
        //  The index has been validated: no part is empty, '.' or '..'.
        assert (*path && strcmp (path, ".") && strcmp (path, ".."));
        folder = s_enter (root, folder, path);
        path = slash + 1;
    }
    *name_p = path;
    return folder;
}

static int
s_write_file (int folder, const char *name, const uint8_t *bytes, size_t size)
{
    int fd = openat (folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    int rc = file_write (fd, bytes, size);
    if (close (fd) && rc == 0)
        rc = -errno;
    if (rc)
        unlinkat (folder, name, 0);
    return rc;
}

enum { FIELD_PATH_BYTES = PATH_MAX + CATALOGUE_NAME_BYTES_MAX + 1 };

//  As s_enter_all: where the sample's file goes; *name_p is in path.
static int
s_enter_field (unpack_t *self, uint32_t id, size_t field, char path [FIELD_PATH_BYTES], const char **name_p)
{
    size_t used = 0;
    if (self->by_field)
        used = (size_t) snprintf (path, FIELD_PATH_BYTES, "%s/",
            catalogue_field_name (self->catalogue, field));
    catalogue_path (self->catalogue, id, field, path + used, PATH_MAX);
    return s_enter_all (self->folder, path, name_p);
}

static int
s_write_bytes (unpack_t *self, uint32_t id, size_t field, const uint8_t *bytes, size_t size)
{
    char path [FIELD_PATH_BYTES];
    const char *name;
    int folder = s_enter_field (self, id, field, path, &name);
    if (folder < 0)
        return folder;
    int rc = s_write_file (folder, name, bytes, size);
    if (folder != self->folder)
        close (folder);
    self->bytes += rc == 0? size: 0;
    return rc;
}

//  One that s_write_bytes has made.
static void
s_remove_field (unpack_t *self, uint32_t id, size_t field)
{
    char path [FIELD_PATH_BYTES];
    const char *name;
    int folder = s_enter_field (self, id, field, path, &name);
    if (folder < 0)
        return;
    unlinkat (folder, name, 0);
    if (folder != self->folder)
        close (folder);
}


//  ---- samples

//  Whether the next file would fail as well.
static bool
s_is_fatal (int rc)
{
    return rc != -EBADMSG && rc != -EEXIST && rc != -ENOTDIR && rc != -EISDIR && rc != -ENAMETOOLONG
        && rc != -EILSEQ
        && rc != -EINVAL && rc != -ELOOP;
}

static bool
s_write_sample (unpack_t *self, const pack_scan_sample_t *sample)
{
    const uint8_t *bytes = sample->bytes;
    uint64_t bytes_before = self->bytes;
    for (size_t field = 0; field < catalogue_fields (self->catalogue); field++) {
        size_t size = catalogue_file_bytes (self->catalogue, sample->id, field);
        int rc = s_write_bytes (self, sample->id, field, bytes, size);
        if (rc) {
            for (size_t before = 0; before < field; before++)
                s_remove_field (self, sample->id, before);      //  all its files or none
            self->bytes = bytes_before;
            char name [PACK_REPORT_NAME_BYTES];
            progress_clear (&self->meter.progress);
            complain ("unpack", "cannot write '%s' of the field '%s': %s%s",
                pack_report_name (self->catalogue, sample->id, field, name),
                catalogue_field_name (self->catalogue, field), strerror (-rc), machine_remedy (-rc));
            self->fatal = s_is_fatal (rc)? rc: 0;
            return false;
        }
        bytes += size;
    }
    return true;
}

static bool
s_on_sample (void *context, const pack_scan_sample_t *sample)
{
    unpack_t *self = context;
    pack_report_read (&self->meter, pack_sample_bytes (catalogue_pack (self->catalogue), sample->id));
    if (sample->damage) {
        progress_clear (&self->meter.progress);
        pack_report_sample (stderr, self->catalogue, sample);
    }
    if (!sample->is_whole)
        return true;
    if (!s_write_sample (self, sample))
        return !self->fatal;
    self->is_back [sample->id] = true;
    self->samples++;
    return true;
}

static void
s_on_volume (void *context, uint32_t volume, const char *damage, bool is_lost)
{
    unpack_t *self = context;
    progress_clear (&self->meter.progress);
    pack_report_volume (stderr, self->catalogue, volume, damage, is_lost);
}


//  ---- all of it

//  Fields beside the samples have different names there; others may have the samples' own.
static bool
s_is_by_field (const catalogue_t *catalogue)
{
    for (size_t field = 1; field < catalogue_fields (catalogue); field++)
        if (!catalogue_field_is_beside (catalogue, field))
            return true;
    return false;
}

//  *name_p: the labels file that was written, NULL for none.
static bool
s_write_labels (unpack_t *self, const char **name_p)
{
    *name_p = NULL;
    //  The labels of a tar with further members are those members.
    bool is_tar = catalogue_fields (self->catalogue) > 1 && !self->by_field;
    if (is_tar || !unpack_labels_needed (self->catalogue) || self->samples == 0)
        return true;
    int folder = self->folder;
    if (self->by_field)
        folder = s_enter (self->folder, self->folder, catalogue_field_name (self->catalogue, 0));
    int rc = folder < 0? folder: unpack_labels_write (self->catalogue, self->is_back, folder, name_p);
    if (folder >= 0 && folder != self->folder)
        close (folder);
    return rc == 0 || complain ("unpack", "cannot write the labels: %s%s",
        rc == -EINVAL? "they fit neither labels.tsv nor labels.jsonl": strerror (-rc), machine_remedy (-rc));
}

//  Names of classes are in no file of a sample.
static bool
s_write_names (unpack_t *self)
{
    if (!unpack_labels_have_names (self->catalogue))
        return !self->classes || complain ("unpack", "'%s' has no names of classes but those of folders: "
            "leave --classes out", self->path);
    int rc = self->classes? unpack_labels_write_names (self->catalogue, self->classes): 0;
    return rc == 0 || complain ("unpack", "cannot write '%s' (%s): give --classes the path of a new file",
        self->classes, rc == -EINVAL? "a name has a line's end in it": strerror (-rc));
}

static int
s_finish (unpack_t *self)
{
    const char *labels;
    bool fine = s_write_labels (self, &labels);
    uint32_t samples = catalogue_samples (self->catalogue);
    if (self->samples < samples)
        complain ("unpack", "%" PRIu64 " of %" PRIu32 " samples are not back", samples - self->samples,
            samples);
    printf ("%" PRIu64 " of %" PRIu32 " sample%s, %.1f MB%s%s, in %.2f s\n", self->samples, samples,
        plural (samples), (double) self->bytes / 1e6,
        labels? ", and ": "", labels? labels: "", pack_report_seconds (&self->meter));
    pack_report_tiled (stdout, self->catalogue);
    if (!self->classes && unpack_labels_have_names (self->catalogue))
        printf ("the pack has names of %" PRIu32 " class%s, which no file tells: --classes FILE writes "
            "them\n", catalogue_classes (self->catalogue), plural_es (catalogue_classes (self->catalogue)));
    return fine && self->samples == samples? EXIT_SUCCESS: EXIT_SOME_LOST;
}

static int
s_unpack (unpack_t *self)
{
    static const pack_scan_events_t events = { .sample = s_on_sample, .volume = s_on_volume };
    self->by_field = s_is_by_field (self->catalogue);
    self->is_back = calloc (catalogue_samples (self->catalogue), sizeof *self->is_back);
    if (!self->is_back)
        complain ("unpack", "not enough memory");
    if (!self->is_back || !s_open_target (self) || !s_write_names (self))
        return EXIT_UNUSABLE;
    pack_report_begin (&self->meter, "unpacking", catalogue_pack (self->catalogue));
    int rc = pack_scan (self->catalogue, &events, self);
    progress_clear (&self->meter.progress);
    if (rc == 0)
        return s_finish (self);
    if (!self->fatal && rc == -ENOMEM)
        complain ("unpack", "not enough memory");
    else
    if (!self->fatal)
        complain ("unpack", "'%s': %s", self->path, transfers_error (rc));
    complain ("unpack", "given up after %" PRIu64 " of %" PRIu32 " samples", self->samples,
        catalogue_samples (self->catalogue));
    return EXIT_SOME_LOST;
}

static int
s_run (unpack_t *self)
{
    char error [PACK_REPORT_ERROR_BYTES];
    int status;
    self->meter.progress = progress_begin ("unpack", self->quiet);
    self->folder = -1;
    self->catalogue = pack_report_open (self->path, &self->meter.progress, &status, error);
    if (self->catalogue)
        status = s_unpack (self);
    else
        complain ("unpack", "%s", error);
    if (self->folder >= 0)
        close (self->folder);
    free (self->is_back);
    catalogue_destroy (&self->catalogue);
    return status;
}

int
command_unpack (int argc, char **argv)
{
    complain_begin ();
    unpack_t unpack = { .path = NULL };
    int status = s_parse (&unpack, argc, argv);
    if (status < 0)
        status = s_run (&unpack);
    return complain_of_output ("unpack", status);
}
