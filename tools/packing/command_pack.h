/*  command_pack -- `tureen pack`: a folder, a list or tar files become a pack.  */
#ifndef COMMAND_PACK_H
#define COMMAND_PACK_H

//  Exit status: 0 packed, 1 it failed (said on standard error), 2 unusable arguments, 128 + N stopped by
//  signal N.
int command_pack (int argc, char **argv);

#endif
