#include "colour.h"
#include <assert.h>
#include <string.h>
#include "colour_rows.h"
#include "simd.h"

//  All colours but black, white and grey are at their ends with less; with more, infinity times 0 would be no
//  number.
static const double s_factor_max = 1e30;

const colour_loops_t colour_loops_portable = COLOUR_LOOPS;

static const colour_loops_t *
s_loops (void)
{
#ifdef TUREEN_AVX2
    if (simd_level () >= SIMD_AVX2)
        return &colour_loops_avx2;
#endif
    return &colour_loops_portable;
}

static bool
s_is_table (colour_kind_t kind)
{
    return kind == COLOUR_BRIGHTNESS || kind == COLOUR_CONTRAST;
}

bool
colour_add (colour_program_t *self, colour_kind_t kind, double factor)
{
    assert (kind <= COLOUR_GREY);
    assert (kind == COLOUR_GREY || factor >= (kind == COLOUR_HUE? -0.5: 0));
    assert (kind != COLOUR_HUE || factor <= 0.5);
    bool changes = kind == COLOUR_GREY || (kind == COLOUR_HUE? factor != 0: (float) factor != 1);
    if (!changes)
        return true;
    if (self->count == COLOUR_STEPS_MAX)
        return false;
    factor = factor < s_factor_max? factor: s_factor_max;
    self->steps [self->count++] = (colour_step_t) { .kind = kind, .factor = factor };
    return true;
}

//  The blend of each value with the mean, or with black, behind what the table did before.
static void
s_blend_table (uint8_t table [COLOUR_VALUES], const colour_step_t *step)
{
    int32_t mean = step->kind == COLOUR_CONTRAST? step->mean: 0;
    for (size_t value = 0; value < COLOUR_VALUES; value++)
        table [value] = s_blend (mean, table [value], (float) step->factor);
}

//  An action that does nothing yet.
static colour_action_t *
s_push (colour_pass_t *self, const colour_step_t *step)
{
    colour_action_t *action = &self->actions [self->count++];
    action->kind = s_is_table (step->kind)? COLOUR_BRIGHTNESS: step->kind;
    if (s_is_table (step->kind))
        for (size_t value = 0; value < COLOUR_VALUES; value++)
            action->table [value] = (uint8_t) value;
    return action;
}

void
colour_begin (colour_pass_t *self, const colour_program_t *program, size_t steps)
{
    assert (steps <= program->count);
    self->loops = s_loops ();
    self->count = 0;
    for (const colour_step_t *step = program->steps; step < program->steps + steps; step++) {
        bool joins = s_is_table (step->kind) && self->count
            && self->actions [self->count - 1].kind == COLOUR_BRIGHTNESS;
        colour_action_t *action = joins? &self->actions [self->count - 1]: s_push (self, step);
        if (s_is_table (step->kind))
            s_blend_table (action->table, step);
        action->factor = (float) step->factor;
        //  NumPy's conversion to 8 bits: truncated, then modulo 256.
        action->shift = step->kind == COLOUR_HUE? (int32_t) (step->factor * 255) & 255: 0;
    }
}

INSTRUMENT_ROWS static void
s_look_up (const uint8_t table [COLOUR_VALUES], uint8_t *values, size_t count)
{
    for (size_t index = 0; index < count; index++)
        values [index] = table [values [index]];
}

static void
s_act (const colour_action_t *action, const colour_loops_t *loops, colour_block_t *block, size_t count)
{
    switch (action->kind) {
    case COLOUR_SATURATION:
        loops->saturate (block, count, action->factor);
        break;
    case COLOUR_HUE:
        loops->turn_hue (block, count, action->shift);
        break;
    case COLOUR_GREY:
        loops->grey (block, count);
        break;
    default:
        s_look_up (action->table, block->red, count);
        s_look_up (action->table, block->green, count);
        s_look_up (action->table, block->blue, count);
    }
}

void
colour_run (const colour_pass_t *self, uint8_t *row, uint32_t width)
{
    const colour_loops_t *loops = self->loops;
    const colour_action_t *actions = self->actions;
    size_t first = 0, last = self->count;
    //  A table that comes first needs no planes.
    if (first < last && actions [first].kind == COLOUR_BRIGHTNESS)
        s_look_up (actions [first++].table, row, (size_t) width * IMAGE_COLOURS);
    for (uint32_t column = 0; first < last && column < width; column += COLOUR_BLOCK) {
        uint8_t *pixels = row + (size_t) column * IMAGE_COLOURS;
        size_t count = width - column < COLOUR_BLOCK? width - column: COLOUR_BLOCK;
        colour_block_t block;
        loops->split (&block, count, pixels);
        for (size_t index = first; index < last; index++)
            s_act (&actions [index], loops, &block, count);
        loops->merge (&block, count, pixels);
    }
    instrument_written (row, (size_t) width * IMAGE_COLOURS);
}

//  The mean grey of an image's pixels behind the first `steps` steps, rounded as ImageEnhance.Contrast does.
static uint8_t
s_mean (const colour_program_t *self, size_t steps, const image_t *source, uint8_t *row)
{
    colour_pass_t pass;
    colour_begin (&pass, self, steps);
    uint64_t sum = 0;
    for (uint32_t index = 0; index < source->height; index++) {
        memcpy (row, image_at (source, index, 0), image_bytes (1, source->width, IMAGE_COLOURS));
        colour_run (&pass, row, source->width);
        for (uint32_t column = 0; column < source->width; column += COLOUR_BLOCK) {
            uint32_t rest = source->width - column;
            sum += pass.loops->sum (row + (size_t) column * IMAGE_COLOURS,
                rest < COLOUR_BLOCK? rest: COLOUR_BLOCK);
        }
    }
    double pixels = (double) source->height * source->width;
    return (uint8_t) ((double) sum / pixels + 0.5);
}

void
colour_measure (colour_program_t *self, const image_t *source, uint8_t *row)
{
    assert (source->channels == IMAGE_COLOURS && source->height && source->width);
    for (size_t index = 0; index < self->count; index++)
        if (self->steps [index].kind == COLOUR_CONTRAST)
            self->steps [index].mean = s_mean (self, index, source, row);
}
