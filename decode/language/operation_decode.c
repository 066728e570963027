//  The operation at the beginning of a list: decode, with its four kinds of samples.

#include "operation.h"
#include <assert.h>
#include <string.h>
#include "boxes.h"
#include "decode_request.h"
#include "image_codec.h"

enum {
    WHOLE_WORDS = DECODE_AUDIO + 1, COLUMNS_MAX = 64, BOX_SIDE_MAX = 1000 * 1000, LIST_BYTES_MAX = 260,
    AUDIO_CHANNELS_MAX = 32, AUDIO_RATE_MAX = 1000 * 1000
};

static const char *const s_as_words [] = { "image", "bytes", "array", "audio", "boxes" };
_Static_assert (DECODE_IMAGE == 0 && DECODE_BYTES == 1 && DECODE_ARRAY == 2 && DECODE_AUDIO == 3
    && DECODE_BOXES == 4, "s_as_words is in this order");

#define COUNT(words) (sizeof (words) / sizeof *(words))

static bool
s_find_field (const pipeline_source_t *source, const char *name, uint8_t *field_p)
{
    for (size_t field = 0; name && field < source->count; field++)
        if (strcmp (source->fields [field].name, name) == 0) {
            *field_p = (uint8_t) field;
            return true;
        }
    return false;
}

static int
s_refuse_field (const entry_t *entry, const char *name)
{
    char quoted [ENTRY_QUOTE_BYTES_MAX], expected [LIST_BYTES_MAX] = "";
    for (size_t field = 0; field < entry->source->count; field++)
        entry_append (expected, sizeof expected, entry->source->fields [field].name, "\"");
    return entry_complain (entry->complaint, "the data have no field \"%s\"; expected %s",
        entry_printable (name, quoted, sizeof quoted), expected);
}

//  ---------------------------------------------------------------------------------------------------------
//  What is no image

//  The first of names is for objects in a list of fields, which have no "op".
static int
s_only (const entry_t *entry, const char *const *names)
{
    return entry_only (entry, json_object_get (entry->object, "op")? names + 1: names);
}

//  "ragged", and what goes with it.
static int
s_parse_ragged (decode_tensor_t *self, const entry_t *entry)
{
    int rc = entry_flag (entry, "ragged", &self->is_ragged);
    rc = rc? rc: entry_flag (entry, "truncate", &self->truncates);
    if (!rc && self->truncates && !self->is_ragged)
        return entry_refuse (entry, "truncate", "\"ragged\": true beside it");
    return rc;
}

static int
s_parse_bytes (decode_tensor_t *self, const entry_t *entry)
{
    static const char *const names [] = { "field", "as", "length", "ragged", "truncate", NULL };
    self->dtype = DTYPE_UINT8;
    self->dimensions = 1;
    int rc = s_only (entry, names);
    rc = rc? rc: entry_whole (entry, "length", ENTRY_REQUIRED, 1, PIPELINE_SAMPLE_BYTES_MAX, self->shape);
    return rc? rc: s_parse_ragged (self, entry);
}

//  What a .npy may hold: all but bfloat16, which NumPy does not know.
static int
s_parse_array (decode_tensor_t *self, const entry_t *entry)
{
    static const char *const names [] = { "field", "as", "dtype", "shape", "ragged", "truncate", NULL };
    const char *words [DTYPES];
    dtype_t dtypes [DTYPES];
    size_t count = 0;
    unsigned word = 0;
    for (unsigned dtype = 0; dtype < DTYPES; dtype++)
        if (dtype != DTYPE_BFLOAT16) {
            dtypes [count] = (dtype_t) dtype;
            words [count++] = dtype_name ((dtype_t) dtype);
        }
    int rc = s_only (entry, names);
    rc = rc? rc: entry_word (entry, "dtype", ENTRY_REQUIRED, words, count, &word);
    self->dtype = dtypes [word];
    rc = rc? rc: entry_shape (entry, "shape", PIPELINE_SAMPLE_BYTES_MAX, &self->dimensions, self->shape);
    return rc? rc: s_parse_ragged (self, entry);
}

static int
s_check_resample (const decode_tensor_t *self, const entry_t *entry)
{
    if (!self->rate)
        return entry_refuse (entry, "resample", "\"rate\" beside it, which files of other rates are "
            "resampled to");
    if (self->dtype != DTYPE_FLOAT32)
        return entry_refuse (entry, "resample", "\"dtype\": \"float32\": resampling makes floats");
#ifdef TUREEN_SOXR
    return 0;
#else
    return entry_refuse (entry, "resample", "no such key: this server was built without libsoxr");
#endif
}

static int
s_parse_audio (decode_tensor_t *self, const entry_t *entry)
{
    static const char *const names [] = { "as", "dtype", "channels", "rate", "resample", NULL };
    static const char *const words [] = { "float32", "int16" };
    unsigned word = 0;
    self->channels = 1;
    int rc = entry_only (entry, names);
    rc = rc? rc: entry_word (entry, "dtype", ENTRY_OPTIONAL, words, COUNT (words), &word);
    rc = rc? rc: entry_whole (entry, "channels", ENTRY_OPTIONAL, 1, AUDIO_CHANNELS_MAX, &self->channels);
    rc = rc? rc: entry_whole (entry, "rate", ENTRY_OPTIONAL, 1, AUDIO_RATE_MAX, &self->rate);
    self->dtype = word? DTYPE_INT16: DTYPE_FLOAT32;
    rc = rc? rc: entry_flag (entry, "resample", &self->resamples);
    return rc || !self->resamples? rc: s_check_resample (self, entry);
}

static int
s_parse_boxes (decode_tensor_t *self, const entry_t *entry)
{
    static const char *const names [] = { "field", "as", "shape", "min_size", "truncate", NULL };
    double size_min = 1;
    self->dtype = DTYPE_FLOAT32;
    self->is_ragged = true;
    int rc = entry_only (entry, names);
    rc = rc? rc: entry_shape (entry, "shape", PIPELINE_SAMPLE_BYTES_MAX, &self->dimensions, self->shape);
    if (!rc && (self->dimensions != 2 || self->shape [1] < BOXES_SIDES || self->shape [1] > COLUMNS_MAX))
        return entry_refuse (entry, "shape", "[most, columns] with %d to %d columns: left, top, "
            "right, bottom, and what comes along", BOXES_SIDES, COLUMNS_MAX);
    rc = rc? rc: entry_number (entry, "min_size", 0, BOX_SIDE_MAX, &size_min);
    self->size_min = (float) size_min;
    return rc? rc: entry_flag (entry, "truncate", &self->truncates);
}

static int
s_parse_tensor (decode_tensor_t *self, decode_as_t as, const entry_t *entry)
{
    self->as = as;
    switch (as) {
    case DECODE_BYTES:
        return s_parse_bytes (self, entry);
    case DECODE_ARRAY:
        return s_parse_array (self, entry);
    case DECODE_BOXES:
        return s_parse_boxes (self, entry);
    case DECODE_AUDIO: case DECODE_IMAGE: default:
        return s_parse_audio (self, entry);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Images, and what stands beside them

static int
s_check_fields (const decode_request_t *self, const entry_t *entry)
{
    const pipeline_field_t *fields = entry->source->fields;
    for (uint32_t index = 0; index < self->field_count; index++)
        for (uint32_t other = 0; other < index; other++)
            if (self->fields [index] == self->fields [other])
                return entry_complain (entry->complaint, "field \"%s\" comes twice; expected each once",
                    fields [self->fields [index]].name);
    for (uint32_t index = 0; index < self->field_count && !self->image_count; index++)
        if (self->tensors [index].as == DECODE_BOXES)
            return entry_complain (entry->complaint, "field \"%s\" has boxes of no image; expected an "
                "image as the first field, or \"as\": \"array\"", fields [self->fields [index]].name);
    if (self->image_count && self->is_mask [0])
        return entry_complain (entry->complaint,
            "field \"%s\" is a mask; expected an image as the first field", fields [self->fields [0]].name);
    return 0;
}

//  The field that was found comes as an image.
static int
s_add_image (decode_request_t *self, const entry_t *entry, const char *name)
{
    uint32_t index = self->field_count;
    if (self->image_count < index)
        return entry_complain (entry->complaint, "field \"%s\" is an image behind one that is none; "
            "expected all images and masks before the others", name);
    self->is_mask [index] = entry->source->fields [self->fields [index]].is_mask;
    self->image_count++;
    return 0;
}

//  {"field": "depth", "as": "mask", "dtype": "uint16"}
static int
s_parse_mask (decode_request_t *self, const entry_t *entry, uint32_t index)
{
    static const char *const names [] = { "field", "as", "dtype", NULL };
    static const char *const words [] = { "uint8", "uint16" };
    unsigned word = 0;
    int rc = entry_only (entry, names);
    rc = rc? rc: entry_word (entry, "dtype", ENTRY_OPTIONAL, words, COUNT (words), &word);
    self->is_mask [index] = true;
    self->is_wide [index] = word == 1;
    return rc;
}

//  An object, in place of a name: {"field": "tokens", "as": "array", ...}.
static int
s_parse_beside (decode_request_t *self, const entry_t *entry, const json_t *value)
{
    static const char *const words [] = { "bytes", "array", "boxes", "mask" };
    static const decode_as_t kinds [] = { DECODE_BYTES, DECODE_ARRAY, DECODE_BOXES, DECODE_IMAGE };
    entry_t inner = { .object = value, .complaint = entry->complaint, .source = entry->source };
    uint32_t index = self->field_count;
    const char *name = json_string_value (json_object_get (value, "field"));
    if (!name || json_object_get (value, "op"))
        return entry_refuse (&inner, name? "op": "field", name? "no such key in a field":
            "the name of a field, as a string");
    if (!s_find_field (entry->source, name, &self->fields [index]))
        return s_refuse_field (entry, name);
    unsigned word = 0;
    int rc = entry_word (&inner, "as", ENTRY_REQUIRED, words, COUNT (words), &word);
    if (rc || kinds [word] != DECODE_IMAGE)
        return rc? rc: s_parse_tensor (&self->tensors [index], kinds [word], &inner);
    rc = s_add_image (self, entry, name);
    return rc? rc: s_parse_mask (self, &inner, index);
}

static int
s_parse_field (decode_request_t *self, const entry_t *entry, const json_t *value)
{
    uint32_t index = self->field_count;
    if (json_is_object (value))
        return s_parse_beside (self, entry, value);
    const char *name = json_string_value (value);
    if (!name)
        return entry_refuse (entry, "fields", "names of images and masks, as strings, and objects "
            "{\"field\": ..., \"as\": ...} for other files");
    if (!s_find_field (entry->source, name, &self->fields [index]))
        return s_refuse_field (entry, name);
    return s_add_image (self, entry, name);
}

static int
s_parse_fields (decode_request_t *self, const entry_t *entry)
{
    const json_t *list = json_object_get (entry->object, "fields");
    size_t count = json_array_size (list);
    if (list && (count < 1 || count > PIPELINE_FIELDS_MAX))
        return entry_refuse (entry, "fields", "a list of 1 to %d names of fields", PIPELINE_FIELDS_MAX);
    int rc = 0;
    for (; !rc && self->field_count < count; self->field_count++)
        rc = s_parse_field (self, entry, json_array_get (list, self->field_count));
    if (!list) {
        self->field_count = self->image_count = 1;
        self->is_mask [0] = entry->source->fields [0].is_mask;
    }
    return rc? rc: s_check_fields (self, entry);
}

static int
s_parse_image (decode_request_t *self, const entry_t *entry)
{
    static const char *const names [] = { "as", "fields", "exact", "orientation", "max_pixels", NULL };
    uint32_t pixels_max = 0;
    self->exact = true;
    int rc = entry_only (entry, names);
    rc = rc? rc: entry_flag (entry, "exact", &self->exact);
    rc = rc? rc: entry_flag (entry, "orientation", &self->orientation);
    rc = rc? rc: entry_whole (entry, "max_pixels", ENTRY_OPTIONAL, 1, DECODER_PIXELS_MAX, &pixels_max);
    self->pixels_max = pixels_max;
    rc = rc? rc: s_parse_fields (self, entry);
    for (size_t name = 2; !rc && !self->image_count && names [name]; name++)
        if (json_object_get (entry->object, names [name]))
            return entry_refuse (entry, names [name], "an image among the fields, or no such key");
    return rc;
}

int
operation_decode_parse (operation_t *self, const entry_t *entry)
{
    unsigned as = DECODE_IMAGE;
    //  Boxes are beside an image only.
    int rc = entry_word (entry, "as", ENTRY_OPTIONAL, s_as_words, WHOLE_WORDS, &as);
    if (rc)
        return rc;
    self->decode.as = (decode_as_t) as;
    if (self->decode.as == DECODE_IMAGE)
        return s_parse_image (&self->decode, entry);
    self->decode.field_count = 1;
    return s_parse_tensor (&self->decode.tensors [0], self->decode.as, entry);
}

//  ---------------------------------------------------------------------------------------------------------
//  The canonical text

static void
s_write_tensor (const decode_tensor_t *self, entry_text_t *text)
{
    entry_put (text, ",\"as\":\"%s\"", s_as_words [self->as]);
    if (self->as == DECODE_BYTES)
        entry_put (text, ",\"length\":%u", self->shape [0]);
    else if (self->as != DECODE_BOXES)
        entry_put (text, ",\"dtype\":\"%s\"", dtype_name (self->dtype));
    if (self->as == DECODE_ARRAY || self->as == DECODE_BOXES) {
        for (uint32_t index = 0; index < self->dimensions; index++)
            entry_put (text, "%s%u", index? ",": ",\"shape\":[", self->shape [index]);
        entry_put (text, "]");
    }
    if (self->as == DECODE_AUDIO)
        entry_put (text, ",\"channels\":%u", self->channels);
    if (self->rate)
        entry_put (text, ",\"rate\":%u", self->rate);
    if (self->resamples)
        entry_put_flag (text, "resample", true);
    if (self->as == DECODE_BOXES) {
        entry_put (text, ",\"min_size\":");
        entry_put_number (text, self->size_min, true);
    }
    //  Not where they are false: what is not ragged has the text that it always had.
    else if (self->is_ragged)
        entry_put_flag (text, "ragged", true);
    if (self->truncates)
        entry_put_flag (text, "truncate", true);
}

static void
s_write_image (const decode_request_t *self, entry_text_t *text)
{
    entry_put (text, ",\"as\":\"image\",\"fields\":[");
    for (uint32_t index = 0; index < self->field_count; index++) {
        const char *name = text->source->fields [self->fields [index]].name;
        bool is_image = index < self->image_count;
        if (is_image && (self->is_wide [index]
        ||  self->is_mask [index] != text->source->fields [self->fields [index]].is_mask)) {
            entry_put (text, "%s{\"field\":\"%s\",\"as\":\"mask\",\"dtype\":\"%s\"}", index? ",": "",
                name, dtype_name (self->is_wide [index]? DTYPE_UINT16: DTYPE_UINT8));
            continue;
        }
        entry_put (text, is_image? "%s\"%s\"": "%s{\"field\":\"%s\"", index? ",": "", name);
        if (is_image)
            continue;
        s_write_tensor (&self->tensors [index], text);
        entry_put (text, "}");
    }
    entry_put (text, "]");
    if (!self->image_count)
        return;
    entry_put_flag (text, "exact", self->exact);
    entry_put_flag (text, "orientation", self->orientation);
    if (self->pixels_max)
        entry_put (text, ",\"max_pixels\":%llu", (unsigned long long) self->pixels_max);
}

void
operation_decode_write (const operation_t *self, entry_text_t *text)
{
    const decode_request_t *decode = &self->decode;
    if (decode->as == DECODE_IMAGE)
        s_write_image (decode, text);
    else
        s_write_tensor (&decode->tensors [0], text);
}
