/*  test_finish -- flips, numbers and layouts against a model of one number at a time, and no byte beside
 *  them.  */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include "finish.h"
#include "levels.h"
#include "seed.h"

enum { FILLER = 0xa5, WIDTH_MAX = 600, FORMATS_MAX = 64 };

//  0 .. bound - 1
static uint32_t
s_up_to (uint64_t *random, uint32_t bound)
{
    return (uint32_t) test_below (random, bound);
}

//  Memory of exactly some bytes between two guard pages without access: with at_end, the second one begins
//  right behind it, else the first one ends right before it.
typedef struct {
    uint8_t *data;
    size_t bytes;
    void *whole;
    size_t whole_bytes;
} block_t;

static block_t
s_block (size_t bytes, bool at_end)
{
    size_t page = (size_t) sysconf (_SC_PAGESIZE), inner = (bytes + page - 1) / page * page;
    block_t block = { .bytes = bytes, .whole_bytes = inner + 2 * page };
    block.whole = mmap (NULL, block.whole_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal (block.whole, MAP_FAILED);
    uint8_t *start = (uint8_t *) block.whole + page;
    assert_int_equal (mprotect (start, inner, PROT_READ | PROT_WRITE), 0);
    block.data = at_end? start + inner - bytes: start;
    return block;
}

static void
s_unblock (block_t *block)
{
    munmap (block->whole, block->whole_bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  The model

//  The bits of value in a dtype with so many bits of mantissa and this least exponent: how many units of its
//  last place it has, to the nearest number of them.
static uint32_t
s_model_half (float value, int mantissa_bits, int exponent_min)
{
    int exponent;
    double magnitude = fabs ((double) value);
    frexp (magnitude, &exponent);
    exponent = magnitude > 0 && exponent - 1 > exponent_min? exponent - 1: exponent_min;
    double units = nearbyint (ldexp (magnitude, mantissa_bits - exponent));
    uint32_t infinite = (uint32_t) (2 - 2 * exponent_min + 1) << mantissa_bits;
    double bits = ldexp (exponent - exponent_min, mantissa_bits) + units;
    return (bits < infinite? (uint32_t) bits: infinite) | (signbit (value)? 0x8000u: 0);
}

static uint32_t
s_model_bits (dtype_t dtype, float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    return dtype == DTYPE_UINT8? (uint32_t) value: dtype == DTYPE_FLOAT16? s_model_half (value, 10, -14)
        : dtype == DTYPE_BFLOAT16? s_model_half (value, 7, -126): bits;
}

static uint32_t
s_model_number (const finish_format_t *format, uint32_t channel, uint32_t value)
{
    float number = (float) value;
    if (format->normalizes) {
        number = format->reciprocal? number * (float) (1 / 255.): number / 255;
        number = number - format->mean [channel];
        number = number / format->std [channel];
    }
    return s_model_bits (format->dtype, number);
}

//  A format and what the model makes of each value.
typedef struct {
    finish_format_t format;
    uint32_t bits [IMAGE_COLOURS] [COLOUR_VALUES];
} known_format_t;

static known_format_t
s_known (finish_format_t format)
{
    known_format_t known = { .format = format };
    finish_format (&known.format);
    for (uint32_t channel = 0; channel < format.channels; channel++)
        for (uint32_t value = 0; value < COLOUR_VALUES; value++)
            known.bits [channel] [value] = s_model_number (&format, channel, value);
    return known;
}

//  What a format's mean and deviation are like.  USUAL: ImageNet's.  ZERO: some value becomes exactly 0,
//  which a line can hardly give; and 0, in the first channel, half way between two numbers.
typedef enum { PLAIN, USUAL, DRAWN, ZERO, KINDS } kind_t;

static float
s_half_way (dtype_t dtype, uint64_t *random)
{
    return ldexpf (2 * (float) s_up_to (random, dtype == DTYPE_FLOAT16? 1 << 10: 1 << 7) + 1,
        (int) s_up_to (random, 8) - 8);
}

static finish_format_t
s_draw_format (kind_t kind, dtype_t dtype, uint64_t *random)
{
    static const float means [] = { 0.485f, 0.456f, 0.406f }, stds [] = { 0.229f, 0.224f, 0.225f };
    finish_format_t format = { .dtype = dtype, .normalizes = kind != PLAIN };
    for (int channel = 0; channel < IMAGE_COLOURS; channel++) {
        float mean = (float) s_up_to (random, 256) / 255;
        float std = ldexpf (1 + (float) s_up_to (random, 1000) / 999, (int) s_up_to (random, 40) - 20);
        format.mean [channel] = kind == USUAL? means [channel]: kind == ZERO? mean: mean * 0.99f;
        format.std [channel] = kind == USUAL? stds [channel]: std;
    }
    if (kind == ZERO) {
        format.mean [0] = -s_half_way (dtype, random);
        format.std [0] = 1;
    }
    return format;
}

//  Each kind of each dtype in each layout, of one channel and three.
static size_t
s_all_formats (uint64_t *random, known_format_t formats [FORMATS_MAX])
{
    static const dtype_t dtypes [] = { DTYPE_UINT8, DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT32 };
    size_t count = 0;
    for (kind_t kind = PLAIN; kind < KINDS; kind++)
        for (size_t index = 0; index < sizeof dtypes / sizeof *dtypes; index++)
            for (int layout = 0; layout < 4 && (kind == PLAIN || dtypes [index] != DTYPE_UINT8); layout++) {
                finish_format_t format = s_draw_format (kind, dtypes [index], random);
                format.reciprocal = format.normalizes && s_up_to (random, 2);
                format.planar = layout & 1;
                format.channels = layout & 2? IMAGE_COLOURS: 1;
                assert_true (count < FORMATS_MAX);
                formats [count++] = s_known (format);
            }
    return count;
}

typedef struct {
    const known_format_t *known;
    image_t source;
    finish_flips_t flips;
    size_t target_stride;
} case_t;

static size_t
s_row_bytes (const case_t *self)
{
    const finish_format_t *format = &self->known->format;
    return self->source.width * dtype_bytes (format->dtype) * (format->planar? 1: format->channels);
}

//  From the first row of the first plane to the end of the last row of the last.
static size_t
s_target_bytes (const case_t *self)
{
    size_t planes = self->known->format.planar? self->known->format.channels: 1;
    return (planes * self->source.height - 1) * self->target_stride + s_row_bytes (self);
}

static void
s_model (const case_t *self, uint8_t *target)
{
    const finish_format_t *format = &self->known->format;
    const image_t *source = &self->source;
    size_t bytes = dtype_bytes (format->dtype);
    for (uint32_t row = 0; row < source->height; row++)
        for (uint32_t column = 0; column < source->width; column++)
            for (uint32_t channel = 0; channel < format->channels; channel++) {
                uint8_t value = image_at (source, self->flips.down? source->height - 1 - row: row,
                    self->flips.across? source->width - 1 - column: column) [channel];
                size_t at = format->planar
                    ? ((size_t) channel * source->height + row) * self->target_stride + column * bytes
                    : row * self->target_stride + (column * format->channels + channel) * bytes;
                //  Little endian, as every machine that this runs on.
                memcpy (target + at, &self->known->bits [channel] [value], bytes);
            }
}

//  ---------------------------------------------------------------------------------------------------------
//  Runs and model side by side

static const char *
s_words (const case_t *self)
{
    static char words [200];
    const finish_format_t *format = &self->known->format;
    snprintf (words, sizeof words, "%ux%u, %u to %u channels, %s%s%s%s%s", self->source.height,
        self->source.width, self->source.channels, format->channels, dtype_name (format->dtype),
        format->planar? ", planar": "", format->normalizes? ", normalised": "",
        self->flips.across? ", across": "", self->flips.down? ", down": "");
    return words;
}

//  Runs the case at each level, into memory filled with FILLER that begins (or, with at_end, ends) where the
//  target does.
static void
s_check (const case_t *self, size_t head, bool at_end)
{
    size_t bytes = head + s_target_bytes (self);
    uint8_t *expected = malloc (bytes);
    memset (expected, FILLER, bytes);
    s_model (self, expected + head);
    for (loops_level_t level = 0; level < LOOPS_LEVELS; level++) {
        if (!levels_use (level))
            continue;
        block_t block = s_block (bytes, at_end);
        memset (block.data, FILLER, bytes);
        finish_run (&self->known->format, &self->source, self->flips, NULL, NULL, block.data + head,
            self->target_stride);
        if (memcmp (block.data, expected, bytes))
            fail_msg ("seed %" PRIu64 ", level %d: %s", test_seed (), level, s_words (self));
        s_unblock (&block);
    }
    free (expected);
}

//  Noise with many zeros; three equal channels where the format makes one of them.
static void
s_fill (const case_t *self, block_t *block, uint64_t *random)
{
    for (size_t index = 0; index < block->bytes; index++)
        block->data [index] = (uint8_t) (s_up_to (random, 4)? test_below (random, COLOUR_VALUES): 0);
    if (self->source.channels == IMAGE_COLOURS && self->known->format.channels == 1)
        for (size_t index = 0; index + 2 < block->bytes; index += IMAGE_COLOURS)
            block->data [index + 1] = block->data [index + 2] = block->data [index];
}

//  A case of this size, the rest drawn: flips, strides, where source and target lie.
static void
s_try (const known_format_t *known, uint32_t height, uint32_t width, uint64_t *random)
{
    uint32_t channels = known->format.channels == 1 && s_up_to (random, 2)? 1: IMAGE_COLOURS;
    uint32_t extra = s_up_to (random, 2)? 0: s_up_to (random, 70);
    //  Whole pixels, so that s_fill's threes stay in step.
    size_t stride = (size_t) (width + extra) * channels;
    case_t self = { .known = known, .source = { NULL, stride, height, width, channels },
        .flips = { s_up_to (random, 2), s_up_to (random, 2) } };
    self.target_stride = s_row_bytes (&self) + (s_up_to (random, 2)? 0: s_up_to (random, 50));
    if (s_up_to (random, 2))
        self.target_stride = (self.target_stride + 31) / 32 * 32;
    block_t block = s_block (stride * (height - 1) + (size_t) width * channels, s_up_to (random, 2));
    s_fill (&self, &block, random);
    self.source.pixels = block.data;
    bool at_end = s_up_to (random, 2);
    s_check (&self, at_end? 0: s_up_to (random, 2)? 0: s_up_to (random, 40), at_end);
    s_unblock (&block);
}

static void
test_equals_the_model_at_every_width (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static known_format_t formats [FORMATS_MAX];
    size_t count = s_all_formats (&random, formats);
    for (uint32_t width = 1; width <= WIDTH_MAX; width++)
        for (int round = 0; round < 4; round++)
            s_try (&formats [s_up_to (&random, (uint32_t) count)], 1 + s_up_to (&random, 3), width, &random);
}

//  Widths around those of vectors, each format many times.
static void
test_equals_the_model_in_every_format (void **state)
{
    (void) state;
    uint64_t random = test_seed () + 1;
    static known_format_t formats [FORMATS_MAX];
    size_t count = s_all_formats (&random, formats);
    static const uint32_t widths [] = { 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 96, 255, 256,
        257 };
    for (size_t format = 0; format < count; format++)
        for (size_t index = 0; index < 2 * sizeof widths / sizeof *widths; index++)
            s_try (&formats [format], 2, widths [index / 2], &random);
}

//  Large enough to go past the caches; both where every row is aligned and where not.
static void
test_equals_the_model_when_streamed (void **state)
{
    (void) state;
    uint64_t random = test_seed () + 2;
    static known_format_t formats [FORMATS_MAX];
    size_t count = s_all_formats (&random, formats);
    for (size_t format = 0; format < count; format++) {
        uint32_t width = s_up_to (&random, 3)? 32 + 32 * s_up_to (&random, 8): 1 + s_up_to (&random, 300);
        size_t row_bytes = finish_bytes (&formats [format].format, 1, width);
        s_try (&formats [format], (uint32_t) (65536 / row_bytes + 1), width, &random);
    }
}

//  Nothing but a copy, past the caches, from and to anywhere.
static void
test_copies_to_any_place (void **state)
{
    (void) state;
    uint64_t random = test_seed () + 7;
    known_format_t known = s_known ((finish_format_t) { .dtype = DTYPE_UINT8, .channels = IMAGE_COLOURS });
    block_t block = s_block (150 * 150 * 3, true);
    for (size_t index = 0; index < block.bytes; index++)
        block.data [index] = (uint8_t) test_below (&random, COLOUR_VALUES);
    for (size_t head = 0; head < 64; head++) {
        case_t self = { .known = &known, .target_stride = 150 * 3,
            .source = { block.data, 150 * 3, 150 - (uint32_t) head / 16, 150, IMAGE_COLOURS } };
        s_check (&self, head, false);
    }
    s_unblock (&block);
}

//  The model knows its formats from finish_format alone: here its tables, over large and small numbers.
static void
test_tables_equal_the_model (void **state)
{
    (void) state;
    uint64_t random = test_seed () + 3;
    for (int round = 0; round < 60; round++) {
        finish_format_t format = { .dtype = (dtype_t) ((int) DTYPE_FLOAT16 + round % 3),
            .channels = IMAGE_COLOURS, .normalizes = true };
        for (int channel = 0; channel < IMAGE_COLOURS; channel++) {
            format.mean [channel] = ldexpf ((float) s_up_to (&random, 1 << 24),
                (int) s_up_to (&random, 60) - 50);
            format.std [channel] = ldexpf (1 + (float) s_up_to (&random, 1 << 24),
                (int) s_up_to (&random, 60) - 50);
        }
        known_format_t known = s_known (format);
        for (uint32_t channel = 0; channel < IMAGE_COLOURS; channel++)
            for (uint32_t value = 0; value < COLOUR_VALUES; value++) {
                uint32_t bits = known.format.table.half [channel] [value];
                if (format.dtype == DTYPE_FLOAT32)
                    memcpy (&bits, &known.format.table.wide [channel] [value], sizeof bits);
                if (bits != known.bits [channel] [value])
                    fail_msg ("seed %" PRIu64 ", round %d: value %u, channel %u", test_seed (), round, value,
                        channel);
            }
    }
}

//  Value 0 of a format with mean -x and deviation 1 is x: numbers half way between two of the dtype's, and
//  their neighbours, for every exponent.
static void
test_rounds_to_nearest_even (void **state)
{
    (void) state;
    uint64_t random = test_seed () + 4;
    for (int round = 0; round < 1200; round++) {
        dtype_t dtype = round % 2? DTYPE_FLOAT16: DTYPE_BFLOAT16;
        int unit_bits = dtype == DTYPE_FLOAT16? 13: 16;
        finish_format_t format = { .dtype = dtype, .channels = IMAGE_COLOURS, .normalizes = true,
            .std = { 1, 1, 1 } };
        for (int channel = 0; channel < IMAGE_COLOURS; channel++) {
            uint32_t mantissa = s_up_to (&random, 1u << (24 - unit_bits)) << (unit_bits - 1);
            mantissa = (mantissa + (uint32_t) channel - 1) & 0x7fffff;
            int reach = dtype == DTYPE_FLOAT16? 30: 126;
            uint32_t exponent = (uint32_t) (127 - reach + round / 2 % (2 * reach));
            uint32_t bits = s_up_to (&random, 2) << 31 | exponent << 23 | mantissa;
            memcpy (&format.mean [channel], &bits, sizeof bits);
        }
        known_format_t known = s_known (format);
        for (int channel = 0; channel < IMAGE_COLOURS; channel++)
            if (known.format.table.half [channel] [0] != known.bits [channel] [0])
                fail_msg ("seed %" PRIu64 ": %s of %a is %x, not %x", test_seed (), dtype_name (dtype),
                    -format.mean [channel], known.format.table.half [channel] [0], known.bits [channel] [0]);
    }
}

//  Vectors need not divide for the usual mean and deviation in 16 bits, else they take three times as long.
//  The formats above make them go either way.
static void
test_16_bits_rarely_need_a_division (void **state)
{
    (void) state;
    uint64_t random = test_seed () + 5;
    static known_format_t formats [FORMATS_MAX];
    size_t dividing [DTYPES] = { 0 };
    for (int draw = 0; draw < 20; draw++) {
        size_t count = s_all_formats (&random, formats);
        for (const known_format_t *known = formats; known < formats + count; known++)
            dividing [known->format.dtype] += !known->format.is_linear;
    }
    assert_int_equal (dividing [DTYPE_UINT8], 0);
    assert_true (dividing [DTYPE_FLOAT16] > 0);
    assert_true (dividing [DTYPE_BFLOAT16] > 0);
    assert_true (dividing [DTYPE_FLOAT32] > 0);
    for (dtype_t dtype = DTYPE_FLOAT16; dtype <= DTYPE_BFLOAT16; dtype++) {
        finish_format_t format = s_draw_format (USUAL, dtype, &random);
        format.channels = IMAGE_COLOURS;
        finish_format (&format);
        assert_true (format.is_linear);
    }
}

//  Colours in the pass are colours before it.
static void
test_colours_come_with_it (void **state)
{
    (void) state;
    uint64_t random = test_seed () + 6;
    static known_format_t formats [FORMATS_MAX];
    size_t count = s_all_formats (&random, formats);
    for (int round = 0; round < 150; round++) {
        const finish_format_t *format = &formats [s_up_to (&random, (uint32_t) count)].format;
        uint32_t height = 1 + s_up_to (&random, 5), width = 1 + s_up_to (&random, 300);
        uint8_t pixels [5 * 300 * 3], coloured [5 * 300 * 3], row [300 * 3];
        uint8_t expected [5 * 300 * 3 * 4], target [5 * 300 * 3 * 4];
        for (size_t index = 0; index < image_bytes (height, width, 3); index++)
            pixels [index] = (uint8_t) test_below (&random, COLOUR_VALUES);
        image_t source = { pixels, image_bytes (1, width, 3), height, width, 3 };
        colour_program_t program = { .count = 0 };
        for (uint32_t step = s_up_to (&random, 4); step < 4; step++)
            colour_add (&program, COLOUR_BRIGHTNESS + s_up_to (&random, 4), s_up_to (&random, 500) / 1000.);
        if (format->channels == 1)
            colour_add (&program, COLOUR_GREY, 1);
        colour_measure (&program, &source, row);
        memcpy (coloured, pixels, sizeof coloured);
        colour_pass_t pass;
        colour_begin (&pass, &program, program.count);
        for (uint32_t index = 0; index < height; index++)
            colour_run (&pass, coloured + index * source.stride, width);
        image_t before = { coloured, source.stride, height, width, 3 };
        finish_flips_t flips = { s_up_to (&random, 2), s_up_to (&random, 2) };
        size_t stride = width * dtype_bytes (format->dtype) * (format->planar? 1: format->channels);
        finish_run (format, &before, flips, NULL, NULL, expected, stride);
        finish_run (format, &source, flips, &program, row, target, stride);
        if (memcmp (target, expected, finish_bytes (format, height, width)))
            fail_msg ("seed %" PRIu64 ", round %d", test_seed (), round);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_equals_the_model_at_every_width),
        cmocka_unit_test (test_equals_the_model_in_every_format),
        cmocka_unit_test (test_equals_the_model_when_streamed),
        cmocka_unit_test (test_copies_to_any_place),
        cmocka_unit_test (test_tables_equal_the_model),
        cmocka_unit_test (test_rounds_to_nearest_even),
        cmocka_unit_test (test_16_bits_rarely_need_a_division),
        cmocka_unit_test (test_colours_come_with_it),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
