#include "store_address.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool
s_begins (const char *text, const char *scheme)
{
    return strncasecmp (text, scheme, strlen (scheme)) == 0;
}

bool
store_address_is_meant (const char *text)
{
    return s_begins (text, "s3://") || s_begins (text, "http://") || s_begins (text, "https://");
}

//  Amazon's rule for buckets; endpoints of others have stricter ones or the same.
static bool
s_is_bucket (const char *text, size_t length)
{
    static const char allowed [] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    return length >= 3 && length <= 255 && strspn (text, allowed) >= length && strncmp (text, "..", 2) != 0;
}

static int
s_fail (char *error, size_t error_bytes, const char *text, const char *remedy)
{
    //  A password or a signed query is not repeated.
    const char *secret = strpbrk (text, "@?#");
    snprintf (error, error_bytes, "'%.200s' is no address of data: %s", secret? "...": text, remedy);
    return -EINVAL;
}

int
store_address_parse (store_address_t *self, const char *text, char *error, size_t error_bytes)
{
    assert (self); assert (text); assert (store_address_is_meant (text)); assert (error && error_bytes > 0);
    *self = (store_address_t) { .is_s3 = s_begins (text, "s3://") };
    error [0] = 0;
    const char *host = strstr (text, "://") + 3;
    size_t length = strcspn (host, "/");
    if (length == 0)
        return s_fail (error, error_bytes, text, self->is_s3? "write s3://BUCKET/PREFIX":
            "write http://HOST/PATH or https://HOST/PATH");
    if (self->is_s3 && !s_is_bucket (host, length))
        return s_fail (error, error_bytes, text, "write s3://BUCKET/PREFIX; a bucket's name has 3 to 63 "
            "characters (old ones up to 255), which are letters, digits, '.', '-' and '_', and does not "
            "begin with '..'");
    //  Anywhere: a password can hold a slash.
    if (!self->is_s3 && strchr (host, '@'))
        return s_fail (error, error_bytes, text, "leave out user and password, which would be shown in logs, "
            "and write an '@' in a path as %40");
    if (!self->is_s3 && strpbrk (text, "?# \t"))
        return s_fail (error, error_bytes, text, "leave out '?' and '#' and what follows, and spaces");
    const char *path = host + length + strspn (host + length, "/");
    size_t path_length = strlen (path);
    while (path_length > 0 && path [path_length - 1] == '/')
        path_length--;
    self->host = self->is_s3? strndup (host, length): strndup (text, (size_t) (host - text) + length);
    self->path = strndup (path, path_length);
    if (self->host && self->path)
        return 0;
    store_address_clear (self);
    snprintf (error, error_bytes, "not enough memory: free memory");
    return -ENOMEM;
}

void
store_address_clear (store_address_t *self)
{
    free (self->host);
    free (self->path);
    *self = (store_address_t) { .host = NULL };
}

//  Percent-encoded but for what RFC 3986 calls unreserved and what else may stay; signatures need just this.
static char *
s_encode (char *target, const char *text, const char *others)
{
    static const char plain [] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~",
        digits [] = "0123456789ABCDEF";
    for (; *text; text++)
        if (strchr (plain, *text) || strchr (others, *text))
            *target++ = *text;
        else {
            *target++ = '%';
            *target++ = digits [(unsigned char) *text >> 4];
            *target++ = digits [(unsigned char) *text & 15];
        }
    *target = 0;
    return target;
}

char *
store_address_url (const store_address_t *self, const char *base, const char *name)
{
    const char *begin = self->is_s3? base: self->host;
    size_t bytes = strlen (begin) + 3 * (strlen (self->path) + (name? strlen (name): 0)) + 3;
    char *url = malloc (bytes);
    if (!url)
        return NULL;
    char *at = stpcpy (stpcpy (url, begin), "/");
    at = self->is_s3? s_encode (at, self->path, "/"): stpcpy (at, self->path);
    if (*self->path && name)
        at = stpcpy (at, "/");
    s_encode (at, name? name: "", "/");
    return url;
}

//  Parameters in the order of their names, as signatures want them.
char *
store_address_list_url (const store_address_t *self, const char *base, const char *begin, bool is_flat,
    const char *token)
{
    assert (self->is_s3);
    enum { NAMES_BYTES = 120 };         //  of the parameters
    size_t bytes = strlen (base) + NAMES_BYTES + 3 * (strlen (self->path) + 1 + strlen (begin)
        + (token? strlen (token): 0));
    char *url = malloc (bytes);
    if (!url)
        return NULL;
    char *at = stpcpy (stpcpy (url, base), "/?");
    if (token)
        at = stpcpy (s_encode (stpcpy (at, "continuation-token="), token, ""), "&");
    at = stpcpy (at, is_flat? "delimiter=%2F&": "");
    at = stpcpy (at, "encoding-type=url&list-type=2&max-keys=1000&prefix=");
    at = s_encode (at, self->path, "");
    at = s_encode (at, *self->path? "/": "", "");
    s_encode (at, begin, "");
    return url;
}
