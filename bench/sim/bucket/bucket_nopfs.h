/*  bucket_nopfs -- the time model of NoPFS (Dryden and others 2021, sections 4 and 6), and the policies
 *  that its paper compares, on a virtual clock for each worker.
 *
 *  A worker's staging buffer is filled in the order of its stream by p_0 threads; sample f is there at
 *  avail (f) = sum of read / p_0, read = fetch + write, and not before it fits; it is taken at t (f) = max
 *  (avail (f), t (f-1) + s (f-1)/c).  A fetch is the quickest of: the shared file system, a peer's class,
 *  an own class; ties go to the own class, then to the peer.
 *
 *  What the paper leaves open, and what is done here:
 *    - the number of epochs is a parameter;
 *    - sizes are normal, drawn again if not positive, and scaled to their mean;
 *    - the file system is read by all N workers all the time; writing into a class costs nothing;
 *    - with `is_shared`, a worker's threads share its part t(g)/g of the file system, and the staging
 *      buffer's go first; without, as the formulas have it, each thread has t(g)/g;
 *    - DeepIO: memory only.  Ordered: the first to read a sample keeps it.  Opportunistic: a worker loads
 *      its part in the first epoch, then draws only from what some worker's memory holds;
 *    - parallel staging: a worker loads its part before it begins, and then draws from that part only;
 *    - LBANN: memory only; each sample once, at the worker that reads it first, or loaded before the
 *      begin;
 *    - locality-aware: memory and disk; a batch's samples go to the workers that hold them, up to equal
 *      parts;
 *    - NoPFS: a class has a prefetcher that fetches in the order of first use; what the staging buffer
 *      fetches first is kept at once.  A peer counts as ready when its own prefetcher has passed the
 *      sample.
 *  Owner: one thread.
 */
#ifndef BUCKET_NOPFS_H
#define BUCKET_NOPFS_H
#include <stdbool.h>
#include <stdint.h>

enum { BUCKET_NOPFS_CLASSES = 3, BUCKET_NOPFS_RATES = 4, BUCKET_NOPFS_WORKERS_MAX = 64 };

typedef enum {
    BUCKET_PERFECT, BUCKET_NAIVE, BUCKET_STAGING, BUCKET_DEEPIO_ORDERED, BUCKET_DEEPIO_OPPORTUNISTIC,
    BUCKET_PARALLEL, BUCKET_LBANN_DYNAMIC, BUCKET_LBANN_PRELOAD, BUCKET_LOCALITY, BUCKET_FREQUENCY,
    BUCKET_POLICIES
} bucket_policy_t;

typedef struct {
    const char *name;
    double mean, deviation;         //  of a sample's size, MB
    uint32_t samples, workers, batch;           //  batch: of a worker
} bucket_nopfs_data_t;

//  MB and MB/s.  Class 0 is the staging buffer.
typedef struct {
    double compute, preprocess, network;
    double capacity [BUCKET_NOPFS_CLASSES], rate [BUCKET_NOPFS_CLASSES];
    uint32_t threads [BUCKET_NOPFS_CLASSES];
    double shared [BUCKET_NOPFS_RATES];         //  the file system's with 1, 2, 4, 8 readers
    bool is_shared;
} bucket_nopfs_machine_t;

typedef struct {
    bucket_nopfs_data_t data;
    bucket_nopfs_machine_t machine;
    bucket_policy_t policy;
    uint32_t epochs;
    double scale;                   //  samples and capacities are divided by it
} bucket_nopfs_plan_t;

typedef struct {
    bool is_possible;               //  false: the policy cannot hold the data; nothing else is set
    double seconds;                 //  of the slowest worker, of the scaled data
    double shared_bytes, peer_bytes, own_bytes; //  MB that were fetched, by source
    double seen, seen_by_worker;    //  share of the samples: that some worker used; that one used, a mean
} bucket_nopfs_result_t;

//  The machine of the paper's simulations.
bucket_nopfs_machine_t bucket_nopfs_machine (void);
const char *bucket_nopfs_name (bucket_policy_t policy);
bucket_nopfs_result_t bucket_nopfs_run (const bucket_nopfs_plan_t *plan, uint64_t seed);

#endif
