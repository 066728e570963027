/*  credentials -- a client's CURVE keys, for a server on tcp:// that takes no others: its own pair, and the
 *  server's public key.
 *
 *  A certificate is a file as czmq's zcert and pyzmq write it (ZPL):
 *
 *      metadata
 *          name = "whatever"               ignored
 *      curve
 *          public-key = "...40 characters of Z85..."
 *          secret-key = "..."              in PATH_secret only
 *
 *  Read strictly: anything unclear is refused, and no text reveals a file's content.  Owner: the caller that
 *  read them, which wipes them.  Threads: no state.
 */
#ifndef CREDENTIALS_H
#define CREDENTIALS_H
#include <stdbool.h>
#include <stddef.h>
#include "message.h"

enum {
    CREDENTIALS_KEY_CHARS = 40,         //  Z85 of 32 bytes
    CREDENTIALS_FILE_BYTES_MAX = 4096
};

//  All zero: there are none.
typedef struct {
    char public_key [CREDENTIALS_KEY_CHARS + 1];
    char secret_key [CREDENTIALS_KEY_CHARS + 1];
    char server_key [CREDENTIALS_KEY_CHARS + 1];
} credentials_t;

//  Reads the credentials for that address: key is the path of the client's certificate, server_key the
//  server's public key or the path of its public certificate; NULL and "": $TUREEN_KEY, $TUREEN_SERVER_KEY,
//  or none.  For ipc:// nothing is read, because the uid counts.  0; or -EINVAL with error filled, *self
//  wiped: one without the other, or a file that is missing, damaged or readable by other users.
int credentials_read (credentials_t *self, const char *key, const char *server_key, const char *address,
    message_error_t *error) TUREEN_CHECKED;
void credentials_wipe (credentials_t *self);
bool credentials_are_given (const credentials_t *self);

//  Parses a certificate: fills public_key, and secret_key if there is one.  NULL; or the fault, static, and
//  *self is wiped.
const char *credentials_parse (credentials_t *self, const char *text, size_t size);

#endif
