#include "store.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sodium.h>
#include "clock.h"
#include "key_source.h"
#include "store_address.h"

enum {
    MAGIC = 0x570fe001,
    IDLE_MAX = 16,                      //  sets of connections that are kept
    PAUSE_MS = 100, PAUSE_MAX_MS = 2000
};

struct store {
    uint32_t magic;
    //  set at birth
    store_address_t address;
    account_t account;
    char *name;
    char *base;                         //  of s3: the bucket's URL
    key_source_t *source;               //  keys that are renewed; else NULL
    keyring_t *keys;                    //  NULL: requests are not signed
    //  shared
    pthread_mutex_t lock;               //  of idle
    transfers_t *idle [IDLE_MAX];       //  not in use now
    size_t idle_count;
};

bool
store_is_meant (const char *text)
{
    return store_address_is_meant (text);
}


//  -- life

static char *
s_joined (const char *begin, const char *middle, const char *end)
{
    size_t bytes = strlen (begin) + strlen (middle) + strlen (end) + 1;
    char *text = malloc (bytes);
    if (text)
        snprintf (text, bytes, "%s%s%s", begin, middle, end);
    return text;
}

//  An Amazon bucket is a host of its own, unless its name has dots, which no certificate covers; with other
//  stores it is the first part of the path.
static char *
s_bucket_url (const store_t *self)
{
    const char *bucket = self->address.host;
    if (self->account.endpoint)
        return s_joined (self->account.endpoint, "/", bucket);
    bool has_dots = strchr (bucket, '.');
    char url [600];
    snprintf (url, sizeof url, "https://%s%ss3.%.80s.amazonaws.com", has_dots? "": bucket, has_dots? "": ".",
        self->account.region);
    return has_dots? s_joined (url, "/", bucket): strdup (url);
}

static int
s_ask (void *context, access_key_t **key_p, char *error, size_t error_bytes)
{
    return key_source_ask (context, key_p, error, error_bytes);
}

static void
s_stop (void *context)
{
    key_source_stop (context);
}

//  The keys that the account has, or the first ones of its source, and the thread that renews them.
static int
s_take_keys (store_t *self, char *error, size_t error_bytes)
{
    account_t *account = &self->account;
    if (account->source == ACCOUNT_UNSIGNED)
        return 0;
    access_key_t *first = account->key;
    account->key = NULL;
    if (account->source == ACCOUNT_ENVIRONMENT)
        return keyring_new (&self->keys, &first, NULL);
    int rc = key_source_new (&self->source, account);
    if (rc == 0 && !first)
        rc = key_source_first (self->source, &first, error, error_bytes);
    if (rc == 0)
        rc = keyring_new (&self->keys, &first, &(keyring_source_t) { .ask = s_ask, .stop = s_stop,
            .context = self->source, .is_service = account->source != ACCOUNT_PROFILE });
    access_key_release (&first);
    return rc;
}

static int
s_find (store_t *self, const char *address, char *error, size_t error_bytes)
{
    int rc = store_address_parse (&self->address, address, error, error_bytes);
    if (rc)
        return rc;
    if (!self->address.is_s3) {
        self->name = strdup (self->address.host);
        return self->name? 0: -ENOMEM;
    }
    rc = account_find (&self->account, error, error_bytes);
    if (rc)
        return rc;
    self->name = s_joined ("s3://", self->address.host, "");
    self->base = s_bucket_url (self);
    return self->name && self->base? s_take_keys (self, error, error_bytes): -ENOMEM;
}

int
store_open (store_t **self_p, const char *address, char *error, size_t error_bytes)
{
    assert (self_p); assert (address && store_is_meant (address)); assert (error && error_bytes > 0);
    *self_p = NULL;
    error [0] = 0;
    store_t *self = calloc (1, sizeof *self);
    int rc = -ENOMEM;
    if (self) {
        self->magic = MAGIC;
        pthread_mutex_init (&self->lock, NULL);
        rc = s_find (self, address, error, error_bytes);
    }
    if (rc && !error [0])
        snprintf (error, error_bytes, "not enough memory for '%.200s': free memory", address);
    if (rc == 0) {
        *self_p = self;
        self = NULL;
    }
    store_destroy (&self);
    return rc;
}

void
store_destroy (store_t **self_p)
{
    assert (self_p);
    store_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC);
    while (self->idle_count > 0)
        transfers_destroy (&self->idle [--self->idle_count]);
    pthread_mutex_destroy (&self->lock);
    keyring_destroy (&self->keys);
    key_source_destroy (&self->source);
    store_address_clear (&self->address);
    account_clear (&self->account);
    free (self->name);
    free (self->base);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}


//  -- questions

const char *
store_name (const store_t *self)
{
    assert (self && self->magic == MAGIC);
    return self->name;
}

const account_t *
store_account (const store_t *self)
{
    assert (self && self->magic == MAGIC);
    return self->address.is_s3? &self->account: NULL;
}

keyring_t *
store_keys (const store_t *self)
{
    assert (self && self->magic == MAGIC);
    return self->keys;
}

bool
store_look_at_keys (const store_t *self, const char **from_p, keyring_look_t *look)
{
    assert (self && self->magic == MAGIC);
    *from_p = account_source_name (self->account.source);
    if (self->keys)
        keyring_look (self->keys, look);
    return self->keys;
}

char *
store_url (const store_t *self, const char *name)
{
    assert (self && self->magic == MAGIC);
    return store_address_url (&self->address, self->base, name);
}

bool
store_lists (const store_t *self)
{
    assert (self && self->magic == MAGIC);
    return self->address.is_s3;
}

char *
store_list_url (const store_t *self, const char *begin, bool is_flat, const char *token)
{
    assert (self && self->magic == MAGIC);
    return store_address_list_url (&self->address, self->base, begin, is_flat, token);
}

const char *
store_path (const store_t *self)
{
    assert (self && self->magic == MAGIC);
    return self->address.path;
}


//  -- reads that wait

static int
s_take_transfers (store_t *self, transfers_t **transfers_p)
{
    *transfers_p = NULL;
    pthread_mutex_lock (&self->lock);
    if (self->idle_count > 0)
        *transfers_p = self->idle [--self->idle_count];
    pthread_mutex_unlock (&self->lock);
    return *transfers_p? 0: transfers_new (transfers_p, store_account (self), self->keys);
}

static void
s_give_transfers (store_t *self, transfers_t *transfers)
{
    pthread_mutex_lock (&self->lock);
    if (self->idle_count < IDLE_MAX) {
        self->idle [self->idle_count++] = transfers;
        transfers = NULL;
    }
    pthread_mutex_unlock (&self->lock);
    transfers_destroy (&transfers);
}

//  Not all clients at once: between a half and the whole of the pause.
void
store_pause (uint32_t failures)
{
    uint32_t longest = (uint32_t) PAUSE_MS << (failures < 5? failures: 5);
    longest = longest < PAUSE_MAX_MS? longest: PAUSE_MAX_MS;
    uint32_t pause_ms = longest / 2 + randombytes_uniform (longest / 2 + 1);
    nanosleep (&(struct timespec) { .tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000L }, NULL);
}

//  One turn at those that are not there yet.  0, or the -errno of the first one that failed; *may_pass_p:
//  every failure may.
static int
s_try (transfers_t *transfers, transfer_t *all, size_t count, bool *may_pass_p)
{
    size_t next = 0, under_way = 0;
    int failed = 0;
    *may_pass_p = true;
    while (next < count || under_way > 0) {
        for (; next < count && under_way < STORE_TOGETHER_MAX && *may_pass_p; next++) {
            if (all [next].done == all [next].bytes)
                continue;
            all [next].rc = transfers_begin (transfers, &all [next]);
            if (all [next].rc)
                failed = all [next].rc;
            else
                under_way++;
        }
        if (under_way == 0)
            break;
        transfers_wait (transfers, -1, -1);
        for (transfer_t *transfer; (transfer = transfers_take (transfers)); under_way--) {
            failed = failed? failed: transfer->rc;
            *may_pass_p = *may_pass_p && (transfer->rc == 0 || transfer_may_pass (transfer->rc));
        }
    }
    return failed;
}

static uint64_t
s_keys_number (store_t *self)
{
    uint64_t number = 0;
    access_key_t *key = self->keys? keyring_take (self->keys, &number): NULL;
    access_key_release (&key);
    return number;
}

//  Whether there are other keys than the refused ones, as soon as the keyring may look for them.  If the
//  refused ones were found just now and have not ended, none are looked for.
static bool
s_has_others (store_t *self, int rc, uint64_t number)
{
    if (!self->keys || (rc != -EKEYEXPIRED && (rc != -EKEYREJECTED || keyring_is_fresh (self->keys))))
        return false;
    return keyring_await (self->keys, number, 2 * KEYRING_REFUSED_S * 1000);
}

int
store_get (store_t *self, transfer_t *all, size_t count, uint32_t patience_ms)
{
    assert (self && self->magic == MAGIC); assert (all || count == 0);
    transfers_t *transfers;
    int rc = s_take_transfers (self, &transfers);
    if (rc)
        return rc;
    int64_t limit_ms = clock_now_ms () + patience_ms;
    bool may_pass, has_renewed = false;
    uint64_t number = s_keys_number (self);
    for (uint32_t failures = 0; (rc = s_try (transfers, all, count, &may_pass)); failures++) {
        if (!has_renewed && s_has_others (self, rc, number)) {
            has_renewed = true;         //  others that are refused as well are an answer
            continue;
        }
        if (!may_pass || clock_now_ms () >= limit_ms)
            break;
        store_pause (failures);
    }
    s_give_transfers (self, transfers);
    return rc;
}


//  -- words

static const char *
s_remedy (const store_t *self, bool is_list, int rc)
{
    switch (-rc) {
    case ENOENT:
        return "check the address";
    case EKEYREJECTED:
        return !self->address.is_s3? "let anyone read it, or use s3:// with keys": self->keys?
            is_list? "check the keys, and that they allow s3:ListBucket on the bucket":
            "check the keys, and that they allow s3:GetObject there": "give keys (AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or a profile)";
    case EKEYEXPIRED:
        return "renew the keys, and check the clock of this machine";
    case EREMCHG:
        return "the object was changed meanwhile: start again when it stays as it is";
    case ECONNREFUSED: case EHOSTUNREACH: case ETIMEDOUT:
        return self->address.is_s3? "check the endpoint (AWS_ENDPOINT_URL_S3) and the network":
            "check the address and the network";
    case ENOMEM:
        return "free memory or raise the limit";
    case EPROTO:
        return "check the address, and that what answers there is a store that gives ranges of objects";
    default:
        return "try again later";
    }
}

void
store_explain (const store_t *self, const char *name, const transfer_t *transfer, char *error,
    size_t error_bytes)
{
    const char *slash = *self->address.path? "/": "";
    int length = snprintf (error, error_bytes, "cannot %s '%s%s%s/%s' (%s): %s", name? "read": "list",
        self->name, slash, self->address.path, name? name: "",
        *transfer->detail? transfer->detail: strerror (-transfer->rc), s_remedy (self, !name, transfer->rc));
    keyring_look_t look = { .trouble = "" };
    if (self->keys && transfer->rc == -EKEYEXPIRED)
        keyring_look (self->keys, &look);
    if (*look.trouble && length > 0 && (size_t) length < error_bytes)
        snprintf (error + length, error_bytes - (size_t) length, " (they are not renewed: %s)", look.trouble);
}
