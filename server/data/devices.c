#include "devices.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

device_t *
devices_get (devices_t *self, dev_t number, const store_t *store, uint32_t depth)
{
    for (size_t index = 0; index < self->count; index++)
        if (device_is (self->all [index], number, store))
            return self->all [index];
    device_t **all = realloc (self->all, (self->count + 1) * sizeof *all);
    if (!all)
        return NULL;
    self->all = all;
    all [self->count] = device_new (number, store, depth);
    return all [self->count]? all [self->count++]: NULL;
}

bool
devices_add_volume (devices_t *self, dataset_source_volume_t *volume, const char *path, size_t span,
    uint32_t depth)
{
    struct stat status;
    if (stat (path, &status))
        return false;
    errno = ENOMEM;
    volume->device = devices_get (self, status.st_dev, NULL, depth);
    return volume->device && device_add_volume (volume->device, path, "", span, &volume->file);
}
