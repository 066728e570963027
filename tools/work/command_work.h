/*  command_work -- `tureen work`: lends this machine's processors to servers on others (docs/workers.md).  */
#ifndef COMMAND_WORK_H
#define COMMAND_WORK_H

//  argv [0] is "work".  Runs until a signal ends it.  Returns the exit status.
int command_work (int argc, char **argv);

#endif
