/*  fuzz_store_listing -- any bytes as a page of an object store's list: refused, or objects with names and
 *  versions that end.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "store_listing.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

static int
s_on_folder (void *context, const char *folder)
{
    size_t *folders = context;
    (*folders)++;
    return strlen (folder) > 100? -ENOMEM: 0;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    store_listing_t listing = { .text = NULL };
    size_t folders = 0;
    char *token;
    int rc = store_listing_take_page (&listing, *data % 2? "p": "", data + 1, size - 1, s_on_folder, &folders,
        &token);
    s_require (rc == 0 || rc == -EPROTO || rc == -ENOMEM);
    s_require (rc == 0 || !token);
    s_require (!token || *token);
    for (size_t index = 0; index < listing.count; index++) {
        const char *name = store_listing_name (&listing, &listing.objects [index]);
        size_t length = strlen (name);
        s_require (length > 0 && name [length - 1] != '/');
        const char *version = store_listing_version (&listing, &listing.objects [index]);
        s_require (strlen (version) < TRANSFER_VERSION_BYTES);
    }
    free (token);
    store_listing_clear (&listing);
    return 0;
}
