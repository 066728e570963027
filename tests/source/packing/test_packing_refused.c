/*  Packing that is refused in words: targets that cannot be, other settings than it was begun with, too
 *  little room or memory, and damage to what was done so far.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "packing_play.h"
#include "packing_state.h"
#include "scratch.h"

#include <sys/file.h>

static void
test_targets_that_cannot_be (void **state)
{
    play_source_t source = { 120, 3000, true };
    play_make_source (*state, &source, 5);
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "pack"));
    play_run_well (&job);
    play_assert_refused (&job, -EEXIST, "is a pack already", "choose another folder");
    job.options.resume = true;
    play_run_well (&job);
    assert_true (job.result.was_finished);
    assert_int_equal (job.result.samples, 120);
    assert_int_equal (job.result.chunks, 2);
    job.options.seed = 2;
    play_assert_refused (&job, -EINVAL, "begun with seed 1", "give that or none");
    play_prepare (*state, &job, &source, play_in (*state, "half"));
    play_run_until (&job, 50);
    play_assert_refused (&job, -EEXIST, "is an unfinished pack", "--resume");
    assert_int_equal (mkdir (play_in (*state, "full"), 0700), 0);
    play_make_file (play_in (*state, "full/a"), 3, 1);
    play_prepare (*state, &job, &source, play_in (*state, "full"));
    play_assert_refused (&job, -EEXIST, "holds something that is no pack", "an empty folder");
    job.options.target = play_in (*state, "full/a");
    play_assert_refused (&job, -ENOTDIR, "is not a folder", "another name");
    job.options.target = play_in (*state, "nowhere/pack");
    play_assert_refused (&job, -ENOENT, "cannot make", "its parent is not there");
    assert_int_equal (symlink ("nowhere", play_in (*state, "link")), 0);
    job.options.target = play_in (*state, "link");
    play_assert_refused (&job, -ENOENT, "cannot open '", "/link");
    job.options.target = play_in (*state, "data/c000/pack");
    play_assert_refused (&job, -EINVAL, "which is to be packed", "a folder outside");
    job.options.target = play_in (*state, "data/");
    play_assert_refused (&job, -EEXIST, "holds something", "");
    job.options.target = play_in (*state, "masks/pack/");
    play_assert_refused (&job, -EINVAL, "which is to be packed", "a folder outside");
    assert_int_equal (mkdir (play_in (*state, "empty"), 0700), 0);
    job.options.target = play_in (*state, "empty");
    play_run_well (&job);
}

static void
test_a_second_process_is_refused (void **state)
{
    play_source_t source = { 120, 3000, false };
    play_make_source (*state, &source, 5);
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "pack"));
    play_run_until (&job, 50);
    int fd = open (play_in (*state, "pack"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal (flock (fd, LOCK_EX | LOCK_NB), 0);
    job.options.resume = true;
    play_assert_refused (&job, -EBUSY, "another process", "wait for it");
    close (fd);
    play_run_well (&job);
    play_assert_holds (&job);
}

static void
test_what_was_begun_is_kept_to (void **state)
{
    play_source_t source = { 120, 3000, false };
    play_make_source (*state, &source, 5);
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "pack"));
    job.options.chunk_samples = 100;
    play_assert_refused (&job, -EINVAL, "a multiple of 64", "");
    job.options.chunk_samples = 0;
    job.options.memory_bytes = 1000;
    play_assert_refused (&job, -EINVAL, "too few", "");
    job.options.memory_bytes = PACKING_MEMORY_BYTES_MIN;
    play_run_until (&job, 200);
    job.options.resume = true;
    job.options.seed = 2;
    play_assert_refused (&job, -EINVAL, "begun with seed 1", "give that or none");
    job.options.seed = 1;
    job.options.chunk_samples = 128;
    play_assert_refused (&job, -EINVAL, "chunks of 64", "give that or none");
    job.options.chunk_samples = 64;
    //  Written over by as many bytes.
    struct timespec times [2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    assert_int_equal (utimensat (AT_FDCWD, play_in (*state, "data/c001/00101.jpg"), times, 0), 0);
    play_assert_refused (&job, -ESTALE, "changed since", "begin anew");
}

//  By one PUT a store takes 5 GiB.
static void
test_volumes_that_no_store_takes (void **state)
{
    (void) state;
    char error [PACK_SOURCE_ERROR_BYTES] = "";
    packing_options_t options = { .target = "x" };
    packing_t packing = { .options = &options, .error = error };
    pack_volume_t volumes [] = { { .bytes = UINT64_C (1) << 30 }, { .bytes = UINT64_C (5) << 30 },
        { .bytes = (UINT64_C (5) << 30) + PACK_BLOCK_BYTES } };
    assert_int_equal (packing_upload_check (&packing, volumes, 2), 0);
    assert_string_equal (error, "");
    assert_int_equal (packing_upload_check (&packing, volumes, 3), -EFBIG);
    assert_non_null (strstr (error, "volume-00002.tureen will have 5368713216 bytes"));
    assert_non_null (strstr (error, "a smaller --chunk or --volume"));
}

//  The pack's own field would be another of the same name, or hide it.
static void
test_a_name_that_the_pack_has (void **state)
{
    play_source_t source = { 120, 3000, true };
    play_make_source (*state, &source, 5);
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "pack"));
    job.field.name = "jpeg_rows";
    for (int round = 0; round < 2; round++) {
        job.field.is_mask = round;
        play_assert_refused (&job, -EINVAL, "cannot have the name 'jpeg_rows'", "another name");
        assert_int_equal (access (play_in (*state, "pack"), F_OK), -1);
    }
    FILE *table = fopen (play_in (*state, "data/labels.tsv"), "w");
    assert_non_null (table);
    fputs ("path\tjpeg_rows\nc000/00000.jpg\t1\n", table);
    fclose (table);
    job.options.source.field_count = 0;
    play_assert_refused (&job, -EINVAL, "cannot have the name 'jpeg_rows'", "another name");
    assert_int_equal (access (play_in (*state, "pack"), F_OK), -1);
}

static void
test_no_room (void **state)
{
    play_source_t source = { 120, 3000, false };
    play_make_source (*state, &source, 5);
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "pack"));
    play_free_blocks = 1;
    play_assert_refused (&job, -ENOSPC, "MiB free", "free room");
    assert_int_equal (access (play_in (*state, "pack"), F_OK), -1);     //  nothing was begun, nothing is left
    assert_int_equal (mkdir (play_in (*state, "pack"), 0700), 0);
    play_assert_refused (&job, -ENOSPC, "MiB free", "free room");
    assert_int_equal (rmdir (play_in (*state, "pack")), 0);             //  it was there, and is as it was
    play_free_blocks = 0;
    job.options.resume = true;
    play_run_well (&job);
    play_assert_holds (&job);
}

//  Bytes that all files below take on the disk.
static uint64_t
s_taken (const char *folder)
{
    DIR *directory = opendir (folder);
    uint64_t bytes = 0;
    assert_non_null (directory);
    for (struct dirent *entry; (entry = readdir (directory));) {
        char path [PATH_MAX];
        struct stat status;
        snprintf (path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strcmp (entry->d_name, ".") == 0 || strcmp (entry->d_name, "..") == 0
            || lstat (path, &status) != 0)
            continue;
        bytes += S_ISDIR (status.st_mode)? s_taken (path): (uint64_t) status.st_blocks * 512;
    }
    closedir (directory);
    return bytes;
}

static uint64_t most_taken;

static void
s_look_at_room (void *context, const packing_progress_t *progress)
{
    const play_job_t *job = context;
    (void) progress;
    uint64_t taken = s_taken (job->options.target);
    most_taken = taken > most_taken? taken: most_taken;
}

//  What is asked for before it begins is what it takes, and little more, of few samples and of many, in one
//  bucket or several.
static void
test_the_room_that_is_asked_for_is_what_it_takes (void **state)
{
    const struct { play_source_t source; uint32_t buckets; } cases [] = {
        { { 40, 300, false }, 0 }, { { 40, 40000, false }, 1 }, { { 600, 4000, true }, 4 },
        { { 1500, 100, false }, 2 }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        char name [32];
        scratch_folder_t *scratch = *state, inner = *scratch;
        snprintf (name, sizeof name, "%zu", index);
        assert_int_equal (mkdir (play_in (*state, name), 0700), 0);
        assert_true (strlen (scratch->path) + strlen (name) + 1 < sizeof inner.path);
        strcpy (inner.path, play_in (*state, name));
        play_make_source (&inner, &cases [index].source, 5);
        play_job_t job;
        play_prepare (&inner, &job, &cases [index].source, play_in (&inner, "pack"));
        job.options.buckets = cases [index].buckets;
        play_free_blocks = 1;
        play_assert_refused (&job, -ENOSPC, "MiB free", "free room");
        play_free_blocks = 0;
        double asked = 0;
        const char *text = strstr (job.error, "takes about ");
        assert_true (text && sscanf (text, "takes about %lf:", &asked) == 1);
        asked *= 1 << 20;
        most_taken = 0;
        job.options.progress = s_look_at_room;
        job.options.context = &job;
        play_run_well (&job);
        s_look_at_room (&job, NULL);
        if (asked < (double) most_taken - 60000 || asked > 1.5 * (double) most_taken + 200000)
            fail_msg ("case %zu: %.0f bytes were asked for, and %llu taken", index, asked,
                (unsigned long long) most_taken);
    }
}

//  A sample that memory has no room for is told with the figure that it takes, and that is enough.
static void
test_sample_beyond_memory (void **state)
{
    play_source_t source = { 20, 3000, false };
    play_make_source (*state, &source, 5);
    play_make_file (play_in (*state, "data/c000/00007.jpg"), 3000000, 1);
    play_job_t job;
    play_prepare (*state, &job, &source, play_in (*state, "pack"));
    play_assert_refused (&job, -EFBIG, "sample 7 has 3000000 bytes", "at least 6000000");
    job.options.resume = true;
    job.options.memory_bytes = 6000000;
    play_run_until (&job, 22);                  //  in pass 2, before the first sample
    job.options.memory_bytes = PACKING_MEMORY_BYTES_MIN;
    play_assert_refused (&job, -EFBIG, "sample 7 has 3000048 bytes", "give --memory");
    job.options.memory_bytes = 6000096;
    play_run_well (&job);
    play_assert_holds (&job);
}

static void
flip (const char *path, long at)
{
    FILE *file = fopen (path, "r+b");
    assert_non_null (file);
    fseek (file, at, SEEK_SET);
    int byte = getc (file);
    fseek (file, at, SEEK_SET);
    putc (byte ^ 1, file);
    fclose (file);
}

//  What a disk did to the work done so far is told, and never packed.
static void
test_damage_is_told (void **state)
{
    play_source_t source = { 120, 30000, false };
    play_make_source (*state, &source, 5);
    static const struct { const char *name; int code; } cases [] = {
        { "pack/packing/bucket-00000", -EBADMSG }, { "pack/packing/table", 0 },
        { "pack/packing/journal", -EBADMSG }
    };
    for (size_t index = 0; index < 3; index++)
        for (int cut = 0; cut < 2; cut++) {
            play_job_t job;
            play_prepare (*state, &job, &source, play_in (*state, "pack"));
            job.options.buckets = 1;
            play_run_until (&job, 123);         //  in pass 2, before the first sample
            if (cut)
                assert_int_equal (truncate (play_in (*state, cases [index].name), 20), 0);
            else
                flip (play_in (*state, cases [index].name), 40);
            job.options.resume = true;
            int rc = play_run (&job);
            if (rc == 0 || !strstr (job.error, "begin anew")
                    || (!cut && cases [index].code && rc != cases [index].code))
                fail_msg ("%s, %d: %d '%s'", cases [index].name, cut, rc, job.error);
            assert_int_not_equal (access (play_in (*state, "pack/index.tureen"), F_OK), 0);
            power_remove (play_in (*state, "pack"));
        }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_targets_that_cannot_be, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_a_second_process_is_refused, play_begin, play_end),
        cmocka_unit_test (test_volumes_that_no_store_takes),
        cmocka_unit_test_setup_teardown (test_what_was_begun_is_kept_to, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_a_name_that_the_pack_has, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_no_room, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_the_room_that_is_asked_for_is_what_it_takes, play_begin,
            play_end),
        cmocka_unit_test_setup_teardown (test_sample_beyond_memory, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_damage_is_told, play_begin, play_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
