/*  A data set's blocks lie in chains by their key, and in slabs: mappings of 66 MiB from which they are
 *  carved, header and bytes, one behind the other.  No block leaves but the last one that was carved.  So
 *  memory goes back as whole pages at the end of a slab, and as whole slabs; a server has few mappings,
 *  however many files.
 *
 *  A thread that copies bytes in or out is a user of the block.  It claims units before it copies bytes in,
 *  and says afterwards that they are here; so no unit is written twice, and none is read while it is written.
 *  Units that are given up meanwhile stay claimed until the block has no user.
 *
 *  The pins' own thread gives memory back, in steps: blocks above a limit, and data sets that have gone.  It
 *  alone frees a data set, so that it may work on one without the pins' lock.
 */
#include "pins.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PINS_MAGIC = 0x0b10c4ed,
    UNIT = PINS_UNIT_BYTES,
    UNITS_MAX = PINS_BLOCK_BYTES / PINS_UNIT_BYTES,
    WORDS_MAX = UNITS_MAX / 64,
    SLAB_BYTES = 66 * 1024 * 1024,      //  16 large blocks
    STEP_BYTES = 64 * 1024 * 1024,      //  that leave at once,
    STEP_BLOCKS = 1024,                 //  and blocks: under a millisecond of the lock
    TABLE_COST = 24                     //  of a block in chains
};

typedef struct block block_t;
struct block {
    block_t *chain, *below;             //  below: carved before it
    uint64_t file, number;              //  of the block in its file
    uint64_t keep;                      //  that of pins_keep_file; 0: of ranges
    uint32_t bytes;
    uint32_t users;                     //  that copy in or out
    uint32_t drops;                     //  how often units were given up
    uint64_t words [];                  //  a bit for each unit: claimed; then as many: here; then its bytes
};

typedef struct slab slab_t;
struct slab {
    slab_t *below;                      //  filled before it
    size_t bytes, used;
    uint64_t unused;                    //  blocks begin at multiples of 16
};

struct pins {
    uint32_t magic;
    pthread_t thread;
    pthread_mutex_t lock;               //  before that of a data set
    pthread_cond_t work, settled;
    uint64_t limit;
    pins_data_t *first;                 //  data set
    pins_data_t *gone;                  //  to be freed
    bool is_settled;                    //  the thread has nothing to do
    bool is_ending;
};

struct pins_data {
    uint32_t magic;
    //  set at birth
    pins_t *pins;
    uint64_t data_bytes;
    //  under both locks
    uint64_t cost;                      //  0: it is retired
    //  under the lock of pins
    pins_data_t *next;
    //  under its own
    pthread_mutex_t lock;
    pthread_cond_t left;                //  a block that leaves has no user any more
    uint64_t limit, reserved;
    uint64_t filled, hit_bytes, miss_bytes;
    uint64_t grown_at;                  //  hits and misses when the limit last grew
    uint64_t keeps;                     //  of whole files so far
    size_t users;                       //  of all blocks
    block_t **chains;                   //  a power of two, or NULL
    size_t count, chain_count;
    block_t *last;                      //  that was carved
    slab_t *top;                        //  has the last block; NULL: none
    slab_t *spare;                      //  empty, and the system does not take them back (munmap)
    bool is_shedding;                   //  blocks leave: none is reserved
    bool is_file_leaving;               //  the last block that left was of a file that is kept as a whole
    uint64_t leaving;                   //  this file
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

//  In a slab.
static size_t
s_room (uint32_t block_bytes)
{
    size_t header = sizeof (block_t) + 2 * s_words (block_bytes) * sizeof (uint64_t);
    return (header + block_bytes + 15) / 16 * 16;
}

static uint64_t
s_cost (uint32_t block_bytes)
{
    return s_room (block_bytes) + TABLE_COST;
}

uint64_t
pins_cost (uint64_t file_bytes)
{
    uint64_t blocks = file_bytes / PINS_BLOCK_BYTES;
    uint32_t rest = (uint32_t) (file_bytes % PINS_BLOCK_BYTES);
    return blocks * s_cost (PINS_BLOCK_BYTES) + (rest? s_cost (rest): 0);
}


//  -- blocks

static uint8_t *
s_bytes (block_t *self)
{
    return (uint8_t *) (self->words + 2 * s_words (self->bytes));
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


//  -- slabs

//  NULL: no memory.
static slab_t *
s_new_slab (pins_data_t *self, size_t block_bytes)
{
    slab_t *slab = self->spare;
    if (slab && slab->bytes - sizeof (slab_t) >= block_bytes) {
        self->spare = slab->below;
        return slab;
    }
    uint64_t wanted = self->cost < SLAB_BYTES - sizeof (slab_t)? self->cost: SLAB_BYTES - sizeof (slab_t);
    wanted = (wanted > block_bytes? wanted: block_bytes) + sizeof (slab_t);
    size_t bytes = (size_t) (wanted + UNIT - 1) / UNIT * UNIT;
    slab = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab == MAP_FAILED)
        return NULL;
    *slab = (slab_t) { .bytes = bytes, .used = sizeof (slab_t) };
    return slab;
}

//  Room behind the last block.  NULL: no memory.
static block_t *
s_carve (pins_data_t *self, size_t bytes)
{
    slab_t *slab = self->top;
    if (!slab || slab->bytes - slab->used < bytes) {
        slab = s_new_slab (self, bytes);
        if (!slab)
            return NULL;
        slab->below = self->top;
        self->top = slab;
    }
    block_t *block = (block_t *) ((uint8_t *) slab + slab->used);
    slab->used += bytes;
    return block;
}

//  Gives the last block's room back to its slab.  A slab that is empty goes to the list.
static void
s_uncarve (pins_data_t *self, slab_t **empty_p)
{
    slab_t *slab = self->top;
    block_t *block = self->last;
    self->last = block->below;
    slab->used = (size_t) ((uint8_t *) block - (uint8_t *) slab);
    if (slab->used > sizeof (slab_t))
        return;
    self->top = slab->below;
    slab->below = *empty_p;
    *empty_p = slab;
}

//  Gives slabs back to the system.  Those that it does not take, because a mapping would become two and it
//  allows no more, lose their memory all the same, and are returned.
static slab_t *
s_unmap (slab_t *slab)
{
    slab_t *left = NULL;
    while (slab) {
        slab_t *next = slab->below;
        size_t bytes = slab->bytes;
        if (munmap (slab, bytes) != 0) {
            madvise (slab, bytes, MADV_DONTNEED);
            *slab = (slab_t) { .below = left, .bytes = bytes, .used = sizeof (slab_t) };
            left = slab;
        }
        slab = next;
    }
    return left;
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
    for (block_t *block = self->last; block; block = block->below) {
        size_t at = s_chain (self, block->file, block->number);
        block->chain = chains [at];
        chains [at] = block;
    }
    return true;
}

static bool
s_has_room (const pins_data_t *self, uint64_t cost)
{
    return !self->is_shedding && self->reserved + cost <= self->limit;
}

//  NULL: there is no room for it.
static block_t *
s_reserve (pins_data_t *self, uint64_t file, const piece_t *piece)
{
    uint64_t cost = s_cost (piece->block_bytes);
    if (!s_has_room (self, cost) || !s_make_chains (self))
        return NULL;
    block_t *block = s_carve (self, s_room (piece->block_bytes));
    if (!block)
        return NULL;
    size_t at = s_chain (self, file, piece->number);
    *block = (block_t) { .chain = self->chains [at], .below = self->last, .file = file,
        .number = piece->number, .bytes = piece->block_bytes };
    memset (block->words, 0, 2 * s_words (block->bytes) * sizeof (uint64_t));
    self->chains [at] = block;
    self->last = block;
    self->count++;
    self->reserved += cost;
    return block;
}

static void
s_enter (pins_data_t *self, block_t *block)
{
    block->users++;
    self->users++;
}

//  The caller has copied.
static void
s_leave (pins_data_t *self, block_t *block)
{
    size_t words = s_words (block->bytes);
    self->users--;
    if (--block->users > 0)
        return;
    //  Nothing is under way: what is not here is free.
    memcpy (block->words, s_here (block), words * sizeof (uint64_t));
    if (self->is_shedding)
        pthread_cond_signal (&self->left);
}

//  Gives up units.
static void
s_wipe (pins_data_t *self, block_t *block, size_t first, size_t last)
{
    size_t words = s_words (block->bytes);
    for (size_t unit = first; unit < last; unit++)
        if (s_bit (s_here (block), unit)) {
            block->words [words + unit / 64] &= ~((uint64_t) 1 << unit % 64);
            self->filled -= s_unit_bytes (block, unit);
        }
    block->drops++;
    if (block->users == 0)
        memcpy (block->words, s_here (block), words * sizeof (uint64_t));
}


//  -- giving back

//  Whether blocks must leave.  A file that is kept as a whole is of no use in part.
static bool
s_is_over (const pins_data_t *self)
{
    return self->reserved > self->limit
        || (self->is_file_leaving && self->last && self->last->keep && self->last->file == self->leaving);
}

//  The last block leaves; waits for threads that copy.
static void
s_remove_last (pins_data_t *self, slab_t **empty_p)
{
    block_t *block = self->last;
    block_t **link = &self->chains [s_chain (self, block->file, block->number)];
    while (*link != block)
        link = &(*link)->chain;
    *link = block->chain;
    while (block->users > 0)
        pthread_cond_wait (&self->left, &self->lock);
    s_wipe (self, block, 0, (block->bytes + UNIT - 1) / UNIT);
    self->count--;
    self->reserved -= s_cost (block->bytes);
    self->is_file_leaving = block->keep > 0;
    self->leaving = block->file;
    s_uncarve (self, empty_p);
}

//  A step: some blocks leave.
static void
s_shed (pins_data_t *self)
{
    slab_t *empty = NULL;
    pthread_mutex_lock (&self->lock);
    uint64_t before = self->reserved;
    self->is_shedding = true;
    for (int count = 0; s_is_over (self) && count < STEP_BLOCKS && before - self->reserved < STEP_BYTES;
        count++)
        s_remove_last (self, &empty);
    //  Nothing is carved meanwhile.
    slab_t *top = self->top;
    size_t used = top? (top->used + UNIT - 1) / UNIT * UNIT: 0;
    block_t **chains = self->count == 0? self->chains: NULL;
    if (chains) {
        self->chains = NULL;
        self->chain_count = 0;
    }
    pthread_mutex_unlock (&self->lock);
    free (chains);
    if (top && used < top->bytes)
        madvise ((uint8_t *) top + used, top->bytes - used, MADV_DONTNEED);
    slab_t *left = s_unmap (empty);
    pthread_mutex_lock (&self->lock);
    while (left) {
        slab_t *next = left->below;
        left->below = self->spare;
        self->spare = left;
        left = next;
    }
    if (!s_is_over (self))
        self->is_shedding = self->is_file_leaving = false;
    pthread_mutex_unlock (&self->lock);
}

//  Under the lock of pins: a data set from which blocks must leave; NULL: none.
static pins_data_t *
s_heavy (pins_t *self)
{
    for (pins_data_t *data = self->first; data; data = data->next) {
        pthread_mutex_lock (&data->lock);
        bool is_heavy = s_is_over (data);
        pthread_mutex_unlock (&data->lock);
        if (is_heavy)
            return data;
    }
    return NULL;
}

static void
s_free_data (pins_data_t *self)
{
    //  Of what the system does not take back, only addresses are left.
    s_unmap (self->top);
    s_unmap (self->spare);
    free (self->chains);
    pthread_cond_destroy (&self->left);
    pthread_mutex_destroy (&self->lock);
    free (self);
}

//  Under the lock of pins.  False: there is nothing to do.
static bool
s_step (pins_t *self)
{
    pins_data_t *gone = self->gone, *heavy = gone? NULL: s_heavy (self);
    if (!gone && !heavy)
        return false;
    self->gone = gone? gone->next: NULL;
    pthread_mutex_unlock (&self->lock);
    if (gone)
        s_free_data (gone);
    else
        s_shed (heavy);
    pthread_mutex_lock (&self->lock);
    return true;
}

static void *
s_give_back (void *argument)
{
    pins_t *self = argument;
    pthread_mutex_lock (&self->lock);
    for (;;) {
        while (s_step (self))
            ;
        self->is_settled = true;
        pthread_cond_broadcast (&self->settled);
        if (self->is_ending)
            break;
        while (self->is_settled && !self->is_ending)
            pthread_cond_wait (&self->work, &self->lock);
    }
    pthread_mutex_unlock (&self->lock);
    return NULL;
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
    self->is_settled = true;
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->work, NULL);
    pthread_cond_init (&self->settled, NULL);
    int rc = pthread_create (&self->thread, NULL, s_give_back, self);
    if (rc == 0)
        return self;
    pthread_cond_destroy (&self->settled);
    pthread_cond_destroy (&self->work);
    pthread_mutex_destroy (&self->lock);
    free (self);
    errno = rc;
    return NULL;
}

void
pins_destroy (pins_t **self_p)
{
    assert (self_p);
    pins_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == PINS_MAGIC && !self->first);
    pthread_mutex_lock (&self->lock);
    self->is_ending = true;
    pthread_cond_signal (&self->work);
    pthread_mutex_unlock (&self->lock);
    pthread_join (self->thread, NULL);
    pthread_cond_destroy (&self->settled);
    pthread_cond_destroy (&self->work);
    pthread_mutex_destroy (&self->lock);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  Under the lock of pins: sets the limits, and wakes the thread.
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
        if (limit > data->limit)
            data->grown_at = data->hit_bytes + data->miss_bytes;
        data->limit = limit;
        pthread_mutex_unlock (&data->lock);
    }
    self->is_settled = false;
    pthread_cond_signal (&self->work);
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

void
pins_settle (pins_t *self)
{
    assert (self && self->magic == PINS_MAGIC);
    pthread_mutex_lock (&self->lock);
    while (!self->is_settled)
        pthread_cond_wait (&self->settled, &self->lock);
    pthread_mutex_unlock (&self->lock);
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
    pthread_cond_init (&self->left, NULL);
    pthread_mutex_lock (&pins->lock);
    self->next = pins->first;
    pins->first = self;
    s_divide (pins);
    pthread_mutex_unlock (&pins->lock);
    return self;
}

void
pins_data_retire (pins_data_t *self)
{
    assert (self && self->magic == PINS_MAGIC);
    pthread_mutex_lock (&self->pins->lock);
    pthread_mutex_lock (&self->lock);
    self->cost = 0;
    pthread_mutex_unlock (&self->lock);
    s_divide (self->pins);
    pthread_mutex_unlock (&self->pins->lock);
}

void
pins_data_destroy (pins_data_t **self_p)
{
    assert (self_p);
    pins_data_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == PINS_MAGIC && self->users == 0);
    pins_t *pins = self->pins;
    pthread_mutex_lock (&pins->lock);
    pins_data_t **link = &pins->first;
    while (*link != self)
        link = &(*link)->next;
    *link = self->next;
    self->magic = 0;
    self->next = pins->gone;
    pins->gone = self;
    s_divide (pins);
    pthread_mutex_unlock (&pins->lock);
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
//  how much that is, and the keep of its block.
static size_t
s_copy_out (const pins_file_t *file, const piece_t *piece, bool from_end, uint8_t *memory, uint64_t *keep_p)
{
    pins_data_t *self = file->data;
    pthread_mutex_lock (&self->lock);
    block_t *block = s_find (self, file->number, piece->number);
    size_t bytes = block && block->bytes == piece->block_bytes? s_run (block, piece, from_end): 0;
    if (bytes) {
        *keep_p = block->keep;
        s_enter (self, block);
    }
    pthread_mutex_unlock (&self->lock);
    if (bytes == 0)
        return 0;
    size_t at = from_end? piece->end - piece->begin - bytes: 0;
    memcpy (memory + at, s_bytes (block) + piece->begin + at, bytes);
    pthread_mutex_lock (&self->lock);
    s_leave (self, block);
    pthread_mutex_unlock (&self->lock);
    return bytes;
}

static void
s_count (pins_data_t *self, uint64_t hit_bytes, uint64_t miss_bytes)
{
    pthread_mutex_lock (&self->lock);
    self->hit_bytes += hit_bytes;
    self->miss_bytes += miss_bytes;
    pthread_mutex_unlock (&self->lock);
}

static void
s_check (const pins_file_t *file, uint64_t offset, size_t bytes)
{
    assert (file && file->data && file->data->magic == PINS_MAGIC);
    assert (offset <= file->bytes && bytes <= file->bytes - offset);
}

pins_gap_t
pins_lend (const pins_file_t *file, uint64_t offset, size_t bytes, uint8_t *memory)
{
    s_check (file, offset, bytes);
    assert (offset % UNIT == 0 && ((offset + bytes) % UNIT == 0 || offset + bytes == file->bytes));
    pins_gap_t gap = { .begin = 0, .end = bytes };
    uint64_t keep;
    bool is_whole = true;
    while (gap.begin < bytes && is_whole) {
        piece_t piece = s_piece (file, offset + gap.begin, bytes - gap.begin);
        size_t here = s_copy_out (file, &piece, false, memory + gap.begin, &keep);
        is_whole = here == piece.end - piece.begin;
        gap.begin += here;
    }
    is_whole = true;
    while (gap.end > gap.begin && is_whole) {
        //  The last block of what is left.
        uint64_t end = offset + gap.end, block = (end - 1) / PINS_BLOCK_BYTES * PINS_BLOCK_BYTES,
            begin = block > offset + gap.begin? block: offset + gap.begin;
        piece_t piece = s_piece (file, begin, (size_t) (end - begin));
        size_t here = s_copy_out (file, &piece, true, memory + (begin - offset), &keep);
        is_whole = here == piece.end - piece.begin;
        gap.end -= here;
    }
    return gap;
}

pins_gap_t
pins_read (const pins_file_t *file, uint64_t offset, size_t bytes, uint8_t *memory)
{
    pins_gap_t gap = pins_lend (file, offset, bytes, memory);
    s_count (file->data, bytes - (gap.end - gap.begin), gap.end - gap.begin);
    return gap;
}

bool
pins_read_file (const pins_file_t *file, uint8_t *memory)
{
    s_check (file, 0, (size_t) file->bytes);
    uint64_t at = 0, first = 0;
    while (at < file->bytes) {
        piece_t piece = s_piece (file, at, (size_t) (file->bytes - at));
        uint64_t keep = 0;
        if (s_copy_out (file, &piece, false, memory + at, &keep) < piece.end - piece.begin
        ||  keep == 0 || (at > 0 && keep != first))
            break;
        first = keep;
        at += piece.end - piece.begin;
    }
    bool is_whole = at == file->bytes;
    s_count (file->data, is_whole? file->bytes: 0, is_whole? 0: file->bytes);
    return is_whole;
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

//  The units that were claimed are here, if none was given up meanwhile.
static void
s_fill (pins_data_t *self, block_t *block, const uint64_t mine [WORDS_MAX], uint32_t drops)
{
    size_t words = s_words (block->bytes);
    bool is_good = block->drops == drops;
    for (size_t unit = 0; is_good && unit * UNIT < block->bytes; unit++)
        if (s_bit (mine, unit))
            self->filled += s_unit_bytes (block, unit);
    for (size_t word = 0; is_good && word < words; word++)
        block->words [words + word] |= mine [word];
    s_leave (self, block);
}

//  keep: of a whole file, with its blocks reserved; 0: of a range.
static void
s_keep (const pins_file_t *file, const piece_t *piece, const uint8_t *memory, uint64_t keep)
{
    pins_data_t *self = file->data;
    uint64_t mine [WORDS_MAX] = { 0 };
    size_t first = (piece->begin + UNIT - 1) / UNIT,
        last = piece->end == piece->block_bytes? (piece->end + UNIT - 1) / UNIT: piece->end / UNIT;
    if (first >= last)
        return;
    pthread_mutex_lock (&self->lock);
    block_t *block = s_find (self, file->number, piece->number);
    if (!block && !keep)
        block = s_reserve (self, file->number, piece);
    bool is_of_use = block && block->bytes == piece->block_bytes && block->keep == keep
        && s_claim (block, first, last, mine) > 0;
    uint32_t drops = is_of_use? block->drops: 0;
    if (is_of_use)
        s_enter (self, block);
    pthread_mutex_unlock (&self->lock);
    if (!is_of_use)
        return;
    for (size_t unit = first; unit < last; unit++)
        if (s_bit (mine, unit))
            memcpy (s_bytes (block) + unit * UNIT, memory + unit * UNIT - piece->begin,
                s_unit_bytes (block, unit));
    pthread_mutex_lock (&self->lock);
    s_fill (self, block, mine, drops);
    pthread_mutex_unlock (&self->lock);
}

void
pins_keep (const pins_file_t *file, uint64_t offset, size_t bytes, const uint8_t *memory)
{
    s_check (file, offset, bytes);
    for (size_t at = 0; at < bytes;) {
        piece_t piece = s_piece (file, offset + at, bytes - at);
        s_keep (file, &piece, memory + at, 0);
        at += piece.end - piece.begin;
    }
}

//  Under the lock: whether all of the file is here, of one keep; and the cost of its blocks that are not
//  reserved.
static bool
s_is_whole (const pins_file_t *file, uint64_t *cost_p)
{
    bool is_whole = true;
    uint64_t first = 0;
    *cost_p = 0;
    for (uint64_t at = 0; at < file->bytes;) {
        piece_t piece = s_piece (file, at, (size_t) (file->bytes - at));
        const block_t *block = s_find (file->data, file->number, piece.number);
        *cost_p += block? 0: s_cost (piece.block_bytes);
        is_whole = is_whole && block && block->keep && (at == 0 || block->keep == first)
            && s_run (block, &piece, false) == piece.block_bytes;
        first = block? block->keep: 0;
        at += piece.block_bytes;
    }
    return is_whole;
}

//  Reserves the blocks of a whole file, one behind the other, and gives up what they had.  Returns the
//  number of this keep; 0: there is no room, or nothing to do.
static uint64_t
s_begin_file (const pins_file_t *file)
{
    pins_data_t *self = file->data;
    uint64_t cost;
    if (s_is_whole (file, &cost) || (cost && !s_has_room (self, cost)))
        return 0;
    uint64_t keep = ++self->keeps;
    for (uint64_t at = 0; at < file->bytes;) {
        piece_t piece = s_piece (file, at, (size_t) (file->bytes - at));
        block_t *block = s_find (self, file->number, piece.number);
        block = block? block: s_reserve (self, file->number, &piece);
        if (!block || block->bytes != piece.block_bytes)
            return 0;
        s_wipe (self, block, 0, (block->bytes + UNIT - 1) / UNIT);
        block->keep = keep;
        at += piece.block_bytes;
    }
    return keep;
}

void
pins_keep_file (const pins_file_t *file, const uint8_t *memory)
{
    s_check (file, 0, (size_t) file->bytes);
    pthread_mutex_lock (&file->data->lock);
    uint64_t keep = s_begin_file (file);
    pthread_mutex_unlock (&file->data->lock);
    for (uint64_t at = 0; keep && at < file->bytes;) {
        piece_t piece = s_piece (file, at, (size_t) (file->bytes - at));
        s_keep (file, &piece, memory + at, keep);
        at += piece.block_bytes;
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
        || s_has_room (self, s_cost (piece.block_bytes));
    pthread_mutex_unlock (&self->lock);
    return keeps;
}

bool
pins_has (const pins_file_t *file, uint64_t offset, size_t bytes)
{
    s_check (file, offset, bytes);
    bool has = true;
    pthread_mutex_lock (&file->data->lock);
    for (size_t at = 0; at < bytes && has;) {
        piece_t piece = s_piece (file, offset + at, bytes - at);
        const block_t *block = s_find (file->data, file->number, piece.number);
        has = block && block->bytes == piece.block_bytes
            && s_run (block, &piece, false) == piece.end - piece.begin;
        at += piece.end - piece.begin;
    }
    pthread_mutex_unlock (&file->data->lock);
    return has;
}

bool
pins_is_filling (pins_data_t *self)
{
    assert (self && self->magic == PINS_MAGIC);
    pthread_mutex_lock (&self->lock);
    bool is_filling = self->hit_bytes + self->miss_bytes - self->grown_at < self->data_bytes;
    pthread_mutex_unlock (&self->lock);
    return is_filling;
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
        if (block && block->bytes == piece.block_bytes)
            s_wipe (self, block, piece.begin / UNIT, (piece.end + UNIT - 1) / UNIT);
        pthread_mutex_unlock (&self->lock);
        at += piece.end - piece.begin;
    }
}
