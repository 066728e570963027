/*  learned_rows_file -- what is known of the rows of a folder's JPEGs, kept in a file from one server to the
 *  next.
 *
 *  A folder of the operator's has a file for each data set, FINGERPRINT.rows: so servers of the same data can
 *  share it.  All numbers are little-endian:
 *
 *      magic 8 | fingerprint 32 | samples 4 | entries 4    of the data set; how many entries follow
 *      id 4 | size 4 | checksum 8 | size bytes             for each, ids ascending; the checksum: the JPEG's
 *      checksum 8                                          XXH3-64 of what stands before
 *
 *  Nothing in it is believed: what does not match is refused as a whole, an entry counts only for a file of
 *  its checksum (learned_rows.h), and the decoder checks the rows themselves (jpeg_rows.h).
 */
#ifndef LEARNED_ROWS_FILE_H
#define LEARNED_ROWS_FILE_H
#include <stddef.h>
#include "learned_rows.h"

//  Writes the file's path: 0, or -ENAMETOOLONG.
int learned_rows_path (const char *folder, const char *fingerprint, char *path, size_t size);
//  Adds the file's entries, as far as there is room.  0, or -errno and nothing was added: -ENOENT there is no
//  file, -EBADMSG it is damaged or of other data, -EPERM another user may have put it there (stranger.h),
//  what reading says, -ENOMEM.
int learned_rows_load (learned_rows_t *self, const char *path, const char *fingerprint);
//  Writes the file under another name and renames it, if anything was learned since the last load or save.  0
//  or -errno.
int learned_rows_save (learned_rows_t *self, const char *path, const char *fingerprint);

#endif
