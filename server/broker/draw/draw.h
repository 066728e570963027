/*  draw -- rounds of draws, epochs, and the rows that draws fill.
 *
 *  Which sample is next is decided in one draw, for the jobs of one offer:
 *      sampler_offer           which jobs draw together, and of which ids (sampler.h)
 *      sampler_pick            the id; of a pack's jobs that have a tier, tier_pick (tier.h)
 *      version_index_draw      commits it, and finds or schedules the version that serves each job
 *      s_take_bytes            of a pack: takes hold of the sample's bytes, or orders their read
 *      dispatch_await          each job's next row waits for its version
 *  Owner: the broker's thread.
 */
#ifndef DRAW_H
#define DRAW_H
#include "broker.h"
#include "dataset.h"

//  All ranks of the job are there for the first time: it runs, and begins together with jobs that are started
//  at the same time.
void draw_start (broker_t *self, job_t *job, int64_t now_ms);
//  Runs the rounds that are due in every group.
void draw_rounds (broker_t *self, int64_t now_ms);
//  The row's sample cannot be read: the row gets another sample, or becomes a hole.
void draw_again (broker_t *self, batch_row_t *row);
//  Closes epochs that an unreadable sample has emptied.
void draw_settle (broker_t *self, dataset_t *dataset);
//  All ranks are present and lack no step: resumes draws, unless the epoch has nothing left to draw.
void draw_go_on (broker_t *self, job_t *job);
//  Frees the slot for new draws.
void draw_release (job_t *job, uint32_t slot);
//  Whether the job keeps its order, with holes for unreadable samples: a list, or a seeded order.
bool draw_keeps_order (const job_t *job);
//  A version for the row's sample, which the job has drawn before.
version_t *draw_serve (broker_t *self, batch_row_t *row);
//  A rank is lost: its unsent rows stop waiting.  A rank is back: they wait for their samples again.
void draw_lose (broker_t *self, rank_t *rank);
void draw_revive (broker_t *self, rank_t *rank);

#endif
