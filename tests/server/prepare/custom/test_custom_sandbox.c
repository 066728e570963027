/*  What a process in the sandbox may call, and what not, member by member of each list.  (Left out is
 *  vfork, for which the child that would come back has the parent's stack.)
 *
 *  The test starts itself there once more, as the server starts an operator's command.  That process makes
 *  the calls and writes what went wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "custom_sandbox.h"
#include "effort.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

//  A sanitizer takes far more addresses.
#if defined (EFFORT_SANITIZED)
static const uint64_t s_memory_bytes = RLIM_INFINITY;
#else
static const uint64_t s_memory_bytes = UINT64_C (1) << 30;
#endif

static void
s_expect (const char *what, long result, int error)
{
    int got = result < 0? errno: 0;
    if (got != error)
        printf ("%s: %s, not %s\n", what, strerror (got), strerror (error));
    errno = 0;
}

//  Arguments that no call takes: without the filter the kernel finds another error.
#define REFUSED(name) do { \
    long result = syscall (SYS_ ## name, -1, 0, 0, 0, 0, 0); \
    if (result == 0 && getpid () != self) \
        _exit (0); \
    s_expect (#name, result, EPERM); \
} while (0)

static void
s_call_refused (void)
{
    pid_t self = getpid ();
    REFUSED (socket); REFUSED (ptrace); REFUSED (process_vm_readv); REFUSED (process_vm_writev);
    REFUSED (process_madvise); REFUSED (pidfd_open); REFUSED (pidfd_getfd); REFUSED (pidfd_send_signal);
    REFUSED (rt_sigqueueinfo); REFUSED (rt_tgsigqueueinfo); REFUSED (tkill); REFUSED (setpriority);
    REFUSED (sched_setaffinity); REFUSED (sched_setscheduler); REFUSED (sched_setparam);
    REFUSED (sched_setattr); REFUSED (ioprio_set); REFUSED (msgget); REFUSED (msgsnd); REFUSED (msgrcv);
    REFUSED (msgctl); REFUSED (shmget); REFUSED (shmat); REFUSED (shmctl); REFUSED (semget); REFUSED (semop);
    REFUSED (semtimedop); REFUSED (semctl); REFUSED (mq_open); REFUSED (mq_unlink); REFUSED (add_key);
    REFUSED (request_key); REFUSED (keyctl); REFUSED (io_uring_setup); REFUSED (unshare); REFUSED (setns);
    REFUSED (userfaultfd); REFUSED (perf_event_open); REFUSED (bpf); REFUSED (truncate); REFUSED (fallocate);
    REFUSED (fchmod); REFUSED (fchmodat); REFUSED (fchown); REFUSED (fchownat); REFUSED (utimensat);
    REFUSED (setxattr); REFUSED (lsetxattr); REFUSED (fsetxattr); REFUSED (removexattr);
    REFUSED (lremovexattr); REFUSED (fremovexattr);
#ifdef SYS_fork
    REFUSED (fork); REFUSED (chmod); REFUSED (chown); REFUSED (lchown); REFUSED (utime); REFUSED (utimes);
    REFUSED (futimesat);
#endif
}

static void
s_call_unknown (void)
{
    enum { FIRST_UNKNOWN = 452, LAST_UNKNOWN = 461 };
    s_expect ("clone3", syscall (SYS_clone3, -1, 0), ENOSYS);
    s_expect ("openat2", syscall (SYS_openat2, -1, 0, 0, 0), ENOSYS);
    //  fchmodat2 and what came after it: kernels that have them say EINVAL, EBADF or EFAULT.
    for (long call = FIRST_UNKNOWN; call <= LAST_UNKNOWN; call++)
        s_expect ("a call of later kernels", syscall (call, -1, -1, -1, -1, -1, -1), ENOSYS);
}

//  Calls of which an argument decides.
static void
s_call_of_others (void)
{
    pid_t other = getppid ();
    struct rlimit limit;
    s_expect ("a signal to itself", kill (getpid (), 0), 0);
    s_expect ("a signal to another", kill (other, 0), EPERM);
    s_expect ("a signal to its thread", syscall (SYS_tgkill, getpid (), gettid (), 0), 0);
    s_expect ("a signal to another's thread", syscall (SYS_tgkill, other, other, 0), EPERM);
    s_expect ("a signal to all", kill (-1, 0), EPERM);
    s_expect ("its limit", syscall (SYS_prlimit64, 0, RLIMIT_CPU, NULL, &limit), 0);
    s_expect ("its limit by its number", syscall (SYS_prlimit64, getpid (), RLIMIT_CPU, NULL, &limit), 0);
    s_expect ("another's limit", syscall (SYS_prlimit64, other, RLIMIT_CPU, NULL, &limit), EPERM);
    s_expect ("another's pages", syscall (SYS_move_pages, other, 0, NULL, NULL, NULL, 0), EPERM);
    s_expect ("another's memory", syscall (SYS_migrate_pages, other, 0, NULL, NULL), EPERM);
    s_expect ("to outlive the server", prctl (PR_SET_PDEATHSIG, 0, 0, 0, 0), EPERM);
    s_expect ("its name", prctl (PR_SET_NAME, "name", 0, 0, 0), 0);
    s_expect ("a process", syscall (SYS_clone, SIGCHLD, 0, 0, 0, 0), EPERM);
}

static void
s_call_for_files (void)
{
    int pair [2];
    s_expect ("a stream", socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    s_expect ("packets", socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    s_expect ("datagrams", socketpair (AF_UNIX, SOCK_DGRAM, 0, pair), EPERM);
    s_expect ("a pair of the internet", socketpair (AF_INET, SOCK_STREAM, 0, pair), EPERM);
    static const int refused [] = { F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE };
    for (size_t index = 0; index < sizeof refused / sizeof *refused; index++)
        s_expect ("an owner, a signal or a lease", syscall (SYS_fcntl, pair [0], refused [index], 0), EPERM);
    s_expect ("signals of a file", syscall (SYS_fcntl, pair [0], F_SETFL, O_ASYNC | O_NONBLOCK), EPERM);
    s_expect ("not to wait", syscall (SYS_fcntl, pair [0], F_SETFL, O_NONBLOCK), 0);
    int flag = 0;
    static const unsigned long asked [] = { FIONREAD, FIONBIO, FIOCLEX, FIONCLEX };
    for (size_t index = 0; index < sizeof asked / sizeof *asked; index++)
        s_expect ("what sockets are asked", ioctl (pair [0], asked [index], &flag), 0);
    s_expect ("signals by ioctl", ioctl (pair [0], FIOASYNC, &flag), ENOTTY);
    s_expect ("an owner by ioctl", ioctl (pair [0], FIOSETOWN, &flag), ENOTTY);
    s_expect ("to read", open ("/proc/self/exe", O_RDONLY), 0);
    s_expect ("to empty", open ("/dev/null", O_RDONLY | O_TRUNC), EPERM);
    long page = sysconf (_SC_PAGESIZE);
    void *shared = mmap (NULL, (size_t) page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    s_expect ("to leave pages", madvise (shared, (size_t) page, MADV_DONTNEED), 0);
    s_expect ("to remove pages", madvise (shared, (size_t) page, MADV_REMOVE), EPERM);
}

//  Landlock's: in this folder there are the file and the folder of these names.
#define FILE_NAME "file"
#define FOLDER_NAME "folder"

static void
s_change_files (void)
{
    if (!custom_sandbox_has_landlock ())
        return;
    s_expect ("to read", open (FILE_NAME, O_RDONLY), 0);
    s_expect ("to write", open (FILE_NAME, O_WRONLY), EACCES);
    s_expect ("to write to /dev/null", open ("/dev/null", O_WRONLY), 0);
    s_expect ("to remove a file", unlink (FILE_NAME), EACCES);
    s_expect ("to remove a folder", rmdir (FOLDER_NAME), EACCES);
    s_expect ("to rename", rename (FILE_NAME, "other"), EACCES);
    s_expect ("to link", link (FILE_NAME, "other"), EACCES);
    s_expect ("to make a symbolic link", symlink (FILE_NAME, "other"), EACCES);
    s_expect ("to make a file by opening it", open ("other", O_RDONLY | O_CREAT, 0600), EACCES);
    s_expect ("to make a file", mknod ("other", S_IFREG | 0600, 0), EACCES);
    s_expect ("to make a folder", mkdir ("other", 0700), EACCES);
    s_expect ("to make a pipe", mknod ("other", S_IFIFO | 0600, 0), EACCES);
    s_expect ("to make a socket", mknod ("other", S_IFSOCK | 0600, 0), EACCES);
}

static void
s_expect_limit (const char *what, __rlimit_resource_t resource, rlim_t most)
{
    struct rlimit limit;
    if (getrlimit (resource, &limit) || limit.rlim_cur > most || limit.rlim_max > most)
        printf ("%s: the limit is %llu, not %llu\n", what, (unsigned long long) limit.rlim_cur,
            (unsigned long long) most);
}

static int
s_inside (void)
{
    s_expect_limit ("memory", RLIMIT_AS, s_memory_bytes);
    s_expect_limit ("core", RLIMIT_CORE, 0);
    s_expect_limit ("file", RLIMIT_FSIZE, 0);
    s_expect_limit ("descriptors", RLIMIT_NOFILE, 256);
    s_call_refused ();
    s_call_unknown ();
    s_call_of_others ();
    s_call_for_files ();
    s_change_files ();
    printf ("done\n");
    return fflush (stdout) != 0;
}

static void
s_enter (int output, pid_t parent, const char *folder)
{
    char memory [24], server [24];
    snprintf (memory, sizeof memory, "%llu", (unsigned long long) s_memory_bytes);
    snprintf (server, sizeof server, "%d", (int) parent);
    if (chdir (folder) || mkdir (FOLDER_NAME, 0700) || mknod (FILE_NAME, S_IFREG | 0600, 0))
        _exit (1);
    dup2 (output, STDOUT_FILENO);
    dup2 (output, STDERR_FILENO);
    char *words [] = { (char *) CUSTOM_SANDBOX_COMMAND, memory, server, (char *) "/proc/self/exe",
        (char *) "test_custom_sandbox", (char *) "inside", NULL };
    _exit (custom_sandbox_run (6, words));
}

static void
test_what_it_may_do (void **state)
{
    (void) state;
    if (!custom_sandbox_has_seccomp ())
        skip ();
    scratch_folder_t scratch;
    assert_true (scratch_begin (&scratch));
    int ends [2];
    assert_int_equal (pipe2 (ends, O_CLOEXEC), 0);
    pid_t parent = getpid (), child = fork ();
    assert_true (child >= 0);
    if (child == 0)
        s_enter (ends [1], parent, scratch.path);
    close (ends [1]);
    FILE *file = fdopen (ends [0], "r");
    char text [8192];
    text [fread (text, 1, sizeof text - 1, file)] = 0;
    fclose (file);
    int status;
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_string_equal (text, "done\n");
    assert_int_equal (status, 0);
    assert_true (scratch_end (&scratch));
}

int
main (int argc, char **argv)
{
    if (argc == 2 && strcmp (argv [1], "inside") == 0)
        _exit (s_inside ());            //  the search for leaks at an exit would need a process
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_what_it_may_do)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
