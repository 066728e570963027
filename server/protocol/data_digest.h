/*  data_digest -- stands for a job's own ids: which of the data set's samples, and of a list in which order.
 *
 *  Clients get it, keep it in their states, and compare it with another server's; so the hashed bytes never
 *  change.  XXH3, 64 bits, of 8 bytes and then little-endian numbers:
 *      a set       "set", 5 zeros; words of 64 bits, bit i of word w for id 64 w + i, up to the last that is
 *                  not 0
 *      a list      "list", 4 zeros; each id, 32 bits
 */
#ifndef DATA_DIGEST_H
#define DATA_DIGEST_H
#include <stddef.h>
#include <stdint.h>
#include <roaring/roaring.h>
#include "wire.h"

//  Lower-case hexadecimal, and a final zero.
typedef struct {
    char text [WIRE_DATA_BYTES + 1];
} data_digest_t;

//  For all samples 0 .. sample_count-1.  10 million ids take some 0.2 ms.
data_digest_t data_digest_of_all (uint32_t sample_count);
//  For a set, independent of its containers.  10 million ids take some 20 ms.
data_digest_t data_digest_of_set (const roaring_bitmap_t *set);
data_digest_t data_digest_of_list (const uint32_t *ids, size_t count);
//  XXH3 of bytes that say something else.
data_digest_t data_digest_of_bytes (const void *bytes, size_t size);

#endif
