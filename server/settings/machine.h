/*  machine -- how much of this computer the process may use, container limits included.
 *
 *  root is put before /proc and /sys: "" for the real ones, a folder of files in tests.
 */
#ifndef MACHINE_H
#define MACHINE_H
#include <stddef.h>
#include <stdint.h>

//  Least of physical memory, the memory limits of every control group this process is in (version 2 and 1),
//  and RLIMIT_AS.  Never 0.
uint64_t machine_memory_bytes (const char *root);

//  Processors that this thread may run on, at most what its control groups' processor time pays for (rounded
//  up).  Never 0.
uint32_t machine_processors (const char *root);

//  The cause, and the remedy, if the process got no memory (ENOMEM) or no thread (EAGAIN); text has this much
//  room.  Returns text.
enum { MACHINE_SHORTAGE_BYTES = 256 };
const char *machine_shortage (int error, char text [MACHINE_SHORTAGE_BYTES]);

#endif
