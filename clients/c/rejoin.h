/*  rejoin -- when to look for a server that is gone, for how long, and what is no use.
 *
 *  The first try is made at once; each that comes to nothing is followed by a pause, from REJOIN_PAUSE_MS to
 *  REJOIN_PAUSE_MS_MAX.  Knows no socket: the courier asks it.
 */
#ifndef REJOIN_H
#define REJOIN_H
#include <stdbool.h>
#include <stdint.h>
#include "message.h"

enum { REJOIN_PAUSE_MS = 100, REJOIN_PAUSE_MS_MAX = 2000, REJOIN_DEFAULT_MS = 300000 };

typedef struct {
    int64_t limit_ms;                   //  how long to look; below 0: not at all
    int64_t since_ms;                   //  when it was lost; later by the time that it was there and gave
                                        //  nothing
    int64_t found_ms;                   //  when it was joined again last; 0: never
    int64_t next_ms;                    //  the next try
    int64_t pause_ms;
    char how [200];                     //  it was lost
    char last [256];                    //  what came of the last try; "": nobody answered
} rejoin_t;

//  gave: did a batch come since it was joined (again)?  One that was found and gave nothing is still looked
//  for: the pauses grow on, and the limit is not begun anew.
void rejoin_begin (rejoin_t *self, const char *how, bool gave, int64_t now_ms);
void rejoin_found (rejoin_t *self, int64_t now_ms);
//  What the server says while it does not answer yet.
void rejoin_hear (rejoin_t *self, const char *text);
//  A try came to nothing.  why: NULL: nobody answered.
void rejoin_postpone (rejoin_t *self, const char *why, int64_t now_ms);
bool rejoin_is_due (const rejoin_t *self, int64_t now_ms);
bool rejoin_is_over (const rejoin_t *self, int64_t now_ms);
//  What is left of the time, as JOIN's `gather` takes it.
uint32_t rejoin_left_seconds (const rejoin_t *self, int64_t now_ms);
//  The sentence when it is over.
void rejoin_explain (const rejoin_t *self, const char *address, int64_t now_ms, message_error_t *error);

//  Is an ENDED with this reason, or an ERROR with this code, the end of the server or of its memory of us, so
//  that joining again will help?
bool rejoin_helps (const char *code);
//  May the same JOIN that was refused with this code be taken later?  joined: the job has run before, so that
//  there is room for it once those that ended with it are gone; a first JOIN that asks for too much is told
//  so.
bool rejoin_may_pass (const char *code, bool joined);
//  Would the user's batches be the same arrays?  False: error says what differs.
bool rejoin_is_same (const message_joined_t *before, const message_joined_t *after, message_error_t *error);

#endif
