/*  tasks_scene -- the threads between the broker and the files, on a server without sockets: catalogue, pack,
 *  reader and decoder are made up, and fail when told.
 */
#ifndef TASKS_SCENE_H
#define TASKS_SCENE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "broker.h"
#include "dataset_source.h"
#include "layout.h"
#include "tasks.h"

enum { SAMPLES = 40 };

//  What fails how often; taken by several threads.
typedef struct {
    atomic_int shortages;           //  reads that find no descriptor
    atomic_int poor_ranges;         //  reads of a pack that find no memory
    atomic_int long_shortage;       //  reads of sample 5 that find no descriptor
    atomic_int poor_preparing;      //  shared stages that find no memory
    atomic_int poor_copies;         //  private stages
    atomic_bool shared_hang, private_hang;      //  stages, until they are abandoned
    atomic_int hanging;             //  that do now
    atomic_int stalls;              //  private stages that fail; below 0: for ever
    atomic_int stalled;             //  that have failed so
    atomic_int large_stages;        //  private stages that need large buffers
    atomic_int decoders;            //  that were made
    atomic_int large_buffers;       //  reads into a buffer that should have been given back
    int missing_mask;               //  id; -1: none
    int bad_mask;
    int other_mask;                 //  good, but not for this pipeline
    int changed;
    int damaged;                    //  in the pack
    bool volumes_fail;              //  every read of it
    jpeg_row_index_t *rows;         //  of images in files; NULL: they are not learned
    pictures_data_t *pictures;      //  of all files; NULL: none are kept
    atomic_int decoded;             //  files that came as pictures
    uint32_t edition;               //  of all files: another one, other bytes
    atomic_int joined_ranges;       //  of a pack, with several samples
    atomic_int told_rows;           //  shared stages that had their image's rows
    bool is_packed;
    bool is_kept;                   //  images alone, in files that the local disk has a copy of
    atomic_ullong lost;             //  of the copy, samples: a bit each
    atomic_ullong missing;          //  the same, and it is known
    atomic_bool copy_fails, copy_hangs;
    atomic_int own_files;           //  that were read beside it
    int64_t later_ms;               //  the time of tasks and broker is later than the clock's
    bool has_tenants;               //  the job is of tenant a; b may use the data too, and `secret` alone
    bool finds_nothing;             //  the decoder finds no rows
    atomic_int checksums;           //  of files
} tasks_scene_plan_t;

extern tasks_scene_plan_t tasks_scene_plan;
extern uint64_t tasks_scene_wait_ns, tasks_scene_slower;        //  of the next reader; of that after it, so
                                                                //  many times as much

typedef struct {
    broker_t *broker;
    tasks_t *tasks;
    dataset_source_t source;
    dataset_source_volume_t volume;
    device_t *devices [2];          //  of images and packs, of masks
    const pipeline_t *pipeline;
    layout_t layout;
    uint8_t *ring;
    tenant_t *tenants [2];          //  a and b, if the plan has them
    dataset_t *datasets [2];        //  `data`, and with tenants `secret`
    job_t *job;
    uint32_t order [SAMPLES];       //  of the pack
    bool seen [SAMPLES];
    size_t delivered;
    bool finished;
    char ended [400];               //  why, if the server ended it
} tasks_scene_t;

void tasks_scene_begin_over (tasks_scene_t *self, bool packed);
//  Over a folder that the local disk has a copy of.
void tasks_scene_begin_kept (tasks_scene_t *self);
void tasks_scene_begin (tasks_scene_t *self);
//  A further job, which never gets a batch.
job_t *tasks_scene_join (tasks_scene_t *self, tenant_t *tenant, dataset_t *dataset);
void tasks_scene_end (tasks_scene_t *self);
//  A teardown of each test: one that failed has not reset its plan, by which the next ones would hang.
int tasks_scene_forget (void **state);
//  False: nothing happened for so long.
bool tasks_scene_turn_for (tasks_scene_t *self, int wait_ms);
//  Until all samples have been sent, or the job is over.
void tasks_scene_run (tasks_scene_t *self);

#endif
