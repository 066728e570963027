/*  watched_clock -- a clock that counts only the time in which its owner looks: since the look before, no
 *  longer than the owner meant to wait.
 *
 *  While the owner's thread stands still, answers lie unread, and that is no fault of the parts that sent
 *  them: so they are not late.
 *
 *  Owner: one thread.
 */
#ifndef WATCHED_CLOCK_H
#define WATCHED_CLOCK_H
#include <stdint.h>

typedef struct {
    uint64_t now_ns;                    //  its own time
    uint64_t seen_ns;                   //  the system's clock, when the owner looked last
} watched_clock_t;

static inline watched_clock_t
watched_clock_new (uint64_t system_ns)
{
    return (watched_clock_t) { .now_ns = system_ns, .seen_ns = system_ns };
}

//  The owner looks, having meant to wait at most pause_ns since it did before.
static inline void
watched_clock_look (watched_clock_t *self, uint64_t system_ns, uint64_t pause_ns)
{
    uint64_t passed_ns = system_ns - self->seen_ns;
    self->seen_ns = system_ns;
    self->now_ns += passed_ns < pause_ns? passed_ns: pause_ns;
}

static inline int64_t
watched_clock_ms (const watched_clock_t *self)
{
    return (int64_t) (self->now_ns / 1000000);
}

#endif
