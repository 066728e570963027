/*  Requests: recorded ones, their heads, and random bytes.  (What a JOIN says: test_request_join.c.  Ids:
 *  test_request_ids.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "frames.h"
#include "request.h"
#include "seed.h"

//  --- Golden frames ----------------------------------------------------------------------------------------

//  Loads a golden message, checks its head, and leaves the frames to the caller.
static void
s_load_head (message_t *message, const char *name, wire_kind_t kind, uint64_t job, uint64_t tag)
{
    wire_head_t head;
    refusal_t refusal = { 0 };
    message_load (message, name);
    request_status_t status = request_head (message->frames, message->count, &head, &refusal);
    if (status != REQUEST_OK)
        fail_msg ("%s: %s", name, refusal.message);
    assert_int_equal (head.version, WIRE_VERSION);
    assert_int_equal (head.kind, kind);
    assert_int_equal (head.job, job);
    assert_int_equal (head.tag, tag);
}

static void
golden_messages_without_a_body (void **state)
{
    (void) state;
    static const struct { const char *name; wire_kind_t kind; uint64_t job, tag; } messages [] = {
        { "inline", WIRE_INLINE, 5, 0 }, { "leave", WIRE_LEAVE, 5, 4 },
        { "status", WIRE_STATUS, 0, 6 }, { "heartbeat", WIRE_HEARTBEAT, 5, 0 },
        { "drain", WIRE_DRAIN, 0, 14 },
    };
    for (size_t index = 0; index < sizeof messages / sizeof *messages; index++) {
        message_t message;
        s_load_head (&message, messages [index].name, messages [index].kind, messages [index].job,
            messages [index].tag);
        message_unload (&message);
    }
}

static void
golden_progress (void **state)
{
    (void) state;
    message_t message;
    wire_progress_t progress;
    refusal_t refusal;
    s_load_head (&message, "progress", WIRE_PROGRESS, 5, 0);
    assert_true (request_progress (&message.frames [1], &progress, &refusal));
    assert_int_equal (progress.consumed, 7);
    assert_int_equal (progress.released, 6);
    assert_int_equal (progress.kept, 5);
    message_unload (&message);
    s_load_head (&message, "progress_large", WIRE_PROGRESS, 0x0102030405060708, 0);
    assert_true (request_progress (&message.frames [1], &progress, &refusal));
    assert_true (progress.consumed == 0x1112131415161718);
    assert_true (progress.released == 0x0807060504030201);
    assert_true (progress.kept == 0x8000000000000001);
    message_unload (&message);
}

static void
s_golden_join (message_t *message, const char *name, uint64_t tag, request_join_t *join)
{
    refusal_t refusal = { 0 };
    s_load_head (message, name, WIRE_JOIN, 0, tag);
    if (!request_join (message->frames, message->count, join, &refusal))
        fail_msg ("%s: %s", name, refusal.message);
    assert_string_equal (join->dataset, "train");
    assert_string_equal (join->name, "trial-3");
    assert_int_equal (join->slots, 4);
    assert_true (join->seed_given);
}

static void
golden_join_with_ranges (void **state)
{
    (void) state;
    message_t message;
    request_join_t join;
    refusal_t refusal = { 0 };
    s_golden_join (&message, "join", 1, &join);
    assert_int_equal (join.batch_size, 64);
    assert_int_equal (join.epochs, 2);
    assert_false (join.drop_last);
    assert_string_equal (json_string_value (join.pipeline), "train");
    assert_int_equal (join.order, REQUEST_SHARED);
    assert_false (join.inline_only);
    assert_int_equal (join.seed, 7);
    assert_true (join.subset_given);
    assert_int_equal (join.list_frames, 0);
    request_join_clear (&join);
    roaring_bitmap_t *set;
    assert_true (request_subset (&message.frames [2], 3000, &set, &refusal));
    assert_int_equal (roaring_bitmap_get_cardinality (set), 2020);
    assert_true (roaring_bitmap_contains (set, 19) && !roaring_bitmap_contains (set, 20));
    assert_true (roaring_bitmap_contains (set, 1000) && roaring_bitmap_contains (set, 2999));
    roaring_bitmap_free (set);
    assert_false (request_subset (&message.frames [2], 2999, &set, &refusal));
    assert_refusal (&refusal, "bad_request", "range 2 ends at 3000, the data set has 2999 samples");
    message_unload (&message);
}

static void
golden_join_at_a_path (void **state)
{
    (void) state;
    message_t message;
    request_join_t join;
    s_golden_join (&message, "join_path", 17, &join);
    assert_string_equal (json_string_value (join.path), "/data/pr\u00fcfung");
    request_join_clear (&join);
    assert_null (join.path);
    message_unload (&message);
}

static void
golden_join_with_words (void **state)
{
    (void) state;
    message_t message;
    request_join_t join;
    refusal_t refusal = { 0 };
    s_golden_join (&message, "join_words", 2, &join);
    assert_true (join.drop_last);
    assert_string_equal (json_string_value (join.pipeline), "eval");
    assert_true (join.seed == UINT64_MAX);
    assert_true (join.subset_given);
    request_join_clear (&join);
    roaring_bitmap_t *set;
    assert_true (request_subset (&message.frames [2], 130, &set, &refusal));
    uint32_t ids [5];
    assert_int_equal (roaring_bitmap_get_cardinality (set), 5);
    roaring_bitmap_to_uint32_array (set, ids);
    static const uint32_t expected [] = { 0, 63, 64, 127, 129 };
    assert_memory_equal (ids, expected, sizeof ids);
    roaring_bitmap_free (set);
    message_unload (&message);
}

static void
golden_join_with_a_list (void **state)
{
    (void) state;
    message_t message;
    request_join_t join;
    refusal_t refusal = { 0 };
    s_golden_join (&message, "join_list", 3, &join);
    assert_int_equal (join.batch_size, 2);
    assert_int_equal (join.epochs, 0);
    assert_int_equal (join.order, REQUEST_LIST);
    assert_true (join.inline_only);
    assert_int_equal (join.list_frames, 2);
    assert_false (join.subset_given);
    assert_int_equal (json_array_size (join.pipeline), 1);
    request_join_clear (&join);
    uint32_t *ids;
    size_t count;
    assert_true (request_list (&message.frames [2], 2, 3000, &ids, &count, &refusal));
    static const uint32_t expected [] = { 5, 3, 3, 2999, 0, 5 };
    assert_int_equal (count, 6);
    assert_memory_equal (ids, expected, sizeof expected);
    free (ids);
    message_unload (&message);
}

static void
golden_join_seeded (void **state)
{
    (void) state;
    message_t message;
    request_join_t join;
    s_golden_join (&message, "join_seeded", 7, &join);
    assert_int_equal (join.order, REQUEST_SEEDED);
    assert_true (join.seed == 7 && !join.subset_given && join.list_frames == 0);
    request_join_clear (&join);
    message_unload (&message);
}

static void
golden_join_pool (void **state)
{
    (void) state;
    message_t message;
    request_join_t join;
    s_golden_join (&message, "join_pool", 9, &join);
    assert_int_equal (join.order, REQUEST_SEEDED);
    assert_true (join.seed == 7 && join.pool == 4096);
    request_join_clear (&join);
    message_unload (&message);
}

static void
golden_join_on_bad (void **state)
{
    (void) state;
    message_t message;
    request_join_t join;
    s_golden_join (&message, "join_on_bad", 15, &join);
    assert_true (join.on_bad_given && join.bad_is_fatal);
    request_join_clear (&join);
    message_unload (&message);
}

static void
golden_join_that_goes_on (void **state)
{
    (void) state;
    message_t message;
    request_join_t join;
    refusal_t refusal = { 0 };
    roaring_bitmap_t *set;
    s_golden_join (&message, "join_resume", 10, &join);
    assert_string_equal (join.job, "trial-3");
    assert_string_equal (join.instance, "00112233445566778899aabbccddeeff");
    assert_string_equal (join.run, "4b7c1d2e3f405162738495a6b7c8d9ea");
    assert_true (join.resume.given);
    assert_string_equal (join.resume.fingerprint, "6d0c4f1e2a3b5c7d");
    assert_string_equal (join.resume.data, "9e1f0a2b3c4d5e6f");
    assert_true (join.resume.epoch == 3 && join.resume.batches == 17 && join.resume.places == 0);
    assert_true (join.subset_given && join.subset_first == 2 && join.taken_frames == 2
        && join.taken_first == 3);
    assert_true (request_taken (&message.frames [join.taken_first], join.taken_frames, 3000, &set, &refusal));
    assert_int_equal (roaring_bitmap_get_cardinality (set), 1088);
    assert_true (roaring_bitmap_contains (set, 29) && !roaring_bitmap_contains (set, 30));
    assert_true (roaring_bitmap_contains (set, 1000) && roaring_bitmap_contains (set, 2067));
    roaring_bitmap_free (set);
    assert_false (request_taken (&message.frames [join.taken_first], join.taken_frames, 2067, &set,
        &refusal));
    assert_refusal (&refusal, "bad_state", "taken: range 0 ends at 2068, the data set has 2067 samples");
    request_join_clear (&join);
    message_unload (&message);
    s_golden_join (&message, "join_resume_list", 11, &join);
    assert_true (join.resume.epoch == 1 && join.resume.batches == 2 && join.resume.places == 4);
    assert_true (join.list_frames == 1 && join.list_first == 2 && join.taken_frames == 0);
    assert_string_equal (join.job, "");
    request_join_clear (&join);
    message_unload (&message);
}

static void
golden_join_of_a_rank (void **state)
{
    (void) state;
    message_t message;
    request_join_t join;
    refusal_t refusal = { 0 };
    broker_record_t *records;
    size_t count;
    s_golden_join (&message, "join_ranks", 13, &join);
    assert_true (join.world_size == 2 && join.rank == 1 && join.gather_seconds == 120
        && join.rank_wait_seconds == 30);
    assert_true (join.taken_frames == 1 && join.recent_frames == 1 && join.recent_first == 3);
    assert_true (request_recent (message.frames, &join, 3000, &records, &count, &refusal));
    assert_int_equal (count, 3);
    assert_true (!records [0].is_end && records [0].epoch == 2 && records [0].index == 4
        && records [0].samples == 3);
    assert_memory_equal (records [0].step, ((uint64_t []) { 2, 1, 2999, 0, 5 }), 40);
    assert_true (records [1].is_end && records [1].epoch == 2 && records [1].index == 5
        && records [1].samples == 19);
    assert_true (!records [2].is_end && records [2].epoch == 3 && records [2].index == 0
        && records [2].samples == 4);
    assert_memory_equal (records [2].step, ((uint64_t []) { 2, 2, 7, 8, 9, 10 }), 48);
    assert_int_equal (request_recent_bytes (records, count, 2), 3 * sizeof *records + 11 * 8);
    free (records);
    assert_false (request_recent (message.frames, &join, 2999, &records, &count, &refusal));
    assert_refusal (&refusal, "bad_state",
        "recent record 0: id 0 is sample 2999, the data set has 2999 samples");
    request_join_clear (&join);
    message_unload (&message);
}

static void
golden_join_of_a_node (void **state)
{
    (void) state;
    message_t message;
    request_join_t join;
    s_golden_join (&message, "join_nodes", 16, &join);
    assert_true (join.nodes == 3 && join.node == 1 && join.parts_fixed && join.world_size == 1);
    assert_true (join.resume.batches == 5 && join.resume.cut_batches == 4 && join.resume.cut_places == 0);
    assert_true (join.taken_frames == 1 && join.cut_frames == 1 && join.cut_first == join.taken_first + 1);
    request_join_clear (&join);
    message_unload (&message);
}

//  --- Head -------------------------------------------------------------------------------------------------

static const wire_head_t s_good_head = { .magic = { 'T', 'U', 'R', 'N' }, .version = 1, .kind = WIRE_JOIN,
    .job = 3, .tag = 9 };

//  Expects the refusal of count frames, of which frame 0 is size bytes of the head.
static wire_head_t
s_refused_head (const wire_head_t *sent, size_t size, size_t count, const char *code, const char *fragment)
{
    uint8_t bytes [sizeof *sent + 8] = { 0 };
    memcpy (bytes, sent, sizeof *sent);
    frame_t frames [WIRE_FRAMES_MAX + 1] = { frame_of (bytes, size) };
    wire_head_t head;
    refusal_t refusal = { 0 };
    assert_int_equal (request_head (frames, count, &head, &refusal), REQUEST_REFUSED);
    assert_refusal (&refusal, code, fragment);
    return head;
}

static void
head_that_is_not_ours_is_ignored (void **state)
{
    (void) state;
    wire_head_t head;
    refusal_t refusal = { 0 };
    static const char *const foreign [] = { "", "T", "TUR", "turn\001\001", "GET / HTTP/1.1\r\n\r\n",
        "TURm" };
    assert_int_equal (request_head (NULL, 0, &head, &refusal), REQUEST_IGNORED);
    for (size_t index = 0; index < sizeof foreign / sizeof *foreign; index++) {
        frame_t frames [2] = { frame_of_text (foreign [index]), frame_of_text ("{}") };
        assert_int_equal (request_head (frames, 2, &head, &refusal), REQUEST_IGNORED);
    }
    frame_t empty = frame_of (NULL, 0);
    assert_int_equal (request_head (&empty, 1, &head, &refusal), REQUEST_IGNORED);
    assert_null (refusal.code);
}

static void
head_refusals (void **state)
{
    (void) state;
    wire_head_t sent = s_good_head, head;
    head = s_refused_head (&sent, 23, 2, "malformed", "has 24 bytes, got 23");
    assert_int_equal (head.tag, 0);
    head = s_refused_head (&sent, 25, 2, "malformed", "has 24 bytes, got 25");
    assert_int_equal (head.tag, 9);
    s_refused_head (&sent, 4, 1, "malformed", "got 4");
    sent.version = 2;
    head = s_refused_head (&sent, 24, 2, "version",
        "version 2 is none of this server's: it speaks version 1");
    assert_int_equal (head.tag, 9);
    assert_int_equal (head.job, 3);
    head = s_refused_head (&sent, 5, 2, "version", "version 2");
    assert_int_equal (head.tag, 0);
    sent = s_good_head;
    sent.zero = 1;
    s_refused_head (&sent, 24, 2, "malformed", "zero, got 1");
    sent = s_good_head;
    static const uint8_t kinds [] = { 0, 17, 129, 138, 145, 255 };
    for (size_t index = 0; index < sizeof kinds; index++) {
        sent.kind = kinds [index];
        char fragment [16];
        snprintf (fragment, sizeof fragment, "kind %u;", kinds [index]);
        head = s_refused_head (&sent, 24, 2, "unknown_kind", fragment);
        assert_int_equal (head.tag, 9);
    }
}

//  An old or a new client is told so, whatever it asks, and whatever else its head is.
static void
heads_of_other_versions (void **state)
{
    (void) state;
    static const uint8_t versions [] = { 0, 2, 255 };
    for (size_t index = 0; index < sizeof versions; index++)
        for (unsigned kind = 0; kind < 256; kind++)
            for (size_t count = 1; count <= 3; count++) {
                wire_head_t sent = s_good_head;
                sent.version = versions [index];
                sent.kind = (uint8_t) kind;
                sent.zero = (uint16_t) (kind % 3);
                char fragment [40];
                snprintf (fragment, sizeof fragment, "version %u is none of this server's", versions [index]);
                wire_head_t head = s_refused_head (&sent, 24, count, "version", fragment);
                assert_int_equal (head.tag, 9);
                s_refused_head (&sent, 6, count, "version", fragment);
                s_refused_head (&sent, 23, count, "version", fragment);
            }
}

static void
wrong_number_of_frames (void **state)
{
    (void) state;
    static const struct { wire_kind_t kind; size_t count; const char *fragment; } cases [] = {
        { WIRE_JOIN, 1, "JOIN has 2 to 130 frames, got 1" },
        { WIRE_JOIN, 131, "JOIN has 2 to 130 frames, got 131" },
        { WIRE_INLINE, 2, "INLINE has 1 frame, got 2" },
        { WIRE_PROGRESS, 1, "PROGRESS has 2 frames, got 1" },
        { WIRE_PROGRESS, 3, "PROGRESS has 2 frames, got 3" },
        { WIRE_LEAVE, 2, "LEAVE has 1 frame, got 2" },
        { WIRE_STATUS, 1, "STATUS has 2 frames, got 1" },
        { WIRE_STATUS, 3, "STATUS has 2 frames, got 3" },
        { WIRE_DRAIN, 1, "DRAIN has 2 frames, got 1" }, { WIRE_DATASET, 3, "DATASET has 2 frames, got 3" },
        { WIRE_HEARTBEAT, 2, "HEARTBEAT has 1 frame, got 2" },
        { WIRE_ADD, 1, "ADD has 2 frames, got 1" }, { WIRE_REMOVE, 3, "REMOVE has 2 frames, got 3" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        wire_head_t sent = s_good_head;
        sent.kind = (uint8_t) cases [index].kind;
        s_refused_head (&sent, 24, cases [index].count, "malformed", cases [index].fragment);
    }
}

static void
progress_of_a_wrong_size (void **state)
{
    (void) state;
    static const uint8_t bytes [32];
    static const size_t sizes [] = { 0, 23, 25, 32 };
    for (size_t index = 0; index < 4; index++) {
        frame_t frame = frame_of (bytes, sizes [index]);
        wire_progress_t progress;
        refusal_t refusal = { 0 };
        assert_false (request_progress (&frame, &progress, &refusal));
        assert_refusal (&refusal, "malformed", "has 24 bytes, got ");
    }
}

static void
refusals_are_cut_at_a_character (void **state)
{
    (void) state;
    for (size_t shift = 0; shift < 3; shift++) {
        char text [1024] = "";
        memset (text, 'x', shift);
        for (size_t index = 0; index < 300; index++)
            memcpy (text + shift + 3 * index, "\xe2\x82\xac", 4);
        refusal_t refusal;
        assert_false (refuse (&refusal, "busy", "%s", text));
        size_t length = strlen (refusal.message);
        assert_true (length < sizeof refusal.message && length > sizeof refusal.message - 8);
        assert_string_equal (refusal.message + length - 3, "...");
        assert_int_equal ((length - 3 - shift) % 3, 0);
    }
}

//  --- Random bytes -----------------------------------------------------------------------------------------

//  Random bytes, and a good JOIN with random bytes changed: no crash, and every refusal has a code and a
//  reason.
static void
random_bytes (void **state)
{
    (void) state;
    static const char good [] = "{\"dataset\":\"d\",\"batch_size\":8,\"epochs\":null,\"seed\":\"7\","
        "\"pipeline\":[{\"op\":\"flip\",\"p\":0.5}],\"name\":\"\\u00e4\",\"frames\":[\"subset\"]}";
    for (uint64_t seed = test_seed (), round = 0; round < 20000; seed++, round++) {
        uint64_t random = seed;
        char text [sizeof good];
        memcpy (text, good, sizeof good);
        size_t size = sizeof good - 1;
        for (uint64_t hits = test_below (&random, 4) + (round % 8? 0: 200); hits; hits--)
            text [test_below (&random, size)] = (char) test_below (&random, 256);
        wire_head_t sent = s_good_head;
        if (test_below (&random, 4) == 0)
            ((uint8_t *) &sent) [test_below (&random, sizeof sent)] = (uint8_t) test_below (&random, 256);
        frame_t frames [3] = { frame_of (&sent, sizeof sent), frame_of (text, size), frame_of (text, 8) };
        refusal_t refusal = { 0 };
        wire_head_t head;
        if (request_head (frames, 3, &head, &refusal) == REQUEST_REFUSED)
            assert_true (refusal.code && *refusal.message);
        request_join_t join;
        refusal = (refusal_t) { 0 };
        if (request_join (frames, 3, &join, &refusal))
            request_join_clear (&join);
        else
            assert_true (refusal.code && *refusal.message);
        for (const char *at = refusal.message; *at; at++)
            assert_true ((uint8_t) *at >= ' ' && *at != 0x7f);
    }
}

//  ---- data sets that are added and removed

static void
golden_add_and_remove (void **state)
{
    (void) state;
    static const char *const words [] = { "--dataset", "val=/data/val", "--field", "val.mask=mask:/m",
        "--tenant-datasets", "vision=val" };
    message_t message;
    request_add_t add;
    request_remove_t removal;
    refusal_t refusal;
    s_load_head (&message, "add", WIRE_ADD, 0, 15);
    assert_true (request_add (&message.frames [1], &add, &refusal));
    assert_int_equal (add.count, sizeof words / sizeof *words);
    for (size_t word = 0; word < add.count; word++)
        assert_string_equal (add.words [word], words [word]);
    request_add_clear (&add);
    message_unload (&message);
    s_load_head (&message, "remove", WIRE_REMOVE, 0, 16);
    assert_true (request_remove (&message.frames [1], &removal, &refusal));
    assert_string_equal (removal.dataset, "val");
    assert_true (removal.now);
    message_unload (&message);
    frame_t frame = frame_of_text ("{\"dataset\": \"val\"}");
    assert_true (request_remove (&frame, &removal, &refusal) && !removal.now);
}

static void
additions_and_removals_that_are_refused (void **state)
{
    (void) state;
    static const struct { bool adds; const char *text, *code, *fragment; } cases [] = {
        { true, "{}", "bad_request", "ADD takes" },
        { true, "{\"arguments\":\"--dataset\"}", "bad_request", "ADD takes" },
        { true, "{\"arguments\":[\"--dataset\"],\"now\":true}", "bad_request", "ADD takes" },
        { true, "{\"arguments\":[]}", "bad_request", "1 to 1024 words, as `tureen serve` takes them, got 0" },
        { true, "{\"arguments\":[\"a\",[]]}", "bad_request", "word 2 is no text" },
        { true, "{\"arguments\":[\"a\\u0000b\"]}", "malformed", "no JSON" },
        { true, "[]", "malformed", "no object" },
        { false, "{}", "bad_request", "dataset is missing" },
        { false, "{\"dataset\":\"\"}", "bad_request", "dataset: expected a printable text" },
        { false, "{\"dataset\":\"a\\nb\"}", "bad_request", "dataset: expected a printable text" },
        { false, "{\"dataset\":\"val\",\"now\":1}", "bad_request", "now: expected true or false, got 1" },
        { false, "{\"dataset\":\"val\",\"soon\":true}", "bad_request", "unknown key 'soon'" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        frame_t frame = frame_of_text (cases [index].text);
        refusal_t refusal = { 0 };
        request_add_t add;
        request_remove_t removal;
        assert_false (cases [index].adds? request_add (&frame, &add, &refusal):
            request_remove (&frame, &removal, &refusal));
        assert_refusal (&refusal, cases [index].code, cases [index].fragment);
    }
}

//  As many and as long words as are taken, and one more.
static void
words_of_an_addition_are_bounded (void **state)
{
    (void) state;
    static const struct { size_t count, bytes; bool is_taken; } cases [] = {
        { REQUEST_WORDS_MAX, 1, true }, { REQUEST_WORDS_MAX + 1, 1, false },
        { 1, REQUEST_WORD_BYTES_MAX, true }, { 1, REQUEST_WORD_BYTES_MAX + 1, false },
        { 4, REQUEST_WORD_BYTES_MAX, true }
    };
    static char text [64 * 1024];
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        size_t used = (size_t) snprintf (text, sizeof text, "{\"arguments\":[");
        for (size_t word = 0; word < cases [index].count; word++) {
            used += (size_t) snprintf (text + used, sizeof text - used, "%s\"", word? ",": "");
            memset (text + used, 'w', cases [index].bytes);
            used += cases [index].bytes;
            text [used++] = '"';
        }
        used += (size_t) snprintf (text + used, sizeof text - used, "]}");
        frame_t frame = frame_of (text, used);
        refusal_t refusal = { 0 };
        request_add_t add;
        assert_int_equal (request_add (&frame, &add, &refusal), cases [index].is_taken);
        if (cases [index].is_taken) {
            assert_int_equal (add.count, cases [index].count);
            request_add_clear (&add);
        }
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (golden_messages_without_a_body),
        cmocka_unit_test (golden_progress),
        cmocka_unit_test (golden_join_with_ranges),
        cmocka_unit_test (golden_join_at_a_path),
        cmocka_unit_test (golden_join_with_words),
        cmocka_unit_test (golden_join_with_a_list),
        cmocka_unit_test (golden_join_seeded),
        cmocka_unit_test (golden_join_pool),
        cmocka_unit_test (golden_join_on_bad),
        cmocka_unit_test (golden_join_that_goes_on),
        cmocka_unit_test (golden_join_of_a_rank),
        cmocka_unit_test (golden_join_of_a_node),
        cmocka_unit_test (head_that_is_not_ours_is_ignored),
        cmocka_unit_test (head_refusals),
        cmocka_unit_test (heads_of_other_versions),
        cmocka_unit_test (wrong_number_of_frames),
        cmocka_unit_test (progress_of_a_wrong_size),
        cmocka_unit_test (refusals_are_cut_at_a_character),
        cmocka_unit_test (random_bytes),
        cmocka_unit_test (golden_add_and_remove),
        cmocka_unit_test (additions_and_removals_that_are_refused),
        cmocka_unit_test (words_of_an_addition_are_bounded),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
