//  The raw store's invariants.

#include "raw_store_state.h"
#include <assert.h>

//  How many requests are in its lines.
static size_t
s_check_lane (const raw_store_t *self, uint32_t number)
{
    const lane_t *lane = &self->lanes [number];
    size_t queued = 0;
    for (uint32_t source = 0; source < RAW_SOURCES_MAX; source++) {
        const line_t *line = &lane->lines [source];
        assert (!line->first == !(lane->occupied & raw_store_source_bit (source)));
        for (const raw_request_t *request = line->first; request; request = request->next) {
            assert (request->lane == number && request->source == source);
            assert (!request->handed_out && !(request->also && request->sample_count > 0));
            assert (request->next || request == line->last);
            queued++;
        }
    }
    return queued;
}

void
raw_store_check (const raw_store_t *self)
{
    assert (self->magic == STORE_MAGIC);
    size_t bytes = 0, samples = 0, in_memory = 0, queued = 0, parts = 0, of_lanes [RAW_LANES_MAX] = { 0 };
    for (uint32_t lane = 0; lane < self->lane_count; lane++)
        queued += s_check_lane (self, lane);
    assert (queued == self->queued);                                                            //  R4
    for (size_t bucket = 0; bucket < self->bucket_count; bucket++)
        for (const raw_sample_t *sample = self->buckets [bucket]; sample; sample = sample->chain) {
            bytes += sample->memory? sample->bytes: 0;
            if (sample->memory)
                of_lanes [raw_sample_lane (sample)] += sample->bytes;
            in_memory += sample->memory != NULL;
            samples++;
            assert (sample->holds > 0 || (sample->request && sample->request->handed_out));     //  R2
            assert ((sample->state == RAW_SAMPLE_AWAITED) == (sample->request != NULL));        //  R3
            uint32_t found = 0;
            for (uint32_t index = 0; sample->request && index < sample->request->sample_count; index++)
                found += sample->request->samples [index] == sample;
            assert (found == (sample->request != NULL));                                        //  R3
        }
    for (uint32_t lane = 0; lane < RAW_LANES_MAX; lane++) {
        assert (of_lanes [lane] == self->lanes [lane].bytes);                                   //  R4
        parts += self->lanes [lane].part;
    }
    assert (parts <= self->budget_bytes);                                                       //  R5
    assert (samples == self->sample_count);
    assert (bytes == self->memory_bytes);                                                       //  R1
    assert (bytes <= self->budget_bytes || in_memory <= RAW_PIECE_MAX);                         //  R1
}
