//  The raw pool's policy `redox`: file redirection as published (Redox, sections 3.2 to 3.4).
//
//  The positions are cut into C chunks of K samples; chunk c belongs to virtual chunk c * M / C.  A virtual
//  chunk has K slots, one for each offset; a slot holds one sample of that offset, of any of its chunks.  A
//  draw of a sample gets the sample in its slot.  If the slot is empty, redox first loads a chunk: of those
//  with an unconsumed sample at this offset, the one that fills the most empty slots with unconsumed samples,
//  ties at random.  The drawn sample leaves its slot and is consumed for the epoch.
//
//      virtual chunk 0:  slot 0   slot 1   ..   slot K-1
//                        c0 c2    c1       ..   -            each slot names the chunk of its sample
//
//  A chunk that lacks samples (the pack's last one, or one with dropped samples) shares no slots: a draw of
//  one of its samples gets that sample.  In slots, such a chunk would fill fewer of them and get fewer draws,
//  so its samples would come late in every epoch: 1,000 samples in chunks of 64 had a mean place of .68 for
//  the last chunk's 40, of .88 for 5 of 6,405 (.5 is a shuffle).  Counting the missing samples as wanted is
//  not enough: .52 and .60, and .66 for 5 of 965.
//
//  A sample is consumed when no job needs it in its present epoch.  So one job gets the published protocol,
//  and with several a sample that one job has drawn may be loaded for another.  If the drawing job may not
//  have its slot's sample, that draw reads by itself.  A next epoch's needs do not count: a lone job's slots
//  are empty at the end of an epoch.
//
//  The bits of consumed samples are a word for each chunk.  Draws update them; after needs_grew or a sweep
//  they are computed again at their first use.  So an epoch's begin costs nothing, and an epoch one look-up
//  for each sample.
//
//  Room: a slot is filled while one more of the largest samples fits below the limit.  M is given, or chosen
//  so that all slots fit below the limit almost surely (raw_pool_capacity): then sizes do not affect draws.
//
//  Owner: the broker's thread.

#include "raw_policy.h"
#include <assert.h>
#include <stdlib.h>
#include "xalloc.h"

typedef struct {
    raw_pool_t *pool;
    //  set at birth
    uint32_t samples;
    uint32_t chunk;                     //  K
    uint32_t chunks;                    //  C
    //  owner only
    uint32_t virtual_chunks;            //  M <= C
    uint64_t *wanted;                   //  by chunk: bit o: the sample at offset o is not consumed; as of
                                        //  stamps
    uint32_t *stamps;                   //  by chunk: the age at which wanted was asked for; 0: never
    uint32_t age;
    bool *lacks;                        //  by chunk: samples; so it shares no slots
    uint64_t *filled;                   //  by virtual chunk: bit o: slot o holds a sample ..
    uint32_t *slots;                    //  .. of this chunk, at v * K + o
    raw_read_t load;                    //  not yet returned by raw_pool_next; count 0: none
} redox_t;

static void *
s_array (size_t count, size_t size)
{
    return xalloc_memory (calloc (count, size));
}

//  As many virtual chunks as fit below the limit.
static uint32_t
s_fitting (const raw_pool_t *pool, uint32_t chunks)
{
    size_t limit_bytes = pool->figures.limit_bytes;
    if (pool->all_bytes <= limit_bytes)
        return chunks;
    size_t spare = limit_bytes > pool->sample_bytes_max? limit_bytes - pool->sample_bytes_max: 0;
    uint64_t count = raw_pool_capacity (pool, spare) / pool->options.chunk;
    return count < 1? 1: count > chunks? chunks: (uint32_t) count;
}

//  Empties all slots.
static void
s_set_slots (redox_t *self, uint32_t virtual_chunks)
{
    assert (virtual_chunks >= 1 && virtual_chunks <= self->chunks);
    free (self->filled);
    free (self->slots);
    self->virtual_chunks = self->pool->figures.virtual_chunks = virtual_chunks;
    self->filled = s_array (virtual_chunks, sizeof *self->filled);
    self->slots = s_array ((size_t) virtual_chunks * self->chunk, sizeof *self->slots);
}

static void *
s_make (raw_pool_t *pool)
{
    const raw_pool_options_t *options = &pool->options;
    assert (options->chunk >= 1 && options->chunk <= RAW_PIECE_MAX);
    for (size_t index = 0; index < options->break_count; index++)
        assert (options->breaks [index] % options->chunk == 0);
    redox_t *self = s_array (1, sizeof *self);
    self->pool = pool;
    self->samples = options->samples;
    self->chunk = options->chunk;
    self->chunks = (options->samples - 1) / options->chunk + 1;
    s_set_slots (self, options->virtual_chunks? options->virtual_chunks: s_fitting (pool, self->chunks));
    self->wanted = s_array (self->chunks, sizeof *self->wanted);
    self->stamps = s_array (self->chunks, sizeof *self->stamps);
    self->age = 1;
    self->lacks = s_array (self->chunks, sizeof *self->lacks);
    self->lacks [self->chunks - 1] = options->samples % options->chunk != 0;
    pool->figures.piece = self->chunk;
    return self;
}

static size_t
s_bytes (uint32_t samples, uint32_t chunk)
{
    const redox_t *self = NULL;
    size_t chunks = samples / chunk + 1,
        of_each = sizeof *self->wanted + sizeof *self->stamps + sizeof *self->lacks + sizeof *self->filled;
    return sizeof *self + chunks * (of_each + chunk * sizeof *self->slots);
}

static void
s_destroy (void *policy)
{
    redox_t *self = policy;
    free (self->wanted);
    free (self->stamps);
    free (self->lacks);
    free (self->filled);
    free (self->slots);
    free (self);
}

//  ---- where things are

static uint32_t
s_virtual_chunk (const redox_t *self, uint32_t chunk)
{
    return (uint32_t) ((uint64_t) chunk * self->virtual_chunks / self->chunks);
}

//  The first chunk of a virtual chunk; that of virtual_chunks is chunks.
static uint32_t
s_first_chunk (const redox_t *self, uint32_t virtual_chunk)
{
    return (uint32_t) (((uint64_t) virtual_chunk * self->chunks + self->virtual_chunks
        - 1) / self->virtual_chunks);
}

static uint32_t
s_id (const redox_t *self, uint32_t chunk, uint32_t offset)
{
    return self->pool->options.order [chunk * self->chunk + offset];
}

static uint32_t
s_chunk_samples (const redox_t *self, uint32_t chunk)
{
    uint32_t left = self->samples - chunk * self->chunk;
    return left < self->chunk? left: self->chunk;
}

//  Whether the chunk's samples lie in slots.  A chunk that lacks samples does no harm if it is the only one
//  of its virtual chunk.
static bool
s_has_slots (const redox_t *self, uint32_t chunk)
{
    if (!self->lacks [chunk])
        return true;
    uint32_t virtual_chunk = s_virtual_chunk (self, chunk);
    return s_first_chunk (self, virtual_chunk + 1) - s_first_chunk (self, virtual_chunk) == 1;
}

static uint32_t *
s_slot (const redox_t *self, uint32_t virtual_chunk, uint32_t offset)
{
    return &self->slots [(size_t) virtual_chunk * self->chunk + offset];
}

//  ---- what is consumed

static bool
s_wants (void *policy, uint32_t id)
{
    const redox_t *self = policy;
    return raw_pool_need (self->pool, RAW_ANY_JOB, id) & RAW_NEEDED;
}

//  Samples of the chunk that are not consumed.
static uint64_t
s_wanted (redox_t *self, uint32_t chunk)
{
    if (self->stamps [chunk] == self->age)
        return self->wanted [chunk];
    uint64_t wanted = 0;
    uint32_t count = s_chunk_samples (self, chunk);
    for (uint32_t offset = 0; offset < count; offset++)
        if (s_wants (self, s_id (self, chunk, offset)))
            wanted |= UINT64_C (1) << offset;
    self->stamps [chunk] = self->age;
    return self->wanted [chunk] = wanted;
}

static void
s_needs_changed (void *policy)
{
    redox_t *self = policy;
    self->age++;
    assert (self->age);
}

static void
s_was_drawn (void *policy, uint32_t id)
{
    redox_t *self = policy;
    uint32_t position = self->pool->positions [id], chunk = position / self->chunk;
    if (!s_wants (self, id))
        self->wanted [chunk] &= ~(UINT64_C (1) << position % self->chunk);
}

//  ---- loading

static bool
s_next (void *policy, raw_read_t *read)
{
    redox_t *self = policy;
    if (self->load.count == 0)
        return false;
    *read = self->load;
    self->load.count = 0;
    return true;
}

static bool
s_has_room (const redox_t *self)
{
    const raw_pool_t *pool = self->pool;
    return pool->sample_bytes_max <= pool->figures.limit_bytes - pool->figures.resident_bytes;
}

//  The lowest bit above the place, or the lowest.
static uint32_t
s_bit_after (uint64_t bits, uint32_t place)
{
    uint64_t above = bits & ~((UINT64_C (2) << place) - 1);
    return (uint32_t) __builtin_ctzll (above? above: bits);
}

//  Every unconsumed sample of the chunk goes to its slot, if that is empty.  In case there is no room for
//  all, it begins with the sample at `first` and goes around from there: so no offset is favoured.
static void
s_load (redox_t *self, uint32_t virtual_chunk, uint32_t chunk, uint32_t first)
{
    uint64_t fills = s_wanted (self, chunk) & ~self->filled [virtual_chunk], keep = 0;
    uint32_t offset = first;
    while (fills && s_has_room (self)) {
        *s_slot (self, virtual_chunk, offset) = chunk;
        self->filled [virtual_chunk] |= UINT64_C (1) << offset;
        raw_pool_enter (self->pool, s_id (self, chunk, offset));
        keep |= UINT64_C (1) << offset;
        fills &= ~(UINT64_C (1) << offset);
        offset = fills? s_bit_after (fills, offset): 0;
    }
    assert (self->load.count == 0);     //  raw_pool_next follows each draw
    self->load = (raw_read_t) { .first = chunk * self->chunk, .count = s_chunk_samples (self, chunk),
        .keep = keep };
}

//  The chunk that fills the most slots, among those with an unconsumed and accepted sample at the offset;
//  chunks: none.
static uint32_t
s_choose (redox_t *self, uint32_t virtual_chunk, uint32_t offset,
    bool (*accepts) (void *context, uint32_t id), void *context)
{
    uint32_t end = s_first_chunk (self, virtual_chunk + 1), best = self->chunks;
    uint64_t empty = ~self->filled [virtual_chunk], ties = 0;
    int best_score = -1;
    for (uint32_t chunk = s_first_chunk (self, virtual_chunk); chunk < end; chunk++) {
        if (!s_has_slots (self, chunk))
            continue;
        uint64_t wanted = s_wanted (self, chunk);
        int score = __builtin_popcountll (wanted & empty);
        if (!(wanted >> offset & 1) || score < best_score
            || !accepts (context, s_id (self, chunk, offset)))
            continue;
        //  A better chunk is taken without a random number, so the random numbers are those of the published
        //  protocol.
        if (score > best_score)
            ties = 1;
        else if (raw_pool_random (self->pool, ++ties) != 0)
            continue;
        best = chunk;
        best_score = score;
    }
    return best;
}

static uint32_t
s_redirect (void *policy, uint32_t id, bool (*accepts) (void *context, uint32_t id), void *context)
{
    redox_t *self = policy;
    uint32_t position = self->pool->positions [id], offset = position % self->chunk;
    uint32_t virtual_chunk = s_virtual_chunk (self, position / self->chunk);
    if (!s_has_slots (self, position / self->chunk))
        return id;
    if (!(self->filled [virtual_chunk] >> offset & 1)) {
        uint32_t chunk = s_choose (self, virtual_chunk, offset, accepts, context);
        if (chunk == self->chunks || !s_has_room (self))
            return id;
        s_load (self, virtual_chunk, chunk, offset);
    }
    uint32_t found = s_id (self, *s_slot (self, virtual_chunk, offset), offset);
    return accepts (context, found)? found: id;
}

static void
s_has_left (void *policy, uint32_t id)
{
    redox_t *self = policy;
    uint32_t position = self->pool->positions [id], chunk = position / self->chunk;
    uint32_t virtual_chunk = s_virtual_chunk (self, chunk), offset = position % self->chunk;
    assert (*s_slot (self, virtual_chunk, offset) == chunk);
    self->filled [virtual_chunk] &= ~(UINT64_C (1) << offset);
}

//  The chunk's samples in slots would come later than others from now on, because the chunk gets fewer draws.
static void
s_dropped (void *policy, uint32_t id)
{
    redox_t *self = policy;
    uint32_t chunk = self->pool->positions [id] / self->chunk, count = s_chunk_samples (self, chunk);
    assert (self->load.count == 0);
    self->lacks [chunk] = true;
    for (uint32_t offset = 0; offset < count && !s_has_slots (self, chunk); offset++)
        if (raw_pool_is_resident (self->pool, s_id (self, chunk, offset)))
            raw_pool_discard (self->pool, s_id (self, chunk, offset));
}

//  Ignores small changes: all residents would be read again.
static void
s_limit_changed (void *policy)
{
    redox_t *self = policy;
    raw_pool_t *pool = self->pool;
    uint32_t fitting = s_fitting (pool, self->chunks), now = self->virtual_chunks;
    bool has_changed = fitting < now || fitting / 2 >= now || (fitting == self->chunks && now < fitting);
    if (pool->options.virtual_chunks || !has_changed)
        return;
    assert (self->load.count == 0);
    while (pool->figures.resident > 0)
        raw_pool_discard (pool, pool->residents [pool->figures.resident - 1]);
    s_set_slots (self, fitting);
}

//  W3.
static void
s_check (const void *policy)
{
    const redox_t *self = policy;
    uint64_t resident = 0;
    for (uint32_t virtual_chunk = 0; virtual_chunk < self->virtual_chunks; virtual_chunk++)
        for (uint32_t offset = 0; offset < self->chunk; offset++) {
            if (!(self->filled [virtual_chunk] >> offset & 1))
                continue;
            uint32_t chunk = *s_slot (self, virtual_chunk, offset);
            assert (chunk >= s_first_chunk (self, virtual_chunk)
                && chunk < s_first_chunk (self, virtual_chunk + 1));
            assert (offset < s_chunk_samples (self, chunk));
            assert (s_has_slots (self, chunk));
            assert (raw_pool_is_resident (self->pool, s_id (self, chunk, offset)));
            resident++;
        }
    assert (resident == self->pool->figures.resident);
}

const raw_policy_ops_t raw_redox_ops = {
    .make = s_make,
    .destroy = s_destroy,
    .bytes = s_bytes,
    .redirect = s_redirect,
    .next = s_next,
    .was_drawn = s_was_drawn,
    .has_left = s_has_left,
    .dropped = s_dropped,
    .limit_changed = s_limit_changed,
    .wants = s_wants,
    .needs_grew = s_needs_changed,
    .needs_shrank = s_needs_changed,
    .check = s_check,
};
