/*  pack_options -- the arguments of `tureen pack`.  */
#ifndef PACK_OPTIONS_H
#define PACK_OPTIONS_H
#include <stdbool.h>
#include "packing.h"

typedef struct {
    packing_options_t packing;              //  without functions and context; texts are lent from argv
    catalogue_field_t fields [CATALOGUE_FIELDS_MAX];
    const char *work;                       //  NULL: not given
    char *classes;                          //  what the file of --classes has; NULL: not given
    uint32_t patience;                      //  seconds
    bool quiet;
    bool json;
    bool no_rows;
} pack_options_t;

//  -1: go on; else the exit status: help was printed, or standard error says what is wrong.  In either case
//  self->classes is to be freed.
int pack_options_parse (pack_options_t *self, int argc, char **argv);
//  Whether a source or a field of it is in an object store or on a web server.
bool pack_options_has_stores (const pack_options_t *self);
//  NAME=mask:FOLDER, NAME=image:FOLDER or NAME=file:FOLDER: ends the name in place.  False: it is none of
//  them.
bool pack_options_split_field (char *text, bool *is_mask_p, char **folder_p);

#endif
