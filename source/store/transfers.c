#include "transfers.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include <curl/curl.h>
#include <sodium.h>
#include "clock.h"
#include "http.h"
#include "pace.h"

enum {
    MAGIC = 0x7fa45fe2,
    CONNECT_S = 10, STILL_S = 10,
    CONFIRM_S = 30,                     //  a store may take long to confirm a large object that it has
    UPLOAD_LOOK_MS = 100,               //  between two looks where nothing can be asked again
    JUDGED_MS = 2,                      //  requests are judged no more often
    PATIENT_MS = 200,                   //  pace_time_t
    BUFFER_BYTES = 256 * 1024, CONNECTIONS_MAX = 256,
    BODY_BYTES = 1024,                  //  of an error's answer, for its code
    SWALLOWED_BYTES = 64 * 1024         //  of an answer that is no object: some do not end
};

//  A transfer under way; kept for the next one when it is done.
typedef struct handle {
    CURL *easy;
    struct transfers *owner;
    transfer_t *transfer;
    pace_request_t pace;
    size_t done_before;                 //  bytes of the transfer before this request
    struct curl_slist *headers;
    bool has_range;                     //  the answer is the range that was asked for
    uint64_t sent;                      //  of an object that is written
    bool is_unreadable;                 //  its file is
    char body [BODY_BYTES];
    size_t body_bytes;
    size_t swallowed;                   //  bytes that are no part of an object
    char message [CURL_ERROR_SIZE];
    struct handle *next;
} handle_t;

struct transfers {
    uint32_t magic;
    const account_t *account;
    keyring_t *keys;
    CURLM *multi;
    handle_t *free_handles;
    handle_t *busy_handles;             //  for the end
    transfer_t *first, *last;           //  done
    pace_t pace;
    watched_clock_t clock, patient;     //  pace_time_t
    int64_t judged_ms;
};

static pace_time_t
s_time (const transfers_t *self)
{
    return (pace_time_t) { watched_clock_ms (&self->clock), watched_clock_ms (&self->patient) };
}


//  -- the answer

static size_t
s_on_header (char *line, size_t unit, size_t count, void *context)
{
    handle_t *self = context;
    size_t bytes = unit * count, length;
    uint64_t first;
    const char *value;
    if (bytes >= 5 && strncmp (line, "HTTP/", 5) == 0) {        //  of the last answer, after redirections
        self->has_range = false;
        self->transfer->object_bytes = 0;
        self->transfer->object_version [0] = 0;
    }
    else
    if ((value = http_header (line, bytes, "ETag", &length)) && length < TRANSFER_VERSION_BYTES)
        snprintf (self->transfer->object_version, TRANSFER_VERSION_BYTES, "%.*s", (int) length, value);
    else
    if ((value = http_header (line, bytes, "Content-Range", &length))
    &&  http_range (value, length, &first, &self->transfer->object_bytes))
        self->has_range = first == self->transfer->offset + self->transfer->done;
    return bytes;
}

bool
transfers_version_is_weak (const char *version)
{
    return strncmp (version, "W/", 2) == 0;
}

//  What is between the quotes: what stands on the way may make a version weak.
static const char *
s_opaque (const char *version, size_t *length_p)
{
    version += transfers_version_is_weak (version)? 2: 0;
    size_t length = strlen (version);
    bool has_quotes = length > 1 && version [0] == '"' && version [length - 1] == '"';
    *length_p = has_quotes? length - 2: length;
    return has_quotes? version + 1: version;
}

bool
transfers_version_is_other (const char *one, const char *other)
{
    size_t one_length, other_length;
    one = s_opaque (one, &one_length);
    other = s_opaque (other, &other_length);
    return one_length > 0 && other_length > 0
        && (one_length != other_length || memcmp (one, other, one_length) != 0);
}

//  The version to ask for: the caller's, or of the bytes that have come; "": any.
static const char *
s_wanted_version (const transfer_t *transfer)
{
    return transfer->version && *transfer->version? transfer->version: transfer->first_version;
}

//  Whether the head of the answer is another object's.  Not every store heeds the condition in the question.
static bool
s_is_other (const transfer_t *transfer)
{
    uint64_t expected = transfer->expected_bytes? transfer->expected_bytes: transfer->first_bytes;
    return transfers_version_is_other (s_wanted_version (transfer), transfer->object_version)
        || (expected && transfer->object_bytes && expected != transfer->object_bytes);
}

//  Whether the answer is what was asked for, by its status.
static bool
s_has_object (const handle_t *self, long status)
{
    return !self->transfer->upload
        && (status == 206? self->has_range: status == 200 && self->transfer->is_whole);
}

static size_t
s_on_body (char *data, size_t unit, size_t count, void *context)
{
    handle_t *self = context;
    transfer_t *transfer = self->transfer;
    size_t bytes = unit * count;
    long status = 0;
    curl_easy_getinfo (self->easy, CURLINFO_RESPONSE_CODE, &status);
    if (s_has_object (self, status)) {
        if (bytes > transfer->bytes - transfer->done || s_is_other (transfer))
            return 0;                   //  more than was asked for, or of another object: curl ends it
        if (transfer->done == 0) {
            transfer->first_bytes = transfer->object_bytes;
            memcpy (transfer->first_version, transfer->object_version, TRANSFER_VERSION_BYTES);
        }
        memcpy (transfer->memory + transfer->done, data, bytes);
        transfer->done += bytes;
        pace_move (&self->pace, transfer->done - self->done_before, s_time (self->owner));
        return bytes;
    }
    if (status < 300 && !transfer->upload)      //  the whole object, or another range
        return 0;
    self->swallowed += bytes;
    if (self->swallowed > SWALLOWED_BYTES)
        return 0;
    if (status < 300)                   //  a word on what was written
        return bytes;
    size_t kept = bytes < BODY_BYTES - self->body_bytes? bytes: BODY_BYTES - self->body_bytes;
    memcpy (self->body + self->body_bytes, data, kept);
    self->body_bytes += kept;
    return bytes;
}

static int
s_judge_status (const transfer_t *transfer, const char *code)
{
    static const char *const of_time [] = { "ExpiredToken", "RequestTimeTooSkewed", "TokenRefreshRequired" };
    //  With status 400, and yet worth a second try.
    static const char *const of_network [] = { "RequestTimeout", "IncompleteBody", "BadDigest",
        "XAmzContentSHA256Mismatch" };
    for (size_t index = 0; index < sizeof of_time / sizeof *of_time; index++)
        if (strcmp (code, of_time [index]) == 0)
            return -EKEYEXPIRED;
    for (size_t index = 0; index < sizeof of_network / sizeof *of_network; index++)
        if (strcmp (code, of_network [index]) == 0)
            return -EBUSY;
    switch (transfer->status) {
    case 401: case 403:
        return -EKEYREJECTED;
    case 404: case 410:
        return -ENOENT;
    case 412: case 416:
        return -EREMCHG;
    case 408: case 425: case 429:
        return -EBUSY;
    default:
        return transfer->status >= 500 && transfer->status != 501? -EBUSY: -EPROTO;
    }
}

static int
s_judge_connection (CURLcode result)
{
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_COULDNT_CONNECT:
        return -ECONNREFUSED;
    case CURLE_COULDNT_RESOLVE_HOST: case CURLE_COULDNT_RESOLVE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_RECV_ERROR: case CURLE_SEND_ERROR: case CURLE_GOT_NOTHING: case CURLE_PARTIAL_FILE:
    case CURLE_SEND_FAIL_REWIND:
        return -ECONNRESET;
    default:
        return -EPROTO;
    }
}

//  The range that was asked for, or less of it; or a whole answer.
static void
s_judge_range (transfer_t *transfer)
{
    if (transfer->done == transfer->bytes || transfer->is_whole)
        return;
    transfer->rc = transfer->offset + transfer->done >= transfer->object_bytes? -EREMCHG: -ECONNRESET;
    snprintf (transfer->detail, TRANSFER_DETAIL_BYTES, "%zu of %zu bytes came", transfer->done,
        transfer->bytes);
}

//  A store that answers well before it has everything did not mean this object.
static void
s_judge_upload (const handle_t *self, transfer_t *transfer)
{
    if (self->sent == transfer->bytes) {
        transfer->done = transfer->bytes;
        return;
    }
    transfer->rc = -ECONNRESET;
    snprintf (transfer->detail, TRANSFER_DETAIL_BYTES, "the store took %llu of %zu bytes",
        (unsigned long long) self->sent, transfer->bytes);
}

static void
s_judge (handle_t *self, CURLcode result)
{
    transfer_t *transfer = self->transfer;
    long status = 0;
    char code [HTTP_CODE_BYTES] = "";
    curl_easy_getinfo (self->easy, CURLINFO_RESPONSE_CODE, &status);
    transfer->status = (int) status;
    bool is_whole_object = !transfer->upload && !transfer->is_whole && status == 200
        && (result == CURLE_WRITE_ERROR || result == CURLE_OK);
    if (self->is_unreadable) {
        transfer->rc = -EIO;
        snprintf (transfer->detail, TRANSFER_DETAIL_BYTES, "the file to send cannot be read");
    }
    else
    if (s_has_object (self, status) && s_is_other (transfer)) {
        transfer->rc = -EREMCHG;
        snprintf (transfer->detail, TRANSFER_DETAIL_BYTES, "the answer is of another version of the object");
    }
    else
    if (status >= 300 && (result == CURLE_OK || result == CURLE_WRITE_ERROR)) {
        http_error_code (self->body, self->body_bytes, code);
        transfer->rc = s_judge_status (transfer, code);
        snprintf (transfer->detail, TRANSFER_DETAIL_BYTES, "%ld%s%s", status, *code? " ": "", code);
    }
    else
    if (transfer->is_whole && status == 200 && result == CURLE_WRITE_ERROR) {
        transfer->rc = -EPROTO;
        snprintf (transfer->detail, TRANSFER_DETAIL_BYTES, "the answer has more than %zu bytes",
            transfer->bytes);
    }
    else
    if (transfer->upload && result == CURLE_WRITE_ERROR) {
        transfer->rc = -EPROTO;
        snprintf (transfer->detail, TRANSFER_DETAIL_BYTES, "%ld, with an answer that does not end", status);
    }
    else
    if (is_whole_object) {
        transfer->rc = -EPROTO;
        snprintf (transfer->detail, TRANSFER_DETAIL_BYTES, "the server does not give parts of a file");
    }
    else
    if (result != CURLE_OK) {
        transfer->rc = s_judge_connection (result);
        http_hide_password (self->message);
        snprintf (transfer->detail, TRANSFER_DETAIL_BYTES, "%.*s", TRANSFER_DETAIL_BYTES - 1,
            *self->message? self->message: curl_easy_strerror (result));
    }
    else
    if (transfer->upload)
        s_judge_upload (self, transfer);
    else
        s_judge_range (transfer);
    if (transfer->upload && transfer->upload->sent && transfer->rc)
        atomic_fetch_sub (transfer->upload->sent, self->sent);
}


//  -- the question

//  The next bytes of the file that is written.
static size_t
s_on_room (char *room, size_t unit, size_t count, void *context)
{
    handle_t *self = context;
    const transfer_t *transfer = self->transfer;
    size_t left = transfer->bytes - self->sent, wanted = unit * count < left? unit * count: left;
    ssize_t got;
    do
        got = pread (transfer->upload->descriptor, room, wanted, (off_t) self->sent);
    while (got < 0 && errno == EINTR);
    self->is_unreadable = got < 0 || (got == 0 && wanted > 0);
    if (self->is_unreadable)
        return CURL_READFUNC_ABORT;
    self->sent += (size_t) got;
    if (transfer->upload->sent)
        atomic_fetch_add (transfer->upload->sent, (size_t) got);
    return (size_t) got;
}

//  curl begins again by itself where a connection that was kept turns out to be closed.
static int
s_on_seek (void *context, curl_off_t offset, int origin)
{
    handle_t *self = context;
    if (origin != SEEK_SET || offset < 0 || (uint64_t) offset > self->sent)
        return CURL_SEEKFUNC_FAIL;
    if (self->transfer->upload->sent)
        atomic_fetch_sub (self->transfer->upload->sent, self->sent - (uint64_t) offset);
    self->sent = (uint64_t) offset;
    return CURL_SEEKFUNC_OK;
}

static bool
s_add_header (handle_t *self, const char *name, const char *value)
{
    char line [ACCOUNT_KEY_TOKEN_MAX + 64];
    struct curl_slist *headers = NULL;
    if (snprintf (line, sizeof line, "%s: %s", name, value) < (int) sizeof line)
        headers = curl_slist_append (self->headers, line);
    if (headers)
        self->headers = headers;
    sodium_memzero (line, sizeof line);         //  it can be a token
    return headers;
}

//  range: of an object that is read in part; NULL.
static bool
s_sign (handle_t *self, const account_key_t *key, const char *region, const transfer_t *transfer,
    const char *range)
{
    char date [ACCOUNT_DATE_BYTES], authorization [ACCOUNT_SIGNATURE_BYTES];
    account_request_t request = { .method = transfer->upload? "PUT": "GET", .url = transfer->url,
        .range = range, .payload = transfer->upload? transfer->upload->checksum: ACCOUNT_PAYLOAD_EMPTY,
        .time = time (NULL) };
    return account_key_sign (key, region, &request, date, authorization)
        && s_add_header (self, "Authorization", authorization)
        && s_add_header (self, "x-amz-date", date)
        && s_add_header (self, "x-amz-content-sha256", request.payload)
        && (!key->token || s_add_header (self, "x-amz-security-token", key->token));
}

//  With the keys of this moment.
static bool
s_sign_now (handle_t *self, const transfers_t *transfers, transfer_t *transfer, const char *range)
{
    account_key_t *key = keyring_take (transfers->keys, &transfer->keys_number);
    bool is_signed = s_sign (self, key, transfers->account->region, transfer, range);
    account_key_release (&key);
    return is_signed;
}

static void
s_set_limits (CURL *easy, bool is_again)
{
    curl_easy_setopt (easy, CURLOPT_NOSIGNAL, 1L);
    http_forget_resolver (easy);
    curl_easy_setopt (easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
    curl_easy_setopt (easy, CURLOPT_CONNECTTIMEOUT, (long) CONNECT_S);
    curl_easy_setopt (easy, CURLOPT_FRESH_CONNECT, is_again? 1L: 0L);
    curl_easy_setopt (easy, CURLOPT_BUFFERSIZE, (long) BUFFER_BYTES);
    curl_easy_setopt (easy, CURLOPT_UPLOAD_BUFFERSIZE, (long) BUFFER_BYTES);
    curl_easy_setopt (easy, CURLOPT_PATH_AS_IS, 1L);
}

static void
s_set_redirections (CURL *easy, const account_t *account, const char *url)
{
    //  A signed request follows no redirection, which could take its keys elsewhere.
    curl_easy_setopt (easy, CURLOPT_FOLLOWLOCATION, account? 0L: 1L);
    curl_easy_setopt (easy, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt (easy, CURLOPT_PROTOCOLS_STR, "http,https");
    bool is_secure = strncasecmp (url, "https:", 6) == 0;
    curl_easy_setopt (easy, CURLOPT_REDIR_PROTOCOLS_STR, is_secure? "https": "http,https");
    const char *authorities = getenv ("AWS_CA_BUNDLE");
    if (account && authorities && *authorities)
        curl_easy_setopt (easy, CURLOPT_CAINFO, authorities);
}

//  Not CURLOPT_RANGE: without memory libcurl leaves that header out, and asks for the whole object.
static bool
s_ask_object (handle_t *self, const transfers_t *transfers, transfer_t *transfer)
{
    char range [64];
    uint64_t first = transfer->offset + transfer->done, last = transfer->offset + transfer->bytes - 1;
    bool is_range = !transfer->is_whole;
    const char *version = s_wanted_version (transfer);
    bool is_condition = *version && !transfers_version_is_weak (version);    //  RFC 9110, 13.1.1
    snprintf (range, sizeof range, "bytes=%llu-%llu", (unsigned long long) first, (unsigned long long) last);
    return (!is_range || s_add_header (self, "Range", range))
        && (!transfers->keys || s_sign_now (self, transfers, transfer, is_range? range: NULL))
        && (!is_condition || s_add_header (self, "If-Match", version))
        && (!transfer->is_afresh || s_add_header (self, "Cache-Control", "no-cache"));
}

static bool
s_ask_upload (handle_t *self, const transfers_t *transfers, transfer_t *transfer)
{
    CURL *easy = self->easy;
    curl_easy_setopt (easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt (easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t) transfer->bytes);
    curl_easy_setopt (easy, CURLOPT_READFUNCTION, s_on_room);
    curl_easy_setopt (easy, CURLOPT_READDATA, self);
    curl_easy_setopt (easy, CURLOPT_SEEKFUNCTION, s_on_seek);
    curl_easy_setopt (easy, CURLOPT_SEEKDATA, self);
    return !transfers->keys || s_sign_now (self, transfers, transfer, NULL);
}

static bool
s_ask (handle_t *self, const transfers_t *transfers, transfer_t *transfer)
{
    CURL *easy = self->easy;
    s_set_limits (easy, self->pace.tries > 0);
    s_set_redirections (easy, transfers->account, transfer->url);
    curl_easy_setopt (easy, CURLOPT_WRITEFUNCTION, s_on_body);
    curl_easy_setopt (easy, CURLOPT_WRITEDATA, self);
    curl_easy_setopt (easy, CURLOPT_HEADERFUNCTION, s_on_header);
    curl_easy_setopt (easy, CURLOPT_HEADERDATA, self);
    curl_easy_setopt (easy, CURLOPT_ERRORBUFFER, self->message);
    curl_easy_setopt (easy, CURLOPT_PRIVATE, self);
    http_watch_proxy (easy, transfer->proxy);
    return curl_easy_setopt (easy, CURLOPT_URL, transfer->url) == CURLE_OK
        && (transfer->upload? s_ask_upload (self, transfers, transfer):
            s_ask_object (self, transfers, transfer))
        && curl_easy_setopt (easy, CURLOPT_HTTPHEADER, self->headers) == CURLE_OK;
}


//  -- handles

static handle_t *
s_take_handle (transfers_t *self)
{
    handle_t *handle = self->free_handles;
    if (handle)
        self->free_handles = handle->next;
    else {
        handle = calloc (1, sizeof *handle);
        if (handle)
            handle->easy = curl_easy_init ();
        if (handle && !handle->easy) {
            free (handle);
            handle = NULL;
        }
    }
    return handle;
}

//  Its connection stays open in the multi handle; only settings are forgotten.
static void
s_give_handle (transfers_t *self, handle_t *handle)
{
    curl_easy_reset (handle->easy);
    curl_slist_free_all (handle->headers);
    CURL *easy = handle->easy;
    *handle = (handle_t) { .easy = easy, .next = self->free_handles };
    self->free_handles = handle;
}

static void
s_unlink (transfers_t *self, const handle_t *handle)
{
    handle_t **place = &self->busy_handles;
    while (*place != handle)
        place = &(*place)->next;
    *place = handle->next;
}

static void
s_finish (transfers_t *self, handle_t *handle, CURLcode result)
{
    transfer_t *transfer = handle->transfer;
    s_judge (handle, result);
    pace_end (&self->pace, &handle->pace, transfer->rc == 0, watched_clock_ms (&self->clock));
    if (self->keys && (transfer->rc == -EKEYEXPIRED || transfer->rc == -EKEYREJECTED))
        keyring_refused (self->keys, transfer->keys_number);
    curl_multi_remove_handle (self->multi, handle->easy);
    s_unlink (self, handle);
    s_give_handle (self, handle);
    transfer->next = NULL;
    if (self->first)
        self->last->next = transfer;
    else
        self->first = transfer;
    self->last = transfer;
}


//  -- transfers

int
transfers_new (transfers_t **self_p, const account_t *account, keyring_t *keys)
{
    assert (self_p); assert (account || !keys);
    *self_p = NULL;
    transfers_t *self = http_begin () == 0? calloc (1, sizeof *self): NULL;
    CURLM *multi = self? curl_multi_init (): NULL;
    if (!multi) {
        free (self);
        return -ENOMEM;
    }
    curl_multi_setopt (multi, CURLMOPT_MAXCONNECTS, (long) CONNECTIONS_MAX);
    *self = (transfers_t) { .magic = MAGIC, .account = account, .keys = keys, .multi = multi,
        .pace = pace_new (), .clock = watched_clock_new (clock_now_ns ()),
        .patient = watched_clock_new (clock_now_ns ()) };
    *self_p = self;
    return 0;
}

void
transfers_destroy (transfers_t **self_p)
{
    assert (self_p);
    transfers_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC);
    size_t under_way = 0;
    for (; self->busy_handles; under_way++) {
        handle_t *handle = self->busy_handles;
        curl_multi_remove_handle (self->multi, handle->easy);
        s_unlink (self, handle);
        s_give_handle (self, handle);
    }
    assert (under_way == self->pace.under_way);
    while (self->free_handles) {
        handle_t *handle = self->free_handles;
        self->free_handles = handle->next;
        curl_easy_cleanup (handle->easy);
        free (handle);
    }
    curl_multi_cleanup (self->multi);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  Asks for what is missing.  0 or -ENOMEM.
static int
s_send (transfers_t *self, handle_t *handle)
{
    transfer_t *transfer = handle->transfer;
    transfer->status = 0;
    transfer->keys_number = 0;
    transfer->done = transfer->is_whole? 0: transfer->done;
    transfer->object_bytes = 0;
    transfer->object_version [0] = 0;
    if (transfer->done == 0) {
        transfer->first_bytes = 0;
        transfer->first_version [0] = 0;
    }
    handle->done_before = transfer->done;
    return s_ask (handle, self, transfer) && curl_multi_add_handle (self->multi, handle->easy) == CURLM_OK?
        0: -ENOMEM;
}

static pace_time_t
s_look_at_clocks (transfers_t *self)
{
    uint64_t now_ns = clock_now_ns ();
    watched_clock_look (&self->clock, now_ns, UINT64_C (2000000) * PACE_LOOK_MS);
    watched_clock_look (&self->patient, now_ns, UINT64_C (1000000) * PATIENT_MS);
    return s_time (self);
}

int
transfers_begin (transfers_t *self, transfer_t *transfer)
{
    assert (self && self->magic == MAGIC);
    assert (transfer && transfer->url);
    assert (transfer->done < transfer->bytes || transfer->is_whole);
    assert (transfer->upload? transfer->upload->checksum && transfer->done == 0: !!transfer->memory);
    transfer->rc = 0;
    transfer->given_up = 0;
    transfer->detail [0] = 0;
    handle_t *handle = s_take_handle (self);
    if (!handle)
        return transfer->rc = -ENOMEM;
    handle->owner = self;
    handle->transfer = transfer;
    if (s_send (self, handle)) {
        s_give_handle (self, handle);
        return transfer->rc = -ENOMEM;
    }
    handle->pace = (pace_request_t) { .bytes = transfer->is_whole? 0: transfer->bytes - transfer->done,
        .patience_ms = (transfer->upload? CONFIRM_S: STILL_S) * 1000, .is_never_again = transfer->upload };
    pace_begin (&self->pace, &handle->pace, s_look_at_clocks (self));
    handle->next = self->busy_handles;
    self->busy_handles = handle;
    return 0;
}

void
transfers_drop (transfers_t *self, const transfer_t *transfer)
{
    assert (self && self->magic == MAGIC);
    for (handle_t *handle = self->busy_handles; handle; handle = handle->next)
        if (handle->transfer == transfer) {
            pace_end (&self->pace, &handle->pace, false, watched_clock_ms (&self->clock));
            curl_multi_remove_handle (self->multi, handle->easy);
            s_unlink (self, handle);
            s_give_handle (self, handle);
            return;
        }
    for (transfer_t **place = &self->first, *last = NULL; *place; last = *place, place = &(*place)->next)
        if (*place == transfer) {
            self->last = transfer == self->last? last: self->last;
            *place = transfer->next;
            return;
        }
}

//  Gives the request up, with its connection, and asks for what is missing on a new one.
static void
s_ask_again (transfers_t *self, handle_t *handle)
{
    transfer_t *transfer = handle->transfer;
    uint64_t missing = transfer->bytes - transfer->done;
    curl_multi_remove_handle (self->multi, handle->easy);
    curl_easy_reset (handle->easy);
    curl_slist_free_all (handle->headers);
    handle_t before = *handle;
    *handle = (handle_t) { .easy = before.easy, .owner = self, .transfer = transfer, .pace = before.pace,
        .next = before.next };
    pace_again (&handle->pace, transfer->is_whole? 0: missing, s_time (self));
    transfer->given_up++;
    if (s_send (self, handle))
        s_finish (self, handle, CURLE_OUT_OF_MEMORY);
}

static void
s_judge_pace (transfers_t *self)
{
    const pace_time_t time = s_time (self);
    if (time.now_ms - self->judged_ms < JUDGED_MS)
        return;
    self->judged_ms = time.now_ms;
    for (handle_t *handle = self->busy_handles, *next; handle; handle = next) {
        next = handle->next;
        const transfer_t *transfer = handle->transfer;
        curl_off_t sent;
        //  curl takes the file's bytes in large pieces, and sends them piece by piece.
        if (transfer->upload && curl_easy_getinfo (handle->easy, CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK)
            pace_move (&handle->pace, (uint64_t) sent, time);
        pace_verdict_t verdict = pace_judge (&self->pace, &handle->pace, time);
        if (verdict == PACE_STILL) {
            snprintf (handle->message, sizeof handle->message, "less than %d bytes a second for %u s",
                PACE_STILL_BYTES, handle->pace.patience_ms / 1000);
            s_finish (self, handle, CURLE_OPERATION_TIMEDOUT);
        }
        else
        if (verdict == PACE_AGAIN && !transfer->is_whole && transfer->done == transfer->bytes)
            s_finish (self, handle, CURLE_OK);          //  only the answer's end is missing
        else
        if (verdict == PACE_AGAIN)
            s_ask_again (self, handle);
    }
}

//  Moves them on, as far as bytes have come.
static void
s_turn (transfers_t *self)
{
    int running, left;
    s_look_at_clocks (self);
    curl_multi_perform (self->multi, &running);
    CURLMsg *message;
    while ((message = curl_multi_info_read (self->multi, &left)))
        if (message->msg == CURLMSG_DONE) {
            handle_t *handle = NULL;
            CURLcode result = message->data.result;
            curl_easy_getinfo (message->easy_handle, CURLINFO_PRIVATE, &handle);
            s_finish (self, handle, result);
        }
    s_judge_pace (self);
}

void
transfers_wait (transfers_t *self, const int *descriptors, size_t count, int limit_ms)
{
    assert (self && self->magic == MAGIC); assert (count <= TRANSFERS_DESCRIPTORS_MAX);
    s_turn (self);
    if (self->first || limit_ms == 0)
        return;
    struct curl_waitfd others [TRANSFERS_DESCRIPTORS_MAX];
    for (size_t at = 0; at < count; at++)
        others [at] = (struct curl_waitfd) { .fd = descriptors [at], .events = CURL_WAIT_POLLIN };
    int most_ms = self->busy_handles? UPLOAD_LOOK_MS: INT_MAX;
    for (const handle_t *handle = self->busy_handles; handle && most_ms > PACE_LOOK_MS; handle = handle->next)
        most_ms = handle->pace.is_never_again? most_ms: PACE_LOOK_MS;
    curl_multi_poll (self->multi, others, (unsigned int) count,
        limit_ms >= 0 && limit_ms < most_ms? limit_ms: most_ms, NULL);
    s_turn (self);
}

transfer_t *
transfers_take (transfers_t *self)
{
    assert (self && self->magic == MAGIC);
    transfer_t *transfer = self->first;
    if (transfer)
        self->first = transfer->next;
    return transfer;
}

bool
transfers_may_pass (int rc)
{
    switch (-rc) {
    case EBUSY: case ETIMEDOUT: case ECONNRESET: case ECONNREFUSED: case EHOSTUNREACH: case ENOMEM:
        return true;
    default:
        return false;
    }
}

const char *
transfers_error (int rc)
{
    switch (-rc) {
    case EBUSY:
        return "the store is busy";
    case EKEYREJECTED:
        return "the store refuses the keys";
    case EKEYEXPIRED:
        return "the store says that the keys have expired, or that the clocks differ";
    case EREMCHG:
        return "the object is not the one that was there before";
    case ENOENT:
        return "the object is not there";
    case EPROTO:
        return "the answer is not an object store's";
    default:
        return strerror (-rc);
    }
}

const char *
transfers_library (void)
{
    return "libcurl/" LIBCURL_VERSION;
}
