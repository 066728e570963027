/*  suggest -- the name that was probably meant.  Any thread.  */
#ifndef SUGGEST_H
#define SUGGEST_H
#include <stddef.h>

enum { SUGGEST_BYTES_MAX = 64 };        //  longer names are near to none

//  The one of count names that differs from name by one or two typing errors; else the longest that is part
//  of it (as `workers` is of `num-workers`), else the shortest of which it is a part.  NULL: none is near.
const char *suggest_name (const char *name, const char *const *names, size_t count);

#endif
