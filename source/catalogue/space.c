#include "space.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include "block_data.h"

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES,
    SUMS = 1 << 16,                     //  units that are looked at together; more for a larger file
    MISSING_PARTS = 16                  //  so much of the samples may be missing: one in 16
};

struct space {
    const catalogue_t *catalogue;
    block_data_t *blocks;
    uint32_t *order;
    atomic_uint_fast64_t *digests;      //  by id; 0: it is not here
    atomic_uint_least32_t missing;
    uint64_t unit_bytes;
};


//  -- digests

static uint64_t
s_digest_add (uint64_t digest, uint32_t sum)
{
    digest = (digest ^ sum) * UINT64_C (0x9e3779b97f4a7c15);
    return digest ^ digest >> 29;
}

//  Of the sums of so many units; 0: one is not here.
static uint64_t
s_digest (const uint32_t *sums, uint64_t count)
{
    uint64_t digest = 1;
    for (uint64_t unit = 0; unit < count; unit++) {
        if (!sums [unit])
            return 0;
        digest = s_digest_add (digest, sums [unit]);
    }
    return digest? digest: 1;
}

static uint64_t
s_units (const space_t *self, uint32_t id)
{
    return block_data_units (catalogue_file_bytes (self->catalogue, id, 0));
}

static uint64_t
s_digest_of (const space_t *self, uint32_t id, const uint8_t *bytes)
{
    const catalogue_t *catalogue = self->catalogue;
    uint64_t owner = catalogue_owner (catalogue, id, 0), place = catalogue_place (catalogue, id, 0),
        size = catalogue_file_bytes (catalogue, id, 0), digest = 1;
    for (uint64_t at = 0; at < size; at += UNIT)
        digest = s_digest_add (digest, block_data_sum ((place + at) / UNIT, owner, bytes + at,
            size - at < UNIT? (size_t) (size - at): UNIT));
    return digest? digest: 1;
}

static void
s_set (space_t *self, uint32_t id, uint64_t digest)
{
    uint64_t before = atomic_exchange (&self->digests [id], digest);
    if (!digest != !before)
        atomic_fetch_add (&self->missing, digest? UINT32_MAX: 1);
}

bool
space_check (const space_t *self, uint32_t id, const uint8_t *bytes)
{
    return s_digest_of (self, id, bytes) == atomic_load (&self->digests [id]);
}

//  The samples at positions first .. first + count - 1; sums has room for all their units and what lies
//  between.  False: not now.
static bool
s_look (space_t *self, uint32_t first, uint32_t count, uint32_t *sums)
{
    space_range_t range = space_piece (self, first, count);
    if (range.bytes > 0 && !block_data_find_sums (self->blocks, range.offset, range.bytes, sums))
        return false;
    for (uint32_t position = first; position < first + count; position++) {
        uint32_t id = self->order [position];
        uint64_t at = (catalogue_place (self->catalogue, id, 0) - range.offset) / UNIT;
        s_set (self, id, s_digest (sums + at, s_units (self, id)));
    }
    return true;
}

void
space_note (space_t *self, uint32_t id, const uint8_t *bytes)
{
    s_set (self, id, bytes? s_digest_of (self, id, bytes): 0);
}


//  -- life

//  Of how many units at most the sums are looked at together.
static uint64_t
s_most (const space_t *self)
{
    uint64_t most = SUMS;
    for (uint32_t id = 0; id < catalogue_samples (self->catalogue); id++) {
        uint64_t units = s_units (self, id);
        most = units > most? units: most;
    }
    return most;
}

static int
s_look_at_all (space_t *self, progress_t *progress)
{
    uint32_t samples = catalogue_samples (self->catalogue), count;
    uint64_t most = s_most (self);
    uint32_t *sums = malloc (most * sizeof *sums);
    int rc = sums? 0: -ENOMEM;
    progress_step (progress, &(progress_step_t) { .what = "looking for what is kept", .unit = "files",
        .total = samples }, 0);
    atomic_store (&self->missing, samples);
    for (uint32_t first = 0; rc == 0 && first < samples; first += count) {
        for (count = 1; first + count < samples; count++)
            if (block_data_units (space_piece (self, first, count + 1).bytes) > most)
                break;
        rc = s_look (self, first, count, sums)? 0: -EAGAIN;
        uint32_t found = samples - space_missing (self), absent = first + count - found;
        rc = rc == 0 && absent > samples / MISSING_PARTS? -ENODATA: rc;
        progress_tell (progress, first + count, 0);
    }
    free (sums);
    return rc;
}

//  By their places.  An empty file stands at the place of the next one.
static int
s_compare (const void *left, const void *right, void *argument)
{
    const catalogue_t *catalogue = ((const space_t *) argument)->catalogue;
    uint32_t a = *(const uint32_t *) left, b = *(const uint32_t *) right;
    uint64_t first = catalogue_place (catalogue, a, 0), second = catalogue_place (catalogue, b, 0);
    if (first == second) {
        first = catalogue_file_bytes (catalogue, a, 0);
        second = catalogue_file_bytes (catalogue, b, 0);
    }
    return first != second? first < second? -1: 1: a < b? -1: a > b;
}

//  Whether all files have places, and none is beyond the bound of what is read.
static bool
s_is_placed (const space_t *self)
{
    bool is_placed = true;
    for (uint32_t id = 0; id < catalogue_samples (self->catalogue); id++)
        is_placed = is_placed && catalogue_place (self->catalogue, id, 0) != CATALOGUE_NO_PLACE
            && catalogue_file_bytes (self->catalogue, id, 0) <= CATALOGUE_SAMPLE_BYTES_MAX;
    return is_placed;
}

static int
s_sort (space_t *self)
{
    uint32_t samples = catalogue_samples (self->catalogue);
    self->order = malloc ((samples + (size_t) 1) * sizeof *self->order);
    self->digests = calloc (samples + (size_t) 1, sizeof *self->digests);
    if (!self->order || !self->digests)
        return -ENOMEM;
    for (uint32_t id = 0; id < samples; id++) {
        self->order [id] = id;
        self->unit_bytes += s_units (self, id) * UNIT;
    }
    qsort_r (self->order, samples, sizeof *self->order, s_compare, self);
    return 0;
}

//  Readers open it too.
static int
s_try_to_open (const space_t *self)
{
    char path [PATH_MAX];
    int fd = space_path (self, path, sizeof path) < sizeof path? open (path, O_RDONLY | O_CLOEXEC): -1;
    if (fd < 0)
        return -ENOTSUP;
    close (fd);
    return 0;
}

static int
s_open (space_t *self, progress_t *progress)
{
    int rc = s_sort (self);
    if (rc == 0 && block_data_is_aside (self->blocks))
        rc = -EAGAIN;
    rc = rc? rc: s_look_at_all (self, progress);
    return rc? rc: s_try_to_open (self);
}

int
space_new (space_t **self_p, const catalogue_t *catalogue, progress_t *progress)
{
    int rc;
    *self_p = NULL;
    block_data_t *blocks = catalogue_fields (catalogue) == 1 && !catalogue_pack (catalogue)
        && !catalogue_store (catalogue, 0)? catalogue_blocks (catalogue, 0, &rc): NULL;
    if (!blocks)
        return -ENOTSUP;
    space_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->catalogue = catalogue;
    self->blocks = blocks;
    rc = s_is_placed (self)? s_open (self, progress): -ENOTSUP;
    progress_clear (progress);
    *self_p = self;
    if (rc)
        space_destroy (self_p);
    return rc;
}

void
space_destroy (space_t **self_p)
{
    space_t *self = *self_p;
    if (!self)
        return;
    free (self->order);
    free (self->digests);
    free (self);
    *self_p = NULL;
}


//  -- answers

const uint32_t *
space_order (const space_t *self)
{
    return self->order;
}

size_t
space_path (const space_t *self, char *path, size_t size)
{
    return block_data_path (self->blocks, path, size);
}

uint64_t
space_bytes (const space_t *self)
{
    return block_data_bytes (self->blocks);
}

uint64_t
space_unit_bytes (const space_t *self)
{
    return self->unit_bytes;
}

space_range_t
space_sample (const space_t *self, uint32_t id)
{
    return (space_range_t) { .offset = catalogue_place (self->catalogue, id, 0),
        .bytes = (size_t) catalogue_file_bytes (self->catalogue, id, 0) };
}

space_range_t
space_piece (const space_t *self, uint32_t first, uint32_t count)
{
    assert (count > 0 && first + count <= catalogue_samples (self->catalogue));
    space_range_t begin = space_sample (self, self->order [first]),
        end = space_sample (self, self->order [first + count - 1]);
    return (space_range_t) { .offset = begin.offset, .bytes = end.offset + end.bytes - begin.offset };
}

bool
space_has (const space_t *self, uint32_t id)
{
    return atomic_load (&self->digests [id]) != 0;
}

uint32_t
space_missing (const space_t *self)
{
    return atomic_load (&self->missing);
}
