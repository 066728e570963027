#include "ranks_scene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

const char ranks_scene_run [] = "4b7c1d2e3f405162738495a6b7c8d9ea";

const simulated_job_t ranks_scene_job = { .batch_size = 2, .world_size = WORLD, .slots = SLOTS,
    .epochs = EPOCHS, .sample_us = 500,
    .rank_wait_seconds = WAIT, .run = ranks_scene_run, .job_name = "x", .uid = 7 };

simulation_options_t
ranks_scene_options (uint64_t seed)
{
    return (simulation_options_t) { .policy = seed % 2? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW,
        .seed = seed,
        .samples = SAMPLES, .cache_versions = 12, .workers = 2, .check = true };
}

simulation_t *
ranks_scene_begun (const simulated_job_t *job, uint64_t seed, size_t records)
{
    simulation_options_t options = ranks_scene_options (seed);
    simulation_t *simulation = simulation_new (&options);
    assert_int_equal (simulation_join (simulation, job), 0);
    while (simulation_records_sent (simulation, 0) < records)
        if (simulation_run (simulation, simulation_now_us (simulation) + 100))
            assert_true (simulation_records_sent (simulation, 0) >= records);
    return simulation;
}

void
ranks_scene_run_whole (simulation_t *simulation)
{
    if (!simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US))
        fail_msg ("it hangs");
}

void
ranks_scene_pass (simulation_t *simulation, int64_t us)
{
    simulation_run (simulation, simulation_now_us (simulation) + us);
}

int
ranks_scene_return (simulation_t *simulation, int client, size_t records)
{
    int back = -1;
    simulated_return_t how = { .records = records, .run = ranks_scene_run, .sample_us = 300 };
    broker_return_t answer = simulation_return (simulation, client, &how, &back);
    if (answer == BROKER_RETURN_REFUSED && strcmp (simulation_refusal (simulation)->code, "busy") == 0) {
        ranks_scene_pass (simulation, MS);
        answer = simulation_return (simulation, client, &how, &back);
    }
    if (answer != BROKER_RETURN_READY)
        fail_msg ("it is not taken: %s",
            answer == BROKER_RETURN_NONE? "no return": simulation_refusal (simulation)->message);
    return back;
}

void
ranks_scene_assert_ended (const simulation_t *simulation, int client, const char *expected,
    const char *fragment)
{
    const char *message, *reason = simulation_reason (simulation, client, &message);
    if (!reason || strcmp (reason, expected) != 0 || !strstr (message, fragment))
        fail_msg ("client %d: expected %s with '%s', got %s: %s", client, expected, fragment,
            reason? reason: "nothing", reason? message: "");
}

void
ranks_scene_assert_whole (const simulation_t *simulation, const simulated_job_t *job)
{
    size_t steps = (SAMPLES + job->batch_size * job->world_size - 1) / (job->batch_size * job->world_size);
    assert_int_equal (simulation_records_sent (simulation, 0), EPOCHS * (steps + 1));
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        int client = simulation_rank (simulation, 0, rank);
        assert_true (simulation_finished (simulation, client));
        assert_int_equal (simulation_records (simulation, client), EPOCHS * (steps + 1));
        for (size_t epoch = 0; epoch < simulation_epochs (simulation, client); epoch++)
            if (simulation_epoch (simulation, client, epoch)->ended)
                simulation_assert_permutation (simulation_epoch (simulation, client, epoch), 0, SAMPLES);
    }
}
