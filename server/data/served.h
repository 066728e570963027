/*  served -- the data sets of the settings, and those added to them, opened: files listed, packs checked and
 *  measured, each told to the broker.
 *
 *  A data set is opened in two halves.  *Finding* lists, reads and measures it, in any thread, and says what
 *  it finds on a stream.  *Placing* gives it to the broker, with the devices that read it.  At the start both
 *  come in turn; later a thread of additions.h finds, and the broker's thread places.
 *
 *  A file system has one device for all folders on it; at the start its packs and all data of one store have
 *  a common device too.  What is added later has devices of its own for its packs and its stores, because a
 *  reader's files are fixed when it begins.  A device that no data set needs any more is closed.
 *
 *  served_sets_t is plain data; { 0 } is empty.  Owner: the broker's thread.
 */
#ifndef SERVED_H
#define SERVED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>
#include "broker.h"
#include "dataset.h"
#include "dataset_source.h"
#include "device.h"
#include "memory_parts.h"
#include "options.h"
#include "progress.h"
#include "tasks.h"

//  When what is kept of a folder is looked at again (growth.h).
typedef struct {
    int64_t due_ms, pause_ms;
    uint64_t held, found;               //  bytes that were kept, and had come from there, at the last look
    int failure;                        //  of what is kept, when it was told last; 0: none
    bool is_refused;                    //  the broker has too little memory: it is not looked at again
} served_growth_t;

//  A data set: what was asked for, what was found, and what stands for it in the broker.
typedef struct {
    dataset_source_t source;            //  first, so that dataset_user leads back here
    options_dataset_t wanted;
    char *real;                         //  its folder without links; NULL: not known
    uint64_t tenants;                   //  a bit for each tenant of the settings that may use it beside what
                                        //  those say
    bool is_added;                      //  it does not stand in the settings
    bool is_in_cluster;                 //  other members read its blocks until this server ends
    const catalogue_t *classes_of;      //  as in the catalogue's options
    device_list_t devices;                  //  its own, until it is placed
    jpeg_row_index_budget_t rows;       //  a copy of that of all, for its table until it is placed
    uint64_t bytes, pins_bytes;         //  of its files, and of memory if all of them are pinned; 0: not
                                        //  measured
    dataset_t *dataset;                 //  NULL: not placed yet, or free to go
    served_growth_t growth;
    bool is_removed;
} served_t;

typedef struct {
    broker_t *broker;                   //  lent, and the options too
    const options_t *options;
    served_t *all [OPTIONS_DATASETS_MAX];       //  placed, in that order; those removed too, until they go
    size_t count;
    served_t **gone;                    //  that the broker gave back; what they lend may be needed still
    size_t gone_count;
    device_list_t devices;                  //  of the data sets' files
    tasks_t *tasks;                     //  they have the devices open; lent; NULL: they do not run yet
    jpeg_row_index_budget_t rows;       //  of the folders' JPEGs
    block_cache_t *blocks;              //  of object stores, on the local disk; NULL: none
    progress_t progress;                //  of a data set that is being opened; set before served_open
    cluster_t *cluster;                 //  gets the data sets that are kept there; lent; NULL: none
    const customs_t *customs;           //  for pipelines on all of them; lent; NULL: none
    //  Of all data sets; set before served_open; NULL, all of them: without --memory.
    pins_t *pins;                       //  taken, as the next
    pictures_t *pictures;
    memory_parts_t *parts;              //  lent
    served_t *begun [OPTIONS_DATASETS_MAX];     //  of the settings, by their places, until they are placed
    bool is_begun;
    json_t *changes;                    //  what an earlier process of this server had added and removed
                                        //  (served_changes); taken; set before served_open; NULL: nothing
} served_sets_t;

//  What all data sets of the settings take.
typedef struct {
    uint64_t bytes;
    uint64_t pack_bytes;                //  of these, packs
    uint64_t pins;                      //  of memory if all is pinned
    uint64_t raw_least;                 //  of memory for mixing, for the largest sample of a pack
} served_sizes_t;

//  Lists the files of the data sets of the settings, and says how large they are; served_open then goes on
//  from there.  It needs no broker.  False: the reason is on standard error.
bool served_measure (served_sets_t *self, const options_t *options, served_sizes_t *sizes);
//  Opens the data sets in the order of the settings, and prints on standard output what was found.  False:
//  the reason is on standard error.  Those that `changes` has as removed are left out; those that it has
//  as added are additions.h's.  Call served_close in either case, when no thread uses them any more.
bool served_open (served_sets_t *self, broker_t *broker, const options_t *options);
void served_close (served_sets_t *self);
//  parts->pins_now, or what the data sets take, has changed: divides it between pins and decoded pictures.
void served_divide (served_sets_t *self);
//  The tenants of the settings are there: those of added data sets may use them.
void served_allow (served_sets_t *self);
//  Writes what was learned of the data since it was written last.  Before the end waits for threads: one that
//  hangs in a read lets the process end before served_close (serve.h).
void served_save (const served_sets_t *self);
//  Prints a warning for each setting that does nothing with these data, for splits that differ in classes,
//  and if prepared and compressed samples may need more memory than there is.  Status has those about
//  classes.
void served_warn (const served_sets_t *self);

//  ---- a data set that is added

//  Takes the settings, and nulls what they had.  classes_of lives as long as this; NULL: classes of its own.
served_t *served_begin (options_dataset_t *wanted, const catalogue_t *classes_of);
//  Never placed, or free to go; the broker, the tasks and self->all do not have it.  Waits for its disks.
void served_discard (served_t **self_p);
//  Any thread, while the owner does other things with self.  Writes to out a line for each thing found.
//  False: *error_p, the caller's, has the reason.
bool served_find (const served_sets_t *self, served_t *served, progress_t *progress, FILE *out,
    char **error_p);
//  Gives what was found to the broker and the tasks, takes *served_p and warns on out of what splits have not
//  in common.  False: *error_p, the caller's, has the reason, and *served_p is still the caller's unless it
//  is NULL.
bool served_place (served_sets_t *self, served_t **served_p, FILE *out, char **error_p);
//  Why a data set is not kept on the local disk, and what mends it.  rc: -errno.
const char *served_not_kept_reason (int rc);
//  What pieces_find_copy has found in another thread, with devices of its own: the data set is read in pieces
//  from now on, by the jobs that are there too.  Takes both.  Writes to out a line for the log, if it has
//  something to say.  False: files are read one by one as before.
bool served_adopt_copy (served_sets_t *self, served_t *served, dataset_source_t *found,
    device_list_t *devices, FILE *out);
//  Its tenants may use it from now on, these too.
void served_allow_more (served_sets_t *self, served_t *served, uint64_t tenants);
//  The data set of this name that is placed and not removed; NULL: none.
served_t *served_named (const served_sets_t *self, const char *name);
//  Writes what was found in a line, and its warnings.
void served_describe (const served_t *served, FILE *out);
//  No job may join it any more, and its jobs end.
void served_remove (served_sets_t *self, served_t *served);
//  What was removed and is used by nothing any more, for served_discard in any thread; NULL: none.  Closes
//  devices that nothing needs any more.  tasks_next_news must have given all.
served_t *served_next_gone (served_sets_t *self);
//  {"added": [words, ..], "removed": [name, ..]}, beside the settings; the caller's.  NULL: nothing changed,
//  or no memory.
json_t *served_changes (const served_sets_t *self);

//  "3.2 GiB"; returns text.
const char *served_size_text (uint64_t bytes, char *text, size_t size);

#endif
