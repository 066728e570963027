/*  The catalogue: order and labels of an ImageFolder, what it refuses, and reading a sample.  Parity with
 *  torchvision over random trees is test_catalogue_parity.py's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data_folder.h"
#include "effort.h"

#include <malloc.h>
#include <signal.h>

static catalogue_t *
open_good (void *state)
{
    return open_with (&(catalogue_options_t) { .path = in (state, "") });
}

static void
assert_refused (const char *path, int code, const char *what, const char *remedy)
{
    assert_refused_with (&(catalogue_options_t) { .path = path }, code, what, remedy);
}

static void
assert_path (const catalogue_t *catalogue, uint32_t id, const char *expected)
{
    assert_path_of (catalogue, id, 0, expected);
}

static void
assert_read (const catalogue_t *catalogue, uint32_t id, int code)
{
    catalogue_buffer_t buffer = { .size = 1 };
    assert_int_equal (catalogue_read (catalogue, id, 0, &buffer), code);
    assert_int_equal (buffer.size, 0);
    free (buffer.bytes);
}

static int64_t
class_of (const catalogue_t *catalogue, uint32_t id)
{
    int64_t class;
    catalogue_label_value (catalogue, 0, id, (uint8_t *) &class);
    return class;
}


//  -- what is listed

//  Classes by name, directories by whole path, files by name; every question answered.
static void
test_order_and_labels (void **state)
{
    make_file (*state, "dog/10.jpg", 7);
    make_file (*state, "dog/9.PNG", 1);
    make_file (*state, "cat/a/z.jpeg", 3);
    make_file (*state, "cat/a-b/y.webp", 2);
    make_file (*state, "cat/x.jpg", 0);
    make_file (*state, "cat/notes.txt", 9);
    make_file (*state, "Zebra/q.tiff", 5);
    make_file (*state, "stray.jpg", 5);
    catalogue_t *catalogue = open_good (*state);
    static const char *const paths [] = { "Zebra/q.tiff", "cat/x.jpg", "cat/a/z.jpeg", "cat/a-b/y.webp",
        "dog/10.jpg", "dog/9.PNG" };
    static const uint32_t labels [] = { 0, 1, 1, 1, 2, 2 }, sizes [] = { 5, 0, 3, 2, 7, 1 };
    //  "a" < "a-b" < "a/...": the directory "a" itself comes first.
    assert_int_equal (catalogue_samples (catalogue), 6);
    for (uint32_t id = 0; id < 6; id++) {
        assert_path (catalogue, id, paths [id]);
        assert_int_equal (class_of (catalogue, id), labels [id]);
        assert_int_equal (catalogue_file_bytes (catalogue, id, 0), sizes [id]);
    }
    assert_int_equal (catalogue_classes (catalogue), 3);
    assert_string_equal (catalogue_class_name (catalogue, 0), "Zebra");
    assert_string_equal (catalogue_class_name (catalogue, 2), "dog");
    assert_int_equal (catalogue_bytes (catalogue), 18);
    assert_string_equal (catalogue_root (catalogue), in (*state, ""));
    assert_int_equal (catalogue_fields (catalogue), 1);
    assert_string_equal (catalogue_field_name (catalogue, 0), "image");
    assert_false (catalogue_field_is_mask (catalogue, 0));
    assert_int_equal (catalogue_labels (catalogue), 1);
    const catalogue_label_t *label = catalogue_label (catalogue, 0);
    assert_string_equal (label->name, "label");
    assert_string_equal (label->dtype, "int64");
    assert_int_equal (label->dimensions, 0);
    assert_int_equal (label->bytes, 8);
    catalogue_destroy (&catalogue);
    assert_null (catalogue);
    catalogue_destroy (&catalogue);
}

//  A cut path is ended, and its full length told.
static void
test_path_is_cut (void **state)
{
    make_file (*state, "cat/x.jpg", 1);
    catalogue_t *catalogue = open_good (*state);
    char path [6] = "??????";
    assert_int_equal (catalogue_path (catalogue, 0, 0, path, 4), 9);
    assert_memory_equal (path, "cat\0??", 6);
    assert_int_equal (catalogue_path (catalogue, 0, 0, NULL, 0), 9);
    catalogue_destroy (&catalogue);
}

//  Equal data, equal text wherever it lies; another name, another size or another order, another text.
static void
test_fingerprint_tells_data_apart (void **state)
{
    char first [33], other [33];
    make_file (*state, "cat/x.jpg", 1);
    make_file (*state, "cat/y.jpg", 2);
    catalogue_t *catalogue = open_good (*state);
    strcpy (first, catalogue_fingerprint (catalogue));
    assert_int_equal (strspn (first, "0123456789abcdef"), 32);
    catalogue_destroy (&catalogue);

    make_file (*state, "cat/x.jpg", 2);
    catalogue = open_good (*state);
    strcpy (other, catalogue_fingerprint (catalogue));
    assert_string_not_equal (first, other);
    catalogue_destroy (&catalogue);

    make_file (*state, "cat/y.jpg", 1);
    catalogue = open_good (*state);
    assert_string_not_equal (catalogue_fingerprint (catalogue), first);
    assert_string_not_equal (catalogue_fingerprint (catalogue), other);
    catalogue_destroy (&catalogue);

    make_file (*state, "cat/x.jpg", 1);
    make_file (*state, "cat/y.jpg", 2);
    catalogue = open_good (*state);
    assert_string_equal (catalogue_fingerprint (catalogue), first);
    catalogue_destroy (&catalogue);
}

//  Plain folders keep the text they have always had: it tells clients whether the data are still the same.
static void
test_fingerprint_is_golden (void **state)
{
    make_file (*state, "cat/a/x.jpg", 3);
    make_file (*state, "cat/y.PNG", 6);
    make_file (*state, "dog/z.jpeg", 0);
    catalogue_t *catalogue = open_good (*state);
    assert_string_equal (catalogue_fingerprint (catalogue), "10e8d84f5fdf5dbdbecbb331156ab632");
    catalogue_destroy (&catalogue);
}

//  Other extensions, in any case, with more than one dot; the default's are then passed over.
static void
test_extensions (void **state)
{
    make_file (*state, "cat/a.wav", 1);
    make_file (*state, "cat/b.FLAC", 1);
    make_file (*state, "cat/c.jpg", 1);
    make_file (*state, "cat/d.tar.gz", 1);
    make_file (*state, "cat/e.gz", 1);
    make_file (*state, "cat/wav", 1);
    make_file (*state, "cat/f.wave", 1);
    catalogue_options_t options = { .path = in (*state, ""), .extensions = ".WAV,.flac,.tar.gz" };
    catalogue_t *catalogue = open_with (&options);
    assert_int_equal (catalogue_samples (catalogue), 3);
    assert_path (catalogue, 0, "cat/a.wav");
    assert_path (catalogue, 1, "cat/b.FLAC");
    assert_path (catalogue, 2, "cat/d.tar.gz");
    catalogue_destroy (&catalogue);

    options.extensions = ".ogg";
    assert_refused_with (&options, -ENODATA, "no file in 1 of the 1 class folders", "add files (.ogg)");
    static const char *const bad [] = { "", "wav", ".", ".wav,", ",.wav", ".wav, .flac", ".a/b",
        ".wav,,.flac" };
    for (size_t index = 0; index < sizeof bad / sizeof bad [0]; index++) {
        options.extensions = bad [index];
        assert_refused_with (&options, -EINVAL, bad [index], "with their dots and commas between");
    }
}

//  Hundreds of directories deep and long names: up to PATH_MAX it is served, beyond it is refused by name.
static void
test_deep_tree (void **state)
{
    make_file (*state, "cat/x.jpg", 1);
    int fd = open (in (*state, "cat"), O_RDONLY | O_DIRECTORY);
    size_t length = strlen ("cat");
    //  Down until the file just fits.
    for (; length + 8 + strlen ("/x.jpg") < PATH_MAX; length += 8) {
        assert_int_equal (mkdirat (fd, "directo", 0700), 0);
        int next = openat (fd, "directo", O_RDONLY | O_DIRECTORY);
        assert_true (next >= 0);
        close (fd);
        fd = next;
    }
    assert_int_equal (mknodat (fd, "y.jpg", S_IFREG | 0600, 0), 0);
    catalogue_t *catalogue = open_good (*state);
    assert_int_equal (catalogue_samples (catalogue), 2);
    uint32_t last = catalogue_samples (catalogue) - 1;
    assert_int_equal (catalogue_path (catalogue, last, 0, NULL, 0), length + strlen ("/y.jpg"));
    catalogue_buffer_t buffer = { 0 };
    assert_int_equal (catalogue_read (catalogue, last, 0, &buffer), 0);
    free (buffer.bytes);
    catalogue_destroy (&catalogue);

    assert_int_equal (mknodat (fd, "long-name.jpg", S_IFREG | 0600, 0), 0);
    close (fd);
    assert_refused (in (*state, ""), -ENAMETOOLONG, "cat/directo/directo", "shorten");
}

//  ImageNet's names; measured, because 1.28 million samples are to take 60 bytes each at most.
static void
test_memory_per_sample (void **state)
{
#if defined (EFFORT_SANITIZED)
    skip ();
#endif
    enum { CLASSES = 10, FILES = 400 };
    char name [80];
    for (int label = 0; label < CLASSES; label++)
        for (int file = 0; file < FILES; file++) {
            snprintf (name, sizeof name, "n%08d/n%08d_%05d.JPEG", label, label, file);
            if (file == 0)
                make_file (*state, name, 0);
            else
                assert_int_equal (mknod (in (*state, name), S_IFREG | 0600, 0), 0);
        }
    struct mallinfo2 before = mallinfo2 ();
    catalogue_t *catalogue = open_good (*state);
    struct mallinfo2 after = mallinfo2 ();
    assert_int_equal (catalogue_samples (catalogue), CLASSES * FILES);
    size_t bytes = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
    print_message ("%zu bytes for %d samples\n", bytes, CLASSES * FILES);
    assert_in_range (bytes, 24 * CLASSES * FILES, 60 * CLASSES * FILES);
    catalogue_destroy (&catalogue);
}


//  -- what is refused

static void
test_no_such_folder (void **state)
{
    assert_refused (in (*state, "missing"), -ENOENT, "missing", "check the path");
}

static void
test_a_file_is_no_folder (void **state)
{
    make_file (*state, "file", 1);
    assert_refused (in (*state, "file"), -ENOTDIR, "file", "give the folder");
}

//  Images directly in the root are the usual mistake.
static void
test_no_class_folders (void **state)
{
    make_file (*state, "x.jpg", 1);
    assert_refused (in (*state, ""), -ENODATA, "no class folders", "one folder for each class");
}

//  Guards: a table of labels is named with the command that makes a labels file of it, before it makes all
//  images one class in silence.
static void
test_a_table_beside_the_images (void **state)
{
    catalogue_t *self;
    char error [500];
    catalogue_options_t options = { .path = in (*state, "") };
    make_file (*state, "Train.CSV", 1);
    make_file (*state, "x.jpg", 1);
    assert_refused (in (*state, ""), -ENODATA, "a table, 'Train.CSV'", "/Train.CSV`");
    assert_refused (in (*state, "Train.CSV"), -ENOTDIR, "Train.CSV", "`python3 -m tureen.labels`");
    make_file (*state, "images/x.jpg", 1);
    assert_int_equal (catalogue_open (&self, &options, error, sizeof error), 0);
    assert_non_null (strstr (catalogue_warning (self, 0), "one class, 'images', and there is a table, "
        "'Train.CSV'"));
    catalogue_destroy (&self);
    make_file (*state, "others/x.jpg", 1);
    assert_int_equal (catalogue_open (&self, &options, error, sizeof error), 0);
    assert_null (catalogue_warning (self, 0));
    catalogue_destroy (&self);
}

//  Guards: files of which packs are made are named with the command; tar files before tables about them.
static void
test_files_to_pack_in_place_of_class_folders (void **state)
{
    make_file (*state, "x.jpg", 1);
    make_file (*state, "00000_stats.json", 1);
    make_file (*state, "00000.parquet", 1);
    assert_refused (in (*state, ""), -ENODATA, "but '00000.parquet'", "`python3 -m tureen.pack ");
    for (int number = 0; number < 9; number++) {
        char name [20];
        snprintf (name, sizeof name, "%05d.%s", number, number % 2? "tar": "mds");
        make_file (*state, name, 1);
    }
    assert_refused (in (*state, ""), -ENODATA, "but tar files, as '0000", "/*.tar PACK`");
}

//  As torchvision does; the first few are named, control characters blotted out.
static void
test_classes_without_images (void **state)
{
    make_file (*state, "cat/x.jpg", 1);
    make_file (*state, "dog\n\x1b[31m/x.txt", 1);
    assert_refused (in (*state, ""), -ENODATA, "1 of the 2 class folders", "'dog\?\?[31m': remove the folder "
        "or");
    for (int index = 0; index < 7; index++) {
        char name [20];
        snprintf (name, sizeof name, "empty%d", index);
        assert_int_equal (mkdir (in (*state, name), 0700), 0);
    }
    assert_refused (in (*state, ""), -ENODATA, "'empty3' and 3 more", "remove the folders");
}

static int64_t
label_of (const catalogue_t *catalogue, uint32_t id)
{
    int64_t label = -1;
    catalogue_label_value (catalogue, 0, id, (uint8_t *) &label);
    return label;
}

//  Guards: a class without a sample keeps its number on request, unless none has any; the fingerprint of the
//  files does not know it, that of the data does.
static void
test_empty_classes_that_stay (void **state)
{
    make_file (*state, "a/x.jpg", 1);
    make_file (*state, "c/x.jpg", 1);
    catalogue_t *plain = open_good (*state);
    make_file (*state, "b/x.txt", 1);
    catalogue_options_t options = { .path = in (*state, ""), .allow_empty = true };
    catalogue_t *kept = open_with (&options);
    assert_int_equal (catalogue_classes (kept), 3);
    assert_int_equal (label_of (kept, 1), 2);
    assert_int_equal (label_of (plain, 1), 1);
    assert_string_equal (catalogue_files_fingerprint (kept), catalogue_fingerprint (plain));
    assert_string_not_equal (catalogue_fingerprint (kept), catalogue_fingerprint (plain));
    assert_string_equal (catalogue_files_fingerprint (plain), catalogue_fingerprint (plain));
    catalogue_destroy (&kept);
    catalogue_destroy (&plain);
    unlink (in (*state, "a/x.jpg"));
    unlink (in (*state, "c/x.jpg"));
    assert_refused_with (&options, -ENODATA, "3 of the 3 class folders", "or add images (");
    make_file (*state, "b/noise", 1);
    make_file (*state, "b/noise.FLAC", 1);
    assert_refused_with (&options, -ENODATA, "3 of the 3 class folders", "--extensions NAME=.flac");
}

//  Of one sample and two more classes, which have none.
static void
fingerprint_with_classes (void **state, const char *one, const char *other, char fingerprint [33])
{
    catalogue_options_t options = { .path = in (*state, ""), .allow_empty = true };
    make_file (*state, "a/x.jpg", 1);
    assert_int_equal (mkdir (in (*state, one), 0700) || mkdir (in (*state, other), 0700), 0);
    catalogue_t *catalogue = open_with (&options);
    assert_int_equal (catalogue_classes (catalogue), 3);
    strcpy (fingerprint, catalogue_fingerprint (catalogue));
    catalogue_destroy (&catalogue);
    assert_int_equal (rmdir (in (*state, one)) || rmdir (in (*state, other)), 0);
}

//  Guards: other names with the same letters in a row are other classes.  A state has the fingerprint, which
//  is the same in every version.
static void
test_fingerprint_has_the_classes (void **state)
{
    char first [33], other [33];
    fingerprint_with_classes (state, "bc", "d", first);
    fingerprint_with_classes (state, "b", "cd", other);
    assert_string_not_equal (first, other);
    assert_string_equal (first, "f0ed54b9bf7fd3caf906bc584e2adb45");
}

//  Guards: labels by another catalogue's classes, whatever its order; unknown ones are refused.
static void
test_classes_of_another (void **state)
{
    static const char *const names [] = { "\xef\xbf\xbd", "\xf0\x90\x80\x80", "a", "c", "\xff" };
    char path [40];
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        for (int side = 0; side < 2; side++) {
            snprintf (path, sizeof path, "%s/%s/x.jpg", side? "of": "by", names [index]);
            if (!side || index != 2)
                make_file (*state, path, 1);
        }
    catalogue_options_t options = { .path = in (*state, "by") };
    catalogue_t *by = open_with (&options);
    options = (catalogue_options_t) { .path = in (*state, "of"), .classes_of = by };
    catalogue_t *of = open_with (&options);
    assert_int_equal (catalogue_classes (of), 5);
    for (uint32_t id = 0; id < 4; id++) {
        catalogue_path (of, id, 0, path, sizeof path);
        *strchr (path, '/') = 0;
        assert_string_equal (catalogue_class_name (of, (uint32_t) label_of (of, id)), path);
    }
    catalogue_destroy (&of);
    make_file (*state, "of/dog/x.jpg", 1);
    assert_refused_with (&options, -EINVAL, "'dog' is no class of", "leave out classes-from");
    catalogue_destroy (&by);
}

//  A small buffer gets what fits, ended.
static void
test_error_is_cut (void **state)
{
    catalogue_t *catalogue;
    char error [8];
    memset (error, '#', sizeof error);
    catalogue_options_t options = { .path = in (*state, "missing") };
    assert_int_equal (catalogue_open (&catalogue, &options, error, sizeof error), -ENOENT);
    assert_int_equal (strlen (error), 7);
}

//  A folder inside itself: named, with the one that it leads back to.
static void
test_cycle_of_links (void **state)
{
    make_file (*state, "cat/a/x.jpg", 1);
    assert_int_equal (symlink ("../..", in (*state, "cat/a/up")), 0);
    assert_refused (in (*state, ""), -ELOOP, "cat/a/up' leads back to '.'", "remove the link");
    unlink (in (*state, "cat/a/up"));
    assert_int_equal (symlink ("..", in (*state, "cat/a/up")), 0);
    assert_refused (in (*state, ""), -ELOOP, "cat/a/up' leads back to 'cat'", "remove the link");
    unlink (in (*state, "cat/a/up"));
    assert_int_equal (symlink (".", in (*state, "cat/a/self")), 0);
    assert_refused (in (*state, ""), -ELOOP, "cat/a/self' leads back to 'cat/a'", "remove the link");
}

//  Two ways to one folder are no cycle.
static void
test_diamond_of_links (void **state)
{
    make_file (*state, "cat/a/x.jpg", 1);
    assert_int_equal (symlink ("a", in (*state, "cat/b")), 0);
    assert_int_equal (symlink ("cat", in (*state, "dog")), 0);
    catalogue_t *catalogue = open_good (*state);
    assert_int_equal (catalogue_samples (catalogue), 4);
    assert_path (catalogue, 3, "dog/b/x.jpg");
    catalogue_destroy (&catalogue);
}


//  -- reading

static void
test_read_gives_the_file (void **state)
{
    make_file (*state, "cat/x.jpg", 1000);
    make_file (*state, "cat/y.jpg", 0);
    catalogue_t *catalogue = open_good (*state);
    //  0: as the system reads; else in pieces, interrupted before each.
    for (read_chunk = 0; read_chunk < 1200; read_chunk += 300 - read_chunk % 2) {
        catalogue_buffer_t buffer = { 0 };
        assert_int_equal (catalogue_read (catalogue, 0, 0, &buffer), 0);
        assert_int_equal (buffer.size, 1000);
        for (size_t index = 0; index < buffer.size; index++)
            assert_int_equal (buffer.bytes [index], (uint8_t) index);
        assert_int_equal (catalogue_read (catalogue, 1, 0, &buffer), 0);
        assert_non_null (buffer.bytes);
        assert_int_equal (buffer.size, 0);
        free (buffer.bytes);
    }
    catalogue_destroy (&catalogue);
}

//  It grows to what the largest file needs, and then no file takes an allocation.
static void
test_read_keeps_its_buffer (void **state)
{
    make_file (*state, "cat/a.jpg", 10);
    make_file (*state, "cat/b.jpg", 0);
    assert_int_equal (truncate (in (*state, "cat/b.jpg"), 300000), 0);
    make_file (*state, "cat/c.jpg", 2000);
    catalogue_t *catalogue = open_good (*state);
    catalogue_buffer_t buffer = { 0 };
    assert_int_equal (catalogue_read (catalogue, 0, 0, &buffer), 0);
    assert_true (buffer.limit >= 10 && buffer.limit < 300000);
    assert_int_equal (catalogue_read (catalogue, 1, 0, &buffer), 0);
    assert_true (buffer.size == 300000 && buffer.limit >= 300000);
    const uint8_t *bytes = buffer.bytes;
    for (uint32_t turn = 0; turn < 6; turn++) {
        fault_arm (3, ENOMEM, false);   //  openat, fstat, and what is not read
        assert_int_equal (catalogue_read (catalogue, turn % 3, 0, &buffer), -ENOMEM);
        fault_disarm ();
        assert_int_equal (catalogue_read (catalogue, turn % 3, 0, &buffer), 0);
        assert_ptr_equal (buffer.bytes, bytes);
    }
    free (buffer.bytes);
    catalogue_destroy (&catalogue);
}

//  A later chdir does not lead a relative root astray.
static void
test_read_after_chdir (void **state)
{
    make_file (*state, "cat/x.jpg", 10);
    char home [PATH_MAX], error [ERROR_BYTES];
    assert_non_null (getcwd (home, sizeof home));
    assert_int_equal (chdir (in (*state, "")), 0);
    catalogue_t *catalogue;
    assert_int_equal (catalogue_open (&catalogue, &(catalogue_options_t) { .path = "." }, error,
        sizeof error), 0);
    assert_int_equal (chdir (home), 0);
    assert_string_equal (catalogue_root (catalogue), ".");
    catalogue_buffer_t buffer = { 0 };
    assert_int_equal (catalogue_read (catalogue, 0, 0, &buffer), 0);
    free (buffer.bytes);
    catalogue_destroy (&catalogue);
}

//  Grown, shrunk, replaced by a folder or gone: told, never wrong bytes.
static void
test_read_of_a_changed_file (void **state)
{
    make_file (*state, "cat/x.jpg", 10);
    catalogue_t *catalogue = open_good (*state);
    make_file (*state, "cat/x.jpg", 11);
    assert_read (catalogue, 0, -ESTALE);
    make_file (*state, "cat/x.jpg", 9);
    assert_read (catalogue, 0, -ESTALE);
    unlink (in (*state, "cat/x.jpg"));
    assert_read (catalogue, 0, -ENOENT);
    assert_int_equal (mkdir (in (*state, "cat/x.jpg"), 0700), 0);
    assert_read (catalogue, 0, -EINVAL);
    catalogue_destroy (&catalogue);
}

//  A file that is cut between the look at its size and the end of reading.
static void
test_read_of_a_file_cut_meanwhile (void **state)
{
    make_file (*state, "cat/x.jpg", 10);
    catalogue_t *catalogue = open_good (*state);
    read_cuts = 4;
    assert_read (catalogue, 0, -ESTALE);
    catalogue_destroy (&catalogue);
}

//  Links that lead nowhere and what is no file keep the ids torchvision gives them; reading tells, and never
//  waits.
static void
test_read_of_what_is_no_file (void **state)
{
    make_file (*state, "cat/c.jpg", 1);
    assert_int_equal (mkfifo (in (*state, "cat/b.jpg"), 0600), 0);
    assert_int_equal (symlink ("nowhere", in (*state, "cat/a.jpg")), 0);
    assert_int_equal (symlink ("d.jpg", in (*state, "cat/d.jpg")), 0);
    catalogue_t *catalogue = open_good (*state);
    assert_int_equal (catalogue_samples (catalogue), 4);
    assert_read (catalogue, 0, -ENOENT);
    assert_read (catalogue, 1, -EINVAL);
    assert_read (catalogue, 3, -ELOOP);
    catalogue_destroy (&catalogue);
}

static void
test_read_of_a_giant (void **state)
{
    make_file (*state, "cat/x.jpg", 0);
    assert_int_equal (truncate (in (*state, "cat/x.jpg"), CATALOGUE_SAMPLE_BYTES_MAX + 1l), 0);
    catalogue_t *catalogue = open_good (*state);
    assert_int_equal (catalogue_file_bytes (catalogue, 0, 0), CATALOGUE_SAMPLE_BYTES_MAX + 1ul);
    assert_read (catalogue, 0, -EFBIG);
    catalogue_destroy (&catalogue);
}


//  -- faults

static void
test_open_with_faults (void **state)
{
    make_file (*state, "cat/a/x.jpg", 1);
    make_file (*state, "cat/b.jpg", 1);
    make_file (*state, "dog/c.png", 1);
    sweep_open (&(catalogue_options_t) { .path = in (*state, "") }, 3);
}

static void
test_read_with_faults (void **state)
{
    make_file (*state, "cat/x.jpg", 100);
    catalogue_t *catalogue = open_good (*state);
    unsigned int nth = 0;
    bool struck = true;
    while (struck) {
        catalogue_buffer_t buffer = { 0 };
        fault_arm (++nth, EIO, false);
        int rc = catalogue_read (catalogue, 0, 0, &buffer);
        struck = fault_disarm ();
        assert_true (rc == 0 || rc == -EIO || rc == -ENOMEM);
        assert_int_equal (rc != 0, struck);
        assert_int_equal (buffer.size, rc? 0: 100);
        assert_int_equal (buffer.bytes != NULL, buffer.limit != 0);
        free (buffer.bytes);
    }
    assert_int_equal (nth, 5);          //  openat, fstat, malloc, read were hit
    catalogue_destroy (&catalogue);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_order_and_labels, begin, end),
        cmocka_unit_test_setup_teardown (test_path_is_cut, begin, end),
        cmocka_unit_test_setup_teardown (test_fingerprint_tells_data_apart, begin, end),
        cmocka_unit_test_setup_teardown (test_fingerprint_is_golden, begin, end),
        cmocka_unit_test_setup_teardown (test_extensions, begin, end),
        cmocka_unit_test_setup_teardown (test_deep_tree, begin, end),
        cmocka_unit_test_setup_teardown (test_memory_per_sample, begin, end),
        cmocka_unit_test_setup_teardown (test_no_such_folder, begin, end),
        cmocka_unit_test_setup_teardown (test_a_file_is_no_folder, begin, end),
        cmocka_unit_test_setup_teardown (test_a_table_beside_the_images, begin, end),
        cmocka_unit_test_setup_teardown (test_no_class_folders, begin, end),
        cmocka_unit_test_setup_teardown (test_files_to_pack_in_place_of_class_folders, begin, end),
        cmocka_unit_test_setup_teardown (test_classes_without_images, begin, end),
        cmocka_unit_test_setup_teardown (test_empty_classes_that_stay, begin, end),
        cmocka_unit_test_setup_teardown (test_fingerprint_has_the_classes, begin, end),
        cmocka_unit_test_setup_teardown (test_classes_of_another, begin, end),
        cmocka_unit_test_setup_teardown (test_error_is_cut, begin, end),
        cmocka_unit_test_setup_teardown (test_cycle_of_links, begin, end),
        cmocka_unit_test_setup_teardown (test_diamond_of_links, begin, end),
        cmocka_unit_test_setup_teardown (test_read_gives_the_file, begin, end),
        cmocka_unit_test_setup_teardown (test_read_keeps_its_buffer, begin, end),
        cmocka_unit_test_setup_teardown (test_read_after_chdir, begin, end),
        cmocka_unit_test_setup_teardown (test_read_of_a_changed_file, begin, end),
        cmocka_unit_test_setup_teardown (test_read_of_a_file_cut_meanwhile, begin, end),
        cmocka_unit_test_setup_teardown (test_read_of_what_is_no_file, begin, end),
        cmocka_unit_test_setup_teardown (test_read_of_a_giant, begin, end),
        cmocka_unit_test_setup_teardown (test_open_with_faults, begin, end),
        cmocka_unit_test_setup_teardown (test_read_with_faults, begin, end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
