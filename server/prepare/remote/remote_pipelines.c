#include "remote_pipelines.h"
#include <stddef.h>
#include <jansson.h>
#include "work_messages.h"

const remote_pipeline_t *
remote_pipelines_find (remote_pipelines_t *self, const pipeline_t *pipeline, const catalogue_t *catalogue)
{
    for (size_t index = 0; index < WIRE_WORK_PIPELINES_MAX; index++)
        if (self->all [index].pipeline == pipeline && self->all [index].catalogue == catalogue)
            return &self->all [index];
    uint32_t number = ++self->last;
    remote_pipeline_t *entry = &self->all [number % WIRE_WORK_PIPELINES_MAX];
    pipeline_destroy (&entry->pipeline);
    *entry = (remote_pipeline_t) { number, pipeline_hold (pipeline), catalogue };
    return entry;
}

char *
remote_pipelines_text (const remote_pipeline_t *entry)
{
    json_t *fields = json_array ();
    for (size_t field = 0; field < catalogue_fields (entry->catalogue); field++)
        json_array_append_new (fields, json_pack ("[s, b]", catalogue_field_name (entry->catalogue, field),
            catalogue_field_is_mask (entry->catalogue, field)));
    return work_pipeline_text (entry->number, pipeline_version_bytes (entry->pipeline),
        pipeline_shared_text (entry->pipeline), fields);
}

void
remote_pipelines_clear (remote_pipelines_t *self)
{
    for (size_t index = 0; index < WIRE_WORK_PIPELINES_MAX; index++)
        pipeline_destroy (&self->all [index].pipeline);
}
