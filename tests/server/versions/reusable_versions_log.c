#include "reusable_versions_log.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <inttypes.h>

enum { REUSABLE_MAX = 1000, SAMPLERS_MAX = 8 };

typedef struct {
    told_t told [REUSABLE_MAX];
    size_t count;
} reusable_log_t;

static reusable_log_t s_log;

uint64_t __real_sampler_reusable_add (sampler_t *self, uint32_t id);
void __real_sampler_reusable_remove (sampler_t *self, uint64_t ticket);
void __real_sampler_allow (sampler_t *self, uint64_t ticket, uint32_t job);
void __real_sampler_forbid (sampler_t *self, uint64_t ticket, uint32_t job);
uint64_t __wrap_sampler_reusable_add (sampler_t *self, uint32_t id);
void __wrap_sampler_reusable_remove (sampler_t *self, uint64_t ticket);
void __wrap_sampler_allow (sampler_t *self, uint64_t ticket, uint32_t job);
void __wrap_sampler_forbid (sampler_t *self, uint64_t ticket, uint32_t job);

//  Merges are passed on to the version index, and written down.
typedef struct {
    void (*merging) (void *context, sampler_t *sampler);
    void *context;
    const sampler_t *merged [SAMPLERS_MAX];
    size_t count;
} merge_log_t;

static merge_log_t s_merges;

void __real_sampler_on_merge (sampler_t *self, void (*merging) (void *context, sampler_t *sampler),
    void *context);
void __wrap_sampler_on_merge (sampler_t *self, void (*merging) (void *context, sampler_t *sampler),
    void *context);

static void
s_note_merge (void *context, sampler_t *sampler)
{
    (void) context;
    s_merges.merging (s_merges.context, sampler);
    for (size_t merge = 0; merge < s_merges.count; merge++)
        if (s_merges.merged [merge] == sampler)
            return;
    assert_true (s_merges.count < SAMPLERS_MAX);
    s_merges.merged [s_merges.count++] = sampler;
}

void
__wrap_sampler_on_merge (sampler_t *self, void (*merging) (void *context, sampler_t *sampler), void *context)
{
    s_merges = (merge_log_t) { .merging = merging, .context = context };
    __real_sampler_on_merge (self, s_note_merge, NULL);
}

void
reusable_log_clear (void)
{
    s_log.count = 0;
    s_merges.count = 0;
}

told_t *
reusable_told (const sampler_t *sampler, uint64_t ticket)
{
    for (size_t index = 0; index < s_log.count; index++)
        if (s_log.told [index].sampler == sampler && s_log.told [index].ticket == ticket)
            return &s_log.told [index];
    fail_msg ("ticket %" PRIu64 " names nothing on the shelf", ticket);
    return NULL;
}

size_t
reusable_count (void)
{
    return s_log.count;
}

size_t
reusable_merges (void)
{
    return s_merges.count;
}

const sampler_t *
reusable_merged (size_t merge)
{
    assert_true (merge < s_merges.count);
    return s_merges.merged [merge];
}

void
reusable_merges_clear (void)
{
    s_merges.count = 0;
}

uint64_t
__wrap_sampler_reusable_add (sampler_t *self, uint32_t id)
{
    assert_true (s_log.count < REUSABLE_MAX);
    told_t *told = &s_log.told [s_log.count++];
    *told = (told_t) { .sampler = self, .ticket = __real_sampler_reusable_add (self, id), .id = id };
    return told->ticket;
}

void
__wrap_sampler_reusable_remove (sampler_t *self, uint64_t ticket)
{
    told_t *told = reusable_told (self, ticket);
    *told = s_log.told [--s_log.count];
    __real_sampler_reusable_remove (self, ticket);
}

void
__wrap_sampler_allow (sampler_t *self, uint64_t ticket, uint32_t job)
{
    told_t *told = reusable_told (self, ticket);
    assert_true (sampler_follows (self, job));
    assert_true (sampler_needs (self, job, told->id));
    told->allowed [job / 64] |= 1ull << job % 64;
    __real_sampler_allow (self, ticket, job);
}

void
__wrap_sampler_forbid (sampler_t *self, uint64_t ticket, uint32_t job)
{
    assert_true (sampler_follows (self, job));
    reusable_told (self, ticket)->allowed [job / 64] &= ~(1ull << job % 64);
    __real_sampler_forbid (self, ticket, job);
}
