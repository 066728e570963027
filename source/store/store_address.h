/*  store_address -- where an object store's data lie, as users write it: s3://BUCKET/PREFIX,
 *  http(s)://HOST/PATH.
 *  Plain data; any thread.
 */
#ifndef STORE_ADDRESS_H
#define STORE_ADDRESS_H
#include <stdbool.h>
#include <stddef.h>

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
//  Of s3: the URL of a page of the list of objects below the address with names that begin with `begin`: with
//  is_flat those without a further slash, and of the others the text up to it; from `token` on, which the
//  page before gave (NULL: the first).  As store_address_url.
char *store_address_list_url (const store_address_t *self, const char *base, const char *begin, bool is_flat,
    const char *token);

#endif
