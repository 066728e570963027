/*  command_verify -- `tureen verify`: reads a whole pack back, names every damaged sample, and judges its
 *  order.  */
#ifndef COMMAND_VERIFY_H
#define COMMAND_VERIFY_H

//  argv[0] is "verify".  Exit status: 0 all whole and shuffled, 1 not (standard output says what), 2 unusable
//  arguments.
int command_verify (int argc, char **argv);

#endif
