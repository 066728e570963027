/*  simulated_memory -- memory for a simulation, or its end: sizes are the user's, and there is nothing to
 *  save.  */
#ifndef SIMULATED_MEMORY_H
#define SIMULATED_MEMORY_H
#include <stdio.h>
#include <stdlib.h>

//  Zeroed.  Never NULL.
static inline void *
simulated_alloc (size_t count, size_t size)
{
    void *memory = calloc (count? count: 1, size);
    if (!memory) {
        fprintf (stderr, "simulation: no memory for %zu times %zu bytes; try fewer samples\n", count, size);
        exit (1);
    }
    return memory;
}

#endif
