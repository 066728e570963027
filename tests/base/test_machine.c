/*  What the machine has: memory and processors, below the limits of a process and of control groups.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "machine.h"

static char s_root [] = "/tmp/test_machine.XXXXXX";

static void
s_put (const char *path, const char *text)
{
    char whole [512];
    snprintf (whole, sizeof whole, "%s/%s", s_root, path);
    for (char *at = whole + strlen (s_root) + 1; (at = strchr (at, '/')); *at++ = '/') {
        *at = 0;
        mkdir (whole, 0700);
    }
    FILE *file = fopen (whole, "w");
    assert_non_null (file);
    assert_int_equal (fwrite (text, 1, strlen (text), file), strlen (text));
    assert_int_equal (fclose (file), 0);
}

//  A new empty root.
static void
s_clear_root (void)
{
    char command [128];
    snprintf (command, sizeof command, "rm -rf %s && mkdir %s", s_root, s_root);
    assert_int_equal (system (command), 0);
}

static void
memory_limits (void **state)
{
    (void) state;
    s_clear_root ();
    uint64_t physical = machine_memory_bytes (s_root);
    assert_true (physical > (1 << 20));
    s_put ("proc/self/cgroup", "0::/a/b\n");
    assert_int_equal (machine_memory_bytes (s_root), physical);
    s_put ("sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_int_equal (machine_memory_bytes (s_root), physical);
    s_put ("sys/fs/cgroup/a/memory.max", "1048576\n");
    assert_int_equal (machine_memory_bytes (s_root), 1048576);
    s_put ("sys/fs/cgroup/a/b/memory.max", "524288\n");
    assert_int_equal (machine_memory_bytes (s_root), 524288);
    //  In a container the host's path is not there: the mount's root counts.
    s_clear_root ();
    s_put ("proc/self/cgroup", "0::/docker/1234\n");
    s_put ("sys/fs/cgroup/memory.max", "4096\n");
    assert_int_equal (machine_memory_bytes (s_root), 4096);
    s_put ("proc/self/cgroup", "0::/../outside\n");
    assert_int_equal (machine_memory_bytes (s_root), 4096);
    s_clear_root ();
    s_put ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/slice/unit\n1:name=memoryx:/\n0::/\n");
    s_put ("sys/fs/cgroup/memory/slice/memory.limit_in_bytes", "8192\n");
    s_put ("sys/fs/cgroup/memory/slice/unit/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal (machine_memory_bytes (s_root), 8192);
    s_put ("sys/fs/cgroup/memory/slice/memory.limit_in_bytes", "0\n");
    assert_int_equal (machine_memory_bytes (s_root), 1);
}

static void
memory_below_the_address_space (void **state)
{
    (void) state;
    s_clear_root ();
    uint64_t physical = machine_memory_bytes (s_root), limited = 0;
    int pipes [2];
    assert_int_equal (pipe (pipes), 0);
    pid_t child = fork ();
    assert_true (child >= 0);
    if (child == 0) {
        struct rlimit limit = { .rlim_cur = physical / 2, .rlim_max = RLIM_INFINITY };
        limited = setrlimit (RLIMIT_AS, &limit)? 0: machine_memory_bytes (s_root);
        _exit (write (pipes [1], &limited, sizeof limited) != sizeof limited);
    }
    assert_int_equal (read (pipes [0], &limited, sizeof limited), sizeof limited);
    assert_int_equal (waitpid (child, NULL, 0), child);
    close (pipes [0]);
    close (pipes [1]);
    assert_int_equal (limited, physical / 2);
}

static void
processor_limits (void **state)
{
    (void) state;
    s_clear_root ();
    uint32_t all = machine_processors (s_root);
    assert_true (all >= 1);
    static const struct { const char *text; uint32_t processors; } cases [] = {
        { "max 100000\n", 0 }, { "100000 100000\n", 1 }, { "50000 100000\n", 1 }, { "1 100000\n", 1 },
        { "100001 100000\n", 2 }, { "200000 100000\n", 2 }, { "99900000 100000\n", 999 }, { "0 0\n", 0 },
        { "-5 100000\n", 0 }, { "100000\n", 0 }, { "", 0 },
    };
    s_put ("proc/self/cgroup", "0::/job\n");
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        s_put ("sys/fs/cgroup/job/cpu.max", cases [index].text);
        uint32_t paid = cases [index].processors;
        assert_int_equal (machine_processors (s_root), paid && paid < all? paid: all);
    }
    s_clear_root ();
    s_put ("proc/self/cgroup", "8:cpuset:/\n3:cpuacct,cpu:/job\n");
    s_put ("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    s_put ("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal (machine_processors (s_root), all);
    s_put ("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "30000\n");
    assert_int_equal (machine_processors (s_root), 1);
}

static int
s_set_up (void **state)
{
    (void) state;
    return mkdtemp (s_root)? 0: -1;
}

static int
s_tear_down (void **state)
{
    (void) state;
    s_clear_root ();
    return rmdir (s_root);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (memory_limits),
        cmocka_unit_test (memory_below_the_address_space),
        cmocka_unit_test (processor_limits),
    };
    return cmocka_run_group_tests (tests, s_set_up, s_tear_down);
}
