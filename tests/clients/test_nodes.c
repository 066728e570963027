//  A job over several nodes: what its states merge to, what is refused, from which state a node goes on, and
//  its messages.
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
#include "golden.h"
#include "job_options.h"
#include "position.h"
#include "seed.h"
#include "state.h"
#include "tureen.h"

enum { SAMPLES = 300, WORDS = 5, NODES_MAX = 8, PLACES_MAX = 60 };

static char s_error [TUREEN_ERROR_BYTES];
static golden_t s_golden;

//  A node's state; s_owned has its words.
typedef struct {
    state_t state;
    uint64_t words [WORDS];
    uint64_t cut [WORDS];
} owned_t;

static size_t
s_word_count (const uint64_t *words)
{
    size_t count = WORDS;
    while (count && !words [count - 1])
        count--;
    return count;
}

static uint64_t
s_bits (const uint64_t *words)
{
    uint64_t bits = 0;
    for (size_t index = 0; index < WORDS; index++)
        bits += (uint64_t) __builtin_popcountll (words [index]);
    return bits;
}

static void
s_set (uint64_t *words, uint64_t id)
{
    words [id / 64] |= (uint64_t) 1 << id % 64;
}

//  Makes the state of self's words, of a node behind that many batches.
static void
s_fill (owned_t *self, uint32_t nodes, uint32_t node, uint64_t batches)
{
    self->state = (state_t) { .dataset = "train", .fingerprint = "6d0c", .data = "9e1f00aa12bc34de",
        .samples = SAMPLES, .order = TUREEN_SHARED, .seed = 7, .epoch = 1, .batches = batches,
        .taken = { .count = s_bits (self->words), .words = self->words,
            .word_count = s_word_count (self->words) },
        .part = { .nodes = nodes, .node = node, .cut = { .batches = 2, .taken = { .count = s_bits (self->cut),
            .words = self->cut, .word_count = s_word_count (self->cut) } } } };
    snprintf (self->state.run, sizeof self->state.run, "%032x", node);
}

//  Merges; the result is read, for state_clear.  False: s_error says why.
static bool
s_merge (const owned_t *nodes, size_t count, state_t *merged)
{
    char *texts [NODES_MAX * 2], *json;
    message_error_t error;
    for (size_t index = 0; index < count; index++)
        assert_non_null (texts [index] = state_write (&nodes [index].state));
    int rc = tureen_merge_states ((const char *const *) texts, count, &json, s_error, sizeof s_error);
    assert_true (rc == (json? 0: -EINVAL) && !*s_error == !rc);
    if (json)
        assert_true (state_read (merged, json, &error));
    for (size_t index = 0; index < count; index++)
        free (texts [index]);
    free (json);
    return rc == 0;
}

//  Property, beside a set of ids: the job has what any node has, and the greatest number of batches.
static void
test_the_job_has_what_its_nodes_have (void **state)
{
    (void) state;
    for (uint64_t round = 0, seed = test_seed (); round < 200; round++, seed++) {
        uint64_t random = seed, all [WORDS] = { 0 }, most = 0;
        uint32_t count = 2 + (uint32_t) test_below (&random, NODES_MAX - 1);
        owned_t nodes [NODES_MAX + 1] = { 0 };
        state_t merged;
        for (uint64_t id = 0; id < SAMPLES; id++) {
            uint64_t where = test_below (&random, count + 2);       //  a node, the cut, or not taken
            if (where <= count)
                s_set (all, id);
            for (uint32_t node = 0; node < count; node++)
                if (where == node || where == count)
                    s_set (nodes [node].words, id);
            for (uint32_t node = 0; node < count && where == count; node++)
                s_set (nodes [node].cut, id);
        }
        for (uint32_t node = 0; node < count; node++) {
            uint64_t batches = 2 + test_below (&random, 9);
            s_fill (&nodes [node], count, node, batches);
            most = batches > most? batches: most;
        }
        nodes [count] = nodes [count - 1];                          //  another rank's of the last node
        nodes [count].state.taken.words = nodes [count].words;
        nodes [count].state.part.cut.taken.words = nodes [count].cut;
        assert_true (s_merge (nodes, count + test_below (&random, 2), &merged));
        assert_true (merged.part.nodes == 0 && merged.batches == most && merged.taken.count == s_bits (all));
        assert_int_equal (merged.taken.word_count, s_word_count (all));
        assert_memory_equal (merged.taken.words, all, merged.taken.word_count * sizeof *all);
        assert_string_equal (merged.run, nodes [0].state.run);
        state_clear (&merged);
    }
}

//  Property, beside the list: after as many places of all nodes, to its end.
static void
test_places_of_a_list (void **state)
{
    (void) state;
    for (uint64_t round = 0, seed = test_seed (); round < 400; round++, seed++) {
        uint64_t random = seed, list [PLACES_MAX];
        uint32_t count = 2 + (uint32_t) test_below (&random, NODES_MAX - 1);
        size_t length = 1 + test_below (&random, PLACES_MAX), given = test_below (&random, 20), taken;
        uint64_t cut = test_below (&random, length + 1);
        owned_t nodes [NODES_MAX] = { 0 };
        state_t merged;
        for (size_t place = 0; place < length; place++)
            list [place] = test_below (&random, 5);                 //  repeats
        taken = cut;
        for (uint32_t node = 0; node < count; node++) {
            position_t *position = position_new (list, length, SAMPLES);
            const position_cut_t begin = { .batches = 2, .taken = { .list = true, .count = cut } };
            assert_true (position && position_set_node (position, count, node, &begin));
            assert_true (position_resume (position, 1, 2, &begin.taken));
            size_t had = 0;
            for (size_t place = cut; place < length; place++)
                if (place % count == node && had++ < given) {
                    assert_true (position_take (position, &list [place], 1));
                    taken++;
                }
            s_fill (&nodes [node], count, node, 7);
            nodes [node].state.order = TUREEN_LIST;
            assert_true (position_taken (position, &nodes [node].state.taken));
            assert_true (position_cut (position, &nodes [node].state.part.cut));
            position_end_epoch (position);
            position_cut_t after;
            assert_true (position_taken (position, &merged.taken) && merged.taken.count == 0);
            assert_true (position_cut (position, &after) && after.batches == 0 && after.taken.count == 0);
            position_destroy (&position);
        }
        assert_true (s_merge (nodes, count, &merged));
        assert_true (merged.taken.list && merged.taken.count == taken);
        state_clear (&merged);
    }
}

static void
test_what_cannot_be_merged_is_named (void **state)
{
    (void) state;
    owned_t three [4] = { 0 };
    state_t merged;
    for (uint32_t node = 0; node < 3; node++) {
        s_set (three [node].cut, 1);
        s_set (three [node].words, 1);
        for (uint64_t id = 10 + node * 10; id < 16 + node * 10; id++)
            s_set (three [node].words, id);
        s_fill (&three [node], 3, node, 5);
    }
    assert_true (s_merge (three, 3, &merged));
    assert_int_equal (merged.taken.count, 19);
    state_clear (&merged);
    assert_false (s_merge (three, 0, &merged));
    assert_non_null (strstr (s_error, "there is no state to merge"));
    assert_false (s_merge (three, 1, &merged));
    assert_non_null (strstr (s_error, "the state of nodes 1, 2 of 3 is missing: about 12 samples that were "
        "given there would come twice"));
    const struct { const char *says; uint64_t epoch, batches, cut_batches; tureen_parts_t parts;
        uint32_t nodes; const char *data; } cases [] = {
        { "node 0 of 3 is in epoch 1, node 1 of 3 in epoch 2", .epoch = 1 },
        { "different parts", .cut_batches = 1 }, { "different parts", .parts = TUREEN_PARTS_FIXED },
        { "different parts", .nodes = 1 }, { "different jobs: data", .data = "9e1f00aa12bc34df" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        state_t kept = three [1].state, *changed = &three [1].state;
        changed->epoch += cases [index].epoch;
        changed->part.cut.batches += cases [index].cut_batches;
        changed->part.parts = cases [index].parts;
        changed->part.nodes += cases [index].nodes;
        if (cases [index].data)
            snprintf (changed->data, sizeof changed->data, "%s", cases [index].data);
        assert_false (s_merge (three, 3, &merged));
        if (!strstr (s_error, cases [index].says))
            fail_msg ("\"%s\" does not say \"%s\"", s_error, cases [index].says);
        three [1].state = kept;
    }
    three [3] = three [1];
    three [3].state.batches = 6;
    assert_false (s_merge (three, 4, &merged));
    assert_non_null (strstr (s_error, "two states of node 1, of batches 5 and 6"));
    s_set (three [1].words, 10);
    s_fill (&three [1], 3, 1, 5);
    assert_false (s_merge (three, 3, &merged));
    assert_non_null (strstr (s_error, "1 samples in common"));
    three [1].state.part.nodes = 0;
    assert_false (s_merge (three, 3, &merged));
    assert_non_null (strstr (s_error, "either one state of the whole job"));
    const char *damaged = "{}";
    char *json;
    assert_int_equal (tureen_merge_states (&damaged, 1, &json, s_error, sizeof s_error), -EINVAL);
    assert_non_null (strstr (s_error, "state 0: "));
}

//  A node's state is for that node; the loader says how much would come twice, before it asks any server.
static void
test_a_state_is_for_its_node (void **state)
{
    (void) state;
    owned_t node = { 0 };
    for (uint64_t id = 10; id < 16; id++)
        s_set (node.words, id);
    s_fill (&node, 3, 1, 5);
    char *text = state_write (&node.state);
    static const struct { uint32_t nodes, node; tureen_parts_t parts; } others [] = { { 0, 0, 0 },
        { 3, 0, 0 }, { 2, 1, 0 }, { 3, 1, TUREEN_PARTS_FIXED } };
    for (size_t index = 0; index < sizeof others / sizeof *others; index++) {
        tureen_options_t options = { .dataset = "train", .state = text, .nodes = others [index].nodes,
            .node = others [index].node, .parts = others [index].parts,
            .endpoint = "ipc:///tmp/tureen-there-is-none.sock" };
        assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
        assert_int_equal (errno, EINVAL);
        assert_non_null (strstr (s_error, "options.state: it is that of node 1 of 3 with parts fresh"));
        assert_non_null (strstr (s_error, "about 12 samples that the other nodes were given would come "
            "twice. Give what tureen_merge_states makes"));
    }
    const struct { tureen_options_t options; const char *says; } wrong [] = {
        { { .nodes = 1025 }, "options.nodes: 1025; at most 1024" },
        { { .nodes = 2, .node = 2 }, "options.node: 2; expected less than options.nodes, which is 2" },
        { { .node = 1 }, "options.node: 1" }, { { .parts = 7 }, "options.parts" } };
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; index++) {
        tureen_options_t options = wrong [index].options;
        options.dataset = "train";
        assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
        assert_non_null (strstr (s_error, wrong [index].says));
    }
    free (text);
}

//  The JOIN of a node that goes on in its part: what it knows as taken, and where the parts were made.
static void
test_join_of_a_node_is_encoded_as_described (void **state)
{
    (void) state;
    assert_true (golden_read (&s_golden, "join_nodes") && s_golden.count == 4);
    job_options_frames_t frames;
    tureen_options_t options = { .dataset = "train", .batch_size = 2, .epochs = 4, .pipeline = "train",
        .order = TUREEN_SHARED, .slots = 4, .seeded = true, .seed = 7, .name = "trial-3", .job = "trial-3",
        .nodes = 3, .node = 1, .parts = TUREEN_PARTS_FIXED };
    state_t from = { .fingerprint = "6d0c4f1e2a3b5c7d", .data = "9e1f0a2b3c4d5e6f",
        .run = "4b7c1d2e3f405162738495a6b7c8d9ea",
        .order = TUREEN_SHARED, .seed = 7, .epoch = 3, .batches = 5,
        .taken = { .count = 4, .words = (uint64_t []) { 0x780 }, .word_count = 1 },
        .part = { .nodes = 3, .node = 1, .parts = TUREEN_PARTS_FIXED, .cut = { .batches = 4,
            .taken = { .count = 2, .words = (uint64_t []) { 0x180 }, .word_count = 1 } } } };
    job_options_t *checked;
    message_error_t error;
    assert_int_equal (job_options_new (&checked, &options, &error), 0);
    assert_int_equal (job_options_make_join (checked, &(job_options_resume_t) { .from = &from }, &frames,
        &error), 0);
    assert_int_equal (frames.count, 3);
    json_t *ours = json_loadb ((const char *) frames.frames [0].data, frames.frames [0].size, 0, NULL);
    json_t *golden = json_loadb ((const char *) s_golden.frames [1].data, s_golden.frames [1].size, 0, NULL);
    assert_true (ours && golden);
    json_object_set (ours, "instance", json_object_get (golden, "instance"));
    json_object_del (json_object_get (golden, "resume"), "places");         //  0 is the default
    assert_true (json_equal (ours, golden));
    json_decref (ours);
    json_decref (golden);
    for (size_t frame = 1; frame < 3; frame++) {
        assert_int_equal (frames.frames [frame].size, s_golden.frames [frame + 1].size);
        assert_memory_equal (frames.frames [frame].data, s_golden.frames [frame + 1].data,
            frames.frames [frame].size);
    }
    job_options_frames_clear (&frames);
    job_options_destroy (&checked);
}

//  A JOINED of a node, of so many ranks; free it by message_joined_destroy.
static message_joined_t *
s_joined (uint32_t world_size, uint32_t nodes)
{
    message_joined_t *joined;
    message_error_t error;
    assert_true (golden_read (&s_golden, "joined_ranks"));
    json_t *root = json_loadb ((const char *) s_golden.frames [1].data, s_golden.frames [1].size, 0, NULL);
    json_object_set_new (root, "world_size", json_integer (world_size));
    json_object_set_new (root, "rank", json_integer (0));
    json_object_set_new (root, "nodes", json_integer (nodes));
    json_object_set_new (root, "node", json_integer (nodes - 1));
    char *text = json_dumps (root, 0);
    const message_frame_t frames [] = { s_golden.frames [0], { (const uint8_t *) text, strlen (text) } };
    assert_true (message_read_joined (frames, 2, 2, &joined, &error));
    assert_true (joined->info.nodes == nodes
        && joined->info.node == nodes - 1);
    json_decref (root);
    free (text);
    return joined;
}

//  A node's padding has one sample, and a step without any; a job on one node cannot get it.
static void
test_padding_of_a_node (void **state)
{
    (void) state;
    const uint64_t ids [] = { 5, 9 };
    wire_head_t first = message_head (WIRE_BATCH, 5, 0);
    static const struct { uint32_t world_size, nodes, count, flags; uint64_t given; bool fits; } cases [] = {
        { 1, 3, 1, WIRE_BATCH_PADDING, 0, true }, { 1, 3, 1, 0, 0, true }, { 1, 1, 1, 0, 0, true },
        { 1, 1, 1, WIRE_BATCH_PADDING, 0, false }, { 1, 3, 2, WIRE_BATCH_PADDING, 0, false },
        { 2, 3, 1, WIRE_BATCH_PADDING, 0, true }, { 2, 3, 1, 0, 0, false },
        { 2, 1, 1, WIRE_BATCH_PADDING, 0, false }, { 2, 3, 2, WIRE_BATCH_PADDING, 0, false },
        { 2, 3, 1, WIRE_BATCH_PADDING, 1, false } };    //  of the other rank, with id 0
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        message_joined_t *joined = s_joined (cases [index].world_size, cases [index].nodes);
        const wire_batch_t head = { .count = cases [index].count, .flags = cases [index].flags };
        const uint64_t dealt [] = { 0, cases [index].given, 0 };
        message_batch_t batch;
        message_error_t error;
        const message_frame_t frames [] = { { (const uint8_t *) &first, sizeof first },
            { (const uint8_t *) &head, sizeof head }, { (const uint8_t *) ids, cases [index].count * 8 },
            { (const uint8_t *) dealt, (2 + cases [index].given) * 8 } };
        bool fits = message_read_batch (frames, cases [index].world_size > 1? 4: 3, joined, &batch, &error);
        if (fits != cases [index].fits)
            fail_msg ("case %zu: %s", index, fits? "believed": error.text);
        if (fits)
            assert_int_equal (batch.step_count, cases [index].flags? 0: cases [index].count);
        message_joined_destroy (&joined);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_the_job_has_what_its_nodes_have),
        cmocka_unit_test (test_places_of_a_list),
        cmocka_unit_test (test_what_cannot_be_merged_is_named),
        cmocka_unit_test (test_a_state_is_for_its_node),
        cmocka_unit_test (test_join_of_a_node_is_encoded_as_described),
        cmocka_unit_test (test_padding_of_a_node)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
