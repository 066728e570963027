/*  block_folder -- what the folder of a cache on the local disk has, for people: listed, checked, dropped.
 *
 *  Servers may use the folder meanwhile.  They wait for its lock while a list is made of it, while a unit
 *  that seems damaged is read again, and while data sets are removed; they do not wait for the rest.
 *
 *  happy path:     block_cache_open_guest .. block_folder_list .. block_folder_check, block_folder_drop ..
 *                  free (entries) .. block_cache_close
 *  One thread.  Blocks for as long as the disk does.
 */
#ifndef BLOCK_FOLDER_H
#define BLOCK_FOLDER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "block_data.h"

typedef struct {
    char key [BLOCK_CACHE_NAME_BYTES];
    block_note_t note;
    uint64_t bytes;                     //  of all of it, in whole units; 0: not known, of a list
    uint64_t held_bytes;                //  of that, what is here
    uint64_t taken_bytes;               //  of the disk
    int64_t used_s;                     //  since 1970; 0: not known
    bool is_open;                       //  a server uses it
    bool is_newer;                      //  a later Tureen has written it
} block_folder_entry_t;

//  All data sets, by name and kind; the caller frees the entries.  0 or -errno.
int block_folder_list (block_cache_t *cache, block_folder_entry_t **entries_p, size_t *count_p);
//  Removes these data sets, all or none.  0 and how much less the cache takes; -EBUSY: is_open tells which
//  ones servers use; or -errno.
int block_folder_drop (block_cache_t *cache, block_folder_entry_t *entries, size_t count, uint64_t *freed_p);

//  Of a data set of files: the part that one of them has.
typedef struct {
    uint64_t owner, place, bytes;
} block_folder_file_t;

typedef struct {
    uint64_t held, damaged;             //  units: found, and thrown away
    uint64_t unowned;                   //  of no file any more; thrown away if no server uses the data set
    bool is_checked;                    //  false: the owners of its units are not known
} block_folder_check_t;

//  Reads all units that are here, and throws away what does not match its checksum, or cannot be read.
//  files: by place, of a data set of files; units behind the last one are passed over, since a server may
//  have found new files meanwhile.  NULL: of another data set.  tell: how many bytes were read since the
//  last call; NULL: not called.  0 or -errno.
typedef void (block_folder_tell_fn) (void *context, uint64_t bytes);
int block_folder_check (block_cache_t *cache, const block_folder_entry_t *entry,
    const block_folder_file_t *files, size_t file_count, block_folder_tell_fn *tell, void *context,
    block_folder_check_t *check);

#endif
