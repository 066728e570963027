/*  command_drain -- `tureen drain`: a running server takes no new jobs, lets each job end its epoch, and
 *  ends.  */
#ifndef COMMAND_DRAIN_H
#define COMMAND_DRAIN_H

//  argv[0] is "drain".  Exit status: 0 the server drains, or with --wait has ended; 1 no answer, or it
//  refuses (why is on stderr);
//  2 unusable arguments.
int command_drain (int argc, char **argv);

#endif
