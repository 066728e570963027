/*  unreadable -- which files of a data set no image pipeline of this build can read, told by their names
 *  before the first job asks for them.
 *
 *  A name decides nothing when a sample is read: this is a warning about probable mistakes.
 *  No state; any thread.
 */
#ifndef UNREADABLE_H
#define UNREADABLE_H
#include <stdbool.h>
#include <stddef.h>
#include "catalogue.h"

//  Writes to text what there is and the remedy, "this build cannot read 3 files as images: .."; false:
//  there is none, and text is empty.
bool unreadable_describe (const catalogue_t *catalogue, char *text, size_t size);

#endif
