#include "stream_order.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "permutation.h"
#include "random.h"
#include "xalloc.h"

enum { ORDER_MAGIC = 0x5eed0f1d, PIECE = STREAM_ORDER_PIECE, WORD_BITS = 64 };

struct stream_order {
    uint32_t magic;
    //  set at birth
    const uint32_t *pack_order;
    uint32_t samples;
    uint32_t count;                 //  of the data
    uint32_t piece_count;
    uint32_t pool_max;
    uint64_t seed;
    //  Parts of a pack; NULL: all of it, a rank is a position.
    uint64_t *kept;                 //  a bit for each position
    uint32_t *starts;               //  the position of each PIECE-th rank
    //  of the present epoch
    random_t random;
    permutation_t order;
    uint32_t shift;
    uint32_t entered, told;         //  pieces
    uint32_t drawn;
    uint32_t *pool;                 //  ids
    uint32_t pool_count;
};

static uint32_t
s_least (uint32_t one, uint32_t other)
{
    return one < other? one: other;
}

//  ---- where the data lie in the pack

static void
s_set_bit (uint64_t *bits, uint32_t place)
{
    bits [place / WORD_BITS] |= UINT64_C (1) << place % WORD_BITS;
}

static bool
s_note_id (uint32_t id, void *ids)
{
    s_set_bit (ids, id);
    return true;
}

//  Through bits of ids: one look-up in them takes a fifth of what one in the set takes.
static void
s_find_data (stream_order_t *self, const roaring_bitmap_t *data)
{
    size_t words = self->samples / WORD_BITS + 1;
    uint64_t *ids = xalloc_jobs (calloc (words, sizeof *ids));
    roaring_iterate (data, s_note_id, ids);
    self->kept = xalloc_jobs (calloc (words, sizeof *self->kept));
    self->starts = xalloc_jobs (malloc (self->piece_count * sizeof *self->starts));
    uint32_t rank = 0;
    for (uint32_t position = 0; position < self->samples; position++) {
        uint32_t id = self->pack_order [position];
        if (!(ids [id / WORD_BITS] >> id % WORD_BITS & 1))
            continue;
        s_set_bit (self->kept, position);
        if (rank % PIECE == 0)
            self->starts [rank / PIECE] = position;
        rank++;
    }
    assert (rank == self->count);
    free (ids);
}

//  The position of the next rank; there is one.
static uint32_t
s_after (const stream_order_t *self, uint32_t position)
{
    position++;
    if (!self->kept)
        return position;
    size_t place = position / WORD_BITS;
    uint64_t word = self->kept [place] >> position % WORD_BITS << position % WORD_BITS;
    while (!word)
        word = self->kept [++place];
    return (uint32_t) (place * WORD_BITS) + (uint32_t) __builtin_ctzll (word);
}

static uint32_t
s_position (const stream_order_t *self, uint32_t rank)
{
    if (!self->kept)
        return rank;
    uint32_t position = self->starts [rank / PIECE];
    for (uint32_t step = rank % PIECE; step > 0; step--)
        position = s_after (self, position);
    return position;
}

//  ---- pieces

//  The ids of the piece that enters as the turn-th; returns how many.
static uint32_t
s_members (const stream_order_t *self, uint32_t turn, uint32_t ids [PIECE])
{
    uint32_t begin = permutation_at (&self->order, turn) * PIECE;
    uint32_t members = s_least (PIECE, self->count - begin);
    uint32_t rank = (uint32_t) (((uint64_t) self->shift + begin) % self->count);
    uint32_t position = s_position (self, rank);
    for (uint32_t member = 0; member < members; member++) {
        ids [member] = self->pack_order [position];
        if (++rank == self->count)
            rank = 0;
        if (member + 1 < members)
            position = rank == 0? s_position (self, 0): s_after (self, position);
    }
    return members;
}

static void
s_fill (stream_order_t *self)
{
    uint64_t grown = STREAM_ORDER_FIRST_ROOM + 2 * (uint64_t) self->drawn;
    uint32_t room = grown < self->pool_max? (uint32_t) grown: self->pool_max;
    while (self->entered < self->piece_count && self->pool_count + PIECE <= room)
        self->pool_count += s_members (self, self->entered++, self->pool + self->pool_count);
}

//  ---- life

//  As many as can be in the pool at once; and a whole piece may be written at its end.
static size_t
s_pool_entries (uint32_t count, uint32_t pool)
{
    return (size_t) s_least (count, pool) + PIECE;
}

stream_order_t *
stream_order_new (const uint32_t *pack_order, uint32_t samples, const roaring_bitmap_t *data, uint32_t pool,
    uint64_t seed)
{
    assert (pack_order && data);
    assert (pool >= STREAM_ORDER_POOL_MIN && pool <= STREAM_ORDER_POOL_MAX);
    assert (!roaring_bitmap_is_empty (data));
    assert (roaring_bitmap_maximum (data) < samples);
    stream_order_t *self = xalloc_jobs (calloc (1, sizeof *self));
    uint32_t count = (uint32_t) roaring_bitmap_get_cardinality (data);
    *self = (stream_order_t) {
        .magic = ORDER_MAGIC, .pack_order = pack_order, .samples = samples, .count = count,
        .piece_count = (count - 1) / PIECE + 1, .pool_max = pool, .seed = seed
    };
    self->pool = xalloc_jobs (malloc (s_pool_entries (count, pool) * sizeof *self->pool));
    if (count < samples)
        s_find_data (self, data);
    stream_order_begin (self, 0);
    return self;
}

void
stream_order_destroy (stream_order_t **self_p)
{
    stream_order_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == ORDER_MAGIC);
    free (self->kept);
    free (self->starts);
    free (self->pool);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

size_t
stream_order_bytes (uint32_t samples, uint32_t pool)
{
    return sizeof (stream_order_t) + s_pool_entries (samples, pool) * sizeof (uint32_t) + samples / 8 + 8
        + (samples / PIECE + 1) * sizeof (uint32_t);
}

//  ---- the order

void
stream_order_begin (stream_order_t *self, uint64_t epoch)
{
    assert (self->magic == ORDER_MAGIC);
    uint64_t state = random_first (random_first (random_first (self->seed) ^ epoch) ^ self->count)
        ^ self->pool_max;
    self->random = random_from_seed (state);
    self->shift = (uint32_t) random_below (&self->random, self->count);
    self->order = permutation_new (random_next (&self->random), 0, self->piece_count);
    self->entered = self->told = self->drawn = self->pool_count = 0;
}

uint32_t
stream_order_left (const stream_order_t *self)
{
    assert (self->magic == ORDER_MAGIC);
    return self->count - self->drawn;
}

uint32_t
stream_order_next (stream_order_t *self)
{
    assert (self->magic == ORDER_MAGIC);
    assert (self->drawn < self->count);
    s_fill (self);
    uint32_t place = (uint32_t) random_below (&self->random, self->pool_count);
    uint32_t id = self->pool [place];
    self->pool [place] = self->pool [--self->pool_count];
    self->drawn++;
    return id;
}

void
stream_order_rest (const stream_order_t *self, void (*visit) (void *context, uint32_t id), void *context)
{
    assert (self->magic == ORDER_MAGIC);
    stream_order_t ahead = *self;
    ahead.pool = xalloc_jobs (malloc (s_pool_entries (self->count, self->pool_max) * sizeof *ahead.pool));
    memcpy (ahead.pool, self->pool, self->pool_count * sizeof *ahead.pool);
    while (ahead.drawn < ahead.count)
        visit (context, stream_order_next (&ahead));
    free (ahead.pool);
}

bool
stream_order_entered (stream_order_t *self, stream_piece_t *piece)
{
    assert (self->magic == ORDER_MAGIC);
    if (self->told == self->entered)
        return false;
    piece->count = s_members (self, self->told++, piece->ids);
    return true;
}
