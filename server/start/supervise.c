#include "supervise.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"

#define VARIABLE "TUREEN_SUPERVISED"    //  PARENT:RESTARTS

enum { NOT_STARTED = 127, TEXT_BYTES = 64 };

typedef struct {
    const supervise_options_t *options;
    sigset_t waited, before;    //  the signals that are waited for, and what was blocked before
    pid_t child;                //  0: there is none
    uint64_t restarts;
    int64_t began_ms, pause_ms;
    int passed;                 //  the last signal that asked for an end; 0: none
} supervise_t;

int64_t
supervise_pause_ms (int64_t first_ms, int64_t before_ms, int64_t lived_ms)
{
    if (before_ms == 0 || lived_ms >= SUPERVISE_GOOD_MS)
        return first_ms;
    return before_ms < SUPERVISE_PAUSE_MS_MAX / 2? 2 * before_ms: SUPERVISE_PAUSE_MS_MAX;
}

//  ---- the child

bool
supervise_is_child (uint64_t *restarts_p)
{
    long parent;
    const char *text = getenv (VARIABLE);
    *restarts_p = 0;
    //  What was inherited from further above is not meant.
    bool is_child = text && sscanf (text, "%ld:%" SCNu64, &parent, restarts_p) == 2
        && parent == (long) getppid ();
    unsetenv (VARIABLE);
    if (is_child)
        prctl (PR_SET_NAME, "tureen");          //  else it is called after the link that was executed
    return is_child;
}

static void
s_execute (const supervise_t *self, pid_t parent)
{
    //  A parent that died before this call will not die again: then it is no parent any more.
    if (prctl (PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid () != parent)
        _exit (NOT_STARTED);
    sigprocmask (SIG_SETMASK, &self->before, NULL);
    char text [TEXT_BYTES];
    snprintf (text, sizeof text, "%ld:%" PRIu64, (long) parent, self->restarts);
    if (setenv (VARIABLE, text, 1) == 0)
        execv (self->options->path? self->options->path: "/proc/self/exe", self->options->argv);
    fprintf (stderr, "tureen serve: cannot start itself again: %s\n", strerror (errno));
    _exit (NOT_STARTED);
}

static bool
s_start (supervise_t *self)
{
    pid_t parent = getpid ();
    self->began_ms = clock_now_ms ();
    self->child = fork ();
    if (self->child == 0)
        s_execute (self, parent);
    if (self->child > 0)
        return true;
    self->child = 0;
    return false;
}

//  ---- waiting

//  The next signal; 0: the time is over.  Below 0: there is no end of it.
static int
s_wait (const supervise_t *self, int64_t time_ms)
{
    struct timespec time = { .tv_sec = time_ms / 1000, .tv_nsec = time_ms % 1000 * 1000000 };
    int number;
    do
        number = time_ms < 0? sigwaitinfo (&self->waited, NULL): sigtimedwait (&self->waited, NULL, &time);
    while (number < 0 && errno == EINTR);
    return number < 0? 0: number;
}

//  True: the child has ended, with this status.  As the first process of a container it has others' children
//  too.
static bool
s_reap (supervise_t *self, int *status_p)
{
    int status;
    pid_t process;
    bool is_over = false;
    while ((process = waitpid (-1, &status, WNOHANG)) > 0)
        if (process == self->child) {
            *status_p = status;
            self->child = 0;
            is_over = true;
        }
    return is_over;
}

//  Until the child has ended; signals that ask for its end are passed on.
static int
s_attend (supervise_t *self)
{
    int status = 0;
    while (!s_reap (self, &status)) {
        int number = s_wait (self, -1);
        if (number > 0 && number != SIGCHLD) {
            self->passed = number;
            kill (self->child, number);
        }
    }
    return status;
}

//  Lets time pass; false: an end was asked for.
static bool
s_pause (supervise_t *self, int64_t pause_ms)
{
    int64_t until_ms = clock_now_ms () + pause_ms;
    for (int64_t left_ms = pause_ms; left_ms > 0; left_ms = until_ms - clock_now_ms ()) {
        int number = s_wait (self, left_ms);
        if (number == SIGCHLD)
            while (waitpid (-1, NULL, WNOHANG) > 0);
        else
        if (number > 0)
            return false;
    }
    return true;
}

//  ---- what came of it

//  Says why it is started again, and waits.  False: it is not.
static bool
s_again (supervise_t *self, int status)
{
    int number = WTERMSIG (status);
    int64_t lived_ms = clock_now_ms () - self->began_ms;
    self->pause_ms = supervise_pause_ms (self->options->pause_ms? self->options->pause_ms: SUPERVISE_PAUSE_MS,
        self->pause_ms, lived_ms);
    self->restarts++;
    log_event (self->options->log, LOG_LEVEL_ERROR, "restart",
        LOG_FIELDS (LOG_NUMBER ("signal", (uint64_t) number),
        LOG_NUMBER ("restarts", self->restarts)),
        "the server died of signal %d (%s%s) after %.1f s; it is started again in %.1f s, "
        "for the %" PRIu64 ". time", number, strsignal (number), WCOREDUMP (status)? ", core dumped": "",
        (double) lived_ms / 1000, (double) self->pause_ms / 1000, self->restarts);
    return s_pause (self, self->pause_ms);
}

//  It died while it was to end.
static int
s_ended (const supervise_t *self, int status)
{
    int number = WTERMSIG (status);
    if (number == self->passed)
        return 0;                               //  it had not even begun
    log_event (self->options->log, LOG_LEVEL_ERROR, "ended",
        LOG_FIELDS (LOG_NUMBER ("signal", (uint64_t) number)),
        "the server died of signal %d (%s) while it was ending", number, strsignal (number));
    return 1;
}

static int
s_run (supervise_t *self)
{
    while (s_start (self)) {
        int status = s_attend (self);
        if (WIFEXITED (status))
            return WEXITSTATUS (status);
        if (self->passed)
            return s_ended (self, status);
        if (!s_again (self, status))
            return 0;
    }
    fprintf (stderr, "tureen serve: cannot start a process for the server: %s\n", strerror (errno));
    return 1;
}

int
supervise_run (const supervise_options_t *options)
{
    assert (options && options->argv && options->log);
    supervise_t self = { .options = options };
    sigemptyset (&self.waited);
    sigaddset (&self.waited, SIGTERM);
    sigaddset (&self.waited, SIGINT);
    //  nohup: whoever has us ignore it wants that of us and of the child.
    struct sigaction hangup;
    if (sigaction (SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset (&self.waited, SIGHUP);
    sigaddset (&self.waited, SIGCHLD);
    signal (SIGCHLD, SIG_DFL);                  //  ignored, children would vanish without their status
    sigprocmask (SIG_BLOCK, &self.waited, &self.before);
    int status = s_run (&self);
    sigprocmask (SIG_SETMASK, &self.before, NULL);
    return status;
}
