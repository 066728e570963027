/*  failing_memory -- allocations that are counted, and one of which fails.
 *
 *  The linker puts these functions in the place of the C library's for our own code, not for libraries'
 *  (CMakeLists.txt).  For one file of a program.
 */
#ifndef FAILING_MEMORY_H
#define FAILING_MEMORY_H
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *__real_malloc (size_t bytes);
void *__real_calloc (size_t count, size_t bytes);
void *__real_realloc (void *memory, size_t bytes);
void *__real_aligned_alloc (size_t alignment, size_t bytes);
void *__wrap_malloc (size_t bytes);
void *__wrap_calloc (size_t count, size_t bytes);
void *__wrap_realloc (void *memory, size_t bytes);
void *__wrap_aligned_alloc (size_t alignment, size_t bytes);

//  Allocations until the one that fails; 0: none does.
static int failing_countdown;
//  Allocations so far.
static uint64_t failing_count;

static bool
failing_now (void)
{
    failing_count++;
    if (failing_countdown == 0 || --failing_countdown > 0)
        return false;
    errno = ENOMEM;
    return true;
}

void *
__wrap_malloc (size_t bytes)
{
    return failing_now ()? NULL: __real_malloc (bytes);
}

void *
__wrap_calloc (size_t count, size_t bytes)
{
    return failing_now ()? NULL: __real_calloc (count, bytes);
}

void *
__wrap_realloc (void *memory, size_t bytes)
{
    return failing_now ()? NULL: __real_realloc (memory, bytes);
}

void *
__wrap_aligned_alloc (size_t alignment, size_t bytes)
{
    return failing_now ()? NULL: __real_aligned_alloc (alignment, bytes);
}

#endif
