/*  Guards: frames of another size, version, kind or range are none; a way's prediction is what came over the
 *  time it was busy, with its queue, and a way by which nothing comes gets slower; etcd's answers give the
 *  members that they hold, and no others; blocks of other homes make room also after a time in which the disk
 *  did not answer.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block_cache_state.h"
#include "cluster.h"
#include "members.h"
#include "members_answer.h"
#include "peer_wire.h"
#include "peers.h"
#include "scratch.h"
#include "way_meter.h"

#define SECOND UINT64_C (1000000000)

static void
test_questions (void **state)
{
    (void) state;
    const peer_question_frame_t good = { .magic = PEER_WIRE_MAGIC, .version = 1, .kind = PEER_GET,
        .bytes = 4096 };
    peer_question_frame_t frame = good, read;
    assert_true (peer_wire_read_question (&frame, sizeof frame, &read));
    assert_false (peer_wire_read_question (&frame, sizeof frame - 1, &read));
    assert_false (peer_wire_read_question (&frame, sizeof frame + 1, &read));
    assert_false (peer_wire_read_question (&frame, 0, &read));
    frame.magic++;
    assert_false (peer_wire_read_question (&frame, sizeof frame, &read));
    frame = good, frame.version = 2;
    assert_false (peer_wire_read_question (&frame, sizeof frame, &read));
    for (uint16_t kind = 0; kind < 6; kind++) {
        frame = good, frame.kind = kind;
        assert_int_equal (peer_wire_read_question (&frame, sizeof frame, &read), kind >= 1 && kind <= 3);
    }
    const struct { uint64_t offset, bytes; bool is_good; } ranges [] = {
        { 0, 0, false }, { 0, PEER_BLOCK_BYTES, true }, { 0, PEER_BLOCK_BYTES + 1, false },
        { 0, UINT64_MAX, false }, { UINT64_MAX - PEER_BLOCK_BYTES, 1, true },
        { UINT64_MAX - PEER_BLOCK_BYTES + 1, 1, false }, { UINT64_MAX, 1, false }
    };
    for (size_t at = 0; at < sizeof ranges / sizeof *ranges; at++) {
        frame = good, frame.offset = ranges [at].offset, frame.bytes = ranges [at].bytes;
        assert_int_equal (peer_wire_read_question (&frame, sizeof frame, &read), ranges [at].is_good);
    }
}

static void
test_answers (void **state)
{
    (void) state;
    const peer_answer_frame_t good = { .magic = PEER_WIRE_MAGIC, .version = 1, .kind = PEER_NO };
    peer_answer_frame_t frame = good, read;
    assert_true (peer_wire_read_answer (&frame, sizeof frame, &read));
    assert_false (peer_wire_read_answer (&frame, sizeof frame - 1, &read));
    for (uint16_t kind = 0; kind < 6; kind++) {
        frame = good, frame.kind = kind;
        assert_int_equal (peer_wire_read_answer (&frame, sizeof frame, &read), kind >= 1 && kind <= 3);
    }
    for (uint32_t reason = 0; reason < PEER_REASONS + 2; reason++) {
        frame = good, frame.reason = reason;
        assert_int_equal (peer_wire_read_answer (&frame, sizeof frame, &read), reason < PEER_REASONS);
    }
    frame = good, frame.zero = 1;
    assert_false (peer_wire_read_answer (&frame, sizeof frame, &read));
    for (peer_reason_t reason = 0; reason < PEER_REASONS; reason++)
        assert_non_null (peer_wire_reason (reason));
}

static void
test_prediction (void **state)
{
    (void) state;
    way_meter_t meter = { .queued = 0 };
    uint64_t now = 1000 * SECOND;
    assert_true (way_meter_predict (&meter, 100, now) <= 0);
    //  100 bytes in each tenth of a second; the pauses between do not count.
    for (int round = 0; round < 5; round++) {
        way_meter_begin (&meter, 100, now);
        way_meter_end (&meter, 100, 100, now + SECOND / 10);
        now += 3 * SECOND;
    }
    assert_float_equal (way_meter_predict (&meter, 100, now), .1, 1e-9);
    //  Behind a queue of 400 it takes five times as long,
    for (int round = 0; round < 4; round++)
        way_meter_begin (&meter, 100, now);
    assert_float_equal (way_meter_predict (&meter, 100, now), .5, 1e-9);
    //  and longer, the longer nothing comes.
    assert_float_equal (way_meter_predict (&meter, 100, now + SECOND / 2), 1, 1e-9);
    //  What failed took time and gave nothing.
    for (int round = 0; round < 4; round++)
        way_meter_end (&meter, 100, 0, now + SECOND / 2);
    assert_float_equal (way_meter_predict (&meter, 100, now + SECOND), .2, 1e-9);
    way_meter_forget (&meter);
    assert_true (way_meter_predict (&meter, 100, now) <= 0);
}

//  After some seconds at another rate, that is the rate.
static void
test_prediction_fades (void **state)
{
    (void) state;
    way_meter_t meter = { .queued = 0 };
    uint64_t now = SECOND;
    for (int round = 0; round < 2000; round++, now += SECOND / 100) {
        way_meter_begin (&meter, 1000, now);
        way_meter_end (&meter, 1000, round < 1000? 1000: 100, now + SECOND / 100);
    }
    double rate = 1000 / way_meter_predict (&meter, 1000, now);
    assert_true (rate > 9900 && rate < 12000);
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

enum { BLOCKS = 8 };

static void
s_find (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes)
{
    (void) context; (void) object;
    *begin = 0;
    *bytes = (uint64_t) BLOCKS * PEER_BLOCK_BYTES;
}

static pthread_mutex_t s_disk = PTHREAD_MUTEX_INITIALIZER;

static void
s_ask_disk (block_io_request_t *request)
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
    block_io_request_t request = { .work = s_ask_disk };
    block_io_set_slice (cache->io, 1);
    pthread_mutex_lock (&s_disk);
    assert_false (block_io_do (cache->io, &request));
    for (size_t turn = 0; turn < 2; turn++)
        assert_false (peers_make_room (peers, 0));
    pthread_mutex_unlock (&s_disk);
    block_io_settle (cache->io);
    while (block_data_is_aside (data))
        sched_yield ();
    block_io_set_slice (cache->io, 100 * BLOCK_IO_SLICE_MS);
    while (peers_make_room (peers, 0))
        ;
    for (uint64_t block = 0; block < BLOCKS; block++)
        assert_int_equal (s_has_block (data, block), is_home [block]);
}

static void
test_room_after_time_aside (void **state)
{
    (void) state;
    scratch_folder_t scratch;
    char folder [80], error [600];
    block_cache_t *cache;
    block_data_t *data;
    members_t *members;
    block_data_key_t key = { { 0, 0 } };
    assert_true (scratch_begin (&scratch));
    snprintf (folder, sizeof folder, "%s/cache", scratch.path);
    assert_int_equal (block_cache_open (&cache, folder, 1 << 30, error, sizeof error), 0);
    assert_int_equal (block_cache_start_threads (cache), 0);
    block_data_key_add (&key, "https://host/a", "\"1\"", 1);
    assert_int_equal (block_data_open (&data, cache, &key, (uint64_t) BLOCKS * PEER_BLOCK_BYTES), 0);
    assert_int_equal (members_open (&members, "127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1", 1 << 30, error,
        sizeof error), 0);
    cluster_t *cluster = cluster_new (&(cluster_options_t) { .members = members, .name = "127.0.0.1:1" });
    assert_true (cluster_add (cluster, &(cluster_data_t) { .blocks = data, .store = "store", .objects = 1,
        .find = s_find }));
    peers_t *peers = peers_new (cluster, "store");
    s_make_room (cache, data, peers);
    peers_destroy (&peers);
    cluster_destroy (&cluster);
    members_close (&members);
    block_data_close (&data);
    block_cache_close (&cache);
    assert_true (scratch_end (&scratch));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_questions),
        cmocka_unit_test (test_answers),
        cmocka_unit_test (test_prediction),
        cmocka_unit_test (test_prediction_fades),
        cmocka_unit_test (test_entries),
        cmocka_unit_test (test_no_answers),
        cmocka_unit_test (test_room_after_time_aside)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
