//  `tureen top`: a server, live, in a terminal.

#include "command.h"
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
#include "option.h"
#include "top.h"
#include "tureen.h"

enum { TIMEOUT_MS = 2000, BAR_CELLS = 8, HEAD_ROWS = 4, FOOT_ROWS = 4, WORDS_BYTES = 1024, CONTROL_L = 12 };
enum { JOBS = TOP_KINDS, PAGES };       //  what is shown: a kind of table, or the jobs

typedef struct {
    tureen_options_t server;
    double seconds;
} asked_t;

#define AT(member) OPTION_AT (asked_t, member)
static const option_row_t s_rows [] = {
    COMMAND_SERVER_ROWS (asked_t, server),
    { "seconds", "N", AT (seconds), "how often the server is asked (default: 2)",
        .low = 0.1, .high = 3600, .expected = "0.1 to 3600 seconds" }
};

static const option_table_t s_table = { "tureen top", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: tureen top [--connect ENDPOINT] [--key PATH --server-key KEY] [--seconds N]\n"
    "\n"
    "Shows a running server in a terminal, until `q`.  Its jobs: how far each is in its epoch, how fast,\n"
    "what it waits for, and how much it shares.  Its data: memory, what is read, and what is unreadable.\n"
    "The workers on other machines, the tenants, and the servers that keep blocks together with it.\n"
    "Without a terminal it writes a line for all and a line for each of these, again and again.\n"
    "\n"
    "  1 2 3 4 5  jobs, data, workers, tenants, members; Tab, left and right go from one to the next\n"
    "  up, down   pick a row; the line below says more of it: why a job shares little, if it does\n"
    "  s          sort by the next column; jobs by job, name, rate, waiting time, or how little is shared\n"
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
    int page;                           //  JOBS, or a kind of table
    top_sort_t sort;
    uint64_t picked;                    //  a job's number; 0: none yet
    top_table_t table;                  //  of the page
    size_t columns [TOP_KINDS];         //  by which tables are sorted
    char names [TOP_KINDS][TOP_CELL_BYTES];     //  of the rows that are picked; "": the first one
} top_t;

//  ---- asking

//  0; or -errno, with the sentence in error: what is shown stays as it was.
static int
s_ask (top_t *self)
{
    char *text = NULL;
    int rc = tureen_status_with (&self->asked->server, &text, self->error, sizeof self->error);
    json_t *object = rc? NULL: answer_parse (text, self->error, sizeof self->error);
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
    top_table_clear (&self->table);
    return (top_view_make (&self->view, self->now, self->before, self->sort)
        && (self->page == JOBS || top_table_make (&self->table, &self->view, (top_kind_t) self->page,
        self->columns [self->page]))) || complain ("top", "no memory for what the server answers");
}

static void
s_end (top_t *self)
{
    top_view_clear (&self->view);
    top_table_clear (&self->table);
    json_decref (self->now);
    json_decref (self->before);
}

//  ---- without a terminal

//  "  data train: samples 300, size 1.2 MiB, .."
static bool
s_write_table (top_t *self, top_kind_t kind)
{
    static const char *const names [TOP_KINDS] = { "data", "worker", "tenant", "member" };
    top_table_t *table = &self->table;
    top_table_clear (table);
    if (!top_table_make (table, &self->view, kind, 0))
        return complain ("top", "no memory for what the server answers");
    for (size_t index = 0; index < table->count; index++) {
        printf ("  %s %s:", names [kind], table->rows [index].cells [0]);
        for (size_t column = 1; column < table->column_count; column++)
            printf ("%s %s %s", column > 1? ",": "", table->columns [column].name,
                table->rows [index].cells [column]);
        printf ("\n");
    }
    return true;
}

//  "  shared train: 3 jobs; .."
static void
s_write_shared (const top_t *self)
{
    size_t index;
    const json_t *dataset;
    json_array_foreach (json_object_get (self->now, "datasets"), index, dataset) {
        char text [WORDS_BYTES];
        answer_tree_summary (self->now, dataset, text, sizeof text);
        if (*text)
            printf ("  shared %s: %s\n", answer_text (dataset, "name"), text);
    }
}

//  "  memory 8.0 GB: ..", and "  pins of fast: ..".
static void
s_write_memory (const top_t *self)
{
    char text [WORDS_BYTES];
    answer_memory_words (self->now, text, sizeof text);
    if (*text)
        printf ("  %s\n", text);
    for (size_t index = 0; index < self->view.count; index++) {
        top_view_memory (&self->view, &self->view.rows [index], text, sizeof text);
        if (*text)
            printf ("  pins of %s: %s\n", self->view.rows [index].name, text);
    }
}

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
        for (top_kind_t kind = TOP_DATA; kind < TOP_KINDS; kind++)
            if (!s_write_table (self, kind))
                return 1;
        s_write_shared (self);
        s_write_memory (self);
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

static size_t
s_picked_cells (top_t *self)
{
    char *name = self->names [self->page];
    for (size_t index = 0; index < self->table.count; index++)
        if (strcmp (self->table.rows [index].cells [0], name) == 0)
            return index;
    strcpy (name, self->table.count? self->table.rows [0].cells [0]: "");
    return 0;
}

static size_t
s_row_count (const top_t *self)
{
    return self->page == JOBS? self->view.count: self->table.count;
}

static void
s_draw_job (const top_row_t *row, int y)
{
    char bar [BAR_CELLS + 1];
    int filled = (int) lround (row->progress * BAR_CELLS);
    memset (bar, '.', BAR_CELLS);
    memset (bar, '#', (size_t) (filled < 0? 0: filled > BAR_CELLS? BAR_CELLS: filled));
    bar [BAR_CELLS] = 0;
    mvprintw (y, 0, "%-16.16s %-10.10s %5llu %s %9.0f ", row->name, row->dataset,
        (unsigned long long) row->epoch, bar, row->rate);
    //  Not the first one, the moment before the first draw.
    for (size_t cause = 1; cause < ANSWER_WAITS; cause++)
        printw (" %3.0f", 100 * row->waits [cause]);
    if (row->shared < 0)
        printw ("      - ");
    else
        printw (" %4.0f %% ", 100 * row->shared);
    addnstr (row->waiting_on, 12);
}

static void
s_draw_cells (const top_table_t *table, const top_cells_t *row, int y)
{
    move (y, 0);
    for (size_t column = 0; column < table->column_count; column++) {
        const top_column_t *about = &table->columns [column];
        const char *cell = row? row->cells [column]: about->name;
        printw (about->is_number? "%*.*s ": "%-*.*s ", about->width, about->width, cell);
    }
}

//  "1 jobs  2 data  3 workers  4 tenants  5 members", and of a table the whole in one line.
static void
s_draw_tabs (const top_t *self)
{
    move (1, 0);
    for (int place = 0; place < PAGES; place++) {
        int page = place == 0? JOBS: place - 1;
        if (page == self->page)
            attron (A_REVERSE);
        printw (" %d %s ", place + 1, page == JOBS? "jobs": top_table_name ((top_kind_t) page));
        attroff (A_REVERSE);
        addch (' ');
    }
    if (self->page != JOBS)
        mvaddnstr (2, 0, self->table.head, COLS);
}

static void
s_draw_heads (const top_t *self)
{
    attron (A_BOLD);
    if (self->page == JOBS)
        mvaddnstr (HEAD_ROWS - 1, 0, "JOB              DATA       EPOCH OF IT    SAMPLES/S  RD "
            "MEM DEC CPY OWN % SHARED WAITS FOR", COLS);
    else
        s_draw_cells (&self->table, NULL, HEAD_ROWS - 1);
    attroff (A_BOLD);
}

//  A line more, where there is room.
static int
s_foot_rows (void)
{
    static const int large = 20;
    return LINES >= large? FOOT_ROWS + 1: FOOT_ROWS;
}

//  Over two or three lines, of which the last ends before the foot's last one.
static void
s_draw_words (top_t *self, size_t picked)
{
    char text [WORDS_BYTES];
    if (s_row_count (self) == 0)
        return;
    if (self->page == JOBS) {
        const top_row_t *row = &self->view.rows [picked];
        size_t used = (size_t) snprintf (text, sizeof text, "%s: ", row->name);
        top_view_words (&self->view, row, text + used, sizeof text - used);
    }
    else
        snprintf (text, sizeof text, "%s: %s", self->table.rows [picked].cells [0],
            self->table.rows [picked].words);
    mvprintw (LINES - s_foot_rows () + 1, 0, "%.*s", (s_foot_rows () - 2) * COLS - 1, text);
}

static void
s_draw_foot (const top_t *self)
{
    if (*self->error) {
        attron (A_BOLD);
        mvaddnstr (LINES - s_foot_rows (), 0, self->error, COLS);
        attroff (A_BOLD);
    }
    move (LINES - 1, 0);
    clrtoeol ();
    mvprintw (LINES - 1, 0, "sorted by %s   s sort   up, down pick   Tab next   q end", self->page == JOBS?
        top_sort_name (self->sort): self->table.columns [self->columns [self->page]].name);
}

static void
s_draw (top_t *self)
{
    char head [TOP_TEXT_BYTES];
    int room = LINES - HEAD_ROWS - s_foot_rows ();
    size_t picked = self->page == JOBS? s_picked_row (self): s_picked_cells (self),
        shown = room > 1? (size_t) room: 1, first = picked >= shown? picked - shown + 1: 0;
    erase ();
    top_view_head (&self->view, head);
    mvaddnstr (0, 0, head, COLS);
    s_draw_tabs (self);
    s_draw_heads (self);
    for (size_t index = first; index < s_row_count (self) && index < first + shown; index++) {
        int y = HEAD_ROWS + (int) (index - first);
        if (index == picked)
            attron (A_REVERSE);
        if (self->page == JOBS)
            s_draw_job (&self->view.rows [index], y);
        else
            s_draw_cells (&self->table, &self->table.rows [index], y);
        attroff (A_REVERSE);
    }
    if (s_row_count (self) == 0)
        mvprintw (HEAD_ROWS, 0, "there are none");
    s_draw_words (self, picked);
    s_draw_foot (self);
    refresh ();
}

static void
s_move (top_t *self, int by)
{
    size_t picked = self->page == JOBS? s_picked_row (self): s_picked_cells (self),
        count = s_row_count (self);
    if (by < 0 && picked > 0)
        picked--;
    if (by > 0 && picked + 1 < count)
        picked++;
    if (count > 0 && self->page == JOBS)
        self->picked = self->view.rows [picked].job;
    if (count > 0 && self->page != JOBS)
        strcpy (self->names [self->page], self->table.rows [picked].cells [0]);
}

//  place: 0 the jobs, then the tables; wraps around.
static void
s_turn_to (top_t *self, int place)
{
    place = (place + PAGES) % PAGES;
    self->page = place == 0? JOBS: place - 1;
}

static void
s_sort (top_t *self)
{
    if (self->page == JOBS)
        self->sort = (self->sort + 1) % TOP_SORTS;
    else {
        size_t *column = &self->columns [self->page];
        *column = (*column + 1) % top_table_columns ((top_kind_t) self->page);
    }
}

//  False: the end.
static bool
s_take_key (top_t *self, int key)
{
    int place = self->page == JOBS? 0: self->page + 1;
    if (key == KEY_UP || key == 'k' || key == KEY_DOWN || key == 'j')
        s_move (self, key == KEY_UP || key == 'k'? -1: 1);
    if (key == '\t' || key == KEY_RIGHT)
        s_turn_to (self, place + 1);
    if (key == KEY_BTAB || key == KEY_LEFT)
        s_turn_to (self, place - 1);
    if (key >= '1' && key < '1' + PAGES)
        s_turn_to (self, key - '1');
    if (key == CONTROL_L)
        clearok (curscr, TRUE);         //  draws all of it anew, whatever another program has written there
    if (key == 's')
        s_sort (self);
    return key != 'q' && key != 'Q';
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
        goes_on = s_take_key (self, getch ());
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
    top_t top = { .asked = &asked, .page = JOBS };
    const char *terminal = getenv ("TERM");
    bool has_terminal = isatty (STDOUT_FILENO) && isatty (STDIN_FILENO) && terminal && *terminal;
    status = has_terminal? s_show (&top): s_write_lines (&top);
    s_end (&top);
    return status;
}

int
command_top (int argc, char **argv)
{
    complain_begin ();
    return complain_of_output ("top", s_run (argc, argv));
}
