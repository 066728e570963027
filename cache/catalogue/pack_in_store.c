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
    return transfer->rc == -ESTALE && !transfer->version && transfer->object_bytes == transfer->done;
}

static int
s_fail (const draft_t *draft, const char *name, const transfer_t *transfer)
{
    char what [500];
    store_explain (draft->self->fields [0].store, name, transfer, what, sizeof what);
    return catalogue_fail (draft, transfer->rc, "%s", what);
}

//  All of them, or a sentence on the first that failed: an object of this name, or of its volume's.
static int
s_get (const draft_t *draft, const char *name, transfer_t *all, size_t count)
{
    if (store_get (draft->self->fields [0].store, all, count, OPEN_PATIENCE_MS) == 0)
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

static int
s_fail_no_pack (const draft_t *draft)
{
    return catalogue_fail (draft, -ENODATA, "there is no pack at '%s' (no %s): check the address. Of object "
        "stores and web servers only packs are read: make one there with `tureen pack`",
        catalogue_root (draft->self), PACK_INDEX_NAME);
}

//  What the first read has not brought, in parts of one version.
static int
s_read_rest (const draft_t *draft, const transfer_t *first, uint8_t *memory)
{
    uint64_t rest = first->object_bytes - first->done;
    size_t count = (size_t) ((rest + PART_BYTES - 1) / PART_BYTES);
    transfer_t *parts = calloc (count, sizeof *parts);
    if (!parts)
        return catalogue_fail_memory (draft);
    for (size_t part = 0; part < count; part++) {
        uint64_t at = first->done + (uint64_t) part * PART_BYTES, left = first->object_bytes - at;
        parts [part] = (transfer_t) { .url = first->url, .version = first->object_version, .offset = at,
            .bytes = left < PART_BYTES? (size_t) left: PART_BYTES, .memory = memory + at };
    }
    int rc = s_get (draft, PACK_INDEX_NAME, parts, count);
    free (parts);
    return rc;
}

//  In pages of its own, of which *room_p bytes are mapped.
static int
s_place_index (const draft_t *draft, const transfer_t *first, void **memory_p, size_t *room_p)
{
    *room_p = first->object_bytes? (size_t) first->object_bytes: sizeof (uint64_t);
    void *memory = mmap (NULL, *room_p, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return catalogue_fail_memory (draft);
    memcpy (memory, first->memory, first->done);
    int rc = first->done < first->object_bytes? s_read_rest (draft, first, memory): 0;
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
pack_fetch_index (const draft_t *draft, void **memory_p, uint64_t *bytes_p)
{
    *memory_p = NULL;
    char *url = s_url (draft, PACK_INDEX_NAME);
    transfer_t first = { .url = url, .bytes = FIRST_BYTES, .memory = malloc (FIRST_BYTES) };
    size_t room;
    int rc = !url || !first.memory? catalogue_fail_memory (draft): 0;
    if (rc)
        goto exit;
    rc = s_get (draft, PACK_INDEX_NAME, &first, 1);
    if (rc == -ENOENT)
        rc = s_fail_no_pack (draft);
    if (rc == 0)
        rc = s_place_index (draft, &first, memory_p, &room);
    *bytes_p = first.object_bytes;
exit:
    free (first.memory);
    free (url);
    return rc;
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
