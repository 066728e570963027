/*  store -- an object store or a web server that holds a data set, as a user names it: s3://BUCKET/PREFIX or
 *  http(s)://HOST/PATH.
 *
 *  A store answers ranged GETs of named objects below its address, and a bucket takes objects by PUT
 *  (docs/stores.md).  Here are the calls that wait for their answer, for opening, for single samples and for
 *  packing; a server's reads of whole pieces go through a device's thread (reader.h), which uses the store's
 *  account and URLs.
 *
 *  failure modes:  a failure that may pass (transfers.h: a broken connection, a busy store) is tried again
 *                  where the bytes ended, after a pause of 0.1 to 2 s, at random within a half, for as long
 *                  as the caller is patient.  An object that is written is sent again from its begin.
 *  Any thread may use it.
 */
#ifndef STORE_H
#define STORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "account.h"
#include "keyring.h"
#include "transfers.h"

//  ---- addresses

//  Where an object store's data lie, as users write it: s3://BUCKET/PREFIX, http(s)://HOST/PATH.
//  Plain data; any thread.

typedef struct {
    bool is_s3;
    char *host;                 //  s3: the bucket; else "https://host:port"
    char *path;                 //  no slash at either end; s3: the prefix of keys, as it is; else encoded
} store_address_t;

//  Whether the text is meant as one: s3://, http:// or https:// in any case.
bool store_address_is_meant (const char *text);
//  0 and the address is the caller's; or -errno and in error (always ended) what is wrong and how to mend it:
//  -EINVAL, -ENOMEM.  Addresses with a user, a password, a query or a fragment are refused: they would be
//  shown in logs and `status`.
int store_address_parse (store_address_t *self, const char *text, char *error, size_t error_bytes);
void store_address_clear (store_address_t *self);

//  The URL of the object with this name below the address, or, where name is NULL, of the object that the
//  address is: the caller's; NULL: no memory.  Of s3, base is the bucket's URL; otherwise it is not used.
char *store_address_url (const store_address_t *self, const char *base, const char *name);


//  ---- the store

typedef struct store store_t;

enum { STORE_TOGETHER_MAX = 64 };

//  Whether the text is the address of a store, and no path.
bool store_is_meant (const char *text);
//  Finds keys and endpoint where AWS's tools find them (account.h); asks the store nothing, but the service
//  that gives the keys, if that is where they come from.  Keys that end are renewed by a thread of the
//  store's (keyring.h).  0, or -errno, *self_p NULL and in error (always ended) what is wrong and how to mend
//  it.
int store_open (store_t **self_p, const char *address, char *error, size_t error_bytes);
void store_destroy (store_t **self_p);

//  What answers, without the path: "s3://bucket", "https://host"; lent.
const char *store_name (const store_t *self);
//  For transfers; NULL: of a web server, where requests are not signed.  Lent.
const account_t *store_account (const store_t *self);
//  For transfers, lent; NULL: requests are not signed.
keyring_t *store_keys (const store_t *self);
//  Where the keys come from (static, for people) and how they are; false: requests are not signed.
bool store_look_at_keys (const store_t *self, const char **from_p, keyring_look_t *look);
//  The proxy through which the calls here go, for people (http_show_proxy); "": none, or nothing was asked.
void store_show_proxy (const store_t *self, char shown [HTTP_PROXY_SHOWN_BYTES]);
//  Of the object with this name below the address; the caller's; NULL: no memory.
char *store_url (const store_t *self, const char *name);
//  Whether it can list its objects: web servers cannot.
bool store_lists (const store_t *self);
//  Of s3: the URL of a page of the list of objects below the address with names that begin with `begin`: with
//  is_flat those without a further slash, and of the others the text up to it; from `token` on, which the
//  page before gave (NULL: the first).  The caller's; NULL: no memory.
char *store_list_url (const store_t *self, const char *begin, bool is_flat, const char *token);
//  The address below its bucket or host, without slashes at its ends; lent.
const char *store_path (const store_t *self);

//  Carries out all transfers, up to STORE_TOGETHER_MAX at once, and waits for them.  0, or the -errno of the
//  first one that failed, to be found in it; then others may not have been begun.
int store_get (store_t *self, transfer_t *transfers, size_t count, uint32_t patience_ms);
//  The same, for objects that are written too.
typedef struct store_persistence {
    uint32_t patience_ms;
    bool takes_long;                    //  patience counts from the first failure behind the last success
    bool (*stopped) (void *context);    //  asked several times a second; true: -ECANCELED.  NULL: never
    void *context;
} store_persistence_t;
int store_carry_out (store_t *self, transfer_t *transfers, size_t count, const store_persistence_t *how);
//  SHA-256 of so many bytes of a file, as transfer_upload_t wants it.  0, or -errno: -ENODATA it is shorter,
//  -ECANCELED.
enum { STORE_CHECKSUM_BYTES = 65 };
int store_checksum (int descriptor, uint64_t bytes, const store_persistence_t *how,
    char checksum [STORE_CHECKSUM_BYTES]);
//  Writes a sentence on a failed transfer of this object, or of a list (NULL): what failed, and a remedy.
void store_explain (const store_t *self, const char *name, const transfer_t *transfer, char *error,
    size_t error_bytes);

//  ---- objects that are named by addresses of their own

//  Whether this address is of the same bucket or web server, so that the store's keys and connections are for
//  it too.
bool store_covers (const store_t *self, const char *address);
//  The URL of an object with this address, which the store covers: the caller's; NULL: no memory.
char *store_object_url (const store_t *self, const char *address);
void store_explain_address (const store_t *self, const char *address, const transfer_t *transfer, char *error,
    size_t error_bytes);

//  ---- for what carries out transfers by itself

//  Connections of the store's; give them back with no transfer under way.  0, or -ENOMEM.
int store_take (store_t *self, transfers_t **transfers_p);
void store_give (store_t *self, transfers_t *transfers);
//  Whether there are other keys than those that the store refused to this transfer, which has failed.  Waits
//  for the keyring to look for them, up to 2 * KEYRING_REFUSED_S.  false at once: the transfer failed for
//  another reason, or the refused keys were found just now and have not ended.
bool store_has_other_keys (store_t *self, const transfer_t *refused);
//  Sleeps behind the nth failure in a row, from 0 on.
void store_pause (uint32_t failures);

#endif
