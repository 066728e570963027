//  `tureen read` alone, without a server in the same binary.
#include "command.h"
#include "machine.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

//  Stands before the system's: $TUREEN_TEST_LATE_SIGNAL comes once, just before the first sleep, where a
//  signal interrupts nothing.
int
clock_nanosleep (clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    const char *signal_number = getenv ("TUREEN_TEST_LATE_SIGNAL");
    if (signal_number) {
        int number = atoi (signal_number);
        unsetenv ("TUREEN_TEST_LATE_SIGNAL");
        raise (number);
    }
    return syscall (SYS_clock_nanosleep, clock, flags, time, left) == 0? 0: errno;
}

int
main (int argc, char **argv)
{
    return machine_begin ()? command_read (argc, argv): 1;
}
