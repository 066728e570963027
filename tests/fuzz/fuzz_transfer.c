/*  fuzz_transfer -- any bytes as a store's answers to one question: transfers.c and libcurl as they are, over
 *  connections to this process.
 *
 *  The first byte says what is asked.  What follows are the answers, one a connection; a NUL byte ends an
 *  answer.  A redirection leads to the next one, wherever it points.
 *
 *  Whatever is answered: the transfer ends, with what was asked for or with a reason; no more bytes are taken
 *  than there is room for, and none of an object that is not the one that was asked for.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <curl/curl.h>
#include "transfers.h"

enum { OBJECT_BYTES = 1000, OFFSET = 100, WANTED_BYTES = 300, UNTOUCHED = 0xa5, PEERS_MAX = 16,
    LONGEST_MS = 20000 };
//  Of the first byte.
enum { IS_WHOLE = 1, HAS_VERSION = 2, IS_WEAK = 4, HAS_SIZE = 8, IS_SHORT = 16, IS_UPLOAD = 32,
    IS_AFRESH = 64 };

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);
CURLMcode __real_curl_multi_add_handle (CURLM *multi, CURL *easy);
CURLMcode __wrap_curl_multi_add_handle (CURLM *multi, CURL *easy);

//  The answers that are left, where connections come in, and our ends of them.
static struct {
    const uint8_t *at;
    size_t left;
    int listener, peers [PEERS_MAX];
    size_t peer_count;
    char name [32];                     //  of the listener, in the abstract namespace
} s_store = { .listener = -1 };

static void
s_require (bool condition)
{
    if (!condition)
        abort ();
}

//  No name is looked up: every host is here.
CURLMcode
__wrap_curl_multi_add_handle (CURLM *multi, CURL *easy)
{
    curl_easy_setopt (easy, CURLOPT_ABSTRACT_UNIX_SOCKET, s_store.name);
    return __real_curl_multi_add_handle (multi, easy);
}

//  Gives each connection that has come in the next answer, as far as the socket holds it.
static void
s_accept (void)
{
    int peer, room = 1 << 20;
    while (s_store.peer_count < PEERS_MAX
    &&  (peer = accept4 (s_store.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        setsockopt (peer, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        const uint8_t *end = memchr (s_store.at, 0, s_store.left);
        size_t bytes = end? (size_t) (end - s_store.at): s_store.left;
        if (bytes > 0)
            (void) !send (peer, s_store.at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        shutdown (peer, SHUT_WR);
        bytes += end != NULL;
        s_store.at += bytes;
        s_store.left -= bytes;
        s_store.peers [s_store.peer_count++] = peer;
    }
}

//  What transfers.h promises.
static void
s_check (const transfer_t *transfer)
{
    static const int failures [] = { EBUSY, ETIMEDOUT, ECONNRESET, ECONNREFUSED, EHOSTUNREACH, EKEYREJECTED,
        EKEYEXPIRED, ENOENT, EREMCHG, EPROTO };
    bool is_known = transfer->rc == 0;
    for (size_t index = 0; index < sizeof failures / sizeof *failures; index++)
        is_known = is_known || transfer->rc == -failures [index];
    s_require (is_known && (transfer->rc == 0 || *transfer->detail) && *transfers_error (transfer->rc));
    s_require (memchr (transfer->detail, 0, TRANSFER_DETAIL_BYTES)
        && memchr (transfer->object_version, 0, TRANSFER_VERSION_BYTES));
    s_require (transfer->done <= transfer->bytes);
    if (transfer->rc == 0 && !transfer->is_whole)
        s_require (transfer->done == transfer->bytes);
    if (transfer->upload)
        return;
    for (size_t at = transfer->done; at < transfer->bytes; at++)
        s_require (transfer->memory [at] == UNTOUCHED);
    if (transfer->done == 0)
        return;
    s_require (transfer->status == (transfer->is_whole? 200: 206) || transfer->rc);
    s_require (!transfer->version || !transfers_version_is_other (transfer->version,
        transfer->first_version));
    s_require (!transfer->expected_bytes || !transfer->first_bytes
        || transfer->expected_bytes == transfer->first_bytes);
}

static void
s_ask (uint8_t how, int file)
{
    atomic_uint_fast64_t sent;
    transfer_upload_t upload = { .descriptor = file, .checksum = "0", .sent = &sent };
    atomic_init (&sent, 0);
    transfer_t transfer = { .url = "http://127.0.0.1:1/bucket/object", .offset = OFFSET,
        .bytes = how & IS_SHORT? 1: WANTED_BYTES, .is_afresh = how & IS_AFRESH };
    transfer.is_whole = how & IS_WHOLE && !(how & IS_UPLOAD);
    transfer.offset = transfer.is_whole? 0: transfer.offset;
    transfer.version = how & HAS_VERSION? how & IS_WEAK? "W/\"v1\"": "\"v1\"": NULL;
    transfer.expected_bytes = how & HAS_SIZE? OBJECT_BYTES: 0;
    if (how & IS_UPLOAD)
        transfer.upload = &upload;
    else {
        transfer.memory = malloc (transfer.bytes);
        s_require (transfer.memory);
        memset (transfer.memory, UNTOUCHED, transfer.bytes);
    }
    transfers_t *transfers;
    s_require (transfers_new (&transfers, NULL, NULL) == 0);
    s_require (transfers_begin (transfers, &transfer) == 0);
    int waits = 0;
    while (!transfers_take (transfers)) {
        transfers_wait (transfers, &s_store.listener, 1, 100);
        s_accept ();
        s_require (waits++ < LONGEST_MS / 100);
    }
    s_check (&transfer);
    s_require (atomic_load (&sent) == (transfer.upload? transfer.done: 0));
    transfers_destroy (&transfers);
    free (transfer.memory);
}

static void
s_end (void)
{
    close (s_store.listener);
}

static int
s_begin (void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int file = memfd_create ("object", MFD_CLOEXEC);
    s_require (file >= 0 && ftruncate (file, WANTED_BYTES) == 0);
    snprintf (s_store.name, sizeof s_store.name, "tureen-fuzz-%ld", (long) getpid ());
    memcpy (address.sun_path + 1, s_store.name, strlen (s_store.name));
    s_store.listener = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + strlen (s_store.name));
    s_require (s_store.listener >= 0 && bind (s_store.listener, (struct sockaddr *) &address, size) == 0
        && listen (s_store.listener, PEERS_MAX) == 0);
    setenv ("no_proxy", "*", 1);
    atexit (s_end);
    return file;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static int file = -1;
    if (size == 0)
        return 0;
    if (file < 0)
        file = s_begin ();
    s_store.at = data + 1;
    s_store.left = size - 1;
    s_ask (data [0], file);
    s_store.left = 0;
    s_accept ();                        //  of this input, not of the next one
    while (s_store.peer_count > 0)
        close (s_store.peers [--s_store.peer_count]);
    return 0;
}
