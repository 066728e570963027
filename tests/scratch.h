/*  scratch -- what tests that touch the system share: a directory of their own, a count of what is open, and
 *  system calls that fail when told to.
 *
 *  Faults: a test program wraps calls at link time (target_link_options (... -Wl,--wrap=read)) and defines
 *  the wrapper with FAULT_CALL.  fault_arm (n, error) lets the n-th wrapped call from now on fail, counted
 *  over all of them; a sweep arms 1, 2, 3 ... until fault_disarm says that the fault was not reached.
 */
#ifndef SCRATCH_H
#define SCRATCH_H
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    char path [64];
    size_t descriptors;             //  open when the test began
} scratch_folder_t;

//  Descriptors of this process.
static inline size_t
scratch_descriptors (void)
{
    size_t count = 0;
    DIR *directory = opendir ("/proc/self/fd");
    while (directory && readdir (directory))
        count++;
    if (directory)
        closedir (directory);
    return count;
}

//  A new directory, 0700.
static inline bool
scratch_begin (scratch_folder_t *self)
{
    strcpy (self->path, "/tmp/tureen-test-XXXXXX");
    self->descriptors = scratch_descriptors ();
    return mkdtemp (self->path) != NULL;
}

//  Removes the directory.  False: it could not be removed, or the test left descriptors open.
static inline bool
scratch_end (scratch_folder_t *self)
{
    pid_t child = fork ();          //  rm copes with trees deeper than any path
    if (child == 0) {
        execlp ("rm", "rm", "-rf", "--", self->path, (char *) NULL);
        _exit (127);
    }
    int status = -1;
    waitpid (child, &status, 0);
    return status == 0 && access (self->path, F_OK) != 0 && scratch_descriptors () == self->descriptors;
}

//  Entries in a directory, or -1.
static inline int
scratch_entries (const char *path)
{
    DIR *directory = opendir (path);
    if (!directory)
        return -1;
    int count = 0;
    struct dirent *item;
    while ((item = readdir (directory)))
        count += strcmp (item->d_name, ".") != 0 && strcmp (item->d_name, "..") != 0;
    closedir (directory);
    return count;
}

typedef struct {
    unsigned int countdown;         //  0: not armed, or struck
    int error;
    bool forever;                   //  every call from the n-th on fails
    bool struck;
} fault_t;

static fault_t fault;

static inline void
fault_arm (unsigned int nth, int error, bool forever)
{
    fault = (fault_t) { .countdown = nth, .error = error, .forever = forever };
}

//  True: the fault was reached.
static inline bool
fault_disarm (void)
{
    bool struck = fault.struck;
    fault = (fault_t) { 0 };
    return struck;
}

//  The reason in the sentence is one that a system gives: not that of 0 or of a negative number.
static inline bool
fault_has_words (const char *sentence)
{
    return !strstr (sentence, "Unknown error") && !strstr (sentence, strerror (0));
}

static inline bool
fault_strikes (void)
{
    if (fault.countdown == 0 && !(fault.struck && fault.forever))
        return false;
    if (fault.countdown && --fault.countdown)
        return false;
    fault.struck = true;
    errno = fault.error;
    return true;
}

//  FAULT_CALL (int, -1, listen, (int fd, int backlog), (fd, backlog))
#define FAULT_CALL(type, failure, name, parameters, arguments) \
    type __real_##name parameters; \
    type __wrap_##name parameters; \
    type __wrap_##name parameters \
    { \
        return fault_strikes ()? (failure): __real_##name arguments; \
    }

#endif
