/*  custom_sandbox -- what a process of the operator's command may not do: entered between vfork and execve.
 *
 *  It is for accidents of a program that the operator trusts with the pixels, and for what a hostile image
 *  makes of the libraries in it (docs/security.md says what holds and what does not):
 *      limits      address space, no core dump, no growing file, few descriptors
 *      seccomp     no further processes, sockets, signals to others, tracing   (x86-64 and arm64)
 *      Landlock    no file is written, made or removed; no process outside is looked into   (Linux 5.13)
 *      and         no new privileges, ends with the server, first to go when memory is short
 */
#ifndef CUSTOM_SANDBOX_H
#define CUSTOM_SANDBOX_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

//  Whether the kernel gives them; for what the server says at its start.
bool custom_sandbox_has_seccomp (void);
bool custom_sandbox_has_landlock (void);

//  In the child, which has the memory of the server still: only system calls, nothing is allocated.  parent:
//  the server's process.  0, or -errno.  Descriptors stay as they are.
int custom_sandbox_enter (pid_t parent, uint64_t memory_bytes);

#endif
