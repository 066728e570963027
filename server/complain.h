/*  complain -- how a command says on standard error what is wrong.  */
#ifndef COMPLAIN_H
#define COMPLAIN_H
#include <stdbool.h>

//  "tureen COMMAND: ", the text, a new line; returns false.
bool complain (const char *command, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

#endif
