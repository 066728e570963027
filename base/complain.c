#include "complain.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "needed.h"
#include "utf8.h"

bool
complain (const char *command, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    char *text = needed_text_of (format, arguments), *visible = utf8_all_visible (text);
    va_end (arguments);
    fprintf (stderr, "tureen %s: %s\n", command, visible);
    free (visible);
    free (text);
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
