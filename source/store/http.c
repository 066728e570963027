#include "http.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <curl/curl.h>
#include "utf8.h"
#include "wiped.h"

int
http_begin (void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool is_begun;
    pthread_mutex_lock (&lock);
    if (!is_begun)
        is_begun = curl_global_init_mem (CURL_GLOBAL_DEFAULT, wiped_malloc, wiped_free, wiped_realloc,
            wiped_strdup, wiped_calloc) == CURLE_OK;
    int rc = is_begun? 0: -ENOMEM;
    pthread_mutex_unlock (&lock);
    return rc;
}

void
http_forget_resolver (void *easy)
{
    assert (easy);
#if LIBCURL_VERSION_NUM >= 0x075700     //  7.87
    curl_easy_setopt (easy, CURLOPT_QUICK_EXIT, 1L);
#endif
}

//  libcurl has no question for it before CURLINFO_USED_PROXY (8.7), which does not name the variable.
static int
s_on_message (CURL *easy, curl_infotype kind, char *text, size_t bytes, void *proxy)
{
    static const char before [] = "Uses proxy env variable ";
    (void) easy;
    size_t length = sizeof before - 1;
    if (kind == CURLINFO_TEXT && bytes > length && strncmp (text, before, length) == 0) {
        const char *end = memchr (text + length, ' ', bytes - length);
        int name = end? (int) (end - text - (ptrdiff_t) length): 0;
        snprintf (proxy, HTTP_PROXY_BYTES, "%.*s", name, text + length);
    }
    return 0;
}

void
http_watch_proxy (void *easy, char proxy [HTTP_PROXY_BYTES])
{
    static const char *const names [] = { "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
        "ALL_PROXY" };
    assert (easy); assert (proxy);
    proxy [0] = 0;
    bool may_be = false;                //  else libcurl need not tell what it does
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        may_be = may_be || getenv (names [index]);
    if (!may_be)
        return;
    curl_easy_setopt (easy, CURLOPT_DEBUGFUNCTION, s_on_message);
    curl_easy_setopt (easy, CURLOPT_DEBUGDATA, proxy);
    curl_easy_setopt (easy, CURLOPT_VERBOSE, 1L);
}

//  Of a text with a proxy's address behind its first `before` bytes: the bytes up to and with the address's
//  scheme, and where its host begins.  User and password, if there are any, are between the two.
static size_t
s_find_host (const char *text, size_t before, const char **host_p)
{
    const char *end = strstr (text + before, "://"), *at = strrchr (text, '@');
    size_t length = end? (size_t) (end - text) + 3: before;
    *host_p = at && at >= text + length? at + 1: text + length;
    return length;
}

void
http_show_proxy (const char *variable, char shown [HTTP_PROXY_SHOWN_BYTES])
{
    assert (variable); assert (shown);
    const char *value = getenv (variable), *host;
    value = value? value: "";
    size_t scheme = s_find_host (value, 0, &host);
    snprintf (shown, HTTP_PROXY_SHOWN_BYTES, "%.*s%.200s (%s)", scheme < 20? (int) scheme: 0, value, host,
        variable);
    utf8_mask (shown);
}

void
http_hide_password (char *message)
{
    enum { LONGEST_COMPLAINT = CURL_ERROR_SIZE - 10 };
    assert (message);
    if (strncmp (message, "Unsupported proxy", 17) != 0)
        return;
    const char *host;
    size_t quote = strcspn (message, "'"), length = s_find_host (message, quote, &host);
    length += message [length] == '\'';
    //  curl cuts long messages: what stands behind a long password is not there.
    if (strlen (message) >= LONGEST_COMPLAINT && !strchr (message, '@'))
        message [quote] = 0;
    if (host > message + length)
        memmove (message + length, host, strlen (host) + 1);
}

const char *
http_header (const char *line, size_t bytes, const char *name, size_t *value_bytes_p)
{
    assert (line); assert (name); assert (value_bytes_p);
    size_t length = strlen (name);
    if (bytes <= length || strncasecmp (line, name, length) != 0 || line [length] != ':')
        return NULL;
    const char *value = line + length + 1, *end = line + bytes;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end [-1] == '\r' || end [-1] == '\n' || end [-1] == ' ' || end [-1] == '\t'))
        end--;
    *value_bytes_p = (size_t) (end - value);
    return value;
}

//  Digits, and one character behind them that has to be there; 0: there is no end to ask for.  False: none,
//  or too large.
static bool
s_number (const char **at_p, const char *end, char behind, uint64_t *number_p)
{
    const char *at = *at_p;
    uint64_t number = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (number > (UINT64_MAX - 9) / 10)
            return false;
        number = 10 * number + (uint64_t) (*at - '0');
    }
    bool has_digits = at > *at_p, has_end = behind? at < end && *at == behind: at == end;
    *at_p = at + (behind && has_end);
    *number_p = number;
    return has_digits && has_end;
}

bool
http_range (const char *value, size_t bytes, uint64_t *first_p, uint64_t *all_p)
{
    assert (value || bytes == 0); assert (first_p && all_p);
    static const char unit [] = "bytes ";
    if (bytes < sizeof unit || strncasecmp (value, unit, sizeof unit - 1) != 0)
        return false;
    const char *at = value + sizeof unit - 1, *end = value + bytes;
    uint64_t last;
    return s_number (&at, end, '-', first_p) && s_number (&at, end, '/', &last)
        && s_number (&at, end, 0, all_p) && *first_p <= last && last < *all_p;
}

void
http_error_code (const char *text, size_t bytes, char code [HTTP_CODE_BYTES])
{
    assert (text || bytes == 0);
    static const char begin [] = "<Code>";
    const char *at = bytes? memmem (text, bytes, begin, sizeof begin - 1): NULL;
    const char *end = text + bytes;
    size_t length = 0;
    if (at)
        for (at += sizeof begin - 1; at + length < end && length < HTTP_CODE_BYTES - 1; length++) {
            char letter = at [length];
            bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')
                || (letter >= '0' && letter <= '9');
            if (!is_plain)
                break;
            code [length] = letter;
        }
    code [length] = 0;
}
