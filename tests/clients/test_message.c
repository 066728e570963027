//  The wire: golden frames, byte for byte, and messages that are almost right.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "golden.h"
#include "job_options.h"
#include "message.h"
#include "recent_steps.h"

static golden_t s_golden;

static void
s_read (const char *name, size_t frames)
{
    if (!golden_read (&s_golden, name) || s_golden.count != frames)
        fail_msg ("tests/golden/%s.hex: %zu frames, expected %zu", name, s_golden.count, frames);
}

//  Reads the head of the message in s_golden.
static wire_head_t
s_head (wire_kind_t kind)
{
    wire_head_t head;
    message_error_t error;
    assert_int_equal (message_read_head (s_golden.frames, s_golden.count, &head, &error), MESSAGE_OK);
    assert_int_equal (head.kind, kind);
    return head;
}

static message_joined_t *
s_joined (const char *name, uint32_t batch_size)
{
    message_error_t error = { "" };
    message_joined_t *joined;
    s_read (name, 2);
    if (!message_read_joined (s_golden.frames, s_golden.count, batch_size, &joined, &error))
        fail_msg ("%s: %s", name, error.text);
    return joined;
}

//  --------------------------------------------------------------------------
//  Golden frames

static void
test_heads_are_encoded_as_described (void **state)
{
    (void) state;
    static const struct { const char *name; wire_kind_t kind; uint64_t job, tag; size_t frames; } cases [] = {
        { "inline", WIRE_INLINE, 5, 0, 1 }, { "leave", WIRE_LEAVE, 5, 4, 1 },
        { "heartbeat", WIRE_HEARTBEAT, 5, 0, 1 },
        { "status", WIRE_STATUS, 0, 6, 2 }, { "progress", WIRE_PROGRESS, 5, 0, 2 },
        { "progress_large", WIRE_PROGRESS, 0x0102030405060708, 0, 2 }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        s_read (cases [index].name, cases [index].frames);
        wire_head_t head = message_head (cases [index].kind, cases [index].job, cases [index].tag);
        assert_int_equal (s_golden.frames [0].size, sizeof head);
        assert_memory_equal (s_golden.frames [0].data, &head, sizeof head);
    }
}

static void
test_progress_is_encoded_as_described (void **state)
{
    (void) state;
    wire_progress_t progress = { .consumed = 7, .released = 6, .kept = 5 };
    s_read ("progress", 2);
    assert_int_equal (s_golden.frames [1].size, sizeof progress);
    assert_memory_equal (s_golden.frames [1].data, &progress, sizeof progress);
    progress = (wire_progress_t) { .consumed = 0x1112131415161718, .released = 0x0807060504030201,
        .kept = 0x8000000000000001 };
    s_read ("progress_large", 2);
    assert_memory_equal (s_golden.frames [1].data, &progress, sizeof progress);
}

static job_options_frames_t s_frames;

//  The frames of a JOIN, of which there are so many; without the instance, which is another for every loader.
static size_t
s_make (const job_options_t *checked, const job_options_resume_t *resume)
{
    message_error_t error;
    assert_int_equal (job_options_make_join (checked, resume, &s_frames, &error), 0);
    char *text = strndup ((const char *) s_frames.frames [0].data, s_frames.frames [0].size);
    char *instance = strstr (text, ",\"instance\":\"");
    assert_non_null (instance);
    char *end = instance + strlen (",\"instance\":\"") + WIRE_RUN_BYTES + 1;
    assert_true (end [-1] == '"' && strspn (end - WIRE_RUN_BYTES - 1, "0123456789abcdef") == WIRE_RUN_BYTES);
    memmove (instance, end, strlen (end) + 1);
    free ((void *) (uintptr_t) s_frames.frames [0].data);
    s_frames.frames [0] = (message_frame_t) { .data = (uint8_t *) text, .size = strlen (text) };
    return s_frames.count;
}

//  A JOIN from options is the golden one, key for key.
static void
test_join_is_encoded_as_described (void **state)
{
    (void) state;
    s_read ("join", 3);
    //  The ids are the golden frame's own ranges.
    tureen_range_t ranges [8];
    size_t count = (s_golden.frames [2].size - 8) / sizeof *ranges;
    assert_in_range (count, 1, 8);
    memcpy (ranges, s_golden.frames [2].data + 8, count * sizeof *ranges);
    tureen_options_t options = { .dataset = "train", .batch_size = 64, .epochs = 2, .pipeline = "train",
        .order = TUREEN_SHARED, .slots = 4,
        .seeded = true, .seed = 7, .name = "trial-3", .subset = ranges, .subset_count = count };
    job_options_t *checked;
    message_error_t error;
    assert_int_equal (job_options_new (&checked, &options, &error), 0);
    assert_int_equal (s_make (checked, &(job_options_resume_t) { .from = NULL }), 2);
    for (size_t index = 0; index < 2; index++) {
        message_frame_t frame = s_frames.frames [index];
        assert_int_equal (frame.size, s_golden.frames [index + 1].size);
        assert_memory_equal (frame.data, s_golden.frames [index + 1].data, frame.size);
    }
    job_options_frames_clear (&s_frames);
    job_options_destroy (&checked);
}

static void
test_seeded_join_is_encoded_as_described (void **state)
{
    (void) state;
    s_read ("join_seeded", 2);
    tureen_options_t options = { .dataset = "train", .epochs = 2, .pipeline = "train", .slots = 4,
        .order = TUREEN_SEEDED, .seeded = true, .seed = 7, .name = "trial-3" };
    job_options_t *checked;
    message_error_t error;
    assert_int_equal (job_options_new (&checked, &options, &error), 0);
    assert_int_equal (s_make (checked, &(job_options_resume_t) { .from = NULL }), 1);
    message_frame_t frame = s_frames.frames [0];
    assert_int_equal (frame.size, s_golden.frames [1].size);
    assert_memory_equal (frame.data, s_golden.frames [1].data, frame.size);
    job_options_frames_clear (&s_frames);
    job_options_destroy (&checked);
}

static void
test_join_with_a_pool_is_encoded_as_described (void **state)
{
    (void) state;
    s_read ("join_pool", 2);
    tureen_options_t options = { .dataset = "train", .epochs = 2, .pipeline = "train", .slots = 4,
        .order = TUREEN_SEEDED, .seeded = true, .seed = 7, .pool = 4096, .name = "trial-3" };
    job_options_t *checked;
    message_error_t error;
    assert_int_equal (job_options_new (&checked, &options, &error), 0);
    s_make (checked, &(job_options_resume_t) { .from = NULL });
    message_frame_t frame = s_frames.frames [0];
    assert_int_equal (frame.size, s_golden.frames [1].size);
    assert_memory_equal (frame.data, s_golden.frames [1].data, frame.size);
    job_options_frames_clear (&s_frames);
    job_options_destroy (&checked);
}

//  If the user chooses no order, the server chooses it by the seed.
static void
test_orders_are_said_as_they_were_chosen (void **state)
{
    (void) state;
    static const struct { tureen_order_t order; const char *said; } cases [] = {
        { TUREEN_ORDER_DEFAULT, NULL }, { TUREEN_SHARED, "\"order\":\"shared\"" },
        { TUREEN_PRIVATE, "\"order\":\"private\"" }, { TUREEN_LIST, "\"order\":\"list\"" },
        { TUREEN_SEEDED, "\"order\":\"seeded\"" }
    };
    for (size_t index = 0; index < 2 * sizeof cases / sizeof *cases; index++) {
        tureen_options_t options = { .dataset = "train", .order = cases [index / 2].order,
            .seeded = index % 2, .seed = UINT64_MAX };
        job_options_t *checked;
        message_error_t error;
        assert_int_equal (job_options_new (&checked, &options, &error), 0);
        s_make (checked, &(job_options_resume_t) { .from = NULL });
        message_frame_t frame = s_frames.frames [0];
        char text [256];
        snprintf (text, sizeof text, "%.*s", (int) frame.size, (const char *) frame.data);
        const char *said = cases [index / 2].said;
        if (said? !strstr (text, said): strstr (text, "\"order\"") != NULL)
            fail_msg ("case %zu: %s", index, text);
        const char *seed = strstr (text, options.seeded? "\"seed\":\"18446744073709551615\"": "\"seed\"");
        if ((seed != NULL) != options.seeded)
            fail_msg ("case %zu: %s", index, text);
        job_options_frames_clear (&s_frames);
    job_options_destroy (&checked);
    }
}

static void
test_join_with_a_list_is_encoded_as_described (void **state)
{
    (void) state;
    s_read ("join_list", 4);
    assert_int_equal (s_golden.frames [2].data [0], WIRE_IDS_LIST);
    uint64_t ids [64];
    size_t count = (s_golden.frames [2].size - 8) / sizeof *ids;
    memcpy (ids, s_golden.frames [2].data + 8, count * sizeof *ids);
    tureen_options_t options = { .dataset = "train", .batch_size = 2, .order = TUREEN_LIST, .ids = ids,
        .id_count = count };
    job_options_t *checked;
    message_error_t error;
    assert_int_equal (job_options_new (&checked, &options, &error), 0);
    s_make (checked, &(job_options_resume_t) { .from = NULL });
    message_frame_t frame = s_frames.frames [1];
    assert_int_equal (frame.size, s_golden.frames [2].size);
    assert_memory_equal (frame.data, s_golden.frames [2].data, frame.size);
    job_options_frames_clear (&s_frames);
    job_options_destroy (&checked);
}

//  Going on: what the state says, in its place; the instance is the golden frame's only by its length.
static void
test_join_that_goes_on_is_encoded_as_described (void **state)
{
    (void) state;
    s_read ("join_resume_list", 3);
    uint64_t ids [64];
    size_t count = (s_golden.frames [2].size - 8) / sizeof *ids;
    memcpy (ids, s_golden.frames [2].data + 8, count * sizeof *ids);
    tureen_options_t options = { .dataset = "train", .batch_size = 2, .pipeline = "train",
        .order = TUREEN_LIST, .slots = 4,
        .seeded = true, .seed = 7, .name = "trial-3", .ids = ids, .id_count = count };
    state_t from = { .fingerprint = "6d0c4f1e2a3b5c7d", .data = "9e1f0a2b3c4d5e6f",
        .run = "4b7c1d2e3f405162738495a6b7c8d9ea",
        .order = TUREEN_LIST, .seed = 7, .epoch = 1, .batches = 2, .taken = { .list = true, .count = 4 } };
    job_options_t *checked;
    message_error_t error;
    assert_int_equal (job_options_new (&checked, &options, &error), 0);
    assert_int_equal (s_make (checked, &(job_options_resume_t) { .from = &from }), 2);
    char expected [2048];
    snprintf (expected, sizeof expected, "%.*s", (int) s_golden.frames [1].size,
        (const char *) s_golden.frames [1].data);
    char *instance = strstr (expected, ",\"instance\":"), *after = strstr (expected, ",\"run\":");
    assert_true (instance && after);
    memmove (instance, after, strlen (after) + 1);
    assert_string_equal ((const char *) s_frames.frames [0].data, expected);
    assert_int_equal (s_frames.frames [1].size, s_golden.frames [2].size);
    assert_memory_equal (s_frames.frames [1].data, s_golden.frames [2].data, s_golden.frames [2].size);
    job_options_frames_clear (&s_frames);
    job_options_destroy (&checked);
    //  And of a set: the words that are taken, in as many frames as they need.
    uint64_t *words = calloc (140000, sizeof *words);
    assert_non_null (words);
    words [139999] = 1;
    from.order = TUREEN_SHARED;
    from.taken = (position_taken_t) { .count = 1, .words = words, .word_count = 140000 };
    assert_int_equal (job_options_new (&checked, &(tureen_options_t) { .dataset = "train", .batch_size = 2 },
        &error), 0);
    assert_int_equal (s_make (checked, &(job_options_resume_t) { .from = &from }), 3);
    assert_non_null (strstr ((const char *) s_frames.frames [0].data, "\"frames\":[\"taken\",\"taken\"]"));
    assert_int_equal (s_frames.frames [1].size, 8 + 131071 * 8);
    assert_int_equal (s_frames.frames [2].size, 8 + (140000 - 131071) * 8);
    assert_int_equal (s_frames.frames [1].data [0], WIRE_IDS_WORDS);
    job_options_frames_clear (&s_frames);
    job_options_destroy (&checked);
    free (words);
}

//  The JOIN of a rank that continues: its identity, and the last steps that it received.
static void
test_join_of_a_rank_is_encoded_as_described (void **state)
{
    (void) state;
    s_read ("join_ranks", 4);
    tureen_options_t options = { .dataset = "train", .batch_size = 2, .epochs = 4, .pipeline = "train",
        .order = TUREEN_SHARED,
        .slots = 4, .seeded = true, .seed = 7, .name = "trial-3", .job = "trial-3", .world_size = 2,
        .rank = 1,
        .gather_seconds = 300, .rank_wait_seconds = 30 };
    state_t from = { .fingerprint = "6d0c4f1e2a3b5c7d", .data = "9e1f0a2b3c4d5e6f",
        .run = "4b7c1d2e3f405162738495a6b7c8d9ea",
        .order = TUREEN_SHARED, .seed = 7, .epoch = 3, .batches = 1,
        .taken = { .count = 4, .words = (uint64_t []) { 0x780 }, .word_count = 1 } };
    recent_steps_t recent = { .world_size = 2, .steps_max = 5 };
    uint64_t one [] = { 2, 1, 2999, 0, 5 }, other [] = { 2, 2, 7, 8, 9, 10 };
    assert_true (recent_steps_add (&recent,
        &(message_batch_t) { .head = { .epoch = 2, .index = 4 }, .counts = (uint8_t *) one,
        .step = (uint8_t *) (one + 2), .step_count = 3 }));
    assert_true (recent_steps_add_end (&recent,
        &(wire_epoch_end_t) { .epoch = 2, .batches = 5, .samples = 19 }));
    assert_true (recent_steps_add (&recent,
        &(message_batch_t) { .head = { .epoch = 3, .index = 0 }, .counts = (uint8_t *) other,
        .step = (uint8_t *) (other + 2), .step_count = 4 }));
    job_options_resume_t resume = { .from = &from, .gather_seconds = 120 };
    resume.recent = recent_steps_numbers (&recent, &resume.recent_count);
    job_options_t *checked;
    message_error_t error;
    assert_int_equal (job_options_new (&checked, &options, &error), 0);
    assert_int_equal (s_make (checked, &resume), 3);
    //  `places` is sent only with a list; and the instance differs for every loader.
    char expected [2048];
    snprintf (expected, sizeof expected, "%.*s", (int) s_golden.frames [1].size,
        (const char *) s_golden.frames [1].data);
    static const char *const apart [] [2] = { { ",\"places\":\"0\"", "}" },
        { ",\"instance\":", ",\"run\":" } };
    for (size_t index = 0; index < 2; index++) {
        char *place = strstr (expected, apart [index] [0]);
        assert_non_null (place);
        char *after = strstr (place, apart [index] [1]);
        memmove (place, after, strlen (after) + 1);
    }
    assert_string_equal ((const char *) s_frames.frames [0].data, expected);
    assert_int_equal (s_frames.frames [2].size, s_golden.frames [3].size);
    assert_memory_equal (s_frames.frames [2].data, s_golden.frames [3].data, s_golden.frames [3].size);
    job_options_frames_clear (&s_frames);
    job_options_destroy (&checked);
    recent_steps_clear (&recent);
}

static void
test_joined_is_read_as_described (void **state)
{
    (void) state;
    message_joined_t *joined = s_joined ("joined", 64);
    assert_int_equal (s_head (WIRE_JOINED).job, 5);
    const tureen_info_t *info = &joined->info;
    assert_int_equal (info->job, 5);
    assert_int_equal (info->samples, 2020);
    assert_int_equal (info->dataset_samples, 3000);
    assert_true (info->rank == 0 && info->world_size == 1);
    assert_int_equal (info->slots, 4);
    assert_int_equal (info->seed, 7);
    assert_int_equal (info->class_count, 2);
    assert_string_equal (info->classes [0], "cat");
    assert_int_equal (info->field_count, 2);
    assert_string_equal (info->fields [0].name, "image");
    assert_int_equal (info->fields [0].shape [2], 3);
    assert_int_equal (info->fields [1].dimensions, 0);
    assert_int_equal (info->fields [1].offset, 9633792);
    assert_string_equal (info->pipeline, "[{\"op\": \"decode\"}, {\"share\": true}]");
    assert_true (info->ring);
    assert_int_equal (joined->slot_bytes, 9637888);
    assert_int_equal (joined->ring_bytes, 38551552);
    assert_int_equal (joined->heartbeat_ms, 1000);
    assert_string_equal (joined->ring_token, "0123456789abcdef0123456789abcdef");
    message_joined_destroy (&joined);
    assert_null (joined);
}

//  As many fields as there may be, of every dtype that a server tells.
static void
test_fields_of_every_dtype_are_read (void **state)
{
    (void) state;
    static const struct { const char *dtype; size_t bytes; } dtypes [] = {
        { "uint8", 1 }, { "int8", 1 }, { "uint16", 2 }, { "int16", 2 }, { "uint32", 4 }, { "int32", 4 },
        { "uint64", 8 },
        { "int64", 8 }, { "float16", 2 }, { "bfloat16", 2 }, { "float32", 4 }, { "float64", 8 }, { "bool", 1 }
    };
    message_joined_t *joined = s_joined ("joined_fields", 3);
    const tureen_info_t *info = &joined->info;
    assert_int_equal (info->field_count, 24);
    for (size_t index = 0; index < 24; index++) {
        const tureen_field_t *field = &info->fields [index];
        char name [16];
        snprintf (name, sizeof name, "field_%zu", index);
        assert_string_equal (field->name, name);
        assert_string_equal (field->dtype, dtypes [index % 13].dtype);
        assert_int_equal (field->dimensions, index % 5);
        size_t bytes = dtypes [index % 13].bytes;
        for (size_t side = 0; side < field->dimensions; side++)
            bytes *= field->shape [side];
        assert_int_equal (field->sample_bytes, bytes);
        assert_int_equal (field->offset % 64, 0);
    }
    message_joined_destroy (&joined);
}

static void
test_batches_are_read_as_described (void **state)
{
    (void) state;
    message_error_t error;
    message_batch_t batch;
    message_joined_t *joined = s_joined ("joined", 64);
    s_read ("batch", 3);
    s_head (WIRE_BATCH);
    assert_true (message_read_batch (s_golden.frames, s_golden.count, joined, &batch, &error));
    assert_int_equal (batch.head.sequence, 41);
    assert_int_equal (batch.head.epoch, 1);
    assert_int_equal (batch.head.index, 9);
    assert_int_equal (batch.head.slot, 3);
    assert_int_equal (batch.head.count, 3);
    message_joined_destroy (&joined);
    joined = s_joined ("joined_inline", 2);
    assert_false (joined->info.ring);
    s_read ("batch_inline", 4);
    s_head (WIRE_BATCH);
    assert_true (message_read_batch (s_golden.frames, s_golden.count, joined, &batch, &error));
    assert_int_equal (batch.head.flags, WIRE_BATCH_INLINE);
    assert_int_equal (batch.head.slot, 1);
    message_joined_destroy (&joined);
}

//  The golden JOINED of a plain job, as it would be of one of two ranks.
static message_joined_t *
s_joined_rank (uint32_t rank)
{
    static const char *const ranks [] = { "\"rank\":0,\"world_size\":2", "\"rank\":1,\"world_size\":2" };
    char text [8192];
    s_read ("joined", 2);
    snprintf (text, sizeof text, "%.*s", (int) s_golden.frames [1].size,
        (const char *) s_golden.frames [1].data);
    char *place = strstr (text, "\"rank\":0,\"world_size\":1");
    assert_non_null (place);
    memcpy (place, ranks [rank], strlen (ranks [rank]));
    message_frame_t frames [2] = { s_golden.frames [0], { (uint8_t *) text, strlen (text) } };
    message_joined_t *joined;
    message_error_t error;
    if (!message_read_joined (frames, 2, 64, &joined, &error))
        fail_msg ("%s", error.text);
    return joined;
}

//  Of what a rank lacked some samples may be unreadable by now, or all, and then it is padding; of a batch in
//  the ring, none.
static void
test_what_could_still_be_read (void **state)
{
    (void) state;
    static const struct {
        uint64_t ids [2];
        uint32_t count, flags;
        bool fits;
    } cases [] = {
        { { 3, 2999 }, 2, 0, true }, { { 3 }, 1, 0, true }, { { 2999 }, 1, 0, true },
        { { 2999, 3 }, 2, 0, false }, { { 3, 3 }, 2, 0, false },
        { { 0 }, 1, 0, false }, { { 0 }, 1, WIRE_BATCH_PADDING, true },
        { { 7 }, 1, WIRE_BATCH_PADDING, false }
    };
    message_joined_t *joined = s_joined ("joined_ranks", 2);
    s_read ("batch_recalled", 5);
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        for (int is_loose = 0; is_loose < 2; is_loose++) {
            wire_batch_t head;
            memcpy (&head, s_golden.frames [1].data, sizeof head);
            head.count = cases [index].count;
            head.flags = cases [index].flags | (is_loose? WIRE_BATCH_INLINE: 0);
            head.slot = is_loose? WIRE_SLOT_NONE: 0;
            uint64_t ids [2] = { cases [index].ids [0], cases [index].ids [1] };
            message_frame_t frames [5] = { s_golden.frames [0], { (uint8_t *) &head, sizeof head },
                { (uint8_t *) ids, cases [index].count * sizeof *ids }, s_golden.frames [3],
                s_golden.frames [4] };
            message_batch_t batch;
            message_error_t error;
            bool is_whole = cases [index].count == 2 && cases [index].fits;
            assert_int_equal (message_read_batch (frames, is_loose? 5: 4, joined, &batch, &error),
                is_loose? cases [index].fits: is_whole);
        }
    message_joined_destroy (&joined);
}

//  Its part of a step, padding, and what it lacked, which lies in no slot.
static void
test_batches_of_ranks_are_read_as_described (void **state)
{
    (void) state;
    static const struct {
        const char *name;
        uint32_t rank;
        size_t frames;
        uint32_t slot, count, flags;
        size_t step_count, payload;
    } cases [] = {
        { "batch_ranks", 0, 4, 3, 3, 0, 5, 0 },
        { "batch_padding", 1, 4, 0, 1, WIRE_BATCH_PADDING, 1, 0 },
        { "batch_recalled", 1, 5, WIRE_SLOT_NONE, 2, WIRE_BATCH_INLINE, 4, 4 }
    };
    for (size_t index = 0; index < 3; index++) {
        message_error_t error;
        message_batch_t batch;
        message_joined_t *joined = cases [index].payload? s_joined ("joined_ranks", 2):
            s_joined_rank (cases [index].rank);
        const tureen_info_t *info = &joined->info;
        assert_true (info->ring && info->rank == cases [index].rank && info->world_size == 2);
        s_read (cases [index].name, cases [index].frames);
        s_head (WIRE_BATCH);
        if (!message_read_batch (s_golden.frames, s_golden.count, joined, &batch, &error))
            fail_msg ("%s: %s", cases [index].name, error.text);
        assert_int_equal (batch.head.slot, cases [index].slot);
        assert_int_equal (batch.head.count, cases [index].count);
        assert_int_equal (batch.head.flags, cases [index].flags);
        assert_int_equal (batch.step_count, cases [index].step_count);
        assert_int_equal (batch.payload, cases [index].payload);
        assert_ptr_equal (batch.ids, s_golden.frames [2].data);
        assert_ptr_equal (batch.step, s_golden.frames [3].data + 16);
        message_joined_destroy (&joined);
    }
    message_note_t note;
    message_error_t error;
    s_read ("notice_gathering", 2);
    assert_true (s_head (WIRE_NOTICE).job == 0 && message_read_note (s_golden.frames, 2, &note, &error));
    assert_string_equal (note.code, "gathering");
    uint64_t count;
    char *json;
    assert_false (message_read_unreadable (s_golden.frames, 2, &count, &json, &error));
    s_read ("notice_unreadable", 2);
    assert_true (s_head (WIRE_NOTICE).job == 5 && message_read_note (s_golden.frames, 2, &note, &error));
    assert_string_equal (note.code, "unreadable");
    assert_true (message_read_unreadable (s_golden.frames, 2, &count, &json, &error));
    assert_int_equal (count, 2);
    assert_string_equal (json, "{\"count\":2,\"samples\":[{\"id\":17,\"reason\":\"cat/0017.jpg: empty\"},"
        "{\"id\":1500,\"reason\":\"dog/0001.png: ends before its image does\"}]}");
    free (json);
}

static void
test_ends_and_errors_are_read_as_described (void **state)
{
    (void) state;
    message_error_t error;
    wire_epoch_end_t end;
    s_read ("epoch_end", 2);
    s_head (WIRE_EPOCH_END);
    assert_true (message_read_epoch_end (s_golden.frames, s_golden.count, &end, &error));
    assert_int_equal (end.epoch, 1);
    assert_int_equal (end.samples, 2019);
    assert_int_equal (end.batches, 32);
    assert_int_equal (end.flags, WIRE_EPOCH_LAST);
    static const struct { const char *name; wire_kind_t kind; const char *code, *text; } cases [] = {
        { "ended", WIRE_ENDED, "left", "the client left" },
        { "ended_stopping", WIRE_ENDED, "stopping", "the server ends" },
        { "error", WIRE_ERROR, "unknown_dataset", "no data set 'trian'; this server has: train, val" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        message_note_t note;
        s_read (cases [index].name, 2);
        s_head (cases [index].kind);
        assert_true (message_read_note (s_golden.frames, s_golden.count, &note, &error));
        assert_string_equal (note.code, cases [index].code);
        assert_string_equal (note.text, cases [index].text);
    }
}

static void
test_status_is_read_as_described (void **state)
{
    (void) state;
    message_error_t error;
    char *json;
    s_read ("status_reply", 2);
    assert_int_equal (s_head (WIRE_STATUS_REPLY).tag, 6);
    assert_true (message_read_object (s_golden.frames, s_golden.count, &json, &error));
    assert_string_equal (json, "{\"version\":\"0.1.0\",\"datasets\":[],\"jobs\":[]}");
    free (json);
}

//  --------------------------------------------------------------------------
//  Almost right

static void
test_heads_that_are_almost_right (void **state)
{
    (void) state;
    message_error_t error;
    wire_head_t head, right = message_head (WIRE_EPOCH_END, 5, 0);
    uint8_t end [32] = { 0 };
    message_frame_t frames [2] = { { (uint8_t *) &right, sizeof right }, { end, sizeof end } };
    assert_int_equal (message_read_head (frames, 2, &head, &error), MESSAGE_OK);
    assert_int_equal (message_read_head (frames, 0, &head, &error), MESSAGE_BROKEN);
    assert_int_equal (message_read_head (frames, 1, &head, &error), MESSAGE_BROKEN);
    assert_int_equal (message_read_head (frames, 9, &head, &error), MESSAGE_BROKEN);
    frames [0].size--;
    assert_int_equal (message_read_head (frames, 2, &head, &error), MESSAGE_BROKEN);
    frames [0].size++;
    right.version = 2;
    assert_int_equal (message_read_head (frames, 2, &head, &error), MESSAGE_BROKEN);
    assert_non_null (strstr (error.text, "version 2"));
    right.version = WIRE_VERSION;
    right.kind = 99;
    assert_int_equal (message_read_head (frames, 9, &head, &error), MESSAGE_IGNORED);
    right.magic [0] = 't';
    assert_int_equal (message_read_head (frames, 2, &head, &error), MESSAGE_BROKEN);
}

//  The golden JOINED with one text replaced by another.
static bool
s_read_changed (const char *from, const char *to, message_error_t *error)
{
    s_read ("joined", 2);
    char text [8192];
    const char *json = (const char *) s_golden.frames [1].data;
    size_t size = s_golden.frames [1].size;
    const char *place = memmem (json, size, from, strlen (from));
    if (!place)
        fail_msg ("no %s in the golden frame", from);
    int length = snprintf (text, sizeof text, "%.*s%s%.*s", (int) (place - json), json, to,
        (int) (json + size - place - (ptrdiff_t) strlen (from)), place + strlen (from));
    message_frame_t frames [2] = { s_golden.frames [0], { (uint8_t *) text, (size_t) length } };
    message_joined_t *joined;
    bool fine = message_read_joined (frames, 2, 64, &joined, error);
    assert_true (fine == (joined != NULL));
    message_joined_destroy (&joined);
    return fine;
}

static void
test_joined_that_is_almost_right (void **state)
{
    (void) state;
    static const char *const cases [] [2] = {
        { "\"job\":\"5\"", "\"job\":\"-5\"" }, { "\"job\":\"5\"", "\"job\":\"\"" },
        { "\"job\":\"5\"", "\"jab\":1" },
        { "\"job\":\"5\"", "\"job\":\"18446744073709551616\"" }, { "\"job\":\"5\"", "\"job\":5.0" },
        { "\"batch_size\":64", "\"batch_size\":65" }, { "\"slots\":4", "\"slots\":0" },
        { "\"slots\":4", "\"slots\":65" },
        { "\"slots\":4", "\"slots\":5" }, { "\"slot_bytes\":\"9637888\"", "\"slot_bytes\":\"0\"" },
        { "\"slot_bytes\":\"9637888\"", "\"slot_bytes\":\"9637889\"" },
        { "\"slot_bytes\":\"9637888\"", "\"slot_bytes\":\"18446744073709551615\"" },
        { "\"slot_bytes\":\"9637888\"", "\"slot_bytes\":\"9633792\"" },     //  no room for the labels
        { "\"offset\":\"9633792\"", "\"offset\":\"9637880\"" },
        { "\"offset\":\"9633792\"", "\"offset\":\"9633793\"" },
        { "[224,224,3]", "[224,224,4]" }, { "[224,224,3]", "[224,-224,3]" },
        { "[224,224,3]", "[1,1,1,1,1,1,1,1,1]" },
        { "[224,224,3]", "[2147483647,2147483647,2147483647]" }, { "[224,224,3]", "3" },
        { "\"sample_bytes\":\"8\"", "\"sample_bytes\":\"4\"" }, { "\"name\":\"label\"", "\"name\":\"\"" },
        { "\"dtype\":\"int64\"", "\"dtype\":\"bfloat16\"" },
        { "\"name\":\"label\"", "\"name\":\"la\\u0000bel\"" }, { "\"dtype\":\"int64\"", "\"dtype\":64" },
        { "[\"cat\",\"dog\"]", "[\"cat\",1]" }, { "\"bytes\":\"38551552\"", "\"bytes\":\"38551553\"" },
        { "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcde" },
        { "/run/user/1000/tureen/server.sock.ring", "" },
        { "\"seed\":\"7\"", "\"seed\":\"7\",\"seed\":\"7\"" }, { "\"rank\":0", "\"rank\":1" },
        { "\"rank\":0", "\"rank\":-1" },
        { "\"world_size\":1", "\"world_size\":0" }, { "\"world_size\":1", "\"world_size\":65" },
        { "\"world_size\":1", "\"world_size\":null" }
    };
    message_error_t error;
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        if (s_read_changed (cases [index] [0], cases [index] [1], &error))
            fail_msg ("%s was taken", cases [index] [1]);
    //  And what must be taken: numbers instead of texts, unknown keys and types, no classes, no heartbeat.
    static const char *const fine [] [2] = {
        { "\"job\":\"5\"", "\"job\":5" },
        { "\"seed\":\"7\"", "\"seed\":\"18446744073709551615\",\"future\":{}" },
        { "\"dtype\":\"int64\"", "\"dtype\":\"datetime64\"" }, { "\"classes\":[\"cat\",\"dog\"],", "" },
        { "\"heartbeat_ms\":1000", "\"heartbeat_ms\":0" }, { "\"rank\":0,\"world_size\":1,", "" },
        { "\"rank\":0,\"world_size\":1", "\"rank\":63,\"world_size\":64" }
    };
    for (size_t index = 0; index < sizeof fine / sizeof *fine; index++)
        if (!s_read_changed (fine [index] [0], fine [index] [1], &error))
            fail_msg ("%s: %s", fine [index] [1], error.text);
}

static void
test_batches_that_are_almost_right (void **state)
{
    (void) state;
    message_joined_t *joined = s_joined ("joined", 64);
    s_read ("batch", 3);
    wire_batch_t right;
    message_batch_t batch;
    message_error_t error;
    message_frame_t frames [4] = { s_golden.frames [0], { (uint8_t *) &right, sizeof right },
        s_golden.frames [2] };
    static const struct { uint32_t slot, count, flags; size_t frames, size, ids; bool fine; } cases [] = {
        { 3, 3, 0, 3, 40, 24, true }, { 3, 3, 1u << 31, 3, 40, 24, true }, { 4, 3, 0, 3, 40, 24, false },
        { 3, 0, 0, 3, 40, 0, false }, { 3, 65, 0, 3, 40, 65 * 8, false }, { 3, 3, 0, 3, 40, 16, false },
        { 3, 3, 0, 3, 39, 24, false }, { 3, 3, 0, 2, 40, 24, false }, { 3, 3, 0, 4, 40, 24, false },
        { 3, 3, 1, 3, 40, 24, false }, { 3, 3, 1, 4, 40, 24, false }, { UINT32_MAX, 3, 0, 3, 40, 24, false },
        { 3, UINT32_MAX, 0, 3, 40, 24, false }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        memcpy (&right, s_golden.frames [1].data, sizeof right);
        right.slot = cases [index].slot;
        right.count = cases [index].count;
        right.flags = cases [index].flags;
        frames [1].size = cases [index].size;
        frames [2].size = cases [index].ids;
        if (message_read_batch (frames, cases [index].frames, joined, &batch, &error) != cases [index].fine)
            fail_msg ("case %zu", index);
    }
    message_joined_destroy (&joined);
}

//  A step of two ranks: 3 and 2 samples, and each thing in it a little wrong.
static void
test_steps_that_are_almost_right (void **state)
{
    (void) state;
    static const struct {
        uint64_t counts [2], own, step [5];
        uint32_t rank, count, flags;
        size_t frames, bytes;
        bool fine;
    } cases [] = {
        { { 3, 2 }, 5, { 5, 6, 7, 8, 9 }, 0, 3, 0, 4, 56, true },
        { { 3, 2 }, 8, { 5, 6, 7, 8, 9 }, 1, 2, 0, 4, 56, true },
        { { 3, 2 }, 5, { 5, 6, 7, 8, 9 }, 1, 3, 0, 4, 56, false },
        { { 3, 2 }, 5, { 5, 6, 7, 8, 9 }, 1, 2, 0, 4, 56, false },
        { { 3, 2 }, 5, { 5, 6, 7, 8, 9 }, 0, 2, 0, 4, 56, false },
        { { 3, 2 }, 5, { 5, 6, 7, 8, 9 }, 0, 3, 0, 3, 56, false },
        { { 3, 2 }, 5, { 5, 6, 7, 8, 9 }, 0, 3, 0, 4, 48, false },
        { { 3, 2 }, 5, { 5, 6, 7, 8, 9 }, 0, 3, 0, 4, 55, false },
        { { 3, 2 }, 5, { 5, 6, 7, 8, 9 }, 0, 3, 0, 4, 8, false },
        { { 3, 2 }, 5, { 5, 6, 7, 8, 9 }, 0, 3, 0, 4, 0, false },
        { { 3, 1 }, 5, { 5, 6, 7, 8, 9 }, 0, 3, 0, 4, 56, false },
        { { 2, 3 }, 5, { 5, 6, 7, 8, 9 }, 0, 3, 0, 4, 56, false },
        { { UINT64_MAX, 6 }, 5, { 5, 6, 7, 8, 9 }, 1, 3, 0, 4, 56, false },
        { { 65, 0 }, 5, { 5 }, 1, 1, 2, 4, 16 + 65 * 8, false },
        { { 5, 0 }, 6, { 5, 6, 7, 8, 9 }, 1, 1, 2, 4, 56, true },
        { { 5, 0 }, 4, { 5, 6, 7, 8, 9 }, 1, 1, 2, 4, 56, false },
        { { 5, 0 }, 6, { 5, 6, 7, 8, 9 }, 1, 2, 2, 4, 56, false },
        { { 5, 0 }, 6, { 5, 6, 7, 8, 9 }, 1, 1, 0, 4, 56, false },
        { { 5, 0 }, 5, { 5, 6, 7, 8, 9 }, 0, 1, 2, 4, 56, false },
        { { 0, 0 }, 5, { 5 }, 1, 1, 2, 4, 16, false }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        message_joined_t *joined = s_joined_rank (cases [index].rank);
        uint64_t ids [3] = { cases [index].own, cases [index].own + 1, cases [index].own + 2 },
            step [2 + 65] = { 0 };
        memcpy (step, cases [index].counts, 16);
        memcpy (step + 2, cases [index].step, sizeof cases [index].step);
        wire_batch_t head = { .slot = 1, .count = cases [index].count, .flags = cases [index].flags };
        message_frame_t frames [4] = { { NULL, 0 }, { (uint8_t *) &head, sizeof head },
            { (uint8_t *) ids, head.count * 8 },
            { (uint8_t *) step, cases [index].bytes } };
        message_batch_t batch;
        message_error_t error;
        if (message_read_batch (frames, cases [index].frames, joined, &batch, &error) != cases [index].fine)
            fail_msg ("case %zu", index);
        //  A job of one has no padding.
        message_joined_destroy (&joined);
        joined = s_joined ("joined", 64);
        assert_int_equal (message_read_batch (frames, 3, joined, &batch, &error),
            !(head.flags & WIRE_BATCH_PADDING));
        message_joined_destroy (&joined);
    }
}

//  A server's sentence reaches a terminal: no control characters, no more than fits.
static void
test_notes_are_fit_for_a_terminal (void **state)
{
    (void) state;
    char text [2048];
    int length = snprintf (text, sizeof text, "{\"error\":\"x\",\"message\":\"a\\u001b[31m\\n%01000d\"}", 0);
    message_frame_t frames [2] = { { NULL, 0 }, { (uint8_t *) text, (size_t) length } };
    message_note_t note;
    message_error_t error;
    assert_true (message_read_note (frames, 2, &note, &error));
    assert_int_equal (memcmp (note.text, "a [31m 000", 10), 0);
    assert_int_equal (strlen (note.text), sizeof note.text - 1);
    frames [1].size = 2;
    memcpy (text, "{}", 2);
    assert_true (message_read_note (frames, 2, &note, &error));
    assert_string_equal (note.code, "unknown");
    frames [1].size = MESSAGE_JSON_BYTES_MAX + 1u;      //  refused before it is looked at
    assert_false (message_read_note (frames, 2, &note, &error));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_heads_are_encoded_as_described),
        cmocka_unit_test (test_progress_is_encoded_as_described),
        cmocka_unit_test (test_join_is_encoded_as_described),
        cmocka_unit_test (test_seeded_join_is_encoded_as_described),
        cmocka_unit_test (test_join_with_a_pool_is_encoded_as_described),
        cmocka_unit_test (test_orders_are_said_as_they_were_chosen),
        cmocka_unit_test (test_join_with_a_list_is_encoded_as_described),
        cmocka_unit_test (test_join_that_goes_on_is_encoded_as_described),
        cmocka_unit_test (test_join_of_a_rank_is_encoded_as_described),
        cmocka_unit_test (test_joined_is_read_as_described),
        cmocka_unit_test (test_fields_of_every_dtype_are_read),
        cmocka_unit_test (test_batches_are_read_as_described),
        cmocka_unit_test (test_batches_of_ranks_are_read_as_described),
        cmocka_unit_test (test_what_could_still_be_read),
        cmocka_unit_test (test_ends_and_errors_are_read_as_described),
        cmocka_unit_test (test_status_is_read_as_described),
        cmocka_unit_test (test_heads_that_are_almost_right),
        cmocka_unit_test (test_joined_that_is_almost_right),
        cmocka_unit_test (test_batches_that_are_almost_right),
        cmocka_unit_test (test_steps_that_are_almost_right),
        cmocka_unit_test (test_notes_are_fit_for_a_terminal)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
