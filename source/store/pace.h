/*  pace -- whether a request to a store is far slower than those beside it, and is to be asked again on
 *  another connection.
 *
 *  What is usual is learned of requests that were done: the time until the first byte, and the time of each
 *  byte behind it, by size; of each the last PACE_KEPT, of which a tenth took longer than the usual time.  A
 *  request that takes longer than PACE_SLACK_MS and PACE_TIMES its usual time is asked again; a longer time
 *  counts if more requests are under way than usual, and a time twice as long behind each try.
 *
 *  Where the whole store is slow, asking again is of no use:
 *    - PACE_SHARE of the requests that were done may be asked again, at most PACE_SAVED of them at once.
 *      Where none is done for PACE_IDLE_MS, one more is, up to PACE_OWED of them that later requests make up
 *      for.  So of five hundred requests and more, one in twenty is asked again at most.
 *    - all others are waited for, and what they took is usual then.  Those that were given up count as the
 *      try that was done, so that a slow connection does not become usual.
 *  A request that gets less than PACE_STILL_BYTES a second for its patience has failed.
 *
 *  Times are those of the caller's two clocks, which stand still where the caller cannot look.  No input or
 *  output; owner: one thread.
 */
#ifndef PACE_H
#define PACE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PACE_KEPT = 64, PACE_SIZES = 4, PACE_SAVED = 8, PACE_OWED = 4, PACE_TIMES = 3, PACE_SLACK_MS = 10,
    PACE_IDLE_MS = 10000, PACE_STILL_BYTES = 1024,
    PACE_LOOK_MS = 5                    //  the caller looks so often
};
#define PACE_SHARE 0.04

//  When the caller looks.  Where it looks late, now_ms goes on by two PACE_LOOK_MS at most, so that its own
//  pauses make no request slow; patient_ms by two tenths of a second, so that patience ends there too.
typedef struct {
    int64_t now_ms, patient_ms;
} pace_time_t;

//  The last values, each of which replaces the oldest.
typedef struct {
    double values [PACE_KEPT];
    uint64_t count;                     //  of all that ever were
    double usual;                       //  a tenth of them are longer
} pace_values_t;

typedef struct {
    //  [0]: milliseconds until the first byte; of small answers, until the last one.  Others: milliseconds of
    //  a byte behind it, of larger and larger answers
    pace_values_t learned [PACE_SIZES];
    double beside;                      //  requests under way when one was done, itself included: a mean
    size_t under_way;
    double allowed;                     //  requests that may be asked again now; below 0: owed
    int64_t moved_ms;                   //  when one was done, or asked again
} pace_t;

typedef struct {
    uint64_t bytes;                     //  that are asked for; 0: unknown
    uint64_t came;
    uint32_t tries;                     //  before this one
    uint32_t patience_ms;               //  with less than PACE_STILL_BYTES a second
    int64_t began_ms, first_ms;         //  of this try; first_ms < 0: no byte has come
    int64_t mark_ms;                    //  when the present patience began: patient_ms,
    uint64_t mark_bytes;                //  and how many bytes had come by then
    bool is_never_again;                //  it is not asked again: an object that is written
} pace_request_t;

typedef enum { PACE_WAIT, PACE_AGAIN, PACE_STILL } pace_verdict_t;

pace_t pace_new (void);
//  A request begins.  Its bytes, patience_ms and is_never_again are set, the rest is 0.
void pace_begin (pace_t *self, pace_request_t *request, pace_time_t time);
//  It has this many bytes of this try now.
void pace_move (pace_request_t *request, uint64_t came, pace_time_t time);
//  PACE_AGAIN: the caller asks again, and pace_again follows.  PACE_STILL: it ends, and pace_end follows.
pace_verdict_t pace_judge (pace_t *self, const pace_request_t *request, pace_time_t time);
//  It is asked again, for these bytes.
void pace_again (pace_request_t *request, uint64_t bytes, pace_time_t time);
//  It has ended; is_good: with all its bytes.
void pace_end (pace_t *self, const pace_request_t *request, bool is_good, int64_t now_ms);

#endif
