//  What `status` asks of tasks and caches: figures that each are another one, and the tenant that long tasks
//  are asked for.
#include <errno.h>
#include "block_cache.h"
#include "connection_limit.h"
#include "pins.h"
#include "tasks.h"
#include "tenant.h"

block_cache_figures_t __wrap_block_cache_figures (const block_cache_t *self);
size_t __wrap_connection_limit_descriptors (const connection_limit_t *self);
size_t __wrap_connection_limit_descriptors_max (const connection_limit_t *self);
pins_figures_t __wrap_pins_figures (pins_data_t *self);

block_cache_figures_t
__wrap_block_cache_figures (const block_cache_t *self)
{
    (void) self;
    return (block_cache_figures_t) { .folder = "/cache", .bytes = 21, .bytes_max = 22, .damaged = 23,
        .failure = -ENOSPC, .times_aside = 24, .is_aside = true, .is_open = true };
}

size_t
__wrap_connection_limit_descriptors (const connection_limit_t *self)
{
    (void) self;
    return 31;
}

size_t
__wrap_connection_limit_descriptors_max (const connection_limit_t *self)
{
    (void) self;
    return 32;
}

//  Of each data set.
pins_figures_t
__wrap_pins_figures (pins_data_t *self)
{
    (void) self;
    return (pins_figures_t) { .bytes = 40, .data_bytes = 80, .memory = 41, .limit = 42 };
}

const char *
tasks_reading_mode (const tasks_t *self, bool of_stores)
{
    (void) self;
    return of_stores? NULL: "play";
}

uint64_t
tasks_shortages (const tasks_t *self)
{
    (void) self;
    return 5;
}

uint32_t
tasks_depth (const tasks_t *self)
{
    (void) self;
    return 9;
}

json_t *
tasks_devices_status (const tasks_t *self)
{
    (void) self;
    return json_array ();
}

json_t *
tasks_long_status (const tasks_t *self, const tenant_t *tenant, int64_t now_ms)
{
    (void) self, (void) now_ms;
    return json_pack ("[{s:s}]", "asked_for", tenant? tenant_name (tenant): "all");
}
