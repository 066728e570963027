//  Ids of JOIN: their frames, and a digest of those that a job has.
#include "request.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "xalloc.h"

//  ---- a digest of ids

enum { KIND_BYTES = 8, BUFFER_WORDS = 1024, BUFFER_IDS = 4096 };

_Static_assert (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are hashed as they lie in memory");

typedef struct {
    XXH3_state_t *hash;
    uint64_t words [BUFFER_WORDS];
    uint64_t first;             //  number of the first word in the buffer
    size_t filled;              //  words of it in use
} digest_t;

static void
s_begin (digest_t *self, const char kind [KIND_BYTES])
{
    memset (self, 0, sizeof *self);
    self->hash = xalloc_memory (XXH3_createState ());
    XXH3_64bits_reset (self->hash);
    XXH3_64bits_update (self->hash, kind, KIND_BYTES);
}

static request_digest_t
s_text (uint64_t hash)
{
    request_digest_t digest;
    snprintf (digest.text, sizeof digest.text, "%016" PRIx64, hash);
    return digest;
}

static request_digest_t
s_end (digest_t *self)
{
    XXH3_64bits_update (self->hash, self->words, self->filled * sizeof *self->words);
    request_digest_t digest = s_text (XXH3_64bits_digest (self->hash));
    XXH3_freeState (self->hash);
    return digest;
}

//  Hashes the whole buffer.
static void
s_hash_words (digest_t *self)
{
    XXH3_64bits_update (self->hash, self->words, sizeof self->words);
    memset (self->words, 0, sizeof self->words);
    self->first += BUFFER_WORDS;
    self->filled = 0;
}

//  Ids come in ascending order.
static inline void
s_add (digest_t *self, uint32_t id)
{
    uint64_t word = id / 64;
    while (word >= self->first + BUFFER_WORDS)
        s_hash_words (self);
    self->words [word - self->first] |= UINT64_C (1) << id % 64;
    self->filled = (size_t) (word - self->first) + 1;
}

static const char s_set [KIND_BYTES] = "set", s_list [KIND_BYTES] = "list";

request_digest_t
request_digest_of_all (uint32_t sample_count)
{
    digest_t digest;
    s_begin (&digest, s_set);
    for (uint32_t word = 0; word < sample_count / 64; word++) {
        while (word >= digest.first + BUFFER_WORDS)
            s_hash_words (&digest);
        digest.words [word - digest.first] = UINT64_MAX;
        digest.filled = (size_t) (word - digest.first) + 1;
    }
    for (uint32_t id = sample_count / 64 * 64; id < sample_count; id++)
        s_add (&digest, id);
    return s_end (&digest);
}

request_digest_t
request_digest_of_set (const roaring_bitmap_t *set)
{
    digest_t digest;
    uint32_t ids [BUFFER_IDS];
    roaring_uint32_iterator_t iterator;
    s_begin (&digest, s_set);
    roaring_init_iterator (set, &iterator);
    for (uint32_t count; (count = roaring_read_uint32_iterator (&iterator, ids, BUFFER_IDS)) > 0;)
        for (uint32_t index = 0; index < count; index++)
            s_add (&digest, ids [index]);
    return s_end (&digest);
}

request_digest_t
request_digest_of_list (const uint32_t *ids, size_t count)
{
    digest_t digest;
    s_begin (&digest, s_list);
    XXH3_64bits_update (digest.hash, ids, count * sizeof *ids);
    return s_end (&digest);
}

request_digest_t
request_digest_of_bytes (const void *bytes, size_t size)
{
    return s_text (XXH3_64bits (bytes, size));
}


//  ---- the id frames of JOIN

/*  The id frames of JOIN.  CRoaring's own format is never taken from outside: its reader can be made to write
 *  past the heap, so sets come as plain numbers, each checked here.
 */

enum {
    NUMBER_BYTES = 8,
    BLOCK_IDS = 65536,              //  what one container of a Roaring set covers
    BLOCK_WORDS = BLOCK_IDS / 64
};

size_t
request_ids_count (const frame_t *frame)
{
    return (frame->size - REQUEST_IDS_HEAD_BYTES) / NUMBER_BYTES;
}

//  Frames may be unaligned.
static uint64_t
s_number (const frame_t *frame, size_t index)
{
    uint64_t number;
    memcpy (&number, frame->data + REQUEST_IDS_HEAD_BYTES + index * NUMBER_BYTES, sizeof number);
    return number;
}

bool
request_ids_check (const frame_t *frame, const char *what, refusal_t *refusal)
{
    if (frame->size < REQUEST_IDS_HEAD_BYTES || frame->size % NUMBER_BYTES != 0)
        return refuse (refusal, "malformed", "%s: expected 8 bytes and then 8 for each number, got %zu",
            what, frame->size);
    if (frame->size > WIRE_FRAME_BYTES_MAX)
        return refuse (refusal, "malformed", "%s: a frame has at most %d bytes, got %zu",
            what, WIRE_FRAME_BYTES_MAX, frame->size);
    for (size_t index = 1; index < REQUEST_IDS_HEAD_BYTES; index++)
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
    const char *what;               //  name of the set, in messages
    const char *beyond;             //  code of the refusal of an id that does not exist
    uint32_t sample_count;
    roaring_bitmap_t *set;
    uint64_t previous_end;          //  ranges: end of the last one so far
    size_t word_count;              //  words: so many so far
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
s_check_range (const gather_t *self, size_t position, uint64_t begin, uint64_t end, refusal_t *refusal)
{
    if (begin >= end)
        return refuse (refusal, "bad_request", "%s: range %zu is empty: %" PRIu64 " to %" PRIu64,
            self->what, position, begin, end);
    if (end > self->sample_count)
        return refuse (refusal, self->beyond,
            "%s: range %zu ends at %" PRIu64 ", the data set has %" PRIu32 " samples",
            self->what, position, end, self->sample_count);
    if (begin < self->previous_end)
        return refuse (refusal, "bad_request",
            "%s: range %zu begins at %" PRIu64 ", before the end of the one before it, %" PRIu64,
            self->what, position, begin, self->previous_end);
    return true;
}

static bool
s_take_ranges (gather_t *self, const frame_t *frame, refusal_t *refusal)
{
    if (request_ids_count (frame) % 2 != 0)
        return refuse (refusal, "malformed", "%s: ranges come as pairs, got %zu numbers",
            self->what, request_ids_count (frame));
    for (size_t index = 0; index < request_ids_count (frame); index += 2) {
        uint64_t begin = s_number (frame, index), end = s_number (frame, index + 1);
        if (!s_check_range (self, index / 2, begin, end, refusal))
            return false;
        s_add_range (self, begin, end);
        self->previous_end = end;
    }
    return true;
}

//  --- Words ------------------------------------------------------------------------------------------------

static bool
s_check_words (const gather_t *self, const frame_t *frame, refusal_t *refusal)
{
    size_t words = self->word_count + request_ids_count (frame),
        expected = ((size_t) self->sample_count + 63) / 64;
    if (words > expected)
        return refuse (refusal, "malformed", "%s: %" PRIu32 " samples make %zu words, got %zu",
            self->what, self->sample_count, expected, words);
    uint32_t bits = self->sample_count % 64;    //  in the last word; 0: all of them
    bool has_last = bits && words == expected && request_ids_count (frame) > 0;
    uint64_t beyond = has_last? s_number (frame, request_ids_count (frame) - 1) >> bits: 0;
    if (!beyond)
        return true;
    uint32_t above = (uint32_t) __builtin_ctzll (beyond);
    return refuse (refusal, self->beyond,
        "%s: bit %" PRIu32 " of word %zu is sample %" PRIu64 ", the data set has %" PRIu32 " samples",
        self->what, bits + above, words - 1, (uint64_t) self->sample_count + above, self->sample_count);
}

static bool
s_take_words (gather_t *self, const frame_t *frame, refusal_t *refusal)
{
    if (!s_check_words (self, frame, refusal))
        return false;
    for (size_t index = 0; index < request_ids_count (frame); index++, self->word_count++) {
        s_enter_block (self, self->word_count / BLOCK_WORDS);
        self->words [self->word_count % BLOCK_WORDS] = s_number (frame, index);
    }
    return true;
}

//  The set of frames of known form, joined; NULL and the reason.
static roaring_bitmap_t *
s_gather (const frame_t *frames, size_t count, const char *what, const char *beyond, uint32_t sample_count,
    refusal_t *refusal)
{
    gather_t *gather = calloc (1, sizeof *gather);
    roaring_bitmap_t *set = roaring_bitmap_create ();
    bool good = gather && set;
    if (!good)
        refuse (refusal, "budget", "no memory to read what is %s", what);
    else {
        gather->what = what;
        gather->beyond = beyond;
        gather->sample_count = sample_count;
        gather->set = set;
    }
    for (size_t index = 0; good && index < count; index++)
        good = frames [index].data [0] == WIRE_IDS_RANGES? s_take_ranges (gather, &frames [index], refusal):
            s_take_words (gather, &frames [index], refusal);
    if (good) {
        s_flush (gather);
        //  Whole blocks were stored as runs, and a draw from runs takes 80 times as long.
        roaring_bitmap_remove_run_compression (set);
    }
    else if (set) {
        roaring_bitmap_free (set);
        set = NULL;
    }
    free (gather);
    return set;
}

static bool
s_check_form (const frame_t *frame, const char *what, refusal_t *refusal)
{
    uint8_t form = frame->data [0];
    return form == WIRE_IDS_RANGES || form == WIRE_IDS_WORDS
        || refuse (refusal, "bad_request", "%s: expected form %d (ranges) or %d (words), got %u", what,
            WIRE_IDS_RANGES, WIRE_IDS_WORDS, form);
}

bool
request_subset (const frame_t *frame, uint32_t sample_count, roaring_bitmap_t **set_p, refusal_t *refusal)
{
    *set_p = NULL;
    if (!request_ids_check (frame, "subset", refusal) || !s_check_form (frame, "subset", refusal))
        return false;
    roaring_bitmap_t *set = s_gather (frame, 1, "subset", "bad_request", sample_count, refusal);
    if (!set)
        return false;
    if (roaring_bitmap_is_empty (set)) {
        roaring_bitmap_free (set);
        return refuse (refusal, "bad_request", "subset: it is empty");
    }
    *set_p = set;
    return true;
}

//  Reads one frame of "taken".  Words are counted on from frame to frame, so all but the last are full.
static bool
s_check_taken (const frame_t *frames, size_t position, size_t count, refusal_t *refusal)
{
    enum { FULL_WORDS = (WIRE_FRAME_BYTES_MAX - REQUEST_IDS_HEAD_BYTES) / NUMBER_BYTES };
    const frame_t *frame = &frames [position];
    char what [48];
    snprintf (what, sizeof what, "taken frame %zu", position);
    if (!request_ids_check (frame, what, refusal) || !s_check_form (frame, what, refusal))
        return false;
    if (frame->data [0] != frames [0].data [0])
        return refuse (refusal, "bad_request", "%s: expected form %u as in the first, got %u", what,
            frames [0].data [0], frame->data [0]);
    return frame->data [0] != WIRE_IDS_WORDS || position + 1 == count
        || request_ids_count (frame) == FULL_WORDS
        || refuse (refusal, "malformed", "%s: another follows, so it has %d words; got %zu", what, FULL_WORDS,
            request_ids_count (frame));
}

bool
request_taken (const frame_t *frames, size_t count, uint32_t sample_count, roaring_bitmap_t **set_p,
    refusal_t *refusal)
{
    *set_p = NULL;
    for (size_t index = 0; index < count; index++)
        if (!s_check_taken (frames, index, count, refusal))
            return false;
    *set_p = s_gather (frames, count, "taken", "bad_state", sample_count, refusal);
    return *set_p != NULL;
}

//  --- Lists ------------------------------------------------------------------------------------------------

static bool
s_check_list (const frame_t *frame, size_t position, refusal_t *refusal)
{
    char what [48];
    snprintf (what, sizeof what, "list frame %zu", position);
    if (!request_ids_check (frame, what, refusal))
        return false;
    if (frame->data [0] != WIRE_IDS_LIST)
        return refuse (refusal, "bad_request", "%s: expected form %d (list), got %u", what, WIRE_IDS_LIST,
            frame->data [0]);
    return request_ids_count (frame) > 0 || refuse (refusal, "bad_request", "%s: it is empty", what);
}

static bool
s_take_list (const frame_t *frame, size_t position, uint32_t sample_count, uint32_t *ids, refusal_t *refusal)
{
    for (size_t index = 0; index < request_ids_count (frame); index++) {
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
        total += request_ids_count (&frames [index]);
    }
    if (total == 0)
        return refuse (refusal, "bad_request", "list: it is empty");
    uint32_t *ids = malloc (total * sizeof *ids);
    if (!ids)
        return refuse (refusal, "budget", "no memory for a list of %zu ids", total);
    size_t taken = 0;
    for (size_t index = 0; index < count; taken += request_ids_count (&frames [index++]))
        if (!s_take_list (&frames [index], index, sample_count, ids + taken, refusal)) {
            free (ids);
            return false;
        }
    *ids_p = ids;
    *count_p = total;
    return true;
}
