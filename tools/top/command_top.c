#include "command_top.h"
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <curses.h>
#include <jansson.h>
#include "complain.h"
#include "option_server.h"
#include "output.h"
#include "top_view.h"
#include "tureen.h"

enum { TIMEOUT_MS = 2000, BAR_CELLS = 10, HEAD_ROWS = 3, FOOT_ROWS = 4, WORDS_BYTES = 1024, CONTROL_L = 12 };

typedef struct {
    tureen_options_t server;
    double seconds;
} asked_t;

#define AT(member) OPTION_AT (asked_t, member)
static const option_row_t s_rows [] = {
    OPTION_SERVER_ROWS (asked_t, server),
    { "seconds", "N", AT (seconds), "how often the server is asked (default: 2)",
        .low = 0.1, .high = 3600, .expected = "0.1 to 3600 seconds" }
};

static const option_table_t s_table = { "tureen top", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: tureen top [--connect ENDPOINT] [--key PATH --server-key KEY] [--seconds N]\n"
    "\n"
    "Shows the jobs of a running server in a terminal, until `q`: how far each is in its epoch, how fast,\n"
    "what it waits for, and how much it shares.  Without a terminal it writes a line for all of them and\n"
    "a line for each job, again and again.\n"
    "\n"
    "  up, down   pick a job; the line below says why it shares little, if it does\n"
    "  s          sort by job, name, rate, waiting time, or by how little is shared\n"
    "  Ctrl-L     draw all of it anew\n"
    "  q          end\n"
    "\n", .after =
    "\n"
    "Exit status: 0 ended by q, 1 no answer, 2 unusable arguments.\n" };

//  What there is to show, and how.
typedef struct {
    const asked_t *asked;
    json_t *now, *before;
    char error [TUREEN_ERROR_BYTES];    //  of the last question; "": it was answered
    top_view_t view;
    top_sort_t sort;
    uint64_t picked;                    //  a job's number; 0: none yet
} top_t;

//  ---- asking

//  0; or -errno, with the sentence in error: what is shown stays as it was.
static int
s_ask (top_t *self)
{
    char *text = NULL;
    int rc = tureen_status_with (&self->asked->server, &text, self->error, sizeof self->error);
    json_t *object = rc? NULL: json_loads (text, 0, NULL);
    free (text);
    if (!object)
        return rc? rc: -EPROTO;
    self->error [0] = 0;
    json_decref (self->before);
    self->before = self->now;
    self->now = object;
    return 0;
}

static bool
s_look (top_t *self)
{
    top_view_clear (&self->view);
    return top_view_make (&self->view, self->now, self->before, self->sort)
        || complain ("top", "no memory for the jobs");
}

static void
s_end (top_t *self)
{
    top_view_clear (&self->view);
    json_decref (self->now);
    json_decref (self->before);
}

//  ---- without a terminal

static int
s_write_lines (top_t *self)
{
    struct timespec pause = { .tv_sec = (time_t) self->asked->seconds };
    pause.tv_nsec = (long) ((self->asked->seconds - (double) pause.tv_sec) * 1e9);
    for (;;) {
        char head [TOP_TEXT_BYTES];
        int rc = s_ask (self);
        if (rc) {
            complain_of_options ("top", self->error);
            return rc == -EINVAL? 2: 1;
        }
        if (!s_look (self))
            return 1;
        top_view_head (&self->view, head);
        printf ("%s\n", head);
        for (size_t index = 0; index < self->view.count; index++) {
            const top_row_t *row = &self->view.rows [index];
            printf ("  %s on %s: epoch %llu, %.0f %%, %.0f/s, read %.0f %%, decode %.0f %%, copy %.0f %%\n",
                row->name, row->dataset, (unsigned long long) row->epoch, 100 * row->progress, row->rate,
                100 * row->waits [1], 100 * row->waits [3], 100 * row->waits [4]);
        }
        if (fflush (stdout) != 0)
            return 1;
        nanosleep (&pause, NULL);
    }
}

//  ---- on a terminal

static size_t
s_picked_row (top_t *self)
{
    for (size_t index = 0; index < self->view.count; index++)
        if (self->view.rows [index].job == self->picked)
            return index;
    self->picked = self->view.count? self->view.rows [0].job: 0;
    return 0;
}

static void
s_draw_row (const top_row_t *row, int y)
{
    char bar [BAR_CELLS + 1];
    int filled = (int) lround (row->progress * BAR_CELLS);
    memset (bar, '.', BAR_CELLS);
    memset (bar, '#', (size_t) (filled < 0? 0: filled > BAR_CELLS? BAR_CELLS: filled));
    bar [BAR_CELLS] = 0;
    mvprintw (y, 0, "%-20.20s %-12.12s %6llu %s %8.0f   %3.0f %3.0f %3.0f %3.0f   ", row->name, row->dataset,
        (unsigned long long) row->epoch, bar, row->rate, 100 * row->waits [1], 100 * row->waits [3],
        100 * row->waits [4], 100 * row->waits [5]);
    if (row->shared < 0)
        printw ("     -  ");
    else
        printw ("%4.0f %%  ", 100 * row->shared);
    addnstr (row->waiting_on, 12);
}

static void
s_draw (top_t *self)
{
    char text [WORDS_BYTES], head [TOP_TEXT_BYTES];
    int room = LINES - HEAD_ROWS - FOOT_ROWS;
    size_t picked = s_picked_row (self), shown = room > 1? (size_t) room: 1,
        first = picked >= shown? picked - shown + 1: 0;
    erase ();
    top_view_head (&self->view, head);
    mvaddnstr (0, 0, head, COLS);
    attron (A_BOLD);
    mvaddnstr (2, 0, "JOB                  DATA          EPOCH OF IT      SAMPLES/S  DISK DEC CPY OWN %  "
        "SHARED  WAITS FOR", COLS);
    attroff (A_BOLD);
    for (size_t index = first; index < self->view.count && index < first + shown; index++) {
        if (index == picked)
            attron (A_REVERSE);
        s_draw_row (&self->view.rows [index], HEAD_ROWS + (int) (index - first));
        attroff (A_REVERSE);
    }
    if (self->view.count > 0) {
        const top_row_t *row = &self->view.rows [picked];
        size_t used = (size_t) snprintf (text, sizeof text, "%s: ", row->name);
        top_view_words (&self->view, row, text + used, sizeof text - used);
        //  Over two lines, of which the second ends before the last one.
        mvprintw (LINES - 3, 0, "%.*s", 2 * COLS - 1, text);
    }
    if (*self->error) {
        attron (A_BOLD);
        mvaddnstr (LINES - 4, 0, self->error, COLS);
        attroff (A_BOLD);
    }
    move (LINES - 1, 0);
    clrtoeol ();
    mvprintw (LINES - 1, 0, "sorted by %s   s sort   up, down pick   q end", top_sort_name (self->sort));
    refresh ();
}

static void
s_move (top_t *self, int by)
{
    size_t picked = s_picked_row (self);
    if (by < 0 && picked > 0)
        picked--;
    if (by > 0 && picked + 1 < self->view.count)
        picked++;
    if (self->view.count > 0)
        self->picked = self->view.rows [picked].job;
}

static double
s_seconds (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

//  Until `q`.  A server that goes is looked for again, and what it said last stays.
static void
s_interact (top_t *self)
{
    double due = s_seconds () + self->asked->seconds;
    bool goes_on = true;
    while (goes_on) {
        s_draw (self);
        double left = due - s_seconds ();
        timeout (left > 0? (int) (left * 1000) + 1: 0);
        int key = getch ();
        goes_on = key != 'q' && key != 'Q';
        if (key == KEY_UP || key == 'k' || key == KEY_DOWN || key == 'j')
            s_move (self, key == KEY_UP || key == 'k'? -1: 1);
        if (key == CONTROL_L)
            clearok (curscr, TRUE);     //  draws all of it anew, whatever another program has written there
        if (key == 's')
            self->sort = (self->sort + 1) % TOP_SORTS;
        if (s_seconds () >= due) {
            s_ask (self);
            due = s_seconds () + self->asked->seconds;
        }
        if (!s_look (self))
            return;
    }
}

static int
s_show (top_t *self)
{
    int rc = s_ask (self);
    if (rc) {
        complain_of_options ("top", self->error);
        return rc == -EINVAL? 2: 1;
    }
    setlocale (LC_ALL, "");
    if (!s_look (self) || !initscr ())
        return 1;
    cbreak ();
    noecho ();
    curs_set (0);
    keypad (stdscr, TRUE);
    s_interact (self);
    endwin ();
    return 0;
}

static int
s_run (int argc, char **argv)
{
    asked_t asked = { .server = { .timeout_ms = TIMEOUT_MS }, .seconds = 2 };
    option_result_t result;
    int status = option_parse (&s_table, &asked, argc, argv, &result);
    if (status >= 0)
        return status;
    top_t top = { .asked = &asked };
    const char *terminal = getenv ("TERM");
    bool has_terminal = isatty (STDOUT_FILENO) && isatty (STDIN_FILENO) && terminal && *terminal;
    status = has_terminal? s_show (&top): s_write_lines (&top);
    s_end (&top);
    return status;
}

int
command_top (int argc, char **argv)
{
    output_begin ();
    return output_end ("top", s_run (argc, argv));
}
