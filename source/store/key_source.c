#include "key_source.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include <curl/curl.h>
#include <openssl/ssl.h>
#include <sodium.h>
#include "clock.h"
#include "http.h"
#include "key_answer.h"
#include "key_program.h"
#include "wiped.h"

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
    if (bytes > KEY_ANSWER_BYTES_MAX - self->body_bytes)
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
s_take_sts (const key_source_t *self, int rc, access_key_t **key_p, char *what, size_t what_bytes)
{
    char code [KEY_ANSWER_CODE_BYTES] = "";
    access_key_t *key = NULL;
    int taken = self->status? key_answer_xml (self->body, self->body_bytes, &key, code): rc;
    if (rc == 0 && taken == 0)
        *key_p = key;
    else
        access_key_release (&key);
    if (rc == 0 && taken)
        snprintf (what, what_bytes, "no keys in the answer");
    if (*code)
        snprintf (what + strlen (what), what_bytes - strlen (what), " %s", code);
    bool is_busy = strcmp (code, "IDPCommunicationError") == 0 || strcmp (code, "Throttling") == 0;
    return is_busy? -EBUSY: rc? rc: taken;
}

static int
s_ask_sts (key_source_t *self, access_key_t **key_p, char *error, size_t error_bytes)
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
s_ask_container (key_source_t *self, access_key_t **key_p, char *error, size_t error_bytes)
{
    const account_t *account = self->account;
    char *token = NULL, *line = NULL, host [200], what [200] = "not enough memory";
    char code [KEY_ANSWER_CODE_BYTES] = "";
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
        rc = key_answer_json (self->body, self->body_bytes, key_p, code);
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
    char word [KEY_ANSWER_WORD_BYTES], char *what, size_t what_bytes)
{
    char url [1600];
    snprintf (url, sizeof url, "%s/latest/%s", self->account->service, path);
    int rc = s_exchange (self, &(question_t) { .method = method, .url = url, .headers = { header },
        .limit_ms = limit_ms, .is_local = true }, what, what_bytes);
    if (rc == 0 && !key_answer_word (self->body, self->body_bytes, word)) {
        rc = -EBADMSG;
        snprintf (what, what_bytes, "an answer that is none");
    }
    return rc;
}

static int
s_ask_role (key_source_t *self, const char *header, access_key_t **key_p, const char **step_p, char *what,
    size_t what_bytes)
{
    static const char path [] = "meta-data/iam/security-credentials/";
    char role [KEY_ANSWER_WORD_BYTES], url [1600], code [KEY_ANSWER_CODE_BYTES];
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
    rc = key_answer_json (self->body, self->body_bytes, key_p, code);
    snprintf (what, what_bytes, "no keys in the answer%s%s", *code? " ": "", code);
    return rc;
}

//  IMDSv2: a token, the role's name, its keys.  What failed in *step_p.
static int
s_ask_steps (key_source_t *self, access_key_t **key_p, const char **step_p, char *what, size_t what_bytes)
{
    char *token = wiped_guarded (KEY_ANSWER_WORD_BYTES), *header = NULL;
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
s_ask_instance (key_source_t *self, access_key_t **key_p, char *error, size_t error_bytes)
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
s_ask_program (key_source_t *self, access_key_t **key_p, char *error, size_t error_bytes)
{
    char what [KEY_PROGRAM_SAID_BYTES], code [KEY_ANSWER_CODE_BYTES];
    int rc = key_program_run (self->account->program, &self->is_stopped, PROGRAM_MS, self->body,
        KEY_ANSWER_BYTES_MAX, &self->body_bytes, what, sizeof what);
    if (rc == 0) {
        rc = key_answer_json (self->body, self->body_bytes, key_p, code);
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
    self->body = wiped_guarded (KEY_ANSWER_BYTES_MAX);
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
key_source_ask (key_source_t *self, access_key_t **key_p, char *error, size_t error_bytes)
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
    sodium_memzero (self->body, KEY_ANSWER_BYTES_MAX);
    self->body_bytes = 0;
    return rc;
}

int
key_source_first (key_source_t *self, access_key_t **key_p, char *error, size_t error_bytes)
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
