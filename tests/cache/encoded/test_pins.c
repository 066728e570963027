//  Pins beside a model that knows a bit for each unit; the division between data sets; threads.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include "effort.h"
#include "pins.h"
#include "seed.h"

enum {
    UNIT = PINS_UNIT_BYTES, BLOCK = PINS_BLOCK_BYTES, FILES = 7, BLOCKS_MAX = 3,
    FILE_BYTES_MAX = 2 * BLOCK + 70001, RANGE_BYTES_MAX = BLOCK + 9 * UNIT
};

static const uint64_t s_sizes [FILES] = { FILE_BYTES_MAX, BLOCK, 1, UNIT, UNIT + 1, 200 * 1024 + 17,
    BLOCK + 3 };

//  The bytes of all files: of file f from s_truth [f] on.
static uint8_t s_truth [FILES + FILE_BYTES_MAX];
static uint8_t s_memory [RANGE_BYTES_MAX + UNIT];

static const uint8_t *
s_bytes (size_t file, uint64_t offset)
{
    return s_truth + file + offset;
}

static uint64_t
s_cost_of_all (void)
{
    uint64_t cost = 0;
    for (size_t file = 0; file < FILES; file++)
        cost += pins_cost (s_sizes [file]);
    return cost;
}

static pins_data_t *
s_data (pins_t *pins)
{
    uint64_t bytes = 0;
    for (size_t file = 0; file < FILES; file++)
        bytes += s_sizes [file];
    pins_data_t *data = pins_data_new (pins, bytes, s_cost_of_all ());
    assert_non_null (data);
    return data;
}

//  -- the model

typedef struct {
    bool is_reserved;
    bool here [BLOCK / UNIT];
} model_block_t;

typedef struct {
    pins_file_t files [FILES];
    model_block_t blocks [FILES] [BLOCKS_MAX];
    model_block_t *order [FILES * BLOCKS_MAX];  //  in which they were reserved
    uint64_t costs [FILES * BLOCKS_MAX];
    size_t count;                       //  of these
    uint64_t hit_bytes, miss_bytes;
    uint64_t grown_at;                  //  their sum when the limit last grew
} model_t;

static uint64_t
s_block_bytes (size_t file, uint64_t block)
{
    uint64_t left = s_sizes [file] - block * BLOCK;
    return left < BLOCK? left: BLOCK;
}

static size_t
s_blocks (size_t file)
{
    return (size_t) ((s_sizes [file] + BLOCK - 1) / BLOCK);
}

static bool *
s_here (model_t *self, size_t file, uint64_t unit)
{
    return &self->blocks [file] [unit / (BLOCK / UNIT)].here [unit % (BLOCK / UNIT)];
}

static uint64_t
s_unit_bytes (size_t file, uint64_t unit)
{
    uint64_t left = s_sizes [file] - unit * UNIT;
    return left < UNIT? left: UNIT;
}

static pins_figures_t
s_expected (const model_t *self)
{
    pins_figures_t figures = { .hit_bytes = self->hit_bytes, .miss_bytes = self->miss_bytes };
    for (size_t file = 0; file < FILES; file++)
        for (size_t block = 0; block < s_blocks (file); block++) {
            const model_block_t *of = &self->blocks [file] [block];
            figures.memory += of->is_reserved? pins_cost (s_block_bytes (file, block)): 0;
            for (size_t unit = 0; unit * UNIT < s_block_bytes (file, block); unit++)
                figures.bytes += of->here [unit]? s_unit_bytes (file, block * (BLOCK / UNIT) + unit): 0;
        }
    return figures;
}

static void
s_compare_figures (const model_t *self)
{
    pins_figures_t is = pins_figures (self->files [0].data), expected = s_expected (self);
    assert_int_equal (is.bytes, expected.bytes);
    assert_int_equal (is.memory, expected.memory);
    assert_int_equal (is.hit_bytes, expected.hit_bytes);
    assert_int_equal (is.miss_bytes, expected.miss_bytes);
    assert_true (is.memory <= is.limit);
}

//  Any range, or one of whole units.
static void
s_range (uint64_t *random, size_t file, bool is_whole, uint64_t *offset_p, size_t *bytes_p)
{
    uint64_t most = test_below (random, 3)? 20 * UNIT: RANGE_BYTES_MAX, size = s_sizes [file],
        begin = test_below (random, size), bytes = 1 + test_below (random, most);
    if (test_below (random, 6) == 0 && size > BLOCK)    //  across two blocks
        begin = BLOCK - 1 - test_below (random, 5 * UNIT);
    if (is_whole) {
        begin = begin / UNIT * UNIT;
        bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    }
    *offset_p = begin;
    *bytes_p = (size_t) (bytes < size - begin? bytes: size - begin);
}

static void
s_play_read (model_t *self, uint64_t *random)
{
    size_t file = (size_t) test_below (random, FILES), bytes;
    uint64_t offset;
    s_range (random, file, true, &offset, &bytes);
    memset (s_memory, 0xee, bytes + 1);
    bool has = pins_has (&self->files [file], offset, bytes);
    //  Another server's read is in no figures.
    bool is_lent = test_below (random, 4) == 0;
    pins_gap_t gap = is_lent? pins_lend (&self->files [file], offset, bytes, s_memory):
        pins_read (&self->files [file], offset, bytes, s_memory);
    size_t begin = 0, end = bytes;
    while (begin < bytes && *s_here (self, file, (offset + begin) / UNIT))
        begin += s_unit_bytes (file, (offset + begin) / UNIT);
    while (end > begin && *s_here (self, file, (offset + end - 1) / UNIT))
        end -= s_unit_bytes (file, (offset + end - 1) / UNIT);
    assert_int_equal (gap.begin, begin);
    assert_int_equal (gap.end, end);
    assert_int_equal (has, begin == end);
    assert_memory_equal (s_memory, s_bytes (file, offset), begin);
    assert_memory_equal (s_memory + end, s_bytes (file, offset + end), bytes - end);
    for (size_t at = begin; at < end; at++)
        assert_true (s_memory [at] == 0xee);
    assert_true (s_memory [bytes] == 0xee);
    self->hit_bytes += is_lent? 0: bytes - (end - begin);
    self->miss_bytes += is_lent? 0: end - begin;
    uint64_t all = 0;
    for (size_t each = 0; each < FILES; each++)
        all += s_sizes [each];
    assert_int_equal (pins_is_filling (self->files [0].data),
        self->hit_bytes + self->miss_bytes - self->grown_at < all);
}

static void
s_play_keep (model_t *self, uint64_t *random)
{
    size_t file = (size_t) test_below (random, FILES), bytes;
    uint64_t offset;
    s_range (random, file, test_below (random, 2), &offset, &bytes);
    uint64_t limit = pins_figures (self->files [file].data).limit;
    bool keeps = self->blocks [file] [offset / BLOCK].is_reserved
        || s_expected (self).memory + pins_cost (s_block_bytes (file, offset / BLOCK)) <= limit;
    assert_int_equal (pins_keeps (&self->files [file], offset), keeps);
    pins_keep (&self->files [file], offset, bytes, s_bytes (file, offset));
    for (uint64_t unit = (offset + UNIT - 1) / UNIT; unit * UNIT + s_unit_bytes (file, unit)
        <= offset + bytes && unit * UNIT < s_sizes [file]; unit++) {
        uint64_t number = unit / (BLOCK / UNIT);
        model_block_t *block = &self->blocks [file] [number];
        uint64_t cost = pins_cost (s_block_bytes (file, number));
        if (!block->is_reserved && s_expected (self).memory + cost <= limit) {
            block->is_reserved = true;
            self->order [self->count] = block;
            self->costs [self->count++] = cost;
        }
        if (block->is_reserved)
            *s_here (self, file, unit) = true;
    }
}

static void
s_play_drop (model_t *self, uint64_t *random)
{
    size_t file = (size_t) test_below (random, FILES), bytes;
    uint64_t offset;
    s_range (random, file, false, &offset, &bytes);
    bytes = bytes > 20 * UNIT? 20 * UNIT: bytes;
    pins_drop (&self->files [file], offset, bytes);
    for (uint64_t unit = offset / UNIT; unit <= (offset + bytes - 1) / UNIT; unit++)
        *s_here (self, file, unit) = false;
}

static void
s_play_limit (model_t *self, pins_t *pins, uint64_t *random)
{
    uint64_t limit = test_below (random, s_cost_of_all () * 5 / 4), memory = s_expected (self).memory,
        before = pins_figures (self->files [0].data).limit;
    pins_set_limit (pins, limit);
    pins_settle (pins);
    limit = limit < s_cost_of_all ()? limit: s_cost_of_all ();
    assert_int_equal (pins_figures (self->files [0].data).limit, limit);
    if (limit > before)
        self->grown_at = self->hit_bytes + self->miss_bytes;
    while (memory > limit) {
        memset (self->order [--self->count], 0, sizeof (model_block_t));
        memory -= self->costs [self->count];
    }
}

//  Guards: what is here is what was kept, unit for unit; it is filled until full, nothing leaves but for a
//  smaller limit, the last block first, or because it is dropped; memory and figures are the model's.
static void
test_pins_beside_a_model (void **state)
{
    (void) state;
    static model_t model;
    uint64_t seed = test_seed ();
    print_message ("seed %" PRIu64 "\n", seed);
    for (uint64_t round = 0; round < EFFORT (20); round++) {
        uint64_t random = seed + round;
        pins_t *pins = pins_new (test_below (&random, s_cost_of_all ()));
        pins_data_t *data = s_data (pins);
        memset (&model, 0, sizeof model);
        for (size_t file = 0; file < FILES; file++)
            model.files [file] = (pins_file_t) { .data = data, .number = file + (round << 33),
                .bytes = s_sizes [file] };
        for (int step = 0; step < 300; step++) {
            uint64_t kind = test_below (&random, 40);
            if (kind == 0)
                s_play_limit (&model, pins, &random);
            else
            if (kind == 1)
                s_play_drop (&model, &random);
            else
            if (kind < 16)
                s_play_keep (&model, &random);
            else
                s_play_read (&model, &random);
            s_compare_figures (&model);
        }
        pins_data_destroy (&data);
        pins_destroy (&pins);
    }
}

//  -- the division

//  Guards: data sets share the limit by their size, none has more than it takes, and what one leaves when it
//  goes is the others'.
static void
test_data_sets_share_by_size (void **state)
{
    (void) state;
    uint64_t one = pins_cost (BLOCK);
    pins_t *pins = pins_new (8 * one);
    pins_data_t *small = pins_data_new (pins, 4 * BLOCK, 4 * one);
    assert_int_equal (pins_figures (small).limit, 4 * one);
    pins_file_t file = { .data = small, .bytes = 4 * BLOCK };
    for (uint64_t block = 0; block < 4; block++)
        pins_keep (&file, block * BLOCK, BLOCK, s_truth);
    assert_int_equal (pins_figures (small).bytes, 4 * BLOCK);
    pins_data_t *large = pins_data_new (pins, 12 * BLOCK, 12 * one);
    pins_settle (pins);
    assert_in_range (pins_figures (small).limit, 2 * one - 1, 2 * one);
    assert_in_range (pins_figures (large).limit, 6 * one - 1, 6 * one);
    assert_in_range (pins_figures (small).memory, one, 2 * one);
    pins_set_limit (pins, 100 * one);
    assert_int_equal (pins_figures (small).limit, 4 * one);
    assert_int_equal (pins_figures (large).limit, 12 * one);
    pins_set_limit (pins, 8 * one);
    file.data = large;
    file.bytes = 12 * BLOCK;
    pins_keep (&file, 0, BLOCK, s_truth);
    assert_true (pins_has (&file, 0, BLOCK));
    pins_data_retire (large);
    assert_int_equal (pins_figures (small).limit, 4 * one);
    assert_int_equal (pins_figures (large).limit, 0);
    pins_settle (pins);
    assert_int_equal (pins_figures (large).memory, 0);
    assert_int_equal (pins_lend (&file, 0, UNIT, s_memory).end, UNIT);
    pins_data_destroy (&large);
    assert_int_equal (pins_figures (small).limit, 4 * one);
    file.data = small;
    file.bytes = 4 * BLOCK;
    pins_set_limit (pins, 0);
    pins_settle (pins);
    assert_int_equal (pins_figures (small).memory, 0);
    assert_int_equal (pins_figures (small).bytes, 0);
    pins_keep (&file, 0, BLOCK, s_truth);
    assert_int_equal (pins_figures (small).bytes, 0);
    pins_data_destroy (&small);
    pins_destroy (&pins);
}

//  -- memory

static bool s_refuses_unmap;            //  as if the system allowed no more mappings

int __real_munmap (void *address, size_t bytes);
int __wrap_munmap (void *address, size_t bytes);

int
__wrap_munmap (void *address, size_t bytes)
{
    if (!s_refuses_unmap)
        return __real_munmap (address, bytes);
    errno = ENOMEM;
    return -1;
}

//  MiB of this process that are resident.  Sanitizers have memory of their own beside it: then 0.
static size_t
s_resident (void)
{
#if defined (EFFORT_SANITIZED)
    return 0;
#endif
    FILE *file = fopen ("/proc/self/statm", "r");
    assert_non_null (file);
    unsigned long all, resident;
    assert_int_equal (fscanf (file, "%lu %lu", &all, &resident), 2);
    fclose (file);
    return resident * (size_t) sysconf (_SC_PAGESIZE) >> 20;
}

//  The same of its mappings.
static size_t
s_mappings (void)
{
#if defined (EFFORT_SANITIZED)
    return 0;
#endif
    FILE *file = fopen ("/proc/self/maps", "r");
    assert_non_null (file);
    size_t count = 0;
    for (int byte; (byte = getc (file)) != EOF;)
        count += byte == '\n';
    fclose (file);
    return count;
}

//  Guards: whatever files are pinned, memory follows the limit down to nothing, in few mappings, and can be
//  filled again; also if no mapping can be given back.
static void
test_memory_follows_the_limit (void **state)
{
    (void) state;
    enum { ALL = 200 << 20, SPREAD = 10 };     //  MiB: huge pages, and the chains
    static const uint64_t sizes [] = { 3000, 130 * 1024, 1000 * 1000, BLOCK, BLOCK + BLOCK / 3 };
    enum { KINDS = sizeof sizes / sizeof *sizes };
    for (size_t turn = 0; turn < 2 * KINDS; turn++) {
        s_refuses_unmap = turn >= KINDS;
        uint64_t bytes = sizes [turn % KINDS], count = ALL / bytes, cost = count * pins_cost (bytes);
        pins_t *pins = pins_new (cost);
        pins_data_t *data = pins_data_new (pins, count * bytes, cost);
        size_t before = s_resident (), mappings = s_mappings ();
        static const unsigned int parts [] = { 100, 50, 75, 10, 100, 0 };
        for (size_t step = 0; step < sizeof parts / sizeof *parts; step++) {
            pins_set_limit (pins, cost * parts [step] / 100);
            pins_settle (pins);
            for (uint64_t number = 0; number < count; number++)
                pins_keep_file (&(pins_file_t) { .data = data, .number = number, .bytes = bytes }, s_truth);
            pins_figures_t figures = pins_figures (data);
            uint64_t limit = cost * parts [step] / 100, least = limit? limit - 2 * pins_cost (bytes): 0;
            assert_in_range (figures.memory, least, limit);
            uint64_t wanted = before + (figures.memory >> 20), resident = s_resident ();
            assert_in_range (resident? resident + SPREAD: wanted, wanted, wanted * 21 / 20 + 2 * SPREAD);
            assert_true (s_mappings () < mappings + 20);
        }
        for (uint64_t number = 0; number < count; number++)
            pins_keep_file (&(pins_file_t) { .data = data, .number = number, .bytes = bytes }, s_truth);
        pins_data_destroy (&data);
        pins_settle (pins);
        assert_in_range (s_resident (), 0, before + SPREAD);
        pins_destroy (&pins);
    }
    s_refuses_unmap = false;
}

//  Guards: of blocks that leave, those that were reserved last go first.
static void
test_last_blocks_leave_first (void **state)
{
    (void) state;
    enum { BLOCKS = 5000 };
    uint64_t one = pins_cost (UNIT);
    pins_t *pins = pins_new (BLOCKS * one);
    pins_data_t *data = pins_data_new (pins, BLOCKS * UNIT, BLOCKS * one);
    for (uint64_t number = 0; number < BLOCKS; number++)
        pins_keep (&(pins_file_t) { .data = data, .number = number, .bytes = UNIT }, 0, UNIT, s_truth);
    pins_set_limit (pins, BLOCKS / 2 * one);
    pins_settle (pins);
    assert_int_equal (pins_figures (data).bytes, BLOCKS / 2 * UNIT);
    for (uint64_t number = 0; number < BLOCKS; number++) {
        pins_file_t file = { .data = data, .number = number, .bytes = UNIT };
        pins_gap_t gap = pins_read (&file, 0, UNIT, s_memory);
        assert_int_equal (gap.begin == gap.end, number < BLOCKS / 2);
    }
    pins_data_destroy (&data);
    pins_destroy (&pins);
}

//  -- whole files

//  Guards: a file that is kept as a whole is read only as a whole, of one keep; it takes no room if not all
//  of it has room, and leaves as a whole.
static void
test_whole_files (void **state)
{
    (void) state;
    enum { BYTES = 2 * BLOCK + 5000 };
    static uint8_t memory [BYTES], other [BYTES];
    memset (other, 0xee, sizeof other);
    uint64_t one = pins_cost (BYTES);
    pins_t *pins = pins_new (3 * one - 1);
    pins_data_t *data = pins_data_new (pins, 3 * BYTES, 3 * one);
    pins_file_t files [3];
    for (size_t file = 0; file < 3; file++) {
        files [file] = (pins_file_t) { .data = data, .number = file, .bytes = BYTES };
        assert_false (pins_read_file (&files [file], memory));
        pins_keep_file (&files [file], s_truth);
        assert_int_equal (pins_read_file (&files [file], memory), file < 2);
    }
    assert_memory_equal (memory, s_truth, UNIT);
    assert_int_equal (pins_figures (data).memory, 2 * one);
    assert_int_equal (pins_figures (data).hit_bytes, 2 * BYTES);
    assert_int_equal (pins_figures (data).miss_bytes, 4 * BYTES);
    //  Another file of the same size takes its place once a part of it was given up.
    pins_drop (&files [0], BLOCK + 1, 1);
    assert_false (pins_read_file (&files [0], memory));
    pins_keep_file (&files [0], other);
    assert_true (pins_read_file (&files [0], memory));
    assert_memory_equal (memory, other, BYTES);
    assert_int_equal (pins_figures (data).memory, 2 * one);
    //  No file is of use in part.
    pins_set_limit (pins, 2 * one - 1);
    pins_settle (pins);
    assert_int_equal (pins_figures (data).memory, one);
    assert_true (pins_read_file (&files [0], memory));
    pins_data_destroy (&data);
    pins_destroy (&pins);
}

typedef struct {
    const pins_file_t *file;
    uint64_t random;
    pthread_t thread;
} reader_t;

static void *
s_read_files (void *argument)
{
    reader_t *self = argument;
    uint8_t *memory = malloc (self->file->bytes);
    assert_non_null (memory);
    for (int step = 0; step < EFFORT (200); step++) {
        uint8_t value = (uint8_t) test_below (&self->random, 256);
        if (pins_read_file (self->file, memory))
            assert_memory_equal (memory, memory + 1, self->file->bytes - 1);
        memset (memory, value, self->file->bytes);
        if (test_below (&self->random, 2))
            pins_drop (self->file, 0, (size_t) self->file->bytes);
        pins_keep_file (self->file, memory);
    }
    free (memory);
    return NULL;
}

//  Guards: threads that keep different files under one number never read a mixture.
static void
test_versions_never_mix (void **state)
{
    (void) state;
    enum { READERS = 4, BYTES = BLOCK + 3 * UNIT };
    uint64_t seed = test_seed ();
    print_message ("seed %" PRIu64 "\n", seed);
    pins_t *pins = pins_new (pins_cost (BYTES));
    pins_data_t *data = pins_data_new (pins, BYTES, pins_cost (BYTES));
    pins_file_t file = { .data = data, .bytes = BYTES };
    reader_t readers [READERS];
    for (size_t reader = 0; reader < READERS; reader++) {
        readers [reader] = (reader_t) { .file = &file, .random = seed + reader };
        assert_int_equal (pthread_create (&readers [reader].thread, NULL, s_read_files, &readers [reader]),
            0);
    }
    for (size_t reader = 0; reader < READERS; reader++)
        pthread_join (readers [reader].thread, NULL);
    pins_data_destroy (&data);
    pins_destroy (&pins);
}

//  -- threads

typedef struct {
    pins_t *pins;
    const pins_file_t *files;
    uint64_t random;
    pthread_t thread;
} player_t;

static void *
s_play (void *argument)
{
    player_t *self = argument;
    uint8_t *memory = malloc (RANGE_BYTES_MAX);
    assert_non_null (memory);
    for (int step = 0; step < EFFORT (600); step++) {
        size_t file = (size_t) test_below (&self->random, FILES), bytes;
        uint64_t offset, kind = test_below (&self->random, 24);
        s_range (&self->random, file, true, &offset, &bytes);
        if (kind == 0)
            pins_set_limit (self->pins, test_below (&self->random, s_cost_of_all () * 5 / 4));
        else
        if (kind == 1)
            pins_drop (&self->files [file], offset, bytes);
        else
        if (kind < 10)
            pins_keep (&self->files [file], offset, bytes, s_bytes (file, offset));
        else {
            pins_gap_t gap = pins_read (&self->files [file], offset, bytes, memory);
            assert_memory_equal (memory, s_bytes (file, offset), gap.begin);
            assert_memory_equal (memory + gap.end, s_bytes (file, offset + gap.end), bytes - gap.end);
        }
        if (kind == 2)
            assert_true (pins_figures (self->files [0].data).bytes <= s_cost_of_all ());
    }
    free (memory);
    return NULL;
}

//  Guards: threads that keep, read, drop and change the limit at once see the bytes that were kept; nothing
//  is lost to count or to free.
static void
test_threads_share_pins (void **state)
{
    (void) state;
    enum { PLAYERS = 4 };
    uint64_t seed = test_seed ();
    print_message ("seed %" PRIu64 "\n", seed);
    pins_t *pins = pins_new (s_cost_of_all () / 2);
    pins_data_t *data = s_data (pins);
    pins_file_t files [FILES];
    for (size_t file = 0; file < FILES; file++)
        files [file] = (pins_file_t) { .data = data, .number = file, .bytes = s_sizes [file] };
    player_t players [PLAYERS];
    for (size_t player = 0; player < PLAYERS; player++) {
        players [player] = (player_t) { .pins = pins, .files = files, .random = seed + player };
        assert_int_equal (pthread_create (&players [player].thread, NULL, s_play, &players [player]), 0);
    }
    for (size_t player = 0; player < PLAYERS; player++)
        pthread_join (players [player].thread, NULL);
    //  All that is here is read again, and leaves; what a lower limit takes has gone.
    pins_set_limit (pins, s_cost_of_all ());
    pins_settle (pins);
    pins_figures_t before = pins_figures (data);
    uint64_t here = 0;
    for (size_t file = 0; file < FILES; file++)
        for (uint64_t offset = 0; offset < s_sizes [file]; offset += UNIT) {
            size_t bytes = (size_t) s_unit_bytes (file, offset / UNIT);
            pins_gap_t gap = pins_read (&files [file], offset, bytes, s_memory);
            here += gap.begin == gap.end? bytes: 0;
            if (gap.begin == gap.end)
                assert_memory_equal (s_memory, s_bytes (file, offset), bytes);
        }
    assert_int_equal (before.bytes, here);
    pins_set_limit (pins, 0);
    pins_settle (pins);
    assert_int_equal (pins_figures (data).memory, 0);
    pins_data_destroy (&data);
    pins_destroy (&pins);
}

int
main (void)
{
    uint64_t random = 1;
    for (size_t at = 0; at < sizeof s_truth; at++)
        s_truth [at] = (uint8_t) test_below (&random, 251);
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_pins_beside_a_model),
        cmocka_unit_test (test_data_sets_share_by_size),
        cmocka_unit_test (test_memory_follows_the_limit),
        cmocka_unit_test (test_last_blocks_leave_first),
        cmocka_unit_test (test_whole_files),
        cmocka_unit_test (test_versions_never_mix),
        cmocka_unit_test (test_threads_share_pins)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
