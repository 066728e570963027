//  Addresses of stores: which are meant, which are refused, and the URLs of objects.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "store.h"

#define LETTERS_63 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"
//  As long as the name of an old bucket may be.
#define LETTERS_255 LETTERS_63 "x" LETTERS_63 "x" LETTERS_63 "x" LETTERS_63

static const char BASE [] = "http://endpoint:9000/bucket";

static void
assert_url (const char *text, const char *name, const char *expected)
{
    store_address_t address;
    char error [400];
    assert_true (store_address_is_meant (text));
    assert_int_equal (store_address_parse (&address, text, error, sizeof error), 0);
    char *url = store_address_url (&address, BASE, name);
    assert_string_equal (url, expected);
    free (url);
    store_address_clear (&address);
}

//  Guards: S3's keys are encoded as signatures want it, a web address stays as it was written, and slashes at
//  its end do not count.
static void
test_urls (void **state)
{
    (void) state;
    assert_url ("s3://bucket", "index", "http://endpoint:9000/bucket/index");
    assert_url ("s3://bucket/", "index", "http://endpoint:9000/bucket/index");
    assert_url ("S3://bucket/a b/c+d=e~_.-//", "x", "http://endpoint:9000/bucket/a%20b/c%2Bd%3De~_.-/x");
    assert_url ("s3://bucket/100%/\xc3\xa4", "x", "http://endpoint:9000/bucket/100%25/%C3%A4/x");
    assert_url ("s3://" LETTERS_63 "x/y", "index", "http://endpoint:9000/bucket/y/index");
    assert_url ("s3://" LETTERS_255 "/y", "index", "http://endpoint:9000/bucket/y/index");
    assert_url ("http://host:80/a%20b", "x y", "http://host:80/a%20b/x%20y");
    assert_url ("HTTPS://host", "x", "HTTPS://host/x");
    assert_url ("https://host/a//b/", "x", "https://host/a//b/x");
    assert_url ("s3://bucket/a b/x.tar", NULL, "http://endpoint:9000/bucket/a%20b/x.tar");
    assert_url ("https://host/a%20b/x.tar", NULL, "https://host/a%20b/x.tar");
}

//  Guards: paths are no addresses, whatever they look like.
static void
test_paths_are_not_meant (void **state)
{
    (void) state;
    static const char *const paths [] = { "", "/data", "s3:/bucket", "s3", "./http://x", "gs://bucket/x",
        "ftp://x" };
    for (size_t index = 0; index < sizeof paths / sizeof *paths; index++)
        assert_false (store_address_is_meant (paths [index]));
}

static void
assert_refused (const char *text, const char *word)
{
    store_address_t address;
    char error [400];
    assert_int_equal (store_address_parse (&address, text, error, sizeof error), -EINVAL);
    assert_non_null (strstr (error, word));
    assert_null (strstr (error, "secret"));
}

//  Guards: each refusal has its remedy, and what may be a password is not repeated.
static void
test_refusals (void **state)
{
    (void) state;
    assert_refused ("s3://", "s3://BUCKET/PREFIX");
    assert_refused ("s3://ab/x", "a bucket's name has 3 to 63 characters");
    assert_refused ("s3://" LETTERS_255 "x/y", "3 to 63 characters (old ones up to 255)");
    assert_refused ("s3://my bucket/x", "which are letters, digits, '.', '-' and '_'");
    assert_refused ("s3://../x", "s3://BUCKET/PREFIX");
    assert_refused ("s3://user:secret@bucket/x", "s3://BUCKET/PREFIX");
    assert_refused ("http://", "http://HOST/PATH");
    assert_refused ("http:///path", "http://HOST/PATH");
    assert_refused ("https://user:secret@host/x", "user and password");
    assert_refused ("https://user:sec/secret@host/x", "user and password");
    assert_refused ("https://host/x?signature=secret", "leave out '?'");
    assert_refused ("https://host/x#secret", "leave out '?'");
    assert_refused ("https://host/x y", "spaces");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_urls),
        cmocka_unit_test (test_paths_are_not_meant),
        cmocka_unit_test (test_refusals),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
