/*  catalogue_pack.c -- a folder with index.tureen becomes a catalogue that points into it.
 *
 *  happy path:  read the index, validate it, open every volume and hold its header and size against the
 *               index.
 *  failure:     as in catalogue_walk.c; pack_detach frees what is half done.
 *  on close:    pack_detach, then catalogue_destroy frees the rest, which has nothing of the samples.
 *
 *  The index is memory of our own, not a mapping of the file.  If another process truncates a mapped file, or
 *  its disk fails, a read of the mapping kills the process, at any time; and a validated index must not
 *  change.
 */
#include "pack_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "pack_index.h"
#include "pack_format.h"

enum { INDEX_PIECE_BYTES = 16 * 1024 * 1024 };

//  -- files

static int
s_fail_file (const draft_t *draft, const char *name, int rc)
{
    const char *root = catalogue_root (draft->self);
    const char *remedy =
        rc == -EACCES? "let this user read it":
        rc == -EMFILE || rc == -ENFILE?
            "raise the limit of open files (ulimit -n): all volumes are kept open":
        rc == -ENOMEM? "free memory or raise the limit":
        rc == -ENOENT? "copy it again from where it is whole, or pack again": "check the file system";
    return catalogue_fail (draft, rc == -ENOENT? -ENODATA: rc, "cannot read '%s/%s' (%s): %s", root, name,
        strerror (-rc),
        remedy);
}

//  A regular file in the folder, and its size.
static int
s_open (const draft_t *draft, const char *name, int *fd_p, uint64_t *bytes_p)
{
    int fd;
    do                                  //  a fifo must not make us wait
        fd = openat (draft->self->fields [0].root_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    struct stat status;
    int rc = fd < 0 || fstat (fd, &status) != 0? s_fail_file (draft, name, -errno): 0;
    if (rc == 0 && !S_ISREG (status.st_mode))
        rc = catalogue_fail (draft, -EINVAL, "'%s/%s' is not a file: pack again",
            catalogue_root (draft->self), name);
    if (rc == 0) {
        *bytes_p = (uint64_t) status.st_size;
        *fd_p = fd;
        fd = -1;
    }
    if (fd >= 0)
        close (fd);
    return rc;
}

//  In pieces, so that it can be shown how far it is.
static int
s_read_pieces (const draft_t *draft, int fd, uint8_t *memory, uint64_t bytes)
{
    int rc = 0;
    progress_step (draft->progress, &(progress_step_t) { .what = "reading the index", .total = bytes }, 0);
    for (uint64_t done = 0; rc == 0 && done < bytes; ) {
        size_t piece = bytes - done < INDEX_PIECE_BYTES? (size_t) (bytes - done): INDEX_PIECE_BYTES;
        rc = catalogue_read_at (fd, memory + done, piece, done);
        done += piece;
        progress_tell (draft->progress, done, 0);
    }
    return rc;
}

//  The whole file, in pages of its own: 0 and *memory_p, or -errno and a sentence.  An empty file is read as
//  a zero, and fails as any other that is too short.
static int
s_read_index (const draft_t *draft, const char *name, void **memory_p, uint64_t *bytes_p)
{
    int fd;
    int rc = s_open (draft, name, &fd, bytes_p);
    if (rc)
        return rc;
    size_t room = *bytes_p? *bytes_p: sizeof (uint64_t);
    void *memory = mmap (NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        rc = s_fail_file (draft, name, -ENOMEM);
    else {
        rc = s_read_pieces (draft, fd, memory, *bytes_p);
        if (rc == -ESTALE)
            rc = catalogue_fail (draft, rc,
                "'%s/%s' became shorter while it was read: wait until it is copied whole",
                catalogue_root (draft->self), name);
        else
        if (rc)
            rc = s_fail_file (draft, name, rc);
        //  From here on the index is read-only, even for bugs of ours.
        if (rc || mprotect (memory, room, PROT_READ) != 0) {
            munmap (memory, room);
            rc = rc? rc: s_fail_file (draft, name, -errno);
        }
    }
    close (fd);
    *memory_p = rc? NULL: memory;
    return rc;
}

//  The index's pages, and where it is kept on the local disk (NULL: nowhere), are the pack's from now on, or
//  freed.
static int
s_use_index (draft_t *draft, const char *name, void *memory, uint64_t bytes, block_data_t *blocks)
{
    char path [PATH_MAX + 64];
    snprintf (path, sizeof path, "%s/%s", catalogue_root (draft->self), name);
    int rc = pack_validate (draft, path, memory, bytes);
    size_t room = bytes? bytes: sizeof (uint64_t);
    //  Only now: an index that came damaged is not kept.
    if (rc == 0 && blocks)
        block_data_store (blocks, 0, bytes, memory, false);
    pack_t *pack = draft->self->pack;
    if (pack) {
        pack->index = memory;
        pack->index_bytes = room;
        pack->index_blocks = blocks;
    }
    else {
        munmap (memory, room);
        block_data_close (&blocks);
    }
    return rc;
}

int
pack_load (draft_t *draft, const char *name)
{
    void *memory;
    uint64_t bytes;
    int rc = s_read_index (draft, name, &memory, &bytes);
    return rc? rc: s_use_index (draft, name, memory, bytes, NULL);
}


//  -- volumes

__attribute__ ((format (printf, 4, 5)))
static int
s_fail_volume (const draft_t *draft, uint32_t volume, int rc, const char *format, ...)
{
    char what [200];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (what, sizeof what, format, arguments);
    va_end (arguments);
    return catalogue_fail (draft, rc,
        "'%s/" PACK_VOLUME_NAME "' %s: copy it again from where it is whole, or pack again",
        catalogue_root (draft->self), volume, what);
}

static bool
s_is_zero (const uint8_t *bytes, size_t size)
{
    return size == 0 || (bytes [0] == 0 && memcmp (bytes, bytes + 1, size - 1) == 0);
}

int
pack_check_volume (const draft_t *draft, uint32_t volume, uint64_t bytes, const uint8_t *block)
{
    const pack_t *pack = draft->self->pack;
    if (bytes != pack->volumes [volume].bytes)
        return s_fail_volume (draft, volume, -ESTALE, "has %llu bytes, not %llu", (unsigned long long) bytes,
            (unsigned long long) pack->volumes [volume].bytes);
    pack_volume_header_t header;
    memcpy (&header, block, sizeof header);
    const pack_header_t *index = pack->header;
    if (memcmp (header.magic, PACK_VOLUME_MAGIC, sizeof header.magic))
        return s_fail_volume (draft, volume, -EBADMSG, "is damaged or no volume: it does not begin with '%s'",
            PACK_VOLUME_MAGIC);
    if (header.version != index->version)
        return s_fail_volume (draft, volume, -EBADMSG, "has version %u of the format, its index version %u",
            header.version,
            index->version);
    pack_volume_header_t expected = pack_volume_header (header.volume, header.pack);
    if (header.checksum != expected.checksum
        || !s_is_zero (block + sizeof header, PACK_BLOCK_BYTES - sizeof header))
        return s_fail_volume (draft, volume, -EBADMSG, "is damaged: its header does not match its checksum");
    if (memcmp (header.pack, index->pack, sizeof header.pack))
        return s_fail_volume (draft, volume, -ESTALE, "belongs to another pack");
    if (header.volume != volume)
        return s_fail_volume (draft, volume, -ESTALE, "is volume %u under another name", header.volume);
    return 0;
}

static int
s_open_volume (const draft_t *draft, uint32_t volume)
{
    pack_t *pack = draft->self->pack;
    char name [PACK_VOLUME_NAME_BYTES];
    snprintf (name, sizeof name, PACK_VOLUME_NAME, volume);
    uint64_t bytes;
    int rc = s_open (draft, name, &pack->descriptors [volume], &bytes);
    if (rc)
        return rc;
    uint8_t block [PACK_BLOCK_BYTES] = { 0 };
    if (bytes >= PACK_BLOCK_BYTES)
        rc = catalogue_read_at (pack->descriptors [volume], block, PACK_BLOCK_BYTES, 0);
    return rc? s_fail_file (draft, name, rc): pack_check_volume (draft, volume, bytes, block);
}

static int
s_open_volumes (const draft_t *draft)
{
    pack_t *pack = draft->self->pack;
    pack->descriptors = malloc (pack->volume_count * sizeof *pack->descriptors);
    if (!pack->descriptors)
        return catalogue_fail_memory (draft);
    for (uint32_t volume = 0; volume < pack->volume_count; volume++)
        pack->descriptors [volume] = -1;
    int rc = 0;
    progress_step (draft->progress, &(progress_step_t) { .what = "opening volumes", .unit = "volumes",
        .total = pack->volume_count }, 0);
    for (uint32_t volume = 0; rc == 0 && volume < pack->volume_count; volume++) {
        rc = s_open_volume (draft, volume);
        progress_tell (draft->progress, volume + 1, 0);
    }
    return rc;
}


//  -- is it a pack?

//  1 or 0; or -errno and a sentence.
static int
s_is_there (const draft_t *draft, const char *name)
{
    struct stat status;
    const field_t *field = &draft->self->fields [0];
    if (fstatat (field->root_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return !S_ISDIR (status.st_mode);
    return errno == ENOENT || errno == ENOTDIR? 0: catalogue_fail_folder (draft, field->path, "", -errno);
}

int
catalogue_fail_unfinished (const draft_t *draft)
{
    return catalogue_fail (draft, -ENODATA, "'%s' is a pack that is not finished: run tureen pack --resume",
        catalogue_root (draft->self));
}

//  A folder without an index may be a pack that never got one, or has lost it.
static int
s_check_no_pack (const draft_t *draft)
{
    const char *root = catalogue_root (draft->self);
    int rc = s_is_there (draft, PACKING_JOURNAL);
    if (rc > 0)
        return catalogue_fail_unfinished (draft);
    if (rc == 0)
        rc = s_is_there (draft, "volume-00000.tureen");
    if (rc > 0)
        return catalogue_fail (draft, -ENODATA,
            "'%s' has a pack's volumes, but not its %s: copy it from where it is whole, or "
            "pack again", root, PACK_INDEX_NAME);
    return rc;
}

static int
s_check_options (const draft_t *draft)
{
    const catalogue_t *self = draft->self;
    if (self->field_count > 1)
        return catalogue_fail (draft, -EINVAL,
            "'%s' is a pack, which has its fields in it: leave out the field '%s', or pack "
            "again with it", catalogue_root (self), self->fields [1].name);
    if (draft->extensions)
        return catalogue_fail (draft, -EINVAL,
            "'%s' is a pack, in which all files count: leave out the extensions '%.80s', "
            "or pack again with them", catalogue_root (self), draft->extensions);
    return 0;
}

//  Without an index it is a bucket of single objects.
static int
s_read_from_store (draft_t *draft)
{
    void *memory;
    uint64_t bytes;
    block_data_t *blocks;
    int rc = pack_fetch_index (draft, &memory, &bytes, &blocks);
    if (rc == 0 && draft->index_only)
        return catalogue_fail (draft, -ENODATA, "there is no pack at '%s' (no %s): check the address",
            catalogue_root (draft->self), PACK_INDEX_NAME);
    if (rc <= 0)
        return rc;
    rc = s_check_options (draft);
    if (rc) {
        munmap (memory, bytes? bytes: sizeof (uint64_t));
        block_data_close (&blocks);
    }
    else
        rc = s_use_index (draft, PACK_INDEX_NAME, memory, bytes, blocks);
    if (rc == 0)
        rc = pack_name_objects (draft);
    if (rc == 0 && !draft->index_only)
        rc = pack_fetch_volumes (draft);
    return rc? rc: 1;
}

int
catalogue_pack_read (draft_t *draft)
{
    if (draft->self->fields [0].store)
        return s_read_from_store (draft);
    int rc = s_is_there (draft, PACK_INDEX_NAME);
    if (rc <= 0)
        return rc? rc: s_check_no_pack (draft);
    rc = s_check_options (draft);
    if (rc == 0)
        rc = pack_load (draft, PACK_INDEX_NAME);
    if (rc == 0 && !draft->index_only)
        rc = s_open_volumes (draft);
    return rc? rc: 1;
}


//  -- close

void
pack_detach (catalogue_t *catalogue)
{
    pack_t *self = catalogue->pack;
    if (!self)
        return;
    assert (self->magic == PACK_MAGIC);
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++)
        catalogue->fields [field].files = NULL;
    for (size_t column = 0; column < catalogue->column_count; column++)
        catalogue->columns [column].values = NULL;
    catalogue->samples = NULL;
    catalogue->directories = NULL;
    catalogue->classes = NULL;
    catalogue->arena = NULL;
    for (uint32_t volume = 0; self->descriptors && volume < self->volume_count; volume++)
        if (self->descriptors [volume] >= 0)
            close (self->descriptors [volume]);
    free (self->descriptors);
    pack_release_objects (self);
    if (self->index)
        munmap (self->index, self->index_bytes);
    self->magic = 0;
    free (self);
    catalogue->pack = NULL;
}
