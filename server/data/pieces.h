/*  pieces -- for data that are read in pieces of neighbours (packs, and folders of which the cache on the
 *  local disk has a copy, space.h): the sizes, places and chunks that the broker decides by, made from a
 *  catalogue.
 */
#ifndef PIECES_H
#define PIECES_H
#include <stdio.h>
#include "dataset.h"
#include "dataset_source.h"
#include "device.h"
#include "options.h"
#include "progress.h"

raw_policy_t pieces_tier (const options_dataset_t *wanted);
//  Whether it is a folder that may be read in pieces once the local disk has all of it.
bool pieces_may_come (const dataset_source_t *source, const options_dataset_t *wanted);
//  Why a folder cannot be read as it was asked for, the caller's; NULL: it can.
char *pieces_refusal (const dataset_source_t *source, const options_dataset_t *wanted);
//  Of memory for mixing, for the largest sample of a pack.
size_t pieces_raw_least (const pack_t *pack, const options_dataset_t *wanted);
//  At most so much of the memory for compressed samples is for ranges on their way from the disk.
size_t pieces_buffer_bytes (const options_t *options);
//  Of one read of several samples, at most.
size_t pieces_read_bytes (const options_t *options);
//  With what the source knows of its pack, or of its copy: volumes and breaks.
broker_pack_t pieces_describe (dataset_source_t *source, raw_policy_t policy, const options_t *options);

//  Looks whether all of the source's folder is kept, so that it may be read in pieces, as the user wants;
//  then the source has the copy, and room for its one volume.  0, or -errno (space_new) and nothing changes.
int pieces_find_copy (dataset_source_t *source, const options_dataset_t *wanted, progress_t *progress);
//  Reads of the copy go to the device of the local disk, which is measured.
void pieces_add_copy (dataset_source_t *source, device_list_t *devices, const options_t *options);
//  The broker reads it in pieces from now on.  Writes a line of the log.  False: memory is short, as the line
//  says, and files are read one by one.
bool pieces_place_copy (dataset_source_t *source, broker_t *broker, dataset_t *dataset,
    const options_t *options, FILE *out);
//  The copy is not used after all.
void pieces_forget_copy (dataset_source_t *source);

#endif
