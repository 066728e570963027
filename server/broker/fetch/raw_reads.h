/*  raw_reads -- what draws take of a pack's compressed samples, and when their reads are handed out.  */
#ifndef RAW_READS_H
#define RAW_READS_H
#include "broker.h"
#include "dataset.h"

//  Inside an offer to these jobs: the id to commit.
uint32_t raw_reads_pick (job_t *const *jobs, consumer_t **consumers, size_t count);
//  The sampler has committed the id, and these versions serve the jobs: new ones take hold of the sample's
//  bytes.
void raw_reads_drawn (broker_t *self, job_t *job, uint32_t id, version_t *const *versions, size_t count);
//  Hands out reads.  False: the first in line waits for memory.
bool raw_reads_dispatch (broker_t *self);

#endif
