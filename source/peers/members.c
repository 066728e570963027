#include "members.h"
#include "clock.h"
#include "http.h"
#include "option.h"
#include "utf8.h"
#include "words.h"
#include "xalloc.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { MEMBERS_MAGIC = 0x00e6be25 };

typedef struct members_etcd members_etcd_t;
typedef struct members_held members_held_t;

struct members {
    uint32_t magic;
    //  set at birth
    char own_name [MEMBERS_NAME_BYTES];
    uint64_t own_bytes;
    members_etcd_t *etcd;               //  NULL: a list that was given
    atomic_uint_fast64_t number;
    //  under the lock
    pthread_mutex_t lock;
    members_held_t *now;
    members_look_t look;
};

struct members_held {
    size_t references;                  //  under the lock
    member_list_t list;
};

__attribute__ ((format (printf, 4, 5)))
static int
s_fail (int rc, char *error, size_t error_bytes, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (error, error_bytes, format, arguments);
    va_end (arguments);
    return rc;
}


//  -- lists

static members_held_t *
s_new_list (size_t count)
{
    members_held_t *held = calloc (1, sizeof *held + count * sizeof (member_t));
    if (held)
        held->references = 1;
    return held;
}

static int
s_compare (const void *one, const void *other)
{
    return strcmp (((const member_t *) one)->name, ((const member_t *) other)->name);
}

//  A name that comes twice stays once: homes have no two members of one id.
static void
s_order (members_held_t *held, const char *own_name)
{
    member_list_t *list = &held->list;
    qsort (list->member, list->count, sizeof *list->member, s_compare);
    size_t kept = 0;
    for (size_t at = 0; at < list->count; at++)
        if (kept == 0 || s_compare (&list->member [kept - 1], &list->member [at]) != 0)
            list->member [kept++] = list->member [at];
    list->count = kept;
    list->own = SIZE_MAX;
    for (size_t at = 0; at < list->count; at++)
        if (strcmp (list->member [at].name, own_name) == 0)
            list->own = at;
}


//  -- names

bool
members_is_name (const char *text, size_t length)
{
    const char *colon = memrchr (text, ':', length);
    if (!colon || colon == text || length >= MEMBERS_NAME_BYTES)
        return false;
    size_t host = (size_t) (colon - text), digits = length - host - 1;
    if (digits < 1 || digits > 5 || strspn (colon + 1, "0123456789") < digits)
        return false;
    long port = strtol (colon + 1, NULL, 10);
    if (port < 1 || port > 65535)
        return false;
    bool is_six = text [0] == '[' && text [host - 1] == ']';
    for (size_t at = 0; at < host; at++) {
        char letter = text [at];
        bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')
            || (letter >= '0' && letter <= '9') || letter == '.' || letter == '-' || letter == '_';
        if (!is_plain && !(is_six && (letter == ':' || letter == '[' || letter == ']')))
            return false;
    }
    return true;
}

void
members_set_member (member_t *member, const char *name, size_t length, uint64_t bytes)
{
    memcpy (member->name, name, length);
    member->name [length] = 0;
    member->id = XXH3_64bits (name, length);
    member->bytes = bytes;
    member->since_ms = clock_now_ms ();
}

//  "HOST:PORT[=BYTES],.."
static int
s_parse (const char *text, uint64_t own_bytes, member_list_t *list, char *error, size_t error_bytes)
{
    for (const char *item = text, *end; ; item = end + 1) {
        end = strchrnul (item, ',');
        const char *equals = memchr (item, '=', (size_t) (end - item));
        size_t length = (size_t) ((equals? equals: end) - item);
        uint64_t bytes = own_bytes;
        char size [32] = "";
        if (!members_is_name (item, length))
            return s_fail (-EINVAL, error, error_bytes, "'%.*s' is no member: give HOST:PORT, or "
                "HOST:PORT=BYTES with the size of its cache, as in node1:7600=200G", (int) (end - item),
                item);
        if (equals)
            snprintf (size, sizeof size, "%.*s", (int) (end - equals - 1), equals + 1);
        if (equals && (!option_size (size, &bytes) || bytes == 0))
            return s_fail (-EINVAL, error, error_bytes, "member '%.*s': '%s' is no size: give one as in "
                "node1:7600=200G", (int) length, item, size);
        members_set_member (&list->member [list->count], item, length, bytes);
        for (size_t at = 0; at < list->count; at++)
            if (strcmp (list->member [at].name, list->member [list->count].name) == 0)
                return s_fail (-EEXIST, error, error_bytes, "member '%s' is given twice: name it once",
                    list->member [at].name);
        list->count++;
        if (!*end)
            return 0;
    }
}

static int
s_take_given (members_t *self, const char *text, char *error, size_t error_bytes)
{
    size_t commas = 0;
    for (const char *at = text; (at = strchr (at, ',')); at++)
        commas++;
    if (commas >= MEMBERS_MAX)
        return s_fail (-E2BIG, error, error_bytes, "%zu members are too many: at most %d", commas + 1,
            MEMBERS_MAX);
    self->now = s_new_list (commas + 1);
    if (!self->now)
        return s_fail (-ENOMEM, error, error_bytes, "not enough memory for the list of members: free some");
    int rc = s_parse (text, self->own_bytes, &self->now->list, error, error_bytes);
    if (rc)
        return rc;
    s_order (self->now, self->own_name);
    if (self->now->list.own == SIZE_MAX)
        return s_fail (-ENOENT, error, error_bytes, "this server, '%s', is not among the members: add it to "
            "the list, or name it as the list does", self->own_name);
    return 0;
}


//  -- lists that change

static const member_t *
s_find (const member_t *all, size_t count, const char *name)
{
    for (size_t at = 0; at < count; at++)
        if (strcmp (all [at].name, name) == 0)
            return &all [at];
    return NULL;
}

static bool
s_is_same (const member_list_t *one, const member_list_t *other)
{
    bool is_same = one->count == other->count;
    for (size_t at = 0; is_same && at < one->count; at++)
        is_same = strcmp (one->member [at].name, other->member [at].name) == 0
            && one->member [at].bytes == other->member [at].bytes;
    return is_same;
}

bool
members_set (members_t *self, const member_t *all, size_t count)
{
    members_held_t *next = s_new_list (count + 1);
    if (!next)
        return false;
    if (count > 0)
        memcpy (next->list.member, all, count * sizeof *all);
    next->list.count = count;
    if (!s_find (all, count, self->own_name))
        members_set_member (&next->list.member [next->list.count++], self->own_name,
            strlen (self->own_name), self->own_bytes);
    s_order (next, self->own_name);
    pthread_mutex_lock (&self->lock);
    const member_list_t *before = self->now? &self->now->list: NULL;
    for (size_t at = 0; before && at < next->list.count; at++) {
        const member_t *known = s_find (before->member, before->count, next->list.member [at].name);
        if (known)
            next->list.member [at].since_ms = known->since_ms;
    }
    members_held_t *old = next;
    if (!before || !s_is_same (before, &next->list)) {
        old = self->now;
        self->now = next;
        atomic_fetch_add (&self->number, 1);
    }
    bool is_last = old && --old->references == 0;
    pthread_mutex_unlock (&self->lock);
    if (is_last)
        free (old);
    return true;
}

//  A sentence; "": none.  It is registered at etcd or not.
static void
s_set_trouble (members_t *self, const char *trouble, bool is_registered)
{
    pthread_mutex_lock (&self->lock);
    snprintf (self->look.trouble, sizeof self->look.trouble, "%s", trouble);
    self->look.is_registered = is_registered;
    pthread_mutex_unlock (&self->lock);
}


//  -- etcd's answers

enum { DECODED_BYTES_MAX = 700 };

void
members_answer_code (const char *text, char *room)
{
    assert (sodium_base64_encoded_len (strlen (text), sodium_base64_VARIANT_ORIGINAL)
        <= MEMBERS_ANSWER_CODED_BYTES);
    sodium_bin2base64 (room, MEMBERS_ANSWER_CODED_BYTES, (const uint8_t *) text, strlen (text),
        sodium_base64_VARIANT_ORIGINAL);
}

//  False: it is none, is too long, or has a zero inside.
static bool
s_decode (const json_t *coded, char text [DECODED_BYTES_MAX + 1])
{
    const char *value = json_string_value (coded);
    size_t size = 0;
    if (!value || sodium_base642bin ((uint8_t *) text, DECODED_BYTES_MAX, value, json_string_length (coded),
        NULL, &size, NULL, sodium_base64_VARIANT_ORIGINAL))
        return false;
    text [size] = 0;
    return strlen (text) == size;
}

//  A number as a string of digits.
static bool
s_number (const json_t *value, uint64_t *number_p)
{
    const char *text = json_string_value (value);
    if (!text || !*text || strlen (text) > 19 || strspn (text, "0123456789") != strlen (text))
        return false;
    *number_p = strtoull (text, NULL, 10);
    return true;
}

static bool
s_entry (const json_t *entry, const char *prefix, member_t *member)
{
    char name [DECODED_BYTES_MAX + 1], value [DECODED_BYTES_MAX + 1];
    size_t length = strlen (prefix);
    uint64_t bytes;
    if (!s_decode (json_object_get (entry, "key"), name) || strncmp (name, prefix, length) != 0
    ||  !members_is_name (name + length, strlen (name + length))
    ||  !s_decode (json_object_get (entry, "value"), value))
        return false;
    json_t *said = json_loads (value, JSON_REJECT_DUPLICATES, NULL);
    bool is_member = s_number (json_object_get (said, "bytes"), &bytes);
    json_decref (said);
    if (is_member)
        members_set_member (member, name + length, strlen (name + length), bytes);
    return is_member;
}

static void
s_name_strange (const json_t *entry, char *strange, size_t strange_bytes)
{
    char name [DECODED_BYTES_MAX + 1];
    bool is_text = s_decode (json_object_get (entry, "key"), name);
    if (is_text)
        utf8_mask (name);
    snprintf (strange, strange_bytes, "%s", is_text? name: "(no text)");
}

int
members_answer_range (const char *text, size_t bytes, const char *prefix, member_t *members,
    size_t members_max, size_t *strange_p, char *strange, size_t strange_bytes)
{
    *strange_p = 0;
    *strange = 0;
    json_t *answer = json_loadb (text, bytes, 0, NULL);
    const json_t *header = json_object_get (answer, "header"), *all = json_object_get (answer, "kvs");
    if (!json_is_object (header) || (all && !json_is_array (all))) {
        json_decref (answer);
        return -1;
    }
    size_t count = 0, at;
    const json_t *entry;
    json_array_foreach (all, at, entry)
        if (count < members_max && s_entry (entry, prefix, &members [count]))
            count++;
        else
        if ((*strange_p)++ == 0)
            s_name_strange (entry, strange, strange_bytes);
    json_decref (answer);
    return (int) count;
}

uint64_t
members_answer_number (const char *text, size_t bytes, const char *outer, const char *key)
{
    uint64_t number = 0;
    json_t *answer = json_loadb (text, bytes, JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *object = outer? json_object_get (answer, outer): answer;
    if (!s_number (json_object_get (object, key), &number))
        number = 0;
    json_decref (answer);
    return number;
}

bool
members_answer_error (const char *text, size_t bytes, char *error, size_t error_bytes)
{
    json_t *answer = json_loadb (text, bytes, 0, NULL);
    const char *said = json_string_value (json_object_get (answer, "error"));
    said = said? said: json_string_value (json_object_get (answer, "message"));
    snprintf (error, error_bytes, "%s", said? said: "");
    utf8_mask (error);
    json_decref (answer);
    return *error;
}

bool
members_answer_login (const char *user, const char *password, char *room, size_t room_bytes)
{
    json_t *question = json_pack ("{s:s, s:s}", "name", user, "password", password);
    size_t size = question? json_dumpb (question, room, room_bytes - 1, JSON_COMPACT): 0;
    bool has_room = size > 0 && size < room_bytes;
    room [has_room? size: 0] = 0;
    json_decref (question);
    return has_room;
}

bool
members_answer_token (const char *text, size_t bytes, char *token, size_t token_bytes)
{
    json_t *answer = json_loadb (text, bytes, 0, NULL);
    const char *said = json_string_value (json_object_get (answer, "token"));
    bool is_token = said && *said && strlen (said) < token_bytes;
    for (const char *at = said; is_token && *at; at++)
        is_token = *at > ' ' && *at <= '~';
    snprintf (token, token_bytes, "%s", is_token? said: "");
    json_decref (answer);
    return is_token;
}


//  -- etcd: calls
//  A thread speaks with etcd: it grants itself a lease, puts this server's entry under it, keeps it alive,
//  reads the entries of all, and has a watch beside that.  Whatever the watch says, the entries are read
//  anew, so that it has to be understood no further; and they are read every RANGE_MS all the same.
//
//  Calls and the watch are one libcurl multi handle's: the watch goes on during a call, and a call ends at
//  once when the list is closed.

enum {
    ENDPOINTS_MAX = 9, ENDPOINT_BYTES = 300, PREFIX_BYTES = 256,
    LEASE_S = 10, KEEP_MS = 3000, RANGE_MS = 30000,
    QUIET_MS = 100,                     //  between two readings
    WATCH_MS = 1000,                    //  between two watches, if they end at once
    CALL_MS = 3000, CONNECT_MS = 1500, FIRST_MS = 5000, GOODBYE_MS = 1500,
    PAUSE_LEAST_MS = 100, PAUSE_MOST_MS = 2000,
    ANSWER_BYTES_MAX = 4 << 20, BODY_BYTES = 4096, HEADER_BYTES = 2048
};

struct members_etcd {
    members_t *members;
    char endpoints [ENDPOINTS_MAX][ENDPOINT_BYTES];     //  "http://HOST:PORT"
    size_t endpoint_count;
    char prefix [PREFIX_BYTES];         //  "PREFIX/"
    int stop;                           //  an eventfd
    pthread_t thread;
    bool is_running;
    atomic_bool is_stopping;
    pthread_mutex_t lock;
    pthread_cond_t first;               //  the first list is there
    bool has_first;
    //  the thread's
    size_t endpoint;
    uint64_t lease;                     //  0: none
    CURL *call, *watch;
    CURLM *both;
    struct curl_slist *json, *leader;
    bool is_watched, is_news;
    bool is_leaving;                    //  what is called now is the goodbye
    bool has_own;                       //  this server's entry is there
    uint64_t revision;                  //  of the last reading
    int64_t put_ms, read_ms, watched_ms;    //  when the last one began
    time_t failing_since;               //  0: it does not
    char *answer;
    size_t answer_bytes;
    member_t *found;                    //  MEMBERS_MAX
    char trouble [MEMBERS_TEXT_BYTES];
};

static size_t
s_on_answer (char *bytes, size_t unit, size_t count, void *context)
{
    members_etcd_t *self = context;
    size_t size = unit * count;
    if (self->answer_bytes + size > ANSWER_BYTES_MAX)
        return 0;
    memcpy (self->answer + self->answer_bytes, bytes, size);
    self->answer_bytes += size;
    return size;
}

//  Any word of the watch's is news; one that it is over ends it.
static size_t
s_on_watch (char *bytes, size_t unit, size_t count, void *context)
{
    members_etcd_t *self = context;
    size_t size = unit * count;
    self->is_news = true;
    bool is_over = memmem (bytes, size, "\"canceled\":true", strlen ("\"canceled\":true"));
    return is_over? 0: size;
}

static void
s_set (members_etcd_t *self, CURL *easy, const char *path, const char *body)
{
    char url [ENDPOINT_BYTES + 64];
    snprintf (url, sizeof url, "%s%s", self->endpoints [self->endpoint], path);
    const char *names [] = { "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY" };
    const CURLoption options [] = { CURLOPT_CAINFO, CURLOPT_SSLCERT, CURLOPT_SSLKEY };
    curl_easy_reset (easy);
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (getenv (names [at]))
            curl_easy_setopt (easy, options [at], getenv (names [at]));
    curl_easy_setopt (easy, CURLOPT_NOSIGNAL, 1L);
    http_forget_resolver (easy);
    curl_easy_setopt (easy, CURLOPT_URL, url);
    curl_easy_setopt (easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt (easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt (easy, CURLOPT_CONNECTTIMEOUT_MS, (long) CONNECT_MS);
    curl_easy_setopt (easy, CURLOPT_HTTPHEADER, easy == self->watch? self->leader: self->json);
    curl_easy_setopt (easy, CURLOPT_COPYPOSTFIELDS, body);
    curl_easy_setopt (easy, CURLOPT_WRITEDATA, self);
}

//  What has ended; true: the call, with this result.
static bool
s_take_ends (members_etcd_t *self, CURLcode *result_p)
{
    bool is_over = false;
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read (self->both, &left));)
        if (message->msg == CURLMSG_DONE && message->easy_handle == self->call) {
            *result_p = message->data.result;
            is_over = true;
        }
        else
        if (message->msg == CURLMSG_DONE) {
            curl_multi_remove_handle (self->both, self->watch);
            self->is_watched = false;
            self->is_news = true;       //  its end is news: what it would have said is not known
        }
    return is_over;
}

static CURLcode
s_perform (members_etcd_t *self)
{
    struct curl_waitfd stop = { .fd = self->stop, .events = CURL_WAIT_POLLIN };
    CURLcode result = CURLE_OUT_OF_MEMORY;
    bool is_over = curl_multi_add_handle (self->both, self->call) != CURLM_OK;
    while (!is_over) {
        int running;
        if (!self->is_leaving && atomic_load (&self->is_stopping)) {
            result = CURLE_ABORTED_BY_CALLBACK;
            break;
        }
        curl_multi_perform (self->both, &running);
        is_over = s_take_ends (self, &result);
        if (!is_over)
            curl_multi_poll (self->both, &stop, self->is_leaving? 0: 1, CALL_MS, NULL);
    }
    curl_multi_remove_handle (self->both, self->call);
    return result;
}

//  True: it has answered; what: for people, as in "does not grant a lease".
static bool
s_call (members_etcd_t *self, const char *path, const char *body, const char *what, int64_t limit_ms)
{
    s_set (self, self->call, path, body);
    curl_easy_setopt (self->call, CURLOPT_WRITEFUNCTION, s_on_answer);
    curl_easy_setopt (self->call, CURLOPT_TIMEOUT_MS, (long) limit_ms);
    self->answer_bytes = 0;
    CURLcode result = s_perform (self);
    long code = 0;
    curl_easy_getinfo (self->call, CURLINFO_RESPONSE_CODE, &code);
    if (result == CURLE_OK && code == 200)
        return true;
    char reason [100] = "";
    if (result == CURLE_OK && !members_answer_error (self->answer, self->answer_bytes, reason, sizeof reason))
        snprintf (reason, sizeof reason, "HTTP status %ld", code);
    snprintf (self->trouble, sizeof self->trouble, "etcd at %.120s does not %s (%s)",
        self->endpoints [self->endpoint], what, *reason? reason: curl_easy_strerror (result));
    return false;
}


//  -- etcd: what is asked

static void
s_say_no_etcd (members_etcd_t *self)
{
    snprintf (self->trouble, sizeof self->trouble, "what answers at %.150s is no etcd",
        self->endpoints [self->endpoint]);
}

static bool
s_add (struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl_slist_append (*list, line);
    *list = more? more: *list;
    return more;
}

//  The headers of calls and of the watch; token: etcd's, or "".
static bool
s_set_headers (members_etcd_t *self, const char *token)
{
    char line [HEADER_BYTES];
    snprintf (line, sizeof line, "Authorization: %s", token);
    curl_slist_free_all (self->json);
    curl_slist_free_all (self->leader);
    self->json = self->leader = NULL;
    //  Without a leader a watch would say nothing, for ever.
    bool is_made = s_add (&self->json, "Content-Type: application/json")
        && s_add (&self->leader, "Content-Type: application/json")
        && s_add (&self->leader, "Grpc-Metadata-hasleader: true")
        && (!*token || (s_add (&self->json, line) && s_add (&self->leader, line)));
    sodium_memzero (line, sizeof line);
    if (!is_made)
        snprintf (self->trouble, sizeof self->trouble, "not enough memory to ask etcd");
    return is_made;
}

//  With the name and the password of the environment, if they are there, as etcdctl has them.
static bool
s_log_in (members_etcd_t *self)
{
    const char *user = getenv ("ETCD_USERNAME"), *password = getenv ("ETCD_PASSWORD");
    char body [BODY_BYTES], token [HEADER_BYTES - 32] = "";
    if (!s_set_headers (self, ""))
        return false;
    if (!user || !*user)
        return true;
    bool is_in = members_answer_login (user, password? password: "", body, sizeof body)
        && s_call (self, "/v3/auth/authenticate", body, "know ETCD_USERNAME with ETCD_PASSWORD", CALL_MS);
    if (is_in && !members_answer_token (self->answer, self->answer_bytes, token, sizeof token)) {
        s_say_no_etcd (self);
        is_in = false;
    }
    is_in = is_in && s_set_headers (self, token);
    sodium_memzero (body, sizeof body);
    sodium_memzero (token, sizeof token);
    sodium_memzero (self->answer, self->answer_bytes);
    return is_in;
}

//  This server's entry, under its lease.
static bool
s_put_entry (members_etcd_t *self)
{
    char body [BODY_BYTES], key [PREFIX_BYTES + MEMBERS_NAME_BYTES], value [64],
        coded_key [MEMBERS_ANSWER_CODED_BYTES], coded_value [MEMBERS_ANSWER_CODED_BYTES];
    snprintf (key, sizeof key, "%s%s", self->prefix, self->members->own_name);
    snprintf (value, sizeof value, "{\"bytes\":\"%llu\"}", (unsigned long long) self->members->own_bytes);
    members_answer_code (key, coded_key);
    members_answer_code (value, coded_value);
    snprintf (body, sizeof body, "{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%llu\"}", coded_key,
        coded_value, (unsigned long long) self->lease);
    self->put_ms = clock_now_ms ();
    return s_call (self, "/v3/kv/put", body, "take this server's entry", CALL_MS);
}

static bool
s_register (members_etcd_t *self)
{
    char body [64];
    snprintf (body, sizeof body, "{\"TTL\":%d}", LEASE_S);
    if (!s_log_in (self) || !s_call (self, "/v3/lease/grant", body, "grant a lease", CALL_MS))
        return false;
    self->lease = members_answer_number (self->answer, self->answer_bytes, NULL, "ID");
    if (self->lease == 0)
        s_say_no_etcd (self);
    return self->lease && s_put_entry (self);
}

//  Of all entries of the prefix.
static void
s_put_range (const members_etcd_t *self, char *room, size_t bytes)
{
    char end [PREFIX_BYTES], coded [MEMBERS_ANSWER_CODED_BYTES], coded_end [MEMBERS_ANSWER_CODED_BYTES];
    snprintf (end, sizeof end, "%s", self->prefix);
    end [strlen (end) - 1]++;           //  '/' becomes '0'
    members_answer_code (self->prefix, coded);
    members_answer_code (end, coded_end);
    snprintf (room, bytes, "\"key\":\"%s\",\"range_end\":\"%s\"", coded, coded_end);
}

static void
s_say_first (members_etcd_t *self)
{
    pthread_mutex_lock (&self->lock);
    self->has_first = true;
    pthread_cond_signal (&self->first);
    pthread_mutex_unlock (&self->lock);
}

//  What is wrong with entries that are left out.
static void
s_say_strange (members_etcd_t *self, size_t count, size_t strange, const char *name)
{
    *self->trouble = 0;
    if (strange > 0 && count == MEMBERS_MAX - 1)
        snprintf (self->trouble, sizeof self->trouble, "%zu entries at etcd are left out, '%s' first: there "
            "may be at most %d members", strange, name, MEMBERS_MAX);
    else
    if (strange > 0)
        snprintf (self->trouble, sizeof self->trouble, "%zu entries at etcd are no members, and are left "
            "out, '%s' first: remove them", strange, name);
}

static bool
s_read_entries (members_etcd_t *self)
{
    char range [BODY_BYTES - 8], body [BODY_BYTES], name [128];
    size_t strange;
    s_put_range (self, range, sizeof range);
    snprintf (body, sizeof body, "{%s}", range);
    self->is_news = false;
    self->read_ms = clock_now_ms ();
    if (!s_call (self, "/v3/kv/range", body, "give the members", CALL_MS))
        return false;
    int count = members_answer_range (self->answer, self->answer_bytes, self->prefix, self->found,
        MEMBERS_MAX - 1, &strange, name, sizeof name);
    if (count < 0) {
        s_say_no_etcd (self);
        return false;
    }
    self->revision = members_answer_number (self->answer, self->answer_bytes, "header", "revision");
    //  Among too many it may be there, and left out.
    self->has_own = count == MEMBERS_MAX - 1;
    for (int at = 0; at < count; at++)
        self->has_own = self->has_own || strcmp (self->found [at].name, self->members->own_name) == 0;
    s_say_strange (self, (size_t) count, strange, name);
    members_set (self->members, self->found, (size_t) count);
    s_set_trouble (self->members, self->trouble, self->has_own);
    s_say_first (self);
    return true;
}

static bool
s_keep_alive (members_etcd_t *self)
{
    char body [64];
    snprintf (body, sizeof body, "{\"ID\":\"%llu\"}", (unsigned long long) self->lease);
    if (!s_call (self, "/v3/lease/keepalive", body, "keep the lease alive", CALL_MS))
        return false;
    if (members_answer_number (self->answer, self->answer_bytes, "result", "TTL") > 0)
        return true;
    snprintf (self->trouble, sizeof self->trouble, "etcd had given up this server's lease");
    return false;
}

static void
s_end_watch (members_etcd_t *self)
{
    if (self->is_watched)
        curl_multi_remove_handle (self->both, self->watch);
    self->is_watched = false;
}

//  From the revision of the last reading on, so that no change is missed between the two.
static void
s_begin_watch (members_etcd_t *self)
{
    char range [BODY_BYTES - 128], body [BODY_BYTES];
    s_put_range (self, range, sizeof range);
    snprintf (body, sizeof body, "{\"create_request\":{%s,\"start_revision\":\"%llu\"}}", range,
        (unsigned long long) self->revision + 1);
    s_end_watch (self);
    s_set (self, self->watch, "/v3/watch", body);
    curl_easy_setopt (self->watch, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt (self->watch, CURLOPT_WRITEFUNCTION, s_on_watch);
    self->is_watched = curl_multi_add_handle (self->both, self->watch) == CURLM_OK;
    self->watched_ms = clock_now_ms ();
}

static int64_t
s_least (int64_t one, int64_t other)
{
    return one < other? one: other;
}

//  When there is something to do, as far as is known.
static int64_t
s_next_ms (const members_etcd_t *self, int64_t kept_ms)
{
    int64_t next_ms = s_least (kept_ms + KEEP_MS, self->read_ms + (self->is_news? QUIET_MS: RANGE_MS));
    return self->is_watched? next_ms: s_least (next_ms, self->watched_ms + WATCH_MS);
}

static void
s_watch (members_etcd_t *self, int64_t kept_ms)
{
    struct curl_waitfd stop = { .fd = self->stop, .events = CURL_WAIT_POLLIN };
    while (!atomic_load (&self->is_stopping)) {
        CURLcode none;
        int running;
        curl_multi_perform (self->both, &running);
        s_take_ends (self, &none);
        int64_t left_ms = s_next_ms (self, kept_ms) - clock_now_ms ();
        if (left_ms <= 0)
            return;
        curl_multi_poll (self->both, &stop, 1, (int) left_ms, NULL);
    }
}


//  -- etcd: the thread

//  Until etcd fails, or the end.
static void
s_hold (members_etcd_t *self)
{
    int64_t kept_ms = clock_now_ms ();
    while (!atomic_load (&self->is_stopping)) {
        s_watch (self, kept_ms);
        int64_t now_ms = clock_now_ms ();
        if (now_ms >= kept_ms + KEEP_MS) {
            if (!s_keep_alive (self))
                return;
            kept_ms = now_ms;
            //  It can be deleted while the lease lives.
            if (!self->has_own && now_ms >= self->put_ms + KEEP_MS && !s_put_entry (self))
                return;
        }
        if (now_ms >= self->read_ms + (self->is_news? QUIET_MS: RANGE_MS) && !s_read_entries (self))
            return;
        //  Where watches are refused, the entries are read every WATCH_MS.
        if (!self->is_watched && now_ms >= self->watched_ms + WATCH_MS)
            s_begin_watch (self);
    }
}

//  At random within a half, so that members do not come back all at once.
static void
s_pause (const members_etcd_t *self, uint32_t failures)
{
    uint32_t most_ms = failures < 5? (uint32_t) PAUSE_LEAST_MS << failures: PAUSE_MOST_MS, dice = 0;
    (void) !getrandom (&dice, sizeof dice, 0);
    int64_t until_ms = clock_now_ms () + most_ms / 2 + dice % (most_ms / 2 + 1);
    while (clock_now_ms () < until_ms && !atomic_load (&self->is_stopping))
        usleep (20000);
}

//  At any endpoint that does it, within GOODBYE_MS.
static void
s_withdraw (members_etcd_t *self)
{
    char body [64];
    snprintf (body, sizeof body, "{\"ID\":\"%llu\"}", (unsigned long long) self->lease);
    int64_t until_ms = clock_now_ms () + GOODBYE_MS;
    self->is_leaving = true;
    for (size_t left = self->lease? self->endpoint_count: 0; left > 0; left--) {
        int64_t limit_ms = (until_ms - clock_now_ms ()) / (int64_t) left;
        if (limit_ms <= 0 || s_call (self, "/v3/lease/revoke", body, "end the lease", limit_ms))
            return;
        self->endpoint = (self->endpoint + 1) % self->endpoint_count;
    }
}

static void
s_say_failing (members_etcd_t *self)
{
    struct tm then;
    char text [MEMBERS_TEXT_BYTES], since [32];
    if (self->failing_since == 0)
        self->failing_since = time (NULL);
    strftime (since, sizeof since, "%F %T", gmtime_r (&self->failing_since, &then));
    snprintf (text, sizeof text, "%.250s, since %s UTC", self->trouble, since);
    s_set_trouble (self->members, text, false);
}

static void *
s_run (void *argument)
{
    members_etcd_t *self = argument;
    for (uint32_t failures = 0; !atomic_load (&self->is_stopping);) {
        if (s_register (self) && s_read_entries (self)) {
            failures = 0;
            self->failing_since = 0;
            s_begin_watch (self);
            s_hold (self);
        }
        s_end_watch (self);
        if (atomic_load (&self->is_stopping))
            break;
        s_say_failing (self);
        self->endpoint = (self->endpoint + 1) % self->endpoint_count;
        s_pause (self, failures++);
    }
    s_withdraw (self);
    return NULL;
}


//  -- etcd: life

//  "HOST:PORT[,HOST:PORT..]/PREFIX"
static int
s_parse_etcd (members_etcd_t *self, const char *text, bool is_secure, char *error, size_t error_bytes)
{
    const char *slash = strchr (text, '/'), *scheme = is_secure? "etcds": "etcd";
    size_t length = slash? strlen (slash + 1): 0;
    while (length > 0 && slash [length] == '/')
        length--;
    if (length == 0 || length > PREFIX_BYTES - 2) {
        snprintf (error, error_bytes, "'%s://%s' has no prefix of at most %d bytes, which the members of one "
            "cluster have in common: give one, as in %s://HOST:2379/tureen", scheme, text, PREFIX_BYTES - 2,
            scheme);
        return -EINVAL;
    }
    snprintf (self->prefix, sizeof self->prefix, "%.*s/", (int) length, slash + 1);
    for (const char *item = text, *end; item < slash; item = end + 1) {
        end = memchr (item, ',', (size_t) (slash - item));
        end = end? end: slash;
        if (!members_is_name (item, (size_t) (end - item)) || self->endpoint_count == ENDPOINTS_MAX) {
            snprintf (error, error_bytes, "'%.*s' is no address of etcd: give up to %d as in "
                "%s://HOST:2379,HOST:2379/tureen", (int) (end - item), item, ENDPOINTS_MAX, scheme);
            return -EINVAL;
        }
        snprintf (self->endpoints [self->endpoint_count++], ENDPOINT_BYTES, "%s://%.*s",
            is_secure? "https": "http", (int) (end - item), item);
    }
    return self->endpoint_count > 0? 0: (snprintf (error, error_bytes, "'%s://%s' names no etcd: give "
        "%s://HOST:2379/PREFIX", scheme, text, scheme), -EINVAL);
}

static bool
s_make (members_etcd_t *self)
{
    self->answer = malloc (ANSWER_BYTES_MAX);
    self->found = calloc (MEMBERS_MAX, sizeof *self->found);
    self->stop = eventfd (0, EFD_CLOEXEC);
    if (http_begin () != 0 || !self->answer || !self->found || self->stop < 0)
        return false;
    self->call = curl_easy_init ();
    self->watch = curl_easy_init ();
    self->both = curl_multi_init ();
    return self->call && self->watch && self->both;
}

//  A thread with every signal blocked: signals are the broker thread's alone.
static bool
s_start (members_etcd_t *self)
{
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    self->is_running = pthread_create (&self->thread, NULL, s_run, self) == 0;
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    if (self->is_running)
        pthread_setname_np (self->thread, "members");
    return self->is_running;
}

//  Where etcd does not answer, the server starts alone.
static void
s_wait_for_first (members_etcd_t *self)
{
    struct timespec until = clock_deadline (FIRST_MS);
    pthread_mutex_lock (&self->lock);
    while (!self->has_first && pthread_cond_timedwait (&self->first, &self->lock, &until) == 0)
        ;
    pthread_mutex_unlock (&self->lock);
}

//  Withdraws this server, if etcd answers; takes two seconds at most.
static void
s_close_etcd (members_etcd_t **self_p)
{
    members_etcd_t *self = *self_p;
    if (!self)
        return;
    if (self->is_running) {
        atomic_store (&self->is_stopping, true);
        eventfd_write (self->stop, 1);
        pthread_join (self->thread, NULL);
    }
    if (self->both)
        curl_multi_cleanup (self->both);
    curl_easy_cleanup (self->watch);
    curl_easy_cleanup (self->call);
    curl_slist_free_all (self->json);
    curl_slist_free_all (self->leader);
    if (self->stop >= 0)
        close (self->stop);
    pthread_mutex_destroy (&self->lock);
    pthread_cond_destroy (&self->first);
    free (self->answer);
    free (self->found);
    free (self);
    *self_p = NULL;
}

//  text: behind "etcd://" or "etcds://".  0; or -errno and in error what is wrong.
static int
s_open_etcd (members_etcd_t **self_p, members_t *members, const char *text, bool is_secure,
    char *error, size_t error_bytes)
{
    *self_p = NULL;
    members_etcd_t *self = calloc (1, sizeof *self);
    int rc = self? 0: -ENOMEM;
    if (self) {
        self->members = members;
        self->stop = -1;
        atomic_init (&self->is_stopping, false);
        pthread_mutex_init (&self->lock, NULL);
        clock_condition_init (&self->first);
        rc = s_parse_etcd (self, text, is_secure, error, error_bytes);
    }
    if (rc == 0) {
        s_set_trouble (members, "etcd has not answered yet", false);
        snprintf (members->look.source, sizeof members->look.source, "etcd at %.280s",
            self->endpoints [0]);
        rc = s_make (self) && s_start (self)? 0: -ENOMEM;
    }
    if (rc == -ENOMEM)
        snprintf (error, error_bytes, "not enough memory to ask etcd for the members: free some");
    if (rc)
        s_close_etcd (&self);
    else
        s_wait_for_first (self);
    *self_p = self;
    return rc;
}


//  -- life

static int
s_open (members_t *self, const char *text, char *error, size_t error_bytes)
{
    bool is_secure = strncmp (text, "etcds://", 8) == 0;
    if (!is_secure && strncmp (text, "etcd://", 7) != 0) {
        int rc = s_take_given (self, text, error, error_bytes);
        if (rc == 0)
            snprintf (self->look.source, sizeof self->look.source, "%zu member%s given",
                self->now->list.count, plural (self->now->list.count));
        self->look.is_registered = true;
        return rc;
    }
    if (!members_set (self, NULL, 0))
        return s_fail (-ENOMEM, error, error_bytes, "not enough memory for the list of members: free some");
    return s_open_etcd (&self->etcd, self, text + (is_secure? 8: 7), is_secure, error, error_bytes);
}

int
members_open (members_t **self_p, const char *text, const char *own_name, uint64_t own_bytes, char *error,
    size_t error_bytes)
{
    assert (self_p); assert (text && own_name); assert (own_bytes > 0); assert (error_bytes > 0);
    *self_p = NULL;
    *error = 0;
    if (!members_is_name (own_name, strlen (own_name)))
        return s_fail (-EINVAL, error, error_bytes, "'%s' is not HOST:PORT, by which other members reach "
            "this server: give it as in node1:7600", own_name);
    members_t *self = xalloc_memory (calloc (1, sizeof *self));
    *self = (members_t) { .magic = MEMBERS_MAGIC, .own_bytes = own_bytes };
    snprintf (self->own_name, sizeof self->own_name, "%s", own_name);
    atomic_init (&self->number, 1);
    pthread_mutex_init (&self->lock, NULL);
    int rc = s_open (self, text, error, error_bytes);
    if (rc)
        members_close (&self);
    *self_p = self;
    return rc;
}

void
members_close (members_t **self_p)
{
    assert (self_p);
    members_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MEMBERS_MAGIC);
    s_close_etcd (&self->etcd);
    assert (!self->now || self->now->references == 1);
    free (self->now);
    pthread_mutex_destroy (&self->lock);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}


//  -- looking

uint64_t
members_number (const members_t *self)
{
    assert (self && self->magic == MEMBERS_MAGIC);
    return atomic_load (&self->number);
}

const member_list_t *
members_take (members_t *self)
{
    assert (self && self->magic == MEMBERS_MAGIC);
    pthread_mutex_lock (&self->lock);
    members_held_t *held = self->now;
    held->references++;
    pthread_mutex_unlock (&self->lock);
    return &held->list;
}

void
members_give_back (members_t *self, const member_list_t *list)
{
    assert (self && self->magic == MEMBERS_MAGIC);
    if (!list)
        return;
    members_held_t *held = (members_held_t *) ((uintptr_t) list - offsetof (members_held_t, list));
    pthread_mutex_lock (&self->lock);
    bool is_last = --held->references == 0;
    pthread_mutex_unlock (&self->lock);
    if (is_last)
        free (held);
}

void
members_look (members_t *self, members_look_t *look)
{
    assert (self && self->magic == MEMBERS_MAGIC);
    pthread_mutex_lock (&self->lock);
    *look = self->look;
    pthread_mutex_unlock (&self->lock);
}
