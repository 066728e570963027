/*  remote_pipelines -- the shared stages that workers on other machines know by number.
 *
 *  A pipeline is sent to a worker once, before its first task, and then named by its number.  Both sides keep
 *  the last WIRE_WORK_PIPELINES_MAX.  A worker sees the shared stage alone: no private stage and no job.
 *  Owner: the broker's thread.
 */
#ifndef REMOTE_PIPELINES_H
#define REMOTE_PIPELINES_H
#include <stdint.h>
#include "catalogue.h"
#include "pipeline.h"
#include "wire.h"

typedef struct {
    uint32_t number;                    //  from 1 on; 0: the place is free
    const pipeline_t *pipeline;         //  one reference, so that its address is not another one's
    const catalogue_t *catalogue;       //  its fields
} remote_pipeline_t;

//  Plain data; begins as all zero.
typedef struct {
    remote_pipeline_t all [WIRE_WORK_PIPELINES_MAX];
    uint32_t last;                      //  number
} remote_pipelines_t;

//  The pipeline's entry, made if there is none.  Lent until the next call.
const remote_pipeline_t *remote_pipelines_find (remote_pipelines_t *self, const pipeline_t *pipeline,
    const catalogue_t *catalogue);
//  WORK_PIPELINE's text; malloc'ed.
char *remote_pipelines_text (const remote_pipeline_t *entry);
void remote_pipelines_clear (remote_pipelines_t *self);

#endif
