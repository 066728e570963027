#include "colour.h"
#include <assert.h>
#include <string.h>
#include "instrument.h"
#include "loops.h"

//  All colours but black, white and grey are at their ends with less; with more, infinity times 0 would be no
//  number.
static const double s_factor_max = 1e30;

static bool
s_has_factor (colour_kind_t kind)
{
    return kind <= COLOUR_HUE || kind == COLOUR_POSTERIZE || kind == COLOUR_SOLARIZE;
}

//  Whether its result depends on the channel and its value alone.
static bool
s_is_table (colour_kind_t kind)
{
    return kind == COLOUR_BRIGHTNESS || kind == COLOUR_CONTRAST || kind >= COLOUR_INVERT;
}

//  Whether it has its tables from the image's histograms.
static bool
s_has_tables (colour_kind_t kind)
{
    return kind == COLOUR_AUTOCONTRAST || kind == COLOUR_EQUALIZE;
}

bool
colour_is_measured (colour_kind_t kind)
{
    return kind == COLOUR_CONTRAST || s_has_tables (kind);
}

//  How many of the first steps have tables.
static size_t
s_tables (const colour_program_t *self, size_t steps)
{
    size_t tables = 0;
    for (size_t index = 0; index < steps; index++)
        tables += s_has_tables (self->steps [index].kind);
    return tables;
}

bool
colour_has_room (const colour_program_t *self, size_t steps)
{
    return self->count + steps <= COLOUR_STEPS_MAX && s_tables (self, self->count) < COLOUR_TABLES_MAX;
}

static bool
s_changes (colour_kind_t kind, double factor)
{
    if (kind == COLOUR_HUE)
        return factor != 0;
    if (kind == COLOUR_POSTERIZE)
        return factor < 8;
    if (kind == COLOUR_SOLARIZE)
        return factor <= UINT8_MAX;
    return !s_has_factor (kind) || (float) factor != 1;
}

bool
colour_add (colour_program_t *self, colour_kind_t kind, double factor)
{
    assert (kind <= COLOUR_EQUALIZE);
    assert (!s_has_factor (kind) || factor >= (kind == COLOUR_HUE? -0.5: 0));
    assert (kind != COLOUR_HUE || factor <= 0.5);
    if (!s_changes (kind, factor))
        return true;
    if (s_has_tables (kind)? !colour_has_room (self, 1): self->count == COLOUR_STEPS_MAX)
        return false;
    factor = factor < s_factor_max? factor: s_factor_max;
    self->steps [self->count++] = (colour_step_t) { .kind = kind, .factor = factor };
    return true;
}

//  ---------------------------------------------------------------------------------------------------------
//  Tables

//  The result of each value, for a step without tables of its own.
static void
s_map (const colour_step_t *step, uint8_t map [COLOUR_VALUES])
{
    int32_t mean = step->kind == COLOUR_CONTRAST? step->mean: 0;
    for (int32_t value = 0; value < COLOUR_VALUES; value++)
        switch (step->kind) {
        case COLOUR_INVERT:
            map [value] = (uint8_t) (UINT8_MAX - value);
            break;
        case COLOUR_POSTERIZE:
            map [value] = (uint8_t) (value & (UINT8_MAX << (8 - (int) step->factor)));
            break;
        case COLOUR_SOLARIZE:
            map [value] = (uint8_t) (value < step->factor? value: UINT8_MAX - value);
            break;
        default:                //  the blend with the mean, or with black
            map [value] = colour_blend (mean, value, (float) step->factor);
        }
}

static void
s_compose (uint8_t table [COLOUR_VALUES], const uint8_t map [COLOUR_VALUES])
{
    for (size_t value = 0; value < COLOUR_VALUES; value++)
        table [value] = map [table [value]];
}

static void
s_append_tables (colour_action_t *action, const colour_tables_t tables)
{
    for (size_t channel = 1; action->is_one && channel < IMAGE_COLOURS; channel++)
        memcpy (action->tables [channel], action->tables [0], COLOUR_VALUES);
    action->is_one = false;
    for (size_t channel = 0; channel < IMAGE_COLOURS; channel++)
        s_compose (action->tables [channel], tables [channel]);
}

//  An action that does nothing yet.
static colour_action_t *
s_push (colour_pass_t *self, const colour_step_t *step)
{
    colour_action_t *action = &self->actions [self->count++];
    action->kind = s_is_table (step->kind)? COLOUR_BRIGHTNESS: step->kind;
    action->is_one = true;
    if (s_is_table (step->kind))
        for (size_t value = 0; value < COLOUR_VALUES; value++)
            action->tables [0] [value] = (uint8_t) value;
    return action;
}

//  ---------------------------------------------------------------------------------------------------------
//  Running

void
colour_begin (colour_pass_t *self, const colour_program_t *program, size_t steps)
{
    assert (steps <= program->count);
    self->loops = &loops_chosen ()->colour;
    self->count = 0;
    size_t tables = 0;
    for (const colour_step_t *step = program->steps; step < program->steps + steps; step++) {
        bool joins = s_is_table (step->kind) && self->count
            && self->actions [self->count - 1].kind == COLOUR_BRIGHTNESS;
        colour_action_t *action = joins? &self->actions [self->count - 1]: s_push (self, step);
        uint8_t map [COLOUR_VALUES];
        if (s_has_tables (step->kind))
            s_append_tables (action, program->tables [tables++]);
        else
        if (s_is_table (step->kind)) {
            s_map (step, map);
            for (size_t channel = 0; channel < (action->is_one? 1: IMAGE_COLOURS); channel++)
                s_compose (action->tables [channel], map);
        }
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
        s_look_up (action->tables [0], block->red, count);
        s_look_up (action->tables [action->is_one? 0: 1], block->green, count);
        s_look_up (action->tables [action->is_one? 0: 2], block->blue, count);
    }
}

//  The same on pixels that are not taken apart.
INSTRUMENT_ROWS static void
s_look_up_pixels (const colour_action_t *action, uint8_t *pixels, uint32_t width)
{
    if (action->is_one) {
        s_look_up (action->tables [0], pixels, (size_t) width * IMAGE_COLOURS);
        return;
    }
    for (uint32_t column = 0; column < width; column++, pixels += IMAGE_COLOURS) {
        pixels [0] = action->tables [0] [pixels [0]];
        pixels [1] = action->tables [1] [pixels [1]];
        pixels [2] = action->tables [2] [pixels [2]];
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
        s_look_up_pixels (&actions [first++], row, width);
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

//  ---------------------------------------------------------------------------------------------------------
//  Measuring

typedef struct {
    uint64_t greys;             //  their sum
    uint32_t histogram [IMAGE_COLOURS] [COLOUR_VALUES];
} measure_t;

static void
s_sum_greys (measure_t *measure, const colour_loops_t *loops, const uint8_t *row, uint32_t width)
{
    for (uint32_t column = 0; column < width; column += COLOUR_BLOCK) {
        uint32_t rest = width - column;
        measure->greys += loops->sum (row + (size_t) column * IMAGE_COLOURS,
            rest < COLOUR_BLOCK? rest: COLOUR_BLOCK);
    }
}

INSTRUMENT_ROWS static void
s_count (measure_t *measure, const uint8_t *row, uint32_t width)
{
    for (uint32_t column = 0; column < width; column++, row += IMAGE_COLOURS) {
        measure->histogram [0] [row [0]]++;
        measure->histogram [1] [row [1]]++;
        measure->histogram [2] [row [2]]++;
    }
}

//  Looks at the image's pixels behind the first `steps` steps, for the step that comes next.
static void
s_look (const colour_program_t *self, size_t steps, const image_t *source, uint8_t *row, measure_t *measure)
{
    colour_pass_t pass;
    colour_begin (&pass, self, steps);
    bool counts = s_has_tables (self->steps [steps].kind);
    memset (measure, 0, sizeof *measure);
    for (uint32_t index = 0; index < source->height; index++) {
        const uint8_t *pixels = image_at (source, index, 0);
        if (steps > 0) {
            memcpy (row, pixels, image_bytes (1, source->width, IMAGE_COLOURS));
            colour_run (&pass, row, source->width);
            pixels = row;
        }
        if (counts)
            s_count (measure, pixels, source->width);
        else
            s_sum_greys (measure, pass.loops, pixels, source->width);
    }
}

static void
s_keep (uint8_t table [COLOUR_VALUES])
{
    for (size_t value = 0; value < COLOUR_VALUES; value++)
        table [value] = (uint8_t) value;
}

//  The least value becomes 0, the largest 255; in doubles, truncated, as Pillow has it.
static void
s_stretch (const uint32_t histogram [COLOUR_VALUES], uint8_t table [COLOUR_VALUES])
{
    int least = 0, most = UINT8_MAX;
    while (least < UINT8_MAX && !histogram [least])
        least++;
    while (most > 0 && !histogram [most])
        most--;
    if (most <= least) {
        s_keep (table);
        return;
    }
    double scale = 255.0 / (most - least), offset = -least * scale;
    for (int value = 0; value < COLOUR_VALUES; value++) {
        int stretched = (int) (value * scale + offset);
        table [value] = (uint8_t) (stretched < 0? 0: stretched > UINT8_MAX? UINT8_MAX: stretched);
    }
}

//  Equally many pixels for each value, in whole numbers as Pillow has it: but for those of the largest value,
//  a step of the result is a 255th of all.
static void
s_equalize (const uint32_t histogram [COLOUR_VALUES], uint8_t table [COLOUR_VALUES])
{
    uint64_t all = 0;
    uint32_t last = 0;
    for (size_t value = 0; value < COLOUR_VALUES; value++) {
        all += histogram [value];
        last = histogram [value]? histogram [value]: last;
    }
    uint64_t step = (all - last) / UINT8_MAX;
    if (!step) {
        s_keep (table);
        return;
    }
    uint64_t number = step / 2;
    for (size_t value = 0; value < COLOUR_VALUES; value++) {
        uint64_t equalized = number / step;
        table [value] = equalized < UINT8_MAX? (uint8_t) equalized: UINT8_MAX;
        number += histogram [value];
    }
}

void
colour_measure (colour_program_t *self, const image_t *source, uint8_t *row)
{
    assert (source->channels == IMAGE_COLOURS && source->height && source->width);
    size_t tables = 0;
    for (size_t index = 0; index < self->count; index++) {
        colour_step_t *step = &self->steps [index];
        if (!colour_is_measured (step->kind))
            continue;
        measure_t measure;
        s_look (self, index, source, row, &measure);
        //  Rounded as ImageEnhance.Contrast does.
        if (step->kind == COLOUR_CONTRAST)
            step->mean = (uint8_t) ((double) measure.greys / ((double) source->height * source->width) + 0.5);
        for (size_t channel = 0; s_has_tables (step->kind) && channel < IMAGE_COLOURS; channel++)
            (step->kind == COLOUR_EQUALIZE? s_equalize: s_stretch) (measure.histogram [channel],
                self->tables [tables] [channel]);
        tables += s_has_tables (step->kind);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Sharpness

void
colour_sharpen (const image_t *source, double factor, uint8_t *target, size_t stride)
{
    assert (source->channels == IMAGE_COLOURS && source->height && source->width);
    assert (factor >= 0);
    const colour_loops_t *loops = &loops_chosen ()->colour;
    size_t row_bytes = image_bytes (1, source->width, IMAGE_COLOURS);
    float blend = (float) (factor < s_factor_max? factor: s_factor_max);
    for (uint32_t row = 0; row < source->height; row++, target += stride) {
        const uint8_t *pixels = image_at (source, row, 0);
        bool is_inside = row > 0 && row + 1 < source->height && source->width > 2;
        size_t edge = is_inside? IMAGE_COLOURS: row_bytes;
        memcpy (target, pixels, edge);
        if (is_inside) {
            memcpy (target + row_bytes - edge, pixels + row_bytes - edge, edge);
            loops->sharpen (target, image_at (source, row - 1, 0), pixels, image_at (source, row + 1, 0),
                row_bytes - 2 * edge, blend);
        }
        instrument_written (target, row_bytes);
    }
}
