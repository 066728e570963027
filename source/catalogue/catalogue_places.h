/*  catalogue_places -- where the files of a folder are kept on the local disk (block_data.h), for this server
 *  and for later ones.
 *
 *  happy path:     catalogue_places_tag of each file that is found .. catalogue_places_find .. of catalogue.h
 *                  catalogue_blocks, catalogue_place and catalogue_owner .. catalogue_places_is_unchanged
 *                  before what was read of a file is kept
 *  failure modes:  a list on the disk that is damaged, or not there: the files get places anew.  No room for
 *                  a new list: files that are not in the old one are not kept.  No memory, too many files,
 *                  or a disk that does not answer: nothing is kept, and catalogue_blocks tells why.
 *  Any thread, once the catalogue is made.
 */
#ifndef CATALOGUE_PLACES_H
#define CATALOGUE_PLACES_H
#include "block_folder.h"
#include "catalogue_state.h"

struct stat;

//  Of a file's times of modification and of change: it changes with these, but for one time in 2^31.  Never
//  0.
uint32_t catalogue_places_tag (const struct stat *status);
//  Finds where the field's files are kept, by the list on the local disk, and renews the list.
void catalogue_places_find (draft_t *draft, size_t field);
//  Whether files of this one's file system are to be kept, by the draft's `keep`.
bool catalogue_places_are_wanted (const draft_t *draft, int fd);
//  Whether the open file of a sample is as it was when the catalogue was made.
bool catalogue_places_is_unchanged (const catalogue_t *self, uint32_t id, size_t field, int fd);
//  What a list on the local disk says of all files that are kept, by place; the caller frees them.  0;
//  -ENOENT or -ENODATA: there is no list; -ESTALE: it is of another space; -ENOMEM.
int catalogue_places_load (block_folder_file_t **files_p, size_t *count_p, block_cache_t *cache,
    const block_data_list_t *list);

#endif
