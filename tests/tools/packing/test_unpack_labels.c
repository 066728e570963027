//  In which form labels are unpacked: in the one from which they are read again as what they were.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_texts_that_look_like_numbers) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
