/*  cluster_state -- the cluster's structure, and what its files share; for them alone.
 *
 *      cluster.c           life, status, giving
 *      peers.c             a reader's side: asking
 */
#ifndef CLUSTER_STATE_H
#define CLUSTER_STATE_H
#include <assert.h>
#include <pthread.h>
#include "cluster.h"
#include "peers.h"

enum { CLUSTER_MAGIC = 0x0c1057e6, CLUSTER_KEY_CHARS = 40 };

//  Questions that were put to a member, and what became of them.
typedef struct {
    uint64_t blocks, bytes, nanoseconds;        //  that it gave; from question to answer
    uint64_t refused [PEER_REASONS];
    uint64_t late;                  //  no answer in time
    uint64_t damaged;               //  the bytes did not match their checksum
    uint64_t slower;                //  not asked, since the store is much quicker
} peer_figures_t;

typedef enum { PEER_UNKNOWN, PEER_HERE, PEER_AWAY } peer_state_t;

typedef struct {
    cluster_data_t shown;
    exchange_t *fetches;            //  to the reader of its store; NULL: none reads it
    atomic_bool has_foreign;        //  there may be blocks here that have another home now: a full cache has
                                    //  room
} cluster_entry_t;

struct cluster {
    uint32_t magic;
    //  set before the first reader
    members_t *members;
    char name [MEMBERS_NAME_BYTES];
    char public_key [CLUSTER_KEY_CHARS + 1], secret_key [CLUSTER_KEY_CHARS + 1];        //  "": none
    cluster_entry_t *data;
    size_t data_count;
    //  set before the start
    peers_t **readers;
    size_t reader_count;
    exchange_t *fetched;            //  from readers, cluster_fetch_t
    struct peer_server *server;          //  NULL: not started
};

//  SIZE_MAX: none has this key.
static inline size_t
cluster_find (const cluster_t *self, const uint64_t key [2])
{
    for (size_t at = 0; at < self->data_count; at++) {
        const uint64_t *words = block_data_key (self->data [at].shown.blocks)->words;
        if (words [0] == key [0] && words [1] == key [1])
            return at;
    }
    return SIZE_MAX;
}

//  Any thread: the member with this name as the reader knows it; false: it does not.
bool peers_look (peers_t *self, const char *name, peer_state_t *state, peer_figures_t *figures);

#endif
