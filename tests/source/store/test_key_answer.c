//  Keys in the answers of STS, containers and instances: what is taken, and what is refused.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "key_source.h"

//  As in the documentation of AssumeRoleWithWebIdentity.
#define STS(credentials) "<AssumeRoleWithWebIdentityResponse " \
    "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n <AssumeRoleWithWebIdentityResult>\n" \
    "  <SubjectFromWebIdentityToken>amzn1</SubjectFromWebIdentityToken>\n  <Audience>client</Audience>\n" \
    "  <AssumedRoleUser>\n   <Arn>arn:aws:sts::1:assumed-role/reader/app1</Arn>\n" \
    "   <AssumedRoleId>ARO:app1</AssumedRoleId>\n  </AssumedRoleUser>\n  <Credentials>\n" credentials \
    "  </Credentials>\n </AssumeRoleWithWebIdentityResult>\n" \
    " <ResponseMetadata>\n  <RequestId>ad4156e9</RequestId>\n </ResponseMetadata>\n" \
    "</AssumeRoleWithWebIdentityResponse>\n"

static int
s_xml (const char *text, account_key_t **key_p, char code [KEY_SOURCE_CODE_BYTES])
{
    return key_source_parse_xml (text, strlen (text), key_p, code);
}

static int
s_json (const char *text, account_key_t **key_p, char code [KEY_SOURCE_CODE_BYTES])
{
    return key_source_parse_json (text, strlen (text), key_p, code);
}

//  Guards: the documented answer, with what XML escapes.
static void
test_sts (void **state)
{
    (void) state;
    account_key_t *key;
    char code [KEY_SOURCE_CODE_BYTES];
    assert_int_equal (s_xml (STS ("   <SessionToken>AQoDYXdz/+&#x3D;&amp;x</SessionToken>\n"
        "   <SecretAccessKey>wJalr/+=</SecretAccessKey>\n   <Expiration>2014-10-24T23:00:23Z</Expiration>\n"
        "   <AccessKeyId>ASgeIAIOSFODNN7EXAMPLE</AccessKeyId>\n"), &key, code), 0);
    assert_string_equal (key->name, "ASgeIAIOSFODNN7EXAMPLE");
    assert_string_equal (key->secret, "AWS4wJalr/+=");
    assert_string_equal (key->token, "AQoDYXdz/+=&x");
    assert_int_equal (key->ends_s, 1414191623);
    account_key_release (&key);
    assert_int_equal (s_xml ("<?xml version=\"1.0\"?><ErrorResponse><Error><Type>Sender</Type>"
        "<Code>InvalidIdentityToken</Code><Message>no</Message></Error></ErrorResponse>", &key, code),
        -EKEYREJECTED);
    assert_string_equal (code, "InvalidIdentityToken");
    assert_null (key);
}

//  Guards: what is no such answer gives no keys, and nothing of it reaches a header.
static void
test_sts_refused (void **state)
{
    (void) state;
    static const char *const texts [] = { "", "no", "<a/>", "<a>", STS (""),
        STS ("<SecretAccessKey>s</SecretAccessKey><Expiration>2014-10-24T23:00:23Z</Expiration>"),
        STS ("<AccessKeyId>k</AccessKeyId><SecretAccessKey>s</SecretAccessKey><Expiration>soon</Expiration>"),
        STS ("<AccessKeyId>k</AccessKeyId><AccessKeyId>k</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"),
        STS ("<AccessKeyId>k&#10;x: y</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"),
        STS ("<AccessKeyId>k/a</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"),
        "<!DOCTYPE a [<!ENTITY e \"k\">]>" STS ("<AccessKeyId>&e;</AccessKeyId>"
            "<SecretAccessKey>s</SecretAccessKey>") };
    account_key_t *key;
    char code [KEY_SOURCE_CODE_BYTES];
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++) {
        if (s_xml (texts [index], &key, code) != -EBADMSG)
            fail_msg ("text %zu", index);
        assert_null (key);
        assert_string_equal (code, "");
    }
    char deep [64 * 3 + 1] = "";
    for (size_t depth = 0; depth < 64; depth++)
        memcpy (deep + 3 * depth, "<a>", 4);
    assert_int_equal (s_xml (deep, &key, code), -EBADMSG);
}

//  Guards: a container's and an instance's answers, with and without an end, and their errors.
static void
test_json (void **state)
{
    (void) state;
    account_key_t *key;
    char code [KEY_SOURCE_CODE_BYTES];
    assert_int_equal (s_json ("{\"Code\": \"Success\", \"LastUpdated\": \"2012-04-26T16:39:16Z\", \"Type\": "
        "\"AWS-HMAC\", \"AccessKeyId\": \"ASIA\", \"SecretAccessKey\": \"wJ\\/x\", \"Token\": \"token\", "
        "\"Expiration\": \"2017-05-17T15:09:54.5Z\"}", &key, code), 0);
    assert_string_equal (key->name, "ASIA");
    assert_string_equal (key->secret, "AWS4wJ/x");
    assert_string_equal (key->token, "token");
    assert_int_equal (key->ends_s, 1495033794);
    account_key_release (&key);
    assert_int_equal (s_json ("{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"b\"}", &key, code), 0);
    assert_null (key->token);
    assert_int_equal (key->ends_s, 0);
    account_key_release (&key);
    assert_int_equal (s_json ("{\"Code\": \"AssumeRoleUnauthorizedAccess\", \"Message\": \"no\"}", &key,
        code), -EKEYREJECTED);
    assert_string_equal (code, "AssumeRoleUnauthorizedAccess");
    assert_int_equal (s_json ("{\"code\": \"Bad Code\\n\", \"message\": \"x\"}", &key, code), -EKEYREJECTED);
    assert_string_equal (code, "Bad");
}

static void
test_json_refused (void **state)
{
    (void) state;
    static const char *const texts [] = { "", "{", "[]", "7", "{}", "{\"AccessKeyId\": \"a\"}",
        "{\"AccessKeyId\": 7, \"SecretAccessKey\": \"b\"}", 
        "{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"\"}",
        "{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"b c\"}",
        "{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"b\", \"Token\": \"\\r\\nx: y\"}",
        "{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"b\", \"Expiration\": \"never\"}",
        "{\"AccessKeyId\": \"a\", \"AccessKeyId\": \"c\", \"SecretAccessKey\": \"b\"}" };
    account_key_t *key;
    char code [KEY_SOURCE_CODE_BYTES];
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++) {
        if (s_json (texts [index], &key, code) != -EBADMSG)
            fail_msg ("'%s'", texts [index]);
        assert_null (key);
    }
    size_t bytes = KEY_SOURCE_BYTES_MAX + 1;
    char *large = malloc (bytes);
    assert_non_null (large);
    memset (large, ' ', bytes);
    assert_int_equal (key_source_parse_json (large, bytes, &key, code), -EBADMSG);
    memset (large, 'x', bytes);
    int length = snprintf (large, 100, "{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"b\", \"Token\": \"");
    large [length] = 'x';
    memcpy (large + 30000, "\"}", 2);
    //  A token that no request takes.
    assert_int_equal (key_source_parse_json (large, 30002, &key, code), -EBADMSG);
    free (large);
}

static void
test_words (void **state)
{
    (void) state;
    char word [KEY_SOURCE_WORD_BYTES], long_one [KEY_SOURCE_WORD_BYTES + 1];
    assert_true (key_source_parse_word ("role\nother\n", 11, word));
    assert_string_equal (word, "role");
    assert_true (key_source_parse_word ("AQA/+==", 7, word));
    assert_string_equal (word, "AQA/+==");
    assert_false (key_source_parse_word ("", 0, word));
    assert_false (key_source_parse_word ("\nrole", 5, word));
    assert_false (key_source_parse_word ("a b", 3, word));
    assert_false (key_source_parse_word ("a\0b", 3, word));
    assert_string_equal (word, "");
    memset (long_one, 'a', sizeof long_one);
    assert_false (key_source_parse_word (long_one, sizeof long_one, word));
    assert_true (key_source_parse_word (long_one, KEY_SOURCE_WORD_BYTES - 1, word));
}

static void
test_times (void **state)
{
    (void) state;
    static const struct { const char *text; int64_t seconds; } good [] = { { "1970-01-01T00:00:00Z", 0 },
        { "2000-02-29T12:00:00Z", 951825600 }, { "2026-11-25T18:00:00.123456Z", 1795629600 },
        { "2026-11-25T18:00:00+01:00", 1795626000 }, { "2026-11-25T18:00:00-00:30", 1795631400 } };
    static const char *const bad [] = { "", "now", "2026-11-25", "2026-11-25T18:00:00",
        "2026-13-25T18:00:00Z",
        "2026-11-25T24:00:00Z", "2026-11-25T18:00:00ZZ", "2026-11-25T18:00:00+1", "26-11-25T18:00:00Z",
        "2026-11-25 18:00:00Z", "2026-11-25T18:00:00+01:00x", "2026-11-25T18:00:0" };
    int64_t seconds;
    for (size_t index = 0; index < sizeof good / sizeof *good; index++) {
        assert_true (key_source_parse_time (good [index].text, &seconds));
        assert_int_equal (seconds, good [index].seconds);
    }
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++)
        if (key_source_parse_time (bad [index], &seconds))
            fail_msg ("'%s'", bad [index]);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_sts),
        cmocka_unit_test (test_sts_refused),
        cmocka_unit_test (test_json),
        cmocka_unit_test (test_json_refused),
        cmocka_unit_test (test_words),
        cmocka_unit_test (test_times),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
