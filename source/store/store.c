#include "store.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include <sodium.h>
#include "clock.h"
#include "key_source.h"

//  ---- addresses

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


//  ---- the store

enum {
    MAGIC = 0x570fe001,
    IDLE_MAX = 16,                      //  sets of connections that are kept
    PAUSE_MS = 100, PAUSE_MAX_MS = 2000,
    STOP_MS = 200,                      //  how often a caller that may stop is asked
    HASHED_BYTES = 1 << 20              //  at once
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
    pthread_mutex_t lock;
    transfers_t *idle [IDLE_MAX];       //  not in use now
    size_t idle_count;
    char proxy [HTTP_PROXY_BYTES];      //  as transfers have it
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
    snprintf (url, sizeof url, "https://%s%ss3.%.80s.%s", has_dots? "": bucket, has_dots? "": ".",
        self->account.region, account_domain (self->account.region));
    return has_dots? s_joined (url, "/", bucket): strdup (url);
}

static int
s_ask (void *context, account_key_t **key_p, char *error, size_t error_bytes)
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
    account_key_t *first = account->key;
    account->key = NULL;
    if (account->source == ACCOUNT_ENVIRONMENT)
        return keyring_new (&self->keys, &first, NULL);
    int rc = key_source_new (&self->source, account);
    if (rc == 0 && !first)
        rc = key_source_first (self->source, &first, error, error_bytes);
    if (rc == 0)
        rc = keyring_new (&self->keys, &first, &(keyring_source_t) { .ask = s_ask, .stop = s_stop,
            .context = self->source, .is_service = account->source != ACCOUNT_PROFILE });
    account_key_release (&first);
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

//  Parameters in the order of their names, as signatures want them.
char *
store_list_url (const store_t *self, const char *begin, bool is_flat, const char *token)
{
    assert (self && self->magic == MAGIC && self->address.is_s3);
    enum { NAMES_BYTES = 120 };         //  of the parameters
    const char *path = self->address.path;
    size_t bytes = strlen (self->base) + NAMES_BYTES + 3 * (strlen (path) + 1 + strlen (begin)
        + (token? strlen (token): 0));
    char *url = malloc (bytes);
    if (!url)
        return NULL;
    char *at = stpcpy (stpcpy (url, self->base), "/?");
    if (token)
        at = stpcpy (s_encode (stpcpy (at, "continuation-token="), token, ""), "&");
    at = stpcpy (at, is_flat? "delimiter=%2F&": "");
    at = stpcpy (at, "encoding-type=url&list-type=2&max-keys=1000&prefix=");
    at = s_encode (at, path, "");
    at = s_encode (at, *path? "/": "", "");
    s_encode (at, begin, "");
    return url;
}

const char *
store_path (const store_t *self)
{
    assert (self && self->magic == MAGIC);
    return self->address.path;
}


//  True and the parts of the address, if it is of the same bucket or web server.  No bucket's name is a web
//  server's.
static bool
s_parse_covered (const store_t *self, const char *address, store_address_t *parts)
{
    char error [400];
    if (!store_is_meant (address) || store_address_parse (parts, address, error, sizeof error))
        return false;
    if (strcmp (parts->host, self->address.host) == 0)
        return true;
    store_address_clear (parts);
    return false;
}

bool
store_covers (const store_t *self, const char *address)
{
    assert (self && self->magic == MAGIC); assert (address);
    store_address_t parts;
    bool covers = s_parse_covered (self, address, &parts);
    if (covers)
        store_address_clear (&parts);
    return covers;
}

char *
store_object_url (const store_t *self, const char *address)
{
    assert (self && self->magic == MAGIC); assert (address);
    store_address_t parts;
    if (!s_parse_covered (self, address, &parts))
        return NULL;
    char *url = store_address_url (&parts, self->base, NULL);
    store_address_clear (&parts);
    return url;
}


//  -- transfers that wait

int
store_take (store_t *self, transfers_t **transfers_p)
{
    assert (self && self->magic == MAGIC); assert (transfers_p);
    *transfers_p = NULL;
    pthread_mutex_lock (&self->lock);
    if (self->idle_count > 0)
        *transfers_p = self->idle [--self->idle_count];
    pthread_mutex_unlock (&self->lock);
    return *transfers_p? 0: transfers_new (transfers_p, store_account (self), self->keys);
}

void
store_give (store_t *self, transfers_t *transfers)
{
    assert (self && self->magic == MAGIC); assert (transfers);
    pthread_mutex_lock (&self->lock);
    if (self->idle_count < IDLE_MAX) {
        self->idle [self->idle_count++] = transfers;
        transfers = NULL;
    }
    pthread_mutex_unlock (&self->lock);
    transfers_destroy (&transfers);
}

//  Of any one: all go to the same host.
static void
s_note_proxy (store_t *self, const transfer_t *all, size_t count)
{
    size_t index = 0;
    while (index < count && !*all [index].proxy)
        index++;
    if (index == count)
        return;
    pthread_mutex_lock (&self->lock);
    memcpy (self->proxy, all [index].proxy, sizeof self->proxy);
    pthread_mutex_unlock (&self->lock);
}

void
store_show_proxy (const store_t *self, char shown [HTTP_PROXY_SHOWN_BYTES])
{
    assert (self && self->magic == MAGIC);
    char proxy [HTTP_PROXY_BYTES];
    pthread_mutex_t *lock = (pthread_mutex_t *) &self->lock;
    pthread_mutex_lock (lock);
    memcpy (proxy, self->proxy, sizeof proxy);
    pthread_mutex_unlock (lock);
    shown [0] = 0;
    if (*proxy)
        http_show_proxy (proxy, shown);
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

static bool
s_is_stopped (const store_persistence_t *how)
{
    return how->stopped && how->stopped (how->context);
}

//  One turn at all transfers that are not done yet.
typedef struct {
    int failed;                         //  the -errno of the first one that failed
    const transfer_t *refused;          //  the first one of which the keys were
    bool may_pass;                      //  every failure may
    size_t succeeded;
} turn_t;

static bool
s_are_keys_refused (const transfer_t *transfer)
{
    return transfer->rc == -EKEYEXPIRED || transfer->rc == -EKEYREJECTED;
}

static size_t
s_take_done (transfers_t *transfers, turn_t *turn)
{
    size_t taken = 0;
    for (transfer_t *transfer; (transfer = transfers_take (transfers)); taken++) {
        turn->failed = turn->failed? turn->failed: transfer->rc;
        if (!turn->refused && s_are_keys_refused (transfer))
            turn->refused = transfer;
        turn->may_pass = turn->may_pass && (transfer->rc == 0 || transfers_may_pass (transfer->rc));
        turn->succeeded += transfer->rc == 0;
    }
    return taken;
}

//  -ECANCELED: some may be under way still.
static turn_t
s_try (transfers_t *transfers, transfer_t *all, size_t count, const store_persistence_t *how)
{
    turn_t turn = { .may_pass = true };
    size_t next = 0, under_way = 0;
    while (next < count || under_way > 0) {
        for (; next < count && under_way < STORE_TOGETHER_MAX && turn.may_pass; next++) {
            if (all [next].done == all [next].bytes)
                continue;
            all [next].rc = transfers_begin (transfers, &all [next]);
            if (all [next].rc)
                turn.failed = all [next].rc;
            else
                under_way++;
        }
        if (under_way == 0)
            break;
        if (s_is_stopped (how)) {
            turn = (turn_t) { .failed = -ECANCELED };
            break;
        }
        transfers_wait (transfers, NULL, 0, how->stopped? STOP_MS: -1);
        under_way -= s_take_done (transfers, &turn);
    }
    return turn;
}

bool
store_has_other_keys (store_t *self, const transfer_t *refused)
{
    assert (self && self->magic == MAGIC); assert (refused && refused->rc);
    uint64_t number = refused->keys_number;
    if (!self->keys || !s_are_keys_refused (refused))
        return false;
    if (refused->rc == -EKEYREJECTED && keyring_was_fresh (self->keys, number))
        return false;
    return keyring_await (self->keys, number, 2 * KEYRING_REFUSED_S * 1000);
}

int
store_carry_out (store_t *self, transfer_t *all, size_t count, const store_persistence_t *how)
{
    assert (self && self->magic == MAGIC); assert (all || count == 0); assert (how);
    transfers_t *transfers;
    int rc = store_take (self, &transfers);
    if (rc)
        return rc;
    int64_t limit_ms = clock_now_ms () + how->patience_ms;
    turn_t turn;
    bool has_renewed = false, has_limit = !how->takes_long;
    uint32_t failures = 0;
    while ((turn = s_try (transfers, all, count, how)).failed) {
        if (turn.succeeded > 0) {
            has_limit = has_limit && !how->takes_long;
            has_renewed = false;
        }
        if (!has_renewed && turn.refused && store_has_other_keys (self, turn.refused)) {
            has_renewed = true;         //  refused as well before one succeeds: an answer
            continue;
        }
        if (!turn.may_pass)
            break;
        if (!has_limit) {
            limit_ms = clock_now_ms () + how->patience_ms;
            failures = 0;
            has_limit = true;
        }
        if (clock_now_ms () >= limit_ms)
            break;
        store_pause (failures++);
    }
    s_note_proxy (self, all, count);
    if (turn.failed == -ECANCELED)
        transfers_destroy (&transfers);
    else
        store_give (self, transfers);
    return turn.failed;
}

int
store_get (store_t *self, transfer_t *all, size_t count, uint32_t patience_ms)
{
    store_persistence_t how = { .patience_ms = patience_ms };
    return store_carry_out (self, all, count, &how);
}

int
store_checksum (int descriptor, uint64_t bytes, const store_persistence_t *how,
    char checksum [STORE_CHECKSUM_BYTES])
{
    assert (descriptor >= 0); assert (how); assert (checksum);
    uint8_t *buffer = malloc (HASHED_BYTES), hash [crypto_hash_sha256_BYTES];
    _Static_assert (STORE_CHECKSUM_BYTES == 2 * sizeof hash + 1, "two digits a byte");
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init (&state);
    int rc = buffer? 0: -ENOMEM;
    for (uint64_t done = 0; rc == 0 && done < bytes; ) {
        size_t wanted = bytes - done < HASHED_BYTES? (size_t) (bytes - done): HASHED_BYTES;
        ssize_t got = pread (descriptor, buffer, wanted, (off_t) done);
        if (got > 0) {
            crypto_hash_sha256_update (&state, buffer, (size_t) got);
            done += (size_t) got;
        }
        else
        if (got == 0 || errno != EINTR)
            rc = got == 0? -ENODATA: -errno;
        rc = rc == 0 && s_is_stopped (how)? -ECANCELED: rc;
    }
    crypto_hash_sha256_final (&state, hash);
    sodium_bin2hex (checksum, STORE_CHECKSUM_BYTES, hash, sizeof hash);
    free (buffer);
    return rc;
}


//  -- words

static const char *
s_remedy_of_keys (const store_t *self, bool is_list, bool is_upload)
{
    if (!self->address.is_s3)
        return "let anyone read it, or use s3:// with keys";
    if (!self->keys)
        return "give keys (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile)";
    return is_list? "check the keys, and that they allow s3:ListBucket on the bucket":
        is_upload? "check the keys, and that they allow s3:PutObject there":
        "check the keys, and that they allow s3:GetObject there";
}

static const char *
s_remedy (const store_t *self, int rc, bool is_list, bool is_upload)
{
    switch (-rc) {
    case ENOENT:
        return is_upload? "check the address, or make the bucket": "check the address";
    case EKEYREJECTED:
        return s_remedy_of_keys (self, is_list, is_upload);
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
        return is_upload? "check the address, and that what answers there is a store that takes objects":
            is_list? "check the address, and that what answers there is a store that lists its objects":
            "check the address, and that what answers there is a store that gives ranges of objects";
    case EIO:
        return "check the file system";
    default:
        return "try again later";
    }
}

//  Whether the proxy may be what fails, and no answer of the store's.
static bool
s_fails_at_proxy (const transfer_t *transfer)
{
    static const int of_network [] = { -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT, -ECONNRESET };
    bool is_network = false;
    for (size_t index = 0; index < sizeof of_network / sizeof *of_network; index++)
        is_network = is_network || transfer->rc == of_network [index];
    return *transfer->proxy && (is_network || transfer->status == 407 || transfer->status >= 502);
}

static void
s_explain (const store_t *self, const char *where, const transfer_t *transfer, bool is_list, char *error,
    size_t error_bytes)
{
    const char *what = is_list? "list": transfer->upload? "write": "read";
    char proxy [160] = "";
    if (s_fails_at_proxy (transfer))
        snprintf (proxy, sizeof proxy, "it was asked through the proxy in %s: check that, or name the "
            "store's host in no_proxy; or ", transfer->proxy);
    int length = snprintf (error, error_bytes, "cannot %s '%.500s' (%s): %s%s", what, where,
        *transfer->detail? transfer->detail: strerror (-transfer->rc), proxy,
        s_remedy (self, transfer->rc, is_list, transfer->upload));
    keyring_look_t look = { .trouble = "" };
    if (self->keys && transfer->rc == -EKEYEXPIRED)
        keyring_look (self->keys, &look);
    if (*look.trouble && length > 0 && (size_t) length < error_bytes)
        snprintf (error + length, error_bytes - (size_t) length, " (they are not renewed: %s)", look.trouble);
}

void
store_explain (const store_t *self, const char *name, const transfer_t *transfer, char *error,
    size_t error_bytes)
{
    const char *slash = *self->address.path? "/": "";
    char where [500];
    snprintf (where, sizeof where, "%s%s%s/%s", self->name, slash, self->address.path, name? name: "");
    s_explain (self, where, transfer, !name, error, error_bytes);
}

void
store_explain_address (const store_t *self, const char *address, const transfer_t *transfer, char *error,
    size_t error_bytes)
{
    assert (self && self->magic == MAGIC); assert (address); assert (transfer && transfer->rc);
    s_explain (self, address, transfer, false, error, error_bytes);
}
