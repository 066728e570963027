/*  test_tiling -- what becomes of a file under --tile, what is told of that, and a source whose JPEGs come
 *  tiled.  */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "effort.h"
#include "made_jpeg.h"
#include "tile_original.h"
#include "tile_transcode.h"
#include "tiling.h"
#include "tiling_source.h"
#include "pack_tiling.h"

enum { ERROR_BYTES = 400 };

//  Allocations of ours that succeed still; below 0: all do.
static atomic_int s_allowed = -1;

static bool
s_has_memory (void)
{
    int allowed = atomic_load (&s_allowed);
    while (allowed > 0 && !atomic_compare_exchange_weak (&s_allowed, &allowed, allowed - 1))
        continue;
    return allowed != 0;
}

#define ALLOCATE(name, parameters, arguments) \
    void *__real_##name parameters; \
    void *__wrap_##name parameters; \
    void *__wrap_##name parameters \
    { \
        return s_has_memory ()? __real_##name arguments: NULL; \
    }

ALLOCATE (malloc, (size_t size), (size))
ALLOCATE (calloc, (size_t count, size_t size), (count, size))
ALLOCATE (realloc, (void *bytes, size_t size), (bytes, size))
ALLOCATE (aligned_alloc, (size_t unit, size_t size), (unit, size))

static const made_kind_t *
s_kind (const char *name)
{
    for (size_t index = 0; index < MADE_KINDS; index++)
        if (strcmp (made_kinds [index].name, name) == 0)
            return &made_kinds [index];
    fail_msg ("no kind '%s'", name);
    return NULL;
}

static made_file_t
s_made (const char *name, uint64_t seed)
{
    return made_jpeg (s_kind (name), 100, 130, &seed);
}

//  ---------------------------------------------------------------------------------------------------------
//  The setting

static void
test_settings (void **state)
{
    (void) state;
    static const struct { const char *text; uint32_t tile; } good [] = {
        { "off", PACKING_TILE_OFF }, { "auto", PACKING_TILE_AUTO }, { "8", 8 }, { "24", 24 },
        { "65535", 65535 }
    };
    static const char *const bad [] = { "", "on", "Auto", "0", "1", "7", "65536", "-24", "+24", " 24", "24 ",
        "24px", "0x18", "100000000000000000000" };
    uint32_t tile;
    char text [PACKING_TILE_BYTES];
    for (size_t index = 0; index < sizeof good / sizeof *good; index++) {
        assert_true (packing_tile_parse (good [index].text, &tile));
        assert_int_equal (tile, good [index].tile);
        assert_string_equal (packing_tile_text (tile, text), good [index].text);
    }
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++)
        assert_false (packing_tile_parse (bad [index], &tile));
}

//  ---------------------------------------------------------------------------------------------------------
//  One file

static void
s_expect (const uint8_t *bytes, size_t size, tiling_mark_t mark)
{
    uint8_t *copy = malloc (size? size: 1);     //  of its very size, for the address sanitizer
    if (size)
        memcpy (copy, bytes, size);
    bool is_made = mark == TILING_TILED || mark == TILING_TILED_PROGRESSIVE;
    static const uint32_t tiles [] = { PACKING_TILE_AUTO, 8, 24, 65535 };
    for (size_t index = 0; index < sizeof tiles / sizeof *tiles; index++) {
        tiling_file_t file;
        assert_int_equal (tiling_convert (copy, size, tiles [index], &file), 0);
        assert_int_equal (file.mark, mark);
        assert_int_equal (file.bytes != NULL, is_made);
        if (!is_made)
            continue;
        char error [ERROR_BYTES];
        assert_int_equal (tile_compare (copy, size, file.bytes, file.size, error, sizeof error), 0);
        assert_int_equal (tiling_is_tiled (file.bytes, file.size), 1);
        free (file.bytes);
    }
    bool came_so = mark == TILING_WAS_TILED || mark == TILING_DAMAGED_TILED;
    assert_int_equal (tiling_is_tiled (copy, size) && !is_made, came_so);
    free (copy);
}

static void
s_expect_made (const char *name, tiling_mark_t mark)
{
    made_file_t file = s_made (name, test_seed ());
    s_expect (file.bytes, file.size, mark);
    free (file.bytes);
}

//  With originals: they come back from what becomes another file, and from no other.
static void
s_expect_original (const uint8_t *bytes, size_t size, tiling_mark_t mark, bool is_another)
{
    tiling_file_t file;
    assert_int_equal (tiling_convert (bytes, size, PACKING_TILE_AUTO | PACKING_TILE_ORIGINALS, &file), 0);
    assert_int_equal (file.mark, mark);
    assert_int_equal (file.bytes != NULL, is_another);
    if (!is_another)
        return;
    uint8_t *original;
    size_t original_bytes;
    char error [ERROR_BYTES];
    assert_int_equal (tile_original_restore (file.bytes, file.size, &original, &original_bytes, error,
        sizeof error), 0);
    assert_int_equal (original_bytes, size);
    assert_memory_equal (original, bytes, size);
    free (original);
    free (file.bytes);
}

static void
test_originals (void **state)
{
    (void) state;
    made_file_t file = s_made ("4:4:4", test_seed ());
    s_expect_original (file.bytes, file.size, TILING_TILED, true);
    //  One that is tiled and has its original, whole and cut short.
    tiling_file_t kept;
    assert_int_equal (tiling_convert (file.bytes, file.size, 24 | PACKING_TILE_ORIGINALS, &kept), 0);
    s_expect_original (kept.bytes, kept.size, TILING_TILED, true);
    tiling_file_t none;
    assert_int_equal (tiling_convert (kept.bytes, kept.size / 2, 24 | PACKING_TILE_ORIGINALS, &none),
        -EEXIST);
    assert_int_equal (tiling_convert (kept.bytes, kept.size / 2, 24, &none), 0);
    assert_int_equal (none.mark, TILING_DAMAGED);
    free (kept.bytes);
    free (file.bytes);
    //  Other filling than libjpeg's in the coded data's last byte, if it has any.
    int refused = 0;
    for (uint64_t round = 0; round < 40; round++) {
        file = s_made ("4:4:4", test_seed () + round);
        file.bytes [file.size - 3] &= 0xfe;
        tiling_file_t tiled;
        assert_int_equal (tiling_convert (file.bytes, file.size, 24 | PACKING_TILE_ORIGINALS, &tiled), 0);
        assert_int_equal (tiled.mark == TILING_TILED, tiled.bytes != NULL);
        refused += tiled.mark == TILING_NO_WAY_BACK;
        free (tiled.bytes);
        free (file.bytes);
    }
    assert_true (refused > 15);
    file = s_made ("4:2:0 progressive", test_seed ());
    s_expect_original (file.bytes, file.size, TILING_TILED_PROGRESSIVE, true);
    s_expect_original (file.bytes, file.size / 2, TILING_DAMAGED, false);
    s_expect_original ((const uint8_t *) "text", 4, TILING_NO_JPEG, false);
    free (file.bytes);
}

//  Each reason has a file: their words are decode's.
static void
test_each_has_its_reason (void **state)
{
    (void) state;
    s_expect_made ("4:4:4", TILING_TILED);
    s_expect_made ("4:2:0 restarts", TILING_TILED);
    s_expect_made ("grey", TILING_TILED);
    s_expect_made ("YCCK 4:2:0", TILING_TILED);
    s_expect_made ("4:2:0 progressive", TILING_TILED_PROGRESSIVE);
    s_expect_made ("4:2:0 arithmetic", TILING_CODING);
    s_expect_made ("4:2:0 progressive arithmetic", TILING_CODING);
    s_expect_made ("4:2:0 rough", TILING_UNFINISHED);
    static const uint8_t png [] = "\x89PNG\r\n\x1a\n and so on";
    s_expect (png, sizeof png, TILING_NO_JPEG);
    s_expect (NULL, 0, TILING_NO_JPEG);
    s_expect ((const uint8_t *) "\xff\xd8", 2, TILING_NO_JPEG);
    s_expect ((const uint8_t *) "\xff\xd8\xff", 3, TILING_DAMAGED);
}

static void
test_each_odd_one_has_its_reason (void **state)
{
    (void) state;
    made_file_t file = s_made ("4:2:0", 1);
    s_expect (file.bytes, file.size / 2, TILING_DAMAGED);
    uint8_t *frame = file.bytes + made_frame (file.bytes, file.size);
    frame [4] = 12;                             //  bits
    s_expect (file.bytes, file.size, TILING_CODING);
    frame [4] = 8;
    frame [1] = 0xc3;                           //  lossless
    s_expect (file.bytes, file.size, TILING_CODING);
    frame [1] = 0xc0;
    made_set_size (file.bytes, file.size, 10000, 10000);
    s_expect (file.bytes, file.size, TILING_PIXELS);
    free (file.bytes);
    static const uint8_t index [] = "\xff\xe2\0\x08MPF\0II";
    file = s_made ("4:2:0", 2);
    made_insert (&file, 2, index, 10);
    s_expect (file.bytes, file.size, TILING_SEVERAL);
    free (file.bytes);
    file = s_made ("4:4:4 restarts", 3);        //  every MCU
    made_insert (&file, 2, index, 10);
    s_expect (file.bytes, file.size, TILING_WAS_TILED);
    free (file.bytes);
    file = s_made ("4:4:4 restarts", 4);
    made_insert (&file, made_last_scan (&file) + 40, "\x12\x34\x56\x78\x12\x34\x56", 7);
    s_expect (file.bytes, file.size, TILING_DAMAGED_TILED);
    free (file.bytes);
    file = s_made ("4:2:0", 5);
    made_insert_marker (&file, file.size - 2, 0xe1, "Exif\0\0 and so on", 15);
    s_expect (file.bytes, file.size, TILING_METADATA);
    free (file.bytes);
}

//  Two sets of coefficients of two bytes each, in whole MCUs: 7 rows of 9, of six blocks; nothing for what is
//  refused before.
static void
test_memory_follows_the_frame (void **state)
{
    (void) state;
    made_file_t file = s_made ("4:2:0", 1);
    assert_int_equal (tiling_memory (file.bytes, file.size), 7 * 9 * 6 * 64 * 2 * 2);
    for (size_t size = 0; size < made_frame (file.bytes, file.size) + 10; size++)
        assert_int_equal (tiling_memory (file.bytes, size), 0);
    made_set_size (file.bytes, file.size, 65535, 65535);
    assert_int_equal (tiling_memory (file.bytes, file.size), 0);
    free (file.bytes);
    assert_int_equal (tiling_memory ((const uint8_t *) "no JPEG", 7), 0);
    //  Also where a marker that libjpeg passes over stands before the frame.
    file = s_made ("4:2:0", 1);
    made_insert (&file, 2, "\xff\xd0", 2);
    assert_int_equal (tiling_memory (file.bytes, file.size), 7 * 9 * 6 * 64 * 2 * 2);
    free (file.bytes);
}

//  ---------------------------------------------------------------------------------------------------------
//  What is told

static void
test_note_comes_back (void **state)
{
    (void) state;
    packing_result_t result = { .tile = 24 };
    for (int mark = 0; mark < PACKING_MARKS_MAX; mark++)
        result.marks [mark] = (packing_mark_t) { UINT32_MAX, UINT64_MAX / 100, UINT64_MAX / 100 };
    char note [PACKING_NOTE_BYTES];
    tiling_note (NULL, &result, note);
    pack_tiling_t noted = pack_tiling (note);
    assert_true (noted.is_tiled);
    assert_string_equal (noted.tile, "24");
    assert_int_equal (noted.files, 16 * (uint64_t) UINT32_MAX);
    assert_int_equal (noted.tiled, 4 * (uint64_t) UINT32_MAX);
    static const char *const others [] = { "", "{", "[]", "{}", "{\"tile\":\"auto\"}",
        "{\"tile\":\"off\",\"files\":1,\"tiled\":1}", "{\"tile\":\"auto\",\"files\":1,\"tiled\":2}",
        "{\"tile\":\"auto\",\"files\":1,\"tiled\":-1}", "{\"tile\":7,\"files\":1,\"tiled\":1}",
        "{\"tile\":\"auto\",\"files\":\"1\",\"tiled\":1}", "{\"tile\":\"a\",\"files\":1,\"tiled\":1}",
        "{\"tile\":\"auto\",\"files\":1,\"tiled\":1,\"originals\":2}",
        "{\"tile\":\"auto\",\"files\":1,\"tiled\":1,\"originals\":true}" };
    assert_false (noted.originals);
    result.tile |= PACKING_TILE_ORIGINALS;
    tiling_note (NULL, &result, note);
    noted = pack_tiling (note);
    assert_true (noted.is_tiled && noted.originals);
    assert_int_equal (noted.original_files, 2 * (uint64_t) UINT32_MAX);
    assert_string_equal (noted.tile, "24");
    assert_false (pack_tiling (NULL).is_tiled);
    for (size_t index = 0; index < sizeof others / sizeof *others; index++)
        assert_false (pack_tiling (others [index]).is_tiled);
    char *endless = calloc (1, 2 * PACKING_NOTE_BYTES);
    memset (endless, ' ', 2 * PACKING_NOTE_BYTES - 1);
    assert_false (pack_tiling (endless).is_tiled);
    free (endless);
}

static void
test_figures_add_up (void **state)
{
    (void) state;
    packing_result_t result = { .tile = PACKING_TILE_AUTO };
    result.marks [TILING_TILED] = (packing_mark_t) { 3, 3000000, 3300000 };
    result.marks [TILING_TILED_PROGRESSIVE] = (packing_mark_t) { 1, 1000000, 1700000 };
    result.marks [TILING_WAS_TILED] = (packing_mark_t) { 2, 500, 500 };
    result.marks [TILING_NO_JPEG] = (packing_mark_t) { 5, 700, 700 };
    char text [1000];
    FILE *stream = fmemopen (text, sizeof text, "w");
    tiling_print (stream, &result);
    fclose (stream);
    assert_string_equal (text,
        "--tile auto: 4 of 11 files became tiled JPEGs: 4.0 MB before, 5.0 MB after (1.2500)\n"
        "  the same pixels and metadata to the last bit, not the same bytes: `tureen unpack` gives the tiled "
        "files\n"
        "  1 of them were progressive and are baseline now: 1.0 MB before, 1.7 MB after (1.7000)\n"
        "  7 stayed as they are: 2 tiled as they came, 5 no JPEG\n");
    json_t *object = tiling_json (&result);
    assert_int_equal (json_integer_value (json_object_get (object, "files")), 11);
    assert_int_equal (json_integer_value (json_object_get (object, "tiled")), 4);
    assert_int_equal (json_integer_value (json_object_get (object, "bytes")), 5000000);
    assert_int_equal (json_integer_value (json_object_get (object, "progressive_bytes")), 1700000);
    const json_t *kept = json_object_get (object, "kept");
    assert_int_equal (json_integer_value (json_object_get (kept, "no JPEG")), 5);
    assert_int_equal (json_integer_value (json_object_get (kept, "tiled as they came")), 2);
    json_decref (object);
}

//  ---------------------------------------------------------------------------------------------------------
//  The source

//  Samples of two files; many are JPEGs.  Fails after `failing` of them.
typedef struct {
    uint64_t seed;
    uint64_t next, samples, failing;
    bool are_small;                 //  files, beside what they take as coefficients
    uint8_t *files [2];
    int *destroyed;
} made_source_t;

static made_file_t
s_make_file (const made_source_t *self, uint64_t id, size_t field)
{
    uint64_t random = self->seed + 2 * id + field;
    uint64_t kind = test_below (&random, 5);
    if (self->are_small)
        return made_jpeg_with (s_kind ("4:4:4"), 100, 200, 1, &random, NULL);
    if (kind < 4) {
        static const char *const names [] = { "4:2:0", "4:2:0 progressive", "4:2:0 rough", "4:4:4" };
        uint32_t height = 1 + (uint32_t) test_below (&random, 60),
            width = 1 + (uint32_t) test_below (&random, 200);
        return made_jpeg (s_kind (names [kind]), height, width, &random);
    }
    made_file_t file = { NULL, (unsigned long) test_below (&random, 3000) };
    file.bytes = malloc (file.size + 1);
    memset (file.bytes, (int) id, file.size);
    return file;
}

static int
s_source_next (void *state, pack_item_t *item, char *error)
{
    made_source_t *self = state;
    if (self->next == self->failing) {
        strcpy (error, "the source has failed");
        return -EIO;
    }
    if (self->next == self->samples)
        return 0;
    for (size_t field = 0; field < 2; field++) {
        free (self->files [field]);             //  lent until now
        made_file_t file = s_make_file (self, self->next, field);
        self->files [field] = file.bytes;
        item->files [field] = file.bytes;
        item->bytes [field] = file.size;
    }
    item->field_count = 2;
    self->next++;
    return 1;
}

static int
s_source_skip (void *state, uint64_t count, char *error)
{
    (void) error;
    ((made_source_t *) state)->next += count;
    return 1;
}

static void
s_source_progress (const void *state, uint64_t *done_p, uint64_t *total_p)
{
    *done_p = ((const made_source_t *) state)->next;
    *total_p = 0;
}

static const catalogue_t *
s_source_catalogue (const void *state)
{
    (void) state;
    return NULL;
}

static void
s_source_destroy (void *state)
{
    made_source_t *self = state;
    free (self->files [0]);
    free (self->files [1]);
    ++*self->destroyed;
    free (self);
}

static pack_source_t *
s_wrapped (made_source_t model, const tiling_source_options_t *options, made_source_t **made_p)
{
    static const pack_source_kind_t kind = { s_source_next, s_source_skip, s_source_progress,
        s_source_catalogue, s_source_destroy };
    made_source_t *made = *made_p = calloc (1, sizeof *made);
    *made = model;
    pack_source_t *source = pack_source_new (&kind, made, "0123");
    char error [PACK_SOURCE_ERROR_BYTES];
    assert_int_equal (tiling_source_wrap (&source, options, error), 0);
    assert_string_equal (pack_source_signature (source), "0123");
    return source;
}

static pack_source_t *
s_source (uint64_t seed, uint64_t samples, uint64_t failing, const tiling_source_options_t *options,
    int *destroyed)
{
    made_source_t *made;
    return s_wrapped ((made_source_t) { .seed = seed, .samples = samples, .failing = failing,
        .destroyed = destroyed }, options, &made);
}

//  The next sample is this one's files, each converted.
static void
s_expect_sample (pack_source_t *source, uint64_t seed, uint64_t id)
{
    made_source_t made = { .seed = seed };
    pack_item_t item = { .field_count = 0 };
    char error [PACK_SOURCE_ERROR_BYTES] = "";
    assert_int_equal (pack_source_next (source, &item, error), 1);
    assert_int_equal (item.field_count, 2);
    for (size_t field = 0; field < 2; field++) {
        made_file_t file = s_make_file (&made, id, field);
        tiling_file_t converted;
        assert_int_equal (tiling_convert (file.bytes, file.size, PACKING_TILE_AUTO, &converted), 0);
        const uint8_t *bytes = converted.bytes? converted.bytes: file.bytes;
        size_t size = converted.bytes? converted.size: file.size;
        assert_int_equal (item.marks [field], converted.mark);
        assert_int_equal (item.bytes [field], size);
        assert_memory_equal (item.files [field], bytes, size);
        free (converted.bytes);
        free (file.bytes);
    }
}

//  Property: any number of workers, any memory: the same samples in the same order; errors come behind what
//  was before them.
static void
test_same_samples_in_the_same_order (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (12); round++) {
        uint64_t seed = random, samples = test_below (&random, 60), first = test_below (&random, 5);
        bool fails = test_below (&random, 2);
        tiling_source_options_t options = { .tile = PACKING_TILE_AUTO,
            .workers = 1 + (uint32_t) test_below (&random, 5),
            .memory_bytes = test_below (&random, 2)? 1: 1 << 20 };
        int destroyed = 0;
        pack_source_t *source = s_source (seed, first + samples, fails? first + samples: UINT64_MAX, &options,
            &destroyed);
        char error [PACK_SOURCE_ERROR_BYTES] = "";
        assert_int_equal (pack_source_skip (source, first, error), 1);
        for (uint64_t id = first; id < first + samples; id++)
            s_expect_sample (source, seed, id);
        for (int again = 0; again < 2; again++) {
            pack_item_t item;
            assert_int_equal (pack_source_next (source, &item, error), fails? -EIO: 0);
            assert_string_equal (error, fails? "the source has failed": "");
        }
        pack_source_destroy (&source);
        assert_int_equal (destroyed, 1);
    }
}

//  Bytes of coefficients of all files that are being converted, the most there were of them, and the most
//  files at once.
static atomic_uint_fast64_t s_used, s_used_most, s_files, s_files_most;
//  The first waits for a second one, for so many half milliseconds: on a busy machine they would not meet by
//  themselves.
static atomic_int s_patience;

static void
s_raise (atomic_uint_fast64_t *most, uint64_t now)
{
    uint_fast64_t before = atomic_load (most);
    while (now > before && !atomic_compare_exchange_weak (most, &before, now))
        continue;
}

int __real_tiling_convert (const uint8_t *bytes, size_t size, uint32_t tile, tiling_file_t *file);
int __wrap_tiling_convert (const uint8_t *bytes, size_t size, uint32_t tile, tiling_file_t *file);
int
__wrap_tiling_convert (const uint8_t *bytes, size_t size, uint32_t tile, tiling_file_t *file)
{
    uint64_t memory = tiling_memory (bytes, size);
    s_raise (&s_used_most, atomic_fetch_add (&s_used, memory) + memory);
    s_raise (&s_files_most, atomic_fetch_add (&s_files, 1) + 1);
    while (atomic_load (&s_files_most) < 2 && atomic_fetch_sub (&s_patience, 1) > 0)
        usleep (500);
    int rc = __real_tiling_convert (bytes, size, tile, file);
    atomic_fetch_sub (&s_files, 1);
    atomic_fetch_sub (&s_used, memory);
    return rc;
}

//  All memory for coefficients, or one picture's; a quarter of it for samples on their way, or one of them.
static void
test_memory_is_kept_to (void **state)
{
    (void) state;
    enum { SAMPLES = 60, PICTURE_BYTES = 13 * 25 * 3 * 64 * 2 * 2 };
    static const struct { uint64_t memory_bytes, used_most; } cases [] = {
        { 1, PICTURE_BYTES }, { 200000, PICTURE_BYTES }, { 2 * PICTURE_BYTES, 2 * PICTURE_BYTES },
        { UINT64_C (1) << 30, UINT64_MAX }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        tiling_source_options_t options = { .tile = 24, .workers = 6,
            .memory_bytes = cases [index].memory_bytes };
        made_source_t *made;
        int destroyed = 0;
        atomic_store (&s_used_most, 0);
        atomic_store (&s_files_most, 0);
        atomic_store (&s_patience, index < 2? 200: 20000);      //  for nobody, or for one that comes
        pack_source_t *source = s_wrapped ((made_source_t) { .seed = 7, .samples = SAMPLES,
            .failing = UINT64_MAX,
            .destroyed = &destroyed, .are_small = true }, &options, &made);
        uint64_t ahead = 0;
        for (uint64_t id = 0; id < SAMPLES; id++) {
            pack_item_t item = { .field_count = 0 };
            char error [PACK_SOURCE_ERROR_BYTES] = "";
            assert_int_equal (pack_source_next (source, &item, error), 1);
            ahead = made->next - id > ahead? made->next - id: ahead;
        }
        assert_true (atomic_load (&s_used_most) <= cases [index].used_most);
        //  A sample's two files count three times with some 1300 bytes each.
        if (index == 0)
            assert_int_equal (ahead, 1);
        else
        if (index == 1)
            assert_in_range (ahead, 4, 12);
        else
            assert_true (ahead > 10 && atomic_load (&s_files_most) > 1);
        pack_source_destroy (&source);
        assert_int_equal (destroyed, 1);
    }
}

//  Given up in the middle, with files in the hands of workers.
static void
test_given_up (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (20); round++) {
        uint64_t seed = random, taken = test_below (&random, 20);
        tiling_source_options_t options = { .tile = PACKING_TILE_AUTO, .workers = 3,
            .memory_bytes = 1 << 20 };
        int destroyed = 0;
        pack_source_t *source = s_source (seed, 100, UINT64_MAX, &options, &destroyed);
        for (uint64_t id = 0; id < taken; id++)
            s_expect_sample (source, seed, id);
        pack_source_destroy (&source);
        assert_int_equal (destroyed, 1);
    }
}

//  A source whose files were made before, so that it needs no memory.
enum { READY_SAMPLES = 12 };
typedef struct {
    made_file_t files [READY_SAMPLES] [2];
    tiling_file_t expected [READY_SAMPLES] [2];
    size_t next;
} ready_t;

static int
s_ready_next (void *state, pack_item_t *item, char *error)
{
    ready_t *self = state;
    (void) error;
    if (self->next == READY_SAMPLES)
        return 0;
    for (size_t field = 0; field < 2; field++) {
        item->files [field] = self->files [self->next] [field].bytes;
        item->bytes [field] = self->files [self->next] [field].size;
    }
    item->field_count = 2;
    self->next++;
    return 1;
}

static void
s_ready_destroy (void *state)
{
    (void) state;
}

static void
s_ready_make (ready_t *self, uint64_t seed)
{
    made_source_t made = { .seed = seed };
    for (size_t id = 0; id < READY_SAMPLES; id++)
        for (size_t field = 0; field < 2; field++) {
            made_file_t file = self->files [id] [field] = s_make_file (&made, id, field);
            assert_int_equal (tiling_convert (file.bytes, file.size, PACKING_TILE_AUTO,
                &self->expected [id] [field]), 0);
        }
}

static void
s_ready_free (ready_t *self)
{
    for (size_t id = 0; id < READY_SAMPLES; id++)
        for (size_t field = 0; field < 2; field++) {
            free (self->files [id] [field].bytes);
            free (self->expected [id] [field].bytes);
        }
}

static void
s_expect_ready (const ready_t *self, size_t id, const pack_item_t *item)
{
    for (size_t field = 0; field < 2; field++) {
        const tiling_file_t *expected = &self->expected [id] [field];
        const made_file_t *file = &self->files [id] [field];
        assert_int_equal (item->marks [field], expected->mark);
        assert_int_equal (item->bytes [field], expected->bytes? expected->size: file->size);
        assert_memory_equal (item->files [field], expected->bytes? expected->bytes: file->bytes,
            item->bytes [field]);
    }
}

//  How many samples came before there was no memory for one.
static size_t
s_take_ready (ready_t *self, int allowed)
{
    static const pack_source_kind_t kind = { s_ready_next, s_source_skip, s_source_progress,
        s_source_catalogue, s_ready_destroy };
    tiling_source_options_t options = { .tile = PACKING_TILE_AUTO, .workers = 2, .memory_bytes = 1 << 20 };
    char error [PACK_SOURCE_ERROR_BYTES] = "";
    self->next = 0;
    pack_source_t *source = pack_source_new (&kind, self, "");
    atomic_store (&s_allowed, allowed);
    size_t taken = 0;
    int rc = tiling_source_wrap (&source, &options, error);
    for (rc = rc? rc: 1; rc > 0; ) {
        pack_item_t item = { .field_count = 0 };
        rc = pack_source_next (source, &item, error);
        if (rc > 0)
            s_expect_ready (self, taken++, &item);
    }
    atomic_store (&s_allowed, -1);
    assert_true (rc == 0 || rc == -ENOMEM);
    assert_int_equal (rc == 0, taken == READY_SAMPLES);
    assert_int_equal (rc == 0, *error == 0);
    pack_source_destroy (&source);
    return taken;
}

//  One file a sample; from `bad` on it keeps an original, and cannot be tiled again.
typedef struct {
    tiling_file_t good, kept;
    uint64_t next, bad;
} keeping_t;

static int
s_keeping_next (void *state, pack_item_t *item, char *error)
{
    keeping_t *self = state;
    (void) error;
    bool is_bad = self->next++ == self->bad;
    item->files [0] = is_bad? self->kept.bytes: self->good.bytes;
    item->bytes [0] = is_bad? self->kept.size / 2: self->good.size;
    item->field_count = 1;
    return 1;
}

static int
s_keeping_skip (void *state, uint64_t count, char *error)
{
    (void) error;
    ((keeping_t *) state)->next += count;
    return 1;
}

//  The sample that ends it has the number that it has in the source, also where some were passed over before
//  anything was tiled: a packing that goes on does that.
static void
test_the_sample_is_named (void **state)
{
    (void) state;
    static const pack_source_kind_t kind = { s_keeping_next, s_keeping_skip, s_source_progress,
        s_source_catalogue, s_ready_destroy };
    made_file_t file = s_made ("4:4:4", test_seed ());
    keeping_t keeping = { .good = { .bytes = file.bytes, .size = file.size }, .bad = 23 };
    assert_int_equal (tiling_convert (file.bytes, file.size, 24 | PACKING_TILE_ORIGINALS, &keeping.kept), 0);
    for (uint64_t passed = 0; passed <= keeping.bad; passed += keeping.bad) {
        tiling_source_options_t options = { .tile = 24 | PACKING_TILE_ORIGINALS, .workers = 3,
            .memory_bytes = 1 << 20 };
        char error [PACK_SOURCE_ERROR_BYTES] = "";
        pack_item_t item = { .field_count = 0 };
        keeping.next = 0;
        pack_source_t *source = pack_source_new (&kind, &keeping, "");
        assert_int_equal (pack_source_skip (source, passed, error), 1);
        assert_int_equal (tiling_source_wrap (&source, &options, error), 0);
        for (uint64_t number = passed; number < keeping.bad; number++)
            assert_int_equal (pack_source_next (source, &item, error), 1);
        assert_int_equal (pack_source_next (source, &item, error), -EBADMSG);
        assert_string_equal (error,
            "sample 23 (counted from 0) keeps an original already, and cannot be tiled again: take it out, "
            "or pack without --keep-original-bytes");
        pack_source_destroy (&source);
    }
    free (keeping.kept.bytes);
    free (file.bytes);
}

//  No memory, from any moment on: an error behind good samples, never a file that stays as it is.
static void
test_no_memory (void **state)
{
    (void) state;
    static ready_t ready;
    s_ready_make (&ready, test_seed ());
    size_t taken = 0;
    int allowed = 0;
    for (; taken < READY_SAMPLES; allowed++)
        taken = s_take_ready (&ready, allowed);
    print_message ("%d allocations\n", allowed);
    assert_true (allowed > 2 * READY_SAMPLES);
    s_ready_free (&ready);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_settings),
        cmocka_unit_test (test_each_has_its_reason),
        cmocka_unit_test (test_originals),
        cmocka_unit_test (test_each_odd_one_has_its_reason),
        cmocka_unit_test (test_memory_follows_the_frame),
        cmocka_unit_test (test_note_comes_back),
        cmocka_unit_test (test_figures_add_up),
        cmocka_unit_test (test_same_samples_in_the_same_order),
        cmocka_unit_test (test_memory_is_kept_to),
        cmocka_unit_test (test_given_up),
        cmocka_unit_test (test_the_sample_is_named),
        cmocka_unit_test (test_no_memory)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
