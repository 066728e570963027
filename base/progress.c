#include "progress.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "clock.h"
#include "words.h"

enum { BAR_COLUMNS = 20, AMOUNT_BYTES = 64 };

static const double s_first_draw = 0.5, s_draw_pause = 0.2, s_first_pause = 10, s_pause_max = 60,
    s_mark_pause = 15;

static double
s_now (void)
{
    return clock_seconds (CLOCK_MONOTONIC);
}

progress_t
progress_begin (const char *command, bool is_quiet)
{
    if (is_quiet)
        return (progress_t) { .command = NULL, .clock = s_now, .began = s_now () };
    const char *terminal = getenv ("TERM");
    double now = s_now ();
    return (progress_t) { .command = command, .stream = stderr,
        .is_terminal = isatty (STDERR_FILENO) && terminal && strcmp (terminal, "dumb") != 0, .clock = s_now,
        .began = now, .drawn = now, .told = now, .pause = s_first_pause };
}

void
progress_use_log (progress_t *self, log_t *log)
{
    self->log = log;
}

double
progress_seconds (const progress_t *self)
{
    return self->clock () - self->began;
}

//  ---- figures

//  Of the step, a second; 0: not known yet.
static double
s_rate (const progress_t *self, double now)
{
    double passed = now - self->mark.at;
    return passed > 0 && self->done > self->mark.done? (double) (self->done - self->mark.done) / passed: 0;
}

//  0 to 1; below 0: the total is not known.
static double
s_fraction (const progress_t *self)
{
    uint64_t total = self->step.total;
    return total == 0? -1: self->done < total? (double) self->done / (double) total: 1;
}

//  Seconds; below 0: not known.
static double
s_left (const progress_t *self, double rate)
{
    double fraction = s_fraction (self);
    if (fraction < 0 || rate <= 0)
        return -1;
    return ((double) self->step.total * (1 - fraction) + (double) self->step.after) / rate;
}

//  ---- text

//  "1:02:03", "2:03"
static void
s_add_duration (char line [PROGRESS_LINE_BYTES], double seconds)
{
    unsigned long whole = seconds < 1e8? (unsigned long) (seconds + 0.5): 100000000;
    if (whole >= 3600)
        append (line, PROGRESS_LINE_BYTES, "%lu:%02lu:%02lu", whole / 3600, whole / 60 % 60, whole % 60);
    else
        append (line, PROGRESS_LINE_BYTES, "%lu:%02lu", whole / 60, whole % 60);
}

//  "1.5 GB", "1200 files", "0.3 files"
static void
s_amount (double amount, const char *unit, char text [AMOUNT_BYTES])
{
    static const char *const units [] = { "B", "kB", "MB", "GB", "TB", "PB" };
    size_t power = 0;
    if (unit) {
        snprintf (text, AMOUNT_BYTES, amount > 0 && amount < 9.95? "%.1f %s": "%.0f %s", amount, unit);
        return;
    }
    for (; amount >= 999.5 && power < 5; power++)
        amount /= 1000;
    snprintf (text, AMOUNT_BYTES, power && amount < 99.95? "%.1f %s": "%.0f %s", amount, units [power]);
}

static const char *
s_line (const progress_t *self, double now, char line [PROGRESS_LINE_BYTES])
{
    const progress_step_t *step = &self->step;
    double fraction = s_fraction (self), rate = s_rate (self, now), left = s_left (self, rate);
    char bar [BAR_COLUMNS + 1], amount [AMOUNT_BYTES];
    *line = 0;
    if (self->line) {
        append (line, PROGRESS_LINE_BYTES, "%s", self->line);
        return line;
    }
    if (self->subject)
        append (line, PROGRESS_LINE_BYTES, "data set '%s': ", self->subject);
    append (line, PROGRESS_LINE_BYTES, "%s", step->what? step->what: "");
    if (fraction >= 0) {
        for (int column = 0; column < BAR_COLUMNS; column++)
            bar [column] = column < (int) (fraction * BAR_COLUMNS)? '#': '.';
        bar [BAR_COLUMNS] = 0;
        append (line, PROGRESS_LINE_BYTES, " [%s] %3.0f %% ", bar, 100 * fraction);
    }
    else
        append (line, PROGRESS_LINE_BYTES, ": ");
    //  A narrow terminal cuts the line, so what is wanted most comes first.
    if (left >= 0) {
        s_add_duration (line, left);
        append (line, PROGRESS_LINE_BYTES, " left, ");
    }
    s_amount (rate, step->unit, amount);
    append (line, PROGRESS_LINE_BYTES, "%s/s, ", amount);
    s_amount ((double) self->done, step->unit, amount);
    //  Of what is counted there is no tenth.
    if (step->unit)
        append (line, PROGRESS_LINE_BYTES, "%llu %s", (unsigned long long) self->done, step->unit);
    else
        append (line, PROGRESS_LINE_BYTES, "%s", amount);
    if (step->beside)
        append (line, PROGRESS_LINE_BYTES, ", %llu %s", (unsigned long long) self->beside, step->beside);
    return line;
}

const char *
progress_line (const progress_t *self, char line [PROGRESS_LINE_BYTES])
{
    return s_line (self, self->clock (), line);
}

//  ---- shown

//  A line that wrapped could not be drawn over.
static void
s_draw (progress_t *self, double now)
{
    char line [PROGRESS_LINE_BYTES];
    struct winsize size;
    s_line (self, now, line);
    int descriptor = fileno (self->stream);
    if (descriptor >= 0 && ioctl (descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1
    &&  strlen (line) >= size.ws_col) {
        line [size.ws_col - 1] = 0;
        char *comma = strrchr (line, ',');
        if (comma)
            *comma = 0;                 //  half a number would be another one
    }
    fprintf (self->stream, "\r%s\033[K", line);
    fflush (self->stream);
    self->drawn = now;
    self->is_drawn = true;
}

void
progress_clear (progress_t *self)
{
    if (self && self->is_drawn) {
        fputs ("\r\033[K", self->stream);
        fflush (self->stream);
        self->is_drawn = false;
    }
}

static void
s_log (progress_t *self, double now)
{
    char line [PROGRESS_LINE_BYTES];
    const progress_step_t *step = &self->step;
    double rate = s_rate (self, now), left = s_left (self, rate);
    log_event (self->log, LOG_LEVEL_INFO, "progress", LOG_FIELDS (LOG_TEXT ("dataset", self->subject),
        LOG_TEXT ("unit", step->unit? step->unit: "bytes"), LOG_NUMBER ("done", self->done),
        LOG_NUMBER_IF (step->total > 0, "total", step->total),
        LOG_NUMBER ("per_second", (uint64_t) (rate + 0.5)),
        LOG_NUMBER_IF (left >= 0, "seconds_left", left >= 0? (uint64_t) (left + 0.5): 0)), "%s",
        s_line (self, now, line));
}

static void
s_tell (progress_t *self, double now)
{
    char line [PROGRESS_LINE_BYTES];
    progress_clear (self);              //  the log may be on the same terminal
    if (self->log)
        s_log (self, now);
    else {
        fprintf (self->stream, "tureen %s: %s\n", self->command, s_line (self, now, line));
        fflush (self->stream);
    }
    self->told = now;
    self->pause = 2 * self->pause < s_pause_max? 2 * self->pause: s_pause_max;
}

void
progress_step (progress_t *self, const progress_step_t *step, uint64_t done)
{
    if (!self || !self->command)
        return;
    self->step = *step;
    self->done = done;
    self->beside = 0;
    self->mark = self->next_mark = (progress_mark_t) { self->clock (), done };
}

void
progress_tell (progress_t *self, uint64_t done, uint64_t beside)
{
    if (!self || !self->command)
        return;
    double now = self->clock ();
    self->done = done;
    self->beside = beside;
    if (now - self->next_mark.at >= s_mark_pause) {
        self->mark = self->next_mark;
        self->next_mark = (progress_mark_t) { now, done };
    }
    if (self->show) {
        char line [PROGRESS_LINE_BYTES];
        if (now - self->drawn >= s_draw_pause) {
            self->show (self->context, s_line (self, now, line));
            self->drawn = now;
        }
        return;
    }
    if (self->is_terminal && now - self->began >= s_first_draw && now - self->drawn >= s_draw_pause)
        s_draw (self, now);
    if ((self->log || !self->is_terminal) && now - self->told >= self->pause)
        s_tell (self, now);
}

void
progress_say (progress_t *self, const char *line)
{
    self->line = line;
    progress_tell (self, 0, 0);
    self->line = NULL;
}
