/*  ranks_scene -- a simulated job of three ranks and two epochs, for tests in which ranks are lost, leave or
 *  come back.
 */
#ifndef RANKS_SCENE_H
#define RANKS_SCENE_H
#include "dataset.h"
#include "simulation.h"

enum { SECOND_US = 1000000, MS = 1000, SAMPLES = 60, EPOCHS = 2, WORLD = 3, SLOTS = 3, WAIT = 10 };

extern const char ranks_scene_run [];
//  Steps of six samples, ten an epoch.
extern const simulated_job_t ranks_scene_job;

simulation_options_t ranks_scene_options (uint64_t seed);
//  A job that has sent at least so many records.
simulation_t *ranks_scene_begun (const simulated_job_t *job, uint64_t seed, size_t records);
void ranks_scene_run_whole (simulation_t *simulation);
void ranks_scene_pass (simulation_t *simulation, int64_t us);
//  Comes back where it has got so many records, when what was known of it is gone.
int ranks_scene_return (simulation_t *simulation, int client, size_t records);

void ranks_scene_assert_ended (const simulation_t *simulation, int client, const char *expected,
    const char *fragment);
//  All ranks have got all.
void ranks_scene_assert_whole (const simulation_t *simulation, const simulated_job_t *job);

#endif
