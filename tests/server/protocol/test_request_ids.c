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

//  A frame of numbers, at an odd address so that the sanitizer sees a careless read.
typedef struct {
    uint8_t *block;
    frame_t frame;
} ids_t;

static ids_t
s_ids (uint8_t form, const uint64_t *numbers, size_t count)
{
    size_t size = 8 + 8 * count;
    ids_t ids = { .block = calloc (1, size + 1) };
    assert_non_null (ids.block);
    ids.block [1] = form;
    if (count)
        memcpy (ids.block + 1 + 8, numbers, 8 * count);
    ids.frame = frame_of (ids.block + 1, size);
    return ids;
}

static void
s_refused_subset (uint8_t form, const uint64_t *numbers, size_t count, uint32_t sample_count,
    const char *code, const char *fragment)
{
    ids_t ids = s_ids (form, numbers, count);
    roaring_bitmap_t *set = (roaring_bitmap_t *) &ids;
    refusal_t refusal = { 0 };
    assert_false (request_subset (&ids.frame, sample_count, &set, &refusal));
    assert_null (set);
    assert_refusal (&refusal, code, fragment);
    free (ids.block);
}

static void
ranges_refused (void **state)
{
    (void) state;
    s_refused_subset (1, NULL, 0, 100, "bad_request", "subset: it is empty");
    s_refused_subset (1, (uint64_t []) { 3 }, 1, 100, "malformed", "pairs, got 1 numbers");
    s_refused_subset (1, (uint64_t []) { 3, 3 }, 2, 100, "bad_request", "range 0 is empty: 3 to 3");
    s_refused_subset (1, (uint64_t []) { 1, 2, 9, 4 }, 4, 100, "bad_request", "range 1 is empty: 9 to 4");
    s_refused_subset (1, (uint64_t []) { 1, 101 }, 2, 100, "bad_request",
        "range 0 ends at 101, the data set has 100");
    s_refused_subset (1, (uint64_t []) { 1, 5, 4, 6 }, 4, 100, "bad_request",
        "range 1 begins at 4, before the end of the one before it, 5");
    s_refused_subset (1, (uint64_t []) { 50, 60, 0, 10 }, 4, 100, "bad_request", "range 1 begins at 0");
    s_refused_subset (1, (uint64_t []) { 0, UINT64_MAX }, 2, UINT32_MAX, "bad_request",
        "range 0 ends at 18446744073709551615, the data set has 4294967295");
    s_refused_subset (1, (uint64_t []) { 0, UINT64_C (1) << 32 }, 2, UINT32_MAX, "bad_request",
        "ends at 4294967296");
    s_refused_subset (1, (uint64_t []) { 0, 1 }, 2, 0, "bad_request", "the data set has 0 samples");
}

static void
words_refused (void **state)
{
    (void) state;
    s_refused_subset (2, (uint64_t []) { 1, 0, 0 }, 3, 128, "malformed", "128 samples make 2 words, got 3");
    s_refused_subset (2, NULL, 0, 0, "bad_request", "subset: it is empty");
    s_refused_subset (2, (uint64_t []) { 0, 0 }, 2, 65, "bad_request", "subset: it is empty");
    s_refused_subset (2, (uint64_t []) { 0, 2 }, 2, 65, "bad_request",
        "bit 1 of word 1 is sample 65, the data set has 65 samples");
    s_refused_subset (2, (uint64_t []) { UINT64_C (1) << 63 }, 1, 63, "bad_request",
        "bit 63 of word 0 is sample 63");
    s_refused_subset (2, (uint64_t []) { 0, UINT64_C (5) << 10 | 3 }, 2, 68, "bad_request",
        "bit 10 of word 1 is sample 74, the data set has 68 samples");
    s_refused_subset (2, NULL, 0, 65, "bad_request", "subset: it is empty");
}

static void
subset_frames_refused (void **state)
{
    (void) state;
    s_refused_subset (3, (uint64_t []) { 1 }, 1, 64, "bad_request",
        "expected form 1 (ranges) or 2 (words), got 3");
    s_refused_subset (0, (uint64_t []) { 1 }, 1, 64, "bad_request", "got 0");
    s_refused_subset (255, (uint64_t []) { 1 }, 1, 64, "bad_request", "got 255");
    uint8_t bytes [64] = { 1 };
    static const size_t sizes [] = { 0, 1, 7, 9, 23 };
    roaring_bitmap_t *set;
    refusal_t refusal = { 0 };
    for (size_t index = 0; index < 5; index++) {
        frame_t frame = frame_of (bytes, sizes [index]);
        assert_false (request_subset (&frame, 64, &set, &refusal));
        assert_refusal (&refusal, "malformed", "8 bytes and then 8 for each number, got ");
    }
    for (size_t index = 1; index < 8; index++) {
        bytes [index] = 7;
        frame_t frame = frame_of (bytes, 24);
        char fragment [48];
        snprintf (fragment, sizeof fragment, "byte %zu of the frame is zero, got 7", index);
        assert_false (request_subset (&frame, 64, &set, &refusal));
        assert_refusal (&refusal, "malformed", fragment);
        bytes [index] = 0;
    }
}

//  What was taken: as a subset, but in several frames, perhaps nothing, and ids that there are not are the
//  state's fault.
static void
taken_in_several_frames (void **state)
{
    (void) state;
    enum { FULL = (WIRE_FRAME_BYTES_MAX - 8) / 8, SAMPLES = 64 * FULL + 130 };
    static uint64_t words [FULL];
    memset (words, 0, sizeof words);
    words [0] = 5;
    words [FULL - 1] = UINT64_C (1) << 63;
    ids_t first = s_ids (2, words, FULL), second = s_ids (2, (uint64_t []) { 1, 0, 2 }, 3),
        nothing = s_ids (2, NULL, 0);
    ids_t beyond = s_ids (2, (uint64_t []) { 0, 0, 4 }, 3),
        longer = s_ids (2, (uint64_t []) { 0, 0, 0, 0 }, 4);
    ids_t ranges = s_ids (1, (uint64_t []) { 3, 9 }, 2), again = s_ids (1, (uint64_t []) { 8, 10 }, 2);
    ids_t list = s_ids (3, (uint64_t []) { 3 }, 1);
    roaring_bitmap_t *set;
    refusal_t refusal = { 0 };
    frame_t frames [2] = { first.frame, second.frame };
    assert_true (request_taken (frames, 2, SAMPLES, &set, &refusal));
    uint32_t ids [5];
    assert_int_equal (roaring_bitmap_get_cardinality (set), 5);
    roaring_bitmap_to_uint32_array (set, ids);
    const uint32_t expected [] = { 0, 2, 64 * FULL - 1, 64 * FULL, 64 * FULL + 129 };
    assert_memory_equal (ids, expected, sizeof ids);
    roaring_bitmap_free (set);
    assert_true (request_taken (&nothing.frame, 1, SAMPLES, &set, &refusal));
    assert_true (roaring_bitmap_is_empty (set));
    roaring_bitmap_free (set);
    const struct { frame_t frames [2]; const char *code, *fragment; } cases [] = {
        { { first.frame, beyond.frame }, "bad_state",
            "taken: bit 2 of word 131073 is sample 8388674, the data set has 8388674" },
        { { first.frame, longer.frame }, "malformed",
            "taken: 8388674 samples make 131074 words, got 131075" },
        { { second.frame, second.frame }, "malformed",
            "taken frame 0: another follows, so it has 131071 words; got 3" },
        { { ranges.frame, second.frame }, "bad_request",
            "taken frame 1: expected form 1 as in the first, got 2" },
        { { ranges.frame, again.frame }, "bad_request",
            "taken: range 0 begins at 8, before the end of the one before it, 9" },
        { { ranges.frame, list.frame }, "bad_request",
            "taken frame 1: expected form 1 (ranges) or 2 (words), got 3" },
        { { ranges.frame, frame_of (ranges.frame.data, 15) }, "malformed",
            "taken frame 1: expected 8 bytes and then 8" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        assert_false (request_taken (cases [index].frames, 2, SAMPLES, &set, &refusal));
        assert_null (set);
        assert_refusal (&refusal, cases [index].code, cases [index].fragment);
    }
    ids_t all [] = { first, second, nothing, beyond, longer, ranges, again, list };
    for (size_t index = 0; index < sizeof all / sizeof *all; index++)
        free (all [index].block);
}

//  ---- what stands for a job's ids

static void
s_assert_digest (request_digest_t digest, const char *expected)
{
    assert_string_equal (digest.text, expected);
}

//  Fixed for ever: they are in states that people keep.  The values are those of libxxhash on the bytes that
//  request.h says.
static void
digests_do_not_change (void **state)
{
    (void) state;
    static const uint32_t list [] = { 5, 3, 3, 2999, 0, 5 };
    roaring_bitmap_t *odd = roaring_bitmap_create ();
    for (uint32_t id = 1; id < 300; id += 2)
        roaring_bitmap_add (odd, id);
    s_assert_digest (request_digest_of_all (130), "e6ec194f4d996650");
    s_assert_digest (request_digest_of_set (odd), "50f6468669a498fe");
    s_assert_digest (request_digest_of_list (list, 6), "035d9e9681854a20");
    roaring_bitmap_free (odd);
}

//  Far apart, over several of the digest's buffers: the same as of the bytes that request.h says.
static void
digests_of_scattered_ids (void **state)
{
    (void) state;
    enum { WORDS = 40000 };
    static uint64_t words [1 + WORDS];
    uint64_t random = test_seed ();
    roaring_bitmap_t *set = roaring_bitmap_create ();
    memcpy (words, "set", 3);
    for (int count = 0; count < 20; count++) {
        uint32_t id = (uint32_t) test_below (&random, WORDS * 64);
        roaring_bitmap_add (set, id);
        words [1 + id / 64] |= UINT64_C (1) << id % 64;
    }
    size_t filled = 1 + roaring_bitmap_maximum (set) / 64 + 1;
    s_assert_digest (request_digest_of_set (set),
        request_digest_of_bytes (words, filled * sizeof *words).text);
    roaring_bitmap_free (set);
}

//  A set's digest is that of the same ids, however they were said; a list's is another, and knows its order.
static void
digests_are_of_the_ids (void **state)
{
    (void) state;
    static const uint32_t sizes [] = { 1, 63, 64, 65, 1000, 65536, 200001 };
    for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index++) {
        roaring_bitmap_t *range = roaring_bitmap_from_range (0, sizes [index], 1),
            *single = roaring_bitmap_create ();
        for (uint32_t id = 0; id < sizes [index]; id++)
            roaring_bitmap_add (single, id);
        request_digest_t all = request_digest_of_all (sizes [index]);
        s_assert_digest (request_digest_of_set (range), all.text);
        s_assert_digest (request_digest_of_set (single), all.text);
        assert_string_not_equal (request_digest_of_all (sizes [index] + 1).text, all.text);
        roaring_bitmap_remove (single, sizes [index] / 2);
        assert_string_not_equal (request_digest_of_set (single).text, all.text);
        roaring_bitmap_free (range);
        roaring_bitmap_free (single);
    }
    const uint32_t up [] = { 0, 1, 2 }, down [] = { 2, 1, 0 };
    assert_string_not_equal (request_digest_of_list (up, 3).text, request_digest_of_all (3).text);
    assert_string_not_equal (request_digest_of_list (up, 3).text, request_digest_of_list (down, 3).text);
    assert_string_not_equal (request_digest_of_list (up, 3).text, request_digest_of_list (up, 2).text);
}

static void
lists_refused (void **state)
{
    (void) state;
    ids_t good = s_ids (3, (uint64_t []) { 1, 2 }, 2), empty = s_ids (3, NULL, 0);
    ids_t words = s_ids (2, (uint64_t []) { 1 }, 1), beyond = s_ids (3, (uint64_t []) { 9, 10 }, 2);
    ids_t huge = s_ids (3, (uint64_t []) { UINT64_C (1) << 32 }, 1);
    const struct { frame_t second; uint32_t samples; const char *code, *fragment; } cases [] = {
        { empty.frame, 10, "bad_request", "list frame 1: it is empty" },
        { words.frame, 10, "bad_request", "list frame 1: expected form 3 (list), got 2" },
        { beyond.frame, 10, "bad_request",
            "list frame 1: number 1 is sample 10, the data set has 10 samples" },
        { huge.frame, UINT32_MAX, "bad_request", "is sample 4294967296" },
        { good.frame, 1, "bad_request", "list frame 0: number 0 is sample 1, the data set has 1 samples" },
        { frame_of (good.frame.data, 15), 10, "malformed", "list frame 1: expected 8 bytes and then" },
    };
    uint32_t *ids;
    size_t count;
    refusal_t refusal = { 0 };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        frame_t frames [2] = { good.frame, cases [index].second };
        assert_false (request_list (frames, 2, cases [index].samples, &ids, &count, &refusal));
        assert_null (ids);
        assert_refusal (&refusal, cases [index].code, cases [index].fragment);
    }
    assert_false (request_list (NULL, 0, 10, &ids, &count, &refusal));
    assert_refusal (&refusal, "bad_request", "list: it is empty");
    free (good.block);
    free (empty.block);
    free (words.block);
    free (beyond.block);
    free (huge.block);
}

static void
frames_above_a_mebibyte (void **state)
{
    (void) state;
    uint64_t *zeros = calloc (131072, 8);
    assert_non_null (zeros);
    s_refused_subset (2, zeros, 131072, 131072 * 64, "malformed", "at most 1048576 bytes, got 1048584");
    zeros [131070] = 1;
    ids_t ids = s_ids (2, zeros, 131071);
    roaring_bitmap_t *set;
    refusal_t refusal = { 0 };
    assert_true (request_subset (&ids.frame, 131071 * 64, &set, &refusal));
    assert_int_equal (roaring_bitmap_minimum (set), 131070 * 64);
    roaring_bitmap_free (set);
    free (ids.block);
    free (zeros);
}

static void
s_assert_no_runs (const roaring_bitmap_t *set)
{
    roaring_statistics_t statistics;
    roaring_bitmap_statistics (set, &statistics);
    assert_int_equal (statistics.n_run_containers, 0);
}

//  Guards against roaring_bitmap_remove_run_compression on runs that end a container: see request_ids.c.
static void
ranges_that_end_a_container (void **state)
{
    (void) state;
    static const uint64_t lengths [] = { 1, 2, 100, 4095, 4096, 4097, 65535, 65536, 65537, 140000 };
    for (size_t index = 0; index < sizeof lengths / sizeof *lengths; index++) {
        uint64_t end = 196608, begin = end - lengths [index];
        ids_t ids = s_ids (1, (uint64_t []) { begin, end, end, end + 1 }, 4);
        roaring_bitmap_t *set;
        refusal_t refusal = { 0 };
        assert_true (request_subset (&ids.frame, 200000, &set, &refusal));
        assert_int_equal (roaring_bitmap_get_cardinality (set), lengths [index] + 1);
        assert_int_equal (roaring_bitmap_minimum (set), begin);
        assert_int_equal (roaring_bitmap_maximum (set), end);
        s_assert_no_runs (set);
        roaring_bitmap_free (set);
        free (ids.block);
    }
}

//  The largest ids there can be.
static void
range_at_the_end_of_all_ids (void **state)
{
    (void) state;
    ids_t ids = s_ids (1, (uint64_t []) { UINT32_MAX - 70000, UINT32_MAX }, 2);
    roaring_bitmap_t *set;
    refusal_t refusal = { 0 };
    assert_true (request_subset (&ids.frame, UINT32_MAX, &set, &refusal));
    assert_int_equal (roaring_bitmap_get_cardinality (set), 70000);
    assert_int_equal (roaring_bitmap_maximum (set), UINT32_MAX - 1);
    s_assert_no_runs (set);
    roaring_bitmap_free (set);
    free (ids.block);
}

//  The model: one byte for each sample.  Density and stretches vary, so that all kinds of containers come up.
static void
s_fill_model (uint64_t *random, uint8_t *model, uint32_t samples)
{
    uint32_t stretch_max = 1 + (uint32_t) test_below (random, test_below (random, 4)? 200: 100000);
    uint64_t density = 1 + test_below (random, 9);
    for (uint32_t id = 0; id < samples;) {
        uint8_t in = test_below (random, 10) < density;
        for (uint64_t left = 1 + test_below (random, stretch_max); left && id < samples; left--)
            model [id++] = in;
    }
    model [test_below (random, samples)] = 1;
}

static ids_t
s_model_as_words (const uint8_t *model, uint32_t samples)
{
    size_t count = ((size_t) samples + 63) / 64;
    uint64_t *words = calloc (count, 8);
    assert_non_null (words);
    for (uint32_t id = 0; id < samples; id++)
        words [id / 64] |= (uint64_t) model [id] << id % 64;
    ids_t ids = s_ids (2, words, count);
    free (words);
    return ids;
}

//  Ranges, some of them cut in two that touch.
static ids_t
s_model_as_ranges (uint64_t *random, const uint8_t *model, uint32_t samples)
{
    uint64_t *numbers = calloc ((size_t) samples + 2, 16);
    assert_non_null (numbers);
    size_t count = 0;
    for (uint32_t id = 0; id < samples; id++) {
        if (!model [id])
            continue;
        if (id && model [id - 1] && test_below (random, 50))
            numbers [count - 1]++;
        else {
            numbers [count++] = id;
            numbers [count++] = id + 1;
        }
    }
    ids_t ids = s_ids (1, numbers, count);
    free (numbers);
    return ids;
}

static void
s_compare (uint64_t seed, const ids_t *ids, const uint8_t *model, uint32_t samples)
{
    roaring_bitmap_t *set;
    refusal_t refusal = { 0 };
    if (!request_subset (&ids->frame, samples, &set, &refusal))
        fail_msg ("seed %" PRIu64 ": %s", seed, refusal.message);
    uint64_t members = 0;
    for (uint32_t id = 0; id < samples; id++) {
        members += model [id];
        if (roaring_bitmap_contains (set, id) != (model [id] == 1))
            fail_msg ("seed %" PRIu64 ": id %u of %u", seed, id, samples);
    }
    assert_int_equal (roaring_bitmap_get_cardinality (set), members);
    s_assert_no_runs (set);
    roaring_bitmap_free (set);
}

//  Property: a set comes out the same from both forms as from an array of bytes.  Replay: TEST_SEED=<seed>.
static void
sets_match_the_model (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), round = 0; round < 120; seed++, round++) {
        uint64_t random = seed;
        uint32_t samples = 1 + (uint32_t) test_below (&random, round % 4? 3000: 300000);
        samples = samples > 70 && test_below (&random, 3) == 0? samples / 64 * 64: samples;
        uint8_t *model = calloc (samples, 1);
        assert_non_null (model);
        s_fill_model (&random, model, samples);
        ids_t words = s_model_as_words (model, samples);
        ids_t ranges = s_model_as_ranges (&random, model, samples);
        s_compare (seed, &words, model, samples);
        if (ranges.frame.size <= WIRE_FRAME_BYTES_MAX)
            s_compare (seed, &ranges, model, samples);
        free (ranges.block);
        free (words.block);
        free (model);
    }
}

//  Whether a frame is a valid subset, and of how many, by the protocol's words.
static bool
s_model_accepts (const frame_t *frame, uint32_t samples, uint64_t *members)
{
    if (frame->size < 8 || frame->size % 8 || memcmp (frame->data + 1, "\0\0\0\0\0\0\0", 7) != 0)
        return false;
    size_t count = frame->size / 8 - 1;
    uint64_t *numbers = calloc (count + 1, 8), end = 0;
    assert_non_null (numbers);
    memcpy (numbers, frame->data + 8, 8 * count);
    bool good = frame->data [0] == 1? count % 2 == 0
        : frame->data [0] == 2 && count <= ((size_t) samples + 63) / 64;
    *members = 0;
    for (size_t index = 0; good && frame->data [0] == 1 && index < count; index += 2) {
        good = numbers [index] >= end && numbers [index] < numbers [index + 1]
            && numbers [index + 1] <= samples;
        *members += numbers [index + 1] - numbers [index];
        end = numbers [index + 1];
    }
    for (size_t index = 0; good && frame->data [0] == 2 && index < count; index++)
        for (unsigned bit = 0; bit < 64; bit++)
            if (numbers [index] >> bit & 1) {
                good = good && index * 64 + bit < samples;
                ++*members;
            }
    free (numbers);
    return good && *members > 0;
}

//  Property: damage is refused exactly where the rules are broken, and what is still a set is read as one.
static void
damaged_sets_match_the_model (void **state)
{
    (void) state;
    size_t taken = 0, refused = 0;
    for (uint64_t seed = test_seed (), round = 0; round < 4000; seed++, round++) {
        uint64_t random = seed, members = 0;
        uint32_t samples = 1 + (uint32_t) test_below (&random, 300);
        uint8_t model [300] = { 0 };
        s_fill_model (&random, model, samples);
        ids_t ids = test_below (&random, 2)? s_model_as_words (model, samples)
            : s_model_as_ranges (&random, model, samples);
        for (uint64_t hits = 1 + test_below (&random, 3); hits; hits--)
            ids.block [1 + test_below (&random, ids.frame.size)] ^= (uint8_t) (1u << test_below (&random, 8));
        if (test_below (&random, 4) == 0)
            ids.frame.size -= test_below (&random, 17) % (ids.frame.size + 1);
        bool expected = s_model_accepts (&ids.frame, samples, &members);
        roaring_bitmap_t *set;
        refusal_t refusal = { 0 };
        bool got = request_subset (&ids.frame, samples, &set, &refusal);
        if (got != expected || (got && roaring_bitmap_get_cardinality (set) != members))
            fail_msg ("seed %" PRIu64 ": expected %d, got %d %s", seed, expected, got, refusal.message);
        taken += got;
        refused += !got;
        if (got)
            roaring_bitmap_free (set);
        free (ids.block);
    }
    assert_true (taken > 100 && refused > 100);
}

//  --- recent: of two ranks with batches of 3, at most 100 samples ------------------------------------------

enum { RECENT_BATCH = 3, RECENT_SAMPLES = 100 };

typedef struct {
    uint64_t numbers [2000];
    size_t count;
} numbers_t;

static void
s_add (numbers_t *self, const uint64_t *numbers, size_t count)
{
    if (count)
        memcpy (self->numbers + self->count, numbers, count * sizeof *numbers);
    self->count += count;
}

//  Parses the numbers in frames of each so many; resume is at a position.
static bool
s_recent (const numbers_t *numbers, size_t each, broker_position_t resume, broker_record_t **records_p,
    size_t *count_p, refusal_t *refusal)
{
    request_join_t join = { .world_size = 2, .batch_size = RECENT_BATCH, .recent_first = 2,
        .resume = { .epoch = resume.epoch, .batches = resume.batches } };
    ids_t ids [40];
    frame_t frames [42] = { { 0 } };
    for (size_t at = 0; at < numbers->count || join.recent_frames == 0; at += each) {
        size_t here = numbers->count - at < each? numbers->count - at: each;
        ids [join.recent_frames] = s_ids (WIRE_IDS_RECENT, numbers->numbers + at, here);
        frames [2 + join.recent_frames] = ids [join.recent_frames].frame;
        join.recent_frames++;
    }
    bool good = request_recent (frames, &join, RECENT_SAMPLES, records_p, count_p, refusal);
    for (size_t index = 0; index < join.recent_frames; index++)
        free (ids [index].block);
    return good;
}

static void
s_refused_recent (const uint64_t *numbers, size_t count, const char *code, const char *fragment)
{
    numbers_t all = { .count = 0 };
    s_add (&all, numbers, count);
    broker_record_t *records;
    refusal_t refusal = { 0 };
    assert_false (s_recent (&all, 1999, (broker_position_t) { 5, 7 }, &records, &count, &refusal));
    assert_null (records);
    assert_refusal (&refusal, code, fragment);
}
#define S_REFUSED_RECENT(code, fragment, ...) \
    s_refused_recent ((uint64_t []) { __VA_ARGS__ }, sizeof ((uint64_t []) { __VA_ARGS__ }) / 8, code, \
        fragment)

static void
recent_refused (void **state)
{
    (void) state;
    s_refused_recent (NULL, 0, "malformed",
        "recent: expected records of at most 1050112 numbers in all, got 0");
    S_REFUSED_RECENT ("malformed", "recent record 0: it begins with 4 numbers; 3 are left", 0, 5, 6);
    S_REFUSED_RECENT ("malformed", "recent record 0: expected kind 0 (a step) or 1 (an epoch's end), got 2",
        2, 5, 6, 0);
    S_REFUSED_RECENT ("malformed", "a step of 2 ids has 2 counts and so many numbers; 3 are left", 0, 5, 6, 2,
        1, 1, 9);
    S_REFUSED_RECENT ("malformed", "recent record 0: a step of 18446744073709551615 ids has 2 counts", 0, 5,
        6, UINT64_MAX, 1, 1, 9);
    S_REFUSED_RECENT ("malformed", "a step of 0 ids has 2 counts and so many numbers; 1 are left", 0, 5, 6, 0,
        1);
    S_REFUSED_RECENT ("malformed", "a step of 0 ids, and its ranks have 0", 0, 5, 6, 0, 0, 0);
    S_REFUSED_RECENT ("malformed", "a step of 3 ids, and its ranks have 2", 0, 5, 6, 3, 1, 1, 9, 8, 7);
    S_REFUSED_RECENT ("bad_state", "recent record 0: rank 1 has 4 samples, and batch_size is 3", 0, 5, 6, 4,
        0, 4, 9, 8, 7, 6);
    S_REFUSED_RECENT ("bad_state", "rank 0 has 18446744073709551615 samples", 0, 5, 6, 1, UINT64_MAX, 2, 9);
    S_REFUSED_RECENT ("bad_state", "recent record 0: id 1 is sample 100, the data set has 100", 0, 5, 6, 2, 1,
        1, 99, 100);
    S_REFUSED_RECENT ("malformed", "at most 2^53, got 9007199254740993 and 6", 1, (UINT64_C (1) << 53) + 1, 6,
        0);
    S_REFUSED_RECENT ("malformed", "at most 2^53, got 5 and 9007199254740993", 1, 5, (UINT64_C (1) << 53) + 1,
        0);
    //  Each goes on where the one before ended.
    S_REFUSED_RECENT ("malformed",
        "recent record 1: it is at epoch 5, step 6, and the one before ended at epoch 5, step 5",
        0, 5, 4, 1, 1, 0, 9, 0, 5, 6, 1, 1, 0, 9);
    S_REFUSED_RECENT ("malformed",
        "recent record 1: it is at epoch 5, step 4, and the one before ended at epoch 5, step 5",
        0, 5, 4, 1, 1, 0, 9, 1, 5, 4, 30);
    S_REFUSED_RECENT ("malformed",
        "recent record 1: it is at epoch 6, step 1, and the one before ended at epoch 6, step 0",
        1, 5, 4, 30, 0, 6, 1, 1, 1, 0, 9);
    S_REFUSED_RECENT ("bad_request", "recent: it ends at epoch 5, step 6, and resume says epoch 5, step 7", 0,
        5, 5, 1, 1, 0, 9);
    S_REFUSED_RECENT ("bad_request", "recent: it ends at epoch 6, step 0, and resume says epoch 5, step 7", 1,
        5, 7, 9);
    ids_t ids = s_ids (WIRE_IDS_LIST, (uint64_t []) { 1, 5, 6, 0 }, 4);
    request_join_t join = { .world_size = 2, .batch_size = 3, .recent_frames = 1 };
    broker_record_t *records;
    size_t count;
    refusal_t refusal = { 0 };
    assert_false (request_recent (&ids.frame, &join, 100, &records, &count, &refusal));
    assert_refusal (&refusal, "bad_request", "recent frame 0: expected form 4 (recent), got 3");
    ids.frame.size = 7;
    assert_false (request_recent (&ids.frame, &join, 100, &records, &count, &refusal));
    assert_refusal (&refusal, "malformed",
        "recent frame 0: expected 8 bytes and then 8 for each number, got 7");
    free (ids.block);
}

//  Ends of epochs without a batch stand in a row; a record may lie across frames, whatever their sizes.
static void
recent_in_several_frames (void **state)
{
    (void) state;
    static const uint64_t numbers [] = { 0, 2, 8, 3, 3, 0, 1, 2, 3, 1, 2, 9, 50, 1, 3, 0, 0, 0, 4, 0, 4, 2, 2,
        5, 5, 0, 99 };
    numbers_t all = { .count = 0 };
    s_add (&all, numbers, sizeof numbers / sizeof *numbers);
    for (size_t each = 1; each <= all.count; each++) {
        broker_record_t *records;
        size_t count;
        refusal_t refusal = { 0 };
        if (!s_recent (&all, each, (broker_position_t) { 4, 1 }, &records, &count, &refusal))
            fail_msg ("%zu a frame: %s", each, refusal.message);
        assert_int_equal (count, 4);
        assert_true (!records [0].is_end && records [1].is_end && records [2].is_end && !records [3].is_end);
        assert_memory_equal (records [0].step, numbers + 4, 5 * 8);
        assert_memory_equal (records [3].step, numbers + 21, 6 * 8);
        assert_true (records [1].samples == 50 && records [2].index == 0 && records [3].epoch == 4);
        free (records);
    }
}

//  A record more than there may be, and an id more.
static void
recent_is_bounded (void **state)
{
    (void) state;
    numbers_t all = { .count = 0 };
    for (uint64_t record = 0; record < WIRE_RECENT_RECORDS_MAX; record++)
        s_add (&all, (uint64_t []) { 1, record, 0, 0 }, 4);
    broker_record_t *records;
    size_t count;
    refusal_t refusal = { 0 };
    assert_true (s_recent (&all, 1024, (broker_position_t) { 256, 0 }, &records, &count, &refusal));
    assert_int_equal (count, 256);
    free (records);
    s_add (&all, (uint64_t []) { 1, 256, 0, 0 }, 4);
    assert_false (s_recent (&all, 1024, (broker_position_t) { 257, 0 }, &records, &count, &refusal));
    assert_refusal (&refusal, "malformed", "recent: at most 256 records are taken");
    //  17 steps of 61,681 ids are 1,048,577.
    enum { STEPS = 17, IDS = 61681, EACH = 100000 };
    size_t total = STEPS * (6 + IDS), frames_needed = total / EACH + 1;
    uint64_t *numbers = calloc (total, sizeof *numbers);
    frame_t frames [2 + STEPS] = { { 0 } };
    ids_t ids [STEPS];
    assert_non_null (numbers);
    for (uint64_t step = 0; step < STEPS; step++)
        memcpy (numbers + step * (6 + IDS), ((uint64_t []) { 0, 0, step, IDS, IDS, 0 }), 6 * 8);
    for (size_t index = 0; index < frames_needed; index++) {
        size_t here = total - index * EACH < EACH? total - index * EACH: EACH;
        ids [index] = s_ids (WIRE_IDS_RECENT, numbers + index * EACH, here);
        frames [2 + index] = ids [index].frame;
    }
    request_join_t join = { .world_size = 2, .batch_size = 65536, .recent_first = 2,
        .recent_frames = frames_needed,
        .resume = { .batches = STEPS } };
    assert_false (request_recent (frames, &join, 1, &records, &count, &refusal));
    assert_refusal (&refusal, "malformed", "recent: at most 1048576 ids are taken");
    for (size_t index = 0; index < frames_needed; index++)
        free (ids [index].block);
    free (numbers);
}

//  Random records, written and read again.
static void
recent_matches_what_was_written (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), round = 0; round < 2000; seed++, round++) {
        uint64_t random = seed;
        numbers_t all = { .count = 0 };
        broker_position_t at = { test_below (&random, 5), test_below (&random, 5) };
        broker_record_t expected [20];
        size_t count = 1 + test_below (&random, 20), read;
        for (size_t index = 0; index < count; index++) {
            uint64_t of_first = test_below (&random, RECENT_BATCH + 1),
                of_second = test_below (&random, RECENT_BATCH + 1);
            bool is_end = test_below (&random, 3) == 0 || of_first + of_second == 0;
            uint64_t samples = is_end? test_below (&random, 1000): of_first + of_second;
            expected [index] = (broker_record_t) { .is_end = is_end, .epoch = at.epoch, .index = at.batches,
                .samples = samples,
                .step = is_end? NULL: all.numbers + all.count + 4 };
            s_add (&all, (uint64_t []) { is_end, at.epoch, at.batches, samples, of_first, of_second },
                is_end? 4: 6);
            for (uint64_t id = 0; !is_end && id < samples; id++)
                s_add (&all, (uint64_t []) { test_below (&random, RECENT_SAMPLES) }, 1);
            at = is_end? (broker_position_t) { at.epoch + 1, 0 }:
                (broker_position_t) { at.epoch, at.batches + 1 };
        }
        broker_record_t *records;
        refusal_t refusal = { 0 };
        if (!s_recent (&all, 10 + test_below (&random, 300), at, &records, &read, &refusal))
            fail_msg ("seed %" PRIu64 ": %s", seed, refusal.message);
        assert_int_equal (read, count);
        for (size_t index = 0; index < count; index++) {
            const broker_record_t *one = &records [index], *other = &expected [index];
            if (one->is_end != other->is_end || one->epoch != other->epoch || one->index != other->index
            ||  one->samples != other->samples
            || (!one->is_end && memcmp (one->step, other->step, (2 + one->samples) * 8) != 0))
                fail_msg ("seed %" PRIu64 ": record %zu differs", seed, index);
        }
        free (records);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (ranges_refused),
        cmocka_unit_test (words_refused),
        cmocka_unit_test (subset_frames_refused),
        cmocka_unit_test (lists_refused),
        cmocka_unit_test (taken_in_several_frames),
        cmocka_unit_test (digests_do_not_change),
        cmocka_unit_test (digests_of_scattered_ids),
        cmocka_unit_test (digests_are_of_the_ids),
        cmocka_unit_test (frames_above_a_mebibyte),
        cmocka_unit_test (ranges_that_end_a_container),
        cmocka_unit_test (range_at_the_end_of_all_ids),
        cmocka_unit_test (sets_match_the_model),
        cmocka_unit_test (damaged_sets_match_the_model),
        cmocka_unit_test (recent_refused),
        cmocka_unit_test (recent_in_several_frames),
        cmocka_unit_test (recent_is_bounded),
        cmocka_unit_test (recent_matches_what_was_written),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
