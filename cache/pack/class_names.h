/*  class_names -- the names of classes, as `tureen pack --classes` gives them: a text with one a line, in the
 *  order of their numbers.
 */
#ifndef CLASS_NAMES_H
#define CLASS_NAMES_H
#include <stdbool.h>
#include <stddef.h>

//  Takes the next name off the text, whatever ends its line.  False: there is none.  at_p: the text's rest.
bool class_names_next (const char **at_p, const char **name_p, size_t *length_p);
//  0; or -EINVAL (a name is empty, too long, or there twice) or -ENOMEM, and error (PACK_SOURCE_ERROR_BYTES)
//  says so.
int class_names_check (const char *text, char *error);

#endif
