/*  progress -- how far work is that takes long: how much is done, the rate, and the time left.
 *
 *      reading (1 of 2) [####................]  20 % 0:40 left, 12.0 MB/s, 120 MB, 300 samples
 *
 *  On a terminal this is one line of standard error.  It is drawn anew at most five times a second and taken
 *  away at the end.  Where standard error is no terminal, or where there is a log, a line comes after ten
 *  seconds, then after 20 and 40 more, and then each minute.  With a log it is an event "progress" with
 *  fields.  Work of less than half a second shows nothing anywhere.
 *
 *  The work is done in steps.  The rate is that of the last 15 to 30 seconds of a step, and so is the time
 *  left.  Owner: the one thread that works; nothing is shown while it is blocked.
 */
#ifndef PROGRESS_H
#define PROGRESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "log.h"

enum { PROGRESS_LINE_BYTES = 512 };

typedef struct {
    const char *what;                   //  "reading (1 of 2)"; lent until the next step
    const char *unit;                   //  "files", static; NULL: bytes
    const char *beside;                 //  a second number without a rate, "samples", static; NULL: none
    uint64_t total;                     //  0: not known
    uint64_t after;                     //  what comes behind this step, about as fast, in its unit
} progress_step_t;

typedef struct {
    double at;                          //  seconds
    uint64_t done;
} progress_mark_t;

//  Plain data.  All zero is silent.
typedef struct {
    const char *command;                //  "pack"; NULL: nothing is shown
    FILE *stream;                       //  standard error; another one in tests
    bool is_terminal;                   //  the stream is one that a line can be drawn anew on
    log_t *log;                         //  lent; NULL: lines go to the stream if it is no terminal
    //  Gets the line, as often as a terminal, and nothing is written then; NULL: lines are written.
    void (*show) (void *context, const char *line);
    void *context;                      //  show's
    const char *subject;                //  of events: the data set; lent; NULL: none
    double (*clock) (void);             //  seconds
    double began, drawn, told;          //  the whole; the last line on the terminal; the last one elsewhere
    double pause;                       //  until the next of these
    bool is_drawn;                      //  a line stands on the terminal
    progress_step_t step;
    progress_mark_t mark, next_mark;    //  the rate counts from the first one
    uint64_t done, beside;
    const char *line;                   //  progress_say's, while it runs; NULL
} progress_t;

//  is_quiet: nothing is shown.  Looks at standard error.
progress_t progress_begin (const char *command, bool is_quiet);
//  From now on lines are events of the log, and come beside the line on a terminal as well.
void progress_use_log (progress_t *self, log_t *log);
//  A step begins; `done` of it was done before.  NULL as self: nothing happens, here and below.
void progress_step (progress_t *self, const progress_step_t *step, uint64_t done);
//  So much of the step is done, and so much beside it.  Cheap: it reads the clock.
void progress_tell (progress_t *self, uint64_t done, uint64_t beside);
//  As progress_tell, with the progress_line of another process in place of its own figures.
void progress_say (progress_t *self, const char *line);
//  Takes the line away, so that another one can be written; the work goes on.
void progress_clear (progress_t *self);
//  Since progress_begin.
double progress_seconds (const progress_t *self);

//  The line of now: for tests, and for what shows it elsewhere.  Returns line.
const char *progress_line (const progress_t *self, char line [PROGRESS_LINE_BYTES]);

#endif
