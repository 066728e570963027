#include "pack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "catalogue_places.h"
#include "pack_index.h"

enum {
    PACK_MAGIC = 0x7ac4ed01,
    FIRST_BYTES = 1024 * 1024,          //  of the index, when its size is not known yet
    FIRST_KEPT_BYTES = 64 * 1024,       //  the same where the rest may be on the local disk
    PART_BYTES = 8 * 1024 * 1024,       //  of one read of the index
    OPEN_PATIENCE_MS = 15000,           //  a user waits for the server to start
    READ_PATIENCE_MS = 5000             //  with a store: a worker's thread waits
};

//  A volume in a store.
typedef struct {
    char *url;
    char version [TRANSFER_VERSION_BYTES];      //  its ETag when the pack was opened
} pack_object_t;

struct pack {
    uint32_t magic;
    const catalogue_t *catalogue;       //  the catalogue that it belongs to
    pack_contents_t index;
    void *pages;                        //  the index's; NULL: lent bytes
    size_t page_bytes;
    int *descriptors;                   //  by volume; -1: not open.  NULL: none yet, or in a store
    pack_object_t *objects;             //  by volume, in a store
    block_data_t *blocks, *index_blocks;        //  on the local disk; NULL: nowhere
    int blocks_rc;                      //  why not
};

//  ---- answers

static void
s_check_self (const pack_t *self)
{
    assert (self);
    assert (self->magic == PACK_MAGIC);
}

static const pack_place_t *
s_place (const pack_t *self, uint32_t id)
{
    s_check_self (self);
    assert (id < self->index.header->samples);
    return &self->index.places [id];
}

static const pack_volume_t *
s_volume (const pack_t *self, uint32_t volume)
{
    s_check_self (self);
    assert (volume < self->index.volume_count);
    return &self->index.volumes [volume];
}

pack_volume_header_t
pack_volume_header (uint32_t volume, const uint8_t *pack)
{
    pack_volume_header_t header = { .version = PACK_VERSION, .volume = volume };
    memcpy (header.magic, PACK_VOLUME_MAGIC, sizeof header.magic);
    memcpy (header.pack, pack, sizeof header.pack);
    header.checksum = XXH3_64bits (&header, offsetof (pack_volume_header_t, checksum));
    return header;
}

const uint8_t *
pack_id (const pack_t *self)
{
    s_check_self (self);
    return self->index.header->pack;
}

const char *
pack_note (const pack_t *self)
{
    s_check_self (self);
    return self->index.note;
}

uint32_t
pack_samples (const pack_t *self)
{
    s_check_self (self);
    return (uint32_t) self->index.header->samples;
}

uint64_t
pack_bytes (const pack_t *self)
{
    s_check_self (self);
    return self->index.header->bytes;
}

uint32_t
pack_chunk_samples (const pack_t *self)
{
    s_check_self (self);
    return self->index.header->chunk_samples;
}

const uint32_t *
pack_order (const pack_t *self)
{
    s_check_self (self);
    return self->index.order;
}

uint32_t
pack_position (const pack_t *self, uint32_t id)
{
    return s_place (self, id)->position;
}

uint32_t
pack_volumes (const pack_t *self)
{
    s_check_self (self);
    return self->index.volume_count;
}

uint32_t
pack_volume_first (const pack_t *self, uint32_t volume)
{
    s_check_self (self);
    return volume == self->index.volume_count? (uint32_t) self->index.header->samples:
        s_volume (self, volume)->first;
}

int
pack_volume_descriptor (const pack_t *self, uint32_t volume)
{
    s_volume (self, volume);
    assert (self->descriptors && self->descriptors [volume] >= 0);
    return self->descriptors [volume];
}

size_t
pack_volume_path (const pack_t *self, uint32_t volume, char *buffer, size_t size)
{
    s_volume (self, volume);
    int length = snprintf (buffer, size, "%s/" PACK_VOLUME_NAME, self->catalogue->fields [0].path, volume);
    assert (length > 0);
    return (size_t) length;
}

const store_t *
pack_store (const pack_t *self)
{
    s_check_self (self);
    return self->catalogue->fields [0].store;
}

const char *
pack_volume_url (const pack_t *self, uint32_t volume)
{
    s_volume (self, volume);
    assert (self->objects);
    return self->objects [volume].url;
}

const char *
pack_volume_version (const pack_t *self, uint32_t volume)
{
    s_volume (self, volume);
    assert (self->objects);
    return self->objects [volume].version;
}

uint64_t
pack_volume_bytes (const pack_t *self, uint32_t volume)
{
    return s_volume (self, volume)->bytes;
}

block_data_t *
pack_blocks (const pack_t *self, int *rc_p)
{
    *rc_p = self->blocks_rc;
    return self->blocks;
}

uint64_t
pack_volume_place (const pack_t *self, uint32_t volume)
{
    uint64_t place = 0;
    for (uint32_t before = 0; before < volume; before++)
        place = block_data_next (place, self->index.volumes [before].bytes);
    return place;
}

//  No sum of file sizes overflows: pack_index_check has added them up.
size_t
pack_sample_bytes (const pack_t *self, uint32_t id)
{
    s_place (self, id);
    size_t bytes = 0;
    for (size_t file = 0; file < self->index.file_count; file++)
        bytes += catalogue_packed_bytes (self->catalogue, id, file);
    return bytes;
}

size_t
pack_rows_bytes (const pack_t *self, uint32_t id)
{
    s_place (self, id);
    return self->index.has_rows? catalogue_packed_bytes (self->catalogue, id, self->index.file_count - 1): 0;
}

pack_range_t
pack_sample (const pack_t *self, uint32_t id)
{
    const pack_place_t *place = s_place (self, id);
    return (pack_range_t) { .volume = place->volume, .offset = place->offset,
        .bytes = pack_sample_bytes (self, id) };
}

pack_range_t
pack_piece (const pack_t *self, uint32_t first, uint32_t count)
{
    s_check_self (self);
    assert (count > 0);
    assert (first < self->index.header->samples && count <= self->index.header->samples - first);
    pack_range_t piece = pack_sample (self, self->index.order [first]);
    pack_range_t last = pack_sample (self, self->index.order [first + count - 1]);
    assert (last.volume == piece.volume);
    piece.bytes = last.offset + last.bytes - piece.offset;
    return piece;
}

bool
pack_check (const pack_t *self, uint32_t id, const uint8_t *bytes, size_t *field_p)
{
    s_place (self, id);
    for (size_t file = 0; file < self->index.file_count; file++) {
        size_t size = catalogue_packed_bytes (self->catalogue, id, file);
        if (XXH3_64bits (bytes, size) != self->index.checksums [id * self->index.file_count + file]) {
            *field_p = file;
            return false;
        }
        bytes += size;
    }
    return true;
}

int
pack_read_volume (const pack_t *self, uint32_t volume, uint8_t *target, size_t size, uint64_t offset,
    bool is_afresh)
{
    //  Several at once: one connection alone is slow.
    enum { PARTS = 8, LEAST_BYTES = 512 * 1024 };
    transfer_t parts [PARTS];
    size_t step = (size + PARTS - 1) / PARTS, count = 0;
    step = step < LEAST_BYTES? LEAST_BYTES: step;
    for (size_t at = 0; at < size; at += step)
        parts [count++] = (transfer_t) { .url = self->objects [volume].url,
            .version = self->objects [volume].version, .offset = offset + at,
            .bytes = size - at < step? size - at: step, .memory = target + at, .is_afresh = is_afresh };
    return store_get (self->catalogue->fields [0].store, parts, count, READ_PATIENCE_MS);
}

//  A whole file of a sample, into room for its bytes.  As catalogue_read.
static int
s_read (const pack_t *self, uint32_t id, size_t field, uint8_t *target)
{
    const pack_place_t *place = s_place (self, id);
    uint64_t offset = place->offset;
    for (size_t before = 0; before < field; before++)
        offset += catalogue_packed_bytes (self->catalogue, id, before);
    size_t size = catalogue_packed_bytes (self->catalogue, id, field);
    int rc = self->objects? pack_read_volume (self, place->volume, target, size, offset, false):
        catalogue_read_at (self->descriptors [place->volume], target, size, offset);
    if (rc)
        return rc;
    uint64_t checksum = self->index.checksums [id * self->index.file_count + field];
    return XXH3_64bits (target, size) == checksum? 0: -EBADMSG;
}


//  ---- opening

//  A folder with index.tureen, or a store with such an object, becomes a catalogue that points into it.
//
//  happy path:  read the index, check it, open every volume and hold its header and size against the index.
//               From a store the index comes by ranged reads, some at once, and of each volume the first
//               block, which tells the volume's size and version as well.
//  failure:     one sentence at the fault (catalogue_fail); s_detach frees what is half done.
//  on close:    s_detach, then catalogue_destroy frees the rest, which has nothing of the samples.
//
//  The index is memory of our own, not a mapping of the file.  If another process truncates a mapped file, or
//  its disk fails, a read of the mapping kills the process, at any time; and a checked index must not change.

//  Frees the index, closes the volumes, and clears all pointers into them.
static void
s_detach (catalogue_t *catalogue)
{
    pack_t *self = catalogue->pack;
    assert (self->magic == PACK_MAGIC);
    pack_index_detach (catalogue);
    for (uint32_t volume = 0; self->descriptors && volume < self->index.volume_count; volume++)
        if (self->descriptors [volume] >= 0)
            close (self->descriptors [volume]);
    free (self->descriptors);
    for (uint32_t volume = 0; self->objects && volume < self->index.volume_count; volume++)
        free (self->objects [volume].url);
    free (self->objects);
    block_data_close (&self->blocks);
    block_data_close (&self->index_blocks);
    if (self->pages)
        munmap (self->pages, self->page_bytes);
    self->magic = 0;
    free (self);
    catalogue->pack = NULL;
}

int
pack_attach (draft_t *draft, const char *path, const uint8_t *bytes, size_t size)
{
    static const catalogue_packed_t calls = { .read = s_read, .detach = s_detach };
    catalogue_t *catalogue = draft->self;
    assert (!catalogue->pack);
    pack_t *self = calloc (1, sizeof *self);
    if (!self)
        return catalogue_fail_memory (draft);
    self->magic = PACK_MAGIC;
    self->catalogue = catalogue;
    catalogue->pack = self;             //  from now on the catalogue does not own its memory
    catalogue->packed = &calls;
    return pack_index_check (draft, path, bytes, size, &self->index);
}

//  The index's pages, and where it is kept on the local disk (NULL: nowhere), are the pack's from now on, or
//  freed.
static int
s_use_index (draft_t *draft, const char *name, void *memory, uint64_t bytes, block_data_t *blocks)
{
    char path [PATH_MAX + 64];
    snprintf (path, sizeof path, "%s/%s", catalogue_root (draft->self), name);
    int rc = pack_attach (draft, path, memory, bytes);
    size_t room = bytes? bytes: sizeof (uint64_t);
    //  Only now: an index that came damaged is not kept.
    if (rc == 0 && blocks)
        block_data_store (blocks, 0, bytes, memory, false);
    pack_t *pack = draft->self->pack;
    if (pack) {
        pack->pages = memory;
        pack->page_bytes = room;
        pack->index_blocks = blocks;
    }
    else {
        munmap (memory, room);
        block_data_close (&blocks);
    }
    return rc;
}


//  -- the index in a store

//  The object ends before the range that was asked for without knowing its size.
static bool
s_is_shorter (const transfer_t *transfer)
{
    return transfer->rc == -EREMCHG && !transfer->version && transfer->object_bytes == transfer->done;
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
    char volume_name [PACK_VOLUME_NAME_BYTES], what [500];
    bool is_shorter = false;
    for (uint32_t index = 0; index < count; index++) {
        snprintf (volume_name, sizeof volume_name, PACK_VOLUME_NAME, index);
        is_shorter = is_shorter || s_is_shorter (&all [index]);
        if (all [index].rc && !s_is_shorter (&all [index])) {
            store_explain (draft->self->fields [0].store, name? name: volume_name, &all [index], what,
                sizeof what);
            return catalogue_fail (draft, all [index].rc, "%s", what);
        }
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
    block_data_note (blocks, BLOCK_NOTE_INDEX, catalogue_root (draft->self), 0, 0, NULL);
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
    char *url = store_url (draft->self->fields [0].store, PACK_INDEX_NAME);
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
    if (bytes != pack->index.volumes [volume].bytes)
        return s_fail_volume (draft, volume, -ESTALE, "has %llu bytes, not %llu", (unsigned long long) bytes,
            (unsigned long long) pack->index.volumes [volume].bytes);
    pack_volume_header_t header;
    memcpy (&header, block, sizeof header);
    const pack_header_t *index = pack->index.header;
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
    int rc = pack_index_open_file (draft, name, &pack->descriptors [volume], &bytes);
    if (rc)
        return rc;
    uint8_t block [PACK_BLOCK_BYTES] = { 0 };
    if (bytes >= PACK_BLOCK_BYTES)
        rc = catalogue_read_at (pack->descriptors [volume], block, PACK_BLOCK_BYTES, 0);
    return rc? pack_index_fail_file (draft, name, rc): s_check_volume (draft, volume, bytes, block);
}

static int
s_open_volumes (const draft_t *draft)
{
    pack_t *pack = draft->self->pack;
    pack->descriptors = malloc (pack->index.volume_count * sizeof *pack->descriptors);
    if (!pack->descriptors)
        return catalogue_fail_memory (draft);
    for (uint32_t volume = 0; volume < pack->index.volume_count; volume++)
        pack->descriptors [volume] = -1;
    int rc = 0;
    progress_step (draft->progress, &(progress_step_t) { .what = "opening volumes", .unit = "volumes",
        .total = pack->index.volume_count }, 0);
    for (uint32_t volume = 0; rc == 0 && volume < pack->index.volume_count; volume++) {
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
    pack->objects = calloc (pack->index.volume_count, sizeof *pack->objects);
    bool fine = pack->objects;
    for (uint32_t volume = 0; fine && volume < pack->index.volume_count; volume++) {
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
    for (uint32_t volume = 0; volume < pack->index.volume_count; volume++) {
        const pack_object_t *object = &pack->objects [volume];
        block_data_key_add (&key, object->url, object->version, pack->index.volumes [volume].bytes);
        is_known = is_known && *object->version;
    }
    uint64_t bytes = pack_volume_place (pack, pack->index.volume_count);
    pack->blocks_rc = is_known && bytes > 0? block_data_open (&pack->blocks, draft->cache, &key, bytes):
        -ENODATA;
    block_data_note (pack->blocks, BLOCK_NOTE_VOLUMES, catalogue_root (draft->self),
        pack->index.volume_count, bytes, NULL);
    uint64_t place = 0;
    for (uint32_t volume = 0; pack->blocks && volume < pack->index.volume_count; volume++) {
        block_data_store (pack->blocks, place, PACK_BLOCK_BYTES, first_blocks
            + (size_t) volume * PACK_BLOCK_BYTES, false);
        place = block_data_next (place, pack->index.volumes [volume].bytes);
    }
}

_Static_assert ((int) PACK_BLOCK_BYTES == (int) BLOCK_DATA_UNIT_BYTES, "a volume's first block is a unit");

//  The same of a folder on another file system.  Sizes and times of modification tell whether its volumes are
//  those that are kept.
static void
s_keep_files (const draft_t *draft)
{
    pack_t *pack = draft->self->pack;
    char root [PATH_MAX], version [64];
    block_data_key_t key = { { 0, 0 } };
    if (!realpath (catalogue_root (draft->self), root))
        snprintf (root, sizeof root, "%s", catalogue_root (draft->self));
    bool is_known = true;
    for (uint32_t volume = 0; volume < pack->index.volume_count; volume++) {
        struct stat status = { .st_size = 0 };
        is_known = is_known && fstat (pack->descriptors [volume], &status) == 0;
        snprintf (version, sizeof version, "%u of %u, %08" PRIx32, volume, pack->index.volume_count,
            catalogue_places_tag (&status));
        block_data_key_add (&key, root, version, pack->index.volumes [volume].bytes);
    }
    uint64_t bytes = pack_volume_place (pack, pack->index.volume_count);
    bool is_wanted = catalogue_places_are_wanted (draft, pack->descriptors [0]);
    pack->blocks_rc = !is_wanted? -CATALOGUE_NOT_KEPT: !is_known || bytes == 0? -EIO: block_data_open (
        &pack->blocks, draft->cache, &key, bytes);
    block_data_note (pack->blocks, BLOCK_NOTE_VOLUMES, root, pack->index.volume_count, bytes, NULL);
}

//  Their versions; their first blocks are checked.
static int
s_fetch_volumes (const draft_t *draft)
{
    pack_t *pack = draft->self->pack;
    transfer_t *all = calloc (pack->index.volume_count, sizeof *all);
    uint8_t *blocks = calloc (pack->index.volume_count, PACK_BLOCK_BYTES);
    int rc = all && blocks? 0: catalogue_fail_memory (draft);
    for (uint32_t volume = 0; rc == 0 && volume < pack->index.volume_count; volume++)
        all [volume] = (transfer_t) { .url = pack->objects [volume].url, .bytes = PACK_BLOCK_BYTES,
            .memory = blocks + (size_t) volume * PACK_BLOCK_BYTES };
    if (rc == 0)
        rc = s_get (draft, NULL, all, pack->index.volume_count);
    for (uint32_t volume = 0; rc == 0 && volume < pack->index.volume_count; volume++) {
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
catalogue_pack_open (draft_t *draft)
{
    if (draft->self->fields [0].store)
        return s_read_from_store (draft);
    int rc = s_is_there (draft, PACK_INDEX_NAME);
    if (rc <= 0)
        return rc? rc: s_check_no_pack (draft);
    rc = s_check_options (draft);
    void *memory;
    uint64_t bytes;
    if (rc == 0)
        rc = pack_index_read (draft, PACK_INDEX_NAME, &memory, &bytes);
    if (rc == 0)
        rc = s_use_index (draft, PACK_INDEX_NAME, memory, bytes, NULL);
    if (rc == 0 && !draft->index_only)
        rc = s_open_volumes (draft);
    if (rc == 0 && !draft->index_only && draft->cache)
        s_keep_files (draft);
    return rc? rc: 1;
}
