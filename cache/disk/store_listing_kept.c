#include "store_listing_kept.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

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
store_listing_kept_open (block_data_t **blocks_p, const store_t *store, block_cache_t *cache)
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

static bool
s_is_right (const head_t *head, const uint8_t *memory, uint64_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits (memory + sizeof *head, bytes - sizeof *head);
    return hash.low64 == head->hash [0] && hash.high64 == head->hash [1];
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
store_listing_kept_load (store_listing_t *self, block_data_t *blocks, int64_t *listed_s_p)
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
    int rc = gap.begin < gap.end || memcmp (memory, &head, sizeof head) || !s_is_right (&head, memory, bytes)?
        -ENODATA: s_take (self, &head, memory + sizeof head);
    free (memory);
    *listed_s_p = head.listed_s;
    return rc;
}

void
store_listing_kept_write (const store_listing_t *self, block_data_t *blocks, int64_t listed_s)
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
