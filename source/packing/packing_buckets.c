/*  packing_buckets.c -- pass 1: every sample of the source goes to the bucket of its key.
 *
 *  happy path:  each bucket has a buffer of equal size; a full one is appended to its file.  After so many
 *               bytes all files and the table are made durable, and then the journal.
 *  failure:     everything beyond the journal's figures is cut off when the packing is resumed.
 *  on stop:     the same as after so many bytes, so that nothing has to be read again.
 */
#include "packing_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "pack_index.h"
#include "pool.h"

enum {
    AHEAD_MAGIC = 0xa4ead000, SLOTS_A_THREAD = 8,
    BUFFER_BYTES_MIN = 4096, BUFFER_BYTES_MAX = 4 << 20,
    SYNC_MEMORIES = 2                   //  between two journals: so many times the memory; a kill loses no
                                        //  more work
};

//  -- the samples of a source in its order, each with where the rows of its JPEG begin
//
//  To find that in a photograph takes half a millisecond, longer than to read it from a fast disk.  So
//  threads find it in samples that are read ahead: in copies of them, as long as they are less than bytes_max
//  together.  Without threads the caller's thread finds it, sample by sample.

//  A sample that was read ahead.
typedef struct {
    const packing_rows_t *how;
    pack_item_t item;               //  its files are in `bytes`
    uint8_t *bytes, *rows;          //  owned while the slot is in use
    size_t byte_count, row_bytes;
    bool is_done;
    int rc;                         //  -ENOMEM: a thread had no memory
} slot_t;

typedef struct {
    uint32_t magic;
    pack_source_t *source;
    const packing_rows_t *how;
    uint64_t bytes_max;
    void *finder;                   //  without threads
    pool_t *pool;                   //  NULL: without
    slot_t *slots;                  //  a ring
    size_t slot_count, first, used;
    uint64_t bytes;                 //  of all slots in use
    bool is_lent;                   //  the first slot is the item that was given last
    int end;                        //  what the source answered last: 1, or 0 or an error at its end
    char error [PACK_SOURCE_ERROR_BYTES];
} ahead_t;

//  In a thread.
static void
s_find_rows (void *finder, void *argument)
{
    slot_t *slot = argument;
    const uint8_t *rows = NULL;
    slot->rc = slot->how->find (finder, slot->item.files [0], slot->item.bytes [0], &rows, &slot->row_bytes);
    if (slot->rc || slot->row_bytes == 0)
        return;
    slot->rows = malloc (slot->row_bytes);
    if (slot->rows)
        memcpy (slot->rows, rows, slot->row_bytes);
    else
        slot->rc = -ENOMEM;
}

static bool
s_copy_item (slot_t *slot, const packing_rows_t *how, const pack_item_t *item)
{
    *slot = (slot_t) { .how = how, .item = *item };
    for (size_t field = 0; field < item->field_count; field++)
        slot->byte_count += item->bytes [field];
    slot->bytes = malloc (slot->byte_count + 1);
    if (!slot->bytes)
        return false;
    uint8_t *end = slot->bytes;
    for (size_t field = 0; field < item->field_count; field++) {
        slot->item.files [field] = end;
        if (item->bytes [field])
            memcpy (end, item->files [field], item->bytes [field]);
        end += item->bytes [field];
    }
    return true;
}

//  One more; false: none, for now or for ever.
static bool
s_read_ahead (ahead_t *self)
{
    bool has_room = self->used < self->slot_count && (self->used == 0 || self->bytes < self->bytes_max);
    if (!has_room || self->end <= 0)
        return false;
    slot_t *slot = &self->slots [(self->first + self->used) % self->slot_count];
    pack_item_t item = { .field_count = 0 };
    self->end = pack_source_next (self->source, &item, self->error);
    if (self->end > 0 && !s_copy_item (slot, self->how, &item))
        self->end = -ENOMEM;
    if (self->end <= 0)
        return false;
    self->used++;
    self->bytes += slot->byte_count;
    pool_submit (self->pool, slot);
    return true;
}

//  The first slot is not used any more.
static void
s_drop_slot (ahead_t *self)
{
    slot_t *slot = &self->slots [self->first];
    free (slot->bytes);
    free (slot->rows);
    self->bytes -= slot->byte_count;
    self->first = (self->first + 1) % self->slot_count;
    self->used--;
}

static void
s_await_slot (ahead_t *self, const slot_t *slot)
{
    struct pollfd wait = { .fd = pool_descriptor (self->pool), .events = POLLIN };
    for (;;) {
        slot_t *done;
        while ((done = pool_done (self->pool)))
            done->is_done = true;
        if (slot->is_done)
            return;
        poll (&wait, 1, -1);
    }
}

static int
s_next_found (ahead_t *self, pack_item_t *item, const uint8_t **rows_p, size_t *rows_bytes_p,
    char *error)
{
    if (self->is_lent)
        s_drop_slot (self);
    self->is_lent = false;
    while (s_read_ahead (self));
    if (self->used == 0) {
        memcpy (error, self->error, sizeof self->error);
        return self->end;
    }
    slot_t *slot = &self->slots [self->first];
    s_await_slot (self, slot);
    self->is_lent = true;
    *item = slot->item;
    *rows_p = slot->rows;
    *rows_bytes_p = slot->row_bytes;
    return slot->rc? slot->rc: 1;
}

static void
s_ahead_destroy (ahead_t **self_p)
{
    ahead_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == AHEAD_MAGIC);
    if (self->pool) {
        pool_stop (self->pool);
        while (pool_done (self->pool) || pool_drain (self->pool));
    }
    pool_destroy (&self->pool);
    while (self->used > 0)
        s_drop_slot (self);
    free (self->slots);
    if (self->finder)
        self->how->finder_destroy (self->finder);
    self->magic = 0;
    free (self);
}

//  how and source are lent.  NULL: no memory, or no thread can be started.
static ahead_t *
s_ahead_new (pack_source_t *source, const packing_rows_t *how, uint64_t bytes_max)
{
    ahead_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = (ahead_t) { .magic = AHEAD_MAGIC, .source = source, .how = how, .bytes_max = bytes_max,
        .end = 1, .slot_count = (size_t) how->threads * SLOTS_A_THREAD };
    bool good;
    if (how->threads > 0) {
        pool_options_t options = { .name = "tureen-rows", .threads = how->threads,
            .tasks_max = self->slot_count, .work = s_find_rows, .context_new = how->finder_new,
            .context_destroy = how->finder_destroy };
        self->slots = calloc (self->slot_count, sizeof *self->slots);
        self->pool = self->slots? pool_new (&options): NULL;
        good = self->pool;
    }
    else
        good = (self->finder = how->finder_new ());
    if (!good)
        s_ahead_destroy (&self);
    return self;
}

//  As pack_source_next, and the rows, lent as long as the item; 0 bytes: not known.  -ENOMEM without a
//  sentence.
static int
s_ahead_next (ahead_t *self, pack_item_t *item, const uint8_t **rows_p, size_t *rows_bytes_p,
    char *error)
{
    assert (self && self->magic == AHEAD_MAGIC);
    assert (item); assert (rows_p); assert (rows_bytes_p);
    if (self->pool)
        return s_next_found (self, item, rows_p, rows_bytes_p, error);
    int rc = pack_source_next (self->source, item, error);
    if (rc > 0 && self->how->find (self->finder, item->files [0], item->bytes [0], rows_p, rows_bytes_p))
        return -ENOMEM;
    return rc;
}

//  -- files

typedef struct {
    int fd;
    uint64_t written;                   //  bytes in the file
    size_t used;                        //  bytes in the buffer
    bool is_dirty;                      //  written since it was durable
} bucket_t;

typedef struct {
    packing_t *packing;
    bucket_t *buckets;
    uint32_t bucket_count;
    uint8_t *buffers;                   //  one after the other
    size_t buffer_bytes;
    uint64_t since_sync;                //  bytes
    ahead_t *ahead;                     //  NULL: rows are not packed
} filling_t;

static int
s_fail (const filling_t *self, const bucket_t *bucket, int rc, const char *what)
{
    char name [PACKING_NAME_BYTES];
    return packing_fail_file (self->packing, rc, what,
        packing_bucket_name ((uint32_t) (bucket - self->buckets), true, name));
}

static int
s_append (filling_t *self, bucket_t *bucket, const void *bytes, size_t size)
{
    int rc = file_write_at (bucket->fd, bytes, size, bucket->written);
    if (rc)
        return s_fail (self, bucket, rc, "write");
    bucket->written += size;
    bucket->is_dirty = true;
    return 0;
}

static int
s_flush (filling_t *self, bucket_t *bucket)
{
    size_t index = (size_t) (bucket - self->buckets);
    int rc = bucket->used? s_append (self, bucket, self->buffers + index * self->buffer_bytes, bucket->used):
        0;
    if (rc == 0)
        bucket->used = 0;
    return rc;
}

static int
s_put (filling_t *self, bucket_t *bucket, const uint8_t *bytes, size_t size)
{
    if (size > self->buffer_bytes - bucket->used) {
        int rc = s_flush (self, bucket);
        if (rc)
            return rc;
    }
    if (size >= self->buffer_bytes)
        return s_append (self, bucket, bytes, size);
    if (size) {
        memcpy (self->buffers + (size_t) (bucket - self->buckets) * self->buffer_bytes + bucket->used, bytes,
            size);
        bucket->used += size;
    }
    return 0;
}

//  Makes everything read so far durable, then the journal.
static int
s_sync (filling_t *self)
{
    packing_t *packing = self->packing;
    int rc = 0;
    for (bucket_t *bucket = self->buckets; rc == 0 && bucket < self->buckets + self->bucket_count; bucket++) {
        rc = s_flush (self, bucket);
        if (rc == 0 && bucket->is_dirty && fdatasync (bucket->fd) != 0)
            rc = s_fail (self, bucket, -errno, "write");
        if (rc == 0)
            bucket->is_dirty = false;
    }
    if (rc == 0)
        rc = packing_table_sync (packing);
    if (rc)
        return rc;
    self->since_sync = 0;
    packing->journal.samples = packing->samples;
    return packing_journal_save (packing);
}


//  -- opening

static int
s_open_bucket (filling_t *self, bucket_t *bucket, uint64_t bytes)
{
    char name [PACKING_NAME_BYTES];
    packing_bucket_name ((uint32_t) (bucket - self->buckets), false, name);
    bucket->fd = openat (self->packing->folder_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    struct stat status;
    if (bucket->fd < 0 || fstat (bucket->fd, &status) != 0)
        return s_fail (self, bucket, -errno, "open");
    if ((uint64_t) status.st_size < bytes)
        return s_fail (self, bucket, -ENODATA, "go on with");
    if ((uint64_t) status.st_size > bytes && ftruncate (bucket->fd, (off_t) bytes) != 0)
        return s_fail (self, bucket, -errno, "cut");
    bucket->written = bytes;
    return 0;
}

//  Opens the files, cut to their sizes by the table.
static int
s_open_buckets (filling_t *self)
{
    const packing_t *packing = self->packing;
    uint64_t *bytes = calloc (self->bucket_count, sizeof *bytes);
    if (!bytes)
        return packing_fail_memory (packing);
    for (uint32_t id = 0; id < packing->samples; id++)
        bytes [packing_bucket (packing->journal.seed, id,
            self->bucket_count)] += packing_sample_bytes (packing, id);
    int rc = 0;
    for (uint32_t index = 0; rc == 0 && index < self->bucket_count; index++)
        rc = s_open_bucket (self, &self->buckets [index], bytes [index]);
    free (bytes);
    if (rc)
        return rc;
    //  Their names, and the table's, stay before a journal tells of them.
    rc = file_sync (packing->folder_fd);
    return rc? packing_fail_file (packing, rc, "write", PACKING_FOLDER): 0;
}

static int
s_open (filling_t *self)
{
    const packing_t *packing = self->packing;
    self->bucket_count = packing->journal.buckets;
    size_t room = packing->options->memory_bytes / 2 / self->bucket_count;
    self->buffer_bytes = room > BUFFER_BYTES_MAX? BUFFER_BYTES_MAX: room < BUFFER_BYTES_MIN? BUFFER_BYTES_MIN:
        room;
    self->buckets = calloc (self->bucket_count, sizeof *self->buckets);
    for (uint32_t index = 0; self->buckets && index < self->bucket_count; index++)
        self->buckets [index].fd = -1;
    self->buffers = malloc (self->bucket_count * self->buffer_bytes);
    if (!self->buckets || !self->buffers)
        return packing_fail (packing, -ENOMEM,
            "not enough memory for %u buckets' buffers of %zu bytes: give less "
            "--memory", self->bucket_count, self->buffer_bytes);
    if (packing->journal.rows)
        self->ahead = s_ahead_new (packing->source, packing->options->rows,
            packing->options->memory_bytes / 4);
    if (packing->journal.rows && !self->ahead)
        return packing_fail_memory (packing);
    return s_open_buckets (self);
}

static void
s_close (filling_t *self)
{
    for (uint32_t index = 0; self->buckets && index < self->bucket_count; index++)
        if (self->buckets [index].fd >= 0)
            close (self->buckets [index].fd);
    s_ahead_destroy (&self->ahead);
    free (self->buckets);
    free (self->buffers);
}


//  -- samples

//  Refuses a sample that cannot be packed, with the figure that would allow it.
static int
s_check (const packing_t *packing, const pack_item_t *item)
{
    uint64_t bytes = 0, memory = packing->options->memory_bytes;
    for (size_t field = 0; field < item->field_count; field++)
        bytes += item->bytes [field];
    if (bytes > memory / 2)
        return packing_fail (packing, -EFBIG,
            "sample %llu has %llu bytes, and there is memory for %llu: give "
            "--memory at least %llu, then go on with --resume",
            (unsigned long long) packing->samples, (unsigned long long) bytes,
            (unsigned long long) memory / 2, (unsigned long long) bytes * 2);
    if (packing->samples == UINT32_MAX - 1)
        //  UNTESTED: takes 2^32 samples.
        return packing_fail (packing, -EOVERFLOW, "more than %u samples: pack the data in parts",
            UINT32_MAX - 1);
    return 0;
}

static int
s_take (filling_t *self, const pack_item_t *item)
{
    packing_t *packing = self->packing;
    int rc = s_check (packing, item);
    if (rc)
        return rc;
    if (packing->journal.sample_files == 0)
        packing->journal.sample_files = (uint32_t) item->field_count;
    assert (packing->journal.sample_files == item->field_count);
    uint32_t id = (uint32_t) packing->samples;
    bucket_t *bucket = &self->buckets [packing_bucket (packing->journal.seed, id, self->bucket_count)];
    packing_file_t files [CATALOGUE_FIELDS_MAX];
    for (size_t field = 0; field < item->field_count; field++) {
        size_t size = item->bytes [field];
        assert (size <= UINT32_MAX);
        files [field] = (packing_file_t) { .bytes = (uint32_t) size,
            .checksum = pack_index_checksum (item->files [field], size) };
        rc = s_put (self, bucket, item->files [field], size);
        if (rc)
            return rc;
        self->since_sync += size;
    }
    return packing_table_add (packing, files);
}

//  The next sample, with where the rows of its JPEG begin as one more file; as pack_source_next.
static int
s_next (filling_t *self, pack_item_t *item)
{
    packing_t *packing = self->packing;
    if (!self->ahead)
        return pack_source_next (packing->source, item, packing->error);
    const uint8_t *rows;
    size_t rows_bytes;
    int rc = s_ahead_next (self->ahead, item, &rows, &rows_bytes, packing->error);
    if (rc == -ENOMEM)
        return packing_fail_memory (packing);
    if (rc > 0 && packing->samples == 0 && item->field_count == CATALOGUE_FIELDS_MAX)
        packing->journal.rows = 0;      //  no room in the format
    if (rc > 0 && packing->journal.rows) {
        item->files [item->field_count] = rows;
        item->bytes [item->field_count++] = rows_bytes;
    }
    return rc;
}

static void
s_tell (const packing_t *packing)
{
    const packing_options_t *options = packing->options;
    if (!options->progress)
        return;
    packing_progress_t progress = { .pass = 1, .passes = packing->upload? 3: 2,
        .samples = packing->samples };
    pack_source_progress (packing->source, &progress.bytes, &progress.bytes_total);
    options->progress (options->context, &progress);
}

//  The source ended in an error: keeps what was read, and the error's sentence.
static int
s_give_up (filling_t *self, int rc)
{
    char error [PACK_SOURCE_ERROR_BYTES];
    memcpy (error, self->packing->error, sizeof error);
    if (s_sync (self) == 0)
        memcpy (self->packing->error, error, sizeof error);
    return rc;
}

//  The next sample: 1; 0: that was the last one.
static int
s_step (filling_t *self)
{
    packing_t *packing = self->packing;
    if (packing_is_stopped (packing)) {
        int rc = s_sync (self);
        return rc? rc: packing_fail (packing, -ECANCELED, "stopped: go on with --resume");
    }
    pack_item_t item = { .field_count = 0 };
    int rc = s_next (self, &item);
    if (rc < 0)
        return s_give_up (self, rc);
    if (rc == 0)
        return s_sync (self);
    if (packing->options->read)
        packing->options->read (packing->options->context, packing->samples, &item);
    rc = s_take (self, &item);
    if (rc == 0 && self->since_sync >= SYNC_MEMORIES * packing->options->memory_bytes)
        rc = s_sync (self);
    if (rc)
        return rc;
    s_tell (packing);
    return 1;
}

int
packing_fill_buckets (packing_t *packing)
{
    filling_t self = { .packing = packing };
    int rc = s_open (&self);
    if (rc == 0)
        do
            rc = s_step (&self);
        while (rc > 0);
    s_close (&self);
    return rc;
}
