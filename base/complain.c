#include "complain.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"
#include "xalloc.h"

void
complain_begin (void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl (fd, F_GETFD) < 0 && open ("/dev/null", O_RDONLY) < 0)
            return;
}

bool
complain (const char *command, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    char *text = xalloc_text_of (format, arguments), *visible = utf8_all_visible (text);
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

int
complain_of_output (const char *command, int status)
{
    errno = 0;
    if ((fflush (stdout) == 0 && !ferror (stdout)) || status)
        return status;
    complain (command, "standard output: %s", errno? strerror (errno): "not written");
    return 1;
}
