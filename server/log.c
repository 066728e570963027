#include "log.h"
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert (2 * LOG_LINE_BYTES_MAX <= PIPE_BUF, "a pipe that is writable takes a line whole");

static bool
s_write (const log_t *self, const char *text, size_t size)
{
    struct pollfd item = { .fd = self->descriptor, .events = POLLOUT };
    return poll (&item, 1, 0) == 1 && (item.revents & POLLOUT)
        && write (self->descriptor, text, size) == (ssize_t) size;
}

void
log_line (log_t *self, const char *format, ...)
{
    char text [2 * LOG_LINE_BYTES_MAX];
    int used = 0;
    if (self->lost)
        used = snprintf (text, LOG_LINE_BYTES_MAX, "(%llu lines lost: nobody read this log)\n",
            (unsigned long long) self->lost);
    char *line = text + used;
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (line, LOG_LINE_BYTES_MAX - 1, format, arguments);
    va_end (arguments);
    size_t length = strlen (line);
    for (size_t at = 0; at < length; at++)
        if ((unsigned char) line [at] < 0x20 || line [at] == 0x7f)
            line [at] = '?';
    line [length] = '\n';
    if (s_write (self, text, (size_t) used + length + 1))
        self->lost = 0;
    else
        self->lost++;
}
