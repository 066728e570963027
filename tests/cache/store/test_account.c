//  Keys, region and endpoint from the environment and from files: the order in which they count, and what is
//  said if they are missing.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "account.h"

typedef struct {
    char folder [64], credentials [96], config [96];
    account_t account;
    char error [900];
} world_t;

static void
s_write (const char *path, const char *text)
{
    FILE *file = fopen (path, "we");
    assert_non_null (file);
    assert_true (fputs (text, file) >= 0);
    assert_int_equal (fclose (file), 0);
}

static int
s_set_up (void **state)
{
    static const char *const names [] = { "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
        "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
        "AWS_NO_SIGN_REQUEST" };
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        unsetenv (names [index]);
    world_t *self = calloc (1, sizeof *self);
    assert_non_null (self);
    strcpy (self->folder, "/tmp/tureen-account-XXXXXX");
    assert_non_null (mkdtemp (self->folder));
    snprintf (self->credentials, sizeof self->credentials, "%s/credentials", self->folder);
    snprintf (self->config, sizeof self->config, "%s/config", self->folder);
    setenv ("AWS_SHARED_CREDENTIALS_FILE", self->credentials, 1);
    setenv ("AWS_CONFIG_FILE", self->config, 1);
    *state = self;
    return 0;
}

static int
s_tear_down (void **state)
{
    world_t *self = *state;
    account_clear (&self->account);
    unlink (self->credentials);
    unlink (self->config);
    rmdir (self->folder);
    free (self);
    return 0;
}

static int
s_find (world_t *self)
{
    account_clear (&self->account);
    return account_find (&self->account, self->error, sizeof self->error);
}

//  Guards: keys of the environment come before those of files; half of a pair is named.
static void
test_the_environment (void **state)
{
    world_t *self = *state;
    s_write (self->credentials, "[default]\naws_access_key_id = file\naws_secret_access_key = hidden\n");
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.key, "file");
    setenv ("AWS_ACCESS_KEY_ID", "mine", 1);
    assert_int_equal (s_find (self), -EINVAL);
    assert_non_null (strstr (self->error, "AWS_SECRET_ACCESS_KEY is not"));
    setenv ("AWS_SECRET_ACCESS_KEY", "secret", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.key, "mine");
    assert_string_equal (self->account.secret, "AWS4secret");
    assert_null (self->account.token);
    setenv ("AWS_SESSION_TOKEN", "for an hour", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.token, "for an hour");
    unsetenv ("AWS_ACCESS_KEY_ID");
    assert_int_equal (s_find (self), -EINVAL);
    assert_non_null (strstr (self->error, "AWS_ACCESS_KEY_ID is not"));
    assert_null (strstr (self->error, "secret\""));
}

//  Guards: region and endpoint, from the most special source to the most general.
static void
test_region_and_endpoint (void **state)
{
    world_t *self = *state;
    s_write (self->credentials, "[default]\naws_access_key_id = key\naws_secret_access_key = hidden\n");
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.region, "us-east-1");
    assert_null (self->account.endpoint);
    s_write (self->config, "[default]\nregion=eu-west-1\nendpoint_url=http://file:1\n");
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.region, "eu-west-1");
    assert_string_equal (self->account.endpoint, "http://file:1");
    setenv ("AWS_DEFAULT_REGION", "eu-west-2", 1);
    setenv ("AWS_ENDPOINT_URL", "https://all", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.region, "eu-west-2");
    assert_string_equal (self->account.endpoint, "https://all");
    setenv ("AWS_REGION", "eu-west-3", 1);
    setenv ("AWS_ENDPOINT_URL_S3", "https://s3:9000/", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.region, "eu-west-3");
    assert_string_equal (self->account.endpoint, "https://s3:9000");
    static const char *const wrong [] = { "s3:9000", "ftp://x", "https://", "https://me:pw@x",
        "http://x/path" };
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; index++) {
        setenv ("AWS_ENDPOINT_URL_S3", wrong [index], 1);
        assert_int_equal (s_find (self), -EINVAL);
        assert_non_null (strstr (self->error, "https://HOST:PORT"));
        assert_null (strstr (self->error, "pw"));
    }
}

//  Guards: a profile is one section of each file, whatever stands around it.
static void
test_profiles (void **state)
{
    world_t *self = *state;
    s_write (self->credentials, "# a comment\naws_access_key_id = no profile's\n[other]\n"
        "aws_access_key_id = other\naws_secret_access_key = o\n\n[ team ]\n  aws_access_key_id = indented\n"
        " aws_access_key_id\n"
        ";aws_access_key_id = comment\naws_access_key_id =\taa=bb \naws_secret_access_key=s/+=\n[third]\n");
    s_write (self->config, "[team]\nregion = not-here\n[profile team]\ns3 =\n  region = nested\n"
        "region = here\n");
    setenv ("AWS_PROFILE", "team", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.key, "aa=bb");
    assert_string_equal (self->account.secret, "AWS4s/+=");
    assert_string_equal (self->account.region, "here");
    setenv ("AWS_PROFILE", "third", 1);
    assert_int_equal (s_find (self), -ENOKEY);
    assert_non_null (strstr (self->error, "profile 'third'"));
    assert_non_null (strstr (self->error, self->credentials));
    assert_non_null (strstr (self->error, self->config));
    s_write (self->credentials, "[third]\naws_access_key_id = half\n");
    assert_int_equal (s_find (self), -EINVAL);
    assert_non_null (strstr (self->error, "no aws_secret_access_key"));
}

//  Guards: without any keys requests go unsigned only if that is wanted.
static void
test_no_keys (void **state)
{
    world_t *self = *state;
    assert_int_equal (s_find (self), -ENOKEY);
    assert_non_null (strstr (self->error, "AWS_NO_SIGN_REQUEST=YES"));
    setenv ("AWS_NO_SIGN_REQUEST", "yes", 1);
    assert_int_equal (s_find (self), 0);
    assert_null (self->account.key);
    s_write (self->credentials, "[default]\n");
    assert_int_equal (chmod (self->credentials, 0), 0);
    if (geteuid () != 0) {
        assert_int_equal (s_find (self), -EACCES);
        assert_non_null (strstr (self->error, self->credentials));
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_the_environment, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_region_and_endpoint, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_profiles, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_no_keys, s_set_up, s_tear_down),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
