/*  pack_source -- what is to be packed, sample by sample, in the order of their ids.
 *
 *  Kinds, found by what the path is:
 *    a folder                an ImageFolder, or what its labels file says (catalogue.h), with further fields
 *    a .tsv, .jsonl or .txt  a list: a labels file (docs/data.md) that lies anywhere, paths relative to its
 *    own folder or absolute;
 *                            .txt has one path a line and nothing else
 *    an address of a store   a tar file, if its name ends as one's; else a folder of single objects
 *    -                       a tar file that comes by standard input
 *    else                    tar files (several: shards, in the order given), compressed or not, here, in an
 *                            object store or on a web server (tar.h). Members with
 *                            one stem (up to the first dot of the last component) are one sample, as in
 *                            WebDataset.
 *
 *  Owner: one thread.  Blocks for as long as a disk or a store does.
 */
#ifndef PACK_SOURCE_H
#define PACK_SOURCE_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "catalogue.h"
#include "progress.h"
#include "store.h"
#include "utf8.h"

typedef struct pack_source pack_source_t;

enum { PACK_SOURCE_ERROR_BYTES = 1024 };

//  A cache on the local disk that has files of a folder, or single objects of a store.
typedef struct {
    block_cache_t *cache;               //  a guest's, lent
    const char *folder;                 //  of it, for errors
    bool list_anew;                     //  of a store, though a list is kept there
    bool is_only;                       //  nothing is read from the source
    //  the result
    uint64_t bytes;                     //  that came from there
    int64_t listed_s;                   //  when the list was made that was kept there; 0: none was used
} pack_source_disk_t;

typedef struct {
    const char *const *paths;           //  one, or several tar files
    size_t path_count;
    const char *extensions;             //  as catalogue_options_t's: which files count in a folder; in a tar,
                                        //  which is "image"
    const catalogue_field_t *fields;    //  further fields of a folder
    size_t field_count;
    store_persistence_t store;          //  with stores that fail
    progress_t *progress;               //  of the files of a folder that are found; lent; NULL: not shown
    const char *signature;              //  of standard input: the same text for the same bytes, by which a
                                        //  packing is gone on with; NULL: none
    pack_source_disk_t *disk;           //  lent; NULL: all is read from the source
    bool allow_empty;                   //  a class folder without a sample stays a class
    const char *masks;                  //  tar: "seg.png,mask.png": extensions of members that are masks;
                                        //  NULL: none
    const char *classes;                //  tar: the names behind the numbers of "cls", from 0 on, a line
                                        //  each; NULL: none
} pack_source_options_t;

//  One sample: the bytes of its files, by field; lent until the next call.
typedef struct {
    const uint8_t *files [CATALOGUE_FIELDS_MAX];
    size_t bytes [CATALOGUE_FIELDS_MAX];
    size_t field_count;                 //  the same for all
} pack_item_t;

//  0, or -errno, *self_p NULL, and fault and remedy in error (PACK_SOURCE_ERROR_BYTES, always terminated).
int pack_source_open (pack_source_t **self_p, const pack_source_options_t *options, char *error);
void pack_source_destroy (pack_source_t **self_p);

//  Whether the path means standard input.
static inline bool
pack_source_is_input (const char *path)
{
    return strcmp (path, "-") == 0;
}

//  1 and the next sample; 0 at the end; or -errno and error.
int pack_source_next (pack_source_t *self, pack_item_t *item, char *error);
//  Skips the next `count` samples, if possible without reading their bytes.  As pack_source_next: 1, or
//  -errno.
int pack_source_skip (pack_source_t *self, uint64_t count, char *error);
//  Progress and total in bytes of the source, for a progress bar; *total_p 0: unknown.
void pack_source_progress (const pack_source_t *self, uint64_t *done_p, uint64_t *total_p);
//  32 hexadecimal digits of paths, sizes and times, which change with the source: so that only the same
//  packing is resumed.
const char *pack_source_signature (const pack_source_t *self);
//  All samples with names, labels, sizes and fingerprint; lent.  NULL before the end if they are known only
//  then (tar files).
const catalogue_t *pack_source_catalogue (const pack_source_t *self);

//  For the kinds of sources: writes the sentence and returns rc.  Names are foreign: terminal control
//  characters are replaced.
__attribute__ ((format (printf, 3, 4)))
static inline int
pack_source_fail (char *error, int rc, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (error, PACK_SOURCE_ERROR_BYTES, format, arguments);
    va_end (arguments);
    utf8_mask (error);
    return rc;
}

#endif
