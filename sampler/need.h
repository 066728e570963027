//  need -- memory without which the sampler cannot go on: small, and in the caller's budget
//  (server/broker/broker.h).
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
