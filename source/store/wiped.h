/*  wiped -- memory for what may be secret on its way: an allocator that wipes a block before it frees it, and
 *  guarded copies, which no core dump holds.
 *
 *  libcurl, expat and jansson get the allocator: the answers of key services pass through their memory, and a
 *  core dump of later must not hold what they freed.  (While they work, their memory is ordinary.)
 *  Plain functions; any thread.
 */
#ifndef WIPED_H
#define WIPED_H
#include <stddef.h>

//  As the functions of the C library with these names.
void *wiped_malloc (size_t bytes);
void *wiped_calloc (size_t count, size_t bytes);
void *wiped_realloc (void *memory, size_t bytes);
char *wiped_strdup (const char *text);
void wiped_free (void *memory);

//  So many bytes, guarded: libsodium's, locked as far as the system allows it, left out of core dumps, wiped
//  when they are freed.  NULL: no memory.
void *wiped_guarded (size_t bytes);
//  Both texts, one after the other, guarded; NULL: no memory.
char *wiped_guarded_text (const char *begin, const char *text);
//  Takes NULL.
void wiped_guarded_free (void *memory);
//  A core dump leaves out the pages that the text is in, as far as the kernel lets them be left out.
void wiped_keep_from_core (const char *text);

#endif
