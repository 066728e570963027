/*  pipeline_order -- which operations may stand where in a list, wherever its share point is.  */
#ifndef PIPELINE_ORDER_H
#define PIPELINE_ORDER_H
#include "operation.h"

//  operations: a decode and what follows.  0, or -EINVAL with a complaint.
int pipeline_order_check (const operation_t *operations, size_t count, const complaint_t *complaint);

#endif
