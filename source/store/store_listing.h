/*  store_listing -- which objects lie below a store's address: their names, sizes and versions.
 *
 *  Lists come in pages of 1,000 names (S3's ListObjectsV2), each page by the token that the one before gave.
 *  So that a million names do not take a thousand round trips one after the other, the address is listed by
 *  its folders first, and then all folders at the same time.
 *
 *  failure modes:  as store.h's reads; a page that is no list is -EPROTO.  An object that comes or goes while
 *                  the list is taken is in it or not; its version is asked for when it is read.
 *
 *  Owner: one thread; immutable after store_listing_fetch.
 */
#ifndef STORE_LISTING_H
#define STORE_LISTING_H
#include <stddef.h>
#include <stdint.h>
#include "progress.h"
#include "store.h"

typedef struct {
    uint64_t name;                  //  in the text; below the address, without a slash at its begin
    uint64_t version;               //  in the text; its ETag, as HTTP writes it
    uint64_t bytes;
} store_object_t;

//  Begins as all zero.
typedef struct {
    char *text;
    size_t text_used, text_limit;
    store_object_t *objects;        //  by the bytes of their names
    size_t count, limit;
} store_listing_t;

//  Fills an empty listing; it is the caller's, also after a failure.  Names that end in a slash, which some
//  tools make for folders, are left out.  The store lists.  progress: NULL: not shown.  0, or -errno and a
//  sentence in error (always ended).
int store_listing_fetch (store_listing_t *self, store_t *store, uint32_t patience_ms, progress_t *progress,
    char *error, size_t error_bytes);
void store_listing_clear (store_listing_t *self);

const char *store_listing_name (const store_listing_t *self, const store_object_t *object);
const char *store_listing_version (const store_listing_t *self, const store_object_t *object);
//  The object with this name; NULL: there is none.  Lent.
const store_object_t *store_listing_find (const store_listing_t *self, const char *name);
//  The index of the first object with this name or a later one; count: there is none.
size_t store_listing_from (const store_listing_t *self, const char *name);

//  Takes one page of a list into the listing, unsorted.  path: what all keys begin with.  Each common prefix
//  is given to on_folder (below the address, with its slash).  The next page's token is the caller's,
//  malloc'ed; NULL: it was the last.  0, -EPROTO: no such page, or -ENOMEM.
typedef int (store_listing_folder_fn) (void *context, const char *folder);
int store_listing_take_page (store_listing_t *self, const char *path, const uint8_t *page, size_t bytes,
    store_listing_folder_fn *on_folder, void *context, char **token_p);

#endif
