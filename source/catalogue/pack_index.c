#include "pack_index.h"
#include "catalogue_state.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

enum {
    INDEX_PIECE_BYTES = 16 * 1024 * 1024,
    PART_RECORDS = 256
};

//  ---- is this an index as docs/format.md says?  Nothing in it is believed before.

//  happy path:  the header; the sections' extents, padding and checksums, which find what a disk or a copy
//               has damaged; then the contents, table by table, which find what a wrong writer has written.
//               As soon as a table's size is known to be right the catalogue points to it.
//  failure:     one sentence with the file, what is wrong in it, and the remedy.

typedef struct {
    draft_t *draft;
    catalogue_t *self;
    pack_contents_t *contents;
    const char *path;               //  of the index, for errors
    const uint8_t *bytes;
    size_t size;
    const pack_header_t *header;
    size_t samples;
} check_t;

//  -- errors

__attribute__ ((format (printf, 2, 3)))
static int
s_damaged (const check_t *check, const char *format, ...)
{
    char what [512];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (what, sizeof what, format, arguments);
    va_end (arguments);
    return catalogue_fail (check->draft, -EBADMSG,
        "'%s' is damaged: %s: copy it again from where it is whole, or pack again",
        check->path, what);
}


//  -- the header

static bool
s_is_zero (const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at < size; at++)
        if (bytes [at])
            return false;
    return true;
}

static int
s_check_numbers (const check_t *check)
{
    const pack_header_t *header = check->header;
    if (header->chunk_samples == 0 || header->chunk_samples % PACK_CHUNK_SAMPLES
            || header->chunk_samples > PACK_CHUNK_SAMPLES_MAX)
        return s_damaged (check, "chunks of %u samples, not a multiple of %d up to %d", header->chunk_samples,
            PACK_CHUNK_SAMPLES, PACK_CHUNK_SAMPLES_MAX);
    if (header->samples == 0 || header->samples > UINT32_MAX)
        return s_damaged (check, "%llu samples, not 1 to %u", (unsigned long long) header->samples,
            UINT32_MAX);
    size_t digits = sizeof check->self->fingerprint - 1;
    if (strspn (header->fingerprint, "0123456789abcdef") != digits
            || !s_is_zero ((const uint8_t *) header->fingerprint + digits,
            sizeof header->fingerprint - digits))
        return s_damaged (check, "its fingerprint is not 32 hexadecimal digits");
    return 0;
}

static int
s_check_header (check_t *check)
{
    const pack_header_t *header = (const pack_header_t *) check->bytes;
    if (check->size < PACK_BLOCK_BYTES)
        return s_damaged (check, "it has %zu bytes, less than its header", check->size);
    if (memcmp (header->magic, PACK_INDEX_MAGIC, sizeof header->magic))
        return s_damaged (check, "it does not begin with '%s', so it is no index", PACK_INDEX_MAGIC);
    if (header->version > PACK_VERSION)
        return catalogue_fail (check->draft, -ENOTSUP,
            "'%s' has version %u of the format, this tureen reads up to %d: "
            "use a later tureen, or pack again with this one", check->path, header->version, PACK_VERSION);
    if (header->version < PACK_VERSION)
        return s_damaged (check, "there is no version %u of the format", header->version);
    if (XXH3_64bits (header, offsetof (pack_header_t, checksum)) != header->checksum)
        return s_damaged (check, "its header does not match its checksum");
    if (!s_is_zero (check->bytes + sizeof *header, PACK_BLOCK_BYTES - sizeof *header))
        return s_damaged (check, "behind its header there is something");
    check->header = header;
    return s_check_numbers (check);
}


//  -- sections

//  What a section is called, and the size of its records.
static const struct { const char *name; size_t record; } s_sections [PACK_SECTIONS] = {
    [PACK_ARENA] = { "names", 1 }, [PACK_CLASSES] = { "classes", 8 },
    [PACK_DIRECTORIES] = { "directories", sizeof (pack_directory_t) },
    [PACK_SAMPLES] = { "samples", sizeof (pack_sample_t) },
    [PACK_FIELDS] = { "fields", sizeof (pack_field_t) },
    [PACK_COMPANIONS] = { "companions", sizeof (pack_companion_t) },
    [PACK_COLUMNS] = { "labels", sizeof (pack_column_t) }, [PACK_VALUES] = { "values", sizeof (value_t) },
    [PACK_PLACES] = { "places", sizeof (pack_place_t) }, [PACK_CHECKSUMS] = { "checksums", 8 },
    [PACK_ORDER] = { "order", 4 }, [PACK_VOLUMES] = { "volumes", sizeof (pack_volume_t) }
};

//  Each begins where the one before ends, but for padding; the last one ends the file.
static int
s_check_extents (const check_t *check)
{
    uint64_t end = PACK_BLOCK_BYTES;
    for (int section = 0; section < PACK_SECTIONS; section++) {
        const pack_extent_t *extent = &check->header->sections [section];
        const char *name = s_sections [section].name;
        if (extent->offset != pack_aligned (end, PACK_SECTION_ALIGN))
            return s_damaged (check, "its section of %s begins at byte %llu, not %llu", name,
                (unsigned long long) extent->offset,
                (unsigned long long) pack_aligned (end, PACK_SECTION_ALIGN));
        if (extent->offset > check->size || extent->bytes > check->size - extent->offset)
            return s_damaged (check, "it ends at byte %zu, in its section of %s", check->size, name);
        if (extent->bytes % s_sections [section].record)
            return s_damaged (check, "its section of %s has %llu bytes, not a multiple of %zu", name,
                (unsigned long long) extent->bytes, s_sections [section].record);
        if (!s_is_zero (check->bytes + end, extent->offset - end))
            return s_damaged (check, "before its section of %s there is something", name);
        end = extent->offset + extent->bytes;
    }
    return end == check->size? 0:
        s_damaged (check, "it has %zu bytes, its sections end at byte %llu", check->size,
        (unsigned long long) end);
}

static int
s_check_checksums (const check_t *check)
{
    for (int section = 0; section < PACK_SECTIONS; section++) {
        const pack_extent_t *extent = &check->header->sections [section];
        if (XXH3_64bits (check->bytes + extent->offset, extent->bytes) != extent->checksum)
            return s_damaged (check, "its section of %s does not match its checksum",
                s_sections [section].name);
    }
    return 0;
}

static uint64_t
s_count (const check_t *check, pack_section_t section)
{
    return check->header->sections [section].bytes / s_sections [section].record;
}

static const void *
s_section (const check_t *check, pack_section_t section)
{
    return check->bytes + check->header->sections [section].offset;
}

static int
s_expect (const check_t *check, pack_section_t section, uint64_t least, uint64_t most)
{
    uint64_t count = s_count (check, section);
    if (count >= least && count <= most)
        return 0;
    char range [60];
    snprintf (range, sizeof range, least == most? "%llu": "%llu to %llu", (unsigned long long) least,
        (unsigned long long) most);
    return s_damaged (check, "its section of %s has %llu records, not %s", s_sections [section].name,
        (unsigned long long) count, range);
}

//  The sizes that do not depend on the labels.  No product overflows: samples are less than 2^32.
static int
s_check_counts (const check_t *check)
{
    size_t samples = check->samples, fields = s_count (check, PACK_FIELDS);
    int rc = s_expect (check, PACK_ARENA, 1, SIZE_MAX);
    if (rc == 0)
        rc = s_expect (check, PACK_CLASSES, 0, UINT32_MAX);
    if (rc == 0)
        rc = s_expect (check, PACK_DIRECTORIES, 1, UINT32_MAX);
    if (rc == 0)
        rc = s_expect (check, PACK_SAMPLES, samples, samples);
    if (rc == 0)
        rc = s_expect (check, PACK_FIELDS, 1, CATALOGUE_FIELDS_MAX);
    if (rc == 0)
        rc = s_expect (check, PACK_COMPANIONS, samples * (fields - 1), samples * (fields - 1));
    if (rc == 0)
        rc = s_expect (check, PACK_COLUMNS, 0, CATALOGUE_LABELS_MAX);
    if (rc == 0)
        rc = s_expect (check, PACK_PLACES, samples, samples);
    if (rc == 0)
        rc = s_expect (check, PACK_CHECKSUMS, samples * fields, samples * fields);
    if (rc == 0)
        rc = s_expect (check, PACK_ORDER, samples, samples);
    if (rc == 0)
        rc = s_expect (check, PACK_VOLUMES, 1, samples);
    return rc;
}

//  The catalogue points into the index, which is never written: the casts only remove const.
static void
s_attach (const check_t *check)
{
    catalogue_t *self = check->self;
    pack_contents_t *contents = check->contents;
    self->arena = (char *) s_section (check, PACK_ARENA);
    self->arena_used = s_count (check, PACK_ARENA);
    self->classes = (uint64_t *) s_section (check, PACK_CLASSES);
    self->class_count = s_count (check, PACK_CLASSES);
    self->directories = (directory_t *) s_section (check, PACK_DIRECTORIES);
    self->directory_count = s_count (check, PACK_DIRECTORIES);
    self->samples = (sample_t *) s_section (check, PACK_SAMPLES);
    self->sample_count = check->samples;
    self->bytes = check->header->bytes;
    memcpy (self->fingerprint, check->header->fingerprint, sizeof self->fingerprint);
    contents->header = check->header;
    contents->places = s_section (check, PACK_PLACES);
    contents->checksums = s_section (check, PACK_CHECKSUMS);
    contents->order = s_section (check, PACK_ORDER);
    contents->volumes = s_section (check, PACK_VOLUMES);
    contents->volume_count = (uint32_t) s_count (check, PACK_VOLUMES);
}


//  -- names

//  NULL: outside of the arena, or as long as limit or longer.
static const char *
s_text (const check_t *check, uint64_t offset, size_t limit)
{
    if (offset >= check->self->arena_used)
        return NULL;
    const char *text = check->self->arena + offset;
    return strnlen (text, limit) < limit? text: NULL;
}

//  One part of a path, which is neither empty nor leads up.
static bool
s_is_part (const char *text, size_t length)
{
    return length > 0 && !(length == 1 && text [0] == '.') && !(length == 2 && memcmp (text, "..", 2) == 0);
}

static bool
s_is_folder (const char *text)
{
    if (!*text)
        return true;                //  the root
    for (;; text++) {
        size_t length = strcspn (text, "/");
        if (!s_is_part (text, length))
            return false;
        text += length;
        if (!*text)
            return true;
    }
}

static int
s_check_classes (const check_t *check)
{
    const catalogue_t *self = check->self;
    if (self->arena [self->arena_used - 1])
        return s_damaged (check, "its section of names does not end in a zero");
    for (size_t class = 0; class < self->class_count; class++)
        if (!s_text (check, self->classes [class], PATH_MAX))
            return s_damaged (check, "class %zu has no name", class);
    return 0;
}

static int
s_check_directories (const check_t *check)
{
    const catalogue_t *self = check->self;
    for (size_t index = 0; index < self->directory_count; index++) {
        const directory_t *directory = &self->directories [index];
        const char *path = s_text (check, directory->path, PATH_MAX);
        if (!path || !s_is_folder (path))
            return s_damaged (check, "directory %zu has no path that stays in its folder", index);
        bool is_unlabelled = self->class_count == 0 && directory->label == 0;
        if ((directory->label >= self->class_count && !is_unlabelled) || directory->zero)
            return s_damaged (check, "directory %zu is of class %u, there are %zu", index, directory->label,
                self->class_count);
    }
    return 0;
}

static int
s_check_samples (const check_t *check)
{
    const catalogue_t *self = check->self;
    for (size_t id = 0; id < check->samples; id++) {
        const sample_t *sample = &self->samples [id];
        if (sample->directory >= self->directory_count || sample->zero)
            return s_damaged (check, "sample %zu is in directory %u, there are %zu", id, sample->directory,
                self->directory_count);
        const char *directory = self->arena + self->directories [sample->directory].path;
        const char *name = s_text (check, sample->name, PATH_MAX);
        if (!name || !s_is_part (name, strlen (name)) || strchr (name, '/')
                || strlen (directory) + 1 + strlen (name) >= PATH_MAX)
            return s_damaged (check, "sample %zu has no name that a file can have", id);
    }
    return 0;
}


//  -- fields

//  Letters, digits, '_', a zero, and only zeros behind.
static bool
s_is_name (const char *name)
{
    size_t length = strnlen (name, PACK_NAME_BYTES);
    return length < PACK_NAME_BYTES && catalogue_name_is_valid (name, length)
        && s_is_zero ((const uint8_t *) name + length, PACK_NAME_BYTES - length);
}

//  The sample's directory and stem and this extension: the name of a file?
static bool
s_is_companion (const check_t *check, const field_t *field, uint32_t id)
{
    const catalogue_t *self = check->self;
    const sample_t *sample = &self->samples [id];
    const char *extension = s_text (check, field->files [id].extension, PATH_MAX);
    if (!extension || (*extension && *extension != '.') || strchr (extension, '/'))
        return false;
    const char *name = self->arena + sample->name;
    size_t stem = field->is_beside? strcspn (name, "."): catalogue_stem (name),
        length = stem + strlen (extension);
    if (strlen (self->arena + self->directories [sample->directory].path) + 1 + length >= PATH_MAX)
        return false;
    char composed [8];
    snprintf (composed, sizeof composed, "%.*s%.4s", (int) (stem < 4? stem: 4), name, extension);
    return length > 2 || s_is_part (composed, length);
}

static int
s_check_companions (const check_t *check, const field_t *field)
{
    for (uint32_t id = 0; id < check->samples; id++)
        if (!s_is_companion (check, field, id))
            return s_damaged (check, "sample %u has no file name in the field '%s'", id, field->name);
    return 0;
}

static bool
s_is_field (const check_t *check, size_t index, const pack_field_t *record)
{
    bool is_named = s_is_name (record->name) && !catalogue_name_is_taken (check->self, record->name);
    bool is_image = is_named && strcmp (record->name, "image") == 0 && !record->is_mask && !record->is_beside;
    return is_named && record->is_mask <= 1 && record->is_beside <= 1 && (index > 0 || is_image);
}

//  Field 0 has its path and root already.
static int
s_take_fields (const check_t *check)
{
    catalogue_t *self = check->self;
    const pack_field_t *records = s_section (check, PACK_FIELDS);
    companion_t *companions = (companion_t *) s_section (check, PACK_COMPANIONS);
    self->field_count = 0;
    for (size_t index = 0; index < s_count (check, PACK_FIELDS); index++) {
        const pack_field_t *record = &records [index];
        if (!s_is_field (check, index, record))
            return s_damaged (check, "field %zu has %s", index,
                index? "no name of its own, or is of no kind that there is":
                "not the name 'image'");
        field_t *field = &self->fields [index];
        memcpy (field->name, record->name, sizeof field->name);
        field->is_mask = record->is_mask;
        field->is_beside = record->is_beside;
        field->files = index? companions + (index - 1) * check->samples: NULL;
        self->field_count++;
        int rc = index? s_check_companions (check, field): 0;
        if (rc)
            return rc;
    }
    pack_contents_t *contents = check->contents;
    contents->file_count = self->field_count;
    const field_t *last = &self->fields [self->field_count - 1];
    contents->has_rows = strcmp (last->name, PACK_ROWS_NAME) == 0 && !last->is_mask;
    self->field_count -= contents->has_rows;
    return 0;
}


//  -- labels

static bool
s_is_column (const check_t *check, const pack_column_t *record)
{
    bool is_single = !record->is_vector && record->length == 1;
    switch (record->kind) {
    case COLUMN_CLASS:
        return is_single && record->longest == 0 && check->self->class_count > 0;
    case COLUMN_WHOLE:
    case COLUMN_REAL:
        return record->longest == 0 && (is_single || (record->is_vector == 1 && record->length > 0
            && record->length <= CATALOGUE_LABEL_BYTES_MAX / sizeof (value_t)));
    case COLUMN_TEXT:
        return is_single && record->longest > 0 && record->longest <= CATALOGUE_LABEL_BYTES_MAX;
    default:
        return false;
    }
}

static int
s_check_texts (const check_t *check, const column_t *column)
{
    for (size_t id = 0; id < check->samples; id++)
        if (!s_text (check, column->values [id].text, column->longest + 1))
            return s_damaged (check, "sample %zu has no text of up to %zu bytes for the label '%s'", id,
                column->longest,
                column->name);
    return 0;
}

static int
s_take_column (const check_t *check, const pack_column_t *record, size_t *value_p)
{
    catalogue_t *self = check->self;
    if (!s_is_name (record->name) || catalogue_name_is_taken (self, record->name))
        return s_damaged (check, "label %zu has no name of its own", self->column_count);
    if (!s_is_column (check, record))
        return s_damaged (check, "the label '%s' is of no kind that there is", record->name);
    column_t *column = &self->columns [self->column_count++];
    *column = (column_t) { .kind = record->kind, .is_vector = record->is_vector, .length = record->length,
        .longest = record->longest };
    memcpy (column->name, record->name, sizeof column->name);
    catalogue_column_describe (column);
    if (column->kind == COLUMN_CLASS)
        return 0;
    column->value_count = check->samples * column->length;
    if (column->value_count > s_count (check, PACK_VALUES) - *value_p)
        return s_damaged (check, "its section of values ends within the label '%s'", column->name);
    column->values = (value_t *) s_section (check, PACK_VALUES) + *value_p;
    *value_p += column->value_count;
    return column->kind == COLUMN_TEXT? s_check_texts (check, column): 0;
}

static int
s_take_columns (const check_t *check)
{
    const pack_column_t *records = s_section (check, PACK_COLUMNS);
    size_t value = 0;
    for (size_t index = 0; index < s_count (check, PACK_COLUMNS); index++) {
        int rc = s_take_column (check, &records [index], &value);
        if (rc)
            return rc;
    }
    return s_expect (check, PACK_VALUES, value, value);
}


//  -- places

//  The place of the next byte, while going through the positions.
typedef struct {
    uint32_t volume;
    uint64_t offset;
} cursor_t;

//  The volume is full: its size is known, and the cursor at the next one's begin.
static int
s_end_volume (const check_t *check, cursor_t *cursor)
{
    const pack_volume_t *volume = &check->contents->volumes [cursor->volume];
    uint64_t end = pack_aligned (cursor->offset, PACK_BLOCK_BYTES);
    if (volume->bytes != end)
        return s_damaged (check, "volume %u has %llu bytes by its record, %llu by its samples",
            cursor->volume, (unsigned long long) volume->bytes, (unsigned long long) end);
    *cursor = (cursor_t) { .volume = cursor->volume + 1, .offset = PACK_BLOCK_BYTES };
    return 0;
}

//  At a chunk's first sample.
static int
s_begin_chunk (const check_t *check, cursor_t *cursor, uint32_t position, uint32_t volume)
{
    const pack_contents_t *contents = check->contents;
    bool is_next = position > 0 && volume == cursor->volume + 1 && volume < contents->volume_count;
    int rc = is_next? s_end_volume (check, cursor): 0;
    if (rc)
        return rc;
    const pack_volume_t *record = &contents->volumes [cursor->volume];
    if ((is_next || position == 0)
        && (record->first != position || record->zero || record->bytes > INT64_MAX))
        return s_damaged (check, "volume %u begins with position %u by its record, %u by its samples",
            cursor->volume, record->first, position);
    cursor->offset = pack_aligned (cursor->offset, PACK_BLOCK_BYTES);
    return 0;
}

//  Bytes of all files of a sample.  False: they overflow 64 bits.
static bool
s_add_up (const check_t *check, size_t id, uint64_t *bytes_p)
{
    const catalogue_t *self = check->self;
    *bytes_p = self->samples [id].bytes;
    for (size_t file = 1; file < check->contents->file_count; file++)
        if (__builtin_add_overflow (*bytes_p, self->fields [file].files [id].bytes, bytes_p))
            return false;
    return true;
}

//  A reader need not have room for more than any packer accepts.
static bool
s_has_large_file (const check_t *check, uint32_t id)
{
    for (size_t file = 0; file < check->contents->file_count; file++)
        if (catalogue_packed_bytes (check->self, id, file) > CATALOGUE_SAMPLE_BYTES_MAX)
            return true;
    return false;
}

//  Position by position.  Each id's place must lead back to its position, which makes the order a
//  permutation.
static int
s_check_places (const check_t *check)
{
    const pack_contents_t *contents = check->contents;
    cursor_t cursor = { .volume = 0, .offset = PACK_BLOCK_BYTES };
    uint64_t total = 0;
    for (uint32_t position = 0; position < check->samples; position++) {
        uint32_t id = contents->order [position];
        if (id >= check->samples || contents->places [id].position != position)
            return s_damaged (check, "position %u has sample %u, which is not at that position", position,
                id);
        const pack_place_t *place = &contents->places [id];
        int rc = position % check->header->chunk_samples? 0:
            s_begin_chunk (check, &cursor, position, place->volume);
        if (rc)
            return rc;
        if (place->volume != cursor.volume || place->offset != cursor.offset)
            return s_damaged (check, "sample %u is at byte %llu of volume %u, not %llu of %u, behind the one "
                "before it", id,
                (unsigned long long) place->offset, place->volume, (unsigned long long) cursor.offset,
                cursor.volume);
        uint64_t bytes;
        if (!s_add_up (check, id, &bytes) || bytes > contents->volumes [cursor.volume].bytes
                || cursor.offset > contents->volumes [cursor.volume].bytes - bytes)
            return s_damaged (check, "sample %u crosses the end of volume %u", id, cursor.volume);
        if (s_has_large_file (check, id))
            return s_damaged (check, "sample %u has a file of more than %d bytes", id,
                CATALOGUE_SAMPLE_BYTES_MAX);
        cursor.offset += bytes;
        total += bytes;
    }
    for (uint32_t id = 0; contents->has_rows && id < check->samples; id++)
        check->self->bytes -= catalogue_packed_bytes (check->self, id, contents->file_count - 1);
    if (total != check->header->bytes)
        return s_damaged (check, "its samples have %llu bytes, %llu by its header",
            (unsigned long long) total, (unsigned long long) check->header->bytes);
    int rc = s_end_volume (check, &cursor);
    return rc || cursor.volume == contents->volume_count? rc:
        s_damaged (check, "volume %u has no samples", cursor.volume);
}


//  -- all of it

static bool
s_is_said (const catalogue_t *catalogue, uint64_t text)
{
    for (size_t class = 0; class < catalogue->class_count; class++)
        if (catalogue->classes [class] == text)
            return true;
    for (size_t index = 0; index < catalogue->column_count; index++) {
        const column_t *column = &catalogue->columns [index];
        for (size_t value = 0; column->kind == COLUMN_TEXT && value < column->value_count; value++)
            if (column->values [value].text == text)
                return true;
    }
    return false;
}

//  The last text, if it looks like a note and is not a label or class that does; paths and file names never
//  do.
static void
s_take_note (const check_t *check)
{
    const catalogue_t *catalogue = check->self;
    const char *arena = catalogue->arena;
    size_t at = catalogue->arena_used - 1, length = strlen (PACK_NOTE_BEGIN);
    while (at > 0 && arena [at - 1])
        at--;
    if (strncmp (arena + at, PACK_NOTE_BEGIN, length) == 0 && !s_is_said (catalogue, at))
        check->contents->note = arena + at + length;
}

int
pack_index_check (draft_t *draft, const char *path, const uint8_t *bytes, size_t size,
    pack_contents_t *contents)
{
    catalogue_t *self = draft->self;
    assert (self->column_count == 0); assert (((uintptr_t) bytes & 7) == 0);
    *contents = (pack_contents_t) { .header = NULL };
    check_t check = { .draft = draft, .self = self, .contents = contents, .path = path, .bytes = bytes,
        .size = size };
    int rc = s_check_header (&check);
    if (rc == 0)
        rc = s_check_extents (&check);
    if (rc == 0)
        rc = s_check_checksums (&check);
    check.samples = rc == 0? check.header->samples: 0;
    if (rc == 0)
        rc = s_check_counts (&check);
    if (rc)
        return rc;
    s_attach (&check);
    rc = s_check_classes (&check);
    if (rc == 0)
        rc = s_check_directories (&check);
    if (rc == 0)
        rc = s_check_samples (&check);
    if (rc == 0)
        rc = s_take_fields (&check);
    if (rc == 0)
        rc = s_take_columns (&check);
    if (rc == 0)
        rc = s_check_places (&check);
    if (rc == 0)
        s_take_note (&check);
    return rc;
}

void
pack_index_detach (catalogue_t *catalogue)
{
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++)
        catalogue->fields [field].files = NULL;
    for (size_t column = 0; column < catalogue->column_count; column++)
        catalogue->columns [column].values = NULL;
    catalogue->samples = NULL;
    catalogue->directories = NULL;
    catalogue->classes = NULL;
    catalogue->arena = NULL;
}


//  ---- the files of a pack in a folder

int
pack_index_fail_file (const draft_t *draft, const char *name, int rc)
{
    const char *root = catalogue_root (draft->self);
    const char *remedy =
        rc == -EACCES? "let this user read it":
        rc == -EMFILE || rc == -ENFILE?
            "raise the limit of open files (ulimit -n): all volumes are kept open":
        rc == -ENOMEM? "free memory or raise the limit":
        rc == -ENOENT? "copy it again from where it is whole, or pack again": "check the file system";
    return catalogue_fail (draft, rc == -ENOENT? -ENODATA: rc, "cannot read '%s/%s' (%s): %s", root, name,
        strerror (-rc),
        remedy);
}

int
pack_index_open_file (const draft_t *draft, const char *name, int *fd_p, uint64_t *bytes_p)
{
    int fd;
    do                                  //  a fifo must not make us wait
        fd = openat (draft->self->fields [0].root_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    struct stat status;
    int rc = fd < 0 || fstat (fd, &status) != 0? pack_index_fail_file (draft, name, -errno): 0;
    if (rc == 0 && !S_ISREG (status.st_mode))
        rc = catalogue_fail (draft, -EINVAL, "'%s/%s' is not a file: pack again",
            catalogue_root (draft->self), name);
    if (rc == 0) {
        *bytes_p = (uint64_t) status.st_size;
        *fd_p = fd;
        fd = -1;
    }
    if (fd >= 0)
        close (fd);
    return rc;
}

//  In pieces, so that it can be shown how far it is.
static int
s_read_pieces (const draft_t *draft, int fd, uint8_t *memory, uint64_t bytes)
{
    int rc = 0;
    progress_step (draft->progress, &(progress_step_t) { .what = "reading the index", .total = bytes }, 0);
    for (uint64_t done = 0; rc == 0 && done < bytes; ) {
        size_t piece = bytes - done < INDEX_PIECE_BYTES? (size_t) (bytes - done): INDEX_PIECE_BYTES;
        rc = catalogue_read_at (fd, memory + done, piece, done);
        done += piece;
        progress_tell (draft->progress, done, 0);
    }
    return rc;
}

//  An empty file is read as a zero, and fails as any other that is too short.
int
pack_index_read (const draft_t *draft, const char *name, void **memory_p, uint64_t *bytes_p)
{
    int fd;
    int rc = pack_index_open_file (draft, name, &fd, bytes_p);
    if (rc)
        return rc;
    size_t room = *bytes_p? *bytes_p: sizeof (uint64_t);
    void *memory = mmap (NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        rc = pack_index_fail_file (draft, name, -ENOMEM);
    else {
        rc = s_read_pieces (draft, fd, memory, *bytes_p);
        if (rc == -ESTALE)
            rc = catalogue_fail (draft, rc,
                "'%s/%s' became shorter while it was read: wait until it is copied whole",
                catalogue_root (draft->self), name);
        else
        if (rc)
            rc = pack_index_fail_file (draft, name, rc);
        //  From here on the index is read-only, even for bugs of ours.
        if (rc || mprotect (memory, room, PROT_READ) != 0) {
            munmap (memory, room);
            rc = rc? rc: pack_index_fail_file (draft, name, -errno);
        }
    }
    close (fd);
    *memory_p = rc? NULL: memory;
    return rc;
}


//  ---- writing an index

//  Section after section; the header last, as only then the checksums are known.
//
//  happy path:  seek over the header; for each section zeros up to its begin, then its arrays from where they
//               lie; the header; fsync; read and check the file as any reader will; rename; fsync the folder.
//  failure:     the first error is kept, nothing is written after it; the partial file is removed.

typedef struct {
    draft_t draft;                  //  errors; and the catalogue that is read back
    const char *folder;
    const pack_index_t *index;
    int folder_fd;
    int fd;
    XXH3_state_t *hash;             //  of the section being written
    uint64_t at;                    //  in the file
    pack_header_t header;
} writer_t;

uint64_t
pack_index_checksum (const void *bytes, size_t size)
{
    return XXH3_64bits (bytes, size);
}


//  -- bytes

static int
s_fail (const writer_t *writer, int rc)
{
    return catalogue_fail (&writer->draft, rc, "cannot write '%s/%s' (%s): %s", writer->folder,
        PACK_INDEX_PARTIAL, strerror (-rc),
        rc == -ENOSPC || rc == -EDQUOT? "free some space":
        rc == -EACCES || rc == -EROFS? "let this user write there":
        rc == -ENOENT || rc == -ENOTDIR? "check the path":
        rc == -ENOMEM? "free memory": "check the file system");
}

static int
s_write (writer_t *writer, const void *bytes, size_t size)
{
    int rc = file_write_at (writer->fd, bytes, size, writer->at);
    if (rc)
        return s_fail (writer, rc);
    writer->at += size;
    return 0;
}

//  Continues the section.
static int
s_put (writer_t *writer, const void *bytes, size_t size)
{
    if (size == 0)
        return 0;
    XXH3_64bits_update (writer->hash, bytes, size);
    return s_write (writer, bytes, size);
}

static int
s_begin (writer_t *writer, pack_section_t section)
{
    static const uint8_t zeros [PACK_SECTION_ALIGN];
    XXH3_64bits_reset (writer->hash);
    int rc = s_write (writer, zeros, pack_aligned (writer->at, PACK_SECTION_ALIGN) - writer->at);
    writer->header.sections [section].offset = writer->at;
    return rc;
}


//  -- sections

static int
s_put_fields (writer_t *writer)
{
    const catalogue_t *catalogue = writer->index->catalogue;
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < catalogue->field_count; index++) {
        const field_t *field = &catalogue->fields [index];
        pack_field_t record = { .is_mask = field->is_mask, .is_beside = field->is_beside };
        memcpy (record.name, field->name, strlen (field->name));
        rc = s_put (writer, &record, sizeof record);
    }
    pack_field_t rows = { .name = PACK_ROWS_NAME };
    return rc || !writer->index->rows_bytes? rc: s_put (writer, &rows, sizeof rows);
}

static int
s_put_samples (writer_t *writer)
{
    const catalogue_t *catalogue = writer->index->catalogue;
    sample_t part [PART_RECORDS];
    int rc = 0;
    for (size_t id = 0; rc == 0 && id < catalogue->sample_count; ) {
        size_t count = 0;
        for (; count < PART_RECORDS && id < catalogue->sample_count; id++, count++) {
            part [count] = catalogue->samples [id];
            part [count].bytes = catalogue_file_bytes (catalogue, (uint32_t) id, 0);
        }
        rc = s_put (writer, part, count * sizeof *part);
    }
    return rc;
}

static int
s_put_companions (writer_t *writer)
{
    const catalogue_t *catalogue = writer->index->catalogue;
    companion_t part [PART_RECORDS];
    int rc = 0;
    for (size_t field = 1; field < catalogue->field_count; field++)
        for (size_t id = 0; rc == 0 && id < catalogue->sample_count; ) {
            size_t count = 0;
            for (; count < PART_RECORDS && id < catalogue->sample_count; id++, count++) {
                part [count] = catalogue->fields [field].files [id];
                part [count].bytes = catalogue_file_bytes (catalogue, (uint32_t) id, field);
            }
            rc = s_put (writer, part, count * sizeof *part);
        }
    const uint32_t *rows_bytes = writer->index->rows_bytes;
    for (size_t id = 0; rc == 0 && rows_bytes && id < catalogue->sample_count; id++) {
        companion_t rows = { .bytes = rows_bytes [id], .extension = catalogue->arena_used };
        rc = s_put (writer, &rows, sizeof rows);
    }
    return rc;
}

//  A catalogue always has a name in it, so that it ends in a zero.
static int
s_put_arena (writer_t *writer)
{
    const catalogue_t *catalogue = writer->index->catalogue;
    const char *note = writer->index->note;
    int rc = s_put (writer, catalogue->arena, catalogue->arena_used);
    if (rc == 0 && writer->index->rows_bytes)
        rc = s_put (writer, PACK_ROWS_EXTENSION, sizeof PACK_ROWS_EXTENSION);
    if (rc == 0 && note)
        rc = s_put (writer, PACK_NOTE_BEGIN, strlen (PACK_NOTE_BEGIN));
    return rc || !note? rc: s_put (writer, note, strlen (note) + 1);
}

static int
s_put_columns (writer_t *writer)
{
    const catalogue_t *catalogue = writer->index->catalogue;
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < catalogue->column_count; index++) {
        const column_t *column = &catalogue->columns [index];
        pack_column_t record = { .kind = column->kind, .is_vector = column->is_vector,
            .length = column->length,
            .longest = column->longest };
        memcpy (record.name, column->name, strlen (column->name));
        rc = s_put (writer, &record, sizeof record);
    }
    return rc;
}

static int
s_put_values (writer_t *writer)
{
    const catalogue_t *catalogue = writer->index->catalogue;
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < catalogue->column_count; index++) {
        const column_t *column = &catalogue->columns [index];
        rc = s_put (writer, column->values, column->value_count * sizeof *column->values);
    }
    return rc;
}

static int
s_put_section (writer_t *writer, pack_section_t section)
{
    const pack_index_t *index = writer->index;
    const catalogue_t *catalogue = index->catalogue;
    size_t samples = catalogue->sample_count, files = catalogue->field_count + (index->rows_bytes? 1: 0);
    switch (section) {
    case PACK_ARENA:
        return s_put_arena (writer);
    case PACK_CLASSES:
        return s_put (writer, catalogue->classes, catalogue->class_count * sizeof *catalogue->classes);
    case PACK_DIRECTORIES:
        return s_put (writer, catalogue->directories,
            catalogue->directory_count * sizeof *catalogue->directories);
    case PACK_SAMPLES:
        return s_put_samples (writer);
    case PACK_FIELDS:
        return s_put_fields (writer);
    case PACK_COMPANIONS:
        return s_put_companions (writer);
    case PACK_COLUMNS:
        return s_put_columns (writer);
    case PACK_VALUES:
        return s_put_values (writer);
    case PACK_PLACES:
        return s_put (writer, index->places, samples * sizeof *index->places);
    case PACK_CHECKSUMS:
        return s_put (writer, index->checksums, samples * files * sizeof *index->checksums);
    case PACK_ORDER:
        return s_put (writer, index->order, samples * sizeof *index->order);
    case PACK_VOLUMES:
        return s_put (writer, index->volumes, index->volume_count * sizeof *index->volumes);
    case PACK_SECTIONS:
        break;
    }
    assert (false);
    return 0;
}

uint64_t
pack_index_bytes (const catalogue_t *catalogue, uint64_t volumes)
{
    uint64_t fields = catalogue->field_count + 1;
    uint64_t bytes = PACK_BLOCK_BYTES + PACK_SECTIONS * PACK_SECTION_ALIGN;
    uint64_t a_sample = sizeof (pack_sample_t) + (fields - 1) * sizeof (pack_companion_t)
        + sizeof (pack_place_t)
        + fields * sizeof (uint64_t) + sizeof (uint32_t);
    bytes += catalogue->arena_used + catalogue->class_count * sizeof *catalogue->classes
        + catalogue->directory_count * sizeof (pack_directory_t) + catalogue->sample_count * a_sample;
    bytes += fields * sizeof (pack_field_t) + catalogue->column_count * sizeof (pack_column_t)
        + volumes * sizeof (pack_volume_t);
    for (size_t index = 0; index < catalogue->column_count; index++)
        bytes += catalogue->columns [index].value_count * sizeof *catalogue->columns [index].values;
    return bytes;
}

static int
s_put_header (writer_t *writer)
{
    const pack_index_t *index = writer->index;
    pack_header_t *header = &writer->header;
    memcpy (header->magic, PACK_INDEX_MAGIC, sizeof header->magic);
    memcpy (header->pack, index->pack, sizeof header->pack);
    memcpy (header->fingerprint, index->catalogue->fingerprint, sizeof index->catalogue->fingerprint);
    header->version = PACK_VERSION;
    header->chunk_samples = index->chunk_samples;
    header->samples = index->catalogue->sample_count;
    header->bytes = 0;
    for (size_t id = 0; id < header->samples; id++) {
        for (size_t field = 0; field < index->catalogue->field_count; field++)
            header->bytes += catalogue_file_bytes (index->catalogue, (uint32_t) id, field);
        header->bytes += index->rows_bytes? index->rows_bytes [id]: 0;
    }
    header->seed = index->seed;
    header->checksum = XXH3_64bits (header, offsetof (pack_header_t, checksum));
    writer->at = 0;
    return s_write (writer, header, sizeof *header);
}


//  -- all of it

//  The gap between the header and the first section is a hole of the file: zeros.
static int
s_write_all (writer_t *writer)
{
    writer->hash = XXH3_createState ();
    if (!writer->hash)
        return s_fail (writer, -ENOMEM);
    do
        writer->fd = openat (writer->folder_fd, PACK_INDEX_PARTIAL,
        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    while (writer->fd < 0 && errno == EINTR);
    if (writer->fd < 0)
        return s_fail (writer, -errno);
    writer->at = PACK_BLOCK_BYTES;
    int rc = 0;
    for (pack_section_t section = 0; rc == 0 && section < PACK_SECTIONS; section++) {
        rc = s_begin (writer, section);
        if (rc == 0)
            rc = s_put_section (writer, section);
        pack_extent_t *extent = &writer->header.sections [section];
        extent->bytes = writer->at - extent->offset;
        extent->checksum = XXH3_64bits_digest (writer->hash);
    }
    if (rc == 0)
        rc = s_put_header (writer);
    if (rc == 0 && fsync (writer->fd) != 0)
        rc = s_fail (writer, -errno);
    return rc;
}

//  Validated by the code that opens it: the arguments may contradict each other.
static int
s_read_back (writer_t *writer)
{
    catalogue_t *self = catalogue_new ();
    if (!self)
        return s_fail (writer, -ENOMEM);
    writer->draft.self = self;
    self->field_count = 1;
    self->fields [0].path = strdup (writer->folder);
    self->fields [0].root_fd = fcntl (writer->folder_fd, F_DUPFD_CLOEXEC, 0);
    int rc = !self->fields [0].path? -ENOMEM: self->fields [0].root_fd < 0? -errno: 0;
    void *memory = NULL;
    uint64_t bytes;
    rc = rc? s_fail (writer, rc): pack_index_read (&writer->draft, PACK_INDEX_PARTIAL, &memory, &bytes);
    if (rc == 0) {
        char path [PATH_MAX + 64];
        pack_contents_t contents;
        snprintf (path, sizeof path, "%s/%s", writer->folder, PACK_INDEX_PARTIAL);
        rc = pack_index_check (&writer->draft, path, memory, bytes, &contents);
        pack_index_detach (self);
        munmap (memory, bytes? bytes: sizeof (uint64_t));
    }
    catalogue_destroy (&writer->draft.self);
    return rc;
}

static int
s_publish (writer_t *writer)
{
    if (renameat (writer->folder_fd, PACK_INDEX_PARTIAL, writer->folder_fd, PACK_INDEX_NAME) != 0)
        return s_fail (writer, -errno);
    int rc = file_sync (writer->folder_fd);
    return rc? s_fail (writer, rc): 0;
}

int
pack_index_write (const char *folder, const pack_index_t *index, char *error, size_t error_bytes)
{
    assert (folder); assert (index); assert (index->catalogue); assert (index->pack); assert (index->order);
    assert (index->places); assert (index->checksums); assert (index->volumes);
    assert (error); assert (error_bytes > 0);
    error [0] = 0;
    writer_t writer = { .draft = { .error = error, .error_bytes = error_bytes }, .folder = folder,
        .index = index,
        .fd = -1 };
    do
        writer.folder_fd = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (writer.folder_fd < 0 && errno == EINTR);
    if (writer.folder_fd < 0)
        return s_fail (&writer, -errno);
    int rc = s_write_all (&writer);
    if (rc == 0)
        rc = s_read_back (&writer);
    if (rc == 0)
        rc = s_publish (&writer);
    if (writer.fd >= 0)
        close (writer.fd);
    if (rc)
        unlinkat (writer.folder_fd, PACK_INDEX_PARTIAL, 0);
    XXH3_freeState (writer.hash);
    close (writer.folder_fd);
    return rc;
}
