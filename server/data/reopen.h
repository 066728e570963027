/*  reopen -- data sets that were added to a server, and are opened again when it has died and was started
 *  again.
 *
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
 *  Owner: one thread.
 */
#ifndef REOPEN_H
#define REOPEN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "log.h"
#include "options.h"
#include "tenant.h"

//  ---- the memory

//  A descriptor that children inherit; or -errno.
int reopen_memory (void);
//  False: it cannot be written, and errno has the reason.  The copy of before holds then.
bool reopen_write (int descriptor, const char *text, size_t bytes);
//  The caller's, with a zero behind it; NULL: there is none, or it is damaged.
char *reopen_read (int descriptor);

//  ---- the data sets

//  One that an earlier process of this server had added, and that is not placed yet.
typedef struct {
    json_t *words;                      //  as options_parse_added takes them
    char *name;
    char *classes_from;                 //  NULL: none
    uint64_t tenants;                   //  a bit for each one of the settings that may use it
    bool is_begun;                      //  it is being opened
    bool is_left_out;                   //  it cannot be opened
} reopen_one_t;

typedef struct {
    const options_t *options;           //  lent, as the log
    log_t *log;
    reopen_one_t *all;                  //  in the order in which they were placed
    size_t count;
} reopen_t;

//  added: of the text that was read, the words of each; NULL: none.
void reopen_begin (reopen_t *self, const options_t *options, log_t *log, const json_t *added);
void reopen_end (reopen_t *self);
//  NULL: none of this name.
reopen_one_t *reopen_named (const reopen_t *self, const char *name);
//  An array of its words, which lie in the JSON; the caller frees it.
const char **reopen_words (const reopen_one_t *one, size_t *count_p);
//  False: there is none of this name.
bool reopen_forget (reopen_t *self, const char *name);
//  The one at that place: those behind it move up.
void reopen_drop (reopen_t *self, size_t at);
void reopen_leave_out (const reopen_t *self, reopen_one_t *one, const char *why);
//  Whether the tenant may use one of this name, which is to be opened still.
bool reopen_awaits (const reopen_t *self, const tenant_t *tenant, const char *name);
//  Whether there is any such one.
bool reopen_is_busy (const reopen_t *self);
//  Writes, for a process of this server that is started in its place: changes (served_changes), taken, and
//  what is to be opened still.
void reopen_keep (const reopen_t *self, int descriptor, json_t *changes);

#endif
