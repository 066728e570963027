//  The state: its text both ways, what is damaged or hostile, how far a job has come, and going on from every
//  step.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "effort.h"
#include "fake_server.h"
#include "position.h"
#include "seed.h"
#include "state.h"
#include "tureen.h"

enum { PATIENCE_MS = 60000, TEXT_BYTES = 8192, SAMPLES = 22, EPOCHS = 2, BATCH = 4, PLACES = 30 };

static char s_error [TUREEN_ERROR_BYTES];

static char *
s_golden (const char *name)
{
    static char text [TEXT_BYTES];
    char path [512];
    const char *source = getenv ("TUREEN_SOURCE");
    snprintf (path, sizeof path, "%s/tests/golden/%s.json", source? source: ".", name);
    FILE *file = fopen (path, "r");
    assert_non_null (file);
    text [fread (text, 1, sizeof text - 1, file)] = 0;
    fclose (file);
    return text;
}

static bool
s_is_same (const state_t *one, const state_t *other)
{
    return !strcmp (one->dataset, other->dataset) && !strcmp (one->fingerprint, other->fingerprint)
        && !strcmp (one->data, other->data) && !strcmp (one->run, other->run)
            && one->samples == other->samples
        && one->order == other->order && one->seed == other->seed && one->pool == other->pool
        && one->epoch == other->epoch && one->batches == other->batches
        && one->taken.list == other->taken.list
        && one->taken.count == other->taken.count && one->taken.word_count == other->taken.word_count
        && (!one->taken.word_count
        ||  !memcmp (one->taken.words, other->taken.words, one->taken.word_count * sizeof *one->taken.words))
        && one->part.nodes == other->part.nodes && one->part.node == other->part.node
        && one->part.parts == other->part.parts && one->part.cut.batches == other->part.cut.batches
        && one->part.cut.taken.count == other->part.cut.taken.count
        && one->part.cut.taken.word_count == other->part.cut.taken.word_count
        && (!one->part.cut.taken.word_count || !memcmp (one->part.cut.taken.words,
            other->part.cut.taken.words, one->part.cut.taken.word_count * sizeof (uint64_t)));
}

//  --------------------------------------------------------------------------
//  The text

//  What the Python client writes too, value by value; and back to the same object.
static void
test_golden_states (void **state)
{
    (void) state;
    state_t shared, list, again;
    message_error_t error;
    assert_true (state_read (&shared, s_golden ("state_shared"), &error));
    assert_string_equal (shared.dataset, "tr\xc3\xa4in");
    assert_string_equal (shared.fingerprint, "6d0c5f3a8e21b794");
    assert_string_equal (shared.data, "9e1f00aa12bc34de");
    assert_string_equal (shared.run, "4b7c0123456789abcdef0123456789ab");
    assert_true (shared.seed == UINT64_MAX && shared.samples == 300 && shared.pool == 0);
    assert_true (shared.order == TUREEN_SHARED && shared.epoch == 3 && shared.batches == 2);
    assert_true (!shared.taken.list && shared.taken.count == 6 && shared.taken.word_count == 5);
    static const uint64_t ids [] = { 0, 1, 63, 64, 130, 299 };
    for (size_t index = 0; index < 6; index++)
        assert_true (shared.taken.words [ids [index] / 64] >> ids [index] % 64 & 1);
    assert_true (state_read (&list, s_golden ("state_list"), &error));
    assert_true (list.taken.list && list.taken.count == 1088 && list.order == TUREEN_LIST
        && list.batches == 17);
    state_t part, part_list;
    assert_true (state_read (&part, s_golden ("state_part"), &error));
    assert_true (part.part.nodes == 4 && part.part.node == 1 && part.part.parts == TUREEN_PARTS_FIXED);
    assert_true (part.batches == 4 && part.taken.count == 7 && part.part.cut.batches == 2);
    assert_true (part.part.cut.taken.count == 2 && part.part.cut.taken.words [0] == 8
        && part.part.cut.taken.words [1] == 1);
    assert_true (state_read (&part_list, s_golden ("state_part_list"), &error));
    assert_true (part_list.part.cut.taken.list && part_list.part.cut.taken.count == 576);
    assert_true (part_list.part.nodes == 3 && part_list.part.node == 2 && part_list.part.cut.batches == 9
        && part_list.part.parts == TUREEN_PARTS_FRESH);
    const state_t *both [] = { &shared, &list, &part, &part_list };
    static const char *const names [] = { "state_shared", "state_list", "state_part", "state_part_list" };
    for (size_t index = 0; index < 4; index++) {
        char *text = state_write (both [index]);
        assert_non_null (text);
        assert_true (state_read (&again, text, &error));
        assert_true (s_is_same (both [index], &again));
        json_t *mine = json_loads (text, 0, NULL),
            *golden = json_loads (s_golden (names [index]), 0, NULL);
        assert_true (json_equal (mine, golden));
        json_decref (mine);
        json_decref (golden);
        free (text);
        state_clear (&again);
    }
    state_clear (&shared);
    state_clear (&list);
    state_clear (&part);
    state_clear (&part_list);
}

//  Property: with any one byte another one, a state is refused or says what it said.
static void
test_any_damaged_byte_is_refused_or_harmless (void **state)
{
    (void) state;
    static const char *const names [] = { "state_shared", "state_list", "state_part", "state_part_list" };
    uint64_t random = test_seed ();
    for (size_t name = 0; name < 4; name++) {
        state_t whole, damaged;
        message_error_t error;
        char *text = s_golden (names [name]);
        size_t length = strlen (text), refused = 0;
        assert_true (state_read (&whole, text, &error));
        for (size_t place = 0; place < length; place++)
            for (int round = 0; round < 24; round++) {
                char before = text [place];
                if (round < 8)
                    text [place] = (char) ((unsigned char) before ^ 1u << round);
                else
                    text [place] = (char) (1 + test_below (&random, 255));
                if (!state_read (&damaged, text, &error)) {
                    assert_true (*error.text);
                    refused++;
                }
                else if (!s_is_same (&whole, &damaged))
                    fail_msg ("%s, byte %zu: '%c' became '%c', and was believed", names [name], place, before,
                        text [place]);
                else
                    state_clear (&damaged);
                text [place] = before;
            }
        assert_true (refused > length * 12);
        //  And cut short anywhere.
        for (size_t cut = 0; cut + 2 < length; cut++) {
            char before = text [cut];
            text [cut] = 0;
            assert_false (state_read (&damaged, text, &error));
            text [cut] = before;
        }
        state_clear (&whole);
    }
}

//  Each is one change to a good state; the checksum is made anew where the state could be written, so it is
//  not what refuses.
static void
test_hostile_states (void **state)
{
    (void) state;
    static const struct { const char *key, *value, *says; } cases [] = {
        { "tureen_state", "2", "version 2" }, { "tureen_state", "\"x\"", "no \"tureen_state\"" },
        { "dataset", "7", "\"dataset\"" }, { "data", "\"9e1f\"", "16 hexadecimal" },
        { "data", "\"9E1F00AA12BC34DE\"", "\"data\"" },
        { "run", "\"\"", "32 hexadecimal" }, { "samples", "\"18446744073709551615\"", "\"samples\"" },
        { "samples", "\"-1\"", "\"samples\"" }, { "samples", "\"299\"", "end with another bit" },
        { "samples", "\"256\"", "another length" }, { "order", "\"random\"", "\"order\"" },
        { "seed", "\"07\"", "\"seed\"" },
        { "pool", "16777217", "\"pool\"" }, { "epoch", "\"9223372036854775808\"", "\"epoch\"" },
        { "batches", "-1", "\"batches\"" },
        { "taken", "{}", "either" }, { "taken", "{\"places\": \"3\"}", "only a list" },
        { "taken", "[]", "either" },
        { "taken", "{\"places\": \"3\", \"words\": \"\"}", "either" },
        { "taken", "{\"count\": \"7\", \"words\": \"\"}", "have 0" },
        { "taken", "{\"count\": \"1\", \"words\": \"AQAAAAAAAA==\"}", "another length" },
        { "taken", "{\"count\": \"1\", \"words\": \"AQAAAAAA!AA=\"}", "base64" },
        { "taken", "{\"count\": \"1\", \"words\": \"AQAAAAAAAAB=\"}", "base64" },
        { "taken", "{\"count\": \"1\", \"words\": \"AQAAAAAAAAAAAAAAAAAAAA==\"}", "end with another bit" },
        { "taken", "{\"count\": \"1\", \"words\": \"AQAAAAAAAAA=\"}", "damaged" },
        { "epoch", "\"4\"", "damaged" }, { "checksum", "\"0\"", "8 hexadecimal" }
    };
    state_t read;
    message_error_t error;
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        json_t *root = json_loads (s_golden ("state_shared"), 0, NULL);
        json_object_set_new (root, cases [index].key,
            json_loads (cases [index].value, JSON_DECODE_ANY, NULL));
        char *text = json_dumps (root, 0);
        json_decref (root);
        if (state_read (&read, text, &error) || !strstr (error.text, cases [index].says))
            fail_msg ("%s: %s: \"%s\" does not say \"%s\"", cases [index].key, cases [index].value,
                error.text, cases [index].says);
        //  And so does a loader, before it asks any server.
        tureen_options_t options = { .dataset = "train", .state = text,
            .endpoint = "ipc:///tmp/tureen-there-is-none.sock" };
        assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
        assert_int_equal (errno, EINVAL);
        assert_non_null (strstr (s_error, "options.state: "));
        free (text);
    }
    assert_false (state_read (&read, "[1]", &error));
    assert_false (state_read (&read, "", &error));
    assert_false (state_read (&read, "{\"tureen_state\": 1, \"tureen_state\": 1}", &error));
}

//  Property: any words, as base64, are those words again, whatever their number.
static void
test_words_both_ways (void **state)
{
    (void) state;
    enum { WORDS = 20 };
    uint64_t random = test_seed ();
    for (size_t count = 0; count < WORDS; count++) {
        state_t one, again;
        message_error_t error;
        assert_true (state_read (&one, s_golden ("state_shared"), &error));
        position_taken_clear (&one.taken);
        one.samples = WORDS * 64;
        one.taken = (position_taken_t) { .words = calloc (WORDS, sizeof (uint64_t)), .word_count = count };
        for (size_t index = 0; index < count; index++) {
            one.taken.words [index] = test_below (&random, UINT64_MAX) | 1;
            one.taken.count += (uint64_t) __builtin_popcountll (one.taken.words [index]);
        }
        char *text = state_write (&one);
        assert_non_null (text);
        if (!state_read (&again, text, &error))
            fail_msg ("%zu words: %s", count, error.text);
        assert_true (s_is_same (&one, &again));
        free (text);
        state_clear (&one);
        state_clear (&again);
    }
}

//  Must hold: the cut of a node's part is of what was taken, each word of it, and of its batches: a state
//  that says otherwise is refused, though its checksum is right.
static void
test_a_cut_is_in_what_was_taken (void **state)
{
    (void) state;
    enum { WORDS = 5 };
    for (size_t word = 0; word < WORDS; word++)
        for (int how = 0; how < 4; how++) {
            state_t one, again = { .epoch = 0 };
            message_error_t error;
            uint64_t taken [WORDS], cut [WORDS];
            assert_true (state_read (&one, s_golden ("state_part"), &error));
            state_clear (&one);
            for (size_t index = 0; index < WORDS; index++) {
                taken [index] = UINT64_C (0xf0f) << index;
                cut [index] = index <= word? UINT64_C (0x101) << index: 0;
            }
            cut [word] |= how == 1? UINT64_C (0x10) << word: 0;         //  a sample that was not taken
            one.samples = WORDS * 64;
            one.batches = 7;
            one.taken = (position_taken_t) { .words = taken, .word_count = WORDS, .count = 8 * WORDS };
            one.part.cut.batches = how == 2? 8: 7;
            one.part.cut.taken = (position_taken_t) { .words = cut, .word_count = word + 1,
                .count = 2 * (word + 1) + (how == 1) };
            if (how == 3)
                one.taken = (position_taken_t) { .words = taken, .word_count = word, .count = 8 * word };
            char *text = state_write (&one);
            assert_non_null (text);
            bool good = state_read (&again, text, &error);
            if (good != (how == 0) || (!good && !strstr (error.text, "not in what was taken")))
                fail_msg ("word %zu, case %d: %s", word, how, good? "it is read": error.text);
            if (good)
                state_clear (&again);
            free (text);
        }
}

//  --------------------------------------------------------------------------
//  How far a job has come

//  In a list, what is missing between two deliveries was unreadable; ids that come again count by their
//  places.
static void
test_the_place_in_a_list (void **state)
{
    (void) state;
    static const uint64_t list [] = { 5, 9, 5, 5, 2, 9, 7, 9 };
    position_t *position = position_new (list, 8, 10);
    position_taken_t taken;
    assert_non_null (position);
    assert_true (position_take (position, (const uint64_t []) { 5, 5 }, 2));        //  9 was unreadable
    position_end_batch (position);
    assert_true (position_taken (position, &taken));
    assert_true (taken.list && taken.count == 3 && !taken.words);
    assert_true (position_take (position, (const uint64_t []) { 2, 7 }, 2));        //  5 and 9 as well
    assert_true (position_taken (position, &taken));
    assert_int_equal (taken.count, 7);
    assert_false (position_take (position, (const uint64_t []) { 5 }, 1));
    assert_int_equal (position_batches (position), 1);
    position_end_epoch (position);
    assert_true (position_epoch (position) == 1 && position_batches (position) == 0);
    assert_true (position_take (position, list, 8));
    position_destroy (&position);
    //  Going on: beyond the list's end, and of another kind.
    position = position_new (list, 8, 10);
    uint64_t word = 1;
    assert_false (position_resume (position, 0, 0, &(position_taken_t) { .list = true, .count = 9 }));
    assert_false (position_resume (position, 0, 0,
        &(position_taken_t) { .count = 1, .words = &word, .word_count = 1 }));
    assert_true (position_resume (position, 2, 3, &(position_taken_t) { .list = true, .count = 8 }));
    assert_false (position_take (position, list, 1));
    position_destroy (&position);
    assert_null (position_new (NULL, 0, UINT64_MAX));
}

//  A server that was started again counts what is skipped of a list as taken before.  A rank that stands in
//  front of that epoch gets all of it, and must not take the epoch's figure for an error.
static void
test_samples_of_an_epoch_that_others_resumed (void **state)
{
    (void) state;
    static const uint64_t list [] = { 5, 9, 2, 7 };
    for (int is_listed = 0; is_listed < 2; is_listed++) {
        position_t *position = position_new (is_listed? list: NULL, is_listed? 4: 0, 10);
        uint64_t samples;
        assert_non_null (position);
        assert_true (position_samples (position, &samples) && samples == 0);
        position_next_job (position);
        for (int epoch = 0; epoch < 2; epoch++) {
            assert_true (position_take (position, (const uint64_t []) { 5, 2, 7 }, 3));   //  9 was unreadable
            assert_int_equal (position_samples (position, &samples), !is_listed);
            assert_int_equal (samples, 3);
            position_end_epoch (position);
        }
        position_destroy (&position);
    }
}

//  Property: the bitmap has what was taken, and nothing is taken twice; a position from a copy goes on the
//  same.
static void
test_the_set_of_an_epoch (void **state)
{
    (void) state;
    for (uint64_t round = 0, seed = test_seed (); round < 60; round++, seed++) {
        uint64_t random = seed, samples = 1 + test_below (&random, 200);
        bool had [200] = { false };
        position_t *position = position_new (NULL, 0, samples);
        uint64_t count = 0;
        for (int step = 0; step < 150; step++) {
            uint64_t id = test_below (&random, samples + 2);
            bool fresh = id < samples && !had [id];
            if (position_take (position, &id, 1) != fresh)
                fail_msg ("seed %" PRIu64 ": id %" PRIu64 " of %" PRIu64, seed, id, samples);
            count += fresh;
            if (fresh)
                had [id] = true;
            if (step % 20 == 0) {
                position_taken_t taken;
                assert_true (position_taken (position, &taken));
                assert_int_equal (taken.count, count);
                assert_true (!taken.word_count || taken.words [taken.word_count - 1]);
                position_t *copy = position_new (NULL, 0, samples);
                assert_true (position_resume (copy, 1, 2, &taken));
                position_destroy (&position);
                position = copy;
                position_taken_clear (&taken);
            }
        }
        position_destroy (&position);
    }
}

//  --------------------------------------------------------------------------
//  Going on

static uint64_t s_list [PLACES];

//  What of each epoch was had, and how the user saw it.
typedef struct {
    uint32_t times [EPOCHS] [SAMPLES];
    uint64_t batches [EPOCHS];
    uint64_t ends;
    bool list;
} had_t;

static void
s_note_batch (had_t *had, const tureen_batch_t *batch)
{
    uint64_t epoch = tureen_batch_epoch (batch);
    assert_true (epoch < EPOCHS && epoch == had->ends);
    assert_int_equal (tureen_batch_index (batch), had->batches [epoch]);
    had->batches [epoch]++;
    for (size_t index = 0; index < tureen_batch_count (batch); index++)
        had->times [epoch] [tureen_batch_ids (batch) [index]]++;
}

//  Reads so many events, or until the end: true.
static bool
s_read (tureen_loader_t *loader, had_t *had, uint64_t events)
{
    for (uint64_t event = 0; event < events; event++) {
        tureen_batch_t *batch;
        switch (tureen_loader_next_within (loader, &batch, PATIENCE_MS)) {
            case TUREEN_BATCH:
                s_note_batch (had, batch);
                tureen_batch_release (&batch);
                break;
            case TUREEN_EPOCH_END:
                assert_int_equal (tureen_loader_epoch (loader).epoch, had->ends);
                assert_int_equal (tureen_loader_epoch (loader).batches, had->batches [had->ends]);
                had->ends++;
                break;
            case TUREEN_END:
                return true;
            default:
                fail_msg ("%s", tureen_loader_error (loader));
        }
    }
    return false;
}

static tureen_loader_t *
s_join (fake_server_t *fake, bool list, const char *text)
{
    tureen_options_t options = { .dataset = "train", .endpoint = fake_endpoint (fake), .batch_size = BATCH,
        .epochs = EPOCHS,
        .state = text, .rejoin_ms = -1, .timeout_ms = PATIENCE_MS };
    if (list) {
        options.order = TUREEN_LIST;
        options.ids = s_list;
        options.id_count = PLACES;
    }
    tureen_loader_t *loader = tureen_loader_new (&options, s_error, sizeof s_error);
    if (!loader)
        fail_msg ("%s", s_error);
    return loader;
}

//  Every sample as often as its epoch should have it: all but the bad one once; in a list as often as it
//  stands there.
static void
s_check_had (const had_t *had, uint64_t bad)
{
    uint32_t expected [SAMPLES] = { 0 };
    for (size_t place = 0; had->list && place < PLACES; place++)
        expected [s_list [place]]++;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint64_t id = 0; id < SAMPLES; id++) {
            uint32_t wanted = id == bad? 0: had->list? expected [id]: 1;
            if (had->times [epoch] [id] != wanted)
                fail_msg ("epoch %" PRIu64 ", sample %" PRIu64 ": %" PRIu32 " times", epoch, id,
                    had->times [epoch] [id]);
        }
    assert_int_equal (had->ends, EPOCHS);
}

//  Property: from every step of a run, a state; and from it another loader, at another server, gives just
//  what was not given.
//  Four slots are ahead of the user all the while.
static void
test_going_on_from_every_step (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (size_t place = 0; place < PLACES; place++)
        s_list [place] = test_below (&random, SAMPLES);
    for (int list = 0; list < 2; list++)
        for (uint64_t steps = 0; ; steps++) {
            fake_plan_t plan = { .samples = SAMPLES, .epochs = EPOCHS, .shuffle = true, .has_bad = true,
                .bad = 3 };
            fake_server_t *fake = fake_new (&plan), *other = fake_new (&plan);
            had_t had = { .list = list };
            tureen_loader_t *loader = s_join (fake, list, NULL);
            bool over = s_read (loader, &had, steps), nothing_left = had.ends == EPOCHS;
            char *text;
            assert_int_equal (tureen_loader_state (loader, &text), 0);
            tureen_loader_destroy (&loader);
            //  Of the first half only where it stopped; the other loader has joined no server before, so it
            //  shuffles otherwise.
            loader = s_join (other, list, text);
            free (text);
            assert_true (s_read (loader, &had, UINT64_MAX));
            s_check_had (&had, 3);
            assert_int_equal (tureen_loader_state (loader, &text), 0);
            json_t *root = json_loads (text, 0, NULL);
            assert_string_equal (json_string_value (json_object_get (root, "epoch")), "2");
            assert_string_equal (json_string_value (json_object_get (root, "batches")), "0");
            json_decref (root);
            free (text);
            fake_seen_t seen = fake_seen (other);
            if (!nothing_left) {
                assert_non_null (strstr (seen.join, "\"seed\":\"7\""));
                assert_non_null (strstr (seen.join, list? "\"order\":\"list\"": "\"order\":\"shared\""));
                assert_string_equal (seen.run, "000000000000000000000000000000aa");
            }
            assert_int_equal (seen.joins, nothing_left? 0: 1);
            tureen_loader_destroy (&loader);
            fake_destroy (&fake);
            fake_destroy (&other);
            if (over)
                break;
        }
}

enum { AHEAD = 3 };

//  What the loop has taken ahead, and the state right behind it.  batch is NULL: an epoch's end.
typedef struct {
    tureen_batch_t *batch;
    char *text;
} ahead_t;

//  False: the end.
static bool
s_take_ahead (tureen_loader_t *loader, ahead_t *taken)
{
    tureen_event_t event = tureen_loader_next_within (loader, &taken->batch, PATIENCE_MS);
    if (event == TUREEN_END)
        return false;
    assert_true (event == TUREEN_BATCH || event == TUREEN_EPOCH_END);
    assert_int_equal (tureen_loader_state (loader, &taken->text), 0);
    return true;
}

//  Trains so many batches and ends of epochs, with up to AHEAD taken ahead: the state of the last one,
//  malloc'ed. *over_p: there were fewer.
static char *
s_train_ahead (tureen_loader_t *loader, had_t *had, uint64_t steps, bool *over_p)
{
    ahead_t taken [AHEAD];
    size_t count = 0;
    char *last;
    assert_int_equal (tureen_loader_state (loader, &last), 0);
    *over_p = false;
    for (uint64_t step = 0; step < steps && !*over_p; step++) {
        while (count < AHEAD && s_take_ahead (loader, &taken [count]))
            count++;
        *over_p = count == 0;
        if (count == 0)
            break;
        if (taken [0].batch)
            s_note_batch (had, taken [0].batch);
        had->ends += !taken [0].batch;
        tureen_batch_release (&taken [0].batch);
        free (last);
        last = taken [0].text;
        memmove (taken, taken + 1, --count * sizeof *taken);
    }
    for (; count > 0; count--) {
        tureen_batch_release (&taken [count - 1].batch);
        free (taken [count - 1].text);
    }
    return last;
}

//  Property: a loop that takes batches ahead of its step, over the ends of epochs, has at each step the state
//  of what it trained: another loader gives what it took ahead, and all behind it.
static void
test_a_loop_that_takes_ahead (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (size_t place = 0; place < PLACES; place++)
        s_list [place] = test_below (&random, SAMPLES);
    for (int list = 0; list < 2; list++) {
        bool over = false;
        for (uint64_t steps = (uint64_t) list; !over; steps += 2) {
            fake_plan_t plan = { .samples = SAMPLES, .epochs = EPOCHS, .shuffle = true, .has_bad = true,
                .bad = 3 };
            fake_server_t *fake = fake_new (&plan), *other = fake_new (&plan);
            had_t had = { .list = list };
            tureen_loader_t *loader = s_join (fake, list, NULL);
            char *text = s_train_ahead (loader, &had, steps, &over);
            tureen_loader_destroy (&loader);
            loader = s_join (other, list, text);
            free (text);
            assert_true (s_read (loader, &had, UINT64_MAX));
            s_check_had (&had, 3);
            tureen_loader_destroy (&loader);
            fake_destroy (&fake);
            fake_destroy (&other);
        }
    }
}

//  What the options say beside the state: the same, or nothing; and the server has the last word on the data.
static void
test_a_state_that_does_not_go_with_the_options (void **state)
{
    (void) state;
    static const uint64_t ids [] = { 1 };
    char shared [TEXT_BYTES], list [TEXT_BYTES];
    strcpy (shared, s_golden ("state_shared"));
    strcpy (list, s_golden ("state_list"));
    const struct { tureen_options_t options; const char *says; } cases [] = {
        { { .state = shared, .order = TUREEN_PRIVATE }, "the state is of order shared" },
        { { .state = shared, .seeded = true, .seed = 8, .order = TUREEN_SHARED }, "options.seed: 8" },
        { { .state = shared, .ids = ids, .id_count = 1, .order = TUREEN_LIST }, "of order shared" },
        { { .state = list }, "the same options.ids" },
        { { .state = list, .ids = ids, .id_count = 1, .order = TUREEN_LIST }, "1088 places" },
        { { .state = shared, .pool = 64, .order = TUREEN_SEEDED }, "of order shared" },
        { { .job = "" }, "options.job" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        tureen_options_t options = cases [index].options;
        options.dataset = "train";
        assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
        assert_int_equal (errno, EINVAL);
        if (!strstr (s_error, cases [index].says))
            fail_msg ("\"%s\" does not say \"%s\"", s_error, cases [index].says);
    }
    //  What the state gives may be left out: here nothing is wrong but that the list is too short.
    tureen_options_t bare = { .dataset = "train", .state = list, .ids = ids, .id_count = 1 };
    assert_null (tureen_loader_new (&bare, s_error, sizeof s_error));
    assert_non_null (strstr (s_error, "1088 places"));
    bare = (tureen_options_t) { .dataset = "train", .state = shared, .pool = 64 };
    assert_null (tureen_loader_new (&bare, s_error, sizeof s_error));
    assert_non_null (strstr (s_error, "options.pool: 64, and the state's is 0"));
    //  Other data: the server's word; and the state is as good as before.
    fake_plan_t plan = { .samples = 300 };
    fake_server_t *fake = fake_new (&plan);
    tureen_options_t options = { .dataset = "train", .endpoint = fake_endpoint (fake), .state = shared };
    assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
    assert_int_equal (errno, ECONNREFUSED);
    assert_non_null (strstr (s_error, "other data (bad_state)"));
    fake_destroy (&fake);
    //  An end without a server.
    options.epochs = 3;
    options.endpoint = "ipc:///tmp/tureen-there-is-none.sock";
    tureen_loader_t *loader = tureen_loader_new (&options, s_error, sizeof s_error);
    assert_non_null (loader);
    tureen_batch_t *batch;
    assert_int_equal (tureen_loader_next (loader, &batch), TUREEN_END);
    assert_int_equal (tureen_loader_info (loader)->dataset_samples, 300);
    char *text, *json;
    assert_int_equal (tureen_loader_state (loader, &text), 0);
    json_t *mine = json_loads (text, 0, NULL), *golden = json_loads (shared, 0, NULL);
    assert_true (json_equal (mine, golden));
    json_decref (mine);
    json_decref (golden);
    free (text);
    assert_int_equal (tureen_loader_stats (loader, &json, s_error, sizeof s_error), -ECONNRESET);
    assert_null (tureen_loader_notice (loader));
    tureen_loader_destroy (&loader);
}

//  A server of before: no state, and everything else as it was.
static void
test_a_server_that_cannot_be_gone_on_with (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 8, .ring = FAKE_NO_RING,
        .joined = "{\"job\":\"7\",\"samples\":\"8\",\"dataset_samples\":\"8\","
        "\"batch_size\":4,\"slots\":4,\"slot_bytes\":\"4096\",\"fields\":[{\"name\":\"x\","
        "\"dtype\":\"uint8\",\"shape\":[4],"
        "\"offset\":\"0\",\"sample_bytes\":\"4\"}],\"ring\":null,\"seed\":\"7\",\"fingerprint\":\"abcd\"}" };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, false, NULL);
    char *text;
    assert_int_equal (tureen_loader_state (loader, &text), -ENOTSUP);
    assert_null (text);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_golden_states), cmocka_unit_test (test_words_both_ways),
        cmocka_unit_test (test_any_damaged_byte_is_refused_or_harmless),
        cmocka_unit_test (test_hostile_states),
        cmocka_unit_test (test_a_cut_is_in_what_was_taken),
        cmocka_unit_test (test_the_place_in_a_list),
        cmocka_unit_test (test_samples_of_an_epoch_that_others_resumed),
        cmocka_unit_test (test_the_set_of_an_epoch),
        cmocka_unit_test (test_going_on_from_every_step),
        cmocka_unit_test (test_a_loop_that_takes_ahead),
        cmocka_unit_test (test_a_state_that_does_not_go_with_the_options),
        cmocka_unit_test (test_a_server_that_cannot_be_gone_on_with)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
