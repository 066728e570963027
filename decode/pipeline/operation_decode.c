#include "operation_decode.h"
#include <assert.h>
#include <string.h>
#include "boxes.h"
#include "decoder.h"

enum {
    WHOLE_WORDS = DECODE_AUDIO + 1, COLUMNS_MAX = 64, BOX_SIDE_MAX = 1000 * 1000, QUOTE_BYTES_MAX = 41,
    LIST_BYTES_MAX = 260, AUDIO_CHANNELS_MAX = 32, AUDIO_RATE_MAX = 1000 * 1000
};

static const char *const s_as_words [] = { "image", "bytes", "array", "audio", "boxes" };
static const char *const s_place_words [] = { "center", "random" };
_Static_assert (DECODE_IMAGE == 0 && DECODE_BYTES == 1 && DECODE_ARRAY == 2 && DECODE_AUDIO == 3
    && DECODE_BOXES == 4,
    "s_as_words is in this order");

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
s_refuse_field (const operation_keys_t *keys, const char *name)
{
    char quoted [QUOTE_BYTES_MAX], expected [LIST_BYTES_MAX] = "";
    for (size_t field = 0; field < keys->source->count; field++)
        operation_keys_append (expected, sizeof expected, keys->source->fields [field].name, "\"");
    return operation_complain (keys->complaint, "the data have no field \"%s\"; expected %s",
        operation_printable (name, quoted, sizeof quoted), expected);
}

//  ---------------------------------------------------------------------------------------------------------
//  What is no image

//  The first of names is for objects in a list of fields, which have no "op".
static int
s_only (const operation_keys_t *keys, const char *const *names)
{
    return operation_keys_only (keys, json_object_get (keys->object, "op")? names + 1: names);
}

//  "ragged", and what goes with it.
static int
s_parse_ragged (decode_tensor_t *self, const operation_keys_t *keys)
{
    int rc = operation_keys_flag (keys, "ragged", &self->is_ragged);
    rc = rc? rc: operation_keys_flag (keys, "truncate", &self->truncates);
    if (!rc && self->truncates && !self->is_ragged)
        return operation_keys_refuse (keys, "truncate", "\"ragged\": true beside it");
    return rc;
}

static int
s_parse_bytes (decode_tensor_t *self, const operation_keys_t *keys)
{
    static const char *const names [] = { "field", "as", "length", "ragged", "truncate", NULL };
    self->dtype = DTYPE_UINT8;
    self->dimensions = 1;
    int rc = s_only (keys, names);
    rc = rc? rc: operation_keys_whole (keys, "length", OPERATION_KEY_REQUIRED, 1, PIPELINE_SAMPLE_BYTES_MAX,
        self->shape);
    return rc? rc: s_parse_ragged (self, keys);
}

//  What a .npy may hold: all but bfloat16, which NumPy does not know.
static int
s_parse_array (decode_tensor_t *self, const operation_keys_t *keys)
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
    int rc = s_only (keys, names);
    rc = rc? rc: operation_keys_word (keys, "dtype", OPERATION_KEY_REQUIRED, words, count, &word);
    self->dtype = dtypes [word];
    rc = rc? rc: operation_keys_shape (keys, "shape", PIPELINE_SAMPLE_BYTES_MAX, &self->dimensions,
        self->shape);
    return rc? rc: s_parse_ragged (self, keys);
}

static int
s_check_resample (const decode_tensor_t *self, const operation_keys_t *keys)
{
    if (!self->rate)
        return operation_keys_refuse (keys, "resample", "\"rate\" beside it, which files of other rates are "
            "resampled to");
    if (self->dtype != DTYPE_FLOAT32)
        return operation_keys_refuse (keys, "resample", "\"dtype\": \"float32\": resampling makes floats");
#ifdef TUREEN_SOXR
    return 0;
#else
    return operation_keys_refuse (keys, "resample", "no such key: this server was built without libsoxr");
#endif
}

static int
s_parse_audio (decode_tensor_t *self, const operation_keys_t *keys)
{
    static const char *const names [] = { "as", "dtype", "channels", "rate", "resample", NULL };
    static const char *const words [] = { "float32", "int16" };
    unsigned word = 0;
    self->channels = 1;
    int rc = operation_keys_only (keys, names);
    rc = rc? rc: operation_keys_word (keys, "dtype", OPERATION_KEY_OPTIONAL, words, COUNT (words), &word);
    rc = rc? rc: operation_keys_whole (keys, "channels", OPERATION_KEY_OPTIONAL, 1, AUDIO_CHANNELS_MAX,
        &self->channels);
    rc = rc? rc: operation_keys_whole (keys, "rate", OPERATION_KEY_OPTIONAL, 1, AUDIO_RATE_MAX, &self->rate);
    self->dtype = word? DTYPE_INT16: DTYPE_FLOAT32;
    rc = rc? rc: operation_keys_flag (keys, "resample", &self->resamples);
    return rc || !self->resamples? rc: s_check_resample (self, keys);
}

static int
s_parse_boxes (decode_tensor_t *self, const operation_keys_t *keys)
{
    static const char *const names [] = { "field", "as", "shape", "min_size", "truncate", NULL };
    double size_min = 1;
    self->dtype = DTYPE_FLOAT32;
    self->is_ragged = true;
    int rc = operation_keys_only (keys, names);
    rc = rc? rc: operation_keys_shape (keys, "shape", PIPELINE_SAMPLE_BYTES_MAX, &self->dimensions,
        self->shape);
    if (!rc && (self->dimensions != 2 || self->shape [1] < BOXES_SIDES || self->shape [1] > COLUMNS_MAX))
        return operation_keys_refuse (keys, "shape", "[most, columns] with %d to %d columns: left, top, "
            "right, bottom, and what comes along", BOXES_SIDES, COLUMNS_MAX);
    rc = rc? rc: operation_keys_number (keys, "min_size", 0, BOX_SIDE_MAX, &size_min);
    self->size_min = (float) size_min;
    return rc? rc: operation_keys_flag (keys, "truncate", &self->truncates);
}

static int
s_parse_tensor (decode_tensor_t *self, decode_as_t as, const operation_keys_t *keys)
{
    self->as = as;
    switch (as) {
    case DECODE_BYTES:
        return s_parse_bytes (self, keys);
    case DECODE_ARRAY:
        return s_parse_array (self, keys);
    case DECODE_BOXES:
        return s_parse_boxes (self, keys);
    case DECODE_AUDIO: case DECODE_IMAGE: default:
        return s_parse_audio (self, keys);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Images, and what stands beside them

static int
s_check_fields (const decode_request_t *self, const operation_keys_t *keys)
{
    const pipeline_field_t *fields = keys->source->fields;
    for (uint32_t index = 0; index < self->field_count; index++)
        for (uint32_t other = 0; other < index; other++)
            if (self->fields [index] == self->fields [other])
                return operation_complain (keys->complaint, "field \"%s\" comes twice; expected each once",
                    fields [self->fields [index]].name);
    for (uint32_t index = 0; index < self->field_count && !self->image_count; index++)
        if (self->tensors [index].as == DECODE_BOXES)
            return operation_complain (keys->complaint, "field \"%s\" has boxes of no image; expected an "
                "image as the first field, or \"as\": \"array\"", fields [self->fields [index]].name);
    if (self->image_count && self->is_mask [0])
        return operation_complain (keys->complaint,
            "field \"%s\" is a mask; expected an image as the first field", fields [self->fields [0]].name);
    return 0;
}

//  The field that was found comes as an image.
static int
s_add_image (decode_request_t *self, const operation_keys_t *keys, const char *name)
{
    uint32_t index = self->field_count;
    if (self->image_count < index)
        return operation_complain (keys->complaint, "field \"%s\" is an image behind one that is none; "
            "expected all images and masks before the others", name);
    self->is_mask [index] = keys->source->fields [self->fields [index]].is_mask;
    self->image_count++;
    return 0;
}

//  {"field": "depth", "as": "mask", "dtype": "uint16"}
static int
s_parse_mask (decode_request_t *self, const operation_keys_t *keys, uint32_t index)
{
    static const char *const names [] = { "field", "as", "dtype", NULL };
    static const char *const words [] = { "uint8", "uint16" };
    unsigned word = 0;
    int rc = operation_keys_only (keys, names);
    rc = rc? rc: operation_keys_word (keys, "dtype", OPERATION_KEY_OPTIONAL, words, COUNT (words), &word);
    self->is_mask [index] = true;
    self->is_wide [index] = word == 1;
    return rc;
}

//  An object, in place of a name: {"field": "tokens", "as": "array", ...}.
static int
s_parse_beside (decode_request_t *self, const operation_keys_t *keys, const json_t *entry)
{
    static const char *const words [] = { "bytes", "array", "boxes", "mask" };
    static const decode_as_t kinds [] = { DECODE_BYTES, DECODE_ARRAY, DECODE_BOXES, DECODE_IMAGE };
    operation_keys_t inner = { .object = entry, .complaint = keys->complaint, .source = keys->source };
    uint32_t index = self->field_count;
    const char *name = json_string_value (json_object_get (entry, "field"));
    if (!name || json_object_get (entry, "op"))
        return operation_keys_refuse (&inner, name? "op": "field", name? "no such key in a field":
            "the name of a field, as a string");
    if (!s_find_field (keys->source, name, &self->fields [index]))
        return s_refuse_field (keys, name);
    unsigned word = 0;
    int rc = operation_keys_word (&inner, "as", OPERATION_KEY_REQUIRED, words, COUNT (words), &word);
    if (rc || kinds [word] != DECODE_IMAGE)
        return rc? rc: s_parse_tensor (&self->tensors [index], kinds [word], &inner);
    rc = s_add_image (self, keys, name);
    return rc? rc: s_parse_mask (self, &inner, index);
}

static int
s_parse_field (decode_request_t *self, const operation_keys_t *keys, const json_t *entry)
{
    uint32_t index = self->field_count;
    if (json_is_object (entry))
        return s_parse_beside (self, keys, entry);
    const char *name = json_string_value (entry);
    if (!name)
        return operation_keys_refuse (keys, "fields", "names of images and masks, as strings, and objects "
            "{\"field\": ..., \"as\": ...} for other files");
    if (!s_find_field (keys->source, name, &self->fields [index]))
        return s_refuse_field (keys, name);
    return s_add_image (self, keys, name);
}

static int
s_parse_fields (decode_request_t *self, const operation_keys_t *keys)
{
    const json_t *list = json_object_get (keys->object, "fields");
    size_t count = json_array_size (list);
    if (list && (count < 1 || count > PIPELINE_FIELDS_MAX))
        return operation_keys_refuse (keys, "fields", "a list of 1 to %d names of fields",
            PIPELINE_FIELDS_MAX);
    int rc = 0;
    for (; !rc && self->field_count < count; self->field_count++)
        rc = s_parse_field (self, keys, json_array_get (list, self->field_count));
    if (!list) {
        self->field_count = self->image_count = 1;
        self->is_mask [0] = keys->source->fields [0].is_mask;
    }
    return rc? rc: s_check_fields (self, keys);
}

static int
s_parse_image (decode_request_t *self, const operation_keys_t *keys)
{
    static const char *const names [] = { "as", "fields", "exact", "orientation", "max_pixels", NULL };
    uint32_t pixels_max = 0;
    self->exact = true;
    int rc = operation_keys_only (keys, names);
    rc = rc? rc: operation_keys_flag (keys, "exact", &self->exact);
    rc = rc? rc: operation_keys_flag (keys, "orientation", &self->orientation);
    rc = rc? rc: operation_keys_whole (keys, "max_pixels", OPERATION_KEY_OPTIONAL, 1, DECODER_PIXELS_MAX,
        &pixels_max);
    self->pixels_max = pixels_max;
    rc = rc? rc: s_parse_fields (self, keys);
    for (size_t name = 2; !rc && !self->image_count && names [name]; name++)
        if (json_object_get (keys->object, names [name]))
            return operation_keys_refuse (keys, names [name], "an image among the fields, or no such key");
    return rc;
}

int
operation_decode_parse (operation_t *self, const operation_keys_t *keys)
{
    unsigned as = DECODE_IMAGE;
    //  Boxes are beside an image only.
    int rc = operation_keys_word (keys, "as", OPERATION_KEY_OPTIONAL, s_as_words, WHOLE_WORDS, &as);
    if (rc)
        return rc;
    self->decode.as = (decode_as_t) as;
    if (self->decode.as == DECODE_IMAGE)
        return s_parse_image (&self->decode, keys);
    self->decode.field_count = 1;
    return s_parse_tensor (&self->decode.tensors [0], self->decode.as, keys);
}

//  ---------------------------------------------------------------------------------------------------------
//  The canonical text

static void
s_write_tensor (const decode_tensor_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"as\":\"%s\"", s_as_words [self->as]);
    if (self->as == DECODE_BYTES)
        operation_text_put (text, ",\"length\":%u", self->shape [0]);
    else if (self->as != DECODE_BOXES)
        operation_text_put (text, ",\"dtype\":\"%s\"", dtype_name (self->dtype));
    if (self->as == DECODE_ARRAY || self->as == DECODE_BOXES) {
        for (uint32_t index = 0; index < self->dimensions; index++)
            operation_text_put (text, "%s%u", index? ",": ",\"shape\":[", self->shape [index]);
        operation_text_put (text, "]");
    }
    if (self->as == DECODE_AUDIO)
        operation_text_put (text, ",\"channels\":%u", self->channels);
    if (self->rate)
        operation_text_put (text, ",\"rate\":%u", self->rate);
    if (self->resamples)
        operation_text_flag (text, "resample", true);
    if (self->as == DECODE_BOXES) {
        operation_text_put (text, ",\"min_size\":");
        operation_text_number (text, self->size_min, true);
    }
    //  Not where they are false: what is not ragged has the text that it always had.
    else if (self->is_ragged)
        operation_text_flag (text, "ragged", true);
    if (self->truncates)
        operation_text_flag (text, "truncate", true);
}

static void
s_write_image (const decode_request_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"as\":\"image\",\"fields\":[");
    for (uint32_t index = 0; index < self->field_count; index++) {
        const char *name = text->source->fields [self->fields [index]].name;
        bool is_image = index < self->image_count;
        if (is_image && (self->is_wide [index]
        ||  self->is_mask [index] != text->source->fields [self->fields [index]].is_mask)) {
            operation_text_put (text, "%s{\"field\":\"%s\",\"as\":\"mask\",\"dtype\":\"%s\"}", index? ",": "",
                name, dtype_name (self->is_wide [index]? DTYPE_UINT16: DTYPE_UINT8));
            continue;
        }
        operation_text_put (text, is_image? "%s\"%s\"": "%s{\"field\":\"%s\"", index? ",": "", name);
        if (is_image)
            continue;
        s_write_tensor (&self->tensors [index], text);
        operation_text_put (text, "}");
    }
    operation_text_put (text, "]");
    if (!self->image_count)
        return;
    operation_text_flag (text, "exact", self->exact);
    operation_text_flag (text, "orientation", self->orientation);
    if (self->pixels_max)
        operation_text_put (text, ",\"max_pixels\":%llu", (unsigned long long) self->pixels_max);
}

void
operation_decode_write (const operation_t *self, operation_text_t *text)
{
    const decode_request_t *decode = &self->decode;
    if (decode->as == DECODE_IMAGE)
        s_write_image (decode, text);
    else
        s_write_tensor (&decode->tensors [0], text);
}

int
operation_excerpt_parse (operation_t *self, const operation_keys_t *keys)
{
    unsigned word = 1;
    int rc = operation_keys_whole (keys, "length", OPERATION_KEY_REQUIRED, 1, PIPELINE_SAMPLE_BYTES_MAX,
        &self->excerpt.length);
    rc = rc? rc: operation_keys_word (keys, "place", OPERATION_KEY_OPTIONAL, s_place_words,
        COUNT (s_place_words), &word);
    self->excerpt.random = word == 1;
    if (!rc && json_is_false (json_object_get (keys->object, "share")))
        return operation_keys_refuse (keys, "share", "true: an excerpt is always in the shared stage");
    self->may_be_shared = true;
    return rc;
}

void
operation_excerpt_write (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"length\":%u,\"place\":\"%s\"", self->excerpt.length,
        s_place_words [self->excerpt.random]);
}
