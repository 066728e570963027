//  Ranks: loaders that take one job together, each with a fake server that plays its part of it; beside a
//  simple model of the job.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fake_checks.h"
#include "loader_thread.h"
#include "recent_steps.h"
#include "rejoin.h"
#include "seed.h"
#include "tureen.h"

enum { RANKS_MAX = 4, SAMPLES_MAX = 40, EPOCHS = 2, SLOTS = 3, EVENTS_MAX = EPOCHS * (SAMPLES_MAX + 1),
    HELD_MAX = 2, ROUNDS = 10 };

static char s_error [TUREEN_ERROR_BYTES];

//  --------------------------------------------------------------------------
//  The model: what all ranks get, one sample dealt after the other

typedef struct {
    bool is_end;
    uint64_t epoch;
    uint64_t index;                     //  of an end: the epoch's steps
    uint64_t ids [SAMPLES_MAX];
    uint64_t count;                     //  of an end: the epoch's samples
    uint64_t counts [RANKS_MAX];
    uint64_t before;                    //  samples of the epoch up to its end
} event_t;

typedef struct {
    uint32_t world_size, batch_size;
    uint64_t samples;
    bool has_list;
    uint64_t list [SAMPLES_MAX];
    event_t events [EVENTS_MAX];
    size_t event_count;
} model_t;

static event_t *
s_add_event (model_t *self, uint64_t epoch, uint64_t index, uint64_t before)
{
    event_t *event = &self->events [self->event_count++];
    *event = (event_t) { .epoch = epoch, .index = index, .before = before };
    return event;
}

static void
s_deal (model_t *self)
{
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint64_t index = 0, place = 0;
        while (place < self->samples) {
            event_t *event = s_add_event (self, epoch, index++, 0);
            for (; place < self->samples && event->count < self->world_size * self->batch_size; place++) {
                event->counts [event->count % self->world_size]++;
                event->ids [event->count++] = self->has_list? self->list [place]: place;
            }
            event->before = place;
        }
        event_t *end = s_add_event (self, epoch, index, place);
        end->is_end = true;
        end->count = place;
    }
}

static void
s_draw (model_t *self, uint64_t *random)
{
    *self = (model_t) { .world_size = (uint32_t) (2 + test_below (random, RANKS_MAX - 1)),
        .batch_size = (uint32_t) (1 + test_below (random, 4)),
        .samples = 1 + test_below (random, SAMPLES_MAX),
        .has_list = test_below (random, 3) == 0 };
    for (size_t place = 0; place < self->samples; place++)
        self->list [place] = test_below (random, self->samples);
    s_deal (self);
}

//  --------------------------------------------------------------------------
//  The ranks

typedef struct {
    fake_server_t *fake;
    tureen_loader_t *loader;
    uint64_t sequence;
    tureen_batch_t *held [HELD_MAX];
} rank_t;

static tureen_loader_t *
s_join (const model_t *model, fake_server_t *fake, uint32_t rank, tureen_transport_t transport)
{
    tureen_options_t options = { .endpoint = fake_endpoint (fake), .dataset = "train",
        .batch_size = model->batch_size,
        .epochs = EPOCHS, .slots = SLOTS, .transport = transport, .timeout_ms = PATIENCE_MS, .job = "trial-3",
        .world_size = model->world_size, .rank = rank };
    if (model->has_list) {
        options.order = TUREEN_LIST;
        options.ids = model->list;
        options.id_count = model->samples;
    }
    tureen_loader_t *loader = tureen_loader_new (&options, s_error, sizeof s_error);
    if (!loader)
        fail_msg ("%s", s_error);
    const tureen_info_t *info = tureen_loader_info (loader);
    assert_true (info->rank == rank && info->world_size == model->world_size);
    return loader;
}

//  Its part of a step, or padding.
static void
s_check_part (const model_t *model, const event_t *event, uint32_t rank, const tureen_batch_t *batch)
{
    uint64_t first = 0, count = event->counts [rank];
    for (uint32_t other = 0; other < rank; other++)
        first += event->counts [other];
    assert_int_equal (tureen_batch_epoch (batch), event->epoch);
    assert_int_equal (tureen_batch_index (batch), event->index);
    assert_int_equal (tureen_batch_padding (batch), count == 0);
    assert_int_equal (tureen_batch_count (batch), count? count: 1);
    fake_check_batch (batch);
    if (count)
        assert_memory_equal (tureen_batch_ids (batch), event->ids + first, count * sizeof (uint64_t));
    else
        assert_int_equal (tureen_batch_ids (batch) [0], event->ids [0]);
    //  A step that is full is dealt in batches.
    assert_true (event->count < model->world_size * model->batch_size || count == model->batch_size);
}

//  Keeps some batches for a while.  Their bytes must stay what they were whatever comes.
static void
s_keep (rank_t *self, tureen_batch_t *batch, uint64_t *random)
{
    uint64_t which = test_below (random, HELD_MAX + 2);
    tureen_batch_t **place = which < HELD_MAX? &self->held [which]: &batch;
    if (which < HELD_MAX && *place)
        fake_check_batch (*place);
    tureen_batch_release (place);
    if (which < HELD_MAX)
        *place = batch;
}

static void
s_take (const model_t *model, const event_t *event, rank_t *self, uint32_t rank, uint64_t *random)
{
    tureen_batch_t *batch;
    tureen_event_t got = tureen_loader_next_within (self->loader, &batch, PATIENCE_MS);
    if (got != (event->is_end? TUREEN_EPOCH_END: TUREEN_BATCH))
        fail_msg ("rank %" PRIu32 ", epoch %" PRIu64 ", step %" PRIu64 ": event %d, %s", rank, event->epoch,
            event->index, got, tureen_loader_error (self->loader));
    if (event->is_end) {
        assert_int_equal (tureen_loader_epoch (self->loader).batches, event->index);
        assert_int_equal (tureen_loader_epoch (self->loader).samples, event->count);
        return;
    }
    assert_int_equal (tureen_batch_sequence (batch), self->sequence++);
    s_check_part (model, event, rank, batch);
    s_keep (self, batch, random);
}

//  After the same step all states are the same text, of the whole job.
static void
s_check_states (const model_t *model, const event_t *event, rank_t *ranks)
{
    char *first, *other, expected [128];
    assert_int_equal (tureen_loader_state (ranks [0].loader, &first), 0);
    snprintf (expected, sizeof expected,
        "\"epoch\": \"%" PRIu64 "\", \"batches\": \"%" PRIu64 "\", \"taken\": {\"%s\": \"%" PRIu64
        "\"", event->epoch + event->is_end, event->is_end? 0: event->index + 1,
        model->has_list? "places": "count", event->is_end? 0: event->before);
    if (!strstr (first, expected))
        fail_msg ("%s is not in %s", expected, first);
    for (uint32_t rank = 1; rank < model->world_size; rank++) {
        assert_int_equal (tureen_loader_state (ranks [rank].loader, &other), 0);
        assert_string_equal (first, other);
        free (other);
    }
    free (first);
}

//  The last JOIN's `recent`: what was received last, up to where it goes on.
static void
s_check_recent (const model_t *model, const fake_seen_t *seen)
{
    size_t end = 0, first, steps = 0, read = 0;
    while (end < model->event_count && (model->events [end].epoch < seen->resume_epoch
    ||  (model->events [end].epoch == seen->resume_epoch && !model->events [end].is_end
    &&   model->events [end].index < seen->resume_batches)))
        end++;
    for (first = end; first > 0; first--) {
        if (!model->events [first - 1].is_end && steps == SLOTS + 1)
            break;
        steps += !model->events [first - 1].is_end;
    }
    for (size_t index = first; index < end; index++) {
        const event_t *event = &model->events [index];
        const uint64_t *record = seen->recent + read;
        assert_true (read + 4 <= seen->recent_count);
        assert_int_equal (record [0], event->is_end);
        assert_int_equal (record [1], event->epoch);
        assert_int_equal (record [2], event->index);
        assert_int_equal (record [3], event->count);
        read += 4;
        if (event->is_end)
            continue;
        assert_memory_equal (record + 4, event->counts, model->world_size * sizeof *record);
        assert_memory_equal (record + 4 + model->world_size, event->ids, event->count * sizeof *record);
        read += model->world_size + event->count;
    }
    assert_int_equal (read, seen->recent_count);
}

static void
s_end (const model_t *model, rank_t *self, bool dies)
{
    tureen_batch_t *batch;
    assert_int_equal (tureen_loader_next_within (self->loader, &batch, PATIENCE_MS), TUREEN_END);
    for (size_t which = 0; which < HELD_MAX; which++) {
        if (self->held [which])
            fake_check_batch (self->held [which]);
        tureen_batch_release (&self->held [which]);
    }
    WAIT_FOR (self->fake, seen, seen.leaves == 1);
    fake_seen_t seen = fake_seen (self->fake);
    assert_int_equal (seen.wrong, 0);
    assert_int_equal (seen.joins, 1 + dies);
    if (dies)
        s_check_recent (model, &seen);
    tureen_loader_destroy (&self->loader);
    fake_destroy (&self->fake);
}

//  Property: whatever the sizes, and wherever each rank's server dies, each gets its part of every step once,
//  all the same ends, and the states are one.
static void
test_ranks_take_one_job (void **state)
{
    (void) state;
    uint64_t random = test_seed (), loose = 0;
    for (int round = 0; round < ROUNDS; round++) {
        static model_t model;
        s_draw (&model, &random);
        rank_t ranks [RANKS_MAX] = { { .fake = NULL } };
        bool dies [RANKS_MAX];
        for (uint32_t rank = 0; rank < model.world_size; rank++) {
            fake_plan_t plan = { .samples = model.samples, .epochs = EPOCHS,
                .loose = test_below (&random, SLOTS + 2),
                .revive_ms = 10, .gathering = test_below (&random, 3) };
            dies [rank] = test_below (&random, 2);
            //  In time: after the last batch there may be nothing to come back for.
            plan.deed = dies [rank]? FAKE_DIE: FAKE_NOTHING;
            plan.deed_batches = test_below (&random, model.event_count - EPOCHS);
            ranks [rank].fake = fake_new (&plan);
            ranks [rank].loader = s_join (&model, ranks [rank].fake, rank,
                (tureen_transport_t) test_below (&random, 2));
        }
        for (size_t index = 0; index < model.event_count; index++) {
            for (uint32_t rank = 0; rank < model.world_size; rank++)
                s_take (&model, &model.events [index], &ranks [rank], rank, &random);
            s_check_states (&model, &model.events [index], ranks);
        }
        for (uint32_t rank = 0; rank < model.world_size; rank++) {
            loose += fake_seen (ranks [rank].fake).loose;
            s_end (&model, &ranks [rank], dies [rank]);
        }
    }
    assert_true (loose > 0);
}

//  --------------------------------------------------------------------------
//  What is kept of the last steps, beside a simple list of them

enum { RECORDS = 600, RECORD_NUMBERS = 4 + RANKS_MAX + RANKS_MAX * 3 };

typedef struct {
    uint64_t numbers [RECORD_NUMBERS];
    size_t count;
} record_t;

static void
s_check_records (const recent_steps_t *recent, const record_t *records, size_t count)
{
    size_t first = count, steps = 0, number_count, place = 0;
    for (; first > 0 && count - first < WIRE_RECENT_RECORDS_MAX; first--) {
        bool is_step = records [first - 1].numbers [0] == WIRE_RECENT_STEP;
        if (is_step && steps == recent->steps_max)
            break;
        steps += is_step;
    }
    const uint64_t *numbers = recent_steps_numbers (recent, &number_count);
    for (size_t index = first; index < count; place += records [index++].count) {
        assert_true (place + records [index].count <= number_count);
        assert_memory_equal (numbers + place, records [index].numbers,
            records [index].count * sizeof *numbers);
    }
    assert_int_equal (place, number_count);
}

static void
test_what_is_kept_of_the_last_steps (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    static record_t records [RECORDS];
    for (uint32_t round = 0; round < 6; round++) {
        recent_steps_t recent = { .world_size = 2 + round % 3, .steps_max = round % 2? 65: 4 };
        for (size_t count = 0; count < RECORDS;) {
            record_t *record = &records [count];
            uint64_t each = 1 + test_below (&random, 3), *numbers = record->numbers;
            //  In the first rounds nearly all are ends, so that there are too many records before there are
            //  too many steps.
            bool is_end = round < 2? test_below (&random, 6) != 0: test_below (&random, 9) == 0;
            numbers [0] = is_end? WIRE_RECENT_END: WIRE_RECENT_STEP;
            numbers [1] = round;
            numbers [2] = count;
            numbers [3] = recent.world_size * each;
            record->count = is_end? 4: 4 + recent.world_size * (1 + each);
            for (size_t place = 4; place < record->count; place++)
                numbers [place] = place < 4 + recent.world_size? each: test_below (&random, 1000);
            message_batch_t batch = { .head = { .epoch = round, .index = count },
                .counts = (uint8_t *) (numbers + 4),
                .step = (uint8_t *) (numbers + 4 + recent.world_size), .step_count = numbers [3] };
            wire_epoch_end_t end = { .epoch = round, .batches = count, .samples = numbers [3] };
            assert_true (is_end? recent_steps_add_end (&recent, &end): recent_steps_add (&recent, &batch));
            s_check_records (&recent, records, ++count);
        }
        recent_steps_clear (&recent);
    }
}

//  Steps as large as they may be: no more ids than a JOIN may hold.
static void
test_large_steps (void **state)
{
    (void) state;
    enum { IDS = 1 << 19 };
    uint64_t counts [2] = { IDS / 2, IDS / 2 }, *ids = calloc (IDS, sizeof *ids);
    size_t count;
    recent_steps_t recent = { .world_size = 2, .steps_max = 4 };
    for (uint64_t index = 0; index < 5; index++) {
        message_batch_t batch = { .head = { .index = index }, .counts = (uint8_t *) counts,
            .step = (uint8_t *) ids,
            .step_count = IDS };
        assert_true (recent_steps_add (&recent, &batch));
    }
    assert_int_equal (recent_steps_numbers (&recent, &count) [2], 3);
    assert_int_equal (count, 2 * (4 + 2 + IDS));
    recent_steps_clear (&recent);
    free (ids);
}

//  --------------------------------------------------------------------------
//  Gathering

static fake_server_t *
s_fake (fake_plan_t plan)
{
    plan.samples = 10;
    plan.epochs = EPOCHS;
    return fake_new (&plan);
}

static const model_t s_two = { .world_size = 2, .batch_size = 2 };

//  Each NOTICE renews the time that the answer has; without one, it is over.
static void
test_gathered_ranks_are_waited_for (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake ((fake_plan_t) { .gathering = 8, .gathering_ms = 300 });
    tureen_options_t options = { .endpoint = fake_endpoint (fake), .dataset = "train", .batch_size = 2,
        .job = "j",
        .world_size = 2, .rank = 1, .timeout_ms = 2000, .gather_seconds = 77, .rank_wait_seconds = -1 };
    tureen_loader_t *loader = tureen_loader_new (&options, s_error, sizeof s_error);
    if (!loader)
        fail_msg ("%s", s_error);
    fake_seen_t seen = fake_seen (fake);
    assert_int_equal (seen.gatherings, 8);
    assert_int_equal (seen.joins, 1);
    assert_non_null (strstr (seen.join, "\"world_size\":2,\"rank\":1,\"gather\":77,\"rank_wait\":0}"));
    assert_null (tureen_loader_notice (loader));
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
    fake = s_fake ((fake_plan_t) { .deaf = true });
    options.endpoint = fake_endpoint (fake);
    assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
    assert_int_equal (errno, ETIMEDOUT);
    fake_destroy (&fake);
}

static void
test_a_gathering_that_fails (void **state)
{
    (void) state;
    static const char *const codes [] = { "ranks_missing", "ranks_differ" };
    for (size_t index = 0; index < 2; index++) {
        fake_server_t *fake = s_fake ((fake_plan_t) { .refuse = "rank 0 says so",
            .refuse_code = codes [index] });
        tureen_options_t options = { .endpoint = fake_endpoint (fake), .dataset = "train", .job = "j",
            .world_size = 2 };
        assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
        assert_int_equal (errno, ECONNREFUSED);
        assert_non_null (strstr (s_error, "rank 0 says so"));
        assert_non_null (strstr (s_error, codes [index]));
        assert_int_equal (fake_seen (fake).joins, 1);
        fake_destroy (&fake);
    }
    //  A server that takes us for another rank, or knows of none.
    static const char *const ranks [] = { "\"rank\":1,\"world_size\":2", "\"rank\":0,\"world_size\":3",
        "\"future\":1" };
    for (size_t index = 0; index < 3; index++) {
        char joined [512];
        snprintf (joined, sizeof joined,
            "{\"job\":1,\"samples\":9,\"dataset_samples\":9,\"batch_size\":64,\"slots\":4,"
            "\"slot_bytes\":4096,\"fields\":[{\"name\":\"x\",\"dtype\":\"uint8\",\"shape\":[8],"
            "\"offset\":0,\"sample_bytes\":8}],"
            "\"ring\":null,\"seed\":1,%s}", ranks [index]);
        fake_server_t *fake = s_fake ((fake_plan_t) { .joined = joined });
        tureen_options_t options = { .endpoint = fake_endpoint (fake), .dataset = "train", .job = "j",
            .world_size = 2 };
        assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
        assert_int_equal (errno, EPROTO);
        assert_non_null (strstr (s_error, "the server took this process for rank "));
        fake_destroy (&fake);
    }
}

typedef struct {
    fake_server_t *fake;
    fake_deed_t deed;
} spoiler_t;

static void *
s_spoil (void *argument)
{
    spoiler_t *self = argument;
    WAIT_FOR (self->fake, seen, seen.gatherings >= 2);
    fake_do (self->fake, self->deed);
    return NULL;
}

//  The end of a server that gathers is seen at once, its silence when there should have been some notices.
static void
test_a_server_that_dies_while_it_gathers (void **state)
{
    (void) state;
    static const struct { fake_deed_t deed; int timeout_ms, error; const char *says; } cases [] = {
        { FAKE_DIE, PATIENCE_MS, ECONNRESET, "the connection to the server broke" },
        { FAKE_SILENT, LOADER_THREAD_GATHERING_MS, ETIMEDOUT,
            "the server waited for other ranks, and has fallen silent" }
    };
    for (size_t index = 0; index < 2; index++) {
        fake_server_t *fake = s_fake ((fake_plan_t) { .gathering = UINT64_MAX, .gathering_ms = 20 });
        spoiler_t spoiler = { .fake = fake, .deed = cases [index].deed };
        pthread_t thread;
        assert_int_equal (pthread_create (&thread, NULL, s_spoil, &spoiler), 0);
        tureen_options_t options = { .endpoint = fake_endpoint (fake), .dataset = "train", .job = "j",
            .world_size = 2,
            .timeout_ms = cases [index].timeout_ms, .rejoin_ms = -1 };
        assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
        assert_int_equal (errno, cases [index].error);
        if (!strstr (s_error, cases [index].says))
            fail_msg ("%s", s_error);
        pthread_join (thread, NULL);
        fake_destroy (&fake);
    }
}

//  A rank that left to join again inline would end the job of the others.
static void
test_a_ring_that_cannot_be_mapped (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake ((fake_plan_t) { .ring = FAKE_RING_SHORT });
    tureen_options_t options = { .endpoint = fake_endpoint (fake), .dataset = "train", .job = "j",
        .world_size = 2 };
    assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
    assert_int_equal (errno, EPROTO);
    assert_non_null (strstr (s_error, "ask for TUREEN_INLINE"));
    assert_int_equal (fake_seen (fake).leaves, 0);
    assert_int_equal (fake_seen (fake).joins, 1);
    fake_destroy (&fake);
}

//  --------------------------------------------------------------------------
//  Going on

//  Takes so many batches.
static void
s_take_some (tureen_loader_t *loader, int count)
{
    while (count--) {
        tureen_batch_t *batch;
        assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_BATCH);
        tureen_batch_release (&batch);
    }
}

//  The server is back, and waits for the others: the user is told each once.  It asks for what is left of its
//  own time; "one is missing" is no reason to give up before.
static void
test_gathered_again (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake ((fake_plan_t) { .deed = FAKE_DIE, .deed_batches = 2, .revive_ms = 20,
        .gathering = 3,
        .refuse = "rank 0 is late", .refuse_code = "ranks_missing", .refuse_after = 1, .refuse_times = 2 });
    tureen_loader_t *loader = s_join (&s_two, fake, 1, TUREEN_AUTO);
    s_take_some (loader, 3);
    static const char *const texts [] = { "looking for it", "waiting for rank 9",
        "the server is back after" };
    for (size_t index = 0; index < 3; index++) {
        char *notice = tureen_loader_notice (loader);
        assert_non_null (notice);
        if (!strstr (notice, texts [index]))
            fail_msg ("\"%s\" is not in \"%s\"", texts [index], notice);
        free (notice);
    }
    assert_null (tureen_loader_notice (loader));
    fake_seen_t seen = fake_seen (fake);
    assert_int_equal (seen.joins, 4);
    const char *gather = strstr (seen.join, "\"gather\":");
    assert_non_null (gather);
    assert_in_range (strtoul (gather + strlen ("\"gather\":"), NULL, 10), 200, 300);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

static void
test_time_that_is_left (void **state)
{
    (void) state;
    rejoin_t rejoin = { .limit_ms = 300000 };
    rejoin_begin (&rejoin, "it broke", false, 1000);
    assert_int_equal (rejoin_left_seconds (&rejoin, 1000), 300);
    assert_int_equal (rejoin_left_seconds (&rejoin, 1001), 300);
    assert_int_equal (rejoin_left_seconds (&rejoin, 300999), 1);
    assert_int_equal (rejoin_left_seconds (&rejoin, 400000), 1);
    rejoin.limit_ms = INT32_MAX;
    assert_int_equal (rejoin_left_seconds (&rejoin, 1000), 86400);
}

//  A rank that has everything comes back for the others' sake, with what they may lack; its user notices
//  nothing.
static void
test_a_rank_with_everything_comes_back (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake ((fake_plan_t) { .deed = FAKE_DIE, .deed_batches = 6, .revive_ms = 20,
        .gathering = 1 });
    tureen_loader_t *loader = s_join (&s_two, fake, 0, TUREEN_AUTO);
    s_take_some (loader, 3);
    tureen_batch_t *batch;
    assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_EPOCH_END);
    s_take_some (loader, 2);
    //  The fake counts a JOIN before it reads what the JOIN resumes.
    WAIT_FOR (fake, again, again.joins == 2 && again.resume_epoch == EPOCHS);
    fake_seen_t seen = fake_seen (fake);
    assert_int_equal (seen.resume_batches, 0);
    //  SLOTS + 1 steps and the last end, and between them the end of epoch 0.
    assert_int_equal (seen.recent_count, 4 * 6 + 2 * 4 + 2 + 4 + 4 + 2);
    assert_int_equal (seen.recent [seen.recent_count - 4], WIRE_RECENT_END);
    s_take_some (loader, 1);
    assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_EPOCH_END);
    assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_END);
    assert_null (tureen_loader_notice (loader));
    WAIT_FOR (fake, late, late.leaves == 1);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

//  --------------------------------------------------------------------------
//  Ends and mistakes

//  Another rank is gone: the error comes after what had been delivered.
static void
test_ends (void **state)
{
    (void) state;
    static const struct { fake_deed_t deed; const char *says; } cases [] = {
        { FAKE_END_RANK_LOST, "(rank_lost)" }, { FAKE_SEND_OTHERS, "not this rank's part of its step" }
    };
    for (size_t index = 0; index < 2; index++) {
        fake_server_t *fake = s_fake ((fake_plan_t) { .deed = cases [index].deed, .deed_batches = 2 });
        tureen_loader_t *loader = s_join (&s_two, fake, 1, TUREEN_AUTO);
        tureen_batch_t *batch;
        s_take_some (loader, 2);
        assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_ERROR);
        if (!strstr (tureen_loader_error (loader), cases [index].says))
            fail_msg ("%s", tureen_loader_error (loader));
        assert_int_equal (fake_seen (fake).joins, 1);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  A notice of a running job is the user's, also one that a rank is lost.
static void
test_a_notice_is_passed_on (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake ((fake_plan_t) { .deed = FAKE_NOTICE, .deed_batches = 1 });
    tureen_loader_t *loader = s_join (&s_two, fake, 1, TUREEN_AUTO);
    s_take_some (loader, 3);
    char *notice = tureen_loader_notice (loader);
    assert_non_null (notice);
    free (notice);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

//  Padding is a batch, and no sample.
static void
test_padding_counts_nowhere (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 5, .epochs = EPOCHS };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (&s_two, fake, 1, TUREEN_AUTO);
    s_take_some (loader, 2);
    char *json;
    assert_int_equal (tureen_loader_stats (loader, &json, s_error, sizeof s_error), 0);
    if (!strstr (json, "\"batches\": 2, \"samples\": 2,"))
        fail_msg ("%s", json);
    free (json);
    assert_int_equal (tureen_loader_state (loader, &json), 0);
    assert_non_null (strstr (json, "\"batches\": \"2\", \"taken\": {\"count\": \"5\","));
    free (json);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

static void
test_options (void **state)
{
    (void) state;
    static const struct { uint32_t world_size, rank, gather; int wait; const char *job, *says; } cases [] = {
        { 65, 0, 0, 0, "j", "options.world_size: 65; at most 64" },
        { 2, 2, 0, 0, "j", "options.rank: 2; expected less than options.world_size, which is 2" },
        { 0, 1, 0, 0, "j", "options.rank: 1; expected less than options.world_size, which is 1" },
        { 2, 1, 0, 0, NULL, "options.job: required with options.world_size" },
        { 2, 1, 86401, 0, "j", "options.gather_seconds: 86401; at most 86400" },
        { 2, 1, 0, 86401, "j", "options.rank_wait_seconds: 86401; at most 86400" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        tureen_options_t options = { .endpoint = "ipc:///tmp/tureen-nowhere", .dataset = "train",
            .job = cases [index].job,
            .world_size = cases [index].world_size, .rank = cases [index].rank,
            .gather_seconds = cases [index].gather,
            .rank_wait_seconds = cases [index].wait, .timeout_ms = 1 };
        assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
        assert_int_equal (errno, EINVAL);
        if (!strstr (s_error, cases [index].says))
            fail_msg ("case %zu: %s", index, s_error);
    }
}

//  One process alone says nothing of ranks, whatever its program is ready for.
static void
test_one_process_is_no_rank (void **state)
{
    (void) state;
    for (uint32_t world_size = 0; world_size < 2; world_size++) {
        fake_server_t *fake = s_fake ((fake_plan_t) { .deaf = false });
        tureen_options_t options = { .endpoint = fake_endpoint (fake), .dataset = "train",
            .world_size = world_size,
            .gather_seconds = 5, .rank_wait_seconds = -1 };
        tureen_loader_t *loader = tureen_loader_new (&options, s_error, sizeof s_error);
        assert_non_null (loader);
        assert_true (tureen_loader_info (loader)->world_size == 1 && tureen_loader_info (loader)->rank == 0);
        fake_seen_t seen = fake_seen (fake);
        assert_null (strstr (seen.join, "world_size"));
        assert_null (strstr (seen.join, "rank"));
        assert_null (strstr (seen.join, "gather"));
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_ranks_take_one_job),
        cmocka_unit_test (test_what_is_kept_of_the_last_steps),
        cmocka_unit_test (test_large_steps),
        cmocka_unit_test (test_gathered_ranks_are_waited_for),
        cmocka_unit_test (test_a_gathering_that_fails),
        cmocka_unit_test (test_a_server_that_dies_while_it_gathers),
        cmocka_unit_test (test_a_ring_that_cannot_be_mapped),
        cmocka_unit_test (test_gathered_again),
        cmocka_unit_test (test_time_that_is_left),
        cmocka_unit_test (test_a_rank_with_everything_comes_back),
        cmocka_unit_test (test_ends),
        cmocka_unit_test (test_a_notice_is_passed_on),
        cmocka_unit_test (test_padding_counts_nowhere),
        cmocka_unit_test (test_options),
        cmocka_unit_test (test_one_process_is_no_rank)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
