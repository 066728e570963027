/*  drain -- the end of service.  */
#ifndef DRAIN_H
#define DRAIN_H
#include "broker.h"

//  Once a turn, if the broker drains: marks the jobs without an open epoch.  First in the next turn, when the
//  driver has carried out their last actions: ends them.
void drain_mark (broker_t *self);
void drain_end (broker_t *self);

#endif
