#include "http_access.h"
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sodium.h>
#include <unistd.h>
#include "input.h"

enum { BACKLOG = 64, FILE_BYTES_MAX = 1 << 20, URL_BYTES = 128, HOST_BYTES = 64 };

typedef struct {
    char token [HTTP_ACCESS_TOKEN_MOST + 1];
    int viewer;
} grant_t;

struct http_access {
    int socket;
    char *path;                         //  of a socket file; NULL: tcp
    bool is_loopback;
    char url [URL_BYTES];
    char host [HOST_BYTES];             //  of the address; "": a socket file
    grant_t *grants;
    size_t grant_count;
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
s_viewer_of (const http_access_options_t *options, const char *name)
{
    if (strcmp (name, "*") == 0)
        return 0;
    for (size_t index = 0; index < options->tenant_count; index++)
        if (strcmp (options->tenants [index], name) == 0)
            return (int) index + 1;
    return HTTP_ACCESS_DENIED;
}

//  Neither the token nor a part of it is in an error.
static int
s_take_line (http_access_t *self, const http_access_options_t *options, char *line, size_t number,
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
    if (viewer == HTTP_ACCESS_DENIED)
        return s_fail (-EINVAL, error, error_bytes, "http-tokens: %s:%zu: no tenant has the name before the "
            "token; * is for operators", options->tokens, number);
    if (strlen (token) < HTTP_ACCESS_TOKEN_LEAST || strlen (token) > HTTP_ACCESS_TOKEN_MOST)
        return s_fail (-EINVAL, error, error_bytes, "http-tokens: %s:%zu: a token has %d to %d characters; "
            "`openssl rand -hex 24` makes one", options->tokens, number, HTTP_ACCESS_TOKEN_LEAST,
            HTTP_ACCESS_TOKEN_MOST);
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
s_read_tokens (http_access_t *self, const http_access_options_t *options, char *error, size_t error_bytes)
{
    struct stat status;
    char *text = NULL;
    size_t size;
    if (stat (options->tokens, &status) == 0 && status.st_mode & (S_IRWXG | S_IRWXO))
        return s_fail (-EACCES, error, error_bytes, "http-tokens: others may read %s: chmod 600 it",
            options->tokens);
    int rc = input_whole (options->tokens, FILE_BYTES_MAX, &text, &size);
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
s_listen_path (http_access_t *self, const char *path, char *error, size_t error_bytes)
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
s_listen_port (http_access_t *self, const char *text, char *error, size_t error_bytes)
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
s_open (http_access_t *self, const http_access_options_t *options, char *error, size_t error_bytes)
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

int
http_access_open (http_access_t **self_p, const http_access_options_t *options, char *error,
    size_t error_bytes)
{
    http_access_t *self = calloc (1, sizeof *self);
    *self_p = NULL;
    if (!self)
        return s_fail (-ENOMEM, error, error_bytes, "no memory for the HTTP server");
    self->socket = -1;
    int rc = s_open (self, options, error, error_bytes);
    if (rc)
        http_access_close (&self);
    *self_p = self;
    return rc;
}

void
http_access_close (http_access_t **self_p)
{
    http_access_t *self = *self_p;
    if (!self)
        return;
    if (self->socket >= 0)
        close (self->socket);
    if (self->path)
        unlink (self->path);
    free (self->path);
    if (self->grants)
        sodium_memzero (self->grants, self->grant_count * sizeof *self->grants);
    free (self->grants);
    free (self);
    *self_p = NULL;
}

int
http_access_socket (const http_access_t *self)
{
    return self->socket;
}

const char *
http_access_url (const http_access_t *self)
{
    return self->url;
}

bool
http_access_wants_token (const http_access_t *self)
{
    return self->grant_count > 0;
}

//  ---- requests

//  "localhost:9464", "127.0.0.1", "[::1]:9464": a name that no other machine's owner can give.
static bool
s_is_this_machine (const http_access_t *self, const char *host)
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
http_access_viewer (const http_access_t *self, const char *authorization, const char *host)
{
    static const char scheme [] = "Bearer ";
    if (self->grant_count == 0)
        return self->path || s_is_this_machine (self, host)? 0: HTTP_ACCESS_DENIED;
    if (!authorization || strncasecmp (authorization, scheme, strlen (scheme)) != 0)
        return HTTP_ACCESS_DENIED;
    char token [HTTP_ACCESS_TOKEN_MOST + 1] = "";
    const char *given = authorization + strlen (scheme);
    if (strlen (given) > HTTP_ACCESS_TOKEN_MOST)
        return HTTP_ACCESS_DENIED;
    memcpy (token, given, strlen (given));
    //  All of them, in a time that tells nothing.
    int viewer = HTTP_ACCESS_DENIED;
    for (size_t index = 0; index < self->grant_count; index++)
        if (sodium_memcmp (token, self->grants [index].token, sizeof token) == 0)
            viewer = self->grants [index].viewer;
    sodium_memzero (token, sizeof token);
    return viewer;
}
