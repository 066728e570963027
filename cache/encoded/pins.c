/*  A data set's blocks lie in chains by their key, and in an array from which chance takes those that leave.
 *
 *  A thread that copies bytes in or out is a user of the block: the block leaves the table at once, and its
 *  memory goes with its last user.  A thread claims units before it copies bytes in, and says afterwards that
 *  they are here; so no unit is written twice, and none is read while it is written.
 */
#include "pins.h"
#include <assert.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include "xalloc.h"

enum {
    PINS_MAGIC = 0x0b10c4ed,
    UNIT = PINS_UNIT_BYTES,
    UNITS_MAX = PINS_BLOCK_BYTES / PINS_UNIT_BYTES,
    WORDS_MAX = UNITS_MAX / 64,
    SHED_BYTES = 256 * 1024 * 1024,     //  that leave at once,
    SHED_BLOCKS = 4096,                 //  and blocks: some milliseconds
    MAPPED_BYTES = 128 * 1024,          //  from this size on a block has a mapping of its own
    TABLE_COST = 64                     //  of a block in chains, in the array, and for the allocator
};

typedef struct block {
    struct block *chain;
    uint64_t file, number;              //  of the block in its file
    size_t place;                       //  in the array
    uint8_t *memory;
    uint32_t bytes;
    uint32_t users;                     //  that copy in or out
    bool is_gone;                       //  from the table
    uint64_t words [];                  //  a bit for each unit: claimed; then as many: here
} block_t;

struct pins {
    uint32_t magic;
    pthread_mutex_t lock;               //  before that of a data set
    uint64_t limit;
    pins_data_t *first;                 //  data set
};

struct pins_data {
    uint32_t magic;
    //  set at birth
    pins_t *pins;
    uint64_t data_bytes, cost;
    //  under the lock of pins
    pins_data_t *next;
    //  under its own
    pthread_mutex_t lock;
    uint64_t limit, reserved;
    uint64_t filled, hit_bytes, miss_bytes;
    uint64_t random;
    block_t **chains;                   //  a power of two, or NULL
    size_t chain_count;
    block_t **blocks;
    size_t count, room;
};

//  A range within one block.
typedef struct {
    uint64_t number;                    //  of the block
    size_t begin, end;                  //  in the block
    uint32_t block_bytes;
} piece_t;


//  -- places

static piece_t
s_piece (const pins_file_t *file, uint64_t offset, size_t bytes)
{
    uint64_t number = offset / PINS_BLOCK_BYTES, left = file->bytes - number * PINS_BLOCK_BYTES;
    size_t begin = (size_t) (offset % PINS_BLOCK_BYTES);
    piece_t piece = { .number = number, .begin = begin, .end = begin + bytes,
        .block_bytes = left < PINS_BLOCK_BYTES? (uint32_t) left: PINS_BLOCK_BYTES };
    if (piece.end > piece.block_bytes)
        piece.end = piece.block_bytes;
    return piece;
}

static size_t
s_words (uint32_t block_bytes)
{
    size_t units = (block_bytes + UNIT - 1) / UNIT;
    return (units + 63) / 64;
}

static uint64_t
s_cost (uint32_t block_bytes)
{
    uint64_t whole = block_bytes < MAPPED_BYTES? (block_bytes + 15u) / 16 * 16:
        (block_bytes + UNIT - 1u) / UNIT * UNIT;
    return whole + sizeof (block_t) + 2 * s_words (block_bytes) * sizeof (uint64_t) + TABLE_COST;
}

uint64_t
pins_cost (uint64_t file_bytes)
{
    uint64_t blocks = file_bytes / PINS_BLOCK_BYTES;
    uint32_t rest = (uint32_t) (file_bytes % PINS_BLOCK_BYTES);
    return blocks * s_cost (PINS_BLOCK_BYTES) + (rest? s_cost (rest): 0);
}


//  -- blocks

static void
s_free_memory (uint8_t *memory, uint32_t bytes)
{
    if (memory && bytes >= MAPPED_BYTES)
        munmap (memory, bytes);
    else
        free (memory);
}

static void
s_free (block_t *block)
{
    s_free_memory (block->memory, block->bytes);
    free (block);
}

//  NULL: no memory.
static block_t *
s_new (uint64_t file, const piece_t *piece)
{
    size_t words = s_words (piece->block_bytes);
    block_t *self = calloc (1, sizeof *self + 2 * words * sizeof (uint64_t));
    if (!self)
        return NULL;
    self->file = file;
    self->number = piece->number;
    self->bytes = piece->block_bytes;
    if (piece->block_bytes >= MAPPED_BYTES) {
        void *memory = mmap (NULL, piece->block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
            -1, 0);
        self->memory = memory == MAP_FAILED? NULL: memory;
    }
    else
        self->memory = malloc (piece->block_bytes);
    if (self->memory)
        return self;
    free (self);
    return NULL;
}

static bool
s_bit (const uint64_t *words, size_t unit)
{
    return words [unit / 64] >> unit % 64 & 1;
}

static const uint64_t *
s_here (const block_t *self)
{
    return self->words + s_words (self->bytes);
}

static size_t
s_unit_bytes (const block_t *self, size_t unit)
{
    size_t left = self->bytes - unit * UNIT;
    return left < UNIT? left: UNIT;
}


//  -- the table, all of it under the data set's lock

static size_t
s_chain (const pins_data_t *self, uint64_t file, uint64_t number)
{
    uint64_t mixed = (file * 0x9e3779b97f4a7c15u) ^ (number * 0xbf58476d1ce4e5b9u);
    mixed = (mixed ^ (mixed >> 29)) * 0x94d049bb133111ebu;
    return (size_t) (mixed >> 32) & (self->chain_count - 1);
}

static block_t *
s_find (const pins_data_t *self, uint64_t file, uint64_t number)
{
    block_t *block = self->chains? self->chains [s_chain (self, file, number)]: NULL;
    while (block && (block->file != file || block->number != number))
        block = block->chain;
    return block;
}

//  False: no memory.
static bool
s_make_chains (pins_data_t *self)
{
    if (self->count < self->chain_count)
        return true;
    size_t before = self->chain_count;
    block_t **chains = calloc (before? 2 * before: 16, sizeof *chains);
    if (!chains)
        return before > 0;              //  chains grow longer
    free (self->chains);
    self->chains = chains;
    self->chain_count = before? 2 * before: 16;
    for (size_t place = 0; place < self->count; place++) {
        block_t *block = self->blocks [place];
        size_t at = s_chain (self, block->file, block->number);
        block->chain = chains [at];
        chains [at] = block;
    }
    return true;
}

//  NULL: there is no room for it.
static block_t *
s_reserve (pins_data_t *self, uint64_t file, const piece_t *piece)
{
    uint64_t cost = s_cost (piece->block_bytes);
    if (self->reserved + cost > self->limit || !s_make_chains (self)
    ||  !xalloc_try_grow (&self->blocks, self->count, &self->room, sizeof (block_t *)))
        return NULL;
    block_t *block = s_new (file, piece);
    if (!block)
        return NULL;
    size_t at = s_chain (self, file, piece->number);
    block->chain = self->chains [at];
    self->chains [at] = block;
    block->place = self->count;
    self->blocks [self->count++] = block;
    self->reserved += cost;
    return block;
}

//  Out of the table.  Returns it if no thread uses it: to be freed, outside the lock.
static block_t *
s_remove (pins_data_t *self, block_t *block)
{
    block_t **link = &self->chains [s_chain (self, block->file, block->number)];
    while (*link != block)
        link = &(*link)->chain;
    *link = block->chain;
    self->blocks [block->place] = self->blocks [--self->count];
    self->blocks [block->place]->place = block->place;
    self->reserved -= s_cost (block->bytes);
    for (size_t unit = 0; unit * UNIT < block->bytes; unit++)
        if (s_bit (s_here (block), unit))
            self->filled -= s_unit_bytes (block, unit);
    block->is_gone = true;
    return block->users == 0? block: NULL;
}

//  The caller has copied.  Returns it if it is to be freed.
static block_t *
s_leave (block_t *block)
{
    block->users--;
    return block->is_gone && block->users == 0? block: NULL;
}

static uint64_t
s_random (pins_data_t *self)
{
    uint64_t mixed = (self->random += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

//  Blocks leave at random until what is left is within the limit, or so many have left.  True: it is.
static bool
s_shed (pins_data_t *self)
{
    uint64_t bytes = 0;
    bool is_over = true, from_heap = false;
    for (int count = 0; is_over && count < SHED_BLOCKS && bytes < SHED_BYTES; count++) {
        pthread_mutex_lock (&self->lock);
        is_over = self->reserved > self->limit;
        block_t *block = is_over? self->blocks [s_random (self) % self->count]: NULL, *gone = NULL;
        if (block) {
            bytes += block->bytes;
            from_heap = from_heap || block->bytes < MAPPED_BYTES;
            gone = s_remove (self, block);
        }
        is_over = self->reserved > self->limit;
        pthread_mutex_unlock (&self->lock);
        if (gone)
            s_free (gone);
    }
    if (!is_over && from_heap)
        malloc_trim (0);
    return !is_over;
}


//  -- life

pins_t *
pins_new (uint64_t limit_bytes)
{
    pins_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = PINS_MAGIC;
    self->limit = limit_bytes;
    pthread_mutex_init (&self->lock, NULL);
    return self;
}

void
pins_destroy (pins_t **self_p)
{
    assert (self_p);
    pins_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == PINS_MAGIC && !self->first);
    pthread_mutex_destroy (&self->lock);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  Under the lock of pins.
static void
s_divide (pins_t *self)
{
    double sum = 0;
    for (const pins_data_t *data = self->first; data; data = data->next)
        sum += (double) data->cost;
    for (pins_data_t *data = self->first; data; data = data->next) {
        uint64_t limit = sum <= (double) self->limit? data->cost:
            (uint64_t) ((double) self->limit * ((double) data->cost / sum));
        pthread_mutex_lock (&data->lock);
        data->limit = limit;
        pthread_mutex_unlock (&data->lock);
        s_shed (data);
    }
}

void
pins_set_limit (pins_t *self, uint64_t bytes)
{
    assert (self && self->magic == PINS_MAGIC);
    pthread_mutex_lock (&self->lock);
    self->limit = bytes;
    s_divide (self);
    pthread_mutex_unlock (&self->lock);
}

bool
pins_settle (pins_t *self)
{
    assert (self && self->magic == PINS_MAGIC);
    bool is_all = true;
    pthread_mutex_lock (&self->lock);
    for (pins_data_t *data = self->first; data; data = data->next)
        is_all = s_shed (data) && is_all;
    pthread_mutex_unlock (&self->lock);
    return is_all;
}

pins_data_t *
pins_data_new (pins_t *pins, uint64_t data_bytes, uint64_t cost)
{
    assert (pins && pins->magic == PINS_MAGIC);
    pins_data_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = (pins_data_t) { .magic = PINS_MAGIC, .pins = pins, .data_bytes = data_bytes, .cost = cost };
    pthread_mutex_init (&self->lock, NULL);
    if (getrandom (&self->random, sizeof self->random, 0) != sizeof self->random)
        self->random = (uint64_t) (uintptr_t) self;
    pthread_mutex_lock (&pins->lock);
    self->next = pins->first;
    pins->first = self;
    s_divide (pins);
    pthread_mutex_unlock (&pins->lock);
    return self;
}

void
pins_data_destroy (pins_data_t **self_p)
{
    assert (self_p);
    pins_data_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == PINS_MAGIC);
    pins_t *pins = self->pins;
    pthread_mutex_lock (&pins->lock);
    pins_data_t **link = &pins->first;
    while (*link != self)
        link = &(*link)->next;
    *link = self->next;
    s_divide (pins);
    pthread_mutex_unlock (&pins->lock);
    for (size_t place = 0; place < self->count; place++) {
        assert (self->blocks [place]->users == 0);
        s_free (self->blocks [place]);
    }
    bool is_lighter = self->count > 0;
    free (self->blocks);
    free (self->chains);
    pthread_mutex_destroy (&self->lock);
    self->magic = 0;
    free (self);
    if (is_lighter)
        malloc_trim (0);
    *self_p = NULL;
}

pins_figures_t
pins_figures (pins_data_t *self)
{
    assert (self && self->magic == PINS_MAGIC);
    pthread_mutex_lock (&self->lock);
    pins_figures_t figures = { .bytes = self->filled, .memory = self->reserved, .limit = self->limit,
        .hit_bytes = self->hit_bytes, .miss_bytes = self->miss_bytes, .data_bytes = self->data_bytes };
    pthread_mutex_unlock (&self->lock);
    return figures;
}


//  -- reading

//  How much of the piece is here, from its beginning on, or up to its end.
static size_t
s_run (const block_t *block, const piece_t *piece, bool from_end)
{
    const uint64_t *here = s_here (block);
    size_t first = piece->begin / UNIT, last = (piece->end + UNIT - 1) / UNIT, unit;
    if (!from_end) {
        for (unit = first; unit < last && s_bit (here, unit); unit++)
            ;
        return unit == last? piece->end - piece->begin: unit * UNIT - piece->begin;
    }
    for (unit = last; unit > first && s_bit (here, unit - 1); unit--)
        ;
    return unit == first? piece->end - piece->begin: unit == last? 0: piece->end - unit * UNIT;
}

//  Copies what is here of the piece, from its beginning on or up to its end, to the piece's memory.  Returns
//  how much that is.
static size_t
s_copy_out (const pins_file_t *file, const piece_t *piece, bool from_end, uint8_t *memory)
{
    pins_data_t *self = file->data;
    pthread_mutex_lock (&self->lock);
    block_t *block = s_find (self, file->number, piece->number);
    size_t bytes = block && block->bytes == piece->block_bytes? s_run (block, piece, from_end): 0;
    if (bytes)
        block->users++;
    self->hit_bytes += bytes;
    pthread_mutex_unlock (&self->lock);
    if (bytes == 0)
        return 0;
    size_t at = from_end? piece->end - piece->begin - bytes: 0;
    memcpy (memory + at, block->memory + piece->begin + at, bytes);
    pthread_mutex_lock (&self->lock);
    block = s_leave (block);
    pthread_mutex_unlock (&self->lock);
    if (block)
        s_free (block);
    return bytes;
}

static void
s_check (const pins_file_t *file, uint64_t offset, size_t bytes)
{
    assert (file && file->data && file->data->magic == PINS_MAGIC);
    assert (offset <= file->bytes && bytes <= file->bytes - offset);
}

pins_gap_t
pins_read (const pins_file_t *file, uint64_t offset, size_t bytes, uint8_t *memory)
{
    s_check (file, offset, bytes);
    assert (offset % UNIT == 0 && ((offset + bytes) % UNIT == 0 || offset + bytes == file->bytes));
    pins_gap_t gap = { .begin = 0, .end = bytes };
    bool is_whole = true;
    while (gap.begin < bytes && is_whole) {
        piece_t piece = s_piece (file, offset + gap.begin, bytes - gap.begin);
        size_t here = s_copy_out (file, &piece, false, memory + gap.begin);
        is_whole = here == piece.end - piece.begin;
        gap.begin += here;
    }
    is_whole = true;
    while (gap.end > gap.begin && is_whole) {
        //  The last block of what is left.
        uint64_t end = offset + gap.end, block = (end - 1) / PINS_BLOCK_BYTES * PINS_BLOCK_BYTES,
            begin = block > offset + gap.begin? block: offset + gap.begin;
        piece_t piece = s_piece (file, begin, (size_t) (end - begin));
        size_t here = s_copy_out (file, &piece, true, memory + (begin - offset));
        is_whole = here == piece.end - piece.begin;
        gap.end -= here;
    }
    if (gap.begin < gap.end) {
        pthread_mutex_lock (&file->data->lock);
        file->data->miss_bytes += gap.end - gap.begin;
        pthread_mutex_unlock (&file->data->lock);
    }
    return gap;
}


//  -- keeping

//  Claims the units from first to before last that are free; mine: a bit for each.  Returns how many.
static size_t
s_claim (block_t *block, size_t first, size_t last, uint64_t mine [WORDS_MAX])
{
    size_t count = 0;
    for (size_t unit = first; unit < last; unit++)
        if (!s_bit (block->words, unit)) {
            uint64_t bit = (uint64_t) 1 << unit % 64;
            block->words [unit / 64] |= bit;
            mine [unit / 64] |= bit;
            count++;
        }
    return count;
}

//  The units that were claimed are here.  Returns the block if it is to be freed.
static block_t *
s_fill (pins_data_t *self, block_t *block, const uint64_t mine [WORDS_MAX])
{
    size_t words = s_words (block->bytes);
    for (size_t unit = 0; unit * UNIT < block->bytes; unit++)
        if (s_bit (mine, unit) && !block->is_gone)
            self->filled += s_unit_bytes (block, unit);
    for (size_t word = 0; word < words; word++)
        block->words [words + word] |= mine [word];
    return s_leave (block);
}

static void
s_keep (const pins_file_t *file, const piece_t *piece, const uint8_t *memory)
{
    pins_data_t *self = file->data;
    uint64_t mine [WORDS_MAX] = { 0 };
    size_t first = (piece->begin + UNIT - 1) / UNIT,
        last = piece->end == piece->block_bytes? (piece->end + UNIT - 1) / UNIT: piece->end / UNIT;
    if (first >= last)
        return;
    pthread_mutex_lock (&self->lock);
    block_t *block = s_find (self, file->number, piece->number);
    if (!block)
        block = s_reserve (self, file->number, piece);
    bool is_of_use = block && block->bytes == piece->block_bytes && s_claim (block, first, last, mine) > 0;
    if (is_of_use)
        block->users++;
    pthread_mutex_unlock (&self->lock);
    if (!is_of_use)
        return;
    for (size_t unit = first; unit < last; unit++)
        if (s_bit (mine, unit))
            memcpy (block->memory + unit * UNIT, memory + unit * UNIT - piece->begin,
                s_unit_bytes (block, unit));
    pthread_mutex_lock (&self->lock);
    block = s_fill (self, block, mine);
    pthread_mutex_unlock (&self->lock);
    if (block)
        s_free (block);
}

void
pins_keep (const pins_file_t *file, uint64_t offset, size_t bytes, const uint8_t *memory)
{
    s_check (file, offset, bytes);
    for (size_t at = 0; at < bytes;) {
        piece_t piece = s_piece (file, offset + at, bytes - at);
        s_keep (file, &piece, memory + at);
        at += piece.end - piece.begin;
    }
}

bool
pins_keeps (const pins_file_t *file, uint64_t offset)
{
    s_check (file, offset, 1);
    pins_data_t *self = file->data;
    piece_t piece = s_piece (file, offset, 1);
    pthread_mutex_lock (&self->lock);
    bool keeps = s_find (self, file->number, piece.number)
        || self->reserved + s_cost (piece.block_bytes) <= self->limit;
    pthread_mutex_unlock (&self->lock);
    return keeps;
}

void
pins_drop (const pins_file_t *file, uint64_t offset, size_t bytes)
{
    s_check (file, offset, bytes);
    pins_data_t *self = file->data;
    for (size_t at = 0; at < bytes;) {
        piece_t piece = s_piece (file, offset + at, bytes - at);
        pthread_mutex_lock (&self->lock);
        block_t *block = s_find (self, file->number, piece.number);
        block = block? s_remove (self, block): NULL;
        pthread_mutex_unlock (&self->lock);
        if (block)
            s_free (block);
        at += piece.end - piece.begin;
    }
}
