/*  log -- lines for the operator that never delay the server, and that clients cannot forge.
 *
 *      2026-11-22T14:00:00.123Z info joined tenant=vision job=5 user=1000: job 5 joined: train, ring
 *      time (UTC)               level event key=value ..                 : text for people, to the line's end
 *
 *  Events and keys are words of ours.  A value that is more than letters, digits and _ . / @ + - stands in
 *  double quotes, with \" \\ and \xHH in it, so that the first ": " outside of quotes is where the text
 *  begins.  Text may hold what clients choose: what could end a line, or turn the writing's direction, is
 *  shown as '?' in it; what is too long is cut.
 *
 *  Or, with is_json, each line is a JSON object: "time", "level", "event", then the fields (numbers as
 *  numbers), and the text as "message".  What has no room is cut before it is written, so each line is valid
 *  JSON.
 *
 *  A line is written whole or not at all: if the descriptor takes no more (a pipe without a reader, a stopped
 *  terminal) it is dropped, and the next line says how many were lost.  Owner: the broker's thread.
 */
#ifndef LOG_H
#define LOG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    int descriptor;
    bool is_json;
    uint64_t lost;
} log_t;

enum { LOG_LINE_BYTES_MAX = 1024 };     //  less than PIPE_BUF, so that a pipe takes it at once

//  info: what is in order; notice: what an operator may want to know (a refusal, a client that died);
//  warning: a user loses something (a job that the server ends, a bad sample); error: the server itself has
//  failed.
typedef enum { LOG_LEVEL_INFO, LOG_LEVEL_NOTICE, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR } log_level_t;

typedef struct {
    const char *key;                    //  NULL: the end of the list
    const char *text;                   //  NULL: the number
    uint64_t number;
    bool is_text;                       //  text NULL: the field is left out
} log_field_t;

#define LOG_TEXT(name, value) { .key = (name), .text = (value), .is_text = true }
#define LOG_NUMBER(name, value) { .key = (name), .number = (value) }
//  Left out unless it is known.
#define LOG_NUMBER_IF(is_known, name, value) \
    { .key = (name), .number = (value), .is_text = !(is_known) }
//  LOG_FIELDS (LOG_NUMBER ("job", 5), LOG_TEXT ("tenant", name)): for log_event.
#define LOG_FIELDS(...) ((const log_field_t []) { __VA_ARGS__, { .key = NULL } })

//  One line; fields may be NULL: none.
void log_event (log_t *self, log_level_t level, const char *event, const log_field_t *fields,
    const char *format, ...)
    __attribute__ ((format (printf, 5, 6)));

//  A stream of which each line is an event "start", a warning if it begins so: for what is printed without an
//  event of its own.  The log is lent until fclose.  NULL: no memory.
FILE *log_stream (log_t *self);

//  The line's text alone, without its end: for tests.  seconds and milliseconds since 1970; at most
//  LOG_LINE_BYTES_MAX with the final zero; returns its length.
size_t log_write (char line [LOG_LINE_BYTES_MAX], int64_t seconds, unsigned milliseconds, log_level_t level,
    const char *event, const log_field_t *fields, const char *text);
//  The same as JSON.
size_t log_write_json (char line [LOG_LINE_BYTES_MAX], int64_t seconds, unsigned milliseconds,
    log_level_t level, const char *event, const log_field_t *fields, const char *text);

#endif
