/*  pictures -- decoded pictures that stay in memory: a sample with a picture here costs neither a read of its
 *  file nor decoding, whatever crop a job takes of it.
 *
 *  A picture is all pixels of a file, before any operation.  It is kept when its sample is prepared a second
 *  time: decoding all of it costs half as much again as decoding a crop, and a sample that is prepared once
 *  and never again should not pay that.  Pictures stay until their data set goes, or the limit falls.  As
 *  with pins (pins.h) nothing is evicted for something newer; but kinds of pictures for which nothing has
 *  asked for PICTURES_IDLE_MS give way to others.
 *
 *  No draw looks at a picture, so orders are the same with pictures and without.
 *
 *  Pictures lie in *chunks*, mappings of up to 32 MiB, each of one kind of one data set, which leave as a
 *  whole, the newest first.  A picture that is lent when its chunk leaves stays until it is released.
 *
 *  failure modes:  none to the caller: what finds no memory is not kept.
 *  Any thread.  Pixels are read and written outside the lock.
 */
#ifndef PICTURES_H
#define PICTURES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pictures pictures_t;
typedef struct pictures_data pictures_data_t;       //  those of one data set

enum { PICTURES_IDLE_MS = 60000, PICTURES_SLACK = 64 };

typedef struct {
    uint8_t *pixels;                    //  rows without gaps; aligned to 64, with PICTURES_SLACK bytes behind
    uint32_t height;
    uint32_t width;
    uint32_t channels;                  //  a byte each
    bool is_clipped;                    //  the caller's, as it was given
} picture_pixels_t;

//  One of them, lent or being made.
typedef struct pictures_entry pictures_entry_t;

typedef struct {
    uint64_t count;                     //  that are here
    uint64_t bytes;                     //  of their pixels
    uint64_t hits, misses;              //  samples that were looked for so far
} pictures_figures_t;

//  NULL: no memory, or no thread (errno).
pictures_t *pictures_new (uint64_t limit_bytes);
//  After all its data sets.  Waits until their memory has gone back.
void pictures_destroy (pictures_t **self_p);
//  Of memory, bookkeeping included.  What is above it leaves at once, but for what is lent; its memory is
//  given back by and by, by a thread of the pictures.
void pictures_set_limit (pictures_t *self, uint64_t bytes);
uint64_t pictures_limit (pictures_t *self);
//  That is taken now, bookkeeping included.
uint64_t pictures_memory (pictures_t *self);

//  Waits until what has left, and is not lent, is given back.
void pictures_settle (pictures_t *self);

//  kinds: of pictures that one sample may have (its files, and how each is read).  NULL: no memory.
pictures_data_t *pictures_data_new (pictures_t *self, uint32_t samples, uint32_t kinds);
//  No picture may be lent or be being made.  Its memory is given back by and by.
void pictures_data_destroy (pictures_data_t **self_p);
pictures_figures_t pictures_figures (pictures_data_t *self);

//  Lends the sample's picture of this kind until pictures_release.  NULL: it is not here; *is_wanted_p says
//  whether it is worth keeping: it was looked for before, and there may be room.
pictures_entry_t *pictures_lend (pictures_data_t *self, uint32_t id, uint32_t kind, int64_t now_ms,
    bool *is_wanted_p);
picture_pixels_t pictures_pixels (const pictures_entry_t *entry);
//  Memory for a picture, which the caller writes to and gives back by pictures_keep or pictures_release.
//  wanted: without pixels.  NULL: there is no room.
pictures_entry_t *pictures_make (pictures_data_t *self, uint32_t id, uint32_t kind,
    const picture_pixels_t *wanted);
//  It is complete.  Of two for one sample the first is kept.
void pictures_keep (pictures_entry_t *entry);
//  NULL is nothing.
void pictures_release (pictures_entry_t *entry);

#endif
