/*  serve_tenants -- the tenants of the settings become the broker's, and their users the callers that the
 *  server knows.  */
#ifndef SERVE_TENANTS_H
#define SERVE_TENANTS_H
#include "options.h"
#include "tenants.h"

//  The broker must have its data sets and no jobs.  broker and keys (NULL: none) are lent; the caller
//  destroys the result.
//  NULL: no memory.
tenants_t *serve_tenants (broker_t *broker, const options_t *options, const keys_t *keys)
    __attribute__ ((warn_unused_result));

#endif
