#include "pack_progress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "clock.h"

enum { BAR_COLUMNS = 20, LINE_BYTES = 256, DURATION_BYTES = 32 };

static const double s_terminal_period = 0.2, s_plain_period = 10;

pack_progress_t
pack_progress_begin (void)
{
    const char *terminal = getenv ("TERM");
    return (pack_progress_t) { .is_terminal = isatty (STDERR_FILENO) && terminal
        && strcmp (terminal, "dumb") != 0 };
}

//  "1:02:03", "2:03"
static void
s_duration (double seconds, char text [DURATION_BYTES])
{
    unsigned long whole = seconds < 1e8? (unsigned long) (seconds + 0.5): 100000000;
    if (whole >= 3600)
        snprintf (text, DURATION_BYTES, "%lu:%02lu:%02lu", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf (text, DURATION_BYTES, "%lu:%02lu", whole / 60, whole % 60);
}

//  "1.5 GB"
static void
s_size (double bytes, char text [DURATION_BYTES])
{
    static const char *const units [] = { "B", "kB", "MB", "GB", "TB", "PB" };
    size_t unit = 0;
    for (; bytes >= 999.5 && unit < 5; unit++)
        bytes /= 1000;
    snprintf (text, DURATION_BYTES, unit && bytes < 99.95? "%.1f %s": "%.0f %s", bytes, units [unit]);
}

static const char *const s_passes [] = { "reading", "writing", "uploading" };

//  The line of this pass.  The whole takes this time and, in the first pass, about as long again.
static void
s_line (const pack_progress_t *self, const packing_progress_t *progress, double now, char line [LINE_BYTES])
{
    double passed = now - self->pass_began, done = (double) progress->bytes,
        total = (double) progress->bytes_total;
    double rate = passed > 0? (done - (double) self->bytes_before) / passed: 0;
    double fraction = total > 0? (done < total? done / total: 1): 0;
    char size [DURATION_BYTES], speed [DURATION_BYTES], left [DURATION_BYTES] = "", bar [BAR_COLUMNS + 1];
    s_size (done, size);
    s_size (rate, speed);
    for (int column = 0; column < BAR_COLUMNS; column++)
        bar [column] = column < (int) (fraction * BAR_COLUMNS)? '#': '.';
    bar [BAR_COLUMNS] = 0;
    int used = snprintf (line, LINE_BYTES, "%s (%d of %d) ", s_passes [progress->pass - 1],
        progress->pass, progress->passes);
    if (total > 0)
        used += snprintf (line + used, LINE_BYTES - (size_t) used, "[%s] %3.0f %% ", bar, 100 * fraction);
    //  A narrow terminal cuts the line, so what is wanted most comes first.
    if (total > 0 && rate > 0) {
        s_duration ((total * (1 - fraction) + (progress->pass == 1? total: 0)) / rate, left);
        used += snprintf (line + used, LINE_BYTES - (size_t) used, "%s left, ", left);
    }
    snprintf (line + used, LINE_BYTES - (size_t) used, "%s/s, %s, %llu samples", speed, size,
        (unsigned long long) progress->samples);
}

//  A line that wrapped could not be drawn over.
static void
s_draw (char *line)
{
    struct winsize size;
    if (ioctl (STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && strlen (line) >= size.ws_col) {
        line [size.ws_col - 1] = 0;
        char *comma = strrchr (line, ',');
        if (comma)
            *comma = 0;                 //  half a number would be another one
    }
    fprintf (stderr, "\r%s\033[K", line);
    fflush (stderr);
}

void
pack_progress_tell (pack_progress_t *self, const packing_progress_t *progress)
{
    double now = clock_seconds (CLOCK_MONOTONIC);
    if (self->pass != progress->pass) {
        self->pass = progress->pass;
        self->pass_began = self->told = now;
        self->bytes_before = progress->bytes;
        return;
    }
    if (now - self->told < (self->is_terminal? s_terminal_period: s_plain_period))
        return;
    self->told = now;
    char line [LINE_BYTES];
    s_line (self, progress, now, line);
    if (self->is_terminal)
        s_draw (line);
    else
        fprintf (stderr, "tureen pack: %s\n", line);
    self->is_drawn = self->is_terminal;
}

void
pack_progress_end (pack_progress_t *self)
{
    if (self->is_drawn)
        fputs ("\r\033[K", stderr);
    self->is_drawn = false;
}
