/*  cluster_redox -- Redox's distributed protocol as published: homes, remote redirection, opportunistic
 *  prefetching, and a limit on what a node holds for others' homes.
 *
 *  Static, on every node: F files in chunks of K, C = ceil (F/K) chunks, M virtual chunks, N nodes.  File f
 *  has chunk c = f/K, offset o = f mod K, virtual chunk v = floor (c M/C), home v/(M/N).  An epoch is one
 *  permutation of the files, and node r asks for slice r of it.  Q (r, h) is the slice's files with home h.
 *
 *  Own home: the slot (v, o) is given, whichever file of v at offset o it holds.  An empty slot loads a chunk
 *  of v first: one with an unconsumed file at o, among these the one that fills most slots (or a random
 *  one), and every slot that is empty and lacks an unconsumed file of this chunk is filled.
 *
 *  Another's home: what a former answer brought for (v, o), else a request.  The answer to the request at
 *  place k of Q (r, h) has the content of (v, o), which may load a chunk, and of slots that are filled and
 *  that places k + 1 .. k + P - 1 of Q (r, h) will ask for, as far as the node has room for them.  The home
 *  remembers what it sent for which place, and sends for no slot twice until its place has passed.
 *
 *  What the paper leaves open, and what is done here:
 *    - nodes take turns, one file each, and an answer is there before the next turn;
 *    - slice r of F files is places ceil (r F/N) .. ceil ((r + 1) F/N) - 1;
 *    - the room of a request is the limit less what the node holds; the file asked for needs none;
 *    - offsets that a short last chunk lacks count as unconsumed in its score;
 *    - equals are chosen by one generator (published_random.h), which shuffles the epochs, too: the n-th of
 *      equals replaces the choice with probability 1/n, and the first takes no number.
 *  Owner: one thread.
 */
#ifndef CLUSTER_REDOX_H
#define CLUSTER_REDOX_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint32_t files;                 //  F
    uint32_t chunk;                 //  K
    uint32_t virtual_chunks;        //  M, a multiple of nodes, at most C
    uint32_t nodes;                 //  N
    uint32_t ahead;                 //  P; 0: no prefetching
    uint32_t held_max;              //  files that a node holds for itself of other homes; P > 0
    bool random_selection;          //  which chunk an empty slot loads
} cluster_redox_plan_t;

typedef struct {
    uint64_t loads;                 //  of chunks
    uint64_t remote;                //  requests between nodes
    uint64_t prefetched;            //  files that came with an answer before they were asked for
    uint32_t held_most;             //  by one node
} cluster_redox_epoch_t;

uint32_t cluster_redox_chunks (const cluster_redox_plan_t *plan);
//  results: of each epoch.
void cluster_redox_run (const cluster_redox_plan_t *plan, uint64_t seed, uint32_t epochs,
    cluster_redox_epoch_t *results);

#endif
