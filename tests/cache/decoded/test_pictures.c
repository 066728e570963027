//  Decoded pictures beside a model of what may be here; the limit; what gives way; threads.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <pthread.h>
#include "effort.h"
#include "pictures.h"
#include "seed.h"

enum { SETS = 3, SAMPLES = 40, KINDS = 3, HELD_MAX = 12, MIB = 1024 * 1024 };

//  So that two samples, kinds or data sets never look alike.
static void
s_fill (picture_pixels_t picture, size_t set, uint32_t id, uint32_t kind)
{
    size_t bytes = (size_t) picture.height * picture.width * picture.channels;
    memset (picture.pixels, (int) (1 + id + 50 * kind + 83 * set), bytes);
    memset (picture.pixels + bytes, 0xee, PICTURES_SLACK);
}

static void
s_check (picture_pixels_t picture, size_t set, uint32_t id, uint32_t kind)
{
    size_t bytes = (size_t) picture.height * picture.width * picture.channels;
    assert_true ((uintptr_t) picture.pixels % 64 == 0);
    for (size_t index = 0; index < bytes; index++)
        assert_int_equal (picture.pixels [index], (uint8_t) (1 + id + 50 * kind + 83 * set));
}

static picture_pixels_t
s_size (uint32_t id, uint32_t kind)
{
    return (picture_pixels_t) { .height = 1 + 37 * id % 300, .width = 200 + id * kind,
        .channels = 3 - kind % 2, .is_clipped = id % 2 };
}

//  When what has left is given back.
static uint64_t
s_memory (pictures_t *pictures)
{
    pictures_settle (pictures);
    return pictures_memory (pictures);
}

//  Looks for it, and keeps it if that is wanted and there is room.  Whether it was here.
static bool
s_ask (pictures_data_t *data, size_t set, uint32_t id, uint32_t kind, int64_t now_ms)
{
    bool is_wanted;
    pictures_entry_t *entry = pictures_lend (data, id, kind, now_ms, &is_wanted);
    if (entry) {
        assert_false (is_wanted);
        s_check (pictures_pixels (entry), set, id, kind);
        assert_int_equal (pictures_pixels (entry).is_clipped, id % 2);
        pictures_release (entry);
        return true;
    }
    picture_pixels_t wanted = s_size (id, kind);
    if (is_wanted && (entry = pictures_make (data, id, kind, &wanted))) {
        s_fill (pictures_pixels (entry), set, id, kind);
        pictures_keep (entry);
    }
    return false;
}

static void
test_second_look (void **state)
{
    (void) state;
    pictures_t *pictures = pictures_new (100 * MIB);
    pictures_data_t *data = pictures_data_new (pictures, SAMPLES, KINDS);
    bool is_wanted;
    assert_null (pictures_lend (data, 7, 1, 0, &is_wanted));
    assert_false (is_wanted);
    assert_null (pictures_lend (data, 7, 2, 0, &is_wanted));        //  another kind is another picture
    assert_false (is_wanted);
    assert_null (pictures_lend (data, 7, 1, 0, &is_wanted));
    assert_true (is_wanted);
    assert_false (s_ask (data, 0, 7, 1, 0));
    assert_true (s_ask (data, 0, 7, 1, 0));
    pictures_figures_t figures = pictures_figures (data);
    picture_pixels_t size = s_size (7, 1);
    assert_int_equal (figures.count, 1);
    assert_int_equal (figures.bytes, size.height * size.width * size.channels);
    assert_int_equal (figures.hits, 1);
    assert_int_equal (figures.misses, 4);
    pictures_data_destroy (&data);
    assert_int_equal (s_memory (pictures), 0);
    pictures_destroy (&pictures);
}

//  A picture that is lent, or being made, outlives the limit, and its memory goes when it is given back.
static void
test_lent_when_the_limit_falls (void **state)
{
    (void) state;
    pictures_t *pictures = pictures_new (100 * MIB);
    pictures_data_t *data = pictures_data_new (pictures, SAMPLES, 1);
    bool is_wanted;
    s_ask (data, 0, 3, 0, 0);
    s_ask (data, 0, 3, 0, 0);
    s_ask (data, 0, 4, 0, 0);
    uint64_t full = pictures_memory (pictures);
    pictures_entry_t *lent = pictures_lend (data, 3, 0, 0, &is_wanted);
    picture_pixels_t wanted = s_size (4, 0);
    pictures_entry_t *made = pictures_make (data, 4, 0, &wanted);
    assert_non_null (lent);
    assert_non_null (made);
    pictures_set_limit (pictures, 0);
    assert_int_equal (pictures_figures (data).count, 0);
    assert_int_equal (s_memory (pictures), full);
    assert_null (pictures_lend (data, 3, 0, 0, &is_wanted));
    assert_true (is_wanted);
    assert_null (pictures_make (data, 3, 0, &wanted));              //  there is no room
    s_check (pictures_pixels (lent), 0, 3, 0);
    s_fill (pictures_pixels (made), 0, 4, 0);
    pictures_keep (made);                                           //  comes too late
    assert_int_equal (pictures_figures (data).count, 0);
    s_check (pictures_pixels (lent), 0, 3, 0);
    pictures_release (lent);
    assert_true (s_memory (pictures) < 64 * 1024);
    pictures_set_limit (pictures, 100 * MIB);
    s_ask (data, 0, 3, 0, 0);
    assert_true (s_ask (data, 0, 3, 0, 0));
    pictures_data_destroy (&data);
    pictures_destroy (&pictures);
}

//  Nothing leaves for something newer while jobs ask for it; what nothing asks for gives way.
static void
test_what_gives_way (void **state)
{
    (void) state;
    pictures_t *pictures = pictures_new (2 * MIB);
    pictures_data_t *old = pictures_data_new (pictures, SAMPLES, 1),
        *new = pictures_data_new (pictures, SAMPLES, 1);
    for (int round = 0; round < 2; round++)
        for (uint32_t id = 0; id < SAMPLES; id++)
            s_ask (old, 0, id, 0, 1000);
    uint64_t kept = pictures_figures (old).count;
    assert_in_range (kept, 10, SAMPLES - 1);            //  2 MiB are not enough for all
    for (int round = 0; round < 3; round++)
        for (uint32_t id = 0; id < SAMPLES; id++)
            s_ask (new, 1, id, 0, 1000 + PICTURES_IDLE_MS - 1);
    assert_int_equal (pictures_figures (old).count, kept);
    //  Those that the last corner has room for.
    assert_in_range (pictures_figures (new).count, 0, 3);
    s_ask (new, 1, SAMPLES - 1, 0, 1000 + PICTURES_IDLE_MS);
    assert_true (pictures_figures (old).count < kept);
    //  There is room once the memory has gone back.
    pictures_settle (pictures);
    s_ask (new, 1, SAMPLES - 1, 0, 1000 + PICTURES_IDLE_MS);
    assert_true (s_ask (new, 1, SAMPLES - 1, 0, 1000 + PICTURES_IDLE_MS));
    for (int round = 0; round < 3; round++)
        for (uint32_t id = 0; id < SAMPLES; id++) {
            s_ask (new, 1, id, 0, 1000 + PICTURES_IDLE_MS);
            pictures_settle (pictures);
        }
    assert_int_equal (pictures_figures (old).count, 0);
    assert_in_range (pictures_figures (new).count, kept / 2, SAMPLES - 1);
    pictures_data_destroy (&old);
    pictures_data_destroy (&new);
    pictures_destroy (&pictures);
}

//  Of two workers that make one sample's picture, one keeps it; what was not kept leaves its room.
static void
test_made_twice (void **state)
{
    (void) state;
    pictures_t *pictures = pictures_new (64 * MIB);
    pictures_data_t *data = pictures_data_new (pictures, SAMPLES, 1);
    s_ask (data, 0, 5, 0, 0);
    picture_pixels_t wanted = s_size (5, 0);
    pictures_entry_t *one = pictures_make (data, 5, 0, &wanted), *two = pictures_make (data, 5, 0, &wanted);
    s_fill (pictures_pixels (one), 0, 5, 0);
    s_fill (pictures_pixels (two), 1, 5, 0);
    pictures_keep (one);
    pictures_keep (two);
    assert_int_equal (pictures_figures (data).count, 1);
    assert_true (s_ask (data, 0, 5, 0, 0));
    //  Given up again and again, it takes no more memory.
    uint64_t memory = pictures_memory (pictures);
    wanted = (picture_pixels_t) { .height = 1000, .width = 1000, .channels = 3 };
    for (int times = 0; times < 100; times++) {
        pictures_entry_t *entry = pictures_make (data, 6, 0, &wanted);
        assert_non_null (entry);
        pictures_release (entry);
    }
    assert_int_equal (pictures_memory (pictures), memory);
    //  One that is larger than a chunk has one of its own; one that is larger than the limit is not made.
    wanted.height = 15000;
    pictures_set_limit (pictures, 128 * MIB);
    pictures_entry_t *large = pictures_make (data, 6, 0, &wanted);
    assert_non_null (large);
    s_fill (pictures_pixels (large), 0, 6, 0);
    pictures_keep (large);
    wanted.height = 60000;
    assert_null (pictures_make (data, 7, 0, &wanted));
    pictures_data_destroy (&data);
    assert_int_equal (s_memory (pictures), 0);
    pictures_destroy (&pictures);
}

//  ---- at random

typedef struct { pictures_entry_t *entry; size_t set; uint32_t id, kind; bool is_made; } held_t;

typedef struct {
    pictures_t *pictures;
    pictures_data_t *sets [SETS];
    held_t held [HELD_MAX];
    size_t count;
    uint64_t random, limit;
    int64_t now_ms;
} play_t;

static void
s_give_back (play_t *self, size_t at)
{
    held_t held = self->held [at];
    self->held [at] = self->held [--self->count];
    if (!held.is_made)
        s_check (pictures_pixels (held.entry), held.set, held.id, held.kind);
    if (held.is_made && test_below (&self->random, 4) > 0) {
        s_fill (pictures_pixels (held.entry), held.set, held.id, held.kind);
        pictures_keep (held.entry);
    }
    else
        pictures_release (held.entry);
}

static void
s_begin (play_t *self)
{
    held_t held = { .set = test_below (&self->random, SETS),
        .id = (uint32_t) test_below (&self->random, SAMPLES),
        .kind = (uint32_t) test_below (&self->random, KINDS) };
    bool is_wanted;
    held.entry = pictures_lend (self->sets [held.set], held.id, held.kind, self->now_ms, &is_wanted);
    picture_pixels_t wanted = s_size (held.id, held.kind);
    if (!held.entry && is_wanted) {
        held.entry = pictures_make (self->sets [held.set], held.id, held.kind, &wanted);
        held.is_made = true;
    }
    if (held.entry)
        self->held [self->count++] = held;
}

static void
s_renew (play_t *self)
{
    size_t set = test_below (&self->random, SETS);
    for (size_t at = self->count; at-- > 0;)
        if (self->held [at].set == set)
            s_give_back (self, at);
    pictures_data_destroy (&self->sets [set]);
    self->sets [set] = pictures_data_new (self->pictures, SAMPLES, KINDS);
}

static void
s_step (play_t *self)
{
    uint64_t what = test_below (&self->random, 100);
    self->now_ms += (int64_t) test_below (&self->random, PICTURES_IDLE_MS / 50);
    if (what == 0)
        s_renew (self);
    else
    if (what <= 2) {
        self->limit = test_below (&self->random, 24 * MIB);
        pictures_set_limit (self->pictures, self->limit);
    }
    else
    if (self->count == HELD_MAX || (self->count > 0 && what < 50))
        s_give_back (self, test_below (&self->random, self->count));
    else
        s_begin (self);
}

static void
s_play (uint64_t seed)
{
    play_t play = { .random = seed, .limit = 16 * MIB };
    play.pictures = pictures_new (play.limit);
    for (size_t set = 0; set < SETS; set++)
        play.sets [set] = pictures_data_new (play.pictures, SAMPLES, KINDS);
    for (int step = 0; step < 3000; step++) {
        s_step (&play);
        //  What is lent may keep as many chunks above the limit; tables are small.
        if (play.count == 0)
            assert_true (s_memory (play.pictures) <= play.limit + SETS * KINDS * 1024);
    }
    while (play.count > 0)
        s_give_back (&play, play.count - 1);
    for (size_t set = 0; set < SETS; set++) {
        assert_true (pictures_figures (play.sets [set]).count <= SAMPLES * KINDS);
        pictures_data_destroy (&play.sets [set]);
    }
    assert_int_equal (s_memory (play.pictures), 0);
    pictures_destroy (&play.pictures);
}

static void
test_at_random (void **state)
{
    (void) state;
    for (uint64_t round = 0; round < EFFORT (60); round++) {
        print_message ("TEST_SEED=%" PRIu64 "\n", test_seed () + round);
        s_play (test_seed () + round);
    }
}

//  ---- threads

typedef struct { pictures_data_t *data; uint64_t random; size_t hits; } worker_t;

static void *
s_work (void *argument)
{
    worker_t *self = argument;
    for (int times = 0; times < 3000; times++)
        self->hits += s_ask (self->data, 0, (uint32_t) test_below (&self->random, SAMPLES),
            (uint32_t) test_below (&self->random, KINDS), times);
    return NULL;
}

static void
test_threads (void **state)
{
    (void) state;
    enum { THREADS = 4 };
    pictures_t *pictures = pictures_new (16 * MIB);
    pictures_data_t *data = pictures_data_new (pictures, SAMPLES, KINDS);
    pthread_t threads [THREADS];
    worker_t workers [THREADS];
    for (size_t index = 0; index < THREADS; index++) {
        workers [index] = (worker_t) { data, test_seed () + index, 0 };
        assert_int_equal (pthread_create (&threads [index], NULL, s_work, &workers [index]), 0);
    }
    uint64_t random = test_seed ();
    for (int times = 0; times < 200; times++)
        pictures_set_limit (pictures, test_below (&random, 16 * MIB));
    pictures_set_limit (pictures, 16 * MIB);
    uint64_t hits = 0;
    for (size_t index = 0; index < THREADS; index++) {
        assert_int_equal (pthread_join (threads [index], NULL), 0);
        hits += workers [index].hits;
    }
    assert_true (hits > 0);
    assert_int_equal (pictures_figures (data).hits, hits);
    pictures_data_destroy (&data);
    assert_int_equal (s_memory (pictures), 0);
    pictures_destroy (&pictures);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_second_look), cmocka_unit_test (test_lent_when_the_limit_falls),
        cmocka_unit_test (test_what_gives_way), cmocka_unit_test (test_made_twice),
        cmocka_unit_test (test_at_random), cmocka_unit_test (test_threads)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
