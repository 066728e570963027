//  Property: jobs of several ranks and plain ones on one data set, some of them parts of jobs over several
//  nodes, at random, for many seeds.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, CREWS = 4, WORLD_MAX = 4, TURNS = 80, LIST_MAX = 40 };

//  One job: of several ranks, or plain.
typedef struct {
    simulated_job_t job;
    int first;                  //  client; -1: there is none at present
    uint32_t list [LIST_MAX];
    int64_t paces [WORLD_MAX];
    bool doomed [WORLD_MAX];    //  it dies when it is sent something
    char name [16];
} crew_t;

typedef struct {
    simulation_t *simulation;
    uint32_t samples;
    bool (*readable) (void *context, uint32_t id);
    uint64_t random;
    crew_t crews [CREWS];
    int names;
    uint32_t losses, returns, late;     //  what came up
} play_t;

static bool
s_one_in_nine_is_bad (void *context, uint32_t id)
{
    (void) context;
    return id % 9 != 4;
}

static bool
s_most_are_bad (void *context, uint32_t id)
{
    (void) context;
    return id % 5 == 2 || id % 11 == 3;
}

static uint32_t
s_below (play_t *play, uint32_t bound)
{
    return (uint32_t) test_below (&play->random, bound);
}

static bool
s_is_ranked (const crew_t *crew)
{
    return crew->job.world_size > 1;
}

static int
s_client (const play_t *play, const crew_t *crew, uint32_t rank)
{
    return s_is_ranked (crew)? simulation_rank (play->simulation, crew->first, rank): crew->first;
}

static void
s_begin_data (play_t *play, crew_t *crew)
{
    crew->job.from = s_below (play, play->samples);
    crew->job.to = crew->job.from + 1 + s_below (play, play->samples - crew->job.from);
    if (s_below (play, 2)) {
        crew->job.from = 0;
        crew->job.to = play->samples;
    }
    if (crew->job.order == SAMPLER_ORDER_LIST && s_below (play, 2)) {
        crew->job.from = crew->job.to = 0;
        crew->job.list = crew->list;
        crew->job.list_count = 1 + s_below (play, LIST_MAX);
        for (size_t place = 0; place < crew->job.list_count; place++)
            crew->list [place] = s_below (play, play->samples);
    }
}

static void
s_begin (play_t *play, crew_t *crew)
{
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_SHARED,
        SAMPLER_ORDER_PRIVATE, SAMPLER_ORDER_LIST, SAMPLER_ORDER_SEEDED };
    snprintf (crew->name, sizeof crew->name, "crew %d", play->names++);
    crew->job = (simulated_job_t) { .order = orders [s_below (play, 5)],
        .world_size = 1 + s_below (play, WORLD_MAX),
        .batch_size = 1 + s_below (play, 4), .slots = 3 + s_below (play, 3), .epochs = 1 + s_below (play, 3),
        .drop_last = s_below (play, 4) == 0, .seed = s_below (play, 9), .rank_wait_seconds = 10,
        .rank_us = crew->paces,
        .sample_us = s_below (play, 400), .keeps = s_below (play, 2) };
    crew->job.job_name = s_is_ranked (crew)? crew->name: NULL;
    crew->job.pipeline = s_below (play, 2)? "[{\"op\":\"center_crop\",\"size\":[1,1]}]": NULL;
    memset (crew->doomed, 0, sizeof crew->doomed);
    for (uint32_t rank = 0; rank < WORLD_MAX; rank++)
        crew->paces [rank] = s_below (play, 3) == 0? 0: s_below (play, 600);
    s_begin_data (play, crew);
    if (!crew->job.list && s_below (play, 3) == 0) {
        crew->job.nodes = 2 + s_below (play, 3);
        crew->job.node = s_below (play, crew->job.nodes);
    }
    crew->first = simulation_join (play->simulation, &crew->job);
    if (crew->first < 0) {
        const refusal_t *refusal = simulation_refusal (play->simulation);
        bool is_raw = strcmp (refusal->code, "budget") == 0 && strstr (refusal->message, "--raw");
        assert_true (is_raw || strcmp (refusal->code, "bad_request") == 0);     //  drop_last, or nothing can
                                                                                //  be read
    }
}

static uint64_t
s_readable (const play_t *play, const crew_t *crew)
{
    uint64_t count = 0;
    for (size_t place = 0; place < crew->job.list_count; place++)
        count += !play->readable || play->readable (NULL, crew->list [place]);
    for (uint32_t id = crew->job.from; id < crew->job.to; id++)
        count += !play->readable || play->readable (NULL, id);
    return count;
}

//  Dumb: every rank got every step and end, and of each epoch each readable sample once (none twice was
//  checked on arrival).
static void
s_assert_crew (const play_t *play, const crew_t *crew)
{
    uint64_t readable = s_readable (play, crew);
    for (uint32_t rank = 0; rank < crew->job.world_size; rank++) {
        int client = s_client (play, crew, rank);
        assert_true (simulation_finished (play->simulation, client));
        if (s_is_ranked (crew))
            assert_int_equal (simulation_records (play->simulation, client),
                simulation_records_sent (play->simulation, client));
        for (size_t number = 0; number < simulation_epochs (play->simulation, client); number++) {
            const seen_epoch_t *epoch = simulation_epoch (play->simulation, client, number);
            if (!epoch->ended)
                continue;
            if (crew->job.drop_last || crew->job.nodes > 1)
                assert_true (epoch->told_samples <= readable);
            else
                assert_int_equal (epoch->told_samples, readable);
            if (crew->job.list && !play->readable)
                for (size_t place = 0; place < epoch->count; place++)
                    assert_int_equal (epoch->ids [place], crew->list [epoch->before_places + place]);
        }
    }
}

//  Whether all ranks of a crew have had all; or the server has ended it, because too little can be read.
static bool
s_is_over (const play_t *play, const crew_t *crew)
{
    bool finished = true;
    for (uint32_t rank = 0; rank < crew->job.world_size; rank++) {
        const char *message;
        int client = s_client (play, crew, rank);
        if (simulation_ended (play->simulation, client)) {
            assert_string_equal (simulation_reason (play->simulation, client, &message), "unreadable");
            return true;
        }
        finished = finished && simulation_finished (play->simulation, client);
    }
    return finished;
}

static void
s_end (play_t *play, crew_t *crew)
{
    bool was_ended = false;     //  a rank that was lost then is not told
    for (uint32_t rank = 0; rank < crew->job.world_size; rank++)
        was_ended = was_ended || simulation_ended (play->simulation, s_client (play, crew, rank));
    if (!was_ended)
        s_assert_crew (play, crew);
    for (uint32_t rank = 0; rank < crew->job.world_size; rank++)
        if (s_below (play, 2))
            simulation_leave (play->simulation, s_client (play, crew, rank));
        else
            simulation_lose (play->simulation, s_client (play, crew, rank));
    crew->first = -1;
}

//  Loses a rank, though not the last one.
static void
s_lose (play_t *play, crew_t *crew, uint32_t rank)
{
    uint32_t others = 0;
    int client = s_client (play, crew, rank);
    for (uint32_t other = 0; other < crew->job.world_size; other++)
        others += other != rank && !crew->doomed [other]
            && simulation_is_there (play->simulation, s_client (play, crew, other));
    if (others == 0 || simulation_finished (play->simulation, client))
        return;
    play->losses++;
    if (s_below (play, 3) == 0) {
        simulation_dies_at_send (play->simulation, client);
        crew->doomed [rank] = true;
    }
    else
        simulation_lose (play->simulation, client);
}

//  A rank comes back from where it had got to, or some steps before.
static void
s_come_back (play_t *play, crew_t *crew, uint32_t rank, bool is_last)
{
    simulation_t *simulation = play->simulation;
    int client = s_client (play, crew, rank), back;
    size_t records = simulation_records (simulation, client),
        sent = simulation_records_sent (simulation, client), steps = 0;
    size_t least = sent;
    while (least > 0 && steps + !simulation_record (simulation, client, least - 1)->is_end
        <= crew->job.slots + 1)
        steps += !simulation_record (simulation, client, --least)->is_end;
    assert_true (records >= least);
    if (!is_last && s_below (play, 2))
        records = least + s_below (play, (uint32_t) (records - least) + 1);
    simulated_return_t how = { .records = records, .is_inline = s_below (play, 4) == 0,
        .sample_us = s_below (play, 400) };
    broker_return_t answer = simulation_return (simulation, client, &how, &back);
    if (answer == BROKER_RETURN_REFUSED) {      //  it is copied for
        assert_string_equal (simulation_refusal (simulation)->code, "busy");
        if (!is_last)
            return;
        simulation_run (simulation, simulation_now_us (simulation) + SECOND_US / 1000);
        answer = simulation_return (simulation, client, &how, &back);
    }
    assert_int_equal (answer, BROKER_RETURN_READY);
    crew->doomed [rank] = false;
    play->returns++;
    play->late += records < sent;
}

static void
s_turn (play_t *play, crew_t *crew)
{
    simulation_t *simulation = play->simulation;
    uint32_t rank = s_below (play, crew->job.world_size), choice = s_below (play, 8);
    int client = s_client (play, crew, rank);
    if (choice == 0)
        simulation_stop (simulation, client);
    else
    if (choice == 1)
        simulation_continue (simulation, client);
    else
    if (choice == 2 && !s_is_ranked (crew)) {
        simulation_lose (simulation, client);
        crew->first = -1;
    }
    else
    if (s_is_ranked (crew) && !simulation_is_there (simulation, client))
        s_come_back (play, crew, rank, false);
    else
    if (choice <= 4 && s_is_ranked (crew))
        s_lose (play, crew, rank);
}

//  All come back and go on.
static void
s_finish (play_t *play)
{
    for (int number = 0; number < CREWS; number++) {
        crew_t *crew = &play->crews [number];
        for (uint32_t rank = 0; crew->first >= 0 && rank < crew->job.world_size; rank++) {
            int client = s_client (play, crew, rank);
            if (simulation_ended (play->simulation, client) || simulation_finished (play->simulation, client))
                ;
            else
            if (s_is_ranked (crew) && !simulation_is_there (play->simulation, client))
                s_come_back (play, crew, rank, true);
            simulation_continue (play->simulation, s_client (play, crew, rank));
        }
    }
}

static void
s_play (play_t *play, uint64_t seed)
{
    play->random = seed;
    play->samples = 1 + s_below (play, 70);
    simulation_options_t options = { .policy = s_below (play, 2)? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW,
        .seed = seed,
        .samples = play->samples, .cache_versions = 4 + s_below (play, 40), .workers = 1 + s_below (play, 3),
        .check = true,
        .readable = play->readable, .gather_ms = s_below (play, 2), .copy_us = 1 + s_below (play, 300),
        .raw_bytes = s_below (play, 3) == 0? 500000: 0, .tier = s_below (play, 2)? RAW_STREAM: RAW_REDOX };
    play->simulation = simulation_new (&options);
    for (int number = 0; number < CREWS; number++)
        play->crews [number].first = -1;
    for (int turn = 0; turn < TURNS; turn++) {
        crew_t *crew = &play->crews [s_below (play, CREWS)];
        if (crew->first < 0)
            s_begin (play, crew);
        else
        if (s_is_over (play, crew))
            s_end (play, crew);
        else
            s_turn (play, crew);
        simulation_run (play->simulation, simulation_now_us (play->simulation) + s_below (play, 3000));
    }
    bool idle = false;
    for (int again = 0; again < 3; again++) {       //  a client that dies when it is sent something comes
                                                    //  back once more
        s_finish (play);
        idle = simulation_run (play->simulation, simulation_now_us (play->simulation) + 2 * SECOND_US);
    }
    (void) idle;                                    //  an inline rank's lease runs on
    for (int number = 0; number < CREWS; number++) {
        crew_t *crew = &play->crews [number];
        if (crew->first < 0)
            continue;
        assert_true (s_is_over (play, crew));
        s_end (play, crew);
    }
    //  A rank that was lost at its end may come back for what it had not taken.
    simulation_run (play->simulation, simulation_now_us (play->simulation) + 12 * SECOND_US);
    assert_int_equal (simulation_figure (play->simulation, "jobs_bytes"), 0);
    assert_int_equal (simulation_figure (play->simulation, "ring_bytes"), 0);
    assert_int_equal (simulation_figure (play->simulation, "raw_bytes"), 0);
    simulation_destroy (&play->simulation);
}

static void
s_play_all (bool (*readable) (void *context, uint32_t id), uint64_t salt)
{
    static play_t play;
    play = (play_t) { .readable = readable };
    for (uint64_t round = 0; round < EFFORT (80); round++)
        s_play (&play, (test_seed () ^ salt) + round);
    printf ("    %u losses, %u returns, %u of them late\n", play.losses, play.returns, play.late);
    assert_true (play.losses >= EFFORT (80) && play.returns >= EFFORT (80) && play.late >= EFFORT (30));
}

//  Must hold: all invariants after every event, B8, and what each rank must have got.
static void
test_random_play (void **state)
{
    (void) state;
    s_play_all (NULL, 0);
}

static void
test_random_play_with_unreadable_samples (void **state)
{
    (void) state;
    s_play_all (s_one_in_nine_is_bad, 0x5eed);
    s_play_all (s_most_are_bad, 0xbad);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_random_play),
        cmocka_unit_test (test_random_play_with_unreadable_samples)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
