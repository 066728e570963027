#include "joining.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

enum {
    JOINING_BATCH_DEFAULT = 64,
    JOINING_BATCH_MAX = 65536,
    JOINING_NAME_BYTES_MAX = 64,
    JOINING_JSON_BYTES_MAX = 64 << 10,
    JOINING_ID_FRAMES_MAX = WIRE_FRAMES_MAX - 2,
    JOINING_NUMBERS_MAX = (WIRE_FRAME_BYTES_MAX - 8) / 8    //  in one id frame
};

#define JOINING_MAGIC 0x4a4f494eu

struct joining {
    uint32_t magic;
    uint32_t batch_size;
    char *json;
    uint8_t *ids [JOINING_ID_FRAMES_MAX];
    size_t ids_bytes [JOINING_ID_FRAMES_MAX];
    size_t id_frames;
};

//  --------------------------------------------------------------------------
//  Checks: what the server would refuse, refused here with the option's name

static bool
s_check_subset (const tureen_options_t *options, message_error_t *error)
{
    if (options->subset_count > JOINING_NUMBERS_MAX / 2)
        return message_fail (error, "options.subset: %zu ranges; at most %d", options->subset_count,
            JOINING_NUMBERS_MAX / 2);
    if (options->subset_count == 0)
        return message_fail (error, "options.subset: no ranges");
    uint64_t end = 0;
    for (size_t index = 0; index < options->subset_count; index++) {
        const tureen_range_t *range = &options->subset [index];
        if (range->lo >= range->hi)
            return message_fail (error, "options.subset: range %" PRIu64 " to %" PRIu64 " is empty",
            range->lo,
                range->hi);
        if (range->lo < end)
            return message_fail (error, "options.subset: the ranges must be ascending and not overlap");
        end = range->hi;
    }
    return true;
}

static bool
s_check_ids (const tureen_options_t *options, message_error_t *error)
{
    if (options->order != TUREEN_LIST)
        return message_fail (error, "options.ids: only with order TUREEN_LIST");
    if (options->subset)
        return message_fail (error, "options.ids excludes options.subset");
    if (options->id_count == 0)
        return message_fail (error, "options.ids: the list is empty");
    if (options->id_count > (size_t) JOINING_ID_FRAMES_MAX * JOINING_NUMBERS_MAX)
        return message_fail (error, "options.ids: %zu ids; at most %zu", options->id_count,
            (size_t) JOINING_ID_FRAMES_MAX * JOINING_NUMBERS_MAX);
    return true;
}

static bool
s_check_pool (const tureen_options_t *options, message_error_t *error)
{
    bool is_seeded = options->order == TUREEN_SEEDED || (options->order == TUREEN_ORDER_DEFAULT && options->seeded);
    if (!is_seeded)
        return message_fail (error, "options.pool: only with order TUREEN_SEEDED");
    if (options->pool < WIRE_POOL_MIN || options->pool > WIRE_POOL_MAX)
        return message_fail (error, "options.pool: %" PRIu32 "; expected %d to %d samples", options->pool,
            WIRE_POOL_MIN, WIRE_POOL_MAX);
    return true;
}

static bool
s_check (const tureen_options_t *options, message_error_t *error)
{
    if (!options->dataset || !*options->dataset)
        return message_fail (error, "options.dataset is required: a data set that the server has");
    if (options->batch_size > JOINING_BATCH_MAX)
        return message_fail (error, "options.batch_size: %" PRIu32 "; expected 1 to %d", options->batch_size,
            JOINING_BATCH_MAX);
    if (options->slots && (options->slots < WIRE_SLOTS_MIN || options->slots > WIRE_SLOTS_MAX))
        return message_fail (error, "options.slots: %" PRIu32 "; expected %d to %d", options->slots,
            WIRE_SLOTS_MIN, WIRE_SLOTS_MAX);
    if (options->epochs > INT64_MAX)
        return message_fail (error, "options.epochs: too many; 0 means no end");
    if ((unsigned) options->order > TUREEN_SEEDED || (unsigned) options->transport > TUREEN_INLINE)
        return message_fail (error, "options.order or options.transport: not one of the values in tureen.h");
    if (options->name && strlen (options->name) > JOINING_NAME_BYTES_MAX)
        return message_fail (error, "options.name: longer than %d bytes", JOINING_NAME_BYTES_MAX);
    if (options->timeout_ms < 0)
        return message_fail (error, "options.timeout_ms: %d; expected 0 or more", options->timeout_ms);
    if (options->pool && !s_check_pool (options, error))
        return false;
    if (options->ids && !s_check_ids (options, error))
        return false;
    return !options->subset || s_check_subset (options, error);
}

//  --------------------------------------------------------------------------
//  The JSON

static json_t *
s_pipeline (const char *text, message_error_t *error)
{
    if (text [strspn (text, " \t\r\n")] != '[')
        return json_string (text);
    json_error_t trouble;
    json_t *pipeline = json_loads (text, JSON_REJECT_DUPLICATES, &trouble);
    if (!pipeline)
        message_fail (error, "options.pipeline: line %d, column %d: %s", trouble.line, trouble.column,
        trouble.text);
    return pipeline;
}

//  Sets key to value (a reference that it takes); NULL: a text that is no UTF-8, or no memory.
static bool
s_set (json_t *root, const char *key, json_t *value, message_error_t *error)
{
    if (json_object_set_new (root, key, value) == 0)
        return true;
    return message_fail (error, "options.%s: not UTF-8, or no memory", key);
}

static bool
s_set_pipeline (json_t *root, const char *text, message_error_t *error)
{
    json_t *pipeline = s_pipeline (text, error);
    if (!pipeline && *error->text)
        return false;                   //  the parser has told
    return s_set (root, "pipeline", pipeline, error);
}

//  What the id frames are, one text each.
static json_t *
s_frames (const joining_t *self, const tureen_options_t *options)
{
    json_t *frames = json_array ();
    for (size_t index = 0; index < self->id_frames; index++)
        json_array_append_new (frames, json_string (options->ids? "list": "subset"));
    return frames;
}

//  The keys in the order of docs/protocol.md; what was not set is left out.
static bool
s_set_all (json_t *root, const joining_t *self, const tureen_options_t *options, message_error_t *error)
{
    static const char *const orders [] = { [TUREEN_SHARED] = "shared", [TUREEN_PRIVATE] = "private",
        [TUREEN_LIST] = "list", [TUREEN_SEEDED] = "seeded" };
    static const char *const transports [] = { "auto", "inline" };
    json_t *epochs = options->epochs? json_integer ((json_int_t) options->epochs): json_null ();
    return s_set (root, "dataset", json_string (options->dataset), error)
        && s_set (root, "batch_size", json_integer (self->batch_size), error)
        && s_set (root, "epochs", epochs, error)
        && s_set (root, "drop_last", json_boolean (options->drop_last), error)
        && (!options->pipeline || s_set_pipeline (root, options->pipeline, error))
        && (!options->order || s_set (root, "order", json_string (orders [options->order]), error))
        && (!options->slots || s_set (root, "slots", json_integer (options->slots), error))
        && s_set (root, "transport", json_string (transports [options->transport]), error)
        && (!options->seeded || s_set (root, "seed", json_sprintf ("%" PRIu64, options->seed), error))
        && (!options->pool || s_set (root, "pool", json_integer (options->pool), error))
        && (!options->name || s_set (root, "name", json_string (options->name), error))
        && (!self->id_frames || s_set (root, "frames", s_frames (self, options), error));
}

static int
s_make_json (joining_t *self, const tureen_options_t *options, message_error_t *error)
{
    json_t *root = json_object ();
    if (!root)
        return -ENOMEM;
    int rc = -EINVAL;
    if (s_set_all (root, self, options, error)) {
        self->json = json_dumps (root, JSON_COMPACT);
        rc = self->json? 0: -ENOMEM;
    }
    if (!rc && strlen (self->json) > JOINING_JSON_BYTES_MAX) {
        message_fail (error, "options.pipeline: the request is longer than %d bytes", JOINING_JSON_BYTES_MAX);
        rc = -EINVAL;
    }
    json_decref (root);
    return rc;
}

//  --------------------------------------------------------------------------
//  The ids

//  Appends one frame: form, then count numbers.
static int
s_add_frame (joining_t *self, wire_ids_form_t form, const uint64_t *numbers, size_t count)
{
    assert (self->id_frames < JOINING_ID_FRAMES_MAX && count <= JOINING_NUMBERS_MAX);
    size_t bytes = 8 + count * sizeof *numbers;
    uint8_t *frame = malloc (bytes);
    if (!frame)
        return -ENOMEM;
    memset (frame, 0, 8);
    frame [0] = (uint8_t) form;
    memcpy (frame + 8, numbers, count * sizeof *numbers);
    self->ids [self->id_frames] = frame;
    self->ids_bytes [self->id_frames++] = bytes;
    return 0;
}

_Static_assert (sizeof (tureen_range_t) == 2 * sizeof (uint64_t), "ranges are sent as they lie");

static int
s_make_ids (joining_t *self, const tureen_options_t *options)
{
    if (options->subset)
        return s_add_frame (self, WIRE_IDS_RANGES, &options->subset->lo, options->subset_count * 2);
    int rc = 0;
    for (size_t done = 0; options->ids && done < options->id_count && !rc;) {
        size_t count = options->id_count - done;
        if (count > JOINING_NUMBERS_MAX)
            count = JOINING_NUMBERS_MAX;
        rc = s_add_frame (self, WIRE_IDS_LIST, options->ids + done, count);
        done += count;
    }
    return rc;
}

//  --------------------------------------------------------------------------

int
joining_new (joining_t **self_p, const tureen_options_t *options, message_error_t *error)
{
    assert (self_p && options && error);
    *self_p = NULL;
    *error->text = 0;
    if (!s_check (options, error))
        return -EINVAL;
    joining_t *self = calloc (1, sizeof *self);
    int rc = -ENOMEM;
    if (!self) goto exit;
    self->magic = JOINING_MAGIC;
    self->batch_size = options->batch_size? options->batch_size: JOINING_BATCH_DEFAULT;
    rc = s_make_ids (self, options);
    if (rc) goto exit;
    rc = s_make_json (self, options, error);
    if (rc) goto exit;
    *self_p = self;
    self = NULL;
exit:
    if (rc == -ENOMEM)
        message_fail (error, "out of memory for the request");
    joining_destroy (&self);
    return rc;
}

void
joining_destroy (joining_t **self_p)
{
    assert (self_p);
    joining_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == JOINING_MAGIC);
    free (self->json);
    for (size_t index = 0; index < self->id_frames; index++)
        free (self->ids [index]);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

size_t
joining_frame_count (const joining_t *self)
{
    assert (self && self->magic == JOINING_MAGIC);
    return 1 + self->id_frames;
}

message_frame_t
joining_frame (const joining_t *self, size_t index)
{
    assert (self && self->magic == JOINING_MAGIC && index <= self->id_frames);
    message_frame_t frame;
    if (index) {
        frame.data = self->ids [index - 1];
        frame.size = self->ids_bytes [index - 1];
    }
    else {
        frame.data = (const uint8_t *) self->json;
        frame.size = strlen (self->json);
    }
    return frame;
}

uint32_t
joining_batch_size (const joining_t *self)
{
    assert (self && self->magic == JOINING_MAGIC);
    return self->batch_size;
}
