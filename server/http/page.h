/*  page -- the page to look at, as one text: page.html with Debian's dygraphs in it.  The build makes it
 *  (embed_page.cmake).
 */
#ifndef PAGE_H
#define PAGE_H
#include <stddef.h>

extern const char page_text [];
extern const size_t page_bytes;

#endif
