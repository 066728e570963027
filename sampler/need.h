//  need -- allocate or abort (xalloc.h), for the sampler: its memory is in the budget of jobs, which the
//  message names.
#ifndef NEED_H
#define NEED_H
#include <stdio.h>
#include <stdlib.h>

//  Ends the program, saying so, where there is none.
static inline void *
sampler_need (void *memory)
{
    if (!memory) {
        fputs ("tureen: no memory for the sampler's bookkeeping: give the server more, or fewer jobs\n",
            stderr);
        abort ();
    }
    return memory;
}

#endif
