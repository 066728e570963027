/*  pack_index.c -- the index, section after section; its header last, as only then the checksums are known.
 *
 *  happy path:  seek over the header; for each section zeros up to its begin, then its arrays from where they
 *               lie; the header; fsync; read and validate the file as any reader will; rename; fsync the
 *               folder.
 *  failure:     the first error is kept, nothing is written after it; the partial file is removed.
 */
#include "pack_index.h"
#include "disk_sync.h"
#include "pack_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

enum { PART_RECORDS = 256 };

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
pack_checksum (const void *bytes, size_t size)
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
    for (size_t done = 0; done < size; ) {
        ssize_t count = pwrite (writer->fd, (const uint8_t *) bytes + done, size - done,
            (off_t) (writer->at + done));
        if (count > 0)
            done += (size_t) count;
        else
        if (count == 0 || errno != EINTR)
            return s_fail (writer, count == 0? -EIO: -errno);
    }
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

static void
s_end (writer_t *writer, pack_section_t section)
{
    pack_extent_t *extent = &writer->header.sections [section];
    extent->bytes = writer->at - extent->offset;
    extent->checksum = XXH3_64bits_digest (writer->hash);
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

//  Of a sample.
static size_t
s_files (const pack_index_t *index)
{
    return catalogue_fields (index->catalogue) + (index->rows_bytes? 1: 0);
}

static int
s_put_section (writer_t *writer, pack_section_t section)
{
    const pack_index_t *index = writer->index;
    const catalogue_t *catalogue = index->catalogue;
    size_t samples = catalogue->sample_count;
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
        return s_put (writer, index->checksums, samples * s_files (index) * sizeof *index->checksums);
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
        s_end (writer, section);
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
    rc = rc? s_fail (writer, rc): pack_load (&writer->draft, PACK_INDEX_PARTIAL);
    catalogue_destroy (&writer->draft.self);
    return rc;
}

static int
s_publish (writer_t *writer)
{
    if (renameat (writer->folder_fd, PACK_INDEX_PARTIAL, writer->folder_fd, PACK_INDEX_NAME) != 0)
        return s_fail (writer, -errno);
    int rc = disk_sync (writer->folder_fd);
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
