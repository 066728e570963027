/*  joining -- the frames of a JOIN, made from the user's options and checked before anything is sent.  */
#ifndef JOINING_H
#define JOINING_H
#include <stddef.h>
#include "message.h"
#include "tureen.h"

typedef struct joining joining_t;

//  0 and *self_p; or -EINVAL (an option is unusable: error names it and what was expected) or -ENOMEM.
//  Keeps nothing of options.
int joining_new (joining_t **self_p, const tureen_options_t *options, message_error_t *error) TUREEN_CHECKED;
void joining_destroy (joining_t **self_p);

//  The frames from frame 1 on: JSON, then ids.  Lent.
size_t joining_frame_count (const joining_t *self);
message_frame_t joining_frame (const joining_t *self, size_t index);
//  The batch size that was asked for.
uint32_t joining_batch_size (const joining_t *self);

#endif
