/*  http_server -- what a server says of itself, over HTTP: for people, for Prometheus, for scripts.
 *
 *      /               a page to look at                   (no token: there is nothing of the server in it)
 *      /status.json    what `tureen status --json` says to this viewer
 *      /history.json   the last hour (last_hour.h); ?job=N: of one job
 *      /metrics        the same figures for Prometheus (metrics.h)
 *      /healthz        "ok" while the broker's thread answers  (no token)
 *
 *  happy path:     http_server_start .. requests .. http_server_stop
 *  failure modes:  a request that is none, or of more than some KiB: 4xx.  The broker's thread does not
 *                  answer within WAIT_MS, or WAITING_MAX requests (PROBES_MAX of /healthz) wait for it
 *                  already: 503.  More connections than CONNECTIONS_MAX: the oldest that does not wait
 *                  for the broker is closed.  A client that neither sends nor reads for TIMEOUT_S is
 *                  disconnected, and so is one that takes longer than REQUEST_MS for a request, with its
 *                  answer; also one that ends its connection together with a part of a request, which
 *                  libmicrohttpd 0.9.75 does not see earlier (it reads less than there is room for, and
 *                  waits for another edge of epoll).
 *
 *  One thread of its own does all of it, and asks the broker's thread by status_feed.h, of each view at most
 *  every FRESH_MS: so requests cost the broker an answer a second, however many they are.  An answer is made
 *  once for all requests, and once more compressed (gzip) for those that accept it, as Prometheus's and
 *  browsers' do.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H
#include <stddef.h>
#include "http_access.h"
#include "status_feed.h"

typedef struct http_server http_server_t;

typedef struct {
    const http_access_t *access;        //  lent, like the rest
    status_feed_t *feed;
    const char *const *tenants;         //  viewers from 1 on
    size_t tenant_count;
} http_server_options_t;

//  0; or -errno and *self_p NULL.
int http_server_start (http_server_t **self_p, const http_server_options_t *options);
//  Ends the thread; open connections are closed.
void http_server_stop (http_server_t **self_p);

//  "0.9.75"; static.
const char *http_server_library (void);

#endif
