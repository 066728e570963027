/*  option -- the options of a command as rows of a table: parsing, errors and --help come from it.
 *
 *      #define AT(member) OPTION_AT (read_t, member)
 *      static const option_row_t rows [] = {
 *          { "name", "TEXT", AT (name), "for people" },
 *          { "batch", "N", AT (batch), "samples in a batch (64)", 1, 65536 },
 *          { "subset", "LO:HI", OPTION_CALL (s_subset), "only these samples" },
 *          { "json", NULL, AT (json), "print one JSON object" }
 *      };
 *      static const option_table_t table = { "tureen read", rows, OPTION_ROWS (rows), .before = "usage..." };
 *
 *  A row's value goes into a member of the command's own structure, the target.  The member's type says how
 *  the value is read.  Texts are lent from argv; a `char *` is a copy that belongs to the target.
 *
 *  An error is a text without a new line, cut where it does not fit.  Nothing here has state of its own: any
 *  thread.
 */
#ifndef OPTION_H
#define OPTION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { OPTION_ERROR_BYTES = 1024, OPTION_ROWS_MAX = 48 };

typedef enum {
    OPTION_FUNCTION,
    OPTION_FLAG,            //  bool
    OPTION_TEXT,            //  const char *
    OPTION_COPY,            //  char *
    OPTION_COUNT,           //  uint32_t; an enum too
    OPTION_LARGE_COUNT,     //  uint64_t
    OPTION_REAL             //  double
} option_kind_t;

typedef enum {
    OPTION_PLAIN,           //  digits
    OPTION_SCALED,          //  then perhaps K, M or G, 1024 each
    OPTION_BYTES            //  as option_size has it
} option_unit_t;

//  Reads a value into the target.  False: error says what was expected.
typedef bool (option_take_fn) (void *target, char *text, char error [OPTION_ERROR_BYTES]);

typedef struct {
    const char *name;               //  without its dashes
    const char *argument;           //  as --help calls the value; NULL: a flag; "[N]": it may be left out
    option_take_fn *take;           //  for OPTION_FUNCTION; these three are OPTION_AT or OPTION_CALL
    option_kind_t kind;
    size_t offset;
    const char *help;               //  lines; NULL: shares that of the row below
    uint64_t least, most;           //  of a count; most 0: what its type holds
    option_unit_t unit;
    const char *const *choices;     //  up to a NULL; a count becomes least and the place of the choice in it
    double low, high;               //  of an OPTION_REAL
    const char *expected;           //  what an error says was expected, where it is not obvious
    char *absent;                   //  the value of "[N]" where it is left out
    const char *heading;            //  a line above this row in --help; a group begins
    int role;                       //  the command's own
    const char *older;              //  the name that it had before, which is accepted; NULL: none
} option_row_t;

#define OPTION_AT(type, member) \
    .kind = _Generic (((type *) 0)->member, bool: OPTION_FLAG, const char *: OPTION_TEXT, \
        char *: OPTION_COPY, uint32_t: OPTION_COUNT, uint64_t: OPTION_LARGE_COUNT, double: OPTION_REAL), \
    .offset = offsetof (type, member)
#define OPTION_CALL(function) .take = function, .kind = OPTION_FUNCTION, .offset = 0
#define OPTION_ROWS(rows) (sizeof (rows) / sizeof *(rows))
#define OPTION_CHOICES(...) (const char *const []) { __VA_ARGS__, NULL }

typedef struct {
    const char *program;            //  "tureen read"
    const option_row_t *rows;
    size_t count;                   //  at most OPTION_ROWS_MAX
    size_t words_max;               //  arguments that are no options
    const char *word_hint;          //  what to say of one too many; NULL: see --help
    bool (*is_word) (const char *text);         //  although it begins with a dash; NULL: no word does
    const char *before, *after;     //  what --help says around the options
    //  Names are not shortened, a value does not begin with "--", and a flag may be given as --flag=0.
    bool is_strict;
    //  Takes a value in place of option_value; error is then the whole message.  NULL: option_value.
    bool (*set) (void *target, const option_row_t *row, char *text, char error [OPTION_ERROR_BYTES]);
} option_table_t;

typedef struct {
    char **words;                   //  in argv
    size_t word_count;
    size_t given [OPTION_ROWS_MAX]; //  how often, by the row's place
} option_result_t;

typedef enum { OPTION_RUN, OPTION_HELP, OPTION_WRONG } option_status_t;

//  Reads the arguments after argv [0] up to argv [argc], which is NULL, and moves words to the front of them.
//  OPTION_WRONG: error says why.
option_status_t option_read (const option_table_t *table, void *target, int argc, char **argv,
    option_result_t *result, char error [OPTION_ERROR_BYTES]);
//  The same for a command.  -1: go on; else its exit status: --help was printed (0), or standard error says
//  what is wrong (2).
int option_parse (const option_table_t *table, void *target, int argc, char **argv, option_result_t *result);
void option_help (const option_table_t *table, FILE *stream);
//  How often the option was given.
size_t option_given (const option_table_t *table, const option_result_t *result, const char *name);
//  Finds an option's row by its name or its older name.  NULL: no option has it.
const option_row_t *option_row (const option_table_t *table, const char *name);
//  The first form that --help shows of the row's value.  text has room for it.
enum { OPTION_FORM_BYTES = 64 };
const char *option_form (const option_row_t *row, char text [OPTION_FORM_BYTES]);

//  ---- names

enum { OPTION_NAME_BYTES_MAX = 64 };    //  longer names are near to none

//  The one of count names that was probably meant: it differs from name by one or two typing errors; else the
//  longest that is part of it (as `workers` is of `num-workers`), else the shortest of which it is a part.
//  NULL: none is near.
const char *option_nearest (const char *name, const char *const *names, size_t count);

//  ---- for functions that take a value

//  Checks one value and keeps it.  False: error says what was expected.
bool option_value (const option_row_t *row, void *target, char *text, char error [OPTION_ERROR_BYTES]);
//  Writes the error.  Returns false.
bool option_fail (char error [OPTION_ERROR_BYTES], const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
//  Digits, then perhaps one of units, which stand for 1024, 1024^2 and so on.  *end_p is where they end.
bool option_digits (const char *text, const char *units, uint64_t *number_p, const char **end_p);
//  "64M" -> 67108864: digits, then nothing, K, M, G or T (1024 each), an optional "iB" or "B".  False: not a
//  size, or over 2^63.
bool option_size (const char *text, uint64_t *bytes_p);
//  A decimal number up to `end`, which must follow; *next_p is behind that.
bool option_real (const char *text, char end, double *number_p, const char **next_p);

#endif
