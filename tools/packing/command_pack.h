/*  command_pack -- `tureen pack`: a folder, a list or tar files become a pack.  */
#ifndef COMMAND_PACK_H
#define COMMAND_PACK_H
#include <stdbool.h>

//  Exit status: 0 packed, 1 it failed (said on standard error), 2 unusable arguments, 128 + N stopped by
//  signal N.
int command_pack (int argc, char **argv);
//  NAME=mask:FOLDER, NAME=image:FOLDER or NAME=file:FOLDER: ends the name in place.  False: it is none of
//  them.
bool command_pack_split_field (char *text, bool *is_mask_p, char **folder_p);

#endif
