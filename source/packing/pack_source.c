#include "pack_source.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <archive.h>
#include <archive_entry.h>
#include <xxhash.h>
#include "location.h"
#include "object_stream.h"
#include "pack.h"
#include "pack_format.h"
#include "store.h"
#include "tar.h"
#include "utf8.h"

//  ---- what all kinds share: the calls passed on

enum { PACK_SOURCE_MAGIC = 0x5afe50cc, SIGNATURE_BYTES = 33 };

typedef struct {
    int (*next) (void *state, pack_item_t *item, char *error);
    int (*skip) (void *state, uint64_t count, char *error);
    void (*progress) (const void *state, uint64_t *done_p, uint64_t *total_p);
    const catalogue_t *(*catalogue) (const void *state);
    void (*destroy) (void *state);
} pack_source_kind_t;

struct pack_source {
    uint32_t magic;
    const pack_source_kind_t *kind;
    void *state;
    char signature [SIGNATURE_BYTES];
};

//  A new source of that kind, which owns the state; signature is copied.  NULL: no memory (state is
//  destroyed).
static pack_source_t *
s_source_new (const pack_source_kind_t *kind, void *state, const char *signature)
{
    assert (kind); assert (state);
    assert (signature && strlen (signature) < SIGNATURE_BYTES);
    pack_source_t *self = calloc (1, sizeof *self);
    if (!self) {
        kind->destroy (state);
        return NULL;
    }
    self->magic = PACK_SOURCE_MAGIC;
    self->kind = kind;
    self->state = state;
    strcpy (self->signature, signature);
    return self;
}

void
pack_source_destroy (pack_source_t **self_p)
{
    assert (self_p);
    pack_source_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == PACK_SOURCE_MAGIC);
    self->kind->destroy (self->state);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

int
pack_source_next (pack_source_t *self, pack_item_t *item, char *error)
{
    assert (self && self->magic == PACK_SOURCE_MAGIC);
    assert (item); assert (error);
    return self->kind->next (self->state, item, error);
}

int
pack_source_skip (pack_source_t *self, uint64_t count, char *error)
{
    assert (self && self->magic == PACK_SOURCE_MAGIC);
    assert (error);
    return count? self->kind->skip (self->state, count, error): 1;
}

void
pack_source_progress (const pack_source_t *self, uint64_t *done_p, uint64_t *total_p)
{
    assert (self && self->magic == PACK_SOURCE_MAGIC);
    assert (done_p); assert (total_p);
    self->kind->progress (self->state, done_p, total_p);
}

const char *
pack_source_signature (const pack_source_t *self)
{
    assert (self && self->magic == PACK_SOURCE_MAGIC);
    return self->signature;
}

const catalogue_t *
pack_source_catalogue (const pack_source_t *self)
{
    assert (self && self->magic == PACK_SOURCE_MAGIC);
    return self->kind->catalogue (self->state);
}


//  ---- a folder or a list

/*  A folder, or a list: what the catalogue names, read file by file.
 *
 *  failure:  a file that cannot be read ends the packing: left out, it would give every later sample another
 *            id.
 */

enum {
    AHEAD_MAX = STORE_TOGETHER_MAX, AHEAD_BYTES = 64 * 1024 * 1024      //  samples that are read at a time
};

typedef struct {
    catalogue_t *catalogue;
    store_persistence_t persistence;            //  with a store
    pack_source_disk_t *disk;                   //  as in the options
    char *roots [CATALOGUE_FIELDS_MAX];         //  of each field, for errors and signature
    catalogue_buffer_t buffers [CATALOGUE_FIELDS_MAX] [AHEAD_MAX];
    uint64_t first, end;                        //  the samples in them
    uint64_t id;                                //  the next one
    uint64_t bytes;                             //  of the files passed
} folder_t;

static void
s_folder_destroy (void *state)
{
    folder_t *self = state;
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++) {
        free (self->roots [field]);
        for (size_t index = 0; index < AHEAD_MAX; index++)
            free (self->buffers [field] [index].bytes);
    }
    catalogue_destroy (&self->catalogue);
    free (self);
}

//  -- reading

static const char *
s_remedy (int rc, bool is_in_store)
{
    if (rc == -ENOENT && is_in_store)
        return "it has gone meanwhile; begin anew when nothing writes to the data";
    switch (-rc) {
    case EACCES: return "let this user read it, or take it out of the data";
    case ENOENT: return "mend the link or take it out of the data";
    case ESTALE: case EREMCHG: return "it changed meanwhile; begin anew when nothing writes to the data";
    case EBUSY: case ETIMEDOUT: case ECONNRESET: case ECONNREFUSED: case EHOSTUNREACH: case EKEYREJECTED:
    case EKEYEXPIRED: return "go on with --resume when the store answers again";
    case EINVAL: case ENXIO: return "take it out of the data";
    case EFBIG: return "it is larger than a sample may be (256 MiB); cut it up or take it out of the data";
    case EMFILE: case ENFILE: return "raise the limit of open files";
    case ENOMEM: return "free memory";
    default: return "check the file system, or take it out of the data";
    }
}

static int
s_fail (const folder_t *self, uint32_t id, size_t field, int rc, char *error)
{
    char path [PATH_MAX];
    catalogue_path (self->catalogue, id, field, path, sizeof path);
    snprintf (error, PACK_SOURCE_ERROR_BYTES, "cannot read '%.300s/%.400s' (%s): %s", self->roots [field],
        path,
        rc == -ESTALE? "its size is another": rc == -EINVAL
        || rc == -ENXIO? "it is no regular file": catalogue_error (self->catalogue, field, rc),
        s_remedy (rc, catalogue_store (self->catalogue, field)));
    utf8_mask (error);
    return rc;
}

//  It seemed to be kept.
static int
s_fail_damaged (const folder_t *self, uint32_t id, size_t field, char *error)
{
    char path [PATH_MAX];
    catalogue_path (self->catalogue, id, field, path, sizeof path);
    return pack_source_fail (error, -ENODATA, "what '%.200s' has of '%.200s/%.300s' is damaged, and "
        "--only-kept leaves the source alone: go on with --resume, without --only-kept", self->disk->folder,
        self->roots [field], path);
}

//  From a folder one after the other; from a store many at the same time, since each takes a round trip.
static size_t
s_samples_ahead (const folder_t *self)
{
    if (!catalogue_store (self->catalogue, 0) || catalogue_pack (self->catalogue))
        return 1;
    uint64_t bytes = 0, left = catalogue_samples (self->catalogue) - self->id;
    size_t count = 0;
    while (count < AHEAD_MAX && count < left && (count == 0 || bytes < AHEAD_BYTES)) {
        for (size_t field = 0; field < catalogue_fields (self->catalogue); field++)
            bytes += catalogue_file_bytes (self->catalogue, (uint32_t) (self->id + count), field);
        count++;
    }
    return count;
}

//  What the local disk has.
static int
s_read_disk (folder_t *self, size_t count, size_t field, bool *are_here, char *error)
{
    for (size_t index = 0; index < count; index++) {
        uint32_t id = (uint32_t) (self->id + index);
        catalogue_buffer_t *buffer = &self->buffers [field] [index];
        are_here [index] = catalogue_read_kept (self->catalogue, id, field, buffer);
        self->disk->bytes += are_here [index]? buffer->size: 0;
        if (!are_here [index] && self->disk->is_only)
            return s_fail_damaged (self, id, field, error);
    }
    return 0;
}

static int
s_read_ahead (folder_t *self, char *error)
{
    size_t count = s_samples_ahead (self);
    for (size_t field = 0; field < catalogue_fields (self->catalogue); field++) {
        uint32_t failed;
        bool are_here [AHEAD_MAX] = { false };
        int rc = self->disk? s_read_disk (self, count, field, are_here, error): 0;
        if (rc)
            return rc;
        rc = catalogue_read_row (self->catalogue, (uint32_t) self->id, count, field, self->buffers [field],
            &self->persistence, are_here, &failed);
        if (rc)
            return s_fail (self, failed, field, rc, error);
    }
    self->first = self->id;
    self->end = self->id + count;
    return 0;
}

static int
s_folder_next (void *state, pack_item_t *item, char *error)
{
    folder_t *self = state;
    if (self->id == catalogue_samples (self->catalogue))
        return 0;
    if (self->id < self->first || self->id >= self->end) {
        int rc = s_read_ahead (self, error);
        if (rc)
            return rc;
    }
    item->field_count = catalogue_fields (self->catalogue);
    for (size_t field = 0; field < item->field_count; field++) {
        const catalogue_buffer_t *buffer = &self->buffers [field] [self->id - self->first];
        item->files [field] = buffer->bytes;
        item->bytes [field] = buffer->size;
        self->bytes += buffer->size;
    }
    self->id++;
    return 1;
}

static int
s_folder_skip (void *state, uint64_t count, char *error)
{
    folder_t *self = state;
    if (count > catalogue_samples (self->catalogue) - self->id) {
        snprintf (error, PACK_SOURCE_ERROR_BYTES,
            "there are %u samples in '%.600s', and there were more: begin anew",
            catalogue_samples (self->catalogue), self->roots [0]);
        return -ESTALE;
    }
    for (; count; count--, self->id++)
        for (size_t field = 0; field < catalogue_fields (self->catalogue); field++)
            self->bytes += catalogue_file_bytes (self->catalogue, (uint32_t) self->id, field);
    return 1;
}

static void
s_folder_progress (const void *state, uint64_t *done_p, uint64_t *total_p)
{
    const folder_t *self = state;
    *done_p = self->bytes;
    *total_p = catalogue_bytes (self->catalogue);
}

static const catalogue_t *
s_folder_catalogue (const void *state)
{
    return ((const folder_t *) state)->catalogue;
}

static const pack_source_kind_t s_kind = { s_folder_next, s_folder_skip, s_folder_progress,
    s_folder_catalogue, s_folder_destroy };


//  -- opening

//  A file's time, or an object's version; a file that cannot be examined has none, and fails when it is read.
static void
s_hash_time (const folder_t *self, XXH3_state_t *hash, uint32_t id, size_t field)
{
    if (catalogue_store (self->catalogue, field) && !catalogue_pack (self->catalogue)) {
        const char *version = catalogue_version (self->catalogue, id, field);
        XXH3_128bits_update (hash, version, strlen (version));
        return;
    }
    char path [2 * PATH_MAX];
    size_t root = (size_t) snprintf (path, PATH_MAX, "%s/", self->roots [field]);
    struct stat status;
    struct timespec time = { 0 };
    if (root < PATH_MAX) {
        catalogue_path (self->catalogue, id, field, path + root, PATH_MAX);
        if (stat (path, &status) == 0)
            time = status.st_mtim;
    }
    int64_t numbers [2] = { time.tv_sec, time.tv_nsec };
    XXH3_128bits_update (hash, numbers, sizeof numbers);
}

//  The fingerprint has names, sizes and labels; times reveal files overwritten with the same size.
static int
s_sign (const folder_t *self, char signature [33])
{
    XXH3_state_t *hash = XXH3_createState ();
    if (!hash)
        return -ENOMEM;
    XXH3_128bits_reset (hash);
    XXH3_128bits_update (hash, catalogue_fingerprint (self->catalogue), 32);
    for (uint32_t id = 0; id < catalogue_samples (self->catalogue); id++)
        for (size_t field = 0; field < catalogue_fields (self->catalogue); field++)
            s_hash_time (self, hash, id, field);
    catalogue_fingerprint_end (hash, signature);
    return 0;
}

//  Where a list's paths begin: in its own folder.
static char *
s_list_root (const char *list)
{
    const char *slash = strrchr (list, '/');
    return !slash? strdup ("."): slash == list? strdup ("/"): strndup (list, (size_t) (slash - list));
}

//  No field or label has the name that stands in a pack for where rows begin.
static int
s_check_names (const catalogue_t *catalogue, char *error)
{
    bool is_taken = false;
    for (size_t field = 0; field < catalogue_fields (catalogue); field++)
        is_taken = is_taken || strcmp (catalogue_field_name (catalogue, field), PACK_ROWS_NAME) == 0;
    for (size_t label = 0; label < catalogue_labels (catalogue); label++)
        is_taken = is_taken || strcmp (catalogue_label (catalogue, label)->name, PACK_ROWS_NAME) == 0;
    if (is_taken)
        snprintf (error, PACK_SOURCE_ERROR_BYTES, "a field or label cannot have the name '%s' in a pack, "
            "which keeps there where the rows of JPEGs begin: give it another name", PACK_ROWS_NAME);
    return is_taken? -EINVAL: 0;
}

//  Refuses what is not all kept, with how much is missing.
static int
s_check_kept (const folder_t *self, const pack_source_options_t *options, char *error)
{
    uint32_t samples = catalogue_samples (self->catalogue);
    size_t fields = catalogue_fields (self->catalogue);
    uint64_t missing = 0, bytes = 0;
    progress_step (options->progress, &(progress_step_t) { .what = "looking at what is kept",
        .unit = "samples", .total = samples }, 0);
    for (uint32_t id = 0; id < samples; id++) {
        for (size_t field = 0; field < fields; field++) {
            bool is_kept = catalogue_is_kept (self->catalogue, id, field);
            missing += !is_kept;
            bytes += is_kept? 0: catalogue_file_bytes (self->catalogue, id, field);
        }
        progress_tell (options->progress, id + 1, 0);
    }
    return missing == 0? 0: pack_source_fail (error, -ENODATA, "'%.300s' lacks %llu of the %llu files of "
        "'%.300s', %.1f of %.1f MB: serve it until all is kept, or leave out --only-kept, and they are read "
        "from there", self->disk->folder, (unsigned long long) missing, (unsigned long long) samples * fields,
        self->roots [0], (double) bytes / 1e6, (double) catalogue_bytes (self->catalogue) / 1e6);
}

static int
s_folder_fill (folder_t *self, const pack_source_options_t *options, char *signature, char *error)
{
    self->persistence = options->store;
    self->disk = options->disk;
    const char *path = options->paths [0];
    struct stat status;
    bool is_list = stat (path, &status) == 0 && !S_ISDIR (status.st_mode);
    char *root = is_list? s_list_root (path): strdup (path);
    if (!root)
        return -ENOMEM;
    catalogue_options_t wanted = { .path = root, .extensions = options->extensions, .fields = options->fields,
        .field_count = options->field_count, .labels = is_list? path: NULL,
        .allow_empty = options->allow_empty, .is_to_pack = true,
        .cache = self->disk? self->disk->cache: NULL, .keep = CATALOGUE_KEEP_ALL,
        .list_anew = self->disk && self->disk->list_anew, .progress = options->progress };
    int rc = catalogue_open (&self->catalogue, &wanted, error, PACK_SOURCE_ERROR_BYTES);
    free (root);
    if (rc == 0)
        rc = s_check_names (self->catalogue, error);
    if (rc)
        return rc;
    self->roots [0] = strdup (catalogue_root (self->catalogue));    //  of a list of absolute paths it is "/"
    if (!self->roots [0])
        return -ENOMEM;
    //  A pack as the source has its own fields.
    for (size_t field = 1; field < catalogue_fields (self->catalogue); field++) {
        const char *folder = field <= options->field_count? options->fields [field - 1].path: self->roots [0];
        if (!(self->roots [field] = strdup (folder)))
            return -ENOMEM;
    }
    if (self->disk && catalogue_pack (self->catalogue))
        return pack_source_fail (error, -EINVAL, "'%.600s' is a pack already, which --from-disk is not for: "
            "copy its folder", self->roots [0]);
    if (self->disk)
        self->disk->listed_s = catalogue_listed_s (self->catalogue, 0);
    rc = self->disk && self->disk->is_only? s_check_kept (self, options, error): 0;
    return rc? rc: s_sign (self, signature);
}

//  Also a list.
static int
s_open_folder (pack_source_t **self_p, const pack_source_options_t *options, char *error)
{
    assert (options->path_count == 1);
    folder_t *self = calloc (1, sizeof *self);
    char signature [33];
    int rc = self? s_folder_fill (self, options, signature, error): -ENOMEM;
    if (rc == 0) {
        *self_p = s_source_new (&s_kind, self, signature);
        self = NULL;                    //  owned by the source, or destroyed
        rc = *self_p? 0: -ENOMEM;
    }
    if (self)
        s_folder_destroy (self);
    if (rc && !error [0])
        snprintf (error, PACK_SOURCE_ERROR_BYTES, "not enough memory to list '%.600s': free memory",
            options->paths [0]);
    return rc;
}


//  ---- tar files

/*  Tar files as a source: read once, in the order given, by libarchive.  Those in object
 *  stores and on web servers come through an object_stream.
 *
 *  happy path:  the source takes the members of the first stem until a member of another stem comes.  It
 *               keeps that member's header for the next call and does not read its bytes yet.  tar_catalogue
 *               says which member is which field.  So it goes on, from archive to archive.  After the last
 *               one, the catalogue is finished.
 *  failure:     the sentence names archive and member.  After an error the source cannot continue.
 *
 *  A member becomes part of a sample if it is a regular file (sparse ones are) and its last component has a
 *  dot that is neither first nor last.  Folders, and names without an extension or that begin with a dot, are
 *  passed over as WebDataset does.  Links, devices and fifos are errors: their content is not in the tar, and
 *  a set must not shrink silently.
 *
 *  libarchive reads nothing but tar here, uncompressed or compressed with gzip, bzip2, xz or zstd.  Tar files
 *  that were joined (cat) are read to their end.  A tar file without its end mark may have been cut, so it is
 *  refused.
 */

enum { TAR_MAGIC = 0x07a27a20, READ_BYTES = 1 << 20, TAR_BLOCK_BYTES = 512,
    INPUT_LOOK_MS = 200                 //  between two looks whether it is stopped
};

typedef struct {
    uint32_t magic;
    tar_catalogue_t *catalogue;
    tar_shards_t shards;
    store_persistence_t persistence;
    uint64_t bytes_done;                //  of the archives that have been read
    size_t shard;                       //  the archive being read
    int fd;                             //  -1: none, or it is an object
    object_stream_t *stream;            //  NULL: none, or it is a file
    uint8_t *input;                     //  READ_BYTES of standard input; NULL: it is not read
    bool is_stopped;                    //  while standard input was waited for
    struct archive *archive;            //  NULL: none is open
    int64_t member_end;                 //  of the last member, in the unpacked archive
    struct archive_entry *entry;        //  of `next`; lent by archive
    bool has_next;                      //  a header has been read, its bytes have not
    bool ended;
    tar_member_t next;
    tar_member_t members [CATALOGUE_FIELDS_MAX];
    size_t member_count;
    uint64_t passed_over;               //  members without an extension
} tar_t;

//  -- errors

static int
s_fail_memory (char *error)
{
    return pack_source_fail (error, -ENOMEM, "not enough memory: free memory or raise the limit");
}

static const char *
s_archive (const tar_t *self)
{
    return self->shards.list [self->shard].path;
}

static shown_t
s_shown (const char *path)
{
    return catalogue_shown (path, strlen (path));
}

static int
s_fail_changed (const tar_shard_t *shard, char *error)
{
    return pack_source_fail (error, -ESTALE, "'%s' changed meanwhile: begin anew when nothing writes to it",
        shard->path);
}

static int
s_fail_stopped (char *error)
{
    return pack_source_fail (error, -ECANCELED, "stopped: go on with --resume");
}

static int
s_fail_stream (const tar_t *self, char *error)
{
    const tar_shard_t *shard = &self->shards.list [self->shard];
    const transfer_t *failed = object_stream_failed (self->stream);
    if (failed->rc == -ECANCELED)
        return s_fail_stopped (error);
    if (failed->rc == -EREMCHG || failed->rc == -ENOENT)
        return s_fail_changed (shard, error);
    char what [700];
    store_explain_address (shard->store, shard->path, failed, what, sizeof what);
    return pack_source_fail (error, failed->rc, "%s; then go on with --resume", what);
}

//  Reports libarchive's error; after: the last complete member, or "".
static int
s_fail_archive (const tar_t *self, const char *member, char *error)
{
    const char *reason = archive_error_string (self->archive);
    int code = archive_errno (self->archive);
    if (code == ENOMEM)
        return s_fail_memory (error);
    if (self->stream && object_stream_failed (self->stream))
        return s_fail_stream (self, error);
    if (self->is_stopped)
        return s_fail_stopped (error);
    return pack_source_fail (error, code == EIO? -EIO: -EBADMSG,
        "'%s': %s%s%s (%.200s): the archive is damaged or cut short: "
        "make it anew",
        s_archive (self), *member? "at '": "cannot be read", *member? s_shown (member).text: "",
        *member? "'": "", reason? reason: "it ends too early");
}

//  Reports a header that is none.  libarchive reads on behind an end mark, where a joined archive may begin.
static int
s_fail_header (const tar_t *self, char *error)
{
    const char *reason = archive_error_string (self->archive), *last = self->next.path;
    bool may_be_behind_end = archive_errno (self->archive) != EIO && *last
        && archive_filter_bytes (self->archive, 0) - self->member_end >= 2 * TAR_BLOCK_BYTES;
    if (!may_be_behind_end || (self->stream && object_stream_failed (self->stream)) || self->is_stopped)
        return s_fail_archive (self, last, error);
    return pack_source_fail (error, -EBADMSG, "'%s': behind '%s' come bytes that are no member (%.200s): if "
        "'tar tf' lists the archive without an error, they are behind its end: cut them off; else it is "
        "damaged: make it anew", s_archive (self), s_shown (last).text, reason? reason: "no header");
}


//  -- archives

static int
s_open_input (tar_t *self, char *error)
{
    if (!self->input)
        self->input = malloc (READ_BYTES);
    if (!self->input)
        return s_fail_memory (error);
    self->fd = fcntl (STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    return self->fd >= 0? 0: pack_source_fail (error, -errno, "cannot read standard input (%s): give it a "
        "tar file by a pipe", strerror (errno));
}

//  The file must be the one that was examined.
static int
s_open_file (tar_t *self, char *error)
{
    const tar_shard_t *shard = &self->shards.list [self->shard];
    do
        self->fd = open (shard->path, CATALOGUE_OPEN_FLAGS);
    while (self->fd < 0 && errno == EINTR);
    struct stat status;
    if (self->fd < 0 || fstat (self->fd, &status) != 0)
        return tar_shards_fail_open (shard->path, -errno, error);
    if (!S_ISREG (status.st_mode) || (uint64_t) status.st_size != shard->bytes
            || status.st_mtim.tv_sec != shard->changed.tv_sec
            || status.st_mtim.tv_nsec != shard->changed.tv_nsec)
        return s_fail_changed (shard, error);
    posix_fadvise (self->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

static struct archive *
s_new_archive (void)
{
    struct archive *archive = archive_read_new ();
    if (archive && (archive_read_support_format_tar (archive) != ARCHIVE_OK
            || archive_read_support_filter_gzip (archive) != ARCHIVE_OK
            || archive_read_support_filter_bzip2 (archive) != ARCHIVE_OK
            || archive_read_support_filter_xz (archive) != ARCHIVE_OK
            || archive_read_support_filter_zstd (archive) != ARCHIVE_OK
            || archive_read_set_option (archive, "tar", "read_concatenated_archives", "1") != ARCHIVE_OK)) {
        //  UNTESTED: Debian's libarchive has all filters; another build would start programs instead.
        archive_read_free (archive);
        archive = NULL;
    }
    return archive;
}

//  For libarchive.
static la_ssize_t
s_on_read (struct archive *archive, void *context, const void **bytes_p)
{
    tar_t *self = context;
    const uint8_t *bytes = NULL;
    ssize_t count = object_stream_next (self->stream, &bytes);
    *bytes_p = bytes;
    if (count >= 0)
        return count;
    archive_set_error (archive, count == -ENOMEM? ENOMEM: EIO, "%s", transfers_error ((int) count));
    return -1;
}

//  For libarchive, of standard input.  Its writer may be silent for as long as it likes; libarchive's own
//  reading would not end then when it is to.
static la_ssize_t
s_on_input (struct archive *archive, void *context, const void **bytes_p)
{
    tar_t *self = context;
    const store_persistence_t *how = &self->persistence;
    struct pollfd input = { .fd = self->fd, .events = POLLIN };
    *bytes_p = self->input;
    for (;;) {
        self->is_stopped = how->stopped && how->stopped (how->context);
        if (self->is_stopped) {
            archive_set_error (archive, ECANCELED, "stopped");
            return -1;
        }
        int ready = poll (&input, 1, INPUT_LOOK_MS);
        ssize_t count = ready > 0? read (self->fd, self->input, READ_BYTES): -1;
        if (count >= 0)
            return count;
        if (ready != 0 && errno != EINTR && errno != EAGAIN) {
            archive_set_error (archive, EIO, "%s", strerror (errno));
            return -1;
        }
    }
}

static int
s_open_stream (tar_t *self, char *error)
{
    const tar_shard_t *shard = &self->shards.list [self->shard];
    object_stream_options_t options = { .store = shard->store, .url = shard->url, .version = shard->version,
        .bytes = shard->bytes, .how = self->persistence };
    return object_stream_open (&self->stream, &options) == 0? 0: s_fail_memory (error);
}

static int
s_begin_archive (tar_t *self)
{
    if (self->stream)
        return archive_read_open (self->archive, self, NULL, s_on_read, NULL);
    if (self->shards.list [self->shard].is_input)
        return archive_read_open (self->archive, self, NULL, s_on_input, NULL);
    return archive_read_open_fd (self->archive, self->fd, READ_BYTES);
}

static int
s_open (tar_t *self, char *error)
{
    const tar_shard_t *shard = &self->shards.list [self->shard];
    int rc = shard->store? s_open_stream (self, error): shard->is_input? s_open_input (self, error):
        s_open_file (self, error);
    if (rc)
        return rc;
    self->archive = s_new_archive ();
    if (!self->archive)
        return s_fail_memory (error);
    self->member_end = 0;
    self->next.path [0] = 0;            //  errors of this archive must not name the previous archive's last
                                        //  member
    rc = s_begin_archive (self);
    if (rc != ARCHIVE_OK && self->stream && object_stream_failed (self->stream))
        return s_fail_stream (self, error);
    if (rc != ARCHIVE_OK && self->is_stopped)
        return s_fail_stopped (error);
    if (rc != ARCHIVE_OK)
        return pack_source_fail (error, -EINVAL,
            "'%s' is no tar file (%.200s): give tar files, unpacked or packed by gzip, "
            "bzip2, xz or zstd",
            s_archive (self), archive_error_string (self->archive)? archive_error_string (self->archive):
            "unknown");
    return 0;
}

static void
s_close (tar_t *self)
{
    archive_read_free (self->archive);
    self->archive = NULL;
    if (self->fd >= 0)
        close (self->fd);
    self->fd = -1;
    object_stream_destroy (&self->stream);
}

//  The archive is read.  Without the end mark, two blocks of zeros, a truncated archive would go unnoticed.
static int
s_end_archive (tar_t *self, char *error)
{
    if (archive_filter_bytes (self->archive, 0) - self->member_end < 2 * TAR_BLOCK_BYTES)
        return pack_source_fail (error, -EBADMSG,
            "'%s' ends without the zeros that end a tar, so it may be cut short: make it "
            "anew, or if it is "
            "whole, append them: head -c 1024 /dev/zero", s_archive (self));
    self->bytes_done += self->shards.list [self->shard].bytes;
    s_close (self);
    self->shard++;
    return 0;
}


//  -- headers

//  The path without '.' and empty parts.  False: it is absolute, leaves the archive, is too long or empty.
static bool
s_clean_path (const char *text, char path [PATH_MAX])
{
    size_t used = 0;
    if (*text == '/')
        return false;
    while (*text) {
        size_t size = strcspn (text, "/");
        if (size == 2 && memcmp (text, "..", 2) == 0)
            return false;
        if (size > 0 && !(size == 1 && *text == '.')) {
            if (used + 1 + size >= PATH_MAX)
                return false;
            if (used)
                path [used++] = '/';
            memcpy (path + used, text, size);
            used += size;
        }
        text += size;
        text += *text == '/';
    }
    path [used] = 0;
    return used > 0;
}

//  Whether WebDataset takes it for metadata: below a top folder "__X__", whatever it is.
static bool
s_is_metadata (const char *text)
{
    while (strncmp (text, "./", 2) == 0)
        text += 2 + strspn (text + 2, "/");
    size_t size = strcspn (text, "/");
    return size >= strlen ("____") && strncmp (text, "__", 2) == 0 && memcmp (text + size - 2, "__", 2) == 0;
}

//  1: the name has a stem and a key; 0: skip it.
static int
s_split (tar_t *self, tar_member_t *member, char *error)
{
    const char *slash = strrchr (member->path, '/');
    member->name = slash? (size_t) (slash + 1 - member->path): 0;
    member->stem = member->name + strcspn (member->path + member->name, ".");
    const char *key = member->path + member->stem;
    key += *key == '.';
    if (member->stem == member->name || !*key) {
        self->passed_over++;
        return 0;
    }
    if (strlen (key) >= sizeof member->key)
        return pack_source_fail (error, -EINVAL,
            "'%s': what stands behind the first dot of '%s' is too long for a field's "
            "name: rename it, "
            "to at most %zu bytes there", s_archive (self), s_shown (member->path).text,
            sizeof member->key - 1);
    for (size_t at = 0; at == 0 || key [at - 1]; at++)      //  ASCII only, whatever the locale
        member->key [at] = (char) (key [at] >= 'A' && key [at] <= 'Z'? key [at] + ('a' - 'A'): key [at]);
    return 1;
}

static int
s_check_size (const tar_t *self, tar_member_t *member, char *error)
{
    int64_t size = archive_entry_size_is_set (self->entry)? archive_entry_size (self->entry): 0;
    if (size < 0 || (uint64_t) size > CATALOGUE_SAMPLE_BYTES_MAX)
        return pack_source_fail (error, -EFBIG,
            "'%s': '%s' has %lld bytes: a sample's file may have at most %d; leave it out "
            "or cut it",
            s_archive (self), s_shown (member->path).text, (long long) size, CATALOGUE_SAMPLE_BYTES_MAX);
    member->size = (uint64_t) size;
    return 0;
}

//  Classifies the entry: 1 with `next` if it is part of a sample, 0 if it is skipped.
static int
s_take_entry (tar_t *self, char *error)
{
    struct archive_entry *entry = self->entry;
    const char *text = archive_entry_pathname (entry);
    if (!text)
        return pack_source_fail (error, -EINVAL, "'%s': a member without a name: make the archive anew",
            s_archive (self));
    if (s_is_metadata (text)) {
        self->passed_over += archive_entry_filetype (entry) != AE_IFDIR;
        return 0;
    }
    if (archive_entry_hardlink (entry) || archive_entry_filetype (entry) == AE_IFLNK)
        return pack_source_fail (error, -EINVAL,
            "'%s': '%s' is a link: put the file itself into the tar (tar --dereference "
            "--hard-dereference), or leave it out", s_archive (self), s_shown (text).text);
    if (archive_entry_filetype (entry) == AE_IFDIR)
        return 0;
    if (archive_entry_filetype (entry) != AE_IFREG)
        return pack_source_fail (error, -EINVAL, "'%s': '%s' is a device or a fifo, no file: leave it out",
            s_archive (self), s_shown (text).text);
    if (!s_clean_path (text, self->next.path))
        return pack_source_fail (error, -EINVAL,
            "'%s': '%s' is absolute, leaves the archive by '..' or has more than %d bytes: "
            "make the archive anew with plain names", s_archive (self), s_shown (text).text, PATH_MAX - 1);
    int rc = s_split (self, &self->next, error);
    if (rc > 0 && s_check_size (self, &self->next, error))
        return -EFBIG;
    return rc;
}

static int
s_skip_data (tar_t *self, const char *path, char *error)
{
    if (archive_read_data_skip (self->archive) != ARCHIVE_OK)
        return s_fail_archive (self, path, error);
    self->member_end = archive_filter_bytes (self->archive, 0);
    return 0;
}

//  1 and the next header that is part of a sample in `next`; 0 at the archive's end.
static int
s_next_header (tar_t *self, char *error)
{
    for (;;) {
        int rc = archive_read_next_header (self->archive, &self->entry);
        if (rc == ARCHIVE_EOF)
            return 0;
        //  A warning: this locale cannot show the name; the bytes are all there.
        if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
            return s_fail_header (self, error);
        rc = s_take_entry (self, error);
        if (rc)
            return rc;
        rc = s_skip_data (self, self->next.path, error);
        if (rc)
            return rc;
    }
}

//  The next header of all archives, unless one is waiting.  0 and ended: no more.
static int
s_advance (tar_t *self, char *error)
{
    while (!self->has_next && self->shard < self->shards.count) {
        int rc = self->archive? 0: s_open (self, error);
        if (rc == 0)
            rc = s_next_header (self, error);
        self->has_next = rc > 0;
        if (rc == 0)
            rc = s_end_archive (self, error);
        if (rc < 0)
            return rc;
    }
    return 0;
}


//  -- samples

static int
s_read_data (tar_t *self, tar_member_t *member, char *error)
{
    if (catalogue_make_room (&member->data, member->size))
        return s_fail_memory (error);
    size_t done = 0;
    uint8_t beyond;
    while (done < member->size) {
        la_ssize_t count = archive_read_data (self->archive, member->data.bytes + done, member->size - done);
        if (count < 0)
            return s_fail_archive (self, member->path, error);
        if (count == 0)
            return pack_source_fail (error, -EBADMSG,
                "'%s': '%s' ends after %zu of %llu bytes: the archive is damaged: make "
                "it anew",
                s_archive (self), s_shown (member->path).text, done, (unsigned long long) member->size);
        done += (size_t) count;
    }
    member->data.size = member->size;
    //  To the member's end, padding and all.
    if (archive_read_data (self->archive, &beyond, 1) != 0)
        return s_fail_archive (self, member->path, error);
    self->member_end = archive_filter_bytes (self->archive, 0);
    return 0;
}

static bool
s_same_stem (const tar_member_t *left, const tar_member_t *right)
{
    return left->stem == right->stem && memcmp (left->path, right->path, left->stem) == 0;
}

//  Adds `next` to the sample's members, and reads its bytes if they are wanted.
static int
s_take_member (tar_t *self, bool read, char *error)
{
    if (self->member_count == CATALOGUE_FIELDS_MAX)
        return pack_source_fail (error, -EINVAL, "'%s': the sample of '%s' has more than %d files: leave "
            "some out", s_archive (self), s_shown (self->next.path).text, CATALOGUE_FIELDS_MAX);
    for (size_t index = 0; index < self->member_count; index++)
        if (strcmp (self->members [index].key, self->next.key) == 0)
            return pack_source_fail (error, -EINVAL,
                "'%s': '%s' and '%s' are the same member of one sample: remove one or "
                "rename it (a sample's "
                "name ends at its first dot)", s_archive (self), s_shown (self->members [index].path).text,
                s_shown (self->next.path).text);
    tar_member_t *member = &self->members [self->member_count++];
    catalogue_buffer_t data = member->data;         //  its room is kept
    *member = self->next;
    member->data = data;
    member->data.size = 0;
    self->has_next = false;
    if (read || tar_catalogue_needs (member->key))
        return s_read_data (self, member, error);
    return s_skip_data (self, member->path, error);
}

static int
s_finish (tar_t *self, char *error)
{
    self->ended = true;
    if (tar_catalogue_samples (self->catalogue) == 0)
        return pack_source_fail (error, -ENODATA,
            "'%s'%s holds no sample (%llu files without an extension): give tar files "
            "with images",
            self->shards.list [0].path, self->shards.count > 1? ", with those behind it,": "",
            (unsigned long long) self->passed_over);
    return tar_catalogue_finish (self->catalogue, error);
}

//  The next sample's members: the number of its fields and their order, 0 at the end.  A sample does not
//  continue in another archive.
static int
s_gather (tar_t *self, bool read, size_t order [CATALOGUE_FIELDS_MAX], char *error)
{
    if (self->ended)
        return 0;
    int rc = s_advance (self, error);
    if (rc)
        return rc;
    if (!self->has_next)
        return s_finish (self, error);
    size_t shard = self->shard;
    self->member_count = 0;
    do {
        rc = s_take_member (self, read, error);
        if (rc == 0)
            rc = s_advance (self, error);
    } while (rc == 0 && self->has_next && self->shard == shard
        && s_same_stem (&self->members [0], &self->next));
    if (rc)
        return rc;
    return tar_catalogue_add (self->catalogue, self->shards.list [shard].path, self->members,
        self->member_count, order, error);
}


//  -- the kind

static int
s_tar_next (void *state, pack_item_t *item, char *error)
{
    tar_t *self = state;
    assert (self->magic == TAR_MAGIC);
    size_t order [CATALOGUE_FIELDS_MAX];
    int rc = s_gather (self, true, order, error);
    if (rc <= 0)
        return rc;
    *item = (pack_item_t) { .field_count = (size_t) rc };
    for (size_t field = 0; field < item->field_count; field++) {
        item->files [field] = self->members [order [field]].data.bytes;
        item->bytes [field] = self->members [order [field]].data.size;
    }
    return 1;
}

static int
s_tar_skip (void *state, uint64_t count, char *error)
{
    tar_t *self = state;
    assert (self->magic == TAR_MAGIC);
    for (uint64_t index = 0; index < count; index++) {
        size_t order [CATALOGUE_FIELDS_MAX];
        int rc = s_gather (self, false, order, error);
        if (rc < 0)
            return rc;
        if (rc == 0)
            return pack_source_fail (error, -ESTALE, "'%s' has fewer samples than before: begin anew",
                self->shards.list [0].path);
    }
    return 1;
}

static void
s_tar_progress (const void *state, uint64_t *done_p, uint64_t *total_p)
{
    const tar_t *self = state;
    int64_t here = self->archive? archive_filter_bytes (self->archive, -1): 0;
    *done_p = self->bytes_done + (here > 0? (uint64_t) here: 0);
    *total_p = self->shards.bytes;
}

static const catalogue_t *
s_tar_catalogue (const void *state)
{
    const tar_t *self = state;
    return self->ended? tar_catalogue_result (self->catalogue): NULL;
}

static void
s_tar_destroy (void *state)
{
    tar_t *self = state;
    if (!self)
        return;
    assert (self->magic == TAR_MAGIC);
    s_close (self);
    tar_shards_clear (&self->shards);
    for (size_t index = 0; index < CATALOGUE_FIELDS_MAX; index++)
        free (self->members [index].data.bytes);
    tar_catalogue_destroy (&self->catalogue);
    free (self->input);
    self->magic = 0;
    free (self);
}

static int
s_tar_fill (tar_t *self, const pack_source_options_t *options, char *error)
{
    self->persistence = options->store;
    self->persistence.takes_long = true;
    int rc = tar_shards_find (&self->shards, options, error);
    if (rc)
        return rc;
    self->catalogue = tar_catalogue_new (options, error);
    return self->catalogue? 0: -EINVAL;
}

static int
s_open_tar (pack_source_t **self_p, const pack_source_options_t *options, char *error)
{
    static const pack_source_kind_t kind = {
        .next = s_tar_next, .skip = s_tar_skip, .progress = s_tar_progress,
        .catalogue = s_tar_catalogue, .destroy = s_tar_destroy
    };
    assert (self_p); assert (options); assert (error);
    assert (options->path_count > 0);
    *self_p = NULL;
    error [0] = 0;
    tar_t *self = calloc (1, sizeof *self);
    if (!self)
        return s_fail_memory (error);
    self->magic = TAR_MAGIC;
    self->fd = -1;
    char signature [33];
    int rc = s_tar_fill (self, options, error);
    if (rc == 0 && tar_shards_sign (&self->shards, options, signature))
        rc = s_fail_memory (error);
    //  Opens the first archive now, so that a file that is no tar is reported before anything else.
    if (rc == 0)
        rc = s_advance (self, error);
    if (rc) {
        s_tar_destroy (self);
        return rc;
    }
    *self_p = s_source_new (&kind, self, signature);
    return *self_p? 0: s_fail_memory (error);
}


//  ---- which kind a path is

static bool
s_ends_in (const char *path, const char *ending)
{
    size_t length = strlen (path), size = strlen (ending);
    return length > size && strcmp (path + length - size, ending) == 0;
}

static bool
s_is_list (const char *path)
{
    return s_ends_in (path, ".tsv") || s_ends_in (path, ".jsonl") || s_ends_in (path, ".txt");
}

int
pack_source_open (pack_source_t **self_p, const pack_source_options_t *options, char *error)
{
    assert (self_p); assert (options); assert (error);
    assert (options->paths && options->path_count > 0);
    *self_p = NULL;
    error [0] = 0;
    bool has_files = false;                     //  a folder or a list, which has to be alone
    for (size_t index = 0; index < options->path_count; index++) {
        const char *path = options->paths [index];
        struct stat status;
        bool is_in_store = store_is_meant (path);
        if ((is_in_store && location_is_tar (path)) || pack_source_is_input (path))
            continue;
        if (!is_in_store && stat (path, &status) != 0) {
            int rc = -errno;
            snprintf (error, PACK_SOURCE_ERROR_BYTES, "cannot look at '%.600s' (%s): %s", path,
                strerror (-rc), rc == -EACCES? "let this user enter its folder": location_remedy (path));
            return rc;
        }
        bool is_folder = is_in_store || S_ISDIR (status.st_mode);
        if (!is_folder && !s_is_list (path))
            continue;
        has_files = true;
        if (options->path_count > 1) {
            snprintf (error, PACK_SOURCE_ERROR_BYTES, "'%.600s' is %s, and there are %zu sources: "
                "give it alone; only tar files may be several", path,
                is_folder? "a folder": "a list", options->path_count);
            return -EINVAL;
        }
    }
    const char *misplaced =
        has_files && options->masks? "masks among members are for tar files: give a folder's as fields":
        has_files && options->classes? "names of classes are for tar files with .cls: a folder has its own":
        !has_files && options->disk? "--from-disk is for folders, lists and single objects of a store":
        !has_files && options->field_count?
            "fields are for folders and lists: a tar file has its own as members": NULL;
    if (misplaced) {
        snprintf (error, PACK_SOURCE_ERROR_BYTES, "'%.600s': %s", options->paths [0], misplaced);
        return -EINVAL;
    }
    return has_files? s_open_folder (self_p, options, error):
        s_open_tar (self_p, options, error);
}
