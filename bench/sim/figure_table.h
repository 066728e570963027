/*  figure_table -- a table of known figures beside those of a model, as Markdown; each row names the origin
 *  of its figure.
 *
 *  The figure stands in one of three columns, with its place in parentheses: `paper (section)`, given by a
 *  paper's text, table or picture; `derived`, worked out from a paper's figures by the named formula; `own
 *  reference`, of a formula or a program of this project.  Then come `ours`, the model's figure, and ratio,
 *  ours over the figure.
 *  Owner: one thread.
 */
#ifndef FIGURE_TABLE_H
#define FIGURE_TABLE_H
#include <stdbool.h>

typedef enum { FIGURE_PAPER, FIGURE_DERIVED, FIGURE_OWN, FIGURE_ORIGINS } figure_origin_t;

typedef struct {
    bool has_tolerances;            //  a further column; set before the first head
    bool is_within;                 //  all rows so far; true at first
} figure_table_t;

typedef struct {
    figure_origin_t origin;
    const char *from;               //  section, table, picture; formula; program
    double value;
    int decimals;
    //  Of the ratio; 0: the figures are the same; FIGURE_DIFFERS: the row only shows by how much.
    double tolerance;
} figure_t;

enum { FIGURE_DIFFERS = -1 };

void figure_table_head (const figure_table_t *self, const char *title);
void figure_table_row (figure_table_t *self, const char *name, const figure_t *figure, double ours);
//  The same of what a paper's text says in words.
void figure_table_said (const figure_table_t *self, const char *name, const char *from, const char *said,
    const char *ours);

#endif
