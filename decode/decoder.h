/*  decoder -- runs the shared stage of a pipeline on one compressed sample.
 *
 *  Untrusted bytes: whatever they are, the answer is a version or a reason, in bounded time and memory
 *  (at most DECODER_PIXELS_MAX pixels, DECODER_SCANS_MAX progressive scans), and never an abort.
 *  Owner: one thread; make one per worker.  Buffers are kept from sample to sample.
 */
#ifndef DECODER_H
#define DECODER_H
#include <stddef.h>
#include <stdint.h>
#include "pipeline.h"

typedef struct decoder decoder_t;

typedef enum {
    DECODER_OK,
    DECODER_BAD,                //  the sample, not the server, is at fault: the reason is in error
    DECODER_NO_MEMORY           //  the server's trouble: the same call may go well later
} decoder_status_t;

enum { DECODER_PIXELS_MAX = 100 * 1000 * 1000, DECODER_SCANS_MAX = 100 };

//  NULL with errno ENOMEM.
decoder_t *decoder_new (void);
void decoder_destroy (decoder_t **self_p);

//  Decodes bytes [0, size) and writes a version of pipeline_version_bytes to version.  Else
//  version's content is undefined and error (error_bytes > 0, always ended) says why, for people.
decoder_status_t decoder_run (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const uint8_t *bytes, size_t size, uint8_t *version, char *error, size_t error_bytes);

#endif
