/*  Guards: what etcd says of a failure is shown to people whatever bytes it has; a user's name and password
 *  are put so that etcd reads them as they are; a token that no header could have is none.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "members.h"

static void
test_errors (void **state)
{
    (void) state;
    static const struct { const char *text, *words; } errors [] = {
        { "{\"error\":\"etcdserver: full\",\"message\":\"other\",\"code\":8}", "etcdserver: full" },
        { "{\"message\":\"etcdserver: mvcc\"}", "etcdserver: mvcc" },
        { "{\"error\":\"a\\nb\\u001b[1m\\u00e9\"}", "a?b?[1m\xc3\xa9" },
        { "{\"error\":\"0123456789012345678901234567890123456789\"}", "0123456789012345678" },
        { "{\"error\":7}", "" }, { "{\"error\":\"\"}", "" }, { "[\"error\"]", "" }, { "<html>", "" },
        { "", "" }
    };
    for (size_t at = 0; at < sizeof errors / sizeof *errors; at++) {
        char words [20] = "?";
        assert_int_equal (members_answer_error (errors [at].text, strlen (errors [at].text), words,
            sizeof words), *errors [at].words != 0);
        assert_string_equal (words, errors [at].words);
    }
}

static void
test_login (void **state)
{
    (void) state;
    char room [64];
    const char *user = "a\"b\\", *password = "\xc3\xa9 \"}";
    assert_true (members_answer_login (user, password, room, sizeof room));
    json_t *question = json_loads (room, 0, NULL);
    assert_string_equal (json_string_value (json_object_get (question, "name")), user);
    assert_string_equal (json_string_value (json_object_get (question, "password")), password);
    json_decref (question);
    //  {"name":"a","password":"b"} has 27 bytes.
    assert_true (members_answer_login ("a", "b", room, 28));
    assert_int_equal (strlen (room), 27);
    assert_false (members_answer_login ("a", "b", room, 27));
    assert_string_equal (room, "");
    assert_false (members_answer_login ("\xff", "b", room, sizeof room));
}

static void
test_tokens (void **state)
{
    (void) state;
    static const struct { const char *text, *token; } answers [] = {
        { "{\"header\":{},\"token\":\"XYZ.12\"}", "XYZ.12" }, { "{\"token\":\"1234567\"}", "1234567" },
        { "{\"token\":\"12345678\"}", "" }, { "{\"token\":\"a\\r\\nb\"}", "" }, { "{\"token\":\"a b\"}", "" },
        { "{\"token\":\"\"}", "" }, { "{\"token\":7}", "" }, { "{}", "" }, { "[]", "" }, { "", "" }
    };
    for (size_t at = 0; at < sizeof answers / sizeof *answers; at++) {
        char token [8] = "?";
        assert_int_equal (members_answer_token (answers [at].text, strlen (answers [at].text), token,
            sizeof token), *answers [at].token != 0);
        assert_string_equal (token, answers [at].token);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_errors),
        cmocka_unit_test (test_login),
        cmocka_unit_test (test_tokens)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
