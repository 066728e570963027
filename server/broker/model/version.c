#include "version.h"
#include <assert.h>
#include "job.h"

dataset_t *
version_dataset (const broker_t *self, const version_t *version)
{
    return version_class (self, version)->dataset;
}

const pipeline_t *
version_pipeline (const broker_t *self, const version_t *version)
{
    return version_class (self, version)->pipeline;
}

pipeline_key_t
version_key (const broker_t *self, const version_t *version)
{
    return (pipeline_key_t) { .seed = version_class (self, version)->seed, .round = version->draw,
        .id = version->id };
}

const class_t *
version_class (const broker_t *self, const version_t *version)
{
    return version_set_user (version_set_of (self->version_index, version));
}

//  The versions of an idle set would serve its next job, but one that takes long is not waited for.
bool
version_abandon (broker_t *self, version_t *version)
{
    assert (version->state == VERSION_WORKING);
    if (version->waiting
        || (version->indexed && !version_set_is_idle (version_set_of (self->version_index, version))))
        return false;
    version_index_discard (self->version_index, version);
    return true;
}
