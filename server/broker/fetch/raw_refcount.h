/*  raw_refcount -- holds on single compressed samples: which versions and jobs have one now, and which
 *  tenant's part of the memory pays for it.
 */
#ifndef RAW_REFCOUNT_H
#define RAW_REFCOUNT_H
#include "broker.h"
#include "dataset.h"

//  The lane of the tenant's reads in the raw store; NULL: that of the data sets' tiers.
uint32_t raw_refcount_lane (const broker_t *self, const tenant_t *tenant);
//  A row of the tenant waits for the version, of a pack: the version takes hold of its bytes, and they come
//  by the tenant's lane unless another brings them first.  True: they are there.
bool raw_refcount_want (broker_t *self, const tenant_t *tenant, version_t *version);
//  The version needs the bytes no more.  Idempotent.
void raw_refcount_release (broker_t *self, version_t *version);
//  Adds a hold on the sample, and returns it.
raw_sample_t *raw_refcount_take (broker_t *self, const dataset_t *dataset, uint32_t id);
//  Gives back one hold.
void raw_refcount_let_go (broker_t *self, const dataset_t *dataset, raw_sample_t *sample);
//  Orders a read of a new sample by itself.
void raw_refcount_read_alone (broker_t *self, uint32_t lane, const dataset_t *dataset, raw_sample_t *sample);
//  The version, which holds no bytes, takes hold of these.
void raw_refcount_attach (broker_t *self, version_t *version, raw_sample_t *sample);
//  Each row that waits for bytes has a place in its tenant's lane.
void raw_refcount_check (const broker_t *self);

#endif
