/*  top_table -- what `tureen top` shows beside jobs: data, members of a cluster,
 *  workers and tenants, as tables of texts.
 *
 *  No terminal and no socket: command_top.c has those.  Owner: one thread.
 */
#ifndef TOP_TABLE_H
#define TOP_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>
#include "top_view.h"

typedef enum { TOP_DATA, TOP_WORKERS, TOP_TENANTS, TOP_MEMBERS, TOP_KINDS } top_kind_t;

enum { TOP_COLUMNS_MAX = 9, TOP_CELL_BYTES = 48 };

typedef struct {
    const char *name;                   //  "SAMPLES"
    int width;
    bool is_number;                     //  to the right; the largest first where it is sorted by
} top_column_t;

typedef struct {
    char cells [TOP_COLUMNS_MAX][TOP_CELL_BYTES];       //  safe for a terminal
    double values [TOP_COLUMNS_MAX];    //  of numbers
    char words [TOP_TEXT_BYTES];        //  what there is to say of it; safe for a terminal
} top_cells_t;

typedef struct {
    const top_column_t *columns;        //  static
    size_t column_count;
    top_cells_t *rows;
    size_t count;
    char head [TOP_TEXT_BYTES];         //  the whole in one line; "": nothing to say
} top_table_t;

//  "data", "workers", "tenants", "members"; static.
const char *top_table_name (top_kind_t kind);
//  How many columns the tables of this kind have; the first one is the name.
size_t top_table_columns (top_kind_t kind);
//  view: the answers, and the time between them.  Rows stand by the values of the column `sort`.  False: no
//  memory.
bool top_table_make (top_table_t *self, const top_view_t *view, top_kind_t kind, size_t sort);
void top_table_clear (top_table_t *self);

#endif
