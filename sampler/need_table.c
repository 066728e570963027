#include "need_table.h"
#include "need.h"

#include <stdlib.h>

enum { NEED_TABLE_MAGIC = 0x2c4a1b5e, BLOCK = 512 };

need_table_t *
need_table_new (uint32_t sample_count)
{
    need_table_t *self = sampler_need (calloc (1, sizeof *self));
    self->magic = NEED_TABLE_MAGIC;
    self->sample_count = sample_count;
    return self;
}

void
need_table_destroy (need_table_t **self_p)
{
    assert (self_p);
    need_table_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == NEED_TABLE_MAGIC);
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        free (self->planes [word]);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
need_table_add (need_table_t *self, uint32_t job, const roaring_bitmap_t *ids)
{
    assert (self->magic == NEED_TABLE_MAGIC);
    uint64_t **plane_p = &self->planes [job / 64];
    if (!*plane_p)
        *plane_p = sampler_need (calloc (self->sample_count, sizeof **plane_p));
    jobset_add (&self->members, job);
    roaring_uint32_iterator_t cursor;
    roaring_init_iterator (ids, &cursor);
    uint32_t block [BLOCK], count;
    while ((count = roaring_read_uint32_iterator (&cursor, block, BLOCK)) > 0)
        for (uint32_t index = 0; index < count; index++)
            (*plane_p) [block [index]] |= UINT64_C (1) << job % 64;
}

void
need_table_leave (need_table_t *self, uint32_t job, const roaring_bitmap_t *ids)
{
    assert (self->magic == NEED_TABLE_MAGIC);
    assert (jobset_has (&self->members, job));
    jobset_remove (&self->members, job);
    uint64_t **plane_p = &self->planes [job / 64];
    if (!self->members.words [job / 64]) {
        free (*plane_p);
        *plane_p = NULL;
        return;
    }
    roaring_uint32_iterator_t cursor;
    roaring_init_iterator (ids, &cursor);
    uint32_t block [BLOCK], count;
    while ((count = roaring_read_uint32_iterator (&cursor, block, BLOCK)) > 0)
        for (uint32_t index = 0; index < count; index++)
            (*plane_p) [block [index]] &= ~(UINT64_C (1) << job % 64);
}

void
need_table_remove (need_table_t *self, uint32_t id, const jobset_t *jobs)
{
    assert (id < self->sample_count);
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        if (jobs->words [word])
            self->planes [word] [id] &= ~jobs->words [word];
}

static inline bool
s_any (const need_table_t *self, uint32_t id, const jobset_t *jobs)
{
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        if (jobs->words [word] && jobs->words [word] & self->planes [word] [id])
            return true;
    return false;
}

size_t
need_table_between (const need_table_t *self, const jobset_t *any, const jobset_t *all, uint32_t *ids,
    size_t max)
{
    size_t count = 0;
    for (uint32_t id = 0; id < self->sample_count; id++)
        if (!need_table_all (self, id, all) && s_any (self, id, any)) {
            if (count == max)
                return 0;
            ids [count++] = id;
        }
    return count;
}

jobset_t
need_table_of (const need_table_t *self, uint32_t id)
{
    assert (id < self->sample_count);
    jobset_t jobs = { { 0 } };
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        if (self->planes [word])
            jobs.words [word] = self->planes [word] [id];
    return jobs;
}
