//  What `status` asks of the tasks: those of the play tell nothing but the tenant that long ones
//  are asked for.
#include "tasks.h"
#include "tenant.h"

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
    return 0;
}

uint32_t
tasks_depth (const tasks_t *self)
{
    (void) self;
    return 1;
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
