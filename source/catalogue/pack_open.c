/*  pack_open.c -- a folder with index.tureen, or a store with such an object, becomes a catalogue that points
 *  into it.
 *
 *  happy path:  read the index, validate it, open every volume and hold its header and size against the
 *               index.  From a store the index comes by ranged reads, some at once, and of each volume the
 *               first block, which tells the volume's size and version as well.
 *  failure:     as in catalogue_classes.c; pack_detach frees what is half done.
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

enum {
    INDEX_PIECE_BYTES = 16 * 1024 * 1024,
    FIRST_BYTES = 1024 * 1024,          //  of the index, when its size is not known yet
    FIRST_KEPT_BYTES = 64 * 1024,       //  the same where the rest may be on the local disk
    PART_BYTES = 8 * 1024 * 1024,       //  of one read of the index
    OPEN_PATIENCE_MS = 15000            //  a user waits for the server to start
};

//  -- the index in a folder

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
s_open_file (const draft_t *draft, const char *name, int *fd_p, uint64_t *bytes_p)
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
    int rc = s_open_file (draft, name, &fd, bytes_p);
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


//  -- the index in a store

static char *
s_url (const draft_t *draft, const char *name)
{
    return store_url (draft->self->fields [0].store, name);
}

//  The object ends before the range that was asked for without knowing its size.
static bool
s_is_shorter (const transfer_t *transfer)
{
    return transfer->rc == -EREMCHG && !transfer->version && transfer->object_bytes == transfer->done;
}

static int
s_fail_transfer (const draft_t *draft, const char *name, const transfer_t *transfer)
{
    char what [500];
    store_explain (draft->self->fields [0].store, name, transfer, what, sizeof what);
    return catalogue_fail (draft, transfer->rc, "%s", what);
}

//  What is on its way, to be shown.
typedef struct {
    progress_t *progress;
    const transfer_t *all;
    size_t count;
} way_t;

//  Asked while the transfers are under way, whether they are to be given up: never.
static bool
s_show (void *context)
{
    const way_t *way = context;
    uint64_t done = 0;
    for (size_t index = 0; index < way->count; index++)
        done += way->all [index].done;
    progress_tell (way->progress, done, 0);
    return false;
}

//  All of them, or a sentence on the first that failed: an object of this name, or of its volume's.
static int
s_get (const draft_t *draft, const char *name, transfer_t *all, size_t count)
{
    way_t way = { .progress = draft->progress, .all = all, .count = count };
    store_persistence_t how = { .patience_ms = OPEN_PATIENCE_MS, .stopped = s_show, .context = &way };
    progress_step_t step = { .what = name? "reading the index": "opening volumes" };
    for (size_t index = 0; index < count; index++)
        step.total += all [index].bytes;
    progress_step (draft->progress, &step, 0);
    if (store_carry_out (draft->self->fields [0].store, all, count, &how) == 0)
        return 0;
    char volume_name [PACK_VOLUME_NAME_BYTES];
    bool is_shorter = false;
    for (uint32_t index = 0; index < count; index++) {
        snprintf (volume_name, sizeof volume_name, PACK_VOLUME_NAME, index);
        is_shorter = is_shorter || s_is_shorter (&all [index]);
        if (all [index].rc && !s_is_shorter (&all [index]))
            return s_fail_transfer (draft, name? name: volume_name, &all [index]);
    }
    return is_shorter? 0: catalogue_fail_memory (draft);
}



//  From begin to end, in parts of the first read's version.
static int
s_read_parts (const draft_t *draft, const transfer_t *first, uint8_t *memory, uint64_t begin, uint64_t end)
{
    size_t count = (size_t) ((end - begin + PART_BYTES - 1) / PART_BYTES);
    transfer_t *parts = calloc (count, sizeof *parts);
    if (!parts)
        return catalogue_fail_memory (draft);
    for (size_t part = 0; part < count; part++) {
        uint64_t at = begin + (uint64_t) part * PART_BYTES, left = end - at;
        parts [part] = (transfer_t) { .url = first->url, .version = first->object_version, .offset = at,
            .bytes = left < PART_BYTES? (size_t) left: PART_BYTES, .memory = memory + at };
    }
    int rc = s_get (draft, PACK_INDEX_NAME, parts, count);
    free (parts);
    return rc;
}

//  What the first read has not brought: from the local disk where it is there.
static int
s_read_rest (const draft_t *draft, const transfer_t *first, uint8_t *memory, block_data_t *blocks)
{
    size_t bytes = (size_t) first->object_bytes;
    block_data_gap_t gap = { .begin = first->done, .end = bytes };
    if (blocks) {
        gap = block_data_read (blocks, 0, bytes, memory);
        memcpy (memory, first->memory, first->done);
        gap.begin = gap.begin > first->done? gap.begin: first->done;
    }
    return gap.begin < gap.end? s_read_parts (draft, first, memory, gap.begin, gap.end): 0;
}

//  Where the index is kept on the local disk, if its version is known; NULL: it is read as a whole.
static block_data_t *
s_keep_index (const draft_t *draft, const transfer_t *first)
{
    block_data_t *blocks = NULL;
    block_data_key_t key = { { 0, 0 } };
    block_data_key_add (&key, first->url, first->object_version, first->object_bytes);
    if (draft->cache && *first->object_version && first->object_bytes > first->done)
        (void) (block_data_open (&blocks, draft->cache, &key, first->object_bytes) == 0);
    return blocks;
}

//  In pages of its own, of which *room_p bytes are mapped.
static int
s_place_index (const draft_t *draft, const transfer_t *first, block_data_t *blocks, void **memory_p,
    size_t *room_p)
{
    *room_p = first->object_bytes? (size_t) first->object_bytes: sizeof (uint64_t);
    void *memory = mmap (NULL, *room_p, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return catalogue_fail_memory (draft);
    memcpy (memory, first->memory, first->done);
    int rc = first->done < first->object_bytes? s_read_rest (draft, first, memory, blocks): 0;
    if (rc == 0 && mprotect (memory, *room_p, PROT_READ) != 0)
        rc = catalogue_fail_memory (draft);
    if (rc) {
        munmap (memory, *room_p);
        memory = NULL;
    }
    *memory_p = memory;
    return rc;
}

//  The index, in pages of its own that are read-only, and where it is kept on the local disk (NULL: nowhere):
//  1, or 0 and there is none.  Or -errno and a sentence.
static int
s_fetch_index (const draft_t *draft, void **memory_p, uint64_t *bytes_p, block_data_t **blocks_p)
{
    *memory_p = NULL;
    *blocks_p = NULL;
    char *url = s_url (draft, PACK_INDEX_NAME);
    transfer_t first = { .url = url, .bytes = draft->cache? FIRST_KEPT_BYTES: FIRST_BYTES,
        .memory = malloc (FIRST_BYTES) };
    size_t room;
    int rc = !url || !first.memory? catalogue_fail_memory (draft): 0;
    if (rc)
        goto exit;
    rc = s_get (draft, PACK_INDEX_NAME, &first, 1);
    if (rc == 0) {
        *blocks_p = s_keep_index (draft, &first);
        rc = s_place_index (draft, &first, *blocks_p, memory_p, &room);
    }
    if (rc)
        block_data_close (blocks_p);
    if (rc == -ENOENT)
        draft->error [0] = 0;           //  which is no failure
    *bytes_p = first.object_bytes;
exit:
    free (first.memory);
    free (url);
    return rc == -ENOENT? 0: rc? rc: 1;
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

//  Whether a volume that has so many bytes, and begins with this block, is the pack's: 0, or -errno and a
//  sentence.
static int
s_check_volume (const draft_t *draft, uint32_t volume, uint64_t bytes, const uint8_t *block)
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
    int rc = s_open_file (draft, name, &pack->descriptors [volume], &bytes);
    if (rc)
        return rc;
    uint8_t block [PACK_BLOCK_BYTES] = { 0 };
    if (bytes >= PACK_BLOCK_BYTES)
        rc = catalogue_read_at (pack->descriptors [volume], block, PACK_BLOCK_BYTES, 0);
    return rc? s_fail_file (draft, name, rc): s_check_volume (draft, volume, bytes, block);
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

static int
s_name_objects (const draft_t *draft)
{
    pack_t *pack = draft->self->pack;
    char name [PACK_VOLUME_NAME_BYTES];
    pack->objects = calloc (pack->volume_count, sizeof *pack->objects);
    bool fine = pack->objects;
    for (uint32_t volume = 0; fine && volume < pack->volume_count; volume++) {
        snprintf (name, sizeof name, PACK_VOLUME_NAME, volume);
        pack->objects [volume].url = store_url (draft->self->fields [0].store, name);
        fine = pack->objects [volume].url;
    }
    return fine? 0: catalogue_fail_memory (draft);
}

//  first_blocks: of all volumes, which no piece has.  Where that cannot be, the pack is read from the store
//  alone, and pack_blocks tells why.
static void
s_keep_volumes (const draft_t *draft, const uint8_t *first_blocks)
{
    pack_t *pack = draft->self->pack;
    block_data_key_t key = { { 0, 0 } };
    bool is_known = true;
    for (uint32_t volume = 0; volume < pack->volume_count; volume++) {
        const pack_object_t *object = &pack->objects [volume];
        block_data_key_add (&key, object->url, object->version, pack->volumes [volume].bytes);
        is_known = is_known && *object->version;
    }
    uint64_t bytes = pack_volume_place (pack, pack->volume_count);
    pack->blocks_rc = is_known && bytes > 0? block_data_open (&pack->blocks, draft->cache, &key, bytes):
        -ENODATA;
    uint64_t place = 0;
    for (uint32_t volume = 0; pack->blocks && volume < pack->volume_count; volume++) {
        block_data_store (pack->blocks, place, PACK_BLOCK_BYTES, first_blocks
            + (size_t) volume * PACK_BLOCK_BYTES, false);
        place = block_data_next (place, pack->volumes [volume].bytes);
    }
}

_Static_assert ((int) PACK_BLOCK_BYTES == (int) BLOCK_DATA_UNIT_BYTES, "a volume's first block is a unit");

//  Their versions; their first blocks are checked.
static int
s_fetch_volumes (const draft_t *draft)
{
    pack_t *pack = draft->self->pack;
    transfer_t *all = calloc (pack->volume_count, sizeof *all);
    uint8_t *blocks = calloc (pack->volume_count, PACK_BLOCK_BYTES);
    int rc = all && blocks? 0: catalogue_fail_memory (draft);
    for (uint32_t volume = 0; rc == 0 && volume < pack->volume_count; volume++)
        all [volume] = (transfer_t) { .url = pack->objects [volume].url, .bytes = PACK_BLOCK_BYTES,
            .memory = blocks + (size_t) volume * PACK_BLOCK_BYTES };
    if (rc == 0)
        rc = s_get (draft, NULL, all, pack->volume_count);
    for (uint32_t volume = 0; rc == 0 && volume < pack->volume_count; volume++) {
        rc = s_check_volume (draft, volume, all [volume].object_bytes, all [volume].memory);
        memcpy (pack->objects [volume].version, all [volume].object_version, TRANSFER_VERSION_BYTES);
    }
    if (rc == 0 && draft->cache)
        s_keep_volumes (draft, blocks);
    free (blocks);
    free (all);
    return rc;
}

int
pack_object_bytes (const pack_t *self, uint32_t volume, uint64_t *bytes_p)
{
    uint8_t block [PACK_BLOCK_BYTES];
    transfer_t first = { .url = self->objects [volume].url, .bytes = sizeof block, .memory = block };
    int rc = store_get (self->catalogue->fields [0].store, &first, 1, OPEN_PATIENCE_MS);
    *bytes_p = first.object_bytes;
    return s_is_shorter (&first)? 0: rc;
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
    int rc = s_fetch_index (draft, &memory, &bytes, &blocks);
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
        rc = s_name_objects (draft);
    if (rc == 0 && !draft->index_only)
        rc = s_fetch_volumes (draft);
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
