/*  Data sets that come and go while the server runs: broker, tasks, files and the thread that opens are real;
 *  there are no sockets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <pthread.h>
#include <cmocka.h>
#include "additions.h"
#include "clock.h"
#include "job.h"
#include "packing.h"
#include "scratch.h"
#include "served.h"
#include "tenant.h"

enum { BATCH = 4, SLOTS = 2, WORDS_MAX = 24 };

typedef struct {
    scratch_folder_t scratch;
    options_t options;
    broker_t *broker;
    served_sets_t sets;
    tasks_t *tasks;
    additions_t *additions;
    log_t log;
    int kept;
    size_t raw_bytes;           //  for compressed samples
    const char *text;           //  of the last additions_add
    refusal_t refusal;
    int64_t ahead_ms;           //  of the clock: seconds that have passed, as far as the additions know
    //  a job
    const pipeline_t *pipeline;
    layout_t layout;
    uint8_t *ring;
    job_t *job;
    size_t delivered;
    bool finished;
    char ended [200];
} world_t;

//  ---- files

static void
s_write (const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    assert_int_equal (fwrite (bytes, 1, size, file), size);
    assert_int_equal (fclose (file), 0);
}

//  SCRATCH/NAME/CLASS/00.ppm ..: pictures of 2 x 2.
static void
s_make_class (const world_t *world, const char *name, const char *class, int count)
{
    char path [256];
    uint8_t picture [] = "P6 2 2 255\n............";
    snprintf (path, sizeof path, "%s/%s", world->scratch.path, name);
    mkdir (path, 0700);
    snprintf (path, sizeof path, "%s/%s/%s", world->scratch.path, name, class);
    assert_int_equal (mkdir (path, 0700), 0);
    for (int index = 0; index < count; index++) {
        picture [11] = (uint8_t) index;
        snprintf (path, sizeof path, "%s/%s/%s/%02d.ppm", world->scratch.path, name, class, index);
        s_write (path, picture, sizeof picture - 1);
    }
}

static void
s_make_pack (const world_t *world, const char *of, const char *name)
{
    char from [256], to [256], error [PACK_SOURCE_ERROR_BYTES];
    const char *path = from;
    snprintf (from, sizeof from, "%s/%s", world->scratch.path, of);
    snprintf (to, sizeof to, "%s/%s", world->scratch.path, name);
    packing_options_t options = { .source = { .paths = &path, .path_count = 1 }, .target = to,
        .has_seed = true, .seed = 1,
        .memory_bytes = PACKING_MEMORY_BYTES_MIN };
    packing_result_t result;
    if (packing_run (&options, &result, error))
        fail_msg ("%s", error);
}

//  ---- folders that hang: those with `hang` in their path, until s_answer

static pthread_mutex_t s_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t s_changed = PTHREAD_COND_INITIALIZER;
static bool s_hangs;
static int s_hanging;

int __real_catalogue_open (catalogue_t **self_p, const catalogue_options_t *options, char *error,
    size_t error_bytes);
int __wrap_catalogue_open (catalogue_t **self_p, const catalogue_options_t *options, char *error,
    size_t error_bytes);

int
__wrap_catalogue_open (catalogue_t **self_p, const catalogue_options_t *options, char *error,
    size_t error_bytes)
{
    if (strstr (options->path, "hang")) {
        pthread_mutex_lock (&s_mutex);
        s_hanging++;
        pthread_cond_broadcast (&s_changed);
        while (s_hangs)
            pthread_cond_wait (&s_changed, &s_mutex);
        s_hanging--;
        pthread_mutex_unlock (&s_mutex);
    }
    return __real_catalogue_open (self_p, options, error, error_bytes);
}

static void
s_hang (void)
{
    pthread_mutex_lock (&s_mutex);
    s_hangs = true;
    pthread_mutex_unlock (&s_mutex);
}

static void
s_await_hanging (int count)
{
    pthread_mutex_lock (&s_mutex);
    while (s_hanging < count)
        pthread_cond_wait (&s_changed, &s_mutex);
    pthread_mutex_unlock (&s_mutex);
}

static void
s_answer (void)
{
    pthread_mutex_lock (&s_mutex);
    s_hangs = false;
    pthread_cond_broadcast (&s_changed);
    pthread_mutex_unlock (&s_mutex);
}

//  ---- a server

//  Its settings, blank-separated; # stands for the scratch folder.
static void
s_words (const world_t *world, const char *text, char copy [2048])
{
    size_t used = 0;
    for (; *text; text++)
        used += (size_t) snprintf (copy + used, 2048 - used, *text == '#'? "%s": "%.1s",
            *text == '#'? world->scratch.path: text);
    copy [used] = 0;
}

static void
s_start_with (world_t *world, const char *arguments)
{
    char copy [2048], error [512], *rest = copy, *argv [WORDS_MAX + 1] = { (char *) "serve" };
    int argc = 1;
    s_words (world, arguments, copy);
    for (char *word; argc < WORDS_MAX && (word = strsep (&rest, " "));)
        argv [argc++] = word;
    if (options_parse (&world->options, argc, argv, error, sizeof error) != OPTION_RUN)
        fail_msg ("%s", error);
    char *text = additions_kept_read (world->kept);
    world->sets = (served_sets_t) { .changes = text? json_loads (text, 0, NULL): NULL };
    free (text);
    broker_options_t broker = { .cache_bytes = 1 << 24, .raw_bytes = world->raw_bytes, .workers = 2,
        .jobs_bytes_max = 1 << 26, .seed = 3 };
    world->broker = broker_new (&broker);
    assert_true (served_open (&world->sets, world->broker, &world->options));
    tasks_options_t tasks = { .broker = world->broker, .workers = 2, .devices = world->sets.devices.all,
        .device_count = world->sets.devices.count, .buffer_bytes = 1 << 22 };
    const char *path;
    assert_int_equal (tasks_new (&world->tasks, &tasks, &path), 0);
    for (size_t index = 0; index < world->options.tenant_count; index++) {
        broker_tenant_t tenant = { .name = world->options.tenants [index].name, .weight = 1 };
        tenant_add (world->broker, &tenant);
    }
    served_allow (&world->sets);
    additions_options_t additions = { .broker = world->broker, .sets = &world->sets,
        .tasks = world->tasks, .log = &world->log, .kept = world->kept };
    world->additions = additions_new (&additions);
    assert_non_null (world->additions);
}

static void
s_stop (world_t *world)
{
    if (world->job)
        broker_gone (world->broker, world->job);
    tasks_stop (world->tasks);
    for (action_t action; broker_next (world->broker, &action);)
        if (action.kind == ACTION_RECLAIM)
            broker_reclaim (world->broker, action.job);
    world->job = NULL;
    additions_destroy (&world->additions);
    tasks_destroy (&world->tasks);
    broker_destroy (&world->broker);
    served_close (&world->sets);
    options_clear (&world->options);
    pipeline_destroy (&world->pipeline);
    free (world->ring);
    world->ring = NULL;
}

static int
begin (void **state)
{
    world_t *world = calloc (1, sizeof *world);
    *state = world;
    alarm (300);
    if (!world || !scratch_begin (&world->scratch))
        return -1;
    world->log.descriptor = open ("/dev/null", O_WRONLY | O_CLOEXEC);
    world->kept = additions_kept_memory ();
    world->raw_bytes = 1 << 24;
    s_make_class (world, "train", "cat", 20);
    s_make_class (world, "train", "dog", 20);
    s_make_class (world, "val", "cat", 8);
    s_make_class (world, "val", "eel", 8);
    s_start_with (world, "--dataset train=#/train --workers 2");
    return 0;
}

static int
end (void **state)
{
    world_t *world = *state;
    s_answer ();                        //  a test that failed has not said so
    s_stop (world);
    close (world->log.descriptor);
    close (world->kept);
    bool clean = scratch_end (&world->scratch);
    free (world);
    return clean? 0: -1;
}

static void
s_carry_out (world_t *world, const action_t *action)
{
    if (action->kind == ACTION_READ)
        tasks_read (world->tasks, action->request);
    if (action->kind == ACTION_PREPARE)
        tasks_prepare (world->tasks, action->version);
    if (action->kind == ACTION_COPY)
        tasks_copy (world->tasks, action->row, &world->layout,
            world->ring + row_slot (action->row) * world->layout.slot_bytes);
    if (action->kind == ACTION_SEND_BATCH) {
        uint32_t rows [BATCH];
        uint64_t ids [BATCH];
        world->delivered += rank_batch_rows (job_rank (world->job, 0), action->batch.slot, rows, ids);
        uint64_t after = action->batch.sequence + 1;
        wire_progress_t progress = { .consumed = after, .released = after };
        assert_true (broker_progress (world->broker, job_rank (world->job, 0), &progress, 1,
            &world->refusal));
    }
    world->finished = world->finished || action->kind == ACTION_SEND_EPOCH_END;
    if (action->kind == ACTION_SEND_ENDED)
        snprintf (world->ended, sizeof world->ended, "%s: %s", action->reason, action->message);
    if (action->kind == ACTION_RECLAIM) {
        world->job = NULL;
        broker_reclaim (world->broker, action->job);
    }
}

//  One turn of the loop.
static void
s_turn (world_t *world)
{
    struct pollfd items [TASKS_DESCRIPTORS + 1] = { { .fd = additions_descriptor (world->additions),
        .events = POLLIN } };
    int descriptors [TASKS_DESCRIPTORS];
    action_t action;
    tasks_collect (world->tasks, clock_now_ms ());
    while (tasks_next_news (world->tasks));
    broker_advance (world->broker, clock_now_ms ());
    while (broker_next (world->broker, &action))
        s_carry_out (world, &action);
    additions_act (world->additions, clock_now_ms () + world->ahead_ms);
    tasks_descriptors (world->tasks, descriptors);
    for (size_t index = 0; index < TASKS_DESCRIPTORS; index++)
        items [index + 1] = (struct pollfd) { .fd = descriptors [index], .events = POLLIN };
    poll (items, TASKS_DESCRIPTORS + 1, 1);
}

static additions_state_t
s_ask (world_t *world, const char *text)
{
    char copy [2048], *rest = copy;
    const char *words [WORDS_MAX];
    size_t count = 0;
    s_words (world, text, copy);
    for (char *word; count < WORDS_MAX && (word = strsep (&rest, " "));)
        words [count++] = word;
    return additions_add (world->additions, words, count, &world->text, &world->refusal);
}

//  As a client does: until it is there, or refused.
static additions_state_t
s_add (world_t *world, const char *text)
{
    additions_state_t state;
    while ((state = s_ask (world, text)) == ADDITIONS_OPENING) {
        assert_true (strlen (world->text) > 0);
        s_turn (world);
    }
    return state;
}

static void
s_added (world_t *world, const char *text, const char *line)
{
    if (s_add (world, text) != ADDITIONS_READY)
        fail_msg ("%s: %s: %s", text, world->refusal.code, world->refusal.message);
    if (!strstr (world->text, line))
        fail_msg ("no '%s' in '%s'", line, world->text);
}

static void
s_refused (world_t *world, const char *text, const char *code, const char *fragment)
{
    if (s_add (world, text) != ADDITIONS_REFUSED)
        fail_msg ("taken: %s", text);
    if (strcmp (world->refusal.code, code) || !strstr (world->refusal.message, fragment))
        fail_msg ("%s: %s: %s", text, world->refusal.code, world->refusal.message);
}

static void
s_removed (world_t *world, const char *name, bool now)
{
    if (!additions_remove (world->additions, name, now, 0, &world->refusal))
        fail_msg ("%s: %s", world->refusal.code, world->refusal.message);
    assert_null (dataset_named (world->broker, NULL, name));
}

//  Until only so many data sets are left, the removed ones included.
static void
s_turn_until (world_t *world, size_t count)
{
    while (world->sets.count > count)
        s_turn (world);
}

//  Until what an earlier process had added is there, or left out.
static void
s_turn_until_open (world_t *world)
{
    do
        s_turn (world);
    while (additions_is_busy (world->additions));
}

//  ---- jobs

static void
s_join (world_t *world, const char *name, uint64_t epochs)
{
    dataset_t *dataset = dataset_named (world->broker, NULL, name);
    assert_non_null (dataset);
    pipeline_source_t source = { .fields = { { .name = "image" } }, .count = 1 };
    json_t *list = json_loads ("[{\"op\": \"decode\"}, {\"op\": \"resize\", \"size\": [2, 2]}]", 0, NULL);
    char error [256];
    pipeline_destroy (&world->pipeline);
    free (world->ring);
    if (pipeline_new (&world->pipeline, list, &source, NULL, 0, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (list);
    assert_int_equal (layout_of (&world->layout, world->pipeline, dataset_source_of (dataset)->catalogue,
        BATCH), LAYOUT_OK);
    world->ring = calloc (SLOTS, world->layout.slot_bytes);
    broker_terms_t join = { .dataset = dataset, .pipeline = world->pipeline, .world_size = 1,
        .batch_size = BATCH,
        .slots = SLOTS, .epochs = epochs, .slot_bytes = world->layout.slot_bytes,
        .fresh_run = "00000000000000000000000000000001" };
    world->job = broker_join (world->broker, &join, clock_now_ms (), &world->refusal);
    assert_non_null (world->job);
    world->delivered = 0;
    world->finished = false;
    *world->ended = 0;
    rank_set_user (job_rank (world->job, 0), world, false);
    broker_attached (world->broker, job_rank (world->job, 0), clock_now_ms ());
}

//  All samples of the data set come, once.
static void
s_run (world_t *world, const char *name, size_t samples)
{
    s_join (world, name, 1);
    while (!world->finished && !*world->ended)
        s_turn (world);
    assert_string_equal (world->ended, "");
    assert_int_equal (world->delivered, samples);
    while (world->job) {
        if (!*world->ended)
            broker_gone (world->broker, world->job);
        s_turn (world);
    }
}

//  ---- tests

//  A folder is added while a job of another one runs, and both are served; again it is ready at once.  Its
//  lines tell what was found, and what it has not in common with a split of the same set.
static void
test_a_folder_while_a_job_runs (void **state)
{
    world_t *world = *state;
    s_join (world, "train", 0);
    while (world->delivered < 10)
        s_turn (world);
    s_added (world, "--dataset val=#/val", "data set 'val': 16 samples in 2 classes, ");
    assert_non_null (strstr (world->text, "warning: data sets 'train' and 'val' do not have the same "
        "classes"));
    assert_int_equal (s_ask (world, "--dataset val=#/val/"), ADDITIONS_READY);
    assert_int_equal (s_ask (world, "--dataset train=#/train"), ADDITIONS_READY);
    size_t before = world->delivered;
    while (world->delivered < before + 10)
        s_turn (world);
    //  One device reads both.
    assert_int_equal (world->sets.devices.count, 1);
    assert_false (additions_remove (world->additions, "train", false, 1, &world->refusal));
    assert_string_equal (world->refusal.code, "in_use");
    assert_non_null (strstr (world->refusal.message, "2 jobs"));
    s_removed (world, "train", true);
    while (!*world->ended)
        s_turn (world);
    assert_string_equal (world->ended, "removed: data set 'train' was removed from the server");
    s_turn_until (world, 1);
    s_run (world, "val", 16);
    //  No warning speaks of what is gone.
    assert_int_equal (s_ask (world, "--dataset val=#/val"), ADDITIONS_READY);
    assert_null (strstr (world->text, "train"));
}

//  Failures are forgotten, and one more thread opens.
static void
s_let_seconds_pass (world_t *world)
{
    for (int times = 0; times < 3; times++, world->ahead_ms += 6000)
        additions_act (world->additions, clock_now_ms () + world->ahead_ms);
}

//  What cannot be opened says why, and leaves nothing; what comes seconds later is opened again.
static void
test_refusals (void **state)
{
    world_t *world = *state;
    s_refused (world, "--dataset new=#/new", "cannot_open", "data set 'new': ");
    s_refused (world, "--dataset val=#/val --dataset new=#/new", "cannot_open", "data set 'new': ");
    assert_null (dataset_named (world->broker, NULL, "val"));
    //  Behind one that was found, one that is no pack: all or none.
    s_refused (world, "--dataset val=#/val --dataset p=#/train --tier p=direct", "cannot_open",
        "tier and piece");
    s_refused (world, "--workers 3 --dataset val=#/val", "bad_request", "workers");
    s_refused (world, "--dataset train=#/val", "taken", "data set 'train' is there already, in ");
    s_refused (world, "--dataset train=#/train --on-bad train=fail", "taken", "another setting of on-bad");
    s_refused (world, "--dataset val=#/val --classes-from val=none", "bad_request", "no data set 'none'");
    assert_false (additions_remove (world->additions, "none", false, 0, &world->refusal));
    assert_string_equal (world->refusal.code, "unknown_dataset");
    assert_string_equal (world->refusal.message, "no data set 'none'; this server has: train");
    assert_int_equal (world->sets.count, 1);
    s_make_class (world, "new", "cat", 3);
    s_let_seconds_pass (world);
    s_added (world, "--dataset new=#/new", "data set 'new': 3 samples");
    s_run (world, "new", 3);
}

//  Begins an opening of a folder that hangs, and returns when a thread is done with it.
static void
s_find (world_t *world, const char *words)
{
    struct pollfd item = { .fd = additions_descriptor (world->additions), .events = POLLIN };
    s_turn (world);                     //  earlier results are taken
    s_hang ();
    assert_int_equal (s_ask (world, words), ADDITIONS_OPENING);
    s_await_hanging (1);
    s_answer ();
    assert_int_equal (poll (&item, 1, -1), 1);
}

//  A failure is told at once, to all that ask, and of no use to a client that comes seconds later.  It holds
//  up no removal.
static void
test_when_failures_are_told (void **state)
{
    world_t *world = *state;
    static const char words [] = "--dataset new=#/hang --classes-from new=train";
    s_find (world, words);
    for (int client = 0; client < 2; client++) {
        assert_int_equal (s_ask (world, words), ADDITIONS_REFUSED);
        assert_string_equal (world->refusal.code, "cannot_open");
        s_turn (world);
    }
    for (int told = 0; told < 2; told++) {
        s_let_seconds_pass (world);
        s_find (world, words);
    }
    s_removed (world, "train", false);
}

//  All clients that wait for what is removed are told so, and none begins it anew.
static void
test_two_that_wait (void **state)
{
    world_t *world = *state;
    s_make_class (world, "hang", "cat", 2);
    s_hang ();
    for (int client = 0; client < 2; client++)
        assert_int_equal (s_ask (world, "--dataset new=#/hang"), ADDITIONS_OPENING);
    s_await_hanging (1);
    s_removed (world, "new", false);
    for (int client = 0; client < 2; client++) {
        s_refused (world, "--dataset new=#/hang", "cannot_open", "data set 'new' was removed while it was "
            "being added: add it again in 5 seconds");
        s_turn (world);
    }
    s_let_seconds_pass (world);
    assert_int_equal (s_ask (world, "--dataset new=#/hang"), ADDITIONS_OPENING);
    s_answer ();
    s_added (world, "--dataset new=#/hang", "data set 'new': 2");
}

//  While one is being opened, another one of its name is refused, and the same one in other words waits.
static void
test_two_of_one_name (void **state)
{
    world_t *world = *state;
    assert_int_equal (s_ask (world, "--dataset val=#/val"), ADDITIONS_OPENING);
    s_refused (world, "--dataset val=#/train", "taken", "data set 'val' is there already");
    s_added (world, "--on-bad val=drop --dataset val=#/val", "data set 'val': 16");
    assert_int_equal (world->sets.count, 2);
}

//  Several in one message; labels by the classes of one of them, or of the server.
static void
test_classes_of_others (void **state)
{
    world_t *world = *state;
    s_make_class (world, "part", "eel", 2);
    s_added (world, "--classes-from part=val --dataset part=#/part --dataset val=#/val",
        "data set 'part': 2");
    const served_t *part = served_named (&world->sets, "part");
    assert_int_equal (catalogue_classes (part->source.catalogue), 2);
    //  Another one that took its name would number what is added later otherwise.
    for (int now = 0; now < 2; now++) {
        assert_false (additions_remove (world->additions, "val", now, 0, &world->refusal));
        assert_string_equal (world->refusal.code, "in_use");
        assert_non_null (strstr (world->refusal.message, "'part' goes by the classes of 'val'"));
    }
    s_join (world, "part", 0);
    s_removed (world, "part", true);
    s_removed (world, "val", false);
    assert_string_equal (catalogue_class_name (part->source.catalogue, 1), "eel");
    s_turn_until (world, 1);
    s_turn (world);
    assert_int_equal (world->sets.gone_count, 0);
    s_refused (world, "--dataset part=#/part --classes-from part=val", "bad_request", "no data set 'val'");
}

//  One that goes by others' classes is not told to go by others' classes.
static void
test_remedies_of_splits (void **state)
{
    world_t *world = *state;
    s_make_class (world, "one", "cat", 2);
    s_make_class (world, "part", "cat", 2);
    s_added (world, "--dataset one=#/one", "or number by names (--classes-from one=train)");
    s_added (world, "--dataset part=#/part --classes-from part=one", "--allow-empty part=yes");
    assert_null (strstr (world->text, "--classes-from"));
}

//  A name is free at once, for other files.  What they are is seen by the jobs that come.
static void
test_again_under_another_path (void **state)
{
    world_t *world = *state;
    for (int round = 0; round < 3; round++) {
        s_added (world, "--dataset val=#/val", "data set 'val': 16");
        s_run (world, "val", 16);
        s_removed (world, "val", false);
        s_added (world, "--dataset val=#/train", "data set 'val': 40");
        s_run (world, "val", 40);
        s_removed (world, "val", false);
    }
    s_turn_until (world, 1);
    assert_int_equal (s_ask (world, "--dataset train=#/train"), ADDITIONS_READY);
    s_run (world, "train", 40);
}

//  A pack, the first one of this server, has a device of its own, which goes with it.
static void
test_a_pack_as_the_first (void **state)
{
    world_t *world = *state;
    s_make_pack (world, "train", "pack");
    s_make_pack (world, "val", "small");
    for (int round = 0; round < 2; round++) {
        s_added (world, "--dataset pack=#/pack --piece pack=8", "data set 'pack': 40 samples");
        assert_int_equal (world->sets.devices.count, 2);
        s_added (world, "--dataset small=#/small", "data set 'small': 16 samples");
        assert_int_equal (world->sets.devices.count, 3);
        //  The second one believes what the first one has measured, and not what it measured beside jobs.
        const cost_t *one = device_cost (world->sets.devices.all [1]), *other = device_cost (
            world->sets.devices.all [2]);
        assert_true (one->latency_seconds == other->latency_seconds);
        s_run (world, "pack", 40);
        s_run (world, "small", 16);
        s_removed (world, "pack", false);
        s_turn_until (world, 2);
        assert_int_equal (world->sets.devices.count, 2);
        s_run (world, "small", 16);
        s_removed (world, "small", false);
        s_turn_until (world, 1);
        assert_int_equal (world->sets.devices.count, 1);
    }
    s_run (world, "train", 40);
}

//  The broker does not take the second one, for which there is too little memory: the first one goes again.
static void
test_one_that_cannot_be_placed (void **state)
{
    world_t *world = *state;
    s_make_pack (world, "train", "pack");
    s_stop (world);
    world->raw_bytes = 100;
    s_start_with (world, "--dataset train=#/train");
    s_refused (world, "--dataset val=#/val --dataset pack=#/pack", "cannot_open",
        "bytes for compressed samples are too few");
    assert_null (dataset_named (world->broker, NULL, "val"));
    assert_null (dataset_named (world->broker, NULL, "pack"));
    s_turn_until (world, 1);
    assert_int_equal (world->sets.devices.count, 1);
    s_added (world, "--dataset val=#/val", "data set 'val': 16");
    s_run (world, "val", 16);
}

static bool
s_awaits (const additions_t *additions, const tenant_t *tenant, const char *name)
{
    char message [200];
    refusal_t refusal;
    if (additions_allows (additions, tenant, name, &refusal))
        return false;
    snprintf (message, sizeof message, "data set '%s' is being opened again: the server was started again "
        "a moment ago", name);
    assert_string_equal (refusal.code, "opening");
    assert_string_equal (refusal.message, message);
    return true;
}

//  What an earlier process had added and the broker does not take any more is left out, and what goes by its
//  classes too: the server does not wait for them.
static void
test_a_process_that_cannot_place_it (void **state)
{
    world_t *world = *state;
    s_make_class (world, "part", "dog", 2);
    s_make_pack (world, "train", "pack");
    s_added (world, "--dataset pack=#/pack", "data set 'pack': 40");
    s_added (world, "--dataset part=#/part --classes-from part=pack", "data set 'part': 2");
    s_stop (world);
    world->raw_bytes = 100;
    s_start_with (world, "--dataset train=#/train");
    s_turn_until_open (world);
    assert_false (s_awaits (world->additions, NULL, "pack"));
    assert_int_equal (world->sets.count, 1);
    //  The next process opens them.
    s_stop (world);
    world->raw_bytes = 1 << 24;
    s_start_with (world, "--dataset train=#/train");
    s_turn_until_open (world);
    s_run (world, "pack", 40);
    s_run (world, "part", 2);
}

//  Tenants of the settings may use what they are given.
static void
test_tenants (void **state)
{
    world_t *world = *state;
    s_stop (world);
    s_start_with (world, "--dataset train=#/train --tenant some=- --tenant all=- --tenant-datasets all=*");
    const tenant_t *some = tenant_named (world->broker, "some"), *all = tenant_named (world->broker, "all");
    s_added (world, "--dataset val=#/val", "data set 'val'");
    assert_null (dataset_named (world->broker, some, "val"));
    assert_non_null (dataset_named (world->broker, all, "val"));
    s_refused (world, "--dataset val=#/val --tenant-datasets some=val", "taken",
        "tenant 'some' may not use it");
    s_removed (world, "val", false);
    s_added (world, "--dataset val=#/val --tenant-datasets some=val", "data set 'val'");
    assert_non_null (dataset_named (world->broker, some, "val"));
    //  Also of the process that is started in the place of this one.
    s_stop (world);
    s_start_with (world, "--dataset train=#/train --tenant some=- --tenant all=- --tenant other=- "
        "--tenant-datasets all=*");
    assert_true (s_awaits (world->additions, tenant_named (world->broker, "some"), "val"));
    assert_false (s_awaits (world->additions, tenant_named (world->broker, "other"), "val"));
    s_turn_until_open (world);
    assert_non_null (dataset_named (world->broker, tenant_named (world->broker, "some"), "val"));
}

//  A process that is started in the place of this one has what this one had; what cannot be opened is left
//  out.
static void
test_a_process_in_its_place (void **state)
{
    world_t *world = *state;
    char path [256], other [256];
    s_make_class (world, "part", "eel", 2);
    s_make_class (world, "gone", "eel", 2);
    s_make_pack (world, "train", "pack");
    s_added (world, "--dataset val=#/val --on-bad val=fail --dataset pack=#/pack --piece pack=8", "data set");
    s_added (world, "--dataset part=#/part --classes-from part=val", "data set");
    s_added (world, "--dataset gone=#/gone", "data set");
    s_removed (world, "train", false);
    s_stop (world);
    snprintf (path, sizeof path, "%s/gone", world->scratch.path);
    snprintf (other, sizeof other, "%s/away", world->scratch.path);
    assert_int_equal (rename (path, other), 0);
    s_start_with (world, "--dataset train=#/train");
    assert_true (s_awaits (world->additions, NULL, "part"));
    assert_false (s_awaits (world->additions, NULL, "train"));
    s_turn_until_open (world);
    assert_null (dataset_named (world->broker, NULL, "train"));
    assert_null (dataset_named (world->broker, NULL, "gone"));
    assert_int_equal (world->sets.count, 3);
    assert_int_equal (s_ask (world, "--dataset pack=#/pack --dataset val=#/val --on-bad val=fail --piece "
        "pack=8"),
        ADDITIONS_READY);
    s_run (world, "pack", 40);
    s_run (world, "part", 2);
    //  A change does not forget what was left out: the next process opens it.
    s_added (world, "--dataset train=#/train", "data set 'train': 40");
    s_run (world, "train", 40);
    s_stop (world);
    assert_int_equal (rename (other, path), 0);
    s_start_with (world, "--dataset train=#/train");
    s_turn_until_open (world);
    s_run (world, "gone", 2);
    s_stop (world);
    assert_int_equal (rename (path, other), 0);
    s_start_with (world, "--dataset train=#/train");
    s_turn_until_open (world);
    s_removed (world, "gone", false);
    s_stop (world);
    assert_int_equal (rename (other, path), 0);
    s_start_with (world, "--dataset train=#/train");
    s_turn_until_open (world);
    assert_null (dataset_named (world->broker, NULL, "gone"));
}

//  What the settings have is not opened again in the place of what took its name.
static void
test_a_process_after_an_exchange (void **state)
{
    static const char settings [] = "--dataset train=#/train --dataset val=#/part --classes-from val=train";
    world_t *world = *state;
    s_make_class (world, "part", "dog", 2);
    s_stop (world);
    s_start_with (world, settings);
    assert_false (additions_remove (world->additions, "train", true, 0, &world->refusal));
    assert_string_equal (world->refusal.code, "in_use");
    s_removed (world, "val", false);
    s_removed (world, "train", false);
    s_added (world, "--dataset train=#/val", "data set 'train': 16");
    s_stop (world);
    s_start_with (world, settings);
    s_turn_until_open (world);
    s_run (world, "train", 16);
    assert_null (dataset_named (world->broker, NULL, "val"));
}

//  A file that changed since it was listed is bad, and no other.
static void
test_a_file_that_changes (void **state)
{
    world_t *world = *state;
    char path [256];
    s_added (world, "--dataset val=#/val", "data set 'val'");
    snprintf (path, sizeof path, "%s/val/cat/03.ppm", world->scratch.path);
    s_write (path, "short", 5);
    s_run (world, "val", 15);
}

//  A folder that hangs holds up others for seconds, and is given up when it is removed.  What was removed is
//  freed all the while.
static void
test_folders_that_hang (void **state)
{
    world_t *world = *state;
    s_hang ();
    s_make_class (world, "hang", "cat", 2);
    assert_int_equal (s_ask (world, "--dataset new=#/hang"), ADDITIONS_OPENING);
    s_await_hanging (1);
    s_turn (world);
    assert_int_equal (s_ask (world, "--dataset val=#/val"), ADDITIONS_OPENING);
    assert_string_equal (world->text, "waiting for another one; data set 'new': opening");
    //  One that waits is given up at once.
    s_removed (world, "val", false);
    s_refused (world, "--dataset val=#/val", "cannot_open", "data set 'val' was removed while");
    s_removed (world, "train", false);
    s_turn_until (world, 0);
    //  One that hangs is given up too: its name is free.
    s_removed (world, "new", false);
    s_refused (world, "--dataset new=#/hang", "cannot_open", "data set 'new' was removed while");
    assert_int_equal (s_ask (world, "--dataset new=#/val"), ADDITIONS_OPENING);
    additions_act (world->additions, clock_now_ms () + 10000);
    s_added (world, "--dataset new=#/val", "data set 'new': 16");
    s_run (world, "new", 16);
    s_answer ();
    s_added (world, "--dataset late=#/hang", "data set 'late': 2");
    s_run (world, "new", 16);
}

//  One that was removed and hangs looks at the classes by which it goes: the remedy that is told helps.
static void
test_a_split_that_hangs (void **state)
{
    world_t *world = *state;
    s_make_class (world, "hang", "cat", 2);
    s_hang ();
    assert_int_equal (s_ask (world, "--dataset new=#/hang --classes-from new=train"), ADDITIONS_OPENING);
    s_await_hanging (1);
    assert_false (additions_remove (world->additions, "train", false, 0, &world->refusal));
    assert_non_null (strstr (world->refusal.message, "tureen remove new"));
    s_removed (world, "new", false);
    assert_false (additions_remove (world->additions, "train", false, 0, &world->refusal));
    assert_string_equal (world->refusal.code, "in_use");
    assert_non_null (strstr (world->refusal.message, "and is still being opened: try again when '/"));
    s_answer ();
    while (!additions_remove (world->additions, "train", false, 0, &world->refusal))
        s_turn (world);
}

//  What hangs and is removed, again and again, holds up no others, until too many threads hang.
static void
test_rounds_of_a_folder_that_hangs (void **state)
{
    enum { ROUNDS = 16 };
    world_t *world = *state;
    char words [64];
    s_make_class (world, "hang", "cat", 2);
    s_hang ();
    for (int round = 0; round < ROUNDS; round++) {
        snprintf (words, sizeof words, "--dataset new%d=#/hang", round);
        assert_int_equal (s_ask (world, words), ADDITIONS_OPENING);
        if (round > 0)
            s_let_seconds_pass (world);
        s_await_hanging (round + 1);
        if (round == ROUNDS / 2) {
            assert_int_equal (s_ask (world, "--dataset val=#/val"), ADDITIONS_OPENING);
            s_let_seconds_pass (world);
            s_added (world, "--dataset val=#/val", "data set 'val': 16");
        }
        snprintf (words, sizeof words, "new%d", round);
        s_removed (world, words, false);
    }
    s_refused (world, "--dataset late=#/train", "budget", "16 data sets that were removed while they were");
    s_answer ();
    while (s_ask (world, "--dataset late=#/train") == ADDITIONS_REFUSED)
        s_turn (world);
    s_added (world, "--dataset late=#/train", "data set 'late': 40");
}

//  A server that is started in the place of another one is there before a folder that hangs.
static void
test_a_process_before_a_folder_that_hangs (void **state)
{
    world_t *world = *state;
    s_make_class (world, "hang", "cat", 2);
    s_added (world, "--dataset new=#/hang", "data set 'new': 2");
    s_added (world, "--dataset val=#/val", "data set 'val': 16");
    s_stop (world);
    s_hang ();
    s_start_with (world, "--dataset train=#/train");
    s_run (world, "train", 40);
    s_await_hanging (1);
    assert_true (s_awaits (world->additions, NULL, "new"));
    assert_int_equal (s_ask (world, "--dataset new=#/hang"), ADDITIONS_OPENING);
    s_removed (world, "new", false);
    assert_false (s_awaits (world->additions, NULL, "new"));
    s_answer ();
    s_turn_until_open (world);
    s_run (world, "val", 16);
    assert_null (dataset_named (world->broker, NULL, "new"));
}

//  What waits for the one by the classes of which it is numbered has its name until it is opened again.
static void
test_a_process_before_a_split (void **state)
{
    world_t *world = *state;
    s_make_class (world, "hang", "cat", 2);
    s_make_class (world, "part", "cat", 2);
    s_added (world, "--dataset new=#/hang", "data set 'new': 2");
    s_added (world, "--dataset part=#/part --classes-from part=new", "data set 'part': 2");
    s_stop (world);
    s_hang ();
    s_start_with (world, "--dataset train=#/train");
    s_turn (world);
    s_await_hanging (1);
    s_refused (world, "--dataset part=#/val", "taken", "data set 'part' is there already, in ");
    s_refused (world, "--dataset part=#/part", "taken", "another setting of classes-from");
    assert_int_equal (s_ask (world, "--classes-from part=new --dataset part=#/part/"), ADDITIONS_OPENING);
    assert_string_equal (world->text, "data set 'part': waiting to be opened again");
    s_answer ();
    s_added (world, "--classes-from part=new --dataset part=#/part/", "data set 'part': 2");
    assert_false (additions_is_busy (world->additions));
    s_run (world, "part", 2);
}

//  An end in the middle of everything.
static void
test_an_end_meanwhile (void **state)
{
    world_t *world = *state;
    assert_int_equal (s_ask (world, "--dataset val=#/val"), ADDITIONS_OPENING);
    assert_int_equal (s_ask (world, "--dataset b=#/train --dataset c=#/val"), ADDITIONS_OPENING);
    s_removed (world, "train", false);
    s_turn (world);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_a_folder_while_a_job_runs, begin, end),
        cmocka_unit_test_setup_teardown (test_refusals, begin, end),
        cmocka_unit_test_setup_teardown (test_when_failures_are_told, begin, end),
        cmocka_unit_test_setup_teardown (test_two_that_wait, begin, end),
        cmocka_unit_test_setup_teardown (test_two_of_one_name, begin, end),
        cmocka_unit_test_setup_teardown (test_classes_of_others, begin, end),
        cmocka_unit_test_setup_teardown (test_remedies_of_splits, begin, end),
        cmocka_unit_test_setup_teardown (test_again_under_another_path, begin, end),
        cmocka_unit_test_setup_teardown (test_a_pack_as_the_first, begin, end),
        cmocka_unit_test_setup_teardown (test_one_that_cannot_be_placed, begin, end),
        cmocka_unit_test_setup_teardown (test_a_process_that_cannot_place_it, begin, end),
        cmocka_unit_test_setup_teardown (test_tenants, begin, end),
        cmocka_unit_test_setup_teardown (test_a_process_in_its_place, begin, end),
        cmocka_unit_test_setup_teardown (test_a_process_after_an_exchange, begin, end),
        cmocka_unit_test_setup_teardown (test_a_file_that_changes, begin, end),
        cmocka_unit_test_setup_teardown (test_folders_that_hang, begin, end),
        cmocka_unit_test_setup_teardown (test_a_split_that_hangs, begin, end),
        cmocka_unit_test_setup_teardown (test_rounds_of_a_folder_that_hangs, begin, end),
        cmocka_unit_test_setup_teardown (test_a_process_before_a_folder_that_hangs, begin, end),
        cmocka_unit_test_setup_teardown (test_a_process_before_a_split, begin, end),
        cmocka_unit_test_setup_teardown (test_an_end_meanwhile, begin, end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
