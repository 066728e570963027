/*  split -- the classes of data sets that look like splits of one set: where they differ, one number may mean
 *  two classes, which no job can see.
 *
 *  Any thread.
 */
#ifndef SPLIT_H
#define SPLIT_H
#include <stdbool.h>
#include <stdint.h>
#include "catalogue.h"

//  A data set's classes in the order of their names' bytes.
typedef struct {
    const catalogue_t *catalogue;       //  lent, as the data set's name
    const char *name;
    uint32_t *sorted;                   //  owned; NULL: it has no classes
    uint32_t count;
    bool goes_by_others;                //  they are numbered by another data set's
} split_t;

//  Without memory it has no classes, and there is no warning.
split_t split_of (const catalogue_t *catalogue, const char *name, bool goes_by_others);
void split_clear (split_t *self);
//  Whether they share at least half of the classes of either.  *text_p, the caller's: how they differ then,
//  and the remedy; NULL: they do not, or there is no memory for it.
bool split_compare (const split_t *left, const split_t *right, char **text_p);

#endif
