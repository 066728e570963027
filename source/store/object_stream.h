/*  object_stream -- an object of a store from its begin to its end, with ranges on their way ahead of the
 *  reader.
 *
 *  happy path:     object_stream_open .. object_stream_next until 0 .. object_stream_destroy
 *                  OBJECT_STREAM_PARTS ranges of OBJECT_STREAM_PART_BYTES are on their way at once; bytes
 *                  are lent in their order as soon as they are there.  They come while the reader is at work,
 *                  too, as far as the kernel's buffers hold them.
 *  failure modes:  ranges that fail in a way that may pass go on where they broke off, after one pause, for
 *                  patience_ms from the first failure behind the last range that came.  Then, and where it
 *                  cannot pass, object_stream_next returns its -errno.  Keys that are refused are no end if
 *                  the store finds others (store_has_other_keys), once behind each range that came.
 *                  -EREMCHG: the object has another version now, or another size.
 *  on close:       ranges on their way are dropped.
 *
 *  Owner: one thread; blocks for as long as the store does.
 */
#ifndef OBJECT_STREAM_H
#define OBJECT_STREAM_H
#include <sys/types.h>
#include "store.h"

enum { OBJECT_STREAM_PARTS = 8, OBJECT_STREAM_PART_BYTES = 4 << 20 };

typedef struct object_stream object_stream_t;

typedef struct {
    store_t *store;
    const char *url;
    const char *version;                //  the ETag that it must have; "": any
    uint64_t bytes;                     //  of the whole object, which it must have; > 0
    store_persistence_t how;            //  takes_long is taken for true
} object_stream_options_t;

//  Options are copied, what they point to is lent.  0, or -ENOMEM and *self_p NULL.
int object_stream_open (object_stream_t **self_p, const object_stream_options_t *options);
void object_stream_destroy (object_stream_t **self_p);

//  > 0: so many bytes at *bytes_p, lent until the next call; 0: that was the end; or -errno (transfers.h),
//  and -ECANCELED.
ssize_t object_stream_next (object_stream_t *self, const uint8_t **bytes_p);
//  The range that failed, for store_explain_address; NULL: none has.
const transfer_t *object_stream_failed (const object_stream_t *self);

#endif
