/*  effort -- how much of a long test is done.
 *
 *  More rounds sharpen a statistical judgement and reach more states.  `sh tests/run.sh` runs a third of the
 *  rounds, `sh tests/run.sh --all` (TUREEN_ALL_TESTS) all of them.  A few rounds show a sanitizer every piece
 *  of code, and sanitizers are slow: under the address sanitizer (5 x slower) a test runs a fifth of its
 *  rounds, under the thread sanitizer (15 x slower, with little to find in a test of one thread) a tenth.
 *  EFFORT (10) is 10, 3, 2 or 1.
 */
#ifndef EFFORT_H
#define EFFORT_H

#if defined (__has_feature)
#if __has_feature (thread_sanitizer)
#define EFFORT_THREADS
#elif __has_feature (address_sanitizer)
#define EFFORT_ADDRESSES
#endif
#endif
#if defined (__SANITIZE_THREAD__)
#define EFFORT_THREADS
#elif defined (__SANITIZE_ADDRESS__)
#define EFFORT_ADDRESSES
#endif

#if defined (EFFORT_THREADS)
#define EFFORT(rounds) ((rounds) / 10)
#elif defined (EFFORT_ADDRESSES)
#define EFFORT(rounds) ((rounds) / 5)
#elif !defined (TUREEN_ALL_TESTS)
#define EFFORT(rounds) ((rounds) / 3)
#else
#define EFFORT(rounds) (rounds)
#endif

#endif
