/*  input -- a file that a user names is opened for reading, without waiting for whatever it may be instead.
 *
 *  A regular file; or a pipe that is open already and has no name, as the shell's <(COMMAND) gives one.  A
 *  fifo, a device and a socket are none.
 */
#ifndef INPUT_H
#define INPUT_H
#include <stdio.h>

//  A descriptor that waits for what is read, close-on-exec; or -errno, -EINVAL where it is no regular file.
int input_open (const char *path);
//  The same as a stream; NULL with errno.
FILE *input_stream (const char *path);
//  The whole file, malloc'ed, with a zero behind it that does not count.  0; or -errno, -EFBIG with more than
//  bytes_max.
int input_whole (const char *path, size_t bytes_max, char **bytes_p, size_t *size_p);
//  What -errno or errno of these means: "is no regular file", or what the system says.
const char *input_error (int error);

#endif
