/*  Packs: the same answers as the folder's, and every kind of damage refused in words.  The bytes beside a
 *  reader written from docs/format.md alone are test_pack_format.py's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data_folder.h"
#include "effort.h"
#include "pack_state.h"
#include "packing.h"
#include "small_pack.h"

#include <sys/mman.h>
#include <xxhash.h>

enum { CHUNK = 64, VOLUME_BYTES = 40 * 1024, SAMPLES = 300 };

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


//  -- folders and packs

//  The bytes follow from the name and the size, so that no two files are alike.
static void
make_noise (void *state, const char *name, size_t size)
{
    uint8_t bytes [2048];
    uint64_t random = XXH3_64bits (name, strlen (name)) + size;
    assert_true (size <= sizeof bytes);
    for (size_t at = 0; at < size; at++)
        bytes [at] = (uint8_t) test_below (&random, 256);
    make_file_of (state, name, bytes, size);
}

//  src/: class folders, one of them deep, and masks/ and depth/ beside it.  Sizes from 0 on.
static void
make_classes (void *state)
{
    for (uint32_t sample = 0; sample < SAMPLES; sample++) {
        const char *class = sample % 3 == 0? "cat/tabby": sample % 3 == 1? "cat": "dog";
        char name [64];
        snprintf (name, sizeof name, "src/%s/%u.jpg", class, sample);
        make_noise (state, name, sample * 7 % 900);
        snprintf (name, sizeof name, "masks/%s/%u.%s", class, sample, sample % 2? "png": "tif");
        make_noise (state, name, sample % 5 * 50);
        snprintf (name, sizeof name, "depth/%s/%u", class, sample);
        make_noise (state, name, sample % 2);
    }
}

//  src/ with labels.tsv of all kinds.
static void
make_labelled (void *state)
{
    static char text [SAMPLES * 120];
    size_t used = (size_t) sprintf (text, "path\twhole\treal\tbox\tpoint\tcaption\n");
    for (uint32_t sample = 0; sample < SAMPLES; sample++) {
        char name [64];
        snprintf (name, sizeof name, "src/%s%u.jpg", sample % 4 == 0? "": sample % 4 == 1? "a/": "a/b/",
            sample);
        make_noise (state, name, 1 + sample * 11 % 700);
        used += (size_t) sprintf (text + used, "%s\t%u\t%g\t1,2,%u\t0.5,%g\t%.*s\n", name + 4,
            sample * sample, sample / 7.0, sample,
            sample / 3.0, (int) (sample % 20), "a cat on a hot roof.");
    }
    make_text (state, "src/labels.tsv", text);
}

static catalogue_t *
open_source (void *state, bool has_fields)
{
    const catalogue_field_t fields [] = { { "mask", true, in (state, "masks") }, { "depth", false, in (state,
        "depth") } };
    return open_with (&(catalogue_options_t) { .path = in (state, "src"), .fields = fields,
        .field_count = has_fields? 2: 0 });
}

static void
make_pack (void *state, const catalogue_t *source, const char *name, uint64_t seed)
{
    small_pack_t pack;
    char error [ERROR_BYTES];
    assert_true (mkdir (in (state, name), 0700) == 0 || errno == EEXIST);
    small_pack_begin (&pack, source,
        &(small_pack_options_t) { in (state, name), CHUNK, VOLUME_BYTES, seed, NULL });
    if (small_pack_index (&pack, error, sizeof error))
        fail_msg ("%s", error);
    assert_string_equal (error, "");
    small_pack_end (&pack);
}

//  Of class folders with two further fields, or of a labels file; as "pack".
static void
make_small (void *state, bool is_labelled)
{
    if (is_labelled)
        make_labelled (state);
    else
        make_classes (state);
    catalogue_t *source = open_source (state, !is_labelled);
    make_pack (state, source, "pack", test_seed ());
    catalogue_destroy (&source);
}

static catalogue_t *
open_pack (void *state)
{
    return open_with (&(catalogue_options_t) { .path = in (state, "pack") });
}

static void
assert_refused (void *state, int code, const char *what, const char *remedy)
{
    assert_refused_with (&(catalogue_options_t) { .path = in (state, "pack") }, code, what, remedy);
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
    make_small (*state, false);
    catalogue_t *source = open_source (*state, true), *packed = open_pack (*state);
    assert_same (source, packed);
    assert_int_equal (catalogue_classes (packed), 2);
    assert_int_equal (catalogue_fields (packed), 3);
    assert_string_equal (catalogue_root (packed), in (*state, "pack"));
    assert_null (catalogue_pack (source));
    assert_non_null (catalogue_pack (packed));
    //  A pack can be packed again.
    make_pack (*state, packed, "again", test_seed () + 1);
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
    make_small (*state, true);
    catalogue_t *source = open_source (*state, false), *packed = open_pack (*state);
    assert_int_equal (catalogue_labels (packed), 5);
    assert_same (source, packed);
    catalogue_destroy (&packed);
    catalogue_destroy (&source);
}

//  Guards: a tar's stems end at the first dot, in a pack as well; and samples without any label.
static void
test_files_beside_keep_their_stem (void **state)
{
    make_noise (*state, "src/a.b.jpg", 10);
    make_noise (*state, "masks/a.b.png", 20);
    make_text (*state, "src/labels.tsv", "path\na.b.jpg\n");
    const catalogue_field_t field = { "mask", true, in (*state, "masks") };
    catalogue_t *source = open_with (&(catalogue_options_t) { .path = in (*state, "src"), .fields = &field,
        .field_count = 1 });
    small_pack_t pack;
    char error [ERROR_BYTES];
    assert_int_equal (mkdir (in (*state, "pack"), 0700), 0);
    small_pack_begin (&pack, source,
        &(small_pack_options_t) { in (*state, "pack"), CHUNK, VOLUME_BYTES, 1, NULL });
    source->fields [1].is_beside = true;            //  as the source of a tar has it
    assert_int_equal (small_pack_index (&pack, error, sizeof error), 0);
    small_pack_end (&pack);
    catalogue_t *packed = open_pack (*state);
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
    make_small (*state, false);
    catalogue_t *source = open_source (*state, true), *packed = open_pack (*state);
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
        small_pack_options_t options = { in (*state, name), CHUNK, VOLUME_BYTES, 1, notes [round] };
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
    make_noise (*state, "src/1.jpg", 10);
    make_noise (*state, "src/2.jpg", 20);
    make_text (*state, "src/labels.tsv", "path\tcaption\n1.jpg\tmeow\n2.jpg\t" PACK_NOTE_BEGIN "{}\n");
    catalogue_t *source = open_source (*state, false);
    assert_string_equal (source->arena + source->arena_used - 11, PACK_NOTE_BEGIN "{}");
    make_pack (*state, source, "pack", 1);
    catalogue_t *packed = open_pack (*state);
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
assert_damage_is_seen (const pack_t *pack, uint32_t id, const uint8_t *bytes)
{
    static uint8_t copy [64 * 1024];
    size_t at = 0;
    for (size_t field = 0; field < catalogue_fields (pack->catalogue); field++) {
        size_t size = catalogue_file_bytes (pack->catalogue, id, field), told = 99;
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
    make_small (*state, false);
    catalogue_t *source = open_source (*state, true), *packed = open_pack (*state);
    const pack_t *pack = catalogue_pack (packed);
    assert_int_equal (pack_samples (pack), SAMPLES);
    assert_int_equal (pack_chunk_samples (pack), CHUNK);
    assert_true (pack_volumes (pack) > 2);
    for (uint32_t id = 0; id < SAMPLES; id++) {
        assert_int_equal (pack_order (pack) [pack_position (pack, id)], id);
        read_range (pack, pack_sample (pack, id), bytes);
        assert_sample (source, pack, id, bytes);
        assert_damage_is_seen (pack, id, bytes);
    }
    for (uint32_t volume = 0; volume < pack_volumes (pack); volume++) {
        uint32_t first = pack_volume_first (pack, volume),
            count = pack_volume_first (pack, volume + 1) - first;
        assert_true (first % CHUNK == 0 && count > 0);
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
    assert_int_equal (pack_volume_first (pack, pack_volumes (pack)), SAMPLES);
    catalogue_destroy (&packed);
    catalogue_destroy (&source);
}

//  Guards: wrong bytes are never handed out; short and interrupted reads are gone on with.
static void
test_reading (void **state)
{
    make_small (*state, true);
    catalogue_t *source = open_source (*state, false), *packed = open_pack (*state);
    const pack_t *pack = catalogue_pack (packed);
    move_chunk = 100;
    assert_same_files (source, packed, 0);
    move_chunk = 0;
    uint32_t id = pack_order (pack) [5], next = pack_order (pack) [6], last = pack_order (pack) [SAMPLES - 1];
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


//  -- a damaged index

typedef struct {
    void *state;
    uint8_t *bytes;
    size_t size;
    uint8_t *good;                      //  as it was written
    size_t good_size;
} forged_t;

static forged_t
forge_begin (void *state)
{
    struct stat status;
    forged_t forged = { .state = state };
    int fd = open (in (state, "pack/" PACK_INDEX_NAME), O_RDONLY);
    assert_true (fd >= 0 && fstat (fd, &status) == 0);
    forged.good_size = forged.size = (size_t) status.st_size;
    forged.good = malloc (forged.size + 4096);
    forged.bytes = malloc (forged.size + 4096);
    assert_int_equal (read (fd, forged.good, forged.size), forged.size);
    close (fd);
    memcpy (forged.bytes, forged.good, forged.size);
    memset (forged.bytes + forged.size, 0, 4096);
    return forged;
}

static void
forge_reset (forged_t *forged)
{
    memcpy (forged->bytes, forged->good, forged->good_size);
    memset (forged->bytes + forged->good_size, 0, 4096);
    forged->size = forged->good_size;
}

static void
forge_end (forged_t *forged)
{
    free (forged->good);
    free (forged->bytes);
}

static pack_header_t *
forged_header (forged_t *forged)
{
    return (pack_header_t *) forged->bytes;
}

static void *
forged_section (forged_t *forged, pack_section_t section)
{
    return forged->bytes + forged_header (forged)->sections [section].offset;
}

//  All checksums right again, so that the contents alone are wrong.
static void
forge_seal (forged_t *forged)
{
    pack_header_t *header = forged_header (forged);
    for (int section = 0; section < PACK_SECTIONS; section++) {
        pack_extent_t *extent = &header->sections [section];
        if (extent->offset <= forged->size && extent->bytes <= forged->size - extent->offset)
            extent->checksum = XXH3_64bits (forged->bytes + extent->offset, extent->bytes);
    }
    header->checksum = XXH3_64bits (header, offsetof (pack_header_t, checksum));
}

static void
forge_write (forged_t *forged)
{
    make_file_of (forged->state, "pack/" PACK_INDEX_NAME, forged->bytes, forged->size);
}

//  Refused in these words, then as it was.
static void
assert_forged_refused (forged_t *forged, const char *what)
{
    forge_write (forged);
    assert_refused (forged->state, -EBADMSG, what, "pack again");
    assert_refused (forged->state, -EBADMSG, PACK_INDEX_NAME, "is damaged");
    forge_reset (forged);
}

static void
assert_sealed_refused (forged_t *forged, const char *what)
{
    forge_seal (forged);
    assert_forged_refused (forged, what);
}

//  Guards: not one byte of the index can change unseen, headers, padding and sections alike.
static void
test_every_byte_is_watched (void **state)
{
    make_small (*state, false);
    forged_t forged = forge_begin (*state);
    uint64_t random = test_seed ();
    for (size_t at = 0; at < forged.size; at += at < 600? 1: 1 + test_below (&random, 97)) {
        forged.bytes [at] ^= (uint8_t) (1 << test_below (&random, 8));
        forge_write (&forged);
        catalogue_t *catalogue;
        char error [ERROR_BYTES];
        int rc = catalogue_open (&catalogue, &(catalogue_options_t) { .path = in (*state, "pack") }, error,
            sizeof error);
        bool is_version = at >= 8 && at < 12;
        if (rc != (is_version? -ENOTSUP: -EBADMSG) && !(is_version && rc == -EBADMSG))
            fail_msg ("byte %zu: %d, '%s' (TEST_SEED=%" PRIu64 ")", at, rc, error, test_seed ());
        assert_true (strstr (error, PACK_INDEX_NAME) && strstr (error, "pack again"));
        forge_reset (&forged);
    }
    forge_end (&forged);
}

//  Guards: any number of flipped bytes, with the checksums as they are: refused, never a crash.
static void
test_random_damage_is_refused (void **state)
{
    make_small (*state, true);
    forged_t forged = forge_begin (*state);
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (1500); round++) {
        for (uint64_t flips = 1 + test_below (&random, 20); flips > 0; flips--)
            forged.bytes [test_below (&random, forged.size)] ^= (uint8_t) (1 + test_below (&random, 255));
        bool is_same = memcmp (forged.bytes, forged.good, forged.size) == 0;
        forge_write (&forged);
        catalogue_t *catalogue;
        char error [ERROR_BYTES];
        int rc = catalogue_open (&catalogue, &(catalogue_options_t) { .path = in (*state, "pack") }, error,
            sizeof error);
        if ((rc == 0) != is_same || (rc == 0) != (error [0] == 0))
            fail_msg ("round %d: %d, '%s' (TEST_SEED=%" PRIu64 ")", round, rc, error, test_seed ());
        catalogue_destroy (&catalogue);
        forge_reset (&forged);
    }
    forge_end (&forged);
}

//  Guards: cut at, before and behind the end of every section, or with something behind it.
static void
test_cut_index_is_refused (void **state)
{
    make_small (*state, true);
    forged_t forged = forge_begin (*state);
    for (int section = 0; section < PACK_SECTIONS; section++)
        for (int around = -1; around <= 1; around++) {
            const pack_extent_t *extent = &forged_header (&forged)->sections [section];
            size_t begin = extent->offset + (size_t) around, end = begin + extent->bytes;
            if (begin < forged.good_size) {
                forged.size = begin;
                assert_forged_refused (&forged,
                    begin < PACK_BLOCK_BYTES? "less than its header": "it ends at byte");
            }
            if (end != forged.good_size) {
                forged.size = end;
                assert_forged_refused (&forged,
                    end > forged.good_size? "its sections end at byte": "it ends at byte");
            }
        }
    static const size_t sizes [] = { 0, 1, 8, 391, 392, 4095 };
    for (size_t index = 0; index < sizeof sizes / sizeof sizes [0]; index++) {
        forged.size = sizes [index];
        assert_forged_refused (&forged, "less than its header");
    }
    forge_end (&forged);
}

//  Guards: each field of the header, with all checksums right.
static void
test_forged_header_is_refused (void **state)
{
    make_small (*state, false);
    forged_t forged = forge_begin (*state);
    pack_header_t *header = forged_header (&forged);
    header->magic [7] = '9';
    assert_sealed_refused (&forged, "no index");
    header->version = 0;
    assert_sealed_refused (&forged, "no version 0");
    static const uint32_t chunks [] = { 0, 63, 65, 4096 + 64 };
    for (size_t index = 0; index < 4; index++) {
        header->chunk_samples = chunks [index];
        assert_sealed_refused (&forged, "not a multiple of 64");
    }
    header->samples = 0;
    assert_sealed_refused (&forged, "0 samples");
    header->samples = UINT64_C (1) << 32;
    assert_sealed_refused (&forged, "4294967296 samples");
    header->samples = UINT32_MAX;
    assert_sealed_refused (&forged, "section of samples has 300 records, not 4294967295");
    header->samples = SAMPLES - 1;
    assert_sealed_refused (&forged, "section of samples has 300 records, not 299");
    header->bytes++;
    assert_sealed_refused (&forged, "by its header");
    header->fingerprint [31] = 'g';
    assert_sealed_refused (&forged, "fingerprint");
    header->fingerprint [32] = '0';
    assert_sealed_refused (&forged, "fingerprint");
    header->fingerprint [39] = 1;
    assert_sealed_refused (&forged, "fingerprint");
    forged.bytes [PACK_BLOCK_BYTES - 1] = 1;
    assert_sealed_refused (&forged, "behind its header");
    header->checksum ^= 1;
    assert_forged_refused (&forged, "header does not match");
    header->version = PACK_VERSION + 1;
    forge_seal (&forged);
    forge_write (&forged);
    assert_refused (*state, -ENOTSUP, "version 2", "use a later tureen");
    forge_end (&forged);
}

//  Guards: each extent of each section.
static void
test_forged_sections_are_refused (void **state)
{
    static const char *const names [] = { "names", "classes", "directories", "samples", "fields",
        "companions", "labels",
        "values", "places", "checksums", "order", "volumes" };
    static const size_t records [] = { 1, 8, 16, 24, 72, 16, 88, 8, 16, 8, 4, 16 };
    make_small (*state, false);
    forged_t forged = forge_begin (*state);
    for (int section = 0; section < PACK_SECTIONS; section++) {
        pack_extent_t *extent = &forged_header (&forged)->sections [section];
        char what [100];
        snprintf (what, sizeof what, "section of %s begins at byte", names [section]);
        static const int64_t moves [] = { -64, 64, 8, INT64_MIN };
        for (size_t index = 0; index < 4; index++) {
            extent->offset += (uint64_t) moves [index];
            assert_sealed_refused (&forged, what);
        }
        snprintf (what, sizeof what, "in its section of %s", names [section]);
        static const uint64_t sizes [] = { UINT64_MAX, INT64_MAX, UINT64_MAX - 4096 };
        for (size_t index = 0; index < 3; index++) {
            extent->bytes = sizes [index];
            assert_sealed_refused (&forged, what);
        }
        snprintf (what, sizeof what, "section of %s has %" PRIu64 " bytes, not a multiple", names [section],
            extent->bytes - 1);
        if (records [section] > 1 && extent->bytes > 0) {
            extent->bytes--;
            assert_sealed_refused (&forged, what);
        }
        snprintf (what, sizeof what, "section of %s does not match its checksum", names [section]);
        extent->checksum ^= 1;
        pack_header_t *header = forged_header (&forged);
        header->checksum = XXH3_64bits (header, offsetof (pack_header_t, checksum));
        assert_forged_refused (&forged, what);
        //  A byte of padding, where there is one.
        if (extent->offset > 0 && section > 0 && extent [-1].offset + extent [-1].bytes < extent->offset) {
            forged.bytes [extent->offset - 1] = 1;
            snprintf (what, sizeof what, "before its section of %s there is something", names [section]);
            assert_sealed_refused (&forged, what);
        }
    }
    forge_end (&forged);
}

//  Changes one value, seals, and expects these words; then it is as it was.
#define FORGE(place, value, what) \
    do { \
        (place) = (value); \
        assert_sealed_refused (&forged, what); \
    } while (0)

//  Guards: names of classes, directories and samples.
static void
test_forged_names_are_refused (void **state)
{
    make_small (*state, false);
    forged_t forged = forge_begin (*state);
    char *arena = forged_section (&forged, PACK_ARENA);
    uint64_t arena_bytes = forged_header (&forged)->sections [PACK_ARENA].bytes;
    uint64_t *classes = forged_section (&forged, PACK_CLASSES);
    directory_t *directories = forged_section (&forged, PACK_DIRECTORIES);
    sample_t *samples = forged_section (&forged, PACK_SAMPLES);
    FORGE (arena [arena_bytes - 1], 'x', "does not end in a zero");
    FORGE (classes [1], arena_bytes, "class 1 has no name");
    FORGE (directories [0].path, UINT64_MAX, "directory 0 has no path");
    FORGE (directories [2].label, 2, "directory 2 is of class 2");
    FORGE (directories [2].zero, 1, "directory 2 is of class");
    FORGE (samples [7].directory, 3, "sample 7 is in directory 3");
    FORGE (samples [7].zero, 1, "sample 7 is in directory");
    FORGE (samples [7].name, arena_bytes, "sample 7 has no name");
    FORGE (samples [SAMPLES - 1].name, arena_bytes - 1, "sample 299 has no name");      //  empty
    //  Names that would lead out of a folder, or nowhere.
    static const char *const names [] = { "..", ".", "a/b", "/a" };
    for (size_t index = 0; index < 4; index++) {
        strcpy (arena + samples [3].name, names [index]);
        assert_sealed_refused (&forged, "has no name that a file can have");
    }
    static const char *const paths [] = { "..", "/", "a//", "a/..", "./a", "a/" };
    for (size_t index = 0; index < 6; index++) {
        strcpy (arena + directories [1].path, paths [index]);
        assert_sealed_refused (&forged, "directory 1 has no path that stays in its folder");
    }
    forge_end (&forged);
}

//  Guards: fields and their files.
static void
test_forged_fields_are_refused (void **state)
{
    make_small (*state, false);
    forged_t forged = forge_begin (*state);
    char *arena = forged_section (&forged, PACK_ARENA);
    uint64_t arena_bytes = forged_header (&forged)->sections [PACK_ARENA].bytes;
    pack_field_t *fields = forged_section (&forged, PACK_FIELDS);
    companion_t *companions = forged_section (&forged, PACK_COMPANIONS);
    FORGE (fields [0].name [0], 'j', "field 0 has not the name 'image'");
    FORGE (fields [0].is_mask, 1, "field 0 has not the name 'image'");
    FORGE (fields [0].is_beside, 1, "field 0 has not the name 'image'");
    FORGE (fields [1].is_mask, 2, "field 1 has no name of its own");
    FORGE (fields [1].is_beside, 2, "field 1 has no name of its own");
    FORGE (fields [1].name [0], '-', "field 1 has no name of its own");
    FORGE (fields [1].name [0], 0, "field 1 has no name of its own");
    FORGE (fields [1].name [63], 'x', "field 1 has no name of its own");
    memset (fields [2].name, 'x', sizeof fields [2].name);
    assert_sealed_refused (&forged, "field 2 has no name of its own");
    memcpy (fields [2].name, fields [1].name, sizeof fields [2].name);
    assert_sealed_refused (&forged, "field 2 has no name of its own");
    FORGE (companions [4].extension, arena_bytes, "sample 4 has no file name in the field 'mask'");
    FORGE (companions [SAMPLES].extension, 0, "sample 0 has no file name in the field 'depth'");  //  "cat"
    strcpy (arena + companions [5].extension, "./");
    assert_sealed_refused (&forged, "has no file name in the field 'mask'");
    //  all but its stem
    strcpy (arena + ((sample_t *) forged_section (&forged, PACK_SAMPLES)) [8].name, ".x");
    assert_sealed_refused (&forged, "has no file name in the field 'depth'");
    //  Directory, stem and extension together are longer than a path may be.
    memset (arena, 'a', arena_bytes - 1);
    assert_sealed_refused (&forged, "has no");
    FORGE (companions [4].bytes, UINT64_MAX, "crosses the end of volume");
    forge_end (&forged);
}

//  Guards: labels of class folders and of a labels file.
static void
test_forged_labels_are_refused (void **state)
{
    make_small (*state, false);
    forged_t forged = forge_begin (*state);
    pack_column_t *columns = forged_section (&forged, PACK_COLUMNS);
    strcpy (columns [0].name, "mask");
    assert_sealed_refused (&forged, "label 0 has no name of its own");
    FORGE (columns [0].kind, COLUMN_WHOLE, "ends within the label 'label'");
    FORGE (columns [0].kind, COLUMN_NEW, "of no kind");
    FORGE (columns [0].kind, COLUMN_TEXT + 1, "of no kind");
    FORGE (columns [0].length, 2, "of no kind");
    FORGE (columns [0].longest, 1, "of no kind");
    FORGE (columns [0].is_vector, 1, "of no kind");
    forge_end (&forged);

    make_small (*state, true);
    forged = forge_begin (*state);
    columns = forged_section (&forged, PACK_COLUMNS);
    value_t *values = forged_section (&forged, PACK_VALUES);
    directory_t *directories = forged_section (&forged, PACK_DIRECTORIES);
    FORGE (directories [0].label, 1, "directory 0 is of class 1, there are 0");
    FORGE (columns [0].kind, COLUMN_CLASS, "of no kind");                       //  there is no class
    strcpy (columns [1].name, "whole");
    assert_sealed_refused (&forged, "label 1 has no name of its own");
    FORGE (columns [2].length, 2, "for the label 'caption'");
    FORGE (columns [2].length, 0, "of no kind");
    FORGE (columns [2].length, CATALOGUE_LABEL_BYTES_MAX / 8 + 1, "of no kind");
    FORGE (columns [2].length, CATALOGUE_LABEL_BYTES_MAX / 8, "ends within the label 'box'");
    FORGE (columns [2].is_vector, 2, "of no kind");
    FORGE (columns [4].longest, 0, "of no kind");
    FORGE (columns [4].longest, CATALOGUE_LABEL_BYTES_MAX + 1, "of no kind");
    FORGE (columns [4].longest, 18, "no text of up to 18 bytes for the label 'caption'");
    FORGE (values [SAMPLES * (1 + 1 + 3 + 2) + 9].text, UINT64_MAX, "sample 9 has no text");
    forge_end (&forged);
}

//  Guards: order, places and volumes fit together in every particular.
static void
test_forged_places_are_refused (void **state)
{
    make_small (*state, true);
    forged_t forged = forge_begin (*state);
    uint32_t *order = forged_section (&forged, PACK_ORDER);
    pack_place_t *places = forged_section (&forged, PACK_PLACES);
    pack_volume_t *volumes = forged_section (&forged, PACK_VOLUMES);
    sample_t *samples = forged_section (&forged, PACK_SAMPLES);
    uint32_t volume_count = (uint32_t) (forged_header (&forged)->sections [PACK_VOLUMES].bytes
        / sizeof *volumes);
    assert_true (volume_count > 2 && volumes [1].first >= CHUNK);
    FORGE (order [3], SAMPLES, "position 3 has sample 300");
    FORGE (order [3], UINT32_MAX, "position 3 has sample 4294967295");
    FORGE (order [3], order [4], "position 3 has sample");
    FORGE (places [order [3]].position, 4, "position 3 has sample");
    FORGE (places [order [3]].volume, 1, "behind the one before it");
    FORGE (places [order [3]].offset, 4096, "behind the one before it");
    FORGE (places [order [0]].offset, 0, "behind the one before it");
    FORGE (places [order [0]].volume, 1, "behind the one before it");
    FORGE (places [order [CHUNK]].offset, places [order [CHUNK]].offset + 4096, "behind the one before it");
    FORGE (places [order [volumes [1].first]].volume, 0, "behind the one before it");
    FORGE (places [order [volumes [1].first]].volume, 2, "behind the one before it");
    FORGE (places [order [SAMPLES - 1]].volume, volume_count, "behind the one before it");
    FORGE (volumes [0].first, 1, "volume 0 begins with position 1 by its record");
    FORGE (volumes [1].first, CHUNK / 2, "volume 1 begins with position 32 by its record");
    FORGE (volumes [1].zero, 1, "volume 1 begins with");
    FORGE (volumes [0].bytes, volumes [0].bytes + 4096, "volume 0 has");
    FORGE (volumes [volume_count - 1].bytes, volumes [volume_count - 1].bytes + 1, "by its record");
    FORGE (volumes [0].bytes, 4096, "crosses the end of volume 0");
    FORGE (volumes [0].bytes, UINT64_MAX, "volume 0 begins with");
    FORGE (samples [order [3]].bytes, samples [order [3]].bytes + 1, "behind the one before it");
    FORGE (samples [order [3]].bytes, UINT64_MAX, "crosses the end of volume 0");
    FORGE (samples [order [SAMPLES - 1]].bytes, 0, "by its header");
    //  As in a sparse volume: it could be read, but who has room for it?
    volumes [volume_count - 1].bytes = UINT64_C (1) << 40;
    FORGE (samples [order [SAMPLES - 1]].bytes, CATALOGUE_SAMPLE_BYTES_MAX + 1,
        "has a file of more than 268435456");
    //  A volume more than there are samples for.
    pack_extent_t *extent = &forged_header (&forged)->sections [PACK_VOLUMES];
    extent->bytes += sizeof *volumes;
    forged.size += sizeof *volumes;
    assert_sealed_refused (&forged, "has no samples");
    extent->bytes -= sizeof *volumes;
    forged.size -= sizeof *volumes;
    assert_sealed_refused (&forged, "behind the one before it");
    forge_end (&forged);
}


//  -- damaged volumes

static void
put_bytes (const char *path, off_t offset, const void *bytes, size_t size)
{
    int fd = open (path, O_WRONLY);
    assert_true (fd >= 0);
    assert_int_equal (pwrite (fd, bytes, size, offset), size);
    close (fd);
}

//  Guards: volumes that are swapped, missing, cut, grown, damaged or of another pack.
static void
test_wrong_volumes_are_refused (void **state)
{
    make_small (*state, true);
    char first [PATH_MAX], second [PATH_MAX], away [PATH_MAX];
    strcpy (first, in (*state, "pack/volume-00000.tureen"));
    strcpy (second, in (*state, "pack/volume-00001.tureen"));
    strcpy (away, in (*state, "away"));
    struct stat status;
    assert_int_equal (rename (second, away), 0);
    assert_refused (*state, -ENODATA, "volume-00001.tureen", "copy it again");
    assert_int_equal (mkdir (second, 0700), 0);
    assert_refused (*state, -EINVAL, "volume-00001.tureen' is not a file", "pack again");
    assert_int_equal (rmdir (second), 0);
    assert_int_equal (rename (away, second), 0);

    assert_int_equal (stat (first, &status), 0);
    assert_int_equal (truncate (first, status.st_size - 4096), 0);
    assert_refused (*state, -ESTALE, "volume-00000.tureen' has", "copy it again");
    assert_int_equal (truncate (first, status.st_size + 1), 0);
    assert_refused (*state, -ESTALE, "volume-00000.tureen' has", "copy it again");
    assert_int_equal (truncate (first, status.st_size), 0);

    pack_volume_header_t good, header;
    int fd = open (first, O_RDONLY);
    assert_int_equal (read (fd, &good, sizeof good), sizeof good);
    close (fd);
    for (size_t at = 0; at < sizeof good; at++) {
        header = good;
        ((uint8_t *) &header) [at] ^= 0x10;
        put_bytes (first, 0, &header, sizeof header);
        assert_refused (*state, -EBADMSG, "volume-00000.tureen'", "pack again");
    }
    put_bytes (first, 0, &good, sizeof good);
    put_bytes (first, PACK_BLOCK_BYTES - 1, "x", 1);
    assert_refused (*state, -EBADMSG, "volume-00000.tureen'", "pack again");
    put_bytes (first, PACK_BLOCK_BYTES - 1, "", 1);
    header = pack_volume_header (1, good.pack);
    put_bytes (first, 0, &header, sizeof header);
    assert_refused (*state, -ESTALE, "volume-00000.tureen' is volume 1 under another name", "pack again");
    good.pack [3] ^= 1;
    header = pack_volume_header (0, good.pack);
    put_bytes (first, 0, &header, sizeof header);
    assert_refused (*state, -ESTALE, "volume-00000.tureen' belongs to another pack", "pack again");
}

//  Guards: what looks like a pack and is none; a class that is called like packing's folder is no pack.
static void
test_unfinished_is_refused (void **state)
{
    make_small (*state, true);
    assert_int_equal (rename (in (*state, "pack/" PACK_INDEX_NAME), in (*state, "away")), 0);
    assert_refused (*state, -ENODATA, "not its index.tureen", "pack again");
    make_text (*state, "pack/" PACKING_JOURNAL, "");
    assert_refused (*state, -ENODATA, "not finished", "run tureen pack --resume");
    assert_int_equal (rename (in (*state, "pack"), in (*state, "had a journal")), 0);
    make_text (*state, "pack/" PACKING_FOLDER "/bucket-00000", "");
    assert_refused (*state, -ENODATA, "not finished", "run tureen pack --resume");
    make_noise (*state, "folder/packing/1.jpg", 3);
    make_noise (*state, "folder/" PACK_INDEX_NAME "/1.jpg", 3);
    catalogue_t *catalogue = open_with (&(catalogue_options_t) { .path = in (*state, "folder") });
    assert_int_equal (catalogue_classes (catalogue), 2);
    catalogue_destroy (&catalogue);
}

//  Guards: whoever cuts a pack's files short, overwrites or removes them under a server costs it samples at
//  most, and what was read at its start stays as it was.
static void
test_files_that_are_cut_in_place (void **state)
{
    make_small (*state, true);
    catalogue_t *catalogue = open_pack (*state), *other = open_pack (*state);
    const char *index = in (*state, "pack/" PACK_INDEX_NAME);
    assert_int_equal (truncate (index, PACK_BLOCK_BYTES + 1), 0);
    make_text (*state, "pack/" PACK_INDEX_NAME, "no index");
    assert_refused (*state, -EBADMSG, "less than its header", "pack again");
    char volume [PATH_MAX], path [PATH_MAX], same [PATH_MAX];
    const pack_t *pack = catalogue_pack (catalogue);
    catalogue_buffer_t buffer = { .bytes = NULL };
    pack_volume_path (pack, 0, volume, sizeof volume);
    assert_int_equal (truncate (volume, PACK_BLOCK_BYTES + 1), 0);
    size_t lost = 0;
    for (uint32_t id = 0; id < catalogue_samples (catalogue); id++) {
        catalogue_path (catalogue, id, 0, path, sizeof path);
        catalogue_path (other, id, 0, same, sizeof same);
        assert_string_equal (path, same);
        assert_int_equal (pack_sample (pack, id).offset, pack_sample (catalogue_pack (other), id).offset);
        int rc = catalogue_read (catalogue, id, 0, &buffer);
        assert_true (rc == 0 || (rc == -ESTALE && pack_sample (pack, id).volume == 0));
        lost += rc != 0;
    }
    assert_true (lost > 0);
    assert_int_equal (unlink (volume), 0);
    assert_int_equal (unlink (index), 0);
    for (uint32_t id = 0; id < catalogue_samples (catalogue); id++)
        lost -= catalogue_read (catalogue, id, 0, &buffer) != 0;
    assert_int_equal (lost, 0);
    free (buffer.bytes);
    catalogue_destroy (&catalogue);
    catalogue_destroy (&other);
}

//  Guards: options of a folder, which a pack has in it.
static void
test_options_are_refused (void **state)
{
    make_small (*state, true);
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
    make_small (*state, false);
    catalogue_options_t options = { .path = in (*state, "pack") };
    sweep_open (&options, SAMPLES);
    move_chunk = 1000;
    catalogue_t *catalogue = open_pack (*state);
    catalogue_destroy (&catalogue);
}

//  Guards: any call that fails while an index is written: no index, and nothing left of it; an index that was
//  there stays.
static void
test_faults_while_writing (void **state)
{
    make_classes (*state);
    catalogue_t *source = open_source (*state, true);
    small_pack_t pack;
    char folder [PATH_MAX];
    strcpy (folder, in (*state, "pack"));
    assert_int_equal (mkdir (folder, 0700), 0);
    small_pack_begin (&pack, source,
        &(small_pack_options_t) { folder, CHUNK, VOLUME_BYTES, test_seed (), NULL });
    bool struck = true;
    for (unsigned int nth = 1; struck; nth++) {
        char error [ERROR_BYTES];
        fault_arm (nth, nth % 2? ENOSPC: EIO, nth % 3 == 0);
        int rc = small_pack_index (&pack, error, sizeof error);
        struck = fault_disarm ();
        assert_int_equal (rc == 0, error [0] == 0);
        assert_int_not_equal (access (in (*state, "pack/" PACK_INDEX_PARTIAL), F_OK), 0);
        //  The last call makes the folder durable: then all of the index is there.
        if (access (in (*state, "pack/" PACK_INDEX_NAME), F_OK) == 0) {
            catalogue_t *packed = open_pack (*state);
            assert_int_equal (catalogue_samples (packed), SAMPLES);
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
    catalogue_t *packed = open_pack (*state);
    assert_same (source, packed);
    catalogue_destroy (&packed);
    small_pack_end (&pack);
    catalogue_destroy (&source);
}

//  Guards: what does not hold together is not published, and what was there stays.
static void
test_wrong_index_is_not_written (void **state)
{
    make_classes (*state);
    catalogue_t *source = open_source (*state, true);
    make_pack (*state, source, "pack", 1);
    small_pack_t pack;
    char error [ERROR_BYTES];
    assert_int_equal (mkdir (in (*state, "other"), 0700), 0);
    small_pack_begin (&pack, source,
        &(small_pack_options_t) { in (*state, "other"), CHUNK, VOLUME_BYTES, 2, NULL });
    pack.options = &(small_pack_options_t) { in (*state, "pack"), CHUNK, VOLUME_BYTES, 2, NULL };
    pack.places [9].offset++;
    assert_int_equal (small_pack_index (&pack, error, sizeof error), -EBADMSG);
    assert_non_null (strstr (error, "behind the one before it"));
    assert_int_not_equal (access (in (*state, "pack/" PACK_INDEX_PARTIAL), F_OK), 0);
    catalogue_t *packed = open_pack (*state);
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
        TEST (test_answers_are_the_folders), TEST (test_labels_are_the_files),
            TEST (test_files_beside_keep_their_stem),
        TEST (test_notes), TEST (test_a_label_is_no_note),
        TEST (test_places), TEST (test_reading), TEST (test_every_byte_is_watched),
        TEST (test_random_damage_is_refused),
        TEST (test_cut_index_is_refused), TEST (test_forged_header_is_refused),
        TEST (test_forged_sections_are_refused),
        TEST (test_forged_names_are_refused), TEST (test_forged_fields_are_refused),
        TEST (test_forged_labels_are_refused),
        TEST (test_forged_places_are_refused), TEST (test_wrong_volumes_are_refused),
        TEST (test_unfinished_is_refused), TEST (test_files_that_are_cut_in_place),
        TEST (test_options_are_refused), TEST (test_faults_while_opening), TEST (test_faults_while_writing),
        TEST (test_wrong_index_is_not_written)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
