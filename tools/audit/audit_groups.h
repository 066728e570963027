/*  audit_groups -- tests where groups of samples come in a job's epochs (audit.h).  Owner: one thread.  */
#ifndef AUDIT_GROUPS_H
#define AUDIT_GROUPS_H
#include "audit_tests.h"

//  The groups that were given (audit_set_groups), if any were.
void audit_groups_job (record_t *self, size_t index);
//  What other jobs hold (audit_test_held), when all jobs' ids are ranks in their universes.
void audit_groups_held (record_t *self, size_t index);

#endif
