//  Keys, region and endpoint from the environment and from files: the order in which they count, and what is
//  said if they are missing.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "account.h"
#include "store.h"

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
        "AWS_NO_SIGN_REQUEST", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME",
        "AWS_ENDPOINT_URL_STS", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "AWS_EC2_METADATA_DISABLED" };
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
    assert_string_equal (self->account.key->name, "file");
    setenv ("AWS_ACCESS_KEY_ID", "mine", 1);
    assert_int_equal (s_find (self), -EINVAL);
    assert_non_null (strstr (self->error, "AWS_SECRET_ACCESS_KEY is not"));
    setenv ("AWS_SECRET_ACCESS_KEY", "secret", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.key->name, "mine");
    assert_string_equal (self->account.key->secret, "AWS4secret");
    assert_null (self->account.key->token);
    setenv ("AWS_SESSION_TOKEN", "for-an-hour", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.key->token, "for-an-hour");
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
    assert_string_equal (self->account.key->name, "aa=bb");
    assert_string_equal (self->account.key->secret, "AWS4s/+=");
    assert_string_equal (self->account.region, "here");
    setenv ("AWS_PROFILE", "third", 1);
    setenv ("AWS_EC2_METADATA_DISABLED", "true", 1);
    assert_int_equal (s_find (self), -ENOKEY);
    assert_non_null (strstr (self->error, "profile 'third'"));
    assert_non_null (strstr (self->error, self->credentials));
    assert_non_null (strstr (self->error, self->config));
    s_write (self->credentials, "[third]\naws_access_key_id = half\n");
    assert_int_equal (s_find (self), -EINVAL);
    assert_non_null (strstr (self->error, "no aws_secret_access_key"));
    setenv ("AWS_PROFILE", "thrid", 1);
    unsetenv ("AWS_EC2_METADATA_DISABLED");
    assert_int_equal (s_find (self), -ENOKEY);          //  and not the instance's keys
    assert_non_null (strstr (self->error, "there is no profile 'thrid'"));
    assert_non_null (strstr (self->error, "AWS_PROFILE"));
}

//  Guards: keys of a profile that were renewed in its file are read from there, and from nowhere else.
static void
test_a_profile_is_read_again (void **state)
{
    world_t *self = *state;
    account_key_t *key;
    s_write (self->config, "[profile team]\naws_access_key_id = old\naws_secret_access_key = one\n");
    setenv ("AWS_PROFILE", "team", 1);
    assert_int_equal (s_find (self), 0);
    assert_int_equal (self->account.source, ACCOUNT_PROFILE);
    s_write (self->config, "[profile team]\naws_access_key_id = new\naws_secret_access_key = two\n"
        "aws_session_token = three\n");
    assert_int_equal (account_read_again (&self->account, &key, self->error, sizeof self->error), 0);
    assert_string_equal (key->name, "new");
    assert_string_equal (key->secret, "AWS4two");
    assert_string_equal (key->token, "three");
    account_key_release (&key);
    s_write (self->config, "[profile team]\naws_access_key_id = half\n");
    assert_int_equal (account_read_again (&self->account, &key, self->error, sizeof self->error), -ENOKEY);
    assert_non_null (strstr (self->error, self->config));
    assert_null (key);
}

//  Guards: a web identity counts before the profile's keys, and after those of the environment; its endpoint.
static void
test_a_web_identity (void **state)
{
    world_t *self = *state;
    s_write (self->credentials, "[default]\naws_access_key_id = key\naws_secret_access_key = hidden\n");
    setenv ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token", 1);
    assert_int_equal (s_find (self), -EINVAL);
    assert_non_null (strstr (self->error, "AWS_ROLE_ARN"));
    setenv ("AWS_ROLE_ARN", "arn:aws:iam::1:role/reader", 1);
    setenv ("AWS_REGION", "eu-west-3", 1);
    assert_int_equal (s_find (self), 0);
    assert_int_equal (self->account.source, ACCOUNT_WEB_IDENTITY);
    assert_null (self->account.key);
    assert_string_equal (self->account.role, "arn:aws:iam::1:role/reader");
    assert_string_equal (self->account.session, "tureen");
    assert_string_equal (self->account.token_file, "/token");
    assert_string_equal (self->account.service, "https://sts.eu-west-3.amazonaws.com");
    setenv ("AWS_REGION", "cn-north-1", 1);
    setenv ("AWS_ROLE_SESSION_NAME", "me", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.session, "me");
    assert_string_equal (self->account.service, "https://sts.cn-north-1.amazonaws.com.cn");
    setenv ("AWS_ENDPOINT_URL", "http://all:1", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.service, "http://all:1");
    setenv ("AWS_ENDPOINT_URL_STS", "http://sts:2/", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.service, "http://sts:2");
    setenv ("AWS_ENDPOINT_URL_STS", "sts", 1);
    assert_int_equal (s_find (self), -EINVAL);
    assert_non_null (strstr (self->error, "AWS_ENDPOINT_URL_STS"));
    setenv ("AWS_ACCESS_KEY_ID", "mine", 1);
    setenv ("AWS_SECRET_ACCESS_KEY", "secret", 1);
    assert_int_equal (s_find (self), 0);
    assert_int_equal (self->account.source, ACCOUNT_ENVIRONMENT);
}

//  Guards: the same from a profile, of which the environment's settings count first.
static void
test_a_web_identity_of_a_profile (void **state)
{
    world_t *self = *state;
    s_write (self->config, "[profile team]\nrole_arn = arn:role\nweb_identity_token_file = /a\n"
        "role_session_name = name\n");
    setenv ("AWS_PROFILE", "team", 1);
    assert_int_equal (s_find (self), 0);
    assert_int_equal (self->account.source, ACCOUNT_WEB_IDENTITY);
    assert_string_equal (self->account.role, "arn:role");
    assert_string_equal (self->account.session, "name");
    assert_string_equal (self->account.token_file, "/a");
    setenv ("AWS_WEB_IDENTITY_TOKEN_FILE", "/b", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.token_file, "/b");
    assert_string_equal (self->account.role, "arn:role");
}

//  Guards: ways that are not gone are named with a remedy, where AWS's tools would go them, and not
//  elsewhere.
static void
test_other_ways (void **state)
{
    world_t *self = *state;
    static const struct { const char *text, *word; } ways [] = {
        { "role_arn = r\nsource_profile = x\n", "source_profile" },
        { "role_arn = r\ncredential_source = Environment\n", "credential_source" },
        { "sso_session = x\n", "sso_session" },
        { "sso_start_url = https://x\n", "sso_session" } };
    setenv ("AWS_PROFILE", "team", 1);
    for (size_t index = 0; index < sizeof ways / sizeof *ways; index++) {
        char text [200];
        snprintf (text, sizeof text, "[profile team]\n%s", ways [index].text);
        s_write (self->config, text);
        assert_int_equal (s_find (self), -EINVAL);
        assert_non_null (strstr (self->error, ways [index].word));
        assert_non_null (strstr (self->error, "aws configure export-credentials --profile team"));
    }
    setenv ("AWS_NO_SIGN_REQUEST", "YES", 1);
    s_write (self->config, "[profile team]\nsso_session = x\n");
    assert_int_equal (s_find (self), 0);
    assert_int_equal (self->account.source, ACCOUNT_UNSIGNED);
}

//  Guards: a program comes behind keys in the credentials file, and before those in the config file.
static void
test_a_program (void **state)
{
    world_t *self = *state;
    setenv ("AWS_PROFILE", "team", 1);
    s_write (self->config, "[profile team]\naws_access_key_id = key\naws_secret_access_key = hidden\n"
        "credential_process = \"/opt/my keys\" --for 'a = b'\n");
    assert_int_equal (s_find (self), 0);
    assert_int_equal (self->account.source, ACCOUNT_PROGRAM);
    assert_string_equal (self->account.program, "\"/opt/my keys\" --for 'a = b'");
    assert_string_equal (self->account.profile, "team");
    assert_null (self->account.key);
    s_write (self->credentials, "[team]\naws_access_key_id = key\naws_secret_access_key = hidden\n");
    assert_int_equal (s_find (self), 0);
    assert_int_equal (self->account.source, ACCOUNT_PROFILE);
}

//  Guards: from where a container's keys may come.
static void
test_a_container (void **state)
{
    world_t *self = *state;
    static const struct { const char *url; bool is_good; } urls [] = {
        { "https://keys.example/x?y", true }, { "http://127.0.0.1:80/x", true }, 
        { "http://127.8.8.8/", true },
        { "http://localhost:1234/x", true }, { "http://[::1]/x", true }, { "http://169.254.170.2/x", true },
        { "http://169.254.170.23/v1/credentials", true }, { "http://[fd00:ec2::23]/v1", true },
        { "http://169.254.170.3/x", false }, { "http://keys.example/x", false }, 
        { "ftp://localhost/", false },
        { "http://localhost@keys.example/", false }, { "http://keys.example/?@localhost", false },
        { "http://localhost.example/", false }, 
        { "https://me:pw@keys.example/", false }, { "nonsense", false } };
    for (size_t index = 0; index < sizeof urls / sizeof *urls; index++) {
        setenv ("AWS_CONTAINER_CREDENTIALS_FULL_URI", urls [index].url, 1);
        int rc = s_find (self);
        if (rc != (urls [index].is_good? 0: -EINVAL))
            fail_msg ("'%s': %d, %s", urls [index].url, rc, self->error);
        if (rc == 0)
            assert_string_equal (self->account.service, urls [index].url);
        else
            assert_non_null (strstr (self->error, "AWS_CONTAINER_CREDENTIALS_FULL_URI"));
        assert_null (strstr (self->error, "pw"));
    }
    setenv ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abc", 1);
    setenv ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/1", 1);
    assert_int_equal (s_find (self), 0);
    assert_int_equal (self->account.source, ACCOUNT_CONTAINER);
    assert_string_equal (self->account.service, "http://169.254.170.2/v2/credentials/1");
    assert_string_equal (self->account.authorization, "Basic abc");
    setenv ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.token_file, "/token");
    assert_null (self->account.authorization);
    setenv ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@other/x", 1);
    assert_int_equal (s_find (self), -EINVAL);
    assert_non_null (strstr (self->error, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"));
}

//  Guards: an instance comes last, and where it is.
static void
test_an_instance (void **state)
{
    world_t *self = *state;
    assert_int_equal (s_find (self), 0);
    assert_int_equal (self->account.source, ACCOUNT_INSTANCE);
    assert_string_equal (self->account.service, "http://169.254.169.254");
    assert_non_null (strstr (self->account.looked_at, self->credentials));
    setenv ("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.service, "http://[fd00:ec2::254]");
    setenv ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:99/", 1);
    assert_int_equal (s_find (self), 0);
    assert_string_equal (self->account.service, "http://127.0.0.1:99");
}

//  Guards: keys with characters that would end a header are refused where they come from.
static void
test_keys_that_cannot_be (void **state)
{
    world_t *self = *state;
    setenv ("AWS_ACCESS_KEY_ID", "key", 1);
    setenv ("AWS_SECRET_ACCESS_KEY", "very secret", 1);
    assert_int_equal (s_find (self), -EINVAL);
    assert_non_null (strstr (self->error, "the environment"));
    assert_null (strstr (self->error, "very"));
    setenv ("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv ("AWS_SESSION_TOKEN", "a\r\nx-more: b", 1);
    assert_int_equal (s_find (self), -EINVAL);
}

//  Guards: without any keys requests go unsigned only if that is wanted.
static void
test_no_keys (void **state)
{
    world_t *self = *state;
    setenv ("AWS_EC2_METADATA_DISABLED", "true", 1);
    assert_int_equal (s_find (self), -ENOKEY);
    static const char *const places [] = { "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI", "profile 'default'", "AWS_EC2_METADATA_DISABLED" };
    for (size_t index = 0; index < sizeof places / sizeof *places; index++)
        assert_non_null (strstr (self->error, places [index]));
    assert_non_null (strstr (self->error, "AWS_NO_SIGN_REQUEST=YES"));
    setenv ("AWS_NO_SIGN_REQUEST", "yes", 1);
    assert_int_equal (s_find (self), 0);
    assert_null (self->account.key);
    unsetenv ("AWS_NO_SIGN_REQUEST");
    s_write (self->credentials, "[default]\n");
    assert_int_equal (chmod (self->credentials, 0), 0);
    if (geteuid () != 0) {
        assert_int_equal (s_find (self), -EACCES);
        assert_non_null (strstr (self->error, self->credentials));
    }
}

//  Guards: where Amazon's buckets are, in China too.
static void
test_buckets (void **state)
{
    world_t *self = *state;
    static const struct { const char *region, *address, *url; } buckets [] = {
        { "eu-west-3", "s3://bucket/a", "https://bucket.s3.eu-west-3.amazonaws.com/a/x" },
        { "cn-north-1", "s3://bucket/a", "https://bucket.s3.cn-north-1.amazonaws.com.cn/a/x" },
        { "cn-north-1", "s3://my.bucket", "https://s3.cn-north-1.amazonaws.com.cn/my.bucket/x" },
    };
    setenv ("AWS_NO_SIGN_REQUEST", "YES", 1);
    for (size_t index = 0; index < sizeof buckets / sizeof *buckets; index++) {
        setenv ("AWS_REGION", buckets [index].region, 1);
        store_t *store;
        assert_int_equal (store_open (&store, buckets [index].address, self->error, sizeof self->error), 0);
        char *url = store_url (store, "x");
        assert_string_equal (url, buckets [index].url);
        free (url);
        store_destroy (&store);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_the_environment, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_region_and_endpoint, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_profiles, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_a_profile_is_read_again, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_a_web_identity, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_a_web_identity_of_a_profile, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_other_ways, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_a_program, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_a_container, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_an_instance, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_keys_that_cannot_be, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_no_keys, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_buckets, s_set_up, s_tear_down),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
