/*  way_meter -- how long one more read by some way would take: bytes under way, over the rate measured.
 *
 *  A way is the store, or a peer.  Its rate is what came over the time in which something was under way, and
 *  recent seconds weigh most.  The reader's own queue is in the prediction: a way that looks quick but has a
 *  long queue is not (docs/cluster_cache.md).  Plain data, { 0 } at first; one owner.
 */
#ifndef WAY_METER_H
#define WAY_METER_H
#include <stdint.h>

typedef struct {
    uint64_t queued;                //  bytes under way
    uint64_t busy_since_ns;         //  since the last byte counted; if something is under way
    double bytes, seconds;          //  that came, and the busy time for them; both fade
} way_meter_t;

void way_meter_begin (way_meter_t *self, uint64_t bytes, uint64_t now_ns);
//  What was begun has ended, and so many bytes of it came.
void way_meter_end (way_meter_t *self, uint64_t begun, uint64_t came, uint64_t now_ns);
//  Seconds until so many more bytes would be here; 0: nothing was measured yet.
double way_meter_predict (const way_meter_t *self, uint64_t bytes, uint64_t now_ns);
//  Nothing is known of it any more.
void way_meter_forget (way_meter_t *self);

#endif
