//  Tar files as a source: what becomes a sample, a field, a label; hostile and broken archives; skipping.

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "effort.h"
#include "pack_source.h"
#include "scratch.h"
#include "seed.h"

enum { BLOCK = 512 };

static int
begin (void **state)
{
    scratch_folder_t *scratch = calloc (1, sizeof *scratch);
    *state = scratch;
    alarm (300);                        //  what blocks fails
    return scratch && scratch_begin (scratch)? 0: -1;
}

static int
end (void **state)
{
    bool clean = scratch_end (*state);
    free (*state);
    return clean? 0: -1;
}

//  The path of a name in the folder; good until 8 more have been asked for.
static const char *
in (void *state, const char *name)
{
    static char paths [8] [PATH_MAX];
    static unsigned int turn;
    char *path = paths [turn++ % 8];
    snprintf (path, PATH_MAX, "%s/%s", ((scratch_folder_t *) state)->path, name);
    return path;
}


//  -- tar files by hand, so that they can be wrong

static FILE *
tar_begin (void *state, const char *name)
{
    FILE *file = fopen (in (state, name), "we");
    assert_non_null (file);
    return file;
}

static void
tar_header (FILE *file, const char *name, char type, const char *link, uint64_t size)
{
    char block [BLOCK + 1] = "";
    unsigned int sum = 0;
    assert_true (strlen (name) <= 100);
    memcpy (block, name, strlen (name));
    memcpy (block + 100, "0000644", 7);
    memcpy (block + 108, "0000000", 7);
    memcpy (block + 116, "0000000", 7);
    snprintf (block + 124, 13, "%012" PRIo64, size);
    memcpy (block + 136, "00000000000", 11);
    memset (block + 148, ' ', 8);
    block [156] = type;
    strcpy (block + 157, link);
    memcpy (block + 257, "ustar\0" "00", 8);
    for (size_t at = 0; at < BLOCK; at++)
        sum += (unsigned char) block [at];
    snprintf (block + 148, 8, "%06o", sum);
    assert_int_equal (fwrite (block, BLOCK, 1, file), 1);
}

static void
tar_add (FILE *file, const char *name, const void *bytes, size_t size)
{
    static const uint8_t zeros [BLOCK];
    tar_header (file, name, '0', "", size);
    if (size)
        assert_int_equal (fwrite (bytes, size, 1, file), 1);
    if (size % BLOCK)
        assert_int_equal (fwrite (zeros, BLOCK - size % BLOCK, 1, file), 1);
}

static void
tar_text (FILE *file, const char *name, const char *text)
{
    tar_add (file, name, text, strlen (text));
}

static void
tar_end (FILE *file)
{
    static const uint8_t zeros [2 * BLOCK];
    assert_int_equal (fwrite (zeros, sizeof zeros, 1, file), 1);
    assert_int_equal (fclose (file), 0);
}

//  A tar of empty files: "a.jpg b.jpg".
static const char *
tar_of (void *state, const char *name, const char *members)
{
    FILE *file = tar_begin (state, name);
    char copy [1000], *rest = copy;
    assert_true (strlen (members) < sizeof copy);
    strcpy (copy, members);
    for (char *member; (member = strsep (&rest, " ")); )
        tar_text (file, member, "");
    tar_end (file);
    return in (state, name);
}


//  -- reading all

//  Passes over `skipped` samples, then reads to the end; the source, or NULL and the sentence.
static pack_source_t *
s_read_with (const pack_source_options_t *options, uint64_t skipped, uint64_t *count_p, char *error)
{
    pack_source_t *source;
    pack_item_t item;
    *count_p = 0;
    int rc = pack_source_open (&source, options, error);
    if (rc == 0)
        rc = pack_source_skip (source, skipped, error);
    while (rc >= 0 && (rc = pack_source_next (source, &item, error)) > 0)
        ++*count_p;
    if (rc == 0) {
        assert_string_equal (error, "");
        assert_int_equal (catalogue_samples (pack_source_catalogue (source)), *count_p + skipped);
        return source;
    }
    assert_true (rc < 0 && error [0] && strlen (error) < PACK_SOURCE_ERROR_BYTES);
    pack_source_destroy (&source);
    return NULL;
}

static pack_source_t *
s_read (const char *path, const char *extensions, const char *masks)
{
    char error [PACK_SOURCE_ERROR_BYTES];
    uint64_t count;
    pack_source_options_t options = { .paths = &path, .path_count = 1, .extensions = extensions,
        .masks = masks };
    pack_source_t *source = s_read_with (&options, 0, &count, error);
    if (!source)
        fail_msg ("%s", error);
    return source;
}

//  Refused in words that contain both.
static void
assert_refused_with (const pack_source_options_t *options, const char *what, const char *remedy)
{
    char error [PACK_SOURCE_ERROR_BYTES];
    uint64_t count;
    pack_source_t *source = s_read_with (options, 0, &count, error);
    assert_null (source);
    if (!strstr (error, what) || !strstr (error, remedy))
        fail_msg ("'%s', not '%s', '%s'", error, what, remedy);
}

static void
assert_refused (const char *path, const char *what, const char *remedy)
{
    assert_refused_with (&(pack_source_options_t) { .paths = &path, .path_count = 1 }, what, remedy);
}

static void
assert_path (const pack_source_t *source, uint32_t id, size_t field, const char *expected)
{
    char path [PATH_MAX];
    catalogue_path (pack_source_catalogue (source), id, field, path, sizeof path);
    assert_string_equal (path, expected);
}

//  These samples and no more: "a.jpg b.jpg".
static void
s_assert_samples (const pack_source_t *source, const char *paths)
{
    char copy [1000], *rest = copy;
    uint32_t id = 0;
    assert_true (strlen (paths) < sizeof copy);
    strcpy (copy, paths);
    for (char *path; (path = strsep (&rest, " ")); id++)
        assert_path (source, id, 0, path);
    assert_int_equal (catalogue_samples (pack_source_catalogue (source)), id);
}

static int64_t
s_label (const catalogue_t *catalogue, uint32_t id)
{
    int64_t value;
    assert_string_equal (catalogue_label (catalogue, 0)->name, "label");
    catalogue_label_value (catalogue, 0, id, (uint8_t *) &value);
    return value;
}


//  -- samples and fields

//  The image is whole ".jpg", though ".seg.png" ends in an image's extension too; fields stand in the keys'
//  order.
static void
test_fields_of_a_shard (void **state)
{
    FILE *file = tar_begin (*state, "a.tar");
    tar_text (file, "./x/1.SEG.png", "mask");
    tar_text (file, "./x/1.JPG", "image");
    tar_text (file, "x//1.cls", " 12\n");
    tar_text (file, "x/2.v1.jpg", "second");
    tar_text (file, "x/2.cls", "-3");
    tar_text (file, "x/2.seg.png", "");
    tar_end (file);
    pack_source_t *source = s_read (in (*state, "a.tar"), NULL, "seg.png");
    const catalogue_t *catalogue = pack_source_catalogue (source);
    assert_int_equal (catalogue_fields (catalogue), 3);
    assert_string_equal (catalogue_field_name (catalogue, 0), "image");
    assert_string_equal (catalogue_field_name (catalogue, 1), "cls");
    assert_string_equal (catalogue_field_name (catalogue, 2), "seg_png");
    assert_false (catalogue_field_is_mask (catalogue, 1));
    assert_true (catalogue_field_is_mask (catalogue, 2));
    assert_path (source, 0, 0, "x/1.JPG");
    assert_path (source, 0, 1, "x/1.cls");
    assert_path (source, 0, 2, "x/1.SEG.png");
    assert_path (source, 1, 0, "x/2.v1.jpg");
    assert_path (source, 1, 1, "x/2.cls");
    assert_int_equal (catalogue_file_bytes (catalogue, 0, 2), 4);
    assert_int_equal (catalogue_labels (catalogue), 1);
    assert_int_equal (s_label (catalogue, 0), 12);
    assert_int_equal (s_label (catalogue, 1), -3);
    assert_int_equal (catalogue_classes (catalogue), 0);
    pack_source_destroy (&source);
}

static void
test_which_member_is_the_image (void **state)
{
    const char *two = tar_of (*state, "two.tar", "1.left.jpg 1.right.png");
    assert_refused (two, "in the sample '1' 2 members may be the image ('left.jpg', 'right.png')",
        "--extensions");
    pack_source_destroy (&(pack_source_t *) { s_read (two, ".right.png", NULL) });
    pack_source_destroy (&(pack_source_t *) { s_read (two, NULL, "right.png") });
    assert_refused (tar_of (*state, "none.tar", "1.wav 1.txt"), "the sample '1' has no image ('wav', 'txt'",
        "--extensions");
    pack_source_destroy (&(pack_source_t *) { s_read (tar_of (*state, "wav.tar", "1.txt 1.wav"), ".flac,.wav",
        NULL) });
}

static void
test_samples_must_have_the_same_members (void **state)
{
    assert_refused (tar_of (*state, "a.tar", "1.jpg 1.npy 2.jpg"), "the sample '2' has no '.npy'",
        "same members");
    assert_refused (tar_of (*state, "b.tar", "1.jpg 2.jpg 2.npy"), "there is '2.npy'", "same members");
    assert_refused (tar_of (*state, "c.tar", "1.jpg 2.jpg 1.jpg"), "the sample '1' comes again",
        "sorted by name");
    assert_refused (tar_of (*state, "d.tar", "a/1.jpg a/1.npy b/1.jpg b/1.npy a/1.cls"), "'a/1'", "");
    assert_refused (tar_of (*state, "e.tar", "1.jpg 1.JPG"), "'1.jpg' and '1.JPG' are the same member",
        "rename");
    assert_refused (tar_of (*state, "f.tar", "1.jpg 1.a 1.b 1.c 1.d 1.e 1.f 1.g 1.h"), "more than 8 files",
        "leave some out");
    assert_refused (tar_of (*state, "g.tar", "1.jpg 1.a-b"), "cannot have the name 'a-b'", "letters, digits");
    assert_refused (tar_of (*state, "h.tar", "1.jpg 1.a.b 1.a_b"), "would be the field 'a_b'", "rename one");
    const char *path = tar_of (*state, "i.tar", "1.jpg 1.seg");
    assert_refused_with (&(pack_source_options_t) { .paths = &path, .path_count = 1, .masks = "sgn" },
        "no member 'sgn'",
        "correct --mask");
    assert_refused_with (&(pack_source_options_t) { .paths = &path, .path_count = 1, .masks = "seg,,x" },
        "no list of masks",
        "commas");
    assert_refused_with (&(pack_source_options_t) { .paths = &path, .path_count = 1, .extensions = "jpg" },
        "no list of file extensions", "dots");
    const char *twice [] = { path, path };
    assert_refused_with (&(pack_source_options_t) { .paths = twice, .path_count = 2 }, "comes again",
        "over all tar files");
}

//  Guards: what is left out is what WebDataset leaves out, and the samples beside it keep paths and labels.
static void
test_what_webdataset_passes_over (void **state)
{
    FILE *file = tar_begin (*state, "a.tar");
    tar_header (file, "d/", '5', "", 0);
    tar_text (file, "README", "text");
    tar_text (file, "d/.hidden.jpg", "x");
    tar_text (file, "d/1.jpg", "x");
    tar_text (file, "d/end.", "x");
    //  Below a top folder of metadata, whatever it is; other names with underscores are samples.
    tar_text (file, "__meta__/info.json", "{}");
    tar_text (file, "./__a__b__/x/y.jpg", "x");
    tar_text (file, "____/y.jpg", "x");
    tar_header (file, "__meta__/", '5', "", 0);
    tar_header (file, "__meta__/link.jpg", '2', "d/1.jpg", 0);
    tar_text (file, "__meta__", "text");
    tar_end (file);
    pack_source_t *source = s_read (in (*state, "a.tar"), NULL, NULL);
    s_assert_samples (source, "d/1.jpg");
    pack_source_destroy (&source);
    static const char others [] = "___/1.jpg __a/2.jpg a__/3.jpg d/__a__/4.jpg __5__.jpg";
    source = s_read (tar_of (*state, "c.tar", others), NULL, NULL);
    s_assert_samples (source, others);
    pack_source_destroy (&source);
    file = tar_begin (*state, "d.tar");
    tar_text (file, "__meta__/info.json", "{}");
    tar_text (file, "1.jpg", "x");
    tar_text (file, "1.cls", "0");
    tar_text (file, "2.jpg", "x");
    tar_text (file, "2.cls", "1");
    tar_end (file);
    source = s_read (in (*state, "d.tar"), NULL, NULL);
    s_assert_samples (source, "1.jpg 2.jpg");
    assert_int_equal (s_label (pack_source_catalogue (source), 0), 0);
    assert_int_equal (s_label (pack_source_catalogue (source), 1), 1);
    pack_source_destroy (&source);
    assert_refused (tar_of (*state, "b.tar", "README LICENSE"), "no sample (2 files without an extension)",
        "images");
}


//  -- labels

static void
test_classes_are_the_first_folders (void **state)
{
    pack_source_t *source = s_read (tar_of (*state, "a.tar",
        "./t/dog/1.jpg t/cat/x/1.jpg t/cat/1.jpg t/catfish/1.jpg"), NULL, NULL);
    const catalogue_t *catalogue = pack_source_catalogue (source);
    assert_int_equal (catalogue_classes (catalogue), 3);
    assert_string_equal (catalogue_class_name (catalogue, 0), "cat");
    assert_string_equal (catalogue_class_name (catalogue, 1), "catfish");
    assert_string_equal (catalogue_class_name (catalogue, 2), "dog");
    static const int64_t labels [] = { 2, 0, 0, 1 };
    for (uint32_t id = 0; id < 4; id++)
        assert_int_equal (s_label (catalogue, id), labels [id]);
    pack_source_destroy (&source);
    //  "catfish" begins as the first folder does.
    source = s_read (tar_of (*state, "a.tar", "cat/x/1.jpg catfish/1.jpg"), NULL, NULL);
    assert_string_equal (catalogue_class_name (pack_source_catalogue (source), 0), "cat");
    assert_string_equal (catalogue_class_name (pack_source_catalogue (source), 1), "catfish");
    pack_source_destroy (&source);
    static const char *const plain [] = { "1.jpg 2.jpg", "t/1.jpg t/2.jpg", "t/1.jpg t/a/2.jpg",
        "1.jpg a/2.jpg" };
    for (size_t index = 0; index < 4; index++) {
        source = s_read (tar_of (*state, "b.tar", plain [index]), NULL, NULL);
        assert_int_equal (catalogue_labels (pack_source_catalogue (source)), 0);
        pack_source_destroy (&source);
    }
}

//  Guards: two splits in one pack, by the names of folders in tar files, and of tar files.
static void
test_splits_are_refused (void **state)
{
    assert_refused (tar_of (*state, "a.tar", "x/train/cat/1.jpg x/val/cat/2.jpg"),
        "'x/train' and 'x/val' in the tar files", "pack each one's folder");
    assert_refused (tar_of (*state, "a.tar", "images/cat/1.jpg masks/cat/1.png"),
        "'images' and 'masks' in the tar files", "as 0001.jpg and 0001.mask.png");
    pack_source_t *source = s_read (tar_of (*state, "b.tar", "train/cat/1.jpg train/dog/2.jpg"), NULL, NULL);
    assert_int_equal (catalogue_classes (pack_source_catalogue (source)), 2);
    pack_source_destroy (&source);
    source = s_read (tar_of (*state, "c.tar", "train/1.jpg train/1.txt val/2.jpg val/2.txt"), NULL, NULL);
    assert_non_null (strstr (catalogue_warning (pack_source_catalogue (source), 0),
        "'train' and 'val' are splits"));
    pack_source_destroy (&source);
    const char *paths [] = { tar_of (*state, "d-train-000.tar", "a/1.jpg"),
        tar_of (*state, "d-train-001.tar", "a/2.jpg"), tar_of (*state, "d-val-000.tar", "a/3.jpg") };
    pack_source_options_t options = { .paths = paths, .path_count = 3 };
    assert_refused_with (&options, "d-val-000.tar' are of two splits", "cat FILE...");
    options.path_count = 2;
    uint64_t count;
    char error [PACK_SOURCE_ERROR_BYTES];
    source = s_read_with (&options, 0, &count, error);
    assert_non_null (source);
    pack_source_destroy (&source);
}

static void
test_texts (void **state)
{
    FILE *file = tar_begin (*state, "a.tar");
    tar_text (file, "a/1.jpg", "x");
    tar_text (file, "a/1.txt", "a cat\n");
    tar_text (file, "a/1.json", "{}");
    tar_text (file, "a/1.jpeg.rows", "x");
    tar_text (file, "b/1.jpg", "x");
    tar_text (file, "b/1.txt", "");
    tar_add (file, "b/1.json", "\xff", 1);
    tar_text (file, "b/1.jpeg.rows", "x");
    tar_end (file);
    pack_source_t *source = s_read (in (*state, "a.tar"), NULL, NULL);
    const catalogue_t *catalogue = pack_source_catalogue (source);
    //  The json is no UTF-8 in one sample: a field only, which is told.
    assert_int_equal (catalogue_labels (catalogue), 1);
    assert_non_null (strstr (catalogue_warning (catalogue, 0), "no label 'json', as 'b/1.json' is no text"));
    const catalogue_label_t *label = catalogue_label (catalogue, 0);
    uint8_t text [6];
    assert_string_equal (label->name, "txt");
    assert_int_equal (label->bytes, 6);
    catalogue_label_value (catalogue, 0, 0, text);
    assert_memory_equal (text, "a cat\n", 6);
    assert_string_equal (catalogue_field_name (catalogue, 1), "jpeg_rows_file");
    assert_string_equal (catalogue_field_name (catalogue, 2), "json_file");
    assert_string_equal (catalogue_field_name (catalogue, 3), "txt_file");
    assert_int_equal (catalogue_classes (catalogue), 0);
    pack_source_destroy (&source);
}

//  A tar of samples with these members "cls", one behind the other.
static const char *
s_numbers (void *state, const char *const *texts, size_t count)
{
    FILE *file = tar_begin (state, "a.tar");
    for (size_t index = 0; index < count; index++) {
        char name [32];
        snprintf (name, sizeof name, "%zu.jpg", index);
        tar_text (file, name, "x");
        snprintf (name, sizeof name, "%zu.cls", index);
        tar_text (file, name, texts [index]);
    }
    tar_end (file);
    return in (state, "a.tar");
}

static void
test_numbers_that_are_none (void **state)
{
    static const char *const texts [] = { "", "x", "1 2", "1,5", "99999999999999999999", "0x10", "0x1p3",
        "nan(1)", "1.5x", " " };
    for (size_t index = 0; index < sizeof texts / sizeof texts [0]; index++)
        assert_refused (s_numbers (*state, &texts [index], 1), "'0.cls' is no number", "the class's number");
}

//  With the first number that is not whole all are float64; one that would change then is refused.
static void
test_numbers_that_are_not_whole (void **state)
{
    static const char *const texts [] = { "9007199254740992", "-2", "0.1\n", "3", "1e-3", "inf" };
    static const double reals [] = { 9007199254740992., -2, 0.1, 3, 1e-3, (double) INFINITY };
    pack_source_t *source = s_read (s_numbers (*state, texts, 6), NULL, NULL);
    const catalogue_t *catalogue = pack_source_catalogue (source);
    assert_string_equal (catalogue_label (catalogue, 0)->dtype, "float64");
    for (uint32_t id = 0; id < 6; id++) {
        double real;
        catalogue_label_value (catalogue, 0, id, (uint8_t *) &real);
        assert_true (real == reals [id]);
    }
    pack_source_destroy (&source);
    static const char *const before [] = { "9007199254740993", "0.5" }, *const behind [] = { "0.5",
        "9007199254740993" };
    assert_refused (s_numbers (*state, before, 2), "beyond 2^53", "write smaller ones");
    assert_refused (s_numbers (*state, behind, 2), "beyond 2^53", "write smaller ones");
}

//  The names of the numbers, with those that no sample has; -1 is no class.
static void
test_names_of_classes (void **state)
{
    static const char *const texts [] = { "2", "-1", "0" }, *const broken [] = { "2", "0.5" };
    const char *path = s_numbers (*state, texts, 3);
    pack_source_options_t options = { .paths = &path, .path_count = 1, .classes = "dog\r\ncat, tabby\nape" };
    char error [PACK_SOURCE_ERROR_BYTES];
    uint64_t count;
    pack_source_t *source = s_read_with (&options, 0, &count, error);
    assert_non_null (source);
    const catalogue_t *catalogue = pack_source_catalogue (source);
    assert_int_equal (catalogue_classes (catalogue), 3);
    assert_string_equal (catalogue_class_name (catalogue, 0), "dog");
    assert_string_equal (catalogue_class_name (catalogue, 1), "cat, tabby");
    assert_string_equal (catalogue_class_name (catalogue, 2), "ape");
    assert_int_equal (s_label (catalogue, 0), 2);
    assert_int_equal (s_label (catalogue, 1), -1);
    assert_false (catalogue_class_is_folder (catalogue));
    char signature [40];
    strcpy (signature, pack_source_signature (source));
    pack_source_destroy (&source);
    options.classes = "dog\ncat\r\nape\ncat\n";
    assert_refused_with (&options, "the classes 1 and 3 are both called 'cat'", "a name of its own for each");
    options.classes = "dog\ncat\nape";
    source = s_read_with (&options, 0, &count, error);
    assert_non_null (source);
    assert_string_not_equal (signature, pack_source_signature (source));
    pack_source_destroy (&source);
    options.classes = "dog\ncat\n";
    assert_refused_with (&options, "sample 0 is of class 2", "2 names: add the others");
    options.classes = "dog\n\nape\n";
    assert_refused_with (&options, "the name of class 1 is empty", "a name a line");
    options.classes = "dog\ncat\nape\n";
    s_numbers (*state, broken, 2);
    assert_refused_with (&options, "no whole numbers of classes", "leave --classes out");
    tar_of (*state, "a.tar", "1.jpg 2.jpg");
    assert_refused_with (&options, "no whole numbers of classes", "leave --classes out");
}


//  -- hostile and broken

static void
s_one (void *state, const char *name, char type, const char *link, uint64_t size)
{
    FILE *file = tar_begin (state, "a.tar");
    tar_header (file, name, type, link, size);
    tar_end (file);
}

static void
test_hostile_members (void **state)
{
    static const char *const paths [] = { "/etc/1.jpg", "../1.jpg", "a/../../1.jpg", "a/..", "a/../1.jpg" };
    for (size_t index = 0; index < sizeof paths / sizeof paths [0]; index++) {
        s_one (*state, paths [index], '0', "", 0);
        assert_refused (in (*state, "a.tar"), paths [index], "plain names");
    }
    s_one (*state, "1.jpg", '2', "/etc/passwd", 0);
    assert_refused (in (*state, "a.tar"), "'1.jpg' is a link", "--dereference");
    s_one (*state, "1.jpg", '1', "2.jpg", 0);
    assert_refused (in (*state, "a.tar"), "'1.jpg' is a link", "--dereference");
    for (const char *type = "346"; *type; type++) {
        s_one (*state, "1.jpg", *type, "", 0);
        assert_refused (in (*state, "a.tar"), "'1.jpg' is a device or a fifo", "leave it out");
    }
    s_one (*state, "1.jpg", '0', "", UINT64_C (8) << 30);
    assert_refused (in (*state, "a.tar"), "'1.jpg' has 8589934592 bytes", "at most");
    s_one (*state, "1.jpg", '0', "", CATALOGUE_SAMPLE_BYTES_MAX);
    assert_refused (in (*state, "a.tar"), "'1.jpg'", "make it anew");
    s_one (*state, "a\x1b[2J/1.wav", '0', "", 0);
    assert_refused (in (*state, "a.tar"), "a?[2J", "--extensions");
}

//  Cut anywhere, a tar is refused; every sample that came before was right.
static void
test_cut_anywhere (void **state)
{
    const char *path = tar_of (*state, "a.tar", "1.jpg 2.jpg 3.jpg");
    for (off_t size = 5 * BLOCK - 1; size >= 0; size -= BLOCK / 4 - (size % 7)) {
        assert_int_equal (truncate (path, size), 0);
        assert_refused (path, "a.tar", "");
    }
    FILE *file = tar_begin (*state, "b.tar");
    tar_text (file, "1.jpg", "x");
    fclose (file);
    assert_refused (in (*state, "b.tar"), "without the zeros that end a tar", "head -c 1024 /dev/zero");
}

//  Guards: what is wrong at the second archive's begin is not told of the first one's last member.
static void
test_cut_second_archive (void **state)
{
    tar_of (*state, "a.tar", "1.jpg 2.jpg");
    FILE *file = tar_begin (*state, "b.tar");
    tar_header (file, "././@LongLink", 'L', "", 2 * BLOCK);     //  of a long name that does not come
    fclose (file);
    char first [4200], second [4200], error [PACK_SOURCE_ERROR_BYTES] = "";
    snprintf (first, sizeof first, "%s", in (*state, "a.tar"));
    snprintf (second, sizeof second, "%s", in (*state, "b.tar"));
    const char *paths [] = { first, second };
    pack_source_t *source;
    pack_source_options_t options = { .paths = paths, .path_count = 2 };
    assert_int_equal (pack_source_open (&source, &options, error), 0);
    pack_item_t item;
    int rc = 1;
    while (rc > 0)
        rc = pack_source_next (source, &item, error);
    assert_true (rc < 0);
    assert_non_null (strstr (error, "b.tar"));
    assert_null (strstr (error, "2.jpg"));
    pack_source_destroy (&source);
}

static void
test_what_is_no_tar (void **state)
{
    FILE *file = tar_begin (*state, "a.tar");
    fputs ("this is a text, and longer than nothing", file);
    fclose (file);
    assert_refused (in (*state, "a.tar"), "is no tar file", "gzip, bzip2, xz or zstd");
    fclose (tar_begin (*state, "b.tar"));
    assert_refused (in (*state, "b.tar"), "is no tar file", "give tar files");
    assert_refused (in (*state, "missing.tar"), "missing.tar", "check the path");
    assert_int_equal (mkfifo (in (*state, "fifo.tar"), 0600), 0);
    assert_refused (in (*state, "fifo.tar"), "no tar file", "give a file");
    //  Behind the end mark: another tar is read, rubbish is not passed over.
    tar_of (*state, "c.tar", "1.jpg");
    file = fopen (in (*state, "c.tar"), "ae");
    tar_text (file, "2.jpg", "x");
    tar_end (file);
    pack_source_t *source = s_read (in (*state, "c.tar"), NULL, NULL);
    assert_int_equal (catalogue_samples (pack_source_catalogue (source)), 2);
    pack_source_destroy (&source);
    file = fopen (in (*state, "c.tar"), "ae");
    for (int at = 0; at < 2 * BLOCK; at++)
        fputc ('Z', file);
    fclose (file);
    assert_refused (in (*state, "c.tar"), "behind '2.jpg' come bytes that are no member", "cut them off");
    //  Before it, it is damage.
    file = tar_begin (*state, "d.tar");
    tar_text (file, "1.jpg", "x");
    for (int at = 0; at < 2 * BLOCK; at++)
        fputc ('Z', file);
    tar_end (file);
    assert_refused (in (*state, "d.tar"), "at '1.jpg'", "the archive is damaged");
}


//  -- beside a model

enum { SAMPLES_MAX = 40, SHARDS_MAX = 3, BYTES_MAX = 3000 };

typedef struct {
    size_t samples, fields;
    char paths [SAMPLES_MAX] [4] [60];  //  by field
    uint8_t bytes [SAMPLES_MAX] [4] [BYTES_MAX];
    size_t sizes [SAMPLES_MAX] [4];
    int64_t labels [SAMPLES_MAX];
} model_t;

//  Random samples of one to four members in random order within a sample, spread over the shards.
static void
s_make_model (model_t *model, uint64_t *random)
{
    static const char *const keys [] = { "jpg", "cls", "mask.png", "npy" };
    model->samples = 1 + test_below (random, SAMPLES_MAX);
    model->fields = 1 + test_below (random, 4);
    for (size_t id = 0; id < model->samples; id++) {
        model->labels [id] = (int64_t) test_below (random, 1000) - 500;
        for (size_t field = 0; field < model->fields; field++) {
            snprintf (model->paths [id] [field], 60, "%s%zu%s.%s", id % 3? "d/": "", id, id % 2? "x": "",
                keys [field]);
            size_t size = test_below (random, BYTES_MAX);
            for (size_t at = 0; at < size; at++)
                model->bytes [id] [field] [at] = (uint8_t) test_below (random, 256);
            if (field == 1)
                size = (size_t) snprintf ((char *) model->bytes [id] [field], BYTES_MAX, "%" PRId64,
                    model->labels [id]);
            model->sizes [id] [field] = size;
        }
    }
}

static size_t
s_write_model (void *state, const model_t *model, uint64_t *random, const char *paths [SHARDS_MAX])
{
    size_t shards = 0, id = 0;
    for (size_t left = 1 + test_below (random, SHARDS_MAX); left > 0; left--, shards++) {
        char name [20];
        snprintf (name, sizeof name, "%zu.tar", shards);
        FILE *file = tar_begin (state, name);
        size_t to = left == 1? model->samples: id + test_below (random, model->samples - id + 1);
        for (; id < to; id++)
            for (size_t turn = test_below (random, 4), field = 0; field < model->fields; field++) {
                size_t member = (turn + field) % model->fields;
                tar_add (file, model->paths [id] [member], model->bytes [id] [member],
                    model->sizes [id] [member]);
            }
        tar_end (file);
        paths [shards] = in (state, name);
    }
    return shards;
}

//  Fields stand in the order of their keys: the model's are jpg, cls, mask.png, npy.
static void
s_check_item (const model_t *model, size_t id, const pack_item_t *item)
{
    assert_int_equal (item->field_count, model->fields);
    for (size_t field = 0; field < model->fields; field++) {
        assert_int_equal (item->bytes [field], model->sizes [id] [field]);
        assert_memory_equal (item->files [field], model->bytes [id] [field], item->bytes [field]);
    }
}

static void
s_check_source (const model_t *model, const pack_source_options_t *options, size_t skipped,
    char fingerprint [40])
{
    char error [PACK_SOURCE_ERROR_BYTES], path [PATH_MAX];
    pack_source_t *source;
    pack_item_t item;
    if (pack_source_open (&source, options, error) || pack_source_skip (source, skipped, error) < 0)
        fail_msg ("seed %" PRIu64 ": %s", test_seed (), error);
    for (size_t id = skipped; id < model->samples; id++) {
        if (pack_source_next (source, &item, error) != 1)
            fail_msg ("seed %" PRIu64 ": sample %zu: %s", test_seed (), id, error);
        s_check_item (model, id, &item);
    }
    if (pack_source_next (source, &item, error) != 0 || pack_source_next (source, &item, error) != 0)
        fail_msg ("seed %" PRIu64 ": no end: %s", test_seed (), error);
    const catalogue_t *catalogue = pack_source_catalogue (source);
    assert_int_equal (catalogue_samples (catalogue), model->samples);
    for (uint32_t id = 0; id < model->samples; id++)
        for (size_t field = 0; field < model->fields; field++) {
            catalogue_path (catalogue, id, field, path, sizeof path);
            assert_string_equal (path, model->paths [id] [field]);
            assert_int_equal (catalogue_file_bytes (catalogue, id, field), model->sizes [id] [field]);
            if (model->fields > 1)
                assert_int_equal (s_label (catalogue, id), model->labels [id]);
        }
    strcpy (fingerprint, catalogue_fingerprint (catalogue));
    uint64_t done, total;
    pack_source_progress (source, &done, &total);
    assert_int_equal (done, total);
    assert_int_equal (pack_source_skip (source, 1, error), -ESTALE);
    pack_source_destroy (&source);
}

static void
test_all_comes_back (void **state)
{
    static model_t model;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (60); round++) {
        const char *paths [SHARDS_MAX];
        char whole [40], rest [40];
        s_make_model (&model, &random);
        pack_source_options_t options = { .paths = paths,
            .path_count = s_write_model (*state, &model, &random, paths),
            .masks = model.fields > 2? "mask.png": NULL };
        s_check_source (&model, &options, 0, whole);
        s_check_source (&model, &options, test_below (&random, model.samples + 1), rest);
        assert_string_equal (whole, rest);
    }
}

//  One byte of a good archive changes: it is read or refused, never worse.
static void
test_any_byte_may_change (void **state)
{
    static model_t model;
    uint64_t random = test_seed (), count;
    const char *paths [SHARDS_MAX];
    char error [PACK_SOURCE_ERROR_BYTES];
    for (int round = 0; round < EFFORT (300); round++) {
        s_make_model (&model, &random);
        size_t shards = s_write_model (*state, &model, &random, paths);
        struct stat status;
        assert_int_equal (stat (paths [0], &status), 0);
        int fd = open (paths [0], O_RDWR | O_CLOEXEC);
        uint8_t byte = (uint8_t) test_below (&random, 256);
        //  Headers mostly: they are at multiples of a block.
        off_t at = (off_t) test_below (&random, (uint64_t) status.st_size / BLOCK) * BLOCK;
        at += (off_t) test_below (&random, 160);
        assert_int_equal (pwrite (fd, &byte, 1, at), 1);
        close (fd);
        pack_source_options_t options = { .paths = paths, .path_count = shards };
        pack_source_t *source = s_read_with (&options, 0, &count, error);
        pack_source_destroy (&source);
    }
}

static void
test_the_signature_changes (void **state)
{
    const char *path = tar_of (*state, "a.tar", "1.jpg 1.png");
    const char *extensions [] = { ".jpg", ".png", ".jpg" };
    char signatures [3] [40], error [PACK_SOURCE_ERROR_BYTES];
    for (int turn = 0; turn < 3; turn++) {
        pack_source_options_t options = { .paths = &path, .path_count = 1, .extensions = extensions [turn] };
        pack_source_t *source;
        assert_int_equal (pack_source_open (&source, &options, error), 0);
        strcpy (signatures [turn], pack_source_signature (source));
        pack_source_destroy (&source);
        if (turn == 1)
            assert_int_equal (utimensat (AT_FDCWD, path, (struct timespec [2]) { { 1, 0 }, { 1, 0 } }, 0), 0);
    }
    assert_string_not_equal (signatures [0], signatures [1]);
    assert_string_not_equal (signatures [0], signatures [2]);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_fields_of_a_shard, begin, end),
        cmocka_unit_test_setup_teardown (test_which_member_is_the_image, begin, end),
        cmocka_unit_test_setup_teardown (test_samples_must_have_the_same_members, begin, end),
        cmocka_unit_test_setup_teardown (test_what_webdataset_passes_over, begin, end),
        cmocka_unit_test_setup_teardown (test_classes_are_the_first_folders, begin, end),
        cmocka_unit_test_setup_teardown (test_splits_are_refused, begin, end),
        cmocka_unit_test_setup_teardown (test_texts, begin, end),
        cmocka_unit_test_setup_teardown (test_numbers_that_are_none, begin, end),
        cmocka_unit_test_setup_teardown (test_numbers_that_are_not_whole, begin, end),
        cmocka_unit_test_setup_teardown (test_names_of_classes, begin, end),
        cmocka_unit_test_setup_teardown (test_hostile_members, begin, end),
        cmocka_unit_test_setup_teardown (test_cut_anywhere, begin, end),
        cmocka_unit_test_setup_teardown (test_cut_second_archive, begin, end),
        cmocka_unit_test_setup_teardown (test_what_is_no_tar, begin, end),
        cmocka_unit_test_setup_teardown (test_all_comes_back, begin, end),
        cmocka_unit_test_setup_teardown (test_any_byte_may_change, begin, end),
        cmocka_unit_test_setup_teardown (test_the_signature_changes, begin, end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
