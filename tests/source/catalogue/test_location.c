//  What to do where a path is no data set: a remedy for each kind of path.

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "location.h"

static void
test_remedies_of_paths (void **state)
{
    (void) state;
    static const struct { const char *path, *says; } cases [] = {
        { "", "check the path" }, { "/data", "check the path" }, { "data", "check the path" },
        { "://x", "check the path" }, { "s3:/x", "check the path" }, { "a b://x", "check the path" },
        { "file:///data", "without file://" }, { "FILE:///data", "without file://" },
        { "s3://bucket/x", "an object store" }, { "http://host/x", "an object store" },
        { "https://host/x", "an object store" }, { "gs://bucket/x", "only s3://" },
        { "files://x", "only s3://" }, { "svn+ssh://x", "only s3://" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        if (!strstr (location_remedy (cases [index].path), cases [index].says))
            fail_msg ("%s: %s", cases [index].path, location_remedy (cases [index].path));
}

static void
test_remedies_of_files (void **state)
{
    (void) state;
    static const struct { const char *path, *says; } cases [] = {
        { "a.tar", "`tureen pack`" }, { "a.TAR.GZ", "`tureen pack`" }, { "a.tgz", "`tureen pack`" },
        { "a.parquet", "`python3 -m tureen.pack`" }, { "a.mds", "`python3 -m tureen.pack`" },
        { "a.csv", "`python3 -m tureen.labels`" }, { "a.tsv", "the folder that this list lies in" },
        { "a.jsonl", "the folder that this list lies in" }, { "a.zip", "extract the samples" },
        { "a.jpg", "holds the class folders" }, { "tar", "holds the class folders" },
        { ".tar", "holds the class folders" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        if (!strstr (location_folder_remedy (cases [index].path), cases [index].says))
            fail_msg ("%s: %s", cases [index].path, location_folder_remedy (cases [index].path));
}

//  Guards: which program packs a file, by its ending alone.
static void
test_packers (void **state)
{
    (void) state;
    assert_true (location_is_tar ("x.tar.zst") && location_is_tar ("x.Tar.Bz2"));
    assert_false (location_is_tar ("tar") || location_is_tar (".tar") || location_is_tar ("x.tar.lz"));
    assert_string_equal (location_packer ("x.tar.xz"), "tureen pack");
    assert_string_equal (location_packer ("x.ARROW"), "python3 -m tureen.pack");
    assert_null (location_packer ("x.jpg"));
    assert_true (location_is_table ("x.CSV"));
    assert_false (location_is_table ("csv"));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_remedies_of_paths), cmocka_unit_test (test_remedies_of_files),
        cmocka_unit_test (test_packers)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
