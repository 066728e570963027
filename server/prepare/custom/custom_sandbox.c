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
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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

enum { DESCRIPTORS_MAX = 256 };

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

//  What the headers of Linux 6.1 do not have.
enum { TRUNCATE = 1 << 14, SCOPE_ABSTRACT_SOCKETS = 1 << 0, SCOPE_SIGNALS = 1 << 1 };

//  A kernel that knows fewer fields takes them if they are 0.
typedef struct {
    uint64_t files, network, scopes;
} landlock_t;

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
//  none grows.  And what the filter of system calls refuses already: signals to processes outside, and
//  connections to their sockets.
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
        closed |= TRUNCATE;
    landlock_t attributes = { .files = closed,
        .scopes = version >= 6? SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS: 0 };
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

enum { VALUES_MAX = 8, INSTRUCTIONS_MAX = 512,
    FIRST_UNKNOWN = 452 };          //  calls since Linux 6.6, which have the same numbers on all processors
#define ALL_BITS UINT32_MAX
#define OWN UINT32_MAX              //  stands for this process's number
#define TCGETS_NOW 0x802c542au      //  TCGETS2, isatty of newer C libraries; its structure has no header here

//  With an argument, masked, of some values a call is refused; or with all others.  Only the low half of an
//  argument is compared: of those below the kernel reads no more.
typedef struct {
    uint32_t number, argument, mask, values [VALUES_MAX];
    uint8_t count;
    bool allows;                    //  the values, and nothing else
    int error;
} rule_t;

static const uint32_t refused [] = {
    //  Other processes, and ways to them.
    SYS_socket, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_pidfd_open,
    SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_tkill,
    SYS_setpriority, SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
    SYS_ioprio_set, SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_shmget, SYS_shmat, SYS_shmctl,
    SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl, SYS_mq_open, SYS_mq_unlink,
    SYS_add_key, SYS_request_key, SYS_keyctl,
    //  Parts of the kernel that few programs need and many attacks have begun with.  What takes a capability
    //  is not here: there is none.
    SYS_io_uring_setup, SYS_unshare, SYS_setns, SYS_userfaultfd, SYS_perf_event_open, SYS_bpf,
    //  Rights, times and attributes of files, of which Landlock knows nothing; and ends of files, which
    //  it knows since Linux 6.2.
    SYS_truncate, SYS_fallocate, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat,
    SYS_utimensat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr,
    SYS_fremovexattr,
#ifdef SYS_fork
    SYS_fork, SYS_vfork, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
};

//  Their flags are behind a pointer.  The C library does without them.
static const uint32_t unknown [] = { SYS_clone3, SYS_openat2 };

static const rule_t rules [] = {
    //  Threads may be started, processes not.
    { SYS_clone, 0, CLONE_THREAD, { CLONE_THREAD }, 1, true, EPERM },
    { SYS_kill, 0, ALL_BITS, { OWN }, 1, true, EPERM },
    { SYS_tgkill, 0, ALL_BITS, { OWN }, 1, true, EPERM },
    { SYS_prlimit64, 0, ALL_BITS, { 0, OWN }, 2, true, EPERM },
    { SYS_move_pages, 0, ALL_BITS, { 0, OWN }, 2, true, EPERM },
    { SYS_migrate_pages, 0, ALL_BITS, { 0, OWN }, 2, true, EPERM },
    { SYS_prctl, 0, ALL_BITS, { PR_SET_PDEATHSIG }, 1, false, EPERM },
    //  A datagram socket of a pair can send to any other; streams and packets go to the other one of the
    //  pair.
    { SYS_socketpair, 0, ALL_BITS, { AF_UNIX }, 1, true, EPERM },
    { SYS_socketpair, 1, 0xf, { SOCK_STREAM, SOCK_SEQPACKET }, 2, true, EPERM },
    //  Signals for what happens to a file go to any process; a lease holds up those that open the file.
    { SYS_fcntl, 1, ALL_BITS, { F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE }, 4, false, EPERM },
    //  What programs ask of terminals and sockets.  Others change files, or give signals an owner.
    { SYS_ioctl, 1, ALL_BITS, { TCGETS, TCGETS_NOW, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX }, 7,
        true, ENOTTY },
    //  The memory for pixels keeps its pages: the server writes to them.
    { SYS_madvise, 2, ALL_BITS, { MADV_REMOVE }, 1, false, EPERM },
    //  What is opened for reading is not emptied by that: Landlock knows of it since Linux 6.2.
    { SYS_openat, 2, O_ACCMODE | O_TRUNC, { O_RDONLY | O_TRUNC }, 1, false, EPERM },
#ifdef SYS_open
    { SYS_open, 1, O_ACCMODE | O_TRUNC, { O_RDONLY | O_TRUNC }, 1, false, EPERM },
#endif
};

typedef struct {
    struct sock_filter code [INSTRUCTIONS_MAX];
    unsigned short count;
} filter_t;

static void
s_add (filter_t *self, uint16_t code, size_t if_true, size_t if_false, uint32_t value)
{
    assert (self->count < INSTRUCTIONS_MAX && if_true <= UINT8_MAX && if_false <= UINT8_MAX);
    self->code [self->count++] = (struct sock_filter) { code, (uint8_t) if_true, (uint8_t) if_false, value };
}

static void
s_load (filter_t *self, size_t offset)
{
    s_add (self, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t) offset);
}

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

//  Refuses the call if what is loaded is one of the values; allows: if it is none.
static void
s_compare (filter_t *self, const uint32_t *values, size_t count, bool allows, int error)
{
    for (size_t index = 0; index < count; index++)
        s_add (self, BPF_JMP | BPF_JEQ | BPF_K, count - index - !allows, index + 1 == count && !allows,
            values [index]);
    s_answer (self, error);
}

//  The number of the call is loaded before and after it.
static void
s_add_rule (filter_t *self, const rule_t *rule, pid_t own)
{
    uint32_t values [VALUES_MAX];
    for (size_t index = 0; index < rule->count; index++)
        values [index] = rule->values [index] == OWN? (uint32_t) own: rule->values [index];
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, rule->count + 4u, rule->number);
    s_load_argument (self, rule->argument);
    s_add (self, BPF_ALU | BPF_AND | BPF_K, 0, 0, rule->mask);
    s_compare (self, values, rule->count, rule->allows, rule->error);
    s_load (self, offsetof (struct seccomp_data, nr));
}

//  A terminal that is opened for reading would send a signal, for what is typed, to the processes in its
//  foreground.
static void
s_refuse_async (filter_t *self)
{
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, 6, SYS_fcntl);
    s_load_argument (self, 1);
    s_add (self, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, F_SETFL);
    s_load_argument (self, 2);
    s_add (self, BPF_JMP | BPF_JSET | BPF_K, 0, 1, O_ASYNC);
    s_answer (self, EPERM);
    s_load (self, offsetof (struct seccomp_data, nr));
}

static int
s_close_calls (void)
{
    filter_t filter = { .count = 0 };
    if (!custom_sandbox_has_seccomp ())
        return 0;
    s_load (&filter, offsetof (struct seccomp_data, arch));
    s_add (&filter, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCHITECTURE);
    s_add (&filter, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
    s_load (&filter, offsetof (struct seccomp_data, nr));
    //  Newer calls, about which nothing is known here, and those of x32.
    s_add (&filter, BPF_JMP | BPF_JGE | BPF_K, 0, 1, FIRST_UNKNOWN);
    s_answer (&filter, ENOSYS);
    s_compare (&filter, unknown, sizeof unknown / sizeof *unknown, false, ENOSYS);
    s_compare (&filter, refused, sizeof refused / sizeof *refused, false, EPERM);
    for (size_t index = 0; index < sizeof rules / sizeof *rules; index++)
        s_add_rule (&filter, &rules [index], getpid ());
    s_refuse_async (&filter);
    s_add (&filter, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { .len = filter.count, .filter = filter.code };
    return prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)? -errno: 0;
}

//  ---- privileges

//  A server of root has them; with PR_SET_NO_NEW_PRIVS no execve gives them back.
static int
s_drop_capabilities (void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none [_LINUX_CAPABILITY_U32S_3] = { { .effective = 0 } };
    return syscall (SYS_capset, &header, none)? -errno: 0;
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
    rc = rc? rc: s_drop_capabilities ();
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
