/*  loader_state -- a loader: what loader.c and loader_queries.c know of it.  */
#ifndef LOADER_STATE_H
#define LOADER_STATE_H
#include <stdint.h>
#include "courier.h"
#include "handover.h"
#include "inquiry.h"
#include "joining.h"
#include "tureen.h"

#define LOADER_MAGIC 0x4c4f4144u

struct tureen_loader {
    uint32_t magic;
    //  Set at birth.
    int timeout_ms;
    joining_t *joining;
    handover_t *handover;
    inquiry_t *inquiry;
    courier_t *courier;                 //  NULL: the state had nothing left
    const tureen_info_t *info;
    tureen_info_t nothing_left;         //  what info is then
};

#endif
