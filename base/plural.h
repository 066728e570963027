/*  plural -- the end of a word of which there are so many.  Any thread.  */
#ifndef PLURAL_H
#define PLURAL_H
#include <stdint.h>

//  "1 epoch", "2 epochs".
static inline const char *
plural (uint64_t count)
{
    return count == 1? "": "s";
}

//  "1 batch", "2 batches".
static inline const char *
plural_es (uint64_t count)
{
    return count == 1? "": "es";
}

#endif
