//  `tureen read --ids --state`, and the loss of power: whatever the disk has kept, the next run goes on, and
//  in the file of ids each epoch has each sample once.  The loader is made up.

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include "effort.h"
#include "power_calls.h"
#include "read_record.h"
#include "state.h"

//  The ids of an epoch take more than a sector.
enum { SAMPLES = 300, EPOCHS = 2, BATCH = 7, EVERY = 3, WORDS = (SAMPLES + 63) / 64 };


//  -- the loader

struct tureen_loader {
    uint64_t random, epoch, batches, taken;
    uint64_t words [WORDS];
};

struct tureen_batch {
    uint64_t epoch, ids [BATCH];
    size_t count;
};

int __wrap_tureen_loader_state (tureen_loader_t *self, char **json_p);
int
__wrap_tureen_loader_state (tureen_loader_t *self, char **json_p)
{
    state_t state = { .dataset = "train", .fingerprint = "6d0c5f3a8e21b794", .data = "9e1f00aa12bc34de",
        .run = "4b7c0123456789abcdef0123456789ab", .samples = SAMPLES, .order = TUREEN_SHARED,
        .epoch = self->epoch, .batches = self->batches,
        .taken = { .count = self->taken, .words = self->words, .word_count = WORDS } };
    while (state.taken.word_count > 0 && self->words [state.taken.word_count - 1] == 0)
        state.taken.word_count--;
    *json_p = state_write (&state);
    return *json_p? 0: -ENOMEM;
}

tureen_epoch_t __wrap_tureen_loader_epoch (const tureen_loader_t *self);
tureen_epoch_t
__wrap_tureen_loader_epoch (const tureen_loader_t *self)
{
    return (tureen_epoch_t) { .epoch = self->epoch };
}

bool __wrap_tureen_batch_padding (const tureen_batch_t *self);
bool
__wrap_tureen_batch_padding (const tureen_batch_t *self)
{
    (void) self;
    return false;
}

uint64_t __wrap_tureen_batch_epoch (const tureen_batch_t *self);
uint64_t
__wrap_tureen_batch_epoch (const tureen_batch_t *self)
{
    return self->epoch;
}

size_t __wrap_tureen_batch_count (const tureen_batch_t *self);
size_t
__wrap_tureen_batch_count (const tureen_batch_t *self)
{
    return self->count;
}

const uint64_t *__wrap_tureen_batch_ids (const tureen_batch_t *self);
const uint64_t *
__wrap_tureen_batch_ids (const tureen_batch_t *self)
{
    return self->ids;
}

//  Samples that were not had, any of them.
static tureen_batch_t
s_next (tureen_loader_t *self)
{
    tureen_batch_t batch = { .epoch = self->epoch };
    while (batch.count < BATCH && self->taken < SAMPLES) {
        uint64_t id = test_below (&self->random, SAMPLES);
        while (self->words [id / 64] >> id % 64 & 1)
            id = (id + 1) % SAMPLES;
        self->words [id / 64] |= UINT64_C (1) << id % 64;
        self->taken++;
        batch.ids [batch.count++] = id;
    }
    self->batches++;
    return batch;
}

static tureen_loader_t
s_join (const char *text, uint64_t random)
{
    tureen_loader_t self = { .random = random };
    state_t state;
    message_error_t error;
    if (!text)
        return self;
    if (!state_read (&state, text, &error))
        fail_msg ("%s", error.text);
    self.epoch = state.epoch;
    self.batches = state.batches;
    self.taken = state.taken.count;
    if (state.taken.word_count > 0)
        memcpy (self.words, state.taken.words, state.taken.word_count * sizeof *self.words);
    state_clear (&state);
    return self;
}


//  -- runs

//  A run, which is killed behind so many batches.
static void
s_run (const char *folder, uint64_t random, uint64_t batches)
{
    static read_record_options_t options;
    char ids [200], kept [200];
    snprintf (ids, sizeof ids, "%s/ids/ids", folder);
    snprintf (kept, sizeof kept, "%s/states/state", folder);
    options.ids_path = ids;
    options.state_path = kept;
    options.state_every = EVERY;
    read_record_t *record = read_record_new (&options);
    assert_non_null (record);
    tureen_loader_t loader = s_join (read_record_state (record), random);
    assert_true (read_record_begin (record, &loader));
    while (loader.epoch < EPOCHS && batches > 0)
        if (loader.taken < SAMPLES) {
            tureen_batch_t batch = s_next (&loader);
            assert_true (read_record_batch (record, &loader, &batch));
            batches--;
        }
        else {
            assert_true (read_record_epoch_end (record, &loader));
            memset (loader.words, 0, sizeof loader.words);
            loader.taken = 0;
            loader.epoch++;
        }
    if (batches > 0)
        assert_true (read_record_end (record, &loader));
    read_record_destroy (&record);
}

//  The file has each epoch, each sample once.
static void
s_check (const char *folder, size_t steps)
{
    static char text [EPOCHS * SAMPLES * 5];
    char path [200];
    snprintf (path, sizeof path, "%s/ids/ids", folder);
    FILE *file = fopen (path, "r");
    assert_non_null (file);
    size_t size = fread (text, 1, sizeof text - 1, file);
    fclose (file);
    text [size] = 0;
    char *at = text;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        bool had [SAMPLES] = { false };
        size_t count = 0;
        if (strtoull (at, &at, 10) != epoch || *at++ != ':')
            fail_msg ("power lost behind %zu steps: no epoch %" PRIu64 ": %s", steps, epoch, text);
        for (; *at == ' '; count++) {
            uint64_t id = strtoull (at + 1, &at, 10);
            if (id >= SAMPLES || had [id])
                fail_msg ("power lost behind %zu steps: id %" PRIu64 " of epoch %" PRIu64 ": %s", steps, id,
                    epoch, text);
            had [id] = true;
        }
        if (count != SAMPLES || *at++ != '\n')
            fail_msg ("power lost behind %zu steps: %zu ids of epoch %" PRIu64 ": %s", steps, count, epoch,
                text);
    }
    assert_ptr_equal (at, text + size);
}

//  The next run, behind losses at the recording's end and at other steps of it.
static void
s_lose (const scratch_folder_t *scratch, size_t first, size_t all, uint64_t *random)
{
    char lost [100];
    snprintf (lost, sizeof lost, "%s/lost", scratch->path);
    for (unsigned int turn = 0; turn < 10; turn++) {
        size_t steps = turn < 2? all: first + test_below (random, all - first + 1);
        power_lose (lost, steps, turn % 4? POWER_SOME_LOST: POWER_ALL_LOST, random);
        s_run (lost, test_below (random, UINT64_MAX), UINT64_MAX);
        s_check (lost, steps);
        power_remove (lost);
    }
}

//  Guards: power fails in a first run, and in a resumed run that has truncated the ids.
static void
test_power_lost_at_any_step (void **state)
{
    (void) state;
    scratch_folder_t scratch;
    char disk [100], ids [120], states [120];
    uint64_t random = test_seed ();
    assert_true (scratch_begin (&scratch));
    snprintf (disk, sizeof disk, "%s/disk", scratch.path);
    snprintf (ids, sizeof ids, "%s/ids", disk);
    snprintf (states, sizeof states, "%s/states", disk);
    for (unsigned int round = 0; round < EFFORT (30); round++) {
        assert_int_equal (mkdir (disk, 0700) || mkdir (ids, 0700) || mkdir (states, 0700), 0);
        for (int run = 0; run < 2; run++) {
            size_t before = power_record (disk);
            s_run (disk, test_below (&random, UINT64_MAX), 1 + test_below (&random, 80));
            //  A disk may keep the state's name before it must.
            int folder = open (states, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            assert_int_equal (fsync (folder), 0);
            close (folder);
            s_lose (&scratch, before, power_stop (), &random);
        }
        power_forget ();
        power_remove (disk);
    }
    assert_true (scratch_end (&scratch));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_power_lost_at_any_step)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
