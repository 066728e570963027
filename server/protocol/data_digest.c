#include "data_digest.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include "needed.h"

enum { KIND_BYTES = 8, BUFFER_WORDS = 1024, BUFFER_IDS = 4096 };

_Static_assert (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are hashed as they lie in memory");

typedef struct {
    XXH3_state_t *hash;
    uint64_t words [BUFFER_WORDS];
    uint64_t first;             //  number of the first word in the buffer
    size_t filled;              //  words of it in use
} digest_t;

static void
s_begin (digest_t *self, const char kind [KIND_BYTES])
{
    memset (self, 0, sizeof *self);
    self->hash = needed_memory (XXH3_createState ());
    XXH3_64bits_reset (self->hash);
    XXH3_64bits_update (self->hash, kind, KIND_BYTES);
}

static data_digest_t
s_text (uint64_t hash)
{
    data_digest_t digest;
    snprintf (digest.text, sizeof digest.text, "%016" PRIx64, hash);
    return digest;
}

static data_digest_t
s_end (digest_t *self)
{
    XXH3_64bits_update (self->hash, self->words, self->filled * sizeof *self->words);
    data_digest_t digest = s_text (XXH3_64bits_digest (self->hash));
    XXH3_freeState (self->hash);
    return digest;
}

//  Hashes the whole buffer.
static void
s_flush (digest_t *self)
{
    XXH3_64bits_update (self->hash, self->words, sizeof self->words);
    memset (self->words, 0, sizeof self->words);
    self->first += BUFFER_WORDS;
    self->filled = 0;
}

//  Ids come in ascending order.
static inline void
s_add (digest_t *self, uint32_t id)
{
    uint64_t word = id / 64;
    while (word >= self->first + BUFFER_WORDS)
        s_flush (self);
    self->words [word - self->first] |= UINT64_C (1) << id % 64;
    self->filled = (size_t) (word - self->first) + 1;
}

static const char s_set [KIND_BYTES] = "set", s_list [KIND_BYTES] = "list";

data_digest_t
data_digest_of_all (uint32_t sample_count)
{
    digest_t digest;
    s_begin (&digest, s_set);
    for (uint32_t word = 0; word < sample_count / 64; word++) {
        while (word >= digest.first + BUFFER_WORDS)
            s_flush (&digest);
        digest.words [word - digest.first] = UINT64_MAX;
        digest.filled = (size_t) (word - digest.first) + 1;
    }
    for (uint32_t id = sample_count / 64 * 64; id < sample_count; id++)
        s_add (&digest, id);
    return s_end (&digest);
}

data_digest_t
data_digest_of_set (const roaring_bitmap_t *set)
{
    digest_t digest;
    uint32_t ids [BUFFER_IDS];
    roaring_uint32_iterator_t iterator;
    s_begin (&digest, s_set);
    roaring_init_iterator (set, &iterator);
    for (uint32_t count; (count = roaring_read_uint32_iterator (&iterator, ids, BUFFER_IDS)) > 0;)
        for (uint32_t index = 0; index < count; index++)
            s_add (&digest, ids [index]);
    return s_end (&digest);
}

data_digest_t
data_digest_of_list (const uint32_t *ids, size_t count)
{
    digest_t digest;
    s_begin (&digest, s_list);
    XXH3_64bits_update (digest.hash, ids, count * sizeof *ids);
    return s_end (&digest);
}

data_digest_t
data_digest_of_bytes (const void *bytes, size_t size)
{
    return s_text (XXH3_64bits (bytes, size));
}
