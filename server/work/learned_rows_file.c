#include "learned_rows_file.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "input.h"
#include "pack_index.h"

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
    if (rc == 0) {
        rc = s_take (self, (const uint8_t *) bytes, size, fingerprint);
        free (bytes);
    }
    if (rc == 0)
        learned_rows_set_changed (self, false);
    return rc;
}


//  -- saving

//  Appends bytes, and grows the text: false: no memory.
static bool
s_append (uint8_t **text_p, size_t *used_p, size_t *room_p, const void *bytes, size_t size)
{
    while (*room_p - *used_p < size) {
        size_t room = 2 * *room_p + size;
        uint8_t *text = realloc (*text_p, room);
        if (!text)
            return false;
        *text_p = text;
        *room_p = room;
    }
    memcpy (*text_p + *used_p, bytes, size);
    *used_p += size;
    return true;
}

//  The file's bytes; NULL: no memory.
static uint8_t *
s_text (learned_rows_t *self, const char *fingerprint, size_t *size_p)
{
    uint8_t *text = NULL;
    size_t used = 0, room = 0;
    header_t header = s_header (self, fingerprint);
    bool fine = s_append (&text, &used, &room, &header, sizeof header);
    for (uint32_t id = 0; fine && id < header.samples; id++) {
        learned_rows_entry_t *entry = learned_rows_lend (self, id);
        if (!entry)
            continue;
        record_t record = { .id = id, .size = entry->size, .checksum = entry->checksum };
        fine = s_append (&text, &used, &room, &record, sizeof record)
            && s_append (&text, &used, &room, entry->bytes, entry->size);
        learned_rows_release (entry);
    }
    if (fine) {
        uint64_t checksum = pack_checksum (text, used);
        fine = s_append (&text, &used, &room, &checksum, sizeof checksum);
    }
    if (!fine) {
        free (text);
        return NULL;
    }
    *size_p = used;
    return text;
}

static int
s_write (int descriptor, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write (descriptor, bytes, size);
        if (written < 0 && errno != EINTR)
            return -errno;
        if (written > 0) {
            bytes += written;
            size -= (size_t) written;
        }
    }
    return 0;
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
    uint8_t *text = s_text (self, fingerprint, &size);
    if (!text)
        return -ENOMEM;
    int descriptor = open (partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int rc = descriptor < 0? -errno: s_write (descriptor, text, size);
    free (text);
    //  After a crash of the machine its checksum tells if it was not written whole.
    if (descriptor >= 0 && close (descriptor) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && rename (partial, path) != 0)
        rc = -errno;
    if (rc == 0)
        learned_rows_set_changed (self, false);
    else
    if (descriptor >= 0)
        unlink (partial);
    return rc;
}
