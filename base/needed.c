#include "needed.h"
#include <stdio.h>
#include <stdlib.h>

void
needed_failed (void)
{
    fputs ("tureen: no memory for its bookkeeping\n", stderr);
    abort ();
}

void *
needed_memory (void *memory)
{
    if (!memory)
        needed_failed ();
    return memory;
}

char *
needed_text_of (const char *format, va_list arguments)
{
    char *text;
    int rc = vasprintf (&text, format, arguments);
    return needed_memory (rc < 0? NULL: text);
}

char *
needed_text (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    char *text = needed_text_of (format, arguments);
    va_end (arguments);
    return text;
}
