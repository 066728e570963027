/*  disk_data -- the data set that disk_bench reads: a plain folder and its pack, made or given.
 *
 *  What is made is made in a folder of its own and durable before anything is measured; disk_data_close
 *  removes it.
 */
#ifndef DISK_DATA_H
#define DISK_DATA_H
#include "catalogue.h"
#include "disk_options.h"
#include "pack.h"

enum { DISK_PATH_BYTES = 4096 };

typedef struct {
    char root [DISK_PATH_BYTES];        //  what was made, and will be removed; "": nothing
    char plain_path [DISK_PATH_BYTES], pack_path [DISK_PATH_BYTES];
    catalogue_t *plain, *packed;
    const pack_t *pack;
    uint64_t bytes;                     //  of all samples
    uint64_t volume_bytes;              //  of all volumes
    size_t sample_bytes_max;
} disk_data_t;

//  False: why was said; disk_data_close is to be called all the same.  stopped: asked now and then.
bool disk_data_open (disk_data_t *self, const disk_options_t *options, bool (*stopped) (void *context));
void disk_data_close (disk_data_t *self);

//  Out of the page cache: the volumes, or the plain files.  What is read past the cache is so anyway.
void disk_data_forget_pack (const disk_data_t *self, bool drop_caches);
void disk_data_forget_plain (const disk_data_t *self, bool drop_caches);

#endif
