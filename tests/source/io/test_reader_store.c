//  The reader of a store over the cache on the local disk: the right bytes, of the store only what is not
//  here, and the local disk is read beside all else, though it may hang.  The store is the test's own: it
//  answers one transfer after the other, in any order.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "effort.h"
#include "held_disk.h"
#include "pattern.h"
#include "reader.h"
#include "scratch.h"
#include "seed.h"

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES, UNITS = 600, OBJECT_BYTES = UNITS * UNIT - 1234, OBJECTS = 2,
    MANY = 24, TOGETHER = 8, DEPTH = 2, CACHE_BYTES = 64 << 20, ERROR_BYTES = 600,
    PATIENT_MS = 100000, QUICK_MS = 1
};

typedef struct {
    scratch_folder_t scratch;
    block_cache_t *cache;
    block_data_t *data;
    store_t *store;
    reader_t *reader;
} world_t;

typedef struct {
    reader_request_t request;
    uint8_t *memory;
    bool is_out, was_here;
} item_t;

static uint64_t s_random;


//  -- the store

static struct {
    transfer_t *under_way [READER_DEPTH_MAX], *done;
    size_t count, most;                 //  under way; the most that were
    uint64_t asked;                     //  bytes
    bool is_held;                       //  nothing comes
} s_store;

int __wrap_transfers_begin (transfers_t *self, transfer_t *transfer);
void __wrap_transfers_drop (transfers_t *self, const transfer_t *transfer);
void __wrap_transfers_wait (transfers_t *self, const int *descriptors, size_t count, int limit_ms);
transfer_t *__wrap_transfers_take (transfers_t *self);

int
__wrap_transfers_begin (transfers_t *self, transfer_t *transfer)
{
    (void) self;
    assert_true (s_store.count < READER_DEPTH_MAX && transfer->bytes > 0);
    s_store.under_way [s_store.count++] = transfer;
    s_store.most = s_store.count > s_store.most? s_store.count: s_store.most;
    s_store.asked += transfer->bytes;
    return 0;
}

void
__wrap_transfers_drop (transfers_t *self, const transfer_t *transfer)
{
    (void) self;
    for (size_t at = 0; at < s_store.count; at++)
        if (s_store.under_way [at] == transfer)
            s_store.under_way [at] = s_store.under_way [--s_store.count];
}

//  One comes each time.
void
__wrap_transfers_wait (transfers_t *self, const int *descriptors, size_t count, int limit_ms)
{
    (void) self;
    bool comes = s_store.count > 0 && !s_store.is_held;
    if (s_store.done || (!comes && (limit_ms == 0 || (s_store.is_held && count == 0))))
        return;
    if (comes) {
        size_t place = test_below (&s_random, s_store.count);
        transfer_t *transfer = s_store.done = s_store.under_way [place];
        s_store.under_way [place] = s_store.under_way [--s_store.count];
        uint32_t object = transfer->url [strlen (transfer->url) - 1] == 'b';
        for (size_t at = 0; at < transfer->bytes; at++)
            transfer->memory [at] = pattern_byte (object, transfer->offset + at);
        transfer->done = transfer->bytes;
        return;
    }
    struct pollfd items [2];
    assert_true (count > 0 && count <= 2);
    for (size_t at = 0; at < count; at++)
        items [at] = (struct pollfd) { .fd = descriptors [at], .events = POLLIN };
    poll (items, count, limit_ms);
}

transfer_t *
__wrap_transfers_take (transfers_t *self)
{
    (void) self;
    transfer_t *transfer = s_store.done;
    s_store.done = NULL;
    return transfer;
}


//  -- what the tests share

static int
s_begin (void **state)
{
    static world_t world;
    char folder [80], error [ERROR_BYTES];
    alarm (300);                        //  what hangs fails
    s_random = test_seed ();
    held_disk.is_cold = true;
    held_disk_hold (false);
    memset (&s_store, 0, sizeof s_store);
    if (!scratch_begin (&world.scratch))
        return -1;
    block_cache_threads_t *threads = block_cache_threads_new ();
    assert_non_null (threads);
    block_cache_threads_set_slice (threads, PATIENT_MS);
    snprintf (folder, sizeof folder, "%s/cache", world.scratch.path);
    if (block_cache_open_by (&world.cache, &threads, folder, CACHE_BYTES, error, sizeof error))
        fail_msg ("%s", error);
    block_data_key_t key = { { 1, 2 } };
    assert_int_equal (block_data_open (&world.data, world.cache, &key, OBJECTS * (uint64_t) UNITS * UNIT), 0);
    if (store_open (&world.store, "https://host/data", error, sizeof error))
        fail_msg ("%s", error);
    assert_int_equal (reader_new (&world.reader, &(reader_options_t) { .depth = DEPTH, .store = world.store,
        .backend = &reader_store }), 0);
    for (uint32_t object = 0, number; object < OBJECTS; object++) {
        reader_blocks_t blocks = { .data = world.data, .begin = object * (uint64_t) UNITS * UNIT,
            .bytes = OBJECT_BYTES, .object = object };
        assert_int_equal (reader_add_object (world.reader, object? "https://host/data/b":
            "https://host/data/a", "", &number), 0);
        reader_keep_object (world.reader, number, &blocks);
    }
    *state = &world;
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    held_disk_hold (false);             //  a test that failed has not said so
    //  What it had asked for lies in a frame that is gone, so its reader is left as it is.
    if (world->reader && reader_pending (world->reader) > 0) {
        scratch_end (&world->scratch);
        return -1;
    }
    reader_destroy (&world->reader);
    store_destroy (&world->store);
    block_data_close (&world->data);
    block_cache_close (&world->cache);
    return scratch_end (&world->scratch)? 0: -1;
}

//  Units of an object are kept: what the object has there, or what the other one has.
static void
s_keep (const world_t *world, uint32_t object, size_t first, size_t count, bool is_wrong)
{
    static uint8_t bytes [UNITS * UNIT];
    size_t begin = first * UNIT, end = (first + count) * UNIT;
    end = end < OBJECT_BYTES? end: OBJECT_BYTES;
    for (size_t at = begin; at < end; at++)
        bytes [at - begin] = pattern_byte (is_wrong? 1 - object: object, at);
    block_data_store (world->data, (uint64_t) object * UNITS * UNIT + begin, end - begin, bytes, false);
}

static void
s_submit (const world_t *world, item_t *item, uint32_t object, uint64_t offset, size_t bytes)
{
    size_t span = reader_span (offset, bytes);
    *item = (item_t) { .is_out = true, .memory = aligned_alloc (READER_ALIGN_BYTES, span) };
    assert_non_null (item->memory);
    memset (item->memory, 0xee, span);
    item->request = (reader_request_t) { .kind = READER_RANGE, .file = object, .offset = offset,
        .bytes = bytes, .memory = item->memory, .user = item };
    uint64_t first = offset / UNIT * UNIT, end = offset / UNIT * UNIT + span;
    end = end < OBJECT_BYTES? end: OBJECT_BYTES;
    item->was_here = block_data_has (world->data, (uint64_t) object * UNITS * UNIT + first, end - first);
    reader_submit (world->reader, &item->request);
}

static void
s_check (const item_t *item)
{
    const reader_request_t *request = &item->request;
    for (size_t at = 0; at < request->bytes; at++)
        if (request->memory [request->skip + at] != pattern_byte (request->file, request->offset + at))
            fail_msg ("object %u, offset %zu: a wrong byte", request->file, (size_t) request->offset + at);
}

//  Waits for all; how many have a result other than 0.
static size_t
s_finish (const world_t *world)
{
    size_t bad = 0;
    for (;;) {
        reader_request_t *request = reader_take (world->reader);
        if (request) {
            item_t *item = request->user;
            assert_true (item->is_out);
            item->is_out = false;
            bad += request->rc != 0;
            if (request->rc == 0)
                s_check (item);
        }
        else
        if (reader_pending (world->reader) == 0)
            return bad;
        else
            reader_wait (world->reader, -1);
    }
}

static void
s_free (item_t *items, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        assert_false (items [at].is_out);
        free (items [at].memory);
    }
}

//  Object 0, which is all here, and object 1, of which only the begin of each range is.
static void
s_submit_together (const world_t *world, item_t items [TOGETHER], bool is_wrong)
{
    s_keep (world, 0, 0, UNITS, is_wrong);
    for (uint32_t index = 0; index < TOGETHER; index++) {
        if (index % 2)
            s_keep (world, 1, index * 8, 3, is_wrong);
        s_submit (world, &items [index], index % 2, index * 8 * UNIT + 100, 6 * UNIT);
    }
}


//  -- the tests

//  Guards: many at once have the right bytes; what is here is not asked for, and what was read is kept.
static void
test_only_what_is_not_here_is_asked_for (void **state)
{
    const world_t *world = *state;
    static item_t items [MANY];
    print_message ("seed %" PRIu64 "\n", s_random);
    for (unsigned round = 0; round < EFFORT (30); round++) {
        block_data_drop (world->data, 0, OBJECTS * (uint64_t) UNITS * UNIT);
        for (uint64_t runs = test_below (&s_random, 20); runs > 0; runs--) {
            size_t first = test_below (&s_random, UNITS), count = 1 + test_below (&s_random, 80);
            s_keep (world, (uint32_t) test_below (&s_random, 2), first, count < UNITS - first? count:
                UNITS - first, false);
        }
        for (size_t at = 0; at < MANY; at++) {
            uint64_t offset = test_below (&s_random, OBJECT_BYTES),
                bytes = 1 + test_below (&s_random, at? 200000: OBJECT_BYTES);
            bytes = bytes < OBJECT_BYTES - offset? bytes: OBJECT_BYTES - offset;
            s_submit (world, &items [at], (uint32_t) test_below (&s_random, 2), offset, bytes);
        }
        assert_int_equal (s_finish (world), 0);
        for (size_t at = 0; at < MANY; at++) {
            const reader_request_t *request = &items [at].request;
            assert_true (request->read_bytes + request->cached_bytes >= request->bytes);
            if (items [at].was_here)
                assert_int_equal (request->gets, 0);
        }
        uint64_t asked = s_store.asked;
        for (size_t at = 0; at < MANY; at++) {
            reader_request_t *request = &items [at].request;
            items [at].is_out = true;
            reader_submit (world->reader, request);
        }
        assert_int_equal (s_finish (world), 0);
        assert_int_equal (s_store.asked, asked);
        s_free (items, MANY);
    }
    assert_int_equal (block_cache_figures (world->cache).damaged, 0);
}

//  Guards: reads of the local disk are there together, more of them than the store's depth.
static void
test_reads_of_the_local_disk_are_together (void **state)
{
    const world_t *world = *state;
    item_t items [TOGETHER];
    held_disk_hold (true);
    s_submit_together (world, items, false);
    assert_null (reader_take (world->reader));
    held_disk_wait_for_readers (TOGETHER);
    assert_int_equal (reader_pending (world->reader), TOGETHER);
    assert_int_equal (s_store.asked, 0);
    held_disk_hold (false);
    assert_int_equal (s_finish (world), 0);
    for (size_t index = 0; index < TOGETHER; index++) {
        assert_int_equal (items [index].request.gets, index % 2);
        assert_int_equal (items [index].request.read_bytes, (index % 2? 4: 0) * UNIT);
        assert_true (index % 2 == 0 || items [index].request.in_flight <= TOGETHER / 2);
    }
    s_free (items, TOGETHER);
}

//  Guards: what is looked for on the local disk and is not there waits for the store's depth: of transfers of
//  which nothing has come there are no more than the depth says, and of others twice as many.
static void
test_what_is_not_here_waits_for_the_depth (void **state)
{
    const world_t *world = *state;
    item_t items [TOGETHER];
    held_disk_hold (true);
    for (uint32_t index = 0; index < TOGETHER; index++) {
        s_keep (world, 1, index * 8, 3, false);
        s_submit (world, &items [index], 1, index * 8 * UNIT + 100, 6 * UNIT);
    }
    assert_null (reader_take (world->reader));
    held_disk_wait_for_readers (TOGETHER);
    s_store.is_held = true;
    held_disk_hold (false);
    while (reader_looks_under_way (reader_looks (world->reader)) > 0)
        reader_wait (world->reader, -1);
    assert_int_equal (s_store.count, DEPTH);
    s_store.is_held = false;
    assert_int_equal (s_finish (world), 0);
    assert_in_range (s_store.most, DEPTH, 2 * DEPTH);
    for (size_t index = 0; index < TOGETHER; index++) {
        assert_int_equal (items [index].request.gets, 1);
        assert_in_range (items [index].request.in_flight, 1, 2 * DEPTH);
    }
    s_free (items, TOGETHER);
}

//  Guards: those that wait so are cancelled as others are.
static void
test_cancelled_while_the_depth_is_waited_for (void **state)
{
    world_t *world = *state;
    item_t items [TOGETHER];
    s_store.is_held = true;
    for (uint32_t index = 0; index < TOGETHER; index++) {
        s_keep (world, 1, index * 8, 3, false);
        s_submit (world, &items [index], 1, index * 8 * UNIT + 100, 6 * UNIT);
    }
    while (s_store.count < DEPTH || reader_looks_under_way (reader_looks (world->reader)) > 0)
        reader_wait (world->reader, -1);
    reader_cancel (world->reader);
    assert_int_equal (s_finish (world), TOGETHER);
    assert_int_equal (s_store.count, 0);
    s_store.is_held = false;
    s_free (items, TOGETHER);
    s_submit (world, &items [0], 1, 100, 6 * UNIT);
    assert_int_equal (s_finish (world), 0);
    s_free (items, 1);
}

//  Guards: when the local disk hangs all comes from the store, and what the disk gives later, here the wrong
//  bytes, changes nothing.
static void
test_the_local_disk_hangs (void **state)
{
    const world_t *world = *state;
    block_cache_threads_t *threads = block_cache_threads (world->cache);
    item_t items [TOGETHER];
    held_disk_hold (true);
    s_submit_together (world, items, true);
    block_cache_threads_set_slice (threads, QUICK_MS);
    assert_int_equal (s_finish (world), 0);
    for (size_t index = 0; index < TOGETHER; index++)
        assert_int_equal (items [index].request.cached_bytes, 0);
    assert_true (block_cache_figures (world->cache).times_aside > 0);
    held_disk_hold (false);
    block_cache_threads_settle (threads);
    for (size_t index = 0; index < TOGETHER; index++)
        s_check (&items [index]);
    s_free (items, TOGETHER);
}

//  Guards: requests that are cancelled while the local disk is read for them end at once, and their memory is
//  the caller's; the reader ends when the disk has answered.
static void
test_cancelled_while_the_local_disk_is_read (void **state)
{
    world_t *world = *state;
    item_t items [TOGETHER];
    held_disk_hold (true);
    s_submit_together (world, items, false);
    assert_null (reader_take (world->reader));
    held_disk_wait_for_readers (TOGETHER);
    reader_cancel (world->reader);
    assert_int_equal (reader_pending (world->reader), 0);
    assert_int_equal (s_finish (world), TOGETHER);
    for (size_t index = 0; index < TOGETHER; index++)
        assert_int_equal (items [index].request.rc, -ECANCELED);
    s_free (items, TOGETHER);
    held_disk_hold (false);
    reader_destroy (&world->reader);
    assert_int_equal (s_store.asked, 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown (function, s_begin, s_end)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        CASE (test_only_what_is_not_here_is_asked_for),
        CASE (test_reads_of_the_local_disk_are_together),
        CASE (test_what_is_not_here_waits_for_the_depth),
        CASE (test_cancelled_while_the_depth_is_waited_for),
        CASE (test_the_local_disk_hangs),
        CASE (test_cancelled_while_the_local_disk_is_read)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
