//  What a user names as a file: regular ones and unnamed pipes are read, everything else is told at once.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "file.h"
#include "scratch.h"

static char s_path [200];

//  Of read, pread, write and pwrite: how many bytes a call moves at most, which call fails (0: none), and
//  how.
static struct {
    size_t most;
    int calls, fails_at, error;
} s_reads;

//  Of an entry, and of the folder that it is in; NULL: as they are.
static struct stat *s_entry, *s_above;
static char s_asked [200];

int __real_lstat (const char *path, struct stat *status);
int __wrap_lstat (const char *path, struct stat *status);
int __real_stat (const char *path, struct stat *status);
int __wrap_stat (const char *path, struct stat *status);

int
__wrap_lstat (const char *path, struct stat *status)
{
    if (!s_entry)
        return __real_lstat (path, status);
    *status = *s_entry;
    return 0;
}

int
__wrap_stat (const char *path, struct stat *status)
{
    if (!s_above)
        return __real_stat (path, status);
    snprintf (s_asked, sizeof s_asked, "%s", path);
    *status = *s_above;
    return 0;
}

static bool
s_may (size_t *bytes)
{
    if (++s_reads.calls == s_reads.fails_at) {
        errno = s_reads.error;
        return false;
    }
    *bytes = s_reads.most && s_reads.most < *bytes? s_reads.most: *bytes;
    return true;
}

ssize_t __real_read (int fd, void *memory, size_t bytes);
ssize_t __wrap_read (int fd, void *memory, size_t bytes);

ssize_t
__wrap_read (int fd, void *memory, size_t bytes)
{
    return s_may (&bytes)? __real_read (fd, memory, bytes): -1;
}

ssize_t __real_pread (int fd, void *memory, size_t bytes, off_t offset);
ssize_t __wrap_pread (int fd, void *memory, size_t bytes, off_t offset);
ssize_t __real_pwrite (int fd, const void *memory, size_t bytes, off_t offset);
ssize_t __wrap_pwrite (int fd, const void *memory, size_t bytes, off_t offset);

ssize_t
__wrap_pread (int fd, void *memory, size_t bytes, off_t offset)
{
    return s_may (&bytes)? __real_pread (fd, memory, bytes, offset): -1;
}

ssize_t
__wrap_pwrite (int fd, const void *memory, size_t bytes, off_t offset)
{
    return s_may (&bytes)? __real_pwrite (fd, memory, bytes, offset): s_reads.error? -1: 0;
}

ssize_t __real_write (int fd, const void *memory, size_t bytes);
ssize_t __wrap_write (int fd, const void *memory, size_t bytes);

ssize_t
__wrap_write (int fd, const void *memory, size_t bytes)
{
    return s_may (&bytes)? __real_write (fd, memory, bytes): -1;
}

static const char *
s_in (const scratch_folder_t *scratch, const char *name)
{
    snprintf (s_path, sizeof s_path, "%s/%s", scratch->path, name);
    return s_path;
}

//  The fifo has no writer, so a wait for one would never end.
static void
test_what_is_no_regular_file_is_told_at_once (void **state)
{
    (void) state;
    scratch_folder_t scratch;
    assert_true (scratch_begin (&scratch));
    alarm (30);
    assert_int_equal (mkfifo (s_in (&scratch, "fifo"), 0600), 0);
    assert_int_equal (file_open (s_in (&scratch, "fifo")), -EINVAL);
    assert_int_equal (symlink ("fifo", s_in (&scratch, "link")), 0);
    assert_int_equal (file_open (s_in (&scratch, "link")), -EINVAL);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy (address.sun_path, s_in (&scratch, "socket"), strlen (s_in (&scratch, "socket")));
    int fd = socket (AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal (bind (fd, (struct sockaddr *) &address, sizeof address), 0);
    close (fd);
    assert_int_equal (file_open (s_in (&scratch, "socket")), -EINVAL);
    assert_int_equal (file_open ("/dev/null"), -EINVAL);
    assert_int_equal (file_open ("/dev/zero"), -EINVAL);
    assert_int_equal (file_open (scratch.path), -EISDIR);
    assert_int_equal (file_open (s_in (&scratch, "missing")), -ENOENT);
    assert_null (file_stream (s_in (&scratch, "fifo")));
    assert_string_equal (file_error (errno), "is no regular file");
    assert_string_equal (file_error (-ENOENT), strerror (ENOENT));
    alarm (0);
    assert_true (scratch_end (&scratch));
}

//  The pipe's writer may take its time.
static void
test_files_and_unnamed_pipes_are_read (void **state)
{
    (void) state;
    scratch_folder_t scratch;
    assert_true (scratch_begin (&scratch));
    FILE *file = fopen (s_in (&scratch, "file"), "w");
    assert_true (file && fputs ("words\n", file) >= 0 && fclose (file) == 0);
    char line [20];
    file = file_stream (s_in (&scratch, "file"));
    assert_true (file && fgets (line, sizeof line, file));
    assert_string_equal (line, "words\n");
    fclose (file);
    int pipes [2];
    assert_int_equal (pipe (pipes), 0);
    snprintf (s_path, sizeof s_path, "/dev/fd/%d", pipes [0]);
    file = file_stream (s_path);
    assert_non_null (file);
    pid_t child = fork ();
    if (child == 0) {
        usleep (50000);
        _exit (write (pipes [1], "later\n", 6) != 6);
    }
    assert_non_null (fgets (line, sizeof line, file));
    assert_string_equal (line, "later\n");
    fclose (file);
    close (pipes [0]);
    close (pipes [1]);
    assert_int_equal (waitpid (child, NULL, 0), child);
    assert_true (scratch_end (&scratch));
}

static void
test_a_file_is_read_whole_up_to_a_limit (void **state)
{
    (void) state;
    enum { SIZE = 20000 };
    scratch_folder_t scratch;
    assert_true (scratch_begin (&scratch));
    FILE *file = fopen (s_in (&scratch, "file"), "w");
    assert_non_null (file);
    for (int byte = 0; byte < SIZE; byte++)
        putc (byte % 251, file);
    assert_int_equal (fclose (file), 0);
    char *bytes;
    size_t size;
    assert_int_equal (file_whole (s_path, SIZE, &bytes, &size), 0);
    assert_int_equal (size, SIZE);
    for (int byte = 0; byte < SIZE; byte++)
        assert_int_equal ((uint8_t) bytes [byte], byte % 251);
    assert_int_equal (bytes [SIZE], 0);
    free (bytes);
    assert_int_equal (file_whole (s_path, SIZE - 1, &bytes, &size), -EFBIG);
    assert_null (bytes);
    assert_int_equal (truncate (s_path, 0), 0);
    assert_int_equal (file_whole (s_path, SIZE, &bytes, &size), 0);
    assert_true (size == 0 && bytes [0] == 0);
    free (bytes);
    assert_int_equal (file_whole (scratch.path, SIZE, &bytes, &size), -EISDIR);
    assert_int_equal (file_whole (s_in (&scratch, "missing"), SIZE, &bytes, &size), -ENOENT);
    //  A pipe does not say how much it holds.
    int fds [2];
    assert_int_equal (pipe (fds), 0);
    char many [SIZE];
    memset (many, 'x', sizeof many);
    assert_int_equal (write (fds [1], many, sizeof many), SIZE);
    close (fds [1]);
    snprintf (s_path, sizeof s_path, "/dev/fd/%d", fds [0]);
    assert_int_equal (file_whole (s_path, SIZE, &bytes, &size), 0);
    assert_int_equal (size, SIZE);
    assert_memory_equal (bytes, many, SIZE);
    free (bytes);
    close (fds [0]);
    assert_true (scratch_end (&scratch));
}

//  Must hold: a read that fails, whichever it is, is no end of the file: what was read before it is not taken
//  for the whole.  A signal in between changes nothing.
static void
test_a_failing_read_is_no_end (void **state)
{
    (void) state;
    scratch_folder_t scratch;
    assert_true (scratch_begin (&scratch));
    FILE *file = fopen (s_in (&scratch, "file"), "w");
    assert_true (file && fputs ("0123456789", file) >= 0 && fclose (file) == 0);
    for (int fails_at = 1; fails_at <= 5; fails_at++)
        for (int is_signal = 0; is_signal < 2; is_signal++) {
            char *bytes;
            size_t size;
            s_reads.calls = 0;
            s_reads.most = 3;                   //  four reads, and one that finds the end
            s_reads.fails_at = fails_at;
            s_reads.error = is_signal? EINTR: EIO;
            assert_int_equal (file_whole (s_path, 100, &bytes, &size), is_signal? 0: -EIO);
            if (is_signal)
                assert_string_equal (bytes, "0123456789");
            else
                assert_null (bytes);
            assert_int_equal (size, is_signal? 10: 0);
            free (bytes);
        }
    s_reads.most = 0;
    s_reads.fails_at = 0;
    assert_true (scratch_end (&scratch));
}

//  Guards: neither a call that moves a part, nor one that a signal interrupts, ends a range; a failing one
//  does, with its error; and the file's end is told from it.
static void
test_a_range_is_written_and_read_whole (void **state)
{
    (void) state;
    scratch_folder_t scratch;
    char memory [20];
    assert_true (scratch_begin (&scratch));
    int fd = open (s_in (&scratch, "range"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true (fd >= 0);
    s_reads.most = 3;
    s_reads.calls = 0, s_reads.fails_at = 2, s_reads.error = EINTR;
    assert_int_equal (file_write_at (fd, "0123456789", 10, 4), 0);
    assert_int_equal (s_reads.calls, 5);
    s_reads.calls = 0;
    assert_int_equal (file_read_at (fd, memory, 10, 4), 10);
    assert_memory_equal (memory, "0123456789", 10);
    errno = 0;
    assert_int_equal (file_read_at (fd, memory, sizeof memory, 9), 5);
    assert_int_equal (errno, 0);
    s_reads.calls = 0, s_reads.error = EIO;
    assert_int_equal (file_read_at (fd, memory, 10, 4), 3);
    assert_int_equal (errno, EIO);
    s_reads.calls = 0, s_reads.error = ENOSPC;
    assert_int_equal (file_write_at (fd, "abcdefghij", 10, 4), -ENOSPC);
    s_reads.calls = 0, s_reads.error = 0;       //  nothing is written, and no reason given
    assert_int_equal (file_write_at (fd, "abcdefghij", 10, 4), -EIO);
    memset (&s_reads, 0, sizeof s_reads);
    assert_int_equal (file_read_at (fd, memory, 10, 4), 10);
    assert_memory_equal (memory, "abc3456789", 10);
    s_reads.most = 3;
    s_reads.calls = 0, s_reads.fails_at = 2, s_reads.error = EINTR;
    assert_int_equal (lseek (fd, 5, SEEK_SET), 5);
    assert_int_equal (file_write (fd, "klmnopq", 7), 0);
    assert_int_equal (s_reads.calls, 4);
    s_reads.calls = 0, s_reads.error = ENOSPC;
    assert_int_equal (file_write (fd, "uvwxyz", 6), -ENOSPC);
    memset (&s_reads, 0, sizeof s_reads);
    assert_int_equal (file_read_at (fd, memory, sizeof memory, 4), 11);
    assert_memory_equal (memory, "aklmnopquvw", 11);
    close (fd);
    assert_true (scratch_end (&scratch));
}

//  Must hold: in a folder where all may write, as /tmp, what is of another user is foreign: not of this one,
//  of root or of the folder's owner.  In a folder where others may not write nothing is.
static void
test_what_is_foreign (void **state)
{
    (void) state;
    uid_t own = geteuid (), owners [] = { 0, own, 7001, 7002 };
    static const mode_t modes [] = { 0700, 0755, 0770, 0775, 0777, 01777, 0702 };
    static const struct { const char *path, *folder; } paths [] = { { "/tmp/a", "/tmp" },
        { "/tmp/a/", "/tmp" }, { "a", "." }, { "/a", "/" }, { "b/a//", "b" } };
    for (size_t path = 0; path < sizeof paths / sizeof *paths; path++)
        for (size_t mode = 0; mode < sizeof modes / sizeof *modes; mode++)
            for (size_t owner = 0; owner < 4; owner++) {
                struct stat entry = { .st_uid = owners [owner] },
                    above = { .st_mode = S_IFDIR | modes [mode], .st_uid = 7002 };
                s_entry = &entry;
                s_above = &above;
                bool is_foreign = file_is_foreign (paths [path].path);
                s_entry = s_above = NULL;
                assert_string_equal (s_asked, paths [path].folder);
                if (is_foreign != (owners [owner] == 7001 && (modes [mode] & 0002)))
                    fail_msg ("%s, folder %o, owner %u", paths [path].path, (unsigned) modes [mode],
                        (unsigned) owners [owner]);
            }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_what_is_no_regular_file_is_told_at_once),
        cmocka_unit_test (test_files_and_unnamed_pipes_are_read),
        cmocka_unit_test (test_a_file_is_read_whole_up_to_a_limit),
        cmocka_unit_test (test_a_failing_read_is_no_end),
        cmocka_unit_test (test_a_range_is_written_and_read_whole),
        cmocka_unit_test (test_what_is_foreign)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
