/*  reader_step -- a request to the file system as a row of operations: which is next, and what a result
 *  means.
 *
 *      a range     READ (until all is there)
 *      a file      OPEN, READ (until all is there; none for an empty file), CLOSE
 *      afresh      REOPEN before these
 *      kept        LOOK before these: on the local disk; none of these if all is there
 *      all pinned  none
 *
 *  reader.c carries the operations out.  Only where what was read is kept on the local disk, or given up
 *  there, are system calls made here that may wait for a disk.
 */
#ifndef READER_STEP_H
#define READER_STEP_H
#include <stdatomic.h>
#include "reader.h"

typedef enum { READER_LOOK, READER_REOPEN, READER_OPEN, READER_READ, READER_CLOSE } reader_step_t;

//  A file of ranges, or an object of a store.
typedef struct reader_file {
    int descriptor;                     //  -1: an object
    atomic_bool direct;
    atomic_uint align;                  //  what offsets and sizes of direct reads are multiples of: bytes, a
                                        //  power of two, at most READER_ALIGN_BYTES
    char *path;                         //  of an object: its URL
    uint64_t bytes, inode;              //  when it was opened
    char version [TRANSFER_VERSION_BYTES];      //  of an object
    reader_blocks_t blocks;             //  where its ranges are kept on the local disk
} reader_file_t;

//  The parameters of one read.
typedef struct {
    uint8_t *memory;
    uint32_t bytes;
    uint64_t offset;
} reader_read_t;

//  In all of these, file is the range's; NULL: the request is for a sample's file.

//  True: there is an operation to carry out; false: done, with rc.
bool reader_step_begin (reader_request_t *request, reader_file_t *file);
//  The operation under way, no LOOK, had this result, >= 0 or -errno.  True: there is another to carry out.
//  Every result of the ring and of a system call passes through here.
bool reader_step_advance (reader_request_t *request, reader_file_t *file, int result);
//  LOOK: the look in the request's progress has its answer.  As reader_step_begin.
bool reader_step_looked (reader_request_t *request, reader_file_t *file);
//  READ: what to read now.
reader_read_t reader_step_read (reader_request_t *request, const reader_file_t *file);
int reader_step_descriptor (const reader_request_t *request, const reader_file_t *file);
//  It is done: keeps what was read in memory and on the local disk, if that went well.
void reader_step_keep (reader_request_t *request, const reader_file_t *file);
//  OPEN: the file, below reader_step_root; path has PATH_MAX bytes.
void reader_step_path (const reader_request_t *request, char *path);
int reader_step_root (const reader_request_t *request);
//  REOPEN: what to open, and how; the path lives as long as the file or the catalogue.
const char *reader_step_again (const reader_request_t *request, const reader_file_t *file, int *flags_p);

#endif
