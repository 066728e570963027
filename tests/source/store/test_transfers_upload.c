//  A slow upload, on a clock that goes by what the store takes: one that moves is waited for, however
//  long it takes in all; one that hardly moves is given up.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <curl/curl.h>
#include "transfers.h"

//  Small buffers: what curl has sent is what the store took, or will soon.
enum { OBJECT_BYTES = 240000, SOCKET_BYTES = 4096,
    TAKES_A_SECOND = 200,               //  of its clock's seconds: a jump beyond two LOOK_MS does not count
    BEFORE_BYTES = 1000                 //  that other uploads have sent
};

static int64_t s_now_ms;

int __real_clock_gettime (clockid_t clock, struct timespec *now);
int __wrap_clock_gettime (clockid_t clock, struct timespec *now);
CURLMcode __real_curl_multi_add_handle (CURLM *multi, CURL *easy);
CURLMcode __wrap_curl_multi_add_handle (CURLM *multi, CURL *easy);

int
__wrap_clock_gettime (clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_MONOTONIC)
        return __real_clock_gettime (clock, now);
    *now = (struct timespec) { .tv_sec = s_now_ms / 1000, .tv_nsec = s_now_ms % 1000 * 1000000 };
    return 0;
}

static int
s_on_socket (void *context, curl_socket_t descriptor, curlsocktype purpose)
{
    (void) context, (void) purpose;
    int bytes = SOCKET_BYTES;
    setsockopt (descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    return CURL_SOCKOPT_OK;
}

CURLMcode
__wrap_curl_multi_add_handle (CURLM *multi, CURL *easy)
{
    curl_easy_setopt (easy, CURLOPT_SOCKOPTFUNCTION, s_on_socket);
    return __real_curl_multi_add_handle (multi, easy);
}

//  Uploads to a store that takes so many bytes a second, and returns the transfer's rc.  The time that a
//  piece takes at that rate passes on the made-up clock when the store has taken it.
static int
s_upload (int bytes_a_second)
{
    static const char go_on [] = "HTTP/1.1 100 Continue\r\n\r\n",
        answer [] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), peer = -1;
    int bytes = SOCKET_BYTES;
    assert_int_equal (setsockopt (listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    assert_int_equal (bind (listener, (struct sockaddr *) &address, length), 0);
    assert_int_equal (listen (listener, 1), 0);
    assert_int_equal (getsockname (listener, (struct sockaddr *) &address, &length), 0);
    char url [64], room [64];
    const size_t most = (size_t) bytes_a_second / TAKES_A_SECOND;
    assert_true (most > 0 && most <= sizeof room);
    snprintf (url, sizeof url, "http://127.0.0.1:%u/object", ntohs (address.sin_port));

    FILE *file = tmpfile ();
    assert_true (file && ftruncate (fileno (file), OBJECT_BYTES) == 0);
    atomic_uint_fast64_t sent;
    atomic_init (&sent, BEFORE_BYTES);
    transfer_upload_t upload = { .descriptor = fileno (file), .checksum = "0", .sent = &sent };
    transfer_t transfer = { .url = url, .bytes = OBJECT_BYTES, .upload = &upload };
    transfers_t *transfers;
    assert_int_equal (transfers_new (&transfers, NULL, NULL), 0);
    assert_int_equal (transfers_begin (transfers, &transfer), 0);
    int64_t begin_ms = s_now_ms, taken = 0;
    while (!transfers_take (transfers)) {
        transfers_wait (transfers, NULL, 0, 0);
        if (peer < 0)
            peer = accept (listener, NULL, NULL);
        ssize_t count = peer >= 0? recv (peer, room, most, MSG_DONTWAIT): 0;
        if (count <= 0)
            continue;
        if (taken == 0)                 //  curl would wait a second for that
            assert_int_equal (write (peer, go_on, strlen (go_on)), strlen (go_on));
        if (taken < OBJECT_BYTES && taken + count >= OBJECT_BYTES)
            assert_int_equal (write (peer, answer, strlen (answer)), strlen (answer));
        taken += count;
        s_now_ms = begin_ms + taken * 1000 / bytes_a_second;
    }
    transfers_destroy (&transfers);
    if (transfer.rc)
        assert_string_equal (transfer.detail, "less than 1024 bytes a second for 30 s");
    //  What went out in vain is sent again, and counts then.
    assert_int_equal (atomic_load (&sent), BEFORE_BYTES + (transfer.rc? 0: OBJECT_BYTES));
    fclose (file);
    close (peer);
    close (listener);
    return transfer.rc;
}

//  Guards: at 6 KB a second, 40 seconds for this object, an upload is waited for.
static void
test_a_slow_upload_is_waited_for (void **state)
{
    (void) state;
    int64_t begin_ms = s_now_ms;
    assert_int_equal (s_upload (6000), 0);
    assert_true (s_now_ms - begin_ms >= 40000);
}

//  Guards: at half a KB a second it is given up after CONFIRM_S, when what the sockets hold has gone.
static void
test_an_upload_that_hardly_moves (void **state)
{
    (void) state;
    int64_t begin_ms = s_now_ms;
    assert_int_equal (s_upload (500), -ETIMEDOUT);
    assert_in_range (s_now_ms - begin_ms, 30000, 100000);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_slow_upload_is_waited_for),
        cmocka_unit_test (test_an_upload_that_hardly_moves)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
