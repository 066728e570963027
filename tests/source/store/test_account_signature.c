//  Signatures beside the example in Amazon's documentation, and what cannot be signed.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include "account.h"

//  24 May 2013, 0:00 UTC.
static const char REGION [] = "us-east-1";
enum { EXAMPLE_TIME = 1369353600 };

static account_key_t
s_key (void)
{
    return (account_key_t) { .name = (char *) "AKIAIOSFODNN7EXAMPLE",
        .secret = (char *) "AWS4wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" };
}

//  Guards: the signature is the one that S3 expects ("Signature calculations for the Authorization header",
//  example of a GET with a range).
static void
test_the_documented_example (void **state)
{
    (void) state;
    account_key_t key = s_key ();
    account_request_t request = { .method = "GET", .url = "https://examplebucket.s3.amazonaws.com/test.txt",
        .range = "bytes=0-9", .payload = ACCOUNT_PAYLOAD_EMPTY, .time = EXAMPLE_TIME };
    char date [ACCOUNT_DATE_BYTES], authorization [ACCOUNT_SIGNATURE_BYTES];
    assert_true (account_key_sign (&key, REGION, &request, date, authorization));
    assert_string_equal (date, "20130524T000000Z");
    assert_string_equal (authorization, "AWS4-HMAC-SHA256 "
        "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

//  Guards: with a query (the documentation's example of a list), which stands in a line of its own.
static void
test_a_query (void **state)
{
    (void) state;
    account_key_t key = s_key ();
    account_request_t request = { .method = "GET",
        .url = "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J",
        .payload = ACCOUNT_PAYLOAD_EMPTY,
        .time = EXAMPLE_TIME };
    char date [ACCOUNT_DATE_BYTES], authorization [ACCOUNT_SIGNATURE_BYTES];
    assert_true (account_key_sign (&key, REGION, &request, date, authorization));
    assert_non_null (strstr (authorization,
        "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

//  Guards: what belongs to the request changes the signature, a token is named in it, and an URL without a
//  path is that of the root.
static void
test_everything_is_signed (void **state)
{
    (void) state;
    account_key_t key = s_key (), with_token = s_key ();
    with_token.token = (char *) "token";
    const account_request_t first = { .method = "GET", .url = "http://host:9000/bucket/a", .payload =
        ACCOUNT_PAYLOAD_EMPTY, .time = EXAMPLE_TIME };
    account_request_t others [5] = { first, first, first, first, first };
    others [0].url = "http://host:9001/bucket/a";
    others [1].url = "http://host:9000/bucket/b";
    others [2].range = "bytes=0-1";
    others [3].time++;
    others [4].payload = "UNSIGNED-PAYLOAD";
    char date [ACCOUNT_DATE_BYTES], expected [ACCOUNT_SIGNATURE_BYTES], got [ACCOUNT_SIGNATURE_BYTES];
    assert_true (account_key_sign (&key, REGION, &first, date, expected));
    for (size_t index = 0; index < 5; index++) {
        assert_true (account_key_sign (&key, REGION, &others [index], date, got));
        assert_string_not_equal (strstr (got, "Signature="), strstr (expected, "Signature="));
    }
    assert_true (account_key_sign (&with_token, REGION, &first, date, got));
    assert_non_null (strstr (got, "x-amz-date;x-amz-security-token,"));
    assert_string_not_equal (strstr (got, "Signature="), strstr (expected, "Signature="));
    account_request_t bare = first, root = first;
    bare.url = "http://host:9000";
    root.url = "http://host:9000/";
    assert_true (account_key_sign (&key, REGION, &bare, date, expected));
    assert_true (account_key_sign (&key, REGION, &root, date, got));
    assert_string_equal (got, expected);
}

//  Guards: what does not fit is refused, and is not signed in part.
static void
test_too_long (void **state)
{
    (void) state;
    account_key_t key = s_key ();
    account_request_t request = { .method = "GET", .url = "http://host/a", .payload = ACCOUNT_PAYLOAD_EMPTY,
        .time = EXAMPLE_TIME };
    char date [ACCOUNT_DATE_BYTES], authorization [ACCOUNT_SIGNATURE_BYTES], name [600];
    memset (name, 'k', sizeof name - 1);
    name [sizeof name - 1] = 0;
    key.name = name;
    assert_false (account_key_sign (&key, REGION, &request, date, authorization));
    key = s_key ();
    assert_false (account_key_sign (&key, name, &request, date, authorization));
    size_t bytes = 64 * 1024;
    char *token = malloc (bytes);
    assert_non_null (token);
    memset (token, 't', bytes - 1);
    token [bytes - 1] = 0;
    key = s_key ();
    key.token = token;
    assert_false (account_key_sign (&key, REGION, &request, date, authorization));
    free (token);
}

int
main (void)
{
    if (sodium_init () < 0)
        return 1;
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_the_documented_example),
        cmocka_unit_test (test_a_query),
        cmocka_unit_test (test_everything_is_signed),
        cmocka_unit_test (test_too_long),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
