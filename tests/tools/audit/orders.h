/*  orders -- recorded epochs made up for tests of the audit: true shuffles, and the usual ways to get them
 *  wrong.
 *
 *  All arrays are malloc'ed and the caller's.
 */
#ifndef ORDERS_H
#define ORDERS_H
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "audit.h"
#include "seed.h"

enum { ORDERS_BLOCK = 64 };

static inline void
orders_swap (uint32_t *ids, size_t one, size_t two)
{
    uint32_t id = ids [one];
    ids [one] = ids [two];
    ids [two] = id;
}

static inline void
orders_mix (uint64_t *random, uint32_t *ids, size_t count)
{
    for (size_t left = count; left > 1; left--)
        orders_swap (ids, left - 1, test_below (random, left));
}

static inline uint32_t *
orders_ascending (size_t count)
{
    uint32_t *ids = calloc (count, sizeof *ids);
    assert (ids);
    for (size_t id = 0; id < count; id++)
        ids [id] = (uint32_t) id;
    return ids;
}

static inline uint32_t *
orders_shuffle (uint64_t *random, size_t count)
{
    uint32_t *ids = orders_ascending (count);
    orders_mix (random, ids, count);
    return ids;
}

static inline uint32_t *
orders_copy (const uint32_t *from, size_t count)
{
    uint32_t *ids = calloc (count, sizeof *ids);
    assert (ids);
    memcpy (ids, from, count * sizeof *ids);
    return ids;
}

//  As a loader with a shuffle buffer delivers sorted data.
static inline uint32_t *
orders_buffered (uint64_t *random, size_t count, size_t buffer)
{
    uint32_t *ids = orders_ascending (count), *held = orders_ascending (buffer);
    for (size_t place = 0, read = buffer; place < count; place++) {
        size_t drawn = test_below (random, buffer);
        ids [place] = held [drawn];
        if (read < count)
            held [drawn] = (uint32_t) read++;
        else
            held [drawn] = held [--buffer];
    }
    free (held);
    return ids;
}

//  from, in blocks of ORDERS_BLOCK: inside they are shuffled, or among each other.
static inline uint32_t *
orders_blocks (uint64_t *random, const uint32_t *from, size_t count, int among)
{
    size_t blocks = (count + ORDERS_BLOCK - 1) / ORDERS_BLOCK, used = 0;
    uint32_t *ids = calloc (count, sizeof *ids), *order = orders_ascending (blocks);
    assert (ids);
    if (among)
        orders_mix (random, order, blocks);
    for (size_t index = 0; index < blocks; index++) {
        size_t begin = order [index] * ORDERS_BLOCK;
        size_t size = count - begin < ORDERS_BLOCK? count - begin: ORDERS_BLOCK;
        memcpy (ids + used, from + begin, size * sizeof *ids);
        if (!among)
            orders_mix (random, ids + used, size);
        used += size;
    }
    free (order);
    return ids;
}

//  A shuffle of from, but kept of each thousand ids stay in their tenth: phi2 is about 9 (kept / 1,000)^2.
//  count is a multiple of ten.
static inline uint32_t *
orders_correlated (uint64_t *random, const uint32_t *from, size_t count, unsigned kept)
{
    uint32_t *ids = orders_copy (from, count), *free_places = calloc (count, sizeof *free_places);
    assert (free_places);
    size_t tenth = count / 10, used = 0;
    for (size_t begin = 0; begin < count; begin += tenth)
        orders_mix (random, ids + begin, tenth);
    for (size_t place = 0; place < count; place++)
        if (test_below (random, 1000) >= kept)
            free_places [used++] = (uint32_t) place;
    for (size_t left = used; left > 1; left--)
        orders_swap (ids, free_places [left - 1], free_places [test_below (random, left)]);
    free (free_places);
    return ids;
}

//  A shuffle as a job over nodes is dealt: units of so many neighbours in random order, cut into runs for the
//  ranks (orders_cut says where), each of which is shuffled.
static inline size_t
orders_cut (size_t count, unsigned ranks, unsigned rank)
{
    return count * rank / ranks;
}

static inline uint32_t *
orders_dealt (uint64_t *random, size_t count, unsigned ranks, size_t unit)
{
    size_t units = (count + unit - 1) / unit, used = 0;
    uint32_t *ids = calloc (count, sizeof *ids), *order = orders_shuffle (random, units);
    assert (ids);
    for (size_t index = 0; index < units; index++)
        for (size_t id = order [index] * unit; id < count && id < (order [index] + 1) * unit; id++)
            ids [used++] = (uint32_t) id;
    free (order);
    for (unsigned rank = 0; rank < ranks; rank++) {
        size_t begin = orders_cut (count, ranks, rank);
        orders_mix (random, ids + begin, orders_cut (count, ranks, rank + 1) - begin);
    }
    return ids;
}

//  The so many highest ids come among the last places, of which there are twice as many.
static inline void
orders_put_last (uint64_t *random, uint32_t *ids, size_t count, size_t highest)
{
    size_t late = count;
    for (size_t place = count; place-- > 0;)
        if (ids [place] + highest >= count)
            orders_swap (ids, place, --late);
    orders_mix (random, ids + count - 2 * highest, 2 * highest);
}

//  Adds an epoch; takes ids.
static inline void
orders_add (audit_t *audit, uint64_t number, uint32_t *ids, size_t count, bool finished)
{
    int rc = audit_add_epoch (audit, number, &ids, count, finished);
    assert (rc == 0);
    (void) rc;
}

#endif
