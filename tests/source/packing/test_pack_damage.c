/*  Damaged packs: whatever is wrong with an index or a volume is refused in words.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data_folder.h"
#include "packed_folder.h"
#include "effort.h"
#include "catalogue_state.h"
#include "pack.h"
#include "packing.h"
#include "seed.h"

#include <xxhash.h>

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
    packed_assert_refused (forged->state, -EBADMSG, what, "pack again");
    packed_assert_refused (forged->state, -EBADMSG, PACK_INDEX_NAME, "is damaged");
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
    packed_make_small (*state, false);
    forged_t forged = forge_begin (*state);
    uint64_t random = test_seed ();
    //  A checksum covers its section as a whole: one byte in 150 stands for the others.
    uint64_t stride = EFFORT (10) < 10? 300: 97;
    for (size_t at = 0; at < forged.size; at += at < 600? 1: 1 + test_below (&random, stride)) {
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
    packed_make_small (*state, true);
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
    packed_make_small (*state, true);
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
    packed_make_small (*state, false);
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
    header->samples = PACKED_SAMPLES - 1;
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
    packed_assert_refused (*state, -ENOTSUP, "version 2", "use a later tureen");
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
    packed_make_small (*state, false);
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
    packed_make_small (*state, false);
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
    FORGE (samples [PACKED_SAMPLES - 1].name, arena_bytes - 1, "sample 299 has no name");       //  empty
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
    packed_make_small (*state, false);
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
    //  "cat"
    FORGE (companions [PACKED_SAMPLES].extension, 0, "sample 0 has no file name in the field 'depth'");
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
    packed_make_small (*state, false);
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

    packed_make_small (*state, true);
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
    FORGE (values [PACKED_SAMPLES * (1 + 1 + 3 + 2) + 9].text, UINT64_MAX, "sample 9 has no text");
    forge_end (&forged);
}

//  Guards: order, places and volumes fit together in every particular.
static void
test_forged_places_are_refused (void **state)
{
    packed_make_small (*state, true);
    forged_t forged = forge_begin (*state);
    uint32_t *order = forged_section (&forged, PACK_ORDER);
    pack_place_t *places = forged_section (&forged, PACK_PLACES);
    pack_volume_t *volumes = forged_section (&forged, PACK_VOLUMES);
    sample_t *samples = forged_section (&forged, PACK_SAMPLES);
    uint32_t volume_count = (uint32_t) (forged_header (&forged)->sections [PACK_VOLUMES].bytes
        / sizeof *volumes);
    assert_true (volume_count > 2 && volumes [1].first >= PACKED_CHUNK);
    FORGE (order [3], PACKED_SAMPLES, "position 3 has sample 300");
    FORGE (order [3], UINT32_MAX, "position 3 has sample 4294967295");
    FORGE (order [3], order [4], "position 3 has sample");
    FORGE (places [order [3]].position, 4, "position 3 has sample");
    FORGE (places [order [3]].volume, 1, "behind the one before it");
    FORGE (places [order [3]].offset, 4096, "behind the one before it");
    FORGE (places [order [0]].offset, 0, "behind the one before it");
    FORGE (places [order [0]].volume, 1, "behind the one before it");
    FORGE (places [order [PACKED_CHUNK]].offset, places [order [PACKED_CHUNK]].offset + 4096,
        "behind the one before it");
    FORGE (places [order [volumes [1].first]].volume, 0, "behind the one before it");
    FORGE (places [order [volumes [1].first]].volume, 2, "behind the one before it");
    FORGE (places [order [PACKED_SAMPLES - 1]].volume, volume_count, "behind the one before it");
    FORGE (volumes [0].first, 1, "volume 0 begins with position 1 by its record");
    FORGE (volumes [1].first, PACKED_CHUNK / 2, "volume 1 begins with position 32 by its record");
    FORGE (volumes [1].zero, 1, "volume 1 begins with");
    FORGE (volumes [0].bytes, volumes [0].bytes + 4096, "volume 0 has");
    FORGE (volumes [volume_count - 1].bytes, volumes [volume_count - 1].bytes + 1, "by its record");
    FORGE (volumes [0].bytes, 4096, "crosses the end of volume 0");
    FORGE (volumes [0].bytes, UINT64_MAX, "volume 0 begins with");
    FORGE (samples [order [3]].bytes, samples [order [3]].bytes + 1, "behind the one before it");
    FORGE (samples [order [3]].bytes, UINT64_MAX, "crosses the end of volume 0");
    FORGE (samples [order [PACKED_SAMPLES - 1]].bytes, 0, "by its header");
    //  As in a sparse volume: it could be read, but it does not fit into memory.
    volumes [volume_count - 1].bytes = UINT64_C (1) << 40;
    FORGE (samples [order [PACKED_SAMPLES - 1]].bytes, CATALOGUE_SAMPLE_BYTES_MAX + 1,
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
    packed_make_small (*state, true);
    char first [PATH_MAX], second [PATH_MAX], away [PATH_MAX];
    strcpy (first, in (*state, "pack/volume-00000.tureen"));
    strcpy (second, in (*state, "pack/volume-00001.tureen"));
    strcpy (away, in (*state, "away"));
    struct stat status;
    assert_int_equal (rename (second, away), 0);
    packed_assert_refused (*state, -ENODATA, "volume-00001.tureen", "copy it again");
    assert_int_equal (mkdir (second, 0700), 0);
    packed_assert_refused (*state, -EINVAL, "volume-00001.tureen' is not a file", "pack again");
    assert_int_equal (rmdir (second), 0);
    assert_int_equal (rename (away, second), 0);

    assert_int_equal (stat (first, &status), 0);
    assert_int_equal (truncate (first, status.st_size - 4096), 0);
    packed_assert_refused (*state, -ESTALE, "volume-00000.tureen' has", "copy it again");
    assert_int_equal (truncate (first, status.st_size + 1), 0);
    packed_assert_refused (*state, -ESTALE, "volume-00000.tureen' has", "copy it again");
    assert_int_equal (truncate (first, status.st_size), 0);

    pack_volume_header_t good, header;
    int fd = open (first, O_RDONLY);
    assert_int_equal (read (fd, &good, sizeof good), sizeof good);
    close (fd);
    for (size_t at = 0; at < sizeof good; at++) {
        header = good;
        ((uint8_t *) &header) [at] ^= 0x10;
        put_bytes (first, 0, &header, sizeof header);
        packed_assert_refused (*state, -EBADMSG, "volume-00000.tureen'", "pack again");
    }
    put_bytes (first, 0, &good, sizeof good);
    put_bytes (first, PACK_BLOCK_BYTES - 1, "x", 1);
    packed_assert_refused (*state, -EBADMSG, "volume-00000.tureen'", "pack again");
    put_bytes (first, PACK_BLOCK_BYTES - 1, "", 1);
    header = pack_volume_header (1, good.pack);
    put_bytes (first, 0, &header, sizeof header);
    packed_assert_refused (*state, -ESTALE, "volume-00000.tureen' is volume 1 under another name",
        "pack again");
    good.pack [3] ^= 1;
    header = pack_volume_header (0, good.pack);
    put_bytes (first, 0, &header, sizeof header);
    packed_assert_refused (*state, -ESTALE, "volume-00000.tureen' belongs to another pack", "pack again");
}

//  Guards: what looks like a pack and is none; a class that is called like packing's folder is no pack.
static void
test_unfinished_is_refused (void **state)
{
    packed_make_small (*state, true);
    assert_int_equal (rename (in (*state, "pack/" PACK_INDEX_NAME), in (*state, "away")), 0);
    packed_assert_refused (*state, -ENODATA, "not its index.tureen", "pack again");
    make_text (*state, "pack/" PACKING_JOURNAL, "");
    packed_assert_refused (*state, -ENODATA, "not finished", "run tureen pack --resume");
    assert_int_equal (rename (in (*state, "pack"), in (*state, "had a journal")), 0);
    make_text (*state, "pack/" PACKING_FOLDER "/bucket-00000", "");
    packed_assert_refused (*state, -ENODATA, "not finished", "run tureen pack --resume");
    packed_make_noise (*state, "folder/packing/1.jpg", 3);
    packed_make_noise (*state, "folder/" PACK_INDEX_NAME "/1.jpg", 3);
    catalogue_t *catalogue = open_with (&(catalogue_options_t) { .path = in (*state, "folder") });
    assert_int_equal (catalogue_classes (catalogue), 2);
    catalogue_destroy (&catalogue);
}

//  Guards: if a pack's files are cut short, overwritten or removed under a server, the server loses samples
//  at most, and what it read at its start stays as it was.
static void
test_files_that_are_cut_in_place (void **state)
{
    packed_make_small (*state, true);
    catalogue_t *catalogue = packed_open_pack (*state), *other = packed_open_pack (*state);
    const char *index = in (*state, "pack/" PACK_INDEX_NAME);
    assert_int_equal (truncate (index, PACK_BLOCK_BYTES + 1), 0);
    make_text (*state, "pack/" PACK_INDEX_NAME, "no index");
    packed_assert_refused (*state, -EBADMSG, "less than its header", "pack again");
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

#define TEST(name) cmocka_unit_test_setup_teardown (name, begin, end)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        TEST (test_every_byte_is_watched),
        TEST (test_random_damage_is_refused),
        TEST (test_cut_index_is_refused),
        TEST (test_forged_header_is_refused),
        TEST (test_forged_sections_are_refused),
        TEST (test_forged_names_are_refused),
        TEST (test_forged_fields_are_refused),
        TEST (test_forged_labels_are_refused),
        TEST (test_forged_places_are_refused),
        TEST (test_wrong_volumes_are_refused),
        TEST (test_unfinished_is_refused),
        TEST (test_files_that_are_cut_in_place)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
