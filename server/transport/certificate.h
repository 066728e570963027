/*  certificate -- one file with a CURVE key, as czmq's zcert writes them and pyzmq reads them (ZPL).
 *
 *      #   ZeroMQ CURVE Public Certificate
 *      metadata
 *          tenant = "vision"               of keys that a server admits (client_keys.h), with the next two
 *          operator = "yes"
 *          since = "2026-11-22T15:00:00Z"
 *          worker = "yes"                  of keys of workers
 *      curve
 *          public-key = "...40 characters of Z85..."
 *          secret-key = "..."              in FILE_secret only
 *
 *  A parser of its own reads them, because czmq's prints lines that it does not understand, which may hold a
 *  secret.  It accepts a part of ZPL strictly: it refuses anything unclear, and no text of its own reveals
 *  the content.  Threads: no state.
 */
#ifndef CERTIFICATE_H
#define CERTIFICATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    CERTIFICATE_KEY_CHARS = 40,             //  Z85 of
    CERTIFICATE_KEY_BYTES = 32,
    CERTIFICATE_NAME_MAX = 64,              //  of tenants and labels
    CERTIFICATE_BYTES_MAX = 4096
};

typedef struct {
    char public_text [CERTIFICATE_KEY_CHARS + 1];
    char secret_text [CERTIFICATE_KEY_CHARS + 1];       //  "": none
    char tenant [CERTIFICATE_NAME_MAX + 1];             //  the same
    char since [32];                                    //  the same
    bool is_operator;
    bool is_worker;                                     //  lends processors, and may do nothing else
} certificate_t;

//  Letters, digits, '.', '_', '-', 1 to CERTIFICATE_NAME_MAX of them, the first no '.'.
bool certificate_is_name (const char *text);
//  40 characters of Z85 for the 32 bytes of a key.  The few points with publicly known secrets are no keys.
bool certificate_is_key (const char *text);

//  NULL: *self holds what the text says; otherwise the fault, static, and *self is wiped.
const char *certificate_parse (certificate_t *self, const char *text, size_t size);

typedef enum {
    CERTIFICATE_ANY,                        //  a file from elsewhere: any user may be able to write it, links
                                            //  are followed
    CERTIFICATE_GUARDED,                    //  no link; the owner's or root's, and no other user may write it
    CERTIFICATE_SECRET                      //  also readable by no other user, with both keys, which belong
                                            //  together
} certificate_guard_t;

//  Reads the file at path, from folder (AT_FDCWD).  0; -EBADMSG: *reason_p (static) is the fault; otherwise
//  -errno.
int certificate_read (certificate_t *self, int folder, const char *path, certificate_guard_t guard,
    uid_t owner, const char **reason_p);
//  Writes a new file in the folder, whole or not at all.  Only its owner can read it from its first moment;
//  if this process is root, it gives the file to the owner.  with_secret: both keys.  0; -EEXIST: the
//  existing file stays; otherwise -errno.
int certificate_write (const certificate_t *self, int folder, const char *name, bool with_secret,
    uid_t owner);

//  A fresh pair of keys, and no metadata.
void certificate_make (certificate_t *self);
void certificate_wipe (certificate_t *self);

#endif
