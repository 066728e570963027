#include "option.h"
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"
#include "xalloc.h"

enum { HELP_COLUMN = 23, HEAD_BYTES = 256, LIST_BYTES = 256, SHOWN_BYTES = 400,
    HELP_BYTES_MAX = 1 << 16 };

static const option_row_t s_help_row = { .name = "help", .help = "this text" };

bool
option_fail (char error [OPTION_ERROR_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (error, OPTION_ERROR_BYTES, format, arguments);
    va_end (arguments);
    return false;
}

//  ---- names

enum { CHANGES_MAX = 2,                 //  three make another word
    PART_BYTES_MIN = 3 };               //  shorter ones are in many

static size_t
s_least (size_t one, size_t other)
{
    return one < other? one: other;
}

//  Changes that make one name of the other, for names of up to OPTION_NAME_BYTES_MAX: a character more, less
//  or another, or two neighbours in the other order.
static size_t
s_distance (const char *left, const char *right)
{
    size_t rows [3] [OPTION_NAME_BYTES_MAX + 1], columns = strlen (right), line = 0;
    assert (columns <= OPTION_NAME_BYTES_MAX);
    for (size_t column = 0; column <= columns; column++)
        rows [0] [column] = column;
    for (; left [line]; line++) {
        const size_t *older = rows [(line + 2) % 3], *old = rows [line % 3];
        size_t *row = rows [(line + 1) % 3];
        row [0] = line + 1;
        for (size_t column = 1; column <= columns; column++) {
            size_t changed = old [column - 1] + (left [line] != right [column - 1]);
            row [column] = s_least (changed, s_least (row [column - 1], old [column]) + 1);
            if (line && column > 1 && left [line] == right [column - 2]
                && left [line - 1] == right [column - 1])
                row [column] = s_least (row [column], older [column - 2] + 1);
        }
    }
    return rows [line % 3] [columns];
}

static const char *
s_part (const char *name, const char *const *names, size_t count)
{
    const char *part = NULL, *whole = NULL;
    for (size_t index = 0; index < count; index++) {
        size_t size = strlen (names [index]);
        if (size >= PART_BYTES_MIN && strstr (name, names [index]) && (!part || size > strlen (part)))
            part = names [index];
        if (strlen (name) >= PART_BYTES_MIN && strstr (names [index], name)
            && (!whole || size < strlen (whole)))
            whole = names [index];
    }
    return part? part: whole;
}

const char *
option_nearest (const char *name, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t best = CHANGES_MAX + 1;
    if (strlen (name) > OPTION_NAME_BYTES_MAX)
        return NULL;
    for (size_t index = 0; index < count; index++) {
        size_t distance = s_distance (name, names [index]);
        if (distance < best && distance < strlen (names [index])) {
            best = distance;
            nearest = names [index];
        }
    }
    return nearest? nearest: s_part (name, names, count);
}

//  ---- numbers

bool
option_digits (const char *text, const char *units, uint64_t *number_p, const char **end_p)
{
    uint64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow (number, 10, &number)
            || __builtin_add_overflow (number, (uint64_t) (*at - '0'), &number))
            return false;
    const char *unit = *at? strchr (units, *at): NULL;
    if (at == text
        || (unit && __builtin_mul_overflow (number, UINT64_C (1) << 10 * (unit - units + 1), &number)))
        return false;
    *number_p = number;
    *end_p = at + (unit != NULL);
    return true;
}

bool
option_size (const char *text, uint64_t *bytes_p)
{
    uint64_t bytes;
    const char *end;
    if (!option_digits (text, "KMGT", &bytes, &end) || bytes > UINT64_C (1) << 63
        || (*end && strcmp (end, "B") && (isdigit ((unsigned char) end [-1]) || strcmp (end, "iB"))))
        return false;
    *bytes_p = bytes;
    return true;
}

bool
option_real (const char *text, char end, double *number_p, const char **next_p)
{
    char *stop;
    *number_p = strtod (text, &stop);
    *next_p = stop + 1;
    return stop > text && stop == text + strspn (text, "0123456789.eE+-") && *stop == end
        && isfinite (*number_p);
}

//  ---- values

static bool
s_number (const option_row_t *row, const char *text, uint64_t *number_p)
{
    const char *end;
    uint64_t most = row->most? row->most: row->kind == OPTION_COUNT? UINT32_MAX: UINT64_MAX;
    bool good = row->unit == OPTION_BYTES? option_size (text, number_p):
        option_digits (text, row->unit == OPTION_SCALED? "KMG": "", number_p, &end) && !*end;
    return good && *number_p >= row->least && *number_p <= most;
}

static bool
s_choice (const option_row_t *row, const char *text, size_t *choice_p)
{
    for (*choice_p = 0; row->choices [*choice_p]; ++*choice_p)
        if (strcmp (row->choices [*choice_p], text) == 0)
            return true;
    return false;
}

//  Says what the row expects.
static bool
s_fail_value (const option_row_t *row, char error [OPTION_ERROR_BYTES])
{
    if (row->expected)
        return option_fail (error, "expected %s", row->expected);
    if (row->kind == OPTION_FLAG && !row->choices)
        return option_fail (error, "expected 1 or 0");
    if (row->unit == OPTION_BYTES)
        return option_fail (error, "expected a size in bytes, as in 512M or 4G");
    if (!row->choices)
        return option_fail (error, "expected a number from %" PRIu64 " to %" PRIu64, row->least,
            row->most? row->most: row->kind == OPTION_COUNT? UINT32_MAX: UINT64_MAX);
    char list [LIST_BYTES] = "";
    for (size_t index = 0, used = 0; row->choices [index]; index++)
        used += (size_t) snprintf (list + used, sizeof list - used, "%s%s",
            index == 0? "": row->choices [index + 1]? ", ": " or ", row->choices [index]);
    return option_fail (error, "expected %s", list);
}

bool
option_value (const option_row_t *row, void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    if (row->kind == OPTION_FUNCTION)
        return row->take (target, text, error);
    void *place = (char *) target + row->offset;
    const char *kept = text, *end;
    uint64_t number = 0;
    size_t choice = 0;
    bool is_text = row->kind == OPTION_TEXT || row->kind == OPTION_COPY, good = is_text;
    if (row->choices) {
        good = s_choice (row, text, &choice);
        kept = row->choices [choice];
        number = row->least + choice;
    }
    else
    if (row->kind == OPTION_FLAG) {
        number = *text == '1';
        good = (*text == '0' || *text == '1') && !text [1];
    }
    else
    if (row->kind == OPTION_REAL)
        good = option_real (text, '\0', place, &end) && *(double *) place >= row->low
            && *(double *) place <= row->high;
    else
    if (!is_text)
        good = s_number (row, text, &number);
    if (!good)
        return s_fail_value (row, error);
    if (row->kind == OPTION_COPY) {
        free (*(char **) place);
        *(char **) place = xalloc_memory (strdup (kept));
    }
    if (row->kind == OPTION_FLAG)
        *(bool *) place = number;
    if (row->kind == OPTION_TEXT)
        *(const char **) place = kept;
    if (row->kind == OPTION_COUNT)
        *(uint32_t *) place = (uint32_t) number;
    if (row->kind == OPTION_LARGE_COUNT)
        *(uint64_t *) place = number;
    return true;
}

//  ---- names

const option_row_t *
option_row (const option_table_t *table, const char *name)
{
    for (size_t index = 0; index < table->count; index++)
        if (strcmp (table->rows [index].name, name) == 0
            || (table->rows [index].older && strcmp (table->rows [index].older, name) == 0))
            return &table->rows [index];
    return NULL;
}

//  The name that was probably meant; NULL: none is near.
static const char *
s_nearest (const option_table_t *table, const char *name)
{
    const char *names [OPTION_ROWS_MAX + 1] = { s_help_row.name };
    for (size_t index = 0; index < table->count; index++)
        names [index + 1] = table->rows [index].name;
    return *name? option_nearest (name, names, table->count + 1): NULL;
}

size_t
option_given (const option_table_t *table, const option_result_t *result, const char *name)
{
    const option_row_t *row = option_row (table, name);
    assert (row);
    return result->given [row - table->rows];
}

const char *
option_form (const option_row_t *row, char text [OPTION_FORM_BYTES])
{
    const char *end = strstr (row->argument, ", ");
    snprintf (text, OPTION_FORM_BYTES, "%.*s", end? (int) (end - row->argument): OPTION_FORM_BYTES - 1,
        row->argument);
    return text;
}

//  Finds the row of a name, which may be the beginning of one, as with getopt_long.  NULL: error says why
//  not.
static const option_row_t *
s_find (const option_table_t *table, const char *given, const char *name, char error [OPTION_ERROR_BYTES])
{
    char shown [SHOWN_BYTES];
    const option_row_t *found = option_row (table, name), *begun = NULL;
    size_t meant = 0, size = table->is_strict? 0: strlen (name);
    for (size_t index = 0; !found && size && index <= table->count; index++) {
        const option_row_t *row = index < table->count? &table->rows [index]: &s_help_row;
        begun = strncmp (row->name, name, size)? begun: row;
        meant += begun == row;
    }
    if (found || meant == 1)
        return found? found: begun;
    if (strcmp (name, s_help_row.name) == 0)
        return &s_help_row;
    const char *nearest = s_nearest (table, name);
    if (meant > 1)
        option_fail (error, "option '--%s' is ambiguous: %zu begin so; see `%s --help`", name, meant,
            table->program);
    else
    if (nearest)
        option_fail (error, "unknown option '--%s'; did you mean '--%s'?", name, nearest);
    else
        option_fail (error, "unknown option '%s'; see `%s --help`",
            utf8_visible (given, strlen (given), shown, sizeof shown), table->program);
    return NULL;
}

//  ---- arguments

//  The value of an option that is argv [*index_p - 1]: given with it, as the next argument, or not at all.
//  NULL: error says why not.
static char *
s_find_value (const option_table_t *table, const option_row_t *row, char *value, char **argv, int *index_p,
    char error [OPTION_ERROR_BYTES])
{
    static char on [] = "1";
    char *next = argv [*index_p], form [OPTION_FORM_BYTES];
    if (!row->argument && value && !table->is_strict)
        option_fail (error, "option '--%s' takes no value", row->name);
    if (!row->argument)
        return !value? on: table->is_strict? value: NULL;
    bool is_optional = *row->argument == '[';
    if (!value && next && (table->is_strict? strncmp (next, "--", 2) != 0
        : !is_optional || isdigit ((unsigned char) *next))) {
        ++*index_p;
        return next;
    }
    if (!value && !is_optional)
        option_fail (error, "option '%s' needs a value: %s; see `%s --help`", argv [*index_p - 1],
            option_form (row, form), table->program);
    return value? value: is_optional? row->absent: NULL;
}

//  The option argv [*index_p - 1].
static option_status_t
s_take_option (const option_table_t *table, void *target, char **argv, int *index_p, option_result_t *result,
    char error [OPTION_ERROR_BYTES])
{
    char *given = argv [*index_p - 1], name [OPTION_NAME_BYTES_MAX + 1] = "", why [OPTION_ERROR_BYTES];
    bool is_long = strncmp (given, "--", 2) == 0;
    size_t size = is_long? strcspn (given + 2, "="): 0;
    if (size <= OPTION_NAME_BYTES_MAX)
        snprintf (name, sizeof name, "%.*s", (int) size, given + 2 * is_long);
    const option_row_t *row = strcmp (given, "-h")? s_find (table, given, name, error): &s_help_row;
    bool has_value = row && is_long && given [2 + size];
    if (row == &s_help_row && !has_value)
        return OPTION_HELP;
    char *text = has_value? given + 2 + size + 1: NULL;
    if (row == &s_help_row)
        option_fail (error, "option '--%s' takes no value", row->name);
    if (!row || row == &s_help_row || !(text = s_find_value (table, row, text, argv, index_p, error)))
        return OPTION_WRONG;
    result->given [row - table->rows]++;
    if (table->set)
        return table->set (target, row, text, error)? OPTION_RUN: OPTION_WRONG;
    if (option_value (row, target, text, why))
        return OPTION_RUN;
    char shown [SHOWN_BYTES];
    option_fail (error, "--%s '%s': %s", row->name, utf8_visible (text, strlen (text), shown, sizeof shown),
        why);
    return OPTION_WRONG;
}

option_status_t
option_read (const option_table_t *table, void *target, int argc, char **argv, option_result_t *result,
    char error [OPTION_ERROR_BYTES])
{
    assert (table->count <= OPTION_ROWS_MAX);
    *result = (option_result_t) { .words = argv + 1 };
    option_status_t status = OPTION_RUN;
    bool has_options = true;
    for (int index = 1; index < argc && status == OPTION_RUN;) {
        char *argument = argv [index++], shown [SHOWN_BYTES];
        bool is_word = *argument != '-' || !argument [1] || (table->is_word && table->is_word (argument));
        if (has_options && strcmp (argument, "--") == 0)
            has_options = false;
        else
        if (has_options && !is_word)
            status = s_take_option (table, target, argv, &index, result, error);
        else
        if (result->word_count < table->words_max)
            result->words [result->word_count++] = argument;
        else {
            option_fail (error, table->word_hint? "unexpected argument '%s'; %s"
                : "unexpected argument '%s'; see `%s --help`",
                utf8_visible (argument, strlen (argument), shown, sizeof shown),
                table->word_hint? table->word_hint: table->program);
            status = OPTION_WRONG;
        }
    }
    return status;
}

int
option_parse (const option_table_t *table, void *target, int argc, char **argv, option_result_t *result)
{
    char error [OPTION_ERROR_BYTES];
    option_status_t status = option_read (table, target, argc, argv, result, error);
    if (status == OPTION_HELP) {
        //  Nothing was printed before.  All of it is written when the command ends, which says why if it
        //  cannot be (complain.h).
        static char held [HELP_BYTES_MAX];          //  until then
        setvbuf (stdout, held, _IOFBF, sizeof held);
        option_help (table, stdout);
    }
    if (status == OPTION_WRONG)
        fprintf (stderr, "%s: %s\n", table->program, error);
    return status == OPTION_RUN? -1: status == OPTION_HELP? 0: 2;
}

//  ---- help

//  "--name VALUE", of all rows that share the help of the one at *index_p, which becomes the place behind
//  them.
static int
s_head (const option_table_t *table, size_t *index_p, char head [HEAD_BYTES])
{
    int used = 0;
    const option_row_t *row;
    do {
        row = &table->rows [(*index_p)++];
        used += snprintf (head + used, (size_t) (HEAD_BYTES - used), "%s--%s%s%s", used? ", ": "", row->name,
            row->argument? " ": "", row->argument? row->argument: "");
    } while (!row->help);
    return used;
}

static void
s_print_row (FILE *stream, int column, const char *head, const char *help)
{
    int size = fprintf (stream, "  %s", head);
    if (size + 2 > column)
        size = fprintf (stream, "\n") - 1;
    for (const char *line = help; line; size = 0) {
        const char *end = strchr (line, '\n');
        fprintf (stream, "%*s%.*s\n", column - size, "", end? (int) (end - line): (int) strlen (line), line);
        line = end? end + 1: NULL;
    }
}

void
option_help (const option_table_t *table, FILE *stream)
{
    static const char help_head [] = "-h, --help";
    char head [HEAD_BYTES];
    int column = (int) strlen (help_head) + 4;
    for (size_t index = 0; index < table->count;) {
        int size = s_head (table, &index, head) + 4;
        column = size > column? size: column;
    }
    column = column < HELP_COLUMN? column: HELP_COLUMN;
    fputs (table->before, stream);
    bool is_help_due = true;
    for (size_t index = 0; index < table->count;) {
        const char *heading = table->rows [index].heading;
        s_head (table, &index, head);
        if (heading && is_help_due)
            s_print_row (stream, column, help_head, s_help_row.help);
        if (heading)
            fprintf (stream, "\n%s\n", heading);
        is_help_due &= !heading;
        s_print_row (stream, column, head, table->rows [index - 1].help);
    }
    if (is_help_due)
        s_print_row (stream, column, help_head, s_help_row.help);
    fputs (table->after? table->after: "", stream);
}
