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
 *  Read strictly: what is unclear is refused, and no text that is given tells anything of a file's content.
 *  Owner: whoever read them, who wipes them.  Threads: no state.
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

//  What a client at that address has: key is the path of its certificate, server_key the server's public key
//  or the path of its public certificate; NULL and "": $TUREEN_KEY, $TUREEN_SERVER_KEY, else none.  At ipc://
//  nothing is read, for there the user counts.  0; or -EINVAL with error filled, *self wiped: one without the
//  other, a file that is missing, damaged or another's to read.
int credentials_read (credentials_t *self, const char *key, const char *server_key, const char *address,
    message_error_t *error) TUREEN_CHECKED;
void credentials_wipe (credentials_t *self);
bool credentials_are_given (const credentials_t *self);

//  One certificate's text: fills public_key, and secret_key if there is one.  NULL; or what is wrong with it,
//  static, and *self is wiped.
const char *credentials_parse (credentials_t *self, const char *text, size_t size);

#endif
