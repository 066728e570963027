/*  effort -- how much of a long test is done.
 *
 *  Rounds make a judgement by chance sharper and reach more states.  `sh tests/run.sh` does a third of them,
 *  `sh tests/run.sh --all` (TUREEN_ALL_TESTS) does all.  A sanitizer sees each piece of code in a few rounds and
 *  makes them slow: the address sanitizer (five times) does a third, the thread sanitizer (fifteen times), which
 *  has little to find in a test of one thread, a tenth.
 *  EFFORT (10) is 10, 3 or 1: for what is left out.
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
#elif defined (EFFORT_ADDRESSES) || !defined (TUREEN_ALL_TESTS)
#define EFFORT(rounds) ((rounds) / 3)
#else
#define EFFORT(rounds) (rounds)
#endif

#endif
