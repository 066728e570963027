/*  additions -- data sets that are added to a running server, and taken from it.  Those that an earlier
 *  process of this server had added are opened again by the first additions_act.
 *
 *  happy path:     additions_add begins an opening; a thread of its own lists, reads and measures the data
 *                  set; additions_act gives it to the broker; additions_add then says READY.
 *  failure modes:  the data set cannot be opened: calls for it are refused with the reason for some seconds,
 *                  and a call after that tries again.  Of folders that hang, the first three hold up other
 *                  openings for seconds, and nothing else.
 *  on close:       what is not open yet is given up.
 *
 *  What was added is there again when the server has died and was started again.
 *  A server writes how its data sets differ from the settings, as a text, into memory that it has in common
 *  with the process that is started in its place, by an inherited descriptor:
 *
 *      8 bytes     where the copy begins; 0: there is none
 *      a copy      bytes 8 | XXH3-64 of the text 8 | the text
 *
 *  A new copy is written beside the one that holds, and then the first 8 bytes: a process that is killed at
 *  any moment leaves the old copy or the new one.
 *
 *  The new process keeps each of them by its words until it is placed, or an operator adds or removes the
 *  name: one that cannot be opened now may be after the next restart.
 *
 *  Owner: the broker's thread.
 */
#ifndef ADDITIONS_H
#define ADDITIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "broker.h"
#include "log.h"
#include "reply.h"
#include "served.h"
#include "tasks.h"

typedef struct additions additions_t;

typedef struct {
    broker_t *broker;                   //  lent, as all of these
    served_sets_t *sets;
    tasks_t *tasks;
    log_t *log;
    int kept;                           //  additions_kept_memory; -1: none
} additions_options_t;

//  Starts no thread yet.  NULL: no memory, or no descriptor.
additions_t *additions_new (const additions_options_t *options);
//  The threads begin no data set any more.  Does not wait.
void additions_stop (additions_t *self);
//  Waits for the threads, one of which may be in a folder that hangs (serve_ending_t ends the process then).
//  Before tasks_destroy and served_close.
void additions_destroy (additions_t **self_p);

typedef enum { ADDITIONS_REFUSED, ADDITIONS_OPENING, ADDITIONS_READY } additions_state_t;

//  Asks for the data sets of these words, as `tureen serve` takes them (options_parse_added): all are added,
//  or none.  The call may be repeated until they are READY; they are at once if they are there with the same
//  settings.  *text_p, lent until the next call: what is being done (OPENING), or the lines that tell what
//  was found, each with its newline (READY).  REFUSED: refusal has the reason.
additions_state_t additions_add (additions_t *self, const char *const *words, size_t count,
    const char **text_p, refusal_t *refusal);
//  Takes the data set away; with `now`, its jobs end (`removed`).  One that is being added is given up.
//  waiting: joins that wait for ranks and name it.  False: refusal has the reason.  One by the classes of
//  which another one is numbered does not go.
bool additions_remove (additions_t *self, const char *name, bool now, size_t waiting, refusal_t *refusal);
//  Gives what was opened to the broker, and frees data sets that nothing uses any more.
void additions_act (additions_t *self, int64_t now_ms);
//  Refuses the name (`opening`) of a data set that the tenant may use, that was there before this server died
//  and was started again, and that is still being opened.  Clients ask again: it is there in a moment, or is
//  left out.  self NULL: allowed.
bool additions_allows (const additions_t *self, const tenant_t *tenant, const char *name, refusal_t *refusal);
//  Whether there is any such one.
bool additions_is_busy (const additions_t *self);
//  Readable when additions_act has something to do at once; call it every half second too.
int additions_descriptor (const additions_t *self);

//  ---- what is kept for the process that is started in this one's place

//  A descriptor that children inherit; or -errno.
int additions_kept_memory (void);
//  False: it cannot be written, and errno has the reason.  The copy of before holds then.
bool additions_kept_write (int descriptor, const char *text, size_t bytes);
//  The caller's, with a zero behind it; NULL: there is none, or it is damaged.
char *additions_kept_read (int descriptor);

#endif
