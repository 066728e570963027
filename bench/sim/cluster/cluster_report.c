#include "cluster_report.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>

//  Blocks as a share of the data.
static double
s_share (const cluster_plan_t *plan, double blocks)
{
    return blocks / cluster_plan_blocks (plan);
}

static double
s_ratio (double most, double mean)
{
    return mean > 0? most / mean: NAN;
}

//  ---- for people

static void
s_print_ratio (double ratio)
{
    if (isnan (ratio))
        printf ("| - ");
    else
        printf ("| %.2f ", ratio);
}

static void
s_print_epoch (const cluster_plan_t *plan, uint32_t number, const cluster_epoch_t *epoch)
{
    double gigabytes = plan->block / 1e9;
    printf ("| %u | %u | %.1f | %.1f | %.1f | %.3f | %.3f | %.3f ", number + 1, epoch->nodes, epoch->seconds,
        epoch->node_seconds, (double) epoch->store * gigabytes, s_share (plan, (double) epoch->store),
        s_share (plan, (double) epoch->least), s_share (plan, (double) epoch->alone));
    printf ("| %.1f | %.1f | %.2f ", (double) epoch->local * gigabytes, (double) epoch->peers * gigabytes,
        epoch->out_mean * gigabytes);
    s_print_ratio (s_ratio (epoch->out_max, epoch->out_mean));
    s_print_ratio (s_ratio (epoch->in_max, epoch->in_mean));
    s_print_ratio (epoch->homed_ratio);
    printf ("| %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " |\n", epoch->refused, epoch->absent,
        epoch->bypassed, epoch->lost);
}

void
cluster_report_table (const cluster_plan_t *plan, uint64_t seed, const cluster_epoch_t *epochs)
{
    printf ("%u nodes, %s; %u blocks of %.0f bytes, %u a cache; %u job%s; seed %" PRIu64 "\n\n", plan->nodes,
        plan->peers == CLUSTER_HOMES? "homes": "no peers", cluster_plan_blocks (plan), plan->block,
        cluster_plan_capacity (plan, 0), plan->jobs, plan->jobs == 1? "": "s", seed);
    printf ("| epoch | nodes | seconds | of a node | GB from the store | of the data | least | alone "
        "| GB local | GB from peers | GB out of a node | out max/mean | in max/mean | homes max/mean "
        "| refused | absent | not asked | lost |\n|");
    for (int column = 0; column < 18; column++)
        printf (" --- |");
    printf ("\n");
    for (uint32_t epoch = 0; epoch < plan->epochs; epoch++)
        s_print_epoch (plan, epoch, &epochs [epoch]);
}

//  ---- JSON

//  What cannot be said is null.
static json_t *
s_number (double value)
{
    return isfinite (value)? json_real (value): json_null ();
}

static json_t *
s_json_epoch (const cluster_plan_t *plan, const cluster_epoch_t *epoch)
{
    const struct { const char *name; uint64_t blocks; } counts [] = {
        { "store_bytes", epoch->store }, { "least_bytes", epoch->least }, { "alone_bytes", epoch->alone },
        { "read_bytes", epoch->reads }, { "local_bytes", epoch->local }, { "peer_bytes", epoch->peers },
        { "direct_bytes", epoch->direct }, { "handed_over_bytes", epoch->handed }
    }, requests [] = {
        { "refused", epoch->refused }, { "absent", epoch->absent }, { "not_asked", epoch->bypassed },
        { "lost", epoch->lost }, { "nodes", epoch->nodes }
    };
    json_t *object = json_object ();
    for (size_t at = 0; at < sizeof counts / sizeof *counts; at++)
        json_object_set_new (object, counts [at].name,
            json_integer ((json_int_t) ((double) counts [at].blocks * plan->block)));
    for (size_t at = 0; at < sizeof requests / sizeof *requests; at++)
        json_object_set_new (object, requests [at].name, json_integer ((json_int_t) requests [at].blocks));
    json_object_set_new (object, "seconds", s_number (epoch->seconds));
    json_object_set_new (object, "node_seconds", s_number (epoch->node_seconds));
    json_object_set_new (object, "out_mean_bytes", s_number (epoch->out_mean * plan->block));
    json_object_set_new (object, "out_max_bytes", s_number (epoch->out_max * plan->block));
    json_object_set_new (object, "in_mean_bytes", s_number (epoch->in_mean * plan->block));
    json_object_set_new (object, "in_max_bytes", s_number (epoch->in_max * plan->block));
    json_object_set_new (object, "homes_max_over_mean", s_number (epoch->homed_ratio));
    return object;
}

void
cluster_report_json (const cluster_plan_t *plan, uint64_t seed, const cluster_epoch_t *epochs)
{
    json_t *object = json_object (), *list = json_array ();
    for (uint32_t epoch = 0; epoch < plan->epochs; epoch++)
        json_array_append_new (list, s_json_epoch (plan, &epochs [epoch]));
    json_object_set_new (object, "nodes", json_integer (plan->nodes));
    json_object_set_new (object, "jobs", json_integer (plan->jobs));
    json_object_set_new (object, "peers", json_string (plan->peers == CLUSTER_HOMES? "homes": "none"));
    json_object_set_new (object, "blocks", json_integer (cluster_plan_blocks (plan)));
    json_object_set_new (object, "block_bytes", json_real (plan->block));
    json_object_set_new (object, "seed", json_integer ((json_int_t) seed));
    json_object_set_new (object, "epochs", list);
    char *text = json_dumps (object, JSON_INDENT (2) | JSON_REAL_PRECISION (8));
    assert (text);
    printf ("%s\n", text);
    free (text);
    json_decref (object);
}
