/*  http_access -- where the HTTP server listens, and which requests may look.
 *
 *  ADDRESS:PORT, PORT (of 127.0.0.1) or unix:PATH.  Tokens lie in a file that its owner alone may read, a
 *  line each: a tenant's name, or * for all that operators see, a blank, and the token, of 16 to 128
 *  characters.  '#' begins a comment.
 *
 *  Without tokens all that can connect see what operators see.  So they may be left out only on loopback of a
 *  server without tenants, and on a socket file, which is the server's user's.  On loopback the request's
 *  Host must then be this machine's: a web page that a browser of this machine shows could otherwise read it
 *  under a name of its own (DNS rebinding).
 *
 *  Any thread; nothing changes after http_access_open.
 */
#ifndef HTTP_ACCESS_H
#define HTTP_ACCESS_H
#include <stdbool.h>
#include <stddef.h>

typedef struct http_access http_access_t;

enum { HTTP_ACCESS_TOKEN_LEAST = 16, HTTP_ACCESS_TOKEN_MOST = 128, HTTP_ACCESS_DENIED = -1 };

typedef struct {
    const char *listen;                 //  lent
    const char *tokens;                 //  path of the file; NULL: none
    const char *const *tenants;         //  viewers from 1 on, by name; lent
    size_t tenant_count;
} http_access_options_t;

//  Reads the tokens, binds and listens.  0; or -errno, *self_p NULL and in error what is wrong, and the
//  remedy.
int http_access_open (http_access_t **self_p, const http_access_options_t *options, char *error,
    size_t error_bytes);
//  Closes the socket, and removes a socket file.
void http_access_close (http_access_t **self_p);

//  Listens; lent.
int http_access_socket (const http_access_t *self);
//  "http://127.0.0.1:9464/", for people; lent.
const char *http_access_url (const http_access_t *self);
//  The viewer of a request with these headers (NULL: not there); HTTP_ACCESS_DENIED: it may see nothing.
int http_access_viewer (const http_access_t *self, const char *authorization, const char *host);
//  Whether a token is wanted: then the page asks for one.
bool http_access_wants_token (const http_access_t *self);

#endif
