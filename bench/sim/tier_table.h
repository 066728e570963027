/*  tier_table -- "your data, your memory: what you get": what an epoch reads of a pack or a folder with
 *  --memory for a part of it, simulated for some parts, one job and four.
 *
 *  The memory is divided as the server divides it (memory_parts.h).  Of a folder, or objects in a store, each
 *  sample is a read of its own.  At most TIER_TABLE_SAMPLES_MAX samples are simulated, with the same shares
 *  of memory.
 */
#ifndef TIER_TABLE_H
#define TIER_TABLE_H
#include "tier_options.h"

enum { TIER_TABLE_SAMPLES_MAX = 20000 };

//  Prints it, as a table or as JSON.  False: the data cannot be opened, and standard error says why.
bool tier_table_print (const tier_options_t *options);

#endif
