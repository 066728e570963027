//  Packing into an object store, and the loss of power here: whatever the disk has kept of what is under way,
//  the store holds the whole pack or no index, and going on makes the whole pack, and leaves nothing here.
//
//  The store is made up.  It keeps what it has confirmed.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <stdatomic.h>
#include "packing_play.h"
#include "pool.h"
#include "store.h"

static const play_source_t s_source = { 300, 3000, false };

#define ADDRESS "s3://bucket/pack"

enum { OBJECTS_MAX = 16, PUTS_MAX = 64, NAME_BYTES = 64 };


//  -- the store

//  An object that was written; the steps of the recording before.
typedef struct {
    size_t steps;
    char name [NAME_BYTES], version [20];
    uint8_t *bytes;
    size_t size;
} put_t;

static struct {
    put_t puts [PUTS_MAX];              //  the last one of a name is the object
    size_t count;
    unsigned versions;
} s_store;

static const put_t *
s_find (const char *name)
{
    for (size_t index = s_store.count; index-- > 0;)
        if (strcmp (s_store.puts [index].name, name) == 0)
            return &s_store.puts [index];
    return NULL;
}

//  The first so many objects that were written stay.
static void
s_keep (size_t count)
{
    while (s_store.count > count)
        free (s_store.puts [--s_store.count].bytes);
}

static int
s_put (transfer_t *transfer)
{
    assert_true (s_store.count < PUTS_MAX);
    put_t *put = &s_store.puts [s_store.count++];
    *put = (put_t) { .steps = power.step_count, .size = transfer->bytes, .bytes = malloc (transfer->bytes) };
    assert_non_null (put->bytes);
    snprintf (put->name, sizeof put->name, "%s", transfer->url);
    snprintf (put->version, sizeof put->version, "\"%u\"", ++s_store.versions);
    assert_int_equal (__real_pread (transfer->upload->descriptor, put->bytes, put->size, 0), put->size);
    transfer->done = transfer->bytes;
    strcpy (transfer->object_version, put->version);
    if (transfer->upload->sent)
        atomic_fetch_add (transfer->upload->sent, put->size);
    return 0;
}

static int
s_get (transfer_t *transfer)
{
    const put_t *put = s_find (transfer->url);
    if (!put)
        return -ENOENT;
    if (put->size < transfer->offset + transfer->bytes)
        return -EREMCHG;
    memcpy (transfer->memory, put->bytes + transfer->offset, transfer->bytes);
    transfer->done = transfer->bytes;
    transfer->object_bytes = put->size;
    strcpy (transfer->object_version, put->version);
    return 0;
}

int __wrap_store_open (store_t **self_p, const char *address, char *error, size_t error_bytes);
int
__wrap_store_open (store_t **self_p, const char *address, char *error, size_t error_bytes)
{
    (void) error; (void) error_bytes;
    assert_string_equal (address, ADDRESS);
    *self_p = (store_t *) &s_store;
    return 0;
}

void __wrap_store_destroy (store_t **self_p);
void
__wrap_store_destroy (store_t **self_p)
{
    *self_p = NULL;
}

const account_t *__wrap_store_account (const store_t *self);
const account_t *
__wrap_store_account (const store_t *self)
{
    return (const account_t *) self;
}

char *__wrap_store_url (const store_t *self, const char *name);
char *
__wrap_store_url (const store_t *self, const char *name)
{
    (void) self;
    return strdup (name);
}

int __wrap_store_checksum (int descriptor, uint64_t bytes, const store_persistence_t *how,
    char checksum [STORE_CHECKSUM_BYTES]);
int
__wrap_store_checksum (int descriptor, uint64_t bytes, const store_persistence_t *how,
    char checksum [STORE_CHECKSUM_BYTES])
{
    (void) how;
    struct stat status;
    assert_int_equal (__real_fstat (descriptor, &status), 0);
    checksum [0] = 0;
    return (uint64_t) status.st_size < bytes? -ENODATA: 0;
}

int __wrap_store_carry_out (store_t *self, transfer_t *transfers, size_t count,
    const store_persistence_t *how);
int
__wrap_store_carry_out (store_t *self, transfer_t *transfers, size_t count, const store_persistence_t *how)
{
    (void) self; (void) how;
    int failed = 0;
    for (size_t index = 0; index < count; index++) {
        transfer_t *transfer = &transfers [index];
        if (transfer->done == transfer->bytes)
            continue;
        transfer->rc = transfer->upload? s_put (transfer): s_get (transfer);
        failed = failed? failed: transfer->rc;
    }
    return failed;
}

void __wrap_store_explain (const store_t *self, const char *name, const transfer_t *transfer, char *error,
    size_t error_bytes);
void
__wrap_store_explain (const store_t *self, const char *name, const transfer_t *transfer, char *error,
    size_t error_bytes)
{
    (void) self;
    snprintf (error, error_bytes, "%s: %d", name, transfer->rc);
}


//  -- a pool without threads: a task is done when it is submitted, and given back when it is asked for twice

static struct {
    pool_options_t options;
    void *tasks [OBJECTS_MAX];
    size_t count;
    bool is_asked;
} s_pool;

pool_t *__wrap_pool_new (const pool_options_t *options);
pool_t *
__wrap_pool_new (const pool_options_t *options)
{
    s_pool.options = *options;
    s_pool.count = 0;
    return (pool_t *) &s_pool;
}

void __wrap_pool_submit (pool_t *self, void *task);
void
__wrap_pool_submit (pool_t *self, void *task)
{
    (void) self;
    assert_true (s_pool.count < OBJECTS_MAX);
    s_pool.options.work (NULL, task);
    s_pool.tasks [s_pool.count++] = task;
}

void *__wrap_pool_done (pool_t *self);
void *
__wrap_pool_done (pool_t *self)
{
    (void) self;
    s_pool.is_asked = !s_pool.is_asked;
    return s_pool.count > 0 && !s_pool.is_asked? s_pool.tasks [--s_pool.count]: NULL;
}

int __wrap_poll (struct pollfd *items, nfds_t count, int limit_ms);
int
__wrap_poll (struct pollfd *items, nfds_t count, int limit_ms)
{
    (void) items; (void) count; (void) limit_ms;
    return 0;
}

int __wrap_pool_descriptor (const pool_t *self);
int
__wrap_pool_descriptor (const pool_t *self)
{
    (void) self;
    return -1;
}

void __wrap_pool_stop (pool_t *self);
void
__wrap_pool_stop (pool_t *self)
{
    (void) self;
}

void *__wrap_pool_drain (pool_t *self);
void *
__wrap_pool_drain (pool_t *self)
{
    (void) self;
    return NULL;
}

void __wrap_pool_destroy (pool_t **self_p);
void
__wrap_pool_destroy (pool_t **self_p)
{
    *self_p = NULL;
}


//  -- the test

static size_t s_told;                   //  how often a person was told how much of the volumes is sent

//  All of them are, in this packing and in those with which it goes on.
static void
s_tell (void *context, const packing_progress_t *progress)
{
    (void) context;
    if (progress->pass < progress->passes)
        return;
    assert_int_equal (progress->bytes, progress->bytes_total);
    s_told++;
}

static void
s_prepare (void *state, play_job_t *job, const char *target, const char *address)
{
    play_prepare (state, job, &s_source, target);
    job->options.buckets = 4;
    job->options.volume_bytes = PACK_BLOCK_BYTES;
    job->options.address = address;
    job->options.progress = address? s_tell: NULL;
}

//  The store has the files of one/, and no others.
static void
s_check_store (void *state)
{
    int count = scratch_entries (play_in (state, "one"));
    DIR *folder = opendir (play_in (state, "one"));
    assert_non_null (folder);
    for (const struct dirent *item; (item = readdir (folder));) {
        if (item->d_name [0] == '.')
            continue;
        static uint8_t bytes [1 << 20];
        const put_t *put = s_find (item->d_name);
        if (!put)
            fail_msg ("the store has no %s", item->d_name);
        char path [PATH_MAX];
        snprintf (path, sizeof path, "%s/%s", play_in (state, "one"), item->d_name);
        FILE *file = fopen (path, "rb");
        assert_non_null (file);
        assert_int_equal (fread (bytes, 1, sizeof bytes, file), put->size);
        fclose (file);
        assert_memory_equal (bytes, put->bytes, put->size);
    }
    closedir (folder);
    for (size_t index = 0; index < s_store.count; index++)
        count -= s_find (s_store.puts [index].name) == &s_store.puts [index];
    assert_int_equal (count, 0);
}

//  As a person goes on: begins, and is told where there is something to go on with.
static int
s_go_on (play_job_t *job)
{
    int rc = play_run (job);
    if (rc != -EEXIST)
        return rc;
    job->options.resume = true;
    return play_run (job);
}

//  What is made of it: one/; and the folder disk/, in which packing by way of disk/two is recorded.
static size_t
s_record (void *state, uint64_t seed)
{
    play_make_source (state, &s_source, seed);
    play_job_t job;
    s_prepare (state, &job, play_in (state, "one"), NULL);
    play_run_well (&job);
    assert_in_range (job.result.volumes, 4, OBJECTS_MAX - 1);
    assert_int_equal (mkdir (play_in (state, "disk"), 0700), 0);
    s_prepare (state, &job, play_in (state, "disk/two"), ADDRESS);
    s_store.count = 0;
    power_record (play_in (state, "disk"));
    play_run_well (&job);
    size_t all = power_stop ();
    s_check_store (state);
    return all;
}

//  The objects that the store had then.  The last one may have come and the power gone before that was known.
static size_t
s_put_before (size_t steps, uint64_t *random)
{
    size_t count = 0;
    while (count < s_store.count && s_store.puts [count].steps < steps)
        count++;
    while (count < s_store.count && s_store.puts [count].steps == steps && test_below (random, 2))
        count++;
    return count;
}

typedef struct {
    size_t all;                         //  steps
    put_t puts [PUTS_MAX];
    size_t put_count;
    size_t resumed, finished;           //  packings that went on, and those of which only the end was missing
} played_t;

static void
s_lose_and_go_on (void *state, played_t *played, size_t steps, power_luck_t luck, uint64_t *random)
{
    char lost [200], path [PATH_MAX];
    snprintf (lost, sizeof lost, "%.100s", play_in (state, "lost"));
    snprintf (path, sizeof path, "%s/two", lost);
    memcpy (s_store.puts, played->puts, sizeof s_store.puts);
    s_store.count = played->put_count;
    size_t before = s_store.count = s_put_before (steps, random);
    power_lose (lost, steps, luck, random);
    if (s_find (PACK_INDEX_NAME))
        s_check_store (state);
    play_job_t job;
    s_prepare (state, &job, path, ADDRESS);
    int rc = s_go_on (&job);
    if (rc)
        fail_msg ("power lost behind %zu of %zu steps, %d: %d: %s", steps, played->all, (int) luck, rc,
            job.error);
    s_check_store (state);
    played->resumed += job.result.resumed;
    played->finished += job.result.was_finished;
    //  A folder that a lost removal has left is empty.
    assert_true (access (path, F_OK) != 0 || scratch_entries (path) == 0);
    s_keep (before);
    power_remove (lost);
}

//  Guards: power fails after any step, and after each of the last ones, which remove local files.
static void
test_power_lost_at_any_step (void **state)
{
    enum { LAST = 30 };
    static played_t played;
    uint64_t random = test_seed ();
    played.all = s_record (*state, random);
    played.put_count = s_store.count;
    memcpy (played.puts, s_store.puts, sizeof played.puts);
    for (size_t steps = played.all - LAST; steps <= played.all; steps++)
        for (power_luck_t luck = POWER_ALL_LOST; luck <= POWER_SOME_LOST; luck++)
            s_lose_and_go_on (*state, &played, steps, luck, &random);
    for (unsigned int turn = 0; turn < EFFORT (600); turn++)
        s_lose_and_go_on (*state, &played, test_below (&random, played.all + 1),
            turn % 8? POWER_SOME_LOST: POWER_ALL_LOST, &random);
    assert_true (played.resumed > 0 && played.finished > 0 && s_told > 0);
    print_message ("%zu steps, %zu objects written\n", played.all, played.put_count);
    memcpy (s_store.puts, played.puts, sizeof played.puts);
    s_store.count = played.put_count;
    s_keep (0);
    power_forget ();
}

//  One of the objects that were written then has been replaced by a single byte.
static int
s_lose_one_and_go_on (void *state, const played_t *played, size_t steps, uint64_t *random)
{
    char lost [200], path [PATH_MAX];
    snprintf (lost, sizeof lost, "%.100s", play_in (state, "lost"));
    snprintf (path, sizeof path, "%s/two", lost);
    memcpy (s_store.puts, played->puts, sizeof s_store.puts);
    s_store.count = played->put_count;
    size_t before = s_store.count = s_put_before (steps, random);
    if (before == 0 || s_find (PACK_INDEX_NAME))
        return 1;
    put_t *put = &s_store.puts [test_below (random, before)];
    put->size = 1;
    snprintf (put->version, sizeof put->version, "\"%u\"", ++s_store.versions);
    power_lose (lost, steps, POWER_SOME_LOST, random);
    play_job_t job;
    s_prepare (state, &job, path, ADDRESS);
    int rc = s_go_on (&job);
    if (rc && rc != -ESTALE)
        fail_msg ("an object lost behind %zu of %zu steps: %d: %s", steps, played->all, rc, job.error);
    if (rc == 0)
        s_check_store (state);
    s_keep (before);
    power_remove (lost);
    return rc;
}

//  Guards: a volume that another program has replaced by a few bytes is sent again if it is still here;
//  otherwise what is said is that it is lost.
static void
test_an_object_that_was_replaced (void **state)
{
    static played_t played;
    uint64_t random = test_seed ();
    size_t lost = 0, mended = 0;
    played.all = s_record (*state, random);
    played.put_count = s_store.count;
    memcpy (played.puts, s_store.puts, sizeof played.puts);
    for (unsigned int turn = 0; turn < EFFORT (150) || lost == 0 || mended == 0; turn++) {
        int rc = s_lose_one_and_go_on (*state, &played, test_below (&random, played.all + 1), &random);
        lost += rc == -ESTALE;
        mended += rc == 0;
    }
    print_message ("%zu lost, %zu mended\n", lost, mended);
    memcpy (s_store.puts, played.puts, sizeof played.puts);
    s_store.count = played.put_count;
    s_keep (0);
    power_forget ();
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_power_lost_at_any_step, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_an_object_that_was_replaced, play_begin, play_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
