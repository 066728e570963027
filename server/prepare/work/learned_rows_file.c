#include "learned_rows_file.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "input.h"
#include "pack_index.h"
#include "stranger.h"

#define MAGIC "TUREENR1"

enum { MAGIC_BYTES = 8, FINGERPRINT_BYTES = 32, CHECKSUM_BYTES = 8 };

typedef struct {
    char magic [MAGIC_BYTES];
    char fingerprint [FINGERPRINT_BYTES];
    uint32_t samples, entries;
} header_t;

typedef struct {
    uint32_t id, size;
    uint64_t checksum;
} record_t;

_Static_assert (sizeof (header_t) == 48 && sizeof (record_t) == 16, "drawn in the header");
_Static_assert (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "written as they are");

int
learned_rows_path (const char *folder, const char *fingerprint, char *path, size_t size)
{
    int length = snprintf (path, size, "%s/%.32s.rows", folder, fingerprint);
    return length >= 0 && (size_t) length < size? 0: -ENAMETOOLONG;
}

static header_t
s_header (const learned_rows_t *self, const char *fingerprint)
{
    header_t header = { .samples = learned_rows_table (self), .entries = learned_rows_samples (self) };
    assert (strlen (fingerprint) == FINGERPRINT_BYTES);
    memcpy (header.magic, MAGIC, MAGIC_BYTES);
    memcpy (header.fingerprint, fingerprint, FINGERPRINT_BYTES);
    return header;
}


//  -- loading

//  Whether the records fill the bytes exactly, with ids that the table has, ascending.
static bool
s_is_whole (const uint8_t *at, const uint8_t *end, const header_t *header)
{
    uint64_t least = 0;
    for (uint32_t entry = 0; entry < header->entries; entry++) {
        record_t record;
        if ((size_t) (end - at) < sizeof record)
            return false;
        memcpy (&record, at, sizeof record);
        at += sizeof record;
        if (record.id < least || record.id >= header->samples || record.size == 0
        ||  record.size > (size_t) (end - at))
            return false;
        least = (uint64_t) record.id + 1;
        at += record.size;
    }
    return at == end;
}

static int
s_take_entries (learned_rows_t *self, const uint8_t *at, uint32_t count)
{
    for (; count > 0 && learned_rows_has_room (self); count--) {
        record_t record;
        memcpy (&record, at, sizeof record);
        at += sizeof record;
        learned_rows_entry_t *entry = learned_rows_entry (record.checksum, at, record.size);
        if (!entry)
            return -ENOMEM;
        learned_rows_keep (self, record.id, entry);
        at += record.size;
    }
    return 0;
}

static int
s_take (learned_rows_t *self, const uint8_t *bytes, size_t size, const char *fingerprint)
{
    header_t header, expected = s_header (self, fingerprint);
    uint64_t checksum;
    if (size < sizeof header + CHECKSUM_BYTES)
        return -EBADMSG;
    const uint8_t *end = bytes + size - CHECKSUM_BYTES;
    memcpy (&header, bytes, sizeof header);
    memcpy (&checksum, end, CHECKSUM_BYTES);
    expected.entries = header.entries;
    if (memcmp (&header, &expected, sizeof header) != 0
    ||  checksum != pack_checksum (bytes, size - CHECKSUM_BYTES)
    ||  !s_is_whole (bytes + sizeof header, end, &header))
        return -EBADMSG;
    return s_take_entries (self, bytes + sizeof header, header.entries);
}

int
learned_rows_load (learned_rows_t *self, const char *path, const char *fingerprint)
{
    char *bytes;
    size_t size;
    int rc = input_whole (path, learned_rows_file_max (self), &bytes, &size);
    if (rc == 0 && stranger_owns (path)) {
        free (bytes);
        return -EPERM;
    }
    if (rc == 0) {
        rc = s_take (self, (const uint8_t *) bytes, size, fingerprint);
        free (bytes);
    }
    if (rc == 0)
        learned_rows_set_changed (self, false);
    return rc;
}


//  -- saving

//  The file's bytes, malloc'ed; NULL: no memory.
static char *
s_text (learned_rows_t *self, const char *fingerprint, size_t *size_p)
{
    char *text = NULL;
    FILE *stream = open_memstream (&text, size_p);
    if (!stream)
        return NULL;
    header_t header = s_header (self, fingerprint);
    fwrite (&header, sizeof header, 1, stream);
    for (uint32_t id = 0; id < header.samples; id++) {
        learned_rows_entry_t *entry = learned_rows_lend (self, id);
        if (!entry)
            continue;
        record_t record = { .id = id, .size = entry->size, .checksum = entry->checksum };
        fwrite (&record, sizeof record, 1, stream);
        fwrite (entry->bytes, entry->size, 1, stream);
        learned_rows_release (entry);
    }
    bool fine = fflush (stream) == 0;
    uint64_t checksum = fine? pack_checksum (text, *size_p): 0;
    fwrite (&checksum, sizeof checksum, 1, stream);
    fine = fine && !ferror (stream);
    if (fclose (stream) == 0 && fine)
        return text;
    free (text);
    return NULL;
}

//  Of a new file.  0 or -errno.
static int
s_write (const char *path, const char *text, size_t size)
{
    //  What a killed server left, or another user put there; nothing is followed.
    FILE *file = unlink (path) == 0 || errno == ENOENT? fopen (path, "wex"): NULL;
    if (!file)
        return -errno;
    int rc = fwrite (text, 1, size, file) == size? 0: -errno;
    if (fclose (file) != 0 && rc == 0)
        rc = -errno;
    if (rc)
        unlink (path);
    return rc;
}

int
learned_rows_save (learned_rows_t *self, const char *path, const char *fingerprint)
{
    if (!learned_rows_is_changed (self))
        return 0;
    char partial [PATH_MAX];
    int length = snprintf (partial, sizeof partial, "%s.%ld", path, (long) getpid ());
    if (length < 0 || (size_t) length >= sizeof partial)
        return -ENAMETOOLONG;
    size_t size;
    char *text = s_text (self, fingerprint, &size);
    if (!text)
        return -ENOMEM;
    //  After a crash of the machine its checksum tells if it was not written whole.
    int rc = s_write (partial, text, size);
    free (text);
    if (rc == 0 && rename (partial, path) != 0) {
        rc = -errno;
        unlink (partial);
    }
    if (rc == 0)
        learned_rows_set_changed (self, false);
    return rc;
}
