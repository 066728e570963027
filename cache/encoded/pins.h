/*  pins -- encoded bytes that stay in memory: blocks of files, kept under the reader (reader.h).
 *
 *  A *block* is 4 MiB of a file or an object, or all of a smaller one.  The first read that touches a block
 *  reserves memory for it, if there is room.  Its *units* of 4,096 bytes are filled by whatever reads pass.
 *  Nothing is evicted for something newer (MinIO, as CoorDL calls this rule): under fresh shuffles an epoch
 *  then reads S (1 - p) of S bytes with a part p pinned, the least that any rule can.
 *
 *  No draw looks at a pin, so orders are the same with pins and without.
 *
 *  Data sets share the limit by the size of their data; none has more than its data take.  When a limit
 *  falls, whole blocks leave, the last that was reserved first (they lie in the order of a first epoch, which
 *  is random), and their memory goes back to the system.  A thread of the pins does that, in steps, so that
 *  no call takes long.  When the limit grows, reads reserve blocks again.
 *
 *  Ranges are read and kept unit by unit (a pack's volumes, which do not change), single files only as a
 *  whole, so that no read has a part of a file and a part of another one that replaced it.
 *
 *  failure modes:  none to the caller: what finds no memory is not kept.
 *  Any thread.  Bytes are copied outside the locks.
 */
#ifndef PINS_H
#define PINS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pins pins_t;
typedef struct pins_data pins_data_t;       //  the pins of one data set

enum { PINS_BLOCK_BYTES = 4 * 1024 * 1024, PINS_UNIT_BYTES = 4096 };

//  A file or an object of a data set.
typedef struct {
    pins_data_t *data;                  //  lent; NULL: nothing is kept
    uint64_t number;                    //  of the file in its data set; the caller numbers them
    uint64_t bytes;                     //  of the whole file
} pins_file_t;

//  What is missing of a range, from its first missing byte to its last; begin == end: nothing.
typedef struct {
    size_t begin, end;
} pins_gap_t;

typedef struct {
    uint64_t bytes;                     //  of the data, that are here
    uint64_t memory;                    //  reserved, bookkeeping included
    uint64_t limit;                     //  of memory
    uint64_t hit_bytes;                 //  read from here so far
    uint64_t miss_bytes;                //  in the gaps of these reads
    uint64_t data_bytes;                //  of the data set
} pins_figures_t;

//  NULL: no memory, or no thread (errno).
pins_t *pins_new (uint64_t limit_bytes);
//  After all its data sets.  Waits until their memory has gone back.
void pins_destroy (pins_t **self_p);
//  Divides so much from now on.  The rest is given back by and by.
void pins_set_limit (pins_t *self, uint64_t bytes);
//  Waits until what is above the limits, and all of the data sets that have gone, is given back.
void pins_settle (pins_t *self);

//  The memory that a file takes when all of it is pinned, bookkeeping included.
uint64_t pins_cost (uint64_t file_bytes);
//  data_bytes: of all its files; cost: the sum of their pins_cost.  NULL: no memory.
pins_data_t *pins_data_new (pins_t *self, uint64_t data_bytes, uint64_t cost);
//  Nothing is kept any more, and its memory is given back by and by; reading finds nothing then.
void pins_data_retire (pins_data_t *self);
//  Nothing reads or keeps any more.  Its memory is given back by and by.
void pins_data_destroy (pins_data_t **self_p);
pins_figures_t pins_figures (pins_data_t *self);

//  Copies what is here at the beginning and at the end of the range.  The range begins with a unit, and ends
//  with one or with the file.  Within the gap, memory is as it was.
pins_gap_t pins_read (const pins_file_t *file, uint64_t offset, size_t bytes, uint8_t *memory);
//  The same for another server, in no figures.
pins_gap_t pins_lend (const pins_file_t *file, uint64_t offset, size_t bytes, uint8_t *memory);
//  Keeps the units that lie wholly in the range and are not here yet, as far as there is room.  The file's
//  last unit may be short.
void pins_keep (const pins_file_t *file, uint64_t offset, size_t bytes, const uint8_t *memory);
//  Whether the unit at this offset is kept if it comes: reading more than is wanted, to complete it, is of
//  use.
bool pins_keeps (const pins_file_t *file, uint64_t offset);
//  Whether all units of the range are here, which begins and ends as that of pins_read.
bool pins_has (const pins_file_t *file, uint64_t offset, size_t bytes);
//  Whether less than all of the data was looked for since the data set was made, or its limit grew: what is
//  pinned now may be chosen (reader_store.c).
bool pins_is_filling (pins_data_t *self);
//  Copies the file if all of it is here and came with one pins_keep_file.
bool pins_read_file (const pins_file_t *file, uint8_t *memory);
//  Keeps the file, in place of what was here of it, if there is room for all of it.
void pins_keep_file (const pins_file_t *file, const uint8_t *memory);
//  Gives up the units of the range: their bytes may be wrong.
void pins_drop (const pins_file_t *file, uint64_t offset, size_t bytes);

#endif
