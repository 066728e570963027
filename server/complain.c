#include "complain.h"
#include <stdarg.h>
#include <stdio.h>

bool
complain (const char *command, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    fprintf (stderr, "tureen %s: ", command);
    vfprintf (stderr, format, arguments);
    fputs ("\n", stderr);
    va_end (arguments);
    return false;
}
