/*  cluster -- this server among those that keep blocks of stores for each other (docs/cluster_cache.md).
 *
 *  Each block of a data set's address space (block_data.h) has one home among the members (homes.h).  A
 *  reader (peers.h) that needs a block asks its home.  The home's peer server (cluster.c) gives it from
 *  the cache on its local disk, or has its own reader fetch it from the store first, once for all.  Here is
 *  what the peer server and the readers of one server share: the members, the data sets, the keys.
 *
 *  happy path:     cluster_new .. cluster_add .. peers_new, by each store's reader .. cluster_start ..
 *                  cluster_stop .. peers_destroy .. cluster_destroy
 *  failure modes:  none to a job: what no peer gives comes from the store.
 *
 *  Threads: one makes and ends it; what readers call is said there.
 */
#ifndef CLUSTER_H
#define CLUSTER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "block_data.h"
#include "exchange.h"
#include "members.h"
#include "peer_wire.h"

struct catalogue;
typedef struct cluster cluster_t;

//  A pack, or a field of single objects.
typedef struct {
    const block_data_t *blocks;     //  where it is kept here; lent; its key tells members which data it is
    const char *store;              //  store_name, lent: the reader that fetches it
    uint64_t objects;               //  how many; an object's number is below
    //  Where the object begins in the address space, and its size.  Any thread.
    void (*find) (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes);
    const void *context;
    uint32_t first_file;            //  of a pack: the reader's number of the first volume; the others follow
    const struct catalogue *catalogue;          //  of single objects; NULL: a pack
    size_t field;
} cluster_data_t;

typedef struct {
    members_t *members;             //  lent
    const char *name;               //  HOST:PORT of this server; lent for the call
    const char *public_key, *secret_key;        //  Z85, of all members; lent for the call; NULL: no
                                                //  encryption, and only this machine's own members
} cluster_options_t;

enum { CLUSTER_FETCHES_MAX = 16 };      //  at once

//  What the peer server asks of a reader: all of the range, as the home of its block.
typedef struct cluster_fetch {
    const cluster_data_t *data;
    uint64_t object, offset;
    size_t bytes;
    uint8_t *memory;
    peer_reason_t reason;           //  PEER_REASON_NONE: the bytes are there
    void *user;                     //  the peer server's
} cluster_fetch_t;

//  NULL: no memory.
cluster_t *cluster_new (const cluster_options_t *options);
void cluster_destroy (cluster_t **self_p);
//  All before the first reader.  False: no memory.
bool cluster_add (cluster_t *self, const cluster_data_t *data);
//  Starts the peer server: 0; or -errno, and in error what is wrong and how to mend it.
int cluster_start (cluster_t *self, char *error, size_t error_bytes);
//  No peer is given anything any more.  Before the readers end.
void cluster_stop (cluster_t *self);
//  What `status` shows of it.
json_t *cluster_status (cluster_t *self);

#endif
