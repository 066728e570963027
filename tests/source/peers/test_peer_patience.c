//  How long a question to another member may take: what answers and reads of the store teach, and its bounds.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "peer_patience.h"

enum { MS = 1000000 };

static peer_patience_t
s_after (uint64_t answer_ms, uint64_t store_ms)
{
    peer_patience_t patience = peer_patience_new ();
    for (int answer = 0; answer < 500; answer++) {
        peer_patience_learn (&patience, answer_ms * MS);
        if (store_ms)
            peer_patience_learn_store (&patience, store_ms * MS);
    }
    return patience;
}

static void
s_expect (peer_patience_t patience, uint64_t milliseconds)
{
    uint64_t percent = milliseconds * MS / 100;
    assert_in_range (peer_patience_ns (&patience), 99 * percent, 101 * percent);
}

//  Guards: eight times as long as answers take, or four times as long as a read of the store, half a second
//  at least and ten seconds at most; two seconds before the first answer.
static void
test_patience_by_answers (void **state)
{
    (void) state;
    s_expect (peer_patience_new (), 2000);
    s_expect (s_after (100, 0), 800);
    s_expect (s_after (100, 150), 800);
    s_expect (s_after (100, 900), 3600);
    s_expect (s_after (1, 1), 500);
    s_expect (s_after (5000, 0), 10000);
    s_expect (s_after (100, 60000), 10000);
    //  The first read of the store counts at once, and later ones change what it was.
    peer_patience_t patience = peer_patience_new ();
    peer_patience_learn_store (&patience, UINT64_C (900) * MS);
    s_expect (patience, 3600);
    for (int answer = 0; answer < 500; answer++)
        peer_patience_learn_store (&patience, UINT64_C (1500) * MS);
    s_expect (patience, 6000);
}

//  Guards: each question that is given up makes patience longer, to its bound; however many these are, some
//  answers bring it back.
static void
test_questions_that_are_given_up (void **state)
{
    (void) state;
    peer_patience_t patience = s_after (100, 0);
    uint64_t before = peer_patience_ns (&patience);
    peer_patience_grow (&patience);
    assert_in_range (peer_patience_ns (&patience), before * 21 / 20, before * 11 / 10);
    for (int question = 0; question < 2000; question++)
        peer_patience_grow (&patience);
    s_expect (patience, 10000);
    for (int answer = 0; answer < 100; answer++)
        peer_patience_learn (&patience, 100 * MS);
    assert_true (peer_patience_ns (&patience) < UINT64_C (1000) * MS);
    //  However quick answers were, the first one that is given up counts.
    patience = s_after (1, 0);
    peer_patience_grow (&patience);
    s_expect (patience, 531);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_patience_by_answers), cmocka_unit_test (test_questions_that_are_given_up)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
