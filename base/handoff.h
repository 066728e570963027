/*  handoff -- tells the thread sanitizer about memory that changes hands inside ZeroMQ, which it cannot see
 *  into.
 *
 *  handoff_give (memory) before the memory goes to ZeroMQ, handoff_take (memory) when a thread of ZeroMQ
 *  gives it back. Without the sanitizer both are nothing: ZeroMQ's own queues order the accesses.
 */
#ifndef HANDOFF_H
#define HANDOFF_H

#include "instrument.h"

#ifdef INSTRUMENT_TSAN
#include <sanitizer/tsan_interface.h>
#define handoff_give(memory) __tsan_release (memory)
#define handoff_take(memory) __tsan_acquire (memory)
#else
#define handoff_give(memory) ((void) (memory))
#define handoff_take(memory) ((void) (memory))
#endif

#endif
