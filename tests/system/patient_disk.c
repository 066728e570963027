//  patient_disk -- what the tests' server has beside the program's own files: its cache's disk may take
//  minutes.  A loaded machine lets the disk be late by chance, and then nothing is kept for eight seconds:
//  what tests count exactly would differ.  The linker puts this in the place of block_cache_threads_new.

#include "block_cache_threads.h"

block_cache_threads_t *__real_block_cache_threads_new (void);
block_cache_threads_t *__wrap_block_cache_threads_new (void);

block_cache_threads_t *
__wrap_block_cache_threads_new (void)
{
    enum { PATIENT_MS = 10000 };
    block_cache_threads_t *self = __real_block_cache_threads_new ();
    if (self)
        block_cache_threads_set_slice (self, PATIENT_MS);
    return self;
}
