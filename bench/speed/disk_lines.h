/*  disk_lines -- what disk_bench measures: a list of lines, each measured once in every round.
 *
 *  In a round all lines take their turns, so that what changes on the machine meanwhile changes all of them.
 *  Figures are medians over rounds.  A packed line's reference is the fastest sequential line, or where no
 *  random reads of its piece come to NEAR of that, the fastest of those; its ratio is the median of the
 *  rounds' ratios.
 */
#ifndef DISK_LINES_H
#define DISK_LINES_H
#include "cost.h"
#include "disk_device.h"
#include "disk_packed.h"

enum { DISK_LINES_MAX = 64, DISK_NAME_BYTES = 64 };

typedef enum {
    DISK_SEQUENTIAL,                    //  the volumes from end to end
    DISK_PIECES,                        //  pieces in random order; pieces of 1: single samples
    DISK_PACKED,                        //  through raw pool, reading thread and checksums
    DISK_SERVED,                        //  through a server and a job
    DISK_PLAIN_COLD, DISK_PLAIN_WARM,
    DISK_PLAIN_LIMITED,                 //  a second pass with so much page cache
    DISK_KINDS
} disk_kind_t;

typedef struct {
    disk_kind_t kind;
    char name [DISK_NAME_BYTES];
    uint32_t depth;                     //  device lines; 0: the model's
    uint32_t request_bytes;             //  DISK_SEQUENTIAL
    uint32_t piece;                     //  DISK_PIECES, DISK_PACKED
    uint32_t memory;                    //  per cent of the data; 0: no limit
    uint64_t limit_bytes;
    double values [DISK_ROUNDS_MAX];    //  bytes a second
    size_t count;
    const char *missing;                //  why it was not measured (static); NULL: it was
    disk_packed_notes_t notes;
} disk_line_t;

typedef struct {
    const disk_options_t *options;
    const disk_data_t *data;
    disk_device_t *device;
    cost_t cost;                        //  goes on learning
    cost_t probed, learnt;              //  as it was probed; after a first pass, from which pieces follow
    disk_line_t lines [DISK_LINES_MAX];
    size_t count;
    uint32_t cold_files;                //  files that the round's cold line came to
} disk_lines_t;

const char *disk_kind_name (disk_kind_t kind);

//  False: why was said; disk_lines_close is to be called all the same.
bool disk_lines_open (disk_lines_t *self, const disk_data_t *data, const disk_options_t *options);
void disk_lines_close (disk_lines_t *self);
//  All rounds.  False: something failed, and it was said; or stopped.
bool disk_lines_measure (disk_lines_t *self, bool (*stopped) (void *context));

//  NAN: not measured.
double disk_line_median (const disk_line_t *line);
//  The line with the highest median of its kind (DISK_PIECES: of that piece); NULL: none.
const disk_line_t *disk_lines_best (const disk_lines_t *self, disk_kind_t kind, uint32_t piece);
const disk_line_t *disk_lines_reference (const disk_lines_t *self, const disk_line_t *line);
double disk_line_ratio (const disk_line_t *line, const disk_line_t *reference);

#endif
