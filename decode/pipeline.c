#include "pipeline.h"
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include "geometry.h"
#include "image.h"
#include "keyed_random.h"
#include "operation.h"

#define SHARE_MARK "{\"share\":true}"

enum {
    PIPELINE_MAGIC = 0x70697065,
    TEXT_BYTES_MAX = (PIPELINE_OPERATIONS_MAX + 1) * OPERATION_TEXT_BYTES_MAX       //  the mark is shorter
};

struct pipeline {
    uint32_t magic;
    atomic_uint_fast32_t holders;       //  the only field that changes after pipeline_new
    operation_t operations [PIPELINE_OPERATIONS_MAX];
    size_t count;
    size_t shared_count;                //  of them before the mark
    bool shared_is_random;
    bool mark_is_given;
    pipeline_output_t output;
    char shared_text [TEXT_BYTES_MAX];
    char text [TEXT_BYTES_MAX];
};

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
    assert (self);
    assert (self->magic == PIPELINE_MAGIC);
}

//  ---------------------------------------------------------------------------------------------------------
//  Parsing: list -> operations and mark -> share point -> sizes -> texts

//  Reads {"share": true}, which may come once.
static int
s_parse_mark (pipeline_t *self, const json_t *value, const complaint_t *complaint)
{
    if (!json_is_true (json_object_get (value, "share")) || json_object_size (value) != 1)
        return operation_complain (complaint,
            "the share mark is not valid; expected {\"share\": true}, nothing else");
    if (self->mark_is_given)
        return operation_complain (complaint, "a second {\"share\": true}; expected one at most");
    self->mark_is_given = true;
    self->shared_count = self->count;
    return 0;
}

static int
s_parse_entry (pipeline_t *self, const json_t *value, complaint_t *complaint)
{
    complaint->name = NULL;
    if (json_object_get (value, "share"))
        return s_parse_mark (self, value, complaint);
    if (self->count == PIPELINE_OPERATIONS_MAX)
        return operation_complain (complaint, "one too many; expected %d operations at most",
            PIPELINE_OPERATIONS_MAX);
    operation_t *operation = &self->operations [self->count];
    int rc = operation_parse (operation, value, complaint);
    if (rc)
        return rc;
    if (self->mark_is_given && !operation_may_be_private (operation))
        return operation_complain (complaint, "not supported behind {\"share\": true}; expected flip, "
            "or this operation before the mark");
    self->count++;
    return 0;
}

//  Without a mark: as much as is not random.
static int
s_place_mark (pipeline_t *self, const complaint_t *list_complaint)
{
    while (self->shared_count < self->count && !operation_is_random (&self->operations [self->shared_count]))
        self->shared_count++;
    for (size_t index = self->shared_count; index < self->count; index++) {
        complaint_t complaint = *list_complaint;
        complaint.place = index;
        complaint.name = operation_name (&self->operations [index]);
        if (!operation_may_be_private (&self->operations [index]))
            return operation_complain (&complaint, "not supported behind the first random operation unless "
                "{\"share\": true} stands behind it; expected that mark in the list");
    }
    return 0;
}

//  Follows the image's size through the shared stage; height 0 while each sample has its own.
static int
s_follow_sizes (const pipeline_t *self, const complaint_t *list_complaint,
    uint32_t *height_p, uint32_t *width_p)
{
    uint32_t height = 0, width = 0;
    for (size_t index = 0; index < self->shared_count; index++) {
        const operation_t *operation = &self->operations [index];
        bool shorter_side = operation->shorter_side;
        if (operation->kind == OPERATION_FLIP || (shorter_side && !height))
            continue;
        if (!shorter_side) {
            height = operation->height;
            width = operation->width;
            continue;
        }
        geometry_resize (operation, height, width, &height, &width);
        complaint_t complaint = *list_complaint;
        complaint.place = index;
        complaint.name = operation_name (operation);
        if (height > PIPELINE_SIDE_MAX || width > PIPELINE_SIDE_MAX)
            return operation_complain (&complaint, "makes an image of %u x %u; expected sides up to %d",
                height, width, PIPELINE_SIDE_MAX);
    }
    *height_p = height;
    *width_p = width;
    return 0;
}

static int
s_complain_unsized (const complaint_t *complaint)
{
    snprintf (complaint->text, complaint->text_bytes,
        "the pipeline: the images at the share point differ in size; expected the shared stage to end with "
        "center_crop, random_resized_crop or a resize to [height, width]");
    return -EINVAL;
}

static int
s_fix_output (pipeline_t *self, const complaint_t *complaint)
{
    uint32_t height = 0, width = 0;
    int rc = s_follow_sizes (self, complaint, &height, &width);
    if (rc)
        return rc;
    if (!height)
        return s_complain_unsized (complaint);
    self->output = (pipeline_output_t) {
        .dtype = "uint8",
        .dimensions = 3,
        .shape = { height, width, IMAGE_CHANNELS },
        .bytes = image_bytes (height, width)
    };
    return 0;
}

//  The mark is always written, so its place in the list, and with it every operation's, is the same however
//  the list was sent.
static void
s_write_texts (pipeline_t *self)
{
    char *text = self->text, *shared = self->shared_text;
    *text++ = *shared++ = '[';
    for (size_t index = 0; index <= self->count; index++) {
        if (index == self->shared_count)
            text += sprintf (text, "%s" SHARE_MARK, index? ",": "");
        if (index == self->count)
            break;
        operation_t *operation = &self->operations [index];
        char object [OPERATION_TEXT_BYTES_MAX];
        operation_write (operation, object);
        operation->place = (uint32_t) (index < self->shared_count? index: index + 1);
        text += sprintf (text, "%s%s", operation->place? ",": "", object);
        if (index < self->shared_count)
            shared += sprintf (shared, "%s%s", index? ",": "", object);
    }
    strcpy (text, "]");
    strcpy (shared, "]");
    assert (strlen (self->text) < TEXT_BYTES_MAX);
}

static int
s_parse_list (pipeline_t *self, const json_t *list, complaint_t *complaint)
{
    int rc = 0;
    for (size_t index = 0; !rc && index < json_array_size (list); index++) {
        complaint->place = index;
        rc = s_parse_entry (self, json_array_get (list, index), complaint);
    }
    if (!rc && !self->mark_is_given)
        rc = s_place_mark (self, complaint);
    if (!rc)
        rc = s_fix_output (self, complaint);
    if (rc)
        return rc;
    for (size_t index = 0; index < self->shared_count; index++)
        self->shared_is_random |= operation_is_random (&self->operations [index]);
    s_write_texts (self);
    return 0;
}

static int
s_parse_recipe (pipeline_t *self, const char *name, complaint_t *complaint)
{
    for (size_t index = 0; index < RECIPES; index++) {
        if (strcmp (s_recipes [index].name, name))
            continue;
        json_t *list = json_loads (s_recipes [index].text, JSON_REJECT_DUPLICATES, NULL);
        //  UNTESTED: the text is ours, so only want of memory comes here.
        int rc = list? s_parse_list (self, list, complaint): -ENOMEM;
        json_decref (list);
        return rc;
    }
    char quoted [41];
    snprintf (complaint->text, complaint->text_bytes,
        "the pipeline: unknown recipe \"%s\"; expected \"train\", \"eval\" or a list of operations",
        operation_printable (name, quoted, sizeof quoted));
    return -EINVAL;
}

static int
s_parse (pipeline_t *self, const json_t *value, complaint_t *complaint)
{
    if (json_is_string (value))
        return s_parse_recipe (self, json_string_value (value), complaint);
    if (json_is_array (value))
        return s_parse_list (self, value, complaint);
    snprintf (complaint->text, complaint->text_bytes,
        "the pipeline: expected a list of operations, or a recipe's name: \"train\" or \"eval\"");
    return -EINVAL;
}

int
pipeline_new (const pipeline_t **self_p, const json_t *value, char *error, size_t error_bytes)
{
    assert (self_p);
    assert (error);
    assert (error_bytes > 0);
    *self_p = NULL;
    *error = 0;
    //  Any thread may come first; libsodium sees to it that one call does the work.
    int sodium_rc = sodium_init ();
    assert (sodium_rc >= 0);
    pipeline_t *self = calloc (1, sizeof *self);
    complaint_t complaint = { .text = error, .text_bytes = error_bytes };
    int rc = self? s_parse (self, value, &complaint): -ENOMEM;
    if (rc == -ENOMEM)
        snprintf (error, error_bytes, "the pipeline: not enough memory");
    if (rc) {
        free (self);
        return rc;
    }
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
    assert (self_p);
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
    return self->output.bytes;
}

const pipeline_output_t *
pipeline_output (const pipeline_t *self)
{
    s_check (self);
    return &self->output;
}

const operation_t *
pipeline_shared_operations (const pipeline_t *self, size_t *count_p)
{
    s_check (self);
    *count_p = self->shared_count;
    return self->operations;
}

//  ---------------------------------------------------------------------------------------------------------
//  The private stage

//  Two flips are none: all flips together are one question, asked before the copy.
static bool
s_private_flips (const pipeline_t *self, const pipeline_key_t *key)
{
    bool flipped = false;
    for (size_t index = self->shared_count; index < self->count; index++)
        flipped ^= geometry_flips (&self->operations [index], key);
    return flipped;
}

void
pipeline_private (const pipeline_t *self, const pipeline_key_t *key, const uint8_t *version, uint8_t *target)
{
    s_check (self);
    assert (key);
    uint32_t height = self->output.shape [0], width = self->output.shape [1];
    image_t image = { version, image_bytes (1, width), height, width };
    if (s_private_flips (self, key))
        image_copy_flipped (&image, target, image.stride);
    else
        memcpy (target, version, self->output.bytes);
}
