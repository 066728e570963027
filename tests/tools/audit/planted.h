/*  planted -- a job made up for tests of the audit: true shuffles, in which a test plants a fault; and
 *  assertions of what the audit says of it.  Included behind cmocka.h.
 */
#ifndef PLANTED_H
#define PLANTED_H
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "audit.h"
#include "findings.h"
#include "orders.h"

enum { SAMPLES = 4000, EPOCHS = 12 };

typedef struct {
    uint64_t random;
    size_t samples;
    unsigned epochs;
    unsigned first;             //  its first epoch's number
    uint32_t *ids [EPOCHS];
    size_t counts [EPOCHS];
    bool unfinished;            //  the last
} planted_t;

static inline planted_t
planted_new (size_t samples, unsigned epochs)
{
    planted_t self = { .random = test_seed () + samples, .samples = samples, .epochs = epochs };
    for (unsigned epoch = 0; epoch < epochs; epoch++) {
        self.ids [epoch] = orders_shuffle (&self.random, samples);
        self.counts [epoch] = samples;
    }
    return self;
}

//  Another order for an epoch; takes ids.
static inline void
planted_replace (planted_t *self, unsigned epoch, uint32_t *ids)
{
    free (self->ids [epoch]);
    self->ids [epoch] = ids;
}

//  The ids become those of a subset: first, first + step ..
static inline void
planted_spread (planted_t *self, uint32_t first, uint32_t step)
{
    for (unsigned epoch = 0; epoch < self->epochs; epoch++)
        for (size_t place = 0; place < self->counts [epoch]; place++)
            self->ids [epoch] [place] = first + step * self->ids [epoch] [place];
}

static inline void
planted_add (audit_t *audit, planted_t *self, const char *name)
{
    assert_int_equal (audit_add_job (audit, name), 0);
    for (unsigned epoch = 0; epoch < self->epochs; epoch++) {
        bool finished = !self->unfinished || epoch + 1 < self->epochs;
        orders_add (audit, self->first + epoch, self->ids [epoch], self->counts [epoch], finished);
        self->ids [epoch] = NULL;
    }
}

//  Audits the job; its ids are used up.
static inline audit_t *
planted_audit (planted_t *self, uint64_t samples)
{
    audit_t *audit = audit_new (samples);
    assert_non_null (audit);
    planted_add (audit, self, "planted");
    assert_int_equal (audit_run (audit), 0);
    return audit;
}

//  Asserts that the audit has a finding of this kind, which counts these epochs, calls this one the worst,
//  and has this text.
static inline void
planted_found (const audit_t *audit, audit_kind_t kind, size_t epochs, uint64_t worst, const char *says)
{
    const audit_finding_t *finding = findings_find (audit, kind);
    findings_print (audit);
    if (!finding)
        fail_msg ("no finding %s", audit_kind_name (kind));
    assert_int_equal (finding->epoch_count, epochs);
    assert_int_equal (finding->worst, worst);
    if (!strstr (finding->text, says))
        fail_msg ("'%s' does not say '%s'", finding->text, says);
}

//  It is all that is wrong.
static inline void
planted_only (audit_t *audit, audit_kind_t kind, size_t epochs, uint64_t worst, const char *says)
{
    planted_found (audit, kind, epochs, worst, says);
    if (kind < AUDIT_FAULTS)
        assert_int_equal (findings_faults (audit), 1);
    else
        assert_int_equal (findings_faults (audit), 0);
    audit_destroy (&audit);
}

static inline void
planted_clean (audit_t *audit)
{
    findings_print (audit);
    assert_int_equal (findings_faults (audit), 0);
    audit_destroy (&audit);
}

#endif
