/*  block_note -- what a data set of the cache on the local disk is, for people: its name, and what it has.
 *
 *  It lies behind the head in the first block of the data set's file `sums` (block_cache.h), so it takes no
 *  room, and goes with the data set.  It has a checksum of its own.  No read and no write of the data set
 *  depends on it: where it is damaged, or where an earlier Tureen has written none, the data set is unknown
 *  until a server opens it again.
 *  Any thread; writing takes the cache's lock.
 */
#ifndef BLOCK_NOTE_H
#define BLOCK_NOTE_H
#include <stdbool.h>
#include <stdint.h>

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

//  False: the data set has no note, or a damaged one; then all of *note is zero.
bool block_note_read (int sums, block_note_t *note);
//  Keeps made_s of the note that is there, and writes nothing if that is the same.  0 or -errno.
int block_note_write (int sums, const block_note_t *note);

#endif
