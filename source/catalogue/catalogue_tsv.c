/*  catalogue_tsv.c -- labels.tsv: a header, then a line for each sample, columns separated by tabs.
 *
 *  A column's kind is known only after its last line, so the text is read twice: first for the kinds
 *  (scan_t), then for the values.
 */
#include "catalogue_labels.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

//  A number as it is written.
typedef struct {
    bool is_real;
    bool is_named;                  //  nan, inf
    bool is_wide;                   //  a whole number beyond int64
    int64_t whole;
} number_t;

//  A cell: a list of numbers, of one mostly, or else text.
typedef struct {
    size_t count;                   //  0: text
    bool has_real;
    bool has_wide;
} cell_t;

//  What is known of a column; lines are the first ones of their kind, 0 for none.
typedef struct {
    bool has_text;
    bool has_real;
    size_t count;                   //  of the numbers in its first list
    uint64_t first_line;
    size_t other_count;             //  of the first list that differs
    uint64_t other_line;
    uint64_t wide_line;
    uint64_t empty_line;
    slice_t first;                  //  the cell of first_line
    bool has_space;                 //  in one that is a list
} scan_t;

typedef struct {
    labels_t *labels;
    catalogue_t *self;
    locale_t locale;                //  "C": the decimal point is a point, whatever the program has set
    scan_t scans [CATALOGUE_LABELS_MAX];
} tsv_t;

//  -- numbers

static const char *
s_skip_digits (const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

static const char *
s_skip_spaces (const char *at, const char *end)
{
    while (at < end && *at == ' ')
        at++;
    return at;
}

//  nan, inf or infinity in any case: its length, else 0.
static size_t
s_scan_name (const char *at, const char *end)
{
    static const char *const names [] = { "infinity", "inf", "nan" };
    for (size_t index = 0; index < 3; index++) {
        size_t length = strlen (names [index]), same = 0;
        while (same < length && at + same < end && (at [same] | 0x20) == names [index] [same])
            same++;
        if (same == length)
            return length;
    }
    return 0;
}

static void
s_take_whole (number_t *number, const char *at, const char *end, bool is_negative)
{
    int64_t value = 0;
    for (; at < end && !number->is_wide; at++) {
        int64_t digit = *at - '0';
        number->is_wide = __builtin_mul_overflow (value, 10, &value)
            || __builtin_add_overflow (value, is_negative? -digit: digit, &value);
    }
    number->whole = value;
}

//  Reads an optional sign, and digits with optional point and exponent, or a name.  Returns the text behind
//  the number; NULL: no number.
static const char *
s_scan_number (const char *at, const char *end, number_t *number)
{
    *number = (number_t) { 0 };
    bool is_negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    size_t named = s_scan_name (at, end);
    if (named) {
        number->is_real = number->is_named = true;
        return at + named;
    }
    const char *digits = at;
    at = s_skip_digits (at, end);
    size_t digit_count = (size_t) (at - digits);
    if (at < end && *at == '.') {
        number->is_real = true;
        const char *fraction = at + 1;
        at = s_skip_digits (fraction, end);
        digit_count += (size_t) (at - fraction);
    }
    if (digit_count == 0)
        return NULL;
    if (at < end && (*at == 'e' || *at == 'E')) {
        number->is_real = true;
        const char *sign = at + 1;
        const char *exponent = sign < end && (*sign == '-' || *sign == '+')? sign + 1: sign;
        at = s_skip_digits (exponent, end);
        if (at == exponent)
            return NULL;
    }
    if (!number->is_real)
        s_take_whole (number, digits, at, is_negative);
    return at;
}

//  Numbers with commas between them; spaces around each are allowed.
static cell_t
s_scan_cell (slice_t cell)
{
    static const cell_t text;
    cell_t found = { 0 };
    const char *at = cell.at, *end = cell.at + cell.length;
    for (;;) {
        number_t number;
        at = s_scan_number (s_skip_spaces (at, end), end, &number);
        if (!at)
            return text;
        found.count++;
        found.has_real |= number.is_real;
        found.has_wide |= number.is_wide;
        at = s_skip_spaces (at, end);
        if (at == end)
            return found;
        if (*at++ != ',')
            return text;
    }
}


//  -- lines

//  Cuts the first cell off the line.  False: it was the last.
static bool
s_cut (slice_t *line, slice_t *cell)
{
    const char *tab = memchr (line->at, '\t', line->length);
    *cell = (slice_t) { line->at, tab? (size_t) (tab - line->at): line->length };
    size_t used = cell->length + (tab? 1: 0);
    line->at += used;
    line->length -= used;
    return tab != NULL;
}

static size_t
s_cells (slice_t line)
{
    size_t count = 1;
    for (size_t at = 0; at < line.length; at++)
        count += line.at [at] == '\t';
    return count;
}

static int
s_read_header (tsv_t *tsv)
{
    labels_t *labels = tsv->labels;
    slice_t line, cell;
    int rc = catalogue_labels_next (labels, &line);
    if (rc <= 0)
        return rc;
    bool more = s_cut (&line, &cell);
    if (cell.length != 4 || memcmp (cell.at, "path", 4) != 0)
        return catalogue_labels_fail (labels, -EINVAL, 1,
            "the first column is '%s': begin the file with a line of the "
            "columns' names, separated by tabs, the first of them path",
            catalogue_shown (cell.at, cell.length).text);
    rc = 0;
    while (rc == 0 && more) {
        more = s_cut (&line, &cell);
        rc = catalogue_labels_add_column (labels, cell);
    }
    return rc;
}

//  1 and the next line, which has all its cells; 0 at the end.
static int
s_next (tsv_t *tsv, slice_t *line)
{
    int rc = catalogue_labels_next (tsv->labels, line);
    size_t wanted = tsv->self->column_count + 1;
    if (rc <= 0 || s_cells (*line) == wanted)
        return rc;
    return catalogue_labels_fail (tsv->labels, -EINVAL, tsv->labels->line,
        "%zu columns where the header has %zu: "
        "separate them by single tabs", s_cells (*line), wanted);
}


//  -- first reading: what the columns hold

static void
s_see (scan_t *scan, slice_t cell, uint64_t line)
{
    if (cell.length == 0) {
        scan->empty_line = scan->empty_line? scan->empty_line: line;
        return;
    }
    if (scan->has_text)
        return;
    cell_t found = s_scan_cell (cell);
    scan->has_text = found.count == 0;
    scan->has_real |= found.has_real;
    scan->has_space |= found.count > 1 && memchr (cell.at, ' ', cell.length);
    if (scan->first_line == 0) {
        scan->first_line = line;
        scan->count = found.count;
        scan->first = cell;
    }
    if (found.count != scan->count && scan->other_line == 0) {
        scan->other_line = line;
        scan->other_count = found.count;
    }
    if (found.has_wide && scan->wide_line == 0)
        scan->wide_line = line;
}

//  "0,5" in every line: two whole numbers, or one with a decimal comma.
static void
s_warn_of_commas (const tsv_t *tsv, const column_t *column, const scan_t *scan)
{
    if (scan->count != 2 || scan->has_real || scan->has_space || tsv->self->warning_count > 0)
        return;
    shown_t cell = catalogue_shown (scan->first.at, scan->first.length);
    snprintf (catalogue_warning_new (tsv->self), CATALOGUE_WARNING_BYTES,
        "%.200s:%llu: '%.40s' of '%s' is read "
        "as a vector of 2 numbers, as in every line; for a decimal number write a point in place of the "
        "comma",
        tsv->labels->shown, (unsigned long long) scan->first_line, cell.text, column->name);
}

//  A column without text holds numbers: empty cells, or lists of different lengths, are refused, not taken
//  for text.
static int
s_decide (tsv_t *tsv, column_t *column, const scan_t *scan)
{
    labels_t *labels = tsv->labels;
    if (scan->has_text || scan->first_line == 0)
        return catalogue_labels_shape (labels, column, COLUMN_TEXT, false, 1);
    if (scan->empty_line)
        return catalogue_labels_fail (labels, -EINVAL, scan->empty_line,
            "'%s' is empty, and a number elsewhere: "
            "write one, nan where there is none", column->name);
    if (scan->other_line)
        return catalogue_labels_fail (labels, -EINVAL, scan->other_line,
            "'%s' has %zu numbers, and %zu in line %llu: "
            "give all lines as many", column->name, scan->other_count, scan->count,
            (unsigned long long) scan->first_line);
    if (scan->wide_line && !scan->has_real)
        return catalogue_labels_fail (labels, -EINVAL, scan->wide_line,
            "'%s' does not fit an int64: write it with "
            "a point ('1.0e20') for a float64", column->name);
    labels->line = scan->first_line;
    s_warn_of_commas (tsv, column, scan);
    return catalogue_labels_shape (labels, column, scan->has_real? COLUMN_REAL: COLUMN_WHOLE, scan->count > 1,
        scan->count);
}

static int
s_scan (tsv_t *tsv)
{
    slice_t line, cell;
    int rc;
    while ((rc = s_next (tsv, &line)) > 0) {
        s_cut (&line, &cell);           //  the path
        for (size_t column = 0; column < tsv->self->column_count; column++) {
            s_cut (&line, &cell);
            s_see (&tsv->scans [column], cell, tsv->labels->line);
        }
    }
    for (size_t column = 0; rc == 0 && column < tsv->self->column_count; column++)
        rc = s_decide (tsv, &tsv->self->columns [column], &tsv->scans [column]);
    return rc;
}


//  -- second reading: the values

static int
s_put_text (tsv_t *tsv, column_t *column, slice_t cell)
{
    const uint8_t *at = (const uint8_t *) cell.at, *end = at + cell.length;
    while (at < end) {
        uint32_t code = utf8_code_point (&at);
        if (code >= 0xdc80 && code <= 0xdcff)
            return catalogue_labels_fail (tsv->labels, -EINVAL, tsv->labels->line, "'%s' is not UTF-8: "
                "save the file as UTF-8", column->name);
    }
    return catalogue_labels_put_text (tsv->labels, column, cell);
}

//  strtod stops where the number ends: the text behind it is no part of it.
static int
s_make_real (const tsv_t *tsv, const column_t *column, slice_t text, const number_t *number, value_t *value)
{
    if (!number->is_real)
        return catalogue_labels_real (tsv->labels, column, number->whole, number->is_wide, text,
            &value->real);
    value->real = strtod_l (text.at, NULL, tsv->locale);
    return !isinf (value->real) || number->is_named? 0: catalogue_labels_fail (tsv->labels, -EINVAL,
        tsv->labels->line, "'%s' does not fit a float64: write inf, or a smaller number", column->name);
}

static int
s_put_numbers (tsv_t *tsv, column_t *column, slice_t cell)
{
    const char *at = cell.at, *end = cell.at + cell.length;
    for (size_t index = 0; index < column->length; index++) {
        at = s_skip_spaces (at, end);
        number_t number;
        const char *next = s_scan_number (at, end, &number);
        assert (next);                  //  the first reading has seen it
        value_t value = { .whole = number.whole };
        slice_t text = { at, (size_t) (next - at) };
        int rc = column->kind == COLUMN_REAL? s_make_real (tsv, column, text, &number, &value): 0;
        if (rc)
            return rc;
        rc = catalogue_labels_put (tsv->labels, column, value);
        if (rc)
            return rc;
        at = s_skip_spaces (next, end) + 1;
    }
    return 0;
}

static int
s_take_line (tsv_t *tsv, slice_t line)
{
    slice_t cell;
    s_cut (&line, &cell);
    int rc = catalogue_labels_add_path (tsv->labels, cell);
    for (size_t index = 0; rc == 0 && index < tsv->self->column_count; index++) {
        column_t *column = &tsv->self->columns [index];
        s_cut (&line, &cell);
        rc = column->kind == COLUMN_TEXT? s_put_text (tsv, column, cell): s_put_numbers (tsv, column, cell);
    }
    return rc;
}

static int
s_take (tsv_t *tsv)
{
    catalogue_labels_rewind (tsv->labels);
    slice_t line;
    int rc = catalogue_labels_next (tsv->labels, &line);        //  the header
    if (rc < 0)
        return rc;
    while ((rc = s_next (tsv, &line)) > 0)
        if ((rc = s_take_line (tsv, line)))
            return rc;
    return rc;
}

static int
s_read (labels_t *labels)
{
    tsv_t tsv = { .labels = labels, .self = labels->self };
    int rc = s_read_header (&tsv);
    if (rc == 0)
        rc = s_scan (&tsv);
    if (rc)
        return rc;
    tsv.locale = newlocale (LC_ALL_MASK, "C", (locale_t) 0);
    if (!tsv.locale)
        return catalogue_fail_memory (labels->draft);
    rc = s_take (&tsv);
    freelocale (tsv.locale);
    return rc;
}

const labels_reader_t catalogue_tsv = { .ending = ".tsv", .lines_before = 1, .read = s_read };
