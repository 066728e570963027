/*  http_server -- what a server says of itself, over HTTP: for people, for Prometheus, for scripts.
 *
 *      /               a page to look at                   (no token: there is nothing of the server in it)
 *      /status.json    what `tureen status --json` says to this viewer
 *      /history.json   the last hour (last_hour.h); ?job=N: of one job
 *      /metrics        the same figures for Prometheus (metrics.h)
 *      /healthz        "ok" while the broker's thread answers  (no token)
 *
 *  happy path:     http_server_open: it listens .. http_server_start .. requests .. http_server_close
 *  failure modes:  a request that is none, or of more than some KiB: 4xx.  The broker's thread does not
 *                  answer within WAIT_MS, or WAITING_MAX requests (PROBES_MAX of /healthz) wait for it
 *                  already: 503.  More connections than CONNECTIONS_MAX: the oldest that does not wait
 *                  for the broker is closed.  A client that neither sends nor reads for TIMEOUT_S is
 *                  disconnected, and so is one that takes longer than REQUEST_MS for a request, with its
 *                  answer; also one that ends its connection together with a part of a request, which
 *                  libmicrohttpd 0.9.75 does not see earlier (it reads less than there is room for, and
 *                  waits for another edge of epoll).
 *
 *  It listens at ADDRESS:PORT, PORT (of 127.0.0.1) or unix:PATH.  Each *viewer* sees something else: number 0
 *  is the operators' view, the others are tenants'.  Tokens lie in a file that its owner alone may read, a
 *  line each: a tenant's name, or * for all that operators see, a blank, and the token, of 16 to 128
 *  characters.  '#' begins a comment.
 *
 *  Without tokens all that can connect see what operators see.  So they may be left out only on loopback of a
 *  server without tenants, and on a socket file, which is the server's user's.  On loopback the request's
 *  Host must then be this machine's: a web page that a browser of this machine shows could otherwise read it
 *  under a name of its own (DNS rebinding).
 *
 *  One thread of its own does all of it, and asks the broker's thread, of each view at most every FRESH_MS:
 *  so requests cost the broker an answer a second, however many they are.  An answer goes over as the tree
 *  that it is: as text it would be written in one thread, and parsed in the other.  Neither thread ever waits
 *  for the other: both hold a mutex for the time of a copied pointer.  A response is made once for all
 *  requests, and once more compressed (gzip) for those that accept it, as Prometheus's and browsers' do.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H
#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

typedef struct http_server http_server_t;

enum { HTTP_SERVER_TOKEN_LEAST = 16, HTTP_SERVER_TOKEN_MOST = 128, HTTP_SERVER_DENIED = -1 };

typedef struct {
    const char *listen;                 //  lent until http_server_open returns, as the next
    const char *tokens;                 //  path of the file; NULL: none
    const char *const *tenants;         //  viewers from 1 on, by name; lent until http_server_close
    size_t tenant_count;
} http_server_options_t;

//  Reads the tokens, binds and listens.  0; or -errno, *self_p NULL and in error what is wrong, and the
//  remedy.
int http_server_open (http_server_t **self_p, const http_server_options_t *options, char *error,
    size_t error_bytes);
//  Once.  0; or -errno.
int http_server_start (http_server_t *self);
//  Ends the thread; open connections are closed.  Closes the socket, and removes a socket file.
void http_server_close (http_server_t **self_p);

//  "http://127.0.0.1:9464/", for people; lent.
const char *http_server_url (const http_server_t *self);
//  The viewer of a request with these headers (NULL: not there); HTTP_SERVER_DENIED: it may see nothing.  Any
//  thread.
int http_server_viewer (const http_server_t *self, const char *authorization, const char *host);

//  ---- the broker's thread, from http_server_start on

//  A descriptor that is readable where there is a question.
int http_server_asked (const http_server_t *self);
//  The next viewer that is to be answered; false: none.
bool http_server_next (http_server_t *self, size_t *viewer_p);
//  status: the only reference to all of it, taken over.
void http_server_answer (http_server_t *self, size_t viewer, json_t *status);

#endif
