/*  custom_sandbox -- what a process of the operator's command may not do: entered before it is executed.
 *
 *  It is for accidents of a program that the operator trusts with the pixels, and for what a hostile image
 *  makes of the libraries in it (docs/security.md says what holds and what does not):
 *      limits      address space, no core dump, no growing file, few descriptors
 *      seccomp     no further processes, sockets, signals to others, tracing, changes of files' rights; no
 *                  calls that are newer than this list   (x86-64 and arm64)
 *      Landlock    no file is written, made or removed; no process outside is looked into   (Linux 5.13);
 *                  none is sent a signal   (Linux 6.12)
 *      and         no capabilities, no new privileges, ends with the server, first to go when memory is short
 */
#ifndef CUSTOM_SANDBOX_H
#define CUSTOM_SANDBOX_H
#include <stdbool.h>

//  Whether the kernel gives them; for what the server says at its start.
bool custom_sandbox_has_seccomp (void);
bool custom_sandbox_has_landlock (void);

//  What `tureen` is as CUSTOM_SANDBOX_COMMAND, which only the server starts, in place of the operator's
//  command: it enters the sandbox and executes that.  argv: the command's name, bytes of address space, the
//  server's process, the executable, its words.  Returns an exit status, with the reason on standard error.
#define CUSTOM_SANDBOX_COMMAND "operation-process"
int custom_sandbox_run (int argc, char **argv);

#endif
