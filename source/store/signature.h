/*  signature -- Amazon's signature of a request to an object store, version 4 (SigV4), as S3 wants it.
 *
 *  Signed are the method, the URL, and the headers host, range, x-amz-content-sha256, x-amz-date and
 *  x-amz-security-token, as far as they are there.  libcurl 7.88 can sign too, but it keeps copies of the
 *  secret key in ordinary memory, which a core dump would hold, and it neither sorts nor encodes a query.
 *
 *  Plain functions; any thread.
 */
#ifndef SIGNATURE_H
#define SIGNATURE_H
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include "account.h"

//  The hash of a request without a body; and what stands in its place where a body is not hashed.
#define SIGNATURE_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SIGNATURE_UNSIGNED "UNSIGNED-PAYLOAD"

enum { SIGNATURE_DATE_BYTES = 17, SIGNATURE_BYTES = 512 };

typedef struct {
    const char *method;         //  "GET"
    const char *url;            //  https://host/path?query; the path encoded, the query encoded and sorted
    const char *range;          //  the header's value, "bytes=0-9"; NULL: none
    const char *payload;        //  the header x-amz-content-sha256's value
    time_t time;
} signature_request_t;

//  Writes the values of the headers x-amz-date ("20130524T000000Z") and Authorization, ended.  False: the
//  request is too long to sign.
bool signature_make (const account_key_t *key, const char *region, const signature_request_t *request,
    char date [SIGNATURE_DATE_BYTES], char authorization [SIGNATURE_BYTES]);

#endif
