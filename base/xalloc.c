#include "xalloc.h"
#include <stdio.h>
#include <stdlib.h>

void
xalloc_failed (void)
{
    fputs ("tureen: no memory for its bookkeeping\n", stderr);
    abort ();
}

void *
xalloc_memory (void *memory)
{
    if (!memory)
        xalloc_failed ();
    return memory;
}

void *
xalloc_jobs (void *memory)
{
    if (!memory) {
        fputs ("tureen: no memory for the sampler's bookkeeping: give the server more, or fewer jobs\n",
            stderr);
        abort ();
    }
    return memory;
}

char *
xalloc_text_of (const char *format, va_list arguments)
{
    char *text;
    int rc = vasprintf (&text, format, arguments);
    return xalloc_memory (rc < 0? NULL: text);
}

char *
xalloc_text (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    char *text = xalloc_text_of (format, arguments);
    va_end (arguments);
    return text;
}
