/*  pack_make -- packs a folder by small_pack.h, for tests in other languages.
 *
 *      pack_make SOURCE TARGET VOLUME_BYTES SEED [NAME=mask|image:PATH...]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "small_pack.h"

//  "mask=mask:/data/masks"
static catalogue_field_t
s_field (char *text)
{
    char *kind = strchr (text, '=');
    char *path = kind? strchr (kind, ':'): NULL;
    SMALL_PACK_NEED (kind && path);
    *kind++ = 0;
    *path++ = 0;
    return (catalogue_field_t) { .name = text, .is_mask = strcmp (kind, "mask") == 0, .path = path };
}

int
main (int argc, char **argv)
{
    SMALL_PACK_NEED (argc >= 5 && argc - 5 < CATALOGUE_FIELDS_MAX);
    catalogue_field_t fields [CATALOGUE_FIELDS_MAX];
    for (int at = 5; at < argc; at++)
        fields [at - 5] = s_field (argv [at]);
    catalogue_options_t options = { .path = argv [1], .fields = fields, .field_count = (size_t) argc - 5 };
    small_pack_options_t target = { .folder = argv [2], .chunk_samples = PACK_CHUNK_SAMPLES,
        .volume_bytes = strtoull (argv [3], NULL, 0), .seed = strtoull (argv [4], NULL, 0) };
    catalogue_t *source;
    char error [1024];
    int rc = catalogue_open (&source, &options, error, sizeof error);
    if (rc == 0) {
        small_pack_t pack;
        SMALL_PACK_NEED (mkdir (target.folder, 0777) == 0);
        small_pack_begin (&pack, source, &target);
        rc = small_pack_index (&pack, error, sizeof error);
        small_pack_end (&pack);
        catalogue_destroy (&source);
    }
    if (rc)
        fprintf (stderr, "%s\n", error);
    return rc != 0;
}
