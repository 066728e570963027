/*  audit_ids -- recorded ids, as `tureen read --ids FILE` writes them, into an audit.
 *
 *  A line an epoch, numbers rising:
 *
 *      0: 5 17 3
 *      1: 3 5 ...
 *
 *  " ..." or a last line without an end: the epoch is unfinished.  What the end of the file touches may be
 *  cut short (a client was killed while it wrote), so a number there is left out, and so is a line without
 *  its colon.  Blank lines, tabs and carriage returns do no harm; everything else is refused.
 *
 *  Reads forward only, so that a pipe will do; memory follows what was read.  Any thread.
 */
#ifndef AUDIT_IDS_H
#define AUDIT_IDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "audit.h"

//  Adds the file to the audit as a job of that name.  False: unusable, error says which line of it and what
//  to do; the audit is good for audit_destroy only.
bool __attribute__ ((warn_unused_result)) audit_ids_read (audit_t *audit, const char *name, FILE *file,
    char *error, size_t error_bytes);

#endif
