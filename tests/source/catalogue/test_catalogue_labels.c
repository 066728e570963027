/*  Labels files: which samples and values they make, and calls that fail meanwhile.  What is refused is
 *  test_catalogue_labels_refused.c's, random tables in random spellings test_catalogue_labels_model.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "catalogue_labels.h"
#include "data_folder.h"
#include "labels_play.h"

#include <jansson.h>

static void
assert_label (const catalogue_t *catalogue, size_t label, const char *name, const char *dtype,
    uint32_t length)
{
    const catalogue_label_t *found = catalogue_label (catalogue, label);
    assert_string_equal (found->name, name);
    assert_string_equal (found->dtype, dtype);
    assert_int_equal (found->dimensions, length? 1: 0);
    if (length)
        assert_int_equal (found->shape [0], length);
    assert_int_equal (found->bytes, (length? length: 1) * (strcmp (dtype, "uint8")? 8u: 1u));
}

static int64_t
whole_of (const catalogue_t *catalogue, size_t label, uint32_t id)
{
    int64_t value;
    assert_int_equal (catalogue_label (catalogue, label)->bytes, sizeof value);
    catalogue_label_value (catalogue, label, id, (uint8_t *) &value);
    return value;
}

static void
assert_reals (const catalogue_t *catalogue, size_t label, uint32_t id, const double *expected)
{
    double values [16];
    size_t bytes = catalogue_label (catalogue, label)->bytes;
    assert_true (bytes <= sizeof values);
    catalogue_label_value (catalogue, label, id, (uint8_t *) values);
    assert_memory_equal (values, expected, bytes);
}

//  A text, and zeros to the end.
static void
assert_text (const catalogue_t *catalogue, size_t label, uint32_t id, const char *expected)
{
    uint8_t value [64];
    size_t bytes = catalogue_label (catalogue, label)->bytes;
    assert_true (bytes < sizeof value && strlen (expected) <= bytes);
    memset (value, '#', sizeof value);
    catalogue_label_value (catalogue, label, id, value);
    assert_memory_equal (value, expected, strlen (expected));
    for (size_t at = strlen (expected); at < bytes; at++)
        assert_int_equal (value [at], 0);
    assert_int_equal (value [bytes], '#');
}

static void
assert_the_example (const catalogue_t *catalogue)
{
    assert_int_equal (catalogue_samples (catalogue), 3);
    assert_int_equal (catalogue_classes (catalogue), 0);
    assert_int_equal (catalogue_bytes (catalogue), 6);
    assert_path_of (catalogue, 0, 0, "b/c.jpg");
    assert_path_of (catalogue, 1, 0, "a.jpg");
    assert_path_of (catalogue, 2, 0, "b/d/e.txt");
    assert_int_equal (catalogue_file_bytes (catalogue, 2, 0), 3);
    assert_int_equal (catalogue_labels (catalogue), 5);
    assert_label (catalogue, 0, "label", "int64", 0);
    assert_label (catalogue, 1, "weight", "float64", 0);
    assert_label (catalogue, 2, "box", "int64", 4);
    assert_label (catalogue, 3, "point", "float64", 2);
    assert_label (catalogue, 4, "caption", "uint8", 12);
    static const int64_t labels [] = { 3, -1, 0 },
        boxes [] [4] = { { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 0, 0, 0, -9 } };
    static const double weights [] = { 0.5, 2, 1e-3 }, points [] [2] = { { 1, 2 }, { 0.25, -1 }, { 3, 4e5 } };
    static const char *const captions [] = { "a cat", "zw\xc3\xb6lf Boxer", "" };
    for (uint32_t id = 0; id < 3; id++) {
        assert_int_equal (whole_of (catalogue, 0, id), labels [id]);
        assert_reals (catalogue, 1, id, &weights [id]);
        int64_t box [4];
        catalogue_label_value (catalogue, 2, id, (uint8_t *) box);
        assert_memory_equal (box, boxes [id], sizeof box);
        assert_reals (catalogue, 3, id, points [id]);
        assert_text (catalogue, 4, id, captions [id]);
    }
}


//  -- what is read

//  One of everything, in both forms; equal data have equal fingerprints, and the folder alone has another.
static void
test_an_example_of_each_kind (void **state)
{
    catalogue_options_t options = play_with_files (*state);
    catalogue_t *plain = open_with (&options);
    make_text (*state, "labels.tsv", "path\tlabel\tweight\tbox\tpoint\tcaption\n"
        "b/c.jpg\t3\t0.5\t1,2,3,4\t1,2\ta cat\n"
        "a.jpg\t-1\t2\t5,6,7,8\t.25,-1.\tzw\xc3\xb6lf Boxer\n"
        "b/d/e.txt\t0\t1e-3\t0,0,0,-9\t3,4E+5\t\n");
    catalogue_t *tsv = open_with (&options);
    assert_the_example (tsv);
    assert_int_equal (unlink (in (*state, "labels.tsv")), 0);
    make_text (*state, "labels.jsonl",
        "{\"path\":\"b/c.jpg\",\"label\":3,\"weight\":0.5,\"box\":[1,2,3,4],\"point\":[1,2],"
        "\"caption\":\"a cat\"}\n"
        "{\"caption\":\"zw\\u00f6lf Boxer\",\"point\":[0.25,-1],\"box\":[5,6,7,8],\"weight\":2,\"label\":-1,"
        "\"path\":\"a.jpg\"}\n"
        "{\"path\":\"b/d/e.txt\",\"label\":0,\"weight\":1e-3,\"box\":[0,0,0,-9],\"point\":[3,4e5],"
        "\"caption\":\"\"}\n");
    catalogue_t *jsonl = open_with (&options);
    assert_the_example (jsonl);
    assert_string_equal (catalogue_fingerprint (tsv), catalogue_fingerprint (jsonl));
    assert_string_not_equal (catalogue_fingerprint (tsv), catalogue_fingerprint (plain));
    catalogue_buffer_t buffer = { 0 };
    assert_int_equal (catalogue_read (jsonl, 2, 0, &buffer), 0);
    assert_int_equal (buffer.size, 3);
    free (buffer.bytes);
    catalogue_destroy (&plain);
    catalogue_destroy (&tsv);
    catalogue_destroy (&jsonl);
}

//  Any change of a value, a name or the order is another data set.
static void
test_fingerprint_has_the_labels (void **state)
{
    catalogue_options_t options = play_with_files (*state);
    static const char *const texts [] = {
        "path\tx\na.jpg\t1\nb/c.jpg\t2\n", "path\tx\na.jpg\t1\nb/c.jpg\t3\n",
            "path\ty\na.jpg\t1\nb/c.jpg\t2\n",
        "path\tx\na.jpg\t1.0\nb/c.jpg\t2\n", "path\tx\na.jpg\t1,2\nb/c.jpg\t2,3\n",
            "path\tx\nb/c.jpg\t1\na.jpg\t2\n",
        "path\tx\na.jpg\t0\nb/c.jpg\t0\n", "path\tx\na.jpg\t0.0\nb/c.jpg\t0\n",
        "path\na.jpg\nb/c.jpg\n", "path\tx\na.jpg\ta\nb/c.jpg\tb\n", "path\tx\na.jpg\ta\nb/c.jpg\tbb\n"
    };
    enum { TEXTS = sizeof texts / sizeof texts [0] };
    char prints [TEXTS] [33];
    for (size_t index = 0; index < TEXTS; index++) {
        make_text (*state, "labels.tsv", texts [index]);
        catalogue_t *catalogue = open_with (&options);
        strcpy (prints [index], catalogue_fingerprint (catalogue));
        for (size_t other = 0; other < index; other++)
            assert_string_not_equal (prints [index], prints [other]);
        catalogue_destroy (&catalogue);
    }
}

//  The files of a class folder, named in its order and without labels: they are no classes any more.
static void
test_fingerprint_has_that_there_are_no_labels (void **state)
{
    catalogue_options_t options = play_with_files (*state);
    char print [33];
    catalogue_t *classes = open_with (&options);
    assert_int_equal (catalogue_samples (classes), 1);
    assert_int_equal (catalogue_labels (classes), 1);
    strcpy (print, catalogue_fingerprint (classes));
    catalogue_destroy (&classes);
    make_text (*state, "labels.tsv", "path\nb/c.jpg\n");
    catalogue_t *plain = open_with (&options);
    assert_int_equal (catalogue_samples (plain), 1);
    assert_int_equal (catalogue_labels (plain), 0);
    assert_string_not_equal (catalogue_fingerprint (plain), print);
    catalogue_destroy (&plain);
}

//  Windows' line ends, no end at the end, empty lines behind it, the mark in front; extensions do not matter
//  here.
static void
test_line_ends (void **state)
{
    catalogue_options_t options = play_with_files (*state);
    options.extensions = ".wav";
    static const char *const tsvs [] = {
        "path\tx\na.jpg\t1\nb/c.jpg\ty", "path\tx\r\na.jpg\t1\r\nb/c.jpg\ty\r\n",
            "path\tx\na.jpg\t1\nb/c.jpg\ty\n\n\r\n\n",
        "\xef\xbb\xbfpath\tx\na.jpg\t1\nb/c.jpg\ty\n"
    };
    for (size_t index = 0; index < sizeof tsvs / sizeof tsvs [0]; index++) {
        make_text (*state, "labels.tsv", tsvs [index]);
        catalogue_t *catalogue = open_with (&options);
        assert_int_equal (catalogue_samples (catalogue), 2);
        assert_label (catalogue, 0, "x", "uint8", 1);
        assert_text (catalogue, 0, 0, "1");
        assert_text (catalogue, 0, 1, "y");
        catalogue_destroy (&catalogue);
    }
    unlink (in (*state, "labels.tsv"));
    make_text (*state, "labels.jsonl", "\xef\xbb\xbf { \"path\" : \"a.jpg\" } \r\n\r\n");
    catalogue_t *catalogue = open_with (&options);
    assert_int_equal (catalogue_samples (catalogue), 1);
    assert_int_equal (catalogue_labels (catalogue), 0);
    catalogue_destroy (&catalogue);
}

//  A class folder of that name is no labels file.
static void
test_a_folder_named_like_it (void **state)
{
    make_file (*state, "labels.tsv/x.jpg", 1);
    catalogue_options_t options = { .path = in (*state, "") };
    catalogue_t *catalogue = open_with (&options);
    assert_int_equal (catalogue_classes (catalogue), 1);
    catalogue_destroy (&catalogue);
}


//  -- without the disk

static catalogue_t *
parse_good (const labels_reader_t *reader, const char *text)
{
    catalogue_t *self;
    char error [ERROR_BYTES];
    int rc = play_parse (&self, reader, text, error, sizeof error);
    if (rc)
        fail_msg ("%d: %s", rc, error);
    return self;
}

//  What a TSV column of these two cells is; NULL: refused.
static void
assert_kind (const char *first, const char *second, const char *dtype, uint32_t length)
{
    char text [200], error [ERROR_BYTES];
    snprintf (text, sizeof text, "path\tx\na\t%s\nb\t%s\n", first, second);
    catalogue_t *self;
    int rc = play_parse (&self, &catalogue_tsv, text, error, sizeof error);
    if (dtype && rc == 0)
        assert_label (self, 0, "x", dtype, length);
    else
    if (dtype || rc != -EINVAL)
        fail_msg ("'%s', '%s': %d %s", first, second, rc, error);
    catalogue_destroy (&self);
}

//  Numbers are numbers in every spelling, and nothing else is.
static void
test_kinds_of_tsv_columns (void **state)
{
    (void) state;
    assert_kind ("1", "-2", "int64", 0);
    assert_kind ("+1", "007", "int64", 0);
    assert_kind (" 1 ", "9223372036854775807", "int64", 0);
    assert_kind ("-9223372036854775808", "0", "int64", 0);
    assert_kind ("1", "9223372036854775808", NULL, 0);
    assert_kind ("-9223372036854775809", "0", NULL, 0);
    assert_kind ("1.5", "9223372036854775808", NULL, 0);
    assert_kind ("1.5", "9223372036854775808.", "float64", 0);
    assert_kind ("1.5", "-9007199254740993", NULL, 0);
    assert_kind ("1.5", "-9007199254740992", "float64", 0);
    assert_kind ("1", "1e400", NULL, 0);
    assert_kind ("1", "1e-400", "float64", 0);
    assert_kind ("nan", "-Inf", "float64", 0);
    assert_kind ("1", "+INFINITY", "float64", 0);
    assert_kind ("nan", "nano", "uint8", 4);
    assert_kind ("1", ".", "uint8", 1);
    assert_kind ("1", "-", "uint8", 1);
    assert_kind ("1e", "1", "uint8", 2);
    assert_kind ("1e+", "1", "uint8", 3);
    assert_kind ("0x10", "1", "uint8", 4);
    assert_kind ("1_000", "1", "uint8", 5);
    assert_kind ("1 2", "1", "uint8", 3);
    assert_kind ("1.", ".5", "float64", 0);
    assert_kind ("1,2", "3, 4", "int64", 2);
    assert_kind ("1,2", "3,nan", "float64", 2);
    assert_kind ("1,2,", "3,4", "uint8", 4);
    assert_kind (",1", "3,4", "uint8", 3);
    assert_kind ("1,2", "3", NULL, 0);
    assert_kind ("1,2", "3,4,5", NULL, 0);
    assert_kind ("1,2", "three", "uint8", 5);
    assert_kind ("1", "", NULL, 0);
    assert_kind ("", "x", "uint8", 1);
    assert_kind ("", "", NULL, 0);
    assert_kind ("\xc3\xa4", "1", "uint8", 2);
    assert_kind ("\xc3", "1", NULL, 0);
}

//  A number's point is a point whatever the program's locale.
static void
test_another_locale (void **state)
{
    (void) state;
    static const char *const names [] = { "de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8",
        "nl_NL.UTF-8" };
    const char *set = NULL;
    for (size_t index = 0; !set && index < sizeof names / sizeof names [0]; index++)
        set = setlocale (LC_ALL, names [index]);
    if (!set || *localeconv ()->decimal_point != ',') {
        setlocale (LC_ALL, "C");
        skip ();
    }
    catalogue_t *tsv = parse_good (&catalogue_tsv, "path\tx\ty\na\t0.5\t0,5\n");
    catalogue_t *jsonl = parse_good (&catalogue_jsonl, "{\"path\":\"a\",\"x\":0.5}\n");
    setlocale (LC_ALL, "C");
    assert_label (tsv, 0, "x", "float64", 0);
    assert_reals (tsv, 0, 0, &(double) { 0.5 });
    assert_label (tsv, 1, "y", "int64", 2);
    assert_reals (jsonl, 0, 0, &(double) { 0.5 });
    catalogue_destroy (&tsv);
    catalogue_destroy (&jsonl);
}

//  So many samples of one name in different folders that hashes of 32 bits collide; the table of names has to
//  grow.
static void
test_many_lines (void **state)
{
    (void) state;
    enum { LINES = 200000 };
    char *text = malloc (LINES * 20 + 20);
    assert_non_null (text);
    size_t at = (size_t) sprintf (text, "path\tx\n");
    for (unsigned int line = 0; line < LINES; line++)
        at += (size_t) sprintf (text + at, "%u/x.jpg\t%u\n", line, line / 2);
    catalogue_t *self = parse_good (&catalogue_tsv, text);
    assert_int_equal (catalogue_samples (self), LINES);
    for (uint32_t id = 0; id < LINES; id += 7) {
        char path [20];
        snprintf (path, sizeof path, "%u/x.jpg", id);
        assert_path_of (self, id, 0, path);
        assert_int_equal (whole_of (self, 0, id), id / 2);
    }
    catalogue_destroy (&self);
    free (text);
}


//  A column of nothing but "0,5" may be meant as decimal numbers: said once, and read as the rule is.
static void
test_decimal_commas_are_warned_of (void **state)
{
    (void) state;
    static const struct { const char *rows; bool warns; } cases [] = {
        { "a\t0,5\nb\t1,25\n", true }, { "a\t0,5\nb\t1.5,2\n", false }, { "a\t0, 5\nb\t1, 2\n", false },
        { "a\t0,5,1\nb\t1,2,3\n", false }, { "a\t0\nb\t1\n", false }, { "a\tx,5\nb\t1,2\n", false }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        char text [64] = "path\tscore\n", error [256];
        strcat (text, cases [index].rows);
        catalogue_t *self;
        assert_int_equal (play_parse (&self, &catalogue_tsv, text, error, sizeof error), 0);
        assert_int_equal (catalogue_warning (self, 0) != NULL, cases [index].warns);
        if (cases [index].warns)
            assert_string_equal (catalogue_warning (self, 0),
                "labels:2: '0,5' of 'score' is read as a vector "
                "of 2 numbers, as in every line; for a decimal number write a point in place of the comma");
        catalogue_destroy (&self);
    }
}

//  -- faults

static void *
failing_malloc (size_t size)
{
    return fault_strikes ()? NULL: __real_malloc (size);
}

static void
test_open_with_faults (void **state)
{
    catalogue_options_t options = play_with_files (*state);
    json_set_alloc_funcs (failing_malloc, free);
    make_text (*state, "labels.tsv", "path\tx\ty\tz\na.jpg\t1\t1,2\tu\nb/c.jpg\t2\t3,4.5\tv\n");
    sweep_open (&options, 2);
    unlink (in (*state, "labels.tsv"));
    make_text (*state, "labels.jsonl", "{\"path\":\"a.jpg\",\"x\":1,\"y\":[1,2],\"z\":\"u\"}\n"
        "{\"path\":\"b/c.jpg\",\"x\":1.5,\"y\":[1,2],\"z\":\"u\"}\n");
    sweep_open (&options, 2);
    json_set_alloc_funcs (malloc, free);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_an_example_of_each_kind, begin, end),
        cmocka_unit_test_setup_teardown (test_fingerprint_has_the_labels, begin, end),
        cmocka_unit_test_setup_teardown (test_fingerprint_has_that_there_are_no_labels, begin, end),
        cmocka_unit_test_setup_teardown (test_line_ends, begin, end),
        cmocka_unit_test_setup_teardown (test_a_folder_named_like_it, begin, end),
        cmocka_unit_test (test_kinds_of_tsv_columns),
        cmocka_unit_test (test_another_locale),
        cmocka_unit_test (test_many_lines),
        cmocka_unit_test (test_decimal_commas_are_warned_of),
        cmocka_unit_test_setup_teardown (test_open_with_faults, begin, end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
