/*  sampler_passes -- of a sampler's jobs under `follow`: which draw along common passes (passes.h), and where
 *  they are.
 *
 *  A job that follows may turn to passes when its epoch begins.  Owner: the sampler's thread.
 */
#ifndef SAMPLER_PASSES_H
#define SAMPLER_PASSES_H
#include <stdbool.h>
#include <stdint.h>
#include "passes.h"
#include "sampler.h"

bool sampler_passes_has (const sampler_t *self, uint32_t job);
//  Whether jobs may turn to passes from now on, those without room for strata at once; true at first.  Over
//  a raw tier they may not: it redirects the draws of its jobs.  Those on passes leave them when their next
//  epochs begin, and draw apart.
void sampler_passes_allow (sampler_t *self, bool may);
//  Where in the passes the job's last draw was; PASSES_NO_PLACE: nowhere, and for a job without passes.
uint64_t sampler_passes_place (const sampler_t *self, uint32_t job);
//  Whether the job needs id and, if it draws along passes, has not come past that place.
bool sampler_passes_comes (const sampler_t *self, uint32_t job, uint32_t id, uint64_t place);
//  As passes_on_skip; of a job without passes nothing is told.  Called inside sampler_pick.
void sampler_passes_on_skip (sampler_t *self, uint32_t job,
    void (*skip) (void *context, uint32_t id, int change), void *context);

#endif
