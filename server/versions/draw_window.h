/*  draw_window -- how many samples a job may have drawn that its client has not released; for the broker and
 *  for the simulators of bench/sim.
 *
 *  Under `follow` a job's window begins with a few batches and grows by a sample for every few released.  If
 *  a newcomer drew a whole window ahead of the others at once, its versions would be gone when the others
 *  need them, which costs up to a window of preparations; drawn gradually, others find them among the
 *  reusable versions (measured: bench/sampler_sim, --window).
 */
#ifndef DRAW_WINDOW_H
#define DRAW_WINDOW_H
#include <stdbool.h>
#include <stdint.h>

enum { DRAW_WINDOW_FIRST_BATCHES = 4, DRAW_WINDOW_RELEASES_A_SAMPLE = 12 };

//  whole: the window in the end; released: samples so far.
static inline uint64_t
draw_window (uint64_t whole, bool follows, uint32_t batch, uint64_t released)
{
    uint64_t grown = (uint64_t) DRAW_WINDOW_FIRST_BATCHES * batch + released / DRAW_WINDOW_RELEASES_A_SAMPLE;
    return follows && grown < whole? grown: whole;
}

#endif
