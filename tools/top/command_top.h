/*  command_top -- `tureen top`: a server, live, in a terminal.  */
#ifndef COMMAND_TOP_H
#define COMMAND_TOP_H

//  argv[0] is "top".  Returns the exit status.
int command_top (int argc, char **argv);

#endif
