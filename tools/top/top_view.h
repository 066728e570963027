/*  top_view -- what `tureen top` shows: two answers of the server's status as rows, sorted, and in words.
 *
 *  No terminal and no socket: command_top.c has those.  Owner: one thread.
 */
#ifndef TOP_VIEW_H
#define TOP_VIEW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "answer.h"

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

#endif
