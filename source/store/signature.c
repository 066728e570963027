#include "signature.h"
#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sodium.h>

enum {
    HASH_BYTES = crypto_hash_sha256_BYTES, DAY_BYTES = 8,
    REQUEST_BYTES = 16 * 1024           //  keys of objects have 1 KiB, tokens some KiB at most
};

_Static_assert ((int) HASH_BYTES == (int) crypto_auth_hmacsha256_BYTES, "a hash is the key of the next");

//  A text that is put together; is_whole: it all had room.
typedef struct {
    char *text;
    size_t room, used;
    bool is_whole;
} draft_text_t;

__attribute__ ((format (printf, 2, 3)))
static void
s_add (draft_text_t *self, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    int length = vsnprintf (self->text + self->used, self->room - self->used, format, arguments);
    va_end (arguments);
    self->is_whole = self->is_whole && length >= 0 && (size_t) length < self->room - self->used;
    if (self->is_whole)
        self->used += (size_t) length;
}

static void
s_hash_hex (const char *text, size_t length, char hex [2 * HASH_BYTES + 1])
{
    uint8_t hash [HASH_BYTES];
    crypto_hash_sha256 (hash, (const uint8_t *) text, length);
    sodium_bin2hex (hex, 2 * HASH_BYTES + 1, hash, sizeof hash);
}

static void
s_keyed_hash (uint8_t target [HASH_BYTES], const void *key, size_t key_bytes, const char *text)
{
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init (&state, key, key_bytes);
    crypto_auth_hmacsha256_update (&state, (const uint8_t *) text, strlen (text));
    crypto_auth_hmacsha256_final (&state, target);
    sodium_memzero (&state, sizeof state);
}

//  "Signing key" in Amazon's words: of one day, region and service.  It begins with the secret, so all of it
//  is wiped.
static void
s_sign (const account_key_t *key, const char *region, const char *day, const char *text,
    char hex [2 * HASH_BYTES + 1])
{
    struct { crypto_auth_hmacsha256_state state; uint8_t key [HASH_BYTES]; } hidden;
    crypto_auth_hmacsha256_init (&hidden.state, (const uint8_t *) key->secret, strlen (key->secret));
    crypto_auth_hmacsha256_update (&hidden.state, (const uint8_t *) day, DAY_BYTES);
    crypto_auth_hmacsha256_final (&hidden.state, hidden.key);
    s_keyed_hash (hidden.key, hidden.key, HASH_BYTES, region);
    s_keyed_hash (hidden.key, hidden.key, HASH_BYTES, "s3");
    s_keyed_hash (hidden.key, hidden.key, HASH_BYTES, "aws4_request");
    s_keyed_hash (hidden.key, hidden.key, HASH_BYTES, text);
    sodium_bin2hex (hex, 2 * HASH_BYTES + 1, hidden.key, HASH_BYTES);
    sodium_memzero (&hidden, sizeof hidden);
}

//  "Canonical request": the request in the one form that both sides hash.
static void
s_canonical (draft_text_t *text, const account_key_t *key, const signature_request_t *request,
    const char *date, const char *names)
{
    const char *host = strstr (request->url, "://") + 3;
    size_t host_bytes = strcspn (host, "/?"), path_bytes = strcspn (host + host_bytes, "?");
    const char *path = host + host_bytes, *query = path + path_bytes;
    s_add (text, "%s\n%.*s%s\n%s\n", request->method, (int) path_bytes, path, path_bytes? "": "/",
        *query? query + 1: "");
    s_add (text, "host:%.*s\n", (int) host_bytes, host);
    if (request->range)
        s_add (text, "range:%s\n", request->range);
    s_add (text, "x-amz-content-sha256:%s\nx-amz-date:%s\n", request->payload, date);
    if (key->token)
        s_add (text, "x-amz-security-token:%s\n", key->token);
    s_add (text, "\n%s\n%s", names, request->payload);
}

bool
signature_make (const account_key_t *key, const char *region, const signature_request_t *request,
    char date [SIGNATURE_DATE_BYTES], char authorization [SIGNATURE_BYTES])
{
    assert (key && region); assert (request && strstr (request->url, "://"));
    struct tm moment;
    if (!gmtime_r (&request->time, &moment)
    ||  strftime (date, SIGNATURE_DATE_BYTES, "%Y%m%dT%H%M%SZ", &moment) == 0)
        return false;
    char names [100], canonical [REQUEST_BYTES], scope [160], text [400], hex [2 * HASH_BYTES + 1];
    snprintf (names, sizeof names, "host%s;x-amz-content-sha256;x-amz-date%s", request->range? ";range": "",
        key->token? ";x-amz-security-token": "");
    draft_text_t draft = { .text = canonical, .room = sizeof canonical, .is_whole = true };
    s_canonical (&draft, key, request, date, names);
    s_hash_hex (canonical, draft.used, hex);
    sodium_memzero (canonical, sizeof canonical);       //  it can hold a token
    draft_text_t area = { .text = scope, .room = sizeof scope, .is_whole = draft.is_whole };
    s_add (&area, "%.*s/%s/s3/aws4_request", DAY_BYTES, date, region);
    draft_text_t signed_text = { .text = text, .room = sizeof text, .is_whole = area.is_whole };
    s_add (&signed_text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hex);
    s_sign (key, region, date, text, hex);
    draft_text_t line = { .text = authorization, .room = SIGNATURE_BYTES, .is_whole = signed_text.is_whole };
    s_add (&line, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s", key->name, scope,
        names, hex);
    return line.is_whole;
}
