/*  devices -- the devices (device.h) of some data sets: one for each file system, and for each store.
 *
 *  Plain data; { 0 } is empty.  Owner: one thread.
 */
#ifndef DEVICES_H
#define DEVICES_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "dataset_source.h"
#include "device.h"

typedef struct {
    device_t **all;                     //  in no order
    size_t count;
} devices_t;

//  The device of this file system, or of this store if it is not NULL, made if it is new; depth:
//  device_new's. NULL: no memory.
device_t *devices_get (devices_t *self, dev_t number, const store_t *store, uint32_t depth);
//  Adds the file to those of its device, for ranges of at most span bytes.  False: the device is unknown, and
//  errno has the reason.
bool devices_add_volume (devices_t *self, dataset_source_volume_t *volume, const char *path, size_t span,
    uint32_t depth);

#endif
