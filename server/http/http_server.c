#include "http_server.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <jansson.h>
#include <microhttpd.h>
#include <zlib.h>
#include "clock.h"
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
    REQUEST_MS = 30000 };

typedef enum { STATUS, METRICS, OPEN_METRICS, HISTORY, HEALTH, KINDS } kind_t;

//  What one viewer may see.
typedef struct {
    json_t *status;                     //  NULL: there was no answer yet
    int64_t at_ms;
    int64_t asked_ms;                   //  0: no question is out
    struct MHD_Response *responses [2][KINDS];  //  made of it, plain and compressed; NULL: not yet
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
    struct MHD_Daemon *daemon;
    struct MHD_Response *page;
    last_hour_t *last_hour;
    int64_t point_ms;                 //  of its last point
    int stop;                           //  eventfd
    bool is_short;                      //  a connection could not be accepted for want of descriptors
    pthread_t thread;
    view_t *views;
    request_t *waiting;
    peer_t *peers;                      //  all connections
};

const char *
http_server_library (void)
{
    return MHD_get_version ();
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

static const char *
s_tenant (const http_server_t *self, size_t viewer)
{
    return viewer? self->options.tenants [viewer - 1]: NULL;
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
        *tenant = s_tenant (self, request->viewer);
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

//  ---- the broker's thread

static void
s_ask (http_server_t *self, size_t viewer, int64_t now_ms)
{
    view_t *view = &self->views [viewer];
    if (view->asked_ms && now_ms - view->asked_ms < ASKED_MS)
        return;
    view->asked_ms = now_ms;
    status_feed_ask (self->options.feed, viewer);
}

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

static int64_t
s_day_ms (void)
{
    struct timespec time;
    clock_gettime (CLOCK_REALTIME, &time);
    return (int64_t) time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void
s_take_answers (http_server_t *self, int64_t now_ms)
{
    status_feed_look (self->options.feed);
    for (size_t viewer = 0; viewer <= self->options.tenant_count; viewer++) {
        json_t *status = status_feed_take (self->options.feed, viewer);
        if (!status)
            continue;
        view_t *view = &self->views [viewer];
        s_forget (view);
        view->status = status;
        view->at_ms = now_ms;
        view->asked_ms = 0;
        if (viewer == 0 && now_ms >= self->point_ms + LAST_HOUR_STEP_MS) {
            last_hour_add (self->last_hour, view->status, now_ms, s_day_ms ());
            self->point_ms = now_ms;
        }
    }
}

//  ---- requests

static const struct { const char *path; kind_t kind; } s_paths [] = {
    { "/status.json", STATUS }, { "/metrics", METRICS }, { "/history.json", HISTORY }, { "/healthz", HEALTH }
};

static bool
s_wants_open_metrics (struct MHD_Connection *connection)
{
    const char *accept = MHD_lookup_connection_value (connection, MHD_HEADER_KIND, "Accept");
    return accept && strstr (accept, "application/openmetrics-text");
}

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
    for (size_t place = 0; place < sizeof s_paths / sizeof *s_paths; place++)
        if (strcmp (path, s_paths [place].path) == 0)
            return s_paths [place].kind == METRICS && s_wants_open_metrics (connection)? OPEN_METRICS:
                s_paths [place].kind;
    return KINDS;
}

//  The viewer of the request; HTTP_ACCESS_DENIED, and it is answered.
static int
s_viewer (const http_server_t *self, struct MHD_Connection *connection, enum MHD_Result *result_p)
{
    int viewer = http_access_viewer (self->options.access,
        MHD_lookup_connection_value (connection, MHD_HEADER_KIND, "Authorization"),
        MHD_lookup_connection_value (connection, MHD_HEADER_KIND, "Host"));
    if (viewer != HTTP_ACCESS_DENIED)
        return viewer;
    *result_p = http_access_wants_token (self->options.access)?
        s_say (connection, MHD_HTTP_UNAUTHORIZED, "a token is wanted: `Authorization: Bearer TOKEN`, of the "
            "server's --http-tokens\n"):
        s_say (connection, MHD_HTTP_FORBIDDEN, "ask for localhost or 127.0.0.1, not for another name of this "
            "machine\n");
    return HTTP_ACCESS_DENIED;
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
    if (viewer == HTTP_ACCESS_DENIED)
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

//  libmicrohttpd counts from the last byte: a client that sends one now and then would keep its connection.
static void
s_drop_slow (http_server_t *self, int64_t now_ms)
{
    for (peer_t *peer = self->peers; peer; peer = peer->next)
        if (now_ms - peer->begun_ms >= REQUEST_MS)
            s_drop (peer, now_ms);
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
    int listener = http_access_socket (self->options.access);
    //  The rest stays in the listener, which stays readable: those that are open have their turn.
    for (size_t count = 0; count < CONNECTIONS_MAX; count++) {
        struct sockaddr_storage address;
        socklen_t size = sizeof address;
        int socket = (int) syscall (SYS_accept4, listener, &address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
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
        [LISTENER] = { .fd = http_access_socket (self->options.access), .events = POLLIN },
        [ANSWERED] = { .fd = status_feed_answered (self->options.feed), .events = POLLIN },
        [STOP] = { .fd = self->stop, .events = POLLIN }
    };
    while (!(items [STOP].revents & POLLIN)) {
        int64_t now_ms = clock_now_ms ();
        s_take_answers (self, now_ms);
        if (now_ms >= self->point_ms + LAST_HOUR_STEP_MS)
            s_ask (self, 0, now_ms);
        s_resume (self, now_ms);
        s_drop_slow (self, now_ms);
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

static int
s_start (http_server_t *self)
{
    size_t viewers = self->options.tenant_count + 1;
    self->views = calloc (viewers, sizeof *self->views);
    self->last_hour = last_hour_new ();
    self->page = s_response ((char *) page_text, page_bytes, MHD_RESPMEM_PERSISTENT,
        "text/html; charset=utf-8");
    if (!self->views || !self->last_hour || !self->page)
        return -ENOMEM;
    self->stop = eventfd (0, EFD_CLOEXEC);
    if (self->stop < 0)
        return -errno;
    self->point_ms = clock_now_ms () - LAST_HOUR_STEP_MS;
    self->daemon = MHD_start_daemon (MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0,
        NULL, NULL, s_answer, self,
        MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned) CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) TIMEOUT_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) REQUEST_BYTES_MAX,
        MHD_OPTION_NOTIFY_COMPLETED, s_end_request, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, s_note_peer, self, MHD_OPTION_END);
    if (!self->daemon)
        return errno? -errno: -ENOMEM;
    int rc = pthread_create (&self->thread, NULL, s_run, self);
    if (rc == 0)
        pthread_setname_np (self->thread, "http");
    return -rc;
}

static void
s_clear (http_server_t *self)
{
    if (self->daemon)
        MHD_stop_daemon (self->daemon);
    for (size_t viewer = 0; self->views && viewer <= self->options.tenant_count; viewer++)
        s_forget (&self->views [viewer]);
    if (self->page)
        MHD_destroy_response (self->page);
    last_hour_destroy (&self->last_hour);
    if (self->stop >= 0)
        close (self->stop);
    free (self->views);
    free (self);
}

int
http_server_start (http_server_t **self_p, const http_server_options_t *options)
{
    http_server_t *self = calloc (1, sizeof *self);
    *self_p = NULL;
    if (!self)
        return -ENOMEM;
    self->options = *options;
    self->stop = -1;
    int rc = s_start (self);
    if (rc)
        s_clear (self);
    else
        *self_p = self;
    return rc;
}

void
http_server_stop (http_server_t **self_p)
{
    http_server_t *self = *self_p;
    if (!self)
        return;
    ssize_t written = write (self->stop, &(uint64_t) { 1 }, sizeof (uint64_t));
    (void) written;
    pthread_join (self->thread, NULL);
    s_clear (self);
    *self_p = NULL;
}
