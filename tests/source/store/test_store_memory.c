//  A store without memory: each allocation of opening, of asking for keys and of reading fails once, and from
//  then on.  What fails says so, what is tried again has the right bytes, and nothing is left behind.
//
//  What answers is a process of the test's own.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <sodium.h>
#include "http.h"
#include "key_source.h"
#include "scratch.h"
#include "store_listing.h"

enum { OBJECT_BYTES = 3000, PARTS = 3, FAULTS_MAX = 3000 };

//  -- calls that fail when told to, and what they have handed out

static long s_blocks;                   //  not freed yet

#define COUNTED(name, parameters, arguments) \
    void *__real_##name parameters; \
    void *__wrap_##name parameters; \
    void * \
    __wrap_##name parameters \
    { \
        void *block = fault_strikes ()? NULL: __real_##name arguments; \
        __atomic_fetch_add (&s_blocks, block? 1: 0, __ATOMIC_RELAXED); \
        return block; \
    }
COUNTED (malloc, (size_t bytes), (bytes))
COUNTED (calloc, (size_t count, size_t bytes), (count, bytes))
COUNTED (strdup, (const char *text), (text))
COUNTED (strndup, (const char *text, size_t bytes), (text, bytes))
COUNTED (sodium_malloc, (size_t bytes), (bytes))

void *__real_realloc (void *block, size_t bytes);
void *__wrap_realloc (void *block, size_t bytes);
void *
__wrap_realloc (void *block, size_t bytes)
{
    void *grown = fault_strikes ()? NULL: __real_realloc (block, bytes);
    __atomic_fetch_add (&s_blocks, grown && !block? 1: 0, __ATOMIC_RELAXED);
    return grown;
}

FAULT_CALL (int, EAGAIN, pthread_create, (pthread_t *thread, const pthread_attr_t *attributes,
    void *(*run) (void *), void *context), (thread, attributes, run, context))

#define RELEASING(name) \
    void __real_##name (void *block); \
    void __wrap_##name (void *block); \
    void \
    __wrap_##name (void *block) \
    { \
        __atomic_fetch_sub (&s_blocks, block? 1: 0, __ATOMIC_RELAXED); \
        __real_##name (block); \
    }
RELEASING (free)
RELEASING (sodium_free)

//  Pauses before another try: the fault has passed, so there is nothing to wait for.
int __real_nanosleep (const struct timespec *span, struct timespec *left);
int __wrap_nanosleep (const struct timespec *span, struct timespec *left);
int
__wrap_nanosleep (const struct timespec *span, struct timespec *left)
{
    (void) span; (void) left;
    return 0;
}


//  -- what answers

//  Pages of a list: objects and a folder, and two pages of each.
static const char *
s_page (const char *question)
{
    bool is_next = strstr (question, "continuation-token="), is_flat = strstr (question, "delimiter=");
    return is_flat && !is_next? "<ListBucketResult><NextContinuationToken>t1</NextContinuationToken>"
            "<Contents><Key>a/1</Key><ETag>v</ETag><Size>1</Size></Contents>"
            "<CommonPrefixes><Prefix>a/f/</Prefix></CommonPrefixes></ListBucketResult>":
        is_flat? "<ListBucketResult><Contents><Key>a/2</Key><ETag>v</ETag><Size>2</Size></Contents>"
            "</ListBucketResult>":
        is_next? "<ListBucketResult><Contents><Key>a/f/4</Key><ETag>v</ETag><Size>4</Size></Contents>"
            "</ListBucketResult>":
            "<ListBucketResult><NextContinuationToken>t2</NextContinuationToken>"
            "<Contents><Key>a/f/3</Key><ETag>v</ETag><Size>3</Size></Contents></ListBucketResult>";
}

static const char *
s_answer (const char *question, char *answer, size_t bytes)
{
    static const char keys [] = "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s";
    static const char json [] = "{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"b\", \"Token\": \"c\", "
        "\"Expiration\": \"2099-01-01T00:00:00Z\"}";
    static const char xml [] = "<A><B><Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>b"
        "</SecretAccessKey><SessionToken>c</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"
        "</Credentials></B></A>";
    const char *range = strstr (question, "Range: bytes=");
    unsigned first = 0, last = 0;
    if (range && sscanf (range, "Range: bytes=%u-%u", &first, &last) == 2) {
        size_t used = (size_t) snprintf (answer, bytes, "HTTP/1.1 206 Partial\r\nETag: \"v\"\r\n"
            "Content-Range: bytes %u-%u/%u\r\nContent-Length: %u\r\nConnection: close\r\n\r\n", first,
            last, OBJECT_BYTES, last - first + 1);
        for (unsigned at = first; at <= last; at++)
            answer [used++] = (char) ('a' + at % 23);
        answer [used] = 0;
        return answer;
    }
    //  A store refuses the signature of a question of which a part is missing.
    if (strncmp (question, "GET /bucket/ ", 13) == 0) {
        snprintf (answer, bytes, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n"
            "<Error><Code>SignatureDoesNotMatch</Code></Error>");
        return answer;
    }
    const char *body = strncmp (question, "POST", 4) == 0? xml:
        strstr (question, "list-type=2")? s_page (question): strstr (question, "api/token")? "token":
        strstr (question, "security-credentials/ HTTP")? "role": json;
    snprintf (answer, bytes, keys, strlen (body), body);
    return answer;
}

static void
s_serve_one (int peer)
{
    static char question [8192], answer [8192];
    size_t used = 0, wanted = 0;
    ssize_t got = 1;
    while (got > 0 && used < sizeof question - 1 && (wanted == 0 || used < wanted)) {
        got = recv (peer, question + used, sizeof question - 1 - used, 0);
        used += got > 0? (size_t) got: 0;
        question [used] = 0;
        const char *end = strstr (question, "\r\n\r\n"), *length = strstr (question, "Content-Length: ");
        if (end)
            wanted = (size_t) (end - question) + 4 + (length? strtoul (length + 16, NULL, 10): 0);
    }
    if (wanted) {
        s_answer (question, answer, sizeof answer);
        (void) !send (peer, answer, strlen (answer), MSG_NOSIGNAL);
    }
}

//  A process for each connection: a client that lacked memory may leave one open without asking anything.
static void
s_serve (int listener)
{
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    signal (SIGCHLD, SIG_IGN);
    for (int peer; (peer = accept (listener, NULL, NULL)) >= 0; close (peer))
        if (fork () == 0) {
            s_serve_one (peer);
            _exit (0);
        }
    _exit (0);
}

typedef struct {
    pid_t process;
    char url [64];
    char folder [64], token_file [96], credentials [96];
    long blocks;
} world_t;

static int
s_set_up (void **state)
{
    static world_t world;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (bind (listener, (struct sockaddr *) &address, length), 0);
    assert_int_equal (listen (listener, 64), 0);
    assert_int_equal (getsockname (listener, (struct sockaddr *) &address, &length), 0);
    snprintf (world.url, sizeof world.url, "http://127.0.0.1:%u", ntohs (address.sin_port));
    world.process = fork ();
    if (world.process == 0)
        s_serve (listener);
    close (listener);
    strcpy (world.folder, "/tmp/tureen-memory-XXXXXX");
    assert_non_null (mkdtemp (world.folder));
    snprintf (world.token_file, sizeof world.token_file, "%s/token", world.folder);
    snprintf (world.credentials, sizeof world.credentials, "%s/credentials", world.folder);
    FILE *file = fopen (world.token_file, "we");
    assert_true (file && fputs ("identity", file) >= 0 && fclose (file) == 0);
    file = fopen (world.credentials, "we");
    assert_true (file && fputs ("[team]\naws_access_key_id = a\naws_secret_access_key = b\n", file) >= 0
        && fclose (file) == 0);
    setenv ("AWS_SHARED_CREDENTIALS_FILE", world.credentials, 1);
    setenv ("AWS_CONFIG_FILE", "/nowhere", 1);
    setenv ("AWS_ENDPOINT_URL", world.url, 1);
    //  What a library keeps for ever.
    assert_int_equal (http_begin (), 0);
    *state = &world;
    return 0;
}

static int
s_tear_down (void **state)
{
    world_t *self = *state;
    kill (self->process, SIGKILL);
    waitpid (self->process, NULL, 0);
    unlink (self->token_file);
    unlink (self->credentials);
    return rmdir (self->folder);
}

//  One kind of keys: the environment in which it is found.
static void
s_choose (const world_t *self, const char *kind)
{
    static const char *const names [] = { "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_CONTAINER_AUTHORIZATION_TOKEN" };
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        unsetenv (names [index]);
    if (strcmp (kind, "environment") == 0) {
        setenv ("AWS_ACCESS_KEY_ID", "a", 1);
        setenv ("AWS_SECRET_ACCESS_KEY", "b", 1);
    }
    else
    if (strcmp (kind, "profile") == 0)
        setenv ("AWS_PROFILE", "team", 1);
    else
    if (strcmp (kind, "web identity") == 0) {
        setenv ("AWS_WEB_IDENTITY_TOKEN_FILE", self->token_file, 1);
        setenv ("AWS_ROLE_ARN", "role", 1);
    }
    else
    if (strcmp (kind, "container") == 0) {
        setenv ("AWS_CONTAINER_CREDENTIALS_FULL_URI", self->url, 1);
        setenv ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "c", 1);
    }
    else
        setenv ("AWS_EC2_METADATA_SERVICE_ENDPOINT", self->url, 1);
}

static bool
s_is_right (const uint8_t *memory)
{
    for (size_t at = 0; at < OBJECT_BYTES; at++)
        if (memory [at] != 'a' + at % 23)
            return false;
    return true;
}

//  Opens a store and reads an object in parts.  0, or what failed.
static int
s_use_store (const char *address, uint32_t patience_ms)
{
    static uint8_t memory [OBJECT_BYTES];
    store_t *store;
    char error [900] = "";
    int rc = store_open (&store, address, error, sizeof error);
    if (rc) {
        assert_null (store);
        assert_true (strlen (error) > 0);
        return rc;
    }
    memset (memory, 0, sizeof memory);
    transfer_t parts [PARTS];
    char *url = store_url (store, "object");
    for (size_t part = 0; part < PARTS; part++)
        parts [part] = (transfer_t) { .url = url, .offset = part * OBJECT_BYTES / PARTS,
            .bytes = OBJECT_BYTES / PARTS, .memory = memory + part * OBJECT_BYTES / PARTS };
    rc = url? store_get (store, parts, PARTS, patience_ms): -ENOMEM;
    for (size_t part = 0; part < PARTS; part++)
        if (rc == -EPROTO)
            print_message ("part %zu: %d, %s\n", part, parts [part].rc, parts [part].detail);
    if (rc == 0)
        assert_true (s_is_right (memory));
    free (url);
    store_destroy (&store);
    return rc;
}

//  Opens a store and lists it.  0, or what failed.
static int
s_list_store (const char *address, uint32_t patience_ms)
{
    static const char *const names [] = { "1", "2", "f/3", "f/4" };
    store_t *store;
    store_listing_t listing = { .text = NULL };
    char error [900] = "";
    int rc = store_open (&store, address, error, sizeof error);
    if (rc == 0)
        rc = store_listing_fetch (&listing, store, patience_ms, NULL, error, sizeof error);
    assert_true (!rc == !*error);
    if (rc == 0)
        assert_int_equal (listing.count, sizeof names / sizeof *names);
    for (size_t index = 0; rc == 0 && index < listing.count; index++) {
        assert_string_equal (store_listing_name (&listing, &listing.objects [index]), names [index]);
        assert_int_equal (listing.objects [index].bytes, index + 1);
    }
    store_listing_clear (&listing);
    store_destroy (&store);
    return rc;
}

//  What a program that lacks memory may say: it has none, or the service did not answer well.  Without memory
//  libcurl 7.88 leaves the query out of a question, without a word: a store refuses its signature.
static bool
s_is_fair (int rc, bool has_query)
{
    return rc == 0 || rc == -ENOMEM || rc == -EAGAIN || rc == -EBADMSG || transfers_may_pass (rc)
        || (rc == -EKEYREJECTED && has_query);
}

//  Blocks more than before.  A thread of libcurl's that resolves a name may free its own a little later
//  (http_forget_resolver).
static long
s_left (long before)
{
    long left = 0;
    for (int turn = 0; turn < 100; turn++) {
        left = __atomic_load_n (&s_blocks, __ATOMIC_RELAXED) - before;
        if (left == 0)
            break;
        __real_nanosleep (&(struct timespec) { .tv_nsec = 10000000 }, NULL);
    }
    return left;
}

//  What is done with a store.  0 or -errno.
typedef int (use_fn) (const char *address, uint32_t patience_ms);

//  Without a fault.  An instance that may not be there has a second to answer in; on a busy machine it may be
//  late.
static int
s_use_untroubled (use_fn *use, const char *address)
{
    int rc = use (address, 0);
    for (int more = 9; rc == -ETIMEDOUT && more > 0; more--)
        rc = use (address, 0);
    return rc;
}

//  All allocations, one after the other: the n-th fails, or all from the n-th on.  What is read is tried
//  again for patience_ms.
static void
s_sweep (const world_t *self, use_fn *use, const char *kind, const char *address, bool forever,
    uint32_t patience_ms)
{
    s_choose (self, kind);
    assert_int_equal (s_use_untroubled (use, address), 0);
    unsigned succeeded = 0, nth = 0;
    bool struck;
    do {
        long before = __atomic_load_n (&s_blocks, __ATOMIC_RELAXED);
        fault_arm (++nth, ENOMEM, forever);
        int rc = use (address, patience_ms);
        struck = fault_disarm ();
        succeeded += struck && rc == 0;
        long left = s_left (before);
        if (!s_is_fair (rc, use == s_list_store) || left != 0)
            fail_msg ("%s, allocation %u fails%s: %d, %ld blocks left", kind, nth, forever? " for ever": "",
                rc, left);
    } while (struck && nth < FAULTS_MAX);
    assert_false (struck);
    assert_in_range (nth, 30, FAULTS_MAX);
    if (patience_ms)
        assert_true (succeeded > nth / 2);      //  nearly all of them are tried again
    print_message ("%s: %u allocations%s, %u outlived\n", kind, nth - 1, forever? " for ever": "", succeeded);
}

//  Guards: for each kind of keys; reading is the same for all.
static void
test_each_allocation_fails_once (void **state)
{
    static const char *const kinds [] = { "environment", "profile", "web identity", "container", "instance" };
    for (size_t index = 0; index < sizeof kinds / sizeof *kinds; index++)
        s_sweep (*state, s_use_store, kinds [index], "s3://bucket/a", false, index == 0? 10000: 0);
    char address [100];
    snprintf (address, sizeof address, "%s/a", ((world_t *) *state)->url);
    s_sweep (*state, s_use_store, "web server", address, false, 0);
}

static void
test_no_memory_from_then_on (void **state)
{
    static const char *const kinds [] = { "environment", "profile", "web identity", "container", "instance" };
    for (size_t index = 0; index < sizeof kinds / sizeof *kinds; index++)
        s_sweep (*state, s_use_store, kinds [index], "s3://bucket/a", true, 0);
}

//  Guards: a list of several pages is whole after each failure, or its failure is told.
static void
test_each_allocation_of_a_list_fails (void **state)
{
    s_sweep (*state, s_list_store, "environment", "s3://bucket/a", false, 10000);
    s_sweep (*state, s_list_store, "environment", "s3://bucket/a", true, 0);
}

//  Guards: a range that cannot go on for want of memory does not look as if it had come: its rc says so, and
//  it goes on later.
static void
test_a_range_that_cannot_go_on (void **state)
{
    uint8_t memory [200];
    transfers_t *transfers;
    char url [100];
    snprintf (url, sizeof url, "%s/object", ((world_t *) *state)->url);
    bool struck = true;
    for (unsigned nth = 1; struck && nth < FAULTS_MAX; nth++) {
        for (size_t at = 0; at < sizeof memory; at++)
            memory [at] = at < 100? (uint8_t) ('a' + at % 23): 0;
        transfer_t transfer = { .url = url, .bytes = sizeof memory, .memory = memory, .done = 100,
            .rc = -ECONNRESET };
        assert_int_equal (transfers_new (&transfers, NULL, NULL), 0);
        fault_arm (nth, ENOMEM, false);
        int rc = transfers_begin (transfers, &transfer);
        struck = fault_disarm ();
        assert_int_equal (transfer.rc, rc);
        assert_int_equal (transfer.done, 100);
        if (rc)
            assert_int_equal (transfers_begin (transfers, &transfer), 0);
        while (!transfers_take (transfers))
            transfers_wait (transfers, NULL, 0, 1000);
        if (!struck)
            assert_int_equal (transfer.rc, 0);
        for (size_t at = 0; at < transfer.done; at++)
            assert_int_equal (memory [at], 'a' + at % 23);
        transfers_destroy (&transfers);
    }
    assert_false (struck);
}

int
main (void)
{
    if (sodium_init () < 0)
        return 1;
    account_key_t *key;
    char code [KEY_SOURCE_CODE_BYTES];
    (void) key_source_parse_json ("{}", 2, &key, code);
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_each_allocation_fails_once),
        cmocka_unit_test (test_no_memory_from_then_on),
        cmocka_unit_test (test_each_allocation_of_a_list_fails),
        cmocka_unit_test (test_a_range_that_cannot_go_on),
    };
    return cmocka_run_group_tests (tests, s_set_up, s_tear_down);
}
