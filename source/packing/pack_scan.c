#include "pack_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalogue_state.h"
#include "pack.h"
#include "pack_index.h"

typedef struct {
    const catalogue_t *catalogue;
    const pack_t *pack;
    const pack_scan_events_t *events;
    void *context;
    bool is_in_store;
    int store_failed;                   //  -errno: the scan ends
    uint32_t volume;
    int fd;
    uint64_t bytes;                     //  of the volume
    uint8_t *window;                    //  the bytes read last
    size_t window_limit;
    uint64_t window_at;
    size_t window_bytes;
} scan_t;

//  -- reading

static int
s_make_room (scan_t *self, size_t size)
{
    if (size <= self->window_limit)
        return 0;
    free (self->window);
    self->window_bytes = 0;
    self->window = malloc (size);
    self->window_limit = self->window? size: 0;
    return self->window? 0: -ENOMEM;
}

static int
s_fill (scan_t *self, uint64_t offset, size_t size, bool is_afresh)
{
    self->window_bytes = 0;
    int rc = s_make_room (self, size);
    if (rc == 0 && self->is_in_store)
        rc = self->store_failed = pack_read_volume (self->pack, self->volume, self->window, size, offset,
            is_afresh);
    else
    if (rc == 0)
        rc = catalogue_read_at (self->fd, self->window, size, offset);
    if (rc == 0) {
        self->window_at = offset;
        self->window_bytes = size;
    }
    return rc;
}

//  *bytes_p is good until the next call.
static int
s_get (scan_t *self, uint64_t offset, size_t size, const uint8_t **bytes_p)
{
    bool is_inside = offset >= self->window_at && offset - self->window_at <= self->window_bytes
        && size <= self->window_bytes - (offset - self->window_at);
    if (!is_inside) {
        if (offset > self->bytes || size > self->bytes - offset)
            return -ESTALE;
        uint64_t ahead = self->bytes - offset < PACK_SCAN_READ_BYTES? self->bytes - offset:
            PACK_SCAN_READ_BYTES;
        int rc = ahead > size? s_fill (self, offset, ahead, false): -EIO;
        if (rc && !self->store_failed)
            rc = s_fill (self, offset, size, false);
        if (rc)
            return rc;
    }
    //  For 0 bytes there may be no window.
    static const uint8_t nothing;
    *bytes_p = self->window? self->window + (offset - self->window_at): &nothing;
    return 0;
}


//  -- samples

//  What a store sends wrongly once is asked for again, past every cache on the way.
static bool
s_is_whole (scan_t *self, pack_scan_sample_t *sample, const pack_range_t *range)
{
    if (pack_check (self->pack, sample->id, sample->bytes, &sample->field))
        return true;
    if (!self->is_in_store || s_fill (self, range->offset, range->bytes, true))
        return false;
    sample->bytes = self->window;
    return pack_check (self->pack, sample->id, sample->bytes, &sample->field);
}

static int
s_scan_sample (scan_t *self, uint32_t position)
{
    char damage [PACK_SCAN_DAMAGE_BYTES];
    pack_scan_sample_t sample = { .id = pack_order (self->pack) [position], .position = position,
        .volume = self->volume,
        .chunk = position / pack_chunk_samples (self->pack) };
    pack_range_t range = pack_sample (self->pack, sample.id);
    int rc = s_get (self, range.offset, range.bytes, &sample.bytes);
    if (rc == -ENOMEM || self->store_failed)
        return rc;
    if (rc == -ESTALE)
        sample.damage = "its volume ends before it";
    else
    if (rc) {
        snprintf (damage, sizeof damage, "cannot be read (%s)", strerror (-rc));
        sample.damage = damage;
    }
    else
    if (s_is_whole (self, &sample, &range))
        sample.is_whole = true;
    else
    if (self->store_failed)
        return self->store_failed;
    else {
        sample.is_whole = sample.field == catalogue_fields (self->catalogue);
        sample.field = sample.is_whole? 0: sample.field;
        sample.damage = sample.is_whole? "where its rows begin does not match its checksum":
            "its bytes do not match their checksum";
    }
    if (rc)
        sample.bytes = NULL;
    return self->events->sample (self->context, &sample)? 0: -ECANCELED;
}

//  Behind the chunk's last sample, up to a whole block.
static int
s_scan_padding (scan_t *self, uint32_t position)
{
    uint32_t chunk_samples = pack_chunk_samples (self->pack);
    bool is_last = (position + 1) % chunk_samples == 0 || position + 1 == pack_samples (self->pack);
    if (!is_last || !self->events->padding)
        return 0;
    pack_range_t range = pack_sample (self->pack, pack_order (self->pack) [position]);
    uint64_t end = range.offset + range.bytes;
    size_t size = (size_t) (pack_aligned (end, PACK_BLOCK_BYTES) - end);
    const uint8_t *bytes;
    int rc = s_get (self, end, size, &bytes);
    if (rc)
        return rc == -ENOMEM? rc: 0;            //  the volume's event has reported it
    for (size_t at = 0; at < size; at++)
        if (bytes [at]) {
            self->events->padding (self->context, self->volume, position / chunk_samples);
            break;
        }
    return 0;
}


//  -- volumes

static void
s_tell (const scan_t *self, bool is_lost, const char *damage)
{
    self->events->volume (self->context, self->volume, damage, is_lost);
}

//  A volume that is not there is lost; if the store does not say, the scan ends.
static bool
s_open_object (scan_t *self)
{
    int rc = pack_object_bytes (self->pack, self->volume, &self->bytes);
    if (rc == -ENOENT)
        s_tell (self, true, "is missing");
    else
        self->store_failed = rc;
    return rc == 0;
}

static bool
s_open (scan_t *self)
{
    if (self->is_in_store)
        return s_open_object (self);

    char name [40], damage [PACK_SCAN_DAMAGE_BYTES];
    snprintf (name, sizeof name, PACK_VOLUME_NAME, self->volume);
    do
        self->fd = openat (self->catalogue->fields [0].root_fd, name, CATALOGUE_OPEN_FLAGS);
    while (self->fd < 0 && errno == EINTR);
    struct stat status;
    if (self->fd >= 0 && fstat (self->fd, &status) == 0 && S_ISREG (status.st_mode)) {
        self->bytes = (uint64_t) status.st_size;
        posix_fadvise (self->fd, 0, 0, POSIX_FADV_DONTNEED);
        posix_fadvise (self->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        return true;
    }
    if (self->fd < 0)
        snprintf (damage, sizeof damage, "%s (%s)", errno == ENOENT? "is missing": "cannot be opened",
            strerror (errno));
    s_tell (self, true, self->fd < 0? damage: "is not a file");
    return false;
}

static bool
s_is_zero (const uint8_t *bytes, size_t size)
{
    return bytes [0] == 0 && memcmp (bytes, bytes + 1, size - 1) == 0;
}

//  NULL: it is this volume's.
static const char *
s_header_fault (const scan_t *self, const uint8_t *block)
{
    pack_volume_header_t header, expected = pack_volume_header (self->volume, pack_id (self->pack));
    memcpy (&header, block, sizeof header);
    if (memcmp (&header, &expected, sizeof header) == 0)
        return s_is_zero (block + sizeof header, PACK_BLOCK_BYTES - sizeof header)? NULL
            : "has something behind its header, which should be zeros";
    expected = pack_volume_header (header.volume, header.pack);
    if (memcmp (header.magic, expected.magic, sizeof header.magic) || header.checksum != expected.checksum)
        return "has a damaged header";
    if (memcmp (header.pack, pack_id (self->pack), sizeof header.pack))
        return "belongs to another pack";
    return header.volume == self->volume? "has a damaged header": "is another volume under this name";
}

static int
s_check_volume (scan_t *self)
{
    char damage [PACK_SCAN_DAMAGE_BYTES];
    uint64_t expected = pack_volume_bytes (self->pack, self->volume);
    const uint8_t *block;
    if (self->bytes != expected) {
        snprintf (damage, sizeof damage, "has %llu bytes, not %llu", (unsigned long long) self->bytes,
            (unsigned long long) expected);
        s_tell (self, false, damage);
    }
    int rc = s_get (self, 0, PACK_BLOCK_BYTES, &block);
    if (rc == -ENOMEM || self->store_failed || (rc == -ESTALE && self->bytes != expected))
        return rc == -ESTALE? self->store_failed: rc;
    snprintf (damage, sizeof damage, "has a header that cannot be read (%s)", strerror (-rc));
    const char *fault = rc? damage: s_header_fault (self, block);
    if (fault)
        s_tell (self, false, fault);
    return 0;
}

static int
s_scan_volume (scan_t *self)
{
    self->window_bytes = 0;
    if (!s_open (self))
        return self->store_failed;
    int rc = s_check_volume (self);
    uint32_t end = pack_volume_first (self->pack, self->volume + 1);
    for (uint32_t position = pack_volume_first (self->pack, self->volume); rc == 0
        && position < end; position++) {
        rc = s_scan_sample (self, position);
        if (rc == 0)
            rc = s_scan_padding (self, position);
    }
    return rc;
}

int
pack_scan (const catalogue_t *catalogue, const pack_scan_events_t *events, void *context)
{
    assert (catalogue); assert (events); assert (events->sample); assert (events->volume);
    scan_t self = { .catalogue = catalogue, .pack = catalogue_pack (catalogue), .events = events,
        .context = context };
    assert (self.pack);
    self.is_in_store = pack_store (self.pack);
    int rc = 0;
    for (; rc == 0 && self.volume < pack_volumes (self.pack); self.volume++) {
        self.fd = -1;
        rc = s_scan_volume (&self);
        if (self.fd >= 0)
            close (self.fd);
    }
    free (self.window);
    return rc;
}
