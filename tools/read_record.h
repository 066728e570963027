/*  read_record -- what `tureen read` writes down: the ids that were delivered (--ids), and the state to go on
 *  from (--state).
 *
 *  The ids of a batch are in their file before the next batch is asked for, and before a state says that it
 *  was had, then also on the disk.  So whatever fails, and whenever the process is killed or the machine
 *  crashes: a batch that the state counts is in the file of ids; one that it does not count comes again, and
 *  its ids are then taken back.
 *
 *  If the job has ranks, the ids are this rank's and the state is that of all of them.  Padding is not
 *  written.
 *
 *  Complains of what fails, on standard error.
 */
#ifndef READ_RECORD_H
#define READ_RECORD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tureen.h"

typedef struct read_record read_record_t;

//  Lent for the record's life.
typedef struct {
    const char *ids_path;               //  where the ids go; NULL: nowhere, "-": standard output
    const char *state_path;             //  NULL: nowhere
    uint64_t state_every;               //  after how many batches the state is written
    const uint64_t *list;               //  of order list; NULL: another order
    size_t list_count;
} read_record_options_t;

//  Opens the file of ids as it is, and reads the state where there is one.  NULL: it has been said.
read_record_t *read_record_new (const read_record_options_t *options);
//  Writes nothing more.
void read_record_destroy (read_record_t **self_p);

//  Where to go on, for options.state; lent, NULL: at the beginning.
const char *read_record_state (const read_record_t *self);

//  All of these: false, and the error has been said; the disk is then as described above.  The job is joined:
//  what an earlier run has left is overwritten only now, which also shows whether the state can be written.
bool read_record_begin (read_record_t *self, tureen_loader_t *loader);
bool read_record_batch (read_record_t *self, tureen_loader_t *loader, const tureen_batch_t *batch);
bool read_record_epoch_end (read_record_t *self, tureen_loader_t *loader);
//  In the middle of an epoch too.  Not after one of the others has failed.
bool read_record_end (read_record_t *self, tureen_loader_t *loader);

#endif
