//  Words about data sets that a running server is to have too.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "options.h"

enum { WORDS_MAX = 32, ERROR_BYTES = 512 };

static options_t s_server = { .tenants = { { .name = (char *) "vision", .datasets = 1 },
    { .name = (char *) "all", .datasets = UINT64_MAX } }, .tenant_count = 2 };

static bool
s_parse (options_t *added, const char *text, char error [ERROR_BYTES])
{
    char copy [1024], *rest = copy;
    const char *words [WORDS_MAX];
    size_t count = 0;
    assert_true (strlen (text) < sizeof copy);
    strcpy (copy, text);
    for (char *word; *text && (word = strsep (&rest, " ")) && count < WORDS_MAX;)
        words [count++] = word;
    return options_parse_added (added, &s_server, words, count, error, ERROR_BYTES);
}

static void
s_refused (const char *text, const char *fragment)
{
    options_t added;
    char error [ERROR_BYTES];
    if (s_parse (&added, text, error))
        fail_msg ("taken: %s", text);
    if (!strstr (error, fragment))
        fail_msg ("%s: expected '%s', got '%s'", text, fragment, error);
    options_clear (&added);
}

//  All that is said of data sets, in any order; words stay as they are.
static void
test_data_sets (void **state)
{
    (void) state;
    options_t added;
    char error [ERROR_BYTES];
    assert_true (s_parse (&added, "--on-bad val=fail --dataset=val=/data/val --dataset pack=s3://data/pack "
        "--field val.mask=mask:/data/masks --tier pack=direct --classes-from val=train "
        "--tenant-datasets vision=pack", error));
    assert_string_equal (error, "");
    assert_int_equal (added.dataset_count, 2);
    const options_dataset_t *val = &added.datasets [0], *pack = &added.datasets [1];
    assert_string_equal (val->path, "/data/val");
    assert_true (val->bad_is_fatal);
    assert_string_equal (val->fields [0].path, "/data/masks");
    assert_string_equal (val->classes_from, "train");
    assert_string_equal (pack->tier, "direct");
    assert_int_equal (added.tenant_count, 2);
    assert_int_equal (added.tenants [0].datasets, 2);           //  the second one
    assert_int_equal (added.tenants [1].datasets & 3, 3);       //  as of the server's
    options_clear (&added);
}

//  Each error says what is wrong, and with other settings which ones there are.
static void
test_refusals (void **state)
{
    (void) state;
    s_refused ("", "no data set");
    s_refused ("--on-bad val=fail", "no data set");
    s_refused ("val=/data/val", "--dataset NAME=PATH");
    s_refused ("--help", "--help is for a command line");
    s_refused ("--dataset val=/data/val --workers 3", "workers: this is set when a server starts; with a "
        "data set there may be field,");
    s_refused ("--dataset val=/data/val --tenant new=-", "tenant: this is set");
    s_refused ("--dataset val=/data/val --tenant-weight vision=3", "tenant-weight: this is set");
    s_refused ("--dataset val=/data/val --operation a=b", "operation: this is set");
    s_refused ("--dataset val=/data/val --config /etc/x", "config: this is set");
    s_refused ("--dataset val=data/val", "dataset val: a running server takes absolute paths, got "
        "'data/val'");
    s_refused ("--dataset val=/data/val --field val.mask=mask:masks", "absolute paths, got 'masks'");
    s_refused ("--dataset val=/data/val --dataset val=/b", "two of that name");
    s_refused ("--dataset val=/data/val --tenant-datasets vision=train", "there is no data set 'train'");
    s_refused ("--dataset val=/data/val --tenant-datasets none=val", "there is no tenant 'none'");
    s_server.tenant_count = 0;
    s_refused ("--dataset val=/data/val --tenant-datasets none=val", "there is no tenant 'none', and none at "
        "all: tenants are declared when the server starts");
    s_server.tenant_count = 2;
    s_refused ("--dataset val=/data/val --on-bad other=fail", "there is no data set 'other'");
    s_refused ("--dataset val=/data/val --nothing 3", "nothing");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_data_sets), cmocka_unit_test (test_refusals)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
