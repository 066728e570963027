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
head_rejection_log (void **state)
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
    static const uint8_t kinds [] = { 0, 10, 129, 138, 255 };
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
rejection_log_are_cut_at_a_character (void **state)
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

//  --- JSON -------------------------------------------------------------------------------------------------

static bool
s_join (const char *json, size_t frame_count, request_join_t *join, refusal_t *refusal)
{
    frame_t frames [FRAMES_MAX] = { frame_of (&s_good_head, sizeof s_good_head), frame_of_text (json) };
    *refusal = (refusal_t) { 0 };
    return request_join (frames, frame_count, join, refusal);
}

static void
s_refused_join (const char *json, size_t frame_count, const char *code, const char *fragment)
{
    request_join_t join;
    refusal_t refusal;
    if (s_join (json, frame_count, &join, &refusal))
        fail_msg ("taken: %s", json);
    assert_refusal (&refusal, code, fragment);
    assert_null (join.pipeline);
}

//  The least JOIN and one more member.
static void
s_refused_member (const char *member, const char *fragment)
{
    char json [1024];
    snprintf (json, sizeof json, "{\"dataset\":\"d\",\"batch_size\":8,%s}", member);
    s_refused_join (json, 2, "bad_request", fragment);
}

static request_join_t
s_good_join (const char *members, size_t frame_count)
{
    char json [1024];
    request_join_t join;
    refusal_t refusal;
    snprintf (json, sizeof json, "{\"dataset\":\"d\",\"batch_size\":8%s}", members);
    if (!s_join (json, frame_count, &join, &refusal))
        fail_msg ("%s: %s", json, refusal.message);
    return join;
}

static void
join_defaults (void **state)
{
    (void) state;
    request_join_t join = s_good_join ("", 2);
    assert_string_equal (join.dataset, "d");
    assert_string_equal (join.name, "");
    assert_int_equal (join.batch_size, 8);
    assert_int_equal (join.epochs, 0);
    assert_false (join.drop_last);
    assert_string_equal (json_string_value (join.pipeline), "train");
    assert_int_equal (join.order, REQUEST_SHARED);
    assert_int_equal (join.slots, 4);
    assert_false (join.inline_only);
    assert_false (join.seed_given);
    assert_false (join.subset_given);
    assert_int_equal (join.list_frames, 0);
    request_join_clear (&join);
    request_join_clear (&join);
}

static void
join_extremes (void **state)
{
    (void) state;
    request_join_t join = s_good_join (",\"epochs\":9007199254740992,\"slots\":64,\"order\":\"private\","
        "\"name\":\"\",\"seed\":\"0\",\"frames\":[],\"pipeline\":[],"
        "\"transport\":\"inline\",\"drop_last\":true", 2);
    assert_true (join.epochs == UINT64_C (1) << 53);
    assert_int_equal (join.slots, 64);
    assert_int_equal (join.order, REQUEST_PRIVATE);
    assert_true (join.seed_given && join.seed == 0 && join.inline_only && join.drop_last);
    request_join_clear (&join);
    join = s_good_join (",\"slots\":3,\"epochs\":1,\"seed\":9223372036854775807,"
        "\"name\":\"gr\\u00fc\\u00dfe \\u20ac\"", 2);
    assert_true (join.seed == INT64_MAX && join.slots == 3 && join.epochs == 1);
    assert_string_equal (join.name, "gr\xc3\xbc\xc3\x9f" "e \xe2\x82\xac");
    request_join_clear (&join);
    join = s_good_join (",\"seed\":\"000000000000000000000000000007\",\"order\":\"list\"", 2);
    assert_true (join.seed == 7 && join.order == REQUEST_LIST && join.list_frames == 0);
    request_join_clear (&join);
    join = s_good_join (",\"frames\":[\"subset\"],\"order\":\"list\"", 3);
    assert_true (join.subset_given && join.order == REQUEST_LIST);
    request_join_clear (&join);
    request_join_t largest;
    refusal_t refusal;
    assert_true (s_join ("{\"dataset\":\"0123456789012345678901234567890123456789012345678901234567890123\","
        "\"batch_size\":65536}", 2, &largest, &refusal));
    assert_int_equal (largest.batch_size, 65536);
    assert_int_equal (strlen (largest.dataset), 64);
    request_join_clear (&largest);
}

//  A seed by itself asks for the run again; beside an order, wherever it stands, it is what it was.
static void
join_orders (void **state)
{
    (void) state;
    static const struct { const char *members; request_order_t order; } cases [] = {
        { "", REQUEST_SHARED },
        { ",\"seed\":\"7\"", REQUEST_SEEDED },
        { ",\"seed\":0", REQUEST_SEEDED },
        { ",\"order\":\"seeded\"", REQUEST_SEEDED },
        { ",\"order\":\"seeded\",\"seed\":\"7\"", REQUEST_SEEDED },
        { ",\"order\":\"shared\",\"seed\":\"7\"", REQUEST_SHARED },
        { ",\"seed\":\"7\",\"order\":\"shared\"", REQUEST_SHARED },
        { ",\"seed\":\"7\",\"order\":\"private\"", REQUEST_PRIVATE },
        { ",\"seed\":\"7\",\"order\":\"list\"", REQUEST_LIST },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        request_join_t join = s_good_join (cases [index].members, 2);
        if (join.order != cases [index].order)
            fail_msg ("%s: order %d", cases [index].members, (int) join.order);
        assert_int_equal (join.seed_given, strstr (cases [index].members, "seed\":") != NULL);
        request_join_clear (&join);
    }
    request_join_t join = s_good_join (",\"seed\":\"7\",\"frames\":[\"subset\"]", 3);
    assert_true (join.subset_given && join.order == REQUEST_SEEDED);
    assert_int_equal (join.pool, 0);
    request_join_clear (&join);
    //  A pool goes with the order, wherever it stands.
    join = s_good_join (",\"pool\":8,\"seed\":\"7\"", 2);
    assert_true (join.pool == 8 && join.order == REQUEST_SEEDED);
    request_join_clear (&join);
    join = s_good_join (",\"pool\":16777216,\"order\":\"seeded\"", 2);
    assert_true (join.pool == 1 << 24 && join.order == REQUEST_SEEDED);
    request_join_clear (&join);
}

static void
join_ranks (void **state)
{
    (void) state;
    request_join_t join = s_good_join ("", 2);
    assert_true (join.world_size == 1 && join.rank == 0 && join.gather_seconds == 300
        && join.rank_wait_seconds == 10);
    request_join_clear (&join);
    join = s_good_join (",\"rank\":63,\"job\":\"j\",\"gather\":1,\"rank_wait\":0,\"world_size\":64", 2);
    assert_true (join.world_size == 64 && join.rank == 63 && join.gather_seconds == 1
        && join.rank_wait_seconds == 0);
    request_join_clear (&join);
    join = s_good_join (",\"rank\":0,\"world_size\":1,\"gather\":86400,\"rank_wait\":86400", 2);
    assert_true (join.world_size == 1 && join.gather_seconds == 86400 && join.rank_wait_seconds == 86400);
    request_join_clear (&join);
    join = s_good_join (",\"on_bad\":\"fail\"", 2);
    assert_true (join.on_bad_given && join.bad_is_fatal);
    request_join_clear (&join);
    join = s_good_join (",\"on_bad\":\"drop\"", 2);
    assert_true (join.on_bad_given && !join.bad_is_fatal);
    request_join_clear (&join);
    //  The whole of a job is bounded, and only that: 64 x 64 x 256 samples, and one batch more.
    refusal_t refusal;
    assert_true (s_join ("{\"dataset\":\"d\",\"batch_size\":256,\"slots\":64,\"world_size\":64,"
        "\"job\":\"j\"}", 2, &join,
        &refusal));
    request_join_clear (&join);
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":257,\"slots\":64,\"world_size\":64,\"job\":\"j\"}", 2,
        "bad_request", "batch_size x slots x world_size is 1052672 samples; at most 1048576");
}

static void
json_that_is_none (void **state)
{
    (void) state;
    static const char *const texts [] = { "", " ", "{", "{}x", "{\"a\":1,}", "{'a':1}", "\"\\ud800\"", "nul",
        "{\"a\":\"\xff\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":NaN}", "{\"a\":01}", "\xef\xbb\xbf{}" };
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++)
        s_refused_join (texts [index], 2, "malformed", "no JSON, line ");
    s_refused_join ("{\"dataset\":\"a\",\"dataset\":\"b\"}", 2, "malformed", "duplicate");
    s_refused_join ("{\"dataset\":\"a\\u0000b\"}", 2, "malformed", "no JSON");
    s_refused_join ("{\"seed\":18446744073709551615}", 2, "malformed", "goes into a string");
    s_refused_join ("{\"dataset\":\"a\001\"}", 2, "malformed", "no JSON");
    s_refused_join ("[]", 2, "malformed", "is no object");
    s_refused_join ("{}", 1, "malformed", "JOIN has 2 to 130 frames, got 1");
    s_refused_join ("{}", 2, "bad_request", "dataset is missing");
    s_refused_join ("{\"dataset\":\"a\"}", 2, "bad_request", "batch_size is missing");
}

static void
json_with_a_zero_byte (void **state)
{
    (void) state;
    static const char json [] = "{\"dataset\":\"a\"}\0{}";
    frame_t frames [2] = { frame_of (&s_good_head, sizeof s_good_head), frame_of (json, sizeof json) };
    request_join_t join;
    refusal_t refusal = { 0 };
    assert_false (request_join (frames, 2, &join, &refusal));
    assert_refusal (&refusal, "malformed", "zero byte");
    frames [1] = frame_of (NULL, 0);
    assert_false (request_join (frames, 2, &join, &refusal));
    assert_refusal (&refusal, "malformed", "no JSON");
}

//  A JOIN whose pipeline nests, so that the object is level 1.
static char *
s_nested (size_t levels)
{
    char *json = calloc (1, 128 + 2 * levels);
    assert_non_null (json);
    strcpy (json,
        "{\"name\":\"[[[[[[[[[[[[[[[[[[[[[\\\"{{{{{\",\"dataset\":\"d\",\"batch_size\":1,\"pipeline\":");
    memset (json + strlen (json), '[', levels - 1);
    memset (json + strlen (json), ']', levels - 1);
    strcat (json, "}");
    return json;
}

static void
json_too_deep (void **state)
{
    (void) state;
    request_join_t join;
    refusal_t refusal;
    char *json = s_nested (16);
    assert_true (s_join (json, 2, &join, &refusal));
    request_join_clear (&join);
    free (json);
    json = s_nested (17);
    s_refused_join (json, 2, "malformed", "nests 17 levels deep, at most 16");
    free (json);
    json = s_nested (20000);
    s_refused_join (json, 2, "malformed", "nests 20000 levels deep");
    free (json);
}

//  Closing brackets that belong to nothing must not make room for opening ones.
static void
json_depth_is_not_fooled (void **state)
{
    (void) state;
    char json [4000] = "";
    memset (json, ']', 1000);
    memset (json + 1000, '[', 20);
    s_refused_join (json, 2, "malformed", "nests 20 levels");
    memset (json, '"', 2);
    memset (json + 2, '[', 1018);
    s_refused_join (json, 2, "malformed", "nests 1018 levels");
}

static void
json_too_large (void **state)
{
    (void) state;
    char *json = malloc (65538);
    assert_non_null (json);
    memset (json, ' ', 65537);
    json [65537] = 0;
    const char *text = "{\"dataset\":\"d\",\"batch_size\":1}";
    memcpy (json, text, strlen (text));
    s_refused_join (json, 2, "malformed", "has 65537 bytes, at most 65536");
    json [65536] = 0;
    request_join_t join;
    refusal_t refusal;
    assert_true (s_join (json, 2, &join, &refusal));
    request_join_clear (&join);
    free (json);
}

static void
values_of_a_wrong_kind (void **state)
{
    (void) state;
    static const struct { const char *member, *fragment; } cases [] = {
        { "\"epochs\":0", "epochs: expected null or an integer from 1 to 2^53, got 0" },
        { "\"epochs\":-1", "got -1" },
        { "\"epochs\":9007199254740993", "got 9007199254740993" },
        { "\"epochs\":2.0", "got 2.0" },
        { "\"epochs\":\"2\"", "got \"2\"" },
        { "\"drop_last\":1", "drop_last: expected true or false, got 1" },
        { "\"drop_last\":null", "got null" },
        { "\"pipeline\":{}", "pipeline: expected a list of operations or the name of a recipe, got {}" },
        { "\"pipeline\":null", "got null" },
        { "\"order\":\"Shared\"",
            "order: expected \"shared\", \"private\", \"list\" or \"seeded\", got \"Shared\"" },
        { "\"order\":3", "got 3" },
        { "\"slots\":2", "slots: expected an integer from 3 to 64, got 2" },
        { "\"slots\":65", "got 65" },
        { "\"slots\":true", "got true" },
        { "\"slots\":4294967300", "got 4294967300" },
        { "\"transport\":\"ring\"", "transport: expected \"auto\" or \"inline\", got \"ring\"" },
        { "\"transport\":[]", "got []" },
        { "\"seed\":\"\"", "seed: expected a string of decimal digits, below 2^64, got \"\"" },
        { "\"seed\":\"18446744073709551616\"", "got \"18446744073709551616\"" },
        { "\"seed\":\"99999999999999999999999\"", "got \"9999" },
        { "\"seed\":\"-1\"", "got \"-1\"" },
        { "\"seed\":\"+1\"", "got \"+1\"" },
        { "\"seed\":\" 1\"", "got \" 1\"" },
        { "\"seed\":\"1 \"", "got \"1 \"" },
        { "\"seed\":\"0x10\"", "got \"0x10\"" },
        { "\"seed\":-5", "got -5" },
        { "\"seed\":1.5", "got 1.5" },
        { "\"seed\":null", "got null" },
        { "\"pool\":7", "pool: expected an integer from 8 to 16777216, in samples, got 7" },
        { "\"pool\":16777217", "got 16777217" },
        { "\"pool\":\"64\"", "got \"64\"" },
        { "\"pool\":null", "got null" },
        { "\"pool\":64", "pool: only order \"seeded\" takes it; leave pool out, or join with order "
            "\"seeded\"" },
        { "\"pool\":64,\"order\":\"shared\",\"seed\":\"7\"", "pool: only order" },
        { "\"name\":7", "name: expected a printable text of at most 64 bytes, got 7" },
        { "\"name\":\"a\\nb\"", "got \"a\\nb\"" },
        { "\"name\":\"\\u007f\"", "got \"\\x7f\"" },
        { "\"name\":\"\\u0085\"", "got \"\\xc2\\x85\"" },
        { "\"name\":\"01234567890123456789012345678901234567890123456789012345678901234\"",
            "name: expected" },
        { "\"job\":\"\"", "job: expected a printable text of 1 to 64 bytes, got \"\"" },
        { "\"job\":7", "job: expected" },
        { "\"run\":\"4b7c\"", "run: expected what JOINED told, 32 lower-case hexadecimal digits, got "
            "\"4b7c\"" },
        { "\"run\":\"4B7C1D2E3F405162738495A6B7C8D9EA\"", "run: expected" },
        { "\"run\":null", "run: expected" },
        { "\"instance\":\"4b7c1d2e3f405162738495a6b7c8d9ea0\"",
            "instance: expected 32 lower-case hexadecimal digits, drawn at random, got" },
        { "\"resume\":[]", "resume: expected an object: fingerprint, data, epoch, batches, places, got []" },
        { "\"resume\":{}", "resume.fingerprint is missing: what JOINED told" },
        { "\"resume\":{\"fingerprint\":\"f\"}", "resume.data is missing: what JOINED told" },
        { "\"resume\":{\"fingerprint\":\"f\",\"data\":\"0123456789abcdef\"}",
            "resume.epoch is missing: the first epoch that has not been consumed whole" },
        { "\"resume\":{\"fingerprint\":7}", "resume.fingerprint: expected the fingerprint that JOINED told" },
        { "\"resume\":{\"data\":\"0123456789ABCDEF\"}",
            "resume.data: expected what JOINED told, 16 lower-case hexadecimal digits, got" },
        { "\"resume\":{\"epoch\":\"-1\"}",
            "resume.epoch: expected a string of decimal digits, at most 2^53, got \"-1\"" },
        { "\"resume\":{\"epoch\":\"9007199254740993\"}", "resume.epoch: expected" },
        { "\"resume\":{\"epoch\":1.5}", "resume.epoch: expected" },
        { "\"resume\":{\"batches\":null}", "resume.batches: expected" },
        { "\"resume\":{\"places\":-3}", "resume.places: expected" },
        { "\"resume\":{\"when\\u001b\":3}",
            "resume: unknown key 'when\\x1b'; there are fingerprint, data, epoch, batches, places" },
        { "\"resume\":{\"fingerprint\":\"f\",\"data\":\"0123456789abcdef\",\"epoch\":0,\"places\":1}",
            "resume.places: only of a job that gives a list; frames \"taken\" say which samples were taken" },
        { "\"frames\":\"subset\"",
            "frames: expected a list of \"subset\", \"list\", \"taken\" or \"recent\", got \"subset\"" },
        { "\"frames\":[\"ids\"]", "frames [0]: expected \"subset\", \"list\", \"taken\" or \"recent\", got "
            "\"ids\"" },
        { "\"world_size\":0", "world_size: expected an integer from 1 to 64, got 0" },
        { "\"world_size\":65", "got 65" },
        { "\"world_size\":\"2\"", "got \"2\"" },
        { "\"world_size\":null", "got null" },
        { "\"world_size\":2", "world_size: ranks find each other by their job's name: give `job`" },
        { "\"rank\":-1", "rank: expected an integer from 0 to 63, got -1" },
        { "\"rank\":64", "got 64" },
        { "\"rank\":1.0", "got 1.0" },
        { "\"rank\":1", "rank: 1 of world_size 1: ranks are counted from 0; say in world_size how many "
            "processes" },
        { "\"rank\":3,\"world_size\":2,\"job\":\"j\"", "rank: 3 of world_size 2: ranks are counted from 0" },
        { "\"rank\":2,\"world_size\":2,\"job\":\"j\"", "rank: 2 of world_size 2: ranks are counted from 0" },
        { "\"gather\":0", "gather: expected an integer from 1 to 86400, in seconds, got 0" },
        { "\"gather\":86401", "got 86401" },
        { "\"gather\":\"300\"", "got \"300\"" },
        { "\"rank_wait\":-1", "rank_wait: expected an integer from 0 to 86400, in seconds, got -1" },
        { "\"rank_wait\":86401", "got 86401" },
        { "\"rank_wait\":null", "got null" },
        { "\"on_bad\":\"skip\"", "on_bad: expected \"drop\" or \"fail\", got \"skip\"" },
        { "\"on_bad\":null", "on_bad: expected \"drop\" or \"fail\", got null" },
        { "\"frames\":[\"subset\",1]", "frames [1]: expected" },
        { "\"frames\":[\"subset\",\"subset\"]", "frames [1]: \"subset\" stands there once at most" },
        { "\"frames\":[\"list\"]", "frames: \"list\" needs order \"list\"" },
        { "\"frames\":[\"list\"],\"seed\":\"7\"", "frames: \"list\" needs order \"list\"" },
        { "\"frames\":[\"list\"],\"order\":\"seeded\"", "frames: \"list\" needs order \"list\"" },
        { "\"frames\":[\"list\",\"subset\"],\"order\":\"list\"", "exclude each other" },
        { "\"frames\":[\"subset\",\"list\"],\"order\":\"list\"", "exclude each other" },
        { "\"Epochs\":1",
            "unknown key 'Epochs'; there are dataset, batch_size, epochs, drop_last, pipeline, order, "
            "slots, transport, seed, pool, name, job, instance, run, resume, world_size, rank, gather, "
            "rank_wait, on_bad, frames" },
        { "\"\":1", "unknown key ''" },
        { "\"a\\u001b[2Jb\":1", "unknown key 'a\\x1b[2Jb'" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        s_refused_member (cases [index].member, cases [index].fragment);
    s_refused_join ("{\"dataset\":\"\",\"batch_size\":1}", 2, "bad_request",
        "dataset: expected a printable text of 1");
    s_refused_join ("{\"dataset\":3,\"batch_size\":1}", 2, "bad_request", "dataset: expected");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":0}", 2, "bad_request",
        "integer from 1 to 65536, got 0");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":65537}", 2, "bad_request", "got 65537");
}

static void
frames_that_do_not_match (void **state)
{
    (void) state;
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"frames\":[\"taken\"]}", 3, "bad_request",
        "frames: \"taken\" needs resume");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"frames\":[\"taken\",\"subset\",\"taken\"]}", 5,
        "bad_request", "frames [2]: \"taken\" must follow the \"taken\" before it");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"order\":\"list\",\"frames\":[\"list\",\"taken\"],"
        "\"resume\":"
        "{\"fingerprint\":\"f\",\"data\":\"0123456789abcdef\",\"epoch\":0}}", 4, "bad_request",
        "frames: of a job that gives a list, resume.places says what was taken; leave \"taken\" out");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"frames\":[\"recent\"]}", 3, "bad_request",
        "frames: \"recent\" needs ranks: a world_size above 1");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"world_size\":2,\"job\":\"j\","
        "\"frames\":[\"recent\"]}", 3,
        "bad_request", "frames: \"recent\" needs resume");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"world_size\":2,\"job\":\"j\","
        "\"frames\":[\"recent\"]}", 2,
        "malformed", "frames names 1, so JOIN has 3 frames; got 2");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"world_size\":2,\"job\":\"j\","
        "\"frames\":[\"recent\",\"subset\","
        "\"recent\"]}", 5, "bad_request", "frames [2]: \"recent\" must follow the \"recent\" before it");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1}", 3, "malformed",
        "frames names 0, so JOIN has 2 frames; got 3");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"frames\":[\"subset\"]}", 2, "malformed",
        "has 3 frames; got 2");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"order\":\"list\",\"frames\":[\"list\",\"list\"]}",
        5, "malformed", "frames names 2, so JOIN has 4 frames; got 5");
}

//  What a client sends is repeated to it, and logged: it must not flood either.
static void
long_values_are_cut (void **state)
{
    (void) state;
    char *json = calloc (1, 60100);
    assert_non_null (json);
    strcpy (json, "{\"dataset\":\"d\",\"batch_size\":1,\"order\":\"");
    memset (json + strlen (json), 'o', 60000);
    strcat (json, "\"}");
    s_refused_join (json, 2, "bad_request", "oooo...");
    memcpy (json + 30, "\"oooooooo", 9);
    request_join_t join;
    refusal_t refusal;
    assert_false (s_join (json, 2, &join, &refusal));
    assert_true (strlen (refusal.message) < 300);
    free (json);
}

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

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (golden_messages_without_a_body),
        cmocka_unit_test (golden_progress),
        cmocka_unit_test (golden_join_with_ranges),
        cmocka_unit_test (golden_join_with_words),
        cmocka_unit_test (golden_join_with_a_list),
        cmocka_unit_test (golden_join_seeded),
        cmocka_unit_test (golden_join_pool),
        cmocka_unit_test (golden_join_on_bad),
        cmocka_unit_test (golden_join_that_goes_on),
        cmocka_unit_test (golden_join_of_a_rank),
        cmocka_unit_test (head_that_is_not_ours_is_ignored),
        cmocka_unit_test (head_rejection_log),
        cmocka_unit_test (heads_of_other_versions),
        cmocka_unit_test (wrong_number_of_frames),
        cmocka_unit_test (progress_of_a_wrong_size),
        cmocka_unit_test (rejection_log_are_cut_at_a_character),
        cmocka_unit_test (join_defaults),
        cmocka_unit_test (join_extremes),
        cmocka_unit_test (join_orders),
        cmocka_unit_test (join_ranks),
        cmocka_unit_test (json_that_is_none),
        cmocka_unit_test (json_with_a_zero_byte),
        cmocka_unit_test (json_too_deep),
        cmocka_unit_test (json_depth_is_not_fooled),
        cmocka_unit_test (json_too_large),
        cmocka_unit_test (values_of_a_wrong_kind),
        cmocka_unit_test (frames_that_do_not_match),
        cmocka_unit_test (long_values_are_cut),
        cmocka_unit_test (random_bytes),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
