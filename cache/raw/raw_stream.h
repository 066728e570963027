/*  raw_stream -- the raw pool's policy `stream`: every piece of the pack once a pass, in random order.
 *
 *  A *pass* takes the positions as a ring, cuts it at a random place and from there on every `piece` samples,
 *  and looks at each piece once, in uniformly random order, drawn one by one.  So no sample is nearer to an
 *  edge than others, and all are alike.  Looking at a piece: its needed samples that are not resident become
 *  so; if there are any, that is a read, from the first to the last of them; or several, where a break or the
 *  pack's end lies in between.  A resident sample that is needed now and by a next epoch as well is marked to
 *  stay *again* when it is taken, because this pass does not come back.  When all pieces have been looked at,
 *  the next pass begins.
 *
 *  Room is counted in samples, not in bytes: else a large sample in memory would leave room for fewer others
 *  and be drawn sooner.  As many fit as sum up to the limit, all but surely (raw_pool_capacity), beside a
 *  piece of the largest ones; and where they do not sum up, a piece waits for that room in bytes: memory is
 *  never above the limit.
 *
 *  Ramp.  The limit is not used at once: else a job's first batch, drawn uniformly from what is resident,
 *  would wait for gigabytes to be read in front of it.  There is room for RAMP_PIECES pieces at first, and
 *  for one sample more with each draw, so that two are read for one drawn, until memory is full.  It begins
 *  anew when nothing is resident and nothing to be read, and goes on where it stands when the limit is
 *  raised.
 *
 *  Hold.  Where all samples fit below the limit, none leaves when it is taken, nor by a sweep while any is
 *  needed: data that fit in memory are read once.  The ramp grows by two samples a draw then, as takes make
 *  no room.
 *
 *  What slow jobs leave behind is not given up for others: that would be read again, and nearly as much would
 *  come back with each piece (two jobs on disjoint data, one of them standing still: every second sample of a
 *  piece is its own).
 *  Who should have less is `need`'s to say, which knows the jobs.
 *
 *  Cost.  Looking at a piece asks `need` of its samples.  A call of raw_pool_next looks at no more than LOOKS
 *  pieces in vain (LOOKS_FEW while less is resident than RAMP_PIECES pieces, LOOKS_STARVING while nothing
 *  is), so a draw costs some hundreds of look-ups where nearly nobody needs anything, at most some thousands,
 *  and one piece's else.  Memory is thus filled for jobs that need 1 % of a pack or more; from 0.1 % on some
 *  RAMP_PIECES pieces are there to draw from, below that often the last one found alone.  A pass that found
 *  nothing, while no need grew, is the last until one does.  A pass's begin clears a bit a sample.  Memory: 4
 *  bytes a piece, two bits a sample.
 *
 *  Owner: the broker's thread.
 */
#ifndef RAW_STREAM_H
#define RAW_STREAM_H
#include "raw_pool_state.h"

//  raw_stream_ops in raw_pool_state.h is all that others see.

#endif
