/*  Guards: frames of another size, version, kind or range are none; a way's prediction is what came over the
 *  time it was busy, with its queue, and a way by which nothing comes gets slower; how long a question may
 *  take is learned of answers and of reads of the store; etcd's answers give the members that they hold, and
 *  no others; blocks of other homes make room also after a time in which the disk did not answer; while the
 *  store fails, a home answers each question; status shows a member as all readers found it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "block_cache.h"
#include "clock.h"
#include "cluster.h"
#include "members.h"
#include "peers.h"
#include "port.h"
#include "scratch.h"

#define SECOND UINT64_C (1000000000)

static void
test_questions (void **state)
{
    (void) state;
    const peer_question_frame_t good = { .magic = PEER_WIRE_MAGIC, .version = 1, .kind = PEER_GET,
        .bytes = 4096 };
    peer_question_frame_t frame = good, read;
    assert_true (cluster_read_question (&frame, sizeof frame, &read));
    assert_false (cluster_read_question (&frame, sizeof frame - 1, &read));
    assert_false (cluster_read_question (&frame, sizeof frame + 1, &read));
    assert_false (cluster_read_question (&frame, 0, &read));
    frame.magic++;
    assert_false (cluster_read_question (&frame, sizeof frame, &read));
    frame = good, frame.version = 2;
    assert_false (cluster_read_question (&frame, sizeof frame, &read));
    for (uint16_t kind = 0; kind < 6; kind++) {
        frame = good, frame.kind = kind;
        assert_int_equal (cluster_read_question (&frame, sizeof frame, &read), kind >= 1 && kind <= 3);
    }
    const struct { uint64_t offset, bytes; bool is_good; } ranges [] = {
        { 0, 0, false }, { 0, PEER_BLOCK_BYTES, true }, { 0, PEER_BLOCK_BYTES + 1, false },
        { 0, UINT64_MAX, false }, { UINT64_MAX - PEER_BLOCK_BYTES, 1, true },
        { UINT64_MAX - PEER_BLOCK_BYTES + 1, 1, false }, { UINT64_MAX, 1, false }
    };
    for (size_t at = 0; at < sizeof ranges / sizeof *ranges; at++) {
        frame = good, frame.offset = ranges [at].offset, frame.bytes = ranges [at].bytes;
        assert_int_equal (cluster_read_question (&frame, sizeof frame, &read), ranges [at].is_good);
    }
}

static void
test_answers (void **state)
{
    (void) state;
    const peer_answer_frame_t good = { .magic = PEER_WIRE_MAGIC, .version = 1, .kind = PEER_NO };
    peer_answer_frame_t frame = good, read;
    assert_true (cluster_read_answer (&frame, sizeof frame, &read));
    assert_false (cluster_read_answer (&frame, sizeof frame - 1, &read));
    for (uint16_t kind = 0; kind < 6; kind++) {
        frame = good, frame.kind = kind;
        assert_int_equal (cluster_read_answer (&frame, sizeof frame, &read), kind >= 1 && kind <= 3);
    }
    for (uint32_t reason = 0; reason < PEER_REASONS + 2; reason++) {
        frame = good, frame.reason = reason;
        assert_int_equal (cluster_read_answer (&frame, sizeof frame, &read), reason < PEER_REASONS);
    }
    frame = good, frame.zero = 1;
    assert_false (cluster_read_answer (&frame, sizeof frame, &read));
}

static void
test_prediction (void **state)
{
    (void) state;
    peers_meter_t meter = { .queued = 0 };
    uint64_t now = 1000 * SECOND;
    assert_true (peers_meter_predict (&meter, 100, now) <= 0);
    //  100 bytes in each tenth of a second; the pauses between do not count.
    for (int round = 0; round < 5; round++) {
        peers_meter_begin (&meter, 100, now);
        peers_meter_end (&meter, 100, 100, now + SECOND / 10);
        now += 3 * SECOND;
    }
    assert_float_equal (peers_meter_predict (&meter, 100, now), .1, 1e-9);
    //  Behind a queue of 400 it takes five times as long,
    for (int round = 0; round < 4; round++)
        peers_meter_begin (&meter, 100, now);
    assert_float_equal (peers_meter_predict (&meter, 100, now), .5, 1e-9);
    //  and longer, the longer nothing comes.
    assert_float_equal (peers_meter_predict (&meter, 100, now + SECOND / 2), 1, 1e-9);
    //  What failed took time and gave nothing.
    for (int round = 0; round < 4; round++)
        peers_meter_end (&meter, 100, 0, now + SECOND / 2);
    assert_float_equal (peers_meter_predict (&meter, 100, now + SECOND), .2, 1e-9);
    peers_meter_forget (&meter);
    assert_true (peers_meter_predict (&meter, 100, now) <= 0);
}

//  After some seconds at another rate, that is the rate.
static void
test_prediction_fades (void **state)
{
    (void) state;
    peers_meter_t meter = { .queued = 0 };
    uint64_t now = SECOND;
    for (int round = 0; round < 2000; round++, now += SECOND / 100) {
        peers_meter_begin (&meter, 1000, now);
        peers_meter_end (&meter, 1000, round < 1000? 1000: 100, now + SECOND / 100);
    }
    double rate = 1000 / peers_meter_predict (&meter, 1000, now);
    assert_true (rate > 9900 && rate < 12000);
}

enum { MS = 1000000 };

static peers_timeout_t
s_timeout_after (uint64_t answer_ms, uint64_t store_ms)
{
    peers_timeout_t timeout = peers_timeout_new ();
    for (int answer = 0; answer < 500; answer++) {
        peers_timeout_learn (&timeout, answer_ms * MS);
        if (store_ms)
            peers_timeout_learn_store (&timeout, store_ms * MS);
    }
    return timeout;
}

static void
s_expect_timeout (peers_timeout_t timeout, uint64_t milliseconds)
{
    uint64_t percent = milliseconds * MS / 100;
    assert_in_range (peers_timeout_ns (&timeout), 99 * percent, 101 * percent);
}

//  Guards: eight times as long as answers take, or four times as long as a read of the store, half a second
//  at least and ten seconds at most; two seconds before the first answer.
static void
test_timeout_by_answers (void **state)
{
    (void) state;
    s_expect_timeout (peers_timeout_new (), 2000);
    s_expect_timeout (s_timeout_after (100, 0), 800);
    s_expect_timeout (s_timeout_after (100, 150), 800);
    s_expect_timeout (s_timeout_after (100, 900), 3600);
    s_expect_timeout (s_timeout_after (1, 1), 500);
    s_expect_timeout (s_timeout_after (5000, 0), 10000);
    s_expect_timeout (s_timeout_after (100, 60000), 10000);
    //  The first read of the store counts at once, and later ones change what it was.
    peers_timeout_t timeout = peers_timeout_new ();
    peers_timeout_learn_store (&timeout, UINT64_C (900) * MS);
    s_expect_timeout (timeout, 3600);
    for (int answer = 0; answer < 500; answer++)
        peers_timeout_learn_store (&timeout, UINT64_C (1500) * MS);
    s_expect_timeout (timeout, 6000);
}

//  Guards: each question that is given up makes the timeout longer, to its bound; however many these are,
//  some answers bring it back.
static void
test_timeout_of_questions_given_up (void **state)
{
    (void) state;
    peers_timeout_t timeout = s_timeout_after (100, 0);
    uint64_t before = peers_timeout_ns (&timeout);
    peers_timeout_grow (&timeout);
    assert_in_range (peers_timeout_ns (&timeout), before * 21 / 20, before * 11 / 10);
    for (int question = 0; question < 2000; question++)
        peers_timeout_grow (&timeout);
    s_expect_timeout (timeout, 10000);
    for (int answer = 0; answer < 100; answer++)
        peers_timeout_learn (&timeout, 100 * MS);
    assert_true (peers_timeout_ns (&timeout) < UINT64_C (1000) * MS);
    //  However quick answers were, the first one that is given up counts.
    timeout = s_timeout_after (1, 0);
    peers_timeout_grow (&timeout);
    s_expect_timeout (timeout, 531);
}

static size_t
s_put_entry (char *room, const char *key, const char *value)
{
    char coded_key [MEMBERS_ANSWER_CODED_BYTES], coded_value [MEMBERS_ANSWER_CODED_BYTES];
    members_answer_code (key, coded_key);
    members_answer_code (value, coded_value);
    return (size_t) sprintf (room, "{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"7\"}", coded_key,
        coded_value);
}

static void
test_entries (void **state)
{
    (void) state;
    const struct { const char *key, *value; bool is_good; } entries [] = {
        { "p/a:1", "{\"bytes\":\"18446744073709551\"}", true }, { "p/[::1]:9", "{\"bytes\":\"0\"}", true },
        { "q/b:1", "{\"bytes\":\"1\"}", false }, { "p/b", "{\"bytes\":\"1\"}", false },
        { "p/c:1", "{\"bytes\":1}", false }, { "p/c:1", "{\"bytes\":\"-1\"}", false },
        { "p/c:1", "{\"bytes\":\"1\",\"bytes\":\"2\"}", false }, { "p/c:1", "[]", false },
        { "p/c:1", "", false }, { "p/", "{\"bytes\":\"1\"}", false }, { "", "", false }
    };
    char text [8192], strange [128], *end = text;
    end += sprintf (end, "{\"header\":{\"revision\":\"12\"},\"kvs\":[");
    size_t good = 0, bad = 0;
    for (size_t at = 0; at < sizeof entries / sizeof *entries; at++) {
        *end = ',';
        end += at > 0;
        end += s_put_entry (end, entries [at].key, entries [at].value);
        good += entries [at].is_good;
        bad += !entries [at].is_good;
    }
    end += sprintf (end, ",{\"key\":\"!\"},{},7]}");
    member_t members [20];
    size_t count;
    assert_int_equal (members_answer_range (text, (size_t) (end - text), "p/", members, 20, &count, strange,
        sizeof strange), good);
    assert_int_equal (count, bad + 3);
    assert_string_equal (strange, "q/b:1");
    assert_string_equal (members [0].name, "a:1");
    assert_true (members [0].bytes == 18446744073709551u);
    //  As many as there is room for.
    assert_int_equal (members_answer_range (text, (size_t) (end - text), "p/", members, 1, &count, strange,
        sizeof strange), 1);
    assert_int_equal (members_answer_number (text, (size_t) (end - text), "header", "revision"), 12);
    assert_int_equal (members_answer_number (text, (size_t) (end - text), NULL, "revision"), 0);
}

//  Guards: a key is text up to 700 bytes; a longer one is none, and overwrites nothing.
static void
test_long_entries (void **state)
{
    (void) state;
    enum { MOST = 700 };
    for (size_t length = MOST - 1; length <= MOST + 1; length++) {
        char key [MOST + 2] = "", text [4096], strange [MOST + 2];
        memset (key, 'k', length);
        key [length] = 0;
        size_t used = (size_t) sprintf (text, "{\"header\":{},\"kvs\":["), count;
        used += s_put_entry (text + used, key, "{\"bytes\":\"1\"}");
        used += (size_t) sprintf (text + used, "]}");
        member_t member;
        assert_int_equal (members_answer_range (text, used, "p/", &member, 1, &count, strange,
            sizeof strange), 0);
        assert_int_equal (count, 1);
        assert_string_equal (strange, length <= MOST? key: "(no text)");
    }
}

static void
test_no_answers (void **state)
{
    (void) state;
    const char *texts [] = { "", "[]", "{}", "{\"header\":1}", "{\"header\":{},\"kvs\":{}}", "nonsense",
        "{\"header\":{},\"kvs\":[" };
    member_t members [2];
    char strange [8];
    size_t count;
    for (size_t at = 0; at < sizeof texts / sizeof *texts; at++)
        assert_int_equal (members_answer_range (texts [at], strlen (texts [at]), "p/", members, 2, &count,
            strange, sizeof strange), -1);
    assert_int_equal (members_answer_range ("{\"header\":{}}", strlen ("{\"header\":{}}"), "p/", members, 2,
        &count, strange, sizeof strange), 0);
}

enum { BLOCKS = 8, PATIENCE_MS = 60000, PATIENT_SLICE_MS = 100 * BLOCK_CACHE_SLICE_MS };

static void
s_find (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes)
{
    (void) context; (void) object;
    *begin = 0;
    *bytes = (uint64_t) BLOCKS * PEER_BLOCK_BYTES;
}

static pthread_mutex_t s_disk = PTHREAD_MUTEX_INITIALIZER;

static void
s_ask_disk (block_cache_request_t *request)
{
    (void) request;
    pthread_mutex_lock (&s_disk);
    pthread_mutex_unlock (&s_disk);
}

static bool
s_has_block (const block_data_t *data, uint64_t block)
{
    return block_data_has_some (data, block * PEER_BLOCK_BYTES, PEER_BLOCK_BYTES);
}

static void
s_make_room (block_cache_t *cache, block_data_t *data, peers_t *peers)
{
    bool is_home [BLOCKS];
    uint8_t memory [BLOCK_DATA_UNIT_BYTES] = { 0 };
    peer_question_t question = { .bytes = sizeof memory };
    for (uint64_t block = 0; block < BLOCKS; block++) {
        peers_way_t way = peers_choose (peers, 0, block, sizeof memory, &question);
        is_home [block] = way == PEERS_HERE || way == PEERS_BEFORE;
        block_data_store (data, block * PEER_BLOCK_BYTES, sizeof memory, memory, false);
        assert_true (s_has_block (data, block));
    }
    block_cache_request_t request = { .work = s_ask_disk };
    block_cache_threads_set_slice (block_cache_threads (cache), 1);
    pthread_mutex_lock (&s_disk);
    assert_false (block_cache_do (cache, &request));
    for (size_t turn = 0; turn < 2; turn++)
        assert_false (peers_make_room (peers, 0));
    pthread_mutex_unlock (&s_disk);
    block_cache_threads_settle (block_cache_threads (cache));
    while (block_data_is_aside (data))
        sched_yield ();
    block_cache_threads_set_slice (block_cache_threads (cache), PATIENT_SLICE_MS);
    while (peers_make_room (peers, 0))
        ;
    for (uint64_t block = 0; block < BLOCKS; block++)
        assert_int_equal (s_has_block (data, block), is_home [block]);
}

//  A member with a cache, one data set and its reader.
typedef struct {
    scratch_folder_t scratch;
    block_cache_t *cache;
    block_data_t *data;
    members_t *members;
    cluster_t *cluster;
    peers_t *peers;
} node_t;

//  name: "127.0.0.1:PORT"; the other member has port 2.
static void
s_begin_node (node_t *self, const char *name)
{
    char folder [80], error [600], list [80];
    block_data_key_t key = { { 0, 0 } };
    assert_true (scratch_begin (&self->scratch));
    snprintf (folder, sizeof folder, "%s/cache", self->scratch.path);
    block_cache_threads_t *threads = block_cache_threads_new ();
    assert_non_null (threads);
    block_cache_threads_set_slice (threads, PATIENT_SLICE_MS);
    assert_int_equal (block_cache_open_by (&self->cache, &threads, folder, 1 << 30, error, sizeof error), 0);
    block_data_key_add (&key, "https://host/a", "\"1\"", 1);
    assert_int_equal (block_data_open (&self->data, self->cache, &key, (uint64_t) BLOCKS * PEER_BLOCK_BYTES),
        0);
    snprintf (list, sizeof list, "%s,127.0.0.1:2", name);
    assert_int_equal (members_open (&self->members, list, name, 1 << 30, error, sizeof error), 0);
    self->cluster = cluster_new (&(cluster_options_t) { .members = self->members, .name = name });
    assert_true (cluster_add (self->cluster, &(cluster_data_t) { .blocks = self->data, .store = "store",
        .objects = 1, .find = s_find }));
    self->peers = peers_new (self->cluster, "store");
}

static void
s_end_node (node_t *self)
{
    peers_destroy (&self->peers);
    cluster_destroy (&self->cluster);
    members_close (&self->members);
    block_data_close (&self->data);
    block_cache_close (&self->cache);
    assert_true (scratch_end (&self->scratch));
}

static void
test_room_after_time_aside (void **state)
{
    (void) state;
    node_t node;
    s_begin_node (&node, "127.0.0.1:1");
    s_make_room (node.cache, node.data, node.peers);
    s_end_node (&node);
}

//  Another member asks for a block that the store does not give.
static void
s_ask_in_vain (void *asker, peers_t *peers, const block_data_t *data)
{
    peer_question_frame_t question = { .magic = PEER_WIRE_MAGIC, .version = PEER_WIRE_VERSION,
        .kind = PEER_GET, .bytes = PEER_BLOCK_BYTES };
    memcpy (question.key, block_data_key (data)->words, sizeof question.key);
    peer_answer_frame_t answer;
    assert_int_equal (zmq_send (asker, &question, sizeof question, 0), sizeof question);
    int descriptors [PEERS_DESCRIPTORS_MAX];
    peers_descriptors (peers, descriptors);
    zmq_pollitem_t item = { .fd = descriptors [0], .events = ZMQ_POLLIN };       //  of fetches
    assert_int_equal (zmq_poll (&item, 1, PATIENCE_MS), 1);
    cluster_fetch_t *fetch = peers_next_fetch (peers);
    assert_non_null (fetch);
    peers_fetched (peers, fetch, PEER_REASON_FAILED);
    assert_int_equal (zmq_recv (asker, &answer, sizeof answer, 0), sizeof answer);
    assert_int_equal (answer.kind, PEER_NO);
    assert_int_equal (answer.reason, PEER_REASON_FAILED);
}

//  Guards: while the store fails, a home answers each question, however many there were before.
static void
test_fetches_that_fail (void **state)
{
    (void) state;
    node_t node;
    char error [600], name [40], address [60];
    unsigned port = port_find ();
    assert_int_not_equal (port, 0);
    snprintf (name, sizeof name, "127.0.0.1:%u", port);
    s_begin_node (&node, name);
    snprintf (address, sizeof address, "tcp://%s", name);
    assert_int_equal (cluster_start (node.cluster, error, sizeof error), 0);
    void *context = zmq_ctx_new (), *asker = zmq_socket (context, ZMQ_DEALER);
    const int patience_ms = PATIENCE_MS, linger = 0;
    zmq_setsockopt (asker, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    zmq_setsockopt (asker, ZMQ_LINGER, &linger, sizeof linger);
    assert_int_equal (zmq_connect (asker, address), 0);
    for (int question = 0; question < 2 * CLUSTER_FETCHES_MAX; question++)
        s_ask_in_vain (asker, node.peers, node.data);
    zmq_close (asker);
    zmq_ctx_term (context);
    cluster_stop (node.cluster);
    s_end_node (&node);
}

//  How a reader finds the other member.
typedef struct {
    peer_state_t state;
    peer_figures_t figures;
} look_t;

static bool
s_look (void *context, const char *name, peer_state_t *state, peer_figures_t *figures)
{
    const look_t *look = context;
    *state = look->state;
    *figures = look->figures;
    return strcmp (name, "127.0.0.1:2") == 0;
}

//  Guards: a member that one reader finds away is shown as away, whatever the readers before and after it
//  found, and its figures are those of all of them; each reason of a refusal has a word.
static void
test_status_of_two_readers (void **state)
{
    (void) state;
    static const struct { peer_state_t first, second; const char *shown; } cases [] = {
        { PEER_UNKNOWN, PEER_UNKNOWN, "unknown" }, { PEER_HERE, PEER_UNKNOWN, "here" },
        { PEER_UNKNOWN, PEER_HERE, "here" }, { PEER_AWAY, PEER_HERE, "away" },
        { PEER_HERE, PEER_AWAY, "away" }
    };
    node_t node;
    int64_t began_ms = clock_now_ms ();
    s_begin_node (&node, "127.0.0.1:1");
    look_t looks [2] = {
        { .figures = { .blocks = 3, .bytes = 50, .nanoseconds = 1000000000, .late = 2, .damaged = 1,
            .slower = 7 } },
        { .figures = { .blocks = 4, .bytes = 60, .nanoseconds = 500000000, .late = 1, .damaged = 3,
            .slower = 2 } }
    };
    static const char *const words [PEER_REASONS] = { [PEER_REASON_BUSY] = "busy",
        [PEER_REASON_FULL] = "full", [PEER_REASON_NOT_HOME] = "not_home",
        [PEER_REASON_UNKNOWN_DATA] = "unknown_data", [PEER_REASON_FAILED] = "failed",
        [PEER_REASON_INVALID] = "invalid" };
    for (size_t reason = 1; reason < PEER_REASONS; reason++) {
        looks [0].figures.refused [reason] = reason;
        looks [1].figures.refused [reason] = 10 * reason;
    }
    nanosleep (&(struct timespec) { .tv_nsec = 20000000 }, NULL);       //  so that it has an age
    //  The node's own reader asked nothing so far, and knows no member.
    for (size_t at = 0; at < 2; at++)
        assert_true (cluster_join (node.cluster, "another store", &(cluster_reader_t) { .look = s_look,
            .context = &looks [at] }));
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        looks [0].state = cases [at].first;
        looks [1].state = cases [at].second;
        json_t *status = cluster_status (node.cluster), *member = json_array_get (json_object_get (status,
            "members"), 1);
        assert_string_equal (json_string_value (json_object_get (member, "member")), "127.0.0.1:2");
        assert_string_equal (json_string_value (json_object_get (member, "state")), cases [at].shown);
        assert_int_equal (json_is_true (json_object_get (member, "is_away")),
            strcmp (cases [at].shown, "away") == 0);
        json_int_t blocks, bytes, late, damaged, quicker;
        double seconds;
        assert_int_equal (json_unpack (member, "{s:I, s:I, s:f, s:I, s:I, s:I}", "blocks", &blocks, "bytes",
            &bytes, "seconds", &seconds, "late", &late, "damaged", &damaged, "store_quicker", &quicker), 0);
        assert_true (blocks == 7 && bytes == 110 && seconds == 1.5 && late == 3 && damaged == 4
            && quicker == 9);
        double age = json_real_value (json_object_get (member, "age_seconds"));
        assert_true (age >= .02 && age <= (double) (clock_now_ms () - began_ms) / 1000);
        const json_t *refused = json_object_get (member, "refused"), *own = json_array_get (json_object_get (
            status, "members"), 0);
        assert_int_equal (json_object_size (refused), PEER_REASONS - 1);
        for (size_t reason = 1; reason < PEER_REASONS; reason++)
            assert_int_equal (json_integer_value (json_object_get (refused, words [reason])), 11 * reason);
        assert_string_equal (json_string_value (json_object_get (status, "member")), "127.0.0.1:1");
        assert_string_equal (json_string_value (json_object_get (own, "state")), "this");
        assert_int_equal (json_integer_value (json_object_get (own, "bytes")), 0);
        assert_int_equal (json_integer_value (json_object_get (own, "cache_bytes")), 1 << 30);
        double homes = json_real_value (json_object_get (own, "homes")),
            others = json_real_value (json_object_get (member, "homes")),
            bytes_of_other = json_number_value (json_object_get (member, "cache_bytes"));
        assert_true (fabs (homes + others - 1) < 1e-9
            && fabs (homes * bytes_of_other - others * (1 << 30)) < 1);
        json_decref (status);
    }
    s_end_node (&node);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_questions),
        cmocka_unit_test (test_answers),
        cmocka_unit_test (test_prediction),
        cmocka_unit_test (test_prediction_fades),
        cmocka_unit_test (test_timeout_by_answers),
        cmocka_unit_test (test_timeout_of_questions_given_up),
        cmocka_unit_test (test_entries),
        cmocka_unit_test (test_long_entries),
        cmocka_unit_test (test_no_answers),
        cmocka_unit_test (test_room_after_time_aside),
        cmocka_unit_test (test_fetches_that_fail),
        cmocka_unit_test (test_status_of_two_readers)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
