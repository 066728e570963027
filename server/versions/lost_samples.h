/*  lost_samples -- the samples of which a version was evicted before a consumer used it: when the consumer
 *  draws one, it is prepared again, and status counts it (version_index.h).  Owner: the broker's
 *  thread.
 */
#ifndef LOST_SAMPLES_H
#define LOST_SAMPLES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

//  A bit each; samples from 64 x room on are not in it.  Empty when zeroed.
typedef struct {
    uint64_t *words;
    size_t room;
} lost_samples_t;

void lost_samples_add (lost_samples_t *set, uint32_t id);
//  Whether the sample was in the set.
bool lost_samples_remove (lost_samples_t *set, uint32_t id);
void lost_samples_clear (lost_samples_t *set);
void lost_samples_free (lost_samples_t *set);

#endif
