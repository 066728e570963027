/*  unpack_labels -- writes a catalogue's labels as the labels.tsv or labels.jsonl that would give them
 *  (docs/data.md).
 *
 *  TSV, unless a text would not come back from it: a text with a tab or the end of a line in it, a column of
 *  texts that look like numbers, a vector of one number.  Then JSON lines; these have no nan, and their names
 *  are UTF-8. What has been read from one of the two always fits into it.  Numbers are written so that the
 *  same bits come back.
 */
#ifndef UNPACK_LABELS_H
#define UNPACK_LABELS_H
#include <stdbool.h>
#include <stddef.h>
#include "catalogue.h"

//  Whether there is something to write: labels that do not follow from folders, or none at all, which must be
//  said as well.
bool unpack_labels_needed (const catalogue_t *catalogue);

//  Writes a line for each sample with wanted [id] to NAME in the folder; NAME is "labels.tsv" or
//  "labels.jsonl", and must not be there.  0 and *name_p; or -errno, -EINVAL for what fits neither.
int unpack_labels_write (const catalogue_t *catalogue, const bool *wanted, int folder_fd,
    const char **name_p);

//  Whether numbers of classes have names that the files do not tell: those of `tureen pack --classes`.
bool unpack_labels_have_names (const catalogue_t *catalogue);
//  Writes these names to a new file, for `tureen pack --classes`.  0; -EINVAL if one has a line's end in it;
//  or -errno.
int unpack_labels_write_names (const catalogue_t *catalogue, const char *path);

#endif
