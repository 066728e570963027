//  An etcd that is lost again and again: how long the list of members waits before it asks again, and since
//  when it says that etcd fails.  The calls and the clock are the test's.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <curl/curl.h>
#include "members.h"

enum { OUTAGE = 8, BEGIN_S = 1000000, AWAY_S = 3600, HANDLES = 2, URL_BYTES = 200 };

//  Beside the thread of the list nothing reads or writes these before it has asked ASKED_ALL times.
enum { ASKED_ALL = 2 * OUTAGE + 1 };
static int64_t s_slept_ms, s_pauses_ms [ASKED_ALL], s_lost_s;
static atomic_uint s_asked;             //  for a lease, which the list begins with
static atomic_int_fast64_t s_now_ms = INT64_C (1000) * BEGIN_S;


//  -- the clock: it goes on while the list waits

int __wrap_clock_gettime (clockid_t clock, struct timespec *now);
int
__wrap_clock_gettime (clockid_t clock, struct timespec *now)
{
    (void) clock;
    int64_t ms = atomic_load (&s_now_ms);
    *now = (struct timespec) { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    return 0;
}

time_t __wrap_time (time_t *now);
time_t
__wrap_time (time_t *now)
{
    (void) now;
    return (time_t) (atomic_load (&s_now_ms) / 1000);
}

int __real_usleep (useconds_t time_us);
int __wrap_usleep (useconds_t time_us);
int
__wrap_usleep (useconds_t time_us)
{
    s_slept_ms += time_us / 1000;
    atomic_fetch_add (&s_now_ms, time_us / 1000);
    return atomic_load (&s_asked) < ASKED_ALL? 0: __real_usleep (1000);
}

CURLMcode __wrap_curl_multi_poll (CURLM *multi, struct curl_waitfd *more, unsigned int count, int limit_ms,
    int *ready);
CURLMcode
__wrap_curl_multi_poll (CURLM *multi, struct curl_waitfd *more, unsigned int count, int limit_ms, int *ready)
{
    (void) multi, (void) more, (void) count, (void) ready;
    atomic_fetch_add (&s_now_ms, limit_ms);
    return CURLM_OK;
}


//  -- etcd

typedef struct {
    CURL *easy;
    char url [URL_BYTES];
    curl_write_callback write;
    void *context;
} handle_t;

static handle_t s_handles [HANDLES];
static const handle_t *s_called;        //  NULL: there is no call to answer

static handle_t *
s_handle (CURL *easy)
{
    size_t at = 0;
    while (at < HANDLES - 1 && s_handles [at].easy && s_handles [at].easy != easy)
        at++;
    s_handles [at].easy = easy;
    return &s_handles [at];
}

CURLcode __real_curl_easy_setopt (CURL *easy, CURLoption option, ...);
CURLcode __wrap_curl_easy_setopt (CURL *easy, CURLoption option, ...);
CURLcode
__wrap_curl_easy_setopt (CURL *easy, CURLoption option, ...)
{
    va_list arguments;
    handle_t *handle = s_handle (easy);
    va_start (arguments, option);
    if (option == CURLOPT_URL)
        snprintf (handle->url, sizeof handle->url, "%s", va_arg (arguments, const char *));
    if (option == CURLOPT_WRITEFUNCTION)
        handle->write = va_arg (arguments, curl_write_callback);
    if (option == CURLOPT_WRITEDATA)
        handle->context = va_arg (arguments, void *);
    va_end (arguments);
    return CURLE_OK;
}

CURLMcode __wrap_curl_multi_add_handle (CURLM *multi, CURL *easy);
CURLMcode
__wrap_curl_multi_add_handle (CURLM *multi, CURL *easy)
{
    (void) multi;
    if (!strstr (s_handle (easy)->url, "/v3/watch"))
        s_called = s_handle (easy);
    return CURLM_OK;
}

CURLMcode __wrap_curl_multi_remove_handle (CURLM *multi, CURL *easy);
CURLMcode
__wrap_curl_multi_remove_handle (CURLM *multi, CURL *easy)
{
    (void) multi, (void) easy;
    return CURLM_OK;
}

CURLMcode __wrap_curl_multi_perform (CURLM *multi, int *running);
CURLMcode
__wrap_curl_multi_perform (CURLM *multi, int *running)
{
    (void) multi;
    *running = 0;
    return CURLM_OK;
}

CURLcode __wrap_curl_easy_getinfo (CURL *easy, CURLINFO info, ...);
CURLcode
__wrap_curl_easy_getinfo (CURL *easy, CURLINFO info, ...)
{
    va_list arguments;
    (void) easy;
    assert_int_equal (info, CURLINFO_RESPONSE_CODE);
    va_start (arguments, info);
    *va_arg (arguments, long *) = 200;
    va_end (arguments);
    return CURLE_OK;
}

//  It grants a lease to the OUTAGE-th question and to no other, and gives that up an hour later.
static const char *
s_answer (const char *url)
{
    if (strstr (url, "/v3/lease/grant")) {
        unsigned asked = atomic_load (&s_asked);
        if (asked < ASKED_ALL)
            s_pauses_ms [asked] = s_slept_ms;
        s_slept_ms = 0;
        atomic_store (&s_asked, asked + 1);
        return asked == OUTAGE? "{\"ID\":\"7\",\"TTL\":\"10\"}": NULL;
    }
    if (strstr (url, "/v3/lease/keepalive")) {
        atomic_fetch_add (&s_now_ms, AWAY_S * 1000);
        s_lost_s = atomic_load (&s_now_ms) / 1000;
        return NULL;
    }
    return "{\"header\":{\"revision\":\"1\"}}";
}

CURLMsg *__wrap_curl_multi_info_read (CURLM *multi, int *left);
CURLMsg *
__wrap_curl_multi_info_read (CURLM *multi, int *left)
{
    static CURLMsg message;
    const handle_t *called = s_called;
    (void) multi;
    *left = 0;
    s_called = NULL;
    if (!called)
        return NULL;
    const char *answer = s_answer (called->url);
    if (answer)
        called->write ((char *) answer, 1, strlen (answer), called->context);
    message = (CURLMsg) { .msg = CURLMSG_DONE, .easy_handle = called->easy,
        .data.result = answer? CURLE_OK: CURLE_COULDNT_CONNECT };
    return &message;
}


//  -- the test

//  Guards: pauses double up to two seconds while etcd does not answer.  When it has answered and is lost once
//  more, they begin anew, and so does the time since when it fails.
static void
test_two_outages (void **state)
{
    (void) state;
    char error [512], since [64];
    members_t *members;
    assert_int_equal (members_open (&members, "etcd://etcd:1/prefix", "a:1", 1 << 20, error,
        sizeof error), 0);
    while (atomic_load (&s_asked) < ASKED_ALL)
        __real_usleep (1000);
    for (unsigned asked = 1; asked < ASKED_ALL; asked++) {
        unsigned failures = asked <= OUTAGE? asked - 1: asked - OUTAGE - 1;
        int64_t most_ms = failures < 5? 100 << failures: 2000;
        assert_in_range (s_pauses_ms [asked], most_ms / 2, most_ms + 20);
    }
    members_look_t look;
    members_look (members, &look);
    time_t lost_s = (time_t) s_lost_s;
    struct tm then;
    strftime (since, sizeof since, "since %F %T UTC", gmtime_r (&lost_s, &then));
    assert_non_null (strstr (look.trouble, since));
    assert_false (look.is_registered);
    members_close (&members);
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_two_outages) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
