#include "block_folder.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "file.h"

enum { UNIT = BLOCK_DATA_UNIT_BYTES, CHUNK = BLOCK_CACHE_UNITS_MAX, HEAD_BYTES = BLOCK_CACHE_BLOCK_BYTES };

static int
s_open_file (const block_cache_t *cache, const char *key, const char *file, int flags)
{
    char path [BLOCK_CACHE_PATH_BYTES];
    snprintf (path, sizeof path, "%.32s/%s", key, file);
    int descriptor = openat (block_cache_descriptor (cache), path, flags | O_NOFOLLOW | O_CLOEXEC);
    return descriptor < 0? -errno: descriptor;
}

//  The checksums of units from `first` on; how many there are.
static size_t
s_read_sums (int descriptor, uint64_t first, uint32_t sums [CHUNK])
{
    uint64_t offset = HEAD_BYTES + first * sizeof *sums;
    return file_read_at (descriptor, sums, CHUNK * sizeof *sums, offset) / sizeof *sums;
}


//  -- listing

//  Under the cache's lock: a server that opens the data set takes its lock under it, too.
static bool
s_is_open (const block_cache_t *cache, const char *key, int64_t *used_s_p)
{
    int lock = s_open_file (cache, key, "lock", O_RDWR);
    struct stat status;
    *used_s_p = lock >= 0 && fstat (lock, &status) == 0? status.st_mtim.tv_sec: 0;
    bool is_open = lock >= 0 && flock (lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (lock >= 0)
        close (lock);
    return is_open;
}

static void
s_count (const block_cache_t *cache, block_folder_entry_t *entry)
{
    int data = s_open_file (cache, entry->key, "data", O_RDONLY),
        sums = s_open_file (cache, entry->key, "sums", O_RDONLY);
    block_cache_head_t head = { .held = 0 };
    struct stat status;
    if (sums >= 0) {
        entry->is_newer = block_cache_is_newer (sums);
        block_data_read_note (sums, &entry->note);
        block_cache_head_read (cache, entry->key, sums, &head);
        entry->taken_bytes = block_cache_room_taken (cache, entry->key, head.stores);
    }
    bool is_list = entry->note.kind == BLOCK_NOTE_OBJECT_LIST || entry->note.kind == BLOCK_NOTE_FILE_LIST;
    entry->bytes = entry->note.bytes? entry->note.bytes: !is_list && data >= 0
        && fstat (data, &status) == 0? (uint64_t) status.st_size: 0;
    uint32_t chunk [CHUNK];
    for (uint64_t first = 0, found = 1; sums >= 0 && !entry->is_newer && found > 0; first += found) {
        found = s_read_sums (sums, first, chunk);
        for (size_t index = 0; index < found; index++)
            entry->held_bytes += chunk [index]? UNIT: 0;
    }
    if (data >= 0)
        close (data);
    if (sums >= 0)
        close (sums);
}

static int
s_compare (const void *left, const void *right)
{
    const block_folder_entry_t *a = left, *b = right;
    int order = strcmp (a->note.name, b->note.name);
    return order? order: a->note.kind != b->note.kind? (a->note.kind > b->note.kind) - (a->note.kind
        < b->note.kind): strcmp (a->key, b->key);
}

typedef struct {
    const block_cache_t *cache;
    block_folder_entry_t *entries;
    size_t count, limit;
    int rc;
} list_t;

static void
s_add (void *context, const char *name)
{
    list_t *self = context;
    if (self->count == self->limit) {
        self->limit = self->limit? 2 * self->limit: 16;
        block_folder_entry_t *grown = reallocarray (self->entries, self->limit, sizeof *grown);
        self->entries = grown? grown: self->entries;
        self->limit = grown? self->limit: self->count;
        self->rc = grown? self->rc: -ENOMEM;
    }
    if (self->rc)
        return;
    block_folder_entry_t *entry = &self->entries [self->count++];
    *entry = (block_folder_entry_t) { .is_open = false };
    snprintf (entry->key, sizeof entry->key, "%.32s", name);
    entry->is_open = s_is_open (self->cache, name, &entry->used_s);
}

//  Which data sets there are and which of them are open is found under the lock; what is read of each takes
//  longer, and comes later.
int
block_folder_list (block_cache_t *cache, block_folder_entry_t **entries_p, size_t *count_p)
{
    assert (cache); assert (entries_p); assert (count_p);
    list_t list = { .cache = cache };
    list.rc = block_cache_begin (cache, true);
    if (list.rc == 0) {
        int rc = block_cache_each (cache, s_add, &list);
        list.rc = list.rc? list.rc: rc;
        block_cache_end (cache);
    }
    for (size_t index = 0; list.rc == 0 && index < list.count; index++)
        s_count (cache, &list.entries [index]);
    if (list.count > 0)
        qsort (list.entries, list.count, sizeof *list.entries, s_compare);
    if (list.rc)
        free (list.entries);
    *entries_p = list.rc? NULL: list.entries;
    *count_p = list.rc? 0: list.count;
    return list.rc;
}


//  -- dropping

//  Under the lock no server can begin to use one.
int
block_folder_drop (block_cache_t *cache, block_folder_entry_t *entries, size_t count, uint64_t *freed_p)
{
    assert (cache); assert (entries); assert (freed_p);
    *freed_p = 0;
    int rc = block_cache_begin (cache, true);
    if (rc)
        return rc;
    int64_t used_s;
    for (size_t index = 0; index < count; index++) {
        entries [index].is_open = s_is_open (cache, entries [index].key, &used_s);
        rc = entries [index].is_open? -EBUSY: rc;
    }
    uint64_t before = block_cache_bytes (cache);
    for (size_t index = 0; rc == 0 && index < count; index++)
        rc = block_cache_remove (cache, entries [index].key);
    uint64_t after = block_cache_bytes (cache);
    block_cache_end (cache);
    *freed_p = before > after? before - after: 0;
    return rc;
}


//  -- checking

typedef struct {
    block_cache_t *cache;
    bool is_open;                       //  a server uses the data set
    int sums, data;
    const block_folder_file_t *files;
    size_t file_count, file;            //  the last one that begins before the unit
    uint64_t end;                       //  of all units that are judged
    block_folder_check_t *check;
} checker_t;

//  The file that has the unit, and the unit's bytes; NULL: none.
static const block_folder_file_t *
s_file (checker_t *self, uint64_t unit, size_t *bytes_p)
{
    uint64_t offset = unit * UNIT;
    while (self->file + 1 < self->file_count && self->files [self->file + 1].place <= offset)
        self->file++;
    const block_folder_file_t *file = &self->files [self->file];
    if (self->file_count == 0 || offset < file->place || offset >= file->place + file->bytes)
        return NULL;
    uint64_t left = file->place + file->bytes - offset;
    *bytes_p = left < UNIT? (size_t) left: UNIT;
    return file;
}

//  How many bytes of an object's last unit there are is not noted.  Behind them there are zeros, so that most
//  often the first length is theirs.
static bool
s_matches_shorter (uint64_t unit, uint32_t sum, const uint8_t *memory)
{
    size_t least = UNIT;
    while (least > 1 && memory [least - 1] == 0)
        least--;
    for (size_t bytes = least; bytes < UNIT; bytes++)
        if (block_data_sum (unit, 0, memory, bytes) == sum)
            return true;
    return false;
}

//  Whether the unit has this checksum, if it has `bytes` bytes and is of the file that s_file says.
static bool
s_matches (const checker_t *self, const block_folder_file_t *file, size_t bytes, uint64_t unit, uint32_t sum,
    const uint8_t *memory)
{
    if (self->files)
        return block_data_sum (unit, file->owner, memory, bytes) == sum;
    return block_data_sum (unit, 0, memory, UNIT) == sum || s_matches_shorter (unit, sum, memory);
}

//  0, or -errno and it is still there.
static int
s_throw_away (checker_t *self, uint64_t unit)
{
    static const uint32_t none = 0;
    int rc = file_write_at (self->sums, &none, sizeof none, HEAD_BYTES + unit * sizeof none);
    if (rc)
        return block_cache_failed (self->cache, rc);
    fallocate (self->data, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) (unit * UNIT), UNIT);
    return 0;
}

//  Once more, under the lock that servers write under: what a server has replaced meanwhile is whole.
static int
s_judge (checker_t *self, uint64_t unit, const block_folder_file_t *file, size_t bytes)
{
    uint8_t memory [UNIT] = { 0 };
    uint32_t sum;
    int rc = block_cache_begin (self->cache, true);
    if (rc)
        return rc;
    uint64_t place = HEAD_BYTES + unit * sizeof sum;
    bool is_here = file_read_at (self->sums, &sum, sizeof sum, place) == sizeof sum && sum;
    //  The file ends with the last object.
    errno = 0;
    bool is_read = is_here && (file_read_at (self->data, memory, UNIT, unit * UNIT) > 0 || errno == 0);
    if (is_here && self->files && !file) {
        rc = self->is_open? 0: s_throw_away (self, unit);
        self->check->unowned += rc == 0;
    }
    else
    if (is_here && !(is_read && s_matches (self, file, bytes, unit, sum, memory))) {
        rc = s_throw_away (self, unit);
        self->check->damaged += rc == 0;
    }
    block_cache_end (self->cache);
    return rc;
}

static int
s_check_chunk (checker_t *self, uint64_t first, const uint32_t *sums, size_t count, uint8_t *memory)
{
    memset (memory, 0, (size_t) count * UNIT);
    file_read_at (self->data, memory, (size_t) count * UNIT, first * UNIT);
    for (size_t index = 0; index < count; index++) {
        uint64_t unit = first + index;
        size_t bytes = UNIT;
        const block_folder_file_t *file = self->files? s_file (self, unit, &bytes): NULL;
        if (!sums [index] || unit >= self->end)
            continue;
        self->check->held++;
        bool is_good = (!self->files || file)
            && s_matches (self, file, bytes, unit, sums [index], memory + index * UNIT);
        int rc = is_good? 0: s_judge (self, unit, file, bytes);
        if (rc)
            return rc;
    }
    return 0;
}

static int
s_check_all (checker_t *self, block_folder_tell_fn *tell, void *context)
{
    uint32_t sums [CHUNK];
    uint8_t *memory = malloc ((size_t) CHUNK * UNIT);
    int rc = memory? 0: -ENOMEM;
    size_t found = 1;
    for (uint64_t first = 0; rc == 0 && found > 0; first += found) {
        found = s_read_sums (self->sums, first, sums);
        size_t here = 0;
        for (size_t index = 0; index < found; index++)
            here += sums [index] != 0;
        if (here == 0)
            continue;
        //  What no server uses is read of the disk itself.
        off_t begin = (off_t) (first * UNIT), bytes = (off_t) (found * UNIT);
        if (!self->is_open)
            posix_fadvise (self->data, begin, bytes, POSIX_FADV_DONTNEED);
        rc = s_check_chunk (self, first, sums, found, memory);
        if (!self->is_open)
            posix_fadvise (self->data, begin, bytes, POSIX_FADV_DONTNEED);
        if (tell)
            tell (context, here * UNIT);
    }
    free (memory);
    return rc;
}

//  Of an earlier Tureen, which has noted nothing: a data set of files has checksums that cover each unit's
//  owner.  False as well if all that is looked at is damaged.
static bool
s_has_no_owners (const checker_t *self)
{
    enum { LOOKS = 64 };
    uint32_t sums [CHUNK];
    uint8_t memory [UNIT];
    size_t found = 1, looks = 0;
    for (uint64_t first = 0; found > 0 && looks < LOOKS; first += found) {
        found = s_read_sums (self->sums, first, sums);
        for (size_t index = 0; index < found && looks < LOOKS; index++) {
            if (!sums [index])
                continue;
            memset (memory, 0, sizeof memory);
            file_read_at (self->data, memory, UNIT, (first + index) * UNIT);
            if (s_matches (self, NULL, UNIT, first + index, sums [index], memory))
                return true;
            looks++;
        }
    }
    return looks == 0;
}

//  Holds the data set as a server does, so that none removes it.
static int
s_hold (block_cache_t *cache, const char *key, bool *is_open_p)
{
    int rc = block_cache_begin (cache, true);
    if (rc)
        return rc;
    int64_t used_s;
    *is_open_p = s_is_open (cache, key, &used_s);
    int lock = s_open_file (cache, key, "lock", O_RDWR);
    if (lock >= 0 && flock (lock, LOCK_SH | LOCK_NB) != 0) {
        rc = -errno;
        close (lock);
    }
    block_cache_end (cache);
    return rc? rc: lock;
}

//  What was thrown away is less that the cache takes.
static int
s_count_again (block_cache_t *cache)
{
    int rc = block_cache_begin (cache, true);
    if (rc)
        return rc;
    rc = block_cache_room_count (cache);
    block_cache_end (cache);
    return rc;
}

int
block_folder_check (block_cache_t *cache, const block_folder_entry_t *entry, const block_folder_file_t *files,
    size_t file_count, block_folder_tell_fn *tell, void *context, block_folder_check_t *check)
{
    assert (cache); assert (entry); assert (check);
    *check = (block_folder_check_t) { .held = 0 };
    if (entry->is_newer)
        return -ENOTSUP;
    //  Of files, units behind the last one are not judged: files that a server finds after their list was
    //  read have their places there.
    const block_folder_file_t *last = file_count > 0? &files [file_count - 1]: NULL;
    uint64_t end = last? (last->place + last->bytes + UNIT - 1) / UNIT: 0;
    checker_t self = { .cache = cache, .files = files, .file_count = file_count, .check = check,
        .end = files? end: UINT64_MAX };
    int lock = s_hold (cache, entry->key, &self.is_open);
    if (lock < 0)
        return lock;
    self.sums = s_open_file (cache, entry->key, "sums", O_RDWR);
    self.data = s_open_file (cache, entry->key, "data", O_RDWR);
    int rc = self.sums < 0? self.sums: self.data < 0? self.data: 0;
    check->is_checked = files || (rc == 0 && entry->note.kind != BLOCK_NOTE_FILES
        && (entry->note.kind != BLOCK_NOTE_UNKNOWN || s_has_no_owners (&self)));
    if (rc == 0 && check->is_checked)
        rc = s_check_all (&self, tell, context);
    if (rc == 0 && check->damaged + check->unowned > 0)
        rc = s_count_again (cache);
    if (self.sums >= 0)
        close (self.sums);
    if (self.data >= 0)
        close (self.data);
    close (lock);
    return rc;
}
