/*  The id frames of JOIN.  CRoaring's own format is never taken from outside: its reader can be made to write
 *  past the heap, so sets come as plain numbers, each checked here.
 */
#include "request.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDS_HEAD_BYTES = 8,
    NUMBER_BYTES = 8,
    BLOCK_IDS = 65536,              //  what one container of a Roaring set covers
    BLOCK_WORDS = BLOCK_IDS / 64
};

static size_t
s_numbers (const frame_t *frame)
{
    return (frame->size - IDS_HEAD_BYTES) / NUMBER_BYTES;
}

//  Frames lie at any address.
static uint64_t
s_number (const frame_t *frame, size_t index)
{
    uint64_t number;
    memcpy (&number, frame->data + IDS_HEAD_BYTES + index * NUMBER_BYTES, sizeof number);
    return number;
}

//  Size and head; what names the frame in a message.  The form is the caller's to judge.
static bool
s_check_frame (const frame_t *frame, const char *what, refusal_t *refusal)
{
    if (frame->size < IDS_HEAD_BYTES || frame->size % NUMBER_BYTES != 0)
        return refuse (refusal, "malformed", "%s: expected 8 bytes and then 8 for each number, got %zu",
            what, frame->size);
    if (frame->size > WIRE_FRAME_BYTES_MAX)
        return refuse (refusal, "malformed", "%s: a frame has at most %d bytes, got %zu",
            what, WIRE_FRAME_BYTES_MAX, frame->size);
    for (size_t index = 1; index < IDS_HEAD_BYTES; index++)
        if (frame->data [index] != 0)
            return refuse (refusal, "malformed", "%s: byte %zu of the frame is zero, got %u",
                what, index, frame->data [index]);
    return true;
}

//  --- Sets, block by block ---------------------------------------------------------------------------------
//  CRoaring 0.2.66 makes run containers of ranges, and roaring_bitmap_remove_run_compression writes past the
//  heap where a run of at most 4096 ids ends a container (its 16-bit counter wraps).  So ranges and words
//  alike are collected in plain bits, and go into the set as ids; only whole blocks, which are safe, go as a
//  range.

typedef struct {
    roaring_bitmap_t *set;
    size_t block;                   //  the bits below stand for ids from block * BLOCK_IDS on
    uint64_t words [BLOCK_WORDS];
    uint32_t ids [BLOCK_IDS];
} gather_t;

static size_t
s_spell_out (const uint64_t *words, uint32_t first, uint32_t *ids)
{
    size_t count = 0;
    for (uint32_t index = 0; index < BLOCK_WORDS; index++)
        for (uint64_t word = words [index]; word; word &= word - 1)
            ids [count++] = first + index * 64 + (uint32_t) __builtin_ctzll (word);
    return count;
}

//  Moves the bits into the set.
static void
s_flush (gather_t *self)
{
    uint32_t first = (uint32_t) (self->block * BLOCK_IDS);
    size_t count = s_spell_out (self->words, first, self->ids);
    if (count == BLOCK_IDS)
        roaring_bitmap_add_range_closed (self->set, first, first + (BLOCK_IDS - 1));
    else if (count)
        roaring_bitmap_add_many (self->set, count, self->ids);
    memset (self->words, 0, sizeof self->words);
}

static void
s_enter_block (gather_t *self, size_t block)
{
    if (block == self->block)
        return;
    s_flush (self);
    self->block = block;
}

//  Sets the bits begin to end-1 of words.
static void
s_set_bits (uint64_t *words, uint32_t begin, uint32_t end)
{
    while (begin < end) {
        uint32_t from = begin % 64, to = end - begin < 64 - from? from + (end - begin): 64;
        uint64_t below = to == 64? UINT64_MAX: (UINT64_C (1) << to) - 1;
        words [begin / 64] |= below & UINT64_MAX << from;
        begin += to - from;
    }
}

static void
s_add_range (gather_t *self, uint64_t begin, uint64_t end)
{
    while (begin < end) {
        uint64_t block_begin = begin / BLOCK_IDS * BLOCK_IDS, block_end = block_begin + BLOCK_IDS;
        uint64_t here_end = end < block_end? end: block_end;
        s_enter_block (self, (size_t) (begin / BLOCK_IDS));
        s_set_bits (self->words, (uint32_t) (begin - block_begin), (uint32_t) (here_end - block_begin));
        begin = here_end;
    }
}

//  --- Ranges -----------------------------------------------------------------------------------------------

static bool
s_check_range (size_t position, uint64_t begin, uint64_t end, uint64_t previous_end, uint32_t sample_count,
    refusal_t *refusal)
{
    if (begin >= end)
        return refuse (refusal, "bad_request", "subset: range %zu is empty: %" PRIu64 " to %" PRIu64,
            position, begin, end);
    if (end > sample_count)
        return refuse (refusal, "bad_request",
            "subset: range %zu ends at %" PRIu64 ", the data set has %" PRIu32 " samples",
            position, end, sample_count);
    if (begin < previous_end)
        return refuse (refusal, "bad_request",
            "subset: range %zu begins at %" PRIu64 ", before the end of the one before it, %" PRIu64,
            position, begin, previous_end);
    return true;
}

static bool
s_take_ranges (const frame_t *frame, uint32_t sample_count, gather_t *gather, refusal_t *refusal)
{
    if (s_numbers (frame) % 2 != 0)
        return refuse (refusal, "malformed", "subset: ranges come as pairs, got %zu numbers",
            s_numbers (frame));
    uint64_t previous_end = 0;
    for (size_t index = 0; index < s_numbers (frame); index += 2) {
        uint64_t begin = s_number (frame, index), end = s_number (frame, index + 1);
        if (!s_check_range (index / 2, begin, end, previous_end, sample_count, refusal))
            return false;
        s_add_range (gather, begin, end);
        previous_end = end;
    }
    return true;
}

//  --- Words ------------------------------------------------------------------------------------------------

static bool
s_check_words (const frame_t *frame, uint32_t sample_count, refusal_t *refusal)
{
    size_t words = s_numbers (frame), expected = ((size_t) sample_count + 63) / 64;
    if (words > expected)
        return refuse (refusal, "malformed", "subset: %" PRIu32 " samples make %zu words, got %zu",
            sample_count, expected, words);
    uint32_t bits = sample_count % 64;          //  in the last word; 0: all of them
    uint64_t beyond = bits && words == expected? s_number (frame, words - 1) >> bits: 0;
    if (!beyond)
        return true;
    uint32_t above = (uint32_t) __builtin_ctzll (beyond);
    return refuse (refusal, "bad_request",
        "subset: bit %" PRIu32 " of word %zu is sample %" PRIu64 ", the data set has %" PRIu32 " samples",
        bits + above, words - 1, (uint64_t) sample_count + above, sample_count);
}

static bool
s_take_words (const frame_t *frame, uint32_t sample_count, gather_t *gather, refusal_t *refusal)
{
    if (!s_check_words (frame, sample_count, refusal))
        return false;
    for (size_t index = 0; index < s_numbers (frame); index++) {
        s_enter_block (gather, index / BLOCK_WORDS);
        gather->words [index % BLOCK_WORDS] = s_number (frame, index);
    }
    return true;
}

//  The set of a frame whose form is known; NULL and the reason.
static roaring_bitmap_t *
s_gather (const frame_t *frame, uint32_t sample_count, refusal_t *refusal)
{
    gather_t *gather = calloc (1, sizeof *gather);
    roaring_bitmap_t *set = roaring_bitmap_create ();
    bool good = false;
    if (!gather || !set)
        refuse (refusal, "budget", "no memory to read the subset");
    else {
        gather->set = set;
        good = frame->data [0] == WIRE_IDS_RANGES? s_take_ranges (frame, sample_count, gather, refusal)
            : s_take_words (frame, sample_count, gather, refusal);
    }
    if (good)
        s_flush (gather);
    else if (set) {
        roaring_bitmap_free (set);
        set = NULL;
    }
    free (gather);
    return set;
}

bool
request_subset (const frame_t *frame, uint32_t sample_count, roaring_bitmap_t **set_p, refusal_t *refusal)
{
    *set_p = NULL;
    if (!s_check_frame (frame, "subset", refusal))
        return false;
    uint8_t form = frame->data [0];
    if (form != WIRE_IDS_RANGES && form != WIRE_IDS_WORDS)
        return refuse (refusal, "bad_request", "subset: expected form %d (ranges) or %d (words), got %u",
            WIRE_IDS_RANGES, WIRE_IDS_WORDS, form);
    roaring_bitmap_t *set = s_gather (frame, sample_count, refusal);
    if (!set)
        return false;
    if (roaring_bitmap_is_empty (set)) {
        roaring_bitmap_free (set);
        return refuse (refusal, "bad_request", "subset: it is empty");
    }
    //  Whole blocks came as runs, and a draw from those takes 80 times as long.
    roaring_bitmap_remove_run_compression (set);
    *set_p = set;
    return true;
}

//  --- Lists ------------------------------------------------------------------------------------------------

static bool
s_check_list (const frame_t *frame, size_t position, refusal_t *refusal)
{
    char what [48];
    snprintf (what, sizeof what, "list frame %zu", position);
    if (!s_check_frame (frame, what, refusal))
        return false;
    if (frame->data [0] != WIRE_IDS_LIST)
        return refuse (refusal, "bad_request", "%s: expected form %d (list), got %u", what, WIRE_IDS_LIST,
            frame->data [0]);
    return s_numbers (frame) > 0 || refuse (refusal, "bad_request", "%s: it is empty", what);
}

static bool
s_take_list (const frame_t *frame, size_t position, uint32_t sample_count, uint32_t *ids, refusal_t *refusal)
{
    for (size_t index = 0; index < s_numbers (frame); index++) {
        uint64_t id = s_number (frame, index);
        if (id >= sample_count)
            return refuse (refusal, "bad_request",
                "list frame %zu: number %zu is sample %" PRIu64 ", the data set has %" PRIu32 " samples",
                position, index, id, sample_count);
        ids [index] = (uint32_t) id;
    }
    return true;
}

bool
request_list (const frame_t *frames, size_t count, uint32_t sample_count,
    uint32_t **ids_p, size_t *count_p, refusal_t *refusal)
{
    *ids_p = NULL;
    *count_p = 0;
    size_t total = 0;
    for (size_t index = 0; index < count; index++) {
        if (!s_check_list (&frames [index], index, refusal))
            return false;
        total += s_numbers (&frames [index]);
    }
    if (total == 0)
        return refuse (refusal, "bad_request", "list: it is empty");
    uint32_t *ids = malloc (total * sizeof *ids);
    if (!ids)
        return refuse (refusal, "budget", "no memory for a list of %zu ids", total);
    size_t taken = 0;
    for (size_t index = 0; index < count; taken += s_numbers (&frames [index++]))
        if (!s_take_list (&frames [index], index, sample_count, ids + taken, refusal)) {
            free (ids);
            return false;
        }
    *ids_p = ids;
    *count_p = total;
    return true;
}
