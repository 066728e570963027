/*  fuzz_audit -- any file of recorded ids, read and audited.
 *
 *  The first byte's lowest bits say how many samples the audit is told of (none, 8, 300, all), the next one
 *  whether the same file comes a second time as another job, the one after it whether a file of groups comes
 *  first, up to the first zero byte, and the one after this whether the files are ranks of one job.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "audit.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (bool condition)
{
    if (!condition)
        abort ();
}

static bool
s_read (audit_t *audit, const uint8_t *data, size_t size)
{
    char error [256] = "";
    FILE *file = size? fmemopen ((void *) data, size, "r"): fopen ("/dev/null", "r");
    s_require (file);
    bool fine = audit_input_ids (audit, "a file", file, error, sizeof error);
    s_require (fine == (*error == 0));
    fclose (file);
    return fine;
}

//  Returns how many bytes the groups took, with the zero behind them.
static size_t
s_read_groups (audit_t *audit, audit_input_groups_t *grouping, const uint8_t *data, size_t size)
{
    char error [256] = "";
    const uint8_t *end = memchr (data, 0, size);
    size_t used = end? (size_t) (end - data): size;
    FILE *file = used? fmemopen ((void *) data, used, "r"): fopen ("/dev/null", "r");
    s_require (file);
    bool fine = audit_input_groups (grouping, "groups", file, error, sizeof error);
    s_require (fine == (*error == 0));
    fclose (file);
    if (fine)
        audit_set_groups (audit, &grouping->members, grouping->count, (const char *const *) grouping->names,
            grouping->group_count);
    return used + (end != NULL);
}

static void
s_look_at (const audit_t *audit)
{
    for (size_t index = 0; index < audit_finding_count (audit); index++) {
        const audit_finding_t *finding = audit_finding (audit, index);
        s_require (finding->job < audit_job_count (audit) && finding->other < audit_job_count (audit));
        s_require (*finding->text && *audit_kind_name (finding->kind));
        s_require ((finding->kind < AUDIT_FAULTS) == (index < audit_fault_count (audit)));
        for (size_t epoch = 1; epoch < finding->epoch_count; epoch++)
            s_require (finding->epochs [epoch - 1] < finding->epochs [epoch]);
    }
    for (size_t index = 0; index < audit_test_count (audit); index++) {
        double p = audit_test (audit, index)->p;
        s_require (p >= 0 && p <= 1.000001);
    }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static const uint64_t samples [] = { 0, 8, 300, (uint64_t) AUDIT_ID_MAX + 1 };
    if (size < 1)
        return 0;
    audit_t *audit = audit_new (samples [data [0] & 3]);
    s_require (audit);
    audit_input_groups_t grouping = { .count = 0 };
    size_t groups = data [0] & 8? s_read_groups (audit, &grouping, data + 1, size - 1): 0;
    const uint8_t *ids = data + 1 + groups;
    size_t ids_size = size - 1 - groups;
    bool fine = s_read (audit, ids, ids_size) && (!(data [0] & 4) || s_read (audit, ids, ids_size));
    if (fine && data [0] & 16)
        s_require (audit_join (audit) == 0);
    if (fine) {
        s_require (audit_run (audit) == 0);
        s_look_at (audit);
    }
    audit_destroy (&audit);
    audit_input_clear (&grouping);
    return 0;
}
