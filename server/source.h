/*  source -- what stands behind a data set of the broker's (its dataset_user): files or a pack, and how they are judged.  */
#ifndef SOURCE_H
#define SOURCE_H
#include <stdint.h>
#include "broker.h"
#include "catalogue.h"
#include "cost.h"
#include "pack.h"

typedef struct {
    catalogue_t *catalogue;
    uint32_t jpeg_warnings_max;     //  libjpeg warnings beyond which a file is bad; UINT32_MAX: none are too many
    const pack_t *pack;             //  the catalogue's; NULL: plain files
    uint32_t first_file;            //  of its volumes, among the files that the reading thread has open
    uint32_t *breaks;               //  positions at which its volumes begin; the source's
    cost_t cost;                    //  of reading here; the broker's thread's
} source_t;

static inline source_t *
source_of (const dataset_t *dataset)
{
    return dataset_user (dataset);
}

#endif
