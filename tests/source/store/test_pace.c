//  An epoch that is read of a store on a virtual clock.  A job takes its objects in order, from a window;
//  some GETs are under way at once, through connections that are kept.  In a world one connection, or one GET
//  in many, gives 2 KB a second, no byte, or half of its answer; or all of the store is slow, or becomes so.
//  Replay of a world: TEST_SEED=<its seed>.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "effort.h"
#include "pace.h"
#include "seed.h"

enum {
    TOGETHER_MAX = 128, WORLDS = 150, LOOK_MAX_MS = 1000, PATIENCE_MS = 10000,
    MINUTE_MS = 60000, REQUESTS_MIN = 200, REQUESTS_MAX = 3000, GRAY_REQUESTS_MAX = 20000,
    TRICKLE = 2, PAUSE_MS = 2000, LATENCY_MAX = 1000
};

//  A look that comes when it should: both clocks have the same time.
static pace_time_t
s_at (int64_t ms)
{
    return (pace_time_t) { ms, ms };
}

typedef enum { NONE, CONNECTION, REQUESTS, SLOW, BECOMES_SLOW, KINDS } kind_t;
typedef enum { FAST, TRICKLES, SILENT, STOPS } way_t;

typedef struct {
    uint64_t seed, bytes_min, bytes_max;
    kind_t kind;
    way_t way;
    unsigned together, window, count, every;
    double latency_ms, rate, link;      //  bytes a millisecond: of a connection, of all
    double slowness, look_ms;
} world_t;

typedef struct {
    bool is_taken, is_new, is_gray, is_paused;
    unsigned number;                    //  of the object
    pace_request_t pace;
    uint64_t missing;                   //  bytes, when this try began
    way_t way;
    double first_ms, rate, end_ms;
} get_t;

typedef struct {
    double took_ms;
    unsigned again, failed, gray;
} result_t;

typedef struct {
    const world_t *world;
    uint64_t random;
    bool has_fault, has_rule;
    pace_t pace;
    get_t gets [TOGETHER_MAX];
    unsigned free_good, free_gray;      //  connections that are kept
    bool *done;
    unsigned next, in_order;
    bool has_turned;                    //  the connection has
    double now_ms;
    result_t result;
} epoch_t;


//  -- the world

static double
s_between (uint64_t *random, double least, double most)
{
    double part = (double) test_below (random, 1 << 30) / (1 << 30);
    return least * pow (most / least, part);
}

//  Around 1: two thirds within a factor of 1.5, one in a thousand over 3.
static double
s_around (uint64_t *random)
{
    double sum = 0;
    for (int turn = 0; turn < 12; turn++)
        sum += (double) test_below (random, 1 << 30) / (1 << 30);
    return exp (0.4 * (sum - 6));
}

static world_t
s_make_world (uint64_t seed)
{
    uint64_t random = seed;
    world_t self = { .seed = seed };
    self.kind = (kind_t) test_below (&random, KINDS);
    self.way = (way_t) (TRICKLES + test_below (&random, 3));
    self.together = (unsigned) s_between (&random, 1, TOGETHER_MAX + 0.9);
    self.window = self.together * (1 + (unsigned) test_below (&random, 4));
    self.bytes_min = (uint64_t) s_between (&random, 1 << 10, 16 << 20);
    self.bytes_max = test_below (&random, 2)? self.bytes_min: 16 << 20;
    self.latency_ms = s_between (&random, 1, 200);
    self.rate = s_between (&random, 2000, 100000);
    self.link = self.rate * s_between (&random, 1, 100);
    self.slowness = s_between (&random, 3, 50);
    self.every = 50 + (unsigned) test_below (&random, 200);
    double bytes = (double) (self.bytes_min + self.bytes_max) / 2,
        alone = self.latency_ms + bytes / self.rate,
        each = fmax (alone / self.together, bytes / self.link);
    self.look_ms = fmin (fmax (PACE_LOOK_MS, alone / 8), LOOK_MAX_MS);
    double most = self.kind == REQUESTS? GRAY_REQUESTS_MAX: REQUESTS_MAX;
    self.count = (unsigned) fmin (fmax (MINUTE_MS / each, REQUESTS_MIN), most);
    return self;
}

static bool
s_is_slow_now (const epoch_t *self)
{
    const world_t *world = self->world;
    return self->has_fault && (world->kind == SLOW
        || (world->kind == BECOMES_SLOW && self->in_order > world->count / 2));
}

//  The connection is a kept one if there is any and it may be.
static void
s_connect (epoch_t *self, get_t *get, bool is_again)
{
    unsigned kept = self->free_good + self->free_gray;
    get->is_new = is_again || kept == 0;
    get->is_gray = !get->is_new && test_below (&self->random, kept) < self->free_gray;
    if (get->is_gray)
        self->free_gray--;
    else
    if (!get->is_new)
        self->free_good--;
    if (self->has_fault && self->world->kind == CONNECTION && !self->has_turned
    &&  get->number >= self->world->seed % self->world->count)
        self->has_turned = get->is_gray = true;
}

static void
s_begin_try (epoch_t *self, get_t *get, bool is_again)
{
    const world_t *world = self->world;
    s_connect (self, get, is_again);
    bool is_hit = self->has_fault && world->kind == REQUESTS && test_below (&self->random, world->every) == 0;
    get->way = get->is_gray || is_hit? world->way: FAST;
    self->result.gray += get->way != FAST;
    double slowness = s_is_slow_now (self)? world->slowness: 1,
        usual_ms = fmin (world->latency_ms * slowness, LATENCY_MAX),
        latency_ms = usual_ms * s_around (&self->random) * (get->is_new? 3: 1);
    get->first_ms = self->now_ms + latency_ms;
    get->rate = fmin (world->rate * s_around (&self->random), world->link
        / (double) (self->pace.under_way + 1)) / slowness;
    get->end_ms = get->first_ms + (double) get->missing / get->rate;
    if (get->way == TRICKLES)
        get->end_ms = get->first_ms + (double) get->missing / TRICKLE;
    if (get->way == SILENT || get->way == STOPS)
        get->end_ms = INFINITY;
    get->is_paused = false;
}

static uint64_t
s_came (const get_t *get, double now_ms)
{
    double time_ms = fmax (now_ms - get->first_ms, 0), all = (double) get->missing;
    switch (get->way) {
    case TRICKLES:
        return (uint64_t) fmin (all, time_ms * TRICKLE);
    case SILENT:
        return 0;
    case STOPS:
        return (uint64_t) fmin (all / 2, time_ms * get->rate);
    default:
        return (uint64_t) fmin (all, time_ms * get->rate);
    }
}

static void
s_begin_gets (epoch_t *self)
{
    const world_t *world = self->world;
    for (unsigned at = 0; at < world->together; at++) {
        get_t *get = &self->gets [at];
        if (get->is_taken || self->next == world->count || self->next >= self->in_order + world->window)
            continue;
        uint64_t sizes = world->seed + self->next,
            bytes = (uint64_t) s_between (&sizes, (double) world->bytes_min, (double) world->bytes_max);
        *get = (get_t) { .is_taken = true, .number = self->next++, .missing = bytes,
            .pace = { .bytes = bytes, .patience_ms = PATIENCE_MS } };
        s_begin_try (self, get, false);
        pace_begin (&self->pace, &get->pace, s_at ((int64_t) self->now_ms));
    }
}

static void
s_complete (epoch_t *self, get_t *get)
{
    self->now_ms = get->end_ms;
    pace_move (&get->pace, 1, s_at ((int64_t) get->first_ms));
    pace_move (&get->pace, get->missing, s_at ((int64_t) get->end_ms));
    pace_end (&self->pace, &get->pace, true, (int64_t) get->end_ms);
    *(get->is_gray? &self->free_gray: &self->free_good) += 1;
    get->is_taken = false;
    self->done [get->number] = true;
    while (self->in_order < self->world->count && self->done [self->in_order])
        self->in_order++;
}

//  Of all that are done until then, the first one.
static get_t *
s_first_done (epoch_t *self, double until_ms)
{
    get_t *first = NULL;
    for (unsigned at = 0; at < self->world->together; at++) {
        get_t *get = &self->gets [at];
        if (get->is_taken && !get->is_paused && get->end_ms <= until_ms
        &&  (!first || get->end_ms < first->end_ms))
            first = get;
    }
    return first;
}

static void
s_look_at (epoch_t *self, get_t *get)
{
    if (get->is_paused) {
        if (self->now_ms < get->end_ms)
            return;
        get->pace = (pace_request_t) { .bytes = get->missing, .patience_ms = PATIENCE_MS };
        s_begin_try (self, get, false);
        pace_begin (&self->pace, &get->pace, s_at ((int64_t) self->now_ms));
        return;
    }
    uint64_t came = s_came (get, self->now_ms);
    if (came > get->pace.came)
        pace_move (&get->pace, came, s_at (get->pace.came? (int64_t) self->now_ms: (int64_t) get->first_ms));
    pace_verdict_t verdict = pace_judge (&self->pace, &get->pace, s_at ((int64_t) self->now_ms));
    if (verdict == PACE_AGAIN && self->has_rule) {
        get->missing -= came;
        self->result.again++;
        s_begin_try (self, get, true);
        pace_again (&get->pace, get->missing, s_at ((int64_t) self->now_ms));
    }
    else
    if (verdict == PACE_STILL) {
        pace_end (&self->pace, &get->pace, false, (int64_t) self->now_ms);
        get->missing -= came;
        self->result.failed++;
        get->is_paused = true;
        get->end_ms = self->now_ms + PAUSE_MS;
    }
}

static result_t
s_run (const world_t *world, bool has_fault, bool has_rule)
{
    static epoch_t self;
    self = (epoch_t) { .world = world, .random = world->seed, .has_fault = has_fault, .has_rule = has_rule,
        .pace = pace_new (), .done = calloc (world->count, 1) };
    assert_non_null (self.done);
    while (self.in_order < world->count) {
        double look_ms = self.now_ms + world->look_ms;
        s_begin_gets (&self);
        for (get_t *get; (get = s_first_done (&self, look_ms)); s_begin_gets (&self))
            s_complete (&self, get);
        if (self.in_order == world->count)
            break;
        self.now_ms = look_ms;
        for (unsigned at = 0; at < world->together; at++)
            if (self.gets [at].is_taken)
                s_look_at (&self, &self.gets [at]);
    }
    free (self.done);
    self.result.took_ms = self.now_ms;
    return self.result;
}


//  -- the tests

typedef struct {
    unsigned worlds, gray, again, failed;
    double worst, worst_without, share;
} summary_t;

//  How many times as long as without the fault, for an epoch of a minute or more.
static double
s_ratio (const world_t *world, result_t result, result_t quiet)
{
    double lost_ms = result.took_ms - quiet.took_ms;
    return world->kind == CONNECTION && quiet.took_ms < MINUTE_MS? 1 + lost_ms / MINUTE_MS:
        1 + lost_ms / quiet.took_ms;
}

static void
s_judge (const world_t *world, result_t quiet, result_t result, double ratio)
{
    double allowed = 1 + PACE_OWED + PACE_SHARE * world->count, alarms = 2 + 0.01 * world->count;
    if (quiet.again > alarms || result.again > allowed || ratio > 3)
        fail_msg ("seed %" PRIu64 ", kind %d, way %d: %.2f times as long (%.0f ms, quiet %.0f), %u again"
            " (quiet %u), %u failed, %u gray, %u together of %u, %" PRIu64 " to %" PRIu64 " bytes",
            world->seed,
            world->kind, world->way, ratio, result.took_ms, quiet.took_ms, result.again, quiet.again,
            result.failed, result.gray, world->together, world->count, world->bytes_min, world->bytes_max);
}

static void
s_add (summary_t *self, const world_t *world, result_t result, double ratio, double without)
{
    self->worlds++;
    self->gray += result.gray;
    self->again += result.again;
    self->failed += result.failed;
    self->worst = fmax (self->worst, ratio);
    self->worst_without = fmax (self->worst_without, without);
    self->share = fmax (self->share, (double) result.again / world->count);
}

//  Guards: neither a slow connection nor one slow GET in 50 to 250 makes an epoch of a minute, or the
//  part of it that is simulated, three times as long (of 653 worlds of slow GETs, most of other seeds, four
//  had 3.1 to 3.3); one GET in twenty is asked again at most, and where the whole store is slow, or nothing
//  is, hardly any.
static void
test_worlds (void **state)
{
    (void) state;
    static const char *const names [KINDS] = { "quiet", "one connection", "some GETs", "slow",
        "becomes slow" };
    summary_t summaries [KINDS] = { { .worlds = 0 } };
    for (unsigned number = 0; number < EFFORT (WORLDS); number++) {
        world_t world = s_make_world (test_seed () + number);
        result_t quiet = s_run (&world, false, true), result = s_run (&world, true, true),
            base = quiet, without = result;
        bool is_slow = world.kind == SLOW || world.kind == BECOMES_SLOW;
        if (is_slow)                    //  beside the same slow store without the rule
            base = s_run (&world, true, false);
        double ratio = s_ratio (&world, result, base);
        if (world.kind == CONNECTION || world.kind == REQUESTS)
            without = s_run (&world, true, false);
        s_judge (&world, quiet, result, ratio);
        s_add (&summaries [world.kind], &world, result, ratio, s_ratio (&world, without, base));
    }
    for (int kind = 0; kind < KINDS; kind++)
        print_message ("%s: %u worlds, %u gray, %u again (at most %.4f of all), %u failed; at most %.3f times"
            " as long, %.3f without the rule\n", names [kind], summaries [kind].worlds, summaries [kind].gray,
            summaries [kind].again, summaries [kind].share, summaries [kind].failed, summaries [kind].worst,
            summaries [kind].worst_without);
}


//  -- what is usual

//  A request that gets its first byte after first_ms, and its last one rest_ms later.
static void
s_do_one (pace_t *pace, uint64_t bytes, int64_t first_ms, int64_t rest_ms)
{
    pace_request_t request = { .bytes = bytes, .patience_ms = PATIENCE_MS };
    pace_begin (pace, &request, s_at (0));
    pace_move (&request, 1, s_at (first_ms));
    pace_move (&request, bytes, s_at (first_ms + rest_ms));
    pace_end (pace, &request, true, first_ms + rest_ms);
}

//  Guards: of the last PACE_KEPT times, in whatever order they came, a tenth is longer than the usual one,
//  and so of the times of a byte; a request is asked again beyond the limit that follows from these, and not
//  before.
static void
test_what_is_usual (void **state)
{
    (void) state;
    static const int shuffled [] = { 4, 10, 1, 7, 3, 9, 6, 2, 8, 5 };
    pace_t pace = pace_new ();
    for (size_t index = 0; index < sizeof shuffled / sizeof *shuffled; index++)
        s_do_one (&pace, 1 << 20, shuffled [index], (int64_t) shuffled [index] << 20);
    assert_true (pace.learned [0].usual == 9 && pace.learned [2].usual == 9);
    assert_true (pace.learned [1].count == 0 && pace.learned [3].count == 0);

    pace_request_t request = { .bytes = 100, .patience_ms = MINUTE_MS };
    int64_t limit_ms = PACE_SLACK_MS + PACE_TIMES * (9 + 9 * 100);
    pace_begin (&pace, &request, s_at (0));
    assert_int_equal (pace_judge (&pace, &request, s_at (limit_ms)), PACE_WAIT);
    assert_int_equal (pace_judge (&pace, &request, s_at (limit_ms + 1)), PACE_AGAIN);

    //  1 .. PACE_KEPT, behind as many longer ones that are forgotten.
    pace = pace_new ();
    for (int number = 0; number < 2 * PACE_KEPT; number++)
        s_do_one (&pace, 1, number < PACE_KEPT? 1000: 1 + number * 37 % PACE_KEPT, 0);
    assert_true (pace.learned [0].usual == 58);

    //  What is known of small answers has all of their bytes in it.
    request.bytes = 60000;
    limit_ms = PACE_SLACK_MS + PACE_TIMES * 58;
    pace_begin (&pace, &request, s_at (0));
    assert_int_equal (pace_judge (&pace, &request, s_at (limit_ms)), PACE_WAIT);
    assert_int_equal (pace_judge (&pace, &request, s_at (limit_ms + 1)), PACE_AGAIN);
}

//  Guards: what is learned of a request that was asked again is of its last try.
static void
test_what_is_learned_of_the_last_try (void **state)
{
    (void) state;
    pace_t pace = pace_new ();
    pace_request_t request = { .bytes = 2 << 20, .patience_ms = MINUTE_MS };
    pace_begin (&pace, &request, s_at (0));
    pace_move (&request, 1 << 20, s_at (500));
    pace_again (&request, 1 << 20, s_at (10000));
    pace_move (&request, 1, s_at (10007));
    pace_move (&request, 1 << 20, s_at (10007 + (3 << 20)));
    pace_end (&pace, &request, true, 10007 + (3 << 20));
    assert_true (pace.learned [0].usual == 7 && pace.learned [2].usual == 3);
}

//  Guards: where none is done for PACE_IDLE_MS, one is asked again and no other: the time counts from the
//  first of those under way, and anew behind one that was asked again or was done.  PACE_SAVED may be saved.
static void
test_idle_stores (void **state)
{
    (void) state;
    enum { BEGIN_MS = 10 * MINUTE_MS, SHORT_MS = PACE_IDLE_MS - 1 };
    pace_t pace = pace_new ();
    for (int number = 0; number < PACE_KEPT / 2; number++)
        s_do_one (&pace, 1, 1, 0);
    pace.allowed = 0;
    pace.beside = 4;                    //  as many as here are usual
    pace_request_t requests [4];
    for (size_t index = 0; index < 4; index++) {
        requests [index] = (pace_request_t) { .bytes = 100, .patience_ms = 2 * MINUTE_MS };
        pace_begin (&pace, &requests [index], s_at (BEGIN_MS));
    }
    int64_t now_ms = BEGIN_MS + SHORT_MS;
    assert_int_equal (pace_judge (&pace, &requests [0], s_at (now_ms)), PACE_WAIT);
    assert_int_equal (pace_judge (&pace, &requests [0], s_at (++now_ms)), PACE_AGAIN);
    assert_int_equal (pace_judge (&pace, &requests [1], s_at (now_ms + SHORT_MS)), PACE_WAIT);
    pace_move (&requests [3], 100, s_at (now_ms + SHORT_MS));
    pace_end (&pace, &requests [3], true, now_ms + SHORT_MS);
    assert_int_equal (pace_judge (&pace, &requests [1], s_at (now_ms + 2 * SHORT_MS)), PACE_WAIT);
    assert_int_equal (pace_judge (&pace, &requests [1], s_at (now_ms + SHORT_MS + PACE_IDLE_MS)), PACE_AGAIN);
    for (int number = 0; number < 1000; number++)
        s_do_one (&pace, 1, 1, 0);
    assert_true (pace.allowed == PACE_SAVED);
}

//  Guards: where the caller looks late a request is not slow, and its patience ends all the same.
static void
test_patience_goes_on_where_nothing_is_judged (void **state)
{
    (void) state;
    pace_t pace = pace_new ();
    for (int count = 0; count < PACE_KEPT; count++)
        s_do_one (&pace, 1 << 20, 10, 10);
    pace_request_t request = { .bytes = 1 << 20, .patience_ms = PATIENCE_MS };
    pace_begin (&pace, &request, s_at (0));
    assert_int_equal (pace_judge (&pace, &request, (pace_time_t) { 20, PATIENCE_MS - 1 }), PACE_WAIT);
    assert_int_equal (pace_judge (&pace, &request, (pace_time_t) { 20, PATIENCE_MS }), PACE_STILL);
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_what_is_usual),
        cmocka_unit_test (test_what_is_learned_of_the_last_try), cmocka_unit_test (test_idle_stores),
        cmocka_unit_test (test_patience_goes_on_where_nothing_is_judged),
        cmocka_unit_test (test_worlds) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
