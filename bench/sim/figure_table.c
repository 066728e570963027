#include "figure_table.h"
#include <math.h>
#include <stdio.h>

void
figure_table_head (const figure_table_t *self, const char *title)
{
    printf ("\n**%s**\n\n| | paper (section) | derived | own reference | ours | ratio |%s\n"
        "| --- | --- | --- | --- | --- | --- |%s\n", title, self->has_tolerances? " tolerance |": "",
        self->has_tolerances? " --- |": "");
}

//  The first four cells.
static void
s_begin (const char *name, figure_origin_t origin, const char *figure, const char *from)
{
    printf ("| %s |", name);
    for (int at = 0; at < FIGURE_ORIGINS; at++)
        if (at == (int) origin)
            printf (" %s (%s) |", figure, from);
        else
            printf (" |");
}

static void
s_tolerance (figure_table_t *self, const figure_t *figure, double ours)
{
    if (figure->tolerance < 0) {
        printf (" none |");
        return;
    }
    bool is_exact = figure->tolerance == 0;
    bool is_within = is_exact? ours == figure->value: fabs (ours / figure->value - 1) <= figure->tolerance;
    if (is_exact)
        printf (" exact%s |", is_within? "": ": OUT");
    else
        printf (" %.1f %%%s |", 100 * figure->tolerance, is_within? "": ": OUT");
    self->is_within = self->is_within && is_within;
}

void
figure_table_row (figure_table_t *self, const char *name, const figure_t *figure, double ours)
{
    char text [50];
    snprintf (text, sizeof text, "%.*f", figure->decimals, figure->value);
    s_begin (name, figure->origin, text, figure->from);
    printf (" %.*f | %.3f |", figure->decimals, ours, ours / figure->value);
    if (self->has_tolerances)
        s_tolerance (self, figure, ours);
    printf ("\n");
}

void
figure_table_said (const figure_table_t *self, const char *name, const char *from, const char *said,
    const char *ours)
{
    s_begin (name, FIGURE_PAPER, said, from);
    printf (" %s | |%s\n", ours, self->has_tolerances? " |": "");
}
