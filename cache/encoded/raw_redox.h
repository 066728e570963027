/*  raw_redox -- the raw pool's policy `redox`: file redirection as published (Redox, sections 3.2 to 3.4).
 *
 *  The positions are cut into C chunks of K samples; chunk c belongs to virtual chunk c * M / C.  A virtual
 *  chunk has K slots, one for each offset; a slot holds one sample of that offset, of any of its chunks.  A
 *  draw of a sample gets the sample in its slot.  If the slot is empty, redox first loads a chunk: of those
 *  with an unconsumed sample at this offset, the one that fills the most empty slots with unconsumed samples,
 *  ties at random.  The drawn sample leaves its slot and is consumed for the epoch.
 *
 *      virtual chunk 0:  slot 0   slot 1   ..   slot K-1
 *                        c0 c2    c1       ..   -            each slot names the chunk of its sample
 *
 *  A chunk that lacks samples (the pack's last one, or one with dropped samples) shares no slots: a draw of
 *  one of its samples gets that sample.  In slots, such a chunk would fill fewer of them and get fewer draws,
 *  so its samples would come late in every epoch: 1,000 samples in chunks of 64 had a mean place of .68 for
 *  the last chunk's 40, of .88 for 5 of 6,405 (.5 is a shuffle).  Counting the missing samples as wanted is
 *  not enough: .52 and .60, and .66 for 5 of 965.
 *
 *  A sample is consumed when no job needs it in its present epoch.  So one job gets the published protocol,
 *  and with several a sample that one job has drawn may be loaded for another.  If the drawing job may not
 *  have its slot's sample, that draw reads by itself.  A next epoch's needs do not count: a lone job's slots
 *  are empty at the end of an epoch.
 *
 *  The bits of consumed samples are a word for each chunk.  Draws update them; after needs_grew or a sweep
 *  they are computed again at their first use.  So an epoch's begin costs nothing, and an epoch one look-up
 *  for each sample.
 *
 *  Room: a slot is filled while one more of the largest samples fits below the limit.  M is given, or chosen
 *  so that all slots fit below the limit almost surely (raw_pool_capacity): then sizes do not affect draws.
 *
 *  Owner: the broker's thread.
 */
#ifndef RAW_REDOX_H
#define RAW_REDOX_H
#include "raw_pool.h"

extern const raw_policy_ops_t raw_redox_ops;

#endif
