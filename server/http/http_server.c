#include "http_server.h"
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <jansson.h>
#include <microhttpd.h>
#include <sodium.h>
#include <zlib.h>
#include "clock.h"
#include "file.h"
#include "last_hour.h"
#include "metrics.h"

//  The page to look at, as one text: page.html with Debian's dygraphs in it.  The build makes it
//  (embed_page.cmake).
extern const char page_text [];
extern const size_t page_bytes;

//  As it is: a literal of this size is more than C compilers must take.
__asm__ (
    ".section .rodata\n"
    ".global page_text\n"
    "page_text: .incbin \"" PAGE_FILE "\"\n"
    "page_end: .byte 0\n"
    ".balign 8\n"
    ".global page_bytes\n"
    "page_bytes: .quad page_end - page_text\n"
    ".type page_text, %object\n"
    ".type page_bytes, %object\n"
    ".size page_bytes, 8\n"
    ".text\n");

enum { CONNECTIONS_MAX = 200,
    //  Of requests that wait for the broker.  The other connections are idle, send or take: they make room.
    WAITING_MAX = CONNECTIONS_MAX / 2, PROBES_MAX = CONNECTIONS_MAX / 4,
    TIMEOUT_S = 10, REQUEST_BYTES_MAX = 16384, FRESH_MS = 1000, WAIT_MS = 5000,
    ASKED_MS = 60000,                   //  after so long without an answer it is asked again
    REQUEST_MS = 30000,
    BACKLOG = 64, FILE_BYTES_MAX = 1 << 20, URL_BYTES = 128, HOST_BYTES = 64 };

//  A line of the file of tokens.
typedef struct {
    char token [HTTP_SERVER_TOKEN_MOST + 1];
    int viewer;
} grant_t;

typedef enum { STATUS, METRICS, OPEN_METRICS, HISTORY, HEALTH, KINDS } kind_t;

//  What one viewer may see.
typedef struct {
    json_t *status;                     //  NULL: there was no answer yet
    int64_t at_ms;
    int64_t asked_ms;                   //  0: no question is out
    struct MHD_Response *responses [2][KINDS];  //  made of it, plain and compressed; NULL: not yet
    //  under the mutex
    bool is_asked;
    json_t *answer;                     //  NULL: none
} view_t;

typedef struct request {
    struct request *next;               //  that waits too
    struct MHD_Connection *connection;
    size_t viewer;
    kind_t kind;
    bool takes_gzip;
    int64_t begun_ms;
    bool waits;                         //  its connection is suspended
} request_t;

typedef struct peer {
    struct peer *next;
    struct MHD_Connection *connection;
    const request_t *request;           //  NULL: its head has not come yet
    int64_t begun_ms;                   //  or since its last answer
} peer_t;

struct http_server {
    http_server_options_t options;
    //  where it listens, and which requests may look; nothing of it changes after http_server_open
    int socket;
    char *path;                         //  of a socket file; NULL: tcp
    bool is_loopback;
    char url [URL_BYTES];
    char host [HOST_BYTES];             //  of the address; "": a socket file
    grant_t *grants;
    size_t grant_count;
    //  between the broker's thread and this one: eventfds, and the mutex of what it is asked and answers
    int asked, answered;
    pthread_mutex_t mutex;
    //  this thread's
    struct MHD_Daemon *daemon;
    struct MHD_Response *page;
    last_hour_t *last_hour;
    int64_t point_ms;                   //  of its last point
    int stop;                           //  eventfd
    bool is_short;                      //  a connection could not be accepted for want of descriptors
    bool is_started;
    pthread_t thread;
    view_t *views;                      //  by viewer
    request_t *waiting;
    peer_t *peers;                      //  all connections
};

static int __attribute__ ((format (printf, 4, 5)))
s_fail (int rc, char *error, size_t error_bytes, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (error, error_bytes, format, arguments);
    va_end (arguments);
    return rc;
}

//  ---- tokens

static int
s_viewer_of (const http_server_options_t *options, const char *name)
{
    if (strcmp (name, "*") == 0)
        return 0;
    for (size_t index = 0; index < options->tenant_count; index++)
        if (strcmp (options->tenants [index], name) == 0)
            return (int) index + 1;
    return HTTP_SERVER_DENIED;
}

//  Neither the token nor a part of it is in an error.
static int
s_take_line (http_server_t *self, const http_server_options_t *options, char *line, size_t number,
    char *error, size_t error_bytes)
{
    char *rest = NULL, *name = strtok_r (line, " \t\r", &rest);
    if (!name || *name == '#')
        return 0;
    char *token = strtok_r (NULL, " \t\r", &rest);
    if (!token || strtok_r (NULL, " \t\r", &rest))
        return s_fail (-EINVAL, error, error_bytes, "http-tokens: %s:%zu: expected `TENANT TOKEN`, or "
            "`* TOKEN` for all that operators see", options->tokens, number);
    int viewer = s_viewer_of (options, name);
    if (viewer == HTTP_SERVER_DENIED)
        return s_fail (-EINVAL, error, error_bytes, "http-tokens: %s:%zu: no tenant has the name before the "
            "token; * is for operators", options->tokens, number);
    if (strlen (token) < HTTP_SERVER_TOKEN_LEAST || strlen (token) > HTTP_SERVER_TOKEN_MOST)
        return s_fail (-EINVAL, error, error_bytes, "http-tokens: %s:%zu: a token has %d to %d characters; "
            "`openssl rand -hex 24` makes one", options->tokens, number, HTTP_SERVER_TOKEN_LEAST,
            HTTP_SERVER_TOKEN_MOST);
    grant_t *grants = reallocarray (self->grants, self->grant_count + 1, sizeof *grants);
    if (!grants)
        return s_fail (-ENOMEM, error, error_bytes, "no memory for the tokens");
    self->grants = grants;
    grant_t *grant = &grants [self->grant_count++];
    *grant = (grant_t) { .viewer = viewer };
    snprintf (grant->token, sizeof grant->token, "%s", token);
    return 0;
}

static int
s_read_tokens (http_server_t *self, const http_server_options_t *options, char *error, size_t error_bytes)
{
    struct stat status;
    char *text = NULL;
    size_t size;
    if (stat (options->tokens, &status) == 0 && status.st_mode & (S_IRWXG | S_IRWXO))
        return s_fail (-EACCES, error, error_bytes, "http-tokens: others may read %s: chmod 600 it",
            options->tokens);
    int rc = file_whole (options->tokens, FILE_BYTES_MAX, &text, &size);
    if (rc)
        return s_fail (rc, error, error_bytes, "http-tokens: %s: %s", options->tokens, strerror (-rc));
    size_t number = 0;
    for (char *next = text, *line; rc == 0 && (line = strsep (&next, "\n")); )
        rc = s_take_line (self, options, line, ++number, error, error_bytes);
    sodium_memzero (text, size);
    free (text);
    if (rc == 0 && self->grant_count == 0)
        rc = s_fail (-EINVAL, error, error_bytes, "http-tokens: there is no token in %s; a line is "
            "`* TOKEN`", options->tokens);
    return rc;
}

//  ---- listening

//  rc: why the address cannot be had.
static int
s_fail_to_listen (int rc, const char *text, char *error, size_t error_bytes)
{
    return s_fail (rc, error, error_bytes, "http: cannot listen at %s: %s%s", text, strerror (-rc),
        rc == -EADDRINUSE? ": choose another --http": "");
}

static int
s_listen_path (http_server_t *self, const char *path, char *error, size_t error_bytes)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (!*path || strlen (path) >= sizeof address.sun_path)
        return s_fail (-EINVAL, error, error_bytes, "http: a socket's path has 1 to %zu bytes",
            sizeof address.sun_path - 1);
    strcpy (address.sun_path, path);
    self->socket = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->socket < 0)
        return s_fail (-errno, error, error_bytes, "http: no socket: %s", strerror (errno));
    struct stat status;
    int rc = bind (self->socket, (struct sockaddr *) &address, sizeof address)? -errno: 0;
    //  A file that is no socket refuses connections too, and is not ours to remove.
    if (rc == -EADDRINUSE && lstat (path, &status) == 0 && S_ISSOCK (status.st_mode)
    &&  connect (self->socket, (struct sockaddr *) &address, sizeof address) != 0
    &&  errno == ECONNREFUSED && unlink (path) == 0)       //  a dead server's
        rc = bind (self->socket, (struct sockaddr *) &address, sizeof address)? -errno: 0;
    if (rc)
        return s_fail_to_listen (rc, path, error, error_bytes);
    self->path = strdup (path);
    snprintf (self->url, sizeof self->url, "unix:%s", path);
    return self->path? 0: s_fail (-ENOMEM, error, error_bytes, "no memory for the HTTP server");
}

static bool
s_is_loopback (const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl (((const struct sockaddr_in *) address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6
        && IN6_IS_ADDR_LOOPBACK (&((const struct sockaddr_in6 *) address)->sin6_addr);
}

//  "9464", "0.0.0.0:9464", "[::1]:9464": its address, and its port.  False: it is none.
static bool
s_split (const char *text, char host [HOST_BYTES], const char **port_p)
{
    const char *colon = strrchr (text, ':');
    size_t size = colon? (size_t) (colon - text): 0;
    *port_p = colon? colon + 1: text;
    if (colon && size >= 2 && text [0] == '[' && text [size - 1] == ']') {
        text++;
        size -= 2;
    }
    if ((colon && size == 0) || size >= HOST_BYTES || strspn (*port_p, "0123456789") != strlen (*port_p)
    ||  strlen (*port_p) > 5 || atoi (*port_p) < 1 || atoi (*port_p) > UINT16_MAX)
        return false;
    snprintf (host, HOST_BYTES, "%.*s", colon? (int) size: (int) strlen ("127.0.0.1"),
        colon? text: "127.0.0.1");
    return true;
}

static int
s_listen_port (http_server_t *self, const char *text, char *error, size_t error_bytes)
{
    char host [HOST_BYTES];
    const char *port;
    if (!s_split (text, host, &port))
        return s_fail (-EINVAL, error, error_bytes, "http: expected [ADDRESS:]PORT or unix:PATH, as in 9464 "
            "or 0.0.0.0:9464, got '%s'", text);
    struct addrinfo *found, hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST };
    int failure = getaddrinfo (host, port, &hints, &found);
    if (failure)
        return s_fail (-EINVAL, error, error_bytes, "http: '%s' is no numeric address of this machine: %s",
            host, gai_strerror (failure));
    self->socket = socket (found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = self->socket < 0? -errno: 0, one = 1;
    if (rc == 0)
        setsockopt (self->socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (rc == 0 && bind (self->socket, found->ai_addr, found->ai_addrlen) != 0)
        rc = -errno;
    self->is_loopback = s_is_loopback (found->ai_addr);
    bool is_six = found->ai_family == AF_INET6;
    freeaddrinfo (found);
    snprintf (self->host, sizeof self->host, "%s%.*s%s", is_six? "[": "", HOST_BYTES - 3, host,
        is_six? "]": "");
    snprintf (self->url, sizeof self->url, "http://%s:%s/", self->host, port);
    return rc == 0? 0: s_fail_to_listen (rc, text, error, error_bytes);
}

static int
s_open (http_server_t *self, const http_server_options_t *options, char *error, size_t error_bytes)
{
    static const char unix_prefix [] = "unix:";
    if (options->tokens) {
        int rc = s_read_tokens (self, options, error, error_bytes);
        if (rc)
            return rc;
    }
    bool is_path = strncmp (options->listen, unix_prefix, strlen (unix_prefix)) == 0;
    int rc = is_path? s_listen_path (self, options->listen + strlen (unix_prefix), error, error_bytes):
        s_listen_port (self, options->listen, error, error_bytes);
    if (rc)
        return rc;
    if (!is_path && !options->tokens && !self->is_loopback)
        return s_fail (-EACCES, error, error_bytes, "http: '%s' can be reached from other machines: give "
            "--http-tokens FILE, or listen at 127.0.0.1 or at unix:PATH", options->listen);
    if (!is_path && !options->tokens && options->tenant_count > 0)
        return s_fail (-EACCES, error, error_bytes, "http: every user of this machine could look at all "
            "tenants: give --http-tokens FILE, or listen at unix:PATH");
    if (listen (self->socket, BACKLOG) != 0)
        return s_fail_to_listen (-errno, options->listen, error, error_bytes);
    return 0;
}

const char *
http_server_url (const http_server_t *self)
{
    return self->url;
}

//  ---- which requests may look

//  "localhost:9464", "127.0.0.1", "[::1]:9464": a name that no other machine's owner can give.
static bool
s_is_this_machine (const http_server_t *self, const char *host)
{
    const char *const names [] = { "localhost", "127.0.0.1", "[::1]", self->host };
    for (size_t index = 0; host && index < sizeof names / sizeof *names; index++) {
        size_t size = strlen (names [index]);
        if (strncasecmp (host, names [index], size) == 0 && (host [size] == 0 || host [size] == ':'))
            return true;
    }
    return false;
}

int
http_server_viewer (const http_server_t *self, const char *authorization, const char *host)
{
    static const char scheme [] = "Bearer ";
    if (self->grant_count == 0)
        return self->path || s_is_this_machine (self, host)? 0: HTTP_SERVER_DENIED;
    if (!authorization || strncasecmp (authorization, scheme, strlen (scheme)) != 0)
        return HTTP_SERVER_DENIED;
    char token [HTTP_SERVER_TOKEN_MOST + 1] = "";
    const char *given = authorization + strlen (scheme);
    if (strlen (given) > HTTP_SERVER_TOKEN_MOST)
        return HTTP_SERVER_DENIED;
    memcpy (token, given, strlen (given));
    //  All of them, in a time that tells nothing.
    int viewer = HTTP_SERVER_DENIED;
    for (size_t index = 0; index < self->grant_count; index++)
        if (sodium_memcmp (token, self->grants [index].token, sizeof token) == 0)
            viewer = self->grants [index].viewer;
    sodium_memzero (token, sizeof token);
    return viewer;
}

//  ---- between the broker's thread and this one

//  The counter of an eventfd cannot overflow here, and a failed write leaves it readable.
static void
s_wake (int descriptor)
{
    ssize_t written = write (descriptor, &(uint64_t) { 1 }, sizeof (uint64_t));
    (void) written;
}

static void
s_calm (int descriptor)
{
    uint64_t count;
    ssize_t got = read (descriptor, &count, sizeof count);
    (void) got;
}

int
http_server_asked (const http_server_t *self)
{
    return self->asked;
}

bool
http_server_next (http_server_t *self, size_t *viewer_p)
{
    s_calm (self->asked);
    pthread_mutex_lock (&self->mutex);
    size_t viewer = 0, viewers = self->options.tenant_count + 1;
    while (viewer < viewers && !self->views [viewer].is_asked)
        viewer++;
    if (viewer < viewers)
        self->views [viewer].is_asked = false;
    pthread_mutex_unlock (&self->mutex);
    *viewer_p = viewer;
    return viewer < viewers;
}

void
http_server_answer (http_server_t *self, size_t viewer, json_t *status)
{
    assert (viewer <= self->options.tenant_count);
    pthread_mutex_lock (&self->mutex);
    json_t *before = self->views [viewer].answer;
    self->views [viewer].answer = status;
    pthread_mutex_unlock (&self->mutex);
    json_decref (before);
    s_wake (self->answered);
}

//  The newest answer that was not taken yet, and the reference to it; NULL: none.
static json_t *
s_take_answer (http_server_t *self, size_t viewer)
{
    pthread_mutex_lock (&self->mutex);
    json_t *status = self->views [viewer].answer;
    self->views [viewer].answer = NULL;
    pthread_mutex_unlock (&self->mutex);
    return status;
}

static void
s_ask (http_server_t *self, size_t viewer, int64_t now_ms)
{
    view_t *view = &self->views [viewer];
    if (view->asked_ms && now_ms - view->asked_ms < ASKED_MS)
        return;
    view->asked_ms = now_ms;
    pthread_mutex_lock (&self->mutex);
    view->is_asked = true;
    pthread_mutex_unlock (&self->mutex);
    s_wake (self->asked);
}

//  ---- answers

//  Also for pages of ours alone: nothing is kept, framed, or taken for something else.
static struct MHD_Response *
s_response (char *text, size_t size, enum MHD_ResponseMemoryMode mode, const char *type)
{
    struct MHD_Response *response = MHD_create_response_from_buffer (size, text, mode);
    if (!response) {
        if (mode == MHD_RESPMEM_MUST_FREE)
            free (text);
        return NULL;
    }
    MHD_add_response_header (response, "Content-Type", type);
    MHD_add_response_header (response, "Cache-Control", "no-store");
    MHD_add_response_header (response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header (response, "Content-Security-Policy", "default-src 'none'; "
        "script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    return response;
}

static enum MHD_Result
s_say (struct MHD_Connection *connection, unsigned status, const char *text)
{
    struct MHD_Response *response = s_response ((char *) text, strlen (text), MHD_RESPMEM_MUST_COPY,
        "text/plain; charset=utf-8");
    if (!response)
        return MHD_NO;
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header (response, "WWW-Authenticate", "Bearer realm=\"tureen\"");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header (response, "Allow", "GET, HEAD");
    if (status == MHD_HTTP_BAD_REQUEST)
        MHD_add_response_header (response, "Connection", "close");
    enum MHD_Result result = MHD_queue_response (connection, status, response);
    MHD_destroy_response (response);
    return result;
}

//  With a head and an end as gzip has them; yours to free.  NULL: no memory.
static char *
s_compressed (const char *text, size_t size, size_t *size_p)
{
    enum { FASTEST = 1, GZIP = 16 + MAX_WBITS, MEMORY = 8 };
    z_stream stream = { .next_in = (Bytef *) text, .avail_in = (uInt) size };
    if (size > UINT32_MAX / 2 || deflateInit2 (&stream, FASTEST, Z_DEFLATED, GZIP, MEMORY, Z_DEFAULT_STRATEGY)
        != Z_OK)
        return NULL;
    uLong room = deflateBound (&stream, (uLong) size);
    char *compressed = malloc (room);
    stream.next_out = (Bytef *) compressed;
    stream.avail_out = (uInt) room;
    bool is_whole = compressed && deflate (&stream, Z_FINISH) == Z_STREAM_END;
    *size_p = stream.total_out;
    deflateEnd (&stream);
    if (is_whole)
        return compressed;
    free (compressed);
    return NULL;
}

static struct MHD_Response *
s_make_compressed (const char *text, size_t size, const char *type)
{
    size_t compressed_size = 0;
    char *compressed = s_compressed (text, size, &compressed_size);
    struct MHD_Response *response = compressed? s_response (compressed, compressed_size,
        MHD_RESPMEM_MUST_FREE, type): NULL;
    if (response)
        MHD_add_response_header (response, "Content-Encoding", "gzip");
    return response;
}

static struct MHD_Response *
s_make (view_t *view, kind_t kind, bool is_compressed)
{
    bool is_open = kind == OPEN_METRICS;
    const char *type = kind == STATUS? "application/json": metrics_type (is_open);
    size_t size = 0;
    char *text = kind == STATUS? json_dumps (view->status, JSON_COMPACT):
        metrics_text (view->status, is_open, &size);
    if (!text)
        return NULL;
    size = kind == STATUS? strlen (text): size;
    struct MHD_Response *response = is_compressed? s_make_compressed (text, size, type):
        s_response (text, size, MHD_RESPMEM_MUST_FREE, type);
    if (is_compressed)
        free (text);
    if (response)
        MHD_add_response_header (response, "Vary", "Accept-Encoding");
    return response;
}

//  Not kept: it is another one for each job.
static enum MHD_Result
s_show_history (http_server_t *self, const request_t *request)
{
    const char *job = MHD_lookup_connection_value (request->connection, MHD_GET_ARGUMENT_KIND, "job"),
        *tenant = request->viewer? self->options.tenants [request->viewer - 1]: NULL;
    json_t *object = job? last_hour_of_job (self->last_hour, tenant, strtoull (job, NULL, 10)):
        last_hour_of_all (self->last_hour, tenant);
    if (!object)
        return s_say (request->connection, MHD_HTTP_NOT_FOUND, "no job of this number is known\n");
    char *text = json_dumps (object, JSON_COMPACT | JSON_REAL_PRECISION (14));
    json_decref (object);
    struct MHD_Response *response = text? s_response (text, strlen (text), MHD_RESPMEM_MUST_FREE,
        "application/json"): NULL;
    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_queue_response (request->connection, MHD_HTTP_OK, response);
    MHD_destroy_response (response);
    return result;
}

static enum MHD_Result
s_show (http_server_t *self, const request_t *request)
{
    view_t *view = &self->views [request->viewer];
    if (request->kind == HEALTH)
        return s_say (request->connection, MHD_HTTP_OK, "ok\n");
    if (request->kind == HISTORY)
        return s_show_history (self, request);
    struct MHD_Response **response_p = &view->responses [request->takes_gzip][request->kind];
    if (!*response_p)
        *response_p = s_make (view, request->kind, request->takes_gzip);
    return *response_p? MHD_queue_response (request->connection, MHD_HTTP_OK, *response_p): MHD_NO;
}

//  ---- what viewers see, as new as it is

static void
s_forget (view_t *view)
{
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t form = 0; form < 2; form++)
            if (view->responses [form][kind])
                MHD_destroy_response (view->responses [form][kind]);
    memset (view->responses, 0, sizeof view->responses);
    json_decref (view->status);
    view->status = NULL;
}

//  Requests go on that have their answer, or have waited too long.
static void
s_resume (http_server_t *self, int64_t now_ms)
{
    for (request_t **next = &self->waiting; *next; ) {
        request_t *request = *next;
        const view_t *view = &self->views [request->viewer];
        bool is_ready = view->status && view->at_ms >= request->begun_ms - FRESH_MS;
        if (!is_ready && now_ms - request->begun_ms < WAIT_MS) {
            next = &request->next;
            continue;
        }
        *next = request->next;
        request->waits = false;
        MHD_resume_connection (request->connection);
    }
}

static void
s_take_answers (http_server_t *self, int64_t now_ms)
{
    s_calm (self->answered);            //  an answer that comes later makes it readable again
    for (size_t viewer = 0; viewer <= self->options.tenant_count; viewer++) {
        json_t *status = s_take_answer (self, viewer);
        if (!status)
            continue;
        view_t *view = &self->views [viewer];
        s_forget (view);
        view->status = status;
        view->at_ms = now_ms;
        view->asked_ms = 0;
        if (viewer == 0 && now_ms >= self->point_ms + LAST_HOUR_STEP_MS) {
            struct timespec day;
            clock_gettime (CLOCK_REALTIME, &day);
            last_hour_add (self->last_hour, view->status, now_ms,
                (int64_t) day.tv_sec * 1000 + day.tv_nsec / 1000000);
            self->point_ms = now_ms;
        }
    }
}

//  ---- requests

static const struct { const char *path; kind_t kind; } s_paths [] = {
    { "/status.json", STATUS }, { "/metrics", METRICS }, { "/history.json", HISTORY }, { "/healthz", HEALTH }
};

//  "gzip, deflate", but not "gzip;q=0".
static bool
s_takes_gzip (struct MHD_Connection *connection)
{
    const char *accept = MHD_lookup_connection_value (connection, MHD_HEADER_KIND, "Accept-Encoding"),
        *gzip = accept? strstr (accept, "gzip"): NULL;
    return gzip && strncmp (gzip + strlen ("gzip"), ";q=0", 4) != 0;
}

//  What the path stands for; KINDS: nothing.
static kind_t
s_kind (struct MHD_Connection *connection, const char *path)
{
    const char *accept = MHD_lookup_connection_value (connection, MHD_HEADER_KIND, "Accept");
    bool is_open = accept && strstr (accept, "application/openmetrics-text");
    for (size_t place = 0; place < sizeof s_paths / sizeof *s_paths; place++)
        if (strcmp (path, s_paths [place].path) == 0)
            return s_paths [place].kind == METRICS && is_open? OPEN_METRICS: s_paths [place].kind;
    return KINDS;
}

//  The viewer of the request; HTTP_SERVER_DENIED, and it is answered.
static int
s_viewer (const http_server_t *self, struct MHD_Connection *connection, enum MHD_Result *result_p)
{
    int viewer = http_server_viewer (self,
        MHD_lookup_connection_value (connection, MHD_HEADER_KIND, "Authorization"),
        MHD_lookup_connection_value (connection, MHD_HEADER_KIND, "Host"));
    if (viewer != HTTP_SERVER_DENIED)
        return viewer;
    *result_p = self->grant_count > 0?
        s_say (connection, MHD_HTTP_UNAUTHORIZED, "a token is wanted: `Authorization: Bearer TOKEN`, of the "
            "server's --http-tokens\n"):
        s_say (connection, MHD_HTTP_FORBIDDEN, "ask for localhost or 127.0.0.1, not for another name of this "
            "machine\n");
    return HTTP_SERVER_DENIED;
}

//  What it asks for, and whether it may.  False: it is answered already.
static bool
s_begin (http_server_t *self, request_t *request, const char *path, const char *method,
    enum MHD_Result *result_p)
{
    struct MHD_Connection *connection = request->connection;
    if (strcmp (method, "GET") != 0 && strcmp (method, "HEAD") != 0) {
        *result_p = s_say (connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
        return false;
    }
    if (strcmp (path, "/") == 0) {
        *result_p = MHD_queue_response (connection, MHD_HTTP_OK, self->page);
        return false;
    }
    kind_t kind = s_kind (connection, path);
    if (kind == KINDS) {
        *result_p = s_say (connection, MHD_HTTP_NOT_FOUND, "there are /, /status.json, /history.json, "
            "/metrics and /healthz\n");
        return false;
    }
    int viewer = kind == HEALTH? 0: s_viewer (self, connection, result_p);
    if (viewer == HTTP_SERVER_DENIED)
        return false;
    request->kind = kind;
    request->takes_gzip = s_takes_gzip (connection);
    request->viewer = (size_t) viewer;
    return true;
}

static peer_t *
s_peer (struct MHD_Connection *connection)
{
    return MHD_get_connection_info (connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

typedef struct {
    unsigned lengths, codings;
} body_t;

static enum MHD_Result
s_count_body (void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    body_t *body = context;
    (void) kind, (void) value;
    body->lengths += strcasecmp (name, "Content-Length") == 0;
    body->codings += strcasecmp (name, "Transfer-Encoding") == 0;
    return MHD_YES;
}

//  A proxy before this server may see another end of it, and take what follows for another client's request
//  (RFC 9112, section 6.3).
static bool
s_has_two_ends (struct MHD_Connection *connection)
{
    body_t body = { 0, 0 };
    MHD_get_connection_values (connection, MHD_HEADER_KIND, s_count_body, &body);
    return body.lengths > 1 || body.codings > 1 || (body.lengths && body.codings);
}

//  Probes of /healthz have places of their own: a crowd that asks for something else takes none of them.
static bool
s_may_wait (const http_server_t *self, kind_t kind)
{
    size_t count = 0;
    for (const request_t *request = self->waiting; request; request = request->next)
        count += (request->kind == HEALTH) == (kind == HEALTH);
    return count < (kind == HEALTH? PROBES_MAX: WAITING_MAX);
}

static enum MHD_Result
s_answer (void *context, struct MHD_Connection *connection, const char *path, const char *method,
    const char *version, const char *upload, size_t *upload_size, void **request_p)
{
    http_server_t *self = context;
    request_t *request = *request_p;
    int64_t now_ms = clock_now_ms ();
    enum MHD_Result result = MHD_NO;
    (void) version, (void) upload;
    if (!request) {                     //  its head alone; a body would follow
        request = calloc (1, sizeof *request);
        if (!request)
            return MHD_NO;
        *request = (request_t) { .connection = connection, .begun_ms = now_ms, .kind = KINDS };
        *request_p = request;
        peer_t *peer = s_peer (connection);
        if (peer)
            peer->request = request;
        return s_has_two_ends (connection)? s_say (connection, MHD_HTTP_BAD_REQUEST, "a request has one "
            "Content-Length or one Transfer-Encoding\n"): MHD_YES;
    }
    if (*upload_size > 0) {             //  of no use to any of them
        *upload_size = 0;
        return MHD_YES;
    }
    if (request->kind == KINDS && !s_begin (self, request, path, method, &result))
        return result;
    const view_t *view = &self->views [request->viewer];
    if (view->status && now_ms - view->at_ms < FRESH_MS)
        return s_show (self, request);
    if (now_ms - request->begun_ms >= WAIT_MS)
        return s_say (connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is busy\n");
    if (view->status && view->at_ms >= request->begun_ms)
        return s_show (self, request);
    s_ask (self, request->viewer, now_ms);
    if (!s_may_wait (self, request->kind))
        return s_say (connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many requests wait for the server\n");
    request->next = self->waiting;
    self->waiting = request;
    request->waits = true;
    MHD_suspend_connection (connection);
    return MHD_YES;
}

static void
s_end_request (void *context, struct MHD_Connection *connection, void **request_p,
    enum MHD_RequestTerminationCode code)
{
    (void) context, (void) code;
    peer_t *peer = s_peer (connection);
    if (peer) {
        peer->begun_ms = clock_now_ms ();
        peer->request = NULL;
    }
    assert (!*request_p || !((request_t *) *request_p)->waits);
    free (*request_p);
    *request_p = NULL;
}

//  ---- connections

static void
s_note_peer (void *context, struct MHD_Connection *connection, void **peer_p,
    enum MHD_ConnectionNotificationCode code)
{
    http_server_t *self = context;
    peer_t **link = &self->peers, *peer = *peer_p;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        peer = calloc (1, sizeof *peer);        //  NULL: it has no limit but TIMEOUT_S
        if (peer) {
            *peer = (peer_t) { .next = self->peers, .connection = connection, .begun_ms = clock_now_ms () };
            self->peers = peer;
        }
        *peer_p = peer;
        return;
    }
    while (*link && *link != peer)
        link = &(*link)->next;
    if (peer && *link)
        *link = peer->next;
    free (peer);
    *peer_p = NULL;
}

//  The shut socket shows libmicrohttpd that the client is gone.
static void
s_drop (peer_t *peer, int64_t now_ms)
{
    shutdown (MHD_get_connection_info (peer->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
        SHUT_RDWR);
    peer->begun_ms = now_ms;
}

//  Of two connections, the one that asks for nothing; of two that are alike in that, the older one.
static bool
s_goes_first (const peer_t *peer, const peer_t *other)
{
    if (!peer->request != !other->request)
        return !peer->request;
    return peer->begun_ms <= other->begun_ms;
}

//  A crowd must not keep out a probe of /healthz: a connection makes room for a new one, unless it waits for
//  the broker.  At most WAITING_MAX and PROBES_MAX do.
static void
s_make_room (http_server_t *self)
{
    peer_t *first = NULL;
    MHD_run (self->daemon);             //  one that has asked already does not go for asking nothing
    for (peer_t *peer = self->peers; peer; peer = peer->next) {
        bool waits = peer->request && peer->request->waits;
        if (!waits && (!first || s_goes_first (peer, first)))
            first = peer;
    }
    if (first)
        s_drop (first, clock_now_ms ());
    MHD_run (self->daemon);
}

//  ---- the thread

//  By direct system calls: connections that are accepted by accept4 count as ZeroMQ's (libc_interpose.c).
static void
s_accept (http_server_t *self)
{
    //  The rest stays in the listener, which stays readable: those that are open have their turn.
    for (size_t count = 0; count < CONNECTIONS_MAX; count++) {
        struct sockaddr_storage address;
        socklen_t size = sizeof address;
        int socket = (int) syscall (SYS_accept4, self->socket, &address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket < 0) {
            //  Out of descriptors or memory: the listener stays readable, and is looked at after a pause.
            self->is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            return;
        }
        if (MHD_get_daemon_info (self->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections
            >= CONNECTIONS_MAX)
            s_make_room (self);
        //  Beyond the limit it is closed at once.
        MHD_add_connection (self->daemon, socket, (struct sockaddr *) &address, size);
    }
}

static int
s_patience_ms (const http_server_t *self, int64_t now_ms)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    int64_t next_ms = self->point_ms + LAST_HOUR_STEP_MS - now_ms;
    if (self->waiting || self->is_short)
        next_ms = next_ms < 100? next_ms: 100;
    if (self->views [0].asked_ms && next_ms < 100)
        next_ms = 100;                  //  the point's question is out
    if (MHD_get_timeout (self->daemon, &timeout_ms) == MHD_YES && (int64_t) timeout_ms < next_ms)
        next_ms = (int64_t) timeout_ms;
    return next_ms > 0? (int) next_ms: 0;
}

static void *
s_run (void *argument)
{
    http_server_t *self = argument;
    enum { DAEMON, LISTENER, ANSWERED, STOP, ITEMS };
    struct pollfd items [ITEMS] = {
        [DAEMON] = { .fd = MHD_get_daemon_info (self->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
            .events = POLLIN },
        [LISTENER] = { .fd = self->socket, .events = POLLIN },
        [ANSWERED] = { .fd = self->answered, .events = POLLIN },
        [STOP] = { .fd = self->stop, .events = POLLIN }
    };
    while (!(items [STOP].revents & POLLIN)) {
        int64_t now_ms = clock_now_ms ();
        s_take_answers (self, now_ms);
        if (now_ms >= self->point_ms + LAST_HOUR_STEP_MS)
            s_ask (self, 0, now_ms);
        s_resume (self, now_ms);
        //  libmicrohttpd counts from the last byte: a client that sends one now and then would keep its
        //  connection.
        for (peer_t *peer = self->peers; peer; peer = peer->next)
            if (now_ms - peer->begun_ms >= REQUEST_MS)
                s_drop (peer, now_ms);
        if (items [LISTENER].revents || self->is_short)
            s_accept (self);
        MHD_run (self->daemon);
        items [LISTENER].events = self->is_short? 0: POLLIN;
        poll (items, ITEMS, s_patience_ms (self, clock_now_ms ()));
    }
    //  MHD ends no connection that is suspended.
    for (request_t *request = self->waiting; request; request = request->next) {
        request->waits = false;
        MHD_resume_connection (request->connection);
    }
    self->waiting = NULL;
    return NULL;
}

//  ---- its life

int
http_server_open (http_server_t **self_p, const http_server_options_t *options, char *error,
    size_t error_bytes)
{
    http_server_t *self = calloc (1, sizeof *self);
    *self_p = NULL;
    if (!self)
        return s_fail (-ENOMEM, error, error_bytes, "no memory for the HTTP server");
    self->options = *options;
    self->socket = self->asked = self->answered = self->stop = -1;
    pthread_mutex_init (&self->mutex, NULL);
    int rc = s_open (self, options, error, error_bytes);
    if (rc)
        http_server_close (&self);
    *self_p = self;
    return rc;
}

int
http_server_start (http_server_t *self)
{
    self->views = calloc (self->options.tenant_count + 1, sizeof *self->views);
    self->last_hour = last_hour_new ();
    self->page = s_response ((char *) page_text, page_bytes, MHD_RESPMEM_PERSISTENT,
        "text/html; charset=utf-8");
    if (!self->views || !self->last_hour || !self->page)
        return -ENOMEM;
    if ((self->asked = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0
    ||  (self->answered = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0
    ||  (self->stop = eventfd (0, EFD_CLOEXEC)) < 0)
        return -errno;
    self->point_ms = clock_now_ms () - LAST_HOUR_STEP_MS;
    self->daemon = MHD_start_daemon (MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0,
        NULL, NULL, s_answer, self, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned) CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) TIMEOUT_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) REQUEST_BYTES_MAX,
        MHD_OPTION_NOTIFY_COMPLETED, s_end_request, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, s_note_peer, self, MHD_OPTION_END);
    if (!self->daemon)
        return errno? -errno: -ENOMEM;
    int rc = pthread_create (&self->thread, NULL, s_run, self);
    self->is_started = rc == 0;
    if (self->is_started)
        pthread_setname_np (self->thread, "http");
    return -rc;
}

void
http_server_close (http_server_t **self_p)
{
    http_server_t *self = *self_p;
    if (!self)
        return;
    if (self->is_started) {
        s_wake (self->stop);
        pthread_join (self->thread, NULL);
    }
    if (self->daemon)
        MHD_stop_daemon (self->daemon);
    for (size_t viewer = 0; self->views && viewer <= self->options.tenant_count; viewer++) {
        s_forget (&self->views [viewer]);
        json_decref (self->views [viewer].answer);
    }
    if (self->page)
        MHD_destroy_response (self->page);
    last_hour_destroy (&self->last_hour);
    const int descriptors [] = { self->stop, self->asked, self->answered, self->socket };
    for (size_t index = 0; index < sizeof descriptors / sizeof *descriptors; index++)
        if (descriptors [index] >= 0)
            close (descriptors [index]);
    if (self->path)
        unlink (self->path);
    free (self->path);
    if (self->grants)
        sodium_memzero (self->grants, self->grant_count * sizeof *self->grants);
    free (self->grants);
    free (self->views);
    pthread_mutex_destroy (&self->mutex);
    free (self);
    *self_p = NULL;
}
