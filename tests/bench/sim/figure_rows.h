/*  figure_rows -- the rows of a figure_table as a simulator prints them, for tests.  */
#ifndef FIGURE_ROWS_H
#define FIGURE_ROWS_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIGURE_ROWS_PAPER, FIGURE_ROWS_DERIVED, FIGURE_ROWS_OWN, FIGURE_ROWS_ORIGINS };
enum { FIGURE_ROWS_CELLS = 7, FIGURE_ROWS_LINE = 400 };

typedef struct {
    char cells [FIGURE_ROWS_CELLS] [FIGURE_ROWS_LINE];      //  name, the origins, ours, ratio, tolerance
    int count;
} figure_row_t;

#define FIGURE_ROWS_HEAD "| | paper (section) | derived | own reference | ours | ratio |"

//  The cells of a line, without the blanks around them.
static inline figure_row_t
figure_rows_split (const char *line)
{
    figure_row_t row = { .count = 0 };
    for (const char *at = line + 1; row.count < FIGURE_ROWS_CELLS; ) {
        const char *bar = strpbrk (at, "|\n");
        if (!bar || *bar == '\n')
            break;
        const char *from = at + strspn (at, " "), *to = bar;
        while (to > from && to [-1] == ' ')
            to--;
        assert_true (to - from < FIGURE_ROWS_LINE);
        memcpy (row.cells [row.count++], from, (size_t) (to - from));
        at = bar + 1;
    }
    return row;
}

//  The origin of a row; fails unless exactly one of its three cells has a figure, with where it is from in
//  parentheses.
static inline int
figure_rows_origin (const figure_row_t *row)
{
    int origin = -1;
    for (int at = 0; at < FIGURE_ROWS_ORIGINS; at++) {
        const char *cell = row->cells [1 + at];
        if (!*cell)
            continue;
        if (origin >= 0)
            fail_msg ("row '%s' has two origins", row->cells [0]);
        const char *from = strstr (cell, " (");
        if (!from || strlen (from) < strlen (" (x)") || cell [strlen (cell) - 1] != ')')
            fail_msg ("row '%s': '%s' does not say where it is from", row->cells [0], cell);
        origin = at;
    }
    if (origin < 0)
        fail_msg ("row '%s' has no origin", row->cells [0]);
    return origin;
}

//  counts: rows of each origin in all tables.  Fails if a row has none or two, if a table with ratios lacks
//  the columns of origins, or if the text calls anything published.
static inline void
figure_rows_count (const char *text, int counts [FIGURE_ROWS_ORIGINS])
{
    memset (counts, 0, FIGURE_ROWS_ORIGINS * sizeof *counts);
    if (strcasestr (text, "published"))
        fail_msg ("'published': %.60s", strcasestr (text, "published"));
    bool is_inside = false;
    for (const char *line = text; *line; line += strcspn (line, "\n"), line += *line == '\n') {
        bool is_head = strncmp (line, FIGURE_ROWS_HEAD, strlen (FIGURE_ROWS_HEAD)) == 0;
        if (strncmp (line, "| |", 3) == 0 && !is_head) {
            figure_row_t head = figure_rows_split (line);
            for (int at = 0; at < head.count; at++)
                if (strcmp (head.cells [at], "ratio") == 0)
                    fail_msg ("a table of ratios without origins: %.80s", line);
        }
        is_inside = is_head || (is_inside && *line == '|');
        if (!is_inside || is_head || strncmp (line, "| ---", 5) == 0)
            continue;
        figure_row_t row = figure_rows_split (line);
        counts [figure_rows_origin (&row)]++;
    }
}

//  The first row of that name.
static inline figure_row_t
figure_rows_find (const char *text, const char *name)
{
    char begin [FIGURE_ROWS_LINE];
    snprintf (begin, sizeof begin, "\n| %s |", name);
    const char *at = strstr (text, begin);
    if (!at)
        fail_msg ("no row '%s'", name);
    return figure_rows_split (at + 1);
}

//  Fails unless the first row of that name has an origin and a cell of it that begins so.
static inline void
figure_rows_expect (const char *text, const char *name, int origin, const char *cell)
{
    figure_row_t row = figure_rows_find (text, name);
    assert_int_equal (figure_rows_origin (&row), origin);
    if (strncmp (row.cells [1 + origin], cell, strlen (cell)))
        fail_msg ("row '%s': '%s' in place of '%s'", name, row.cells [1 + origin], cell);
}

#endif
