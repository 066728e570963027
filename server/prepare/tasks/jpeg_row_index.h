/*  jpeg_row_index -- where the rows of a folder's JPEGs begin (jpeg_rows.h), as far as the decoder has found
 *  it out.
 *
 *  A folder has no room to write this beside the files, as a pack has.  But the decoder finds it on its way:
 *  it is kept here, and the next time a crop of that file is decoded faster.  A checksum of the file goes
 *  along, because a file may change.
 *
 *  From one server to the next it is kept in a file.  A folder of the operator's has one for each data set,
 *  FINGERPRINT.rows: so servers of the same data can share it.  All numbers are little-endian:
 *
 *      magic 8 | fingerprint 32 | samples 4 | entries 4    of the data set; how many entries follow
 *      id 4 | size 4 | checksum 8 | size bytes             for each, ids ascending; the checksum: the JPEG's
 *      checksum 8                                          XXH3-64 of what stands before
 *
 *  Nothing in it is believed: what does not match is refused as a whole, an entry counts only for a file of
 *  its checksum, and the decoder checks the rows themselves (jpeg_rows.h).
 *
 *  Bounded: with no room left, nothing more is learned, and what is known stays; but of a file that changed
 *  nothing is kept.  Owner: the broker's thread.  Worker threads make entries, and read the one that is lent
 *  to their task.
 */
#ifndef JPEG_ROW_INDEX_H
#define JPEG_ROW_INDEX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "decoder.h"

typedef struct jpeg_row_index jpeg_row_index_t;

//  Of all folders of a server together.
typedef struct {
    size_t bytes_max;
    size_t bytes;               //  of entries; each table has 8 more for each sample
    bool is_full;               //  an entry had no room in the little that is left; none was given up since
} jpeg_row_index_budget_t;

//  Immutable.
typedef struct {
    uint64_t checksum;          //  pack_index_checksum of the file
    uint32_t users;             //  the broker's thread's: tasks to which it is lent, and the table
    uint32_t size;
    uint8_t bytes [];
} jpeg_row_index_entry_t;

//  For so many samples; budget is lent.  NULL: no memory.
jpeg_row_index_t *jpeg_row_index_new (uint32_t samples, jpeg_row_index_budget_t *budget);
//  No entry may be lent.
void jpeg_row_index_destroy (jpeg_row_index_t **self_p);

//  From now on it counts in this budget, which is lent, and no more in that of before; what has no room goes.
//  self NULL: nothing happens.
void jpeg_row_index_move (jpeg_row_index_t *self, jpeg_row_index_budget_t *budget);

//  Whether it is worth finding out more.  self NULL: no.
bool jpeg_row_index_has_room (const jpeg_row_index_t *self);

//  What is known of a sample's file, lent until jpeg_row_index_release; NULL: nothing.  self may be
//  NULL.
jpeg_row_index_entry_t *jpeg_row_index_lend (jpeg_row_index_t *self, uint32_t id);
//  NULL is nothing.
void jpeg_row_index_release (jpeg_row_index_entry_t *entry);

//  A copy of the bytes, for jpeg_row_index_keep.  NULL: no memory.  Any thread.
jpeg_row_index_entry_t *jpeg_row_index_entry (uint64_t checksum, const uint8_t *bytes, size_t size);
//  Before a worker decodes the file: adds the entry's bytes to it, if they are of this file (NULL: none are).
//  Whether they are.
bool jpeg_row_index_tell (const jpeg_row_index_entry_t *entry, decoder_file_t *file);
//  Afterwards, if all went well: what the decoder has found out beyond the file's rows, for
//  jpeg_row_index_keep; NULL: nothing, or no memory.  told: the entry of this file; NULL: there is none.
jpeg_row_index_entry_t *jpeg_row_index_found (decoder_t *decoder, const decoder_file_t *file,
    const jpeg_row_index_entry_t *told);
//  Keeps the entry in place of what was known of that sample; or frees it, if there is no room, or as much
//  was known of the same file.  What was known of another file is given up in any case.
void jpeg_row_index_keep (jpeg_row_index_t *self, uint32_t id, jpeg_row_index_entry_t *entry);

//  Of how many samples something is known.
uint32_t jpeg_row_index_samples (const jpeg_row_index_t *self);

//  ---- the file

//  Writes the file's path: 0, or -ENAMETOOLONG.
int jpeg_row_index_path (const char *folder, const char *fingerprint, char *path, size_t size);
//  Adds the file's entries, as far as there is room.  0, or -errno and nothing was added: -ENOENT there is no
//  file, -EBADMSG it is damaged or of other data, -EPERM another user may have put it there (file.h),
//  what reading says, -ENOMEM.
int jpeg_row_index_load (jpeg_row_index_t *self, const char *path, const char *fingerprint);
//  Writes the file as PATH.new and renames it, if anything was learned since the last load or save.  0
//  or -errno.
int jpeg_row_index_save (jpeg_row_index_t *self, const char *path, const char *fingerprint);

#endif
