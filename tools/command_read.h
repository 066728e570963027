/*  command_read -- `tureen read`: takes a job's batches as a training job would, and says what that was like.
 *
 *  For trying a server out, for measuring, and for tests: --ids writes down which samples were delivered in
 *  which order.
 */
#ifndef COMMAND_READ_H
#define COMMAND_READ_H

//  argv [0] is "read".  The exit status: 0, 1 (at run time: no server, refused, server gone, output not
//  written), 2 (unusable arguments), or 128 + the signal that ended it.  Handles SIGINT and SIGTERM from here
//  on: call it once a process.
int command_read (int argc, char **argv);

#endif
