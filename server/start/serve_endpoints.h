/*  serve_endpoints -- where the settings say that a server listens: on ipc, on tcp, or on both.
 *
 *  With both, the kernel names the users on ipc and keys name those on tcp (gate.h), and all clients of this
 *  machine get their batches through the ring server beside the ipc socket.
 *
 *  Plain data; { 0 }: nothing is claimed.  Owner: the thread that starts and ends the server.
 */
#ifndef SERVE_ENDPOINTS_H
#define SERVE_ENDPOINTS_H
#include <stdbool.h>
#include "endpoint.h"
#include "options.h"

typedef struct {
    endpoint_t *ipc, *tcp;              //  NULL: not there; after a claim that succeeded, not both
} serve_endpoints_t;

//  Claims what options->listen names, for the clients that the options admit.  0; or as endpoint_claim, and
//  the reason is on standard error.
int serve_endpoints_claim (serve_endpoints_t *self, const options_t *options);
//  Whether another program has the port of tcp now; addresses that only ZeroMQ knows count as free.
bool serve_endpoints_is_port_taken (const serve_endpoints_t *self);
//  When all sockets listen.  False: the reason is on standard error.
bool serve_endpoints_share (const serve_endpoints_t *self);
void serve_endpoints_release (serve_endpoints_t *self);

//  For ZeroMQ's bind; NULL: not there.  Lent, as the ring server's path.
const char *serve_endpoints_ipc (const serve_endpoints_t *self);
const char *serve_endpoints_tcp (const serve_endpoints_t *self);
const char *serve_endpoints_ring_path (const serve_endpoints_t *self);

#endif
