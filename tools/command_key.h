/*  command_key -- `tureen key`: makes keys, and lists the clients that a server admits (keys.h).  */
#ifndef COMMAND_KEY_H
#define COMMAND_KEY_H

//  argv[0] is "key".  Exit status: 0 done, 1 it could not be done (standard error says why), 2 unusable
//  arguments.
int command_key (int argc, char **argv);

#endif
