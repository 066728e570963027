//  Reads that fail, and may not fail again: nothing is lost, what lasts is given up by the rules of
//  patience.h, and nothing that was put to rest is forgotten.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, SAMPLES = 300, PATIENCE_MS = 20000, ASKED_MAX = 4 * SAMPLES };

static const char s_crop [] = "[{\"op\":\"center_crop\",\"size\":[1,1]}]";

//  Plain files, and packs by each policy.
enum { PLAIN, STREAM, REDOX, DIRECT, SOURCES };

//  The reads of a run in the order in which they begin, each by its first sample.
typedef struct {
    uint32_t ids [ASKED_MAX];
    size_t count;
    size_t outage_end;          //  how many of these begin before that
    size_t failures, failed [SAMPLES];  //  all; and of each sample the number of its last one; 0: none
} asked_t;

//  What fails when.
typedef struct disk {
    uint64_t seed;
    int64_t outage_us;          //  of every second such period; 0: none
    int rc;
    int64_t from_us, until_us;  //  everything fails, with rc
    int64_t again_us, over_us;  //  the same once more
    bool loses_one;             //  the first read that had failed the first time, and ends behind one that
                                //  succeeds, finds no file;
    uint32_t succeeded, lost;   //  what came so far
    uint32_t first, count;      //  these fail, with file_rc
    int file_rc;
    uint32_t every;             //  of these only each so many-th; 0: all
    int64_t file_until_us;      //  0: always
    uint32_t file_times;        //  each so often; 0: always
    uint32_t failed [SAMPLES];
    int64_t took_us;            //  a read takes so long; 0: not long
    const patience_t *patience; //  looked at when a read ends; NULL: it is not
    bool was_still;
    bool is_divided;            //  there are tenants
    asked_t *asked;             //  NULL: nothing is noted
} disk_t;

static void
s_note_asked (const disk_t *disk, uint32_t id)
{
    if (disk->asked) {
        assert_true (disk->asked->count < ASKED_MAX);
        disk->asked->ids [disk->asked->count++] = id;
    }
}

//  What had failed takes longer, so that others end before it.
static int64_t
s_took_us (const disk_t *disk, uint32_t id)
{
    return disk->took_us * (disk->loses_one && disk->asked->failed [id] > 0? 3: 1);
}

static int64_t
s_fetch_us (void *context, const version_t *version)
{
    const disk_t *disk = context;
    s_note_asked (disk, version->id);
    return disk->took_us? s_took_us (disk, version->id): 200;
}

static int64_t
s_read_us (void *context, const raw_request_t *request)
{
    const disk_t *disk = context;
    s_note_asked (disk, request->samples [0]->id);
    return disk->took_us? s_took_us (disk, request->samples [0]->id): 300;
}

static bool
s_fails (disk_t *disk, uint32_t id, int64_t now_us)
{
    bool is_one = id >= disk->first && id - disk->first < disk->count
        && (disk->every == 0 || (id - disk->first) % disk->every == 0)
        && (disk->file_until_us == 0 || now_us < disk->file_until_us);
    return is_one && (disk->file_times == 0 || disk->failed [id]++ < disk->file_times);
}

static bool
s_is_away (const disk_t *disk, int64_t now_us)
{
    return (now_us >= disk->from_us && now_us < disk->until_us)
        || (now_us >= disk->again_us && now_us < disk->over_us)
        || (disk->outage_us && (disk->seed + (uint64_t) (now_us / disk->outage_us)) % 2);
}

static int
s_unread_rc (void *context, uint32_t id, int64_t now_us)
{
    disk_t *disk = context;
    disk->was_still = disk->was_still || (disk->patience && disk->patience->is_still);
    if (disk->asked && now_us >= disk->from_us && now_us < disk->until_us)
        disk->asked->failed [id] = ++disk->asked->failures;
    if (s_fails (disk, id, now_us))
        return disk->file_rc;
    if (disk->loses_one && disk->asked->failed [id] > 0 && disk->succeeded > 0 && disk->lost++ == 0)
        return -ENOENT;
    disk->succeeded += !s_is_away (disk, now_us);
    return s_is_away (disk, now_us)? disk->rc: 0;
}

static simulation_t *
s_simulation (disk_t *disk, int source, uint64_t seed)
{
    static const raw_policy_t policies [SOURCES] = { 0, RAW_STREAM, RAW_REDOX, RAW_DIRECT };
    simulation_options_t options = { .seed = seed, .samples = SAMPLES, .cache_versions = 40, .workers = 3,
        .check = true,
        .fetch_cost_us = s_fetch_us, .read_us = s_read_us, .unread_rc = s_unread_rc, .context = disk,
        .patience_ms = disk->outage_us? 15 * PATIENCE_MS: PATIENCE_MS };
    static const broker_tenant_t tenants [] = { { .name = "one", .weight = 1 },
        { .name = "two", .weight = 3 } };
    if (disk->is_divided) {
        options.tenants = tenants;
        options.tenant_count = 2;
        options.cache_versions = 100;
    }
    if (source != PLAIN) {
        options.raw_bytes = disk->is_divided? 400000: 100000;
        options.sample_bytes = 1000;
        options.tier = policies [source];
        options.piece = 16;
    }
    return simulation_new (&options);
}

static void
s_assert_ended (const simulation_t *simulation, int client, const char *expected)
{
    const char *message, *reason = simulation_reason (simulation, client, &message);
    if (!reason || strcmp (reason, expected) || !strstr (message, "made to fail")
        || !strstr (message, "--patience"))
        fail_msg ("client %d: %s, %s", client, reason? reason: "not ended", reason? message: "");
}

//  Each epoch has all samples but those of the disk's that always fail.
static void
s_assert_whole (const simulation_t *simulation, int client, size_t epochs, const disk_t *disk)
{
    const char *message, *reason = simulation_reason (simulation, client, &message);
    if (simulation_epochs (simulation, client) != epochs)
        fail_msg ("client %d: %zu epochs of %zu; %s: %s", client, simulation_epochs (simulation, client),
            epochs, reason? reason: "waits", reason? message: "");
    for (size_t number = 0; number < epochs; number++) {
        const seen_epoch_t *epoch = simulation_epoch (simulation, client, number);
        bool seen [SAMPLES] = { false };
        for (size_t index = 0; index < epoch->count; index++) {
            assert_false (seen [epoch->ids [index]]);
            seen [epoch->ids [index]] = true;
        }
        for (uint32_t id = 0; id < SAMPLES; id++)
            if (seen [id] != (id < disk->first || id - disk->first >= disk->count))
                fail_msg ("client %d, epoch %zu of %zu: sample %u, %zu samples", client, number, epochs, id,
                    epoch->count);
    }
}

//  Property: however often and long storage fails, a job that stays has every sample of every epoch once, and
//  no sample is marked; others come and go meanwhile.
static void
test_outages_lose_nothing (void **state)
{
    (void) state;
    static const int rcs [] = { -EIO, -ESTALE, -ETIMEDOUT, -EACCES };
    static const int64_t outages_us [] = { 3000, 50000, 700000, 4 * SECOND_US };
    uint64_t failures = 0;
    for (uint64_t round = 0, seed = test_seed (); round < EFFORT (64); round++, seed++) {
        disk_t disk = { .seed = seed, .outage_us = outages_us [round / 4 % 4], .rc = rcs [round / 16 % 4] };
        if (disk.rc == -EACCES)             //  what is so twice, a second apart, is the file's own
            disk = (disk_t) { .rc = -EACCES, .from_us = 20000, .until_us = SECOND_US * 9 / 10 };
        disk.is_divided = seed % 2;
        simulation_t *simulation = s_simulation (&disk, (int) (round % SOURCES), seed);
        simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 2, .sample_us = 300 };
        int first = simulation_must_join (simulation, &job);
        job.tenant = disk.is_divided? "one": NULL;
        job.order = SAMPLER_ORDER_SEEDED;
        int seeded = simulation_must_join (simulation, &job);
        job.order = SAMPLER_ORDER_PRIVATE;
        job.first_us = 100000;
        int leaves = simulation_must_join (simulation, &job);
        job.tenant = disk.is_divided? "two": NULL;
        simulation_run (simulation, SECOND_US / 3);
        simulation_gone (simulation, leaves);
        job.order = SAMPLER_ORDER_SHARED;
        int later = simulation_must_join (simulation, &job);
        assert_true (simulation_run (simulation, 3000 * (int64_t) SECOND_US));
        s_assert_whole (simulation, first, 2, &disk);
        s_assert_whole (simulation, seeded, 2, &disk);
        s_assert_whole (simulation, later, 2, &disk);
        assert_int_equal (simulation_figure (simulation, "bad_samples"), 0);
        failures += simulation_figure (simulation, "read_failures");
        simulation_destroy (&simulation);
    }
    assert_true (failures > 100);
}

//  Guards: a file that fails for as long as patience lasts is bad, it alone and not before; one that is gone
//  after a second.
static void
test_what_lasts_is_that_samples (void **state)
{
    (void) state;
    for (int source = 0; source < SOURCES; source++)
        for (int is_gone = 0; is_gone < 2; is_gone++) {
            disk_t disk = { .first = 17, .count = 1, .file_rc = is_gone? -ENOENT: -EIO };
            simulation_t *simulation = s_simulation (&disk, source, test_seed ());
            simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 2 };
            int client = simulation_must_join (simulation, &job);
            assert_false (simulation_run (simulation, is_gone? SECOND_US * 9 / 10: PATIENCE_MS * 999));
            assert_int_equal (simulation_figure (simulation, "bad_samples"), 0);
            assert_true (simulation_run (simulation, 3 * PATIENCE_MS * 1000));
            s_assert_whole (simulation, client, 2, &disk);
            assert_int_equal (simulation_figure (simulation, "bad_samples"), 1);
            simulation_destroy (&simulation);
        }
}

//  Guards: a disk that is away ends the jobs that wait for it when patience ends, and marks nothing.  Jobs
//  that need nothing of it go on, and a job that joins when it is back gets everything.
static void
test_a_disk_that_stays_away (void **state)
{
    (void) state;
    for (int source = 0; source < SOURCES; source++)
        for (int is_gone = 0; is_gone < 2; is_gone++) {
            disk_t disk = { .rc = is_gone? -ENOENT: -EIO, .from_us = SECOND_US, .until_us = INT64_MAX };
            simulation_t *simulation = s_simulation (&disk, source, test_seed ());
            simulated_job_t few = { .batch_size = 10, .slots = 4, .epochs = 1, .sample_us = SECOND_US / 10,
                .to = 30,
                .pipeline = s_crop };
            simulated_job_t all = { .batch_size = 10, .slots = 4, .epochs = 1, .sample_us = 10000 };
            int cached = simulation_must_join (simulation, &few),
                waits = simulation_must_join (simulation, &all);
            assert_false (simulation_run (simulation, PATIENCE_MS * 1000));
            assert_null (simulation_reason (simulation, waits, &(const char *) { NULL }));
            simulation_run (simulation, (PATIENCE_MS + 6000) * 1000);
            s_assert_ended (simulation, waits, "storage");
            assert_int_equal (simulation_epoch (simulation, cached, 0)->count, 30);
            assert_int_equal (simulation_figure (simulation, "bad_samples"), 0);
            disk.until_us = 0;
            all.sample_us = 0;
            int later = simulation_must_join (simulation, &all);
            assert_true (simulation_run (simulation, 300 * SECOND_US));
            s_assert_whole (simulation, later, 1, &disk);
            simulation_destroy (&simulation);
        }
}

//  Guards: the message of a job that ends has the remedy for the failure: keys and rights do not come with
//  patience.
static void
test_the_remedy_follows_the_failure (void **state)
{
    (void) state;
    static const struct {
        int rc;
        const char *remedy;
    } cases [] = {
        { -EKEYEXPIRED, "give the server new keys" }, { -EKEYREJECTED, "give the server new keys" },
        { -EACCES, "let the server's user read it" }, { -EPERM, "let the server's user read it" },
        { -EIO, "with more --patience" }, { -ENOENT, "with more --patience" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        disk_t disk = { .rc = cases [index].rc, .from_us = 0, .until_us = INT64_MAX };
        simulation_t *simulation = s_simulation (&disk, (int) (index % SOURCES), test_seed ());
        int client = simulation_must_join (simulation, &(simulated_job_t) { .batch_size = 10, .slots = 4 });
        simulation_run (simulation, 4 * PATIENCE_MS * 1000);
        const char *message = "", *reason = simulation_reason (simulation, client, &message);
        assert_string_equal (reason, "storage");
        bool is_patience = strstr (cases [index].remedy, "--patience");
        if (!strstr (message, cases [index].remedy) || !strstr (message, "--patience") == is_patience)
            fail_msg ("%s: %s", strerror (-cases [index].rc), message);
        simulation_destroy (&simulation);
    }
}

//  Guards: one object that its store has replaced ends the job that waits for it, soon and with its name,
//  though all others are read; nothing is marked.  So do all of them.  When the old ones are back, a job gets
//  everything.
static void
test_what_a_store_has_replaced (void **state)
{
    (void) state;
    for (int turn = 0; turn < 2 * SOURCES; turn++) {
        bool is_all = turn >= SOURCES;
        disk_t disk = { .first = is_all? 0: 17, .count = is_all? SAMPLES: 1, .file_rc = -EREMCHG };
        simulation_t *simulation = s_simulation (&disk, turn % SOURCES, test_seed ());
        simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 1 };
        int client = simulation_must_join (simulation, &job);
        simulation_run (simulation, 5 * SECOND_US);
        const char *message, *reason = simulation_reason (simulation, client, &message);
        assert_non_null (reason);
        assert_string_equal (reason, "storage");
        assert_non_null (strstr (message, "made to fail"));
        assert_non_null (strstr (message, "found at its start"));
        assert_int_equal (simulation_figure (simulation, "bad_samples"), 0);
        disk.count = 0;
        int later = simulation_must_join (simulation, &job);
        assert_true (simulation_run (simulation, 300 * SECOND_US));
        s_assert_whole (simulation, later, 1, &disk);
        simulation_destroy (&simulation);
    }
}

//  Guards: many files that fail for as long as patience lasts are the disk's fault, though others are read.
static void
test_many_files_are_the_disk (void **state)
{
    (void) state;
    disk_t disk = { .first = 20, .count = 200, .file_rc = -EIO };
    simulation_t *simulation = s_simulation (&disk, PLAIN, test_seed ());
    simulated_job_t job = { .batch_size = 100, .slots = 4, .epochs = 1 };
    int client = simulation_must_join (simulation, &job);
    simulation_run (simulation, 4 * PATIENCE_MS * 1000);
    s_assert_ended (simulation, client, "storage");
    assert_int_equal (simulation_figure (simulation, "bad_samples"), 0);
    disk.count = 0;
    int later = simulation_must_join (simulation, &job);
    assert_true (simulation_run (simulation, 300 * SECOND_US));
    s_assert_whole (simulation, later, 1, &disk);
    simulation_destroy (&simulation);
}

//  The newest event of the log; false: there is none.
static bool
s_told (simulation_t *simulation, broker_trouble_t *trouble)
{
    bool any = false;
    for (broker_trouble_t next; dataset_next_trouble (simulation_broker (simulation), &next); any = true)
        *trouble = next;
    return any;
}

//  The log and the job are told of an outage that began at from_us and is not over, and then of its end.
static void
s_assert_told (simulation_t *simulation, int client, int64_t from_us, int64_t until_us)
{
    broker_trouble_t trouble = { .is_over = true };
    uint32_t notices = simulation_storage_notices (simulation, client);
    simulation_run (simulation, until_us - SECOND_US / 10);
    assert_true (s_told (simulation, &trouble) && trouble.is_still && !trouble.is_over);
    assert_in_range (trouble.lasted_ms, 0, (until_us - from_us) / 1000);
    assert_in_range (simulation_storage_notices (simulation, client), notices + 1, notices + 2);
    simulation_run (simulation, until_us + 8 * SECOND_US);
    assert_true (s_told (simulation, &trouble) && trouble.is_over);
}

//  Guards: of two outages, each of which is shorter than patience, and both together longer, the log and the
//  job are told as of one, and neither ends a job.
static void
test_two_outages (void **state)
{
    (void) state;
    for (int source = 0; source < SOURCES; source++) {
        disk_t disk = { .rc = -EIO, .from_us = 5 * SECOND_US, .until_us = 20 * SECOND_US,
            .again_us = 32 * SECOND_US, .over_us = 47 * SECOND_US, .took_us = SECOND_US / 10 };
        simulation_t *simulation = s_simulation (&disk, source, test_seed ());
        simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 2, .sample_us = SECOND_US / 10 };
        int client = simulation_must_join (simulation, &job);
        s_assert_told (simulation, client, disk.from_us, disk.until_us);
        s_assert_told (simulation, client, disk.again_us, disk.over_us);
        assert_true (simulation_run (simulation, 300 * SECOND_US));
        s_assert_whole (simulation, client, 2, &disk);
        simulation_destroy (&simulation);
    }
}

//  Guards: what failed in an outage begins anew behind it: a file that fails on is bad when it has failed for
//  as long as patience lasts since then.
static void
test_a_file_that_fails_on_behind_an_outage (void **state)
{
    (void) state;
    enum { FEW = 6, MANY = 75 };
    for (int round = 0; round < 2 * SOURCES; round++) {
        disk_t disk = { .rc = -EIO, .until_us = PATIENCE_MS * 500, .first = 17, .count = 1, .file_rc = -EIO,
            .file_until_us = PATIENCE_MS * 1200, .took_us = 2000 };
        simulation_t *simulation = s_simulation (&disk, round % SOURCES, test_seed ());
        uint32_t samples = round < SOURCES? FEW: MANY;
        simulated_job_t job = { .batch_size = samples / 3, .slots = 3, .epochs = 1, .from = 15,
            .to = 15 + samples };
        int client = simulation_must_join (simulation, &job);
        assert_true (simulation_run (simulation, 3 * PATIENCE_MS * 1000));
        assert_int_equal (simulation_figure (simulation, "bad_samples"), 0);
        assert_true (simulation_finished (simulation, client));
        assert_int_equal (simulation_epoch (simulation, client, 0)->count, samples);
        simulation_destroy (&simulation);
    }
}

//  Guards: a read that had failed in an outage, and was out when another one ended it, begins anew too: if
//  its file is not there at that moment, it is looked at once more.
static void
test_a_read_that_was_out_at_the_end_of_an_outage (void **state)
{
    (void) state;
    for (int source = 0; source < SOURCES; source++) {
        asked_t asked = { .count = 0 };
        disk_t disk = { .rc = -EIO, .until_us = PATIENCE_MS * 500, .loses_one = true,
            .took_us = SECOND_US / 2, .asked = &asked };
        simulation_t *simulation = s_simulation (&disk, source, test_seed ());
        simulated_job_t job = { .batch_size = 10, .slots = 3, .epochs = 1, .to = SAMPLES / 2 };
        simulation_must_join (simulation, &job);
        simulation_run (simulation, 3 * SECOND_US);
        job.from = SAMPLES / 2;
        job.to = SAMPLES;
        simulation_must_join (simulation, &job);        //  its reads are held back
        assert_true (simulation_run (simulation, 1000 * SECOND_US));
        assert_true (disk.lost > 0);
        assert_int_equal (simulation_figure (simulation, "bad_samples"), 0);
        simulation_destroy (&simulation);
    }
}

//  Guards: files that fail once, with others between that are read, are not the disk's fault.
static void
test_failures_that_are_apart (void **state)
{
    (void) state;
    for (int source = 0; source < SOURCES; source++) {
        disk_t disk = { .first = 10, .count = SAMPLES - 10, .every = 40, .file_rc = -EIO, .file_times = 1 };
        simulation_t *simulation = s_simulation (&disk, source, test_seed ());
        disk.patience = &simulation_dataset (simulation)->patience;
        simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 1, .sample_us = 2000 };
        int client = simulation_must_join (simulation, &job);
        assert_true (simulation_run (simulation, 100 * SECOND_US));
        assert_true (simulation_finished (simulation, client));
        assert_true (simulation_figure (simulation, "read_failures") >= 8);
        assert_false (disk.was_still);
        simulation_destroy (&simulation);
    }
}

//  Guards: a file that was not there when a job waited for it, which has left, and once more much later, when
//  another job needs it, is not bad: whether the first job left before its read had failed or behind that.
static void
test_failures_that_a_job_has_left_behind (void **state)
{
    (void) state;
    enum { READ_US = 100000 };
    for (int64_t left_us = READ_US / 2; left_us < 2 * READ_US; left_us += READ_US) {
        disk_t disk = { .count = SAMPLES, .file_rc = -ENOENT, .file_times = 1, .took_us = READ_US };
        simulation_t *simulation = s_simulation (&disk, PLAIN, test_seed ());
        simulated_job_t job = { .batch_size = 1, .slots = 3, .epochs = 1, .from = 10, .to = 13 };
        int first = simulation_must_join (simulation, &job);
        job.detached = true;
        int second = simulation_must_join (simulation, &job);
        simulation_run (simulation, left_us);
        simulation_gone (simulation, first);
        simulation_run (simulation, 2 * SECOND_US);
        memset (disk.failed, 0, sizeof disk.failed);
        simulation_attach (simulation, second);
        assert_true (simulation_run (simulation, 100 * SECOND_US));
        assert_int_equal (simulation_figure (simulation, "bad_samples"), 0);
        assert_true (simulation_finished (simulation, second));
        simulation_destroy (&simulation);
    }
}

//  Guards: while a read that has failed is tried again, and takes long, the failures are not over: the log is
//  told of them.
static void
test_a_slow_read_that_fails_is_told (void **state)
{
    (void) state;
    disk_t disk = { .first = 17, .count = 1, .file_rc = -EIO, .took_us = 4 * SECOND_US };
    simulation_t *simulation = s_simulation (&disk, PLAIN, test_seed ());
    broker_trouble_t trouble = { .is_over = true };
    simulation_must_join (simulation, &(simulated_job_t) { .batch_size = 3, .slots = 2, .epochs = 1,
        .from = 16, .to = 19 });
    simulation_run (simulation, 17 * SECOND_US);
    assert_true (s_told (simulation, &trouble) && !trouble.is_over && !trouble.is_still);
    simulation_destroy (&simulation);
}

//  Guards: a range that was not there says nothing of each of its samples: one that is not there once
//  more, and then is, is not bad.
static void
test_a_sample_of_a_range_that_failed (void **state)
{
    (void) state;
    enum { SEED = 1 };                  //  by which the sample is first read with others
    disk_t disk = { .count = 1, .file_rc = -ENOENT, .file_times = 2, .took_us = 2 * SECOND_US };
    simulation_t *simulation = s_simulation (&disk, STREAM, SEED);
    disk.first = simulation_pack_order (simulation) [SAMPLES / 2];      //  far from the breaks between ranges
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 1 };
    int client = simulation_must_join (simulation, &job);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    assert_int_equal (disk.failed [disk.first], 3);
    assert_int_equal (simulation_figure (simulation, "bad_samples"), 0);
    assert_true (simulation_finished (simulation, client));
    simulation_destroy (&simulation);
}

//  One epoch of a job beside a disk that is away for two seconds, or for none.
static void
s_note_order (asked_t *asked, int source, bool is_away)
{
    disk_t disk = { .rc = -EIO, .from_us = 15000, .until_us = is_away? 2 * SECOND_US: 0, .asked = asked };
    simulation_t *simulation = s_simulation (&disk, source, test_seed ());
    int client = simulation_must_join (simulation, &(simulated_job_t) { .batch_size = 10, .slots = 4,
        .epochs = 1, .order = SAMPLER_ORDER_SEEDED, .sample_us = 300 });
    simulation_run (simulation, 2 * SECOND_US);
    asked->outage_end = asked->count;
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    s_assert_whole (simulation, client, 1, &disk);
    simulation_destroy (&simulation);
}

//  Leaves the first read of each sample.
static void
s_keep_first (asked_t *asked)
{
    bool seen [SAMPLES] = { false };
    size_t kept = 0;
    for (size_t index = 0; index < asked->count; index++) {
        uint32_t id = asked->ids [index];
        if (!seen [id])
            asked->ids [kept++] = id;
        seen [id] = true;
    }
    asked->count = kept;
}

//  Guards: behind an outage the reads that were held back come in the order of the draws, as without an
//  outage, and those that had failed in the order of their failures.  In any other order the batch that is
//  due first waits for bytes of later ones.
static void
test_the_order_of_reads_behind_an_outage (void **state)
{
    (void) state;
    for (int source = 0; source < SOURCES; source++) {
        asked_t calm = { 0 }, away = { 0 };
        s_note_order (&calm, source, false);
        s_note_order (&away, source, true);
        size_t again = 0, last = 0;
        for (size_t index = away.outage_end; index < away.count; index++) {
            size_t failed = away.failed [away.ids [index]];
            if (failed > 0 && failed <= last)
                fail_msg ("source %d: sample %u, which failed before another, is read behind it", source,
                    away.ids [index]);
            last = failed > 0? failed: last;
            again += failed > 0;
        }
        assert_true (again >= 4);
        s_keep_first (&calm);
        s_keep_first (&away);
        assert_int_equal (away.count, calm.count);
        for (size_t index = 0; index < calm.count; index++)
            if (away.ids [index] != calm.ids [index])
                fail_msg ("source %d: read %zu is of sample %u; without an outage of %u", source, index,
                    away.ids [index], calm.ids [index]);
    }
}

//  What the status says that the only job waits on.
static void
s_assert_waits_on (simulation_t *simulation, const char *expected)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL,
        simulation_now_us (simulation) / 1000);
    json_t *job = json_array_get (json_object_get (status, "jobs"), 0);
    assert_string_equal (json_string_value (json_object_get (job, "waiting_on")), expected);
    json_decref (status);
}

//  Guards: a job that waits for its reads waits on the storage only while that fails.
static void
test_what_a_job_waits_on (void **state)
{
    (void) state;
    for (int source = 0; source < SOURCES; source++)
        for (int fails = 0; fails < 2; fails++) {
            disk_t disk = { .rc = -EIO, .until_us = fails? 10 * SECOND_US: 0 };
            simulation_t *simulation = s_simulation (&disk, source, test_seed ());
            simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 1, .sample_us = 300 };
            int client = simulation_must_join (simulation, &job);
            simulation_run (simulation, fails? 2 * SECOND_US: 50);
            s_assert_waits_on (simulation, fails? "storage": "read");
            simulation_run (simulation, 100 * SECOND_US);
            assert_true (simulation_finished (simulation, client));
            simulation_destroy (&simulation);
        }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_what_a_job_waits_on),
        cmocka_unit_test (test_outages_lose_nothing),
        cmocka_unit_test (test_what_lasts_is_that_samples),
        cmocka_unit_test (test_a_disk_that_stays_away),
        cmocka_unit_test (test_the_remedy_follows_the_failure),
        cmocka_unit_test (test_what_a_store_has_replaced),
        cmocka_unit_test (test_many_files_are_the_disk),
        cmocka_unit_test (test_two_outages),
        cmocka_unit_test (test_a_file_that_fails_on_behind_an_outage),
        cmocka_unit_test (test_a_read_that_was_out_at_the_end_of_an_outage),
        cmocka_unit_test (test_failures_that_are_apart),
        cmocka_unit_test (test_failures_that_a_job_has_left_behind),
        cmocka_unit_test (test_a_slow_read_that_fails_is_told),
        cmocka_unit_test (test_a_sample_of_a_range_that_failed),
        cmocka_unit_test (test_the_order_of_reads_behind_an_outage)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
