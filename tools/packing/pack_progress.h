/*  pack_progress -- how far `tureen pack` is, on standard error: one line that is drawn anew on a terminal,
 *  else a line now and then.
 */
#ifndef PACK_PROGRESS_H
#define PACK_PROGRESS_H
#include <stdbool.h>
#include "packing.h"

typedef struct {
    bool is_terminal;
    bool is_drawn;                      //  a line stands on the terminal
    int pass;                           //  the one that is told; 0: none yet
    double pass_began, told;            //  seconds
    uint64_t bytes_before;              //  of this pass, done when it was first told of: by an earlier run
} pack_progress_t;

pack_progress_t pack_progress_begin (void);
//  As packing_options_t.progress; cheap when there is nothing to tell yet.
void pack_progress_tell (pack_progress_t *self, const packing_progress_t *progress);
//  Takes the line away.
void pack_progress_end (pack_progress_t *self);

#endif
