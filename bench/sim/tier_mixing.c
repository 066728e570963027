#include "tier_mixing.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "simulated_memory.h"

enum { NOWHERE = 0xffffffff };

typedef struct {
    double distance;                //  a sum over pairs, in samples
    uint64_t pairs, together;       //  together: in one batch
} pairs_t;

//  Pairs of samples that are in the same `group` neighbours of the pack.  when: position in the order by
//  place in the pack.
static pairs_t
s_count_pairs (const uint32_t *when, uint32_t samples, uint32_t group, uint32_t batch)
{
    pairs_t pairs = { 0 };
    for (uint64_t first = 0; first < samples; first += group) {
        uint64_t end = first + group < samples? first + group: samples;
        for (uint64_t place = first; place < end; place++)
            for (uint64_t other = first; other < place && when [place] != NOWHERE; other++) {
                if (when [other] == NOWHERE)
                    continue;
                int64_t apart = (int64_t) when [place] - (int64_t) when [other];
                pairs.distance += (double) (apart < 0? -apart: apart);
                pairs.together += when [place] / batch == when [other] / batch;
                pairs.pairs++;
            }
    }
    return pairs;
}

//  How likely two samples of the order share a batch, if all are alike.
static double
s_chance_together (uint32_t count, uint32_t batch)
{
    double whole = count / batch, rest = count % batch, size = batch;
    return (whole * size * (size - 1) + rest * (rest - 1)) / ((double) count * (count - 1.0));
}

static void
s_add_batch (tier_mixing_t *self, const uint32_t *order, uint32_t batch, const uint32_t *positions,
    uint32_t chunk, uint32_t *tally)
{
    uint32_t distinct = 0, most = 0;
    for (uint32_t place = 0; place < batch; place++) {
        uint32_t *count = &tally [positions [order [place]] / chunk];
        distinct += *count == 0;
        ++*count;
        most = *count > most? *count: most;
    }
    for (uint32_t place = 0; place < batch; place++)
        tally [positions [order [place]] / chunk] = 0;
    mean_add (&self->batch_distinct_chunks, distinct);
    mean_add (&self->batch_most_of_one_chunk, most);
}

static void
s_add_mean (mean_t *mean, double sum, uint64_t count)
{
    if (count > 0)
        mean_add (mean, sum / (double) count);
}

void
tier_mixing_add (tier_mixing_t *self, const uint32_t *order, uint32_t count, const uint32_t *positions,
    uint32_t samples, uint32_t chunk, uint32_t piece, uint32_t batch)
{
    if (count < 2)
        return;
    uint32_t *when = simulated_alloc (samples, sizeof *when);
    uint32_t *tally = simulated_alloc (samples / chunk + 1, sizeof *tally);
    memset (when, 0xff, samples * sizeof *when);        //  NOWHERE
    for (uint32_t place = 0; place < count; place++)
        when [positions [order [place]]] = place;
    pairs_t chunks = s_count_pairs (when, samples, chunk, batch);
    pairs_t pieces = s_count_pairs (when, samples, piece, batch);
    s_add_mean (&self->chunk_distance, chunks.distance / count, chunks.pairs);
    s_add_mean (&self->piece_distance, pieces.distance / count, pieces.pairs);
    double chance = s_chance_together (count, batch);
    if (chance > 0)
        s_add_mean (&self->piece_same_batch, (double) pieces.together / chance, pieces.pairs);
    for (uint64_t first = 0; first + batch <= count; first += batch)
        s_add_batch (self, order + first, batch, positions, chunk, tally);
    free (when);
    free (tally);
}

void
tier_mixing_merge (tier_mixing_t *self, const tier_mixing_t *other)
{
    mean_merge (&self->chunk_distance, &other->chunk_distance);
    mean_merge (&self->piece_distance, &other->piece_distance);
    mean_merge (&self->piece_same_batch, &other->piece_same_batch);
    mean_merge (&self->batch_distinct_chunks, &other->batch_distinct_chunks);
    mean_merge (&self->batch_most_of_one_chunk, &other->batch_most_of_one_chunk);
}
