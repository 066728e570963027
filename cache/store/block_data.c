#include "block_data.h"
#include "block_cache_state.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "transfer.h"

enum {
    MAGIC = 0xb10cda7a,
    UNIT = BLOCK_DATA_UNIT_BYTES,
    CHUNK = 256,                        //  units that are looked at together: 1 MiB, and 1 KiB of checksums
    HEAD_BYTES = BLOCK_CACHE_BLOCK_BYTES,       //  before the checksums
    NEW_BYTES = 6 * BLOCK_CACHE_BLOCK_BYTES,    //  of a data set without data: folder, head, maps
    STEP_BYTES = 4 * BLOCK_CACHE_BLOCK_BYTES    //  of a chunk beside its units: two blocks of checksums, two
                                                //  of maps
};

_Static_assert ((int) UNIT == (int) BLOCK_CACHE_BLOCK_BYTES, "a unit that is missing is a hole of the file");
_Static_assert (sizeof (block_head_t) <= HEAD_BYTES, "the head fits before the checksums");

struct block_data {
    uint32_t magic;
    //  set at birth
    block_cache_t *cache;
    block_data_key_t key;
    char name [BLOCK_CACHE_NAME_BYTES];
    int lock, sums, data;
    uint64_t units;
    //  shared
    atomic_uint_fast64_t held;          //  what it takes, as last measured
    atomic_bool is_lighter;             //  units were dropped since
};

//  Some units of a range.
typedef struct {
    uint64_t first;
    size_t count;                       //  at most CHUNK
    size_t bytes;                       //  the last one may be short
    uint32_t sums [CHUNK];
} chunk_t;


//  -- the key

void
block_data_key_add (block_data_key_t *self, const char *url, const char *version, uint64_t bytes)
{
    //  What stands on the way may make a version weak: the object is the same.
    version += transfer_is_weak (version)? strlen ("W/"): 0;
    XXH128_hash_t of_url = XXH3_128bits (url, strlen (url)),
        of_version = XXH3_128bits (version, strlen (version));
    uint64_t all [] = { self->words [0], self->words [1], of_url.low64, of_url.high64, of_version.low64,
        of_version.high64, bytes };
    XXH128_hash_t hash = XXH3_128bits (all, sizeof all);
    self->words [0] = hash.low64;
    self->words [1] = hash.high64;
}


//  -- sums

//  It tells of the place too: a unit of another place is damaged.
static uint32_t
s_sum (uint64_t unit, const uint8_t *memory, size_t bytes)
{
    uint64_t hash = XXH3_64bits_withSeed (memory, bytes, unit);
    uint32_t sum = (uint32_t) (hash ^ hash >> 32);
    return sum? sum: 1;
}

static size_t
s_unit_bytes (const chunk_t *chunk, size_t index)
{
    return index + 1 < chunk->count? UNIT: chunk->bytes - index * UNIT;
}

static off_t
s_sum_offset (uint64_t unit)
{
    return (off_t) (HEAD_BYTES + unit * sizeof (uint32_t));
}

//  Through system calls, not a mapping: a mapped page that a full or failing disk cannot give kills the
//  process.
static bool
s_read_sums (const block_data_t *self, chunk_t *chunk)
{
    size_t bytes = chunk->count * sizeof (uint32_t);
    return pread (self->sums, chunk->sums, bytes, s_sum_offset (chunk->first)) == (ssize_t) bytes;
}

static int
s_write_all (int descriptor, const void *memory, size_t bytes, off_t offset)
{
    const uint8_t *next = memory;
    while (bytes > 0) {
        ssize_t written = pwrite (descriptor, next, bytes, offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0? -errno: -EIO;
        next += written;
        bytes -= (size_t) written;
        offset += written;
    }
    return 0;
}

//  Whether the unit has this checksum now.
static bool
s_has_sum (const block_data_t *self, uint64_t unit, uint32_t sum)
{
    uint32_t now;
    return pread (self->sums, &now, sizeof now, s_sum_offset (unit)) == sizeof now && now == sum;
}

//  They are not here any more.  If even that fails, their checksums still tell.
static void
s_forget (block_data_t *self, uint64_t first, uint64_t count)
{
    static const uint32_t none [CHUNK];
    for (uint64_t at = 0; at < count; at += CHUNK) {
        size_t now = count - at < CHUNK? (size_t) (count - at): CHUNK;
        int rc = s_write_all (self->sums, none, now * sizeof *none, s_sum_offset (first + at));
        if (rc)
            block_cache_failed (self->cache, rc);
    }
}

//  They take no room any more either.  Under the cache's lock: what is stored between the two would have a
//  checksum and no bytes.
static void
s_drop (block_data_t *self, uint64_t first, uint64_t count)
{
    s_forget (self, first, count);
    fallocate (self->data, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) (first * UNIT),
        (off_t) (count * UNIT));
    atomic_store (&self->is_lighter, true);
}


//  -- life

static int
s_open_file (const block_data_t *self, const char *file, int *descriptor_p)
{
    char path [BLOCK_CACHE_PATH_BYTES];
    snprintf (path, sizeof path, "%s/%s", self->name, file);
    *descriptor_p = openat (self->cache->descriptor, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *descriptor_p < 0? -errno: 0;
}

//  Files of full length from the begin on, sparse: where they are extended by and by, file systems give them
//  more room than they need.
static int
s_set_length (int descriptor, uint64_t bytes)
{
    struct stat status;
    if (fstat (descriptor, &status) != 0)
        return -errno;
    if ((uint64_t) status.st_size == bytes)
        return 0;
    return ftruncate (descriptor, (off_t) bytes) != 0? -errno: 0;
}

//  Without a head nothing says what the checksums are.  `data` without a block lost nothing.
static int
s_prepare_sums (const block_data_t *self)
{
    block_head_t head;
    int rc = 0;
    bool is_older = block_cache_is_older (self->sums);
    if (!block_cache_head_read (self->cache, self->name, self->sums, &head)) {
        rc = ftruncate (self->sums, 0) != 0? -errno: block_cache_head_write (self->sums, &head);
        if (head.stores > 0 && !is_older)
            block_cache_found_damage (self->cache);
    }
    return rc? rc: s_set_length (self->sums, HEAD_BYTES + self->units * sizeof (uint32_t));
}

//  Under the cache's lock.
static int
s_open (block_data_t *self)
{
    block_cache_t *cache = self->cache;
    struct stat status;
    bool is_new = fstatat (cache->descriptor, self->name, &status, AT_SYMLINK_NOFOLLOW) != 0;
    if (is_new && block_cache_room_make (cache, NEW_BYTES) < NEW_BYTES)
        return -ENOSPC;
    //  A kill from here on leaves a count that is too large, not one that is too small.
    int rc = is_new? block_cache_set_bytes (cache, cache->bytes + NEW_BYTES): 0;
    if (rc == 0 && is_new && mkdirat (cache->descriptor, self->name, 0700) != 0)
        rc = -errno;
    rc = rc? rc: s_open_file (self, "lock", &self->lock);
    //  No server holds it alone but under the cache's lock.
    if (rc == 0 && flock (self->lock, LOCK_SH | LOCK_NB) != 0)
        rc = -errno;
    rc = rc? rc: s_open_file (self, "sums", &self->sums);
    rc = rc? rc: s_open_file (self, "data", &self->data);
    rc = rc? rc: s_prepare_sums (self);
    rc = rc? rc: s_set_length (self->data, self->units * UNIT);
    if (rc == 0)
        futimens (self->lock, NULL);
    int counted = block_cache_room_count (cache);
    return rc? rc: counted;
}

int
block_data_open (block_data_t **self_p, block_cache_t *cache, const block_data_key_t *key, uint64_t bytes)
{
    assert (self_p); assert (cache); assert (key); assert (bytes > 0);
    *self_p = NULL;
    block_data_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    *self = (block_data_t) { .magic = MAGIC, .cache = cache, .key = *key, .lock = -1, .sums = -1, .data = -1,
        .units = (bytes + UNIT - 1) / UNIT };
    snprintf (self->name, sizeof self->name, "%016llx%016llx", (unsigned long long) key->words [1],
        (unsigned long long) key->words [0]);
    atomic_init (&self->held, 0);
    atomic_init (&self->is_lighter, false);
    int rc = block_cache_begin (cache, true);
    if (rc == 0) {
        rc = s_open (self);
        block_head_t head;
        if (rc == 0 && block_cache_head_read (cache, self->name, self->sums, &head))
            atomic_store (&self->held, head.held);
        block_cache_end (cache);
    }
    if (rc)
        block_data_close (&self);
    *self_p = self;
    return rc;
}

void
block_data_close (block_data_t **self_p)
{
    assert (self_p);
    block_data_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC);
    if (self->data >= 0)
        close (self->data);
    if (self->sums >= 0)
        close (self->sums);
    if (self->lock >= 0) {
        futimens (self->lock, NULL);
        close (self->lock);
    }
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

const block_data_key_t *
block_data_key (const block_data_t *self)
{
    assert (self && self->magic == MAGIC);
    return &self->key;
}

uint64_t
block_data_bytes (const block_data_t *self)
{
    assert (self && self->magic == MAGIC);
    return self->units * UNIT;
}


//  -- reading

static uint64_t
s_first_unit (const block_data_t *self, uint64_t offset, uint64_t bytes)
{
    assert (self && self->magic == MAGIC);
    assert (bytes > 0 && offset % UNIT == 0 && (offset + bytes + UNIT - 1) / UNIT <= self->units);
    return offset / UNIT;
}

//  The units from `at` bytes of the range on.
static chunk_t
s_chunk (uint64_t first_unit, size_t bytes, size_t at)
{
    size_t left = bytes - at, most = (size_t) CHUNK * UNIT, now = left < most? left: most;
    return (chunk_t) { .first = first_unit + at / UNIT, .count = (now + UNIT - 1) / UNIT, .bytes = now };
}

//  How many of the bytes can be read, from the first one on.
static size_t
s_pread (int descriptor, void *memory, size_t bytes, off_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t count = pread (descriptor, (uint8_t *) memory + done, bytes - done, offset + (off_t) done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        done += (size_t) count;
    }
    return done;
}

static bool
s_pread_all (int descriptor, void *memory, size_t bytes, off_t offset)
{
    return s_pread (descriptor, memory, bytes, offset) == bytes;
}

//  Whether a unit that was read under this checksum, and does not match it, is here after all.  Another
//  thread or another server may have dropped it since its checksum was read, and stored it again: then the
//  checksum is the same, and the bytes match it when they are read once more, under the lock that drops and
//  stores take.  Otherwise the unit is damaged, and is dropped.
static bool
s_read_unit_again (block_data_t *self, uint64_t unit, uint32_t sum, uint8_t *memory, size_t bytes)
{
    if (block_cache_begin (self->cache, false))
        return false;
    bool is_here = s_has_sum (self, unit, sum), is_good = is_here
        && s_pread_all (self->data, memory, bytes, (off_t) (unit * UNIT))
        && s_sum (unit, memory, bytes) == sum;
    if (is_here && !is_good) {
        s_drop (self, unit, 1);
        block_cache_found_damage (self->cache);
    }
    block_cache_end (self->cache);
    return is_good;
}

//  Reads units [from .. to) of the chunk, all of which have a checksum, into the chunk's memory; drops those
//  that are damaged, and clears their checksums in the chunk.
static void
s_read_run (block_data_t *self, chunk_t *chunk, size_t from, size_t to, uint8_t *memory)
{
    if (from == to)
        return;
    size_t begin = from * UNIT, end = (to - 1) * UNIT + s_unit_bytes (chunk, to - 1), done = begin
        + s_pread (self->data, memory + begin, end - begin, (off_t) (chunk->first * UNIT + begin));
    for (size_t index = from; index < to; index++) {
        size_t bytes = s_unit_bytes (chunk, index);
        uint64_t unit = chunk->first + index;
        uint8_t *place = memory + index * UNIT;
        bool is_good = index * UNIT + bytes <= done && s_sum (unit, place, bytes) == chunk->sums [index];
        if (!is_good && !s_read_unit_again (self, unit, chunk->sums [index], place, bytes))
            chunk->sums [index] = 0;
    }
}

//  Bytes at the beginning of the range.
static size_t
s_read_front (block_data_t *self, uint64_t first, size_t bytes, uint8_t *memory)
{
    size_t at = 0;
    while (at < bytes) {
        chunk_t chunk = s_chunk (first, bytes, at);
        size_t run = 0, good = 0;
        if (!s_read_sums (self, &chunk))
            break;
        while (run < chunk.count && chunk.sums [run])
            run++;
        s_read_run (self, &chunk, 0, run, memory + at);
        while (good < run && chunk.sums [good])
            good++;
        if (good < chunk.count)
            return at + good * UNIT;
        at += chunk.bytes;
    }
    return at;
}

//  Where the bytes at the end of the range begin, not before `least`.
static size_t
s_read_back (block_data_t *self, uint64_t first, size_t bytes, size_t least, uint8_t *memory)
{
    size_t end = bytes;
    while (end > least) {
        size_t most = (size_t) CHUNK * UNIT, units = (end - least + UNIT - 1) / UNIT,
            begin = units > CHUNK? (end + UNIT - 1) / UNIT * UNIT - most: least;
        chunk_t chunk = s_chunk (first, end, begin);
        if (!s_read_sums (self, &chunk))
            break;
        size_t run = chunk.count, good = chunk.count;
        while (run > 0 && chunk.sums [run - 1])
            run--;
        s_read_run (self, &chunk, run, chunk.count, memory + begin);
        while (good > run && chunk.sums [good - 1])
            good--;
        if (good > 0)
            return good < chunk.count? begin + good * UNIT: end;
        end = begin;
    }
    return end;
}

block_data_gap_t
block_data_read (block_data_t *self, uint64_t offset, size_t bytes, uint8_t *memory)
{
    uint64_t first = s_first_unit (self, offset, bytes);
    assert (memory);
    size_t begin = s_read_front (self, first, bytes, memory);
    //  The unit at `begin` is not here: what is read from behind ends above it.
    size_t least = begin < bytes && bytes - begin > UNIT? begin + UNIT: bytes;
    size_t end = begin < bytes? s_read_back (self, first, bytes, least, memory): bytes;
    return (block_data_gap_t) { .begin = begin, .end = end };
}

bool
block_data_lend (block_data_t *self, uint64_t offset, size_t bytes, uint8_t *memory, uint32_t *sums)
{
    uint64_t first = s_first_unit (self, offset, bytes);
    size_t count = block_data_units (bytes);
    if (!s_pread_all (self->sums, sums, count * sizeof *sums, s_sum_offset (first)))
        return false;
    for (size_t index = 0; index < count; index++)
        if (!sums [index])
            return false;
    if (!s_pread_all (self->data, memory, bytes, (off_t) (first * UNIT)))
        return false;
    //  What was dropped meanwhile would be damage for the member that gets it.  That a unit was dropped and
    //  stored again is not seen here, where no byte is checked: the member finds it, and reads it elsewhere.
    chunk_t now;
    for (size_t at = 0; at < bytes; at += now.bytes) {
        now = s_chunk (first, bytes, at);
        if (!s_read_sums (self, &now) || memcmp (now.sums, sums + at / UNIT, now.count * sizeof *sums) != 0)
            return false;
    }
    return true;
}

void
block_data_sums (uint64_t offset, size_t bytes, const uint8_t *memory, uint32_t *sums)
{
    for (size_t at = 0; at < bytes; at += UNIT)
        sums [at / UNIT] = s_sum ((offset + at) / UNIT, memory + at, bytes - at < UNIT? bytes - at: UNIT);
}

//  Unit by unit, so that the second look at each finds it in the processor's cache.
bool
block_data_copy (uint64_t offset, size_t bytes, uint8_t *memory, const uint8_t *from, const uint8_t *sums)
{
    for (size_t at = 0; at < bytes; at += UNIT) {
        size_t now = bytes - at < UNIT? bytes - at: UNIT;
        uint32_t sum;
        memcpy (&sum, sums + at / UNIT * sizeof sum, sizeof sum);
        memcpy (memory + at, from + at, now);
        if (s_sum ((offset + at) / UNIT, memory + at, now) != sum)
            return false;
    }
    return true;
}

bool
block_data_has (const block_data_t *self, uint64_t offset, uint64_t bytes)
{
    uint64_t first = s_first_unit (self, offset, bytes), count = (bytes + UNIT - 1) / UNIT;
    for (uint64_t at = 0; at < count; at += CHUNK) {
        chunk_t chunk = { .first = first + at, .count = count - at < CHUNK? (size_t) (count - at): CHUNK };
        if (!s_read_sums (self, &chunk))
            return false;
        for (size_t index = 0; index < chunk.count; index++)
            if (!chunk.sums [index])
                return false;
    }
    return true;
}

bool
block_data_has_some (const block_data_t *self, uint64_t offset, uint64_t bytes)
{
    uint64_t first = s_first_unit (self, offset, bytes), count = (bytes + UNIT - 1) / UNIT;
    for (uint64_t at = 0; at < count; at += CHUNK) {
        chunk_t chunk = { .first = first + at, .count = count - at < CHUNK? (size_t) (count - at): CHUNK };
        bool is_read = s_read_sums (self, &chunk);
        for (size_t index = 0; is_read && index < chunk.count; index++)
            if (chunk.sums [index])
                return true;
    }
    return false;
}

void
block_data_drop (block_data_t *self, uint64_t offset, size_t bytes)
{
    uint64_t first = s_first_unit (self, offset, bytes), count = (bytes + UNIT - 1) / UNIT;
    if (block_cache_begin (self->cache, false)) {
        s_forget (self, first, count);
        return;
    }
    s_drop (self, first, count);
    block_cache_end (self->cache);
}

bool
block_data_is_full (const block_data_t *self)
{
    assert (self && self->magic == MAGIC);
    return atomic_load (&self->cache->is_full) || atomic_load (&self->cache->failure);
}

uint64_t
block_data_held_bytes (const block_data_t *self)
{
    assert (self && self->magic == MAGIC);
    return atomic_load (&self->held);
}


//  -- writing; under the cache's lock

//  The data set takes so much now.  Whatever a kill interrupts, usage is never too small.
static int
s_settle (block_data_t *self, block_head_t *head, uint64_t held)
{
    block_cache_t *cache = self->cache;
    uint64_t bytes = cache->bytes > head->held? cache->bytes - head->held + held: held;
    bool grows = held > head->held;
    head->held = held;
    int rc = grows? block_cache_set_bytes (cache, bytes): 0;
    rc = rc? rc: block_cache_head_write (self->sums, head);
    rc = rc || grows? rc: block_cache_set_bytes (cache, bytes);
    atomic_store (&self->held, held);
    return rc;
}

static int
s_measure (block_data_t *self, block_head_t *head)
{
    return s_settle (self, head, block_cache_room_taken (self->cache, self->name, head->stores));
}

//  The first units of the chunk that are not here, at most so many: first the bytes, then the checksums.
static int
s_write_units (const block_data_t *self, const chunk_t *chunk, const uint8_t *memory, size_t most)
{
    int rc = 0;
    for (size_t from = 0, to; rc == 0 && from < chunk->count && most > 0; from = to) {
        to = from + 1;
        if (chunk->sums [from])
            continue;
        while (to < chunk->count && !chunk->sums [to] && to - from < most)
            to++;
        uint32_t sums [CHUNK];
        for (size_t index = from; index < to; index++)
            sums [index - from] = s_sum (chunk->first + index, memory + index * UNIT,
                s_unit_bytes (chunk, index));
        size_t bytes = (to - from - 1) * UNIT + s_unit_bytes (chunk, to - 1);
        rc = s_write_all (self->data, memory + from * UNIT, bytes, (off_t) ((chunk->first + from) * UNIT));
        rc = rc? rc: s_write_all (self->sums, sums, (to - from) * sizeof *sums,
            s_sum_offset (chunk->first + from));
        most -= to - from;
    }
    return rc;
}

//  0: go on; 1: the cache is full; or -errno.
static int
s_store_chunk (block_data_t *self, block_head_t *head, chunk_t *chunk, const uint8_t *memory)
{
    if (!s_read_sums (self, chunk))
        return -EIO;
    size_t missing = 0;
    for (size_t index = 0; index < chunk->count; index++)
        missing += !chunk->sums [index];
    if (missing == 0)
        return 0;
    uint64_t wanted = missing * UNIT + STEP_BYTES, room = block_cache_room_make (self->cache, wanted);
    atomic_store (&self->cache->is_full, room < wanted);
    if (room < STEP_BYTES + UNIT)
        return 1;
    size_t most = room < wanted? (size_t) ((room - STEP_BYTES) / UNIT): missing;
    int rc = s_settle (self, head, head->held + most * UNIT + STEP_BYTES);
    rc = rc? rc: s_write_units (self, chunk, memory, most);
    head->stores++;
    int measured = s_measure (self, head);
    rc = rc? rc: measured;
    return rc? rc: most < missing;
}

//  The count has what the damaged head said: it is counted again, with what the new head says.
static int
s_mend_head (block_data_t *self, block_head_t *head)
{
    block_cache_found_damage (self->cache);
    int rc = block_cache_head_write (self->sums, head);
    rc = rc? rc: block_cache_room_count (self->cache);
    return rc || block_cache_head_read (self->cache, self->name, self->sums, head)? rc: -EIO;
}

static int
s_store (block_data_t *self, uint64_t first, size_t bytes, const uint8_t *memory)
{
    block_head_t head;
    bool is_good = block_cache_head_read (self->cache, self->name, self->sums, &head);
    int rc = is_good? 0: s_mend_head (self, &head);
    if (rc == 0 && atomic_exchange (&self->is_lighter, false))
        rc = s_measure (self, &head);
    for (size_t at = 0; rc == 0 && at < bytes;) {
        chunk_t chunk = s_chunk (first, bytes, at);
        rc = s_store_chunk (self, &head, &chunk, memory + at);
        at += chunk.bytes;
    }
    return rc;
}

void
block_data_store (block_data_t *self, uint64_t offset, size_t bytes, const uint8_t *memory, bool is_afresh)
{
    uint64_t first = s_first_unit (self, offset, bytes);
    assert (memory);
    if (is_afresh)
        block_data_drop (self, offset, bytes);
    block_cache_t *cache = self->cache;
    if (atomic_load (&cache->failure))
        return;
    int rc = block_cache_begin (cache, false);
    if (rc == 0) {
        rc = s_store (self, first, bytes, memory);
        block_cache_end (cache);
    }
    if (rc < 0 && rc != -EAGAIN)        //  another process has the lock for long: not kept this time
        block_cache_failed (cache, rc);
}
