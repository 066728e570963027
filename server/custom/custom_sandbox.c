#include "custom_sandbox.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined (__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined (__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0                  //  no filter is known for it
#endif

enum { DESCRIPTORS_MAX = 256, INSTRUCTIONS_MAX = 192, X32_FIRST = 0x40000000 };

//  ---- limits

static int
s_limit (unsigned resource, rlim_t most)
{
    struct rlimit limit;
    if (getrlimit (resource, &limit))
        return -errno;
    limit.rlim_cur = limit.rlim_max = limit.rlim_max < most? limit.rlim_max: most;
    return setrlimit (resource, &limit)? -errno: 0;
}

static int
s_limits (uint64_t memory_bytes)
{
    int rc = s_limit (RLIMIT_AS, memory_bytes);
    rc = rc? rc: s_limit (RLIMIT_CORE, 0);
    rc = rc? rc: s_limit (RLIMIT_FSIZE, 0);
    return rc? rc: s_limit (RLIMIT_NOFILE, DESCRIPTORS_MAX);
}

//  When the machine is out of memory, the kernel ends this process before the server.
static void
s_go_first (void)
{
    int file = open ("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        if (write (file, "800", 3) != 3) {
            //  The server's own chances are as they were.
        }
        close (file);
    }
}

//  ---- files

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (UINT64_C (1) << 14)        //  Linux 6.2
#endif

static int
s_landlock_version (void)
{
    return (int) syscall (SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool
custom_sandbox_has_landlock (void)
{
    return s_landlock_version () > 0;
}

static void
s_allow_null (int rules)
{
    struct landlock_path_beneath_attr null = { .allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE,
        .parent_fd = open ("/dev/null", O_PATH | O_CLOEXEC) };
    if (null.parent_fd >= 0) {
        syscall (SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &null, 0);
        close (null.parent_fd);
    }
}

//  No file is written, made or removed, but for /dev/null.  Without Landlock RLIMIT_FSIZE is left, by which
//  none grows.
static int
s_close_files (void)
{
    int version = s_landlock_version ();
    if (version <= 0)
        return 0;
    uint64_t closed = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR
        | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR
        | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO
        | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
    if (version >= 2)
        closed |= LANDLOCK_ACCESS_FS_REFER;
    if (version >= 3)
        closed |= LANDLOCK_ACCESS_FS_TRUNCATE;
    struct landlock_ruleset_attr attributes = { .handled_access_fs = closed };
    int rules = (int) syscall (SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
    if (rules < 0)
        return -errno;
    s_allow_null (rules);
    int rc = syscall (SYS_landlock_restrict_self, rules, 0)? -errno: 0;
    close (rules);
    return rc;
}

//  ---- system calls

bool
custom_sandbox_has_seccomp (void)
{
    return ARCHITECTURE != 0 && prctl (PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
}

typedef struct {
    struct sock_filter code [INSTRUCTIONS_MAX];
    unsigned short count;
} filter_t;

static void
s_add (filter_t *self, uint16_t code, uint8_t if_true, uint8_t if_false, uint32_t value)
{
    assert (self->count < INSTRUCTIONS_MAX);
    self->code [self->count++] = (struct sock_filter) { code, if_true, if_false, value };
}

static void
s_load (filter_t *self, size_t offset)
{
    s_add (self, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t) offset);
}

//  Argument number `index` of a call: its low half.
static void
s_load_argument (filter_t *self, size_t index)
{
    s_load (self, offsetof (struct seccomp_data, args) + index * sizeof (uint64_t));
}

static void
s_answer (filter_t *self, int error)
{
    s_add (self, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (uint32_t) error);
}

static void
s_refuse (filter_t *self, uint32_t number, int error)
{
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number);
    s_answer (self, error);
}

//  A call about a process: only this one.
static void
s_only_own (filter_t *self, uint32_t number, pid_t own)
{
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, number);
    s_load_argument (self, 0);
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, (uint32_t) own);
    s_answer (self, EPERM);
    s_add (self, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
}

//  What is opened for reading is not emptied by that: Landlock knows of it since Linux 6.2.
static void
s_refuse_emptying (filter_t *self, uint32_t number, size_t flags_index)
{
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, 5, number);
    s_load_argument (self, flags_index);
    s_add (self, BPF_ALU | BPF_AND | BPF_K, 0, 0, O_ACCMODE | O_TRUNC);
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, O_RDONLY | O_TRUNC);
    s_answer (self, EPERM);
    s_add (self, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
}

//  A call of which the first argument says what is done.
static void
s_refuse_option (filter_t *self, uint32_t number, uint32_t option)
{
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, number);
    s_load_argument (self, 0);
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, option);
    s_answer (self, EPERM);
    s_add (self, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
}

//  A datagram socket of a pair can send to any other; streams and packets go to the other one of the pair.
static void
s_only_pairs (filter_t *self)
{
    enum { KIND = 0xf };
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, 6, SYS_socketpair);
    s_load_argument (self, 1);
    s_add (self, BPF_ALU | BPF_AND | BPF_K, 0, 0, KIND);
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, SOCK_STREAM);
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SOCK_SEQPACKET);
    s_answer (self, EPERM);
    s_add (self, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
}

//  Threads may be started, processes not.  clone3 hides its flags behind a pointer; the C library takes clone
//  where there is no clone3.
static void
s_only_threads (filter_t *self)
{
    s_refuse (self, SYS_clone3, ENOSYS);
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, SYS_clone);
    s_load_argument (self, 0);
    s_add (self, BPF_JMP | BPF_JSET | BPF_K, 1, 0, CLONE_THREAD);
    s_answer (self, EPERM);
    s_add (self, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
}

static int
s_close_calls (void)
{
    static const uint32_t refused [] = { SYS_socket, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
        SYS_pidfd_open, SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_io_uring_setup, SYS_unshare, SYS_setns,
        SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_tkill, SYS_setpriority, SYS_sched_setaffinity,
        SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr, SYS_ioprio_set,
        //  Rights, times and attributes of files, of which Landlock knows nothing; and ends of files, which
        //  it knows since Linux 6.2.
        SYS_truncate, SYS_fallocate, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat,
        SYS_utimensat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr,
        SYS_fremovexattr,
        //  Other ways to other processes.
        SYS_msgget, SYS_shmget, SYS_semget, SYS_mq_open,
#ifdef SYS_fork
        SYS_fork, SYS_vfork, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
    };
    pid_t own = getpid ();
    filter_t filter = { .count = 0 };
    if (!custom_sandbox_has_seccomp ())
        return 0;
    s_load (&filter, offsetof (struct seccomp_data, arch));
    s_add (&filter, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCHITECTURE);
    s_add (&filter, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
    s_load (&filter, offsetof (struct seccomp_data, nr));
    s_add (&filter, BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_FIRST);
    s_answer (&filter, ENOSYS);
    for (size_t index = 0; index < sizeof refused / sizeof *refused; index++)
        s_refuse (&filter, refused [index], EPERM);
    //  Its flags are behind a pointer; the C library opens without it.
    s_refuse (&filter, SYS_openat2, ENOSYS);
    s_refuse_emptying (&filter, SYS_openat, 2);
#ifdef SYS_open
    s_refuse_emptying (&filter, SYS_open, 1);
#endif
    s_only_pairs (&filter);
    s_refuse_option (&filter, SYS_prctl, PR_SET_PDEATHSIG);
    s_only_threads (&filter);
    s_only_own (&filter, SYS_kill, own);
    s_only_own (&filter, SYS_tgkill, own);
    s_add (&filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 5, SYS_prlimit64);
    s_load_argument (&filter, 0);
    s_add (&filter, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 0);
    s_add (&filter, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, (uint32_t) own);
    s_answer (&filter, EPERM);
    s_add (&filter, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
    s_add (&filter, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { .len = filter.count, .filter = filter.code };
    return prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)? -errno: 0;
}

//  ---- all of it

static int
s_enter (pid_t parent, uint64_t memory_bytes)
{
    setsid ();
    //  If the server has died before this call there will be no signal: then getppid differs.
    if (prctl (PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    if (getppid () != parent)
        return -ESRCH;
    s_go_first ();
    int rc = s_close_files ();
    rc = rc? rc: s_limits (memory_bytes);
    return rc? rc: s_close_calls ();
}

int
custom_sandbox_run (int argc, char **argv)
{
    enum { MEMORY = 1, PARENT, PATH, WORDS };
    if (argc <= WORDS) {
        fprintf (stderr, "tureen " CUSTOM_SANDBOX_COMMAND ": only `tureen serve --operation` starts this\n");
        return 2;
    }
    int rc = s_enter ((pid_t) atol (argv [PARENT]), strtoull (argv [MEMORY], NULL, 10));
    if (rc == 0) {
        execv (argv [PATH], argv + WORDS);
        rc = -errno;
    }
    fprintf (stderr, "%s cannot be executed: %s\n", argv [PATH], strerror (-rc));
    return 127;
}
