/*  class_names -- the names of classes, as `tureen pack --classes` gives them: a text with one a line, in the
 *  order of their numbers.
 */
#ifndef CLASS_NAMES_H
#define CLASS_NAMES_H
#include <stdbool.h>
#include <stddef.h>

//  Finds the name in the line that begins at *at_p, without the line's end ("\n" or "\r\n"), and moves *at_p
//  to the next line.  False: the text ends at *at_p.  The name is lent from the text.
bool class_names_next (const char **at_p, const char **name_p, size_t *length_p);
//  0; or -EINVAL (a name is empty, too long, or there twice) or -ENOMEM, and error (PACK_SOURCE_ERROR_BYTES)
//  says so.
int class_names_check (const char *text, char *error);

#endif
