/*  reusable_versions_log -- what a sampler was told of its reusable set, and of merges of its strata, written
 *  down on the way.
 *
 *  For tests that are linked with --wrap of sampler_reusable_add, sampler_reusable_remove, sampler_allow,
 *  sampler_forbid and sampler_on_merge; what is said goes through.  One log for the process, of the main
 *  thread.
 */
#ifndef REUSABLE_VERSIONS_LOG_H
#define REUSABLE_VERSIONS_LOG_H
#include <stddef.h>
#include <stdint.h>
#include "sampler.h"

typedef struct {
    const sampler_t *sampler;
    uint64_t ticket;
    uint32_t id;
    uint64_t allowed [SAMPLER_JOBS_MAX / 64];
} told_t;

//  Nothing was told.
void reusable_log_clear (void);
//  Of a version on a reusable set now; fails if the ticket names none.  How many there are.
told_t *reusable_told (const sampler_t *sampler, uint64_t ticket);
size_t reusable_count (void);
//  Samplers that have merged strata since the last call of reusable_merges_clear, each once.
size_t reusable_merges (void);
const sampler_t *reusable_merged (size_t merge);
void reusable_merges_clear (void);

#endif
