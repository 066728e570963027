#include "operation_colour.h"
#include <assert.h>

enum { FACTOR_MAX = 100 };

static const char *const s_jitter_words [JITTER_KINDS] = { "brightness", "contrast", "saturation", "hue" };
static const operation_factor_t s_jitter_limits [JITTER_KINDS] = {
    { 1, FACTOR_MAX - 1, 0, FACTOR_MAX, false }, { 1, FACTOR_MAX - 1, 0, FACTOR_MAX, false },
    { 1, FACTOR_MAX - 1, 0, FACTOR_MAX, false }, { 0, 0.5, -0.5, 0.5, true }
};

//  ---------------------------------------------------------------------------------------------------------
//  color_jitter and grayscale

int
operation_colour_parse_jitter (operation_t *self, const operation_keys_t *keys)
{
    for (size_t kind = 0; kind < JITTER_KINDS; kind++) {
        double *least = &self->jitter.least [kind], *most = &self->jitter.most [kind];
        *least = *most = s_jitter_limits [kind].centre;
        int rc = operation_keys_factor (keys, s_jitter_words [kind], &s_jitter_limits [kind], least, most);
        if (rc)
            return rc;
    }
    return 0;
}

void
operation_colour_write_jitter (const operation_t *self, operation_text_t *text)
{
    for (size_t kind = 0; kind < JITTER_KINDS; kind++) {
        const double pair [2] = { self->jitter.least [kind], self->jitter.most [kind] };
        operation_text_pair (text, s_jitter_words [kind], pair);
    }
}

int
operation_colour_parse_grayscale (operation_t *self, const operation_keys_t *keys)
{
    self->grayscale.probability = 1;
    int rc = operation_keys_number (keys, "p", 0, 1, &self->grayscale.probability);
    if (rc)
        return rc;
    bool always = self->grayscale.probability >= 1;
    uint32_t channels = always? 1: IMAGE_COLOURS;
    rc = operation_keys_whole (keys, "channels", OPERATION_KEY_OPTIONAL, 1, IMAGE_COLOURS, &channels);
    if (rc || channels == 2)
        return operation_keys_refuse (keys, "channels", "1 or 3");
    if (channels == 1 && !always)
        return operation_complain (keys->complaint,
            "\"channels\" 1 with \"p\" below 1; expected 3, or \"p\" to be 1");
    self->grayscale.channels = channels;
    return 0;
}

void
operation_colour_write_grayscale (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"p\":");
    operation_text_number (text, self->grayscale.probability, false);
    operation_text_put (text, ",\"channels\":%u", self->grayscale.channels);
}

//  Random are the order of two steps, and a factor with room between least and most.
bool
operation_colour_jitter_is_random (const operation_t *self)
{
    size_t steps = 0;
    for (size_t kind = 0; kind < JITTER_KINDS; kind++) {
        double least = self->jitter.least [kind], most = self->jitter.most [kind];
        if (least < most)
            return true;
        steps += least < s_jitter_limits [kind].centre || least > s_jitter_limits [kind].centre;
    }
    return steps > 1;
}

//  ---------------------------------------------------------------------------------------------------------
//  Point operations and sharpness

static int
s_parse_chance (operation_t *self, const operation_keys_t *keys)
{
    self->point.probability = 0.5;
    return operation_keys_number (keys, "p", 0, 1, &self->point.probability);
}

static void
s_write_chance (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"p\":");
    operation_text_number (text, self->point.probability, false);
}

int
operation_colour_parse_point (operation_t *self, const operation_keys_t *keys)
{
    return s_parse_chance (self, keys);
}

void
operation_colour_write_point (const operation_t *self, operation_text_t *text)
{
    s_write_chance (self, text);
}

int
operation_colour_parse_posterize (operation_t *self, const operation_keys_t *keys)
{
    uint32_t bits = 0;
    int rc = operation_keys_whole (keys, "bits", OPERATION_KEY_REQUIRED, 0, 8, &bits);
    self->point.factor = bits;
    return rc? rc: s_parse_chance (self, keys);
}

void
operation_colour_write_posterize (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"bits\":%u", (unsigned) self->point.factor);
    s_write_chance (self, text);
}

//  A number that must be there.
static int
s_parse_factor (operation_t *self, const operation_keys_t *keys, const char *key, double most)
{
    if (!json_object_get (keys->object, key))
        return operation_keys_refuse (keys, key, "a number from 0 to %g", most);
    int rc = operation_keys_number (keys, key, 0, most, &self->point.factor);
    return rc? rc: s_parse_chance (self, keys);
}

static void
s_write_factor (const operation_t *self, operation_text_t *text, const char *key)
{
    operation_text_put (text, ",\"%s\":", key);
    operation_text_number (text, self->point.factor, false);
    s_write_chance (self, text);
}

//  From 256 on nothing is inverted.
int
operation_colour_parse_solarize (operation_t *self, const operation_keys_t *keys)
{
    return s_parse_factor (self, keys, "threshold", COLOUR_VALUES);
}

void
operation_colour_write_solarize (const operation_t *self, operation_text_t *text)
{
    s_write_factor (self, text, "threshold");
}

int
operation_colour_parse_sharpness (operation_t *self, const operation_keys_t *keys)
{
    return s_parse_factor (self, keys, "factor", FACTOR_MAX);
}

void
operation_colour_write_sharpness (const operation_t *self, operation_text_t *text)
{
    s_write_factor (self, text, "factor");
}
