/*  broker_drain -- the end of service.  */
#ifndef BROKER_DRAIN_H
#define BROKER_DRAIN_H
#include "broker_state.h"

//  Once a turn, if the broker drains: marks the jobs of which nothing is open any more; and before anything
//  else of the next turn, when what they were sent has been carried out, ends them.
void drain_mark (broker_t *self);
void drain_end (broker_t *self);

#endif
