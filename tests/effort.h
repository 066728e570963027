/*  effort -- how much of a long test is done.
 *
 *  More rounds sharpen a statistical judgement and reach more states.  `sh tests/run.sh` runs a third of the
 *  rounds, `sh tests/run.sh --all` (TUREEN_ALL_TESTS) all of them.  A few rounds show a sanitizer every piece
 *  of code, and sanitizers are slow (the address sanitizer 5 x, the thread sanitizer 15 x): there a test runs
 *  a tenth of its rounds, and one at least.  EFFORT (10) is 10, 3 or 1.
 */
#ifndef EFFORT_H
#define EFFORT_H

#if defined (__has_feature)
#if __has_feature (thread_sanitizer) || __has_feature (address_sanitizer)
#define EFFORT_SANITIZED
#endif
#endif
#if defined (__SANITIZE_THREAD__) || defined (__SANITIZE_ADDRESS__)
#define EFFORT_SANITIZED
#endif

#if defined (EFFORT_SANITIZED)
#define EFFORT(rounds) (((rounds) + 9) / 10)
#elif !defined (TUREEN_ALL_TESTS)
#define EFFORT(rounds) (((rounds) + 2) / 3)
#else
#define EFFORT(rounds) (rounds)
#endif

#endif
