/*  job_options -- what a loader asks for: the user's options, checked before anything is sent, and the JOIN
 *  that is made of them: the first one, and those that resume the job where a state says.
 *
 *  Owner: the thread that made it; any thread may read it.
 */
#ifndef JOB_OPTIONS_H
#define JOB_OPTIONS_H
#include <stddef.h>
#include "message.h"
#include "state.h"
#include "tureen.h"

typedef struct job_options job_options_t;

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

//  The requested batch size.
uint32_t job_options_batch_size (const job_options_t *self);
//  1: no ranks.
uint32_t job_options_world_size (const job_options_t *self);
uint32_t job_options_rank (const job_options_t *self);
//  1: the job is not over several nodes.
uint32_t job_options_nodes (const job_options_t *self);
uint32_t job_options_node (const job_options_t *self);
//  The part of a state with so many batches and this cut, of which it takes the words; none where the job is
//  not over nodes, or the epoch is not begun.
void job_options_set_part (const job_options_t *self, uint64_t batches, position_cut_t *cut,
    state_part_t *part);
//  options.ids; NULL: none.
const uint64_t *job_options_list (const job_options_t *self, size_t *count_p);
//  options.state, read; NULL: none.  With nodes its part is this node's: the state of a whole job is cut
//  there.
const state_t *job_options_state (const job_options_t *self);

#endif
