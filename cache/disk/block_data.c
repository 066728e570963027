#include "block_data.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>
#include "clock.h"
#include "file.h"
#include "transfers.h"

enum {
    MAGIC = 0xb10cda7a,
    UNIT = BLOCK_DATA_UNIT_BYTES,
    CHUNK = BLOCK_CACHE_UNITS_MAX,      //  units that are looked at together: 1 MiB, and 1 KiB of checksums
    HEAD_BYTES = BLOCK_CACHE_BLOCK_BYTES,       //  before the checksums
    OPEN_AGAIN_MS = 10000,              //  after a failure that may pass
    NEW_BYTES = 6 * BLOCK_CACHE_BLOCK_BYTES,    //  of a data set without data: folder, head, maps
    STEP_BYTES = 4 * BLOCK_CACHE_BLOCK_BYTES    //  of a chunk beside its units: two blocks of checksums, two
                                                //  of maps
};

_Static_assert ((int) UNIT == (int) BLOCK_CACHE_BLOCK_BYTES, "a unit that is missing is a hole of the file");
_Static_assert (sizeof (block_cache_head_t) <= HEAD_BYTES, "the head fits before the checksums");

struct block_data {
    uint32_t magic;
    //  set at birth
    block_cache_t *cache;
    block_data_key_t key;
    char name [BLOCK_CACHE_NAME_BYTES];
    uint64_t units;
    //  set before is_open, under the cache's lock
    int lock, sums, data;
    atomic_int opened;                  //  -errno: it cannot be opened, or not before `again_ms`
    atomic_int_fast64_t again_ms;
    //  shared
    atomic_bool is_open;
    block_cache_closed_t closed;
    atomic_uint_fast64_t held;          //  what it takes, as last measured
    atomic_bool is_lighter;             //  units were dropped since
};


//  -- the key

void
block_data_key_add (block_data_key_t *self, const char *url, const char *version, uint64_t bytes)
{
    //  What stands on the way may make a version weak: the object is the same.
    version += transfers_version_is_weak (version)? strlen ("W/"): 0;
    XXH128_hash_t of_url = XXH3_128bits (url, strlen (url)),
        of_version = XXH3_128bits (version, strlen (version));
    uint64_t all [] = { self->words [0], self->words [1], of_url.low64, of_url.high64, of_version.low64,
        of_version.high64, bytes };
    XXH128_hash_t hash = XXH3_128bits (all, sizeof all);
    self->words [0] = hash.low64;
    self->words [1] = hash.high64;
}


//  -- sums

//  It tells of the place and of the owner too: a unit of another one is damaged.
static uint32_t
s_sum (uint64_t unit, uint64_t owner, const uint8_t *memory, size_t bytes)
{
    uint64_t hash = XXH3_64bits_withSeed (memory, bytes, unit ^ owner);
    uint32_t sum = (uint32_t) (hash ^ hash >> 32);
    return sum? sum: 1;
}

static size_t
s_unit_bytes (const block_cache_request_t *request, size_t index)
{
    return index + 1 < request->count? UNIT: request->bytes - index * UNIT;
}

//  Whether all of it lies in the page cache: the disk is not asked, and may hang.
static bool
s_read_from_memory (int descriptor, void *memory, size_t bytes, off_t offset)
{
    struct iovec part = { memory, bytes };
    return preadv2 (descriptor, &part, 1, offset, RWF_NOWAIT) == (ssize_t) bytes;
}

uint32_t
block_data_sum (uint64_t unit, uint64_t owner, const uint8_t *memory, size_t bytes)
{
    return s_sum (unit, owner, memory, bytes);
}

static uint64_t
s_sum_offset (uint64_t unit)
{
    return HEAD_BYTES + unit * sizeof (uint32_t);
}

//  Whether all of it can be read.  Through system calls, not a mapping: a mapped page that a full or failing
//  disk cannot give kills the process.
static bool
s_read_sums (const block_data_t *self, block_cache_request_t *request)
{
    size_t bytes = request->count * sizeof (uint32_t);
    uint64_t offset = s_sum_offset (request->first);
    return file_read_at (self->sums, request->sums, bytes, offset) == bytes;
}

static bool
s_read_sums_from_memory (const block_data_t *self, block_cache_request_t *request)
{
    return atomic_load (&self->is_open)
        && s_read_from_memory (self->sums, request->sums, request->count * sizeof (uint32_t),
            (off_t) s_sum_offset (request->first));
}

//  They are not here any more.  If even that fails, their checksums still tell.
static void
s_forget (block_data_t *self, uint64_t first, uint64_t count)
{
    static const uint32_t none [CHUNK];
    for (uint64_t at = 0; at < count; at += CHUNK) {
        size_t now = count - at < CHUNK? (size_t) (count - at): CHUNK;
        int rc = file_write_at (self->sums, none, now * sizeof *none, s_sum_offset (first + at));
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
    int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (block_cache_is_guest (self->cache)? 0: O_CREAT);
    //  Of bytes in the page cache a disk that hangs would be told that they were read.  For the owner alone.
    *descriptor_p = openat (block_cache_descriptor (self->cache), path, flags | O_NOATIME, 0600);
    if (*descriptor_p < 0 && errno == EPERM)
        *descriptor_p = openat (block_cache_descriptor (self->cache), path, flags, 0600);
    return *descriptor_p < 0? -errno: 0;
}

//  Files of full length from the begin on, sparse: where they are extended by and by, file systems give them
//  more room than they need.  Never shorter than another server, which knows of more, has made them.
static int
s_set_length (int descriptor, uint64_t bytes)
{
    struct stat status;
    if (fstat (descriptor, &status) != 0)
        return -errno;
    if ((uint64_t) status.st_size >= bytes)
        return 0;
    return ftruncate (descriptor, (off_t) bytes) != 0? -errno: 0;
}

//  Without a head nothing says what the checksums are.  `data` without a block lost nothing.
static int
s_prepare_sums (const block_data_t *self)
{
    block_cache_head_t head;
    int rc = 0;
    bool is_older = block_cache_is_older (self->sums);
    if (block_cache_is_newer (self->sums))
        return -ENOTSUP;
    if (!block_cache_head_read (self->cache, self->name, self->sums, &head)) {
        rc = ftruncate (self->sums, 0) != 0? -errno: block_cache_head_write (self->sums, &head);
        if (head.stores > 0 && !is_older)
            block_cache_found_damage (self->cache);
    }
    return rc? rc: s_set_length (self->sums, HEAD_BYTES + self->units * sizeof (uint32_t));
}

//  Under the cache's lock, as the next one.
static int
s_open_as_guest (block_data_t *self)
{
    block_cache_head_t head;
    int rc = s_open_file (self, "lock", &self->lock);
    if (rc == 0 && flock (self->lock, LOCK_SH | LOCK_NB) != 0)
        rc = -errno;
    rc = rc? rc: s_open_file (self, "sums", &self->sums);
    rc = rc? rc: s_open_file (self, "data", &self->data);
    if (rc == 0 && !block_cache_head_read (self->cache, self->name, self->sums, &head))
        rc = block_cache_is_newer (self->sums)? -ENOTSUP: -ENOENT;
    return rc;
}

static int
s_open (block_data_t *self)
{
    block_cache_t *cache = self->cache;
    if (block_cache_is_guest (cache))
        return s_open_as_guest (self);
    struct stat status;
    bool is_new = fstatat (block_cache_descriptor (cache), self->name, &status, AT_SYMLINK_NOFOLLOW) != 0;
    if (is_new && block_cache_room_make (cache, NEW_BYTES) < NEW_BYTES)
        return -ENOSPC;
    //  A kill from here on leaves a count that is too large, not one that is too small.
    int rc = is_new? block_cache_set_bytes (cache, block_cache_bytes (cache) + NEW_BYTES): 0;
    if (rc == 0 && is_new && mkdirat (block_cache_descriptor (cache), self->name, 0700) != 0)
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

static void
s_close_files (block_data_t *self)
{
    int *files [] = { &self->data, &self->sums, &self->lock };
    if (self->lock >= 0 && !block_cache_is_guest (self->cache))
        futimens (self->lock, NULL);
    for (size_t file = 0; file < sizeof files / sizeof *files; file++) {
        if (*files [file] >= 0)
            close (*files [file]);
        *files [file] = -1;
    }
}

//  Whether it can be opened now, as far as is known: some reasons pass.
static bool
s_may_open (const block_data_t *self)
{
    int rc = atomic_load (&self->opened);
    bool passes = rc == -ENOSPC || rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM;
    return block_cache_is_open (self->cache)
        && (rc == 0 || (passes && clock_now_ms () >= atomic_load (&self->again_ms)));
}

//  rc: of the last try, 0 or -errno.
static void
s_note_opening (block_data_t *self, int rc)
{
    atomic_store (&self->again_ms, clock_now_ms () + OPEN_AGAIN_MS);
    atomic_store (&self->opened, rc);
}

//  What did not answer when the data set was opened is opened by the first request that it answers.
//  0, or -errno of the cache.  -EAGAIN: not now; or never, because the data set cannot be opened, which is no
//  fault of the cache, or because the cache cannot be, which block_cache_figures tells.
static int
s_open_once (block_data_t *self, bool may_wait)
{
    block_cache_t *cache = self->cache;
    if (atomic_load (&self->is_open))
        return 0;
    if (!s_may_open (self))
        return -EAGAIN;
    int rc = block_cache_begin (cache, may_wait);
    if (rc && rc != -EAGAIN)
        s_note_opening (self, rc);
    if (rc)
        return rc;
    if (!atomic_load (&self->is_open) && s_may_open (self)) {
        rc = s_open (self);
        block_cache_head_t head;
        if (rc == 0 && block_cache_head_read (cache, self->name, self->sums, &head))
            atomic_store (&self->held, head.held);
        if (rc)
            s_close_files (self);       //  so that another server may throw it away
        s_note_opening (self, rc);
        atomic_store (&self->is_open, rc == 0);
    }
    rc = atomic_load (&self->is_open)? 0: -EAGAIN;
    block_cache_end (cache);
    return rc;
}

static void
s_work_open (block_cache_request_t *request)
{
    block_data_t *self = request->data;
    int rc = s_open_once (self, request->may_wait);
    request->is_locked_out = rc == -EAGAIN && s_may_open (self);
}

int
block_data_open (block_data_t **self_p, block_cache_t *cache, const block_data_key_t *key, uint64_t bytes)
{
    assert (self_p); assert (cache); assert (key); assert (bytes > 0);
    block_data_t *self = *self_p = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    *self = (block_data_t) { .magic = MAGIC, .cache = cache, .key = *key, .lock = -1, .sums = -1, .data = -1,
        .units = (bytes + UNIT - 1) / UNIT };
    snprintf (self->name, sizeof self->name, "%016llx%016llx", (unsigned long long) key->words [1],
        (unsigned long long) key->words [0]);
    atomic_init (&self->again_ms, 0);
    atomic_init (&self->is_open, false);
    atomic_init (&self->held, 0);
    atomic_init (&self->is_lighter, false);
    block_cache_request_t request = { .work = s_work_open, .data = self };
    int rc = block_cache_do_opening (self->cache, &request)? self->opened: 0;
    if (rc)
        block_data_close (self_p);
    return rc;
}

static void
s_work_close (block_cache_request_t *request)
{
    s_close_files (request->data);
}

static void
s_end (block_data_t *self)
{
    s_close_files (self);
    self->magic = 0;
    free (self);
}

//  While the disk does not answer, a thread may still have it.
void
block_data_close (block_data_t **self_p)
{
    assert (self_p);
    block_data_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC);
    *self_p = NULL;
    block_cache_request_t request = { .work = s_work_close, .data = self, .is_behind = true };
    if (block_cache_do (self->cache, &request)) {
        s_end (self);
        return;
    }
    self->closed = (block_cache_closed_t) { .end = s_end, .data = self };
    block_cache_end_later (self->cache, &self->closed);
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

//  As block_cache_begin.  Other units of the request do not wait once more for a lock that another server
//  holds.
static int
s_begin (block_cache_request_t *request)
{
    int rc = request->is_locked_out? -EAGAIN: s_open_once (request->data, false);
    rc = rc? rc: block_cache_begin (request->data->cache, false);
    request->is_locked_out = rc == -EAGAIN;
    return rc;
}


//  -- what it is, for people

enum { NOTE_PLACE = 64 };               //  in `sums`, behind the head

#define NOTE_FORMAT "tureenN1"

typedef struct {
    char format [8];
    block_note_t note;
    uint64_t sum;                       //  of what stands before it
} note_record_t;

_Static_assert (NOTE_PLACE >= sizeof (block_cache_head_t)
    && NOTE_PLACE + sizeof (note_record_t) <= BLOCK_CACHE_BLOCK_BYTES, "behind the head, in its block");
_Static_assert (sizeof (note_record_t) == 8 + sizeof (block_note_t) + 8, "written as it is");

static uint64_t
s_note_sum (const note_record_t *record)
{
    return XXH3_64bits (record, offsetof (note_record_t, sum));
}

bool
block_data_read_note (int sums, block_note_t *note)
{
    note_record_t record;
    bool is_good = pread (sums, &record, sizeof record, NOTE_PLACE) == sizeof record
        && memcmp (record.format, NOTE_FORMAT, sizeof record.format) == 0
        && record.sum == s_note_sum (&record) && record.note.kind < BLOCK_NOTE_KINDS
        && memchr (record.note.name, 0, sizeof record.note.name);
    *note = is_good? record.note: (block_note_t) { .kind = BLOCK_NOTE_UNKNOWN };
    return is_good;
}

//  A note that is there, and the same, is not written anew.
static void
s_work_note (block_cache_request_t *request)
{
    if (s_begin (request))
        return;
    int sums = request->data->sums;
    block_note_t before;
    note_record_t record = { .format = NOTE_FORMAT, .note = *(const block_note_t *) request->memory };
    record.note.made_s = block_data_read_note (sums, &before)? before.made_s: time (NULL);
    record.sum = s_note_sum (&record);
    if (memcmp (&before, &record.note, sizeof before) != 0)
        file_write_at (sums, &record, sizeof record, NOTE_PLACE);
    block_cache_end (request->data->cache);
}

void
block_data_note (block_data_t *self, block_note_kind_t kind, const char *name, uint64_t count, uint64_t bytes,
    const block_data_list_t *list)
{
    if (!self || block_cache_is_guest (self->cache))
        return;
    block_note_t note = { .kind = kind, .count = count, .bytes = bytes,
        .generation = list? list->generation: 0,
        .list = { list? list->key->words [0]: 0, list? list->key->words [1]: 0 } };
    snprintf (note.name, sizeof note.name, "%s", name);
    block_cache_request_t request = { .work = s_work_note, .data = self, .memory = (uint8_t *) &note,
        .bytes = sizeof note, .is_change = true };
    block_cache_do (self->cache, &request);
}


//  -- reading

static uint64_t
s_first_unit (const block_data_t *self, uint64_t offset, uint64_t bytes)
{
    assert (self && self->magic == MAGIC);
    assert (bytes > 0 && offset % UNIT == 0 && (offset + bytes + UNIT - 1) / UNIT <= self->units);
    return offset / UNIT;
}

static void
s_work_nothing (block_cache_request_t *request)
{
    (void) request;
}

//  What was handed over of the range is here when it returns, or will not be, unless the cache is aside.
static void
s_await (const block_data_t *self, uint64_t first_unit, uint64_t bytes)
{
    block_cache_threads_t *threads = block_cache_threads (self->cache);
    if (!threads || !block_cache_threads_have (threads, self, first_unit, (bytes + UNIT - 1) / UNIT))
        return;
    block_cache_request_t request = { .work = s_work_nothing, .is_change = true, .is_behind = true };
    block_cache_threads_do (threads, &request);
}

//  For the units from `at` bytes of the range on; they have no owner.
static block_cache_request_t
s_request (block_data_t *self, uint64_t first_unit, uint64_t bytes, uint64_t at)
{
    uint64_t left = bytes - at;
    size_t most = (size_t) CHUNK * UNIT, now = left < most? (size_t) left: most;
    return (block_cache_request_t) { .data = self, .first = first_unit + at / UNIT,
        .count = (now + UNIT - 1) / UNIT, .bytes = now };
}

//  Where a request begins that reads: what the cache takes is seen beside it.  Whether the checksums can be
//  read.
static bool
s_look (block_cache_request_t *request)
{
    int rc = s_open_once (request->data, false);
    request->is_locked_out = rc == -EAGAIN;
    if (rc)
        return false;
    block_cache_look (request->data->cache, false);
    return s_read_sums (request->data, request);
}

//  Whether a unit that was read under this checksum, and does not match it, is here after all.  Another
//  thread or another server may have dropped it since its checksum was read, and stored it again: then the
//  checksum is the same, and the bytes match it when they are read once more, under the lock that drops and
//  stores take.  Otherwise the unit is damaged, and is dropped; one with an owner may be another owner's, and
//  stays.
static bool
s_read_unit_again (block_cache_request_t *request, uint64_t unit, uint32_t sum, uint8_t *memory, size_t bytes)
{
    block_data_t *self = request->data;
    if (s_begin (request))
        return false;
    uint32_t now;
    bool is_here = file_read_at (self->sums, &now, sizeof now, s_sum_offset (unit)) == sizeof now
        && now == sum;
    bool is_good = is_here
        && file_read_at (self->data, memory, bytes, unit * UNIT) == bytes
        && s_sum (unit, request->owner, memory, bytes) == sum;
    if (is_here && !is_good && !request->owner) {
        s_drop (self, unit, 1);
        block_cache_found_damage (self->cache);
    }
    block_cache_end (self->cache);
    return is_good;
}

//  Reads units [from .. to) of the request, all of which have a checksum; drops those that are damaged, and
//  clears their checksums in the request.
static void
s_read_run (block_cache_request_t *request, size_t from, size_t to)
{
    if (from == to)
        return;
    size_t begin = from * UNIT, end = (to - 1) * UNIT + s_unit_bytes (request, to - 1), done = begin
        + file_read_at (request->data->data, request->memory + begin, end - begin,
            request->first * UNIT + begin);
    for (size_t index = from; index < to; index++) {
        size_t bytes = s_unit_bytes (request, index);
        uint64_t unit = request->first + index;
        uint8_t *place = request->memory + index * UNIT;
        bool is_good = index * UNIT + bytes <= done && s_sum (unit, request->owner, place,
            bytes) == request->sums [index];
        if (!is_good && !s_read_unit_again (request, unit, request->sums [index], place, bytes))
            request->sums [index] = 0;
    }
}

//  What is here at the beginning of the request's range.
static void
s_work_front (block_cache_request_t *request)
{
    size_t run = 0, good = 0;
    if (!s_look (request))
        return;
    while (run < request->count && request->sums [run])
        run++;
    s_read_run (request, 0, run);
    while (good < run && request->sums [good])
        good++;
    request->end = good < request->count? good * UNIT: request->bytes;
}

//  What is here at its end.
static void
s_work_back (block_cache_request_t *request)
{
    size_t run = request->count, good = request->count;
    request->begin = request->end = request->bytes;
    if (!s_look (request))
        return;
    while (run > 0 && request->sums [run - 1])
        run--;
    s_read_run (request, run, request->count);
    while (good > run && request->sums [good - 1])
        good--;
    request->begin = good < request->count? good * UNIT: request->bytes;
}

//  Reads all of the request without a thread, which would cost a copy and two turns of the scheduler, or sees
//  that its first unit is not here.  False: something is not in the page cache, or not as it was written;
//  then a thread looks.
static bool
s_take_from_memory (block_cache_request_t *request)
{
    const block_data_t *self = request->data;
    if (!s_read_sums_from_memory (self, request))
        return false;
    if (!request->sums [0])
        return true;
    for (size_t index = 0; index < request->count; index++)
        if (!request->sums [index])
            return false;
    if (!s_read_from_memory (self->data, request->memory, request->bytes, (off_t) (request->first * UNIT)))
        return false;
    for (size_t index = 0; index < request->count; index++)
        if (s_sum (request->first + index, request->owner, request->memory + index * UNIT,
            s_unit_bytes (request, index)) != request->sums [index])
            return false;
    block_cache_look (self->cache, true);
    request->end = request->bytes;
    return true;
}

//  The next request for the range: from its beginning on until something is not here, then from its end on
//  until something is not.
static block_cache_request_t
s_next_request (const block_data_range_t *range)
{
    const block_data_gap_t *gap = &range->gap;
    uint64_t first = range->offset / UNIT;
    size_t at = gap->begin;
    if (range->is_behind) {
        size_t most = (size_t) CHUNK * UNIT, units = (gap->end - range->least + UNIT - 1) / UNIT;
        at = units > CHUNK? (gap->end + UNIT - 1) / UNIT * UNIT - most: range->least;
    }
    block_cache_request_t request = s_request (range->data, first, gap->end, at);
    request.work = range->is_behind? s_work_back: s_work_front;
    request.owner = range->owner;
    request.memory = range->memory + at;
    return request;
}

//  What the request has found is the range's.  NULL: there was no answer.  True: more may be here.
static bool
s_took (block_data_range_t *range, const block_cache_request_t *request)
{
    block_data_gap_t *gap = &range->gap;
    if (range->is_behind) {
        size_t begin = request? request->begin: 0, found = request? request->bytes - begin: 0;
        gap->end -= found;
        return request && begin == 0 && gap->end > range->least;
    }
    size_t found = request? request->end: 0;
    gap->begin += found;
    if (gap->begin == gap->end)
        return false;
    if (request && found == request->bytes)
        return true;
    if (range->owner) {
        gap->begin = 0;                 //  all of it is wanted
        return false;
    }
    //  The unit at the gap's begin is not here: what is read from behind ends above it.
    range->is_behind = true;
    range->least = gap->begin + UNIT;
    return gap->end > range->least;
}

//  Reads without a wait, or until the next request is under way.  True: it is.
static bool
s_go_on (block_queue_t *queue, block_data_range_t *range)
{
    block_cache_t *cache = range->data->cache;
    for (bool goes_on = true; goes_on;) {
        block_cache_request_t request = s_next_request (range);
        bool is_here = !range->is_behind && block_cache_threads (cache) && s_take_from_memory (&request);
        range->was_asked |= !is_here;
        if (!is_here && queue && block_queue_put (queue, &request, range))
            return true;
        is_here = is_here || (!queue && block_cache_do (cache, &request));
        goes_on = s_took (range, is_here? &request: NULL);
    }
    return false;
}

bool
block_data_begin (block_queue_t *queue, block_data_range_t *range)
{
    s_await (range->data, s_first_unit (range->data, range->offset, range->bytes), range->bytes);
    assert (range->memory);
    assert (!queue || block_queue_threads (queue) == block_cache_threads (range->data->cache));
    range->gap = (block_data_gap_t) { .begin = 0, .end = range->bytes };
    range->was_asked = range->is_behind = false;
    return s_go_on (queue, range);
}

block_queue_t *
block_data_queue (const block_data_t *self)
{
    assert (self && self->magic == MAGIC);
    block_cache_threads_t *threads = block_cache_threads (self->cache);
    return threads? block_queue_new (threads): NULL;
}

block_data_range_t *
block_data_take (block_queue_t *queue)
{
    block_cache_request_t *request;
    void *user;
    while (block_queue_take (queue, &request, &user)) {
        block_data_range_t *range = user;
        if (request) {
            uint64_t at = request->first * UNIT - range->offset;
            block_cache_threads_take_over (request, range->memory + at);
        }
        bool goes_on = s_took (range, request);
        if (request)
            block_queue_free (request);
        if (!goes_on || !s_go_on (queue, range))
            return range;
    }
    return NULL;
}

block_data_gap_t
block_data_read (block_data_t *self, uint64_t offset, size_t bytes, uint8_t *memory)
{
    block_data_range_t range = { .data = self, .offset = offset, .bytes = bytes, .memory = memory };
    block_data_begin (NULL, &range);
    return range.gap;
}

bool
block_data_read_owned (block_data_t *self, uint64_t owner, uint64_t offset, size_t bytes, uint8_t *memory)
{
    block_data_range_t range = { .data = self, .owner = owner, .offset = offset, .bytes = bytes,
        .memory = memory };
    block_data_begin (NULL, &range);
    return range.gap.begin == range.gap.end;
}

//  What was dropped meanwhile would be damage for the member that gets it.  That a unit was dropped and
//  stored again is not seen here, where no byte is checked: the member finds it, and reads it elsewhere.
static void
s_work_lend (block_cache_request_t *request)
{
    const block_data_t *self = request->data;
    if (!s_look (request))
        return;
    for (size_t index = 0; index < request->count; index++)
        if (!request->sums [index])
            return;
    if (file_read_at (self->data, request->memory, request->bytes, request->first * UNIT)
        < request->bytes)
        return;
    block_cache_request_t now = *request;
    request->is_good = s_read_sums (self, &now)
        && memcmp (now.sums, request->sums, request->count * sizeof *request->sums) == 0;
    request->end = request->bytes;
}

bool
block_data_lend (block_data_t *self, uint64_t offset, size_t bytes, uint8_t *memory, uint32_t *sums)
{
    uint64_t first = s_first_unit (self, offset, bytes);
    s_await (self, first, bytes);
    for (size_t at = 0; at < bytes;) {
        block_cache_request_t request = s_request (self, first, bytes, at);
        request.work = s_work_lend;
        request.memory = memory + at;
        if (!block_cache_do (self->cache, &request) || !request.is_good)
            return false;
        memcpy (sums + at / UNIT, request.sums, request.count * sizeof *sums);
        at += request.bytes;
    }
    return true;
}

void
block_data_sums (uint64_t offset, size_t bytes, const uint8_t *memory, uint32_t *sums)
{
    for (size_t at = 0; at < bytes; at += UNIT)
        sums [at / UNIT] = s_sum ((offset + at) / UNIT, 0, memory + at, bytes - at < UNIT? bytes - at: UNIT);
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
        if (s_sum ((offset + at) / UNIT, 0, memory + at, now) != sum)
            return false;
    }
    return true;
}

static void
s_count (block_cache_request_t *request)
{
    for (size_t index = 0; index < request->count; index++)
        request->found += request->sums [index] != 0;
}

//  Counts the units that are here.
static void
s_work_count (block_cache_request_t *request)
{
    if (s_look (request))
        s_count (request);
}

//  The same without a thread.  False: the checksums do not lie in the page cache.
static bool
s_count_from_memory (block_cache_request_t *request)
{
    if (!s_read_sums_from_memory (request->data, request))
        return false;
    s_count (request);
    return true;
}

//  Of the first units that are here, or the first that are not: whether the range has any.
static bool
s_has_any (const block_data_t *self, uint64_t offset, uint64_t bytes, bool is_here)
{
    uint64_t first = s_first_unit (self, offset, bytes);
    s_await (self, first, bytes);
    for (uint64_t at = 0; at < bytes;) {
        block_cache_request_t request = s_request ((block_data_t *) self, first, bytes, at);
        request.work = s_work_count;
        bool is_known = s_count_from_memory (&request) || block_cache_do (self->cache, &request);
        if (is_here? is_known && request.found > 0: !is_known || request.found < request.count)
            return true;
        at += request.bytes;
    }
    return false;
}

bool
block_data_has (const block_data_t *self, uint64_t offset, uint64_t bytes)
{
    return !s_has_any (self, offset, bytes, false);
}

bool
block_data_has_some (const block_data_t *self, uint64_t offset, uint64_t bytes)
{
    return s_has_any (self, offset, bytes, true);
}

static void
s_work_drop (block_cache_request_t *request)
{
    block_data_t *self = request->data;
    if (s_begin (request)) {
        if (atomic_load (&self->is_open) && !request->is_modest)
            s_forget (self, request->first, request->count);
        return;
    }
    s_drop (self, request->first, request->count);
    block_cache_end (self->cache);
    request->is_good = true;
}

static bool
s_give_up (block_data_t *self, uint64_t offset, uint64_t bytes, bool is_modest)
{
    uint64_t first = s_first_unit (self, offset, bytes);
    bool is_good = !block_cache_is_guest (self->cache);
    if (!is_good)
        return false;
    s_await (self, first, bytes);
    for (uint64_t at = 0; at < bytes;) {
        block_cache_request_t request = s_request (self, first, bytes, at);
        request.work = s_work_drop;
        request.is_modest = is_modest;
        request.is_change = true;
        if (!block_cache_do (self->cache, &request))
            return false;
        is_good = is_good && request.is_good;
        at += request.bytes;
    }
    return is_good;
}

bool
block_data_drop (block_data_t *self, uint64_t offset, uint64_t bytes)
{
    return s_give_up (self, offset, bytes, false);
}

bool
block_data_make_room (block_data_t *self, uint64_t offset, uint64_t bytes)
{
    return s_give_up (self, offset, bytes, true);
}

bool
block_data_is_full (const block_data_t *self)
{
    assert (self && self->magic == MAGIC);
    return block_cache_is_full (self->cache) || block_cache_has_failed (self->cache);
}

bool
block_data_fits (const block_data_t *self)
{
    assert (self && self->magic == MAGIC);
    block_cache_figures_t figures = block_cache_figures (self->cache);
    uint64_t held = atomic_load (&self->held), others = figures.bytes > held? figures.bytes - held: 0,
        chunks = self->units / CHUNK + 1, wanted = NEW_BYTES + chunks * (CHUNK * UNIT + STEP_BYTES);
    return !block_data_is_full (self) && others + wanted <= figures.bytes_max;
}

bool
block_data_is_aside (const block_data_t *self)
{
    assert (self && self->magic == MAGIC);
    return !atomic_load (&self->is_open) || block_cache_is_aside (self->cache);
}

bool
block_data_may_answer (const block_data_t *self)
{
    assert (self && self->magic == MAGIC);
    return (atomic_load (&self->is_open) || s_may_open (self)) && !block_cache_is_aside (self->cache);
}

int
block_data_failure (const block_data_t *self)
{
    assert (self && self->magic == MAGIC);
    return atomic_load (&self->opened);
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
s_settle (block_data_t *self, block_cache_head_t *head, uint64_t held)
{
    block_cache_t *cache = self->cache;
    uint64_t all = block_cache_bytes (cache), bytes = all > head->held? all - head->held + held: held;
    bool grows = held > head->held;
    head->held = held;
    int rc = grows? block_cache_set_bytes (cache, bytes): 0;
    rc = rc? rc: block_cache_head_write (self->sums, head);
    rc = rc || grows? rc: block_cache_set_bytes (cache, bytes);
    atomic_store (&self->held, held);
    return rc;
}

static int
s_measure (block_data_t *self, block_cache_head_t *head)
{
    return s_settle (self, head, block_cache_room_taken (self->cache, self->name, head->stores));
}

//  Writes the first `most` units of the request that are not here: first the bytes, then the checksums.
static int
s_write_units (const block_cache_request_t *request, size_t most)
{
    const block_data_t *self = request->data;
    int rc = 0;
    for (size_t from = 0, to; rc == 0 && from < request->count && most > 0; from = to) {
        to = from + 1;
        if (request->sums [from])
            continue;
        while (to < request->count && !request->sums [to] && to - from < most)
            to++;
        uint32_t sums [CHUNK];
        for (size_t index = from; index < to; index++)
            sums [index - from] = s_sum (request->first + index, request->owner,
                request->memory + index * UNIT, s_unit_bytes (request, index));
        size_t bytes = (to - from - 1) * UNIT + s_unit_bytes (request, to - 1);
        rc = file_write_at (self->data, request->memory + from * UNIT, bytes,
            (request->first + from) * UNIT);
        rc = rc? rc: file_write_at (self->sums, sums, (to - from) * sizeof *sums,
            s_sum_offset (request->first + from));
        most -= to - from;
    }
    return rc;
}

//  Units that another owner left are not here, for the request.  Nor are units of its own that cannot be
//  read, or are not as their checksums say, which reading leaves as they are: they are written again.
static void
s_disown (block_cache_request_t *request)
{
    block_data_t *self = request->data;
    uint8_t here [UNIT];
    for (size_t index = 0; index < request->count; index++) {
        const uint8_t *memory = request->memory + index * UNIT;
        uint64_t unit = request->first + index;
        size_t bytes = s_unit_bytes (request, index);
        bool is_own = request->sums [index] && request->sums [index] == s_sum (unit, request->owner, memory,
            bytes);
        bool is_good = is_own && file_read_at (self->data, here, bytes, unit * UNIT) == bytes
            && memcmp (here, memory, bytes) == 0;
        if (is_own && !is_good)
            block_cache_found_damage (self->cache);
        request->sums [index] = is_good? request->sums [index]: 0;
    }
}

//  How many units of the request are not here, with their checksums cleared.  0 or -errno.
static int
s_find_missing (block_cache_request_t *request, size_t *missing_p)
{
    if (!s_read_sums (request->data, request))
        return -EIO;
    if (request->owner)
        s_disown (request);
    *missing_p = 0;
    for (size_t index = 0; index < request->count; index++)
        *missing_p += !request->sums [index];
    return 0;
}

static int s_store_units (block_cache_request_t *first, block_cache_head_t *head);

//  What all of them need beside their units may be the room that some of them would have.
static int
s_store_singly (const block_cache_request_t *first, block_cache_head_t *head)
{
    int rc = 0;
    for (const block_cache_request_t *request = first; rc == 0 && request; request = request->more) {
        block_cache_request_t single = *request;
        single.more = NULL;
        rc = s_store_units (&single, head);
    }
    return rc;
}

//  Writes what is missing of the request, and of those to be done with it, as far as there is room.  0: go
//  on; 1: the cache is full; or -errno.
static int
s_store_units (block_cache_request_t *first, block_cache_head_t *head)
{
    block_data_t *self = first->data;
    size_t missing = 0, steps = 0, left;
    for (block_cache_request_t *request = first; request; request = request->more) {
        int rc = s_find_missing (request, &request->found);
        if (rc)
            return rc;
        missing += request->found;
        steps += request->found > 0;
    }
    if (missing == 0)
        return 0;
    uint64_t beside = steps * STEP_BYTES, wanted = missing * UNIT + beside,
        room = first->is_modest? block_cache_room (self->cache): block_cache_room_make (self->cache, wanted);
    if (!first->is_modest)
        block_cache_set_full (self->cache, room < wanted);
    if (room < wanted && first->more)
        return s_store_singly (first, head);
    if (room < beside + UNIT)
        return 1;
    size_t most = left = room < wanted? (size_t) ((room - beside) / UNIT): missing;
    head->stores += steps;
    int rc = s_settle (self, head, head->held + most * UNIT + beside);
    for (block_cache_request_t *request = first; rc == 0 && request; request = request->more) {
        size_t now = request->found < left? request->found: left;
        rc = s_write_units (request, now);
        left -= now;
    }
    int measured = s_measure (self, head);
    rc = rc? rc: measured;
    return rc? rc: most < missing;
}

//  The count has what the damaged head said: it is counted again, with what the new head says.
static int
s_mend_head (block_data_t *self, block_cache_head_t *head)
{
    block_cache_found_damage (self->cache);
    int rc = block_cache_head_write (self->sums, head);
    rc = rc? rc: block_cache_room_count (self->cache);
    return rc || block_cache_head_read (self->cache, self->name, self->sums, head)? rc: -EIO;
}

//  As s_store_units.
static int
s_store (block_cache_request_t *request)
{
    block_data_t *self = request->data;
    block_cache_head_t head;
    bool is_good = block_cache_head_read (self->cache, self->name, self->sums, &head);
    int rc = is_good? 0: s_mend_head (self, &head);
    if (rc == 0 && atomic_exchange (&self->is_lighter, false))
        rc = s_measure (self, &head);
    return rc? rc: s_store_units (request, &head);
}

static void
s_work_store (block_cache_request_t *request)
{
    block_cache_t *cache = request->data->cache;
    int rc = s_begin (request);
    if (rc == 0) {
        rc = s_store (request);
        block_cache_end (cache);
    }
    request->is_good = rc == 0;
    if (rc < 0 && rc != -EAGAIN)        //  another process has the lock for long: not kept this time
        block_cache_failed (cache, rc);
}

//  How it is kept: with the room that other data sets can give up, or have left; or without a wait.
typedef enum { KEEP_NOW, KEEP_MODESTLY, KEEP_SOON } keep_t;

//  False: not all of it is here now, or will be soon.
static bool
s_keep (block_data_t *self, uint64_t owner, uint64_t offset, size_t bytes, const uint8_t *memory, keep_t how)
{
    uint64_t first = s_first_unit (self, offset, bytes);
    block_cache_threads_t *threads = how == KEEP_SOON? block_cache_threads (self->cache): NULL;
    assert (memory);
    if (block_cache_is_guest (self->cache))
        return false;
    for (size_t at = 0; at < bytes;) {
        block_cache_request_t request = s_request (self, first, bytes, at);
        request.work = s_work_store;
        request.owner = owner;
        request.is_modest = how == KEEP_MODESTLY;
        request.memory = (uint8_t *) memory + at;
        request.is_change = true;
        request.is_behind = true;
        if (block_cache_has_failed (self->cache))
            return false;
        at += request.bytes;
        if (threads && block_cache_threads_hand_over (threads, &request))
            continue;
        if (!block_cache_do (self->cache, &request) || !request.is_good)
            return false;
    }
    return true;
}

void
block_data_store (block_data_t *self, uint64_t offset, size_t bytes, const uint8_t *memory, bool is_afresh)
{
    if (is_afresh)
        block_data_drop (self, offset, bytes);
    s_keep (self, 0, offset, bytes, memory, KEEP_NOW);
}

bool
block_data_store_owned (block_data_t *self, uint64_t owner, uint64_t offset, size_t bytes,
    const uint8_t *memory)
{
    return s_keep (self, owner, offset, bytes, memory, KEEP_NOW);
}

bool
block_data_store_soon (block_data_t *self, uint64_t owner, uint64_t offset, size_t bytes,
    const uint8_t *memory)
{
    return s_keep (self, owner, offset, bytes, memory, KEEP_SOON);
}

bool
block_data_store_modestly (block_data_t *self, uint64_t offset, size_t bytes, const uint8_t *memory)
{
    block_data_drop (self, offset, bytes);
    s_keep (self, 0, offset, bytes, memory, KEEP_MODESTLY);
    return block_data_has (self, offset, bytes);
}


//  -- for readers of the file itself

size_t
block_data_path (const block_data_t *self, char *path, size_t size)
{
    assert (self && self->magic == MAGIC);
    return (size_t) snprintf (path, size, "%s/%s/data", block_cache_figures (self->cache).folder, self->name);
}

//  The thread's copy of the request comes back with the checksums.
static void
s_work_find_sums (block_cache_request_t *request)
{
    request->is_good = s_look (request);
}

bool
block_data_find_sums (block_data_t *self, uint64_t offset, uint64_t bytes, uint32_t *sums)
{
    uint64_t first = s_first_unit (self, offset, bytes);
    for (uint64_t at = 0; at < bytes;) {
        block_cache_request_t request = s_request (self, first, bytes, at);
        request.work = s_work_find_sums;
        request.is_behind = true;
        if (!block_cache_do (self->cache, &request) || !request.is_good)
            return false;
        memcpy (sums + at / UNIT, request.sums, request.count * sizeof *sums);
        at += request.bytes;
    }
    return true;
}
