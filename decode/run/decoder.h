/*  decoder -- runs the two stages of a pipeline on samples: compressed bytes to a version, a version to a
 *  job's batch.
 *
 *  Untrusted bytes: whatever they are, the answer is a version or a reason, in bounded time and memory
 *  (at most DECODER_PIXELS_MAX pixels, DECODER_SCANS_MAX progressive scans), and never an abort.
 *  Owner: one thread; make one per worker.  Buffers are kept from sample to sample.
 */
#ifndef DECODER_H
#define DECODER_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "decode_request.h"
#include "pipeline.h"

typedef struct decoder decoder_t;

typedef enum {
    DECODER_OK,
    DECODER_BAD,                //  the sample is at fault: unreadable, whatever the pipeline
    DECODER_UNSUITABLE,         //  the pipeline is: the sample is whole, as far as it was looked at, but not
                                //  what this one declares or can do; another may well read it
    DECODER_NO_MEMORY,          //  the server's trouble: the same call may go well later
    DECODER_ABANDONED           //  decoder_watch's flag was set meanwhile
} decoder_status_t;

//  All of an image, as its file is read, before any operation; rows without gaps.
enum { DECODER_PICTURE_SLACK = 64 };
typedef struct {
    const uint8_t *pixels;      //  so many bytes behind them can be read too
    uint32_t height;
    uint32_t width;
    uint32_t channels;
    bool is_clipped;            //  decoder_clipped of its sample
} decoder_picture_t;

//  One file of a sample, lent for the call.
typedef struct {
    const uint8_t *bytes;
    size_t size;
    const decoder_picture_t *picture;   //  of decoder_picture_kind: it was decoded before, and its bytes are
                                        //  not looked at; NULL: it was not
    const uint8_t *rows;        //  of a JPEG: what image_reader_rows gave of it; lent
    size_t rows_bytes;          //  0: not known
} decoder_file_t;

//  A sample: pipeline_files of them, in that order.
typedef struct {
    const decoder_file_t *files;
    uint32_t warnings_max;      //  libjpeg warnings beyond which it is bad; UINT32_MAX: none are too many
    //  Asked for each file that is decoded, of decoder_picture_kind: memory for all of its pixels, which are
    //  there when decoder_shared has gone well; or NULL, and only what is needed is decoded.  picture has no
    //  pixels.  NULL: not asked.
    uint8_t *(*room) (void *context, size_t file, const decoder_picture_t *picture);
    void *context;
} decoder_sample_t;

//  NULL with errno ENOMEM.
decoder_t *decoder_new (void);
void decoder_destroy (decoder_t **self_p);

//  Of the buffers that it keeps from one sample to the next, about: those for pixels.
size_t decoder_kept_bytes (const decoder_t *self);

//  From now on a stage is left, between two operations or views, when another thread has set *abandoned: no
//  job wants its result any more.  An operation of the operator's own is ended.  Lent until the next call;
//  NULL: stages are run to their end.
void decoder_watch (decoder_t *self, const atomic_bool *abandoned);

//  The shared stage: writes a version of pipeline_version_bytes, aligned to 64, to version.  Else version's
//  content is undefined, *file_p (unless file_p is NULL) is the index of the file at fault, and error
//  (error_bytes > 0, always ended) says why, for people.  If there are several faults, the first one found
//  counts.
decoder_status_t decoder_shared (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char *error, size_t error_bytes);

//  How a file is read: pipelines of the same kind, below DECODER_PICTURE_KINDS, read the same picture of it,
//  and make of that, bit for bit, what they make of its bytes.  DECODER_NO_PICTURE: it is no image, or it is
//  decoded at a scale that depends on the crop.
enum { DECODER_PICTURE_KINDS = 8, DECODER_NO_PICTURE = DECODER_PICTURE_KINDS };
uint32_t decoder_picture_kind (const pipeline_t *pipeline, size_t file);

//  After decoder_shared that went well: image_reader_learned of the first file; 0 bytes where the pipeline
//  makes no images, or the first file came as a picture.
size_t decoder_learned (decoder_t *self, const uint8_t **rows_p);

//  After decoder_shared that went well: whether the sample's own image has 16 bits of grey, of which values
//  above 255 became 255 (image_reader_clips).
bool decoder_clipped (const decoder_t *self);

//  Processor time that processes of the operator's took for this decoder since it was asked last.
uint64_t decoder_custom_ns (decoder_t *self);

//  The size of a sample's images, all of them, as the shared stage would begin with it: the first one's
//  header is read, nothing decoded.  Both 0 where the pipeline makes no images.  Else as decoder_shared.
decoder_status_t decoder_size (decoder_t *self, const pipeline_t *pipeline, const decoder_sample_t *sample,
    uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes);

//  The private stage: reads a version and writes each output to its target (pipeline_outputs of them).
//  Nothing overlaps.
//  False: no memory, and the same call may go well later; or it was abandoned.  The targets' content is
//  undefined then.
bool decoder_private (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const uint8_t *version, uint8_t *const *targets) __attribute__ ((warn_unused_result));

//  Whether what version says of itself, the sizes of images and the numbers of rows, can be: another machine
//  may have made it.  decoder_private believes it.
bool decoder_is_version (const pipeline_t *pipeline, const uint8_t *version);

//  Whether JPEGs are read by jpeg_entropy.h here; else by libjpeg alone, or memory was short.  Tries it out.
bool decoder_has_entropy (void);

//  "JPEG, PNG, WebP, TIFF, raw bytes, NumPy .npy, audio (WAV, ...)": what this build reads; static.
const char *decoder_formats (void);

//  ---- what it does to a sample, in words (describe.c)

//  What chance chooses for each operation, and what follows from the sample's size.  Nothing is decoded: the
//  same functions that say it to a stage (geometry.h, stage_random) say it here.  Pure functions of what they
//  are given; any thread.

typedef struct {
    pipeline_key_t shared_key, private_key;     //  of the two stages
    uint32_t height, width;                     //  of the sample's images (decoder_size)
} decoder_described_t;

//  An array, one object for each operation of the list, in each view that it is done for, on each field that
//  it is done on:
//      {"op": "flip", "field": "image", "view": 0, "stage": "private", "parameters": {"flipped": true}}
//  docs/protocol.md (EXPLAIN) has the parameters.  At most PIPELINE_OPERATIONS_MAX x PIPELINE_OUTPUTS_MAX.
//  The caller's; or NULL where an operation cannot be done on images of this size, and error (of error_bytes
//  > 0) says which.
json_t *decoder_describe (const pipeline_t *pipeline, const decoder_described_t *sample, char *error,
    size_t error_bytes);

//  ---- a thread of a pool with a decoder (decoder_worker.c)

typedef struct {
    decoder_t *decoder;
    uint64_t charged_ns;            //  processor time of the thread that was charged to tasks: one look at
                                    //  the clock for each, since that takes 0.6 us (measured) and a copy 15;
                                    //  what lies between is the later one's
} decoder_worker_t;

//  The context of a pool's thread (pool.h), a decoder_worker_t; NULL: no memory.
void *decoder_worker_new (void);
void decoder_worker_destroy (void *worker);
//  Behind each task: its processor time, of the thread and of an operation of the operator's own.
uint64_t decoder_worker_charge (decoder_worker_t *self);
//  What one large sample needed is given back: it would stay for all the small ones behind it.
void decoder_worker_renew (decoder_worker_t *self);

#endif
