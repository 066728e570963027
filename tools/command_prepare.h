/*  command_prepare -- `tureen prepare`: runs a pipeline on files, by the server's own code, and writes or
 *  times the result.  */
#ifndef COMMAND_PREPARE_H
#define COMMAND_PREPARE_H

//  argv[0] is "prepare".  Exit status: 0 all prepared, 1 some were not (standard error names each), 2
//  unusable arguments.
int command_prepare (int argc, char **argv);

#endif
