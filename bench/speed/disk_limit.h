/*  disk_limit -- a control group that limits a process's memory, page cache included; of either version of
 *  cgroups.  */
#ifndef DISK_LIMIT_H
#define DISK_LIMIT_H
#include <stdbool.h>
#include <stdint.h>

typedef struct disk_limit disk_limit_t;

//  NULL: no group can be made here, *why_p (static) says why.
disk_limit_t *disk_limit_new (uint64_t limit_bytes, const char **why_p);
//  No process may be in it any more.
void disk_limit_destroy (disk_limit_t **self_p);
//  The calling process, with what it reads from now on.
bool disk_limit_enter (const disk_limit_t *self);

#endif
