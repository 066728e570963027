/*  source -- what stands behind a data set of the broker's (its dataset_user): the files, and how they are judged.  */
#ifndef SOURCE_H
#define SOURCE_H
#include <stdint.h>
#include "broker.h"
#include "catalogue.h"

typedef struct {
    catalogue_t *catalogue;
    uint32_t jpeg_warnings_max;     //  libjpeg warnings beyond which a file is bad; UINT32_MAX: none are too many
} source_t;

static inline const source_t *
source_of (const dataset_t *dataset)
{
    return dataset_user (dataset);
}

#endif
