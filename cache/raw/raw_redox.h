/*  raw_redox -- the raw pool's policy `redox`: file redirection as published (Redox, sections 3.2 to 3.4).
 *
 *  The positions are cut into C chunks of K samples; chunk c belongs to virtual chunk c * M / C.  A virtual
 *  chunk has K slots, one for each offset; a slot holds one sample of that offset, of any of its chunks.  A
 *  draw of a sample comes to its slot: what is in it is what the draw gets.  Where it is empty, the chunk is
 *  loaded that fills most empty slots with samples that are not consumed, among those with such a sample at
 *  this offset; ties at random.  What is drawn empties its slot and is consumed for the epoch.
 *
 *      virtual chunk 0:  slot 0   slot 1   ..   slot K-1
 *                        c0 c2    c1       ..   -            each names the chunk whose sample it holds
 *
 *  A chunk that lacks samples (the pack's last one, or one with dropped samples) shares no slots: a draw of
 *  one of its samples gets that sample.  It fills fewer slots and fewer draws come to it, so in slots its
 *  samples came late in every epoch: 1,000 samples in chunks of 64 had a mean place of .68 for the last
 *  chunk's 40, of .88 for 5 of 6,405 (.5 is a shuffle).  To count what is missing as wanted is not enough:
 *  .52 and .60, and .66 for 5 of 965.
 *
 *  Consumed is what no job needs in its present epoch; so with one job it is what is published, and with
 *  several a sample that one job has drawn may be loaded for another.  What a slot holds and the drawing job
 *  may not have, it does not get: that draw reads by itself.  A next epoch's needs play no part: slots are
 *  empty at a lone job's end of an epoch.
 *
 *  The bits of consumed samples are a word for each chunk, kept up to date by draws, and asked for anew, when
 *  first looked at, after needs_grew or a sweep: so an epoch's begin costs nothing, and an epoch one look-up
 *  for each sample.
 *
 *  Room: a slot is filled while one more of the largest samples fits below the limit.  M is given, or such
 *  that all slots can be full below the limit, all but surely (raw_pool_capacity): then sizes play no part in
 *  what is drawn.
 *
 *  Owner: the broker's thread.
 */
#ifndef RAW_REDOX_H
#define RAW_REDOX_H
#include "raw_pool_state.h"

//  raw_redox_ops in raw_pool_state.h is all that others see.

#endif
