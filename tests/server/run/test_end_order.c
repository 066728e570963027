//  The server's end: what was learned of the data is written before a thread is waited for.  A thread that
//  hangs in a read ends the process (serve.h), and nothing is written any more.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "jpeg_row_index.h"
#include "scratch.h"
#include "serve.h"
#include "tasks.h"

static struct {
    unsigned saved, saved_when_stopped, stopped;
} s_seen;

int __real_jpeg_row_index_save (jpeg_row_index_t *self, const char *path, const char *fingerprint);
int __wrap_jpeg_row_index_save (jpeg_row_index_t *self, const char *path, const char *fingerprint);

int
__wrap_jpeg_row_index_save (jpeg_row_index_t *self, const char *path, const char *fingerprint)
{
    s_seen.saved++;
    return __real_jpeg_row_index_save (self, path, fingerprint);
}

void __real_tasks_stop (tasks_t *self);
void __wrap_tasks_stop (tasks_t *self);

void
__wrap_tasks_stop (tasks_t *self)
{
    s_seen.stopped++;
    s_seen.saved_when_stopped = s_seen.saved;
    __real_tasks_stop (self);
}

//  Guards: rows that were learned are saved before the workers and the reading threads are waited for, and
//  once more behind them.
static void
test_rows_are_saved_before_threads_are_waited_for (void **state)
{
    (void) state;
    scratch_folder_t scratch;
    char data [100], class [120], file [140], dataset [120], listen [120];
    assert_true (scratch_begin (&scratch));
    snprintf (data, sizeof data, "%s/data", scratch.path);
    snprintf (class, sizeof class, "%s/a", data);
    snprintf (file, sizeof file, "%s/1.jpg", class);
    snprintf (dataset, sizeof dataset, "train=%s", data);
    snprintf (listen, sizeof listen, "ipc://%s/socket", scratch.path);
    assert_true (mkdir (data, 0700) == 0 && mkdir (class, 0700) == 0);
    int descriptor = open (file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true (descriptor >= 0 && write (descriptor, "image", 5) == 5 && close (descriptor) == 0);
    char *arguments [] = { "serve", "--dataset", dataset, "--jpeg-rows-dir", scratch.path, "--listen", listen,
        "--workers", "1", "--cache", "1M", NULL };
    raise (SIGTERM);                    //  blocked: the server ends when it has started
    assert_int_equal (serve_command (sizeof arguments / sizeof *arguments - 1, arguments), 0);
    assert_true (s_seen.stopped >= 1 && s_seen.saved_when_stopped == 1);
    assert_int_equal (s_seen.saved, 2);
    scratch_end (&scratch);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_rows_are_saved_before_threads_are_waited_for)
    };
    sigset_t term;
    sigemptyset (&term);
    sigaddset (&term, SIGTERM);
    sigprocmask (SIG_BLOCK, &term, NULL);
    return cmocka_run_group_tests (tests, NULL, NULL);
}
