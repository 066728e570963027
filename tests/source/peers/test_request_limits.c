//  How long a request over HTTP may take: what libcurl is told, in which unit.  The requests themselves fail
//  at once, at a port where nothing listens.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <curl/curl.h>
#include "key_source.h"
#include "members.h"
#include "scratch.h"
#include "transfers.h"

#define NOWHERE "127.0.0.1:1"

//  What the last request was told, in milliseconds; 0: nothing.
static atomic_long s_whole_ms, s_connect_ms;

CURLcode __real_curl_easy_setopt (CURL *easy, CURLoption option, ...);
CURLcode __wrap_curl_easy_setopt (CURL *easy, CURLoption option, ...);

static void
s_note (CURLoption option, long value)
{
    if (option == CURLOPT_TIMEOUT || option == CURLOPT_TIMEOUT_MS)
        atomic_store (&s_whole_ms, option == CURLOPT_TIMEOUT? value * 1000: value);
    if (option == CURLOPT_CONNECTTIMEOUT || option == CURLOPT_CONNECTTIMEOUT_MS)
        atomic_store (&s_connect_ms, option == CURLOPT_CONNECTTIMEOUT? value * 1000: value);
}

CURLcode
__wrap_curl_easy_setopt (CURL *easy, CURLoption option, ...)
{
    va_list arguments;
    CURLcode result;
    va_start (arguments, option);
    if ((int) option < CURLOPTTYPE_OBJECTPOINT) {
        long value = va_arg (arguments, long);
        s_note (option, value);
        result = __real_curl_easy_setopt (easy, option, value);
    }
    else
        result = __real_curl_easy_setopt (easy, option, va_arg (arguments, void *));
    va_end (arguments);
    return result;
}

//  The server's start does not wait for etcd.
int __wrap_pthread_cond_timedwait (pthread_cond_t *condition, pthread_mutex_t *mutex,
    const struct timespec *until);
int
__wrap_pthread_cond_timedwait (pthread_cond_t *condition, pthread_mutex_t *mutex,
    const struct timespec *until)
{
    (void) condition, (void) mutex, (void) until;
    return ETIMEDOUT;
}

static void
s_expect (long connect_ms, long whole_ms)
{
    assert_int_equal (atomic_exchange (&s_connect_ms, 0), connect_ms);
    assert_int_equal (atomic_exchange (&s_whole_ms, 0), whole_ms);
}

//  Guards: a service for keys that accepts a connection and says nothing holds up a start, and a job with
//  keys that end, for seconds and not for hours.
static void
test_questions_for_keys (void **state)
{
    scratch_folder_t *scratch = *state;
    char token [100];
    snprintf (token, sizeof token, "%s/token", scratch->path);
    FILE *file = fopen (token, "w");
    assert_true (file && fputs ("word\n", file) >= 0 && fclose (file) == 0);
    const struct { account_source_t source; bool is_first; long limit_ms; } cases [] = {
        { ACCOUNT_INSTANCE, true, 1000 }, { ACCOUNT_INSTANCE, false, 5000 },
        { ACCOUNT_CONTAINER, false, 5000 }, { ACCOUNT_WEB_IDENTITY, false, 15000 } };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        bool has_token = cases [index].source == ACCOUNT_WEB_IDENTITY;
        account_t account = { .source = cases [index].source, .service = (char []) { "http://" NOWHERE },
            .looked_at = (char []) { "nowhere" }, .role = (char []) { "role" },
            .session = (char []) { "session" }, .token_file = has_token? token: NULL };
        key_source_t *source;
        account_key_t *key;
        char error [900];
        assert_int_equal (key_source_new (&source, &account), 0);
        int rc = cases [index].is_first? key_source_first (source, &key, error, sizeof error):
            key_source_ask (source, &key, error, sizeof error);
        //  A busy machine may let the shortest limit pass before the refusal is seen.
        assert_true (rc == -ECONNREFUSED || rc == -ETIMEDOUT);
        key_source_destroy (&source);
        s_expect (cases [index].limit_ms, cases [index].limit_ms);
    }
}

//  Guards: a store that cannot be reached is given up after ten seconds; a large object may take longer than
//  any limit.
static void
test_objects (void **state)
{
    (void) state;
    uint8_t byte;
    transfer_t transfer = { .url = "http://" NOWHERE "/a", .bytes = 1, .memory = &byte };
    transfers_t *transfers;
    assert_int_equal (transfers_new (&transfers, NULL, NULL), 0);
    assert_int_equal (transfers_begin (transfers, &transfer), 0);
    while (!transfers_take (transfers))
        transfers_wait (transfers, NULL, 0, -1);
    assert_int_equal (transfer.rc, -ECONNREFUSED);
    transfers_destroy (&transfers);
    s_expect (10000, 0);
}

//  Guards: an etcd that says nothing is left for the next one before this member's entry ends, ten seconds
//  after it was kept alive last.
static void
test_questions_to_etcd (void **state)
{
    (void) state;
    char error [512];
    members_t *members;
    assert_int_equal (members_open (&members, "etcd://" NOWHERE "/prefix", "a:1", 1 << 20, error,
        sizeof error), 0);
    while (atomic_load (&s_whole_ms) == 0)
        nanosleep (&(struct timespec) { .tv_nsec = 1000000 }, NULL);
    members_close (&members);
    s_expect (1500, 3000);
}

static int
s_begin (void **state)
{
    static scratch_folder_t scratch;
    unsetenv ("http_proxy");
    unsetenv ("HTTP_PROXY");
    unsetenv ("all_proxy");
    unsetenv ("ALL_PROXY");
    *state = &scratch;
    return scratch_begin (&scratch)? 0: -1;
}

static int
s_end (void **state)
{
    return scratch_end (*state)? 0: -1;
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_questions_for_keys, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_objects, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_questions_to_etcd, s_begin, s_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
