/*  Sources of packs: which kind a path is, that folders and lists give the catalogue's samples in its order,
 *  and what they refuse.  Tar files have their own test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pack_source.h"
#include "scratch.h"

#include <limits.h>

static int
begin (void **state)
{
    scratch_folder_t *scratch = calloc (1, sizeof *scratch);
    *state = scratch;
    alarm (300);
    return scratch && scratch_begin (scratch)? 0: -1;
}

static int
end (void **state)
{
    bool clean = scratch_end (*state);
    free (*state);
    return clean? 0: -1;
}

static const char *
in (void *state, const char *name)
{
    static char paths [16] [PATH_MAX];
    static unsigned int turn;
    char *path = paths [turn++ % 16];
    snprintf (path, PATH_MAX, "%s/%s", ((scratch_folder_t *) state)->path, name);
    return path;
}

static void
make (void *state, const char *name, const char *text)
{
    FILE *file = fopen (in (state, name), "w");
    assert_non_null (file);
    assert_true (fputs (text, file) >= 0);
    assert_int_equal (fclose (file), 0);
}

static void
make_data (void *state)
{
    static const char *const folders [] = { "data", "data/a", "data/b", "masks", "masks/a", "masks/b" };
    for (size_t index = 0; index < sizeof folders / sizeof *folders; index++)
        assert_int_equal (mkdir (in (state, folders [index]), 0700), 0);
    make (state, "data/a/1.jpg", "one");
    make (state, "data/a/2.jpg", "two!");
    make (state, "data/b/3.jpg", "three");
    make (state, "masks/a/1.png", "mask 1");
    make (state, "masks/a/2.png", "mask 2");
    make (state, "masks/b/3.png", "");
}

static pack_source_t *
open_source (const pack_source_options_t *options)
{
    pack_source_t *source;
    char error [PACK_SOURCE_ERROR_BYTES];
    if (pack_source_open (&source, options, error))
        fail_msg ("%s", error);
    assert_string_equal (error, "");
    return source;
}

static void
assert_refused (const pack_source_options_t *options, int code, const char *what, const char *remedy)
{
    pack_source_t *source;
    char error [PACK_SOURCE_ERROR_BYTES];
    int rc = pack_source_open (&source, options, error);
    assert_null (source);
    if (rc != code || !strstr (error, what) || !strstr (error, remedy))
        fail_msg ("%d, not %d: '%s', not '%s', '%s'", rc, code, error, what, remedy);
}

//  The next sample has these texts, by field.
static void
assert_next (pack_source_t *source, size_t count, ...)
{
    pack_item_t item;
    char error [PACK_SOURCE_ERROR_BYTES];
    int rc = pack_source_next (source, &item, error);
    if (rc != 1)
        fail_msg ("%d: %s", rc, error);
    assert_int_equal (item.field_count, count);
    va_list texts;
    va_start (texts, count);
    for (size_t field = 0; field < count; field++) {
        const char *text = va_arg (texts, const char *);
        assert_int_equal (item.bytes [field], strlen (text));
        assert_memory_equal (item.files [field], text, strlen (text));
    }
    va_end (texts);
}

static void
assert_end (pack_source_t **source_p, uint32_t samples, uint64_t bytes)
{
    pack_item_t item;
    char error [PACK_SOURCE_ERROR_BYTES];
    uint64_t done, total;
    for (int again = 0; again < 2; again++)
        assert_int_equal (pack_source_next (*source_p, &item, error), 0);
    pack_source_progress (*source_p, &done, &total);
    assert_int_equal (done, bytes);
    assert_int_equal (total, bytes);
    assert_int_equal (catalogue_samples (pack_source_catalogue (*source_p)), samples);
    pack_source_destroy (source_p);
    assert_null (*source_p);
}

static void
test_folder_with_fields (void **state)
{
    make_data (*state);
    const char *path = in (*state, "data");
    catalogue_field_t field = { "mask", true, in (*state, "masks") };
    pack_source_options_t options = { .paths = &path, .path_count = 1, .fields = &field, .field_count = 1 };
    pack_source_t *source = open_source (&options);
    assert_next (source, 2, "one", "mask 1");
    assert_next (source, 2, "two!", "mask 2");
    assert_next (source, 2, "three", "");
    assert_end (&source, 3, 24);
    //  Passing over leaves it where reading would.
    char error [PACK_SOURCE_ERROR_BYTES];
    source = open_source (&options);
    assert_int_equal (pack_source_skip (source, 0, error), 1);
    assert_int_equal (pack_source_skip (source, 2, error), 1);
    assert_next (source, 2, "three", "");
    assert_int_equal (pack_source_skip (source, 1, error), -ESTALE);
    assert_non_null (strstr (error, "begin anew"));
    assert_end (&source, 3, 24);
}

static void
test_lists_lie_anywhere (void **state)
{
    make_data (*state);
    assert_int_equal (mkdir (in (*state, "lists"), 0700), 0);
    make (*state, "relative.txt", "data/b/3.jpg\ndata/a/1.jpg\r\n\n");
    make (*state, "labels.tsv", "path\tlabel\ndata/a/2.jpg\t7\n");
    char text [3 * PATH_MAX];
    snprintf (text, sizeof text,
        "{\"path\": \"%s\", \"caption\": \"x\"}\n{\"path\": \"%s\", \"caption\": \"yy\"}\n",
        in (*state, "data/a/2.jpg"), in (*state, "data/a/1.jpg"));
    make (*state, "lists/absolute.jsonl", text);
    const char *path = in (*state, "relative.txt");
    pack_source_options_t options = { .paths = &path, .path_count = 1 };
    pack_source_t *source = open_source (&options);
    assert_int_equal (catalogue_labels (pack_source_catalogue (source)), 0);
    assert_next (source, 1, "three");
    assert_next (source, 1, "one");
    assert_end (&source, 2, 8);
    path = in (*state, "labels.tsv");
    source = open_source (&options);
    int64_t label = 0;
    catalogue_label_value (pack_source_catalogue (source), 0, 0, (uint8_t *) &label);
    assert_int_equal (label, 7);
    assert_next (source, 1, "two!");
    assert_end (&source, 1, 4);
    path = in (*state, "lists/absolute.jsonl");
    source = open_source (&options);
    char name [PATH_MAX];
    catalogue_path (pack_source_catalogue (source), 1, 0, name, sizeof name);
    assert_string_equal (name, in (*state, "data/a/1.jpg") + 1);
    assert_next (source, 1, "two!");
    assert_next (source, 1, "one");
    assert_end (&source, 2, 7);
    //  Without a folder in front, it is the one we are in.
    char before [PATH_MAX];
    assert_non_null (getcwd (before, sizeof before));
    assert_int_equal (chdir (in (*state, "")), 0);
    path = "relative.txt";
    source = open_source (&options);
    assert_next (source, 1, "three");
    assert_next (source, 1, "one");
    assert_end (&source, 2, 8);
    assert_int_equal (chdir (before), 0);
}

static void
test_refusals_name_the_remedy (void **state)
{
    make_data (*state);
    const char *paths [2] = { in (*state, "nowhere"), in (*state, "data") };
    pack_source_options_t options = { .paths = paths, .path_count = 1 };
    assert_refused (&options, -ENOENT, "nowhere", "check the path");
    paths [0] = in (*state, "data/a/1.jpg");
    options.path_count = 2;
    assert_refused (&options, -EINVAL, "is a folder, and there are 2 sources", "give it alone");
    options.path_count = 1;
    catalogue_field_t field = { "mask", true, in (*state, "masks") };
    options.fields = &field;
    options.field_count = 1;
    assert_refused (&options, -EINVAL, "fields are for folders", "as members");
    options.field_count = 0;
    options.masks = "png";
    paths [0] = in (*state, "data");
    assert_refused (&options, -EINVAL, "are for tar files", "as fields");
    options.masks = NULL;
    paths [0] = in (*state, "list.txt");
    make (*state, "list.txt", "");
    assert_refused (&options, -ENODATA, "list.txt names no file", "write a line");
    make (*state, "list.txt", "data/a/1.jpg\ndata/a/none.jpg\n");
    assert_refused (&options, -ENODATA, "list.txt:2: there is no file 'data/a/none.jpg'", "correct the path");
    make (*state, "list.txt", "data/a/1.jpg\n/data/a/none.jpg\n");
    assert_refused (&options, -EINVAL, "list.txt:2: '/data/a/none.jpg' is absolute", "all paths in one way");
    make (*state, "list.txt", "data/a/1.jpg\ndata/a/1.jpg\n");
    assert_refused (&options, -EINVAL, "list.txt:2: 'data/a/1.jpg' is named by line 1", "remove one");
    make (*state, "list.txt", "data/../data/a/1.jpg\n");
    assert_refused (&options, -EINVAL, "list.txt:1:", "'..'");
    make (*state, "list.jsonl", "data/a/1.jpg\n");
    paths [0] = in (*state, "list.jsonl");
    assert_refused (&options, -EINVAL, "list.jsonl:1: no JSON object", "write one a line");
}

//  What cannot be read ends it, by its name; nothing is left out.
static void
test_unreadable_file_ends_it (void **state)
{
    make_data (*state);
    const char *path = in (*state, "data");
    pack_source_options_t options = { .paths = &path, .path_count = 1 };
    pack_source_t *source = open_source (&options);
    char error [PACK_SOURCE_ERROR_BYTES];
    pack_item_t item;
    assert_next (source, 1, "one");
    make (*state, "data/a/2.jpg", "two, longer");
    assert_int_equal (pack_source_next (source, &item, error), -ESTALE);
    assert_non_null (strstr (error, "data/a/2.jpg' (its size is another): it changed meanwhile; begin anew"));
    make (*state, "data/a/2.jpg", "two!");
    assert_next (source, 1, "two!");
    assert_int_equal (unlink (in (*state, "data/b/3.jpg")), 0);
    assert_int_equal (pack_source_next (source, &item, error), -ENOENT);
    assert_non_null (strstr (error, "data/b/3.jpg"));
    assert_int_equal (symlink ("nowhere", in (*state, "data/b/3.jpg")), 0);
    assert_int_equal (pack_source_next (source, &item, error), -ENOENT);
    assert_non_null (strstr (error, "mend the link"));
    pack_source_destroy (&source);
}

static void
signature_of (void *state, char signature [33])
{
    const char *path = in (state, "data");
    pack_source_options_t options = { .paths = &path, .path_count = 1 };
    pack_source_t *source = open_source (&options);
    strcpy (signature, pack_source_signature (source));
    assert_int_equal (strlen (signature), 32);
    pack_source_destroy (&source);
}

//  The signature sees names, sizes and times, and nothing else.
static void
test_signature (void **state)
{
    make_data (*state);
    char first [33], other [33];
    signature_of (*state, first);
    signature_of (*state, other);
    assert_string_equal (first, other);
    struct timespec times [2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    assert_int_equal (utimensat (AT_FDCWD, in (*state, "data/a/2.jpg"), times, 0), 0);
    signature_of (*state, other);
    assert_string_not_equal (first, other);
    strcpy (first, other);
    assert_int_equal (rename (in (*state, "data/a/2.jpg"), in (*state, "data/a/4.jpg")), 0);
    signature_of (*state, other);
    assert_string_not_equal (first, other);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_folder_with_fields, begin, end),
        cmocka_unit_test_setup_teardown (test_lists_lie_anywhere, begin, end),
        cmocka_unit_test_setup_teardown (test_refusals_name_the_remedy, begin, end),
        cmocka_unit_test_setup_teardown (test_unreadable_file_ends_it, begin, end),
        cmocka_unit_test_setup_teardown (test_signature, begin, end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
