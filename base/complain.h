/*  complain -- how a command says on standard error what is wrong.  */
#ifndef COMPLAIN_H
#define COMPLAIN_H
#include <getopt.h>
#include <stdbool.h>

//  "tureen COMMAND: ", the text, a new line; returns false.
bool complain (const char *command, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
//  Says what is wrong with the option that getopt_long, with opterr 0 and an optstring that begins with ':',
//  has just answered ':' or '?' to; options is what it was given.  Of an unknown one it names the nearest
//  that there is.  Returns false.
bool complain_of_option (const char *command, char **argv, const struct option *options, int answer);
//  Says what the client library found wrong with what it was given, and calls the keys as the user of a
//  command does:
//  "options.server_key: ..." is "--server-key: ..." to them.  Returns false.
bool complain_of_options (const char *command, const char *error);

#endif
