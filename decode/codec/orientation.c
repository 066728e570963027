#include "orientation.h"
#include <assert.h>
#include <string.h>
#include "instrument.h"

//  ---------------------------------------------------------------------------------------------------------
//  The number: TIFF's header -> its first directory -> the entry.  In all as Pillow walks it, also where it
//  stops.

enum { HEADER_BYTES = 8, ENTRY_BYTES = 12, INLINE_BYTES = 4, TAG_ORIENTATION = 0x0112, TAG_XMP = 700,
    PREFIX_BYTES = 6 };

typedef struct {
    const uint8_t *bytes;
    size_t size;
    bool big_endian;
} tiff_t;

//  A number of count bytes (at most 4 are kept); they are there.
static uint32_t
s_number (const tiff_t *self, size_t at, size_t count)
{
    uint32_t number = 0;
    for (size_t index = 0; index < count; index++)
        number = number << 8 | self->bytes [self->big_endian? at + index: at + count - 1 - index];
    return number;
}

static bool
s_open (tiff_t *self, const uint8_t *exif, size_t size)
{
    if (exif && size >= PREFIX_BYTES && memcmp (exif, "Exif\0", PREFIX_BYTES) == 0) {
        exif += PREFIX_BYTES;
        size -= PREFIX_BYTES;
    }
    if (!exif || size < HEADER_BYTES)
        return false;
    *self = (tiff_t) { exif, size, exif [0] == 'M' };
    //  Both orders of 42 are met in either kind, and read.
    return (memcmp (exif, "II", 2) == 0 || memcmp (exif, "MM", 2) == 0)
        && (memcmp (exif + 2, "\0*", 2) == 0 || memcmp (exif + 2, "*\0", 2) == 0);
}

//  Bytes of a value of each TIFF type; 0: unknown, the entry is stepped over.
static const uint8_t s_type_bytes [] = { 0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8 };
enum { TYPES = sizeof s_type_bytes, TYPE_BYTE = 1, TYPE_SHORT = 3, TYPE_LONG = 4,
    TYPE_SIGNED_BYTE = 6, TYPE_UNDEFINED = 7, TYPE_SIGNED_SHORT = 8, TYPE_SIGNED_LONG = 9, TYPE_IFD = 13 };

static bool
s_is_whole (uint32_t type)
{
    return type == TYPE_SHORT || type == TYPE_LONG || type == TYPE_SIGNED_BYTE || type == TYPE_SIGNED_SHORT
        || type == TYPE_SIGNED_LONG || type == TYPE_IFD;
}

//  What an entry of a directory says: where its value lies, which is not empty.
typedef struct {
    uint32_t type;
    size_t unit_bytes;
    size_t value;
    size_t bytes;
} entry_t;

//  Looks at the entry at at; false: its value is not in the block, and no further entry counts.
static bool
s_read_entry (const tiff_t *self, size_t at, uint32_t tag, entry_t *found)
{
    uint32_t type = s_number (self, at + 2, 2);
    size_t unit_bytes = type < TYPES? s_type_bytes [type]: 0;
    uint64_t bytes = (uint64_t) unit_bytes * s_number (self, at + 4, 4);
    if (bytes == 0)
        return true;
    size_t value = at + 8;
    if (bytes > INLINE_BYTES) {
        value = s_number (self, value, 4);
        if (value > self->size || bytes > self->size - value)
            return false;
    }
    if (s_number (self, at, 2) == tag)
        *found = (entry_t) { type, unit_bytes, value, (size_t) bytes };
    return true;
}

//  The last entry of that tag in the first directory; false: there is none.
static bool
s_find (const tiff_t *self, uint32_t tag, entry_t *found)
{
    size_t at = s_number (self, 4, 4);
    *found = (entry_t) { 0, 0, 0, 0 };
    if (at + 2 > self->size)
        return false;
    uint32_t entries = s_number (self, at, 2);
    for (at += 2; entries > 0 && at + ENTRY_BYTES <= self->size; entries--, at += ENTRY_BYTES)
        if (!s_read_entry (self, at, tag, found))
            break;
    return found->bytes > 0;
}

//  -- XMP: a text in which Pillow looks for one pattern: tiff:Orientation(="|>)([0-9])

static uint32_t
s_xmp_number (image_block_t xmp)
{
    static const char name [] = "tiff:Orientation";
    enum { NAME_BYTES = sizeof name - 1 };
    if (!xmp.bytes)
        return 1;
    const uint8_t *at = xmp.bytes, *end = at + xmp.size;
    while ((at = memmem (at, (size_t) (end - at), name, NAME_BYTES))) {
        at += NAME_BYTES;
        size_t left = (size_t) (end - at);
        size_t mark = left >= 2 && memcmp (at, "=\"", 2) == 0? 2: left >= 1 && *at == '>'? 1: 0;
        if (mark > 0 && left > mark && at [mark] >= '0' && at [mark] <= '9')
            return (uint32_t) (at [mark] - '0');
    }
    return 1;
}

uint32_t
orientation_number (image_block_t exif, image_block_t xmp)
{
    tiff_t tiff;
    entry_t entry;
    uint32_t number = 1;
    if (!s_open (&tiff, exif.bytes, exif.size) || !s_find (&tiff, TAG_ORIENTATION, &entry))
        number = s_xmp_number (xmp);
    else
    if (s_is_whole (entry.type))
        number = s_number (&tiff, entry.value, entry.unit_bytes);
    return number >= 2 && number <= 8? number: 1;
}

image_block_t
orientation_tiff_xmp (image_block_t file)
{
    tiff_t tiff;
    entry_t entry;
    bool has = s_open (&tiff, file.bytes, file.size) && s_find (&tiff, TAG_XMP, &entry)
        && (entry.type == TYPE_BYTE || entry.type == TYPE_UNDEFINED);
    return has? (image_block_t) { tiff.bytes + entry.value, entry.bytes }: (image_block_t) { NULL, 0 };
}

//  ---------------------------------------------------------------------------------------------------------
//  Turning

orientation_t
orientation_of_number (uint32_t number)
{
    static const orientation_t orientations [] = {
        [2] = { .across = true }, [3] = { .down = true, .across = true }, [4] = { .down = true },
        [5] = { .swaps = true }, [6] = { .down = true, .swaps = true },
        [7] = { .down = true, .across = true, .swaps = true }, [8] = { .across = true, .swaps = true },
    };
    if (number >= sizeof orientations / sizeof *orientations)
        return orientations [0];
    return orientations [number];
}

image_box_t
orientation_stored_box (orientation_t self, const image_box_t *turned, uint32_t height, uint32_t width)
{
    image_box_t box = *turned;
    if (self.swaps)
        box = (image_box_t) { turned->left, turned->top, turned->width, turned->height };
    if (self.down)
        box.top = height - box.top - box.height;
    if (self.across)
        box.left = width - box.left - box.width;
    return box;
}

//  The pixels of a row of target come one step apart in the source.
static INSTRUMENT_ROWS void
s_turn_row (const uint8_t *source, ptrdiff_t step, uint32_t width, uint32_t channels, uint8_t *target)
{
    instrument_written (target, image_bytes (1, width, channels));
    if (channels == 1)
        for (uint32_t column = 0; column < width; column++, source += step)
            *target++ = *source;
    else
    if (channels == IMAGE_WIDE)
        for (uint32_t column = 0; column < width; column++, source += step, target += IMAGE_WIDE)
            memcpy (target, source, IMAGE_WIDE);
    else
        for (uint32_t column = 0; column < width; column++, source += step, target += IMAGE_COLOURS) {
            target [0] = source [0];
            target [1] = source [1];
            target [2] = source [2];
        }
}

//  Columns that become rows are done in pieces of so many pixels, row after row of the target, so that the
//  lines of the source that one row brings into the cache serve the next ones.
enum { PIECE = 64 };

void
orientation_turn (orientation_t self, const image_t *stored, uint8_t *target, size_t target_stride)
{
    assert (stored->channels > 0 && stored->channels <= IMAGE_COLOURS);
    ptrdiff_t down = (ptrdiff_t) stored->stride, across = (ptrdiff_t) stored->channels;
    const uint8_t *first = image_at (stored, self.down? stored->height - 1: 0,
        self.across? stored->width - 1: 0);
    ptrdiff_t row_step = self.down? -down: down, column_step = self.across? -across: across;
    uint32_t height = stored->height, width = stored->width, piece = width;
    if (self.swaps) {
        ptrdiff_t step = row_step;
        row_step = column_step;
        column_step = step;
        height = stored->width;
        width = stored->height;
        piece = PIECE;
    }
    for (uint32_t column = 0; column < width; column += piece) {
        uint32_t count = width - column < piece? width - column: piece;
        for (uint32_t row = 0; row < height; row++)
            s_turn_row (first + (ptrdiff_t) row * row_step + (ptrdiff_t) column * column_step, column_step,
                count, stored->channels, target + row * target_stride + (size_t) column * stored->channels);
    }
}
