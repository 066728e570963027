/*  loading -- what the tests of the loader share: joining a fake server, taking a batch, reading all of them.
 */
#ifndef LOADING_H
#define LOADING_H
#include <stdint.h>
#include "fake_server.h"
#include "tureen.h"

//  Why the last one could not join.
extern char loading_error [TUREEN_ERROR_BYTES];

//  What is not said: `train`, batches of 4, no joining again.  NULL: it could not join.
tureen_loader_t *loading_join (fake_server_t *fake, tureen_options_t options);
tureen_batch_t *loading_next_batch (tureen_loader_t *loader);
//  Reads everything, in batches of 4, and checks order, bytes and ends.
void loading_read_all (fake_server_t *fake, tureen_loader_t *loader, uint64_t samples, uint64_t epochs);

#endif
