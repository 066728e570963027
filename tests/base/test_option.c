//  The table of options: each kind of value, what getopt_long would take, errors and --help.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "option.h"

typedef enum { PLAIN, ROUND, SQUARE } shape_t;

typedef struct {
    const char *name;
    char *copy;
    bool loud, lively;
    uint32_t count, pairs;
    uint64_t bytes;
    double share;
    shape_t shape;
} target_t;

static bool
s_pairs (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    ((target_t *) target)->pairs++;
    return strchr (text, ':') || option_fail (error, "expected A:B");
}

#define AT(member) OPTION_AT (target_t, member)
static const option_row_t s_rows [] = {
    { "name", "TEXT", AT (name), "for people" },
    { "copy", "TEXT", AT (copy), "kept" },
    { "loud", NULL, AT (loud), NULL },
    { "lively", NULL, AT (lively), "two flags" },
    { "count", "[N]", AT (count), "how many\nand more", 2, 9, .absent = "5" },
    { "pair", "A:B, B:A", OPTION_CALL (s_pairs), "again and again" },
    { "bytes", "SIZE", AT (bytes), "of memory", 1, .unit = OPTION_BYTES, .heading = "Others:" },
    { "share", "F", AT (share), "a part", .high = 1, .expected = "a share" },
    { "shape", "round|square", AT (shape), "its shape", ROUND,
        .choices = OPTION_CHOICES ("round", "square") }
};
static const option_table_t s_table = { "tureen test", s_rows, OPTION_ROWS (s_rows), 2, .before = "usage\n",
    .after = "end\n" };
static const option_table_t s_strict = { "tureen test", s_rows, OPTION_ROWS (s_rows), .is_strict = true };

//  Words are cut at blanks.
static option_status_t
s_read (const option_table_t *table, const char *line, target_t *target, option_result_t *result,
    char *error)
{
    static char text [400];
    char *argv [20] = { "test" };
    static char *kept [20];
    int argc = 1;
    snprintf (text, sizeof text, "%s", line);
    for (char *rest = text, *word; (word = strsep (&rest, " "));)
        if (*word)
            argv [argc++] = word;
    memcpy (kept, argv, sizeof kept);
    *target = (target_t) { .name = NULL };
    return option_read (table, target, argc, kept, result, error);
}

static void
test_every_kind_of_value (void **state)
{
    (void) state;
    target_t target;
    option_result_t result;
    char error [OPTION_ERROR_BYTES];
    assert_int_equal (s_read (&s_table, "one --name a --copy=b --loud --count --pair 1:2 --pai=2:3 "
        "--byt 3KiB --share 1 --shape square two", &target, &result, error), OPTION_RUN);
    assert_string_equal (target.name, "a");
    assert_string_equal (target.copy, "b");
    assert_true (target.loud && !target.lively);
    assert_int_equal (target.count, 5);
    assert_int_equal (target.pairs, 2);
    assert_int_equal (target.bytes, 3072);
    assert_true (target.share <= 1 && target.share >= 1);
    assert_int_equal (target.shape, SQUARE);
    assert_int_equal (result.word_count, 2);
    assert_string_equal (result.words [0], "one");
    assert_string_equal (result.words [1], "two");
    assert_int_equal (option_given (&s_table, &result, "pair"), 2);
    assert_int_equal (option_given (&s_table, &result, "lively"), 0);
    free (target.copy);
    assert_int_equal (s_read (&s_table, "--count 7 -- --loud", &target, &result, error), OPTION_RUN);
    assert_int_equal (target.count, 7);
    assert_false (target.loud);
    assert_string_equal (result.words [0], "--loud");
    assert_int_equal (s_read (&s_strict, "--loud=0 --lively", &target, &result, error), OPTION_RUN);
    assert_true (!target.loud && target.lively);
    assert_int_equal (s_read (&s_table, "--frobnicat --help", &target, &result, error), OPTION_WRONG);
    assert_int_equal (s_read (&s_table, "-h --frobnicate", &target, &result, error), OPTION_HELP);
}

static bool
s_is_long (const char *text)
{
    return strlen (text) == 7;
}

//  A table may know words that begin with a dash.
static void
test_words_with_a_dash (void **state)
{
    (void) state;
    option_table_t table = s_table;
    table.is_word = s_is_long;
    target_t target;
    option_result_t result;
    char error [OPTION_ERROR_BYTES];
    assert_int_equal (s_read (&table, "-abcdef --name a", &target, &result, error), OPTION_RUN);
    assert_int_equal (result.word_count, 1);
    assert_string_equal (result.words [0], "-abcdef");
    assert_string_equal (target.name, "a");
    assert_int_equal (s_read (&table, "-abcde --name a", &target, &result, error), OPTION_WRONG);
    assert_int_equal (s_read (&s_table, "-abcdef", &target, &result, error), OPTION_WRONG);
}

static void
test_errors (void **state)
{
    (void) state;
    static const struct { const option_table_t *table; const char *line, *error; } cases [] = {
        { &s_table, "--count 1", "--count '1': expected a number from 2 to 9" },
        { &s_table, "--count=99999999999999999999", "expected a number from 2 to 9" },
        { &s_table, "--bytes 0", "--bytes '0': expected a size in bytes, as in 512M or 4G" },
        { &s_table, "--share 1.5", "--share '1.5': expected a share" },
        { &s_table, "--share nan", "--share 'nan': expected a share" },
        { &s_table, "--shape flat", "--shape 'flat': expected round or square" },
        { &s_table, "--pair 1", "--pair '1': expected A:B" },
        { &s_table, "--loud=1", "option '--loud' takes no value" },
        { &s_table, "--name", "option '--name' needs a value: TEXT; see `tureen test --help`" },
        { &s_table, "--pair", "option '--pair' needs a value: A:B; see" },
        { &s_table, "--l", "option '--l' is ambiguous: 2 begin so; see `tureen test --help`" },
        { &s_table, "--nmae a", "unknown option '--nmae'; did you mean '--name'?" },
        { &s_table, "--frobnicate", "unknown option '--frobnicate'; see `tureen test --help`" },
        { &s_table, "-x", "unknown option '-x'; see" },
        { &s_table, "a b c", "unexpected argument 'c'; see `tureen test --help`" },
        { &s_strict, "--nam a", "unknown option '--nam'; did you mean '--name'?" },
        { &s_strict, "--name --loud", "option '--name' needs a value" },
        { &s_strict, "--loud=2", "--loud '2': expected 1 or 0" },
        { &s_strict, "a", "unexpected argument 'a'" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        target_t target;
        option_result_t result;
        char error [OPTION_ERROR_BYTES] = "";
        assert_int_equal (s_read (cases [index].table, cases [index].line, &target, &result, error),
            OPTION_WRONG);
        if (strncmp (error, cases [index].error, strlen (cases [index].error))
        &&  !strstr (error, cases [index].error))
            fail_msg ("%s: expected '%s', got '%s'", cases [index].line, cases [index].error, error);
    }
}

static void
test_help (void **state)
{
    (void) state;
    char *text;
    size_t size;
    FILE *stream = open_memstream (&text, &size);
    assert_non_null (stream);
    option_help (&s_table, stream);
    fclose (stream);
    assert_string_equal (text, "usage\n"
        "  --name TEXT          for people\n"
        "  --copy TEXT          kept\n"
        "  --loud, --lively     two flags\n"
        "  --count [N]          how many\n"
        "                       and more\n"
        "  --pair A:B, B:A      again and again\n"
        "  -h, --help           this text\n"
        "\n"
        "Others:\n"
        "  --bytes SIZE         of memory\n"
        "  --share F            a part\n"
        "  --shape round|square\n"
        "                       its shape\n"
        "end\n");
    free (text);
}

//  What a command's later calls may leave on the stack.
static void __attribute__ ((noinline))
s_use_the_stack (void)
{
    volatile char waste [256 * 1024];
    for (size_t index = 0; index < sizeof waste; index++)
        waste [index] = '#';
}

//  Guards: the help comes whole when the command ends, whatever is called before that.
static void
test_help_of_a_command (void **state)
{
    (void) state;
    int ends [2], status;
    assert_int_equal (pipe (ends), 0);
    fflush (stdout);
    pid_t child = fork ();
    assert_true (child >= 0);
    if (child == 0) {
        char *argv [] = { "test", "--help", NULL };
        target_t target = { .name = NULL };
        option_result_t result;
        dup2 (ends [1], STDOUT_FILENO);
        int rc = option_parse (&s_table, &target, 2, argv, &result);
        s_use_the_stack ();
        fflush (stdout);
        _exit (rc);
    }
    close (ends [1]);
    char text [4096];
    FILE *stream = fdopen (ends [0], "r");
    text [fread (text, 1, sizeof text - 1, stream)] = 0;
    fclose (stream);
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_int_equal (status, 0);
    assert_non_null (strstr (text, "usage\n  --name TEXT          for people\n"));
    assert_string_equal (text + strlen (text) - strlen ("its shape\nend\n"), "its shape\nend\n");
    assert_null (strchr (text, '#'));
}

//  ---- which name was probably meant

static const char *const s_names [] = { "workers", "cache", "batch", "order", "on-bad", "until-idle",
    "tenant", "tenant-jobs", "rank", "field", "tile" };

static const char *
s_meant (const char *name)
{
    return option_nearest (name, s_names, sizeof s_names / sizeof *s_names);
}

//  One or two typing errors, a name within a longer one, and a part of a name.
static void
test_what_was_meant (void **state)
{
    (void) state;
    static const char *const cases [] [2] = {
        { "worker", "workers" }, { "wrokers", "workers" }, { "chace", "cache" }, { "oder", "order" },
        { "tenat", "tenant" },
        { "batch-size", "batch" }, { "num-workers", "workers" }, { "tenant-jobs-max", "tenant-jobs" },
        { "until", "until-idle" },
        { "bad", "on-bad" }, { "jobs", "tenant-jobs" }, { "tiel", "tile" }, { "workers", "workers" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const char *nearest = s_meant (cases [index] [0]);
        if (!nearest || strcmp (nearest, cases [index] [1]))
            fail_msg ("'%s' is taken for '%s', not '%s'", cases [index] [0], nearest? nearest: "(none)",
                cases [index] [1]);
    }
}

static void
test_nothing_is_near (void **state)
{
    (void) state;
    char large [OPTION_NAME_BYTES_MAX + 2];
    memset (large, 'x', sizeof large - 1);
    large [sizeof large - 1] = 0;
    assert_null (s_meant (large));
    large [OPTION_NAME_BYTES_MAX] = 0;
    assert_null (s_meant (large));
    static const char *const cases [] = { "", "x", "e", "frobnicate", "seed" };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        assert_null (s_meant (cases [index]));
    assert_null (option_nearest ("x", NULL, 0));
}

//  Must hold: the least and the largest value of an option are values, and those beside them are not.
static void
test_bounds (void **state)
{
    (void) state;
    static const struct { const char *line; bool good; } cases [] = {
        { "--count 1", false }, { "--count 2", true }, { "--count 9", true }, { "--count 10", false },
        { "--bytes 0", false }, { "--bytes 1", true }, { "--bytes 9223372036854775808", true },
        { "--bytes 9223372036854775809", false }, { "--share 0", true }, { "--share -0.1", false },
        { "--share 1", true }, { "--share 1.1", false }, { "--share nan", false } };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        target_t target;
        option_result_t result;
        char error [OPTION_ERROR_BYTES];
        if (s_read (&s_table, cases [index].line, &target, &result, error)
                != (cases [index].good? OPTION_RUN: OPTION_WRONG))
            fail_msg ("%s", cases [index].line);
    }
}

//  Must hold: a number that 64 bits do not hold is none, by its last digit or by its unit, and is not what is
//  left of it.
static void
test_numbers_that_are_too_large (void **state)
{
    (void) state;
    static const struct { const char *text; bool is_number; uint64_t number; } cases [] = {
        { "18446744073709551615", true, UINT64_MAX }, { "18446744073709551616", false, 0 },
        { "18446744073709551619", false, 0 }, { "18446744073709551620", false, 0 },
        { "99999999999999999999", false, 0 }, { "184467440737095516150", false, 0 },
        { "018446744073709551615", true, UINT64_MAX },
        { "18014398509481983K", true, UINT64_MAX - 1023 }, { "18014398509481984K", false, 0 },
        { "16777215T", true, UINT64_C (16777215) << 40 }, { "16777216T", false, 0 } };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        uint64_t number = 7;
        const char *end;
        bool good = option_digits (cases [index].text, "KMGT", &number, &end);
        if (good != cases [index].is_number || number != (good? cases [index].number: 7))
            fail_msg ("%s: %d, %llu", cases [index].text, good, (unsigned long long) number);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_every_kind_of_value), cmocka_unit_test (test_words_with_a_dash),
        cmocka_unit_test (test_errors), cmocka_unit_test (test_help),
        cmocka_unit_test (test_help_of_a_command), cmocka_unit_test (test_what_was_meant),
        cmocka_unit_test (test_nothing_is_near), cmocka_unit_test (test_numbers_that_are_too_large),
        cmocka_unit_test (test_bounds)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
