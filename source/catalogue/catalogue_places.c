//  The files of a field are one address space.  A list on the local disk says which part of it each file has.
//  Files that are in the list keep their parts.  New files get parts behind all others, in random order:
//  files that lie together are of different classes.  A file of another size, or other times, than before is
//  a new one, and what was kept of a file that has gone or changed is given up.  When most of the space is
//  given up, the files get a new space, and the cache removes the old one when it needs the room.
//
//  A file's path, size and times make its *owner* number, which the checksums of its bytes cover.  So a list
//  that is wrong, because two servers wrote it at once or one was killed, costs reads, and no file gets
//  another one's bytes.
//
//  The list is a head and an entry for each file, in units, with one checksum over all.

#include "catalogue_places.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xxhash.h>

#define LIST_MAGIC UINT64_C (0x3230736c70656574)        //  "teepls02"
#define SLOT_BYTES (UINT64_C (1) << 30)                 //  of a list: 33 million files
#define SPARE_BYTES (UINT64_C (1) << 26)                //  that may be given up beside half of the space

enum { SLOTS = 2 };

typedef struct {
    uint64_t magic, count;
    uint64_t serial;                    //  of the list, from 1 on; its slot
    uint64_t generation;                //  of the space
    uint64_t end;                       //  of the parts
    uint64_t hash [2];                  //  of what is behind the head
    uint64_t zero;
} head_t;

typedef struct {
    uint64_t owner [2];
    uint64_t place, bytes;
} entry_t;

_Static_assert (sizeof (head_t) == 64 && sizeof (entry_t) == 32, "written as they are");

typedef struct {
    draft_t *draft;
    size_t field;
    char *name;                         //  of the data set in the cache
    const char *folder;                 //  in it: the field's
    block_data_t *blocks;               //  of the list; the field's
    head_t head;
    uint64_t slot_bytes [SLOTS];        //  that a list takes there
    entry_t *entries;                   //  as they were listed
    size_t listed;
    bool *is_used;                      //  by entry
    lookup_t table;                     //  of the entries
    uint32_t *new_ids;
    size_t new_count;
    entry_t *files;                     //  by sample, and behind them gone ones that still take room
    size_t gone_count;
} places_t;


//  -- owners

uint32_t
catalogue_places_tag (const struct stat *status)
{
    int64_t time [] = { status->st_mtim.tv_sec, status->st_mtim.tv_nsec, status->st_ctim.tv_sec,
        status->st_ctim.tv_nsec };
    return (uint32_t) XXH3_64bits (time, sizeof time) | 1;
}

static XXH128_hash_t
s_owner (const catalogue_t *self, uint32_t id, size_t field)
{
    char path [PATH_MAX + 16];
    size_t length = catalogue_path (self, id, field, path, PATH_MAX);
    uint64_t bytes = catalogue_file_bytes (self, id, field);
    uint32_t tag = self->fields [field].tags [id];
    memcpy (path + length, &bytes, sizeof bytes);
    memcpy (path + length + sizeof bytes, &tag, sizeof tag);
    return XXH3_128bits (path, length + sizeof bytes + sizeof tag);
}

bool
catalogue_places_is_unchanged (const catalogue_t *self, uint32_t id, size_t field, int fd)
{
    struct stat status;
    return fstat (fd, &status) == 0 && catalogue_places_tag (&status) == self->fields [field].tags [id]
        && (uint64_t) status.st_size == catalogue_file_bytes (self, id, field);
}

//  0 stands for none.
static uint64_t
s_number (uint64_t owner)
{
    return owner? owner: 1;
}

uint64_t
catalogue_owner (const catalogue_t *self, uint32_t id, size_t field)
{
    assert (self->fields [field].blocks);
    return s_number (s_owner (self, id, field).low64);
}


//  -- the list on the local disk, which has two slots: the old list stays until the new one is whole

static uint64_t
s_units (uint64_t bytes)
{
    return block_data_next (0, bytes);
}

static uint64_t
s_slot (uint64_t serial)
{
    return serial % SLOTS * SLOT_BYTES;
}

//  The count may be anything: what is on the disk is not trusted before its checksum.
static uint64_t
s_list_bytes (const head_t *head)
{
    if (head->magic != LIST_MAGIC || head->count > (SLOT_BYTES - sizeof *head) / sizeof (entry_t))
        return 0;
    return s_units (sizeof *head + head->count * sizeof (entry_t));
}

//  0: there is none; else what the list takes.
static uint64_t
s_look (const places_t *self, size_t slot, head_t *head)
{
    uint8_t first [BLOCK_DATA_UNIT_BYTES];
    block_data_gap_t gap = block_data_read (self->blocks, s_slot (slot), sizeof first, first);
    memcpy (head, first, sizeof *head);
    return gap.begin < gap.end || head->serial % SLOTS != slot? 0: s_list_bytes (head);
}

//  Takes the list in the slot if it is whole; -ENOMEM.
static int
s_load (places_t *self, const head_t *head)
{
    size_t bytes = head->count * sizeof (entry_t);
    uint8_t *memory = malloc (s_list_bytes (head));
    if (!memory)
        return -ENOMEM;
    block_data_gap_t gap = block_data_read (self->blocks, s_slot (head->serial), s_list_bytes (head), memory);
    XXH128_hash_t hash = XXH3_128bits (memory + sizeof *head, bytes);
    bool is_whole = gap.begin >= gap.end && memcmp (memory, head, sizeof *head) == 0
        && hash.low64 == head->hash [0] && hash.high64 == head->hash [1];
    if (is_whole) {
        memmove (memory, memory + sizeof *head, bytes);
        free (self->entries);
        self->entries = (entry_t *) memory;
        self->listed = head->count;
        self->head = *head;
    }
    else
        free (memory);
    return 0;
}

//  The newest list that is whole; an empty one where there is none.  -ENOMEM.
static int
s_load_newest (places_t *self)
{
    int rc = 0;
    self->head = (head_t) { .magic = LIST_MAGIC };
    for (size_t slot = 0; rc == 0 && slot < SLOTS; slot++) {
        head_t head;
        self->slot_bytes [slot] = s_look (self, slot, &head);
        if (self->slot_bytes [slot] > 0 && head.serial > self->head.serial)
            rc = s_load (self, &head);
    }
    return rc;
}

//  Writes the new list into the slot of the older one, if there is room without removing other data sets.
//  Then the old one goes.  False: the old one stays.
static bool
s_save (places_t *self)
{
    head_t head = self->head;
    head.serial++;
    head.count = self->draft->self->sample_count + self->gone_count;
    uint64_t bytes = s_list_bytes (&head), entries = head.count * sizeof (entry_t), place
        = s_slot (head.serial);
    uint8_t *memory = bytes? calloc (1, bytes): NULL;
    if (!memory)
        return false;
    memcpy (memory + sizeof head, self->files, entries);
    XXH128_hash_t hash = XXH3_128bits (memory + sizeof head, entries);
    head.hash [0] = hash.low64;
    head.hash [1] = hash.high64;
    memcpy (memory, &head, sizeof head);
    //  What the older list takes beyond this one; the rest is replaced.
    uint64_t older = self->slot_bytes [head.serial % SLOTS];
    if (older > bytes)
        block_data_drop (self->blocks, place + bytes, older - bytes);
    bool is_whole = block_data_store_modestly (self->blocks, place, bytes, memory);
    free (memory);
    uint64_t old = self->slot_bytes [self->head.serial % SLOTS];
    if (!is_whole)
        block_data_drop (self->blocks, place, bytes);
    else
    if (old > 0)
        block_data_drop (self->blocks, s_slot (self->head.serial), old);
    return is_whole;
}


//  -- which part each file has

typedef struct {
    const places_t *places;
    const entry_t *file;
} wanted_t;

static bool
s_is_same (const void *argument, uint32_t item)
{
    const wanted_t *wanted = argument;
    const entry_t *entry = &wanted->places->entries [item];
    return memcmp (entry->owner, wanted->file->owner, sizeof entry->owner) == 0
        && entry->bytes == wanted->file->bytes;
}

static int
s_compare_owners (const void *left, const void *right, void *argument)
{
    const places_t *self = argument;
    uint32_t a = *(const uint32_t *) left, b = *(const uint32_t *) right;
    uint64_t first = self->files [a].owner [0], second = self->files [b].owner [0];
    return first != second? first < second? -1: 1: a < b? -1: a > b;
}

//  Files that are listed keep their parts; the others are noted.
static int
s_find (places_t *self)
{
    const catalogue_t *catalogue = self->draft->self;
    for (size_t item = 0; item < self->listed; item++)
        if (catalogue_lookup_add (&self->table, self->entries [item].owner [0], (uint32_t) item))
            return -ENOMEM;
    for (uint32_t id = 0; id < catalogue->sample_count; id++) {
        uint64_t bytes = catalogue_file_bytes (catalogue, id, self->field);
        XXH128_hash_t owner = s_owner (catalogue, id, self->field);
        //  One beyond the bound is never read.
        self->files [id] = (entry_t) { .owner = { owner.low64, owner.high64 },
            .bytes = bytes <= CATALOGUE_SAMPLE_BYTES_MAX? bytes: 0 };
        wanted_t wanted = { .places = self, .file = &self->files [id] };
        int64_t item = catalogue_lookup_find (&self->table, owner.low64, s_is_same, &wanted);
        if (item == LOOKUP_NONE)
            self->new_ids [self->new_count++] = id;
        else {
            self->files [id].place = self->entries [item].place;
            self->is_used [item] = true;
        }
    }
    return 0;
}

//  In the order of their owners, which is random.
static void
s_place_new (places_t *self)
{
    qsort_r (self->new_ids, self->new_count, sizeof *self->new_ids, s_compare_owners, self);
    for (size_t index = 0; index < self->new_count; index++) {
        entry_t *file = &self->files [self->new_ids [index]];
        file->place = self->head.end;
        self->head.end = block_data_next (file->place, file->bytes);
    }
}

//  Whether most of the space has been given up: then all files are new in another space.
static bool
s_begin_anew (places_t *self)
{
    uint64_t live = 0;
    const catalogue_t *catalogue = self->draft->self;
    for (uint32_t id = 0; id < catalogue->sample_count; id++)
        live += s_units (self->files [id].bytes);
    if (self->head.end <= 2 * live + SPARE_BYTES || block_cache_is_guest (self->draft->cache))
        return false;
    self->head.generation++;
    self->head.end = 0;
    for (uint32_t id = 0; id < catalogue->sample_count; id++)
        self->new_ids [id] = id;
    self->new_count = catalogue->sample_count;
    s_place_new (self);
    return true;
}

static int
s_compare_places (const void *left, const void *right)
{
    const entry_t *a = left, *b = right;
    return a->place < b->place? -1: a->place > b->place;
}

//  Gives up what was kept of files that have gone, or have changed, in runs.  Where the disk does not answer,
//  or another server has its lock for long, the rest stays in the list, and a later start goes on.
static void
s_give_up (places_t *self, block_data_t *blocks)
{
    entry_t *gone = self->files + self->draft->self->sample_count;
    size_t done = 0;
    for (size_t item = 0; item < self->listed; item++)
        if (!self->is_used [item] && self->entries [item].bytes > 0)
            gone [self->gone_count++] = self->entries [item];
    qsort (gone, self->gone_count, sizeof *gone, s_compare_places);
    progress_step (self->draft->progress, &(progress_step_t) { .what = "giving up files that have changed",
        .unit = "files", .total = self->gone_count }, 0);
    for (size_t next; done < self->gone_count; done = next) {
        uint64_t begin = gone [done].place, end = begin;
        for (next = done; next < self->gone_count && gone [next].place == end; next++)
            end += s_units (gone [next].bytes);
        if (!block_data_drop (blocks, begin, end - begin))
            break;
        progress_tell (self->draft->progress, next, 0);
    }
    self->gone_count -= done;
    memmove (gone, gone + done, self->gone_count * sizeof *gone);
}


//  -- opening

//  What tells which files are samples: other samples of the same folder are another data set.  The caller's;
//  NULL: no memory.
static char *
s_name (const draft_t *draft, size_t field)
{
    char data [PATH_MAX], folder [PATH_MAX], *name = NULL;
    if (!realpath (draft->path, data))
        snprintf (data, sizeof data, "%s", draft->path);
    if (!realpath (draft->self->fields [field].path, folder))
        snprintf (folder, sizeof folder, "%s", draft->self->fields [field].path);
    return asprintf (&name, "%s\n%s\n%s\n%s", data, draft->labels? draft->labels: "", draft->extensions?
        draft->extensions: "", folder) < 0? NULL: name;
}

static int
s_open_space (places_t *self, field_t *field)
{
    char version [64];
    block_data_key_t key = { { 0, 0 } };
    snprintf (version, sizeof version, "files %llu", (unsigned long long) self->head.generation);
    block_data_key_add (&key, self->name, version, 0);
    //  All files may be empty.
    int rc = self->head.end == 0? 0: block_data_open (&field->blocks, self->draft->cache, &key,
        self->head.end);
    const catalogue_t *catalogue = self->draft->self;
    uint64_t bytes = 0;
    for (uint32_t id = 0; id < catalogue->sample_count; id++)
        bytes += s_units (self->files [id].bytes);
    block_data_list_t list = { .key = block_data_key (field->list_blocks),
        .generation = (uint32_t) self->head.generation };
    block_data_note (field->blocks, BLOCK_NOTE_FILES, self->folder, catalogue->sample_count, bytes, &list);
    return rc;
}

static int
s_open_list (places_t *self, field_t *field)
{
    block_data_key_t key = { { 0, 0 } };
    block_data_key_add (&key, self->name, "a list of files", SLOTS * SLOT_BYTES);
    int rc = block_data_open (&field->list_blocks, self->draft->cache, &key, SLOTS * SLOT_BYTES);
    block_data_note (field->list_blocks, BLOCK_NOTE_FILE_LIST, self->folder, 0, 0, NULL);
    self->blocks = field->list_blocks;
    rc = rc? rc: s_load_newest (self);
    //  What could not be read is not lost.
    return rc? rc: block_data_is_aside (self->blocks)? -EAGAIN: 0;
}

static int
s_make_room (places_t *self)
{
    size_t samples = self->draft->self->sample_count;
    self->files = calloc (samples + self->listed + 1, sizeof *self->files);
    self->new_ids = calloc (samples + 1, sizeof *self->new_ids);
    self->is_used = calloc (self->listed + 1, sizeof *self->is_used);
    return self->files && self->new_ids && self->is_used? 0: -ENOMEM;
}

//  0 and the field's blocks are open, unless all files are empty; or why not.
static int
s_open (places_t *self, field_t *field)
{
    const head_t most = { .magic = LIST_MAGIC, .count = self->draft->self->sample_count };
    int rc = s_list_bytes (&most) == 0? -EFBIG: s_open_list (self, field);
    rc = rc? rc: s_make_room (self);
    rc = rc? rc: s_find (self);
    if (rc)
        return rc;
    s_place_new (self);
    bool is_anew = s_begin_anew (self);
    //  In this order: what is open is not removed to make room for others, what is given up makes room for
    //  the list, and a start that is killed in between goes on with the old list.
    rc = s_open_space (self, field);
    if (field->blocks && !is_anew)
        s_give_up (self, field->blocks);
    bool is_changed = self->new_count > 0 || self->listed != most.count;
    if (field->blocks && is_changed && !s_save (self))
        for (size_t index = 0; index < self->new_count; index++)
            self->files [self->new_ids [index]].place = CATALOGUE_NO_PLACE;
    return rc;
}

//  Those of the samples themselves were noted with them.
static int
s_take_tags (const draft_t *draft, size_t number)
{
    catalogue_t *catalogue = draft->self;
    field_t *field = &catalogue->fields [number];
    if (number > 0)
        return 0;
    field->tags = reallocarray (NULL, catalogue->sample_count, sizeof *field->tags);
    for (uint32_t id = 0; field->tags && id < catalogue->sample_count; id++) {
        field->tags [id] = catalogue->samples [id].zero;
        catalogue->samples [id].zero = 0;
    }
    return field->tags? 0: -ENOMEM;
}

bool
catalogue_places_are_wanted (const draft_t *draft, int fd)
{
    //  NFS, CIFS and SMB 2, FUSE and virtiofs, Ceph, Lustre, GPFS, AFS, 9P, BeeGFS, OCFS2, GFS2, vboxsf.
    static const uint32_t far [] = { 0x6969, 0xff534d42, 0xfe534d42, 0x65735546, 0x00c36400, 0x0bd00bd0,
        0x47504653, 0x5346414f, 0x01021997, 0x19830326, 0x7461636f, 0x01161970, 0x786f4256 };
    struct statfs status;
    bool is_far = false;
    if (draft->keep != CATALOGUE_KEEP_FAR || fstatfs (fd, &status) != 0)
        return draft->keep == CATALOGUE_KEEP_ALL;
    for (size_t index = 0; index < sizeof far / sizeof *far; index++)
        is_far = is_far || (uint32_t) status.f_type == far [index];
    return is_far;
}

//  A folder may have links to files elsewhere: the first one tells.
static bool
s_is_wanted (const draft_t *draft, size_t field)
{
    char path [PATH_MAX];
    catalogue_path (draft->self, 0, field, path, sizeof path);
    int fd = openat (draft->self->fields [field].root_fd, path, O_PATH | O_CLOEXEC);
    bool is_wanted = fd >= 0 && catalogue_places_are_wanted (draft, fd);
    if (fd >= 0)
        close (fd);
    return is_wanted;
}

void
catalogue_places_find (draft_t *draft, size_t number)
{
    field_t *field = &draft->self->fields [number];
    places_t self = { .draft = draft, .field = number };
    field->blocks_rc = s_take_tags (draft, number);
    if (field->blocks_rc == 0 && !s_is_wanted (draft, number))
        field->blocks_rc = -CATALOGUE_NOT_KEPT;
    if (field->blocks_rc)
        return;
    self.name = s_name (draft, number);
    self.folder = self.name? strrchr (self.name, '\n') + 1: NULL;
    field->places = reallocarray (NULL, draft->self->sample_count, sizeof *field->places);
    field->blocks_rc = self.name && field->places? s_open (&self, field): -ENOMEM;
    for (uint32_t id = 0; field->blocks && id < draft->self->sample_count; id++)
        field->places [id] = self.files [id].place;
    free (self.name);
    free (self.entries);
    free (self.is_used);
    free (self.table.slots);
    free (self.new_ids);
    free (self.files);
}


//  -- for those that read nothing else there

static bool
s_has_place (const catalogue_t *self, uint32_t id, size_t field)
{
    return self->fields [field].blocks && self->fields [field].places [id] != CATALOGUE_NO_PLACE
        && catalogue_file_bytes (self, id, field) <= CATALOGUE_SAMPLE_BYTES_MAX;
}

bool
catalogue_is_kept (const catalogue_t *self, uint32_t id, size_t field)
{
    uint64_t bytes = catalogue_file_bytes (self, id, field);
    return bytes == 0 || (s_has_place (self, id, field)
        && block_data_has (self->fields [field].blocks, self->fields [field].places [id], bytes));
}

//  An empty file needs no reading.
bool
catalogue_read_kept (const catalogue_t *self, uint32_t id, size_t field, catalogue_buffer_t *buffer)
{
    uint64_t bytes = catalogue_file_bytes (self, id, field);
    if ((bytes > 0 && !s_has_place (self, id, field)) || catalogue_make_room (buffer, bytes))
        return false;
    bool is_here = bytes == 0;
    block_data_t *blocks = self->fields [field].blocks;
    if (!is_here && self->fields [field].store) {
        block_data_gap_t gap = block_data_read (blocks, self->fields [field].places [id], bytes,
            buffer->bytes);
        is_here = gap.begin >= gap.end;
    }
    else
    if (!is_here)
        is_here = block_data_read_owned (blocks, catalogue_owner (self, id, field),
            self->fields [field].places [id], bytes, buffer->bytes);
    buffer->size = is_here? bytes: 0;
    return is_here;
}


//  -- for people

int
catalogue_places_load (block_folder_file_t **files_p, size_t *count_p, block_cache_t *cache,
    const block_data_list_t *list)
{
    places_t self = { .draft = NULL };
    *files_p = NULL;
    *count_p = 0;
    int rc = block_data_open (&self.blocks, cache, list->key, SLOTS * SLOT_BYTES);
    rc = rc? rc: s_load_newest (&self);
    rc = rc? rc: self.head.serial == 0? -ENODATA: (uint32_t) self.head.generation != list->generation?
        -ESTALE: 0;
    block_folder_file_t *files = rc? NULL: calloc (self.listed + 1, sizeof *files);
    rc = rc || files? rc: -ENOMEM;
    if (rc == 0)
        qsort (self.entries, self.listed, sizeof *self.entries, s_compare_places);
    for (size_t item = 0; rc == 0 && item < self.listed; item++) {
        const entry_t *entry = &self.entries [item];
        if (entry->bytes > 0)
            files [(*count_p)++] = (block_folder_file_t) { .owner = s_number (entry->owner [0]),
                .place = entry->place, .bytes = entry->bytes };
    }
    block_data_close (&self.blocks);
    free (self.entries);
    *files_p = files;
    return rc;
}
