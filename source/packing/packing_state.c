//  What both passes share: the order of a pack, sentences, whole reads and writes, and the two files that say
//  what is durable.

#include "file.h"
#include "packing_state.h"
#include "utf8.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

//  -- the order

typedef struct {
    uint64_t high, low;
} sample_key_t;

static sample_key_t
s_key (uint64_t seed, uint32_t id)
{
    //  The seed twice: as a number that is hashed it cannot meet the id, as XXH3's seed it changes what is
    //  hashed with.
    uint64_t numbers [3] = { htole64 (seed), htole64 (id), htole64 (UINT64_C (0x6b63617065657275)) };
    XXH128_hash_t hash = XXH3_128bits_withSeed (numbers, sizeof numbers, seed);
    return (sample_key_t) { hash.high64, hash.low64 };
}

uint32_t
packing_bucket (uint64_t seed, uint32_t id, uint32_t buckets)
{
    assert (buckets > 0);
    return (uint32_t) ((unsigned __int128) s_key (seed, id).high * buckets >> 64);
}

static int
s_compare (const void *left, const void *right, void *seed_p)
{
    uint32_t a = *(const uint32_t *) left, b = *(const uint32_t *) right;
    sample_key_t x = s_key (*(uint64_t *) seed_p, a), y = s_key (*(uint64_t *) seed_p, b);
    if (x.high != y.high)
        return x.high < y.high? -1: 1;
    if (x.low != y.low)
        return x.low < y.low? -1: 1;
    return (a > b) - (a < b);
}

void
packing_order (uint64_t seed, uint32_t count, uint32_t *order)
{
    assert (order || count == 0);
    for (uint32_t id = 0; id < count; id++)
        order [id] = id;
    //  Keys are hashed again at each comparison, which keeps memory at 4 bytes a sample: a million take a
    //  second.
    if (count)
        qsort_r (order, count, sizeof *order, s_compare, &seed);
}


//  -- the layout

static uint64_t
s_whole_blocks (uint64_t bytes)
{
    return (bytes + PACK_BLOCK_BYTES - 1) / PACK_BLOCK_BYTES * PACK_BLOCK_BYTES;
}

static int
s_add_volume (pack_volume_t **volumes_p, uint32_t *count_p, uint32_t first)
{
    pack_volume_t *volumes = *volumes_p;
    if ((*count_p & (*count_p - 1)) == 0) {             //  room for 1, 2, 4 ..
        volumes = reallocarray (*volumes_p, *count_p? 2 * (size_t) *count_p: 1, sizeof *volumes);
        if (!volumes)
            return -ENOMEM;
        *volumes_p = volumes;
    }
    volumes [(*count_p)++] = (pack_volume_t) { .bytes = PACK_BLOCK_BYTES, .first = first };
    return 0;
}

int
packing_layout (const packing_layout_t *self, pack_place_t *places, pack_volume_t **volumes_p,
    uint32_t *count_p)
{
    assert (self && self->samples && self->chunk_samples && self->order && self->bytes);
    assert (places); assert (volumes_p); assert (count_p);
    *volumes_p = NULL;
    *count_p = 0;
    uint64_t at = 0;
    for (uint32_t position = 0; position < self->samples; position++) {
        if (position % self->chunk_samples == 0) {
            at = s_whole_blocks (at);
            if (position == 0 || at > self->volume_bytes) {
                if (s_add_volume (volumes_p, count_p, position)) {
                    free (*volumes_p);
                    *volumes_p = NULL;
                    return -ENOMEM;
                }
                at = PACK_BLOCK_BYTES;
            }
        }
        uint32_t id = self->order [position];
        places [id] = (pack_place_t) { .offset = at, .volume = *count_p - 1, .position = position };
        at += self->bytes (self->context, id);
        (*volumes_p) [*count_p - 1].bytes = s_whole_blocks (at);
    }
    return 0;
}


//  -- errors

int
packing_fail (const packing_t *self, int rc, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (self->error, PACK_SOURCE_ERROR_BYTES, format, arguments);
    va_end (arguments);
    utf8_mask (self->error);
    return rc;
}

static const char *
s_remedy (int rc)
{
    switch (-rc) {
    case ENOSPC: case EDQUOT: return "free room there, then go on with --resume";
    case EFBIG: return "raise the limit of file sizes or use another file system, then go on with --resume";
    case EACCES: case EPERM: return "let this user write there";
    case EROFS: return "choose a file system that can be written to";
    case EMFILE: case ENFILE: return "raise the limit of open files (ulimit -n), then go on with --resume";
    case ENOENT: return "something deleted it; begin anew in another folder";
    case ENODATA: case EBADMSG: return "check the disk, then begin anew in another folder";
    default: return "check the file system, then go on with --resume";
    }
}

int
packing_fail_file (const packing_t *self, int rc, const char *what, const char *name)
{
    return packing_fail (self, rc, "cannot %s '%.600s%s%s' (%s): %s", what, self->options->target,
        *name? "/": "", name,
        rc == -ENODATA? "it ends too early": rc == -EBADMSG? "it is damaged": strerror (-rc), s_remedy (rc));
}

int
packing_fail_memory (const packing_t *self)
{
    return packing_fail (self, -ENOMEM,
        "not enough memory for the tables of %llu samples: free memory, then go on "
        "with --resume", (unsigned long long) self->samples);
}


//  -- whole reads

int
packing_read (int fd, void *bytes, size_t size, uint64_t offset)
{
    errno = 0;
    if (file_read_at (fd, bytes, size, offset) == size)
        return 0;
    return errno? -errno: -ENODATA;
}


//  -- the journal

static const char s_journal [] = PACKING_FOLDER "/journal";

static uint64_t
s_checksum (const packing_journal_t *journal)
{
    return XXH3_64bits (journal, offsetof (packing_journal_t, checksum));
}

static bool
s_is_sound (const packing_journal_t *journal)
{
    return memcmp (journal->magic, PACKING_JOURNAL_MAGIC, sizeof journal->magic) == 0
        && journal->checksum == s_checksum (journal) && (journal->pass == 1 || journal->pass == 2)
        && journal->sample_files <= CATALOGUE_FIELDS_MAX && journal->samples < UINT32_MAX
        && (journal->samples == 0 || journal->sample_files > 0)
        && journal->positions <= journal->samples && journal->volume_bytes
        && journal->buckets && journal->buckets <= PACKING_BUCKETS_MAX
        && journal->chunk_samples && journal->chunk_samples % PACK_CHUNK_SAMPLES == 0
        && journal->chunk_samples <= PACK_CHUNK_SAMPLES_MAX
        && memchr (journal->signature, 0, sizeof journal->signature);
}

int
packing_journal_load (packing_t *self)
{
    int fd = openat (self->folder_fd, "journal", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT? 0: packing_fail_file (self, -errno, "open", s_journal);
    int rc = packing_read (fd, &self->journal, sizeof self->journal, 0);
    close (fd);
    if (rc == 0 && !s_is_sound (&self->journal))
        rc = -EBADMSG;
    return rc? packing_fail_file (self, rc, "read", s_journal): 1;
}

int
packing_journal_save (packing_t *self)
{
    memcpy (self->journal.magic, PACKING_JOURNAL_MAGIC, sizeof self->journal.magic);
    self->journal.checksum = s_checksum (&self->journal);
    int fd = openat (self->folder_fd, "journal.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
        0666);
    if (fd < 0)
        return packing_fail_file (self, -errno, "write", s_journal);
    int rc = file_write_at (fd, &self->journal, sizeof self->journal, 0);
    if (rc == 0 && fsync (fd) != 0)
        rc = -errno;
    close (fd);
    if (rc == 0 && renameat (self->folder_fd, "journal.new", self->folder_fd, "journal") != 0)
        rc = -errno;
    rc = rc? rc: file_sync (self->folder_fd);
    return rc? packing_fail_file (self, rc, "write", s_journal): 0;
}


//  -- the table

static const char s_table [] = PACKING_FOLDER "/table";

static int
s_make_room (packing_t *self, size_t count)
{
    if (count <= self->file_limit)
        return 0;
    size_t limit = self->file_limit < 512? 1024: 2 * self->file_limit;
    if (limit < count)
        limit = count;
    packing_file_t *files = reallocarray (self->files, limit, sizeof *files);
    if (!files)
        return packing_fail_memory (self);
    self->files = files;
    self->file_limit = limit;
    return 0;
}

int
packing_table_open (packing_t *self)
{
    self->table_fd = openat (self->folder_fd, "table", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (self->table_fd < 0)
        return packing_fail_file (self, -errno, "open", s_table);
    size_t count = self->journal.samples * self->journal.sample_files;
    int rc = s_make_room (self, count);
    if (rc)
        return rc;
    rc = packing_read (self->table_fd, self->files, count * sizeof *self->files, 0);
    for (size_t index = 0; rc == 0 && index < count; index++)
        rc = self->files [index].zero == 0? 0: -EBADMSG;
    if (rc)
        return packing_fail_file (self, rc, "read", s_table);
    self->file_count = count;
    self->samples = self->journal.samples;
    return 0;
}

int
packing_table_add (packing_t *self, const packing_file_t *files)
{
    size_t sample_files = self->journal.sample_files;
    int rc = s_make_room (self, self->file_count + sample_files);
    if (rc)
        return rc;
    memcpy (self->files + self->file_count, files, sample_files * sizeof *files);
    self->file_count += sample_files;
    self->samples++;
    return 0;
}

int
packing_table_sync (packing_t *self)
{
    size_t durable = self->journal.samples * self->journal.sample_files;
    if (self->file_count == durable)
        return 0;
    int rc = file_write_at (self->table_fd, self->files + durable,
        (self->file_count - durable) * sizeof *self->files, durable * sizeof *self->files);
    if (rc == 0 && fdatasync (self->table_fd) != 0)
        rc = -errno;
    return rc? packing_fail_file (self, rc, "write", s_table): 0;
}


//  -- small answers

uint64_t
packing_sample_bytes (const packing_t *self, uint32_t id)
{
    uint64_t bytes = 0;
    for (size_t file = 0; file < self->journal.sample_files; file++)
        bytes += self->files [id * (size_t) self->journal.sample_files + file].bytes;
    return bytes;
}

const char *
packing_bucket_name (uint32_t bucket, bool with_folder, char name [PACKING_NAME_BYTES])
{
    snprintf (name, PACKING_NAME_BYTES, "%s" PACKING_BUCKET_NAME, with_folder? PACKING_FOLDER "/": "",
        bucket);
    return name;
}

bool
packing_is_stopped (const packing_t *self)
{
    return self->options->stopped && self->options->stopped (self->options->context);
}
