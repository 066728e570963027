//  In which form labels are unpacked: in the one from which they are read again as what they were; and what a
//  disk that is full leaves of them.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "scratch.h"
#include "unpack_labels.h"

static void
s_write (const char *folder, const char *name, const char *text)
{
    char path [PATH_MAX + 16];
    snprintf (path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen (path, "we");
    assert_non_null (file);
    fputs (text, file);
    assert_int_equal (fclose (file), 0);
}

//  Guards: texts that all look like numbers stay texts, also where one that does not is left out.
static void
test_texts_that_look_like_numbers (void **state)
{
    (void) state;
    static const struct { bool wanted [2]; const char *name; } cases [] = {
        { { true, true }, "labels.tsv" }, { { false, true }, "labels.tsv" },
        { { true, false }, "labels.jsonl" }
    };
    scratch_folder_t scratch;
    catalogue_t *catalogue;
    char error [600];
    assert_true (scratch_begin (&scratch));
    s_write (scratch.path, "1.png", "one");
    s_write (scratch.path, "2.png", "two");
    s_write (scratch.path, "labels.jsonl", "{\"path\":\"1.png\",\"code\":\"12\"}\n"
        "{\"path\":\"2.png\",\"code\":\"word\"}\n");
    if (catalogue_open (&catalogue, &(catalogue_options_t) { .path = scratch.path }, error, sizeof error))
        fail_msg ("%s", error);
    int folder = open (scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unlinkat (folder, "labels.jsonl", 0);
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const char *name;
        assert_int_equal (unpack_labels_write (catalogue, cases [index].wanted, folder, &name), 0);
        assert_string_equal (name, cases [index].name);
        assert_int_equal (unlinkat (folder, name, 0), 0);
    }
    catalogue_destroy (&catalogue);
    close (folder);
    assert_true (scratch_end (&scratch));
}

static catalogue_t *
s_open (const char *folder)
{
    catalogue_t *catalogue;
    char error [1024];
    if (catalogue_open (&catalogue, &(catalogue_options_t) { .path = folder }, error, sizeof error))
        fail_msg ("%s", error);
    return catalogue;
}

//  Must hold: whatever labels there are, what is unpacked are the same data, to the last bit.
static void
test_labels_are_read_again_as_they_were (void **state)
{
    (void) state;
    static const struct { const char *name, *text, *unpacked; } cases [] = {
        { "labels.jsonl", "{\"path\":\"1.png\",\"n\":1}\n{\"path\":\"2.png\",\"n\":-5}\n", "labels.tsv" },
        { "labels.jsonl", "{\"path\":\"1.png\",\"x\":0.30000000000000004}\n"
            "{\"path\":\"2.png\",\"x\":1e300}\n",
            "labels.tsv" },
        { "labels.jsonl", "{\"path\":\"1.png\",\"x\":1.0}\n{\"path\":\"2.png\",\"x\":2.0}\n", "labels.tsv" },
        { "labels.jsonl", "{\"path\":\"1.png\",\"v\":[3]}\n{\"path\":\"2.png\",\"v\":[4]}\n",
            "labels.jsonl" },
        { "labels.jsonl", "{\"path\":\"1.png\",\"v\":[0.30000000000000004]}\n"
            "{\"path\":\"2.png\",\"v\":[4.0]}\n",
            "labels.jsonl" },
        { "labels.jsonl", "{\"path\":\"1.png\",\"v\":[3,4]}\n{\"path\":\"2.png\",\"v\":[5,6]}\n",
            "labels.tsv" },
        { "labels.jsonl", "{\"path\":\"1.png\",\"t\":\"word\"}\n{\"path\":\"2.png\",\"t\":\"\"}\n",
            "labels.tsv" },
        { "labels.jsonl", "{\"path\":\"1.png\",\"t\":\"word\"}\n{\"path\":\"2.png\",\"t\":\"a\\tb\"}\n",
            "labels.jsonl" },
        { "labels.tsv", "path\tx\n1.png\tnan\n2.png\t-inf\n", "labels.tsv" }
    };
    static const bool wanted [] = { true, true };
    scratch_folder_t scratch;
    assert_true (scratch_begin (&scratch));
    s_write (scratch.path, "1.png", "one");
    s_write (scratch.path, "2.png", "two");
    int folder = open (scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const char *name;
        s_write (scratch.path, cases [index].name, cases [index].text);
        catalogue_t *packed = s_open (scratch.path);
        assert_int_equal (unlinkat (folder, cases [index].name, 0), 0);
        assert_int_equal (unpack_labels_write (packed, wanted, folder, &name), 0);
        assert_string_equal (name, cases [index].unpacked);
        catalogue_t *unpacked = s_open (scratch.path);
        if (strcmp (catalogue_fingerprint (unpacked), catalogue_fingerprint (packed)) != 0)
            fail_msg ("'%s' is read as other labels", cases [index].text);
        catalogue_destroy (&unpacked);
        catalogue_destroy (&packed);
        assert_int_equal (unlinkat (folder, name, 0), 0);
    }
    close (folder);
    assert_true (scratch_end (&scratch));
}

//  Must hold: of a file that does not fit on the disk nothing stays, which the next call would find.
static void
test_a_full_disk_leaves_no_file (void **state)
{
    (void) state;
    static const bool wanted [] = { true, true };
    scratch_folder_t scratch;
    struct rlimit before, limit;
    char path [PATH_MAX], text [16] = "";
    const char *name;
    assert_true (scratch_begin (&scratch));
    int folder = open (scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal (mkdirat (folder, "cat", 0700) || mkdirat (folder, "dog", 0700), 0);
    s_write (scratch.path, "cat/1.png", "one");
    s_write (scratch.path, "dog/2.png", "two");
    catalogue_t *catalogue = s_open (scratch.path);
    snprintf (path, sizeof path, "%s/names", scratch.path);
    signal (SIGXFSZ, SIG_IGN);
    assert_int_equal (getrlimit (RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 1;
    assert_int_equal (setrlimit (RLIMIT_FSIZE, &limit), 0);
    int rc = unpack_labels_write (catalogue, wanted, folder, &name),
        rc_of_names = unpack_labels_write_names (catalogue, path);
    assert_int_equal (setrlimit (RLIMIT_FSIZE, &before), 0);
    assert_int_equal (rc, -EFBIG);
    assert_int_equal (rc_of_names, -EFBIG);
    assert_true (faccessat (folder, name, F_OK, 0) != 0 && access (path, F_OK) != 0);
    assert_int_equal (unpack_labels_write_names (catalogue, path), 0);
    FILE *file = fopen (path, "re");
    assert_int_equal (fread (text, 1, sizeof text - 1, file), strlen ("cat\ndog\n"));
    fclose (file);
    assert_string_equal (text, "cat\ndog\n");
    assert_int_equal (unpack_labels_write_names (catalogue, path), -EEXIST);
    assert_int_equal (access (path, F_OK), 0);
    catalogue_destroy (&catalogue);
    close (folder);
    assert_true (scratch_end (&scratch));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_texts_that_look_like_numbers),
        cmocka_unit_test (test_labels_are_read_again_as_they_were),
        cmocka_unit_test (test_a_full_disk_leaves_no_file)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
