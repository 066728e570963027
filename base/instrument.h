/*  instrument -- what the thread sanitizer is told: it stays fast where it would look at every byte of a
 *  picture, and learns of memory that changes hands inside ZeroMQ, which it cannot see into.
 *
 *  A loop over pixels takes 13 times as long when each access is checked by itself.  Such a function is
 *  marked INSTRUMENT_ROWS and tells the sanitizer what it writes once a row, by instrument_written: a race on
 *  the bytes it writes is still reported.  What it reads must be its thread's own.
 *
 *  instrument_give (memory) before the memory goes to ZeroMQ, instrument_take (memory) when a thread of
 *  ZeroMQ gives it back: ZeroMQ's own queues order the accesses.
 *
 *  Nothing in builds without the sanitizer.
 */
#ifndef INSTRUMENT_H
#define INSTRUMENT_H

//  A build may define it where the compiler does not look at accesses, as for the codecs.
#if defined (INSTRUMENT_TSAN)
#elif defined (__SANITIZE_THREAD__)
#define INSTRUMENT_TSAN 1
#elif defined (__has_feature)
#if __has_feature (thread_sanitizer)
#define INSTRUMENT_TSAN 1
#endif
#endif

#ifdef INSTRUMENT_TSAN
#include <sanitizer/tsan_interface.h>
//  A function of the sanitizer's runtime in both compilers; no header declares it.
void __tsan_write_range (void *memory, long bytes);
#define INSTRUMENT_ROWS __attribute__ ((no_sanitize ("thread")))
#define instrument_written(memory, bytes) __tsan_write_range (memory, (long) (bytes))
#define instrument_give(memory) __tsan_release (memory)
#define instrument_take(memory) __tsan_acquire (memory)
#else
#define INSTRUMENT_ROWS
#define instrument_written(memory, bytes) ((void) (memory), (void) (bytes))
#define instrument_give(memory) ((void) (memory))
#define instrument_take(memory) ((void) (memory))
#endif

#endif
