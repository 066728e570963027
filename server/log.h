/*  log -- lines for the operator that never hold up the server.
 *
 *  A line goes out whole or not at all: where the descriptor takes no more (a pipe that nobody reads, a
 *  stopped terminal) it is dropped, and the next one that goes out says how many were lost. Owner: the
 *  broker's thread.
 */
#ifndef LOG_H
#define LOG_H
#include <stdint.h>

typedef struct {
    int descriptor;
    uint64_t lost;
} log_t;

enum { LOG_LINE_BYTES_MAX = 1024 };     //  less than PIPE_BUF, so that a pipe takes it at once

//  One line; the newline is added, control characters are shown as '?', what is too long is cut.
void log_line (log_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

#endif
