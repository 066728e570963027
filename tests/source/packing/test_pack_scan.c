//  Scanning packs of many volumes: each sample once and by position, damage at the samples it hits, reads
//  that fail.

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <limits.h>

#include "effort.h"
#include "pack.h"
#include "pack_scan.h"
#include "packing.h"
#include "scratch.h"
#include "seed.h"

enum { SAMPLES = 700, BYTES_MAX = 4000 };

//  -- reads that fail where the disk is bad, or now and then

static uint64_t bad_from, bad_to;       //  of any file; a read that touches it fails
static uint64_t shorter;                //  a splitmix state: reads are short or interrupted at random; 0:
                                        //  never

ssize_t __real_pread (int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread (int fd, void *bytes, size_t size, off_t offset);
ssize_t
__wrap_pread (int fd, void *bytes, size_t size, off_t offset)
{
    uint64_t from = (uint64_t) offset;
    if (from < bad_to && from + size > bad_from) {
        errno = EIO;
        return -1;
    }
    if (shorter && test_below (&shorter, 3) == 0) {
        errno = EINTR;
        return -1;
    }
    return __real_pread (fd, bytes, shorter && size? 1 + test_below (&shorter, size): size, offset);
}


//  -- a pack to scan

typedef struct {
    scratch_folder_t scratch;
    char data [PATH_MAX], pack [PATH_MAX];
    catalogue_t *catalogue;
    //  What was seen
    uint32_t seen, damaged, position;
    bool is_damaged [SAMPLES];
    uint32_t volume_faults, lost, paddings;
    char volume_fault [PACK_SCAN_DAMAGE_BYTES];     //  the last one
    uint32_t stop_after;                //  0: never
} fixture_t;

static void
s_write (const char *folder, const char *name, const uint8_t *bytes, size_t size)
{
    char path [2 * PATH_MAX];
    snprintf (path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen (path, "we");
    assert_non_null (file);
    assert_true (size == 0 || fwrite (bytes, size, 1, file) == 1);
    assert_int_equal (fclose (file), 0);
}

static int
begin (void **state)
{
    fixture_t *self = calloc (1, sizeof *self);
    *state = self;
    bad_from = bad_to = shorter = 0;
    alarm (300);
    if (!self || !scratch_begin (&self->scratch))
        return -1;
    char folder [PATH_MAX], name [40];
    uint8_t bytes [BYTES_MAX];
    uint64_t random = test_seed ();
    snprintf (self->data, sizeof self->data, "%s/data", self->scratch.path);
    snprintf (self->pack, sizeof self->pack, "%s/pack", self->scratch.path);
    snprintf (folder, sizeof folder, "%s/data/a", self->scratch.path);
    if (mkdir (self->data, 0700) || mkdir (folder, 0700))
        return -1;
    for (uint32_t id = 0; id < SAMPLES; id++) {
        size_t size = test_below (&random, 20)? test_below (&random, BYTES_MAX): 0;
        for (size_t at = 0; at < size; at++)
            bytes [at] = (uint8_t) test_below (&random, 256);
        snprintf (name, sizeof name, "%04u.jpg", id);
        s_write (folder, name, bytes, size);
    }
    const char *path = self->data;
    char error [PACK_SOURCE_ERROR_BYTES];
    packing_result_t result;
    packing_options_t options = {
        .source = { .paths = &path, .path_count = 1 }, .target = self->pack,
        .chunk_samples = PACK_CHUNK_SAMPLES,
        .volume_bytes = 300000, .has_seed = true, .seed = 7, .memory_bytes = PACKING_MEMORY_BYTES_MIN
    };
    if (packing_run (&options, &result, error))
        fail_msg ("%s", error);
    catalogue_options_t opening = { .path = self->pack, .index_only = true };
    if (catalogue_open (&self->catalogue, &opening, error, sizeof error))
        fail_msg ("%s", error);
    assert_true (pack_volumes (catalogue_pack (self->catalogue)) > 2);
    return 0;
}

static int
end (void **state)
{
    fixture_t *self = *state;
    bad_from = bad_to = shorter = 0;
    catalogue_destroy (&self->catalogue);
    bool clean = scratch_end (&self->scratch);
    free (self);
    return clean? 0: -1;
}

static bool
s_on_sample (void *context, const pack_scan_sample_t *sample)
{
    fixture_t *self = context;
    const pack_t *pack = catalogue_pack (self->catalogue);
    size_t field;
    assert_true (self->seen == 0 || sample->position > self->position);
    assert_int_equal (pack_position (pack, sample->id), sample->position);
    assert_int_equal (sample->chunk, sample->position / PACK_CHUNK_SAMPLES);
    assert_int_equal (pack_sample (pack, sample->id).volume, sample->volume);
    self->position = sample->position;
    self->seen++;
    self->is_damaged [sample->id] = sample->damage;
    self->damaged += sample->damage != NULL;
    //  Whole is what matches: no sample is called so that does not.
    if (!sample->damage)
        assert_true (pack_check (pack, sample->id, sample->bytes, &field));
    return self->seen != self->stop_after;
}

static void
s_on_volume (void *context, uint32_t volume, const char *damage, bool is_lost)
{
    fixture_t *self = context;
    const pack_t *pack = catalogue_pack (self->catalogue);
    assert_true (damage [0]);
    self->volume_faults++;
    snprintf (self->volume_fault, sizeof self->volume_fault, "%s", damage);
    if (is_lost)
        self->lost += pack_volume_first (pack, volume + 1) - pack_volume_first (pack, volume);
}

static void
s_on_padding (void *context, uint32_t volume, uint32_t chunk)
{
    (void) volume, (void) chunk;
    ((fixture_t *) context)->paddings++;
}

static int
s_scan (fixture_t *self)
{
    static const pack_scan_events_t events = { s_on_sample, s_on_volume, s_on_padding };
    self->seen = self->damaged = self->volume_faults = self->lost = self->paddings = 0;
    memset (self->is_damaged, 0, sizeof self->is_damaged);
    return pack_scan (self->catalogue, &events, self);
}

static int
s_open_volume (const fixture_t *self, uint32_t volume)
{
    char path [PATH_MAX];
    pack_volume_path (catalogue_pack (self->catalogue), volume, path, sizeof path);
    int fd = open (path, O_RDWR | O_CLOEXEC);
    assert_true (fd >= 0);
    return fd;
}


//  -- tests

static void
test_a_whole_pack (void **state)
{
    fixture_t *self = *state;
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal (s_scan (self), 0);
        assert_int_equal (self->seen, SAMPLES);
        assert_int_equal (self->damaged + self->volume_faults + self->paddings, 0);
        shorter = test_seed () + (uint64_t) turn + 1;
    }
    self->stop_after = 5;
    assert_int_equal (s_scan (self), -ECANCELED);
    assert_int_equal (self->seen, 5);
}

//  A volume that is not there costs its samples, and no others.
static void
test_missing_volumes (void **state)
{
    fixture_t *self = *state;
    const pack_t *pack = catalogue_pack (self->catalogue);
    uint32_t lost = 0;
    for (uint32_t volume = 0; volume < pack_volumes (pack); volume++) {
        char path [PATH_MAX];
        pack_volume_path (pack, volume, path, sizeof path);
        assert_int_equal (unlink (path), 0);
        lost += pack_volume_first (pack, volume + 1) - pack_volume_first (pack, volume);
        assert_int_equal (s_scan (self), 0);
        assert_int_equal (self->volume_faults, volume + 1);
        assert_int_equal (self->lost, lost);
        assert_int_equal (self->seen, SAMPLES - lost);
        assert_int_equal (self->damaged, 0);
    }
    assert_int_equal (lost, SAMPLES);
}

//  Model: a sample is damaged if a byte of its range was changed; a change outside of all ranges is padding
//  or a header.
static void
test_flipped_bits (void **state)
{
    fixture_t *self = *state;
    const pack_t *pack = catalogue_pack (self->catalogue);
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (60); round++) {
        uint32_t volume = (uint32_t) test_below (&random, pack_volumes (pack));
        uint64_t at = test_below (&random, pack_volume_bytes (pack, volume));
        uint8_t byte, changed;
        int fd = s_open_volume (self, volume);
        assert_int_equal (__real_pread (fd, &byte, 1, (off_t) at), 1);
        changed = (uint8_t) (byte ^ 1u << test_below (&random, 8));
        assert_int_equal (pwrite (fd, &changed, 1, (off_t) at), 1);
        assert_int_equal (s_scan (self), 0);
        uint32_t hit = 0;
        for (uint32_t id = 0; id < SAMPLES; id++) {
            pack_range_t range = pack_sample (pack, id);
            bool is_hit = range.volume == volume && at >= range.offset && at < range.offset + range.bytes;
            if (self->is_damaged [id] != is_hit)
                fail_msg ("seed %" PRIu64 ": sample %u, byte %" PRIu64 " of volume %u", test_seed (), id, at,
                    volume);
            hit += is_hit;
        }
        assert_int_equal (self->seen, SAMPLES);
        assert_int_equal (hit + self->volume_faults + self->paddings, 1);
        assert_int_equal (self->volume_faults, at < PACK_BLOCK_BYTES);
        assert_int_equal (pwrite (fd, &byte, 1, (off_t) at), 1);
        close (fd);
    }
}

//  Changes these bytes of the volume, scans, and changes them back.
static void
s_scan_flipped (fixture_t *self, uint32_t volume, uint64_t from, uint64_t to)
{
    uint8_t bytes [PACK_BLOCK_BYTES], changed [PACK_BLOCK_BYTES];
    size_t count = (size_t) (to - from);
    assert_true (count <= sizeof bytes);
    int fd = s_open_volume (self, volume);
    assert_int_equal (__real_pread (fd, bytes, count, (off_t) from), count);
    for (size_t at = 0; at < count; at++)
        changed [at] = bytes [at] ^ 1;
    assert_int_equal (pwrite (fd, changed, count, (off_t) from), count);
    assert_int_equal (s_scan (self), 0);
    assert_int_equal (pwrite (fd, bytes, count, (off_t) from), count);
    close (fd);
}

//  The first and the last byte behind a chunk in the middle, and behind the last one; and all of them, which
//  are told once.
static void
test_padding_is_looked_at_from_end_to_end (void **state)
{
    fixture_t *self = *state;
    const pack_t *pack = catalogue_pack (self->catalogue);
    static const uint32_t last [] = { PACK_CHUNK_SAMPLES - 1, SAMPLES - 1 };
    for (size_t index = 0; index < sizeof last / sizeof *last; index++) {
        pack_range_t range = pack_sample (pack, pack_order (pack) [last [index]]);
        uint64_t end = range.offset + range.bytes;
        uint64_t next = (end + PACK_BLOCK_BYTES - 1) / PACK_BLOCK_BYTES * PACK_BLOCK_BYTES;
        assert_true (next - end > 1);
        const uint64_t places [] [2] = { { end, end + 1 }, { next - 1, next }, { end, next } };
        for (size_t place = 0; place < sizeof places / sizeof *places; place++) {
            s_scan_flipped (self, range.volume, places [place] [0], places [place] [1]);
            assert_int_equal (self->paddings, 1);
            assert_int_equal (self->damaged + self->volume_faults, 0);
        }
    }
}

//  The first and the last byte of a volume's header, and of the zeros behind it.
static void
test_headers_are_looked_at_from_end_to_end (void **state)
{
    fixture_t *self = *state;
    static const uint64_t places [] = { 0, sizeof (pack_volume_header_t) - 1, sizeof (pack_volume_header_t),
        PACK_BLOCK_BYTES - 1 };
    for (size_t place = 0; place < sizeof places / sizeof *places; place++) {
        s_scan_flipped (self, 1, places [place], places [place] + 1);
        assert_int_equal (self->volume_faults, 1);
        assert_int_equal (self->damaged + self->paddings, 0);
    }
}

//  A bad place on the disk costs the samples that touch it, in every volume here.
static void
test_blocks_that_cannot_be_read (void **state)
{
    fixture_t *self = *state;
    const pack_t *pack = catalogue_pack (self->catalogue);
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (40); round++) {
        bad_from = PACK_BLOCK_BYTES + test_below (&random, 300000);
        bad_to = bad_from + 1 + test_below (&random, 5000);
        shorter = 0;
        assert_int_equal (s_scan (self), 0);
        assert_int_equal (self->seen, SAMPLES);
        for (uint32_t id = 0; id < SAMPLES; id++) {
            pack_range_t range = pack_sample (pack, id);
            bool is_hit = range.bytes && range.offset < bad_to && range.offset + range.bytes > bad_from;
            if (self->is_damaged [id] != is_hit)
                fail_msg ("seed %" PRIu64 ": sample %u, bad from %" PRIu64 " to %" PRIu64, test_seed (), id,
                    bad_from, bad_to);
        }
    }
    bad_from = 0;
    bad_to = 10;
    assert_int_equal (s_scan (self), 0);
    assert_int_equal (self->volume_faults, pack_volumes (pack));
    assert_string_equal (self->volume_fault, "has a header that cannot be read (Input/output error)");
    assert_int_equal (self->damaged, 0);
}

//  Cut anywhere: what lies behind is damaged, what lies before is not.
static void
test_cut_volumes (void **state)
{
    fixture_t *self = *state;
    const pack_t *pack = catalogue_pack (self->catalogue);
    uint64_t random = test_seed (), size = pack_volume_bytes (pack, 1);
    for (int round = 0; round < 30; round++) {
        size = test_below (&random, size);
        int fd = s_open_volume (self, 1);
        assert_int_equal (ftruncate (fd, (off_t) size), 0);
        close (fd);
        assert_int_equal (s_scan (self), 0);
        assert_int_equal (self->seen, SAMPLES);
        assert_int_equal (self->volume_faults, 1);
        for (uint32_t id = 0; id < SAMPLES; id++) {
            pack_range_t range = pack_sample (pack, id);
            assert_int_equal (self->is_damaged [id], range.volume == 1 && range.offset + range.bytes > size);
        }
        if (size == 0)
            break;
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_a_whole_pack, begin, end),
        cmocka_unit_test_setup_teardown (test_missing_volumes, begin, end),
        cmocka_unit_test_setup_teardown (test_flipped_bits, begin, end),
        cmocka_unit_test_setup_teardown (test_padding_is_looked_at_from_end_to_end, begin, end),
        cmocka_unit_test_setup_teardown (test_headers_are_looked_at_from_end_to_end, begin, end),
        cmocka_unit_test_setup_teardown (test_blocks_that_cannot_be_read, begin, end),
        cmocka_unit_test_setup_teardown (test_cut_volumes, begin, end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
