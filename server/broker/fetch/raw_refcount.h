/*  raw_refcount -- which versions and jobs hold compressed samples, and on which tenant's account.  */
#ifndef RAW_REFCOUNT_H
#define RAW_REFCOUNT_H
#include "broker_state.h"

//  Somebody of the tenant waits for the version, which is not prepared: it gets hold of its bytes, if it has
//  not, and they come by the tenant's lane if not before.  True: they are there, or the data set is no pack.
bool raw_prefetch_want (broker_t *self, const tenant_t *tenant, version_t *version);
//  It needs the bytes no more.  Idempotent.
void raw_prefetch_release (broker_t *self, version_t *version);
//  The sample, held once more.
raw_sample_t *raw_refcount_take (broker_t *self, const dataset_t *dataset, uint32_t id);
//  One hold less, of somebody who has forgotten it already.
void raw_refcount_let_go (broker_t *self, const dataset_t *dataset, raw_sample_t *sample);
//  It is new: a read of it alone.
void raw_refcount_read_alone (broker_t *self, uint32_t lane, const dataset_t *dataset, raw_sample_t *sample);
//  The version, which has no bytes, gets hold of these.
void raw_refcount_attach (broker_t *self, version_t *version, raw_sample_t *sample);

#endif
