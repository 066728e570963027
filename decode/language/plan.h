/*  plan -- how a pipeline (pipeline.h) is carried out: its operations in two stages, and where each plane
 *  lies in a version.  Made once for each pipeline, for decode/run.
 *
 *  A version is the planes of the shared stage, each at an offset that is a multiple of 64.  A plane of
 *  images of one size is their pixels, row by row without gaps.  Where images differ in size at the share
 *  point (it stands behind decode with max_pixels, or behind a resize with max_size), a plane begins with its
 *  plan_size_t, the pixels follow at PLAN_HEADER_BYTES, and room is reserved for the largest.
 *
 *  A file that is no image is one plane, whatever the views are (of boxes as many as an image has): its
 *  bytes as they go into the batch; a ragged one begins with how many rows there are, in PLAN_COUNT_BYTES.
 *  Without images sizes are 0 and the format means nothing.
 *
 *  Only for files of decode/.
 */
#ifndef PLAN_H
#define PLAN_H
#include "finish.h"
#include "operation.h"
#include "pipeline.h"

enum { PLAN_HEADER_BYTES = 64, PLAN_COUNT_BYTES = 8 };

typedef struct {
    uint32_t height;
    uint32_t width;
} plan_size_t;

typedef struct {
    size_t file;                    //  which of pipeline_files
    size_t output;                  //  which one is made of it; of a ragged file also the one behind that
    const decode_tensor_t *tensor;  //  NULL: an image
    uint32_t view;
    bool is_mask;
    uint32_t channels;              //  in the version: 1 of a mask, IMAGE_WIDE of one of 16 bits, else
                                    //  IMAGE_COLOURS
    size_t offset;                  //  in the version
    size_t bytes;                   //  there, header included
} plan_plane_t;

typedef struct plan {
    const operation_t *operations;  //  the canonical list: decode first, no mark
    size_t count;
    size_t shared_count;            //  of them in the shared stage; at least 1
    size_t views_at;                //  index of OPERATION_VIEWS; count: there is none
    uint32_t views;                 //  1 without one
    bool stacks;                    //  the views of an image field are one output, the one behind the other
    //  Planes of the version: of the images, fields x views where OPERATION_VIEWS is in the shared stage,
    //  else the fields; then of the other files, boxes likewise.
    plan_plane_t planes [PIPELINE_OUTPUTS_MAX];
    size_t plane_count;
    //  The size of all images at the share point; 0: they differ, and planes have headers.
    plan_size_t shared_size;
    //  Images: what the private stage ends in.  Masks: always uint8 or uint16, one value a pixel, no
    //  normalising.
    plan_size_t output_size;
    finish_format_t format;
} plan_t;

//  How a pipeline comes to its plan, in this order; each with a complaint where a list cannot be.

//  What is known of the images behind an operation, before any is seen.
typedef struct {
    plan_size_t size;               //  of all; 0: they differ
    uint64_t pixels_max;            //  where they differ: no image has more; 0: no bound
    uint64_t side_max;              //  the same for a side; 0: no bound
} plan_images_t;

//  Finds images [index] behind each operation of the list, which has a decode of images first.
int plan_follow (const operation_t *operations, size_t count, plan_images_t *images,
    const complaint_t *complaint);
//  Sets all of *self for a share point behind shared_count operations, but its format's table.
int plan_make (plan_t *self, const operation_t *operations, size_t count, size_t shared_count,
    const plan_images_t *images, const complaint_t *complaint);
//  Of the whole version.
size_t plan_version_bytes (const plan_t *self);
//  How many outputs a list has.
size_t plan_count_outputs (const decode_request_t *decode, uint32_t views);
//  Describes the outputs and returns how many; *bytes_p: of all together.
size_t plan_outputs (const plan_t *self, const pipeline_source_t *source,
    pipeline_output_t outputs [PIPELINE_OUTPUTS_MAX], size_t *bytes_p);

//  How much processor time the operations take for a sample, of each field and view, foreseen before any is
//  seen.  An operation costs a number of nanoseconds for each pixel that it reads, and for each that it
//  makes: no less than bench/speed/operation_costs measures on a processor of 2022.  What chance leaves out
//  counts as if it were done; of a random_choice its costliest part counts.  A picture of which only the data
//  know the size counts as one of PLAN_USUAL_PIXELS: a larger one costs in proportion, which is the data's
//  doing.  So is decoding, and operations of the operator's own are the operator's: they count nothing.
enum { PLAN_USUAL_PIXELS = 1 << 20 };
typedef struct {
    double shared_ms;
    double private_ms;
    size_t costliest;               //  in the list; of equal ones the first
    double costliest_ms;
} plan_cost_t;

//  images: plan_follow's.
plan_cost_t plan_foresee (const plan_t *self, const plan_images_t *images);

#endif
