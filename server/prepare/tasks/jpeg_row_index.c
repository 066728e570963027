#include "jpeg_row_index.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "file.h"
#include "pack_index.h"

enum { JPEG_ROW_INDEX_MAGIC = 0x1ea27ed0, BESIDE_BYTES = 16 };  //  that an allocation takes
enum { FREE_PART = 8 };                 //  of the budget: with more than this it is not full

struct jpeg_row_index {
    uint32_t magic;
    uint32_t samples;
    uint32_t known;
    bool is_changed;
    jpeg_row_index_budget_t *budget;
    jpeg_row_index_entry_t **entries;   //  by id; NULL: nothing is known
};

static size_t
s_bytes (const jpeg_row_index_entry_t *entry)
{
    return sizeof *entry + entry->size + BESIDE_BYTES;
}

//  Tasks to which it is lent keep it.
static void
s_give_up (jpeg_row_index_t *self, uint32_t id)
{
    jpeg_row_index_entry_t *entry = self->entries [id];
    if (!entry)
        return;
    self->entries [id] = NULL;
    self->known--;
    self->budget->bytes -= s_bytes (entry);
    self->budget->is_full = false;
    jpeg_row_index_release (entry);
}

jpeg_row_index_t *
jpeg_row_index_new (uint32_t samples, jpeg_row_index_budget_t *budget)
{
    jpeg_row_index_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = (jpeg_row_index_t) { .magic = JPEG_ROW_INDEX_MAGIC, .samples = samples, .budget = budget,
        .entries = calloc (samples, sizeof *self->entries) };
    if (!self->entries)
        jpeg_row_index_destroy (&self);
    return self;
}

void
jpeg_row_index_destroy (jpeg_row_index_t **self_p)
{
    jpeg_row_index_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    assert (self->magic == JPEG_ROW_INDEX_MAGIC);
    for (uint32_t id = 0; self->entries && id < self->samples; id++) {
        assert (!self->entries [id] || self->entries [id]->users == 1);
        s_give_up (self, id);
    }
    free (self->entries);
    self->magic = 0;
    free (self);
}

void
jpeg_row_index_move (jpeg_row_index_t *self, jpeg_row_index_budget_t *budget)
{
    assert (!self || self->magic == JPEG_ROW_INDEX_MAGIC);
    if (!self)
        return;
    size_t bytes = 0;
    for (uint32_t id = 0; id < self->samples; id++) {
        size_t more = self->entries [id]? s_bytes (self->entries [id]): 0;
        if (more && budget->bytes + bytes + more > budget->bytes_max)
            s_give_up (self, id);               //  others have learned meanwhile
        else
            bytes += more;
    }
    self->budget->bytes -= bytes;
    budget->bytes += bytes;
    budget->is_full = budget->is_full || self->budget->is_full;
    self->budget = budget;
}

bool
jpeg_row_index_has_room (const jpeg_row_index_t *self)
{
    assert (!self || self->magic == JPEG_ROW_INDEX_MAGIC);
    return self && !self->budget->is_full;
}

jpeg_row_index_entry_t *
jpeg_row_index_lend (jpeg_row_index_t *self, uint32_t id)
{
    assert (!self || (self->magic == JPEG_ROW_INDEX_MAGIC && id < self->samples));
    jpeg_row_index_entry_t *entry = self? self->entries [id]: NULL;
    if (entry)
        entry->users++;
    return entry;
}

void
jpeg_row_index_release (jpeg_row_index_entry_t *entry)
{
    if (!entry)
        return;
    assert (entry->users > 0);
    if (--entry->users == 0)
        free (entry);
}

jpeg_row_index_entry_t *
jpeg_row_index_entry (uint64_t checksum, const uint8_t *bytes, size_t size)
{
    assert (size > 0 && size <= UINT32_MAX);
    jpeg_row_index_entry_t *entry = malloc (sizeof *entry + size);
    if (!entry)
        return NULL;
    *entry = (jpeg_row_index_entry_t) { .checksum = checksum, .users = 1, .size = (uint32_t) size };
    memcpy (entry->bytes, bytes, size);
    return entry;
}

bool
jpeg_row_index_tell (const jpeg_row_index_entry_t *entry, decoder_file_t *file)
{
    if (!entry || entry->checksum != pack_index_checksum (file->bytes, file->size))
        return false;
    file->rows = entry->bytes;
    file->rows_bytes = entry->size;
    return true;
}

//  Of many files nothing is found, ever: these need no checksum.
jpeg_row_index_entry_t *
jpeg_row_index_found (decoder_t *decoder, const decoder_file_t *file, const jpeg_row_index_entry_t *told)
{
    const uint8_t *rows;
    size_t size = decoder_learned (decoder, &rows);
    if (size == 0)
        return NULL;
    return jpeg_row_index_entry (told? told->checksum: pack_index_checksum (file->bytes, file->size), rows,
        size);
}

void
jpeg_row_index_keep (jpeg_row_index_t *self, uint32_t id, jpeg_row_index_entry_t *entry)
{
    assert (self->magic == JPEG_ROW_INDEX_MAGIC && id < self->samples);
    jpeg_row_index_budget_t *budget = self->budget;
    if (self->entries [id] && self->entries [id]->checksum != entry->checksum)
        s_give_up (self, id);
    size_t known_bytes = self->entries [id]? s_bytes (self->entries [id]): 0;
    bool is_more = s_bytes (entry) > known_bytes;
    bool has_room = budget->bytes - known_bytes + s_bytes (entry) <= budget->bytes_max;
    if (is_more && has_room) {
        s_give_up (self, id);
        budget->bytes += s_bytes (entry);
        self->known++;
        self->is_changed = true;
        self->entries [id] = entry;
        return;
    }
    //  A large entry may have no room where small ones still have.
    budget->is_full |= is_more && budget->bytes_max - budget->bytes < budget->bytes_max / FREE_PART;
    jpeg_row_index_release (entry);
}

uint32_t
jpeg_row_index_samples (const jpeg_row_index_t *self)
{
    assert (self->magic == JPEG_ROW_INDEX_MAGIC);
    return self->known;
}

//  ---- the file

#define MAGIC "TUREENR1"

enum { MAGIC_BYTES = 8, FINGERPRINT_BYTES = 32, CHECKSUM_BYTES = 8, BEGIN_AND_END_BYTES = 4096 };

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
jpeg_row_index_path (const char *folder, const char *fingerprint, char *path, size_t size)
{
    int length = snprintf (path, size, "%s/%.32s.rows", folder, fingerprint);
    return length >= 0 && (size_t) length < size? 0: -ENAMETOOLONG;
}

static header_t
s_header (const jpeg_row_index_t *self, const char *fingerprint)
{
    header_t header = { .samples = self->samples, .entries = self->known };
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
s_take_entries (jpeg_row_index_t *self, const uint8_t *at, uint32_t count)
{
    for (; count > 0 && jpeg_row_index_has_room (self); count--) {
        record_t record;
        memcpy (&record, at, sizeof record);
        at += sizeof record;
        jpeg_row_index_entry_t *entry = jpeg_row_index_entry (record.checksum, at, record.size);
        if (!entry)
            return -ENOMEM;
        jpeg_row_index_keep (self, record.id, entry);
        at += record.size;
    }
    return 0;
}

static int
s_take (jpeg_row_index_t *self, const uint8_t *bytes, size_t size, const char *fingerprint)
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
    ||  checksum != pack_index_checksum (bytes, size - CHECKSUM_BYTES)
    ||  !s_is_whole (bytes + sizeof header, end, &header))
        return -EBADMSG;
    return s_take_entries (self, bytes + sizeof header, header.entries);
}

int
jpeg_row_index_load (jpeg_row_index_t *self, const char *path, const char *fingerprint)
{
    char *bytes;
    size_t size;
    //  An entry takes no more there than in memory.
    int rc = file_whole (path, self->budget->bytes_max + BEGIN_AND_END_BYTES, &bytes, &size);
    if (rc == 0 && file_is_foreign (path)) {
        free (bytes);
        return -EPERM;
    }
    if (rc == 0) {
        rc = s_take (self, (const uint8_t *) bytes, size, fingerprint);
        free (bytes);
    }
    if (rc == 0)
        self->is_changed = false;
    return rc;
}


//  -- saving

//  The file's bytes, malloc'ed; NULL: no memory.
static char *
s_text (jpeg_row_index_t *self, const char *fingerprint, size_t *size_p)
{
    char *text = NULL;
    FILE *stream = open_memstream (&text, size_p);
    if (!stream)
        return NULL;
    header_t header = s_header (self, fingerprint);
    fwrite (&header, sizeof header, 1, stream);
    for (uint32_t id = 0; id < header.samples; id++) {
        jpeg_row_index_entry_t *entry = jpeg_row_index_lend (self, id);
        if (!entry)
            continue;
        record_t record = { .id = id, .size = entry->size, .checksum = entry->checksum };
        fwrite (&record, sizeof record, 1, stream);
        fwrite (entry->bytes, entry->size, 1, stream);
        jpeg_row_index_release (entry);
    }
    bool fine = fflush (stream) == 0;
    uint64_t checksum = fine? pack_index_checksum (text, *size_p): 0;
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

//  Locks the file's folder, so that one server at a time saves there: 0 and *fd_p, -EWOULDBLOCK if another
//  one does, or -errno.  Where folders cannot be locked, as on some network disks, nothing keeps two apart.
static int
s_lock_folder (const char *path, int *fd_p)
{
    const char *slash = strrchr (path, '/');
    char folder [PATH_MAX];
    snprintf (folder, sizeof folder, "%.*s", slash? (int) (slash - path) + 1: 1, slash? path: ".");
    *fd_p = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd_p < 0)
        return -errno;
    if (flock (*fd_p, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0;
    close (*fd_p);
    return -EWOULDBLOCK;
}

static int
s_save (jpeg_row_index_t *self, const char *path, const char *fingerprint)
{
    char partial [PATH_MAX];
    int length = snprintf (partial, sizeof partial, "%s.new", path);
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
    return rc;
}

int
jpeg_row_index_save (jpeg_row_index_t *self, const char *path, const char *fingerprint)
{
    if (!self->is_changed)
        return 0;
    int folder_fd, rc = s_lock_folder (path, &folder_fd);
    if (rc)
        return rc == -EWOULDBLOCK? 0: rc;       //  these rows are saved by the next call
    rc = s_save (self, path, fingerprint);
    close (folder_fd);
    if (rc == 0)
        self->is_changed = false;
    return rc;
}
