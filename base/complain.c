#include "complain.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

bool
complain_of_options (const char *command, const char *error)
{
    static const struct { const char *field, *option; } names [] = {
        { "options.key:", "--key:" }, { "options.server_key:", "--server-key:" }
    };
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        size_t length = strlen (names [index].field);
        if (!strncmp (error, names [index].field, length))
            return complain (command, "%s%s", names [index].option, error + length);
    }
    return complain (command, "%s", error);
}
