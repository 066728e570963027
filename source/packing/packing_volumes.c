/*  packing_volumes.c -- pass 2: the samples, in the order of their keys, become volumes.
 *
 *  happy path:  a run is as many positions of one bucket as fit in memory.  Its samples are read in the order
 *               of the file (a bucket that fits is one read from begin to end), checked, and written by key.
 *               Then the volumes are made durable, the journal records the position, and a finished bucket is
 *               deleted.  Of a pack that goes to a store, volumes are handed over when the journal covers
 *               them.
 *  failure:     everything beyond the journal's figures is cut off and written again when the packing is
 *               resumed.  A damaged bucket is reported, never packed.
 *  on stop:     as after a run.
 */
#include "packing_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "pack.h"
#include "pack_index.h"

enum { OUTPUT_BYTES_MAX = 4 << 20 };

//  A sample of a run.
typedef struct {
    uint64_t from;                      //  in the bucket
    uint64_t at;                        //  in memory
    uint32_t id;
    uint32_t order;                     //  in the run
} place_t;

enum { PLACE_BYTES = 2 * sizeof (place_t) };    //  qsort takes as much again

typedef struct {
    packing_t *packing;
    const packing_plan_t *plan;
    uint64_t *from;                     //  by id: where the sample begins in its bucket
    uint64_t bytes_done, bytes_total;
    uint32_t position;                  //  the next one to write

    int bucket_fd;                      //  -1: none
    uint32_t bucket;
    uint8_t *run;                       //  run_limit bytes
    uint64_t run_limit;
    place_t *places;                    //  of the run; place_limit of them
    size_t place_count, place_limit;

    int volume_fd;                      //  -1: none
    bool has_news;                      //  the target's folder has a new entry that is not durable
    uint32_t volume;
    uint64_t end;                       //  of the output, in the volume
    uint8_t *output;                    //  output not written yet
    size_t output_limit, output_used;
} writing_t;

//  -- volumes

static int
s_fail_volume (const writing_t *self, int rc, const char *what)
{
    char name [PACKING_NAME_BYTES];
    snprintf (name, sizeof name, PACK_VOLUME_NAME, self->volume);
    return packing_fail_file (self->packing, rc, what, name);
}

static int
s_flush (writing_t *self)
{
    int rc = file_write_at (self->volume_fd, self->output, self->output_used, self->end - self->output_used);
    if (rc)
        return s_fail_volume (self, rc, "write");
    //  Starts writing to the disk now, so that less is left at the end of a run.
    if (self->output_used)
        sync_file_range (self->volume_fd, (off_t) (self->end - self->output_used), (off_t) self->output_used,
            SYNC_FILE_RANGE_WRITE);
    self->output_used = 0;
    return 0;
}

//  bytes NULL: zeros.
static int
s_put (writing_t *self, const uint8_t *bytes, uint64_t size)
{
    while (size) {
        if (self->output_used == self->output_limit) {
            int rc = s_flush (self);
            if (rc)
                return rc;
        }
        size_t room = self->output_limit - self->output_used;
        size_t count = size < room? (size_t) size: room;
        if (bytes) {
            memcpy (self->output + self->output_used, bytes, count);
            bytes += count;
        }
        else
            memset (self->output + self->output_used, 0, count);
        self->output_used += count;
        self->end += count;
        size -= count;
    }
    return 0;
}

static int
s_sync (writing_t *self)
{
    int rc = self->volume_fd < 0? 0: s_flush (self);
    if (rc == 0 && self->volume_fd >= 0 && fdatasync (self->volume_fd) != 0)
        rc = s_fail_volume (self, -errno, "write");
    int synced = rc == 0 && self->has_news? file_sync (self->packing->target_fd): 0;
    if (synced)
        rc = packing_fail_file (self->packing, synced, "write", "");
    if (rc == 0)
        self->has_news = false;
    return rc;
}

//  The last chunk's padding; the volume is durable then.
static int
s_close_volume (writing_t *self)
{
    if (self->volume_fd < 0)
        return 0;
    int rc = s_put (self, NULL, self->plan->volumes [self->volume].bytes - self->end);
    if (rc == 0)
        rc = s_sync (self);
    close (self->volume_fd);
    self->volume_fd = -1;
    return rc;
}

//  Opens the volume.  Its first `end` bytes are good; 0: it has none, and its header is written.
static int
s_open_volume (writing_t *self, uint32_t volume, uint64_t end)
{
    char name [PACKING_NAME_BYTES];
    snprintf (name, sizeof name, PACK_VOLUME_NAME, volume);
    self->volume = volume;
    self->end = end;
    self->has_news = true;
    self->volume_fd = openat (self->packing->target_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
        0666);
    if (self->volume_fd < 0)
        return s_fail_volume (self, -errno, "open");
    off_t size = lseek (self->volume_fd, 0, SEEK_END);
    if (size < (off_t) end)
        return s_fail_volume (self, size < 0? -errno: -ENODATA, "go on with");
    if (ftruncate (self->volume_fd, (off_t) end) != 0)
        return s_fail_volume (self, -errno, "cut");
    if (end)
        return 0;
    pack_volume_header_t header = pack_volume_header (volume, self->plan->pack);
    int rc = s_put (self, (const uint8_t *) &header, sizeof header);
    return rc? rc: s_put (self, NULL, PACK_BLOCK_BYTES - sizeof header);
}

static int
s_write_sample (writing_t *self, uint32_t id, const uint8_t *bytes)
{
    pack_place_t place = self->plan->places [id];
    assert (place.position == self->position);
    int rc = 0;
    if (self->volume_fd < 0 || place.volume != self->volume) {
        rc = s_close_volume (self);
        if (rc == 0)
            rc = s_open_volume (self, place.volume, 0);
        if (rc)
            return rc;
    }
    uint64_t size = packing_sample_bytes (self->packing, id);
    assert (place.offset >= self->end && place.offset - self->end < PACK_BLOCK_BYTES);
    rc = s_put (self, NULL, place.offset - self->end);
    if (rc == 0)
        rc = s_put (self, bytes, size);
    if (rc)
        return rc;
    self->position++;
    self->bytes_done += size;
    return 0;
}

//  The volumes that are whole, and durable since the journal was just saved.
static int
s_hand_over (const writing_t *self)
{
    packing_upload_t *upload = self->packing->upload;
    bool is_finished = self->volume_fd < 0 && self->position > 0;       //  the last one
    return upload? packing_upload_hand_over (upload, is_finished? self->volume + 1: self->volume): 0;
}

//  Cuts the volume behind the last durable sample.
static int
s_go_on (writing_t *self)
{
    const packing_t *packing = self->packing;
    int rc = packing->upload? packing_upload_go_on (packing->upload, self->plan): 0;
    if (rc)
        return rc;
    self->position = (uint32_t) packing->journal.positions;
    for (uint32_t position = 0; position < self->position; position++)
        self->bytes_done += packing_sample_bytes (packing, self->plan->order [position]);
    if (self->position == 0)
        return 0;
    uint32_t last = self->plan->order [self->position - 1];
    pack_place_t place = self->plan->places [last];
    self->volume = place.volume;
    if (!packing->upload || !packing_upload_is_sent (packing->upload, place.volume))
        rc = s_open_volume (self, place.volume, place.offset + packing_sample_bytes (packing, last));
    return rc? rc: s_hand_over (self);
}


//  -- buckets

static int
s_fail_bucket (const writing_t *self, int rc, const char *what)
{
    char name [PACKING_NAME_BYTES];
    return packing_fail_file (self->packing, rc, what, packing_bucket_name (self->bucket, true, name));
}

static int
s_open_bucket (writing_t *self, uint32_t bucket)
{
    char name [PACKING_NAME_BYTES];
    self->bucket = bucket;
    self->bucket_fd = openat (self->packing->folder_fd, packing_bucket_name (bucket, false, name),
        O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return self->bucket_fd < 0? s_fail_bucket (self, -errno, "open"): 0;
}

//  Those that the journal needs no more.
static int
s_delete_buckets (writing_t *self, uint32_t first, uint32_t end)
{
    for (self->bucket = first; self->bucket < end; self->bucket++) {
        char name [PACKING_NAME_BYTES];
        packing_bucket_name (self->bucket, false, name);
        if (unlinkat (self->packing->folder_fd, name, 0) != 0 && errno != ENOENT)
            return s_fail_bucket (self, -errno, "delete");
    }
    return 0;
}

static int
s_compare_from (const void *left, const void *right)
{
    const place_t *a = left, *b = right;
    return a->from != b->from? (a->from < b->from? -1: 1): (a->order > b->order) - (a->order < b->order);
}

static int
s_compare_order (const void *left, const void *right)
{
    const place_t *a = left, *b = right;
    return (a->order > b->order) - (a->order < b->order);
}

static int
s_add_place (writing_t *self, uint32_t id)
{
    if (self->place_count == self->place_limit) {
        size_t limit = self->place_limit? 2 * self->place_limit: 256;
        place_t *places = reallocarray (self->places, limit, sizeof *places);
        if (!places)
            return packing_fail_memory (self->packing);
        self->places = places;
        self->place_limit = limit;
    }
    self->places [self->place_count] = (place_t) {
        .from = self->from [id], .id = id, .order = (uint32_t) self->place_count
    };
    self->place_count++;
    return 0;
}

//  Takes as many of the next positions as fit, all of this bucket.
static int
s_choose_run (writing_t *self)
{
    const packing_t *packing = self->packing;
    uint64_t room = self->run_limit;
    self->place_count = 0;
    for (uint64_t position = self->position; position < packing->samples; position++) {
        uint32_t id = self->plan->order [position];
        if (packing_bucket (packing->journal.seed, id, packing->journal.buckets) != self->bucket)
            break;
        uint64_t bytes = packing_sample_bytes (packing, id) + PLACE_BYTES;
        if (bytes > room && self->place_count)
            break;
        if (bytes > room)
            return packing_fail (packing, -EFBIG,
                "sample %u has %llu bytes, and there is memory for %llu: give "
                "--memory at least %llu, then go on with --resume",
                id, (unsigned long long) bytes, (unsigned long long) room,
                (unsigned long long) bytes * 2);
        room -= bytes;
        int rc = s_add_place (self, id);
        if (rc)
            return rc;
    }
    return 0;
}

//  Reads them into memory in the order of the file, neighbours by one read.
static int
s_read_run (writing_t *self)
{
    qsort (self->places, self->place_count, sizeof *self->places, s_compare_from);
    uint64_t used = 0;
    for (size_t index = 0; index < self->place_count; ) {
        uint64_t from = self->places [index].from, size = 0;
        for (; index < self->place_count && self->places [index].from == from + size; index++) {
            self->places [index].at = used + size;
            size += packing_sample_bytes (self->packing, self->places [index].id);
        }
        int rc = packing_read (self->bucket_fd, self->run + used, size, from);
        if (rc)
            return s_fail_bucket (self, rc, "read");
        used += size;
    }
    qsort (self->places, self->place_count, sizeof *self->places, s_compare_order);
    return 0;
}

//  Whether these are the bytes that pass 1 wrote.
static bool
s_is_sound (const writing_t *self, uint32_t id, const uint8_t *bytes)
{
    size_t sample_files = self->packing->journal.sample_files;
    for (size_t index = 0; index < sample_files; index++) {
        packing_file_t file = self->packing->files [id * sample_files + index];
        if (pack_index_checksum (bytes, file.bytes) != file.checksum)
            return false;
        bytes += file.bytes;
    }
    return true;
}

static void
s_tell (const writing_t *self)
{
    const packing_options_t *options = self->packing->options;
    packing_progress_t progress = { .pass = 2, .passes = self->packing->upload? 3: 2,
        .samples = self->position, .bytes = self->bytes_done, .bytes_total = self->bytes_total };
    if (options->progress)
        options->progress (options->context, &progress);
}

//  0 also when stopped in between: see the position.
static int
s_write_run (writing_t *self)
{
    for (size_t index = 0; index < self->place_count && !packing_is_stopped (self->packing); index++) {
        const place_t *place = &self->places [index];
        if (!s_is_sound (self, place->id, self->run + place->at))
            return s_fail_bucket (self, -EBADMSG, "use");
        int rc = s_write_sample (self, place->id, self->run + place->at);
        if (rc)
            return rc;
        s_tell (self);
    }
    return 0;
}

static int
s_journal (writing_t *self)
{
    int rc = s_sync (self);
    self->packing->journal.positions = self->position;
    rc = rc? rc: packing_journal_save (self->packing);
    return rc? rc: s_hand_over (self);
}

//  One run, after which everything is durable.
static int
s_take_run (writing_t *self)
{
    const packing_t *packing = self->packing;
    uint32_t id = self->plan->order [self->position];
    uint32_t bucket = packing_bucket (packing->journal.seed, id, packing->journal.buckets);
    int rc = 0;
    if (self->bucket_fd < 0 || bucket != self->bucket) {
        if (self->bucket_fd >= 0)
            close (self->bucket_fd);
        self->bucket_fd = -1;
        rc = s_delete_buckets (self, self->bucket, bucket);
        if (rc == 0)
            rc = s_open_bucket (self, bucket);
    }
    if (rc == 0)
        rc = s_choose_run (self);
    if (rc == 0)
        rc = s_read_run (self);
    if (rc == 0)
        rc = s_write_run (self);
    if (rc == 0)
        rc = s_journal (self);
    if (rc == 0 && packing_is_stopped (packing))
        rc = packing_fail (packing, -ECANCELED, "stopped: go on with --resume");
    return rc;
}


//  -- all of it

static int
s_find_places (writing_t *self)
{
    const packing_t *packing = self->packing;
    self->from = reallocarray (NULL, packing->samples, sizeof *self->from);
    uint64_t *ends = calloc (packing->journal.buckets, sizeof *ends);
    for (uint32_t id = 0; self->from && ends && id < packing->samples; id++) {
        uint64_t *end = &ends [packing_bucket (packing->journal.seed, id, packing->journal.buckets)];
        uint64_t bytes = packing_sample_bytes (packing, id);
        self->from [id] = *end;
        *end += bytes;
        self->bytes_total += bytes;
    }
    free (ends);
    return ends && self->from? 0: packing_fail_memory (packing);
}

static int
s_open (writing_t *self)
{
    uint64_t memory = self->packing->options->memory_bytes;
    self->output_limit = memory / 8 < OUTPUT_BYTES_MAX? (size_t) memory / 8: OUTPUT_BYTES_MAX;
    self->run_limit = memory - self->output_limit;
    self->output = malloc (self->output_limit);
    self->run = malloc (self->run_limit);       //  pages that no run needs are never allocated
    if (!self->output || !self->run)
        return packing_fail (self->packing, -ENOMEM,
            "not enough memory for %llu bytes of samples: give less --memory", (unsigned long long) memory);
    int rc = s_find_places (self);
    return rc? rc: s_go_on (self);
}

static void
s_close (writing_t *self)
{
    if (self->volume_fd >= 0)
        close (self->volume_fd);
    if (self->bucket_fd >= 0)
        close (self->bucket_fd);
    free (self->from);
    free (self->places);
    free (self->run);
    free (self->output);
}

int
packing_write_volumes (packing_t *packing, const packing_plan_t *plan)
{
    writing_t self = { .packing = packing, .plan = plan, .bucket_fd = -1, .volume_fd = -1 };
    int rc = s_open (&self);
    while (rc == 0 && self.position < packing->samples)
        rc = s_take_run (&self);
    if (rc == 0)
        rc = s_close_volume (&self);
    if (rc == 0 && packing->upload)
        rc = packing_upload_finish (packing->upload);
    s_close (&self);
    return rc;
}
