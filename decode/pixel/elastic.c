#include "elastic.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "instrument.h"
#include "loops.h"
#include "simd.h"

//  Where pixel `at` of a side is, in half sides from the middle: torch.linspace ((1 - side) / side,
//  (side - 1) / side, side) [at].
static float
s_middle (uint32_t side, uint32_t at)
{
    float first = (float) ((1.0 - side) / side), last = (float) ((side - 1.0) / side);
    if (side == 1)
        return first;
    float step = (last - first) / (float) (side - 1);
    return at < side / 2? fmaf (step, (float) at, first): fmaf (-step, (float) (side - 1 - at), last);
}

INSTRUMENT_ROWS static void
s_meet (const elastic_t *self, const image_t *source, const elastic_places_t *places, size_t count,
    uint8_t *target)
{
    for (size_t index = 0; index < count; index++, target += source->channels) {
        float x = rintf (places->x [index]), y = rintf (places->y [index]);
        bool is_inside = x >= 0 && x < (float) source->width && y >= 0 && y < (float) source->height;
        memcpy (target, is_inside? image_at (source, (uint32_t) y, (uint32_t) x): self->fill,
            source->channels);
    }
}

static void
s_run_row (const elastic_t *self, const image_t *source, const elastic_loops_t *loops, uint32_t row,
    uint8_t *target)
{
    float columns [ELASTIC_BLOCK], rows [ELASTIC_BLOCK];
    elastic_places_t places;
    for (uint32_t first = 0; first < source->width; first += ELASTIC_BLOCK) {
        uint32_t count = source->width - first < ELASTIC_BLOCK? source->width - first: ELASTIC_BLOCK;
        for (uint32_t index = 0; index < count; index++) {
            columns [index] = s_middle (source->width, first + index);
            rows [index] = s_middle (source->height, row);
        }
        size_t at = (size_t) row * source->width + first;
        loops->look (places.x, columns, self->across + at, (float) source->width / 2, count);
        loops->look (places.y, rows, self->down + at, (float) source->height / 2, count);
        uint8_t *pixels = target + (size_t) first * source->channels;
        if (self->is_bilinear)
            loops->mix (self, source, &places, count, pixels);
        else
            s_meet (self, source, &places, count, pixels);
    }
}

void
elastic_run (const elastic_t *self, const image_t *source, uint8_t *target)
{
    assert (source->height && source->width);
    assert (source->channels == 1 || source->channels == IMAGE_COLOURS || !self->is_bilinear);
    const elastic_loops_t *loops = &simd_loops ()->elastic;
    size_t row_bytes = image_bytes (1, source->width, source->channels);
    for (uint32_t row = 0; row < source->height; row++, target += row_bytes) {
        s_run_row (self, source, loops, row, target);
        instrument_written (target, row_bytes);
    }
}
