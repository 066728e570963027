/*  A device: how it opens its reading thread, and what it learns from reads, beside made-up reading.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <cmocka.h>

#include "device.h"

enum { READS_A_LOOK = 32, DEPTH_FIRST = 16, FOLDERS_LEAST = 8 };

//  ---- reading

struct reading { int any; };

static struct {
    reading_t reading;
    reading_options_t options;          //  that it was opened with; paths are lent until reading_new returns
    char paths [64];                    //  of its files, one after the other
    int rc;
    bool is_open;
    uint32_t depth, depths_set;         //  the last one that was set, and how often one was
    reader_request_t *done;             //  comes back next
    bool is_direct [4];
    size_t probes, source_probes;
    char version [20];                  //  of its last file
} s_made_up;

int
reading_new (reading_t **self_p, const reading_options_t *options, const char **path_p)
{
    s_made_up.options = *options;
    s_made_up.paths [0] = 0;
    for (size_t index = 0; index < options->path_count; index++)
        strcat (strcat (s_made_up.paths, options->paths [index]), " ");
    if (options->store)
        strcpy (s_made_up.version, options->versions [options->path_count - 1]);
    *path_p = s_made_up.rc? options->paths [0]: NULL;
    *self_p = s_made_up.rc? NULL: &s_made_up.reading;
    s_made_up.is_open = s_made_up.rc == 0;
    s_made_up.depth = options->depth;
    return s_made_up.rc;
}

void
reading_destroy (reading_t **self_p)
{
    s_made_up.is_open = s_made_up.is_open && !*self_p;
    *self_p = NULL;
}

void
reading_submit (reading_t *self, reader_request_t *request)
{
    assert_ptr_equal (self, &s_made_up.reading);
    s_made_up.done = request;
}

reader_request_t *
reading_done (reading_t *self)
{
    assert_ptr_equal (self, &s_made_up.reading);
    reader_request_t *request = s_made_up.done;
    s_made_up.done = NULL;
    return request;
}

size_t
reading_pending (const reading_t *self)
{
    assert_ptr_equal (self, &s_made_up.reading);
    return s_made_up.done != NULL;
}

int
reading_descriptor (const reading_t *self)
{
    assert_ptr_equal (self, &s_made_up.reading);
    return 77;
}

void
reading_set_depth (reading_t *self, uint32_t depth)
{
    assert_ptr_equal (self, &s_made_up.reading);
    s_made_up.depth = depth;
    s_made_up.depths_set++;
}

uint32_t
reading_source_depth (const reading_t *self)
{
    return reading_depth (self);
}

uint32_t
reading_depth (const reading_t *self)
{
    assert_ptr_equal (self, &s_made_up.reading);
    return s_made_up.depth;
}

void
reading_stop (reading_t *self)
{
    assert_ptr_equal (self, &s_made_up.reading);
}

const char *
reading_mode (const reading_t *self)
{
    assert_ptr_equal (self, &s_made_up.reading);
    return "made up";
}

bool
reading_is_direct (const reading_t *self, uint32_t file)
{
    assert_ptr_equal (self, &s_made_up.reading);
    return s_made_up.is_direct [file];
}

int __wrap_cost_probe (cost_t *self, const char *path, uint32_t limit_ms);
int
__wrap_cost_probe (cost_t *self, const char *path, uint32_t limit_ms)
{
    (void) self;
    assert_string_equal (path, "first");
    assert_true (limit_ms > 0);
    s_made_up.probes++;
    return 0;
}

int __wrap_cost_probe_source (cost_t *self, const cost_source_t *source, uint32_t limit_ms);
int
__wrap_cost_probe_source (cost_t *self, const cost_source_t *source, uint32_t limit_ms)
{
    (void) self;
    assert_int_equal (source->size_bytes, 1);
    assert_true (limit_ms > 0);
    s_made_up.source_probes++;
    return 0;
}

//  ---- a device

static int
s_setup (void **state)
{
    (void) state;
    memset (&s_made_up, 0, sizeof s_made_up);
    return 0;
}

static device_t *
s_open (uint32_t depth, bool has_folder)
{
    device_t *self = device_new (makedev (8, 17), NULL, depth);
    device_options_t options = { .buffer_bytes = 4096, .requests_max = 10 };
    const char *path;
    assert_non_null (self);
    if (has_folder)
        device_add_folder (self);
    assert_int_equal (device_open (self, &options, &path), 0);
    return self;
}

//  So many reads come back, each with this result, bytes and time.
static void
s_read (device_t *self, int count, int rc, size_t bytes, uint64_t nanoseconds)
{
    for (int index = 0; index < count; index++) {
        reader_request_t request = { .rc = rc, .read_bytes = bytes, .wait_ns = nanoseconds, .in_flight = 1 };
        device_submit (self, &request);
        assert_ptr_equal (device_done (self), &request);
    }
    assert_null (device_done (self));
}

//  ---- cases

//  Must hold: files are numbered in their order, and the largest range of any of them fits.
static void
its_files_and_memory (void **state)
{
    (void) state;
    static const struct { size_t spans [3], buffer_bytes, wanted; } sizes [] = {
        { { 10, 9000, 20 }, 4096, 9000 }, { { 9000, 10, 20 }, 4096, 9000 }, { { 10, 20, 30 }, 4096, 4096 } };
    static const char *const names [] = { "first", "second", "third" };
    for (size_t index = 0; index < 3; index++) {
        device_t *self = device_new (makedev (8, 17), NULL, 0);
        device_options_t options = { .buffer_bytes = sizes [index].buffer_bytes, .requests_max = 10,
            .no_ring = index == 1 };
        const char *path;
        uint32_t file;
        assert_true (device_is (self, makedev (8, 17), NULL));
        assert_false (device_is (self, makedev (8, 18), NULL));
        for (uint32_t volume = 0; volume < 3; volume++) {
            assert_true (device_add_volume (self, names [volume], "", sizes [index].spans [volume], &file));
            assert_int_equal (file, volume);
        }
        assert_int_equal (device_volumes (self), 3);
        assert_int_equal (device_open (self, &options, &path), 0);
        assert_string_equal (s_made_up.paths, "first second third ");
        assert_int_equal (s_made_up.options.buffer_bytes, sizes [index].wanted);
        assert_int_equal (s_made_up.options.requests_max, 10);
        assert_int_equal (s_made_up.options.no_ring, index == 1);
        assert_int_equal (device_descriptor (self), 77);
        device_destroy (&self);
        assert_false (s_made_up.is_open);
    }
}

//  Must hold: one that cannot be opened gives nothing back and can be destroyed.
static void
a_file_cannot_be_opened (void **state)
{
    (void) state;
    device_t *self = device_new (makedev (8, 17), NULL, 0);
    device_options_t options = { .buffer_bytes = 4096, .requests_max = 10 };
    const char *path;
    uint32_t file;
    assert_true (device_add_volume (self, "first", "", 10, &file));
    s_made_up.rc = -EACCES;
    assert_int_equal (device_open (self, &options, &path), -EACCES);
    assert_string_equal (path, "first");
    assert_null (device_done (self));
    device_stop (self);
    device_destroy (&self);
    assert_null (self);
}

//  Must hold: only files of ranges are measured, and only once.
static void
it_is_probed_once (void **state)
{
    (void) state;
    device_t *self = device_new (makedev (8, 17), NULL, 0);
    uint32_t file;
    device_probe (self, NULL);
    assert_int_equal (s_made_up.probes, 0);
    assert_true (device_add_volume (self, "first", "", 10, &file));
    device_probe (self, NULL);
    device_probe (self, NULL);
    assert_int_equal (s_made_up.probes, 1);
    device_destroy (&self);
}

//  Must hold: the depth follows the model after each 32 good reads, and what failed teaches nothing.
static void
the_depth_follows_reads (void **state)
{
    (void) state;
    device_t *self = s_open (0, false);
    assert_int_equal (device_depth (self), DEPTH_FIRST);
    s_read (self, 3 * READS_A_LOOK, -EIO, 65536, 100000000);
    assert_int_equal (s_made_up.depths_set, 0);
    assert_int_equal (device_cost (self)->observed, 0);
    s_read (self, READS_A_LOOK - 1, 0, 65536, 2000000);
    assert_int_equal (s_made_up.depths_set, 0);
    s_read (self, 1, 0, 65536, 2000000);
    assert_int_equal (s_made_up.depths_set, 1);
    assert_int_equal (device_cost (self)->observed, READS_A_LOOK);
    s_read (self, 9 * READS_A_LOOK, 0, 65536, 2000000);
    assert_int_equal (s_made_up.depths_set, 10);
    device_destroy (&self);
}

//  Must hold: what came from pins or the local disk's cache alone is no read of the store's, nor is one that
//  waited for another member; what came from the store and the cache is.
static void
caches_teach_nothing (void **state)
{
    (void) state;
    device_t *self = s_open (0, false);
    reader_request_t requests [] = {
        { .cached_bytes = 65536, .wait_ns = 1000, .in_flight = 1 },
        { .pinned_bytes = 65536, .wait_ns = 1000, .in_flight = 1 },
        { .read_bytes = 4096, .peer_bytes = 65536, .wait_ns = 1000, .in_flight = 1 },
        { .read_bytes = 4096, .cached_bytes = 65536, .wait_ns = 1000, .in_flight = 1 }
    };
    for (size_t index = 0; index < sizeof requests / sizeof *requests; index++) {
        device_submit (self, &requests [index]);
        assert_ptr_equal (device_done (self), &requests [index]);
        assert_int_equal (device_cost (self)->observed, index == 3);
    }
    device_destroy (&self);
}

//  Guards: what pins gave saves a whole read, or the end of one, at the depth that reads have now; without
//  pins nothing is saved.
static void
pins_save_time (void **state)
{
    (void) state;
    device_t *self = s_open (4, false);
    const cost_t *cost = device_cost (self);
    double all = 65536 / cost_rate (cost, 65536, 4), rest = 16384 / cost_rate (cost, 16384, 4);
    struct { uint64_t read, cached, pinned; double seconds; } cases [] = {
        { 65536, 0, 0, 0 }, { 0, 65536, 0, 0 }, { 0, 0, 65536, all }, { 0, 4096, 65536, all },
        { 16384, 0, 49152, all - rest } };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        reader_request_t request = { .read_bytes = cases [index].read, .cached_bytes = cases [index].cached,
            .pinned_bytes = cases [index].pinned };
        uint64_t wanted = (uint64_t) (cases [index].seconds * 1e9), saved = device_saved_ns (self, &request);
        assert_in_range (saved + 1, wanted, wanted + 2);
    }
    assert_true (all > rest && rest > 0);
    //  Fewer reads pass side by side than might.
    for (int index = 0; index < 200; index++) {
        reader_request_t request = { .read_bytes = 65536, .wait_ns = 2000000, .in_flight = 2 };
        device_submit (self, &request);
        assert_ptr_equal (device_done (self), &request);
    }
    uint64_t two = (uint64_t) (65536 / cost_rate (cost, 65536, 2) * 1e9);
    reader_request_t request = { .pinned_bytes = 65536 };
    assert_in_range (device_saved_ns (self, &request) + 1, two, two + 2);
    assert_true (device_depth (self) > 2);
    device_destroy (&self);
}

//  Small and slow reads that come from the page cache ask for little depth: files of folders get some anyway.
//  Must hold: a depth that the user has set stays.
static void
folders_have_a_least_depth (void **state)
{
    (void) state;
    for (uint32_t depth = 0; depth <= 3; depth += 3)
        for (int has_folder = 0; has_folder < 2; has_folder++) {
            device_t *self = s_open (depth, has_folder);
            assert_int_equal (device_depth (self), depth? depth: DEPTH_FIRST);
            //  Nothing overlaps: bytes alone take all the time.
            for (int look = 0; look < 20; look++)
                s_read (self, READS_A_LOOK, 0, 8 << 20, 8 << 20);
            if (depth)
                assert_int_equal (s_made_up.depth, depth);
            else
            if (has_folder)
                assert_int_equal (s_made_up.depth, FOLDERS_LEAST);
            else
                assert_in_range (s_made_up.depth, 1, FOLDERS_LEAST - 1);
            device_destroy (&self);
        }
}

//  Must hold: data sets of one bucket share a device, and those of another one, or of a file system, do not;
//  it is measured by reads of its own, and has the bucket's name.
static void
a_store (void **state)
{
    (void) state;
    static const char *const addresses [] = { "s3://bucket/a", "s3://bucket/b/c", "s3://other/a",
        "http://host/a" };
    store_t *stores [4];
    char error [200], name [DEVICE_NAME_BYTES];
    setenv ("AWS_NO_SIGN_REQUEST", "yes", 1);
    for (size_t index = 0; index < 4; index++)
        assert_int_equal (store_open (&stores [index], addresses [index], error, sizeof error), 0);
    device_t *self = device_new (0, stores [0], 0);
    assert_true (device_is_store (self));
    assert_true (device_is (self, 0, stores [0]) && device_is (self, 0, stores [1]));
    assert_false (device_is (self, 0, stores [2]) || device_is (self, 0, stores [3]));
    assert_false (device_is (self, 0, NULL));
    assert_string_equal (device_name (self, name), "s3://bucket");
    device_options_t options = { .buffer_bytes = 4096, .requests_max = 10 };
    cost_source_t source = { .size_bytes = 1 };
    const char *path;
    uint32_t file;
    assert_true (device_add_volume (self, "first", "version", 10, &file));
    device_probe (self, &source);
    device_probe (self, &source);
    assert_int_equal (s_made_up.probes, 0);
    assert_int_equal (s_made_up.source_probes, 1);
    device_keep_volume (self, file, &(reader_blocks_t) { .begin = 4096, .bytes = 10 });
    assert_int_equal (device_open (self, &options, &path), 0);
    assert_ptr_equal (s_made_up.options.store, stores [0]);
    assert_string_equal (s_made_up.version, "version");
    assert_int_equal (s_made_up.options.blocks [0].begin, 4096);
    device_destroy (&self);
    for (size_t index = 0; index < 4; index++)
        store_destroy (&stores [index]);
}

//  Must hold: reads are past the page cache only if those of all files are.
static void
what_status_says (void **state)
{
    (void) state;
    device_t *self = device_new (makedev (8, 17), NULL, 0);
    device_options_t options = { .buffer_bytes = 4096, .requests_max = 10 };
    const char *path;
    char name [DEVICE_NAME_BYTES];
    uint32_t file;
    for (int volume = 0; volume < 2; volume++)
        assert_true (device_add_volume (self, "first", "", 10, &file));
    assert_int_equal (device_open (self, &options, &path), 0);
    assert_string_equal (device_name (self, name), "8:17");
    for (int direct = 0; direct < 4; direct++) {
        s_made_up.is_direct [0] = direct & 1;
        s_made_up.is_direct [1] = direct & 2;
        assert_int_equal (device_is_direct (self), direct == 3);
    }
    for (int reads = 0; reads < 2; reads++) {
        json_t *status = device_status (self);
        assert_string_equal (json_string_value (json_object_get (status, "device")), "8:17");
        assert_string_equal (json_string_value (json_object_get (status, "reading")), "made up");
        assert_int_equal (json_integer_value (json_object_get (status, "reads_max")), DEPTH_FIRST);
        assert_int_equal (json_is_true (json_object_get (status, "measured")), reads > 0);
        assert_int_equal (json_integer_value (json_object_get (status, "observed_reads")), reads);
        json_decref (status);
        s_read (self, 1, 0, 65536, 2000000);
    }
    //  Half a millisecond, and 100 MB a second.
    for (int turn = 0; turn < 2000; turn++)
        s_read (self, 1, 0, turn % 2? 1000000: 10000, turn % 2? 10500000: 600000);
    json_t *status = device_status (self);
    assert_in_range ((int) json_real_value (json_object_get (status, "latency_microseconds")), 450, 550);
    assert_in_range ((int) json_real_value (json_object_get (status, "megabytes_per_second")), 90, 110);
    assert_int_equal (json_integer_value (json_object_get (status, "observed_reads")), 2002);
    json_decref (status);
    device_destroy (&self);
}

//  ---- keys

//  As the store's keyring finds itself; NULL: the store's requests are not signed.
static const char *s_trouble;
static int64_t s_ends_s;

bool __wrap_store_look_at_keys (const store_t *self, const char **from_p, keyring_look_t *look);
bool
__wrap_store_look_at_keys (const store_t *self, const char **from_p, keyring_look_t *look)
{
    assert_non_null (self);
    if (!s_trouble)
        return false;
    *from_p = "a program";
    *look = (keyring_look_t) { .renewals = 7, .ends_s = s_ends_s };
    snprintf (look->trouble, sizeof look->trouble, "%s", s_trouble);
    return true;
}

//  Must hold: of a store's keys it is told where they come from, how long they are good, how often they were
//  renewed and what is wrong; of files and of requests that are not signed, nothing.
static void
what_status_says_of_keys (void **state)
{
    (void) state;
    store_t *store;
    char error [600];
    assert_int_equal (store_open (&store, "https://host/a", error, sizeof error), 0);
    device_t *self = device_new (0, store, 0);
    device_options_t options = { .buffer_bytes = 4096, .requests_max = 10 };
    const char *path;
    uint32_t file;
    assert_true (device_add_volume (self, "first", "1", 10, &file));
    assert_int_equal (device_open (self, &options, &path), 0);
    for (int kind = 0; kind < 3; kind++) {
        s_trouble = kind == 0? NULL: kind == 1? "": "no answer";
        s_ends_s = kind == 1? 0: time (NULL) + 100000;
        json_t *status = device_status (self), *keys = json_object_get (status, "keys");
        assert_int_equal (json_is_null (keys), kind == 0);
        if (kind > 0) {
            assert_string_equal (json_string_value (json_object_get (keys, "from")), "a program");
            assert_int_equal (json_integer_value (json_object_get (keys, "renewals")), 7);
            assert_int_equal (json_is_null (json_object_get (keys, "seconds_left")), kind == 1);
            assert_int_equal (json_is_null (json_object_get (keys, "trouble")), kind == 1);
        }
        if (kind == 2) {
            assert_in_range (json_integer_value (json_object_get (keys, "seconds_left")), 90000, 100000);
            assert_string_equal (json_string_value (json_object_get (keys, "trouble")), "no answer");
        }
        json_decref (status);
    }
    device_destroy (&self);
    store_destroy (&store);
}

//  Trouble with keys is told when it begins, and when it is over; not at each look, nor in other words.
static void
trouble_with_keys (void **state)
{
    (void) state;
    static const struct { const char *trouble; bool is_news; } looks [] = {
        { NULL, false }, { "", false }, { "no answer", true }, { "no answer", false }, { "refused", false },
        { "", true }, { "", false }, { "refused", true }
    };
    store_t *store;
    char error [600];
    assert_int_equal (store_open (&store, "https://host/a", error, sizeof error), 0);
    device_t *self = device_new (0, store, 0), *files = device_new (makedev (8, 1), NULL, 0);
    for (size_t index = 0; index < sizeof looks / sizeof *looks; index++) {
        const char *trouble = "nothing was told";
        s_trouble = looks [index].trouble;
        assert_int_equal (device_next_key_trouble (self, &trouble), looks [index].is_news);
        if (looks [index].is_news)
            assert_string_equal (trouble, s_trouble);
    }
    const char *trouble;
    assert_false (device_next_key_trouble (files, &trouble));
    device_destroy (&files);
    device_destroy (&self);
    store_destroy (&store);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup (its_files_and_memory, s_setup),
        cmocka_unit_test_setup (a_file_cannot_be_opened, s_setup),
        cmocka_unit_test_setup (it_is_probed_once, s_setup),
        cmocka_unit_test_setup (a_store, s_setup),
        cmocka_unit_test_setup (what_status_says_of_keys, s_setup),
        cmocka_unit_test_setup (trouble_with_keys, s_setup),
        cmocka_unit_test_setup (the_depth_follows_reads, s_setup),
        cmocka_unit_test_setup (caches_teach_nothing, s_setup),
        cmocka_unit_test_setup (pins_save_time, s_setup),
        cmocka_unit_test_setup (folders_have_a_least_depth, s_setup),
        cmocka_unit_test_setup (what_status_says, s_setup),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
