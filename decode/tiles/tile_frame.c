#include "tile_frame.h"
#include <string.h>
#include "decode_limits.h"

enum {
    MARKER_SOF0 = 0xc0, MARKER_SOF1 = 0xc1, MARKER_DHT = 0xc4, MARKER_JPG = 0xc8, MARKER_DAC = 0xcc,
        MARKER_SOF15 = 0xcf,
    MARKER_RST0 = 0xd0, MARKER_RST7 = 0xd7, MARKER_SOI = 0xd8, MARKER_EOI = 0xd9, MARKER_SOS = 0xda,
        MARKER_DQT = 0xdb,
    MARKER_DRI = 0xdd, MARKER_APP0 = 0xe0, MARKER_APP1 = 0xe1, MARKER_APP14 = 0xee, MARKER_TEM = 0x01
};
//  Offsets in a frame's header, from its marker; and how much each component takes there and in a scan's
//  header.
enum { FRAME_PRECISION = 4, FRAME_HEIGHT = 5, FRAME_WIDTH = 7, FRAME_COUNT = 9, FRAME_FIRST = 10 };
enum { FRAME_COMPONENT_BYTES = 3 };
enum { SCAN_COUNT = 4, SCAN_FIRST = 5, SCAN_COMPONENT_BYTES = 2, SCAN_END_BYTES = 3, LAST_COEFFICIENT = 63 };
enum { BLOCK = 8, SAMPLING_MAX = 4, MCU_BLOCKS_MAX = 10, BITS = 8, SEGMENT_HEAD_BYTES = 4 };

//  A marker with its length and content: size counts all of them.
typedef struct {
    const uint8_t *bytes;
    size_t at;
    size_t size;
    uint8_t code;
} segment_t;

typedef struct {
    tile_frame_t *frame;
    uint8_t ids [TILE_COMPONENTS_MAX];
    uint32_t components;        //  0: no frame's header yet
    const char *reason;
} reading_t;

static uint32_t
s_big_16 (const uint8_t *bytes)
{
    return (uint32_t) bytes [0] << 8 | bytes [1];
}

static bool
s_refuse (reading_t *self, const char *reason)
{
    self->reason = reason;
    return false;
}

//  ---- what each marker says

static bool
s_keep (reading_t *self, const segment_t *segment)
{
    tile_frame_t *frame = self->frame;
    if (frame->piece_count == TILE_PIECES_MAX)
        return s_refuse (self, "more markers than a window takes along");
    frame->pieces [frame->piece_count++] = (tile_piece_t) { segment->at, segment->size };
    return true;
}

//  Sampling of all components: the size of an MCU.  A single component has MCUs of one block, whatever it
//  says.
static bool
s_read_sampling (reading_t *self, const uint8_t *component)
{
    tile_frame_t *frame = self->frame;
    uint32_t across_max = 0, down_max = 0, across_min = SAMPLING_MAX, down_min = SAMPLING_MAX, blocks = 0;
    for (uint32_t index = 0; index < self->components; index++, component += FRAME_COMPONENT_BYTES) {
        uint32_t across = component [1] >> 4, down = component [1] & 15;
        if (across < 1 || across > SAMPLING_MAX || down < 1 || down > SAMPLING_MAX)
            return s_refuse (self, "sampling factors that do not exist");
        self->ids [index] = component [0];
        across_max = across > across_max? across: across_max;
        across_min = across < across_min? across: across_min;
        down_max = down > down_max? down: down_max;
        down_min = down < down_min? down: down_min;
        blocks += across * down;
    }
    if (self->components > 1 && blocks > MCU_BLOCKS_MAX)
        return s_refuse (self, "more blocks than an MCU may have");
    frame->mixed_across = across_min != across_max;
    frame->mixed_down = down_min != down_max;
    frame->mcu_width = self->components > 1? across_max * BLOCK: BLOCK;
    frame->mcu_height = self->components > 1? down_max * BLOCK: BLOCK;
    frame->columns = (frame->width + frame->mcu_width - 1) / frame->mcu_width;
    frame->rows = (frame->height + frame->mcu_height - 1) / frame->mcu_height;
    return true;
}

static bool
s_read_frame (reading_t *self, const segment_t *segment)
{
    tile_frame_t *frame = self->frame;
    if (self->components || segment->size < FRAME_FIRST)
        return s_refuse (self, "a damaged frame header");
    if (segment->code > MARKER_SOF1 || segment->bytes [FRAME_PRECISION] != BITS)
        return s_refuse (self, "not sequential, Huffman-coded, of 8 bits");
    frame->height = s_big_16 (segment->bytes + FRAME_HEIGHT);
    frame->width = s_big_16 (segment->bytes + FRAME_WIDTH);
    self->components = segment->bytes [FRAME_COUNT];
    if (self->components != 1 && self->components != 3 && self->components != 4)
        return s_refuse (self, "neither grey, colour nor CMYK");
    if (segment->size != FRAME_FIRST + (size_t) FRAME_COMPONENT_BYTES * self->components)
        return s_refuse (self, "a damaged frame header");
    if (!frame->height || !frame->width || (uint64_t) frame->height * frame->width > DECODER_PIXELS_MAX)
        return s_refuse (self, "no pixels, or more than the limit");
    frame->frame_piece = frame->piece_count;
    return s_read_sampling (self, segment->bytes + FRAME_FIRST) && s_keep (self, segment);
}

static bool
s_read_interval (reading_t *self, const segment_t *segment)
{
    if (segment->size != SEGMENT_HEAD_BYTES + 2)
        return s_refuse (self, "a damaged restart interval");
    self->frame->interval = s_big_16 (segment->bytes + SEGMENT_HEAD_BYTES);
    return true;
}

//  The scan: all components, in the frame's order, all coefficients.
static bool
s_read_scan (reading_t *self, const segment_t *segment)
{
    tile_frame_t *frame = self->frame;
    size_t count = self->components, end = SCAN_FIRST + SCAN_COMPONENT_BYTES * count;
    if (!count || segment->size != end + SCAN_END_BYTES || segment->bytes [SCAN_COUNT] != count)
        return s_refuse (self, "a scan that does not hold all components");
    for (size_t index = 0; index < count; index++)
        if (segment->bytes [SCAN_FIRST + SCAN_COMPONENT_BYTES * index] != self->ids [index])
            return s_refuse (self, "a scan that does not hold all components");
    const uint8_t *bands = segment->bytes + end;
    if (bands [0] != 0 || bands [1] != LAST_COEFFICIENT || bands [2] != 0)
        return s_refuse (self, "a scan that does not hold all coefficients");
    if (!frame->interval || frame->columns % frame->interval)
        return s_refuse (self, "no restart interval that divides a row");
    frame->scan = segment->at + segment->size;
    return s_keep (self, segment);
}

//  Markers of applications that a decoder looks at for the colours.
static bool
s_read_application (reading_t *self, const segment_t *segment)
{
    const uint8_t *content = segment->bytes + SEGMENT_HEAD_BYTES;
    size_t size = segment->size - SEGMENT_HEAD_BYTES;
    bool is_jfif = segment->code == MARKER_APP0 && size >= 5 && memcmp (content, "JFIF", 5) == 0;
    bool is_adobe = segment->code == MARKER_APP14 && size >= 5 && memcmp (content, "Adobe", 5) == 0;
    return !(is_jfif || is_adobe) || s_keep (self, segment);
}

static bool
s_read_segment (reading_t *self, const segment_t *segment)
{
    uint8_t code = segment->code;
    if (code == MARKER_DHT || code == MARKER_DQT)
        return s_keep (self, segment);
    if (code == MARKER_DRI)
        return s_read_interval (self, segment);
    if (code == MARKER_SOS)
        return s_read_scan (self, segment);
    if (code == MARKER_JPG || code == MARKER_DAC || code < MARKER_SOF0)
        return s_refuse (self, "a marker that does not belong there");
    if (code <= MARKER_SOF15)
        return s_read_frame (self, segment);
    return code < MARKER_APP0 || s_read_application (self, segment);
}

//  The marker at `at`, which begins with one 0xff: fill bytes are for damaged files.
static bool
s_segment (reading_t *self, const uint8_t *bytes, size_t size, size_t at, segment_t *segment)
{
    if (size - at < SEGMENT_HEAD_BYTES || bytes [at] != 0xff)
        return s_refuse (self, "no marker where one must be");
    *segment = (segment_t) { bytes + at, at, TILE_MARKER_BYTES + s_big_16 (bytes + at + 2), bytes [at + 1] };
    bool stands_alone = segment->code == MARKER_TEM
        || (segment->code >= MARKER_RST0 && segment->code <= MARKER_EOI)
        || segment->code == 0xff;
    if (stands_alone || segment->size < SEGMENT_HEAD_BYTES || segment->size > size - at)
        return s_refuse (self, "a damaged marker");
    return true;
}

bool
tile_frame_read (tile_frame_t *self, const uint8_t *bytes, size_t size, const char **reason_p)
{
    *self = (tile_frame_t) { .interval = 0 };
    reading_t reading = { .frame = self, .reason = "" };
    *reason_p = "no JPEG";
    if (size < TILE_MARKER_BYTES || bytes [0] != 0xff || bytes [1] != MARKER_SOI)
        return false;
    for (size_t at = TILE_MARKER_BYTES; !self->scan;) {
        segment_t segment;
        if (!s_segment (&reading, bytes, size, at, &segment) || !s_read_segment (&reading, &segment)) {
            *reason_p = reading.reason;
            return false;
        }
        at += segment.size;
    }
    return true;
}
