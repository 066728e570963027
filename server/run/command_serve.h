//  command_serve -- `tureen serve`: opens the data sets, listens, and runs until SIGTERM, SIGINT or SIGHUP.
#ifndef COMMAND_SERVE_H
#define COMMAND_SERVE_H

//  argv[0] is "serve", and argv[-1] the program's name, as in main: with --supervise all of it is executed
//  again.  Exit status: 0 ended by a signal, until-idle or a drain, 1 could not start or continue (the reason
//  is on stderr), 2 unusable arguments.
int command_serve (int argc, char **argv);

#endif
