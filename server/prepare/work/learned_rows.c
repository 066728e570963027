#include "learned_rows.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "pack_index.h"

enum { LEARNED_ROWS_MAGIC = 0x1ea27ed0, BESIDE_BYTES = 16 };    //  that an allocation takes
enum { FREE_PART = 8 };                 //  of the budget: with more than this it is not full

struct learned_rows {
    uint32_t magic;
    uint32_t samples;
    uint32_t known;
    bool is_changed;
    learned_rows_budget_t *budget;
    learned_rows_entry_t **entries;     //  by id; NULL: nothing is known
};

static size_t
s_bytes (const learned_rows_entry_t *entry)
{
    return sizeof *entry + entry->size + BESIDE_BYTES;
}

//  Tasks to which it is lent keep it.
static void
s_give_up (learned_rows_t *self, uint32_t id)
{
    learned_rows_entry_t *entry = self->entries [id];
    if (!entry)
        return;
    self->entries [id] = NULL;
    self->known--;
    self->budget->bytes -= s_bytes (entry);
    self->budget->is_full = false;
    learned_rows_release (entry);
}

learned_rows_t *
learned_rows_new (uint32_t samples, learned_rows_budget_t *budget)
{
    learned_rows_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = (learned_rows_t) { .magic = LEARNED_ROWS_MAGIC, .samples = samples, .budget = budget,
        .entries = calloc (samples, sizeof *self->entries) };
    if (!self->entries)
        learned_rows_destroy (&self);
    return self;
}

void
learned_rows_destroy (learned_rows_t **self_p)
{
    learned_rows_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == LEARNED_ROWS_MAGIC);
    for (uint32_t id = 0; self->entries && id < self->samples; id++) {
        assert (!self->entries [id] || self->entries [id]->users == 1);
        s_give_up (self, id);
    }
    free (self->entries);
    self->magic = 0;
    free (self);
}

bool
learned_rows_has_room (const learned_rows_t *self)
{
    assert (!self || self->magic == LEARNED_ROWS_MAGIC);
    return self && !self->budget->is_full;
}

learned_rows_entry_t *
learned_rows_lend (learned_rows_t *self, uint32_t id)
{
    assert (!self || (self->magic == LEARNED_ROWS_MAGIC && id < self->samples));
    learned_rows_entry_t *entry = self? self->entries [id]: NULL;
    if (entry)
        entry->users++;
    return entry;
}

void
learned_rows_release (learned_rows_entry_t *entry)
{
    if (!entry)
        return;
    assert (entry->users > 0);
    if (--entry->users == 0)
        free (entry);
}

learned_rows_entry_t *
learned_rows_entry (uint64_t checksum, const uint8_t *bytes, size_t size)
{
    assert (size > 0 && size <= UINT32_MAX);
    learned_rows_entry_t *entry = malloc (sizeof *entry + size);
    if (!entry)
        return NULL;
    *entry = (learned_rows_entry_t) { .checksum = checksum, .users = 1, .size = (uint32_t) size };
    memcpy (entry->bytes, bytes, size);
    return entry;
}

bool
learned_rows_tell (const learned_rows_entry_t *entry, decoder_file_t *file)
{
    if (!entry || entry->checksum != pack_checksum (file->bytes, file->size))
        return false;
    file->rows = entry->bytes;
    file->rows_bytes = entry->size;
    return true;
}

//  Of many files nothing is found, ever: these need no checksum.
learned_rows_entry_t *
learned_rows_found (decoder_t *decoder, const decoder_file_t *file, const learned_rows_entry_t *told)
{
    const uint8_t *rows;
    size_t size = decoder_learned (decoder, &rows);
    if (size == 0)
        return NULL;
    return learned_rows_entry (told? told->checksum: pack_checksum (file->bytes, file->size), rows, size);
}

void
learned_rows_keep (learned_rows_t *self, uint32_t id, learned_rows_entry_t *entry)
{
    assert (self->magic == LEARNED_ROWS_MAGIC && id < self->samples);
    learned_rows_budget_t *budget = self->budget;
    if (self->entries [id] && self->entries [id]->checksum != entry->checksum)
        s_give_up (self, id);
    size_t known_bytes = self->entries [id]? s_bytes (self->entries [id]): 0;
    bool is_more = s_bytes (entry) > known_bytes;
    bool has_room = budget->bytes - known_bytes + s_bytes (entry) <= budget->bytes_max;
    if (is_more && has_room) {
        s_give_up (self, id);
        budget->bytes += s_bytes (entry);
        self->known++;
        self->is_changed = true;
        self->entries [id] = entry;
        return;
    }
    //  A large entry may have no room where small ones still have.
    budget->is_full |= is_more && budget->bytes_max - budget->bytes < budget->bytes_max / FREE_PART;
    learned_rows_release (entry);
}

uint32_t
learned_rows_samples (const learned_rows_t *self)
{
    assert (self->magic == LEARNED_ROWS_MAGIC);
    return self->known;
}

uint32_t
learned_rows_table (const learned_rows_t *self)
{
    return self->samples;
}

bool
learned_rows_is_changed (const learned_rows_t *self)
{
    return self->is_changed;
}

void
learned_rows_set_changed (learned_rows_t *self, bool is_changed)
{
    self->is_changed = is_changed;
}

//  An entry takes no more there than in memory.
size_t
learned_rows_file_max (const learned_rows_t *self)
{
    enum { BEGIN_AND_END_BYTES = 4096 };
    return self->budget->bytes_max + BEGIN_AND_END_BYTES;
}
