//  Transfers beside a store that is not as stores should be: it heeds no condition, changes its objects
//  between two ranges, refuses keys, or answers without an end.  No byte of another object is taken, keys
//  that are there are used, and no answer holds a transfer for ever.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <sodium.h>
#include "clock.h"
#include "object_stream.h"
#include "store_listing.h"

enum { OBJECT_BYTES = 3000, BROKEN_BYTES = 1000, PAGES = 9, PAGE_MS = 2000, PEER_S = 20 };
//  Parts of a large object: the last one, of a byte, is asked for when the first one is read.
enum { LARGE_PARTS = OBJECT_STREAM_PARTS + 1,
    LARGE_BYTES = OBJECT_STREAM_PARTS * OBJECT_STREAM_PART_BYTES + 1 };
_Static_assert ((int) LARGE_PARTS <= (int) PAGES, "is_busy_at is of both");

//  One connection at a time, and one question each.
typedef struct {
    int listener;
    pthread_t thread;
    char url [64];
    //  The store's while it answers, the test's except while it reads (s_lend, s_take_back).
    pthread_mutex_t owned;
    const char *version, *next_version; //  of answers from the object's begin, and of others
    size_t next_bytes;                  //  of the object, in others
    bool is_broken;                     //  the first answer breaks off
    const char *status, *code;          //  of an error that each question gets; NULL: none
    const char *refusal;                //  the code for keys called "old"
    unsigned left;                      //  so many answers, and keys called "new" end: `keys` has others then
    const char *keys;                   //  the profile's file
    bool has_ended;                     //  keys called "new" have
    unsigned busy;                      //  so many questions with others are refused for now
    bool is_busy_at [PAGES];            //  the next question for this page of a list, or part of a large
                                        //  object, is refused for now
    bool has_condition;                 //  the last question had one
    unsigned questions;
} world_t;


//  -- a clock that can be put on

static atomic_long s_skipped_ms;

int __real_clock_gettime (clockid_t clock, struct timespec *now);
int __wrap_clock_gettime (clockid_t clock, struct timespec *now);
int
__wrap_clock_gettime (clockid_t clock, struct timespec *now)
{
    int rc = __real_clock_gettime (clock, now);
    if (clock == CLOCK_MONOTONIC)
        now->tv_sec += atomic_load (&s_skipped_ms) / 1000;
    return rc;
}

//  Whole seconds are over at once.
static void
s_skip (int time_ms)
{
    assert_int_equal (time_ms % 1000, 0);
    atomic_fetch_add (&s_skipped_ms, time_ms);
}

static int
s_put_clock_right (void **state)
{
    (void) state;
    atomic_store (&s_skipped_ms, 0);
    return 0;
}


//  -- a name server that does not answer for a time

enum { RESOLVING_MS = 10000 };

static atomic_int s_resolving;
static atomic_bool s_is_answering;      //  at last

int
getaddrinfo (const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
    struct addrinfo **restrict found_p)
{
    typedef int resolve_t (const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (name && strcmp (name, "slow.invalid") == 0) {
        atomic_fetch_add (&s_resolving, 1);
        for (int turn = 0; turn < RESOLVING_MS / 10 && !atomic_load (&s_is_answering); turn++)
            nanosleep (&(struct timespec) { .tv_nsec = 10000000 }, NULL);
        atomic_fetch_sub (&s_resolving, 1);
        return EAI_AGAIN;
    }
    resolve_t *resolve = (resolve_t *) dlsym (RTLD_NEXT, "getaddrinfo");
    return resolve (name, service, hints, found_p);
}


//  -- what answers

static bool
s_send (int peer, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t sent = send (peer, text, bytes, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        text += sent;
        bytes -= (size_t) sent;
    }
    return true;
}

static void
s_send_object (const world_t *self, int peer, size_t first, size_t last)
{
    static char answer [OBJECT_BYTES + 1000];
    size_t all = first? self->next_bytes: OBJECT_BYTES;
    const char *version = first? self->next_version: self->version;
    size_t used = (size_t) snprintf (answer, sizeof answer, "HTTP/1.1 206 Partial\r\nConnection: close\r\n"
        "ETag: %s\r\nContent-Range: bytes %zu-%zu/%zu\r\nContent-Length: %zu\r\n\r\n", version, first, last,
        all, last - first + 1);
    for (size_t at = first; at <= last && !(self->is_broken && at == BROKEN_BYTES && first == 0); at++)
        answer [used++] = (char) ('a' + at % 23);
    s_send (peer, answer, used);
}

//  Behind the one before, so that a keyring may find others between two refusals.
static void
s_send_error (int peer, const char *status, const char *code)
{
    char answer [500];
    nanosleep (&(struct timespec) { .tv_nsec = 20000000 }, NULL);
    int used = snprintf (answer, sizeof answer, "HTTP/1.1 %s\r\nConnection: close\r\n\r\n"
        "<Error><Code>%s</Code></Error>", status, code);
    s_send (peer, answer, (size_t) used);
}

//  Part of a large object.
static void
s_send_large (world_t *self, int peer, size_t first, size_t last)
{
    static char piece [64 * 1024];
    size_t part = first / OBJECT_STREAM_PART_BYTES, left = last - first + 1;
    assert_true (part < LARGE_PARTS);
    if (self->is_busy_at [part]) {
        self->is_busy_at [part] = false;
        s_send_error (peer, "503 Busy", "SlowDown");
        return;
    }
    int used = snprintf (piece, sizeof piece, "HTTP/1.1 206 Partial\r\nConnection: close\r\nContent-Range: "
        "bytes %zu-%zu/%d\r\nContent-Length: %zu\r\n\r\n", first, last, LARGE_BYTES, left);
    bool goes_on = s_send (peer, piece, (size_t) used);
    for (size_t bytes; goes_on && left > 0; left -= bytes) {
        bytes = left < sizeof piece? left: sizeof piece;
        goes_on = s_send (peer, piece, bytes);
    }
}

static void
s_send_endless (int peer, const char *status)
{
    char head [200];
    static char part [1024];
    memset (part, 'x', sizeof part);
    snprintf (head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: 1000000000000\r\n\r\n", status);
    bool goes_on = s_send (peer, head, strlen (head));
    while (goes_on) {
        nanosleep (&(struct timespec) { .tv_nsec = 5000000 }, NULL);
        goes_on = s_send (peer, part, sizeof part);
    }
}

//  A page of a list, each with a name, after PAGE_MS; or that the store is busy, at once.
static void
s_send_page (world_t *self, int peer, const char *question)
{
    char body [400], answer [600];
    const char *token = strstr (question, "continuation-token=");
    unsigned page = token? (unsigned) strtoul (token + strlen ("continuation-token="), NULL, 10): 0;
    assert_true (page < PAGES);
    if (self->is_busy_at [page]) {
        self->is_busy_at [page] = false;
        s_send_error (peer, "503 Busy", "SlowDown");
        return;
    }
    s_skip (PAGE_MS);
    int used = snprintf (body, sizeof body, "<ListBucketResult><Contents><Key>a/%u</Key><Size>1</Size>"
        "</Contents>", page);
    if (page + 1 < PAGES)
        used += snprintf (body + used, sizeof body - (size_t) used, "<NextContinuationToken>%u"
            "</NextContinuationToken>", page + 1);
    snprintf (body + used, sizeof body - (size_t) used, "</ListBucketResult>");
    used = snprintf (answer, sizeof answer, "HTTP/1.1 200 OK\r\nConnection: close\r\n"
        "Content-Length: %zu\r\n\r\n%s", strlen (body), body);
    s_send (peer, answer, (size_t) used);
}

static void
s_write_keys (const char *path, const char *name)
{
    FILE *file = fopen (path, "we");
    assert_non_null (file);
    fprintf (file, "[default]\naws_access_key_id = %s\naws_secret_access_key = b\n", name);
    assert_int_equal (fclose (file), 0);
}

//  The time in which no others are asked for is over too.
static void
s_end_keys (world_t *self)
{
    s_write_keys (self->keys, "newer");
    self->has_ended = true;
    s_skip (2 * KEYRING_REFUSED_S * 1000);
}

static void
s_answer (world_t *self, int peer)
{
    char question [8192];
    size_t used = 0, first = 0, last = OBJECT_BYTES - 1;
    ssize_t got;
    question [0] = 0;
    while (!strstr (question, "\r\n\r\n") && used < sizeof question - 1
    &&  (got = recv (peer, question + used, sizeof question - 1 - used, 0)) > 0) {
        used += (size_t) got;
        question [used] = 0;
    }
    pthread_mutex_lock (&self->owned);
    const char *range = strstr (question, "Range: bytes=");
    if (range)
        sscanf (range, "Range: bytes=%zu-%zu", &first, &last);
    self->has_condition = strstr (question, "If-Match: ");
    self->questions++;
    if (self->status)
        s_send_error (peer, self->status, self->code);
    else
    if (self->refusal && (strstr (question, "Credential=old/")
    ||  (self->has_ended && strstr (question, "Credential=new/"))))
        s_send_error (peer, strcmp (self->refusal, "ExpiredToken") == 0? "400 Bad": "403 Forbidden",
            self->refusal);
    else
    if (self->busy > 0) {
        self->busy--;
        s_send_error (peer, "503 Busy", "SlowDown");
    }
    else
    if (strstr (question, "list-type=2"))
        s_send_page (self, peer, question);
    else
    if (strncmp (question, "PUT", 3) == 0)
        s_send_endless (peer, "200 OK");
    else
    if (strstr (question, "/large "))
        s_send_large (self, peer, first, last);
    else
    if (strstr (question, "/endless "))
        s_send_endless (peer, "404 Not Found");
    else
    if (used) {
        s_send_object (self, peer, first, last);
        if (self->left > 0 && --self->left == 0)
            s_end_keys (self);
    }
    pthread_mutex_unlock (&self->owned);
}

//  A test that failed leaves its connection open, and reads no more of it: the next tests are answered when
//  the patience with it is over.
static void *
s_serve (void *context)
{
    world_t *self = context;
    struct timeval patience = { .tv_sec = PEER_S };
    for (int peer; (peer = accept (self->listener, NULL, NULL)) >= 0; close (peer)) {
        setsockopt (peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt (peer, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        s_answer (self, peer);
    }
    return NULL;
}

static int
s_set_up (void **state)
{
    static world_t world = { .owned = PTHREAD_MUTEX_INITIALIZER };
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    alarm (900);                        //  what hangs fails
    world.listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (bind (world.listener, (struct sockaddr *) &address, length), 0);
    assert_int_equal (listen (world.listener, 64), 0);
    assert_int_equal (getsockname (world.listener, (struct sockaddr *) &address, &length), 0);
    snprintf (world.url, sizeof world.url, "http://127.0.0.1:%u", ntohs (address.sin_port));
    pthread_mutex_lock (&world.owned);
    assert_int_equal (pthread_create (&world.thread, NULL, s_serve, &world), 0);
    *state = &world;
    return 0;
}

static int
s_tear_down (void **state)
{
    world_t *self = *state;
    pthread_mutex_unlock (&self->owned);
    shutdown (self->listener, SHUT_RDWR);
    pthread_join (self->thread, NULL);
    close (self->listener);
    return 0;
}


//  -- the tests

static uint8_t s_memory [OBJECT_BYTES];

static void
s_lend (world_t *self)
{
    pthread_mutex_unlock (&self->owned);
}

//  Waits for an answer that is under way.
static void
s_take_back (world_t *self)
{
    pthread_mutex_lock (&self->owned);
}

//  Carries it out, with patience if the store is to be asked again.
static int
s_carry_out (world_t *self, const char *name, transfer_t *transfer, uint32_t patience_ms)
{
    store_t *store;
    char error [900];
    assert_int_equal (store_open (&store, self->url, error, sizeof error), 0);
    char *url = store_url (store, name);
    transfer->url = url;
    memset (s_memory, 0, sizeof s_memory);
    s_lend (self);
    int rc = store_get (store, transfer, 1, patience_ms);
    assert_int_equal (rc, transfer->rc);
    free (url);
    store_destroy (&store);
    s_take_back (self);
    return rc;
}

//  The object, all of it or behind its begin.
static int
s_read (world_t *self, transfer_t *transfer, size_t offset)
{
    self->questions = 0;
    transfer->offset = offset;
    transfer->bytes = OBJECT_BYTES - offset;
    transfer->memory = s_memory;
    int rc = s_carry_out (self, "object", transfer, 5000);
    for (size_t at = 0; at < OBJECT_BYTES; at++)
        assert_int_equal (s_memory [at], at < transfer->done? 'a' + (at + offset) % 23: 0);
    return rc;
}

static void
s_reset (world_t *self, const char *version, const char *next_version)
{
    self->version = version;
    self->next_version = next_version;
    self->next_bytes = OBJECT_BYTES;
    self->is_broken = false;
    self->has_ended = false;
}

//  Guards: another version than the one that was asked for gives no byte, whatever the store thinks.
static void
test_a_store_that_heeds_no_version (void **state)
{
    world_t *self = *state;
    s_reset (self, "\"one\"", "\"two\"");
    transfer_t transfer = { .version = "\"one\"" };
    assert_int_equal (s_read (self, &transfer, 0), 0);
    assert_true (self->has_condition);
    transfer = (transfer_t) { .version = "\"one\"" };
    assert_int_equal (s_read (self, &transfer, 10), -EREMCHG);
    assert_int_equal (transfer.done, 0);
    assert_int_equal (self->questions, 1);
}

//  Guards: a range that is begun again is of the same object throughout, also if no version was asked for.
static void
test_an_object_that_changes_between_two_ranges (void **state)
{
    world_t *self = *state;
    s_reset (self, "\"one\"", "\"one\"");
    self->is_broken = true;
    transfer_t transfer = { .version = NULL };
    assert_int_equal (s_read (self, &transfer, 0), 0);
    assert_int_equal (self->questions, 2);
    assert_true (self->has_condition);
    self->next_version = "\"two\"";
    transfer = (transfer_t) { .version = NULL };
    assert_int_equal (s_read (self, &transfer, 0), -EREMCHG);
    assert_int_equal (transfer.done, BROKEN_BYTES);
    transfer = (transfer_t) { .version = "\"one\"" };
    assert_int_equal (s_read (self, &transfer, 0), -EREMCHG);
    assert_int_equal (transfer.done, BROKEN_BYTES);
    //  Without versions its size tells.
    s_reset (self, "", "");
    self->is_broken = true;
    self->next_bytes = OBJECT_BYTES + 1;
    transfer = (transfer_t) { .version = "" };
    assert_int_equal (s_read (self, &transfer, 0), -EREMCHG);
    assert_int_equal (transfer.done, BROKEN_BYTES);
}

//  Guards: an object of another size than is known is another one.
static void
test_sizes (void **state)
{
    world_t *self = *state;
    s_reset (self, "\"one\"", "\"one\"");
    transfer_t transfer = { .expected_bytes = OBJECT_BYTES };
    assert_int_equal (s_read (self, &transfer, 0), 0);
    transfer = (transfer_t) { .expected_bytes = OBJECT_BYTES + 1 };
    assert_int_equal (s_read (self, &transfer, 0), -EREMCHG);
    assert_int_equal (transfer.done, 0);
}

//  Guards: a weak version is no condition, which no store could meet, and is compared; what makes a version
//  weak on the way, or takes its quotes, is no change.
static void
test_weak_versions (void **state)
{
    world_t *self = *state;
    s_reset (self, "W/\"one\"", "one");
    transfer_t transfer = { .version = "W/\"one\"" };
    assert_int_equal (s_read (self, &transfer, 0), 0);
    assert_false (self->has_condition);
    transfer = (transfer_t) { .version = "\"one\"" };
    assert_int_equal (s_read (self, &transfer, 0), 0);
    assert_true (self->has_condition);
    transfer = (transfer_t) { .version = "W/\"one\"" };
    assert_int_equal (s_read (self, &transfer, 10), 0);
    transfer = (transfer_t) { .version = "W/\"two\"" };
    assert_int_equal (s_read (self, &transfer, 0), -EREMCHG);
    assert_int_equal (transfer.done, 0);
}

//  Guards: what an error of a store means: what passes, what new keys mend, what is gone or was replaced.
//  The code says more than the status.
static void
test_errors_and_what_they_mean (void **state)
{
    static const struct { const char *status, *code; int rc; } cases [] = {
        { "400 Bad", "ExpiredToken", -EKEYEXPIRED },
        { "403 Forbidden", "RequestTimeTooSkewed", -EKEYEXPIRED },
        { "400 Bad", "TokenRefreshRequired", -EKEYEXPIRED }, { "400 Bad", "RequestTimeout", -EBUSY },
        { "400 Bad", "IncompleteBody", -EBUSY }, { "400 Bad", "BadDigest", -EBUSY },
        { "400 Bad", "XAmzContentSHA256Mismatch", -EBUSY }, { "400 Bad", "MalformedXML", -EPROTO },
        { "401 Unauthorized", "", -EKEYREJECTED }, { "403 Forbidden", "AccessDenied", -EKEYREJECTED },
        { "404 Not Found", "NoSuchKey", -ENOENT }, { "410 Gone", "", -ENOENT },
        { "412 Precondition Failed", "PreconditionFailed", -EREMCHG },
        { "416 Range Not Satisfiable", "InvalidRange", -EREMCHG }, { "408 Request Timeout", "", -EBUSY },
        { "425 Too Early", "", -EBUSY }, { "429 Too Many Requests", "", -EBUSY },
        { "500 Internal", "InternalError", -EBUSY }, { "501 Not Implemented", "NotImplemented", -EPROTO },
        { "503 Busy", "SlowDown", -EBUSY }, { "599 Unknown", "", -EBUSY }
    };
    world_t *self = *state;
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        transfer_t transfer = { .bytes = OBJECT_BYTES, .memory = s_memory };
        self->status = cases [index].status;
        self->code = cases [index].code;
        int rc = s_carry_out (self, "object", &transfer, 0);
        if (rc != cases [index].rc)
            fail_msg ("%s, %s: %s, not %s", self->status, self->code, strerror (-rc),
                strerror (-cases [index].rc));
        assert_true (transfers_may_pass (rc) == (rc == -EBUSY));
        assert_int_equal (transfer.status, atoi (self->status));
        assert_int_equal (transfer.done, 0);
        self->status = NULL;
    }
    //  Those of the network, and of this machine.
    static const int passing [] = { ETIMEDOUT, ECONNRESET, ECONNREFUSED, EHOSTUNREACH, ENOMEM };
    for (size_t index = 0; index < sizeof passing / sizeof *passing; index++)
        assert_true (transfers_may_pass (-passing [index]));
    assert_false (transfers_may_pass (-ECANCELED) || transfers_may_pass (0));
}

//  Guards: an error's answer that does not end, at a rate that is not slow, is an answer all the same.
static void
test_an_error_without_an_end (void **state)
{
    world_t *self = *state;
    transfer_t transfer = { .bytes = OBJECT_BYTES, .memory = s_memory };
    assert_int_equal (s_carry_out (self, "endless", &transfer, 0), -ENOENT);
    assert_int_equal (transfer.status, 404);
}

//  Guards: so is a word on what was written.
static void
test_a_word_without_an_end (void **state)
{
    world_t *self = *state;
    FILE *file = tmpfile ();
    assert_true (file && fwrite (s_memory, 1, 100, file) == 100 && fflush (file) == 0);
    transfer_upload_t upload = { .descriptor = fileno (file), .checksum = "0" };
    transfer_t transfer = { .bytes = 100, .upload = &upload };
    assert_int_equal (s_carry_out (self, "object", &transfer, 0), -EPROTO);
    assert_int_equal (transfer.done, 0);
    fclose (file);
}

//  The way in which a test reads the object, into memory of OBJECT_BYTES.  0 or -errno.
typedef int (read_fn) (store_t *store, const char *url, const store_persistence_t *how, uint8_t *memory);

static int
s_read_in_parts (store_t *store, const char *url, const store_persistence_t *how, uint8_t *memory)
{
    enum { PARTS = 8, PART_BYTES = OBJECT_BYTES / PARTS };
    transfer_t parts [PARTS];
    for (size_t part = 0; part < PARTS; part++)
        parts [part] = (transfer_t) { .url = url, .offset = part * PART_BYTES, .bytes = PART_BYTES,
            .memory = memory + part * PART_BYTES };
    return store_carry_out (store, parts, PARTS, how);
}

static int
s_read_as_stream (store_t *store, const char *url, const store_persistence_t *how, uint8_t *memory)
{
    object_stream_t *stream;
    const uint8_t *bytes;
    ssize_t got;
    size_t done = 0;
    assert_int_equal (object_stream_open (&stream, &(object_stream_options_t) { .store = store, .url = url,
        .version = "", .bytes = OBJECT_BYTES, .how = *how }), 0);
    while ((got = object_stream_next (stream, &bytes)) > 0) {
        assert_true ((size_t) got <= OBJECT_BYTES - done);
        memcpy (memory + done, bytes, (size_t) got);
        done += (size_t) got;
    }
    const transfer_t *failed = object_stream_failed (stream);
    assert_int_equal (got, failed? failed->rc: 0);
    object_stream_destroy (&stream);
    return (int) got;
}

//  Lists all that the store has instead.
static int
s_read_list (store_t *store, const char *url, const store_persistence_t *how, uint8_t *memory)
{
    (void) url;
    char error [900];
    store_listing_t listing = { .text = NULL };
    int rc = store_listing_fetch (&listing, store, how->patience_ms, NULL, error, sizeof error);
    assert_true (rc || listing.count == PAGES);
    store_listing_clear (&listing);
    for (size_t at = 0; at < OBJECT_BYTES; at++)
        memory [at] = (uint8_t) ('a' + at % 23);
    return rc;
}

//  Reads with a profile's keys called "old", which were found wait_ms ago and are refused; the file has these
//  now.
static int
s_read_with_keys (world_t *self, read_fn *read, const char *name, const char *refusal, long wait_ms,
    const store_persistence_t *how)
{
    static uint8_t memory [OBJECT_BYTES];
    char path [] = "/tmp/tureen-transfer-XXXXXX", error [900];
    close (mkstemp (path));
    s_write_keys (path, "old");
    setenv ("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    setenv ("AWS_CONFIG_FILE", "/nowhere", 1);
    setenv ("AWS_ENDPOINT_URL_S3", self->url, 1);
    unsetenv ("AWS_ACCESS_KEY_ID");
    unsetenv ("AWS_PROFILE");
    s_reset (self, "\"one\"", "\"one\"");
    self->refusal = refusal;
    self->keys = path;
    store_t *store;
    if (store_open (&store, "s3://bucket/a", error, sizeof error))
        fail_msg ("%s", error);
    s_write_keys (path, name);
    nanosleep (&(struct timespec) { .tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000 }, NULL);
    char *url = store_url (store, "object");
    memset (memory, 0, sizeof memory);
    s_lend (self);
    int rc = read (store, url, how, memory);
    for (size_t at = 0; rc == 0 && at < OBJECT_BYTES; at++)
        assert_int_equal (memory [at], 'a' + at % 23);
    free (url);
    store_destroy (&store);
    s_take_back (self);
    unlink (path);
    self->refusal = NULL;
    return rc;
}

//  Guards: several refusals of keys that are not fresh, of which the first lets others be found, are no end.
static void
test_keys_that_are_refused_to_several (void **state)
{
    assert_int_equal (s_read_with_keys (*state, s_read_in_parts, "new", "InvalidAccessKeyId",
        KEYRING_REFUSED_S * 1000 + 200, &(store_persistence_t) { .patience_ms = 0 }), 0);
    //  Of fresh ones no others are waited for.
    int64_t began_ms = clock_now_ms ();
    assert_int_equal (s_read_with_keys (*state, s_read_in_parts, "new", "InvalidAccessKeyId", 0,
        &(store_persistence_t) { .patience_ms = 0 }), -EKEYREJECTED);
    assert_true (clock_now_ms () - began_ms < KEYRING_REFUSED_S * 1000);
}

//  Guards: in one long call keys may end several times: what renewed ones gave is behind them.
static void
test_keys_that_end_twice (void **state)
{
    world_t *self = *state;
    self->left = 4;                     //  of eight parts
    assert_int_equal (s_read_with_keys (self, s_read_in_parts, "new", "ExpiredToken", 0,
        &(store_persistence_t) { .patience_ms = 0 }), 0);
    assert_true (self->has_ended);
}

//  Guards: keys that end while the store is busy for others of the call are renewed all the same.
static void
test_keys_that_end_while_the_store_is_busy (void **state)
{
    world_t *self = *state;
    self->left = 4;
    self->busy = 1;                     //  the first question with the keys that end soon
    assert_int_equal (s_read_with_keys (self, s_read_in_parts, "new", "ExpiredToken", 0,
        &(store_persistence_t) { .patience_ms = 2000, .takes_long = true }), 0);
    assert_true (self->has_ended && self->busy == 0);
}

//  Guards: a stream goes on with renewed keys too, also if the store is busy behind them; keys that are
//  refused again are an end.
static void
test_a_stream_with_other_keys (void **state)
{
    world_t *self = *state;
    self->busy = 2;
    assert_int_equal (s_read_with_keys (self, s_read_as_stream, "new", "ExpiredToken", 0,
        &(store_persistence_t) { .patience_ms = 2000 }), 0);
    assert_int_equal (self->busy, 0);
    self->questions = 0;
    assert_int_equal (s_read_with_keys (self, s_read_as_stream, "old", "ExpiredToken", 0,
        &(store_persistence_t) { .patience_ms = 2000 }), -EKEYEXPIRED);
    assert_in_range (self->questions, 1, 3);
}

//  Guards: a list goes on with renewed keys too.
static void
test_a_list_with_other_keys (void **state)
{
    store_persistence_t how = { .patience_ms = 60000 };
    assert_int_equal (s_read_with_keys (*state, s_read_list, "new", "ExpiredToken", 0, &how), 0);
}

//  Guards: the time in which keys are renewed is not taken from a long transfer's patience.
static void
test_patience_after_other_keys (void **state)
{
    world_t *self = *state;
    self->busy = 8;                     //  all parts
    assert_int_equal (s_read_with_keys (self, s_read_in_parts, "new", "ExpiredToken", 0,
        &(store_persistence_t) { .patience_ms = 2000, .takes_long = true }), 0);
    assert_int_equal (self->busy, 0);
}

//  Guards: a list takes longer than the patience, which counts anew from the first failure behind the last
//  page that came, not from the begin and not from the first failure of all.
static void
test_patience_of_a_long_list (void **state)
{
    enum { PATIENCE_MS = 10000 };
    _Static_assert ((int) PATIENCE_MS < (PAGES - 3) * PAGE_MS, "it is over when the second page fails");
    world_t *self = *state;
    char error [900];
    setenv ("AWS_ENDPOINT_URL_S3", self->url, 1);
    setenv ("AWS_ACCESS_KEY_ID", "new", 1);
    setenv ("AWS_SECRET_ACCESS_KEY", "b", 1);
    self->is_busy_at [1] = self->is_busy_at [PAGES - 1] = true;
    store_t *store;
    if (store_open (&store, "s3://bucket/a", error, sizeof error))
        fail_msg ("%s", error);
    store_listing_t listing = { .text = NULL };
    s_lend (self);
    int rc = store_listing_fetch (&listing, store, PATIENCE_MS, NULL, error, sizeof error);
    s_take_back (self);
    if (rc)
        fail_msg ("%s", error);
    assert_int_equal (listing.count, PAGES);
    assert_false (self->is_busy_at [1] || self->is_busy_at [PAGES - 1]);
    store_listing_clear (&listing);
    store_destroy (&store);
    unsetenv ("AWS_ACCESS_KEY_ID");
    unsetenv ("AWS_SECRET_ACCESS_KEY");
}

//  Guards: the patience of a stream begins again with each part that arrives.
static void
test_patience_of_a_long_stream (void **state)
{
    enum { PATIENCE_MS = 10000 };
    world_t *self = *state;
    store_t *store;
    object_stream_t *stream;
    const uint8_t *bytes;
    char error [900];
    uint64_t done = 0;
    self->is_busy_at [0] = self->is_busy_at [LARGE_PARTS - 1] = true;
    assert_int_equal (store_open (&store, self->url, error, sizeof error), 0);
    char *url = store_url (store, "large");
    s_lend (self);
    assert_int_equal (object_stream_open (&stream, &(object_stream_options_t) { .store = store, .url = url,
        .version = "", .bytes = LARGE_BYTES, .how = { .patience_ms = PATIENCE_MS } }), 0);
    for (ssize_t got; (got = object_stream_next (stream, &bytes)) != 0; done += (uint64_t) got) {
        assert_true (got > 0);
        if (done == 0)
            s_skip (2 * PATIENCE_MS);
    }
    assert_int_equal (done, LARGE_BYTES);
    object_stream_destroy (&stream);
    s_take_back (self);
    assert_false (self->is_busy_at [0] || self->is_busy_at [LARGE_PARTS - 1]);
    free (url);
    store_destroy (&store);
}

//  Guards: a dropped transfer is forgotten, and the others go on.
static void
test_a_transfer_that_is_dropped (void **state)
{
    world_t *self = *state;
    transfers_t *transfers;
    char url [80];
    s_reset (self, "\"one\"", "\"one\"");
    snprintf (url, sizeof url, "%s/object", self->url);
    transfer_t dropped = { .url = url, .bytes = OBJECT_BYTES, .memory = s_memory }, other = dropped;
    assert_int_equal (transfers_new (&transfers, NULL, NULL), 0);
    assert_int_equal (transfers_begin (transfers, &dropped), 0);
    transfers_drop (transfers, &dropped);
    assert_int_equal (transfers_begin (transfers, &other), 0);
    s_lend (self);
    for (transfer_t *taken = NULL; !taken; taken = transfers_take (transfers))
        transfers_wait (transfers, NULL, 0, -1);
    assert_int_equal (other.done, OBJECT_BYTES);
    s_take_back (self);
    transfers_destroy (&transfers);
}

//  What asks the name server ends by itself, when that answers.
static void
s_await_resolvers (void)
{
    for (int turn = 0; turn < RESOLVING_MS / 10 && atomic_load (&s_resolving) == 0; turn++)
        nanosleep (&(struct timespec) { .tv_nsec = 10000000 }, NULL);
    assert_true (atomic_load (&s_resolving) > 0);       //  nothing has waited for it
    atomic_store (&s_is_answering, true);
    while (atomic_load (&s_resolving) > 0)
        nanosleep (&(struct timespec) { .tv_nsec = 50000000 }, NULL);
    nanosleep (&(struct timespec) { .tv_nsec = 200000000 }, NULL);
    atomic_store (&s_is_answering, false);
}

//  Guards: the end waits for no name server, and a question for keys no longer than its limit.
static void
test_a_name_server_that_does_not_answer (void **state)
{
    (void) state;
    transfers_t *transfers;
    transfer_t transfer = { .url = "http://slow.invalid/a", .bytes = OBJECT_BYTES, .memory = s_memory };
    assert_int_equal (transfers_new (&transfers, NULL, NULL), 0);
    int64_t began_ms = clock_now_ms ();
    assert_int_equal (transfers_begin (transfers, &transfer), 0);
    while (atomic_load (&s_resolving) == 0 && clock_now_ms () - began_ms < RESOLVING_MS)
        transfers_wait (transfers, NULL, 0, 100);
    began_ms = clock_now_ms ();
    transfers_destroy (&transfers);
    assert_true (clock_now_ms () - began_ms < RESOLVING_MS / 2);
    s_await_resolvers ();
    setenv ("AWS_SHARED_CREDENTIALS_FILE", "/nowhere", 1);
    setenv ("AWS_CONFIG_FILE", "/nowhere", 1);
    setenv ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://slow.invalid", 1);
    store_t *store;
    char error [900];
    began_ms = clock_now_ms ();
    assert_int_equal (store_open (&store, "s3://bucket/a", error, sizeof error), -ETIMEDOUT);
    assert_true (clock_now_ms () - began_ms < RESOLVING_MS / 2);
    s_await_resolvers ();
}

//  Guards: neither what is shown of a proxy nor libcurl's complaint of its address has user and password.
static void
test_a_proxy_is_shown_without_its_password (void **state)
{
    (void) state;
    static const struct { const char *value, *shown; } good [] = {
        { "http://host:3128", "http://host:3128 (http_proxy)" }, { "host:3128", "host:3128 (http_proxy)" },
        { "http://me:pass@word@host/", "http://host/ (http_proxy)" },
        { "me:word@host", "host (http_proxy)" }, { "", " (http_proxy)" }
    };
    char shown [HTTP_PROXY_SHOWN_BYTES];
    for (size_t index = 0; index < sizeof good / sizeof *good; index++) {
        setenv ("http_proxy", good [index].value, 1);
        http_show_proxy ("http_proxy", shown);
        assert_string_equal (shown, good [index].shown);
    }
    //  curl cuts the complaint of the last one before the host.
    char long_one [400] = "http://me:word";
    memset (long_one + strlen (long_one), '-', 300);
    strcat (long_one, "@host:99999");
    const char *const bad [] = { "http://me:pass@word@host:1", "other://me:word@host",
        "me:pass/word@host:x", long_one };
    unsetenv ("no_proxy");
    unsetenv ("NO_PROXY");
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++) {
        setenv ("http_proxy", bad [index], 1);
        transfers_t *transfers;
        uint8_t byte;
        transfer_t transfer = { .url = "http://store.invalid/x", .memory = &byte, .bytes = 1 };
        assert_int_equal (transfers_new (&transfers, NULL, NULL), 0);
        assert_int_equal (transfers_begin (transfers, &transfer), 0);
        while (!transfers_take (transfers))
            transfers_wait (transfers, NULL, 0, -1);
        assert_true (transfer.rc < 0);
        assert_string_equal (transfer.proxy, "http_proxy");
        bool names_host = strstr (transfer.detail, "host") || bad [index] == long_one;
        if (strstr (transfer.detail, "word") || !names_host)
            fail_msg ("%s: %s", bad [index], transfer.detail);
        transfers_destroy (&transfers);
    }
    unsetenv ("http_proxy");
}

int
main (void)
{
    if (sodium_init () < 0)
        return 1;
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_store_that_heeds_no_version),
        cmocka_unit_test (test_an_object_that_changes_between_two_ranges),
        cmocka_unit_test (test_sizes),
        cmocka_unit_test (test_weak_versions),
        cmocka_unit_test (test_keys_that_are_refused_to_several),
        cmocka_unit_test_teardown (test_keys_that_end_twice, s_put_clock_right),
        cmocka_unit_test_teardown (test_keys_that_end_while_the_store_is_busy, s_put_clock_right),
        cmocka_unit_test (test_a_stream_with_other_keys),
        cmocka_unit_test_teardown (test_a_list_with_other_keys, s_put_clock_right),
        cmocka_unit_test (test_patience_after_other_keys),
        cmocka_unit_test_teardown (test_patience_of_a_long_list, s_put_clock_right),
        cmocka_unit_test_teardown (test_patience_of_a_long_stream, s_put_clock_right),
        cmocka_unit_test (test_a_transfer_that_is_dropped),
        cmocka_unit_test (test_a_proxy_is_shown_without_its_password),
        cmocka_unit_test (test_a_name_server_that_does_not_answer),
        cmocka_unit_test (test_errors_and_what_they_mean),
        cmocka_unit_test (test_an_error_without_an_end),
        cmocka_unit_test (test_a_word_without_an_end),
    };
    return cmocka_run_group_tests (tests, s_set_up, s_tear_down);
}
