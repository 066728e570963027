/*  command_unpack -- `tureen unpack`: gives the files of a pack back, byte for byte, in their folders.  */
#ifndef COMMAND_UNPACK_H
#define COMMAND_UNPACK_H

//  argv[0] is "unpack".  Exit status: 0 all are back, 1 some are not (standard error names each), 2 unusable
//  arguments.
int command_unpack (int argc, char **argv);

#endif
