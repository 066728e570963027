//  The loader when its server goes away: whatever happens, nothing comes twice, nothing is lost, and the
//  user's view goes on.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>
#include "fake_checks.h"
#include "question_queue.h"
#include "rejoin.h"
#include "seed.h"
#include "tureen.h"

enum { SAMPLES = 40, EPOCHS = 2, BATCH = 4, HELD_MAX = 3 };

static char s_error [TUREEN_ERROR_BYTES];

static tureen_loader_t *
s_join (fake_server_t *fake, tureen_options_t options)
{
    options.endpoint = fake_endpoint (fake);
    options.dataset = "train";
    options.batch_size = BATCH;
    options.timeout_ms = options.timeout_ms? options.timeout_ms: PATIENCE_MS;
    if (!options.epochs)
        options.epochs = EPOCHS;
    tureen_loader_t *loader = tureen_loader_new (&options, s_error, sizeof s_error);
    if (!loader)
        fail_msg ("%s", s_error);
    return loader;
}

//  --------------------------------------------------------------------------
//  Reading through

typedef struct {
    uint32_t times [EPOCHS] [SAMPLES];
    uint64_t sequence;
    uint64_t index;
    uint64_t ends;
    tureen_batch_t *held [HELD_MAX];
    uint64_t random;
} reader_t;

static void
s_take (reader_t *self, tureen_batch_t *batch)
{
    assert_int_equal (tureen_batch_epoch (batch), self->ends);
    assert_int_equal (tureen_batch_index (batch), self->index++);
    assert_int_equal (tureen_batch_sequence (batch), self->sequence++);
    for (size_t index = 0; index < tureen_batch_count (batch); index++)
        self->times [self->ends] [tureen_batch_ids (batch) [index]]++;
    fake_check_batch (batch);
    //  Keeps it for a while in the place of another.  The other's bytes must be what they were.
    uint64_t which = test_below (&self->random, HELD_MAX + 2);
    if (which >= HELD_MAX) {
        tureen_batch_release (&batch);
        return;
    }
    if (self->held [which])
        fake_check_batch (self->held [which]);
    tureen_batch_release (&self->held [which]);
    self->held [which] = batch;
}

static void
s_read_all (tureen_loader_t *loader, reader_t *self)
{
    for (tureen_event_t event = TUREEN_BATCH; event != TUREEN_END;) {
        tureen_batch_t *batch;
        event = tureen_loader_next_within (loader, &batch, PATIENCE_MS);
        if (event == TUREEN_BATCH)
            s_take (self, batch);
        else if (event == TUREEN_EPOCH_END) {
            assert_int_equal (tureen_loader_epoch (loader).batches, self->index);
            self->ends++;
            self->index = 0;
        }
        else if (event != TUREEN_END)
            fail_msg ("event %d: %s", event, tureen_loader_error (loader));
    }
    for (size_t which = 0; which < HELD_MAX; which++) {
        if (self->held [which])
            fake_check_batch (self->held [which]);
        tureen_batch_release (&self->held [which]);
    }
    assert_int_equal (self->ends, EPOCHS);
}

static void
s_check_once (const reader_t *self)
{
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint64_t id = 0; id < SAMPLES; id++)
            if (self->times [epoch] [id] != 1)
                fail_msg ("epoch %" PRIu64 ": sample %" PRIu64 " came %" PRIu32 " times", epoch, id,
                    self->times [epoch] [id]);
}

//  Reads a whole run through whatever the plan does; deaths at least so many.
static void
s_survive (fake_plan_t plan, tureen_transport_t transport, uint64_t joins)
{
    plan.samples = SAMPLES;
    plan.epochs = EPOCHS;
    plan.shuffle = true;
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .transport = transport });
    reader_t reader = { .random = test_seed () + plan.deed * 100 + plan.deed_batches };
    s_read_all (loader, &reader);
    s_check_once (&reader);
    //  It left by itself, the last server's job.
    WAIT_FOR (fake, seen, seen.leaves == 1);
    fake_seen_t seen = fake_seen (fake);
    //  On a busy machine a server of short heartbeats may seem silent once more.
    assert_true (plan.heartbeat_ms? seen.joins >= joins: seen.joins == joins);
    assert_int_equal (seen.instances, 1);
    assert_string_equal (seen.run, "000000000000000000000000000000aa");
    assert_int_equal (seen.wrong, 0);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

//  Killed at every stage, twice, while the user holds batches: of the first one none had come.
static void
test_the_server_is_killed (void **state)
{
    (void) state;
    static const uint64_t batches [] = { 0, 1, 6 };
    for (size_t index = 0; index < sizeof batches / sizeof *batches; index++)
        s_survive ((fake_plan_t) { .deed = FAKE_DIE, .deed_batches = batches [index], .deed_times = 2,
            .revive_ms = 30 }, index % 2? TUREEN_INLINE: TUREEN_AUTO, 3);
}

//  Other ends that are none for the run; a server that is still there counts the same way.
static void
test_other_ends (void **state)
{
    (void) state;
    static const struct { fake_deed_t deed; tureen_transport_t transport; uint64_t batches; } cases [] = {
        { FAKE_STOP, TUREEN_AUTO, 2 }, { FAKE_STOP, TUREEN_INLINE, 9 }, { FAKE_DIE_RING, TUREEN_AUTO, 4 },
        { FAKE_SILENT, TUREEN_INLINE, 2 }, { FAKE_SEND_ERROR, TUREEN_AUTO, 3 },
        { FAKE_SEND_ERROR, TUREEN_INLINE, 11 },
        { FAKE_END_SILENT, TUREEN_INLINE, 5 }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        s_survive ((fake_plan_t) { .deed = cases [index].deed, .deed_batches = cases [index].batches,
            .revive_ms = 30,
            .heartbeat_ms = cases [index].deed == FAKE_SILENT? 60: 0 }, cases [index].transport, 2);
}

//  "Not now" is asked again; and the user is told of both, the end and the return.
static void
test_a_refusal_that_passes (void **state)
{
    (void) state;
    static const char *const codes [] = { "busy", "opening", "budget", "stopping" };
    for (size_t index = 0; index < sizeof codes / sizeof *codes; index++) {
        fake_plan_t plan = { .samples = SAMPLES, .epochs = EPOCHS, .deed = FAKE_DIE_RING, .deed_batches = 3,
            .refuse = "not now", .refuse_code = codes [index], .refuse_after = 1, .refuse_times = 2 };
        fake_server_t *fake = fake_new (&plan);
        tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .rejoin_ms = PATIENCE_MS });
        reader_t reader = { .random = 1 };
        s_read_all (loader, &reader);
        s_check_once (&reader);
        assert_int_equal (fake_seen (fake).joins, 4);
        char *gone = tureen_loader_notice (loader), *back = tureen_loader_notice (loader);
        assert_true (gone && back);
        assert_non_null (strstr (gone, "the server is gone; looking for it at ipc://"));
        assert_non_null (strstr (gone, "for 60 seconds"));
        assert_non_null (strstr (back, "the server is back after"));
        assert_non_null (strstr (back, "going on as job 8"));
        assert_null (tureen_loader_notice (loader));
        free (gone);
        free (back);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  A job that comes back as a run of its own: the user is told, and it goes on by its new name.
static void
test_a_fork (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = SAMPLES, .epochs = EPOCHS, .deed = FAKE_DIE_RING, .deed_batches = 3,
        .deed_times = 2, .forks = true };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .rejoin_ms = PATIENCE_MS });
    reader_t reader = { .random = 1 };
    s_read_all (loader, &reader);
    s_check_once (&reader);
    fake_seen_t seen = fake_seen (fake);
    assert_int_equal (seen.joins, 3);
    assert_string_equal (seen.run, "00000000000000000000000000000001");
    free (tureen_loader_notice (loader));
    char *back = tureen_loader_notice (loader);
    assert_non_null (back);
    assert_non_null (strstr (back, "going on as job 8, a fork: its run goes on elsewhere"));
    free (back);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

//  A server that takes the job each time and ends at once is as good as none: it is not asked without a
//  pause, nor for ever.
static void
test_a_server_that_gives_nothing (void **state)
{
    (void) state;
    static const fake_deed_t deeds [] = { FAKE_SEND_ERROR, FAKE_END_SILENT };
    for (size_t index = 0; index < 2; index++) {
        fake_plan_t plan = { .samples = SAMPLES, .deed = deeds [index], .deed_times = UINT64_MAX };
        fake_server_t *fake = fake_new (&plan);
        tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .rejoin_ms = 800 });
        tureen_batch_t *batch;
        tureen_event_t event = tureen_loader_next_within (loader, &batch, PATIENCE_MS);
        assert_int_equal (event, TUREEN_ERROR);
        if (!strstr (tureen_loader_error (loader), "looked for it again for "))
            fail_msg ("%s", tureen_loader_error (loader));
        //  At once, and after 100, 200 and 400 ms.
        if (fake_seen (fake).joins > 5)
            fail_msg ("%" PRIu64 " joins", fake_seen (fake).joins);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  A list goes on by its place, past what cannot be read.
static void
test_a_list_goes_on (void **state)
{
    (void) state;
    uint64_t ids [60], wanted [60], count = 0, random = test_seed ();
    for (size_t place = 0; place < 60; place++) {
        ids [place] = test_below (&random, 10);
        if (ids [place] != 4)
            wanted [count++] = ids [place];
    }
    fake_plan_t plan = { .samples = 10, .epochs = 1, .deed = FAKE_DIE, .deed_batches = 4, .deed_times = 2,
        .revive_ms = 30,
        .has_bad = true, .bad = 4 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake,
        (tureen_options_t) { .epochs = 1, .order = TUREEN_LIST, .ids = ids,
        .id_count = 60 });
    uint64_t got = 0;
    tureen_batch_t *batch;
    tureen_event_t event;
    while ((event = tureen_loader_next_within (loader, &batch, PATIENCE_MS)) == TUREEN_BATCH) {
        fake_check_batch (batch);
        for (size_t index = 0; index < tureen_batch_count (batch); index++)
            assert_int_equal (tureen_batch_ids (batch) [index], wanted [got++]);
        tureen_batch_release (&batch);
    }
    if (event != TUREEN_EPOCH_END)
        fail_msg ("%s", tureen_loader_error (loader));
    assert_int_equal (got, count);
    assert_int_equal (fake_seen (fake).joins, 3);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

//  --------------------------------------------------------------------------
//  Ends

//  Reads up to the error: what it says.  The state is then of what was given, whatever became of the server.
static const char *
s_read_to_error (tureen_loader_t *loader, uint64_t *samples)
{
    tureen_batch_t *batch;
    tureen_event_t event;
    *samples = 0;
    while ((event = tureen_loader_next_within (loader, &batch, PATIENCE_MS)) == TUREEN_BATCH) {
        *samples += tureen_batch_count (batch);
        fake_check_batch (batch);
        tureen_batch_release (&batch);
    }
    assert_int_equal (event, TUREEN_ERROR);
    char *text;
    assert_int_equal (tureen_loader_state (loader, &text), 0);
    json_t *root = json_loads (text, 0, NULL);
    const char *count = json_string_value (json_object_get (json_object_get (root, "taken"), "count"));
    assert_int_equal (strtoull (count, NULL, 10), *samples);
    json_decref (root);
    free (text);
    return tureen_loader_error (loader);
}

//  Refused for good, fenced, not to be found: the user is told why, after all that had come.
static void
test_what_is_the_end (void **state)
{
    (void) state;
    static const struct { fake_plan_t plan; int rejoin_ms; const char *says [2]; } cases [] = {
        { { .deed = FAKE_DIE_RING, .deed_batches = 3, .refuse = "the files are others",
            .refuse_code = "bad_state",
            .refuse_after = 1 }, 0, { "the files are others (bad_state)", "refused" } },
        { { .deed = FAKE_DIE_RING, .deed_batches = 3, .refuse = "run is taken", .refuse_code = "job_taken",
            .refuse_after = 1 }, 0, { "run is taken (job_taken)", "refused" } },
        { { .deed = FAKE_END_FENCED, .deed_batches = 3 }, 0, { "(fenced)", "ended the job" } },
        { { .deed = FAKE_END_REMOVED, .deed_batches = 3 }, 0,
            { "the job is over (removed)", "ended the job" } },
        { { .deed = FAKE_DIE, .deed_batches = 3 }, 400,
            { "looked for it again for ", "no server answered" } },
        { { .deed = FAKE_DIE_RING, .deed_batches = 3, .refuse = "it ends", .refuse_code = "stopping",
            .refuse_after = 1 }, 5000, { "looked for it again for ", "it ends (stopping)" } },
        { { .deed = FAKE_SEND_BAD_SEQUENCE, .deed_batches = 3 }, 0, { "out of its order", "server at" } }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        fake_plan_t plan = cases [index].plan;
        plan.samples = SAMPLES;
        fake_server_t *fake = fake_new (&plan);
        tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .rejoin_ms = cases [index].rejoin_ms });
        uint64_t samples;
        const char *error = s_read_to_error (loader, &samples);
        //  A batch that was sent to a client which saw the end first is not received and not lost: the next
        //  job gets it.
        bool is_loss = plan.deed == FAKE_DIE || plan.deed == FAKE_DIE_RING;
        assert_true (is_loss? samples <= 3 * BATCH: samples == 3 * BATCH);
        for (size_t part = 0; part < 2; part++)
            if (!strstr (error, cases [index].says [part]))
                fail_msg ("\"%s\" does not say \"%s\"", error, cases [index].says [part]);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  Whatever it is about, destroying ends it.
static void
test_destroyed_while_away (void **state)
{
    (void) state;
    for (int round = 0; round < 4; round++) {
        fake_plan_t plan = { .samples = SAMPLES, .deed = FAKE_DIE, .deed_batches = 3,
            .revive_ms = round % 3? 0: 60 };
        fake_server_t *fake = fake_new (&plan);
        tureen_loader_t *loader = s_join (fake,
            (tureen_options_t) { .transport = (tureen_transport_t) (round % 2) });
        tureen_batch_t *batch;
        assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_BATCH);
        WAIT_FOR (fake, seen, seen.deaths == 1);
        usleep ((useconds_t) round * 120000);
        fake_check_batch (batch);
        tureen_batch_release (&batch);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  A server that took the JOIN and says nothing: asked again, by another connection.
static void
test_a_server_that_hears_and_says_nothing (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = SAMPLES, .deed = FAKE_DIE_RING, .deed_batches = 3, .mute_joins = 1,
        .epochs = EPOCHS };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .timeout_ms = 2000 });
    reader_t reader = { .random = 3 };
    s_read_all (loader, &reader);
    s_check_once (&reader);
    assert_true (fake_seen (fake).joins >= 3);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

//  --------------------------------------------------------------------------
//  Questions and notices

static void
test_questions (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = SAMPLES, .deed = FAKE_NOTICE, .deed_batches = 1 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .timeout_ms = 2000 });
    tureen_batch_t *batch;
    assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_BATCH);
    tureen_batch_release (&batch);
    char *json;
    assert_int_equal (tureen_loader_explain (loader, 17, 3, &json, s_error, sizeof s_error), 0);
    assert_string_equal (json, "{\"id\":\"17\",\"epoch\":\"3\"}");
    free (json);
    assert_int_equal (tureen_loader_explain (loader, 18, TUREEN_EPOCH_ANY, &json, s_error, sizeof s_error),
        0);
    assert_string_equal (json, "{\"id\":\"18\"}");
    free (json);
    assert_int_equal (tureen_loader_explain (loader, 100, 0, &json, s_error, sizeof s_error), -ENOENT);
    assert_null (json);
    assert_non_null (strstr (s_error, "no batch has it (unknown_sample)"));
    assert_int_equal (tureen_loader_explain (loader, 1000, 0, &json, s_error, sizeof s_error), -ETIMEDOUT);
    assert_non_null (strstr (s_error, "not answered within 2 seconds"));
    //  That answer comes with the next one, and is not taken for it.
    assert_int_equal (tureen_loader_explain (loader, 19, 0, &json, s_error, sizeof s_error), 0);
    assert_string_equal (json, "{\"id\":\"19\",\"epoch\":\"0\"}");
    free (json);
    assert_int_equal (tureen_loader_stats (loader, &json, s_error, sizeof s_error), 0);
    json_t *root = json_loads (json, 0, NULL), *mine = json_object_get (root, "loader");
    assert_true (json_real_value (json_object_get (json_object_get (root, "job"), "rate")) == 2.5);
    assert_int_equal (json_integer_value (json_object_get (mine, "batches")), 1);
    assert_int_equal (json_integer_value (json_object_get (mine, "samples")), BATCH);
    assert_int_equal (json_integer_value (json_object_get (mine, "joins")), 1);
    assert_true (json_is_real (json_object_get (mine, "wait_seconds")));
    json_decref (root);
    free (json);
    //  The answers came after it.
    char *notice = tureen_loader_notice (loader);
    assert_string_equal (notice, "little is shared");
    assert_null (tureen_loader_notice (loader));
    free (notice);
    assert_int_equal (fake_seen (fake).wrong, 0);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

typedef struct {
    tureen_loader_t *loader;
    uint64_t first;
    uint64_t wrong;
} asker_t;

static void *
s_ask (void *argument)
{
    asker_t *self = argument;
    for (uint64_t id = self->first; id < self->first + 20; id++) {
        char *json, expected [32];
        snprintf (expected, sizeof expected, "{\"id\":\"%" PRIu64 "\"}", id);
        int rc = tureen_loader_explain (self->loader, id, TUREEN_EPOCH_ANY, &json, NULL, 0);
        self->wrong += rc != 0 || strcmp (json, expected);
        free (json);
    }
    return NULL;
}

//  Each thread gets the answer to its own question.
static void
test_many_threads_ask (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = SAMPLES };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { 0 });
    asker_t askers [4];
    pthread_t threads [4];
    for (uint64_t index = 0; index < 4; index++) {
        askers [index] = (asker_t) { .loader = loader, .first = index * 25 };
        assert_int_equal (pthread_create (&threads [index], NULL, s_ask, &askers [index]), 0);
    }
    for (size_t index = 0; index < 4; index++) {
        pthread_join (threads [index], NULL);
        assert_int_equal (askers [index].wrong, 0);
    }
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

//  A caller that gave up leaves no trace: the answer to its question is not taken for that to the next
//  question.
static void
test_a_question_given_up_while_it_is_sent (void **state)
{
    (void) state;
    question_queue_t *queue = question_queue_new ();
    question_t first, second;
    message_error_t error;
    char *json;
    assert_non_null (queue);
    question_queue_post (queue, WIRE_EXPLAIN, "{\"id\":\"1\"}");
    assert_true (question_queue_look (queue, &first));
    assert_int_equal (question_queue_wait (queue, 0, &json, &error), -ETIMEDOUT);
    question_queue_post (queue, WIRE_EXPLAIN, "{\"id\":\"2\"}");
    question_queue_sent (queue, first.tag);
    assert_true (question_queue_look (queue, &second));
    assert_string_equal (second.text, "{\"id\":\"2\"}");
    question_queue_sent (queue, second.tag);
    assert_false (question_queue_look (queue, &second));
    question_queue_destroy (&queue);
}

//  --------------------------------------------------------------------------
//  When to try

static void
test_tries_are_paced (void **state)
{
    (void) state;
    rejoin_t rejoin = { .limit_ms = 10000 };
    rejoin_begin (&rejoin, "it broke", false, 1000);
    int64_t now_ms = 1000, pauses [8];
    for (int tries = 0; tries < 8; tries++) {
        assert_true (rejoin_is_due (&rejoin, now_ms));
        rejoin_postpone (&rejoin, tries % 2? "busy": NULL, now_ms);
        int64_t begin_ms = now_ms;
        while (!rejoin_is_due (&rejoin, now_ms))
            now_ms++;
        pauses [tries] = now_ms - begin_ms;
    }
    static const int64_t expected [] = { 100, 200, 400, 800, 1600, 2000, 2000, 2000 };
    assert_memory_equal (pauses, expected, sizeof pauses);
    assert_false (rejoin_is_over (&rejoin, 10999));
    assert_true (rejoin_is_over (&rejoin, 11000));
    message_error_t error;
    rejoin_explain (&rejoin, "ipc:///x", 11000, &error);
    assert_string_equal (error.text, "it broke; looked for it again for 10 seconds at ipc:///x: busy");
    //  Found after 4 seconds, there for a minute, and gone without a batch: 6 are left, and the pauses go on.
    rejoin_found (&rejoin, 5000);
    rejoin_begin (&rejoin, "again", false, 65000);
    assert_true (!rejoin_is_due (&rejoin, 66999) && rejoin_is_due (&rejoin, 67000));
    assert_true (!rejoin_is_over (&rejoin, 70999) && rejoin_is_over (&rejoin, 71000));
    //  With one, it is another loss.
    rejoin_found (&rejoin, 68000);
    rejoin_begin (&rejoin, "again", true, 90000);
    assert_true (rejoin_is_due (&rejoin, 90000) && !rejoin_is_over (&rejoin, 99999));
    //  What was heard in the search before is not said of this one.
    rejoin_explain (&rejoin, "ipc:///x", 91000, &error);
    assert_string_equal (error.text, "again; looked for it again for 1 seconds at ipc:///x: no server "
        "answered");
}

//  A server that came back with other arrays would change the user's types under way.  One that does not know
//  yet which samples cannot be read says that there are more.
static void
test_another_layout_is_another_job (void **state)
{
    (void) state;
    static const struct { int samples, whole, side; const char *name, *dtype; bool same; } cases [] = {
        { 9, 9, 8, "x", "uint8", true }, { 8, 9, 8, "x", "uint8", true }, { 9, 10, 8, "x", "uint8", false },
        { 9, 9, 16, "x", "uint8", false }, { 9, 9, 8, "y", "uint8", false }, { 9, 9, 8, "x", "int8", false }
    };
    enum { CASES = sizeof cases / sizeof *cases };
    message_joined_t *joined [CASES];
    message_error_t error;
    for (size_t index = 0; index < CASES; index++) {
        char text [512];
        int length = snprintf (text, sizeof text,
            "{\"job\":%zu,\"samples\":%d,\"dataset_samples\":%d,\"batch_size\":2,\"slots\":4,"
            "\"slot_bytes\":64,\"fields\":[{\"name\":\"%s\",\"dtype\":\"%s\",\"shape\":[%d],"
            "\"offset\":0,\"sample_bytes\":%d}],"
            "\"seed\":1}", index, cases [index].samples, cases [index].whole, cases [index].name,
            cases [index].dtype, cases [index].side, cases [index].side);
        message_frame_t frames [2] = { { NULL, 0 }, { (uint8_t *) text, (size_t) length } };
        if (!message_read_joined (frames, 2, 2, &joined [index], &error))
            fail_msg ("%s", error.text);
        assert_int_equal (rejoin_is_same (joined [0], joined [index], &error), cases [index].same);
    }
    for (size_t index = 0; index < CASES; index++)
        message_joined_destroy (&joined [index]);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_question_given_up_while_it_is_sent),
        cmocka_unit_test (test_tries_are_paced),
        cmocka_unit_test (test_another_layout_is_another_job),
        cmocka_unit_test (test_the_server_is_killed),
        cmocka_unit_test (test_other_ends),
        cmocka_unit_test (test_a_refusal_that_passes),
        cmocka_unit_test (test_a_fork),
        cmocka_unit_test (test_a_server_that_gives_nothing),
        cmocka_unit_test (test_a_list_goes_on),
        cmocka_unit_test (test_what_is_the_end),
        cmocka_unit_test (test_destroyed_while_away),
        cmocka_unit_test (test_a_server_that_hears_and_says_nothing),
        cmocka_unit_test (test_questions),
        cmocka_unit_test (test_many_threads_ask)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
