/*  Further fields of the catalogue: which file belongs to a sample, what is refused, and reading.  The
 *  property test has a simple model: all files against all samples.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data_folder.h"
#include "effort.h"
#include "seed.h"

#include <malloc.h>

//  The samples in "data", a mask for each in "masks".
static catalogue_options_t
with_masks (void *state)
{
    static catalogue_field_t fields [1];
    fields [0] = (catalogue_field_t) { .name = "mask", .is_mask = true, .path = in (state, "masks") };
    return (catalogue_options_t) { .path = in (state, "data"), .fields = fields, .field_count = 1 };
}

static void
assert_refused (void *state, int code, const char *what, const char *remedy)
{
    catalogue_options_t options = with_masks (state);
    assert_refused_with (&options, code, what, remedy);
}


//  -- what is found

//  Two fields beside the image, in directories, with any extension; every question answered.
static void
test_every_sample_gets_its_files (void **state)
{
    make_file (*state, "data/cat/x.jpg", 10);
    make_file (*state, "data/cat/deep/y.v2.jpeg", 20);
    make_file (*state, "data/dog/.png", 30);
    make_file (*state, "masks/cat/x.png", 1);
    make_file (*state, "masks/cat/deep/y.v2.PNG", 2);
    make_file (*state, "masks/dog/.tif", 3);
    make_file (*state, "depth/cat/x", 4);
    make_file (*state, "depth/cat/deep/y.v2.exr", 5);
    make_file (*state, "depth/dog/.d", 6);
    const catalogue_field_t fields [] = {
        { .name = "mask", .is_mask = true, .path = in (*state, "masks") },
        { .name = "depth_1", .path = in (*state, "depth") }
    };
    catalogue_options_t options = { .path = in (*state, "data"), .fields = fields, .field_count = 2 };
    catalogue_t *catalogue = open_with (&options);
    static const char *const paths [3] [3] = {
        { "cat/x.jpg", "cat/x.png", "cat/x" },
        { "cat/deep/y.v2.jpeg", "cat/deep/y.v2.PNG", "cat/deep/y.v2.exr" },
        { "dog/.png", "dog/.tif", "dog/.d" }
    };
    assert_int_equal (catalogue_fields (catalogue), 3);
    for (uint32_t id = 0; id < 3; id++)
        for (size_t field = 0; field < 3; field++)
            assert_path_of (catalogue, id, field, paths [id] [field]);
    assert_string_equal (catalogue_field_name (catalogue, 1), "mask");
    assert_true (catalogue_field_is_mask (catalogue, 1));
    assert_string_equal (catalogue_field_name (catalogue, 2), "depth_1");
    assert_false (catalogue_field_is_mask (catalogue, 2));
    assert_int_equal (catalogue_file_bytes (catalogue, 1, 0), 20);
    assert_int_equal (catalogue_file_bytes (catalogue, 1, 1), 2);
    assert_int_equal (catalogue_file_bytes (catalogue, 1, 2), 5);
    assert_int_equal (catalogue_bytes (catalogue), 60 + 6 + 15);
    catalogue_destroy (&catalogue);
}

//  What belongs to no sample is passed over: other files, folders, the masks of files that do not count.
static void
test_the_rest_is_passed_over (void **state)
{
    make_file (*state, "data/cat/x.jpg", 1);
    make_file (*state, "data/cat/notes.txt", 1);
    make_file (*state, "masks/cat/x.png", 2);
    make_file (*state, "masks/cat/xx.png", 3);
    make_file (*state, "masks/cat/X.png", 3);
    make_file (*state, "masks/cat/notes.png", 3);
    make_file (*state, "masks/cat/x.dir/x.png", 3);
    make_file (*state, "masks/dog/x.png", 3);
    make_file (*state, "masks/x.png", 3);
    assert_int_equal (symlink ("nowhere", in (*state, "masks/cat/x.tif")), 0);
    assert_int_equal (mkfifo (in (*state, "masks/cat/x.fifo"), 0600), 0);
    catalogue_options_t options = with_masks (*state);
    catalogue_t *catalogue = open_with (&options);
    assert_path_of (catalogue, 0, 1, "cat/x.png");
    assert_int_equal (catalogue_bytes (catalogue), 3);
    catalogue_destroy (&catalogue);
}

//  In the order of a labels file, at the root too, where classes do not matter; the field's links are
//  followed.
static void
test_beside_a_labels_file (void **state)
{
    make_file (*state, "data/b/2.jpg", 1);
    make_file (*state, "data/1.jpg", 1);
    make_file (*state, "data/b/1.jpg", 1);
    make_text (*state, "data/labels.tsv", "path\tlabel\nb/2.jpg\t5\n1.jpg\t6\nb/1.jpg\t7\n");
    make_file (*state, "masks/b/1.png", 2);
    make_file (*state, "masks/1.png", 3);
    make_file (*state, "elsewhere", 4);
    assert_int_equal (symlink ("../../elsewhere", in (*state, "masks/b/2.png")), 0);
    catalogue_options_t options = with_masks (*state);
    catalogue_t *catalogue = open_with (&options);
    static const char *const paths [] = { "b/2.png", "1.png", "b/1.png" };
    static const uint64_t sizes [] = { 4, 3, 2 };
    for (uint32_t id = 0; id < 3; id++) {
        assert_path_of (catalogue, id, 1, paths [id]);
        assert_int_equal (catalogue_file_bytes (catalogue, id, 1), sizes [id]);
    }
    catalogue_destroy (&catalogue);
}

//  The bytes are the field's, and a change is told.
static void
test_reading_a_field (void **state)
{
    make_file (*state, "data/cat/x.jpg", 1);
    make_file (*state, "masks/cat/x.png", 200);
    catalogue_options_t options = with_masks (*state);
    catalogue_t *catalogue = open_with (&options);
    catalogue_buffer_t buffer = { 0 };
    assert_int_equal (catalogue_read (catalogue, 0, 1, &buffer), 0);
    assert_int_equal (buffer.size, 200);
    assert_int_equal (buffer.bytes [199], 199);
    make_file (*state, "masks/cat/x.png", 201);
    assert_int_equal (catalogue_read (catalogue, 0, 1, &buffer), -ESTALE);
    assert_int_equal (buffer.size, 0);
    unlink (in (*state, "masks/cat/x.png"));
    assert_int_equal (catalogue_read (catalogue, 0, 1, &buffer), -ENOENT);
    assert_int_equal (catalogue_read (catalogue, 0, 0, &buffer), 0);
    assert_int_equal (buffer.size, 1);
    free (buffer.bytes);
    catalogue_destroy (&catalogue);
}

static void
take_print (const catalogue_options_t *options, char print [33])
{
    catalogue_t *catalogue = open_with (options);
    strcpy (print, catalogue_fingerprint (catalogue));
    catalogue_destroy (&catalogue);
}

//  A field is part of the data: its name, that it is a mask, its files' extensions and sizes; not where it
//  lies.
static void
test_fingerprint_has_the_fields (void **state)
{
    make_file (*state, "data/cat/x.jpg", 1);
    make_file (*state, "masks/cat/x.png", 2);
    make_file (*state, "copy/cat/x.png", 2);
    make_file (*state, "copy/cat/y.png", 2);
    make_file (*state, "other/cat/x.png", 3);
    make_file (*state, "third/cat/x.tif", 2);
    catalogue_options_t options = with_masks (*state);
    catalogue_field_t field = options.fields [0];
    char print [33], changed [33];
    take_print (&options, print);
    options.fields = &field;
    field.path = in (*state, "copy");
    take_print (&options, changed);
    assert_string_equal (changed, print);
    static const char *const paths [] = { "other", "third", "masks", "masks", "masks" };
    for (size_t index = 0; index < sizeof paths / sizeof paths [0]; index++) {
        field = (catalogue_field_t) { .name = index == 2? "musk": "mask", .is_mask = index != 3,
            .path = in (*state, paths [index]) };
        options.field_count = index != 4;
        take_print (&options, changed);
        assert_string_not_equal (changed, print);
    }
}

//  16 bytes a sample and field, as its extension is kept once.
static void
test_memory_per_sample (void **state)
{
#if defined (EFFORT_SANITIZED)
    skip ();
#endif
    enum { FILES = 1000 };
    make_file (*state, "data/cat/x.jpg", 0);
    make_file (*state, "masks/cat/x.png", 0);
    char name [40];
    for (int file = 0; file < FILES; file++) {
        snprintf (name, sizeof name, "data/cat/%08d.jpg", file);
        assert_int_equal (mknod (in (*state, name), S_IFREG | 0600, 0), 0);
        snprintf (name, sizeof name, "masks/cat/%08d.png", file);
        assert_int_equal (mknod (in (*state, name), S_IFREG | 0600, 0), 0);
    }
    catalogue_options_t options = with_masks (*state);
    size_t used [3];
    for (size_t count = 0; count < 2; count++) {
        options.field_count = count;
        struct mallinfo2 before = mallinfo2 ();
        catalogue_t *catalogue = open_with (&options);
        struct mallinfo2 after = mallinfo2 ();
        used [count] = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
        catalogue_destroy (&catalogue);
    }
    print_message ("%zu bytes for %d files of a field\n", used [1] - used [0], FILES + 1);
    assert_in_range (used [1] - used [0], 16 * FILES, 18 * FILES);
}


//  -- what is refused

//  The first sample without a file is named, and how many there are; a class without its folder, a link to
//  nowhere and a folder of that name come to the same.
static void
test_missing_files (void **state)
{
    make_file (*state, "data/cat/a.jpg", 1);
    make_file (*state, "data/cat/b.jpg", 1);
    make_file (*state, "data/dog/c.jpg", 1);
    make_file (*state, "masks/cat/a.png", 1);
    assert_refused (*state, -ENODATA,
        "field 'mask': no file for 2 of the 3 samples, the first is 'cat/b.jpg'",
        "/masks/cat/b.*': add the files");
    make_file (*state, "masks/cat/b.png", 1);
    assert_refused (*state, -ENODATA, "no file for 1 of the 3 samples, the first is 'dog/c.jpg'",
        "/masks/dog/c.*'");
    make_file (*state, "masks/dog", 1);
    assert_refused (*state, -ENODATA, "the first is 'dog/c.jpg'", "/masks/dog/c.*'");
    unlink (in (*state, "masks/dog"));
    assert_int_equal (mkdir (in (*state, "masks/dog"), 0700), 0);
    assert_int_equal (symlink ("c.png", in (*state, "masks/dog/c.png")), 0);
    assert_refused (*state, -ENODATA, "the first is 'dog/c.jpg'", "/masks/dog/c.*'");
    unlink (in (*state, "masks/dog/c.png"));
    assert_int_equal (mkdir (in (*state, "masks/dog/c.png"), 0700), 0);
    assert_refused (*state, -ENODATA, "the first is 'dog/c.jpg'", "/masks/dog/c.*'");
    make_file (*state, "masks/dog/c.tif", 1);
    catalogue_options_t options = with_masks (*state);
    catalogue_t *catalogue = open_with (&options);
    catalogue_destroy (&catalogue);
}

static void
test_two_files_with_one_stem (void **state)
{
    make_file (*state, "data/cat/a.jpg", 1);
    make_file (*state, "masks/cat/a.png", 1);
    make_file (*state, "masks/cat/a.PNG", 1);
    assert_refused (*state, -EINVAL, "a.png'", "belong to the sample 'cat/a.jpg': remove one");
    assert_refused (*state, -EINVAL, "a.PNG'", "remove one");
}

static void
test_two_samples_with_one_stem (void **state)
{
    make_file (*state, "data/cat/a.jpg", 1);
    make_file (*state, "data/cat/a.png", 1);
    make_file (*state, "masks/cat/a.png", 1);
    assert_refused (*state, -EINVAL, "'cat/a.jpg' and 'cat/a.png' differ in their extension only",
        "rename one");
    //  In two folders they are two.
    assert_int_equal (mkdir (in (*state, "data/dog"), 0700), 0);
    assert_int_equal (rename (in (*state, "data/cat/a.png"), in (*state, "data/dog/a.png")), 0);
    make_file (*state, "masks/dog/a.png", 1);
    catalogue_options_t options = with_masks (*state);
    catalogue_t *catalogue = open_with (&options);
    catalogue_destroy (&catalogue);
}

static void
test_folders_of_fields (void **state)
{
    make_file (*state, "data/cat/a.jpg", 1);
    assert_refused (*state, -ENOENT, "/masks' for the field mask", "check the path");
    make_file (*state, "masks", 1);
    assert_refused (*state, -ENOTDIR, "/masks' is not a folder", "give the folder");
}

static void
test_names_of_fields (void **state)
{
    make_file (*state, "data/cat/a.jpg", 1);
    make_file (*state, "masks/cat/a.png", 1);
    static const char *const bad [] = {
        "", "a-b", "a b", "m\xc3\xa4sk", "0123456789012345678901234567890123456789012345678901234567890123"
    };
    catalogue_field_t fields [CATALOGUE_FIELDS_MAX];
    catalogue_options_t options = { .path = in (*state, "data"), .fields = fields, .field_count = 1 };
    fields [0] = (catalogue_field_t) { .path = in (*state, "masks") };
    for (size_t index = 0; index < sizeof bad / sizeof bad [0]; index++) {
        fields [0].name = bad [index];
        assert_refused_with (&options, -EINVAL, bad [index], "use letters, digits and '_', at most 63");
    }
    fields [0].name = bad [4] + 1;      //  63 bytes
    catalogue_t *catalogue = open_with (&options);
    catalogue_destroy (&catalogue);
    fields [0].name = "image";
    assert_refused_with (&options, -EINVAL, "two fields 'image'", "a name of its own");
    fields [0].name = "label";
    assert_refused_with (&options, -EINVAL, "'label', which the class's number has", "choose another");
    for (size_t index = 0; index < CATALOGUE_FIELDS_MAX; index++)
        fields [index] = (catalogue_field_t) { .name = "mask", .path = in (*state, "masks") };
    options.field_count = 2;
    assert_refused_with (&options, -EINVAL, "two fields 'mask'", "a name of its own");
    options.field_count = CATALOGUE_FIELDS_MAX;
    assert_refused_with (&options, -EINVAL, "8 further fields", "at most 7");
    //  "label" is free where a labels file has none.
    make_text (*state, "data/labels.tsv", "path\nb/a.jpg\n");
    make_file (*state, "data/b/a.jpg", 1);
    make_file (*state, "masks/b/a.png", 1);
    fields [0].name = "label";
    options.field_count = 1;
    catalogue = open_with (&options);
    assert_int_equal (catalogue_labels (catalogue), 0);
    catalogue_destroy (&catalogue);
}

//  The sample's path fits, the mask's does not.
static void
test_a_path_that_is_too_long (void **state)
{
    char name [256];
    memset (name, 'd', sizeof name);
    name [250] = 0;
    static const char *const roots [] = { "data", "masks" };
    for (size_t root = 0; root < 2; root++) {
        assert_int_equal (mkdir (in (*state, roots [root]), 0700), 0);
        int fd = open (in (*state, roots [root]), O_RDONLY | O_DIRECTORY);
        for (int depth = 0; depth < 16; depth++) {
            assert_int_equal (mkdirat (fd, name, 0700), 0);
            int next = openat (fd, name, O_RDONLY | O_DIRECTORY);
            close (fd);
            fd = next;
        }
        static const char *const files [] = { "x.jpg",
            "x.a-long-extension-that-fills-what-is-left-of-the-path-to-the-"
            "last-byte-and-then-goes-on-for-a-while" };
        assert_int_equal (mknodat (fd, files [root], S_IFREG | 0600, 0), 0);
        close (fd);
    }
    assert_refused (*state, -ENAMETOOLONG, "/masks/ddd", "shorten");
}


//  -- against the model

enum { MODEL_FILES_MAX = 24 };

typedef struct {
    size_t count;
    char directory [MODEL_FILES_MAX] [8];
    char stem [MODEL_FILES_MAX] [8];
    char extension [MODEL_FILES_MAX] [8];
} model_t;

static size_t
model_find (const model_t *model, const char *directory, const char *stem, size_t *count_p)
{
    size_t found = MODEL_FILES_MAX;
    *count_p = 0;
    for (size_t index = 0; index < model->count; index++)
        if (!strcmp (model->directory [index], directory) && !strcmp (model->stem [index], stem)) {
            found = index;
            ++*count_p;
        }
    return found;
}

//  Random files below root, no two of one name.
static void
model_fill (void *state, model_t *model, const char *root, size_t count, const char *const *extensions,
    uint64_t *random)
{
    static const char *const directories [] = { "a", "b", "b/c" },
        *const stems [] = { "x", "y", "x.", "x.y", "", "xx" };
    char name [64];
    model->count = 0;
    for (size_t index = 0; index < count; index++) {
        char *directory = model->directory [model->count], *stem = model->stem [model->count];
        char *extension = model->extension [model->count];
        strcpy (directory, directories [test_below (random, 3)]);
        strcpy (stem, stems [test_below (random, 6)]);
        strcpy (extension, extensions [test_below (random, 3)]);
        snprintf (name, sizeof name, "%s/%s/%s%s", root, directory, stem, extension);
        if (access (in (state, name), F_OK) == 0)
            continue;
        make_file (state, name, index);
        model->count++;
    }
}

//  What opening must come to: 0, -EINVAL where a stem belongs to two, -ENODATA where one is without.
static int
model_answer (const model_t *samples, const model_t *masks)
{
    int answer = 0;
    size_t twins, found;
    for (size_t id = 0; id < samples->count; id++) {
        model_find (samples, samples->directory [id], samples->stem [id], &twins);
        model_find (masks, samples->directory [id], samples->stem [id], &found);
        if (twins > 1 || found > 1)
            return -EINVAL;
        if (found == 0)
            answer = -ENODATA;
    }
    return answer;
}

static void
assert_as_model (const catalogue_t *catalogue, const model_t *samples, const model_t *masks, uint64_t seed)
{
    assert_int_equal (catalogue_samples (catalogue), samples->count);
    for (uint32_t id = 0; id < catalogue_samples (catalogue); id++) {
        char path [64], expected [64], mask [64];
        catalogue_path (catalogue, id, 0, path, sizeof path);
        catalogue_path (catalogue, id, 1, mask, sizeof mask);
        size_t sample = 0, count;
        for (; sample < samples->count; sample++) {
            snprintf (expected, sizeof expected, "%s/%s%s", samples->directory [sample],
                samples->stem [sample], samples->extension [sample]);
            if (!strcmp (expected, path))
                break;
        }
        assert_true (sample < samples->count);
        size_t file = model_find (masks, samples->directory [sample], samples->stem [sample], &count);
        snprintf (expected, sizeof expected, "%s/%s%s", masks->directory [file], masks->stem [file],
            masks->extension [file]);
        if (strcmp (expected, mask))
            fail_msg ("TEST_SEED=%" PRIu64 ": '%s' has '%s', not '%s'", seed, path, mask, expected);
    }
}

//  Random folders of names that collide: the same files, or the same refusal.
static void
test_against_the_model (void **state)
{
    static const char *const images [] = { ".jpg", ".png", ".jpeg" },
        *const others [] = { ".png", ".tif", ".t" };
    size_t answers [3] = { 0 };
    for (uint64_t seed = test_seed (), round = 0; round < 60; round++, seed++) {
        uint64_t random = seed;
        model_t samples, masks;
        //  Every class has a sample.
        model_fill (*state, &samples, "data", 1 + test_below (&random, 5), images, &random);
        model_fill (*state, &masks, "masks", test_below (&random, MODEL_FILES_MAX), others, &random);
        if (masks.count == 0)
            make_file (*state, "masks/unused", 0);
        //  Mostly, the masks that are missing are added.
        for (size_t id = 0; test_below (&random, 4) && id < samples.count
            && masks.count < MODEL_FILES_MAX; id++) {
            size_t count, last = masks.count;
            model_find (&masks, samples.directory [id], samples.stem [id], &count);
            if (count == 0) {
                strcpy (masks.directory [last], samples.directory [id]);
                strcpy (masks.stem [last], samples.stem [id]);
                strcpy (masks.extension [last], ".bmp");
                char name [64];
                snprintf (name, sizeof name, "masks/%s/%s.bmp", masks.directory [last], masks.stem [last]);
                make_file (*state, name, 5);
                masks.count++;
            }
        }
        int expected = model_answer (&samples, &masks);
        catalogue_options_t options = with_masks (*state);
        catalogue_t *catalogue;
        char error [ERROR_BYTES];
        int rc = catalogue_open (&catalogue, &options, error, sizeof error);
        if (rc != expected)
            fail_msg ("TEST_SEED=%" PRIu64 ": %d, not %d: %s", seed, rc, expected, error);
        answers [rc == 0? 0: rc == -EINVAL? 1: 2]++;
        if (catalogue)
            assert_as_model (catalogue, &samples, &masks, seed);
        catalogue_destroy (&catalogue);
        scratch_folder_t *scratch = *state;
        assert_true (scratch_end (scratch) && scratch_begin (scratch));
    }
    print_message ("%zu opened, %zu with twins, %zu without a file\n", answers [0], answers [1], answers [2]);
    assert_true (answers [0] > 5 && answers [1] > 5 && answers [2] > 5);
}


//  -- faults

static void
test_open_with_faults (void **state)
{
    make_file (*state, "data/cat/a.jpg", 1);
    make_file (*state, "data/cat/b/x.jpg", 1);
    make_file (*state, "masks/cat/a.png", 1);
    make_file (*state, "masks/cat/b/x.tif", 1);
    catalogue_options_t options = with_masks (*state);
    sweep_open (&options, 2);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_every_sample_gets_its_files, begin, end),
        cmocka_unit_test_setup_teardown (test_the_rest_is_passed_over, begin, end),
        cmocka_unit_test_setup_teardown (test_beside_a_labels_file, begin, end),
        cmocka_unit_test_setup_teardown (test_reading_a_field, begin, end),
        cmocka_unit_test_setup_teardown (test_fingerprint_has_the_fields, begin, end),
        cmocka_unit_test_setup_teardown (test_memory_per_sample, begin, end),
        cmocka_unit_test_setup_teardown (test_missing_files, begin, end),
        cmocka_unit_test_setup_teardown (test_two_files_with_one_stem, begin, end),
        cmocka_unit_test_setup_teardown (test_two_samples_with_one_stem, begin, end),
        cmocka_unit_test_setup_teardown (test_folders_of_fields, begin, end),
        cmocka_unit_test_setup_teardown (test_names_of_fields, begin, end),
        cmocka_unit_test_setup_teardown (test_a_path_that_is_too_long, begin, end),
        cmocka_unit_test_setup_teardown (test_against_the_model, begin, end),
        cmocka_unit_test_setup_teardown (test_open_with_faults, begin, end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
