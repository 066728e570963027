/*  commands -- what the program runs for its first argument, beside what other folders have.
 *
 *  argv [0] is that argument.  Each returns the exit status, and says on standard error why it is not 0.
 */
#ifndef COMMANDS_H
#define COMMANDS_H

//  0; 1 no answer; 2 unusable arguments.
int command_status (int argc, char **argv);
//  0 the server drains, or with --wait has ended; 1 no answer, or it refuses; 2 unusable arguments.
int command_drain (int argc, char **argv);
//  0 done; 1 it could not be done; 2 unusable arguments.
int command_key (int argc, char **argv);
//  0; 1 at run time: no server, refused, server gone, output not written; 2 unusable arguments; or 128 + the
//  signal that ended it.  Handles SIGINT and SIGTERM from here on: call it once a process.
int command_read (int argc, char **argv);
//  0 all prepared; 1 some were not (each is named); 2 unusable arguments.
int command_prepare (int argc, char **argv);
//  0 clean; 1 faults; 2 unusable arguments or files.
int command_audit (int argc, char **argv);

#endif
