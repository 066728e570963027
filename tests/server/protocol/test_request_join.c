/*  What a JOIN says: its JSON, every member's values, and the frames that it names.  */
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

static const wire_head_t s_good_head = { .magic = { 'T', 'U', 'R', 'N' }, .version = 1, .kind = WIRE_JOIN,
    .job = 3, .tag = 9 };

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
    assert_string_equal (json_string_value (join.pipeline), "eval");
    request_join_clear (&join);
    join = s_good_join (",\"frames\":[\"subset\"],\"order\":\"list\",\"pipeline\":\"train\"", 3);
    assert_string_equal (json_string_value (join.pipeline), "train");
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

//  A JOIN with a nested pipeline; the object is level 1.
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

typedef struct {
    const char *member, *fragment;      //  of the refusal
} wrong_member_t;

static void
s_refused_members (const wrong_member_t *cases, size_t count)
{
    for (size_t index = 0; index < count; index++)
        s_refused_member (cases [index].member, cases [index].fragment);
}

static void
values_of_a_wrong_kind (void **state)
{
    (void) state;
    static const wrong_member_t cases [] = {
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
        { "\"on_bad\":\"skip\"", "on_bad: expected \"drop\" or \"fail\", got \"skip\"" },
        { "\"on_bad\":null", "on_bad: expected \"drop\" or \"fail\", got null" },
    };
    s_refused_members (cases, sizeof cases / sizeof *cases);
    s_refused_join ("{\"dataset\":\"\",\"batch_size\":1}", 2, "bad_request",
        "dataset: expected a printable text of 1");
    s_refused_join ("{\"dataset\":3,\"batch_size\":1}", 2, "bad_request", "dataset: expected");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":0}", 2, "bad_request",
        "integer from 1 to 65536, got 0");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":65537}", 2, "bad_request", "got 65537");
}

static void
names_and_states_of_a_wrong_kind (void **state)
{
    (void) state;
    static const wrong_member_t cases [] = {
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
        { "\"resume\":[]",
            "resume: expected an object: fingerprint, data, epoch, batches, places, cut, got []" },
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
            "resume: unknown key 'when\\x1b'; there are fingerprint, data, epoch, batches, places, cut" },
        { "\"resume\":{\"fingerprint\":\"f\",\"data\":\"0123456789abcdef\",\"epoch\":0,\"places\":1}",
            "resume.places: only of a job that gives a list; frames \"taken\" say which samples were taken" },
    };
    s_refused_members (cases, sizeof cases / sizeof *cases);
}

static void
nodes_of_a_wrong_kind (void **state)
{
    (void) state;
    static const wrong_member_t cases [] = {
        { "\"nodes\":0", "nodes: expected an integer from 1 to 1024, got 0" },
        { "\"nodes\":1025", "nodes: expected an integer from 1 to 1024, got 1025" },
        { "\"nodes\":3,\"node\":3", "node: 3 of nodes 3: nodes are counted from 0" },
        { "\"node\":1", "node: 1 of nodes 1: nodes are counted from 0; say in nodes how many" },
        { "\"nodes\":3,\"parts\":\"old\"", "parts: expected \"fresh\" or \"fixed\", got \"old\"" },
        { "\"parts\":\"fixed\"", "parts: of a job over several nodes" },
        { "\"nodes\":2,\"resume\":{\"cut\":1}", "resume.cut: expected an object: batches, places, got 1" },
        { "\"nodes\":2,\"resume\":{\"cut\":{\"when\":1}}", "resume.cut: unknown key 'when'; there are" },
        { "\"nodes\":2,\"resume\":{\"cut\":{\"batches\":-1}}", "resume.cut.batches: expected" },
        { "\"resume\":{\"fingerprint\":\"f\",\"data\":\"0123456789abcdef\",\"epoch\":0,\"batches\":3,"
            "\"cut\":{\"batches\":2}}", "resume.cut and frames \"cut\" are of a job over several nodes" },
    };
    s_refused_members (cases, sizeof cases / sizeof *cases);
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"nodes\":2,\"resume\":{\"fingerprint\":\"f\","
        "\"data\":\"0123456789abcdef\",\"epoch\":0,\"batches\":3,\"cut\":{\"batches\":4}}}", 2,
        "bad_state", "resume.cut is behind resume");
    s_refused_join ("{\"dataset\":\"d\",\"batch_size\":1,\"nodes\":2,\"frames\":[\"cut\"]}", 3, "bad_request",
        "frames: \"cut\" needs resume");
}

static void
ranks_of_a_wrong_kind (void **state)
{
    (void) state;
    static const wrong_member_t cases [] = {
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
    };
    s_refused_members (cases, sizeof cases / sizeof *cases);
}

static void
frames_and_unknown_members (void **state)
{
    (void) state;
    static const wrong_member_t cases [] = {
        { "\"frames\":\"subset\"",
            "frames: expected a list of \"subset\", \"list\", \"taken\", \"cut\" or \"recent\", got "
            "\"subset\"" },
        { "\"frames\":[\"ids\"]",
            "frames [0]: expected \"subset\", \"list\", \"taken\", \"cut\" or \"recent\", got "
            "\"ids\"" },
        { "\"frames\":[\"subset\",1]", "frames [1]: expected" },
        { "\"frames\":[\"subset\",\"subset\"]", "frames [1]: \"subset\" stands there once at most" },
        { "\"frames\":[\"list\"]", "frames: \"list\" needs order \"list\"" },
        { "\"frames\":[\"list\"],\"seed\":\"7\"", "frames: \"list\" needs order \"list\"" },
        { "\"frames\":[\"list\"],\"order\":\"seeded\"", "frames: \"list\" needs order \"list\"" },
        { "\"frames\":[\"list\",\"subset\"],\"order\":\"list\"", "exclude each other" },
        { "\"frames\":[\"subset\",\"list\"],\"order\":\"list\"", "exclude each other" },
        { "\"path\":\"\"", "path: expected a text of 1 to 8192 bytes" },
        { "\"path\":null", "path: expected a text of 1 to 8192 bytes" },
        { "\"Epochs\":1",
            "unknown key 'Epochs'; there are dataset, path, batch_size, epochs, drop_last, pipeline, order, "
            "slots, transport, seed, pool, name, job, instance, run, resume, world_size, rank, gather, "
            "rank_wait, nodes, node, parts, on_bad, frames" },
        { "\"\":1", "unknown key ''" },
        { "\"a\\u001b[2Jb\":1", "unknown key 'a\\x1b[2Jb'" },
    };
    s_refused_members (cases, sizeof cases / sizeof *cases);
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

int
main (void)
{
    const struct CMUnitTest tests [] = {
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
        cmocka_unit_test (names_and_states_of_a_wrong_kind),
        cmocka_unit_test (nodes_of_a_wrong_kind),
        cmocka_unit_test (ranks_of_a_wrong_kind),
        cmocka_unit_test (frames_and_unknown_members),
        cmocka_unit_test (frames_that_do_not_match),
        cmocka_unit_test (long_values_are_cut),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
