/*  Labels files: which samples and values they make, and every refusal with its line and its remedy.
 *
 *  The property test writes a random table as TSV and as JSON lines, in random spellings, and wants the table
 *  back; most of it goes by catalogue_labels_parse, without the disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "catalogue_labels.h"
#include "data_folder.h"
#include "seed.h"

#include <jansson.h>
#include <math.h>

//  Three files that lines can name.
static catalogue_options_t
with_files (void *state)
{
    make_file (state, "a.jpg", 1);
    make_file (state, "b/c.jpg", 2);
    make_file (state, "b/d/e.txt", 3);
    return (catalogue_options_t) { .path = in (state, "") };
}

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
    catalogue_options_t options = with_files (*state);
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
    catalogue_options_t options = with_files (*state);
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
    catalogue_options_t options = with_files (*state);
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
    catalogue_options_t options = with_files (*state);
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

//  *self_p is for catalogue_destroy; its samples have no files.
static int
parse (catalogue_t **self_p, labels_format_t format, const char *text, char *error, size_t error_bytes)
{
    catalogue_t *self = catalogue_new ();
    assert_non_null (self);
    strcpy (self->fields [0].name, "image");
    self->fields [0].path = strdup ("/data");
    self->field_count = 1;
    draft_t draft = { .self = self, .error = error, .error_bytes = error_bytes };
    error [0] = 0;
    *self_p = self;
    return catalogue_labels_parse (&draft, format, text, strlen (text));
}

static catalogue_t *
parse_good (labels_format_t format, const char *text)
{
    catalogue_t *self;
    char error [ERROR_BYTES];
    int rc = parse (&self, format, text, error, sizeof error);
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
    int rc = parse (&self, LABELS_TSV, text, error, sizeof error);
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
    assert_kind ("1.5", "9223372036854775808", "float64", 0);
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
    catalogue_t *tsv = parse_good (LABELS_TSV, "path\tx\ty\na\t0.5\t0,5\n");
    catalogue_t *jsonl = parse_good (LABELS_JSONL, "{\"path\":\"a\",\"x\":0.5}\n");
    setlocale (LC_ALL, "C");
    assert_label (tsv, 0, "x", "float64", 0);
    assert_reals (tsv, 0, 0, &(double) { 0.5 });
    assert_label (tsv, 1, "y", "int64", 2);
    assert_reals (jsonl, 0, 0, &(double) { 0.5 });
    catalogue_destroy (&tsv);
    catalogue_destroy (&jsonl);
}


//  -- what is refused

typedef struct {
    int code;
    const char *text;
    const char *what;
    const char *remedy;
} refusal_t;

static void
assert_all_refused (void *state, const char *name, const refusal_t *refusals, size_t count)
{
    catalogue_options_t options = with_files (state);
    for (size_t index = 0; index < count; index++) {
        make_text (state, name, refusals [index].text);
        assert_refused_with (&options, refusals [index].code, refusals [index].what, refusals [index].remedy);
    }
    unlink (in (state, name));
}

#define NAME_63 "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static void
test_refused_tsv (void **state)
{
    static const refusal_t refusals [] = {
        { -ENODATA, "", "labels.tsv names no file", "write a line for each sample, or remove it" },
        { -ENODATA, "\n\n", "labels.tsv names no file", "write a line" },
        { -ENODATA, "path\tx\n", "labels.tsv names no file", "write a line" },
        { -EINVAL, "a.jpg\t1\n", "labels.tsv:1: the first column is 'a.jpg'",
            "begin the file with a line of the columns' "
            "names, separated by tabs, the first of them path" },
        { -EINVAL, "path,x\na.jpg,1\n", "labels.tsv:1: the first column is 'path,x'", "separated by tabs" },
        { -EINVAL, "path\tx y\na.jpg\t1\n", "labels.tsv:1: a label cannot have the name 'x y'",
            "use letters, digits" },
        { -EINVAL, "path\t\na.jpg\t1\n", "labels.tsv:1: a label cannot have the name ''",
            "use letters, digits" },
        { -EINVAL, "path\t" NAME_63 "x\na.jpg\t1\n", "labels.tsv:1: a label cannot", "at most 63" },
        { -EINVAL, "path\tpath\na.jpg\t1\n", "labels.tsv:1: a label cannot have the name 'path'",
            "choose another" },
        { -EINVAL, "path\timage\na.jpg\t1\n", "labels.tsv:1: a label cannot have the name 'image'",
            "choose another" },
        { -EINVAL, "path\tx\tx\na.jpg\t1\t2\n", "labels.tsv:1: a label cannot have the name 'x'",
            "choose another" },
        { -EINVAL, "path\ta\tb\tc\td\te\tf\tg\th\ti\n", "labels.tsv:1: more than 8 labels",
            "leave some out" },
        { -EINVAL, "path\tx\na.jpg\n", "labels.tsv:2: 1 columns where the header has 2", "single tabs" },
        { -EINVAL, "path\tx\na.jpg\t1\nb/c.jpg\t1\t2\n", "labels.tsv:3: 3 columns where the header has 2",
            "single tabs" },
        { -EINVAL, "path\tx\n\na.jpg\t1\n", "labels.tsv:2: the line is empty", "remove it" },
        { -EINVAL, "\npath\tx\na.jpg\t1\n", "labels.tsv:1: the line is empty", "remove it" },
        { -EINVAL, "path\tx\na.jpg\t1\n\r\nb/c.jpg\t1\n", "labels.tsv:3: the line is empty", "remove it" },
        { -EINVAL, "path\tx\na.jpg\t\nb/c.jpg\t\n", "labels.tsv: 'x' is empty in every line", "remove it" },
        { -EINVAL, "path\tx\na.jpg\t1\nb/c.jpg\t\n", "labels.tsv:3: 'x' is empty, and a number elsewhere",
            "write one, nan" },
        { -EINVAL, "path\tx\na.jpg\t1,2\nb/c.jpg\t1,2,3\n",
            "labels.tsv:3: 'x' has 3 numbers, and 2 in line 2", "give all lines as many" },
        { -EINVAL, "path\tx\na.jpg\t1\nb/c.jpg\t99999999999999999999\n",
            "labels.tsv:3: 'x' does not fit an int64", "write it with a point" },
        { -EINVAL, "path\tx\na.jpg\t1.5\nb/c.jpg\t1e999\n", "labels.tsv:3: 'x' does not fit a float64",
            "write inf" },
        { -EINVAL, "path\tx\na.jpg\tok\nb/c.jpg\t\xff\n", "labels.tsv:3: 'x' is not UTF-8",
            "save the file as UTF-8" },
        { -EINVAL, "path\tx\na.jpg\tok\nb/c.jpg\t\xed\xa0\x80\n", "labels.tsv:3: 'x' is not UTF-8", "save" },
        { -EINVAL, "path\tx\n\t1\n", "labels.tsv:2: '': there is no path", "write the file's" },
        { -EINVAL, "path\tx\n/a.jpg\t1\n", "labels.tsv:2: '/a.jpg': the path is absolute",
            "from the folder on" },
        { -EINVAL, "path\tx\n../a.jpg\t1\n", "labels.tsv:2: '../a.jpg': the path has '..' in it",
            "keep the files below" },
        { -EINVAL, "path\tx\nb/..\t1\n", "labels.tsv:2: 'b/..': the path has '..' in it",
            "keep the files below" },
        { -EINVAL, "path\tx\nb/../a.jpg\t1\n", "the path has '..' in it", "keep the files below" },
        { -EINVAL, "path\tx\n./a.jpg\t1\n", "labels.tsv:2: './a.jpg': the path has an empty part or '.'",
            "write it plainly" },
        { -EINVAL, "path\tx\nb//c.jpg\t1\n", "the path has an empty part", "write it plainly" },
        { -EINVAL, "path\tx\nb/./c.jpg\t1\n", "the path has an empty part or '.'", "write it plainly" },
        { -EINVAL, "path\tx\nb/\t1\n", "the path has an empty part", "write it plainly" },
        { -EINVAL, "path\tx\na.jpg\t1\nb/c.jpg\t1\na.jpg\t2\n",
            "labels.tsv:4: 'a.jpg' is named by line 2 already", "remove one of the lines" },
        { -ENODATA, "path\tx\na.jpg\t1\nb/no\x1b.jpg\t1\n", "labels.tsv:3: there is no file 'b/no?.jpg'",
            "correct the path or remove the line" },
        { -ENODATA, "path\tx\na.jpg/x\t1\n", "labels.tsv:2: there is no file 'a.jpg/x'", "correct the path" },
        { -ENODATA, "path\tx\na.jpg\t1\nb/d\t1\n", "labels.tsv:3: 'b/d' is not a file", "correct the path" },
    };
    assert_all_refused (*state, "labels.tsv", refusals, sizeof refusals / sizeof refusals [0]);
}

//  The second line is told from the first, which is good.
#define GOOD "{\"path\":\"a.jpg\",\"x\":1,\"v\":[1,2],\"t\":\"u\"}\n"

static void
test_refused_jsonl (void **state)
{
    static const refusal_t refusals [] = {
        { -ENODATA, "", "labels.jsonl names no file", "write a line for each sample" },
        { -EINVAL, GOOD "\n" GOOD, "labels.jsonl:2: the line is empty", "remove it" },
        { -EINVAL, GOOD "{\"path\":", "labels.jsonl:2: no JSON object", "write one a line, like {\"path\"" },
        { -EINVAL, GOOD "[1]\n", "labels.jsonl:2: no JSON object (it is a list)", "write one a line" },
        { -EINVAL, GOOD "\"a.jpg\"\n", "labels.jsonl:2: no JSON object", "write one a line" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":NaN}\n",
            "labels.jsonl:2: no JSON object (invalid token near 'NaN')", "write" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":99999999999999999999}\n",
            "labels.jsonl:2: no JSON object (too big", "write" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"path\":\"a\"}\n",
            "labels.jsonl:2: no JSON object (duplicate", "write" },
        { -EINVAL, GOOD "{\"path\":\"\xff\"}\n", "labels.jsonl:2: no JSON object", "write one a line" },
        { -EINVAL, GOOD "{\"path\":\"a\\u0000b\"}\n", "labels.jsonl:2: no JSON object (\\u0000",
            "write one a line" },
        { -EINVAL, "{\"x\":1}\n", "labels.jsonl:1: there is no \"path\" with a string", "write the file's" },
        { -EINVAL, "{\"path\":7}\n", "labels.jsonl:1: there is no \"path\" with a string",
            "write the file's" },
        { -EINVAL, "{\"path\":\"a.jpg\",\"image\":1}\n",
            "labels.jsonl:1: a label cannot have the name 'image'", "choose" },
        { -EINVAL, "{\"path\":\"a.jpg\",\"x-y\":1}\n", "labels.jsonl:1: a label cannot have the name 'x-y'",
            "use letters" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":1,\"v\":[1,2]}\n",
            "labels.jsonl:2: there is no 't', which line 1 has",
            "write the same keys in all lines" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":1,\"v\":[1,2],\"t\":\"u\",\"z\":1}\n",
            "labels.jsonl:2: 'z' is not in line 1", "write the same keys in all lines" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":true,\"v\":[1,2],\"t\":\"u\"}\n",
            "labels.jsonl:2: 'x' is true or false",
            "write 1 or 0" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":null,\"v\":[1,2],\"t\":\"u\"}\n",
            "labels.jsonl:2: 'x' is null", "write a value" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":{},\"v\":[1,2],\"t\":\"u\"}\n",
            "labels.jsonl:2: 'x' is an object", "labels of their own" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":\"1\",\"v\":[1,2],\"t\":\"u\"}\n",
            "labels.jsonl:2: 'x' is a string, and a number in the lines before", "write the same in all" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":[1],\"v\":[1,2],\"t\":\"u\"}\n",
            "labels.jsonl:2: 'x' is a list of numbers, and a number in the lines before",
            "write the same in all" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":1,\"v\":3,\"t\":\"u\"}\n",
            "labels.jsonl:2: 'v' is a number, and a list",
            "write the same in all" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":1,\"v\":[1,2],\"t\":3}\n",
            "labels.jsonl:2: 't' is a number, and a string",
            "write the same in all" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":1,\"v\":[1,2,3],\"t\":\"u\"}\n",
            "labels.jsonl:2: 'v' has 3 numbers, and 2",
            "give all lines as many" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":1,\"v\":[],\"t\":\"u\"}\n",
            "labels.jsonl:2: 'v' is an empty list", "leave the label out" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":1,\"v\":[1,\"2\"],\"t\":\"u\"}\n",
            "labels.jsonl:2: 'v' is a list with other",
            "write numbers alone" },
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":1,\"v\":[[1],[2]],\"t\":\"u\"}\n",
            "labels.jsonl:2: 'v' is a list with other",
            "write numbers alone" },
        { -EINVAL, "{\"path\":\"a.jpg\",\"t\":\"\"}\n", "labels.jsonl: 't' is empty in every line",
            "remove it" },
        { -EINVAL, GOOD "{\"path\":\"../x\",\"x\":1,\"v\":[1,2],\"t\":\"u\"}\n", "labels.jsonl:2: '../x'",
            "keep the files" },
        { -EINVAL, GOOD GOOD, "labels.jsonl:2: 'a.jpg' is named by line 1 already",
            "remove one of the lines" },
        { -ENODATA, GOOD "{\"path\":\"gone\",\"x\":1,\"v\":[1,2],\"t\":\"u\"}\n",
            "labels.jsonl:2: there is no file 'gone'",
            "correct the path or remove the line" },
    };
    assert_all_refused (*state, "labels.jsonl", refusals, sizeof refusals / sizeof refusals [0]);
}

//  What is refused before it is read, and a file that changes meanwhile.
static void
test_refused_files (void **state)
{
    catalogue_options_t options = with_files (*state);
    make_text (*state, "labels.tsv", "path\tx\na.jpg\t1\n");
    make_text (*state, "labels.jsonl", "{\"path\":\"a.jpg\"}\n");
    assert_refused_with (&options, -EINVAL, "both labels.tsv and labels.jsonl", "remove one");
    unlink (in (*state, "labels.jsonl"));
    make_file_of (*state, "labels.tsv", "path\tx\na.jpg\t1\0002\n", 17);
    assert_refused_with (&options, -EINVAL, "labels.tsv:2: there is a zero byte", "save the file as UTF-8");
    read_cuts = 4;
    assert_refused_with (&options, -ESTALE, "cannot read", "it changed meanwhile: try again");
    read_cuts = 0;
    assert_int_equal (truncate (in (*state, "labels.tsv"), (4l << 30) + 1), 0);
    assert_refused_with (&options, -EINVAL, "has more than 4294967296 bytes", "serve the data in parts");
    unlink (in (*state, "labels.tsv"));
    assert_int_equal (mkfifo (in (*state, "labels.tsv"), 0600), 0);
    assert_refused_with (&options, -EINVAL, "labels.tsv' is not a file", "remove it");
    unlink (in (*state, "labels.tsv"));
    assert_int_equal (symlink ("nowhere", in (*state, "labels.tsv")), 0);
    assert_refused_with (&options, -ENOENT, "cannot read", "labels.tsv");
    unlink (in (*state, "labels.tsv"));
    catalogue_field_t field = { .name = "x", .path = in (*state, "b") };
    make_text (*state, "labels.tsv", "path\tx\na.jpg\t1\n");
    options.fields = &field;
    options.field_count = 1;
    assert_refused_with (&options, -EINVAL,
        "labels.tsv:1: a label cannot have the name 'x', which another label, a field", "choose another");
}

//  A line, a path, a text and a vector are bounded; at the bound they are read.
static void
test_bounds (void **state)
{
    (void) state;
    enum { TEXT = CATALOGUE_LABEL_BYTES_MAX, NUMBERS = CATALOGUE_LABEL_BYTES_MAX / 8,
        ROOM = LABELS_LINE_BYTES_MAX + 100 };
    char *text = malloc (ROOM + 1), error [ERROR_BYTES];
    assert_non_null (text);
    static const struct {
        size_t count;               //  of the filling
        const char *head;
        const char *filling;
        const char *what;           //  NULL: good
    } cases [] = {
        { TEXT, "path\tx\na\t", "x", NULL },
        { TEXT + 1, "path\tx\na\t", "x", "labels:2: 'x' has 65537 bytes: shorten it to at most 65536" },
        { NUMBERS - 1, "path\tx\na\t1", ",1", NULL },
        { NUMBERS, "path\tx\na\t1", ",1", "labels:2: 'x' has 8193 numbers: keep to at most 8192" },
        { LABELS_LINE_BYTES_MAX - 1, "path\tx\na\t", "x",
            "labels:2: the line has 1048577 bytes: shorten it to at most" },
        { PATH_MAX - 1, "path\n", "x", NULL },
        { PATH_MAX, "path\n", "x", "labels:2: the path has 4096 bytes: move the file up" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases [0]; index++) {
        strcpy (text, cases [index].head);
        size_t at = strlen (text), size = strlen (cases [index].filling);
        for (size_t count = 0; count < cases [index].count; count++, at += size)
            memcpy (text + at, cases [index].filling, size);
        text [at] = 0;
        catalogue_t *self;
        int rc = parse (&self, LABELS_TSV, text, error, sizeof error);
        if ((rc == 0) != (cases [index].what == NULL)
            || !strstr (error, cases [index].what? cases [index].what: ""))
            fail_msg ("case %zu: %d %s", index, rc, error);
        catalogue_destroy (&self);
    }
    free (text);
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
    catalogue_t *self = parse_good (LABELS_TSV, text);
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


//  -- against the model

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
        int rc = parse (&self, table.is_json? LABELS_JSONL: LABELS_TSV, written.text, error, sizeof error);
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
        int rc = parse (&self, table.is_json? LABELS_JSONL: LABELS_TSV, written.text, error, sizeof error);
        if ((rc == 0) != (*error == 0) || (rc && rc != -EINVAL && rc != -ENODATA))
            fail_msg ("TEST_SEED=%" PRIu64 ": %d: %s\n%s", seed, rc, error, written.text);
        refused += rc != 0;
        catalogue_destroy (&self);
    }
    print_message ("%zu of %d refused\n", refused, ROUNDS);
    assert_true (refused > ROUNDS / 10 && refused < ROUNDS);
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
    catalogue_options_t options = with_files (*state);
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
        cmocka_unit_test_setup_teardown (test_refused_tsv, begin, end),
        cmocka_unit_test_setup_teardown (test_refused_jsonl, begin, end),
        cmocka_unit_test_setup_teardown (test_refused_files, begin, end),
        cmocka_unit_test (test_bounds),
        cmocka_unit_test (test_many_lines),
        cmocka_unit_test (test_against_the_model),
        cmocka_unit_test (test_damaged_texts),
        cmocka_unit_test_setup_teardown (test_open_with_faults, begin, end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
