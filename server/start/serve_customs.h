/*  serve_customs -- the operations of the settings: started, announced, and their failures in the log.  */
#ifndef SERVE_CUSTOMS_H
#define SERVE_CUSTOMS_H
#include <stdbool.h>
#include <stdint.h>
#include "customs.h"
#include "log.h"
#include "options.h"

//  *customs_p: NULL if there are none.  False: the reason is on standard error.
bool serve_customs_open (customs_t **customs_p, const options_t *options);
//  Logs which have failed since it looked last.
void serve_customs_look (customs_t *customs, log_t *log, int64_t now_ms);

#endif
