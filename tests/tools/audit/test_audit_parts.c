//  What the audit must find in a job that several ranks recorded, each its part: every planted fault by its
//  name, and what is no fault.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "audit.h"
#include "orders.h"
#include "scratch.h"

FAULT_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT_CALL (void *, NULL, reallocarray, (void *data, size_t count, size_t size), (data, count, size))
FAULT_CALL (char *, NULL, strdup, (const char *text), (text))

enum { SAMPLES = 6000, RANKS = 3, EPOCHS = 12, PART = SAMPLES / RANKS, UNIT = 64 };

//  A job over RANKS ranks: rows [epoch] + PART * rank are the rank's ids, counts [rank] [epoch] of them; 0:
//  its file lacks the epoch.
typedef struct {
    uint64_t random;
    unsigned epochs;
    uint32_t *rows [EPOCHS];
    size_t counts [RANKS] [EPOCHS];
    bool unfinished [RANKS];    //  its last epoch
} planted_t;

static planted_t
s_plant (size_t unit, unsigned epochs)
{
    planted_t self = { .random = test_seed () + unit, .epochs = epochs };
    for (unsigned epoch = 0; epoch < epochs; epoch++) {
        self.rows [epoch] = orders_dealt (&self.random, SAMPLES, RANKS, unit);
        for (unsigned rank = 0; rank < RANKS; rank++)
            self.counts [rank] [epoch] = PART;
    }
    return self;
}

static uint32_t *
s_part (const planted_t *self, unsigned epoch, unsigned rank)
{
    return self->rows [epoch] + PART * rank;
}

//  Audits the job; its ids are used up.
static audit_t *
s_audit (planted_t *self, uint64_t samples)
{
    static const char *const names [RANKS] = { "a.ids", "b.ids", "c.ids" };
    audit_t *audit = audit_new (samples);
    assert_non_null (audit);
    for (unsigned rank = 0; rank < RANKS; rank++) {
        assert_int_equal (audit_add_job (audit, names [rank]), 0);
        for (unsigned epoch = 0; epoch < self->epochs; epoch++) {
            size_t count = self->counts [rank] [epoch];
            bool finished = !self->unfinished [rank] || epoch + 1 < self->epochs;
            if (count)
                orders_add (audit, epoch, orders_copy (s_part (self, epoch, rank), count), count, finished);
        }
    }
    for (unsigned epoch = 0; epoch < self->epochs; epoch++)
        free (self->rows [epoch]);
    assert_int_equal (audit_join (audit), 0);
    assert_int_equal (audit_run (audit), 0);
    assert_int_equal (audit_job_count (audit), 1);
    for (size_t index = 0; index < audit_finding_count (audit); index++) {
        const audit_finding_t *finding = audit_finding (audit, index);
        printf ("    %s: %s\n", audit_kind_name (finding->kind), finding->text);
    }
    return audit;
}

//  The finding of that kind is about so many epochs, that one the worst, and says so.
static void
s_assert_found (const audit_t *audit, audit_kind_t kind, size_t epochs, uint64_t worst, const char *says)
{
    for (size_t index = 0; index < audit_finding_count (audit); index++) {
        const audit_finding_t *finding = audit_finding (audit, index);
        if (finding->kind != kind)
            continue;
        assert_int_equal (finding->epoch_count, epochs);
        assert_int_equal (finding->worst, worst);
        if (!strstr (finding->text, says))
            fail_msg ("'%s' does not say '%s'", finding->text, says);
        return;
    }
    fail_msg ("no finding %s", audit_kind_name (kind));
}

static void
s_end (audit_t *audit, size_t faults)
{
    assert_int_equal (audit_fault_count (audit), faults);
    audit_destroy (&audit);
}

//  --------------------------------------------------------------------------

//  Chi-square of "sample" x "rank", by what is expected.
static double
s_uneven (const planted_t *self)
{
    static unsigned counts [SAMPLES] [RANKS];
    double chi_square = 0, expected = (double) self->epochs / RANKS;
    memset (counts, 0, sizeof counts);
    for (unsigned epoch = 0; epoch < self->epochs; epoch++)
        for (size_t place = 0; place < SAMPLES; place++)
            counts [self->rows [epoch] [place]] [place / PART]++;
    for (size_t id = 0; id < SAMPLES; id++)
        for (unsigned rank = 0; rank < RANKS; rank++)
            chi_square += (counts [id] [rank] - expected) * (counts [id] [rank] - expected) / expected;
    return chi_square / (SAMPLES * (RANKS - 1));
}

//  Units travel together, and that is seen and no fault.
static void
test_parts_of_units_are_clean (void **state)
{
    (void) state;
    for (size_t unit = 1; unit <= UNIT; unit *= UNIT) {
        planted_t job = s_plant (unit, EPOCHS);
        double uneven = s_uneven (&job);
        audit_t *audit = s_audit (&job, SAMPLES);
        const audit_parts_t *parts = audit_job (audit, 0)->parts;
        assert_int_equal (parts->count, RANKS);
        assert_int_equal (parts->groups, 1);
        assert_string_equal (parts->part [1].name, "b.ids");
        assert_int_equal (parts->part [1].samples_least, PART);
        assert_int_equal (parts->part [1].samples_most, PART);
        assert_int_equal (parts->part [1].own_phi2 [0].count, EPOCHS - 1);
        assert_int_equal (parts->own_phi2 [0].count, (EPOCHS - 1) * RANKS);
        assert_int_equal (parts->stay [5].count, EPOCHS - 6);
        assert_true (unit == 1? parts->stay [0].spread < 0.02: parts->stay [0].spread > 0.03);
        assert_int_equal (parts->uneven.count, EPOCHS);
        assert_true (fabs (parts->uneven.value - uneven) < 1e-9);
        assert_string_equal (audit_job (audit, 0)->name, "a.ids and 2 more");
        s_end (audit, 0);
    }
}

//  One sample of each file in turn: ranks that each count their ids make a job that does.
static void
test_the_order_takes_one_of_each_in_turn (void **state)
{
    (void) state;
    planted_t job = s_plant (1, 1);
    for (unsigned rank = 0; rank < RANKS; rank++)
        for (size_t place = 0; place < PART; place++)
            s_part (&job, 0, rank) [place] = (uint32_t) (place * RANKS + rank);
    audit_t *audit = s_audit (&job, SAMPLES);
    s_assert_found (audit, AUDIT_SORTED, 1, 0, "(ascending)");
    s_end (audit, 1);
}

//  Of ids that are a subset's, too.
static void
s_test_a_sample_in_two_files (uint32_t first, uint32_t step)
{
    planted_t job = s_plant (1, EPOCHS);
    for (unsigned epoch = 0; epoch < EPOCHS; epoch++)
        for (size_t place = 0; place < SAMPLES; place++)
            job.rows [epoch] [place] = first + step * job.rows [epoch] [place];
    uint32_t lost = s_part (&job, 5, 2) [17], doubled = s_part (&job, 5, 0) [99];
    char says [128];
    s_part (&job, 5, 2) [17] = doubled;
    unsigned before = 0;
    for (size_t place = 0; place < SAMPLES; place++)
        before = job.rows [4] [place] == lost? (unsigned) (place / PART): before;
    audit_t *audit = s_audit (&job, 0);
    snprintf (says, sizeof says, "1 sample more than once: %" PRIu32 " (in c.ids and a.ids)", doubled);
    s_assert_found (audit, AUDIT_DOUBLED, 1, 5, says);
    snprintf (says, sizeof says, "lacks 1 of 6000 samples: %" PRIu32 " (in epoch 4 in %c.ids)", lost,
        'a' + before);
    s_assert_found (audit, AUDIT_MISSING, 1, 5, says);
    s_end (audit, 2);
}

static void
test_a_sample_in_two_files (void **state)
{
    (void) state;
    s_test_a_sample_in_two_files (0, 1);
    s_test_a_sample_in_two_files (1000, 7);
}

//  Within one file, too; and in the first epoch, which has none before it.
static void
test_a_sample_twice_in_one_file (void **state)
{
    (void) state;
    planted_t job = s_plant (1, EPOCHS);
    s_part (&job, 0, 1) [3] = s_part (&job, 0, 1) [4];
    audit_t *audit = s_audit (&job, 0);
    s_assert_found (audit, AUDIT_DOUBLED, 1, 0, " (twice in b.ids)");
    s_assert_found (audit, AUDIT_MISSING, 1, 0, " (in epoch 1 in ");
    s_end (audit, 2);
}

//  That is no matter of missing samples.
static void
test_a_file_that_lacks_an_epoch (void **state)
{
    (void) state;
    planted_t job = s_plant (1, EPOCHS);
    job.counts [1] [4] = job.counts [2] [7] = 0;
    audit_t *audit = s_audit (&job, SAMPLES);
    s_assert_found (audit, AUDIT_ABSENT, 2, 4,
        "epoch 4 is not in b.ids, and others finished it: give all that this rank recorded, or leave the "
        "epoch's line out of all files; 1 more epoch is not in all files");
    assert_int_equal (audit_job (audit, 0)->epochs, EPOCHS - 2);
    s_end (audit, 1);
}

//  What is under way everywhere is no fault, on a rank that has not begun it either.
static void
test_an_epoch_that_no_rank_finished (void **state)
{
    (void) state;
    for (int what = 0; what < 2; what++) {
        planted_t job = s_plant (1, EPOCHS);
        job.unfinished [0] = job.unfinished [1] = what == 0;
        job.unfinished [2] = true;
        job.counts [2] [EPOCHS - 1] = 100;
        if (what == 0)
            job.counts [0] [EPOCHS - 1] = 0;
        audit_t *audit = s_audit (&job, SAMPLES);
        s_assert_found (audit, AUDIT_UNFINISHED, 1, EPOCHS - 1,
            what? "unfinished in c.ids: 4100 samples so far": "unfinished in b.ids: 2100 samples so far");
        s_end (audit, 0);
    }
}

//  --------------------------------------------------------------------------

//  Of the samples so many in a hundred stay with the rank that they had; the others are dealt again.
static void
s_stay (planted_t *self, unsigned epoch, unsigned percent)
{
    size_t free_places [SAMPLES], used = 0;
    uint32_t *row = self->rows [epoch];
    for (size_t place = 0; place < SAMPLES; place++) {
        row [place] = self->rows [epoch - 1] [place];
        if (test_below (&self->random, 100) >= percent)
            free_places [used++] = place;
    }
    for (size_t left = used; left > 1; left--)
        orders_swap (row, free_places [left - 1], free_places [test_below (&self->random, left)]);
    for (unsigned rank = 0; rank < RANKS; rank++)
        orders_mix (&self->random, row + PART * rank, PART);
}

static void
test_samples_that_stay_with_their_rank (void **state)
{
    (void) state;
    planted_t job = s_plant (1, EPOCHS);
    for (unsigned epoch = 1; epoch < EPOCHS; epoch++)
        s_stay (&job, epoch, 30);
    audit_t *audit = s_audit (&job, 0);
    s_assert_found (audit, AUDIT_STAYING, EPOCHS - 1, audit_finding (audit, 0)->worst,
        ", too many samples stay with their rank (against chance 1.");
    assert_true (audit_finding (audit, 0)->kind == AUDIT_STAYING);
    assert_non_null (strstr (audit_finding (audit, 0)->text, "; 10 more epochs do so"));
    s_end (audit, 1);
}

//  Between two epochs only, and where units are dealt: half of them stay.
static void
test_units_that_stay_once (void **state)
{
    (void) state;
    enum { MANY = 60000 };
    uint64_t random = test_seed ();
    audit_t *audit = audit_new (MANY);
    uint32_t *rows [EPOCHS];
    assert_non_null (audit);
    for (unsigned epoch = 0; epoch < EPOCHS; epoch++)
        rows [epoch] = orders_dealt (&random, MANY, RANKS, UNIT);
    //  All of the first third of the units.
    uint32_t *kept = orders_copy (rows [6], MANY);
    size_t used = 0;
    for (size_t place = 0; place < MANY; place++) {
        if (rows [6] [place] < MANY / 3)
            continue;
        while (rows [7] [used] < MANY / 3)
            used++;
        kept [place] = rows [7] [used++];
    }
    free (rows [7]);
    rows [7] = kept;
    for (unsigned rank = 0; rank < RANKS; rank++) {
        size_t begin = orders_cut (MANY, RANKS, rank), count = MANY / RANKS;
        orders_mix (&random, rows [7] + begin, count);
        assert_int_equal (audit_add_job (audit, "a rank"), 0);
        for (unsigned epoch = 0; epoch < EPOCHS; epoch++)
            orders_add (audit, epoch, orders_copy (rows [epoch] + begin, count), count, true);
    }
    for (unsigned epoch = 0; epoch < EPOCHS; epoch++)
        free (rows [epoch]);
    assert_int_equal (audit_join (audit), 0);
    assert_int_equal (audit_run (audit), 0);
    s_assert_found (audit, AUDIT_STAYING, 1, 7,
        "from epoch 6 to epoch 7, too many samples stay with their rank (");
    s_end (audit, 1);
}

//  Some samples come to the first rank in half of the epochs, wherever they were before.
static void
test_samples_that_prefer_a_rank (void **state)
{
    (void) state;
    planted_t job = s_plant (1, EPOCHS);
    for (unsigned epoch = 0; epoch < EPOCHS; epoch++)
        for (size_t place = PART; place < SAMPLES; place++) {
            size_t other = test_below (&job.random, PART);
            if (job.rows [epoch] [place] < 1000 && job.rows [epoch] [other] >= 1000
            &&  test_below (&job.random, 2))
                orders_swap (job.rows [epoch], place, other);
        }
    audit_t *audit = s_audit (&job, 0);
    s_assert_found (audit, AUDIT_UNEVEN, 0, 0, "samples come to some ranks more often than to others");
    audit_destroy (&audit);
}

//  That was asked for: a note, of all ranks or of groups of them; also where a sample of an epoch is taken
//  out, so that all behind it move up.
static void
test_fixed_parts_are_a_note (void **state)
{
    (void) state;
    for (int what = 0; what < 3; what++) {
        bool grouped = what == 1, doubled = what == 2;
        planted_t job = s_plant (UNIT, EPOCHS);
        for (unsigned epoch = 1; epoch < EPOCHS; epoch++) {
            memcpy (job.rows [epoch], job.rows [0], SAMPLES * sizeof **job.rows);
            for (unsigned rank = 0; rank < RANKS; rank++)
                orders_mix (&job.random, s_part (&job, epoch, rank), PART);
            if (grouped)
                orders_mix (&job.random, s_part (&job, epoch, 0), 2 * PART);
        }
        if (doubled)
            s_part (&job, 4, 1) [7] = s_part (&job, 4, 1) [8];
        audit_t *audit = s_audit (&job, SAMPLES);
        s_assert_found (audit, AUDIT_FIXED, 0, 0, grouped? "the ranks are 2 groups between which no sample "
            "changes in 12 epochs": "no sample changes its rank in 12 epochs, as with fixed parts");
        assert_int_equal (audit_finding_count (audit), doubled? 3: 1);
        assert_int_equal (audit_job (audit, 0)->parts->groups, grouped? 2: RANKS);
        assert_int_equal (audit_job (audit, 0)->parts->uneven.count, 0);
        s_end (audit, doubled? 2: 0);
    }
}

//  The second rank's samples come in the order in which the epoch before had them.
static void
test_a_rank_that_repeats_its_own_order (void **state)
{
    (void) state;
    planted_t job = s_plant (UNIT, EPOCHS);
    uint32_t places [SAMPLES], *before = s_part (&job, 5, 1), *after = s_part (&job, 6, 1);
    memset (places, 0xff, sizeof places);
    for (uint32_t place = 0; place < PART; place++)
        places [before [place]] = place;
    for (size_t one = 0; one < PART; one++)
        for (size_t other = one + 1; places [after [one]] != UINT32_MAX && other < PART; other++)
            if (places [after [other]] < places [after [one]])
                orders_swap (after, one, other);
    audit_t *audit = s_audit (&job, SAMPLES);
    s_assert_found (audit, AUDIT_OWN_STALE, 1, 6,
        "in the order of b.ids alone, epoch 6 still knows the order of epoch 5 (phi2 ");
    assert_true (audit_job (audit, 0)->parts->part [1].own_phi2 [0].value > 0.1);
    assert_true (audit_job (audit, 0)->parts->part [0].own_phi2 [0].value < 0.1);
    audit_destroy (&audit);
}

//  Of few epochs nothing is said of ranks, of units neither; of few samples nothing of a rank's own order.
static void
test_what_is_not_tested_is_said_of_ranks (void **state)
{
    (void) state;
    planted_t job = s_plant (1, AUDIT_DEALS_LEAST - 1);
    audit_t *audit = s_audit (&job, 0);
    s_assert_found (audit, AUDIT_UNTESTED, 0, 0, "not tested: whether samples stay with their rank: that "
        "needs 6 epochs of 2000 samples (10 on each rank) that all ranks finished");
    s_end (audit, 0);
    job = s_plant (1, EPOCHS);
    for (unsigned epoch = 0; epoch < EPOCHS; epoch++)
        for (unsigned rank = 0; rank < RANKS; rank++)
            job.counts [rank] [epoch] = 50;
    audit = s_audit (&job, 0);
    s_assert_found (audit, AUDIT_UNTESTED, 0, 0,
        "a rank's own order: that needs 100 samples that it has in two epochs in a row");
    audit_destroy (&audit);
}

//  --------------------------------------------------------------------------

//  Takes ids.
static bool
s_try_all (uint32_t *ids [RANKS] [EPOCHS])
{
    audit_t *audit = audit_new (0);
    bool fine = audit;
    for (unsigned rank = 0; rank < RANKS; rank++) {
        fine = fine && audit_add_job (audit, "a rank") == 0;
        for (unsigned epoch = 0; epoch < EPOCHS; epoch++)
            if (fine)
                fine = audit_add_epoch (audit, epoch, &ids [rank] [epoch], PART, true) == 0;
            else
                free (ids [rank] [epoch]);
    }
    fine = fine && audit_join (audit) == 0 && audit_run (audit) == 0;
    if (fine)
        assert_int_equal (audit_job (audit, 0)->parts->uneven.count, EPOCHS);
    audit_destroy (&audit);
    return fine;
}

//  Fails every allocation in turn: a status comes back, nothing is lost (the sanitizers look).
static void
test_memory_may_run_out_anywhere (void **state)
{
    (void) state;
    planted_t job = s_plant (1, EPOCHS);
    unsigned nth = 0;
    for (bool struck = true; struck;) {
        uint32_t *ids [RANKS] [EPOCHS];
        for (unsigned rank = 0; rank < RANKS; rank++)
            for (unsigned epoch = 0; epoch < EPOCHS; epoch++)
                ids [rank] [epoch] = orders_copy (s_part (&job, epoch, rank), PART);
        fault_arm (++nth, ENOMEM, false);
        bool fine = s_try_all (ids);
        struck = fault_disarm ();
        if (fine == struck)
            fail_msg ("allocation %u of all: %s", nth, fine? "its failure went unseen": "failed by itself");
    }
    for (unsigned epoch = 0; epoch < EPOCHS; epoch++)
        free (job.rows [epoch]);
    assert_true (nth > 60);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_parts_of_units_are_clean),
        cmocka_unit_test (test_the_order_takes_one_of_each_in_turn),
        cmocka_unit_test (test_a_sample_in_two_files),
        cmocka_unit_test (test_a_sample_twice_in_one_file),
        cmocka_unit_test (test_a_file_that_lacks_an_epoch),
        cmocka_unit_test (test_an_epoch_that_no_rank_finished),
        cmocka_unit_test (test_samples_that_stay_with_their_rank),
        cmocka_unit_test (test_units_that_stay_once),
        cmocka_unit_test (test_samples_that_prefer_a_rank),
        cmocka_unit_test (test_fixed_parts_are_a_note),
        cmocka_unit_test (test_a_rank_that_repeats_its_own_order),
        cmocka_unit_test (test_what_is_not_tested_is_said_of_ranks),
        cmocka_unit_test (test_memory_may_run_out_anywhere)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
