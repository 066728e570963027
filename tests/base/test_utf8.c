//  Foreign text made fit for people: nothing ends a line, moves a terminal or turns the writing's direction.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "utf8.h"

static void
test_what_is_unsafe (void **state)
{
    (void) state;
    static const struct { const char *text, *masked, *visible; } cases [] = {
        { "", "", "" }, { "cat 1.jpg", "cat 1.jpg", "cat 1.jpg" },
        { "K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x90\x88", "K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x90\x88",
            "K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x90\x88" },
        { "\x1b[2J\a\x7f", "?[2J??", "\\x1b[2J\\x07\\x7f" }, { "a\nb\tc\r", "a?b?c?", "a\\x0ab\\x09c\\x0d" },
        { "\xc2\x9b" "31m", "?31m", "\\xc2\\x9b31m" },
        { "\xe2\x80\xaegpj.tac", "?gpj.tac", "\\xe2\\x80\\xaegpj.tac" },
        { "a\xe2\x80\xa8z\xe2\x80\xa9", "a?z?", "a\\xe2\\x80\\xa8z\\xe2\\x80\\xa9" },
        { "\xe2\x81\xa6\xe2\x81\xa9\xe2\x80\x8f\xd8\x9c", "????",
            "\\xe2\\x81\\xa6\\xe2\\x81\\xa9\\xe2\\x80\\x8f\\xd8\\x9c" },
        { "\xff\xe2\x80", "???", "\\xff\\xe2\\x80" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        char text [100], visible [100];
        snprintf (text, sizeof text, "%s", cases [index].text);
        assert_string_equal (utf8_mask (text), cases [index].masked);
        assert_string_equal (utf8_visible (cases [index].text, strlen (cases [index].text), visible,
            sizeof visible), cases [index].visible);
    }
}

//  Of each character below U+3000, where all unsafe ones are.
static void
test_every_character (void **state)
{
    (void) state;
    for (uint32_t code = 1; code < 0x3000; code++) {
        char text [4] = "";
        size_t length = code < 0x80? 1: code < 0x800? 2: 3;
        text [0] = (char) (length == 1? code: length == 2? 0xc0 | code >> 6: 0xe0 | code >> 12);
        for (size_t index = 1; index < length; index++)
            text [index] = (char) (0x80 | (code >> 6 * (length - 1 - index) & 0x3f));
        bool is_unsafe = code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c
            || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e)
            || (code >= 0x2066 && code <= 0x2069);
        if (utf8_safe_sequence (text, length) != (is_unsafe? 0: length))
            fail_msg ("U+%04X", code);
    }
}

//  A text that fills the buffer but for the end's zero stays whole; one more is cut, and none is written
//  behind the buffer.
static void
test_the_buffer_is_enough (void **state)
{
    (void) state;
    char buffer [9] = "........";
    assert_string_equal (utf8_visible ("1234567", 7, buffer, 8), "1234567");
    assert_string_equal (utf8_visible ("12345678", 8, buffer, 8), "1234...");
    assert_string_equal (utf8_visible ("123456\n", 7, buffer, 8), "1234...");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_what_is_unsafe),
        cmocka_unit_test (test_every_character),
        cmocka_unit_test (test_the_buffer_is_enough)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
