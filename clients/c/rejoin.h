/*  rejoin -- when to look for a server that is gone, for how long, and what is no use.
 *
 *  The first try is made at once; after each failed one comes a pause, from REJOIN_PAUSE_MS to
 *  REJOIN_PAUSE_MS_MAX.  Knows no socket: the loader's thread asks it.
 */
#ifndef REJOIN_H
#define REJOIN_H
#include <stdbool.h>
#include <stdint.h>
#include "message.h"

enum { REJOIN_PAUSE_MS = 100, REJOIN_PAUSE_MS_MAX = 2000, REJOIN_DEFAULT_MS = 300000 };

typedef struct {
    int64_t limit_ms;                   //  how long to look; below 0: not at all
    int64_t since_ms;                   //  when it was lost, plus the time that it was back without giving a
                                        //  batch
    int64_t found_ms;                   //  when it was last joined again; 0: never
    int64_t next_ms;                    //  the next try
    int64_t pause_ms;
    char how [200];                     //  it was lost
    char last [256];                    //  the result of the last try; "": no server answered
} rejoin_t;

//  gave: whether a batch came since it was joined (again).  If a server was found and gave nothing the search
//  continues: the pauses still grow, and the time limit does not start again.
void rejoin_begin (rejoin_t *self, const char *how, bool gave, int64_t now_ms);
void rejoin_found (rejoin_t *self, int64_t now_ms);
//  The server's text while it does not answer yet.
void rejoin_hear (rejoin_t *self, const char *text);
//  A try failed.  why: NULL: no server answered.
void rejoin_postpone (rejoin_t *self, const char *why, int64_t now_ms);
bool rejoin_is_due (const rejoin_t *self, int64_t now_ms);
bool rejoin_is_over (const rejoin_t *self, int64_t now_ms);
//  The rest of the time, for JOIN's `gather`.
uint32_t rejoin_left_seconds (const rejoin_t *self, int64_t now_ms);
//  The sentence when it is over.
void rejoin_explain (const rejoin_t *self, const char *address, int64_t now_ms, message_error_t *error);

//  Whether an ENDED with this reason, or an ERROR with this code, means that the server ends or does not know
//  us, so that joining again will help.
bool rejoin_helps (const char *code);
//  Whether a JOIN refused with this code is to be sent again in a moment, also the first one.
bool rejoin_asks_again (const char *code);
//  Whether a JOIN refused with this code may be accepted later.  joined: the job has run before, so there
//  will be room for it when the jobs that ended with it are gone; a first JOIN that asks for too much is
//  refused.
bool rejoin_may_pass (const char *code, bool joined);
//  Whether the user's batches would have the same arrays.  False: error says what differs.
bool rejoin_is_same (const message_joined_t *before, const message_joined_t *after, message_error_t *error);

#endif
