/*  test_jpeg_row_index -- what is kept and lent, beside a simple model; that the budget holds; and that an
 *  entry lives as long as it is lent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <inttypes.h>
#include <cmocka.h>
#include "jpeg_row_index.h"
#include "seed.h"

enum { SAMPLES = 20, LENT_MAX = 8, BYTES_MAX = 200, ROUNDS = 20000 };

//  What is known of a sample; 0 bytes: nothing.
typedef struct {
    uint64_t checksum;
    uint8_t bytes [BYTES_MAX];
    size_t size;
} known_t;

typedef struct {
    jpeg_row_index_entry_t *entry;      //  NULL: none is lent
    known_t expected;
} lent_t;

static void
s_assert_is (const jpeg_row_index_entry_t *entry, const known_t *known)
{
    assert_int_equal (entry != NULL, known->size > 0);
    if (!entry)
        return;
    assert_int_equal (entry->checksum, known->checksum);
    assert_int_equal (entry->size, known->size);
    assert_memory_equal (entry->bytes, known->bytes, known->size);
}

static jpeg_row_index_entry_t *
s_entry (const known_t *known)
{
    jpeg_row_index_entry_t *entry = jpeg_row_index_entry (known->checksum, known->bytes, known->size);
    assert_non_null (entry);
    return entry;
}

static known_t
s_any (uint64_t *random)
{
    known_t known = { .checksum = test_below (random, 3), .size = 1 + test_below (random, BYTES_MAX) };
    for (size_t at = 0; at < known.size; at++)
        known.bytes [at] = (uint8_t) test_below (random, 256);
    return known;
}

//  Property: with room enough, the most that was kept of a file is lent, and stays what it is meanwhile.
static void
test_kept_and_lent (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    static known_t model [SAMPLES];
    static lent_t lent [LENT_MAX];
    jpeg_row_index_budget_t budget = { .bytes_max = 1 << 20 };
    jpeg_row_index_t *rows = jpeg_row_index_new (SAMPLES, &budget);
    assert_non_null (rows);
    uint32_t count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t id = (uint32_t) test_below (&random, SAMPLES);
        lent_t *one = &lent [test_below (&random, LENT_MAX)];
        if (one->entry) {
            s_assert_is (one->entry, &one->expected);
            jpeg_row_index_release (one->entry);
            *one = (lent_t) { .entry = NULL };
        }
        else
            *one = (lent_t) { jpeg_row_index_lend (rows, id), model [id] };
        known_t more = s_any (&random);
        jpeg_row_index_keep (rows, id, s_entry (&more));
        count += model [id].size == 0;
        if (more.checksum != model [id].checksum || more.size > model [id].size)
            model [id] = more;
        jpeg_row_index_entry_t *entry = jpeg_row_index_lend (rows, id);
        s_assert_is (entry, &model [id]);
        jpeg_row_index_release (entry);
        assert_int_equal (jpeg_row_index_samples (rows), count);
    }
    for (int index = 0; index < LENT_MAX; index++)
        jpeg_row_index_release (lent [index].entry);
    jpeg_row_index_destroy (&rows);
    assert_null (rows);
    assert_int_equal (budget.bytes, 0);
}

//  A table that was filled apart comes into the budget of all, as far as there is room.
static void
test_a_table_moves (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    jpeg_row_index_budget_t all = { .bytes_max = 4000 }, apart = all;
    jpeg_row_index_t *first = jpeg_row_index_new (SAMPLES, &all),
        *second = jpeg_row_index_new (SAMPLES, &apart);
    uint32_t before;
    for (uint32_t id = 0; id < SAMPLES; id++) {
        known_t known = s_any (&random);
        jpeg_row_index_keep (first, id, s_entry (&known));
        jpeg_row_index_keep (second, id, s_entry (&known));
    }
    size_t bytes = all.bytes;
    before = jpeg_row_index_samples (second);
    all.bytes_max = bytes + bytes / 2;
    jpeg_row_index_move (second, &all);
    assert_true (all.bytes > bytes && all.bytes <= all.bytes_max);
    assert_true (jpeg_row_index_samples (second) < before && jpeg_row_index_samples (second) > 0);
    assert_int_equal (apart.bytes, 0);
    jpeg_row_index_destroy (&first);
    jpeg_row_index_destroy (&second);
    assert_int_equal (all.bytes, 0);
    jpeg_row_index_move (NULL, &all);
}

//  Of two folders with one budget: never above it, and what is known stays when there is no more room.
static void
test_budget (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    jpeg_row_index_budget_t budget = { .bytes_max = 2000 };
    jpeg_row_index_t *rows [2] = { jpeg_row_index_new (SAMPLES, &budget),
        jpeg_row_index_new (SAMPLES, &budget) };
    for (int round = 0; round < 1000; round++) {
        known_t known = s_any (&random);
        uint32_t id = (uint32_t) test_below (&random, SAMPLES);
        jpeg_row_index_t *one = rows [round % 2];
        uint32_t before = jpeg_row_index_samples (one);
        jpeg_row_index_keep (one, id, s_entry (&known));
        assert_true (budget.bytes <= budget.bytes_max);
        uint32_t after = jpeg_row_index_samples (one);
        assert_true (after >= before || (after == before - 1 && !jpeg_row_index_lend (one, id)));
    }
    assert_true (budget.bytes > 1000);
    uint32_t known = jpeg_row_index_samples (rows [0]) + jpeg_row_index_samples (rows [1]);
    assert_true (known > 5 && known < 2 * SAMPLES);
    jpeg_row_index_destroy (&rows [0]);
    jpeg_row_index_destroy (&rows [1]);
    assert_int_equal (budget.bytes, 0);
}

//  When it is full, nothing more is worth finding out, until what was known of a file that changed is given
//  up; that is done even if there is no room for the other file's.
static void
test_full (void **state)
{
    (void) state;
    static const uint8_t bytes [10000];
    enum { SIZE = 90, LARGE = 3000 };
    jpeg_row_index_budget_t budget = { .bytes_max = 2000 };
    jpeg_row_index_t *rows = jpeg_row_index_new (SAMPLES, &budget);
    jpeg_row_index_keep (rows, 0, jpeg_row_index_entry (1, bytes, LARGE));
    assert_int_equal (jpeg_row_index_samples (rows), 0);
    uint32_t kept = 0;
    for (; jpeg_row_index_has_room (rows); kept++) {
        assert_true (kept < SAMPLES);
        jpeg_row_index_keep (rows, kept, jpeg_row_index_entry (1, bytes, SIZE));
    }
    uint32_t known = kept - 1;
    assert_true (known > 8);
    assert_int_equal (jpeg_row_index_samples (rows), known);
    jpeg_row_index_keep (rows, 3, jpeg_row_index_entry (1, bytes, LARGE));      //  more of the same file
    assert_int_equal (jpeg_row_index_samples (rows), known);
    assert_false (jpeg_row_index_has_room (rows));
    jpeg_row_index_entry_t *lent = jpeg_row_index_lend (rows, 3);
    assert_int_equal (lent->size, SIZE);
    jpeg_row_index_keep (rows, 3, jpeg_row_index_entry (2, bytes, LARGE));      //  another file
    assert_null (jpeg_row_index_lend (rows, 3));
    assert_int_equal (jpeg_row_index_samples (rows), known - 1);
    assert_int_equal (lent->checksum, 1);
    jpeg_row_index_release (lent);
    jpeg_row_index_keep (rows, 4, jpeg_row_index_entry (2, bytes, SIZE));
    assert_true (jpeg_row_index_has_room (rows));
    assert_int_equal (jpeg_row_index_samples (rows), known - 1);
    jpeg_row_index_destroy (&rows);
    assert_int_equal (budget.bytes, 0);
}

//  What is known of a file makes room for more of the same one, also where both together have none.
static void
test_more_takes_the_place_of_less (void **state)
{
    (void) state;
    static const uint8_t bytes [2000];
    jpeg_row_index_budget_t budget = { .bytes_max = 2000 };
    jpeg_row_index_t *rows = jpeg_row_index_new (SAMPLES, &budget);
    jpeg_row_index_keep (rows, 3, jpeg_row_index_entry (1, bytes, 1200));
    jpeg_row_index_keep (rows, 3, jpeg_row_index_entry (1, bytes, 1500));
    jpeg_row_index_entry_t *lent = jpeg_row_index_lend (rows, 3);
    assert_int_equal (lent->size, 1500);
    jpeg_row_index_release (lent);
    jpeg_row_index_destroy (&rows);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_kept_and_lent), cmocka_unit_test (test_a_table_moves),
        cmocka_unit_test (test_budget),
        cmocka_unit_test (test_full), cmocka_unit_test (test_more_takes_the_place_of_less) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
