/*  Packs: the same answers as the folder's, and calls that fail while one is opened or written.  Damage is
 *  test_pack_damage.c's, the bytes beside a reader written from docs/format.md alone test_pack_format.py's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data_folder.h"
#include "packed_folder.h"
#include "catalogue_state.h"
#include "pack.h"
#include "seed.h"
#include "small_pack.h"

#include <sys/mman.h>
#include <xxhash.h>

FAULT_CALL (void *, MAP_FAILED, mmap, (void *at, size_t size, int rights, int flags, int fd, off_t offset),
    (at, size, rights, flags, fd, offset))
FAULT_CALL (int, -1, fsync, (int fd), (fd))
FAULT_CALL (int, -1, renameat, (int from_fd, const char *from, int to_fd, const char *to),
    (from_fd, from, to_fd, to))
FAULT_CALL (XXH3_state_t *, NULL, XXH3_createState, (void), ())

//  pread and pwrite move at most move_chunk bytes at a time and are interrupted before each of them.
static size_t move_chunk;
static bool move_interrupted;

static bool
move_is_interrupted (size_t *size)
{
    if (!move_chunk)
        return false;
    *size = *size > move_chunk? move_chunk: *size;
    errno = EINTR;
    return move_interrupted = !move_interrupted;
}

ssize_t __real_pread (int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread (int fd, void *bytes, size_t size, off_t offset);
ssize_t
__wrap_pread (int fd, void *bytes, size_t size, off_t offset)
{
    return fault_strikes () || move_is_interrupted (&size)? -1: __real_pread (fd, bytes, size, offset);
}

ssize_t __real_pwrite (int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite (int fd, const void *bytes, size_t size, off_t offset);
ssize_t
__wrap_pwrite (int fd, const void *bytes, size_t size, off_t offset)
{
    return fault_strikes () || move_is_interrupted (&size)? -1: __real_pwrite (fd, bytes, size, offset);
}


//  -- the same answers

static void
assert_same_labels (const catalogue_t *one, const catalogue_t *other)
{
    static uint8_t a [CATALOGUE_LABEL_BYTES_MAX], b [CATALOGUE_LABEL_BYTES_MAX];
    assert_int_equal (catalogue_labels (one), catalogue_labels (other));
    for (size_t index = 0; index < catalogue_labels (one); index++) {
        const catalogue_label_t *label = catalogue_label (one, index), *same = catalogue_label (other, index);
        assert_string_equal (label->name, same->name);
        assert_string_equal (label->dtype, same->dtype);
        assert_int_equal (label->dimensions, same->dimensions);
        assert_memory_equal (label->shape, same->shape, sizeof label->shape);
        assert_int_equal (label->bytes, same->bytes);
        for (uint32_t id = 0; id < catalogue_samples (one); id++) {
            catalogue_label_value (one, index, id, a);
            catalogue_label_value (other, index, id, b);
            assert_memory_equal (a, b, label->bytes);
        }
    }
}

static void
assert_same_files (const catalogue_t *one, const catalogue_t *other, size_t field)
{
    assert_string_equal (catalogue_field_name (one, field), catalogue_field_name (other, field));
    assert_int_equal (catalogue_field_is_mask (one, field), catalogue_field_is_mask (other, field));
    catalogue_buffer_t a = { 0 }, b = { 0 };
    for (uint32_t id = 0; id < catalogue_samples (one); id++) {
        char path [PATH_MAX];
        catalogue_path (one, id, field, path, sizeof path);
        assert_path_of (other, id, field, path);
        assert_int_equal (catalogue_file_bytes (one, id, field), catalogue_file_bytes (other, id, field));
        assert_int_equal (catalogue_read (one, id, field, &a), 0);
        assert_int_equal (catalogue_read (other, id, field, &b), 0);
        assert_int_equal (a.size, b.size);
        assert_memory_equal (a.bytes, b.bytes, a.size);
    }
    free (a.bytes);
    free (b.bytes);
}

static void
assert_same (const catalogue_t *one, const catalogue_t *other)
{
    assert_int_equal (catalogue_samples (one), catalogue_samples (other));
    assert_int_equal (catalogue_classes (one), catalogue_classes (other));
    assert_int_equal (catalogue_bytes (one), catalogue_bytes (other));
    assert_string_equal (catalogue_fingerprint (one), catalogue_fingerprint (other));
    for (uint32_t label = 0; label < catalogue_classes (one); label++)
        assert_string_equal (catalogue_class_name (one, label), catalogue_class_name (other, label));
    assert_int_equal (catalogue_fields (one), catalogue_fields (other));
    for (size_t field = 0; field < catalogue_fields (one); field++)
        assert_same_files (one, other, field);
    assert_same_labels (one, other);
}

//  Guards: what a job is told of a packed folder is what it was told of the folder; classes and further
//  fields.
static void
test_answers_are_the_folders (void **state)
{
    packed_make_small (*state, false);
    catalogue_t *source = packed_open_source (*state, true), *packed = packed_open_pack (*state);
    assert_same (source, packed);
    assert_int_equal (catalogue_classes (packed), 2);
    assert_int_equal (catalogue_fields (packed), 3);
    assert_string_equal (catalogue_root (packed), in (*state, "pack"));
    assert_null (catalogue_pack (source));
    assert_non_null (catalogue_pack (packed));
    //  A pack can be packed again.
    packed_make_pack (*state, packed, "again", test_seed () + 1);
    catalogue_t *again = open_with (&(catalogue_options_t) { .path = in (*state, "again") });
    assert_same (source, again);
    catalogue_destroy (&again);
    catalogue_destroy (&packed);
    catalogue_destroy (&source);
}

//  Guards: the same for labels of every kind, in a folder without classes.
static void
test_labels_are_the_files (void **state)
{
    packed_make_small (*state, true);
    catalogue_t *source = packed_open_source (*state, false), *packed = packed_open_pack (*state);
    assert_int_equal (catalogue_labels (packed), 5);
    assert_same (source, packed);
    catalogue_destroy (&packed);
    catalogue_destroy (&source);
}

//  Guards: a tar's stems end at the first dot, in a pack as well; and samples without any label.
static void
test_files_beside_keep_their_stem (void **state)
{
    packed_make_noise (*state, "src/a.b.jpg", 10);
    packed_make_noise (*state, "masks/a.b.png", 20);
    make_text (*state, "src/labels.tsv", "path\na.b.jpg\n");
    const catalogue_field_t field = { "mask", true, in (*state, "masks") };
    catalogue_t *source = open_with (&(catalogue_options_t) { .path = in (*state, "src"), .fields = &field,
        .field_count = 1 });
    small_pack_t pack;
    char error [ERROR_BYTES];
    assert_int_equal (mkdir (in (*state, "pack"), 0700), 0);
    small_pack_begin (&pack, source,
        &(small_pack_options_t) { in (*state, "pack"), PACKED_CHUNK, PACKED_VOLUME_BYTES, 1, NULL });
    source->fields [1].is_beside = true;            //  as the source of a tar has it
    assert_int_equal (small_pack_index (&pack, error, sizeof error), 0);
    small_pack_end (&pack);
    catalogue_t *packed = packed_open_pack (*state);
    assert_path_of (packed, 0, 0, "a.b.jpg");
    assert_path_of (packed, 0, 1, "a.png");
    assert_int_equal (catalogue_labels (packed), 0);
    catalogue_destroy (&packed);
    catalogue_destroy (&source);
}

//  Guards: a note comes back, changes nothing else, and is inherited by a pack of the pack; the last one
//  counts.
static void
test_notes (void **state)
{
    packed_make_small (*state, false);
    catalogue_t *source = packed_open_source (*state, true), *packed = packed_open_pack (*state);
    assert_null (pack_note (catalogue_pack (packed)));
    catalogue_destroy (&packed);
    static const char *const notes [] = { "{\"first\":1}", NULL, "", "{\"last\":2}" };
    static const char *const found [] = { "{\"first\":1}", "{\"first\":1}", "", "{\"last\":2}" };
    for (int round = 0; round < 4; round++) {
        char name [16], error [ERROR_BYTES];
        snprintf (name, sizeof name, "p%d", round);
        assert_int_equal (mkdir (in (*state, name), 0700), 0);
        catalogue_t *from = round? packed: source;
        small_pack_t pack;
        small_pack_options_t options = { in (*state, name), PACKED_CHUNK, PACKED_VOLUME_BYTES, 1,
            notes [round] };
        small_pack_begin (&pack, from, &options);
        if (small_pack_index (&pack, error, sizeof error))
            fail_msg ("%s", error);
        small_pack_end (&pack);
        if (round)
            catalogue_destroy (&packed);
        packed = open_with (&(catalogue_options_t) { .path = in (*state, name) });
        assert_string_equal (pack_note (catalogue_pack (packed)), found [round]);
        assert_same (source, packed);
    }
    catalogue_destroy (&packed);
    catalogue_destroy (&source);
}

//  Guards: what a label says is no note, even if it looks like one and stands where one would.
static void
test_a_label_is_no_note (void **state)
{
    packed_make_noise (*state, "src/1.jpg", 10);
    packed_make_noise (*state, "src/2.jpg", 20);
    make_text (*state, "src/labels.tsv", "path\tcaption\n1.jpg\tmeow\n2.jpg\t" PACK_NOTE_BEGIN "{}\n");
    catalogue_t *source = packed_open_source (*state, false);
    assert_string_equal (source->arena + source->arena_used - 11, PACK_NOTE_BEGIN "{}");
    packed_make_pack (*state, source, "pack", 1);
    catalogue_t *packed = packed_open_pack (*state);
    assert_null (pack_note (catalogue_pack (packed)));
    catalogue_destroy (&packed);
    catalogue_destroy (&source);
}


//  -- where the bytes are

static void
read_range (const pack_t *pack, pack_range_t range, uint8_t *bytes)
{
    assert_int_equal (__real_pread (pack_volume_descriptor (pack, range.volume), bytes, range.bytes,
        (off_t) range.offset),
        range.bytes);
}

static void
assert_sample (const catalogue_t *source, const pack_t *pack, uint32_t id, const uint8_t *bytes)
{
    catalogue_buffer_t buffer = { 0 };
    size_t at = 0;
    for (size_t field = 0; field < catalogue_fields (source); field++) {
        assert_int_equal (catalogue_read (source, id, field, &buffer), 0);
        assert_memory_equal (bytes + at, buffer.bytes, buffer.size);
        at += buffer.size;
    }
    assert_int_equal (pack_sample_bytes (pack, id), at);
    assert_int_equal (pack_sample (pack, id).bytes, at);
    size_t field = 99;
    assert_true (pack_check (pack, id, bytes, &field));
    free (buffer.bytes);
}

//  A byte wrong in each field in turn.
static void
assert_damage_is_seen (const catalogue_t *catalogue, const pack_t *pack, uint32_t id, const uint8_t *bytes)
{
    static uint8_t copy [64 * 1024];
    size_t at = 0;
    for (size_t field = 0; field < catalogue_fields (catalogue); field++) {
        size_t size = catalogue_file_bytes (catalogue, id, field), told = 99;
        memcpy (copy, bytes, pack_sample_bytes (pack, id));
        if (size) {
            copy [at + size / 2] ^= 1;
            assert_false (pack_check (pack, id, copy, &told));
            assert_int_equal (told, field);
        }
        at += size;
    }
}

//  Guards: samples, pieces and volumes lie where pack.h says; what is read there are the files' bytes.
static void
test_places (void **state)
{
    static uint8_t bytes [256 * 1024];
    packed_make_small (*state, false);
    catalogue_t *source = packed_open_source (*state, true), *packed = packed_open_pack (*state);
    const pack_t *pack = catalogue_pack (packed);
    assert_int_equal (pack_samples (pack), PACKED_SAMPLES);
    assert_int_equal (pack_chunk_samples (pack), PACKED_CHUNK);
    assert_true (pack_volumes (pack) > 2);
    for (uint32_t id = 0; id < PACKED_SAMPLES; id++) {
        assert_int_equal (pack_order (pack) [pack_position (pack, id)], id);
        read_range (pack, pack_sample (pack, id), bytes);
        assert_sample (source, pack, id, bytes);
        assert_damage_is_seen (packed, pack, id, bytes);
    }
    for (uint32_t volume = 0; volume < pack_volumes (pack); volume++) {
        uint32_t first = pack_volume_first (pack, volume),
            count = pack_volume_first (pack, volume + 1) - first;
        assert_true (first % PACKED_CHUNK == 0 && count > 0);
        pack_range_t piece = pack_piece (pack, first, count);
        assert_int_equal (piece.volume, volume);
        assert_int_equal (piece.offset, PACK_BLOCK_BYTES);
        read_range (pack, piece, bytes);
        for (uint32_t position = first; position < first + count; position++) {
            uint32_t id = pack_order (pack) [position];
            assert_sample (source, pack, id, bytes + (pack_sample (pack, id).offset - piece.offset));
        }
        char path [PATH_MAX], name [40];
        snprintf (name, sizeof name, "pack/volume-%05u.tureen", volume);
        size_t length = pack_volume_path (pack, volume, path, sizeof path);
        assert_int_equal (length, strlen (path));
        assert_string_equal (path, in (*state, name));
        struct stat status;
        assert_int_equal (stat (path, &status), 0);
        assert_int_equal (status.st_size, pack_volume_bytes (pack, volume));
    }
    assert_int_equal (pack_volume_first (pack, pack_volumes (pack)), PACKED_SAMPLES);
    catalogue_destroy (&packed);
    catalogue_destroy (&source);
}

//  Guards: wrong bytes are never handed out; short and interrupted reads are gone on with.
static void
test_reading (void **state)
{
    packed_make_small (*state, true);
    catalogue_t *source = packed_open_source (*state, false), *packed = packed_open_pack (*state);
    const pack_t *pack = catalogue_pack (packed);
    move_chunk = 100;
    assert_same_files (source, packed, 0);
    move_chunk = 0;
    uint32_t id = pack_order (pack) [5], next = pack_order (pack) [6],
        last = pack_order (pack) [PACKED_SAMPLES - 1];
    char path [PATH_MAX];
    pack_volume_path (pack, 0, path, sizeof path);
    int fd = open (path, O_WRONLY);
    assert_int_equal (pwrite (fd, "\x5a\xa5", 2, (off_t) pack_sample (pack, id).offset), 2);
    close (fd);
    pack_range_t end = pack_sample (pack, last);
    pack_volume_path (pack, end.volume, path, sizeof path);
    assert_int_equal (truncate (path, (off_t) (end.offset + end.bytes - 1)), 0);
    catalogue_buffer_t buffer = { 0 };
    assert_int_equal (catalogue_read (packed, id, 0, &buffer), -EBADMSG);
    assert_int_equal (buffer.size, 0);
    assert_int_equal (catalogue_read (packed, last, 0, &buffer), -ESTALE);
    assert_int_equal (catalogue_read (packed, next, 0, &buffer), 0);
    assert_int_equal (buffer.size, catalogue_file_bytes (packed, next, 0));
    fault_arm (1, EIO, false);
    assert_int_equal (catalogue_read (packed, next, 0, &buffer), -EIO);
    fault_disarm ();
    free (buffer.bytes);
    catalogue_destroy (&packed);
    catalogue_destroy (&source);
}

//  Guards: options of a folder, which a pack has in it.
static void
test_options_are_refused (void **state)
{
    packed_make_small (*state, true);
    const char *path = in (*state, "pack");
    const catalogue_field_t field = { "mask", true, "/nowhere" };
    assert_refused_with (&(catalogue_options_t) { .path = path, .fields = &field, .field_count = 1 }, -EINVAL,
        "is a pack, which has its fields in it", "leave out the field 'mask'");
    assert_refused_with (&(catalogue_options_t) { .path = path, .extensions = ".wav" }, -EINVAL, "is a pack",
        "leave out the extensions '.wav'");
}


//  -- faults

//  Guards: any call that fails while a pack is opened.
static void
test_faults_while_opening (void **state)
{
    packed_make_small (*state, false);
    catalogue_options_t options = { .path = in (*state, "pack") };
    sweep_open (&options, PACKED_SAMPLES);
    move_chunk = 1000;
    catalogue_t *catalogue = packed_open_pack (*state);
    catalogue_destroy (&catalogue);
}

//  Guards: any call that fails while an index is written: no index, and nothing left of it; an index that was
//  there stays.
static void
test_faults_while_writing (void **state)
{
    packed_make_classes (*state);
    catalogue_t *source = packed_open_source (*state, true);
    small_pack_t pack;
    char folder [PATH_MAX];
    strcpy (folder, in (*state, "pack"));
    assert_int_equal (mkdir (folder, 0700), 0);
    small_pack_begin (&pack, source,
        &(small_pack_options_t) { folder, PACKED_CHUNK, PACKED_VOLUME_BYTES, test_seed (), NULL });
    bool struck = true;
    for (unsigned int nth = 1; struck; nth++) {
        char error [ERROR_BYTES];
        fault_arm (nth, nth % 2? ENOSPC: EIO, nth % 3 == 0);
        int rc = small_pack_index (&pack, error, sizeof error);
        struck = fault_disarm ();
        assert_int_equal (rc == 0, error [0] == 0);
        assert_true (fault_has_words (error));
        assert_int_not_equal (access (in (*state, "pack/" PACK_INDEX_PARTIAL), F_OK), 0);
        //  The last call makes the folder durable: then all of the index is there.
        if (access (in (*state, "pack/" PACK_INDEX_NAME), F_OK) == 0) {
            catalogue_t *packed = packed_open_pack (*state);
            assert_int_equal (catalogue_samples (packed), PACKED_SAMPLES);
            catalogue_destroy (&packed);
            assert_int_equal (unlink (in (*state, "pack/" PACK_INDEX_NAME)), 0);
        }
        else
            assert_true (rc < 0);
        assert_true (nth < 500);
    }
    move_chunk = 777;
    char error [ERROR_BYTES];
    assert_int_equal (small_pack_index (&pack, error, sizeof error), 0);
    move_chunk = 0;
    catalogue_t *packed = packed_open_pack (*state);
    assert_same (source, packed);
    catalogue_destroy (&packed);
    small_pack_end (&pack);
    catalogue_destroy (&source);
}

//  Guards: what does not hold together is not published, and what was there stays.
static void
test_wrong_index_is_not_written (void **state)
{
    packed_make_classes (*state);
    catalogue_t *source = packed_open_source (*state, true);
    packed_make_pack (*state, source, "pack", 1);
    small_pack_t pack;
    char error [ERROR_BYTES];
    assert_int_equal (mkdir (in (*state, "other"), 0700), 0);
    small_pack_begin (&pack, source,
        &(small_pack_options_t) { in (*state, "other"), PACKED_CHUNK, PACKED_VOLUME_BYTES, 2, NULL });
    pack.options = &(small_pack_options_t) { in (*state, "pack"), PACKED_CHUNK, PACKED_VOLUME_BYTES, 2,
        NULL };
    pack.places [9].offset++;
    assert_int_equal (small_pack_index (&pack, error, sizeof error), -EBADMSG);
    assert_non_null (strstr (error, "behind the one before it"));
    assert_int_not_equal (access (in (*state, "pack/" PACK_INDEX_PARTIAL), F_OK), 0);
    catalogue_t *packed = packed_open_pack (*state);
    assert_same (source, packed);
    catalogue_destroy (&packed);
    small_pack_end (&pack);
    catalogue_destroy (&source);
}

static int
begin_pack (void **state)
{
    move_chunk = 0;
    return begin (state);
}

#define TEST(name) cmocka_unit_test_setup_teardown (name, begin_pack, end)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        TEST (test_answers_are_the_folders),
        TEST (test_labels_are_the_files),
        TEST (test_files_beside_keep_their_stem),
        TEST (test_notes),
        TEST (test_a_label_is_no_note),
        TEST (test_places),
        TEST (test_reading),
        TEST (test_options_are_refused),
        TEST (test_faults_while_opening),
        TEST (test_faults_while_writing),
        TEST (test_wrong_index_is_not_written)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
