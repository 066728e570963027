//  What is kept for the next process: the last whole text, wherever this one was killed.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "additions.h"
#include "seed.h"

static long s_left = -1;                //  bytes that are written until the process is killed; below 0: all

ssize_t __real_pwrite (int descriptor, const void *bytes, size_t size, off_t at);
ssize_t __wrap_pwrite (int descriptor, const void *bytes, size_t size, off_t at);

ssize_t
__wrap_pwrite (int descriptor, const void *bytes, size_t size, off_t at)
{
    size_t done = s_left < 0 || (size_t) s_left >= size? size: at == 0? 0: (size_t) s_left;
    if (s_left >= 0)
        s_left -= s_left >= (long) size? (long) size: s_left;
    if (done > 0 && __real_pwrite (descriptor, bytes, done, at) != (ssize_t) done)
        return -1;
    return (ssize_t) size;              //  nothing that follows is written either
}

static void
s_assert_kept (int descriptor, const char *expected)
{
    char *text = additions_kept_read (descriptor);
    if (expected)
        assert_string_equal (text, expected);
    else
        assert_null (text);
    free (text);
}

//  Whatever is written of a new text, the old one holds until all is; the first one too, before which there
//  is nothing.
static void
test_killed_at_any_byte (void **state)
{
    (void) state;
    static const char *const texts [] = { "{\"added\": []}", "a longer one, which has no room in front", "x",
        "", "one more" };
    int descriptor = additions_kept_memory ();
    assert_true (descriptor >= 0);
    const char *before = NULL;
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++) {
        long whole = 16 + (long) strlen (texts [index]) + 8;
        for (long left = 0; left < whole; left++) {
            s_left = left;
            (void) additions_kept_write (descriptor, texts [index], strlen (texts [index]));
            s_left = -1;
            s_assert_kept (descriptor, before);
        }
        s_left = whole;
        assert_true (additions_kept_write (descriptor, texts [index], strlen (texts [index])));
        s_left = -1;
        s_assert_kept (descriptor, before = texts [index]);
    }
    close (descriptor);
}

//  Many texts take no more room than a few.
static void
test_room (void **state)
{
    (void) state;
    enum { BYTES = 1000 };
    uint64_t random = test_seed ();
    static char text [BYTES + 1];
    int descriptor = additions_kept_memory ();
    memset (text, 'a', BYTES);
    for (int round = 0; round < 1000; round++) {
        size_t bytes = test_below (&random, BYTES);
        assert_true (additions_kept_write (descriptor, text, bytes));
        char *kept = additions_kept_read (descriptor);
        assert_non_null (kept);
        assert_int_equal (strlen (kept), bytes);
        free (kept);
    }
    struct stat status;
    assert_int_equal (fstat (descriptor, &status), 0);
    assert_true (status.st_size <= 4 * (BYTES + 32));
    close (descriptor);
}

//  What is damaged, or no such file, is nothing.
static void
test_damage (void **state)
{
    (void) state;
    int descriptor = additions_kept_memory ();
    s_assert_kept (descriptor, NULL);
    assert_true (additions_kept_write (descriptor, "a text", 6));
    for (off_t at = 0; at < 30; at++) {
        uint8_t byte, other;
        assert_int_equal (pread (descriptor, &byte, 1, at), 1);
        other = byte ^ 0x40;
        assert_int_equal (__real_pwrite (descriptor, &other, 1, at), 1);
        s_assert_kept (descriptor, NULL);
        assert_int_equal (__real_pwrite (descriptor, &byte, 1, at), 1);
    }
    s_assert_kept (descriptor, "a text");
    close (descriptor);
    s_assert_kept (descriptor, NULL);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_killed_at_any_byte), cmocka_unit_test (test_room),
        cmocka_unit_test (test_damage)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
