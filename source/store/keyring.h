/*  keyring -- the keys of a store as they are now: a thread renews them before they end.
 *
 *  happy path:     keyring_new (the first keys) .. keyring_take for each request
 *  renewal:        MARGIN_S before the keys end, or when half of their life is over if that is shorter; a
 *                  little earlier by chance, so that not all servers ask at once.  Keys that a store refuses
 *                  are renewed as well, at most once in REFUSED_S (of a service that gives such keys again:
 *                  with growing pauses).
 *  failure modes:  the source fails: the old keys stay, and it is asked again with growing pauses, at random
 *                  within a half; keyring_look says why.  Keys that have ended stay too: the store's clock
 *                  counts.
 *  on close:       keyring_destroy stops the source in the middle of an answer, and joins the thread.
 *
 *  Any thread; the thread of the ring alone asks the source.
 */
#ifndef KEYRING_H
#define KEYRING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "account.h"

typedef struct keyring keyring_t;

enum { KEYRING_MARGIN_S = 300, KEYRING_REFUSED_S = 5, KEYRING_TROUBLE_BYTES = 700 };

//  Where keys come from.
typedef struct {
    //  New keys, held by the caller; or -errno and in error (always ended) why not.  Blocks.
    int (*ask) (void *context, account_key_t **key_p, char *error, size_t error_bytes);
    //  Lets `ask` end soon, now and from now on; from another thread.
    void (*stop) (void *context);
    void *context;                      //  lent
    bool is_service;                    //  not to be asked often, even if its keys are refused
} keyring_source_t;

typedef struct {
    int64_t ends_s;                     //  of the keys; 0: never, or unknown
    uint64_t renewals;
    char trouble [KEYRING_TROUBLE_BYTES];   //  why the last renewal failed; "": it did not
} keyring_look_t;

//  Takes the first keys.  source: NULL: these stay for ever, and there is no thread.  0; or -errno and
//  *self_p NULL (the keys are taken all the same).
int keyring_new (keyring_t **self_p, account_key_t **first_p, const keyring_source_t *source);
void keyring_destroy (keyring_t **self_p);

//  The keys of now, held by the caller, and their number.
account_key_t *keyring_take (keyring_t *self, uint64_t *number_p);
//  The store refused the keys with this number.  Never blocks for long.
void keyring_refused (keyring_t *self, uint64_t number);
//  Waits until there are other keys than those with this number, which the store has refused, or limit_ms are
//  over; does not wait if the source has been asked in vain since, or will not be asked within limit_ms.
//  Whether there are others.
bool keyring_await (keyring_t *self, uint64_t number, uint32_t limit_ms);
//  Whether the source had been asked within KEYRING_REFUSED_S when the keys with this number, which are those
//  of now, were refused: asking again would hardly help.
bool keyring_was_fresh (keyring_t *self, uint64_t number);
void keyring_look (keyring_t *self, keyring_look_t *look);

//  When keys that end after life_ms are to be renewed, in ms from now; chance: 0 .. 1000.
int64_t keyring_renewal_ms (int64_t life_ms, uint32_t chance);

#endif
