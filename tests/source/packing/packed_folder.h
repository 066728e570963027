/*  packed_folder -- what the tests of packs share: folders of class folders or with a labels file, and small
 *  packs of them.
 *
 *  A test program includes cmocka, then this.
 */
#ifndef PACKED_FOLDER_H
#define PACKED_FOLDER_H
#include "data_folder.h"
#include "seed.h"
#include "small_pack.h"

#include <xxhash.h>

enum { PACKED_CHUNK = 64, PACKED_VOLUME_BYTES = 40 * 1024, PACKED_SAMPLES = 300 };

//  The bytes follow from the name and the size, so that no two files are alike.
static inline void
packed_make_noise (void *state, const char *name, size_t size)
{
    uint8_t bytes [2048];
    uint64_t random = XXH3_64bits (name, strlen (name)) + size;
    assert_true (size <= sizeof bytes);
    for (size_t at = 0; at < size; at++)
        bytes [at] = (uint8_t) test_below (&random, 256);
    make_file_of (state, name, bytes, size);
}

//  src/: class folders, one of them deep, and masks/ and depth/ beside it.  Sizes from 0 on.
static inline void
packed_make_classes (void *state)
{
    for (uint32_t sample = 0; sample < PACKED_SAMPLES; sample++) {
        const char *class = sample % 3 == 0? "cat/tabby": sample % 3 == 1? "cat": "dog";
        char name [64];
        snprintf (name, sizeof name, "src/%s/%u.jpg", class, sample);
        packed_make_noise (state, name, sample * 7 % 900);
        snprintf (name, sizeof name, "masks/%s/%u.%s", class, sample, sample % 2? "png": "tif");
        packed_make_noise (state, name, sample % 5 * 50);
        snprintf (name, sizeof name, "depth/%s/%u", class, sample);
        packed_make_noise (state, name, sample % 2);
    }
}

//  src/ with labels.tsv of all kinds.
static inline void
packed_make_labelled (void *state)
{
    static char text [PACKED_SAMPLES * 120];
    size_t used = (size_t) sprintf (text, "path\twhole\treal\tbox\tpoint\tcaption\n");
    for (uint32_t sample = 0; sample < PACKED_SAMPLES; sample++) {
        char name [64];
        snprintf (name, sizeof name, "src/%s%u.jpg", sample % 4 == 0? "": sample % 4 == 1? "a/": "a/b/",
            sample);
        packed_make_noise (state, name, 1 + sample * 11 % 700);
        used += (size_t) sprintf (text + used, "%s\t%u\t%g\t1,2,%u\t0.5,%g\t%.*s\n", name + 4,
            sample * sample, sample / 7.0, sample,
            sample / 3.0, (int) (sample % 20), "a cat on a hot roof.");
    }
    make_text (state, "src/labels.tsv", text);
}

static inline catalogue_t *
packed_open_source (void *state, bool has_fields)
{
    const catalogue_field_t fields [] = { { "mask", true, in (state, "masks") }, { "depth", false, in (state,
        "depth") } };
    return open_with (&(catalogue_options_t) { .path = in (state, "src"), .fields = fields,
        .field_count = has_fields? 2: 0 });
}

static inline void
packed_make_pack (void *state, const catalogue_t *source, const char *name, uint64_t seed)
{
    small_pack_t pack;
    char error [ERROR_BYTES];
    assert_true (mkdir (in (state, name), 0700) == 0 || errno == EEXIST);
    small_pack_begin (&pack, source,
        &(small_pack_options_t) { in (state, name), PACKED_CHUNK, PACKED_VOLUME_BYTES, seed, NULL });
    if (small_pack_index (&pack, error, sizeof error))
        fail_msg ("%s", error);
    assert_string_equal (error, "");
    small_pack_end (&pack);
}

//  Of class folders with two further fields, or of a labels file; as "pack".
static inline void
packed_make_small (void *state, bool is_labelled)
{
    if (is_labelled)
        packed_make_labelled (state);
    else
        packed_make_classes (state);
    catalogue_t *source = packed_open_source (state, !is_labelled);
    packed_make_pack (state, source, "pack", test_seed ());
    catalogue_destroy (&source);
}

static inline catalogue_t *
packed_open_pack (void *state)
{
    return open_with (&(catalogue_options_t) { .path = in (state, "pack") });
}

static inline void
packed_assert_refused (void *state, int code, const char *what, const char *remedy)
{
    assert_refused_with (&(catalogue_options_t) { .path = in (state, "pack") }, code, what, remedy);
}

#endif
