/*  Settings of access: tenants, their users and limits, the group, keys, open.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "options.h"
#include "seed.h"

enum { ARGUMENTS_MAX = 200, ERROR_BYTES = 512 };

static char s_config_path [] = "/tmp/test_options_tenants.XXXXXX";

//  Blank-separated arguments after two data sets, train and val; then a file of this text, if there is one.
static option_status_t
s_parse (options_t *options, const char *arguments, const char *file, char error [ERROR_BYTES])
{
    char *text = strdup (arguments),
        *argv [ARGUMENTS_MAX + 8] = { "serve", "--dataset", "train=/t", "--dataset", "val=/v" };
    char *rest = text;
    assert_non_null (text);
    int argc = 5;
    for (char *word; *arguments && (word = strsep (&rest, " ")) && argc < ARGUMENTS_MAX;)
        argv [argc++] = word;
    if (file) {
        FILE *stream = fopen (s_config_path, "w");
        assert_non_null (stream);
        fputs (file, stream);
        assert_int_equal (fclose (stream), 0);
        argv [argc++] = "--config";
        argv [argc++] = s_config_path;
    }
    option_status_t status = options_parse (options, argc, argv, error, ERROR_BYTES);
    free (text);
    return status;
}

static options_t
s_parsed (const char *arguments, const char *file)
{
    options_t options;
    char error [ERROR_BYTES];
    if (s_parse (&options, arguments, file, error) != OPTION_RUN)
        fail_msg ("%s, %s: %s", arguments, file? file: "", error);
    assert_string_equal (error, "");
    return options;
}

static void
s_refused (const char *arguments, const char *file, const char *fragment)
{
    options_t options;
    char error [ERROR_BYTES];
    if (s_parse (&options, arguments, file, error) != OPTION_WRONG)
        fail_msg ("taken: %s, %s", arguments, file? file: "");
    if (!strstr (error, fragment))
        fail_msg ("%s, %s: expected '%s', got '%s'", arguments, file? file: "", fragment, error);
    options_clear (&options);
}

//  The tenant that a user of this uid has; NULL: none.
static const char *
s_tenant_of (const options_t *options, uid_t uid)
{
    for (size_t index = 0; index < options->user_count; index++)
        if (options->users [index].uid == uid)
            return options->tenants [options->users [index].tenant].name;
    return NULL;
}

//  --- What is taken ----------------------------------------------------------------------------------------

static void
no_tenant_beside_the_operator (void **state)
{
    (void) state;
    options_t options = s_parsed ("", NULL);
    assert_int_equal (options.tenant_count, 0);
    assert_int_equal (options.user_count, 0);
    assert_int_equal (options.own.weight, 1);
    assert_null (options.group);
    assert_null (options.keys);
    assert_false (options.open);
    options_clear (&options);
}

static void
s_check_everything (const options_t *options, const char *group, gid_t group_id)
{
    const options_tenant_t *vision = &options->tenants [0], *text = &options->tenants [1],
        *keyed = &options->tenants [2];
    assert_int_equal (options->tenant_count, 3);
    assert_string_equal (vision->name, "vision");
    assert_int_equal (vision->datasets, 3);
    assert_int_equal (vision->weight, 3);
    assert_int_equal (vision->jobs_max, 8);
    assert_int_equal (vision->batches_bytes_max, UINT64_C (2) << 30);
    assert_int_equal (vision->cache_bytes_max, UINT64_C (4) << 30);
    assert_string_equal (text->name, "text.a_b-c");
    assert_int_equal (text->datasets & 3, 3);
    assert_int_equal (text->weight, 1);
    assert_int_equal (text->jobs_max, 0);
    assert_int_equal (text->batches_bytes_max, 0);
    assert_int_equal (text->cache_bytes_max, 0);
    assert_string_equal (keyed->name, "keyed");
    assert_int_equal (keyed->datasets, 0);
    assert_int_equal (options->own.weight, 2);
    assert_int_equal (options->own.jobs_max, 4);
    static const struct { uid_t uid; const char *tenant; } users [] = {
        { 0, "vision" }, { 5, "text.a_b-c" }, { 1001, "vision" }, { 1002, "vision" },
        { 4294967294, "text.a_b-c" } };
    assert_int_equal (options->user_count, 5);
    for (size_t index = 0; index < 5; index++) {
        assert_int_equal (options->users [index].uid, users [index].uid);
        assert_string_equal (s_tenant_of (options, users [index].uid), users [index].tenant);
    }
    assert_string_equal (options->group, group);
    assert_int_equal (options->group_id, group_id);
}

//  Both places say the same; root stands for a user with a name, which every machine has.
static void
everything (void **state)
{
    (void) state;
    const struct group *group = getgrgid (getgid ());
    char arguments [1024], file [1024];
    snprintf (arguments, sizeof arguments,
        "--tenant-weight vision=3 --tenant vision=1002,root,1001 --tenant-datasets=vision=val,train "
        "--tenant-jobs vision=8 --tenant-batches vision=2G --tenant-cache vision=4G --tenant "
        "text.a_b-c=4294967294,5 --tenant-datasets text.a_b-c=* --tenant keyed=- --tenant-weight operator=2 "
        "--tenant-jobs operator=4 --group %s", group->gr_name);
    options_t options = s_parsed (arguments, NULL);
    s_check_everything (&options, group->gr_name, group->gr_gid);
    options_clear (&options);
    snprintf (file, sizeof file, "group = 4294967294\ntenant-weight\n    vision = 3\n    operator = 2\n"
        "tenant\n    vision = 1002, root ,1001\n    text.a_b-c = 4294967294,5\n    keyed = -\n"
        "tenant-datasets\n    vision = \"val, train\"\n    text.a_b-c = *\ntenant-jobs\n    vision = 8\n    "
        "operator = 4\n"
        "tenant-batches\n    vision = 2G\ntenant-cache\n    vision = 4G\n");
    options = s_parsed ("", file);
    s_check_everything (&options, "4294967294", 4294967294);
    options_clear (&options);
}

//  The command line wins; users add up.
static void
both_places (void **state)
{
    (void) state;
    static const char file [] =
        "tenant\n    a = 10,11\n    b = -\ntenant-weight\n    a = 5\ntenant-datasets\n    a = train\n"
        "group = 7\nopen = 0\n";
    options_t options = s_parsed ("--tenant a=12,10 --tenant-weight a=1 --tenant-weight a=9 "
        "--tenant-datasets b=* --group 8", file);
    assert_int_equal (options.tenant_count, 2);
    assert_int_equal (options.user_count, 3);
    for (uid_t uid = 10; uid < 13; uid++)
        assert_string_equal (s_tenant_of (&options, uid), "a");
    assert_int_equal (options.tenants [0].weight, 9);
    assert_int_equal (options.tenants [0].datasets, 1);
    assert_int_equal (options.tenants [1].datasets & 3, 3);
    assert_int_equal (options.group_id, 8);
    options_clear (&options);
}

static void
open_and_keys (void **state)
{
    (void) state;
    static const struct { const char *arguments, *file; bool open; } cases [] = {
        { "--open", NULL, true }, { "--open=1", NULL, true }, { "--open=0", NULL, false },
        { "--open --workers 2", NULL, true },
        { "", "open = 1\n", true }, { "", "open = 0\n", false }, { "--open=0", "open = 1\n", false },
        { "--open", "open = 0\n", true },
        { "--open --group 5", NULL, true },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        options_t options = s_parsed (cases [index].arguments, cases [index].file);
        assert_int_equal (options.open, cases [index].open);
        options_clear (&options);
    }
    options_t options = s_parsed ("--keys /etc/tureen/keys --tenant a=-", NULL);
    assert_string_equal (options.keys, "/etc/tureen/keys");
    options_clear (&options);
}

//  As many as there may be; one more is refused.
static void
the_most (void **state)
{
    (void) state;
    char arguments [4096] = "", more [8192];
    for (int index = 0; index < OPTIONS_TENANTS_MAX; index++)
        snprintf (arguments + strlen (arguments), sizeof arguments - strlen (arguments), "%s--tenant=t%d=%d",
            index? " ": "", index, 1000 + index);
    options_t options = s_parsed (arguments, NULL);
    assert_int_equal (options.tenant_count, OPTIONS_TENANTS_MAX);
    options_clear (&options);
    snprintf (more, sizeof more, "%s --tenant=further=-", arguments);
    s_refused (more, NULL, "tenant further: there are more than 63");
    //  Lines of a file, because users add up.
    static char file [128 * 1024];
    size_t used = 0;
    for (int index = 0; index < OPTIONS_USERS_MAX; index++)
        used += (size_t) snprintf (file + used, sizeof file - used, index % 128 == 0? "\n    a = %d": ",%d",
            index);
    char *whole = malloc (sizeof file + 64);
    assert_non_null (whole);
    sprintf (whole, "tenant%s\n", file);
    options = s_parsed ("", whole);
    assert_int_equal (options.user_count, OPTIONS_USERS_MAX);
    options_clear (&options);
    s_refused ("--tenant a=4096", whole, "tenant a: there are more than 4096 users of tenants");
    free (whole);
}

//  --- What is refused --------------------------------------------------------------------------------------

static void
arguments_refused (void **state)
{
    (void) state;
    static const struct { const char *arguments, *fragment; } cases [] = {
        { "--tenant", "option '--tenant' needs a value: NAME=USER,USER" },
        { "--tenant vision", "tenant: expected NAME=USER,USER, got 'vision'" },
        { "--tenant vision=", "tenant: expected NAME=USER,USER, or NAME=- where there are only keys" },
        { "--tenant =1000", "tenant: a name has 1 to 64 letters, digits, '.', '_' or '-', got ''" },
        { "--tenant a/b=1000", "got 'a/b'" },
        { "--tenant operator=1000", "tenant: 'operator' is there without being named" },
        { "--tenant a=no-user-has-this-name",
            "tenant a: this machine has no user 'no-user-has-this-name'" },
        { "--tenant a=1000,,1001", "a user is missing between commas" },
        { "--tenant a=1000,", "a user is missing" },
        { "--tenant a=1000,-", "no user '-'" },
        { "--tenant a=4294967295", "no user '4294967295'" },
        { "--tenant a=99999999999999999999", "no user '99999999999999999999'" },
        { "--tenant a=-1", "no user '-1'" },
        { "--tenant a=1000 --tenant b=1001,1000",
            "is one of tenant 'a' already, and a user has one tenant: take one of the two out" },
        { "--tenant a=0 --tenant b=root", "tenant b: root (0) is one of tenant 'a' already" },
        { "--tenat a=1", "did you mean '--tenant'?" },
        { "--tenant-wieght a=1", "did you mean '--tenant-weight'?" },
        { "--tenant-datasets a=train",
            "tenant-datasets: there is no tenant 'a', and none at all: declare it with tenant a=USER" },
        { "--tenant-weight operator=2",
            "operator has everything as long as there is no tenant beside it: declare one, as in tenant "
            "NAME=USER" },
        { "--tenant a=1 --tenant b=2 --tenant-jobs c=1",
            "tenant-jobs: there is no tenant 'c'; there is: a, b, operator" },
        { "--tenant a=1 --tenant-datasets a=trian",
            "there is no data set 'trian'; there is: train, val, or * for all" },
        { "--tenant a=1 --tenant-datasets a=train,", "there is no data set ''" },
        { "--tenant a=1 --tenant-datasets a=train,*", "there is no data set '*'" },
        { "--tenant a=1 --tenant-datasets operator=train",
            "the operator may use all data sets: take this out" },
        { "--tenant a=1 --tenant-weight a=0", "tenant-weight: expected a number from 1 to 1000, got '0'" },
        { "--tenant a=1 --tenant-weight a=1001", "got '1001'" },
        { "--tenant a=1 --tenant-weight a=", "tenant-weight: expected NAME=N, got 'a='" },
        { "--tenant a=1 --tenant-jobs a=257", "tenant-jobs: expected a number from 1 to 256, got '257'" },
        { "--tenant a=1 --tenant-batches a=0",
            "tenant-batches: expected a size in bytes, as in 512M or 4G, got '0'" },
        { "--tenant a=1 --tenant-cache a=lots", "tenant-cache: expected a size in bytes" },
        { "--group no-such-group-here",
            "group: expected the name or number of a group of this machine" },
        { "--group 5", "group: its members could reach the socket, and would not be served: declare "
            "tenants" },
        { "--open yes", "unexpected argument 'yes'" },
        { "--open=yes", "open: expected 1 or 0, got 'yes'" },
        { "--open --keys /k", "open and keys:" },
        { "--open --tenant a=1", "open and tenant:" },
        { "--keys", "option '--keys' needs a value" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        s_refused (cases [index].arguments, NULL, cases [index].fragment);
}

//  With the file's name and the line.
static void
files_refused (void **state)
{
    (void) state;
    static const struct { const char *text; int line; const char *fragment; } cases [] = {
        { "tenant\n    a = 1\n    b = 2,no-user-has-this-name\n", 3, "no user 'no-user-has-this-name'" },
        { "tenant\n    a = 1\n\n    #   and\n    b = 1\n", 5, "is one of tenant 'a' already" },
        { "tenant = a\n", 1, "tenant: expected no value here, but lines '    NAME = USER,USER' below it" },
        { "tenant\n    a = 1\ntenant-datasets\n    a = train\n    b = train\n", 5,
            "there is no tenant 'b'; there is: a, operator" },
        { "tenant\n    a = 1\ntenant-datasets\n    a = what\n", 4, "there is no data set 'what'" },
        { "tenant\n    a = 1\ntenant-weight\n    a = 1\n    a = 2\n", 5,
            "tenant-weight a: it is there twice, now as '2'" },
        { "open = 1\nopen = 1\n", 2, "open: it is there twice" },
        { "open\n", 1, "open: the value is missing" },
        { "open = 2\n", 1, "open: expected 1 or 0" },
        { "group = no-such-group-here\n", 1, "got 'no-such-group-here'" },
        { "keys = /a\nkeys = /b\n", 2, "keys: it is there twice, now as '/b'" },
        { "tenants\n    a = 1\n", 1, "did you mean 'tenant'?" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        char place [80];
        snprintf (place, sizeof place, "%s:%d: ", s_config_path, cases [index].line);
        s_refused ("", cases [index].text, place);
        s_refused ("", cases [index].text, cases [index].fragment);
    }
    //  The file does not override what the command line has said already, but it is checked all the same.
    s_refused ("--tenant a=1 --tenant-weight a=2", "tenant-weight\n    a = many\n", "got 'many'");
    s_refused ("--tenant a=1 --group 5", "group = no-such-group-here\n", "got 'no-such-group-here'");
}

//  --- Beside a model ---------------------------------------------------------------------------------------

//  Users in any order and in any number of declarations: in the end each is its tenant's, in order, once.
static void
users_in_any_order (void **state)
{
    (void) state;
    uint64_t seed = test_seed (), random = seed;
    for (int round = 0; round < 300; round++) {
        enum { UIDS = 12, TENANTS = 3 };
        int of [UIDS];                  //  -1: no tenant's
        size_t count = 0;
        char arguments [2048] = "", conflict [2100];
        for (int uid = 0; uid < UIDS; uid++)
            of [uid] = -1;
        for (uint64_t declarations = test_below (&random, 12); declarations > 0; declarations--) {
            uint64_t tenant = test_below (&random, TENANTS);
            size_t used = strlen (arguments);
            snprintf (arguments + used, sizeof arguments - used, "%s--tenant=t%d=", used? " ": "",
                (int) tenant);
            bool any = false;
            for (int times = 0; times < 4; times++) {
                int uid = (int) test_below (&random, UIDS);
                if (of [uid] >= 0 && of [uid] != (int) tenant)
                    continue;
                count += of [uid] < 0;
                of [uid] = (int) tenant;
                used = strlen (arguments);
                snprintf (arguments + used, sizeof arguments - used, "%s%d", any? ",": "", 500 + uid);
                any = true;
            }
            if (!any)
                strcat (arguments, "-");
        }
        options_t options = s_parsed (arguments, NULL);
        if (options.user_count != count)
            fail_msg ("seed %" PRIu64 ", round %d: %zu users, not %zu", seed, round, options.user_count,
                count);
        for (size_t index = 1; index < count; index++)
            assert_true (options.users [index - 1].uid < options.users [index].uid);
        for (int uid = 0; uid < UIDS; uid++) {
            const char *tenant = s_tenant_of (&options, (uid_t) (500 + uid));
            if ((tenant? tenant [1] - '0': -1) != of [uid])
                fail_msg ("seed %" PRIu64 ", round %d: user %d is of %s, not of t%d", seed, round, 500 + uid,
                    tenant, of [uid]);
            if (of [uid] < 0)
                continue;
            snprintf (conflict, sizeof conflict, "%s --tenant=t%d=%d", arguments, (of [uid] + 1) % TENANTS,
                500 + uid);
            s_refused (conflict, NULL, "a user has one tenant");
        }
        options_clear (&options);
    }
}

static int
s_set_up (void **state)
{
    (void) state;
    int descriptor = mkstemp (s_config_path);
    return descriptor < 0? -1: close (descriptor);
}

static int
s_tear_down (void **state)
{
    (void) state;
    return unlink (s_config_path);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (no_tenant_beside_the_operator),
        cmocka_unit_test (everything),
        cmocka_unit_test (both_places),
        cmocka_unit_test (open_and_keys),
        cmocka_unit_test (the_most),
        cmocka_unit_test (arguments_refused),
        cmocka_unit_test (files_refused),
        cmocka_unit_test (users_in_any_order),
    };
    return cmocka_run_group_tests (tests, s_set_up, s_tear_down);
}
