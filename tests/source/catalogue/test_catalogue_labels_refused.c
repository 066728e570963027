/*  Labels files that are refused, each with its line and its remedy.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "catalogue_labels.h"
#include "data_folder.h"
#include "labels_play.h"

typedef struct {
    int code;
    const char *text;
    const char *what;
    const char *remedy;
} refusal_t;

static void
assert_all_refused (void *state, const char *name, const refusal_t *refusals, size_t count)
{
    catalogue_options_t options = play_with_files (state);
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
        { -EINVAL, "path\tx\na.jpg\t1.5\nb/c.jpg\t9007199254740993\n",
            "labels.tsv:3: 'x' has numbers that are not whole, and 9007199254740993, which is beyond 2^53",
            "write all as whole numbers, or this one with a point" },
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

//  Guards: a whole number that float64 would round, before and behind the number that makes the column real.
static void
test_refused_rounding (void **state)
{
    static const refusal_t refusals [] = {
        { -EINVAL, GOOD "{\"path\":\"b/c.jpg\",\"x\":0.5,\"v\":[1.5,9007199254740993],\"t\":\"u\"}\n",
            "labels.jsonl:2: 'v' has numbers that are not whole, and 9007199254740993,", "with a point" },
        { -EINVAL, "{\"path\":\"a.jpg\",\"x\":-9007199254740993}\n{\"path\":\"b/c.jpg\",\"x\":0.5}\n",
            "labels.jsonl:2: 'x' has numbers that are not whole, and -9007199254740993,", "with a point" },
    };
    assert_all_refused (*state, "labels.jsonl", refusals, sizeof refusals / sizeof refusals [0]);
}

//  What is refused before it is read, and a file that changes meanwhile.
static void
test_refused_files (void **state)
{
    catalogue_options_t options = play_with_files (*state);
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
        int rc = play_parse (&self, &catalogue_tsv, text, error, sizeof error);
        if ((rc == 0) != (cases [index].what == NULL)
            || !strstr (error, cases [index].what? cases [index].what: ""))
            fail_msg ("case %zu: %d %s", index, rc, error);
        catalogue_destroy (&self);
    }
    free (text);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_refused_tsv, begin, end),
        cmocka_unit_test_setup_teardown (test_refused_rounding, begin, end),
        cmocka_unit_test_setup_teardown (test_refused_jsonl, begin, end),
        cmocka_unit_test_setup_teardown (test_refused_files, begin, end),
        cmocka_unit_test (test_bounds)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
