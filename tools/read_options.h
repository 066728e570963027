/*  read_options -- the arguments of `tureen read`.  */
#ifndef READ_OPTIONS_H
#define READ_OPTIONS_H
#include <stdbool.h>
#include "tureen.h"

typedef struct read_options read_options_t;

//  The arguments after argv [0], their texts lent.  NULL: they are unusable, or there is no memory; it has
//  been said on standard error.
read_options_t *read_options_new (int argc, char **argv);
void read_options_destroy (read_options_t **self_p);

//  --help was asked for; then the rest says nothing.
bool read_options_help (const read_options_t *self);
//  For tureen_loader_new; lent.
const tureen_options_t *read_options_loader (const read_options_t *self);
//  Samples a second; 0: as fast as they come.
double read_options_rate (const read_options_t *self);
//  Where the ids go: NULL: nowhere, "-": standard output.
const char *read_options_ids_path (const read_options_t *self);
//  Where the state is, and after how many batches it is written; NULL: nowhere.
const char *read_options_state_path (const read_options_t *self);
uint64_t read_options_state_every (const read_options_t *self);
bool read_options_json (const read_options_t *self);

//  Says why tureen_loader_new did not take the options, calling them as the user does.
void read_options_explain (const read_options_t *self, const char *error);

#endif
