/*  audit_grouping -- groups of samples for an audit, from a file: a line a sample, its id and its group.
 *
 *      0 cats
 *      1 dogs
 *
 *  A group is a word of up to AUDIT_GROUP_BYTES bytes.  Ids may come in any order, each once; a sample
 *  without a line is of no group.  Blank lines, tabs and carriage returns do no harm; everything else is
 *  refused.
 *
 *  Any thread.
 */
#ifndef AUDIT_GROUPING_H
#define AUDIT_GROUPING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "audit.h"

enum { AUDIT_GROUP_BYTES = 255 };

typedef struct {
    audit_member_t *members;    //  by ascending id
    size_t count;
    char **names;               //  of groups
    size_t group_count;
} audit_grouping_t;

//  False: unusable, *self is empty, and error says which line of the file and what to do.
bool __attribute__ ((warn_unused_result)) audit_grouping_read (audit_grouping_t *self, const char *name,
    FILE *file, char *error, size_t error_bytes);
//  Groups of so many neighbours in the order: "chunk 0" is its first ones.  False: there is no memory, *self
//  is empty.
bool __attribute__ ((warn_unused_result)) audit_grouping_cut (audit_grouping_t *self, const uint32_t *order,
    size_t count, uint32_t chunk);
void audit_grouping_clear (audit_grouping_t *self);

#endif
