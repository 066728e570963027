//  EXPLAIN: how it is asked, what the broker tells against what it had done, and the answer's text.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "explain.h"
#include "frames.h"
#include "job.h"
#include "reply.h"
#include "request.h"
#include "seed.h"
#include "simulation.h"
#include "version.h"

enum { SAMPLES = 120, JOBS = 3, EPOCHS = 3, MS = 1000, SECOND_US = 1000 * MS, VERSIONS_MAX = 4 * SAMPLES,
    BATCH = 7 };

//  --- The request ------------------------------------------------------------------------------------------

static void
test_request (void **state)
{
    (void) state;
    static const struct { const char *text, *code, *fragment; } bad [] = {
        { "{}", "bad_request", "id: it is missing" }, { "[]", "malformed", "no object" },
        { "{", "malformed", "no JSON" },
        { "{\"id\":\"1\",\"id\":\"2\"}", "malformed", "duplicate" },
        { "{\"id\":\"-1\"}", "bad_request", "id: expected" },
        { "{\"id\":\"18446744073709551616\"}", "bad_request", "id: expected" },
        { "{\"id\":1.5}", "bad_request", "id: expected" },
        { "{\"id\":\"1\",\"epoch\":null}", "bad_request", "epoch: expected" },
        { "{\"id\":\"1\",\"epoch\":\"9007199254740993\"}", "bad_request", "epoch: expected" },
        { "{\"id\":\"1\",\"view\":0}", "bad_request", "unknown key 'view'; there are id, epoch" }
    };
    request_explain_t explain;
    refusal_t refusal;
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++) {
        frame_t frame = frame_of_text (bad [index].text);
        assert_false (request_explain (&frame, &explain, &refusal));
        assert_refusal (&refusal, bad [index].code, bad [index].fragment);
    }
    frame_t frame = frame_of_text ("{\"id\":\"18446744073709551615\"}");
    assert_true (request_explain (&frame, &explain, &refusal));
    assert_true (explain.id == UINT64_MAX && !explain.epoch_given);
    message_t message;
    wire_head_t head;
    message_load (&message, "explain");
    assert_int_equal (request_head (message.frames, message.count, &head, &refusal), REQUEST_OK);
    assert_int_equal (head.kind, WIRE_EXPLAIN);
    assert_true (request_explain (&message.frames [1], &explain, &refusal));
    assert_true (explain.id == 17 && explain.epoch_given && explain.epoch == 3);
    assert_int_equal (request_head (message.frames, 1, &head, &refusal), REQUEST_REFUSED);
    message_unload (&message);
}

//  --- The answer -------------------------------------------------------------------------------------------

static void
s_assert_golden (const char *name, char *text)
{
    message_t message;
    message_load (&message, name);
    assert_int_equal (message.frames [1].size, strlen (text));
    assert_memory_equal (message.frames [1].data, text, strlen (text));
    message_unload (&message);
    free (text);
}

static void
test_answers (void **state)
{
    (void) state;
    message_t message;
    message_load (&message, "explain_reply");
    json_t *golden = json_loadb ((const char *) message.frames [1].data, message.frames [1].size, 0, NULL);
    message_unload (&message);
    assert_non_null (golden);
    reply_explained_t explained = { .id = 17, .epoch = 3, .is_placed = true, .index = 4, .row = 9,
        .version = 2, .prepared_for = 3, .is_reused = true };
    s_assert_golden ("explain_reply",
        reply_explained (&explained, "cat/0017.jpg", json_incref (json_object_get (golden, "operations"))));
    json_decref (golden);
    explained = (reply_explained_t) { .id = UINT64_MAX, .epoch = 1 };
    char *text = reply_explained (&explained, "\xff", json_array ());
    assert_string_equal (text,
        "{\"id\":\"18446744073709551615\",\"epoch\":\"1\",\"index\":null,\"row\":null,"
        "\"name\":\"\xef\xbf\xbd\","
        "\"version\":\"0\",\"prepared_for\":null,\"reused\":null,\"operations\":[]}");
    free (text);
    explained = (reply_explained_t) { .id = 3, .epoch = 1, .version = 1,
        .sharing = strdup ("the job draws by itself, in no tree: order seeded") };
    s_assert_golden ("explain_reply_sharing", reply_explained (&explained, "cat/0003.jpg", json_array ()));
    free (explained.sharing);
    s_assert_golden ("notice", reply_notice ("little_shared",
        "only 5 % of this job's samples are in the data of other jobs"));
}

//  --- What the broker knows --------------------------------------------------------------------------------

//  What was copied for a client, of each epoch and sample; and which jobs have had each version.
typedef struct {
    struct { bool known; pipeline_key_t shared, private; uint32_t draw; } copies [JOBS] [EPOCHS] [SAMPLES];
    bool served [JOBS] [VERSIONS_MAX];              //  by id and draw number: 4 of each
    size_t places [JOBS] [EPOCHS] [SAMPLES];        //  where it was told to lie in its epoch, less one; 0: it
                                                    //  was not
} book_t;

static void
s_note_copy (void *context, broker_t *broker, int client, const batch_row_t *row)
{
    book_t *book = context;
    pipeline_key_t private = row_key (row);
    uint32_t id = row_id (row), draw = row_version (row)->draw;
    assert_true (private.round < EPOCHS);
    book->copies [client] [private.round] [id].known = true;
    book->copies [client] [private.round] [id].shared = version_key (broker, row_version (row));
    book->copies [client] [private.round] [id].private = private;
    book->copies [client] [private.round] [id].draw = draw;
    if (draw < 4)
        book->served [client] [id * 4 + draw] = true;
}

static bool
s_keys_equal (const pipeline_key_t *one, const pipeline_key_t *other)
{
    return one->seed == other->seed && one->round == other->round && one->id == other->id
        && one->occurrence == other->occurrence;
}

//  Whether a sample has changed its row, to take that of an unreadable one, and the version there has not
//  been copied for the client yet.
static bool
s_has_moved (const book_t *book, int client, uint64_t epoch, const reply_explained_t *told)
{
    size_t id = (size_t) told->id;
    return told->version != book->copies [client] [epoch] [id].draw
        && !(told->version < 4 && book->served [client] [id * 4 + told->version]);
}

//  How many of a client's samples can be explained in this epoch; each answer is held against what was done.
static uint32_t
s_check_epoch (simulation_t *simulation, book_t *book, int client, uint64_t epoch, bool has_holes)
{
    uint64_t rows [SAMPLES] = { 0 };            //  of each batch, those that were told
    broker_t *broker = simulation_broker (simulation);
    job_t *job = job_of_id (broker, (uint64_t) client + 1);
    static const seen_epoch_t nothing = { .count = 0 };
    bool is_seen = epoch < simulation_epochs (simulation, client);
    const seen_epoch_t *seen = is_seen? simulation_epoch (simulation, client, epoch): &nothing;
    uint32_t found = 0, fresh = 0;
    for (uint32_t id = 0; id < SAMPLES; id++) {
        explanation_t told;
        refusal_t refusal;
        request_explain_t request = { .id = id, .epoch_given = true, .epoch = epoch };
        if (!explain_sample (broker, job, &request, &told, 0, &refusal)) {
            assert_refusal (&refusal, "unknown_sample", has_holes? "": "batches");
            continue;
        }
        if (!told.reply.is_placed) {                  //  of a seeded job
            explain_clear (&told);
            continue;
        }
        assert_true (told.reply.is_placed && told.reply.id == id && told.reply.epoch == epoch);
        assert_true (told.reply.prepared_for >= 1 && told.reply.prepared_for <= JOBS);
        size_t place = told.reply.index * BATCH + told.reply.row;
        assert_true (told.reply.row < BATCH && told.reply.index < SAMPLES);
        assert_int_equal (rows [told.reply.index] >> told.reply.row & 1, 0);
        rows [told.reply.index] |= 1ull << told.reply.row;
        if (!has_holes) {
            assert_true (book->places [client] [epoch] [id] == 0
                || book->places [client] [epoch] [id] == place + 1);
            book->places [client] [epoch] [id] = place + 1;
            assert_true (place >= seen->count || seen->ids [place] == id);
        }
        found++;
        fresh += !told.reply.is_reused;
        if (book->copies [client] [epoch] [id].known
                && !(has_holes && s_has_moved (book, client, epoch, &told.reply))) {
            assert_true (s_keys_equal (&told.shared_key, &book->copies [client] [epoch] [id].shared));
            assert_true (s_keys_equal (&told.private_key, &book->copies [client] [epoch] [id].private));
            assert_int_equal (told.reply.version, book->copies [client] [epoch] [id].draw);
            uint32_t jobs = 0;
            for (int other = 0; other < JOBS && told.reply.version < 4 && !has_holes; other++)
                jobs += book->served [other] [id * 4 + told.reply.version];
            assert_true (told.reply.prepared_for >= jobs);  //  those that have drawn it, and not copied it
                                                            //  yet, count
        }
        explain_clear (&told);
    }
    assert_true (fresh <= found);
    for (size_t index = 0; index < SAMPLES; index++)
        assert_int_equal (rows [index] & (rows [index] + 1), 0);        //  from the first on, without gaps
    return found;
}

static bool
s_readable (void *context, uint32_t id)
{
    (void) context;
    return id % 17 != 3;
}

static int64_t
s_slow (void *context, uint32_t id)
{
    (void) context;
    (void) id;
    return 5 * MS;
}

//  Guards: at any moment what is told of a sample is what was done: where it lies in its batch, the keys of
//  both stages, how many jobs its version has served; of what lies in a released slot too, until that is
//  filled anew; and nothing is told of others.
static void
test_what_is_told_was_done (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (); seed < test_seed () + EFFORT (10); seed++) {
        bool has_holes = seed % 2;
        book_t *book = calloc (1, sizeof *book);
        assert_non_null (book);
        simulation_options_t options = { .seed = seed, .samples = SAMPLES, .cache_versions = 40, .workers = 2,
            .copied = s_note_copy,
            .readable = has_holes? s_readable: NULL, .cost_us = seed % 4 < 2? s_slow: NULL, .context = book,
            .check = true,
            .policy = seed % 3? SAMPLER_POLICY_FOLLOW: SAMPLER_POLICY_DSA };
        simulation_t *simulation = simulation_new (&options);
        for (int client = 0; client < JOBS; client++) {
            simulated_job_t job = { .batch_size = BATCH, .slots = 4, .epochs = EPOCHS,
                .sample_us = MS * (1 + client),
                .order = has_holes && client == 1? SAMPLER_ORDER_SEEDED: SAMPLER_ORDER_SHARED,
                .to = SAMPLES };
            assert_int_equal (simulation_join (simulation, &job), client);
        }
        uint32_t found = 0, most = 0;
        for (int step = 0; step < 30; step++) {
            simulation_run (simulation, simulation_now_us (simulation) + 20 * MS);
            for (int client = 0; client < JOBS; client++) {
                uint32_t of_job = 0;
                for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
                    of_job += s_check_epoch (simulation, book, client, epoch, has_holes);
                assert_true (of_job <= 4 * BATCH);
                most = of_job > most? of_job: most;
                found += of_job;
            }
        }
        for (int client = 0; client < JOBS; client++)
            for (size_t epoch = 0; epoch < simulation_epochs (simulation, client); epoch++) {
                const seen_epoch_t *seen = simulation_epoch (simulation, client, epoch);
                for (uint32_t id = 0; id < SAMPLES; id++) {     //  what was told before it was sent came true
                    size_t place = book->places [client] [epoch] [id];
                    assert_true (place == 0 || place > seen->count || seen->ids [place - 1] == id);
                }
            }
        assert_true (found > 30 * JOBS);
        assert_int_equal (most, 4 * BATCH);
        simulation_destroy (&simulation);
        free (book);
    }
}

//  Guards: when all is quiet the number of jobs is exact, and one of them, no more, had the version made.
static void
test_jobs_are_counted (void **state)
{
    (void) state;
    book_t *book = calloc (1, sizeof *book);
    assert_non_null (book);
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 40,
        .workers = 2,
        .copied = s_note_copy, .context = book, .policy = SAMPLER_POLICY_FOLLOW, .gather_ms = 10,
        .check = true };
    simulation_t *simulation = simulation_new (&options);
    for (int client = 0; client < JOBS; client++) {
        simulated_job_t job = { .batch_size = BATCH, .slots = 4, .epochs = EPOCHS, .sample_us = MS };
        assert_int_equal (simulation_join (simulation, &job), client);
    }
    simulation_run (simulation, 10 * SECOND_US);
    uint32_t makers = 0, all = 0;
    for (uint32_t id = 0; id < SAMPLES; id++) {
        uint32_t fresh = 0;
        for (int client = 0; client < JOBS; client++) {
            explanation_t told;
            refusal_t refusal;
            request_explain_t request = { .id = id };
            job_t *job = job_of_id (simulation_broker (simulation), (uint64_t) client + 1);
            if (!explain_sample (simulation_broker (simulation), job, &request, &told, 0, &refusal))
                continue;
            uint32_t jobs = 0;
            for (int other = 0; other < JOBS; other++)
                jobs += book->served [other] [id * 4 + told.reply.version];
            assert_int_equal (told.reply.prepared_for, jobs);
            fresh += !told.reply.is_reused;
            all++;
            explain_clear (&told);
        }
        assert_true (fresh <= JOBS);
        makers += fresh;
    }
    assert_true (all > 2 * makers && makers > 0);           //  three in step: one in three has it made
    simulation_destroy (&simulation);
    free (book);
}

//  Guards: of a sample that a list repeats, the newest is told, with its occurrence.
static void
test_repeated_samples (void **state)
{
    (void) state;
    static const uint32_t list [] = { 5, 1, 2, 3, 4, 6, 7, 8, 9, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
        5 };
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 40,
        .workers = 2, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = BATCH, .slots = 4, .epochs = 1, .order = SAMPLER_ORDER_LIST,
        .list = list, .list_count = 21,
        .sample_us = SECOND_US };
    assert_int_equal (simulation_join (simulation, &job), 0);
    simulation_run (simulation, 100 * MS);
    explanation_t told;
    refusal_t refusal;
    broker_t *broker = simulation_broker (simulation);
    assert_true (explain_sample (broker, job_of_id (broker, 1), &(request_explain_t) { .id = 5 }, &told,
        0, &refusal));
    assert_int_equal (told.reply.index, 2);
    assert_int_equal (told.reply.row, 6);
    assert_int_equal (told.private_key.occurrence, 2);
    explain_clear (&told);
    simulation_destroy (&simulation);
}

//  Guards: of a `seeded` job any epoch is told, with the keys that it will have; what is not in its data is
//  not.
static void
test_seeded_jobs (void **state)
{
    (void) state;
    book_t *book = calloc (1, sizeof *book);
    assert_non_null (book);
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 40,
        .workers = 2,
        .copied = s_note_copy, .context = book, .policy = SAMPLER_POLICY_FOLLOW };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = BATCH, .slots = 4, .epochs = EPOCHS, .order = SAMPLER_ORDER_SEEDED,
        .seed = 9,
        .from = 10, .to = 90 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    broker_t *broker = simulation_broker (simulation);
    explanation_t before [EPOCHS] [SAMPLES], told;
    refusal_t refusal;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint32_t id = 10; id < 90; id++) {
            request_explain_t request = { .id = id, .epoch_given = true, .epoch = epoch };
            assert_true (explain_sample (broker, job_of_id (broker, 1), &request, &before [epoch] [id],
                0, &refusal));
            assert_false (before [epoch] [id].reply.is_placed);
            explain_clear (&before [epoch] [id]);
        }
    simulation_run (simulation, SECOND_US);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint32_t id = 10; id < 90; id++) {
            assert_true (book->copies [0] [epoch] [id].known);
            assert_true (s_keys_equal (&before [epoch] [id].shared_key,
                &book->copies [0] [epoch] [id].shared));
            assert_true (s_keys_equal (&before [epoch] [id].private_key,
                &book->copies [0] [epoch] [id].private));
        }
    static const uint64_t others [] = { 9, 90, SAMPLES, UINT64_MAX };
    for (size_t index = 0; index < sizeof others / sizeof *others; index++) {
        request_explain_t request = { .id = others [index], .epoch_given = true, .epoch = 1 };
        assert_false (explain_sample (broker, job_of_id (broker, 1), &request, &told, 0, &refusal));
        assert_refusal (&refusal, "unknown_sample", "none of the job's data");
    }
    simulation_destroy (&simulation);
    free (book);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_request),
        cmocka_unit_test (test_answers),
        cmocka_unit_test (test_what_is_told_was_done),
        cmocka_unit_test (test_jobs_are_counted),
        cmocka_unit_test (test_repeated_samples),
        cmocka_unit_test (test_seeded_jobs)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
