/*  pipeline -- a job's list of operations, validated once and then read by many threads.
 *
 *  What stands before {"share": true} is the *shared stage*: its result, a *version*, is prepared once and
 *  serves every job with the same shared stage.  What stands behind it is the *private stage*: it runs as the
 *  copy from the version into the job's batch.  Without a mark the share point is inferred (below).
 *
 *      [{"op":"random_resized_crop","size":[224,224],"scale":[0.08,1],"ratio":[0.75,1.3333333333333333]},
 *       {"share":true},
 *       {"op":"flip","p":0.5}]
 *
 *  docs/pipeline.md has the schema.  An operation's meaning is torchvision's on a Pillow image.
 *
 *  A sample has one or more *fields* (its image; masks and further images with the same stem), and a job
 *  takes one or more *views* of it.  Geometry is drawn once for a view and is the same for all its fields.  A
 *  *plane* is one field of one view: each has its place in the version, and each is one output, an array of
 *  the batch.
 *
 *  Immutable after pipeline_new, so any number of threads may use it; the last holder destroys it
 *  (pipeline_hold / pipeline_destroy count, atomically).
 */
#ifndef PIPELINE_H
#define PIPELINE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "decode_request.h"

typedef struct pipeline pipeline_t;

enum {
    PIPELINE_SIDE_MAX = 4096, PIPELINE_OPERATIONS_MAX = 32, PIPELINE_VIEWS_MAX = 10,
    PIPELINE_OUTPUTS_MAX = 16,                  //  fields x views, at most
    PIPELINE_NAME_BYTES_MAX = 64,
    PIPELINE_SAMPLE_BYTES_MAX = 1 << 30         //  of a version, and of all outputs of one sample together
};

//  ---- an operation of the operator's own, as pipelines name it and decoders call it
//
//  `tureen serve --operation NAME=COMMAND` makes them (server/prepare/custom); this folder knows what they
//  are called and how they are asked, not what stands behind them.  They outlive all pipelines that name
//  them.  Plain data; `run` may be called from any number of threads at once.

enum {
    CUSTOM_MAX = 8,                     //  of a server
    CUSTOM_CHANNELS = 3,
    CUSTOM_NAME_BYTES_MAX = 32, CUSTOM_IDENTITY_BYTES = 32,
    CUSTOM_ARGUMENTS_BYTES_MAX = 400    //  as canonical text
};

typedef enum {
    CUSTOM_DONE,
    CUSTOM_FAILED,                      //  error says why
    CUSTOM_NO_MEMORY                    //  the same call may go well later
} custom_status_t;

//  One image in, one of the size that was asked for out; both of CUSTOM_CHANNELS bytes a pixel.
typedef struct {
    const uint8_t *pixels;              //  lent
    size_t stride;                      //  bytes from one row to the next
    uint32_t from_height, from_width;   //  of the image
    uint32_t height, width;             //  of the result
    const char *arguments;              //  a JSON object
    uint64_t seed;                      //  below 2^53; 0 unless the operation is random
    uint8_t *target;                    //  rows without gaps
    const atomic_bool *abandoned;       //  true: the call is to end, its result is not looked at; or NULL
    uint64_t took_ns;                   //  added to: processor time of other processes
    char *error;
    size_t error_bytes;
} custom_call_t;

typedef struct custom {
    char name [CUSTOM_NAME_BYTES_MAX + 1];
    char identity [CUSTOM_IDENTITY_BYTES + 1];      //  hexadecimal: another one makes other pixels
    bool is_random;                     //  it wants a seed
    uint32_t number;                    //  among the server's, from 0
    custom_status_t (*run) (const struct custom *self, custom_call_t *call);
    void *context;                      //  of run
} custom_t;

//  ---- what a pipeline is made for

//  What the data have: the first field is the sample's own file, "image".  Names are lent for the call of
//  pipeline_new.
typedef struct {
    const char *name;           //  letters, digits, '_'; at most PIPELINE_NAME_BYTES_MAX
    bool is_mask;
} pipeline_field_t;

typedef struct {
    pipeline_field_t fields [PIPELINE_FIELDS_MAX];
    size_t count;
    const custom_t *customs;    //  operations of the operator's own; lent for the life of the pipeline
    size_t custom_count;
} pipeline_source_t;

//  One array of the batch: what a job gets of one sample, row-major.
typedef struct {
    //  The field's; of the second view and on "image_2" ...; or "audio", "array", "bytes".
    char name [PIPELINE_NAME_BYTES_MAX + 16];
    dtype_t dtype;
    uint32_t dimensions;
    uint32_t shape [PIPELINE_DIMENSIONS_MAX];
    size_t bytes;
    bool is_ragged;             //  shape [0] is the most that there may be, zeros stand behind what there is;
                                //  the next output says how many there are: int64, "NAME_length"
} pipeline_output_t;

//  Parses and validates a JSON value: a list of operations, or the name of a standard recipe ("train",
//  "eval").
//  source: NULL for data with the one field "image".  present: the shared texts (pipeline_shared_text) of the
//  jobs that are there on the same data; a list without a mark gets the longest share point that its
//  declarations allow among theirs, else the longest they allow (random operations only where they say
//  "share": true; views not as the last); with "exact": false theirs are not looked at.
//  0 and *self_p with one reference; or -EINVAL (-ENOMEM without memory), *self_p NULL and in error (of
//  error_bytes > 0, always ended, printable ASCII) a sentence that names the operation and what was expected.
//  Foreign input: bounded, never aborts.
int pipeline_new (const pipeline_t **self_p, const json_t *value, const pipeline_source_t *source,
    const char *const *present, size_t present_count, char *error, size_t error_bytes);
//  One reference more; returns self.
const pipeline_t *pipeline_hold (const pipeline_t *self);
//  One reference less and NULL into *self_p; NULL inside is fine.  The last one frees.
void pipeline_destroy (const pipeline_t **self_p);

//  The canonical text of the shared stage, decode first: with equal texts, two pipelines share versions.  Key
//  order, spelling of numbers and defaults make no difference to it; lists that merely come to the same (a
//  crop of a crop) do.
const char *pipeline_shared_text (const pipeline_t *self);
//  The canonical text of the whole list, mark included, as a JSON array.
const char *pipeline_text (const pipeline_t *self);
//  Whether the shared stage draws random numbers: then a job uses a version at most once.
bool pipeline_shared_is_random (const pipeline_t *self);
//  Bytes of one version, at most; the same for every sample.
size_t pipeline_version_bytes (const pipeline_t *self);
//  The fields with files that the shared stage reads: how many, and which (index in the source).
size_t pipeline_files (const pipeline_t *self);
size_t pipeline_file (const pipeline_t *self, size_t index);
//  What the private stage writes for one sample; lent for the life of the pipeline.  In the order: the images
//  view by view, in each the fields; then the other files, of boxes view by view.
size_t pipeline_outputs (const pipeline_t *self);
const pipeline_output_t *pipeline_output (const pipeline_t *self, size_t index);
//  The operation of the operator's own in the shared stage; NULL: there is none.
const custom_t *pipeline_custom (const pipeline_t *self);
//  Of all outputs together.
size_t pipeline_sample_bytes (const pipeline_t *self);
//  For decode/: how it sees the pipeline (plan.h).  Lent for the life of the pipeline.
const struct plan *pipeline_plan (const pipeline_t *self);

//  The processor time, in milliseconds, that a stage takes for a sample, as foreseen (plan_foresee).
//  Operations and sizes are known, pictures are not.
double pipeline_shared_ms (const pipeline_t *self);
double pipeline_private_ms (const pipeline_t *self);
//  0; or -E2BIG if both stages together take longer than most_ms, and in error (of error_bytes > 0, always
//  ended) a sentence that names the operation that takes most of it.
int pipeline_check_cost (const pipeline_t *self, double most_ms, char *error, size_t error_bytes);

//  Where an operation's random numbers come from: never from timing.  Shared stage: seed is the server's,
//  round the version's draw number.  Private stage: seed is the job's, round the epoch, occurrence the
//  how-manyeth time that the id comes in this epoch's list (0 but for repeats).  The operation's place in the
//  list and the view are mixed in.
typedef struct {
    uint64_t seed;
    uint64_t round;
    uint64_t id;
    uint32_t occurrence;
} pipeline_key_t;

#endif
