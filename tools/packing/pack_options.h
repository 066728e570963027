/*  pack_options -- the arguments of `tureen pack`.  */
#ifndef PACK_OPTIONS_H
#define PACK_OPTIONS_H
#include <stdbool.h>
#include "packing.h"

typedef struct {
    packing_options_t packing;              //  without functions and context; texts are lent from argv
    catalogue_field_t fields [CATALOGUE_FIELDS_MAX];
    uint32_t workers;                       //  that tile; 0: as many as there are processors
    bool originals;                         //  is in packing.tile, too
    bool quiet;
    bool json;
    bool help;                              //  then the rest says nothing
} pack_options_t;

//  False: said on standard error what is wrong.
bool pack_options_parse (pack_options_t *self, int argc, char **argv);

#endif
