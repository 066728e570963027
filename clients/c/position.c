#include "position.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define POSITION_MAGIC 0x504f534eu

struct position {
    uint32_t magic;
    //  Set at birth.
    const uint64_t *list;               //  NULL: the job gave none
    size_t list_count;
    uint64_t samples;                   //  of the data set
    uint32_t nodes;                     //  1: the job is not over several
    uint32_t node;
    //  Of the open epoch.
    position_cut_t cut;                 //  with nodes
    uint64_t epoch;
    uint64_t batches;
    uint64_t had;                       //  samples
    bool resumed;                       //  some of them by an earlier job
    bool later_job;                     //  whichever epoch is open: position_next_job
    size_t place;                       //  how many places of the list are done, of those that are the node's
    uint64_t *words;                    //  without a list: one bit an id
};

void
position_taken_clear (position_taken_t *taken)
{
    free (taken->words);
    *taken = (position_taken_t) { .words = NULL };
}

bool
position_cut_copy (position_cut_t *copy, const position_cut_t *cut)
{
    *copy = *cut;
    copy->taken.words = NULL;
    if (cut->taken.word_count == 0)
        return true;
    copy->taken.words = malloc (cut->taken.word_count * sizeof *copy->taken.words);
    if (copy->taken.words)
        memcpy (copy->taken.words, cut->taken.words, cut->taken.word_count * sizeof *copy->taken.words);
    return copy->taken.words;
}

position_t *
position_new (const uint64_t *list, size_t list_count, uint64_t samples)
{
    if (samples > (uint64_t) UINT32_MAX + 1)
        return NULL;
    position_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = (position_t) { .magic = POSITION_MAGIC, .list = list, .list_count = list_count,
        .samples = samples, .nodes = 1 };
    if (!list)
        self->words = calloc ((size_t) samples / 64 + 1, sizeof *self->words);
    if (!list && !self->words)
        position_destroy (&self);
    return self;
}

void
position_destroy (position_t **self_p)
{
    position_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == POSITION_MAGIC);
    position_taken_clear (&self->cut.taken);
    free (self->words);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

bool
position_set_node (position_t *self, uint32_t nodes, uint32_t node, const position_cut_t *cut)
{
    assert (self && self->magic == POSITION_MAGIC && node < nodes && cut && !self->cut.taken.words);
    self->nodes = nodes;
    self->node = node;
    return position_cut_copy (&self->cut, cut);
}

bool
position_cut (const position_t *self, position_cut_t *cut)
{
    assert (self && self->magic == POSITION_MAGIC);
    return position_cut_copy (cut, &self->cut);
}

//  The list's place of the node's place.
static uint64_t
s_place_of (const position_t *self, size_t place)
{
    uint64_t before = self->cut.taken.count, skip = self->node + self->nodes - before % self->nodes;
    return before + skip % self->nodes + (uint64_t) place * self->nodes;
}

//  Whether every bit of the words is one of the data set's samples.
static bool
s_words_fit (const position_t *self, const position_taken_t *taken)
{
    if (taken->word_count == 0)
        return true;
    size_t last = taken->word_count - 1;
    if (taken->word_count > self->samples / 64 + 1)
        return false;
    return last < self->samples / 64 || taken->words [last] >> self->samples % 64 == 0;
}

bool
position_resume (position_t *self, uint64_t epoch, uint64_t batches, const position_taken_t *taken)
{
    assert (self && self->magic == POSITION_MAGIC && taken);
    //  If nothing was taken, both forms are equal.
    bool fits = taken->count == 0 || (taken->list? self->list && taken->count <= self->list_count:
        !self->list && s_words_fit (self, taken));
    if (!fits || taken->count < self->cut.taken.count || batches < self->cut.batches)
        return false;
    self->epoch = epoch;
    self->batches = batches;
    self->had = taken->count;
    self->resumed = taken->count > 0;
    uint64_t since = taken->count - (self->list? self->cut.taken.count: 0);
    self->place = self->list? (size_t) ((since + self->nodes - 1) / self->nodes): 0;
    if (taken->count && !self->list)
        memcpy (self->words, taken->words, taken->word_count * sizeof *taken->words);
    return true;
}

void
position_next_job (position_t *self)
{
    assert (self && self->magic == POSITION_MAGIC);
    self->resumed = self->had > 0;
    self->later_job = true;
}

static bool
s_take_of_list (position_t *self, uint64_t id)
{
    size_t place = self->place;
    while (s_place_of (self, place) < self->list_count && self->list [s_place_of (self, place)] != id)
        place++;
    if (s_place_of (self, place) >= self->list_count)
        return false;
    self->place = place + 1;
    return true;
}

static bool
s_take_of_set (position_t *self, uint64_t id)
{
    if (id >= self->samples)
        return false;
    uint64_t *word = &self->words [id / 64], bit = (uint64_t) 1 << id % 64;
    if (*word & bit)
        return false;
    *word |= bit;
    return true;
}

bool
position_take (position_t *self, const uint64_t *ids, size_t count)
{
    assert (self && self->magic == POSITION_MAGIC);
    size_t taken = 0;
    for (size_t index = 0; index < count; index++)
        taken += self->list? s_take_of_list (self, ids [index]): s_take_of_set (self, ids [index]);
    self->had += taken;
    return taken == count;
}

void
position_end_epoch (position_t *self)
{
    assert (self && self->magic == POSITION_MAGIC);
    self->epoch++;
    self->batches = self->had = self->place = 0;
    self->resumed = false;
    position_taken_clear (&self->cut.taken);
    self->cut.batches = 0;
    if (self->words)
        memset (self->words, 0, ((size_t) self->samples / 64 + 1) * sizeof *self->words);
}

void
position_end_batch (position_t *self)
{
    assert (self && self->magic == POSITION_MAGIC);
    self->batches++;
}

uint64_t
position_epoch (const position_t *self)
{
    assert (self && self->magic == POSITION_MAGIC);
    return self->epoch;
}

uint64_t
position_batches (const position_t *self)
{
    assert (self && self->magic == POSITION_MAGIC);
    return self->batches;
}

bool
position_samples (const position_t *self, uint64_t *samples_p)
{
    assert (self && self->magic == POSITION_MAGIC);
    *samples_p = self->had;
    return !self->resumed && !(self->list && self->later_job);
}

bool
position_taken (const position_t *self, position_taken_t *taken)
{
    assert (self && self->magic == POSITION_MAGIC);
    *taken = (position_taken_t) { .list = self->list, .count = self->had };
    if (self->list) {
        //  As if all nodes had been given as many.
        uint64_t places = self->cut.taken.count + (uint64_t) self->place * self->nodes;
        taken->count = places < self->list_count? places: self->list_count;
    }
    if (self->list || self->had == 0)
        return true;
    size_t count = (size_t) self->samples / 64 + 1;
    while (count && self->words [count - 1] == 0)
        count--;
    taken->words = malloc (count * sizeof *taken->words);
    if (!taken->words)
        return false;
    memcpy (taken->words, self->words, count * sizeof *taken->words);
    taken->word_count = count;
    return true;
}
