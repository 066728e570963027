/*  top -- what `tureen top` shows: two answers of the server's status as rows, sorted, and in words.  Its
 *  jobs; and as tables of texts its data, workers and tenants, and the members of its cluster.
 *
 *  No terminal and no socket: command_top.c has those.  Owner: one thread.
 */
#ifndef TOP_H
#define TOP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "answer.h"

//  ---- jobs

enum { TOP_TEXT_BYTES = 256 };

typedef enum { TOP_BY_JOB, TOP_BY_NAME, TOP_BY_RATE, TOP_BY_WAIT, TOP_BY_SHARED, TOP_SORTS } top_sort_t;

typedef struct {
    uint64_t job;
    char name [TOP_TEXT_BYTES];         //  safe for a terminal
    char dataset [TOP_TEXT_BYTES];
    uint64_t epoch;
    double progress;                    //  of its epoch, 0 to 1
    double rate;                        //  samples a second
    double waits [ANSWER_WAITS];        //  parts of the time between the answers
    double shared;                      //  part of its samples that served other jobs; below 0: it drew none
    const char *waiting_on;             //  of `now`
} top_row_t;

typedef struct {
    const json_t *now, *before;         //  lent; before: NULL: there is none yet
    double seconds;                     //  between them; 0: unknown
    double delivered, prepared;         //  samples a second; below 0: unknown
    top_row_t *rows;
    size_t count;
} top_view_t;

//  False: no memory.  before may be another server's: then it does not count.
bool top_view_make (top_view_t *self, const json_t *now, const json_t *before, top_sort_t sort);
void top_view_clear (top_view_t *self);

//  "rate"; static.
const char *top_sort_name (top_sort_t sort);
//  The line on top.  Safe for a terminal.
void top_view_head (const top_view_t *self, char text [TOP_TEXT_BYTES]);
//  Why the row's job shares little, as the server has told it, or what it shares.  Safe for a terminal.
void top_view_words (const top_view_t *self, const top_row_t *row, char *text, size_t text_bytes);
//  What pins save the row's job, alone (memory_answer.h).  Safe for a terminal.
void top_view_memory (const top_view_t *self, const top_row_t *row, char *text, size_t text_bytes);

//  ---- the tables beside

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
