#include "pictures.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PICTURES_MAGIC = 0x70696374,
    CHUNK_BYTES = 32 * 1024 * 1024,
    LEFT_PART = 4,                      //  of the memory that is left, at most one of so many
    PAGE = 4096,
    ALIGNMENT = 64
};

typedef struct chunk chunk_t;
typedef struct table table_t;

struct pictures_entry {
    chunk_t *chunk;
    picture_pixels_t picture;
    uint32_t id;
    size_t room;                        //  from here to the next entry
    bool is_kept;
    pictures_entry_t *older;            //  in the chunk
} __attribute__ ((aligned (ALIGNMENT)));

struct chunk {
    chunk_t *older;                     //  of its table; of one that has left: the next of those
    table_t *table;                     //  NULL: it has left
    pictures_t *pictures;
    pictures_entry_t *newest;
    size_t bytes, used;
    size_t users;                       //  entries that are lent or being made
} __attribute__ ((aligned (ALIGNMENT)));

//  A sample that was looked for once and is not here.
#define SEEN ((pictures_entry_t *) 1)

//  One kind of a data set's pictures.
struct table {
    table_t *next;                      //  of all data sets
    pictures_data_t *data;
    pictures_entry_t **of;              //  by id; NULL, SEEN or kept
    chunk_t *newest;
    int64_t asked_ms;                   //  something looked here last
};

struct pictures {
    uint32_t magic;
    pthread_mutex_t lock;               //  of all that follows, and of data sets
    pthread_cond_t work, settled;       //  of the thread
    pthread_t thread;                   //  gives the memory of chunks back, which may take milliseconds each
    uint64_t limit;
    uint64_t memory;                    //  of tables and chunks
    uint64_t leaving;                   //  of these, chunks that have left
    chunk_t *gone;                      //  that have left and have no users, for the thread
    bool is_busy;                       //  the thread gives one back
    bool is_ending;
    table_t *first;
    int64_t now_ms;                     //  the last pictures_lend's
};

struct pictures_data {
    uint32_t magic;
    pictures_t *pictures;
    uint32_t samples, kinds;
    pictures_figures_t figures;
    table_t *tables [];                 //  by kind; NULL: never looked at
};

static size_t
s_round (size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

//  ---- memory that goes back

static void *
s_give_memory_back (void *argument)
{
    pictures_t *self = argument;
    pthread_mutex_lock (&self->lock);
    for (;;) {
        chunk_t *chunk = self->gone;
        if (!chunk && self->is_ending)
            break;
        if (!chunk) {
            pthread_cond_broadcast (&self->settled);
            pthread_cond_wait (&self->work, &self->lock);
            continue;
        }
        size_t bytes = chunk->bytes;
        self->gone = chunk->older;
        self->is_busy = true;
        pthread_mutex_unlock (&self->lock);
        //  Where the system cannot split a mapping, its pages go all the same.
        if (munmap (chunk, bytes) != 0)
            madvise (chunk, bytes, MADV_DONTNEED);
        pthread_mutex_lock (&self->lock);
        self->is_busy = false;
        self->memory -= bytes;
        self->leaving -= bytes;
    }
    pthread_mutex_unlock (&self->lock);
    return NULL;
}

pictures_t *
pictures_new (uint64_t limit_bytes)
{
    pictures_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = PICTURES_MAGIC;
    self->limit = limit_bytes;
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->work, NULL);
    pthread_cond_init (&self->settled, NULL);
    int error = pthread_create (&self->thread, NULL, s_give_memory_back, self);
    if (!error)
        return self;
    free (self);
    errno = error;
    return NULL;
}

void
pictures_settle (pictures_t *self)
{
    pthread_mutex_lock (&self->lock);
    while (self->gone || self->is_busy)
        pthread_cond_wait (&self->settled, &self->lock);
    pthread_mutex_unlock (&self->lock);
}

void
pictures_destroy (pictures_t **self_p)
{
    pictures_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == PICTURES_MAGIC);
    pthread_mutex_lock (&self->lock);
    self->is_ending = true;
    pthread_cond_signal (&self->work);
    pthread_mutex_unlock (&self->lock);
    pthread_join (self->thread, NULL);
    assert (!self->first && self->memory == 0);
    pthread_cond_destroy (&self->work);
    pthread_cond_destroy (&self->settled);
    pthread_mutex_destroy (&self->lock);
    self->magic = 0;
    free (self);
}

//  ---- what leaves

static void
s_go (chunk_t *chunk)
{
    pictures_t *self = chunk->pictures;
    assert (!chunk->table && chunk->users == 0);
    chunk->older = self->gone;
    self->gone = chunk;
    pthread_cond_signal (&self->work);
}

//  The newest chunk of the table, which has one.
static void
s_drop (pictures_t *self, table_t *table)
{
    chunk_t *chunk = table->newest;
    table->newest = chunk->older;
    for (pictures_entry_t *entry = chunk->newest; entry; entry = entry->older)
        if (entry->is_kept) {
            const picture_pixels_t *picture = &entry->picture;
            table->of [entry->id] = SEEN;
            table->data->figures.count--;
            table->data->figures.bytes -= (uint64_t) picture->height * picture->width * picture->channels;
        }
    chunk->table = NULL;
    self->leaving += chunk->bytes;
    if (chunk->users == 0)
        s_go (chunk);
}

//  The table with chunks for which nothing has asked for longest, if that is so long; NULL: none.
static table_t *
s_idle (const pictures_t *self, int64_t idle_ms)
{
    table_t *idle = NULL;
    for (table_t *table = self->first; table; table = table->next)
        if (table->newest && (!idle || table->asked_ms < idle->asked_ms))
            idle = table;
    return idle && self->now_ms - idle->asked_ms >= idle_ms? idle: NULL;
}

void
pictures_set_limit (pictures_t *self, uint64_t bytes)
{
    pthread_mutex_lock (&self->lock);
    self->limit = bytes;
    table_t *table;
    while (self->memory - self->leaving > self->limit && (table = s_idle (self, 0)))
        s_drop (self, table);
    pthread_mutex_unlock (&self->lock);
}

uint64_t
pictures_limit (pictures_t *self)
{
    pthread_mutex_lock (&self->lock);
    uint64_t limit = self->limit;
    pthread_mutex_unlock (&self->lock);
    return limit;
}

uint64_t
pictures_memory (pictures_t *self)
{
    pthread_mutex_lock (&self->lock);
    uint64_t memory = self->memory;
    pthread_mutex_unlock (&self->lock);
    return memory;
}

//  ---- data sets

pictures_data_t *
pictures_data_new (pictures_t *self, uint32_t samples, uint32_t kinds)
{
    assert (self->magic == PICTURES_MAGIC);
    assert (samples > 0 && kinds > 0);
    pictures_data_t *data = calloc (1, sizeof *data + kinds * sizeof *data->tables);
    if (!data)
        return NULL;
    data->magic = PICTURES_MAGIC;
    data->pictures = self;
    data->samples = samples;
    data->kinds = kinds;
    return data;
}

static uint64_t
s_table_bytes (const pictures_data_t *self)
{
    return sizeof (table_t) + (uint64_t) self->samples * sizeof (pictures_entry_t *);
}

static void
s_table_destroy (table_t *table)
{
    pictures_t *pictures = table->data->pictures;
    while (table->newest) {
        assert (table->newest->users == 0);
        s_drop (pictures, table);
    }
    table_t **link = &pictures->first;
    while (*link != table)
        link = &(*link)->next;
    *link = table->next;
    pictures->memory -= s_table_bytes (table->data);
    free (table->of);
    free (table);
}

void
pictures_data_destroy (pictures_data_t **self_p)
{
    pictures_data_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == PICTURES_MAGIC);
    pthread_mutex_t *lock = &self->pictures->lock;
    pthread_mutex_lock (lock);
    for (uint32_t kind = 0; kind < self->kinds; kind++)
        if (self->tables [kind])
            s_table_destroy (self->tables [kind]);
    pthread_mutex_unlock (lock);
    self->magic = 0;
    free (self);
}

pictures_figures_t
pictures_figures (pictures_data_t *self)
{
    pthread_mutex_lock (&self->pictures->lock);
    pictures_figures_t figures = self->figures;
    pthread_mutex_unlock (&self->pictures->lock);
    return figures;
}

//  NULL: there is no room for one.
static table_t *
s_table (pictures_data_t *self, uint32_t kind)
{
    pictures_t *pictures = self->pictures;
    uint64_t bytes = s_table_bytes (self);
    if (self->tables [kind] || pictures->memory + bytes > pictures->limit)
        return self->tables [kind];
    table_t *table = calloc (1, sizeof *table);
    pictures_entry_t **of = calloc (self->samples, sizeof *of);
    if (!table || !of) {
        free (table);
        free (of);
        return NULL;
    }
    *table = (table_t) { .next = pictures->first, .data = self, .of = of };
    pictures->first = table;
    pictures->memory += bytes;
    self->tables [kind] = table;
    return table;
}

//  ---- pictures

pictures_entry_t *
pictures_lend (pictures_data_t *self, uint32_t id, uint32_t kind, int64_t now_ms, bool *is_wanted_p)
{
    assert (self->magic == PICTURES_MAGIC);
    assert (id < self->samples && kind < self->kinds);
    pictures_t *pictures = self->pictures;
    pthread_mutex_lock (&pictures->lock);
    pictures->now_ms = now_ms;
    table_t *table = s_table (self, kind);
    pictures_entry_t *entry = table? table->of [id]: NULL;
    *is_wanted_p = entry == SEEN;
    if (table && !entry)
        table->of [id] = SEEN;
    if (entry == SEEN)
        entry = NULL;
    if (table)
        table->asked_ms = now_ms;
    if (entry) {
        self->figures.hits++;
        entry->chunk->users++;
    }
    else
        self->figures.misses++;
    pthread_mutex_unlock (&pictures->lock);
    return entry;
}

picture_pixels_t
pictures_pixels (const pictures_entry_t *entry)
{
    return entry->picture;
}

//  One more, for an entry of so many bytes at least; false: there is no room.
static bool
s_add_chunk (pictures_t *self, table_t *table, size_t room)
{
    size_t least = s_round (sizeof (chunk_t) + room, PAGE);
    table_t *idle;
    while (self->memory - self->leaving + least > self->limit && (idle = s_idle (self, PICTURES_IDLE_MS)))
        s_drop (self, idle);
    //  What has left, and is lent or not yet given back, still counts here.
    uint64_t left = self->memory < self->limit? (self->limit - self->memory) / PAGE * PAGE: 0;
    if (left < least)
        return false;
    //  Not all that is left: another kind may want some.
    size_t bytes = left / LEFT_PART < CHUNK_BYTES? (size_t) (left / LEFT_PART / PAGE * PAGE): CHUNK_BYTES;
    bytes = bytes > least? bytes: least;
    chunk_t *chunk = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED)
        return false;
    //  Fewer faults while they are filled; that the system may not do it changes nothing else.
    madvise (chunk, bytes, MADV_HUGEPAGE);
    *chunk = (chunk_t) { .older = table->newest, .table = table, .pictures = self, .bytes = bytes,
        .used = sizeof *chunk };
    table->newest = chunk;
    self->memory += bytes;
    return true;
}

static pictures_entry_t *
s_carve (pictures_t *self, table_t *table, size_t room)
{
    chunk_t *chunk = table->newest;
    if (!chunk || chunk->bytes - chunk->used < room) {
        if (!s_add_chunk (self, table, room))
            return NULL;
        chunk = table->newest;
    }
    pictures_entry_t *entry = (pictures_entry_t *) ((uint8_t *) chunk + chunk->used);
    *entry = (pictures_entry_t) { .chunk = chunk, .room = room, .older = chunk->newest };
    chunk->newest = entry;
    chunk->used += room;
    chunk->users++;
    return entry;
}

pictures_entry_t *
pictures_make (pictures_data_t *self, uint32_t id, uint32_t kind, const picture_pixels_t *wanted)
{
    assert (self->magic == PICTURES_MAGIC);
    assert (id < self->samples && kind < self->kinds);
    pictures_t *pictures = self->pictures;
    size_t bytes = (size_t) wanted->height * wanted->width * wanted->channels,
        room = s_round (sizeof (pictures_entry_t) + bytes + PICTURES_SLACK, ALIGNMENT);
    pthread_mutex_lock (&pictures->lock);
    table_t *table = self->tables [kind];
    pictures_entry_t *entry = table? s_carve (pictures, table, room): NULL;
    if (entry) {
        entry->id = id;
        entry->picture = *wanted;
        entry->picture.pixels = (uint8_t *) (entry + 1);
    }
    pthread_mutex_unlock (&pictures->lock);
    return entry;
}

//  Under the lock.  An entry that was not kept leaves its room to the next, if it is the last.
static void
s_give_back (pictures_entry_t *entry)
{
    chunk_t *chunk = entry->chunk;
    assert (chunk->users > 0);
    chunk->users--;
    if (!entry->is_kept && chunk->newest == entry) {
        chunk->newest = entry->older;
        chunk->used -= entry->room;
    }
    if (!chunk->table && chunk->users == 0)
        s_go (chunk);
}

void
pictures_keep (pictures_entry_t *entry)
{
    pictures_t *self = entry->chunk->pictures;
    const picture_pixels_t *picture = &entry->picture;
    pthread_mutex_lock (&self->lock);
    table_t *table = entry->chunk->table;
    pictures_entry_t **place = table? &table->of [entry->id]: NULL;
    if (place && (!*place || *place == SEEN)) {
        *place = entry;
        entry->is_kept = true;
        table->data->figures.count++;
        table->data->figures.bytes += (uint64_t) picture->height * picture->width * picture->channels;
    }
    s_give_back (entry);
    pthread_mutex_unlock (&self->lock);
}

void
pictures_release (pictures_entry_t *entry)
{
    if (!entry)
        return;
    pictures_t *self = entry->chunk->pictures;
    pthread_mutex_lock (&self->lock);
    s_give_back (entry);
    pthread_mutex_unlock (&self->lock);
}
