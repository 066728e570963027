/*  block_cache -- a folder of the local disk that keeps what servers have read of object stores.
 *
 *      DIR/usage           how many bytes all of it takes; its lock (flock) is held while that changes
 *      DIR/KEY/            one data set (block_data.h); KEY: 32 hexadecimal digits
 *          lock            servers that use the data set hold a shared lock; its time is that of the last use
 *          data            a sparse file: the data set's objects, one after the other, in units of 4 KiB
 *          sums            a head, then 4 bytes for each unit: 0, it is not here; else its checksum
 *
 *  happy path:     block_cache_open .. block_data_open, block_data_read, block_data_store ..
 *                  block_data_close .. block_cache_close
 *  failure modes:  a local disk that is full or fails (ENOSPC, EIO): nothing more is written, and what cannot
 *                  be read is not here; block_cache_figures has the error.  What is damaged is counted again
 *                  (usage) or is not here any more (the rest).  No failure here loses a sample.
 *                  A local disk that hangs, or answers late: see block_cache_open_by.
 *  The bound:      the blocks of all files and folders (st_blocks), and what the file system may still need
 *                  for their maps, never exceed bytes_max.  They are reserved before a write and measured
 *                  after it.  Everything is measured anew when a server opens the folder or a data set.
 *  What goes:      the cache is filled until it is full, and nothing of data in use is thrown out: with a
 *                  fresh shuffle each epoch no choice saves more reads.  A full cache removes data sets that
 *                  no server uses, as a whole, the one that was not used for longest first.
 *
 *  Servers of one user share a folder.  A server that is killed at any moment leaves it whole: a unit's bytes
 *  are written before its checksum, and the kernel gives up its locks.
 *  Any thread; several may use it at once.
 */
#ifndef BLOCK_CACHE_H
#define BLOCK_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct block_cache block_cache_t;
struct block_io;

enum { BLOCK_CACHE_LEAST_BYTES = 1024 * 1024 };

typedef struct {
    const char *folder;                 //  lent
    uint64_t bytes, bytes_max;          //  bytes: when this server read or wrote it last
    uint64_t damaged;                   //  records and units that were not as written, and were thrown away
    int failure;                        //  -errno: why nothing more is written; 0: it goes on
    bool is_open;                       //  false: the disk has not answered yet, or it cannot be opened
                                        //  (failure)
    uint64_t times_aside;               //  how often the disk did not answer, or too late
    bool is_aside;                      //  it is not asked now for this reason
} block_cache_figures_t;

//  Makes the folder if it is missing (0700).  bytes_max >= BLOCK_CACHE_LEAST_BYTES.  Removes what is beyond
//  that, as far as no server uses it.  0; or -errno, *self_p NULL and in error (always ended) what is wrong
//  and how to mend it.
int block_cache_open (block_cache_t **self_p, const char *folder, uint64_t bytes_max, char *error,
    size_t error_bytes);
//  The same by these threads (block_io.h), which the cache takes in any case.  They open, read and write it,
//  and callers do without it while the disk does not answer.  If it does not answer now: 0, and the cache is
//  aside; it is opened as soon as the disk answers, and if that fails, block_cache_figures has the error.
int block_cache_open_by (block_cache_t **self_p, struct block_io **io_p, const char *folder,
    uint64_t bytes_max, char *error, size_t error_bytes);
//  All data sets must be closed.  Waits for the disk.
void block_cache_close (block_cache_t **self_p);
//  Never waits for the disk.
block_cache_figures_t block_cache_figures (const block_cache_t *self);

#endif
