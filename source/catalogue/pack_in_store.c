//  A pack in an object store or on a web server: its index comes by ranged reads, some at once, and of each
//  volume the first block, which tells the volume's size and version as well.

#include "pack_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>


enum {
    FIRST_BYTES = 1024 * 1024,          //  of the index, when its size is not known yet
    FIRST_KEPT_BYTES = 64 * 1024,       //  the same where the rest may be on the local disk
    PART_BYTES = 8 * 1024 * 1024,       //  of one read of the index
    OPEN_PATIENCE_MS = 15000,           //  a user waits for the server to start
    READ_PATIENCE_MS = 5000             //  a worker's thread waits
};

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
s_fail (const draft_t *draft, const char *name, const transfer_t *transfer)
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
            return s_fail (draft, name? name: volume_name, &all [index]);
    }
    return is_shorter? 0: catalogue_fail_memory (draft);
}


//  -- the index

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

int
pack_fetch_index (const draft_t *draft, void **memory_p, uint64_t *bytes_p, block_data_t **blocks_p)
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

int
pack_name_objects (const draft_t *draft)
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

uint64_t
pack_volume_place (const pack_t *self, uint32_t volume)
{
    uint64_t place = 0;
    for (uint32_t before = 0; before < volume; before++)
        place = block_data_next (place, self->volumes [before].bytes);
    return place;
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

int
pack_fetch_volumes (const draft_t *draft)
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
        rc = pack_check_volume (draft, volume, all [volume].object_bytes, all [volume].memory);
        memcpy (pack->objects [volume].version, all [volume].object_version, TRANSFER_VERSION_BYTES);
    }
    if (rc == 0 && draft->cache)
        s_keep_volumes (draft, blocks);
    free (blocks);
    free (all);
    return rc;
}

void
pack_release_objects (pack_t *self)
{
    for (uint32_t volume = 0; self->objects && volume < self->volume_count; volume++)
        free (self->objects [volume].url);
    free (self->objects);
    block_data_close (&self->blocks);
    block_data_close (&self->index_blocks);
}

block_data_t *
pack_blocks (const pack_t *self, int *rc_p)
{
    *rc_p = self->blocks_rc;
    return self->blocks;
}


//  -- reads

int
pack_object_bytes (const pack_t *self, uint32_t volume, uint64_t *bytes_p)
{
    uint8_t block [PACK_BLOCK_BYTES];
    transfer_t first = { .url = self->objects [volume].url, .bytes = sizeof block, .memory = block };
    int rc = store_get (self->catalogue->fields [0].store, &first, 1, OPEN_PATIENCE_MS);
    *bytes_p = first.object_bytes;
    return s_is_shorter (&first)? 0: rc;
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
