/*  block_data -- one data set in the cache on the local disk (block_cache.h).
 *
 *  A data set is an address space: its objects one after the other, each from a multiple of
 *  BLOCK_DATA_UNIT_BYTES on.  Its key covers each object's URL, version and size, so what is here never goes
 *  out of date.
 *  A range given here begins with a unit, and ends with one or with an object, of which the last unit may be
 *  short.
 *
 *  failure modes:  none to the caller: what is damaged or cannot be read is not here, and what cannot be
 *                  written is not kept.
 *  Any thread; several threads, and several servers, may use one data set at once.
 */
#ifndef BLOCK_DATA_H
#define BLOCK_DATA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "block_cache.h"
#include "block_queue.h"

typedef struct block_data block_data_t;

enum { BLOCK_DATA_UNIT_BYTES = BLOCK_CACHE_UNIT_BYTES };

//  { 0 } before the first object.
typedef struct {
    uint64_t words [2];
} block_data_key_t;

//  What is missing of a range, from its first missing byte to its last; begin == end: nothing.
typedef struct {
    size_t begin, end;
} block_data_gap_t;

//  One object more: its URL, its version (ETag) and its size.
void block_data_key_add (block_data_key_t *self, const char *url, const char *version, uint64_t bytes);
//  Where the object behind one of so many bytes at `offset` begins.
static inline uint64_t
block_data_next (uint64_t offset, uint64_t bytes)
{
    return (offset + bytes + BLOCK_DATA_UNIT_BYTES - 1) / BLOCK_DATA_UNIT_BYTES * BLOCK_DATA_UNIT_BYTES;
}

//  bytes: of the whole address space, which may have grown since the data set was used last.  0; or -errno
//  and *self_p NULL: it cannot be kept (-ENOSPC: the cache is full of data in use; -EFBIG: files of this size
//  are not allowed here; -ENOTSUP: a later Tureen has written it; -ENOENT: a guest's cache does not have it).
//  If the disk does not answer, 0: it is opened by the first use that the disk answers.
int block_data_open (block_data_t **self_p, block_cache_t *cache, const block_data_key_t *key,
    uint64_t bytes);
void block_data_close (block_data_t **self_p);


//  ---- what a data set is, for people: its note
//
//  It lies behind the head in the first block of the data set's file `sums` (block_cache.h), so it takes no
//  room, and goes with the data set.  It has a checksum of its own.  No read and no write of the data set
//  depends on it: where it is damaged, or where an earlier Tureen has written none, the data set is unknown
//  until a server opens it again.

typedef enum {
    BLOCK_NOTE_UNKNOWN,
    BLOCK_NOTE_OBJECTS,                 //  single objects of a store
    BLOCK_NOTE_FILES,                   //  of a folder, or of a field's folder
    BLOCK_NOTE_VOLUMES,                 //  of a pack
    BLOCK_NOTE_INDEX,                   //  of a pack
    BLOCK_NOTE_OBJECT_LIST,
    BLOCK_NOTE_FILE_LIST,
    BLOCK_NOTE_KINDS
} block_note_kind_t;

enum { BLOCK_NOTE_NAME_BYTES = 3840 };

typedef struct {
    uint32_t kind;
    uint32_t generation;                //  of files: which of their spaces it is, by their list; 0 of those
                                        //  that an earlier Tureen has noted
    uint64_t count;                     //  files, objects or volumes; 0 of a list and of an index
    uint64_t bytes;                     //  that all of it takes in whole units; 0: not known
    uint64_t list [2];                  //  of files: the key of their list (block_data_key_t)
    int64_t made_s;                     //  since 1970: when it was first noted
    char name [BLOCK_NOTE_NAME_BYTES];  //  the path or the address that it comes from, cut if it is longer
} block_note_t;

//  From the file `sums`.  False: the data set has no note, or a damaged one; then all of *note is zero.
bool block_data_read_note (int sums, block_note_t *note);

//  Of a data set of files: the key of their list, and which of the spaces it is that the list has had.
typedef struct {
    const block_data_key_t *key;
    uint32_t generation;
} block_data_list_t;

//  Notes what it is, if the disk answers; made_s of a note that is there stays.  NULL as self: nothing.
//  list: of files; else NULL.
void block_data_note (block_data_t *self, block_note_kind_t kind, const char *name, uint64_t count,
    uint64_t bytes, const block_data_list_t *list);


//  ---- its ranges

//  As given to block_data_open; lent.
const block_data_key_t *block_data_key (const block_data_t *self);
//  Of the whole address space.
uint64_t block_data_bytes (const block_data_t *self);

//  Reads what is here at the beginning and at the end of the range.  Within the gap, memory has no meaning.
//  A range that lies in the page cache is read by the caller itself, even while the disk hangs; all else by
//  threads of the cache's.
block_data_gap_t block_data_read (block_data_t *self, uint64_t offset, size_t bytes, uint8_t *memory);
//  A read beside others.
typedef struct {
    //  the question
    block_data_t *data;
    uint64_t owner;                     //  as for block_data_read_owned: of all of the range; 0: none
    uint64_t offset;
    size_t bytes;
    uint8_t *memory;
    void *user;                         //  the caller's
    //  the answer
    block_data_gap_t gap;               //  with an owner: of nothing, or of all of the range
    bool was_asked;                     //  threads of the cache's have read
    //  its own
    bool is_behind;                     //  it is read from its end on,
    size_t least;                       //  to here
} block_data_range_t;

//  For reads of data sets of one cache: where its threads put what they have read.  NULL: they cannot be
//  beside others, for lack of threads, memory or descriptors.
block_queue_t *block_data_queue (const block_data_t *self);
//  Reads as block_data_read and block_data_read_owned do, without a wait for the disk: true, and the range is
//  lent until it is taken or dropped, but its memory is not touched meanwhile.  False: the answer is here.
//  queue NULL: waits.
bool block_data_begin (block_queue_t *queue, block_data_range_t *range);
//  One that has its answer; NULL: none.  Never waits.
block_data_range_t *block_data_take (block_queue_t *queue);
//  For another server (peers.h), which checks them itself: all of the range with its checksums, one for each
//  unit.  False: not all of it is here.
bool block_data_lend (block_data_t *self, uint64_t offset, size_t bytes, uint8_t *memory, uint32_t *sums);
//  The checksums of bytes that begin at this offset.
void block_data_sums (uint64_t offset, size_t bytes, const uint8_t *memory, uint32_t *sums);
//  Of one unit, which may be short, with its owner; never 0.
uint32_t block_data_sum (uint64_t unit, uint64_t owner, const uint8_t *memory, size_t bytes);
//  Copies what came with these checksums, which lie anywhere in memory.  False: it does not match them.
bool block_data_copy (uint64_t offset, size_t bytes, uint8_t *memory, const uint8_t *from,
    const uint8_t *sums);
static inline size_t
block_data_units (size_t bytes)
{
    return (bytes + BLOCK_DATA_UNIT_BYTES - 1) / BLOCK_DATA_UNIT_BYTES;
}

//  Keeps units that are not here yet, as far as there is room.  is_afresh: those that are here may be wrong,
//  and are replaced.
void block_data_store (block_data_t *self, uint64_t offset, size_t bytes, const uint8_t *memory,
    bool is_afresh);
//  The same for a range with an *owner*, a number other than 0 that stands for what its bytes are.  What was
//  stored for another owner is not here for this one, and is replaced.  A read is of all of the range, or
//  false.
bool block_data_read_owned (block_data_t *self, uint64_t owner, uint64_t offset, size_t bytes,
    uint8_t *memory);
//  store: false: not all of it is here now.
bool block_data_store_owned (block_data_t *self, uint64_t owner, uint64_t offset, size_t bytes,
    const uint8_t *memory);
//  The same without a wait: what is read of the range waits for it instead, in this server.  True: it is here
//  soon, if there is room for it and its writing does not fail.  Where so many bytes wait already that the
//  disk must be slower than what is read (BLOCK_CACHE_HANDED_BYTES_MAX), the caller waits too.
bool block_data_store_soon (block_data_t *self, uint64_t owner, uint64_t offset, size_t bytes,
    const uint8_t *memory);
//  Replaces all of the range, if that needs the room of no other data set.  False: not all of it is here.
bool block_data_store_modestly (block_data_t *self, uint64_t offset, size_t bytes, const uint8_t *memory);
//  Gives the range up: it may be wrong, or belongs elsewhere.  False: the disk does not answer, or another
//  server has the lock for long, so that it may still take room.
bool block_data_drop (block_data_t *self, uint64_t offset, uint64_t bytes);
//  Gives the range up for its room.  False: not now, for the same reasons, and what is left of it stays.
bool block_data_make_room (block_data_t *self, uint64_t offset, uint64_t bytes);
//  Whether any unit of the range is here, as far as is known without reading it.
bool block_data_has_some (const block_data_t *self, uint64_t offset, uint64_t bytes);
//  Whether all of the range is here, as far as is known without reading it.
bool block_data_has (const block_data_t *self, uint64_t offset, uint64_t bytes);
//  Whether there is room for all of the data set beside what else is in the cache, as this server knows it.
bool block_data_fits (const block_data_t *self);
//  Whether the last unit that was to be kept found no room: reading more than is wanted, to complete units,
//  is of no use then.
bool block_data_is_full (const block_data_t *self);
//  True while the disk does not answer in time (block_cache.h), and if the data set is not open, yet or for
//  good: nothing is known to be here, and nothing is kept or given up.
bool block_data_is_aside (const block_data_t *self);
//  0: it is open, or was not tried yet; else -errno: why the last try to open it failed.
int block_data_failure (const block_data_t *self);
//  Whether a read is worth a try: the cache is not aside, and the data set is open or this read may open it.
bool block_data_may_answer (const block_data_t *self);
//  What the data set takes of the local disk, as this server knows it.
uint64_t block_data_held_bytes (const block_data_t *self);


//  ---- to read the data set's file in another way, and check what comes (space.h)

//  The file's path, in which a range has its own offset.  Returns the full length, as snprintf.
size_t block_data_path (const block_data_t *self, char *path, size_t size);
//  The checksums of the range's units as they are here; 0: the unit is not.  False: they cannot be read now.
bool block_data_find_sums (block_data_t *self, uint64_t offset, uint64_t bytes, uint32_t *sums);

#endif
