/*  account -- where an object store's keys come from, its region and its endpoint, found where AWS's tools
 *  find them; and what the keys sign.
 *
 *  Keys, the first of, in AWS's order:
 *      none, if AWS_NO_SIGN_REQUEST is YES: requests are not signed
 *      AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN if set
 *      a web identity: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or web_identity_token_file and role_arn
 *      of the profile
 *      the profile's keys in AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials); its credential_process; its
 *      keys in AWS_CONFIG_FILE (~/.aws/config); the profile is AWS_PROFILE or "default"
 *      a container's role: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI
 *      an instance's role, unless AWS_EC2_METADATA_DISABLED is true
 *  A profile that gets keys by another way (source_profile, SSO) is an error that names the way, at the place
 *  in this order where AWS's tools would go it.
 *  Region: AWS_REGION, AWS_DEFAULT_REGION, the profile's `region`, "us-east-1".
 *  Endpoint: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's `endpoint_url`, Amazon's own.
 *
 *  Here nothing is asked over a network, and no program runs: that is key_source.h's.
 *  Immutable after account_find; any thread may read it.  What is secret is guarded (wiped.h), and a core
 *  dump holds no page of the environment that it came from.
 */
#ifndef ACCOUNT_H
#define ACCOUNT_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

//  ---- keys

//  Keys of an object store: a name, a secret, and of temporary keys a token and the time at which they end.
//
//  Immutable after account_key_new, and counted: each request is signed with the keys that it holds, while
//  others replace them.  Secret and token are guarded (wiped.h).  (libcurl has copies of the token, which is
//  in a header of each request.)  Any thread.

enum { ACCOUNT_KEY_NAME_MAX = 128, ACCOUNT_KEY_SECRET_MAX = 256, ACCOUNT_KEY_TOKEN_MAX = 7 * 1024 };

typedef struct {
    char *name;                 //  shown in Authorization; no secret
    char *secret;               //  "AWS4" and the secret key, as signatures begin
    char *token;                //  of temporary keys; NULL: none
    int64_t ends_s;             //  since 1970; 0: never, or unknown
    atomic_uint holders;
} account_key_t;

//  0 and the caller holds it; or -ENOMEM, or -EBADMSG and *self_p NULL: a text is empty, too long, or has
//  characters that stand in no header.  token NULL or "": none.
int account_key_new (account_key_t **self_p, const char *name, const char *secret, const char *token,
    int64_t ends_s);
//  One more holder; returns self.
account_key_t *account_key_hold (account_key_t *self);
//  One less; the last one frees it.  Takes NULL inside, and nulls.
void account_key_release (account_key_t **self_p);
//  Whether both sign the same, and end at the same time.
bool account_key_equals (const account_key_t *self, const account_key_t *other);


//  ---- signatures

//  Amazon's signature of a request to an object store, version 4 (SigV4), as S3 wants it.
//
//  Signed are the method, the URL, and the headers host, range, x-amz-content-sha256, x-amz-date and
//  x-amz-security-token, as far as they are there.  libcurl 7.88 can sign too, but it keeps copies of the
//  secret key in ordinary memory, which a core dump would hold, and it neither sorts nor encodes a query.

//  The hash of a request without a body.
#define ACCOUNT_PAYLOAD_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

enum { ACCOUNT_DATE_BYTES = 17, ACCOUNT_SIGNATURE_BYTES = 512 };

typedef struct {
    const char *method;         //  "GET"
    const char *url;            //  https://host/path?query; the path encoded, the query encoded and sorted
    const char *range;          //  the header's value, "bytes=0-9"; NULL: none
    const char *payload;        //  the header x-amz-content-sha256's value
    time_t time;
} account_request_t;

//  Writes the values of the headers x-amz-date ("20130524T000000Z") and Authorization, ended.  False: the
//  request is too long to sign.  Any thread.
bool account_key_sign (const account_key_t *key, const char *region, const account_request_t *request,
    char date [ACCOUNT_DATE_BYTES], char authorization [ACCOUNT_SIGNATURE_BYTES]);


//  ---- account

typedef enum {
    ACCOUNT_UNSIGNED, ACCOUNT_ENVIRONMENT, ACCOUNT_PROFILE, ACCOUNT_PROGRAM, ACCOUNT_WEB_IDENTITY,
    ACCOUNT_CONTAINER, ACCOUNT_INSTANCE
} account_source_t;

//  Texts are NULL where the source has none.
typedef struct {
    account_source_t source;
    account_key_t *key;          //  of the environment and of a profile: as it was found; else NULL
    char *region;
    char *endpoint;             //  "https://host:port", no slash behind it; NULL: Amazon's
    //  a profile: where its keys are read anew, or the command that prints them, guarded
    char *profile, *file, *program;
    bool is_config;
    //  a web identity
    char *role, *session, *token_file;
    //  what answers: STS, "https://host:port"; a container's URL; the instance's, "http://host:port"
    char *service;
    char *authorization;        //  a container's, guarded; token_file is read for each request in its place
    char *looked_at;            //  an instance: the places before it without keys, for people
} account_t;

//  0 and the account is the caller's; or -errno and in error (always ended) which places were looked at, and
//  the remedy: -ENOKEY no keys, -EINVAL half of a pair, a setting that cannot be used, -EACCES .. a file that
//  cannot be read, -ENOMEM.  Reads the environment: call it before threads start.
int account_find (account_t *self, char *error, size_t error_bytes);
//  A profile's keys as its file holds them now; held by the caller.  0; or -errno and in error why not.
int account_read_again (const account_t *self, account_key_t **key_p, char *error, size_t error_bytes);
//  Takes one that is all zero.
void account_clear (account_t *self);

//  What the names of Amazon's hosts in a region end with: "amazonaws.com"; static.
const char *account_domain (const char *region);
//  "a web identity": for people; static.
const char *account_source_name (account_source_t source);

#endif
