/*  patience_state -- what a data set knows of its reads that failed and may not fail again; patience.c
 *  changes it.  */
#ifndef PATIENCE_STATE_H
#define PATIENCE_STATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PATIENCE_REASON_BYTES = 512 };

typedef struct resting resting_t;

typedef struct {
    resting_t *first, *last;
    size_t count;
} resting_list_t;

//  A data set's; nothing but zeros at first.
typedef struct {
    resting_list_t failing;             //  failed reads, in the order of their failures
    resting_list_t held;                //  reads held back while the data set is stopped
    uint32_t row;                       //  different reads that failed since the last success
    bool is_still;
    int64_t still_ms;                   //  since then
    bool is_hopeless;                   //  too many have failed for too long
    bool is_replaced;                   //  the data are not those that were there at the start
    uint32_t rounds;                    //  of probes
    uint32_t probes;                    //  how many may be made now
    int64_t probe_ms;                   //  when the next ones are due
    int64_t counted_ms;                 //  a read's failures before this time are forgotten
    //  what log and jobs are told
    bool is_trouble;                    //  since its first failure, until a while after the last one:
    int64_t since_ms, failed_ms;        //  when these were
    bool was_good;                      //  a read has succeeded since then
    int told;                           //  the last level that the log reported
    bool to_tell;
    char reason [PATIENCE_REASON_BYTES];        //  of the last failure; names the file
    int rc;                             //  its -errno
    char *notice;                       //  what jobs are told,
    uint64_t notices;                   //  and its number
} patience_t;

#endif
