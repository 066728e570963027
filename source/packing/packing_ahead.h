/*  packing_ahead -- the samples of a source in its order, each with where the rows of its JPEG begin.
 *
 *  To find that in a photograph takes half a millisecond, longer than to read it from a fast disk.  So
 *  threads find it in samples that are read ahead: in copies of them, as long as they are less than bytes_max
 *  together.  Without threads the caller's thread finds it, sample by sample.
 *  Owner: one thread; blocks for as long as disks do, and the threads.
 */
#ifndef PACKING_AHEAD_H
#define PACKING_AHEAD_H
#include "packing.h"

typedef struct packing_ahead packing_ahead_t;

//  how and source are lent.  NULL: no memory, or no thread can be started.
packing_ahead_t *packing_ahead_new (pack_source_t *source, const packing_rows_t *how, uint64_t bytes_max);
void packing_ahead_destroy (packing_ahead_t **self_p);
//  As pack_source_next, and the rows, lent as long as the item; 0 bytes: not known.  -ENOMEM without a
//  sentence.
int packing_ahead_next (packing_ahead_t *self, pack_item_t *item, const uint8_t **rows_p,
    size_t *rows_bytes_p, char *error);

#endif
