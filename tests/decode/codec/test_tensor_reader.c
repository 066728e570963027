/*  test_tensor_reader -- raw bytes, and .npy files of every dtype, order and degree of damage.  */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "seed.h"
#include "tensor_reader.h"

enum { FILE_BYTES_MAX = 1 << 14, ERROR_BYTES = 200 };

typedef struct {
    uint8_t bytes [FILE_BYTES_MAX];
    size_t size;
} file_t;

static const struct { dtype_t dtype; const char *kind; size_t bytes; } s_dtypes [] = {
    { DTYPE_UINT8, "u1", 1 }, { DTYPE_INT8, "i1", 1 }, { DTYPE_BOOL, "b1", 1 },
    { DTYPE_UINT16, "u2", 2 },
    { DTYPE_INT16, "i2", 2 }, { DTYPE_FLOAT16, "f2", 2 }, { DTYPE_UINT32, "u4", 4 },
    { DTYPE_INT32, "i4", 4 },
    { DTYPE_FLOAT32, "f4", 4 }, { DTYPE_UINT64, "u8", 8 }, { DTYPE_INT64, "i8", 8 },
    { DTYPE_FLOAT64, "f8", 8 }
};
enum { NUMPY_DTYPES = sizeof s_dtypes / sizeof *s_dtypes };

//  A file of this format version and header, without items.  Format 1 has two bytes of length, the others
//  four.
static void
s_begin (file_t *file, int version, const char *header)
{
    size_t length = strlen (header), length_bytes = version == 1? 2: 4;
    assert_true (length < FILE_BYTES_MAX - 12);
    memcpy (file->bytes, "\x93NUMPY", 6);
    file->bytes [6] = (uint8_t) version;
    file->bytes [7] = 0;
    for (size_t index = 0; index < length_bytes; index++)
        file->bytes [8 + index] = (uint8_t) (length >> (8 * index));
    memcpy (file->bytes + 8 + length_bytes, header, length);
    file->size = 8 + length_bytes + length;
}

static decode_tensor_t
s_array (dtype_t dtype, uint32_t dimensions, const uint32_t *shape)
{
    decode_tensor_t decode = { .as = DECODE_ARRAY, .dtype = dtype, .dimensions = dimensions };
    memcpy (decode.shape, shape, dimensions * sizeof *shape);
    return decode;
}

static size_t
s_items (const decode_tensor_t *decode)
{
    size_t items = 1;
    for (uint32_t index = 0; index < decode->dimensions; index++)
        items *= decode->shape [index];
    return items;
}

//  That the last s_read found.
static uint32_t s_rows;

//  From a copy of exact size, to a target of exact size, so that the address sanitizer sees what is beside
//  them.
static int
s_read (const decode_tensor_t *decode, const uint8_t *bytes, size_t size, uint8_t *target,
    size_t target_bytes, char error [ERROR_BYTES])
{
    uint8_t *copy = malloc (size? size: 1), *exact = malloc (target_bytes);
    if (size)
        memcpy (copy, bytes, size);
    memset (error, 'x', ERROR_BYTES);
    s_rows = UINT32_MAX;
    int rc = (decode->as == DECODE_ARRAY? tensor_reader_array: tensor_reader_bytes) (decode, copy, size,
        exact, &s_rows, error, ERROR_BYTES);
    assert_true (rc || (decode->is_ragged? s_rows <= decode->shape [0]: s_rows == decode->shape [0]));
    assert_true (rc == 0 || rc == -EBADMSG || rc == -EDOM);
    assert_non_null (memchr (error, 0, ERROR_BYTES));
    assert_int_equal (rc != 0, *error != 0);
    for (const char *at = error; *at; at++)
        assert_true (*at >= ' ' && *at <= '~');
    if (rc == 0)
        memcpy (target, exact, target_bytes);
    free (copy);
    free (exact);
    return rc;
}

static void
s_expect (int rc, const decode_tensor_t *decode, const file_t *file, const char *fragment)
{
    char error [ERROR_BYTES];
    uint8_t target [1000];
    int found = s_read (decode, file->bytes, file->size, target, sizeof target, error);
    if (found != rc || !strstr (error, fragment))
        fail_msg ("%d for %d, \"%s\" for \"%s\"", found, rc, error, fragment);
}

static void
test_bytes (void **state)
{
    (void) state;
    char error [ERROR_BYTES];
    uint8_t target [5];
    decode_tensor_t decode = { .as = DECODE_BYTES, .dimensions = 1, .shape = { 5 } };
    assert_int_equal (s_read (&decode, (const uint8_t *) "a\0b\xff" "c", 5, target, 5, error), 0);
    assert_memory_equal (target, "a\0b\xff" "c", 5);
    for (size_t size = 0; size < 10; size++) {
        char expected [40];
        snprintf (expected, sizeof expected, "%zu bytes instead of 5", size);
        if (size == 5)
            continue;
        assert_int_equal (s_read (&decode, (const uint8_t *) "0123456789", size, target, 5, error),
            size? -EDOM: -EBADMSG);
        assert_string_equal (error, expected);
    }
}

//  What numpy.save (and savez, and NumPy of old) writes.
static void
test_headers_as_numpy_writes_them (void **state)
{
    (void) state;
    static file_t file;
    static const char *const headers [] = {
        ("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3),"
        " }                                                          \n"),
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3)}\n",
        "{'shape': (2L, 3L), 'fortran_order': False, 'descr': '<i2'}     ",
        " {\"descr\" : \"<i2\",\n'fortran_order':False,'shape':(2,3,),}",
    };
    decode_tensor_t decode = s_array (DTYPE_INT16, 2, (const uint32_t []) { 2, 3 });
    for (int version = 1; version <= 3; version++)
        for (size_t index = 0; index < sizeof headers / sizeof *headers; index++) {
            char error [ERROR_BYTES];
            uint8_t target [12];
            s_begin (&file, version, headers [index]);
            memcpy (file.bytes + file.size, "\1\0\2\0\3\0\4\0\5\0\6\0and more", 20);
            file.size += 20;
            assert_int_equal (s_read (&decode, file.bytes, file.size, target, sizeof target, error), 0);
            for (int item = 0; item < 6; item++)
                assert_int_equal (((const int16_t *) (const void *) target) [item], item + 1);
        }
}

//  Where in the file the item with these indices is: its order, written down once more.
static size_t
s_place (const decode_tensor_t *decode, size_t item, bool is_fortran)
{
    size_t place = 0, stride = s_items (decode), along [PIPELINE_DIMENSIONS_MAX] = { 0 };
    for (uint32_t index = decode->dimensions; index-- > 0; item /= decode->shape [index])
        along [index] = item % decode->shape [index];
    for (uint32_t step = 0; step < decode->dimensions; step++) {
        uint32_t index = is_fortran? decode->dimensions - 1 - step: step;
        stride /= decode->shape [index];
        place += along [index] * stride;
    }
    return place;
}

static void
s_write_header (file_t *file, const decode_tensor_t *decode, int version, char order, const char *kind,
    bool is_fortran)
{
    char header [300], shape [100] = "";
    for (uint32_t index = 0; index < decode->dimensions; index++)
        snprintf (shape + strlen (shape), sizeof shape - strlen (shape), "%u,", decode->shape [index]);
    snprintf (header, sizeof header, "{'descr': '%c%s', 'fortran_order': %s, 'shape': (%s), }\n", order, kind,
        is_fortran? "True": "False", shape);
    s_begin (file, version, header);
}

static void
test_every_dtype_and_order (void **state)
{
    (void) state;
    static file_t file;
    uint64_t random = test_seed ();
    for (size_t round = 0; round < NUMPY_DTYPES * 40; round++) {
        size_t which = round % NUMPY_DTYPES, item_bytes = s_dtypes [which].bytes;
        char order = item_bytes == 1? '|': test_below (&random, 2)? '<': '>';
        bool is_fortran = test_below (&random, 2), is_swapped = order == '>';
        uint32_t shape [4];
        for (size_t index = 0; index < 4; index++)
            shape [index] = 1 + (uint32_t) test_below (&random, 5);
        decode_tensor_t decode = s_array (s_dtypes [which].dtype, 1 + (uint32_t) test_below (&random, 4),
            shape);
        s_write_header (&file, &decode, 1 + (int) (round % 3), order, s_dtypes [which].kind, is_fortran);
        uint8_t items [625 * 8], target [625 * 8];
        size_t bytes = s_items (&decode) * item_bytes;
        for (size_t index = 0; index < bytes; index++)
            file.bytes [file.size + index] = (uint8_t) test_below (&random, 256);
        for (size_t item = 0; item < s_items (&decode); item++)
            for (size_t index = 0; index < item_bytes; index++)
                items [item * item_bytes + index] = file.bytes [file.size
                    + s_place (&decode, item, is_fortran) * item_bytes + (is_swapped? item_bytes - 1 - index:
                    index)];
        char error [ERROR_BYTES];
        if (s_read (&decode, file.bytes, file.size + bytes, target, bytes, error))
            fail_msg ("seed %" PRIu64 ", round %zu: %s", test_seed (), round, error);
        if (memcmp (target, items, bytes))
            fail_msg ("seed %" PRIu64 ", round %zu: other items", test_seed (), round);
    }
}

//  Ragged arrays beside the rule itself: as many rows as there are, up to the most; behind them zeros.
static void
test_ragged_arrays (void **state)
{
    (void) state;
    static file_t file;
    uint64_t random = test_seed ();
    for (size_t round = 0; round < NUMPY_DTYPES * 60; round++) {
        size_t which = round % NUMPY_DTYPES, item_bytes = s_dtypes [which].bytes;
        char order = item_bytes == 1? '|': test_below (&random, 2)? '<': '>';
        bool is_fortran = test_below (&random, 2);
        uint32_t shape [4];
        for (size_t index = 0; index < 4; index++)
            shape [index] = 1 + (uint32_t) test_below (&random, 4);
        decode_tensor_t decode = s_array (s_dtypes [which].dtype, 1 + (uint32_t) test_below (&random, 4),
            shape), stored = decode;
        decode.is_ragged = true;
        decode.truncates = test_below (&random, 2);
        uint32_t found = stored.shape [0] = (uint32_t) test_below (&random, 7), most = decode.shape [0];
        s_write_header (&file, &stored, 1 + (int) (round % 3), order, s_dtypes [which].kind, is_fortran);
        uint8_t items [256 * 8] = { 0 }, target [256 * 8];
        size_t bytes = s_items (&stored) * item_bytes, room = s_items (&decode) * item_bytes;
        for (size_t index = 0; index < bytes; index++)
            file.bytes [file.size + index] = (uint8_t) test_below (&random, 256);
        for (size_t item = 0; item < s_items (&stored) && item < s_items (&decode); item++)
            for (size_t index = 0; index < item_bytes; index++)
                items [item * item_bytes + index] = file.bytes [file.size
                    + s_place (&stored, item, is_fortran) * item_bytes
                    + (order == '>'? item_bytes - 1 - index: index)];
        char error [ERROR_BYTES];
        int rc = s_read (&decode, file.bytes, file.size + bytes, target, room, error);
        int expected = found > most && !decode.truncates? -EDOM: 0;
        if (rc != expected || (rc && !strstr (error, "\"truncate\": true")))
            fail_msg ("seed %" PRIu64 ", round %zu: %d, %s", test_seed (), round, rc, error);
        if (!rc && (s_rows != (found < most? found: most) || memcmp (target, items, room)))
            fail_msg ("seed %" PRIu64 ", round %zu: %u rows, or other items", test_seed (), round, s_rows);
        //  A file that is cut short is bad, also where the rows that are missing would not be taken.
        if (bytes && !expected)
            assert_int_equal (s_read (&decode, file.bytes, file.size + bytes - 1, target, room, error),
                -EBADMSG);
    }
}

static void
test_ragged_bytes (void **state)
{
    (void) state;
    char error [ERROR_BYTES];
    uint8_t target [5];
    decode_tensor_t decode = { .as = DECODE_BYTES, .dimensions = 1, .shape = { 5 }, .is_ragged = true };
    for (size_t size = 0; size < 9; size++)
        for (int truncates = 0; truncates < 2; truncates++) {
            uint8_t expected [5] = { 0 };
            decode.truncates = truncates;
            memcpy (expected, "012345678", size < 5? size: 5);
            int rc = s_read (&decode, (const uint8_t *) "012345678", size, target, 5, error);
            assert_int_equal (rc, size > 5 && !truncates? -EDOM: 0);
            if (rc)
                assert_non_null (strstr (error, "bytes, more than the 5 that \"length\" allows"));
            else
                assert_int_equal (s_rows, size < 5? size: 5);
            if (!rc)
                assert_memory_equal (target, expected, 5);
        }
}

//  What else a ragged array may differ in is as before; sizes that no file has are no overflow.
static void
test_ragged_other_than_declared (void **state)
{
    (void) state;
    static file_t file;
    static const struct { const char *shape; int rc; const char *fragment; } cases [] = {
        { "(3, 4)", -EDOM, "shape (3, 4) instead of (up to 3, 5)" },
        { "(3,)", -EDOM, "shape (3,) instead of (up to 3, 5)" },
        { "(1, 3, 5)", -EDOM, "shape (1, 3, 5) instead" },
        { "(0, 5)", 0, "" },
        { "(922337203685477580, 5)", -EBADMSG, "truncated .npy" },
        { "(4294967296, 5)", -EBADMSG, "truncated .npy" },
    };
    decode_tensor_t decode = s_array (DTYPE_FLOAT32, 2, (const uint32_t []) { 3, 5 });
    decode.is_ragged = true;
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        char header [200], error [ERROR_BYTES];
        uint8_t target [60];
        snprintf (header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }",
            cases [index].shape);
        s_begin (&file, 1, header);
        assert_int_equal (s_read (&decode, file.bytes, file.size, target, sizeof target, error),
            cases [index].rc);
        assert_non_null (strstr (error, cases [index].fragment));
    }
}

//  Reasons say what was found and what was declared.  The file is as good as any.
static void
test_other_than_declared (void **state)
{
    (void) state;
    static file_t file;
    static const struct { const char *descr; const char *shape; const char *fragment; } cases [] = {
        { "<f4", "(3, 4)", "shape (3, 4) instead of (3, 5)" },
        { "<f4", "(15,)", "shape (15,) instead of (3, 5)" },
        { "<f4", "()", "shape () instead of (3, 5)" }, { "<f4", "(5, 3)", "shape (5, 3) instead" },
        { "<f4", "(1, 3, 5)", "shape (1, 3, 5) instead" }, { "<f4", "(3, 5, 0)", "shape (3, 5, 0) instead" },
        { "<f4", "(4294967299, 5)", "shape (4294967299, 5) instead" },
        { "<f4", "(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32)",
          "shape (1, 2, 3, 4, 5, 6, 7" },
        { "<f8", "(3, 5)", "dtype float64 instead of float32" },
        { "|b1", "(3, 5)", "dtype bool instead of float32" },
        { "<c8", "(3, 5)", "dtype '<c8' instead of float32" },
        { "|O", "(3, 5)", "dtype '|O' instead of float32" },
        { "<U7", "(3, 5)", "dtype '<U7' instead" }, { "|V4", "(3, 5)", "dtype '|V4' instead" },
        { "<M8[ns]", "(3, 5)", "dtype '<M8[ns]' instead" }, { "f4", "(3, 5)", "dtype 'f4' instead" },
        { "", "(3, 5)", "dtype '' instead" }, { "<f44", "(3, 5)", "dtype '<f44' instead" },
    };
    decode_tensor_t decode = s_array (DTYPE_FLOAT32, 2, (const uint32_t []) { 3, 5 });
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        char header [300];
        snprintf (header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
            cases [index].descr, cases [index].shape);
        s_begin (&file, 1, header);
        memset (file.bytes + file.size, 1, 200);
        file.size += 200;
        s_expect (-EDOM, &decode, &file, cases [index].fragment);
    }
    decode = s_array (DTYPE_FLOAT32, 1, (const uint32_t []) { 3 });
    s_begin (&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }");
    s_expect (-EDOM, &decode, &file, "shape (4,) instead of (3,)");
}

//  What is no array at all is as good as any where something else is read that way.
static void
test_other_kinds (void **state)
{
    (void) state;
    static file_t file;
    static const struct { const char *bytes; size_t size; int rc; const char *fragment; } cases [] = {
        { "\xff\xd8\xff\xe0....", 8, -EDOM, "not a .npy file: the file is a JPEG image" },
        { "\xff\xd8\xff", 3, -EDOM, "a JPEG" },
        { "\x89PNG\r\n\x1a\n", 8, -EDOM, "a PNG image" }, { "RIFF\1\2\3\4WAVE", 12, -EDOM, "WAV audio" },
        { "fLaC....", 8, -EDOM, "FLAC audio" }, { "OggS....", 8, -EDOM, "Ogg audio" },
        { "", 0, -EBADMSG, "not a .npy file: the file is empty" },
        { "hello, world", 12, -EBADMSG, "of an unknown kind" },
        { "8BPS......", 10, -EBADMSG, "a Photoshop image" },
        { "GIF89a....", 10, -EDOM, "a GIF image" }, { "PK\3\4, a .npz", 12, -EBADMSG, "a zip file" },
        { "\x93NUMPY\1", 7, -EBADMSG, "not a .npy file: the file is cut short" },
        { "\x93NUM", 4, -EBADMSG, "unknown kind" },
    };
    decode_tensor_t decode = s_array (DTYPE_FLOAT32, 1, (const uint32_t []) { 2 });
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        memcpy (file.bytes, cases [index].bytes, cases [index].size);
        file.size = cases [index].size;
        s_expect (cases [index].rc, &decode, &file, cases [index].fragment);
    }
}

static void
test_headers_that_are_none (void **state)
{
    (void) state;
    static file_t file;
    static const char *const headers [] = {
        "", "{}", "{", "nonsense", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [2]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        ("{'descr': '<f4', 'fortran_order': False, 'shape': "
            "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2)}"),
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': false, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} {",
        "{'descr': '<f4', 'fortran_order': False 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", "{,}", "{'descr'}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4\\x00', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '\xff', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,",
        "{'descr': '<f4<f4<f4<f4<f4<f4<f4<f4<f4', 'fortran_order': False, 'shape': (2,)}",
    };
    decode_tensor_t decode = s_array (DTYPE_FLOAT32, 1, (const uint32_t []) { 2 });
    for (size_t index = 0; index < sizeof headers / sizeof *headers; index++) {
        s_begin (&file, 1, headers [index]);
        memset (file.bytes + file.size, 0, 8);
        file.size += 8;
        s_expect (-EBADMSG, &decode, &file, "header that is not understood");
    }
    static const struct { const char *bytes; size_t size; const char *fragment; } prefixes [] = {
        { "", 0, "not a .npy file" }, { "\x93NUMPY\1", 7, "not a .npy file" },
        { "\x93NUMPZ\1\0\2\0{}", 12, "not a .npy" },
        { "PK\3\4, a .npz", 12, "not a .npy" }, { "\x93NUMPY\4\0\2\0\0\0{}", 14, ".npy format 4.0" },
        { "\x93NUMPY\0\0\2\0{}", 12, ".npy format 0.0" }, { "\x93NUMPY\1\1\2\0{}", 12, ".npy format 1.1" },
        { "\x93NUMPY\1\0\3\0{}", 12, "ends in the header" }, { "\x93NUMPY\2\0\2\0{}", 12, "header of " },
        { "\x93NUMPY\2\0\2\0", 10, "ends in the header" },
        { "\x93NUMPY\2\0\xff\xff\xff\xff{}", 14, "header of 4294967295 bytes" },
    };
    for (size_t index = 0; index < sizeof prefixes / sizeof *prefixes; index++) {
        memcpy (file.bytes, prefixes [index].bytes, prefixes [index].size);
        file.size = prefixes [index].size;
        s_expect (-EBADMSG, &decode, &file, prefixes [index].fragment);
    }
}

//  A file of every length below the whole, and damage anywhere: an answer, in bounds.
static void
test_damage (void **state)
{
    (void) state;
    static file_t file, damaged;
    char error [ERROR_BYTES];
    uint8_t target [24];
    uint64_t random = test_seed ();
    decode_tensor_t decode = s_array (DTYPE_INT16, 3, (const uint32_t []) { 3, 2, 2 });
    s_begin (&file, 1, "{'descr': '>i2', 'fortran_order': True, 'shape': (3, 2, 2), }      \n");
    size_t items_at = file.size;
    file.size += 24;
    for (size_t size = 0; size < file.size; size++) {
        assert_int_equal (s_read (&decode, file.bytes, size, target, sizeof target, error), -EBADMSG);
        assert_non_null (strstr (error,
            size < 8? "not a .npy file": size < items_at? "ends in the header": " of 24 bytes"));
    }
    for (int round = 0; round < 20000; round++) {
        damaged = file;
        for (int times = 1 + round % 3; times > 0; times--)
            damaged.bytes [test_below (&random, items_at)] = (uint8_t) (round % 2? test_below (&random, 256):
                (uint64_t) "0123456789'\"{}(),:<>|LTF " [test_below (&random, 25)]);
        (void) s_read (&decode, damaged.bytes, damaged.size, target, sizeof target, error);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_bytes),
        cmocka_unit_test (test_headers_as_numpy_writes_them),
        cmocka_unit_test (test_every_dtype_and_order),
        cmocka_unit_test (test_ragged_arrays),
        cmocka_unit_test (test_ragged_bytes),
        cmocka_unit_test (test_ragged_other_than_declared),
        cmocka_unit_test (test_other_than_declared),
        cmocka_unit_test (test_other_kinds),
        cmocka_unit_test (test_headers_that_are_none),
        cmocka_unit_test (test_damage),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
