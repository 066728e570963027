/*  control -- a control connection to a server: requests that belong to no job, one after the other, each
 *  with its reply: STATUS, DRAIN, ADD, REMOVE.
 *
 *  Owner: one thread.
 */
#ifndef CONTROL_H
#define CONTROL_H
#include "address.h"
#include "dealer.h"
#include "tureen.h"

typedef struct {
    char address [ADDRESS_BYTES];       //  the caller's, resolved, before control_open
    void *context;
    dealer_t *dealer;                   //  the connection, which may be watched after the answer
    char how [ADDRESS_HOW_BYTES];       //  of address_look, if no server has answered
} control_t;

//  Connects to the address with the keys of the options.  0; or -errno with error filled.  control_close in
//  any case.
int control_open (control_t *self, const tureen_options_t *options, message_error_t *error) TUREEN_CHECKED;
//  Asks, with this JSON, and waits for an answer of the kind reply: its JSON, malloc'ed.  -ETIMEDOUT:
//  there is no server, -EAGAIN: none has answered in time; error is not filled.  Else -errno with error
//  filled; -EACCES: the server does not let us in, -ECONNREFUSED: it refuses.
int control_ask (control_t *self, wire_kind_t kind, const char *text, wire_kind_t reply, int timeout_ms,
    char **json_p, message_error_t *error) TUREEN_CHECKED;
void control_close (control_t *self);

#endif
