/*  Labels files against a model: a random table is written as TSV and as JSON lines, in random spellings, and
 *  has to come back; damaged, it is read or refused in words.  Nothing of it touches the disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "catalogue_labels.h"
#include "data_folder.h"
#include "labels_play.h"
#include "seed.h"

#include <jansson.h>
#include <math.h>

enum { TABLE_LINES_MAX = 6, TABLE_LENGTH_MAX = 3, TABLE_TEXT_MAX = 24, WRITTEN_MAX = 16384 };

typedef struct {
    column_kind_t kind;
    bool is_vector;
    uint32_t length;
    int64_t wholes [TABLE_LINES_MAX] [TABLE_LENGTH_MAX];
    double reals [TABLE_LINES_MAX] [TABLE_LENGTH_MAX];
    char texts [TABLE_LINES_MAX] [TABLE_TEXT_MAX];
} table_column_t;

typedef struct {
    uint32_t lines;
    uint32_t columns;
    table_column_t column [CATALOGUE_LABELS_MAX];
    bool is_json;
} table_t;

typedef struct {
    char text [WRITTEN_MAX];
    size_t used;
} written_t;

__attribute__ ((format (printf, 2, 3)))
static void
put (written_t *written, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    written->used += (size_t) vsnprintf (written->text + written->used, WRITTEN_MAX - written->used, format,
        arguments);
    va_end (arguments);
    assert_true (written->used < WRITTEN_MAX);
}

static int64_t
random_whole (uint64_t *random)
{
    static const int64_t edges [] = { INT64_MIN, INT64_MAX, INT64_MIN + 1, 0, -1, 1, (INT64_C (1) << 53) + 1,
        10 };
    return test_below (random, 2)? edges [test_below (random, 8)]: (int64_t) test_below (random, 2000) - 1000;
}

static double
random_real (uint64_t *random, bool is_json)
{
    static const double edges [] = { 0.1, -0.0, 1e308, 5e-324, 1.0 / 3, 123456789.125, INFINITY, NAN };
    if (test_below (random, 2))
        return edges [test_below (random, is_json? 6: 8)];
    return ((double) test_below (random, 1u << 30) - (1 << 29)) / (double) (1 + test_below (random, 1000));
}

static void
random_text (uint64_t *random, char text [TABLE_TEXT_MAX], bool is_json)
{
    //  The last three are for JSON alone: a TSV has no way to write them.
    static const char *const pieces [] = { "a", " ", "1", ",", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
        "\"", "'", "\\", "nan", "{", "\x01", "\t", "\n", "\r" };
    text [0] = 0;
    size_t count = test_below (random, 6);
    for (size_t index = 0; index < count; index++)
        strcat (text, pieces [test_below (random, is_json? 16: 13)]);
}

static void
random_table (table_t *table, uint64_t *random, bool is_json)
{
    *table = (table_t) { .is_json = is_json };
    table->lines = 1 + (uint32_t) test_below (random, TABLE_LINES_MAX);
    table->columns = (uint32_t) test_below (random, CATALOGUE_LABELS_MAX + 1);
    for (uint32_t index = 0; index < table->columns; index++) {
        table_column_t *column = &table->column [index];
        column->kind = COLUMN_WHOLE + (column_kind_t) test_below (random, 3);
        column->is_vector = column->kind != COLUMN_TEXT && test_below (random, 2);
        column->length = column->is_vector? 1 + (uint32_t) test_below (random, TABLE_LENGTH_MAX): 1;
        if (column->is_vector && !is_json && column->length == 1)
            column->length = 2;
        for (uint32_t line = 0; line < table->lines; line++) {
            for (uint32_t at = 0; at < column->length; at++) {
                column->wholes [line] [at] = random_whole (random);
                column->reals [line] [at] = random_real (random, is_json);
            }
            random_text (random, column->texts [line], is_json);
        }
        //  So that it is what it is meant to be.
        uint32_t sure = (uint32_t) test_below (random, table->lines);
        strcpy (column->texts [sure], test_below (random, 2)? "x": "1x,2");
        column->reals [sure] [column->length - 1] = 0.5;
    }
}

//  A real number; it may look whole, as another of the column does not.
static void
put_real (written_t *written, double value, bool is_json, uint64_t *random)
{
    static const char *const names [] = { "nan", "NaN", "NAN", "inf", "Inf", "infinity" };
    if (isnan (value))
        put (written, "%s", names [test_below (random, 3)]);
    else
    if (isinf (value))
        put (written, "%s%s", test_below (random, 2)? "+": "", names [3 + test_below (random, 3)]);
    else {
        char text [400];
        snprintf (text, sizeof text, test_below (random, 2)? "%.17g": "%.17E", value);
        //  A whole -0 is 0 in JSON.
        if (!strpbrk (text, ".eE") && (value == 0 || test_below (random, 2)))
            strcat (text, ".0");
        else
        //  Without the nought in front, which JSON wants.
        if (!is_json && text [0] == '0' && text [1] == '.' && test_below (random, 2))
            memmove (text, text + 1, strlen (text));
        put (written, "%s", text);
    }
}

static void
put_whole (written_t *written, int64_t value, bool is_json, uint64_t *random)
{
    if (!is_json && value >= 0 && test_below (random, 4) == 0)
        put (written, "%s", test_below (random, 2)? "+": "00");
    put (written, "%" PRId64, value);
}

static void
put_json_text (written_t *written, const char *text)
{
    json_t *string = json_string (text);
    char *dumped = json_dumps (string, JSON_ENCODE_ANY | (strlen (text) % 2? JSON_ENSURE_ASCII: 0));
    assert_non_null (dumped);
    put (written, "%s", dumped);
    free (dumped);
    json_decref (string);
}

static void
put_cell (written_t *written, const table_t *table, uint32_t line, uint32_t index, uint64_t *random)
{
    const table_column_t *column = &table->column [index];
    bool is_json = table->is_json, has_spaces = test_below (random, 4) == 0;
    if (column->kind == COLUMN_TEXT && is_json)
        put_json_text (written, column->texts [line]);
    else
    if (column->kind == COLUMN_TEXT)
        put (written, "%s", column->texts [line]);
    else {
        put (written, "%s", column->is_vector && is_json? "[": "");
        for (uint32_t at = 0; at < column->length; at++) {
            put (written, "%s%s", at? ",": "", has_spaces? "  ": "");
            if (column->kind == COLUMN_WHOLE)
                put_whole (written, column->wholes [line] [at], is_json, random);
            else
                put_real (written, column->reals [line] [at], is_json, random);
            put (written, "%s", has_spaces? " ": "");
        }
        put (written, "%s", column->is_vector && is_json? "]": "");
    }
}

//  Some lie in folders, which are not in one piece.
static void
path_of (uint32_t line, char path [32])
{
    snprintf (path, 32, line % 3 == 0? "%u.jpg": line % 3 == 1? "a/%u.jpg": "a/b/%u", line);
}

static void
write_tsv (written_t *written, const table_t *table, uint64_t *random)
{
    const char *end = test_below (random, 2)? "\n": "\r\n";
    put (written, "path");
    for (uint32_t index = 0; index < table->columns; index++)
        put (written, "\tlabel_%u", index);
    for (uint32_t line = 0; line < table->lines; line++) {
        char path [32];
        path_of (line, path);
        put (written, "%s%s", end, path);
        for (uint32_t index = 0; index < table->columns; index++) {
            put (written, "\t");
            put_cell (written, table, line, index, random);
        }
    }
    put (written, "%s", test_below (random, 2)? end: "");
}

static void
write_jsonl (written_t *written, const table_t *table, uint64_t *random)
{
    for (uint32_t line = 0; line < table->lines; line++) {
        //  From any key on, in a circle; in the first line it says the columns' order.
        uint32_t keys = table->columns + 1, first = line? (uint32_t) test_below (random, keys): 0;
        put (written, "%s{", line? "\n": "");
        for (uint32_t turn = 0; turn < keys; turn++) {
            uint32_t key = (first + turn) % keys;
            char path [32];
            path_of (line, path);
            put (written, turn? ",%s": "%s", test_below (random, 3)? "": " ");
            if (key == 0)
                put (written, "\"path\":\"%s\"", path);
            else {
                put (written, "\"label_%u\" :", key - 1);
                put_cell (written, table, line, key - 1, random);
            }
        }
        put (written, "}");
    }
}

static bool
is_same_number (double left, double right)
{
    return (isnan (left) && isnan (right)) || memcmp (&left, &right, sizeof left) == 0;
}

static bool
is_same_value (const catalogue_t *self, uint32_t index, const table_column_t *column, uint32_t line)
{
    uint8_t bytes [TABLE_LENGTH_MAX * sizeof (value_t) + TABLE_TEXT_MAX] = { 0 };
    value_t values [TABLE_LENGTH_MAX];
    catalogue_label_value (self, index, line, bytes);
    memcpy (values, bytes, sizeof values);
    if (column->kind == COLUMN_TEXT)
        return strcmp ((char *) bytes, column->texts [line]) == 0;
    for (uint32_t at = 0; at < column->length; at++)
        if (column->kind == COLUMN_WHOLE? values [at].whole != column->wholes [line] [at]:
                !is_same_number (values [at].real, column->reals [line] [at]))
            return false;
    return true;
}

//  Where the column is not the table's: a line, -1 for its description, -2 for nowhere.
static int
column_fault (const catalogue_t *self, const table_t *table, uint32_t index)
{
    static const char *const dtypes [] = { [COLUMN_WHOLE] = "int64", [COLUMN_REAL] = "float64",
        [COLUMN_TEXT] = "uint8" };
    const table_column_t *column = &table->column [index];
    const catalogue_label_t *label = catalogue_label (self, index);
    size_t length = column->length;
    for (uint32_t line = 0; column->kind == COLUMN_TEXT && line < table->lines; line++)
        if (strlen (column->texts [line]) > length || line == 0)
            length = strlen (column->texts [line]);
    char name [20];
    snprintf (name, sizeof name, "label_%u", index);
    uint32_t dimensions = column->is_vector || column->kind == COLUMN_TEXT;
    if (strcmp (label->name, name) || strcmp (label->dtype, dtypes [column->kind])
        || label->dimensions != dimensions
            || (dimensions && label->shape [0] != length)
            || label->bytes != length * (column->kind == COLUMN_TEXT? 1: sizeof (value_t)))
        return -1;
    for (uint32_t line = 0; line < table->lines; line++)
        if (!is_same_value (self, index, column, line))
            return (int) line;
    return -2;
}

//  What was written is read, whatever the spelling.
static void
test_against_the_model (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), round = 0; round < 600; round++, seed++) {
        uint64_t random = seed;
        table_t table;
        random_table (&table, &random, round % 2);
        written_t written = { .used = 0 };
        (table.is_json? write_jsonl: write_tsv) (&written, &table, &random);
        catalogue_t *self;
        char error [ERROR_BYTES];
        int rc = play_parse (&self, table.is_json? &catalogue_jsonl: &catalogue_tsv, written.text, error,
            sizeof error);
        if (rc)
            fail_msg ("TEST_SEED=%" PRIu64 ": %d: %s\n%s", seed, rc, error, written.text);
        for (uint32_t line = 0; line < table.lines; line++) {
            char path [32], found [32];
            path_of (line, path);
            catalogue_path (self, line, 0, found, sizeof found);
            if (catalogue_samples (self) != table.lines || strcmp (path, found))
                fail_msg ("TEST_SEED=%" PRIu64 ": line %u is '%s'\n%s", seed, line, found, written.text);
        }
        if (catalogue_labels (self) != table.columns)
            fail_msg ("TEST_SEED=%" PRIu64 ": %zu labels\n%s", seed, catalogue_labels (self), written.text);
        for (uint32_t index = 0; index < table.columns; index++) {
            int line = column_fault (self, &table, index);
            if (line != -2)
                fail_msg ("TEST_SEED=%" PRIu64 ": label_%u, line %d\n%s", seed, index, line, written.text);
        }
        catalogue_destroy (&self);
    }
}

//  A byte changed, doubled or left out: read, or refused in words; never more.
static void
test_damaged_texts (void **state)
{
    (void) state;
    size_t refused = 0;
    enum { ROUNDS = 600 };
    for (uint64_t seed = test_seed (), round = 0; round < ROUNDS; round++, seed++) {
        uint64_t random = seed;
        table_t table;
        random_table (&table, &random, round % 2);
        written_t written = { .used = 0 };
        (table.is_json? write_jsonl: write_tsv) (&written, &table, &random);
        static const char bytes [] = "\t\n\r,.-+e0\"{}[]:/\xff\x01";
        size_t at = test_below (&random, written.used);
        switch (test_below (&random, 3)) {
        case 0: written.text [at] = bytes [test_below (&random, sizeof bytes - 1)]; break;
        case 1: memmove (written.text + at, written.text + at + 1, written.used - at); break;
        case 2: memmove (written.text + at + 1, written.text + at, written.used - at + 1); break;
        }
        catalogue_t *self;
        char error [ERROR_BYTES];
        int rc = play_parse (&self, table.is_json? &catalogue_jsonl: &catalogue_tsv, written.text, error,
            sizeof error);
        if ((rc == 0) != (*error == 0) || (rc && rc != -EINVAL && rc != -ENODATA))
            fail_msg ("TEST_SEED=%" PRIu64 ": %d: %s\n%s", seed, rc, error, written.text);
        refused += rc != 0;
        catalogue_destroy (&self);
    }
    print_message ("%zu of %d refused\n", refused, ROUNDS);
    assert_true (refused > ROUNDS / 10 && refused < ROUNDS);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_against_the_model),
        cmocka_unit_test (test_damaged_texts)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
