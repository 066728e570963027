/*  complain -- what a command says on standard error: what is wrong, and that its output was not written.  */
#ifndef COMPLAIN_H
#define COMPLAIN_H
#include <stdbool.h>

//  Call this before anything is opened.  If a standard stream is closed, the next file or socket would take
//  its number, and printed text would go there.  Writing to what is put there instead fails.
void complain_begin (void);

//  "tureen COMMAND: ", the text, a new line; returns false.
bool complain (const char *command, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
//  Says what the client library found wrong with what it was given, and calls the keys as the user of a
//  command does: "options.server_key: ..." is "--server-key: ..." to them.  Returns false.
bool complain_of_options (const char *command, const char *error);
//  Writes what standard output still holds back.  Returns the exit status of the command: status, but 1 where
//  that was 0 and not all could be written, which is said.
int complain_of_output (const char *command, int status);

#endif
