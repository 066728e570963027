/*  pack_scan -- reads a whole pack once, in the order of its volumes, and says of each sample whether it is
 *  whole.
 *
 *  The catalogue is opened with index_only, so that a pack with missing or damaged volumes can be scanned as
 *  well: their faults are events like any other.  Reads are of PACK_SCAN_READ_BYTES or a sample; if a large
 *  read fails each sample is tried by itself, so that a bad block costs only the samples in it.  A volume's
 *  pages are dropped from the page cache first, so that the disk is read.  Of a pack in a store, a read that
 *  fails for some seconds ends the scan: what cannot be asked for is not damaged.
 *
 *  Owner: one thread; blocks for as long as a disk does.
 */
#ifndef PACK_SCAN_H
#define PACK_SCAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "catalogue.h"

enum { PACK_SCAN_READ_BYTES = 8 * 1024 * 1024, PACK_SCAN_DAMAGE_BYTES = 200 };

typedef struct {
    uint32_t id, position, volume, chunk;
    const uint8_t *bytes;               //  all its files, one after the other, for the call; NULL: unreadable
    size_t field;                       //  of a damaged sample: its first damaged field; of an unreadable
                                        //  one: 0
    const char *damage;                 //  NULL: every file is what was packed
    bool is_whole;                      //  the fields' files are, whatever is damaged beside them
} pack_scan_sample_t;

typedef struct {
    //  Called for each sample of the readable volumes, by position.  False: the scan ends here.
    bool (*sample) (void *context, const pack_scan_sample_t *sample);
    //  Called before a volume's samples.  is_lost: it is missing or cannot be opened, and none of its samples
    //  follows.
    void (*volume) (void *context, uint32_t volume, const char *damage, bool is_lost);
    //  Called if the padding of the chunk's last block is not zero; no sample is harmed.  NULL: padding is
    //  not checked.
    void (*padding) (void *context, uint32_t volume, uint32_t chunk);
} pack_scan_events_t;

//  0; -ECANCELED if an event returned false; -ENOMEM; or the store's error (transfers.h).  The catalogue is a
//  pack's.
int pack_scan (const catalogue_t *catalogue, const pack_scan_events_t *events, void *context);

#endif
