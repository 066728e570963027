/*  Guards: a list of members that is given is taken as it says, whatever its order, and each fault in one has
 *  its sentence; a list that changes is another list, and the same one is not; lists that are in use stay.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "members.h"

enum { OWN_BYTES = 1 << 20, READERS = 3, CHANGES = 2000 };

static members_t *
s_open (const char *text, const char *own)
{
    char error [512];
    members_t *self;
    int rc = members_open (&self, text, own, OWN_BYTES, error, sizeof error);
    if (rc)
        print_error ("%s\n", error);
    assert_int_equal (rc, 0);
    return self;
}

static void
test_given (void **state)
{
    (void) state;
    members_t *self = s_open ("node2:7600=2G,[fe80::1]:7,10.0.0.1:65535=5,node1:7600", "node1:7600");
    const member_list_t *list = members_take (self);
    const char *names [] = { "10.0.0.1:65535", "[fe80::1]:7", "node1:7600", "node2:7600" };
    uint64_t bytes [] = { 5, OWN_BYTES, OWN_BYTES, UINT64_C (2) << 30 };
    assert_int_equal (list->count, 4);
    assert_int_equal (list->own, 2);
    for (size_t at = 0; at < 4; at++) {
        assert_string_equal (list->member [at].name, names [at]);
        assert_int_equal (list->member [at].bytes, bytes [at]);
    }
    members_look_t look;
    members_look (self, &look);
    assert_string_equal (look.source, "4 members given");
    assert_string_equal (look.trouble, "");
    assert_true (look.is_registered);
    members_give_back (self, list);
    members_close (&self);
    self = s_open ("node1:7600", "node1:7600");
    members_look (self, &look);
    assert_string_equal (look.source, "1 member given");
    members_close (&self);
}

//  Other servers must find the same homes: an id depends on the name alone, for ever.
static void
test_ids (void **state)
{
    (void) state;
    member_t member;
    members_set_member (&member, "node1:7600", strlen ("node1:7600"), 1);
    assert_true (member.id == UINT64_C (0x3f102f2a18227f16));
}

static void
test_faults (void **state)
{
    (void) state;
    static const struct { const char *text, *own, *words; int rc; } faults [] = {
        { "a:1", "b:1", "'b:1', is not among the members", -ENOENT },
        { "a:1,b:2,a:1", "a:1", "'a:1' is given twice", -EEXIST },
        { "", "a:1", "'' is no member", -EINVAL },
        { "a:1,", "a:1", "'' is no member", -EINVAL },
        { ",a:1", "a:1", "'' is no member", -EINVAL },
        { "a", "a:1", "'a' is no member", -EINVAL },
        { "a:", "a:1", "'a:' is no member", -EINVAL },
        { ":1", "a:1", "':1' is no member", -EINVAL },
        { "a:0", "a:1", "'a:0' is no member", -EINVAL },
        { "a:65536", "a:1", "'a:65536' is no member", -EINVAL },
        { "a:000001", "a:1", "'a:000001' is no member", -EINVAL },
        { "a:1x", "a:1", "'a:1x' is no member", -EINVAL },
        { "a b:1", "a:1", "'a b:1' is no member", -EINVAL },
        { "tcp://a:1", "a:1", "'tcp://a:1' is no member", -EINVAL },
        { "fe80::1:7", "a:1", "'fe80::1:7' is no member", -EINVAL },
        { "a:1=", "a:1", "'' is no size", -EINVAL },
        { "a:1=0", "a:1", "'0' is no size", -EINVAL },
        { "a:1=2Q", "a:1", "'2Q' is no size", -EINVAL },
        { "a:1", "a", "'a' is not HOST:PORT", -EINVAL },
        { "a:1", "", "'' is not HOST:PORT", -EINVAL },
        { "etcd://a:1", "a:1", "has no prefix", -EINVAL },
        { "etcd://a:1/", "a:1", "has no prefix", -EINVAL },
        { "etcd://a:1///", "a:1", "has no prefix", -EINVAL },
        { "etcd:///p", "a:1", "names no etcd", -EINVAL },
        { "etcd://a:1,,b:1/p", "a:1", "'' is no address of etcd: give up to 9", -EINVAL },
        { "etcds://a:1,b/p", "a:1", "as in etcds://HOST:2379", -EINVAL },
        { "etcd://a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9,a:10/p", "a:1",
            "'a:10' is no address of etcd: give up to 9 as in etcd://HOST", -EINVAL }
    };
    for (size_t at = 0; at < sizeof faults / sizeof *faults; at++) {
        char error [512] = "?";
        members_t *self = NULL;
        assert_int_equal (members_open (&self, faults [at].text, faults [at].own, OWN_BYTES, error,
            sizeof error), faults [at].rc);
        assert_null (self);
        if (!strstr (error, faults [at].words))
            fail_msg ("'%s': %s", faults [at].text, error);
    }
}

static void
test_too_many (void **state)
{
    (void) state;
    char *text = calloc (MEMBERS_MAX + 1, 16), error [512];
    char *end = text;
    for (int at = 1; at <= MEMBERS_MAX; at++)
        end += sprintf (end, "%sa:%d", at > 1? ",": "", at);
    members_t *self = s_open (text, "a:1");
    members_close (&self);
    strcpy (end, ",b:1");
    assert_int_equal (members_open (&self, text, "a:1", OWN_BYTES, error, sizeof error), -E2BIG);
    assert_non_null (strstr (error, "1025 members are too many"));
    free (text);
}

static void
test_changes (void **state)
{
    (void) state;
    members_t *self = s_open ("a:1", "a:1");
    member_t all [2];
    members_set_member (&all [0], "c:1", 3, 7);
    members_set_member (&all [1], "b:1", 3, 8);
    const member_list_t *first = members_take (self);
    uint64_t number = members_number (self);
    assert_true (members_set (self, all, 2));
    assert_true (members_number (self) > number);
    const member_list_t *second = members_take (self);
    assert_int_equal (second->count, 3);        //  this server is always in it
    assert_string_equal (second->member [0].name, "a:1");
    assert_string_equal (second->member [2].name, "c:1");
    assert_int_equal (second->own, 0);
    assert_true (second->member [0].since_ms == first->member [0].since_ms);
    number = members_number (self);
    all [0].since_ms += 1000;
    assert_true (members_set (self, all, 2));
    assert_int_equal (members_number (self), number);
    all [0].bytes++;
    assert_true (members_set (self, all, 2));
    assert_true (members_number (self) > number);
    assert_int_equal (first->count, 1);
    members_give_back (self, first);
    members_give_back (self, second);
    members_close (&self);
}

static void *
s_read (void *context)
{
    members_t *self = context;
    for (int at = 0; at < CHANGES; at++) {
        const member_list_t *list = members_take (self);
        if (list->own != 0 || list->count < 1 || list->member [list->count - 1].bytes == 0)
            abort ();
        members_give_back (self, list);
    }
    return NULL;
}

static void
test_readers_meet_a_list_that_is_whole (void **state)
{
    (void) state;
    members_t *self = s_open ("a:1", "a:1");
    pthread_t readers [READERS];
    for (int at = 0; at < READERS; at++)
        assert_int_equal (pthread_create (&readers [at], NULL, s_read, self), 0);
    for (int at = 0; at < CHANGES; at++) {
        member_t all [3];
        char name [16];
        for (int member = 0; member < at % 4; member++) {
            int length = snprintf (name, sizeof name, "b%d:1", member);
            members_set_member (&all [member], name, (size_t) length, (uint64_t) at + 1);
        }
        assert_true (members_set (self, all, (size_t) (at % 4)));
    }
    for (int at = 0; at < READERS; at++)
        pthread_join (readers [at], NULL);
    members_close (&self);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_given),
        cmocka_unit_test (test_ids),
        cmocka_unit_test (test_faults),
        cmocka_unit_test (test_too_many),
        cmocka_unit_test (test_changes),
        cmocka_unit_test (test_readers_meet_a_list_that_is_whole)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
