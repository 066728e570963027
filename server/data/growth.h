/*  growth -- looks from time to time whether all of a folder has come to be kept on the local disk, and has
 *  it read in pieces then (pieces.h); and says so if data cannot be kept there after all, since the disk
 *  answered only after the start.
 *
 *  happy path:     growth_act .. a thread looks at what is kept, and measures the disk .. growth_act: the
 *                  broker reads pieces
 *  failure modes:  what is missing, or cannot be opened, is looked for again later, while more is kept.
 *
 *  Owner: the broker's thread.
 */
#ifndef GROWTH_H
#define GROWTH_H
#include "log.h"
#include "served.h"

typedef struct growth growth_t;

//  sets and log are lent.  NULL: no memory.
growth_t *growth_new (served_sets_t *sets, log_t *log);
//  Waits for the thread.  Before tasks_destroy and served_close.
void growth_destroy (growth_t **self_p);
//  Call it every second.
void growth_act (growth_t *self, int64_t now_ms);

#endif
