/*  findings -- what an audit has found, and how far from chance that is.  */
#ifndef FINDINGS_H
#define FINDINGS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "audit.h"

//  Faults that true shuffles do not show in 1 of 100,000 runs of a test of a hundred audits.  (An audit calls
//  as many as 1 in 10,000 true shuffles faulty.)
static inline size_t
findings_faults (const audit_t *audit)
{
    size_t count = 0;
    for (size_t index = 0; index < audit_fault_count (audit); index++)
        count += !(audit_finding (audit, index)->p > audit_bound (audit) / 1000);
    return count;
}

//  The least p of the tests over all epochs of a job, or of those of one epoch or two.
static inline double
findings_least_p (const audit_t *audit, audit_kind_t kind, bool pooled)
{
    double least = 1;
    for (size_t index = 0; index < audit_test_count (audit); index++) {
        const audit_test_t *test = audit_test (audit, index);
        if (test->kind == kind && test->pooled == pooled && test->p < least)
            least = test->p;
    }
    return least;
}

//  The audit's first finding of this kind; NULL: it has none.
static inline const audit_finding_t *
findings_find (const audit_t *audit, audit_kind_t kind)
{
    for (size_t index = 0; index < audit_finding_count (audit); index++)
        if (audit_finding (audit, index)->kind == kind)
            return audit_finding (audit, index);
    return NULL;
}

static inline void
findings_print (const audit_t *audit)
{
    for (size_t index = 0; index < audit_finding_count (audit); index++) {
        const audit_finding_t *finding = audit_finding (audit, index);
        printf ("    %s: %s\n", audit_kind_name (finding->kind), finding->text);
    }
}

#endif
