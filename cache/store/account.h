/*  account -- the keys, region and endpoint of an object store, found where AWS's tools find them.
 *
 *  Keys, the first of:
 *      AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN if set
 *      the profile's in AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), then in AWS_CONFIG_FILE
 *      (~/.aws/config); the profile is AWS_PROFILE or "default"
 *      none, if AWS_NO_SIGN_REQUEST is YES: requests are not signed
 *  Region: AWS_REGION, AWS_DEFAULT_REGION, the profile's `region`, "us-east-1".
 *  Endpoint: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's `endpoint_url`, Amazon's own.
 *
 *  Immutable after account_find; any thread may read it.  Secret and token are guarded: in memory of
 *  libsodium's, which no core dump holds and which is wiped when it is freed.  Nor does a core dump hold the
 *  pages of the environment that they came from.  (libcurl has copies of the token, which is in a header of
 *  each request.)
 */
#ifndef ACCOUNT_H
#define ACCOUNT_H
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char *key;                  //  the key's name; NULL: requests are not signed
    char *secret;               //  "AWS4" and the secret key, as signatures begin; guarded; NULL like key
    char *token;                //  of temporary keys; guarded; NULL: none
    char *region;
    char *endpoint;             //  "https://host:port", no slash behind it; NULL: Amazon's
} account_t;

//  0 and the account is the caller's; or -errno and in error (always ended) which places were looked at, and
//  the remedy: -ENOKEY no keys, -EINVAL half of a pair or an endpoint that is no address, -EACCES .. a file
//  that cannot be read, -ENOMEM.  Reads the environment: call it before threads start.
int account_find (account_t *self, char *error, size_t error_bytes);
void account_clear (account_t *self);

#endif
