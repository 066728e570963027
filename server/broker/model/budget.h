//  budget -- how many tasks of workers and reads of packs are handed out at once, and the memory for them.
#ifndef BUDGET_H
#define BUDGET_H
#include "broker.h"
#include "pipeline.h"

//  Tasks (PREPARE and COPY) that are handed out at once, at most; and reads (0: no data set is a pack).
size_t budget_tasks_max (const broker_t *self);
size_t budget_reads_max (const broker_t *self);
//  The same if all processors are lent that may be, and whatever data sets are added after the first turn.
size_t budget_tasks_most (const broker_t *self);
size_t budget_reads_most (const broker_t *self);
//  So many processors of other machines prepare beside the workers from now on, at most BROKER_LENT_MAX: more
//  versions are handed out at once.
enum { BROKER_LENT_MAX = 128 };
void budget_lend (broker_t *self, uint32_t processors);
//  As the options say.
uint32_t budget_job_cost_ms (const broker_t *self);
//  What a version of this size costs of the cache's budget: its size, but not less than its bookkeeping.
size_t budget_version_cost (size_t version_bytes);
//  One part in so many of the memory for compressed samples (--raw) is for ranges on their way from the disk;
//  the rest is raw_bytes.  And the inverse: the --raw that gives so many raw_bytes.
enum { BROKER_RAW_PARTS = 8 };
size_t budget_raw_setting (size_t raw_bytes);
//  The least --raw for a pack: sample_bytes of its largest sample, `together` of which are read at once.
size_t budget_raw_least (size_t sample_bytes, uint32_t together);
//  The least cache_bytes with which versions of this size can be prepared.  hands: budget_hands.
size_t budget_cache_least (uint32_t hands, size_t version_bytes);
//  Versions with one operation of the operator's own that are handed out at once, at most.  They take no
//  worker and count apart, so that an operation that hangs holds up its own jobs alone.
uint32_t budget_custom_max (uint32_t workers);
//  A task is slow if its stage of the pipeline takes longer than this for a sample, as foreseen (pipeline.h).
//  Slow tasks have threads of their own, as many as there are workers, so that the operating system divides
//  the processors between them and the workers.  As many are handed out as this says of workers and lent
//  processors together; while other tenants wait, a tenant has at most its share of one for each.
enum { BROKER_SLOW_MS = 100 };
uint32_t budget_slow_max (uint32_t processors);
//  Whether preparing a version, or copying it to a batch, is slow.  A version with an operation of the
//  operator's own is not: that operation has other threads.
bool budget_prepares_slowly (const pipeline_t *pipeline);
bool budget_copies_slowly (const pipeline_t *pipeline);
//  What may have a version outside the cache's index at once: the workers, and the tasks of so many
//  operations.
uint32_t budget_hands (uint32_t workers, uint32_t customs);

//  For the broker alone.
//  Data sets, tenants or lent processors have changed.
void budget_measure (broker_t *self);
//  So many data sets have all the tasks and reads in flight that one may have; with more, each has this part.
size_t budget_full_datasets (const broker_t *self);
size_t budget_part (const broker_t *self, size_t whole);
//  prepare_max while so many processors are lent.
size_t budget_prepare_max (const broker_t *self, uint32_t lent);
//  Versions that workers have or wait for, with their files read.
size_t budget_with_workers (const broker_t *self);

#endif
