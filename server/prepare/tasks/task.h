/*  task -- a worker's thread decodes a sample, or copies a version into its row of a batch: the task has all
 *  that this needs.
 *
 *  tasks.h is the broker's side: it fills tasks, hands them out, and takes them back.  A task and a range are
 *  a thread's from then until they come back, except where a member says otherwise.
 */
#ifndef TASK_H
#define TASK_H
#include <stdatomic.h>
#include "catalogue.h"
#include "dataset_source.h"
#include "device.h"
#include "jpeg_row_index.h"
#include "tasks.h"

enum {
    TASK_PATH_BYTES = 256, TASK_WHAT_BYTES = 256,
    TASK_REASON_BYTES = TASK_PATH_BYTES + PIPELINE_NAME_BYTES_MAX + TASK_WHAT_BYTES + 16
};

typedef enum { TASK_PREPARE, TASK_COPY, TASK_KINDS, TASK_SIDE_TASK = TASK_KINDS } task_kind_t;

//  What the user of a request is; the first member of each.
typedef enum { READS_OF_TASK, READS_OF_RANGE, READS_AHEAD } reads_of_t;

typedef struct task {
    reads_of_t reads_of;
    struct task *next;              //  free, or at rest
    int64_t due_ms;                 //  at rest: until then
    task_kind_t kind;
    const pipeline_t *pipeline;     //  one reference
    dataset_source_t *source;
    pipeline_key_t key;
    uint64_t worker_ns;             //  processor time that it has taken, of the worker's thread and of an
                                    //  operation of the operator's own
    //  prepare
    version_t *version;             //  the broker's; not looked at by threads
    uint8_t *memory;
    const uint8_t *packed;          //  of a pack: the sample's files, one after the other; NULL: they are
                                    //  read to buffers
    jpeg_row_index_entry_t *told;   //  of plain files: what is known of the first one's rows, lent
    jpeg_row_index_entry_t *learned;  //  what the worker has found out of them
    bool has_room;                  //  for more of them
    outcome_t outcome;
    char reason [TASK_REASON_BYTES];        //  unless it is ready
    reader_request_t requests [PIPELINE_FIELDS_MAX];    //  of plain files
    size_t unread;                  //  of them
    bool is_unread;                 //  reading met a shortage: the files are read again
    bool is_starved;                //  the worker met a shortage: the task is handed out again
    uint64_t accuser;               //  number of the worker on another machine that calls the sample bad, in
                                    //  words that reason has; 0: none does
    bool is_clipped;                //  it is ready, and decoder_clipped
    pictures_entry_t *lent [PIPELINE_FIELDS_MAX];       //  its files, decoded before; NULL: they were not
    bool keeps [PIPELINE_FIELDS_MAX];       //  the picture, if there is room for it
    pictures_entry_t *made [PIPELINE_FIELDS_MAX];       //  by the worker, meanwhile
    bool is_decoded;                //  one of its files is lent
    bool is_kept;                   //  the worker has decoded more than it needed
    bool is_custom;                 //  it is with an operation's threads, or rests between; the broker's
    bool is_slow;                   //  budget_prepares_slowly
    atomic_llong began_ms;          //  when a worker began it last; 0: none has
    atomic_bool is_running;         //  a worker has it now; began_ms is set before
    atomic_bool is_abandoned;       //  set by the broker's thread meanwhile: no job wants the result
    //  copy
    batch_row_t *row;               //  the broker's; not looked at by threads
    const uint8_t *prepared;
    size_t outputs;
    uint8_t *targets [LAYOUT_FIELDS_MAX];   //  the pipeline's outputs, then the labels
    side_task_t *side_task;
    //  kept from sample to sample
    catalogue_buffer_t buffers [PIPELINE_FIELDS_MAX];
} task_t;

//  Which thread has the samples of a range of a copy: the broker's thread and a reading thread change it.
typedef enum {
    RANGE_OUT,                      //  the read is under way
    RANGE_SPREAD,                   //  the reading thread's
    RANGE_LATE                      //  the disk does not answer: another range reads them
} range_state_t;

//  A read of a range of a pack, or of a copy; of a copy also of samples' own files.
typedef struct range {
    reads_of_t reads_of;
    struct range *next;             //  free, or at rest
    int64_t due_ms;                 //  at rest: until then
    reader_request_t request;
    raw_request_t *raw;
    dataset_source_t *source;       //  the thread uses its pack
    device_t *device;
    //  of a copy
    space_t *space;                 //  the source's; NULL: of a pack
    dataset_t *dataset;             //  held while the range is late
    bool is_out;                    //  of the copy, not of a file
    bool was_out;                   //  before its files, so that what it read may be pinned
    atomic_int state;               //  range_state_t
    uint64_t left;                  //  bit i: samples [i] is to be read from its own file,
    uint64_t wrong;                 //  and what the copy has of it is damaged
    uint32_t at;                    //  the sample that is being read so
    catalogue_buffer_t buffer;
    struct range *also;             //  made when there were too few
} range_t;

static inline uint32_t
task_id (const task_t *self)
{
    return (uint32_t) self->key.id;
}

//  The task's outcome, and as its reason the path of the file at fault, then what is wrong with it.
void task_blame (task_t *self, outcome_t outcome, size_t file, const char *what);
//  What is wrong with a sample's own file that could not be read.
void task_file_error (const dataset_source_t *source, size_t field, int rc, char what [TASK_WHAT_BYTES]);
//  Why the range could not be read: the volume, the offset and the error.
void task_blame_range (const range_t *self, char reason [TASK_REASON_BYTES]);
//  Appends to list what tasks_long_status says of the task, if it says anything.
void task_describe_long (const task_t *self, const broker_t *broker, const tenant_t *tenant, int64_t now_ms,
    json_t *list);
//  The task's files, as the decoder takes them; of a pack with the rows of the first one.
void task_files (const task_t *self, decoder_file_t files [PIPELINE_FIELDS_MAX]);
//  The pictures of its files that are in memory, and what is worth keeping.  Whether nothing is to be read.
bool task_lend_pictures (task_t *self, int64_t now_ms);
void task_release_pictures (task_t *self);
//  It is ready: notes what pictures have saved, or what they would.
void task_note_decoding (const task_t *self);
//  In the reading thread: copies the wanted parts of a range to its samples, and checks them.  The request's
//  user is the range.
void task_spread (void *context, reader_request_t *request);

//  For the pool of workers: carries out a task with the memory of one (decoder_worker_new).
void task_work (void *worker, void *task);

#endif
