//  Stride scheduling beside a simple model of tasks in flight with wrong estimates.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "fairness.h"
#include "seed.h"

enum { USERS = 8, TASKS_MAX = 40, ROUNDS = 200, STEPS = 4000 };

typedef struct {
    uint64_t payers, estimate_ns, took_ns;
    uint32_t user;
} turn_t;

//  The model: what each was given, tasks that are not yet done at their estimate.
typedef struct {
    fairness_t *fairness;
    uint32_t users, weights [USERS];
    uint64_t longest_ns [USERS], longest_of_all_ns;
    turn_t turns [TASKS_MAX];
    size_t turn_count;
    bool waiting [USERS];
    double given [USERS];
    //  of what one was given more than another, over their weights, since both wait
    double least [USERS] [USERS], most [USERS] [USERS];
} model_t;

static double
s_ahead (const model_t *model, uint32_t one, uint32_t other)
{
    return model->given [one] / model->weights [one] - model->given [other] / model->weights [other];
}

static void
s_begin_pairs (model_t *model, uint32_t user)
{
    for (uint32_t other = 0; other < model->users; other++) {
        model->least [user] [other] = model->most [user] [other] = s_ahead (model, user, other);
        model->least [other] [user] = model->most [other] [user] = s_ahead (model, other, user);
    }
}

static void
s_wait (model_t *model, uint32_t user, bool waits)
{
    if (waits && !model->waiting [user])
        s_begin_pairs (model, user);
    model->waiting [user] = waits;
    if (waits)
        fairness_wait (model->fairness, user);
    else
        fairness_rest (model->fairness, user);
}

//  The promise of the header, for every two users that wait, over every stretch of time.
static void
s_check_pairs (model_t *model, uint64_t seed)
{
    fairness_check (model->fairness);
    for (uint32_t one = 0; one < model->users; one++)
        for (uint32_t other = 0; other < one; other++) {
            if (!model->waiting [one] || !model->waiting [other])
                continue;
            double ahead = s_ahead (model, one, other);
            model->least [one] [other] = fmin (model->least [one] [other], ahead);
            model->most [one] [other] = fmax (model->most [one] [other], ahead);
            double bound = 2.0 * TASKS_MAX * (double) model->longest_of_all_ns
                * (1.0 / model->weights [one] + 1.0 / model->weights [other]);
            if (model->most [one] [other] - model->least [one] [other] > bound + 1)
                fail_msg ("seed %" PRIu64 ": users %u and %u are %g apart, at most %g", seed, one, other,
                    model->most [one] [other] - model->least [one] [other], bound);
        }
}

static void
s_begin_turn (model_t *model, uint64_t *random)
{
    uint32_t user;
    if (model->turn_count == TASKS_MAX || !fairness_next (model->fairness, 0, &user))
        return;
    assert_true (model->waiting [user]);
    turn_t *turn = &model->turns [model->turn_count++];
    uint64_t thought_ns = model->longest_ns [user] >> (user & 1? 5: 0);         //  half of them seem cheaper
                                                                                //  than they are
    *turn = (turn_t) { .user = user, .estimate_ns = test_below (random, thought_ns + 1),
        .took_ns = 1 + test_below (random, model->longest_ns [user]) };
    turn->payers = fairness_serve (model->fairness, user, 0, 0, turn->estimate_ns);
    assert_true (turn->payers == UINT64_C (1) << user);
    model->given [user] += (double) turn->estimate_ns;
}

static void
s_end_turn (model_t *model, uint64_t *random)
{
    if (model->turn_count == 0)
        return;
    turn_t *turn = &model->turns [test_below (random, model->turn_count)];
    fairness_done (model->fairness, turn->payers, turn->estimate_ns, turn->took_ns);
    model->given [turn->user] += (double) turn->took_ns - (double) turn->estimate_ns;
    *turn = model->turns [--model->turn_count];
}

static void
s_make_model (model_t *model, uint64_t *random)
{
    memset (model, 0, sizeof *model);
    model->fairness = fairness_new (TASKS_MAX);
    assert_non_null (model->fairness);
    model->users = 2 + (uint32_t) test_below (random, USERS - 1);
    for (uint32_t user = 0; user < model->users; user++) {
        model->weights [user] = 1 + (uint32_t) test_below (random, test_below (random, 4)? 10: 1000);
        model->longest_ns [user] = 1 + test_below (random, test_below (random, 2)? 1000: 1000000);
        if (model->longest_ns [user] > model->longest_of_all_ns)
            model->longest_of_all_ns = model->longest_ns [user];
        assert_int_equal (fairness_add (model->fairness, model->weights [user]), user);
    }
}

//  Must hold: two users that wait get turns by weight, up to what is in flight, whatever other users do and
//  however wrong the estimates are.
static void
test_waiting_users_get_turns_by_weight (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + EFFORT (ROUNDS); seed < last; seed++) {
        uint64_t random = seed;
        model_t model;
        s_make_model (&model, &random);
        uint64_t changes = 2 + test_below (&random, 2000);          //  how rarely a user comes or goes
        for (int step = 0; step < STEPS; step++) {
            if (step == 0 || test_below (&random, changes) == 0)
                s_wait (&model, (uint32_t) test_below (&random, model.users), test_below (&random, 3) > 0);
            if (test_below (&random, 2))
                s_begin_turn (&model, &random);
            else
                s_end_turn (&model, &random);
            s_check_pairs (&model, seed);
        }
        while (model.turn_count)
            s_end_turn (&model, &random);
        for (uint32_t user = 0; user < model.users; user++)
            assert_true (fabs ((double) fairness_charged_ns (model.fairness, user) - model.given [user])
                <= 1);
        fairness_destroy (&model.fairness);
        assert_null (model.fairness);
    }
}

//  Turns of 100, done at once, as long as a user waits: how many each user has got.
static void
s_run (fairness_t *fairness, int turns, int *got)
{
    for (int turn = 0; turn < turns; turn++) {
        uint32_t user;
        assert_true (fairness_next (fairness, 0, &user));
        fairness_done (fairness, fairness_serve (fairness, user, 0, 0, 100), 100, 100);
        got [user]++;
        fairness_check (fairness);
    }
}

static fairness_t *
s_of_weights (const uint32_t *weights, size_t count)
{
    fairness_t *fairness = fairness_new (TASKS_MAX);
    for (size_t user = 0; user < count; user++)
        fairness_add (fairness, weights [user]);
    return fairness;
}

//  Must hold: a user that was idle has no credit; a user that has run alone has no debt.
static void
test_the_past_does_not_count (void **state)
{
    (void) state;
    fairness_t *fairness = s_of_weights ((const uint32_t []) { 1, 1 }, 2);
    int got [2] = { 0 };
    fairness_wait (fairness, 0);
    s_run (fairness, 10000, got);
    fairness_wait (fairness, 1);
    memset (got, 0, sizeof got);
    s_run (fairness, 100, got);
    assert_in_range (got [0], 49, 51);
    fairness_rest (fairness, 0);
    s_run (fairness, 5000, got);
    fairness_wait (fairness, 0);
    memset (got, 0, sizeof got);
    s_run (fairness, 100, got);
    assert_in_range (got [0], 49, 51);
    fairness_destroy (&fairness);
}

//  Must hold: a user that cannot take its turns earns nothing by them.
static void
test_a_user_passed_over_counts_as_idle (void **state)
{
    (void) state;
    fairness_t *fairness = s_of_weights ((const uint32_t []) { 1, 1 }, 2);
    fairness_wait (fairness, 0);
    fairness_wait (fairness, 1);
    for (int turn = 0; turn < 10000; turn++) {
        uint32_t user;
        assert_true (fairness_next (fairness, 1, &user));
        assert_int_equal (user, 1);
        fairness_done (fairness, fairness_serve (fairness, 1, 0, 1, 100), 100, 100);
        fairness_check (fairness);
    }
    int got [2] = { 0 };
    s_run (fairness, 100, got);
    assert_in_range (got [0], 49, 51);
    fairness_destroy (&fairness);
}

//  Must hold: what serves two is split; the two together get no more than their weights, and the lighter one
//  of them does not starve afterwards for what it was given in passing.
static void
test_shared_turns_are_split (void **state)
{
    (void) state;
    fairness_t *fairness = s_of_weights ((const uint32_t []) { 1, 10, 11 }, 3);
    for (uint32_t user = 0; user < 3; user++)
        fairness_wait (fairness, user);
    for (int turn = 0; turn < 20000; turn++) {
        uint32_t user;
        assert_true (fairness_next (fairness, 0, &user));
        uint64_t others = user == 2? 0: user == 1? 1: 2;
        uint64_t payers = fairness_serve (fairness, user, others, 0, 100);
        assert_true (turn > 0 || payers == 3);
        fairness_done (fairness, payers, 100, 100);
        fairness_check (fairness);
    }
    double whole = 20000 * 100, alone = (double) fairness_charged_ns (fairness, 2) / whole;
    if (fabs (alone - 0.5) > 0.01)
        fail_msg ("beside two that share, half of the weights got %.4f", alone);
    assert_true ((double) fairness_charged_ns (fairness, 0) > 20000 * 100 / 22 * 0.95);
    fairness_rest (fairness, 1);
    int got [3] = { 0 };
    s_run (fairness, 12 * (TASKS_MAX + 2), got);
    assert_true (got [0] > 0);
    fairness_destroy (&fairness);
}

//  How many turns of 100 ns another user has before this one, of that weight, which was charged for so much
//  and is forgiven what is more than 1000 ns.
static int
s_turns_before_a_debtor (uint64_t charged_ns, uint32_t weight)
{
    fairness_t *fairness = s_of_weights ((const uint32_t []) { weight, 1 }, 2);
    uint32_t user;
    int turns = -1;
    fairness_wait (fairness, 0);
    fairness_done (fairness, fairness_serve (fairness, 0, 0, 0, 0), 0, charged_ns);
    fairness_wait (fairness, 1);
    fairness_forgive (fairness, 0, 1000);
    do {
        assert_true (fairness_next (fairness, 0, &user));
        fairness_done (fairness, fairness_serve (fairness, user, 0, 0, 100), 100, 100);
        turns++;
    } while (user == 1);
    fairness_destroy (&fairness);
    return turns;
}

//  Must hold: a user that is forgiven owes the most that it may, for its weight; a smaller debt stays.
static void
test_a_debt_is_forgiven_down_to_the_most (void **state)
{
    (void) state;
    assert_int_equal (s_turns_before_a_debtor (1000000, 1), 10);
    assert_int_equal (s_turns_before_a_debtor (1000000, 2), 5);
    assert_int_equal (s_turns_before_a_debtor (400, 1), 4);
    assert_int_equal (s_turns_before_a_debtor (0, 1), 0);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_waiting_users_get_turns_by_weight),
        cmocka_unit_test (test_the_past_does_not_count),
        cmocka_unit_test (test_a_user_passed_over_counts_as_idle),
        cmocka_unit_test (test_shared_turns_are_split),
        cmocka_unit_test (test_a_debt_is_forgiven_down_to_the_most),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
