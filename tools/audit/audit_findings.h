/*  audit_findings -- what an audit found, in words: tests against the bound, one finding for each kind and
 *  job, and notes.
 */
#ifndef AUDIT_FINDINGS_H
#define AUDIT_FINDINGS_H
#include "audit_tests.h"

//  After all tests, and once: fills in record->findings.  A test failed if its p is below the bound.
void audit_findings_make (record_t *record, double bound);

#endif
