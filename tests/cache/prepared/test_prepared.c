//  The prepared cache beside a simple model, and event by event.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "prepared.h"
#include "seed.h"

static uint64_t
s_random_below (void *random, uint64_t bound)
{
    return test_below (random, bound);
}

static prepared_t *
s_new (size_t budget_bytes, size_t limit_bytes, uint64_t *random)
{
    prepared_options_t options = { .budget_bytes = budget_bytes, .limit_bytes = limit_bytes,
        .random_below = s_random_below, .random = random };
    return prepared_new (&options);
}

//  Guards: the version with the lowest count goes first, whatever the order in which versions came.
static void
test_lowest_count_is_evicted_first (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    prepared_t *prepared = s_new (100, 30, &random);
    uint32_t counts [] = { 2, 1, 3 };
    for (uint32_t id = 0; id < 3; id++)
        prepared_unpin (prepared, prepared_insert (prepared, 0, 0, id, 0, 10, counts [id]));
    prepared_unpin (prepared, prepared_insert (prepared, 0, 0, 3, 0, 10, 2));
    assert_null (prepared_find (prepared, 0, 1));
    assert_non_null (prepared_find (prepared, 0, 3));
    prepared_unpin (prepared, prepared_insert (prepared, 0, 0, 4, 0, 10, 1));       //  itself the lowest
    assert_null (prepared_find (prepared, 0, 4));
    prepared_count (prepared, prepared_find (prepared, 0, 2), -1);
    prepared_count (prepared, prepared_find (prepared, 0, 2), -1);
    prepared_unpin (prepared, prepared_insert (prepared, 0, 0, 5, 0, 10, 2));
    assert_null (prepared_find (prepared, 0, 2));
    assert_int_equal (prepared_evictions (prepared), 3);
    prepared_check (prepared);
    prepared_destroy (&prepared);
}

//  Guards: among equal counts each is as likely to go.  Chi-square with 10 degrees of freedom over 11,000
//  trials; false alarms 1e-6 (bound 46.9).
static void
test_ties_are_broken_evenly (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    double gone [11] = { 0 }, sum = 0;
    for (int trial = 0; trial < 11000; trial++) {
        prepared_t *prepared = s_new (10, 10, &random);
        for (uint32_t id = 0; id < 11; id++)
            prepared_unpin (prepared, prepared_insert (prepared, 0, 0, id, 0, 1, 1));
        for (uint32_t id = 0; id < 11; id++)
            gone [id] += !prepared_find (prepared, 0, id);
        prepared_destroy (&prepared);
    }
    for (int id = 0; id < 11; id++)
        sum += (gone [id] - 1000) * (gone [id] - 1000) / 1000;
    assert_true (sum < 46.9);
}

//  Guards: what is evicted while pinned lives on until the last pin, its memory counted; P2, P3.
static void
test_a_pinned_version_outlives_its_eviction (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    prepared_t *prepared = s_new (20, 10, &random);
    version_t *first = prepared_insert (prepared, 0, 0, 1, 7, 10, 1);
    assert_true (prepared_reserve (prepared, first));
    memset (first->memory, 42, 10);
    version_t *second = prepared_insert (prepared, 0, 0, 2, 0, 10, 2);
    assert_null (prepared_find (prepared, 0, 1));
    assert_int_equal (first->memory [9], 42);
    assert_true (prepared_reserve (prepared, second));
    version_t *third = prepared_insert (prepared, 0, 0, 3, 0, 10, 3);
    assert_false (prepared_reserve (prepared, third));          //  the budget holds, pins or not
    assert_int_equal (prepared_memory_bytes (prepared), 20);
    prepared_unpin (prepared, first);
    assert_true (prepared_reserve (prepared, third));
    prepared_unpin (prepared, second);
    prepared_unpin (prepared, third);
    assert_int_equal (prepared_memory_bytes (prepared), 10);
    prepared_check (prepared);
    prepared_destroy (&prepared);
}

//  Guards: several versions of a sample are all found, other classes' and samples' are not.
static void
test_versions_of_one_sample_are_found (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    prepared_t *prepared = s_new (1000, 1000, &random);
    for (uint32_t draw = 0; draw < 5; draw++)
        for (uint32_t class = 0; class < 3; class++)
            prepared_unpin (prepared, prepared_insert (prepared, 0, class, 9, draw, 1, 0));
    unsigned draws = 0, found = 0;
    for (version_t *version = prepared_find (prepared, 1, 9); version;
        version = prepared_find_next (version)) {
        assert_int_equal (version->class, 1);
        draws |= 1u << version->draw;
        found++;
    }
    assert_int_equal (found, 5);
    assert_int_equal (draws, 31);
    prepared_destroy (&prepared);
}

//  ---- accounts

//  So many versions of one byte, of this count, on the account.
static void
s_fill (prepared_t *prepared, uint32_t account, uint32_t first_id, uint32_t versions, uint32_t count)
{
    for (uint32_t id = first_id; id < first_id + versions; id++)
        prepared_unpin (prepared, prepared_insert (prepared, account, 0, id, 0, 1, count));
}

//  Guards: what an account does not use others may, and it gets its part by weight as soon as it wants it,
//  whatever counts the others' versions have; P5.
static void
test_each_account_has_its_part_by_weight (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    prepared_t *prepared = s_new (120, 120, &random);
    prepared_account (prepared, 1, 2, SIZE_MAX);
    s_fill (prepared, 0, 0, 200, 9);
    assert_int_equal (prepared_account_bytes (prepared, 0), 120);
    s_fill (prepared, 1, 1000, 300, 0);
    assert_int_equal (prepared_account_bytes (prepared, 0), 40);
    assert_int_equal (prepared_account_bytes (prepared, 1), 80);
    s_fill (prepared, 2, 2000, 10, 0);                      //  less than its part: no other account takes it
    assert_int_equal (prepared_account_bytes (prepared, 2), 10);
    s_fill (prepared, 0, 3000, 1000, 9);
    s_fill (prepared, 1, 5000, 1000, 9);
    assert_int_equal (prepared_account_bytes (prepared, 2), 10);
    assert_in_range (prepared_account_bytes (prepared, 0), 36, 37);
    prepared_check (prepared);
    prepared_destroy (&prepared);
}

//  Guards: versions on no account go before those of any account, and what is put on another account is that
//  account's.
static void
test_versions_on_no_account_go_first (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    prepared_t *prepared = s_new (30, 30, &random);
    s_fill (prepared, 0, 0, 20, 0);
    s_fill (prepared, 1, 100, 10, 5);
    for (uint32_t id = 100; id < 110; id++)
        prepared_share (prepared, prepared_find (prepared, 0, id), 0, PREPARED_NOBODY);
    assert_int_equal (prepared_account_bytes (prepared, 1), 0);
    assert_int_equal (prepared_account_bytes (prepared, PREPARED_NOBODY), 10);
    prepared_share (prepared, prepared_find (prepared, 0, 100), 2, 1);
    s_fill (prepared, 0, 200, 9, 0);
    assert_int_equal (prepared_account_bytes (prepared, 0), 29);
    assert_int_equal (prepared_account_bytes (prepared, PREPARED_NOBODY), 0);
    assert_non_null (prepared_find (prepared, 0, 100));
    prepared_check (prepared);
    prepared_destroy (&prepared);
}

//  Guards: what is of use to others only goes before the rest, whatever the counts; and what must go that is
//  of use to an account with less goes over to it, as long as it has less.
static void
test_what_others_need_goes_over_to_them (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    prepared_t *prepared = s_new (60, 60, &random);
    s_fill (prepared, 0, 0, 20, 0);
    s_fill (prepared, 0, 100, 20, 9);
    for (uint32_t id = 100; id < 120; id++)
        prepared_share (prepared, prepared_find (prepared, 0, id), 0, 0);
    s_fill (prepared, 0, 200, 40, 1);
    for (uint32_t id = 0; id < 20; id++)
        assert_non_null (prepared_find (prepared, 0, id));
    assert_null (prepared_find (prepared, 0, 100));
    for (uint32_t id = 0; id < 20; id++)
        prepared_share (prepared, prepared_find (prepared, 0, id), 7, 0);
    prepared_account (prepared, 1, 1, 5);
    s_fill (prepared, 0, 300, 20, 1);
    assert_int_equal (prepared_account_bytes (prepared, 1), 5);
    assert_int_equal (prepared_account_bytes (prepared, 2), 15);
    assert_int_equal (prepared_account_bytes (prepared, 0), 40);
    s_fill (prepared, 0, 400, 100, 1);
    for (uint32_t id = 0; id < 20; id++)
        assert_non_null (prepared_find (prepared, 0, id));
    s_fill (prepared, 3, 600, 100, 1);                      //  parts of 20; of 15 and 5 nothing is taken
    assert_int_equal (prepared_account_bytes (prepared, 1) + prepared_account_bytes (prepared, 2), 20);
    assert_int_equal (prepared_account_bytes (prepared, 3), 20);
    prepared_check (prepared);
    prepared_destroy (&prepared);
}

//  Guards: an account never has more than its own limit, though there be room, and what it has outside of the
//  index counts against it beside others, not in that limit.
static void
test_an_account_may_have_a_limit (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    prepared_t *prepared = s_new (100, 100, &random);
    prepared_account (prepared, 1, 1, 20);
    s_fill (prepared, 1, 0, 50, 1);
    assert_int_equal (prepared_account_bytes (prepared, 1), 20);
    assert_false (prepared_has_room (prepared, 1, 1));
    assert_true (prepared_has_room (prepared, 0, 80));
    assert_false (prepared_has_room (prepared, 0, 81));
    prepared_account (prepared, 1, 1, 10);
    assert_int_equal (prepared_account_bytes (prepared, 1), 10);
    assert_int_equal (prepared_evictions (prepared), 40);
    assert_int_equal (prepared_account_evictions (prepared, 1), 40);
    assert_int_equal (prepared_account_evictions (prepared, 0), 0);
    prepared_account (prepared, 1, 1, SIZE_MAX);
    prepared_account_outside (prepared, 1, 20);
    s_fill (prepared, 1, 200, 100, 1);
    s_fill (prepared, 0, 400, 100, 1);
    assert_in_range (prepared_account_bytes (prepared, 1), 39, 40);     //  and the 20 outside: as much as the
                                                                        //  other
    prepared_check (prepared);
    prepared_destroy (&prepared);
}

//  Guards: of accounts that have as much for their weight, each is as likely to lose.  Binomial with n =
//  4,000, p = 1/2: beyond 155 from the mean once in 10^6.
static void
test_ties_of_accounts_are_broken_evenly (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    int lost = 0;
    for (int trial = 0; trial < 4000; trial++) {
        prepared_t *prepared = s_new (10, 4, &random);
        s_fill (prepared, 0, 0, 2, 0);
        s_fill (prepared, 1, 10, 2, 0);
        prepared_limit (prepared, 3);
        lost += prepared_account_bytes (prepared, 0) == 1;
        prepared_destroy (&prepared);
    }
    assert_in_range (lost, 2000 - 155, 2000 + 155);
}

//  ---- property: beside an array of what should be there

enum { MODEL_MAX = 64, ACCOUNTS = 4, VERSION_BYTES = 10 };

typedef struct {
    version_t *version;
    uint32_t id, count, pins, account;
    uint64_t sharers;
    bool coming;                //  being entered: its version is not known yet
    bool indexed, reserved;
} model_version_t;

typedef struct {
    prepared_t *prepared;
    model_version_t versions [MODEL_MAX];
    size_t limit_bytes;
    uint32_t weights [ACCOUNTS];
    size_t bytes_max [ACCOUNTS], outside_bytes [ACCOUNTS];
    uint64_t removals;          //  not evicted
    uint64_t evictions [ACCOUNTS];
} model_t;

//  The last of the model's accounts stands for "no account".
static uint32_t
s_number (uint32_t account)
{
    return account == ACCOUNTS - 1? PREPARED_NOBODY: account;
}

static size_t
s_bytes (const model_t *model, uint32_t account)
{
    size_t bytes = 0;
    for (int index = 0; index < MODEL_MAX; index++)
        bytes += model->versions [index].indexed
            && model->versions [index].account == account? VERSION_BYTES: 0;
    return bytes;
}

static double
s_for_its_weight (const model_t *model, uint32_t account)
{
    return (double) (s_bytes (model, account) + model->outside_bytes [account]) / model->weights [account];
}

//  Whether something may be evicted from the account: it is above its limit, or all are, and none has more
//  for its weight.
static bool
s_is_due (const model_t *model, uint32_t account)
{
    size_t bytes = 0;
    bool is_on_no_account = account == ACCOUNTS - 1, most = true;
    for (uint32_t other = 0; other < ACCOUNTS; other++)
        bytes += s_bytes (model, other);
    for (uint32_t other = 0; other < ACCOUNTS - 1 && !is_on_no_account; other++)
        most = most && (s_bytes (model, other) == 0
            || s_for_its_weight (model, account) >= s_for_its_weight (model, other) - 1e-9);
    if (!is_on_no_account && s_bytes (model, account) > model->bytes_max [account])
        return true;
    return bytes > model->limit_bytes && (is_on_no_account || (most && s_bytes (model, ACCOUNTS - 1) == 0));
}

//  Whether another account has use for it, room, and less, though it had it too.
static bool
s_has_heir (const model_t *model, const model_version_t *version)
{
    for (uint32_t other = 0; other < ACCOUNTS - 1; other++) {
        double has = s_for_its_weight (model, other) + (double) VERSION_BYTES / model->weights [other];
        if (other != version->account && version->sharers >> other & 1
        &&  s_bytes (model, other) + VERSION_BYTES <= model->bytes_max [other]
        &&  has < s_for_its_weight (model, version->account) - 1e-9)
            return true;
    }
    return false;
}

static bool
s_is_of_use (const model_version_t *version)
{
    return version->account == ACCOUNTS - 1 || version->sharers >> version->account & 1;
}

//  Some may have gone over to others' accounts, which have use for them.
static void
s_follow_heirs (model_t *model)
{
    for (int index = 0; index < MODEL_MAX; index++) {
        model_version_t *own = &model->versions [index];
        if (!own->version || !own->indexed || own->version->account == s_number (own->account))
            continue;
        assert_true (own->sharers >> own->version->account & 1);
        own->account = own->version->account;
    }
}

//  The version that leaves must be, in this order: on the account that must lose one; one that the account
//  has no use for, if there is such; among these, one of the lowest count.  It leaves only if no other
//  account takes it.
static void
s_left (void *context, version_t *version, bool evicted)
{
    model_t *model = context;
    model_version_t *leaver = NULL;
    s_follow_heirs (model);
    assert_false (version->indexed);
    version->ticket++;                                      //  the caller's own field: how often it has left
    for (int index = 0; index < MODEL_MAX; index++)
        if (model->versions [index].version == version || (!leaver && model->versions [index].coming))
            leaver = &model->versions [index];
    assert_non_null (leaver);
    assert_true (leaver->indexed);
    for (int index = 0; index < MODEL_MAX && evicted; index++) {
        const model_version_t *other = &model->versions [index];
        if (!other->indexed || other->account != leaver->account)
            continue;
        assert_true (s_is_of_use (other) >= s_is_of_use (leaver));
        assert_false (other->count < leaver->count && s_is_of_use (other) == s_is_of_use (leaver));
    }
    assert_false (evicted && s_has_heir (model, leaver));
    assert_true (!evicted || s_is_due (model, leaver->account));
    model->removals += !evicted;
    model->evictions [leaver->account] += evicted;
    leaver->indexed = false;
}

static void
s_freed (void *context, const version_t *version)
{
    model_t *model = context;
    assert_int_equal (version->ticket, 1);
    for (int index = 0; index < MODEL_MAX; index++)
        if (model->versions [index].version == version) {
            assert_false (model->versions [index].pins > 0);
            model->versions [index].version = NULL;
            return;
        }
    fail_msg ("an unknown version was freed");
}

//  Nothing is there that should not be, nor the other way round, and nothing is above a limit.
static void
s_check (model_t *model)
{
    size_t bytes = 0;
    s_follow_heirs (model);
    for (int index = 0; index < MODEL_MAX; index++) {
        const model_version_t *own = &model->versions [index];
        if (own->version)
            assert_int_equal (own->version->indexed, own->indexed);
        if (own->version && own->indexed)
            assert_int_equal (own->version->sharers, own->sharers);
    }
    for (uint32_t account = 0; account < ACCOUNTS; account++) {
        size_t here = s_bytes (model, account);
        assert_int_equal (prepared_account_bytes (model->prepared, s_number (account)), here);
        assert_int_equal (prepared_account_evictions (model->prepared, s_number (account)),
            model->evictions [account]);
        assert_true (here <= model->bytes_max [account]);
        bytes += here;
    }
    assert_true (bytes <= model->limit_bytes);
    prepared_check (model->prepared);
}

static void
s_insert (model_t *model, model_version_t *own, uint64_t *random)
{
    *own = (model_version_t) {
        .id = (uint32_t) test_below (random, 6), .count = (uint32_t) test_below (random, 4), .pins = 1,
        .account = (uint32_t) test_below (random, ACCOUNTS), .coming = true, .indexed = true
    };
    own->sharers = own->account == ACCOUNTS - 1? 0: UINT64_C (1) << own->account;
    bool has_room = prepared_has_room (model->prepared, s_number (own->account), VERSION_BYTES);
    uint64_t evictions = prepared_evictions (model->prepared);
    own->version = prepared_insert (model->prepared, s_number (own->account), 0, own->id, 0, VERSION_BYTES,
        own->count);
    own->coming = false;
    assert_true (!has_room || prepared_evictions (model->prepared) == evictions);
}

static void
s_count (model_t *model, model_version_t *own, int change)
{
    prepared_count (model->prepared, own->version, change);
    own->count = change > 0? own->count + 1: own->count - 1;
}

static void
s_step_account (model_t *model, uint64_t *random)
{
    uint32_t account = (uint32_t) test_below (random, ACCOUNTS - 1);
    if (test_below (random, 3) == 0) {
        model->outside_bytes [account] = test_below (random, 2) * test_below (random, 60);
        prepared_account_outside (model->prepared, account, model->outside_bytes [account]);
        return;
    }
    model->weights [account] = 1 + (uint32_t) test_below (random, 4);
    model->bytes_max [account] = test_below (random, 2)? SIZE_MAX: test_below (random, 100);
    prepared_account (model->prepared, account, model->weights [account], model->bytes_max [account]);
}

static void
s_step_share (model_t *model, model_version_t *own, uint64_t *random)
{
    uint32_t account = (uint32_t) test_below (random, ACCOUNTS);
    if (!own->indexed
    ||  (account != own->account
    && !prepared_account_fits (model->prepared, s_number (account), VERSION_BYTES)))
        return;
    own->sharers = test_below (random, 1 << (ACCOUNTS - 1));
    own->account = account;
    prepared_share (model->prepared, own->version, own->sharers, s_number (account));
}

static void
s_random_step (model_t *model, uint64_t *random)
{
    model_version_t *own = &model->versions [test_below (random, MODEL_MAX)];
    if (!own->version) {
        s_insert (model, own, random);
        return;
    }
    switch (test_below (random, 8)) {
    case 0:
        prepared_pin (own->version);
        own->pins++;
        break;
    case 1:
        own->reserved |= prepared_reserve (model->prepared, own->version);
        break;
    case 2:
        if (own->indexed && own->count < 5)
            s_count (model, own, +1);
        break;
    case 3:
        if (own->indexed && own->count > 0)
            s_count (model, own, -1);
        break;
    case 4:
        s_step_share (model, own, random);
        break;
    default:
        if (own->pins > 0) {
            own->pins--;
            prepared_unpin (model->prepared, own->version);
        }
    }
}

static void
s_start (model_t *model, uint64_t *random)
{
    *model = (model_t) { .limit_bytes = 100 + 10 * test_below (random, 10) };
    model->prepared = s_new (200, model->limit_bytes, random);
    for (uint32_t account = 0; account < ACCOUNTS; account++) {
        model->weights [account] = 1;
        model->bytes_max [account] = SIZE_MAX;
    }
    prepared_on_leave (model->prepared, s_left, model);
    prepared_on_free (model->prepared, s_freed, model);
}

static void
s_stop (model_t *model)
{
    size_t memory = 0;
    for (int index = 0; index < MODEL_MAX; index++)
        memory += model->versions [index].version && model->versions [index].reserved? VERSION_BYTES: 0;
    assert_int_equal (memory, prepared_memory_bytes (model->prepared));
    assert_int_equal (model->removals, 0);
    for (int index = 0; index < MODEL_MAX; index++)
        while (model->versions [index].version && model->versions [index].pins > 0) {
            model->versions [index].pins--;
            prepared_unpin (model->prepared, model->versions [index].version);
        }
    prepared_destroy (&model->prepared);
}

//  Property: whatever is entered, counted, charged and limited in whatever order, each eviction is one that
//  had to be, from the account that has most for its weight.  Replay: TEST_SEED.
static void
test_random_steps_keep_to_the_model (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + 50; seed < last; seed++) {
        uint64_t random = seed;
        model_t model;
        s_start (&model, &random);
        for (int step = 0; step < 2000; step++) {
            if (test_below (&random, 200) == 0) {
                model.limit_bytes = 10 * (1 + test_below (&random, 20));
                prepared_limit (model.prepared, model.limit_bytes);
            }
            else
            if (test_below (&random, 100) == 0)
                s_step_account (&model, &random);
            else
                s_random_step (&model, &random);
            s_check (&model);
        }
        s_stop (&model);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_lowest_count_is_evicted_first),
        cmocka_unit_test (test_ties_are_broken_evenly),
        cmocka_unit_test (test_a_pinned_version_outlives_its_eviction),
        cmocka_unit_test (test_versions_of_one_sample_are_found),
        cmocka_unit_test (test_each_account_has_its_part_by_weight),
        cmocka_unit_test (test_versions_on_no_account_go_first),
        cmocka_unit_test (test_what_others_need_goes_over_to_them),
        cmocka_unit_test (test_an_account_may_have_a_limit),
        cmocka_unit_test (test_ties_of_accounts_are_broken_evenly),
        cmocka_unit_test (test_random_steps_keep_to_the_model)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
