/*  audit_input -- what an audit is given, from files: recorded ids, and groups of samples.
 *
 *  Ids, as `tureen read --ids FILE` writes them: a line an epoch, numbers rising.
 *
 *      0: 5 17 3
 *      1: 3 5 ...
 *
 *  " ..." or a last line without an end: the epoch is unfinished.  What the end of the file touches may be
 *  cut short (a client was killed while it wrote), so a number there is left out, and so is a line without
 *  its colon.  It is read forward only, so that a pipe will do; memory follows what was read.
 *
 *  Groups: a line a sample, its id and its group.
 *
 *      0 cats
 *      1 dogs
 *
 *  A group is a word of up to AUDIT_INPUT_GROUP_BYTES bytes.  Ids may come in any order, each once; a sample
 *  without a line is of no group.
 *
 *  In both, blank lines, tabs and carriage returns do no harm; everything else is refused.  Any thread.
 */
#ifndef AUDIT_INPUT_H
#define AUDIT_INPUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "audit.h"

//  Adds the file to the audit as a job of that name.  False: unusable, error says which line of it and what
//  to do; the audit is good for audit_destroy only.
bool __attribute__ ((warn_unused_result)) audit_input_ids (audit_t *audit, const char *name, FILE *file,
    char *error, size_t error_bytes);

enum { AUDIT_INPUT_GROUP_BYTES = 255 };

//  For audit_set_groups.
typedef struct {
    audit_member_t *members;    //  by ascending id
    size_t count;
    char **names;               //  of groups
    size_t group_count;
} audit_input_groups_t;

//  False: unusable, *self is empty, and error says which line of the file and what to do.
bool __attribute__ ((warn_unused_result)) audit_input_groups (audit_input_groups_t *self, const char *name,
    FILE *file, char *error, size_t error_bytes);
//  Groups of so many neighbours in the order: "chunk 0" is its first ones.  False: there is no memory, *self
//  is empty.
bool __attribute__ ((warn_unused_result)) audit_input_chunks (audit_input_groups_t *self,
    const uint32_t *order, size_t count, uint32_t chunk);
void audit_input_clear (audit_input_groups_t *self);

#endif
