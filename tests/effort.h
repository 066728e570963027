/*  effort -- how much of a long test is done where the thread sanitizer makes it fifteen times as slow and, in a test of one
 *  thread, has little to find: a tenth.  The address sanitizer and plain builds do all of it.
 */
#ifndef EFFORT_H
#define EFFORT_H

#if defined (__SANITIZE_THREAD__)
#define EFFORT(rounds) ((rounds) / 10)
#elif defined (__has_feature)
#if __has_feature (thread_sanitizer)
#define EFFORT(rounds) ((rounds) / 10)
#endif
#endif
#ifndef EFFORT
#define EFFORT(rounds) (rounds)
#endif

#endif
