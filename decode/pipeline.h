/*  pipeline -- a job's list of operations, validated once and then read by many threads.
 *
 *  What stands before {"share": true} is the *shared stage*: its result, a *version*, is prepared once and
 *  serves every job with the same shared stage.  What stands behind it is the *private stage*: it runs as the
 *  copy from the version into the job's batch.  Without a mark, everything that is not random is shared, up
 *  to the first random operation.
 *
 *      [{"op":"random_resized_crop","size":[224,224],"scale":[0.08,1],"ratio":[0.75,1.3333333333333333]},
 *       {"share":true},
 *       {"op":"flip","p":0.5}]
 *
 *  Decoding to RGB comes first and is not written.  Operations: resize, center_crop, random_resized_crop,
 *  flip in the shared stage; flip in the private one.  An operation's meaning is torchvision's on a Pillow
 *  image.
 *
 *  Immutable after pipeline_new, so it may be used by any number of threads; whoever holds it last destroys
 *  it (pipeline_hold / pipeline_destroy count, atomically).
 */
#ifndef PIPELINE_H
#define PIPELINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

typedef struct pipeline pipeline_t;

enum { PIPELINE_DIMENSIONS_MAX = 4, PIPELINE_SIDE_MAX = 4096, PIPELINE_OPERATIONS_MAX = 32 };

//  The image a job gets for one sample, row-major: shape [height, width, 3], dtype uint8 (NumPy's name).
typedef struct {
    const char *dtype;
    uint32_t dimensions;
    uint32_t shape [PIPELINE_DIMENSIONS_MAX];
    size_t bytes;
} pipeline_output_t;

//  Parses and validates a JSON value: a list of operations, or the name of a standard recipe ("train",
//  "eval").  0 and *self_p with one reference; or -EINVAL (-ENOMEM without memory), *self_p NULL and in error
//  (of error_bytes > 0, always ended, printable ASCII) a sentence that names the operation and what was
//  expected.  Foreign input: bounded, never aborts.
int pipeline_new (const pipeline_t **self_p, const json_t *value, char *error, size_t error_bytes);
//  One reference more; returns self.
const pipeline_t *pipeline_hold (const pipeline_t *self);
//  One reference less and NULL into *self_p; NULL inside is fine.  The last one frees.
void pipeline_destroy (const pipeline_t **self_p);

//  The canonical text of the shared stage: with equal texts, two pipelines share versions.  Key order,
//  spelling of numbers and defaults make no difference to it; lists that merely come to the same (a crop of a
//  crop) do.
const char *pipeline_shared_text (const pipeline_t *self);
//  The canonical text of the whole list, mark included, as a JSON array.
const char *pipeline_text (const pipeline_t *self);
//  Whether the shared stage draws random numbers: then a job uses a version at most once.
bool pipeline_shared_is_random (const pipeline_t *self);
//  Bytes of one version; the same for every sample (the shared stage ends in a fixed size).
size_t pipeline_version_bytes (const pipeline_t *self);
//  What the private stage writes for one sample; lent for the life of the pipeline.
const pipeline_output_t *pipeline_output (const pipeline_t *self);

//  Where an operation's random numbers come from: never from timing.  Shared stage: seed is the server's,
//  round the version's draw number.  Private stage: seed is the job's, round the epoch, occurrence the
//  how-manyeth time that the id comes in this epoch's list (0 but for repeats).  The operation's place in the
//  list is mixed in.
typedef struct {
    uint64_t seed;
    uint64_t round;
    uint64_t id;
    uint32_t occurrence;
    uint32_t view;              //  0; which of several views of one sample, later
} pipeline_key_t;

//  Runs the private stage: reads a version (pipeline_version_bytes), writes one sample (output bytes) to
//  target.  The two do not overlap.  Any thread; allocates nothing.
void pipeline_private (const pipeline_t *self, const pipeline_key_t *key,
    const uint8_t *version, uint8_t *target);

#endif
