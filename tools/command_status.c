//  `tureen status`: the data sets and jobs of a running server, and how much it shared.

#include "command.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <jansson.h>
#include "answer.h"
#include "clock.h"
#include "complain.h"
#include "option.h"
#include "tureen.h"
#include "words.h"

enum { TIMEOUT_MS = 5000, WAITED_BYTES = 80, TENANT_SHOWN_BYTES = 16,
    SENTENCE_BYTES = 1024, PAUSE_NS = 100000000 };

static const char *
s_plural (const json_t *object, const char *key)
{
    return plural ((uint64_t) answer_real (object, key));
}

//  The names of a list from `first` on, if there are any.
static void
s_show_names (const char *before, const json_t *names, size_t first)
{
    for (size_t index = first; index < json_array_size (names); index++)
        printf ("%s%s", index == first? before: ", ", json_string_value (json_array_get (names, index)));
}

//  Why nothing comes of it, or not all.
static void
s_show_trouble (const json_t *trouble)
{
    if (!json_is_object (trouble))
        return;
    printf ("  %s: %s; for %.0f s now, tried again for %.0f s\n",
        json_is_true (json_object_get (trouble, "still"))? "stands still": "some reads fail",
        answer_text (trouble, "reason"), answer_real (trouble, "seconds"),
        answer_real (trouble, "patience"));
}

//  Of a pack or of objects in a store: from where their bytes came.
static void
s_show_levels (const json_t *pack)
{
    if (answer_real (pack, "gets") == 0 && answer_real (pack, "block_cache_bytes") == 0
        && answer_real (pack, "peer_bytes") == 0)
        return;
    printf ("  ");
    if (json_is_number (json_object_get (pack, "memory_bytes")))
        printf ("%.1f MB were in memory; ", answer_real (pack, "memory_bytes") / 1e6);
    printf ("from the %s %.1f MB", answer_real (pack, "gets") > 0? "store": "source", answer_real (pack,
        "source_bytes") / 1e6);
    if (answer_real (pack, "gets") > 0)
        printf (" by %.0f GET%s of %.1f s in all", answer_real (pack, "gets"), s_plural (pack, "gets"),
            answer_real (pack, "source_seconds"));
    if (answer_real (pack, "slow_gets") > 0)
        printf (" (%.0f of them far slower than others, given up and made again)", answer_real (pack,
            "slow_gets"));
    if (answer_real (pack, "ahead_bytes") > 0)
        printf (", of it %.1f MB fetched ahead", answer_real (pack, "ahead_bytes") / 1e6);
    if (json_is_number (json_object_get (pack, "block_cache_held")))
        printf ("; from the local disk %.1f MB in %.1f s, which has %.1f MB",
            answer_real (pack, "block_cache_bytes") / 1e6, answer_real (pack, "block_cache_seconds"),
            answer_real (pack, "block_cache_held") / 1e6);
    if (answer_real (pack, "peer_bytes") > 0)
        printf ("; from other servers %.1f MB", answer_real (pack, "peer_bytes") / 1e6);
    printf ("\n");
}

//  Workers on other machines, a line each.
static void
s_show_remote_workers (const json_t *status)
{
    size_t index;
    const json_t *worker;
    json_array_foreach (json_object_get (status, "remote_workers"), index, worker) {
        printf ("worker %-12s %s, %.0f processor%s, %.0f samples/s, %.0f done, %.0f out, %.0f lost, "
            "%.0f late, %.0f wrong; %.1f MB sent, %.1f MB received", answer_text (worker, "name"),
            answer_text (worker, "state"),
            answer_real (worker, "processors"), s_plural (worker, "processors"), answer_real (worker, "rate"),
            answer_real (worker, "done"), answer_real (worker, "out"), answer_real (worker, "lost"),
            answer_real (worker, "late"), answer_real (worker, "wrong"),
            answer_real (worker, "bytes_sent") / 1e6, answer_real (worker, "bytes_received") / 1e6);
        printf ("%s%s\n", *answer_text (worker, "reason")? ": ": "", answer_text (worker, "reason"));
    }
}

//  Operations of the operator's own, a line each.
static void
s_show_operations (const json_t *status)
{
    size_t index;
    const json_t *operation;
    json_array_foreach (json_object_get (status, "operations"), index, operation) {
        double calls = answer_real (operation, "calls");
        printf ("operation %-12s %.0f process%s, %.0f call%s", answer_text (operation, "name"),
            answer_real (operation, "processes"), answer_real (operation, "processes") == 1? "": "es", calls,
            s_plural (operation, "calls"));
        if (calls > 0)
            printf (" of %.1f ms", 1e3 * answer_real (operation, "seconds") / calls);
        printf (", %.0f failed, %.0f restart%s%s%s%s%s\n", answer_real (operation, "failures"),
            answer_real (operation, "restarts"), s_plural (operation, "restarts"),
            *answer_text (operation, "changed")? "; ": "", answer_text (operation, "changed"),
            *answer_text (operation, "last_failure")? "; the last failure: ": "",
            answer_text (operation, "last_failure"));
    }
}

//  The other servers with which this one keeps blocks of stores, a line each.
static void
s_show_members (const json_t *cluster)
{
    size_t index;
    const json_t *member;
    if (!json_is_object (cluster))
        return;
    printf ("member %s of a cluster (%s)", answer_text (cluster, "member"),
        answer_text (cluster, "members_from"));
    const json_t *given = json_object_get (cluster, "given");
    if (!json_is_true (json_object_get (cluster, "registered")))
        printf ("; others cannot find it");
    printf ("; gave %.1f MB to others%s%s\n", answer_real (given, "bytes") / 1e6,
        *answer_text (cluster, "trouble")? "; ": "", answer_text (cluster, "trouble"));
    json_array_foreach (json_object_get (cluster, "members"), index, member)
        if (strcmp (answer_text (member, "state"), "this") != 0)
            printf ("  %s: %s, home of %.0f %%, gave %.1f MB in %.0f answers, %.0f late, %.0f damaged\n",
                answer_text (member, "member"), answer_text (member, "state"),
                100 * answer_real (member, "homes"), answer_real (member, "bytes") / 1e6,
                answer_real (member, "blocks"), answer_real (member, "late"),
                answer_real (member, "damaged"));
}

//  How a pack is read, and what that came to.
static void
s_show_pack (const json_t *pack)
{
    if (!json_is_object (pack))
        return;
    if (!json_is_number (json_object_get (pack, "reads"))) {        //  as a tenant is told
        printf ("  a pack, %s\n", answer_text (pack, "policy"));
        return;
    }
    printf ("  a pack, %s in pieces of %.0f\n", answer_text (pack, "policy"), answer_real (pack,
        "piece_samples"));
    printf ("  resident %.0f sample%s, %.1f of %.1f MB; pass %.0f; %.1f MB read for %.1f MB handed to "
        "workers",
        answer_real (pack, "resident_samples"), s_plural (pack, "resident_samples"),
        answer_real (pack, "resident_bytes") / 1e6, answer_real (pack, "resident_bytes_max") / 1e6,
        answer_real (pack, "passes"), answer_real (pack, "bytes_read") / 1e6, answer_real (pack,
        "bytes_handed") / 1e6);
    if (json_is_number (json_object_get (pack, "read_amplification")))
        printf (" (%.3f)", answer_real (pack, "read_amplification"));
    printf ("\n");
    s_show_levels (pack);
}

//  Of a folder's copy on the local disk.
static void
s_show_pieces (const json_t *pieces)
{
    if (!json_is_object (pieces))
        return;
    printf ("  kept on the local disk, and read from there in pieces for %.0f s\n", answer_real (pieces,
        "since_seconds"));
}

//  What of a data set stays in memory.
static void
s_show_pins (const json_t *dataset)
{
    char words [SENTENCE_BYTES];
    answer_memory_dataset (dataset, words, sizeof words);
    if (*words)
        printf ("  %s\n", words);
}

//  "      in epoch 3, 54 % of the bytes read for it came from pins, about 4.1 s of reading saved".
static void
s_show_reads (const json_t *status, const json_t *job)
{
    char words [SENTENCE_BYTES];
    answer_memory_job (status, job, words, sizeof words);
    if (*words)
        printf ("      %s\n", words);
}

static void
s_show_datasets (const json_t *status)
{
    size_t index, place;
    const json_t *dataset, *bad, *warning;
    json_array_foreach (json_object_get (status, "datasets"), index, dataset) {
        bool is_fatal = strcmp (answer_text (dataset, "on_bad"), "fail") == 0;
        printf ("data set %-12s %.0f sample%s", answer_text (dataset, "name"), answer_real (dataset,
            "samples"),
            s_plural (dataset, "samples"));
        if (answer_real (dataset, "classes") > 0)
            printf (", %.0f class%s", answer_real (dataset, "classes"),
                plural_es ((uint64_t) answer_real (dataset, "classes")));
        s_show_names (", labels ", json_object_get (dataset, "labels"), 0);
        s_show_names (", fields ", json_object_get (dataset, "fields"), 1);
        printf (", %.1f MB, %.0f unreadable%s", answer_real (dataset, "bytes") / 1e6,
            answer_real (dataset, "bad_samples"), is_fatal? " (which end jobs)": "");
        printf ("%s%s\n", *answer_text (dataset, "path")? ", ": "", answer_text (dataset, "path"));
        json_array_foreach (json_object_get (dataset, "warnings"), place, warning)
            printf ("  warning: %s\n", json_string_value (warning));
        s_show_trouble (json_object_get (dataset, "trouble"));
        s_show_pack (json_object_get (dataset, "pack"));
        s_show_pieces (json_object_get (dataset, "pieces"));
        s_show_levels (json_object_get (dataset, "objects"));
        s_show_pins (dataset);
        answer_tree_print (status, dataset);
        json_array_foreach (json_object_get (dataset, "bad"), place, bad)
            printf ("  unreadable: id %.0f, %s\n", answer_real (bad, "id"), answer_text (bad, "reason"));
    }
}

//  "decode 71 %, client 29 %": what a job's time went to, most first, from one percent on.
static const char *
s_waited (const json_t *waits, char text [WAITED_BYTES])
{
    double all = 0;
    bool is_told [ANSWER_WAITS] = { false };
    size_t used = 0;
    for (int kind = 0; kind < ANSWER_WAITS; kind++)
        all += answer_real (waits, answer_waits [kind]);
    text [0] = 0;
    for (int turn = 0; turn < ANSWER_WAITS && all > 0; turn++) {
        int most = -1;
        for (int kind = 0; kind < ANSWER_WAITS; kind++)
            if (!is_told [kind] && (most < 0 || answer_real (waits,
                answer_waits [kind]) > answer_real (waits, answer_waits [most])))
                most = kind;
        is_told [most] = true;
        double percent = 100 * answer_real (waits, answer_waits [most]) / all;
        if (percent >= 1)
            used += (size_t) snprintf (text + used, WAITED_BYTES - used, "%s%s %.0f %%", used? ", ": "",
                answer_waits [most], percent);
    }
    return text;
}

//  The shared part of a job's samples: other jobs used their versions, too.
static const char *
s_shared (const json_t *sharing, char text [16])
{
    double places = answer_real (sharing, "places");
    snprintf (text, 16, places > 0? "%.0f %%": "-", places > 0? 100 * answer_real (sharing,
        "shared") / places: 0);
    return text;
}

//  "      a pool of its own: 120 samples, 1.3 of 4.5 MB, in pieces of 4".
static void
s_show_tier (const json_t *tier)
{
    if (json_is_object (tier))
        printf ("      a pool of its own: %.0f samples, %.1f of %.1f MB, in pieces of %.0f\n",
            answer_real (tier, "resident_samples"),
            answer_real (tier, "resident_bytes") / 1e6, answer_real (tier, "resident_bytes_max") / 1e6,
            answer_real (tier, "piece_samples"));
}

//  "      rank 2 is behind: the others waited up to 31 % of the time for it": the one that waited the least
//  for others, where that is much.
static void
s_show_slow_rank (const json_t *ranks)
{
    static const double much = 0.1;
    size_t index;
    const json_t *rank, *waited;
    double least = 0, most = 0, slow = 0;
    json_array_foreach (ranks, index, rank) {
        const json_t *waits = json_object_get (rank, "waits");
        double all = 0, part = answer_real (waits, "other_rank");
        const char *cause;
        json_object_foreach ((json_t *) waits, cause, waited)
            all += json_number_value (waited);
        part = all > 0? part / all: 0;
        if (index == 0 || part < least) {
            least = part;
            slow = answer_real (rank, "rank");
        }
        most = part > most? part: most;
    }
    if (most - least >= much)
        printf ("      rank %.0f is behind: the others waited up to %.0f %% of the time for it\n", slow,
            100 * (most - least));
}

//  "      4 ranks: all here", or what is not so.
static void
s_show_ranks (const json_t *ranks)
{
    size_t index, odd = 0;
    const json_t *rank;
    if (!json_is_array (ranks))
        return;
    printf ("      %zu ranks:", json_array_size (ranks));
    json_array_foreach (ranks, index, rank) {
        double lacks = answer_real (rank, "lacks_steps");
        bool is_here = strcmp (answer_text (rank, "state"), "here") == 0;
        if (is_here && lacks <= 0)
            continue;
        printf ("%s rank %.0f %s", odd++? ",": "", answer_real (rank, "rank"), answer_text (rank, "state"));
        if (lacks > 0)
            printf (" (lacks %.0f step%s)", lacks, plural ((uint64_t) lacks));
    }
    printf ("%s\n", odd == 0? " all here": odd < index? ", the others here": "");
    s_show_slow_rank (ranks);
}

//  "a thread is in one task for 23 s: private stage of sample 17 of data set 'a', for job 5", a line each.
static void
s_show_long_tasks (const json_t *status)
{
    size_t index;
    const json_t *task;
    json_array_foreach (json_object_get (status, "long_tasks"), index, task) {
        printf ("a thread is in one task for %.0f s: ", answer_real (task, "seconds"));
        if (!*answer_text (task, "dataset"))
            printf ("an explanation, or the ids of a join");
        else
            printf ("%s stage of sample %.0f of data set '%s'", answer_text (task, "stage"),
                answer_real (task, "sample"), answer_text (task, "dataset"));
        if (*answer_text (task, "operation"))
            printf (", with operation '%s'", answer_text (task, "operation"));
        if (json_is_number (json_object_get (task, "job")))
            printf (", for job %.0f", answer_real (task, "job"));
        if (*answer_text (task, "tenant"))
            printf (", of tenant '%s'", answer_text (task, "tenant"));
        printf ("\n");
    }
}

//  Jobs that are not there yet.
static void
s_show_rendezvous (const json_t *status)
{
    size_t index, place;
    const json_t *job, *rank;
    json_array_foreach (json_object_get (status, "gathering"), index, job) {
        const json_t *missing = json_object_get (job, "missing");
        printf ("job '%s' waits for %zu of %.0f ranks, for %.0f s more:", answer_text (job, "job"),
            json_array_size (missing), answer_real (job, "world_size"), answer_real (job, "left"));
        json_array_foreach (missing, place, rank)
            printf ("%s %.0f", place? ",": "", json_number_value (rank));
        printf ("\n");
    }
}

static bool
s_has (const json_t *object, const char *key)
{
    return json_is_number (json_object_get (object, key));
}

//  What there is room for: the longest number, and tenants where there are any to be told.
typedef struct {
    int number;
    int tenant;                         //  0: no such column
} columns_t;

static columns_t
s_columns (const json_t *status)
{
    columns_t columns = { .number = 5 };
    size_t index;
    const json_t *job;
    json_array_foreach (json_object_get (status, "jobs"), index, job) {
        int number = snprintf (NULL, 0, "%.0f", answer_real (job, "job"));
        int tenant = (int) strnlen (answer_text (job, "tenant"), TENANT_SHOWN_BYTES);
        columns.number = number > columns.number? number: columns.number;
        columns.tenant = tenant > columns.tenant? tenant: columns.tenant;
    }
    int title = (int) strlen ("tenant");
    columns.tenant = columns.tenant && columns.tenant < title? title: columns.tenant;
    return columns;
}

//  A job's number and its tenant, or what stands above them.
static void
s_show_owner (columns_t columns, const char *number, const char *tenant)
{
    printf ("%*s ", columns.number, number);
    if (columns.tenant)
        printf ("%-*.*s ", columns.tenant, columns.tenant, tenant);
}

static void
s_show_jobs (const json_t *status)
{
    size_t index;
    const json_t *job;
    columns_t columns = s_columns (status);
    if (json_array_size (json_object_get (status, "jobs")) == 0)
        printf ("no jobs\n");
    else {
        s_show_owner (columns, "job", "tenant");
        printf ("%-14s %-12s %-8s %-7s %6s %16s %10s %9s %7s  %-10s  %s\n", "name", "data set", "order",
            "memory",
            "epoch", "of this epoch", "consumed", "samples/s", "shared", "waiting on", "waited for");
    }
    json_array_foreach (json_object_get (status, "jobs"), index, job) {
        char share [40], number [32];
        //  A server of an earlier version tells of what it sent only.
        bool tells = s_has (job, "epoch_consumed");
        snprintf (share, sizeof share, "%.0f/%.0f", answer_real (job,
            tells? "epoch_consumed": "epoch_delivered"),
            answer_real (job, "epoch_samples"));
        char waited [WAITED_BYTES], shared [16];
        snprintf (number, sizeof number, "%.0f", answer_real (job, "job"));
        s_show_owner (columns, number, answer_text (job, "tenant"));
        printf ("%-14.14s %-12.12s %-8s %-7s %6.0f %16s %10.0f %9.1f %7s  %-10s  %s\n",
            answer_text (job, "name"), answer_text (job, "dataset"), answer_text (job, "order"),
            answer_text (job, "transport"),
            answer_real (job, tells? "consumed_epoch": "epoch"), share,
            answer_real (job, tells? "consumed_samples": "delivered_samples"), answer_real (job, "rate"),
            s_shared (json_object_get (job, "sharing"), shared), answer_text (job, "waiting_on"),
            s_waited (json_object_get (job, "waits"), waited));
        s_show_ranks (json_object_get (job, "ranks"));
        s_show_tier (json_object_get (job, "tier"));
        s_show_reads (status, job);
    }
    if (index > 0)
        printf ("      (waited for, since its start: draw = jobs that may begin with it, read = bytes, "
            "memory = the prepared cache's,\n"
            "      decode = the shared stage, copy = its own stage into the batch, client = its loop)\n");
    s_show_rendezvous (status);
}

//  ", WHAT 12.0 of 64.0 MB": what of it is told.
static void
s_show_part (const json_t *tenant, const char *what, const char *used, const char *most)
{
    if (!s_has (tenant, used) && !s_has (tenant, most))
        return;
    printf (", %s", what);
    if (s_has (tenant, used))
        printf (" %.1f", answer_real (tenant, used) / 1e6);
    if (s_has (tenant, most))
        printf (s_has (tenant, used)? " of %.1f": " at most %.1f", answer_real (tenant, most) / 1e6);
    printf (" MB");
}

//  ", cache 12.0 of 64.0 MB", or without a limit, which its part is not, ", cache 70.0 MB (its part 64.0)".
static void
s_show_cache (const json_t *tenant)
{
    if (!json_is_false (json_object_get (tenant, "cache_is_limited")) || !s_has (tenant, "cache_bytes"))
        s_show_part (tenant, "cache", "cache_bytes", "cache_bytes_max");
    else
        printf (", cache %.1f MB (its part %.1f)", answer_real (tenant, "cache_bytes") / 1e6,
            answer_real (tenant, "cache_bytes_max") / 1e6);
}

//  ", evicted 12, prepared again 3, dropped unused 1": what there was of it.
static void
s_show_losses (const json_t *object)
{
    static const char *const keys [] = { "evictions", "prepared_again", "dropped_unused" };
    static const char *const names [] = { "evicted", "prepared again", "dropped unused" };
    for (size_t index = 0; index < sizeof keys / sizeof *keys; index++)
        if (answer_real (object, keys [index]) > 0)
            printf (", %s %.0f", names [index], answer_real (object, keys [index]));
}

//  What it was refused, the code beside the count.
static void
s_show_refusals (const json_t *rejection_log)
{
    const char *code, *before = "; refused: ";
    json_t *count;
    json_object_foreach ((json_t *) (uintptr_t) rejection_log, code, count) {
        printf ("%s%s %.0f", before, code, json_number_value (count));
        before = ", ";
    }
}

//  A tenant's share and use, to itself and to the operator.
static void
s_show_tenant (const json_t *tenant)
{
    if (!json_is_object (tenant))
        return;
    printf ("tenant %-12s weight %.0f, %.0f", answer_text (tenant, "name"), answer_real (tenant, "weight"),
        answer_real (tenant, "jobs"));
    if (s_has (tenant, "jobs_max"))
        printf (" of %.0f", answer_real (tenant, "jobs_max"));
    printf (" job%s", s_plural (tenant, s_has (tenant, "jobs_max")? "jobs_max": "jobs"));
    s_show_part (tenant, "batches", "batches_bytes", "batches_bytes_max");
    s_show_cache (tenant);
    s_show_losses (tenant);
    if (s_has (tenant, "worker_seconds"))
        printf (", %.1f s of workers", answer_real (tenant, "worker_seconds"));
    s_show_refusals (json_object_get (tenant, "refusals"));
    printf ("\n");
}

static void
s_show_tenants (const json_t *status)
{
    size_t index;
    const json_t *tenant;
    s_show_tenant (json_object_get (status, "tenant"));
    json_array_foreach (json_object_get (status, "tenants"), index, tenant)
        s_show_tenant (tenant);
}

//  How each is read, and what reads were found to cost there.
static void
s_show_devices (const json_t *status)
{
    size_t index, place, named;
    const json_t *device, *dataset, *name;
    json_array_foreach (json_object_get (status, "devices"), index, device) {
        printf ("device %s (", answer_text (device, "device"));
        named = 0;
        json_array_foreach (json_object_get (status, "datasets"), place, dataset) {
            size_t part;
            json_array_foreach (json_object_get (dataset, "devices"), part, name)
                if (strcmp (json_string_value (name), answer_text (device, "device")) == 0)
                    printf ("%s%s", named++? ", ": "", answer_text (dataset, "name"));
        }
        printf (") read by %s, %.0f at once; %s: %.0f us, %.0f MB/s", answer_text (device, "reading"),
            answer_real (device, "reads_max"),
            json_is_true (json_object_get (device, "measured"))? "measured": "assumed",
            answer_real (device, "latency_microseconds"), answer_real (device, "megabytes_per_second"));
        printf (" (%.0f reads seen)", answer_real (device, "observed_reads"));
        if (*answer_text (device, "proxy"))
            printf ("; through the proxy %s", answer_text (device, "proxy"));
        printf ("\n");
    }
}

//  The cache of object stores on the local disk.
static void
s_show_block_cache (const json_t *cache)
{
    if (!json_is_object (cache))
        return;
    const char *failure = answer_text (cache, "failure");
    printf ("cache on the local disk %.1f of %.1f MB, in %s", answer_real (cache, "bytes") / 1e6,
        answer_real (cache, "bytes_max") / 1e6, answer_text (cache, "folder"));
    printf ("%s%s%s\n", json_is_true (json_object_get (cache, "aside"))? "; not used now: its disk does not "
        "answer in time": "", *failure? "; not written any more: ": "", failure);
}

//  Totals over all users, shown only to users that may see everything.
static void
s_show_totals (const json_t *status)
{
    if (!s_has (status, "prepared"))
        return;
    printf ("prepared %.0f, delivered %.0f", answer_real (status, "prepared"), answer_real (status,
        "delivered"));
    if (json_is_number (json_object_get (status, "prepared_per_delivered")))
        printf (", prepared per delivered %.3f", answer_real (status, "prepared_per_delivered"));
    printf ("; cache hits %.0f\n", answer_real (status, "cache_hits"));
    printf ("cache %.1f of %.1f MB", answer_real (status, "cache_bytes") / 1e6,
        answer_real (status, "cache_bytes_max") / 1e6);
    s_show_losses (status);
    printf ("; rings %.1f MB, jobs %.1f of %.1f MB\n", answer_real (status, "ring_bytes") / 1e6,
        answer_real (status, "jobs_bytes") / 1e6, answer_real (status, "jobs_bytes_max") / 1e6);
    s_show_devices (status);
    s_show_remote_workers (status);
    s_show_operations (status);
    s_show_members (json_object_get (status, "cluster"));
    printf ("compressed samples %.1f of %.1f MB\n", answer_real (status, "raw_bytes") / 1e6,
        answer_real (status, "raw_bytes_max") / 1e6);
    s_show_block_cache (json_object_get (status, "block_cache"));
}

static void
s_show_end (const json_t *status)
{
    if (json_is_true (json_object_get (status, "draining")))
        printf ("takes no new jobs (tureen drain), and ends with the last that it has\n");
    const json_t *idle = json_object_get (status, "until_idle");
    if (json_is_number (json_object_get (idle, "left")))
        printf ("ends in %.0f s, unless a job comes\n", answer_real (idle, "left"));
    else
    if (json_is_object (idle))
        printf ("ends %.0f s after its last job\n", answer_real (idle, "seconds"));
}

static void
s_show (const json_t *status)
{
    printf ("tureen %s, up %.0f s", answer_text (status, "version"), answer_real (status, "uptime_seconds"));
    if (s_has (status, "cpu_seconds"))
        printf (", %.1f s of CPU", answer_real (status, "cpu_seconds"));
    if (answer_real (status, "restarts") > 0)
        printf (", restarted %.0f time%s", answer_real (status, "restarts"), s_plural (status, "restarts"));
    printf ("\n");
    char words [SENTENCE_BYTES];
    answer_memory_words (status, words, sizeof words);
    if (*words)
        printf ("%s\n", words);
    s_show_datasets (status);
    s_show_tenants (status);
    s_show_jobs (status);
    s_show_long_tasks (status);
    s_show_totals (status);
    s_show_end (status);
}

typedef struct {
    tureen_options_t server;
    bool as_json;
    double watch_seconds;               //  0: once
    double wait_seconds;                //  0: a server that is not there is no answer
} asked_t;

#define AT(member) OPTION_AT (asked_t, member)
static const option_row_t s_rows [] = {
    COMMAND_SERVER_ROWS (asked_t, server),
    { "json", NULL, AT (as_json), "one JSON object; docs/operations.md explains its keys" },
    { "watch", "[SECONDS]", AT (watch_seconds),
        "again and again, every 2 or so many seconds, until it is interrupted; with --json a line each.\n"
        "A server that is gone is looked for each time",
        .low = 0.1, .high = 86400, .expected = "0.1 to 86400 seconds", .absent = "2" },
    { "wait", "[SECONDS]", AT (wait_seconds),
        "look so long for a server that does not listen yet (60 seconds without a number): a server listens\n"
        "when it has listed its data",
        .low = 0.1, .high = 86400, .expected = "0.1 to 86400 seconds", .absent = "60" }
};

static const option_table_t s_table = { "tureen status", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: tureen status [--connect ENDPOINT] [--key PATH --server-key KEY] [--json] [--watch [SECONDS]]\n"
    "                     [--wait [SECONDS]]\n"
    "\n"
    "Shows the data sets and jobs of a running server, and how much it shared.  On a server with tenants\n"
    "an operator sees all of it, and other users what their own tenant has.\n"
    "\n"
    "Of each job, `epoch`, `of this epoch` and `consumed` count the samples that its training loop was\n"
    "given; batches that lie ready in its memory are not among them (in `delivered` of the line below\n"
    "they are).  `waiting on` is what its next batch lacks now.  `waited for` says where the time since\n"
    "the job began went: `draw`, jobs that may begin with it; `read`, bytes; `memory`, room in the\n"
    "cache; `decode`, the shared stage; `copy`, its own stage (crop, flip, cast) into the batch; `client`,\n"
    "its loop, for which a batch lay ready.\n"
    "\n"
    "Of data that several jobs draw together, `who shares what` shows the sampling tree: first the samples\n"
    "that all jobs still have to draw, then those of all but the first one, and so on; and of each job\n"
    "those in its leaf, which are in none of these.\n"
    "\n", .after =
    "\n"
    "Exit status: 0 shown, 1 no answer, 2 unusable arguments.\n" };

//  As tureen_status_with; looks again for a server that is not there until wait_seconds are over.
static int
s_find (const asked_t *self, char **text_p, char error [TUREEN_ERROR_BYTES])
{
    const struct timespec pause = { .tv_nsec = PAUSE_NS };
    int64_t end_ms = clock_now_ms () + (int64_t) (self->wait_seconds * 1000);
    int rc;
    while ((rc = tureen_status_with (&self->server, text_p, error, TUREEN_ERROR_BYTES)) == -ETIMEDOUT
        && clock_now_ms () < end_ms)
        nanosleep (&pause, NULL);
    return rc;
}

//  Asks once, and prints: the exit status.  before: printed before the page.
static int
s_ask (const asked_t *self, const char *before)
{
    char error [TUREEN_ERROR_BYTES], *text;
    int rc = s_find (self, &text, error);
    if (rc) {
        fputs (before, stdout);
        fflush (stdout);
        complain_of_options ("status", error);
        return rc == -EINVAL? 2: 1;
    }
    json_t *object = answer_parse (text, error, sizeof error);
    if (self->as_json)
        printf ("%s\n", text);
    else {
        fputs (before, stdout);
        if (object)
            s_show (object);
    }
    if (!object)
        complain ("status", "%s", error);
    json_decref (object);
    free (text);
    return object? 0: 1;
}

//  Until it is interrupted, cannot print, or was asked for what cannot be.
static int
s_watch (const asked_t *self)
{
    //  To the upper left corner, and nothing is left of the page before: on a terminal the page stays where
    //  it is.
    bool redraws = isatty (STDOUT_FILENO) && !self->as_json;
    const char *before = redraws? "\033[H\033[2J": "";
    struct timespec pause = { .tv_sec = (time_t) self->watch_seconds };
    pause.tv_nsec = (long) ((self->watch_seconds - (double) pause.tv_sec) * 1e9);
    setvbuf (stdout, NULL, _IOFBF, BUFSIZ);
    int status;
    while ((status = s_ask (self, before)) != 2 && fflush (stdout) == 0) {
        nanosleep (&pause, NULL);
        before = redraws? before: self->as_json? "": "\n";
    }
    return status;
}

static int
s_run (int argc, char **argv)
{
    asked_t asked = { .server = { .timeout_ms = TIMEOUT_MS } };
    option_result_t result;
    int status = option_parse (&s_table, &asked, argc, argv, &result);
    if (status >= 0)
        return status;
    return asked.watch_seconds > 0? s_watch (&asked): s_ask (&asked, "");
}

int
command_status (int argc, char **argv)
{
    complain_begin ();
    return complain_of_output ("status", s_run (argc, argv));
}
