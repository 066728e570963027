/*  command_status -- `tureen status`: the data sets and jobs of a running server, and how much it shared.  */
#ifndef COMMAND_STATUS_H
#define COMMAND_STATUS_H

//  argv[0] is "status".  Exit status: 0, 1 no answer (why is on stderr), 2 unusable arguments.
int command_status (int argc, char **argv);

#endif
