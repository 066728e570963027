/*  job_options -- what a loader asks for: the user's options, checked before anything is sent, and the JOIN
 *  that is made of them: the first one, and those that resume the job where a state says.
 *
 *  Owner: the thread that made it; any thread may read it.
 */
#ifndef JOB_OPTIONS_H
#define JOB_OPTIONS_H
#include <stddef.h>
#include <jansson.h>
#include "message.h"
#include "state.h"
#include "tureen.h"

typedef struct {
    uint32_t magic;
    uint32_t batch_size;
    tureen_order_t order;
    uint32_t pool;
    uint32_t world_size;                //  1: no ranks
    uint32_t rank;
    uint32_t nodes;                     //  1: not over several
    uint32_t node;
    tureen_parts_t parts;
    uint32_t gather_seconds;            //  0: not given
    int rank_wait_seconds;              //  likewise; below 0: none
    json_t *root;                       //  of the first JOIN, without ranks and frames
    uint64_t *list;                     //  options.ids; NULL: none
    size_t list_count;
    uint64_t *subset;                   //  pairs
    size_t subset_count;
    state_t *state;                     //  options.state, read; NULL: none.  With nodes its part is this
                                        //  node's: the state of a whole job is cut there
} job_options_t;

//  0 and *self_p; or -EINVAL (an option is unusable, or does not go with options.state: error names it and
//  what was expected) or -ENOMEM.  Keeps nothing of options.
int job_options_new (job_options_t **self_p, const tureen_options_t *options,
    message_error_t *error) TUREEN_CHECKED;
void job_options_destroy (job_options_t **self_p);

//  The frames of one JOIN, from frame 1 on: JSON, then ids.
typedef struct {
    message_frame_t frames [WIRE_FRAMES_MAX];
    size_t count;
} job_options_frames_t;
//  The parameters of one JOIN beside the options; all zero: the first one.
typedef struct {
    const state_t *from;                //  where the job resumes; NULL: at the beginning
    bool inlined;                       //  whatever the options say
    //  With ranks.
    const uint64_t *recent;             //  recent_steps.h; NULL: none
    size_t recent_count;
    uint32_t gather_seconds;            //  0: from the options
} job_options_resume_t;
//  0; or -ENOMEM, or -EINVAL with error filled (more ids than a message holds).
int job_options_make_join (const job_options_t *self, const job_options_resume_t *resume,
    job_options_frames_t *frames, message_error_t *error) TUREEN_CHECKED;
void job_options_frames_clear (job_options_frames_t *frames);

//  The constant part of this job's states, without the run: the rest is 0.  False: an old server that sent no
//  data digest, so the job cannot be resumed.
bool job_options_describe (const job_options_t *self, const tureen_info_t *info, state_t *state);

//  The part of a state with so many batches and this cut, of which it takes the words; none where the job is
//  not over nodes, or the epoch is not begun.
void job_options_set_part (const job_options_t *self, uint64_t batches, position_cut_t *cut,
    state_part_t *part);

#endif
