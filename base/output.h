//  output -- standard output, for commands with an exit status that shows whether their output was written.
#ifndef OUTPUT_H
#define OUTPUT_H
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

//  Call this before anything is opened.  If a standard stream is closed, the next file or socket would take
//  its number, and printed text would go there.  Writing to what is put there instead fails.
static inline void
output_begin (void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl (fd, F_GETFD) < 0 && open ("/dev/null", O_RDONLY) < 0)
            return;
}

//  Writes what is still held back.  Returns status, but 1 (said on standard error) where that was 0 and not
//  all could be written.
static inline int
output_end (const char *command, int status)
{
    errno = 0;
    if ((fflush (stdout) == 0 && !ferror (stdout)) || status)
        return status;
    fprintf (stderr, "tureen %s: standard output: %s\n", command, errno? strerror (errno): "not written");
    return 1;
}

#endif
