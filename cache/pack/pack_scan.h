/*  pack_scan -- reads a whole pack once, in the order of its volumes, and says of each sample whether it is
 *  whole.
 *
 *  The catalogue is opened with index_only, so that a pack with missing or damaged volumes can be scanned as
 *  well:
 *  what is wrong with them are events like any other.  Reads are of PACK_SCAN_READ_BYTES or a sample; where a
 *  large one fails each sample is tried by itself, so that a bad block costs only the samples in it.  What
 *  the system has of a volume in memory is let go first: it is the disk that is to be read.
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
    const uint8_t *bytes;               //  all its files, one after the other, for the call; NULL: could not
                                        //  be read
    size_t field;                       //  of a damaged one: the first field that is; of one not read: 0
    const char *damage;                 //  NULL: every file is what was packed
} pack_scan_sample_t;

typedef struct {
    //  Each sample of the volumes that can be read, by position.  False: the scan ends here.
    bool (*sample) (void *context, const pack_scan_sample_t *sample);
    //  Before its samples.  is_lost: it is not there or cannot be opened, and none of its samples follows.
    void (*volume) (void *context, uint32_t volume, const char *damage, bool is_lost);
    //  What fills up the chunk's last block is not zero; no sample is harmed.  NULL: not looked at.
    void (*padding) (void *context, uint32_t volume, uint32_t chunk);
} pack_scan_events_t;

//  0; -ECANCELED if an event said so; -ENOMEM.  The catalogue is a pack's.
int pack_scan (const catalogue_t *catalogue, const pack_scan_events_t *events, void *context);

#endif
