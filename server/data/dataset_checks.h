/*  dataset_checks -- what is probably a mistake in a data set, told before the first job asks for it:
 *  files that no image pipeline of this build can read, and splits of one set that differ in their classes.
 *
 *  These are warnings: a file's name decides nothing when a sample is read, and two data sets may have some
 *  classes in common by chance.
 *  No state; any thread.
 */
#ifndef DATASET_CHECKS_H
#define DATASET_CHECKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "catalogue.h"

//  By the files' names.  Writes to text what there is and the remedy, "this build cannot read 3 files as
//  images: .."; false: there is none, and text is empty.
bool dataset_checks_unreadable (const catalogue_t *catalogue, char *text, size_t size);

//  ---- classes that differ: one number may mean two classes, which no job can see

//  A data set's classes in the order of their names' bytes.
typedef struct {
    const catalogue_t *catalogue;       //  lent, as the data set's name
    const char *name;
    uint32_t *sorted;                   //  owned; NULL: it has no classes
    uint32_t count;
    bool goes_by_others;                //  they are numbered by another data set's
} dataset_checks_classes_t;

//  Without memory it has no classes, and there is no warning.
dataset_checks_classes_t dataset_checks_classes_of (const catalogue_t *catalogue, const char *name,
    bool goes_by_others);
void dataset_checks_classes_clear (dataset_checks_classes_t *self);
//  Whether they share at least half of the classes of either.  *text_p, the caller's: how they differ then,
//  and the remedy; NULL: they do not, or there is no memory for it.
bool dataset_checks_classes_compare (const dataset_checks_classes_t *left,
    const dataset_checks_classes_t *right, char **text_p);

#endif
