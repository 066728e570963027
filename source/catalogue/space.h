/*  space -- the copy of a folder that the cache on the local disk has, to be read like a pack: each file has
 *  a place in it (catalogue_places.h), and neighbours are one read.
 *
 *  happy path:     space_new, when all files are kept .. space_order and space_piece say what to read of
 *                  space_path .. space_check of each sample in what was read
 *  failure modes:  space_check is false of a sample that is not here any more, is damaged, or belongs to
 *                  another file: its own file has it.  The reader of that file keeps it again (reader.h), and
 *                  the caller says so by space_note.
 *
 *  A sample's *digest*, 8 bytes in memory, stands for the checksums of its units, which cover its owner too.
 *  So what is read needs no second read for its checksums.
 *
 *  The place of a file follows from its path, size and times alone: no piece is chosen by what is kept, or by
 *  when it was.
 *
 *  Any thread, once it is made.
 */
#ifndef SPACE_H
#define SPACE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "catalogue.h"
#include "progress.h"

typedef struct space space_t;

//  A range of the space, in bytes.
typedef struct {
    uint64_t offset;
    size_t bytes;
} space_range_t;

//  Of the one field of a folder, lent.  0; or -errno and *self_p NULL: -ENOTSUP: it is not that, or it is
//  kept nowhere; -ENODATA: more is missing than can be read file by file beside the rest; -EAGAIN: the disk
//  does not answer now; -ENOMEM.  Reads 0.1 % of the data from the local disk.
int space_new (space_t **self_p, const catalogue_t *catalogue, progress_t *progress);
void space_destroy (space_t **self_p);

//  The id at each position; lent.
const uint32_t *space_order (const space_t *self);
//  The file that has all ranges.  Returns the full length, as snprintf.
size_t space_path (const space_t *self, char *path, size_t size);
//  Of that file.
uint64_t space_bytes (const space_t *self);
//  What the samples take of it, in whole units.
uint64_t space_unit_bytes (const space_t *self);
//  From the first byte of position `first` to the last of position first + count - 1 (count > 0), with what
//  lies in between: the rests of units, and room that files left which have gone.
space_range_t space_piece (const space_t *self, uint32_t first, uint32_t count);
space_range_t space_sample (const space_t *self, uint32_t id);
//  Whether the sample was found here when it was looked for or noted last.
bool space_has (const space_t *self, uint32_t id);
//  How many samples were not found here.
uint32_t space_missing (const space_t *self);
//  Whether these bytes, as many as the file has, are the sample's.
bool space_check (const space_t *self, uint32_t id, const uint8_t *bytes);
//  These bytes are those of the sample's own file, which has been kept here anew, or came from here.  NULL:
//  it is not here any more.
void space_note (space_t *self, uint32_t id, const uint8_t *bytes);

#endif
