/*  simulator_run -- a simulator of bench/sim as a command of its own, for tests.  */
#ifndef SIMULATOR_RUN_H
#define SIMULATOR_RUN_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

//  Its exit status, or -1: it was killed.  text: both streams, ended, as far as there is room.
static inline int
simulator_run (const char *name, const char *arguments, char *text, size_t room)
{
    enum { COMMAND_BYTES = 3000 };
    const char *folder = getenv ("TUREEN_BIN");
    assert_non_null (folder);
    char command [COMMAND_BYTES];
    int length = snprintf (command, sizeof command, "%s/%s %s 2>&1", folder, name, arguments);
    assert_true (length > 0 && length < (int) sizeof command);
    FILE *pipe = popen (command, "r");
    assert_non_null (pipe);
    size_t size = fread (text, 1, room - 1, pipe);
    text [size] = '\0';
    int status = pclose (pipe);
    return WIFEXITED (status)? WEXITSTATUS (status): -1;
}

#endif
