/*  catalogue_dump FOLDER: what the catalogue makes of it, for test_catalogue_parity.py.
 *
 *  For each sample "label bytes path", then "= classes bytes fingerprint", each ended by a zero, since a name
 *  may hold a newline.  Where the folder is refused: the sentence on stderr and exit status 1.
 */
#include "catalogue.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

int
main (int argc, char **argv)
{
    if (argc != 2)
        return 2;
    char error [1024], path [PATH_MAX];
    catalogue_t *catalogue;
    if (catalogue_open (&catalogue, &(catalogue_options_t) { .path = argv [1] }, error, sizeof error)) {
        fprintf (stderr, "%s\n", error);
        return 1;
    }
    for (uint32_t id = 0; id < catalogue_samples (catalogue); id++) {
        int64_t label;
        catalogue_label_value (catalogue, 0, id, (uint8_t *) &label);
        catalogue_path (catalogue, id, 0, path, sizeof path);
        printf ("%" PRId64 " %" PRIu64 " %s%c", label, catalogue_file_bytes (catalogue, id, 0), path, 0);
    }
    printf ("= %" PRIu32 " %" PRIu64 " %s%c", catalogue_classes (catalogue), catalogue_bytes (catalogue),
        catalogue_fingerprint (catalogue), 0);
    catalogue_destroy (&catalogue);
    return 0;
}
