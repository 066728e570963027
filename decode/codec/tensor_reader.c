#include "tensor_reader.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "instrument.h"
#include "file_kind.h"

//  Of .npy; NumPy's own bounds on a header's length and on dimensions.
enum { PREFIX_BYTES = 8, HEADER_BYTES_MAX = 10000, DIMENSIONS_MAX = 32, DESCR_BYTES = 24,
    SHAPE_TEXT_BYTES = 100 };
enum { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, KEYS = KEY_DESCR | KEY_ORDER | KEY_SHAPE };

//  Where a reason goes.
typedef struct {
    char *text;
    size_t bytes;
} reason_t;

//  What a .npy header says: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
typedef struct {
    const char *at;                     //  what is left of its text
    const char *end;
    unsigned keys;                      //  that have come, each once
    char descr [DESCR_BYTES];
    bool is_fortran;
    uint32_t dimensions;
    uint64_t shape [DIMENSIONS_MAX];
} header_t;

//  NumPy's kinds of items; the order of bytes goes before them.
static const struct { const char *kind; dtype_t dtype; } s_kinds [] = {
    { "u1", DTYPE_UINT8 }, { "i1", DTYPE_INT8 }, { "u2", DTYPE_UINT16 }, { "i2", DTYPE_INT16 },
    { "u4", DTYPE_UINT32 }, { "i4", DTYPE_INT32 }, { "u8", DTYPE_UINT64 }, { "i8", DTYPE_INT64 },
    { "f2", DTYPE_FLOAT16 }, { "f4", DTYPE_FLOAT32 }, { "f8", DTYPE_FLOAT64 },
    { "b1", DTYPE_BOOL }
};

static int s_bad (const reason_t *reason, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
static int s_unsuitable (const reason_t *reason, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

static int
s_bad (const reason_t *reason, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (reason->text, reason->bytes, format, arguments);
    va_end (arguments);
    return -EBADMSG;
}

static int
s_unsuitable (const reason_t *reason, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (reason->text, reason->bytes, format, arguments);
    va_end (arguments);
    return -EDOM;
}

//  Not the kind that was expected.  What is read as another one is as good as it was.
static int
s_is_other (const reason_t *reason, const char *complaint, file_kind_t expected, const uint8_t *bytes,
    size_t size)
{
    const char *name;
    file_kind_t kind = file_kind (bytes, size, &name);
    if (kind == FILE_KIND_OTHER || kind == expected)
        return s_bad (reason, "%s: the file is %s", complaint, kind == expected? "cut short": name);
    return s_unsuitable (reason, "%s: the file is %s", complaint, name);
}

//  How many of the rows that there are go into a sample; 0, or the complaint.
static int
s_take_rows (const decode_tensor_t *decode, uint64_t found, uint32_t *rows_p, const reason_t *reason)
{
    uint32_t most = decode->shape [0];
    bool is_bytes = decode->as == DECODE_BYTES;
    *rows_p = found < most? (uint32_t) found: most;
    if (found <= most || decode->truncates)
        return 0;
    return s_unsuitable (reason, "%llu %s, more than the %u that \"%s\" allows; a larger one takes them all, "
        "\"truncate\": true the first", (unsigned long long) found, is_bytes? "bytes": "rows", most,
        is_bytes? "length": "shape");
}

int
tensor_reader_bytes (const decode_tensor_t *decode, const uint8_t *bytes, size_t size, uint8_t *target,
    uint32_t *rows_p, char *error, size_t error_bytes)
{
    assert (decode && decode->as == DECODE_BYTES && (bytes || !size) && target && rows_p);
    assert (error && error_bytes > 0);
    reason_t reason = { error, error_bytes };
    *error = 0;
    *rows_p = decode->shape [0];
    if (decode->is_ragged) {
        int rc = s_take_rows (decode, size, rows_p, &reason);
        if (rc)
            return rc;
        if (*rows_p)
            memcpy (target, bytes, *rows_p);
        memset (target + *rows_p, 0, decode->shape [0] - *rows_p);
        return 0;
    }
    if (size == 0)
        return s_bad (&reason, "0 bytes instead of %u", decode->shape [0]);
    if (size != decode->shape [0])
        return s_unsuitable (&reason, "%zu bytes instead of %u", size, decode->shape [0]);
    memcpy (target, bytes, size);
    return 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  The header's text: a literal of Python, of which only what NumPy writes is taken

static void
s_skip_space (header_t *self)
{
    while (self->at < self->end && strchr (" \t\n\f\r", *self->at) && *self->at)
        self->at++;
}

//  Whether the next thing is this one; it is taken then.
static bool
s_take (header_t *self, const char *word)
{
    s_skip_space (self);
    size_t length = strlen (word);
    if ((size_t) (self->end - self->at) < length || memcmp (self->at, word, length))
        return false;
    self->at += length;
    return true;
}

//  Text in quotes, of printable ASCII without escapes, that has room in target.
static bool
s_take_text (header_t *self, char *target, size_t target_bytes)
{
    char quote = s_take (self, "'")? '\'': s_take (self, "\"")? '"': 0;
    size_t length = 0;
    for (; quote && self->at < self->end && *self->at != quote; self->at++) {
        char letter = *self->at;
        if (letter < ' ' || letter > '~' || letter == '\\' || length + 1 == target_bytes)
            return false;
        target [length++] = letter;
    }
    target [length] = 0;
    return quote && self->at++ < self->end;
}

//  As Python 2 wrote some: 3L.
static bool
s_take_number (header_t *self, uint64_t *number_p)
{
    s_skip_space (self);
    const char *first = self->at;
    uint64_t number = 0;
    for (; self->at < self->end && *self->at >= '0' && *self->at <= '9'; self->at++) {
        if (number > (INT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t) (*self->at - '0');
    }
    *number_p = number;
    bool any = self->at > first;
    s_take (self, "L");
    return any;
}

//  A tuple: () or (3,) or (3, 4) or (3, 4,).
static bool
s_take_shape (header_t *self)
{
    if (!s_take (self, "("))
        return false;
    bool has_comma = true;
    for (self->dimensions = 0; !s_take (self, ")"); self->dimensions++) {
        if (!has_comma || self->dimensions == DIMENSIONS_MAX
        ||  !s_take_number (self, &self->shape [self->dimensions]))
            return false;
        has_comma = s_take (self, ",");
    }
    return has_comma || self->dimensions > 1;
}

//  One pair; each key comes once.
static bool
s_take_pair (header_t *self)
{
    char name [DESCR_BYTES];
    if (!s_take_text (self, name, sizeof name) || !s_take (self, ":"))
        return false;
    unsigned key = !strcmp (name, "descr")? KEY_DESCR: !strcmp (name, "fortran_order")? KEY_ORDER:
        !strcmp (name, "shape")? KEY_SHAPE: 0;
    if (!key || self->keys & key)
        return false;
    self->keys |= key;
    if (key == KEY_DESCR)
        return s_take_text (self, self->descr, sizeof self->descr);
    if (key == KEY_SHAPE)
        return s_take_shape (self);
    self->is_fortran = s_take (self, "True");
    return self->is_fortran || s_take (self, "False");
}

static bool
s_take_header (header_t *self)
{
    if (!s_take (self, "{"))
        return false;
    bool has_comma = true;
    while (!s_take (self, "}")) {
        if (!has_comma || !s_take_pair (self))
            return false;
        has_comma = s_take (self, ",");
    }
    s_skip_space (self);
    return self->at == self->end && self->keys == KEYS;
}

//  ---------------------------------------------------------------------------------------------------------
//  A .npy: prefix -> header -> is it what was declared -> items

//  The header's text and where the items begin; 0, or the complaint.
static int
s_find_header (const uint8_t *bytes, size_t size, header_t *header, size_t *items_at_p,
    const reason_t *reason)
{
    if (size < PREFIX_BYTES || memcmp (bytes, "\x93NUMPY", 6))
        return s_is_other (reason, "not a .npy file", FILE_KIND_ARRAY, bytes, size);
    if (bytes [6] < 1 || bytes [6] > 3 || bytes [7] != 0)
        return s_bad (reason, ".npy format %d.%d instead of 1.0 to 3.0", bytes [6], bytes [7]);
    size_t length_bytes = bytes [6] == 1? 2: 4, length = 0, at = PREFIX_BYTES + length_bytes;
    if (size < at)
        return s_bad (reason, "truncated .npy: it ends in the header");
    for (size_t index = length_bytes; index-- > 0;)
        length = length << 8 | bytes [PREFIX_BYTES + index];
    if (length > HEADER_BYTES_MAX)
        return s_bad (reason, ".npy with a header of %zu bytes, above the limit of %d", length,
            HEADER_BYTES_MAX);
    if (length > size - at)
        return s_bad (reason, "truncated .npy: it ends in the header");
    header->at = (const char *) bytes + at;
    header->end = header->at + length;
    *items_at_p = at + length;
    return 0;
}

//  DTYPES: none that is known.
static dtype_t
s_dtype (const char *descr)
{
    if (!*descr || !strchr ("<>=|", *descr))
        return DTYPES;
    for (size_t index = 0; index < sizeof s_kinds / sizeof *s_kinds; index++)
        if (!strcmp (descr + 1, s_kinds [index].kind))
            return s_kinds [index].dtype;
    return DTYPES;
}

//  As Python writes it, cut short where there are very many dimensions.
static const char *
s_shape_text (const uint64_t *shape, uint32_t dimensions, char text [SHAPE_TEXT_BYTES])
{
    size_t length = 0;
    text [0] = 0;
    for (uint32_t index = 0; index < dimensions && length < SHAPE_TEXT_BYTES; index++)
        length += (size_t) snprintf (text + length, SHAPE_TEXT_BYTES - length, "%s%llu", index? ", ": "",
            (unsigned long long) shape [index]);
    if (dimensions == 1)
        strcat (text, ",");
    return text;
}

//  "(512, 4)"; of a ragged one "(up to 512, 4)".
static const char *
s_declared_text (const decode_tensor_t *decode, char text [SHAPE_TEXT_BYTES])
{
    uint64_t shape [PIPELINE_DIMENSIONS_MAX];
    for (uint32_t index = 0; index < decode->dimensions; index++)
        shape [index] = decode->shape [index];
    char numbers [SHAPE_TEXT_BYTES];
    snprintf (text, SHAPE_TEXT_BYTES, "%s%.80s", decode->is_ragged? "up to ": "",
        s_shape_text (shape, decode->dimensions, numbers));
    return text;
}

static int
s_check_declared (const decode_tensor_t *decode, const header_t *header, const reason_t *reason)
{
    dtype_t dtype = s_dtype (header->descr);
    const char *expected = dtype_name (decode->dtype);
    if (dtype == DTYPES)
        return s_unsuitable (reason, "dtype '%s' instead of %s", header->descr, expected);
    if (dtype != decode->dtype)
        return s_unsuitable (reason, "dtype %s instead of %s", dtype_name (dtype), expected);
    bool is_same = header->dimensions == decode->dimensions;
    for (uint32_t index = decode->is_ragged; is_same && index < decode->dimensions; index++)
        is_same = header->shape [index] == decode->shape [index];
    char found [SHAPE_TEXT_BYTES], declared [SHAPE_TEXT_BYTES];
    return is_same? 0: s_unsuitable (reason, "shape (%s) instead of (%s)",
        s_shape_text (header->shape, header->dimensions, found), s_declared_text (decode, declared));
}

//  Items of which the file has another order: of the bytes in an item, or of the items themselves.  Shapes
//  with fewer dimensions than PIPELINE_DIMENSIONS_MAX have sides of one in front.
typedef struct {
    size_t item_bytes;
    bool is_swapped;
    uint32_t shape [PIPELINE_DIMENSIONS_MAX];       //  of what is taken
    size_t strides [PIPELINE_DIMENSIONS_MAX];       //  in the file, in bytes
} order_t;

//  Of rows rows, the first in the file.
static order_t
s_order (const decode_tensor_t *decode, const header_t *header, uint32_t rows)
{
    bool is_little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    order_t order = { .item_bytes = dtype_bytes (decode->dtype) };
    order.is_swapped = order.item_bytes > 1 && *header->descr == (is_little? '>': '<');
    uint32_t ahead = PIPELINE_DIMENSIONS_MAX - decode->dimensions;
    for (uint32_t index = 0; index < PIPELINE_DIMENSIONS_MAX; index++)
        order.shape [index] = index < ahead? 1: (uint32_t) header->shape [index - ahead];
    size_t stride = order.item_bytes;
    for (uint32_t step = 0; step < PIPELINE_DIMENSIONS_MAX; step++) {
        uint32_t index = header->is_fortran? step: PIPELINE_DIMENSIONS_MAX - 1 - step;
        order.strides [index] = stride;
        stride *= order.shape [index];
    }
    order.shape [ahead] = rows;
    return order;
}

//  Those of the last dimension, which lie side by side in target.
INSTRUMENT_ROWS static void
s_gather_run (const order_t *order, const uint8_t *source, uint8_t *target)
{
    size_t bytes = order->item_bytes, count = order->shape [PIPELINE_DIMENSIONS_MAX - 1];
    size_t stride = order->strides [PIPELINE_DIMENSIONS_MAX - 1], last = order->is_swapped? bytes - 1: 0;
    for (size_t item = 0; item < count; item++)
        for (size_t index = 0; index < bytes; index++)
            target [item * bytes + index] = source [item * stride + (last? last - index: index)];
    instrument_written (target, count * bytes);
}

static void
s_gather (const order_t *order, const uint8_t *source, uint8_t *target)
{
    _Static_assert (PIPELINE_DIMENSIONS_MAX == 4, "three loops and that of s_gather_run");
    size_t run_bytes = order->item_bytes * order->shape [3];
    for (size_t first = 0; first < order->shape [0]; first++)
        for (size_t second = 0; second < order->shape [1]; second++)
            for (size_t third = 0; third < order->shape [2]; third++, target += run_bytes)
                s_gather_run (order, source + first * order->strides [0] + second * order->strides [1]
                    + third * order->strides [2], target);
}

//  The file's items from items_at on to target, which has zeros behind the rows that are taken.
static int
s_read_items (const decode_tensor_t *decode, const header_t *header, const uint8_t *items, size_t size,
    uint8_t *target, uint32_t *rows_p, const reason_t *reason)
{
    size_t row_bytes = dtype_bytes (decode->dtype), needed = 0;
    for (uint32_t index = 1; index < decode->dimensions; index++)
        row_bytes *= decode->shape [index];
    //  What stands behind the array is not looked at, as numpy.load does not: files may hold several.
    if (__builtin_mul_overflow (row_bytes, header->shape [0], &needed) || size < needed)
        return s_bad (reason, "truncated .npy: %zu of %zu bytes", size, needed);
    int rc = s_take_rows (decode, header->shape [0], rows_p, reason);
    if (rc)
        return rc;
    order_t order = s_order (decode, header, *rows_p);
    size_t taken = *rows_p * row_bytes;
    if (header->is_fortran || order.is_swapped)
        s_gather (&order, items, target);
    else if (taken)
        memcpy (target, items, taken);
    memset (target + taken, 0, decode->shape [0] * row_bytes - taken);
    return 0;
}

int
tensor_reader_array (const decode_tensor_t *decode, const uint8_t *bytes, size_t size, uint8_t *target,
    uint32_t *rows_p, char *error, size_t error_bytes)
{
    assert (decode && (decode->as == DECODE_ARRAY || decode->as == DECODE_BOXES));
    assert ((bytes || !size) && target && rows_p);
    assert (error && error_bytes > 0);
    assert (decode->dimensions >= 1 && decode->dimensions <= PIPELINE_DIMENSIONS_MAX);
    reason_t reason = { error, error_bytes };
    header_t header = { .keys = 0 };
    size_t items_at = 0;
    *error = 0;
    int rc = s_find_header (bytes, size, &header, &items_at, &reason);
    if (rc)
        return rc;
    if (!s_take_header (&header))
        return s_bad (&reason, ".npy with a header that is not understood (structured dtypes are not read)");
    rc = s_check_declared (decode, &header, &reason);
    return rc? rc: s_read_items (decode, &header, bytes + items_at, size - items_at, target, rows_p, &reason);
}

//  ---------------------------------------------------------------------------------------------------------
//  Audio, where the build has it

int
tensor_reader_audio (const decode_tensor_t *decode, uint32_t length, double place, const uint8_t *bytes,
    size_t size, uint8_t *target, char *error, size_t error_bytes)
{
    assert (decode && decode->as == DECODE_AUDIO && length > 0 && place < 1);
    assert ((bytes || !size) && target && error && error_bytes > 0);
    *error = 0;
    reason_t reason = { error, error_bytes };
    const char *name;
    if (file_kind (bytes, size, &name) != FILE_KIND_AUDIO)
        return s_is_other (&reason, "none of " TENSOR_READER_AUDIO_FORMATS, FILE_KIND_AUDIO, bytes, size);
#ifdef TUREEN_SNDFILE
    return tensor_reader_excerpt (decode, length, place, bytes, size, target, error, error_bytes);
#else
    return s_unsuitable (&reason, "this server was built without libsndfile: it reads no audio");
#endif
}
