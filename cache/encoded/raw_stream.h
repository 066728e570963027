/*  raw_stream -- the raw pool's policy `stream`: every piece of the pack once a pass, in random order.
 *
 *  A *pass* takes the positions as a ring, cuts it at a random place and from there on every `piece` samples,
 *  and looks at each piece once, in uniformly random order, drawn one by one.  So no sample is nearer to an
 *  edge than others.  Looking at a piece makes its needed samples resident that are not: one read from the
 *  first to the last of them, or several if a break or the pack's end lies in between.  A resident sample
 *  that is needed now and by a next epoch is marked to stay *again* when it is taken, because this pass does
 *  not come back.  When all pieces have been looked at, the next pass begins.
 *
 *  Room is counted in samples, not in bytes: otherwise a large sample in memory would leave room for fewer
 *  others and be drawn sooner.  The count is such that the samples stay below the limit almost surely
 *  (raw_pool_capacity), beside a piece of the largest ones.  If they do not, a piece waits for room in bytes:
 *  memory never exceeds the limit.
 *
 *  Ramp.  The limit is not used at once: otherwise a job's first batch, drawn uniformly from the residents,
 *  would wait until gigabytes are read.  At first there is room for RAMP_PIECES pieces, and for one sample
 *  more with each draw, so that two are read for one drawn, until memory is full.  The ramp starts again when
 *  no sample is resident and none to be read, and continues when the limit is raised.
 *
 *  Hold.  If all samples fit below the limit, none leaves when it is taken, nor by a sweep while any is
 *  needed: data that fit in memory are read once.  Then the ramp grows by two samples a draw, because takes
 *  make no room.
 *
 *  Samples of slow jobs are not evicted for others: they would be read again, and nearly as many would come
 *  back with each piece (two jobs on disjoint data, one of them stopped: every second sample of a piece is
 *  its own).  `need`, which knows the jobs, decides which job gets less.
 *
 *  Cost.  Looking at a piece asks `need` of its samples.  A call of raw_pool_next looks at no more than LOOKS
 *  pieces in vain (LOOKS_FEW while less is resident than RAMP_PIECES pieces, LOOKS_STARVING while nothing
 *  is), so a draw costs some hundreds of look-ups if jobs need hardly any samples, at most some thousands,
 *  and otherwise those of one piece.  So memory is filled for jobs that need 1 % of a pack or more; from 0.1
 *  % on there are some RAMP_PIECES pieces to draw from, below that often only the last one found.  After a
 *  pass that found nothing, while no need grew, the next begins when a need grows.  A pass's begin clears a
 *  bit a sample.  Memory: 4 bytes a piece, two bits a sample.
 *
 *  Owner: the broker's thread.
 */
#ifndef RAW_STREAM_H
#define RAW_STREAM_H
#include "raw_pool.h"

extern const raw_policy_ops_t raw_stream_ops;

#endif
