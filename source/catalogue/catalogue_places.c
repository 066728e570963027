//  The files of a field are one address space.  A list on the local disk says which part of it each file has.
//  Files that are in the list keep their parts.  New files get parts behind all others, in random order:
//  files that lie together are of different classes.  A file of another size or time of modification than
//  before is a new one, and what was kept of a file that has gone or changed is given up.  When most of the
//  space is given up, the files get a new space, and the cache removes the old one when it needs the room.
//
//  A file's path, size and time make its *owner* number, which the checksums of its bytes cover.  So a list
//  that is wrong, because two servers wrote it at once or one was killed, costs reads, and no file gets
//  another one's bytes.
//
//  The list is a head and an entry for each file, in units, with one checksum over all.

#include "catalogue_places.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define LIST_MAGIC UINT64_C (0x3130736c70656574)        //  "teepls01"
#define LIST_BYTES (UINT64_C (1) << 30)                 //  of the list's space: 33 million files
#define SPARE_BYTES (UINT64_C (1) << 26)                //  that may be given up beside half of the space

typedef struct {
    uint64_t magic, count;
    uint64_t generation;                //  of the space
    uint64_t end;                       //  of the parts
    uint64_t hash [2];                  //  of what is behind the head
    uint64_t zero [2];
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
    block_data_t *blocks;               //  of the list; the field's
    head_t head;
    entry_t *entries;                   //  as they were listed
    size_t listed;
    bool *is_used;                      //  by entry
    lookup_t table;                     //  of the entries
    uint32_t *new_ids;
    size_t new_count;
    entry_t *files;                     //  by sample
} places_t;


//  -- owners

uint32_t
catalogue_places_tag (const struct stat *status)
{
    int64_t time [] = { status->st_mtim.tv_sec, status->st_mtim.tv_nsec };
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

uint64_t
catalogue_owner (const catalogue_t *self, uint32_t id, size_t field)
{
    assert (self->fields [field].blocks);
    uint64_t owner = s_owner (self, id, field).low64;
    return owner? owner: 1;
}


//  -- the list on the local disk

static uint64_t
s_units (uint64_t bytes)
{
    return block_data_next (0, bytes);
}

//  The count may be anything: what is on the disk is not trusted before its checksum.
static uint64_t
s_list_bytes (const head_t *head)
{
    if (head->magic != LIST_MAGIC || head->count > (LIST_BYTES - sizeof *head) / sizeof (entry_t))
        return 0;
    return sizeof *head + head->count * sizeof (entry_t);
}

//  An empty one where there is none, or a damaged one.  -ENOMEM.
static int
s_load (places_t *self)
{
    uint8_t first [BLOCK_DATA_UNIT_BYTES];
    block_data_gap_t gap = block_data_read (self->blocks, 0, sizeof first, first);
    head_t head;
    memcpy (&head, first, sizeof head);
    uint64_t bytes = gap.begin < gap.end? 0: s_list_bytes (&head);
    self->head = (head_t) { .magic = LIST_MAGIC };
    if (bytes == 0)
        return 0;
    uint8_t *memory = malloc (s_units (bytes));
    if (!memory)
        return -ENOMEM;
    gap = block_data_read (self->blocks, 0, s_units (bytes), memory);
    XXH128_hash_t hash = XXH3_128bits (memory + sizeof head, bytes - sizeof head);
    if (gap.begin >= gap.end && memcmp (memory, &head, sizeof head) == 0 && hash.low64 == head.hash [0]
    &&  hash.high64 == head.hash [1]) {
        memmove (memory, memory + sizeof head, bytes - sizeof head);
        self->entries = (entry_t *) memory;
        self->listed = head.count;
        self->head = head;
        return 0;
    }
    free (memory);
    return 0;
}

//  As far as there is room: without it, the next server begins with an empty list.
static int
s_save (places_t *self)
{
    const catalogue_t *catalogue = self->draft->self;
    self->head.count = catalogue->sample_count;
    uint64_t bytes = s_list_bytes (&self->head);
    uint8_t *memory = bytes? calloc (1, s_units (bytes)): NULL;
    if (!memory)
        return -ENOMEM;
    memcpy (memory + sizeof self->head, self->files, bytes - sizeof self->head);
    XXH128_hash_t hash = XXH3_128bits (memory + sizeof self->head, bytes - sizeof self->head);
    self->head.hash [0] = hash.low64;
    self->head.hash [1] = hash.high64;
    memcpy (memory, &self->head, sizeof self->head);
    block_data_store (self->blocks, 0, s_units (bytes), memory, true);
    free (memory);
    return 0;
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
        live += block_data_next (0, self->files [id].bytes);
    if (self->head.end <= 2 * live + SPARE_BYTES)
        return false;
    self->head.generation++;
    self->head.end = 0;
    for (uint32_t id = 0; id < catalogue->sample_count; id++)
        self->new_ids [id] = id;
    self->new_count = catalogue->sample_count;
    s_place_new (self);
    return true;
}


//  -- opening

//  The data set's address, the labels file and the field: other samples of the same folder are another data
//  set.  The caller's; NULL: no memory.
static char *
s_name (const draft_t *draft, size_t field)
{
    char data [PATH_MAX], folder [PATH_MAX], *name = NULL;
    if (!realpath (draft->path, data))
        snprintf (data, sizeof data, "%s", draft->path);
    if (!realpath (draft->self->fields [field].path, folder))
        snprintf (folder, sizeof folder, "%s", draft->self->fields [field].path);
    return asprintf (&name, "%s\n%s\n%s", data, draft->labels? draft->labels: "", folder) < 0? NULL: name;
}

static int
s_open_space (places_t *self, field_t *field)
{
    char version [64];
    block_data_key_t key = { { 0, 0 } };
    snprintf (version, sizeof version, "files %llu", (unsigned long long) self->head.generation);
    block_data_key_add (&key, self->name, version, 0);
    //  All files may be empty.
    return self->head.end == 0? 0: block_data_open (&field->blocks, self->draft->cache, &key,
        self->head.end);
}

static int
s_make_room (places_t *self)
{
    size_t samples = self->draft->self->sample_count;
    self->files = calloc (samples + 1, sizeof *self->files);
    self->new_ids = calloc (samples + 1, sizeof *self->new_ids);
    self->is_used = calloc (self->listed + 1, sizeof *self->is_used);
    return self->files && self->new_ids && self->is_used? 0: -ENOMEM;
}

//  -ENOMEM; or 0, with the field's blocks or the reason why it has none.
static int
s_open (places_t *self, field_t *field)
{
    block_data_key_t key = { { 0, 0 } };
    block_data_key_add (&key, self->name, "a list of files", LIST_BYTES);
    field->blocks_rc = block_data_open (&field->list_blocks, self->draft->cache, &key, LIST_BYTES);
    if (field->blocks_rc)
        return 0;
    self->blocks = field->list_blocks;
    //  The list that is there now would be lost.
    if (block_data_is_aside (self->blocks)) {
        field->blocks_rc = -EAGAIN;
        return 0;
    }
    int rc = s_load (self);
    rc = rc? rc: s_make_room (self);
    rc = rc? rc: s_find (self);
    if (rc)
        return rc;
    s_place_new (self);
    bool is_anew = s_begin_anew (self);
    if (self->new_count > 0 || self->listed != self->draft->self->sample_count)
        rc = s_save (self);
    field->blocks_rc = rc? 0: s_open_space (self, field);
    //  What was kept of files that have gone, or have changed, is given up.
    for (size_t item = 0; field->blocks && !is_anew && item < self->listed; item++)
        if (!self->is_used [item] && self->entries [item].bytes > 0)
            block_data_drop (field->blocks, self->entries [item].place, self->entries [item].bytes);
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
catalogue_places_are_beside (const draft_t *draft, size_t field)
{
    struct stat status;
    return block_cache_is_open (draft->cache)
        && fstat (block_cache_descriptor (draft->cache), &status) == 0
        && status.st_dev == catalogue_device (draft->self, field);
}

int
catalogue_places_find (draft_t *draft, size_t number)
{
    field_t *field = &draft->self->fields [number];
    if (s_take_tags (draft, number))
        return catalogue_fail_memory (draft);
    if (catalogue_places_are_beside (draft, number)) {
        field->blocks_rc = -CATALOGUE_BESIDE;
        return 0;
    }
    places_t self = { .draft = draft, .field = number, .name = s_name (draft, number) };
    field->places = reallocarray (NULL, draft->self->sample_count, sizeof *field->places);
    int rc = self.name && field->places? s_open (&self, field): -ENOMEM;
    for (uint32_t id = 0; rc == 0 && field->blocks && id < draft->self->sample_count; id++)
        field->places [id] = self.files [id].place;
    free (self.name);
    free (self.entries);
    free (self.is_used);
    free (self.table.slots);
    free (self.new_ids);
    free (self.files);
    return rc? catalogue_fail_memory (draft): 0;
}
