/*  tar_shards -- the tar files of a source: on this machine, in object stores and on web servers.
 *
 *  Addresses (s3://, http://, https://) may have counting braces, since no shell expands them there:
 *  s3://bucket/train-{000..099}.tar stands for a hundred, in that order.  Both numbers are decimal, the
 *  smaller one first; if one of them begins with a zero, all have as many digits as the longer one.
 *
 *  "-" is standard input, read once: of it nothing is known before.
 *
 *  Owner: one thread; blocks for as long as disks and stores do.
 */
#ifndef TAR_SHARDS_H
#define TAR_SHARDS_H
#include <time.h>
#include "pack_source.h"
#include "store.h"

enum { TAR_SHARDS_MAX = 1000000 };

typedef struct {
    char *path;                         //  or address
    uint64_t bytes;
    struct timespec changed;            //  of a file
    bool is_input;                      //  standard input
    store_t *store;                     //  NULL: a file, or standard input.  Lent
    char *url;
    char version [TRANSFER_VERSION_BYTES];      //  "": it has none
} tar_shard_t;

typedef struct {
    tar_shard_t *list;                  //  in the order of the paths
    size_t count, limit;
    uint64_t bytes;                     //  of all
    store_t **stores;
    size_t store_count;
} tar_shards_t;

//  Expands the paths and looks at each file and object: is it there, how large is it.  0 and the caller
//  clears it; or -errno with a sentence, and it is cleared.
int tar_shards_find (tar_shards_t *self, const pack_source_options_t *options, char *error);
void tar_shards_clear (tar_shards_t *self);
//  Of a file: "cannot read 'x.tar' (why): remedy"; returns rc.
int tar_shards_fail_open (const char *path, int rc, char *error);
//  32 digits, which change when the list of archives changes, or one of them is written to, or other members
//  become images or masks.  0 or -ENOMEM.
int tar_shards_sign (const tar_shards_t *self, const pack_source_options_t *options, char signature [33]);

#endif
