/*  transfers -- ranges of objects, and whole answers, are read over HTTP, and whole objects are written, many
 *  at once from one thread, through libcurl's multi interface.
 *
 *  happy path:     transfers_new .. transfers_begin .. transfers_wait .. transfers_take (rc 0, bytes there)
 *  A range, or an answer, that comes far more slowly than others is given up, and what is missing is asked
 *  for again on a new connection (pace.h); that is no failure.
 *
 *  failure modes:  in the transfer: no memory is lost and nothing that failed is retried here.  -errno says
 *                  of what kind it is:
 *                  -EBUSY          429, 408, 5xx: the store asks to be asked later; or an object that was
 *                                  written has not arrived as it was sent
 *                  -ETIMEDOUT      no connection within CONNECT_S, or under PACE_STILL_BYTES a second for
 *                                  STILL_S (CONFIRM_S where an object is written), to connect included
 *                  -ECONNRESET -ECONNREFUSED -EHOSTUNREACH     the connection ended, or there is none
 *                  -EKEYREJECTED   401, 403: the keys do not allow it
 *                  -EKEYEXPIRED    temporary keys have ended, or the clocks differ
 *                  -ENOENT         404: no such object or bucket
 *                  -EREMCHG        the object is not the version that was asked for (by the store's word, or
 *                                  as the answer's head shows: no byte of another is taken), not the one of
 *                                  which the bytes before came, not of expected_bytes, or ends before the
 *                                  range
 *                  -EPROTO         anything else that is no answer to the question, a server without ranges
 *                                  included
 *                  -EIO            the file that is to be written cannot be read
 *                  `done` bytes at the begin of the memory are good also where the transfer failed.  Of an
 *                  object that is written, the store keeps all or nothing.
 *  on close:       transfers under way are dropped; their memory is the caller's again.
 *
 *  Owner: one thread, which may be another one after transfers_new.
 */
#ifndef TRANSFERS_H
#define TRANSFERS_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "account.h"
#include "http.h"
#include "keyring.h"

typedef struct transfers transfers_t;

enum { TRANSFER_VERSION_BYTES = 80, TRANSFER_DETAIL_BYTES = 160 };

//  What a transfer writes: a file, from its begin.
typedef struct {
    int descriptor;                     //  read by pread
    const char *checksum;               //  SHA-256 in hexadecimal digits, by which the store checks what
                                        //  arrives, if requests are signed
    atomic_uint_fast64_t *sent;         //  bytes that went out are added, and taken back if it fails; NULL
} transfer_upload_t;

typedef struct transfer {
    //  the question; lent until it is taken
    const char *url;
    const transfer_upload_t *upload;    //  NULL: reads a range.  Else writes the object, of `bytes` bytes;
                                        //  version, offset, memory and is_afresh are not used
    const char *version;                //  the ETag that it must have; NULL or "": any.  A weak one (W/"..")
                                        //  is compared here alone: stores take it for no condition
    uint64_t expected_bytes;            //  the whole object's size, if it is known; 0: any
    uint64_t offset;
    size_t bytes;                       //  > 0
    uint8_t *memory;
    bool is_afresh;                     //  past the caches on the way
    bool is_whole;                      //  all of an answer that has at most `bytes`, of an unknown size, and
                                        //  always from its begin: no range is asked for
    void *user;                         //  the caller's
    //  the answer
    int rc;                             //  0 or -errno
    size_t done;                        //  bytes in memory; 0 at first; a range that is begun again goes on
                                        //  behind them.  Of an object that is written: all or 0
    int status;                         //  HTTP's; 0: no answer
    uint32_t given_up;                  //  requests that were far slower than others, and were made again
    uint64_t keys_number;               //  of the keys that signed it (keyring.h); 0: not signed
    uint64_t object_bytes;              //  of the whole object; 0: unknown
    char object_version [TRANSFER_VERSION_BYTES];       //  its ETag; "": it has none
    char proxy [HTTP_PROXY_BYTES];      //  the environment variable with the proxy that was asked; "": none
    char detail [TRANSFER_DETAIL_BYTES];                //  of a failure, for people: "404 NoSuchKey"
    //  the transfers'
    struct transfer *next;
    uint64_t first_bytes;               //  object_bytes and object_version of the answer that gave the first
    char first_version [TRANSFER_VERSION_BYTES];        //  of the bytes that are done
} transfer_t;

//  account: lent; NULL: of a web server.  keys: lent; each request is signed with those that are in it then;
//  NULL: requests are not signed.  0, or -ENOMEM and *self_p NULL.
int transfers_new (transfers_t **self_p, const account_t *account, keyring_t *keys);
void transfers_destroy (transfers_t **self_p);

//  It is under way from now on, beside all others.  0, or -ENOMEM, in its rc too, and it is not.
int transfers_begin (transfers_t *self, transfer_t *transfer);
//  Drops a transfer that was begun and not taken: it will not be taken, and its memory is the caller's.
void transfers_drop (transfers_t *self, const transfer_t *transfer);
//  Moves all transfers on, and waits until one is done, one of the descriptors (at most
//  TRANSFERS_DESCRIPTORS_MAX) is readable, or limit_ms are over (0: does not wait; below 0: there is no
//  limit).  May return early.
enum { TRANSFERS_DESCRIPTORS_MAX = 1027 };
void transfers_wait (transfers_t *self, const int *descriptors, size_t count, int limit_ms);
//  One that is done; NULL: none.  Never waits.
transfer_t *transfers_take (transfers_t *self);
//  Whether a version is weak (W/".."): it can be no condition, and is only compared.
bool transfers_version_is_weak (const char *version);
//  Whether both versions are known, and differ.  A weak one equals the strong one of the same text.
bool transfers_version_is_other (const char *one, const char *other);
//  Whether the same transfer may succeed later.
bool transfers_may_pass (int rc);
//  What a transfer's -errno means, for people: "the store refuses the keys"; static.
const char *transfers_error (int rc);

//  "libcurl/7.88.1"; static.
const char *transfers_library (void);

#endif
