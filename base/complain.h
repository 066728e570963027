/*  complain -- how a command says on standard error what is wrong.  */
#ifndef COMPLAIN_H
#define COMPLAIN_H
#include <stdbool.h>

//  "tureen COMMAND: ", the text, a new line; returns false.
bool complain (const char *command, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
//  Says what the client library found wrong with what it was given, and calls the keys as the user of a
//  command does:
//  "options.server_key: ..." is "--server-key: ..." to them.  Returns false.
bool complain_of_options (const char *command, const char *error);

#endif
