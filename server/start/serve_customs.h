/*  serve_customs -- the operations of the settings: started, announced, and their failures in the log.  */
#ifndef SERVE_CUSTOMS_H
#define SERVE_CUSTOMS_H
#include <stdint.h>
#include "customs.h"
#include "log.h"
#include "options.h"

//  *customs_p: NULL if there are none.  end: a descriptor; readable, the server is to end.  0; -EINTR: it is;
//  or another -errno, and the reason is on standard error.
int serve_customs_open (customs_t **customs_p, const options_t *options, int end)
    __attribute__ ((warn_unused_result));
//  Logs which have failed, or changed, since it looked last.
void serve_customs_look (customs_t *customs, log_t *log, int64_t now_ms);

#endif
