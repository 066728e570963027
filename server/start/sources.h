/*  sources -- the data sets of the settings, opened: files listed, packs checked and measured, each told to
 *  the broker.
 *
 *  Plain data; { 0 } is empty.  Owner: the thread that starts and ends the server; the broker's thread owns
 *  the devices.
 */
#ifndef SOURCES_H
#define SOURCES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "broker.h"
#include "options.h"
#include "progress.h"
#include "source.h"

typedef struct {
    broker_t *broker;                   //  lent, and the options too
    const options_t *options;
    source_t all [OPTIONS_DATASETS_MAX];
    device_t **devices;                 //  of the data sets' files; in no order
    size_t device_count;
    learned_rows_budget_t rows;         //  of the folders' JPEGs
    block_cache_t *blocks;              //  of object stores, on the local disk; NULL: none
    progress_t progress;                //  of a data set that is being opened; set before sources_open
    cluster_t *cluster;                 //  gets the data sets that are kept there; lent; NULL: none
    const customs_t *customs;           //  for pipelines on all of them; lent; NULL: none
} sources_t;

//  Opens the data sets in the order of the settings, and prints on standard output what was found.  False:
//  the reason is on standard error.  Call sources_close in either case, when no thread uses them any more.
bool sources_open (sources_t *self, broker_t *broker, const options_t *options);
void sources_close (sources_t *self);
//  Prints a warning for each setting that does nothing with these data, for splits that differ in classes,
//  and if prepared and compressed samples may need more memory than there is.  Status has those about
//  classes.
void sources_warn (const sources_t *self);

//  At most so much of the memory for compressed samples is for ranges on their way from the disk.
size_t sources_buffer_part (const options_t *options);
//  "3.2 GiB"; returns text.
const char *sources_size (uint64_t bytes, char *text, size_t size);

#endif
