/*  pack_source_tar.c -- tar files as a source: read once, in the order given, by libarchive.  Those in object
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
#include "pack_source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>
#include "object_stream.h"
#include "tar_catalogue.h"
#include "tar_shards.h"

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
    archive_set_error (archive, count == -ENOMEM? ENOMEM: EIO, "%s", transfer_error ((int) count));
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
s_next (void *state, pack_item_t *item, char *error)
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
s_skip (void *state, uint64_t count, char *error)
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
s_progress (const void *state, uint64_t *done_p, uint64_t *total_p)
{
    const tar_t *self = state;
    int64_t here = self->archive? archive_filter_bytes (self->archive, -1): 0;
    *done_p = self->bytes_done + (here > 0? (uint64_t) here: 0);
    *total_p = self->shards.bytes;
}

static const catalogue_t *
s_catalogue (const void *state)
{
    const tar_t *self = state;
    return self->ended? tar_catalogue_result (self->catalogue): NULL;
}

static void
s_destroy (void *state)
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
s_fill (tar_t *self, const pack_source_options_t *options, char *error)
{
    self->persistence = options->store;
    self->persistence.takes_long = true;
    int rc = tar_shards_find (&self->shards, options, error);
    if (rc)
        return rc;
    self->catalogue = tar_catalogue_new (options, error);
    return self->catalogue? 0: -EINVAL;
}

int
pack_source_open_tar (pack_source_t **self_p, const pack_source_options_t *options, char *error)
{
    static const pack_source_kind_t kind = {
        .next = s_next, .skip = s_skip, .progress = s_progress, .catalogue = s_catalogue, .destroy = s_destroy
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
    int rc = s_fill (self, options, error);
    if (rc == 0 && tar_shards_sign (&self->shards, options, signature))
        rc = s_fail_memory (error);
    //  Opens the first archive now, so that a file that is no tar is reported before anything else.
    if (rc == 0)
        rc = s_advance (self, error);
    if (rc) {
        s_destroy (self);
        return rc;
    }
    *self_p = pack_source_new (&kind, self, signature);
    return *self_p? 0: s_fail_memory (error);
}
