/*  class_warning -- data sets of one server that look like splits of one set, and do not have the same
 *  classes: then one number may mean two classes, which no job can see.
 */
#ifndef CLASS_WARNING_H
#define CLASS_WARNING_H
#include <stddef.h>
#include "catalogue.h"

typedef struct {
    const char *name;
    const catalogue_t *catalogue;
} class_warning_set_t;

//  Is told two places of the list, and the sentence about them, which is lent for the call.
typedef struct {
    void (*tell) (void *context, size_t left, size_t right, const char *text);
    void *context;
} class_warning_listener_t;

//  Tells of each data set the classes of which differ from those of the first one before it that it shares at
//  least half of the classes of either with.
void class_warning_find (const class_warning_set_t *sets, size_t count,
    const class_warning_listener_t *listener);

#endif
