/*  access_key -- keys of an object store: a name, a secret, and of temporary keys a token and the time at
 *  which they end.
 *
 *  Immutable after access_key_new, and counted: each request is signed with the keys that it holds, while
 *  others replace them.  Secret and token are guarded (wiped.h).  (libcurl has copies of the token, which is
 *  in a header of each request.)  Any thread.
 */
#ifndef ACCESS_KEY_H
#define ACCESS_KEY_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { ACCESS_KEY_NAME_MAX = 128, ACCESS_KEY_SECRET_MAX = 256, ACCESS_KEY_TOKEN_MAX = 7 * 1024 };

typedef struct {
    char *name;                 //  shown in Authorization; no secret
    char *secret;               //  "AWS4" and the secret key, as signatures begin
    char *token;                //  of temporary keys; NULL: none
    int64_t ends_s;             //  since 1970; 0: never, or unknown
    atomic_uint holders;
} access_key_t;

//  0 and the caller holds it; or -ENOMEM, or -EBADMSG and *self_p NULL: a text is empty, too long, or has
//  characters that stand in no header.  token NULL or "": none.
int access_key_new (access_key_t **self_p, const char *name, const char *secret, const char *token,
    int64_t ends_s);
//  One more holder; returns self.
access_key_t *access_key_hold (access_key_t *self);
//  One less; the last one frees it.  Takes NULL inside, and nulls.
void access_key_release (access_key_t **self_p);
//  Whether both sign the same, and end at the same time.
bool access_key_equals (const access_key_t *self, const access_key_t *other);

#endif
