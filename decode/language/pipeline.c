#include "pipeline.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include "operation.h"
#include "plan.h"

#define SHARE_MARK "{\"share\":true}"

enum {
    PIPELINE_MAGIC = 0x70697065,
    TEXT_BYTES_MAX = (PIPELINE_OPERATIONS_MAX + 1) * ENTRY_TEXT_BYTES_MAX       //  the mark is shorter
};

struct pipeline {
    uint32_t magic;
    atomic_uint_fast32_t holders;       //  the only field that changes after pipeline_new
    operation_t operations [PIPELINE_OPERATIONS_MAX];
    size_t count;
    plan_t plan;
    pipeline_output_t outputs [PIPELINE_OUTPUTS_MAX];
    size_t output_count;
    size_t sample_bytes;
    plan_cost_t cost;
    bool shared_is_random;
    char shared_text [TEXT_BYTES_MAX];
    char text [TEXT_BYTES_MAX];
};

//  What is needed while a list becomes a pipeline.
typedef struct {
    pipeline_t *self;
    const pipeline_source_t *source;
    const char *const *present;
    size_t present_count;
    complaint_t complaint;
    bool mark_is_given;
    size_t mark;                        //  operations before it
    size_t mark_sent;                   //  its place in the list as it was sent
    plan_images_t images [PIPELINE_OPERATIONS_MAX];
    size_t ends [PIPELINE_OPERATIONS_MAX];      //  of each operation in the text of all, without the mark
} draft_t;

typedef struct {
    const char *name;
    const char *text;
} recipe_t;

static const recipe_t s_recipes [] = {
    { "train",
      "[{\"op\":\"random_resized_crop\",\"size\":224,\"scale\":[0.08,1],\"ratio\":[0.75,1.3333333333333333]},"
      SHARE_MARK ",{\"op\":\"flip\",\"p\":0.5}]" },
    { "eval",
      "[{\"op\":\"resize\",\"size\":256},{\"op\":\"center_crop\",\"size\":224}," SHARE_MARK "]" },
};
enum { RECIPES = sizeof s_recipes / sizeof *s_recipes };

static void
s_check (const pipeline_t *self)
{
    assert (self->magic == PIPELINE_MAGIC);
}

//  ---------------------------------------------------------------------------------------------------------
//  Reading the list: source -> operations and mark

//  About the whole list.
static complaint_t
s_whole (const draft_t *draft)
{
    complaint_t whole = draft->complaint;
    whole.place = ENTRY_NOT_SENT;
    return whole;
}

static bool
s_is_name (const char *name)
{
    size_t length = name? strlen (name): 0;
    return length > 0 && length <= PIPELINE_NAME_BYTES_MAX
        && strspn (name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == length;
}

static int
s_check_source (const draft_t *draft)
{
    const pipeline_source_t *source = draft->source;
    complaint_t whole = s_whole (draft);
    if (source->count < 1 || source->count > PIPELINE_FIELDS_MAX)
        return entry_complain (&whole, "the data have %zu fields; expected 1 to %d", source->count,
            PIPELINE_FIELDS_MAX);
    for (size_t field = 0; field < source->count; field++) {
        if (!s_is_name (source->fields [field].name))
            return entry_complain (&whole,
                "the name of field %zu of the data is not valid; expected letters, digits "
                "and underscores, %d at most", field + 1, PIPELINE_NAME_BYTES_MAX);
        for (size_t other = 0; other < field; other++)
            if (strcmp (source->fields [field].name, source->fields [other].name) == 0)
                return entry_complain (&whole, "the data have two fields \"%s\"; expected other names",
                    source->fields [field].name);
    }
    return 0;
}

static int
s_append (draft_t *draft, const operation_t *operation)
{
    pipeline_t *self = draft->self;
    if (self->count == PIPELINE_OPERATIONS_MAX)
        return operation_refuse (operation, &draft->complaint,
            "one too many; expected %d operations at most beside decode", PIPELINE_OPERATIONS_MAX - 1);
    self->operations [self->count] = *operation;
    self->operations [self->count].place = (uint32_t) self->count;
    self->count++;
    return 0;
}

//  What does not begin with a decode gets one.
static int
s_append_default (draft_t *draft)
{
    operation_t decode;
    int rc = operation_parse_default (&decode, draft->source, &draft->complaint);
    return rc? rc: s_append (draft, &decode);
}

//  Reads {"share": true}, which may come once.
static int
s_parse_mark (draft_t *draft, const json_t *value)
{
    if (!json_is_true (json_object_get (value, "share")) || json_object_size (value) != 1)
        return entry_complain (&draft->complaint,
            "the share mark is not valid; expected {\"share\": true}, nothing else");
    if (draft->mark_is_given)
        return entry_complain (&draft->complaint, "a second {\"share\": true}; expected one at most");
    draft->mark_is_given = true;
    draft->mark_sent = draft->complaint.place;
    int rc = draft->self->count? 0: s_append_default (draft);
    draft->mark = draft->self->count;
    return rc;
}

static int
s_parse_entry (draft_t *draft, const json_t *value)
{
    operation_t operation;
    draft->complaint.name = NULL;
    if (json_object_get (value, "share") && !json_object_get (value, "op"))
        return s_parse_mark (draft, value);
    int rc = operation_parse (&operation, value, draft->source, &draft->complaint);
    if (!rc && !draft->self->count && operation.kind != OPERATION_DECODE)
        rc = s_append_default (draft);
    return rc? rc: s_append (draft, &operation);
}

static int
s_parse_entries (draft_t *draft, const json_t *list)
{
    int rc = 0;
    for (size_t index = 0; !rc && index < json_array_size (list); index++) {
        draft->complaint.place = index;
        rc = s_parse_entry (draft, json_array_get (list, index));
    }
    return !rc && !draft->self->count? s_append_default (draft): rc;
}

//  ---------------------------------------------------------------------------------------------------------
//  Which operations may stand where in a list, wherever its share point is

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
        if (operations [index].kind == OPERATION_GRAYSCALE && operations [index].probability >= 1)
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
        if (index + operation_span (&operations [index]) >= end)
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
    size_t span = operation_span (group), begin = index + 1;
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

//  operations: a decode and what follows.  0, or -EINVAL with a complaint.
static int
s_check_order (const operation_t *operations, size_t count, const complaint_t *complaint)
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
        if (!rc && operation_is_group (&operations [index]))
            rc = s_check_group (operations, count, index, complaint);
    }
    rc = rc? rc: s_check_cast (operations, count, complaint);
    return rc? rc: s_check_erasing (operations, count, complaint);
}

//  ---------------------------------------------------------------------------------------------------------
//  Texts and the share point

//  All operations without the mark into the shared text, which is cut at the share point once that is known.
static void
s_write_operations (draft_t *draft)
{
    pipeline_t *self = draft->self;
    size_t length = 0;
    for (size_t index = 0; index < self->count; index++) {
        assert (length + ENTRY_TEXT_BYTES_MAX < TEXT_BYTES_MAX);
        self->shared_text [length++] = index? ',': '[';
        length += operation_write (&self->operations [index], draft->source, self->shared_text + length);
        draft->ends [index] = length;
    }
}

//  The mark is always written.
static void
s_write_texts (draft_t *draft)
{
    pipeline_t *self = draft->self;
    size_t end = draft->ends [self->plan.shared_count - 1], all = draft->ends [self->count - 1];
    int length = snprintf (self->text, TEXT_BYTES_MAX, "%.*s," SHARE_MARK "%.*s]",
        (int) end, self->shared_text, (int) (all - end), self->shared_text + end);
    assert (length > 0 && length < TEXT_BYTES_MAX);
    strcpy (self->shared_text + end, "]");
}

//  Whether a present job's shared stage is the first count operations.
static bool
s_is_present (const draft_t *draft, size_t count)
{
    const char *all = draft->self->shared_text;
    size_t length = draft->ends [count - 1];
    for (size_t index = 0; index < draft->present_count; index++)
        if (strncmp (draft->present [index], all, length) == 0
            && strcmp (draft->present [index] + length, "]") == 0)
            return true;
    return false;
}

static int
s_make_plan (draft_t *draft, size_t shared_count, const complaint_t *complaint)
{
    pipeline_t *self = draft->self;
    return plan_make (&self->plan, self->operations, self->count, shared_count, draft->images, complaint);
}

//  The longest that the declarations could allow.
static size_t
s_longest (const pipeline_t *self)
{
    size_t count = 1;
    while (count < self->count && operation_is_shareable (&self->operations [count]))
        count++;
    return count;
}

//  Whether the share point may be where others have theirs: only if no pixel depends on where it is.  At a
//  smaller scale one does: what stands before it decides which pixels a resize is asked for, and so at which
//  scale they are decoded.
static bool
s_may_meet (const pipeline_t *self)
{
    const decode_request_t *decode = &self->operations [0].decode;
    return !decode->image_count || decode->exact;
}

//  Views as the last of the shared stage would only multiply versions.
static int
s_infer_share_point (draft_t *draft)
{
    bool may_meet = s_may_meet (draft->self);
    size_t longest = s_longest (draft->self), best = 0;
    complaint_t whole = s_whole (draft);
    for (size_t count = longest; count > 0; count--) {
        if (draft->self->operations [count - 1].kind == OPERATION_VIEWS || s_make_plan (draft, count, &whole))
            continue;
        if (!best)
            best = count;
        if (may_meet && s_is_present (draft, count)) {
            best = count;
            break;
        }
    }
    //  Where none is allowed, the longest says why.
    return s_make_plan (draft, best? best: longest, &whole);
}

static int
s_place_share_point (draft_t *draft)
{
    if (!draft->mark_is_given)
        return s_infer_share_point (draft);
    complaint_t mark = draft->complaint;
    mark.place = draft->mark_sent;
    mark.name = NULL;
    return s_make_plan (draft, draft->mark, &mark);
}

//  ---------------------------------------------------------------------------------------------------------
//  Outputs

//  A field "image_2" beside the second view of "image", or "tokens_length" beside ragged "tokens".
static int
s_check_names (const draft_t *draft)
{
    const pipeline_t *self = draft->self;
    size_t at = self->plan.views_at < self->count? self->plan.views_at: 0;
    for (size_t index = 0; index < self->output_count; index++)
        for (size_t other = 0; other < index; other++)
            if (strcmp (self->outputs [index].name, self->outputs [other].name) == 0)
                return operation_refuse (&self->operations [at], &draft->complaint,
                    "makes a second array \"%s\"; expected other names of fields",
                    self->outputs [index].name);
    return 0;
}

static int
s_describe (draft_t *draft)
{
    pipeline_t *self = draft->self;
    self->output_count = plan_outputs (&self->plan, draft->source, self->outputs, &self->sample_bytes);
    complaint_t whole = s_whole (draft);
    if (self->sample_bytes > PIPELINE_SAMPLE_BYTES_MAX)
        return entry_complain (&whole, "a sample takes %zu bytes of the batch; expected %d at most",
            self->sample_bytes, PIPELINE_SAMPLE_BYTES_MAX);
    for (size_t index = 0; index < self->plan.shared_count; index++)
        self->shared_is_random |= operation_is_random (&self->operations [index]);
    return s_check_names (draft);
}

static int
s_parse_list (draft_t *draft, const json_t *list)
{
    pipeline_t *self = draft->self;
    int rc = s_parse_entries (draft, list);
    rc = rc? rc: s_check_order (self->operations, self->count, &draft->complaint);
    if (!rc && self->operations [0].decode.image_count)
        rc = plan_follow (self->operations, self->count, draft->images, &draft->complaint);
    if (rc)
        return rc;
    s_write_operations (draft);
    rc = s_place_share_point (draft);
    rc = rc? rc: s_describe (draft);
    if (rc)
        return rc;
    s_write_texts (draft);
    self->cost = plan_foresee (&self->plan, draft->images);
    if (self->operations [0].decode.image_count)
        finish_format (&self->plan.format);
    return 0;
}

static int
s_parse_recipe (draft_t *draft, const char *name)
{
    for (size_t index = 0; index < RECIPES; index++) {
        if (strcmp (s_recipes [index].name, name))
            continue;
        json_t *list = json_loads (s_recipes [index].text, JSON_REJECT_DUPLICATES, NULL);
        //  UNTESTED: the text is ours, so only want of memory comes here.
        int rc = list? s_parse_list (draft, list): -ENOMEM;
        json_decref (list);
        return rc;
    }
    char quoted [41];
    complaint_t whole = s_whole (draft);
    return entry_complain (&whole,
        "unknown recipe \"%s\"; expected \"train\", \"eval\" or a list of operations",
        entry_printable (name, quoted, sizeof quoted));
}

static int
s_parse (draft_t *draft, const json_t *value)
{
    int rc = s_check_source (draft);
    if (rc)
        return rc;
    if (json_is_string (value))
        return s_parse_recipe (draft, json_string_value (value));
    if (json_is_array (value))
        return s_parse_list (draft, value);
    complaint_t whole = s_whole (draft);
    return entry_complain (&whole,
        "expected a list of operations, or a recipe's name: \"train\" or \"eval\"");
}

int
pipeline_new (const pipeline_t **self_p, const json_t *value, const pipeline_source_t *source,
    const char *const *present, size_t present_count, char *error, size_t error_bytes)
{
    static const pipeline_source_t image = { .fields = { { "image", false } }, .count = 1 };
    assert (self_p);
    assert (present || !present_count);
    assert (error);
    assert (error_bytes > 0);
    *self_p = NULL;
    *error = 0;
    //  Any thread may come first; libsodium sees to it that one call does the work.
    int sodium_rc = sodium_init ();
    assert (sodium_rc >= 0);
    pipeline_t *self = calloc (1, sizeof *self);
    draft_t draft = {
        .self = self, .source = source? source: &image, .present = present, .present_count = present_count,
        .complaint = { .text = error, .text_bytes = error_bytes }
    };
    int rc = self? s_parse (&draft, value): -ENOMEM;
    if (rc == -ENOMEM)
        snprintf (error, error_bytes, "not enough memory");
    if (rc) {
        free (self);
        return rc;
    }
    *error = 0;         //  of share points that were tried
    self->magic = PIPELINE_MAGIC;
    atomic_init (&self->holders, 1);
    *self_p = self;
    return 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  Holding and asking

//  All fields but the count are constant: the one place that writes behind a const.
static atomic_uint_fast32_t *
s_holders (const pipeline_t *self)
{
    s_check (self);
    return &((pipeline_t *) (uintptr_t) self)->holders;
}

const pipeline_t *
pipeline_hold (const pipeline_t *self)
{
    uint_fast32_t before = atomic_fetch_add_explicit (s_holders (self), 1, memory_order_relaxed);
    assert (before > 0);
    return self;
}

void
pipeline_destroy (const pipeline_t **self_p)
{
    if (!*self_p)
        return;
    pipeline_t *self = (pipeline_t *) (uintptr_t) *self_p;
    *self_p = NULL;
    //  Release what this thread did with it, acquire what the others did, before the memory goes.
    uint_fast32_t before = atomic_fetch_sub_explicit (s_holders (self), 1, memory_order_acq_rel);
    assert (before > 0);
    if (before > 1)
        return;
    self->magic = 0;
    free (self);
}

const char *
pipeline_shared_text (const pipeline_t *self)
{
    s_check (self);
    return self->shared_text;
}

const char *
pipeline_text (const pipeline_t *self)
{
    s_check (self);
    return self->text;
}

bool
pipeline_shared_is_random (const pipeline_t *self)
{
    s_check (self);
    return self->shared_is_random;
}

size_t
pipeline_version_bytes (const pipeline_t *self)
{
    s_check (self);
    return plan_version_bytes (&self->plan);
}

size_t
pipeline_files (const pipeline_t *self)
{
    s_check (self);
    return self->operations [0].decode.field_count;
}

size_t
pipeline_file (const pipeline_t *self, size_t index)
{
    assert (index < pipeline_files (self));
    return self->operations [0].decode.fields [index];
}

size_t
pipeline_outputs (const pipeline_t *self)
{
    s_check (self);
    return self->output_count;
}

const pipeline_output_t *
pipeline_output (const pipeline_t *self, size_t index)
{
    assert (index < pipeline_outputs (self));
    return &self->outputs [index];
}

double
pipeline_shared_ms (const pipeline_t *self)
{
    s_check (self);
    return self->cost.shared_ms;
}

double
pipeline_private_ms (const pipeline_t *self)
{
    s_check (self);
    return self->cost.private_ms;
}

int
pipeline_check_cost (const pipeline_t *self, double most_ms, char *error, size_t error_bytes)
{
    s_check (self);
    double ms = self->cost.shared_ms + self->cost.private_ms;
    *error = '\0';
    if (ms <= most_ms)
        return 0;
    complaint_t complaint = { .text = error, .text_bytes = error_bytes, .place = ENTRY_NOT_SENT };
    operation_refuse (&self->operations [self->cost.costliest], &complaint, "takes about %.0f of the %.0f ms "
        "of processor time that the pipeline takes for a sample; expected %.0f ms at most for the whole "
        "pipeline", self->cost.costliest_ms, ms, most_ms);
    return -E2BIG;
}

size_t
pipeline_sample_bytes (const pipeline_t *self)
{
    s_check (self);
    return self->sample_bytes;
}

const custom_t *
pipeline_custom (const pipeline_t *self)
{
    s_check (self);
    for (size_t index = 0; index < self->plan.shared_count; index++)
        if (self->operations [index].kind == OPERATION_CUSTOM)
            return self->operations [index].custom.is;
    return NULL;
}

const plan_t *
pipeline_plan (const pipeline_t *self)
{
    s_check (self);
    return &self->plan;
}
