#include "tile_original.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "file_kind.h"
#include "jpeg_recode.h"
#include "marker_walk.h"

enum {
    VERSION = 1, MARKER_KEPT = MARKER_APP_FIRST + 9, SOI_BYTES = 2,
    SEGMENT_BYTES_MAX = 2 + 65535, SEGMENT_HEAD_BYTES = 4,
    SKELETON_BYTES_MAX = 1 << 20,           //  ordinary pictures need a thousandth of that
    TABLES = 2,                             //  of each kind in Annex K
    DEFLATE_BITS = -15, DEFLATE_MEMORY = 9  //  no header; the most that there is
};
static const uint8_t s_signature [] = { 'T', 'u', 'r', 'e', 'e', 'n', 0 };

//  How the coded data are written.
typedef enum {
    METHOD_TABLES,                          //  with the tables that the original has before its first scan
    METHOD_OPTIMAL,                         //  with tables that libjpeg makes for the scan
    METHODS
} method_t;

//  The skeleton's steps: where the next bytes of the original come from.
typedef enum {
    STEP_BYTES = 0,                         //  two bytes say how many follow
    STEP_METADATA = 1,                      //  the tiled file's next metadata segment, the one that we add
                                            //  left out
    STEP_SCAN = 2                           //  the coded data of the next scan
} step_t;

//  What a segment says.
typedef struct {
    uint8_t method;
    uint32_t original_bytes, checksum, skeleton_bytes;
} kept_t;
enum { KEPT_BYTES = sizeof s_signature + 2 + 3 * 4, SCAN_TABLES_BYTES = 4096 };

//  All that one call holds; whatever of it there is goes at the end.
typedef struct {
    jpeg_trouble_t trouble;
    const uint8_t *tiled;                   //  lent
    size_t tiled_bytes;
    size_t at;                              //  where our segment stands in it, or is to
    size_t segment_bytes;                   //  0: there is none yet
    kept_t kept;
    bool is_another_version;
    jpeg_output_t skeleton;
    jpeg_output_t literals;                 //  STEP_BYTES only: the original's header, with nothing in its
                                            //  scans
    jpeg_output_t dictionary;
    jpeg_output_t scans;                    //  a JPEG with the original's coded data
    jpeg_output_t original;
    jpeg_coefficients_t coefficients;
    jpeg_recode_t recode;
    marker_walk_t metadata, coded;          //  how far the steps have taken them
} job_t;

static job_t *
s_begin (const uint8_t *tiled, size_t tiled_bytes, char *error, size_t error_bytes)
{
    assert (error && error_bytes > 0);
    job_t *self = calloc (1, sizeof *self);
    if (!self) {
        snprintf (error, error_bytes, "no memory");
        return NULL;
    }
    jpeg_trouble_init (&self->trouble, error, error_bytes);
    self->tiled = tiled;
    self->tiled_bytes = tiled_bytes;
    jpeg_output_t *outputs [] = { &self->skeleton, &self->literals, &self->dictionary, &self->scans,
        &self->original };
    for (size_t index = 0; index < sizeof outputs / sizeof *outputs; index++)
        jpeg_output_begin (outputs [index], &self->trouble);
    return self;
}

static void
s_free (job_t *self)
{
    jpeg_coefficients_free (&self->coefficients);
    jpeg_recode_free (&self->recode);
    uint8_t *bytes [] = { self->skeleton.bytes, self->literals.bytes, self->dictionary.bytes,
        self->scans.bytes, self->original.bytes };
    for (size_t index = 0; index < sizeof bytes / sizeof *bytes; index++)
        free (bytes [index]);
    free (self);
}

//  The caller gets the same sentence, whatever was wrong (tile_original_restore).
static void
s_require (job_t *self, bool is_right)
{
    if (!is_right)
        jpeg_trouble (&self->trouble, -EBADMSG, "its original does not come back");
}

static uint8_t *
s_put (uint8_t *at, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *at++ = (uint8_t) (number >> shift);
    return at;
}

static uint32_t
s_get (const uint8_t *at)
{
    return (uint32_t) at [0] << 24 | (uint32_t) at [1] << 16 | (uint32_t) at [2] << 8 | at [3];
}

//  ---- our segment in a tiled file

//  Metadata of the tiled file; ours is none.
static bool
s_metadata (const job_t *self, marker_walk_t *walk)
{
    while (marker_walk_metadata (walk))
        if (!self->segment_bytes || walk->segment != self->tiled + self->at)
            return true;
    return false;
}

//  The last one: a file that was tiled already may have had another.
static bool
s_find (job_t *self)
{
    const char *name;
    //  As what is packed: other files have nothing of ours, whatever they hold.
    if (file_kind (self->tiled, self->tiled_bytes, &name) != FILE_KIND_JPEG)
        return false;
    marker_walk_t walk = marker_walk_begin (self->tiled, self->tiled_bytes);
    while (marker_walk_next (&walk) && walk.code != MARKER_SOS) {
        if (walk.code != MARKER_KEPT || walk.segment_bytes < SEGMENT_HEAD_BYTES + KEPT_BYTES
        ||  memcmp (walk.segment + SEGMENT_HEAD_BYTES, s_signature, sizeof s_signature) != 0)
            continue;
        self->at = (size_t) (walk.segment - self->tiled);
        self->segment_bytes = walk.segment_bytes;
    }
    return self->segment_bytes > 0;
}

//  Where it is to be: behind all metadata.
static void
s_find_place (job_t *self)
{
    marker_walk_t walk = marker_walk_begin (self->tiled, self->tiled_bytes);
    self->at = SOI_BYTES;
    while (marker_walk_metadata (&walk) && walk.segment == self->tiled + self->at)
        self->at += walk.segment_bytes;
}

static void
s_read_kept (job_t *self)
{
    const uint8_t *at = self->tiled + self->at + SEGMENT_HEAD_BYTES + sizeof s_signature;
    self->is_another_version = *at != VERSION;
    self->kept = (kept_t) { at [1], s_get (at + 2), s_get (at + 6), s_get (at + 10) };
    const kept_t *kept = &self->kept;
    s_require (self, !self->is_another_version && kept->method < METHODS
        && kept->skeleton_bytes > 0 && kept->skeleton_bytes <= SKELETON_BYTES_MAX
        && kept->original_bytes > 0 && kept->original_bytes <= TILE_ORIGINAL_BYTES_MAX);
}

//  ---- the skeleton

static void
s_step_bytes (job_t *self, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        size_t part = count < UINT16_MAX? count: UINT16_MAX;
        const uint8_t head [] = { STEP_BYTES, (uint8_t) (part >> 8), (uint8_t) part };
        jpeg_output_append (&self->skeleton, head, sizeof head);
        jpeg_output_append (&self->skeleton, bytes, part);
        bytes += part;
        count -= part;
    }
}

static void
s_step (job_t *self, step_t step)
{
    const uint8_t byte = (uint8_t) step;
    jpeg_output_append (&self->skeleton, &byte, 1);
}

//  The next scan's coded data behind walk, which is at a scan's header and goes on to the marker behind;
//  NULL: none is.  Filling bytes before a marker are none of the data.
static const uint8_t *
s_coded (marker_walk_t *walk, size_t *count_p)
{
    size_t begin = walk->at;
    bool more = marker_walk_next (walk);
    if (!more && !walk->ended)
        return NULL;
    size_t end = more? (size_t) (walk->segment - walk->bytes): walk->at - SOI_BYTES;
    while (end > begin && walk->bytes [end - 1] == 0xff)
        end--;
    *count_p = end - begin;
    return walk->bytes + begin;
}

//  False: markers that cannot be told apart.
static bool
s_write_skeleton (job_t *self, const uint8_t *original, size_t original_bytes)
{
    marker_walk_t walk = marker_walk_begin (original, original_bytes);
    const uint8_t *told = original;         //  up to here the steps say
    for (bool more = marker_walk_next (&walk); more;) {
        if (marker_walk_is_metadata (&walk)) {
            s_step_bytes (self, told, (size_t) (walk.segment - told));
            s_step (self, STEP_METADATA);
            told = walk.segment + walk.segment_bytes;
        }
        if (walk.code != MARKER_SOS) {
            more = marker_walk_next (&walk);
            continue;
        }
        size_t count;
        const uint8_t *coded = s_coded (&walk, &count);
        if (!coded)
            return false;
        s_step_bytes (self, told, (size_t) (coded - told));
        s_step (self, STEP_SCAN);
        told = coded + count;
        more = !walk.ended;
    }
    s_step_bytes (self, told, (size_t) (original + walk.at - told));
    return walk.ended && self->skeleton.size <= SKELETON_BYTES_MAX;
}

typedef void step_seen_t (job_t *self, step_t step, const uint8_t *bytes, size_t count);
static void
s_follow (job_t *self, step_seen_t *seen)
{
    const uint8_t *at = self->skeleton.bytes, *end = at + self->skeleton.size;
    while (at < end) {
        uint8_t step = *at++;
        size_t count = 0;
        if (step == STEP_BYTES && end - at >= 2) {
            count = (size_t) (at [0] << 8 | at [1]);
            at += 2;
        }
        s_require (self, step <= STEP_SCAN && (step != STEP_BYTES || count > 0)
            && count <= (size_t) (end - at));
        seen (self, (step_t) step, at, count);
        at += count;
    }
}

static void
s_collect_literals (job_t *self, step_t step, const uint8_t *bytes, size_t count)
{
    if (step == STEP_BYTES)
        jpeg_output_append (&self->literals, bytes, count);
}

//  ---- the skeleton, deflated

static void
s_append_table (job_t *self, const JHUFF_TBL *table, uint8_t name)
{
    size_t values = 0;
    for (int length = 1; length <= 16; length++)
        values += table->bits [length];
    jpeg_output_append (&self->dictionary, &name, 1);
    jpeg_output_append (&self->dictionary, table->bits + 1, 16);
    jpeg_output_append (&self->dictionary, table->huffval, values < 256? values: 256);
}

//  What the original's header is likely to have in it: the tables that most encoders use, and what the tiled
//  file has.  The writer has the former.
static void
s_make_dictionary (job_t *self)
{
    for (uint8_t index = 0; index < TABLES; index++) {
        s_append_table (self, self->recode.writer.dc_huff_tbl_ptrs [index], index);
        s_append_table (self, self->recode.writer.ac_huff_tbl_ptrs [index], (uint8_t) (0x10 | index));
    }
    marker_walk_t walk = marker_walk_begin (self->tiled, self->tiled_bytes);
    while (marker_walk_next (&walk)) {
        if (walk.code < MARKER_APP_FIRST)
            jpeg_output_append (&self->dictionary, walk.segment, walk.segment_bytes);
        if (walk.code == MARKER_SOS)
            break;
    }
}

//  Into target, of so many bytes; returns how many it took.  Of zlib's objects nothing may take the escape
//  between their begin and their end, here and below.
static size_t
s_deflate (job_t *self, uint8_t *target, size_t room)
{
    z_stream stream = { .next_in = self->skeleton.bytes, .avail_in = (uInt) self->skeleton.size,
        .next_out = target,
        .avail_out = (uInt) room };
    int status = deflateInit2 (&stream, Z_BEST_COMPRESSION, Z_DEFLATED, DEFLATE_BITS, DEFLATE_MEMORY,
        Z_DEFAULT_STRATEGY);
    if (status == Z_OK) {
        deflateSetDictionary (&stream, self->dictionary.bytes, (uInt) self->dictionary.size);
        status = deflate (&stream, Z_FINISH);
        deflateEnd (&stream);
    }
    if (status != Z_STREAM_END)
        jpeg_trouble (&self->trouble, status == Z_MEM_ERROR? -ENOMEM: -EDOM,
            "no room for what stands around its data");
    return room - stream.avail_out;
}

static void
s_inflate (job_t *self)
{
    uint8_t *skeleton = jpeg_output_extend (&self->skeleton, self->kept.skeleton_bytes);
    const size_t head = SEGMENT_HEAD_BYTES + KEPT_BYTES;
    z_stream stream = { .next_in = (uint8_t *) (uintptr_t) (self->tiled + self->at + head),
        .avail_in = (uInt) (self->segment_bytes - head), .next_out = skeleton,
        .avail_out = self->kept.skeleton_bytes };
    int status = inflateInit2 (&stream, DEFLATE_BITS);
    if (status == Z_OK) {
        inflateSetDictionary (&stream, self->dictionary.bytes, (uInt) self->dictionary.size);
        status = inflate (&stream, Z_FINISH);
        inflateEnd (&stream);
    }
    if (status == Z_MEM_ERROR)
        jpeg_trouble (&self->trouble, -ENOMEM, "no room for what stands around its data");
    s_require (self, status == Z_STREAM_END && stream.avail_out == 0);
}

//  ---- the original again

static void
s_append_original (job_t *self, const uint8_t *bytes, size_t count)
{
    s_require (self, count <= self->kept.original_bytes - self->original.size);
    jpeg_output_append (&self->original, bytes, count);
}

static void
s_rebuild (job_t *self, step_t step, const uint8_t *bytes, size_t count)
{
    if (step == STEP_METADATA) {
        s_require (self, s_metadata (self, &self->metadata));
        bytes = self->metadata.segment;
        count = self->metadata.segment_bytes;
    }
    if (step == STEP_SCAN) {
        while (self->coded.code != MARKER_SOS && marker_walk_next (&self->coded))
            continue;
        bytes = self->coded.code == MARKER_SOS? s_coded (&self->coded, &count): NULL;
        s_require (self, bytes);
    }
    s_append_original (self, bytes, count);
}

static uint32_t
s_checksum (const uint8_t *bytes, size_t size)
{
    return (uint32_t) crc32_z (0, bytes, size);
}

//  Of what s_find has found.
static void
s_restore (job_t *self)
{
    s_read_kept (self);
    jpeg_coefficients_read (&self->coefficients, &self->trouble, self->tiled, self->tiled_bytes,
        TILE_PIXELS_MAX);
    jpeg_recode_open (&self->recode, &self->scans, &self->coefficients);
    s_make_dictionary (self);
    s_inflate (self);
    s_follow (self, s_collect_literals);
    self->scans.size_max = self->kept.original_bytes + (size_t) DECODER_SCANS_MAX * SCAN_TABLES_BYTES;
    jpeg_recode_write (&self->recode, self->literals.bytes, self->literals.size,
        self->kept.method == METHOD_OPTIMAL);
    self->metadata = marker_walk_begin (self->tiled, self->tiled_bytes);
    self->coded = marker_walk_begin (self->scans.bytes, self->scans.size);
    s_follow (self, s_rebuild);
    //  What stands behind the end marker stands there in both.
    s_require (self, !s_metadata (self, &self->metadata) && self->metadata.ended);
    s_append_original (self, self->tiled + self->metadata.at, self->tiled_bytes - self->metadata.at);
    s_require (self, self->original.size == self->kept.original_bytes
        && s_checksum (self->original.bytes, self->original.size) == self->kept.checksum);
}

//  ---- from outside

int
tile_original_restore (const uint8_t *bytes, size_t size, uint8_t **original_p, size_t *original_bytes_p,
    char *error, size_t error_bytes)
{
    job_t *self = s_begin (bytes, size, error, error_bytes);
    if (!self)
        return -ENOMEM;
    if (setjmp (self->trouble.escape) == 0) {
        if (!s_find (self))
            jpeg_trouble (&self->trouble, -EDOM, "no original is kept in it");
        s_restore (self);
        *original_p = self->original.bytes;
        *original_bytes_p = self->original.size;
        self->original.bytes = NULL;
    }
    int rc = self->trouble.rc;
    if (self->segment_bytes && rc && rc != -ENOMEM) {       //  whatever the reason: it was another file, or
                                                            //  another libjpeg
        snprintf (error, error_bytes, "%s",
            self->is_another_version? "its original was kept by a later version: use that"
            : "its original does not come back: damaged, or of another version of libjpeg");
        rc = -EBADMSG;
    }
    s_free (self);
    return rc;
}

bool
tile_original_is_kept (const uint8_t *bytes, size_t size)
{
    job_t self = { .tiled = bytes, .tiled_bytes = size };
    return s_find (&self);
}

//  The tiled file with a segment, as it would be; into original's place.  What is deflated is the skeleton.
static void
s_add_segment (job_t *self, const uint8_t *original, size_t original_bytes, method_t method)
{
    if (original_bytes > TILE_ORIGINAL_BYTES_MAX)       //  UNTESTED: takes a JPEG of 256 MiB
        jpeg_trouble (&self->trouble, -EDOM, "too large to keep");
    jpeg_output_append (&self->original, self->tiled, self->at);
    size_t begin = self->original.size, head = SEGMENT_HEAD_BYTES + KEPT_BYTES;
    uint8_t *segment = jpeg_output_extend (&self->original, SEGMENT_BYTES_MAX);
    size_t count = head + s_deflate (self, segment + head, SEGMENT_BYTES_MAX - head), content = count - 2;
    memcpy (segment, (uint8_t []) { 0xff, MARKER_KEPT, (uint8_t) (content >> 8), (uint8_t) content },
        SEGMENT_HEAD_BYTES);
    uint8_t *at = segment + SEGMENT_HEAD_BYTES;
    memcpy (at, s_signature, sizeof s_signature);
    at += sizeof s_signature;
    *at++ = VERSION;
    *at++ = (uint8_t) method;
    at = s_put (at, (uint32_t) original_bytes);
    at = s_put (at, s_checksum (original, original_bytes));
    s_put (at, (uint32_t) self->skeleton.size);
    self->original.size = begin + count;
    jpeg_output_append (&self->original, self->tiled + self->at, self->tiled_bytes - self->at);
}

static void
s_add_kept (job_t *self, const uint8_t *original, size_t original_bytes, method_t method)
{
    jpeg_coefficients_open (&self->coefficients, &self->trouble, self->tiled, self->tiled_bytes);
    jpeg_recode_open (&self->recode, &self->scans, &self->coefficients);
    s_make_dictionary (self);
    if (!s_write_skeleton (self, original, original_bytes))
        jpeg_trouble (&self->trouble, -EDOM, "its markers are too many to keep");
    s_find_place (self);
    s_add_segment (self, original, original_bytes, method);
}

//  What is kept has to come back.
static int
s_try (const uint8_t *bytes, size_t size, const uint8_t *original, size_t original_bytes, char *error,
    size_t error_bytes)
{
    uint8_t *restored;
    size_t restored_bytes;
    int rc = tile_original_restore (bytes, size, &restored, &restored_bytes, error, error_bytes);
    if (rc)
        return rc == -ENOMEM? rc: -EDOM;
    bool same = restored_bytes == original_bytes && memcmp (restored, original, original_bytes) == 0;
    free (restored);
    return same? 0: -EDOM;
}

//  One of both frees the other's bytes.
static int
s_keep (const uint8_t *original, size_t original_bytes, method_t method, tiled_t *tiled, char *error,
    size_t error_bytes)
{
    job_t *self = s_begin (tiled->bytes, tiled->size, error, error_bytes);
    if (!self)
        return -ENOMEM;
    if (setjmp (self->trouble.escape) == 0)
        s_add_kept (self, original, original_bytes, method);
    int rc = self->trouble.rc;
    if (rc == 0)
        rc = s_try (self->original.bytes, self->original.size, original, original_bytes, error, error_bytes);
    if (rc == 0) {
        uint8_t *bytes = self->original.bytes;
        self->original.bytes = tiled->bytes;
        tiled->bytes = bytes;
        tiled->size = self->original.size;
    }
    s_free (self);
    return rc;
}

int
tile_original_keep (const uint8_t *original, size_t original_bytes, tiled_t *tiled, char *error,
    size_t error_bytes)
{
    int rc = -EDOM;
    //  Of progressive files there is but one way.
    for (int method = tiled->was_progressive? METHOD_OPTIMAL: METHOD_TABLES; method < METHODS
        && rc == -EDOM; method++)
        rc = s_keep (original, original_bytes, (method_t) method, tiled, error, error_bytes);
    if (rc == -EDOM)
        snprintf (error, error_bytes, "JPEG that would not come back byte for byte");
    return rc;
}
