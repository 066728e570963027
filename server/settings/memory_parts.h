/*  memory_parts -- how --memory is divided between its forms: the mixing pool (--raw), prepared versions
 *  (--cache), pins and decoded pictures.  What leaves each of them: raw_pool.h, prepared.h, pins.h,
 *  pictures.h; what leaves the cache on the local disk: block_cache.h.
 *
 *  The pool gets what mixing needs, versions what sharing needs, pins the rest.  Of what is left when all
 *  data are pinned, the pool and versions then get up to an eighth and a quarter of the memory, for jobs with
 *  pools of their own.  What even then is left is for decoded pictures, until data sets are added that pins
 *  can hold.  A part that the operator gives by itself stays as it is given.  Of little memory the pool and
 *  versions get less, down to what they cannot do without; that may be more than the memory.
 */
#ifndef MEMORY_PARTS_H
#define MEMORY_PARTS_H
#include <stdint.h>

//  Least of a part, if an eighth of the memory is as much.
enum { MEMORY_PARTS_LEAST = 16 * 1024 * 1024 };

typedef struct {
    uint64_t memory;                    //  to be divided
    uint64_t cache_given, raw_given;    //  0: by the rules
    uint64_t cache_least;               //  that the workers need
    uint64_t raw_least;                 //  that the packs' largest samples need
    uint64_t pack_bytes;                //  of the data sets that are packs
    uint64_t data_bytes;                //  of all data sets
    uint64_t pins_most;                 //  what pins of all these data take
} memory_parts_wanted_t;

typedef struct {
    uint64_t memory;                    //  that was divided
    uint64_t cache, raw, pins;          //  pins: decoded pictures included
    uint64_t pins_now;                  //  less than pins while this process may not use so much
    uint64_t pictures;                  //  of that, for decoded pictures, which the data sets decide
} memory_parts_t;

memory_parts_t memory_parts_divide (const memory_parts_wanted_t *wanted);
//  The least memory that can be divided: of less the pool and versions take more than there is.
uint64_t memory_parts_least (const memory_parts_wanted_t *wanted);
//  Of so much that this process may use at all (machine.h), what may be divided: the server itself needs an
//  eighth beside it.
uint64_t memory_parts_usable (uint64_t machine_bytes);
//  What pins leave to decoded pictures if those of all data sets take so much.
uint64_t memory_parts_pictures (const memory_parts_t *parts, uint64_t pins_most);
//  The pins when this process may use so much: less than at the start if what was divided is not there any
//  more.
uint64_t memory_parts_pins_now (const memory_parts_t *parts, uint64_t machine_bytes);

#endif
