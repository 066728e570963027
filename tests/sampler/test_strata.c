/*  Guards: the partition, and above all that nothing is merged too early: neither marks nor what they told
 *  apart.
 *
 *  Beside a simple model that gives each sample a list of marks.  A mark is a job's data when it joined, or
 *  what was taken of them then, until it begins an epoch.  Data are made of a few shared pieces, so that the
 *  same, nested and complementary ones come all the time.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "seed.h"
#include "strata.h"

enum {
    WORLDS = EFFORT (150), STEPS = 250, SAMPLES = 192, PIECES = 6,
    JOBS = SAMPLER_JOBS_MAX, MARKS = 2 * JOBS, WORDS = MARKS / 64
};

//  ------------------------------------------------------------------------------------------------
//  The model

//  The mark of a job that is there, or of one that has left.  Of the latter, waits says how many epochs each
//  job still has to begin.
typedef struct {
    bool used, live;
    uint32_t job;
    uint8_t waits [JOBS];
} mark_t;

//  A departure by the plain rule, without the marks: what must be kept apart, and for which jobs.
typedef struct {
    bool has [SAMPLES];
    uint8_t waits [JOBS];
} departure_t;

enum { DEPARTURES = 64 };

typedef struct {
    uint64_t seed, random;
    strata_t *strata;
    roaring_bitmap_t *readable;
    mark_t marks [MARKS];
    uint64_t samples [SAMPLES] [WORDS];     //  the marks of each, dropped ones too
    uint32_t mark_of [JOBS];                //  MARKS: the job is not there
    bool has [JOBS] [SAMPLES];              //  its data
    uint32_t taken_mark_of [JOBS];          //  MARKS: it does not go on, or not any more
    bool had [JOBS] [SAMPLES];              //  what was taken
    departure_t departures [DEPARTURES];    //  the last ones
    size_t departed;
    uint32_t jobs;                          //  numbers below this are used
    size_t in_use;                          //  marks
    size_t refused, merged, went_on, apart;             //  how often
} world_t;

static bool
s_has_mark (const world_t *self, uint32_t id, uint32_t mark)
{
    return self->samples [id] [mark / 64] >> mark % 64 & 1;
}

static void
s_set_mark (world_t *self, uint32_t id, uint32_t mark, bool has)
{
    self->samples [id] [mark / 64] &= ~(UINT64_C (1) << mark % 64);
    self->samples [id] [mark / 64] |= (uint64_t) has << mark % 64;
}

static bool
s_same_marks (const world_t *self, uint32_t id, uint32_t other)
{
    return memcmp (self->samples [id], self->samples [other], sizeof self->samples [id]) == 0;
}

//  Of each sample the first one with the same marks; returns how many such there are.
static size_t
s_firsts (const world_t *self, uint32_t firsts [SAMPLES])
{
    size_t count = 0;
    for (uint32_t id = 0; id < SAMPLES; id++) {
        firsts [id] = 0;
        while (!s_same_marks (self, id, firsts [id]))
            firsts [id]++;
        count += firsts [id] == id;
    }
    return count;
}

static bool
s_waits (const uint8_t *waits)
{
    for (uint32_t job = 0; job < JOBS; job++)
        if (waits [job])
            return true;
    return false;
}

static uint32_t
s_free_mark (const world_t *self)
{
    uint32_t mark = 0;
    while (self->marks [mark].used)
        mark++;
    return mark;
}

//  The job has begun that many epochs, or left (UINT8_MAX).  Whether a mark need not wait any longer.
static bool
s_model_passes (world_t *self, uint32_t job, uint8_t epochs)
{
    bool done = false;
    for (uint32_t mark = 0; mark < MARKS; mark++) {
        uint8_t *waits = self->marks [mark].waits;
        if (!self->marks [mark].used || self->marks [mark].live || !waits [job])
            continue;
        waits [job] = (uint8_t) (waits [job] > epochs? waits [job] - epochs: 0);
        done |= !s_waits (waits);
    }
    for (size_t index = 0; index < DEPARTURES; index++) {
        uint8_t *waits = self->departures [index].waits;
        waits [job] = (uint8_t) (waits [job] > epochs? waits [job] - epochs: 0);
    }
    return done;
}

//  Whether only this mark tells some samples apart, of all that jobs have put on them.
static bool
s_tells_apart (const world_t *self, uint32_t mark)
{
    uint64_t live [WORDS] = { 0 };
    for (uint32_t other = 0; other < MARKS; other++)
        live [other / 64] |= (uint64_t) (self->marks [other].used && self->marks [other].live
            && other != mark)
            << other % 64;
    for (uint32_t id = 0; id < SAMPLES; id++)
        for (uint32_t before = 0; before < id; before++) {
            bool same = s_has_mark (self, id, mark) != s_has_mark (self, before, mark);
            for (size_t word = 0; word < WORDS && same; word++)
                same = ((self->samples [id] [word] ^ self->samples [before] [word]) & live [word]) == 0;
            if (same)
                return true;
        }
    return false;
}

//  A departed mark on the same samples, or MARKS; not this one, and not one that is about to depart.
static uint32_t
s_same_departed (const world_t *self, uint32_t mark, uint32_t next)
{
    for (uint32_t other = 0; other < MARKS; other++) {
        if (!self->marks [other].used || self->marks [other].live || other == mark || other == next)
            continue;
        uint32_t id = 0;
        while (id < SAMPLES && s_has_mark (self, id, mark) == s_has_mark (self, id, other))
            id++;
        if (id == SAMPLES)
            return other;
    }
    return MARKS;
}

static void
s_forget_mark (world_t *self, uint32_t mark)
{
    for (uint32_t id = 0; id < SAMPLES; id++)
        s_set_mark (self, id, mark, false);
    self->marks [mark] = (mark_t) { .used = false };
    self->in_use--;
}

//  ------------------------------------------------------------------------------------------------
//  Comparing

static bool
s_readable (const world_t *self, uint32_t id)
{
    return roaring_bitmap_contains (self->readable, id);
}

//  Two samples of one stratum must not have been told apart by a departed job, if a third job has both and
//  may still remember the departure.
static void
s_compare_departures (const world_t *self, uint32_t id, uint32_t other)
{
    for (size_t index = 0; index < DEPARTURES; index++) {
        const departure_t *departure = &self->departures [index];
        if (departure->has [id] == departure->has [other])
            continue;
        for (uint32_t job = 0; job < self->jobs; job++)
            if (departure->waits [job] && self->has [job] [id] && self->has [job] [other])
                fail_msg ("seed %" PRIu64 ": %u and %u are merged, and job %u may remember", self->seed, id,
                    other, job);
    }
}

static void
s_compare_partition (const world_t *self)
{
    uint32_t firsts [SAMPLES], by_label [STRATA_MOST];
    assert_int_equal (strata_count (self->strata), s_firsts (self, firsts));
    memset (by_label, 0xff, sizeof by_label);
    uint32_t label_of [SAMPLES];
    memset (label_of, 0xff, sizeof label_of);
    for (uint32_t id = 0; id < SAMPLES; id++) {
        if (!s_readable (self, id))
            continue;
        uint32_t label = strata_of (self->strata, id);
        assert_in_range (label, 0, strata_bound (self->strata) - 1);
        if (by_label [label] == UINT32_MAX)
            by_label [label] = id;
        if (label_of [firsts [id]] == UINT32_MAX)
            label_of [firsts [id]] = label;
        if (label_of [firsts [id]] != label || !s_same_marks (self, id, by_label [label]))
            fail_msg ("seed %" PRIu64 ": sample %u is not where its marks are", self->seed, id);
        s_compare_departures (self, id, by_label [label]);
    }
}

static bool
s_overlap (const world_t *self, uint32_t job, uint32_t other)
{
    for (uint32_t id = 0; id < SAMPLES; id++)
        if (self->has [job] [id] && self->has [other] [id] && s_readable (self, id))
            return true;
    return false;
}

//  A stratum that is said to have all of a job's data has; and if there is such a one, it is said, unless
//  drops have emptied others.
static void
s_compare_sole (const world_t *self, uint32_t job)
{
    if (self->mark_of [job] == MARKS)
        return;
    size_t sole = strata_sole (self->strata, job), strata = 0;
    uint32_t last = UINT32_MAX;
    for (uint32_t id = 0; id < SAMPLES; id++) {
        if (!self->has [job] [id] || !s_readable (self, id))
            continue;
        if (sole < strata_bound (self->strata))
            assert_int_equal (strata_of (self->strata, id), sole);
        strata += strata_of (self->strata, id) != last;
        last = strata_of (self->strata, id);
    }
    if (strata == 1 && roaring_bitmap_get_cardinality (self->readable) == SAMPLES)
        assert_int_equal (sole, last);
}

static void
s_compare (world_t *self)
{
    strata_check (self->strata, self->readable);
    s_compare_partition (self);
    s_compare_sole (self, (uint32_t) test_below (&self->random, self->jobs));
    for (int pair = 0; pair < 20; pair++) {
        uint32_t job = (uint32_t) test_below (&self->random, self->jobs);
        uint32_t other = (uint32_t) test_below (&self->random, self->jobs);
        if (self->mark_of [job] == MARKS || self->mark_of [other] == MARKS)
            continue;
        if (strata_overlap (self->strata, job, other) != s_overlap (self, job, other))
            fail_msg ("seed %" PRIu64 ": whether %u and %u overlap", self->seed, job, other);
    }
}

//  ------------------------------------------------------------------------------------------------
//  What happens

//  Marks of a dropped sample do not matter, but a stratum of nothing else still counts: the sample goes where
//  the readable ones of its stratum go.
static void
s_model_refine (world_t *self, uint32_t mark, const bool *has)
{
    uint32_t firsts [SAMPLES];
    s_firsts (self, firsts);
    bool all [SAMPLES], any [SAMPLES] = { false };
    memset (all, true, sizeof all);
    for (uint32_t id = 0; id < SAMPLES; id++)
        if (s_readable (self, id)) {
            all [firsts [id]] &= has [id];
            any [firsts [id]] = true;
        }
    for (uint32_t id = 0; id < SAMPLES; id++)
        s_set_mark (self, id, mark, s_readable (self, id)? has [id]: any [firsts [id]] && all [firsts [id]]);
}

//  Joins of pieces, mostly; now and then a few samples more or less, or all samples.
static bool
s_make_data (world_t *self, bool *has)
{
    uint64_t pieces = test_below (&self->random, 10) == 0? ~UINT64_C (0):
        test_below (&self->random, 1 << PIECES);
    uint64_t odd = test_below (&self->random, 4) == 0? 20: 1000000;
    bool any = false;
    for (uint32_t id = 0; id < SAMPLES; id++) {
        has [id] = (pieces >> id * PIECES / SAMPLES & 1) ^ (test_below (&self->random, odd) == 0);
        has [id] = has [id] && s_readable (self, id);
        any |= has [id];
    }
    return any;
}

static roaring_bitmap_t *
s_set_of (const bool *has)
{
    roaring_bitmap_t *set = roaring_bitmap_create ();
    for (uint32_t id = 0; id < SAMPLES; id++)
        if (has [id])
            roaring_bitmap_add (set, id);
    return set;
}

//  As if the job had not come; what it has in the model is forgotten, too.
static void
s_cancel (world_t *self, uint32_t job)
{
    strata_cancel (self->strata, job);
    if (self->taken_mark_of [job] < MARKS)
        s_forget_mark (self, self->taken_mark_of [job]);
    s_forget_mark (self, self->mark_of [job]);
    self->mark_of [job] = self->taken_mark_of [job] = MARKS;
}

//  The job, which has just come, goes on: some of its data, but not all, are taken.
static void
s_go_on (world_t *self, uint32_t job)
{
    uint32_t firsts [SAMPLES], mark = s_free_mark (self);
    bool taken [SAMPLES], any = s_make_data (self, taken), all = true;
    for (uint32_t id = 0; id < SAMPLES; id++) {
        taken [id] = taken [id] && self->has [job] [id];
        all = all && taken [id] == self->has [job] [id];
    }
    roaring_bitmap_t *set = s_set_of (taken);
    any = any && !roaring_bitmap_is_empty (set);
    if (any && !all) {
        s_model_refine (self, mark, taken);
        bool fits = self->in_use < JOBS && s_firsts (self, firsts) <= strata_bound (self->strata);
        if (strata_refine_taken (self->strata, job, set) != fits)
            fail_msg ("seed %" PRIu64 ": what was taken of %u should %sfit in", self->seed, job,
                fits? "": "not ");
        self->in_use++;
        self->marks [mark] = (mark_t) { .used = true, .live = true, .job = job };
        if (fits) {
            self->taken_mark_of [job] = mark;
            memcpy (self->had [job], taken, sizeof taken);
            self->went_on++;
        }
        else {
            s_forget_mark (self, mark);
            s_cancel (self, job);
            self->apart++;
        }
    }
    roaring_bitmap_free (set);
}

static void
s_join (world_t *self, uint32_t job)
{
    bool has [SAMPLES];
    if (!s_make_data (self, has))
        return;
    roaring_bitmap_t *data = s_set_of (has);
    uint32_t before [SAMPLES], firsts [SAMPLES], mark = s_free_mark (self);
    for (uint32_t id = 0; id < SAMPLES; id++)
        before [id] = strata_of (self->strata, id);
    s_model_refine (self, mark, has);
    bool fits = self->in_use < JOBS && s_firsts (self, firsts) <= strata_bound (self->strata);
    if (strata_refine (self->strata, job, data) != fits)
        fail_msg ("seed %" PRIu64 ": job %u should %sfit in", self->seed, job, fits? "": "not ");
    roaring_bitmap_free (data);
    self->in_use++;
    self->marks [mark] = (mark_t) { .used = true, .live = true, .job = job };
    if (!fits) {
        s_forget_mark (self, mark);
        self->refused++;
        for (uint32_t id = 0; id < SAMPLES; id++)
            assert_int_equal (before [id], strata_of (self->strata, id));
        return;
    }
    self->mark_of [job] = mark;
    memcpy (self->has [job], has, sizeof has);
    if (test_below (&self->random, 3) == 0)
        s_go_on (self, job);
    if (self->mark_of [job] < MARKS && test_below (&self->random, 10) == 0)
        s_cancel (self, job);
}

static void
s_merge (world_t *self)
{
    for (uint32_t mark = 0; mark < MARKS; mark++)
        if (self->marks [mark].used && !self->marks [mark].live && !s_waits (self->marks [mark].waits))
            s_forget_mark (self, mark);
    size_t before = strata_count (self->strata);
    strata_merge (self->strata);
    self->merged += strata_count (self->strata) < before;
}

//  The plain rule's record of it.
static void
s_record_departure (world_t *self, const bool *has, const uint32_t *others, size_t count)
{
    departure_t *departure = &self->departures [self->departed++ % DEPARTURES];
    memset (departure, 0, sizeof *departure);
    memcpy (departure->has, has, sizeof departure->has);
    for (size_t other = 0; other < count; other++)
        departure->waits [others [other]] = STRATA_EPOCHS_KEPT;
}

//  The mark, which is not live any more, stays if it has to; next departs after it.  True: it waits for no
//  job.
static bool
s_model_keep (world_t *self, uint32_t mark, uint32_t next, const uint32_t *others, size_t count)
{
    if (!s_tells_apart (self, mark)) {
        s_forget_mark (self, mark);
        return false;
    }
    uint32_t same = s_same_departed (self, mark, next);
    if (same < MARKS)
        s_forget_mark (self, mark);
    else
        same = mark;
    for (size_t other = 0; other < count; other++)
        self->marks [same].waits [others [other]] = STRATA_EPOCHS_KEPT;
    return !s_waits (self->marks [same].waits);
}

//  What strata_depart returns.
static bool
s_model_depart (world_t *self, uint32_t job, const uint32_t *others, size_t count)
{
    bool done = s_model_passes (self, job, UINT8_MAX);
    uint32_t mark = self->mark_of [job], taken = self->taken_mark_of [job];
    self->mark_of [job] = self->taken_mark_of [job] = MARKS;
    self->marks [mark].live = false;
    s_record_departure (self, self->has [job], others, count);
    if (taken < MARKS) {
        self->marks [taken].live = false;
        s_record_departure (self, self->had [job], others, count);
    }
    if (s_model_keep (self, mark, taken, others, count))
        done = true;
    return (taken < MARKS && s_model_keep (self, taken, MARKS, others, count)) || done;
}

//  What strata_epoch_begun returns: what was taken is as a departed job's data, and the job itself is one of
//  the jobs that remember it.
static bool
s_model_begin (world_t *self, uint32_t job)
{
    bool done = s_model_passes (self, job, 1);
    uint32_t taken = self->taken_mark_of [job], jobs [JOBS];
    size_t count = 0;
    if (taken == MARKS)
        return done;
    for (uint32_t other = 0; other < self->jobs; other++)
        if (self->mark_of [other] < MARKS && s_overlap (self, job, other))
            jobs [count++] = other;
    self->taken_mark_of [job] = MARKS;
    self->marks [taken].live = false;
    s_record_departure (self, self->had [job], jobs, count);
    return s_model_keep (self, taken, MARKS, jobs, count) || done;
}

//  The others, as in follow_leave, are the jobs that stay and share samples with it.
static void
s_leave (world_t *self, uint32_t job, bool merges)
{
    uint32_t others [JOBS];
    size_t count = 0;
    for (uint32_t other = 0; other < self->jobs; other++)
        if (other != job && self->mark_of [other] < MARKS && s_overlap (self, job, other))
            others [count++] = other;
    bool done = s_model_depart (self, job, others, count);
    if (strata_depart (self->strata, job, others, count) != done)
        fail_msg ("seed %" PRIu64 ": job %u leaves, and a mark has %sdone its time", self->seed, job,
            done? "": "not ");
    if (done && merges)
        s_merge (self);
}

static void
s_begin_epoch (world_t *self, uint32_t job, bool merges)
{
    bool done = s_model_begin (self, job);
    if (strata_epoch_begun (self->strata, job) != done)
        fail_msg ("seed %" PRIu64 ": job %u begins, and a mark has %sdone its time", self->seed, job,
            done? "": "not ");
    if (done && merges)
        s_merge (self);
}

static void
s_drop (world_t *self)
{
    uint32_t id = (uint32_t) test_below (&self->random, SAMPLES);
    if (roaring_bitmap_remove_checked (self->readable, id))
        strata_drop (self->strata, id);
}

static void
s_step (world_t *self, uint64_t joins, uint64_t leaves, uint64_t drops)
{
    uint32_t job = (uint32_t) test_below (&self->random, self->jobs);
    bool merges = test_below (&self->random, 8) > 0, there = self->mark_of [job] < MARKS;
    uint64_t what = test_below (&self->random, 100);
    if (test_below (&self->random, 1000) < drops)
        s_drop (self);
    else
    if (what == 0)
        s_merge (self);                         //  may have nothing to do
    else
    if (!there && what < joins)
        s_join (self, job);
    else
    if (there && what < leaves)
        s_leave (self, job, merges);
    else
    if (there)
        s_begin_epoch (self, job, merges);
}

static void
s_new_world (world_t *self, uint64_t seed, uint32_t jobs)
{
    memset (self, 0, sizeof *self);
    self->seed = self->random = seed;
    self->jobs = jobs;
    self->strata = strata_new (SAMPLES);
    self->readable = roaring_bitmap_from_range (0, SAMPLES, 1);
    for (uint32_t job = 0; job < JOBS; job++)
        self->mark_of [job] = self->taken_mark_of [job] = MARKS;
}

static void
s_end_world (world_t *self)
{
    roaring_bitmap_free (self->readable);
    strata_destroy (&self->strata);
    assert_null (self->strata);
}

//  Few jobs or many, that come and go seldom or often; samples that go; merging at once, or only later.
static void
test_partition_and_its_model_agree (void **state)
{
    (void) state;
    static world_t self;                        //  too large for a stack
    static const uint32_t s_jobs [] = { 2, 3, 4, 6, 12, 70, JOBS };
    static const uint64_t s_drops [] = { 0, 0, 20, 300 };
    size_t refused = 0, merged = 0, went_on = 0, apart = 0;
    for (uint64_t seed = test_seed (), n = 0; n < WORLDS; n++, seed++) {
        s_new_world (&self, seed, s_jobs [n % (sizeof s_jobs / sizeof *s_jobs)]);
        uint64_t joins = 10 + test_below (&self.random, 90), leaves = 5 + test_below (&self.random, 60);
        uint64_t drops = s_drops [test_below (&self.random, 4)];
        for (int step = 0; step < STEPS; step++) {
            s_step (&self, joins, leaves, drops);
            s_compare (&self);
        }
        refused += self.refused;
        merged += self.merged;
        went_on += self.went_on;
        apart += self.apart;
        s_end_world (&self);
    }
    assert_true (refused > WORLDS && merged > WORLDS);          //  else hardly anything was tested
    assert_true (went_on > WORLDS && apart > WORLDS / 4);
}

//  ------------------------------------------------------------------------------------------------
//  Bounds

//  The samples from .. to - 1 with this bit in their number; bit 32: all of them.
static bool
s_refine (strata_t *strata, uint32_t job, uint32_t from, uint32_t to, uint32_t bit)
{
    roaring_bitmap_t *data = roaring_bitmap_create ();
    for (uint32_t id = from; id < to; id++)
        if (bit == 32 || id >> bit & 1)
            roaring_bitmap_add (data, id);
    bool fits = strata_refine (strata, job, data);
    roaring_bitmap_free (data);
    return fits;
}

//  The last stratum that there is room for is made; one more is not, while data that split nothing are
//  welcome.
static void
test_refused_beyond_the_bound (void **state)
{
    (void) state;
    static const struct { uint32_t samples, bound; } s_cases [] = {
        { 1000, STRATA_LEAST }, { 100 * STRATA_SHARE, 100 }, { 70000, 70000 / STRATA_SHARE },
        { STRATA_MOST * STRATA_SHARE + 70000, STRATA_MOST },
    };
    for (size_t n = 0; n < sizeof s_cases / sizeof *s_cases; n++) {
        uint32_t samples = s_cases [n].samples, bound = s_cases [n].bound, job = 0, bits = 0;
        strata_t *strata = strata_new (samples);
        roaring_bitmap_t *readable = roaring_bitmap_from_range (0, samples, 1);
        assert_int_equal (strata_bound (strata), bound);
        assert_true (s_refine (strata, job++, 0, samples, 32));
        for (; UINT32_C (2) << bits <= bound; bits++)
            assert_true (s_refine (strata, job++, 0, samples, bits));
        assert_false (s_refine (strata, job, 0, samples, bits));        //  twice as many, all at once
        assert_int_equal (strata_count (strata), UINT32_C (1) << bits);
        for (uint32_t id = 0; strata_count (strata) < bound; id++)
            assert_true (s_refine (strata, job++, id, id + 1, 32));
        assert_false (s_refine (strata, job, samples - 1, samples, 32));
        assert_int_equal (strata_count (strata), bound);
        strata_check (strata, readable);
        assert_false (strata_overlap (strata, 0, job));                 //  nothing changed
        assert_true (s_refine (strata, job, 0, samples, 0));            //  no stratum more
        assert_true (strata_overlap (strata, 0, job));
        strata_check (strata, readable);
        roaring_bitmap_free (readable);
        strata_destroy (&strata);
    }
}

//  Every job number is taken, all leave, all come again: with data that tell samples apart and with data that
//  do not.
static void
test_every_job_number (void **state)
{
    (void) state;
    enum { MANY = 4096 };
    strata_t *strata = strata_new (MANY);
    roaring_bitmap_t *readable = roaring_bitmap_from_range (0, MANY, 1);
    for (uint32_t pass = 0; pass < 3; pass++) {
        for (uint32_t job = 0; job < JOBS; job++)
            assert_true (s_refine (strata, job, job % 30, job % 30 + (pass == 1? 1: MANY - 60), 32));
        strata_check (strata, readable);
        for (uint32_t leaving = 0; leaving < JOBS; leaving++) {
            uint32_t others [JOBS], job = pass == 2? JOBS - 1 - leaving: leaving;
            size_t count = 0;
            for (uint32_t other = 0; other < JOBS; other++)
                if (pass == 2? other < job: other > job)
                    others [count++] = other;
            if (strata_depart (strata, job, others, count))
                strata_merge (strata);
        }
        assert_int_equal (strata_count (strata), 1);
        strata_check (strata, readable);
    }
    roaring_bitmap_free (readable);
    strata_destroy (&strata);
}

//  ------------------------------------------------------------------------------------------------
//  Long runs

//  A job that never begins an epoch keeps every mark beside it.  Of nine pieces there are more sets than
//  marks, and of single samples more strata than the bound: whichever comes first, later joins are refused,
//  nothing else.
static void
s_churn (bool pieces, uint32_t bound, uint64_t random)
{
    enum { TURNS = 4000, MANY = 9 * 100 };
    strata_t *strata = strata_new (MANY);
    roaring_bitmap_t *readable = roaring_bitmap_from_range (0, MANY, 1);
    const uint32_t sitter = 200;
    size_t refused = 0;
    assert_true (s_refine (strata, sitter, 0, MANY, 32));
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        roaring_bitmap_t *data = roaring_bitmap_create ();
        uint64_t set = 1 + test_below (&random, 511);
        for (uint64_t piece = 0; piece < 9; piece++)
            if (pieces && set >> piece & 1)
                roaring_bitmap_add_range (data, piece * 100, piece * 100 + 100);
        if (!pieces)
            roaring_bitmap_add (data, (uint32_t) test_below (&random, MANY));
        uint32_t job = turn % 200;
        if (!strata_refine (strata, job, data))
            refused++;
        else {
            strata_epoch_begun (strata, job);
            assert_false (strata_depart (strata, job, &sitter, 1));
        }
        roaring_bitmap_free (data);
        assert_in_range (strata_count (strata), 1, bound);
        if (turn % 100 == 0)
            strata_check (strata, readable);
    }
    if (refused == 0)
        fail_msg ("nothing was refused");
    //  Three epochs, as docs/randomness.md says: no statistic of ours would notice fewer.
    for (int epoch = 1; epoch <= 3; epoch++)
        assert_int_equal (strata_epoch_begun (strata, sitter), epoch == 3);
    strata_merge (strata);
    assert_int_equal (strata_count (strata), 1);
    for (uint32_t job = 0; job < JOBS; job++)
        assert_true (job == sitter || s_refine (strata, job, job % 50, job % 50 + 1, 32));
    strata_check (strata, readable);
    roaring_bitmap_free (readable);
    strata_destroy (&strata);
}

//  200 departed marks, most of which have done their time: the last ones, whatever their numbers, still tell
//  apart what they told apart, and what is split later carries them too.
static void
test_many_departed_marks (void **state)
{
    (void) state;
    enum { PIECE = 100, LAST = 190, DEPARTED = 200, ALL = 9 * PIECE };
    strata_t *strata = strata_new (ALL);
    const uint32_t stays = 200, goes = 201;
    assert_true (s_refine (strata, stays, 0, ALL, 32) && s_refine (strata, goes, 0, ALL, 32));
    for (uint32_t pattern = 0; pattern < DEPARTED; pattern++) {
        roaring_bitmap_t *data = roaring_bitmap_create ();
        for (uint32_t piece = 0; piece < 9; piece++)
            if ((pattern + 1) >> piece & 1)
                roaring_bitmap_add_range (data, piece * PIECE, piece * PIECE + PIECE);
        assert_true (strata_refine (strata, 7, data));
        roaring_bitmap_free (data);
        assert_false (strata_depart (strata, 7, pattern < LAST? &goes: &stays, 1));
    }
    assert_int_equal (strata_count (strata), 9);
    assert_true (strata_depart (strata, goes, &stays, 1));
    for (uint32_t pass = 0; pass < 2; pass++) {
        strata_merge (strata);
        for (uint32_t piece = 0; piece < 9; piece++)
            for (uint32_t other = 0; other < 9; other++) {
                bool same = true;
                for (uint32_t pattern = LAST; pattern < DEPARTED; pattern++)
                    same &= ((pattern + 1) >> piece & 1) == ((pattern + 1) >> other & 1);
                assert_int_equal (strata_of (strata, piece * PIECE) == strata_of (strata, other * PIECE + 99),
                    same);
            }
        assert_true (s_refine (strata, pass, 50, 50 + 8 * PIECE, 32));          //  halves a few
        assert_true (strata_of (strata, 0) != strata_of (strata, 99));
        assert_true (strata_depart (strata, pass, NULL, 0));                    //  and makes them one again
    }
    strata_destroy (&strata);
}

static void
test_a_job_that_never_begins_keeps_marks_within_bounds (void **state)
{
    (void) state;
    s_churn (true, 9, test_seed ());
    s_churn (false, STRATA_LEAST, test_seed ());
}

//  ------------------------------------------------------------------------------------------------

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_partition_and_its_model_agree),
        cmocka_unit_test (test_refused_beyond_the_bound),
        cmocka_unit_test (test_every_job_number),
        cmocka_unit_test (test_many_departed_marks),
        cmocka_unit_test (test_a_job_that_never_begins_keeps_marks_within_bounds),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
