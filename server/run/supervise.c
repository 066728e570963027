#include "supervise.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
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

#define VARIABLE "TUREEN_SUPERVISED"    //  PARENT:RESTARTS:DESCRIPTOR

enum { NOT_STARTED = 127, TEXT_BYTES = 64 };

typedef struct {
    const supervise_options_t *options;
    sigset_t waited, before;    //  the signals that we wait for, and the earlier signal mask
    pid_t child;                //  0: none
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

supervised_t
supervise_child (void)
{
    long parent;
    supervised_t self;
    const char *text = getenv (VARIABLE);
    //  Ignores a variable inherited from an older supervisor.
    bool is_child = text && sscanf (text, "%ld:%" SCNu64 ":%d", &parent, &self.restarts, &self.kept) == 3
        && parent == (long) getppid ();
    unsetenv (VARIABLE);
    if (!is_child)
        return (supervised_t) { .kept = -1 };
    self.supervisor = (pid_t) parent;
    if (self.kept < 0 || fcntl (self.kept, F_SETFD, FD_CLOEXEC) != 0)
        self.kept = -1;
    prctl (PR_SET_NAME, "tureen");              //  otherwise the process gets the name of the executed link
    return self;
}

void
supervise_tell_end (const supervised_t *self)
{
    //  It passes the signal on to this process, which has taken its last one.
    if (self->supervisor && getppid () == self->supervisor)
        kill (self->supervisor, SIGTERM);
}

static void
s_execute (const supervise_t *self, pid_t parent)
{
    //  If the parent died before this call there will be no signal: then getppid differs.
    if (prctl (PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid () != parent)
        _exit (NOT_STARTED);
    sigprocmask (SIG_SETMASK, &self->before, NULL);
    char text [TEXT_BYTES];
    snprintf (text, sizeof text, "%ld:%" PRIu64 ":%d", (long) parent, self->restarts, self->options->kept);
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

//  Waits for the next signal; returns 0 when the time is over.  A negative time never ends.
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

//  True: the child has ended, with this status.  As the first process of a container this process gets other
//  processes' children, too.
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

//  Waits until the child has ended; passes on signals that ask for its end.
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
    //  A child that tells its end and then dies may be found dead before it is heard.
    for (int number; (number = s_wait (self, 0)) > 0;)
        if (number != SIGCHLD)
            self->passed = number;
    return status;
}

//  Waits; false: a signal asked for an end.
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

//  ---- the child's end

//  Logs why the child is restarted, and waits.  False: it is not restarted.
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

//  The child died after it was asked to end.
static int
s_ended (const supervise_t *self, int status)
{
    int number = WTERMSIG (status);
    if (number == self->passed)
        return 0;                               //  the child was not even started
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
    //  nohup: if SIGHUP is ignored, this process and the child ignore it.
    struct sigaction hangup;
    if (sigaction (SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset (&self.waited, SIGHUP);
    sigaddset (&self.waited, SIGCHLD);
    signal (SIGCHLD, SIG_DFL);                  //  if it were ignored, the child's exit status would be lost
    sigprocmask (SIG_BLOCK, &self.waited, &self.before);
    int status = s_run (&self);
    sigprocmask (SIG_SETMASK, &self.before, NULL);
    return status;
}
