#include "key_source.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <curl/curl.h>
#include <expat.h>
#include <jansson.h>
#include <openssl/ssl.h>
#include <sodium.h>
#include "clock.h"
#include "http.h"
#include "wiped.h"

//  ---- answers of key services

enum { DEPTH_MAX = 32 };

typedef enum { FIELD_NAME, FIELD_SECRET, FIELD_TOKEN, FIELD_ENDS, FIELD_CODE, FIELDS, FIELD_NONE } field_t;

//  What was found; guarded.
typedef struct {
    char name [ACCOUNT_KEY_NAME_MAX + 1];
    char secret [ACCOUNT_KEY_SECRET_MAX + 1];
    char token [ACCOUNT_KEY_TOKEN_MAX + 1];
    char ends [64];
    char code [KEY_SOURCE_CODE_BYTES];
    size_t used [FIELDS];
    bool is_too_long;
    //  XML: where the parser is
    XML_Parser parser;
    unsigned depth;
    field_t field;
} found_t;

static void
s_add (found_t *self, field_t field, const char *text, size_t bytes)
{
    char *const places [FIELDS] = { self->name, self->secret, self->token, self->ends, self->code };
    static const size_t rooms [FIELDS] = { sizeof ((found_t *) 0)->name, sizeof ((found_t *) 0)->secret,
        sizeof ((found_t *) 0)->token, sizeof ((found_t *) 0)->ends, sizeof ((found_t *) 0)->code };
    size_t *used = &self->used [field];
    if (bytes >= rooms [field] - *used) {
        self->is_too_long = true;
        return;
    }
    memcpy (places [field] + *used, text, bytes);
    *used += bytes;
    places [field] [*used] = 0;
}

static int
s_key (const found_t *self, account_key_t **key_p)
{
    int64_t ends_s = 0;
    if (self->is_too_long || (self->used [FIELD_ENDS] && !key_source_parse_time (self->ends, &ends_s)))
        return -EBADMSG;
    return account_key_new (key_p, self->name, self->secret, self->token, ends_s);
}


//  -- XML

static void
s_on_begin (void *context, const XML_Char *name, const XML_Char **attributes)
{
    (void) attributes;
    static const char *const names [FIELDS] = { "AccessKeyId", "SecretAccessKey", "SessionToken",
        "Expiration", "Code" };
    found_t *self = context;
    self->field = FIELD_NONE;
    for (field_t field = 0; field < FIELDS; field++)
        if (strcmp (name, names [field]) == 0)
            self->field = field;
    //  A second one would be added to the first.
    if (++self->depth > DEPTH_MAX || (self->field != FIELD_NONE && self->used [self->field]))
        XML_StopParser (self->parser, XML_FALSE);
}

static void
s_on_end (void *context, const XML_Char *name)
{
    (void) name;
    found_t *self = context;
    self->depth--;
    self->field = FIELD_NONE;
}

static void
s_on_text (void *context, const XML_Char *text, int bytes)
{
    found_t *self = context;
    if (self->field != FIELD_NONE)
        s_add (self, self->field, text, (size_t) bytes);
}

//  No answer of STS has one, and entities are defined there.
static void
s_on_doctype (void *context, const XML_Char *name, const XML_Char *system, const XML_Char *open,
    int has_subset)
{
    (void) name, (void) system, (void) open, (void) has_subset;
    found_t *self = context;
    XML_StopParser (self->parser, XML_FALSE);
}

static int
s_parse_xml (found_t *self, const char *text, size_t bytes)
{
    static const XML_Memory_Handling_Suite memory = { wiped_malloc, wiped_realloc, wiped_free };
    self->parser = XML_ParserCreate_MM (NULL, &memory, NULL);
    if (!self->parser)
        return -ENOMEM;
    self->field = FIELD_NONE;
    XML_SetUserData (self->parser, self);
    XML_SetElementHandler (self->parser, s_on_begin, s_on_end);
    XML_SetCharacterDataHandler (self->parser, s_on_text);
    XML_SetStartDoctypeDeclHandler (self->parser, s_on_doctype);
    int rc = XML_Parse (self->parser, text, (int) bytes, 1) == XML_STATUS_OK? 0:
        XML_GetErrorCode (self->parser) == XML_ERROR_NO_MEMORY? -ENOMEM: -EBADMSG;
    XML_ParserFree (self->parser);
    return rc;
}


//  -- JSON

//  What jansson frees is wiped, everywhere in this program: it has one allocator.
static void
s_begin_json (void)
{
    json_set_alloc_funcs (wiped_malloc, wiped_free);
}

static void
s_take (found_t *self, const json_t *object, const char *name, field_t field)
{
    const char *text = json_string_value (json_object_get (object, name));
    if (text && !self->used [field])
        s_add (self, field, text, strlen (text));
}

//  "Code" is "Success" with keys; errors of containers have "code".  What programs print has "SessionToken".
static int
s_parse_json (found_t *self, const char *text, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once (&once, s_begin_json);
    json_error_t error;
    json_t *object = json_loadb (text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!object && json_error_code (&error) == json_error_out_of_memory)
        return -ENOMEM;
    s_take (self, object, "AccessKeyId", FIELD_NAME);
    s_take (self, object, "SecretAccessKey", FIELD_SECRET);
    s_take (self, object, "Token", FIELD_TOKEN);
    s_take (self, object, "SessionToken", FIELD_TOKEN);
    s_take (self, object, "Expiration", FIELD_ENDS);
    s_take (self, object, "Code", FIELD_CODE);
    s_take (self, object, "code", FIELD_CODE);
    int rc = json_is_object (object)? 0: -EBADMSG;
    json_decref (object);
    if (strcmp (self->code, "Success") == 0)
        self->used [FIELD_CODE] = 0;
    return rc;
}


//  -- answers

static int
s_answer (int (*parse) (found_t *self, const char *text, size_t bytes), const char *text, size_t bytes,
    account_key_t **key_p, char code [KEY_SOURCE_CODE_BYTES])
{
    assert (text || bytes == 0); assert (key_p); assert (code);
    *key_p = NULL;
    code [0] = 0;
    if (bytes == 0 || bytes > KEY_SOURCE_BYTES_MAX)
        return -EBADMSG;
    found_t *found = wiped_guarded (sizeof *found);
    if (!found)
        return -ENOMEM;
    memset (found, 0, sizeof *found);
    int rc = parse (found, text, bytes);
    bool is_error = rc == 0 && found->used [FIELD_CODE] && !found->used [FIELD_SECRET];
    if (is_error) {
        //  Up to the first other character.
        size_t length = strspn (found->code,
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.");
        snprintf (code, KEY_SOURCE_CODE_BYTES, "%.*s", (int) length, found->code);
        rc = -EKEYREJECTED;
    }
    if (rc == 0)
        rc = s_key (found, key_p);
    wiped_guarded_free (found);
    return rc;
}

int
key_source_parse_xml (const char *text, size_t bytes, account_key_t **key_p,
    char code [KEY_SOURCE_CODE_BYTES])
{
    return s_answer (s_parse_xml, text, bytes, key_p, code);
}

int
key_source_parse_json (const char *text, size_t bytes, account_key_t **key_p,
    char code [KEY_SOURCE_CODE_BYTES])
{
    return s_answer (s_parse_json, text, bytes, key_p, code);
}

bool
key_source_parse_word (const char *text, size_t bytes, char word [KEY_SOURCE_WORD_BYTES])
{
    assert (text || bytes == 0);
    size_t length = 0;
    while (length < bytes && text [length] != '\n' && text [length] != '\r')
        length++;
    bool is_word = length > 0 && length < KEY_SOURCE_WORD_BYTES;
    for (size_t index = 0; is_word && index < length; index++)
        is_word = text [index] > ' ' && text [index] <= '~';
    snprintf (word, KEY_SOURCE_WORD_BYTES, "%.*s", is_word? (int) length: 0, is_word? text: "");
    return is_word;
}


//  -- times

//  So many digits, and moves on behind them; -1: not there.
static int
s_digits (const char **at_p, unsigned count)
{
    int number = 0;
    for (unsigned index = 0; index < count; index++, (*at_p)++) {
        if (**at_p < '0' || **at_p > '9')
            return -1;
        number = 10 * number + (**at_p - '0');
    }
    return number;
}

//  The part behind one character; -1: not there, or not between least and most.
static int
s_part (const char **at_p, char before, unsigned count, int least, int most)
{
    if (before && *(*at_p)++ != before) {
        (*at_p)--;                      //  it can be the end
        return -1;
    }
    int number = s_digits (at_p, count);
    return number >= least && number <= most? number: -1;
}

//  "Z", or "+01:00": seconds; false: neither.
static bool
s_offset (const char *at, int *offset_s_p)
{
    *offset_s_p = 0;
    if (strcmp (at, "Z") == 0)
        return true;
    int sign = *at == '+'? 1: *at == '-'? -1: 0;
    if (!sign)
        return false;
    at++;
    int hours = s_part (&at, 0, 2, 0, 23), minutes = hours < 0? -1: s_part (&at, ':', 2, 0, 59);
    *offset_s_p = sign * (hours * 3600 + minutes * 60);
    return minutes >= 0 && !*at;
}

bool
key_source_parse_time (const char *text, int64_t *seconds_p)
{
    assert (text); assert (seconds_p);
    const char *at = text;
    static const struct { char before; unsigned digits; int least, most; } parts [6] = {
        { 0, 4, 1970, 9999 }, { '-', 2, 1, 12 }, { '-', 2, 1, 31 }, { 'T', 2, 0, 23 }, { ':', 2, 0, 59 },
        { ':', 2, 0, 60 } };
    int values [6];
    for (size_t index = 0; index < 6; index++) {
        values [index] = s_part (&at, parts [index].before, parts [index].digits, parts [index].least,
            parts [index].most);
        if (values [index] < 0)
            return false;
    }
    if (*at == '.')
        at += 1 + strspn (at + 1, "0123456789");
    struct tm moment = { .tm_year = values [0] - 1900, .tm_mon = values [1] - 1, .tm_mday = values [2],
        .tm_hour = values [3], .tm_min = values [4], .tm_sec = values [5] };
    int offset_s;
    if (!s_offset (at, &offset_s))
        return false;
    *seconds_p = (int64_t) timegm (&moment) - offset_s;
    return true;
}


//  ---- the program of a profile

enum { LOOK_MS = 100, SAID_BYTES = 400 };

typedef struct {
    pid_t process;
    int output, errors;                 //  what is read; -1: at its end
    int64_t until_ms;
    const atomic_bool *is_stopped;
    char said [SAID_BYTES + 1];         //  the last of its standard error
    size_t said_bytes;
} program_t;


//  -- its start

//  With signals as a program expects them, and no descriptor but the three.
static int
s_spawn (program_t *self, const char *command, int output, int errors)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, ordinary;
    sigemptyset (&none);
    sigfillset (&ordinary);
    posix_spawn_file_actions_init (&actions);
    posix_spawnattr_init (&attributes);
    posix_spawnattr_setsigmask (&attributes, &none);
    posix_spawnattr_setsigdefault (&attributes, &ordinary);
    posix_spawnattr_setflags (&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        | POSIX_SPAWN_SETPGROUP);
    int rc = posix_spawn_file_actions_addopen (&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    rc = rc? rc: posix_spawn_file_actions_adddup2 (&actions, output, STDOUT_FILENO);
    rc = rc? rc: posix_spawn_file_actions_adddup2 (&actions, errors, STDERR_FILENO);
    rc = rc? rc: posix_spawn_file_actions_addclosefrom_np (&actions, STDERR_FILENO + 1);
    char *const words [] = { "sh", "-c", (char *) command, NULL };
    rc = rc? rc: posix_spawn (&self->process, "/bin/sh", &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy (&actions);
    posix_spawnattr_destroy (&attributes);
    return -rc;
}

static int
s_start (program_t *self, const char *command)
{
    int output [2] = { -1, -1 }, errors [2] = { -1, -1 };
    int rc = pipe2 (output, O_CLOEXEC) || pipe2 (errors, O_CLOEXEC)? -errno: 0;
    rc = rc? rc: s_spawn (self, command, output [1], errors [1]);
    for (int end = 0; end < 2; end++) {
        if (output [end] >= 0 && (end == 1 || rc))
            close (output [end]);
        if (errors [end] >= 0 && (end == 1 || rc))
            close (errors [end]);
    }
    self->output = rc? -1: output [0];
    self->errors = rc? -1: errors [0];
    return rc;
}


//  -- what it says

//  Bytes; 0: the end, or nothing now.
static size_t
s_read (int *descriptor, char *target, size_t bytes)
{
    ssize_t got = read (*descriptor, target, bytes);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
        close (*descriptor);
        *descriptor = -1;
    }
    return got > 0? (size_t) got: 0;
}

static void
s_hear (program_t *self)
{
    if (self->said_bytes == SAID_BYTES) {
        self->said_bytes /= 2;
        memmove (self->said, self->said + self->said_bytes, self->said_bytes);
    }
    self->said_bytes += s_read (&self->errors, self->said + self->said_bytes,
        SAID_BYTES - self->said_bytes);
}

//  Its last line with something in it, in characters that a log can have; "": none.
static const char *
s_last_line (program_t *self)
{
    size_t end = self->said_bytes;
    while (end > 0 && isspace ((unsigned char) self->said [end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && self->said [begin - 1] != '\n')
        begin--;
    for (size_t at = begin; at < end; at++)
        if (self->said [at] < ' ' || self->said [at] > '~')
            self->said [at] = '?';
    self->said [end] = 0;
    return self->said + begin;
}

static int
s_look (const program_t *self)
{
    return *self->is_stopped? -ECANCELED: clock_now_ms () >= self->until_ms? -ETIMEDOUT: 0;
}

//  Until both ends are closed.
static int
s_listen (program_t *self, char *output, size_t output_bytes, size_t *used_p)
{
    int rc;
    while ((rc = s_look (self)) == 0 && (self->output >= 0 || self->errors >= 0)) {
        struct pollfd polled [2] = { { .fd = self->output, .events = POLLIN },
            { .fd = self->errors, .events = POLLIN } };
        if (poll (polled, 2, LOOK_MS) <= 0)
            continue;
        char more;
        if (polled [0].revents && *used_p < output_bytes)
            *used_p += s_read (&self->output, output + *used_p, output_bytes - *used_p);
        else
        if (polled [0].revents && s_read (&self->output, &more, 1) > 0)
            return -EBADMSG;
        if (polled [1].revents)
            s_hear (self);
    }
    return rc;
}

//  Its status when it has ended; it is killed if rc says so, or if it does not end.
static int
s_await (program_t *self, int rc, int *status_p)
{
    pid_t ended = 0;
    while (rc == 0 && (ended = waitpid (self->process, status_p, WNOHANG)) == 0
    &&  (rc = s_look (self)) == 0)
        nanosleep (&(struct timespec) { .tv_nsec = LOOK_MS * 1000000L / 10 }, NULL);
    if (ended == 0) {
        kill (-self->process, SIGKILL);
        while (waitpid (self->process, status_p, 0) < 0 && errno == EINTR) {}
    }
    return rc;
}

static void
s_say (program_t *self, int rc, int status, int64_t limit_ms, char *what, size_t what_bytes)
{
    const char *line = s_last_line (self);
    if (rc == -EKEYREJECTED && WIFEXITED (status))
        snprintf (what, what_bytes, "it ended with status %d%s%s", WEXITSTATUS (status), *line? ": ": "",
            line);
    else
    if (rc == -EKEYREJECTED)
        snprintf (what, what_bytes, "signal %d ended it%s%s", WTERMSIG (status), *line? ": ": "", line);
    else
    if (rc == -ETIMEDOUT)
        snprintf (what, what_bytes, "it took more than %d s%s%s", (int) (limit_ms / 1000), *line? ": ": "",
            line);
    else
        snprintf (what, what_bytes, "%s", rc == -EBADMSG? "it printed more than keys": strerror (-rc));
}

int
key_source_run_program (const char *command, const atomic_bool *is_stopped, int64_t limit_ms, char *output,
    size_t output_bytes, size_t *used_p, char *what, size_t what_bytes)
{
    assert (command); assert (is_stopped); assert (output && used_p); assert (what && what_bytes > 0);
    program_t self = { .until_ms = clock_now_ms () + limit_ms, .is_stopped = is_stopped };
    int status = 0, rc = s_start (&self, command);
    *used_p = 0;
    what [0] = 0;
    if (rc == 0) {
        rc = s_listen (&self, output, output_bytes, used_p);
        rc = s_await (&self, rc, &status);
        if (self.output >= 0)
            close (self.output);
        if (self.errors >= 0)
            close (self.errors);
        if (rc == 0 && status != 0)
            rc = -EKEYREJECTED;
    }
    if (rc)
        s_say (&self, rc, status, limit_ms, what, what_bytes);
    return rc;
}


//  ---- keys where an account says that they come from

enum {
    MAGIC = 0x5047c6e1,
    PROBE_MS = 1000,                    //  for an instance that may not be there
    LOCAL_MS = 5000, STS_MS = 15000,
    PROGRAM_MS = 60000,                 //  as AWS's tools give it
    TRIES = 3, TRY_PAUSE_MS = 500,
    HEADERS_MAX = 3,
    TOKEN_BYTES_MAX = 20000             //  STS takes no longer one
};

struct key_source {
    uint32_t magic;
    const account_t *account;
    CURLM *multi;
    atomic_bool is_stopped;
    bool is_probe;                      //  the program begins
    //  the answer
    char *body;                         //  guarded
    size_t body_bytes;
    long status;
    char proxy [HTTP_PROXY_BYTES];      //  the environment variable with the proxy that was asked; "": none
};

typedef struct {
    const char *method, *url;
    const char *headers [HEADERS_MAX];  //  whole lines; NULL: none
    const char *form;                   //  body of a POST; NULL: none
    long limit_ms;
    bool is_local;                      //  past a proxy
} question_t;


//  -- one question

static size_t
s_on_body (char *data, size_t unit, size_t count, void *context)
{
    key_source_t *self = context;
    size_t bytes = unit * count;
    if (bytes > KEY_SOURCE_BYTES_MAX - self->body_bytes)
        return 0;                       //  no such answer: curl ends it
    memcpy (self->body + self->body_bytes, data, bytes);
    self->body_bytes += bytes;
    return bytes;
}

//  What OpenSSL has decrypted is wiped as soon as libcurl has it; otherwise it stays in memory that is freed.
static CURLcode
s_on_tls (CURL *easy, void *context, void *user)
{
    (void) easy, (void) user;
    SSL_CTX_set_options (context, SSL_OP_CLEANSE_PLAINTEXT);
    return CURLE_OK;
}

//  False: no memory.
static bool
s_prepare (key_source_t *self, CURL *easy, const question_t *question, struct curl_slist **headers_p)
{
    for (size_t index = 0; index < HEADERS_MAX; index++) {
        if (!question->headers [index])
            continue;
        struct curl_slist *headers = curl_slist_append (*headers_p, question->headers [index]);
        if (!headers)
            return false;
        *headers_p = headers;
    }
    curl_easy_setopt (easy, CURLOPT_NOSIGNAL, 1L);
    http_forget_resolver (easy);
    curl_easy_setopt (easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
    curl_easy_setopt (easy, CURLOPT_CONNECTTIMEOUT_MS, question->limit_ms);
    curl_easy_setopt (easy, CURLOPT_TIMEOUT_MS, question->limit_ms);
    curl_easy_setopt (easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt (easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt (easy, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt (easy, CURLOPT_SSL_CTX_FUNCTION, s_on_tls);
    curl_easy_setopt (easy, CURLOPT_WRITEFUNCTION, s_on_body);
    curl_easy_setopt (easy, CURLOPT_WRITEDATA, self);
    http_watch_proxy (easy, self->proxy);
    const char *authorities = getenv ("AWS_CA_BUNDLE");
    if (authorities && *authorities)
        curl_easy_setopt (easy, CURLOPT_CAINFO, authorities);
    return (!question->is_local || curl_easy_setopt (easy, CURLOPT_NOPROXY, "*") == CURLE_OK)
        && (!question->form || curl_easy_setopt (easy, CURLOPT_POSTFIELDS, question->form) == CURLE_OK)
        && curl_easy_setopt (easy, CURLOPT_CUSTOMREQUEST, question->method) == CURLE_OK
        && curl_easy_setopt (easy, CURLOPT_HTTPHEADER, *headers_p) == CURLE_OK
        && curl_easy_setopt (easy, CURLOPT_URL, question->url) == CURLE_OK;
}

//  Until the answer is there, or key_source_stop.
static int
s_perform (key_source_t *self, CURL *easy, CURLcode *result_p)
{
    if (curl_multi_add_handle (self->multi, easy) != CURLM_OK)
        return -ENOMEM;
    int running = 1, left, rc = 0;
    *result_p = CURLE_OUT_OF_MEMORY;
    while (running > 0 && rc == 0)
        if (self->is_stopped)
            rc = -ECANCELED;
        else
        if (curl_multi_perform (self->multi, &running) != CURLM_OK)
            rc = -ENOMEM;
        else
        if (running > 0)
            curl_multi_poll (self->multi, NULL, 0, 1000, NULL);
    CURLMsg *message;
    while ((message = curl_multi_info_read (self->multi, &left)))
        if (message->msg == CURLMSG_DONE)
            *result_p = message->data.result;
    curl_easy_getinfo (easy, CURLINFO_RESPONSE_CODE, &self->status);
    curl_multi_remove_handle (self->multi, easy);
    return rc;
}

static int
s_judge (const key_source_t *self, CURLcode result, char *error, size_t error_bytes)
{
    snprintf (error, error_bytes, "%s%s%s", curl_easy_strerror (result),
        *self->proxy? ", through the proxy in ": "", self->proxy);
    switch (result) {
    case CURLE_OK:
        snprintf (error, error_bytes, "%ld", self->status);
        return self->status == 200? 0: self->status >= 500 || self->status == 429? -EBUSY:
            self->status == 404? -ENOKEY: -EKEYREJECTED;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_COULDNT_RESOLVE_HOST: case CURLE_COULDNT_RESOLVE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_COULDNT_CONNECT:
        return -ECONNREFUSED;
    case CURLE_RECV_ERROR: case CURLE_SEND_ERROR: case CURLE_GOT_NOTHING: case CURLE_PARTIAL_FILE:
        return -ECONNRESET;
    default:
        return -EBADMSG;
    }
}

//  0: status 200, and the answer is in body.  Otherwise -errno, and in error what came, in some words; a body
//  may be there all the same.
static int
s_exchange (key_source_t *self, const question_t *question, char *error, size_t error_bytes)
{
    self->body_bytes = 0;
    self->status = 0;
    struct curl_slist *headers = NULL;
    CURLcode result = CURLE_OUT_OF_MEMORY;
    CURL *easy = curl_easy_init ();
    int rc = easy && s_prepare (self, easy, question, &headers)? s_perform (self, easy, &result): -ENOMEM;
    if (easy)
        curl_easy_cleanup (easy);
    curl_slist_free_all (headers);
    if (rc == 0)
        return s_judge (self, result, error, error_bytes);
    snprintf (error, error_bytes, "%s", strerror (-rc));
    return rc;
}

//  What is in the file, guarded and without white space at its end; the caller's.  Files of tokens are
//  replaced while a program runs, so each question reads them.
static int
s_read_token (const char *path, char **token_p, char *error, size_t error_bytes)
{
    char *token = wiped_guarded (TOKEN_BYTES_MAX + 2);
    int file = token? open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY): -1, rc = !token? -ENOMEM: 0;
    if (token && file < 0)
        rc = -errno;
    ssize_t got = 0, used = 0;
    while (rc == 0 && used < TOKEN_BYTES_MAX + 1
    &&  (got = read (file, token + used, (size_t) (TOKEN_BYTES_MAX + 1 - used))) != 0)
        if (got > 0)
            used += got;
        else
        if (errno != EINTR)
            rc = -errno;
    if (file >= 0)
        close (file);
    while (used > 0 && (token [used - 1] == '\n' || token [used - 1] == '\r' || token [used - 1] == ' '))
        used--;
    if (rc == 0) {
        token [used] = 0;
        for (ssize_t at = 0; rc == 0 && at < used; at++)
            rc = token [at] < ' ' || token [at] > '~'? -EBADMSG: 0;
        rc = used == 0 || used > TOKEN_BYTES_MAX? -EBADMSG: rc;
    }
    if (rc) {
        snprintf (error, error_bytes, rc == -EBADMSG? "'%.300s' holds no token%s%s: check what writes it":
            rc == -ENOENT || rc == -ENOTDIR? "cannot read the token '%.300s'%s%s: check the path":
            "cannot read the token '%.300s'%s%s: let this user read it", path, rc == -EBADMSG? "": ": ",
            rc == -EBADMSG? "": strerror (-rc));
        wiped_guarded_free (token);
        token = NULL;
    }
    *token_p = token;
    return rc;
}

//  Whether the same question may succeed in a moment.
static bool
s_may_pass (int rc)
{
    return rc == -EBUSY || rc == -ETIMEDOUT || rc == -ECONNREFUSED || rc == -ECONNRESET
        || rc == -EHOSTUNREACH;
}


//  -- a web identity

//  "name=value", with the value as forms want it, behind what is in the text.
static void
s_add_field (char *text, size_t room, const char *name, const char *value)
{
    size_t used = strlen (text);
    used += (size_t) snprintf (text + used, room - used, "%s%s=", used? "&": "", name);
    for (; *value && used + 4 < room; value++) {
        bool is_plain = (*value >= '0' && *value <= '9') || (*value >= 'a' && *value <= 'z')
            || (*value >= 'A' && *value <= 'Z') || strchr ("-_.~", *value);
        used += (size_t) snprintf (text + used, room - used, is_plain? "%c": "%%%02X",
            (unsigned char) *value);
    }
}

//  Guarded, the caller's; NULL: no memory.
static char *
s_form (const account_t *account, const char *token)
{
    size_t room = 200 + 3 * (strlen (account->role) + strlen (account->session) + strlen (token));
    char *form = wiped_guarded (room);
    if (form) {
        form [0] = 0;
        s_add_field (form, room, "Action", "AssumeRoleWithWebIdentity");
        s_add_field (form, room, "Version", "2011-06-15");
        s_add_field (form, room, "RoleArn", account->role);
        s_add_field (form, room, "RoleSessionName", account->session);
        s_add_field (form, room, "WebIdentityToken", token);
    }
    return form;
}

//  STS says with 400 that its partner does not answer.
static int
s_take_sts (const key_source_t *self, int rc, account_key_t **key_p, char *what, size_t what_bytes)
{
    char code [KEY_SOURCE_CODE_BYTES] = "";
    account_key_t *key = NULL;
    int taken = self->status? key_source_parse_xml (self->body, self->body_bytes, &key, code): rc;
    if (rc == 0 && taken == 0)
        *key_p = key;
    else
        account_key_release (&key);
    if (rc == 0 && taken)
        snprintf (what, what_bytes, "no keys in the answer");
    if (*code)
        snprintf (what + strlen (what), what_bytes - strlen (what), " %s", code);
    bool is_busy = strcmp (code, "IDPCommunicationError") == 0 || strcmp (code, "Throttling") == 0;
    return is_busy? -EBUSY: rc? rc: taken;
}

static int
s_ask_sts (key_source_t *self, account_key_t **key_p, char *error, size_t error_bytes)
{
    const account_t *account = self->account;
    char *token, *form = NULL, url [600], what [200] = "not enough memory";
    int rc = s_read_token (account->token_file, &token, error, error_bytes);
    if (rc)
        return rc;
    snprintf (url, sizeof url, "%s/", account->service);
    form = s_form (account, token);
    rc = form? s_exchange (self, &(question_t) { .method = "POST", .url = url, .form = form,
        .headers = { "Content-Type: application/x-www-form-urlencoded", "Accept: application/xml" },
        .limit_ms = STS_MS }, what, sizeof what): -ENOMEM;
    wiped_guarded_free (token);
    wiped_guarded_free (form);
    if (form)
        rc = s_take_sts (self, rc, key_p, what, sizeof what);
    if (rc)
        snprintf (error, error_bytes, "STS (%.200s) gives no keys for the role '%.200s' (%s): %s",
            account->service, account->role, what, rc == -EKEYREJECTED || rc == -ENOKEY? "check the token "
            "file and which identities the role trusts": "check AWS_ENDPOINT_URL_STS, "
            "the region and the network");
    return rc;
}


//  -- a container

//  The URL without its path, which may be known to few.
static void
s_host (const char *url, char host [200])
{
    const char *begin = strstr (url, "://");
    size_t length = begin? (size_t) (begin - url) + 3 + strcspn (begin + 3, "/?#"): 0;
    snprintf (host, 200, "%.*s", (int) (length < 199? length: 199), url);
}

static int
s_ask_container (key_source_t *self, account_key_t **key_p, char *error, size_t error_bytes)
{
    const account_t *account = self->account;
    char *token = NULL, *line = NULL, host [200], what [200] = "not enough memory";
    char code [KEY_SOURCE_CODE_BYTES] = "";
    int rc = account->token_file? s_read_token (account->token_file, &token, error, error_bytes): 0;
    if (rc)
        return rc;
    const char *value = token? token: account->authorization;
    if (value)
        line = wiped_guarded_text ("Authorization: ", value);
    s_host (account->service, host);
    rc = line || !value? s_exchange (self, &(question_t) { .method = "GET", .url = account->service,
        .headers = { "Accept: application/json", line }, .limit_ms = LOCAL_MS,
        .is_local = strncasecmp (account->service, "http:", 5) == 0 }, what, sizeof what): -ENOMEM;
    wiped_guarded_free (token);
    wiped_guarded_free (line);
    if (rc == 0) {
        rc = key_source_parse_json (self->body, self->body_bytes, key_p, code);
        snprintf (what, sizeof what, "no keys in the answer%s%s", *code? " ": "", code);
    }
    if (rc)
        snprintf (error, error_bytes, "the container's role has no keys (AWS_CONTAINER_CREDENTIALS_%s_URI, "
            "%s: %s): check the role of the task or pod, and its authorization token", strcmp (host,
            "http://169.254.170.2")? "FULL": "RELATIVE", host, what);
    return rc;
}


//  -- an instance

//  A line of text that the instance answers to a path.
static int
s_ask_line (key_source_t *self, const char *method, const char *path, const char *header, long limit_ms,
    char word [KEY_SOURCE_WORD_BYTES], char *what, size_t what_bytes)
{
    char url [1600];
    snprintf (url, sizeof url, "%s/latest/%s", self->account->service, path);
    int rc = s_exchange (self, &(question_t) { .method = method, .url = url, .headers = { header },
        .limit_ms = limit_ms, .is_local = true }, what, what_bytes);
    if (rc == 0 && !key_source_parse_word (self->body, self->body_bytes, word)) {
        rc = -EBADMSG;
        snprintf (what, what_bytes, "an answer that is none");
    }
    return rc;
}

static int
s_ask_role (key_source_t *self, const char *header, account_key_t **key_p, const char **step_p, char *what,
    size_t what_bytes)
{
    static const char path [] = "meta-data/iam/security-credentials/";
    char role [KEY_SOURCE_WORD_BYTES], url [1600], code [KEY_SOURCE_CODE_BYTES];
    *step_p = "the name of its role";
    int rc = s_ask_line (self, "GET", path, header, LOCAL_MS, role, what, what_bytes);
    if (rc)
        return rc;
    *step_p = "the keys of its role";
    if (strpbrk (role, "/?#%")) {
        snprintf (what, what_bytes, "its name is none");
        return -EBADMSG;
    }
    snprintf (url, sizeof url, "%s/latest/%s%s", self->account->service, path, role);
    rc = s_exchange (self, &(question_t) { .method = "GET", .url = url, .headers = { header },
        .limit_ms = LOCAL_MS, .is_local = true }, what, what_bytes);
    if (rc)
        return rc;
    rc = key_source_parse_json (self->body, self->body_bytes, key_p, code);
    snprintf (what, what_bytes, "no keys in the answer%s%s", *code? " ": "", code);
    return rc;
}

//  IMDSv2: a token, the role's name, its keys.  What failed in *step_p.
static int
s_ask_steps (key_source_t *self, account_key_t **key_p, const char **step_p, char *what, size_t what_bytes)
{
    char *token = wiped_guarded (KEY_SOURCE_WORD_BYTES), *header = NULL;
    int rc = token? s_ask_line (self, "PUT", "api/token", "x-aws-ec2-metadata-token-ttl-seconds: 21600",
        self->is_probe? PROBE_MS: LOCAL_MS, token, what, what_bytes): -ENOMEM;
    if (rc == 0) {
        header = wiped_guarded_text ("x-aws-ec2-metadata-token: ", token);
        rc = header? s_ask_role (self, header, key_p, step_p, what, what_bytes): -ENOMEM;
    }
    wiped_guarded_free (token);
    wiped_guarded_free (header);
    return rc;
}

static int
s_ask_instance (key_source_t *self, account_key_t **key_p, char *error, size_t error_bytes)
{
    char what [200] = "not enough memory";
    const char *step = "its token";
    int rc = s_ask_steps (self, key_p, &step, what, sizeof what);
    if (rc == 0)
        return 0;
    const char *service = self->account->service;
    if (self->is_probe)
        snprintf (error, error_bytes, "%s; and no instance at %.100s gives %s (%s). Set keys, or "
            "AWS_NO_SIGN_REQUEST=YES for data that anyone may read", self->account->looked_at, service, step,
            what);
    else
        snprintf (error, error_bytes, "the instance at %.100s does not give %s (%s): check that it has a "
            "role", service, step, what);
    return rc;
}


//  -- a profile's program

static int
s_ask_program (key_source_t *self, account_key_t **key_p, char *error, size_t error_bytes)
{
    char what [KEY_SOURCE_SAID_BYTES], code [KEY_SOURCE_CODE_BYTES];
    int rc = key_source_run_program (self->account->program, &self->is_stopped, PROGRAM_MS, self->body,
        KEY_SOURCE_BYTES_MAX, &self->body_bytes, what, sizeof what);
    if (rc == 0) {
        rc = key_source_parse_json (self->body, self->body_bytes, key_p, code);
        snprintf (what, sizeof what, "no keys in what it printed");
    }
    if (rc)
        snprintf (error, error_bytes, "the program of profile '%.80s' (credential_process) gives no keys "
            "(%s): run it by hand as this user", self->account->profile, what);
    return rc;
}


//  -- the source

int
key_source_new (key_source_t **self_p, const account_t *account)
{
    assert (self_p); assert (account && account->source >= ACCOUNT_PROFILE);
    *self_p = NULL;
    key_source_t *self = http_begin () == 0? calloc (1, sizeof *self): NULL;
    if (!self)
        return -ENOMEM;
    self->magic = MAGIC;
    self->account = account;
    atomic_init (&self->is_stopped, false);
    self->multi = curl_multi_init ();
    self->body = wiped_guarded (KEY_SOURCE_BYTES_MAX);
    if (!self->multi || !self->body)
        key_source_destroy (&self);
    *self_p = self;
    return self? 0: -ENOMEM;
}

void
key_source_destroy (key_source_t **self_p)
{
    assert (self_p);
    key_source_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC);
    if (self->multi)
        curl_multi_cleanup (self->multi);
    wiped_guarded_free (self->body);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

int
key_source_ask (key_source_t *self, account_key_t **key_p, char *error, size_t error_bytes)
{
    assert (self && self->magic == MAGIC); assert (key_p); assert (error && error_bytes > 0);
    *key_p = NULL;
    error [0] = 0;
    int rc;
    switch (self->account->source) {
    case ACCOUNT_PROGRAM:
        rc = s_ask_program (self, key_p, error, error_bytes);
        break;
    case ACCOUNT_WEB_IDENTITY:
        rc = s_ask_sts (self, key_p, error, error_bytes);
        break;
    case ACCOUNT_CONTAINER:
        rc = s_ask_container (self, key_p, error, error_bytes);
        break;
    case ACCOUNT_INSTANCE:
        rc = s_ask_instance (self, key_p, error, error_bytes);
        break;
    default:
        rc = account_read_again (self->account, key_p, error, error_bytes);
    }
    sodium_memzero (self->body, KEY_SOURCE_BYTES_MAX);
    self->body_bytes = 0;
    return rc;
}

int
key_source_first (key_source_t *self, account_key_t **key_p, char *error, size_t error_bytes)
{
    assert (self && self->magic == MAGIC);
    self->is_probe = self->account->source == ACCOUNT_INSTANCE;
    int rc = key_source_ask (self, key_p, error, error_bytes);
    bool has_patience = !self->is_probe && self->account->source != ACCOUNT_PROGRAM;
    for (int tries = 1; tries < TRIES && s_may_pass (rc) && has_patience; tries++) {
        nanosleep (&(struct timespec) { .tv_nsec = TRY_PAUSE_MS * 1000000L }, NULL);
        rc = key_source_ask (self, key_p, error, error_bytes);
    }
    self->is_probe = false;
    return rc;
}

void
key_source_stop (key_source_t *self)
{
    assert (self && self->magic == MAGIC);
    self->is_stopped = true;
    curl_multi_wakeup (self->multi);
}
