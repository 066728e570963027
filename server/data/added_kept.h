/*  added_kept -- what a server keeps for the process that is started in its place when it has died: a text in
 *  memory that both have, by an inherited descriptor.
 *
 *      8 bytes     where the copy begins; 0: there is none
 *      a copy      bytes 8 | XXH3-64 of the text 8 | the text
 *
 *  A new copy is written beside the one that holds, and then the first 8 bytes: a process that is killed at
 *  any moment leaves the old copy or the new one.
 *  Owner: one thread.
 */
#ifndef ADDED_KEPT_H
#define ADDED_KEPT_H
#include <stdbool.h>
#include <stddef.h>

//  A descriptor that children inherit; or -errno.
int added_kept_new (void);
//  False: it cannot be written, and errno has the reason.  The copy of before holds then.
bool added_kept_write (int descriptor, const char *text, size_t bytes);
//  The caller's, with a zero behind it; NULL: there is none, or it is damaged.
char *added_kept_read (int descriptor);

#endif
