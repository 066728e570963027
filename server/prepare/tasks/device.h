/*  device -- where reads go: one file system (st_dev) or one object store, with one reading thread, one
 *  queue, the depth of that, and one cost model for all files on it, those of packs and those of folders.  So
 *  a slow one holds up no other.
 *
 *  happy path:     device_new .. device_add_volume, device_add_folder .. device_probe .. device_open ..
 *                  device_submit ..
 *                  device_descriptor readable .. device_done .. device_stop
 *  failure modes:  in the request (reader.h).
 *
 *  The cost model learns the time of every read.  After every 32 reads it sets the depth, the number of reads
 *  at once, unless the user has set it.  Files of folders come through the page cache, which hides the cost
 *  of uncached reads: with such files the depth is at least 8.  Owner: the broker's thread; of a list of
 *  devices, one thread.
 */
#ifndef DEVICE_H
#define DEVICE_H
#include <sys/types.h>
#include <jansson.h>
#include "cost.h"
#include "reading.h"

typedef struct device device_t;

typedef struct {
    size_t buffer_bytes;            //  for ranges; more if the largest range needs it
    size_t requests_max;            //  submitted and not yet taken back, at most
    bool no_ring;                   //  as if the kernel refused io_uring
    cluster_t *cluster;             //  members that keep blocks of stores for each other; lent; NULL: none
    void (*finish) (void *context, reader_request_t *request);      //  as reading.h's
    void *context;
} device_options_t;

//  A file system's, or store's if that is not NULL: lent, and number does not count.  depth: reads at once;
//  0: the cost model decides.  NULL: no memory.
device_t *device_new (dev_t number, const store_t *store, uint32_t depth);
//  Call device_stop first, and take back all requests.
void device_destroy (device_t **self_p);
//  It is one of several of its file system or store: that of the data set of this name, which it bears too.
//  It reads nothing through other members, and device_is is false.
void device_set_owner (device_t *self, const char *dataset);
//  Whether it is the one of this file system, or of this store.
bool device_is (const device_t *self, dev_t number, const store_t *store);

//  Adds a file of ranges, the largest of span bytes (reader_span); *file_p: its number for requests.  False:
//  no memory.  version: of an object in a store; then the path is its URL.
bool device_add_volume (device_t *self, const char *path, const char *version, size_t span,
    uint32_t *file_p);
//  Ranges of the volume, an object in a store, are kept on the local disk.
void device_keep_volume (device_t *self, uint32_t file, const reader_blocks_t *blocks);
size_t device_volumes (const device_t *self);
//  Adds plain files to the device.
void device_add_folder (device_t *self);
//  Measures the device, once: by reads of source, or, where that is NULL, of its first volume; if that fails,
//  the assumed costs stay.
void device_probe (device_t *self, const cost_source_t *source);
//  Takes the costs of another one, if that is of the same file system and was measured.  Before device_open.
void device_measure_as (device_t *self, const device_t *other);
//  The cost model; lent.
const cost_t *device_cost (const device_t *self);

//  Starts the thread: 0, or -errno; *path_p is the volume that cannot be opened, or NULL for another reason.
int device_open (device_t *self, const device_options_t *options, const char **path_p);
void device_submit (device_t *self, reader_request_t *request);
//  A finished request, or NULL.  Never blocks.
reader_request_t *device_done (device_t *self);
//  Requests that were submitted and are not taken back.
size_t device_pending (const device_t *self);
//  About how long the device would have been busy with what the request got from pins: by the cost model as
//  it is now, with as many reads side by side as there were lately, which do not count their whole times.  Of
//  a request without pinned bytes 0.
uint64_t device_saved_ns (const device_t *self, const reader_request_t *request);
//  Readable while device_done has something.
int device_descriptor (const device_t *self);
//  No thread runs after it; device_done gives back all submitted requests.
void device_stop (device_t *self);

//  Whether there is news of the keys of its store since the last call: they are not renewed, and trouble
//  (lent) says why, or they are again, and it is "".
bool device_next_key_trouble (device_t *self, const char **trouble_p);

bool device_is_store (const device_t *self);
//  Lent; NULL: a file system.
const store_t *device_store (const device_t *self);
//  For an open device: how many reads may be under way at once; how many of these without the local disk's; a
//  reader's mode; whether volumes are read past the page cache.
uint32_t device_depth (const device_t *self);
uint32_t device_source_depth (const device_t *self);
const char *device_mode (const device_t *self);
bool device_is_direct (const device_t *self);
//  Its name in `status`: "8:1", major and minor number, or "s3://bucket"; with an owner "8:1 (val)".
enum { DEVICE_NAME_BYTES = 400 };
const char *device_name (const device_t *self, char name [DEVICE_NAME_BYTES]);
//  The proxy of its store (store_show_proxy); "" of files.
void device_proxy (const device_t *self, char shown [HTTP_PROXY_SHOWN_BYTES]);
//  What `status` shows of it.
json_t *device_status (const device_t *self);


//  ---- the devices of some data sets: one for each file system, and for each store

//  Plain data, in no order; { 0 } is empty.
typedef struct {
    device_t **all;
    size_t count;
} device_list_t;

//  The device of this file system, or of this store if it is not NULL, made if it is new; depth:
//  device_new's.  NULL: no memory.
device_t *device_list_get (device_list_t *self, dev_t number, const store_t *store, uint32_t depth);
//  device_add_volume, for the device of the store, or of the file's file system if store is NULL.  NULL: the
//  device is unknown, or there is no memory; errno has the reason.
device_t *device_list_add_volume (device_list_t *self, const store_t *store, const char *path,
    const char *version, size_t span, uint32_t depth, uint32_t *file_p);
//  Destroys the devices, and leaves the list empty.
void device_list_clear (device_list_t *self);

#endif
