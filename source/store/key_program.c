#include "key_program.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"

enum { LOOK_MS = 100, SAID_BYTES = 400 };

typedef struct {
    pid_t process;
    int output, errors;                 //  what is read; -1: at its end
    int64_t until_ms;
    const atomic_bool *is_stopped;
    char said [SAID_BYTES + 1];         //  the last of its standard error
    size_t said_bytes;
} program_t;


//  -- its start

//  With signals as a program expects them, and no descriptor but the three.
static int
s_spawn (program_t *self, const char *command, int output, int errors)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, ordinary;
    sigemptyset (&none);
    sigfillset (&ordinary);
    posix_spawn_file_actions_init (&actions);
    posix_spawnattr_init (&attributes);
    posix_spawnattr_setsigmask (&attributes, &none);
    posix_spawnattr_setsigdefault (&attributes, &ordinary);
    posix_spawnattr_setflags (&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        | POSIX_SPAWN_SETPGROUP);
    int rc = posix_spawn_file_actions_addopen (&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    rc = rc? rc: posix_spawn_file_actions_adddup2 (&actions, output, STDOUT_FILENO);
    rc = rc? rc: posix_spawn_file_actions_adddup2 (&actions, errors, STDERR_FILENO);
    rc = rc? rc: posix_spawn_file_actions_addclosefrom_np (&actions, STDERR_FILENO + 1);
    char *const words [] = { "sh", "-c", (char *) command, NULL };
    rc = rc? rc: posix_spawn (&self->process, "/bin/sh", &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy (&actions);
    posix_spawnattr_destroy (&attributes);
    return -rc;
}

static int
s_start (program_t *self, const char *command)
{
    int output [2] = { -1, -1 }, errors [2] = { -1, -1 };
    int rc = pipe2 (output, O_CLOEXEC) || pipe2 (errors, O_CLOEXEC)? -errno: 0;
    rc = rc? rc: s_spawn (self, command, output [1], errors [1]);
    for (int end = 0; end < 2; end++) {
        if (output [end] >= 0 && (end == 1 || rc))
            close (output [end]);
        if (errors [end] >= 0 && (end == 1 || rc))
            close (errors [end]);
    }
    self->output = rc? -1: output [0];
    self->errors = rc? -1: errors [0];
    return rc;
}


//  -- what it says

//  Bytes; 0: the end, or nothing now.
static size_t
s_read (int *descriptor, char *target, size_t bytes)
{
    ssize_t got = read (*descriptor, target, bytes);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
        close (*descriptor);
        *descriptor = -1;
    }
    return got > 0? (size_t) got: 0;
}

static void
s_hear (program_t *self)
{
    if (self->said_bytes == SAID_BYTES) {
        self->said_bytes /= 2;
        memmove (self->said, self->said + self->said_bytes, self->said_bytes);
    }
    self->said_bytes += s_read (&self->errors, self->said + self->said_bytes,
        SAID_BYTES - self->said_bytes);
}

//  Its last line with something in it, in characters that a log can have; "": none.
static const char *
s_last_line (program_t *self)
{
    size_t end = self->said_bytes;
    while (end > 0 && isspace ((unsigned char) self->said [end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && self->said [begin - 1] != '\n')
        begin--;
    for (size_t at = begin; at < end; at++)
        if (self->said [at] < ' ' || self->said [at] > '~')
            self->said [at] = '?';
    self->said [end] = 0;
    return self->said + begin;
}

static int
s_look (const program_t *self)
{
    return *self->is_stopped? -ECANCELED: clock_now_ms () >= self->until_ms? -ETIMEDOUT: 0;
}

//  Until both ends are closed.
static int
s_listen (program_t *self, char *output, size_t output_bytes, size_t *used_p)
{
    int rc;
    while ((rc = s_look (self)) == 0 && (self->output >= 0 || self->errors >= 0)) {
        struct pollfd polled [2] = { { .fd = self->output, .events = POLLIN },
            { .fd = self->errors, .events = POLLIN } };
        if (poll (polled, 2, LOOK_MS) <= 0)
            continue;
        char more;
        if (polled [0].revents && *used_p < output_bytes)
            *used_p += s_read (&self->output, output + *used_p, output_bytes - *used_p);
        else
        if (polled [0].revents && s_read (&self->output, &more, 1) > 0)
            return -EBADMSG;
        if (polled [1].revents)
            s_hear (self);
    }
    return rc;
}

//  Its status when it has ended; it is killed if rc says so, or if it does not end.
static int
s_await (program_t *self, int rc, int *status_p)
{
    pid_t ended = 0;
    while (rc == 0 && (ended = waitpid (self->process, status_p, WNOHANG)) == 0
    &&  (rc = s_look (self)) == 0)
        nanosleep (&(struct timespec) { .tv_nsec = LOOK_MS * 1000000L / 10 }, NULL);
    if (ended == 0) {
        kill (-self->process, SIGKILL);
        while (waitpid (self->process, status_p, 0) < 0 && errno == EINTR) {}
    }
    return rc;
}

static void
s_say (program_t *self, int rc, int status, int64_t limit_ms, char *what, size_t what_bytes)
{
    const char *line = s_last_line (self);
    if (rc == -EKEYREJECTED && WIFEXITED (status))
        snprintf (what, what_bytes, "it ended with status %d%s%s", WEXITSTATUS (status), *line? ": ": "",
            line);
    else
    if (rc == -EKEYREJECTED)
        snprintf (what, what_bytes, "signal %d ended it%s%s", WTERMSIG (status), *line? ": ": "", line);
    else
    if (rc == -ETIMEDOUT)
        snprintf (what, what_bytes, "it took more than %d s%s%s", (int) (limit_ms / 1000), *line? ": ": "",
            line);
    else
        snprintf (what, what_bytes, "%s", rc == -EBADMSG? "it printed more than keys": strerror (-rc));
}

int
key_program_run (const char *command, const atomic_bool *is_stopped, int64_t limit_ms, char *output,
    size_t output_bytes, size_t *used_p, char *what, size_t what_bytes)
{
    assert (command); assert (is_stopped); assert (output && used_p); assert (what && what_bytes > 0);
    program_t self = { .until_ms = clock_now_ms () + limit_ms, .is_stopped = is_stopped };
    int status = 0, rc = s_start (&self, command);
    *used_p = 0;
    what [0] = 0;
    if (rc == 0) {
        rc = s_listen (&self, output, output_bytes, used_p);
        rc = s_await (&self, rc, &status);
        if (self.output >= 0)
            close (self.output);
        if (self.errors >= 0)
            close (self.errors);
        if (rc == 0 && status != 0)
            rc = -EKEYREJECTED;
    }
    if (rc)
        s_say (&self, rc, status, limit_ms, what, what_bytes);
    return rc;
}
