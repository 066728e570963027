/*  store_listing_kept -- a list in the cache on the local disk: a head, the objects, and their text, as they
 *  are in memory, with one checksum over all.
 *
 *  It is written in units (block_data.h), so a server that is killed meanwhile may leave units of two lists,
 *  which the checksum tells.  Owner: one thread.
 */
#ifndef STORE_LISTING_KEPT_H
#define STORE_LISTING_KEPT_H
#include <stdint.h>
#include "block_data.h"
#include "store_listing.h"

//  Where the list of a store is kept on the local disk.  0, or -errno and NULL (block_data_open).
int store_listing_kept_open (block_data_t **blocks_p, const store_t *store, block_cache_t *cache);
//  Fills an empty listing with the kept list, and tells when that was made.  0; -ENODATA: no list is kept;
//  -ENOMEM.
int store_listing_kept_load (store_listing_t *self, block_data_t *blocks, int64_t *listed_s_p);
//  Keeps it there, as far as there is room.
void store_listing_kept_write (const store_listing_t *self, block_data_t *blocks, int64_t listed_s);

#endif
