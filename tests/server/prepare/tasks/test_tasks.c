/*  The threads between the broker and the files: what comes to which row, what is blamed and told, and side
 *  tasks.  (What is waited for: test_tasks_shortages.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "ahead_reads.h"
#include "clock.h"
#include "job.h"
#include "pool.h"
#include "task.h"
#include "tasks_scene.h"
#include "tenant.h"

static void
s_assert_bad (tasks_scene_t *self, uint32_t id, const char *reason)
{
    json_t *status = broker_status (self->broker, NULL, 0), *entry;
    size_t index, found = 0;
    json_array_foreach (json_object_get (json_array_get (json_object_get (status, "datasets"), 0), "bad"),
        index, entry)
        if (json_integer_value (json_object_get (entry, "id")) == id) {
            assert_string_equal (json_string_value (json_object_get (entry, "reason")), reason);
            found++;
        }
    assert_int_equal (found, 1);
    json_decref (status);
}

//  Every field and label of every sample comes to its row, and a large buffer is not kept.
static void
test_all_fields_come_to_their_rows (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    assert_int_equal (atomic_load (&tasks_scene_plan.large_buffers), 0);
    tasks_scene_end (&scene);
}

//  Each device has the reads of what lies on it, learns from those alone, and has its own depth.
static void
test_each_device_learns_by_itself (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_slower = 100000;              //  images take a microsecond, masks 100 ms
    tasks_scene_begin (&scene);
    assert_int_equal (device_depth (scene.devices [0]), device_depth (scene.devices [1]));
    tasks_scene_run (&scene);
    tasks_scene_wait_ns = 1000;
    tasks_scene_slower = 1;
    const cost_t *images = device_cost (scene.devices [0]), *masks = device_cost (scene.devices [1]);
    assert_int_equal (images->observed, SAMPLES);
    assert_int_equal (masks->observed, SAMPLES);
    assert_true (images->latency_seconds < 1e-5 && masks->latency_seconds > 1e-2);
    assert_true (device_depth (scene.devices [0]) < device_depth (scene.devices [1]));
    assert_int_equal (tasks_depth (scene.tasks),
        device_depth (scene.devices [0]) + device_depth (scene.devices [1]));
    json_t *told = tasks_devices_status (scene.tasks), *second = json_array_get (told, 1);
    assert_string_equal (json_string_value (json_object_get (second, "device")), "0:8");
    assert_int_equal (json_integer_value (json_object_get (second, "reads_max")),
        device_depth (scene.devices [1]));
    assert_int_equal (json_integer_value (json_object_get (second, "observed_reads")), SAMPLES);
    assert_true (json_is_true (json_object_get (second, "measured")));
    assert_true (json_real_value (json_object_get (second, "latency_microseconds")) > 1e4);
    json_decref (told);
    tasks_scene_end (&scene);
}

//  A device that comes later has memory for its ranges; when it goes, the others stay.
static void
test_a_device_comes_and_goes (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    const char *path;
    uint32_t depth = tasks_depth (scene.tasks);
    device_t *folder = device_new (9, NULL, 4), *other = device_new (10, NULL, 4);
    assert_true (folder && other);
    assert_int_equal (tasks_open_device (scene.tasks, folder, &path), 0);
    assert_int_equal (tasks_depth (scene.tasks), depth + 4);
    json_t *told = tasks_devices_status (scene.tasks);
    assert_int_equal (json_array_size (told), 3);
    json_decref (told);
    tasks_close_device (scene.tasks, other);            //  was never opened
    tasks_close_device (scene.tasks, folder);
    assert_int_equal (tasks_depth (scene.tasks), depth);
    device_destroy (&folder);
    device_destroy (&other);
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    tasks_scene_end (&scene);
}

//  The reason names the file that is at fault, with its field unless it is the first.
static void
test_the_file_at_fault_is_named (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    tasks_scene_plan.missing_mask = 5;
    tasks_scene_plan.bad_mask = 6;
    tasks_scene_plan.changed = 7;
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES - 3);
    s_assert_bad (&scene, 5, "mask: m/05: cannot be read: No such file or directory");
    s_assert_bad (&scene, 6, "mask: m/06: is spoilt");
    s_assert_bad (&scene, 7, "i/07: changed since the server started");
    tasks_scene_end (&scene);
}

//  What does not suit the pipeline ends the job, by the name of the file, and is not bad.
static void
test_what_does_not_suit_is_not_bad (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    tasks_scene_plan.other_mask = 6;
    tasks_scene_run (&scene);
    assert_false (scene.finished);
    assert_string_equal (scene.ended,
        "unsuitable: mask: m/06: is spoilt (sample 6 of data set 'data' does not suit the "
        "pipeline: change that, or leave the sample out by a subset)");
    json_t *status = broker_status (scene.broker, NULL, 0);
    assert_int_equal (json_integer_value (json_object_get (status, "bad_samples")), 0);
    json_decref (status);
    tasks_scene_end (&scene);
}

//  What tasks take of their workers is charged to the job's tenant, and what they sleep is not.
static void
test_workers_time_is_told (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    atomic_store (&tasks_scene_plan.poor_copies, 20);                 //  20 ms of waiting each
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    uint64_t worker_ns = tenant_worker_ns (scene.broker, tenant_named (scene.broker, NULL));
    assert_true (worker_ns > 0 && worker_ns < 20 * 20000000u);
    tasks_scene_end (&scene);
}

//  What a large sample needed is given back, with its decoder.
static void
test_large_decoders_are_made_anew (void **state)
{
    (void) state;
    enum { LARGE = 3 };
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    int before = atomic_load (&tasks_scene_plan.decoders);
    atomic_store (&tasks_scene_plan.large_stages, LARGE);
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    assert_int_equal (atomic_load (&tasks_scene_plan.decoders), before + LARGE);
    tasks_scene_end (&scene);
}

//  A pack's samples come to their rows as well, whatever pieces they are read in; damage is told with its
//  place.
static void
test_packed_samples_come_to_their_rows (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin_over (&scene, true);
    tasks_scene_plan.damaged = 13;
    tasks_scene_plan.bad_mask = 6;
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES - 2);
    assert_true (atomic_load (&tasks_scene_plan.joined_ranges) > 0);
    s_assert_bad (&scene, 13, "i/13: its bytes in the pack are damaged (volume 0, chunk 1): `tureen verify` "
        "names all that are");
    s_assert_bad (&scene, 6, "mask: m/06: is spoilt");
    tasks_scene_end (&scene);
}

//  A folder's copy is read in pieces: what is lost of it, or known to be missing, is read of its own files
//  and found in the copy from then on; whatever else fails of the copy is read so, too.
static void
test_samples_of_a_copy_come_to_their_rows (void **state)
{
    (void) state;
    tasks_scene_t scene;
    for (int turn = 0; turn < 3; turn++) {
        tasks_scene_begin_kept (&scene);
        tasks_scene_plan_t *plan = &tasks_scene_plan;
        atomic_store (&plan->lost, turn == 1? 1ULL << 4 | 1ULL << 5 | 1ULL << 39: 0);
        atomic_store (&plan->missing, turn == 1? 1ULL << 11: 0);
        atomic_store (&plan->copy_fails, turn == 2);
        tasks_scene_run (&scene);
        assert_int_equal (scene.delivered, SAMPLES);
        assert_true (atomic_load (&plan->joined_ranges) > 0);
        assert_int_equal (atomic_load (&plan->own_files), turn == 0? 0: turn == 1? 4: SAMPLES);
        assert_int_equal (atomic_load (&plan->lost) | atomic_load (&plan->missing), 0);
        assert_int_equal (scene.source.objects.source_bytes > 0, turn > 0);
        assert_int_equal (scene.source.objects.cached_bytes > 0, true);
        tasks_scene_end (&scene);
    }
}

//  A file that has changed, and is lost of the copy, is bad by its own name.
static void
test_a_lost_sample_without_a_file_is_bad (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin_kept (&scene);
    atomic_store (&tasks_scene_plan.lost, 1ULL << 13);
    tasks_scene_plan.changed = 13;
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES - 1);
    s_assert_bad (&scene, 13, "i/13: changed since the server started");
    tasks_scene_end (&scene);
}

//  Must hold: a disk that hangs with the copy costs seconds, and nothing else: the files are read, and late
//  reads write nothing.
static void
test_a_copy_that_hangs_is_left (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin_kept (&scene);
    atomic_store (&tasks_scene_plan.copy_hangs, true);
    for (int turn = 0; turn < 50 && scene.source.hang.out == 0; turn++)
        tasks_scene_turn_for (&scene, 20);
    assert_true (scene.source.hang.out > 0);
    assert_int_equal (scene.source.hang.late, 0);
    tasks_scene_plan.later_ms += 5000;
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    assert_int_equal (atomic_load (&tasks_scene_plan.own_files), SAMPLES);
    assert_true (scene.source.hang.late > 0);
    atomic_store (&tasks_scene_plan.copy_hangs, false);
    while (scene.source.hang.out > 0)
        assert_true (tasks_scene_turn_for (&scene, 20000));
    assert_int_equal (scene.source.hang.late, 0);
    tasks_scene_end (&scene);
}

//  A volume that cannot be read for as long as patience lasts ends the job, by its name, and costs no sample.
static void
test_a_failing_volume_is_told (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin_over (&scene, true);
    tasks_scene_plan.volumes_fail = true;
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, 0);
    assert_non_null (strstr (scene.ended, "storage: data set 'data' could not be read"));
    assert_non_null (strstr (scene.ended, "could not be read for 0 s: volume-0: cannot be read at "));
    assert_non_null (strstr (scene.ended, ": Input/output error. No sample is marked as bad"));
    json_t *status = broker_status (scene.broker, NULL, 0);
    assert_int_equal (json_integer_value (json_object_get (status, "bad_samples")), 0);
    json_decref (status);
    tasks_scene_end (&scene);
}

//  Must hold: what is found out of a file's rows is told when that file is prepared again, as long as it is
//  the same; and nothing is lent any more when all is over.
static void
test_rows_are_learned (void **state)
{
    (void) state;
    static const struct { uint32_t edition; int told; } runs [] = { { 1, 0 }, { 1, SAMPLES }, { 2, 0 },
        { 2, SAMPLES } };
    jpeg_row_index_budget_t budget = { .bytes_max = 1 << 20 };
    jpeg_row_index_t *rows = jpeg_row_index_new (SAMPLES, &budget);
    assert_non_null (rows);
    for (size_t run = 0; run < sizeof runs / sizeof *runs; run++) {
        tasks_scene_t scene;
        tasks_scene_plan.rows = rows;
        tasks_scene_plan.edition = runs [run].edition;
        tasks_scene_begin (&scene);
        atomic_store (&tasks_scene_plan.poor_preparing, 5);     //  one that is tried again has the same rows
        tasks_scene_run (&scene);
        assert_int_equal (scene.delivered, SAMPLES);
        assert_in_range (atomic_load (&tasks_scene_plan.told_rows), runs [run].told,
            runs [run].told? SAMPLES + 5: 0);
        tasks_scene_end (&scene);
        assert_int_equal (jpeg_row_index_samples (rows), SAMPLES);
    }
    tasks_scene_plan.rows = NULL;
    jpeg_row_index_destroy (&rows);
    assert_int_equal (budget.bytes, 0);
}

//  Must hold: a sample that is prepared a second time is kept decoded, unless that fails; then it is not
//  read, and one of which a file is missing is read.
static void
test_decoded_samples_are_not_read (void **state)
{
    (void) state;
    static const struct { bool is_packed; size_t count; uint64_t reads; int decoded; } runs [] = {
        { false, 0, SAMPLES, 0 }, { false, 2 * SAMPLES - 2, SAMPLES, 0 },
        { false, 2 * SAMPLES - 2, 1, 2 * SAMPLES - 2 }, { true, 2 * SAMPLES, 0, 2 * SAMPLES - 2 },
        { true, 2 * SAMPLES, 0, 2 * SAMPLES } };
    pictures_t *pictures = pictures_new (1 << 20);
    tasks_scene_plan.pictures = pictures_data_new (pictures, SAMPLES, DATASET_SOURCE_PICTURE_KINDS);
    for (size_t run = 0; run < sizeof runs / sizeof *runs; run++) {
        tasks_scene_t scene;
        if (runs [run].is_packed)
            tasks_scene_begin_over (&scene, true);
        else
            tasks_scene_begin (&scene);
        tasks_scene_plan.bad_mask = runs [run].is_packed? -1: 6;
        atomic_store (&tasks_scene_plan.poor_preparing, 5);
        atomic_store (&tasks_scene_plan.decoded, 0);
        tasks_scene_run (&scene);
        assert_int_equal (scene.delivered, runs [run].is_packed? SAMPLES: SAMPLES - 1);
        assert_int_equal (pictures_figures (tasks_scene_plan.pictures).count, runs [run].count);
        assert_in_range (atomic_load (&tasks_scene_plan.decoded), runs [run].decoded,
            runs [run].decoded + 10);
        if (!runs [run].is_packed)
            assert_int_equal (device_cost (scene.devices [0])->observed, runs [run].reads);
        assert_int_equal (scene.source.decoding.whole_ns > 0, run == 0);
        tasks_scene_end (&scene);
    }
    pictures_data_destroy (&tasks_scene_plan.pictures);
    pictures_settle (pictures);
    assert_int_equal (pictures_memory (pictures), 0);
    pictures_destroy (&pictures);
}

//  Must hold: of one file rows are known; the others get a checksum only where rows are found, and there is
//  room to keep them.
static void
test_what_is_learned_of_rows (void **state)
{
    (void) state;
    static const uint8_t bytes [2] = { 5, 0xa7 };
    enum { KNOWN = 5, KNOWN_CHECKSUM = 100 + KNOWN, FULL = 1, FINDS = 2, CASES = 4 };
    for (int flags = 0; flags < CASES; flags++) {
        jpeg_row_index_budget_t budget = { .bytes_max = 1 << 20 };
        jpeg_row_index_t *rows = jpeg_row_index_new (SAMPLES, &budget);
        assert_non_null (rows);
        jpeg_row_index_keep (rows, KNOWN, jpeg_row_index_entry (KNOWN_CHECKSUM, bytes, sizeof bytes));
        budget.is_full = flags & FULL;
        tasks_scene_t scene;
        tasks_scene_plan.rows = rows;
        tasks_scene_plan.edition = 0;
        tasks_scene_begin (&scene);
        tasks_scene_plan.finds_nothing = !(flags & FINDS);
        tasks_scene_run (&scene);
        assert_int_equal (scene.delivered, SAMPLES);
        uint32_t expected = flags == FINDS? SAMPLES: 1;
        assert_int_equal (atomic_load (&tasks_scene_plan.checksums), expected);
        assert_int_equal (jpeg_row_index_samples (rows), expected);
        tasks_scene_end (&scene);
        jpeg_row_index_destroy (&rows);
    }
    tasks_scene_plan.rows = NULL;
}

//  What the broker is told to read at once.
static const tasks_scene_t *s_scene;            //  NULL: it is not looked at
static size_t s_told;

void __real_dataset_set_fetches (broker_t *self, dataset_t *dataset, size_t fetches);
void __wrap_dataset_set_fetches (broker_t *self, dataset_t *dataset, size_t fetches);
void
__wrap_dataset_set_fetches (broker_t *self, dataset_t *dataset, size_t fetches)
{
    if (s_scene) {
        //  Both files of a sample lie on one device.
        size_t samples = (device_depth (s_scene->devices [0]) + 1) / 2;
        assert_int_equal (fetches, samples + samples / 4);
        s_told++;
    }
    __real_dataset_set_fetches (self, dataset, fetches);
}

//  Must hold: samples of several files fill a device's queue when fewer of them are read at once.
static void
test_files_of_a_sample_share_a_queue (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    scene.source.fields [1] = scene.devices [0];
    s_scene = &scene;
    tasks_scene_run (&scene);
    s_scene = NULL;
    assert_int_equal (s_told, SAMPLES);
    assert_int_equal (scene.delivered, SAMPLES);
    assert_int_equal (device_cost (scene.devices [0])->observed, 2 * SAMPLES);
    tasks_scene_end (&scene);
}

//  ---- side tasks

//  What the broker counts, of tenants that a number stands for; and the side task that the workers were given
//  last.
enum { TENANTS = 3 };
static char s_tenants [TENANTS];
static int s_waits [TENANTS];
static uint64_t s_paid_us [TENANTS], s_paid_ns [TENANTS];
static bool s_is_starting;
static const side_task_t *s_started;

static tenant_t *
s_tenant (size_t number)
{
    return (tenant_t *) (void *) &s_tenants [number];
}

static size_t
s_number (const tenant_t *tenant)
{
    return (size_t) ((const char *) (const void *) tenant - s_tenants);
}

void __wrap_tenant_side_task_waits (broker_t *self, tenant_t *tenant);
void
__wrap_tenant_side_task_waits (broker_t *self, tenant_t *tenant)
{
    (void) self;
    s_waits [s_number (tenant)]++;
}

void __wrap_tenant_side_task_took (broker_t *self, const tenant_t *tenant, uint32_t charged_us,
    uint64_t worker_ns);
void
__wrap_tenant_side_task_took (broker_t *self, const tenant_t *tenant, uint32_t charged_us, uint64_t worker_ns)
{
    (void) self;
    s_paid_us [s_number (tenant)] += charged_us;
    s_paid_ns [s_number (tenant)] += worker_ns;
}

void __wrap_tenant_side_task_gives_up (broker_t *self, tenant_t *tenant);
void
__wrap_tenant_side_task_gives_up (broker_t *self, tenant_t *tenant)
{
    (void) self;
    s_waits [s_number (tenant)]--;
}

void __real_pool_submit (pool_t *self, void *task);
void __wrap_pool_submit (pool_t *self, void *task);
void
__wrap_pool_submit (pool_t *self, void *task)
{
    //  Other pools take other things.
    if (s_is_starting)
        s_started = ((const task_t *) task)->side_task;
    __real_pool_submit (self, task);
}

typedef struct {
    side_task_t side_task;          //  first
    atomic_int *gate;               //  it waits until this is not 0
    atomic_int *begun;
    bool done;
    int answers;                    //  how often the broker's thread was told its end
} walk_t;

static size_t s_back, s_undone;     //  of all walks

static void
s_walk (side_task_t *side_task, decoder_t *decoder)
{
    walk_t *self = (walk_t *) side_task;
    assert (decoder && !self->done);
    atomic_fetch_add (self->begun, 1);
    while (atomic_load (self->gate) == 0)
        sched_yield ();
    self->done = true;
}

static void *
s_open_later (void *argument)
{
    atomic_int *gate = argument;
    nanosleep (&(struct timespec) { .tv_nsec = 20 * 1000 * 1000 }, NULL);
    atomic_store (gate, 1);
    return NULL;
}

static void
s_walked (side_task_t *side_task)
{
    walk_t *self = (walk_t *) side_task;
    assert_int_equal (self->answers++, 0);
    assert_int_equal (side_task->was_done, self->done);
    s_back++;
    s_undone += !self->done;
}

static void
s_add (tasks_scene_t *scene, walk_t *walk, size_t tenant, atomic_int *gate, atomic_int *begun)
{
    *walk = (walk_t) { .side_task = { .work = s_walk, .done = s_walked }, .gate = gate, .begun = begun };
    tasks_add_side_task (scene->tasks, s_tenant (tenant), &walk->side_task);
}

//  The broker lets the tenant's oldest begin: this one.
static void
s_assert_starts (tasks_scene_t *scene, size_t tenant, const walk_t *walk, uint32_t charged_us)
{
    s_waits [tenant]--;
    s_is_starting = true;
    tasks_start_side_task (scene->tasks, s_tenant (tenant), charged_us);
    s_is_starting = false;
    assert_ptr_equal (s_started, &walk->side_task);
}

static void
s_run (tasks_scene_t *scene, walk_t *walk, atomic_int *gate, atomic_int *begun)
{
    s_add (scene, walk, 0, gate, begun);
    s_assert_starts (scene, 0, walk, 0);
}

static void
s_forget_walks (void)
{
    s_back = s_undone = 0;
    memset (s_waits, 0, sizeof s_waits);
    memset (s_paid_us, 0, sizeof s_paid_us);
    memset (s_paid_ns, 0, sizeof s_paid_ns);
}

static void
s_collect_walks (tasks_scene_t *scene, size_t count)
{
    while (s_back < count) {
        tasks_collect (scene->tasks, clock_now_ms ());
        tasks_collect_side_tasks (scene->tasks);
    }
}

//  Guards: whichever tenant's turn it is, its oldest begins; first, last and in between.  Each pays for its
//  own.
static void
test_side_tasks_of_a_tenant_come_in_order (void **state)
{
    (void) state;
    enum { WALKS = 7 };
    static const size_t tenants [WALKS] = { 0, 1, 0, 2, 1, 0, 2 };
    tasks_scene_t scene;
    walk_t walks [WALKS];
    atomic_int open, begun;
    atomic_init (&open, 1);
    atomic_init (&begun, 0);
    tasks_scene_begin (&scene);
    s_forget_walks ();
    for (size_t index = 0; index < WALKS - 1; index++)
        s_add (&scene, &walks [index], tenants [index], &open, &begun);
    s_assert_starts (&scene, 1, &walks [1], 10);
    s_assert_starts (&scene, 0, &walks [0], 20);
    s_assert_starts (&scene, 0, &walks [2], 30);
    s_assert_starts (&scene, 0, &walks [5], 40);            //  the last of all
    s_add (&scene, &walks [6], tenants [6], &open, &begun);
    s_assert_starts (&scene, 2, &walks [3], 50);
    s_assert_starts (&scene, 2, &walks [6], 60);
    s_assert_starts (&scene, 1, &walks [4], 70);            //  the only one
    s_collect_walks (&scene, WALKS);
    static const uint64_t paid_us [TENANTS] = { 90, 80, 110 };
    for (size_t index = 0; index < WALKS; index++) {
        assert_true (walks [index].answers == 1 && walks [index].done);
        s_paid_ns [tenants [index]] -= walks [index].side_task.worker_ns;
    }
    for (size_t tenant = 0; tenant < TENANTS; tenant++) {
        assert_int_equal (s_paid_us [tenant], paid_us [tenant]);
        assert_int_equal (s_paid_ns [tenant], 0);
        assert_int_equal (s_waits [tenant], 0);
    }
    tasks_scene_end (&scene);
}

//  Guards: at the end each is told once whether it was done; what waits is taken from the broker's count.
static void
test_end_answers_all_side_tasks (void **state)
{
    (void) state;
    enum { WALKS = 6, STARTED = 2 };
    tasks_scene_t scene;
    walk_t walks [WALKS];
    atomic_int open, begun;
    atomic_init (&open, 1);
    atomic_init (&begun, 0);
    tasks_scene_begin (&scene);
    s_forget_walks ();
    for (size_t index = 0; index < WALKS; index++)
        s_add (&scene, &walks [index], index % 2, &open, &begun);
    s_assert_starts (&scene, 0, &walks [0], 10);
    s_assert_starts (&scene, 1, &walks [1], 10);
    s_collect_walks (&scene, STARTED);
    broker_gone (scene.broker, scene.job);
    scene.job = NULL;
    tasks_stop (scene.tasks);
    tasks_collect_side_tasks (scene.tasks);
    for (size_t index = 0; index < WALKS; index++) {
        assert_int_equal (walks [index].answers, 1);
        assert_int_equal (walks [index].side_task.was_done, index < STARTED);
    }
    assert_int_equal (s_undone, WALKS - STARTED);
    assert_int_equal (s_waits [0], 0);
    assert_int_equal (s_waits [1], 0);
    tasks_scene_end (&scene);
}

//  Side tasks go between a job's samples; all that may be out at once come back, also those that the end
//  finds in the queue.
static void
test_side_tasks_come_back (void **state)
{
    (void) state;
    tasks_scene_t scene;
    walk_t walks [TASKS_SIDE_TASKS_MAX];
    atomic_int open, shut, begun;
    atomic_init (&open, 1);
    atomic_init (&shut, 0);
    atomic_init (&begun, 0);
    tasks_scene_begin (&scene);
    s_forget_walks ();
    for (size_t index = 0; index < TASKS_SIDE_TASKS_MAX; index++)
        s_run (&scene, &walks [index], &open, &begun);
    tasks_scene_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    s_collect_walks (&scene, TASKS_SIDE_TASKS_MAX);
    assert_int_equal (s_undone, 0);
    for (size_t index = 0; index < TASKS_SIDE_TASKS_MAX; index++)
        assert_true (walks [index].side_task.worker_ns > 0);
    for (size_t index = 0; index < TASKS_SIDE_TASKS_MAX; index++)
        s_run (&scene, &walks [index], &shut, &begun);
    while (atomic_load (&begun) < TASKS_SIDE_TASKS_MAX + 3)        //  the three workers stand at the gate
        sched_yield ();
    broker_gone (scene.broker, scene.job);
    scene.job = NULL;
    //  One that is to be stopped lets what has begun end: the gate opens when the stop has been asked for.
    pthread_t opener;
    assert_int_equal (pthread_create (&opener, NULL, s_open_later, &shut), 0);
    tasks_stop (scene.tasks);
    pthread_join (opener, NULL);
    tasks_collect_side_tasks (scene.tasks);
    assert_int_equal (s_back, 2 * TASKS_SIDE_TASKS_MAX);
    tasks_scene_end (&scene);
}

//  Until the descriptors or the tasks' own time say so, as a server sleeps; at most limit_ms.
static void
s_sleep (tasks_scene_t *scene, int64_t limit_ms)
{
    int descriptors [TASKS_DESCRIPTORS];
    struct pollfd items [TASKS_DESCRIPTORS];
    tasks_descriptors (scene->tasks, descriptors);
    for (size_t index = 0; index < TASKS_DESCRIPTORS; index++)
        items [index] = (struct pollfd) { .fd = descriptors [index], .events = POLLIN };
    int64_t due_ms = tasks_wakeup (scene->tasks), now_ms = clock_now_ms ();
    int64_t wait_ms = due_ms < now_ms? 0: due_ms - now_ms < limit_ms? due_ms - now_ms: limit_ms;
    poll (items, TASKS_DESCRIPTORS, (int) wait_ms);
}

//  What is done does not wait for what the workers do next, however long that takes: the first side tasks,
//  one for each worker, end when so many others wait that the broker is told of none.
static void
test_done_does_not_wait_for_others (void **state)
{
    (void) state;
    enum { WORKERS = 3, WALKS = 4 * WORKERS, PATIENCE = 10000 };
    tasks_scene_t scene;
    walk_t walks [WALKS];
    atomic_int first, shut, begun;
    atomic_init (&first, 0);
    atomic_init (&shut, 0);
    atomic_init (&begun, 0);
    tasks_scene_begin (&scene);
    tasks_scene_run (&scene);
    s_forget_walks ();
    for (size_t index = 0; index < WALKS; index++)
        s_run (&scene, &walks [index], index < WORKERS? &first: &shut, &begun);
    atomic_store (&first, 1);
    while (atomic_load (&begun) < 2 * WORKERS)
        sched_yield ();
    int64_t begin_ms = clock_now_ms ();
    while (s_back < WORKERS && clock_now_ms () < begin_ms + PATIENCE) {
        s_sleep (&scene, PATIENCE);
        tasks_collect (scene.tasks, clock_now_ms ());
        tasks_collect_side_tasks (scene.tasks);
    }
    assert_true (clock_now_ms () < begin_ms + PATIENCE);
    atomic_store (&shut, 1);
    while (s_back < WALKS) {
        s_sleep (&scene, PATIENCE);
        tasks_collect (scene.tasks, clock_now_ms ());
        tasks_collect_side_tasks (scene.tasks);
    }
    assert_int_equal (s_undone, 0);
    tasks_scene_end (&scene);
}

//  Lets the server work until so many workers hang in a stage.
static void
s_wait_for_hanging (tasks_scene_t *scene, int count)
{
    while (atomic_load (&tasks_scene_plan.hanging) != count)
        tasks_scene_turn_for (scene, 10);
}

//  A private stage may take for ever: it ends with its job, which is freed then.
static void
test_copies_of_a_job_that_is_over_are_left (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    atomic_store (&tasks_scene_plan.private_hang, true);
    s_wait_for_hanging (&scene, 3);                 //  each worker has one
    broker_gone (scene.broker, scene.job);
    while (scene.job)
        tasks_scene_turn_for (&scene, 10);
    assert_int_equal (atomic_load (&tasks_scene_plan.hanging), 0);
    tasks_scene_end (&scene);
}

//  A shared stage ends with its job, too, where no other job wants the version.
static void
test_versions_that_nobody_wants_are_left (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_begin (&scene);
    atomic_store (&tasks_scene_plan.shared_hang, true);
    s_wait_for_hanging (&scene, 3);
    broker_gone (scene.broker, scene.job);
    atomic_store (&tasks_scene_plan.shared_hang, false);
    s_wait_for_hanging (&scene, 0);
    tasks_scene_end (&scene);
}

typedef struct {
    const char *stage, *dataset, *tenant;       //  tenant: NULL: there are no others
    uint64_t job;
} long_task_t;

//  How many tasks status would name to the tenant at now_ms (NULL: to those that see all), each as expected.
static size_t
s_long_tasks (const tasks_scene_t *scene, const tenant_t *tenant, int64_t now_ms, long_task_t expected)
{
    json_t *list = tasks_long_status (scene->tasks, tenant, now_ms), *task;
    size_t index, count = json_array_size (list);
    json_array_foreach (list, index, task) {
        assert_string_equal (json_string_value (json_object_get (task, "stage")), expected.stage);
        assert_string_equal (json_string_value (json_object_get (task, "dataset")), expected.dataset);
        assert_in_range (json_integer_value (json_object_get (task, "sample")), 0, SAMPLES - 1);
        assert_int_equal (json_integer_value (json_object_get (task, "job")), expected.job);
        double seconds = json_real_value (json_object_get (task, "seconds"));
        assert_true (seconds > TASKS_LONG_MS / 1000 && seconds < 10 * TASKS_LONG_MS / 1000);
        const char *of = json_string_value (json_object_get (task, "tenant"));
        assert_string_equal (of? of: "none", expected.tenant? expected.tenant: "none");
    }
    json_decref (list);
    return count;
}

//  Whether status would name any if it were very late.
static bool
s_is_busy (const tasks_scene_t *scene)
{
    json_t *list = tasks_long_status (scene->tasks, NULL, INT64_MAX / 2);
    size_t count = json_array_size (list);
    json_decref (list);
    return count > 0;
}

static int64_t
s_late_ms (void)
{
    return clock_now_ms () + TASKS_LONG_MS + 1;
}

//  The job is over; its tasks, and short ones that still run, end.
static void
s_let_go (tasks_scene_t *scene, job_t *job, atomic_bool *hangs)
{
    broker_gone (scene->broker, job);
    atomic_store (hangs, false);
    s_wait_for_hanging (scene, 0);
    while (s_is_busy (scene) || broker_jobs (scene->broker, NULL) > 0)
        tasks_scene_turn_for (scene, 10);
}

//  What threads have had for more than ten seconds is told; without tenants, to all.
static void
test_long_tasks_are_told (void **state)
{
    (void) state;
    tasks_scene_t scene;
    for (int round = 0; round < 2; round++) {
        int64_t early_ms = clock_now_ms () + TASKS_LONG_MS;
        atomic_bool *hangs = round? &tasks_scene_plan.shared_hang: &tasks_scene_plan.private_hang;
        tasks_scene_begin (&scene);
        atomic_store (hangs, true);
        s_wait_for_hanging (&scene, 3);
        long_task_t task = { round? "shared": "private", "data", NULL, job_id (scene.job) };
        assert_int_equal (s_long_tasks (&scene, NULL, early_ms, task), 0);
        assert_int_equal (s_long_tasks (&scene, NULL, s_late_ms (), task), 3);
        s_let_go (&scene, scene.job, hangs);
        tasks_scene_end (&scene);
    }
}

//  A tenant hears of its own jobs' tasks alone, of either stage; an operator of both tenants', with names.
static void
test_long_tasks_of_others_are_not_told (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_plan.has_tenants = true;
    for (int round = 0; round < 2; round++) {
        atomic_bool *hangs = round? &tasks_scene_plan.shared_hang: &tasks_scene_plan.private_hang;
        tasks_scene_begin (&scene);
        long_task_t task = { round? "shared": "private", "data", "a", job_id (scene.job) };
        for (size_t tenant = 0; tenant < 2; tenant++) {
            job_t *job = scene.job;
            if (tenant == 1) {
                job = tasks_scene_join (&scene, scene.tenants [1], scene.datasets [1]);
                task = (long_task_t) { task.stage, "secret", "b", job_id (job) };
            }
            atomic_store (hangs, true);
            s_wait_for_hanging (&scene, 3);
            assert_int_equal (s_long_tasks (&scene, scene.tenants [tenant], s_late_ms (), task), 3);
            assert_int_equal (s_long_tasks (&scene, NULL, s_late_ms (), task), 3);
            assert_int_equal (s_long_tasks (&scene, scene.tenants [1 - tenant], s_late_ms (), task), 0);
            s_let_go (&scene, job, hangs);
        }
        tasks_scene_end (&scene);
    }
    tasks_scene_plan.has_tenants = false;
}

//  Of a version for which jobs of both wait, each hears of its own job.
static void
test_long_tasks_of_two_tenants (void **state)
{
    (void) state;
    tasks_scene_t scene;
    tasks_scene_plan.has_tenants = true;
    tasks_scene_begin (&scene);
    job_t *other = tasks_scene_join (&scene, scene.tenants [1], scene.datasets [0]);
    atomic_store (&tasks_scene_plan.shared_hang, true);
    s_wait_for_hanging (&scene, 3);
    long_task_t mine = { "shared", "data", "a", job_id (scene.job) },
        others = { "shared", "data", "b", job_id (other) };
    assert_int_equal (s_long_tasks (&scene, scene.tenants [0], s_late_ms (), mine), 3);
    assert_int_equal (s_long_tasks (&scene, scene.tenants [1], s_late_ms (), others), 3);
    broker_gone (scene.broker, other);
    s_let_go (&scene, scene.job, &tasks_scene_plan.shared_hang);
    tasks_scene_end (&scene);
    tasks_scene_plan.has_tenants = false;
}

//  A server that ends waits for no stage of either kind.
static void
test_the_end_waits_for_no_stage (void **state)
{
    (void) state;
    tasks_scene_t scene;
    for (int round = 0; round < 2; round++) {
        tasks_scene_begin (&scene);
        atomic_store (round? &tasks_scene_plan.shared_hang: &tasks_scene_plan.private_hang, true);
        s_wait_for_hanging (&scene, 3);
        tasks_scene_end (&scene);
    }
}

//  Guards: on a small machine what is read ahead has a small part of the memory.
static void
test_what_is_read_ahead_has_a_part_of_the_memory (void **state)
{
    (void) state;
    const uint64_t mib = 1 << 20;
    assert_int_equal (ahead_reads_bytes_most (512 * mib), 32 * mib);
    assert_int_equal (ahead_reads_bytes_most (2048 * mib), AHEAD_READS_BYTES);
    assert_int_equal (ahead_reads_bytes_most (UINT64_MAX), AHEAD_READS_BYTES);
}

static int
s_forget (void **state)
{
    s_scene = NULL;
    s_is_starting = false;
    return tasks_scene_forget (state);
}

#define CASE(function) cmocka_unit_test_teardown (function, s_forget)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        CASE (test_all_fields_come_to_their_rows),
        CASE (test_each_device_learns_by_itself),
        CASE (test_a_device_comes_and_goes),
        CASE (test_the_file_at_fault_is_named),
        CASE (test_what_does_not_suit_is_not_bad),
        CASE (test_workers_time_is_told),
        CASE (test_large_decoders_are_made_anew),
        CASE (test_samples_of_a_copy_come_to_their_rows),
        CASE (test_a_lost_sample_without_a_file_is_bad),
        CASE (test_a_copy_that_hangs_is_left),
        CASE (test_packed_samples_come_to_their_rows),
        CASE (test_a_failing_volume_is_told),
        CASE (test_rows_are_learned), CASE (test_decoded_samples_are_not_read),
        CASE (test_what_is_learned_of_rows),
        CASE (test_files_of_a_sample_share_a_queue),
        CASE (test_side_tasks_of_a_tenant_come_in_order),
        CASE (test_end_answers_all_side_tasks),
        CASE (test_side_tasks_come_back),
        CASE (test_done_does_not_wait_for_others),
        CASE (test_copies_of_a_job_that_is_over_are_left),
        CASE (test_versions_that_nobody_wants_are_left),
        CASE (test_long_tasks_are_told),
        CASE (test_long_tasks_of_others_are_not_told),
        CASE (test_long_tasks_of_two_tenants),
        CASE (test_what_is_read_ahead_has_a_part_of_the_memory),
        CASE (test_the_end_waits_for_no_stage)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
