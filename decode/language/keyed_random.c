#include "keyed_random.h"
#include <assert.h>
#include <string.h>
#include <sodium.h>

enum { BLOCK_BYTES = KEYED_RANDOM_BLOCK_NUMBERS * 8, BLOCK_FIELD_OFFSET = 44 };
_Static_assert (BLOCK_BYTES == crypto_generichash_BYTES_MAX, "a block is one BLAKE2b-512 digest");

static uint8_t *
s_put (uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned index = 0; index < bytes; index++)
        *at++ = (uint8_t) (value >> (8 * index));
    return at;
}

void
keyed_random_init (keyed_random_t *self, const pipeline_key_t *key, uint32_t view, uint32_t place)
{
    assert (key);
    self->block = 0;
    self->used = KEYED_RANDOM_BLOCK_NUMBERS;
    memcpy (self->message, "tureen-1", 8);
    uint8_t *at = s_put (self->message + 8, key->seed, 8);
    at = s_put (at, key->round, 8);
    at = s_put (at, key->id, 8);
    at = s_put (at, key->occurrence, 4);
    at = s_put (at, view, 4);
    at = s_put (at, place, 4);
    assert (at == self->message + BLOCK_FIELD_OFFSET);
}

static void
s_refill (keyed_random_t *self)
{
    uint8_t digest [BLOCK_BYTES];
    s_put (self->message + BLOCK_FIELD_OFFSET, self->block++, 4);
    int rc = crypto_generichash (digest, sizeof digest, self->message, sizeof self->message, NULL, 0);
    assert (rc == 0);
    for (unsigned index = 0; index < KEYED_RANDOM_BLOCK_NUMBERS; index++) {
        uint64_t number = 0;
        for (unsigned byte = 8; byte-- > 0;)
            number = number << 8 | digest [8 * index + byte];
        self->numbers [index] = number;
    }
    self->used = 0;
}

uint64_t
keyed_random_next (keyed_random_t *self)
{
    if (self->used == KEYED_RANDOM_BLOCK_NUMBERS)
        s_refill (self);
    return self->numbers [self->used++];
}

double
keyed_random_uniform (keyed_random_t *self)
{
    return (double) (keyed_random_next (self) >> 11) * 0x1p-53;
}

uint64_t
keyed_random_below (keyed_random_t *self, uint64_t bound)
{
    assert (bound > 0);
    return (uint64_t) (((unsigned __int128) keyed_random_next (self) * bound) >> 64);
}
