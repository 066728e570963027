#include "pipeline_order.h"
#include <assert.h>
#include <math.h>
#include "plan.h"
#include "operation_group.h"

static bool
s_is_end (const operation_t *operation)
{
    return operation->kind >= OPERATION_NORMALIZE && operation->kind <= OPERATION_RANDOM_ERASING;
}

//  The last of kind in a list; NULL: there is none.
static const operation_t *
s_find (const operation_t *operations, size_t count, operation_kind_t kind)
{
    while (count-- > 0)
        if (operations [count].kind == kind)
            return &operations [count];
    return NULL;
}

//  How many an image has behind a list.
static uint32_t
s_channels (const operation_t *operations, size_t count)
{
    uint32_t channels = IMAGE_COLOURS;
    for (size_t index = 0; index < count; index++)
        if (operations [index].kind == OPERATION_GRAYSCALE && operations [index].grayscale.probability >= 1)
            channels = operations [index].grayscale.channels;
    return channels;
}

static int
s_check_views (const operation_t *operations, const operation_t *views, const complaint_t *complaint)
{
    const decode_request_t *decode = &operations [0].decode;
    size_t outputs = plan_count_outputs (decode, views->views.count);
    if (outputs <= PIPELINE_OUTPUTS_MAX)
        return 0;
    return operation_refuse (views, complaint, "%u fields in %u views are %zu arrays%s; expected %d at most",
        decode->field_count, views->views.count, outputs, decode->field_count > decode->image_count?
        " (a ragged one is two, whatever the views are)": "", PIPELINE_OUTPUTS_MAX);
}

static int
s_check_normalize (const operation_t *operations, size_t index, const complaint_t *complaint)
{
    const operation_t *normalize = &operations [index];
    if (normalize->normalize.count == 1 || s_channels (operations, index) > 1)
        return 0;
    return operation_refuse (normalize, complaint, "three numbers for the one channel that grayscale leaves; "
        "expected one number, or grayscale with \"channels\": 3");
}

//  The last of a list that normalizes may be a cast, or come behind it.
static int
s_check_cast (const operation_t *operations, size_t count, const complaint_t *complaint)
{
    const operation_t *cast = s_find (operations, count, OPERATION_CAST);
    if (!cast || cast->cast.dtype != DTYPE_UINT8 || !s_find (operations, count, OPERATION_NORMALIZE))
        return 0;
    return operation_refuse (cast, complaint, "\"uint8\" does not hold what normalize makes; "
        "expected \"float16\", \"bfloat16\" or \"float32\", or no normalize");
}

//  The value of random_erasing is a number of the output.
static int
s_check_erasing (const operation_t *operations, size_t count, const complaint_t *complaint)
{
    const operation_t *erasing = s_find (operations, count, OPERATION_RANDOM_ERASING);
    const operation_t *cast = s_find (operations, count, OPERATION_CAST);
    if (!erasing)
        return 0;
    if (erasing->erase.count > s_channels (operations, count))
        return operation_refuse (erasing, complaint,
            "three values for the one channel that grayscale leaves; "
            "expected one number, or grayscale with \"channels\": 3");
    if (s_find (operations, count, OPERATION_NORMALIZE) || (cast && cast->cast.dtype != DTYPE_UINT8))
        return 0;
    for (size_t channel = 0; channel < IMAGE_COLOURS; channel++) {
        float value = erasing->erase.value [channel];
        if (!(value >= 0 && value <= UINT8_MAX && value == floorf (value)))
            return operation_refuse (erasing, complaint, "\"value\" is no \"uint8\"; "
                "expected whole numbers from 0 to 255, or a normalize or cast beside it");
    }
    return 0;
}

//  Whether an image has one size, and as many channels, with it and without it.
static bool
s_may_be_left_out (const operation_t *operation)
{
    operation_kind_t kind = operation->kind;
    if (kind == OPERATION_GRAYSCALE)
        return operation->grayscale.channels == IMAGE_COLOURS;
    if (kind == OPERATION_RANDOM_ROTATION)
        return !operation->rotation.expand;
    return kind == OPERATION_FLIP || kind == OPERATION_VERTICAL_FLIP
        || (kind >= OPERATION_COLOR_JITTER && kind < OPERATION_NORMALIZE);
}

//  Of a part of a group, [begin, end) of the list.
static int
s_check_part (const operation_t *operations, const operation_t *group, size_t begin, size_t end,
    const complaint_t *complaint)
{
    for (size_t index = begin; index < end; index++) {
        if (!s_may_be_left_out (&operations [index]))
            return operation_refuse (&operations [index], complaint,
                "not supported in a %s; expected operations that keep the size and the channels of an image",
                operation_name (group));
        if (index + operation_group_span (&operations [index]) >= end)
            return operation_refuse (&operations [index], complaint,
                "is about more operations than the part of the %s that it stands in has; "
                "expected all of them in it", operation_name (group));
    }
    return 0;
}

static int
s_check_group (const operation_t *operations, size_t count, size_t index, const complaint_t *complaint)
{
    const operation_t *group = &operations [index];
    size_t span = operation_group_span (group), begin = index + 1;
    if (span > count - begin)
        return operation_refuse (group, complaint,
            "it is about %zu operations, and %zu are behind it; expected no more than there are", span,
            count - begin);
    int rc = 0;
    for (uint32_t part = 0; !rc && part < group->group.parts; part++) {
        rc = s_check_part (operations, group, begin, begin + group->group.counts [part], complaint);
        begin += group->group.counts [part];
    }
    return rc;
}

static bool
s_has_boxes (const decode_request_t *decode)
{
    for (uint32_t file = decode->image_count; file < decode->field_count; file++)
        if (decode->tensors [file].as == DECODE_BOXES)
            return true;
    return false;
}

static bool
s_has_border (const operation_t *operation)
{
    return operation->kind == OPERATION_PAD || operation->kind == OPERATION_RANDOM_CROP;
}

//  Whether boxes follow it, or it moves nothing.
static bool
s_moves_boxes (const operation_t *operation)
{
    if (s_has_border (operation))
        return operation->pad.mode == PAD_CONSTANT;
    if (operation->kind == OPERATION_VIEWS)
        return !operation->views.stacks;
    return operation->kind != OPERATION_CORNER_CROP && operation->kind != OPERATION_ELASTIC_TRANSFORM
        && operation->kind != OPERATION_AUG_MIX && operation->kind != OPERATION_CUSTOM;
}

//  It is asked for images, and need not know that a value of a mask is a name.
static int
s_check_custom (const operation_t *operations, const operation_t *custom, const complaint_t *complaint)
{
    const decode_request_t *decode = &operations [0].decode;
    for (size_t field = 0; field < decode->field_count; field++)
        if (decode->is_mask [field])
            return operation_refuse (custom, complaint,
                "not supported with masks; expected \"fields\" of decode without them");
    return 0;
}

static int
s_check_image (const operation_t *operations, size_t index, const complaint_t *complaint)
{
    const operation_t *operation = &operations [index], *before = operation - 1;
    bool is_once = s_is_end (operation) || operation->kind == OPERATION_VIEWS
        || operation->kind == OPERATION_CUSTOM;
    if (operation->kind == OPERATION_EXCERPT)
        return operation_refuse (operation, complaint,
            "for audio only; expected a decode with \"as\": \"audio\" as the first of the list");
    if (is_once && s_find (operations, index, operation->kind))
        return operation_refuse (operation, complaint, "a second one; expected one at most");
    if (s_is_end (before) && !s_is_end (operation))
        return operation_refuse (operation, complaint, "not supported behind %s; expected it before",
            operation_name (before));
    if (s_has_boxes (&operations [0].decode) && !s_moves_boxes (operation))
        return operation_refuse (operation, complaint, "not supported with boxes, which do not follow it; "
            "expected %s, or the field read \"as\": \"array\"", s_has_border (operation)?
            "\"mode\": \"constant\"": "a list without it");
    if (operation->kind == OPERATION_CORNER_CROP && !s_find (operations, index, OPERATION_VIEWS))
        return operation_refuse (operation, complaint,
            "each view has another corner; expected a views before it");
    if (operation->kind == OPERATION_VIEWS)
        return s_check_views (operations, operation, complaint);
    if (operation->kind == OPERATION_NORMALIZE)
        return s_check_normalize (operations, index, complaint);
    if (operation->kind == OPERATION_CUSTOM)
        return s_check_custom (operations, operation, complaint);
    return 0;
}

//  Of bytes, arrays and audio.
static int
s_check_other (const operation_t *operations, size_t index, const complaint_t *complaint)
{
    const operation_t *operation = &operations [index];
    decode_as_t as = operations [0].decode.as;
    if (as != DECODE_AUDIO)
        return operation_refuse (operation, complaint,
            "for images; expected no operation behind a decode %s",
            as == DECODE_BYTES? "as \"bytes\"": as == DECODE_ARRAY? "as \"array\"": "without an image");
    if (operation->kind != OPERATION_EXCERPT)
        return operation_refuse (operation, complaint,
            "for images; expected excerpt behind a decode as \"audio\", "
            "and nothing else");
    return index == 1? 0: operation_refuse (operation, complaint, "a second one; expected one at most");
}

int
pipeline_order_check (const operation_t *operations, size_t count, const complaint_t *complaint)
{
    assert (count > 0 && operations [0].kind == OPERATION_DECODE);
    decode_as_t as = operations [0].decode.as;
    if (as == DECODE_AUDIO && count == 1)
        return operation_refuse (operations, complaint,
            "audio comes in excerpts; expected {\"op\": \"excerpt\", \"length\": ...} behind it");
    int rc = 0;
    for (size_t index = 1; !rc && index < count; index++) {
        if (operations [index].kind == OPERATION_DECODE)
            return operation_refuse (&operations [index], complaint,
                "not the first; expected it as the first of the list, or not at all");
        rc = operations [0].decode.image_count? s_check_image (operations, index, complaint):
            s_check_other (operations, index, complaint);
        if (!rc && operation_group_is (&operations [index]))
            rc = s_check_group (operations, count, index, complaint);
    }
    rc = rc? rc: s_check_cast (operations, count, complaint);
    return rc? rc: s_check_erasing (operations, count, complaint);
}
