/*  broker_drain -- the end of service.  */
#ifndef BROKER_DRAIN_H
#define BROKER_DRAIN_H
#include "broker_state.h"

//  Once a turn, if the broker drains: marks the jobs without an open epoch.  First in the next turn, when the
//  driver has carried out their last actions: ends them.
void drain_mark (broker_t *self);
void drain_end (broker_t *self);

#endif
