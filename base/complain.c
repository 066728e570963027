#include "complain.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "nearest.h"

enum { OPTIONS_MAX = 64 };          //  of a command; those beyond are never suggested

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
complain_of_option (const char *command, char **argv, const struct option *options, int answer)
{
    const char *given = argv [optind - 1], *names [OPTIONS_MAX];
    if (answer == ':')
        return complain (command, "option '%s' needs a value; see `tureen %s --help`", given, command);
    char name [NEAREST_BYTES_MAX + 1] = "";
    bool is_long = !strncmp (given, "--", 2);
    size_t size = is_long? strcspn (given + 2, "="): 0, count = 0, meant = 0;
    if (size <= NEAREST_BYTES_MAX)
        snprintf (name, sizeof name, "%.*s", (int) size, given + 2 * is_long);
    for (; count < OPTIONS_MAX && options [count].name; count++) {
        names [count] = options [count].name;
        if (is_long && options [count].val == optopt && given [2 + size] == '=')
            return complain (command, "option '--%s' takes no value", options [count].name);
        meant += size && !strncmp (options [count].name, name, size);
    }
    //  getopt takes the beginning of an option for it, unless several begin so.
    if (meant > 1)
        return complain (command, "option '--%s' is ambiguous: %zu begin so; see `tureen %s --help`", name,
            meant, command);
    const char *nearest = *name? nearest_name (name, names, count): NULL;
    if (nearest)
        return complain (command, "unknown option '--%s'; did you mean '--%s'?", name, nearest);
    return complain (command, "unknown option '%s'; see `tureen %s --help`", given, command);
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
